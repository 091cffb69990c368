"""The sampled units behind a metric, the influence of each, and the standard error it makes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import refuse_other_row_order
from abstain.core.area_estimators import area_of_samples, oracle_area, subtract_large_offset
from abstain.core.influence import PIECE, RankedLoss, SampleInfluences
from abstain.core.part_sums import (
    AbstainedSums,
    InfluenceSums,
    Totals,
    iterate_tables,
    tables_along_ranking,
    totals_from_samples,
)
from abstain.core.rows import rank_confidences, read_by_confidence
from abstain.core.sorting import error_size, is_zero_one
from abstain.errors import InputError, ShapeError
from abstain.inference.clusters import (
    cluster_codes,
    split_two_way,
    two_way_unit_variance,
    two_way_variance,
    unbiased_effects,
)
from abstain.inference.evidence import (
    Evidence,
    gather_evidence,
    request_for,
    spread_from_evidence,
    summarise_totals,
)
from abstain.inference.limits import UnitVariance, make_spread
from abstain.inference.records import Influences
from abstain.metrics._sample import group_codes, prepare
from abstain.metrics.definitions import by_name
from abstain.metrics.metric import Metric, PointMetric
from abstain.metrics.sample_influence import sample_influences
from abstain.metrics.summaries import EstimateSpread, SampleSummary

SMALLEST_LOSS = 1e-60  # fourth powers of losses below this, or above its inverse, leave the range of floats


class CheckedSamples(NamedTuple):
    """Checked samples of one call: those that were answered as vectors, and how they were drawn.

    Attributes
    ----------
    metric : Metric
        What is estimated, with its options.
    answered_loss, answered_confidence : ndarray, shape (m,)
        Of the m samples that were answered and have a weight above 0, in input order. Losses are in units of
        `error_size`.
    answered_weight : ndarray, shape (m,), or None
        Their weights; None means 1 for all.
    is_answered : ndarray of bool, shape (n,), or None
        Which of all n samples are these m; None where m = n.
    sample_count : int
        n, the number of samples in the input, without those of weight 0.
    total_mass : float
        Sum of the weights of all samples, abstained ones included.
    weights_of_all : ndarray, shape (n,), or None
        Weights of all n samples; None means 1 for all.
    clusters : ndarray of int or None
        Codes 0, 1, ... of all n samples, shape (n,); shape (n, 2) for two crossed kinds of clusters.
    strata : ndarray of int or None
        Codes 0, 1, ... of all n samples. Only with clusters of one kind, or without clusters.
    zero_one : bool
        Are losses 0 or 1, in units of `error_size`?
    error_size : float
        One unit of the losses in the user's units: c where all are 0 or c, a power of two for huge losses.
    ranked_by_confidence, ranked_by_loss : RankedLoss or None
        The loss ranked by confidence, and by itself (smallest first), where these are known.
    has_weight : ndarray of bool or None
        Which samples of the input are these n; the others have weight 0 and no influence. None: all are.
    """

    metric: Metric
    answered_loss: np.ndarray
    answered_confidence: np.ndarray
    answered_weight: np.ndarray | None
    is_answered: np.ndarray | None
    sample_count: int
    total_mass: float
    weights_of_all: np.ndarray | None
    clusters: np.ndarray | None
    strata: np.ndarray | None
    zero_one: bool
    error_size: float = 1.0
    ranked_by_confidence: RankedLoss | None = None
    ranked_by_loss: RankedLoss | None = None
    has_weight: np.ndarray | None = None

    @property
    def estimate_unit(self) -> float:
        """One unit of an estimate that is computed from `answered_loss`, in the user's units."""
        return self.error_size if self.metric.scales_with_loss else 1.0

    @property
    def answered_mass(self) -> float:
        """Mass of the answered samples."""
        return float(len(self.answered_loss) if self.answered_weight is None else self.answered_weight.sum())

    @property
    def has_whole_weights(self) -> bool:
        """Are the weights repetitions, or all 1? (Relative weights over their unit are whole only if all are 1.)"""
        return self.answered_weight is None or bool(
            np.all(self.answered_weight == np.floor(self.answered_weight))
        )

    @property
    def has_independent_samples(self) -> bool:
        """Is every sample a draw of its own?"""
        return self.clusters is None and self.strata is None

    @property
    def answered_weights_or_ones(self) -> np.ndarray:
        """Weights of the answered samples in input order, as floats: 1 for each where there are no weights."""
        if self.answered_weight is None:
            return np.ones(len(self.answered_loss))
        return self.answered_weight.astype(np.float64, copy=False)

    def as_independent_draws(self) -> CheckedSamples:
        """The same samples without clusters and strata, as if each of them had been drawn on its own."""
        return self._replace(clusters=None, strata=None)

    @property
    def input_count(self) -> int:
        """Number of samples in the input, those of weight 0 included."""
        return self.sample_count if self.has_weight is None else len(self.has_weight)

    @property
    def weights_of_input(self) -> np.ndarray:
        """Weights of all samples of the input, those of weight 0 included."""
        weights = np.ones(self.sample_count) if self.weights_of_all is None else self.weights_of_all
        return self.at_places_of_input(weights)

    @property
    def unit_count(self) -> int:
        """How many independent units were drawn: clusters if there are any, samples otherwise.

        Of two kinds of clusters, the kind that has fewer counts.
        """
        if self.clusters is None:
            return self.sample_count
        return int(np.min(self.clusters.max(axis=0))) + 1

    @property
    def has_two_way_clusters(self) -> bool:
        """Are there two crossed kinds of clusters?"""
        return self.clusters is not None and self.clusters.ndim == 2

    def by_each_clustering(self) -> list[CheckedSamples]:
        """All of these samples with clusters of one kind at most: [self], or three versions with two kinds of clusters.

        The three have the clusters of the first kind, of the second kind, and the intersections of both.
        """
        if not self.has_two_way_clusters:
            return [self]
        assert self.clusters is not None
        return [self._replace(clusters=codes) for codes in split_two_way(self.clusters)]

    def extend_to_all(self, values: np.ndarray, for_abstained: float = 0.0) -> np.ndarray:
        """Values of the answered samples at their places among all n samples; the others get `for_abstained`."""
        if self.is_answered is None:
            return values
        extended = np.full(self.sample_count, for_abstained)
        extended[self.is_answered] = values
        return extended

    def at_places_of_input(self, values: np.ndarray) -> np.ndarray:
        """Values of these n samples at their places in the input; samples of weight 0 get 0."""
        if self.has_weight is None:
            return values
        placed = np.zeros(len(self.has_weight))
        placed[self.has_weight] = values
        return placed


def find_metric(function: str, metric: Any, options: dict[str, Any]) -> Metric:
    """A metric from its name, its function or its definition, with its options checked.

    A call by name must state required options; a definition has its own settings or the defaults.
    Raises InputError, in the name of the user's `function`, for unknown names and options.
    """
    is_name = not isinstance(metric, Metric)
    return by_name(metric, function).with_checked_options(function, options, requires_all=is_name)


def gather(
    function: str,
    metric: Any,
    loss: Array,
    confidence: Array,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    clusters: Array | None = None,
    strata: Array | None = None,
    options: dict[str, Any] | None = None,
    error_size: float | None = None,
    repetitions: bool = False,
) -> CheckedSamples:
    """Check everything once. Losses that are 0 or one number c become 0/1 losses in units of c.

    Samples of weight 0 are dropped, with their clusters and strata, so that they do not count as draws.
    `error_size`: c where it is known already, for a part of a data set that may hold no error.
    """
    requested = find_metric(function, metric, options or {})  # a `Metric` with its options
    loss = to_host(loss)
    confidence = loss if confidence is None else to_host(confidence)
    sample_weight = to_host(sample_weight)
    abstained = to_host(abstained)
    sample = prepare(
        function,
        loss,
        confidence,
        sample_weight,
        abstained,
        requested.counting_option,
        repetitions=repetitions,
    )
    if sample.loss.ndim != 1:
        raise ShapeError(
            f"{function}: takes one vector, got shape {tuple(np.shape(loss))}. Loop over the batch."
        )
    n = len(loss)
    is_answered = None if abstained is None else ~np.asarray(abstained, dtype=bool)
    weights_of_all = sample.all_weights
    checked_clusters = cluster_codes(function, clusters, n)
    if strata is not None and checked_clusters is not None and checked_clusters.ndim == 2:
        raise InputError(
            f"{function}: takes `strata` with one kind of clusters, got two. Leave one kind out."
        )
    checked_strata = stratum_codes(function, strata, n)
    if checked_clusters is not None and checked_strata is not None:
        _check_clusters_within_strata(function, checked_clusters, checked_strata)
    has_weight = None
    if weights_of_all is not None and not weights_of_all.all():
        has_weight = weights_of_all > 0
        weights_of_all = weights_of_all[has_weight]
        n = len(weights_of_all)
        if is_answered is not None:
            is_answered = is_answered[has_weight]
        if checked_clusters is not None:
            checked_clusters = cluster_codes(function, checked_clusters[has_weight], n)
        if checked_strata is not None:
            checked_strata = stratum_codes(function, checked_strata[has_weight], n)
    if is_answered is not None and is_answered.all():
        is_answered = None
    zero_one = is_zero_one(sample.loss)
    requested.check_losses(function, sample.loss, zero_one)
    losses = sample.loss
    size = error_size_of(losses, error_size)
    if size is None:
        size = power_of_two_near(losses)
        losses = losses if size is None else losses / size
    elif size != 1:
        losses = losses != 0
        zero_one = True
    if requested.drops_loss_offset and requested.option_values["estimator"] == "harmonic":
        losses = subtract_large_offset(losses)
    return CheckedSamples(
        metric=requested,
        answered_loss=losses,
        answered_confidence=sample.confidence,
        answered_weight=sample.weight,
        is_answered=is_answered,
        sample_count=n,
        total_mass=float(sample.total_mass),
        weights_of_all=weights_of_all,
        clusters=checked_clusters,
        strata=checked_strata,
        zero_one=zero_one,
        error_size=size or 1.0,
        has_weight=has_weight,
    )


def error_size_of(loss: np.ndarray, known_size: float | None = None) -> float | None:
    """The size of an error where losses are 0 or one number; None for other losses.

    `known_size` is that of the data set these losses are a part of (None: not known): it counts where all of them are
    0, or all are of this size.
    """
    if known_size is not None and bool(np.all(loss == known_size) or not loss.any()):
        return known_size
    return error_size(loss)


def power_of_two_near(loss: np.ndarray) -> float | None:
    """A unit for losses whose fourth powers would overflow or vanish; None where they are of an ordinary size."""
    largest = float(np.abs(loss).max()) if loss.dtype == np.float64 and len(loss) else 0.0
    if largest == 0 or SMALLEST_LOSS < largest < 1 / SMALLEST_LOSS:
        return None
    return float(2.0 ** math.floor(math.log2(largest)))


def stratum_codes(function: str, strata: ArrayLike | None, n: int) -> np.ndarray | None:
    """Labels of strata as whole numbers 0, 1, ...; missing ones (None, NaN) are one stratum."""
    if strata is None:
        return None
    shape = np.shape(to_host(strata))
    if shape != (n,):
        raise ShapeError(f"{function}: `strata` must have one label per sample, got shape {shape} for {n}.")
    return group_codes(function, strata).codes


def _check_clusters_within_strata(function: str, clusters: np.ndarray, strata: np.ndarray) -> None:
    """Raise InputError if a cluster has samples in two strata; both are numbered 0, 1, ..., one number per sample."""
    # of several strata, the last one is that of the cluster
    if np.any(stratum_of_clusters(clusters, strata)[clusters] != strata):
        raise InputError(
            f"{function}: every cluster must lie in one stratum, got clusters spread over several."
        )


# influence ----------------------------------------------------------------------------------------
#
# Influence of each sample, and the standard error it makes.


@refuse_other_row_order
def influence(
    metric: str | Metric | Callable[..., Any],
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained: ArrayLike | None = None,
    **options: Any,
) -> Influences:
    r"""What each sample does to a metric, to first order, in the order of the input.

    .. math:: T(\hat F) - T(F) \approx \frac1n \sum_i \mathrm{IF}_i, \qquad \sum_i w_i\,\mathrm{IF}_i = 0

    Parameters
    ----------
    metric : str or the function of that name
        aurc, augrc, risk, oracle_aurc, e_aurc, naurc, auroc or prediction_rejection_ratio.
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.
    sample_weight : array, optional
        The weight of each sample, relative to the others.
    repetitions : bool
        Is a weight a number of repetitions? Values then count each; a weighted row is still one draw.
    abstained : array of bool, optional
        Samples that are never accepted: their influence is 0, except on AUGRC, whose loss is per sample of the
        whole set.
    **options
        The metric's own: `estimator`, `ties`, `oracle`.

    Returns
    -------
    Influences
        Estimate and influences. Samples of equal confidence are accepted together, so their influences differ only by
        their losses.

    Examples
    --------
    >>> influence("risk", [0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6]).values.tolist()
    [-0.5, -0.5, 0.5, 0.5]
    """
    samples = gather(
        "influence",
        metric,
        loss,
        confidence,
        sample_weight,
        abstained,
        options=options,
        repetitions=repetitions,
    )
    influences = influences_of_samples("influence", samples)
    # computed with losses in units of `samples.error_size`; times `estimate_unit` they are in the user's units (1 for
    # metrics that do not change with the scale of the losses)
    return Influences(
        metric=samples.metric.key,
        estimate=samples.estimate_unit * influences.estimate,
        # samples of weight 0 were left out; they get 0
        values=samples.at_places_of_input(samples.estimate_unit * influences.influence),
    )


@refuse_other_row_order
def standard_error(
    metric: str | Metric | Callable[..., Any],
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    **options: Any,
) -> float:
    r"""Standard error of a metric from the influence of each sample; it takes little longer than the metric itself.

    .. math:: \mathrm{se} = \frac1W \sqrt{\textstyle\sum_c (\sum_{i \in c} w_i \mathrm{IF}_i)^2}

    W is the sum of the weights w, and c runs over the clusters. Without `clusters` every sample is a cluster of its
    own, whatever its weight. With C clusters the square is multiplied by C / (C - 1). With two kinds of clusters A and
    B the square is :math:`V_A + V_B - V_{AB}`, the last over their intersections, and at least the larger of
    :math:`V_A` and :math:`V_B`.

    Parameters
    ----------
    metric : str or the function of that name
        One that has an influence function: an area, the risk, AUROC or the rejection ratio.
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.
    sample_weight, repetitions : array, optional; bool
        The weight of each sample, and whether it is a number of repetitions.
    abstained : array of bool, optional
        Samples that are never accepted.
    clusters : array, optional
        One label per sample; samples of a cluster are not independent.
    **options
        The metric's own: `estimator`, `ties`, `oracle`.

    Returns
    -------
    float

    Examples
    --------
    >>> round(standard_error("risk", [0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6]), 3)  # sqrt(0.25 / 4)
    0.25
    """
    samples = gather(
        "standard_error",
        metric,
        loss,
        confidence,
        sample_weight,
        abstained,
        clusters,
        options=options,
        repetitions=repetitions,
    )
    # `measure` is in units of `samples.error_size`; `estimate_unit` is that size, or 1 for a metric without a unit
    return samples.estimate_unit * measure("standard_error", samples).spread.standard_error


class Measured(NamedTuple):
    """An estimate with its variance (`spread`), and the counts of samples, errors and draws behind it (`sample`)."""

    spread: EstimateSpread
    sample: SampleSummary

    def in_user_units(self) -> Measured:
        """The same in the user's units: losses, and the estimate of a metric that scales with them, times `error_size`.

        For such metrics only: the estimate is multiplied whatever the metric is, and the caller has checked that it
        scales. Counts of errors, right samples and draws have no unit.
        """
        size = self.sample.error_size
        return Measured(
            self.spread.scaled(size),  # the estimate by `size`, its variance by `size` squared
            self.sample._replace(
                is_zero_one=False,  # losses of 0 and 1 are 0 and `size` now
                risk=size * self.sample.risk,
                largest_loss=size * self.sample.largest_loss,
                error_size=1.0,
            ),
        )


def measure(function: str, samples: CheckedSamples) -> Measured:
    """The estimate of the metric with its variance, and the counts of samples, errors and draws behind it.

    Losses were divided by `samples.error_size`, and the result is in these units. Raises InputError, in the name of the
    user's `function`, for a metric without an influence function.
    """
    check_has_influence(function, samples.metric)
    # metrics that compare with the best order read the samples ranked by loss, too, unless losses are 0/1
    needs_second_ranking = samples.metric.needs.order_by_loss and not samples.zero_one
    no_sample_abstained = samples.is_answered is None
    if samples.has_independent_samples and no_sample_abstained and not needs_second_ranking:
        # sums over distinct confidences are enough, which is faster
        evidence = evidence_of_samples(samples)
        spread = spread_from_evidence(samples.metric, evidence)
        return Measured(spread, summarise_totals(evidence.totals))
    return Measured(spread_by_sample(function, samples), summarise_samples(samples))


def spread_by_sample(function: str, samples: CheckedSamples) -> EstimateSpread:
    """The estimate of `samples.metric` with its variance, from the influence of each single sample.

    Needed for clusters, strata, abstentions, and for metrics that compare with the best order of losses other than 0/1;
    otherwise sums over distinct confidences are enough, which is faster. Losses were divided by `samples.error_size` (c
    where all are 0 or c, else usually 1), and the result is in these units. `function` is the public function that
    error messages name.
    """
    # sorted here once, for the influences and for the leave-one-out estimate
    if samples.ranked_by_confidence is None:
        ranking = rank_confidences(samples.answered_confidence)
        ranked = RankedLoss(ranking, samples.answered_loss, samples.answered_weight)
        samples = samples._replace(ranked_by_confidence=ranked)
    influences = influences_of_samples(function, samples)
    less_biased_estimate = leave_one_out(samples)  # None: intervals are built around the estimate
    # the same samples by each way of grouping them into clusters: as they are, or with two kinds of clusters three
    # times, by the first kind, by the second, and by their intersections
    clusterings = samples.by_each_clustering()
    spreads = [
        _spread_of_influences(clustered, influences, less_biased_estimate) for clustered in clusterings
    ]
    if len(spreads) == 1:
        return spreads[0]
    return _combine_clusterings(spreads, cluster_counts=[clustered.unit_count for clustered in clusterings])


def _combine_clusterings(spreads: Sequence[EstimateSpread], cluster_counts: Sequence[int]) -> EstimateSpread:
    """An estimate with its variance for two kinds of clusters, from three: by each kind and by their intersections.

    `spreads` are these three, of the same estimate, in this order. `cluster_counts` holds the number of clusters of
    each, in the same order. Variances V combine to V_A + V_B - V_AB. `two_way_unit_variance` also says how well the
    result is known: its variance of the variance, and the smaller number of clusters.
    """
    variance = two_way_unit_variance(
        *(
            UnitVariance(spread.variance, spread.variance_of_variance, cluster_count)
            for spread, cluster_count in zip(spreads, cluster_counts)
        )
    )
    first, second, intersections = spreads
    # the part of the variance that errors of a 0/1 loss make up; NaN for other losses
    variance_from_errors = two_way_variance(
        first.variance_from_errors, second.variance_from_errors, intersections.variance_from_errors
    )
    # The estimate, the less biased one and the sum of contributions are the same in all three. `hidden_variance` stays
    # None: it is known only for a mean over groups.
    return first._replace(
        variance=float(variance.variance),
        variance_of_variance=float(variance.variance_of_variance),
        # effective errors are (sum)^2 / (sum of squares): the larger sum of squares leaves fewer
        squared_contribution_sum=max(first.squared_contribution_sum, second.squared_contribution_sum),
        variance_from_errors=float(variance_from_errors),
    )


def _spread_of_influences(
    samples: CheckedSamples, influences: SampleInfluences, less_biased_estimate: float | None
) -> EstimateSpread:
    """The estimate with its variance, from the influence of each sample; clusters, if any, are of one kind.

    `influences` holds the estimate, and the influence and the rank weight of each of all n samples in input order.
    Intervals are built around `less_biased_estimate`; None: around the estimate. A unit is a cluster, or a sample where
    there are no clusters; its contribution is what its losses, times rank weights, add to the estimate.

    The sums of contributions and of their squares say on how many errors the estimate rests, and the sum over errors
    which part of the variance errors make up: limits allow for few errors by these.
    """
    if samples.has_independent_samples:
        unit_count = samples.unit_count
        # of (weight * influence / total mass), read piece by piece
        influence_sums = power_sums(
            influences.read, samples.sample_count, weight=samples.weights_of_all, total=samples.total_mass
        )
        # sums over samples of (weight * rank weight * loss), and of its square
        weighted_loss_sum, squared_weighted_loss_sum = influences.weighted_loss_sums
        contribution_sum = weighted_loss_sum / samples.total_mass
        squared_contribution_sum = squared_weighted_loss_sum / samples.total_mass**2
    else:
        # by unit: the sum of weight * influence / total mass over its samples
        effects = effects_of_units(influences.influence, samples)
        unit_count = len(effects)
        influence_sums = power_sums(effects.__getitem__, unit_count)
        ranked_loss = influences.rank_weights * samples.extend_to_all(samples.answered_loss)
        # not centred: a contribution is a part of the estimate, not a deviation from it
        contributions = effects_of_units(ranked_loss, samples, centred=False)
        contribution_sum = float(np.sum(contributions))
        squared_contribution_sum = float(contributions @ contributions)
    error_square_sum = math.nan  # only 0/1 losses have errors
    if samples.zero_one:
        is_error = samples.extend_to_all(samples.answered_loss)  # 0/1; abstained samples are no errors
        error_influence = influences.influence * is_error  # 0 for samples that are no errors
        effects_of_errors = effects_of_units(error_influence, samples, centred=False)
        if samples.clusters is not None:
            # enlarged like the effects of all samples, of whose variance they are a part
            effects_of_errors = unbiased_effects(effects_of_errors)
        error_square_sum = float(effects_of_errors @ effects_of_errors)
    sums = InfluenceSums(
        square_sum=influence_sums.second,
        fourth_power_sum=influence_sums.fourth,
        contribution_sum=contribution_sum,
        squared_contribution_sum=squared_contribution_sum,
        error_square_sum=error_square_sum,
    )
    return make_spread(influences.estimate, sums, unit_count, less_biased_estimate)


class PowerSums(NamedTuple):
    """Sums of second and of fourth powers."""

    second: float
    fourth: float


def power_sums(
    read: Callable[[slice], np.ndarray], n: int, weight: np.ndarray | None = None, total: float = 1.0
) -> PowerSums:
    """Sums of second and fourth powers of w x / W over n values x, read in pieces that fit the cache.

    `read(slice)` returns a piece of the values, 8,192 (PIECE) or fewer. w is `weight`, one entry per value (None: 1 for
    all), and W is `total`.
    """
    second_powers = []
    fourth_powers = []
    for start in range(0, n, PIECE):
        piece = slice(start, start + PIECE)
        values = read(piece) if weight is None else read(piece) * weight[piece]
        square = np.square(values / total)
        second_powers.append(float(np.sum(square)))
        fourth_powers.append(float(square @ square))
    return PowerSums(math.fsum(second_powers), math.fsum(fourth_powers))


def evidence_of_samples(samples: CheckedSamples) -> Evidence:
    """The sums that an interval of `samples.metric` is computed from; samples count as independent.

    Clusters and strata are not read. Losses are in units of `samples.error_size`. The samples are sorted here unless
    `samples.ranked_by_confidence` holds them sorted, and summed in parts that fit the cache where the metric allows it.
    """
    loss = samples.answered_loss
    weight = samples.answered_weight
    request = request_for([samples.metric])  # the area that the metric is made of, or the point of the curve
    # The area of the best order of the samples, by loss. For 0/1 losses with whole weights (repetitions, or all 1) it
    # follows from the risk; with relative weights it is computed here. For other losses it stays None: `measure` takes
    # metrics that read it sample by sample (`spread_by_sample`), not by this function.
    best_area = None
    if samples.zero_one and not samples.has_whole_weights and samples.metric.reads_best_curve_area:
        best_area = float(oracle_area(np, loss.astype(np.float64), weight, request.estimator))
    # A metric with an influence function of its own needs one table of everything; otherwise parts of PIECE samples
    # add up, which fit the cache.
    samples_at_once = PIECE if request.is_additive else len(loss)
    if samples.ranked_by_confidence is None:
        reader = read_by_confidence(loss, samples.answered_confidence, weight)  # sorts
        parts = iterate_tables(reader, samples.zero_one, size=samples_at_once)
    else:
        ranking = samples.ranked_by_confidence.ranking
        parts = tables_along_ranking(ranking, loss, weight, samples.zero_one, size=samples_at_once)
    return gather_evidence(parts, totals_of_samples(samples), request, best_area)


def totals_of_samples(samples: CheckedSamples) -> Totals:
    """Sums of weights and losses over the answered samples, and in `abstained` of weights over those that abstained.

    Losses are in units of `samples.error_size`: c where the user's losses are all 0 or c, else usually 1.
    """
    totals = totals_from_samples(samples.answered_loss, samples.answered_weight, samples.zero_one)
    totals = totals._replace(error_size=samples.error_size)
    if samples.is_answered is None:
        return totals
    weights = samples.weights_of_all
    if weights is None:
        weights = np.ones(samples.sample_count)
    abstained_weights = weights[~samples.is_answered]
    abstained = AbstainedSums(
        sample_count=len(abstained_weights),
        mass=float(np.sum(abstained_weights)),
        squared_weight_sum=float(np.sum(abstained_weights**2)),
        fourth_power_weight_sum=float(np.sum(abstained_weights**4)),
    )
    return totals._replace(abstained=abstained)


def summarise_samples(samples: CheckedSamples, known_totals: Totals | None = None) -> SampleSummary:
    """Counts of samples, errors, right samples and independent draws, and the risk: what limits need of a sample.

    Losses are in units of `samples.error_size`. With clusters, draws are clusters. With two kinds of clusters, every
    number is that of the kind which leaves more uncertain. `known_totals` are those of the same samples, where they
    were computed before; None: they are computed here.

    The pairs of `pair_count` are disjoint pairs of a right sample and an error. Counts of errors and of right samples
    allow for clusters of unequal mass by themselves, as effective counts. `effective_draws` is the plain number of
    clusters: a bound on what no cluster of the sample shows is multiplied by `largest_cluster_ratio` instead.
    """
    totals = known_totals or totals_of_samples(samples)
    if samples.has_two_way_clusters:
        first, second, _intersections = samples.by_each_clustering()
        return _fewer_draws(summarise_samples(first, totals), summarise_samples(second, totals))
    summary = summarise_totals(totals)._replace(unit_count=samples.unit_count)
    if samples.clusters is None:
        return summary
    cluster_masses = np.bincount(samples.clusters, samples.weights_of_all)  # without weights (None): samples
    clusters_per_sample = samples.unit_count / samples.sample_count
    summary = summary._replace(
        effective_draws=samples.unit_count,
        # as if pairs were spread over clusters like samples; there is at least one
        pair_count=max(1.0, clusters_per_sample * summary.pair_count),
        largest_cluster_ratio=float(cluster_masses.max() / cluster_masses.mean()),
    )
    if not samples.zero_one:
        return summary
    is_error = samples.answered_loss.astype(np.float64)
    # mass of the errors, and of the right samples, in each cluster, over the total mass; abstained samples are neither
    error_masses = effects_of_units(samples.extend_to_all(is_error), samples, centred=False)
    right_masses = effects_of_units(samples.extend_to_all(1 - is_error), samples, centred=False)
    return summary._replace(
        error_draws=effective_count(error_masses), right_draws=effective_count(right_masses)
    )


def _fewer_draws(first: SampleSummary, second: SampleSummary) -> SampleSummary:
    """Counts of samples and draws for two kinds of clusters, `first` and `second`: the smaller numbers of draws.

    Of the largest cluster ratios the larger one counts. All other fields do not depend on clusters.
    """
    return first._replace(
        unit_count=min(first.unit_count, second.unit_count),
        effective_draws=min(first.effective_draws, second.effective_draws),
        pair_count=min(first.pair_count, second.pair_count),
        largest_cluster_ratio=max(first.largest_cluster_ratio, second.largest_cluster_ratio),
        error_draws=min(first.error_draws, second.error_draws),
        right_draws=min(first.right_draws, second.right_draws),
    )


def effective_count(masses: np.ndarray) -> float:
    """As many equal masses would vary as much: (sum m)^2 / sum m^2; 0 where all are 0."""
    squares = float(masses @ masses)
    return float(np.sum(masses)) ** 2 / squares if squares > 0 else 0.0


def leave_one_out(samples: CheckedSamples) -> float | None:
    """The leave-one-out estimate that an interval of `samples.metric` is built around, since it is less biased.

    None where there is none: for most metrics, and with weights other than 1. The result is in units of
    `samples.error_size`.
    """
    metric = samples.metric
    weight = samples.answered_weight
    has_unit_weights = weight is None or bool((weight == 1).all())
    # the definition says whether its intervals use it, the area whether its estimator has a leave-one-out version
    if not metric.is_centred_on_leave_one_out or not has_unit_weights or not metric.area.has_leave_one_out:
        return None
    if samples.ranked_by_confidence is not None:  # sorted before
        return samples.ranked_by_confidence.leave_one_out_area(metric.area)
    # sorted here: the area by the estimator "loo", whatever estimator the metric has
    area = area_of_samples(
        samples.answered_loss,
        samples.answered_confidence,
        weight=None,
        estimator="loo",
        ties=metric.option_values["ties"],
    )
    return float(area)


def check_has_influence(function: str, metric: Metric) -> None:
    """Raise InputError, in the name of the user's `function`, for a metric without an influence function.

    These are points of the curve, and metrics whose definition has no `influence`.
    """
    if isinstance(metric, PointMetric):
        raise InputError(
            f"{function}: {metric.name} has no influence function of its own. Use `interval`, which takes the local "
            f"risk at the cut from its neighbours."
        )
    if not metric.is_smooth:
        raise InputError(
            f"{function}: {metric.name} has no influence function. Give its definition `influence=`, or use "
            f'`interval`, with method "jackknife" or "bootstrap".'
        )


def check_has_test(function: str, metric: Metric) -> None:
    """Raise InputError, in the name of the user's `function`, for a metric whose differences cannot be tested.

    Tests need an influence function. The message says what can be compared instead.
    """
    if isinstance(metric, PointMetric):
        # `aurc@LOW-1` is the area between two coverages: LOW is that of the point, or 0.8 as an example where the point
        # has none below 1
        lowest_coverage = metric.cut if metric.cut_at == "coverage" and metric.cut < 1 else 0.8
        raise InputError(
            f"{function}: {metric.key} is one point of the curve, and there is no paired test of it. Compare by an "
            f"area over the coverages that matter, such as aurc@{lowest_coverage:g}-1, or by aurc, augrc, auroc or "
            f"risk; `evaluate` gives {metric.key} of each model with its interval."
        )
    if not metric.is_smooth:
        raise InputError(
            f"{function}: {metric.key} has no influence function, which a test needs. Give its definition "
            f"`influence=`; without it `evaluate` gives {metric.key} of each model with its interval."
        )


def influences_of_samples(function: str, samples: CheckedSamples) -> SampleInfluences:
    """The estimate of `samples.metric`, and the influence and rank weight of each of all n samples in input order.

    The rank weight is what the estimate multiplies the loss of a sample by (a single 1 where ranks play no part).
    Losses are in units of `samples.error_size`. A sample that abstained has influence 0, except on AUGRC, which is a
    loss per sample of the whole set. Raises InputError, in the name of the user's `function`, for a metric without an
    influence function.
    """
    check_has_influence(function, samples.metric)
    # the estimate, influences and rank weights of the answered samples, as if there were no others
    answered = sample_influences(
        samples.metric,
        samples.answered_loss,
        samples.answered_confidence,
        samples.answered_weight,
        ranked=samples.ranked_by_confidence,
        by_loss=samples.ranked_by_loss,
        loss_unit=samples.error_size,  # a user's own metric gets its losses in the user's units
    )
    if samples.is_answered is None:  # no sample abstained
        return answered
    answered_share = samples.answered_mass / samples.total_mass
    estimate = answered.estimate
    influence = answered.influence
    if samples.metric.is_per_sample_of_all:  # AUGRC
        # The value is answered_share times that of the answered samples, and both factors vary: an answered sample has
        # the influence 1 - answered_share on the first factor, an abstained one -answered_share.
        influence = samples.extend_to_all(
            (1 - answered_share) * estimate + influence, for_abstained=-answered_share * estimate
        )
        estimate = answered_share * estimate
    else:  # influences on a mean over fewer samples than n
        influence = samples.extend_to_all(influence / answered_share)
    # its sums of weighted losses stay as they are: abstained samples have no loss
    return replace(
        answered,
        estimate=estimate,
        read=influence.__getitem__,  # takes a slice of the samples
        sample_count=samples.sample_count,
        make_rank_weights=lambda: samples.extend_to_all(answered.rank_weights),
    )


def effects_of_units(values: np.ndarray, samples: CheckedSamples, centred: bool = True) -> np.ndarray:
    """What each independent unit, a cluster or a sample without clusters, adds to a mean of the values.

    `values` holds one number for each of all n samples, such as its influence. A unit adds its sum of w times the
    values over W, with w the weight of a sample and W the total weight. Units are ordered by cluster number; clusters,
    if any, must be of one kind.

    With `centred`, values have mean 0 and the results are enlarged so that the sum of their squares is an unbiased
    variance: by clusters, or within each stratum. Samples without clusters and strata are not enlarged, nor is anything
    without `centred`. Raises InputError if there is only one cluster.
    """
    weights = samples.weights_of_all
    effects = (values if weights is None else values * weights) / samples.total_mass
    stratum_of_unit = samples.strata
    if samples.clusters is not None:
        if samples.unit_count < 2:
            raise InputError("standard_error: `clusters` must name at least two clusters, got one.")
        effects = np.bincount(samples.clusters, effects)
        if samples.strata is not None:
            stratum_of_unit = stratum_of_clusters(samples.clusters, samples.strata)
    if not centred:
        return np.asarray(effects)
    if stratum_of_unit is not None:
        return effects_within_strata(effects, stratum_of_unit)
    return np.asarray(effects) if samples.clusters is None else unbiased_effects(effects)


def stratum_of_clusters(clusters: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """The stratum of each cluster; both are numbered 0, 1, ..., one number per sample, and a cluster lies in one."""
    stratum_of_cluster = np.zeros(int(clusters.max(initial=-1)) + 1, dtype=np.int64)
    stratum_of_cluster[clusters] = strata
    return stratum_of_cluster


def effects_within_strata(effects: np.ndarray, stratum_of_unit: np.ndarray) -> np.ndarray:
    """What each unit adds to an estimate, beyond the mean of its stratum, as the size of each stratum was fixed.

    Deviations in a stratum of m units are enlarged by sqrt(m / (m - 1)), so that the sum of squares is an unbiased
    variance. A stratum of one unit says nothing about its spread: its effect is left as it is, which is on the safe
    side, since effects over all strata have mean 0. `stratum_of_unit` numbers strata 0, 1, ..., and each has a unit.
    """
    unit_counts = np.bincount(stratum_of_unit)
    mean_of_stratum = np.bincount(stratum_of_unit, effects) / unit_counts
    mean_of_stratum[unit_counts == 1] = 0.0
    enlargement = np.sqrt(unit_counts / np.maximum(unit_counts - 1, 1))
    return np.asarray((effects - mean_of_stratum[stratum_of_unit]) * enlargement[stratum_of_unit])
