"""AURC of one batch as a training loss: the checks and the confidences that torch and JAX share."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    """Raise InputError unless the options of the training loss `aurc_loss` are valid; reads no array.

    `estimator` names the rank weights, such as "harmonic". `reduction` says how the losses of the samples become the
    result. With `rank="soft"` ranks are smooth functions of the confidences, and `temperature` is the width of the
    smoothing, in units of the confidence. `criterion` is the user's own loss per sample, or None for the cross-entropy.
    `label_smoothing` is the share of the target spread evenly over all classes. `mix`, from 0 to 1, is the share of the
    plain mean loss in the result; it is only checked if it is a number of Python or a text (which is refused): reading
    a tensor would make the host wait for the GPU.
    """
    check_choice(NAME, "estimator", estimator, ESTIMATORS)
    check_choice(NAME, "reduction", reduction, ("mean", "sum", "none"))
    check_choice(NAME, "rank", rank, ("hard", "soft"))
    if not temperature > 0:
        raise InputError(f"{NAME}: `temperature` must be positive, got {temperature!r}.")
    check_fraction(NAME, "label_smoothing", label_smoothing, open_low=False)  # InputError outside of [0, 1]
    if callable(mix):
        raise InputError(
            f"{NAME}: `mix` must be a number or a tensor of one; a schedule belongs to a loss object that counts its "
            f"steps: `AURCLoss(mix=...)`."
        )
    if isinstance(mix, (int, float, str, np.generic)):  # a schedule's tensor is not read here
        check_fraction(NAME, "mix", mix, open_low=False)
    if criterion is not None and label_smoothing:
        raise InputError(
            f"{NAME}: `label_smoothing` belongs to the cross-entropy; put it into your `criterion`."
        )


def check_labels(labels: Array, classes: int, ignore_index: int) -> None:
    """Raise InputError unless all labels are class numbers 0 ... classes - 1 or `ignore_index`.

    `labels` must be a concrete array, not a tracer.
    """
    is_invalid = ((labels < 0) | (labels >= classes)) & (labels != ignore_index)
    if bool(is_invalid.any()):
        raise InputError(
            f"{NAME}: `labels` must lie in 0 ... {classes - 1} (or be ignore_index={ignore_index}), got "
            f"{int(labels[is_invalid][0])}. Classes count from 0; mark positions to leave out with `ignore_index`."
        )


def check_finite(xp: Namespace, logits: Array, remedy: str) -> None:
    """Raise InputError if logits (N, ...) contain NaN or +inf; -inf may mask a class.

    `logits` must be a concrete array, not a tracer; its first axis is that of the N samples, counted from 0 in the
    message. `remedy` ends the message, after "lower the learning rate".
    """
    is_invalid = xp.isnan(logits) | (logits == float("inf"))
    if bool(is_invalid.any()):
        invalid_per_sample = xp.astype(is_invalid.reshape(len(logits), -1), xp.int32).sum(-1)
        first_sample = int(xp.argmax(xp.astype(invalid_per_sample > 0, xp.int32)))  # argmax finds the first 1
        raise InputError(
            f"{NAME}: `logits` must be finite (-inf may mask a class), got NaN or +inf, first in sample "
            f"{first_sample} ({int(invalid_per_sample.sum())} such values). "
            f"An input is NaN or infinite, or training has diverged: then lower the learning rate, {remedy}."
        )


def check_returned(argument: str, rule: str, values: Array, shape: Any, remedy: str = "") -> None:
    """Raise ShapeError if what a function of the user returned does not have the shape `shape`.

    `argument` names the function and `rule` says in words what it must return.
    """
    if tuple(values.shape) != tuple(shape):
        raise ShapeError(
            f"{NAME}: `{argument}` must return {rule}, shape {tuple(shape)}, got {tuple(values.shape)}.{remedy}"
        )


def softmax_key(xp: Namespace, logits: Array, score: str) -> Array:
    """Compute one of `SOFTMAX_SCORES` (its rank key) of logits (..., K) in the library's widest float.

    Nothing is checked: checks would make the host wait for a GPU. A sample with only one possible class (the others
    -inf) is infinitely confident, and a difference of two infinities has neither a value nor a gradient. It gets a huge
    constant instead, which ranks the same.
    """
    has_one_class = xp.sum(xp.astype(logits > -float("inf"), xp.int32), axis=-1) == 1
    odds = simplex.odds_of(xp, xp.where(has_one_class[..., None], xp.zeros_like(logits), logits))
    key = simplex.NUMBERS[score].value(odds)
    return xp.where(has_one_class, xp.full_like(key, xp.finfo(key.dtype).max / 4), key)
