"""Boundary checks of the loss. Shapes and dtypes always; values where looking at them does not make a GPU wait."""

from __future__ import annotations

from typing import Any

import torch

from abstain._arrays import Array
from abstain._check import check_choice
from abstain.core.estimators import ESTIMATORS, WHOLE_WEIGHTS_ONLY
from abstain.errors import DtypeError, InputError, ShapeError

_NAME = "aurc_loss"
REDUCTIONS = ("mean", "sum", "none")
RANKS = ("hard", "soft")


def check_options(
    estimator: str, reduction: str, rank: str, temperature: float, label_smoothing: float
) -> None:
    """Words and numbers, before any tensor is looked at."""
    check_choice(_NAME, "estimator", estimator, ESTIMATORS)
    check_choice(_NAME, "reduction", reduction, REDUCTIONS)
    check_choice(_NAME, "rank", rank, RANKS)
    if not temperature > 0:
        raise InputError(f"{_NAME}: `temperature` must be positive, got {temperature!r}.")
    if not 0 <= label_smoothing <= 1:
        raise InputError(f"{_NAME}: `label_smoothing` must lie in [0, 1], got {label_smoothing!r}.")


def check_together(
    estimator: str, criterion: Any, label_smoothing: float, weight: Array | None, **flags: bool
) -> None:
    """Options that exclude each other."""
    if criterion is not None and label_smoothing:
        raise InputError(
            f"{_NAME}: `label_smoothing` belongs to the cross-entropy; put it into your `criterion`."
        )
    if weight is not None and estimator in WHOLE_WEIGHTS_ONLY:
        raise InputError(
            f'{_NAME}: estimator="{estimator}" counts samples and takes no class weights. '
            f'Use estimator="harmonic" or "sele" with `weight`.'
        )
    if flags["soft"] and flags["gather"]:
        raise InputError(
            f'{_NAME}: rank="soft" with gather=True would need gradients of other replicas. '
            f'Use rank="hard" with gather=True, or rank="soft" per replica.'
        )


def check_shapes(logits: Array, target: Array, empty_allowed: bool) -> bool:
    """Shapes and dtypes of logits (N, C, ...) and target (N, ...); is the target one of class probabilities?"""
    for argument, value in (("logits", logits), ("target", target)):
        if not isinstance(value, torch.Tensor):
            raise DtypeError(f"{_NAME}: `{argument}` must be a torch tensor, got {type(value).__name__}.")
    if not logits.is_floating_point():
        raise DtypeError(
            f"{_NAME}: `logits` must be floating point, got {logits.dtype}. Pass the model's raw output."
        )
    if logits.ndim < 2 or logits.shape[1] < 2:
        raise ShapeError(
            f"{_NAME}: `logits` must have shape (N, C, ...) with C >= 2 classes, got {tuple(logits.shape)}. "
            f"A single sample needs `logits[None]`; a binary model's one logit z becomes two, 0 and z."
        )
    soft = target.is_floating_point() and target.shape == logits.shape
    expected = logits.shape[:1] + logits.shape[2:]
    if not soft and target.shape != expected:
        raise ShapeError(
            f"{_NAME}: `target` must have shape {tuple(expected)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(target.shape)}. Classes are axis 1: use `logits.movedim(-1, 1)` if yours are last."
        )
    if not soft and (target.is_floating_point() or target.is_complex() or target.dtype is torch.bool):
        raise DtypeError(
            f"{_NAME}: `target` must hold class numbers (an integer dtype), got {target.dtype}. Use `target.long()`."
        )
    if target.numel() == 0 and not empty_allowed:
        raise InputError(
            f"{_NAME}: needs at least one sample, got logits of shape {tuple(logits.shape)}. "
            f"Skip empty batches, e.g. `if len(target): ...`, or let the loader drop them."
        )
    return soft


def check_weight(weight: Array | None, logits: Array) -> None:
    """One weight per class."""
    if weight is not None and tuple(weight.shape) != (logits.shape[1],):
        raise ShapeError(
            f"{_NAME}: `weight` must hold one number per class, shape ({logits.shape[1]},), got {tuple(weight.shape)}."
        )


def check_values(logits: Array, target: Array | None, ignore_index: int, check_finite: bool | None) -> None:
    """Values: by default on the CPU, where looking is free; on a GPU only `check_finite=True` looks at the logits."""
    if torch.compiler.is_compiling():  # a look at values would break the graph
        return
    on_host = logits.device.type == "cpu"
    if on_host and target is not None:
        _check_range(target, logits.shape[1], ignore_index)
    if on_host if check_finite is None else check_finite:
        _check_finite(logits)


def _check_range(target: Array, classes: int, ignore_index: int) -> None:
    wrong = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if bool(wrong.any()):
        value = int(target[wrong][0])
        raise InputError(
            f"{_NAME}: `target` must lie in 0 ... {classes - 1} (or be ignore_index={ignore_index}), got {value}. "
            f"Classes count from 0; mark positions to leave out with `ignore_index`."
        )


def _check_finite(logits: Array) -> None:
    wrong = torch.isnan(logits) | (logits == torch.inf)
    if bool(wrong.any()):
        row = int(wrong.flatten(1).any(dim=1).nonzero()[0])
        raise InputError(
            f"{_NAME}: `logits` must be finite (-inf may mask a class), got NaN or +inf, first in sample {row} "
            f"({int(wrong.sum())} such values). Training has diverged: lower the learning rate, clip gradients, or "
            f"let a GradScaler skip the step (check_finite=False)."
        )


def class_masses(weight: Array | None, target: Array, valid: Array, dtype: torch.dtype) -> Array | None:
    """The mass of each sample: its class's weight, 0 where ignored."""
    if weight is None:
        return None
    masses = weight.to(dtype)[torch.where(valid, target, 0)]
    return torch.where(valid, masses, 0)


def check_soft_target(soft_target: bool, weight: Array | None) -> None:
    """Targets that are class probabilities go with plain cross-entropy only."""
    if soft_target and weight is not None:
        raise InputError(
            f"{_NAME}: `weight` needs class numbers as `target`, got class probabilities. "
            f"Weigh the probabilities themselves, or pass class numbers."
        )
