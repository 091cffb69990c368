"""Where blocks end in sorted keys, and how many errors lie at or above: on a GPU, by kernels that read the keys twice.

`block_ends(xp, ranked)` gives the places (0-based) where runs of equal heads (`key >> 1`) end, ascending, and the
errors (`key & 1`) counted up to each. The plain version works on any library, in chunks; torch on CUDA takes a Triton
kernel and cupy a CUDA kernel with the same two steps: count per tile, then write each tile's ends from its offset.
"""

from __future__ import annotations

import functools
from typing import Any

from abstain._arrays import Array, Namespace, is_cupy, is_torch

CHUNK = 1 << 26  # rows handled at a time by the plain version: bounds its scratch memory
_TILE = 4096


def block_ends(xp: Namespace, ranked: Array) -> tuple[Array, Array]:
    """Places of the block ends and errors up to each, both int64."""
    if is_cupy(ranked) and ranked.dtype == xp.int32:
        return _by_cuda(xp, ranked)
    if is_torch(ranked) and ranked.is_cuda and _triton_kernels() is not None:
        return _by_triton(xp, ranked)
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


def _offsets(xp: Namespace, counts: Array) -> tuple[Array, Array]:
    """Exclusive running totals, and the grand total, of counts per tile."""
    total = xp.cumulative_sum(counts, axis=0, dtype=xp.int64)
    return total - counts, total[-1]


# torch --------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _triton_kernels() -> Any:
    try:
        from abstain.core import _triton_ends
    except ImportError:  # no Triton on this machine: the plain version does it
        return None
    return _triton_ends


def _by_triton(xp: Namespace, ranked: Array) -> tuple[Array, Array]:
    kernels = _triton_kernels()
    n = ranked.shape[0]
    tiles = -(-n // _TILE)
    ends = xp.empty((tiles,), dtype=xp.int32, device=ranked.device)
    errors = xp.empty((tiles,), dtype=xp.int32, device=ranked.device)
    kernels.count[(tiles,)](ranked, n, ends, errors, TILE=_TILE)
    ends_before, total = _offsets(xp, ends)
    errors_before, _ = _offsets(xp, errors)
    place = xp.empty((int(total),), dtype=xp.int64, device=ranked.device)
    counted = xp.empty((int(total),), dtype=xp.int64, device=ranked.device)
    kernels.write[(tiles,)](ranked, n, ends_before, errors_before, place, counted, TILE=_TILE)
    return place, counted


# cupy ---------------------------------------------------------------------------------------------------------------

_CUDA = r"""
extern "C" {
#define TILE 4096
#define THREADS 256
__device__ __forceinline__ int ends_here(const int* key, long long i, long long n) {
    return i == n - 1 || (key[i] >> 1) != (key[i + 1] >> 1);
}
__global__ void count(const int* key, long long n, int* ends, int* errors) {
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
__global__ void write(const int* key, long long n, const long long* ends_before, const long long* errors_before,
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
    import sys

    return sys.modules["cupy"].RawModule(code=_CUDA)


def _by_cuda(xp: Namespace, ranked: Array) -> tuple[Array, Array]:
    module = _cuda_module()
    n = ranked.shape[0]
    tiles, block = -(-n // _TILE), (256,)
    ends, errors = xp.empty((tiles,), dtype=xp.int32), xp.empty((tiles,), dtype=xp.int32)
    module.get_function("count")((tiles,), block, (ranked, xp.int64(n), ends, errors))
    ends_before, total = _offsets(xp, ends)
    errors_before, _ = _offsets(xp, errors)
    place, counted = xp.empty((int(total),), dtype=xp.int64), xp.empty((int(total),), dtype=xp.int64)
    module.get_function("write")(
        (tiles,), block, (ranked, xp.int64(n), ends_before, errors_before, place, counted)
    )
    return place, counted
