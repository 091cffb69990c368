"""csv and tsv: a header line, then one row per sample. Numbers where every cell is one, words otherwise."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from abstain.errors import DataError
from abstain.formats.columns import Column, Source, Values, Words
from abstain.formats.limits import Limits, opened, reading, shown

_CHUNK = 150_000  # cells read at a time, however wide the table
_PIECE = 128  # bytes that an array costs besides its values
_CELL = 24  # bytes that a cell costs, about, while it is being read


def open_delimited(path: Path, limits: Limits, delimiter: str | None = None) -> Source:
    """Reads the whole table (text has no index); columns keep numbers as float64."""
    packed = path.suffix.lower() in (".gz", ".xz", ".bz2")
    plain = path.stem if packed else path.name
    tabbed = plain.lower().endswith(("tsv", "tab"))
    with reading(path, "a table of text"), opened(path, limits) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        lines = csv.reader(_clean(path, text), delimiter=delimiter or ("\t" if tabbed else ","), strict=True)
        names = next(lines, None)
        if not names:
            raise DataError(f"{shown(path)}: is empty. A table needs a line of column names first.")
        _check_names(path, names, limits)
        parts = _read(path, lines, len(names), limits)
    if not parts:
        raise DataError(f"{shown(path)}: has column names and no rows.")
    columns = {}
    for place, name in enumerate(names):
        values = _join([part[place] for part in parts])
        kind = "text" if isinstance(values, Words) else "numbers"
        columns[name.strip()] = Column((len(values),), kind, partial(_itself, values))
    return Source(path, "tsv" if tabbed else "csv", columns)


def _itself(values: Values) -> Values:
    return values


def _clean(path: Path, text: io.TextIOWrapper) -> Iterator[str]:
    """Lines, none of them endless, none with NUL bytes (a binary file under a text name)."""
    while line := text.readline(1 << 24):
        if "\0" in line:
            raise DataError(f"{shown(path)}: holds NUL bytes, so it is no text.")
        if len(line) >= 1 << 24:
            raise DataError(f"{shown(path)}: has a line of more than 16 million characters.")
        yield line


def _check_names(path: Path, names: list[str], limits: Limits) -> None:
    clean = [name.strip() for name in names]
    if len(names) > limits.columns:
        raise DataError(f"{shown(path)}: has {len(names)} columns, which is too many.")
    double = sorted({name for name in clean if clean.count(name) > 1}) if len(clean) < 5000 else []
    if double or len(set(clean)) < len(clean):
        raise DataError(f"{shown(path)}: has two columns named {shown(double[0] if double else '?')!r}.")
    if all(_number(name) for name in clean):
        raise DataError(
            f"{shown(path)}: must begin with a line of column names, got numbers: {shown(','.join(clean[:4]))}."
        )


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read(path: Path, lines: Iterator[list[str]], width: int, limits: Limits) -> list[list[Values]]:
    parts: list[list[Values]] = []
    done = 0
    while rows := list(islice(lines, max(1, _CHUNK // width))):
        for place, row in enumerate(rows):
            if len(row) != width:
                raise DataError(
                    f"{shown(path)}: row {done + place + 1} has {len(row)} cells where the header has {width}."
                )
        done += len(rows)
        limits.check(path, width * (done * _CELL + (len(parts) + 1) * _PIECE))
        parts.append([_convert(list(cells)) for cells in zip(*rows)])
    return parts


def _convert(cells: list[str]) -> Values:
    """Numbers if every cell is one or empty (an empty one is NaN, to be objected to when it matters)."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    try:
        return np.array([cell if cell.strip() else "nan" for cell in cells], dtype=np.float64)
    except ValueError:
        return Words.of(cells)


def _join(parts: list[Values]) -> Values:
    numbers = [part for part in parts if isinstance(part, np.ndarray)]
    if len(numbers) == len(parts):
        return np.concatenate(numbers)
    seen: dict[str, int] = {}
    codes = []
    for part in parts:
        words = part if isinstance(part, Words) else Words.of(f"{v:.17g}" for v in part.tolist())
        place = np.array([seen.setdefault(value, len(seen)) for value in words.values], dtype=np.int64)
        codes.append(place[words.codes])
    return Words(np.concatenate(codes), tuple(seen))
