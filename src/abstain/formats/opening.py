"""Which reader a file goes to: by its name, or by its first bytes when the name does not say."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from abstain.errors import DataError
from abstain.formats.columns import Column, Source, Values
from abstain.formats.limits import PACKED, Limits, reading, shown

_READERS = {
    "npz": ("arrays", "open_npz"),
    "npy": ("arrays", "open_npy"),
    "csv": ("delimited", "open_delimited"),
    "tsv": ("delimited", "open_delimited"),
    "json": ("documents", "open_json"),
    "jsonl": ("documents", "open_jsonl"),
    "parquet": ("arrow", "open_parquet"),
    "arrow": ("arrow", "open_arrow"),
    "safetensors": ("tensors", "open_safetensors"),
    "pt": ("tensors", "open_torch"),
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
    module, function = _READERS[chosen]
    reader: Callable[[Path, Limits], Source] = getattr(
        importlib.import_module(f"abstain.formats.{module}"), function
    )
    source = reader(path, limits)
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
