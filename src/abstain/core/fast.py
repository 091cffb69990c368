"""Rows and areas of numpy samples by the fastest road that is exact.

Whatever the road, the rows are those of `rows.rows_of_samples`; the tests hold every road against every other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from abstain.core import packed
from abstain.core.estimators import area_terms, reads_block_loss
from abstain.core.rows import Rows, rows_of_samples, rows_of_sorted
from abstain.core.weights import rank_weights

_BATCH_CHUNK = 1 << 17  # samples of a batch handled at a time
Piece = Callable[[int, int], np.ndarray]


def area(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, estimator: str, ties: str
) -> np.ndarray | float:
    """AURC of samples along the last axis."""
    if loss.ndim > 1:
        return _batched_area(loss, confidence, weight, estimator, ties)
    samples = _stream(loss, confidence, weight)

    def span(start: int, stop: int) -> list[float]:
        pieces = _pieces(samples, reads_block_loss(estimator, ties), start, stop)
        return [float(np.sum(area_terms(rows, estimator, ties))) for rows in pieces]

    return math.fsum(x for sums in _in_spans(samples, span) for x in sums) / samples.total


def rows_of(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    """Rows of samples: compact (one row a block) for a vector, of the samples' shape for a batch."""
    if loss.ndim > 1:
        keys = _packed(loss, confidence) if weight is None else None
        return _generic_rows(loss, confidence, weight) if keys is None else _rows_of_keys(*keys)
    pieces = _pieces(_stream(loss, confidence, weight))
    m, L, N, S = (np.concatenate(column) for column in zip(*((r.m, r.L, r.N, r.S) for r in pieces)))
    return Rows(m, L, N, S, N[-1:], np, False)


def is_zero_one(loss: np.ndarray) -> bool:
    """Are all losses 0 or 1?"""
    if loss.dtype == bool:
        return True
    flat = loss.reshape(-1)
    return all(
        bool(np.all(flat[a : a + packed.CHUNK] * flat[a : a + packed.CHUNK] == flat[a : a + packed.CHUNK]))
        for a in range(0, len(flat), packed.CHUNK)
    )


# one vector -------------------------------------------------------------------------------------------------------


class _Sorted(NamedTuple):
    """Samples in order, most confident first, read piece by piece: `read(start, stop)`."""

    n: int
    ends: Piece  # mask: does a run of equal confidences end here?
    loss: Piece
    weight: Piece | None
    total: float
    exact: bool = False  # are sums of losses exact (0/1), so that they may be begun anywhere?


def _stream(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> _Sorted:
    n = len(loss)
    keys = _packed(loss, confidence) if weight is None else None
    if keys is not None:
        below, unpack = keys[1:]
        ranked = packed.sort_in_place(keys[0])
        return _Sorted(
            n,
            lambda a, b: packed.run_ends(ranked, below, a, b),
            lambda a, b: unpack(ranked[a:b]),
            None,
            float(n),
            exact=below == 1,
        )
    order = packed.order_of(confidence)
    ends = packed.run_ends(confidence[order], 0, 0, n)
    values = loss[order]
    if weight is None and loss.dtype == np.float32:
        values = _ordered_within_ties(values, ends)
    mass = None if weight is None else weight[order].astype(np.float64, copy=False)
    return _Sorted(
        n,
        lambda a, b: ends[a:b],
        lambda a, b: values[a:b].astype(np.float64, copy=False),
        None if mass is None else lambda a, b: mass[a:b],
        float(n) if mass is None else float(mass.sum()),
    )


def _in_spans(samples: _Sorted, work: Callable[[int, int], list[float]]) -> list[list[float]]:
    """`work(start, stop)` over spans that begin where a block begins, in threads when sums may begin anywhere."""
    parts = packed.threads() if samples.exact and samples.n >= packed.PARALLEL_FROM else 1
    cuts = [0, *(_block_start(samples, samples.n * part // parts) for part in range(1, parts)), samples.n]
    spans = [(start, stop) for start, stop in itertools.pairwise(cuts) if start < stop]
    return packed.in_threads(lambda i, _: work(*spans[i]), len(spans), 1, samples.n)


def _block_start(samples: _Sorted, place: int) -> int:
    """The first place, from `place` on, where a block begins."""
    for a in range(place - 1, samples.n, packed.CHUNK):
        ends = samples.ends(a, min(a + packed.CHUNK, samples.n))
        if ends.any():
            return a + int(np.argmax(ends)) + 1
    return samples.n


def _pieces(
    samples: _Sorted, with_loss: bool = True, start: int = 0, stop: int | None = None
) -> Iterator[Rows]:
    """The blocks that end in each piece, with what is accepted at each. Without `with_loss`, `L` is left empty."""
    W = np.asarray([samples.total])
    stop = samples.n if stop is None else stop
    N_done, S_done = float(start), _loss_before(samples, start)  # at the end of the last block
    N_seen, S_seen = N_done, S_done  # at the last sample
    for a in range(start, stop, packed.CHUNK):
        b = min(a + packed.CHUNK, stop)
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
            if with_loss or mass is not None:  # a difference of sums rounds; a block of one needs none
                lone = np.diff(places, prepend=-1 if N_done == N_seen else -2) == 1
                L = np.where(lone, own.take(places), np.diff(S, prepend=S_done))
                m = m if mass is None else np.where(lone, mass.take(places), m)
            N_done, S_done = float(N[-1]), float(S[-1])
            yield Rows(m, L, N, S, W, np, False)
        N_seen, S_seen = N_next, S_next


def _loss_before(samples: _Sorted, stop: int) -> float:
    step = _BATCH_CHUNK
    return math.fsum(float(np.sum(samples.loss(a, min(a + step, stop)))) for a in range(0, stop, step))


def _ordered_within_ties(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """float32 values in an order that does not depend on how equal confidences came in."""
    if ends.all():
        return values
    run = np.cumsum(ends, dtype=np.uint64) - ends
    keys = (run << np.uint64(32)) | values.view(np.uint32)
    return np.asarray(packed.sort_in_place(keys) & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)


# packed keys ------------------------------------------------------------------------------------------------------


def _packed(
    loss: np.ndarray, confidence: np.ndarray
) -> tuple[np.ndarray, int, Callable[[np.ndarray], np.ndarray]] | None:
    """Keys to sort, how many bits below are payload, and how to read a loss from them; None if nothing fits."""
    packing = packed.Packing(confidence)
    if packing.fits(1) and is_zero_one(loss):
        flat = loss.reshape(-1)
        bits = flat.view(np.uint8) if flat.dtype == bool else flat
        keys = packing.pack(1, lambda a, b: bits[a:b].astype(np.uint8, copy=False))
        return keys, 1, _low_bit
    if packing.fits(32) and loss.dtype == np.float32:
        flat32 = loss.reshape(-1).view(np.uint32)
        keys = packing.pack(32, lambda a, b: flat32[a:b])
        return keys, 32, _low_float
    return None


def _low_bit(keys: np.ndarray) -> np.ndarray:
    """Whole numbers, so that sums stay exact, in bytes, so that they stay in cache."""
    bits = np.empty(keys.shape, dtype=np.uint8)
    return np.bitwise_and(keys, keys.dtype.type(1), out=bits, casting="unsafe")


def _low_float(keys: np.ndarray) -> np.ndarray:
    low: np.ndarray = np.asarray(keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return low.view(np.float32).astype(np.float64)


# batches ----------------------------------------------------------------------------------------------------------


def _batched_area(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, estimator: str, ties: str
) -> np.ndarray:
    keys = _packed(loss, confidence) if weight is None else None
    if keys is None:
        rows = _generic_rows(loss, confidence, weight)
        return np.asarray(np.sum(area_terms(rows, estimator, ties), axis=-1) / rows.W[..., 0])
    unsorted, below, unpack = keys
    n = loss.shape[-1]
    flat = unsorted.reshape(-1, n)
    by_rank = np.ascontiguousarray(rank_weights(n, estimator)[::-1])

    def some(a: int, b: int) -> np.ndarray:
        flat[a:b].sort(axis=-1)
        heads, own = flat[a:b], unpack(flat[a:b])
        heads >>= heads.dtype.type(below)  # the keys are ours, and read only once
        totals = own @ by_rank
        goes_on = np.zeros(own.shape, dtype=bool)  # is the next sample's confidence the same?
        np.equal(heads[:, 1:], heads[:, :-1], out=goes_on[:, :-1])
        if goes_on.any():
            totals += _tie_correction(own, goes_on, estimator, ties)
        return totals / n

    step = max(1, _BATCH_CHUNK // n)
    return np.concatenate(packed.in_threads(some, len(flat), step, n)).reshape(loss.shape[:-1])


def _tie_correction(own: np.ndarray, goes_on: np.ndarray, estimator: str, ties: str) -> np.ndarray:
    """What ties change in each line's sum of terms: blocks of equals put in, their members taken out."""
    lines, n = own.shape
    in_run = goes_on.copy()
    in_run[:, 1:] |= goes_on[:, :-1]
    place = np.flatnonzero(in_run)
    last = np.flatnonzero(~goes_on.reshape(-1)[place])  # in `place`, where each run ends
    m = np.diff(last, prepend=-1)
    line, N = place // n, place % n + 1.0
    l = own.reshape(-1).take(place).astype(np.float64)
    sums = np.cumsum(own, axis=-1, dtype=np.uint32 if own.dtype == np.uint8 else np.float64)
    S = sums.reshape(-1).take(place).astype(np.float64)
    first = last - m + 1
    L = S[last] - S[first] + l[first]
    W = np.asarray([float(n)])
    members = area_terms(Rows(np.ones_like(N), l, N, S, W, np, False), estimator, ties)
    blocks = area_terms(Rows(m.astype(np.float64), L, N[last], S[last], W, np, False), estimator, ties)
    return np.bincount(line[last], blocks, lines) - np.bincount(line, members, lines)


def _rows_of_keys(keys: np.ndarray, below: int, unpack: Callable[[np.ndarray], np.ndarray]) -> Rows:
    packed.sort_in_place(keys)
    heads = keys >> keys.dtype.type(below)
    ends = np.ones(keys.shape, dtype=bool)
    np.not_equal(heads[..., 1:], heads[..., :-1], out=ends[..., :-1])
    import array_api_compat.numpy as xp

    return rows_of_sorted(xp, unpack(keys).astype(np.float64), ends)


def _generic_rows(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> Rows:
    import array_api_compat.numpy as xp

    return rows_of_samples(xp, loss, confidence, weight)
