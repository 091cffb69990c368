"""The reliability diagram: accuracy against confidence, with a band that holds for all bins at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import ArrayLike
from abstain._check import check_fraction, refuse_other_row_order
from abstain._plots import GREY, FigureSize, draw_legend, line_style, make_axes
from abstain._stored import Stored
from abstain.calibration.probability_bins import DEFAULT_BINS, make_bins
from abstain.inference.limits import student_quantile
from abstain.metrics.few_draws import beta_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class ReliabilityCurve(Stored, _tables.Notebook):
    """Accuracy in bins of confidence, least confident first; made by `reliability_curve`.

    Parameters
    ----------
    confidence, accuracy : tuple of float
        Mean confidence and accuracy of each bin. Calibrated confidences lie on the diagonal.
    low, high : tuple of float
        A band that holds the true accuracies of all bins at once with probability `level`.
    count : tuple of int
        Answers in each bin.
    level : float
        Of the band as a whole.
    n : int
        Number of answers.

    Examples
    --------
    >>> curve = reliability_curve([1, 1, 1, 0] * 25, [0.9, 0.9, 0.3, 0.3] * 25)
    >>> curve.accuracy, curve.outside
    ((0.5, 1.0), (0, 1))
    """

    _noun: ClassVar[str] = "a reliability curve"
    _shows_rows_spread_out: ClassVar[bool] = True

    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    count: tuple[int, ...]
    level: float
    n: int

    @property
    def outside(self) -> tuple[int, ...]:
        """Numbers of the bins whose mean confidence lies outside the band: they are not calibrated."""
        return tuple(
            place
            for place, (confidence, low, high) in enumerate(zip(self.confidence, self.low, self.high))
            if not low <= confidence <= high
        )

    def frame(self, library: str | None = None) -> Any:
        """One row per bin; `library` is "pandas", "polars", "dict" or None (choose)."""
        names = ("confidence", "accuracy", "low", "high", "count")
        return _tables.make_frame({name: list(getattr(self, name)) for name in names}, library)

    def plot(self, ax: Axes | None = None, *, name: str = "", size: FigureSize | None = None) -> Axes:
        """Draw accuracy against confidence with the band and the diagonal, and return the axes.

        Draws on `ax`, or on a new figure of this `size` ("column", "page" or inches; None for the screen). `name` is
        shown in the legend. `confidence` and `accuracy` are means by bin of answers, `low` and `high` the limits of the
        accuracy; all are vectors of one length.
        """
        # 4.4 inches: about square; for a new figure on the screen alone
        axes: Any = make_axes(ax, size=size, width=4.4)
        # matplotlib keeps one container per `errorbar`: those of curves drawn on these axes before
        style = line_style(len(axes.containers))
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":")
        below = np.subtract(self.accuracy, self.low)
        above = np.subtract(self.high, self.accuracy)
        label = _tables.escape_controls(name) or None  # None: not in the legend
        axes.errorbar(
            self.confidence,
            self.accuracy,
            yerr=[below, above],
            marker="o",
            markersize=4,
            label=label,
            color=style.color,
            linestyle=style.linestyle,
        )
        axes.set(xlabel="confidence", ylabel="accuracy", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.grid(alpha=0.3)
        if label is not None:
            draw_legend(axes)
        return axes

    def __repr__(self) -> str:
        verdict = "none" if not self.outside else str(len(self.outside))
        return (
            f"ReliabilityCurve({_tables.count_noun(len(self.count), 'bin')}, {verdict} off the diagonal, "
            f"{self.level:.0%} simultaneous band, n = {self.n})"
        )


@refuse_other_row_order
def reliability_curve(
    correct: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    bins: int = DEFAULT_BINS,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
) -> ReliabilityCurve:
    """Accuracy in bins of confidence, with a band for all bins at once.

    Parameters
    ----------
    correct : array, shape (n,)
        How right each answer is, from 0 to 1.
    confidence : array, shape (n,)
        The probability of being right that was stated or computed, from 0 to 1.
    bins : int
        The largest number of bins, of about equal size. Equal confidences are in one bin.
    level : float
        Probability that the band holds the true accuracies of all bins.
    clusters : array, shape (n,), optional
        One label per answer: answers with the same label are not independent.

    Returns
    -------
    ReliabilityCurve
        Limits of each bin are exact ones of a proportion (Clopper and Pearson), at a level that is corrected for the
        number of bins (Bonferroni).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> stated = rng.random(2000)
    >>> reliability_curve(rng.random(2000) < stated, stated)
    ReliabilityCurve(15 bins, none off the diagonal, 95% simultaneous band, n = 2000)
    """
    name = "reliability_curve"
    level = check_fraction(name, "level", level, open_high=True)
    binned = make_bins(name, correct, confidence, bins, clusters)
    bin_level = 1 - (1 - level) / len(binned.size)
    largest_variance = binned.accuracy * (1 - binned.accuracy)
    has_spread = binned.accuracy_variance > 0
    # as many independent answers would have this variance; where there is none, each unit is one draw
    variance = np.where(
        has_spread, binned.accuracy_variance * (binned.unit_count - 1) / binned.unit_count, 1.0
    )
    draws = np.where(has_spread, largest_variance / variance, binned.unit_count)
    if binned.has_clusters:  # few clusters say little about their own variance
        normal_quantile = student_quantile(np.inf, bin_level)
        student_quantiles = student_quantile(binned.unit_count - 1, bin_level)
        draws = draws * np.asarray(normal_quantile / student_quantiles) ** 2
    low, high = beta_limits(binned.accuracy, draws, bin_level)
    low = np.where(binned.accuracy <= 0, 0.0, np.minimum(low, binned.accuracy))
    high = np.where(binned.accuracy >= 1, 1.0, np.maximum(high, binned.accuracy))
    return ReliabilityCurve(
        confidence=tuple(binned.mean_confidence.tolist()),
        accuracy=tuple(binned.accuracy.tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        count=tuple(binned.size.astype(int).tolist()),
        level=level,
        n=len(binned.right),
    )
