"""Tables that pyarrow reads: found in folders, described, read batch by batch or column by column.

Only the columns that are used are read, and their size is known before.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abstain.errors import import_optional
from abstain.formats import parquet_pages as pages
from abstain.formats.columns import Column, Source, Values, Words
from abstain.formats.safety import (
    GROWTH,
    PACKED,
    Limits,
    check_rows,
    display_name,
    file_error,
    opened,
    reading,
)

# sizes
#
# How much an Arrow IPC file unpacks to is read from its message headers before anything is unpacked. Compressed
# buffers begin with their unpacked length (int64); where each buffer lies is said in the message's flatbuffer, of
# which the few fields needed are read here: Message(version, header_type, header, bodyLength),
# RecordBatch(length, nodes, buffers, compression), DictionaryBatch(id, data).


_TEXT_COPIES = 5  # of a column of texts at the peak: unpacked, as a dictionary, joined, as Python's strings
_PER_ROW = 40  # bytes at the peak of an evaluation: a loss and a confidence, the keys that sort them, rows


def _field(data: memoryview, table: int, number: int) -> int:
    """Where a field of a flatbuffer table lies; 0 when it is absent."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    length = int(struct.unpack_from("<H", data, vtable)[0])
    entry = 4 + 2 * number
    offset = int(struct.unpack_from("<H", data, vtable + entry)[0]) if entry < length else 0
    return table + offset if offset else 0


def _follow(data: memoryview, place: int) -> int:
    return place + int(struct.unpack_from("<I", data, place)[0])


def unpacked_size(message: Any) -> int:
    """Bytes of a message of an Arrow file after unpacking."""
    if message.type not in ("record batch", "dictionary"):
        return 0
    data, body = memoryview(message.metadata), memoryview(message.body)
    batch = _follow(data, _field(data, _follow(data, 0), 2))
    if message.type == "dictionary":
        batch = _follow(data, _field(data, batch, 1))
    buffers, compressed = _field(data, batch, 2), _field(data, batch, 3)
    if not buffers or not compressed:
        return len(body)
    vector = _follow(data, buffers)
    total = 0
    for k in range(int(struct.unpack_from("<I", data, vector)[0])):
        offset, length = struct.unpack_from("<qq", data, vector + 4 + 16 * k)
        if length >= 8:
            stated = int(struct.unpack_from("<q", body, offset)[0])
            total += length if stated < 0 else stated
    return total


def _pyarrow(path: Path, part: str = "") -> Any:
    try:
        import pyarrow

        return importlib.import_module(part, pyarrow.__name__) if part else pyarrow
    except ImportError:
        return import_optional("pyarrow", f"Reading {display_name(path.name)}", "files")


def open_parquet(path: Path, limits: Limits) -> Source:
    """Columns of a parquet file. Text is kept as a dictionary, so that repeated text costs nothing."""
    pq = _pyarrow(path, ".parquet")
    with reading(path, "parquet"), pq.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        _check(path, schema, rows, limits)

    taken: dict[str, int] = {}

    def load(name: str) -> Values:
        is_text = columns[name].kind == "text"
        _check_kind(path, name, schema.field(name).type)
        with (
            reading(path, "parquet"),
            pq.ParquetFile(path, read_dictionary=[name] if is_text else None) as file,
        ):
            taken[name] = (_TEXT_COPIES if is_text else 1) * _required(path, file.metadata, name)
            limits.check(path, taken[name], f"column `{display_name(name)}`")
            limits.check(path, sum(taken.values()), f"its {len(taken)} columns")
            return arrow_values(path, name, file.read(columns=[name])[name], limits)

    columns = _columns(schema, rows, load)
    return Source(path, "parquet", columns)


def _required(path: Path, metadata: Any, name: str) -> int:
    """Bytes of one column once unpacked: what its pages state, and no less than its values as numbers."""
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    of_column = [chunk for chunk in chunks if f"{chunk.path_in_schema}.".startswith(f"{name}.")]
    return sum(max(pages.unpacked_size(path, chunk), 8 * chunk.num_values) for chunk in of_column)


def open_arrow(path: Path, limits: Limits) -> Source:
    """Columns of an Arrow IPC file or stream (feather is one)."""
    pa = _pyarrow(path)
    with reading(path, "arrow"):
        with pa.memory_map(str(path)) as source:
            source.seek(8 if source.read(6) == b"ARROW1" else 0)
            total = 0
            for message in pa.ipc.MessageReader.open_stream(source):
                total += unpacked_size(message)
                limits.check(path, total)
        table = _ipc(path).read_all()
        table.validate(full=True)  # offsets of an untrusted file are not to be believed
        _check(path, table.schema, table.num_rows, limits)

    def load(name: str) -> Values:
        return arrow_values(path, name, table[name], limits)

    return Source(path, "arrow", _columns(table.schema, table.num_rows, load))


def _ipc(path: Path) -> Any:
    pa = _pyarrow(path)
    source = pa.memory_map(str(path))
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)


class Contents(NamedTuple):
    """What a file tells before it is read: rows of each group of rows (Parquet), columns with their types."""

    row_group_sizes: list[int] | None
    column_types: dict[str, str]


def read_contents(path: Path, kind: str) -> Contents:
    """Of a parquet or arrow file, without its values."""
    try:
        if kind == "arrow":
            groups, schema = None, _ipc(path).schema
        else:
            with _pyarrow(path, ".parquet").ParquetFile(path) as file:
                meta, schema = file.metadata, file.schema_arrow
                groups = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        return Contents(groups, {field.name: str(field.type) for field in schema})
    except Exception:
        with reading(path, kind):
            raise


def read_batches(
    path: Path, kind: str, chosen: Callable[[Any], list[str]], size: int, groups: tuple[int, ...] | None
) -> Iterator[Any]:
    """Arrow's batches of some columns (`chosen` by the schema) of a parquet, arrow or csv file, in their order.

    Of Parquet at most `size` rows each, and of some `groups` of rows if not of all.
    """
    try:
        if kind == "parquet":
            parquet = _pyarrow(path, ".parquet")
            with parquet.ParquetFile(path) as file:
                schema = file.schema_arrow
            names = chosen(schema)
            texts = [
                name for name in names if _is_text(schema.field(name).type)
            ]  # repeated text costs nothing
            with parquet.ParquetFile(path, pre_buffer=False, read_dictionary=texts) as file:
                yield from file.iter_batches(size, row_groups=groups, columns=names)
            return
        if kind == "arrow":
            reader = _ipc(path)
        else:
            csv = _pyarrow(path, ".csv")
            source = _unpacking(path) if path.suffix.lower() in PACKED else path
            reader = csv.open_csv(source, read_options=csv.ReadOptions(block_size=16 << 20))
        names = chosen(reader.schema)
        if hasattr(reader, "num_record_batches"):
            reader = map(reader.get_batch, range(reader.num_record_batches))
        for batch in reader:
            chosen_columns = batch.select(names)
            chosen_columns.validate(full=True)  # offsets of an untrusted file are not to be believed
            yield chosen_columns
    except Exception:
        with reading(path, kind):
            raise


def _unpacking(path: Path) -> Any:
    """The bytes of a packed table of any size, refused where they are out of proportion to the file."""
    size = path.stat().st_size
    limits = Limits(memory=max(Limits().memory, GROWTH * size))
    if GROWTH * size < Limits().memory:  # one that is small is measured first, which takes seconds
        check_rows(path, limits)
    return opened(path, limits)


def _check(path: Path, schema: Any, rows: int, limits: Limits) -> None:
    limits.check_columns(path, len(schema))
    if rows == 0:
        raise file_error(path, "has no rows.")
    limits.check(path, rows * _PER_ROW, f"its {rows:,} rows, read and ranked,")


def _columns(schema: Any, rows: int, load: Callable[[str], Values]) -> dict[str, Column]:
    kinds = {f.name: "text" if _is_text(f.type) else str(f.type) for f in schema}
    return {name: Column((rows,), kind, partial(load, name)) for name, kind in kinds.items()}


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return any(is_kind(kind) for is_kind in (types.is_string, types.is_large_string, types.is_dictionary))


def _check_kind(path: Path, name: str, kind: Any) -> None:
    """Refuse a column that holds neither numbers, lists of numbers nor text; before it is read.

    Other texts than those that are kept as a dictionary (bytes, lists of texts) repeat each value in memory, whatever
    the file states.
    """
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        if not _is_number(kind.value_type):
            raise file_error(path, f"rows of `{display_name(name)}` must hold numbers.")
    elif not (_is_text(kind) or _is_number(kind)):
        raise file_error(
            path, f"column `{display_name(name)}` must hold numbers or text, got {display_name(kind)}."
        )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return any(is_kind(kind) for is_kind in (types.is_boolean, types.is_integer, types.is_floating))


def arrow_values(path: Path, name: str, values: Any, limits: Limits) -> Values:
    """A chunked array of Arrow's as numbers or words; a list in each row becomes a row of numbers."""
    from pyarrow import types

    kind = values.type
    _check_kind(path, name, kind)
    if _is_text(kind):
        return _words(values if types.is_dictionary(kind) else values.dictionary_encode())
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _rows(path, name, values, limits)
    limits.check(path, len(values) * 8, f"column `{display_name(name)}`")
    return np.asarray(values.to_numpy())


def _words(values: Any) -> Words:
    joined = values.unify_dictionaries().combine_chunks()
    chunks = joined.chunks if hasattr(joined, "chunks") else [joined]
    texts = tuple("" if v is None else str(v) for v in chunks[0].dictionary.to_pylist())
    codes = [np.asarray(c.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)) for c in chunks]
    return Words(np.concatenate(codes).astype(np.int64), (*texts, ""))


def _rows(path: Path, name: str, values: Any, limits: Limits) -> np.ndarray:
    """A list in each row, all of one length."""
    import pyarrow.compute as pc

    flat = [np.asarray(chunk.flatten().to_numpy(zero_copy_only=False)) for chunk in values.chunks]
    whole = np.concatenate(flat) if flat else np.zeros(0)
    limits.check(path, whole.nbytes, f"column `{display_name(name)}`")
    lengths = pc.list_value_length(values)
    if values.null_count or not len(values) or pc.min(lengths).as_py() != pc.max(lengths).as_py():
        raise file_error(path, f"rows of `{display_name(name)}` must have one length.")
    if whole.dtype.kind not in "biuf":
        raise file_error(path, f"rows of `{display_name(name)}` must hold numbers.")
    return whole.reshape(len(values), -1)
