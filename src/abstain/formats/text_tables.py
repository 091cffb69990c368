"""Tables of text (csv, tsv) and of Excel: a line of column names, then one row per sample.

A column holds numbers where every cell is one, and words otherwise. Cells are separated by tabs, semicolons or commas,
as the header has them; where they are not separated by commas, 0,5 is a number.
"""

from __future__ import annotations

import csv
import io
import math
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
from abstain.formats.columns import Column, OpenedTable, TextValues, Values, text_or_none
from abstain.formats.safety import (
    BYTES_PER_CELL,
    Limits,
    check_rows,
    display_name,
    file_error,
    open_limited,
    reporting_damage,
    text_encoding,
    unpacked_archive_size,
)

_CHUNK_SIZE = 1 << 24  # approximate bytes of cells that are converted at a time
_ARRAY_OVERHEAD = 128  # bytes that an array needs besides its values
_CELL_OVERHEAD = 100  # bytes that a cell needs besides its characters
_MAX_LINE_LENGTH = 1 << 24  # characters
_MIN_CELLS_COUNTED_PER_ROW = (
    4  # cells that a row of a sheet counts for at least: an empty row takes time, too
)
_COST_PER_SHEET_BYTE = 8  # memory and time that a byte of a sheet takes, compared with a byte of a text table
_AMBIGUOUS_COMMA = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,234: a decimal comma or thousands
_EXCEL_DELIMITER = re.compile(r'"?sep=(.)"?\s*')  # a first line that tells Excel the delimiter


def open_delimited(path: Path, limits: Limits) -> OpenedTable:
    """Read a whole csv or tsv file; columns of numbers are float64, or int64 where every cell is a whole number.

    The file may be compressed. DataError where it is not such a table, or needs more memory than `limits` allow.
    """
    with reporting_damage(path, "a table of text"), open_limited(path, limits) as stream:
        check_rows(path, limits)
        table = split_cells(path, stream)
        columns = _make_columns(path, table.rows, limits, has_decimal_comma=table.delimiter != ",")
        return OpenedTable(path=path, format="tsv" if table.delimiter == "\t" else "csv", columns=columns)


def open_excel(path: Path, limits: Limits) -> OpenedTable:
    """Read the first sheet of a workbook; a formula counts as the value that Excel saved for it.

    DataError where the workbook is damaged, where the sheet is not a table, or where it needs more memory than `limits`
    allow. MissingDependencyError without openpyxl. The first row of the sheet holds the column names. Nothing is read
    after this call.
    """
    # the module; `extra` names the install option for the message where it is missing
    openpyxl = import_optional("openpyxl", feature=f"Reading {display_name(path.name)}", extra="files")
    with reporting_damage(path, "an Excel workbook"):
        # A workbook is a zip archive of XML files; a byte of it takes eight times as much as one of a text table.
        limits.check_memory(path, _COST_PER_SHEET_BYTE * unpacked_archive_size(path), "reading it")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of styles and menus that it leaves out
            workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            rows = workbook.worksheets[0].iter_rows(values_only=True)
            # lists of texts, as of a csv file; too many cells raise DataError while they are read
            text_rows = map(_cells_as_text, _limit_cells(path, rows, limits))
            return OpenedTable(path=path, format="xlsx", columns=_make_columns(path, text_rows, limits))
        finally:
            workbook.close()


def _cells_as_text(row: Sequence[Any]) -> list[str]:
    """Return the cells of a sheet's row as text; an empty cell is None in openpyxl."""
    return ["" if cell is None else str(cell) for cell in row]


def _limit_cells(path: Path, rows: Iterable[Sequence[Any]], limits: Limits) -> Iterator[Sequence[Any]]:
    """Yield the rows of a sheet unchanged; DataError when they hold more cells than `limits` allow for the file.

    A cell far below or to the right of the others makes openpyxl produce all cells between them, which the file does
    not hold. A short row counts for `_MIN_CELLS_COUNTED_PER_ROW` (4) cells, since producing it takes time, too. Rows
    are yielded one at a time, so that the check comes before too many were produced.
    """
    cell_count = 0
    allowed_bytes = limits.allowed_bytes(path)
    for row in rows:
        cell_count += max(_MIN_CELLS_COUNTED_PER_ROW, len(row))
        # compared here first, since `check_memory` asks for the file's size on disk each time
        if cell_count * BYTES_PER_CELL > allowed_bytes:
            # raises, with the message that fits the limit
            limits.check_memory(path, cell_count * BYTES_PER_CELL, f"its {cell_count:,} cells")
        yield row


class SplitTable(NamedTuple):
    """A text table split into cells."""

    delimiter: str
    rows: Iterator[list[str]]  # the column names first


def split_cells(path: Path, stream: IO[bytes]) -> SplitTable:
    """Split a text table into rows of cells, the column names first.

    `stream` is a buffered stream of bytes at the start of the table. The delimiter is read from the header, or from a
    line `sep=;` before it, which Excel writes. Rows are read as they are iterated, which raises DataError for lines
    that are too long or hold NUL bytes, and csv.Error for invalid quoting. An empty file has one row without cells. The
    result is used while the stream is open.
    """
    # UTF-16 by its byte order mark, otherwise UTF-8
    encoding = text_encoding(stream.peek(2))  # type: ignore[attr-defined]
    lines = _read_lines(path, io.TextIOWrapper(stream, encoding=encoding, newline=""))
    header = next(lines, "")
    delimiter_line = _EXCEL_DELIMITER.fullmatch(header)  # `sep=;`
    if delimiter_line:
        delimiter = delimiter_line[1]
        header = next(lines, "")
    else:
        unquoted_header = re.sub(r'"[^"]*"', "", header)  # a name in quotes may hold any character
        delimiter = _find_delimiter(unquoted_header)
    rows = csv.reader(chain([header], lines), delimiter=delimiter, strict=True, skipinitialspace=True)
    return SplitTable(delimiter=delimiter, rows=rows)


def _find_delimiter(header: str) -> str:
    """Return what separates the names of a header without quoted parts: tabs, or else what is more frequent."""
    if "\t" in header:
        return "\t"
    return ";" if header.count(";") > header.count(",") else ","


def _make_columns(
    path: Path, rows: Iterator[list[str]], limits: Limits, *, has_decimal_comma: bool = False
) -> dict[str, Column]:
    """Make columns of rows of cells, the column names first.

    Rows are converted in chunks, and the memory that all of them need is checked before each. With `has_decimal_comma`,
    0,5 is a number. DataError where there are no names or no rows, where names repeat or are all numbers, where a row
    has another number of cells than the header, or where memory or columns exceed `limits`. A chunk is a list with one
    entry per column: its values in some rows, and their texts where the numbers do not keep them.
    """
    names = [name.strip() for name in next(rows, [])]
    while names and not names[-1]:  # empty cells at the end of the header are no columns
        names.pop()
    if not names:
        raise file_error(path, "is empty. A table needs a line of column names first.")
    _check_names(path, names, limits)  # raises for repeated names, or for numbers
    chunks: list[list[CellValues]] = []  # of each chunk, the values of each column
    row_count = 0
    text_bytes = 0  # of the distinct texts of the chunks before
    for chunk_rows in _split_into_chunks(path, rows, len(names)):
        row_count += len(chunk_rows)
        # what a column needs with this chunk, which adds one array to it: 24 bytes a cell, and 128 for each array
        bytes_per_column = row_count * BYTES_PER_CELL + (len(chunks) + 1) * _ARRAY_OVERHEAD
        limits.check_memory(path, len(names) * bytes_per_column + text_bytes)
        chunk = [_convert_cells(list(cells), has_decimal_comma) for cells in zip(*chunk_rows)]
        chunks.append(chunk)
        text_bytes += sum(_count_text_bytes(column.values) for column in chunk)  # 0 for a column of numbers
    if not chunks:
        raise file_error(path, "has column names but no rows.")
    # of each column: its name, then its values in each chunk
    return {name: _join_chunks(list(parts)) for name, *parts in zip(names, *chunks)}


def _count_text_bytes(values: Values) -> int:
    """Return the memory of the distinct texts of a column; 0 for numbers."""
    if not isinstance(values, TextValues):
        return 0
    return sum(map(sys.getsizeof, values.distinct_texts))


def _split_into_chunks(path: Path, rows: Iterator[list[str]], width: int) -> Iterator[list[list[str]]]:
    """Yield lists of rows, each row of `width` cells and each list of about 16 MB (`_CHUNK_SIZE`) in memory.

    `rows` begin after the header. Blank rows may end a table and empty cells may end a row; both are dropped. DataError
    where a blank row stands between others, or where a row is too short or too long. Rows in messages count from 1
    after the header, blank ones included.
    """
    chunk: list[list[str]] = []
    chunk_size = 0  # in bytes
    first_blank_row = 0  # its number, counted from 1; 0 where there is none
    for number, row in enumerate(rows, 1):
        if not any(row):
            first_blank_row = first_blank_row or number
            continue
        if first_blank_row:
            raise file_error(path, f"row {first_blank_row} is blank, and more rows follow.")
        if len(row) != width:  # too short, or with further cells, which must be empty
            if len(row) < width or any(row[width:]):
                raise file_error(path, f"row {number} has {len(row)} cells where the header has {width}.")
            row = row[:width]
        chunk.append(row)
        # a Python string needs about 100 bytes (`_CELL_OVERHEAD`) besides its characters
        chunk_size += sum(map(len, row)) + _CELL_OVERHEAD * width
        if chunk_size > _CHUNK_SIZE:
            yield chunk
            chunk = []
            chunk_size = 0
    if chunk:
        yield chunk


def _read_lines(path: Path, text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a text with their line ends.

    DataError for a line of `_MAX_LINE_LENGTH` (2**24) characters or more, or for NUL bytes (a binary file under a text
    name). No longer line is ever in memory. `path` is for messages.
    """
    while line := text.readline(_MAX_LINE_LENGTH):
        if "\0" in line:
            raise file_error(
                path,
                "holds NUL bytes, so it is not text, or UTF-16 without its byte order mark. Save it as UTF-8.",
            )
        if len(line) >= _MAX_LINE_LENGTH:
            raise file_error(path, "has a line of more than 16 million characters.")
        yield line


def _check_names(path: Path, names: list[str], limits: Limits) -> None:
    """Raise DataError where there are too many column names, one occurs twice, or all are numbers.

    `names` must not be empty, and blanks around them are removed already. Names that are all numbers mean that the file
    has no header and begins with its first row.
    """
    limits.check_columns(path, len(names))
    most_frequent_name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise file_error(path, f"has two columns named {display_name(most_frequent_name)!r}.")
    if all(map(is_number, names)):
        first_cells = display_name(",".join(names[:4]))
        raise file_error(path, f"must begin with a line of column names, got numbers: {first_cells}.")


class CellValues(NamedTuple):
    """The cells of a column, converted.

    `texts` holds the cells as they are written, where the values are whole numbers that do not keep them (0012).
    """

    values: Values
    texts: TextValues | None = None


def _convert_cells(cells: list[str], has_decimal_comma: bool) -> CellValues:
    """Convert the cells of one column to numbers if every cell is one or empty, and to words otherwise.

    int64 where every cell is a whole number, float64 otherwise. An empty cell of a column of numbers is NaN, which is
    an error only where the column is used. With `has_decimal_comma`, 0,5 is a number, unless every cell with a comma
    could mean thousands as well (1,234). The cells are kept as texts too where they are whole numbers that the numbers
    do not keep: with padding (0012, +1), or with empty cells among them. There is at least one cell. Blanks around a
    cell do not count.
    """
    stripped = list(map(str.strip, cells))
    if "_" in "".join(stripped):  # Python reads 1_0 as ten, people do not
        return CellValues(TextValues.of(stripped))
    # Each block below returns, or is left by the exception of the first cell that does not fit.
    with suppress(ValueError, OverflowError):  # where a cell is no whole number, or too large for int64
        integers = np.fromiter(map(int, stripped), np.int64, len(stripped))
        # no cell is empty here, since `int` refuses an empty one
        has_padding = any(cell[0] in "0+" and len(cell) > 1 for cell in stripped)
        return CellValues(integers, texts=TextValues.of(stripped) if has_padding else None)
    with suppress(ValueError):
        numbers = np.fromiter((float(cell or "nan") for cell in stripped), np.float64, len(stripped))
        are_whole_numbers = all(cell.isdecimal() or not cell for cell in stripped)
        return CellValues(numbers, texts=TextValues.of(stripped) if are_whole_numbers else None)
    if has_decimal_comma and not any("." in cell for cell in stripped):
        with suppress(ValueError):
            decimals = [float(cell.replace(",", ".", 1) or "nan") for cell in stripped]
            cells_with_comma = [cell for cell in stripped if "," in cell]
            # an ambiguous cell is like 1,234: with one other cell, such as 0,5, the commas are decimal
            if not all(_AMBIGUOUS_COMMA.fullmatch(cell) for cell in cells_with_comma):
                return CellValues(np.array(decimals))
    return CellValues(TextValues.of(stripped))


def _join_chunks(chunks: list[CellValues]) -> Column:
    """Make one column of its chunks, in their order: words where any chunk has words, numbers otherwise.

    A chunk of whole numbers carries its cells as texts (`texts`, else None) where the numbers do not keep them: 0012,
    or empty cells. The column keeps its cells as texts, for use as ids or names, where some chunk does and all chunks
    are whole numbers. There is at least one chunk.
    """
    values = [chunk.values for chunk in chunks]
    if any(isinstance(part, TextValues) for part in values):
        return Column.of(_join_texts(values))
    # int64 and float64 together become float64
    column = Column.of(np.concatenate(values))
    has_texts = [chunk.texts is not None for chunk in chunks]
    # Whole numbers with empty cells are floats because of the NaN, and carry texts.
    is_whole = [
        chunk.texts is not None or chunk.values.dtype.kind == "i"  # type: ignore[union-attr]
        for chunk in chunks
    ]
    if not any(has_texts) or not all(is_whole):
        return column
    cells = [chunk.values if chunk.texts is None else chunk.texts for chunk in chunks]
    # the numbers of chunks without texts are written as texts again, without change
    return replace(column, texts=_join_texts(cells))


def _join_texts(parts: list[Values]) -> TextValues:
    """Join the texts of chunks in their order; chunks that were converted to numbers become texts again.

    Each chunk of words numbers its distinct texts by itself (`code_of_row` holds the number of each row's text); the
    result has one numbering for all.
    """
    code_of_text: dict[str, int] = {}
    codes = []
    for part in parts:
        # NaN becomes "", and a whole number has no decimals
        words = part if isinstance(part, TextValues) else _numbers_as_words(part)
        # the code that each distinct text of this chunk has in the result
        part_codes = [code_of_text.setdefault(text, len(code_of_text)) for text in words.distinct_texts]
        codes.append(np.array(part_codes, dtype=np.int64)[words.code_of_row])
    return TextValues(np.concatenate(codes), tuple(code_of_text))


def _numbers_as_words(numbers: np.ndarray) -> TextValues:
    """Return numbers as texts; NaN was an empty cell."""
    return TextValues.of(
        "" if math.isnan(number) else str(text_or_none(number)) for number in numbers.tolist()
    )
