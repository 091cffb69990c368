"""Pictures of results: small frozen numbers with `frame()` beside `plot(ax)`; matplotlib only inside plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain import losses, scores
from abstain._arrays import Array, to_host
from abstain._plots import SHOWN_POINTS, draw_curves, make_axes, select_drawn_points
from abstain._tables import escape_controls, make_frame
from abstain.errors import InputError
from abstain.inference.records import CurveBand
from abstain.metrics.points import RiskCoverageCurve, risk_coverage_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CurveLine", "IntervalDisplay", "RiskCoverageDisplay", "thinned"]


@dataclass(frozen=True)
class CurveLine:
    """One curve: selective risk at each coverage, from the most confident down.

    Parameters
    ----------
    name : str
        In the legend.
    coverage, risk : tuple of float
        The points.

    Examples
    --------
    >>> CurveLine("mine", coverage=(0.5, 1.0), risk=(0.0, 0.25)).risk[-1]
    0.25
    """

    name: str
    coverage: tuple[float, ...]
    risk: tuple[float, ...]


def thinned(name: str, coverage: np.ndarray, risk: np.ndarray, points: int = SHOWN_POINTS) -> CurveLine:
    """At most about `points` points of a curve, evenly in coverage, the first and the last always among them.

    Parameters
    ----------
    name : str
        Of the line.
    coverage, risk : array, shape (m,)
        The curve, from the most confident down.
    points : int
        About how many to keep.

    Returns
    -------
    CurveLine

    Examples
    --------
    >>> thinned("mine", np.linspace(0.001, 1, 1000), np.linspace(0, 0.3, 1000), points=3).coverage
    (0.001, 0.501, 1.0)
    """
    keep = select_drawn_points(coverage, points)
    return CurveLine(name, tuple(coverage[keep].tolist()), tuple(risk[keep].tolist()))


@dataclass(frozen=True)
class RiskCoverageDisplay:
    """Curves to be drawn together; accept when the confidence is at least a threshold.

    Parameters
    ----------
    lines : tuple of CurveLine
        The curves.
    label : str
        Of the vertical axis.
    bands : tuple of (name, CurveBand)
        Drawn around the curve of that name.

    Examples
    --------
    >>> display = RiskCoverageDisplay.from_losses([0, 0, 1, 0], [0.9, 0.8, 0.2, 0.5], name="mine")
    >>> display.frame("dict")["risk"]
    [0.0, 0.0, 0.0, 0.25]
    """

    lines: tuple[CurveLine, ...]
    label: str = "selective risk"
    bands: tuple[tuple[str, CurveBand], ...] = ()

    @classmethod
    def from_predictions(
        cls, labels: Array, probs: Array, /, *, score: str = "max_softmax", **options: Any
    ) -> RiskCoverageDisplay:
        """The curve of the 0/1 loss: class indices and probabilities, (n, K) or those of class 1 alone, (n,).

        Options are those of `from_losses`.

        >>> RiskCoverageDisplay.from_predictions([1, 0, 0], [0.9, 0.8, 0.1]).lines[0].risk[-1]
        0.3333333333333333
        """
        given = np.asarray(to_host(probs), dtype=np.float64)
        both = np.stack([1 - given, given], axis=-1) if given.ndim == 1 else given
        try:
            wrong = losses.zero_one(probs=both, labels=to_host(labels))
            confidence = scores.by_name(score)(probs=both)
        except InputError as error:
            told = f"{error} Losses and confidences go to `from_losses`."
            raise InputError(f"RiskCoverageDisplay.from_predictions: {told}") from error
        return cls.from_losses(wrong, confidence, **options)

    @classmethod
    def from_losses(
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
    def from_curves(
        cls, curves: dict[str, RiskCoverageCurve], bands: dict[str, CurveBand] | None = None
    ) -> RiskCoverageDisplay:
        """Curves by name, and bands around some of them, as `abstain.inference.curve_band` makes them."""
        lines = tuple(thinned(name, c.coverage, c.risk) for name, c in curves.items())
        return cls(lines, bands=tuple((bands or {}).items()))

    def frame(self, library: str | None = None) -> Any:
        """One row per point: name, coverage, risk."""
        points = [(x.name, *point) for x in self.lines for point in zip(x.coverage, x.risk)]
        columns = zip(*points) if points else ((), (), ())
        return make_frame(dict(zip(("name", "coverage", "risk"), columns)), library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw on `ax` (or on a new figure) and give the axes back."""
        ax = make_axes(ax)
        curves = [(escape_controls(line.name), line.coverage, line.risk) for line in self.lines]
        draw_curves(ax, curves, self.label, {escape_controls(name): band for name, band in self.bands})
        return ax


@dataclass(frozen=True)
class IntervalDisplay:
    """Estimates with their error bars, one below the other.

    Parameters
    ----------
    names : tuple of str
        One per estimate, the first on top.
    estimates : tuple of float
        The points.
    low, high : tuple of float or None
        Ends of the intervals; None where there is none.
    label : str
        Of the horizontal axis.
    notes : tuple of str
        Beside the names, or nothing.

    Examples
    --------
    >>> bars = IntervalDisplay(("a", "b"), (0.1, 0.2), (0.05, None), (0.2, None), "AURC")
    >>> bars.frame("dict")["high"]
    [0.2, None]
    """

    names: tuple[str, ...]
    estimates: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    label: str = ""
    notes: tuple[str, ...] = ()

    def frame(self, library: str | None = None) -> Any:
        """One row per name."""
        ends = {"low": self.low, "high": self.high}
        return make_frame({"name": self.names, "estimate": self.estimates, **ends}, library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw on `ax` (or on a new figure) and give the axes back; the first name is on top."""
        ax = make_axes(ax, height=0.9 + 0.32 * len(self.names))
        places = range(len(self.names), 0, -1)
        for place, value, low, high in zip(places, self.estimates, self.low, self.high):
            if low is not None and high is not None:
                ax.plot([low, high], [place, place], color="C0", linewidth=2, solid_capstyle="butt")
            ax.plot([value], [place], "o", color="C0", markersize=5)
        labels = self.names if not self.notes else [f"{n}  {t}" for n, t in zip(self.names, self.notes)]
        ax.set_yticks(list(places), [escape_controls(label) for label in labels])
        ax.set_ylim(0.4, len(self.names) + 0.6)
        ax.set_xlabel(self.label)
        ax.grid(axis="x", alpha=0.3)
        return ax
