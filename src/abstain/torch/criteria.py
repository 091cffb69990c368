"""Losses of single samples: what the ranks put weights on."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from abstain._arrays import Array
from abstain.errors import ShapeError

Criterion = Callable[[Array, Array], Array]


def in_full_precision(logits: Array) -> Array:
    """float16 and bfloat16 logits as float32: a loss in half precision has three digits."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def cross_entropy(logits: Array, target: Array, ignore_index: int, label_smoothing: float) -> Array:
    """Cross-entropy of each sample; 0 where the target is `ignore_index`."""
    return F.cross_entropy(
        in_full_precision(logits),
        target,
        reduction="none",
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )


def smooth_zero_one(logits: Array, target: Array) -> Array:
    r"""The smooth 0/1 loss of each sample; lower is better.

    .. math:: \ell_i = 1 - p_{y_i}

    It counts errors as the 0/1 loss does, but has a gradient. Taken as -expm1(log p), so that it keeps its digits
    where p is close to 1. Shapes: logits (N, C, ...), target (N, ...).

    >>> smooth_zero_one(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([0.5000])
    """
    log_p = F.log_softmax(in_full_precision(logits), dim=1)
    return -torch.expm1(log_p.gather(1, target.unsqueeze(1)).squeeze(1))


def by_criterion(criterion: Criterion, logits: Array, target: Array, valid: Array) -> Array:
    """The user's per-sample losses; ignored positions are shown class 0 and count for nothing."""
    losses = criterion(logits, torch.where(valid, target, 0))
    if losses.shape != target.shape:
        raise ShapeError(
            f"aurc_loss: `criterion` must return one loss per sample, shape {tuple(target.shape)}, got shape "
            f'{tuple(losses.shape)}. Build it with reduction="none" (the criterion itself is never changed).'
        )
    return torch.where(valid, losses, 0)
