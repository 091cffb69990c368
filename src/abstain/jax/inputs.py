"""Boundary checks: shapes and dtypes always, values where they can be read (outside jit)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from abstain._arrays import Array, is_concrete
from abstain._check import check_choice
from abstain.core.estimators import ESTIMATORS
from abstain.errors import DtypeError, InputError, ShapeError

_NAME = "aurc_loss"


def check_options(
    estimator: str, reduction: str, rank: str, temperature: float, label_smoothing: float, criterion: Any
) -> None:
    """Words and numbers."""
    check_choice(_NAME, "estimator", estimator, ESTIMATORS)
    check_choice(_NAME, "reduction", reduction, ("mean", "sum", "none"))
    check_choice(_NAME, "rank", rank, ("hard", "soft"))
    if not temperature > 0:
        raise InputError(f"{_NAME}: `temperature` must be positive, got {temperature!r}.")
    if not 0 <= label_smoothing <= 1:
        raise InputError(f"{_NAME}: `label_smoothing` must lie in [0, 1], got {label_smoothing!r}.")
    if criterion is not None and label_smoothing:
        raise InputError(
            f"{_NAME}: `label_smoothing` belongs to the cross-entropy; put it into your `criterion`."
        )


def check_arrays(logits: Array, target: Array, ignore_index: int) -> None:
    """Logits (..., C) and integer targets (...)."""
    if not jnp.issubdtype(logits.dtype, jnp.floating):
        raise DtypeError(f"{_NAME}: `logits` must be floating point, got {logits.dtype}.")
    if not jnp.issubdtype(target.dtype, jnp.integer):
        raise DtypeError(
            f"{_NAME}: `target` must hold class numbers, got {target.dtype}. Use `.astype(int)`."
        )
    if logits.ndim < 2 or logits.shape[-1] < 2 or logits.shape[:-1] != target.shape:
        raise ShapeError(
            f"{_NAME}: `logits` must have shape (..., C) with C >= 2 and `target` (...), got {logits.shape} and "
            f"{target.shape}. Classes are the last axis; a single sample needs `logits[None]`."
        )
    if target.size == 0:
        raise InputError(f"{_NAME}: needs at least one sample, got shape {logits.shape}. Skip empty batches.")
    if is_concrete(target) and is_concrete(logits):
        _check_values(logits, target, ignore_index)


def _check_values(logits: Array, target: Array, ignore_index: int) -> None:
    classes = logits.shape[-1]
    wrong = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if bool(jnp.any(wrong)):
        raise InputError(
            f"{_NAME}: `target` must lie in 0 ... {classes - 1} (or be ignore_index={ignore_index}), got "
            f"{int(target[wrong][0])}. Classes count from 0; mark positions to leave out with `ignore_index`."
        )
    if bool(jnp.any(jnp.isnan(logits) | (logits == jnp.inf))):
        raise InputError(
            f"{_NAME}: `logits` must be finite (-inf may mask a class), got NaN or +inf. "
            f"Training has diverged: lower the learning rate or clip gradients."
        )


def check_per_sample(argument: str, values: Array, like: Array) -> None:
    """One number per sample from a function of the user's."""
    if values.shape != like.shape:
        raise ShapeError(
            f"{_NAME}: `{argument}` must return one number per sample, shape {like.shape}, got {values.shape}."
        )
