"""The plan all exact engines share: cut the confidence axis into ranges, add up each range, finish it on its
own.

A range is finished from its own samples and two numbers, the mass and loss above it. So whoever holds a range
(this process, a Dask worker, a Spark task) needs nothing from the others but sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from abstain.engines.histogram import Items, bits_of, float_of, items_of, joined, nothing

FEW = 12  # cuts that are better compared with than searched in
SUMS = ("mass", "loss", "w2", "w2l", "w2ll", "count", "graded")  # graded: losses neither 0 nor 1


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


def together(parts: list[Columns]) -> Columns:
    """Samples of all parts."""
    columns = zip(*parts)
    return Columns(*(None if c[0] is None else np.concatenate(c, axis=-1) for c in columns))  # type: ignore[arg-type]


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
            if column.dtype != np.promote_types(column.dtype, values.dtype):  # losses 0/1 so far, no longer
                filled = column[..., :at]
                column = np.empty(column.shape, np.promote_types(column.dtype, values.dtype))
                column[..., :at] = filled
                whole = whole._replace(**{Columns._fields[place]: column})
            column[..., at : at + part.rows] = values
        at += part.rows
    if whole is None:
        raise ValueError("gathered: no parts")
    return whole.take(slice(0, at))  # samples without weight were counted, but are not there


@dataclass(frozen=True)
class RangeSums:
    """Sums over each range (ascending): a row of `sums` per column of SUMS, and the confidences found
    there."""

    sums: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def plus(self, other: RangeSums) -> RangeSums:
        """Of both sets of samples."""
        return RangeSums(
            self.sums + other.sums, np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        )

    @property
    def count(self) -> np.ndarray:
        """Samples in each range."""
        return self.sums[5].astype(np.int64)

    def above(self) -> np.ndarray:
        """Mass and loss strictly above each range, shape (2, ranges)."""
        first = self.sums[:2]
        return np.asarray(np.cumsum(first[:, ::-1], axis=1)[:, ::-1] - first)

    @property
    def tied(self) -> np.ndarray:
        """Ranges that hold one confidence: their sums say it all."""
        return np.asarray(self.low >= self.high)


def no_sums(ranges: int) -> RangeSums:
    """Sums over nothing."""
    return RangeSums(np.zeros((len(SUMS), ranges)), np.full(ranges, np.inf), np.full(ranges, -np.inf))


def cuts_for(histogram: Items, ranges: int) -> np.ndarray:
    """Ascending thresholds, a range starts at each, so that about `ranges` ranges have equal mass.

    A confidence that alone outweighs a range becomes a range of its own.
    """
    mass = histogram.mass
    step = mass.sum() / max(1, ranges)
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
    place = _places(columns.confidence, _comparable(cuts, columns.confidence.dtype))
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


def _comparable(cuts: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Cuts in the samples' own type (rounded up), so that the search does not widen every sample."""
    if dtype != np.float32:
        return cuts
    with np.errstate(over="ignore"):
        near = cuts.astype(np.float32)
    return np.where(near < cuts, np.nextafter(near, np.float32(np.inf)), near)


def _sums(columns: Columns, starts: np.ndarray, sizes: np.ndarray) -> RangeSums:
    some = sizes > 0
    result = no_sums(len(sizes))
    first = starts[some]
    result.low[some] = np.minimum.reduceat(columns.confidence, first)
    result.high[some] = np.maximum.reduceat(columns.confidence, first)
    result.sums[5] = sizes
    l, w = columns.loss, columns.weight
    if w is None and l.dtype == bool:  # counted in place: a sum would first widen every one of them
        wrong = [np.count_nonzero(l[a : a + n]) for a, n in zip(first, sizes[some])]
        rows = [sizes[some], wrong, sizes[some], wrong, wrong]
    elif w is None:
        l = l.astype(np.float64, copy=False)
        loss = np.add.reduceat(l, first)
        rows = [sizes[some], loss, sizes[some], loss, np.add.reduceat(l * l, first)]
        result.sums[6, some] = _graded(l, first)
    else:
        l, w = l.astype(np.float64, copy=False), w.astype(np.float64, copy=False)
        rows = [np.add.reduceat(x, first) for x in (w, w * l, w * w, w * w * l, w * w * l * l)]
        result.sums[6, some] = _graded(l, first)
    for row, values in enumerate(rows):
        result.sums[row, some] = values
    return result


def _graded(loss: np.ndarray, first: np.ndarray) -> np.ndarray:
    return np.asarray(np.add.reduceat(((loss != 0) & (loss != 1)).astype(np.int64), first))


# survey -------------------------------------------------------------------------------------------
#
# The first pass: how the confidences are spread, so that ranges can be cut that hold about as much each.


SURVEYED = 1 << 20  # samples the histogram is made of
_RESOLUTION = 1 << 12  # its items


@dataclass
class Survey:
    """What the first pass learns: how confidences are spread, per group; whether losses are 0/1, weights
    whole."""

    rows: dict[Any, int] = field(default_factory=dict)
    histogram: dict[Any, Items] = field(default_factory=dict)
    zero_one: bool = True
    wide: bool = False
    whole: bool = True
    weighted: bool = False

    def add(self, columns: Columns, group: Any, stride: int, rng: np.random.Generator) -> None:
        """Take every `stride`-th sample into the histogram, from a random start."""
        self.rows[group] = self.rows.get(group, 0) + columns.rows
        self.zero_one &= columns.loss.dtype == bool
        self.wide |= columns.confidence.dtype != np.float32
        if columns.weight is not None:
            self.weighted = True
            self.whole &= bool(np.all(columns.weight == np.floor(columns.weight)))
        some = columns.confidence[int(rng.integers(stride)) :: stride]
        if len(some):
            fresh = items_of(np.zeros(len(some), dtype=bool), np.ascontiguousarray(some), None, _RESOLUTION)
            known = self.histogram.get(group, nothing())
            self.histogram[group] = joined([known, fresh], _RESOLUTION)

    def plus(self, others: Iterable[Survey]) -> Survey:
        """The survey of all samples together."""
        result = Survey()
        for part in (self, *others):
            for group, rows in part.rows.items():
                result.rows[group] = result.rows.get(group, 0) + rows
            for group, items in part.histogram.items():
                known = result.histogram.get(group, nothing())
                result.histogram[group] = joined([known, items], _RESOLUTION)
            result.zero_one &= part.zero_one
            result.wide |= part.wide
            result.whole &= part.whole
            result.weighted |= part.weighted
        return result
