"""parquet, arrow and feather, by pyarrow; only the columns that are used are read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError, MissingDependencyError
from abstain.formats.arrow_size import unpacked_sizes
from abstain.formats.columns import Column, Source, Values, Words
from abstain.formats.limits import Limits, reading, shown


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
