"""Paired comparison of files larger than memory: samples lie on disk by ranges of the first model, then of the second.

Two passes over the files (how both confidences are spread; every sample to its range of the first), then one over the
ranges of the first, which sends every sample on with its influence in hand, and one over the ranges of the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abstain.engines import locating
from abstain.engines.asking import Pair
from abstain.engines.budget import bytes_of, free
from abstain.engines.finish import Ask, Part, Place, finish, finish_tie
from abstain.engines.items import nothing
from abstain.engines.local import check_whole
from abstain.engines.paired import Paired, Standing, paired, square_in, standings, turned
from abstain.engines.pairing import batches_in_step, paired_batches
from abstain.engines.progress import Bars, bars
from abstain.engines.ranges import Columns, RangeSums, cuts_for, no_sums, split
from abstain.engines.spill import Spill
from abstain.engines.survey import SURVEYED, Survey
from abstain.errors import InputError

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
    files = locating.find_files(name, path)
    others = None if other is None else locating.find_files(name, other)

    def read() -> Iterator[Columns]:
        if others is not None:
            yield from batches_in_step(name, files, others, replace(first, also=()), second, _BATCH)
            return
        for file in files:
            yield from paired_batches(name, file, first, second, _BATCH)

    known = [locating.rows_in(file) for file in files]
    rows = None if None in known else sum(r for r in known if r is not None)
    with bars(progress) as shown, Spill(spill) as store:
        return Comparing(pair, read, rows, bytes_of(name, memory), shown).run(store)
