"""Bounds on the exact number behind a rounded confidence: numbers that were really rounded lie within them."""

import numpy as np
import pytest

from abstain import scores
from abstain.thresholds.rounding_errors import (
    ROUNDING_OF,
    Rounding,
    bounds_of_logits,
    bounds_of_numbers,
    bounds_of_plain,
    bounds_of_probabilities,
    rounding_of_decimals,
)

TYPES = {"float16": np.float16, "float32": np.float32}


def drawn_logits(n=2000, classes=4):
    return 6 * np.random.default_rng(0).normal(size=(n, classes))


@pytest.mark.parametrize("precision", list(TYPES))
@pytest.mark.parametrize("score", ["max_softmax", "negative_entropy"])
def test_rounded_class_scores(precision, score):
    """The key of the exact scores lies within the bounds of the key of the rounded ones, which are not far apart."""
    logits = drawn_logits()
    exact_key = getattr(scores, score)(logits)
    rounded = logits.astype(TYPES[precision]).astype(np.float64)
    rounded_key = getattr(scores, score)(rounded)
    bounds = bounds_of_logits(
        rounded_key, ROUNDING_OF[precision], class_count=4, largest_logit=np.abs(rounded.max(axis=1))
    )
    assert (bounds.low <= exact_key).all()
    assert (exact_key <= bounds.high).all()
    assert (rounded_key != exact_key).any()
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    rounded_key = getattr(scores, score)(probs=probs.astype(TYPES[precision]))
    bounds = bounds_of_probabilities(
        rounded_key,
        ROUNDING_OF[precision],
        class_count=4,
        has_one_column=False,
        is_entropy=score == "negative_entropy",
    )
    assert (bounds.low <= exact_key).all()
    assert (exact_key <= bounds.high).all()


@pytest.mark.parametrize("precision", list(TYPES))
def test_rounded_plain_numbers_and_own_numbers(precision):
    plain = np.linspace(0.01, 0.99, 500)
    rounded = plain.astype(TYPES[precision]).astype(np.float64)
    bounds = bounds_of_plain(-np.log(1 - rounded), ROUNDING_OF[precision], largest_plain=1.0)
    assert (bounds.low <= -np.log(1 - plain)).all()
    assert (-np.log(1 - plain) <= bounds.high).all()
    own = bounds_of_numbers(rounded, ROUNDING_OF[precision], scale=1.0)
    assert (own.low <= plain).all()
    assert (plain <= own.high).all()
    assert ((own.high - own.low) < 40 * ROUNDING_OF[precision].unit).all()


@pytest.mark.parametrize("decimals", [1, 2, 4])
def test_numbers_that_were_written_with_few_decimals(decimals):
    plain = np.linspace(0.5001, 0.9999, 500)
    rounded = plain.round(decimals)
    rounding = rounding_of_decimals(decimals).with_error_at_least(ROUNDING_OF["float64"])
    exact_key = -np.log1p(-plain)
    with np.errstate(divide="ignore"):
        rounded_key = -np.log1p(-rounded)
    of_column = {"class_count": 2, "has_one_column": True, "is_entropy": False}
    for bounds, exact in (
        (bounds_of_plain(rounded_key, rounding, largest_plain=1.0), exact_key),
        (bounds_of_probabilities(rounded_key, rounding, **of_column), exact_key),
        (bounds_of_numbers(rounded, rounding, scale=1.0), plain),
    ):
        assert (bounds.low <= exact).all()
        assert (exact <= bounds.high).all()


def test_infinite_and_missing_numbers_are_kept():
    numbers = np.array([np.inf, -np.inf, np.nan])
    bounds = bounds_of_numbers(numbers, ROUNDING_OF["float32"], scale=1.0)
    assert np.array_equal(bounds.low, numbers, equal_nan=True)
    assert np.array_equal(bounds.high, numbers, equal_nan=True)


def test_the_larger_error_of_two():
    assert Rounding(0.1, 0.3).with_error_at_least(Rounding(0.2, 0.1)) == (0.2, 0.3)
