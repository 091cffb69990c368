"""Checks of arguments from users. Each rule is written once.

Every check takes the name of the public function that calls it, for the message:
`function: argument rule, got value. Remedy.`
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

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
from abstain._delta import LARGEST_DELTA, explain_large_delta
from abstain._names import suggest_name
from abstain._risk import explain_wrong_risk, percent_hint
from abstain.errors import DtypeError, InputError, ShapeError

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
# types of most arguments, which have no row labels
_WITHOUT_ROW_LABELS = frozenset({np.ndarray, type(None), bool, int, float, str, list})
# of this machine's byte order: booleans, whole numbers, and floats of 32 and 64 bits
_DTYPES_TAKEN_AS_THEY_ARE = frozenset(map(np.dtype, ("bool", "int32", "int64", "float32", "float64")))
_LONGEST_TUPLE_OF_ARRAYS = 8  # a longer tuple holds numbers
_SIGN_HINT = "Confidence means higher = surer; negate an uncertainty first."
# by the size of a float in bytes: the unsigned integer of that size, and the bits of infinity
_UNSIGNED_AND_INFINITY = {4: (np.uint32, 0x7F800000), 8: (np.uint64, 0x7FF0000000000000)}
_RANKING_HINT = f"A sample without a confidence cannot be ranked. {_SIGN_HINT}"
_HINT_TO_REDUCE_CLASS_SCORES = (
    "Reduce class scores to one confidence per sample first, e.g. `abstain.scores.max_softmax(logits)`, "
    "and use the last axis for samples."
)


def refuse_other_row_order(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Make a function of the user's arrays refuse pandas columns whose rows are in different orders."""

    @functools.wraps(function)
    def checked(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        check_row_order_of_call(function, args, kwargs)
        return function(*args, **kwargs)

    return checked


def check_row_order_of_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raise InputError as `check_row_order` does; `args` and `kwargs` are the arguments of a call of `function`."""
    for value in (*args, *kwargs.values()):
        # the type is looked at first, since it settles most calls fastest
        if type(value) not in _WITHOUT_ROW_LABELS and _may_have_row_labels(value):
            break
    else:  # no argument may have row labels
        return
    try:
        arguments = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:  # the call itself raises it
        return
    check_row_order(function.__name__, arguments)


def check_row_order(function: str, arguments: Mapping[str, Any]) -> None:
    """Raise InputError if two arguments have the same index labels in another order, as pandas columns can.

    Values are combined by position, which would combine values of different rows there. Indexes of different labels
    pass: a filtered column beside a computed one is combined by position on purpose. `function` is the public function
    that messages name; `arguments` are those of one call, by name.
    """
    # row labels (a pandas index) by name of the argument; of arguments with equal labels only the first
    indexes: dict[str, Any] = {}
    for argument, value in arguments.items():
        # nothing for an array, one pair for a column, several for a dict or tuple of columns
        for name, index in _row_labels(argument, value):
            if any(index is known or index.equals(known) for known in indexes.values()):
                continue
            for known_name, known in indexes.items():
                # the same labels, and not equal: another order, or another number of repeats
                if len(index) == len(known) and index.isin(known).all() and known.isin(index).all():
                    raise InputError(
                        f"{function}: `{known_name}` and `{name}` must have their rows in one order, got the same "
                        f"index labels in different orders. Values are combined by position: align them by "
                        f"`.loc[...]` with the index of one of them, or pass `.to_numpy()` if the positions are right."
                    )
            indexes[name] = index


def _may_have_row_labels(value: Any) -> bool:
    """True for a column or frame of pandas, and for a dict or a tuple, which may hold some."""
    return isinstance(value, (Mapping, tuple)) or hasattr(value, "iloc")


def _row_labels(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, index) of a pandas column or frame, and of each of them in a dict or a short tuple.

    `name` is the name of the argument, and `value` what the user passed. Nothing is yielded for anything else.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _row_labels(f"{name}[{key!r}]", item)
    # a tuple of more than 8 entries holds numbers, which have no index: it is skipped to save time
    elif isinstance(value, tuple) and len(value) <= _LONGEST_TUPLE_OF_ARRAYS:
        for position, item in enumerate(value):
            yield from _row_labels(f"{name}[{position}]", item)
    elif hasattr(value, "iloc"):  # a column or frame of pandas, or of a library that is used in the same way
        yield name, value.index


def check_choice(
    function: str,
    argument: str,
    value: Any,
    choices: Sequence[str],
    aliases: Mapping[str, str] | None = None,
) -> None:
    """Raise InputError, with a suggestion of a similar name, unless `value` is one of `choices`.

    `function` and `argument` are names for the message. `aliases` maps other names of a choice, e.g.
    `{"msp": "max_softmax"}`. An alias is not accepted as a value; the message suggests the choice that it stands for.
    """
    if value in choices:
        return
    listed = ", ".join(f'"{choice}"' for choice in choices)
    message = f"{function}: `{argument}` must be one of {listed}, got {value!r}."
    suggestion = suggest_name(value, choices, aliases)  # 'Did you mean "aurc"?', or "" without a similar name
    raise InputError(f"{message} {suggestion}" if suggestion else message)


def _to_number(function: str, argument: str, value: Any, rule: str) -> float:
    """Convert an argument to float; the message for anything else says "must be `rule`"."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{function}: `{argument}` must be {rule}, got {value!r}.") from None


def check_fraction(
    function: str, argument: str, value: Any, *, open_low: bool = True, open_high: bool = False
) -> float:
    """Return `value` as a number between 0 and 1; `open_low` and `open_high` exclude 0 and 1 themselves.

    Raises InputError, which names `function` and `argument`, for anything else.
    """
    # raises InputError for anything but a number; NaN fails the comparisons below
    number = _to_number(function, argument, value, "a number between 0 and 1")
    is_above_low = number > 0 if open_low else number >= 0
    is_below_high = number < 1 if open_high else number <= 1
    if not (is_above_low and is_below_high):
        span = f"{'(' if open_low else '['}0, 1{')' if open_high else ']'}"
        hint = ""
        if 1 < number <= 100:
            hint = f" Give it as a fraction, not in percent: {number / 100:g} for {number:g}%."
        raise InputError(f"{function}: `{argument}` must lie in {span}, got {number:g}.{hint}")
    return number


def check_delta(function: str, value: Any) -> float:
    """Return `delta`, the probability with which a promise may fail: a number above 0, at most 0.5.

    Raises InputError, which says what delta is, for anything else, such as the 0.95 of a level of confidence.
    """
    delta = check_fraction(function, "delta", value, open_high=True)  # raises unless 0 < delta < 1
    explanation = explain_large_delta(delta)  # empty if delta is at most `LARGEST_DELTA`, which is 0.5
    if explanation:
        raise InputError(
            f"{function}: `delta` must lie in (0, {LARGEST_DELTA:g}], got {delta:g}; {explanation}"
        )
    return delta


def check_nonnegative(function: str, argument: str, value: Any) -> float:
    """Return a finite number that is at least 0."""
    number = _to_number(function, argument, value, "a finite number, at least 0")
    if not (np.isfinite(number) and number >= 0):
        raise InputError(f"{function}: `{argument}` must be a finite number, at least 0, got {number:g}.")
    return number


def check_positive(
    function: str, argument: str, value: Any, *, above: float = 0.0, infinite: bool = False
) -> float:
    """Return a number greater than `above`; it must be finite unless `infinite` is True."""
    number = _to_number(function, argument, value, "a number")
    if not number > above or (number == float("inf") and not infinite):
        raise InputError(f"{function}: `{argument}` must be a number above {above:g}, got {number:g}.")
    return number


def check_count(function: str, argument: str, value: Any) -> int:
    """Return a whole number that is at least 1."""
    number = _to_number(function, argument, value, "a whole number, at least 1")
    if not (number.is_integer() and number >= 1):
        raise InputError(f"{function}: `{argument}` must be a whole number, at least 1, got {value!r}.")
    return int(number)


def check_risk(function: str, value: Any, low: float = 0.0, high: float = 1.0) -> float:
    """Return a target risk as a number; raise InputError unless it lies in [low, high], the bounds of the loss."""
    number = _to_number(function, "risk", value, "a number")
    if not low <= number <= high:
        hint = percent_hint(number) if (low, high) == (0, 1) else ""
        bounds = f"[{low:g}, {high:g}], the bounds of the loss"
        raise InputError(f"{function}: `risk` must lie in {bounds}, got {number:g}.{hint}")
    return number


def check_promised_risk(function: str, value: Any, low: float, high: float) -> float:
    """Return a risk to be promised as a number; raise InputError where it is none. `low` and `high` bound the loss."""
    number = _to_number(function, "risk", value, "a number")
    explanation = explain_wrong_risk(number, low, high)
    if explanation:
        raise InputError(f"{function}: `risk` {explanation}")
    return number


def as_real(function: str, argument: str, backend: Backend, x: Array, like: Array = None) -> Array:
    """Convert `x` to an array of real numbers of the backend's library, on the device of `like` (None: the default).

    `backend.is_host` is True if numpy computes. The result is then boolean, integer, float32 or float64, in the byte
    order of this machine: half precision is widened, and longer floats are cut. Raises DtypeError for complex numbers,
    text and objects. `function` is the public function that messages name. `argument` is the name of the argument, for
    messages.
    """
    array = backend.asarray(x, like)
    if backend.is_host:  # `array` is a numpy array; elsewhere one of torch, jax or cupy
        dtype = array.dtype
        if dtype in _DTYPES_TAKEN_AS_THEY_ARE:
            return array
        if dtype.kind not in "biuf":  # booleans, integers with and without sign, floats
            raise DtypeError(
                f"{function}: `{argument}` must hold real numbers, got dtype {dtype}. "
                f"Ragged lists and strings end up as objects; pass one number per sample."
            )
        if dtype.kind == "f" and dtype.itemsize == 2:
            return array.astype(np.float32)
        if dtype.itemsize > 8:
            return array.astype(np.float64)
        return array if dtype.isnative else array.astype(dtype.newbyteorder("="))
    if not backend.xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
        raise DtypeError(f"{function}: `{argument}` must hold real numbers, got dtype {array.dtype}.")
    return array


def check_finite(function: str, argument: str, backend: Backend, x: Array, remedy: str) -> None:
    """Raise InputError if `x` holds NaN or infinity. On the host the message gives the first index.

    `x` is an array of real numbers as `as_real` returns it, not empty. Values that cannot be read, those of a jax
    tracer, are not checked. `remedy` ends the message. `function` is the public function that messages name. `argument`
    is the name of the argument, for messages. `backend` is the array library that computes; on the host that is numpy.
    """
    xp = backend.xp
    if not backend.is_host:
        if not (xp.isdtype(x.dtype, "real floating") and is_concrete(x)):
            return
        smallest, largest = extremes(xp, x)  # NaN propagates to both, and no temporary array is made
        if not bool(xp.isfinite(smallest) & xp.isfinite(largest)):
            raise InputError(f"{function}: `{argument}` must be finite, got NaN or infinity. {remedy}")
        return
    if x.dtype.kind != "f":
        return
    # read as unsigned integers of their size (4 or 8 bytes), floats that are neither negative nor infinite nor NaN are
    # below the bits of infinity
    unsigned, bits_of_infinity = _UNSIGNED_AND_INFINITY[x.dtype.itemsize]
    if x.view(unsigned).max() < bits_of_infinity:
        return
    # a negative number fails that fast test too, so look at the numbers themselves
    if math.isfinite(x.min()) and math.isfinite(x.max()):
        return
    bad_indices = np.argwhere(~np.isfinite(x))
    first_index = tuple(bad_indices[0].tolist())
    values = "value" if len(bad_indices) == 1 else "values"
    raise InputError(
        f"{function}: `{argument}` must be finite, got {x[first_index]} at index {_show_index(first_index)} "
        f"({len(bad_indices)} such {values}). {remedy}"
    )


def _show_index(index: tuple[int, ...]) -> int | tuple[int, ...]:
    """The index of an entry as a user writes it: a number for a vector, a tuple for more axes."""
    return index[0] if len(index) == 1 else index


def check_confidence(function: str, backend: Backend, confidence: Array) -> None:
    """Raise InputError if confidences, real numbers of the backend's library, hold NaN or infinity."""
    check_finite(function, "confidence", backend, confidence, remedy=_RANKING_HINT)


def check_pair(
    function: str, backend: Backend, loss: Array, confidence: Array, defers_confidence: bool = False
) -> tuple[Array, Array]:
    """Return loss and confidence as finite real arrays of one shape, with samples along the last axis.

    On a device both are moved to that of the argument that is there. Values of jax tracers are not checked. With
    `defers_confidence` the caller checks later that confidences are finite.

    Raises ShapeError for data frames and different shapes, DtypeError for anything but real numbers, and InputError for
    empty arrays, NaN and infinity, and for whole confidences too large for float64. `function` is the public function
    that messages name. `backend` is the array library that computes; on the host that is numpy.
    """
    if hasattr(loss, "columns") or hasattr(confidence, "columns"):
        raise ShapeError(
            f"{function}: `loss` and `confidence` must be vectors, got a data frame. "
            f"Pass one of its columns, e.g. frame['loss']."
        )
    # the argument to whose device both are moved: plain lists and numpy arrays have none
    like = confidence if isinstance(loss, (np.ndarray, list, tuple)) else loss
    loss = as_real(function, "loss", backend, loss, like)
    confidence = as_real(function, "confidence", backend, confidence, like)
    if loss.ndim == 0 or tuple(loss.shape) != tuple(confidence.shape):
        raise ShapeError(
            f"{function}: `loss` and `confidence` must be vectors of one length (or batches of one shape), "
            f"got shapes {tuple(loss.shape)} and {tuple(confidence.shape)}. {_HINT_TO_REDUCE_CLASS_SCORES}"
        )
    if 0 in tuple(loss.shape):
        raise InputError(f"{function}: needs at least one sample, got shape {tuple(loss.shape)}.")
    if not defers_confidence:
        check_confidence(function, backend, confidence)  # raises InputError for NaN and infinity
    check_finite(function, "loss", backend, loss, remedy="Drop the sample or mark it with `abstained=`.")
    if backend.is_host and confidence.dtype.kind in "iu" and confidence.dtype.itemsize == 8:
        largest = max(int(confidence.max()), -int(confidence.min()))
        if largest > 1 << 53:
            raise InputError(
                f"{function}: `confidence` must not exceed 2^53 in whole numbers, got {largest}: as floats, by which "
                f"samples are ranked, neighbours would tie. Subtract a common offset, or pass their ranks."
            )
    return loss, confidence


def check_weight(
    function: str,
    backend: Backend,
    weight: Array,
    loss: Array,
    counting_option: str = "",
    repetitions: bool = False,
) -> Array:
    """Return non-negative sample weights of the shape of `loss`, not all of them zero along the last axis.

    With `repetitions` they are whole numbers and returned as they are. Otherwise they are relative, and their scale has
    no meaning. If all positive weights of a vector are equal, they become 1. Otherwise the vector is divided by the
    power of two that brings its largest weight into [1, 2), or, on a device, by its largest weight. At least one weight
    is then a fraction, even where all were whole: 2 and 3 become 1 and 1.5.

    `counting_option` names an option in use that counts neighbours, e.g. 'estimator="loo"'; empty if there is none.
    Such an option takes relative weights only if all positive ones are equal. Values of jax tracers are not checked.

    Raises ShapeError for another shape, DtypeError for anything but real numbers, and InputError for negative weights,
    NaN and infinity, only zeros, fractions with `repetitions`, or unequal relative weights with a counting option.
    `function` is the public function that messages name. `backend` is the array library that computes; on the host that
    is numpy.
    """
    weight = as_real(function, "sample_weight", backend, weight, loss)
    check_shape_of_loss(function, "sample_weight", weight, loss)
    check_finite(function, "sample_weight", backend, weight, remedy="")
    xp = backend.xp
    if not is_concrete(weight):  # a jax tracer: its values cannot be read
        return weight if repetitions else _divide_by_unit(backend, weight)
    if bool(xp.any(weight < 0)):
        raise InputError(f"{function}: `sample_weight` must not be negative, got {float(xp.min(weight)):g}.")
    if bool(xp.any(~xp.any(weight > 0, axis=-1))):
        raise InputError(f"{function}: `sample_weight` must have some mass, got all zeros.")
    if repetitions:
        # raises InputError for a fraction; `_smallest_fractional_weight` is None where all weights are whole
        check_repetitions(function, "sample_weight", _smallest_fractional_weight(backend, weight))
        return weight
    weight = _divide_by_unit(backend, weight)
    # unequal weights have a fraction among them now
    if counting_option and _smallest_fractional_weight(backend, weight) is not None:
        raise repetitions_error(function, counting_option)
    return weight


def repetitions_error(function: str, option: str) -> InputError:
    """Make the error for an option that counts neighbours when the weights are relative, not repetitions."""
    return InputError(
        f"{function}: {option} counts neighbours, so it needs weights that are repetitions, got relative ones. "
        f'Pass `repetitions=True` if a weight is a number of repetitions, or use estimator="harmonic" with '
        f'ties="threshold".'
    )


def check_repetitions(function: str, argument: str, fraction: float | None) -> None:
    """Raise InputError if some repetition is not a whole number: `fraction` is one of these, None if there is none."""
    if fraction is not None:
        raise InputError(
            f"{function}: `{argument}` must hold whole numbers with repetitions=True, got {fraction:g}. "
            f"Leave `repetitions` out for relative weights."
        )


def _smallest_fractional_weight(backend: Backend, weight: Array) -> float | None:
    """Return the smallest weight that is not a whole number, or None if all are whole."""
    xp = backend.xp
    if not xp.isdtype(weight.dtype, "real floating"):
        return None
    is_fractional = xp.floor(weight) != weight
    return float(xp.min(weight[is_fractional])) if bool(xp.any(is_fractional)) else None


def weight_unit(smallest: np.ndarray | float, largest: np.ndarray | float) -> np.ndarray:
    """Return the number by which relative weights are divided, since their scale has no meaning.

    `smallest` is the smallest positive weight. Weights that are all equal become 1, as if there were none. Others are
    divided by the power of two that brings the largest into [1, 2), which rounds nothing: then some weight is a
    fraction, so relative weights are never mistaken for repetitions, and their squares and fourth powers neither
    overflow nor vanish.
    """
    smallest = np.asarray(smallest, dtype=np.float64)
    largest = np.asarray(largest, dtype=np.float64)
    return np.where(smallest == largest, largest, np.exp2(np.floor(np.log2(largest))))


def _divide_by_unit(backend: Backend, weight: Array) -> Array:
    """Divide relative weights by a unit, each vector along the last axis by its own; their scale has no meaning.

    On the host the unit is the common weight if all positive weights are equal, otherwise the largest power of two that
    is not above the largest weight, by which a division rounds nothing. Float64 is returned, `weight` itself if the
    unit is 1. Elsewhere the unit is the largest weight, for which nothing has to be read from a device; a division by
    it may round. Either way equal weights become 1, and among others there is a fraction, so that they are not mistaken
    for repetitions. `backend` is the array library that computes; on the host that is numpy.
    """
    xp = backend.xp
    if backend.is_host:
        weight = weight.astype(np.float64, copy=False)
        # of the positive weights; a weight of 0 leaves its sample out
        smallest = np.min(weight, axis=-1, keepdims=True, initial=np.inf, where=weight > 0)
        unit = weight_unit(smallest, np.max(weight, axis=-1, keepdims=True))
        return weight if bool(np.all(unit == 1)) else weight / unit
    weight = xp.astype(weight, float_dtype(xp))
    largest = xp.max(weight, axis=-1, keepdims=True)
    # no division by 0 in unchecked tracers
    return weight / xp.where(largest > 0, largest, xp.ones_like(largest))


def check_shape_of_loss(function: str, argument: str, x: Array, loss: Array) -> None:
    """Raise ShapeError unless `x`, with one value per sample, has the shape of the losses. Both may be plain lists.

    `function` is the public function that the message names, and `argument` the name of `x` there. Call it before
    samples are picked by index, as those of a group are: that would ignore surplus values without an error.
    """
    shape = tuple(np.shape(x))
    expected_shape = tuple(np.shape(loss))
    if shape != expected_shape:
        raise ShapeError(
            f"{function}: `{argument}` must have the shape of `loss`, got {shape} and {expected_shape}."
        )


def check_mask(function: str, argument: str, backend: Backend, mask: Array, loss: Array) -> Array:
    """Return one boolean per sample, of the shape of `loss`; whole numbers are accepted if all are 0 or 1.

    Raises ShapeError for another shape, and DtypeError for another dtype or other numbers (the numbers of a jax tracer
    cannot be read). `function` is the public function that messages name, and `argument` the name of the mask there.
    `backend` is the array library that computes, and `backend.asarray` moves the mask to the device of `loss`.
    """
    mask = backend.asarray(mask, loss)
    check_shape_of_loss(function, argument, mask, loss)
    xp = backend.xp
    if xp.isdtype(mask.dtype, "bool"):
        return mask
    if is_concrete(mask) and xp.isdtype(mask.dtype, "integral"):
        holds_zeros_and_ones = bool(xp.all((mask == 0) | (mask == 1)))
        if holds_zeros_and_ones:
            return mask == 1
    raise DtypeError(f"{function}: `{argument}` must be boolean, got dtype {mask.dtype}.")


# Class scores (logits or probabilities along the last axis) and class labels -----------------------

# entries handled at a time on the host: temporaries stay in cache and off fresh memory pages
_CHUNK = 1 << 14
# how far a row of probabilities may be from summing to one, by dtype
_SUM_TOLERANCE = {"float16": 2e-2, "bfloat16": 2e-2, "float32": 1e-4}
_FLOAT64_SUM_TOLERANCE = 1e-5  # float64 columns often hold numbers that were float32 once


class ClassScores(NamedTuple):
    """Checked class scores of a model or an ensemble.

    Attributes
    ----------
    backend : Backend
        The library that computes.
    values : array, shape (..., samples, classes)
        With the members of an ensemble along the first axis.
    kind : str
        "logits" or "probs", as the caller stated.
    is_ensemble : bool
        True for an ensemble.
    """

    backend: Backend
    values: Array
    kind: str
    is_ensemble: bool = False

    def map_rows(self, compute: Callable[[Any, Array], Array]) -> Array:
        """Apply `compute(xp, rows)` to all rows of class scores, in the widest float, and return its results.

        `compute` gets rows of shape (samples, classes), or (members, samples, classes) of an ensemble, and returns one
        result per sample, which may be an array; there is at least one sample. On the host (numpy) it gets a chunk of
        samples at a time, elsewhere all of `values` at once, which may have further axes before that of the samples.

        Each row is computed alone and in one memory layout, so its result does not depend on its position.
        """
        # `self.values` has shape (..., samples, classes), with the members of an ensemble along the first axis
        members = self.values.shape[:1] if self.is_ensemble else ()  # a shape: one axis or none
        with np.errstate(all="ignore"):  # ln 0 is expected where a class has probability 0
            if not self.backend.is_host:
                xp = self.backend.xp
                return compute(xp, xp.astype(self.values, float_dtype(xp)))
            rows = self.values.reshape(*members, -1, self.values.shape[-1])
            # as many rows as have 2^14 entries (`_CHUNK`), so that temporary arrays stay in cache
            chunk_rows = max(1, _CHUNK // (rows.shape[-1] * math.prod(members)))
            chunks = [
                compute(np, np.array(rows[..., start : start + chunk_rows, :], dtype=np.float64, order="C"))
                for start in range(0, rows.shape[-2], chunk_rows)
            ]
        # shape (all samples, *shape of one result)
        results = np.concatenate(chunks)
        shape_of_samples = self.values.shape[len(members) : -1]
        return results.reshape(shape_of_samples + results.shape[1:])

    def to_input_library(self, value: Array) -> Any:
        """Return a result in the input's library and on its device; finite even where that has float32 only."""
        if self.backend.is_host and self.is_float32_only and value.dtype == np.float64:
            largest = np.finfo(np.float32).max
            value = np.clip(value, -largest, largest)
        return self.backend.to_input_library(value)

    @property
    def is_float32_only(self) -> bool:
        """True if the input's library has no float64, as jax by default."""
        jax = sys.modules.get("jax")
        return (
            jax is not None
            and not jax.config.jax_enable_x64
            and is_jax(self.backend.to_input_library(np.zeros(1)))
        )


def check_class_scores(
    function: str,
    logits: Array | None,
    probs: Array | None,
    *,
    takes: tuple[str, ...] = ("logits", "probs"),
    allows_minus_infinity: bool = True,
    is_ensemble: bool = False,
    like: Array | None = None,
) -> ClassScores:
    """Return checked class scores: logits or probabilities, whichever the caller passed.

    The outputs of a binary model may come as one number per sample (a vector, or a last axis of length 1): log-odds
    or probabilities of class 1. Logits that are unmistakably probabilities are refused.

    Parameters
    ----------
    function : str
        The public function, for messages.
    logits, probs : array or None
        Exactly one of them, shape (samples, classes), or (members, samples, classes) of an ensemble.
    takes : tuple of str
        Which of the two the function can use.
    allows_minus_infinity : bool
        Logits may be -inf, which marks a class that cannot occur.
    is_ensemble : bool
        The outputs are those of an ensemble.
    like : array or None
        Another argument, usually the labels, that may live on a device.

    Raises
    ------
    InputError
        If not exactly one of the two is passed, or values are invalid: NaN, infinities, negative probabilities, rows
        that do not sum to one. Values of jax tracers are not checked.
    ShapeError, DtypeError
        If the shape or the dtype is wrong, or `takes` does not list what was passed.
    """
    kind = _stated_kind(function, logits, probs, takes)
    outputs = logits if kind == "logits" else probs
    backend = backend_of(outputs, like)
    values = as_real(function, kind, backend, outputs, like)
    # Two axes of an ensemble could be one model's samples and classes, so its binary members need a last axis of 1.
    if values.ndim < (3 if is_ensemble else 1) or 0 in tuple(values.shape):
        layout = "(members, samples, classes)" if is_ensemble else "(samples, classes)"
        raise ShapeError(
            f"{function}: `{kind}` must have shape {layout} with at least one sample, got shape "
            f"{tuple(values.shape)}. A binary model may give one column: that of class 1."
        )
    is_readable = is_concrete(values)
    # the checks must not become part of a gradient
    checked = values.detach() if is_readable and hasattr(values, "detach") else values
    if values.ndim == 1 or values.shape[-1] == 1:
        if is_readable:
            may_be_one_sample = like is None and values.ndim == 1
            _check_binary(function, kind, backend, checked, may_be_one_sample=may_be_one_sample)
        columns = _binary_columns(backend, values, kind)
        return ClassScores(backend=backend, values=columns, kind=kind, is_ensemble=is_ensemble)
    if is_readable and kind == "logits":
        low, high = _check_logits(function, backend, checked, allows_minus_infinity)
        if low >= 0 and high <= 1:
            _refuse_probabilities(function, backend, checked, outputs)
    elif is_readable:
        _check_probs(function, backend, checked, outputs)
    return ClassScores(backend=backend, values=values, kind=kind, is_ensemble=is_ensemble)


def _stated_kind(function: str, logits: Array | None, probs: Array | None, takes: tuple[str, ...]) -> str:
    """Return "logits" or "probs", whichever was passed; raise unless it is exactly one that the function takes.

    `takes` holds "logits", "probs" or both. InputError for both or neither, DtypeError for `probs` where the function
    takes logits alone. `function` is the public function that messages name.
    """
    if (logits is None) == (probs is None):
        passed = "both" if probs is not None else "neither"
        ways = "logits (first argument)" + (" or `probs=`" if "probs" in takes else "")
        raise InputError(f"{function}: takes {ways}, one of them, got {passed}.")
    if probs is not None and "probs" not in takes:
        raise DtypeError(
            f"{function}: needs logits, got `probs=`. The softmax has removed the offset that this score "
            f"reads; pass the logits, or rank by `abstain.scores.max_softmax(probs=probs)`."
        )
    return "logits" if probs is None else "probs"


def _binary_columns(backend: Backend, values: Array, kind: str) -> Array:
    """Make two columns from one number per sample: 1 - p and p, or the logits -d/2 and d/2 of log-odds d.

    Half of the log-odds on either side treats both classes alike, so that the largest logit is a confidence too.
    `values` has shape (samples,), or (..., 1), and holds p or d of class 1 (`kind` "probs" or "logits"). The result
    has shape (samples, 2), or (..., 2). `backend` is the array library that computes; on the host that is numpy.
    """
    xp = backend.xp
    if values.ndim > 1:  # its last axis has length 1
        values = values[..., 0]
    # float64 (float32 only in jax without x64): in a narrower float 1 - p would be rounded more
    values = xp.astype(values, float_dtype(xp))
    if kind == "probs":
        return xp.stack([1 - values, values], axis=-1)
    return xp.stack([-values / 2, values / 2], axis=-1)


_FEWEST_SUSPECT_LOG_ODDS = 8  # so many log-odds or more that all lie in [0, 1] are taken for probabilities


def _check_binary(function: str, kind: str, backend: Backend, x: Array, *, may_be_one_sample: bool) -> None:
    """Check log-odds (`kind` "logits") or probabilities (`kind` "probs") of class 1, one per sample.

    `x` is not empty, of shape (samples,), or (..., 1). Raises InputError for values that are not finite, log-odds that
    look like probabilities, and probabilities outside [0, 1].

    A vector of K numbers can be K samples of a binary model, as it is read here, or one sample of K classes.
    `may_be_one_sample` says that `x` is a vector and no labels tell how many samples there are; then ShapeError is
    raised if it sums to one. `function` is the public function that messages name. `backend` is the array library that
    computes; on the host that is numpy.
    """
    xp = backend.xp
    if kind == "logits":
        check_finite(
            function, "logits", backend, x, remedy="One number per sample is the log-odds of class 1."
        )
        count = math.prod(tuple(x.shape))
        # with fewer than 8 values, all of them may lie in [0, 1] by chance
        if count >= _FEWEST_SUSPECT_LOG_ODDS and float(xp.min(x)) >= 0 and float(xp.max(x)) <= 1:
            raise InputError(
                f"{function}: `logits` of one number per sample must be log-odds of class 1, got {count} values that "
                f"all lie in [0, 1]. Pass probabilities of class 1 as `probs=`, and log-odds d such as these as two "
                f"columns, -d/2 and d/2."
            )
        return
    is_outside = ~((x >= 0) & (x <= 1))  # True for NaN
    if bool(xp.any(is_outside)):
        index = _index_of_first_true(xp, is_outside)
        raise InputError(
            f"{function}: `probs` of one number per sample must be probabilities of class 1 in [0, 1], got "
            f"{float(x[index]):g} at index {_show_index(index)}. Pass decision values (log-odds) as the first "
            f"argument instead of `probs=`."
        )
    total = float(xp.sum(xp.astype(x, float_dtype(xp))))  # in float64; in float32 only in jax without x64
    # 1e-5 whatever the dtype of `x`: a wider tolerance would refuse more binary samples that sum to one by chance
    if may_be_one_sample and x.shape[0] > 1 and abs(total - 1) <= _FLOAT64_SUM_TOLERANCE:
        raise ShapeError(
            f"{function}: `probs` of shape {tuple(x.shape)} must be probabilities of class 1, one per sample, got a "
            f"vector that sums to one. Pass one sample of {x.shape[0]} classes with shape (1, {x.shape[0]})."
        )


def _refuse_probabilities(function: str, backend: Backend, x: Array, outputs: Array) -> None:
    """Raise InputError if "logits" in [0, 1] are unmistakably probabilities; `outputs` are those the user passed."""
    if rows_sum_to_one(backend.xp, x, sum_tolerance(outputs)):
        raise InputError(
            f"{function}: `logits` must be scores before the softmax, got rows in [0, 1] that sum to one. Pass "
            f"probabilities as `probs=`; if these are logits, add 1 to all of them, which changes no probability."
        )


def rows_sum_to_one(xp: Any, rows: Array, tolerance: float) -> bool:
    """True if all rows of numbers in [0, 1] sum to one, as those of a softmax do and those of logits do not.

    `tolerance` is how far a sum may be from one. A single row can do so by chance if it holds float16 or bfloat16
    numbers, or zeros and a one (quantised logits). At least two rows are required there.
    """
    may_be_chance = tolerance > _SUM_TOLERANCE["float32"] or bool(xp.all((rows == 0) | (rows == 1)))
    if may_be_chance and math.prod(tuple(rows.shape)[:-1]) < 2:
        return False
    row_sums = xp.sum(xp.astype(rows, float_dtype(xp)), axis=-1)
    return float(xp.max(xp.abs(row_sums - 1))) <= tolerance


def sum_tolerance(probs: Array) -> float:
    """How far a row of probabilities may be from summing to one, given the precision of its dtype."""
    dtype = str(getattr(probs, "dtype", "float64")).rsplit(".", 1)[-1]
    return _SUM_TOLERANCE.get(dtype, _FLOAT64_SUM_TOLERANCE)


def _index_of_first_true(xp: Any, mask: Array) -> tuple[int, ...]:
    """Return the index of the first True in a mask that has one."""
    flat_index = int(xp.argmax(xp.astype(xp.reshape(mask, (-1,)), xp.int32)))
    return tuple(int(i) for i in np.unravel_index(flat_index, tuple(mask.shape)))


def _check_logits(
    function: str, backend: Backend, x: Array, allows_minus_infinity: bool
) -> tuple[float, float]:
    """Return the smallest and the largest logit (0 and 1 for booleans); raise InputError for NaN, +inf and -inf.

    With `allows_minus_infinity`, -inf marks a class that cannot occur, and only a row in which all classes are -inf is
    refused. `function` is the public function that messages name. `backend` is the array library that computes; on the
    host that is numpy.
    """
    xp = backend.xp
    if xp.isdtype(x.dtype, "bool"):
        return 0.0, 1.0
    low = float(xp.min(x))  # NaN propagates to both
    high = float(xp.max(x))
    if np.isfinite(low) and np.isfinite(high):
        return low, high
    is_invalid = xp.isnan(x) | (x == float("inf"))  # refused in any case; -inf may be allowed
    if bool(xp.any(is_invalid)) or not allows_minus_infinity:
        index = _index_of_first_true(xp, is_invalid if bool(xp.any(is_invalid)) else ~xp.isfinite(x))
        rule = "this score needs finite ones"
        if allows_minus_infinity:
            rule = "-inf may mark a class that cannot occur; NaN and +inf may not"
        raise InputError(
            f"{function}: `logits` must be finite, got {float(x[index])} at index {_show_index(index)}; {rule}."
        )
    is_empty_row = xp.max(x, axis=-1) == -float("inf")  # no class is left
    if bool(xp.any(is_empty_row)):
        raise InputError(
            f"{function}: `logits` must leave a possible class, got -inf for all at index "
            f"{_show_index(_index_of_first_true(xp, is_empty_row))}."
        )
    return low, high


def _check_probs(function: str, backend: Backend, probs: Array, outputs: Array) -> None:
    """Raise InputError unless rows of probabilities are not negative and sum to one.

    `outputs` is what the user passed; its dtype says how precisely a row must sum to one. `function` is the public
    function that messages name. `backend` is the array library that computes; on the host that is numpy.
    """
    xp = backend.xp
    hint = "If these are logits, pass them as the first argument instead of `probs=`."
    low = float(xp.min(probs))
    if np.isnan(low) or low < 0:
        index = _index_of_first_true(xp, ~(probs >= 0))
        if np.isnan(low):
            hint = "Leave rows with NaN out."
        raise InputError(
            f"{function}: `probs` must not be negative or NaN, got {float(probs[index]):g} at index "
            f"{_show_index(index)}. {hint}"
        )
    tolerance = sum_tolerance(outputs)  # how far a sum may be from one: 2e-2 in half precision, down to 1e-5
    # not NaN: no entry is NaN or negative, so that an infinite entry gives an infinite sum
    deviation = xp.abs(xp.sum(xp.astype(probs, float_dtype(xp)), axis=-1) - 1)
    worst = float(xp.max(deviation))
    if worst > tolerance:
        index = _index_of_first_true(xp, deviation == worst)
        total = float(xp.sum(xp.astype(probs[index], float_dtype(xp))))
        if 99 <= total <= 101:
            hint = f"If these are percentages, divide by 100. {hint}"
        raise InputError(
            f"{function}: `probs` must sum to one over the last axis (within {tolerance:g}), got {total:.6g} "
            f"at index {_show_index(index)}, the worst row. Divide by the sum if it was rounded. {hint}"
        )


def check_labels(function: str, class_scores: ClassScores, labels: Array | None) -> Array:
    """Return labels as class indices 0 ... K-1, one per row of class scores; one-hot rows become the index of their 1.

    Raises InputError if there are none, or one is not among the classes; DtypeError for words; ShapeError if they are
    neither one per row nor one-hot rows. Values of jax tracers are not checked. `function` is the public function that
    messages name.
    """
    backend = class_scores.backend
    values = class_scores.values  # shape (..., samples, classes), of one model
    if labels is None:
        raise InputError(f"{function}: needs `labels`, one class index for each sample, got None.")
    if _holds_words(labels):
        raise DtypeError(
            f"{function}: `labels` must be class indices from 0 to {values.shape[-1] - 1}, got words. Replace each "
            f"word by the place of its column, or use `evaluate` or `compare` with `classes=`, the names in column "
            f"order."
        )
    labels = as_real(function, "labels", backend, labels, values)
    xp = backend.xp
    if tuple(labels.shape) == tuple(values.shape):
        labels = _from_one_hot(function, xp, labels)  # the index of the 1 in each row
    if tuple(labels.shape) != tuple(values.shape[:-1]):
        raise ShapeError(
            f"{function}: `labels` must be one class index for each sample, shape {tuple(values.shape[:-1])}, or "
            f"one-hot rows of shape {tuple(values.shape)}, got shape {tuple(labels.shape)}."
        )
    if is_concrete(labels):
        # also raises for labels that are no whole numbers, so that the conversion below cuts nothing off
        _check_label_range(function, xp, labels, values.shape[-1])
    # jax has no int64 unless the user switches it on
    return xp.astype(labels, xp.int32) if is_jax(labels) else xp.astype(labels, xp.int64)


def _holds_words(labels: Array) -> bool:
    """True if labels are text rather than numbers."""
    if is_array(labels) and not isinstance(labels, np.ndarray):
        return False
    host = np.asarray(labels)
    if host.dtype.kind in "US":
        return True
    return host.dtype.kind not in "biufc" and any(isinstance(value, str) for value in host.flat)


def labels_to_indices(
    function: str, labels: Array, classes: Sequence[Any] | None, columns: Sequence[Any] | None = None
) -> Array:
    """Return the column index of each label.

    Parameters
    ----------
    function : str
        The public function, for messages.
    labels : array
        Class names, or class numbers. One-hot labels are returned unchanged.
    classes : sequence or None
        Class names in the order of the class numbers; also in column order if the columns have no names.
    columns : sequence or None
        Names that the columns carry themselves, as in a data frame.

    Raises InputError for unknown or repeated names, and for numbers where only names tell which column is meant.
    """
    host = np.asarray(to_host(labels))
    if host.ndim != 1 or (classes is None and columns is None):  # one-hot, or label k is column k
        return labels
    # One of the two is given, so that there are names of the columns. `_check_distinct` returns names as a list, and
    # raises InputError for a repeated one; `_list_first` lists a few of them in a message.
    class_names = None if classes is None else _check_distinct(function, "classes", classes)
    column_names = class_names if columns is None else _check_distinct(function, "columns", columns)
    assert column_names is not None  # for mypy
    if columns is not None and class_names is not None and set(class_names) != set(column_names):
        raise InputError(
            f"{function}: `classes` must be the names of the columns, got {_list_first(class_names)} for columns "
            f"named {_list_first(column_names)}. Or pass the numbers as a plain array, with `classes` in column order."
        )
    values = host.tolist()
    if not _holds_words(host) and _holds_words(column_names):  # numbers for classes that have names
        if columns is None or class_names is None:
            raise InputError(
                f"{function}: `labels` must be class names, got numbers while the classes are named "
                f"{_list_first(column_names)}. Pass the names, or plain arrays without `classes` if label k means the "
                f"k-th column."
            )
        # Both are given: label k means the k-th of `classes`, wherever its column is. Other numbers stay, and are
        # refused below.
        values = [class_names[int(value)] if value in range(len(class_names)) else value for value in values]
    column_index = {column_name: index for index, column_name in enumerate(column_names)}
    indices = np.array([column_index.get(value, -1) for value in values], dtype=np.int64)
    if (indices < 0).any():
        first_unknown = int(np.argmin(indices))  # the first -1
        raise InputError(
            f"{function}: `labels` must be among the classes {_list_first(column_names)}, got "
            f"{values[first_unknown]!r} at index {first_unknown}."
        )
    return indices


def _check_distinct(function: str, argument: str, names: Sequence[Any]) -> list[Any]:
    """Return class names as a list; raise InputError if one occurs twice."""
    values: list[Any] = np.asarray(to_host(names)).reshape(-1).tolist()
    if len(set(values)) < len(values):
        raise InputError(f"{function}: `{argument}` must name every class once, got {_list_first(values)}.")
    return values


def _list_first(names: Sequence[Any]) -> str:
    """The first three names for a message, with dots if there are more."""
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")


def _from_one_hot(function: str, xp: Any, labels: Array) -> Array:
    """Return the index of the 1 in each row; raise InputError for rows that are not one-hot.

    Values of jax tracers are not checked. `function` is the public function that messages name.
    """
    if is_concrete(labels):
        numbers = xp.astype(labels, float_dtype(xp))
        nonzero_count = xp.sum(xp.astype(numbers != 0, xp.int32), axis=-1)
        is_wrong_row = (xp.max(numbers, axis=-1) != 1) | (nonzero_count != 1)
        if bool(xp.any(is_wrong_row)):
            raise InputError(
                f"{function}: one-hot `labels` must hold one 1 and otherwise 0 in each row, which fails at index "
                f"{_index_of_first_true(xp, is_wrong_row)}. Soft labels have no single class; pass class indices."
            )
    return xp.argmax(xp.astype(labels, float_dtype(xp)), axis=-1)


def _check_label_range(function: str, xp: Any, labels: Array, class_count: int) -> None:
    """Raise InputError unless all labels are whole numbers from 0 to `class_count` - 1.

    `function` is the public function that messages name.
    """
    if xp.isdtype(labels.dtype, "bool"):  # 0 and 1, and there are at least two classes
        return
    is_valid = (labels >= 0) & (labels < class_count)  # False for NaN
    if xp.isdtype(labels.dtype, "real floating"):
        is_valid = is_valid & (xp.floor(labels) == labels)
    if not bool(xp.all(is_valid)):
        index = _index_of_first_true(xp, ~is_valid)
        counts_from_one = float(xp.min(labels)) == 1 and float(xp.max(labels)) == class_count
        hint = " They seem to count from 1: subtract 1." if counts_from_one else ""
        raise InputError(
            f"{function}: `labels` must be whole numbers from 0 to {class_count - 1}, got {float(labels[index]):g} at "
            f"index {_show_index(index)}.{hint}"
        )
