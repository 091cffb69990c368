"""By how much rounding may have moved a confidence: the exact numbers that may lie behind a rounded one.

Confidences are compared on one scale, on which a score that saturates is its rank key -log(end - x): x is the plain
number (a probability, a negative entropy) and `end` its largest possible value. The same sample has slightly other
numbers as logits in float64, as probabilities in float16 or as plain numbers in float32. Each function here bounds the
exact number for one of these forms, to first order in the unit roundoff u, the largest relative error of storing a
number.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from abstain.core.simplex import KEY_AGREEMENT

Precision = Literal["bfloat16", "float16", "float32", "float64"]  # from coarse to fine

_LARGEST_KEY = 745.0  # -log of the smallest float64: no rank key made from probabilities is larger
_LARGEST_FLOAT = float(np.finfo(np.float64).max)
# Arithmetic on a score adds a few roundings. They are float32's at most, as narrower types are computed in float32.
_ARITHMETIC_ROUNDINGS = 8
# Reducing logits to a rank key (exp, sum, log) is always done in float64: room for 16 of its roundings of 2^-53.
_REDUCTION_ERROR = 16 * 2.0**-53
# An entropy has a term -p log p for each probability p. If rounding made p zero, the term that is lost is p times
# -log p, which is below 40 for every p above e^-40.
_ENTROPY_WEIGHT = 40


class Rounding(NamedTuple):
    """What storing a number does to it: a relative error of at most `unit`, or `smallest` next to zero."""

    unit: float
    smallest: float

    def with_error_at_least(self, minimum: Rounding) -> Rounding:
        """The larger error of the two, that is, the coarser rounding."""
        return Rounding(max(self.unit, minimum.unit), max(self.smallest, minimum.smallest))

    @property
    def arithmetic_error(self) -> float:
        """Relative error of computing a score from numbers that are stored with this rounding."""
        return _ARITHMETIC_ROUNDINGS * min(self.unit, ROUNDING_OF["float32"].unit)


ROUNDING_OF: dict[Precision, Rounding] = {  # from coarse to fine
    "bfloat16": Rounding(2.0**-8, 2.0**-134),
    "float16": Rounding(2.0**-11, 2.0**-25),
    "float32": Rounding(2.0**-24, 2.0**-150),
    "float64": Rounding(2.0**-53, 0.0),
}
MANTISSA_BITS: dict[Precision, int] = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}


def rounding_of_decimals(decimals: int) -> Rounding:
    """The rounding of numbers that were written with so many decimals: half a unit of the last one, at any size."""
    return Rounding(unit=0.0, smallest=0.5 * 10.0**-decimals)


class ExactBounds(NamedTuple):
    """The least and the largest exact number that may lie behind each rounded number, on the common scale."""

    low: Any  # array of the shape of the rounded numbers
    high: Any


def bounds_of_logits(
    rank_keys: np.ndarray, rounding: Rounding, *, class_count: int, largest_logit: Any
) -> ExactBounds:
    r"""Bound the exact rank keys of scores that were computed from rounded logits.

    A rank key is -log(end - x), where x is the score's plain number and `end` its largest possible value: k = -log(1 -
    p_max) for the maximum softmax. Scores that do not saturate, such as the largest logit, are their own keys.

    Rounding moves each logit z by at most u|z|, with u the relative error `rounding.unit`. To first order a key moves
    by a difference of two weighted means of these errors. Each |z| is at most :math:`|z_{\max}| + (z_{\max} - z)`, and
    a weighted mean of the distances :math:`z_{\max} - z` is at most about |k| + log K for K classes. So a key moves by
    at most :math:`2u(2|z_{\max}| + |k| + \log K)`: the maximum softmax needs about half of that, entropies need more.

    The bound is of first order, and its constants are generous, not the smallest possible. `largest_logit` is
    :math:`|z_{\max}|` of each row, or one number for all; `class_count` is K, and `rounding` that of the logits.
    """
    # cut off far beyond every real key, so that the sums below stay finite where a key is infinite
    size = np.minimum(np.abs(rank_keys), _LARGEST_FLOAT / 4)
    with np.errstate(all="ignore"):  # keys may be infinite or NaN
        error_of_logits = 2 * rounding.unit * (2 * largest_logit + size + math.log(class_count))
        # of the computation of a key from logits, which is done in float64
        error_of_reduction = _REDUCTION_ERROR * (1 + size)
        error = error_of_logits + error_of_reduction
        return ExactBounds(low=rank_keys - error, high=rank_keys + error)


def bounds_of_probabilities(
    rank_keys: np.ndarray, rounding: Rounding, *, class_count: int, has_one_column: bool, is_entropy: bool
) -> ExactBounds:
    """Bound the exact rank keys of scores that were computed from rounded probabilities.

    A rank key is -log d, where d is the distance of the score's plain number to its largest possible value, such as
    1 - p_max. Rounding does two things to d: it multiplies d by a factor near 1, which adds at most `error` to the key
    or takes it away, and it may make small probabilities zero, which takes at most `lost` from d. The bounds are of
    first order, and their constants are generous, not the smallest possible.

    `class_count` is the number of classes, and `rounding` that of the probabilities: a relative error of at most
    `unit`, `smallest` the largest number that may become zero, and `arithmetic_error` the relative error of computing
    with them. `has_one_column` means that a model gives the probability p of class 1 alone, so that 1 - p is computed.
    `is_entropy` means that the score weighs each probability by its logarithm.
    """
    size = np.minimum(np.abs(rank_keys), _LARGEST_KEY)
    # keys may be infinite or NaN; np.log(lost) is -infinity where nothing can be lost
    with np.errstate(all="ignore"):
        # A probability and the sum that its row is divided by are each off by a share `unit`, and an entropy counts
        # both twice: 4 in all. The logarithms of the computation are of numbers of size up to |key| + log K + 1. Keys
        # are computed in two ways, which may differ by `KEY_AGREEMENT`.
        error_of_storing = 4 * rounding.unit + KEY_AGREEMENT
        error = error_of_storing + rounding.arithmetic_error * (size + math.log(class_count) + 1)
        lost_per_entry = rounding.smallest
        if has_one_column:
            lost_per_entry += rounding.unit  # 1 - p has the absolute error of p, which may be near 1
        if is_entropy:
            # a lost p takes p |log p| away: |log p| is below this number for every p above e^-40
            lost_per_entry *= _ENTROPY_WEIGHT
        lost = (class_count - 1) * lost_per_entry
        # the exact distance is at most exp(error - key) + lost, so the exact key is at least -log of that
        low = -np.logaddexp(error - rank_keys, np.log(lost))
        if lost == 0:  # the general formula would turn a large finite key into infinity
            return ExactBounds(low, high=rank_keys + error)
        # and it is at least exp(-key - error) - lost; where that may be 0, the exact key may be infinite
        high = -np.log(np.maximum(np.exp(-rank_keys - error) - lost, 0.0))
        return ExactBounds(low, high)


def bounds_of_plain(rank_keys: np.ndarray, rounding: Rounding, *, largest_plain: float) -> ExactBounds:
    """Bound the exact rank keys of plain numbers of a score, such as probabilities, which were rounded themselves.

    `largest_plain` is the largest plain number of the score: 1 for probabilities, 0 for negative entropies. A plain
    number x = largest_plain - exp(-key) moves by u|x| and by the arithmetic that computed it.
    """
    with np.errstate(all="ignore"):  # keys may be infinite or NaN
        distance = np.exp(-rank_keys)  # of the plain number to the largest one
        plain = np.abs(largest_plain - distance)
        error = rounding.unit * plain + rounding.arithmetic_error * np.maximum(1.0, plain) + rounding.smallest
        return ExactBounds(-np.log(distance + error), -np.log(np.maximum(distance - error, 0.0)))


def bounds_of_numbers(numbers: np.ndarray, rounding: Rounding, *, scale: float) -> ExactBounds:
    """Bound the exact values of numbers that are compared as they are: rank keys, or the user's own confidences.

    A number moves by u of itself and by the arithmetic that computed it, whose error is relative to the number or to
    `scale`, the usual size of such numbers, whichever is larger.
    """
    size = np.minimum(np.abs(numbers), _LARGEST_FLOAT / 4)  # so that the sums below stay finite
    with np.errstate(all="ignore"):  # numbers may be infinite or NaN
        error = rounding.unit * size + rounding.arithmetic_error * np.maximum(size, scale) + rounding.smallest
        return ExactBounds(numbers - error, numbers + error)
