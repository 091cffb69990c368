"""Tables of text and of Excel."""

from __future__ import annotations

import csv
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from abstain._tables import is_number
from abstain.errors import import_optional
from abstain.formats.columns import Column, Source, Values, Words, text_of
from abstain.formats.safety import (
    CELL,
    Limits,
    check_rows,
    display_name,
    encoding_of,
    file_error,
    opened,
    reading,
    unpacked_archive_size,
)

# tables of text, and of Excel: a header line, then one row per sample; numbers where every cell is one, words
# otherwise. Tabs, semicolons or commas between cells, as the header has them; where it is not commas, 0,5 is a number.

_CHUNK = 1 << 24  # bytes of cells, about, read at a time
_PIECE = 128  # bytes that an array costs besides its values
_LINE = 1 << 24  # characters of the longest line
_BLANK_ROW = 4  # cells that a row of a sheet counts for at least: one that is missing takes time, too
_SHEET = 8  # memory and time that a byte of a sheet takes, compared with a byte of another table
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # or a decimal comma: nobody can tell
_EXCEL = re.compile(r'"?sep=(.)"?\s*')  # how Excel is told what stands between cells


def open_delimited(path: Path, limits: Limits) -> Source:
    """Reads the whole table (text has no index); columns keep numbers as float64."""
    with reading(path, "a table of text"), opened(path, limits) as stream:
        check_rows(path, limits)
        delimiter, rows = _split(path, stream)
        kind = "tsv" if delimiter == "\t" else "csv"
        return Source(path, kind, _table(path, rows, limits, decimal_comma=delimiter != ","))


def open_excel(path: Path, limits: Limits) -> Source:
    """The first sheet of a workbook; of a formula, the value that Excel saved."""
    openpyxl = import_optional("openpyxl", f"Reading {display_name(path.name)}", "files")
    with reading(path, "an Excel workbook"):
        limits.check(path, _SHEET * unpacked_archive_size(path), "reading it")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and menus that it leaves out
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            rows = book.worksheets[0].iter_rows(values_only=True)
            texts = (
                ["" if cell is None else str(cell) for cell in row] for row in _counted(path, rows, limits)
            )
            return Source(path, "xlsx", _table(path, texts, limits))
        finally:
            book.close()


def _counted(path: Path, rows: Iterable[Sequence[Any]], limits: Limits) -> Iterator[Sequence[Any]]:
    """Rows of a sheet, refused when they hold more cells than is allowed.

    A cell far below or to the right of the others makes all cells between them, which the file does not hold.
    """
    cells = 0
    allowed = limits.allowed(path)
    for row in rows:
        cells += max(_BLANK_ROW, len(row))
        if cells * CELL > allowed:
            limits.check(path, cells * CELL, f"its {cells:,} cells")
        yield row


def _split(path: Path, stream: IO[bytes]) -> tuple[str, Iterator[list[str]]]:
    """What stands between cells, and the rows of cells, names first."""
    lines = _clean(path, io.TextIOWrapper(stream, encoding=encoding_of(stream.peek(2)), newline=""))  # type: ignore[attr-defined]
    head = next(lines, "")
    if told := _EXCEL.fullmatch(head):
        delimiter, head = told[1], next(lines, "")
    else:
        bare = re.sub(r'"[^"]*"', "", head)
        delimiter = "\t" if "\t" in bare else ";" if bare.count(";") > bare.count(",") else ","
    cells = csv.reader(chain([head], lines), delimiter=delimiter, strict=True, skipinitialspace=True)
    return delimiter, cells


def _table(
    path: Path, rows: Iterator[list[str]], limits: Limits, *, decimal_comma: bool = False
) -> dict[str, Column]:
    names = [name.strip() for name in next(rows, [])]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise file_error(path, "is empty. A table needs a line of column names first.")
    _check_names(path, names, limits)
    parts: list[list[_Cells]] = []
    done = texts = 0
    for some in _chunks(path, rows, len(names)):
        done += len(some)
        limits.check(path, len(names) * (done * CELL + (len(parts) + 1) * _PIECE) + texts)
        parts.append([_from_cells(list(cells), decimal_comma) for cells in zip(*some)])
        words = (kept for part in parts[-1] for kept in part if isinstance(kept, Words))
        texts += sum(sys.getsizeof(v) for kept in words for v in kept.values)
    if not parts:
        raise file_error(path, "has column names and no rows.")
    return {name: _column(list(pieces)) for name, *pieces in zip(names, *parts)}


def _chunks(path: Path, rows: Iterator[list[str]], width: int) -> Iterator[list[list[str]]]:
    """Some rows at a time. Blank ones may end a table, not interrupt it; so may empty cells end a row."""
    held: list[list[str]] = []
    size = blank = 0
    for place, row in enumerate(rows, 1):
        if not any(row):
            blank = blank or place
            continue
        if blank:
            raise file_error(path, f"row {blank} is blank, and more rows follow.")
        if len(row) != width:
            if len(row) < width or any(row[width:]):
                raise file_error(path, f"row {place} has {len(row)} cells where the header has {width}.")
            row = row[:width]
        held.append(row)
        size += sum(map(len, row)) + 100 * width
        if size > _CHUNK:
            yield held
            held, size = [], 0
    if held:
        yield held


def _clean(path: Path, text: io.TextIOWrapper) -> Iterator[str]:
    """Lines, none of them endless, none with NUL bytes (a binary file under a text name)."""
    while line := text.readline(_LINE):
        if "\0" in line:
            told = "holds NUL bytes, so it is no text, or UTF-16 without its first mark. Save it as UTF-8."
            raise file_error(path, told)
        if len(line) >= _LINE:
            raise file_error(path, "has a line of more than 16 million characters.")
        yield line


def _check_names(path: Path, names: list[str], limits: Limits) -> None:
    limits.check_columns(path, len(names))
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise file_error(path, f"has two columns named {display_name(name)!r}.")
    if all(map(is_number, names)):
        raise file_error(
            path, f"must begin with a line of column names, got numbers: {display_name(','.join(names[:4]))}."
        )


class _Cells(NamedTuple):
    """Cells of a column: their values, and their texts where they are whole numbers that the values do not keep."""

    values: Values
    texts: Words | None = None


def _from_cells(cells: list[str], decimal_comma: bool) -> _Cells:
    """Numbers if every cell is one or empty (an empty one is NaN, to be objected to when it matters)."""
    bare = list(map(str.strip, cells))
    if "_" in "".join(bare):  # Python takes 1_0 for ten, people do not
        return _Cells(Words.of(bare))
    with suppress(ValueError, OverflowError):
        whole = np.fromiter(map(int, bare), np.int64, len(bare))
        padded = any(cell[0] in "0+" and len(cell) > 1 for cell in bare)
        return _Cells(whole, Words.of(bare) if padded else None)
    with suppress(ValueError):
        found = np.fromiter((float(cell or "nan") for cell in bare), np.float64, len(bare))
        return _Cells(found, Words.of(bare) if all(c.isdecimal() or not c for c in bare) else None)
    if decimal_comma and not any("." in cell for cell in bare):
        with suppress(ValueError):
            points = [float(cell.replace(",", ".", 1) or "nan") for cell in bare]
            if not all(_THOUSANDS.fullmatch(cell) for cell in bare if "," in cell):
                return _Cells(np.array(points))
    return _Cells(Words.of(bare))


def _column(parts: list[_Cells]) -> Column:
    """A column from the cells of each chunk."""
    values = [part.values for part in parts]
    if any(isinstance(some, Words) for some in values):
        return Column.of(_joined(values))
    column = Column.of(np.concatenate(values))  # type: ignore[arg-type]
    whole = all(part.texts or part.values.dtype.kind == "i" for part in parts)  # type: ignore[union-attr]
    if whole and any(part.texts for part in parts):
        return replace(column, texts=_joined([part.texts or part.values for part in parts]))
    return column


def _joined(parts: list[Values]) -> Words:
    """Texts of chunks, some of which may have been taken for numbers."""
    seen: dict[str, int] = {}
    codes = []
    for part in parts:
        words = (
            part
            if isinstance(part, Words)
            else Words.of("" if v != v else str(text_of(v)) for v in part.tolist())
        )
        place = np.array([seen.setdefault(value, len(seen)) for value in words.values], dtype=np.int64)
        codes.append(place[words.codes])
    return Words(np.concatenate(codes), tuple(seen))
