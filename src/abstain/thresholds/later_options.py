"""The options by which later files are read: those of the command that made a rule."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from abstain._roles import role_of
from abstain.errors import InputError

# Options that say how files are read; the others choose a rule, or say where the result goes.
_COLUMN_OPTIONS = ("-c", "--column")
_READING_OPTIONS = (
    *_COLUMN_OPTIONS,
    "--as",
    "--classes",
    "--confidence",
    "--format",
    "--grades",
    "--labels",
    "--memory",
    "--missing",
    "--only",
    "--outside",
    "--refusals",
    "--scale",
    "--tolerance",
    "--unanswered",
)
# What new cases do not have yet, or what no rule needs to be applied to them.
_ROLES_NEW_CASES_LACK = (
    "labels",
    "correct",
    "loss",
    "error",
    "unanswerable",
    "answerable",
    "sample_weight",
    "clusters",
)
_OPTIONS_OF_LABELLED_FILES = ("--grades", "--labels", "--only")


def reading_options(
    command: str | Sequence[str] | None, *, has_truth: bool, labels: str | None = "LATER_LABELS"
) -> list[str]:
    """Return the arguments of a command line that say how files are read, in their order.

    `command` is a line or its words; none are returned for None. Options that do something else, such as --cost, are
    left out, and so are file names. An option stands before its value, as two words, also where the line had
    --option=value. Without `has_truth`, the later files have no right answers: columns of these and options that only
    labelled files need are left out. A second file of labels is called `labels`; None keeps its name.

    >>> reading_options("abstain cascade a.csv b.csv -c labels=y -c confidence=p --cost 1,2", has_truth=False)
    ['-c', 'confidence=p']
    """
    options: list[str] = []
    # an iterator, so that the word after an option can be taken as its value
    words = iter(shlex.split(command) if isinstance(command, str) else command or ())
    for word in words:
        flag, equals_sign, value = word.partition("=")
        if flag not in _READING_OPTIONS or not flag.startswith("-"):
            continue  # a file, another option, or its value
        if not equals_sign:
            value = next(words, "")
        # new cases have no columns of right answers, weights or clusters: leave out an option that names one
        if not has_truth and (flag in _OPTIONS_OF_LABELLED_FILES or _is_column_new_cases_lack(flag, value)):
            continue
        if flag == "--labels" and labels is not None:
            value = labels
        options += [flag, value]
    return options


def cluster_column(command: str | None) -> str | None:
    """Return the column of clusters that a command line names; None if it names none, or for None.

    >>> cluster_column("abstain threshold a.csv --risk 0.1 -c cluster=patient_id")
    'patient_id'
    """
    return _stated_columns(command).get("clusters")


def answer_columns(command: str | None) -> dict[str, str]:
    """Return the columns that a command line names to say which rows have an answer, by role; empty for None.

    >>> answer_columns("abstain threshold a.csv -c confidence=p -c predicted=reply --risk 0.1")
    {'prediction': 'reply'}
    """
    columns = _stated_columns(command)
    return {role: columns[role] for role in ("prediction", "answered", "abstained") if role in columns}


def _stated_columns(command: str | None) -> dict[str, str]:
    """Return the column that a command line names for each role (what a column is for), the first of several.

    Empty for a `command` of None.
    """
    columns: dict[str, str] = {}
    # options and their values alternate, with `has_truth` also those for labelled files alone; a column is named as
    # ROLE=NAME
    for value in reading_options(command, has_truth=True)[1::2]:
        role, equals_sign, column = value.partition("=")
        try:
            # a role may have several names, such as "cluster"; raises for a text that is none of them
            if equals_sign:
                columns.setdefault(role_of(role.strip()), column.strip())
        except InputError:  # the value of another option
            continue
    return columns


def _is_column_new_cases_lack(flag: str, value: str) -> bool:
    """Return whether an option names a column that new cases lack, by a role such as "labels" in any of its names."""
    if flag not in _COLUMN_OPTIONS:
        return False
    try:
        return role_of(value.partition("=")[0].strip()) in _ROLES_NEW_CASES_LACK
    except InputError:
        return False
