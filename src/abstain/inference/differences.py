"""Is A better than B? Differences of a metric, on the same samples or on different ones; of all pairs at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain._check import check_fraction
from abstain.errors import InputError, ShapeError
from abstain.inference.limits import (
    Joint,
    contrast,
    degrees_of_freedom,
    make_interval,
    moments,
)
from abstain.inference.records import Difference
from abstain.inference.standard_errors import (
    SMALLEST_LOSS,
    Units,
    fill_in,
    gather,
    influences_of_units,
    leave_one_out,
    spread_by_sample,
    summarise_units,
    unit_effects,
)
from abstain.metrics.limit_rules import note_on_few_draws
from abstain.metrics.metric import Metric
from abstain.metrics.summaries import EstimateSpread, SampleSummary, Scale


def paired_difference(
    loss_a: Array,
    confidence_a: Array,
    loss_b: Array,
    confidence_b: Array,
    /,
    *,
    metric: str | Metric | Callable[..., Any] = "aurc",
    level: float = 0.95,
    clusters: Array | None = None,
    strata: Array | None = None,
    sample_weight: Array | None = None,
    repetitions: bool = False,
    abstained_a: Array | None = None,
    abstained_b: Array | None = None,
    **options: Any,
) -> Difference:
    r"""Metric of A minus metric of B on the *same* samples, sample i of one being sample i of the other.

    .. math:: t = \frac{\phi(T_A) - \phi(T_B)}{\sqrt{\sum_i e_i^2}/n}, \qquad
              e_i = \phi'(T_A)\,\mathrm{IF}^A_i - \phi'(T_B)\,\mathrm{IF}^B_i

    What makes a sample hard for both cancels in e, so this sees differences that two separate intervals hide.
    :math:`\phi` is the metric's scale (the logarithm for AURC). The p-value is two-sided, of "both have the same
    value in the population", by Student's t with the degrees of freedom of e. With fewer than eleven effective errors
    on either side (or right samples, where the metric reads both kinds) there is no verdict: the p-value is 1, the
    interval is that of the two models taken apart and holds 0, and `note` says why. The interval leaves 0 out exactly
    where the p-value is below 1 - level.

    Parameters
    ----------
    loss_a, confidence_a, loss_b, confidence_b : array, shape (n,)
        Of each model; higher confidence = surer.
    metric : str, Metric, or the function of that name
        One that has an influence function, see `influence`.
    level : float
        Of the interval.
    clusters, strata, sample_weight, repetitions : optional
        As in `interval`; one for both models, since the samples are the same.
    abstained_a, abstained_b : array of bool, optional
        Samples that a model never accepts.
    **options
        The metric's own: `estimator`, `ties`, `oracle`.

    Returns
    -------
    Difference

    Examples
    --------
    >>> loss, sure = [0, 0, 1, 0, 1, 1], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    >>> paired_difference(loss, sure, loss, sure).p_value
    1.0
    """
    a = (loss_a, confidence_a, sample_weight, abstained_a, clusters, strata)
    b = (loss_b, confidence_b, sample_weight, abstained_b, clusters, strata)
    return _difference("paired_difference", metric, a, b, level, options, repetitions)


def unpaired_difference(
    loss_a: Array,
    confidence_a: Array,
    loss_b: Array,
    confidence_b: Array,
    /,
    *,
    metric: str | Metric | Callable[..., Any] = "aurc",
    level: float = 0.95,
    clusters_a: Array | None = None,
    clusters_b: Array | None = None,
    sample_weight_a: Array | None = None,
    sample_weight_b: Array | None = None,
    repetitions: bool = False,
    abstained_a: Array | None = None,
    abstained_b: Array | None = None,
    **options: Any,
) -> Difference:
    """Metric of A minus metric of B on two *independent* test sets; see `paired_difference`.

    Parameters
    ----------
    loss_a, confidence_a, loss_b, confidence_b : array, one length per model
        Of each model; higher confidence = surer.
    metric : str, Metric, or the function of that name
        One that has an influence function, see `influence`.
    level : float
        Of the interval.
    clusters_a, clusters_b, sample_weight_a, sample_weight_b, repetitions : optional
        As in `interval`, of each model.
    abstained_a, abstained_b : array of bool, optional
        Samples that a model never accepts.
    **options
        The metric's own: `estimator`, `ties`, `oracle`.

    Returns
    -------
    Difference

    Examples
    --------
    >>> unpaired_difference([0, 1, 0], [3, 2, 1], [0, 1, 0], [3, 2, 1]).difference
    0.0
    """
    a = (loss_a, confidence_a, sample_weight_a, abstained_a, clusters_a, None)
    b = (loss_b, confidence_b, sample_weight_b, abstained_b, clusters_b, None)
    return _difference("unpaired_difference", metric, a, b, level, options, repetitions)


Given = tuple[Array, Array, Array | None, Array | None, Array | None, Array | None]  # as `gather` takes them


def _difference(
    name: str,
    metric: Any,
    a: Given,
    b: Given,
    level: float,
    options: dict[str, Any],
    repetitions: bool,
) -> Difference:
    level, paired = check_fraction(name, "level", level, open_high=True), name == "paired_difference"
    one, other = with_one_error_size(
        name, [gather(name, metric, *columns, options=options, repetitions=repetitions) for columns in (a, b)]
    )
    if paired and one.n != other.n:
        raise ShapeError(
            f"{name}: A and B must be the same samples, got {one.n} and {other.n} of them. "
            f"Use `unpaired_difference` for different test sets."
        )
    sides = [side_of(units) for units in (one, other)]
    negative = bool((one.loss < 0).any() or (other.loss < 0).any())
    scale = one.metric.scale_for(one.zero_one and other.zero_one, negative)
    scale = scale.times(one.error_size) if one.metric.scales_with_loss else scale
    test = compared(sides, np.asarray([0]), np.asarray([1]), scale, level, paired)
    return Difference(
        metric=one.metric.name,
        difference=float(test.difference[0]),
        standard_error=float(test.standard_error[0]),
        low=float(test.low[0]),
        high=float(test.high[0]),
        p_value=float(test.p_value[0]),
        level=level,
        n=one.counted if paired else one.counted + other.counted,
        estimate_a=sides[0].estimate,
        estimate_b=sides[1].estimate,
        paired=paired,
        note=test.note[0],
    )


class Side(NamedTuple):
    """One model: its estimate, the less biased one that tests read, what each unit does to it, and its errors."""

    estimate: float
    centre: float
    error: float
    effective_draws: (
        float  # errors (or right samples, if those are fewer) of equal weight that would say as much
    )
    few: str  # says so where they are too few for a verdict
    risk: float
    units: int
    limits: Callable[[float], tuple[float, float]]  # of this model alone, at a level
    pulls: np.ndarray  # empty where the joint sums are known


def side_of(units: Units) -> Side:
    """Of checked samples."""
    influences = influences_of_units("paired_difference", units)
    pulls = unit_effects(influences.influence, units)
    if units.clusters is not None:
        pulls = pulls * math.sqrt(len(pulls) / (len(pulls) - 1))
    reach = unit_effects(influences.rank_weights * fill_in(units, units.loss), units, centred=False)
    square = float(reach @ reach)
    effective = float(np.sum(reach)) ** 2 / square if square > 0 else 0.0
    loo = leave_one_out(units)
    known = summarise_units(units)
    draws, note = note_on_few_draws(units.metric.rule, effective, known)
    size = units.error_size if units.metric.scales_with_loss else 1.0
    pulls = size * pulls
    return Side(
        estimate=size * influences.estimate,
        centre=size * (influences.estimate if loo is None else loo),
        error=math.sqrt(float(pulls @ pulls)),
        effective_draws=draws,
        few=note,
        risk=size * known.risk,
        units=known.unit_count,
        limits=lambda level: limits_of_units(units, level),
        pulls=pulls,
    )


def side_of_spread(metric: Metric, spread: EstimateSpread, sample: SampleSummary, pulls: np.ndarray) -> Side:
    """The side of a model whose sums are known already.

    `pulls` holds what each independent unit does to the estimate, in the user's units; it may be empty where the
    joint sums of the pair are known too.
    """
    draws, note = note_on_few_draws(metric.rule, spread.effective_errors, sample)
    size = sample.error_size if metric.scales_with_loss else 1.0

    def limits(level: float) -> tuple[float, float]:
        interval = make_interval(metric, spread, sample, level)
        return interval.low, interval.high

    return Side(
        estimate=size * spread.estimate,
        centre=size * (spread.estimate if spread.centre is None else spread.centre),
        error=size * spread.standard_error,
        effective_draws=draws,
        few=note,
        risk=size * sample.risk,
        units=sample.unit_count,
        limits=limits,
        pulls=pulls,
    )


def with_one_error_size(name: str, units: Sequence[Units]) -> list[Units]:
    """Samples of several models, those without an error in units of the others' errors.

    Models whose errors have different sizes are compared as any other losses are. Sizes whose fourth powers would
    overflow or vanish are refused; `name` is the function that the message names.
    """
    for u in units:
        if not SMALLEST_LOSS < u.error_size < 1 / SMALLEST_LOSS:
            rule = f"losses must lie between {SMALLEST_LOSS:g} and {1 / SMALLEST_LOSS:g} in size"
            raise InputError(f"{name}: {rule}, got about {u.error_size:.2g}. Divide them all by one number.")
    sizes = {u.error_size for u in units if u.zero_one and u.loss.any()}
    if len(sizes) == 1:
        size = sizes.pop()
        return [u._replace(error_size=size) if u.zero_one else u for u in units]
    if len(sizes) < 2:
        return list(units)
    return [
        u._replace(loss=u.error_size * u.loss, zero_one=False, error_size=1.0) if u.zero_one else u
        for u in units
    ]


def limits_of_units(units: Units, level: float) -> tuple[float, float]:
    """Limits of one model alone."""
    spread = spread_by_sample("paired_difference", units)
    interval = make_interval(units.metric, spread, summarise_units(units), level)
    return interval.low, interval.high


class Tests(NamedTuple):
    """Differences of several pairs, tested as one family: one entry per pair in every array."""

    difference: np.ndarray
    standard_error: np.ndarray
    low: np.ndarray  # limits, corrected for the number of pairs as `p_adjusted` is
    high: np.ndarray
    p_value: np.ndarray  # two-sided, of the pair alone
    p_adjusted: np.ndarray  # after Holm
    note: np.ndarray  # why there is no verdict, or ""


def compared(
    sides: Sequence[Side],
    a: np.ndarray,
    b: np.ndarray,
    scale: Scale,
    level: float,
    paired: bool,
    known: tuple[Joint, Any] | None = None,
) -> Tests:
    """Test the pairs (a, b) as one family.

    `known`: joint sums and number of units of the one pair, from wherever its samples are.
    """
    value, T, s, risk = np.asarray([(x.estimate, x.centre, x.error, x.risk) for x in sides]).T
    magnitude = np.maximum(np.abs(value), np.abs(risk))  # an excess over the oracle may be rounding alone
    T = np.where(np.abs(T) <= _ROUNDING * magnitude, 0.0, T)
    gap = value[a] - value[b]
    size = magnitude[a] + magnitude[b]
    on_scale = np.asarray(scale.holds(T[a]) & scale.holds(T[b]) & (scale.name != "normal"))
    error, low, high, p = np.empty((4, len(a)))
    contrasts = []
    for chosen, which in ((scale, on_scale), (Scale("normal"), ~on_scale)):
        if which.any():
            i = a[which]
            j = b[which]
            joint, units = known or _joint(sides, i, j, chosen, T, paired)
            df = degrees_of_freedom(joint.second, joint.excess, units, 2.0)
            arguments = (chosen, (T[i], T[j]), (s[i], s[j]), joint.second, df)
            error[which] = joint.error
            low[which], high[which], p[which] = contrast(*arguments, level)
            contrasts.append((which, arguments))
    flat = error <= _ROUNDING * size  # no spread at all: equal, or different in every sample alike
    gap = np.where(flat & (np.abs(gap) <= _ROUNDING * size), 0.0, gap)
    p = np.where(flat, np.where(gap == 0, 1.0, 0.0), p)
    weaker = [min(sides[i], sides[j], key=lambda side: side.effective_draws) for i, j in zip(a, b)]
    messages = [
        f"{side.few}: too few to compare" if side.few and g != 0 else "" for side, g in zip(weaker, gap)
    ]
    notes = np.asarray(messages, dtype=object)
    p = np.where(notes == "", p, 1.0)
    adjusted = holm(p)
    levels = np.full(len(p), level)
    if len(p) > 1:
        levels = corrected_levels(p, adjusted, level)
        for which, arguments in contrasts:
            low[which], high[which], _ = contrast(*arguments, levels[which])
    low = np.where(flat, gap, np.minimum(low, gap))
    high = np.where(flat, gap, np.maximum(high, gap))
    for k in np.flatnonzero(notes != ""):
        (low_a, high_a), (low_b, high_b) = (sides[x].limits(float(levels[k])) for x in (a[k], b[k]))
        low[k] = min(low[k], low_a - high_b)
        high[k] = max(high[k], high_a - low_b)
    return _agreeing(Tests(gap, error, low, high, p, adjusted, notes), level)


def _agreeing(tests: Tests, level: float) -> Tests:
    """Let interval and p-value say the same: 0 lies outside exactly where the corrected p-value is below 1 - level.

    They differ where there is no verdict; and where the estimates, which the interval takes in, lie on the other side
    of 0 than the less biased ones that the test reads.
    """
    alpha = 1 - level
    significant = tests.p_adjusted < alpha
    holds_zero = (tests.low <= 0) & (tests.high >= 0)
    contradicted = significant & holds_zero
    return tests._replace(
        low=np.where(significant, tests.low, np.minimum(tests.low, 0.0)),
        high=np.where(significant, tests.high, np.maximum(tests.high, 0.0)),
        p_value=np.where(contradicted, np.maximum(tests.p_value, alpha), tests.p_value),
        p_adjusted=np.where(contradicted, np.maximum(tests.p_adjusted, alpha), tests.p_adjusted),
    )


def holm(p_values: np.ndarray) -> np.ndarray:
    """P-values corrected for their number, step down (Holm): the k-th smallest times (m - k + 1), never falling.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def corrected_levels(p_values: np.ndarray, adjusted: np.ndarray, level: float) -> np.ndarray:
    """The level of each pair's interval: it leaves 0 out exactly where the corrected p-value is below 1 - `level`.

    All pairs get Bonferroni's level, at which their intervals cover together with probability `level`. Holm rejects
    a few pairs that Bonferroni would not: these get the level of Holm's step.

    >>> p = np.array([0.001, 0.04, 0.5])
    >>> corrected_levels(p, holm(p), 0.94).round(3).tolist()
    [0.98, 0.98, 0.98]
    >>> p = np.array([0.001, 0.022, 0.5])  # 3 * 0.022 is above 0.06, 2 * 0.022 below
    >>> corrected_levels(p, holm(p), 0.94).round(3).tolist()
    [0.98, 0.97, 0.98]
    """
    alpha = 1 - level
    tests = np.full(len(p_values), float(len(p_values)))
    by_holm_alone = (adjusted < alpha) & (tests * p_values >= alpha)
    tests[by_holm_alone] = adjusted[by_holm_alone] / p_values[by_holm_alone]
    return np.asarray(1 - alpha / tests)


def _joint(
    sides: Sequence[Side], a: np.ndarray, b: np.ndarray, scale: Scale, T: np.ndarray, paired: bool
) -> tuple[Joint, Any]:
    """Sums over units of all pairs: of those on the same units by products of matrices, of others side by side."""
    used, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    i, j = place[: len(a)], place[len(a) :]
    every, drawn = [sides[k].pulls for k in used], np.asarray([sides[k].units for k in used])
    scaled = [v * rate for v, rate in zip(every, scale.rate(T[used]))]
    if not paired:
        own = np.asarray([(*moments(x, n), v @ v, n) for x, v, n in zip(scaled, every, drawn)])
        second, excess, error2, units = (own[i] + own[j]).T
        return Joint(second, excess, np.sqrt(error2)), units
    v, x = np.stack(every), np.stack(scaled)
    x2 = x * x
    cubes, middle, fourths = (x2 * x) @ x.T, x2 @ x2.T, np.sum(x2 * x2, axis=1)
    sizes = fourths[i] + fourths[j]
    fourth = sizes - 4 * (cubes[i, j] + cubes[j, i]) + 6 * middle[i, j]
    second, error2 = (_squared_gap(y @ y.T, i, j) for y in (x, v))
    for k in np.flatnonzero(fourth < _RELATIVE * sizes):  # near twins: few digits are left
        gap, own = x[i[k]] - x[j[k]], v[i[k]] - v[j[k]]
        second[k], fourth[k], error2[k] = gap @ gap, np.sum(gap**4), own @ own
    n = np.maximum(drawn[i], drawn[j])
    return Joint(second, fourth - second**2 / n, np.sqrt(error2)), n


_ROUNDING = 1e-13
_RELATIVE = 1e-6  # below this share of its terms a difference of sums is worked out sample by sample


def _squared_gap(gram: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    r""":math:`\|x_i - x_j\|^2 = G_{ii} + G_{jj} - 2 G_{ij}`."""
    own = np.diag(gram)
    return np.asarray(np.maximum(own[i] + own[j] - 2 * gram[i, j], 0.0))
