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


def refuse_truth_as_input(source: OpenedTable, roles: Mapping[str, RoleColumns]) -> None:
    """Raise DataError where the only columns that say which answers are right are named as features or categories.

    The names of columns tell (`truth_role_of`). `roles` maps each role ("labels", "confidence", ...) to its columns.
    `source` is the opened file.
    """
    if any(role in roles for role in TRUTH_ROLES):
        return
    for role in LEARNING_ROLES:  # "features" and "categories"
        for name in _names_of(roles, role):
            if truth_role_of(name) is not None:
                raise file_error(
                    source.path,
                    f"column `{display_name(name)}` says which answers are right, so nothing can be learned from it: "
                    f"leave it out of -c {role}.",
                )


def load_learning_columns(source: OpenedTable, roles: Mapping[str, RoleColumns]) -> dict[str, Any]:
    """Return {"features": ..., "categories": ...}: arrays of all rows by column name, {} for a role without columns.

    A feature is an array of numbers, NaN where it is missing; a column of text becomes the number of its characters,
    named `length of COLUMN`. A category is an array of texts. `roles` maps each role ("labels", "confidence", ...) to
    its columns. DataError where a feature is a matrix.
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

    An empty text has no length: NaN, as a gap.
    """
    values = source.columns[name].load()
    if isinstance(values, TextValues):
        lengths = np.array([len(text) or np.nan for text in values.distinct_texts], dtype=np.float64)
        return f"{LENGTH_OF}{name}", lengths[values.code_of_row]
    if values.ndim != 1:
        raise file_error(
            source.path,
            f"column `{display_name(name)}` must hold one number per row, got shape {values.shape}.",
        )
    return name, np.asarray(values, dtype=np.float64)
