"""One reader for each kind of file, and which reader a file goes to: by its name, or by its first bytes."""

from __future__ import annotations

import atexit
import csv
import io
import json
import math
import pickletools
import re
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from abstain._stored import once
from abstain._tables import is_number
from abstain.errors import DataError, needed
from abstain.formats.arrow import contents, open_arrow, open_parquet
from abstain.formats.columns import Column, Source, Values, Words, text_of
from abstain.formats.harness import HELM, is_archive, open_eval, read_json_log
from abstain.formats.safety import (
    CELL,
    PACKED,
    Limits,
    check_parsing,
    check_rows,
    decoded,
    encoding_of,
    file_error,
    opened,
    reading,
    shown,
)

# numpy: headers are read here, so that sizes are known and pickles refused before anything is loaded


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    length: int  # bytes of the header itself

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def column(self, load: Callable[[], np.ndarray]) -> Column:
        if self.dtype.kind in "US":
            return Column(self.shape, "text", lambda: Words.of_array(load()))
        return Column(self.shape, str(self.dtype), load)


def _header(path: Path, name: str, stream: IO[bytes]) -> _Header:
    magic = stream.read(8)
    if magic[:6] != b"\x93NUMPY" or len(magic) < 8:
        raise file_error(path, f"{name} must be a numpy array, got something else.")
    wide = magic[6] >= 2
    count = stream.read(4 if wide else 2)
    length = int.from_bytes(count, "little")
    if length > 2**16:
        raise file_error(path, f"{name} has a header of {length} bytes, which no array needs.")
    text = stream.read(length)
    read = np.lib.format.read_array_header_2_0 if wide else np.lib.format.read_array_header_1_0
    shape, fortran, dtype = read(io.BytesIO(count + text))
    if dtype.hasobject:
        raise file_error(
            path,
            f"{name} holds Python objects (pickle), which can run code when opened and are not "
            f"read. Save numbers or fixed-width text instead.",
        )
    if any(s < 0 for s in shape):
        raise file_error(path, f"{name} has a negative length.")
    return _Header(shape, fortran, dtype, 8 + len(count) + length)


def _body(path: Path, name: str, stream: IO[bytes], header: _Header) -> np.ndarray:
    """The values after a header."""
    stream.read(header.length)
    data, filled = bytearray(header.nbytes), 0
    while piece := stream.read(min(1 << 24, len(data) - filled)):
        data[filled : filled + len(piece)] = piece
        filled += len(piece)
    if filled < len(data):
        raise file_error(path, f"is truncated, {name} should hold {len(data)} bytes and has {filled}.")
    array = np.frombuffer(data, dtype=header.dtype)
    return array.reshape(header.shape, order="F" if header.fortran else "C")


def open_npy(path: Path, limits: Limits) -> Source:
    """One array without a name (it is called "array"), or the fields of a structured one."""
    with reading(path, "npy"), opened(path, limits) as stream:
        header = _header(path, "it", stream)
        limits.check(path, header.nbytes)
        there = path.stat().st_size - header.length
        if path.suffix.lower() not in PACKED and there < header.nbytes:
            raise file_error(
                path, f"is truncated, {header.nbytes} bytes of values are announced and {there} are there."
            )

    def whole() -> np.ndarray:
        with reading(path, "npy"), opened(path, limits) as stream:
            return _body(path, "it", stream, header)

    def one_field(name: str) -> np.ndarray:
        return np.ascontiguousarray(whole()[name])

    if not header.dtype.names:
        return Source(path, "npy", {"array": header.column(whole)})
    fields = {name: header._replace(dtype=header.dtype[name].base) for name in header.dtype.names}
    return Source(path, "npy", {k: part.column(partial(one_field, k)) for k, part in fields.items()})


def open_npz(path: Path, limits: Limits) -> Source:
    """The arrays of a zip archive, each unpacked when asked for, within the limit all together."""

    def load(member: zipfile.ZipInfo, header: _Header) -> np.ndarray:
        with reading(path, "npz"), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            return _body(path, f"`{shown(member.filename)}`", stream, header)

    columns = {}
    with reading(path, "npz"), zipfile.ZipFile(path) as archive:
        total = 0
        members = archive.infolist()
        limits.check_columns(path, len(members))
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in columns:
                raise file_error(path, f"holds two arrays named {shown(name)!r}.")
            with archive.open(member) as stream:
                header = _header(path, f"`{shown(name)}`", stream)
            if header.length + header.nbytes > member.file_size:
                raise file_error(
                    path, f"`{shown(name)}` announces {header.nbytes} bytes, more than the archive has."
                )
            total += header.nbytes
            limits.check(path, total)
            columns[name] = header.column(partial(load, member, header))
    return Source(path, "npz", columns)


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
    openpyxl = needed("openpyxl", f"Reading {shown(path.name)}", "files")
    with reading(path, "an Excel workbook"):
        limits.check(path, _SHEET * _unpacked(path), "reading it")
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


def _unpacked(path: Path) -> int:
    """Bytes that a zip archive says its members have."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


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
        raise file_error(path, f"has two columns named {shown(name)!r}.")
    if all(map(is_number, names)):
        raise file_error(
            path, f"must begin with a line of column names, got numbers: {shown(','.join(names[:4]))}."
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


_loads = partial(json.loads, object_pairs_hook=once)


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
    return Column(tuple(shape), kind, lambda: _from_list(path, f"`{shown(name)}`", values))


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


# safetensors (a JSON header and raw numbers, read here) and torch files (tensors only, never code)

_NUMBERS = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1")
SAFETENSORS = {f"{kind[0].upper()}{8 * int(kind[1])}": np.dtype(f"<{kind}").str for kind in _NUMBERS}
SAFETENSORS |= {"BOOL": "|b1", "BF16": "<u2"}
_LONGEST_HEADER = 2 * 2**20  # of the few tensors of a file of predictions, and its class names
_INSTRUCTIONS = 100_000
_TORCH_REFUSES = ("pickle", "weights_only", "Unsupported", "WeightsUnpickler", "GLOBAL", "persistent")


def open_safetensors(path: Path, limits: Limits) -> Source:
    """Tensors by name; every offset is checked against the file before anything is read."""
    with reading(path, "safetensors"), path.open("rb") as stream:
        count = int.from_bytes(stream.read(8), "little")
        room = path.stat().st_size - 8
        if not 2 <= count <= min(room, _LONGEST_HEADER):
            raise file_error(path, f"is no safetensors file, or truncated (header of {count} bytes).")
        header = _loads(stream.read(count).decode("utf-8"))
        if not isinstance(header, dict) or len(header) > limits.columns:
            raise file_error(path, "its header must be an object of tensors.")
        more = header.pop("__metadata__", {})
        columns = {k: _tensor(path, k, v, 8 + count, room - count, limits) for k, v in header.items()}
        spans = sorted((*map(int, v["data_offsets"]), k) for k, v in header.items())
        for (_, end, one), (start, _, other) in pairwise(spans):
            if start < end:
                raise file_error(path, f"tensors `{shown(one)}` and `{shown(other)}` overlap.")
    stated = more.get("classes") if isinstance(more, dict) else None
    return Source(path, "safetensors", columns, _stated_classes(stated))


def _stated_classes(stated: Any) -> tuple[str, ...]:
    """A JSON list of names, or names between commas."""
    if not isinstance(stated, str):
        return ()
    try:
        names = json.loads(stated)
    except ValueError:
        names = stated.split(",")
    return tuple(str(name).strip() for name in names) if isinstance(names, list) else ()


def _tensor(path: Path, name: str, entry: Any, start: int, room: int, limits: Limits) -> Column:
    kind, shape = entry["dtype"], tuple(int(s) for s in entry["shape"])
    low, high = (int(x) for x in entry["data_offsets"])
    if kind not in SAFETENSORS:
        raise file_error(path, f"tensor `{shown(name)}` has dtype {shown(kind)}, which is not read.")
    dtype = np.dtype(SAFETENSORS[kind])
    size = math.prod(shape) * dtype.itemsize
    if min((low, *shape), default=0) < 0 or high - low != size or high > room:
        raise file_error(path, f"tensor `{shown(name)}` does not lie inside the file; is it truncated?")
    limits.check(path, 2 * size, f"tensor `{shown(name)}`")

    def load() -> np.ndarray:
        with reading(path, "safetensors"), path.open("rb") as stream:
            stream.seek(start + low)
            raw = np.frombuffer(bytearray(stream.read(size)), dtype=dtype).reshape(shape)
        # bfloat16 is the upper half of a float32
        return (raw.astype("<u4") << 16).view("<f4") if kind == "BF16" else raw

    return Column(shape, "bfloat16" if kind == "BF16" else str(dtype), load)


def open_torch(path: Path, limits: Limits) -> Source:
    """A dict of tensors (or one tensor, called "array") saved by torch, read with weights_only=True."""
    torch = needed("torch", f"Reading {shown(path.name)}", "torch")
    with reading(path, "a torch file of tensors"):
        _check_pickles(path, limits)
        content = _torch_content(path, torch)
        if isinstance(content, torch.Tensor):
            content = {"array": content}
        if not isinstance(content, dict):
            raise file_error(path, f"must hold a dict of tensors, got {type(content).__name__}.")
        columns = {}
        for name, tensor in content.items():
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                limits.check(path, tensor.numel() * tensor.element_size() * 2, f"tensor `{shown(name)}`")
                kind = str(tensor.dtype).removeprefix("torch.")
                columns[str(name)] = Column(tuple(tensor.shape), kind, partial(_torch_values, tensor))
    named = content.get("classes")
    return Source(path, "pt", columns, tuple(map(str, named)) if isinstance(named, (list, tuple)) else ())


def _check_pickles(path: Path, limits: Limits) -> None:
    """Refuse a torch file whose instructions for rebuilding its tensors are endless: some hundred make a dict of them.

    A file of torch 1.6 or later is a zip archive with the instructions in a member of its own; an older one begins with
    five pickles.
    """
    if zipfile.is_zipfile(path):
        limits.check(path, _unpacked(path))
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".pkl"):
                    with archive.open(member) as stream:
                        _check_instructions(path, pickletools.genops(stream))
        return
    limits.check(path, path.stat().st_size)
    with path.open("rb") as stream:
        _check_instructions(path, chain.from_iterable(pickletools.genops(stream) for _ in range(5)))


def _check_instructions(path: Path, instructions: Iterable[Any]) -> None:
    if next(islice(instructions, _INSTRUCTIONS, None), None) is not None:
        raise file_error(
            path, f"has more than {_INSTRUCTIONS:,} instructions, which no dict of tensors needs."
        )


def _torch_content(path: Path, torch: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd pickle protocols, on which it fails right after
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if any(word in str(error) for word in _TORCH_REFUSES):
            raise file_error(
                path,
                "holds more than tensors (pickled Python objects), which can run code when opened and is not "
                "read. Save a dict of tensors: torch.save({'logits': ..., 'labels': ...}, path).",
            ) from error
        raise


def _torch_values(tensor: Any) -> np.ndarray:
    plain = tensor.detach()
    return np.array((plain.float() if "bfloat16" in str(plain.dtype) else plain).numpy())


# which reader a file goes to

_READERS: dict[str, tuple[Callable[[Path, Limits], Source], str]] = {
    "npz": (open_npz, ".npz"),
    "npy": (open_npy, ".npy"),
    "csv": (open_delimited, ".csv .txt"),
    "tsv": (open_delimited, ".tsv .tab"),
    "xlsx": (open_excel, ".xlsx .xlsm"),
    "json": (open_json, ".json"),
    "jsonl": (partial(open_json, lines=True), ".jsonl .ndjson"),
    "parquet": (open_parquet, ".parquet .pq"),
    "arrow": (open_arrow, ".arrow .feather .ipc"),
    "safetensors": (open_safetensors, ".safetensors .st"),
    "pt": (open_torch, ".pt .pth"),
    "inspect": (open_eval, ".eval"),
}
FORMATS = tuple(_READERS)
"""Formats that can be read."""
_ENDINGS = {ending: name for name, (_, endings) in _READERS.items() for ending in endings.split()}
ENDINGS = (*_ENDINGS, *PACKED)
_UNSAFE = (".pkl", ".pickle", ".joblib", ".dill")
_OFFICE = (".xls", ".xlsb", ".ods", ".numbers")
_STREAMS = ("npy", "csv", "tsv", "json", "jsonl")  # formats that may come packed
_STARTS = {b"\x93NUMPY": "npy", b"PAR1": "parquet", b"ARROW1": "arrow", b"PK\x03\x04": "npz"}
_STARTS |= {b"{": "json", b"[": "json"}


def open_source(path: str | Path, *, format: str | None = None, limits: Limits | None = None) -> Source:  # noqa: A002
    """Open a file and say what columns it has; nothing large is read yet (text files excepted).

    Parameters
    ----------
    path : str or Path
        The file; "-" is standard input.
    format : str, optional
        One of `FORMATS`, where neither the file's name nor its first bytes say it.
    limits : Limits, optional
        What the file may cost; 4 GB of memory unless said.

    Returns
    -------
    Source
        Its columns by name, to be loaded one by one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answers.csv"
    ...     _ = path.write_text("correct,confidence,group\\n1,0.9,law\\n0,0.2,art\\n")
    ...     open_source(path).listed()
    '`correct` (2 numbers), `confidence` (2 numbers), `group` (2 text)'
    """
    limits = limits or Limits()
    path = standard_input(limits) if str(path) == "-" else Path(path)
    if is_run(path):
        path /= HELM
    if not path.is_file():
        pipe = "is no plain file. Send what it gives to standard input, `-`"
        kind = "is a folder" if path.is_dir() else pipe if path.exists() else "there is no such file"
        raise file_error(path, f"{kind}.")
    if path.stat().st_size == 0:
        raise file_error(path, "is empty.")
    chosen = format or _by_name(path) or _by_content(path)
    if path.suffix.lower() in PACKED and chosen not in _STREAMS:
        raise file_error(path, f"a packed {chosen} file is not read. Unpack it first.")
    source = _READERS[chosen][0](path, limits)
    if not source.columns:
        raise file_error(path, "holds no columns of values.")
    return source


def standard_input(limits: Limits) -> Path:
    """What comes on standard input, in a file that lies there until the program ends."""
    folder = tempfile.mkdtemp(prefix="abstain-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "stdin"
    with path.open("wb") as file:
        while piece := sys.stdin.buffer.read(1 << 20):
            file.write(piece)
            limits.check("standard input", file.tell(), "it")
    return path


def is_run(path: str | Path) -> bool:
    """Is this the folder of a HELM run?"""
    return (Path(path) / HELM).is_file()


def _by_name(path: Path) -> str | None:
    endings = [s.lower() for s in path.suffixes]
    if endings and endings[-1] in PACKED:
        endings.pop()
    last = endings[-1] if endings else ""
    if last in PACKED:
        raise file_error(path, "is packed twice. Unpack it once first.")
    if last in _UNSAFE:
        raise file_error(
            path,
            "pickle files can run code when opened and are not read. "
            "Save the arrays with numpy.savez, as csv or as parquet.",
        )
    if last in _OFFICE:
        raise file_error(path, f"{last} files are not read. Save the sheet as .xlsx or .csv.")
    return _ENDINGS.get(last)


def _by_content(path: Path) -> str:
    with reading(path, "a file"), path.open("rb") as stream:
        start = stream.read(1 << 16)
        for magic, name in _STARTS.items():
            if start.lstrip().startswith(magic):
                first, *more = start.strip().split(b"\n", 1)
                lines = magic == b"{" and more and first.rstrip().endswith(b"}")
                return "jsonl" if lines else "inspect" if name == "npz" and is_archive(path) else name
    head = start.decode(encoding_of(start), "replace").partition("\n")[0]
    if any(mark in head for mark in ",;\t") and re.fullmatch(r"[^\x00-\x08\x0e-\x1f\x7f\ufffd]*", head):
        return "csv"
    raise file_error(
        path,
        f"neither its name nor its first bytes say what it is. "
        f"Say it with --format, one of {', '.join(FORMATS)}.",
    )


def column_names(path: str | Path, *, format: str | None = None) -> Source:  # noqa: A002
    """Only the names of a large table's columns: nothing of its size is read, so there is no limit on it."""
    path = Path(path)
    chosen = format or _by_name(path) or _by_content(path)
    with reading(path, chosen):
        if chosen in ("parquet", "arrow"):
            names = list(contents(path, chosen).kinds)
        else:
            with opened(path, Limits()) as stream:
                names = [name.strip() for name in next(_split(path, stream)[1], [])]

    def not_read() -> Values:
        raise DataError("column_names: only the names were read.")

    return Source(path, chosen, {name: Column((), "?", not_read) for name in names})
