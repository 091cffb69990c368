"""Words by which judges grade answers: which columns hold such words, and what the plain ones among them mean."""

from __future__ import annotations

import re
from collections.abc import Collection

_MEANING_OF_WORD = {
    **dict.fromkeys(("correct", "right", "accurate", "pass", "passed", "true"), "right"),
    **dict.fromkeys(("incorrect", "not correct", "wrong", "inaccurate", "fail", "failed", "false"), "wrong"),
    **dict.fromkeys(("hallucination", "hallucinated"), "wrong"),
    **dict.fromkeys(("refusal", "refused", "not attempted", "unattempted", "no attempt"), "unanswered"),
    **dict.fromkeys(("abstention", "abstained", "abstain", "unanswered", "not answered"), "unanswered"),
    **dict.fromkeys(("no answer", "don t know", "i don t know", "idk"), "unanswered"),
}
# Parts of words that grade something, though their meaning is not plain.
_PARTS_OF_GRADES = (
    "correct", "right", "wrong", "accura", "pass", "fail", "true", "false", "halluc", "refus", "attempt", "abstain",
    "partial", "good", "bad", "poor", "excellent", "valid", "support", "error",
)  # fmt: skip
_MAX_LETTERS_OF_CODE = 2  # of a grade such as A, C+ or I


def meaning_of_grade(word: str) -> str:
    """Return what a grade means if that is plain: "right", "wrong" or "unanswered"; "" otherwise.

    Case, marks and the word "answer" make no difference.

    >>> [meaning_of_grade(word) for word in ("Correct Answer", "NOT_ATTEMPTED", "is wrong", "partly correct", "A")]
    ['right', 'unanswered', 'wrong', '', '']
    """
    plain = " ".join(re.findall(r"[a-z]+", word.lower()))
    shorter = plain.removeprefix("is ").removesuffix(" answer")
    return _MEANING_OF_WORD.get(plain) or _MEANING_OF_WORD.get(shorter, "")


def meanings_of_grades(words: Collection[str]) -> dict[str, str]:
    """Return what each grade means, if that is plain for all of them and both right and wrong are there; else {}.

    >>> meanings_of_grades(["Correct", "incorrect"]), meanings_of_grades(["Correct", "C"])
    ({'Correct': 'right', 'incorrect': 'wrong'}, {})
    """
    meanings = {word: meaning_of_grade(word) for word in words}
    return meanings if {"right", "wrong"} <= set(meanings.values()) and "" not in meanings.values() else {}


def look_like_grades(words: Collection[str]) -> bool:
    """Return whether words may say right or wrong: some word grades, or all are codes of one or two letters.

    >>> look_like_grades(["A", "B"]), look_like_grades(["mostly right", "no"]), look_like_grades(["college", "school"])
    (True, True, False)
    """
    return all(len(word) <= _MAX_LETTERS_OF_CODE for word in words) or any(
        meaning_of_grade(word) or any(part in word.lower() for part in _PARTS_OF_GRADES) for word in words
    )
