"""Confidence intervals for every metric, from samples or from a block table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, get_args, overload

import numpy as np

from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import check_choice, check_fraction, check_nonnegative, repetitions_error
from abstain.core.area_estimators import Estimator, Ties
from abstain.core.part_sums import table_from_blocks, totals_from_tables
from abstain.core.rounding import SHARE_ROUNDING, SUM_ROUNDING
from abstain.core.rows import Blocks
from abstain.core.sorting import argsort_descending
from abstain.errors import InputError
from abstain.inference import resampling
from abstain.inference.anytime import AnytimeRule, check_anytime
from abstain.inference.clusters import (
    check_one_kind,
    cluster_codes,
    cluster_columns,
    split_kinds,
    two_way_moments,
    two_way_variance,
)
from abstain.inference.evidence import Evidence, estimate_interval, gather_evidence, request_for
from abstain.inference.limits import make_interval, mean_spread, moments
from abstain.inference.point_limits import WINDOW_SAMPLES
from abstain.inference.records import GroupedIntervals, Interval
from abstain.inference.standard_errors import (
    CheckedSamples,
    effects_of_units,
    error_size_of,
    evidence_of_samples,
    fill_in,
    find_metric,
    gather,
    influences_of_samples,
    measure,
    summarise_samples,
)
from abstain.metrics._sample import group_codes, rows_of_groups
from abstain.metrics.areas import Oracle
from abstain.metrics.metric import Metric, PointMetric
from abstain.metrics.summaries import EstimateSpread, SampleSummary

Named = str | Metric | Callable[..., Any]  # a metric by its name, its definition, or its function
Method = Literal["log", "logit", "normal", "bootstrap", "bca", "jackknife"]

SMALLEST_DESIGN_EFFECT = 1e-3  # strata can remove nearly all variance; a variance of 0 would mean certainty


class Options(TypedDict, total=False):
    """Options of `interval`, for type checkers; explained there."""

    level: float
    method: Method | None
    sample_weight: Array | None
    repetitions: bool
    abstained: Array | None
    clusters: Any
    strata: Array | None
    loss_bound: float | None
    anytime: bool
    planned: int | None
    replicates: int
    rng: int | np.random.Generator
    progress: bool | None
    estimator: Estimator
    ties: Ties
    oracle: Oracle
    coverage: float | tuple[float, float]
    risk: float
    tpr: float
    max_rejection: float


@overload
def interval(
    metric: Named,
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    groups: None = None,
    **options: Unpack[Options],
) -> Interval: ...
@overload
def interval(
    metric: Named, loss: ArrayLike, confidence: ArrayLike, /, *, groups: ArrayLike, **options: Unpack[Options]
) -> GroupedIntervals: ...
def interval(
    metric: Named,
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    level: float = 0.95,
    method: Method | None = None,
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    loss_bound: float | None = None,
    anytime: bool = False,
    planned: int | None = None,
    replicates: int = 2000,
    rng: int | np.random.Generator = 0,
    progress: bool | None = None,
    **options: Any,
) -> Interval | GroupedIntervals:
    r"""Confidence interval of a metric.

    .. math:: \exp\!\left(\ln T_{loo} \mp t\,\mathrm{se}/T_{loo}\right) \quad\text{(method "log")}

    Parameters
    ----------
    metric : str, Metric, or the function of that name
        aurc, augrc, risk, oracle_aurc, e_aurc, naurc, auroc, prediction_rejection_ratio, aupr_error, aupr_success,
        fpr_at_tpr (`tpr=`), risk_at_coverage (`coverage=`), coverage_at_risk (`risk=`), or a `Metric` of your own.
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.
    level : float
        With what probability such an interval holds the truth.
    method : {"log", "logit", "normal", "bootstrap", "bca", "jackknife"}, optional
        The scale on which the interval is symmetric, or how to resample. By default "log" for areas of
        non-negative losses, "logit" for AUROC, PRR and 0/1 risk, "normal" otherwise, "bootstrap" where there
        is no influence function. The log interval of AURC is centred at the leave-one-out estimate, whatever
        estimator is asked for.
    sample_weight : array, optional
        The mass of each sample, relative to the others: no factor of all weights changes anything.
    repetitions : bool
        Is a weight a number of repetitions? The estimators "log" and "loo" and ties="expected" need that. Values then
        count each repetition; for the width a weighted row is still one draw.
    abstained : array of bool, optional
        Samples that are never accepted.
    clusters : array, or [array, array], optional
        One label per sample (patient, document): samples of one cluster are not independent. A list of two vectors,
        `[location, week]`, or an array of two columns holds two kinds of clusters that cross: samples that share
        either are not independent. Bootstrap and `strata` take one kind only.
    strata : array, optional
        One label per sample: the number drawn from each stratum was fixed.
    groups : array, optional
        One label per sample: answers with `GroupedIntervals`.
    loss_bound : float, optional
        Losses lie in [0, loss_bound]; used when all of them are 0, or when few large ones decide the number. By
        default 1 when all are 0, and about the largest loss seen otherwise. Losses that are 0 or one number c need
        none: they are c times 0/1 losses.
    anytime : bool
        For results that are looked at again and again while samples come in: the interval holds at every look.
        Intervals are about one and a half times as wide as for one look.
    planned : int, optional
        With `anytime`: the number of samples at which one hopes to stop, where intervals are narrowest. Choose it
        before the first look and keep it. Default: 1,000.
    replicates, rng, progress
        Of the bootstrap: how many, the seed or Generator, and whether to show a bar (by default when long).
    **options
        The metric's own: `estimator`, `ties`, `oracle`, `coverage`, `risk`, `tpr`.

    Returns
    -------
    Interval
        Or `GroupedIntervals` where there are groups.

    Notes
    -----
    Without any loss the answer is the valid one-sided bound `p (1 - ln p)`, `p = 1 - (1-level)^(1/n)`: the
    errors that were not seen could be the most confident ones.

    Examples
    --------
    >>> loss = [0, 0, 1, 0, 1, 0, 1, 1]
    >>> found = interval("aurc", loss, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    >>> round(found.estimate, 4), round(found.low, 4), found.high, found.note
    (0.2807, 0.0283, 1.0, 'rests on about 2.6 effective errors (4 in all)')
    >>> interval("aurc", [0] * 100, range(100)).high  # nothing wrong among 100: p = 0.0295
    0.133...
    """
    level = check_fraction("interval", "level", level, open_high=True)
    if loss_bound is not None:
        loss_bound = check_nonnegative("interval", "loss_bound", loss_bound)
    looks = check_anytime("interval", anytime, planned, level)
    if looks is not None and groups is not None:
        raise InputError("interval: takes `anytime=True` without `groups`. Call it once for each group.")
    columns = {"sample_weight": sample_weight, "abstained": abstained, "clusters": clusters, "strata": strata}
    known_error_size = loss_bound or None  # of a sample without any error

    def measure_part(
        loss: Array, confidence: Array, columns: dict[str, Any], error_size: float | None
    ) -> tuple[CheckedSamples, Interval]:
        """Check the samples of one group (or all of them) and make their interval."""
        samples = gather(
            "interval",
            metric,
            loss,
            confidence,
            **columns,
            options=options,
            error_size=error_size,
            repetitions=repetitions,
        )
        if samples.unit_count < 2:
            raise InputError("interval: needs at least two samples (or clusters) to see any spread, got one.")
        _check_method(samples, method)
        if looks is not None:
            return samples, _interval_at_any_time(samples, looks, method, loss_bound)
        if method in ("bootstrap", "bca"):
            generator = np.random.default_rng(rng)
            return samples, resampling.interval(samples, level, method, replicates, generator, progress)
        return samples, interval_of_samples(samples, level, method, loss_bound)

    if groups is None:
        return measure_part(loss, confidence, columns, known_error_size)[1]
    loss = np.asarray(to_host(loss))
    confidence = np.asarray(to_host(confidence))
    labels, group_of_sample = group_codes("interval", groups, loss.shape, weight=sample_weight)
    if not labels:  # no sample has any weight: the same call without groups says so
        return measure_part(loss, confidence, columns, known_error_size)[1]
    if loss.ndim == 1 and np.issubdtype(loss.dtype, np.number) and len(loss):
        # a group without an error takes the size of one from the other groups
        known_error_size = error_size_of(loss, known_error_size)
    columns["clusters"] = cluster_columns("interval", clusters, len(loss))
    host_columns = {name: None if x is None else np.asarray(to_host(x)) for name, x in columns.items()}
    parts = []
    for rows in rows_of_groups(group_of_sample, len(labels)):
        group_columns = {name: None if x is None else x[rows] for name, x in host_columns.items()}
        samples, interval = measure_part(loss[rows], confidence[rows], group_columns, known_error_size)
        parts.append(GroupPart(rows, samples, interval))
    cluster_of_sample = cluster_codes("interval", clusters, len(loss))
    macro = _macro_interval(parts, len(loss), cluster_of_sample, level, method)
    intervals = {label: part.interval for label, part in zip(labels, parts)}
    return GroupedIntervals(macro.metric, intervals, macro)


def _interval_at_any_time(
    samples: CheckedSamples, looks: AnytimeRule, method: str | None, loss_bound: float | None
) -> Interval:
    """The interval of checked samples that holds at every look, at the level of `looks`.

    Raises InputError for the bootstrap, whose replicates do not reach far enough into the tails, and for two kinds of
    clusters, since it is not known how their variance falls as samples come in. `samples` holds the checked samples of
    one call: loss (in units of `error_size`), confidence and weight of the answered ones; weights, clusters and strata
    of all. A look is an evaluation of the data that came in so far.
    """
    if method in ("bootstrap", "bca"):
        raise InputError(
            f'interval: `anytime=True` goes without resampling, got method "{method}". Leave it out.'
        )
    check_one_kind("interval", samples.clusters, "`anytime=True`")
    fixed_level = float(looks.fixed_level(looks.level, samples.positive_weight_count))
    interval = interval_of_samples(samples, fixed_level, method, loss_bound)
    return replace(
        interval, level=looks.level, method=f"{interval.method}, at any time, planned for {looks.planned:,}"
    )


def _check_method(samples: CheckedSamples, method: str | None) -> None:
    """Raise InputError for a method that has no meaning for the metric and the losses.

    `samples` holds the checked samples of one call: loss (in units of `error_size`), confidence and weight of the
    answered ones; weights, clusters and strata of all.
    """
    if method is None:
        return
    check_choice("interval", "method", method, get_args(Method))
    metric = samples.metric
    has_negative_loss = bool((samples.answered_loss < 0).any())
    scale = metric.scale_for(samples.zero_one, has_negative_loss)
    problem = ""
    if isinstance(metric, PointMetric) and method != "bootstrap":
        problem = f'a smooth metric, got {metric.name}. Use "bootstrap", or none.'
    elif not metric.is_smooth and method not in ("bootstrap", "jackknife"):
        problem = f'a metric with an influence function, got {metric.name}. Use "bootstrap", or none.'
    elif method == "log" and has_negative_loss:
        problem = 'losses of at least 0, got negative ones. Use "normal".'
    elif method == "logit" and scale.name != "logit":
        problem = f"a metric of bounded range, got {metric.name}."
    if problem:
        raise InputError(f'interval: `method="{method}"` needs {problem}')


def interval_of_samples(
    samples: CheckedSamples, level: float, method: str | None, loss_bound: float | None
) -> Interval:
    """The interval of checked samples: of a point of the curve, by the jackknife, or from influences.

    A metric without an influence function is jackknifed. `samples` holds the checked samples of one call: loss (in
    units of `error_size`), confidence and weight of the answered ones; weights, clusters and strata of all. `level` is
    the two-sided confidence level, such as 0.95.
    """
    metric = samples.metric
    if isinstance(metric, PointMetric):
        return _point_interval(samples, level)
    if method == "jackknife" or not metric.is_smooth:
        spread = resampling.jackknife(samples)
        sample = summarise_samples(samples)
        return make_interval(metric, spread, sample, level, "jackknife", loss_bound, "jackknife")
    spread, sample = measure("interval", samples)
    return make_interval(metric, spread, sample, level, method, loss_bound)


def _point_interval(samples: CheckedSamples, level: float) -> Interval:
    """The interval of a point of the curve; clusters and strata multiply its variance as they do at the cut itself.

    `samples` holds the checked samples of one call: loss (in units of `error_size`), confidence and weight of the
    answered ones; weights, clusters and strata of all. `level` is the two-sided confidence level, such as 0.95.
    """
    metric = samples.metric
    evidence = evidence_of_samples(samples)
    interval = estimate_interval(metric, evidence, level=level)
    if samples.has_independent_samples:
        return interval
    answered_design_effect = 1.0
    if samples.is_answered is not None:
        answered = samples.is_answered.astype(np.float64)
        answered_design_effect = _design_effect(
            samples, answered - samples.answered_mass / samples.total_mass
        )
    return estimate_interval(
        metric,
        evidence,
        level=level,
        design_effect=_design_effect(samples, _influence_at_cut(samples, interval.estimate)),
        answered_design_effect=answered_design_effect,
    )


def _design_effect(samples: CheckedSamples, influences: np.ndarray) -> float:
    """Variance of a mean of these influences by clusters and strata, over that of independent samples.

    `samples` holds the checked samples of one call: loss (in units of `error_size`), confidence and weight of the
    answered ones; weights, clusters and strata of all.
    """
    independent_effects = effects_of_units(influences, samples._replace(clusters=None, strata=None))
    largest_effect = samples.total_mass * np.abs(independent_effects).max()
    if largest_effect <= SUM_ROUNDING * np.abs(samples.answered_loss).max():  # rounding alone
        return 1.0
    if samples.has_two_way_clusters:
        variance = two_way_variance(
            *(_variance_of_units(influences, kind) for kind in samples.by_each_clustering())
        )
    else:
        variance = _variance_of_units(influences, samples)
    return max(float(variance) / float(independent_effects @ independent_effects), SMALLEST_DESIGN_EFFECT)


def _variance_of_units(influences: np.ndarray, samples: CheckedSamples) -> float:
    """Variance of a mean of these influences by strata, and by clusters of one kind."""
    effects = effects_of_units(influences, samples)
    inflation = 1.0 if samples.clusters is None else len(effects) / (len(effects) - 1)
    return inflation * float(effects @ effects)


def _influence_at_cut(samples: CheckedSamples, value: float) -> np.ndarray:
    r"""Influence of each of all n samples on a point A/B of the curve, cut where C reaches a share of its whole.

    .. math:: \left(a_i - \frac AB b_i - \frac{A' - (A/B) B'}{C'} (1(i) - \text{share})\, c_i\right) / B

    A counts the errors accepted, B the samples accepted (of FPR, all errors), C all samples (of FPR, the right ones),
    and the slopes at the cut are read in one window around it; see `point_limits`. `value` is the estimate, which is
    the cut where the metric is a coverage. `samples` holds the checked samples of one call: loss (in units of
    `error_size`), confidence and weight of the answered ones; weights, clusters and strata of all.
    """
    metric = samples.metric
    assert isinstance(metric, PointMetric)
    counts_right = metric.cut_at == "tpr"
    confidence = samples.answered_confidence
    loss = samples.answered_loss.astype(np.float64)
    weight = samples.times_weight(np.ones(len(loss)))
    order = (
        argsort_descending(confidence)
        if samples.ranked_by_confidence is None
        else samples.ranked_by_confidence.ranking.order
    )
    counted = 1 - loss if counts_right else np.ones_like(loss)
    counted_mass = np.cumsum((weight * counted)[order])
    whole_mass = counted_mass[-1] if counts_right else samples.total_mass
    requested_share = value if metric.cut_at == "risk" else metric.cut
    cut_place = np.searchsorted(counted_mass, requested_share * whole_mass * (1 - SHARE_ROUNDING))
    cut_confidence = confidence[order[min(int(cut_place), len(loss) - 1)]]
    is_accepted = (confidence >= cut_confidence).astype(np.float64)
    coverage = is_accepted.mean()
    # as many samples as the standard error of the number accepted
    half_window = max(WINDOW_SAMPLES, int(np.sqrt(len(loss) * coverage * (1 - coverage))))
    last_accepted = int(is_accepted.sum()) - 1  # equals stand together, here and at the ends of the window
    window_top = confidence[order[max(0, last_accepted - half_window)]]
    window_bottom = confidence[order[min(last_accepted + half_window, len(loss) - 1)]]
    in_window = (confidence <= window_top) & (confidence >= window_bottom)
    divisor = loss if counts_right else is_accepted
    B = float(weight @ divisor)
    accepted_share = float(weight @ (is_accepted * counted)) / whole_mass
    point = float(weight @ (is_accepted * loss)) / B
    window_loss = loss[in_window] - (0.0 if counts_right else point)
    window_mass = max(float(weight[in_window] @ counted[in_window]), 1e-300)
    slope = weight[in_window] @ window_loss / window_mass
    at_cut = slope * counted * (is_accepted - accepted_share)
    influence = (is_accepted * loss - point * divisor - at_cut) / B
    return fill_in(samples, influence, 0.0 if counts_right else slope * accepted_share / B)


class GroupPart(NamedTuple):
    """One group of samples and its interval.

    Attributes
    ----------
    rows : ndarray of int
        Indices of its samples among all samples of the call, ascending.
    samples : CheckedSamples
        The checked samples of the group.
    interval : Interval
        Of the metric within the group, in the user's units.
    """

    rows: np.ndarray
    samples: CheckedSamples
    interval: Interval


def _macro_interval(
    parts: list[GroupPart], sample_count: int, clusters: np.ndarray | None, level: float, method: str | None
) -> Interval:
    """The interval of the plain mean over groups, from sums over units where there are any.

    Otherwise (points, resampling, groups without spread) the distances to the limits of each group are added up: as
    squares, or plainly where groups may share units (`clusters`, codes from 0 of all samples, or None).

    `parts` are the groups with their intervals. `sample_count` is the number of samples of the call, those of no group
    included. `level` is two-sided; `method` is the scale of the interval, or "bootstrap", "bca" or "jackknife".
    """
    group_count = len(parts)
    metric = parts[0].samples.metric
    intervals = [part.interval for part in parts]
    first = intervals[0]
    estimate = float(np.mean([interval.estimate for interval in intervals]))
    reads_sums = metric.is_smooth and method not in ("bootstrap", "bca", "jackknife")
    bounds = [interval for interval in intervals if interval.centre == "bound"]
    macro = None
    if reads_sums and len(bounds) < group_count:
        spread, sample = _mean_over_groups(parts, sample_count, clusters)
        if np.isfinite([spread.estimate, spread.variance, spread.variance_excess]).all():
            macro = make_interval(metric, spread, sample, level, method)
    if macro is not None:
        power = 2
        added = bounds
    else:
        power = 2 if clusters is None else 1
        added = intervals
        macro = Interval(
            metric=first.metric,
            estimate=estimate,
            standard_error=0.0,
            low=estimate,
            high=estimate,
            level=level,
            method=first.method,
            n=sum(interval.n for interval in intervals),
            centre="bound" if reads_sums else "estimate",
        )
    terms = [macro, *added]
    shares = np.asarray([1.0] + [1 / group_count] * len(added))

    def add_up(distances: list[float]) -> float:
        return float(np.linalg.norm(np.maximum(distances, 0.0) * shares, power))

    return replace(
        macro,
        low=macro.estimate - add_up([term.estimate - term.low for term in terms]),
        high=macro.estimate + add_up([term.high - term.estimate for term in terms]),
        standard_error=add_up([term.standard_error for term in terms]),
    )


def _mean_over_groups(
    parts: list[GroupPart], sample_count: int, clusters: np.ndarray | None
) -> tuple[EstimateSpread, SampleSummary]:
    """Spread and summary of the mean over groups; what a cluster does is added up over all groups it is in.

    `sample_count` is the number of samples of the call. `clusters` holds the cluster of each of them, numbered from 0,
    shape (n,) or (n, 2) for two kinds of clusters; None if samples are independent.
    """
    metric = parts[0].samples.metric
    measured = [measure("interval", part.samples) for part in parts]
    summaries = [sample for _, sample in measured]
    hidden_variances = [metric.rule.hidden_variance(spread, sample) for spread, sample in measured]
    mean = mean_spread([spread for spread, _ in measured], hidden_variances)
    summary = summaries[0]._replace(
        sample_count=sample_count,
        unit_count=sum(sample.unit_count for sample in summaries),
        effective_draws=sum(sample.effective_draws for sample in summaries),
        is_zero_one=all(sample.is_zero_one for sample in summaries),
        has_negative_loss=any(sample.has_negative_loss for sample in summaries),
        risk=float(np.mean([sample.risk for sample in summaries])),
        error_count=sum(sample.error_count for sample in summaries),
        largest_loss=max(sample.largest_loss for sample in summaries),
        right_count=sum(sample.right_count for sample in summaries),
        error_draws=sum(sample.error_draws for sample in summaries),
        right_draws=sum(sample.right_draws for sample in summaries),
    )
    if clusters is None:
        return mean, summary
    sample_effects = np.zeros(len(clusters))
    loss_effects = np.zeros(len(clusters))
    for part in parts:
        influences = influences_of_samples("interval", part.samples)
        independent = part.samples._replace(clusters=None)
        weighted_loss = influences.rank_weights * fill_in(part.samples, part.samples.answered_loss)
        sample_effects[part.rows] = effects_of_units(influences.influence, independent)
        loss_effects[part.rows] = effects_of_units(weighted_loss, independent, centred=False)
    group_count = len(parts)
    kinds = (clusters,) if clusters.ndim == 1 else split_kinds(clusters)
    variances = []
    excesses = []
    loss_squares = []
    cluster_counts = []
    for codes in kinds:
        cluster_effects = np.bincount(codes, sample_effects) / group_count
        cluster_losses = np.bincount(codes, loss_effects) / group_count
        cluster_count = len(cluster_effects)
        variance, variance_excess = moments(cluster_effects * np.sqrt(cluster_count / (cluster_count - 1)))
        variances.append(variance)
        excesses.append(variance_excess)
        loss_squares.append(float(cluster_losses @ cluster_losses))
        cluster_counts.append(cluster_count)
    if len(kinds) > 1:
        moments_of_mean = two_way_moments(variances, excesses, cluster_counts)
    else:
        moments_of_mean = (variances[0], excesses[0], cluster_counts[0])
    variance, variance_excess, cluster_count = moments_of_mean
    mean = mean._replace(
        variance=float(variance),
        variance_excess=float(variance_excess),
        ranked_loss_sum=float(loss_effects.sum()) / group_count,
        ranked_loss_square_sum=max(loss_squares[:2]),
    )
    return mean, summary._replace(unit_count=int(cluster_count), effective_draws=int(cluster_count))


# from blocks --------------------------------------------------------------------------------------
#
# Intervals from a block table, when the samples themselves are gone.


def interval_from_blocks(
    metric: Named,
    blocks: Blocks,
    /,
    *,
    level: float = 0.95,
    method: str | None = None,
    repetitions: bool = False,
    **options: Any,
) -> Interval:
    """Interval from a mergeable block table (a stream, files, replicas); independent samples.

    Parameters
    ----------
    metric : str
        AURC, AUGRC, risk and points of the curve of any loss; the other metrics of `interval` for 0/1 losses.
    blocks : Blocks
        The table.
    level, method, repetitions
        Two-sided confidence level; the scale of the interval (None: that of the metric); whether weights are numbers of
        repetitions.
    **options
        The metric's own: `estimator`, `ties`, `oracle`, `coverage`, `risk`, `tpr`.

    Returns
    -------
    Interval
        That of `interval` of the samples themselves.

    Examples
    --------
    >>> table = Blocks.from_samples(np.asarray([0, 0, 1, 1]), np.arange(4.0))
    >>> interval_from_blocks("risk", table, method="normal")
    risk 0.5, 95% interval [-0.2956, 1.296], standard error 0.25 (normal, n = 4)
    """
    name = "interval_from_blocks"
    requested = find_metric(name, metric, options)
    level = check_fraction(name, "level", level, open_high=True)
    if method in ("bootstrap", "bca", "jackknife"):
        raise InputError(f'{name}: `method="{method}"` needs the samples themselves. Use `interval`.')
    if blocks.count.sum() < 2:
        raise InputError(f"{name}: needs at least two samples to see any spread, got one.")
    evidence = evidence_of_blocks(blocks, [requested], repetitions)
    return estimate_interval(requested, evidence, level=level, method=method)


def evidence_of_blocks(blocks: Blocks, metrics: Sequence[Metric], repetitions: bool = False) -> Evidence:
    """The evidence of a mergeable table for some metrics; relative weights are divided by their unit first.

    Raises InputError where a metric needs weights that are repetitions and they are not.
    """
    if not repetitions:
        blocks = blocks.in_units()
    tables = [table_from_blocks(blocks)]
    has_unit_weights = bool(np.all(blocks.mass == blocks.count) and np.all(blocks.w2 == blocks.count))
    has_whole_weights = repetitions or has_unit_weights
    for metric in metrics:
        if metric.needs_repetitions and not has_whole_weights:
            raise repetitions_error("interval_from_blocks", metric.needs_repetitions)
    has_negative_loss = not blocks.zero_one and bool((blocks.loss_sum < 0).any())
    sample_count = int(blocks.count.sum())
    totals = totals_from_tables(tables, sample_count, blocks.zero_one, has_negative_loss, has_whole_weights)
    return gather_evidence(tables, totals, request_for(metrics))
