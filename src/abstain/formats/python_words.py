"""Advice for the command line in the words of Python: options become arguments of functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from abstain.errors import AbstainError

# Options that are fields of `Rules`, and those that are arguments of `read_predictions` by another name or the same.
_FIELDS_OF_RULES = ("missing", "unanswered", "scale", "outside", "grades", "refusals", "only")
_ARGUMENT_OF_OPTION = {"as": "kind", "labels": "labels", "tolerance": "tolerance", "format": "format"}
# The value of an option: quoted, or without the mark that follows it.
_VALUE = r"(?:'[^']*'|[\w*/=\[\]-](?:[^\s;)`]*[^\s;)`.,])?)"
_COLUMN = re.compile(rf"`?(?:--column|-c) (\w+)=({_VALUE})`?")
_COLUMN_WITHOUT_NAME = re.compile(r"(?<![\w-])-c (\w+)")
_OPTION_WITH_WORD = re.compile(rf"--({'|'.join([*_FIELDS_OF_RULES, *_ARGUMENT_OF_OPTION])}) ({_VALUE})")
_OPTION = re.compile(rf"--({'|'.join([*_FIELDS_OF_RULES, *_ARGUMENT_OF_OPTION])})\b")
_VALUES_OF_OPTION = {  # words that are values; any other word after the option goes on with the sentence
    "missing": ("last", "left_out"),
    "unanswered": ("wrong", "abstained"),
    "scale": ("fraction", "percent", "mixed"),
    "outside": ("missing", "refused"),
    "as": ("logits", "probs", "confidence"),
    "labels": ("FILE",),
}
_PLAIN_REPLACEMENTS = {
    "--classes first,second,...": '`classes=["first", "second", ...]`',
    "--classes": "`classes`",
    " (--engine memory)": "",
}
_WHERE_ARGUMENTS_GO = (
    "Such arguments go to `read = abstain.formats.read_predictions({path}, ...)`; then `evaluate(read)`."
)


def in_python_words(message: str, path: str = "path") -> str:
    """Return a message or note with the options that it names as arguments of `evaluate` and `read_predictions`.

    A column that is named on the command line is an argument of `evaluate` itself. Rules, such as how missing
    confidences count, are arguments of `abstain.formats.read_predictions`; one sentence at the end says so, with
    `path` for what that function reads. A message without options is returned as it is.

    >>> in_python_words("State which is which with --column ROLE=NAME.")
    'State which is which with `ROLE="NAME"`.'
    >>> print(in_python_words("3 answers are left out (--missing last ranks them last)."))
    3 answers are left out (`rules=Rules(missing="last")` ranks them last). Such arguments \
go to `read = abstain.formats.read_predictions(path, ...)`; then `evaluate(read)`.
    """
    # Each pattern looks for options that those before it left. Groups: role and column; role; option and word; option.
    # chr(39) is the quote ' around a name.
    text = _COLUMN.sub(lambda match: f'`{match[1]}="{match[2].strip(chr(39))}"`', message)
    text = _COLUMN_WITHOUT_NAME.sub(r"`\1`", text)
    for words, replacement in _PLAIN_REPLACEMENTS.items():
        text = text.replace(words, replacement)
    with_arguments = _OPTION_WITH_WORD.sub(_argument_with_value, text)
    with_arguments = _OPTION.sub(lambda match: f"`{_argument(match[1])}`", with_arguments)
    if with_arguments == text:
        return text
    return f"{with_arguments} {_WHERE_ARGUMENTS_GO.format(path=path)}"


def _argument_with_value(match: re.Match[str]) -> str:
    """Return an option and its value as an argument; unchanged where the word behind the option is no value of it.

    The groups of `match` are an option without its dashes ("missing"), a field of `Rules` or a key of
    `_ARGUMENT_OF_OPTION`, and the word after it, which may be quoted. For options without a list of values, NAME=VALUE
    and words in capitals are values.
    """
    option, value = match.groups()
    # None for options whose values are not listed
    choices = _VALUES_OF_OPTION.get(option)
    is_value = value in choices if choices is not None else "=" in value or value.isupper()
    if not is_value:
        return match[0]
    if "=" in value:  # a dict: NAME=VALUE
        key, _, stated = value.strip("'").partition("=")
        return f'`rules=Rules({option}={{"{key}": "{stated}"}})`'
    if option in _FIELDS_OF_RULES:
        return f'`rules=Rules({option}="{value}")`'
    return f'`{_ARGUMENT_OF_OPTION[option]}="{value}"`'


def _argument(option: str) -> str:
    """Return what takes the place of an option without a value, in words."""
    return f"Rules.{option}" if option in _FIELDS_OF_RULES else _ARGUMENT_OF_OPTION[option]


@contextmanager
def advising_in_python(path: str = "path") -> Iterator[None]:
    """Let errors of this library inside the `with` block give their advice in the words of Python.

    `path` stands in the advice for what `read_predictions` reads.
    """
    try:
        yield
    except AbstainError as error:
        error.args = (in_python_words(str(error), path), *error.args[1:])
        raise
