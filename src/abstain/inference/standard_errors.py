"""The sampled units behind a metric, the influence of each, and the standard error it makes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, ArrayLike, to_host
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
from abstain.inference.clusters import cluster_codes, split_kinds, two_way_moments, two_way_variance
from abstain.inference.evidence import (
    Evidence,
    gather_evidence,
    request_for,
    spread_from_evidence,
    summarise_totals,
)
from abstain.inference.limits import make_spread
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
        n, the number of samples in the input.
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

    def times_weight(self, values: np.ndarray) -> np.ndarray:
        """Values of the answered samples times their weights."""
        return values if self.answered_weight is None else self.answered_weight * values

    @property
    def positive_weight_count(self) -> int:
        """Samples, without those of no weight."""
        return (
            self.sample_count if self.weights_of_all is None else int(np.count_nonzero(self.weights_of_all))
        )

    @property
    def unit_count(self) -> int:
        """How many independent units were drawn: clusters if there are any, samples otherwise.

        Of two kinds of clusters, the kind that has fewer counts.
        """
        if self.clusters is None:
            return self.positive_weight_count
        return int(np.min(self.clusters.max(axis=0))) + 1

    @property
    def has_two_way_clusters(self) -> bool:
        """Are there two crossed kinds of clusters?"""
        return self.clusters is not None and self.clusters.ndim == 2

    def by_each_clustering(self) -> list[CheckedSamples]:
        """The same samples with clusters of one kind: by the first kind, by the second, by their intersections.

        Only for samples with two kinds of clusters.
        """
        assert self.clusters is not None
        return [self._replace(clusters=codes) for codes in split_kinds(self.clusters)]


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

    `error_size`: c where it is known already, for a part of a data set that may hold no error.
    """
    requested = find_metric(function, metric, options or {})
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
        requested.needs_repetitions,
        repetitions=repetitions,
    )
    if sample.loss.ndim != 1:
        raise ShapeError(
            f"{function}: takes one vector, got shape {tuple(np.shape(loss))}. Loop over the batch."
        )
    n = len(loss)
    is_answered = None
    if len(sample.loss) != n:
        is_answered = np.ones(n, dtype=bool) if abstained is None else ~np.asarray(abstained, dtype=bool)
        is_answered &= True if sample_weight is None else np.asarray(sample_weight) > 0
    checked_clusters = cluster_codes(function, clusters, n)
    if strata is not None and checked_clusters is not None and checked_clusters.ndim == 2:
        raise InputError(
            f"{function}: takes `strata` with one kind of clusters, got two. Leave one kind out."
        )
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
        weights_of_all=sample.all_weights,
        clusters=checked_clusters,
        strata=_stratum_codes(function, strata, n),
        zero_one=zero_one,
        error_size=size or 1.0,
    )


def error_size_of(loss: np.ndarray, known: float | None = None) -> float | None:
    """The size of an error where losses are 0 or one number; `known`: that of the data set they are a part of."""
    if known is not None and bool(np.all(loss == known) or not loss.any()):
        return known
    return error_size(loss)


def power_of_two_near(loss: np.ndarray) -> float | None:
    """A unit for losses whose fourth powers would overflow or vanish; None where they are of an ordinary size."""
    largest = float(np.abs(loss).max()) if loss.dtype == np.float64 and len(loss) else 0.0
    if largest == 0 or SMALLEST_LOSS < largest < 1 / SMALLEST_LOSS:
        return None
    return float(2.0 ** math.floor(math.log2(largest)))


def _stratum_codes(function: str, strata: ArrayLike | None, n: int) -> np.ndarray | None:
    """Labels of strata as whole numbers 0, 1, ...; missing ones (None, NaN) are one stratum."""
    if strata is None:
        return None
    shape = np.shape(to_host(strata))
    if shape != (n,):
        raise ShapeError(f"{function}: `strata` must have one label per sample, got shape {shape} for {n}.")
    return group_codes(function, strata)[1]


# influence ----------------------------------------------------------------------------------------
#
# Influence of each sample, and the standard error it makes.


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
    r"""What each sample does to a metric, to first order, in the order given.

    .. math:: T(\hat F) - T(F) \approx \frac1n \sum_i \mathrm{IF}_i, \qquad \sum_i w_i\,\mathrm{IF}_i = 0

    Parameters
    ----------
    metric : str or the function of that name
        aurc, augrc, risk, oracle_aurc, e_aurc, naurc, auroc or prediction_rejection_ratio.
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.
    sample_weight : array, optional
        The mass of each sample, relative to the others.
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
        Samples of equal confidence stand and fall together: each is told what its block does.

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
    factor = samples.error_size if samples.metric.scales_with_loss else 1.0
    return Influences(samples.metric.name, factor * influences.estimate, factor * influences.influence)


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
    r"""Standard error of a metric, for the price of its sort.

    .. math:: \mathrm{se} = \frac1W \sqrt{\textstyle\sum_c (\sum_{i \in c} w_i \mathrm{IF}_i)^2}

    Without `clusters` every sample (a weighted row counts as one) is its own. With C clusters the square is
    multiplied by C / (C - 1). With two kinds of clusters A and B the square is :math:`V_A + V_B - V_{AB}`, the last
    over their intersections, and at least the larger of :math:`V_A` and :math:`V_B`.

    Parameters
    ----------
    metric : str or the function of that name
        One that has an influence function: an area, the risk, AUROC or the rejection ratio.
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.
    sample_weight, repetitions : array, optional; bool
        The mass of each sample, and whether it is a number of repetitions.
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
    factor = samples.error_size if samples.metric.scales_with_loss else 1.0
    return factor * measure("standard_error", samples)[0].standard_error


def measure(function: str, samples: CheckedSamples) -> tuple[EstimateSpread, SampleSummary]:
    """Estimate with its spread, and what limits must know of the sample, both in units of `samples.error_size`.

    Raises InputError, in the name of the user's `function`, for a metric without an influence function.
    """
    check_has_influence(function, samples.metric)
    needs_second_ranking = samples.metric.needs.order_by_loss and not samples.zero_one
    if samples.has_independent_samples and samples.is_answered is None and not needs_second_ranking:
        evidence = evidence_of_samples(samples)
        return spread_from_evidence(samples.metric, evidence), summarise_totals(evidence.totals)
    return spread_by_sample(function, samples), summarise_samples(samples)


def spread_by_sample(function: str, samples: CheckedSamples) -> EstimateSpread:
    """Estimate and spread from the influence of each sample, in units of `samples.error_size`.

    Needed for clusters, strata, abstentions, and oracles of losses other than 0/1; otherwise sums over rows are enough.

    `function` is the public function that messages name. `samples` holds the checked samples of one call: loss (in
    units of `error_size`), confidence and weight of the answered ones; weights, clusters and strata of all.
    """
    if samples.ranked_by_confidence is None:
        ranking = rank_confidences(samples.answered_confidence)
        samples = samples._replace(
            ranked_by_confidence=RankedLoss(ranking, samples.answered_loss, samples.answered_weight)
        )
    influences = influences_of_samples(function, samples)
    centre = leave_one_out(samples)
    if samples.has_two_way_clusters:
        return _combine_kinds(
            [_spread_of_influences(kind, influences, centre) for kind in samples.by_each_clustering()],
            [kind.unit_count for kind in samples.by_each_clustering()],
        )
    return _spread_of_influences(samples, influences, centre)


def _combine_kinds(spreads: Sequence[EstimateSpread], unit_counts: Sequence[int]) -> EstimateSpread:
    """The spread with two kinds of clusters, from those by the first kind, by the second and by their intersections.

    `unit_counts` holds the number of clusters of each, in the same order. The kind with fewer degrees of freedom
    decides how well the variance is known, and the kind with fewer effective errors how many errors there are.
    """
    variance, variance_excess, _ = two_way_moments(
        [spread.variance for spread in spreads], [spread.variance_excess for spread in spreads], unit_counts
    )
    first, second, _intersections = spreads
    return first._replace(
        variance=float(variance),
        variance_excess=float(variance_excess),
        ranked_loss_square_sum=max(first.ranked_loss_square_sum, second.ranked_loss_square_sum),
        error_variance=float(two_way_variance(*(spread.error_variance for spread in spreads))),
    )


def _spread_of_influences(
    samples: CheckedSamples, influences: SampleInfluences, centre: float | None
) -> EstimateSpread:
    """The spread of an estimate from the influence of each sample; clusters, if any, are of one kind.

    `centre` is the less biased estimate that intervals are built around, or None. `samples` holds the checked samples
    of one call: loss (in units of `error_size`), confidence and weight of the answered ones; weights, clusters and
    strata of all.
    """
    if samples.has_independent_samples:
        unit_count = samples.unit_count
        squares, fourth_powers = power_sums(
            influences.read, samples.sample_count, samples.weights_of_all, samples.total_mass
        )
        weighted_loss = influences.weighted_loss_sums[0] / samples.total_mass
        weighted_loss_squares = influences.weighted_loss_sums[1] / samples.total_mass**2
    else:
        effects = effects_of_units(influences.influence, samples)
        unit_count = len(effects)
        squares, fourth_powers = power_sums(effects.__getitem__, unit_count)
        loss_effects = effects_of_units(
            influences.rank_weights * fill_in(samples, samples.answered_loss), samples, centred=False
        )
        weighted_loss = float(np.sum(loss_effects))
        weighted_loss_squares = float(loss_effects @ loss_effects)
    error_squares = math.nan
    if samples.zero_one:
        of_errors = effects_of_units(
            influences.influence * fill_in(samples, samples.answered_loss), samples, centred=False
        )
        error_squares = float(of_errors @ of_errors)
    inflation = 1.0 if samples.clusters is None else unit_count / (unit_count - 1)
    sums = InfluenceSums(
        square_sum=inflation * squares,
        fourth_power_sum=inflation**2 * fourth_powers,
        ranked_loss_sum=weighted_loss,
        ranked_loss_square_sum=weighted_loss_squares,
        error_square_sum=inflation * error_squares,
    )
    return make_spread(influences.estimate, sums, unit_count, centre)


def power_sums(
    read: Callable[[slice], np.ndarray], n: int, weight: np.ndarray | None = None, total: float = 1.0
) -> tuple[float, float]:
    """Sums of second and fourth powers of w x / W, with W = `total`, a cacheful of x at a time.

    `read(slice)` returns some of the n values x.
    """
    second_powers = []
    fourth_powers = []
    for start in range(0, n, PIECE):
        piece = slice(start, start + PIECE)
        values = read(piece) if weight is None else read(piece) * weight[piece]
        square = np.square(values / total)
        second_powers.append(float(np.sum(square)))
        fourth_powers.append(float(square @ square))
    return math.fsum(second_powers), math.fsum(fourth_powers)


def evidence_of_samples(samples: CheckedSamples) -> Evidence:
    """The evidence of independent samples in memory, for their metric; losses are in units of `samples.error_size`."""
    request = request_for([samples.metric])
    best_area = None
    if samples.zero_one and not samples.has_whole_weights and samples.metric.reads_best_curve_area:
        loss = samples.answered_loss.astype(np.float64)
        best_area = float(oracle_area(np, loss, samples.answered_weight, request.estimator))
    rows_at_once = PIECE if request.is_additive else len(samples.answered_loss)
    if samples.ranked_by_confidence is None:
        reader = read_by_confidence(
            samples.answered_loss, samples.answered_confidence, samples.answered_weight
        )
        parts = iterate_tables(reader, samples.zero_one, rows_at_once)
    else:
        ranking = samples.ranked_by_confidence.ranking
        parts = tables_along_ranking(
            ranking, samples.answered_loss, samples.answered_weight, samples.zero_one, rows_at_once
        )
    return gather_evidence(parts, totals_of_samples(samples), request, best_area)


def totals_of_samples(samples: CheckedSamples) -> Totals:
    """Sums over the checked samples of a call: those that were answered, and in `abstained` those that abstained.

    Losses are in units of `samples.error_size`; abstained samples without weight are not counted.
    """
    totals = totals_from_samples(samples.answered_loss, samples.answered_weight, samples.zero_one)
    totals = totals._replace(error_size=samples.error_size)
    if samples.is_answered is None:
        return totals
    weight = np.ones(samples.sample_count) if samples.weights_of_all is None else samples.weights_of_all
    abstained_weight = weight[~samples.is_answered]
    abstained_weight = abstained_weight[abstained_weight > 0]
    mass, squared_weight_sum, fourth_power_weight_sum = (
        float(np.sum(abstained_weight**power)) for power in (1, 2, 4)
    )
    abstained = AbstainedSums(
        sample_count=len(abstained_weight),
        mass=mass,
        squared_weight_sum=squared_weight_sum,
        fourth_power_weight_sum=fourth_power_weight_sum,
    )
    return totals._replace(abstained=abstained)


def summarise_samples(samples: CheckedSamples, known_totals: Totals | None = None) -> SampleSummary:
    """What limits must know of the sample; clusters are the draws, and the largest one may hide the most.

    `samples` holds the checked samples, with losses in units of `samples.error_size`. With two kinds of clusters, every
    number is that of the kind which says less. `known_totals` are those of the units, where they were computed before.
    """
    totals = known_totals or totals_of_samples(samples)
    if samples.has_two_way_clusters:
        first, second, _intersections = samples.by_each_clustering()
        return _fewer_draws(summarise_samples(first, totals), summarise_samples(second, totals))
    summary = summarise_totals(totals)._replace(unit_count=samples.unit_count)
    if samples.clusters is None:
        return summary
    sizes = np.bincount(samples.clusters, samples.weights_of_all)
    clusters_per_sample = samples.unit_count / samples.sample_count
    summary = summary._replace(
        effective_draws=samples.unit_count,
        pair_count=max(1.0, clusters_per_sample * summary.pair_count),
        largest_cluster_ratio=float(sizes.max() / sizes.mean()),
    )
    if not samples.zero_one:
        return summary
    loss = samples.answered_loss.astype(np.float64)
    return summary._replace(
        error_draws=effective_count(effects_of_units(fill_in(samples, loss), samples, centred=False)),
        right_draws=effective_count(effects_of_units(fill_in(samples, 1 - loss), samples, centred=False)),
    )


def _fewer_draws(first: SampleSummary, second: SampleSummary) -> SampleSummary:
    """The summary of samples with two kinds of clusters: of each number of draws the smaller one."""
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
    """The leave-one-out estimate that the interval is built around; None where there is none, as with weights.

    `samples` holds the checked samples of one call: loss (in units of `error_size`), confidence and weight of the
    answered ones; weights, clusters and strata of all.
    """
    metric = samples.metric
    has_unit_weights = samples.answered_weight is None or bool((samples.answered_weight == 1).all())
    if not metric.is_centred_on_leave_one_out or not has_unit_weights or not metric.area.has_leave_one_out:
        return None
    if samples.ranked_by_confidence is not None:
        return samples.ranked_by_confidence.leave_one_out_area(metric.area)
    ties = metric.option_values["ties"]
    return float(area_of_samples(samples.answered_loss, samples.answered_confidence, None, "loo", ties))


def check_has_influence(function: str, metric: Metric) -> None:
    """Raise InputError for a metric without an influence function."""
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


def influences_of_samples(function: str, samples: CheckedSamples) -> SampleInfluences:
    """Estimate, influences and rank weights of all samples in input order, those that abstained included.

    Losses are in units of `samples.error_size`. A sample that abstained has no influence, except on a metric per sample
    of the whole set (AUGRC). Raises InputError, in the name of the user's `function`, for a metric without an influence
    function.
    """
    check_has_influence(function, samples.metric)
    answered = sample_influences(
        samples.metric,
        samples.answered_loss,
        samples.answered_confidence,
        samples.answered_weight,
        ranked=samples.ranked_by_confidence,
        by_loss=samples.ranked_by_loss,
        loss_unit=samples.error_size,
    )
    if samples.is_answered is None:
        return answered
    share = samples.answered_mass / samples.total_mass
    estimate = answered.estimate
    influence = answered.influence
    if samples.metric.is_per_sample_of_all:  # share * (value of the answered): both factors move
        influence = fill_in(samples, (1 - share) * estimate + influence, -share * estimate)
        estimate = share * estimate
    else:
        influence = fill_in(samples, influence / share)
    return replace(
        answered,
        estimate=estimate,
        read=influence.__getitem__,
        sample_count=samples.sample_count,
        make_rank_weights=lambda: fill_in(samples, answered.rank_weights),
    )


def fill_in(samples: CheckedSamples, values: np.ndarray, for_abstained: float = 0.0) -> np.ndarray:
    """Values of the answered samples at their places among all n; the others get `for_abstained`."""
    if samples.is_answered is None:
        return values
    filled = np.full(samples.sample_count, for_abstained)
    filled[samples.is_answered] = values
    return filled


def effects_of_units(values: np.ndarray, samples: CheckedSamples, centred: bool = True) -> np.ndarray:
    """The sum of w times the values over W within each independent unit (sample or cluster).

    `values` are those of all n samples; clusters, if any, are of one kind. With `centred`, the mean over a unit's
    stratum is subtracted. `samples` holds the checked samples of one call: loss (in units of `error_size`), confidence
    and weight of the answered ones; weights, clusters and strata of all.
    """
    effects = (
        values if samples.weights_of_all is None else values * samples.weights_of_all
    ) / samples.total_mass
    strata = samples.strata
    if samples.clusters is not None:
        if samples.unit_count < 2:
            raise InputError("standard_error: `clusters` must name at least two clusters, got one.")
        effects = np.bincount(samples.clusters, effects)
        if strata is not None:
            strata = np.zeros(samples.unit_count, dtype=np.int64)
            strata[samples.clusters] = samples.strata
    if strata is not None and centred:
        effects = effects - (np.bincount(strata, effects) / np.bincount(strata))[strata]
    return np.asarray(effects)
