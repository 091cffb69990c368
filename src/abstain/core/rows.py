"""Rows: what every formula of this package reads.

A row is one distinct confidence (a *block*): its mass `m` and loss sum `L`, and beside them the mass `N` and loss
`S` accepted when the threshold is put at this block. `S / N` is the selective risk, `N / W` the coverage.
Rows lie along the last axis; leading axes are batches. Rows of no mass may be present and count for nothing, which
is how arrays of fixed shape (batches, compiled code) carry tables of different lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace, float_dtype, running_max
from abstain.core import sorting
from abstain.core.sorting import pack_loss


class Rows(NamedTuple):
    """One row per distinct confidence along the last axis, most confident first; leading axes are batches.

    Formulas write m, L, N, S and W for the five arrays. Always construct with keywords.

    Attributes
    ----------
    mass, loss : array, shape (..., k)
        m and L: total weight, and total of weight times loss, of the samples in each row.
    accepted_mass, accepted_loss : array, shape (..., k)
        N and S: the same for all samples accepted when the threshold is put at this row, which are those of this row
        and of all rows above it.
    total_mass : array, shape (..., 1)
        W: the mass of the whole data set, also where these rows are only a part of it.
    xp : module
        Array namespace of the five arrays.
    padded : bool
        True when some rows at the top may accept no mass, so that a division by `accepted_mass` needs a guard.
    """

    mass: Array
    loss: Array
    accepted_mass: Array
    accepted_loss: Array
    total_mass: Array
    xp: Namespace = np
    padded: bool = True

    @classmethod
    def accumulate(cls, mass: np.ndarray, loss: np.ndarray) -> Rows:
        """Rows of a whole data set from the mass and loss of each row, most confident first; all masses positive."""
        accepted_mass = np.cumsum(mass)
        return cls(
            mass=mass,
            loss=loss,
            accepted_mass=accepted_mass,
            accepted_loss=np.cumsum(loss),
            total_mass=accepted_mass[-1:],
            padded=False,
        )

    @property
    def risk(self) -> Array:
        """Selective risk at each row; 0 where nothing is accepted."""
        if self.padded:
            return safe_divide(self.xp, self.accepted_loss, self.accepted_mass)
        return self.accepted_loss / self.accepted_mass

    def slice(self, start: int, stop: int) -> Rows:
        """Rows `start` to `stop` (exclusive) of a single data set; accepted sums are still counted from the top."""
        return self._replace(
            mass=self.mass[start:stop],
            loss=self.loss[start:stop],
            accepted_mass=self.accepted_mass[start:stop],
            accepted_loss=self.accepted_loss[start:stop],
        )


def rows_from_blocks(mass: Array, loss_sum: Array, xp: Namespace = np) -> Rows:
    """Rows, most confident first, of a block table (which ascends)."""
    m, L = xp.flip(mass, axis=-1), xp.flip(loss_sum, axis=-1)
    N, S = xp.cumulative_sum(m, axis=-1), xp.cumulative_sum(L, axis=-1)
    return Rows(mass=m, loss=L, accepted_mass=N, accepted_loss=S, total_mass=N[..., -1:], xp=xp)


def rows_from_samples(xp: Namespace, loss: Array, confidence: Array, weight: Array | None = None) -> Rows:
    """Rows of samples along the last axis, in arrays of the samples' own shape.

    Values never leave the device, and nothing depends on the order of the samples: equal confidences are ordered
    by loss before they are added up.
    """
    loss, confidence, weight = sort_samples(xp, loss, confidence, weight)
    last = xp.ones_like(loss[..., :1], dtype=xp.bool)
    ends = xp.concat([confidence[..., 1:] != confidence[..., :-1], last], axis=-1)
    return rows_from_sorted(xp, loss, ends, weight)


def rows_from_sorted(xp: Namespace, loss: Array, ends: Array, weight: Array | None = None) -> Rows:
    """Rows of samples that stand most confident first; `ends` marks the last of each run of equals.

    A block's row stands where its run ends, the other places are rows of no mass.
    """
    n = loss.shape[-1]
    index = xp.broadcast_to(xp.arange(1, n + 1, **device_keyword(loss)), loss.shape)
    own = loss if weight is None else weight * loss
    N = xp.astype(index, loss.dtype) if weight is None else xp.cumulative_sum(weight, axis=-1)
    S = xp.cumulative_sum(own, axis=-1)
    closed = running_max(xp, xp.where(ends, index, xp.zeros_like(index)))
    # where the block above ended
    before = xp.concat([xp.zeros_like(closed[..., :1]), closed[..., :-1]], axis=-1)
    zero = xp.zeros_like(loss[..., :1])
    m = N - xp.take_along_axis(xp.concat([zero, N], axis=-1), before, axis=-1)
    L = S - xp.take_along_axis(xp.concat([zero, S], axis=-1), before, axis=-1)
    single = before == index - 1  # the subtraction is only needed, and only rounds, in a real tie
    L = xp.where(single, own, L)
    if weight is not None:
        m = xp.where(single, weight, m)
    nothing = xp.zeros_like(loss)
    return Rows(
        mass=xp.where(ends, m, nothing),
        loss=xp.where(ends, L, nothing),
        accepted_mass=N,
        accepted_loss=S,
        total_mass=N[..., -1:],
        xp=xp,
    )


def safe_divide(xp: Namespace, value: Array, by: Array) -> Array:
    """`value / by`, 0 where `by` is not positive; nothing is divided by 0, so that gradients are finite too."""
    some = by > 0
    return xp.where(some, value, 0.0) / xp.where(some, by, 1.0)


def device_keyword(x: Array) -> dict[str, Any]:
    """Keyword that makes a new array where `x` lives."""
    return {"device": x.device} if hasattr(x, "device") else {}


def sort_samples(
    xp: Namespace, loss: Array, confidence: Array, weight: Array | None
) -> tuple[Array, Array, Array | None]:
    """Samples, most confident first, as wide floats; equal confidences ordered by loss (then by weight)."""
    wide = float_dtype(xp)
    for column in ("weight", "loss"):
        values = weight if column == "weight" else loss
        if values is None or xp.isdtype(values.dtype, ("bool", "integral")):
            continue  # whole numbers add up exactly anyhow
        order = xp.argsort(values, axis=-1, stable=True)
        loss, confidence = _take(xp, loss, order), _take(xp, confidence, order)
        weight = None if weight is None else _take(xp, weight, order)
    order = xp.argsort(confidence, axis=-1, descending=True, stable=True)
    weight = None if weight is None else xp.astype(_take(xp, weight, order), wide)
    return xp.astype(_take(xp, loss, order), wide), _take(xp, confidence, order), weight


def _take(xp: Namespace, x: Array, order: Array) -> Array:
    return xp.take_along_axis(x, order, axis=-1)


# The block table: one row per distinct confidence, ascending --------------------------------------
#
# This is the public, mergeable form of rows, and the currency of engines that users register: whoever can group and
# add can make one, wherever the samples are, and tables merge by adding rows of equal confidence. Everything that an
# estimate and its error bar read is in it. The engines of this package cut the confidence axis into ranges instead,
# and hand over the sums of each range (`stretch`), so that no table of all distinct confidences is ever held.


@dataclass(frozen=True)
class Blocks:
    """Distinct confidences, ascending, each with the sums over its members (weights w, losses l).

    Attributes
    ----------
    confidence : ndarray, shape (k,)
        Rising, each once.
    mass, loss_sum : ndarray, shape (k,)
        Sums of w and of w l. Tables of one data set share one scale of weights, between 1e-70 and 1e70: fourth
        powers must stay within the range of a double.
    w2, w2l, w2ll : ndarray, shape (k,)
        Sums of w^2, w^2 l and w^2 l^2.
    fourths : ndarray, shape (5, k)
        Sums of w^4 l^j, j = 0 ... 4.
    count : ndarray of int, shape (k,)
        Members.
    graded : ndarray of int, shape (k,)
        Members whose loss is neither 0 nor 1 (low moments cannot tell: .5, .5, .5, 1.5 have those of a 0/1 loss).

    Examples
    --------
    >>> left = Blocks.from_samples(np.asarray([0, 1]), np.asarray([0.9, 0.5]))
    >>> both = left.merge(Blocks.from_samples(np.asarray([1]), np.asarray([0.9])))
    >>> both.confidence.tolist(), both.mass.tolist(), both.loss_sum.tolist()
    ([0.5, 0.9], [1.0, 2.0], [1.0, 1.0])
    """

    confidence: np.ndarray
    mass: np.ndarray
    loss_sum: np.ndarray
    w2: np.ndarray
    w2l: np.ndarray
    w2ll: np.ndarray
    fourths: np.ndarray
    count: np.ndarray
    graded: np.ndarray

    def __len__(self) -> int:
        return len(self.confidence)

    @classmethod
    def from_samples(
        cls, loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None
    ) -> Blocks:
        """Sort once, add up runs of equals."""
        order, stops = rank_confidences(confidence)
        l = loss[order].astype(np.float64)
        sums = sum_powers_by_row(l, None if weight is None else weight[order].astype(np.float64), stops)
        counts = diff_from(stops, 0)
        graded = np.add.reduceat((l != 0) & (l != 1), stops - counts, dtype=np.int64)
        columns = [*sums[:5], np.stack(sums[5:]), counts, graded]
        return cls(confidence[order[stops - 1]][::-1], *(x[..., ::-1] for x in columns))

    def merge(self, *others: Blocks) -> Blocks:
        """The table of all samples together; any order of merging gives the same rows (sums up to rounding)."""
        every = [[getattr(table, column.name) for table in (self, *others)] for column in fields(self)]
        confidence, *columns = (np.concatenate(parts, axis=-1) for parts in every)
        order = np.argsort(confidence, kind="stable")
        distinct, starts = np.unique(confidence[order], return_index=True)
        return Blocks(distinct, *(np.add.reduceat(x[..., order], starts, axis=-1) for x in columns))

    def in_units(self) -> Blocks:
        """The table with relative weights over their unit: 1 where all are equal, a power of two otherwise."""
        mean = self.mass / self.count
        equal = np.allclose(mean, mean[0], rtol=1e-12, atol=0) and np.allclose(
            self.w2 * self.count, self.mass**2, rtol=1e-12, atol=0
        )
        largest = float(np.sqrt(self.w2.max()))
        unit = float(mean[0]) if equal else 2.0 ** math.floor(math.log2(largest))
        if unit == 1:
            return self
        return replace(
            self,
            mass=self.count.astype(np.float64) if equal else self.mass / unit,
            loss_sum=self.loss_sum / unit,
            w2=self.count.astype(np.float64) if equal else self.w2 / unit**2,
            w2l=self.w2l / unit**2,
            w2ll=self.w2ll / unit**2,
            fourths=self.fourths / unit**4,
        )

    @property
    def zero_one(self) -> bool:
        """Are all losses 0 or 1?"""
        return not self.graded.any()

    def rows(self) -> Rows:
        """The same table with what is accepted at each row, most confident first."""
        return rows_from_blocks(self.mass, self.loss_sum)


# One vector of samples, sorted once and read from the most confident down, a cacheful at a time ----

CHUNK = 1 << 16  # samples read at a time: their columns stay in cache
Piece = Callable[[int, int], np.ndarray]


class SampleReader(NamedTuple):
    """Samples in order, most confident first, read piece by piece: `read(start, stop)`."""

    sample_count: int
    read_row_ends: Piece  # places, from `start` on, where a run of equal confidences ends
    read_loss: Piece
    read_weight: Piece | None
    total_mass: float


class Ranking(NamedTuple):
    """One sort of confidences, for every loss that is read along it: indices, most confident first."""

    order: np.ndarray
    row_stops: np.ndarray  # after each run of equals: how many samples it and those above it hold


def rank_confidences(confidence: np.ndarray, order: np.ndarray | None = None) -> Ranking:
    """Sort once; or take the order, where it is known."""
    order, ranked = (
        sorting.argsort_descending_with_keys(confidence) if order is None else (order, confidence[order])
    )
    ends = sorting.run_ends(ranked, 0, 0, len(order))
    return Ranking(order, np.flatnonzero(ends) + 1)


def read_by_confidence(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> SampleReader:
    """Sort by packed keys where the loss fits below them, by packed indices otherwise."""
    n = len(loss)
    keys = pack_loss(loss, confidence) if weight is None else None
    if keys is not None:
        below, unpack = keys[1:]
        ranked = sorting.sort_in_place(keys[0])
        return SampleReader(
            n,
            lambda a, b: np.flatnonzero(sorting.run_ends(ranked, below, a, b)),
            lambda a, b: unpack(ranked[a:b]),
            None,
            float(n),
        )
    order, stops = ranking = rank_confidences(confidence)
    found = read_along_ranking(ranking, loss, weight)
    if weight is None and loss.dtype == np.float32 and len(stops) < n:
        # let no order of entry show within ties
        run = np.repeat(np.arange(len(stops), dtype=np.uint64), diff_from(stops, 0))
        within = sorting.sort_in_place((run << np.uint64(32)) | loss[order].view(np.uint32))
        found = found._replace(read_loss=lambda a, b: sorting.unpack_float32(within[a:b]))
    return found


def read_along_ranking(
    ranking: Ranking, loss: np.ndarray, weight: np.ndarray | None, zero_one: bool = False
) -> SampleReader:
    """Samples whose ranking is known; unweighted 0/1 losses as bytes, which add up exactly and fast."""
    order, stops = ranking
    kind = np.uint8 if zero_one and weight is None else np.float64

    def ends(a: int, b: int) -> np.ndarray:
        first, last = np.searchsorted(stops, (a, b), "right")
        return np.asarray(stops[first:last] - (a + 1))

    return SampleReader(
        len(order),
        ends,
        lambda a, b: loss[order[a:b]].astype(kind, copy=False),
        None if weight is None else lambda a, b: weight[order[a:b]].astype(np.float64, copy=False),
        float(len(order) if weight is None else weight.sum()),
    )


def split_at_row_ends(samples: SampleReader, size: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Pieces of whole rows, [start, stop), of about `size` samples, with the places from start on where rows end."""
    a = 0
    while a < samples.sample_count:
        start, stop = a, min(a + size, samples.sample_count)
        while not len(places := samples.read_row_ends(start, stop)):  # a row longer than a piece
            start, stop = stop, min(a + 8 * (stop - a), samples.sample_count)
        places += start - a
        b = a + int(places[-1]) + 1
        yield a, b, places
        a = b


def iterate_rows(samples: SampleReader, with_loss: bool = True, size: int = CHUNK) -> Iterator[Rows]:
    """Rows, with what is accepted at each, in pieces that stay in cache. Without `with_loss`, `L` may be left out."""
    W, N_done, S_done = np.asarray([samples.total_mass]), 0.0, 0.0
    for a, b, places in split_at_row_ends(samples, size):
        own, mass = samples.read_loss(a, b), samples.read_weight and samples.read_weight(a, b)
        if mass is None:
            N = places + (a + 1.0)
        else:
            own, N = own * mass, np.cumsum(mass).take(places) + N_done
        one_row = len(places) == 1 and own.dtype == np.uint8  # other sums must round as those of the mass do
        S = (own.sum(keepdims=True) if one_row else np.cumsum(own).take(places)) + S_done
        m, L = diff_from(N, N_done), None
        if own.dtype == np.uint8:  # whole numbers: differences of sums are exact
            L = diff_from(S, S_done) if with_loss else None
        elif with_loss or mass is not None:  # a difference of sums rounds; a block of one needs none
            lone = diff_from(places, -1) == 1
            L = np.where(lone, own.take(places), diff_from(S, S_done))
            m = m if mass is None else np.where(lone, mass.take(places), m)
        N_done, S_done = float(N[-1]), float(S[-1])
        yield Rows(mass=m, loss=L, accepted_mass=N, accepted_loss=S, total_mass=W, padded=False)


def diff_from(x: np.ndarray, before: float) -> np.ndarray:
    """Differences of neighbours, the first from `before`."""
    found = np.empty_like(x)
    np.subtract(x[1:], x[:-1], out=found[1:])
    found[0] = x[0] - before
    return found


def make_row_sum(stops: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """What adds up values of ranked samples by row; `stops`: where rows end."""
    counts = diff_from(stops, 0)
    starts = stops - counts
    tied = np.flatnonzero(counts > 1)
    inner = np.cumsum(counts[tied]) - counts[tied]
    inside = np.repeat(starts[tied] - inner, counts[tied])  # the members of tied rows
    inside += np.arange(len(inside))

    def total(x: np.ndarray) -> np.ndarray:
        if not len(tied):
            return x
        found = x[starts]  # rows of one member need no sum
        found[tied] = np.add.reduceat(x[inside], inner)
        return found

    return total


def sum_powers_by_row(
    l: np.ndarray, w: np.ndarray | None, stops: np.ndarray, zero_one: bool = False, fourths: bool = True
) -> list[np.ndarray]:
    """Of ranked samples, for each row: w, w l, w^2 l^j (j <= 2), w^4 l^j (j <= 4). `stops`: where rows end.

    One array stands for all powers of a 0/1 loss, and for those of a weight of 1. `fourths=False` leaves w^4 out.
    """
    total = make_row_sum(stops)

    def powers(x: np.ndarray, most: int) -> list[np.ndarray]:
        if zero_one:
            return [total(x), *most * [total(x * l)]]
        found = [x]
        for _ in range(most):
            found.append(found[-1] * l)
        return [total(y) for y in found]

    if w is None:
        every = [diff_from(stops, 0).astype(np.float64), *powers(l, 3 if fourths else 1)]
        return [*every[:2], *every[:3], *(every if fourths else ())]
    square = w * w
    return [*powers(w, 1), *powers(square, 2), *(powers(square * square, 4) if fourths else ())]


def rows_from_numpy(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    """Rows of numpy samples: compact (one row a block) for a vector, of the samples' shape for a batch."""
    if loss.ndim > 1:
        return _batch_rows(loss, confidence, weight)
    parts = iterate_rows(read_by_confidence(loss, confidence, weight))
    mass, loss_sum, accepted_mass, accepted_loss = (
        np.concatenate(column) for column in zip(*(part[:4] for part in parts))
    )
    return Rows(
        mass=mass,
        loss=loss_sum,
        accepted_mass=accepted_mass,
        accepted_loss=accepted_loss,
        total_mass=accepted_mass[-1:],
        padded=False,
    )


def _batch_rows(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> Rows:
    import array_api_compat.numpy as xp

    keys = pack_loss(loss, confidence) if weight is None else None
    if keys is None:
        return rows_from_samples(xp, loss, confidence, weight)
    ranked, below, unpack = keys
    sorting.sort_in_place(ranked)
    heads = ranked >> ranked.dtype.type(below)
    ends = np.ones(heads.shape, dtype=bool)
    np.not_equal(heads[..., 1:], heads[..., :-1], out=ends[..., :-1])
    return rows_from_sorted(xp, unpack(ranked).astype(np.float64), ends)
