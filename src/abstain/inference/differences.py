"""Differences of a metric between models, on the same samples or on different ones, and tests of many pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, ArrayLike
from abstain._check import check_fraction
from abstain.core.rounding import DIFFERENCE_ROUNDING
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
    loss_a: ArrayLike,
    confidence_a: ArrayLike,
    loss_b: ArrayLike,
    confidence_b: ArrayLike,
    /,
    *,
    metric: str | Metric | Callable[..., Any] = "aurc",
    level: float = 0.95,
    clusters: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained_a: ArrayLike | None = None,
    abstained_b: ArrayLike | None = None,
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
    loss_a: ArrayLike,
    confidence_a: ArrayLike,
    loss_b: ArrayLike,
    confidence_b: ArrayLike,
    /,
    *,
    metric: str | Metric | Callable[..., Any] = "aurc",
    level: float = 0.95,
    clusters_a: ArrayLike | None = None,
    clusters_b: ArrayLike | None = None,
    sample_weight_a: ArrayLike | None = None,
    sample_weight_b: ArrayLike | None = None,
    repetitions: bool = False,
    abstained_a: ArrayLike | None = None,
    abstained_b: ArrayLike | None = None,
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


# loss, confidence, weight, abstained, clusters and strata of one model, as `gather` takes them
Columns = tuple[Array, Array, Array | None, Array | None, Array | None, Array | None]


def _difference(
    name: str,
    metric: Any,
    columns_a: Columns,
    columns_b: Columns,
    level: float,
    options: dict[str, Any],
    repetitions: bool,
) -> Difference:
    """The difference of two models; `name` is the public function, which messages name.

    Raises ShapeError if paired models have different numbers of samples, and InputError for other bad input.
    """
    level = check_fraction(name, "level", level, open_high=True)
    paired = name == "paired_difference"
    units_a, units_b = with_one_error_size(
        name,
        [
            gather(name, metric, *columns_a, options=options, repetitions=repetitions),
            gather(name, metric, *columns_b, options=options, repetitions=repetitions),
        ],
    )
    if paired and units_a.n != units_b.n:
        raise ShapeError(
            f"{name}: A and B must be the same samples, got {units_a.n} and {units_b.n} of them. "
            f"Use `unpaired_difference` for different test sets."
        )
    sides = [side_of(units_a), side_of(units_b)]
    has_negative = bool((units_a.loss < 0).any() or (units_b.loss < 0).any())
    scale = units_a.metric.scale_for(units_a.zero_one and units_b.zero_one, has_negative)
    if units_a.metric.scales_with_loss:
        scale = scale.times(units_a.error_size)
    test = compared(sides, np.asarray([0]), np.asarray([1]), scale, level, paired)
    return Difference(
        metric=units_a.metric.name,
        difference=float(test.difference[0]),
        standard_error=float(test.standard_error[0]),
        low=float(test.low[0]),
        high=float(test.high[0]),
        p_value=float(test.p_value[0]),
        level=level,
        n=units_a.counted if paired else units_a.counted + units_b.counted,
        estimate_a=sides[0].estimate,
        estimate_b=sides[1].estimate,
        paired=paired,
        note=test.note[0],
    )


class Side(NamedTuple):
    """One model of a comparison, in the user's units.

    Attributes
    ----------
    estimate, centre, error : float
        Estimate of the metric, the less biased estimate that tests use, and the standard error.
    effective_draws : float
        Number of errors of equal weight (or of right samples, if those are fewer) with as much information.
    few : str
        Says that these are too few for a verdict, or "".
    risk : float
        Mean loss of all samples.
    units : int
        Number of independent units.
    limits : callable
        Limits of this model alone, as a function of the level.
    pulls : ndarray, shape (units,)
        What each unit adds to the error of the estimate; empty where the joint sums are known.
    """

    estimate: float
    centre: float
    error: float
    effective_draws: float
    few: str
    risk: float
    units: int
    limits: Callable[[float], tuple[float, float]]
    pulls: np.ndarray


def side_of(units: Units) -> Side:
    """The side of a model, from its checked samples."""
    influences = influences_of_units("paired_difference", units)
    pulls = unit_effects(influences.influence, units)
    if units.clusters is not None:
        pulls = pulls * math.sqrt(len(pulls) / (len(pulls) - 1))
    weighted_losses = influences.rank_weights * fill_in(units, units.loss)
    loss_shares = unit_effects(weighted_losses, units, centred=False)
    sum_of_squares = float(loss_shares @ loss_shares)
    effective_errors = float(np.sum(loss_shares)) ** 2 / sum_of_squares if sum_of_squares > 0 else 0.0
    loo = leave_one_out(units)
    sample = summarise_units(units)
    draws, note = note_on_few_draws(units.metric.rule, effective_errors, sample)
    size = units.error_size if units.metric.scales_with_loss else 1.0
    pulls = size * pulls
    return Side(
        estimate=size * influences.estimate,
        centre=size * (influences.estimate if loo is None else loo),
        error=math.sqrt(float(pulls @ pulls)),
        effective_draws=draws,
        few=note,
        risk=size * sample.risk,
        units=sample.unit_count,
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
    """Give the models of a comparison one size of an error, so that their losses are in the same units.

    A model without errors takes the size of the others. Where the sizes differ, losses are no longer treated as 0/1
    losses in units of an error. Raises InputError if fourth powers of a size would overflow or vanish; `name` is the
    function that the message names.
    """
    for model in units:
        if not SMALLEST_LOSS < model.error_size < 1 / SMALLEST_LOSS:
            rule = f"losses must lie between {SMALLEST_LOSS:g} and {1 / SMALLEST_LOSS:g} in size"
            raise InputError(
                f"{name}: {rule}, got about {model.error_size:.2g}. Divide them all by one number."
            )
    sizes = {model.error_size for model in units if model.zero_one and model.loss.any()}
    if not sizes:
        return list(units)
    if len(sizes) == 1:
        size = sizes.pop()
        return [model._replace(error_size=size) if model.zero_one else model for model in units]
    return [
        model._replace(loss=model.error_size * model.loss, zero_one=False, error_size=1.0)
        if model.zero_one
        else model
        for model in units
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
    known_sums: tuple[Joint, Any] | None = None,
) -> Tests:
    """Test the differences `sides[a[k]] - sides[b[k]]` of several pairs as one family.

    `paired` says that all sides are on the same units. Pass `known_sums`, the joint sums and the number of units, if
    they were computed elsewhere; there must then be only one pair.
    """
    estimate = np.asarray([side.estimate for side in sides])
    magnitude = _magnitudes(sides)
    centre = centres_of(sides)
    difference = estimate[a] - estimate[b]
    pair_magnitude = magnitude[a] + magnitude[b]

    contrasts = _contrasts(sides, a, b, scale, centre, paired, known_sums)
    standard_error, low, high, p_value = np.empty((4, len(a)))
    for group in contrasts:
        standard_error[group.pairs] = group.standard_error
        low[group.pairs], high[group.pairs], p_value[group.pairs] = group.test(level)
    # no spread at all: the two are equal, or differ by the same amount in every sample
    has_no_spread = standard_error <= DIFFERENCE_ROUNDING * pair_magnitude
    is_rounding = np.abs(difference) <= DIFFERENCE_ROUNDING * pair_magnitude
    difference = np.where(has_no_spread & is_rounding, 0.0, difference)
    p_value = np.where(has_no_spread, np.where(difference == 0, 1.0, 0.0), p_value)

    notes = _notes_on_few_draws(sides, a, b, difference)
    has_no_verdict = notes != ""
    p_value = np.where(has_no_verdict, 1.0, p_value)
    p_adjusted = holm(p_value)
    levels = np.full(len(p_value), level)
    if len(p_value) > 1:
        levels = corrected_levels(p_value, p_adjusted, level)
        for group in contrasts:
            low[group.pairs], high[group.pairs], _ = group.test(levels[group.pairs])
    low = np.where(has_no_spread, difference, np.minimum(low, difference))
    high = np.where(has_no_spread, difference, np.maximum(high, difference))
    for k in np.flatnonzero(has_no_verdict):
        low_a, high_a = sides[a[k]].limits(float(levels[k]))
        low_b, high_b = sides[b[k]].limits(float(levels[k]))
        low[k] = min(low[k], low_a - high_b)
        high[k] = max(high[k], high_a - low_b)
    tests = Tests(
        difference=difference,
        standard_error=standard_error,
        low=low,
        high=high,
        p_value=p_value,
        p_adjusted=p_adjusted,
        note=notes,
    )
    return _agreeing(tests, level)


class _Contrast(NamedTuple):
    """Pairs that are compared on the same scale.

    Attributes
    ----------
    pairs : ndarray of bool
        Mask of these pairs among all; the other arrays have one entry for each of them.
    standard_error : ndarray
        Of the difference, not on the scale.
    scale : Scale
        On which the test is made.
    centres, errors : tuple of two ndarrays
        Less biased estimate and standard error of A and of B.
    second, degrees_of_freedom : ndarray
        Variance of the difference on the scale, and how well it is known.
    """

    pairs: np.ndarray
    standard_error: np.ndarray
    scale: Scale
    centres: tuple[np.ndarray, np.ndarray]
    errors: tuple[np.ndarray, np.ndarray]
    second: np.ndarray
    degrees_of_freedom: Any

    def test(self, level: float | np.ndarray) -> tuple[Any, Any, Any]:
        """Lower limit, upper limit and p-value of each difference, at one level or at one per pair."""
        return contrast(self.scale, self.centres, self.errors, self.second, self.degrees_of_freedom, level)


def _contrasts(
    sides: Sequence[Side],
    a: np.ndarray,
    b: np.ndarray,
    scale: Scale,
    centre: np.ndarray,
    paired: bool,
    known_sums: tuple[Joint, Any] | None,
) -> list[_Contrast]:
    """Sort the pairs (a, b) by scale: on the metric's scale where it is defined for both sides, else on the plain one.

    `centre` holds the less biased estimate of each side; the other arguments are those of `compared`.
    """
    error = np.asarray([side.error for side in sides])
    on_scale = np.asarray(scale.holds(centre[a]) & scale.holds(centre[b]) & (scale.name != "normal"))
    contrasts = []
    for scale_of_pairs, pairs in ((scale, on_scale), (Scale("normal"), ~on_scale)):
        if not pairs.any():
            continue
        i = a[pairs]
        j = b[pairs]
        joint, units = known_sums or _joint(sides, i, j, scale_of_pairs, centre, paired)
        group = _Contrast(
            pairs=pairs,
            standard_error=joint.error,
            scale=scale_of_pairs,
            centres=(centre[i], centre[j]),
            errors=(error[i], error[j]),
            second=joint.second,
            degrees_of_freedom=degrees_of_freedom(joint.second, joint.excess, units, 2.0),
        )
        contrasts.append(group)
    return contrasts


def _notes_on_few_draws(
    sides: Sequence[Side], a: np.ndarray, b: np.ndarray, difference: np.ndarray
) -> np.ndarray:
    """Why each pair (a, b) has no verdict, or "": the side with fewer effective draws has too few."""
    notes = []
    for i, j, pair_difference in zip(a, b, difference):
        weaker = min(sides[i], sides[j], key=lambda side: side.effective_draws)
        has_too_few = weaker.few and pair_difference != 0
        notes.append(f"{weaker.few}: too few to compare" if has_too_few else "")
    return np.asarray(notes, dtype=object)


def centres_of(sides: Sequence[Side]) -> np.ndarray:
    """The estimates that a test reads, one per side; exactly 0 where they are rounding errors alone.

    An excess over the oracle is a small difference of large numbers, so rounding is judged by the size of the risk.
    """
    centres = np.asarray([side.centre for side in sides])
    return np.where(np.abs(centres) <= DIFFERENCE_ROUNDING * _magnitudes(sides), 0.0, centres)


def _magnitudes(sides: Sequence[Side]) -> np.ndarray:
    """The size of the numbers behind each side's estimate: the larger of estimate and risk."""
    return np.asarray([max(abs(side.estimate), abs(side.risk)) for side in sides])


def _agreeing(tests: Tests, level: float) -> Tests:
    """Make interval and p-value agree: 0 lies outside exactly where the corrected p-value is below 1 - level.

    They differ where there is no verdict, and where the estimates, which the interval includes, lie on the other side
    of 0 than the less biased ones that the test uses.
    """
    alpha = 1 - level
    is_significant = tests.p_adjusted < alpha
    contains_zero = (tests.low <= 0) & (tests.high >= 0)
    is_contradicted = is_significant & contains_zero
    return tests._replace(
        low=np.where(is_significant, tests.low, np.minimum(tests.low, 0.0)),
        high=np.where(is_significant, tests.high, np.maximum(tests.high, 0.0)),
        p_value=np.where(is_contradicted, np.maximum(tests.p_value, alpha), tests.p_value),
        p_adjusted=np.where(is_contradicted, np.maximum(tests.p_adjusted, alpha), tests.p_adjusted),
    )


def holm(p_values: np.ndarray) -> np.ndarray:
    """P-values corrected by Holm's method: the k-th smallest of m times (m - k + 1), made non-decreasing.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    multiplied = p[order] * (len(p) - np.arange(len(p)))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(multiplied), 1.0)
    return corrected


def corrected_levels(p_values: np.ndarray, adjusted: np.ndarray, level: float) -> np.ndarray:
    """The level of each pair's interval, such that it excludes 0 exactly where `adjusted` is below 1 - `level`.

    `p_values` are those of each pair alone, `adjusted` those corrected by `holm`. Pairs get Bonferroni's level, at
    which all their intervals cover with probability `level`. Holm rejects a few pairs that Bonferroni would not: these
    get the level of Holm's step.

    >>> p = np.array([0.001, 0.04, 0.5])
    >>> corrected_levels(p, holm(p), 0.94).round(3).tolist()
    [0.98, 0.98, 0.98]
    >>> p = np.array([0.001, 0.022, 0.5])  # 3 * 0.022 is above 0.06, 2 * 0.022 below
    >>> corrected_levels(p, holm(p), 0.94).round(3).tolist()
    [0.98, 0.97, 0.98]
    """
    alpha = 1 - level
    factor = np.full(len(p_values), float(len(p_values)))
    by_holm_alone = (adjusted < alpha) & (factor * p_values >= alpha)
    factor[by_holm_alone] = adjusted[by_holm_alone] / p_values[by_holm_alone]
    return np.asarray(1 - alpha / factor)


_FEW_DIGITS = 1e-6  # a difference of sums below this share of its terms is recomputed sample by sample


def _joint(
    sides: Sequence[Side], a: np.ndarray, b: np.ndarray, scale: Scale, centre: np.ndarray, paired: bool
) -> tuple[Joint, Any]:
    """Joint sums of the differences of pairs (a, b), and the number of units of each pair.

    `centre` holds the less biased estimate of each side, at which the derivative of the scale is taken.
    """
    used_sides, positions = np.unique(np.concatenate([a, b]), return_inverse=True)
    i = positions[: len(a)]
    j = positions[len(a) :]
    pulls = [sides[k].pulls for k in used_sides]
    rates = scale.rate(centre[used_sides])
    scaled_pulls = [side_pulls * rate for side_pulls, rate in zip(pulls, rates)]
    unit_counts = np.asarray([sides[k].units for k in used_sides])
    if paired:
        return _paired_joint(np.stack(pulls), np.stack(scaled_pulls), unit_counts, i, j)
    side_sums = np.asarray(
        [
            (*moments(scaled, count), side_pulls @ side_pulls, count)
            for scaled, side_pulls, count in zip(scaled_pulls, pulls, unit_counts)
        ]
    )
    second, excess, squared_error, units = (side_sums[i] + side_sums[j]).T
    return Joint(second, excess, np.sqrt(squared_error)), units


def _paired_joint(
    pulls: np.ndarray, x: np.ndarray, unit_counts: np.ndarray, i: np.ndarray, j: np.ndarray
) -> tuple[Joint, np.ndarray]:
    r"""Joint sums of pairs of sides (i, j) on the same units, by products of matrices.

    `x` holds the pull of each unit on each side times the derivative of the scale, shape (sides, units), and `pulls`
    the same without it. Sums over units expand as

    .. math:: \sum (x_i - x_j)^4 = \sum x_i^4 + \sum x_j^4 - 4 \sum (x_i^3 x_j + x_i x_j^3) + 6 \sum x_i^2 x_j^2.
    """
    squares = x * x
    fourths = np.sum(squares * squares, axis=1)
    cubes_by_x = (squares * x) @ x.T
    squares_by_squares = squares @ squares.T
    sum_of_fourths = fourths[i] + fourths[j]
    fourth = sum_of_fourths - 4 * (cubes_by_x[i, j] + cubes_by_x[j, i]) + 6 * squares_by_squares[i, j]
    second = _squared_distances(x @ x.T, i, j)
    squared_error = _squared_distances(pulls @ pulls.T, i, j)
    for k in np.flatnonzero(
        fourth < _FEW_DIGITS * sum_of_fourths
    ):  # nearly equal sides: most digits cancelled
        x_difference = x[i[k]] - x[j[k]]
        pull_difference = pulls[i[k]] - pulls[j[k]]
        second[k] = x_difference @ x_difference
        fourth[k] = np.sum(x_difference**4)
        squared_error[k] = pull_difference @ pull_difference
    units = np.maximum(unit_counts[i], unit_counts[j])
    return Joint(second, fourth - second**2 / units, np.sqrt(squared_error)), units


def _squared_distances(gram: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    r""":math:`\|x_i - x_j\|^2 = G_{ii} + G_{jj} - 2 G_{ij}` from the Gram matrix G of the x."""
    squared_norms = np.diag(gram)
    return np.asarray(np.maximum(squared_norms[i] + squared_norms[j] - 2 * gram[i, j], 0.0))
