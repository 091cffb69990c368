"""AURC of arrays that live on a device, without bringing them to the host."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from abstain._arrays import Array, Namespace, extremes, is_cupy, is_torch
from abstain.core.area_estimators import area_terms
from abstain.core.rows import Rows

# Where blocks end in sorted keys, and how many errors lie at or above: on a GPU, by kernels that read the keys twice
#
# `find_row_ends(xp, ranked)` gives the places (0-based) where runs of equal heads (`key >> 1`) end, ascending, and the
# errors (`key & 1`) counted up to each. The plain version works on any library, in chunks; torch on CUDA takes a Triton
# kernel and cupy a CUDA kernel with the same two steps (`_by_kernels`).

CHUNK = 1 << 26  # rows handled at a time by the plain version: bounds its scratch memory
_TILE = 4096


def find_row_ends(xp: Namespace, ranked: Array) -> tuple[Array, Array]:
    """Places of the block ends and errors up to each, both int64."""
    if is_cupy(ranked) and ranked.dtype == xp.int32:
        return _by_kernels(xp, ranked, _start_cuda)
    if is_torch(ranked) and ranked.is_cuda and _triton_kernels().AVAILABLE:
        return _by_kernels(xp, ranked, _start_triton)
    return _plain(xp, ranked)


def _plain(xp: Namespace, ranked: Array) -> tuple[Array, Array]:
    n = ranked.shape[0]
    places, errors = [], []
    before = xp.zeros((1,), dtype=xp.int64, device=ranked.device)
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        heads = ranked[start : min(stop + 1, n)] >> 1
        ends = heads[1:] != heads[:-1]
        if stop == n:
            ends = xp.concat([ends, xp.ones((1,), dtype=xp.bool, device=ranked.device)])
        place = xp.nonzero(ends)[0]
        counted = xp.astype(xp.cumulative_sum(ranked[start:stop] & 1, axis=0, dtype=xp.int32), xp.int64)
        errors.append(xp.take(counted, place) + before)
        places.append(xp.astype(place, xp.int64) + start)
        before = before + counted[-1:]
    return xp.concat(places), xp.concat(errors)


def _by_kernels(xp: Namespace, ranked: Array, start: Callable[..., None]) -> tuple[Array, Array]:
    """Count per tile, then write each tile's ends from its offset; `start(kernel, tiles, *arguments)`."""
    n = ranked.shape[0]
    tiles = -(-n // _TILE)
    ends, errors = (xp.empty((tiles,), dtype=xp.int32, device=ranked.device) for _ in range(2))
    start("count_ends", tiles, ranked, n, ends, errors)
    up_to = [xp.cumulative_sum(counts, axis=0, dtype=xp.int64) for counts in (ends, errors)]
    total = (int(up_to[0][-1]),)
    place, counted = (xp.empty(total, dtype=xp.int64, device=ranked.device) for _ in range(2))
    start("write_ends", tiles, ranked, n, up_to[0] - ends, up_to[1] - errors, place, counted)
    return place, counted


def _triton_kernels() -> Any:
    from abstain.core import _triton_kernels  # not before it is needed: Triton takes a while to load

    return _triton_kernels


def _start_triton(kernel: str, tiles: int, *arguments: Any) -> None:
    getattr(_triton_kernels(), kernel)[(tiles,)](*arguments, TILE=_TILE)


_CUDA = r"""
extern "C" {
#define TILE 4096
#define THREADS 256
__device__ __forceinline__ int ends_here(const int* key, long long i, long long n) {
    return i == n - 1 || (key[i] >> 1) != (key[i + 1] >> 1);
}
__global__ void count_ends(const int* key, long long n, int* ends, int* errors) {
    __shared__ int tile_ends, tile_errors;
    if (threadIdx.x == 0) { tile_ends = 0; tile_errors = 0; }
    __syncthreads();
    int mine = 0, wrong = 0;
    for (int j = threadIdx.x; j < TILE; j += THREADS) {
        long long i = (long long)blockIdx.x * TILE + j;
        if (i < n) { mine += ends_here(key, i, n); wrong += key[i] & 1; }
    }
    atomicAdd(&tile_ends, mine); atomicAdd(&tile_errors, wrong);
    __syncthreads();
    if (threadIdx.x == 0) { ends[blockIdx.x] = tile_ends; errors[blockIdx.x] = tile_errors; }
}
__global__ void write_ends(const int* key, long long n, const long long* ends_before, const long long* errors_before,
                      long long* place, long long* counted) {
    __shared__ int warp_ends[THREADS / 32], warp_errors[THREADS / 32];
    long long slot = ends_before[blockIdx.x], seen = errors_before[blockIdx.x];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int j = threadIdx.x; j < TILE; j += THREADS) {
        long long i = (long long)blockIdx.x * TILE + j;
        int end = i < n && ends_here(key, i, n), wrong = i < n ? key[i] & 1 : 0;
        unsigned all_ends = __ballot_sync(~0u, end), all_wrong = __ballot_sync(~0u, wrong);
        if (lane == 0) { warp_ends[warp] = __popc(all_ends); warp_errors[warp] = __popc(all_wrong); }
        __syncthreads();
        int e = __popc(all_ends & ((1u << lane) - 1)), w = __popc(all_wrong & (2u * (1u << lane) - 1));
        int every_end = 0, every_wrong = 0;
        for (int k = 0; k < THREADS / 32; ++k) {
            if (k < warp) { e += warp_ends[k]; w += warp_errors[k]; }
            every_end += warp_ends[k]; every_wrong += warp_errors[k];
        }
        if (end) { place[slot + e] = i; counted[slot + e] = seen + w; }
        slot += every_end; seen += every_wrong;
        __syncthreads();
    }
}
}
"""


@functools.lru_cache(maxsize=1)
def _cuda_module() -> Any:
    return sys.modules["cupy"].RawModule(code=_CUDA)


def _start_cuda(kernel: str, tiles: int, keys: Array, n: int, *arrays: Array) -> None:
    _cuda_module().get_function(kernel)((tiles,), (256,), (keys, np.int64(n), *arrays))


# The fast way on a GPU (torch, cupy): for 0/1 losses sort packed integers, then finish block by block
#
# The same idea as in `sorting`, with signed 32-bit integers (torch has no unsigned sort): the error bit, less twice the
# bits of the confidence, so that an ascending sort puts the most confident first. Nothing leaves the device but a few
# counts.


def supports(loss: Array, confidence: Array, weight: Array | None, zero_one: Callable[[], bool]) -> bool:
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
    place, errors = find_row_ends(xp, ranked)
    del ranked
    W = xp.full((1,), float(n), dtype=xp.float64, device=loss.device)
    total = xp.zeros((), dtype=xp.float64, device=loss.device)
    for start in range(0, place.shape[0], CHUNK):  # float64 columns of all confidences would be large
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
    return Rows(
        mass=N[1:] - N[:-1],
        loss=S[1:] - S[:-1],
        accepted_mass=N[1:],
        accepted_loss=S[1:],
        total_mass=W,
        xp=xp,
        padded=False,
    )


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
        kernel = sys.modules["cupy"].ElementwiseKernel("bool e, T b", "T k", "k = e - 2 * b", "error_key")
        return kernel(loss, bits)
    return loss - 2 * bits
