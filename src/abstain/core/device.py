"""The fast road on a GPU (torch, cupy): for 0/1 losses sort packed integers, then finish block by block.

The same idea as `packed`, with signed 32-bit integers (torch has no unsigned sort): the bits of the confidence fall
as it rises, doubled, plus the error bit, moved down by 2^31 so that all 32 bits serve. Nothing leaves the device
but a few counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from abstain._arrays import Array, Namespace, is_cupy, is_torch
from abstain.core.estimators import area_terms
from abstain.core.rows import Rows

CHUNK = 1 << 26  # rows finished at a time: bounds the scratch memory, large enough to fill the card


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
    keys, below = _keys(xp, loss, xp.astype(confidence, xp.float32))
    ranked = xp.sort(keys)
    del keys
    total = xp.zeros((), dtype=xp.float64, device=loss.device)
    for rows in _pieces(xp, ranked, below, n):
        total = total + xp.sum(area_terms(rows, estimator, ties))
    return total / n


def _keys(xp: Namespace, loss: Array, confidence: Array) -> tuple[Array, int]:
    """Integers to sort, and how many low bits are not confidence."""
    bits = confidence.view(xp.int32)
    low, high = int(xp.min(bits)), int(xp.max(bits))
    if low < 0:  # negative numbers (or a -0): their bits run the wrong way
        bits = (confidence + 0.0).view(xp.int32)
        bits = xp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        low, high = int(xp.min(bits)), int(xp.max(bits))
    if high - low < 1 << 30:
        keys = high - bits
    elif high - low < 1 << 31:  # moved down: -2^31 ... 2^31 - 1 hold all 2^32 keys
        keys = high - bits - (1 << 30)
    else:
        keys = high - xp.astype(bits, xp.int64)
    keys <<= 1  # in place: each pass over a billion rows costs milliseconds
    keys += xp.astype(loss, xp.bool)
    return keys, 1


def _pieces(xp: Namespace, ranked: Array, below: int, n: int) -> Iterator[Rows]:
    """The blocks that end in each chunk, most confident first."""
    W = xp.full((1,), float(n), dtype=xp.float64, device=ranked.device)
    end_done = 0  # samples up to the last block's end
    S_done: Any = xp.zeros((1,), dtype=xp.float64, device=ranked.device)
    S_seen: Any = xp.zeros((1,), dtype=xp.float64, device=ranked.device)
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        heads = ranked[start : min(stop + 1, n)] >> below
        ends = heads[1:] != heads[:-1]
        if stop == n:
            ends = xp.concat([ends, xp.ones((1,), dtype=xp.bool, device=ranked.device)])
        place = xp.nonzero(ends)[0]
        S = xp.cumulative_sum(ranked[start:stop] & 1, axis=0, dtype=xp.int32)
        S_next = S_seen + xp.astype(S[-1:], xp.float64)
        if place.shape[0]:
            S = xp.astype(S[place], xp.float64) + S_seen
            N = xp.astype(place, xp.float64) + float(start + 1)
            before = xp.full((1,), float(end_done), dtype=xp.float64, device=ranked.device)
            m = N - xp.concat([before, N[:-1]])
            L = S - xp.concat([S_done, S[:-1]])
            yield Rows(m, L, N, S, W, xp, False)
            end_done, S_done = int(N[-1]), S[-1:]
        S_seen = S_next
