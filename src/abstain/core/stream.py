"""One vector of samples, sorted once and read from the most confident down, a cacheful at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from abstain.core import packed
from abstain.core.payload import pack_loss
from abstain.core.rows import Rows

CHUNK = 1 << 16  # samples read at a time: their columns stay in cache
Piece = Callable[[int, int], np.ndarray]


class Sorted(NamedTuple):
    """Samples in order, most confident first, read piece by piece: `read(start, stop)`."""

    n: int
    ends: Piece  # mask: does a run of equal confidences end here?
    loss: Piece
    weight: Piece | None
    total: float


def sort_once(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> Sorted:
    """Sort by packed keys where the loss fits below them, by packed indices otherwise."""
    n = len(loss)
    keys = pack_loss(loss, confidence) if weight is None else None
    if keys is not None:
        below, unpack = keys[1:]
        ranked = packed.sort_in_place(keys[0])
        return Sorted(
            n,
            lambda a, b: packed.run_ends(ranked, below, a, b),
            lambda a, b: unpack(ranked[a:b]),
            None,
            float(n),
        )
    order = packed.order_of(confidence)
    ends = packed.run_ends(confidence[order], 0, 0, n)
    values = loss[order]
    if weight is None and loss.dtype == np.float32:
        values = _ordered_within_ties(values, ends)
    mass = None if weight is None else weight[order].astype(np.float64, copy=False)
    return Sorted(
        n,
        lambda a, b: ends[a:b],
        lambda a, b: values[a:b].astype(np.float64, copy=False),
        None if mass is None else lambda a, b: mass[a:b],
        float(n) if mass is None else float(mass.sum()),
    )


def pieces(samples: Sorted, with_loss: bool = True, size: int = CHUNK) -> Iterator[Rows]:
    """The blocks that end in each piece, with what is accepted at each. Without `with_loss`, `L` is left empty."""
    W = np.asarray([samples.total])
    N_done = S_done = 0.0  # at the end of the last block
    N_seen = S_seen = 0.0  # at the last sample
    for a in range(0, samples.n, size):
        b = min(a + size, samples.n)
        own, mass = samples.loss(a, b), samples.weight and samples.weight(a, b)
        if mass is not None:
            own = own * mass
        places = np.flatnonzero(samples.ends(a, b))
        S, N_next = np.cumsum(own), float(b)
        if mass is None:
            N = places + (a + 1.0)
        else:
            N = np.cumsum(mass) + N_seen
            N, N_next = N[places], float(N[-1])
        S_next = float(S[-1]) + S_seen
        S = S.take(places) + S_seen
        if len(places):
            m, L = np.diff(N, prepend=N_done), None
            if own.dtype == np.uint8:  # whole numbers: differences of sums are exact
                L = np.diff(S, prepend=S_done) if with_loss else None
            elif with_loss or mass is not None:  # a difference of sums rounds; a block of one needs none
                lone = np.diff(places, prepend=-1 if N_done == N_seen else -2) == 1
                L = np.where(lone, own.take(places), np.diff(S, prepend=S_done))
                m = m if mass is None else np.where(lone, mass.take(places), m)
            N_done, S_done = float(N[-1]), float(S[-1])
            yield Rows(m, L, N, S, W, np, False)
        N_seen, S_seen = N_next, S_next


def _ordered_within_ties(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """float32 values in an order that does not depend on how equal confidences came in."""
    if ends.all():
        return values
    run = np.cumsum(ends, dtype=np.uint64) - ends
    keys = (run << np.uint64(32)) | values.view(np.uint32)
    return np.asarray(packed.sort_in_place(keys) & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)
