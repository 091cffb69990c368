"""Constant-memory state of the metrics: counts, losses and extreme confidences in fixed bins.

On a GPU, Triton kernels update the bins in one pass over the samples. The general kernel takes any loss and adds to the
bins in global memory. The lean kernel serves 0/1 losses with float32 confidences: each program keeps its own bins in
shared memory, which Triton does not expose, so those few accesses are written in PTX. It is used only where a trial run
on the GPU gives the same numbers as plain torch.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import array_api_compat.torch as xp
import numpy as np
import torch

from abstain._arrays import Array
from abstain.core import _triton_kernels as kernels
from abstain.core.confidence_bins import BinMap, Bins, disjoint_bins

_SAMPLES_PER_CHUNK = 1 << 24  # binned at a time without a kernel: this bounds the scratch memory
_SAMPLES_PER_PROGRAM = 1024  # of the general kernel
LEAN_BINS = 2900  # the lean kernel keeps 16 bytes of shared memory per bin, in 46 KB
_ALL_BUT_SIGN = 0x7FFFFFFFFFFFFFFF  # the bits of an int64 other than its sign


class BinState(NamedTuple):
    """One value per bin: sample count, sum of losses, smallest and largest confidence (inf and -inf if empty)."""

    count: Array
    loss_sum: Array
    low: Array
    high: Array


def empty_state(size: int, device: Any = None) -> BinState:
    """Create `size` bins without samples."""
    return BinState(
        count=torch.zeros(size, dtype=torch.int64, device=device),
        loss_sum=torch.zeros(size, dtype=torch.float64, device=device),
        low=torch.full((size,), torch.inf, dtype=torch.float64, device=device),
        high=torch.full((size,), -torch.inf, dtype=torch.float64, device=device),
    )


def add(
    state: BinState, binmap: BinMap, loss: Array, confidence: Array, binned_value: Array | None = None
) -> None:
    """Add samples to the state, in place: with a Triton kernel on a GPU, with plain torch elsewhere.

    All ways give the same counts and extremes; sums of losses that are not 0/1 may differ in rounding. On a GPU the
    lean kernel (0/1 losses and float32 confidences, bins in shared memory) is used if it can take the samples and has
    passed its trial run on this GPU, otherwise the general kernel (any loss, bins in global memory).

    Parameters
    ----------
    state : BinState
        One entry per bin of `binmap`, on the device of the samples. Changed in place.
    binmap : BinMap
        Assigns one of `binmap.size` bins to each number.
    loss, confidence : tensor, shape (n,)
        One number per sample. Bins record the extremes of the confidences.
    binned_value : tensor, shape (n,), optional
        The number that decides a sample's bin, if it is not the confidence itself: a probability, for example, when
        confidences are rank keys. It must increase with the confidence.
    """
    # `kernels.AVAILABLE` says whether Triton is installed; kernels read contiguous memory
    use_kernel = (
        confidence.is_cuda and kernels.AVAILABLE and confidence.is_contiguous() and len(confidence) > 0
    )
    fits_lean_kernel = use_kernel and binned_value is None and _fits_lean_kernel(loss, confidence, binmap)
    if binned_value is None:
        binned_value = confidence
    if fits_lean_kernel and _lean_kernel_works(str(confidence.device), binmap):
        add_with_lean_kernel(state, binmap, loss, confidence)
    elif use_kernel:
        add_with_general_kernel(state, binmap, loss, confidence, binned_value)
    else:
        for start in range(0, confidence.shape[0], _SAMPLES_PER_CHUNK):
            chunk = slice(start, start + _SAMPLES_PER_CHUNK)
            add_with_torch(state, binmap, loss[chunk], confidence[chunk], binned_value[chunk])


def add_with_torch(
    state: BinState, binmap: BinMap, loss: Array, confidence: Array, binned_value: Array
) -> None:
    """Add samples to `state`, in place, with plain torch operations on any device.

    `loss` and `confidence` have shape (n,), and so has `binned_value`, the number by which `binmap` chooses a sample's
    bin. The state keeps counts, sums of losses, and the extremes of the confidences, one entry per bin in each; the
    extremes of an empty bin are inf (`low`) and -inf (`high`).
    """
    # `xp` is torch with the functions of the array API
    bin_index = binmap.index(xp, binned_value)  # one bin per sample, from 0 to `binmap.size` - 1
    wide_confidence = confidence.double()
    state.count.add_(torch.bincount(bin_index, minlength=binmap.size))
    state.loss_sum.scatter_add_(0, bin_index, loss.double())
    state.low.scatter_reduce_(0, bin_index, wide_confidence, "amin")
    state.high.scatter_reduce_(0, bin_index, wide_confidence, "amax")


def to_bins(state: BinState) -> Bins:
    """Convert the state to the bins of `core.confidence_bins`, from which metrics are computed."""
    return disjoint_bins(xp, state.count.double(), state.loss_sum, state.low, state.high)


def add_with_general_kernel(
    state: BinState, binmap: BinMap, loss: Array, confidence: Array, binned_value: Array
) -> None:
    """Add samples to `state`, in place, on a GPU: losses of any real dtype or bool, float32 or float64 confidences.

    The kernel adds to the bins in global memory by atomic operations. It keeps the extremes of the confidences as
    integers of the same order, for which there are atomic minima and maxima.

    `loss`, `confidence` (contiguous) and `binned_value`, the number that decides a sample's bin, have shape (n,) with n
    > 0 and are on the GPU of `state`. `binmap` gives the bin of a confidence.
    """
    # copies, which the kernel changes; `state.low` and `state.high` are set from them at the end
    low_bits = to_ordered_bits(state.low)
    high_bits = to_ordered_bits(state.high)
    if loss.dtype is torch.bool:  # the kernel reads bytes, 0 or 1
        loss = loss.view(torch.uint8)
    n = confidence.shape[0]
    # of each octave (power of two) of the numbers to be binned: its first bin, and into how many bins it is divided
    first_bin, bin_count = kernel_tables(binmap, confidence.device)
    program_count = (n + _SAMPLES_PER_PROGRAM - 1) // _SAMPLES_PER_PROGRAM
    # adds to `state.count` and `state.loss_sum` in place
    kernels.add_to_bins[(program_count,)](
        confidence,
        binned_value.contiguous(),
        loss.contiguous(),
        first_bin,
        bin_count,
        state.count,
        state.loss_sum,
        low_bits,
        high_bits,
        n,
        BLOCK=_SAMPLES_PER_PROGRAM,
    )
    state.low.copy_(from_ordered_bits(low_bits))
    state.high.copy_(from_ordered_bits(high_bits))


def add_with_lean_kernel(state: BinState, binmap: BinMap, loss: Array, confidence: Array) -> None:
    """Add samples with 0/1 losses and float32 confidences to `state`, in place, by bins in shared memory.

    Each program fills its own bins and adds them to the state once. The state holds counts (int64), sums of losses and
    the extremes of the confidences (float64); in an empty bin these are inf (`low`) and -inf (`high`).

    `loss` (bool or uint8, 0 or 1) and `confidence` (contiguous) have shape (n,) with n > 0 and are on the GPU of
    `state`. `binmap` gives the bin of a confidence; only the general kernel can bin samples by another number. The map
    has at most LEAN_BINS (2900) bins, and fewer than 512 in each octave, so that 9 bits of the packed table hold their
    number. Nothing is checked here: `add` has done it.
    """
    # the extremes as integers of the same order, which the kernel changes; the state is set from them at the end
    low_bits = to_ordered_bits(state.low)
    high_bits = to_ordered_bits(state.high)
    # filled by the kernel, which also adds to `state.count` in place
    error_count = torch.zeros_like(state.count)
    # of each octave (power of two) of the confidences: its first bin, and into how many bins it is divided
    bins_of_octave = packed_kernel_table(binmap, confidence.device)
    # four programs share a multiprocessor: each has 16 bytes of shared memory per bin, at most 46 KB
    program_count = 4 * torch.cuda.get_device_properties(confidence.device).multi_processor_count
    slot_count = 1 << binmap.size.bit_length()  # a power of two above the number of bins, as Triton needs
    kernels.add_to_shared_bins[(program_count,)](
        confidence,
        loss.contiguous().view(torch.uint8),
        bins_of_octave,
        state.count,
        error_count,
        low_bits,
        high_bits,
        confidence.shape[0],
        binmap.size,
        slot_count,
        num_warps=8,
    )
    state.loss_sum.add_(error_count)
    state.low.copy_(from_ordered_bits(low_bits))
    state.high.copy_(from_ordered_bits(high_bits))


def _fits_lean_kernel(loss: Array, confidence: Array, binmap: BinMap) -> bool:
    """Return True for 0/1 losses, float32 confidences and a map whose bins fit into shared memory."""
    is_small_map = binmap.size <= LEAN_BINS and binmap.bin_count.max() < 512
    return is_small_map and loss.dtype in (torch.bool, torch.uint8) and confidence.dtype is torch.float32


@functools.lru_cache(maxsize=8)
def _lean_kernel_works(device: str, binmap: BinMap) -> bool:
    """Try the lean kernel once per device and map: return True if it compiles and agrees with plain torch.

    The lean kernel adds 0/1 losses at float32 confidences to bins in shared memory. The numbers must be equal to the
    last bit, as they can be: counts and errors are whole, and extremes are copied. `binmap` gives the bin of a
    confidence.
    """
    rng = np.random.default_rng(0)
    confidence = torch.tensor(rng.random(50_001, dtype=np.float32), device=device)
    confidence[::7] = 0.5  # some ties
    loss = torch.tensor(rng.random(50_001) < 0.2, device=device)
    kernel_state = empty_state(binmap.size, device)
    expected_state = empty_state(binmap.size, device)
    # the lean kernel bins samples by the confidence itself
    add_with_torch(expected_state, binmap, loss, confidence, binned_value=confidence)
    try:
        add_with_lean_kernel(kernel_state, binmap, loss, confidence)
    except Exception:  # a compiler that rejects the PTX: `add` then uses the general kernel
        return False
    # the fields of both: counts, sums of losses, smallest and largest confidence of each bin
    return all(torch.equal(computed, expected) for computed, expected in zip(kernel_state, expected_state))


@functools.lru_cache(maxsize=8)
def kernel_tables(binmap: BinMap, device: Any) -> tuple[Array, Array]:
    """Copy the map's tables to the device: first bin and number of bins of each (region, octave)."""
    first_bin = binmap.first_bin.astype(np.int32)
    bin_count = binmap.bin_count.astype(np.float64)
    return torch.tensor(first_bin, device=device), torch.tensor(bin_count, device=device)


@functools.lru_cache(maxsize=8)
def packed_kernel_table(binmap: BinMap, device: Any) -> Array:
    """Pack both tables into one number, 512 * first bin + number of bins, on the device.

    The map must be small: fewer than 512 bins in each octave.
    """
    packed = binmap.first_bin.astype(np.int64) * 512 + binmap.bin_count.astype(np.int64)
    return torch.tensor(packed.astype(np.int32), device=device)


def to_ordered_bits(x: Array) -> Array:
    """Map float64 to int64 of the same order, so that integer minima and maxima can be used."""
    bits = x.view(torch.int64)
    return bits ^ ((bits >> 63) & _ALL_BUT_SIGN)


def from_ordered_bits(ordered_bits: Array) -> Array:
    """Map the int64 of `to_ordered_bits` to the float64 they came from."""
    return (ordered_bits ^ ((ordered_bits >> 63) & _ALL_BUT_SIGN)).view(torch.float64)
