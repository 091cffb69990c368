"""Histograms of confidences that merge: stretches of the axis with the sums over the samples in them.

Histograms merge by putting their stretches together; when there are too many, neighbours join where that costs the
bounds least. Joins follow the binary tree of floating-point numbers (a stretch never reaches over a boundary simpler
than its own), so histograms of different data fall into the same stretches and hardly overlap, in whatever order they
are merged. A stretch of one confidence is a tie and stays exact.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np

from abstain._arrays import Array
from abstain.core import confidence_bins, sorting
from abstain.core.sorting import is_zero_one


@dataclass(frozen=True)
class Histogram:
    """Least confident first (by `low`). Columns of sums: mass, loss, and for weights or real losses w2, w2l,
    w2ll."""

    low: np.ndarray
    high: np.ndarray
    sums: np.ndarray  # shape (2 or 5, stretches)

    def __len__(self) -> int:
        return len(self.low)

    @property
    def mass(self) -> np.ndarray:
        """Sum of weights."""
        return np.asarray(self.sums[0])

    @property
    def loss(self) -> np.ndarray:
        """Sum of weighted losses."""
        return np.asarray(self.sums[1])

    def widened(self) -> Histogram:
        """With the columns of second moments, which equal the plain sums for unit weights and 0/1 losses."""
        if len(self.sums) == 5:
            return self
        mass, loss = self.sums
        return replace(self, sums=np.stack([mass, loss, mass, loss, loss]))


def nothing() -> Histogram:
    """Of no samples."""
    return Histogram(np.empty(0), np.empty(0), np.empty((2, 0)))


def bits_of(values: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of the floats."""
    return sorting.ascending_bits(values.astype(np.float64, copy=False), True)


def float_of(bits: np.ndarray) -> np.ndarray:
    """The floats that `bits_of` came from."""
    sign = np.uint64(1) << np.uint64(63)
    return np.where(bits & sign, bits ^ sign, ~bits).view(np.float64)


def level(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far up the binary tree the two meet: the length of their differing bits, 0 when equal."""
    x = a ^ b
    x = x & ~(x >> np.uint64(1))  # so that rounding to a float cannot carry into the next power of two
    return np.asarray(np.frexp(x.astype(np.float64))[1])


def simplest_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """For bits a < b: the number in (a, b] with the most trailing zeros."""
    keep = np.maximum(level(a, b) - 1, 0).astype(np.uint64)
    return (b >> keep) << keep


def joined(tables: list[Histogram], limit: int) -> Histogram:
    """All together, in at most `limit` stretches."""
    tables = [t for t in tables if len(t)]
    if not tables:
        return nothing()
    if len({len(t.sums) for t in tables}) > 1:
        tables = [t.widened() for t in tables]
    low, high = np.concatenate([t.low for t in tables]), np.concatenate([t.high for t in tables])
    order = np.lexsort((high, low))
    table = Histogram(low[order], high[order], np.concatenate([t.sums for t in tables], axis=1)[:, order])
    same = (table.low[1:] == table.low[:-1]) & (table.high[1:] == table.high[:-1])
    table = _added(table, np.flatnonzero(np.concatenate([[True], ~same])))
    while len(table) > limit:
        table = _coarser(table, len(table) - limit)
    return table


def _added(table: Histogram, starts: np.ndarray) -> Histogram:
    """Neighbours from one start to the next become one."""
    if len(starts) == len(table):
        return table
    sums = np.add.reduceat(table.sums, starts, axis=1)
    return Histogram(table.low[starts], np.maximum.reduceat(table.high, starts), sums)


def _coarser(table: Histogram, excess: int) -> Histogram:
    """Join the cheapest of the pairs that are nearest neighbours in the tree."""
    high = np.maximum(table.high[1:], table.high[:-1])
    height = level(bits_of(table.low[:-1]), bits_of(high)).astype(np.int64)
    left = np.concatenate([[1 << 20], height[:-1]])
    right = np.concatenate([height[1:], [1 << 20]])
    pairs = np.flatnonzero((height < left) & (height <= right))
    price = _price(table)[pairs]
    most = max(1, len(pairs) // 2)  # the dearer half may find cheaper partners next time
    count = min(excess, most)
    chosen = pairs[np.argpartition(price, count - 1)[:count]]
    first = np.ones(len(table), dtype=bool)
    first[chosen + 1] = False
    return _added(table, np.flatnonzero(first))


def _price(table: Histogram) -> np.ndarray:
    """About what joining each stretch with the next adds to the gap between the bounds.

    A stretch of mass m and loss l below (N, S) leaves `m/N (l + m S/2N)` open. A little is added for errors
    that may still come: a stretch without any costs nothing today.
    """
    mass, loss = table.mass, np.abs(table.loss)
    m, l = mass[:-1] + mass[1:], loss[:-1] + loss[1:]
    N, S = np.cumsum(mass[::-1])[::-1][:-1], np.cumsum(loss[::-1])[::-1][:-1]
    prior = 0.1 * max(float(S[0] / N[0]), 1e-3)
    return np.asarray(m / N * (l + m * (S / (2 * N) + prior)))


def shares(table: Histogram, above: np.ndarray, under: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of mass and of loss: what stands from `above` on (by low end), and what neither there nor among the first
    `under` (by high end)."""
    by_high, found = np.argsort(table.high, kind="stable"), []
    for x in (table.mass, table.loss):
        up = np.concatenate([np.cumsum(x[::-1])[::-1], [0.0]])[above]
        down = np.concatenate([[0.0], np.cumsum(x[by_high])])[under]
        found.append((up, np.maximum(x.sum() - up - down, 0.0)))
    return found


def overlaps(table: Histogram) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each stretch: mass and loss surely above it, and mass and loss of what overlaps it."""
    above = np.searchsorted(table.low, table.high, "right")
    under = np.searchsorted(np.sort(table.high), table.low, "left")
    (N, mass), (S, loss) = shares(table, above, under)
    some = above - under > 1  # more than the stretch itself is neither above nor below
    mass, loss = (np.where(some, np.maximum(x, 0.0), 0.0) for x in (mass - table.mass, loss - table.loss))
    return N, S, mass, loss


def as_bins(table: Histogram, most: float | None, whole: bool) -> confidence_bins.Bins:
    """Stretches as bins, each with what lies above it at best and at worst."""
    N, S, mass, loss = overlaps(table)
    largest = most or 1.0
    heavy = loss / largest  # overlapping loss as members of the largest loss
    light = np.maximum(mass - heavy, 0.0)
    if whole:  # positions are whole numbers: round both to the side that keeps the bounds true
        heavy, light = np.ceil(heavy), np.ceil(light)
        loss = heavy * largest
    tie = table.low >= table.high
    return confidence_bins.Bins(
        mass=table.mass,
        loss=table.loss,
        is_tie=tie,
        mass_above_best=N + light,
        loss_above_best=S,
        mass_above_worst=N + heavy,
        loss_above_worst=S + loss,
        whole=whole,
        xp=np,
    )


def histogram_of(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, count: int
) -> Histogram:
    """At most about `count` stretches of numpy samples; one per distinct confidence when there are that few."""
    if weight is None and is_zero_one(loss):
        packing = sorting.Packing(confidence)
        if packing.fits(1):
            return _of_zero_one(packing, loss, count)
    order = sorting.argsort_descending(confidence)[::-1]
    ranked = confidence[order].astype(np.float64, copy=False)
    l = loss[order].astype(np.float64)
    w = np.ones_like(l) if weight is None else weight[order].astype(np.float64)
    starts = _starts(ranked, count)
    columns = np.stack([w, w * l, w * w, w * w * l, w * w * l * l])
    ends = np.append(starts[1:], len(ranked)) - 1
    return Histogram(ranked[starts], ranked[ends], np.add.reduceat(columns, starts, axis=1))


def _of_zero_one(packing: sorting.Packing, loss: np.ndarray, count: int) -> Histogram:
    """The error bit rides below the key; only keys at cuts are turned back into numbers."""
    bits = loss.view(np.uint8) if loss.dtype == bool else loss
    keys = sorting.sort_in_place(packing.pack(1, lambda a, b: bits[a:b].astype(np.uint8, copy=False)))
    errors = keys & keys.dtype.type(1)
    keys >>= keys.dtype.type(1)  # most confident first: 0 is the largest confidence
    runs = _run_starts(keys, count)
    if runs is None:
        values = packing.unpack(keys[_quantiles(len(keys), count)])
        cuts = rounded_up(_cuts(values[::-1]), values.dtype).astype(values.dtype)
        bits = sorting.ascending_bits(cuts, packing.has_negative).astype(
            np.uint64
        )  # as this packing writes them
        top = np.uint64(packing.largest_bits)  # beyond 2^63 where confidences have both signs
        heads = (top - bits[bits <= top]).astype(keys.dtype)
        runs = np.unique(np.append(np.searchsorted(keys, heads, "right"), 0))
        runs = runs[runs < len(keys)]
    mass = np.diff(np.append(runs, len(keys))).astype(np.float64)
    wrong = np.add.reduceat(errors, runs).astype(np.float64)  # fewer than 2^32 at a time
    ends = np.append(runs[1:], len(keys)) - 1
    high, low = (packing.unpack(keys[at]).astype(np.float64) for at in (runs, ends))
    return Histogram(low[::-1], high[::-1], np.stack([mass, wrong])[:, ::-1])


def _quantiles(n: int, count: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, count + 1).astype(np.int64))


def _run_starts(ranked: np.ndarray, count: int) -> np.ndarray | None:
    """Where runs of equals start, when there are at most `count` of them."""
    new = np.empty(len(ranked), dtype=bool)
    new[0] = True
    np.not_equal(ranked[1:], ranked[:-1], out=new[1:])
    return np.flatnonzero(new) if np.count_nonzero(new) <= count else None


def _starts(ranked: np.ndarray, count: int) -> np.ndarray:
    runs = _run_starts(ranked, count)
    if runs is not None:
        return runs
    cuts = _cuts(ranked[_quantiles(len(ranked), count)])
    starts = np.unique(np.append(np.searchsorted(ranked, cuts, "left"), 0))
    return np.asarray(starts[starts < len(ranked)])


def _cuts(quantiles: np.ndarray) -> np.ndarray:
    """Thresholds (ascending, a stretch starts at each) between ascending quantiles; a heavy value gets its
    own."""
    bits = bits_of(quantiles)
    a, b = bits[:-1], bits[1:]
    differ = a != b
    simple = simplest_between(a[differ], b[differ])
    heavy = np.unique(a[~differ])
    return float_of(np.unique(np.concatenate([simple, heavy, heavy + np.uint64(1)])))


def rounded_up(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The least number of `dtype` that is not below each value."""
    if dtype == np.float64:
        return values
    with np.errstate(over="ignore"):
        near = values.astype(dtype)
    return np.where(near < values, np.nextafter(near, dtype.type(np.inf)), near)


def histogram_of_tensor(loss: Array, confidence: Array, weight: Array | None, count: int) -> Histogram:
    """Histogram of torch tensors where they live: only the sums come to the host."""
    torch = sys.modules["torch"]
    ranked, order = torch.sort(confidence.double())
    l = loss.double()[order]
    w = torch.ones_like(l) if weight is None else weight.double()[order]
    n = len(l)
    places = torch.from_numpy(_quantiles(n, count)).to(ranked.device)
    new = torch.cat([torch.ones_like(ranked[:1], dtype=torch.bool), ranked[1:] != ranked[:-1]])
    if int(new.sum()) <= count:
        starts = torch.nonzero(new).reshape(-1)
    else:
        cuts = torch.from_numpy(_cuts(ranked[places].cpu().numpy())).to(ranked.device)
        starts = torch.unique(torch.cat([torch.zeros_like(places[:1]), torch.searchsorted(ranked, cuts)]))
        starts = starts[starts < n]
    ends = torch.cat([starts[1:], torch.full_like(starts[:1], n)])
    group = torch.repeat_interleave(torch.arange(len(starts), device=ranked.device), ends - starts)
    columns = torch.stack([w, w * l, w * w, w * w * l, w * w * l * l])
    sums = torch.zeros(5, len(starts), dtype=torch.float64, device=ranked.device).index_add_(
        1, group, columns
    )
    plain = weight is None and bool(torch.all(l * l == l))
    kept = sums[:2] if plain else sums
    return Histogram(*(x.cpu().numpy() for x in (ranked[starts], ranked[ends - 1], kept)))
