r"""The one home of the error bar: from an estimate and sums over its influences to limits, and of differences.

Everything that makes an interval (samples in memory, block tables, files, clusters of machines, streams,
groups, comparisons) passes the same few numbers to `make_interval`. In units of the estimate, v = w IF / W is what
one independent draw (a row, or a cluster) does to it:

- the standard error is :math:`s = \sqrt{\sum v^2}`, and it is known with
  :math:`2 (\sum v^2)^2 / (\sum v^4 - (\sum v^2)^2/n)` degrees of freedom (Satterthwaite);
- the interval is symmetric on the scale where the estimate's law nearly is: log, logit, or plain;
- few errors say little of those that were not drawn: the metric's `LimitRule` widens limits then;
- without any spread (all right, all wrong, a perfect or a constant ranking) limits follow from counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abstain.core.part_sums import InfluenceSums
from abstain.core.rounding import SUM_ROUNDING, WHOLE_NUMBER_ROUNDING
from abstain.inference.records import Interval
from abstain.metrics.limit_rules import draws_behind
from abstain.metrics.metric import Metric
from abstain.metrics.summaries import EstimateSpread, Limits, SampleSummary, Scale

_METHODS_ON_SCALE_OF_METRIC = (None, "logit", "jackknife")  # the others, "log" and "normal", name the scale


def make_spread(
    estimate: float, sums: InfluenceSums, unit_count: int, less_biased_estimate: float | None = None
) -> EstimateSpread:
    """An estimate with its variance, from sums over `unit_count` independent units (samples or clusters).

    `sums` holds sums over the units. Those of v^2 and v^4 make the variance, with v what a unit does to the estimate:
    its influence, of either sign, times its share of the total mass. Those of z and z^2 say how many errors the
    estimate rests on, (sum z)^2 / sum z^2, with z what the losses of a unit add to the estimate: the sum of weight
    times rank weight times loss over its samples, divided by the total mass. For 0/1 losses `sums.error_square_sum` is
    the sum of v^2 with v what the errors of a unit alone do: the part of the variance that errors make up. It is NaN
    for other losses, and then so is `variance_from_errors`. An interval is built around `less_biased_estimate`; None:
    around `estimate`.
    """
    return EstimateSpread(
        estimate=estimate,
        variance=sums.square_sum,
        variance_of_variance=sums.fourth_power_sum - sums.square_sum**2 / unit_count,
        contribution_sum=sums.contribution_sum,
        squared_contribution_sum=sums.squared_contribution_sum,
        less_biased_estimate=less_biased_estimate,
        variance_from_errors=sums.error_square_sum,
    )


class UnitVariance(NamedTuple):
    """A variance that is a sum of squares over independent units (samples or clusters), and how well it is known.

    Attributes
    ----------
    variance : float or array
        The sum of v^2, with v what one unit does to the estimate.
    variance_of_variance : float or array
        The sum of v^4 less (sum of v^2)^2 / n: how uncertain `variance` itself is.
    unit_count : int or array
        n, the number of units.
    """

    variance: Any
    variance_of_variance: Any
    unit_count: Any

    def degrees_of_freedom(self, smallest: float = 1.0) -> Any:
        """Degrees of freedom of the variance (Satterthwaite), between `smallest` and n - 1."""
        return degrees_of_freedom(self.variance, self.variance_of_variance, self.unit_count, smallest)


def variance_of_effects(effects: np.ndarray, unit_count: int | None = None) -> UnitVariance:
    """The variance of an estimate from what each independent unit does to it, `effects`.

    `unit_count` is the number of units where it is not the length of `effects`, because units that do nothing are left
    out.
    """
    squares = np.square(effects)
    variance = float(np.sum(squares))
    n = unit_count or len(effects)
    variance_of_variance = float(squares @ squares) - variance**2 / n
    return UnitVariance(variance=variance, variance_of_variance=variance_of_variance, unit_count=n)


def mean_spread(spreads: Sequence[EstimateSpread], hidden_variances: Sequence[float]) -> EstimateSpread:
    """The plain mean of independent estimates, such as those of groups, with its variance.

    `spreads` are the estimates with their variances. `hidden_variances` holds, for each estimate, the variance that its
    few errors or few right samples do not show. The mean of k estimates has 1/k^2 of the sum of their variances, and
    1/k^4 of the sum of the variances of those. It has a less biased estimate only if all of them have one.
    `variance_from_errors` is the part of a variance that errors of a 0/1 loss make up, NaN for other losses; one NaN
    makes that of the mean NaN. A `hidden_variance` that a spread holds already is not read.
    """
    k = len(spreads)
    variance_of_variance = math.fsum(spread.variance_of_variance for spread in spreads) / k**4
    less_biased = [
        spread.less_biased_estimate for spread in spreads if spread.less_biased_estimate is not None
    ]
    return EstimateSpread(
        estimate=math.fsum(spread.estimate for spread in spreads) / k,
        variance=math.fsum(spread.variance for spread in spreads) / k**2,
        variance_of_variance=variance_of_variance,
        contribution_sum=math.fsum(spread.contribution_sum for spread in spreads) / k,
        squared_contribution_sum=math.fsum(spread.squared_contribution_sum for spread in spreads) / k**2,
        less_biased_estimate=math.fsum(less_biased) / k if len(less_biased) == k else None,
        variance_from_errors=math.fsum(spread.variance_from_errors for spread in spreads) / k**2,
        hidden_variance=math.fsum(hidden_variances) / k**2,
    )


def degrees_of_freedom(
    variance: Any, variance_of_variance: Any, unit_count: Any, smallest: float = 1.0
) -> Any:
    """Degrees of freedom of a variance estimate, 2 V^2 / variance of V (Satterthwaite).

    They lie between `smallest` and n - 1, where n is `unit_count`; where n - 1 is less than `smallest`, they are n - 1,
    but at least 1. Numbers or arrays, entry by entry.
    """
    largest = np.maximum(1.0, np.asarray(unit_count) - 1.0)  # of n units, n - 1 deviations are free
    twice_square = 2 * np.square(variance)
    # at most `largest`, also where `variance_of_variance` is 0 or a rounding error; 1e-300 keeps 0 / 0 from being NaN
    least_divisor = np.maximum(twice_square / largest, 1e-300)
    freedom = twice_square / np.maximum(variance_of_variance, least_divisor)
    return np.maximum(freedom, np.minimum(smallest, largest))


def student_quantile(freedom: Any, level: Any) -> Any:
    """Two-sided quantile of Student's t; the level may differ by entry."""
    from scipy.special import stdtrit

    return stdtrit(freedom, (1 + level) / 2)


def make_interval(
    metric: Metric,
    spread: EstimateSpread,
    sample: SampleSummary,
    level: float = 0.95,
    method: str | None = None,
    loss_bound: float | None = None,
    centre_name: str = "loo",
) -> Interval:
    """The interval of an estimate, symmetric on the metric's scale or on that of `method`.

    Where no unit changes the estimate, or few errors were seen, limits also come from counts of errors.

    Parameters
    ----------
    metric : Metric
        What is estimated.
    spread : EstimateSpread
        The estimate and its variance, from losses that were divided by `sample.error_size`.
    sample : SampleSummary
        Counts of samples, errors and independent draws, the risk, and `error_size`.
    level : float
        Two-sided confidence level, such as 0.95.
    method : str, optional
        "log", "normal", "logit" or "jackknife"; None: the metric's own scale.
    loss_bound : float, optional
        Losses lie in [0, loss_bound], in the user's units; None: no bound is known.
    centre_name : str
        What `spread.less_biased_estimate` is: "loo" (leave-one-out) or "jackknife" (bias-corrected).

    Returns
    -------
    Interval
        In the user's units of the loss.
    """
    bound = None if loss_bound is None else loss_bound / sample.error_size
    # "error units": losses divided by `error_size`, c where all losses are 0 or c
    interval = _interval_in_error_units(metric, spread, sample, level, method, bound, centre_name)
    # `error_size` times it, if it scales with the loss
    return in_loss_units(metric, interval, sample.error_size)


def in_loss_units(metric: Metric, interval: Interval, error_size: float) -> Interval:
    """An interval from units of an error's size to the user's units, for a metric that scales with the loss."""
    if error_size == 1 or not metric.scales_with_loss:
        return interval
    return replace(
        interval,
        estimate=error_size * interval.estimate,
        standard_error=error_size * interval.standard_error,
        low=error_size * interval.low,
        high=error_size * interval.high,
    )


def _interval_in_error_units(
    metric: Metric,
    spread: EstimateSpread,
    sample: SampleSummary,
    level: float,
    method: str | None,
    loss_bound: float | None,
    centre_name: str,
) -> Interval:
    """`make_interval` where losses, `loss_bound` and the result are in units of an error's size."""
    rule = metric.rule
    if method in _METHODS_ON_SCALE_OF_METRIC:
        scale = metric.scale_for(sample.is_zero_one, sample.has_negative_loss)
    else:
        scale = Scale(str(method))
    estimate = spread.estimate
    rounding = SUM_ROUNDING * max(abs(estimate), abs(sample.risk))
    if spread.standard_error <= rounding:
        spread = spread._replace(variance=0.0)
    is_ideal_order = rule.zero_is_ideal and abs(estimate) <= rounding
    missed_above = rule.missed_above(spread, sample, level, loss_bound)
    interval = Interval(
        metric=metric.key,
        estimate=estimate,
        standard_error=spread.standard_error,
        low=estimate,
        high=estimate,
        level=level,
        method=method or scale.name,
        n=sample.sample_count,
        note=_note(metric, spread, sample),
    )
    if spread.standard_error == 0 or is_ideal_order:
        limits = limits_without_spread(metric, estimate, sample, level, loss_bound)
        if limits is not None:
            low = min(limits[0], estimate)
            high = max(limits[1], estimate + missed_above)
            if loss_bound is None:
                low, high = clip_to_range(metric, sample, (low, high), estimate)
            return replace(interval, low=low, high=high, centre="bound")
    centre = estimate
    used_centre = "estimate"
    reads_less_biased = spread.standard_error > 0 and (scale.name == "log" or centre_name != "loo")
    if spread.less_biased_estimate is not None and reads_less_biased:
        centre = spread.less_biased_estimate
        used_centre = centre_name
    if not scale.contains(centre):
        centre = 0.0 if is_ideal_order else estimate
        used_centre = "estimate"
    if not scale.contains(centre):
        scale = Scale("normal")
        interval = replace(interval, method="normal")
    hidden_variance = spread.hidden_variance
    if hidden_variance is None:
        hidden_variance = rule.hidden_variance(spread, sample)
    variance = spread.variance + hidden_variance
    freedom = degrees_of_freedom(variance, spread.variance_of_variance, sample.unit_count)
    half_width = student_quantile(freedom, level) * math.sqrt(variance) * scale.derivative(centre)
    low = float(scale.shift(centre, -half_width))
    high = float(scale.shift(centre, half_width))
    if scale.name == "log":
        high = estimate + math.hypot(max(high - estimate, 0.0), missed_above)
    else:
        missed_below = rule.missed_below(sample, level)
        if missed_below > 0:
            low = estimate - math.hypot(max(estimate - low, 0.0), missed_below)
    if method != "normal":
        low, high = rule.adjust_for_few((low, high), spread, sample, level, variance)
        limits = (min(low, estimate), max(high, estimate))
        low, high = clip_to_range(metric, sample, limits, estimate)
    return replace(interval, low=low, high=high, centre=used_centre)


def _note(metric: Metric, spread: EstimateSpread, sample: SampleSummary) -> str:
    """A note on how few errors or right samples a number rests on; empty where they are enough."""
    if sample.has_negative_loss or spread.contribution_sum <= 0 or not metric.rule.notes_few_draws:
        return ""
    return draws_behind(metric.rule, spread.effective_errors, sample).note


def clip_to_range(metric: Metric, sample: SampleSummary, limits: Limits, estimate: float) -> Limits:
    """The part of an interval that the metric can reach; the plain scale, or rounding, may have led beyond.

    Some estimators ("2sele") can leave the range themselves; their limits are returned unchanged. `sample` counts the
    errors, the right samples and the independent draws behind the estimate.
    """
    smallest, largest = metric.range_for(sample.is_zero_one, sample.has_negative_loss)
    if not smallest - WHOLE_NUMBER_ROUNDING <= estimate <= largest + WHOLE_NUMBER_ROUNDING:
        return limits
    low, high = limits
    return min(max(smallest, low), largest), max(min(largest, high), smallest)


def limits_without_spread(
    metric: Metric, estimate: float, sample: SampleSummary, level: float, loss_bound: float | None
) -> Limits | None:
    r"""Lower and upper limit where no unit changes the estimate, from counts alone; None where none are known.

    With none of n units wrong, the risk is at most :math:`p = 1 - (1-level)^{1/n}`; `metric.rule` turns a limit of the
    risk into limits of the metric. Losses are 0/1, or lie in [0, loss_bound]; without a bound (None), and for bounded
    losses that are not all 0, no limits are known. Losses and `loss_bound` were divided by `sample.error_size`.
    `sample` holds the risk and the numbers of errors, right samples and independent draws. A unit is one such draw.
    """
    rule = metric.rule
    if not sample.is_zero_one and (loss_bound is None or sample.risk != 0):
        return None
    # of the population: what no draw shows makes up at most this share, with probability `level`
    largest_unseen = sample.largest_unseen_share(level)
    if sample.risk == 0:
        # limits of the metric where the risk may be as large as that; None: the rule knows none
        limits = rule.without_errors(largest_risk=largest_unseen)
        if limits is None or not metric.scales_with_loss or loss_bound is None:
            return limits
        low, high = limits  # for errors of size 1; those not seen may be as large as the bound
        return low, loss_bound * high
    # in the next two cases, too, the rule returns None if it knows no limits
    if sample.risk == 1:  # of 0/1 losses: every sample is wrong
        return rule.all_wrong(smallest_risk=1 - largest_unseen)
    # all right samples above all errors, or all below, or all tied
    return rule.perfect_or_constant(estimate, sample, level)


# differences ----------------------------------------------------------------------------------------------


class DifferenceSums(NamedTuple):
    """Sums over independent units of what they do to the difference of two models, one entry per pair.

    v_A and v_B are what a unit does to either estimate T, and e = v_A f'(T_A) - v_B f'(T_B) is the same on the metric's
    scale f. For independent test sets the first two fields, the square of `standard_error` and `unit_count` add up over
    both.

    Attributes
    ----------
    variance_on_scale, variance_of_variance_on_scale : array
        The sum of e^2, which is the variance of f(T_A) - f(T_B), and the sum of e^4 less (sum of e^2)^2 / n, which says
        how uncertain that variance is.
    standard_error : array
        Standard error of T_A - T_B, not on the scale: the root of the sum of (v_A - v_B)^2.
    unit_count : int or array
        n, the number of independent units.
    """

    variance_on_scale: Any
    variance_of_variance_on_scale: Any
    standard_error: Any
    unit_count: Any

    @property
    def unit_variance_on_scale(self) -> UnitVariance:
        """`variance_on_scale` with what says how well it is known: one record, which has the degrees of freedom."""
        return UnitVariance(
            variance=self.variance_on_scale,
            variance_of_variance=self.variance_of_variance_on_scale,
            unit_count=self.unit_count,
        )


def contrast(
    scale: Scale, T: tuple[Any, Any], s: tuple[Any, Any], second: Any, df: Any, level: Any
) -> tuple[Any, Any, Any]:
    r"""Limits of `T_A - T_B` and the p-value of no difference, for many pairs at once.

    Distances are taken on the metric's scale, where the two sides have standard errors a and b and their difference
    has :math:`\eta = \sqrt{\sum e^2}`, less than :math:`\sqrt{a^2+b^2}` where both find the same samples hard.
    The error that is not shared, :math:`a\eta/\sqrt{a^2+b^2}` and the same for b, gives distances L and U from each
    estimate to its limits, and :math:`\sqrt{L_A^2 + U_B^2}` is the distance to the lower limit of the difference.
    Shared error moves both estimates and makes no difference where there is none: it widens the limits, but it must
    not move a limit back across zero, and the p-value (the level at which the first limit is 0) ignores it.

    Parameters
    ----------
    scale : Scale
        Of the metric.
    T, s : (array, array)
        Estimates and standard errors of A and of B, one entry per pair.
    second, df : array
        The sum of e^2, and its degrees of freedom.
    level : array or float
        Of the limits; it may differ by pair.

    Returns
    -------
    (low, high, p_value)
    """
    from scipy.special import stdtr

    value_a, value_b, error_a, error_b = np.broadcast_arrays(*T, *s)
    difference = value_a - value_b
    scaled_a = error_a * scale.derivative(value_a)
    scaled_b = error_b * scale.derivative(value_b)
    independent = scaled_a**2 + scaled_b**2  # the variance if nothing were shared
    has_error = independent > 0
    unshared = np.sqrt(np.where(has_error, second / np.where(has_error, independent, 1.0), 0.0))
    shared = np.sqrt(np.maximum(independent - second, 0.0) / 2)

    def distance_to_lower_limit(
        q: Any, first: Any, first_error: Any, second_value: Any, second_error: Any
    ) -> Any:
        """How far the lower limit of `first - second_value` lies below it, from unshared error at quantile q."""
        below_first = first - scale.shift(first, -q * unshared * first_error)
        above_second = scale.shift(second_value, q * unshared * second_error) - second_value
        return np.hypot(below_first, above_second)

    def lower_limit(gap: Any, distance: Any, moved_gaps: list[Any]) -> Any:
        """The lower limit of a difference `gap`; `moved_gaps` is the gap when shared error moves both sides."""
        smallest_moved = np.minimum(moved_gaps[0], moved_gaps[1])
        unshared_limit = gap - distance
        limit = gap - np.hypot(gap - unshared_limit, gap - smallest_moved)
        # shared error must not move the limit back across zero
        excludes_zero = (unshared_limit > 0) & (gap > 0)
        shrunk = unshared_limit * smallest_moved / np.where(excludes_zero, gap, 1.0)
        return np.where(excludes_zero, np.maximum(limit, shrunk), limit)

    q = student_quantile(df, level)
    moved = [scale.shift(value_a, shift) - scale.shift(value_b, shift) for shift in (-q * shared, q * shared)]
    a_minus_b = (value_a, scaled_a, value_b, scaled_b)
    b_minus_a = (value_b, scaled_b, value_a, scaled_a)
    low = lower_limit(difference, distance_to_lower_limit(q, *a_minus_b), moved)
    high = -lower_limit(-difference, distance_to_lower_limit(q, *b_minus_a), [-gap for gap in moved])
    larger_first = [np.where(difference >= 0, x, y) for x, y in zip(a_minus_b, b_minus_a)]
    edge = _solve_increasing(lambda q: distance_to_lower_limit(q, *larger_first), np.abs(difference))
    return low, high, np.where(difference == 0, 1.0, 2 * stdtr(df, -edge))


def _solve_increasing(function: Callable[[np.ndarray], np.ndarray], target: np.ndarray) -> np.ndarray:
    """Find x with function(x) = target, entry by entry, for an increasing function with function(0) = 0.

    Both arrays have the same shape, and `target` is at least 0. By false position, in which the error at an end of the
    bracket that did not move is halved (the Illinois rule): that converges to rounding in about ten steps. An entry
    that has not after 60 steps is returned as it is.
    """
    most_steps = 60  # doubling 60 times reaches 1e18; false position stops long before
    # double `high` until it is an upper end of the bracket in every entry
    low = np.zeros_like(target)
    high = np.ones_like(target)
    for _ in range(most_steps):
        too_small = function(high) < target
        if not too_small.any():
            break
        high = np.where(too_small, 2 * high, high)
    error_low = -target
    error_high = function(high) - target
    for _ in range(most_steps):
        rise = error_high - error_low
        is_flat = rise == 0
        middle = np.where(is_flat, high, high - error_high * (high - low) / np.where(is_flat, 1.0, rise))
        error_middle = function(middle) - target
        crosses = error_high * error_middle < 0  # the solution lies between `high` and `middle`
        low = np.where(crosses, high, low)
        error_low = np.where(crosses, error_high, error_low / 2)
        high = middle
        error_high = error_middle
        is_solved = np.abs(error_high) <= 1e-15 * target  # relative rounding of a float
        if is_solved.all():
            break
    return high
