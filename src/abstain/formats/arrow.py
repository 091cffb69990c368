"""parquet, arrow and feather, by pyarrow: only the columns that are used are read, their size known before."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError, MissingDependencyError
from abstain.formats.columns import Column, Source, Values, Words
from abstain.formats.limits import Limits, reading, shown

# arrow size ---------------------------------------------------------------------------------------
#
# How much an Arrow IPC file unpacks to, read from its message headers before anything is unpacked.
#
# Compressed buffers begin with their unpacked length (int64); where each buffer lies is said in the message's
# flatbuffer, of which the few fields needed are read here:
# Message(version, header_type, header, bodyLength), RecordBatch(length, nodes, buffers, compression),
# DictionaryBatch(id, data).


_DICTIONARY, _BATCH = 2, 3


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer table lies, or None when it is absent."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    length = int(struct.unpack_from("<H", data, vtable)[0])
    entry = 4 + 2 * number
    offset = int(struct.unpack_from("<H", data, vtable + entry)[0]) if entry < length else 0
    return table + offset if offset else None


def _follow(data: memoryview, place: int) -> int:
    return place + int(struct.unpack_from("<I", data, place)[0])


def _batch(data: memoryview) -> int | None:
    """The record batch table of a message, inside a dictionary batch or not; None for the schema."""
    message = _follow(data, 0)
    kind_at, header_at = _field(data, message, 1), _field(data, message, 2)
    kind = 0 if kind_at is None else data[kind_at]
    if header_at is None or kind not in (_DICTIONARY, _BATCH):
        return None
    table = _follow(data, header_at)
    if kind == _BATCH:
        return table
    inner = _field(data, table, 1)
    return None if inner is None else _follow(data, inner)


def _unpacked(metadata: memoryview, body: memoryview) -> int:
    batch = _batch(metadata)
    if batch is None:
        return 0
    buffers_at = _field(metadata, batch, 2)
    if _field(metadata, batch, 3) is None or buffers_at is None:
        return len(body)
    vector = _follow(metadata, buffers_at)
    count = int(struct.unpack_from("<I", metadata, vector)[0])
    total = 0
    for k in range(count):
        offset, length = struct.unpack_from("<qq", metadata, vector + 4 + 16 * k)
        if length >= 8:
            stated = int(struct.unpack_from("<q", body, offset)[0])
            total += length if stated < 0 else stated
    return total


def unpacked_sizes(source: Any) -> Iterator[int]:
    """Bytes after unpacking, message by message; `source` is a pyarrow file standing at the first message."""
    import pyarrow as pa

    messages = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        yield _unpacked(memoryview(message.metadata), memoryview(message.body))


# arrow --------------------------------------------------------------------------------------------
#
# parquet, arrow and feather, by pyarrow; only the columns that are used are read.


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingDependencyError(f"Reading {shown(path.name)}", "pyarrow", "files") from error
    return pa


def open_parquet(path: Path, limits: Limits) -> Source:
    """Columns of a parquet file. Text is kept as a dictionary, so that repeated text costs nothing."""
    pa = _pyarrow(path)
    import pyarrow.parquet as pq

    with reading(path, "parquet"):
        file = pq.ParquetFile(path)
        schema, rows = file.schema_arrow, file.metadata.num_rows
        _check(path, schema, rows, limits)
        text = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
        file.close()

    def load(name: str) -> Values:
        with (
            reading(path, "parquet"),
            pq.ParquetFile(path, read_dictionary=[t for t in text if t == name]) as opened,
        ):
            limits.check(path, _declared(opened.metadata, name), f"column `{shown(name)}`")
            return _convert(path, name, opened.read(columns=[name])[name], limits)

    return Source(path, "parquet", _columns(schema, rows, load))


def _declared(metadata: Any, name: str) -> int:
    """Uncompressed bytes of one column, as the row groups state them."""
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    parts = [g.column(c) for g in groups for c in range(g.num_columns)]
    return sum(p.total_uncompressed_size for p in parts if f"{p.path_in_schema}.".startswith(f"{name}."))


def open_arrow(path: Path, limits: Limits) -> Source:
    """Columns of an Arrow IPC file or stream (feather is one)."""
    pa = _pyarrow(path)
    with reading(path, "arrow"):
        with pa.memory_map(str(path)) as source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(8 if is_file else 0)
            total = 0
            for unpacked in unpacked_sizes(source):
                total += unpacked
                limits.check(path, total)
        table = _ipc_table(pa, path, is_file)
        _check(path, table.schema, table.num_rows, limits)
    return Source(
        path,
        "arrow",
        _columns(table.schema, table.num_rows, lambda name: _convert(path, name, table[name], limits)),
    )


def _ipc_table(pa: Any, path: Path, is_file: bool) -> Any:
    source = pa.memory_map(str(path))
    reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
    table = reader.read_all()
    table.validate(full=True)  # offsets of an untrusted file are not to be believed
    return table


def _check(path: Path, schema: Any, rows: int, limits: Limits) -> None:
    if len(schema) > limits.columns:
        raise DataError(f"{shown(path)}: has {len(schema)} columns, which is too many.")
    if rows == 0:
        raise DataError(f"{shown(path)}: has no rows.")
    limits.check(path, rows * 8, "one column of it")


def _columns(schema: Any, rows: int, load: Callable[[str], Values]) -> dict[str, Column]:
    return {f.name: Column((rows,), _kind(f.type), partial(load, f.name)) for f in schema}


def _kind(kind: Any) -> str:
    import pyarrow as pa

    words = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    return "text" if words else str(kind)


def _convert(path: Path, name: str, values: Any, limits: Limits) -> Values:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values, kind = values.dictionary_encode(), None
    if kind is None or pa.types.is_dictionary(kind):
        return _words(values)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _rows(path, name, values, limits)
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError(f"{shown(path)}: column `{shown(name)}` must hold numbers or text, got {kind}.")
    limits.check(path, len(values) * 8, f"column `{shown(name)}`")
    return np.asarray(values.to_numpy())


def _words(values: Any) -> Words:
    joined = values.unify_dictionaries().combine_chunks()
    chunks = joined.chunks if hasattr(joined, "chunks") else [joined]
    texts = tuple("" if v is None else str(v) for v in chunks[0].dictionary.to_pylist())
    codes = [np.asarray(c.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)) for c in chunks]
    return Words(np.concatenate(codes).astype(np.int64), (*texts, ""))


def _rows(path: Path, name: str, values: Any, limits: Limits) -> np.ndarray:
    """A list in each row, all of one length."""
    n = len(values)
    flat = [np.asarray(chunk.flatten().to_numpy(zero_copy_only=False)) for chunk in values.chunks]
    whole = np.concatenate(flat) if flat else np.zeros(0)
    limits.check(path, whole.nbytes, f"column `{shown(name)}`")
    import pyarrow.compute as pc

    lengths = pc.list_value_length(values)
    if values.null_count or not n or pc.min(lengths).as_py() != pc.max(lengths).as_py():
        raise DataError(f"{shown(path)}: rows of `{shown(name)}` must have one length.")
    if whole.dtype.kind not in "biuf":
        raise DataError(f"{shown(path)}: rows of `{shown(name)}` must hold numbers.")
    return whole.reshape(n, -1)
