"""Options of the command line in messages become arguments of functions."""

from __future__ import annotations

import pytest

from abstain.errors import DataError
from abstain.formats.python_words import advising_in_python, in_python_words

WHERE = " Such arguments go to `read = abstain.formats.read_predictions(path, ...)`; then `evaluate(read)`."


@pytest.mark.parametrize(
    ("message", "advice", "is_for_reading"),
    [
        ("Name it: -c confidence=NAME.", 'Name it: `confidence="NAME"`.', False),
        ("Say which: --column labels=y_true", 'Say which: `labels="y_true"`', False),
        ("Write -c correct='my grade'; or not.", 'Write `correct="my grade"`; or not.', False),
        ("Divide it (-c correct=NAME/10), or not.", 'Divide it (`correct="NAME/10"`), or not.', False),
        ("-c groups takes one.", "`groups` takes one.", False),
        ("State --classes first,second,...", 'State `classes=["first", "second", ...]`', False),
        ("one file in memory (--engine memory).", "one file in memory.", False),
        ("rank them with --missing last.", 'rank them with `rules=Rules(missing="last")`.', True),
        ("--unanswered wrong has no", '`rules=Rules(unanswered="wrong")` has no', True),
        (
            "read one with --only model=NAME, or",
            'read one with `rules=Rules(only={"model": "NAME"})`, or',
            True,
        ),
        ("--grades needs a column", "`Rules.grades` needs a column", True),
        ("or --as logits for an array", 'or `kind="logits"` for an array', True),
        ("answers with --labels FILE.", 'answers with `labels="FILE"`.', True),
        ("nothing - of -the- kind --here", "nothing - of -the- kind --here", False),
    ],
)
def test_an_option_becomes_an_argument(message, advice, is_for_reading):
    assert in_python_words(message) == advice + WHERE * is_for_reading


def test_errors_are_translated_and_keep_their_class():
    with pytest.raises(DataError) as caught, advising_in_python("saved.csv"):
        raise DataError("t.csv: say --missing last.")
    assert str(caught.value).startswith('t.csv: say `rules=Rules(missing="last")`. ')
    assert "read_predictions(saved.csv, ...)" in str(caught.value)
