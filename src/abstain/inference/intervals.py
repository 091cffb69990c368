"""Confidence intervals for every metric, from samples or from a block table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, get_args, overload

import numpy as np

from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import (
    check_choice,
    check_fraction,
    check_nonnegative,
    check_shape_of_loss,
    refuse_other_row_order,
    repetitions_error,
)
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
    split_two_way,
    two_way_unit_variance,
    two_way_variance,
    unbiased_effects,
)
from abstain.inference.evidence import Evidence, estimate_interval, gather_evidence, request_for
from abstain.inference.limits import make_interval, mean_spread, variance_of_effects
from abstain.inference.point_limits import WINDOW_SAMPLES
from abstain.inference.records import GroupedIntervals, Interval
from abstain.inference.standard_errors import (
    SMALLEST_LOSS,
    CheckedSamples,
    Measured,
    effects_of_units,
    effects_within_strata,
    error_size_of,
    evidence_of_samples,
    find_metric,
    gather,
    influences_of_samples,
    measure,
    stratum_codes,
    stratum_of_clusters,
    summarise_samples,
)
from abstain.metrics._sample import group_codes, rows_of_groups
from abstain.metrics.areas import Oracle
from abstain.metrics.metric import Metric, PointMetric
from abstain.metrics.summaries import SampleSummary

Named = str | Metric | Callable[..., Any]  # a metric by its name, its definition, or its function
Method = Literal["log", "logit", "normal", "bootstrap", "bca", "jackknife"]
Dependence = Literal["independent", "dependent"]  # do the samples of several groups share clusters?

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
@refuse_other_row_order
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
        non-negative losses, "logit" for AUROC, PRR and 0/1 risk, "normal" otherwise, "jackknife" where there
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
        One label per sample: the number drawn from each stratum was fixed. The bootstrap needs two samples (or
        clusters) in each.
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
    (0.2807, 0.0283, 1.0, 'rests on about 2.5 effective errors (4 in all)')
    >>> interval("aurc", [0] * 100, range(100)).high  # nothing wrong among 100: p = 0.0295
    0.133...
    """
    level = check_fraction("interval", "level", level, open_high=True)
    if loss_bound is not None:
        loss_bound = check_nonnegative("interval", "loss_bound", loss_bound)
    anytime_rule = check_anytime("interval", anytime, planned, level)
    if anytime_rule is not None and groups is not None:
        raise InputError("interval: takes `anytime=True` without `groups`. Call it once for each group.")
    columns = {"sample_weight": sample_weight, "abstained": abstained, "clusters": clusters, "strata": strata}
    known_error_size = loss_bound or None  # of a sample without any error

    def measure_part(
        loss: Array, confidence: Array, columns: dict[str, Any], error_size: float | None
    ) -> tuple[CheckedSamples, Interval]:
        """Check the samples of one group (or all of them) and make their interval, in the user's units.

        `columns` holds the weights, abstentions, clusters and strata of these samples (None: not passed), `error_size`
        what an error costs, for a group that may have none (None: not known). All else are arguments of `interval`.
        """
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
        _check_method(samples.metric, samples.answered_loss, samples.zero_one, method)
        if anytime_rule is not None:
            return samples, _interval_at_any_time(samples, anytime_rule, method, loss_bound)
        if method in ("bootstrap", "bca"):
            generator = np.random.default_rng(rng)
            return samples, resampling.interval(
                samples, level, method, columns["strata"], replicates, generator, progress
            )
        return samples, interval_of_samples(samples, level, method, loss_bound)

    if groups is None:
        return measure_part(loss, confidence, columns, known_error_size)[1]
    loss = np.asarray(to_host(loss))
    confidence = np.asarray(to_host(confidence))
    for name, column in {"confidence": confidence, **columns}.items():
        if (
            column is not None and name != "clusters"
        ):  # `cluster_columns` checks these, which may be of two kinds
            check_shape_of_loss("interval", name, column, loss)
    labels, group_of_sample = group_codes("interval", groups, loss.shape, weight=sample_weight)
    if not labels:  # no sample has any weight: the same call without groups says so
        return measure_part(loss, confidence, columns, known_error_size)[1]
    if loss.ndim == 1 and np.issubdtype(loss.dtype, np.number) and len(loss):
        # a group without an error takes the size of one from the other groups
        known_error_size = error_size_of(loss, known_error_size)
    cluster_codes(
        "interval", clusters, len(loss)
    )  # raises unless there is one label, or one of each kind, per sample
    columns["clusters"] = cluster_columns("interval", clusters, len(loss))
    host_columns = {name: None if x is None else np.asarray(to_host(x)) for name, x in columns.items()}
    has_weight = group_of_sample >= 0
    if not has_weight.all():  # samples of weight 0 are in no group
        loss, confidence, group_of_sample = (
            loss[has_weight],
            confidence[has_weight],
            group_of_sample[has_weight],
        )
        host_columns = {name: None if x is None else x[has_weight] for name, x in host_columns.items()}
    parts = []
    for rows in rows_of_groups(group_of_sample, len(labels)):
        group_columns = {name: None if x is None else x[rows] for name, x in host_columns.items()}
        samples, interval = measure_part(loss[rows], confidence[rows], group_columns, known_error_size)
        parts.append(GroupPart(rows, samples, interval))
    cluster_of_sample = cluster_codes("interval", host_columns["clusters"], len(loss))
    stratum_of_sample = stratum_codes("interval", host_columns["strata"], len(loss))
    macro = _macro_interval(parts, len(loss), cluster_of_sample, stratum_of_sample, level, method)
    intervals = {label: part.interval for label, part in zip(labels, parts)}
    return GroupedIntervals(macro.metric, intervals, macro)


def _interval_at_any_time(
    samples: CheckedSamples, rule: AnytimeRule, method: str | None, loss_bound: float | None
) -> Interval:
    """An interval that holds at every look, however often the data are evaluated while samples come in.

    `rule` holds the level and the planned number of samples; it turns the level into the stricter one of an interval
    for a single look. `method` is the user's scale of the interval ("log", "logit", "normal", "jackknife"; None: that
    of the metric), `loss_bound` an upper bound of the losses (None: not known). Raises InputError for the bootstrap,
    whose replicates do not reach far enough into the tails, and for two kinds of clusters, since it is not known how
    their variance falls as samples come in.
    """
    if method in ("bootstrap", "bca"):
        raise InputError(
            f'interval: `anytime=True` goes without resampling, got method "{method}". Leave it out.'
        )
    check_one_kind("interval", samples.clusters, "`anytime=True`")
    # a higher level: that of an interval for one look which is as wide as the one that holds at every look
    level_of_one_look = float(rule.level_of_one_look(rule.level, samples.sample_count))
    interval = interval_of_samples(samples, level_of_one_look, method, loss_bound)
    return replace(
        interval, level=rule.level, method=f"{interval.method}, at any time, planned for {rule.planned:,}"
    )


def _check_method(metric: Metric, loss: np.ndarray, is_zero_one: bool, method: str | None) -> None:
    """Raise InputError for a `method` of `interval` that has no meaning for the metric and the losses.

    None, the default method, is always right. `loss` holds the losses of the answered samples, of which only the sign
    is read; `is_zero_one` says that all are 0 or one number. The methods are scales ("log", "logit", "normal"), on
    which the interval by influences is symmetric, "jackknife", "bootstrap" and "bca", whose correction may read
    influences, too.
    """
    if method is None:
        return
    check_choice("interval", "method", method, get_args(Method))
    has_negative_loss = bool((loss < 0).any())
    problem = ""
    if isinstance(metric, PointMetric) and method != "bootstrap":
        problem = f'a smooth metric, got {metric.name}. Use "bootstrap", or none.'
    elif not metric.is_smooth and method not in ("bootstrap", "jackknife"):
        problem = f'a metric with an influence function, got {metric.name}. Use "bootstrap", or none.'
    elif method == "log" and has_negative_loss:
        problem = 'losses of at least 0, got negative ones. Use "normal".'
    elif method == "logit" and metric.scale_for(is_zero_one, has_negative_loss).name != "logit":
        problem = f"a metric of bounded range, got {metric.name}."
    if problem:
        raise InputError(f'interval: `method="{method}"` needs {problem}')


def interval_of_samples(
    samples: CheckedSamples, level: float, method: str | None, loss_bound: float | None
) -> Interval:
    """The interval of `samples.metric`, in the user's units, by any method but the bootstrap.

    Points of the curve have their own formulas. A metric without an influence function, and method "jackknife", leave
    out one unit after the other; other methods read influences. `method` is "jackknife" or a scale ("log", "logit",
    "normal"; None: the metric's own), and is not read for points. `level` is the two-sided confidence level, such as
    0.95. `loss_bound` is an upper bound of the losses, in the user's units; None: none is known.
    """
    metric = samples.metric
    if isinstance(metric, PointMetric):
        return _point_interval(samples, level)
    if method == "jackknife" or not metric.is_smooth:
        return make_interval(
            metric,
            spread=resampling.jackknife(samples),
            sample=summarise_samples(samples),
            level=level,
            method="jackknife",
            loss_bound=loss_bound,
            centre_name="jackknife",
        )
    # by the influence of each sample: the estimate with its variance, and the counts of samples and draws behind it
    measured = measure("interval", samples)
    # converts to the user's units, as above
    return make_interval(metric, measured.spread, measured.sample, level, method, loss_bound)


def _point_interval(samples: CheckedSamples, level: float) -> Interval:
    """The interval of a point of the curve: risk at a coverage, coverage at a risk, or FPR at a TPR.

    Limits are those of independent samples. With clusters or strata their variance is multiplied by a design effect:
    how much these change the variance of the influences at the cut (the threshold of the point). Where all accepted 0/1
    losses are equal, there is no variance to multiply; limits then come from the number of draws, which is divided by a
    cluster effect: how many times fewer clusters than samples are accepted. The point is cut at the value `metric.cut`
    of what `metric.cut_at` names: "coverage", "risk" or "tpr". `level` is the two-sided confidence level, such as 0.95.
    """
    metric = samples.metric
    assert isinstance(metric, PointMetric)
    evidence = evidence_of_samples(samples)  # sums over the ranking, in which samples count as independent
    # with clusters or strata, only its estimate is read, and limits are computed anew below
    interval = estimate_interval(metric, evidence, level=level)
    if samples.has_independent_samples:  # neither clusters nor strata
        return interval
    # that of the share of answered samples, by which a coverage among these is multiplied; 1 if all are answered
    answered_design_effect = 1.0
    if samples.is_answered is not None:  # some samples abstained
        answered_share = samples.answered_mass / samples.total_mass
        influence_on_answered_share = samples.is_answered - answered_share  # 1 or 0, less the mean
        answered_design_effect = _design_effect(samples, influence_on_answered_share)
    if metric.cut_at == "tpr":
        influences = _influence_on_fpr(samples, metric.cut)
        cluster_effect = 1.0  # not read: `fpr_limits` divides the number of errors by the design effect
    else:  # at a risk, the estimate is the coverage at which the ranking is cut
        coverage = metric.cut if metric.cut_at == "coverage" else interval.estimate
        influences = _influence_on_risk(samples, coverage=coverage)
        cluster_effect = _cluster_effect(samples, coverage=coverage)
    return estimate_interval(
        metric,
        evidence,
        level=level,
        design_effect=_design_effect(samples, influences),
        answered_design_effect=answered_design_effect,
        cluster_effect=cluster_effect,
    )


def _cluster_effect(samples: CheckedSamples, coverage: float) -> float:
    """How many times fewer independent draws than samples are accepted at a coverage: 1 without clusters.

    This number is needed where all accepted samples are right, or all are wrong: no variance shows then how alike the
    samples of a cluster are, so each cluster is one draw. Clusters of several sizes count as the number of equal ones
    with the same sum of squares, and of two kinds of clusters the one with fewer draws counts. `coverage` is a share of
    all samples, abstained ones included.
    """
    weight = samples.answered_weights_or_ones
    is_accepted = _find_cut(samples, weight, mass_at_cut=coverage * samples.total_mass).is_accepted
    # 1.0 or 0.0 for each of all samples: the sum over a unit, with weights, is its accepted mass over the total mass
    is_accepted = samples.extend_to_all(is_accepted, for_abstained=0.0)
    # the same samples without their clusters and strata: one unit each
    sample_masses = effects_of_units(is_accepted, samples.as_independent_draws(), centred=False)
    # above 0: the largest confidence is always accepted
    square_sum = float(sample_masses @ sample_masses)
    cluster_effects = [1.0]
    # the samples as they are, or three versions with two kinds of clusters; the third one, with their intersections,
    # never has the largest effect, since an intersection is a part of a cluster of either kind
    for clustered in samples.by_each_clustering():
        cluster_masses = effects_of_units(is_accepted, clustered, centred=False)
        cluster_effects.append(float(cluster_masses @ cluster_masses) / square_sum)
    return max(cluster_effects)


def _design_effect(samples: CheckedSamples, influences: np.ndarray) -> float:
    """By what factor clusters and strata change the variance of a mean of these influences.

    `influences` has one entry for each of all n samples, such as its influence on the risk at a coverage. The factor is
    the variance with clusters and strata over that without them, at least SMALLEST_DESIGN_EFFECT (1e-3). It is 1 where
    the influences are no larger than rounding errors of the losses (1e-12 of the largest): then their variances say
    nothing.
    """
    # weight * influence / total mass of each sample, without clusters and strata; the sum of squares is the variance,
    # which is above 0 after the check below
    independent_effects = effects_of_units(influences, samples.as_independent_draws())
    largest_influence = samples.total_mass * np.abs(independent_effects).max()
    if largest_influence <= SUM_ROUNDING * np.abs(samples.answered_loss).max():
        return 1.0
    # of the samples as they are, or with two kinds of clusters of three versions: by the first kind, by the second, and
    # by their intersections, whose variance is subtracted from the sum of the other two
    variances = [_variance_of_units(influences, clustered) for clustered in samples.by_each_clustering()]
    variance = variances[0] if len(variances) == 1 else two_way_variance(*variances)
    return max(float(variance) / float(independent_effects @ independent_effects), SMALLEST_DESIGN_EFFECT)


def _variance_of_units(influences: np.ndarray, samples: CheckedSamples) -> float:
    """Variance of a mean of these influences by strata, and by clusters of one kind."""
    effects = effects_of_units(influences, samples)
    return float(effects @ effects)


class _Cut(NamedTuple):
    """Where a ranking is cut, with one entry for each answered sample in input order.

    `is_accepted` is 1.0 for samples at or above the threshold, 0.0 below. `in_window` marks the samples near the
    threshold, on either side: their mean loss is the local risk there, and their errors per right sample give the
    slope of the FPR along the TPR.
    """

    is_accepted: np.ndarray
    in_window: np.ndarray


def _find_cut(samples: CheckedSamples, counted_weight: np.ndarray, mass_at_cut: float) -> _Cut:
    """Cut the ranking of the answered samples where the sum of `counted_weight`, from the top, reaches `mass_at_cut`.

    `counted_weight` has one entry per answered sample in input order; samples that are not counted have 0. Samples of
    equal confidence are on the same side of the cut, and of the ends of the window. The largest confidence is always
    accepted, also at a mass of 0. The window around the cut holds the samples that the cut may move across by chance:
    one standard error of the number accepted on either side, and at least five (WINDOW_SAMPLES). The result marks the
    accepted samples (1.0, others 0.0) and those in the window.
    """
    confidence = samples.answered_confidence
    # indices of the answered samples, most confident first
    if samples.ranked_by_confidence is None:  # they were not sorted before
        order = argsort_descending(confidence)
    else:
        order = samples.ranked_by_confidence.ranking.order
    n = len(order)
    # index into `order` of the sample with which the sum reaches the mass; the last one where rounding keeps it below
    at_cut = np.searchsorted(np.cumsum(counted_weight[order]), mass_at_cut * (1 - SHARE_ROUNDING))
    threshold = confidence[order[min(int(at_cut), n - 1)]]
    is_accepted = (confidence >= threshold).astype(np.float64)
    share_accepted = is_accepted.mean()
    # the number accepted is binomial where the threshold is fixed
    standard_error_of_count = np.sqrt(n * share_accepted * (1 - share_accepted))
    samples_on_either_side = max(WINDOW_SAMPLES, int(standard_error_of_count))
    last_accepted = int(is_accepted.sum()) - 1  # index into `order`, too
    window_top = confidence[order[max(0, last_accepted - samples_on_either_side)]]
    window_bottom = confidence[order[min(last_accepted + samples_on_either_side, n - 1)]]
    return _Cut(is_accepted, in_window=(confidence <= window_top) & (confidence >= window_bottom))


def _influence_on_risk(samples: CheckedSamples, coverage: float) -> np.ndarray:
    r"""Influence of each of all n samples on the selective risk R at a coverage, a share of all samples.

    .. math:: \left(1(i)\,(l_i - R) - (m - R)\,(1(i) - c)\right) W / N

    up to the factor W (the total mass), which the design effect does not need. 1(i) says that sample i is accepted,
    N is the accepted mass, c = N / W, and m is the local risk: the mean loss of samples near the cut. An abstained
    sample has 1(i) = 0 and the term of the cut alone. Losses are in units of `samples.error_size`.
    """
    loss = samples.answered_loss.astype(np.float64)
    weight = samples.answered_weights_or_ones
    # by answered sample: 1.0 or 0.0, and a mask of the samples near the cut, of which there is at least one
    is_accepted, in_window = _find_cut(samples, weight, mass_at_cut=coverage * samples.total_mass)
    accepted_mass = float(weight @ is_accepted)  # above 0: the largest confidence is always accepted
    accepted_share = accepted_mass / samples.total_mass
    risk = float(weight @ (is_accepted * loss)) / accepted_mass
    # m - R: how much larger the loss is near the cut than above it
    local_excess = weight[in_window] @ (loss[in_window] - risk) / float(np.sum(weight[in_window]))
    influence = (is_accepted * (loss - risk) - local_excess * (is_accepted - accepted_share)) / accepted_mass
    return samples.extend_to_all(influence, for_abstained=local_excess * accepted_share / accepted_mass)


def _influence_on_fpr(samples: CheckedSamples, tpr: float) -> np.ndarray:
    r"""Influence of each of all n samples on the share F of errors accepted where a share `tpr` of right ones is.

    .. math:: \left(l_i\,(1(i) - F) - \rho\,(1 - l_i)\,(1(i) - A)\right) W / E

    up to the factor W (the total mass), which the design effect does not need. 1(i) says that sample i is accepted,
    E is the mass of the errors, A the share of the right samples accepted, and rho the number of errors per right
    sample near the cut. Losses are 0/1, with errors and right samples. An abstained sample has influence 0.
    """
    is_error = samples.answered_loss.astype(np.float64)
    is_right = 1 - is_error
    weight = samples.answered_weights_or_ones
    right_weight = weight * is_right
    right_mass = float(np.cumsum(right_weight)[-1])  # added one by one, as the sum that finds the cut is
    # by answered sample: 1.0 or 0.0, and a mask of the samples near the cut
    is_accepted, in_window = _find_cut(samples, right_weight, mass_at_cut=tpr * right_mass)
    error_mass = float(weight @ is_error)
    accepted_share_of_right = float(weight @ (is_accepted * is_right)) / right_mass
    fpr = float(weight @ (is_accepted * is_error)) / error_mass
    # the cut lies at a right sample, so that one is in the window; the floor only keeps 0 from being divided by
    right_in_window = max(float(weight[in_window] @ is_right[in_window]), 1e-300)
    errors_per_right = weight[in_window] @ is_error[in_window] / right_in_window
    from_errors = is_error * (is_accepted - fpr)
    from_right = errors_per_right * is_right * (is_accepted - accepted_share_of_right)
    return samples.extend_to_all((from_errors - from_right) / error_mass, for_abstained=0.0)


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
    parts: list[GroupPart],
    sample_count: int,
    clusters: np.ndarray | None,
    strata: np.ndarray | None,
    level: float,
    method: str | None,
) -> Interval:
    """The interval of the plain mean over groups.

    Where the metric has influences, it comes from their sums over units (samples or clusters), and groups without
    spread (all right, all wrong), in which no unit changes the estimate, widen it by their one-sided bounds. Otherwise
    (points of the curve, resampling) the distances to the limits of all groups are added up. The sums over units hold
    what a cluster does in all of its groups, so that groups which share clusters need no more allowance there;
    distances alone do not show what groups share, and with clusters they are added plainly, which is enough for any
    dependence.

    `parts` are the groups with their intervals, at least one. `sample_count` is the number of samples of the call,
    those of no group included. `clusters` and `strata` hold the cluster and the stratum of each of them, numbered from
    0; None: samples are independent, or there are no strata. `level` is two-sided; `method` is the user's: the scale of
    the interval, or a way of resampling (None: the metric's own scale).
    """
    metric = parts[0].samples.metric  # the same in all groups
    intervals = [part.interval for part in parts]
    # of groups without spread, whose interval is a one-sided bound from counts (`centre` says how one was made)
    bounds = [interval for interval in intervals if interval.centre == "bound"]
    # `is_smooth` says that the metric has an influence function
    reads_influences = metric.is_smooth and method not in ("bootstrap", "bca", "jackknife")
    some_group_has_spread = len(bounds) < len(parts)
    # fourth powers of losses below SMALLEST_LOSS (1e-60), or above its inverse, leave the range of a float; then each
    # group keeps its own unit
    can_convert_units = all(SMALLEST_LOSS < part.samples.error_size < 1 / SMALLEST_LOSS for part in parts)
    has_one_unit = can_convert_units or not _have_different_units(parts)
    if reads_influences and some_group_has_spread and has_one_unit:
        mean = _mean_over_groups(parts, sample_count, clusters, strata)
        spread = mean.spread
        # not finite where sums of powers of huge losses overflow: then the limits of the groups are added up below
        if np.isfinite([spread.estimate, spread.variance, spread.variance_of_variance]).all():
            macro = make_interval(metric, spread, mean.sample, level, method)
            # errors that a group without spread has missed count as independent of what the other groups show
            return _widen_by_groups(macro, bounds, len(parts), dependence="independent")
    # an interval of width 0, to which the widths of all groups are added
    estimate = float(np.mean([interval.estimate for interval in intervals]))
    without_width = Interval(
        metric=intervals[0].metric,
        estimate=estimate,
        standard_error=0.0,
        low=estimate,
        high=estimate,
        level=level,
        method=intervals[0].method,
        n=sum(interval.n for interval in intervals),
        # metrics with influences come here where no group has spread: then the limits are bounds from counts
        centre="bound" if reads_influences else "estimate",
    )
    dependence: Dependence = "independent" if clusters is None else "dependent"  # groups may share clusters
    return _widen_by_groups(without_width, intervals, len(parts), dependence)


def _widen_by_groups(
    macro: Interval, group_intervals: Sequence[Interval], group_count: int, dependence: Dependence
) -> Interval:
    """The interval `macro` of a mean over `group_count` groups, widened by the intervals of some of them.

    A group's distances from its estimate to its limits count 1 / group_count. `group_intervals` are those of the groups
    that `macro` does not allow for yet. With `dependence` "independent" distances add up as squares, otherwise plainly;
    standard errors in the same way.
    """
    terms = [macro, *group_intervals]
    shares = [1.0] + [1 / group_count] * len(group_intervals)  # one per term

    def add_up(distances: list[float]) -> float:
        """The sum of the distances, or the root of the sum of their squares, one per term, each times its share.

        A distance below 0 counts as 0: limits by the bootstrap need not contain the estimate.
        """
        counted = [share * max(distance, 0.0) for share, distance in zip(shares, distances)]
        return math.hypot(*counted) if dependence == "independent" else math.fsum(counted)

    return replace(
        macro,
        low=macro.estimate - add_up([term.estimate - term.low for term in terms]),
        high=macro.estimate + add_up([term.high - term.estimate for term in terms]),
        standard_error=add_up([term.standard_error for term in terms]),
    )


def _have_different_units(parts: list[GroupPart]) -> bool:
    """Are the estimates of some groups in another unit (`error_size`) than those of others?

    Losses of 0 and 2 are measured in units of 2, losses of 0 and 3 in units of 3. Metrics that do not scale with the
    losses have no unit.
    """
    units = {part.samples.error_size for part in parts}
    return len(units) > 1 and parts[0].samples.metric.scales_with_loss


def _mean_over_groups(
    parts: list[GroupPart], sample_count: int, clusters: np.ndarray | None, strata: np.ndarray | None
) -> Measured:
    """The plain mean of the estimates of groups with its variance, and the counts of samples behind it.

    `parts` are the groups, with their checked samples. `sample_count` is the number of samples of the call. `clusters`
    holds the cluster of each of them, numbered from 0, shape (n,) or (n, 2) for two kinds of clusters; what a cluster
    does is added up over all groups it is in. None: samples are independent. `strata` holds the stratum of each sample,
    numbered from 0, which is that of its cluster; None: there are none. Without clusters each group is measured within
    its part of the strata. No sample is in two groups. The counts of draws in the result are numbers of clusters; of
    two kinds, the one with fewer clusters counts.
    """
    rule = parts[0].samples.metric.rule  # of the metric, the same in all groups
    # the estimate of each group with its variance (`spread`), and the counts of samples and draws behind it (`sample`)
    measured = [measure("interval", part.samples) for part in parts]
    if _have_different_units(parts):
        measured = [group.in_user_units() for group in measured]
    # What few errors, or few right samples, of a group do not show. It is added to the variance when limits are made,
    # and comes from the numbers of clusters already: clusters change only the variance that is seen, below.
    hidden_variances = [rule.hidden_variance(group.spread, group.sample) for group in measured]
    # the estimate of the mean with its variance, for groups that share no clusters
    mean = mean_spread([group.spread for group in measured], hidden_variances)
    summary = _add_summaries([group.sample for group in measured], sample_count)
    if clusters is None:
        return Measured(mean, summary)
    return _with_shared_clusters(Measured(mean, summary), parts, clusters, strata)


def _with_shared_clusters(
    mean_of_groups: Measured, parts: list[GroupPart], clusters: np.ndarray, strata: np.ndarray | None
) -> Measured:
    """The mean over groups with the variance and the number of draws that follow from clusters across groups.

    `mean_of_groups` takes the groups, `parts`, for independent. `clusters` holds the cluster of each sample of the
    call, numbered from 0, in two columns for two kinds of clusters; `strata` the stratum of each (None: none). What a
    cluster does to the mean is added up over all samples it has, whatever their groups.
    """
    group_count = len(parts)
    # one entry per sample of the call; samples of no group keep 0
    effects = np.zeros(len(clusters))  # what a sample does to the estimate of its group: w * influence / mass
    contributions = np.zeros(len(clusters))  # what its loss adds to that estimate
    # losses were divided by the `error_size` of their group; where these differ, `mean_of_groups` is in the user's
    # units
    uses_user_units = _have_different_units(parts)
    for part in parts:  # `part.rows` are the indices of its samples among those of the call
        influences = influences_of_samples("interval", part.samples)
        unit = part.samples.error_size if uses_user_units else 1.0
        independent = part.samples.as_independent_draws()
        ranked_loss = influences.rank_weights * part.samples.extend_to_all(part.samples.answered_loss)
        effects[part.rows] = unit * effects_of_units(influences.influence, independent)
        contributions[part.rows] = unit * effects_of_units(ranked_loss, independent, centred=False)
    # one entry, or three with two kinds of clusters: by the first kind, by the second, and by their intersections
    variances = []
    squared_contribution_sums = []
    for codes in [clusters] if clusters.ndim == 1 else split_two_way(clusters):
        cluster_effects = np.bincount(codes, effects) / group_count
        cluster_contributions = np.bincount(codes, contributions) / group_count
        # enlarged, so that the sum of squares is an unbiased variance
        if strata is None:
            unbiased = unbiased_effects(cluster_effects)
        else:
            unbiased = effects_within_strata(cluster_effects, stratum_of_clusters(codes, strata))
        variances.append(variance_of_effects(unbiased))
        squared_contribution_sums.append(float(cluster_contributions @ cluster_contributions))
    variance = variances[0] if len(variances) == 1 else two_way_unit_variance(*variances)
    spread = mean_of_groups.spread._replace(
        variance=float(variance.variance),
        variance_of_variance=float(variance.variance_of_variance),
        contribution_sum=float(contributions.sum()) / group_count,
        # of the kind with fewer effective errors; intersections, the third entry, are left out
        squared_contribution_sum=max(squared_contribution_sums[:2]),
    )
    cluster_count = int(variance.unit_count)  # of two kinds, that of the kind with fewer clusters
    sample = mean_of_groups.sample._replace(unit_count=cluster_count, effective_draws=cluster_count)
    return Measured(spread, sample)


def _add_summaries(summaries: Sequence[SampleSummary], sample_count: int) -> SampleSummary:
    """Counts behind the mean over groups: of samples, errors and draws their sums; the risk is the groups' plain mean.

    `summaries` has one entry per group, of the samples of that group alone. A draw is a sample, or a cluster:
    `error_draws` are those of errors, `right_draws` those of right samples. `pair_count` counts disjoint pairs of a
    right sample and an error. No sample is in two groups, so sums count each once; a cluster that is in several groups
    counts in each. `sample_count` is the number of samples of the call, those of no group included. The ratio of the
    largest cluster to the mean one is that of the group where it is largest. `error_size` is the same in all groups, if
    the metric scales with it.
    """
    return summaries[0]._replace(
        sample_count=sample_count,
        unit_count=sum(summary.unit_count for summary in summaries),
        effective_draws=sum(summary.effective_draws for summary in summaries),
        is_zero_one=all(summary.is_zero_one for summary in summaries),
        has_negative_loss=any(summary.has_negative_loss for summary in summaries),
        risk=float(np.mean([summary.risk for summary in summaries])),
        error_count=sum(summary.error_count for summary in summaries),
        pair_count=sum(summary.pair_count for summary in summaries),
        largest_cluster_ratio=max(summary.largest_cluster_ratio for summary in summaries),
        largest_loss=max(summary.largest_loss for summary in summaries),
        right_count=sum(summary.right_count for summary in summaries),
        error_draws=sum(summary.error_draws for summary in summaries),
        right_draws=sum(summary.right_draws for summary in summaries),
    )


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
    """The sums that intervals of these metrics are computed from, out of a block table.

    A block table has one row per distinct confidence, with its number of samples and its sums of w^p l^j over their
    weights w and losses l. It counts the samples whose loss is neither 0 nor 1 when it is made; `blocks.zero_one` says
    that there are none. `repetitions` says that weights are numbers of repetitions; otherwise they are relative and are
    divided by one number, which is their common weight if they are equal. Raises InputError where a metric needs
    weights that are repetitions and they are not.
    """
    if not repetitions:
        # a new table: all weights over one number, so that their powers stay in range
        blocks = blocks.in_units()
    tables = [table_from_blocks(blocks)]  # one part, which is the whole ranking
    # sums of w and of w^2 equal the count only where every w is 1
    weights_are_one = bool(np.all(blocks.mass == blocks.count) and np.all(blocks.w2 == blocks.count))
    has_whole_weights = repetitions or weights_are_one
    for metric in metrics:
        # such as 'estimator="loo"'; "" for metrics that take any weights
        if metric.counting_option and not has_whole_weights:
            raise repetitions_error("interval_from_blocks", metric.counting_option)
    totals = totals_from_tables(
        tables,
        sample_count=int(blocks.count.sum()),
        zero_one=blocks.zero_one,
        # as far as the sum over a block shows it
        has_negative_loss=not blocks.zero_one and bool((blocks.loss_sum < 0).any()),
        has_whole_weights=has_whole_weights,
    )
    # what to sum for these metrics: the areas that they are made of, and the points of the curve among them
    request = request_for(metrics)
    return gather_evidence(tables, totals, request)
