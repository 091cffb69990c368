"""Prediction files: found, read batch by batch ahead of the work, checked; every value knows its file and row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from abstain import losses, scores
from abstain.core.sorting import thread_count
from abstain.engines.ranges import Columns, Groups, in_units, merged
from abstain.errors import DataError, InputError
from abstain.evaluation.vectors import listed
from abstain.formats.arrow import Contents, read_batches, read_contents
from abstain.formats.table_files import partition_values, table_format
from abstain.metrics._sample import group_codes

Made = TypeVar("Made")
_END = object()


def read_ahead(batches: Iterable[Made]) -> Iterator[Made]:
    """The same batches in the same order, the next in the making; errors surface where they would have.

    Nobody waits for the reader when the work is broken off: it may hang on a disk or a network.
    """
    if thread_count() == 1:
        yield from batches
        return
    made: Queue[Any] = Queue(1)
    over = Event()

    def read() -> None:
        try:
            for batch in chain(batches, [_END]):
                made.put(batch)
                if over.is_set():
                    return
        except BaseException as problem:  # whatever it is, it belongs to whoever reads
            made.put(problem)

    Thread(target=read, daemon=True).start()
    try:
        while (got := made.get()) is not _END:
            if isinstance(got, BaseException):
                raise got
            yield got
    finally:
        over.set()
        with suppress(Empty):  # a reader that waits for room may go
            made.get_nowait()


def described(file: str) -> Contents:
    """What a file tells before it is read; CSV tells nothing."""
    kind = table_format(file)
    return Contents(None, {}) if kind == "csv" else read_contents(Path(file), kind)


class FilePart(NamedTuple):
    """Part of a file: some row groups of a Parquet file, the first of them at row `start`; or all of it."""

    file: str
    start: int = 0
    groups: tuple[int, ...] | None = None


def file_parts(files: Sequence[str], rows: int) -> list[FilePart]:
    """Parts of about `rows` samples each, found without reading the data."""
    found = []
    for file in files:
        sizes = described(file).row_group_sizes
        if sizes is None:
            found.append(FilePart(file))
            continue
        start = at = held = 0
        groups: list[int] = []
        for i, size in enumerate(sizes):
            if groups and held + size > rows:
                found.append(FilePart(file, start, tuple(groups)))
                start, groups, held = at, [], 0
            groups.append(i)
            held, at = held + size, at + size
        found.append(FilePart(file, start, tuple(groups)))
    return found


# what is asked ----------------------------------------------------------------------------------------------


class ColumnOptions(TypedDict, total=False):
    """Which columns hold what; see `abstain.engines.files.evaluate`."""

    confidence: str
    loss: str
    correct: str | None
    logits: str | Sequence[str]
    labels: str | None
    scores: Any
    losses: Any
    sample_weight: str | None
    repetitions: bool
    groups: str | None


@dataclass(frozen=True)
class Fields:
    """Columns of one confidence and one loss, read as they are or made of logits (columns, or one of lists)."""

    confidence: str = "confidence"
    loss: str = "loss"
    weight: str | None = None
    group: str | None = None
    logits: tuple[str, ...] = ()
    labels: str = ""
    correct: bool = False  # the column of losses holds 1 where the prediction is right
    also: tuple[str, ...] = ()  # columns that must be there, for whoever shares this part
    repetitions: bool = False  # are weights numbers of repetitions?

    @property
    def names(self) -> list[str]:
        """Columns to read."""
        own = [*self.logits, self.labels] if self.logits else [self.confidence, self.loss]
        return [name for name in dict.fromkeys([*own, self.weight, self.group, *self.also]) if name]


def questions(name: str, options: Mapping[str, Any]) -> list[Fields]:
    """The columns of each confidence and loss asked for, by the names of `ColumnOptions`."""
    given = {key: value for key, value in options.items() if value is not None}
    for unknown in sorted(set(options) - set(ColumnOptions.__annotations__)):
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown!r}")
    if "correct" in given and "loss" in given:
        raise InputError(f"{name}: give `loss` or `correct`, not both.")
    plain = Fields(
        given.get("confidence", "confidence"),
        given.get("correct") or given.get("loss", "loss"),
        given.get("sample_weight"),
        given.get("groups"),
        correct="correct" in given,
        repetitions=bool(given.get("repetitions", False)),
    )
    if "labels" not in given:
        if "logits" in given:
            raise InputError(f"{name}: `logits` and `labels` must be given together.")
        return [plain]
    logits = given.get("logits", "logits")
    logits = (logits,) if isinstance(logits, str) else tuple(logits)
    known = [s for s in scores.NAMES if "logits" in scores.by_name(s).takes]
    asked = listed(given.get("scores"), ["max_softmax"], known)
    made = product(asked, listed(given.get("losses"), ["zero_one"], losses.NAMES))
    plain = replace(plain, logits=logits, labels=given["labels"], correct=False)
    return [replace(plain, confidence=score, loss=loss) for score, loss in made]


def question(name: str, options: Mapping[str, Any]) -> Fields:
    """The columns of the one confidence and loss that a single number is about."""
    found = questions(name, options)
    if len(found) > 1:
        raise InputError(
            f"{name}: takes one score and one loss, got {len(found)} pairs. Ask `evaluate` for many."
        )
    return found[0]


# groups -----------------------------------------------------------------------------------------------------


class Labels(NamedTuple):
    """The group of each sample is `names[codes[i]]`; a missing name is None."""

    names: list[Any]
    codes: np.ndarray


def labels_of(name: str, field: str, column: Any) -> Labels:
    """The groups in a column of an Arrow table or a frame; a NaN is a missing name."""
    import pyarrow as pa

    column = whole(column if hasattr(column, "null_count") else pa.array(column, from_pandas=True))
    if pa.types.is_nested(column.type):
        raise DataError(f"{name}: `{field}` must hold names or numbers of groups, got {column.type}.")
    encoded = column.dictionary_encode()
    names, codes = group_codes(name, [*encoded.dictionary.to_pylist(), None])
    return Labels(names, codes[encoded.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)])


def by_label(columns: Columns, labels: Labels) -> Iterator[tuple[Any, Columns]]:
    """The samples of each group that has any."""
    small = np.uint16 if len(labels.names) <= 1 << 16 else np.int64  # short keys are sorted by counting
    columns = columns.take(np.argsort(labels.codes.astype(small), kind="stable"))
    sizes = np.bincount(labels.codes, minlength=len(labels.names))
    for label, size, end in zip(labels.names, sizes, np.cumsum(sizes)):
        if size:
            yield label, columns.take(slice(end - size, end))


# reading ----------------------------------------------------------------------------------------------------

BATCH = 1 << 20
_PLAIN = ("float", "double", "int32", "int64")  # Arrow's names of types that numpy reads where they lie


class Spot(NamedTuple):
    """Who asks, and where the rows at hand come from: what an error names."""

    name: str
    file: str = "a partition"
    start: int = 0

    def finite(self, field: str, values: np.ndarray) -> np.ndarray:
        """No NaN, no infinity; the message names file and row (the first data row is row 0)."""
        some = len(values) > 0 and values.dtype.kind == "f"
        if some and not (np.isfinite(values.min()) and np.isfinite(values.max())):
            remedy = "A sample without it cannot be ranked: drop the row."
            self.refuse(field, "be finite", values, ~np.isfinite(values), remedy)
        return values

    def refuse(self, field: str, rule: str, values: np.ndarray, odd: np.ndarray, remedy: str = "") -> None:
        """An error that names the first value that is odd, if any is."""
        for at in np.flatnonzero(odd)[:1].tolist():
            value = values[at]
            shown = f"{value:g}" if isinstance(value, np.floating) else value
            where = f"in {self.file}, row {self.start + at}"
            raise DataError(f"{self.name}: `{field}` must {rule}, got {shown} {where}. {remedy}".rstrip())


def tables_in(name: str, part: str | FilePart, fields: Fields, size: int) -> Iterator[tuple[Spot, Any]]:
    """Tables of at most `size` rows, and where each begins."""
    file, start, groups = part if isinstance(part, FilePart) else FilePart(part)
    told = partition_values(file)

    def present(schema: Any) -> list[str]:
        """Columns that the file holds; others must be told by its path."""
        for field in fields.names:
            if field not in schema.names and field not in told:
                raise DataError(
                    f"{name}: {file} has no column {field!r}; it has {', '.join([*schema.names, *told])}. "
                    f"Name the columns, e.g. confidence='score'."
                )
        return [field for field in fields.names if field in schema.names]

    for table in read_batches(Path(file), table_format(file), present, size, groups):
        for field in fields.names:
            if field not in table.schema.names:
                import pyarrow as pa

                same = pa.repeat(pa.scalar(told[field], pa.string()), table.num_rows)
                table = table.append_column(field, same)
        for at in range(0, table.num_rows, size):
            yield Spot(name, file, start), table.slice(at, size)
            start += min(size, table.num_rows - at)


class Loader(NamedTuple):
    """How data become columns, anywhere: by name of columns, in the order of confidence or of the oracle."""

    name: str
    fields: Fields
    best: bool | None = None  # in the oracle's order; are the losses 0/1?
    other: Fields | None = None  # of a second model: its loss and confidence travel along
    units: Mapping[Any, float] | None = None  # what to divide the weights of each group by

    def batches(self, part: str | FilePart, size: int = BATCH) -> Iterator[Groups]:
        """The samples of a file or of a part of it, at most `size` at a time."""
        for spot, table in tables_in(self.name, part, self.fields, size):
            yield self.samples(spot, table)

    def __call__(self, part: Any) -> Groups:
        """The samples of a part of a file, a pandas frame, an Arrow table or a batch of it, by group."""
        if isinstance(part, FilePart):
            return merged(self.batches(part))
        return self.samples(Spot(self.name), part)

    def samples(self, spot: Spot, table: Any) -> Groups:
        """Of a table or frame, checked; without groups all of them, under None."""
        columns, labels = columns_of(spot, table, self.fields)
        if self.other is not None:
            columns = columns.beside(columns_of(spot, table, self.other)[0])
        if self.best is not None:
            columns = columns.in_best_order(self.best)
        groups = {None: columns} if labels is None else dict(by_label(columns, labels))
        return groups if self.units is None else in_units(groups, self.units)


def columns_of(spot: Spot, table: Any, fields: Fields) -> tuple[Columns, Labels | None]:
    """The samples of a table or frame, checked, and their groups."""
    table = _as_arrow(spot.name, table, fields.names)

    def column(field: str) -> np.ndarray:
        return as_numpy(spot, field, whole(table.column(field)))

    if fields.logits:
        labels = column(fields.labels)
        confidence, loss = np.empty(0), np.empty(0, dtype=bool)
        if len(labels):
            logits = logits_of(spot, table, fields.logits)
            confidence = np.asarray(scores.by_name(fields.confidence)(logits))
            loss = np.asarray(losses.by_name(fields.loss)(logits, labels))
    else:
        confidence, loss = column(fields.confidence), spot.finite(fields.loss, column(fields.loss))
    spot.finite(fields.confidence, confidence)
    if confidence.dtype.kind in "iu" and confidence.dtype.itemsize == 8:
        big = (confidence > 1 << 53) | (confidence < -(1 << 53))
        remedy = "As floats neighbours would tie: subtract a common offset."
        spot.refuse(fields.confidence, "not exceed 2^53 in whole numbers", confidence, big, remedy)
    spot.finite(fields.loss, loss)
    if fields.correct:
        spot.refuse(fields.loss, "hold 0 (wrong) and 1 (right)", loss, (loss != 0) & (loss != 1))
        loss = np.asarray(loss == 0)
    groups = labels_of(spot.name, fields.group, table.column(fields.group)) if fields.group else None
    if not fields.weight:
        return ready(loss, confidence, None), groups
    weight = spot.finite(fields.weight, column(fields.weight)).astype(np.float64)
    spot.refuse(fields.weight, "not be negative", weight, weight < 0)
    if groups is not None:
        groups = groups._replace(codes=groups.codes[weight > 0])
    return ready(loss, confidence, weight), groups


def _as_arrow(name: str, table: Any, names: Sequence[str]) -> Any:
    """Frames of pandas in Arrow's words, without a copy of plain numbers."""
    if hasattr(table, "column"):
        return table
    import pyarrow as pa

    def column(field: str) -> Any:
        values = table[field]
        plain = isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf"
        try:
            return pa.array(values.to_numpy()) if plain else pa.array(values, from_pandas=True)
        except pa.ArrowException:
            raise DataError(f"{name}: `{field}` must hold values of one kind, got {values.dtype}.") from None

    return pa.table({field: column(field) for field in names})


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


def whole(column: Any) -> Any:
    """A column of a table in one piece."""
    return column.combine_chunks() if hasattr(column, "chunks") else column


def logits_of(spot: Spot, table: Any, names: Sequence[str]) -> np.ndarray:
    """Class scores of an Arrow table: a column for each class, or one of lists."""
    import pyarrow as pa

    columns = [whole(table.column(name)) for name in names]
    if len(names) == 1 and pa.types.is_nested(columns[0].type):
        return _lists(spot, names[0], columns[0])
    return np.stack([as_numpy(spot, *named) for named in zip(names, columns)], axis=1)


def _lists(spot: Spot, field: str, column: Any) -> np.ndarray:
    """A list in each row, all of one length and none with a gap; the message names the first that is not so."""
    import pyarrow.compute as pc

    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
    values = pc.list_flatten(column)
    odd = np.flatnonzero((lengths != lengths[:1]) | (lengths == 0))
    if not len(odd) and values.null_count:
        odd = np.flatnonzero(np.asarray(values.is_null())) // lengths[0]
    if len(odd):
        raise DataError(
            f"{spot.name}: rows of `{field}` must be lists of one length without a missing value, which fails in "
            f"{spot.file}, row {spot.start + int(odd[0])}. Drop the row or fill it in."
        )
    return as_numpy(spot, field, values).reshape(len(lengths), -1)


def as_numpy(spot: Spot, field: str, column: Any) -> np.ndarray:
    """One column as numbers; a missing value is an error that names its row."""
    if column.null_count:
        row = spot.start + int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise DataError(
            f"{spot.name}: `{field}` has a missing value in {spot.file}, row {row}. Drop the row or fill it in."
        )
    if str(column.type) == "bool":  # Arrow keeps eight to a byte
        end = column.offset + len(column)
        packed = np.frombuffer(column.buffers()[1], dtype=np.uint8)
        return np.unpackbits(packed, count=end, bitorder="little")[column.offset :].view(bool)
    # without a copy where there can be one: asked for a copy, pyarrow loads pandas to make it
    values = np.asarray(column.to_numpy(zero_copy_only=str(column.type) in _PLAIN))
    if values.dtype.kind not in "biuf":
        raise DataError(f"{spot.name}: `{field}` must hold numbers, got {column.type} in {spot.file}.")
    return values


# two models side by side ------------------------------------------------------------------------------------

_WEIGHT = "__abstain_weight"
Piece = tuple[Spot, Any]  # a table, and where it begins


def batches_in_step(load: Loader, files: tuple[Sequence[str], Sequence[str]], size: int) -> Iterator[Groups]:
    """The same where the other model's columns lie in other files, sample by sample; weights are the first's."""
    assert load.other is not None
    name, first, second = load.name, replace(load.fields, also=()), load.other
    unweighted = replace(second, weight=None)

    def pieces(side: Sequence[str], fields: Fields) -> Iterator[Piece]:
        return chain.from_iterable(tables_in(name, file, fields, size) for file in side)

    sides = pieces(files[0], first), pieces(files[1], unweighted)
    own = replace(second, weight=_WEIGHT if first.weight else None)
    for (spot, table), (other, more) in _in_step(name, *sides):
        if first.weight:
            more = more.select(unweighted.names).append_column(_WEIGHT, table.column(first.weight))
        yield {None: columns_of(spot, table, first)[0].beside(columns_of(other, more, own)[0])}


def _in_step(name: str, first: Iterator[Piece], second: Iterator[Piece]) -> Iterator[tuple[Piece, Piece]]:
    """Tables of equal length from both."""
    a, b = next(first, None), next(second, None)
    while a is not None and b is not None:
        rows = min(a[1].num_rows, b[1].num_rows)
        if rows:
            yield (a[0], a[1].slice(0, rows)), (b[0], b[1].slice(0, rows))
        a, b = (_beyond(piece, rows) or next(side, None) for piece, side in ((a, first), (b, second)))
    left = a or b
    if left is not None:
        raise DataError(
            f"{name}: the files of both models must hold the same samples, but one side has more of them "
            f"(it goes on in {left[0].file})."
        )


def _beyond(piece: Piece, rows: int) -> Piece | None:
    """What is left of a table."""
    spot, table = piece
    return (spot._replace(start=spot.start + rows), table.slice(rows)) if table.num_rows > rows else None
