"""From the samples of a range, and the sums above it, to its part of every result; from all parts to the results.

The confidence axis is cut into ranges. Whichever process holds the samples of a range turns them into a `RangeResult`;
nothing after that knows where the samples were. `Answer` puts the results of all ranges of one set of samples
together. An area without an error bar takes a shorter way: sort and add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from abstain._check import check_repetitions, repetitions_error
from abstain.core import area_estimators, curve_points, sorting
from abstain.core.area_estimators import area_terms, base_estimator
from abstain.core.influence import AcceptedLossArea, AreaUnderCurve, BestArea
from abstain.core.part_sums import (
    MomentTable,
    Totals,
    iterate_tables,
    table_from_blocks,
    table_from_sums,
    table_of_zero_one_rows,
    tables_along_ranking,
)
from abstain.core.rounding import SUM_ROUNDING, WHOLE_NUMBER_ROUNDING
from abstain.core.rows import Blocks, Rows, iterate_rows, rank_confidences, read_by_confidence
from abstain.core.tally import Tally
from abstain.display import CurveLine, thinned
from abstain.engines.ranges import COUNT, Columns, Survey
from abstain.engines.read import Fields
from abstain.errors import InputError
from abstain.evaluation.table import requests_for
from abstain.inference import evidence
from abstain.inference.evidence import Evidence, EvidenceRequest, PartSummary, request_for
from abstain.inference.records import Interval
from abstain.metrics.definitions import ESTIMATOR, METRICS, TIE_RULE
from abstain.metrics.metric import Metric, PointMetric
from abstain.metrics.points import RiskCoverageCurve

_MAX_PIECES = 16  # pieces that the sums of one range are made of
_PIECE_SAMPLES = 1 << 16  # at least this many samples in a piece: their columns stay in cache
_MAX_EXACT_TERMS = 1 << 16  # up to here a sum is added up term by term; its closed form would lose digits
REASON_FOR_NO_INTERVAL = "no interval: the oracle of losses other than 0/1 needs the samples themselves"
# Peak memory per sample in bytes, as measured with distinct confidences, besides the stored columns
_BYTES_FOR_TWO_MODELS = 400  # the stored columns included
_BYTES_FOR_DOUBLE_KEYS = 20
_BYTES_FOR_SINGLE_KEYS = 11
_BYTES_FOR_DISTINCT_CONFIDENCES = 320
_BYTES_FOR_THRESHOLDS = 240
_BYTES_FOR_ORACLE = 130
_BYTES_FOR_SUMS = 72
PointKey = tuple[str, float]  # name of a point metric and its cut, such as ("risk_at_coverage", 0.9)


@dataclass(frozen=True)
class EngineRequest:
    """What an engine has to compute.

    `evidence_requests` name areas and points, one request for each estimator and rule for ties. Metrics that cannot be
    summed over ranges, such as a user's own, are not among them: with `needs_distinct_confidences` ranges return tables
    of their distinct confidences, and the metrics are computed from all of these together. So workers never see a
    user's functions.
    """

    evidence_requests: tuple[EvidenceRequest, ...] = (EvidenceRequest(),)
    level: float = 0.95
    curve_points: int = 0  # about how many points of the curve to keep, over all ranges
    with_thresholds: bool = False  # keep the confidence of each point of the curve?
    needs_oracle: bool = False  # does any metric need the best order of the losses?
    is_oracle_pass: bool = False  # the pass for the oracle: the confidence is the place in the best order
    compares_two_models: bool = False
    needs_distinct_confidences: bool = False  # does any metric need the whole table of distinct confidences?

    @property
    def is_area_without_error_bar(self) -> bool:
        """Is the result one area without an error bar or a curve?"""
        has_error_bars = any(request.areas or request.has_points for request in self.evidence_requests)
        return not (
            has_error_bars or self.curve_points or self.is_oracle_pass or self.needs_distinct_confidences
        )

    def bytes_per_sample(self, zero_one: bool, is_double: bool, has_weights: bool) -> int:
        """Peak memory in bytes for each sample of a range.

        It is the size of the stored columns, and what the work of this request adds; the latter numbers were measured
        on samples that all differ in confidence, which need most. `zero_one`: all losses are 0/1, stored as booleans;
        `is_double`: confidences are stored as float64, otherwise float32; `has_weights`: there is a column of float64
        weights.
        """
        # the first case that applies counts; of several properties it is the one that needs most
        if self.compares_two_models:
            # the stored columns included: of any type they are a small share of it
            return _BYTES_FOR_TWO_MODELS
        confidence_bytes = 8 if is_double else 4
        loss_bytes = 1 if zero_one else 8
        weight_bytes = 8 if has_weights else 0
        stored_bytes = confidence_bytes + loss_bytes + weight_bytes
        if self.is_area_without_error_bar and zero_one and not has_weights:
            # an area of unweighted 0/1 losses is computed from packed keys, which threads copy while they sort
            return stored_bytes + (_BYTES_FOR_DOUBLE_KEYS if is_double else _BYTES_FOR_SINGLE_KEYS)
        if self.needs_distinct_confidences:
            # for a user's own metric: the sums at each distinct confidence are kept until all ranges are read
            return stored_bytes + _BYTES_FOR_DISTINCT_CONFIDENCES
        if self.with_thresholds:
            return stored_bytes + _BYTES_FOR_THRESHOLDS
        # the oracle pass reads the samples once more, in the order of their losses, for metrics that compare with it
        return stored_bytes + (_BYTES_FOR_ORACLE if self.is_oracle_pass else _BYTES_FOR_SUMS)

    def for_oracle(self, zero_one: bool, weights_are_counts: bool) -> EngineRequest | None:
        """The request of a further pass over the samples in the order of their losses, or None if none is needed.

        The oracle is the best order of the samples, by loss, and its area normalises E-AURC and similar metrics. It has
        a closed form for 0/1 losses if the weights are counts of samples. Otherwise the samples are read once more,
        with minus the loss as confidence. That pass returns areas only, neither the curve nor the table of distinct
        confidences. `weights_are_counts`: weights are numbers of repetitions, or all equal within each group.
        """
        if not self.needs_oracle or (zero_one and weights_are_counts):
            return None
        return replace(self, is_oracle_pass=True, curve_points=0, needs_distinct_confidences=False)

    def index_of_evidence_request(self, metric: Metric) -> int:
        """Index into `evidence_requests` of the one that a metric is computed from.

        An evidence request is one estimator and rule for ties, with the areas and points of the curve that are
        estimated by them. The first one that lists the metric's area or point is taken; else the first one with the
        metric's estimator and rule for ties, since an area without error bar is in no list. 0 if there is neither: the
        request was not made for this metric.
        """
        for index, request in enumerate(self.evidence_requests):
            if request.covers(metric):
                return index
        estimator_and_ties = _estimator_and_ties(metric)
        for index, request in enumerate(self.evidence_requests):
            if (request.estimator, request.ties) == estimator_and_ties:
                return index
        return 0


def _estimator_and_ties(metric: Metric) -> tuple[str, str]:
    """The metric's values of the options `estimator` and `ties`; the defaults for a metric without these options."""
    options = metric.option_values
    return options.get("estimator", ESTIMATOR.default), options.get("ties", TIE_RULE.default)


def make_request(
    metrics: Sequence[Metric], level: float = 0.95, estimate_only: bool = False
) -> EngineRequest:
    """The request for these metrics, with error bars at confidence level `level`.

    It has one evidence request for each estimator and rule for ties among the metrics, which lists the areas and points
    of the curve to estimate by them. With `estimate_only`, `metrics` must be a single metric of an area, whose value is
    computed without error bar: its evidence request lists no areas.
    """
    if estimate_only:
        estimator, ties = _estimator_and_ties(metrics[0])
        evidence_requests: tuple[EvidenceRequest, ...] = (
            EvidenceRequest(areas=(), estimator=estimator, ties=ties),
        )
    else:
        evidence_requests = tuple(
            # of a user's own metrics, which need the whole table of distinct confidences, there is no request
            requests_for([metric for metric in metrics if _adds_up_over_ranges(metric)])
        )
    return EngineRequest(
        evidence_requests,
        level,
        # `order_by_loss`: the metric is compared with the oracle, the order of the samples by loss
        needs_oracle=any(metric.needs.order_by_loss for metric in metrics),
        needs_distinct_confidences=not all(_adds_up_over_ranges(metric) for metric in metrics),
    )


def _adds_up_over_ranges(metric: Metric) -> bool:
    """Can a metric be computed from sums over ranges? A user's own metric needs the whole table at once."""
    return isinstance(metric, PointMetric) or metric.area.is_additive


def check_weights(function: str, fields: Fields, survey: Survey, request: EngineRequest) -> None:
    """Raise InputError if the weights do not suit the options.

    Weights that are declared as repetitions must be whole numbers; and an estimator or rule for ties that counts
    samples needs repetitions, or weights that are all equal within each group. `function` is what errors name. `fields`
    names the columns to read. `survey` holds what the first pass found of each group: number of samples, histogram of
    confidences, weights. An evidence request is one estimator and rule for ties, with what is estimated by them;
    `request` holds all of them.
    """
    if fields.repetitions:
        # `fractional_weight` is some weight that is not a whole number; None, if all are whole, raises nothing
        check_repetitions(function, str(fields.weight), survey.fractional_weight)
    # also true without weights, and where they are all equal within each group
    if survey.weights_are_counts(fields.repetitions):
        return
    for evidence_request in request.evidence_requests:
        # such as 'ties="expected"'; empty where neither option counts samples
        option = area_estimators.find_counting_option(evidence_request.estimator, evidence_request.ties)
        if option:
            raise repetitions_error(function, option)


def curve_area_of(evidence_request: EvidenceRequest) -> AreaUnderCurve:
    """The area under the curve by the estimator and the rule for ties of a request."""
    return AreaUnderCurve(evidence_request.estimator, evidence_request.ties)


# ranges -----------------------------------------------------------------------------------------------------


class RangePosition(NamedTuple):
    """Where a range lies in the ranking: mass and loss of all samples above it, and the totals of the whole set."""

    mass_above: float
    loss_above: float
    totals: Totals

    def add_sums_above(self, rows: Rows) -> Rows:
        """Turn sums that start at the top of the range into sums that start at the top of the whole set.

        Accepted mass and loss of each row then include everything above the range, and `total_mass` is that of the
        whole set (`totals`). `has_empty_rows=False`: every row accepts some mass, so that risks need no guard against
        0/0.

        `mass_above` and `loss_above` are the sums over all samples above the range. `rows` has one row per distinct
        confidence, most confident first: its mass and loss, and the mass and loss accepted with the threshold there.
        """
        return rows._replace(
            accepted_mass=rows.accepted_mass + self.mass_above,
            accepted_loss=rows.accepted_loss + self.loss_above,
            total_mass=np.asarray([self.totals.total_mass]),
            has_empty_rows=False,
        )


class RowLabels(NamedTuple):
    """Confidence and number of samples of each row, most confident first."""

    confidence: np.ndarray
    sample_count: np.ndarray


@dataclass(frozen=True, kw_only=True)
class RangeResult:
    """The part of a range in every result. Parts add up over ranges; tuples have one item per evidence request."""

    mass_times_areas: tuple[float, ...]  # its share of total mass times area
    evidence_parts: tuple[list[PartSummary], ...] = ()  # evidence for error bars
    accepted_loss_area: float = 0.0  # its share of the area behind the rejection ratio
    curve: np.ndarray | None = None  # rows: accepted mass, accepted loss (and confidence, count of samples)
    sample_count: int = 0  # of the range; read only where the curve has thresholds, otherwise it may be 0
    point_intervals: dict[PointKey, Interval] = field(default_factory=dict)  # if the range is the whole set
    # distinct confidences of the range with their sums, where a metric needs them
    blocks: Blocks | None = None


def finish_range(columns: Columns, position: RangePosition, request: EngineRequest) -> RangeResult:
    """The result of a range from its samples, which may be in any order.

    A range is the samples whose confidences lie between two thresholds; `position` holds the mass and loss above it,
    and the totals of the whole set. Where a metric needs the whole table of distinct confidences, the result includes
    the range's part of it (`blocks`). `columns` holds the samples as vectors of one length. `request` says what to
    compute.
    """
    result = _add_up_samples(columns, position, request)
    if request.needs_distinct_confidences:
        # `samples` are loss, confidence and weight (None: all 1), the arguments of `from_samples`
        return replace(result, blocks=Blocks.from_samples(*columns.samples))
    return result


def _add_up_samples(columns: Columns, position: RangePosition, request: EngineRequest) -> RangeResult:
    """The sums of a range from its samples (in any order), in the fastest way for what is requested.

    A range is the samples whose confidences lie between two thresholds; `position` holds the sums above it.

    - the pass for the oracle: rows are equal losses, ordered by loss, whatever the confidences;
    - an area without error bar: rows are sorted and added up, without squares and fourth powers;
    - 0/1 losses without weights and without thresholds: sorted as packed integers, then pieces that stay in cache;
    - otherwise: an argsort of the confidences, then such pieces, or a single one for a curve with thresholds: the
      labels of its rows (confidence and number of samples) must fit the rows of the only table.

    `columns` holds the samples as vectors of one length. `request` says what to compute: the estimators and rules for
    ties (its evidence requests), points of the curve, and the kind of pass. The oracle is the best possible order of
    the samples: by loss, smallest first.
    """
    loss, confidence, weight = columns.samples
    zero_one = loss.dtype == bool
    if request.is_oracle_pass:
        import array_api_compat.numpy as xp

        oracle_rows = area_estimators.oracle_rows(xp, loss, weight)  # one row per sample, smallest loss first
        # The oracle's pass reads mass and loss of the rows alone. So the squares and fourth powers may be wrong, as
        # they are here if losses are not 0/1.
        return _add_up_tables([table_of_zero_one_rows(oracle_rows)], position, request)
    if request.is_area_without_error_bar:
        # a request for an area without error bar has one evidence request, for the estimator and the rule for ties
        area = curve_area_of(request.evidence_requests[0])
        # some estimators read only the accepted loss, and not the loss of each row, which then need not be computed
        reads_loss = area_estimators.needs_row_loss(area.estimator, area.ties)
        # sorts the samples; `pieces` are rows of distinct confidences, most confident first
        pieces = iterate_rows(read_by_confidence(loss, confidence, weight), with_loss=reads_loss)
        # "moments" are the sums of w^2 l^j and w^4 l^j (weights w, losses l), which only error bars need
        tables_without_powers = (
            MomentTable(rows, squared_weight_moments=(), known_fourth_power_moments=()) for rows in pieces
        )
        return _add_up_tables(tables_without_powers, position, request)
    # at least `_PIECE_SAMPLES` in a piece, and at most `_MAX_PIECES` pieces
    piece_size = max(_PIECE_SAMPLES, -(-columns.sample_count // _MAX_PIECES))
    if zero_one and weight is None and not request.with_thresholds:
        sorted_tables = iterate_tables(read_by_confidence(loss, confidence, None), zero_one, piece_size)
        return _add_up_tables(sorted_tables, position, request)
    # indices of the samples, most confident first, and for each distinct confidence how many samples have at least it
    ranking = rank_confidences(confidence)
    labels: RowLabels | None = None
    if request.with_thresholds:
        piece_size = columns.sample_count  # a single piece: `_add_up_tables` takes labels for one table only
        index_of_last_sample = ranking.order[ranking.row_stops - 1]
        labels = RowLabels(
            confidence=confidence[index_of_last_sample], sample_count=np.diff(ranking.row_stops, prepend=0)
        )
    return _add_up_tables(
        tables_along_ranking(ranking, loss, weight, zero_one, piece_size), position, request, labels
    )


def finish_tie(
    sums: np.ndarray, confidence: float, position: RangePosition, request: EngineRequest
) -> RangeResult:
    """The result of a range with one confidence (a tie), from its sums alone.

    `sums` is a vector in the order of `ranges.SUMS`: at the places below COUNT the sums of w^p l^j (mass, loss, then
    the powers), at COUNT the number of samples. A range is the samples whose confidences lie between two thresholds;
    `position` holds the mass and loss above it, and the totals of the whole set. `request` says what to compute. Where
    a metric needs the whole table of distinct confidences (`needs_distinct_confidences`), the result includes the row
    of this one.

    The oracle is the best possible order of the samples: by loss, smallest first. In its pass a tie means equal losses,
    and its samples are accepted one by one. For relative weights, which `_add_up_tables` accepts together, the area is
    recomputed so. The other field of a result in that pass, `accepted_loss_area`, is the same either way.
    """
    # each sum as an array of one entry, for a table of one row; `powers`: sums of w^2 l^j, then of w^4 l^j
    mass, loss, *powers = (sums[place : place + 1] for place in range(COUNT))
    table = table_from_sums(Rows.accumulate(mass, loss), powers, position.totals.zero_one)
    labels = RowLabels(np.asarray([confidence]), sample_count=sums[COUNT : COUNT + 1])
    result = _add_up_tables([table], position, request, labels)
    if request.needs_distinct_confidences:
        result = replace(result, blocks=_block_of_tie(sums, confidence))
    if not request.is_oracle_pass or position.totals.has_whole_weights:
        return result
    # sum of w^2 over sum of w: if all samples had this weight, the area of the tie would be exact or nearly so
    squared_weight_sum = powers[0]
    typical_weight = float(squared_weight_sum[0] / mass[0])
    row = position.add_sums_above(table.rows)
    areas = [
        _area_one_by_one(row, typical_weight, evidence_request.estimator)
        for evidence_request in request.evidence_requests
    ]
    return replace(result, mass_times_areas=tuple(areas))


def finish_counted(tally: Tally, position: RangePosition, request: EngineRequest) -> list[RangeResult]:
    """The results of a range of 0/1 losses without weights, whose samples were counted instead of stored.

    `tally` holds, for each float32 value, the number of samples and of errors, in sections that are ordered from the
    most confident down. One result for each section with samples, in that order; sections are finished in threads.
    `position` holds the mass and loss above the range, and the totals of the whole set; `request` says what to compute.
    Where a metric needs the whole table of distinct confidences, each result has the section's part of it as `blocks`.
    """
    # by section, from the most confident down: numbers of samples (their mass) and of errors (their loss)
    mass, error_count = tally.totals().T
    # strictly above each section
    mass_above = position.mass_above + np.cumsum(mass) - mass
    loss_above = position.loss_above + np.cumsum(error_count) - error_count

    def finish_section(number: int) -> RangeResult:
        """The result of the section with this number, from 0 for the most confident one."""
        # its distinct confidences, most confident first, with the numbers of samples and of errors at each
        counted = tally.section(number)
        # a row per distinct confidence; `accumulate` adds the sums from the top of the section
        table = table_of_zero_one_rows(Rows.accumulate(counted.sample_count, counted.error_count))
        section_position = RangePosition(
            float(mass_above[number]), float(loss_above[number]), position.totals
        )
        # what a table lacks and a curve with thresholds shows of each row; not cumulative
        labels = RowLabels(counted.confidence.astype(np.float64), counted.sample_count)
        result = _add_up_tables([table], section_position, request, labels)
        if request.needs_distinct_confidences:
            return replace(
                result, blocks=_blocks_of_counts(labels.confidence, counted.sample_count, counted.error_count)
            )
        return result

    section_numbers = np.flatnonzero(mass).tolist()  # of those with samples
    with ThreadPoolExecutor(sorting.thread_count()) as pool:
        # `map` returns results in the order of the sections, whichever is finished first
        return list(pool.map(finish_section, section_numbers))


def _block_of_tie(sums: np.ndarray, confidence: float) -> Blocks:
    """The table of one confidence, from the sums of its range.

    `sums` is a vector in the order of `ranges.SUMS`: ten sums of w^p l^j, then from COUNT on the number of samples and
    the number of losses other than 0 and 1 (`graded`). `w2ll` is the sum of w^2 l^2, and so on.
    """
    # arrays of one entry; `fourths` are the sums of w^4 l^j for j = 0 ... 4
    mass, loss_sum, w2, w2l, w2ll, *fourths = (sums[place : place + 1] for place in range(COUNT))
    return Blocks(
        confidence=np.asarray([confidence]),
        mass=mass,
        loss_sum=loss_sum,
        w2=w2,
        w2l=w2l,
        w2ll=w2ll,
        fourths=np.stack(fourths),
        count=sums[COUNT : COUNT + 1].astype(np.int64),
        graded=sums[COUNT + 1 : COUNT + 2].astype(np.int64),
    )


def _blocks_of_counts(confidence: np.ndarray, mass: np.ndarray, error_count: np.ndarray) -> Blocks:
    """The table of samples without weights and with 0/1 losses, from counts at each confidence, in any order.

    `mass` is the number of samples at each confidence, `error_count` that of errors. The table is sorted, least
    confident first. All powers of such weights and losses are equal, so every sum is either the count of samples or
    that of errors. The rows of `fourths` are the sums of w^4 l^j for j = 0 ... 4, and `graded` counts losses other than
    0 and 1.
    """
    ascending = np.argsort(confidence)
    mass = mass[ascending].astype(np.float64)
    errors = error_count[ascending].astype(np.float64)
    return Blocks(
        confidence=confidence[ascending],
        mass=mass,
        loss_sum=errors,
        w2=mass,
        w2l=errors,
        w2ll=errors,
        fourths=np.stack([mass, errors, errors, errors, errors]),
        count=mass.astype(np.int64),
        graded=np.zeros(len(mass), dtype=np.int64),
    )


def _area_one_by_one(row: Rows, w: float, estimator: str) -> float:
    r"""The area of one row whose samples of equal loss are accepted one by one, as if all had the weight w.

    .. math:: \sum_{j=1}^{m/w} w\,\frac{S + j L w / m}{N + j w}

    with N and S the mass and loss accepted above the row, m and L those of the row. Take for w the sum of all
    :math:`w_i^2` over the sum of all :math:`w_i`: the area is then exact for "sele" whatever the weights, and nearly so
    for "harmonic". The sum above is that of `estimator` "harmonic". "sele" has the total mass of the whole set in place
    of N + j w, and "2sele" is twice that.
    """
    from scipy.special import digamma

    m = float(row.mass[0])
    L = float(row.loss[0])
    N = float(row.accepted_mass[0]) - m
    S = float(row.accepted_loss[0]) - L
    if estimator != "harmonic":  # "sele" or its double "2sele": others take no relative weights
        # the sum in closed form; the factor is 1 or 2
        return base_estimator(estimator).factor * (m * S + L * (m + w) / 2) / float(row.total_mass[0])
    count = m / w  # number of terms
    # few terms are added up; many, or a number that is not whole, by the closed form of the sum
    if count <= _MAX_EXACT_TERMS and math.isclose(count, round(count), rel_tol=WHOLE_NUMBER_ROUNDING):
        j = np.arange(1, round(count) + 1)
        return float(np.sum(w * (S + j * (L / count)) / (N + j * w)))
    return L + (S - N * L / m) * float(digamma((N + m) / w + 1) - digamma(N / w + 1))


def _add_up_tables(
    tables: Iterable[MomentTable],
    position: RangePosition,
    request: EngineRequest,
    labels: RowLabels | None = None,
) -> RangeResult:
    """The result of a range from tables of its rows (one per distinct confidence), most confident first.

    The rows count mass and loss from the top of the range; `position` holds the mass and loss above it, and the totals
    of the whole set. `labels`, the confidence and the number of samples of each row, belong to the rows of all tables
    together; curves with thresholds need them, and then there must be only one table. `request` says what to compute;
    each of its evidence requests is an estimator and a rule for ties, with the areas and points of the curve to
    estimate by them.

    Losses that are 0 or one number c are summed in units of c (`error_size`). `mass_times_areas` of the result are in
    the user's units: for each evidence request the range's share of (total mass) * (area), where the area is that under
    the risk-coverage curve by the estimator and the rule for ties of the request. An entry is 0 where no metric of the
    request is made of that area (`Answer.value` then does not read it).

    If this range is the whole set, intervals of points of the curve, such as the risk at coverage 0.9, are computed at
    once. Otherwise they follow later, from the sums of all ranges (`evidence_parts`) put together.
    """
    if request.is_oracle_pass or request.is_area_without_error_bar:
        return _add_up_areas(tables, position, request)
    # by evidence request, one item per table: the sums over it that estimates and error bars are computed from
    parts: tuple[list[PartSummary], ...] = tuple([] for _ in request.evidence_requests)
    accepted_loss_areas = []
    curves = []
    accepted_mass = 0.0  # after the loop: at the last row, counted from the top of the whole set
    for table in tables:
        rows = position.add_sums_above(table.rows)
        shifted_table = replace(table, rows=rows)
        for evidence_request, request_parts in zip(request.evidence_requests, parts):
            request_parts.append(evidence.summarise_part(shifted_table, position.totals, evidence_request))
        if request.needs_oracle:
            accepted_loss_areas.append(float(curve_points.accepted_loss_area(rows)))
        if request.curve_points:
            curves.append(_select_curve_points(rows, request, labels))
        accepted_mass = float(rows.accepted_mass[-1])
    error_size = position.totals.in_error_units().error_size
    mass_times_areas = []
    for evidence_request, request_parts in zip(request.evidence_requests, parts):
        area = curve_area_of(evidence_request)
        # either all parts of a request have sums of this area or none has
        terms = [part.area_sums[area].mass_times_area for part in request_parts if area in part.area_sums]
        mass_times_areas.append(error_size * math.fsum(terms))
    point_intervals: dict[PointKey, Interval] = {}
    # nothing lies above the range, and the mass accepted at its last row is that of the whole set
    is_whole_set = position.mass_above == 0 and accepted_mass >= position.totals.total_mass * (
        1 - SUM_ROUNDING
    )
    if is_whole_set and position.totals.sample_count > 1:
        # results are sent between processes: keep the intervals of the points, and drop the sums behind them
        # (`sums_at_positions`)
        for evidence_request, request_parts in zip(request.evidence_requests, parts):
            whole = evidence.merge_parts(request_parts, position.totals, evidence_request)
            point_intervals |= _measure_points(whole, request.level)
            request_parts[:] = [part._replace(sums_at_positions=None) for part in request_parts]
    return RangeResult(
        mass_times_areas=tuple(mass_times_areas),
        evidence_parts=parts,
        accepted_loss_area=math.fsum(accepted_loss_areas),
        curve=np.concatenate(curves, axis=1) if curves else None,
        sample_count=0 if labels is None else int(labels.sample_count.sum()),
        point_intervals=point_intervals,
    )


def _add_up_areas(
    tables: Iterable[MomentTable], position: RangePosition, request: EngineRequest
) -> RangeResult:
    """Only the areas of a range: for one number without error bar, and for the oracle's pass.

    `tables` hold the rows of the range, most confident first, summed from the top of the range. In the oracle's pass
    (`request.is_oracle_pass`) rows are equal losses, smallest loss first. Their samples are accepted one by one
    (ties="expected") if the weights are counts, otherwise together. `accepted_loss_area`, the area behind the rejection
    ratio, is only added up in that pass, otherwise 0. `position` holds the mass and loss above the range, and the
    totals of the whole set. An evidence request is one estimator and rule for ties; there is one area for each.
    """
    oracle_ties = "expected" if position.totals.has_whole_weights else "threshold"
    # by evidence request, one item per table: its share of (total mass) * (area)
    terms: list[list[float]] = [[] for _ in request.evidence_requests]
    accepted_loss_areas = []
    for table in tables:
        # accepted mass and loss now include those above the range
        rows = position.add_sums_above(table.rows)
        for evidence_request, request_terms in zip(request.evidence_requests, terms):
            ties = oracle_ties if request.is_oracle_pass else evidence_request.ties
            # one term per row: its mass times the risk there, or as the estimator has it
            request_terms.append(float(np.sum(area_terms(rows, evidence_request.estimator, ties))))
        if request.is_oracle_pass:
            # integral of the accepted loss over the coverages
            accepted_loss_areas.append(float(curve_points.accepted_loss_area(rows)))
    return RangeResult(
        mass_times_areas=tuple(map(math.fsum, terms)), accepted_loss_area=math.fsum(accepted_loss_areas)
    )


def _measure_points(whole: Evidence, level: float) -> dict[PointKey, Interval]:
    """Intervals of all requested points of the curve (such as the risk at coverage 0.9), from the sums over all data.

    `whole` holds these sums, and what was requested (`whole.request`). The result is keyed by the metric's name and its
    cut, the coverage, risk or TPR at which the point lies. Metrics that need both right and wrong samples are left out
    if there is only one kind, or if losses are not 0/1. `level` is the two-sided confidence level, such as 0.95.
    """
    totals = whole.totals
    # the loss sum of 0/1 losses is the mass of the wrong samples
    has_both_kinds = totals.zero_one and 0 < totals.loss_sum < totals.total_mass
    intervals: dict[PointKey, Interval] = {}
    for definition in METRICS.values():  # the built-in metrics; their cuts are set below
        if not isinstance(definition, PointMetric) or (definition.needs.both_kinds and not has_both_kinds):
            continue
        # the requested coverages, risks or TPRs, whichever this metric has as its option ("coverage", "risk" or "tpr")
        for cut in whole.request.cuts(definition.cut_at):
            metric = definition.with_options(**{definition.cut_at: cut})
            intervals[metric.name, cut] = evidence.estimate_interval(metric, whole, level=level)
    return intervals


def _select_curve_points(rows: Rows, request: EngineRequest, labels: RowLabels | None) -> np.ndarray:
    """Pick the first row at or beyond each of `request.curve_points` evenly spaced coverages.

    `rows` are those of a range, most confident first, with sums that start at the top of the whole set; `labels` are
    the confidence and the number of samples of each, which a curve with thresholds needs and others ignore. The first
    row of the whole set and coverage 1 are always picked. Returns an array with one column per picked row: accepted
    mass, accepted loss and, with thresholds, the row's confidence and the number of samples accepted within the range.
    """
    total_mass = float(rows.total_mass[0])
    mass_per_point = total_mass / request.curve_points
    mass_above = float(rows.accepted_mass[0] - rows.mass[0])
    # A row is picked if its accepted mass passes one more of the evenly spaced masses. One that passes several is
    # picked once, so fewer points than requested may come back.
    points_passed = np.floor(rows.accepted_mass / mass_per_point)
    is_selected = np.diff(points_passed, prepend=math.floor(mass_above / mass_per_point)) > 0
    # nothing but rounding lies above the range: it holds the first row of the whole set
    if mass_above <= SUM_ROUNDING * total_mass:
        is_selected[0] = True
    # True up to rounding: the last row accepts the whole set
    if curve_points.reaches(rows.accepted_mass[-1] / total_mass, 1.0):
        is_selected[-1] = True
    columns = [rows.accepted_mass, rows.accepted_loss]
    if request.with_thresholds and labels is not None:
        columns += [labels.confidence, np.cumsum(labels.sample_count)]
    return np.stack(columns)[:, is_selected]


# answers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """The results of all ranges of one set of samples (all, or a group), put together.

    Attributes
    ----------
    totals : Totals
        Sums over all samples of the set.
    request : EngineRequest
        What was computed.
    results : sequence of RangeResult
        One per range with samples, from the most confident range down.
    oracle_results : sequence of RangeResult
        The same for ranges of the losses, from the smallest losses up; only where the AURC of the best order is no
        function of the risk.
    """

    totals: Totals
    request: EngineRequest
    results: Sequence[RangeResult]
    oracle_results: Sequence[RangeResult] = ()

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """Sums over all samples that error bars are computed from, one item per estimator and rule for ties.

        Each merges the sums of all ranges (`evidence_parts`) with the totals and, if the samples were also read in the
        order of their losses, the area of that best order. Empty if only an area was requested: ranges then return no
        such sums.

        `results` are those of all ranges, most confident first; `oracle_results` those of ranges of losses, smallest
        losses first.
        """
        if not self.results[0].evidence_parts:
            return ()
        all_evidence = []
        for index, evidence_request in enumerate(self.request.evidence_requests):
            # sums over the parts of the ranking, most confident first; a range may consist of several parts
            parts = [part for result in self.results for part in result.evidence_parts[index]]
            # None where the best order has a closed form, or no metric is compared with it
            best_area = self._area(index, self.oracle_results) if self.oracle_results else None
            all_evidence.append(evidence.merge_parts(parts, self.totals, evidence_request, best_area))
        return tuple(all_evidence)

    @cached_property
    def table(self) -> MomentTable:
        """One row per distinct confidence of all samples, for metrics that cannot be summed over ranges."""
        blocks = [result.blocks for result in self.results if result.blocks is not None]
        return table_from_blocks(blocks[0].merge(*blocks[1:]))

    @cached_property
    def point_intervals(self) -> dict[PointKey, Interval]:
        """Intervals of points that were computed with a range; complete if that range is the whole set."""
        intervals: dict[PointKey, Interval] = {}
        for result in self.results:
            intervals |= result.point_intervals
        return intervals

    def _area(self, index: int, results: Sequence[RangeResult]) -> float:
        """The area of the evidence request at `index`, from the sums of ranges."""
        return math.fsum(result.mass_times_areas[index] for result in results) / self.totals.total_mass

    def value(self, metric: Metric) -> float:
        """The estimate of a metric, without error bar.

        A metric that is compared with the oracle (`order_by_loss`, such as E-AURC) is computed from the area of the
        curve and the area of the best order. InputError for such a metric of another area, which would need the
        samples themselves. The totals are of at least one sample: empty data is refused before.

        `results` are those of all ranges, most confident first; `oracle_results` those of ranges of losses, smallest
        losses first, empty where the best order has a closed form. In both, the ranges have added up two kinds of
        areas: that under the risk-coverage curve, once for each evidence request (an estimator and a rule for ties,
        with the metrics that have these), and `AcceptedLossArea`, which the rejection ratio is made of. Points of the
        curve and metrics of other areas, such as AUROC, are read from their interval.
        """
        totals = self.totals
        if totals.sample_count < 2 and isinstance(metric, PointMetric):
            # One sample has no interval to read the estimate from: at any coverage all of it is accepted, and at a
            # risk the coverage is 1 or 0. Engines have no function for a single point at a TPR.
            return totals.risk if metric.cut_at == "coverage" else float(totals.risk <= metric.cut)
        # of the evidence request with the metric's estimator and rule for ties; 0 if none has them
        index = self.request.index_of_evidence_request(metric)
        is_of_curve = metric.area == curve_area_of(self.request.evidence_requests[index])
        if not (is_of_curve or metric.needs.order_by_loss):
            return self.interval(metric).estimate
        # that under the risk-coverage curve; not read if the metric is of another area
        area = self._area(index, self.results)
        # None where the metric is not compared with the oracle
        best: BestArea | None = None
        if metric.needs.order_by_loss:
            # The rejection ratio. Only for losses other than 0/1, for which `oracle_results` are there: for 0/1 losses
            # callers take the estimate of its interval.
            if metric.area == AcceptedLossArea():
                area = math.fsum(result.accepted_loss_area for result in self.results)
                best = BestArea(math.fsum(result.accepted_loss_area for result in self.oracle_results))
            elif is_of_curve:
                best = self._best_curve_area(metric, area, index)
            else:
                raise InputError(
                    f"{metric.key}: needs the samples themselves for losses other than 0/1. Evaluate it in memory."
                )
        # the metric's own formula, from its area, the risk and the best possible area; of what it returns, the
        # derivatives are for error bars
        return metric.derivative(area, totals.risk, best).estimate

    def _best_curve_area(self, metric: Metric, area: float, index: int) -> BestArea | None:
        """The area under the curve of the best order of the losses, which a metric such as E-AURC is compared with.

        `area` is the area of the actual curve, `index` the number of the evidence request: the estimator and rule for
        ties of the metric. For 0/1 losses whose weights are whole numbers the best area follows from the totals;
        `oracle_results`, those of the pass in the order of the losses, may then be empty; in all other cases they are
        there. None, for 0/1 losses only, if the metric does not read this area.
        """
        totals = self.totals
        # the sum of weighted 0/1 losses is the mass of the errors
        if totals.zero_one and totals.has_whole_weights:
            return metric.best_area_for_zero_one(totals.total_mass, error_mass=totals.loss_sum)
        # the area that all ranges in the order of the losses add up to, by the estimator of that evidence request
        best_area = self._area(index, self.oracle_results)
        # `reads_area`: does the metric read the actual area? Those that do not, such as the oracle AURC, are about the
        # order by loss itself
        if metric.reads_area:
            # with relative weights the order by loss is not always the very best: the actual order may be better
            best_area = min(best_area, area)
        if totals.zero_one:
            # weights are fractions, so the two masses do not determine the area, which is passed on; None if the
            # metric does not read it
            return metric.best_area_for_zero_one(
                totals.total_mass, error_mass=totals.loss_sum, known_area=best_area
            )
        return BestArea(best_area)

    def interval(self, metric: Metric) -> Interval:
        """The metric with its error bar."""
        point_interval = self.point_intervals.get((metric.name, _cut_of(metric)))
        if point_interval is not None:
            return point_interval
        metric_evidence = self.evidence[self.request.index_of_evidence_request(metric)]
        return evidence.estimate_interval(metric, metric_evidence, level=self.request.level)

    def interval_beyond_evidence(self, metric: Metric) -> Interval | None:
        """The interval of a metric that cannot be computed from `evidence`; None for all other metrics.

        There are three kinds. A metric that needs the whole table of distinct confidences is computed from `table`. A
        metric that is compared with the oracle of losses other than 0/1 gets its estimate without an error bar, which
        engines do not know there. A point of the curve is looked up by its name and cut (NaN for other metrics) among
        the intervals that ranges computed. The oracle is the best possible order of the samples: by loss, smallest
        first.
        """
        if not _adds_up_over_ranges(metric):
            whole = evidence.gather_evidence([self.table], self.totals, request_for([metric]))
            return evidence.estimate_interval(metric, whole, level=self.request.level)
        # Also losses that are 0 or one number c, which are 0/1 losses in units of c. For all these the oracle has a
        # closed form, and the metric is computed from `evidence`.
        has_zero_one_losses = self.totals.in_error_units().zero_one
        if metric.needs.order_by_loss and not has_zero_one_losses:
            value = self.value(metric)
            # tables show a number with a standard error of 0 without limits, so that the method is not read
            return Interval(
                metric=metric.key,
                estimate=value,
                standard_error=0.0,
                low=value,
                high=value,
                level=self.request.level,
                method="",
                n=self.totals.sample_count,
            )
        return self.point_intervals.get((metric.name, _cut_of(metric)))

    def _curve_columns(self) -> np.ndarray:
        """The points of the curve as columns, most confident first.

        Rows of the array: accepted mass, accepted loss and, if thresholds were requested, confidence and number of
        accepted samples. The request must have asked for curve points.
        """
        pieces = []
        samples_above = 0
        for result in self.results:  # one per range of confidences, most confident first
            assert result.curve is not None
            piece = result.curve.copy()  # changed below; the results are kept
            # row 3, if there is one, counts samples from the top of this range; the other rows count from the very top
            piece[3:] += samples_above
            pieces.append(piece)
            samples_above += result.sample_count
        return np.concatenate(pieces, axis=1)

    def line(self, name: str) -> CurveLine:
        """The curve as an evaluation shows it."""
        accepted_mass, accepted_loss, *_ = self._curve_columns()
        return thinned(name, accepted_mass / self.totals.total_mass, accepted_loss / accepted_mass)

    def curve(self) -> RiskCoverageCurve:
        """The curve with its thresholds, of losses in the user's units; engines take no samples that abstained.

        The request must have asked for curve points with thresholds.
        """
        # one entry per point; `count` is the number of accepted samples
        accepted_mass, accepted_loss, threshold, count = self._curve_columns()
        return RiskCoverageCurve(
            coverage=accepted_mass / self.totals.total_mass,
            risk=accepted_loss / accepted_mass,
            generalised_risk=accepted_loss / self.totals.total_mass,
            threshold=threshold,
            count=count.astype(np.int64),
            n=self.totals.sample_count,
            abstained=0.0,
        )


def _cut_of(metric: Metric) -> float:
    """The coverage, risk or TPR at which a point of the curve is cut; NaN for other metrics."""
    return metric.cut if isinstance(metric, PointMetric) else math.nan
