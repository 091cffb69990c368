"""Columns that a confidence is learned from, besides confidences and class scores: numbers and labels of each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from abstain.formats.columns import OpenedTable, TextValues
from abstain.formats.roles import TRUTH_ROLES, RoleColumns, truth_role_of
from abstain.formats.safety import display_name, file_error

LEARNING_ROLES = ("features", "categories")
"""Roles whose columns are inputs of a learned confidence, each by its own name."""
LENGTH_OF = "length of "
"""How the name of a feature begins that is the length of a text; the name of its column follows."""


def refuse_truth_as_input(
    source: OpenedTable, roles: Mapping[str, RoleColumns], *, is_learning: bool
) -> None:
    """Raise DataError where an input of a confidence that is learned says which answers are right.

    Inputs are confidences, features and categories. A column says which answers are right if it has such a role
    (`TRUTH_ROLES`: labels, correct, loss, error), or a name that states one and no role but that of an input. Text in a
    column of errors does not: most often it is of calls that failed. Where nothing is learned (`is_learning` is False),
    only features and categories of a file without any other such column are refused. `roles` maps each role ("labels",
    "confidence", ...) to its columns. `source` is the opened file.
    """
    if not is_learning and any(role in roles for role in TRUTH_ROLES):
        return
    input_roles = ("confidence", *LEARNING_ROLES) if is_learning else LEARNING_ROLES
    truth_names = {name for role in TRUTH_ROLES for name in _names_of(roles, role)}
    names_with_other_role = {
        name
        for role, columns in roles.items()
        if role not in (*TRUTH_ROLES, *input_roles)
        for name in columns.names
    }
    for role in input_roles:
        for name in _names_of(roles, role):
            # "labels", "correct", "loss" or "error" where the name of the column says so, else None
            truth_role = truth_role_of(name)
            is_text_of_errors = (
                truth_role == "error" and name in source.columns and source.columns[name].kind == "text"
            )
            is_truth_by_name = (
                truth_role is not None and name not in names_with_other_role and not is_text_of_errors
            )
            if name in truth_names or is_truth_by_name:
                raise file_error(
                    source.path,
                    f"column `{display_name(name)}` says which answers are right, so nothing can be learned from it: "
                    f"leave it out of -c {role}, or rename it if new rows have it too.",
                )


def load_learning_columns(source: OpenedTable, roles: Mapping[str, RoleColumns]) -> dict[str, Any]:
    """Return {"features": ..., "categories": ...}: arrays of all rows by column name, {} for a role without columns.

    A feature is an array of numbers, NaN where it is missing; a column of text becomes the number of its characters,
    named `length of COLUMN`. A category is an array of texts. `roles` maps each role ("labels", "confidence", ...) to
    its columns. DataError where a feature is a matrix. A missing category is a text as well: "", or "nan" in a column
    of numbers.
    """
    features = {}
    for name in _names_of(roles, "features"):
        feature_name, numbers = _load_feature(source, name)
        features[feature_name] = numbers
    categories = {name: source.columns[name].as_texts() for name in _names_of(roles, "categories")}
    return {"features": features, "categories": categories}


def _names_of(roles: Mapping[str, RoleColumns], role: str) -> tuple[str, ...]:
    """Return the names of the columns of a role; empty where it has none."""
    return roles[role].names if role in roles else ()


def _load_feature(source: OpenedTable, name: str) -> tuple[str, np.ndarray]:
    """Return the name and the numbers of a feature; the lengths of its texts where a column holds text.

    The name is `length of COLUMN` for texts, else that of the column. An empty text has no length: NaN, as a gap.
    DataError where a row holds several numbers.
    """
    values = source.columns[name].load()
    if isinstance(values, TextValues):
        # one length for each different text; `code_of_row` says which text a row holds
        lengths = np.array([len(text) or np.nan for text in values.distinct_texts], dtype=np.float64)
        return f"{LENGTH_OF}{name}", lengths[values.code_of_row]
    if values.ndim != 1:
        raise file_error(
            source.path,
            f"column `{display_name(name)}` must hold one number per row, got shape {values.shape}.",
        )
    return name, np.asarray(values, dtype=np.float64)
