"""Areas of numpy samples by the fastest road that is exact: one vector, many at once, one sample left out.

Whatever the road, the rows are those of `rows.rows_of_samples`; the tests hold every road against every other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from abstain.core import sorting
from abstain.core.estimators import area_terms, rank_weights, reads_block_loss
from abstain.core.rows import Rows, row_pieces, rows_of_samples, rows_of_sorted, sort_once
from abstain.core.sorting import Unpack, pack_loss

_CHUNK = 1 << 18  # samples handled at a time


def batch_rows(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    """Rows in arrays of the samples' shape."""
    keys = pack_loss(loss, confidence) if weight is None else None
    return _generic_rows(loss, confidence, weight) if keys is None else _rows_of_keys(*keys)


def batch_area(
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
    return np.concatenate(sorting.in_threads(some, len(flat), step, n)).reshape(loss.shape[:-1])


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
    sorting.sort_in_place(keys)
    heads = keys >> keys.dtype.type(below)
    ends = np.ones(keys.shape, dtype=bool)
    np.not_equal(heads[..., 1:], heads[..., :-1], out=ends[..., :-1])
    import array_api_compat.numpy as xp

    return rows_of_sorted(xp, unpack(keys).astype(np.float64), ends)


def _generic_rows(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> Rows:
    import array_api_compat.numpy as xp

    return rows_of_samples(xp, loss, confidence, weight)


# fast ---------------------------------------------------------------------------------------------
#
# Rows and areas of numpy samples by the fastest road that is exact.
#
# Whatever the road, the rows are those of `rows.rows_of_samples`; the tests hold every road against every other.


def area(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, estimator: str, ties: str
) -> np.ndarray | float:
    """AURC of samples along the last axis."""
    if loss.ndim > 1:
        return batch_area(loss, confidence, weight, estimator, ties)
    samples = sort_once(loss, confidence, weight)
    parts = row_pieces(samples, reads_block_loss(estimator, ties))
    return math.fsum(float(np.sum(area_terms(rows, estimator, ties))) for rows in parts) / samples.total


def rows_of(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    """Rows of samples: compact (one row a block) for a vector, of the samples' shape for a batch."""
    if loss.ndim > 1:
        return batch_rows(loss, confidence, weight)
    parts = row_pieces(sort_once(loss, confidence, weight))
    m, L, N, S = (np.concatenate(column) for column in zip(*((r.m, r.L, r.N, r.S) for r in parts)))
    return Rows(m, L, N, S, N[-1:], np, False)


# one sweep ----------------------------------------------------------------------------------------
#
# Standard error of the classical AURC in one sweep from the top, a cacheful of rows at a time.
#
# The influence of a sample in row k is `(p_k - c) + (A - q_k) l` with running sums known at k,
#
# .. math:: p_k = R_k + \sum_{j<k} m_j R_j / N_j, \qquad q_k = \sum_{j<k} m_j / N_j,
#
# and constants known at the end, `c = T + sum m R / N` and `A = sum m / N`. So the sum of squares (and, for 0/1
# losses, of fourth powers) is a polynomial in `c` and `A` whose coefficients are gathered on the way. The tests hold
# it against `influence`.


_SIZE = 1 << 13  # samples at a time: below this BLAS takes dot products in one thread, where two only wait
_LEAST = 1e-8  # smaller than this beside its terms, a difference of sums has too few digits left


class AreaSpread(NamedTuple):
    """AURC, sums of the squares and fourth powers of its influences, and the leave-one-out estimate."""

    estimate: float
    second: float
    fourth: float | None  # None for losses other than 0/1
    loo: float


def area_spread(loss: np.ndarray, confidence: np.ndarray, zero_one: bool) -> AreaSpread | None:
    """Of an unweighted vector, estimator "harmonic", ties "threshold"; None where next to no spread is left."""
    n = len(loss)
    B = A = 0.0  # sum m R / N and sum m / N over the rows above
    areas, loos, gathered = [], [], []
    for rows, squares in _small_pieces(loss, confidence, zero_one):
        share, risk = rows.m / rows.N, rows.risk
        grown_B, grown_A = np.cumsum(share * risk), np.cumsum(share)
        p, q = risk + B, np.full(len(share), A)
        p[1:] += grown_B[:-1]
        q[1:] += grown_A[:-1]
        gathered.append(_powers(rows, p, q) if zero_one else _squares(rows, p, q, squares))
        areas.append(float(np.sum(area_terms(rows, "harmonic", "threshold"))))
        loos.append(float(np.sum(area_terms(rows, "loo", "threshold"))))
        B, A = B + float(grown_B[-1]), A + float(grown_A[-1])
    sums = [math.fsum(map(float, column)) for column in zip(*gathered)]
    finish = _finish_powers if zero_one else _finish_squares
    area, loo = math.fsum(areas) / n, math.fsum(loos) / n
    found = finish(sums, area + B, A, n)
    return None if found is None else AreaSpread(area, found[0], found[1], loo)


def _powers(rows: Rows, p: np.ndarray, q: np.ndarray) -> tuple[float, ...]:
    """Moments of p over what is right and of p - q over errors, orders 0 to 4."""
    sums: tuple[float, ...] = ()
    for mass, x in ((rows.m - rows.L, p), (rows.L, p - q)):
        first, square = mass * x, x * x
        sums += (mass.sum(), first.sum(), first @ x, first @ square, (first * x) @ square)
    return sums


def _finish_powers(sums: list[float], c: float, A: float, n: int) -> tuple[float, float] | None:
    second = fourth = size = 0.0
    for (s0, s1, s2, s3, s4), at in ((sums[:5], c), (sums[5:], c - A)):
        second += s2 - 2 * at * s1 + at**2 * s0
        fourth += s4 - 4 * at * s3 + 6 * at**2 * s2 - 4 * at**3 * s1 + at**4 * s0
        size += s4 + at**4 * s0
    return None if fourth <= _LEAST * size else (second, fourth)


def _squares(rows: Rows, p: np.ndarray, q: np.ndarray, squares: np.ndarray) -> tuple[float, ...]:
    mp, Lp, Qq = rows.m * p, rows.L * p, squares * q
    return (mp @ p, mp.sum(), Lp.sum(), Lp @ q, rows.L @ q, rows.L.sum(), squares.sum(), Qq.sum(), Qq @ q)


def _finish_squares(sums: list[float], c: float, A: float, n: int) -> tuple[float, None] | None:
    mpp, mp, Lp, Lpq, Lq, L, Q, Qq, Qqq = sums
    second = mpp - 2 * c * mp + c * c * n
    second += 2 * (A * Lp - Lpq - c * A * L + c * Lq)
    second += A * A * Q - 2 * A * Qq + Qqq
    return None if second <= _LEAST * (mpp + c * c * n) else (second, None)


def _small_pieces(
    loss: np.ndarray, confidence: np.ndarray, zero_one: bool
) -> Iterator[tuple[Rows, np.ndarray]]:
    """Rows a cacheful at a time, from the top, each with its sum of squared losses."""
    samples = sort_once(loss, confidence, None)
    if zero_one:
        for rows in row_pieces(samples, size=_SIZE):
            yield rows, rows.L
        return
    squares = samples._replace(loss=lambda a, b: np.square(samples.loss(a, b)))
    for rows, squared in zip(row_pieces(samples, size=_SIZE), row_pieces(squares, size=_SIZE)):
        yield rows, squared.L


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
    order = sorting.order_of(confidence)
    key, l = confidence[order], loss[order].astype(np.float64)
    ends = np.append(key[1:] != key[:-1], True)
    place = np.cumsum(ends) - ends
    m = np.bincount(place).astype(np.float64)
    L = np.bincount(place, l)
    N, S, W = np.cumsum(m), np.cumsum(L), np.asarray([len(l) - 1.0])

    def terms(m: np.ndarray, L: np.ndarray, N: np.ndarray, S: np.ndarray) -> np.ndarray:
        return np.asarray(area_terms(Rows(m, L, N, S, W), estimator, ties))

    before = np.cumsum(np.append(0.0, terms(m, L, N, S)))[:-1]
    one_less = np.maximum(N - 1, m)  # differs from N - 1 in the top row only, which is below nobody
    after = _sum_below(terms(m, L, one_less, S))
    per_unit = _sum_below(terms(m, np.zeros_like(L), one_less, np.ones_like(S)))
    own = terms(m[place] - 1, L[place] - l, N[place] - 1, S[place] - l)
    left_out = (before[place] + own + after[place] - l * per_unit[place]) / W
    back: np.ndarray = np.empty_like(left_out)
    back[order] = left_out
    return back


def _sum_below(x: np.ndarray) -> np.ndarray:
    """Sum over the rows strictly below each."""
    return np.append(np.cumsum(x[::-1])[::-1][1:], 0.0)
