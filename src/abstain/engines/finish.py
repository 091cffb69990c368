"""From a range's samples, and what lies above it, to its part of every answer; from all parts to the answers.

What an error bar reads of a range is `abstain.inference.evidence.Part`; whoever holds the range makes it, and nothing
after that knows where the samples were. A number alone (an area) takes a shorter way: sort, add up, no error bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from abstain._check import check_choice, check_fraction, check_nonnegative
from abstain.core import points, sorting, stretch
from abstain.core.estimators import (
    ESTIMATORS,
    TIES,
    area_terms,
    needs_whole_weights,
    oracle_rows,
    reads_block_loss,
)
from abstain.core.rows import Rows, ranking_of, row_pieces, sort_once
from abstain.core.stretch import Table, Totals, tables_by, totals_of_samples
from abstain.core.tally import Tally
from abstain.display import CurveLine, thinned
from abstain.engines.ranges import COUNT, Columns
from abstain.engines.read import Fields
from abstain.errors import InputError
from abstain.evaluation.table import asked_of
from abstain.inference import evidence
from abstain.inference.evidence import Asked, Evidence, Part
from abstain.inference.results import Interval
from abstain.metrics.points import RiskCoverageCurve
from abstain.metrics.registry import Metric

_PIECES = 16  # parts that one range is told in
_SMALLEST = 1 << 16  # samples of such a part: their columns stay in cache
_FEW = 1 << 16  # terms that are added up; the closed form of so few would lose digits
BY_LOSS = ("oracle_aurc", "e_aurc", "naurc", "prediction_rejection_ratio")  # read the best order too
_NUMBERS = {"risk_at_coverage": "coverage", "coverage_at_risk": "risk", "fpr_at_tpr": "tpr"}
NO_SPREAD = "no interval: the oracle of losses other than 0/1 needs the samples themselves"


@dataclass(frozen=True)
class Ask:
    """What to work out: areas and points, one `Asked` for each estimator and rule for ties."""

    kinds: tuple[Asked, ...] = (Asked(),)
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

    def bytes_per_sample(self, zero_one: bool, wide: bool) -> int:
        """Memory at the peak of finishing a range, for each of its samples."""
        if self.paired:
            return 400
        stored = (8 if wide else 4) + (1 if zero_one else 8)
        if self.area_only and zero_one:  # the keys, and once more while they are sorted in threads
            return stored + (20 if wide else 11)
        return stored + (72 if self.area_only else 420 if self.thresholds else 170)

    def kind(self, metric: Metric) -> int:
        """Which of the kinds tells of a metric."""
        options = dict(metric.options)
        asked = (options.get("estimator", "harmonic"), options.get("ties", "threshold"))
        return next((k for k, kind in enumerate(self.kinds) if (kind.estimator, kind.ties) == asked), 0)


def ask_for(name: str, metrics: Sequence[Metric], level: float = 0.95) -> Ask:
    """Everything that metrics with their options need."""
    for options in (dict(metric.options) for metric in metrics):
        _check_area(name, options.get("estimator", "harmonic"), options.get("ties", "threshold"))
        check_fraction(name, "coverage", options.get("coverage", 1.0))
        check_nonnegative(name, "risk", options.get("risk", 0.0))
    oracle = any(metric.name in BY_LOSS for metric in metrics)
    return Ask(tuple(asked_of(metrics)), level, oracle=oracle)


def _check_area(name: str, estimator: str, ties: str) -> None:
    check_choice(name, "estimator", estimator, ESTIMATORS)
    check_choice(name, "ties", ties, TIES)


def area_ask(name: str, estimator: str, ties: str, oracle: bool) -> Ask:
    """One area and nothing else: the shortest way."""
    _check_area(name, estimator, ties)
    return Ask((Asked((), estimator, ties),), oracle=oracle)


class PairQuestion(NamedTuple):
    """What `compare` was asked: the columns of either model, `first` with those of both to read."""

    name: str
    first: Fields
    second: Fields
    titles: tuple[str, str]
    metric: Metric
    ask: Ask


def oracle_ask(ask: Ask) -> Ask:
    """The question of the pass in the order of the losses."""
    return replace(ask, by_loss=True, curve=0)


def check_whole(name: str, whole: bool, ask: Ask) -> None:
    """Some estimators count neighbours."""
    who = [w for kind in ask.kinds if (w := needs_whole_weights(kind.estimator, kind.ties))]
    if who and not whole:
        raise InputError(f"{name}: {who[0]} takes whole-number weights only (a weight means a repetition).")


# ranges -----------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a range stands: mass and loss above it, and the totals of the whole set."""

    N: float
    S: float
    total: Totals

    def of(self, rows: Rows) -> Rows:
        """Rows of the range with what the whole set accepts at each."""
        return Rows(rows.m, rows.L, rows.N + self.N, rows.S + self.S, np.asarray([self.total.W]), np, False)


@dataclass(frozen=True)
class Finished:
    """A range's part of the answers, for each kind that was asked."""

    areas: tuple[float, ...]  # of W * AURC
    parts: tuple[list[Part], ...] = ()
    half: float = 0.0  # of the area behind the rejection ratio
    curve: np.ndarray | None = None  # columns N, S (threshold, count)
    count: int = 0
    told: dict[tuple[str, float], Interval] = field(
        default_factory=dict
    )  # points, where the range is all there is


def finish(columns: Columns, place: Place, ask: Ask) -> Finished:
    """The part of a range with samples."""
    if ask.by_loss:
        import array_api_compat.numpy as xp

        rows = place.of(oracle_rows(xp, columns.loss, columns.weight))
        return _oracle_part(rows, place, ask)
    if ask.area_only:
        return Finished((_area(columns, place, ask.kinds[0]),))
    zero_one = columns.loss.dtype == bool
    size = columns.rows if ask.thresholds else max(_SMALLEST, -(-columns.rows // _PIECES))
    if zero_one and columns.weight is None and not ask.thresholds:
        pieces = row_pieces(sort_once(*columns.samples), size=size)
        return _finish((_plain(rows) for rows in pieces), place, ask)
    ranking = ranking_of(columns.confidence)
    order, stops = ranking
    labels = (columns.confidence[order[stops - 1]], np.diff(stops, prepend=0))
    return _finish(tables_by(ranking, columns.loss, columns.weight, zero_one, size), place, ask, labels)


def finish_tie(sums: np.ndarray, confidence: float, place: Place, ask: Ask) -> Finished:
    """The part of a range that is one tie, from its sums alone (in the order of `ranges.SUMS`)."""
    m, L, *powers = (sums[i : i + 1] for i in range(COUNT))
    if place.total.zero_one:  # l^j = l, bit by bit
        powers = [powers[0], *2 * powers[1:2], powers[3], *4 * powers[4:5]]
    table = Table(Rows(m, L, m, L, m, np, False), powers[:3], powers[3:])
    if ask.by_loss:
        rows = place.of(table.rows)
        part = _oracle_part(rows, place, ask)
        if place.total.whole:
            return part
        return replace(
            part, areas=tuple(_in_turn(rows, float(sums[COUNT]), kind.estimator) for kind in ask.kinds)
        )
    if ask.area_only:
        return Finished(_areas(place.of(table.rows), ask, ask.kinds[0].ties))
    return _finish([table], place, ask, (np.asarray([confidence]), sums[COUNT : COUNT + 1]))


def finish_counted(counted: Tally, place: Place, ask: Ask) -> list[Finished]:
    """The parts of a tally, most confident first."""
    mass, wrong = counted.totals().T
    N, S = place.N + np.cumsum(mass) - mass, place.S + np.cumsum(wrong) - wrong

    def part(number: int) -> Finished:
        blocks = counted.stretch(number)
        m, L = blocks.mass, blocks.wrong
        rows = Rows(m, L, np.cumsum(m), np.cumsum(L), m, np, False)
        here = Place(float(N[number]), float(S[number]), place.total)
        if ask.area_only:
            return Finished(_areas(here.of(rows), ask, ask.kinds[0].ties))
        return _finish([_plain(rows)], here, ask, (blocks.confidence.astype(np.float64), m))

    with ThreadPoolExecutor(sorting.threads()) as pool:
        return list(pool.map(part, np.flatnonzero(mass).tolist()))


def _plain(rows: Rows) -> Table:
    """Of 0/1 losses without weights."""
    return Table(rows, (rows.m, rows.L, rows.L), (rows.m, rows.L, rows.L, rows.L, rows.L))


def _areas(rows: Rows, ask: Ask, ties: str) -> tuple[float, ...]:
    return tuple(float(np.sum(area_terms(rows, kind.estimator, ties))) for kind in ask.kinds)


def _area(columns: Columns, place: Place, kind: Asked) -> float:
    """A sum over pieces that stay in cache."""
    pieces = row_pieces(sort_once(*columns.samples), reads_block_loss(kind.estimator, kind.ties))
    return math.fsum(float(np.sum(area_terms(place.of(rows), kind.estimator, kind.ties))) for rows in pieces)


def _oracle_part(rows: Rows, place: Place, ask: Ask) -> Finished:
    """Whole masses are spread over their positions, others stand as they are."""
    ties = "expected" if place.total.whole else "threshold"
    return Finished(_areas(rows, ask, ties), half=float(points.half_mass_area(rows)))


def _in_turn(rows: Rows, count: float, estimator: str) -> float:
    """Samples of equal loss l and weight w that come in one by one: the sum of w (S + j w l) / (N + j w)."""
    from scipy.special import digamma

    m, L = float(rows.m[0]), float(rows.L[0])
    N, S, w = float(rows.N[0]) - m, float(rows.S[0]) - L, m / count
    if estimator != "harmonic":
        return (m * S + w * L * (count + 1) / 2) / float(rows.W[0]) * (2 if estimator == "2sele" else 1)
    if count <= _FEW:
        turn = np.arange(1, count + 1)
        return float(np.sum(w * (S + turn * (L / count)) / (N + turn * w)))
    return L + (S - N * L / m) * float(digamma((N + m) / w + 1) - digamma(N / w + 1))


def _finish(
    tables: Iterable[Table], place: Place, ask: Ask, labels: tuple[np.ndarray, np.ndarray] | None = None
) -> Finished:
    """`labels`: confidence and number of samples of each row, where they are known."""
    parts: tuple[list[Part], ...] = tuple([] for _ in ask.kinds)
    halves, curves = [], []
    for table in tables:
        table = table._replace(rows=place.of(table.rows))
        for kind, own in zip(ask.kinds, parts):
            own.append(evidence.part_of(table, place.total, kind))
        if ask.oracle:
            halves.append(float(points.half_mass_area(table.rows)))
        if ask.curve:
            curves.append(_shown(table.rows, ask, labels))
    areas = tuple(math.fsum(p.stretches["area"].terms for p in own if "area" in p.stretches) for own in parts)
    told: dict[tuple[str, float], Interval] = {}
    if place.N == 0 and table.rows.N[-1] >= place.total.W * (1 - 1e-12) and place.total.n > 1:
        for kind, own in zip(ask.kinds, parts):
            told |= _points(evidence.together(own, place.total, kind), ask.level)
            own[:] = [part._replace(readings=()) for part in own]
    curve = np.concatenate(curves, axis=1) if curves else None
    count = 0 if labels is None else int(labels[1].sum())
    return Finished(areas, parts, math.fsum(halves), curve, count, told)


def _points(found: Evidence, level: float) -> dict[tuple[str, float], Interval]:
    """All points asked for; a range that is all there is sends these, not the readings they are made of."""
    asked, total = found.asked, found.total
    both = total.zero_one and 0 < total.S < total.W
    wanted = {"risk_at_coverage": asked.coverages, "coverage_at_risk": asked.risks}
    wanted["fpr_at_tpr"] = asked.tprs if both else ()
    return {
        (metric, x): evidence.estimate(metric, found, level=level, **dict[str, Any]({_NUMBERS[metric]: x}))
        for metric, numbers in wanted.items()
        for x in numbers
    }


def _shown(rows: Rows, ask: Ask, labels: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """Rows nearest to evenly spaced coverages, first and last included."""
    W = float(rows.W[0])
    step, above = W / ask.curve, float(rows.N[0] - rows.m[0])
    keep = np.diff(np.floor(rows.N / step), prepend=math.floor(above / step)) > 0
    keep[0] |= above <= 1e-12 * W  # the most confident block is always shown
    keep[-1] |= points.reaches(rows.N[-1] / W, 1.0)  # and so is coverage 1
    columns = [rows.N, rows.S]
    if ask.thresholds and labels is not None:
        columns += [labels[0], np.cumsum(labels[1])]
    return np.stack(columns)[:, keep]


# answers ----------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What all ranges of one set of samples (all, or a group) come to."""

    total: Totals
    ask: Ask
    areas: tuple[float, ...]  # AURC, by each kind
    evidence: tuple[Evidence, ...]
    told: dict[tuple[str, float], Interval]
    best: tuple[float, ...] | None  # the oracle's areas, where they are no function of the risk
    half: float
    half_best: float
    curve: np.ndarray | None
    ranges: int

    def value(self, metric: Metric) -> float:
        """The number alone."""
        k = self.ask.kind(metric)
        if metric.name == "aurc":
            return self.areas[k]
        risk = self.total.risk
        if metric.name == "risk":
            return risk
        if metric.name == "augrc":
            return math.fsum(self.evidence[k].stretches["sele"].terms) / self.total.W
        if self.total.n < 2 and metric.name in _NUMBERS:  # one sample has no interval
            return risk if metric.name == "risk_at_coverage" else float(risk <= _number(metric))
        if metric.name not in BY_LOSS:
            return self.interval(metric).estimate
        if metric.name == "prediction_rejection_ratio":
            gain, most = risk / 2 - self.half, risk / 2 - self.half_best
            return gain / most if most > 1e-15 * abs(risk) / 2 else 0.0
        known = None if self.best is None else self.best[k]
        best = known
        if best is None or self.total.zero_one:
            best = stretch.zero_one_oracle(self.total, self.ask.kinds[k].estimator, "empirical", known)[0]
        excess, room = self.areas[k] - best, risk - best
        ratio = excess / room if room > 1e-14 * abs(risk) else 0.0
        return {"oracle_aurc": best, "e_aurc": excess, "naurc": ratio}[metric.name]

    def interval(self, metric: Metric) -> Interval:
        """The number with its error bar."""
        known = self.told.get((metric.name, _number(metric)))
        if known is not None:
            return known
        found = self.evidence[self.ask.kind(metric)]
        return evidence.estimate(metric.name, found, level=self.ask.level, **dict(metric.options))

    def measured(self, metric: Metric) -> Interval | None:
        """What sums over rows alone do not tell: points, and the value of oracles of losses other than 0/1."""
        if metric.name in BY_LOSS and not self.total.zero_one:
            value = self.value(metric)
            return Interval(metric.name, value, 0.0, value, value, self.ask.level, "", self.total.n)
        return self.told.get((metric.name, _number(metric)))

    def line(self, name: str) -> CurveLine:
        """The curve as an evaluation shows it."""
        assert self.curve is not None
        N, S = self.curve[:2]
        return thinned(name, N / self.total.W, S / N)

    def points(self) -> RiskCoverageCurve:
        """The curve with its thresholds."""
        assert self.curve is not None
        N, S, threshold, count = self.curve
        W, n = self.total.W, self.total.n
        return RiskCoverageCurve(N / W, S / N, S / W, threshold, count.astype(np.int64), n, 0.0)


def _number(metric: Metric) -> float:
    """The one number of a point."""
    return float(dict(metric.options).get(_NUMBERS.get(metric.name, ""), math.nan))


def answer_of(
    total: Totals, parts: Sequence[Finished], ask: Ask, best: Sequence[Finished] | None = None
) -> Answer:
    """`parts` and `best` from the most confident range (the smallest losses) down, ranges without samples left out."""
    areas = tuple(math.fsum(x) / total.W for x in zip(*(p.areas for p in parts)))
    known = None if best is None else tuple(math.fsum(x) / total.W for x in zip(*(p.areas for p in best)))
    found = tuple(
        evidence.together(
            [x for p in parts for x in p.parts[k]], total, kind, None if known is None else known[k]
        )
        for k, kind in enumerate(ask.kinds)
        if parts[0].parts
    )
    told = {key: value for p in parts for key, value in p.told.items()}
    half, half_best = (math.fsum(p.half for p in side) for side in (parts, best or ()))
    return Answer(total, ask, areas, found, told, known, half, half_best, _joined_curve(parts), len(parts))


def _joined_curve(parts: Sequence[Finished]) -> np.ndarray | None:
    columns, done = [], 0
    for part in parts:
        if part.curve is not None:
            shown = part.curve.copy()
            shown[3:] += done  # samples of the ranges above
            columns.append(shown)
        done += part.count
    return np.concatenate(columns, axis=1) if columns else None


def answer_in_memory(name: str, columns: Columns, ask: Ask) -> Answer:
    """The plan in one piece: samples that fit in memory, finished as one range."""
    if not columns.rows:
        raise InputError(f"{name}: needs at least one sample, the files hold none.")
    loss, weight = columns.loss, columns.weight
    if ask.area_only and not ask.oracle and weight is None:  # as few passes as can be
        total = Totals(columns.rows, float(columns.rows), float(loss.sum(dtype=np.float64)), (), (), True)
    else:
        total = totals_of_samples(loss, weight, loss.dtype == bool)
    check_whole(name, total.whole, ask)
    place, best = Place(0.0, 0.0, total), None
    if needs_oracle_pass(ask, total.zero_one, total.whole):
        best = [finish(columns.in_best_order(total.zero_one), place, oracle_ask(ask))]
    return answer_of(total, [finish(columns, place, ask)], ask, best)


def needs_oracle_pass(ask: Ask, zero_one: bool, whole: bool) -> bool:
    """0/1 losses of whole weight have a closed form."""
    return ask.oracle and not (zero_one and whole)
