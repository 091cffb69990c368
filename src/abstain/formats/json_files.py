"""JSON and JSON lines: the log of a harness, or a table in any of the ways in which JSON can hold one."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from abstain._stored import refuse_repeated_keys
from abstain.errors import DataError
from abstain.formats.columns import Column, OpenedTable, TextValues, Values
from abstain.formats.json_tables import describe_tree, find_tables
from abstain.formats.log_readers import read_json_log
from abstain.formats.safety import (
    MAX_LISTED_NAMES,
    Limits,
    check_parsing,
    decode_json,
    display_name,
    file_error,
    open_limited,
    reporting_damage,
)

_MAX_DIMENSIONS = 4
_KIND_WORDS = {
    str: "text", int: "numbers", float: "numbers", bool: "true or false", list: "lists", dict: "objects",
}  # fmt: skip


def parse_json(text: str) -> Any:
    """Parse JSON text; ValueError where an object has one key twice."""
    return json.loads(text, object_pairs_hook=refuse_repeated_keys)


class NoTableError(DataError):
    """A JSON file that holds neither the log of a harness nor a table; `tree` shows what it holds, a line per key.

    Examples
    --------
    >>> raise NoTableError("a.json: holds no table.", ["accuracy: number"])
    Traceback (most recent call last):
    ...
    abstain.formats.json_files.NoTableError: a.json: holds no table.
    """

    def __init__(self, message: str, tree: list[str]) -> None:
        super().__init__(message)
        self.tree = tree


def open_json(path: Path, limits: Limits, *, lines: bool = False) -> OpenedTable:
    """Read a JSON file: the log of a harness, or a table (an object of columns, records, rows under names of columns).

    `lines` says that the name of the file promises one record per line. Fields inside objects are columns with dotted
    names; where the file holds several tables, the names begin with that of their table. NoTableError where the file is
    none of these, DataError where it is damaged, or needs more memory or columns than `limits` allow.
    """
    with reporting_damage(path, "json lines" if lines else "json"):
        content = _load_json(path, limits, lines)
        # The log of an evaluation harness, which may need other files of the run; None for a table. The last argument
        # loads such a file.
        log_source = read_json_log(path, content, limits, partial(_load_json, limits=limits))
        if log_source is not None:
            return log_source
        columns: dict[str, Column] = {}
        tables = find_tables(path, content)  # in the order of the file; empty where it holds none
        for table in tables:
            prefix = f"{table.key_path}." if len(tables) > 1 else ""
            limits.check_columns(path, len(columns) + len(table.columns))
            for name, values in table.columns.items():
                # converted when it is loaded
                columns[prefix + name] = _make_column(path, prefix + name, values)
        if not columns:
            # the second argument: the keys of the file as lines of a tree, to be shown below the message
            raise NoTableError(str(file_error(path, _explain_no_table(content))), describe_tree(content))
        key_paths = tuple(table.key_path for table in tables)
        return OpenedTable(
            path=path,
            format="jsonl" if lines else "json",
            columns=columns,
            # the user may write the path of the only table before the names of its columns
            place=key_paths[0] if len(key_paths) == 1 else "",
            tables=key_paths if len(key_paths) > 1 else (),
        )


def _explain_no_table(content: Any) -> str:
    """Return the sentence for a JSON file without a table; `content` is the parsed file.

    It follows the name of the file in a message, says what the file holds, and how predictions can be written.
    """
    if content == []:
        return "holds no records."
    if isinstance(content, list):
        return "every record must be an object with named values."
    if not isinstance(content, dict):
        return f"must hold an object of columns or a list of records, got {type(content).__name__}."
    listed = ", ".join(f"`{display_name(name)}`" for name in list(content)[:MAX_LISTED_NAMES])
    if len(content) > MAX_LISTED_NAMES:
        listed += ", ..."
    kinds = {type(value) for value in content.values()}  # types of the values directly under the keys
    remedy = "A summary has no answers; name the file that has one row per answer."
    if kinds == {str} and len(content) > 1:
        remedy = (
            "If these are answers by id, write a list of records that also hold the right answers: "
            '[{"id": ..., "prediction": ..., "label": ...}, ...].'
        )
    elif str in kinds and not kinds & {dict, list}:  # texts and numbers, nothing nested
        remedy += " If this is one answer, put those to all questions into one list: [{...}, {...}]."
    return f"holds no table: neither records, nor lists of values by name (it has {listed or 'nothing'}). {remedy}"


def _load_json(path: Path, limits: Limits, lines: bool = False) -> Any:
    """Return the parsed content of a JSON file: a list of records where there is one per line.

    `lines` says that one record per line is expected. A file of one record per line may be called .json, and the other
    way round, so the other reading is tried where the first one fails; the error is that of the first: DataError or
    json.JSONDecodeError. DataError where parsing would need more memory than `limits` allow.
    """
    check_parsing(path, limits)  # estimates the memory that the parser needs, before it runs
    with open_limited(path, limits) as stream:
        text = decode_json(path, stream.read(), limits)
    try:
        return _parse_lines(path, text) if lines else parse_json(text)
    except (DataError, json.JSONDecodeError) as error:
        # `_parse_lines` raises DataError for a line that is no record
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


def _make_column(path: Path, name: str, values: list[Any]) -> Column:
    """Make a column of a list that is not empty; values are converted and checked on loading."""
    shape, kind = _find_shape_and_kind(values)
    is_of_lists = len(shape) > 1
    lengths = {len(value) if isinstance(value, list) else 0 for value in values} if is_of_lists else set()
    load = partial(_convert_list, path, f"`{display_name(name)}`", values)
    return Column(shape=shape, kind=kind, load=load, has_several_lengths=len(lengths) > 1)


def _find_shape_and_kind(values: list[Any], depth: int = 1) -> tuple[tuple[int, ...], str]:
    """Return the shape of a list of values or nested lists, and what it holds in words, for messages.

    All values count except null, with which a column may begin. Where they are lists, the longest of them alone says
    the lengths and what is inside. Several kinds are listed: "text and numbers". `depth` is the number of lists around
    the values; at `_MAX_DIMENSIONS` (4), the lists inside are not looked into.
    """
    types = set(map(type, values)) - {type(None)}
    if types == {list} and depth < _MAX_DIMENSIONS:
        longest = max((value for value in values if value is not None), key=len)
        inner_shape, kind = _find_shape_and_kind(longest, depth + 1)
        return (len(values), *inner_shape), kind
    # truth values are numbers, except beside texts or objects; so is a column of nothing but null
    if not types - {bool, int, float}:
        return (len(values),), "numbers"
    return (len(values),), " and ".join(
        dict.fromkeys(word for kind, word in _KIND_WORDS.items() if kind in types)
    )


def _convert_list(path: Path, name: str, values: list[Any]) -> Values:
    """Convert a list of numbers, texts, truth values or rows of numbers; null is NaN, or an empty text.

    The list must not be empty; `name` is the column's name in backquotes, for messages. Whole numbers are int64 where
    they fit, other numbers float64. DataError where text is mixed with other values, where a value is an object, or
    where rows have different lengths.
    """
    if isinstance(values[0], list):
        return _convert_rows(path, name, values)  # a matrix
    types = {type(value) for value in values}
    if str in types:
        if not types <= {str, type(None)}:
            # what stands beside the texts, in words
            others = dict.fromkeys(word for kind, word in _KIND_WORDS.items() if kind in types - {str})
            raise file_error(path, f"column {name} mixes text and {' and '.join(others)}.")
        return TextValues.of("" if value is None else value for value in values)
    if types == {bool}:
        return np.array(values, dtype=bool)
    if not types <= {bool, int, float, type(None)}:
        kind = "an object" if dict in types else "a list"
        raise file_error(path, f"column {name} must hold one number per row, got {kind}.")
    if types == {int}:
        with suppress(OverflowError):  # larger whole numbers become floats below
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
