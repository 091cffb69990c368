r"""Standard error of the classical AURC in one sweep from the top, a cacheful of rows at a time.

The influence of a sample in row k is `(p_k - c) + (A - q_k) l` with running sums known at k,

.. math:: p_k = R_k + \sum_{j<k} m_j R_j / N_j, \qquad q_k = \sum_{j<k} m_j / N_j,

and constants known at the end, `c = T + sum m R / N` and `A = sum m / N`. So the sum of squares is a quadratic in
`c` and `A` whose coefficients are gathered on the way. The tests hold it against `influence`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from abstain.core import fast
from abstain.core.estimators import area_terms
from abstain.core.rows import Rows
from abstain.core.spread import moments_of_samples, of_moments


class AreaSpread(NamedTuple):
    """AURC with its standard error, and the leave-one-out estimate from the same rows."""

    estimate: float
    standard_error: float
    loo: float


def area_spread(loss: np.ndarray, confidence: np.ndarray) -> AreaSpread:
    """Of an unweighted vector: estimator "harmonic", ties "threshold"."""
    n = len(loss)
    B = A = 0.0  # sum m R / N and sum m / N over the rows above
    gathered = []
    for rows, squares in _row_pieces(loss, confidence):
        m, L, risk = rows.m, rows.L, rows.risk
        share = m / rows.N
        below_B, below_A = np.cumsum(share * risk), np.cumsum(share)
        p, q = risk + B, np.full(len(m), A)
        p[1:] += below_B[:-1]
        q[1:] += below_A[:-1]
        mp, Lp, Qq = m * p, L * p, squares * q
        loo = float(np.sum(area_terms(rows, "loo", "threshold")))
        sums = (
            m @ risk,
            mp @ p,
            mp.sum(),
            Lp.sum(),
            Lp @ q,
            L @ q,
            L.sum(),
            squares.sum(),
            Qq.sum(),
            Qq @ q,
            loo,
        )
        gathered.append(sums)
        B, A = B + float(below_B[-1]), A + float(below_A[-1])
    area, mpp, mp_, Lp_, Lpq, Lq, L_, Q_, Qq_, Qqq, loo = (math.fsum(map(float, c)) for c in zip(*gathered))
    c = area / n + B
    square = mpp - 2 * c * mp_ + c * c * n
    square += 2 * (A * Lp_ - Lpq - c * A * L_ + c * Lq)
    square += A * A * Q_ - 2 * A * Qq_ + Qqq
    if square <= 1e-9 * (mpp + c * c * n):  # next to no spread: too little left of a difference of large sums
        exact = of_moments("aurc", moments_of_samples(loss, confidence))
        return AreaSpread(exact.estimate, exact.standard_error, loo / n)
    return AreaSpread(area / n, math.sqrt(square) / n, loo / n)


def _row_pieces(loss: np.ndarray, confidence: np.ndarray) -> Iterator[tuple[Rows, np.ndarray]]:
    """Rows a cacheful at a time, from the top, each with its sum of squared losses."""
    samples = fast._stream(loss, confidence, None)
    if fast.is_zero_one(loss):
        for rows in fast._pieces(samples):
            yield rows, rows.L
        return
    squares = samples._replace(loss=lambda a, b: np.square(samples.loss(a, b)))
    for rows, squared in zip(fast._pieces(samples), fast._pieces(squares)):
        yield rows, squared.L
