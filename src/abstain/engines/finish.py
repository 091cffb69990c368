"""From a range's samples, and what lies above it, to its part of every answer; from all parts to the answers.

What an error bar reads of a range is `abstain.inference.evidence.PartSummary`; whoever holds the range makes it, and
nothing after that knows where the samples were. A number alone (an area) takes a shorter way: sort, add up, no error
bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from abstain._check import (
    check_repetitions,
    repetitions_error,
)
from abstain.core import area_estimators, curve_points, sorting
from abstain.core.area_estimators import area_terms
from abstain.core.influence import AcceptedLossArea, AreaUnderCurve, BestArea
from abstain.core.rows import Rows, iterate_rows, rank_confidences, read_by_confidence, rows_from_blocks
from abstain.core.stretch import (
    Table,
    Totals,
    offsets,
    plain_table,
    stacked,
    table_of_sums,
    tables,
    tables_by,
)
from abstain.core.tally import Tally
from abstain.display import CurveLine, thinned
from abstain.engines.ranges import COUNT, Columns, Survey
from abstain.engines.read import Fields
from abstain.errors import InputError
from abstain.evaluation.comparison import pair_of
from abstain.evaluation.results import Comparison, Contestant
from abstain.evaluation.table import requests_for
from abstain.inference import evidence
from abstain.inference.differences import Side, compared, side_of_spread
from abstain.inference.evidence import Evidence, PartSummary, Request
from abstain.inference.limits import Joint
from abstain.inference.records import Interval
from abstain.metrics.definitions import ESTIMATOR, METRICS, TIE_RULE
from abstain.metrics.metric import Metric, PointMetric
from abstain.metrics.points import RiskCoverageCurve
from abstain.metrics.summaries import Scale

_PIECES = 16  # parts that one range is told in
_SMALLEST = 1 << 16  # samples of such a part: their columns stay in cache
_FEW = 1 << 16  # terms that are added up; the closed form of so few would lose digits
NO_SPREAD = "no interval: the oracle of losses other than 0/1 needs the samples themselves"


@dataclass(frozen=True)
class Ask:
    """What to work out: areas and points, one `Request` for each estimator and rule for ties."""

    kinds: tuple[Request, ...] = (Request(),)
    level: float = 0.95
    curve: int = 0  # about how many points of the curve to keep, over all ranges
    thresholds: bool = False  # their confidences too?
    oracle: bool = False  # does any answer need the best order of the losses?
    by_loss: bool = False  # the oracle's pass: the confidence is the place in the best order
    paired: bool = False  # is it asked of two models?

    @property
    def area_only(self) -> bool:
        """Nothing but one number?"""
        asked = any(kind.areas or kind.coverages or kind.risks or kind.tprs for kind in self.kinds)
        return not (asked or self.curve or self.by_loss)

    def bytes_per_sample(self, zero_one: bool, wide: bool, weighted: bool) -> int:
        """Memory at the peak of finishing a range, for each of its samples (measured, distinct confidences)."""
        if self.paired:
            return 400
        stored = (8 if wide else 4) + (1 if zero_one else 8) + (8 if weighted else 0)
        if self.area_only and zero_one and not weighted:
            return stored + (20 if wide else 11)  # the keys, and once more while they are sorted in threads
        return stored + (240 if self.thresholds else 130 if self.by_loss else 72)

    def of_oracle(self, zero_one: bool, whole: bool) -> Ask | None:
        """The question of the pass in the order of the losses; 0/1 losses of counted samples have a closed form."""
        return replace(self, by_loss=True, curve=0) if self.oracle and not (zero_one and whole) else None

    def kind(self, metric: Metric) -> int:
        """Which of the kinds tells of a metric."""
        asked = _kind_of(metric)
        return next((k for k, kind in enumerate(self.kinds) if (kind.estimator, kind.ties) == asked), 0)


def _kind_of(metric: Metric) -> tuple[str, str]:
    """Estimator and ties of a metric."""
    options = metric.option_values
    return options.get("estimator", ESTIMATOR.default), options.get("ties", TIE_RULE.default)


def ask_for(name: str, metrics: Sequence[Metric], level: float = 0.95, alone: bool = False) -> Ask:
    """Everything that metrics with their options need; of an area `alone` the number and nothing else."""
    for metric in metrics:
        estimator, ties = _kind_of(metric)
    kinds = (Request((), estimator, ties),) if alone else tuple(requests_for(metrics))
    return Ask(kinds, level, oracle=any(metric.needs.order_by_loss for metric in metrics))


class PairQuestion(NamedTuple):
    """What `compare` was asked: the columns of either model, `first` with those of both to read."""

    name: str
    first: Fields
    second: Fields
    titles: tuple[str, str]
    metric: Metric
    ask: Ask


def check_weights(name: str, fields: Fields, survey: Survey, ask: Ask) -> None:
    """Repetitions are whole numbers, and estimators that count neighbours need them."""
    if fields.repetitions:
        check_repetitions(name, str(fields.weight), survey.fraction)
    counting = [
        w for kind in ask.kinds if (w := area_estimators.needs_whole_weights(kind.estimator, kind.ties))
    ]
    if counting and not survey.countable(fields.repetitions):
        raise repetitions_error(name, counting[0])


# ranges -----------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a range stands: mass and loss above it, and the totals of the whole set."""

    N: float
    S: float
    total: Totals

    def of(self, rows: Rows) -> Rows:
        """Rows of the range with what the whole set accepts at each."""
        return rows._replace(
            accepted_mass=rows.accepted_mass + self.N,
            accepted_loss=rows.accepted_loss + self.S,
            total_mass=np.asarray([self.total.W]),
            padded=False,
        )


@dataclass(frozen=True)
class Finished:
    """A range's part of the answers, for each kind that was asked."""

    areas: tuple[float, ...]  # of W * AURC
    parts: tuple[list[PartSummary], ...] = ()
    half: float = 0.0  # of the area behind the rejection ratio
    curve: np.ndarray | None = None  # columns N, S (threshold, count)
    count: int = 0
    # points, of a range that is all there is
    told: dict[tuple[str, float], Interval] = field(default_factory=dict)


def finish(columns: Columns, place: Place, ask: Ask) -> Finished:
    """The part of a range with samples."""
    loss, confidence, weight = columns.samples
    zero_one = loss.dtype == bool
    if ask.by_loss:
        import array_api_compat.numpy as xp

        return _finish([plain_table(area_estimators.oracle_rows(xp, loss, weight))], place, ask)
    size = columns.rows if ask.thresholds else max(_SMALLEST, -(-columns.rows // _PIECES))
    if ask.area_only:  # a sum over pieces that stay in cache
        reads_loss = area_estimators.needs_row_loss(ask.kinds[0].estimator, ask.kinds[0].ties)
        pieces = iterate_rows(read_by_confidence(loss, confidence, weight), reads_loss)
        return _finish((Table(rows, (), ()) for rows in pieces), place, ask)
    if zero_one and weight is None and not ask.thresholds:
        return _finish(tables(read_by_confidence(loss, confidence, None), True, size), place, ask)
    order, stops = ranking = rank_confidences(confidence)
    labels = (confidence[order[stops - 1]], np.diff(stops, prepend=0))
    return _finish(tables_by(ranking, loss, weight, zero_one, size), place, ask, labels)


def finish_tie(sums: np.ndarray, confidence: float, place: Place, ask: Ask) -> Finished:
    """The part of a range that is one tie, from its sums alone (in the order of `ranges.SUMS`)."""
    m, L, *powers = (sums[i : i + 1] for i in range(COUNT))
    table = table_of_sums(Rows.accumulate(m, L), powers, place.total.zero_one)
    found = _finish([table], place, ask, (np.asarray([confidence]), sums[COUNT : COUNT + 1]))
    if not ask.by_loss or place.total.whole:
        return found
    rows, w = place.of(table.rows), float(powers[0][0] / m[0])
    return replace(found, areas=tuple(_in_turn(rows, w, kind.estimator) for kind in ask.kinds))


def finish_counted(counted: Tally, place: Place, ask: Ask) -> list[Finished]:
    """The parts of a tally, most confident first."""
    mass, wrong = counted.totals().T
    N, S = place.N + np.cumsum(mass) - mass, place.S + np.cumsum(wrong) - wrong

    def part(number: int) -> Finished:
        blocks = counted.stretch(number)
        m, L = blocks.mass, blocks.wrong
        rows = Rows.accumulate(m, L)
        here = Place(float(N[number]), float(S[number]), place.total)
        return _finish([plain_table(rows)], here, ask, (blocks.confidence.astype(np.float64), m))

    with ThreadPoolExecutor(sorting.thread_count()) as pool:
        return list(pool.map(part, np.flatnonzero(mass).tolist()))


def _in_turn(rows: Rows, w: float, estimator: str) -> float:
    """Samples of equal loss l that come in one by one: the sum of w (S + j w l) / (N + j w), as if of equal weight.

    w, the sum of all w^2 over that of all w, makes it exact for "sele" whatever the weights, and nearly so otherwise.
    """
    from scipy.special import digamma

    m, L = float(rows.mass[0]), float(rows.loss[0])
    N, S = float(rows.accepted_mass[0]) - m, float(rows.accepted_loss[0]) - L
    if estimator != "harmonic":
        return (m * S + L * (m + w) / 2) / float(rows.total_mass[0]) * (2 if estimator == "2sele" else 1)
    count = m / w
    if count <= _FEW and math.isclose(count, round(count), rel_tol=1e-9):  # of equal weight: exact
        turn = np.arange(1, round(count) + 1)
        return float(np.sum(w * (S + turn * (L / count)) / (N + turn * w)))
    return L + (S - N * L / m) * float(digamma((N + m) / w + 1) - digamma(N / w + 1))


def _finish(
    tables: Iterable[Table], place: Place, ask: Ask, labels: tuple[np.ndarray, np.ndarray] | None = None
) -> Finished:
    """`labels`: confidence and number of samples of each row, where they are known."""
    parts: tuple[list[PartSummary], ...] = tuple([] for _ in ask.kinds)
    halves, curves, terms = [], [], []
    best = "expected" if place.total.whole else "threshold"  # whole masses are spread over their positions
    for table in tables:
        table = replace(table, rows=place.of(table.rows))
        if ask.by_loss or ask.area_only:
            every = [(kind.estimator, best if ask.by_loss else kind.ties) for kind in ask.kinds]
            terms.append([float(np.sum(area_terms(table.rows, *kind))) for kind in every])
        else:
            for kind, own in zip(ask.kinds, parts):
                own.append(evidence.summarise_part(table, place.total, kind))
        if ask.oracle and not ask.area_only:
            halves.append(float(curve_points.accepted_loss_area(table.rows)))
        if ask.curve:
            curves.append(_shown(table.rows, ask, labels))
    if terms:
        return Finished(tuple(map(math.fsum, zip(*terms))), half=math.fsum(halves))
    size = place.total.in_error_units().error_size
    areas = tuple(size * _curve_area(kind, own) for kind, own in zip(ask.kinds, parts))
    told: dict[tuple[str, float], Interval] = {}
    if place.N == 0 and table.rows.accepted_mass[-1] >= place.total.W * (1 - 1e-12) and place.total.n > 1:
        for kind, own in zip(ask.kinds, parts):
            told |= _points(evidence.merge_parts(own, place.total, kind), ask.level)
            own[:] = [part._replace(readings=()) for part in own]
    curve = np.concatenate(curves, axis=1) if curves else None
    count = 0 if labels is None else int(labels[1].sum())
    return Finished(areas, parts, math.fsum(halves), curve, count, told)


def curve_area_of(kind: Request) -> AreaUnderCurve:
    """The area under the curve by the estimator and the rule for ties of a request."""
    return AreaUnderCurve(kind.estimator, kind.ties)


def _curve_area(kind: Request, parts: Sequence[PartSummary]) -> float:
    """W * AURC of some parts, by the estimator and the rule for ties of a request; 0 where it was not requested."""
    area = curve_area_of(kind)
    return math.fsum(part.stretches[area].terms for part in parts if area in part.stretches)


def _points(found: Evidence, level: float) -> dict[tuple[str, float], Interval]:
    """All points asked for; a range that is all there is sends these, not the readings they are made of."""
    totals = found.totals
    has_both_kinds = totals.zero_one and 0 < totals.S < totals.W
    intervals = {}
    for definition in METRICS.values():
        if not isinstance(definition, PointMetric) or (definition.needs.both_kinds and not has_both_kinds):
            continue
        for cut in found.request.cuts(definition.cut_at):
            metric = definition.with_options(**{definition.cut_at: cut})
            intervals[metric.name, cut] = evidence.estimate_interval(metric, found, level=level)
    return intervals


def _shown(rows: Rows, ask: Ask, labels: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """Rows nearest to evenly spaced coverages, first and last included."""
    W = float(rows.total_mass[0])
    step, above = W / ask.curve, float(rows.accepted_mass[0] - rows.mass[0])
    keep = np.diff(np.floor(rows.accepted_mass / step), prepend=math.floor(above / step)) > 0
    keep[0] |= above <= 1e-12 * W  # the most confident block is always shown
    keep[-1] |= curve_points.reaches(rows.accepted_mass[-1] / W, 1.0)  # and so is coverage 1
    columns = [rows.accepted_mass, rows.accepted_loss]
    if ask.thresholds and labels is not None:
        columns += [labels[0], np.cumsum(labels[1])]
    return np.stack(columns)[:, keep]


# answers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What all ranges of one set of samples (all, or a group) come to: `parts` from the most confident range down,
    `best` from the smallest losses, where the oracle is no function of the risk; ranges without samples left out."""

    total: Totals
    ask: Ask
    parts: Sequence[Finished]
    best: Sequence[Finished] = ()

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """For each kind that was asked."""
        found = []
        for k, kind in enumerate(self.ask.kinds if self.parts[0].parts else ()):
            parts = [x for p in self.parts for x in p.parts[k]]
            best = self._area(k, self.best) if self.best else None
            found.append(evidence.merge_parts(parts, self.total, kind, best))
        return tuple(found)

    @cached_property
    def told(self) -> dict[tuple[str, float], Interval]:
        """Points that a range has told."""
        return {key: value for p in self.parts for key, value in p.told.items()}

    def _area(self, k: int, parts: Sequence[Finished]) -> float:
        return math.fsum(p.areas[k] for p in parts) / self.total.W

    def value(self, metric: Metric) -> float:
        """The number alone."""
        total, k = self.total, self.ask.kind(metric)
        if total.n < 2 and isinstance(metric, PointMetric):  # one sample has no interval
            return total.risk if metric.cut_at == "coverage" else float(total.risk <= metric.cut)
        is_of_curve = metric.area == curve_area_of(self.ask.kinds[k])
        if not (is_of_curve or metric.needs.order_by_loss):
            return self.interval(metric).estimate
        area, best = self._area(k, self.parts), None
        if metric.needs.order_by_loss and metric.area == AcceptedLossArea():
            area, least = (math.fsum(p.half for p in side) for side in (self.parts, self.best))
            best = BestArea(least)
        elif metric.needs.order_by_loss and not is_of_curve:
            raise InputError(
                f"{metric.key}: needs the samples themselves for losses other than 0/1. Evaluate it in memory."
            )
        elif metric.needs.order_by_loss:
            best = BestArea(self._area(k, self.best))
            if metric.reads_area:  # with relative weights the order by loss is not always the very best
                best = BestArea(min(best.area, area))
            if total.zero_one:
                best = metric.best_of_zero_one(total.W, total.S, None if total.whole else best.area)
        return metric.derivative(area, total.risk, best).estimate

    def interval(self, metric: Metric) -> Interval:
        """The number with its error bar."""
        known = self.told.get((metric.name, _number(metric)))
        if known is not None:
            return known
        found = self.evidence[self.ask.kind(metric)]
        return evidence.estimate_interval(metric, found, level=self.ask.level)

    def measured(self, metric: Metric) -> Interval | None:
        """What sums over rows alone do not tell: points, and the value of oracles of losses other than 0/1."""
        if metric.needs.order_by_loss and not self.total.in_error_units().zero_one:
            value = self.value(metric)
            return Interval(metric.name, value, 0.0, value, value, self.ask.level, "", self.total.n)
        return self.told.get((metric.name, _number(metric)))

    def curve(self) -> np.ndarray:
        """Columns N, S (threshold, count) of all points that were kept."""
        columns, done = [], 0
        for part in self.parts:
            assert part.curve is not None
            columns.append(part.curve.copy())
            columns[-1][3:] += done  # samples of the ranges above
            done += part.count
        return np.concatenate(columns, axis=1)

    def line(self, name: str) -> CurveLine:
        """The curve as an evaluation shows it."""
        N, S = self.curve()[:2]
        return thinned(name, N / self.total.W, S / N)

    def points(self) -> RiskCoverageCurve:
        """The curve with its thresholds."""
        N, S, threshold, count = self.curve()
        W, n = self.total.W, self.total.n
        return RiskCoverageCurve(N / W, S / N, S / W, threshold, count.astype(np.int64), n, 0.0)


def _number(metric: Metric) -> float:
    """The one number of a point."""
    return metric.cut if isinstance(metric, PointMetric) else math.nan


# two models on the same samples -----------------------------------------------------------------------------
#
# Each sample's influence on the first area is known in its range of the first confidence, its influence on the second
# in its range of the second. So samples travel once more: from the first ranges, with their influence in hand, to the
# second, where the products of both are added up.


class Standing(NamedTuple):
    """A range's place in the whole, and what the ranges below it add to its members' influences.

    `tie`: mass and loss of a range of one confidence, which may be read a few samples at a time.
    """

    place: Place
    const: float
    slope: float
    tie: np.ndarray | None = None


def standings(parts: Sequence[Finished], places: Sequence[Place], ask: Ask) -> list[Standing]:
    """Of all ranges, most confident first."""
    const, slope = offsets(
        stacked([piece.stretches[curve_area_of(ask.kinds[0])] for part in parts for piece in part.parts[0]])
    )
    # what lies below a range lies below its last piece
    last = np.cumsum([len(part.parts[0]) for part in parts]) - 1
    size = places[0].total.in_error_units().error_size  # stretches are in units of an error
    return [
        Standing(place, size * float(a), float(b)) for place, a, b in zip(places, const[last], slope[last])
    ]


def influences(columns: Columns, standing: Standing, ask: Ask) -> np.ndarray:
    """Of each sample of a range on the area of the whole."""
    loss, tie = columns.loss.astype(np.float64), standing.tie
    if tie is None:
        values, at = np.unique(columns.confidence, return_inverse=True)
        weight = np.ones_like(loss) if columns.weight is None else columns.weight.astype(np.float64)
        sums = [np.bincount(at, x, len(values)) for x in (weight, weight * loss)]
    else:
        values, at, sums = tie[:1], np.zeros(len(loss), dtype=np.int64), [tie[:1], tie[1:2]]
    rows = standing.place.of(rows_from_blocks(*sums))
    line, own = curve_area_of(ask.kinds[0]).derivative(rows), len(values) - 1 - at
    return np.asarray(line.constant[own] + standing.const + (line.slope[own] + standing.slope) * loss)


def turned(columns: Columns, standing: Standing, ask: Ask) -> Columns:
    """The samples of a range of the first model as samples of the second, their first influence in hand."""
    return columns.behind()._replace(extra=influences(columns, standing, ask)[None, :])


def joint_sums(columns: Columns, standing: Standing, ask: Ask, rates: tuple[float, float]) -> np.ndarray:
    """Sums over a range of the second model of (a - b)^2, e^2 and e^4.

    a and b are what a sample does to either area, e = rate_a a - rate_b b the same on the scale of the test.
    """
    assert columns.extra is not None  # the first influences travel along
    weight = (1.0 if columns.weight is None else columns.weight) / standing.place.total.W
    a, b = weight * columns.extra[0], weight * influences(columns, standing, ask)
    e = rates[0] * a - rates[1] * b
    return np.asarray([np.sum(x) for x in ((a - b) ** 2, e**2, e**4)])


class Pairing:
    """Two models whose areas are known: what the joint pass needs of them, and the comparison after it."""

    def __init__(self, asked: PairQuestion, first: Answer, second: Answer) -> None:
        self.asked, self.answers = asked, (first, second)
        self.sides = [_side(answer, asked.metric) for answer in self.answers]
        totals = [answer.total for answer in self.answers]
        is_zero_one = all(total.zero_one for total in totals)
        has_negative_loss = any(total.negative for total in totals)
        self.scale = asked.metric.scale_for(is_zero_one, has_negative_loss)
        held = all(self.scale.holds(side.centre) for side in self.sides)
        used = self.scale if held else Scale("normal")
        first_rate, second_rate = (float(used.rate(side.centre)) for side in self.sides)
        self.rates = first_rate, second_rate

    def compared(self, joint: np.ndarray) -> Comparison:
        """Best first; models that cannot be told apart share a letter. Of areas lower is better."""
        asked, level, n = self.asked, self.asked.ask.level, self.answers[0].total.n
        order = [0, 1] if self.sides[0].estimate <= self.sides[1].estimate else [1, 0]
        best, other = (asked.titles[i] for i in order)
        sums = Joint(joint[1:2], joint[2:] - joint[1:2] ** 2 / n, np.sqrt(joint[:1]))
        zero, one = np.asarray([0]), np.asarray([1])
        test = compared([self.sides[i] for i in order], zero, one, self.scale, level, True, (sums, n))
        pair = pair_of(best, other, test, 0, level, n)
        contestants = []
        for place, i in enumerate(order):
            own = self.answers[i].interval(asked.metric)
            ranks, letter = ((place + 1, place + 1), "ab"[place]) if pair.different else ((1, 2), "a")
            told = (own.estimate, own.standard_error, own.low, own.high)
            contestants.append(Contestant(asked.titles[i], *told, n, *ranks, letter))
        head = (asked.metric.key, asked.metric.full_label, True, "own losses")
        return Comparison(tuple(contestants), (pair,), *head, level, n, True)


def _side(answer: Answer, metric: Metric) -> Side:
    """One model of a comparison; its joint sums with the other model are computed elsewhere."""
    spread = evidence.spread_from_evidence(metric, answer.evidence[0])
    sample = evidence.summarise_sample(answer.total.in_error_units())
    return side_of_spread(metric, spread, sample, np.empty(0))
