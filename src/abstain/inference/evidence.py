"""Evidence: all that an error bar reads of one ranking of one loss, wherever the samples are.

    samples | block table | ranges of files, of Dask, of Spark
        -> MomentTable  some rows, most confident first, with the accepted sums and total mass of the whole set
        -> PartSummary  `summarise_part(table, totals, request)`: its sums, and the curve points that fall into it
        -> Evidence     `merge_parts(parts, totals, request)`
        -> Interval     `estimate_interval(metric, evidence)`

An engine needs the totals of the data set first (a pass it makes anyhow), then delivers one `PartSummary` per range,
by `summarise_part`; a range that is one tie is a table of one row, made from its sums of w^p l^j. Part summaries are
small (some hundred numbers; five times 512 accepted_sums where a coverage at a risk is requested) and are merged in the
order of the ranges, most confident first. Nothing after that knows where they came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from abstain.core.influence import Area
from abstain.core.part_sums import (
    AreaSums,
    MomentTable,
    Totals,
    combine_parts,
    stack_parts,
    sum_areas,
    sum_columns,
)
from abstain.core.rounding import SHARE_ROUNDING
from abstain.errors import InfeasibleError, InputError
from abstain.inference import limits, point_limits
from abstain.inference.point_limits import AcceptedSums
from abstain.inference.records import Interval
from abstain.metrics.definitions import ESTIMATOR, TIE_RULE
from abstain.metrics.limit_rules import note_on_few_draws
from abstain.metrics.metric import Metric, PointMetric
from abstain.metrics.summaries import EstimateSpread, Limits, SampleSummary


@dataclass(frozen=True)
class EvidenceRequest:
    """What to gather from a ranking: areas, and points of the curve.

    Attributes
    ----------
    areas : tuple of Area
        The areas that metrics are made of.
    estimator, ties : str
        Of the curve areas among them, and of the oracle; one each.
    coverages, risks, tprs : tuple of float
        Where points of the curve are cut.
    """

    areas: tuple[Area, ...] = ()
    estimator: str = ESTIMATOR.default
    ties: str = TIE_RULE.default
    coverages: tuple[float, ...] = ()
    risks: tuple[float, ...] = ()
    tprs: tuple[float, ...] = ()

    @property
    def has_points(self) -> bool:
        """Is any point of the curve requested?"""
        return bool(self.coverages or self.risks or self.tprs)

    def cuts(self, cut_at: Literal["coverage", "risk", "tpr"]) -> tuple[float, ...]:
        """The cuts of one kind of point."""
        return {"coverage": self.coverages, "risk": self.risks, "tpr": self.tprs}[cut_at]

    def covers(self, metric: Metric) -> bool:
        """Is what the metric needs part of this request?"""
        if isinstance(metric, PointMetric):
            return metric.cut in self.cuts(metric.cut_at)
        return metric.is_smooth and metric.area in self.areas

    @property
    def is_additive(self) -> bool:
        """Can parts of the ranking be summarised apart? (A metric with functions of its own needs the whole table.)"""
        return all(area.is_additive for area in self.areas)


def request_for(metrics: Iterable[Metric]) -> EvidenceRequest:
    """What metrics need; all those that read an estimator or a rule for ties must have the same."""
    areas: dict[Area, None] = {}
    cuts: dict[str, dict[float, None]] = {"coverage": {}, "risk": {}, "tpr": {}}
    estimator = ESTIMATOR.default
    ties = TIE_RULE.default
    for metric in metrics:
        settings = dict(metric.settings)
        estimator = settings.get("estimator", estimator)
        ties = settings.get("ties", ties)
        if isinstance(metric, PointMetric):
            cuts[metric.cut_at][metric.cut] = None
        elif metric.is_smooth:
            areas[metric.area] = None
    return EvidenceRequest(
        areas=tuple(areas),
        estimator=estimator,
        ties=ties,
        coverages=tuple(cuts["coverage"]),
        risks=tuple(cuts["risk"]),
        tprs=tuple(cuts["tpr"]),
    )


class PartSummary(NamedTuple):
    """What one part of the ranking adds to the evidence; made by `summarise_part`.

    Attributes
    ----------
    area_sums : dict
        Sums of each requested area.
    column_totals : ndarray or None
        Over the part: mass, loss, w^2 l^j (3), w^4 l^j (5); None where no point of the curve is requested.
    sums_at_positions : tuple of (ndarray, ndarray)
        For positions along all samples, and along the right ones: which of them fall into this part, and the columns
        read there (mass of the row, then the sums above it within this part).
    mass_within_risk : dict
        By requested risk, the largest mass accepted with a selective risk of at most that.
    """

    area_sums: dict[Area, AreaSums]
    column_totals: np.ndarray | None
    sums_at_positions: tuple[tuple[np.ndarray, np.ndarray], ...]
    mass_within_risk: dict[float, float]


@lru_cache(maxsize=64)
def positions_to_read(totals: Totals, request: EvidenceRequest) -> tuple[np.ndarray, np.ndarray]:
    """Accepted masses at which the sums for points of the curve are read, along all samples and along the right ones.

    Two arrays of shape (5, points), shared by all callers: not to be changed. Line 0 is the cut of each point, the
    other four lines the positions around it that `point_limits.positions` lists. Along all samples (masses from the
    most confident down) come first the requested coverages, as shares of all samples, and, if a coverage at a risk is
    requested, `point_limits.CUTS` evenly spaced shares of the answered samples. Along the right samples (masses of
    right samples alone) come the requested TPRs; none unless losses are 0/1. `totals` are sums over the whole data set.
    `request` lists the areas and the points of the curve that are gathered.
    """
    everything = weights_of_all(totals)
    along_all = point_limits.positions(
        np.asarray(request.coverages),
        everything.total_mass,
        everything.squared_weight_sum,
        everything.unit_count,
    )
    if request.risks:
        cuts = point_limits.positions(
            point_limits.coverages(), totals.total_mass, totals.squared_weight_sum, totals.sample_count
        )
        along_all = np.concatenate([along_all, cuts], axis=1)
    tprs = np.asarray(request.tprs if totals.zero_one else ())
    right_mass = totals.total_mass - totals.loss_sum
    right_squares = totals.squared_weight_sum - totals.squared_error_weight_sum
    along_right = point_limits.positions_along_right(tprs, right_mass, right_squares, totals.sample_count)
    return along_all, along_right


def weights_of_all(totals: Totals) -> point_limits.WeightTotals:
    """Number of samples and sums of their weights w, of w^2 and of w^4, over all samples, abstained ones included.

    `totals` are sums over the whole data set.
    """
    abstained = totals.abstained
    return point_limits.WeightTotals(
        total_mass=totals.total_mass + abstained.mass,
        squared_weight_sum=totals.squared_weight_sum + abstained.squared_weight_sum,
        fourth_power_weight_sum=totals.fourth_power_weight_sum + abstained.fourth_power_weight_sum,
        unit_count=totals.sample_count + abstained.sample_count,
        zero_one=totals.zero_one,
        has_negative_loss=totals.has_negative_loss,
    )


def weights_of_answered(totals: Totals) -> point_limits.WeightTotals:
    """Number of samples and sums of their weights w, of w^2 and of w^4, over the samples that did not abstain.

    `totals` are sums over the whole data set.
    """
    return point_limits.WeightTotals(
        total_mass=totals.total_mass,
        squared_weight_sum=totals.squared_weight_sum,
        fourth_power_weight_sum=totals.fourth_power_weight_sum,
        unit_count=totals.sample_count,
        zero_one=totals.zero_one,
        has_negative_loss=totals.has_negative_loss,
    )


def summarise_part(table: MomentTable, totals: Totals, request: EvidenceRequest) -> PartSummary:
    """What one part of the ranking adds to the evidence for a request.

    `table` holds the rows of the part, most confident first, whose accepted sums and total mass are those of the whole
    data set; `totals` are the sums over the whole data set. Losses that are 0 or one number are counted in units of
    that number. A request that is not additive needs the whole ranking as its only part. `request` lists the areas and
    the points of the curve that are gathered.
    """
    in_error_units = totals.in_error_units()
    if in_error_units is not totals:
        totals = in_error_units
        table = table.in_error_units(totals.error_size)
    has_both_kinds = totals.zero_one and 0 < totals.loss_sum < totals.total_mass
    areas = [area for area in request.areas if has_both_kinds or not area.needs_both_kinds]
    area_sums = sum_areas(table, areas, totals.loss_sum, totals.error_size)
    column_totals = None
    sums_at_positions: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    if request.has_points:
        column_totals = sum_columns(table.moment_columns)
        sums_at_positions = _sum_at_positions(table, positions_to_read(totals, request))
    rows = table.rows
    mass_within_risk = {}
    for risk in request.risks:
        largest_loss = risk / totals.error_size * (1 + SHARE_ROUNDING) * rows.accepted_mass
        within = np.flatnonzero(largest_loss >= rows.accepted_loss)
        mass_within_risk[risk] = float(rows.accepted_mass[within[-1]]) if len(within) else 0.0
    return PartSummary(
        area_sums=area_sums,
        column_totals=column_totals,
        sums_at_positions=sums_at_positions,
        mass_within_risk=mass_within_risk,
    )


def _sum_at_positions(
    table: MomentTable, positions: tuple[np.ndarray, np.ndarray]
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """For positions along all samples, and along the right ones: those inside this part, and what is read there.

    What is read at a position are columns of the first row that reaches it: the row's mass, then the sums of the
    table's columns from the start of this part through that row. `table` holds rows, most confident first, with their
    sums of w^2 l^j and w^4 l^j over samples of weight w and loss l.
    """
    rows = table.rows
    mass_above = float(rows.accepted_mass[0] - rows.mass[0])
    loss_above = float(rows.accepted_loss[0] - rows.loss[0])
    running = {
        id(rows.mass): rows.accepted_mass - mass_above,
        id(rows.loss): rows.accepted_loss - loss_above,
    }
    for column in table.moment_columns:
        if id(column) not in running:  # powers of a 0/1 loss are one array
            running[id(column)] = np.cumsum(column)
    sums_at_positions = []
    for counts_right_only, masses in zip((False, True), positions):
        if counts_right_only:
            along = rows.accepted_mass - rows.accepted_loss if masses.size else rows.accepted_mass
            start = mass_above - loss_above
        else:
            along = rows.accepted_mass
            start = mass_above
        requested = np.maximum(masses.reshape(-1), 0.0) * (1 - SHARE_ROUNDING)
        is_inside = (requested <= along[-1]) & (requested >= start * (1 - 4 * SHARE_ROUNDING))
        inside = np.flatnonzero(is_inside)
        row = np.searchsorted(along, requested[inside])
        columns = [rows.mass[row], *(running[id(column)][row] for column in table.moment_columns)]
        sums_at_positions.append((inside, np.stack(columns)))
    return tuple(sums_at_positions)


@dataclass(frozen=True)
class Evidence:
    """One ranking of one loss: sums over its parts, its totals, and the sums accepted at the requested points.

    Attributes
    ----------
    totals : Totals
        Of the data set; losses that are 0 or one number are in units of that number.
    request : EvidenceRequest
        What was gathered.
    area_sums : dict
        Sums of each area, stack_parts over the parts.
    accepted_sums : tuple of AcceptedSums
        Along all samples and along the right ones; empty where no point is requested.
    mass_within_risk : dict
        By requested risk, the largest mass accepted with a selective risk of at most that.
    best_area : float or None
        AURC of the best order, where it is no function of the risk: relative weights, losses other than 0/1.
    """

    totals: Totals
    request: EvidenceRequest
    area_sums: dict[Area, AreaSums]
    accepted_sums: tuple[AcceptedSums, ...]
    mass_within_risk: dict[float, float]
    best_area: float | None = None


def merge_parts(
    parts: Sequence[PartSummary], totals: Totals, request: EvidenceRequest, best_area: float | None = None
) -> Evidence:
    """Evidence from the summaries of all parts of a ranking, most confident first, for the request they were made for.

    `totals` are the sums over the whole data set; losses that are 0 or one number are counted in units of that number.
    `best_area` is the AURC of the best order in the user's units, where it is no function of the risk. `request` lists
    the areas and the points of the curve that are gathered.
    """
    in_error_units = totals.in_error_units()
    if in_error_units is not totals:
        totals = in_error_units
        best_area = None if best_area is None else best_area / totals.error_size
    area_sums = {area: stack_parts([part.area_sums[area] for part in parts]) for area in parts[0].area_sums}
    accepted_sums = _merge_accepted_sums(parts, totals, request) if parts[0].sums_at_positions else ()
    mass_within_risk = {risk: max(part.mass_within_risk[risk] for part in parts) for risk in request.risks}
    return Evidence(
        totals=totals,
        request=request,
        area_sums=area_sums,
        accepted_sums=accepted_sums,
        mass_within_risk=mass_within_risk,
        best_area=best_area,
    )


def _merge_accepted_sums(
    parts: Sequence[PartSummary], totals: Totals, request: EvidenceRequest
) -> tuple[AcceptedSums, ...]:
    """Sums accepted at the positions of `positions_to_read`, along all samples and along the right ones.

    `parts` are most confident first. What a part read within itself gets the sums over all parts above it added. A
    position beyond the last row, which no part reaches, is read at the end of the ranking, as if the last part were one
    row. `totals` are sums over the whole data set. `request` lists the areas and the points of the curve that are
    gathered.
    """
    part_totals = np.asarray([part.column_totals for part in parts])  # shape (parts, 10)
    sums_above = np.cumsum(part_totals, axis=0) - part_totals
    merged = []
    for kind, masses in enumerate(positions_to_read(totals, request)):
        # mass of the row, then sums of w, w l, w^2 l^j (3) and w^4 l^j (5) down to it
        columns = np.empty((11, masses.size))
        columns[0] = part_totals[-1, 0]
        columns[1:] = (sums_above[-1] + part_totals[-1])[:, None]
        # the first part that reaches a position wins
        for part, above in zip(reversed(parts), sums_above[::-1]):
            inside, values = part.sums_at_positions[kind]
            columns[0, inside] = values[0]
            columns[1:, inside] = values[1:] + above[:, None]
        row_mass, accepted_mass, accepted_loss, *powers = columns.reshape(11, *masses.shape)
        merged.append(
            AcceptedSums(
                row_mass=row_mass,
                accepted_mass=accepted_mass,
                accepted_loss=accepted_loss,
                squared_weight_moments=np.stack(powers[:3]),
                fourth_power_moments=np.stack(powers[3:]),
            )
        )
    return tuple(merged)


def gather_evidence(
    tables: Iterable[MomentTable], totals: Totals, request: EvidenceRequest, best_area: float | None = None
) -> Evidence:
    """Evidence of tables in memory, most confident first."""
    parts = [summarise_part(table, totals, request) for table in tables]
    return merge_parts(parts, totals, request, best_area)


# estimates --------------------------------------------------------------------------------------------------


def summarise_totals(totals: Totals) -> SampleSummary:
    """What limits must know of independent samples, from the sums over the data set.

    Losses are in the units of `totals`. Effective counts are (sum x)^2 / sum x^2 of the weights, or of the weighted
    losses, x.
    """
    sample_count = weights_of_all(totals).unit_count
    error_count = 0.0
    if totals.squared_weighted_loss_sum > 0:
        error_count = (totals.loss_sum / math.sqrt(totals.squared_weighted_loss_sum)) ** 2
    right_squares = totals.squared_weight_sum - totals.squared_error_weight_sum
    right_count = 0.0
    if totals.zero_one and right_squares > 0:
        right_count = (totals.total_mass - totals.loss_sum) ** 2 / right_squares
    return SampleSummary(
        sample_count=sample_count,
        unit_count=sample_count,
        effective_draws=totals.total_mass**2 / totals.squared_weight_sum,
        is_zero_one=totals.zero_one,
        has_negative_loss=totals.has_negative_loss,
        risk=totals.risk,
        error_count=error_count,
        pair_count=max(1.0, min(error_count, right_count)),
        right_count=right_count,
        error_draws=error_count,
        right_draws=right_count,
        error_size=totals.error_size,
        largest_loss=_largest_loss(totals),
    )


def _largest_loss(totals: Totals) -> float:
    """About the largest loss, from sums that add up over parts: the mean of losses weighted by their cubes."""
    if totals.zero_one:
        return 1.0
    *_, cubes, fourth_powers = totals.fourth_power_moments  # sums of w^4 l^3 and of w^4 l^4
    return fourth_powers / cubes if cubes > 0 else 0.0


def spread_from_evidence(metric: Metric, evidence: Evidence) -> EstimateSpread:
    """Estimate and spread of a smooth metric.

    Raises InfeasibleError where the metric needs both right and wrong samples and only one kind is there, and
    InputError where it needs the best order of samples with relative weights and the evidence does not have it.
    """
    totals = evidence.totals
    area = metric.area
    if area not in evidence.area_sums:
        if not metric.needs.both_kinds:  # with one kind only, no order is better than another
            return EstimateSpread(estimate=0.0, variance=0.0, variance_excess=0.0)
        raise InfeasibleError(f"{metric.name}: needs both right and wrong samples, got only one kind.")
    reads_oracle = metric.reads_best_curve_area and metric.option_values.get("oracle") == "empirical"
    if reads_oracle and not totals.has_whole_weights and evidence.best_area is None:
        raise InputError(f"interval: {metric.name} with relative weights needs the samples themselves.")
    known_area = None if totals.has_whole_weights else evidence.best_area
    best = metric.best_of_zero_one(totals.total_mass, totals.loss_sum, known_area)
    area_sums = evidence.area_sums[area]
    derivative = metric.derivative(
        math.fsum(area_sums.mass_times_area) / totals.total_mass, totals.risk, best
    )
    centre = None
    if metric.is_centred_on_leave_one_out and totals.has_unit_weights and area.has_leave_one_out:
        centre = math.fsum(area_sums.mass_times_leave_one_out_area) / totals.total_mass
    return limits.make_spread(
        derivative.estimate, combine_parts(area_sums, area, derivative), totals.sample_count, centre
    )


def estimate_interval(
    metric: Metric,
    evidence: Evidence,
    /,
    *,
    level: float = 0.95,
    method: str | None = None,
    loss_bound: float | None = None,
    design_effect: float = 1.0,
    answered_design_effect: float = 1.0,
) -> Interval:
    """The interval of any metric that the evidence was gathered for.

    `design_effect` multiplies the variance of a point of the curve, and `answered_design_effect` that of the share of
    answered samples: what clusters and strata change. The other arguments are those of `interval`. `level` is the
    two-sided confidence level, such as 0.95.
    """
    if isinstance(metric, PointMetric):
        return _point_interval(metric, evidence, level, design_effect, answered_design_effect)
    if not metric.is_smooth:
        raise InputError(
            f"interval: {metric.name} has no influence function and needs the samples themselves."
        )
    is_for_zero_one = metric.needs.order_by_loss or metric.needs.zero_one
    if is_for_zero_one and not evidence.totals.zero_one:
        raise InputError(f"interval: {metric.name} of losses other than 0/1 needs the samples themselves.")
    spread = spread_from_evidence(metric, evidence)
    return limits.make_interval(metric, spread, summarise_totals(evidence.totals), level, method, loss_bound)


def _point_interval(
    metric: PointMetric, evidence: Evidence, level: float, design_effect: float, answered_design_effect: float
) -> Interval:
    """The interval, in the user's units, of a point of the curve; its limits depend on what its cut is placed by.

    A cut is placed by a coverage, a risk or a TPR, which must be among those of `evidence.request`. `design_effect`
    multiplies the variance of the point, `answered_design_effect` that of the share of answered samples. The standard
    error is that of a normal interval of the same width. Limits include the estimate; shares stay within [0, 1].
    `level` is the two-sided confidence level, such as 0.95. `metric` is what is estimated, with its options.
    """
    totals = evidence.totals
    note = ""
    if metric.cut_at == "tpr":
        sample = summarise_totals(totals)
        note = note_on_few_draws(metric.rule, sample.error_draws, sample)[1]
        value, (low, high) = _limits_at_tpr(metric.cut, evidence, level, design_effect)
    elif metric.cut_at == "coverage":
        value, (low, high) = _limits_at_coverage(metric.cut, evidence, level, design_effect)
    else:
        value, (low, high) = _limits_at_risk(
            metric.cut, evidence, level, design_effect, answered_design_effect
        )
    low = min(low, value)
    high = max(high, value)
    if totals.zero_one or metric.cut_at == "risk":
        low = max(low, 0.0)
        high = min(high, 1.0)
    interval = Interval(
        metric=metric.name,
        estimate=value,
        standard_error=(high - low) / (2 * limits.student_quantile(math.inf, level)),
        low=low,
        high=high,
        level=level,
        method="pointwise",
        n=weights_of_all(totals).unit_count,
        note=note,
    )
    return limits.in_loss_units(metric, interval, totals.error_size)


def _limits_at_tpr(
    tpr: float, evidence: Evidence, level: float, design_effect: float
) -> tuple[float, Limits]:
    """Share of errors accepted where a share `tpr` of the right samples is accepted, and its limits at this level.

    `tpr` is one of `evidence.request.tprs`. `design_effect` multiplies the variance, for clusters and strata.
    """
    totals = evidence.totals
    _along_all, along_right = evidence.accepted_sums
    accepted_sums = along_right.select([evidence.request.tprs.index(tpr)])
    error_sums = (totals.loss_sum, totals.squared_error_weight_sum, totals.fourth_power_moments[1])
    answered = weights_of_answered(totals)._replace(zero_one=True, has_negative_loss=False)
    limits_of_share = point_limits.fpr_limits(accepted_sums, tpr, answered, error_sums, level, design_effect)
    return float(accepted_sums.accepted_loss[0, 0] / totals.loss_sum), limits_of_share


def _limits_at_coverage(
    coverage: float, evidence: Evidence, level: float, design_effect: float
) -> tuple[float, Limits]:
    """Selective risk at a coverage, in units of an error, and its limits at this level.

    `coverage`, a share of all samples, is one of `evidence.request.coverages`. `design_effect` multiplies the variance,
    for clusters and strata. Raises InfeasibleError where too many samples abstained to reach the coverage.
    """
    totals = evidence.totals
    whole = weights_of_all(totals)
    along_all, _along_right = evidence.accepted_sums
    accepted_sums = along_all.select([evidence.request.coverages.index(coverage)])
    if coverage * (1 - SHARE_ROUNDING) > totals.total_mass / whole.total_mass:
        raise InfeasibleError(
            f"risk_at_coverage: coverage {coverage:g} cannot be reached, since abstained samples are never "
            f"accepted. Ask for at most the share that was answered."
        )
    low, high, _ = point_limits.risk_limits(
        accepted_sums, np.asarray([coverage]), whole, level, design_effect
    )
    risk = float(accepted_sums.risk[0, 0])  # at the cut itself, the first of its five positions
    return risk, (float(low[0]), float(high[0]))


def _limits_at_risk(
    risk: float, evidence: Evidence, level: float, design_effect: float, answered_design_effect: float
) -> tuple[float, Limits]:
    """Largest coverage, as a share of all samples, with a selective risk of at most `risk`; and its limits.

    `risk`, in the user's units, is one of `evidence.request.risks`. The limits are those of the coverage among the
    answered samples, whose variance `design_effect` multiplies, times the share of answered samples, whose variance
    `answered_design_effect` multiplies. `level` is the two-sided confidence level, such as 0.95.
    """
    totals = evidence.totals
    whole = weights_of_all(totals)
    along_all, _along_right = evidence.accepted_sums
    # the positions of the requested coverages come first
    accepted_sums = along_all.select(slice(len(evidence.request.coverages), None))
    share_of_answered = evidence.mass_within_risk[risk] / totals.total_mass
    value = evidence.mass_within_risk[risk] / whole.total_mass
    low, high = point_limits.coverage_limits(
        accepted_sums, weights_of_answered(totals), risk / totals.error_size, level, design_effect
    )
    if totals.abstained.sample_count:
        low, high = point_limits.scaled_by_answered_share(
            share_of_answered,
            (min(low, share_of_answered), max(high, share_of_answered)),
            totals.total_mass / whole.total_mass,
            whole.total_mass**2 / whole.squared_weight_sum / answered_design_effect,
            level,
        )
    return value, (low, high)
