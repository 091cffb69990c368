"""Boundary checks: each rule once, each message `function: argument rule, got value. Remedy.`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from abstain._arrays import Array, Road, bring, extremes, is_concrete
from abstain.errors import DtypeError, InputError, ShapeError

_SIGN = "Confidence means higher = surer; negate an uncertainty first."
_REDUCE = (
    "Reduce class scores to one confidence per sample first, e.g. `abstain.scores.max_softmax(logits)`, "
    "and use the last axis for samples."
)


def check_choice(name: str, argument: str, value: Any, choices: Sequence[str]) -> None:
    """One of a few words."""
    if value not in choices:
        listed = ", ".join(f'"{c}"' for c in choices)
        raise InputError(f"{name}: `{argument}` must be one of {listed}, got {value!r}.")


def check_fraction(
    name: str, argument: str, value: Any, *, open_low: bool = True, open_high: bool = False
) -> float:
    """A number between 0 and 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name}: `{argument}` must be a number between 0 and 1, got {value!r}.") from None
    low_ok = number > 0 if open_low else number >= 0
    high_ok = number < 1 if open_high else number <= 1
    if not (low_ok and high_ok):
        span = f"{'(' if open_low else '['}0, 1{')' if open_high else ']'}"
        hint = " Give it as a fraction, not in percent." if 1 < number <= 100 else ""
        raise InputError(f"{name}: `{argument}` must lie in {span}, got {number:g}.{hint}")
    return number


def check_nonnegative(name: str, argument: str, value: Any) -> float:
    """A finite number, at least 0."""
    number = float(value)
    if not (np.isfinite(number) and number >= 0):
        raise InputError(f"{name}: `{argument}` must be a finite number, at least 0, got {number:g}.")
    return number


def as_real(name: str, argument: str, road: Road, x: Array, like: Array = None) -> Array:
    """`x` on the road as an array of real numbers; on the host as bool, float32 or float64 (or whole numbers)."""
    array = bring(road, x, like)
    if road.host:
        if array.dtype.kind not in "biuf":
            raise DtypeError(
                f"{name}: `{argument}` must hold real numbers, got dtype {array.dtype}. "
                f"Ragged lists and strings end up as objects; pass one number per sample."
            )
        if array.dtype == np.float16:
            return array.astype(np.float32)
        return array.astype(np.float64) if array.dtype.itemsize > 8 else array
    if not road.xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
        raise DtypeError(f"{name}: `{argument}` must hold real numbers, got dtype {array.dtype}.")
    return array


def check_finite(name: str, argument: str, road: Road, x: Array, remedy: str) -> None:
    """No NaN, no infinity; says where the first one is."""
    xp = road.xp
    if road.host:
        if x.dtype.kind != "f" or bool(np.isfinite(x.min()) and np.isfinite(x.max())):
            return
        bad = np.flatnonzero(~np.isfinite(x.reshape(-1)))
        at = np.unravel_index(bad[0], x.shape)
        where = int(at[0]) if x.ndim == 1 else tuple(int(i) for i in at)
        raise InputError(
            f"{name}: `{argument}` must be finite, got {x[at]} at index {where} "
            f"({len(bad)} such value{'s' if len(bad) > 1 else ''}). {remedy}"
        )
    if not (xp.isdtype(x.dtype, "real floating") and is_concrete(x)):
        return
    least, most = extremes(xp, x)  # both pass NaN on, and nothing is written
    if not bool(xp.isfinite(least) & xp.isfinite(most)):
        raise InputError(f"{name}: `{argument}` must be finite, got NaN or infinity. {remedy}")


def check_pair(name: str, road: Road, loss: Array, confidence: Array) -> tuple[Array, Array]:
    """A loss and a confidence for each sample, along the last axis."""
    if hasattr(loss, "columns") or hasattr(confidence, "columns"):
        raise ShapeError(
            f"{name}: `loss` and `confidence` must be vectors, got a data frame. "
            f"Pass one of its columns, e.g. frame['loss']."
        )
    like = confidence if loss is None or isinstance(loss, (np.ndarray, list, tuple)) else loss
    loss = as_real(name, "loss", road, loss, like)
    confidence = as_real(name, "confidence", road, confidence, like)
    if loss.ndim == 0 or tuple(loss.shape) != tuple(confidence.shape):
        raise ShapeError(
            f"{name}: `loss` and `confidence` must be vectors of one length (or batches of one shape), "
            f"got shapes {tuple(loss.shape)} and {tuple(confidence.shape)}. {_REDUCE}"
        )
    if 0 in tuple(loss.shape):
        raise InputError(f"{name}: needs at least one sample, got shape {tuple(loss.shape)}.")
    check_finite(
        name, "confidence", road, confidence, f"A sample without a confidence cannot be ranked. {_SIGN}"
    )
    check_finite(name, "loss", road, loss, "Drop the sample or mark it with `abstained=`.")
    if road.host and confidence.dtype.kind in "iu" and _beyond_floats(confidence):
        raise InputError(
            f"{name}: `confidence` must not exceed 2^53 in whole numbers, got {_largest(confidence)}: as floats, by "
            f"which samples are ranked, neighbours would tie. Subtract a common offset, or pass their ranks."
        )
    return loss, confidence


def _largest(whole: np.ndarray) -> int:
    return max(int(whole.max()), -int(whole.min()))


def _beyond_floats(whole: np.ndarray) -> bool:
    return whole.dtype.itemsize == 8 and _largest(whole) > 1 << 53


def check_weight(name: str, road: Road, weight: Array, like: Array, whole: str = "") -> Array:
    """Non-negative sample weights with some mass; whole numbers if `whole` says who needs that."""
    weight = as_real(name, "sample_weight", road, weight, like)
    if tuple(weight.shape) != tuple(like.shape):
        raise ShapeError(
            f"{name}: `sample_weight` must have the shape of `loss`, got {tuple(weight.shape)} "
            f"and {tuple(like.shape)}."
        )
    check_finite(name, "sample_weight", road, weight, "")
    if not is_concrete(weight):
        return weight
    xp = road.xp
    if bool(xp.any(weight < 0)):
        raise InputError(f"{name}: `sample_weight` must not be negative, got {float(xp.min(weight)):g}.")
    if bool(xp.any(~xp.any(weight > 0, axis=-1))):
        raise InputError(f"{name}: `sample_weight` must have some mass, got all zeros.")
    if whole and xp.isdtype(weight.dtype, "real floating") and bool(xp.any(xp.floor(weight) != weight)):
        raise InputError(
            f"{name}: {whole} takes whole-number weights only (a weight means a repetition). "
            f'Use estimator="harmonic" with ties="threshold" for fractional weights.'
        )
    return weight


def check_mask(name: str, argument: str, road: Road, mask: Array, like: Array) -> Array:
    """A boolean for each sample."""
    mask = bring(road, mask, like)
    if tuple(mask.shape) != tuple(like.shape):
        raise ShapeError(
            f"{name}: `{argument}` must have the shape of `loss`, got {tuple(mask.shape)} and {tuple(like.shape)}."
        )
    if road.host:
        if mask.dtype.kind in "iu" and bool(np.all((mask == 0) | (mask == 1))):
            mask = mask.astype(bool)
        if mask.dtype != bool:
            raise DtypeError(f"{name}: `{argument}` must be boolean, got dtype {mask.dtype}.")
    return mask
