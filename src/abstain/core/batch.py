"""Many samples at once, along the last axis: one sort call, then weights by rank, and a correction where ties are."""

from __future__ import annotations

import numpy as np

from abstain.core import packed
from abstain.core.estimators import area_terms
from abstain.core.payload import Unpack, pack_loss
from abstain.core.rows import Rows, rows_of_samples, rows_of_sorted
from abstain.core.weights import rank_weights

_CHUNK = 1 << 18  # samples handled at a time


def rows_of(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    """Rows in arrays of the samples' shape."""
    keys = pack_loss(loss, confidence) if weight is None else None
    return _generic_rows(loss, confidence, weight) if keys is None else _rows_of_keys(*keys)


def area(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, estimator: str, ties: str
) -> np.ndarray:
    """AURC of every line."""
    keys = pack_loss(loss, confidence) if weight is None else None
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

    step = max(1, _CHUNK // n)
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


def _rows_of_keys(keys: np.ndarray, below: int, unpack: Unpack) -> Rows:
    packed.sort_in_place(keys)
    heads = keys >> keys.dtype.type(below)
    ends = np.ones(keys.shape, dtype=bool)
    np.not_equal(heads[..., 1:], heads[..., :-1], out=ends[..., :-1])
    import array_api_compat.numpy as xp

    return rows_of_sorted(xp, unpack(keys).astype(np.float64), ends)


def _generic_rows(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> Rows:
    import array_api_compat.numpy as xp

    return rows_of_samples(xp, loss, confidence, weight)
