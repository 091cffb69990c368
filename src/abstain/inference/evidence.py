"""Evidence: all that an error bar reads of one ranking of one loss, wherever the samples are.

    samples | block table | ranges of files, of Dask, of Spark
        -> MomentTable  some rows, most confident first, with the accepted sums and total mass of the whole set
        -> PartSummary  `summarise_part(table, totals, request)`: its sums, and the curve points that fall into it
        -> Evidence     `merge_parts(parts, totals, request)`
        -> Interval     `estimate_interval(metric, evidence)`

An engine needs the totals of the data set first (a pass it makes anyhow), then delivers one `PartSummary` per range,
by `summarise_part`; a range that is one tie is a table of one row, made from its sums of w^p l^j. Part summaries are
small (some hundred numbers; eleven sums at each of five times 512 positions where a coverage at a risk is requested)
and are merged in the order of the ranges, most confident first. Nothing after that knows where they came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Literal, NamedTuple, TypeVar

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
from abstain.core.rows import Rows
from abstain.errors import InfeasibleError, InputError
from abstain.inference import limits, point_limits
from abstain.inference.point_limits import AcceptedSums
from abstain.inference.records import Interval
from abstain.metrics.definitions import ESTIMATOR, TIE_RULE
from abstain.metrics.limit_rules import draws_behind
from abstain.metrics.metric import Metric, PointMetric
from abstain.metrics.summaries import EstimateSpread, SampleSummary


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
    """What must be gathered from a ranking to estimate these metrics: areas, and points of the curve.

    A request has one estimator and one rule for ties: callers pass metrics that agree on these wherever they were set,
    and where none sets them the defaults are taken. A point of the curve is requested by its cut: a coverage, a risk or
    a TPR. Other metrics are functions of one area each, `metric.area`; one without an influence function is left out,
    since it needs the samples themselves. Entries are unique, in the order of the metrics.
    """
    areas: list[Area] = []
    cuts: dict[str, list[float]] = {"coverage": [], "risk": [], "tpr": []}
    estimator = ESTIMATOR.default
    ties = TIE_RULE.default
    for metric in metrics:
        settings = dict(metric.settings)  # options that were set, by name
        estimator = settings.get("estimator", estimator)
        ties = settings.get("ties", ties)
        if isinstance(metric, PointMetric):
            if metric.cut not in cuts[metric.cut_at]:
                cuts[metric.cut_at].append(metric.cut)
        elif metric.is_smooth and metric.area not in areas:  # `is_smooth`: it has an influence function
            areas.append(metric.area)
    return EvidenceRequest(
        areas=tuple(areas),
        estimator=estimator,
        ties=ties,
        coverages=tuple(cuts["coverage"]),
        risks=tuple(cuts["risk"]),
        tprs=tuple(cuts["tpr"]),
    )


_T = TypeVar("_T")


class ByMass(NamedTuple, Generic[_T]):
    """Something at each of several positions in the ranking, which is cut where an accepted mass is reached.

    Positions in `by_accepted_mass` are accepted masses, of right and wrong samples; those in `by_accepted_right_mass`
    are accepted masses of the right samples alone. Abstained samples are never accepted.
    """

    by_accepted_mass: _T
    by_accepted_right_mass: _T


class SumsInPart(NamedTuple):
    """Sums read at those positions (accepted masses) that fall into one part of a ranking.

    Attributes
    ----------
    positions : ndarray of int, shape (k,)
        Indices of these positions among all that were requested, flattened.
    columns : ndarray, shape (11, k)
        The mass at the confidence that reaches the position, then the ten sums of `MomentTable.moment_columns` from the
        start of the part through that confidence.
    """

    positions: np.ndarray
    columns: np.ndarray


class PartSummary(NamedTuple):
    """What one part of the ranking adds to the evidence; made by `summarise_part`.

    Attributes
    ----------
    area_sums : dict
        Sums of each requested area.
    column_totals : ndarray, shape (10,), or None
        Over the part, the sums of w, of w l, of w^2 l^j (j = 0, 1, 2) and of w^4 l^j (j = 0 ... 4), the columns of
        `MomentTable.moment_columns`; None where no point of the curve is requested.
    sums_at_positions : ByMass of SumsInPart, or None
        Sums at the positions that fall into this part; None where no point of the curve is requested, and where an
        engine dropped them after use.
    mass_within_risk : dict
        By requested risk, the largest mass accepted with a selective risk of at most that.
    """

    area_sums: dict[Area, AreaSums]
    column_totals: np.ndarray | None
    sums_at_positions: ByMass[SumsInPart] | None
    mass_within_risk: dict[float, float]


@lru_cache(maxsize=64)
def positions_to_read(totals: Totals, request: EvidenceRequest) -> ByMass[np.ndarray]:
    """Accepted masses at which the sums for the requested points of the curve are read.

    Two arrays of shape (5, points), shared by all callers: not to be changed. A cut is the mass down to which the
    ranking is accepted. The five entries of a point are its cut, the end of a window above it and of one below, and the
    earliest and the latest position where the true cut may be. Among the accepted masses, from the most confident down,
    come first the requested coverages, as shares of all samples, abstained ones included; and then, if a coverage at a
    risk is requested, `point_limits.CUTS` evenly spaced shares of the answered samples. Among the accepted masses of
    right samples come the requested TPRs; none unless losses are 0/1. `totals` are the sums over the whole data set,
    `request` names the coverages, risks and TPRs.
    """
    # `totals` themselves are over the answered samples; with the abstained ones, of which coverages are shares:
    all_samples = weights_of_all(totals)
    around_coverages = point_limits.positions(
        np.asarray(request.coverages),
        mass=all_samples.total_mass,
        squared_weight_sum=all_samples.squared_weight_sum,
        sample_count=all_samples.unit_count,  # each sample is a unit
    )
    # shape (5, coverages): `positions` returns the five of each cut
    by_accepted_mass = np.stack(around_coverages)
    if request.risks:  # which coverage has the risk is not known yet: read everywhere
        around_cuts = point_limits.positions(
            point_limits.coverages(),  # CUTS even shares
            mass=totals.total_mass,
            squared_weight_sum=totals.squared_weight_sum,
            sample_count=totals.sample_count,
        )
        by_accepted_mass = np.concatenate([by_accepted_mass, np.stack(around_cuts)], axis=1)
    around_tprs = point_limits.positions_along_right(
        np.asarray(request.tprs if totals.zero_one else ()),
        right_mass=totals.total_mass - totals.loss_sum,  # an error has loss 1
        squared_weight_sum=totals.squared_weight_sum - totals.squared_weight_sum_of_errors,
        # right and wrong ones: a window is as wide as a few samples of both kinds, each with this share of the right
        # mass
        sample_count=totals.sample_count,
    )
    return ByMass(by_accepted_mass=by_accepted_mass, by_accepted_right_mass=np.stack(around_tprs))


def weights_of_all(totals: Totals) -> point_limits.WeightTotals:
    """Number of samples and sums of their weights w, of w^2 and of w^4, over all samples, abstained ones included.

    `totals` are the sums over the answered samples, with those over the abstained ones in `totals.abstained`.
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

    `totals` are the sums over these samples; what it holds of abstained ones, in `totals.abstained`, is not read.
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
    """The sums over one part of a ranking that the requested areas and points of the curve need.

    `table` holds the rows of the part: one for each distinct confidence, most confident first, with the sums accepted
    from the top of the whole data set. `totals` are the sums over the whole data set; `request` says which areas and
    points are asked for. Losses that are 0 or one number c are divided by c, and `totals.error_size` says so: it is one
    unit of the losses in the user's units. Areas that need both right and wrong samples are left out where only one
    kind occurs. If the sums of some area do not add up over parts (`request.is_additive` is False), the caller passes
    the whole ranking as one part.
    """
    # where losses are 0 and c, totals of 0/1 losses with `error_size` c; otherwise the same object
    in_error_units = totals.in_error_units()
    if in_error_units is not totals:
        totals = in_error_units
        table = table.in_error_units(totals.error_size)
    # the loss sum of 0/1 losses is the mass of the errors
    has_right_and_wrong = totals.zero_one and 0 < totals.loss_sum < totals.total_mass
    areas = [area for area in request.areas if has_right_and_wrong or not area.needs_both_kinds]
    column_totals = None
    sums_at_positions = None
    if request.has_points:
        # by row, the sums of w, of w l, of w^2 l^j and of w^4 l^j, with weights w and losses l
        column_totals = sum_columns(table.moment_columns)
        sums_at_positions = _sum_at_positions(table, positions_to_read(totals, request))
    return PartSummary(
        # by area, sums over the part; the loss unit is for a user's own area, which reads losses in the user's units
        area_sums=sum_areas(table, areas, error_mass=totals.loss_sum, loss_unit=totals.error_size),
        column_totals=column_totals,
        sums_at_positions=sums_at_positions,
        # by requested risk, in the user's units: the largest mass, from the top of the whole ranking to a row of this
        # part, with a risk of at most that; 0 where none has it
        mass_within_risk={
            risk: _largest_mass_within(table.rows, risk / totals.error_size) for risk in request.risks
        },
    )


def _largest_mass_within(rows: Rows, risk: float) -> float:
    """The largest accepted mass, at one of these rows, with a selective risk of at most `risk`; 0 where none has it.

    `rows` are most confident first; `risk` is in the units of their losses, and rounding of a share is allowed.
    """
    largest_loss = risk * (1 + SHARE_ROUNDING) * rows.accepted_mass
    within = np.flatnonzero(largest_loss >= rows.accepted_loss)
    return float(rows.accepted_mass[within[-1]]) if len(within) else 0.0


def _sum_at_positions(table: MomentTable, positions: ByMass[np.ndarray]) -> ByMass[SumsInPart]:
    """Which of the positions (accepted masses) fall into this part of the ranking, and the sums there.

    A position is reached by the first row (distinct confidence), from the top, with which the accepted mass is at least
    as large. Sums run from the start of this part through that row; what is summed are the ten columns of
    `table.moment_columns`: w, w l, w^2 l^j and w^4 l^j by row. `table` holds the rows of the part, most confident
    first, whose accepted mass and loss count from the top of the whole data set. Positions that are accepted masses of
    right samples are there for 0/1 losses only.
    """
    rows = table.rows  # by row: its mass and loss, and the mass and loss accepted with it
    mass_above = float(rows.accepted_mass[0] - rows.mass[0])  # accepted before this part
    loss_above = float(rows.accepted_loss[0] - rows.loss[0])
    # Keyed by the identity of a column: powers of a 0/1 loss are one array object, which is summed once. The sums of
    # the first two columns, mass and loss, are known.
    cumulative = {
        id(rows.mass): rows.accepted_mass - mass_above,
        id(rows.loss): rows.accepted_loss - loss_above,
    }
    for column in table.moment_columns:
        if id(column) not in cumulative:
            cumulative[id(column)] = np.cumsum(column)
    cumulative_columns = [cumulative[id(column)] for column in table.moment_columns]
    by_accepted_mass = _read_columns(
        rows.mass,
        cumulative_columns,
        positions.by_accepted_mass,
        accepted=rows.accepted_mass,
        accepted_above=mass_above,
    )
    accepted_right = rows.accepted_mass
    if positions.by_accepted_right_mass.size:  # otherwise nothing is read, and the subtraction is saved
        accepted_right = rows.accepted_mass - rows.accepted_loss  # an error has loss 1
    by_accepted_right_mass = _read_columns(
        rows.mass,
        cumulative_columns,
        positions.by_accepted_right_mass,
        accepted=accepted_right,
        accepted_above=mass_above - loss_above,
    )
    return ByMass(by_accepted_mass=by_accepted_mass, by_accepted_right_mass=by_accepted_right_mass)


def _read_columns(
    row_mass: np.ndarray,
    cumulative_columns: list[np.ndarray],
    positions: np.ndarray,
    accepted: np.ndarray,
    accepted_above: float,
) -> SumsInPart:
    """Read the mass and the cumulative columns at the first row of a part that reaches each position inside the part.

    `accepted` is the mass accepted with each row, ascending, and `accepted_above` that accepted before the first row;
    both count from the top of the whole ranking. `positions` may have any shape; the result holds their flat indices,
    with one line for `row_mass` and one for each of `cumulative_columns`, which are sums from the start of the part
    through each row. Positions below 0 count as 0. A position within rounding of the start of the part belongs to it as
    well as to the part above, which has precedence when parts are merged.
    """
    # a little lower (1e-11 of it), so that a row which reaches a position but for rounding counts
    requested = np.maximum(positions.reshape(-1), 0.0) * (1 - SHARE_ROUNDING)
    # four times the rounding of a share: that of `requested`, and of the sums above in both parts
    is_inside = (requested <= accepted[-1]) & (requested >= accepted_above * (1 - 4 * SHARE_ROUNDING))
    inside = np.flatnonzero(is_inside)
    # the first row that reaches each position; there is one, since none of these is beyond the last row
    row = np.searchsorted(accepted, requested[inside])
    columns = [row_mass[row], *(column[row] for column in cumulative_columns)]
    return SumsInPart(positions=inside, columns=np.stack(columns))


@dataclass(frozen=True)
class Evidence:
    """One ranking of one loss: sums over its parts, its totals, and the sums accepted at the requested points.

    Attributes
    ----------
    totals : Totals
        Sums over all answered samples of the data set, with those over the abstained ones in `totals.abstained`; losses
        that are 0 or one number are in units of that number.
    request : EvidenceRequest
        What was gathered.
    area_sums : dict
        Sums of each area, stacked over the parts.
    accepted_sums : ByMass of AcceptedSums, or None
        Sums over all samples that are accepted at the positions of the requested points, arrays of shape (..., 5,
        points) in the layout of `positions_to_read`. None where no point is requested, and where engines dropped the
        sums, after the intervals of all points were computed.
    mass_within_risk : dict
        By requested risk, the largest mass accepted with a selective risk of at most that.
    best_area : float or None
        AURC of the best order, where it is no function of the risk: relative weights, losses other than 0/1.
    """

    totals: Totals
    request: EvidenceRequest
    area_sums: dict[Area, AreaSums]
    accepted_sums: ByMass[AcceptedSums] | None
    mass_within_risk: dict[float, float]
    best_area: float | None = None

    def sums_around_coverage(self, coverage: float) -> AcceptedSums:
        """The sums at the five positions around the cut at a requested coverage; arrays of shape (..., 5, 1)."""
        # a list as index keeps the last axis
        return self._kept_sums.by_accepted_mass.select([self.request.coverages.index(coverage)])

    def sums_around_even_shares(self) -> AcceptedSums:
        """The sums around cuts at even shares of the answered samples; there only if a coverage at a risk is requested.

        Arrays of shape (..., 5, cuts), in the order of the shares that `point_limits.coverages` returns.
        """
        # they come after those of the requested coverages
        return self._kept_sums.by_accepted_mass.select(slice(len(self.request.coverages), None))

    def sums_around_tpr(self, tpr: float) -> AcceptedSums:
        """The sums at the five positions around the cut at a requested TPR; arrays of shape (..., 5, 1)."""
        return self._kept_sums.by_accepted_right_mass.select([self.request.tprs.index(tpr)])

    @property
    def _kept_sums(self) -> ByMass[AcceptedSums]:
        """`accepted_sums` where a point was requested: engines drop them only after its interval is computed."""
        assert self.accepted_sums is not None
        return self.accepted_sums


def merge_parts(
    parts: Sequence[PartSummary], totals: Totals, request: EvidenceRequest, best_area: float | None = None
) -> Evidence:
    """Add up the summaries of all parts of a ranking, most confident first, made for this `request`.

    There is at least one part. `totals` are the sums over the whole data set that `summarise_part` got for each part,
    in the same units. Losses that are 0 or one number are divided by that number: `summarise_part` has converted all
    sums of the parts, and the totals and the best area are converted here. Masses have no such unit. `best_area` is the
    AURC of the best order (smallest losses first), in the units of `totals`, where it is no function of the risk alone:
    for relative weights (no numbers of repetitions), and losses other than 0/1; None otherwise.
    """
    in_error_units = totals.in_error_units()  # the same object if nothing changes
    if in_error_units is not totals:
        totals = in_error_units  # `error_size` is now that number
        best_area = None if best_area is None else best_area / totals.error_size
    areas = parts[0].area_sums  # every part has sums of the same areas
    # one array for each sum, with one entry per part
    area_sums = {area: stack_parts([part.area_sums[area] for part in parts]) for area in areas}
    accepted_sums = None
    if request.has_points:
        # at the positions that the sums of each part were read at: the same totals give the same ones
        accepted_sums = _merge_accepted_sums(parts, positions_to_read(totals, request))
    # By risk, in the user's units: the largest accepted mass with a risk of at most that, 0 for a part without one.
    # Masses count from the top of the whole data set, so the largest of the parts is that of all.
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
    parts: Sequence[PartSummary], positions: ByMass[np.ndarray]
) -> ByMass[AcceptedSums] | None:
    """The sums over all samples accepted at each position, for both kinds of positions in `ByMass`.

    `parts` are most confident first. `positions` are the accepted masses that their sums were read at, two arrays of
    shape (5, points); only these shapes are needed here, since the sums hold flat indices of their positions. None
    where a part no longer has its sums at positions: engines drop them once the intervals of the points are computed.
    """
    read_in_parts = [part.sums_at_positions for part in parts if part.sums_at_positions is not None]
    if len(read_in_parts) < len(parts):
        return None
    # Shape (parts, 10): sums of w, of w l, of w^2 l^j (j = 0, 1, 2) and of w^4 l^j (j = 0 ... 4) over each part. A part
    # with sums at positions has these too.
    part_totals = np.asarray([part.column_totals for part in parts])
    return ByMass(
        by_accepted_mass=_merge_sums_at_positions(
            [sums.by_accepted_mass for sums in read_in_parts], part_totals, positions.by_accepted_mass.shape
        ),
        by_accepted_right_mass=_merge_sums_at_positions(
            [sums.by_accepted_right_mass for sums in read_in_parts],
            part_totals,
            positions.by_accepted_right_mass.shape,
        ),
    )


def _merge_sums_at_positions(
    parts: Sequence[SumsInPart], part_totals: np.ndarray, shape: tuple[int, ...]
) -> AcceptedSums:
    """The sums accepted at each position, with the shape of the positions, from those read within each part.

    What a part read within itself gets the sums over all parts above it added. Parts are most confident first, and each
    has the flat indices of the positions it read; `part_totals` holds the ten sums over each, shape (parts, 10). A
    position beyond the last row, which no part reaches, is read at the end of the ranking, as if the last part were one
    row.
    """
    sums_above = np.cumsum(part_totals, axis=0) - part_totals
    row_mass = np.full(math.prod(shape), part_totals[-1, 0])
    sums = np.repeat((sums_above[-1] + part_totals[-1])[:, None], math.prod(shape), axis=1)
    # where two parts read the same position, the first one counts: it is written last
    for part, above in zip(reversed(parts), sums_above[::-1], strict=True):
        row_mass[part.positions] = part.columns[0]  # the mass of the row; then come the ten sums
        sums[:, part.positions] = part.columns[1:] + above[:, None]
    # sums of w, of w l, of w^2 l^j (three) and of w^4 l^j (five), in the order of `MomentTable.moment_columns`
    sums = sums.reshape(len(sums), *shape)
    return AcceptedSums(
        row_mass=row_mass.reshape(shape),
        accepted_mass=sums[0],
        accepted_loss=sums[1],
        squared_weight_moments=sums[2:5],
        fourth_power_moments=sums[5:],
    )


def gather_evidence(
    tables: Iterable[MomentTable], totals: Totals, request: EvidenceRequest, best_area: float | None = None
) -> Evidence:
    """Evidence of tables in memory, most confident first."""
    parts = [summarise_part(table, totals, request) for table in tables]
    return merge_parts(parts, totals, request, best_area)


# estimates --------------------------------------------------------------------------------------------------


def summarise_totals(totals: Totals) -> SampleSummary:
    """Counts of samples, errors and right samples, from the sums over a data set of independent samples.

    Losses, and with them the risk, are in units of `totals.error_size`, by which the user's losses were divided: c
    where all are 0 or c, else usually 1. `sample_count` and `unit_count` (independent draws, here samples) of the
    result include abstained samples; its other numbers are those of the answered samples alone, of which there is at
    least one. Counts of errors and right samples are effective ones: (sum x)^2 / sum x^2 of the weights, or of the
    weighted losses, x. Right samples are counted for 0/1 losses only, otherwise 0. With negative losses the count of
    errors has no meaning, and nothing reads it.
    """
    sample_count = totals.sample_count + totals.abstained.sample_count
    error_count = 0.0
    if totals.squared_weighted_loss_sum > 0:
        # The root first: the square of a large loss sum may leave the range of a float, the ratio does not. Sums of
        # weights are never so large, since weights were divided by a unit near them.
        error_count = (totals.loss_sum / math.sqrt(totals.squared_weighted_loss_sum)) ** 2
    # what is left of the sum of w^2 without the errors, where these have loss 1
    right_squares = totals.squared_weight_sum - totals.squared_weight_sum_of_errors
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
        # disjoint pairs of a right sample and an error: read only where both occur, so that there is at least one
        pair_count=max(1.0, min(error_count, right_count)),
        right_count=right_count,
        # every sample is a draw here; with clusters the caller counts draws anew
        error_draws=error_count,
        right_draws=right_count,
        error_size=totals.error_size,
        largest_loss=_largest_loss(totals),
    )


def _largest_loss(totals: Totals) -> float:
    """About the largest loss, in the units of `totals`; 1 for 0/1 losses, and 0 where no loss is above 0.

    `totals` hold no maximum, only sums of powers: this is sum w^4 l^4 / sum w^4 l^3, a mean of the losses in which the
    largest ones weigh most.
    """
    if totals.zero_one:
        return 1.0
    *_, cubes, fourth_powers = totals.fourth_power_moments  # sums of w^4 l^3 and of w^4 l^4
    return fourth_powers / cubes if cubes > 0 else 0.0


def spread_from_evidence(metric: Metric, evidence: Evidence) -> EstimateSpread:
    """The estimate of a metric with an influence function, and its variance, by the delta method.

    A metric is a function of an area, the risk, and perhaps the best value that the area can have for these losses; its
    variance follows from the derivatives of that function and the sums over the ranking in `evidence.area_sums`. Losses
    behind them were divided by `evidence.totals.error_size`, and the result is in these units. Losses are then 0/1, or
    of any size for a metric that reads no best area: the caller has checked it. Weights are whole where they are
    numbers of repetitions, or all 1; all others are relative.

    Raises InfeasibleError where the metric needs both right and wrong samples and only one kind is there, and
    InputError where it needs the best order of samples with relative weights and the evidence does not have it.
    """
    totals = evidence.totals
    area = metric.area  # the one that the metric is made of; equal areas are equal keys of `area_sums`
    # an area that compares right with wrong samples is left out where one kind is missing
    if area not in evidence.area_sums:
        if metric.needs.both_kinds:
            raise InfeasibleError(f"{metric.name}: needs both right and wrong samples, got only one kind.")
        # a gain over a random order, and with one kind no order is better than another
        return EstimateSpread(estimate=0.0, variance=0.0, variance_of_variance=0.0)
    area_sums = evidence.area_sums[area]
    # `area_sums` has one entry for each part of the ranking
    area_value = math.fsum(area_sums.mass_times_area) / totals.total_mass
    # `oracle` is "empirical", the best order of these samples, or "asymptotic", a function of the risk alone
    reads_best_order = metric.reads_best_curve_area and metric.option_values.get("oracle") == "empirical"
    if reads_best_order and not totals.has_whole_weights and evidence.best_area is None:
        raise InputError(f"interval: {metric.name} with relative weights needs the samples themselves.")
    # with whole weights the area of the best order (all errors last) follows from the mass of the errors
    known_best_area = None if totals.has_whole_weights else evidence.best_area
    # None for metrics that compare with no best order, or that compute its area from the risk themselves
    best_area = metric.best_area_for_zero_one(totals.total_mass, totals.loss_sum, known_best_area)
    # the value of the metric, with its derivatives in the area, the risk and the best area
    derivative = metric.derivative(area_value, totals.risk, best_area)
    less_biased_estimate = None  # an interval is then built around the estimate itself
    if metric.is_centred_on_leave_one_out and totals.has_unit_weights and area.has_leave_one_out:
        less_biased_estimate = math.fsum(area_sums.mass_times_leave_one_out_area) / totals.total_mass
    # over all samples: powers of their influences on the metric, and what their losses add to it
    influence_sums = combine_parts(area_sums, area, derivative)
    return limits.make_spread(
        derivative.estimate,
        influence_sums,
        unit_count=totals.sample_count,
        less_biased_estimate=less_biased_estimate,
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
    cluster_effect: float = 1.0,
) -> Interval:
    """The interval, in the user's units, of any metric that the evidence was gathered for.

    `evidence` holds sums over one ranking, of independent samples. Three numbers say what clusters and strata change,
    for points of the curve alone: `design_effect` multiplies the variance of the point, `answered_design_effect` that
    of the share of answered samples, and `cluster_effect` divides the number of independent draws where all accepted
    0/1 losses are equal, so that no variance is there to multiply. For other metrics this is the interval of
    independent samples; `interval` does not use it for clusters and strata, since the influences of all samples then
    give the variance itself.

    `level` is the two-sided confidence level, such as 0.95; `method` ("log", "logit", "normal", None: the metric's own
    scale) and `loss_bound`, an upper bound of the losses (None: not known), are not read for points of the curve.
    Raises InputError for a metric that the sums do not suffice for.
    """
    if isinstance(metric, PointMetric):
        return _point_interval(metric, evidence, level, design_effect, answered_design_effect, cluster_effect)
    if not metric.is_smooth:  # no influence function in its definition
        raise InputError(
            f"interval: {metric.name} has no influence function and needs the samples themselves."
        )
    # Some metrics (`needs.zero_one`) are defined for 0/1 losses alone. Others compare with the best order, which for
    # losses other than 0/1 is a second ranking, whose sums are not part of the evidence.
    is_for_zero_one = metric.needs.order_by_loss or metric.needs.zero_one
    if is_for_zero_one and not evidence.totals.zero_one:
        raise InputError(f"interval: {metric.name} of losses other than 0/1 needs the samples themselves.")
    spread = spread_from_evidence(metric, evidence)
    return limits.make_interval(metric, spread, summarise_totals(evidence.totals), level, method, loss_bound)


def _point_interval(
    metric: PointMetric,
    evidence: Evidence,
    level: float,
    design_effect: float,
    answered_design_effect: float,
    cluster_effect: float,
) -> Interval:
    """The interval, in the user's units, of a point of the curve.

    The cut of the point, `metric.cut`, is a coverage, a risk or a TPR (`metric.cut_at` says which) and must be among
    those that the sums over the ranking, `evidence`, were gathered for. `design_effect` multiplies the variance of the
    point, `answered_design_effect` that of the share of answered samples; `cluster_effect` divides the number of draws
    where all accepted 0/1 losses are equal, so that no variance is seen (an FPR does not read it: its draws are divided
    by the design effect). The standard error is that of a normal interval of the same width. Limits include the
    estimate; shares stay within [0, 1]. `level` is the two-sided confidence level, such as 0.95.
    """
    totals = evidence.totals
    note = ""
    if metric.cut_at == "tpr":
        # The only point that is a share of the errors, and whose cut is a share of the right samples: a sample may have
        # few of either, which the note says.
        sample = summarise_totals(totals)
        # "" with enough of both; `metric.rule` says that right samples matter to it as errors do
        note = draws_behind(metric.rule, sample.error_draws, sample).note
        point = _fpr_at_tpr(metric.cut, evidence, level, design_effect)
    elif metric.cut_at == "coverage":
        point = _risk_at_coverage(metric.cut, evidence, level, design_effect, cluster_effect)
    else:
        point = _coverage_at_risk(
            metric.cut, evidence, level, design_effect, answered_design_effect, cluster_effect
        )
    low = min(point.low, point.value)
    high = max(point.high, point.value)
    is_share = totals.zero_one or metric.cut_at == "risk"  # a risk of 0/1 losses, an FPR, or a coverage
    if is_share:
        low = max(low, 0.0)
        high = min(high, 1.0)
    # two-sided; Student's t with infinitely many degrees of freedom is the normal law
    normal_quantile = limits.student_quantile(math.inf, level)
    interval = Interval(
        metric=metric.key,
        estimate=point.value,
        standard_error=(high - low) / (2 * normal_quantile),
        low=low,
        high=high,
        level=level,
        method="pointwise",
        n=totals.sample_count + totals.abstained.sample_count,
        note=note,
    )
    # `error_size` times it, if the metric scales with the loss
    return limits.in_loss_units(metric, interval, totals.error_size)


class _Point(NamedTuple):
    """A point of the curve with its limits; risks are in units of `Evidence.totals.error_size`."""

    value: float
    low: float
    high: float


def _fpr_at_tpr(tpr: float, evidence: Evidence, level: float, design_effect: float) -> _Point:
    """Share of the errors that are accepted where a share `tpr` of the right samples is, and its limits at this level.

    `evidence` holds sums over one ranking, read around the cuts that were requested; `tpr` is one of them. Losses are
    0/1, and both errors and right samples occur. `design_effect` multiplies the variance, for clusters and strata.
    """
    totals = evidence.totals  # over the answered samples
    errors = point_limits.KindTotals(
        mass=totals.loss_sum,
        squared_weight_sum=totals.squared_weight_sum_of_errors,
        fourth_power_weight_sum=totals.fourth_power_moments[1],  # sum of w^4 l, and errors have l = 1
    )
    # over the samples accepted down to each of five positions: the cut, the end of a window above it and of one below,
    # and the earliest and latest place where the true cut may be; arrays of shape (..., 5, 1)
    sums_around_cut = evidence.sums_around_tpr(tpr)
    # two numbers, with errors counted among the answered samples alone
    low, high = point_limits.fpr_limits(
        sums_around_cut, tpr, weights_of_answered(totals), errors, level, design_effect
    )
    sums_at_cut = sums_around_cut.by_position().cut
    accepted_errors = sums_at_cut.accepted_loss.item()  # their mass, since an error has loss 1
    return _Point(value=accepted_errors / totals.loss_sum, low=low, high=high)


def _risk_at_coverage(
    coverage: float, evidence: Evidence, level: float, design_effect: float, cluster_effect: float
) -> _Point:
    """Selective risk at a coverage, in units of `evidence.totals.error_size`, and its limits at this two-sided level.

    `evidence` holds sums over one ranking, whose losses were divided by that size. `coverage`, a share of all samples,
    is one of the requested ones, around which sums were read. `design_effect` multiplies the variance, for clusters and
    strata; `cluster_effect` divides the number of draws where all accepted 0/1 losses are equal, so that no variance is
    seen. Raises InfeasibleError where too many samples abstained to reach the coverage.
    """
    answered_mass = evidence.totals.total_mass
    all_samples = weights_of_all(evidence.totals)  # abstained ones included
    answered_share = answered_mass / all_samples.total_mass
    if coverage * (1 - SHARE_ROUNDING) > answered_share:
        raise InfeasibleError(
            f"risk_at_coverage: coverage {coverage:g} cannot be reached, since abstained samples are never "
            f"accepted. Ask for at most the share that was answered."
        )
    # over the samples accepted down to each of five positions: the cut, the end of a window above it and of one below,
    # and the earliest and latest place where the true cut may be; arrays of shape (..., 5, 1)
    sums_around_cut = evidence.sums_around_coverage(coverage)
    risk_limits = point_limits.risk_limits(
        sums_around_cut, np.asarray([coverage]), all_samples, level, design_effect, cluster_effect
    )
    sums_at_cut = sums_around_cut.by_position().cut  # over the samples that are accepted at the coverage
    return _Point(value=sums_at_cut.risk.item(), low=risk_limits.low.item(), high=risk_limits.high.item())


def _coverage_at_risk(
    risk: float,
    evidence: Evidence,
    level: float,
    design_effect: float,
    answered_design_effect: float,
    cluster_effect: float,
) -> _Point:
    """Largest coverage, as a share of all samples, with a selective risk of at most `risk`; and its limits.

    `evidence` holds sums over one ranking. `risk`, in the user's units, is one of the requested ones. The limits are
    those of the coverage among the answered samples, whose variance `design_effect` multiplies, times the share of
    answered samples, whose variance `answered_design_effect` multiplies; `cluster_effect` divides the number of draws
    where all accepted 0/1 losses are equal, so that no variance is seen. `level` is the two-sided confidence level,
    such as 0.95.
    """
    totals = evidence.totals  # over the answered samples
    all_samples = weights_of_all(totals)  # abstained ones included
    accepted_mass = evidence.mass_within_risk[risk]  # the largest one with a selective risk of at most `risk`
    coverage_of_answered = accepted_mass / totals.total_mass
    risk_in_errors = risk / totals.error_size  # losses of `evidence` were divided by `error_size`
    # the cuts are even shares of the answered samples, and so these limits are coverages among the answered samples
    low, high = point_limits.coverage_limits(
        evidence.sums_around_even_shares(),
        weights_of_answered(totals),
        risk_in_errors,
        level,
        design_effect,
        cluster_effect,
    )
    # limits of the risk, inverted, need not contain the estimated coverage
    low = min(low, coverage_of_answered)
    high = max(high, coverage_of_answered)
    if totals.abstained.sample_count > 0:
        effective_count = all_samples.total_mass**2 / all_samples.squared_weight_sum
        low, high = point_limits.scaled_by_answered_share(
            coverage_of_answered,
            limits=(low, high),
            answered_share=totals.total_mass / all_samples.total_mass,
            draws=effective_count / answered_design_effect,
            level=level,
        )
    return _Point(value=accepted_mass / all_samples.total_mass, low=low, high=high)
