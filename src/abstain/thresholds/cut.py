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
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Protocol, TypeGuard, get_args

import numpy as np

from abstain import scores
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import check_choice
from abstain._stored import Within
from abstain._tables import count_noun
from abstain.core.simplex import KEY_AGREEMENT
from abstain.core.sorting import RankedSamples
from abstain.errors import AbstainWarning, DtypeError, InputError
from abstain.thresholds.rounding_errors import (
    MANTISSA_BITS,
    ROUNDING_OF,
    ExactBounds,
    Precision,
    Rounding,
    bounds_of_logits,
    bounds_of_numbers,
    bounds_of_plain,
    bounds_of_probabilities,
    rounding_of_decimals,
)

Units = Literal["plain", "key"]
Source = Literal["logits", "probs", "binary", "key", "plain", "own"]
Number = Annotated[float, Within(infinite=True)]

STORABLE_SCORES = (*scores.NAMES, *scores.ENSEMBLE_NAMES, *scores.READING_NAMES)
# no bound on their rounding error is known
_SCORES_WITHOUT_ERROR_BOUND = (
    "clamped_logit_entropy",
    *scores.ENSEMBLE_NAMES,
)
# stands for a missing confidence, and ranks such samples last
NO_CONFIDENCE = -float(np.finfo(np.float64).max)
_LARGEST_KEY = 745.0  # -log of the smallest float64: no probability has a larger rank key
_MAX_INSPECTED = 4096  # numbers of an array that are inspected to see to which precision they were rounded
_BISECTION_STEPS = 24  # steps of a bisection: 2^-24 of the distance between two confidences is left
# In place of the number of classes where there are no class scores. Only bounds of class scores depend on that number,
# and these come with it, so any number will do.
_ANY_CLASS_COUNT = 2
_SHORT_BITS = 5  # mantissa bits; so short a number is exact in every type
_MIN_SAMPLES_BEYOND_CHANCE = 20  # samples; in a smaller call, a few short numbers may be chance
# so many informative numbers show that data are coarser than in calibration, whatever calibration held
_MIN_INFORMATIVE_BEYOND_CHANCE = 8
_MOST_DECIMALS = 6  # numbers that need more to be written are taken as not rounded to decimals
# so many informative numbers of few decimals are no chance, where the calibration had numbers of many decimals
_MIN_INFORMATIVE_WITH_DECIMALS = 3
# how near to a multiple of 0.1, 0.01, ... a number must be, as a share of that step; larger errors show nothing
_LARGEST_SHARE_OF_STEP = 0.05


class ObservedPrecision(NamedTuple):
    """To which precision numbers were rounded before they were stored.

    Logits of a bfloat16 model saved as float32, or a float32 column read as float64, are rounded more coarsely than
    their type says. Whole numbers and short fractions (3/4, 7/16) are exact in every type and say nothing;
    all other numbers are informative.

    Attributes
    ----------
    coarsest, finest : str or None
        The coarsest types that hold at least one, and all, of the informative numbers; None where there are none.
    informative_count : int
        How many different informative numbers were seen.
    decimals : int or None
        The fewest decimals with which all numbers can be written, informative or not; None if that takes more than six.
    """

    coarsest: Precision | None
    finest: Precision | None
    informative_count: int
    decimals: int | None


class RoundedDecisions(NamedTuple):
    """What a threshold decides on samples whose confidences were rounded; arrays of bool, one entry per sample."""

    is_accepted: np.ndarray
    is_ambiguous: np.ndarray  # rounding hides whether the sample is above or below the threshold


class EqualConfidences(NamedTuple):
    """Which calibration confidences occur among new ones."""

    is_found: np.ndarray  # of bool, one entry per calibration confidence
    # how many new samples have the confidence of another new one, as far as calibration samples can be told apart
    shared_count: int


class LearnedScore(Protocol):
    """A confidence that was learned from labelled rows, as `abstain.learn_confidence` returns it.

    Rules remember its `fingerprint`, a text that names it, and refuse the values of another one.
    """

    @property
    def fingerprint(self) -> str:
        """Digits that differ between two confidences."""

    def refuse_fitted_rows(self, function: str, confidence: np.ndarray) -> None:
        """Raise InputError if these values are of rows that it was fitted on; `function` is for the message."""

    def count_fitted_rows(self, confidence: np.ndarray) -> str:
        """How many of the rows with these values it was fitted on, in words; an empty text for none."""


ScoreName = str | LearnedScore  # a name in `abstain.scores`, or a learned confidence


def is_learned(score: Any) -> TypeGuard[LearnedScore]:
    """Is this a learned confidence, rather than the name of a score or a function?"""
    return hasattr(score, "fingerprint") and hasattr(score, "refuse_fitted_rows")


def warn_of_fitted_rows(function: str, score: Any, confidence: np.ndarray, *, stacklevel: int = 4) -> None:
    """Warn if a learned confidence was fitted on rows that a rule is checked on; `score` may be the name of a score.

    `confidence` holds its value for each row, NaN for rows without one. `function` is the public function that warns;
    its caller is `stacklevel` calls above the warning: past this function, the public one and its check of arguments.
    """
    # in words, such as "about 40 of 840 rows"; "" for none
    fitted_rows = score.count_fitted_rows(confidence[~np.isnan(confidence)]) if is_learned(score) else ""
    if fitted_rows:
        warnings.warn(
            f"{function}: {fitted_rows} are rows that the learned confidence was fitted on, so a check of them "
            f"flatters the rule. Check other rows.",
            AbstainWarning,
            stacklevel=stacklevel,
        )


class CheckedConfidences(NamedTuple):
    """Confidences of some samples, and what is known of where they come from.

    `values` are float64: rank keys of a score that saturates, unless the source is "plain" or "own"; otherwise the
    numbers themselves. `dtype` is the type they came in, `observed_precision` the precision that they show.
    `abs_largest_logit` is the absolute value of each row's largest logit, on which its rounding depends; a single 0
    without logits. `learned_fingerprint` names the learned confidence that computed them, None for all others.
    """

    values: np.ndarray
    source: Source
    dtype: Precision
    observed_precision: ObservedPrecision
    classes: int | None = None
    abs_largest_logit: np.ndarray = np.zeros(())
    learned_fingerprint: str | None = None
    class_scores_came_as_vector: bool = (
        False  # class scores came as a vector, which is the form of a binary model
    )

    @property
    def shows_precision_beyond_chance(self) -> bool:
        """Is the observed precision more than chance? One short number in a call of one sample is nothing unusual."""
        return self.observed_precision.informative_count >= 2 or (
            self.observed_precision.informative_count == 1 and self.values.size >= _MIN_SAMPLES_BEYOND_CHANCE
        )

    @property
    def holds_only_short_numbers(self) -> bool:
        """Are all numbers whole or short fractions, so that any precision may have been their own?"""
        return self.observed_precision.finest is None

    @property
    def coarsest_possible_precision(self) -> Precision:
        """The coarsest precision that holds all numbers exactly: they may have been rounded to it."""
        if self.observed_precision.finest is not None:
            return self.observed_precision.finest
        return "float16" if self.dtype == "float16" else "bfloat16"

    @property
    def likely_precision(self) -> Precision:
        """The precision that the numbers show, or that of their type where they are too few or too short to show it."""
        if self.shows_precision_beyond_chance and self.observed_precision.finest is not None:
            return self.observed_precision.finest
        return self.dtype

    def take(self, rows: np.ndarray) -> CheckedConfidences:
        """Some of the samples."""
        largest_logit = self.abs_largest_logit
        if largest_logit.ndim:
            largest_logit = largest_logit[rows]
        return self._replace(values=self.values[rows], abs_largest_logit=largest_logit)

    def flattened(self) -> CheckedConfidences:
        """The same samples in one row, whatever the shape of the confidences was."""
        largest_logit = self.abs_largest_logit
        if largest_logit.ndim:
            largest_logit = largest_logit.reshape(-1)
        return self._replace(values=self.values.reshape(-1), abs_largest_logit=largest_logit)


def read_confidences(
    name: str,
    score: ScoreName | None,
    *,
    confidence: ArrayLike | None = None,
    logits: ArrayLike | None = None,
    probs: ArrayLike | None = None,
    units: Units | None = None,
) -> CheckedConfidences:
    """Read the confidences of samples: numbers with their unit, or class scores that `score` turns into rank keys.

    Give exactly one of `confidence` (one number per sample), `logits` and `probs` (one row per sample; one column is
    class 1 of a binary model). `name` is the calling function, for messages; `score` a name in `abstain.scores`, a
    learned confidence, or None for the user's own confidences. Confidences of a score that saturates need `units`: a
    rank key of 0.9 and a probability of 0.9 are different things. Raises InputError for arguments that do not go
    together. A rank key orders samples as its score does, but does not round to the score's largest value. A score
    saturates if it rounds to its largest value, such as 1, for many samples.
    """
    if units is not None:
        check_choice(name, "units", units, get_args(Units))
    if sum(x is not None for x in (confidence, logits, probs)) != 1:
        raise InputError(f"{name}: takes confidences, or `logits=` or `probs=`, one of them.")
    if is_learned(score):
        if confidence is None:
            raise InputError(
                f"{name}: a learned confidence is given by its values, got logits or probabilities. "
                f"Pass `learned(logits=...)` as the confidence."
            )
        confidences = _read_numbers(name, None, confidence, units=None)
        return confidences._replace(learned_fingerprint=score.fingerprint)
    assert score is None or isinstance(score, str)
    if confidence is not None:
        return _read_numbers(name, score, confidence, units)
    if score is None:
        raise InputError(f"{name}: this rule is for confidences of your own, got logits or probabilities.")
    user_scores = logits if probs is None else probs
    rank_keys = np.asarray(to_host(scores.by_name(score)(logits, probs=probs)), dtype=np.float64)
    class_scores = np.asarray(to_host(user_scores))
    dtype = _precision_of_dtype(user_scores)
    is_one_column = class_scores.shape == rank_keys.shape or class_scores.shape[-1] == 1
    source: Source
    abs_largest_logit = np.zeros(())  # the rounding of probabilities does not depend on it
    if probs is None:
        source = "logits"
        # one column z stands for the two logits -z/2 and z/2
        largest_logit = (
            class_scores.reshape(rank_keys.shape) / 2 if is_one_column else class_scores.max(axis=-1)
        )
        # rounding moves a logit by a share of its size: `Cut` bounds the error of a key by the largest logit
        abs_largest_logit = np.abs(largest_logit.astype(np.float64))
    else:
        source = "binary" if is_one_column else "probs"
    return CheckedConfidences(
        values=rank_keys,
        source=source,
        dtype=dtype,
        observed_precision=_detect_precision(class_scores, dtype),
        classes=2 if is_one_column else int(class_scores.shape[-1]),
        abs_largest_logit=abs_largest_logit,
        class_scores_came_as_vector=class_scores.ndim
        == 1,  # for the message if the rule is for more classes than two
    )


def _read_numbers(name: str, score: str | None, confidence: Array, units: Units | None) -> CheckedConfidences:
    """Read confidences that the user computed, and note their source and precision.

    A score saturates if it rounds to its largest value, such as 1, for many samples. Its numbers are those that people
    know, such as probabilities (source and units "plain"), or rank keys, which order samples in the same way and do not
    round ("key"). The numbers of any other score are their own rank keys (source "key", whatever `units` is). Without a
    named score the source is "own".

    Raises DtypeError for complex numbers, dates, and what does not convert to floats; InputError if a score that
    saturates comes without `units`, or a number cannot be of this score. NaN stands for a missing confidence and is
    allowed. `name` is the calling function, for messages.
    """
    user_values = np.asarray(to_host(confidence))
    # numpy would convert complex numbers, by their real parts, and times (timedelta, datetime)
    is_convertible = user_values.dtype.kind not in "cmM"
    try:
        values = user_values.astype(np.float64) if is_convertible else None
    except (TypeError, ValueError):
        values = None
    if values is None:
        rule = "`confidence` must hold real numbers, one per sample"
        raise DtypeError(f"{name}: {rule}, got dtype {user_values.dtype}.")
    dtype = _precision_of_dtype(confidence)  # the type they came in, such as "float32"; "float64" for lists
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
        check_domain(name, score, source, values)  # raises for numbers that cannot be of this score
    return CheckedConfidences(
        values=values,
        source=source,
        dtype=dtype,
        # numbers may have been rounded to a coarser type than `dtype` before they were stored in it
        observed_precision=_detect_precision(values, dtype),
    )


def check_domain(name: str, score: str, source: Source, values: np.ndarray) -> None:
    """Raise InputError for numbers that cannot be of this score in this unit.

    `source` "plain" means numbers such as probabilities, "key" rank keys; other sources, scores that do not saturate
    and NaN are not checked. `name` is the calling function, for messages. A score saturates if it rounds to its largest
    value, such as 1, for many samples; its rank key orders samples in the same way but does not round.
    """
    confidences = values[~np.isnan(values)]
    if not confidences.size or not scores.by_name(score).saturates:
        return
    smallest = float(confidences.min())
    largest = float(confidences.max())
    # of plain numbers: 1 for probabilities, which also are at least 0; 0 for negative entropies
    upper_bound = _largest_plain_value(score)
    if source == "plain" and (largest > upper_bound or (upper_bound == 1 and smallest < 0)):
        rule = f"a plain {score} is {'at most 0' if upper_bound == 0 else 'from 0 to 1'}"
        wrong = largest if largest > upper_bound else smallest
        remedy = (
            'Say units="key" for rank keys, as `abstain.scores` gives them, or give `logits=` or `probs=`.'
        )
        raise InputError(f"{name}: {rule}, got {wrong:g}. {remedy}")
    # probabilities have keys of at least 0; keys of entropies, which may exceed 1, have either sign
    if source == "key" and upper_bound == 1 and smallest < 0:
        rule = f"a rank key of {score} is at least 0"
        raise InputError(f"{name}: {rule}, got {smallest:g}. Give `logits=` or `probs=`.")


@functools.cache
def _largest_plain_value(score: str) -> float:
    """The largest plain number of a score that saturates: 1 for probabilities, 0 for negative entropies."""
    return float(scores.display(score, np.finfo(np.float64).max)) + 0.0


def _precision_of_dtype(values: Array) -> Precision:
    """The type that numbers are stored in; whole numbers and lists are as good as float64."""
    name = str(getattr(values, "dtype", "float64")).rsplit(".", 1)[-1]
    return next((precision for precision in ROUNDING_OF if precision == name), "float64")


def _detect_precision(values: np.ndarray, dtype: Precision) -> ObservedPrecision:
    """Find out to which precision numbers were rounded before they were stored as `dtype`.

    Counts the mantissa bits in use of the first few thousand values. Whole numbers, short fractions and infinite or
    missing values show nothing; the others are informative. In the result, `coarsest` is the coarsest type that holds
    at least one of the informative numbers exactly, `finest` the coarsest that holds all of them. Without informative
    numbers these are None, and the count is 0. `decimals` is the fewest with which all numbers can be written.
    """
    numbers = np.unique(values.reshape(-1)[:_MAX_INSPECTED].astype(np.float64))
    numbers = numbers[np.isfinite(numbers) & (np.rint(numbers) != numbers)]  # finite and not whole
    # The mantissa as a whole number of 53 bits, for a negative number negative too. Zeros at its end are bits that are
    # not in use.
    integer_mantissa = np.ldexp(np.frexp(numbers)[0], 53).astype(np.int64)
    lowest_set_bit = integer_mantissa & -integer_mantissa
    lowest_bit_position = np.frexp(lowest_set_bit.astype(np.float64))[1]  # from 1 to 53
    bits_used = 54 - lowest_bit_position
    # fractions of at most five bits, such as 3/4, are exact in every type
    bits_used = bits_used[bits_used > _SHORT_BITS]
    if not len(bits_used):
        return ObservedPrecision(coarsest=None, finest=None, informative_count=0, decimals=None)
    # `MANTISSA_BITS` lists precisions from coarse to fine; none finer than `dtype` is possible
    possible = [precision for precision in MANTISSA_BITS if MANTISSA_BITS[precision] <= MANTISSA_BITS[dtype]]
    if dtype == "float16":  # models use one of the two 16-bit types: bfloat16 is not looked for here
        possible = ["float16"]
    coarsest = next(precision for precision in possible if bits_used.min() <= MANTISSA_BITS[precision])
    finest = next(precision for precision in possible if bits_used.max() <= MANTISSA_BITS[precision])
    # a number written with few decimals is stored as the nearest one that its type holds
    decimals = _fewest_decimals(numbers, error=2 * ROUNDING_OF[finest].unit * np.abs(numbers))
    return ObservedPrecision(coarsest, finest, informative_count=len(bits_used), decimals=decimals)


def _fewest_decimals(numbers: np.ndarray, error: Any) -> int | None:
    """The fewest decimals with which all numbers can be written, up to an absolute error; None if six are too few.

    `error` is one number, or one for each number. Numbers are taken to need more decimals where the error is too large
    to tell.
    """
    for decimals in range(_MOST_DECIMALS + 1):
        steps = numbers * 10.0**decimals  # the numbers, in units of the last decimal
        tolerance = np.asarray(error * 10.0**decimals)
        if (tolerance > _LARGEST_SHARE_OF_STEP).any():
            return None
        # the multiplication above rounds too
        if (np.abs(steps - np.rint(steps)) <= tolerance + 2.0**-52 * np.abs(steps)).all():
            return decimals
    return None


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
    learned : str or None
        Fingerprint of the learned confidence that the numbers are of; None for all others.

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
    learned: str | None = None

    def read(self, name: str, *, score: ScoreName | None = None, **columns: Any) -> CheckedConfidences:
        """Read the confidences of new samples; raise InputError where they cannot be those of this rule.

        `columns` are `confidence`, `logits` or `probs`, and `units`. `score` is the score that the user names or the
        learned confidence, None to take the score of the rule. `name` is the calling function, for messages.
        """
        self.check_score(name, score)
        return self.refuse_incomparable(
            name, read_confidences(name, score if is_learned(score) else self.score, **columns)
        )

    def check_score(self, name: str, score: ScoreName | None) -> None:
        """Raise InputError if the user names another score than that of the rule.

        None stands for the score of the rule. A rule for a learned confidence needs that confidence itself (an object,
        not a name), since its values look like those of any other. Such a rule has its fingerprint, a text, in
        `learned`; other rules have None there.
        """
        if is_learned(score) or self.learned is not None:
            fingerprint = score.fingerprint if is_learned(score) else None
            if fingerprint != self.learned:
                got = "another confidence"
                if fingerprint is not None:
                    got = f"the learned confidence {fingerprint}"
                remedy = "Calibrate a rule for it"
                if self.learned is not None:
                    remedy = "Pass `score=` the learned confidence whose values these are"
                raise InputError(f"{name}: this rule is for {self.described}, got {got}. {remedy}.")
            return
        if score is not None and score != self.score:
            remedy = "Calibrate a rule for it, or give what this one is for."
            raise InputError(f"{name}: this rule is for {self.described}, got {score}. {remedy}")

    def refuse_incomparable(self, name: str, confidences: CheckedConfidences) -> CheckedConfidences:
        """Return the confidences unchanged if they can be compared with those of the calibration.

        Raises InputError for another number of classes, or for the user's own numbers from another scale. `name` is the
        calling function, for messages. `confidences` are those of the new samples, with their source and precision.
        Their score and unit were checked before, when they were read (`read`).
        """
        # the number of classes is None without class scores; then there is nothing to compare
        if None not in (self.classes, confidences.classes) and confidences.classes != self.classes:
            # a vector is read as the scores of class 1 of a binary model, one for each sample
            if confidences.class_scores_came_as_vector:
                rule = f"one row of {self.classes} class scores per sample"
                remedy = "For one sample, pass a table with one row: `x[None]`."
                raise InputError(f"{name}: needs {rule}, got a vector of {len(confidences.values)}. {remedy}")
            rule = f"this rule was calibrated on {self.classes} classes"
            raise InputError(f"{name}: {rule}, got {confidences.classes}. Calibrate one for this model.")
        # numbers of no score with a name: only their range shows on which scale they are
        if self.has_own_numbers:
            self._check_range(name, confidences.values)  # raises if they come from another scale
        return confidences

    @property
    def has_own_numbers(self) -> bool:
        """Are the confidences the user's own numbers, and not those of a score with a name?"""
        return self.source == "own"

    @property
    def described(self) -> str:
        """What the rule is for, in words."""
        return self.learned_name or self.score or "confidences of your own"

    @property
    def learned_name(self) -> str | None:
        """The learned confidence that the rule is for, in words; None for all other rules."""
        return None if self.learned is None else f"the learned confidence {self.learned}"

    def _check_range(self, name: str, values: np.ndarray) -> None:
        """Raise InputError if new confidences come from another scale than those of the calibration.

        That is so where the calibration lay within [0, 1], or at and below 0, and a new number does not. Warns where
        many numbers in [0, 1] meet a threshold above 1. NaN and numbers at or below `NO_CONFIDENCE` stand for samples
        without a confidence and are not checked.

        `lowest` and `highest` are the range of the calibration confidences, `accepted` the lowest one that was
        accepted. All are the user's own numbers, which belong to no score that would tell their scale.
        """
        confidences = values[values > NO_CONFIDENCE]  # False for NaN
        if not confidences.size:
            return
        largest = float(confidences.max())
        smallest = float(confidences.min())
        scale = None  # words for the scale of the calibration, where a new number does not lie on it
        wrong = 0.0  # that number
        if self.lowest >= 0 and self.highest <= 1 and (largest > 1 or smallest < 0):
            scale = "within [0, 1]"
            wrong = largest if largest > 1 else smallest
        elif self.highest <= 0 and self.lowest < 0 and largest > 0:
            scale = "at or below 0"
            wrong = largest
        if scale is not None:
            rule = f"this rule was calibrated on confidences {scale}"
            remedy = (
                "Give the confidence it was calibrated on: no percentages, no rank keys for probabilities."
            )
            raise InputError(f"{name}: {rule}, got {wrong:g}. {remedy}")
        # a rule that accepted nothing in calibration has no lowest accepted confidence (None): no warning
        look_like_probabilities = smallest >= 0 and largest <= 1 < (self.accepted or 0.0)
        # fewer than 20 may be chance
        if look_like_probabilities and confidences.size >= _MIN_SAMPLES_BEYOND_CHANCE:
            message = f"none of {confidences.size:,} confidences will be accepted: all lie in [0, 1]"
            calibrated = f"the rule was calibrated on {self.lowest:g} to {self.highest:g}"
            remedy = "Rank keys and probabilities are different numbers"
            warnings.warn(f"{name}: {message}, and {calibrated}. {remedy}.", AbstainWarning, stacklevel=4)

    def decide(self, name: str, confidences: CheckedConfidences, value: float | None) -> np.ndarray:
        """Return True for each sample to accept by the threshold `value`; a NaN is never accepted.

        A block is a set of calibration samples with equal confidence. Numbers in the form of the calibration (same
        source, type and precision) are compared exactly, unless a block next to the threshold holds several samples.
        All others are accepted where they reach `value` up to rounding and rounding cannot have made them from the
        highest rejected block. A `value` of None accepts nothing, minus infinity everything but NaN. Raises InputError
        if rounding hides on which side a sample lies. `name` is the calling function, for messages. `confidences` are
        those of the new samples, with their source and precision.

        `accepted` is the lowest confidence that was accepted in calibration, None if nothing was. A `Rounding` is a
        bound on the error of storing a number: numbers are compared as if each may have been moved by that much.
        """
        values = confidences.values
        if value is None or self.accepted is None:
            return np.zeros(values.shape, dtype=bool)
        if value == -math.inf:
            return ~np.isnan(values)
        # None for numbers in the form of the calibration, unless a block next to the threshold holds several samples
        rounding = self.rounding_to_allow_for(name, confidences)
        if rounding is None:  # to be compared exactly
            return np.asarray(values >= value)
        # both of bool, one entry per sample; ambiguous: rounding hides whether it is the lowest accepted or the highest
        # rejected confidence
        is_accepted, is_ambiguous = self._decide_within_rounding(confidences, value, rounding)
        # This rounding is the coarsest at which the two blocks next to the threshold can be told apart; with the finest
        # one that is possible fewer samples are ambiguous. Rows of larger logits than in calibration are rounded more
        # coarsely, and stay ambiguous.
        if is_ambiguous.any():
            finest = _finest_rounding_between(self.source, confidences.source)
            finer = self._decide_within_rounding(confidences, value, finest)
            is_accepted = np.where(is_ambiguous, finer.is_accepted, is_accepted)
            is_ambiguous = is_ambiguous & finer.is_ambiguous
        if is_ambiguous.any() and not self._has_calibration_form(confidences):
            # raises an InputError
            self._raise_refusal(
                name, confidences, "rounding hides on which side of the threshold samples lie"
            )
        # samples that are still ambiguous come in the form of the calibration: these are compared exactly
        return np.where(is_ambiguous, values >= value, is_accepted)

    def _decide_within_rounding(
        self, confidences: CheckedConfidences, value: float, rounding: Rounding
    ) -> RoundedDecisions:
        """Decide which samples are accepted, and which are ambiguous, if numbers have this rounding error.

        A sample is accepted if its exact confidence may reach the threshold `value` and cannot be `rejected`, the
        highest confidence that was rejected in calibration (None: nothing was rejected). It is ambiguous if its exact
        confidence may be that one, and may also be `accepted`, the lowest that was accepted; there must be one. The
        caller decides ambiguous samples with a smaller rounding error, or exactly, or refuses them.

        `value` is above `rejected` and at most `accepted`, the next calibration confidence; all three are in the unit
        of the calibration. It is enough that a sample may reach `value`, since rounding may have moved one whose exact
        confidence is `accepted` below it.

        `rounding` is the error that storing a number may have made. `confidences` are those of the new samples, with
        their source and precision; a NaN is neither accepted nor ambiguous.
        """
        # `low` and `high`: the least and the largest exact number that may lie behind each one. Those of new samples
        # and of the calibration are on one scale, whatever units the numbers came in.
        exact = self._new_bounds(confidences, rounding)
        may_reach_value = np.asarray(exact.high >= self._calibration_bounds(value, rounding).low)
        if self.rejected is None:
            return RoundedDecisions(may_reach_value, is_ambiguous=np.zeros(may_reach_value.shape, dtype=bool))
        is_above_rejected = np.asarray(exact.low > self._calibration_bounds(self.rejected, rounding).high)
        may_be_lowest_accepted = exact.high >= self._calibration_bounds(self.accepted, rounding).low
        return RoundedDecisions(
            is_accepted=may_reach_value & is_above_rejected,
            is_ambiguous=np.asarray(~is_above_rejected & may_be_lowest_accepted),
        )

    def count_at_least(
        self, name: str, confidences: CheckedConfidences, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Count the new confidences that surely and that possibly lie at or above each calibration confidence.

        `points` are calibration confidences, in the unit of the calibration, in any order. Returns two arrays of
        counts, one entry per point; they are the same where numbers are compared exactly, and differ by rounding
        otherwise. Raises InputError if the new numbers are too coarse for this threshold. `name` is the calling
        function, for messages. `confidences` are those of the new samples, with their source and precision, and hold
        no NaN.
        """
        # raises the InputError; None for numbers in the form of the calibration: same source, type and precision
        rounding = self.rounding_to_allow_for(name, confidences)
        if rounding is None:  # compare exactly: for each point, how many values are at least that
            count = _count_values_from(confidences.values, points)
            return count, count
        # `low` and `high`: the least and the largest exact number that may lie behind each rounded one, on one scale
        new = self._new_bounds(confidences, rounding)
        calibration = self._calibration_bounds(points, rounding)
        surely = _count_values_from(new.low, calibration.high)
        possibly = _count_values_from(new.high, calibration.low)
        return surely, possibly

    def find_equal(self, confidences: CheckedConfidences, points: np.ndarray) -> EqualConfidences:
        """Find which calibration confidences occur among new ones, as exactly as both were stored.

        `points` are calibration confidences, in the unit of the calibration. The same sample is found in another
        precision or unit too. `confidences` are those of the new samples, all finite, with their source and precision.
        In the result, `is_found` has one entry per point; `shared_count` is the number of new samples that have the
        confidence of another new one, from which the caller computes how many points are found by chance.
        """
        # The ranges of exact numbers, `low` to `high`, that may lie behind each new and each calibration confidence, on
        # one scale. The rounding error allowed for is the smallest possible, without that of writing few decimals: a
        # larger one would find too many.
        rounding = _finest_rounding_between(self.source, confidences.source)
        new = self._new_bounds(confidences, rounding, with_decimals=False)
        calibration = self._calibration_bounds(points, rounding)
        rising_low = np.sort(new.low)
        rising_high = np.sort(new.high)

        def count_overlaps(bounds: ExactBounds) -> np.ndarray:
            """For each of these ranges, ends included: how many ranges of new confidences overlap it."""
            ends_below = np.searchsorted(rising_high, bounds.low, side="left")
            starts_at_most = np.searchsorted(rising_low, bounds.high, side="right")
            return np.asarray(starts_at_most - ends_below)

        # A point is found by chance as often as a new sample equals another new one. Calibration numbers may have been
        # stored more coarsely than the new ones (float32, or logits), and coarser numbers are equal more often. So one
        # of the two new samples is taken as if it had been stored as the calibration was.
        new_as_calibration = self._calibration_bounds(confidences.values, rounding, source=confidences.source)
        return EqualConfidences(
            is_found=count_overlaps(calibration) > 0,
            # each sample overlaps itself
            shared_count=int((count_overlaps(new_as_calibration) > 1).sum()),
        )

    def rounding_to_allow_for(self, name: str, confidences: CheckedConfidences) -> Rounding | None:
        """Return the rounding error to allow for in a comparison with the threshold; None to compare exactly.

        It is the coarsest at which `accepted` and `rejected`, the two calibration confidences next to the threshold,
        can still be told apart, because numbers rarely show how they were rounded before. Numbers in the form of the
        calibration (same source, type and precision) are compared exactly, unless several calibration samples share one
        of the two confidences (`tied`), or if no rounding keeps the two apart. If one of the two is missing, the error
        is that of the coarser of both precisions.

        Raises InputError for numbers in another form if the score has no known error bound, or if not even their own
        precision keeps the two confidences apart; numbers so short that they show no precision are then taken as never
        rounded. `name` is the calling function, for messages. `confidences` are those of the new samples, with their
        source and precision.
        """
        has_calibration_form = self._has_calibration_form(confidences)
        if has_calibration_form and not self.tied:
            return None
        if not has_calibration_form and self.score in _SCORES_WITHOUT_ERROR_BOUND:
            self._raise_refusal(name, confidences, f"the rounding of {self.score} has no known bound")
        error_of_new = self._error_of_new(confidences)
        if self.accepted is None or self.rejected is None:
            coarser_of_both = ROUNDING_OF[self.precision].with_error_at_least(error_of_new)
            return coarser_of_both
        # The error that rounded class scores cause in a confidence grows with the number of classes and, for logits,
        # with the largest logit of the row. New class scores tell their number of classes. Other numbers do not, but
        # their bounds do not depend on it.
        class_count = confidences.classes or _ANY_CLASS_COUNT
        # None if no rounding keeps the two confidences next to the threshold apart
        rounding = _coarsest_separating_rounding(
            self,
            source=confidences.source,
            error_of_new=error_of_new,
            class_count=class_count,
            # not that of the new rows: whether one sample is refused must not depend on the others
            abs_largest_logit=self._usual_abs_largest_logit(class_count),
        )
        if rounding is not None or has_calibration_form:
            return rounding
        if confidences.holds_only_short_numbers or self._too_few_decimals(confidences) is not None:
            # Perhaps short numbers were never rounded, and most numbers of few decimals lie far from the threshold.
            # With the least error that is possible between numbers of these two sources, `decide` refuses only rows
            # near the threshold.
            return _finest_rounding_between(self.source, confidences.source)
        self._raise_refusal(name, confidences, "rounding hides on which side of the threshold samples lie")

    def _usual_abs_largest_logit(self, class_count: int) -> float:
        """Return the absolute value of the largest logit to expect in a row near the threshold.

        It is the largest one of the calibration (`magnitude`), or the one that the lowest accepted confidence suggests
        if the calibration had no logits; 0 if nothing was accepted. It must not depend on the new samples: whether one
        is refused would then depend on the others. `class_count` is the number of classes.
        """
        if self.magnitude or self.accepted is None:
            return self.magnitude
        rank_key = float(self._to_common_scale(self.source, self.accepted))
        return min(abs(rank_key), _LARGEST_KEY) + math.log(class_count)

    def _has_calibration_form(self, confidences: CheckedConfidences) -> bool:
        """Do new numbers come as those of the calibration did: same source, same type, rounded to the same precision?

        Whole numbers and short fractions (3/4, 7/16) are exact in every type; any other number is informative: it shows
        to which precision it was rounded. Of the calibration numbers, `precision` is the coarsest type that holds all,
        `coarsest` the coarsest type that holds at least one of the informative ones, None if none is informative.

        Numbers may be short by chance: a few whole numbers or short fractions are nothing unusual. A batch of 20 or
        more is, where the calibration had longer numbers: they may have been rounded to bfloat16. In the same way a
        batch may show that it was written with fewer decimals than the calibration. `confidences` are those of the new
        samples, with their source and precision.
        """
        if (confidences.source, confidences.dtype) != (self.source, self.dtype):
            return False
        if self._too_few_decimals(confidences) is not None:
            return False
        # the coarsest type that holds all new numbers exactly; short numbers alone: the coarsest there is
        new_precision = confidences.coarsest_possible_precision
        if new_precision == self.precision:
            return True
        if confidences.holds_only_short_numbers:  # whole numbers and short fractions: none is informative
            no_calibration_number_is_informative = self.coarsest is None
            return (
                no_calibration_number_is_informative or confidences.values.size < _MIN_SAMPLES_BEYOND_CHANCE
            )
        new_bits = MANTISSA_BITS[new_precision]  # the more bits, the finer the type
        if new_bits > MANTISSA_BITS[self.precision]:  # finer than the calibration
            return False
        # The new numbers are coarser than those of the calibration. They have the same form only if that may be chance.
        # It is no chance with eight informative numbers or more, nor with two (or one in a batch of 20) if all are
        # coarser than each informative number of the calibration.
        has_many_informative = (
            confidences.observed_precision.informative_count >= _MIN_INFORMATIVE_BEYOND_CHANCE
        )
        is_coarser_than_all = self.coarsest is not None and new_bits < MANTISSA_BITS[self.coarsest]
        return not has_many_informative and not (
            is_coarser_than_all and confidences.shows_precision_beyond_chance
        )

    def _precision_to_allow_for(self, confidences: CheckedConfidences) -> Precision:
        """Return the precision that new numbers may have been rounded to.

        It is the likely one if they come in the form of the calibration, otherwise the coarsest that is possible.
        """
        if self._has_calibration_form(confidences):
            return confidences.likely_precision
        return confidences.coarsest_possible_precision

    def _error_of_new(self, confidences: CheckedConfidences, *, with_decimals: bool = True) -> Rounding:
        """Return the error that new numbers may have by themselves: of their precision, and of writing few decimals."""
        rounding = ROUNDING_OF[self._precision_to_allow_for(confidences)]
        decimals = self._too_few_decimals(confidences) if with_decimals else None
        return rounding if decimals is None else rounding.with_error_at_least(rounding_of_decimals(decimals))

    def _too_few_decimals(self, confidences: CheckedConfidences) -> int | None:
        """Return the number of decimals that new numbers were written with, if the calibration had more; else None.

        A batch of 20 samples or more shows that: all its numbers are multiples of 0.01, say, and three or more are no
        short fractions. Where the calibration had few decimals too, numbers of still fewer may be chance, unless eight
        or more differ. Class scores are looked at only if the confidence is the largest probability, since the
        calibration confidences then show with how many decimals the probabilities were written. `confidences` are those
        of the new samples, with their source and precision.
        """
        observed = confidences.observed_precision
        is_probability = self.score == "max_softmax" and confidences.source in ("probs", "binary")
        shows_decimals = confidences.source in ("key", "plain", "own") or is_probability
        if (
            observed.decimals is None
            or not shows_decimals
            or confidences.values.size < _MIN_SAMPLES_BEYOND_CHANCE
        ):
            return None
        least_informative = _MIN_INFORMATIVE_WITH_DECIMALS
        if self._decimals is not None:  # else the calibration had more decimals than any that are looked for
            if observed.decimals >= self._decimals:
                return None
            least_informative = _MIN_INFORMATIVE_BEYOND_CHANCE
        return observed.decimals if observed.informative_count >= least_informative else None

    @functools.cached_property
    def _decimals(self) -> int | None:
        """With how many decimals the two confidences next to the threshold can be written; None if six are too few.

        These are `accepted` and `rejected`. A rank key may stand for a number of few decimals: then that number counts.
        """
        stored = [x for x in (self.accepted, self.rejected) if x is not None and x > NO_CONFIDENCE]
        numbers = np.asarray(stored, dtype=np.float64)
        # the relative error of a number of few decimals, once it is stored
        share = 4 * ROUNDING_OF[self.precision].unit
        as_stored = _fewest_decimals(numbers, error=share * np.abs(numbers))
        if self.score is None or self.source == "plain":
            return as_stored
        plain = np.asarray(scores.display(self.score, numbers), dtype=np.float64)
        if self.source == "key":  # rank keys do not tell whether they were computed from float32
            share = max(share, 4 * ROUNDING_OF["float32"].unit)
        # a number that is computed from a rank key is off by at most this share of itself or of 1
        as_plain = _fewest_decimals(plain, error=(share + KEY_AGREEMENT) * np.maximum(1.0, np.abs(plain)))
        return min((x for x in (as_stored, as_plain) if x is not None), default=None)

    def _raise_refusal(self, name: str, confidences: CheckedConfidences, reason: str) -> NoReturn:
        """Raise the InputError for numbers in a form that this rule cannot compare, and say which form it can.

        `reason` is the part of the message that says why; `name` is the calling function. `confidences` are those of
        the new samples, with their source and precision.
        """
        coarsest = confidences.coarsest_possible_precision
        # the words for a source, such as "probabilities of class 1" for "binary"
        expected = f"{_SOURCE_NAMES[self.source]} in {self.precision}"
        coarse_form = f"{_SOURCE_NAMES[confidences.source]} in {coarsest}"
        decimals = self._too_few_decimals(confidences)
        if decimals is not None:
            coarse_form = f"{_SOURCE_NAMES[confidences.source]} with {count_noun(decimals, 'decimal')}"
            if self._decimals is not None:
                expected = f"{_SOURCE_NAMES[self.source]} with {count_noun(self._decimals, 'decimal')}"
        remedy = f"Calibrate on {coarse_form}, or give {expected}"
        # Whole numbers and short fractions may have been rounded to a coarser type than their own, or not at all: a
        # longer message says so. There is no such doubt if their own type is the coarsest that is possible.
        may_be_unrounded = confidences.holds_only_short_numbers and coarsest != confidences.dtype
        if not may_be_unrounded:
            raise InputError(f"{name}: this rule is for {expected}, got {coarse_form}: {reason}. {remedy}.")
        short_form = f"{_SOURCE_NAMES[confidences.source]} so short that they may be {coarsest}"
        remedy += " that were not rounded before"
        raise InputError(f"{name}: this rule is for {expected}, got {short_form}: {reason}. {remedy}.")

    def _calibration_bounds(
        self, values: Any, rounding: Rounding, *, source: Source | None = None
    ) -> ExactBounds:
        """Return the least and the largest exact number behind calibration confidences, on the common scale.

        On the common scale a score that saturates is its rank key, and any other number is itself (`_to_common_scale`).
        `values` are in the unit of the calibration. `rounding` is the error to allow for; it is never taken smaller
        than that of `precision`, to which the calibration data were rounded. `magnitude` is the largest absolute value
        of a calibration row's largest logit, 0 without logits; `classes` is None without class scores. Both enter the
        error of confidences that were computed from class scores.

        A source says what confidences were read from: "logits", "probs", "binary" (probabilities of class 1), "key"
        (rank keys), "plain" or "own" numbers. If `source` is given, it is that of `values`, from which they are
        converted; their error is still that of numbers stored as the calibration was (`self.source`).
        """
        source_of_values = self.source if source is None else source
        return self._exact_bounds(
            self._to_common_scale(source_of_values, values),
            source=self.source,  # in which form the numbers were rounded
            rounding=rounding.with_error_at_least(ROUNDING_OF[self.precision]),
            # without class scores the bounds do not depend on the number of classes
            class_count=self.classes or _ANY_CLASS_COUNT,
            abs_largest_logit=self.magnitude,
        )

    def _new_bounds(
        self, confidences: CheckedConfidences, rounding: Rounding, *, with_decimals: bool = True
    ) -> ExactBounds:
        """Return the least and the largest exact number behind each new confidence, on the common scale.

        On the common scale a score that saturates is its rank key, a number that orders samples as the score does but
        does not round to a largest value; any other number is itself (`_to_common_scale`). `rounding` is the error to
        allow for; it is never taken smaller than that which the new numbers may have by themselves (`_error_of_new`),
        where `with_decimals` says whether the error of writing few decimals counts.
        `confidences` are those of the new samples, with their source and precision; their `abs_largest_logit` has one
        entry per sample, the absolute value of its largest logit, or is a single 0 without logits. `magnitude` is the
        largest such value of the calibration, one number.
        """
        return self._exact_bounds(
            self._to_common_scale(confidences.source, confidences.values),
            source=confidences.source,
            rounding=rounding.with_error_at_least(
                self._error_of_new(confidences, with_decimals=with_decimals)
            ),
            # without class scores the bounds do not depend on the number of classes
            class_count=confidences.classes or self.classes or _ANY_CLASS_COUNT,
            # at least that of the calibration: only rows of still larger logits have a larger error
            abs_largest_logit=np.maximum(self.magnitude, confidences.abs_largest_logit),
        )

    def _to_common_scale(self, source: Source, values: Any) -> np.ndarray:
        """Convert numbers of any source to one scale.

        These are rank keys, -log(end - x) of a plain number x, where `end` is its largest possible value (1 for
        probabilities). Scores that do not saturate and the user's own numbers stay as they are.
        """
        numbers = np.asarray(values, dtype=np.float64)
        if source != "plain" or self.score is None:
            return numbers
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(-np.log(_largest_plain_value(self.score) - numbers))

    def _exact_bounds(
        self,
        numbers: np.ndarray,
        *,
        source: Source,
        rounding: Rounding,
        class_count: int,
        abs_largest_logit: Any,
    ) -> ExactBounds:
        """Return the least and the largest number that exact arithmetic may have given, for each rounded number.

        `numbers` and both bounds are on the common scale (`_to_common_scale`). `source` says in which form the numbers
        were rounded, and `rounding` by how much at most. `class_count` is the number of classes, which only bounds of
        class scores use ("logits", "probs", "binary"). `abs_largest_logit` is the absolute value of each row's largest
        logit, or one number for all rows, which only those of "logits" use. `lowest` and `highest` are the range of the
        calibration confidences.
        """
        if source == "logits":
            return bounds_of_logits(
                numbers, rounding, class_count=class_count, largest_logit=abs_largest_logit
            )
        if source in ("probs", "binary"):
            return bounds_of_probabilities(
                numbers,
                rounding,
                class_count=class_count,
                has_one_column=source == "binary",
                # the bounds of an entropy are wider: they hold for all other scores, entropies or not
                is_entropy=self.score not in ("max_softmax", "logit_margin"),
            )
        if source == "plain":
            assert self.score is not None  # plain numbers are those of a named score
            return bounds_of_plain(numbers, rounding, largest_plain=_largest_plain_value(self.score))
        # The arithmetic that computed a number errs by a share of the number or of `scale`, whichever is larger.
        # "key": a rank key is -log d, with d the distance of the score from full confidence. The relative error of d
        # is the absolute error of its logarithm, so the scale is 1.
        scale = 1.0
        if source == "own":
            # the user's numbers may all be far below 1 in absolute value: then the largest of them is the scale
            scale = min(1.0, max(abs(self.lowest), abs(self.highest)))
        return bounds_of_numbers(numbers, rounding, scale=scale)

    def is_consistent(self, value: float | None) -> bool:
        """Do the fields of a stored cut agree with each other and with the threshold `value`?

        The score must be known, the accepted and the rejected confidence within the range of the calibration, and the
        threshold above the rejected one and at most the accepted one. Without a threshold (None) there is no accepted
        confidence, and the rejected one is compared with nothing later, so it is not checked.

        `lowest` and `highest` are the range of the calibration confidences; `accepted` and `rejected` those next to the
        threshold. `source` "own" means numbers whose score has no name, such as those of a learned confidence;
        `learned` is the fingerprint of that, None for all others.
        """
        has_own_numbers = self.source == "own"
        # no name of a score in `abstain.scores`
        if self.score is not None and self.score not in STORABLE_SCORES:
            return False
        if self.learned is not None and not has_own_numbers:
            return False
        if (self.score is None) != has_own_numbers or not self.lowest <= self.highest:
            return False
        if value is None or self.accepted is None:
            return value is None and self.accepted is None
        # Samples without a confidence rank last, as NO_CONFIDENCE, below the range of the others. The highest rejected
        # confidence is this number where all others are accepted; the lowest accepted, where everything is.
        confidences = [x for x in (self.accepted, self.rejected) if x is not None and x > NO_CONFIDENCE]
        are_in_range = all(self.lowest <= confidence <= self.highest for confidence in confidences)
        is_above_rejected = self.rejected is None or self.rejected < value
        return are_in_range and is_above_rejected and value <= self.accepted


def cut_between(
    ranked: RankedSamples, accepted_count: int | None, confidences: CheckedConfidences, score: str | None
) -> Cut:
    """Make the cut that accepts the `accepted_count` most confident calibration samples; None accepts nothing.

    `accepted_count` must not divide samples of equal confidence (a block). `confidences` are the same confidences as
    the user gave them; they say in which form the cut was calibrated. `score` is their score, None for the user's own
    numbers. `ranked` holds the samples, most confident first. Samples without a confidence have `NO_CONFIDENCE` in its
    place, a number below every confidence.

    Later confidences are compared with the cut in whatever form they come, so it stores how the calibration numbers may
    have been rounded: `precision`, the coarsest type that holds all of them exactly (the type they came in, where they
    are too few or too short to show it), `coarsest`, the coarsest type that holds at least one that is no whole number
    or short fraction, and `magnitude`, the largest absolute value of a row's largest logit, with which the rounding
    errors of logits grow.
    """
    # one number per sample, rising from the most confident to the least; equal for equal confidences
    sorted_keys = ranked.sorted_keys
    count = accepted_count or 0
    # Does a block next to the cut hold more than one sample? Counted from 0, sample `count - 1` is the least confident
    # that is accepted, and sample `count` the most confident that is rejected.
    is_tied = False
    if count > 1:
        is_tied |= bool(sorted_keys[count - 1] == sorted_keys[count - 2])
    if count + 1 < ranked.n:
        is_tied |= bool(sorted_keys[count] == sorted_keys[count + 1])
    accepted_confidence = None  # the lowest accepted one: the smallest of the `count` most confident
    if count:
        accepted_confidence = float(ranked.smallest_confidence(np.asarray([count]))[0])
    rejected_confidence = None  # the highest rejected one: the smallest if one sample more is taken
    if count < ranked.n:
        rejected_confidence = float(ranked.smallest_confidence(np.asarray([count + 1]))[0])
    block_stops = ranked.row_stops()  # how many samples are at least as confident as each block, rising
    # the last block may hold the samples without a confidence: then the one above it is the lowest
    lowest_blocks = ranked.smallest_confidence(block_stops[-2:])
    with_confidence = lowest_blocks[lowest_blocks > NO_CONFIDENCE]
    return Cut(
        accepted=accepted_confidence,
        rejected=rejected_confidence,
        tied=is_tied,
        source=confidences.source,
        score=score,
        dtype=confidences.dtype,
        precision=confidences.likely_precision,  # of `dtype` where the numbers do not show another
        coarsest=confidences.observed_precision.coarsest,
        classes=confidences.classes,
        lowest=float(with_confidence[-1] if len(with_confidence) else lowest_blocks[-1]),
        highest=float(ranked.smallest_confidence(block_stops[:1])[0]),
        magnitude=float(confidences.abs_largest_logit.max()),
        learned=confidences.learned_fingerprint,
    )


_SOURCE_NAMES = {
    "logits": "logits",
    "probs": "probabilities",
    "binary": "probabilities of class 1",
    "key": "rank keys",
    "plain": "plain numbers",
    "own": "confidences",
}


def _finest_rounding_between(source: Source, second_source: Source) -> Rounding:
    """Return the smallest rounding error to allow for between numbers of these two sources.

    It is that of float32 where rank keys or plain numbers are compared with numbers of another source, since they do
    not tell from which logits they were computed; in all other cases that of float64.
    """
    if source != second_source and {"key", "plain"} & {source, second_source}:
        return ROUNDING_OF["float32"]
    return ROUNDING_OF["float64"]


@functools.lru_cache(maxsize=256)
def _coarsest_separating_rounding(
    cut: Cut, *, source: Source, error_of_new: Rounding, class_count: int, abs_largest_logit: float
) -> Rounding | None:
    """Return the coarsest rounding at which no new number can be both confidences next to the threshold; None if none.

    These are `cut.accepted`, the lowest confidence that was accepted in calibration, and `cut.rejected`, the highest
    that was rejected; the cut must have both. Every batch of new numbers needs the result, so it is cached. The other
    arguments describe the new numbers: their source, the error that rounding may have made in them before, the number
    of classes, and the absolute value of a row's largest logit.

    Calibration data and new data may both have been rounded before they were stored, which their numbers rarely show:
    each rounding that is tried is assumed for both. The error is never taken smaller than that of the precision which
    either of them has anyway, nor than the least error between numbers of two such sources.
    """
    for candidate in ROUNDING_OF.values():  # from coarse to fine
        rounding = candidate.with_error_at_least(_finest_rounding_between(cut.source, source))
        rounding_of_new = rounding.with_error_at_least(error_of_new)

        # the default binds the rounding of this turn of the loop
        def exact_bounds(number: float, rounding_of_new: Rounding = rounding_of_new) -> ExactBounds:
            """The least and the largest exact number that may lie behind a new number."""
            return cut._exact_bounds(
                np.asarray(number),
                source=source,
                rounding=rounding_of_new,
                class_count=class_count,
                abs_largest_logit=abs_largest_logit,
            )

        # `_calibration_bounds` allows at least for the rounding of the calibration's own precision
        largest_rejected = float(cut._calibration_bounds(cut.rejected, rounding).high)
        smallest_accepted = float(cut._calibration_bounds(cut.accepted, rounding).low)
        # is there no new number that may come from an exact one up to `largest_rejected`, and as well from an exact one
        # from `smallest_accepted` on?
        if _are_separated(exact_bounds, largest_rejected, smallest_accepted):
            return rounding
    return None


def _are_separated(
    exact_bounds: Callable[[float], ExactBounds], largest_rejected: float, smallest_accepted: float
) -> bool:
    """Is there no rounded number whose exact value may be at most the first and may also be at least the second?

    `exact_bounds` gives the least and the largest exact value behind a rounded number; both must rise with it.
    """
    if not largest_rejected < smallest_accepted:
        return False
    if exact_bounds(smallest_accepted).low <= largest_rejected:
        return False
    # A bisection for the border between rounded numbers whose exact value may be a rejected one, and those whose exact
    # value is too large for that. If the first above the border cannot be an accepted one, no smaller one can.
    may_be_rejected = largest_rejected
    cannot_be_rejected = smallest_accepted
    for _ in range(_BISECTION_STEPS):  # towards the border; fewer steps only make the answer False more often
        middle = may_be_rejected + (cannot_be_rejected - may_be_rejected) / 2
        if exact_bounds(middle).low <= largest_rejected:
            may_be_rejected = middle
        else:
            cannot_be_rejected = middle
    return bool(exact_bounds(cannot_be_rejected).high < smallest_accepted)


def _count_values_from(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How many values are at least each point."""
    return np.asarray(len(values) - np.searchsorted(np.sort(values), points, side="left"))
