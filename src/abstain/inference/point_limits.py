r"""Closed-form limits of single points of the curve: risk at a coverage, coverage at a risk, FPR at a TPR.

The *cut* is the threshold of such a point. A point depends on the ranking through the place of its cut, so its
influence contains the local risk m there. For the selective risk R at coverage c, with 1(i) saying that sample i is
accepted,

.. math:: \mathrm{IF}_i = 1(i)\,(l_i - m)/c + m - R.

m is the mean loss in a window on either side of the cut, and the two squares are averaged: where the risk jumps, either
may be right. Limits of a 0/1 loss are those of a proportion (Jeffreys) from as many draws as have this variance; of
other losses, Student's on the log scale. Where many samples tie at the cut, more than the error of the cut, the
threshold stays at their confidence; then the limits at all rows that the cut may fall into are joined.

An engine supplies `AcceptedSums` at positions that depend on the totals alone (`positions`): the sums over all samples
from the top down to the first row that reaches each position, that row included.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from abstain.core.rounding import SUM_ROUNDING
from abstain.inference.limits import UnitVariance, student_quantile
from abstain.metrics import few_draws
from abstain.metrics.summaries import Scale, largest_unseen_share

CUTS = 512  # coverages at which the limits of a coverage at a risk are computed
_QUANTILE_95 = 1.959963984540054  # of a normal law, two-sided
WINDOW_SAMPLES = 5  # the local risk at a cut is the mean loss of at least so many samples on either side
TIE_SAMPLES = 1.5  # a row of more than so many mean samples is a tie: more than one sample, less than two
FEW_BEYOND = 2.5  # with up to so many right samples beyond its cut, an FPR has limits from order statistics


_T = TypeVar("_T")


class AroundCut(NamedTuple, Generic[_T]):
    """Something at each of the five positions that belong to a cut of the ranking.

    Attributes
    ----------
    cut
        At the cut itself.
    window_above, window_below
        At the far ends of the windows above and below the cut, in which the local risk is read.
    earliest_cut, latest_cut
        At the first and the last position where the cut may be with 95% confidence.
    """

    cut: _T
    window_above: _T
    window_below: _T
    earliest_cut: _T
    latest_cut: _T


class AcceptedSums(NamedTuple):
    """Sums over all samples from the top down to a row, that row included, for each of several positions.

    A row is one distinct confidence. A position is an accepted mass; its row is the first one, from the most confident
    down, with which the accepted mass reaches it. Positions lie along the last axes.

    Attributes
    ----------
    row_mass : ndarray
        Mass of the row itself, which is large where many samples tie.
    accepted_mass, accepted_loss : ndarray
        Mass and loss from the top down to the row.
    squared_weight_moments : ndarray, shape (3, ...)
        Sums of w^2 l^j, j = 0, 1, 2, over the accepted samples of weight w and loss l.
    fourth_power_moments : ndarray, shape (5, ...)
        Sums of w^4 l^j, j = 0 ... 4.
    """

    row_mass: np.ndarray
    accepted_mass: np.ndarray
    accepted_loss: np.ndarray
    squared_weight_moments: np.ndarray
    fourth_power_moments: np.ndarray

    @property
    def risk(self) -> np.ndarray:
        """Selective risk at each position."""
        return self.accepted_loss / self.accepted_mass

    def select(self, index: Any) -> AcceptedSums:
        """The sums at some of the positions, chosen along the last axis by an index list or a slice."""
        return AcceptedSums(*(column[..., index] for column in self))

    def by_position(self) -> AroundCut[AcceptedSums]:
        """The sums at the five positions around each cut, from sums whose last axes are (5, cuts)."""
        return AroundCut(
            *(AcceptedSums(*(column[..., position, :] for column in self)) for position in range(5))
        )


class WeightTotals(NamedTuple):
    """Sums over the whole data set.

    Attributes
    ----------
    total_mass : float
        Sum of all weights, abstained samples included.
    squared_weight_sum, fourth_power_weight_sum : float
        Sums of the squares and of the fourth powers of the weights.
    unit_count : int or array
        Number of independent units (samples or clusters), or one for each of several groups.
    zero_one, has_negative_loss : bool
        Are all losses 0 or 1? Is any loss negative?
    """

    total_mass: float
    squared_weight_sum: float
    fourth_power_weight_sum: float
    unit_count: Any
    zero_one: bool
    has_negative_loss: bool = False


def positions(
    share: np.ndarray, mass: float, squared_weight_sum: float, sample_count: int
) -> AroundCut[np.ndarray]:
    """The positions (accepted masses) to read around a cut at each share of `mass`; every array has shape (shares,).

    A window is as wide as the standard error of the mass above a quantile, and at least as wide as WINDOW_SAMPLES
    samples. The earliest and the latest cut are where the true cut may lie with 95% confidence, at any level of the
    limits: the sums at these positions are read once and serve all levels. Positions may lie outside [0, `mass`].
    `mass` is the total weight of the `sample_count` samples, `squared_weight_sum` the sum of their squared weights.
    Shares lie in [0, 1]. Masses count from the most confident sample down: above the cut they are smaller.
    """
    cut = share * mass
    # standard error of the mass above a fixed threshold: each sample lies above it or not
    cut_error = np.sqrt(share * (1 - share) * squared_weight_sum)
    window = np.maximum(cut_error, WINDOW_SAMPLES * mass / sample_count)  # of 5 samples at least
    return AroundCut(
        cut=cut,
        window_above=cut - window,
        window_below=cut + window,
        earliest_cut=cut - _QUANTILE_95 * cut_error,
        latest_cut=cut + _QUANTILE_95 * cut_error,
    )


def positions_along_right(
    tpr: np.ndarray, right_mass: float, squared_weight_sum: float, sample_count: int
) -> AroundCut[np.ndarray]:
    """The positions to read around a cut at each share `tpr` of the right samples; every array has shape (shares,).

    Positions are masses of accepted right samples: the cut, the ends of a window above and below it, and the earliest
    and the latest cut. `right_mass` and `squared_weight_sum` are the sums of the weights and squared weights of the
    right samples; `sample_count` is the number of all samples, errors included.

    The earliest and the latest cut are where the true cut may lie by chance; limits of the FPR are taken at both where
    many samples tie at the cut or few right samples lie beyond it. They are those of 95% confidence at any level of the
    limits: the sums at these positions are read once and serve all levels.

    How many right samples lie above the true cut is binomial. Where few lie beyond it, the earliest and the latest cut
    are quantiles of that binomial law instead of normal ones; a latest cut beyond `right_mass` means that all errors
    may be accepted. Without right samples (a squared weight sum of 0) the normal ones are returned.
    """
    from scipy.special import bdtrik

    around = positions(tpr, right_mass, squared_weight_sum, sample_count)
    if not len(tpr) or squared_weight_sum <= 0:
        return around
    draws = right_mass**2 / squared_weight_sum  # equal weights that would vary as much
    # Fewer than twice FEW_BEYOND (2.5) right samples, in draws, lie on one side of the cut: so long `fpr_limits` mixes
    # its limits with those for few right samples, which it reads at the earliest and the latest cut.
    has_few_beyond = draws * np.minimum(tpr, 1 - tpr) < 2 * FEW_BEYOND
    tail = 0.025  # on either side, for the 95% confidence of `positions`
    # Binomial quantiles of the number of right samples above the cut. Before rounding they lie between 0 and `draws`;
    # they are never NaN, since `tpr` is above 0.
    smallest_count = np.ceil(bdtrik(tail, draws, tpr))
    largest_count = np.ceil(bdtrik(1 - tail, draws, tpr))
    # the cut lies somewhere between the last right sample above it and the next one, hence + 1
    return around._replace(
        earliest_cut=np.where(has_few_beyond, smallest_count / draws * right_mass, around.earliest_cut),
        latest_cut=np.where(has_few_beyond, (largest_count + 1) / draws * right_mass, around.latest_cut),
    )


def coverages() -> np.ndarray:
    """The cuts, as shares of the answered samples, at which the limits of a coverage at a risk are computed."""
    return np.arange(1, CUTS + 1) / CUTS


class RiskLimits(NamedTuple):
    """Limits of the selective risk at each of several cuts, and whether many samples tie at the cut."""

    low: np.ndarray
    high: np.ndarray
    is_tied: np.ndarray


def risk_limits(
    accepted_sums: AcceptedSums,
    share: np.ndarray,
    weights: WeightTotals,
    level: float,
    design_effect: float = 1.0,
    cluster_effect: float = 1.0,
    at_ties: Literal["cut may move", "threshold is fixed"] = "cut may move",
) -> RiskLimits:
    """Lower and upper limits of the selective risk at each cut, and whether many samples tie at the cut.

    Parameters
    ----------
    accepted_sums : AcceptedSums, arrays of shape (..., 5, cuts)
        Over the samples accepted down to five positions of each cut: the cut, the ends of the windows above and below
        it, and the earliest and the latest place where the true cut may be.
    share : ndarray, shape (cuts,)
        The cuts, as shares of the mass.
    weights : WeightTotals
        Sums of weights over the whole data set.
    level : float
        Two-sided level of the limits at each single cut, such as 0.95.
    design_effect : float
        Multiplies the variance, for clusters.
    cluster_effect : float
        Divides the number of draws, for clusters, where all accepted 0/1 losses are equal: then there is no variance
        that a design effect could multiply.
    at_ties : str
        Where many samples have the confidence at the cut: "cut may move" includes the limits at the neighbouring
        confidences that the cut may fall on; "threshold is fixed" keeps the cut there.
    """
    around = accepted_sums.by_position()  # the sums at each of the five positions
    cut = around.cut
    # the mean loss next to the cut, above it and below it
    local_risks = (_local_risk(cut, around.window_above), _local_risk(cut, around.window_below))
    low, high = _limits_at_cut(cut, local_risks, weights, level, design_effect, cluster_effect)
    # standard error of the mass above the cut
    cut_error = np.sqrt(share * (1 - share) * weights.squared_weight_sum)
    # tied: more mass at the confidence of the cut than the cut moves by chance, and than a single sample has (1.5 times
    # the mean weight)
    mean_weight = weights.total_mass / weights.unit_count
    is_tied = cut.row_mass > np.maximum(cut_error, TIE_SAMPLES * mean_weight)
    if is_tied.any():
        possible_cuts = [cut]
        if at_ties == "cut may move":
            possible_cuts += [around.earliest_cut, around.latest_cut]
        # with the selective risk as local risk, the variance is that of the mean loss above a fixed threshold
        limits = [
            limits_at_threshold(possible, weights, level, design_effect, cluster_effect)
            for possible in possible_cuts
        ]
        low = np.where(is_tied, np.min([low_there for low_there, _ in limits], axis=0), low)
        high = np.where(is_tied, np.max([high_there for _, high_there in limits], axis=0), high)
    return RiskLimits(low, high, is_tied)


def limits_at_threshold(
    accepted: AcceptedSums,
    weights: WeightTotals,
    level: float,
    design_effect: Any = 1.0,
    cluster_effect: Any = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper limits of the mean loss of the samples above a threshold that was fixed beforehand.

    `accepted` holds the sums over these samples; with arrays, one entry for each threshold or group of samples.
    `weights` holds the sums of the weights of all samples. `design_effect` multiplies the variance, for clusters.
    `cluster_effect` divides the number of draws where all accepted 0/1 losses are equal, so that there is no variance.
    `level` is two-sided, such as 0.95. These are the limits at a cut that moves with the sample, as the one at a
    coverage does, without the part that comes from its moving.
    """
    # If a cut moves, the risk changes by the local risk m (the mean loss next to the cut) less the selective risk R.
    # With R in the place of m that term is 0: rejected samples have no influence.
    local_risks = (accepted.risk,)
    return _limits_at_cut(accepted, local_risks, weights, level, design_effect, cluster_effect)


def _local_risk(cut: AcceptedSums, window_end: AcceptedSums) -> np.ndarray:
    """Mean loss between the cut and the end of a window; the selective risk if no mass lies between them."""
    mass = cut.accepted_mass - window_end.accepted_mass
    is_empty = mass == 0
    mean_loss = (cut.accepted_loss - window_end.accepted_loss) / np.where(is_empty, 1.0, mass)
    return np.where(is_empty, cut.risk, mean_loss)


def _influence_power(p: int, cut: AcceptedSums, local_risk: np.ndarray, weights: WeightTotals) -> np.ndarray:
    """Sum over all samples of v^p (p = 2 or 4), where v is the weight times the influence on the risk R at each cut.

    With m the `local_risk` (the mean loss of samples next to the cut), accepted mass N and total mass W, a sample of
    weight w and loss l has v = w (1(accepted) (l - m) / N + (m - R) / W). The sum is expanded in the sums of w^p l^j
    over the accepted samples, which `cut` holds. `weights` holds the sums of w, w^2 and w^4 over all samples. All
    arrays have one entry per cut.
    """
    accepted_moments = cut.squared_weight_moments if p == 2 else cut.fourth_power_moments  # by rising j
    weight_power_sum = weights.squared_weight_sum if p == 2 else weights.fourth_power_weight_sum
    rejected = (local_risk - cut.risk) / weights.total_mass  # influence of a rejected sample
    const = rejected - local_risk / cut.accepted_mass  # of an accepted one: const + slope * l
    slope = 1 / cut.accepted_mass
    const_powers = _powers_up_to(p, const)  # 1, const, ..., const^p
    slope_powers = _powers_up_to(p, slope)
    accepted_sum = sum(
        math.comb(p, j) * const_powers[p - j] * slope_powers[j] * accepted_moments[j] for j in range(p + 1)
    )
    # sum of w^p over the samples that are not accepted
    rejected_sum = rejected**p * (weight_power_sum - accepted_moments[0])
    return np.maximum(accepted_sum + rejected_sum, 0.0)  # never below 0 by rounding


def _powers_up_to(p: int, base: np.ndarray) -> list[Any]:
    """base^0, base^1, ..., base^p, by repeated multiplication, which is faster than `**`."""
    return list(accumulate([base] * p, operator.mul, initial=1.0))


def _limits_at_cut(
    cut: AcceptedSums,
    local_risks: Sequence[np.ndarray],
    weights: WeightTotals,
    level: float,
    design_effect: Any,
    cluster_effect: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper limits of the selective risk at each cut.

    The local risk is the mean loss of samples next to the cut. `local_risks` holds one or more estimates of it (from
    above and from below); variances are averaged over them. `cut` holds the sums over the accepted samples, `weights`
    those of the weights of all samples. `level` is two-sided, such as 0.95. Arrays have one entry per cut.

    A 0/1 loss has the limits of a proportion: from the variance, which `design_effect` multiplies for clusters, or,
    where all accepted losses are 0 or all are 1 and a proportion shows no variance, from the effective number of
    accepted samples, which `cluster_effect` divides for clusters. Other losses have Student's limits, on the log scale
    if no loss is negative; these come from the variance alone, and `cluster_effect` is not read.
    """
    risk = cut.risk
    # sums over all samples of the squares, and of the fourth powers, of what each does to the risk
    squares = [_influence_power(2, cut, local_risk, weights) for local_risk in local_risks]
    fourth_powers = [_influence_power(4, cut, local_risk, weights) for local_risk in local_risks]
    # with its degrees of freedom, which are those of samples: the design effect is taken as known
    variance = _variance_from_powers(
        design_effect * np.mean(squares, axis=0),
        design_effect**2 * np.mean(fourth_powers, axis=0),
        weights.unit_count,
    )
    if weights.zero_one:
        accepted_squared_weights = cut.squared_weight_moments[0]  # sum of w^2 over the accepted samples
        effective_count = cut.accepted_mass**2 / accepted_squared_weights
        return proportion_limits(
            risk,
            draws=effective_count / cluster_effect,  # read where the risk is 0 or 1
            level=level,
            draws_by_variance=_equivalent_draws(risk, variance, weights, level),  # read at other risks
        )
    quantile = student_quantile(variance.degrees_of_freedom(), level)  # two-sided, of Student's t
    half_width = quantile * np.sqrt(variance.variance)
    scale = Scale("normal") if weights.has_negative_loss else Scale("log")
    is_on_scale = scale.contains(risk)  # a risk of 0 has no logarithm
    # `shift` moves a risk by a distance that is measured on the scale
    half_width_on_scale = half_width * scale.derivative(np.where(is_on_scale, risk, 1.0))
    low = np.where(is_on_scale, scale.shift(risk, -half_width_on_scale), risk - half_width)
    high = np.where(is_on_scale, scale.shift(risk, half_width_on_scale), risk + half_width)
    if not weights.has_negative_loss:
        low = np.maximum(low, 0.0)
    return low, high


def proportion_limits(
    share: np.ndarray, draws: np.ndarray, level: float, draws_by_variance: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper limits of a proportion: Jeffreys', or exact one-sided ones where it is 0 or 1.

    `share` is the proportion observed; within rounding of 0 or 1 it counts as such. `draws` is the number of
    independent draws, which need not be a whole number. `draws_by_variance` is the number that has the variance of the
    share, where this is another one, as with unequal weights (None: `draws`). Jeffreys' limits use it; exact limits,
    where the share is 0 or 1 and has no variance, use `draws`. The limits contain `share` and lie in [0, 1]. `level` is
    the two-sided confidence level, such as 0.95.
    """
    tail = (1 - level) / 2
    is_extreme = np.abs(share - 0.5) > 0.5 - SUM_ROUNDING  # 0 or 1, but for rounding
    share = np.where(is_extreme, np.round(share), share)
    size = draws if draws_by_variance is None else draws_by_variance
    # Jeffreys': half a draw is added to those that count and to those that do not
    beta_low, beta_high = few_draws.beta_limits(share, size, level, pseudo=0.5)
    largest_unseen = largest_unseen_share(draws, 1 - tail)  # a share this large may still be seen in no draw
    is_zero = share < SUM_ROUNDING
    is_one = share > 1 - SUM_ROUNDING
    low = np.where(is_zero, 0.0, np.where(is_one, 1 - largest_unseen, beta_low))
    high = np.where(is_one, 1.0, np.where(is_zero, largest_unseen, beta_high))
    return np.clip(np.minimum(low, share), 0.0, 1.0), np.clip(np.maximum(high, share), 0.0, 1.0)


def pointwise_level(level: float, span: float, cuts: int) -> float:
    r"""Level of the limits at single cuts that hold at all of `cuts` cuts simultaneously with probability `level`.

    The mean loss of the first N samples, standardised, is Brownian motion over the root of its time: stationary in
    ln N. Its largest absolute value on a span L = ln(N_last / N_first) exceeds q with probability

    .. math:: 2\,\Phi(-q) + L\,q\,\varphi(q)

    up to smaller terms. `span` is L, at least 0. Solved for q by bisection. For few cuts Bonferroni's bound is better,
    and is taken.
    """
    from scipy.special import ndtr

    low = 0.0
    high = 40.0  # a normal variable exceeds it with a probability below the smallest float
    for _ in range(60):  # halvings: 40 / 2^60 is below rounding
        q = (low + high) / 2
        density = math.exp(-q * q / 2) / math.sqrt(2 * math.pi)
        exceedance = 2 * ndtr(-q) + span * q * density
        if exceedance > 1 - level:
            low = q
        else:
            high = q
    bonferroni = (1 - level) / cuts
    return 1 - max(bonferroni, 2 * float(ndtr(-high)))


def coverage_limits(
    accepted_sums: AcceptedSums,
    weights: WeightTotals,
    risk: float,
    level: float,
    design_effect: float = 1.0,
    cluster_effect: float = 1.0,
) -> tuple[float, float]:
    """Lower and upper limit of the largest coverage with a selective risk of at most `risk`.

    Coverages are shares of the answered samples. The limits invert those of the selective risk: the lower limit is the
    largest coverage whose upper limit of the risk is within `risk`, the upper limit the largest one whose lower limit
    of the risk is.

    `accepted_sums` are taken around cuts at CUTS even shares of the answered samples, arrays of shape (..., 5, CUTS):
    at each cut itself, at the ends of the windows above and below it, and at the earliest and the latest place where
    the cut may be. `weights` holds the sums over the answered samples alone. `design_effect` multiplies the variance,
    for clusters; `cluster_effect` divides the number of draws where all accepted 0/1 losses are equal, so that no
    variance is seen. `level` is the two-sided confidence level, such as 0.95.
    """
    # At a large tie the limits of the risk keep the cut at its confidence. How many samples have at least that
    # confidence varies too; `_limits_of_tie` allows for that where a limit of the coverage falls on the tie.
    limits = risk_limits(
        accepted_sums,
        coverages(),
        weights,
        level,
        design_effect,
        cluster_effect,
        at_ties="threshold is fixed",
    )
    coverage = accepted_sums.by_position().cut.accepted_mass / weights.total_mass
    coverage = np.where(coverage > 1 - SUM_ROUNDING, 1.0, coverage)
    # as many samples of equal weight, divided by the design effect, would vary as much
    draws = weights.total_mass**2 / weights.squared_weight_sum / design_effect
    is_tied = limits.is_tied  # by cut: do many samples have its confidence?
    # index of the last cut, ascending in coverage, at which the limit is within `risk`; None where it is at none
    last = _last_within(limits.high, risk)
    if last is None:  # no coverage is surely within the risk
        lower = 0.0
    elif is_tied[last] and coverage[last] < 1:
        lower = _limits_of_tie(coverage[last], draws, level)[0]
    else:
        lower = _interpolate_coverage(limits.high, risk, coverage, is_tied, last)
    last = _last_within(limits.low, risk)
    if last is None:  # confidences above the largest one seen may still be within the risk
        upper = float(largest_unseen_share(draws, (1 + level) / 2))
    elif is_tied[last] and coverage[last] < 1:
        upper = _limits_of_tie(coverage[last], draws, level)[1]
    else:
        upper = _interpolate_coverage(limits.low, risk, coverage, is_tied, last)
    return lower, upper


def _last_within(risk_limit: np.ndarray, risk: float) -> int | None:
    """Index of the last cut whose limit of the selective risk is at most `risk`; None where there is none.

    Cuts are sorted by ascending coverage. The limit need not rise with the coverage, so cuts before may be above it.
    """
    within = np.flatnonzero(risk_limit <= risk)
    return int(within[-1]) if len(within) else None


def _limits_of_tie(coverage: float, draws: float, level: float) -> tuple[float, float]:
    """Limits of the coverage where the cut falls on a large tie.

    The threshold is then the confidence of the tie and does not move. Each of `draws` independent draws has at least
    that confidence or has not, so that the coverage is a proportion of the draws.
    """
    low, high = proportion_limits(np.asarray(float(coverage)), np.asarray(draws), level)
    return float(low), float(high)


def _interpolate_coverage(
    risk_limit: np.ndarray, risk: float, coverage: np.ndarray, is_tied: np.ndarray, last: int
) -> float:
    """The coverage between the cuts `last` and `last + 1` where a limit of the risk, interpolated, reaches `risk`.

    `risk_limit` is at most `risk` at the cut `last` and above it at the next one. `coverage` holds the coverage reached
    at each cut, ascending. There is nothing between `last` and the end, nor between `last` and a large tie
    (`is_tied`), whose samples are accepted together: then the coverage at `last` is returned.
    """
    following = last + 1
    if following == len(risk_limit) or is_tied[following]:
        return float(coverage[last])
    fraction = (risk - risk_limit[last]) / (risk_limit[following] - risk_limit[last])
    return min(float(coverage[last] + fraction * (coverage[following] - coverage[last])), 1.0)


def scaled_by_answered_share(
    coverage: float, limits: tuple[float, float], answered_share: float, draws: float, level: float
) -> tuple[float, float]:
    """Limits of a coverage as a share of all samples, from its limits as a share of the answered samples.

    `coverage` and `limits` are those among the answered samples; `answered_share` is the answered share of all samples,
    a proportion of `draws` draws. How many answer and how the answered are ranked vary independently, so the distances
    to the two pairs of limits add up as squares. Limits may lie outside [0, 1]. `level` is the two-sided confidence
    level, such as 0.95.
    """
    low, high = limits
    share_low, share_high = proportion_limits(np.asarray(answered_share), np.asarray(draws), level)
    product = answered_share * coverage  # the coverage as a share of all samples
    below = math.hypot(answered_share * (low - coverage), coverage * (float(share_low) - answered_share))
    above = math.hypot(answered_share * (high - coverage), coverage * (float(share_high) - answered_share))
    return product - below, product + above


class KindTotals(NamedTuple):
    """Sums over one kind of samples, the errors or the right samples: of the weights w, of w^2 and of w^4."""

    mass: float
    squared_weight_sum: float
    fourth_power_weight_sum: float

    @property
    def effective_count(self) -> float:
        """Number of samples of equal weight that would vary as much."""
        return self.mass**2 / self.squared_weight_sum


def fpr_limits(
    accepted_sums: AcceptedSums,
    tpr: float,
    weights: WeightTotals,
    errors: KindTotals,
    level: float,
    design_effect: float = 1.0,
) -> tuple[float, float]:
    """Limits of the share of errors that are accepted where a share `tpr` of the right samples is accepted.

    Losses are 0/1, and both errors and right samples occur. `accepted_sums` are taken at `positions_along_right`, for
    one cut; arrays of shape (..., 5, 1). `weights` holds the sums over the answered samples, `errors` those over the
    errors among them. `level` is two-sided, such as 0.95. `design_effect` multiplies the variance, for clusters. Where
    few right samples lie beyond the cut, the limits pass over to those at the earliest and the latest position where
    the cut may be.
    """
    around = accepted_sums.by_position()
    right = KindTotals(
        mass=weights.total_mass - errors.mass,
        squared_weight_sum=weights.squared_weight_sum - errors.squared_weight_sum,
        fourth_power_weight_sum=weights.fourth_power_weight_sum - errors.fourth_power_weight_sum,
    )
    cut_error = math.sqrt(tpr * (1 - tpr) * right.squared_weight_sum)
    mean_weight = weights.total_mass / weights.unit_count
    is_tied = around.cut.row_mass[0] > max(cut_error, TIE_SAMPLES * mean_weight)
    possible_cuts = [around.cut]
    if is_tied:
        possible_cuts += [around.earliest_cut, around.latest_cut]
        # a threshold at a large tie does not move with the right samples, so these have no influence
        fpr_slopes = []
    else:
        fpr_slopes = [
            _fpr_slope(around.cut, window_end, errors, right)
            for window_end in (around.window_above, around.window_below)
        ]
    error_draws = np.asarray(errors.effective_count / design_effect)
    lows = []
    highs = []
    for cut in possible_cuts:
        variance = _variance_from_powers(
            design_effect * _fpr_influence_power(2, cut, fpr_slopes, errors, right),
            design_effect**2 * _fpr_influence_power(4, cut, fpr_slopes, errors, right),
            weights.unit_count,
        )
        fpr = cut.accepted_loss / errors.mass
        draws_by_variance = _equivalent_draws(fpr, variance, weights, level)
        low_there, high_there = proportion_limits(fpr, error_draws, level, draws_by_variance)
        lows.append(float(low_there[0]))
        highs.append(float(high_there[0]))
    low = min(lows)
    high = max(highs)
    right_beyond = right.effective_count * min(tpr, 1 - tpr)
    # how much of the limits for few right samples to use: 1 up to FEW_BEYOND of them, 0 from twice as many on
    few_share = min(1.0, max(0.0, 2 - right_beyond / FEW_BEYOND))
    if few_share > 0:
        # the cut lies between two right samples, at each of which the errors above are a plain proportion
        few_low, _ = proportion_limits(around.earliest_cut.accepted_loss / errors.mass, error_draws, level)
        _, few_high = proportion_limits(around.latest_cut.accepted_loss / errors.mass, error_draws, level)
        low = few_draws.mix_limit(min(float(few_low[0]), low), low, few_share)
        high = few_draws.mix_limit(max(float(few_high[0]), high), high, few_share)
    return low, high


def _fpr_slope(
    cut: AcceptedSums, window_end: AcceptedSums, errors: KindTotals, right: KindTotals
) -> np.ndarray:
    """Slope of the FPR as a function of the TPR, between the cut and the end of a window above or below it.

    That is the share of all errors which lies between, over the share of all right samples which does; losses are 0/1.
    `cut` and `window_end` hold the sums accepted down to these two places, `errors` and `right` the total masses of
    both kinds. 0 where no right samples lie between.
    """
    # both differences are negative where the window is below the cut, which their ratio does not show
    errors_between = cut.accepted_loss - window_end.accepted_loss
    right_up_to_cut = cut.accepted_mass - cut.accepted_loss
    right_up_to_end = window_end.accepted_mass - window_end.accepted_loss
    right_between = right_up_to_cut - right_up_to_end
    is_empty = np.abs(right_between) <= SUM_ROUNDING * right.mass
    error_share = errors_between / errors.mass
    return np.where(is_empty, 0.0, error_share * right.mass / np.where(is_empty, 1.0, right_between))


def _fpr_influence_power(
    p: int, cut: AcceptedSums, fpr_slopes: Sequence[np.ndarray], errors: KindTotals, right: KindTotals
) -> Any:
    r"""Sum over all samples of v^p (p = 2 or 4), where v is the weight times the influence on the FPR F at a cut.

    .. math:: v_i = w_i (1(i) - F)/E \text{ for errors}, \qquad -\rho\, w_i (1(i) - A)/H \text{ for right samples},

    where 1(i) says that sample i is accepted, E and H are the masses of errors and of right samples, A is the share of
    the right samples accepted, and rho the slope of the FPR as a function of the TPR there. `cut` holds sums
    over the accepted samples, `errors` and `right` over all samples of each kind. `fpr_slopes` holds two estimates of
    rho, from above and from below the cut, over whose powers the mean is taken; if it is empty, the threshold does not
    move with the right samples, and they have no influence.
    """
    accepted_moments = cut.squared_weight_moments if p == 2 else cut.fourth_power_moments
    # sums of w^p; an error has loss 1, so that sums of w^p and of w^p l are those of all samples and of the errors
    accepted_errors = accepted_moments[1]
    accepted_right = accepted_moments[0] - accepted_moments[1]
    all_errors = errors.squared_weight_sum if p == 2 else errors.fourth_power_weight_sum
    all_right = right.squared_weight_sum if p == 2 else right.fourth_power_weight_sum
    F = cut.accepted_loss / errors.mass
    A = (cut.accepted_mass - cut.accepted_loss) / right.mass
    from_errors = (1 - F) ** p * accepted_errors + F**p * (all_errors - accepted_errors)
    from_right = (1 - A) ** p * accepted_right + A**p * (all_right - accepted_right)
    # the mean over both estimates of rho^p, which is even in rho since p is
    slope_power = (fpr_slopes[0] ** p + fpr_slopes[1] ** p) / 2 if fpr_slopes else 0.0
    return from_errors / errors.mass**p + slope_power * from_right / right.mass**p


def _equivalent_draws(
    share: np.ndarray, variance: UnitVariance, weights: WeightTotals, level: float
) -> np.ndarray:
    """How many draws would give the proportion `share` this variance; 0 where `share` is 0 or 1.

    With unequal weights the variance itself is uncertain, so the number is smaller, by the square of the ratio of the
    normal quantile to Student's at the `level` of the limits. Where all weights are 1, the variance is taken as known,
    like that of a plain proportion; so is the design effect of clusters, which is a factor of it. `weights` holds the
    sums over all samples. Arrays have one entry per cut.
    """
    # A proportion of n draws has the variance share * (1 - share) / n. A variance of 0 comes only with a share of 0 or
    # 1, and 1.0 keeps 0 / 0 from being NaN there.
    draws = share * (1 - share) / np.where(variance.variance > 0, variance.variance, 1.0)
    # sum w = sum w^2 = sum w^4: all weights are 0 or 1
    is_unweighted = weights.total_mass == weights.squared_weight_sum == weights.fourth_power_weight_sum
    if is_unweighted:
        return draws
    normal_quantile = student_quantile(math.inf, level)  # infinitely many degrees of freedom: the normal law
    quantile_ratio = normal_quantile / student_quantile(variance.degrees_of_freedom(), level)
    return draws * quantile_ratio**2


def _variance_from_powers(
    square_sum: np.ndarray, fourth_power_sum: np.ndarray, unit_count: Any
) -> UnitVariance:
    """The variance of an estimate from sums over units of the squares and fourth powers of what each does to it."""
    return UnitVariance(
        variance=square_sum,
        variance_of_variance=fourth_power_sum - square_sum**2 / unit_count,
        unit_count=unit_count,
    )
