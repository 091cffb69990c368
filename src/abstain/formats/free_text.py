"""Free text, such as a model's sentences: equality with the right answer says little of which answers are right."""

from __future__ import annotations

import numpy as np

from abstain.errors import DataError
from abstain.formats.columns import TextValues, has_value

_MIN_ROWS = 20  # fewer rows are too few to call their texts free
_MAX_SHARE_OF_EQUAL_TEXTS = 0.05  # up to here, equality with the right answers is taken as chance
_MIN_WORDS_OF_SENTENCE = 5
_MIN_LENGTH_OF_SENTENCE = 40  # characters


class FreeTextError(DataError):
    """A table whose right and given answers would be compared word by word, though the given ones are free text.

    Examples
    --------
    >>> raise FreeTextError("t.json: `prediction` and `target` are equal in 0.0% of the answers.")
    Traceback (most recent call last):
    ...
    abstain.formats.free_text.FreeTextError: t.json: `prediction` and `target` are equal in 0.0% of the answers.
    """


def is_free_text(given: TextValues) -> bool:
    """Return whether the texts of a column are written freely, and not letters of options or names of classes.

    Most of them differ from row to row; or they are sentences, and most of the different ones are in a single row,
    though one may be in many, such as a refusal. False for less than `_MIN_ROWS` (20) rows, or different sentences.
    """
    if len(given) < _MIN_ROWS:
        return False
    if 2 * len(given.distinct_texts) > len(given):
        return True
    row_counts = np.unique(given.code_of_row, return_counts=True)[1]  # of each text that is in some row
    has_many_texts = len(row_counts) >= _MIN_ROWS
    return has_many_texts and 2 * int((row_counts == 1).sum()) > len(row_counts) and are_sentences(given)


def is_seldom(share_equal: float) -> bool:
    """Return whether so small a share of free texts equals the right answers that this is chance (below 5%)."""
    return share_equal < _MAX_SHARE_OF_EQUAL_TEXTS


def are_sentences(given: TextValues) -> bool:
    """Return whether most rows that are not blank hold a sentence or more, and not a word, a name or a number.

    A sentence has at least 5 words (`_MIN_WORDS_OF_SENTENCE`) or 40 characters (`_MIN_LENGTH_OF_SENTENCE`).
    """
    is_sentence = [
        len(text.split()) >= _MIN_WORDS_OF_SENTENCE or len(text.strip()) >= _MIN_LENGTH_OF_SENTENCE
        for text in given.distinct_texts
    ]
    rows = np.array(is_sentence, bool)[given.code_of_row][has_value(given)]
    return bool(rows.size) and 2 * int(rows.sum()) > rows.size
