"""The Brier score of confidences, and what it consists of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from abstain import _tables
from abstain._arrays import ArrayLike
from abstain._check import check_fraction, refuse_other_row_order
from abstain._stored import Stored
from abstain.calibration.probability_bins import DEFAULT_BINS, make_bins, squared_error_parts
from abstain.inference.ratios import interval_of_mean
from abstain.inference.records import Interval


@dataclass(frozen=True, repr=False)
class BrierScore(Stored, _tables.Notebook):
    """The Brier score and its parts: `score = miscalibration - resolution + uncertainty + within_bins`.

    Parameters
    ----------
    score : Interval
        Mean of (confidence - right)^2; lower is better.
    miscalibration : float
        The part that better calibrated confidences would save: the squared calibration error. Lower is better. Its
        estimate may be slightly negative.
    resolution : float
        How much the accuracy differs between bins; higher is better.
    uncertainty : float
        Accuracy times one less accuracy: the score of a constant confidence that equals the accuracy.
    within_bins : float
        What differences inside the bins add, small if there are enough bins.
    bins : int
        Number of bins.

    Examples
    --------
    >>> brier_score([1, 1, 0, 0], [0.75, 0.75, 0.25, 0.25]).score.estimate
    0.0625
    """

    _noun: ClassVar[str] = "a Brier score"

    score: Interval
    miscalibration: float
    resolution: float
    uncertainty: float
    within_bins: float
    bins: int

    def frame(self, library: str | None = None) -> Any:
        """One row per part, the score first; only the score has an interval."""
        parts = ("miscalibration", "resolution", "uncertainty", "within_bins")
        columns: dict[str, list[Any]] = {
            "part": ["score", *parts],
            "estimate": [self.score.estimate, *(getattr(self, part) for part in parts)],
            "low": [self.score.low, *([None] * len(parts))],
            "high": [self.score.high, *([None] * len(parts))],
        }
        return _tables.make_frame(columns, library)

    def __repr__(self) -> str:
        score = f"{self.score.estimate:.4g} [{self.score.low:.4g}, {self.score.high:.4g}]"
        return (
            f"Brier score {score} = miscalibration {self.miscalibration:.3g} - resolution {self.resolution:.3g} "
            f"+ uncertainty {self.uncertainty:.3g} + within bins {round(self.within_bins, 12) + 0.0:.2g} "
            f"({_tables.count_noun(self.bins, 'bin')}, n = {self.score.n})"
        )


@refuse_other_row_order
def brier_score(
    correct: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    bins: int = DEFAULT_BINS,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
) -> BrierScore:
    r"""Mean squared difference between confidence and being right, with its parts; lower is better.

    .. math:: \frac1n \sum_i (p_i - y_i)^2 = \text{miscalibration} - \text{resolution} + \text{uncertainty}
              + \text{within bins}

    Each part is debiased, so that it does not depend on the number of answers on average; the four add up to the score
    exactly.

    Parameters
    ----------
    correct : array, shape (n,)
        How right each answer is, from 0 to 1.
    confidence : array, shape (n,)
        The probability of being right that was stated or computed, from 0 to 1.
    bins : int
        The largest number of bins for the parts, of about equal size. Equal confidences are in one bin.
    level : float
        Confidence level of the interval of the score.
    clusters : array, shape (n,), optional
        One label per answer: answers with the same label are not independent.

    Returns
    -------
    BrierScore

    Examples
    --------
    >>> brier = brier_score([1, 1, 1, 0] * 25, [0.9, 0.7, 0.6, 0.2] * 25)
    >>> round(brier.score.estimate, 4), round(brier.uncertainty, 4)
    (0.075, 0.1894)
    """
    name = "brier_score"
    level = check_fraction(name, "level", level, open_high=True)
    binned = make_bins(name, correct, confidence, bins, clusters)
    score = interval_of_mean(name, "brier_score", (binned.confidence - binned.right) ** 2, level, clusters)
    plain_miscalibration, sampling_error = squared_error_parts(binned)
    accuracy = float(binned.right.mean())
    plain_uncertainty = accuracy * (1 - accuracy)
    # sampling error of the accuracy of all answers lowers the plain uncertainty; that of bins raises the resolution
    error_of_accuracy = binned.overall_accuracy_variance
    error_of_bins = math.fsum(binned.share * binned.accuracy_variance)
    resolution = (
        math.fsum(binned.share * (binned.accuracy - accuracy) ** 2) - error_of_bins + error_of_accuracy
    )
    uncertainty = plain_uncertainty + error_of_accuracy
    miscalibration = plain_miscalibration - sampling_error
    return BrierScore(
        score=score,
        miscalibration=miscalibration,
        resolution=resolution,
        uncertainty=uncertainty,
        within_bins=score.estimate - (miscalibration - resolution + uncertainty),
        bins=len(binned.size),
    )
