"""Several files of predictions put in one order of samples."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import AbstainWarning, DataError
from abstain.formats.arrow import read_batches
from abstain.formats.columns import text_of
from abstain.formats.predictions import Predictions, plain_values
from abstain.formats.readers import column_names
from abstain.formats.safety import display_name, file_error
from abstain.formats.table_files import find_files, table_format


def comparison_arguments(models: Sequence[Predictions]) -> dict[str, Any]:
    """What goes along the samples of each model, as `compare` takes it; nothing of what no model has."""
    plain: Any = {"sample_weight": np.ones, "clusters": np.arange, "abstained": lambda n: np.zeros(n, bool)}
    found: dict[str, Any] = {}
    for name, make in plain.items():
        given = {m.name: getattr(m, name) for m in models}
        if any(values is not None for values in given.values()):
            found[name] = {m.name: make(m.n) if given[m.name] is None else given[m.name] for m in models}
    return found


class OtherSamplesError(DataError):
    """Files that hold different samples, so that their rows cannot be paired.

    Examples
    --------
    >>> raise OtherSamplesError("a and b are not the same samples in the same order: they have no id in common.")
    Traceback (most recent call last):
    ...
    abstain.formats.alignment.OtherSamplesError: a and b are not the same samples in the same order: ...
    """


def align_models(models: Sequence[Predictions]) -> list[Predictions]:
    """The same samples in the same order: matched by their ids, or by position where no file has ids.

    An id that is repeated, empty or missing in one of the files is an error that names it. Position is confirmed by
    labels, groups or clusters where every file has them; a warning says so where nothing confirms it.
    """
    if len(models) < 2:
        return list(models)
    keys = [sample_keys(model) for model in models]
    without = [model for model, ids in zip(models, keys) if ids is None]
    if not without:
        return _matched_by_id(models, [ids for ids in keys if ids is not None])
    if len(without) < len(models):
        named = next(model for model, ids in zip(models, keys) if ids is not None)
        raise DataError(
            f"{display_name(without[0].name)} has no ids and {display_name(named.name)} has: rows are "
            f"matched by id in all files or "
            f"in none. Name the column with -c ids=NAME, or remove the ids from the other files."
        )
    return _matched_by_position(models)


def _matched_by_id(models: Sequence[Predictions], keys: Sequence[list[str]]) -> list[Predictions]:
    """Every file in the order of the first."""
    first = models[0]
    place = {key: k for k, key in enumerate(keys[0])}
    matched = [first]
    for other, ids in zip(models[1:], keys[1:]):
        if place.keys().isdisjoint(ids):
            raise _not_the_same(first, other, f"they have no id in common (such as {display_name(ids[0])!r})")
        for key, holder, lacking in _unmatched(first, place, other, ids):
            raise DataError(
                f"{display_name(holder.name)} has id {display_name(key)!r} and {display_name(lacking.name)} has "
                f"not: every id must be in "
                f"every file. Different test sets can be compared with `abstain compare --unpaired`."
            )
        order = np.argsort([place[key] for key in ids])
        if (np.diff(order) < 0).any():
            message = (
                f"{display_name(other.name)} was put in the order of {display_name(first.name)} by its ids."
            )
            warnings.warn(message, AbstainWarning, stacklevel=3)
        matched.append(other.rows(order))
    return matched


def _unmatched(
    first: Predictions, place: Mapping[str, int], other: Predictions, ids: Sequence[str]
) -> Iterator[tuple[str, Predictions, Predictions]]:
    """Ids of one file that the other one lacks, with the file that has it and the one that lacks it."""
    known = set(ids)
    yield from ((key, first, other) for key in place if key not in known)
    yield from ((key, other, first) for key in ids if key not in place)


def _matched_by_position(models: Sequence[Predictions]) -> list[Predictions]:
    """The files as they are, where nothing in them says that their rows differ."""
    first = models[0]
    for other in models[1:]:
        if other.n != first.n:
            raise _not_the_same(first, other, f"they have {first.n:,} and {other.n:,} rows and no ids")
    if confirming_columns(models) is None:
        message = (
            "Nothing in the files says that their rows are the same samples in the same order: they have no ids, so "
            "rows are paired by position. Add a column `id` to match them."
        )
        warnings.warn(message, AbstainWarning, stacklevel=3)
    return list(models)


def confirming_columns(models: Sequence[Predictions]) -> str | None:
    """The first of labels, groups and clusters that every file has and that agree; None where none does.

    Columns that contradict each other are an error: the rows are not the same samples.
    """
    confirmed = None
    for what in ("labels", "label_words", "groups", "clusters"):
        columns = [(m, plain_values(getattr(m, what))) for m in models if getattr(m, what) is not None]
        title = what.replace("label_words", "labels")
        for other, values in columns[1:]:
            if not np.array_equal(values, columns[0][1]):
                raise _not_the_same(columns[0][0], other, f"they have different {title}")
        if len(columns) == len(models):
            confirmed = confirmed or title
    return confirmed


def _not_the_same(one: Predictions, other: Predictions, why: str) -> OtherSamplesError:
    return OtherSamplesError(
        f"{display_name(one.name)} and {display_name(other.name)} are not the same samples in the same order: {why}. "
        f"Different test sets can be compared with `abstain compare --unpaired`."
    )


def sample_keys(model: Predictions) -> list[str] | None:
    """One id per sample as text, all different; None where the file has no ids."""
    if model.ids is None:
        return None
    ids = model.ids.as_texts().tolist()
    if len(ids) != model.n:
        raise file_error(model.path, f"the ids must have {model.n:,} rows as the rest, got {len(ids):,}.")
    for row, key in enumerate(ids, 1):
        if key in ("", "nan"):
            raise file_error(
                model.path, f"row {row:,} has no id, so rows cannot be matched by id. Fill it in."
            )
    if len(set(ids)) < len(ids):
        key, count = Counter(ids).most_common(1)[0]
        raise file_error(
            model.path,
            f"id {display_name(key)!r} is in {count:,} rows, so rows cannot be matched by id. Number the "
            f"repeats in a column "
            f"and name it (-c epoch=NAME), keep one of each (--only NAME=VALUE), or name another column (-c ids=NAME).",
        )
    return ids


PAIRED_BY_POSITION = "No file has ids: rows are paired by position."


def check_same_ids(path: str | Path, other: str | Path, stated: Mapping[str, str]) -> bool:
    """Check that two tables have the same ids row by row, a batch at a time; False where neither has ids."""
    files = [find_files("compare", side) for side in (path, other)]
    roles = [column_names(own[0]).roles(stated) for own in files]
    columns = [next((own[r].names[0] for r in ("ids", "question") if r in own), None) for own in roles]
    if columns == [None, None]:
        return False
    if None in columns:
        lacking = path if columns[0] is None else other
        raise file_error(lacking, "has no ids and the other table has. Name the column with -c ids=NAME.")
    streams = [_id_batches(own, str(column)) for own, column in zip(files, columns)]
    row = 0
    left: list[str] = []
    right: list[str] = []
    while True:
        left = left or next(streams[0], [])
        right = right or next(streams[1], [])
        size = min(len(left), len(right))
        if size == 0:
            break
        for place, (one, two) in enumerate(zip(left[:size], right[:size]), row + 1):
            if one != two:
                raise DataError(
                    f"row {place:,} has id {display_name(one)!r} in {display_name(path)} and {display_name(two)!r} "
                    f"in {display_name(other)}: an "
                    f"engine pairs rows by position. Sort both by id, or compare them in memory."
                )
        row += size
        left = left[size:]
        right = right[size:]
    if left or right:
        raise DataError(
            f"{display_name(path)} and {display_name(other)} must have as many rows each: one ends at row {row:,}."
        )
    return True


def _id_batches(files: Sequence[str], column: str) -> Iterator[list[str]]:
    for file in files:
        for batch in read_batches(Path(file), table_format(file), lambda schema: [column], 1 << 16, None):
            yield [str(text_of(value)) for value in batch.column(0).to_pylist()]
