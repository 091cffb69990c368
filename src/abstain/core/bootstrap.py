"""Resampling after one sort: counts are drawn in sorted order, so no replicate is sorted again.

A replicate is a table of rows whose masses are the counts drawn; every metric that reads rows reads
replicates, many at a time. When few pairs of confidence and loss are distinct, the pairs are drawn instead of
the samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from abstain.core import sorting
from abstain.core.area_estimators import area_terms
from abstain.core.influence import Ranked
from abstain.core.rows import Rows, rank_confidences

_AT_ONCE = 1 << 17  # numbers in one table of counts: it stays in cache
_CELLS_PAY = 8  # samples per distinct pair from which drawing the pairs is faster


class Draw(NamedTuple):
    """Replicates as rows by confidence, by loss on demand, and their whole mass, abstained included."""

    rows: Rows
    total: np.ndarray
    by_loss: Callable[[], Rows]


class Resampler:
    """Sorted samples, ready to be drawn from again and again.

    The last `idle` units have abstained: they are drawn, count in the total, and carry no row.
    """

    def __init__(
        self,
        loss: np.ndarray,
        confidence: np.ndarray,
        weight: np.ndarray | None = None,
        idle_weight: np.ndarray | None = None,
        clusters: np.ndarray | None = None,
        strata: np.ndarray | None = None,
    ) -> None:
        order = sorting.argsort_descending(confidence)
        self.loss = loss[order].astype(np.float64)
        self.key = confidence[order]
        idle = 0 if idle_weight is None else len(idle_weight)
        self.weight = None if weight is None else weight[order].astype(np.float64)
        self.idle_weight = idle_weight if weight is not None else None
        arranged = np.concatenate([order, np.arange(len(order), len(order) + idle)])
        self.clusters = None if clusters is None else clusters[arranged]
        self.strata = None if strata is None else strata[arranged]
        self.n = len(arranged)
        self.repeats: np.ndarray | None = None
        if weight is None and clusters is None and strata is None:
            self._draw_cells_if_few(idle)
        self.starts = _starts(self.key)
        self._loss_order: np.ndarray | None = None

    def _draw_cells_if_few(self, idle: int) -> None:
        """Replace samples by distinct (confidence, loss) pairs with the number of their repeats."""
        within = np.lexsort((self.loss, -self.key))
        key, loss = self.key[within], self.loss[within]
        new = np.concatenate([[True], (key[1:] != key[:-1]) | (loss[1:] != loss[:-1])])
        if np.count_nonzero(new) * _CELLS_PAY > len(key):
            return
        first = np.flatnonzero(new)
        self.key, self.loss = key[first], loss[first]
        repeats = np.diff(np.append(first, len(key)))
        self.repeats = np.append(repeats, idle) if idle else repeats

    @property
    def width(self) -> int:
        """Numbers drawn per replicate."""
        return self.n if self.repeats is None else len(self.repeats)

    def batches(self, replicates: int) -> list[int]:
        """Sizes of the tables to draw, one after the other."""
        step = max(1, _AT_ONCE // self.width)
        return [min(step, replicates - a) for a in range(0, replicates, step)]

    def draw(self, rng: np.random.Generator, size: int) -> Draw:
        """`size` replicates."""
        return self.tabulate(self.counts(rng, size))

    def tabulate(self, counts: np.ndarray) -> Draw:
        """Replicates from how often each unit was drawn."""
        seen = counts[:, : len(self.loss)]
        mass = seen.astype(np.float64) if self.weight is None else seen * self.weight
        total = mass.sum(axis=1)
        rest = counts[:, len(self.loss) :]
        if rest.shape[1]:
            total = total + (rest.sum(axis=1) if self.idle_weight is None else rest @ self.idle_weight)
        rows = _rows(mass, self.loss, self.starts)
        return Draw(rows, total, lambda: self._by_loss(mass))

    def counts(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """How often each unit is drawn, in sorted order, shape (size, width)."""
        if self.repeats is not None:
            return rng.multinomial(self.n, self.repeats / self.n, size=size)
        if self.clusters is None:
            return _counts(rng, self.n, size, self.strata)
        units, strata = int(self.clusters.max()) + 1, None
        if self.strata is not None:
            strata = np.zeros(units, dtype=np.int64)
            strata[self.clusters] = self.strata
        return _counts(rng, units, size, strata)[:, self.clusters]

    def _by_loss(self, mass: np.ndarray) -> Rows:
        if self._loss_order is None:
            # equal losses by weight, as the oracle does
            keys = (self.loss,) if self.weight is None else (self.weight, self.loss)
            self._loss_order = np.lexsort(keys)
        loss = self.loss[self._loss_order]
        whole = self.weight is None or bool(np.all(self.weight == np.floor(self.weight)))
        # as the oracle groups: copies, never neighbours
        starts = _starts(loss) if whole else np.arange(len(loss))
        return _rows(mass[:, self._loss_order], loss, starts)


def _starts(ranked: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))


def _rows(mass: np.ndarray, loss: np.ndarray, starts: np.ndarray) -> Rows:
    own = mass * loss
    if len(starts) < len(loss):
        mass, own = np.add.reduceat(mass, starts, axis=1), np.add.reduceat(own, starts, axis=1)
    N, S = np.cumsum(mass, axis=1), np.cumsum(own, axis=1)
    W = N[:, -1:].copy()
    if not N[:, 0].all():
        N[N == 0] = 1.0  # rows above the first drawn: no mass, no loss, and now no 0/0
    return Rows(mass=mass, loss=own, accepted_mass=N, accepted_loss=S, total_mass=W, padded=False)


def _counts(rng: np.random.Generator, n: int, size: int, strata: np.ndarray | None = None) -> np.ndarray:
    """How often each of n units is drawn, n in all; with strata as many from each as it holds."""
    if strata is not None:
        counts = np.zeros((size, n), dtype=np.int64)
        for stratum in range(int(strata.max()) + 1):
            members = np.flatnonzero(strata == stratum)
            counts[:, members] = _counts(rng, len(members), size)
        return counts
    if n > 2048:
        return np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(size)])
    places = rng.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
    return np.bincount(places.reshape(-1), minlength=size * n).reshape(size, n)


# jackknife ----------------------------------------------------------------------------------------
#
# Every area with one sample left out, for all samples in O(n): the rows above stay, those below lose one
# each.
#
# A row's term is linear in its loss `L` and in the loss `S` accepted there. So the rows below the sample need
# two running sums, of the terms with a loss taken as it is and of the terms with S = 1; only the sample's own
# row is new.


def leave_one_out_areas(
    loss: np.ndarray, confidence: np.ndarray, estimator: str = "harmonic", ties: str = "threshold"
) -> np.ndarray:
    """AURC without sample i, for each i in the order given; unit weights, at least two samples."""
    ranked = Ranked(rank_confidences(confidence), loss)
    (m, L, N, S), l, W = ranked.rows[:4], ranked.loss, np.asarray([len(loss) - 1.0])
    place = np.arange(len(l)) if ranked.place is None else ranked.place

    def terms(m: np.ndarray, L: np.ndarray, N: np.ndarray, S: np.ndarray) -> np.ndarray:
        rows = Rows(mass=m, loss=L, accepted_mass=N, accepted_loss=S, total_mass=W)
        return np.asarray(area_terms(rows, estimator, ties))

    before = np.cumsum(np.append(0.0, terms(m, L, N, S)))[:-1]
    one_less = np.maximum(N - 1, m)  # differs from N - 1 in the top row only, which is below nobody
    after = _sum_below(terms(m, L, one_less, S))
    per_unit = _sum_below(terms(m, np.zeros_like(L), one_less, np.ones_like(S)))
    own = terms(m[place] - 1, L[place] - l, N[place] - 1, S[place] - l)
    left_out = (before[place] + own + after[place] - l * per_unit[place]) / W
    return ranked.given(left_out)


def _sum_below(x: np.ndarray) -> np.ndarray:
    """Sum over the rows strictly below each."""
    return np.append(np.cumsum(x[::-1])[::-1][1:], 0.0)
