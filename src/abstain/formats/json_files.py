"""JSON and JSON lines: an object of columns, a list of records, one record per line, or the log of a harness."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from abstain._stored import refuse_repeated_keys
from abstain.errors import DataError
from abstain.formats.columns import Column, Source, Values, Words
from abstain.formats.log_readers import read_json_log
from abstain.formats.safety import (
    Limits,
    check_parsing,
    decode_json,
    display_name,
    file_error,
    open_limited,
    reporting_damage,
)

_MAX_DIMENSIONS = 4


def parse_json(text: str) -> Any:
    """Parse JSON text; ValueError where an object has one key twice."""
    return json.loads(text, object_pairs_hook=refuse_repeated_keys)


def open_json(path: Path, limits: Limits, *, lines: bool = False) -> Source:
    """Read a JSON file: the log of a harness, an object of columns {"y_logits": ..., "y_true": ...}, or records.

    `lines` says that the name of the file promises one record per line. Values that are not lists of at least one
    element are left out. DataError where the file is none of these, is damaged, or needs more memory or columns than
    `limits` allow.
    """
    with reporting_damage(path, "json lines" if lines else "json"):
        content = _load_json(path, limits, lines)
        log_source = read_json_log(path, content, limits, partial(_load_json, limits=limits))
        if log_source is not None:
            return log_source
        content = _find_records(content)
        if isinstance(content, list):
            content = _columns_from_records(path, content)
        if not isinstance(content, dict):
            kind = type(content).__name__
            raise file_error(path, f"must hold an object of columns or a list of records, got {kind}.")
        limits.check_columns(path, len(content))
        columns = {
            name: _make_column(path, name, values)
            for name, values in content.items()
            if isinstance(values, list) and values
        }
        return Source(path=path, format="jsonl" if lines else "json", columns=columns)


def _load_json(path: Path, limits: Limits, lines: bool = False) -> Any:
    """Return the parsed content of a JSON file: a list of records where there is one per line.

    `lines` says that one record per line is expected. A file of one record per line may be called .json, and the other
    way round, so the other reading is tried where the first one fails; the error is that of the first: DataError or
    json.JSONDecodeError. DataError where parsing would need more memory than `limits` allow.
    """
    check_parsing(path, limits)
    with open_limited(path, limits) as stream:
        text = decode_json(path, stream.read(), limits)
    try:
        return _parse_lines(path, text) if lines else parse_json(text)
    except (DataError, json.JSONDecodeError) as error:
        with suppress(DataError, json.JSONDecodeError):
            return parse_json(text) if lines else _parse_lines(path, text)
        raise error


def _parse_lines(path: Path, text: str) -> list[Any]:
    """Parse one record per line; DataError names the line that is no JSON."""
    records = []
    for index, line in enumerate(text.split("\n")):  # not splitlines: a string may hold U+2028
        if line.strip():
            try:
                records.append(parse_json(line))
            except json.JSONDecodeError as error:
                raise file_error(path, f"line {index + 1} is not JSON ({error.msg}).") from error
    return records


def _find_records(content: Any) -> Any:
    """Return the records of an object that holds one list of records and a few numbers about them; else `content`."""
    if not isinstance(content, dict):
        return content
    lists = [value for value in content.values() if isinstance(value, list)]
    if len(lists) == 1 and lists[0] and isinstance(lists[0][0], dict):
        return lists[0]
    return content


def _columns_from_records(path: Path, records: list[Any]) -> dict[str, list[Any]]:
    """Return {name: one value per record}, with None where a record does not have the name.

    DataError where there are no records, where one is no object, or where records have so few names in common that the
    table of all values would be far larger than the file.
    """
    if not records:
        raise file_error(path, "holds no records.")
    if not all(isinstance(record, dict) for record in records):
        raise file_error(path, "every record must be an object with named values.")
    names = list(dict.fromkeys(name for record in records for name in record))
    if len(names) * len(records) > 50 * sum(map(len, records)) + 1000:
        raise file_error(path, "its records have too few names in common to make a table.")
    return {name: [record.get(name) for record in records] for name in names}


def _make_column(path: Path, name: str, values: list[Any]) -> Column:
    """Make a column of a list that is not empty; values are converted and checked on loading.

    Shape and kind (for messages) are those of the first row, which may be a value or nested lists.
    """
    shape = [len(values)]
    first_value = values[0]
    while isinstance(first_value, list) and len(shape) < _MAX_DIMENSIONS:
        shape.append(len(first_value))
        first_value = first_value[0] if first_value else None
    if isinstance(first_value, str):
        kind = "text"
    elif isinstance(first_value, dict):
        kind = "objects"
    else:
        kind = "numbers"
    load = partial(_convert_list, path, f"`{display_name(name)}`", values)
    return Column(shape=tuple(shape), kind=kind, load=load)


def _convert_list(path: Path, name: str, values: list[Any]) -> Values:
    """Convert a list of numbers, texts, truth values or rows of numbers; null is NaN, or an empty text.

    The list must not be empty; `name` is the column's name in backquotes, for messages. Whole numbers are int64 where
    they fit, other numbers float64. DataError where text is mixed with other values, where a value is an object, or
    where rows have different lengths.
    """
    if isinstance(values[0], list):
        return _convert_rows(path, name, values)
    types = {type(value) for value in values}
    if str in types:
        if not types <= {str, type(None)}:
            raise file_error(path, f"column {name} mixes text and numbers.")
        return Words.of("" if value is None else value for value in values)
    if types == {bool}:
        return np.array(values, dtype=bool)
    if not types <= {bool, int, float, type(None)}:
        kind = "an object" if dict in types else "a list"
        raise file_error(path, f"column {name} must hold one number per row, got {kind}.")
    if types == {int}:
        with suppress(OverflowError):
            return np.array(values, dtype=np.int64)
    return np.array([np.nan if value is None else float(value) for value in values])


def _convert_rows(path: Path, name: str, rows: list[Any]) -> np.ndarray:
    """Convert lists of numbers of one length to a matrix."""
    lengths = {len(row) if isinstance(row, list) else -1 for row in rows}
    if len(lengths) > 1:
        raise file_error(path, f"rows of {name} must have one length, got {sorted(lengths)[:3]} of them.")
    try:
        return np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise file_error(path, f"{name} must hold numbers only.") from None
