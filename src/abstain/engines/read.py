"""Prediction files: found, read batch by batch ahead of the work, checked; every value knows its file and row."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path, PurePath
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import numpy as np

from abstain.core.sorting import threads
from abstain.engines.ranges import Columns
from abstain.errors import DataError, MissingDependencyError

Item = TypeVar("Item")
_END = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items in the same order, the next in the making; errors surface where they would have.

    Nobody waits for the reader when the work is broken off: it may hang on a disk or a network.
    """
    if threads() == 1:
        yield from items
        return
    made: Queue[tuple[Any, BaseException | None]] = Queue(1)
    over = Event()
    Thread(target=_read, args=(items, made, over), daemon=True).start()
    try:
        while (got := made.get())[0] is not _END:
            yield got[0]
        if got[1] is not None:
            raise got[1]
    finally:
        over.set()


def _read(items: Iterable[Any], made: Queue[tuple[Any, BaseException | None]], over: Event) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            _put((item, None), made, over)
            if over.is_set():
                return
    except BaseException as problem:  # whatever it is, it belongs to whoever reads
        error = problem
    _put((_END, error), made, over)


def _put(got: tuple[Any, BaseException | None], made: Queue[Any], over: Event) -> None:
    while not over.is_set():
        try:
            return made.put(got, timeout=0.1)
        except Full:
            continue


# locating -----------------------------------------------------------------------------------------
#
# Finding prediction files, and what can be known of them without reading the data.


_KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".gz": "csv",
}


def find_files(name: str, path: Any) -> list[str]:
    """Files of a path, a folder (see `holds_data`), a glob or a list of them, in the order of their names."""
    if not isinstance(path, (str, os.PathLike)):
        return [file for part in path for file in find_files(name, part)]
    text = os.fspath(path)
    if os.path.isdir(text):
        found = _below(text)
    elif os.path.exists(text):
        found = [text]
    else:
        fixed = sum(
            1 for _ in takewhile(lambda part: not glob.has_magic(part), Path(text).parts)
        )  # as the user wrote
        hits = [hit for hit in glob.glob(text, recursive=True) if not _hidden(Path(hit).parts[fixed:])]
        found = sorted({file for hit in hits for file in (_below(hit) if os.path.isdir(hit) else [hit])})
    if not found:
        kinds = ", ".join(k for k in _KINDS if k != ".gz")
        raise DataError(
            f"{name}: found no files at {text!r}. Give a file, a folder or a glob of {kinds} files."
        )
    return found


def holds_data(below: PurePath) -> bool:
    """Is this path below a folder a file of predictions? The rule of every engine: folders are looked into, but
    nothing whose name, or that of a folder on the way, starts with _ or a dot (unfinished and hidden work)."""
    return below.suffix in _KINDS and not _hidden(below.parts)


def _below(folder: str) -> list[str]:
    return sorted(
        str(p) for p in Path(folder).rglob("*") if holds_data(p.relative_to(folder)) and p.is_file()
    )


def _hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in parts)


def told_by_path(file: str) -> dict[str, str | None]:
    """Columns that the folders of a file tell, as Hive and Spark write them: kind=a/part-0.parquet. Always text."""
    told = dict(part.split("=", 1) for part in Path(file).parent.parts if "=" in part)
    return {k: None if v == "__HIVE_DEFAULT_PARTITION__" else unquote(v) for k, v in told.items()}


def rows_in(file: str) -> int | None:
    """Rows by the file's own account, without reading them; None when it does not say (CSV)."""
    kind = kind_of(file)
    if kind == "parquet":
        import pyarrow.parquet as pq

        return int(pq.read_metadata(file).num_rows)
    return None


def types_in(file: str, confidence: str, loss: str) -> tuple[bool, bool]:
    """(are losses surely 0/1, may confidences be wider than float32), as far as the file's schema tells."""
    if kind_of(file) != "parquet":
        return False, True
    import pyarrow.parquet as pq

    kinds = {field.name: str(field.type) for field in pq.read_schema(file)}
    return kinds.get(loss) == "bool", kinds.get(confidence) not in ("float", "halffloat")


def kind_of(file: str) -> str:
    """Parquet, Arrow or CSV, by the end of the name."""
    kind = _KINDS.get(Path(file).suffix.lower())
    if kind is None:
        raise DataError(f"files: cannot tell what {file!r} is. Known: Parquet, Arrow (feather, ipc) and CSV.")
    return kind


class Stretch(NamedTuple):
    """Part of a file: some row groups of a Parquet file, the first of them at row `start`; or all of it."""

    file: str
    start: int = 0
    groups: tuple[int, ...] | None = None


def stretches(files: Sequence[str], rows: int) -> list[Stretch]:
    """Parts of about `rows` samples each, found without reading the data."""
    found = []
    for file in files:
        if kind_of(file) != "parquet":
            found.append(Stretch(file))
            continue
        import pyarrow.parquet as pq

        meta = pq.read_metadata(file)
        sizes = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        start = at = held = 0
        groups: list[int] = []
        for i, size in enumerate(sizes):
            if groups and held + size > rows:
                found.append(Stretch(file, start, tuple(groups)))
                start, groups, held = at, [], 0
            groups.append(i)
            held, at = held + size, at + size
        found.append(Stretch(file, start, tuple(groups)))
    return found


# labels -------------------------------------------------------------------------------------------
#
# Samples by group: the names a column holds, and the samples of each. A missing name is None.


class Labels(NamedTuple):
    """The group of each sample is `names[codes[i]]`."""

    names: list[Any]
    codes: np.ndarray

    def take(self, index: np.ndarray) -> Labels:
        """Of some of the samples."""
        return Labels(self.names, self.codes[index])


def labels_of(name: str, field: str, column: Any) -> Labels:
    """The groups in a column of an Arrow table or a frame; a NaN is a missing name."""
    import pyarrow as pa

    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = pa.array(column, from_pandas=True)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_nested(column.type):
        raise DataError(f"{name}: `{field}` must hold names or numbers of groups, got {column.type}.")
    encoded = column.dictionary_encode()
    found = [None if value != value else value for value in encoded.dictionary.to_pylist()]
    place: dict[Any, int] = {}
    own = np.asarray([place.setdefault(value, len(place)) for value in [*found, None]])
    codes = encoded.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
    return Labels(list(place), own[codes])


def by_label(columns: Columns, labels: Labels | None) -> Iterator[tuple[Any, Columns]]:
    """The samples of each group that has any; without labels all of them, under None."""
    if labels is None:
        yield None, columns
        return
    small = np.uint16 if len(labels.names) <= 1 << 16 else np.int64  # short keys are sorted by counting
    columns = columns.take(np.argsort(labels.codes.astype(small), kind="stable"))
    sizes = np.bincount(labels.codes, minlength=len(labels.names))
    for label, size, end in zip(labels.names, sizes, np.cumsum(sizes)):
        if size:
            yield label, columns.take(slice(end - size, end))


# sources ------------------------------------------------------------------------------------------
#
# Reading predictions batch by batch from Parquet, Arrow and CSV files; every value knows its file and
# row.


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


# pairing ------------------------------------------------------------------------------------------
#
# Reading two models side by side, from the columns of one table or from two that hold the same samples.


_WEIGHT = "__abstain_weight"
Piece = tuple[str, int, Any]  # a file, the number of a row of it, and a table from there on


def paired_batches(
    name: str, file: str, first: Fields, second: Fields, size: int = BATCH, stretch: Stretch | None = None
) -> Iterator[Columns]:
    """The samples of one model with those of another in tow; `first` reads the columns of both."""
    for start, part in parts_of(name, file, first, size, stretch):
        yield beside(*(batch_of(name, file, start, part, fields).columns for fields in (first, second)))


def batches_in_step(
    name: str, files: Sequence[str], others: Sequence[str], first: Fields, second: Fields, size: int = BATCH
) -> Iterator[Columns]:
    """The same where the other model's columns lie in other files, sample by sample; weights are the first's."""
    unweighted = replace(second, weight=None)
    sides = _pieces(name, files, first, size), _pieces(name, others, unweighted, size)
    for (file, start, part), (other, row, more) in _in_step(name, *sides):
        if first.weight:
            more = more.select(unweighted.names).append_column(_WEIGHT, part.column(first.weight))
        own = replace(second, weight=_WEIGHT if first.weight else None)
        yield beside(
            batch_of(name, file, start, part, first).columns, batch_of(name, other, row, more, own).columns
        )


def _pieces(name: str, files: Sequence[str], fields: Fields, size: int) -> Iterator[Piece]:
    for file in files:
        for start, part in parts_of(name, file, fields, size, None):
            yield file, start, part


def _in_step(name: str, first: Iterator[Piece], second: Iterator[Piece]) -> Iterator[tuple[Piece, Piece]]:
    """Tables of equal length from both."""
    a, b = next(first, None), next(second, None)
    while a is not None and b is not None:
        rows = min(a[2].num_rows, b[2].num_rows)
        if rows:
            yield (*a[:2], a[2].slice(0, rows)), (*b[:2], b[2].slice(0, rows))
        a, b = (_beyond(piece, rows) or next(side, None) for piece, side in ((a, first), (b, second)))
    if a is not None or b is not None:
        raise DataError(
            f"{name}: the files of both models must hold the same samples, but one side has more of them "
            f"(it goes on in {(a or b or ('',))[0]})."
        )


def _beyond(piece: Piece, rows: int) -> Piece | None:
    """What is left of a table."""
    file, start, table = piece
    return (file, start + rows, table.slice(rows)) if table.num_rows > rows else None


def beside(first: Columns, second: Columns) -> Columns:
    """Samples of one model with loss and confidence of another in tow."""
    return first._replace(extra=np.stack([second.loss, second.confidence]).astype(np.float64))
