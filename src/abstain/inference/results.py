"""What inference answers with: small frozen records that read like a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


def _percent(level: float) -> str:
    return f"{100 * level:g}%"


@dataclass(frozen=True, repr=False)
class Interval:
    """An estimate with its error bar.

    `centre` says what the interval is built around: "loo" (the leave-one-out estimate of the area, less
    biased), "estimate", "replicates" (bootstrap) or "bound" (a one-sided limit, where the sample leaves no
    spread to measure).
    """

    metric: str
    estimate: float
    standard_error: float
    low: float
    high: float
    level: float
    method: str
    n: int
    centre: str = "estimate"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __repr__(self) -> str:
        around = {"loo": ", centred at loo", "bound": ", one-sided bound"}.get(self.centre, "")
        return (
            f"{self.metric} {self.estimate:.4g}, {_percent(self.level)} interval "
            f"[{self.low:.4g}, {self.high:.4g}], standard error {self.standard_error:.2g} "
            f"({self.method}{around}, n = {self.n})"
        )


@dataclass(frozen=True, repr=False)
class GroupedIntervals:
    """An interval within each group, and one for their plain mean (`macro`, groups taken as independent)."""

    metric: str
    intervals: dict[Any, Interval]
    macro: Interval

    def __getitem__(self, group: Any) -> Interval:
        return self.intervals[group]

    def __repr__(self) -> str:
        rows = [
            f"  {g!s:<16} {i.estimate:.4g} [{i.low:.4g}, {i.high:.4g}]  (n = {i.n})"
            for g, i in self.intervals.items()
        ]
        m = self.macro
        return "\n".join(
            [f"{self.metric} by group:", *rows, f"  macro {m.estimate:.4g} [{m.low:.4g}, {m.high:.4g}]"]
        )


@dataclass(frozen=True, repr=False)
class Difference:
    """`estimate_a - estimate_b` with its error bar and the p-value of "no difference"."""

    metric: str
    difference: float
    standard_error: float
    low: float
    high: float
    p_value: float
    level: float
    n: int
    estimate_a: float
    estimate_b: float
    paired: bool
    note: str = ""  # why there is no verdict, where there is none

    @property
    def significant(self) -> bool:
        """Does the interval leave zero out?"""
        return self.p_value < 1 - self.level

    def __repr__(self) -> str:
        kind = "paired" if self.paired else "unpaired"
        return (
            f"{self.metric}: {self.estimate_a:.4g} - {self.estimate_b:.4g} = {self.difference:.3g}, "
            f"{_percent(self.level)} interval [{self.low:.3g}, {self.high:.3g}], "
            f"{self.note or f'p = {self.p_value:.3g}'} ({kind}, n = {self.n})"
        )


@dataclass(frozen=True, repr=False)
class CurveBand:
    """A band that holds the whole risk-coverage curve at once, with probability about `level`."""

    coverage: np.ndarray
    risk: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float
    method: str
    n: int

    def __repr__(self) -> str:
        return (
            f"CurveBand({_percent(self.level)} simultaneous, {len(self.coverage)} coverages from "
            f"{self.coverage[0]:.3g} to {self.coverage[-1]:.3g}, {self.method}, n = {self.n})"
        )


@dataclass(frozen=True, repr=False)
class Influences:
    """An estimate and each sample's influence: `sqrt(sum((w * values)**2)) / sum(w)` is its error."""

    metric: str
    estimate: float
    values: np.ndarray

    def __repr__(self) -> str:
        return f"Influences({self.metric} {self.estimate:.4g}, n = {len(self.values)})"
