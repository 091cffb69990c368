"""Methods that compute a metric many times: the jackknife, the bootstrap, and a bootstrap band around a curve."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from abstain._arrays import Array, ArrayLike
from abstain._check import check_count, check_fraction
from abstain._progress import progress_bars
from abstain.core.area_estimators import area_of_samples
from abstain.core.bootstrap import Draw, Resampler, leave_one_out_areas
from abstain.core.influence import AreaUnderCurve, RankedLoss
from abstain.core.rounding import SUM_ROUNDING
from abstain.core.rows import Rows, rank_confidences
from abstain.core.sorting import argsort_descending
from abstain.errors import InputError
from abstain.inference.limits import in_loss_units, moments
from abstain.inference.point_limits import pointwise_level, proportion
from abstain.inference.records import CurveBand, Interval
from abstain.inference.standard_errors import Units, gather, influences_of_units, measure, unit_effects
from abstain.metrics._sample import CurveTable
from abstain.metrics.few_draws import FEW
from abstain.metrics.summaries import EstimateSpread

MOST_DELETIONS = 2e8  # (values without a unit) * (rows of the table): about a minute of work


def delete_each_sample(units: Units) -> tuple[float, np.ndarray] | None:
    """Estimate, and its value without each sample, exactly and in O(n); None where there is no formula for that."""
    deletion = units.metric.deletion
    if deletion is None or units.weight is not None or units.is_answered is not None or units.n < 3:
        return None
    if deletion == "mean":
        total = float(np.sum(units.loss, dtype=np.float64))
        return total / units.n, (total - units.loss.astype(np.float64)) / (units.n - 1)
    area = units.metric.area
    assert isinstance(area, AreaUnderCurve)
    estimate = area_of_samples(units.loss, units.confidence, None, area.estimator, area.ties)
    without_sample = leave_one_out_areas(units.loss, units.confidence, area.estimator, area.ties)
    return float(estimate), without_sample


def delete_each_unit(units: Units) -> tuple[float, np.ndarray]:
    """Estimate, and its value without each independent unit (sample or cluster), one computation per unit.

    Units that hold only samples that abstained come last; without them the value is the estimate. Raises InputError
    where all this would take very long.
    """
    ranked = units.ranked
    if ranked is None:
        ranked = RankedLoss(rank_confidences(units.confidence), units.loss, units.weight)
    row_mass = ranked.rows.mass
    row_loss = ranked.rows.loss
    row_count = len(row_mass)
    row_of_ranked = np.arange(len(units.loss)) if ranked.row_of_sample is None else ranked.row_of_sample
    row_of_sample = ranked.in_input_order(row_of_ranked)
    weight = units.mass_of(np.ones(len(units.loss)))
    weighted_loss = weight * units.loss
    unit_of_sample = np.arange(len(units.loss))
    if units.clusters is not None:
        unit_of_sample = units.clusters if units.is_answered is None else units.clusters[units.is_answered]
    by_unit = np.argsort(unit_of_sample, kind="stable")
    unit_starts = np.flatnonzero(np.diff(unit_of_sample[by_unit], prepend=-1))
    if len(unit_starts) * row_count > MOST_DELETIONS:
        raise InputError(
            f"interval: the jackknife of {units.metric.name} would take {len(unit_starts):,} computations of "
            f'{row_count:,} rows. Give its definition `influence=`, or use method="bootstrap".'
        )
    estimate = _value_of_rows(units, row_mass, row_loss)
    without_unit = np.full(units.sampled, estimate)
    for unit, members in enumerate(np.split(by_unit, unit_starts[1:])):
        rows = row_of_sample[members]
        mass = row_mass - np.bincount(rows, weight[members], row_count)
        loss = row_loss - np.bincount(rows, weighted_loss[members], row_count)
        without_unit[unit] = _value_of_rows(units, mass, loss)
    return estimate, without_unit


def _value_of_rows(units: Units, mass: np.ndarray, loss: np.ndarray) -> float:
    """The metric of rows, most confident first, in units of the samples' losses; rows without mass are dropped."""
    has_mass = mass > SUM_ROUNDING * mass.max()
    rows = Rows.accumulate(mass[has_mass], loss[has_mass])
    return float(units.metric.compute(_table(units, rows, rows.total_mass[0], lambda: rows)))


def jackknife(units: Units) -> EstimateSpread:
    """Estimate with the spread of its deletions, around the bias-corrected estimate.

    Exact deletion for AURC, AUGRC and risk of unweighted independent samples, and for metrics without an influence
    function; otherwise the infinitesimal jackknife (the influence function), which corrects no bias.
    """
    deletions = delete_each_sample(units) if units.independent else None
    if deletions is None and not units.metric.is_smooth:
        deletions = delete_each_unit(units)
    if deletions is None:
        spread = measure("interval", units)[0]
        return spread._replace(centre=spread.estimate)
    estimate, without_unit = deletions
    n = len(without_unit)
    mean = float(np.mean(without_unit))
    variance, variance_excess = moments((without_unit - mean) * np.sqrt((n - 1) / n))
    centre = estimate - (n - 1) * (mean - estimate)
    return EstimateSpread(estimate, variance, variance_excess, centre=centre)


# resampling ---------------------------------------------------------------------------------------
#
# Bootstrap intervals: percentiles of replicates, plain or BCa.


Statistic = Callable[[Draw], np.ndarray]  # one value per replicate


def interval(
    units: Units, level: float, method: str, replicates: int, rng: np.random.Generator, progress: bool | None
) -> Interval:
    """Bootstrap interval: percentiles of the replicates, with method "bca" corrected for bias and skewness.

    Raises InputError for fewer than 100 replicates, and if the metric is undefined in more than half of them.
    """
    _check_replicates("interval", replicates)
    estimate = float(statistic(units)(observed(units))[0])
    values = replicate(units, statistic(units), replicates, rng, progress)
    values = values[np.isfinite(values)]
    if len(values) < replicates / 2:
        raise InputError(
            f"interval: most resamples leave {units.metric.name} undefined; too few errors to say anything."
        )
    tails = np.asarray([(1 - level) / 2, (1 + level) / 2])
    if method == "bca":
        tails = _bca(values, estimate, units, tails)
    low, high = (float(x) for x in np.quantile(values, tails))
    error = float(np.std(values, ddof=1))
    interval = Interval(
        metric=units.metric.name,
        estimate=estimate,
        standard_error=error,
        low=low,
        high=high,
        level=level,
        method=method,
        n=units.counted,
        centre="replicates",
    )
    return in_loss_units(units.metric, interval, units.error_size)


def _check_replicates(name: str, replicates: int) -> None:
    """Raise InputError for fewer than 100 replicates; `name` is the function that the message names."""
    if check_count(name, "replicates", replicates) < 100:
        raise InputError(f"{name}: `replicates` must be at least 100 for a percentile, got {replicates}.")


def _bca(values: np.ndarray, estimate: float, units: Units, tails: np.ndarray) -> np.ndarray:
    """Tail probabilities of the BCa interval, from the nominal `tails`.

    They are moved by the bias z0 of the replicates `values` against the estimate, and by the skewness a of the effects
    of single samples (or clusters) on it.
    """
    from scipy.special import ndtr, ndtri

    deletions = delete_each_sample(units) if units.clusters is None else None
    if deletions is None and not units.metric.is_smooth:
        deletions = delete_each_unit(units)
    if deletions is not None:
        _, without_unit = deletions
        pulls = np.mean(without_unit) - without_unit
    else:
        influence = influences_of_units("interval", units).influence
        pulls = unit_effects(influence, units._replace(strata=None))
    a = float(np.sum(pulls**3)) / max(6 * float(pulls @ pulls) ** 1.5, 1e-300)
    share_below = np.mean(values < estimate) + np.mean(values == estimate) / 2
    z0 = ndtri(np.clip(share_below, 0.5 / len(values), 1 - 0.5 / len(values)))
    z = z0 + ndtri(tails)
    return np.asarray(ndtr(z0 + z / (1 - a * z)))


def resampler(units: Units) -> Resampler:
    """A resampler of the samples, with those that abstained last.

    Raises InputError if a cluster lies in more than one stratum.
    """
    idle_weight = None
    clusters = units.clusters
    strata = units.strata
    if units.is_answered is not None:
        abstained = ~units.is_answered
        if units.whole_weight is None:
            idle_weight = np.ones(int(abstained.sum()))
        else:
            idle_weight = units.whole_weight[abstained]
        if clusters is not None:
            clusters = np.concatenate([clusters[units.is_answered], clusters[abstained]])
        if strata is not None:
            strata = np.concatenate([strata[units.is_answered], strata[abstained]])
    if clusters is not None and strata is not None:
        pairs = np.unique(np.stack([clusters, strata]), axis=1).shape[1]
        if pairs > int(clusters.max()) + 1:
            raise InputError(
                "interval: every cluster must lie in one stratum, got clusters spread over several."
            )
    return Resampler(
        units.loss,
        units.confidence,
        weight=units.weight,
        idle_weight=idle_weight,
        clusters=clusters,
        strata=strata,
    )


def observed(units: Units) -> Draw:
    """The sample itself as a replicate, so that the same code computes the estimate and the replicates."""
    source = resampler(units)
    counts = np.ones(source.n, dtype=np.int64) if source.repeats is None else source.repeats
    return source.tabulate(counts[None, :])


def replicate(
    units: Units, compute: Statistic, replicates: int, rng: np.random.Generator, progress: bool | None
) -> np.ndarray:
    """Draw replicates and return `compute` of each of them, along the first axis."""
    source = resampler(units)
    values = []
    with progress_bars(progress) as bars:
        for size in source.batches(replicates):
            # a replicate without errors is dropped later
            with np.errstate(invalid="ignore", divide="ignore"):
                values.append(compute(source.draw(rng, size)))
            bars.advance("resampling", size, replicates)
    return np.concatenate(values)


def statistic(units: Units) -> Statistic:
    """The metric as a function of replicates."""

    def value(draw: Draw) -> np.ndarray:
        return np.asarray(units.metric.compute(_table(units, draw.rows, draw.total, draw.by_loss)))

    return value


def _table(
    units: Units, rows: Rows, total_mass: np.ndarray | float, rows_by_loss: Callable[[], Rows]
) -> CurveTable:
    """What a metric is computed from; losses in the user's units, unless the metric scales with the loss."""
    unit = 1.0 if units.metric.scales_with_loss else units.error_size
    return CurveTable(
        rows=_scale_losses(rows, unit),
        total_mass=total_mass,
        rows_by_loss=lambda: _scale_losses(rows_by_loss(), unit),
        has_weights=units.weight is not None,
        has_whole_weights=units.whole,
    )


def _scale_losses(rows: Rows, factor: float) -> Rows:
    """Rows whose losses are multiplied by a number."""
    if factor == 1:
        return rows
    return rows._replace(loss=factor * rows.loss, accepted_loss=factor * rows.accepted_loss)


# bands --------------------------------------------------------------------------------------------
#
# A band around the whole risk-coverage curve.


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
    sample_weight, abstained, clusters, strata : array, optional
        As in `interval`.
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
    units = gather("curve_band", "risk", loss, confidence, sample_weight, abstained, clusters, strata)
    if bool((units.loss < 0).any()):
        raise InputError("curve_band: needs losses of at least 0, got negative ones.")
    grid = _grid(coverage, len(units.loss), units.mass / units.total)
    largest_loss = max(1.0 if units.zero_one else 0.0, float(units.loss.max()), np.finfo(float).tiny)
    risks, masses = _read_at_coverages(observed(units), grid)
    risk = risks[0]
    accepted_mass = masses[0]
    samples_per_mass = (
        len(units.loss) / units.mass
    )  # weights need not be counts, but the spread depends on counts
    phi = _arcsine_risk(risk / largest_loss, accepted_mass * samples_per_mass)
    unit_width = 1 / (2 * np.sqrt(accepted_mass * samples_per_mass))

    def largest_deviation(draw: Draw) -> np.ndarray:
        drawn_risk, drawn_mass = _read_at_coverages(draw, grid)
        drawn_phi = _arcsine_risk(drawn_risk / largest_loss, drawn_mass * samples_per_mass)
        return np.asarray(np.max(np.abs(drawn_phi - phi) / unit_width, axis=1))

    deviations = replicate(units, largest_deviation, replicates, np.random.default_rng(rng), progress)
    half_width = np.quantile(deviations, level) * unit_width
    low = np.sin(np.clip(phi - half_width, 0, np.pi / 2)) ** 2 * largest_loss
    high = np.sin(np.clip(phi + half_width, 0, np.pi / 2)) ** 2 * largest_loss
    low, high = _widened_for_few_errors(units, risk, accepted_mass, largest_loss, level, low, high)
    return CurveBand(
        coverage=grid,
        risk=units.error_size * risk,
        low=units.error_size * np.minimum(low, risk),
        high=units.error_size * np.maximum(high, risk),
        level=level,
        method="bootstrap",
        n=units.counted,
    )


def _widened_for_few_errors(
    units: Units,
    risk: np.ndarray,
    accepted_mass: np.ndarray,
    largest_loss: float,
    level: float,
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Widen a band to the simultaneous limits of a proportion where few errors, or few right samples, are accepted.

    Losses lie in [0, largest_loss]. `risk` and `accepted_mass` are those of the sample at each coverage of the band.
    """
    order = argsort_descending(units.confidence)
    weight = units.mass_of(np.ones(len(units.loss)))[order]
    loss = units.loss[order].astype(np.float64) / largest_loss
    last = np.searchsorted(np.cumsum(weight), accepted_mass * (1 - SUM_ROUNDING))
    last = np.minimum(last, len(order) - 1)
    clusters_per_sample = units.sampled / units.counted
    draws = _effective_count(weight, last) * clusters_per_sample
    rarer_count = _effective_count(weight * loss, last) * clusters_per_sample
    if np.isin(loss, (0.0, 1.0)).all():
        right_count = _effective_count(weight * (1 - loss), last) * clusters_per_sample
        rarer_count = np.minimum(rarer_count, right_count)
    share = np.clip(2 - rarer_count / FEW, 0.0, 1.0)  # 1 with up to FEW of them, 0 from twice as many on
    pointwise = pointwise_level(level, float(np.log(draws[-1] / draws[0])), len(draws))
    proportion_low, proportion_high = proportion(risk / largest_loss, draws, draws, pointwise)
    low = low - share * np.maximum(low - largest_loss * proportion_low, 0.0)
    high = high + share * np.maximum(largest_loss * proportion_high - high, 0.0)
    return low, high


def _effective_count(mass: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Number of equal masses that would vary as much as mass[0], ..., mass[last]: (sum)^2 / sum of squares.

    One number for each index in `last`; 0 where all masses are 0.
    """
    total = np.cumsum(mass)[last]
    squares = np.cumsum(mass**2)[last]
    return np.asarray(total**2 / np.where(squares > 0, squares, 1.0))


def _grid(coverage: Array | None, n: int, share: float) -> np.ndarray:
    """The coverages of a band, ascending: those of the user, or 100 by default.

    `n` is the number of answered samples and `share` their share of all. Raises InputError for a coverage out of range.
    """
    if coverage is None:
        return np.linspace(min(1.0, max(0.05, 20 / n)), 1.0, 100) * share
    grid = np.sort(np.asarray(coverage, dtype=np.float64).reshape(-1))
    if not len(grid) or not (grid[0] > 0 and grid[-1] <= share + SUM_ROUNDING):  # NaN is sorted last
        raise InputError(f"curve_band: `coverage` must lie in (0, {share:g}], got {grid[:1]} to {grid[-1:]}.")
    return grid


def _read_at_coverages(draw: Draw, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Selective risk and accepted mass of each replicate, at the smallest attainable coverage of each grid point.

    Both have shape (replicates, coverages).
    """
    rows = draw.rows
    coverage = np.cumsum(rows.mass, axis=1) / draw.total[:, None]
    requested = np.minimum(grid, coverage[:, -1:])  # a replicate may answer a little less than the sample did
    row = np.stack(
        [
            np.searchsorted(replicate_coverage, replicate_grid * (1 - SUM_ROUNDING))
            for replicate_coverage, replicate_grid in zip(coverage, requested)
        ]
    )
    risk = np.take_along_axis(rows.accepted_loss / rows.accepted_mass, row, 1)
    return risk, np.take_along_axis(rows.accepted_mass, row, 1)


def _arcsine_risk(share: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Arcsine of the root of a proportion of n, with Anscombe's 3/8 added so that a count of 0 is not at the edge."""
    return np.asarray(np.arcsin(np.sqrt((share * n + 0.375) / (n + 0.75))))
