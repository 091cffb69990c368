"""Calibration error: how far confidences are from the share of right answers, without the bias of small bins."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import ArrayLike
from abstain._check import check_fraction, refuse_other_row_order
from abstain._stored import Stored
from abstain.calibration.probability_bins import (
    DEFAULT_BINS,
    ProbabilityBins,
    make_bins,
    squared_error_parts,
)
from abstain.inference.limits import student_quantile
from abstain.inference.records import Interval
from abstain.metrics.summaries import Limits, largest_unseen_share

# From this value of a noncentral chi-squared variable on, its law is inverted as a normal one: exact to three digits
# there, and scipy's function loses accuracy far beyond it.
_NORMAL_LAW_FROM = 1000.0


@dataclass(frozen=True, repr=False)
class CalibrationError(Stored, _tables.Notebook):
    """The calibration error of confidences; made by `calibration_error`.

    Parameters
    ----------
    root : Interval
        Root of the mean squared gap between confidence and accuracy over bins, debiased; 0 where the estimate of its
        square is negative.
    squared : Interval
        Its square. The estimate may be negative: on average over samples it is right, so it must sometimes fall below
        the truth, also when that is 0.
    plain : float
        The root without debiasing. It is positive even for perfectly calibrated confidences, and the more so the fewer
        answers a bin has.
    bins : int
        Number of bins.

    Examples
    --------
    >>> error = calibration_error([1] * 50 + [0] * 50, [0.8] * 100)
    >>> round(error.plain, 4), round(error.root.estimate, 4)
    (0.3, 0.2958)
    """

    _noun: ClassVar[str] = "a calibration error"

    root: Interval
    squared: Interval
    plain: float
    bins: int

    def frame(self, library: str | None = None) -> Any:
        """A row for the root and one for its square."""
        rows = [self.root, self.squared]
        return _tables.make_frame(
            _tables.collect_columns(rows, ("metric", "estimate", "low", "high", "n")), library
        )

    def __repr__(self) -> str:
        root = f"{self.root.estimate:.3g} [{self.root.low:.3g}, {self.root.high:.3g}]"
        return (
            f"calibration error {root} (root mean square, debiased; plain {self.plain:.3g}; "
            f"{_tables.count_noun(self.bins, 'bin')}, n = {self.root.n})"
        )


@refuse_other_row_order
def calibration_error(
    correct: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    bins: int = DEFAULT_BINS,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
) -> CalibrationError:
    r"""How far confidences are from the share of right answers: the root mean squared gap over bins; lower is better.

    .. math:: \hat\theta = \sum_k \frac{n_k}{n} \Bigl( (\bar p_k - \bar y_k)^2 - \frac{s_k^2}{n_k} \Bigr)

    with :math:`s_k^2` the variance of p - y within bin k: what is subtracted is what sampling error adds to the square
    on average. (Kumar, Liang and Ma subtract the variance of y alone, the same where a bin has one confidence.)
    Without it, calibrated confidences seem miscalibrated, the more so the smaller the bins. Bins hide gaps of opposite
    signs inside them, so this is a lower bound of the calibration error without bins.

    Parameters
    ----------
    correct : array, shape (n,)
        How right each answer is, from 0 to 1.
    confidence : array, shape (n,)
        The probability of being right that was stated or computed, from 0 to 1.
    bins : int
        The largest number of bins, of about equal size. Equal confidences are in one bin.
    level : float
        Confidence level of the intervals.
    clusters : array, shape (n,), optional
        One label per answer: answers with the same label are not independent.

    Returns
    -------
    CalibrationError
        Its interval inverts the noncentral chi-squared law of the squared gaps, so that it holds for calibrated
        confidences, too: its lower end is then 0 most of the time.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> stated = rng.random(2000)
    >>> calibration_error(rng.random(2000) < stated, stated)
    calibration error 0.0124 [0, 0.0415] (root mean square, debiased; plain 0.0371; 15 bins, n = 2000)
    >>> calibration_error(rng.random(2000) < stated**2, stated).root.low > 0.1  # overconfident
    True
    """
    name = "calibration_error"
    level = check_fraction(name, "level", level, open_high=True)
    binned = make_bins(name, correct, confidence, bins, clusters)
    plain, sampling_error = squared_error_parts(binned)
    low, high = _limits(binned, plain, level)
    estimate = plain - sampling_error
    weighted = np.sqrt(np.outer(binned.share, binned.share)) * binned.gap_covariance
    # that of squares of normal gaps whose mean is 0, and what their means and the shares of the bins add to first order
    variance = 2 * float(np.sum(weighted**2)) + binned.mean_square_variance
    squared = Interval(
        metric="squared_calibration_error",
        estimate=estimate,
        standard_error=math.sqrt(variance),
        low=min(low, max(estimate, 0.0)),
        high=max(high, estimate),
        level=level,
        method="noncentral chi-squared",
        n=len(binned.right),
    )
    root_estimate = math.sqrt(max(estimate, 0.0))
    root_low = math.sqrt(squared.low)
    root_high = math.sqrt(max(squared.high, 0.0))
    root = replace(
        squared,
        metric="calibration_error",
        estimate=root_estimate,
        # not by the delta method, which fails at 0: as wide as a normal interval of this width would have it
        standard_error=(root_high - root_low) / (2 * float(student_quantile(math.inf, level))),
        low=root_low,
        high=root_high,
    )
    return CalibrationError(root=root, squared=squared, plain=math.sqrt(plain), bins=len(binned.size))


def _limits(bins: ProbabilityBins, plain: float, level: float) -> Limits:
    r"""Limits of the squared calibration error theta, by inverting the law of its plain estimate.

    With w the shares of the bins, d their gaps (mean confidence less accuracy) and V the covariance of these, the
    estimate `plain`, :math:`\sum w d^2`, is a weighted sum of squares of normal variables. Its law is approximated by
    :math:`\tau\,\chi^2_\nu(\theta/\tau)`, a noncentral chi-squared law times a scale, with

    .. math:: \tau = \frac{v}{4 \sum w d^2}, \qquad \nu = \frac{\sum w V_{kk}}{\tau},

    where v is the variance of `plain` to first order. Gaps that vary add :math:`4 (w d)^T V (w d)` to it; shares that
    vary add the variance of :math:`d^2` over answers, divided by their number. So this tau fits the part of the
    variance that true gaps cause, and nu the mean where theta is 0. The limits are the theta at which an estimate as
    large as the one seen, or as small, has half the probability that `level` leaves. `level` is the two-sided
    confidence level, such as 0.95. `bins` holds w (`share`), V (`gap_covariance`) and v (`mean_square_variance`).
    """
    # the mean of `plain` where theta is 0
    mean_without_gaps = float(bins.share @ np.diag(bins.gap_covariance))
    # Every answer of a bin has the same gap, so that nu is 0, or the mean gap of every bin is 0, so that tau is 0 / 0.
    if mean_without_gaps <= 0 or plain <= 0:
        return _limits_without_spread(bins, plain, level)
    tau = bins.mean_square_variance / (4 * plain)
    freedom = mean_without_gaps / tau
    tail = (1 - level) / 2
    # `_noncentrality(value, freedom, p)`: theta / tau at which the estimate is at most `value` * tau with probability p
    low = tau * _noncentrality(plain / tau, freedom, 1 - tail)
    high = tau * _noncentrality(plain / tau, freedom, tail)
    return low, high


def _limits_without_spread(bins: ProbabilityBins, plain: float, level: float) -> Limits:
    """Limits of the squared calibration error where all answers of a bin have the same gap, or no bin has a gap.

    The gap of a bin is its mean confidence less its accuracy; `plain` is the mean of squared gaps over all answers, and
    `bins.mean_square_variance` the variance of that mean. The upper limit is that of a normal variable, and allows for
    answers that were not drawn: with probability `level` these are at most a share s of all, by the number of
    independent units (answers, or clusters) in all bins. They may move the gap of a bin by s, if they are spread evenly
    over the bins and lie at the other end of the scale: the share s of wrong answers where all are right, or of right
    ones where all are wrong. So the upper limit is at least s^2. The lower limit is 0. `level` is the two-sided
    confidence level, such as 0.95.
    """
    largest_unseen = float(largest_unseen_share(float(bins.unit_total), level))  # the share s
    normal_quantile = float(student_quantile(math.inf, level))  # two-sided
    margin = normal_quantile * math.sqrt(bins.mean_square_variance)
    return 0.0, max(min(plain + margin, 1.0), largest_unseen**2)


def _noncentrality(value: float, freedom: float, probability: float) -> float:
    """The noncentrality at which a chi-squared variable is at most `value` with this probability.

    The variable has `freedom` degrees of freedom, not necessarily a whole number. 0 where it exceeds `value` too often
    even without noncentrality, which only makes it larger. `value` is positive, and the probability lies strictly
    between 0 and 1. From `_NORMAL_LAW_FROM` (1,000) on the normal law is exact to three digits, and `chndtr` loses
    accuracy far beyond it.
    """
    from scipy.optimize import brentq
    from scipy.special import chndtr, ndtri

    # `chndtr` is the probability that the variable is at most `value`; it falls as the noncentrality grows
    if float(chndtr(value, freedom, 0.0)) <= probability:
        return 0.0
    if value > _NORMAL_LAW_FROM:
        # as a normal variable of mean freedom + x and variance 2 freedom + 4 x, with x the noncentrality:
        # (value - freedom - x)^2 = z^2 (2 freedom + 4 x), the root on the side of the probability
        z = float(ndtri(probability))
        centre = value - freedom + 2 * z**2
        discriminant = max(centre**2 - (value - freedom) ** 2 + 2 * freedom * z**2, 0.0)
        return max(centre - math.copysign(math.sqrt(discriminant), z), 0.0)

    def excess_probability(noncentrality: float) -> float:
        """Falls as the noncentrality grows; 0 where the probability is the requested one."""
        return float(chndtr(value, freedom, noncentrality)) - probability

    largest = 4 * value + 100.0  # so large that `value` is hardly ever reached
    return float(brentq(excess_probability, 0.0, largest))
