"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def suggest_name(name: Any, choices: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """Return a sentence such as `Did you mean "aurc"?`, or an empty string if no choice is similar to `name`.

    >>> suggest_name("E-AURC", ["aurc", "e_aurc"])
    'Did you mean "e_aurc"?'
    """
    choice = find_similar_name(name, choices, aliases)
    return "" if choice is None else f'Did you mean "{choice}"?'


def find_similar_name(
    name: Any, choices: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str | None:
    """Return the choice most similar to a misspelled name, or None if none is similar.

    Capitals, spaces, hyphens and underscores are ignored. `aliases` maps other names to choices.

    >>> find_similar_name("msp", ["max_softmax", "margin"], {"msp": "max_softmax"})
    'max_softmax'
    """
    if not isinstance(name, str):
        return None
    # `_fold_spelling` removes what is ignored; a choice counts more than an alias of the same spelling
    choice_by_spelling = {_fold_spelling(alias): choice for alias, choice in (aliases or {}).items()}
    choice_by_spelling.update((_fold_spelling(choice), choice) for choice in choices)

    import difflib  # only needed for a wrong name

    similar_spellings = difflib.get_close_matches(_fold_spelling(name), choice_by_spelling, n=1)
    return choice_by_spelling[similar_spellings[0]] if similar_spellings else None


def _fold_spelling(name: str) -> str:
    """Lower-case a name and drop the characters that separate its words."""
    return name.casefold().translate({ord(separator): None for separator in " -_."})
