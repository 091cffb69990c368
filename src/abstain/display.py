"""Pictures of results: small frozen numbers with `frame()` beside `plot(ax)`; matplotlib only inside plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain._arrays import Array
from abstain._tables import frame
from abstain.errors import MissingDependencyError
from abstain.metrics.points import RiskCoverageCurve, risk_coverage_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CurveLine", "IntervalDisplay", "RiskCoverageDisplay", "thinned"]


# axes ---------------------------------------------------------------------------------------------
#
# The one place that asks matplotlib for axes.


def axes(ax: Any = None, *, height: float = 4.0, width: float = 6.4) -> Any:
    """`ax` itself, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingDependencyError("Plotting", "matplotlib", "plot") from None
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


# curves -------------------------------------------------------------------------------------------
#
# Risk-coverage curves as pictures: frozen numbers, `frame()`, `plot(ax)`.


_POINTS = 201


@dataclass(frozen=True)
class CurveLine:
    """One curve: selective risk at each coverage, from the most confident down."""

    name: str
    coverage: tuple[float, ...]
    risk: tuple[float, ...]


def thinned(name: str, coverage: np.ndarray, risk: np.ndarray, points: int = _POINTS) -> CurveLine:
    """At most about `points` points of a curve, see `shown_points`."""
    keep = shown_points(coverage, points)
    return CurveLine(name, tuple(coverage[keep].tolist()), tuple(risk[keep].tolist()))


def shown_points(coverage: np.ndarray, points: int = _POINTS) -> np.ndarray:
    """Places of at most about `points` points, evenly in coverage, the first and the last always among them."""
    grid = np.linspace(coverage[0], coverage[-1], points)
    return np.unique(np.minimum(np.searchsorted(coverage, grid), len(coverage) - 1))


@dataclass(frozen=True)
class RiskCoverageDisplay:
    """Curves to be drawn together; accept when the confidence is at least a threshold."""

    lines: tuple[CurveLine, ...]
    label: str = "selective risk"

    @classmethod
    def from_predictions(
        cls,
        loss: Array,
        confidence: Array,
        /,
        *,
        name: str = "",
        sample_weight: Array | None = None,
        abstained: Array | None = None,
    ) -> RiskCoverageDisplay:
        """The curve of one vector of losses and confidences."""
        curve = risk_coverage_curve(loss, confidence, sample_weight=sample_weight, abstained=abstained)
        return cls.from_curves({name: curve})

    @classmethod
    def from_curves(cls, curves: dict[str, RiskCoverageCurve]) -> RiskCoverageDisplay:
        """Curves by name."""
        return cls(tuple(thinned(name, c.coverage, c.risk) for name, c in curves.items()))

    def frame(self, library: str | None = None) -> Any:
        """One row per point: name, coverage, risk."""
        columns: dict[str, list[Any]] = {
            "name": [line.name for line in self.lines for _ in line.coverage],
            "coverage": [c for line in self.lines for c in line.coverage],
            "risk": [r for line in self.lines for r in line.risk],
        }
        return frame(columns, library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw on `ax` (or on a new figure) and give the axes back."""
        ax = axes(ax)
        for line in self.lines:
            ax.plot(line.coverage, line.risk, label=line.name or None, linewidth=1.5)
        ax.set_xlabel("coverage")
        ax.set_ylabel(self.label)
        ax.set_xlim(0, 1)
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
        if any(line.name for line in self.lines):
            ax.legend(fontsize="small")
        return ax


# intervals ----------------------------------------------------------------------------------------
#
# Estimates with their error bars, one below the other.


@dataclass(frozen=True)
class IntervalDisplay:
    """Names with estimates and intervals; an interval may be absent (None)."""

    names: tuple[str, ...]
    estimates: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    label: str = ""
    notes: tuple[str, ...] = ()

    def frame(self, library: str | None = None) -> Any:
        """One row per name."""
        columns: dict[str, Sequence[Any]] = {
            "name": self.names,
            "estimate": self.estimates,
            "low": self.low,
            "high": self.high,
        }
        return frame(columns, library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw on `ax` (or on a new figure) and give the axes back; the first name is on top."""
        ax = axes(ax, height=0.9 + 0.32 * len(self.names))
        places = range(len(self.names), 0, -1)
        for place, value, low, high in zip(places, self.estimates, self.low, self.high):
            if low is not None and high is not None:
                ax.plot([low, high], [place, place], color="C0", linewidth=2, solid_capstyle="butt")
            ax.plot([value], [place], "o", color="C0", markersize=5)
        labels = self.names if not self.notes else [f"{n}  {t}" for n, t in zip(self.names, self.notes)]
        ax.set_yticks(list(places), list(labels))
        ax.set_ylim(0.4, len(self.names) + 0.6)
        ax.set_xlabel(self.label)
        ax.grid(axis="x", alpha=0.3)
        return ax
