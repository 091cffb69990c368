"""Boundary checks: each rule once, each message `function: argument rule, got value. Remedy.`"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import (
    Array,
    Backend,
    backend_of,
    extremes,
    float_dtype,
    is_array,
    is_concrete,
    is_jax,
    to_host,
)
from abstain.errors import DtypeError, InputError, ShapeError

_SIGN = "Confidence means higher = surer; negate an uncertainty first."
_REDUCE = (
    "Reduce class scores to one confidence per sample first, e.g. `abstain.scores.max_softmax(logits)`, "
    "and use the last axis for samples."
)


def check_choice(
    function: str,
    argument: str,
    value: Any,
    choices: Sequence[str],
    aliases: Mapping[str, str] | None = None,
) -> None:
    """Raise InputError, with a suggestion, unless `value` is one of `choices`.

    `aliases` maps other names of a choice, e.g. `{"msp": "max_softmax"}`. An alias is not accepted as a value; the
    message suggests the choice that it stands for.
    """
    if value in choices:
        return
    listed = ", ".join(f'"{choice}"' for choice in choices)
    message = f"{function}: `{argument}` must be one of {listed}, got {value!r}."
    suggestion = suggest_name(value, choices, aliases)
    raise InputError(f"{message} {suggestion}" if suggestion else message)


def suggest_name(name: Any, choices: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """Return a sentence such as `Did you mean "aurc"?`, or an empty string when no choice is similar to `name`.

    Capitals, spaces, hyphens and underscores are ignored. `aliases` maps other names to choices.

    >>> suggest_name("E-AURC", ["aurc", "e_aurc"])
    'Did you mean "e_aurc"?'
    >>> suggest_name("msp", ["max_softmax", "margin"], {"msp": "max_softmax"})
    'Did you mean "max_softmax"?'
    """
    if not isinstance(name, str):
        return ""
    choice_by_spelling = {_fold_spelling(alias): choice for alias, choice in (aliases or {}).items()}
    choice_by_spelling.update((_fold_spelling(choice), choice) for choice in choices)

    import difflib  # only needed for a wrong name

    similar = difflib.get_close_matches(_fold_spelling(name), choice_by_spelling, n=1)
    return f'Did you mean "{choice_by_spelling[similar[0]]}"?' if similar else ""


def _fold_spelling(name: str) -> str:
    """Lower-case a name and drop the characters that separate its words."""
    return name.casefold().translate({ord(separator): None for separator in " -_."})


def _number(name: str, argument: str, value: Any, rule: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name}: `{argument}` must be {rule}, got {value!r}.") from None


def check_fraction(
    name: str, argument: str, value: Any, *, open_low: bool = True, open_high: bool = False
) -> float:
    """A number between 0 and 1."""
    number = _number(name, argument, value, "a number between 0 and 1")
    low_ok = number > 0 if open_low else number >= 0
    high_ok = number < 1 if open_high else number <= 1
    if not (low_ok and high_ok):
        span = f"{'(' if open_low else '['}0, 1{')' if open_high else ']'}"
        hint = " Give it as a fraction, not in percent." if 1 < number <= 100 else ""
        raise InputError(f"{name}: `{argument}` must lie in {span}, got {number:g}.{hint}")
    return number


def check_nonnegative(name: str, argument: str, value: Any) -> float:
    """A finite number, at least 0."""
    number = _number(name, argument, value, "a finite number, at least 0")
    if not (np.isfinite(number) and number >= 0):
        raise InputError(f"{name}: `{argument}` must be a finite number, at least 0, got {number:g}.")
    return number


def check_count(name: str, argument: str, value: Any) -> int:
    """A whole number, at least 1."""
    number = _number(name, argument, value, "a whole number, at least 1")
    if not (number.is_integer() and number >= 1):
        raise InputError(f"{name}: `{argument}` must be a whole number, at least 1, got {value!r}.")
    return int(number)


def check_risk(name: str, value: Any, low: float = 0.0, high: float = 1.0) -> float:
    """A mean of losses that lie between these bounds."""
    number = _number(name, "risk", value, "a number")
    if not low <= number <= high:
        percent = (low, high) == (0, 1) and 1 < number <= 100
        hint = f" Write {number / 100:g} for {number:g}%." if percent else ""
        bounds = f"[{low:g}, {high:g}], the bounds of the loss"
        raise InputError(f"{name}: `risk` must lie in {bounds}, got {number:g}.{hint}")
    return number


def as_real(name: str, argument: str, backend: Backend, x: Array, like: Array = None) -> Array:
    """`x` as an array of real numbers; on the host as bool, float32 or float64 (or whole numbers)."""
    array = backend.asarray(x, like)
    if backend.host:
        if array.dtype.kind not in "biuf":
            raise DtypeError(
                f"{name}: `{argument}` must hold real numbers, got dtype {array.dtype}. "
                f"Ragged lists and strings end up as objects; pass one number per sample."
            )
        if array.dtype == np.float16:
            return array.astype(np.float32)
        return array.astype(np.float64) if array.dtype.itemsize > 8 else array
    if not backend.xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
        raise DtypeError(f"{name}: `{argument}` must hold real numbers, got dtype {array.dtype}.")
    return array


def check_finite(name: str, argument: str, backend: Backend, x: Array, remedy: str) -> None:
    """No NaN, no infinity; says where the first one is."""
    xp = backend.xp
    if not backend.host:
        if not (xp.isdtype(x.dtype, "real floating") and is_concrete(x)):
            return
        least, most = extremes(xp, x)  # both pass NaN on, and nothing is written
        if not bool(xp.isfinite(least) & xp.isfinite(most)):
            raise InputError(f"{name}: `{argument}` must be finite, got NaN or infinity. {remedy}")
        return
    if x.dtype.kind != "f" or bool(np.isfinite(x.min()) and np.isfinite(x.max())):
        return
    bad = np.argwhere(~np.isfinite(x))
    at = tuple(bad[0].tolist())
    where, several = at[0] if x.ndim == 1 else at, "s" if len(bad) > 1 else ""
    raise InputError(
        f"{name}: `{argument}` must be finite, got {x[at]} at index {where} ({len(bad)} such value{several}). {remedy}"
    )


def check_pair(name: str, backend: Backend, loss: Array, confidence: Array) -> tuple[Array, Array]:
    """A loss and a confidence for each sample, along the last axis."""
    if hasattr(loss, "columns") or hasattr(confidence, "columns"):
        raise ShapeError(
            f"{name}: `loss` and `confidence` must be vectors, got a data frame. "
            f"Pass one of its columns, e.g. frame['loss']."
        )
    like = confidence if loss is None or isinstance(loss, (np.ndarray, list, tuple)) else loss
    loss = as_real(name, "loss", backend, loss, like)
    confidence = as_real(name, "confidence", backend, confidence, like)
    if loss.ndim == 0 or tuple(loss.shape) != tuple(confidence.shape):
        raise ShapeError(
            f"{name}: `loss` and `confidence` must be vectors of one length (or batches of one shape), "
            f"got shapes {tuple(loss.shape)} and {tuple(confidence.shape)}. {_REDUCE}"
        )
    if 0 in tuple(loss.shape):
        raise InputError(f"{name}: needs at least one sample, got shape {tuple(loss.shape)}.")
    check_finite(
        name, "confidence", backend, confidence, f"A sample without a confidence cannot be ranked. {_SIGN}"
    )
    check_finite(name, "loss", backend, loss, "Drop the sample or mark it with `abstained=`.")
    if backend.host and confidence.dtype.kind in "iu" and confidence.dtype.itemsize == 8:
        largest = max(int(confidence.max()), -int(confidence.min()))
        if largest > 1 << 53:
            raise InputError(
                f"{name}: `confidence` must not exceed 2^53 in whole numbers, got {largest}: as floats, by which "
                f"samples are ranked, neighbours would tie. Subtract a common offset, or pass their ranks."
            )
    return loss, confidence


def check_weight(
    name: str, backend: Backend, weight: Array, like: Array, whole: str = "", repetitions: bool = False
) -> Array:
    """Non-negative sample weights with some mass, divided by their unit unless they are repetitions.

    `whole` names the option that needs repetitions, if any does.
    """
    weight = as_real(name, "sample_weight", backend, weight, like)
    _check_like_loss(name, "sample_weight", weight, like)
    check_finite(name, "sample_weight", backend, weight, "")
    xp = backend.xp
    if not is_concrete(weight):
        return weight if repetitions else _in_units(backend, weight)
    if bool(xp.any(weight < 0)):
        raise InputError(f"{name}: `sample_weight` must not be negative, got {float(xp.min(weight)):g}.")
    if bool(xp.any(~xp.any(weight > 0, axis=-1))):
        raise InputError(f"{name}: `sample_weight` must have some mass, got all zeros.")
    if repetitions:
        check_repetitions(name, "sample_weight", _smallest_fraction(backend, weight))
        return weight
    weight = _in_units(backend, weight)
    if whole and _smallest_fraction(backend, weight) is not None:
        raise repetitions_error(name, whole)
    return weight


def repetitions_error(name: str, option: str) -> InputError:
    """The error for an option that counts neighbours, with weights that are not said to be repetitions."""
    return InputError(
        f"{name}: {option} counts neighbours, so it needs weights that are repetitions, got relative ones. "
        f'Pass `repetitions=True` if a weight is a number of repetitions, or use estimator="harmonic" with '
        f'ties="threshold".'
    )


def check_repetitions(name: str, argument: str, fraction: float | None) -> None:
    """Refuse repetitions that are not whole numbers; `fraction` is one of them."""
    if fraction is not None:
        raise InputError(
            f"{name}: `{argument}` must hold whole numbers with repetitions=True, got {fraction:g}. "
            f"Leave `repetitions` out for relative weights."
        )


def _smallest_fraction(backend: Backend, weight: Array) -> float | None:
    """The smallest weight that is not a whole number, if there is one."""
    xp = backend.xp
    if not xp.isdtype(weight.dtype, "real floating"):
        return None
    fractional = xp.floor(weight) != weight
    return float(xp.min(weight[fractional])) if bool(xp.any(fractional)) else None


def weight_unit(least: np.ndarray | float, largest: np.ndarray | float) -> np.ndarray:
    """What to divide relative weights by, from the least positive and the largest: their scale has no meaning.

    Weights that are all equal become 1, as if there were none. Others are divided by the power of two that brings
    the largest into [1, 2), which rounds nothing: then some weight is a fraction, so relative weights never pass for
    repetitions, and their squares and fourth powers neither overflow nor vanish.
    """
    least, largest = np.asarray(least, dtype=np.float64), np.asarray(largest, dtype=np.float64)
    return np.where(least == largest, largest, np.exp2(np.floor(np.log2(largest))))


def _in_units(backend: Backend, weight: Array) -> Array:
    """Relative weights over their unit, for each line of a batch."""
    xp = backend.xp
    if backend.host:
        weight = weight.astype(np.float64, copy=False)
        least = np.min(weight, axis=-1, keepdims=True, initial=np.inf, where=weight > 0)
        unit = weight_unit(least, np.max(weight, axis=-1, keepdims=True))
        return weight if bool(np.all(unit == 1)) else weight / unit
    weight = xp.astype(weight, float_dtype(xp))
    largest = xp.max(weight, axis=-1, keepdims=True)
    return weight / xp.where(largest > 0, largest, xp.ones_like(largest))


def _check_like_loss(name: str, argument: str, x: Array, loss: Array) -> None:
    shape, expected = tuple(x.shape), tuple(loss.shape)
    if shape != expected:
        raise ShapeError(f"{name}: `{argument}` must have the shape of `loss`, got {shape} and {expected}.")


def check_mask(name: str, argument: str, backend: Backend, mask: Array, like: Array) -> Array:
    """A boolean for each sample."""
    mask = backend.asarray(mask, like)
    _check_like_loss(name, argument, mask, like)
    if backend.host:
        if mask.dtype.kind in "iu" and bool(np.all((mask == 0) | (mask == 1))):
            mask = mask.astype(bool)
        if mask.dtype != bool:
            raise DtypeError(f"{name}: `{argument}` must be boolean, got dtype {mask.dtype}.")
    return mask


# Class scores (logits or probabilities along the last axis) and class labels -----------------------

# entries handled at a time on the host: temporaries stay in cache and off fresh memory pages
_CHUNK = 1 << 14
# how far a row may be from summing to one
_SUM_TOLERANCE = {"float16": 2e-2, "bfloat16": 2e-2, "float32": 1e-4}
_WIDE_TOLERANCE = 1e-5  # float64 columns often hold numbers that were float32 once


class Classes(NamedTuple):
    """Checked class scores, stated to be "logits" or "probs"; of an ensemble with its members along the first axis."""

    backend: Backend
    values: Array
    kind: str
    members: bool = False

    def map_rows(self, work: Callable[[Any, Array], Array]) -> Array:
        """Apply `work(xp, wide rows)`, one result for each row (of all members); on the host a piece of them at a time.

        Every row is worked on alone and in one memory layout, so its result does not depend on where it
        stands.
        """
        members = self.values.shape[:1] if self.members else ()
        with np.errstate(all="ignore"):  # infinities are meant: they become the ends of the scale
            if not self.backend.host:
                xp = self.backend.xp
                return work(xp, xp.astype(self.values, float_dtype(xp)))
            flat = self.values.reshape(*members, -1, self.values.shape[-1])
            step = max(1, _CHUNK // (flat.shape[-1] * math.prod(members)))
            pieces = [
                work(np, np.array(flat[..., a : a + step, :], dtype=np.float64, order="C"))
                for a in range(0, flat.shape[-2], step)
            ]
        whole = np.concatenate(pieces)
        return whole.reshape(self.values.shape[len(members) : -1] + whole.shape[1:])

    def deliver(self, value: Array) -> Any:
        """A result, where the input lives; finite also in a library of narrow floats."""
        if self.backend.host and self.is_float32_only and value.dtype == np.float64:
            most = np.finfo(np.float32).max
            value = np.clip(value, -most, most)
        return self.backend.deliver(value)

    @property
    def is_float32_only(self) -> bool:
        """Does the input's library hold float32 only (jax unless told otherwise)?"""
        jax = sys.modules.get("jax")
        return jax is not None and not jax.config.jax_enable_x64 and is_jax(self.backend.deliver(np.zeros(1)))


def check_classes(
    name: str,
    logits: Array | None,
    probs: Array | None,
    *,
    takes: tuple[str, ...] = ("logits", "probs"),
    masked: bool = True,
    members: bool = False,
    like: Array | None = None,
) -> Classes:
    """One of logits and probabilities, as the caller stated it; `masked`: may logits be -inf?

    The outputs of a binary model may come as one number per sample (a vector, or a last axis of length 1): log-odds
    or probabilities of class 1. Logits that are unmistakably probabilities are refused.
    """
    kind = _stated(name, logits, probs, takes)
    outputs = logits if kind == "logits" else probs
    backend = backend_of(outputs, like)
    values = as_real(name, kind, backend, outputs, like)
    # two axes of an ensemble may be one model's samples and classes: its binary members need a last axis of length 1
    if values.ndim < (3 if members else 1) or 0 in tuple(values.shape):
        layout = "(members, samples, classes)" if members else "(samples, classes)"
        raise ShapeError(
            f"{name}: `{kind}` must have shape {layout} with at least one sample, got shape {tuple(values.shape)}. "
            f"A binary model may give one column: that of class 1."
        )
    # looking at values is no part of a gradient
    readable = is_concrete(values)
    seen = values.detach() if readable and hasattr(values, "detach") else values
    if values.ndim == 1 or values.shape[-1] == 1:
        if readable:
            _check_binary(name, kind, backend, seen, one_sample=like is None and values.ndim == 1)
        return Classes(backend, _binary_columns(backend, values, kind), kind, members)
    if readable and kind == "logits":
        low, high = _check_logits(name, backend, seen, masked)
        if low >= 0 and high <= 1:
            _refuse_probabilities(name, backend, seen, outputs)
    elif readable:
        _check_probs(name, backend, seen, outputs)
    return Classes(backend, values, kind, members)


def _binary_columns(backend: Backend, values: Array, kind: str) -> Array:
    """Two columns from one number per sample: 1 - p and p, or the logits -d/2 and d/2 of log-odds d.

    Half of the log-odds on either side treats both classes alike, so that the largest logit is a confidence too.
    """
    xp = backend.xp
    if values.ndim > 1:
        values = values[..., 0]
    values = xp.astype(values, float_dtype(xp))  # in float32 1 - p would be rounded
    if kind == "probs":
        return xp.stack([1 - values, values], axis=-1)
    return xp.stack([-values / 2, values / 2], axis=-1)


_PROBS_FOR_LOG_ODDS = 8  # samples from which log-odds that all lie in [0, 1] are taken for probabilities


def _check_binary(name: str, kind: str, backend: Backend, x: Array, one_sample: bool) -> None:
    """Log-odds or probabilities of class 1, one per sample; `one_sample`: might a vector be the classes of one?"""
    xp = backend.xp
    if kind == "logits":
        check_finite(name, "logits", backend, x, "One number per sample is the log-odds of class 1.")
        count = math.prod(tuple(x.shape))
        if count >= _PROBS_FOR_LOG_ODDS and float(xp.min(x)) >= 0 and float(xp.max(x)) <= 1:
            raise InputError(
                f"{name}: `logits` of one number per sample must be log-odds of class 1, got {count} values that all "
                f"lie in [0, 1]. Pass probabilities of class 1 as `probs=`, and log-odds d such as these as two "
                f"columns, -d/2 and d/2."
            )
        return
    outside = ~((x >= 0) & (x <= 1))
    if bool(xp.any(outside)):
        at = _first(xp, outside)
        raise InputError(
            f"{name}: `probs` of one number per sample must be probabilities of class 1 in [0, 1], got "
            f"{float(x[at]):g} at index {at[0] if len(at) == 1 else at}. Pass decision values (log-odds) as the first "
            f"argument instead of `probs=`."
        )
    total = float(xp.sum(xp.astype(x, float_dtype(xp))))
    if one_sample and x.shape[0] > 1 and abs(total - 1) <= _WIDE_TOLERANCE:
        raise ShapeError(
            f"{name}: `probs` of shape {tuple(x.shape)} must be probabilities of class 1, one per sample, got a vector "
            f"that sums to one. Pass one sample of {x.shape[0]} classes with shape (1, {x.shape[0]})."
        )


def _refuse_probabilities(name: str, backend: Backend, x: Array, outputs: Array) -> None:
    """Refuse "logits" that are unmistakably probabilities; they lie in [0, 1]."""
    if rows_sum_to_one(backend.xp, x, sum_tolerance(outputs)):
        raise InputError(
            f"{name}: `logits` must be scores before the softmax, got rows in [0, 1] that sum to one. Pass "
            f"probabilities as `probs=`; if these are logits, add 1 to all of them, which changes no probability."
        )


def rows_sum_to_one(xp: Any, rows: Array, tolerance: float) -> bool:
    """Do rows of numbers in [0, 1] all sum to one, as those of a softmax do and those of logits do not?

    One row can by chance, if it is of float16 or bfloat16 numbers or of zeros and a one (quantised logits), so two are
    needed there.
    """
    may_be_chance = tolerance > _SUM_TOLERANCE["float32"] or bool(xp.all((rows == 0) | (rows == 1)))
    if may_be_chance and math.prod(tuple(rows.shape)[:-1]) < 2:
        return False
    total = xp.sum(xp.astype(rows, float_dtype(xp)), axis=-1)
    return float(xp.max(xp.abs(total - 1))) <= tolerance


def _stated(name: str, logits: Array | None, probs: Array | None, takes: tuple[str, ...]) -> str:
    if (logits is None) == (probs is None):
        both = "both" if probs is not None else "neither"
        ways = "logits (first argument)" + (" or `probs=`" if "probs" in takes else "")
        raise InputError(f"{name}: takes {ways}, one of them, got {both}.")
    if probs is not None and "probs" not in takes:
        raise DtypeError(
            f"{name}: needs logits, got `probs=`. The softmax has removed the offset that this score "
            f"reads; pass the logits, or rank by `abstain.scores.max_softmax(probs=probs)`."
        )
    return "logits" if probs is None else "probs"


def _first(xp: Any, bad: Array) -> tuple[int, ...]:
    """Where the first True stands."""
    at = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int32)))
    return tuple(int(i) for i in np.unravel_index(at, tuple(bad.shape)))


def _check_logits(name: str, backend: Backend, x: Array, masked: bool) -> tuple[float, float]:
    """No NaN, no +inf, and -inf only where `masked`; returns the smallest and the largest."""
    xp = backend.xp
    if xp.isdtype(x.dtype, "bool"):
        return 0.0, 1.0
    low, high = float(xp.min(x)), float(xp.max(x))  # NaN comes through either
    if np.isfinite(low) and np.isfinite(high):
        return low, high
    wrong = xp.isnan(x) | (x == float("inf"))
    if bool(xp.any(wrong)) or not masked:
        at = _first(xp, wrong if bool(xp.any(wrong)) else ~xp.isfinite(x))
        marks = "-inf may mark a class that cannot occur; NaN and +inf may not"
        allowed = marks if masked else "this score needs finite ones"
        raise InputError(f"{name}: `logits` must be finite, got {float(x[at])} at index {at}; {allowed}.")
    empty = xp.max(x, axis=-1) == -float("inf")
    if bool(xp.any(empty)):
        raise InputError(
            f"{name}: `logits` must leave a possible class, got -inf for all at index {_first(xp, empty)}."
        )
    return low, high


def sum_tolerance(given: Array) -> float:
    """How far a row of probabilities may be from summing to one, by the digits its numbers have."""
    dtype = str(getattr(given, "dtype", "float64")).rsplit(".", 1)[-1]
    return _SUM_TOLERANCE.get(dtype, _WIDE_TOLERANCE)


def _check_probs(name: str, backend: Backend, p: Array, given: Array) -> None:
    xp = backend.xp
    hint = "If these are logits, pass them as the first argument instead of `probs=`."
    low = float(xp.min(p))
    if np.isnan(low) or low < 0:
        at = _first(xp, ~(p >= 0))
        raise InputError(
            f"{name}: `probs` must not be negative or NaN, got {float(p[at]):g} at index {at}. {hint}"
        )
    tolerance = sum_tolerance(given)
    off = xp.abs(xp.sum(xp.astype(p, float_dtype(xp)), axis=-1) - 1)
    worst = float(xp.max(off))
    if not worst <= tolerance:
        at = _first(xp, ~(off < worst))  # NaN, from an infinite entry, counts as worst
        total = float(xp.sum(xp.astype(p[at], float_dtype(xp))))
        raise InputError(
            f"{name}: `probs` must sum to one over the last axis (within {tolerance:g}), got {total:.6g} "
            f"at index {at if len(at) != 1 else at[0]}, the worst row. Divide by the sum if it was rounded. "
            f"{hint}"
        )


def check_labels(name: str, classes: Classes, labels: Array | None) -> Array:
    """Labels 0 ... K-1, one for each row; one-hot rows are read as the place of their 1."""
    backend, values = classes.backend, classes.values
    if labels is None:
        raise InputError(f"{name}: needs `labels`, one class index for each sample, got None.")
    if _holds_words(labels):
        raise DtypeError(
            f"{name}: `labels` must be class indices from 0 to {values.shape[-1] - 1}, got words. Replace each word by "
            f"the place of its column, or use `evaluate` or `compare` with `classes=`, the names in column order."
        )
    labels = as_real(name, "labels", backend, labels, values)
    xp = backend.xp
    if tuple(labels.shape) == tuple(values.shape):
        labels = _from_one_hot(name, xp, labels)
    if tuple(labels.shape) != tuple(values.shape[:-1]):
        raise ShapeError(
            f"{name}: `labels` must be one class index for each sample, shape {tuple(values.shape[:-1])}, or "
            f"one-hot rows of shape {tuple(values.shape)}, got shape {tuple(labels.shape)}."
        )
    if is_concrete(labels):
        _check_range(name, xp, labels, values.shape[-1])
    return xp.astype(labels, xp.int64) if not is_jax(labels) else xp.astype(labels, xp.int32)


def _holds_words(labels: Array) -> bool:
    """Are these labels text rather than numbers?"""
    if is_array(labels) and not isinstance(labels, np.ndarray):
        return False
    host = np.asarray(labels)
    if host.dtype.kind in "US":
        return True
    return host.dtype.kind not in "biufc" and any(isinstance(value, str) for value in host.flat)


def labels_to_indices(
    name: str, labels: Array, classes: Sequence[Any] | None, columns: Sequence[Any] | None = None
) -> Array:
    """The column of each label.

    `classes` are the class names in the order of the class numbers, `columns` the names that the columns have
    themselves, as in a data frame. Without names of columns the classes are in column order. Whether numbers mean
    places among columns named by words cannot be known, so that is refused. One-hot labels are returned as they are.
    """
    host = np.asarray(to_host(labels))
    if host.ndim != 1 or (classes is None and columns is None):
        return labels
    numbered = None if classes is None else _names_once(name, "classes", classes)
    named = numbered if columns is None else _names_once(name, "columns", columns)
    assert named is not None
    if columns is not None and numbered is not None and set(numbered) != set(named):
        raise InputError(
            f"{name}: `classes` must be the names of the columns, got {_some_names(numbered)} for columns named "
            f"{_some_names(named)}. Or pass the numbers as a plain array, with `classes` in column order."
        )
    values = host.tolist()
    if not _holds_words(host) and _holds_words(named):
        if columns is None or numbered is None:
            raise InputError(
                f"{name}: `labels` must be class names, got numbers beside classes named {_some_names(named)}. Pass "
                f"the names, or plain arrays without `classes` if label k means the k-th column."
            )
        values = [numbered[int(v)] if v in range(len(numbered)) else v for v in values]
    place = {value: k for k, value in enumerate(named)}
    indices = np.array([place.get(value, -1) for value in values], dtype=np.int64)
    if (indices < 0).any():
        at = int(np.argmin(indices))
        known = _some_names(named)
        raise InputError(
            f"{name}: `labels` must be among the classes {known}, got {values[at]!r} at index {at}."
        )
    return indices


def _names_once(name: str, argument: str, names: Sequence[Any]) -> list[Any]:
    values: list[Any] = np.asarray(to_host(names)).reshape(-1).tolist()
    if len(set(values)) < len(values):
        raise InputError(f"{name}: `{argument}` must name every class once, got {_some_names(values)}.")
    return values


def _some_names(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")


def _from_one_hot(name: str, xp: Any, labels: Array) -> Array:
    if is_concrete(labels):
        numbers = xp.astype(labels, float_dtype(xp))
        wrong = (xp.max(numbers, axis=-1) != 1) | (xp.sum(xp.astype(numbers != 0, xp.int32), axis=-1) != 1)
        if bool(xp.any(wrong)):
            raise InputError(
                f"{name}: one-hot `labels` must hold one 1 and else 0 in each row, which fails at index "
                f"{_first(xp, wrong)}. Soft labels have no single class; pass class indices."
            )
    return xp.argmax(xp.astype(labels, float_dtype(xp)), axis=-1)


def _check_range(name: str, xp: Any, labels: Array, count: int) -> None:
    if xp.isdtype(labels.dtype, "bool"):
        return
    whole = xp.floor(labels) == labels if xp.isdtype(labels.dtype, "real floating") else labels == labels
    wrong = ~(whole & (labels >= 0) & (labels < count))
    if bool(xp.any(wrong)):
        at = _first(xp, wrong)
        low, high = float(xp.min(labels)), float(xp.max(labels))
        hint = " They seem to count from 1: subtract 1." if low == 1 and high == count else ""
        raise InputError(
            f"{name}: `labels` must be whole numbers from 0 to {count - 1}, got {float(labels[at]):g} at "
            f"index {at[0] if len(at) == 1 else at}.{hint}"
        )


def check_positive(
    name: str, argument: str, value: Any, *, above: float = 0.0, infinite: bool = False
) -> float:
    """A number above a bound, finite unless said."""
    number = _number(name, argument, value, "a number")
    if not number > above or (number == float("inf") and not infinite):
        raise InputError(f"{name}: `{argument}` must be a number above {above:g}, got {number:g}.")
    return number
