"""How a confidence is compared with a threshold, whatever unit and precision it comes in.

A threshold lies between two blocks of calibration samples: the least sure that it accepts and the surest that it
rejects. The same samples in another unit (a probability for a rank key) or another precision (float16 for float64)
have slightly other numbers. `Cut` bounds by how much, and decides so that no rejected block gets in and no accepted
block falls out. Where rounding makes that impossible, it refuses and says what to do.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np

from abstain import scores
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import check_choice
from abstain._stored import Within
from abstain.core.sorting import RankedSamples
from abstain.errors import AbstainWarning, DtypeError, InputError

Units = Literal["plain", "key"]
Source = Literal["logits", "probs", "binary", "key", "plain", "own"]
Precision = Literal["bfloat16", "float16", "float32", "float64"]  # from coarse to fine
Number = Annotated[float, Within(infinite=True)]

STORABLE = (*scores.NAMES, *scores.ENSEMBLE_NAMES, *scores.READING_NAMES)
_WITHOUT_BOUND = (
    "clamped_logit_entropy",
    *scores.ENSEMBLE_NAMES,
)  # no bound on their rounding error is known
MISSING = -float(np.finfo(np.float64).max)  # ranks samples without a confidence last
_LARGEST_LOG = 745.0  # -log of the smallest float64
_LOOKED_AT = 4096  # numbers that show to which precision an array was rounded
_HALVINGS = 24
_SIMPLE_BITS = 5  # numbers of so few bits are exact in every type
_MANY = 20  # samples
_TELLING = 8  # so many numbers tell that data are coarser than in calibration, whatever calibration held


class Rounding(NamedTuple):
    """What storing a number does to it: a relative error of at most `unit`, or `smallest` next to zero."""

    unit: float
    smallest: float

    def at_least(self, minimum: Rounding) -> Rounding:
        """The larger error of the two."""
        return Rounding(max(self.unit, minimum.unit), max(self.smallest, minimum.smallest))


_ROUNDING: dict[Precision, Rounding] = {
    "bfloat16": Rounding(2.0**-8, 2.0**-134),
    "float16": Rounding(2.0**-11, 2.0**-25),
    "float32": Rounding(2.0**-24, 2.0**-150),
    "float64": Rounding(2.0**-53, 0.0),
}
_MANTISSA: dict[Precision, int] = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}  # bits
# narrower types hold results of float32 arithmetic, stored in fewer bits
_COMPUTED = _ROUNDING["float32"].unit


class Grain(NamedTuple):
    """To which precision numbers were rounded before they were stored.

    Logits of a bfloat16 model saved as float32, or a float32 column read as float64, are rounded more coarsely than
    their type says. Whole numbers and short fractions (3/4, 7/16) are exact in every type and tell nothing.

    `coarsest` and `finest` are types that hold one and all of the telling numbers; None where there are none.
    `telling` is how many different ones were seen.
    """

    coarsest: Precision | None
    finest: Precision | None
    telling: int


class ConfidenceReadings(NamedTuple):
    """Confidences of some samples, and what is known of where they come from.

    `values` are float64: rank keys of a score that saturates, unless the source is "plain" or "own"; otherwise the
    numbers themselves. `dtype` is the type they came in, `grain` the precision that they show. `magnitude` is the
    absolute value of each row's largest logit, on which its rounding depends; 0 without logits.
    """

    values: np.ndarray
    source: Source
    dtype: Precision
    grain: Grain
    classes: int | None = None
    magnitude: np.ndarray = np.zeros(())

    @property
    def is_telling(self) -> bool:
        """Is the grain more than chance? One short number in a call of one sample is nothing unusual."""
        return self.grain.telling >= 2 or (self.grain.telling == 1 and self.values.size >= _MANY)

    @property
    def is_short(self) -> bool:
        """Are all numbers whole or short fractions, so that any precision may have been their own?"""
        return self.grain.finest is None

    @property
    def coarsest_precision(self) -> Precision:
        """The coarsest precision that holds all numbers exactly: they may have been rounded to it."""
        if self.grain.finest is not None:
            return self.grain.finest
        return "float16" if self.dtype == "float16" else "bfloat16"

    @property
    def likely_precision(self) -> Precision:
        """The precision that the numbers show, or that of their type where they are too few or too short to show it."""
        if self.is_telling and self.grain.finest is not None:
            return self.grain.finest
        return self.dtype

    def take(self, rows: np.ndarray) -> ConfidenceReadings:
        """Some of the samples."""
        magnitude = self.magnitude[rows] if self.magnitude.ndim else self.magnitude
        return self._replace(values=self.values[rows], magnitude=magnitude)


def read_confidences(
    name: str,
    score: str | None,
    *,
    confidence: ArrayLike | None = None,
    logits: ArrayLike | None = None,
    probs: ArrayLike | None = None,
    units: Units | None = None,
) -> ConfidenceReadings:
    """Confidences from what a user gives: numbers with their unit, or class scores that `score` reduces.

    Numbers of a score that saturates need `units`: a rank key of 0.9 and a probability of 0.9 are different things,
    and nothing about the number tells which it is.
    """
    if units is not None:
        check_choice(name, "units", units, get_args(Units))
    if sum(x is not None for x in (confidence, logits, probs)) != 1:
        raise InputError(f"{name}: takes confidences, or `logits=` or `probs=`, one of them.")
    if confidence is not None:
        return _read_numbers(name, score, confidence, units)
    if score is None:
        raise InputError(f"{name}: this rule is for confidences of your own, got logits or probabilities.")
    table = logits if probs is None else probs
    keys = np.asarray(to_host(scores.by_name(score)(logits, probs=probs)), dtype=np.float64)
    host = np.asarray(to_host(table))
    dtype = _dtype_of(table)
    one_column = host.shape == keys.shape or host.shape[-1] == 1  # a binary model's class 1
    source: Source = "logits" if probs is None else "binary" if one_column else "probs"
    magnitude = np.zeros(())
    if probs is None:
        tops = host.reshape(keys.shape) / 2 if one_column else host.max(axis=-1)
        magnitude = np.abs(tops.astype(np.float64))
    return ConfidenceReadings(
        values=keys,
        source=source,
        dtype=dtype,
        grain=_grain_of(host, dtype),
        classes=2 if one_column else int(host.shape[-1]),
        magnitude=magnitude,
    )


def _read_numbers(name: str, score: str | None, confidence: Array, units: Units | None) -> ConfidenceReadings:
    host = np.asarray(to_host(confidence))
    try:
        values = host.astype(np.float64)
    except (TypeError, ValueError):
        rule = "`confidence` must hold real numbers, one per sample"
        raise DtypeError(f"{name}: {rule}, got dtype {host.dtype}.") from None
    dtype = _dtype_of(confidence)
    source: Source = "own"
    if score is not None:
        saturates = scores.by_name(score).saturates
        if saturates and units is None:
            rule = f"confidences of {score} need `units`"
            remedy = 'Give `logits=` or `probs=`, or say units="plain" (probabilities and the like) or "key"'
            raise InputError(
                f"{name}: {rule}, got none. {remedy} (as `abstain.scores.{score}` returns them)."
            )
        source = "plain" if saturates and units == "plain" else "key"
        check_domain(name, score, source, values)
    return ConfidenceReadings(values=values, source=source, dtype=dtype, grain=_grain_of(values, dtype))


def check_domain(name: str, score: str, source: Source, values: np.ndarray) -> None:
    """Refuse numbers that cannot be of this score in this unit."""
    confidences = values[~np.isnan(values)]
    if not confidences.size or not scores.by_name(score).saturates:
        return
    smallest = float(confidences.min())
    largest = float(confidences.max())
    end = _end_of_scale(score)
    if source == "plain" and (largest > end or (end == 1 and smallest < 0)):
        rule = f"a plain {score} is {'at most 0' if end == 0 else 'from 0 to 1'}"
        wrong = largest if largest > end else smallest
        remedy = (
            'Say units="key" for rank keys, as `abstain.scores` gives them, or give `logits=` or `probs=`.'
        )
        raise InputError(f"{name}: {rule}, got {wrong:g}. {remedy}")
    if source == "key" and end == 1 and smallest < 0:
        rule = f"a rank key of {score} is at least 0"
        raise InputError(f"{name}: {rule}, got {smallest:g}. Give `logits=` or `probs=`.")


@functools.cache
def _end_of_scale(score: str) -> float:
    """The largest plain number of a score that saturates: 1 for probabilities, 0 for negative entropies."""
    return float(scores.display(score, np.finfo(np.float64).max)) + 0.0


def _dtype_of(values: Array) -> Precision:
    """The type that numbers are stored in; whole numbers and lists are as good as float64."""
    name = str(getattr(values, "dtype", "float64")).rsplit(".", 1)[-1]
    return next((precision for precision in _ROUNDING if precision == name), "float64")


def _grain_of(values: np.ndarray, dtype: Precision) -> Grain:
    numbers = np.unique(values.reshape(-1)[:_LOOKED_AT].astype(np.float64))
    numbers = numbers[np.isfinite(numbers) & (np.rint(numbers) != numbers)]
    whole = np.ldexp(np.frexp(numbers)[0], 53).astype(np.int64)
    last_bit = np.frexp((whole & -whole).astype(np.float64))[1]
    bits = 54 - last_bit  # of the mantissa, without zeros at its end
    bits = bits[bits > _SIMPLE_BITS]
    if not len(bits):
        return Grain(None, None, 0)
    classes = [precision for precision in _MANTISSA if _MANTISSA[precision] <= _MANTISSA[dtype]]
    if dtype == "float16":
        classes = ["float16"]
    coarsest = next(x for x in classes if bits.min() <= _MANTISSA[x])
    finest = next(x for x in classes if bits.max() <= _MANTISSA[x])
    return Grain(coarsest, finest, len(bits))


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The two calibration blocks that a threshold lies between, and what their numbers are.

    Attributes
    ----------
    accepted, rejected : float or None
        The lowest confidence that was accepted in calibration and the highest that was rejected; None where there is
        none.
    tied : bool
        Does one of these two blocks hold more than one sample? Then the cut leaves room for rounding even where the
        numbers come as they did in calibration.
    source : {"logits", "probs", "binary", "key", "plain", "own"}
        What the calibration data held: class scores (of "binary" models the probability of class 1 alone), rank keys
        or plain numbers of a score, or the user's own numbers.
    score : str or None
        Name of the score in `abstain.scores`; None for the user's own numbers.
    dtype, precision, coarsest : str
        The type of the calibration data, the coarsest type that holds all of them exactly, and the coarsest that holds
        one of them (None where all are whole numbers or short fractions).
    classes : int or None
        Number of classes, where there were class scores.
    lowest, highest : float
        Range of the calibration confidences.
    magnitude : float
        Largest absolute value of a row's largest logit, on which the rounding of logits depends; 0 without logits.

    Examples
    --------
    >>> import numpy as np
    >>> from abstain import select_threshold
    >>> p = np.repeat([0.95, 0.9], 500)
    >>> wrong = np.repeat([0, 1], 500)
    >>> rule = select_threshold(wrong, probs=np.stack([p, 1 - p], 1), risk=0.05)
    >>> rule.accepts(probs=np.float32([[0.95, 0.05], [0.9, 0.1]])).tolist()
    [True, False]
    """

    accepted: Number | None
    rejected: Number | None
    tied: bool
    source: Source
    score: str | None
    dtype: Precision
    precision: Precision
    coarsest: Precision | None = None
    classes: Annotated[int, Within(2)] | None
    lowest: Number
    highest: Number
    magnitude: Annotated[float, Within(0)] = 0.0

    def read(self, name: str, *, score: str | None = None, **columns: Any) -> ConfidenceReadings:
        """Confidences of new samples (as `read_confidences` takes them), refused where they cannot be right."""
        self.check_score(name, score)
        return self.admit(name, read_confidences(name, self.score, **columns))

    def check_score(self, name: str, score: str | None) -> None:
        """Refuse another score than that of the rule."""
        if score is not None and score != self.score:
            remedy = "Calibrate a rule for it, or give what this one is for."
            raise InputError(f"{name}: this rule is for {self.described}, got {score}. {remedy}")

    def admit(self, name: str, readings: ConfidenceReadings) -> ConfidenceReadings:
        """Refuse another number of classes, and numbers from another scale than in calibration."""
        if None not in (self.classes, readings.classes) and readings.classes != self.classes:
            rule = f"this rule was calibrated on {self.classes} classes"
            raise InputError(f"{name}: {rule}, got {readings.classes}. Calibrate one for this model.")
        if self.source == "own":
            self._check_range(name, readings.values)
        return readings

    @property
    def described(self) -> str:
        """What the rule is for, in words."""
        return self.score or "confidences of your own"

    def _check_range(self, name: str, values: np.ndarray) -> None:
        """Numbers calibrated within [0, 1], or below 0, come from another scale where they leave that range.

        NaN and the lowest numbers there are mark samples without a confidence.
        """
        confidences = values[values > MISSING]
        if not confidences.size:
            return
        largest = float(confidences.max())
        smallest = float(confidences.min())
        scale = None
        if self.lowest >= 0 and self.highest <= 1 and (largest > 1 or smallest < 0):
            scale = "within [0, 1]"
        elif self.highest <= 0 and self.lowest < 0 and largest > 0:
            scale = "at or below 0"
        if scale is not None:
            wrong = largest if largest > max(self.highest, 0.0) else smallest
            rule = f"this rule was calibrated on confidences {scale}"
            remedy = (
                "Give the confidence it was calibrated on: no percentages, no rank keys for probabilities."
            )
            raise InputError(f"{name}: {rule}, got {wrong:g}. {remedy}")
        probabilities = smallest >= 0 and largest <= 1 < (self.accepted or 0.0)
        if probabilities and confidences.size >= _MANY:
            message = f"none of {confidences.size:,} confidences will be accepted: all lie in [0, 1]"
            calibrated = f"the rule was calibrated on {self.lowest:g} to {self.highest:g}"
            remedy = "Rank keys and probabilities are different numbers"
            warnings.warn(f"{name}: {message}, and {calibrated}. {remedy}.", AbstainWarning, stacklevel=4)

    def decide(self, name: str, readings: ConfidenceReadings, value: float | None) -> np.ndarray:
        """Which samples to accept by the threshold `value`; a NaN never is.

        Numbers in the form of the calibration are compared exactly, unless blocks of tied samples leave room. All
        others are accepted where rounding cannot have made them of a rejected block.
        """
        values = readings.values
        if value is None or self.accepted is None:
            return np.zeros(values.shape, dtype=bool)
        if value == -math.inf:
            return ~np.isnan(values)
        rounding = self.room(name, readings)
        if rounding is None:
            return np.asarray(values >= value)
        decisions, hidden = self._decide_with_room(readings, value, rounding)
        if hidden.any():  # rows of larger logits than in calibration are rounded more coarsely
            finest = _finest(self.source, readings.source)
            finer_decisions, still_hidden = self._decide_with_room(readings, value, finest)
            decisions = np.where(hidden, finer_decisions, decisions)
            hidden &= still_hidden
        if hidden.any() and not self._same_form(readings):
            self._refuse(name, readings, "rounding hides on which side of the threshold samples lie")
        return np.where(hidden, values >= value, decisions)

    def _decide_with_room(
        self, readings: ConfidenceReadings, value: float, rounding: Rounding
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which samples are accepted, and which may be of the accepted and of the rejected block alike."""
        low, high = self._bounds_of(readings, rounding)
        decisions = high >= self._own_bounds(value, rounding)[0]
        if self.rejected is None:
            return np.asarray(decisions), np.zeros(decisions.shape, dtype=bool)
        outside = low > self._own_bounds(self.rejected, rounding)[1]
        hidden = ~outside & (high >= self._own_bounds(self.accepted, rounding)[0])
        return np.asarray(decisions & outside), np.asarray(hidden)

    def at_least(
        self, name: str, readings: ConfidenceReadings, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """How many of the new confidences lie at or above calibration confidences: surely, and possibly.

        Both counts are the same where numbers are compared exactly.
        """
        rounding = self.room(name, readings)
        if rounding is None:
            exact = _count_at_least(readings.values, points)
            return exact, exact
        low, high = self._bounds_of(readings, rounding)
        point_low, point_high = self._own_bounds(points, rounding)
        return _count_at_least(low, point_high), _count_at_least(high, point_low)

    def room(self, name: str, readings: ConfidenceReadings) -> Rounding | None:
        """The rounding that the cut leaves room for; None to compare the numbers exactly.

        That is the coarsest precision in which the two blocks can still be told apart: numbers rarely tell how they
        were rounded before. Where not even their own precision keeps the blocks apart, other forms than that of the
        calibration are refused.
        """
        same_form = self._same_form(readings)
        if same_form and not self.tied:
            return None
        if not same_form and self.score in _WITHOUT_BOUND:
            self._refuse(name, readings, f"the rounding of {self.score} has no known bound")
        if self.accepted is None or self.rejected is None:
            return _ROUNDING[self.precision].at_least(_ROUNDING[self._precision_of(readings)])
        classes = readings.classes or 2
        magnitude = self._usual_magnitude(classes)
        rounding = _widest_room(self, readings.source, self._precision_of(readings), classes, magnitude)
        if rounding is None and not same_form:
            if readings.is_short:
                # perhaps the numbers were never rounded: `decide` refuses only rows near the threshold
                return _finest(self.source, readings.source)
            self._refuse(name, readings, "rounding hides on which side of the threshold samples lie")
        return rounding

    def _usual_magnitude(self, classes: int) -> float:
        """Largest logit of a row near the threshold: that of the calibration, or the one its confidence suggests.

        It must not depend on the new samples: whether one is refused would then depend on the others.
        """
        if self.magnitude or self.accepted is None:
            return self.magnitude
        key = float(self._comparable(self.source, self.accepted))
        return min(abs(key), _LARGEST_LOG) + math.log(classes)

    def _same_form(self, readings: ConfidenceReadings) -> bool:
        """Do new numbers come as those of the calibration did: same source, same type, rounded to the same precision?

        A few whole numbers or short fractions are nothing unusual. A whole batch of them is, where the calibration
        had longer numbers: they may have been rounded to bfloat16.
        """
        if (readings.source, readings.dtype) != (self.source, self.dtype):
            return False
        finest = readings.coarsest_precision
        if finest == self.precision:
            return True
        if readings.is_short:
            return self.coarsest is None or readings.values.size < _MANY
        if _MANTISSA[finest] > _MANTISSA[self.precision]:
            return False
        coarser_than_all = self.coarsest is not None and _MANTISSA[finest] < _MANTISSA[self.coarsest]
        return readings.grain.telling < _TELLING and not (coarser_than_all and readings.is_telling)

    def _precision_of(self, readings: ConfidenceReadings) -> Precision:
        """The precision that new numbers may have been rounded to; for numbers in another form, the coarsest one."""
        if self._same_form(readings):
            return readings.likely_precision
        return readings.coarsest_precision

    def _refuse(self, name: str, readings: ConfidenceReadings, reason: str) -> None:
        expected = f"{_WORDS[self.source]} in {self.precision}"
        coarse_form = f"{_WORDS[readings.source]} in {readings.coarsest_precision}"
        remedy = f"Calibrate on {coarse_form}, or give {expected}"
        if not readings.is_short or readings.coarsest_precision == readings.dtype:
            raise InputError(f"{name}: this rule is for {expected}, got {coarse_form}: {reason}. {remedy}.")
        short_form = f"{_WORDS[readings.source]} so short that they may be {readings.coarsest_precision}"
        remedy += " that were not rounded before"
        raise InputError(f"{name}: this rule is for {expected}, got {short_form}: {reason}. {remedy}.")

    def _own_bounds(self, values: Any, rounding: Rounding) -> tuple[Any, Any]:
        """What calibration confidences may be without rounding."""
        at_least = rounding.at_least(_ROUNDING[self.precision])
        numbers = self._comparable(self.source, values)
        return self._bounds(numbers, self.source, at_least, self.classes or 2, self.magnitude)

    def _bounds_of(self, readings: ConfidenceReadings, rounding: Rounding) -> tuple[np.ndarray, np.ndarray]:
        """What new confidences may be without rounding."""
        numbers = self._comparable(readings.source, readings.values)
        magnitude = np.maximum(self.magnitude, readings.magnitude)
        at_least = rounding.at_least(_ROUNDING[self._precision_of(readings)])
        classes = readings.classes or self.classes or 2
        return self._bounds(numbers, readings.source, at_least, classes, magnitude)

    def _comparable(self, source: Source, values: Any) -> np.ndarray:
        """Numbers of any source on one scale: rank keys, or the number itself for scores that do not saturate."""
        numbers = np.asarray(values, dtype=np.float64)
        if source != "plain" or self.score is None:
            return numbers
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(-np.log(_end_of_scale(self.score) - numbers))

    def _bounds(
        self, numbers: np.ndarray, source: Source, rounding: Rounding, classes: int, magnitude: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Limits of the numbers that exact arithmetic would give, for each comparable number.

        Errors to first order, u the unit roundoff: logits move by u|z| each, so that a key moves by at most
        :math:`2u(2|z_{\max}| + |k| + \log K)` (the mean distance to the winner is at most k + log K; entropies count
        twice). Probabilities keep u of each entry, and lose entries below the smallest number of their type. A plain
        number moves by u of itself, a key likewise.
        """
        unit, smallest = rounding
        computed = 8 * min(unit, _COMPUTED)
        size = np.minimum(np.abs(numbers), np.finfo(np.float64).max / 4)
        with np.errstate(all="ignore"):
            if source == "logits":
                error = 2 * unit * (2 * magnitude + size + math.log(classes)) + 2.0**-49 * (1 + size)
                return numbers - error, numbers + error
            if source in ("probs", "binary"):
                error = 4 * unit + computed * (np.minimum(size, _LARGEST_LOG) + math.log(classes) + 1)
                smallest += unit if source == "binary" else 0.0  # 1 - p of a rounded p
                lost = (classes - 1) * smallest * (1 if self.score in ("max_softmax", "logit_margin") else 40)
                low = -np.logaddexp(error - numbers, np.log(lost))
                high = -np.log(np.maximum(np.exp(-numbers - error) - lost, 0.0))
                return np.asarray(low), np.where(lost == 0, numbers + error, high)
            if source == "plain":
                assert self.score is not None
                distance = np.exp(-numbers)
                plain = np.abs(_end_of_scale(self.score) - distance)
                slack = unit * plain + computed * np.maximum(1.0, plain) + smallest
                return -np.log(distance + slack), -np.log(np.maximum(distance - slack, 0.0))
            scale = 1.0
            if source == "own":
                scale = min(1.0, max(abs(self.lowest), abs(self.highest)))
            error = unit * size + computed * np.maximum(size, scale) + smallest
            return numbers - error, numbers + error

    def is_consistent(self, value: float | None) -> bool:
        """Do the fields agree with each other and with the threshold?"""
        if self.score is not None and self.score not in STORABLE:
            return False
        if (self.score is None) != (self.source == "own") or not self.lowest <= self.highest:
            return False
        if value is None or self.accepted is None:
            return value is None and self.accepted is None
        blocks = [block for block in (self.accepted, self.rejected) if block is not None and block > MISSING]
        blocks_in_range = all(self.lowest <= block <= self.highest for block in blocks)
        rejects_block = self.rejected is None or self.rejected < value
        return blocks_in_range and rejects_block and value <= self.accepted


def cut_between(
    ranked: RankedSamples, accepted: int | None, readings: ConfidenceReadings, score: str | None
) -> Cut:
    """The cut that accepts the first samples of calibration data, most confident first; None accepts nothing."""
    keys = ranked.sorted_keys
    accepted_count = accepted or 0
    is_tied = False  # does a block next to the cut hold more than one sample?
    if accepted_count > 1:
        is_tied |= bool(keys[accepted_count - 1] == keys[accepted_count - 2])
    if accepted_count + 1 < ranked.n:
        is_tied |= bool(keys[accepted_count] == keys[accepted_count + 1])
    accepted_confidence = None
    if accepted_count:
        accepted_confidence = float(ranked.smallest_confidence(np.asarray([accepted_count]))[0])
    rejected_confidence = None
    if accepted_count < ranked.n:
        rejected_confidence = float(ranked.smallest_confidence(np.asarray([accepted_count + 1]))[0])
    block_stops = ranked.row_stops()
    # the last block may hold the samples without a confidence: then the one above it is the lowest
    lowest_blocks = ranked.smallest_confidence(block_stops[-2:])
    with_confidence = lowest_blocks[lowest_blocks > MISSING]
    return Cut(
        accepted=accepted_confidence,
        rejected=rejected_confidence,
        tied=is_tied,
        source=readings.source,
        score=score,
        dtype=readings.dtype,
        precision=readings.likely_precision,
        coarsest=readings.grain.coarsest,
        classes=readings.classes,
        lowest=float(with_confidence[-1] if len(with_confidence) else lowest_blocks[-1]),
        highest=float(ranked.smallest_confidence(block_stops[:1])[0]),
        magnitude=float(readings.magnitude.max()),
    )


_WORDS = {
    "logits": "logits",
    "probs": "probabilities",
    "binary": "probabilities of class 1",
    "key": "rank keys",
    "plain": "plain numbers",
    "own": "confidences",
}


def _finest(source: Source, second_source: Source) -> Rounding:
    """The least rounding between two sources."""
    if source != second_source and {"key", "plain"} & {source, second_source}:
        return _ROUNDING["float32"]  # keys and plain numbers do not tell from which logits they were computed
    return _ROUNDING["float64"]


@functools.lru_cache(maxsize=256)
def _widest_room(
    cut: Cut, source: Source, precision: Precision, classes: int, magnitude: float
) -> Rounding | None:
    """The coarsest rounding at which the two blocks of the cut are told apart in this form; None if there is none."""
    for candidate in _ROUNDING.values():
        rounding = candidate.at_least(_finest(cut.source, source))
        rounding_here = rounding.at_least(_ROUNDING[precision])
        rejected_high = float(cut._own_bounds(cut.rejected, rounding)[1])
        accepted_low = float(cut._own_bounds(cut.accepted, rounding)[0])

        def limits(number: float, rounding_here: Rounding = rounding_here) -> tuple[float, float]:
            low, high = cut._bounds(np.asarray(number), source, rounding_here, classes, magnitude)
            return float(low), float(high)

        if _tells_apart(limits, rejected_high, accepted_low):
            return rounding
    return None


def _tells_apart(limits: Callable[[float], tuple[float, float]], rejected: float, accepted: float) -> bool:
    """Can no number be both at most `rejected` and at least `accepted`, by its limits?"""
    if not rejected < accepted or limits(accepted)[0] <= rejected:
        return False
    low = rejected
    high = accepted
    for _ in range(_HALVINGS):  # towards the largest number that may be of the rejected block
        middle = low + (high - low) / 2
        if limits(middle)[0] <= rejected:
            low = middle
        else:
            high = middle
    return limits(high)[1] < accepted


def _count_at_least(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How many values are at least each point."""
    return np.asarray(len(values) - np.searchsorted(np.sort(values), points, side="left"))
