"""Reading predictions batch by batch from Parquet, Arrow and CSV files; every value knows its file and
row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from abstain.engines.labels import Labels, labels_of
from abstain.engines.locating import Stretch, kind_of, told_by_path
from abstain.engines.ranges import Columns
from abstain.errors import DataError, MissingDependencyError

BATCH = 1 << 20
_PLAIN = ("float", "double", "int32", "int64")  # Arrow's names of types that numpy reads where they lie


@dataclass(frozen=True)
class Fields:
    """Which columns hold what: confidence and loss, or logits (several columns, or one of lists) and
    label."""

    confidence: str = "confidence"
    loss: str = "loss"
    weight: str | None = None
    group: str | None = None
    logits: tuple[str, ...] = ()
    label: str | None = None
    score: str = "max_softmax"
    loss_name: str = "zero_one"
    correct: bool = False  # the column of losses holds 1 where the prediction is right
    also: tuple[str, ...] = ()  # columns that must be there, for whoever shares this part

    @property
    def names(self) -> list[str]:
        """Columns to read."""
        own = [*self.logits, self.label] if self.logits else [self.confidence, self.loss]
        return [name for name in dict.fromkeys([*own, self.weight, self.group, *self.also]) if name]


class Batch(NamedTuple):
    """Samples of one file from row `start` on."""

    file: str
    start: int
    columns: Columns
    labels: Labels | None


def batches(
    name: str, file: str, fields: Fields, size: int = BATCH, stretch: Stretch | None = None
) -> Iterator[Batch]:
    """The samples of one file (or of a stretch of it), checked; at most `size` at a time."""
    for start, part in parts_of(name, file, fields, size, stretch):
        yield batch_of(name, file, start, part, fields)


def parts_of(
    name: str, file: str, fields: Fields, size: int, stretch: Stretch | None
) -> Iterator[tuple[int, Any]]:
    """Tables of at most `size` rows, each with the number of its first row."""
    start = 0 if stretch is None else stretch.start
    for table in _tables(name, file, fields, size, None if stretch is None else stretch.groups):
        for at in range(0, table.num_rows, size):
            part = table.slice(at, size)
            yield start, part
            start += part.num_rows


def _tables(name: str, file: str, fields: Fields, size: int, groups: tuple[int, ...] | None) -> Iterator[Any]:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingDependencyError("reading prediction files", "pyarrow", "files") from None
    try:
        told = told_by_path(file)
        for part in _open(pa, file, fields.names, told, size, groups):
            yield _with_told(pa, part, fields.names, told)
    except pa.ArrowInvalid as error:
        raise DataError(f"{name}: cannot read {file}: {error}") from error
    except KeyError as error:
        raise DataError(
            f"{name}: {file} has no column {error.args[0]}. Name the columns, e.g. confidence='score'."
        ) from None


def _open(
    pa: Any, file: str, wanted: list[str], told: Mapping[str, Any], size: int, groups: tuple[int, ...] | None
) -> Iterator[Any]:
    kind = kind_of(file)
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(file, pre_buffer=False) as opened:
            names = _present(wanted, opened.schema_arrow.names, told)
            yield from opened.iter_batches(size, row_groups=groups, columns=names)
    elif kind == "arrow":
        with pa.memory_map(file) as source:
            try:
                reader = pa.ipc.open_file(source)
            except pa.ArrowInvalid:
                source.seek(0)
                stream = pa.ipc.open_stream(source)
                names = _present(wanted, stream.schema.names, told)
                yield from (batch.select(names) for batch in stream)
                return
            names = _present(wanted, reader.schema.names, told)
            yield from (reader.get_batch(i).select(names) for i in range(reader.num_record_batches))
    else:
        from pyarrow import csv

        with csv.open_csv(file, read_options=csv.ReadOptions(block_size=16 << 20)) as reader:
            names = _present(wanted, reader.schema.names, told)
            yield from (batch.select(names) for batch in reader)


def _present(wanted: Sequence[str], present: Sequence[str], told: Mapping[str, Any]) -> list[str]:
    """The columns to read; others must be told by the file's path."""
    for name in wanted:
        if name not in present and name not in told:
            raise KeyError(f"{name!r}; it has {', '.join([*present, *told])}")
    return [name for name in wanted if name in present]


def _with_told(pa: Any, part: Any, wanted: Sequence[str], told: Mapping[str, str | None]) -> Any:
    for name in wanted:
        if name not in part.schema.names:
            part = part.append_column(name, pa.repeat(pa.scalar(told[name], pa.string()), part.num_rows))
    return part


def batch_of(name: str, file: str, start: int, table: Any, fields: Fields) -> Batch:
    """The samples of a table, checked; `start` is the number of its first row."""

    def column(field: str) -> np.ndarray:
        return as_numpy(name, file, start, field, table.column(field))

    if fields.logits and fields.label:
        logits = logits_of(name, file, start, fields, table)
        confidence, loss = scored(logits, column(fields.label), fields)
    else:
        confidence, loss = column(fields.confidence), column(fields.loss)
        check_confidence(name, file, start, fields.confidence, confidence)
    check_finite(name, file, start, fields.loss, loss)
    loss = loss_of(name, file, start, fields, loss)
    weight = None
    if fields.weight:
        weight = column(fields.weight).astype(np.float64)
        check_weight(name, file, start, fields.weight, weight)
    labels = labels_of(name, fields.group, table.column(fields.group)) if fields.group else None
    return Batch(file, start, ready(loss, confidence, weight), with_mass(labels, weight))


def loss_of(name: str, file: str, start: int, fields: Fields, values: np.ndarray) -> np.ndarray:
    """Losses, from a column that may hold 1 for right instead."""
    if not fields.correct:
        return values
    odd = np.flatnonzero((values != 0) & (values != 1))
    if len(odd):
        raise DataError(
            f"{name}: `{fields.loss}` must hold 0 (wrong) and 1 (right), got {values[odd[0]]:g} in {file}, row "
            f"{start + int(odd[0])}."
        )
    return np.asarray(values == 0)


def with_mass(labels: Labels | None, weight: np.ndarray | None) -> Labels | None:
    """The groups of the samples that `ready` keeps."""
    if labels is None or weight is None:
        return labels
    return labels.take(np.flatnonzero(weight))


def check_weight(name: str, file: str, start: int, field: str, weight: np.ndarray) -> None:
    """Finite, not negative."""
    check_finite(name, file, start, field, weight)
    if weight.min(initial=0.0) < 0:
        raise DataError(f"{name}: `{field}` must not be negative, in {file}.")


def ready(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> Columns:
    """Vectors in the few types the plan works with; 0/1 losses as booleans."""
    if confidence.dtype not in (np.float32, np.float64):
        confidence = confidence.astype(np.float32 if confidence.dtype == np.float16 else np.float64)
    if loss.dtype != bool:
        if loss.dtype.kind in "iu" or loss.dtype == np.float16:
            loss = loss.astype(np.float64)
        if bool(np.all((loss == 0) | (loss == 1))):
            loss = loss != 0
    columns = Columns(loss, confidence, weight)
    if weight is not None and not weight.all():
        return columns.take(np.flatnonzero(weight))  # no mass, no block
    return columns


def scored(logits: np.ndarray, label: np.ndarray, fields: Fields) -> tuple[np.ndarray, np.ndarray]:
    """Confidence (an exact rank key) and loss of logits."""
    from abstain import losses, scores

    confidence = scores.by_name(fields.score)(logits)
    return np.asarray(confidence), np.asarray(losses.by_name(fields.loss_name)(logits, label))


def logits_of(name: str, file: str, start: int, fields: Fields, table: Any) -> np.ndarray:
    """Class scores of an Arrow table: a column for each class, or one of lists."""
    import pyarrow as pa

    first = table.column(fields.logits[0])
    if len(fields.logits) == 1 and pa.types.is_nested(first.type):
        return _lists(name, file, start, fields.logits[0], first)
    return np.stack([as_numpy(name, file, start, f, table.column(f)) for f in fields.logits], axis=1)


def _lists(name: str, file: str, start: int, field: str, column: Any) -> np.ndarray:
    """A list in each row, all of one length and none with a gap; the message names the first that is not so."""
    import pyarrow.compute as pc

    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
    values = pc.list_flatten(column)
    odd = np.flatnonzero((lengths != lengths[:1]) | (lengths == 0))
    if not len(odd) and values.null_count:
        odd = np.flatnonzero(np.asarray(values.is_null())) // lengths[0]
    if len(odd):
        raise DataError(
            f"{name}: rows of `{field}` must be lists of one length without a missing value, which fails in {file}, "
            f"row {start + int(odd[0])}. Drop the row or fill it in."
        )
    flat = values.combine_chunks() if hasattr(values, "combine_chunks") else values
    return as_numpy(name, file, start, field, flat).reshape(len(lengths), -1)


def as_numpy(name: str, file: str, start: int, field: str, column: Any) -> np.ndarray:
    """One column as numbers; a missing value is an error that names its row."""
    if column.null_count:
        row = start + int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise DataError(
            f"{name}: `{field}` has a missing value in {file}, row {row}. Drop the row or fill it in."
        )
    if str(column.type) == "bool" and hasattr(column, "buffers"):
        return _booleans(column)
    # without a copy where there can be one: asked for a copy, pyarrow loads pandas to make it
    plain = hasattr(column, "buffers") and str(column.type) in _PLAIN
    values = np.asarray(column.to_numpy(zero_copy_only=plain))
    if values.dtype.kind not in "biuf":
        raise DataError(f"{name}: `{field}` must hold numbers, got {column.type} in {file}.")
    return values


def _booleans(column: Any) -> np.ndarray:
    """Arrow keeps eight to a byte."""
    end = column.offset + len(column)
    packed = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    return np.unpackbits(packed, count=end, bitorder="little")[column.offset :].view(bool)


def check_confidence(name: str, file: str, start: int, field: str, values: np.ndarray) -> None:
    """Finite, and exact as a float."""
    check_finite(name, file, start, field, values)
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8 and len(values):
        big = np.flatnonzero((values > 1 << 53) | (values < -(1 << 53)))
        if len(big):
            raise DataError(
                f"{name}: `{field}` must not exceed 2^53 in whole numbers, got {values[big[0]]} in {file}, row "
                f"{start + int(big[0])}: as floats neighbours would tie. Subtract a common offset."
            )


def check_finite(name: str, file: str, start: int, field: str, values: np.ndarray) -> None:
    """No NaN, no infinity; the message names file and row (the first data row is row 0)."""
    if not len(values) or values.dtype.kind != "f":
        return
    if np.isfinite(values.min()) and np.isfinite(values.max()):
        return
    at = int(np.flatnonzero(~np.isfinite(values))[0])
    raise DataError(
        f"{name}: `{field}` must be finite, got {values[at]} in {file}, row {start + at}. "
        f"A sample without it cannot be ranked: drop the row."
    )
