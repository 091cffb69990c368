"""Items: stretches of the confidence axis with the sums over the samples in them.

Tables of items merge by putting them together; when there are too many, neighbours join where that costs the
bounds least. Joins follow the binary tree of floating-point numbers (an item never reaches over a boundary
simpler than its own), so tables made from different data fall into the same stretches and hardly overlap, in
whatever order they are merged. An item of one confidence is a tie and stays exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from abstain.core import binning, packed


@dataclass(frozen=True)
class Items:
    """Least confident first (by `low`). Columns of sums: mass, loss, and for weights or real losses w2, w2l,
    w2ll."""

    low: np.ndarray
    high: np.ndarray
    sums: np.ndarray  # shape (2 or 5, items)

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

    def widened(self) -> Items:
        """With the columns of second moments, which equal the plain sums for unit weights and 0/1 losses."""
        if len(self.sums) == 5:
            return self
        mass, loss = self.sums
        return replace(self, sums=np.stack([mass, loss, mass, loss, loss]))


def nothing() -> Items:
    """No items."""
    return Items(np.empty(0), np.empty(0), np.empty((2, 0)))


def bits_of(values: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of the floats."""
    return packed.ordered_bits(values.astype(np.float64, copy=False), True)


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


def joined(tables: list[Items], limit: int) -> Items:
    """All tables together in at most `limit` items."""
    tables = [t for t in tables if len(t)]
    if not tables:
        return nothing()
    if len({len(t.sums) for t in tables}) > 1:
        tables = [t.widened() for t in tables]
    low, high = np.concatenate([t.low for t in tables]), np.concatenate([t.high for t in tables])
    order = np.lexsort((high, low))
    items = Items(low[order], high[order], np.concatenate([t.sums for t in tables], axis=1)[:, order])
    same = (items.low[1:] == items.low[:-1]) & (items.high[1:] == items.high[:-1])
    items = _added(items, np.flatnonzero(np.concatenate([[True], ~same])))
    while len(items) > limit:
        items = _coarser(items, len(items) - limit)
    return items


def _added(items: Items, starts: np.ndarray) -> Items:
    """Neighbours from one start to the next become one item."""
    if len(starts) == len(items):
        return items
    return Items(
        items.low[starts],
        np.maximum.reduceat(items.high, starts),
        np.add.reduceat(items.sums, starts, axis=1),
    )


def _coarser(items: Items, excess: int) -> Items:
    """Join the cheapest of the pairs that are nearest neighbours in the tree."""
    high = np.maximum(items.high[1:], items.high[:-1])
    height = level(bits_of(items.low[:-1]), bits_of(high)).astype(np.int64)
    left = np.concatenate([[1 << 20], height[:-1]])
    right = np.concatenate([height[1:], [1 << 20]])
    pairs = np.flatnonzero((height < left) & (height <= right))
    price = _price(items)[pairs]
    most = max(1, len(pairs) // 2)  # the dearer half may find cheaper partners next time
    count = min(excess, most)
    chosen = pairs[np.argpartition(price, count - 1)[:count]]
    first = np.ones(len(items), dtype=bool)
    first[chosen + 1] = False
    return _added(items, np.flatnonzero(first))


def _price(items: Items) -> np.ndarray:
    """About what joining each item with the next adds to the gap between the bounds.

    A stretch of mass m and loss l below (N, S) leaves `m/N (l + m S/2N)` open. A little is added for errors
    that may still come: a stretch without any costs nothing today.
    """
    mass, loss = items.mass, np.abs(items.loss)
    m, l = mass[:-1] + mass[1:], loss[:-1] + loss[1:]
    N, S = np.cumsum(mass[::-1])[::-1][:-1], np.cumsum(loss[::-1])[::-1][:-1]
    prior = 0.1 * max(float(S[0] / N[0]), 1e-3)
    return np.asarray(m / N * (l + m * (S / (2 * N) + prior)))


def overlaps(items: Items) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each item: mass and loss surely above it, and mass and loss of the items that overlap it."""
    above = np.searchsorted(items.low, items.high, "right")
    by_high = np.argsort(items.high, kind="stable")
    under = np.searchsorted(items.high[by_high], items.low, "left")
    some = above - under > 1  # more than the item itself is neither above nor below
    parts = []
    for x in (items.mass, items.loss):
        up = np.concatenate([np.cumsum(x[::-1])[::-1], [0.0]])[above]
        down = np.concatenate([[0.0], np.cumsum(x[by_high])])[under]
        parts += [up, np.where(some, np.maximum(x.sum() - up - down - x, 0.0), 0.0)]
    return parts[0], parts[2], parts[1], parts[3]


def as_bins(items: Items, most: float | None, whole: bool) -> binning.Bins:
    """Items as bins, each with what lies above it at best and at worst."""
    N, S, mass, loss = overlaps(items)
    largest = most or 1.0
    heavy = loss / largest  # overlapping loss as members of the largest loss
    light = np.maximum(mass - heavy, 0.0)
    if whole:  # positions are whole numbers: round both to the side that keeps the bounds true
        heavy, light = np.ceil(heavy), np.ceil(light)
        loss = heavy * largest
    tie = items.low >= items.high
    return binning.Bins(items.mass, items.loss, tie, N + light, S, N + heavy, S + loss, whole, np)
