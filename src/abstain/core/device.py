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
from abstain.core.sorting import mark_run_ends

# Where rows end in sorted keys, and how many errors are accepted there: on a GPU, by kernels that read the keys twice
#
# A key holds the error bit in its lowest bit and the confidence above it. The plain version works with any library, in
# chunks; torch on CUDA uses Triton kernels and cupy uses CUDA kernels, which both count per tile and then write.

CHUNK = 1 << 26  # rows handled at a time by the plain version: limits its scratch memory
_TILE = 4096  # keys that one program of a kernel reads


def find_row_ends(xp: Namespace, sorted_keys: Array) -> tuple[Array, Array]:
    """Find where runs of equal confidence (`key >> 1`) end in a vector of sorted keys, which is not empty.

    Uses kernels for torch on CUDA and for cupy's 32-bit keys, otherwise functions of the array library. Returns two
    int64 vectors: the places (0-based, ascending) of the row ends, and the number of errors (`key & 1`) up to and
    including each of them.
    """
    if is_cupy(sorted_keys) and sorted_keys.dtype == xp.int32:
        return _find_with_kernels(xp, sorted_keys, _launch_cuda)
    if is_torch(sorted_keys) and sorted_keys.is_cuda and _triton_kernels().AVAILABLE:
        return _find_with_kernels(xp, sorted_keys, _launch_triton)
    return _find_in_chunks(xp, sorted_keys)


def _find_in_chunks(xp: Namespace, sorted_keys: Array) -> tuple[Array, Array]:
    """Find row ends with functions of the array library, `CHUNK` keys at a time.

    A key holds the error bit in its lowest bit and the confidence above it; a row is a run of equal confidences in the
    sorted keys. Returns two int64 vectors: the places of the row ends, and the errors up to and including each of them.
    """
    n = sorted_keys.shape[0]
    row_ends = []
    errors = []
    errors_above = xp.zeros((1,), dtype=xp.int64, device=sorted_keys.device)
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        # one key more than the chunk has: the last row may go on in the next chunk
        heads = sorted_keys[start : min(stop + 1, n)] >> 1
        is_end = mark_run_ends(heads, xp)[: stop - start]
        ends_in_chunk = xp.nonzero(is_end)[0]
        error_bits = sorted_keys[start:stop] & 1
        errors_in_chunk = xp.astype(xp.cumulative_sum(error_bits, axis=0, dtype=xp.int32), xp.int64)
        errors.append(xp.take(errors_in_chunk, ends_in_chunk) + errors_above)
        row_ends.append(xp.astype(ends_in_chunk, xp.int64) + start)
        errors_above = errors_above + errors_in_chunk[-1:]
    return xp.concat(row_ends), xp.concat(errors)


def _find_with_kernels(xp: Namespace, sorted_keys: Array, launch: Callable[..., None]) -> tuple[Array, Array]:
    """Find row ends with two kernels: count row ends and errors per tile of keys, then write each tile's results.

    A key holds the error bit in its lowest bit and the confidence above it; a row is a run of equal confidences in the
    sorted keys. `launch(kernel_name, tile_count, *arguments)` starts one program per tile of `_TILE` keys. Returns two
    int64 vectors on the device: the places of the row ends, and the errors up to and including each of them. Reading
    the number of rows makes the host wait for the device.
    """
    n = sorted_keys.shape[0]
    device = sorted_keys.device
    tile_count = -(-n // _TILE)
    ends_in_tile = xp.empty((tile_count,), dtype=xp.int32, device=device)
    errors_in_tile = xp.empty((tile_count,), dtype=xp.int32, device=device)
    launch("count_ends", tile_count, sorted_keys, n, ends_in_tile, errors_in_tile)
    ends_up_to_tile = xp.cumulative_sum(ends_in_tile, axis=0, dtype=xp.int64)
    errors_up_to_tile = xp.cumulative_sum(errors_in_tile, axis=0, dtype=xp.int64)
    row_count = int(ends_up_to_tile[-1])
    row_ends = xp.empty((row_count,), dtype=xp.int64, device=device)
    errors = xp.empty((row_count,), dtype=xp.int64, device=device)
    ends_before_tile = ends_up_to_tile - ends_in_tile
    errors_before_tile = errors_up_to_tile - errors_in_tile
    launch("write_ends", tile_count, sorted_keys, n, ends_before_tile, errors_before_tile, row_ends, errors)
    return row_ends, errors


def _triton_kernels() -> Any:
    """The module of Triton kernels, imported when it is first needed: Triton takes a while to load."""
    from abstain.core import _triton_kernels

    return _triton_kernels


def _launch_triton(kernel_name: str, tile_count: int, *arguments: Any) -> None:
    getattr(_triton_kernels(), kernel_name)[(tile_count,)](*arguments, TILE=_TILE)


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
    int my_ends = 0, my_errors = 0;
    for (int j = threadIdx.x; j < TILE; j += THREADS) {
        long long i = (long long)blockIdx.x * TILE + j;
        if (i < n) { my_ends += ends_here(key, i, n); my_errors += key[i] & 1; }
    }
    atomicAdd(&tile_ends, my_ends); atomicAdd(&tile_errors, my_errors);
    __syncthreads();
    if (threadIdx.x == 0) { ends[blockIdx.x] = tile_ends; errors[blockIdx.x] = tile_errors; }
}
__global__ void write_ends(const int* key, long long n, const long long* ends_before, const long long* errors_before,
                      long long* row_ends, long long* errors) {
    __shared__ int warp_ends[THREADS / 32], warp_errors[THREADS / 32];
    long long first_slot = ends_before[blockIdx.x], errors_above = errors_before[blockIdx.x];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int j = threadIdx.x; j < TILE; j += THREADS) {
        long long i = (long long)blockIdx.x * TILE + j;
        int is_end = i < n && ends_here(key, i, n), is_error = i < n ? key[i] & 1 : 0;
        unsigned end_lanes = __ballot_sync(~0u, is_end), error_lanes = __ballot_sync(~0u, is_error);
        if (lane == 0) { warp_ends[warp] = __popc(end_lanes); warp_errors[warp] = __popc(error_lanes); }
        __syncthreads();
        int ends_before_me = __popc(end_lanes & ((1u << lane) - 1));
        int errors_to_me = __popc(error_lanes & (2u * (1u << lane) - 1));
        int block_ends = 0, block_errors = 0;
        for (int k = 0; k < THREADS / 32; ++k) {
            if (k < warp) { ends_before_me += warp_ends[k]; errors_to_me += warp_errors[k]; }
            block_ends += warp_ends[k]; block_errors += warp_errors[k];
        }
        if (is_end) {
            row_ends[first_slot + ends_before_me] = i;
            errors[first_slot + ends_before_me] = errors_above + errors_to_me;
        }
        first_slot += block_ends; errors_above += block_errors;
        __syncthreads();
    }
}
}
"""


@functools.lru_cache(maxsize=1)
def _cuda_module() -> Any:
    return sys.modules["cupy"].RawModule(code=_CUDA)


def _launch_cuda(kernel_name: str, tile_count: int, keys: Array, n: int, *arrays: Array) -> None:
    _cuda_module().get_function(kernel_name)((tile_count,), (256,), (keys, np.int64(n), *arrays))


# The fast way on a GPU (torch, cupy): for 0/1 losses sort packed integers, then read off the rows
#
# The same idea as in `sorting`, with signed 32-bit integers (torch has no unsigned sort): a key is the error bit minus
# twice the bits of the confidence, so that an ascending sort puts the most confident first. Only a few counts are
# copied to the host.


def supports(loss: Array, confidence: Array, weight: Array | None, is_zero_one: Callable[[], bool]) -> bool:
    """Can `area` take these samples? They must be torch or cupy vectors of unweighted 0/1 losses.

    The confidences must be floats of at most 32 bits, and nothing may need a gradient. `is_zero_one()` says whether all
    losses are 0 or 1; it is called last, because it reads all losses.
    """
    if not (is_torch(loss) or is_cupy(loss)) or loss.ndim != 1 or weight is not None:
        return False
    if getattr(loss, "requires_grad", False) or getattr(confidence, "requires_grad", False):
        return False
    dtype_name = str(confidence.dtype).rpartition(".")[2]
    return dtype_name in ("float32", "float16", "bfloat16") and bool(is_zero_one())


def area(xp: Namespace, loss: Array, confidence: Array, estimator: str, ties: str) -> Array:
    """AURC of one vector of samples, for which `supports` is true, as a float64 scalar on the device.

    `estimator` and `ties` are names in `area_estimators.ESTIMATORS` and `TIES`. The order of the samples does not
    matter.
    """
    n = loss.shape[0]
    keys = _pack_keys(xp, xp.astype(loss, xp.bool), xp.astype(confidence, xp.float32))
    sorted_keys = xp.sort(keys)
    del keys
    row_ends, errors = find_row_ends(xp, sorted_keys)
    del sorted_keys
    total_mass = xp.full((1,), float(n), dtype=xp.float64, device=loss.device)
    total = xp.zeros((), dtype=xp.float64, device=loss.device)
    for start in range(0, row_ends.shape[0], CHUNK):  # float64 columns of all confidences would be large
        rows = _rows_between(xp, row_ends, errors, start, total_mass)
        total = total + xp.sum(area_terms(rows, estimator, ties))
    return total / n


def _rows_between(xp: Namespace, row_ends: Array, errors: Array, start: int, total_mass: Array) -> Rows:
    """Make the rows `start` to `start + CHUNK` (exclusive; fewer at the end), all samples having weight 1.

    `row_ends` holds the place of the last sample of every row of the data set, `errors` the number of errors up to and
    including it. Accepted sums count from the top of the data set.
    """
    stop = start + CHUNK
    first = max(start - 1, 0)  # one row more in front, to take differences from
    accepted_mass = xp.astype(row_ends[first:stop], xp.float64) + 1
    accepted_loss = xp.astype(errors[first:stop], xp.float64)
    if start == 0:
        zero = xp.zeros((1,), dtype=xp.float64, device=row_ends.device)
        accepted_mass = xp.concat([zero, accepted_mass])
        accepted_loss = xp.concat([zero, accepted_loss])
    return Rows(
        mass=accepted_mass[1:] - accepted_mass[:-1],
        loss=accepted_loss[1:] - accepted_loss[:-1],
        accepted_mass=accepted_mass[1:],
        accepted_loss=accepted_loss[1:],
        total_mass=total_mass,
        xp=xp,
        padded=False,
    )


def _pack_keys(xp: Namespace, loss: Array, confidence: Array) -> Array:
    """Make keys that sort most confident first: error bit minus twice the ordered bits of a float32 confidence.

    `loss` holds booleans. Keys are 32-bit integers wherever the range of the confidences allows, 64-bit ones otherwise;
    equal confidences agree in `key >> 1`, also where the doubling has wrapped around. Reading the range makes the host
    wait for the device.
    """
    bits = confidence.view(xp.int32)
    low, high = (int(x) for x in extremes(xp, bits))
    if low < 0:  # the bits of negative numbers, and of -0, are in reverse order
        bits = (confidence + 0.0).view(xp.int32)
        bits = xp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        low, high = (int(x) for x in extremes(xp, bits))
    if high - low >= 1 << 31:
        return _error_minus_twice(loss, xp.astype(bits, xp.int64))
    keys = _error_minus_twice(loss, bits)
    if low < -(1 << 30) or high >= 1 << 30:  # the doubling wrapped around: move the middle back to zero
        keys += _wrap_to_int32(2 * ((low + high) // 2))
    return keys


def _wrap_to_int32(value: int) -> int:
    """The signed 32-bit integer that equals `value` modulo 2^32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _error_minus_twice(loss: Array, bits: Array) -> Array:
    """`loss - 2 * bits` for boolean losses, in one pass where the library can."""
    if is_torch(bits):
        return sys.modules["torch"].add(loss, bits, alpha=-2)
    if is_cupy(bits):
        kernel = sys.modules["cupy"].ElementwiseKernel("bool e, T b", "T k", "k = e - 2 * b", "error_key")
        return kernel(loss, bits)
    return loss - 2 * bits
