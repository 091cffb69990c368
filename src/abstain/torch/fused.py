"""The usual loss of a batch on a GPU in three to four kernels: for eager training, where launching costs the time.

The numbers are those of `core.estimators.pair_weights` and of `loss` (the order, the cross-entropy), which the
kernels of `_triton_kernels` repeat; `benchmarks/torch_gpu.py` compares them on the card before it takes any time.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from abstain._arrays import Array
from abstain.core import _triton_kernels as kernels

SAMPLES_AT_MOST = 4096
CLASSES_AT_MOST = 8192
_ALONE_AT_MOST = 512  # up to here every program finds all shares by itself: one launch less
_ESTIMATORS = ("harmonic", "loo", "sele", "2sele")
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_TILE = 2048  # class scores held by one program
_MINE = 32  # samples weighed by one program; with SAMPLES_AT_MOST samples there are 128 programs
_TAIL = 129  # of `work`, see `_triton_kernels`


def takes(logits: Any, target: Any, estimator: str, reduction: str, label_smoothing: float) -> bool:
    """Are these a small batch of class scores and class numbers on one GPU, and options the kernels know?

    True only for what passes every check of `loss`.
    """
    return (
        kernels.AVAILABLE
        and not torch.compiler.is_compiling()
        and type(logits) in _PLAIN_TENSORS
        and type(target) in _PLAIN_TENSORS
        and logits.is_cuda
        and target.device == logits.device
        and target.dtype is torch.int64
        and logits.dtype in _DTYPES
        and estimator in _ESTIMATORS
        and reduction in ("mean", "sum", "none")
        and 0 <= label_smoothing <= 1
        and _shapes_fit(logits.shape, target.shape)
        and logits.stride(1) == 1
        and target.is_contiguous()
    )


def _shapes_fit(logits: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return (
        len(logits) == 2
        and target == logits[:1]
        and 0 < logits[0] <= SAMPLES_AT_MOST
        and 2 <= logits[1] <= CLASSES_AT_MOST
    )


def loss(
    logits: Array, target: Array, estimator: str, reduction: str, ignore_index: int, label_smoothing: float
) -> Array:
    """AURC of the batch, float32 or wider; lower is better. Ask `takes` first."""
    options = (logits, target, estimator, reduction, ignore_index, float(label_smoothing))
    if logits.get_device() == torch.cuda.current_device():
        return _Loss.apply(*options)
    with torch.cuda.device_of(logits):
        return _Loss.apply(*options)


@functools.lru_cache(maxsize=4096)
def _tiling(n: int, classes: int) -> tuple[int, int, tuple[int], tuple[int]]:
    """Rows and columns of a tile, and how many programs read rows and weigh samples."""
    columns = max(2, 1 << (classes - 1).bit_length())
    rows = max(1, min(64, _TILE // columns))
    return rows, columns, (-(-n // rows),), (-(-n // _MINE),)


class _Loss(torch.autograd.Function):  # type: ignore[misc]
    """One node of the graph. Ranks have no gradient, so backward needs the weights and log-sum-exps alone."""

    @staticmethod
    def forward(ctx: Any, logits: Array, target: Array, *options: Any) -> Array:
        estimator, reduction, ignore_index, smoothing = options
        n, classes = logits.shape
        work = torch.empty(5 * n + _TAIL, dtype=torch.float64, device=logits.device)
        dtype = torch.float64 if logits.dtype is torch.float64 else torch.float32
        out = torch.empty((n,) if reduction == "none" else (), dtype=dtype, device=logits.device)
        rows, columns, readers, weighers = _tiling(n, classes)
        kernels.read_rows[readers](
            logits, target, work, n, classes, logits.stride(0), ignore_index, smoothing, rows, columns
        )
        alone = n <= _ALONE_AT_MOST
        if not alone and estimator in ("harmonic", "loo"):
            kernels.shares[weighers](work, n, estimator == "loo", _MINE)
        kernels.weigh[weighers](work, out, n, estimator, reduction, alone, _MINE)
        ctx.save_for_backward(logits, target, work)
        ctx.options = ignore_index, smoothing
        return out

    @staticmethod
    def backward(ctx: Any, upstream: Array) -> tuple[Array | None, ...]:
        logits, target, work = ctx.saved_tensors
        ignore_index, smoothing = ctx.options
        if torch.is_grad_enabled():  # asked for with create_graph=True
            slope = _differentiable_slope(logits, target, work, upstream, ignore_index, smoothing)
            return slope, None, None, None, None, None
        n, classes = logits.shape
        step = upstream.stride(0) if upstream.ndim else 0
        grad = torch.empty((n, classes), dtype=logits.dtype, device=logits.device)
        rows, columns, readers, _ = _tiling(n, classes)
        given = n, classes, logits.stride(0), step, ignore_index, smoothing
        kernels.gradients[readers](logits, target, work, upstream, grad, *given, rows, columns)
        return grad, None, None, None, None, None


def _differentiable_slope(
    logits: Array, target: Array, work: Array, upstream: Array, ignore_index: int, smoothing: float
) -> Array:
    """What the kernel `gradients` writes, by operations that have derivatives themselves."""
    n, classes = logits.shape
    valid = target != ignore_index
    wanted = torch.nn.functional.one_hot(torch.where(valid, target, 0), classes).to(upstream.dtype)
    weights = work[3 * n : 4 * n].to(upstream.dtype)
    p = torch.softmax(logits.to(upstream.dtype), dim=1)
    slope = (weights * upstream)[:, None] * (p - (1 - smoothing) * wanted - smoothing / classes)
    return torch.where(valid[:, None], slope, 0).to(logits.dtype)
