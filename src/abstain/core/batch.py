"""AURC of one batch as a training loss: the checks and the confidences that torch and JAX share."""

from __future__ import annotations

from typing import Any

from abstain._arrays import Array, Namespace
from abstain._check import check_choice, check_fraction
from abstain.core import simplex
from abstain.core.area_estimators import ESTIMATORS
from abstain.errors import InputError, ShapeError

NAME = "aurc_loss"
SOFTMAX_SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "negative_gini")


def check_options(
    estimator: str,
    reduction: str,
    rank: str,
    temperature: float,
    label_smoothing: float,
    criterion: Any,
    mix: Any = 0.0,
) -> None:
    """Words and numbers, before any array is looked at."""
    check_choice(NAME, "estimator", estimator, ESTIMATORS)
    check_choice(NAME, "reduction", reduction, ("mean", "sum", "none"))
    check_choice(NAME, "rank", rank, ("hard", "soft"))
    if not temperature > 0:
        raise InputError(f"{NAME}: `temperature` must be positive, got {temperature!r}.")
    check_fraction(NAME, "label_smoothing", label_smoothing, open_low=False)
    if isinstance(mix, (int, float)):  # not a tensor, which a look at would wait for
        check_fraction(NAME, "mix", mix, open_low=False)
    if criterion is not None and label_smoothing:
        raise InputError(
            f"{NAME}: `label_smoothing` belongs to the cross-entropy; put it into your `criterion`."
        )


def check_labels(labels: Array, classes: int, ignore_index: int) -> None:
    """Class numbers of a concrete array."""
    wrong = ((labels < 0) | (labels >= classes)) & (labels != ignore_index)
    if bool(wrong.any()):
        raise InputError(
            f"{NAME}: `labels` must lie in 0 ... {classes - 1} (or be ignore_index={ignore_index}), got "
            f"{int(labels[wrong][0])}. Classes count from 0; mark positions to leave out with `ignore_index`."
        )


def check_finite(xp: Namespace, logits: Array, remedy: str) -> None:
    """No NaN and no +inf among concrete logits (N, ...); -inf may mask a class."""
    wrong = xp.isnan(logits) | (logits == float("inf"))
    if bool(wrong.any()):
        rows = xp.astype(wrong.reshape(len(logits), -1), xp.int32).sum(-1)
        raise InputError(
            f"{NAME}: `logits` must be finite (-inf may mask a class), got NaN or +inf, first in sample "
            f"{int(xp.argmax(xp.astype(rows > 0, xp.int32)))} ({int(rows.sum())} such values). "
            f"Training has diverged: lower the learning rate, {remedy}."
        )


def check_returned(argument: str, rule: str, values: Array, shape: Any, remedy: str = "") -> None:
    """What a function of the user's gave."""
    if tuple(values.shape) != tuple(shape):
        raise ShapeError(
            f"{NAME}: `{argument}` must return {rule}, shape {tuple(shape)}, got {tuple(values.shape)}.{remedy}"
        )


def softmax_key(xp: Namespace, rows: Array, score: str) -> Array:
    """A softmax score of wide logits, without the checks of `abstain.scores`: these would make a GPU wait.

    A row in which one class alone is possible (the others -inf) is infinitely sure, and the difference of two
    infinities has neither a value nor a gradient; a huge constant ranks the same.
    """
    alone = xp.sum(xp.astype(rows > -float("inf"), xp.int32), axis=-1) == 1
    odds = simplex.odds_of(xp, xp.where(alone[..., None], xp.zeros_like(rows), rows))
    key = simplex.NUMBERS[score].value(odds)
    return xp.where(alone, xp.full_like(key, xp.finfo(key.dtype).max / 4), key)
