"""Roles: what a column can be (labels, confidence, ...), and which names of columns say so.

A column is taken for a role because its name says so (`COLUMN_NAMES`) or because the user says so. Values are never
looked at to guess a role. This file loads no numpy, so that the command line can list the roles quickly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from abstain._roles import COLUMN_NAMES, UNCERTAINTY, normalise_name, role_of
from abstain.errors import InputError
from abstain.formats.safety import display_name

# One column per class: logit_0, logit_1 ... or prob_cat, prob_dog ...; the group is the name of the class.
CLASS_COLUMN_PATTERNS = {
    "logits": re.compile(r"^(?:y_)?logits?_(.+)$"),
    "probs": re.compile(r"^(?:y_)?(?:probs?|proba|probability|p)_(.+)$"),
}
ROLES_WITH_SEVERAL_COLUMNS = ("confidence", "features", "categories")
"""Roles that several columns may have, each by its own name."""
AGREEMENT = "agreement"
"""Name of the confidence that is computed from the answers to repeated questions."""
TRUTH_ROLES = ("labels", "correct", "loss", "error")
"""Roles that say which answers are right, alone or with others."""


@dataclass(frozen=True)
class RoleColumns:
    """The columns that have one role.

    Parameters
    ----------
    names : tuple of str
        Names of the columns; one per class, in the order of the classes, where the role is logits or probs.
    suffixes : tuple of str
        The class names that the column names carry ("cat" of `prob_cat`), in the same order; empty where they carry
        none, or numbers 0, 1, ...
    """

    names: tuple[str, ...]
    suffixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if len(self.names) > 3:
            return f"{display_name(self.names[0])} ... {display_name(self.names[-1])} ({len(self.names)} columns)"
        return ", ".join(map(display_name, self.names))


def truth_role_of(name: str) -> str | None:
    """Return labels, correct, loss or error where the name of a column says that it holds the truth; else None."""
    for role in TRUTH_ROLES:
        if normalise_name(name) in (role, *COLUMN_NAMES[role]):
            return role
    return None


def columns_by_role(user_columns: Mapping[str, str]) -> dict[str, str]:
    """Return the user's column names by role, where the user may have written a role by any of its names.

    Columns of an uncertainty are confidences, with a minus sign before their names; they may be stated in addition to
    confidences. InputError where two other keys are names of the same role ("group" and "groups"). `role_of` gives the
    role that a name stands for; `_change_sign` puts a minus before a column name, or removes one.

    >>> columns_by_role({"uncertainty": "entropy,-certainty"})
    {'confidence': '-entropy,certainty'}
    """
    by_role: dict[str, str] = {}
    stated_roles: set[str] = set()  # of the keys other than "uncertainty"
    for key, column_name in user_columns.items():  # one name, or several with commas
        role = role_of(key)
        if normalise_name(key) == UNCERTAINTY:  # the role is "confidence"
            column_name = ",".join(_change_sign(name.strip()) for name in column_name.split(","))
        elif role in stated_roles:
            raise InputError(
                f"columns: {role} is given twice, {by_role[role]!r} and {column_name!r}. Name one column."
            )
        else:
            stated_roles.add(role)
        by_role[role] = f"{by_role[role]},{column_name}" if role in by_role else column_name
    return by_role


def _change_sign(name: str) -> str:
    """Return the name of a column as the user states it, with a minus sign before it, or without the one it has."""
    return name.removeprefix("-") if name.startswith("-") else f"-{name}"


def order_by_stated_classes(columns: RoleColumns, classes: tuple[str, ...]) -> RoleColumns:
    """Return columns, one per class, in the order of the class names that the user stated.

    They are returned unchanged where `classes` is empty or is not the same set of names as the columns' suffixes.
    """
    if not classes or sorted(classes) != sorted(columns.suffixes):
        return columns
    column_of_class = dict(zip(columns.suffixes, columns.names))
    return RoleColumns(names=tuple(column_of_class[name] for name in classes), suffixes=tuple(classes))


def order_class_columns(names: list[str], suffixes: list[str]) -> RoleColumns:
    """Put columns of one role, one per class, in the order of the classes.

    `names` are in the order of the file, and `suffixes` holds the ending of each. Where those endings that are numbers
    are exactly 0 ... K-1 (K at least 2), these columns are taken in that order and the others are left out
    (`logit_scale` next to `logit_0`, `logit_1`). Otherwise all columns are taken in the order of the file, and their
    endings are the class names. A single column has no class name. `RoleColumns.suffixes` are the class names, empty
    where classes are numbers. Both lists have one entry per column, at least one.
    """
    if len(names) == 1:
        return RoleColumns(names=(names[0],))
    name_of_number = {int(suffix): name for suffix, name in zip(suffixes, names) if suffix.isdecimal()}
    class_count = len(name_of_number)
    if class_count > 1 and sorted(name_of_number) == list(range(class_count)):
        return RoleColumns(names=tuple(name_of_number[k] for k in range(class_count)))
    return RoleColumns(names=tuple(names), suffixes=tuple(suffixes))
