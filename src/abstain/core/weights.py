r"""Weights of ranks and of samples: AURC is their weighted mean of losses.

Untied, rank r = 1 (least confident) ... n:

    harmonic  H_n - H_{n-r}          log   -ln(1 - r/(n+1))
    loo       H_{n-1} - H_{n-r}      sele  r/n              2sele  2r/n
"""

from __future__ import annotations

import functools

import numpy as np

from abstain._arrays import Array, Namespace, float_dtype, running_max
from abstain.core.rows import Rows, beside, rows_of_sorted
from abstain.core.special import harmonic_difference, log_factorial_difference


def rank_weights(n: int, estimator: str = "harmonic") -> np.ndarray:
    """Weights of ranks 1 ... n without ties, ascending."""
    if n > 1 << 16:
        return _rank_weights(n, estimator)
    return _cached_rank_weights(n, estimator)


@functools.lru_cache(maxsize=64)
def _cached_rank_weights(n: int, estimator: str) -> np.ndarray:
    weights = _rank_weights(n, estimator)
    weights.flags.writeable = False
    return weights


def _rank_weights(n: int, estimator: str) -> np.ndarray:
    rank = np.arange(1.0, n + 1)
    above = n - rank  # samples strictly more confident
    if estimator == "harmonic":
        return np.asarray(harmonic_difference(np, above, np.full(n, float(n))))
    if estimator == "loo":
        return np.asarray(harmonic_difference(np, above, np.full(n, n - 1.0)))
    if estimator == "log":
        return -np.log((above + 1) / (n + 1))
    return rank / n * (2 if estimator == "2sele" else 1)


def row_weights(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Array:
    """The weight each member of a row's block carries; rows run from the most confident down."""
    xp = rows.xp
    if estimator == "2sele":
        return 2 * row_weights(rows, "sele", ties)
    above = rows.N - rows.m
    below = rows.W - rows.N
    mass = xp.where(rows.m > 0, rows.m, 1.0)
    if estimator == "log":
        mean_log = log_factorial_difference(xp, above, rows.N) / mass
        return xp.log(rows.W + 1) - mean_log
    if estimator == "sele":
        return (below + (rows.m if ties == "threshold" else (rows.m + 1) / 2)) / rows.W
    if ties == "threshold":
        return _threshold_weights(rows, estimator)
    total = harmonic_difference(xp, rows.N, rows.W + 0 * rows.N)
    gain = harmonic_difference(xp, above, rows.N)
    own = xp.where(rows.m > 1, 1 - above * gain / mass, 1 / xp.where(rows.N > 0, rows.N, 1.0))
    return total + own - (1 / rows.W if estimator == "loo" else 0.0)


def _threshold_weights(rows: Rows, estimator: str) -> Array:
    """Sum over the blocks at or below one's own of mass / accepted mass (self left out for `loo`)."""
    xp = rows.xp
    one_out = 1.0 if estimator == "loo" else 0.0
    accepted = rows.N - one_out
    share = xp.where(accepted > 0, rows.m, 0.0) / xp.where(accepted > 0, accepted, 1.0)
    from_below = xp.flip(xp.cumulative_sum(xp.flip(share, axis=-1), axis=-1), axis=-1)
    if estimator == "loo":
        some = accepted > 0
        from_below = from_below - xp.astype(some, accepted.dtype) / xp.where(some, accepted, 1.0)
    return from_below


def sample_weights(
    xp: Namespace, confidence: Array, weight: Array | None, estimator: str, ties: str
) -> Array:
    """The weight of each sample along the last axis, in the order given."""
    order = xp.argsort(confidence, axis=-1, descending=True, stable=True)
    ranked = xp.take_along_axis(confidence, order, axis=-1)
    last = xp.ones_like(ranked[..., :1], dtype=xp.bool)
    ends = xp.concat([ranked[..., 1:] != ranked[..., :-1], last], axis=-1)
    wide = float_dtype(xp)
    if weight is not None:
        weight = xp.astype(xp.take_along_axis(weight, order, axis=-1), wide)
    rows = rows_of_sorted(xp, xp.zeros_like(ranked, dtype=wide), ends, weight)
    by_row = row_weights(rows, estimator, ties)
    # members read their weight where their block's row stands: at the next end of a run
    from_last = xp.flip(xp.broadcast_to(xp.arange(ranked.shape[-1], **beside(ranked)), ranked.shape), axis=-1)
    nearest = xp.flip(
        running_max(xp, xp.flip(xp.where(ends, from_last, xp.zeros_like(from_last)), axis=-1)), axis=-1
    )
    values = xp.take_along_axis(by_row, ranked.shape[-1] - 1 - nearest, axis=-1)
    return xp.take_along_axis(values, xp.argsort(order, axis=-1), axis=-1)
