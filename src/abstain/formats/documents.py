"""json and jsonl: an object of columns, a list of records, or one record per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError
from abstain.formats.columns import Column, Source, Values, Words
from abstain.formats.limits import Limits, opened, reading, shown

# what Python's parser makes of one character of each kind, in bytes (a list, a dict, a value and its place)
_COST = {b"[": 96, b"{": 280, b",": 40, b'"': 40}


def _text(path: Path, limits: Limits) -> bytes:
    with opened(path, limits) as stream:
        text = stream.read()
    limits.check(path, len(text) + sum(cost * text.count(c) for c, cost in _COST.items()), "parsing it")
    return text


def open_json(path: Path, limits: Limits) -> Source:
    """An object of columns, {"y_logits": ..., "y_true": ...}, or a list of records."""
    with reading(path, "json"):
        content = json.loads(_text(path, limits).decode("utf-8-sig"))
        if isinstance(content, list):
            content = _from_records(path, content)
        if not isinstance(content, dict):
            raise DataError(
                f"{shown(path)}: must hold an object of columns or a list of records, got "
                f"{type(content).__name__}."
            )
        return _source(path, "json", content, limits)


def open_jsonl(path: Path, limits: Limits) -> Source:
    """One record per line."""
    with reading(path, "json lines"):
        lines = _text(path, limits).decode("utf-8-sig").splitlines()
        records = []
        for place, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise DataError(f"{shown(path)}: line {place + 1} is no JSON ({error.msg}).") from error
        return _source(path, "jsonl", _from_records(path, records), limits)


def _from_records(path: Path, records: list[Any]) -> dict[str, list[Any]]:
    if not records:
        raise DataError(f"{shown(path)}: holds no records.")
    if not all(isinstance(r, dict) for r in records):
        raise DataError(f"{shown(path)}: every record must be an object with named values.")
    names = list(dict.fromkeys(name for r in records for name in r))
    if len(names) * len(records) > 50 * sum(map(len, records)) + 1000:
        raise DataError(f"{shown(path)}: its records have hardly a name in common.")
    return {name: [r.get(name) for r in records] for name in names}


def _source(path: Path, kind: str, content: dict[str, Any], limits: Limits) -> Source:
    if len(content) > limits.columns:
        raise DataError(f"{shown(path)}: has {len(content)} columns, which is too many.")
    columns = {name: _column(path, name, values) for name, values in content.items() if _is_column(values)}
    return Source(path, kind, columns)


def _is_column(values: Any) -> bool:
    return isinstance(values, list) and bool(values)


def _column(path: Path, name: str, values: list[Any]) -> Column:
    """The shape is known from the first row; conversion, and its objections, wait until the column is used."""
    first, shape = values[0], [len(values)]
    while isinstance(first, list) and len(shape) < 4:
        shape.append(len(first))
        first = first[0] if first else None
    kind = "text" if isinstance(first, str) else "numbers"
    return Column(tuple(shape), kind, lambda: _convert(path, name, values))


def _convert(path: Path, name: str, values: list[Any]) -> Values:
    if isinstance(values[0], list):
        return _matrix(path, name, values)
    if any(isinstance(v, str) for v in values):
        if not all(v is None or isinstance(v, str) for v in values):
            raise DataError(f"{shown(path)}: column `{shown(name)}` mixes text and numbers.")
        return Words.of("" if v is None else v for v in values)
    if all(isinstance(v, bool) for v in values):
        return np.array(values, dtype=bool)
    if not all(v is None or isinstance(v, (bool, int, float)) for v in values):
        bad = next(v for v in values if not (v is None or isinstance(v, (bool, int, float))))
        raise DataError(
            f"{shown(path)}: column `{shown(name)}` must hold one number per row, got {type(bad).__name__}."
        )
    return np.array([np.nan if v is None else float(v) for v in values])


def _matrix(path: Path, name: str, values: list[Any]) -> np.ndarray:
    widths = {len(v) if isinstance(v, list) else -1 for v in values}
    if len(widths) > 1:
        raise DataError(
            f"{shown(path)}: rows of `{shown(name)}` must have one length, got {sorted(widths)[:3]} of them."
        )
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{shown(path)}: `{shown(name)}` must hold numbers only.") from None
