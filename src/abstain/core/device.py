"""AURC of 0/1 losses that live on a GPU (torch, cupy), without bringing them to the host.

The rows of a risk-coverage curve need only two numbers per distinct confidence: how many samples have it, and how many
of these are errors. So nothing is sorted together with the losses. The confidences alone are sorted and counted, and
those of the errors, which are few, once more; the two tables are merged by confidence. A sort of keys alone takes about
half the time of `torch.sort`, which also sorts the places of the keys.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace, is_cupy, is_torch
from abstain.core.area_estimators import area_terms
from abstain.core.rows import Rows

# rows handled at a time: float64 columns of a billion distinct confidences would be large
ROWS_AT_ONCE = 1 << 27
_FLOAT_TYPES = ("float64", "float32", "float16", "bfloat16")
_TILE = 4096  # samples that one program of a kernel handles


def supports(loss: Array, confidence: Array, weight: Array | None, is_zero_one: Callable[[], bool]) -> bool:
    """Can `area` take these samples? They must be torch or cupy vectors of unweighted 0/1 losses.

    The confidences must be floats, and nothing may need a gradient. `is_zero_one()` says whether all losses are 0 or 1;
    it is called last, because it reads all losses.
    """
    if not (is_torch(loss) or is_cupy(loss)) or loss.ndim != 1 or weight is not None:
        return False
    if getattr(loss, "requires_grad", False) or getattr(confidence, "requires_grad", False):
        return False
    # float16 to float64, and bfloat16
    dtype_name = str(confidence.dtype).rpartition(".")[2]  # "float32" of "torch.float32"
    return dtype_name in _FLOAT_TYPES and bool(is_zero_one())


def area(xp: Namespace, loss: Array, confidence: Array, estimator: str, ties: str) -> Array:
    """AURC of one vector of samples, for which `supports` is true, as a float64 scalar on the device.

    `supports` demands unweighted 0/1 losses and confidences that are floats, both of torch or of cupy.
    `estimator` is "harmonic", "loo", "log", "sele" or "2sele" (how a loss counts by its rank), `ties` "threshold"
    (equal confidences are accepted together) or "expected" (one by one, in random order). The order of the samples does
    not matter. The result is NaN if a confidence is NaN or infinite, and only then. The host waits for the device, to
    learn how many distinct confidences and how many errors there are.
    """
    # the samples and the errors at each distinct confidence, most confident first, as float64
    mass, loss_sum, is_finite = count_by_confidence(xp, xp.astype(loss, xp.bool, copy=False), confidence)
    n = loss.shape[0]
    total_mass = xp.full((1,), float(n), dtype=xp.float64, device=loss.device)
    mass_above = xp.zeros((1,), dtype=xp.float64, device=loss.device)
    loss_above = mass_above
    sum_of_terms = xp.zeros((), dtype=xp.float64, device=loss.device)
    for start in range(0, mass.shape[0], ROWS_AT_ONCE):  # in parts, which need less memory
        part = slice(start, start + ROWS_AT_ONCE)
        accepted_mass = xp.cumulative_sum(mass[part], axis=0)
        accepted_loss = xp.cumulative_sum(loss_sum[part], axis=0)
        if start > 0:
            accepted_mass = accepted_mass + mass_above
            accepted_loss = accepted_loss + loss_above
        rows = Rows(
            mass=mass[part],
            loss=loss_sum[part],
            accepted_mass=accepted_mass,
            accepted_loss=accepted_loss,
            total_mass=total_mass,
            xp=xp,
            has_empty_rows=False,
        )
        sum_of_terms = sum_of_terms + xp.sum(area_terms(rows, estimator, ties))  # those of all rows: n * AURC
        mass_above = accepted_mass[-1:]
        loss_above = accepted_loss[-1:]
    return xp.where(is_finite, sum_of_terms / n, xp.nan)


class ConfidenceCounts(NamedTuple):
    """Samples and errors at each distinct confidence, most confident first, on the device.

    Attributes
    ----------
    mass, loss_sum : array of float64
        Number of samples, and number of errors.
    is_finite : array of bool, shape ()
        Are all confidences finite?
    """

    mass: Array
    loss_sum: Array
    is_finite: Array


def count_by_confidence(xp: Namespace, is_error: Array, confidence: Array) -> ConfidenceCounts:
    """Count the samples and the errors of each distinct confidence; -0 and 0 are the same confidence.

    `is_error` is a boolean vector, `confidence` a vector of floats of the same length, at least 1; both are torch
    tensors or cupy arrays. The counts are on their device.
    """
    # not sorted yet; keys ascend as confidences descend
    keys, error_keys = _make_sort_keys(xp, is_error, confidence)
    has_errors = error_keys.shape[0] > 0
    if has_errors:  # counted first, so that their keys need no memory while the others are sorted
        distinct_error_keys, error_counts = _count_distinct(xp, error_keys)  # ascending keys
    del error_keys
    distinct_keys, sample_counts = _count_distinct(xp, keys)  # ascending keys: descending confidences
    del keys
    mass = xp.astype(sample_counts, xp.float64)
    loss_sum = xp.zeros_like(mass)
    if has_errors:
        places = xp.searchsorted(distinct_keys, distinct_error_keys)  # of each error key, which is among them
        loss_sum = _write_at(loss_sum, places, xp.astype(error_counts, xp.float64))
    # Keys are signed integers: the complement of the bits of a positive float, and the bits without the sign of a
    # negative one. With b the bits of the largest float, finite floats have the keys ~b (that of the largest) to b
    # (that of its negative). Keys of NaN and of the infinities lie outside.
    largest_float = xp.asarray(
        [xp.finfo(confidence.dtype).max], dtype=confidence.dtype, device=confidence.device
    )
    bits_of_largest = _bits_as_integers(xp, largest_float)[0]
    is_finite = (distinct_keys[0] >= ~bits_of_largest) & (distinct_keys[-1] <= bits_of_largest)
    return ConfidenceCounts(mass, loss_sum, is_finite)


def _write_at(array: Array, places: Array, values: Array) -> Array:
    """The array with `values` at `places`, which are distinct; changes it. torch's assignment takes longer."""
    if is_torch(array):
        return array.scatter_(0, places, values)
    array[places] = values
    return array


# Integer keys, as wide as the confidences
#
# Libraries sort integers faster than floats, and keys that ascend as the confidences descend give the rows most
# confident first. The bits of a positive float ascend with it, so their complement descends. The bits of a negative one
# without the sign ascend as it descends. All of the former are negative integers, none of the latter is. The keys of
# NaN and of the infinities come before or after those of all finite floats.


class _SortKeys(NamedTuple):
    """Integer keys that ascend as confidences descend: of samples in input order, and of the errors in any order."""

    of_samples: Array
    of_errors: Array


def _make_sort_keys(xp: Namespace, is_error: Array, confidence: Array) -> _SortKeys:
    """Make integers that ascend as the confidences descend: one for each sample, and those of the errors once more.

    `is_error` is a boolean vector and `confidence` a vector of floats of the same length, of torch or cupy. The
    integers are as wide as the floats: the complement of the bits of a positive float (a negative integer), the bits
    without the sign of a negative one. -0 and 0 have the same key, -1. On a GPU a kernel writes both in one pass: in
    Triton for torch where that is installed, in CUDA for cupy.
    """
    if is_torch(confidence) and confidence.is_cuda and _triton_kernels().AVAILABLE:
        return _write_keys(xp, is_error, confidence, _launch_triton)
    if is_cupy(confidence):
        return _write_keys(xp, is_error, confidence, _launch_cuda)
    bits = _bits_as_integers(xp, confidence + 0.0)  # turns -0 into 0
    keys = xp.where(bits < 0, bits & xp.iinfo(bits.dtype).max, ~bits)
    return _SortKeys(keys, keys[is_error])


def _write_keys(xp: Namespace, is_error: Array, confidence: Array, launch: Callable[..., None]) -> _SortKeys:
    """Keys of all samples and of the errors, written by one GPU kernel in one pass over the samples.

    `launch("write_keys", program_count, bits, error_bytes, keys, error_keys, error_count, n)` starts one program per
    tile of `_TILE` samples; `error_bytes` holds 0 or 1, and `error_count` is an int64 vector of length 1 that counts
    the keys written to `error_keys`. Reading it makes the host wait for the device.
    """
    bits = _bits_as_integers(xp, confidence)  # as wide as the floats; the kernel makes keys of them
    error_bytes = _contiguous(xp, is_error).view(xp.uint8)
    n = bits.shape[0]
    keys = xp.empty_like(bits)
    error_keys = xp.empty_like(bits)
    error_count = xp.zeros((1,), dtype=xp.int64, device=bits.device)
    tile_count = -(-n // _TILE)  # rounded up
    launch("write_keys", tile_count, bits, error_bytes, keys, error_keys, error_count, n)
    return _SortKeys(keys, error_keys[: int(error_count[0])])


def _bits_as_integers(xp: Namespace, confidence: Array) -> Array:
    """The bits of floats as signed integers of the same width, contiguous in memory."""
    bit_count = 8 * confidence.dtype.itemsize
    return _contiguous(xp, confidence).view(getattr(xp, f"int{bit_count}"))


def _contiguous(xp: Namespace, array: Array) -> Array:
    """The array itself if it is contiguous in memory, otherwise a copy that is."""
    return array.contiguous() if is_torch(array) else xp.ascontiguousarray(array)


def _count_distinct(xp: Namespace, keys: Array) -> tuple[Array, Array]:
    """The distinct keys of a vector that is not empty, ascending, and how often each occurs (int64)."""
    if is_torch(keys):
        return tuple(xp.unique(keys, return_counts=True))
    sorted_keys = xp.sort(keys)
    row_ends = _find_run_ends(xp, sorted_keys, _launch_cuda)
    counts = xp.concat([row_ends[:1] + 1, row_ends[1:] - row_ends[:-1]])
    return sorted_keys[row_ends], counts


def _find_run_ends(xp: Namespace, sorted_keys: Array, launch: Callable[..., None]) -> Array:
    """Find the places (int64, ascending) of the last key of each run of equal keys, for cupy.

    Two kernels: `launch("count_ends", tile_count, sorted_keys, n, ends_in_tile)` counts the run ends in each tile of
    `_TILE` keys, and `launch("write_ends", tile_count, sorted_keys, n, ends_before_tile, row_ends)` writes them.
    `cupy.unique` takes several times as long.
    """
    n = sorted_keys.shape[0]
    tile_count = -(-n // _TILE)  # rounded up
    ends_in_tile = xp.empty((tile_count,), dtype=xp.int64, device=sorted_keys.device)
    launch("count_ends", tile_count, sorted_keys, n, ends_in_tile)
    ends_up_to_tile = xp.cumulative_sum(ends_in_tile, axis=0)
    # the number of all run ends; reading it makes the host wait for the device
    row_ends = xp.empty((int(ends_up_to_tile[-1]),), dtype=xp.int64, device=sorted_keys.device)
    ends_before_tile = ends_up_to_tile - ends_in_tile
    launch("write_ends", tile_count, sorted_keys, n, ends_before_tile, row_ends)
    return row_ends


# Kernels for torch (Triton) and cupy (CUDA)


def _triton_kernels() -> Any:
    """The module of Triton kernels, imported when it is first needed: Triton takes a while to load."""
    from abstain.core import _triton_kernels

    return _triton_kernels


def _launch_triton(kernel_name: str, program_count: int, *arguments: Any) -> None:
    getattr(_triton_kernels(), kernel_name)[(program_count,)](*arguments, TILE=_TILE)


# The type KEY, a signed integer, is defined when the source is compiled. A block has 256 threads and handles a tile of
# 4096 samples or sorted keys, 16 for each thread.
_CUDA = r"""
#define TILE 4096
#define THREADS 256
extern "C" {
__global__ void write_keys(const KEY* bits, const bool* is_error, KEY* keys, KEY* error_keys,
                           unsigned long long* error_count, long long n) {
    __shared__ int errors_in_tile;
    __shared__ unsigned long long first_place;
    if (threadIdx.x == 0) errors_in_tile = 0;
    __syncthreads();
    const KEY largest = ~((KEY)1 << (8 * sizeof(KEY) - 1));
    const long long start = (long long)blockIdx.x * TILE + threadIdx.x;
    unsigned my_errors = 0;  // bit k: the k-th sample of this thread is an error
    for (int k = 0; k < TILE / THREADS; ++k) {
        const long long i = start + k * THREADS;
        if (i >= n) break;
        const KEY bit = bits[i], without_sign = bit & largest;
        keys[i] = bit >= 0 ? (KEY)~bit : (without_sign == 0 ? (KEY)-1 : without_sign);
        my_errors |= (unsigned)is_error[i] << k;
    }
    const int my_place = atomicAdd(&errors_in_tile, __popc(my_errors));
    __syncthreads();
    if (threadIdx.x == 0) first_place = atomicAdd(error_count, (unsigned long long)errors_in_tile);
    __syncthreads();
    KEY* place = error_keys + first_place + my_place;
    for (int k = 0; k < TILE / THREADS; ++k)
        if (my_errors >> k & 1) *place++ = keys[start + k * THREADS];
}
__global__ void count_ends(const KEY* keys, long long n, long long* ends_in_tile) {
    __shared__ int ends;
    if (threadIdx.x == 0) ends = 0;
    __syncthreads();
    int my_ends = 0;
    for (int k = 0; k < TILE / THREADS; ++k) {
        const long long i = (long long)blockIdx.x * TILE + k * THREADS + threadIdx.x;
        my_ends += i < n && (i == n - 1 || keys[i] != keys[i + 1]);
    }
    atomicAdd(&ends, my_ends);
    __syncthreads();
    if (threadIdx.x == 0) ends_in_tile[blockIdx.x] = ends;
}
__global__ void write_ends(const KEY* keys, long long n, const long long* ends_before_tile, long long* row_ends) {
    __shared__ int ends_in_warp[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long* next = row_ends + ends_before_tile[blockIdx.x];
    for (int k = 0; k < TILE / THREADS; ++k) {
        const long long i = (long long)blockIdx.x * TILE + k * THREADS + threadIdx.x;
        const bool is_end = i < n && (i == n - 1 || keys[i] != keys[i + 1]);
        const unsigned end_lanes = __ballot_sync(~0u, is_end);
        if (lane == 0) ends_in_warp[warp] = __popc(end_lanes);
        __syncthreads();
        int ends_before_me = __popc(end_lanes & ((1u << lane) - 1)), ends = 0;
        for (int w = 0; w < THREADS / 32; ++w) {
            if (w < warp) ends_before_me += ends_in_warp[w];
            ends += ends_in_warp[w];
        }
        if (is_end) next[ends_before_me] = i;
        next += ends;
        __syncthreads();
    }
}
}
"""
_CUDA_TYPES = {"int16": "short", "int32": "int", "int64": "long long"}


@functools.lru_cache(maxsize=len(_CUDA_TYPES))
def _cuda_module(key_type: str) -> Any:
    """The CUDA kernels for keys of a type such as "int32", compiled."""
    return sys.modules["cupy"].RawModule(code=f"#define KEY {_CUDA_TYPES[key_type]}\n{_CUDA}")


def _launch_cuda(kernel_name: str, program_count: int, first: Array, *arguments: Any) -> None:
    """Start a kernel; its first argument is an array of keys or bits, and whole numbers become 64-bit integers."""
    kernel = _cuda_module(str(first.dtype)).get_function(kernel_name)
    typed = [np.int64(value) if isinstance(value, int) else value for value in arguments]
    kernel((program_count,), (256,), (first, *typed))
