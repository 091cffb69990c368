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

Precision = Literal["bfloat16", "float16", "float32", "float64"]  # from coarse to fine

_LARGEST_LOG = 745.0  # -log of the smallest float64
_LARGEST_FLOAT = float(np.finfo(np.float64).max)
# arithmetic on a score adds a few roundings of its own, float32's at most: narrower types are computed in float32
_ARITHMETIC_ROUNDINGS = 8
# An entropy weighs a lost probability p by -log p, which is below 40 for every p above e^-40.
_ENTROPY_WEIGHT = 40


class Rounding(NamedTuple):
    """What storing a number does to it: a relative error of at most `unit`, or `smallest` next to zero."""

    unit: float
    smallest: float

    def at_least(self, minimum: Rounding) -> Rounding:
        """The larger error of the two."""
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


class ExactBounds(NamedTuple):
    """The least and the largest exact number that may lie behind each rounded number, on the common scale."""

    low: Any  # array of the shape of the rounded numbers
    high: Any


def bounds_of_logits(
    rank_keys: np.ndarray, rounding: Rounding, *, class_count: int, largest_logit: Any
) -> ExactBounds:
    r"""Bound the exact rank keys k of scores that were computed from rounded logits.

    Logits z move by u|z| each, so that a key moves by at most :math:`2u(2|z_{\max}| + |k| + \log K)`: the mean distance
    of the K logits to the largest is at most k + log K, and entropies count twice. `largest_logit` is
    :math:`|z_{\max}|` of each row, or one number for all; `class_count` is K, and `rounding` that of the logits.
    """
    size = np.minimum(np.abs(rank_keys), _LARGEST_FLOAT / 4)  # so that the sums below stay finite
    with np.errstate(all="ignore"):  # keys may be infinite or NaN
        of_logits = 2 * rounding.unit * (2 * largest_logit + size + math.log(class_count))
        of_arithmetic = 2.0**-49 * (1 + size)  # logits are reduced to a key in float64
        error = of_logits + of_arithmetic
        return ExactBounds(rank_keys - error, rank_keys + error)


def bounds_of_probabilities(
    rank_keys: np.ndarray, rounding: Rounding, *, class_count: int, has_one_column: bool, is_entropy: bool
) -> ExactBounds:
    """Bound the exact rank keys of scores that were computed from rounded probabilities.

    Probabilities keep a relative error of u each, and entries below the smallest number of their type are lost. A
    model that gives the probability p of class 1 alone (`has_one_column`) also loses what rounding does to 1 - p. A
    score that weighs entries by their logarithm (`is_entropy`) feels a lost entry more. `class_count` is the number of
    classes, and `rounding` that of the probabilities.
    """
    size = np.minimum(np.abs(rank_keys), _LARGEST_LOG)
    with np.errstate(
        all="ignore"
    ):  # keys may be infinite or NaN, and the log of no lost probability is -infinity
        error = 4 * rounding.unit + rounding.arithmetic_error * (size + math.log(class_count) + 1)
        lost_per_entry = rounding.smallest
        if has_one_column:
            lost_per_entry += rounding.unit
        if is_entropy:
            lost_per_entry *= _ENTROPY_WEIGHT
        lost = (class_count - 1) * lost_per_entry  # probability that rounding to zero may have removed
        low = -np.logaddexp(error - rank_keys, np.log(lost))
        if lost == 0:
            return ExactBounds(low, rank_keys + error)
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
