"""The table a threshold was chosen from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain._tables import frame
from abstain.thresholds._calibration import Calibration

COLUMNS = ("value", "accepted", "coverage", "risk", "p_value", "level", "passed")


@dataclass(frozen=True, eq=False)
class Candidates:
    """One row per threshold that was looked at, from few accepted to many.

    value: accept when `confidence >= value`. accepted: samples at or above it. p_value: of "the risk here is above
    the target"; level: what it was compared with (both NaN where nothing was tested). passed: could be chosen.
    """

    value: np.ndarray
    accepted: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    p_value: np.ndarray
    level: np.ndarray
    passed: np.ndarray

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        return f"Candidates({len(self)} thresholds, {int(self.passed.sum())} passed)"

    def columns(self) -> dict[str, list[Any]]:
        """Plain lists by name."""
        return {name: getattr(self, name).tolist() for name in COLUMNS}

    def frame(self, library: str | None = None) -> Any:
        """A pandas or polars frame (whichever is there), or a dict of lists."""
        return frame(self.columns(), library)


def tabulate(
    cal: Calibration,
    count: np.ndarray,
    value: np.ndarray,
    passed: np.ndarray,
    p_value: np.ndarray | None = None,
    level: np.ndarray | None = None,
) -> Candidates:
    """Rows of one count are one threshold: it passed if any of its tests did."""
    if not len(count):
        empty = np.zeros(0)
        return Candidates(empty, empty.astype(np.int64), empty, empty, empty, empty, empty.astype(bool))
    unknown = np.full(len(count), np.nan)
    p_value, level = unknown if p_value is None else p_value, unknown if level is None else level
    starts = np.flatnonzero(np.append(True, count[1:] != count[:-1]))
    some = count[starts] > 0
    rows = starts[some]

    def merged(rule: np.ufunc, x: np.ndarray) -> np.ndarray:
        return np.asarray(rule.reduceat(x, starts))[some]

    return Candidates(
        value=value[rows],
        accepted=count[rows].astype(np.int64),
        coverage=cal.coverage(count[rows]),
        risk=cal.risk(count[rows]),
        p_value=p_value[rows],
        level=merged(np.maximum, level),
        passed=merged(np.logical_or, passed),
    )
