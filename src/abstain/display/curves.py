"""Risk-coverage curves as pictures: frozen numbers, `frame()`, `plot(ax)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain._arrays import Array
from abstain._tables import frame
from abstain.display._axes import axes
from abstain.metrics.curve import RiskCoverageCurve, risk_coverage_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 201


@dataclass(frozen=True)
class CurveLine:
    """One curve: selective risk at each coverage, from the most confident down."""

    name: str
    coverage: tuple[float, ...]
    risk: tuple[float, ...]


def thinned(name: str, coverage: np.ndarray, risk: np.ndarray, points: int = _POINTS) -> CurveLine:
    """At most about `points` points of a curve, evenly in coverage, the first and the last always among
    them.
    """
    grid = np.linspace(coverage[0], coverage[-1], points)
    keep = np.unique(np.minimum(np.searchsorted(coverage, grid), len(coverage) - 1))
    return CurveLine(name, tuple(coverage[keep].tolist()), tuple(risk[keep].tolist()))


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
