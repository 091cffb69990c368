"""JSON and JSON lines."""

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
from abstain.formats.safety import Limits, check_parsing, decoded, display_name, file_error, opened, reading

# json and jsonl: an object of columns, a list of records, or one record per line


def _json(path: Path, limits: Limits, lines: bool = False) -> Any:
    """The content of a JSON file. A file of one record per line may be called .json, and the other way round."""
    check_parsing(path, limits)
    with opened(path, limits) as stream:
        text = decoded(path, stream.read(), limits)
    try:
        return _by_line(path, text) if lines else _loads(text)
    except (DataError, json.JSONDecodeError) as error:
        with suppress(DataError, json.JSONDecodeError):
            return _loads(text) if lines else _by_line(path, text)
        raise error


def _by_line(path: Path, text: str) -> list[Any]:
    records = []
    for place, line in enumerate(text.split("\n")):  # not at U+2028, which a string may hold
        if line.strip():
            try:
                records.append(_loads(line))
            except json.JSONDecodeError as error:
                raise file_error(path, f"line {place + 1} is no JSON ({error.msg}).") from error
    return records


_loads = partial(json.loads, object_pairs_hook=refuse_repeated_keys)


def open_json(path: Path, limits: Limits, *, lines: bool = False) -> Source:
    """An object of columns, {"y_logits": ..., "y_true": ...}, a list of records, or one record per line."""
    with reading(path, "json lines" if lines else "json"):
        content = _json(path, limits, lines)
        log = read_json_log(path, content, limits, partial(_json, limits=limits))
        if log is not None:
            return log
        if isinstance(content, dict):  # records under one name, beside a few numbers about them
            lists = [v for v in content.values() if isinstance(v, list)]
            content = lists[0] if len(lists) == 1 and lists[0] and isinstance(lists[0][0], dict) else content
        if isinstance(content, list):
            content = _from_records(path, content)
        if not isinstance(content, dict):
            kind = type(content).__name__
            raise file_error(path, f"must hold an object of columns or a list of records, got {kind}.")
        limits.check_columns(path, len(content))
        kept = {name: values for name, values in content.items() if isinstance(values, list) and values}
        columns = {name: _list_column(path, name, values) for name, values in kept.items()}
        return Source(path, "jsonl" if lines else "json", columns)


def _from_records(path: Path, records: list[Any]) -> dict[str, list[Any]]:
    if not records:
        raise file_error(path, "holds no records.")
    if not all(isinstance(r, dict) for r in records):
        raise file_error(path, "every record must be an object with named values.")
    names = list(dict.fromkeys(name for r in records for name in r))
    if len(names) * len(records) > 50 * sum(map(len, records)) + 1000:
        raise file_error(path, "its records have hardly a name in common.")
    return {name: [r.get(name) for r in records] for name in names}


def _list_column(path: Path, name: str, values: list[Any]) -> Column:
    """The shape is known from the first row; conversion, and its objections, wait until the column is used."""
    first, shape = values[0], [len(values)]
    while isinstance(first, list) and len(shape) < 4:
        shape.append(len(first))
        first = first[0] if first else None
    kind = "text" if isinstance(first, str) else "objects" if isinstance(first, dict) else "numbers"
    return Column(tuple(shape), kind, lambda: _from_list(path, f"`{display_name(name)}`", values))


def _from_list(path: Path, name: str, values: list[Any]) -> Values:
    if isinstance(values[0], list):
        widths = {len(v) if isinstance(v, list) else -1 for v in values}
        if len(widths) > 1:
            raise file_error(path, f"rows of {name} must have one length, got {sorted(widths)[:3]} of them.")
        try:
            return np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise file_error(path, f"{name} must hold numbers only.") from None
    kinds = {type(v) for v in values}
    if str in kinds:
        if not kinds <= {str, type(None)}:
            raise file_error(path, f"column {name} mixes text and numbers.")
        return Words.of("" if v is None else v for v in values)
    if kinds == {bool}:
        return np.array(values, dtype=bool)
    if odd := kinds - {bool, int, float, type(None)}:
        what = "an object" if dict in odd else "a list"
        raise file_error(path, f"column {name} must hold one number per row, got {what}.")
    if kinds == {int}:
        with suppress(OverflowError):
            return np.array(values, dtype=np.int64)
    return np.array([np.nan if v is None else float(v) for v in values])
