"""Is one model better than another on the same samples? The pass for joint influence sums.

Each sample's influence on the first area is known in its range of the first confidence, its influence on the second
in its range of the second. So samples travel once more: from the first ranges, with their influence in hand, to the
second, where the products of both are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abstain._progress import Bars, bars
from abstain._size import bytes_of, free_of
from abstain.core.influence import member_influences
from abstain.core.rows import rows_of_blocks
from abstain.core.stretch import Stretch, _from_outside, stacked
from abstain.engines.finish import Answer, Ask, Finished, PairQuestion, Place, answer_of, check_whole
from abstain.engines.ranges import SURVEYED, Columns, Survey
from abstain.engines.read import batches_in_step, beside, find_files, rows_in, tables_in
from abstain.engines.spill import Range, Shelf, Spill, cuts_that_fit
from abstain.errors import InputError
from abstain.evaluation.comparison import pair_of
from abstain.evaluation.results import Comparison, Contestant
from abstain.inference import evidence
from abstain.inference.differences import Side, compared
from abstain.inference.limits import Joint, Scale, scale_of

# influences -------------------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """A range's place in the whole, and what the ranges below it add to its members' influences."""

    place: Place
    const: float
    slope: float


def offsets(every: Stretch) -> tuple[np.ndarray, np.ndarray]:
    """What each stretch's members add to their own const and slope; the mean influence is taken off."""
    a, b = (_from_outside(every, i) for i in (0, 1))
    return a - (every.centre.sum() + np.sum(a * every.mass + b * every.loss)) / every.mass.sum(), b


def standings(parts: Sequence[Finished], places: Sequence[Place]) -> list[Standing]:
    """Of all ranges, most confident first."""
    const, slope = offsets(stacked([piece.stretches["area"] for part in parts for piece in part.parts[0]]))
    last = (
        np.cumsum([len(part.parts[0]) for part in parts]) - 1
    )  # what lies below a range lies below its last piece
    return [Standing(place, float(a), float(b)) for place, a, b in zip(places, const[last], slope[last])]


def influences(columns: Columns, standing: Standing, ask: Ask, tie: np.ndarray | None = None) -> np.ndarray:
    """Of each sample of a range on the area of the whole; of a `tie` (mass, loss sum) some samples are enough."""
    loss = columns.loss.astype(np.float64)
    if tie is None:
        values, at = np.unique(columns.confidence, return_inverse=True)
        weight = np.ones_like(loss) if columns.weight is None else columns.weight.astype(np.float64)
        sums = [np.bincount(at, x, len(values)) for x in (weight, weight * loss)]
    else:
        values, at, sums = tie[:1], np.zeros(len(loss), dtype=np.int64), [tie[:1], tie[1:2]]
    rows = standing.place.of(rows_of_blocks(*sums))
    own, outside = len(values) - 1 - at, (standing.const, standing.slope)
    return member_influences(rows, own, loss, *outside, ask.kinds[0].estimator, ask.kinds[0].ties)


def turned(columns: Columns, standing: Standing, ask: Ask, tie: np.ndarray | None = None) -> Columns:
    """The samples of a range of the first model as samples of the second, their first influence in hand."""
    assert columns.extra is not None  # the second model's columns travel along
    loss, confidence = columns.extra
    return Columns(loss, confidence, columns.weight, influences(columns, standing, ask, tie)[None, :])


def joint_sums(
    columns: Columns, standing: Standing, ask: Ask, rates: tuple[float, float], tie: np.ndarray | None = None
) -> np.ndarray:
    """Sums over a range of the second model of (a - b)^2, e^2 and e^4.

    a and b are what a sample does to either area, e = rate_a a - rate_b b the same on the scale of the test.
    """
    assert columns.extra is not None  # the first influences travel along
    weight = (1.0 if columns.weight is None else columns.weight) / standing.place.total.W
    a, b = weight * columns.extra[0], weight * influences(columns, standing, ask, tie)
    e = rates[0] * a - rates[1] * b
    return np.asarray([np.sum(x) for x in ((a - b) ** 2, e**2, e**4)])


class Pairing:
    """Two models whose areas are known: what the joint pass needs of them, and the comparison after it."""

    def __init__(self, asked: PairQuestion, first: Answer, second: Answer) -> None:
        self.asked, self.answers = asked, (first, second)
        self.sides = [_side(answer) for answer in self.answers]
        totals = [answer.total for answer in self.answers]
        self.scale = scale_of("aurc", all(t.zero_one for t in totals), any(t.negative for t in totals))
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
        pair = pair_of(best, other, [x[0] for x in test], test[4], 0, level, n)
        contestants = []
        for place, i in enumerate(order):
            own = self.answers[i].interval(asked.metric)
            ranks, letter = ((place + 1, place + 1), "ab"[place]) if pair.different else ((1, 2), "a")
            told = (own.estimate, own.standard_error, own.low, own.high)
            contestants.append(Contestant(asked.titles[i], *told, n, *ranks, letter))
        head = (asked.metric.key, asked.metric.label, True, "own losses")
        return Comparison(tuple(contestants), (pair,), *head, level, n, True)


def _side(answer: Answer) -> Side:
    found = evidence.evidence_spread("aurc", answer.evidence[0])
    centre = found.estimate if found.centre is None else found.centre
    errors = evidence.facts_of(answer.total).errors
    return Side(found.estimate, centre, found.error, found.effective_errors, errors, np.empty(0))


# files ------------------------------------------------------------------------------------------------------
#
# Two passes over the files (how both confidences are spread; every sample to its range of the first), then one over the
# ranges of the first, which sends every sample on with its influence in hand, and one over the ranges of the second.

_BATCH = 1 << 18
_PER_SAMPLE = 400  # bytes at the peak of turning a range, for each of its samples
_FEWEST = 1 << 12  # samples of a range, however small the budget
_UNKNOWN = 50_000_000  # samples, where the files do not say


class _Run:
    """One comparison: where it reads, what it may take, what it shows."""

    def __init__(
        self,
        asked: PairQuestion,
        read: Callable[[], Iterator[Columns]],
        rows: int | None,
        memory: int,
        shown: Bars,
    ) -> None:
        self.asked, self.read, self.rows, self.shown = asked, read, rows, shown
        self.fit = max(_FEWEST, int(0.9 * free_of(memory)) // _PER_SAMPLE)

    def run(self, spill: Spill) -> Comparison:
        """All passes."""
        asked, ask = self.asked, self.asked.ask
        first, second = self._surveys()
        numbers = iter(range(1 << 30))
        one, two = (
            Shelf(spill, numbers, cuts_that_fit(survey, survey.total, self.fit), keep=True)
            for survey in (first, second)
        )
        for columns in self._read("partition"):
            one.add(columns)
        ranges, answer, standing = self._finished(one, "first")
        for part, at in zip(ranges, standing):
            for columns in one.read(part):
                two.add(turned(columns, at, ask, part.sums[:2] if part.tied else None))
                self._tick("move", columns.rows)
            spill.drop(part.number)
        ranges, other, standing = self._finished(two, "second")
        joint, pairing = np.zeros(3), Pairing(asked, answer, other)
        for part, at in zip(ranges, standing):
            for columns in two.read(part):
                joint += joint_sums(columns, at, ask, pairing.rates, part.sums[:2] if part.tied else None)
                self._tick("joint", columns.rows)
        return pairing.compared(joint)

    def _surveys(self) -> tuple[Survey, Survey]:
        first, second, rng = Survey(), Survey(), np.random.default_rng(0)
        stride = max(1, (_UNKNOWN if self.rows is None else self.rows) // SURVEYED)
        for columns in self._read("survey"):
            first.add(columns, None, stride, rng)
            assert columns.extra is not None
            loss, confidence = columns.extra
            second.add(Columns(loss, confidence, columns.weight), None, stride, rng)
        if not first.total:
            raise InputError(f"{self.asked.name}: needs at least one sample, the files hold none.")
        check_whole(self.asked.name, first.whole, self.asked.ask)
        return first, second

    def _read(self, stage: str) -> Iterator[Columns]:
        for columns in self.read():
            yield columns
            self._tick(stage, columns.rows)

    def _tick(self, stage: str, rows: int) -> None:
        self.shown.advance(stage, rows, self.rows)

    def _finished(self, shelf: Shelf, stage: str) -> tuple[list[Range], Answer, list[Standing]]:
        """Every range's part of the area, and where its members stand."""
        ranges, parts = list(shelf.ranges(self.fit)), []
        for part in ranges:
            parts += shelf.finished(part, self.asked.ask)
            self._tick(stage, part.rows)
        answer = answer_of(ranges[0].place.total, parts, self.asked.ask)
        return ranges, answer, standings(parts, [part.place for part in ranges])


def compare_files(
    asked: PairQuestion,
    path: Any,
    other: Any = None,
    memory: str | float = "1GB",
    spill: str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """The comparison of files, or of the same samples in `other` files."""
    name, first, second, *_ = asked
    files = find_files(name, path)
    others = None if other is None else find_files(name, other)

    def read() -> Iterator[Columns]:
        if others is not None:
            yield from batches_in_step(name, files, others, replace(first, also=()), second, _BATCH)
            return
        for file in files:
            for spot, table in tables_in(name, file, first, _BATCH):
                yield beside(spot, table, first, second)

    known = [rows_in(file) for file in files]
    rows = None if None in known else sum(r for r in known if r is not None)
    with bars(progress) as shown, Spill(spill) as store:
        return _Run(asked, read, rows, bytes_of(name, memory), shown).run(store)
