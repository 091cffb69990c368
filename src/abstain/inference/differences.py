"""Differences of a metric between models, on the same samples or on different ones, and tests of many pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, ArrayLike
from abstain._check import check_fraction, refuse_other_row_order
from abstain.core.influence import SampleInfluences
from abstain.core.rounding import DIFFERENCE_ROUNDING
from abstain.errors import InputError, ShapeError
from abstain.inference.anytime import AnytimeRule, check_anytime
from abstain.inference.clusters import (
    check_one_kind,
    two_way_unit_variance,
    two_way_variance,
)
from abstain.inference.limits import (
    DifferenceSums,
    contrast,
    make_interval,
    variance_of_effects,
)
from abstain.inference.records import Difference
from abstain.inference.standard_errors import (
    SMALLEST_LOSS,
    CheckedSamples,
    check_has_test,
    effective_count,
    effects_of_units,
    gather,
    influences_of_samples,
    leave_one_out,
    spread_by_sample,
    summarise_samples,
)
from abstain.metrics.limit_rules import DrawsBehind, draws_behind
from abstain.metrics.metric import Metric
from abstain.metrics.summaries import EstimateSpread, SampleSummary, Scale


@refuse_other_row_order
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
    anytime: bool = False,
    planned: int | None = None,
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
        One that has an influence function: an area, the risk, AUROC or the rejection ratio.
    level : float
        Of the interval.
    clusters, strata : array, shape (n,), optional
        Label of the cluster, and of the stratum, of each sample. Clusters are drawn as a whole. Two vectors,
        `[location, week]`, are two kinds of clusters that cross; then there are no strata.
    sample_weight : array, shape (n,), optional
        Weight of each sample, used for both models. Default: all 1.
    repetitions : bool
        True if a weight of k stands for k equal samples.
    abstained_a, abstained_b : array of bool, optional
        Samples that a model never accepts.
    anytime : bool
        For results that are looked at again and again while samples come in: interval and p-value hold at every look.
        Intervals are about one and a half times as wide as for one look.
    planned : int, optional
        With `anytime`: the number of samples at which one hopes to stop, where intervals are narrowest. Choose it
        before the first look and keep it. Default: 1,000.
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
    return _difference(
        "paired_difference",
        metric=metric,
        columns_a=(loss_a, confidence_a, sample_weight, abstained_a, clusters, strata),
        columns_b=(loss_b, confidence_b, sample_weight, abstained_b, clusters, strata),
        level=level,
        options=options,
        repetitions=repetitions,
        anytime=anytime,
        planned=planned,
    )


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
    """Metric of A minus metric of B on two *independent* test sets, with its interval and p-value.

    The p-value is two-sided, of "both have the same value in the population". Use `paired_difference` where both
    models are on the same samples: it sees smaller differences.

    Parameters
    ----------
    loss_a, confidence_a, loss_b, confidence_b : array, one length per model
        Of each model; higher confidence = surer.
    metric : str, Metric, or the function of that name
        One that has an influence function: an area, the risk, AUROC or the rejection ratio.
    level : float
        Of the interval.
    clusters_a, clusters_b : array, optional
        Label of the cluster of each sample. Clusters are drawn as a whole. Two vectors are two kinds that cross.
    sample_weight_a, sample_weight_b : array, optional
        Weight of each sample. Default: all 1.
    repetitions : bool
        True if a weight of k stands for k equal samples.
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
    no_strata = None
    return _difference(
        "unpaired_difference",
        metric=metric,
        columns_a=(loss_a, confidence_a, sample_weight_a, abstained_a, clusters_a, no_strata),
        columns_b=(loss_b, confidence_b, sample_weight_b, abstained_b, clusters_b, no_strata),
        level=level,
        options=options,
        repetitions=repetitions,
    )


# loss, confidence, weight, abstained, clusters and strata of one model, as `gather` takes them
Columns = tuple[Array, Array, Array | None, Array | None, Array | None, Array | None]


def _difference(
    name: str,
    *,
    metric: Any,
    columns_a: Columns,
    columns_b: Columns,
    level: float,
    options: dict[str, Any],
    repetitions: bool,
    anytime: bool = False,
    planned: int | None = None,
) -> Difference:
    """Check both models, and test the difference of their metric.

    `name` is the public function that was called: error messages begin with it, and "paired_difference" means that
    both models are on the same samples. `columns_a` and `columns_b` hold loss, confidence, weight, abstained, clusters
    and strata, as the user passed them (None where not passed). `options` are the metric's own. `anytime` and `planned`
    are those of the user: shall the test hold at every look, and the planned number of samples.

    Raises ShapeError if paired models have different numbers of samples, and InputError for other bad input.
    """
    level = check_fraction(name, "level", level, open_high=True)
    anytime_rule = check_anytime(name, anytime, planned, level)
    paired = name == "paired_difference"
    samples_a, samples_b = convert_to_one_error_size(
        name,
        [
            gather(name, metric, *columns_a, options=options, repetitions=repetitions),
            gather(name, metric, *columns_b, options=options, repetitions=repetitions),
        ],
    )
    check_has_test(name, samples_a.metric)
    if paired and samples_a.sample_count != samples_b.sample_count:
        raise ShapeError(
            f"{name}: A and B must be the same samples, got {samples_a.sample_count} and "
            f"{samples_b.sample_count} of them. Use `unpaired_difference` for different test sets."
        )
    if anytime_rule is not None:
        check_one_kind(name, samples_a.clusters, "`anytime=True`")
    models = [compared_model_from_samples(samples_a), compared_model_from_samples(samples_b)]
    has_negative = bool((samples_a.answered_loss < 0).any() or (samples_b.answered_loss < 0).any())
    scale = samples_a.metric.scale_for(samples_a.zero_one and samples_b.zero_one, has_negative)
    if samples_a.metric.scales_with_loss:  # losses are in units of an error, estimates in the user's units
        scale = scale.scaled(samples_a.error_size)
    # a family of one pair: model 0 minus model 1
    anytime_test = None if anytime_rule is None else AnytimeTest(anytime_rule, samples_a.sample_count)
    test = compare_models(
        models, np.asarray([0]), np.asarray([1]), scale, level, paired, anytime_test=anytime_test
    )
    return Difference(
        metric=samples_a.metric.key,
        difference=float(test.difference[0]),
        standard_error=float(test.standard_error[0]),
        low=float(test.low[0]),
        high=float(test.high[0]),
        p_value=float(test.p_value[0]),
        level=level,
        n=samples_a.sample_count if paired else samples_a.sample_count + samples_b.sample_count,
        estimate_a=models[0].estimate,
        estimate_b=models[1].estimate,
        paired=paired,
        note=test.note[0],
        planned=None if anytime_rule is None else anytime_rule.planned,
    )


class ComparedModel(NamedTuple):
    """One model of a comparison, in the user's units.

    Attributes
    ----------
    estimate, standard_error : float
        Estimate of the metric and its standard error.
    less_biased_estimate : float
        The estimate that tests use: by leave-one-out where the metric has that, otherwise `estimate`.
    effective_draws : float
        Number of errors of equal weight (or of right samples, if those are fewer) with as much information.
    few_draws_note : str
        A note that these are too few for a verdict; "" if they are enough.
    risk : float
        Mean loss of the answered samples, in the unit of `estimate` (in units of an error where the estimate does not
        change with the scale of the losses). It only serves to tell rounding errors of the estimate.
    unit_count : int
        Number of independent units.
    limits_at_level : callable
        Limits of this model alone, as a function of the level.
    unit_effects : tuple of ndarray
        What each unit does to the estimate (weight times influence over total mass). One array, shape (units,), the
        sum of whose squares is the squared `standard_error`. With two kinds of clusters three: by the clusters of the
        first kind, of the second, and of their intersections. Empty where the joint sums of a pair were computed
        elsewhere.
    """

    estimate: float
    less_biased_estimate: float
    standard_error: float
    effective_draws: float
    few_draws_note: str
    risk: float
    unit_count: int
    limits_at_level: Callable[[float], tuple[float, float]]
    unit_effects: tuple[np.ndarray, ...]


def compared_model_from_samples(samples: CheckedSamples) -> ComparedModel:
    """Make one model of a comparison from the checked samples of that model.

    Losses of `samples` were divided by `samples.error_size` (c where all losses are 0 or c, else usually 1). The result
    is in the user's units: what is computed from these losses is multiplied by `error_size`, except for a metric that
    does not change with the scale of the losses, such as AUROC. A unit of `unit_effects` and `unit_count` is an
    independent draw: a sample, or a cluster of samples where there are clusters. An entry of `unit_effects` is what the
    unit does to the estimate: its weight times its influence, over the total mass.
    Raises InputError if the metric has no influence function, or if there is only one cluster.
    """
    # estimate of the metric, and influence of each sample, abstained ones included, in input order
    influences = influences_of_samples("paired_difference", samples)
    # `error_size`; 1 for metrics that do not change when all losses are multiplied
    estimate_unit = samples.estimate_unit
    unit_effects = tuple(
        estimate_unit * effects_of_units(influences.influence, clustered)
        for clustered in samples.by_each_clustering()  # one, or three with two kinds of clusters
    )
    summary = summarise_samples(samples)  # counts of samples, errors and independent draws, and the risk
    # `effective`: how many errors decide the estimate; `note`: that these are too few for a verdict, or ""
    draws = _draws_behind_estimate(samples.metric, _effective_errors(samples, influences), summary)
    less_biased_estimate = leave_one_out(samples)
    if less_biased_estimate is None:  # the metric has no leave-one-out estimate, or there are weights
        less_biased_estimate = influences.estimate
    return ComparedModel(
        estimate=estimate_unit * influences.estimate,
        less_biased_estimate=estimate_unit * less_biased_estimate,
        standard_error=_standard_error_of(unit_effects),  # in the user's units already
        effective_draws=draws.effective,
        few_draws_note=draws.note,
        # in the unit of the estimate, with which it is compared to tell rounding errors: in units of an error, not the
        # user's, for a metric such as AUROC
        risk=estimate_unit * summary.risk,
        unit_count=summary.unit_count,
        limits_at_level=lambda level: limits_in_user_units(samples, level),  # of this model alone
        unit_effects=unit_effects,
    )


def _draws_behind_estimate(metric: Metric, effective_errors: float, sample: SampleSummary) -> DrawsBehind:
    """As many effective errors, or right samples if these are fewer, and a note if they are too few for a verdict.

    `metric.rule` says whether few right samples matter to the metric, too. Losses below 0 are no errors, and cancel in
    the sum that `effective_errors` is made of: then draws are never too few (infinitely many, and no note).
    """
    if sample.has_negative_loss:
        return DrawsBehind(effective=math.inf, note="")
    return draws_behind(metric.rule, effective_errors, sample)


def _effective_errors(samples: CheckedSamples, influences: SampleInfluences) -> float:
    """As many errors of equal rank weight as would say as much about the estimate.

    A sample adds (rank weight) * (loss) to the estimate. Samples of a cluster count as one draw; of two kinds of
    clusters and their intersections, the clustering with fewest effective errors counts.
    """
    ranked_losses = influences.rank_weights * samples.extend_to_all(samples.answered_loss)
    return min(
        effective_count(effects_of_units(ranked_losses, clustered, centred=False))
        for clustered in samples.by_each_clustering()
    )


def _standard_error_of(unit_effects: tuple[np.ndarray, ...]) -> float:
    """Standard error of an estimate from what each unit does to it, in the layout of `ComparedModel.unit_effects`."""
    variances = [float(effects @ effects) for effects in unit_effects]
    if len(variances) == 1:
        return math.sqrt(variances[0])
    by_first_kind, by_second_kind, by_intersections = variances  # of two kinds of clusters
    return math.sqrt(two_way_variance(by_first_kind, by_second_kind, by_intersections))


def compared_model_from_spread(
    metric: Metric, spread: EstimateSpread, sample: SampleSummary, effects: tuple[np.ndarray, ...]
) -> ComparedModel:
    """Make one model of a comparison from an estimate that is known already.

    `metric` is what was estimated. `spread` (the estimate, its variance and a less biased estimate, or None) and
    `sample` (counts of samples, errors and independent draws, and the risk) come from losses that were divided by
    `sample.error_size`; the result is in the user's units. `effects` holds what each independent unit (sample or
    cluster) does to the estimate, in the user's units: one array, or three with two kinds of clusters (by the first
    kind, by the second and by their intersections). It may be empty if `compare_models` gets the sums over the units of
    the difference as `known_sums`.
    """
    # `effective`: how many errors decide the estimate; `note`: that these are too few for a verdict, or ""
    draws = _draws_behind_estimate(metric, spread.effective_errors, sample)
    # one unit of the estimate in the user's units
    estimate_unit = sample.error_size if metric.scales_with_loss else 1.0
    less_biased_estimate = spread.less_biased_estimate
    if less_biased_estimate is None:
        less_biased_estimate = spread.estimate

    def limits(level: float) -> tuple[float, float]:
        """Limits of this model alone, in the user's units."""
        interval = make_interval(metric, spread, sample, level)
        return interval.low, interval.high

    return ComparedModel(
        estimate=estimate_unit * spread.estimate,
        less_biased_estimate=estimate_unit * less_biased_estimate,
        standard_error=estimate_unit * spread.standard_error,
        effective_draws=draws.effective,
        few_draws_note=draws.note,
        risk=estimate_unit * sample.risk,  # in the unit of the estimate, to tell rounding errors of it
        unit_count=sample.unit_count,
        limits_at_level=limits,
        unit_effects=effects,
    )


def convert_to_one_error_size(function: str, models: Sequence[CheckedSamples]) -> list[CheckedSamples]:
    """Make sure that all models of a comparison whose losses are stored as 0/1 have the same size of an error.

    `models` holds the checked samples of each model. Where all losses of a model are 0 or one number c, they are stored
    as 0/1 losses (`zero_one`) with `error_size` c, in the user's units. If all such models have the same c, it is kept,
    and models without errors take it. If they differ, their losses are converted to the user's units and are no longer
    treated as 0/1. Models with other losses are in the user's units (`error_size` 1) and are returned unchanged.

    Raises InputError, in the name of the user's `function`, if an `error_size` is so large or small that its fourth
    power leaves the range of a float.
    """
    for model in models:
        # losses other than 0/1 have another size than 1 only where they are huge or tiny (SMALLEST_LOSS is 1e-60), and
        # then this raises
        if not SMALLEST_LOSS < model.error_size < 1 / SMALLEST_LOSS:
            rule = f"losses must lie between {SMALLEST_LOSS:g} and {1 / SMALLEST_LOSS:g} in size"
            raise InputError(
                f"{function}: {rule}, got about {model.error_size:.2g}. Divide them all by one number."
            )
    # models without errors are left out: the size of an error is not known from their losses
    sizes = {model.error_size for model in models if model.zero_one and model.answered_loss.any()}
    if not sizes:  # no model has an error, or all have other losses
        return list(models)
    if len(sizes) == 1:
        size = sizes.pop()
        return [model._replace(error_size=size) if model.zero_one else model for model in models]
    return [_in_user_units(model) if model.zero_one else model for model in models]


def _in_user_units(model: CheckedSamples) -> CheckedSamples:
    """Checked samples with 0/1 losses in units of `error_size`, converted to the user's units."""
    loss = model.error_size * model.answered_loss
    return model._replace(answered_loss=loss, zero_one=False, error_size=1.0)


def limits_in_user_units(samples: CheckedSamples, level: float) -> tuple[float, float]:
    """Lower and upper limit of the metric of one model alone, in the user's units."""
    spread = spread_by_sample("paired_difference", samples)
    interval = make_interval(samples.metric, spread, summarise_samples(samples), level)
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


class AnytimeTest(NamedTuple):
    """Makes the tests of one look hold at every look: the rule, and the number of samples at this look."""

    rule: AnytimeRule
    sample_count: int

    def level_of_one_look(self, level: float | np.ndarray) -> np.ndarray:
        """Level for one look whose limits hold at `level` for every look."""
        return np.asarray(self.rule.level_of_one_look(level, self.sample_count))

    def p_value(self, p_value: np.ndarray) -> np.ndarray:
        """P-value that holds at every look, from that of this look alone."""
        return np.asarray(self.rule.p_value(p_value, self.sample_count))


def compare_models(
    models: Sequence[ComparedModel],
    a: np.ndarray,
    b: np.ndarray,
    scale: Scale,
    level: float,
    paired: bool,
    known_sums: DifferenceSums | None = None,
    anytime_test: AnytimeTest | None = None,
) -> Tests:
    """Test the differences `models[a[k]] - models[b[k]]` of several pairs k as one family, corrected by Holm's method.

    `a` and `b` are vectors of indices into `models`. Tests are made on `scale` where both models lie inside its range,
    otherwise on the plain scale. `level` is that of the whole family of intervals. `paired` says that all models are on
    the same units. Pass `known_sums`, the sums over the units of the difference, if they were computed elsewhere; there
    must then be only one pair. With `anytime_test`, limits and p-values hold at every look.

    A pair whose differences have no spread has the p-value 1 if it is equal, else 0. A pair with too few errors has the
    limits of two separate intervals; unless its estimates are equal, it has no verdict, and the p-value 1. Models with
    few errors that do the same in every unit have a difference of 0 without spread, and the limits 0. Two models that
    show no spread themselves, as without any error, do not show whether they do the same: they have separate intervals.
    """
    estimate = np.asarray([model.estimate for model in models])
    magnitude = _magnitudes(models)
    less_biased = less_biased_estimates(models)
    difference = estimate[a] - estimate[b]
    pair_magnitude = magnitude[a] + magnitude[b]

    groups = _group_pairs_by_scale(models, a, b, scale, less_biased, paired, known_sums)
    standard_error, low, high, p_value = np.empty((4, len(a)))
    for group in groups:  # every pair is in exactly one group
        standard_error[group.pairs] = group.standard_error
        low[group.pairs], high[group.pairs], p_value[group.pairs] = group.test(
            _level_of_look(level, anytime_test)
        )
    if anytime_test is not None:
        p_value = anytime_test.p_value(p_value)
    # no spread at all: the two are equal, or differ by the same amount in every sample
    has_no_spread = standard_error <= DIFFERENCE_ROUNDING * pair_magnitude
    is_rounding = np.abs(difference) <= DIFFERENCE_ROUNDING * pair_magnitude
    standard_error = np.where(has_no_spread, 0.0, standard_error)
    difference = np.where(has_no_spread & is_rounding, 0.0, difference)
    p_value = np.where(has_no_spread, np.where(difference == 0, 1.0, 0.0), p_value)

    notes = _notes_on_few_draws(models, a, b, difference)
    has_no_verdict = notes != ""  # an array: one truth value per pair
    p_value = np.where(has_no_verdict, 1.0, p_value)
    p_adjusted = holm(p_value)
    levels = np.full(len(p_value), level)
    if len(p_value) > 1:
        levels = corrected_levels(p_value, p_adjusted, level)
        for group in groups:
            low[group.pairs], high[group.pairs], _ = group.test(
                _level_of_look(levels[group.pairs], anytime_test)
            )
    # limits include the estimates, although the test is centred on less biased ones
    low = np.where(has_no_spread, difference, np.minimum(low, difference))
    high = np.where(has_no_spread, difference, np.maximum(high, difference))
    has_few_draws = np.asarray(
        [bool(models[i].few_draws_note or models[j].few_draws_note) for i, j in zip(a, b)], dtype=bool
    )
    own_error = np.asarray([model.standard_error for model in models])
    neither_has_spread = own_error[a] + own_error[b] <= DIFFERENCE_ROUNDING * pair_magnitude
    for k in np.flatnonzero(has_no_verdict | (has_few_draws & ~has_no_spread) | neither_has_spread):
        # as if the two models were independent
        level_of_each = float(_level_of_look(levels[k], anytime_test))
        low_a, high_a = models[a[k]].limits_at_level(level_of_each)
        low_b, high_b = models[b[k]].limits_at_level(level_of_each)
        low[k] = min(difference[k], low_a - high_b)
        high[k] = max(difference[k], high_a - low_b)
    tests = Tests(
        difference=difference,
        standard_error=standard_error,
        low=low,
        high=high,
        p_value=p_value,
        p_adjusted=p_adjusted,
        note=notes,
    )
    return _make_intervals_agree(tests, level)


def _level_of_look(level: float | np.ndarray, anytime_test: AnytimeTest | None) -> Any:
    """The level at which limits are computed at this look: that of the user, or the one that holds at every look."""
    return level if anytime_test is None else anytime_test.level_of_one_look(level)


class _PairsOnScale(NamedTuple):
    """Pairs of models that are compared on the same scale.

    Attributes
    ----------
    pairs : ndarray of bool
        Mask of these pairs among all; the other arrays have one entry for each of them.
    standard_error : ndarray
        Of the difference, not on the scale.
    scale : Scale
        On which the test is made.
    less_biased, standard_errors : tuple of two ndarrays
        Less biased estimate and standard error of A and of B.
    variance_on_scale, degrees_of_freedom : ndarray
        Variance of the difference on the scale, and how well it is known.
    """

    pairs: np.ndarray
    standard_error: np.ndarray
    scale: Scale
    less_biased: tuple[np.ndarray, np.ndarray]
    standard_errors: tuple[np.ndarray, np.ndarray]
    variance_on_scale: np.ndarray
    degrees_of_freedom: Any

    def test(self, level: float | np.ndarray) -> tuple[Any, Any, Any]:
        """Lower limit, upper limit and p-value of each difference, at one level or at one per pair."""
        return contrast(
            self.scale,
            self.less_biased,
            self.standard_errors,
            self.variance_on_scale,
            self.degrees_of_freedom,
            level,
        )


def _group_pairs_by_scale(
    models: Sequence[ComparedModel],
    a: np.ndarray,
    b: np.ndarray,
    scale: Scale,
    less_biased: np.ndarray,
    paired: bool,
    known_sums: DifferenceSums | None,
) -> list[_PairsOnScale]:
    """Group pairs of models by the scale of their test, and add up what the tests need.

    Pairs are tested on `scale` where the less biased estimates of both models lie inside its range, otherwise on the
    plain scale, on which no estimate is transformed. Returns one or two groups, which compute limits and p-values at
    any level; each pair is in exactly one.

    Of the sums over the units, `variance_on_scale` is the variance of the difference of the transformed estimates, and
    `standard_error` that of the plain difference. Tests read the variance on the scale and its degrees of freedom,
    which follow from the same sums; the standard error is reported.

    Parameters
    ----------
    models : sequence of ComparedModel
        All models that are compared, each with its estimate, its standard error and what each unit does to it.
    a, b : ndarray of int, shape (pairs,)
        Indices into `models` of the first and second model of each pair.
    scale : Scale
        That of the metric: "normal" (plain), "log" or "logit".
    less_biased : ndarray, shape (models,)
        The less biased estimate of each model.
    paired : bool
        Are all models on the same units (samples or clusters)?
    known_sums : DifferenceSums or None
        Variance of the difference of the only pair, as sums over its units, on the scale that this pair is tested on;
        None: the sums are computed here, for each pair.
    """
    standard_error = np.asarray([model.standard_error for model in models])
    both_inside = scale.contains(less_biased[a]) & scale.contains(less_biased[b])
    # a mask of pairs; all False where the metric's scale is the plain one, so that there is one group
    uses_scale = np.asarray(both_inside & (scale.name != "normal"))
    groups = []
    for scale_of_group, in_group in ((scale, uses_scale), (Scale("normal"), ~uses_scale)):
        if not in_group.any():
            continue
        first = a[in_group]
        second = b[in_group]
        sums = known_sums
        if sums is None:
            sums = _sum_differences(models, first, second, scale_of_group, less_biased, paired)
        group = _PairsOnScale(
            pairs=in_group,
            standard_error=sums.standard_error,  # of the plain difference
            scale=scale_of_group,
            less_biased=(less_biased[first], less_biased[second]),
            standard_errors=(standard_error[first], standard_error[second]),
            variance_on_scale=sums.variance_on_scale,
            # of `variance_on_scale`; with at least 2, the 95% quantile of Student's t is at most 4.3
            degrees_of_freedom=sums.unit_variance_on_scale.degrees_of_freedom(smallest=2.0),
        )
        groups.append(group)
    return groups


def _notes_on_few_draws(
    models: Sequence[ComparedModel], a: np.ndarray, b: np.ndarray, difference: np.ndarray
) -> np.ndarray:
    """Why each pair has no verdict, or "" if it has one: the model with fewer effective draws has too few of them.

    Effective draws are errors of equal weight, or right samples if those are fewer. `a` and `b` are indices into
    `models`, and `difference` is that of their estimates, one entry per pair. Equal estimates (a difference of 0) need
    no note. Returns an array of strings, shape (pairs,).
    """
    notes = []
    for i, j, pair_difference in zip(a, b, difference):
        weaker = min(models[i], models[j], key=lambda model: model.effective_draws)
        # such as "rests on about 2.6 effective errors"; "" for a model with enough
        note = weaker.few_draws_note
        if note and pair_difference != 0:
            note = f"{note}: too few to compare"
        else:
            note = ""
        notes.append(note)
    return np.asarray(notes, dtype=object)


def less_biased_estimates(models: Sequence[ComparedModel]) -> np.ndarray:
    """The less biased estimate of each model; exactly 0 where it is a rounding error alone.

    An excess over the oracle is a small difference of large numbers, so rounding is relative to the larger of the
    estimate and the risk.
    """
    estimates = np.asarray([model.less_biased_estimate for model in models])
    is_rounding = np.abs(estimates) <= DIFFERENCE_ROUNDING * _magnitudes(models)
    return np.where(is_rounding, 0.0, estimates)


def _magnitudes(models: Sequence[ComparedModel]) -> np.ndarray:
    """The size of the numbers behind each model's estimate: the larger of estimate and risk."""
    return np.asarray([max(abs(model.estimate), abs(model.risk)) for model in models])


def _make_intervals_agree(tests: Tests, level: float) -> Tests:
    """Make intervals and p-values agree: 0 lies outside exactly where the corrected p-value is below 1 - level.

    `tests` has one entry per pair in every array; it is not changed, but returned with other limits and p-values. They
    may disagree where there is no verdict (p-value 1), and where the difference of the estimates, which the interval
    includes, and the less biased one, which the test uses, have opposite signs. Intervals of pairs that are not
    significant are extended to 0; a significant pair whose interval holds 0 gets p-values of at least 1 - level.
    """
    alpha = 1 - level
    is_significant = tests.p_adjusted < alpha  # corrected for the number of pairs, as the limits are
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
    order = np.argsort(p, kind="stable")  # smallest first
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
    factor = np.full(len(p_values), float(len(p_values)))  # Bonferroni: alpha / number of pairs
    by_holm_alone = (adjusted < alpha) & (factor * p_values >= alpha)
    # Holm multiplied the p-value by the number of pairs that were left at its step. None of these is 0: 0 is below
    # alpha by Bonferroni, too.
    factor[by_holm_alone] = adjusted[by_holm_alone] / p_values[by_holm_alone]
    return np.asarray(1 - alpha / factor)


_SMALLEST_EXACT_SHARE = 1e-6  # a difference below this share of its terms has too few exact digits


def _sum_differences(
    models: Sequence[ComparedModel],
    a: np.ndarray,
    b: np.ndarray,
    scale: Scale,
    less_biased: np.ndarray,
    paired: bool,
) -> DifferenceSums:
    """Add up powers of what each unit (sample or cluster) does to the difference of each pair of models.

    `a` and `b` are indices into `models`, at least one entry, one per pair; the sums that are returned have one entry
    per pair, too. `less_biased` holds the less biased estimate of each model, at which the derivative of `scale` is
    taken: times that, what a unit does to an estimate is what it does on the scale. `paired` says that all models are
    on the same units; otherwise they are independent, and the sums of both models of a pair add up.
    """
    derivative = np.ones(len(models))  # of the scale at each estimate
    used_models = np.union1d(a, b)  # other models may lie outside the scale, where it has no derivative
    derivative[used_models] = scale.derivative(less_biased[used_models])
    if not paired:
        # one entry per model; those of models in no pair are not read
        sums_of_models = [_sums_of_one_model(model, rate) for model, rate in zip(models, derivative)]
        return _add_independent_models(sums_of_models, a, b)
    clustering_count = len(models[a[0]].unit_effects)  # one, or three with two kinds of clusters
    sums_by_clustering = []
    for clustering in range(clustering_count):
        effects = np.stack([model.unit_effects[clustering] for model in models])  # shape (models, units)
        # of each model; more than there are columns where units that do nothing were left out
        unit_counts = np.asarray([_unit_count(model, clustering) for model in models])
        sums_by_clustering.append(
            _sum_paired_differences(
                effects, scaled_effects=effects * derivative[:, None], unit_counts=unit_counts, i=a, j=b
            )
        )
    return _combine_clusterings(sums_by_clustering)


def _sums_of_one_model(model: ComparedModel, scale_derivative: float) -> DifferenceSums:
    """Sums over the units of one model, as if the other one of the pair did not vary: numbers, not arrays.

    `model.unit_effects` holds what each unit (sample or cluster) does to its estimate. `scale_derivative` is the
    derivative at that estimate of the scale of the test (log, logit or plain): times it, an effect on the estimate is
    one on the scale.
    """
    sums_by_clustering = []
    for clustering, effects in enumerate(model.unit_effects):  # one, or three with two kinds of clusters
        # sums of squares and fourth powers: effects are centred, and units that do nothing count in the number alone
        variance = variance_of_effects(effects * scale_derivative, _unit_count(model, clustering))
        sums_by_clustering.append(
            DifferenceSums(
                variance_on_scale=variance.variance,
                variance_of_variance_on_scale=variance.variance_of_variance,
                standard_error=math.sqrt(effects @ effects),  # of the estimate itself, not on the scale
                unit_count=variance.unit_count,
            )
        )
    return _combine_clusterings(sums_by_clustering)


def _add_independent_models(
    sums_by_model: Sequence[DifferenceSums], a: np.ndarray, b: np.ndarray
) -> DifferenceSums:
    """Variances of the differences of models on independent test sets, one entry per pair.

    `a` and `b` hold the indices into `sums_by_model` of the two models of each pair. All pairs are tested on the same
    scale (log, logit or plain); fields that end in `_on_scale` are variances of the transformed estimates, and
    `standard_error` is that of the estimate itself. No unit (sample or cluster) is in both test sets. So variances add
    up, each of them known from its own units, and the units of a difference are those of both models.
    """
    variance = np.asarray([sums.variance_on_scale for sums in sums_by_model])
    variance_of_variance = np.asarray([sums.variance_of_variance_on_scale for sums in sums_by_model])
    squared_error = np.asarray([sums.standard_error**2 for sums in sums_by_model])
    unit_count = np.asarray([float(sums.unit_count) for sums in sums_by_model])
    return DifferenceSums(
        variance_on_scale=variance[a] + variance[b],
        variance_of_variance_on_scale=variance_of_variance[a] + variance_of_variance[b],
        standard_error=np.sqrt(squared_error[a] + squared_error[b]),
        unit_count=unit_count[a] + unit_count[b],
    )


def _unit_count(model: ComparedModel, clustering: int) -> int:
    """Number of units of a model: `model.unit_count`, or with two kinds of clusters that of one of the clusterings.

    `clustering` is the place in `model.unit_effects`: 0 for the first kind, 1 for the second, 2 for intersections.
    """
    return model.unit_count if len(model.unit_effects) == 1 else len(model.unit_effects[clustering])


def _combine_clusterings(sums_by_clustering: Sequence[DifferenceSums]) -> DifferenceSums:
    """The variance of a difference with two kinds of clusters (such as place and week), from sums by each clustering.

    The entries are sums by the clusters of the first kind, of the second kind and by their intersections. A single
    entry, for one kind of clusters or none, is returned unchanged. Fields are numbers, or arrays with one entry per
    pair.

    Two variances are combined, each as V_first + V_second - V_intersections, but at least the larger of the first two:
    that of the difference of the transformed estimates, on the log, logit or plain scale of the test (fields that end
    in `_on_scale`), and that of the plain difference in the unit of the estimates, the square of `standard_error`.
    Only the variance on the scale has a measure of its uncertainty, since only tests need one.
    """
    if len(sums_by_clustering) == 1:
        return sums_by_clustering[0]
    first, second, intersections = sums_by_clustering
    # `variance_on_scale` with its uncertainty and the number of units, as one record
    variance_on_scale = two_way_unit_variance(
        first.unit_variance_on_scale, second.unit_variance_on_scale, intersections.unit_variance_on_scale
    )
    squared_error = two_way_variance(
        first.standard_error**2, second.standard_error**2, intersections.standard_error**2
    )
    return DifferenceSums(
        variance_on_scale=variance_on_scale.variance,
        variance_of_variance_on_scale=variance_on_scale.variance_of_variance,
        standard_error=np.sqrt(squared_error),
        unit_count=variance_on_scale.unit_count,
    )


def _sum_paired_differences(
    effects: np.ndarray, scaled_effects: np.ndarray, unit_counts: np.ndarray, i: np.ndarray, j: np.ndarray
) -> DifferenceSums:
    r"""Add up powers of the differences between models i and j over their common units, by products of matrices.

    `effects` holds what each unit (sample or cluster) does to the estimate of each model, shape (models, units), and
    `scaled_effects`, here x, the same on the metric's scale. `unit_counts` has one entry per model: the number of its
    units, which is that of the columns, or larger where units that do nothing are left out. `i` and `j` hold the models
    of each pair; the sums that are returned have one entry per pair. The standard error is that of `effects`, the other
    sums are those of x. They expand as

    .. math:: \sum (x_i - x_j)^4 = \sum x_i^4 + \sum x_j^4 - 4 \sum (x_i^3 x_j + x_i x_j^3) + 6 \sum x_i^2 x_j^2,

    which is fast but loses digits if two models are nearly equal; such pairs are added up unit by unit.
    """
    x = scaled_effects
    squares = x * x
    fourth_powers = np.sum(squares * squares, axis=1)
    cubes_by_x = (squares * x) @ x.T
    squares_by_squares = squares @ squares.T
    sum_of_fourths = fourth_powers[i] + fourth_powers[j]
    fourth_power_sum = (
        sum_of_fourths - 4 * (cubes_by_x[i, j] + cubes_by_x[j, i]) + 6 * squares_by_squares[i, j]
    )
    # sums over units of (x_i - x_j)^2 for each pair, from the products of all pairs of models; at least 0
    square_sum = _squared_distances(x @ x.T, i, j)
    squared_error = _squared_distances(effects @ effects.T, i, j)
    # too few exact digits are left of a fourth power that is below 1e-6 of its terms
    is_cancelled = fourth_power_sum < _SMALLEST_EXACT_SHARE * sum_of_fourths
    for pair in np.flatnonzero(is_cancelled):
        x_difference = x[i[pair]] - x[j[pair]]
        effect_difference = effects[i[pair]] - effects[j[pair]]
        square_sum[pair] = x_difference @ x_difference
        fourth_power_sum[pair] = np.sum(x_difference**4)
        squared_error[pair] = effect_difference @ effect_difference
    unit_count = np.maximum(unit_counts[i], unit_counts[j])
    return DifferenceSums(
        variance_on_scale=square_sum,
        # how uncertain the variance itself is: the sum of fourth powers less (sum of squares)^2 / n
        variance_of_variance_on_scale=fourth_power_sum - square_sum**2 / unit_count,
        standard_error=np.sqrt(squared_error),
        unit_count=unit_count,
    )


def _squared_distances(gram: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    r""":math:`\|x_i - x_j\|^2 = G_{ii} + G_{jj} - 2 G_{ij}` from the Gram matrix G of the x."""
    squared_norms = np.diag(gram)
    return np.asarray(np.maximum(squared_norms[i] + squared_norms[j] - 2 * gram[i, j], 0.0))
