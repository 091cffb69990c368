"""The result: a threshold and what it promises. Needs numpy only, so that a server can load and use it."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain._arrays import Array, to_host
from abstain.thresholds.advice import Advice
from abstain.thresholds.candidates import Candidates

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.axes import Axes

    from abstain.thresholds.monitor import Check


@dataclass(frozen=True, eq=False)
class Reference:
    """The confidences of the calibration data, as counts at or above some of them: what later data are held against."""

    value: np.ndarray
    at_least: np.ndarray
    n: int


@dataclass(frozen=True, eq=False)
class Threshold:
    """Accept when `confidence >= value`; `value` is None when no threshold keeps the promise asked for.

    coverage, risk: on the calibration data. coverage_interval: holds for all thresholds at once, level 1 - delta.
    risk_upper: the certified bound when there is a guarantee on the risk; otherwise a limit at level 1 - delta for
    this one threshold, which the choice of the threshold makes a little too small. guarantee: what is promised, in
    words, or None. note: what to know besides. table: the thresholds it was chosen from. advice: what would be
    feasible, when nothing is.
    """

    value: float | None
    form: str
    target: float
    method: str
    delta: float
    n: int
    coverage: float
    coverage_interval: tuple[float, float]
    risk: float | None
    risk_upper: float | None
    guarantee: str | None
    note: str | None
    bounded: tuple[float, float]
    table: Candidates
    reference: Reference
    advice: Advice | None = None

    @property
    def feasible(self) -> bool:
        """Is there a threshold?"""
        return self.value is not None

    @property
    def rule(self) -> str:
        """What to do with a new sample, in one line."""
        if self.value is None:
            return "accept nothing"
        return "accept everything" if self.value == -np.inf else f"confidence >= {self.value!r}"

    def accepts(self, confidence: Array) -> np.ndarray:
        """Which samples to accept; a NaN never is. Compared in double precision, as tested.

        >>> from abstain import select_threshold
        >>> t = select_threshold([0, 0, 1], [0.9, 0.8, 0.1], risk=0.2, method="empirical")
        >>> t.accepts([0.95, 0.8, 0.3]).tolist()
        [True, True, False]
        """
        g = np.asarray(to_host(confidence), dtype=np.float64)
        return np.zeros(g.shape, dtype=bool) if self.value is None else np.asarray(g >= self.value)

    def check(self, loss: Array, confidence: Array, *, previous: Check | None = None) -> Check:
        """Does the promise still hold on later data? See `abstain.thresholds.monitor`."""
        from abstain.thresholds.monitor import check

        return check(self, loss, confidence, previous)

    def to_json(self) -> str:
        """Everything needed to use the threshold and to check its promise."""
        from abstain.thresholds.stored import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Threshold:
        """The threshold that `to_json` wrote."""
        from abstain.thresholds.stored import from_json

        return from_json(text)

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON to a file."""
        from pathlib import Path

        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Threshold:
        """Read what `save` wrote."""
        from pathlib import Path

        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def frame(self, library: str | None = None) -> Any:
        """The table of candidates as a data frame."""
        return self.table.frame(library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Risk against coverage at the candidates, the target and the choice; returns the axes."""
        from abstain.thresholds.drawing import plot_threshold

        return plot_threshold(self, ax)

    def facts(self) -> list[tuple[str, str]]:
        """What the repr and the HTML view show."""
        low, high = self.coverage_interval
        rows = [("rule", self.rule), ("asked for", f"{self.form} = {self.target:g}, method {self.method}")]
        if self.value is not None:
            rows.append(("coverage", f"{self.coverage:.4f}  [{low:.4f}, {high:.4f}]"))
            bound = "" if self.risk_upper is None else f"  (at most {self.risk_upper:.4g})"
            rows.append(("risk", f"{self.risk:.4g}{bound}"))
        rows.append(("calibration", f"n = {self.n}, delta = {self.delta:g}"))
        rows.append(("guarantee", self.guarantee or "none"))
        if self.note:
            rows.append(("note", self.note))
        if self.advice is not None:
            rows.append(("feasible", str(self.advice)))
        return rows

    def __repr__(self) -> str:
        head = "Threshold" if self.feasible else "Threshold: no feasible threshold"
        return "\n".join([head, *(f"  {name + ':':<13}{text}" for name, text in self.facts())])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in self.facts()
        )
        return f"<table class='abstain-threshold'><tbody>{cells}</tbody></table>"
