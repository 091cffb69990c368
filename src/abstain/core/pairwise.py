r"""Sample weights by comparing every pair: no sort, so a compiler fuses it, and a soft comparison makes it smooth.

With :math:`A_{ij}` = "sample i is accepted at the threshold put at sample j", masses w of total W,

    N_j = sum_i w_i A_ij          harmonic  alpha_i = sum_j w_j A_ij / N_j
                                  sele      alpha_i = sum_j w_j A_ij / W
                                  loo       alpha_i = sum_{j != i} A_ij / (N_j - 1)

which are the sums of `weights` over blocks, written out over samples. A sample whose confidence is NaN compares
false with everything: it is in no set, and its weight is 0. The cost is n^2: for batches, not for data sets.
Few operations rather than few flops: on a GPU a batch's time is the number of kernels.
"""

from __future__ import annotations

from collections.abc import Callable

from abstain._arrays import Array, Namespace, float_dtype
from abstain.core.rows import beside


def accepts(confidence: Array) -> Array:
    """`A[..., i, j]`: is sample i at least as confident as sample j?"""
    return confidence[..., :, None] >= confidence[..., None, :]


def finite_key(xp: Namespace, rows: Array, key_of: Callable[[Array], Array]) -> Array:
    """`key_of(rows)` of logits, finite also where one class alone is possible (the others -inf).

    Such a row is infinitely sure, and the difference of two infinities has neither a value nor a gradient; a huge
    constant ranks the same.
    """
    alone = xp.sum(xp.astype(rows > -float("inf"), xp.int32), axis=-1) == 1
    key = key_of(xp.where(alone[..., None], xp.zeros_like(rows), rows))
    return xp.where(alone, xp.full_like(key, xp.finfo(key.dtype).max / 4), key)


def softly_accepts(xp: Namespace, confidence: Array, temperature: float) -> Array:
    """`A[..., i, j]` as a sigmoid of the difference over `temperature`; a sample always accepts itself."""
    difference = (confidence[..., :, None] - confidence[..., None, :]) / temperature
    smooth = 0.5 * (1 + xp.tanh(0.5 * difference))
    own = xp.eye(confidence.shape[-1], dtype=xp.bool, **beside(confidence))
    return xp.where(own, xp.ones_like(smooth), smooth)


def pair_weights(xp: Namespace, A: Array, mass: Array | None, total: Array, estimator: str) -> Array:
    """Weight of each sample, from who is accepted where: true or false (equals together), or between 0 and 1.

    `total` is the mass of all, shape (..., 1). "loo" and "log" take no masses but 0 and 1.
    """
    if estimator in ("sele", "2sele"):
        weights = _sum(xp, A, mass, axis=-1) / total
        return 2 * weights if estimator == "2sele" else weights
    if estimator == "log":
        return _log_weights(xp, A, mass, total)
    N = _sum(xp, A, mass, axis=-2)
    one = 1.0 if mass is None else mass
    accepted = N - one if estimator == "loo" else N
    some = accepted > 0
    share = xp.where(some, one / xp.where(some, accepted, 1.0), 0.0)
    weights = _sum(xp, A, share, axis=-1)
    return weights - share if estimator == "loo" else weights


def _log_weights(xp: Namespace, A: Array, mass: Array | None, total: Array) -> Array:
    """-ln(1 - r/(W+1)), the mean over the ranks that a run of equals shares."""
    if A.dtype != xp.bool:
        return -xp.log1p(-_sum(xp, A, mass, axis=-1) / (total + 1))
    N = _sum(xp, A, mass, axis=-2)[..., None]
    m = _sum(xp, A & xp.matrix_transpose(A), mass, axis=-1)
    place = xp.astype(xp.arange(1, A.shape[-1] + 1, **beside(A)), N.dtype)  # from the top: rank W + 1 - place
    shared = (place <= N) & (place > N - m[..., None])
    logs = xp.sum(xp.where(shared, xp.log(place), 0.0), axis=-1)
    some = m > 0
    return xp.where(some, xp.log(total + 1) - logs / xp.where(some, m, 1.0), 0.0)


def _sum(xp: Namespace, A: Array, values: Array | None, axis: int) -> Array:
    """Sum over one side of the pairs, each counted once or by the value of the sample on that side."""
    if values is None:
        if A.dtype != xp.bool:
            return xp.sum(A, axis=axis)
        return xp.astype(xp.sum(xp.astype(A, xp.int32), axis=axis), float_dtype(xp))
    values = values[..., :, None] if axis == -2 else values[..., None, :]
    return xp.sum(xp.where(A, values, 0.0) if A.dtype == xp.bool else A * values, axis=axis)
