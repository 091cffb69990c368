"""One reader for each kind of file, and which reader a file goes to: by its name, or by its first bytes."""

from __future__ import annotations

import csv
import io
import json
import math
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from abstain.errors import DataError, MissingDependencyError
from abstain.formats.arrow import open_arrow, open_parquet
from abstain.formats.columns import Column, Source, Values, Words, words_of_array
from abstain.formats.limits import PACKED, Limits, opened, reading, shown


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    length: int  # bytes of the header itself

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _header(path: Path, name: str, stream: IO[bytes]) -> _Header:
    magic = stream.read(8)
    if magic[:6] != b"\x93NUMPY" or len(magic) < 8:
        raise DataError(f"{shown(path)}: {name} must be a numpy array, got something else.")
    wide = magic[6] >= 2
    count = stream.read(4 if wide else 2)
    length = int.from_bytes(count, "little")
    if length > 2**16:
        raise DataError(f"{shown(path)}: {name} has a header of {length} bytes, which no array needs.")
    text = stream.read(length)
    read = np.lib.format.read_array_header_2_0 if wide else np.lib.format.read_array_header_1_0
    shape, fortran, dtype = read(io.BytesIO(count + text))
    if dtype.hasobject:
        raise DataError(
            f"{shown(path)}: {name} holds Python objects (pickle), which can run code when opened and are not "
            f"read. Save numbers or fixed-width text instead."
        )
    if any(s < 0 for s in shape):
        raise DataError(f"{shown(path)}: {name} has a negative length.")
    return _Header(shape, fortran, dtype, 8 + len(count) + length)


def _body(path: Path, name: str, stream: IO[bytes], header: _Header) -> np.ndarray:
    data = bytearray(header.nbytes)
    view, filled = memoryview(data), 0
    while filled < len(view):
        piece = stream.read(min(1 << 24, len(view) - filled))
        if not piece:
            raise DataError(
                f"{shown(path)}: is truncated, {name} should hold {header.nbytes} bytes and has {filled}."
            )
        view[filled : filled + len(piece)] = piece
        filled += len(piece)
    array = np.frombuffer(data, dtype=header.dtype)
    return array.reshape(header.shape, order="F" if header.fortran else "C")


def _array_column(header: _Header, load: Callable[[], Values]) -> Column:
    return Column(header.shape, "text" if header.dtype.kind in "US" else str(header.dtype), load)


def _as_values(array: np.ndarray) -> Values:
    return words_of_array(array) if array.dtype.kind in "US" else array


def open_npy(path: Path, limits: Limits) -> Source:
    """One array without a name (it is called "array"), or the fields of a structured one."""
    with reading(path, "npy"), opened(path, limits) as stream:
        header = _header(path, "it", stream)
        limits.check(path, header.nbytes)
        if path.suffix.lower() not in PACKED and path.stat().st_size < header.length + header.nbytes:
            raise DataError(
                f"{shown(path)}: is truncated, {header.nbytes} bytes of values are announced and "
                f"{path.stat().st_size - header.length} are there."
            )

    def whole() -> np.ndarray:
        with reading(path, "npy"), opened(path, limits) as stream:
            stream.read(header.length)
            return _body(path, "it", stream, header)

    if not header.dtype.names:
        return Source(path, "npy", {"array": _array_column(header, lambda: _as_values(whole()))})
    columns = {}
    for field in header.dtype.names:
        kind = header.dtype[field]
        part = _Header(header.shape, False, kind.base, 0)
        columns[field] = _array_column(part, partial(_field, whole, field))
    return Source(path, "npy", columns)


def _field(whole: Callable[[], np.ndarray], name: str) -> Values:
    return _as_values(np.ascontiguousarray(whole()[name]))


def open_npz(path: Path, limits: Limits) -> Source:
    """The arrays of a zip archive, each unpacked when asked for, within the limit all together."""
    columns = {}
    with reading(path, "npz"), zipfile.ZipFile(path) as archive:
        total = 0
        members = archive.infolist()
        if len(members) > limits.columns:
            raise DataError(f"{shown(path)}: holds {len(members)} arrays, which is too many.")
        for member in members:
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                header = _header(path, f"`{shown(name)}`", stream)
            if header.length + header.nbytes > member.file_size:
                raise DataError(
                    f"{shown(path)}: `{shown(name)}` announces {header.nbytes} bytes, more than the archive has."
                )
            total += header.nbytes
            limits.check(path, total)
            columns[name] = _array_column(header, partial(_member, path, member, header))
    return Source(path, "npz", columns)


def _member(path: Path, member: zipfile.ZipInfo, header: _Header) -> Values:
    with reading(path, "npz"), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        stream.read(header.length)
        return _as_values(_body(path, f"`{shown(member.filename)}`", stream, header))


# delimited ----------------------------------------------------------------------------------------
#
# csv and tsv: a header line, then one row per sample. Numbers where every cell is one, words otherwise.


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


# documents ----------------------------------------------------------------------------------------
#
# json and jsonl: an object of columns, a list of records, or one record per line.


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
    return Column(tuple(shape), kind, lambda: _convert_value(path, name, values))


def _convert_value(path: Path, name: str, values: list[Any]) -> Values:
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


# tensors ------------------------------------------------------------------------------------------
#
# safetensors (a JSON header and raw numbers, read here) and torch files (tensors only, never code).


_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_HEADER = 16 * 2**20
_TORCH_HOPES = ("pickle", "weights_only", "Unsupported", "WeightsUnpickler", "GLOBAL", "persistent")


def open_safetensors(path: Path, limits: Limits) -> Source:
    """Tensors by name; every offset is checked against the file before anything is read."""
    with reading(path, "safetensors"), path.open("rb") as stream:
        count = int.from_bytes(stream.read(8), "little")
        room = path.stat().st_size - 8
        if not 2 <= count <= min(room, _HEADER):
            raise DataError(f"{shown(path)}: is no safetensors file, or truncated (header of {count} bytes).")
        header = json.loads(stream.read(count).decode("utf-8"))
        if not isinstance(header, dict) or len(header) > limits.columns:
            raise DataError(f"{shown(path)}: its header must be an object of tensors.")
        more = header.pop("__metadata__", {})
        columns = {k: _tensor(path, k, v, 8 + count, room - count, limits) for k, v in header.items()}
    stated = more.get("classes") if isinstance(more, dict) else None
    return Source(path, "safetensors", columns, _class_names(stated))


def _class_names(stated: Any) -> tuple[str, ...]:
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
    if kind not in _DTYPES:
        raise DataError(f"{shown(path)}: tensor `{shown(name)}` has dtype {shown(kind)}, which is not read.")
    dtype = np.dtype(_DTYPES[kind])
    needed = math.prod(shape) * dtype.itemsize
    if min((low, *shape), default=0) < 0 or high - low != needed or high > room:
        raise DataError(
            f"{shown(path)}: tensor `{shown(name)}` does not lie inside the file; is it truncated?"
        )
    limits.check(path, 2 * needed, f"tensor `{shown(name)}`")

    def load() -> np.ndarray:
        with reading(path, "safetensors"), path.open("rb") as stream:
            stream.seek(start + low)
            raw = np.frombuffer(bytearray(stream.read(needed)), dtype=dtype).reshape(shape)
        # bfloat16 is the upper half of a float32
        return (raw.astype("<u4") << 16).view("<f4") if kind == "BF16" else raw

    return Column(shape, {"BF16": "bfloat16"}.get(kind, str(dtype)), load)


def open_torch(path: Path, limits: Limits) -> Source:
    """A dict of tensors (or one tensor, called "array") saved by torch, read with weights_only=True."""
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(f"Reading {shown(path.name)}", "torch", "torch") from error
    with reading(path, "a torch file of tensors"):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                limits.check(path, sum(m.file_size for m in archive.infolist()))
        else:
            limits.check(path, path.stat().st_size)
        content = _load(path, torch)
        return _torch_source(path, content, torch, limits)


def _load(path: Path, torch: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd pickle protocols, on which it fails right after
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if any(word in str(error) for word in _TORCH_HOPES):
            raise DataError(
                f"{shown(path)}: holds more than tensors (pickled Python objects), which can run code when opened "
                f"and is not read. Save a dict of tensors: torch.save({{'logits': ..., 'labels': ...}}, path)."
            ) from error
        raise


def _torch_source(path: Path, content: Any, torch: Any, limits: Limits) -> Source:
    if isinstance(content, torch.Tensor):
        content = {"array": content}
    if not isinstance(content, dict):
        raise DataError(f"{shown(path)}: must hold a dict of tensors, got {type(content).__name__}.")
    columns = {}
    for name, tensor in content.items():
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            continue
        limits.check(path, tensor.numel() * tensor.element_size() * 2, f"tensor `{shown(name)}`")
        columns[str(name)] = _torch_column(tensor, torch)
    named = content.get("classes")
    classes = tuple(map(str, named)) if isinstance(named, (list, tuple)) else ()
    return Source(path, "pt", columns, classes)


def _torch_column(tensor: Any, torch: Any) -> Column:
    def load() -> np.ndarray:
        plain = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
        return np.array(plain.numpy())

    return Column(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), load)


# opening ------------------------------------------------------------------------------------------
#
# Which reader a file goes to: by its name, or by its first bytes when the name does not say.


_READERS: dict[str, Callable[[Path, Limits], Source]] = {
    "npz": open_npz,
    "npy": open_npy,
    "csv": open_delimited,
    "tsv": open_delimited,
    "json": open_json,
    "jsonl": open_jsonl,
    "parquet": open_parquet,
    "arrow": open_arrow,
    "safetensors": open_safetensors,
    "pt": open_torch,
}
FORMATS = tuple(_READERS)
"""Formats that can be read."""
_ENDINGS = {
    **{f".{name}": name for name in FORMATS},
    ".tab": "tsv", ".txt": "csv", ".ndjson": "jsonl", ".pq": "parquet", ".feather": "arrow", ".ipc": "arrow",
    ".pth": "pt", ".st": "safetensors",
}  # fmt: skip
_UNSAFE = (".pkl", ".pickle", ".joblib", ".dill")
_STREAMS = ("npy", "csv", "tsv", "json", "jsonl")  # formats that may come packed


def open_source(path: str | Path, *, format: str | None = None, limits: Limits | None = None) -> Source:  # noqa: A002
    """Open a file and say what columns it has; nothing large is read yet (text files excepted)."""
    path = Path(path)
    limits = limits or Limits()
    if not path.is_file():
        raise DataError(f"{shown(path)}: {'is a folder' if path.is_dir() else 'there is no such file'}.")
    if path.stat().st_size == 0:
        raise DataError(f"{shown(path)}: is empty.")
    chosen = format or _by_name(path) or _by_content(path)
    if path.suffix.lower() in PACKED and chosen not in _STREAMS:
        raise DataError(f"{shown(path)}: a packed {chosen} file is not read. Unpack it first.")
    source = _READERS[chosen](path, limits)
    if not source.columns:
        raise DataError(f"{shown(path)}: holds no columns of values.")
    return source


def _by_name(path: Path) -> str | None:
    endings = [s.lower() for s in path.suffixes]
    if endings and endings[-1] in PACKED:
        endings.pop()
    last = endings[-1] if endings else ""
    if last in PACKED:
        raise DataError(f"{shown(path)}: is packed twice. Unpack it once first.")
    if last in _UNSAFE:
        raise DataError(
            f"{shown(path)}: pickle files can run code when opened and are not read. "
            f"Save the arrays with numpy.savez, as csv or as parquet."
        )
    return _ENDINGS.get(last)


def _by_content(path: Path) -> str:
    with reading(path, "a file"), path.open("rb") as stream:
        start = stream.read(16)
    known = {b"\x93NUMPY": "npy", b"PAR1": "parquet", b"ARROW1": "arrow", b"PK\x03\x04": "npz"}
    for magic, name in known.items():
        if start.startswith(magic):
            return name
    if start.lstrip()[:1] in (b"{", b"["):
        return "json"
    raise DataError(
        f"{shown(path)}: neither its name nor its first bytes say what it is. "
        f"Say it with --format, one of {', '.join(FORMATS)}."
    )


def column_names(path: str | Path, *, format: str | None = None) -> Source:  # noqa: A002
    """Only the names of a large table's columns: nothing of its size is read, so there is no limit on it."""
    path = Path(path)
    chosen = format or _by_name(path) or _by_content(path)
    with reading(path, chosen):
        if chosen == "parquet":
            import pyarrow.parquet as pq

            names = pq.read_schema(path).names
        elif chosen == "arrow":
            import pyarrow as pa

            with pa.memory_map(str(path)) as file:
                is_file = file.read(6) == b"ARROW1"
                file.seek(0)
                names = (pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)).schema.names
        else:
            with path.open("rb") as stream:
                first = stream.readline(1 << 20).decode("utf-8-sig")
            names = [n.strip().strip('"') for n in first.strip().split("\t" if chosen == "tsv" else ",")]
    return Source(path, chosen, {name: Column((), "?", _not_read) for name in names})


def _not_read() -> Values:
    raise DataError("column_names: only the names were read.")
