"""Is one model better than another on the same samples? The pass for joint influence sums.

Each sample's influence on the first area is known in its range of the first confidence, its influence on the second
in its range of the second. So samples travel once more: from the first ranges, with their influence in hand, to the
second, where the squares of the differences are added up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from abstain._progress import Bars, bars
from abstain._size import bytes_of
from abstain.core.influence import combined, member_influences, offsets
from abstain.core.rows import rows_of_blocks
from abstain.engines.finish import Ask, Part, Place, _placed, check_whole, finish, finish_tie
from abstain.engines.histogram import nothing
from abstain.engines.plan import Bundle, Pair, Slots, bundled, by_slot
from abstain.engines.ranges import SURVEYED, Columns, RangeSums, Survey, cuts_for, no_sums, split, together
from abstain.engines.read import batches_in_step, find_files, paired_batches, rows_in
from abstain.engines.spill import Spill, free
from abstain.errors import InputError
from abstain.evaluation import Comparison, Contestant
from abstain.evaluation.comparison import pair_of
from abstain.inference.limits import Scale, student
from abstain.metrics.registry import Metric

# paired -------------------------------------------------------------------------------------------
#
# Is one model better than another on the same samples? The pass for joint influence sums.
#
# Each sample's influence on the first area is known in its range of the first confidence, its influence on the second
# in its range of the second. So samples travel once more: from the first ranges, with their influence in hand, to the
# second, where the squares of the differences are added up.


@dataclass(frozen=True)
class Paired:
    """The areas of two models on the same samples, and what is known about their difference (first - second)."""

    metric: str
    first: float
    second: float
    standard_error: float
    n: int
    own_errors: tuple[float, float]  # standard errors of either area by itself

    @property
    def difference(self) -> float:
        """First minus second: below zero when the first is better."""
        return self.first - self.second

    @property
    def z(self) -> float:
        """Difference in standard errors; 0 when there is no difference at all."""
        if not self.standard_error:
            return math.copysign(math.inf, self.difference) if self.difference else 0.0
        return self.difference / self.standard_error

    @property
    def p_value(self) -> float:
        """Two-sided, of no difference."""
        return math.erfc(abs(self.z) / math.sqrt(2))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Of the difference."""
        from scipy.special import ndtri

        half = float(ndtri((1 + level) / 2)) * self.standard_error
        return self.difference - half, self.difference + half

    def __repr__(self) -> str:
        return (
            f"{self.metric} {self.first:.6g} and {self.second:.6g}: difference {self.difference:.3g} "
            f"± {self.standard_error:.2g}, p = {self.p_value:.2g} (n = {self.n:,})"
        )


def paired(first: Sequence[Part], second: Sequence[Part], square: float, sums: RangeSums) -> Paired:
    """From the parts of both models and the sum of squared differences of influences."""
    W = float(sums.sums[0].sum())
    a, b = (math.fsum(part.area for part in parts) / W for parts in (first, second))
    own = [combined([part.pieces["area"] for part in parts])[1] for parts in (first, second)]
    return Paired("AURC", a, b, math.sqrt(square) / W, int(sums.count.sum()), (own[0], own[1]))


@dataclass(frozen=True)
class Standing:
    """A range's place in the whole, and what the ranges below it add to its members' influences."""

    place: Place
    const: float
    slope: float


def standings(parts: Sequence[Part], places: Sequence[Place]) -> list[Standing]:
    """Of all ranges, most confident first."""
    const, slope = offsets([p.pieces["area"] for p in parts])
    return [Standing(place, float(a), float(b)) for place, a, b in zip(places, const, slope)]


def influences(columns: Columns, standing: Standing, ask: Ask, tie: np.ndarray | None = None) -> np.ndarray:
    """Of each sample of a range on the area of the whole; of a `tie` (mass, loss sum) some samples are enough."""
    loss = columns.loss.astype(np.float64)
    if tie is None:
        values, at = np.unique(columns.confidence, return_inverse=True)
        weight = np.ones_like(loss) if columns.weight is None else columns.weight.astype(np.float64)
        sums = [np.bincount(at, x, len(values)) for x in (weight, weight * loss)]
    else:
        values, at, sums = tie[:1], np.zeros(len(loss), dtype=np.int64), [tie[:1], tie[1:2]]
    rows = _placed(rows_of_blocks(*sums), standing.place)
    return member_influences(
        rows, len(values) - 1 - at, loss, standing.const, standing.slope, ask.estimator, ask.ties
    )


def turned(columns: Columns, standing: Standing, ask: Ask, tie: np.ndarray | None = None) -> Columns:
    """The samples of a range of the first model as samples of the second, their first influence in hand."""
    if columns.extra is None:
        raise ValueError("turned: the second model's columns did not travel along")
    loss, confidence = columns.extra
    return Columns(loss, confidence, columns.weight, influences(columns, standing, ask, tie)[None, :])


def square_in(columns: Columns, standing: Standing, ask: Ask, tie: np.ndarray | None = None) -> float:
    """Sum of (w (IF of the first - IF of the second))^2 over a range of the second model."""
    if columns.extra is None:
        raise ValueError("square_in: the first influences did not travel along")
    gap = columns.extra[0] - influences(columns, standing, ask, tie)
    weight = 1.0 if columns.weight is None else columns.weight
    return float(np.sum((weight * gap) ** 2))


def turn_bundle(
    pieces: Sequence[Bundle], standing: Mapping[int, Standing], ask: Ask, slots: Slots
) -> list[Bundle]:
    """The samples of a bundle turned, and by bundles of the second model."""
    moved = [turned(columns, standing[number], ask) for number, columns in by_slot(pieces)]
    return bundled({None: together(moved)} if moved else {}, slots, keep=True)[0]


def square_bundle(pieces: Sequence[Bundle], standing: Mapping[int, Standing], ask: Ask) -> float:
    """The sum over a bundle of the second model."""
    return math.fsum(square_in(columns, standing[number], ask) for number, columns in by_slot(pieces))


# ranking ------------------------------------------------------------------------------------------
#
# The comparison of two models by an engine, in the shape of `abstain.compare`.


def ranked(names: tuple[str, str], found: Paired, metric: Metric, level: float) -> Comparison:
    """Best first; models that cannot be told apart share a letter. `found` is of areas: lower is better."""
    values, errors = (found.first, found.second), found.own_errors
    order = [0, 1] if found.first <= found.second else [1, 0]
    gap = values[order[0]] - values[order[1]]
    from scipy.special import stdtr

    error = found.standard_error
    reach = student(found.n - 1.0, level) * error
    p = 1.0 if gap == 0 else float(2 * stdtr(found.n - 1.0, -abs(gap) / error)) if error else 0.0
    test = (gap, error, gap - reach, gap + reach, p, "")
    pair = pair_of(names[order[0]], names[order[1]], test, np.asarray([p]), 0, level, found.n)
    contestants = tuple(
        _contestant(names[i], values[i], errors[i], found.n, place, pair.different, level)
        for place, i in enumerate(order)
    )
    head = (metric.key, metric.label, metric.lower_is_better, "own losses")
    return Comparison(contestants, (pair,), *head, level, found.n, True)


def _contestant(
    name: str, value: float, error: float, n: int, place: int, different: bool, level: float
) -> Contestant:
    scale = Scale("log") if value > 0 else Scale("normal")
    step = student(n - 1, level) * error * scale.rate(value)
    low, high = (scale.shifted(value, x) for x in (-step, step)) if error else (None, None)
    ranks = (place + 1, place + 1) if different else (1, 2)
    return Contestant(name, value, error, low, high, n, *ranks, "ab"[place] if different else "a")


# pairedfiles --------------------------------------------------------------------------------------
#
# Paired comparison of files larger than memory: samples lie on disk by ranges of the first model, then of the second.
#
# Two passes over the files (how both confidences are spread; every sample to its range of the first), then one over the
# ranges of the first, which sends every sample on with its influence in hand, and one over the ranges of the second.


_BATCH = 1 << 18
_MOST_RANGES = 512
_PER_SAMPLE = 400  # bytes at the peak of turning a range, for each of its samples
_FEWEST = 1 << 12  # samples of a range, however small the budget
_UNKNOWN = 50_000_000  # samples, where the files do not say


class Slot(NamedTuple):
    """A range on disk: its number there, its sums, and whether it holds one confidence only."""

    number: int
    sums: np.ndarray
    low: float
    tied: bool

    @property
    def tie(self) -> np.ndarray | None:
        """What the influences of a tie are made of."""
        return self.sums[:2] if self.tied else None


class Shelf:
    """Samples on disk by range of one ranking; ranges that turn out too full are cut again."""

    def __init__(self, spill: Spill, numbers: Iterator[int], cuts: np.ndarray, fit: int) -> None:
        self.spill, self.cuts, self.fit, self._free = spill, cuts, fit, numbers
        self.numbers = [next(numbers) for _ in range(len(cuts) + 1)]
        self.sums = no_sums(len(cuts) + 1)

    def add(self, columns: Columns) -> None:
        """Put samples where they belong."""
        parts, sums = split(columns, self.cuts, keep=True)
        self.sums = self.sums.plus(sums)
        for number, part in zip(self.numbers, parts):
            self.spill.append(number, part)

    def slots(self) -> list[Slot]:
        """All ranges that hold samples, most confident first, none too full unless it is one tie."""
        self.spill.flush()
        self.spill.close()
        found: list[Slot] = []
        for at in np.flatnonzero(self.sums.count)[::-1]:
            slot = Slot(
                self.numbers[at],
                self.sums.sums[:, at],
                float(self.sums.low[at]),
                bool(self.sums.tied[at]),
            )
            found += [slot] if slot.tied or self.sums.count[at] <= self.fit else self._refined(slot)
        return found

    def _refined(self, slot: Slot) -> list[Slot]:
        survey, rng, rows = Survey(), np.random.default_rng(1), int(slot.sums[5])
        for piece in self.spill.pieces(slot.number):
            survey.add(piece, None, max(1, rows // SURVEYED), rng)
        lower = Shelf(self.spill, self._free, _cuts(survey, rows, self.fit, least=2), self.fit)
        for piece in self.spill.pieces(slot.number):
            lower.add(piece)
        self.spill.drop(slot.number)
        return lower.slots()

    def read(self, slot: Slot) -> Iterator[Columns]:
        """A range in one piece, a tie in as many as it was written in."""
        if slot.tied:
            yield from self.spill.pieces(slot.number)
        else:
            yield self.spill.read(slot.number, int(slot.sums[5]))


class Comparing:
    """One comparison: where it reads, what it may take, what it shows."""

    def __init__(
        self, pair: Pair, read: Callable[[], Iterator[Columns]], rows: int | None, memory: int, shown: Bars
    ) -> None:
        self.pair, self.read, self.rows, self.shown = pair, read, rows, shown
        self.fit = max(_FEWEST, int(0.9 * free(memory)) // _PER_SAMPLE)

    def run(self, spill: Spill) -> Paired:
        """All passes."""
        first, second = self._surveys()
        numbers = iter(range(1 << 30))
        rows, ask = first.rows[None], self.pair.ask
        one = Shelf(spill, numbers, _cuts(first, rows, self.fit), self.fit)
        for columns in self._read("partition"):
            one.add(columns)
        slots, parts, standing = self._finished(one, ask, "first")
        two = Shelf(spill, numbers, _cuts(second, rows, self.fit), self.fit)
        for slot, at in zip(slots, standing):
            for columns in one.read(slot):
                two.add(turned(columns, at, ask, slot.tie))
                self._tick("move", columns)
            spill.drop(slot.number)
        return self._joint(two, parts, ask)

    def _joint(self, two: Shelf, first: list[Part], ask: Ask) -> Paired:
        slots, parts, standing = self._finished(two, ask, "second")
        squares = []
        for slot, at in zip(slots, standing):
            for columns in two.read(slot):
                squares.append(square_in(columns, at, ask, slot.tie))
                self._tick("joint", columns)
        sums = np.stack([slot.sums for slot in slots], axis=1)
        return paired(first, parts, math.fsum(squares), RangeSums(sums, sums[0], sums[0]))

    def _surveys(self) -> tuple[Survey, Survey]:
        first, second, rng = Survey(), Survey(), np.random.default_rng(0)
        stride = max(1, (_UNKNOWN if self.rows is None else self.rows) // SURVEYED)
        for columns in self._read("survey"):
            first.add(columns, None, stride, rng)
            second.add(_towed(columns), None, stride, rng)
        if not first.rows.get(None):
            raise InputError(f"{self.pair.name}: needs at least one sample, the files hold none.")
        check_whole(self.pair.name, first.whole, self.pair.ask)
        return first, second

    def _read(self, stage: str) -> Iterator[Columns]:
        for columns in self.read():
            yield columns
            self._tick(stage, columns)

    def _tick(self, stage: str, columns: Columns) -> None:
        self.shown.advance(stage, columns.rows, self.rows)

    def _finished(self, shelf: Shelf, ask: Ask, stage: str) -> tuple[list[Slot], list[Part], list[Standing]]:
        """Every range's part of the area, and where its members stand."""
        slots, parts, places = shelf.slots(), list[Part](), list[Place]()
        N, S = 0.0, 0.0
        W = float(shelf.sums.sums[0].sum())
        for slot in slots:
            places.append(Place(N, S, W))
            if slot.tied:
                parts.append(finish_tie(slot.sums, slot.low, places[-1], ask))
            else:
                parts.append(finish(next(shelf.read(slot)), places[-1], ask))
            N, S = N + float(slot.sums[0]), S + float(slot.sums[1])
            self.shown.advance(stage, int(slot.sums[5]), self.rows)
        return slots, parts, standings(parts, places)


def _towed(columns: Columns) -> Columns:
    """The second model's samples."""
    assert columns.extra is not None
    return Columns(columns.extra[0], columns.extra[1], columns.weight)


def _cuts(survey: Survey, rows: int, fit: int, least: int = 1) -> np.ndarray:
    """Ranges of about three quarters of what fits."""
    ranges = max(least, min(_MOST_RANGES, -(-4 * rows // (3 * fit))))
    histogram = survey.histogram.get(None, nothing())
    return cuts_for(histogram, ranges) if ranges > 1 and len(histogram) else np.empty(0)


def compare_files(
    pair: Pair, path: Any, other: Any = None, memory: str | float = "1GB", spill: str | None = None
) -> Paired:
    """The arguments are those of `files.compare`, gathered."""
    name, first, second, _, progress = pair
    files = find_files(name, path)
    others = None if other is None else find_files(name, other)

    def read() -> Iterator[Columns]:
        if others is not None:
            yield from batches_in_step(name, files, others, replace(first, also=()), second, _BATCH)
            return
        for file in files:
            yield from paired_batches(name, file, first, second, _BATCH)

    known = [rows_in(file) for file in files]
    rows = None if None in known else sum(r for r in known if r is not None)
    with bars(progress) as shown, Spill(spill) as store:
        return Comparing(pair, read, rows, bytes_of(name, memory), shown).run(store)
