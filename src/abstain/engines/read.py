"""Read prediction files batch by batch, one batch ahead of the work, and check them; errors name file and row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from abstain import losses, scores
from abstain.core.sorting import thread_count
from abstain.engines.ranges import Columns, Groups, in_units, merge_groups
from abstain.errors import DataError, InputError
from abstain.evaluation.vectors import expand_names
from abstain.formats.arrow import Contents, read_batches, read_contents
from abstain.formats.predictions import LEARNED
from abstain.formats.table_files import partition_values, table_format
from abstain.metrics._sample import group_codes, rows_of_groups

if TYPE_CHECKING:  # loading it takes as long as reading ten million rows, and few tables are ranked by one
    from abstain.confidence import LearnedConfidence

Batch = TypeVar("Batch")
_END = object()


def read_ahead(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The same batches in the same order, with the next one made in a thread while this one is used.

    An error of the reader is raised here, after the batches before it. With a single core there is no thread. If the
    consumer stops early, the reader thread ends after its batch; it is not joined, because it may hang on a disk or a
    network.
    """
    if thread_count() == 1:
        yield from batches
        return
    queue: Queue[Any] = Queue(1)  # holds one item; the reader waits until it is taken
    is_abandoned = Event()  # set when the consumer stops

    def read() -> None:
        try:
            for batch in chain(batches, [_END]):
                queue.put(batch)
                if is_abandoned.is_set():
                    return
        except BaseException as problem:  # raised again by the consumer
            queue.put(problem)

    Thread(target=read, daemon=True).start()
    try:
        while True:
            item = queue.get()  # a batch, the end, or what the reader raised
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        is_abandoned.set()
        with suppress(Empty):  # make room for a reader that waits to put its batch
            queue.get_nowait()


def describe_file(file: str) -> Contents:
    """Row counts and column types from the head of a file; CSV files have none."""
    kind = table_format(file)
    return Contents(None, {}) if kind == "csv" else read_contents(Path(file), kind)


class FilePart(NamedTuple):
    """Part of a file: some row groups of a Parquet file, the first of them at row `start`; or all of it (None)."""

    file: str
    start: int = 0
    row_groups: tuple[int, ...] | None = None


def file_parts(files: Sequence[str], rows_per_part: int) -> list[FilePart]:
    """Divide files into parts of at most about `rows_per_part` rows each, without reading the data.

    A part is one or more whole row groups of a Parquet file; a file of another format is one part.
    """
    parts = []
    for file in files:
        # rows in each row group, in the order of the file
        row_group_sizes = describe_file(file).row_group_sizes
        if row_group_sizes is None:  # not Parquet: the whole file
            parts.append(FilePart(file))
            continue
        start = 0  # number of the first row of the part that is being filled
        rows = 0
        row_groups: list[int] = []
        for number, size in enumerate(row_group_sizes):
            if row_groups and rows + size > rows_per_part:
                parts.append(FilePart(file, start, tuple(row_groups)))
                start += rows
                rows = 0
                row_groups = []
            row_groups.append(number)
            rows += size
        # the row groups that are left; without any, in a file that has none, the part is empty (None would be all)
        parts.append(FilePart(file, start, tuple(row_groups)))
    return parts


# which columns ----------------------------------------------------------------------------------------------


class ColumnOptions(TypedDict, total=False):
    """Which columns hold what; see `abstain.engines.files.evaluate`."""

    confidence: str | LearnedConfidence
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
    """Names of the columns of one confidence and one loss.

    With `logits` (a column per class, or one column of lists) and `labels`, `confidence` and `loss` are the names of
    the score and the loss to compute from them. With `learned`, the confidence is computed by it, from the logits and
    from the columns that have the names of its other inputs.
    """

    confidence: str = "confidence"
    loss: str = "loss"
    weight: str | None = None
    group: str | None = None
    logits: tuple[str, ...] = ()
    labels: str = ""
    holds_correctness: bool = False  # the column of losses holds 1 where the prediction is right
    further_columns: tuple[str, ...] = ()  # further columns to read: those of a second model
    repetitions: bool = False  # are weights numbers of repetitions?
    learned: LearnedConfidence | None = None

    @property
    def names(self) -> list[str]:
        """Names of all columns to read."""
        model_columns = [*self.logits, self.labels] if self.logits else [self.loss]
        if self.learned is not None:
            model_columns += self.learned_inputs
        elif not self.logits:
            model_columns.append(self.confidence)
        names = dict.fromkeys([*model_columns, self.weight, self.group, *self.further_columns])
        return [name for name in names if name]

    @property
    def learned_inputs(self) -> list[str]:
        """Columns that a learned confidence reads besides the logits: signals, features and categories."""
        if self.learned is None:
            return []
        profile = self.learned.model.profile
        return [*profile.numbers, *profile.categories]


def parse_columns(function: str, options: Mapping[str, Any]) -> list[Fields]:
    """The columns of each pair of confidence and loss, from `options`, the keyword arguments of the public function.

    Without `labels` there is one pair: the columns `confidence` and `loss` (or `correct`). With `labels` every one of
    `scores` is paired with every one of `losses`, both computed from the logits; a learned confidence replaces the
    scores. None means that an argument was not passed. TypeError for an unknown argument, InputError for arguments that
    exclude or need each other; `function` is what errors name.
    """
    unknown = sorted(set(options) - set(ColumnOptions.__annotations__))
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}")
    passed = {name: value for name, value in options.items() if value is not None}
    if "correct" in passed and "loss" in passed:
        raise InputError(f"{function}: takes `loss` or `correct`, got both.")
    for name in ("logits", "scores", "losses"):
        if name in passed and "labels" not in passed:
            raise InputError(f"{function}: `{name}` needs `labels`, got none.")
    for name in ("loss", "correct"):
        if name in passed and "labels" in passed:
            raise InputError(
                f"{function}: losses come from `labels` and `logits`, or from `{name}`, got both."
            )
    confidence = passed.get("confidence", "confidence")
    # a confidence that is no name of a column must be a learned one
    learned = None if isinstance(confidence, str) else _require_learned(function, confidence)
    if learned is not None:
        _check_learned(function, learned, passed)
        confidence = LEARNED  # the name that a learned confidence has in place of a column or a score
    elif "confidence" in passed and "labels" in passed:
        raise InputError(
            f"{function}: confidences come from `labels` and `logits`, or from `confidence`, got both."
        )
    fields = Fields(
        confidence=confidence,
        learned=learned,
        loss=passed.get("correct") or passed.get("loss", "loss"),
        weight=passed.get("sample_weight"),
        group=passed.get("groups"),
        holds_correctness="correct" in passed,
        repetitions=bool(passed.get("repetitions", False)),
    )
    if "labels" not in passed:
        return [fields]
    logits = passed.get("logits", "logits")
    fields = replace(
        fields,
        logits=(logits,) if isinstance(logits, str) else tuple(logits),
        labels=passed["labels"],
        holds_correctness=False,
    )
    # those that can be computed from logits
    all_scores = [name for name in scores.NAMES if "logits" in scores.by_name(name).takes]
    # `expand_names`: the names that the user passed (None: the default), with "all" replaced by all names; raises for
    # unknown ones
    requested_scores = [LEARNED]
    if learned is None:
        requested_scores = expand_names(passed.get("scores"), default=["max_softmax"], all_names=all_scores)
    requested_losses = expand_names(passed.get("losses"), default=["zero_one"], all_names=losses.NAMES)
    return [
        replace(fields, confidence=score, loss=loss)
        for score, loss in product(requested_scores, requested_losses)
    ]


def _require_learned(function: str, confidence: Any) -> LearnedConfidence:
    """Return what was passed instead of a column's name; InputError if it is no learned confidence."""
    from abstain.confidence import LearnedConfidence

    if not isinstance(confidence, LearnedConfidence):
        raise InputError(
            f"{function}: `confidence` must be the name of a column or a learned confidence, got "
            f"{type(confidence).__name__}."
        )
    return confidence


def _check_learned(function: str, learned: LearnedConfidence, passed: Mapping[str, Any]) -> None:
    """Raise InputError if the columns that were passed do not suit a learned confidence.

    `passed` are the user's keyword arguments that name columns, without those that are None; `function` is what
    messages name. Engines read logits, so a confidence learned from probabilities is refused. Only `labels` must be
    passed to read logits, since `logits` has a default.
    """
    kind = learned.model.profile.kind  # "logits", "probs", or None for a model that reads no class scores
    if kind == "probs":
        raise InputError(
            f"{function}: engines read logits, got a confidence learned from probabilities. Learn it from logits, or "
            f"evaluate in memory."
        )
    if kind == "logits" and "labels" not in passed:
        raise InputError(
            f"{function}: this confidence reads logits, got no `logits` and `labels`. Name their columns."
        )
    if "scores" in passed:
        raise InputError(f"{function}: takes `scores` or a learned confidence, got both.")


def parse_one_pair(function: str, options: Mapping[str, Any]) -> Fields:
    """The columns of one confidence and one loss, from `options`, the keyword arguments of the public function.

    For functions that return one number, such as `files.aurc`. InputError if the arguments name several pairs, or
    exclude or need each other; TypeError for an unknown one. `function` is the public function that messages name.
    """
    pairs = parse_columns(function, options)
    if len(pairs) > 1:
        raise InputError(
            f"{function}: takes one score and one loss, got {len(pairs)} pairs. Use `evaluate` for several."
        )
    return pairs[0]


# groups -----------------------------------------------------------------------------------------------------


class GroupLabels(NamedTuple):
    """The group of sample i is `names[codes[i]]`; the name of samples without a label is None.

    A name may have no samples: None is among the names even if every sample has a label.
    """

    names: list[Any]
    codes: np.ndarray


def read_group_labels(function: str, field: str, column: Any) -> GroupLabels:
    """The group of each sample, from a column of an Arrow table or a frame.

    Null and NaN are missing labels, whose group is None. DataError if the column holds lists or other nested values;
    `function` and `field`, the name of the column, are what it names.
    """
    import pyarrow as pa

    if not hasattr(column, "null_count"):  # not of Arrow
        column = pa.array(column, from_pandas=True)
    column = in_one_chunk(column)
    if pa.types.is_nested(column.type):
        raise DataError(f"{function}: `{field}` must hold names or numbers of groups, got {column.type}.")
    if pa.types.is_temporal(column.type):  # dates are names, written as texts
        column = column.cast(pa.string())
    encoded = column.dictionary_encode()
    # Find the groups among the distinct values and one missing value, not among all rows. `group_codes` names the group
    # of all missing values, None and NaN alike, None and puts it last. So `names` always ends with None; samples need
    # not belong to every name. It also returns, for each of these values, the index of its group in `names`.
    names, codes_of_dictionary = group_codes(function, [*encoded.dictionary.to_pylist(), None])
    place_of_missing = len(codes_of_dictionary) - 1  # of the None that was added at the end
    place_in_dictionary = encoded.indices.fill_null(place_of_missing).to_numpy(zero_copy_only=False)
    return GroupLabels(names, codes_of_dictionary[place_in_dictionary])


def split_by_group(columns: Columns, labels: GroupLabels) -> Iterator[tuple[Any, Columns]]:
    """The samples of each group that has any."""
    for name, rows in zip(labels.names, rows_of_groups(labels.codes, len(labels.names))):
        if len(rows):
            yield name, columns.take(rows)


# reading ----------------------------------------------------------------------------------------------------

BATCH = 1 << 20  # samples read at a time
_LEARNED_ROWS = 1 << 16  # rows to which a learned confidence is applied at a time: about 20 MB of columns
_ZERO_COPY_TYPES = ("float", "double", "int32", "int64")  # Arrow types that numpy can read in place


class RowOrigin(NamedTuple):
    """Where rows come from, for error messages: the public function, the file, and the number of the first row."""

    function: str
    file: str = "a partition"
    start: int = 0

    def check_finite(self, field: str, values: np.ndarray) -> None:
        """Raise DataError, with file and row, if a column holds NaN or infinity."""
        if not len(values) or values.dtype.kind != "f":
            return
        if np.isfinite(values.min()) and np.isfinite(values.max()):  # NaN spreads to both
            return
        remedy = "A sample without it cannot be ranked: drop the row."
        self.check_rule(field, "be finite", values, ~np.isfinite(values), remedy)

    def check_rule(
        self, field: str, rule: str, values: np.ndarray, is_bad: np.ndarray, remedy: str = ""
    ) -> None:
        """Raise DataError about the first value of a column that breaks a rule; do nothing if there is none.

        `is_bad` says for each of `values` whether it breaks the rule. The message reads "`field` must `rule`, got VALUE
        in FILE, row N. `remedy`", where the first data row of the file is row 0.
        """
        bad_rows = np.flatnonzero(is_bad)
        if not len(bad_rows):
            return
        row = int(bad_rows[0])
        value = values[row]
        text = f"{value:g}" if isinstance(value, np.floating) else value
        place = f"in {self.file}, row {self.start + row}"
        raise DataError(f"{self.function}: `{field}` must {rule}, got {text} {place}. {remedy}".rstrip())


def read_tables(
    function: str, part: str | FilePart, fields: Fields, batch_size: int
) -> Iterator[tuple[RowOrigin, Any]]:
    """Arrow tables of at most `batch_size` rows, each with its origin (function, file, number of its first row).

    `part` is a file, or a `FilePart`: a file, the number of the first row to read (from 0), and which row groups to
    read (None: all of the file). The tables hold the columns of `fields`. Columns that a file does not have may come
    from the names of its folders, such as `split=test`: every row then has that text. DataError for a column that
    neither has.
    """
    file, start, row_groups = part if isinstance(part, FilePart) else FilePart(part)
    # text by name of the column, from the names of the file's folders; None for a missing value
    folder_values = partition_values(file)

    def require_columns(schema: Any) -> list[str]:
        """The requested columns that the file itself holds; DataError for one that is nowhere."""
        for field in fields.names:
            if field not in schema.names and field not in folder_values:
                available = ", ".join([*schema.names, *folder_values])
                raise DataError(
                    f"{function}: {file} has no column {field!r}; it has {available}. "
                    f"Name the columns, e.g. confidence='score'; all files of a table must have them."
                )
        return [field for field in fields.names if field in schema.names]

    # names of groups in a CSV file stay texts, even where they look like dates or words for true and false
    text_columns = (fields.group,) if fields.group else ()
    # tables of the columns that `require_columns` returns
    for table in read_batches(
        Path(file),
        table_format(file),
        choose_columns=require_columns,
        max_rows=batch_size,
        row_groups=row_groups,
        text_columns=text_columns,
    ):
        for field in fields.names:
            if field not in table.schema.names:  # the name of a folder says its value
                import pyarrow as pa

                constant = pa.repeat(pa.scalar(folder_values[field], pa.string()), table.num_rows)
                table = table.append_column(field, constant)
        # batches of formats other than Parquet may be larger than asked for
        for offset in range(0, table.num_rows, batch_size):
            batch = table.slice(offset, batch_size)
            yield RowOrigin(function, file, start), batch
            start += batch.num_rows


class Loader(NamedTuple):
    """Turns files, frames and tables into checked columns by group. Tasks of a cluster carry it with them.

    Parameters
    ----------
    function : str
        The public function that errors name.
    fields : Fields
        The columns to read.
    oracle_zero_one : bool, optional
        If not None, minus the loss replaces the confidence, the order of the oracle; True for 0/1 losses.
    second_fields : Fields, optional
        Columns of a second model, whose loss and confidence are attached to the samples.
    weight_units : dict, optional
        What to divide the weights of each group by.
    """

    function: str
    fields: Fields
    oracle_zero_one: bool | None = None
    second_fields: Fields | None = None
    weight_units: Mapping[Any, float] | None = None

    def batches(self, part: str | FilePart, batch_size: int = BATCH) -> Iterator[Groups]:
        """The samples of a file or of a part of it, at most `batch_size` at a time."""
        for origin, table in read_tables(self.function, part, self.fields, batch_size):
            yield self.read_samples(origin, table)

    def __call__(self, part: Any) -> Groups:
        """The samples of a part of a file, a pandas frame, an Arrow table or a batch of it, by group."""
        if isinstance(part, FilePart):
            return merge_groups(self.batches(part))
        return self.read_samples(RowOrigin(self.function), part)

    def read_samples(self, origin: RowOrigin, table: Any) -> Groups:
        """The checked samples of a table or frame by group that has any; all under None if there are no groups.

        Depending on the loader, loss and confidence of a second model are attached, minus the loss replaces the
        confidence (the order of the oracle), and the weights of each group are divided by its unit. DataError for
        values that cannot be used; `origin` says which file and row it names.

        `fields` names the columns, `second_fields` those of a second model; `oracle_zero_one` is not None where minus
        the loss replaces the confidence; `weight_units` holds what to divide the weights of each group by. The oracle
        is the best possible order of the samples: by loss, smallest first.
        """
        columns, labels = read_columns(origin, table, self.fields)  # `labels` is None without groups
        if self.second_fields is not None:
            # both models have the same weights, so the same samples of weight zero are dropped
            second, _ = read_columns(origin, table, self.second_fields)
            columns = columns.with_second_model(second)
        if self.oracle_zero_one is not None:
            columns = columns.ordered_by_loss(self.oracle_zero_one)
        groups = {None: columns} if labels is None else dict(split_by_group(columns, labels))
        return groups if self.weight_units is None else in_units(groups, self.weight_units)


def read_columns(origin: RowOrigin, table: Any, fields: Fields) -> tuple[Columns, GroupLabels | None]:
    """The checked samples of a table or frame, and the group of each (None without a column of groups).

    Confidence and loss are columns, or are computed from columns of logits and labels. Samples of weight zero are
    dropped from both results. DataError, naming file and row, for text, a missing or infinite value, a negative weight,
    a value other than 0 and 1 in a column of right predictions, and whole confidences beyond 2^53, which a float64
    cannot hold. `origin` names the file and its first row, for messages. `fields` names the columns to read.
    """
    table = _as_arrow(origin.function, table, fields.names)

    def read_numbers(field: str) -> np.ndarray:
        """A column as a vector of numbers or booleans; DataError for text and for a missing value (null)."""
        return as_numpy(origin, field, in_one_chunk(table.column(field)))

    if fields.logits:
        confidence, loss = _score_logits(origin, table, fields, read_numbers(fields.labels))
    else:
        if fields.learned is None:
            confidence = read_numbers(fields.confidence)
        else:
            confidence = _apply_learned(origin, table, fields)
        loss = read_numbers(fields.loss)
        # before the confidence: where both are bad, the message is about the loss
        origin.check_finite(fields.loss, loss)
    origin.check_finite(fields.confidence, confidence)
    if confidence.dtype.kind in "iu" and confidence.dtype.itemsize == 8:
        is_too_large = (confidence > 1 << 53) | (confidence < -(1 << 53))
        remedy = "As floats neighbours would tie: subtract a common offset."
        origin.check_rule(
            fields.confidence, "not exceed 2^53 in whole numbers", confidence, is_too_large, remedy
        )
    origin.check_finite(fields.loss, loss)  # also losses that were computed from logits
    if fields.holds_correctness:
        is_other = (loss != 0) & (loss != 1)
        origin.check_rule(fields.loss, "hold 0 (wrong) and 1 (right)", loss, is_other)
        loss = np.asarray(loss == 0)
    labels = None
    if fields.group:
        labels = read_group_labels(origin.function, fields.group, table.column(fields.group))
    if not fields.weight:
        return convert_types(loss, confidence, None), labels
    weight = read_numbers(fields.weight)
    origin.check_finite(fields.weight, weight)
    weight = weight.astype(np.float64)
    origin.check_rule(fields.weight, "not be negative", weight, weight < 0)
    if labels is not None:  # `convert_types` drops the samples of weight zero, so their labels go too
        labels = labels._replace(codes=labels.codes[weight > 0])
    # in the types that engines work with: 0/1 losses as booleans, confidences as float32 or float64
    return convert_types(loss, confidence, weight), labels


def _score_logits(
    origin: RowOrigin, table: Any, fields: Fields, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Confidence and loss computed from logits and labels; empty vectors where there are no samples.

    `fields.confidence` and `fields.loss` are names of `abstain.scores` and `abstain.losses`, `fields.logits` columns of
    the Arrow table. `origin` names the file and its first row, for messages.
    """
    if not len(labels):
        return np.empty(0), np.empty(0, dtype=bool)
    logits = read_logits(origin, table, fields.logits)  # shape (samples, classes)
    # one value per sample, in the order of the table; a loss raises for labels that are no class numbers
    if fields.learned is None:
        confidence = np.asarray(scores.by_name(fields.confidence)(logits))
    else:
        confidence = _apply_learned(origin, table, fields, logits)
    loss = np.asarray(losses.by_name(fields.loss)(logits, labels))
    return confidence, loss


def _apply_learned(
    origin: RowOrigin, table: Any, fields: Fields, logits: np.ndarray | None = None
) -> np.ndarray:
    """The learned confidence of each row of an Arrow table that has columns with the names of its inputs.

    `origin` names the file and its first row, for messages, and `fields` the columns. `logits` have shape (samples,
    classes). Rows are scored a portion at a time, so that what is computed of them stays small beside a batch. Whether
    the inputs are distributed as in learning is not checked, since a portion may be of one kind. DataError for text in
    a column of numbers.
    """
    learned = fields.learned
    assert learned is not None
    # names the inputs of the model: `numbers`, which are its signals (`signal_names`) and `features`, and `categories`;
    # its `kind` is "logits", or None for a model that reads no class scores
    profile = learned.model.profile
    columns = {name: in_one_chunk(table.column(name)) for name in fields.learned_inputs}
    from abstain.confidence.input_table import read_inputs

    confidence = np.empty(table.num_rows)
    for start in range(0, table.num_rows, _LEARNED_ROWS):
        rows = slice(start, start + _LEARNED_ROWS)
        parts = {name: column.slice(start, _LEARNED_ROWS) for name, column in columns.items()}
        numbers = {name: _numbers_with_gaps(origin, name, parts[name]) for name in profile.numbers}
        # the inputs of these rows, checked, in the form that the model takes; missing numbers are NaN, missing texts
        # None
        inputs = read_inputs(
            origin.function,
            logits=None if logits is None or profile.kind is None else logits[rows],
            signals={name: numbers[name] for name in profile.signal_names},
            features={name: numbers[name] for name in profile.features},
            categories={name: _texts_with_gaps(parts[name]) for name in profile.categories},
        )
        profile.check_names(origin.function, inputs)  # raises for another number of classes than in learning
        confidence[rows] = learned.model.apply(inputs)
    return confidence


def _numbers_with_gaps(origin: RowOrigin, field: str, column: Any) -> np.ndarray:
    """One Arrow array as floats, NaN where a value is missing; DataError for text.

    The error names `field`, the column, and the public function and the file of `origin`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (
        pa.types.is_integer(column.type)
        or pa.types.is_floating(column.type)
        or pa.types.is_boolean(column.type)
    ):
        raise DataError(
            f"{origin.function}: `{field}` must hold numbers, got {column.type} in {origin.file}."
        )
    return np.asarray(pc.fill_null(pc.cast(column, pa.float64()), np.nan))


def _texts_with_gaps(column: Any) -> np.ndarray:
    """One Arrow array of labels as Python objects, None where a value is missing; each level is converted once."""
    encoded = column.dictionary_encode()
    levels = np.asarray([*encoded.dictionary.to_pylist(), None], dtype=object)
    codes = np.asarray(encoded.indices.fill_null(len(levels) - 1))
    return levels[codes]


def _as_arrow(function: str, table: Any, names: Sequence[str]) -> Any:
    """A pandas frame as an Arrow table of the columns `names`; an Arrow table is returned as it is.

    Plain numbers are not copied, and NaN stays NaN in them; in other columns it becomes null. DataError for a column of
    mixed types. `function` is the public function that messages name.
    """
    import pyarrow as pa

    if isinstance(table, (pa.Table, pa.RecordBatch)):
        return table

    def convert(field: str) -> Any:
        values = table[field]
        is_plain = isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf"
        try:
            return pa.array(values.to_numpy()) if is_plain else pa.array(values, from_pandas=True)
        except pa.ArrowException:
            raise DataError(
                f"{function}: `{field}` must hold values of one kind, got {values.dtype}."
            ) from None

    return pa.table({field: convert(field) for field in names})


def convert_types(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> Columns:
    """Samples in the types that engines work with, without those of weight zero.

    Confidences become float32 (from half precision) or float64, unless they are one of them already. Losses that are
    all 0 or 1 become booleans; others stay float32 or float64, or become float64. The arguments are vectors of one
    length, which are not changed; weights are kept as they are (None: no weights).
    """
    if confidence.dtype not in (np.float32, np.float64):
        confidence = confidence.astype(np.float32 if confidence.dtype == np.float16 else np.float64)
    if loss.dtype != bool:
        if loss.dtype.kind in "iu" or loss.dtype == np.float16:
            loss = loss.astype(np.float64)
        if bool(np.all((loss == 0) | (loss == 1))):
            loss = loss != 0
    columns = Columns(loss, confidence, weight)
    if weight is not None and not weight.all():  # weights are at least 0, as the caller has checked
        return columns.take(np.flatnonzero(weight))
    return columns


def in_one_chunk(column: Any) -> Any:
    """A column of an Arrow table as one array."""
    return column.combine_chunks() if hasattr(column, "chunks") else column


def read_logits(origin: RowOrigin, table: Any, names: Sequence[str]) -> np.ndarray:
    """Logits of an Arrow table, shape (samples, classes): a column for each class, or one column of lists."""
    import pyarrow as pa

    columns = [in_one_chunk(table.column(name)) for name in names]
    if len(names) == 1 and pa.types.is_nested(columns[0].type):
        return _read_lists(origin, names[0], columns[0])
    return np.stack([as_numpy(origin, name, column) for name, column in zip(names, columns)], axis=1)


def _read_lists(origin: RowOrigin, field: str, column: Any) -> np.ndarray:
    """An Arrow column of lists, at least one, as a matrix with a row for each list.

    DataError, naming the first bad row, if lists differ in length, or one is missing, empty or has a missing value.
    `origin` names the file and its first row, for messages, and `field` is the name of the column.
    """
    import pyarrow.compute as pc

    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))  # 0 for a missing list
    values = pc.list_flatten(column)
    bad_rows = np.flatnonzero((lengths != lengths[:1]) | (lengths == 0))
    if not len(bad_rows) and values.null_count:
        # all lists have one length here: the index of a value among all lists, over that length, is its row
        bad_rows = np.flatnonzero(np.asarray(values.is_null())) // lengths[0]
    if len(bad_rows):
        raise DataError(
            f"{origin.function}: rows of `{field}` must be lists of one length without a missing value, which fails in "
            f"{origin.file}, row {origin.start + int(bad_rows[0])}. Drop the row or fill it in."
        )
    return as_numpy(origin, field, values).reshape(len(lengths), -1)


def as_numpy(origin: RowOrigin, field: str, column: Any) -> np.ndarray:
    """One Arrow array (not chunked) as a numpy vector of numbers or booleans, without a copy where possible.

    DataError for a missing value, with its row, and for text and other types. `field` is the name of the column.
    `origin` names the file and its first row, for messages.
    """
    if column.null_count:
        row = origin.start + int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise DataError(
            f"{origin.function}: `{field}` has a missing value in {origin.file}, row {row}. "
            f"Drop the row or fill it in."
        )
    if str(column.type) == "bool":
        # Arrow packs eight into a byte; the values start at bit `offset` of the buffer
        end = column.offset + len(column)
        packed = np.frombuffer(column.buffers()[1], dtype=np.uint8)
        return np.unpackbits(packed, count=end, bitorder="little")[column.offset :].view(bool)
    # without a copy where possible: to make one, pyarrow would load pandas
    values = np.asarray(column.to_numpy(zero_copy_only=str(column.type) in _ZERO_COPY_TYPES))
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"{origin.function}: `{field}` must hold numbers, got {column.type} in {origin.file}."
        )
    return values


# two models side by side ------------------------------------------------------------------------------------

_WEIGHT = "__abstain_weight"  # name of the first model's weights among the columns of the second
Piece = tuple[RowOrigin, Any]  # an Arrow table and where it begins


def read_two_models(
    load: Loader, files: tuple[Sequence[str], Sequence[str]], batch_size: int
) -> Iterator[Groups]:
    """Batches of samples of two models whose columns lie in different files, row by row in the same order.

    `files` are those of the first and of the second model, `load.fields` and `load.second_fields` the names of their
    columns; `load.function` is what messages name. Each batch is {None: samples}, at most `batch_size` of them, with
    loss and confidence of the second model attached. Weights are the first model's; they are also given to the second,
    so that samples of weight zero are dropped on both sides. DataError if one side has more rows than the other.
    """
    assert load.second_fields is not None
    function = load.function
    # the second model's columns lie in files of their own, so the first one's files are not searched for them
    first = replace(load.fields, further_columns=())
    second = replace(load.second_fields, weight=None)

    def read_side(side: Sequence[str], fields: Fields) -> Iterator[Piece]:
        return chain.from_iterable(read_tables(function, file, fields, batch_size) for file in side)

    # the first model's weights are added to the second's tables as the column `_WEIGHT`
    weighted_second = replace(second, weight=_WEIGHT if first.weight else None)
    # pairs of tables with equally many rows, each with its origin (file and first row)
    for first_piece, second_piece in _in_step(
        function, read_side(files[0], first), read_side(files[1], second)
    ):
        first_origin, first_table = first_piece
        second_origin, second_table = second_piece
        if first.weight:
            weight = first_table.column(first.weight)
            second_table = second_table.select(second.names).append_column(_WEIGHT, weight)
        # the second result, groups, is None: a comparison has none
        first_columns, _ = read_columns(first_origin, first_table, first)
        second_columns, _ = read_columns(second_origin, second_table, weighted_second)
        yield {None: first_columns.with_second_model(second_columns)}


def _in_step(function: str, first: Iterator[Piece], second: Iterator[Piece]) -> Iterator[tuple[Piece, Piece]]:
    """Pair the tables of two sides, each cut so that both of a pair have equally many rows.

    `first` and `second` yield the pieces of each side in order. A piece is (origin, Arrow table): the origin says from
    which file and row the table comes. DataError, naming `function`, if one side has more rows than the other.
    """
    first_piece = next(first, None)
    second_piece = next(second, None)
    while first_piece is not None and second_piece is not None:
        _, first_table = first_piece
        _, second_table = second_piece
        rows = min(first_table.num_rows, second_table.num_rows)
        if rows:  # a file may hold a table without rows
            # the first `rows` rows of both, with their origins
            yield _first_rows(first_piece, rows), _first_rows(second_piece, rows)
        # None where a piece has no more rows
        first_piece = _remaining_rows(first_piece, rows) or next(first, None)
        second_piece = _remaining_rows(second_piece, rows) or next(second, None)
    surplus = first_piece or second_piece  # at most one side has rows that remain
    if surplus is not None:
        origin, _ = surplus
        raise DataError(
            f"{function}: the files of both models must hold the same samples, but one side has more of them "
            f"(it goes on in {origin.file})."
        )


def _first_rows(piece: Piece, rows: int) -> Piece:
    origin, table = piece
    return origin, table.slice(0, rows)


def _remaining_rows(piece: Piece, rows: int) -> Piece | None:
    """The table without its first `rows` rows; None if there are no more."""
    origin, table = piece
    if table.num_rows <= rows:
        return None
    return origin._replace(start=origin.start + rows), table.slice(rows)
