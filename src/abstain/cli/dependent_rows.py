"""Hints at rows that are no independent samples: several of one patient, repeated ids, copies of rows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from abstain.cli.options import ReadOptions
from abstain.errors import AbstainError
from abstain.formats import OpenedTable, Predictions, TextValues, open_source
from abstain.formats.columns import Values
from abstain.formats.safety import display_name

_CLUSTER_WORDS = ("patient", "subject", "person", "user", "document", "session", "speaker", "site", "cluster")
_ID_NAME = re.compile(r"(.*[_. -])?(id|ids|uid|uuid)", re.IGNORECASE)
_MIN_CLUSTERS = 20  # of a column that is taken for clusters; with fewer values it is rather a category
_MAX_SIZE_TO_READ_AGAIN = 64 << 20  # bytes of a file that is read a second time for hints
_MAX_CLUSTER_SIZE = 50  # mean rows for each of its values
# Numbers with more decimals than this, and texts of so many characters, are equal in two rows by no chance.
_DECIMALS_BY_CHANCE = 3
_LONG_TEXT = 20


def hints_in_file(
    file: str,
    read_options: ReadOptions,
    predictions: Predictions,
    consequence: str,
    *,
    named_only: bool = False,
) -> list[str]:
    """Return sentences on rows of a table that are no independent samples; the file is opened again for that.

    Logs of a harness (a program that runs benchmarks) say themselves which answers belong together, so they have no
    such sentence. Nor have data with clusters, files of which only some rows are read, and large files, which take long
    to read again. Raises DataError if the file cannot be opened any more.

    Parameters
    ----------
    file : str
        The file that was read.
    read_options : ReadOptions
        How it was read.
    predictions : Predictions
        What was read.
    consequence : str
        What goes wrong if such rows are taken for independent: "the intervals are too narrow".
    named_only : bool
        Look only at columns that are named like ids or common clusters (`patient_id`), and at no copies of rows.
    """
    path = Path(file)
    if read_options.only or predictions.clusters is not None:
        return []
    # "-", standard input, is no file and cannot be read twice; of files the limit is 64 MiB
    if not path.is_file() or path.stat().st_size > _MAX_SIZE_TO_READ_AGAIN:
        return []
    source = open_source(file, format=read_options.format, limits=read_options.limits)
    if source.is_harness_log:
        return []
    return hints_at_dependent_rows(source, predictions.column_of_role, consequence, named_only=named_only)


def hints_at_dependent_rows(
    source: OpenedTable, column_by_role: Mapping[str, str], consequence: str, *, named_only: bool = False
) -> list[str]:
    """Return sentences on copies of rows and on a column that may hold clusters; none if the user named clusters.

    Parameters
    ----------
    source : OpenedTable
        The opened file.
    column_by_role : mapping
        Which column was taken for what: "name", "name, another name" or "name (in words)" for each role.
    consequence : str
        What goes wrong if such rows are taken for independent: "the intervals are too narrow".
    named_only : bool
        Look only at columns that are named like ids or common clusters (`patient_id`), and at no copies of rows.
    """
    if "clusters" in column_by_role:
        return []
    # columns that have a role, such as the confidence; ids have one too
    used_columns = {
        name
        for name in source.columns
        if any(_names_column(description, display_name(name)) for description in column_by_role.values())
    }
    values_by_name = {}
    for name, column in source.columns.items():
        if named_only and not _is_named_like_clusters(name):
            continue
        try:
            values_by_name[name] = column.load()
        except AbstainError:  # objects, or a mixture of texts and numbers
            continue
    unused = {name: values for name, values in values_by_name.items() if name not in used_columns}
    hints = []
    # rows are copies only if they are equal in every column, so every column must have been loaded
    if not named_only and len(values_by_name) == len(source.columns):
        hints += _hint_at_copies(values_by_name, consequence)
    return hints + _hint_at_clusters(unused, consequence)


def _names_column(description: str, name: str) -> bool:
    """Is this one of the columns in the description of a role: "name", "name, another name" or "name (in words)"?"""
    return re.search(rf"(^|, ){re.escape(name)}($|, | \()", description) is not None


def _is_named_like_clusters(name: str) -> bool:
    """Return whether a column is named like an id or a common kind of clusters."""
    return _ID_NAME.fullmatch(name) is not None or any(word in name.lower() for word in _CLUSTER_WORDS)


def _hint_at_clusters(values_by_name: Mapping[str, Values], consequence: str) -> list[str]:
    """A sentence on the first column whose values look like those of clusters; empty if there is none.

    Its values occur twice on average, and the rows of each value are consecutive. Of a column that is named like an id,
    or like a patient or another common kind of clusters, a single repeated value is enough, anywhere.
    `values_by_name` are columns that have no role yet, and `consequence` ends the sentence.
    """
    for name, values in values_by_name.items():
        # texts are stored as their distinct texts and, for each row, the number of its text
        codes = values.code_of_row if isinstance(values, TextValues) else np.asarray(values)
        if codes.ndim != 1 or codes.dtype.kind not in "iuf" or not np.array_equal(codes, np.floor(codes)):
            continue  # several values per row, measured numbers, or some are missing
        count = len(np.unique(codes))
        # otherwise its values must occur twice on average
        is_named_so = _is_named_like_clusters(name)
        largest_count = len(codes) - 1 if is_named_so else len(codes) // 2
        # with fewer than 20 values, or more than 50 rows for each on average, the column is rather a category
        if not _MIN_CLUSTERS <= count <= largest_count or len(codes) > _MAX_CLUSTER_SIZE * count:
            continue
        # a block is a run of consecutive rows with one value
        block_count = 1 + int(np.count_nonzero(codes[1:] != codes[:-1]))
        # as many blocks as values: the rows of each value are consecutive
        if block_count == count or is_named_so:
            return [
                f"`{display_name(name)}` has {count:,} values in {len(codes):,} rows. If rows with one value depend on "
                f"each other, such as pictures of one patient, add -c clusters={shlex.quote(display_name(name))}: "
                f"otherwise {consequence}."
            ]
    return []


def _hint_at_copies(values_by_name: Mapping[str, Values], consequence: str) -> list[str]:
    """A sentence on rows that equal an earlier row in all of these columns; empty if chance may explain them.

    `values_by_name` are all columns of the file, and `consequence` ends the sentence. Only rows with a telling value
    count: a long text, or a number with many decimals, which no two independent rows share.
    """
    # in each column a number from 0 for each row, equal where the values are
    codes_by_name = {name: _number_values(values) for name, values in values_by_name.items()}
    n = max((len(codes) for codes in codes_by_name.values()), default=0)
    rows = np.arange(n)  # numbers of the rows that equal another row in all columns so far
    group_of_row = np.zeros(n, dtype=np.int64)  # for each of `rows`: equal where the rows are equal so far
    is_telling = np.zeros(n, dtype=bool)
    for name, codes in codes_by_name.items():
        if not n or len(codes) != n:
            continue  # not a column of the rows, such as names of classes
        is_telling |= _have_telling_value(values_by_name[name])
        # one number for each pair of (group so far, value in this column)
        pairs = group_of_row * (int(codes.max()) + 1) + codes[rows]
        # rows that equal no other one are dropped, so that later columns are quick
        _, group_of_row, sizes = np.unique(pairs, return_inverse=True, return_counts=True)
        is_shared = sizes[group_of_row] > 1
        rows = rows[is_shared]
        group_of_row = group_of_row[is_shared]
    # of equal rows the first is no copy
    telling_groups = group_of_row[is_telling[rows]]
    copy_count = len(telling_groups) - len(np.unique(telling_groups))
    if not copy_count:
        return []
    return [
        f"{copy_count:,} of {n:,} rows equal an earlier row in every column. Copies are no independent samples: remove "
        f"them, otherwise {consequence}."
    ]


def _number_values(values: Values) -> np.ndarray:
    """Return a number from 0 for each row, equal where the values are: text, numbers, or rows of numbers."""
    if isinstance(values, TextValues):
        return np.asarray(values.code_of_row)
    numbers = np.ascontiguousarray(values)
    if numbers.ndim > 1:  # a row of numbers as one value
        numbers = numbers.reshape(len(numbers), -1)
        numbers = numbers.view([("", numbers.dtype)] * numbers.shape[1]).reshape(-1)
    return np.unique(numbers, return_inverse=True)[1].reshape(-1)


def _have_telling_value(values: Values) -> np.ndarray:
    """Which rows hold a value that no two independent rows share: a long text, or a number with many decimals.

    Long are texts of 20 characters or more, and many decimals are more than three. Numbers next to 0 and 1 do not
    count: probabilities saturate there. Returns a mask of the rows; a row of several numbers is telling if one of them
    is. NaN is not telling.
    """
    if isinstance(values, TextValues):
        is_long = np.array([len(text) >= _LONG_TEXT for text in values.distinct_texts], dtype=bool)
        return is_long[values.code_of_row]
    numbers = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    scaled = numbers * 10**_DECIMALS_BY_CHANCE  # numbers with so few decimals may be equal by chance
    has_decimals = np.abs(scaled - np.round(scaled)) > 1e-3  # more than rounding errors
    is_saturated = np.minimum(np.abs(numbers), np.abs(1 - numbers)) < 10.0**-_DECIMALS_BY_CHANCE
    return np.asarray((has_decimals & ~is_saturated).any(axis=1))
