"""Boundary checks: unknown names get a suggestion, and numbers are finite whatever their sign and byte order."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain._check import check_choice
from abstain._names import suggest_name
from abstain.errors import InputError

SCORES = ("max_softmax", "max_logit", "margin")
ALIASES = {"msp": "max_softmax"}


def test_a_known_name_passes():
    check_choice("by_name", "score", "margin", SCORES, ALIASES)


@pytest.mark.parametrize(
    ("value", "suggestion"),
    [
        ("Margin", "margin"),
        ("max softmax", "max_softmax"),
        ("max_sofmax", "max_softmax"),
        ("MSP", "max_softmax"),
    ],
)
def test_a_misspelled_name_gets_a_suggestion(value, suggestion):
    with pytest.raises(InputError) as error:
        check_choice("by_name", "score", value, SCORES, ALIASES)
    assert str(error.value) == (
        f'by_name: `score` must be one of "max_softmax", "max_logit", "margin", got {value!r}. '
        f'Did you mean "{suggestion}"?'
    )


@pytest.mark.parametrize("value", ["entropy of something", 3, None])
def test_nothing_is_suggested_for_a_name_unlike_all_choices(value):
    assert suggest_name(value, SCORES, ALIASES) == ""
    with pytest.raises(InputError, match=r"got [^.]*\.$"):
        check_choice("by_name", "score", value, SCORES, ALIASES)


@pytest.mark.parametrize("dtype", [">f4", "<f4", ">f8", "<f8"])
@pytest.mark.parametrize("sign", [1, -1])
def test_floats_of_either_byte_order_and_sign_are_ranked_and_checked(dtype, sign):
    confidence = (sign * np.asarray([0.0, 0.5, 0.25, -0.0, 1e-40, 3e38])).astype(dtype)
    loss = np.asarray([0, 1, 0, 0, 1, 0])
    as_python = [float(value) for value in confidence]
    assert abstain.aurc(loss, confidence) == abstain.aurc(loss, as_python)
    for bad in (np.nan, np.inf, -np.inf):
        confidence[4] = bad
        with pytest.raises(
            InputError, match=r"`confidence` must be finite, got .* at index 4 \(1 such value\)"
        ):
            abstain.aurc(loss, confidence)
