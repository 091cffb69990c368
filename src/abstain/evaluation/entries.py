"""One number of a table, with its interval or the reason it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from abstain import _tables


@dataclass(frozen=True)
class Entry:
    """One number of the table. Without an `estimate` (or without an interval) `reason` says why."""

    score: str
    loss: str
    metric: str
    label: str
    lower_is_better: bool
    estimate: float | None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    method: str | None = None
    n: int = 0
    group: Any = None
    reason: str | None = None

    def __repr__(self) -> str:
        where = "" if self.group is None else f" in group {self.group!r}"
        return f"{self.label} of {self.score} ({self.loss}{where}): {self.cell}"

    @property
    def cell(self) -> str:
        """The number as a table shows it."""
        if self.estimate is None:
            return "-"
        if self.low is None:
            return _tables.number(self.estimate)
        return f"{self.estimate:.4g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class TopTies:
    """How many samples share the largest confidence of a score, and of how many."""

    score: str
    tied: int
    n: int
