"""Constant-memory state: counts, losses, extreme confidences in fixed bins, filled by Triton kernels on a GPU."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import array_api_compat.torch as xp
import numpy as np
import torch

from abstain._arrays import Array
from abstain.core import _triton_kernels as kernels
from abstain.core.confidence_bins import BinMap, Bins, disjoint_bins

_AT_ONCE = 1 << 24  # samples binned at a time without a kernel: their scratch is what memory is spent on


class BinState(NamedTuple):
    """Per bin: how many, their loss, the smallest and the largest confidence (inf and -inf where there is none)."""

    count: Array
    loss_sum: Array
    low: Array
    high: Array


def empty_state(size: int, device: Any = None) -> BinState:
    """Bins without samples."""
    return BinState(
        torch.zeros(size, dtype=torch.int64, device=device),
        torch.zeros(size, dtype=torch.float64, device=device),
        torch.full((size,), torch.inf, dtype=torch.float64, device=device),
        torch.full((size,), -torch.inf, dtype=torch.float64, device=device),
    )


def add(state: BinState, binmap: BinMap, loss: Array, confidence: Array, place: Array | None = None) -> None:
    """Add samples to the state, in place.

    `place` is the number that is binned where it is not the confidence itself (a probability, say, where samples
    are ranked by its logarithm). On a GPU a kernel does it in one pass, elsewhere plain torch.
    """
    by_kernel = (
        confidence.is_cuda and kernels.AVAILABLE and confidence.is_contiguous() and len(confidence) > 0
    )
    lean = by_kernel and place is None and _is_lean(loss, confidence, binmap)
    place = confidence if place is None else place
    if lean and _lean_works(str(confidence.device), binmap):
        return add_lean(state, binmap, loss, confidence)
    if by_kernel:
        return add_generally(state, binmap, loss, confidence, place)
    for a in range(0, confidence.shape[0], _AT_ONCE):
        part = slice(a, a + _AT_ONCE)
        _add_plainly(state, binmap, loss[part], confidence[part], place[part])


def _add_plainly(state: BinState, binmap: BinMap, loss: Array, confidence: Array, place: Array) -> None:
    index = binmap.index(xp, place)
    confidence = confidence.double()
    state.count.add_(torch.bincount(index, minlength=binmap.size))
    state.loss_sum.scatter_add_(0, index, loss.double())
    state.low.scatter_reduce_(0, index, confidence, "amin")
    state.high.scatter_reduce_(0, index, confidence, "amax")


def certified(state: BinState) -> Bins:
    """The state as bins that `core.bins` reads."""
    return disjoint_bins(xp, state.count.double(), state.loss_sum, state.low, state.high)


# On a GPU, Triton kernels make the update in one pass over the samples. The general one takes any loss and adds to the
# bins in global memory. The lean one serves 0/1 losses of float32 confidences: each program keeps its bins in shared
# memory, which Triton does not expose, so those few accesses are written in PTX. It is used only where a trial run on
# the card gives the numbers of plain torch.
LEAN_BINS = 2900  # 16 bytes of shared memory each, in 46 KB
_ONES = 0x7FFFFFFFFFFFFFFF


def add_generally(state: Any, binmap: BinMap, loss: Array, confidence: Array, place: Array) -> None:
    """Any loss, float32 or float64 confidences: atomics on the bins themselves."""
    low, high = to_ordered(state.low), to_ordered(state.high)
    loss = (loss.view(torch.uint8) if loss.dtype is torch.bool else loss).contiguous()
    n, block = confidence.shape[0], 1024
    samples = confidence, place.contiguous(), loss, *tables(binmap, confidence.device)
    grid = ((n + block - 1) // block,)
    kernels.general[grid](*samples, state.count, state.loss_sum, low, high, n, BLOCK=block)
    state.low.copy_(from_ordered(low))
    state.high.copy_(from_ordered(high))


def add_lean(state: Any, binmap: BinMap, loss: Array, confidence: Array) -> None:
    """0/1 losses of float32 confidences: bins in shared memory, added to the state once per program."""
    low, high = to_ordered(state.low), to_ordered(state.high)
    errors = torch.zeros_like(state.count)
    programs = 4 * torch.cuda.get_device_properties(confidence.device).multi_processor_count
    samples = confidence, loss.contiguous().view(torch.uint8), short_table(binmap, confidence.device)
    sizes = confidence.shape[0], binmap.size, 1 << binmap.size.bit_length()
    kernels.lean[(programs,)](*samples, state.count, errors, low, high, *sizes, num_warps=8)
    state.loss_sum.add_(errors)
    state.low.copy_(from_ordered(low))
    state.high.copy_(from_ordered(high))


def _is_lean(loss: Array, confidence: Array, binmap: BinMap) -> bool:
    small = binmap.size <= LEAN_BINS and binmap._cells.max() < 512
    return small and loss.dtype in (torch.bool, torch.uint8) and confidence.dtype is torch.float32


@functools.lru_cache(maxsize=8)
def _lean_works(device: str, binmap: BinMap) -> bool:
    """Once per card and map: does the lean kernel compile here and agree with plain torch?"""

    rng = np.random.default_rng(0)
    confidence = torch.tensor(rng.random(50_001, dtype=np.float32), device=device)
    confidence[::7] = 0.5
    loss = torch.tensor(rng.random(50_001) < 0.2, device=device)
    got, expected = empty_state(binmap.size, device), empty_state(binmap.size, device)
    _add_plainly(expected, binmap, loss, confidence, confidence)
    try:
        add_lean(got, binmap, loss, confidence)
    except Exception:  # a compiler that does not take the PTX: the general kernel remains
        return False
    return all(torch.equal(a, b) for a, b in zip(got, expected))


@functools.lru_cache(maxsize=8)
def tables(binmap: BinMap, device: Any) -> tuple[Array, Array]:
    """The map's tables on the device: first bin and number of bins of each (region, octave)."""
    offset, cells = binmap._offset.astype(np.int32), binmap._cells.astype(np.float64)
    return torch.tensor(offset, device=device), torch.tensor(cells, device=device)


@functools.lru_cache(maxsize=8)
def short_table(binmap: BinMap, device: Any) -> Array:
    """Both tables in one number: 512 * first bin + number of bins (fewer than 512 in any octave of a small map)."""
    packed = binmap._offset.astype(np.int64) * 512 + binmap._cells.astype(np.int64)
    return torch.tensor(packed.astype(np.int32), device=device)


def to_ordered(x: Array) -> Array:
    """float64 as int64 of the same order, so that integer minima and maxima serve."""
    bits = x.view(torch.int64)
    return bits ^ ((bits >> 63) & _ONES)


def from_ordered(x: Array) -> Array:
    """The way back."""
    return (x ^ ((x >> 63) & _ONES)).view(torch.float64)
