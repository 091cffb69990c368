"""The fast road on a GPU (torch, cupy): for 0/1 losses sort packed integers, then finish block by block.

The same idea as `packed`, with signed 32-bit integers (torch has no unsigned sort): the error bit, less twice the
bits of the confidence, so that an ascending sort puts the most confident first. Nothing leaves the device but a few
counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from abstain._arrays import Array, Namespace, extremes, is_cupy, is_torch
from abstain.core.compaction import CHUNK, block_ends
from abstain.core.estimators import area_terms
from abstain.core.rows import Rows


def takes(loss: Array, confidence: Array, weight: Array | None, zero_one: Callable[[], bool]) -> bool:
    """Is this a vector of float32 confidences with unweighted 0/1 losses that needs no gradient?"""
    if not (is_torch(loss) or is_cupy(loss)) or loss.ndim != 1 or weight is not None:
        return False
    plain = not (getattr(loss, "requires_grad", False) or getattr(confidence, "requires_grad", False))
    short = str(confidence.dtype).rpartition(".")[2] in ("float32", "float16", "bfloat16")
    return bool(plain and short and zero_one())


def area(xp: Namespace, loss: Array, confidence: Array, estimator: str, ties: str) -> Array:
    """AURC of one vector, as a scalar on the device."""
    n = loss.shape[0]
    ranked = xp.sort(_keys(xp, xp.astype(loss, xp.bool), xp.astype(confidence, xp.float32)))
    place, errors = block_ends(xp, ranked)
    del ranked
    W = xp.full((1,), float(n), dtype=xp.float64, device=loss.device)
    total = xp.zeros((), dtype=xp.float64, device=loss.device)
    for start in range(
        0, place.shape[0], CHUNK
    ):  # the float64 columns of distinct confidences would be large
        rows = _rows(xp, place, errors, start, W)
        total = total + xp.sum(area_terms(rows, estimator, ties))
    return total / n


def _rows(xp: Namespace, place: Array, errors: Array, start: int, W: Array) -> Rows:
    stop = start + CHUNK
    zero = xp.zeros((1,), dtype=xp.float64, device=place.device)
    first = max(start - 1, 0)  # one more in front, to take differences from
    N, S = xp.astype(place[first:stop], xp.float64) + 1, xp.astype(errors[first:stop], xp.float64)
    if start == 0:
        N, S = xp.concat([zero, N]), xp.concat([zero, S])
    return Rows(N[1:] - N[:-1], S[1:] - S[:-1], N[1:], S[1:], W, xp, False)


def _keys(xp: Namespace, loss: Array, confidence: Array) -> Array:
    """Error bit minus twice the ordered bits; 32-bit wherever the range allows."""
    bits = confidence.view(xp.int32)
    low, high = (int(x) for x in extremes(xp, bits))
    if low < 0:  # negative numbers, or a -0: their bits run the wrong way
        bits = (confidence + 0.0).view(xp.int32)
        bits = xp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        low, high = (int(x) for x in extremes(xp, bits))
    if high - low >= 1 << 31:
        return _error_minus_twice(xp, loss, xp.astype(bits, xp.int64))
    keys = _error_minus_twice(xp, loss, bits)
    if low < -(1 << 30) or high >= 1 << 30:
        keys += _wrapped(2 * ((low + high) // 2))  # the doubling wrapped around; put the middle back on zero
    return keys


def _wrapped(value: int) -> int:
    """The 32-bit signed integer that `value` is, modulo 2^32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _error_minus_twice(xp: Namespace, loss: Array, bits: Array) -> Array:
    if is_torch(bits):
        return sys.modules["torch"].add(loss, bits, alpha=-2)  # one pass
    if is_cupy(bits):
        return sys.modules["cupy"].ElementwiseKernel("bool e, T b", "T k", "k = e - 2 * b", "error_key")(
            loss, bits
        )
    return loss - 2 * bits
