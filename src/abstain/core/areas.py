"""Standard errors of areas in one sweep, and areas with one sample left out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from abstain.core import sorting
from abstain.core.estimators import area_of_samples as area
from abstain.core.estimators import area_terms
from abstain.core.rows import Rows, row_pieces, rows_of, sort_once

__all__ = ["area", "area_spread", "leave_one_out_areas", "rows_of"]

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
