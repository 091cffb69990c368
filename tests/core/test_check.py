"""Boundary checks: an unknown name gets the list of known ones and a suggestion."""

from __future__ import annotations

import pytest

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
