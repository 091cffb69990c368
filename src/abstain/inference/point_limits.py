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
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain.core.rounding import SUM_ROUNDING
from abstain.inference.limits import degrees_of_freedom, student_quantile
from abstain.metrics import few_draws as few
from abstain.metrics.summaries import Scale, largest_unseen_share

CUTS = 512  # coverages at which the limits of a coverage at a risk are computed
_Z = 1.959963984540054  # normal quantile of a 95% interval
WINDOW_SAMPLES = 5  # the local risk at a cut is the mean loss of at least so many samples on either side
TIE_SAMPLES = 1.5  # a row of more than so many mean samples is a tie: more than one sample, less than two
FEW_BEYOND = 2.5  # with up to so many right samples beyond its cut, an FPR has limits from order statistics


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
        """The accepted_sums at some of the positions."""
        return AcceptedSums(*(column[..., index] for column in self))

    def split_positions(self) -> list[AcceptedSums]:
        """The five accepted_sums of `positions`: cut, window above, window below, first and last place of the cut."""
        return [AcceptedSums(*(column[..., place, :] for column in self)) for place in range(5)]


class WeightTotals(NamedTuple):
    """Sums over the whole data set.

    Attributes
    ----------
    total_mass : float
        Sum of all weights, abstained samples included.
    squared_weight_sum, fourth_power_weight_sum : float
        Sums of the squares and of the fourth powers of the weights.
    unit_count : int
        Number of independent units (samples or clusters).
    zero_one, has_negative_loss : bool
        Are all losses 0 or 1? Is any loss negative?
    """

    total_mass: float
    squared_weight_sum: float
    fourth_power_weight_sum: float
    unit_count: int
    zero_one: bool
    has_negative_loss: bool = False


def positions(share: np.ndarray, mass: float, w2: float, units: int) -> np.ndarray:
    """Positions (accepted masses) to read for a cut at each share of `mass`, shape (5, shares).

    The five positions of a cut are: the cut itself, the far end of the window above it, the far end of the window below
    it, and the first and the last place where the cut may be with 95% confidence. A window is as wide as the standard
    error of the mass above a quantile, and at least as wide as WINDOW_SAMPLES samples. Positions may lie outside [0,
    `mass`].

    `mass` is the total weight, `w2` the sum of squared weights, and `units` the number of independent units. Shares lie
    in [0, 1].
    """
    cut = share * mass
    cut_error = np.sqrt(share * (1 - share) * w2)
    window = np.maximum(cut_error, WINDOW_SAMPLES * mass / units)
    return np.stack([cut, cut - window, cut + window, cut - _Z * cut_error, cut + _Z * cut_error])


def positions_along_right(tpr: np.ndarray, mass: float, w2: float, units: int) -> np.ndarray:
    """Positions to read for a cut at each share `tpr` of the right samples, shape (5, shares).

    Positions are masses of accepted right samples, in the order of `positions`: cut, window above, window below, first
    and last place of the cut. `mass`, `w2` and `units` are those of the right samples alone.

    How many right samples lie above the true cut is binomial. Where few lie beyond it, the first and last place are the
    binomial's quantiles instead of normal ones; a last place beyond `mass` means that all errors may be accepted.
    Without right samples (`w2` of 0) the normal ones are returned.
    """
    from scipy.special import bdtrik

    places = positions(tpr, mass, w2, units)
    if not places.size or w2 <= 0:
        return places
    draws = mass**2 / w2  # equal weights that would vary as much
    has_few_beyond = draws * np.minimum(tpr, 1 - tpr) < 2 * FEW_BEYOND
    tail = 0.025  # on either side, for 95% confidence
    smallest_count = np.ceil(bdtrik(tail, draws, tpr))
    largest_count = np.ceil(bdtrik(1 - tail, draws, tpr))
    places[3] = np.where(has_few_beyond, smallest_count / draws * mass, places[3])
    places[4] = np.where(has_few_beyond, (largest_count + 1) / draws * mass, places[4])
    return places


def coverages() -> np.ndarray:
    """The cuts, as shares of the answered samples, at which the limits of a coverage at a risk are computed."""
    return np.arange(1, CUTS + 1) / CUTS


def risk_limits(
    accepted_sums: AcceptedSums,
    share: np.ndarray,
    whole: WeightTotals,
    level: float,
    design_effect: float = 1.0,
    join_rows: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower and upper limits of the selective risk at each cut, and whether many samples tie at the cut.

    Parameters
    ----------
    accepted_sums : AcceptedSums, arrays of shape (..., 5, cuts)
        Taken at the `positions` of the shares `share`.
    share : ndarray, shape (cuts,)
        The cuts, as shares of the mass.
    whole : WeightTotals
        Sums over the whole data set.
    level : float
        Two-sided level of the limits at each single cut, such as 0.95.
    design_effect : float
        Multiplies the variance, for clusters.
    join_rows : bool
        True: the limits at a large tie include those at the neighbouring rows that the cut may fall into. False: the
        threshold is fixed at the tie.
    """
    cut, above, below, first, last = accepted_sums.split_positions()
    local_risks = (_local_risk(cut, above), _local_risk(cut, below))
    low, high = _limits_at_cut(cut, local_risks, whole, level, design_effect)
    # standard error of the mass above the cut
    cut_error = np.sqrt(share * (1 - share) * whole.squared_weight_sum)
    # more mass in one row than the cut can move, and more than a single sample
    is_tied = cut.row_mass > np.maximum(cut_error, TIE_SAMPLES * whole.total_mass / whole.unit_count)
    if is_tied.any():
        rows = (cut, first, last) if join_rows else (cut,)
        limits = [_limits_at_cut(row, (row.risk,), whole, level, design_effect) for row in rows]
        low = np.where(is_tied, np.min([row_low for row_low, _ in limits], axis=0), low)
        high = np.where(is_tied, np.max([row_high for _, row_high in limits], axis=0), high)
    return low, high, is_tied


def _local_risk(cut: AcceptedSums, window_end: AcceptedSums) -> np.ndarray:
    """Mean loss between the cut and the end of a window; the selective risk if no mass lies between them."""
    mass = cut.accepted_mass - window_end.accepted_mass
    is_empty = mass == 0
    mean_loss = (cut.accepted_loss - window_end.accepted_loss) / np.where(is_empty, 1.0, mass)
    return np.where(is_empty, cut.risk, mean_loss)


def _influence_power(p: int, cut: AcceptedSums, local_risk: np.ndarray, whole: WeightTotals) -> np.ndarray:
    """Sum over all samples of v^p (p = 2 or 4), where v is the weight times the influence on the risk R at the cut.

    With local risk m (the mean loss of samples next to the cut), accepted mass N and total mass W, a sample of weight w
    and loss l has v = w (1(accepted) (l - m) / N + (m - R) / W). The sum is expanded in the sums of w^p l^j that `cut`
    holds. `whole` holds the number of samples and the sums of their weights, of the squares and of the fourth powers.
    """
    sums = cut.squared_weight_moments if p == 2 else cut.fourth_power_moments
    total = whole.squared_weight_sum if p == 2 else whole.fourth_power_weight_sum
    rejected = (local_risk - cut.risk) / whole.total_mass  # influence of a rejected sample
    const = rejected - local_risk / cut.accepted_mass  # of an accepted one: const + slope * l
    slope = 1 / cut.accepted_mass
    accepted_sum = sum(math.comb(p, j) * const ** (p - j) * slope**j * sums[j] for j in range(p + 1))
    return np.maximum(accepted_sum + rejected**p * (total - sums[0]), 0.0)


def _limits_at_cut(
    cut: AcceptedSums,
    local_risks: Sequence[np.ndarray],
    whole: WeightTotals,
    level: float,
    design_effect: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper limits of the selective risk at each cut.

    The local risk is the mean loss of samples next to the cut. `local_risks` holds one or more estimates of it (from
    above and from below); variances are averaged over them. `design_effect` multiplies the variance, for clusters. A
    0/1 loss has the limits of a proportion; other losses Student's, on the log scale if no loss is negative. `level` is
    two-sided, such as 0.95. `whole` holds the sums over all samples.
    """
    risk = cut.risk
    variance = design_effect * np.mean([_influence_power(2, cut, m, whole) for m in local_risks], axis=0)
    fourth_powers = np.mean([_influence_power(4, cut, m, whole) for m in local_risks], axis=0)
    fourth_powers = design_effect**2 * fourth_powers  # scale as squares of variances
    if whole.zero_one:
        size = _equivalent_draws(risk, variance, fourth_powers, whole, level)
        accepted_draws = cut.accepted_mass**2 / cut.squared_weight_moments[0]
        return proportion(risk, size, accepted_draws, level)
    scale = Scale("normal") if whole.has_negative_loss else Scale("log")
    half_width = student_quantile(_degrees_of_freedom(variance, fourth_powers, whole), level) * np.sqrt(
        variance
    )
    on_scale = scale.contains(risk)  # a risk of 0 has no logarithm
    # times the scale's derivative
    half_width_on_scale = half_width * scale.derivative(np.where(on_scale, risk, 1.0))
    low = np.where(on_scale, scale.shift(risk, -half_width_on_scale), risk - half_width)
    high = np.where(on_scale, scale.shift(risk, half_width_on_scale), risk + half_width)
    if not whole.has_negative_loss:
        low = np.maximum(low, 0.0)
    return low, high


def proportion(
    share: np.ndarray, size: np.ndarray, draws: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper limits of a proportion: Jeffreys', or exact one-sided ones where it is 0 or 1.

    `share` is the proportion observed; within rounding of 0 or 1 it counts as such. `size` is the number of draws with
    the same variance, for Jeffreys limits; `draws` the number of draws for the exact ones. They differ where weights
    make the variance uncertain, and need not be whole numbers. The limits contain `share` and lie in [0, 1]. `level` is
    the two-sided confidence level, such as 0.95.
    """
    tail = (1 - level) / 2
    is_extreme = np.abs(share - 0.5) > 0.5 - SUM_ROUNDING
    share = np.where(is_extreme, np.round(share), share)
    beta_low, beta_high = few.beta_limits(share, size, level, pseudo=0.5)
    largest_unseen = largest_unseen_share(draws, 1 - tail)  # a share this large may still be seen in no draw
    is_zero = share < SUM_ROUNDING
    is_one = share > 1 - SUM_ROUNDING
    low = np.where(is_zero, 0.0, np.where(is_one, 1 - largest_unseen, beta_low))
    high = np.where(is_one, 1.0, np.where(is_zero, largest_unseen, beta_high))
    return np.clip(np.minimum(low, share), 0.0, 1.0), np.clip(np.maximum(high, share), 0.0, 1.0)


def pointwise_level(level: float, span: float, cuts: int) -> float:
    r"""Level of pointwise limits that hold at all of `cuts` cuts simultaneously with probability `level`.

    The mean loss of the first N samples, standardised, is Brownian motion over the root of its time: stationary in
    ln N. Its largest absolute value on a span L = ln(N_last / N_first) exceeds q with probability

    .. math:: 2\,\Phi(-q) + L\,q\,\varphi(q)

    up to smaller terms. `span` is L, at least 0. For few cuts Bonferroni's bound is better, and is taken.
    """
    from scipy.special import ndtr

    low = 0.0
    high = 40.0  # no normal variable is ever beyond
    for _ in range(60):  # bisection
        q = (low + high) / 2
        density = math.exp(-q * q / 2) / math.sqrt(2 * math.pi)
        exceedance = 2 * ndtr(-q) + span * q * density
        if exceedance > 1 - level:
            low = q
        else:
            high = q
    return 1 - max((1 - level) / cuts, 2 * float(ndtr(-high)))


def coverage_limits(
    accepted_sums: AcceptedSums, whole: WeightTotals, risk: float, level: float, design_effect: float = 1.0
) -> tuple[float, float]:
    """Limits of the largest coverage within the risk, as a share of the answered samples.

    They invert the limits of the selective risk: the lower limit is the largest coverage whose upper limit of the risk
    is within `risk`, the upper limit the largest one whose lower limit of the risk is.

    `accepted_sums` are taken at the `positions` of the shares that `coverages` returns. `whole` describes the answered
    samples alone. `design_effect` multiplies the variance, for clusters. `level` is the two-sided confidence level,
    such as 0.95.
    """
    risk_low, risk_high, is_tied = risk_limits(
        accepted_sums, coverages(), whole, level, design_effect, join_rows=False
    )
    # line 0 of the accepted_sums is the cut itself
    coverage = accepted_sums.accepted_mass[0] / whole.total_mass
    coverage = np.where(coverage > 1 - SUM_ROUNDING, 1.0, coverage)
    # equal, independent draws with this variance
    size = np.asarray(whole.total_mass**2 / whole.squared_weight_sum / design_effect)
    return (
        _largest_coverage(risk_high, risk, coverage, is_tied, size, level, upper=False),
        _largest_coverage(risk_low, risk, coverage, is_tied, size, level, upper=True),
    )


def _largest_coverage(
    risk_limit: np.ndarray,
    risk: float,
    coverage: np.ndarray,
    is_tied: np.ndarray,
    size: np.ndarray,
    level: float,
    upper: bool,
) -> float:
    """The largest coverage at which a limit of the selective risk is within `risk`, interpolated between cuts.

    `risk_limit`, `coverage` and `is_tied` have one entry per cut, by ascending coverage: a limit of the risk there, the
    coverage reached, and whether many samples tie there. `upper` says which limit of the coverage is computed. At a
    large tie the coverage is a proportion of `size` draws, so the lower or upper limit of that proportion is returned.
    If no cut is within `risk`, the lower limit is 0. `level` is the two-sided confidence level, such as 0.95.
    """
    within = np.flatnonzero(risk_limit <= risk)
    if not len(within):  # confidences above the largest one seen may still be within the risk
        return float(largest_unseen_share(size, (1 + level) / 2)) if upper else 0.0
    last = int(within[-1])
    last_coverage = float(coverage[last])
    if is_tied[last] and last_coverage < 1:
        low, high = proportion(np.asarray(last_coverage), size, size, level)
        return float(high if upper else low)
    if last + 1 < len(risk_limit) and not is_tied[last + 1]:
        fraction = (risk - risk_limit[last]) / (risk_limit[last + 1] - risk_limit[last])
        last_coverage += fraction * float(coverage[last + 1] - coverage[last])
    return min(last_coverage, 1.0)


def scaled_by_answered_share(
    value: float, limits: tuple[float, float], answered: float, draws: float, level: float
) -> tuple[float, float]:
    """Limits of a coverage as a share of all samples, from its limits as a share of the answered samples.

    `value` and `limits` are the coverage among the answered samples and its two limits; `answered` is the answered
    share of all samples, a proportion of `draws` draws. How many answer and how the answered are ranked vary
    independently, so the distances to the two pairs of limits add up as squares. Limits may lie outside [0, 1]. `level`
    is the two-sided confidence level, such as 0.95.
    """
    share_limits = proportion(np.asarray(answered), np.asarray(draws), np.asarray(draws), level)
    distances = [
        math.hypot(answered * (limit - value), value * (float(share_limit) - answered))
        for limit, share_limit in zip(limits, share_limits)
    ]
    return answered * value - distances[0], answered * value + distances[1]


class _KindTotals(NamedTuple):
    """Sums over one kind of samples, the errors or the right samples: mass, and sums of w^2 and w^4."""

    mass: float
    squared_weight_sum: float
    fourth_power_weight_sum: float


def fpr_limits(
    accepted_sums: AcceptedSums,
    tpr: float,
    whole: WeightTotals,
    error_sums: Sequence[float],
    level: float,
    design_effect: float = 1.0,
) -> tuple[float, float]:
    """Limits of the share of errors that are accepted where a share `tpr` of the right samples is accepted.

    Losses are 0/1, and both kinds occur. `whole` holds the sums over the answered samples, and `level` is two-sided,
    such as 0.95. `accepted_sums` are taken at `positions_along_right`, for one cut;
    `error_sums` are the sums of w, w^2 and w^4 over the errors. `design_effect` multiplies the variance, for clusters.
    Where few right samples lie beyond the cut, the limits pass over to those at the first and last place where the cut
    may be.
    """
    cut, above, below, first, last = accepted_sums.split_positions()
    errors = _KindTotals(*error_sums)
    right = _KindTotals(
        mass=whole.total_mass - errors.mass,
        squared_weight_sum=whole.squared_weight_sum - errors.squared_weight_sum,
        fourth_power_weight_sum=whole.fourth_power_weight_sum - errors.fourth_power_weight_sum,
    )
    cut_error = math.sqrt(tpr * (1 - tpr) * right.squared_weight_sum)
    is_tied = cut.row_mass[0] > max(cut_error, TIE_SAMPLES * whole.total_mass / whole.unit_count)
    # a threshold at a large tie does not move with the right samples, so these have no influence
    errors_per_right = (
        [] if is_tied else [_errors_per_right(cut, window, errors, right) for window in (above, below)]
    )
    error_draws = np.asarray(errors.mass**2 / errors.squared_weight_sum / design_effect)
    limits = []
    for row in (cut, first, last) if is_tied else (cut,):
        variance = design_effect * _fpr_influence_power(2, row, errors_per_right, errors, right)
        fourth_powers = design_effect**2 * _fpr_influence_power(4, row, errors_per_right, errors, right)
        fpr = row.accepted_loss / errors.mass
        size = _equivalent_draws(fpr, variance, fourth_powers, whole, level)
        limits.append(proportion(fpr, size, error_draws, level))
    low = float(min(row_low[0] for row_low, _ in limits))
    high = float(max(row_high[0] for _, row_high in limits))
    right_beyond = right.mass**2 / right.squared_weight_sum * min(tpr, 1 - tpr)
    # how much of the limits for few right samples to use: 1 up to FEW_BEYOND of them, 0 from twice as many on
    few_share = min(1.0, max(0.0, 2 - right_beyond / FEW_BEYOND))
    if few_share > 0:
        # the cut lies between two right samples, at each of which the errors above are a plain proportion
        few_low, _ = proportion(first.accepted_loss / errors.mass, error_draws, error_draws, level)
        _, few_high = proportion(last.accepted_loss / errors.mass, error_draws, error_draws, level)
        low = few.mix_limit(min(float(few_low[0]), low), low, few_share)
        high = few.mix_limit(max(float(few_high[0]), high), high, few_share)
    return low, high


def _errors_per_right(
    cut: AcceptedSums, window_end: AcceptedSums, errors: _KindTotals, right: _KindTotals
) -> np.ndarray:
    """Share of the errors per share of the right samples, between the cut and the end of a window.

    0 where no right samples lie between them. The window may lie above or below the cut.
    """
    right_mass = (cut.accepted_mass - cut.accepted_loss) - (
        window_end.accepted_mass - window_end.accepted_loss
    )
    is_empty = np.abs(right_mass) <= SUM_ROUNDING * right.mass
    error_share = (cut.accepted_loss - window_end.accepted_loss) / errors.mass
    return np.where(is_empty, 0.0, error_share * right.mass / np.where(is_empty, 1.0, right_mass))


def _fpr_influence_power(
    p: int, row: AcceptedSums, rates: Sequence[np.ndarray], errors: _KindTotals, right: _KindTotals
) -> Any:
    r"""Sum over all samples of v^p (p = 2 or 4), where v is the weight times the influence on the FPR F at a row.

    .. math:: v_i = w_i (1(i) - F)/E \text{ for errors}, \qquad -\rho\, w_i (1(i) - A)/H \text{ for right samples},

    with E and H the masses of errors and of right samples, A the share of the right samples accepted, and rho the share
    of errors per share of right samples at the cut. `rates` holds two estimates of rho, over whose powers the mean is
    taken; if it is empty, the right samples have no influence.
    """
    sums = row.squared_weight_moments if p == 2 else row.fourth_power_moments
    all_errors = errors.squared_weight_sum if p == 2 else errors.fourth_power_weight_sum
    all_right = right.squared_weight_sum if p == 2 else right.fourth_power_weight_sum
    accepted_errors = sums[1]  # of w^p, since an error has loss 1
    accepted_right = sums[0] - sums[1]
    F = row.accepted_loss / errors.mass
    A = (row.accepted_mass - row.accepted_loss) / right.mass
    from_errors = (1 - F) ** p * accepted_errors + F**p * (all_errors - accepted_errors)
    rejected_right = all_right - sums[0] + sums[1]
    from_right = (1 - A) ** p * accepted_right + A**p * rejected_right
    rate_power = (rates[0] ** p + rates[1] ** p) / 2 if rates else 0.0
    return from_errors / errors.mass**p + rate_power * from_right / right.mass**p


def _equivalent_draws(
    share: np.ndarray, variance: np.ndarray, fourth_powers: np.ndarray, whole: WeightTotals, level: float
) -> np.ndarray:
    """How many draws would give the proportion `share` this variance; 0 where `share` is 0 or 1.

    `variance` is the sum of the squares of weighted influences, `fourth_powers` the sum of their fourth powers. With
    unequal weights the variance itself is uncertain, so the number is smaller, by the square of the ratio of the normal
    quantile to Student's. `level` is that of the limits. `whole` holds the number of samples and the sums of their
    weights, of the squares and of the fourth powers.
    """
    size = share * (1 - share) / np.where(variance > 0, variance, 1.0)
    is_unweighted = whole.squared_weight_sum == whole.total_mass
    if is_unweighted:
        return size
    normal_quantile = student_quantile(math.inf, level)
    return (
        size
        * (normal_quantile / student_quantile(_degrees_of_freedom(variance, fourth_powers, whole), level))
        ** 2
    )


def _degrees_of_freedom(variance: np.ndarray, fourth_powers: np.ndarray, whole: WeightTotals) -> Any:
    """Degrees of freedom of a variance that is a sum of squares over units, with the sum of their fourth powers."""
    return degrees_of_freedom(variance, fourth_powers - variance**2 / whole.unit_count, whole.unit_count)
