"""Methods that compute a metric many times: the jackknife, the bootstrap, and a bootstrap band around a curve."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array, ArrayLike
from abstain._check import check_count, check_fraction, refuse_other_row_order
from abstain._progress import progress_bars
from abstain.core.area_estimators import area_of_samples, oracle_rows
from abstain.core.bootstrap import Replicates, Resampler, leave_one_out_areas
from abstain.core.influence import AreaUnderCurve, RankedLoss
from abstain.core.rounding import SUM_ROUNDING
from abstain.core.rows import Rows, rank_confidences
from abstain.core.sorting import argsort_descending
from abstain.errors import InputError
from abstain.inference.clusters import check_one_kind
from abstain.inference.limits import in_loss_units, variance_of_effects
from abstain.inference.point_limits import pointwise_level, proportion_limits
from abstain.inference.records import CurveBand, Interval
from abstain.inference.standard_errors import (
    CheckedSamples,
    effects_of_units,
    gather,
    influences_of_samples,
    measure,
)
from abstain.metrics._sample import CurveTable, group_codes
from abstain.metrics.few_draws import FEW
from abstain.metrics.summaries import EstimateSpread

SMALLEST_BAND_COVERAGE = 0.05  # where a band starts by default: below, it would be too wide to say anything
FEWEST_BAND_SAMPLES = 20  # the same as a number of accepted samples
BAND_POINTS = 100  # coverages of a band by default
MOST_DELETIONS = 2e8  # (values without a unit) * (rows of the table): about a minute of work


class Deletions(NamedTuple):
    """The value of a metric on all samples, and its values without each unit (sample or cluster) in turn."""

    estimate: float
    without_each: np.ndarray


def delete_each_sample(samples: CheckedSamples) -> Deletions | None:
    """Compute the metric, and its value without each sample in input order, exactly and in O(n).

    None where there is no formula: for metrics other than the risk, AURC and AUGRC, with weights, if a sample
    abstained, or with fewer than 3 samples. Clusters and strata are not read. Values are in units of
    `samples.error_size`.
    """
    # which formula for left-out samples fits: "mean" for the risk, "area" for an area under the curve; None: no formula
    deletion = samples.metric.deletion
    n = samples.sample_count
    # no weights, and no sample abstained
    is_plain = samples.answered_weight is None and samples.is_answered is None
    if deletion is None or not is_plain or n < 3:
        return None
    loss = samples.answered_loss
    if deletion == "mean":
        total = float(np.sum(loss, dtype=np.float64))
        return Deletions(estimate=total / n, without_each=(total - loss.astype(np.float64)) / (n - 1))
    area = samples.metric.area
    assert isinstance(area, AreaUnderCurve)
    # the area of all samples, and below that of all but one, for each in turn
    estimate = area_of_samples(
        loss, samples.answered_confidence, weight=None, estimator=area.estimator, ties=area.ties
    )
    without_each = leave_one_out_areas(loss, samples.answered_confidence, area.estimator, area.ties)
    return Deletions(float(estimate), without_each)


def delete_each_unit(samples: CheckedSamples) -> Deletions:
    """Compute the metric, and its value without each independent unit (sample or cluster), one by one.

    The values are ordered by unit number. Units whose samples all abstained come last: the value without them is the
    estimate. Strata are not read. Values are in units of `samples.error_size`. Raises InputError for two kinds of
    clusters, and where all this would take very long.
    """
    check_one_kind("interval", samples.clusters, "the jackknife of a metric without an influence function")
    loss = samples.answered_loss
    ranked = samples.ranked_by_confidence
    if ranked is None:
        ranking = rank_confidences(samples.answered_confidence)
        ranked = RankedLoss(ranking, loss, samples.answered_weight)
    # one row per distinct confidence, most confident first
    row_mass = ranked.rows.mass
    row_loss = ranked.rows.loss
    row_count = len(row_mass)
    # the row of each sample in ranked order; without ties (None) each sample is a row
    row_of_ranked = np.arange(len(loss)) if ranked.row_of_sample is None else ranked.row_of_sample
    row_of_sample = ranked.in_input_order(row_of_ranked)  # the same by answered sample, in input order
    weight = samples.answered_weights_or_ones
    weighted_loss = weight * loss
    answered_by_unit = _answered_samples_by_unit(samples)
    if len(answered_by_unit) * row_count > MOST_DELETIONS:  # 2e8: about a minute of work
        raise InputError(
            f"interval: the jackknife of {samples.metric.name} would take {len(answered_by_unit):,} computations of "
            f'{row_count:,} rows. Give its definition `influence=`, or use method="bootstrap".'
        )
    all_samples = np.ones(len(loss), dtype=bool)
    estimate = _value_of_rows(samples, row_mass, row_loss, all_samples)
    without_each = np.full(samples.unit_count, estimate)  # stays so for units without an answered sample
    for index, members in enumerate(answered_by_unit):
        rows_of_members = row_of_sample[members]
        mass_left = row_mass - np.bincount(rows_of_members, weight[members], minlength=row_count)
        loss_left = row_loss - np.bincount(rows_of_members, weighted_loss[members], minlength=row_count)
        is_kept = all_samples.copy()
        is_kept[members] = False
        without_each[index] = _value_of_rows(samples, mass_left, loss_left, is_kept)
    return Deletions(estimate, without_each)


def _answered_samples_by_unit(samples: CheckedSamples) -> list[np.ndarray]:
    """For each unit (sample or cluster) with an answered sample, by unit number: the indices of its answered samples.

    Indices count the answered samples alone, in input order.
    """
    unit_of_answered = np.arange(len(samples.answered_loss))
    if samples.clusters is not None:
        is_answered = samples.is_answered  # None: no sample abstained
        unit_of_answered = samples.clusters if is_answered is None else samples.clusters[is_answered]
    by_unit = np.argsort(unit_of_answered, kind="stable")
    unit_starts = np.flatnonzero(np.diff(unit_of_answered[by_unit], prepend=-1))  # units are numbered from 0
    return np.split(by_unit, unit_starts[1:])  # `np.split` takes the starts of all parts but the first


def _value_of_rows(samples: CheckedSamples, mass: np.ndarray, loss: np.ndarray, is_kept: np.ndarray) -> float:
    """Compute `samples.metric` from the mass and the sum of losses at each distinct confidence, most confident first.

    Entries without mass, within rounding, are dropped; at least one entry has mass. `is_kept` marks the answered
    samples that are summed, in input order: a metric that compares with the best possible order reads their losses. A
    metric that scales with the loss is returned in units of `samples.error_size`.
    """

    def rows_by_loss() -> Rows:
        """The kept samples in the best possible order, smallest loss first; called only if the metric reads it."""
        import array_api_compat.numpy as xp

        weight = None if samples.answered_weight is None else samples.answered_weight[is_kept]
        return oracle_rows(xp, samples.answered_loss[is_kept].astype(np.float64), weight)

    has_mass = mass > SUM_ROUNDING * mass.max()  # less is a rounding error of what was subtracted
    rows = Rows.accumulate(mass[has_mass], loss[has_mass])  # adds the sums accepted down to each entry
    # all that the value of a metric can depend on
    table = _curve_table(samples, rows, total_mass=rows.total_mass[0], rows_by_loss=rows_by_loss)
    return float(samples.metric.compute(table))


def jackknife(samples: CheckedSamples) -> EstimateSpread:
    """Estimate the metric, its variance and a bias-corrected `less_biased_estimate` by the jackknife.

    Exact deletion for AURC, AUGRC and risk of unweighted independent samples, and for metrics without an influence
    function; otherwise the infinitesimal jackknife (the influence function), which corrects no bias:
    `less_biased_estimate` is then the estimate. The result is in units of `samples.error_size`. Raises InputError where
    deletion would take very long.
    """
    # the value of the metric without each unit; None where there is no exact formula, as with clusters or strata
    deletions = delete_each_sample(samples) if samples.has_independent_samples else None
    if deletions is None and not samples.metric.is_smooth:  # there is no influence function
        deletions = delete_each_unit(samples)
    if deletions is None:
        spread = measure("interval", samples).spread  # by the influence of each sample
        return spread._replace(less_biased_estimate=spread.estimate)
    estimate = deletions.estimate
    n = len(deletions.without_each)
    mean = float(np.mean(deletions.without_each))
    # the jackknife variance is (n - 1) / n times the sum of squared deviations
    variance = variance_of_effects((deletions.without_each - mean) * np.sqrt((n - 1) / n))
    return EstimateSpread(
        estimate=estimate,
        variance=variance.variance,
        variance_of_variance=variance.variance_of_variance,
        # fields on errors keep their defaults: deletion does not say on how many of them the estimate rests
        less_biased_estimate=estimate - (n - 1) * (mean - estimate),
    )


# resampling ---------------------------------------------------------------------------------------
#
# Bootstrap intervals: percentiles of replicates, plain or BCa.


Statistic = Callable[[Replicates], np.ndarray]  # one value per replicate


def interval(
    samples: CheckedSamples,
    level: float,
    method: str,
    strata: Array | None,
    replicates: int,
    rng: np.random.Generator,
    progress: bool | None,
) -> Interval:
    """Bootstrap interval: percentiles of the replicates, with method "bca" corrected for bias and skewness.

    Replicates in which the metric is undefined are left out. The interval is in the user's units. `progress` says
    whether to show a bar; None: if it takes long.

    Raises InputError for fewer than 100 replicates, for two kinds of clusters, for units that cannot be redrawn with
    any spread, and if the metric is undefined in more than half of the replicates. `level` is the two-sided confidence
    level, such as 0.95. `rng` is the source of all randomness. `samples` holds the checked samples of one call: loss
    (divided by `error_size`), confidence and weight of the answered ones; weights, clusters and strata of all. `strata`
    are the user's labels of the strata, for messages (None: there are none).
    """
    _check_replicates("interval", replicates)
    check_one_kind("interval", samples.clusters, "the bootstrap")
    _check_units_can_be_redrawn(
        "interval", samples, strata, or_else="or leave `method` out, whose limits allow for it"
    )
    compute_metric = metric_of_draw(samples)  # a function from replicates to one value for each
    estimate = float(compute_metric(observed_draw(samples))[0])  # of the sample itself, the only replicate
    values = compute_replicates(samples, compute_metric, replicates, rng, progress)
    values = values[np.isfinite(values)]
    if len(values) < replicates / 2:
        raise InputError(
            f"interval: most resamples leave {samples.metric.name} undefined; too few errors to say anything."
        )
    tails = np.asarray([(1 - level) / 2, (1 + level) / 2])
    if method == "bca":
        tails = _bca_tails(values, estimate, samples, tails)
    low, high = (float(x) for x in np.quantile(values, tails))
    error = float(np.std(values, ddof=1))
    in_error_units = Interval(
        metric=samples.metric.key,
        estimate=estimate,
        standard_error=error,
        low=low,
        high=high,
        level=level,
        method=method,
        n=samples.sample_count,
        centre="replicates",  # limits are quantiles of these, and not built around the estimate
    )
    # for a metric that scales with the loss, `error_size` times the numbers; others are in the user's units already
    return in_loss_units(samples.metric, in_error_units, samples.error_size)


def _check_replicates(name: str, replicates: int) -> None:
    """Raise InputError for fewer than 100 replicates; `name` is the function that the message names."""
    if check_count(name, "replicates", replicates) < 100:
        raise InputError(f"{name}: `replicates` must be at least 100 for a percentile, got {replicates}.")


def _check_units_can_be_redrawn(
    name: str, samples: CheckedSamples, strata: Array | None, *, or_else: str
) -> None:
    """Raise InputError where resampling would show no spread: a single unit in all, or in one of the strata.

    A unit is a sample or a cluster. `name` is the function that was called, `strata` are the user's labels of the
    strata (None: there are none), and `or_else` says what else one can do about a stratum of one unit, apart from
    merging it with another.
    """
    unit_of_sample = np.arange(samples.sample_count) if samples.clusters is None else samples.clusters
    stratum_of_sample = np.zeros(samples.sample_count, dtype=np.int64)
    if samples.strata is not None:
        stratum_of_sample = samples.strata
    _, first_of_unit = np.unique(unit_of_sample, return_index=True)
    unit_counts = np.bincount(stratum_of_sample[first_of_unit])
    if not (unit_counts == 1).any():
        return
    if strata is None:
        raise InputError(f"{name}: needs at least two samples (or clusters) to see any spread, got one.")
    # the user's labels in order, and the number of its label for each sample of the input
    labels, stratum_of_input = group_codes(name, strata, argument="strata")
    # the strata of `samples` are numbered in the same order, without those whose samples all have weight 0
    strata_with_weight = np.unique(
        stratum_of_input if samples.has_weight is None else stratum_of_input[samples.has_weight]
    )
    label = labels[strata_with_weight[int(np.argmax(unit_counts == 1))]]
    unit = "sample" if samples.clusters is None else "cluster"
    raise InputError(
        f"{name}: resampling needs at least two {unit}s in each stratum to see any spread, got one in stratum "
        f"{label!r}. Merge it with a stratum like it, {or_else}."
    )


def _bca_tails(values: np.ndarray, estimate: float, samples: CheckedSamples, tails: np.ndarray) -> np.ndarray:
    """Compute the tail probabilities of the BCa bootstrap interval from the nominal ones, `tails`.

    With z the normal quantiles of the tails plus z0, they become Phi(z0 + z / (1 - a z)). z0 is the bias of the
    replicates against the estimate, and a the skewness of what single units (samples or clusters) do to it. `values`
    holds the replicates of the metric, all finite, at least one. The skewness comes from values without each unit if
    these can be computed, else from the influence function; it is 0 if no unit has an effect, and |a| is at most 1/6.
    Strata are not read for it, since effects are centred over all units; clusters are of one kind, as callers checked.
    """
    from scipy.special import ndtr, ndtri

    # None with clusters, and where there is no exact formula
    deletions = delete_each_sample(samples) if samples.clusters is None else None
    if deletions is None and not samples.metric.is_smooth:  # there is no influence function
        deletions = delete_each_unit(samples)
    if deletions is not None:
        # up to a factor, which would not change the skewness
        effects = np.mean(deletions.without_each) - deletions.without_each
    else:
        influence = influences_of_samples("interval", samples).influence
        effects = effects_of_units(influence, samples._replace(strata=None))
    # a tiny divisor keeps 0 / 0 from being NaN
    a = float(np.sum(effects**3)) / max(6 * float(effects @ effects) ** 1.5, 1e-300)
    share_below = np.mean(values < estimate) + np.mean(values == estimate) / 2
    half_replicate = 0.5 / len(values)  # z0 stays finite where all replicates are on one side
    z0 = ndtri(np.clip(share_below, half_replicate, 1 - half_replicate))
    z = z0 + ndtri(tails)
    return np.asarray(ndtr(z0 + z / (1 - a * z)))


def make_resampler(samples: CheckedSamples) -> Resampler:
    """Make a bootstrap resampler of all samples: the answered ones first, then those that abstained.

    Clusters, where there are any, are drawn as a whole, and strata keep their sizes. Clusters are of one kind, and each
    lies in one stratum, as callers have checked. Losses of the replicates are in units of `samples.error_size`.
    """
    abstained_weight = None  # no sample abstained
    clusters = samples.clusters
    strata = samples.strata
    if samples.is_answered is not None:  # some samples abstained
        has_abstained = ~samples.is_answered
        if samples.weights_of_all is None:
            abstained_weight = np.ones(int(has_abstained.sum()))
        else:
            abstained_weight = samples.weights_of_all[has_abstained]
        if clusters is not None:
            clusters = np.concatenate([clusters[samples.is_answered], clusters[has_abstained]])
        if strata is not None:
            strata = np.concatenate([strata[samples.is_answered], strata[has_abstained]])
    return Resampler(
        samples.answered_loss,
        samples.answered_confidence,
        weight=samples.answered_weight,
        abstained_weight=abstained_weight,
        clusters=clusters,
        strata=strata,
    )


def observed_draw(samples: CheckedSamples) -> Replicates:
    """The sample itself as the only replicate, so that the same code computes the estimate and the replicates."""
    resampler = make_resampler(samples)
    # where few distinct pairs of confidence and loss occur: how often each does; None: every sample is counted once
    counts = resampler.pair_counts
    if counts is None:
        counts = np.ones(resampler.sample_count, dtype=np.int64)
    return resampler.tabulate(counts[None, :])  # one line: one replicate


def compute_replicates(
    samples: CheckedSamples,
    compute: Statistic,
    replicates: int,
    rng: np.random.Generator,
    progress: bool | None,
) -> np.ndarray:
    """Draw so many bootstrap replicates of the samples and return `compute` of each of them, along the first axis.

    `compute` takes a batch of replicates and returns one value (or row of values) for each. Values are not finite where
    the statistic is undefined, as in a replicate without errors; callers drop them. `rng` is the source of all
    randomness. `progress` says whether to show a bar; None: if it takes long.
    """
    resampler = make_resampler(samples)
    values = []
    with progress_bars(progress) as bars:
        for batch_size in resampler.batches(replicates):  # sizes that add up to `replicates`
            with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 where the statistic is undefined
                values.append(compute(resampler.draw(rng, batch_size)))
            bars.advance("resampling", batch_size, replicates)
    return np.concatenate(values)


def metric_of_draw(samples: CheckedSamples) -> Statistic:
    """Return a function that computes the metric of each of several replicates, shape (replicates,)."""

    def compute_metric(draw: Replicates) -> np.ndarray:
        table = _curve_table(samples, draw.rows, total_mass=draw.total_mass, rows_by_loss=draw.rows_by_loss)
        return np.asarray(samples.metric.compute(table))

    return compute_metric


def _curve_table(
    samples: CheckedSamples, rows: Rows, total_mass: np.ndarray | float, rows_by_loss: Callable[[], Rows]
) -> CurveTable:
    """Make the table that `samples.metric` is computed from, for a bootstrap replicate or after samples were left out.

    `rows` hold mass and loss at each distinct confidence, most confident first; `rows_by_loss()` returns the same
    samples, smallest loss first, and is called only for metrics that read the best possible order. `total_mass`
    includes abstained samples.

    All losses were divided by `samples.error_size`: c where all of the user's losses are 0 or c, else usually 1. For a
    metric that scales with the loss they stay so (its interval is converted at the end); for any other metric they are
    converted to the user's units here. `samples.answered_weight` is None where the user passed no weights. The flags
    tell the metric whether masses are counts of samples: without weights, or with whole ones (repetitions, or all 1).
    """
    loss_unit = 1.0 if samples.metric.scales_with_loss else samples.error_size
    return CurveTable(
        rows=_scale_losses(rows, loss_unit),
        total_mass=total_mass,
        rows_by_loss=lambda: _scale_losses(rows_by_loss(), loss_unit),
        has_weights=samples.answered_weight is not None,
        has_whole_weights=samples.has_whole_weights,
    )


def _scale_losses(rows: Rows, factor: float) -> Rows:
    """Rows whose losses are multiplied by a number."""
    if factor == 1:
        return rows
    return rows._replace(loss=factor * rows.loss, accepted_loss=factor * rows.accepted_loss)


# bands --------------------------------------------------------------------------------------------
#
# A band around the whole risk-coverage curve.


@refuse_other_row_order
def curve_band(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    level: float = 0.95,
    coverage: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    replicates: int = 2000,
    rng: int | np.random.Generator = 0,
    progress: bool | None = None,
) -> CurveBand:
    r"""Simultaneous band for the risk-coverage curve: the whole curve lies inside with probability about
    `level`.

    .. math:: \left|\phi(\hat R(c)) - \phi(R(c))\right| \le \frac{q}{2\sqrt{N_c}} \ \text{for all } c,
              \qquad \phi(R) = \arcsin\sqrt R

    On the arcsine scale the spread of a proportion hardly depends on it, so one number q, the `level`
    quantile of the largest deviation over bootstrap replicates, serves every coverage.

    Replicates cannot hold errors that were not drawn. Where up to eight errors (or right samples) are accepted, the
    band therefore also covers the limits of a proportion that hold at all coverages together; this fades out until
    there are sixteen. With weights or clusters, and for losses other than 0/1, errors are counted as so many equal
    ones.

    Parameters
    ----------
    loss : array, shape (n,)
        At least 0; divided by the largest one, which is taken as the upper end of their range.
    confidence : array, shape (n,)
        Higher = surer.
    level : float
        How sure the band is.
    coverage : array, optional
        Where. By default 100 steps from 0.05 (or 20 samples) to 1: below that a curve is the story of a handful of
        samples.
    sample_weight : array, shape (n,), optional
        Weight of each sample. Default: all 1.
    abstained : array of bool, shape (n,), optional
        Samples that are never accepted; they count in the coverage.
    clusters, strata : array, shape (n,), optional
        Label of the cluster, and of the stratum, of each sample. Clusters are drawn as a whole, and as many units from
        each stratum as it has, which must be two at least.
    replicates, rng, progress
        Of the bootstrap: how many, the seed or Generator, and whether to show a bar (by default when long).

    Returns
    -------
    CurveBand

    Examples
    --------
    >>> band = curve_band([0, 0, 0, 1] * 50, range(200), rng=1)
    >>> bool((band.low <= band.risk).all() and (band.risk <= band.high).all())
    True
    """
    level = check_fraction("curve_band", "level", level, open_high=True)
    _check_replicates("curve_band", replicates)
    samples = gather("curve_band", "risk", loss, confidence, sample_weight, abstained, clusters, strata)
    check_one_kind("curve_band", samples.clusters, "the bootstrap")
    _check_units_can_be_redrawn(
        "curve_band", samples, strata, or_else="or leave `strata` out: the band is then wider"
    )
    if bool((samples.answered_loss < 0).any()):
        raise InputError("curve_band: needs losses of at least 0, got negative ones.")
    grid = _check_coverages(
        coverage, n=len(samples.answered_loss), answered_share=samples.answered_mass / samples.total_mass
    )
    largest_loss = max(
        1.0 if samples.zero_one else 0.0, float(samples.answered_loss.max()), np.finfo(float).tiny
    )
    risks, masses = _read_at_coverages(observed_draw(samples), grid)
    risk = risks[0]
    accepted_mass = masses[0]
    # weights need not be counts, but the spread depends on numbers of samples
    samples_per_mass = len(samples.answered_loss) / samples.answered_mass
    phi = _arcsine_risk(risk / largest_loss, accepted_mass * samples_per_mass)
    # standard deviation on the arcsine scale
    unit_width = 1 / (2 * np.sqrt(accepted_mass * samples_per_mass))

    def largest_deviation(draw: Replicates) -> np.ndarray:
        drawn_risk, drawn_mass = _read_at_coverages(draw, grid)
        drawn_phi = _arcsine_risk(drawn_risk / largest_loss, drawn_mass * samples_per_mass)
        return np.asarray(np.max(np.abs(drawn_phi - phi) / unit_width, axis=1))

    deviations = compute_replicates(
        samples, largest_deviation, replicates, np.random.default_rng(rng), progress
    )
    half_width = np.quantile(deviations, level) * unit_width
    low = np.sin(np.clip(phi - half_width, 0, np.pi / 2)) ** 2 * largest_loss
    high = np.sin(np.clip(phi + half_width, 0, np.pi / 2)) ** 2 * largest_loss
    low, high = _widen_for_few_errors(samples, risk, accepted_mass, largest_loss, level, low, high)
    return CurveBand(
        coverage=grid,
        risk=samples.error_size * risk,
        low=samples.error_size * np.minimum(low, risk),
        high=samples.error_size * np.maximum(high, risk),
        level=level,
        method="bootstrap",
        n=samples.sample_count,
    )


def _widen_for_few_errors(
    samples: CheckedSamples,
    risk: np.ndarray,
    accepted_mass: np.ndarray,
    largest_loss: float,
    level: float,
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Widen a band around a curve where few errors, or few right samples, are accepted; returns its two ends.

    There it must hold the simultaneous limits of a proportion, in full with up to FEW (eight) errors, and less and less
    until there are twice as many. `risk`, `accepted_mass`, `low` and `high` are the curve and the band at each coverage
    (ascending); none is changed in place. Losses lie in [0, largest_loss], in units of `samples.error_size`, as do
    `risk`, `low` and `high`. `level` is that of the whole band.
    """
    order = argsort_descending(samples.answered_confidence)  # most confident first
    weight = samples.answered_weights_or_ones[order]
    loss = samples.answered_loss[order].astype(np.float64) / largest_loss
    # the sample with which the sum of weights reaches the accepted mass, but for rounding
    last_accepted = np.searchsorted(np.cumsum(weight), accepted_mass * (1 - SUM_ROUNDING))
    last_accepted = np.minimum(last_accepted, len(order) - 1)  # index into `order`, for each coverage
    # draws per sample: a cluster is one draw; 1 without clusters
    clusters_per_sample = samples.unit_count / samples.sample_count
    # as many samples of equal weight as would vary like those accepted at each coverage, in draws
    draws = _effective_count(weight, last_accepted) * clusters_per_sample
    # the same of errors, or of right samples where these are fewer
    rarer_count = _effective_count(weight * loss, last_accepted) * clusters_per_sample
    if np.isin(loss, (0.0, 1.0)).all():
        right_count = _effective_count(weight * (1 - loss), last_accepted) * clusters_per_sample
        rarer_count = np.minimum(rarer_count, right_count)
    few_share = np.clip(2 - rarer_count / FEW, 0.0, 1.0)  # how much of the widening applies
    span = float(np.log(draws[-1] / draws[0]))  # in ln N, from the first coverage to the last
    # so high that the limits hold at all coverages together with probability `level`
    level_at_one_coverage = pointwise_level(level, span, len(draws))
    proportion_low, proportion_high = proportion_limits(risk / largest_loss, draws, level_at_one_coverage)
    # where the limits of the proportion lie outside the band, it moves towards them by `few_share` of the distance
    low = low - few_share * np.maximum(low - largest_loss * proportion_low, 0.0)
    high = high + few_share * np.maximum(largest_loss * proportion_high - high, 0.0)
    return low, high


def _effective_count(mass: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Number of equal masses that would vary as much as mass[0], ..., mass[last]: (sum)^2 / sum of squares.

    One number for each index in `last`; 0 where all masses are 0.
    """
    total = np.cumsum(mass)[last]
    squares = np.cumsum(mass**2)[last]
    return np.asarray(total**2 / np.where(squares > 0, squares, 1.0))


def _check_coverages(coverage: Array | None, n: int, answered_share: float) -> np.ndarray:
    """Return the coverages of a band, ascending: those of the user, or 100 if `coverage` is None.

    `n` is the number of answered samples, and `answered_share` their share of the mass of all samples: the largest
    coverage. Raises InputError if there are no coverages, or one of them is not above 0 or is larger than that.
    """
    if coverage is None:
        # of the answered samples: 0.05 or 20 samples, not so few that the band says nothing
        lowest = min(1.0, max(SMALLEST_BAND_COVERAGE, FEWEST_BAND_SAMPLES / n))
        return np.linspace(lowest, 1.0, BAND_POINTS) * answered_share
    grid = np.sort(np.asarray(coverage, dtype=np.float64).reshape(-1))
    if not len(grid) or not (grid[0] > 0 and grid[-1] <= answered_share + SUM_ROUNDING):  # NaN is sorted last
        raise InputError(
            f"curve_band: `coverage` must lie in (0, {answered_share:g}], got {grid[:1]} to {grid[-1:]}."
        )
    return grid


def _read_at_coverages(draw: Replicates, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read the selective risk and the accepted mass of each bootstrap replicate at each coverage of `grid`.

    `draw` holds the replicates; `grid` is ascending, as shares of all samples, abstained ones included. Both results
    have shape (replicates, coverages). A coverage is attained between samples: the smallest one that is not below the
    grid point is read. A replicate that answers less than a grid point is read at its largest coverage.
    """
    # mass and loss at each distinct confidence, most confident first: shape (replicates, confidences)
    rows = draw.rows
    # `rows.accepted_mass` is the same sum, but has 1 in place of 0 in rows above the first sample that a replicate
    # holds, so that it can be divided by
    coverage = np.cumsum(rows.mass, axis=1) / draw.total_mass[:, None]
    requested = np.minimum(grid, coverage[:, -1:])
    # for each replicate and grid point, the index of the row that is read
    row = np.stack(
        [
            np.searchsorted(replicate_coverage, replicate_grid * (1 - SUM_ROUNDING))
            for replicate_coverage, replicate_grid in zip(coverage, requested, strict=True)
        ]
    )
    risk = np.take_along_axis(rows.accepted_loss / rows.accepted_mass, row, axis=1)
    return risk, np.take_along_axis(rows.accepted_mass, row, axis=1)


def _arcsine_risk(share: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Arcsine of the root of a proportion of n, with Anscombe's 3/8 added so that a count of 0 is not at the edge."""
    return np.asarray(np.arcsin(np.sqrt((share * n + 0.375) / (n + 0.75))))
