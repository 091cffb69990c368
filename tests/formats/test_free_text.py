"""Free text: which columns of given answers are sentences that equal the right answers by chance alone."""

from __future__ import annotations

import pytest

from abstain.formats.columns import TextValues
from abstain.formats.free_text import are_sentences, is_free_text, is_seldom

SENTENCES = [f"It is, as far as I know, the {number}th." for number in range(40)]
REFUSAL = "I cannot tell it from this text."


@pytest.mark.parametrize(
    ("given", "is_free", "holds_sentences"),
    [
        pytest.param(SENTENCES, True, True, id="sentences"),
        pytest.param([*SENTENCES[:21], *[REFUSAL] * 200], True, True, id="sentences and refusals"),
        pytest.param([*SENTENCES[:18], *[REFUSAL] * 200], False, True, id="few sentences and refusals"),
        pytest.param(SENTENCES * 3, False, True, id="long names of classes, each in several rows"),
        pytest.param([f"name {number}" for number in range(40)], True, False, id="names"),
        pytest.param(list("ABCD") * 10, False, False, id="letters of options"),
        pytest.param(SENTENCES[:19], False, True, id="few rows"),
        pytest.param(
            [*SENTENCES[:15], *"ABCDEFGHIJKLMNO", "A" * 40], True, True, id="one more sentence than letters"
        ),
        pytest.param([*SENTENCES[:15], *"ABCDEFGHIJKLMNO"], True, False, id="as many sentences as letters"),
        pytest.param([*SENTENCES[:15], *[" "] * 30], False, True, id="blank rows do not count"),
        pytest.param([""] * 30, False, False, id="nothing"),
    ],
)
def test_free_text_and_sentences(given, is_free, holds_sentences):
    column = TextValues.of(given)
    assert is_free_text(column) == is_free
    assert are_sentences(column) == holds_sentences


def test_a_share_below_five_percent_is_seldom():
    assert is_seldom(0.049)
    assert not is_seldom(0.05)
