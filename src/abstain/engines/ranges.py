"""Samples by ranges of their confidence: how the axis is cut, what is added up in each range, what is only counted.

A range is finished from its own samples and what lies above it, the sums of the other ranges. So whoever holds a
range (this process, a Dask worker, a Spark task) needs nothing from the others but sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from abstain._check import weight_unit
from abstain.core import tally
from abstain.core.rows import sum_powers_by_row
from abstain.core.stretch import Totals
from abstain.engines.histogram import Histogram, bits_of, float_of, histogram_of, joined, nothing, rounded_up

FEW = 12  # cuts that are better compared with than searched in
SURVEYED = 1 << 20  # samples that a histogram is made of
_RESOLUTION = 1 << 12  # its stretches
# sums over a range: of w, w l, w^2 l^j, w^4 l^j; samples; losses neither 0 nor 1; losses below 0; fractional weights
_POWERS = ("w", "wl", "w2", "w2l", "w2ll", "w4", "w4l", "w4ll", "w4lll", "w4llll")
SUMS = (*_POWERS, "count", "graded", "negative", "part")
COUNT = SUMS.index("count")


class Columns(NamedTuple):
    """Samples as vectors of one length; `extra` (columns down, samples across) only travels along."""

    loss: np.ndarray
    confidence: np.ndarray
    weight: np.ndarray | None = None
    extra: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """Number of samples."""
        return len(self.loss)

    def take(self, index: np.ndarray | slice) -> Columns:
        """Some of the samples."""
        return Columns(*(None if c is None else c[..., index] for c in self))  # type: ignore[arg-type]

    @property
    def samples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Loss, confidence and weight: what core functions take."""
        return self.loss, self.confidence, self.weight

    def in_best_order(self, zero_one: bool) -> Columns:
        """Confidence replaced by the place in the order of the oracle: minus the loss.

        Of 0/1 losses the errors stand by weight, lightest first: the order that equal losses have in memory.
        """
        loss = self.loss.astype(np.float64)
        key = -loss if self.weight is None or not zero_one else -loss * self.weight
        return Columns(self.loss if zero_one else loss, key, self.weight)

    def in_units(self, unit: float) -> Columns:
        """With weights over their unit (see `weight_unit`)."""
        return self if self.weight is None or unit == 1 else self._replace(weight=self.weight / unit)

    def beside(self, other: Columns) -> Columns:
        """With loss and confidence of another model as what travels along."""
        return self._replace(extra=np.stack([other.loss, other.confidence]).astype(np.float64))

    def behind(self) -> Columns:
        """The samples of the model that travels along."""
        assert self.extra is not None
        loss, confidence = self.extra
        return Columns(loss, confidence, self.weight)


Groups = dict[Any, Columns]  # None: all samples


def joined_columns(parts: list[Columns]) -> Columns:
    """Samples of all parts."""
    columns = zip(*parts)
    return Columns(*(None if c[0] is None else np.concatenate(c, axis=-1) for c in columns))  # type: ignore[arg-type]


def merged(parts: Iterable[Groups]) -> Groups:
    """The samples of each group, from all parts."""
    found: dict[Any, list[Columns]] = {}
    for part in parts:
        for group, columns in part.items():
            found.setdefault(group, []).append(columns)
    return {group: joined_columns(pieces) for group, pieces in found.items()}


def in_units(groups: Groups, units: Mapping[Any, float]) -> Groups:
    """The weights of each group over their unit; 1 where a group has none."""
    return {group: columns.in_units(units.get(group, 1.0)) for group, columns in groups.items()}


def gathered(parts: Iterable[Columns], rows: int) -> Columns:
    """Samples of all parts, at most `rows`, filled in as they come: no second copy of them all is ever held."""
    whole: Columns | None = None
    at = 0
    for part in parts:
        if whole is None:
            whole = Columns(*(None if c is None else np.empty((*c.shape[:-1], rows), c.dtype) for c in part))  # type: ignore[arg-type]
        for place, (column, values) in enumerate(zip(whole, part)):
            if column is None or values is None:
                continue
            wider = np.promote_types(column.dtype, values.dtype)
            if column.dtype != wider:  # losses 0/1 so far, no longer
                narrow, column = column, np.empty(column.shape, wider)
                column[..., :at] = narrow[..., :at]  # beyond it lies whatever was in memory
                whole = whole._replace(**{Columns._fields[place]: column})
            column[..., at : at + part.rows] = values
        at += part.rows
    if whole is None:
        return Columns(np.empty(0, dtype=bool), np.empty(0))
    return whole.take(slice(0, at))  # samples without weight were counted, but are not there


# sums -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RangeSums:
    """Sums over each range (ascending), a row of `sums` per name in SUMS, and the confidences found there."""

    sums: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def plus(self, *others: RangeSums) -> RangeSums:
        """Of all sets of samples."""
        sums, low, high = self.sums, self.low, self.high
        for other in others:
            sums = sums + other.sums
            low, high = np.minimum(low, other.low), np.maximum(high, other.high)
        return RangeSums(sums, low, high)

    def of(self, ranges: slice) -> RangeSums:
        """Some of the ranges."""
        return RangeSums(self.sums[:, ranges], self.low[ranges], self.high[ranges])

    @property
    def count(self) -> np.ndarray:
        """Samples in each range."""
        return self.sums[COUNT].astype(np.int64)

    @property
    def tied(self) -> np.ndarray:
        """Ranges that hold one confidence: their sums say it all."""
        return np.asarray(self.low >= self.high)

    def total(self) -> Totals:
        """Of all ranges together."""
        W, S, *powers = (math.fsum(row) for row in self.sums[:COUNT])
        count, graded, negative, part = (int(x) for x in self.sums[COUNT:].sum(axis=1))
        return Totals(count, W, S, tuple(powers[:3]), tuple(powers[3:]), graded == 0, negative > 0, part == 0)

    def above(self) -> np.ndarray:
        """Mass and loss strictly above each range, shape (2, ranges)."""
        first = self.sums[:2]
        return np.asarray(np.cumsum(first[:, ::-1], axis=1)[:, ::-1] - first)


def no_sums(ranges: int) -> RangeSums:
    """Sums over nothing."""
    return RangeSums(np.zeros((len(SUMS), ranges)), np.full(ranges, np.inf), np.full(ranges, -np.inf))


def _sums(columns: Columns, starts: np.ndarray, sizes: np.ndarray) -> RangeSums:
    some = sizes > 0
    result = no_sums(len(sizes))
    first = starts[some]
    result.low[some] = np.minimum.reduceat(columns.confidence, first)
    result.high[some] = np.maximum.reduceat(columns.confidence, first)
    result.sums[COUNT] = sizes
    l, w, zero_one = columns.loss, columns.weight, columns.loss.dtype == bool
    if w is None and zero_one:  # counted in place: a sum would first widen every one of them
        wrong = [np.count_nonzero(l[a : a + n]) for a, n in zip(first, sizes[some])]
        result.sums[:COUNT, some] = _counts(sizes[some], np.asarray(wrong))
        return result
    l, w = l.astype(np.float64, copy=False), None if w is None else w.astype(np.float64, copy=False)
    odd = ((l != 0) & (l != 1), l < 0, np.zeros(len(l)) if w is None else w != np.floor(w))
    result.sums[COUNT + 1 :, some] = [np.add.reduceat(x, first, dtype=np.float64) for x in odd]
    result.sums[:COUNT, some] = sum_powers_by_row(l, w, first + sizes[some], zero_one)
    return result


def _counts(mass: Any, wrong: Any) -> list[Any]:
    """The first sums of samples without weights and with 0/1 losses."""
    return [mass, wrong, mass, wrong, wrong, mass, *4 * [wrong]]


# cutting ----------------------------------------------------------------------------------------------------


def cuts_for(histogram: Histogram, ranges: int) -> np.ndarray:
    """Ascending thresholds, a range starts at each, so that about `ranges` ranges have equal mass.

    A confidence that alone outweighs a range becomes a range of its own.
    """
    if ranges <= 1 or not len(histogram):
        return np.empty(0)
    mass = histogram.mass
    step = mass.sum() / ranges
    heavy = histogram.low[(histogram.low == histogram.high) & (mass >= step)]
    after = float_of(bits_of(heavy) + np.uint64(1))
    start = np.cumsum(mass) - mass
    turns = np.flatnonzero(np.diff(np.floor(start / step), prepend=0) > 0)
    cuts = np.unique(np.concatenate([histogram.low[turns], heavy, after]))
    return np.asarray(cuts[np.isfinite(cuts)])


def split(columns: Columns, cuts: np.ndarray, *, keep: bool = False) -> tuple[list[Columns], RangeSums]:
    """The samples of each range and their sums. A range of one confidence is told by its sums: its samples stay
    (unless told to `keep` them)."""
    number = len(cuts) + 1
    if not columns.rows:
        return [columns] * number, no_sums(number)
    if number == 1:
        return [columns], _sums(columns, np.zeros(1, dtype=np.int64), np.asarray([columns.rows]))
    place = _places(columns.confidence, rounded_up(cuts, columns.confidence.dtype))
    order = np.argsort(place, kind="stable")
    columns = columns.take(order)
    sizes = np.bincount(place, minlength=number)
    ends = np.cumsum(sizes)
    sizes_kept = np.where(lone(cuts) & (not keep), 0, sizes)
    parts = [
        columns.take(slice(end - size, end - size + kept)) for end, size, kept in zip(ends, sizes, sizes_kept)
    ]
    return parts, _sums(columns, ends - sizes, sizes)


def _places(confidence: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """The number of each sample's range, in the smallest type that holds it: counting sorts those."""
    if len(cuts) > FEW:
        place = np.searchsorted(cuts, confidence, "right")
        return place.astype(np.uint8 if len(cuts) < 256 else np.uint16)
    place = np.zeros(len(confidence), dtype=np.uint8)
    for cut in cuts:  # a comparison of all is ten times as fast as a search for each
        place += confidence >= cut
    return place


def lone(cuts: np.ndarray) -> np.ndarray:
    """Which ranges have room for one confidence only."""
    inner = bits_of(cuts[1:]) - bits_of(cuts[:-1]) == 1
    return np.concatenate([[False], inner, [False]]) if len(cuts) else np.zeros(1, dtype=bool)


# the survey -------------------------------------------------------------------------------------------------


@dataclass
class Survey:
    """What a first pass learns of each group: how many samples, and how their confidences are spread.

    Of all together: are the losses 0/1, some confidences wider than float32, weights given? `weights` holds the
    least and the largest positive weight of each group, `fraction` one that is not a whole number.
    """

    rows: dict[Any, int] = field(default_factory=dict)
    histogram: dict[Any, Histogram] = field(default_factory=dict)
    zero_one: bool = True
    wide: bool = False
    weighted: bool = False
    weights: dict[Any, tuple[float, float]] = field(default_factory=dict)
    fraction: float | None = None

    def units(self, repetitions: bool) -> dict[Any, float]:
        """What to divide the weights of each group by; repetitions stay as they are."""
        return {
            group: 1.0 if repetitions else float(weight_unit(least, largest))
            for group, (least, largest) in self.weights.items()
        }

    def countable(self, repetitions: bool) -> bool:
        """Do estimators that count neighbours hold, by repetitions or since weights do not differ?"""
        return repetitions or all(least == largest for least, largest in self.weights.values())

    @property
    def total(self) -> int:
        """Samples of all groups."""
        return sum(self.rows.values())

    def add(self, groups: Groups, stride: int, rng: np.random.Generator) -> None:
        """Take every `stride`-th sample into the histogram, from a random start."""
        for group, columns in groups.items():
            loss, confidence, weight, _ = columns
            seen = Survey({group: len(loss)}, {}, loss.dtype == bool, confidence.dtype != np.float32)
            if weight is not None:
                seen.note_weights(group, weight)
            some = np.ascontiguousarray(confidence[int(rng.integers(stride)) :: stride])
            if len(some):
                none = np.zeros(len(some), dtype=bool)
                seen.histogram[group] = histogram_of(none, some, None, _RESOLUTION)
            self.include(seen)

    def note_weights(self, group: Any, weight: np.ndarray) -> None:
        """The range of a group's weights, none of them 0, and one that is not a whole number."""
        self.weighted = True
        if len(weight):
            self.weights[group] = (float(weight.min()), float(weight.max()))
        fractions = weight[weight != np.floor(weight)]
        self.fraction = float(fractions[0]) if len(fractions) else None

    def include(self, *others: Survey) -> Survey:
        """Become the survey of all samples together."""
        for part in others:
            for group, rows in part.rows.items():
                self.rows[group] = self.rows.get(group, 0) + rows
            for group, table in part.histogram.items():
                known = self.histogram.get(group, nothing())
                self.histogram[group] = joined([known, table], _RESOLUTION)
            self.zero_one &= part.zero_one
            self.wide |= part.wide
            for group, (least, largest) in part.weights.items():
                known_least, known_largest = self.weights.get(group, (least, largest))
                self.weights[group] = (min(least, known_least), max(largest, known_largest))
            self.fraction = part.fraction if self.fraction is None else self.fraction
            self.weighted |= part.weighted
        return self


# counting ---------------------------------------------------------------------------------------------------
#
# With 1e8 samples a float32 between 1/2 and 1 is taken six times over: a counter for each value is smaller than
# the samples and needs neither a sort nor a disk.

# a counter, to set up and to read, costs as much as half a sample to write out, read back and sort
_PRICE = 0.5
_WORTH = 0.25  # share of the samples that must be counted for the table to pay


def window(histogram: Histogram, rows: int, room: int) -> tuple[float, float] | None:
    """The stretch of float32 values whose samples outweigh the price of its counters by most; None if none does.

    `room` bounds the bytes of counters.
    """
    if not len(histogram) or rows > tally.MOST:
        return None
    low = histogram.low.astype(np.float32)
    after = np.append(low[1:], np.nextafter(histogram.high[-1:].astype(np.float32), np.float32(np.inf)))
    start = np.maximum.accumulate(tally.values_between(np.zeros_like(low), low))  # stretches may overlap
    stop = np.maximum(tally.values_between(np.zeros_like(after), after), start + 1)
    held = histogram.mass * (rows / histogram.mass.sum())
    first, last = _most(
        held - _PRICE * (stop - start), np.searchsorted(stop, start + room // tally.BYTES, "right")
    )
    if held[first:last].sum() < _WORTH * rows:
        return None
    return float(low[first]), float(np.nextafter(after[last - 1], np.float32(-np.inf)))


def _most(gain: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """The run [first, last) with the largest sum, where one that starts at i may reach to ends[i]."""
    upto = np.concatenate([[0.0], np.cumsum(gain)])
    best, found = 0.0, (0, 0)
    for first, end in enumerate(ends.tolist()):
        if end > first:
            last = first + 1 + int(np.argmax(upto[first + 1 : end + 1]))
            if upto[last] - upto[first] > best:
                best, found = float(upto[last] - upto[first]), (first, last)
    return found


def outside(histogram: Histogram, ends: tuple[float, float]) -> Histogram:
    """What lies beside a window."""
    beside = (histogram.low < ends[0]) | (histogram.low > ends[1])
    return Histogram(histogram.low[beside], histogram.high[beside], histogram.sums[:, beside])


def cut_out(cuts: np.ndarray, ends: tuple[float, float]) -> tuple[np.ndarray, int]:
    """Cuts that make the window a range of its own, and the number of that range."""
    after = float(np.nextafter(np.float32(ends[1]), np.float32(np.inf)))
    inside = (cuts > ends[0]) & (cuts < after)
    cuts = np.unique(np.concatenate([cuts[~inside], [ends[0], after]]))
    return np.asarray(cuts[np.isfinite(cuts)]), int(np.searchsorted(cuts, ends[0], "right"))


def put_counts(sums: RangeSums, number: int, counted: tally.Tally) -> None:
    """Fill in the sums of the range that was counted."""
    m, wrong = counted.totals().sum(axis=0)
    if m:
        sums.sums[:COUNT, number] = _counts(m, wrong)
        sums.sums[COUNT, number] = m
        sums.low[number], sums.high[number] = counted.span()
