"""The AURC loss with default options, of a batch on a GPU, in three to four kernels.

For eager training, where launching kernels takes most of the time. The kernels of `_triton_kernels` repeat
`core.area_estimators.pair_weights` and what `abstain.torch.loss` computes (confidences and cross-entropy);
`benchmarks/torch_gpu.py` checks on the GPU that the numbers agree before it measures any time.

The kernels share one float64 vector `work`: five columns of n numbers (key, log-sum-exp, loss, weight, share), then 128
partial sums and a counter.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from abstain._arrays import Array
from abstain.core import _triton_kernels as kernels

MAX_SAMPLES = 4096
MAX_CLASSES = 8192
_MAX_SAMPLES_WITHOUT_SHARES = 512  # up to here each program computes all shares itself, which saves a launch
_ESTIMATORS = ("harmonic", "loo", "sele", "2sele")
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_LOGITS_PER_PROGRAM = 2048
_MAX_ROWS_PER_TILE = 64
_WEIGHTS_PER_PROGRAM = 32  # at most MAX_SAMPLES / 32 = 128 programs, and `work` holds 128 partial sums
_PARTIAL_SUMS_AND_COUNTER = 129  # numbers at the end of `work`


def can_compute(logits: Any, target: Any, estimator: str, reduction: str, label_smoothing: float) -> bool:
    """Return True for a small batch of logits (N, C) and class numbers (N,) on one GPU, with supported options.

    The caller then skips its own checks of options, shapes and dtypes, so an argument that they would refuse must give
    False here. Values of tensors are not read, since that would wait for the GPU. Code that is being compiled is left
    to the plain operations, which the compiler fuses. `logits` and `target` may be any objects. `estimator`
    says how the weight of a rank is computed; all but "log" are supported. `label_smoothing` is the share of the target
    spread evenly over all classes.
    """
    return (
        kernels.AVAILABLE  # is Triton installed?
        and not torch.compiler.is_compiling()
        and type(logits) in _PLAIN_TENSORS  # no subclasses, which may redefine operations
        and type(target) in _PLAIN_TENSORS
        and logits.is_cuda
        and target.device == logits.device
        and target.dtype is torch.int64
        and logits.dtype in _DTYPES
        and estimator in _ESTIMATORS
        and reduction in ("mean", "sum", "none")
        and 0 <= label_smoothing <= 1
        # (N, C) and (N,), neither N nor C too large for the kernels
        and _shapes_fit(logits.shape, target.shape)
        and logits.stride(1) == 1
        and target.is_contiguous()
    )


def _shapes_fit(logits_shape: tuple[int, ...], target_shape: tuple[int, ...]) -> bool:
    """Return True for logits (N, C) and target (N,) that are not larger than the kernels allow."""
    return (
        len(logits_shape) == 2
        and target_shape == logits_shape[:1]
        and 0 < logits_shape[0] <= MAX_SAMPLES
        and 2 <= logits_shape[1] <= MAX_CLASSES
    )


def compute_loss(
    logits: Array, target: Array, estimator: str, reduction: str, ignore_index: int, label_smoothing: float
) -> Array:
    """Compute the AURC of the batch, as `abstain.torch.aurc_loss` does; float32 or wider, lower is better.

    Call it only with arguments for which `can_compute` returns True: nothing is checked here. `estimator` ("harmonic",
    "loo", "sele" or "2sele") says how the weight of a rank is computed, `reduction` is "mean", "sum" or "none". Samples
    whose target is `ignore_index` are left out. `label_smoothing` is the share of the target spread evenly over all
    classes. `logits` are on a GPU, which need not be the current one.
    """
    arguments = (logits, target, estimator, reduction, ignore_index, float(label_smoothing))
    if logits.get_device() == torch.cuda.current_device():
        return _Loss.apply(*arguments)
    with torch.cuda.device_of(logits):  # kernels run on the current device
        return _Loss.apply(*arguments)


@functools.lru_cache(maxsize=4096)
def _tiling(sample_count: int, class_count: int) -> tuple[int, int, tuple[int], tuple[int]]:
    """Divide a batch among programs.

    Returns the rows and columns of the tile that one program reads (powers of two), the launch grid of the kernels that
    read logits, and the launch grid of those that compute weights. `class_count` is the number of classes.
    """
    # All classes of a row are in one tile, even more than _LOGITS_PER_PROGRAM (2048) of them, and as many rows as make
    # up that number, at most 64. Triton needs powers of two.
    tile_columns = 1 << (class_count - 1).bit_length()
    tile_rows = max(1, min(_MAX_ROWS_PER_TILE, _LOGITS_PER_PROGRAM // tile_columns))
    reading_programs = -(-sample_count // tile_rows)  # rounded up, as in the next line
    weighting_programs = -(-sample_count // _WEIGHTS_PER_PROGRAM)
    return tile_rows, tile_columns, (reading_programs,), (weighting_programs,)


class _Loss(torch.autograd.Function):  # type: ignore[misc]
    """One node of the autograd graph.

    Ranks have no gradient, so the backward pass needs only the weights and the log-sum-exps, which `work` holds.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Array,
        target: Array,
        estimator: str,
        reduction: str,
        ignore_index: int,
        label_smoothing: float,
    ) -> Array:
        """Compute the AURC of logits (N, C) and class numbers (N,), float64 for float64 logits, otherwise float32.

        Returns a scalar for the reductions "mean" and "sum", one weighted loss per sample for "none". `ctx` stores what
        `backward` needs.

        The kernels pass their results on in `work`, float64: five columns of N numbers, then the partial sums of the
        programs, and a counter of finished programs, the last of which adds these sums up. The columns are the key that
        ranks a sample, the log-sum-exp of its logits, its cross-entropy, its rank weight, and its share: 1 / number of
        samples accepted at its confidence. Only the estimators "harmonic" and "loo" use shares. `estimator`, one of
        these or "sele" or "2sele", says how the weight of a rank is computed. Samples whose target is `ignore_index`
        are left out. `label_smoothing` is the share of the target spread evenly over all classes.
        """
        sample_count, class_count = logits.shape
        work = torch.empty(
            5 * sample_count + _PARTIAL_SUMS_AND_COUNTER, dtype=torch.float64, device=logits.device
        )
        dtype = torch.float64 if logits.dtype is torch.float64 else torch.float32
        out_shape = (sample_count,) if reduction == "none" else ()
        out = torch.empty(out_shape, dtype=dtype, device=logits.device)
        tile_rows, tile_columns, reading_grid, weighting_grid = _tiling(sample_count, class_count)
        # A Triton kernel runs as one program for each place of its grid. The first one fills the columns of keys,
        # log-sum-exps and cross-entropies.
        kernels.read_rows[reading_grid](
            logits,
            target,
            work,
            sample_count,
            class_count,
            logits.stride(0),
            ignore_index,
            label_smoothing,
            tile_rows,
            tile_columns,
        )
        # in a small batch `compute_weights` computes the shares itself, which saves a kernel
        computes_shares_itself = sample_count <= _MAX_SAMPLES_WITHOUT_SHARES
        if not computes_shares_itself and estimator in ("harmonic", "loo"):
            kernels.compute_shares[weighting_grid](
                work, sample_count, estimator == "loo", _WEIGHTS_PER_PROGRAM
            )
        # fills the column of weights, and `out`
        kernels.compute_weights[weighting_grid](
            work, out, sample_count, estimator, reduction, computes_shares_itself, _WEIGHTS_PER_PROGRAM
        )
        ctx.save_for_backward(logits, target, work)
        ctx.ignore_index = ignore_index
        ctx.label_smoothing = label_smoothing
        return out

    @staticmethod
    def backward(ctx: Any, upstream: Array) -> tuple[Array | None, ...]:
        """Return the gradient with respect to the logits, and None for each of the five other arguments of `forward`.

        `upstream` is the gradient with respect to the result of `forward`: a scalar, or one number per sample for
        reduction "none". The gradient has the shape (N, C) and dtype of the logits, and is contiguous.
        """
        # `work` is a float64 vector: N keys, N log-sum-exps, N losses, N rank weights (divided by the number of samples
        # for reduction "mean"), N shares, then partial sums; the kernel reads log-sum-exps and weights
        logits, target, work = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative was requested, by create_graph=True
            gradient = _differentiable_gradient(
                logits, target, work, upstream, ctx.ignore_index, ctx.label_smoothing
            )
            return gradient, None, None, None, None, None
        sample_count, class_count = logits.shape
        upstream_stride = upstream.stride(0) if upstream.ndim else 0  # 0: a scalar serves every sample
        gradient = torch.empty((sample_count, class_count), dtype=logits.dtype, device=logits.device)
        # rows and columns that one program reads, and how many programs there are
        tile_rows, tile_columns, reading_grid, _ = _tiling(sample_count, class_count)
        kernels.compute_gradients[reading_grid](
            logits,
            target,
            work,
            upstream,
            gradient,
            sample_count,
            class_count,
            logits.stride(0),  # rows may be apart in memory; the classes of a row are side by side
            upstream_stride,
            ctx.ignore_index,
            ctx.label_smoothing,
            tile_rows,
            tile_columns,
        )
        return gradient, None, None, None, None, None


def _differentiable_gradient(
    logits: Array, target: Array, work: Array, upstream: Array, ignore_index: int, label_smoothing: float
) -> Array:
    """Compute the gradient with respect to the logits by operations that can be differentiated again.

    Row i is w_i * upstream_i * (p_i - (1 - s) * onehot_i - s / C): the rank weight of the sample times the gradient of
    its cross-entropy with label smoothing s. It is 0 for ignored samples, and no gradient flows through the weights.

    `logits` is (N, C) and `target` (N,), `work` is the vector of the forward pass, whose fourth column of N numbers
    holds the weights (divided by the number of samples for reduction "mean"), and `upstream` is the gradient with
    respect to the loss, a scalar or one number per sample. The result has the shape and dtype of `logits`; the kernel
    `compute_gradients` computes the same numbers. Samples whose target is `ignore_index` are left out.
    `label_smoothing` is the share of the target spread evenly over all classes.
    """
    sample_count, class_count = logits.shape
    valid = target != ignore_index
    one_hot = torch.nn.functional.one_hot(torch.where(valid, target, 0), class_count).to(upstream.dtype)
    weights = work[3 * sample_count : 4 * sample_count].to(upstream.dtype)
    probs = torch.softmax(logits.to(upstream.dtype), dim=1)
    loss_gradient = probs - (1 - label_smoothing) * one_hot - label_smoothing / class_count
    gradient = (weights * upstream)[:, None] * loss_gradient
    return torch.where(valid[:, None], gradient, 0).to(logits.dtype)
