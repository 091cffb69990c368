"""Constant-memory state: counts, losses and extreme confidences in fixed bins, certified on the way out."""

from __future__ import annotations

from typing import Any, NamedTuple

import array_api_compat.torch as xp
import torch

from abstain._arrays import Array
from abstain.core.binmap import BinMap
from abstain.core.binning import Bins, disjoint_bins

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
    if confidence.is_cuda:
        from abstain.torch import kernels

        if kernels.add(state, binmap, loss, confidence, place):
            return
    for a in range(0, confidence.shape[0], _AT_ONCE):
        part = slice(a, a + _AT_ONCE)
        _add_plainly(
            state, binmap, loss[part], confidence[part], (confidence if place is None else place)[part]
        )


def _add_plainly(state: BinState, binmap: BinMap, loss: Array, confidence: Array, place: Array) -> None:
    index = binmap.index(xp, place)
    confidence = confidence.double()
    state.count.add_(torch.bincount(index, minlength=binmap.size))
    state.loss_sum.scatter_add_(0, index, loss.double())
    state.low.scatter_reduce_(0, index, confidence, "amin")
    state.high.scatter_reduce_(0, index, confidence, "amax")


def certified(state: BinState) -> Bins:
    """The state as bins that `core.binning` reads."""
    return disjoint_bins(xp, state.count.double(), state.loss_sum, state.low, state.high)
