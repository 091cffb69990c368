"""Tables that pyarrow reads: described, read batch by batch (engines) or column by column (in memory).

Only the columns that are used are read, and their size is checked before.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Container, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abstain.errors import import_optional
from abstain.formats import parquet_pages
from abstain.formats.columns import Column, OpenedTable, TextValues, Values
from abstain.formats.safety import (
    COMPRESSED_ENDINGS,
    MAX_EXPANSION,
    Limits,
    check_rows,
    display_name,
    file_error,
    open_limited,
    reporting_damage,
)

# Copies of a column of texts at the peak: decompressed, as a dictionary, joined, as Python's strings
_COPIES_WHILE_CONVERTING_TEXT = 5
_BYTES_PER_ROW = 40  # at the peak of an evaluation: a loss and a confidence, the keys that sort them, rows
_BYTES_PER_LISTED_NUMBER = 40  # a Python float in a list
_CSV_BLOCK_BYTES = 16 << 20  # bytes that pyarrow's csv reader parses at a time
_ARROW_FILE_MAGIC = b"ARROW1"  # an IPC file begins so; an IPC stream does not
_ARROW_FILE_HEADER_SIZE = 8  # bytes before the first message of an IPC file: the magic, padded


def _import_pyarrow(path: Path, submodule: str = "") -> Any:
    """Import pyarrow, or a submodule such as ".parquet"; MissingDependencyError names the file to be read."""
    try:
        import pyarrow
    except ImportError:
        return import_optional("pyarrow", feature=f"Reading {display_name(path.name)}", extra="files")
    return importlib.import_module(submodule, pyarrow.__name__) if submodule else pyarrow


# Sizes of Arrow IPC files
#
# How much such a file decompresses to is read from its message headers before anything is decompressed. Compressed
# buffers begin with their decompressed length (int64); where each buffer lies is said in the message's flatbuffer, of
# which the few fields needed are read here: Message(version, header_type, header, bodyLength),
# RecordBatch(length, nodes, buffers, compression), DictionaryBatch(id, data). Fields are numbered from 0.

_MESSAGE_HEADER_FIELD = 2
_BATCH_BUFFERS_FIELD = 2
_BATCH_COMPRESSION_FIELD = 3
_DICTIONARY_DATA_FIELD = 1
_BUFFER_STRUCT_SIZE = 16  # two int64: offset and length
_STATED_LENGTH_SIZE = 8  # bytes


def _find_field(data: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a flatbuffer table; 0 where it is absent.

    `table` is the position of the table in `data`. A table begins with the distance to its vtable, which holds its own
    length, the table's length, and the offset of each field within the table (0: absent), two bytes each. Fields
    are numbered from 0. struct.error where a position lies outside of `data`.
    """
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    vtable_length = int(struct.unpack_from("<H", data, vtable)[0])
    entry = 4 + 2 * number  # after the two lengths; each entry has two bytes
    if entry >= vtable_length:  # a vtable ends after the last field that is present
        return 0
    offset = int(struct.unpack_from("<H", data, vtable + entry)[0])
    return table + offset if offset else 0


def _follow_offset(data: memoryview, position: int) -> int:
    """Return the position that the offset stored at `position` points to."""
    return position + int(struct.unpack_from("<I", data, position)[0])


def unpacked_message_size(message: Any) -> int:
    """Return the bytes that the body of an Arrow IPC message (`pyarrow.ipc.Message`) has after decompression.

    A compressed buffer begins with its decompressed length (int64), or -1 where it is stored as it is. These lengths
    are added; nothing is decompressed. 0 for messages that are neither a record batch nor a dictionary. struct.error
    where the message is damaged.
    """
    if message.type not in ("record batch", "dictionary"):
        return 0
    data = memoryview(message.metadata)
    body = memoryview(message.body)
    # `_follow_offset` reads the offset stored at a position, and returns the position to which it leads
    root = _follow_offset(data, 0)  # the outermost table
    # position of the batch's table; the numbers of fields are those of Arrow's format (Message.fbs)
    batch = _follow_offset(data, _find_field(data, root, _MESSAGE_HEADER_FIELD))
    if message.type == "dictionary":  # a record batch lies inside it
        batch = _follow_offset(data, _find_field(data, batch, _DICTIONARY_DATA_FIELD))
    # `_find_field` returns the position of a field in `data`, and 0 where the field is absent.
    buffers_field = _find_field(data, batch, _BATCH_BUFFERS_FIELD)
    is_compressed = _find_field(data, batch, _BATCH_COMPRESSION_FIELD) != 0
    if not buffers_field or not is_compressed:
        return len(body)
    vector = _follow_offset(data, buffers_field)  # position of the count of buffers; their structs follow it
    buffer_count = int(struct.unpack_from("<I", data, vector)[0])
    total = 0
    for index in range(buffer_count):
        # where the buffer lies in `body`, and its length; a struct of two int64 after the count of 4 bytes
        offset, length = struct.unpack_from("<qq", data, vector + 4 + _BUFFER_STRUCT_SIZE * index)
        if length >= _STATED_LENGTH_SIZE:  # 8 bytes; a shorter buffer is empty
            stated_length = int(struct.unpack_from("<q", body, offset)[0])
            total += length if stated_length < 0 else stated_length  # negative: this buffer is not compressed
    return total


# Files in memory


def open_parquet(path: Path, limits: Limits) -> OpenedTable:
    """Open the columns of a parquet file, each read when it is loaded.

    Text is read as a dictionary, so that repeated text costs nothing. DataError where the file is damaged, has no rows,
    or has more rows or columns than `limits` allow. Loading a column raises it where the column, or all columns loaded
    so far, would need more memory than is allowed, or where it holds neither numbers nor text.
    """
    parquet = _import_pyarrow(path, ".parquet")
    with reporting_damage(path, "parquet"), parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        row_count = file.metadata.num_rows
        _check_table(path, schema, row_count, limits)

    # Name of a loaded column -> its memory in bytes, with the copies that are made while it is converted. The copies
    # are freed and only the column is kept, so that the sum over the columns is an upper bound. A column that was
    # refused stays in it: the caller gives the file up then.
    bytes_of_column: dict[str, int] = {}

    def load(name: str) -> Values:
        """Read one column by name, after its type and size were checked; `bytes_of_column` is updated."""
        # `columns` is made below, from this function
        is_text = columns[name].is_text
        # `name` may be dotted, for a field of a struct; `schema.field` would not find that
        _check_column_type(path, name, _list_fields(schema)[name].arrow_type)
        columns_read_as_dictionary = [name] if is_text else None
        with (
            reporting_damage(path, "parquet"),
            parquet.ParquetFile(path, read_dictionary=columns_read_as_dictionary) as file,
        ):
            copy_count = _COPIES_WHILE_CONVERTING_TEXT if is_text else 1  # 5 or 1, in memory at a time
            # of the pages as they are stored (a dictionary and indices, or plain texts), decompressed
            bytes_of_column[name] = copy_count * _unpacked_column_size(path, file.metadata, name)
            limits.check_memory(path, bytes_of_column[name], f"column `{display_name(name)}`")
            limits.check_memory(path, sum(bytes_of_column.values()), f"its {len(bytes_of_column)} columns")
            values = _select_field(file.read(columns=[name]), name)  # a chunked array
            return convert_arrow(values, path=path, name=name, limits=limits)

    columns = _make_columns(schema, row_count, load)
    return OpenedTable(path=path, format="parquet", columns=columns)


def read_number_lists(path: Path, name: str, limits: Limits) -> list[list[float] | None]:
    """Return a parquet column of lists of numbers, which may have different lengths; None where a row has no list.

    `name` is dotted for a field of a struct. DataError where the column holds anything else, or needs more memory than
    `limits` allow.
    """
    parquet = _import_pyarrow(path, ".parquet")
    with reporting_damage(path, "parquet"), parquet.ParquetFile(path) as file:
        arrow_type = _list_fields(file.schema_arrow)[name].arrow_type
        if not _is_list(arrow_type) or not _is_number(arrow_type.value_type):
            # `display_name` escapes control characters and shortens long names
            raise file_error(path, f"rows of `{display_name(name)}` must hold numbers.")
        # The size counts at least 8 bytes for each number, so there cannot be more numbers than this. Each becomes a
        # Python float in a list, of 40 bytes.
        max_number_count = _unpacked_column_size(path, file.metadata, name) // 8
        limits.check_memory(
            path, _BYTES_PER_LISTED_NUMBER * max_number_count, f"column `{display_name(name)}`"
        )
        lists: list[list[float] | None] = _select_field(file.read(columns=[name]), name).to_pylist()
        return lists


class _ArrowField(NamedTuple):
    """A column of an Arrow schema, or a field inside a column of structs."""

    arrow_type: Any
    path: tuple[str, ...]  # name of the column, then of the field in it, of the field in that ...


def _list_fields(schema: Any) -> dict[str, _ArrowField]:
    """Return the columns of a pyarrow schema by name; those of structs are replaced by their fields, with dotted names.

    Where two have one dotted name, a column whose own name has dots counts more than a field, and of two fields the
    first in the schema. The path of a field is the name of its column and the names of the fields that lead to it.
    Columns come in the order of the schema.
    """
    fields: dict[str, _ArrowField] = {}
    for column in schema:
        # the fields of a struct, at any depth; any other column yields itself
        for field in _flatten_field(_ArrowField(arrow_type=column.type, path=(column.name,))):
            fields.setdefault(".".join(field.path), field)
    plain_columns = {
        column.name: _ArrowField(arrow_type=column.type, path=(column.name,))
        for column in schema
        if not _is_struct(column.type)
    }
    return fields | plain_columns  # replaces a field of the same dotted name; the order of `fields` stays


def _flatten_field(field: _ArrowField) -> Iterator[_ArrowField]:
    """Yield the fields inside a struct, and inside structs in it; a field of any other type is yielded itself."""
    if not _is_struct(field.arrow_type):
        yield field
        return
    for inner in field.arrow_type:
        yield from _flatten_field(_ArrowField(arrow_type=inner.type, path=(*field.path, inner.name)))


def _select_field(table: Any, name: str) -> Any:
    """Return a column of an Arrow table, or a field of structs, as a chunked array.

    `name` is one of the names that `_list_fields` makes of the table's schema; KeyError for another.
    """
    import pyarrow.compute as pc

    column_name, *inner_names = _list_fields(table.schema)[name].path
    column = table[column_name]
    for inner_name in inner_names:
        column = pc.struct_field(column, inner_name)
    return column


def _unpacked_column_size(path: Path, metadata: Any, name: str) -> int:
    """Return the bytes of one parquet column once decompressed: what its pages state, and at least 8 per value.

    `metadata` is pyarrow's `FileMetaData` of the file at `path`, and `name` the column's name in the schema. ValueError
    where pages are damaged.
    """
    total = 0
    for group_index in range(metadata.num_row_groups):
        row_group = metadata.row_group(group_index)
        for column_index in range(row_group.num_columns):
            chunk = row_group.column(column_index)
            # a list column is stored as name.list.element, so that a name matches whole parts between dots
            if f"{chunk.path_in_schema}.".startswith(f"{name}."):
                # A value may take no bytes in a page (a run of equal values), but takes 8 as a number or a pointer.
                total += max(parquet_pages.unpacked_size(path, chunk), 8 * chunk.num_values)
    return total


def open_arrow(path: Path, limits: Limits) -> OpenedTable:
    """Read an Arrow IPC file or stream (feather is one), after its decompressed size was checked.

    The table stays in memory, and columns are converted to numpy when they are loaded; the name of a field of a struct
    is dotted. DataError where the file is damaged, has no rows, or would need more memory or columns than `limits`
    allow.
    """
    pyarrow = _import_pyarrow(path)
    with reporting_damage(path, "arrow"):
        with pyarrow.memory_map(str(path)) as stream:
            is_file = stream.read(len(_ARROW_FILE_MAGIC)) == _ARROW_FILE_MAGIC
            # An IPC file is a stream of messages after a header of 8 bytes. Only the headers of messages are read here,
            # and sizes added.
            stream.seek(_ARROW_FILE_HEADER_SIZE if is_file else 0)
            decompressed_bytes = 0
            for message in pyarrow.ipc.MessageReader.open_stream(stream):
                decompressed_bytes += unpacked_message_size(message)
                limits.check_memory(path, decompressed_bytes)  # raises DataError
        table = _open_ipc(path).read_all()
        table.validate(full=True)  # an untrusted file may hold offsets that point outside its buffers
        # no rows, too many rows or columns
        _check_table(path, table.schema, table.num_rows, limits)

    def load(name: str) -> Values:
        return convert_arrow(_select_field(table, name), path=path, name=name, limits=limits)

    return OpenedTable(path=path, format="arrow", columns=_make_columns(table.schema, table.num_rows, load))


def _open_ipc(path: Path) -> Any:
    """Return pyarrow's reader of an IPC file or of an IPC stream."""
    pyarrow = _import_pyarrow(path)
    stream = pyarrow.memory_map(str(path))
    is_file = stream.read(len(_ARROW_FILE_MAGIC)) == _ARROW_FILE_MAGIC
    stream.seek(0)
    return pyarrow.ipc.open_file(stream) if is_file else pyarrow.ipc.open_stream(stream)


def _check_table(path: Path, schema: Any, row_count: int, limits: Limits) -> None:
    """Raise DataError where a table has no rows, or more rows or columns than is allowed."""
    limits.check_columns(path, len(schema))
    if row_count == 0:
        raise file_error(path, "has no rows.")
    limits.check_memory(path, row_count * _BYTES_PER_ROW, f"its {row_count:,} rows, read and ranked,")


def _make_columns(schema: Any, row_count: int, load: Callable[[str], Values]) -> dict[str, Column]:
    """Make a column of each field of a schema, those inside structs by dotted names; `load` reads one by its name."""
    columns = {}
    for name, field in _list_fields(schema).items():
        kind = "text" if _is_text(field.arrow_type) else str(field.arrow_type)
        columns[name] = Column(shape=(row_count,), kind=kind, load=partial(load, name))
    return columns


# Files by batches, for engines


class Contents(NamedTuple):
    """What a file says of itself before its values are read."""

    row_group_sizes: list[int] | None  # rows of each row group of a parquet file; None for other formats
    column_types: dict[str, str]  # names of Arrow's types


def read_contents(path: Path, format_name: str) -> Contents:
    """Return the columns and row groups of a file without reading its values; `format_name` is "parquet" or "arrow".

    DataError where the file is damaged.
    """
    with reporting_damage(path, format_name):  # turns exceptions into a DataError
        if format_name == "arrow":
            # only parquet files have row groups, blocks of rows that can be read alone
            row_group_sizes = None
            schema = _open_ipc(path).schema
        else:
            with _import_pyarrow(path, ".parquet").ParquetFile(path) as file:
                metadata = file.metadata
                schema = file.schema_arrow
                row_group_sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        column_types = {field.name: str(field.type) for field in schema}
        return Contents(row_group_sizes=row_group_sizes, column_types=column_types)


def read_batches(
    path: Path,
    format_name: str,
    choose_columns: Callable[[Any], list[str]],
    max_rows: int,
    row_groups: tuple[int, ...] | None,
    text_columns: Container[str] = (),
) -> Iterator[Any]:
    """Yield the record batches of a parquet, arrow or csv file, in the order of the file.

    Names and texts of a csv file come without blanks around them.

    Parameters
    ----------
    path : Path
    format_name : {"parquet", "arrow", "csv"}
    choose_columns : callable
        Takes the schema and returns the names of the columns to read, in the order that batches have them.
    max_rows : int
        Rows of a batch, at most; of parquet files only.
    row_groups : tuple of int or None
        The row groups of a parquet file to read; None for all.
    text_columns : container of str
        Columns of a csv file that hold numbers or texts: dates, and words for true and false, stay as they are written.

    Raises
    ------
    DataError
        The file is damaged or, compressed, out of proportion to its size on disk.
    """
    try:
        if format_name == "parquet":
            yield from _read_parquet_batches(path, choose_columns, max_rows, row_groups)
            return
        if format_name == "arrow":
            reader = _open_ipc(path)
        else:
            yield from _read_csv_batches(path, choose_columns, text_columns)
            return
        names = choose_columns(reader.schema)
        is_ipc_file = hasattr(reader, "num_record_batches")  # otherwise an IPC stream, which is iterated
        all_batches = map(reader.get_batch, range(reader.num_record_batches)) if is_ipc_file else reader
        for batch in all_batches:
            chosen_columns = batch.select(names)
            # An untrusted file may hold offsets that point outside its buffers.
            chosen_columns.validate(full=True)
            yield chosen_columns
    except Exception:
        # Turn the exception into a DataError; not around the `yield`s above by `with`, which would leave the context
        # open while the caller works.
        with reporting_damage(path, format_name):
            raise


def _read_parquet_batches(
    path: Path, choose_columns: Callable[[Any], list[str]], max_rows: int, row_groups: tuple[int, ...] | None
) -> Iterator[Any]:
    """Yield the record batches of a parquet file, in its order, each of at most `max_rows` rows.

    `choose_columns` takes the file's schema and returns the names of the columns to read, which must be in it.
    `row_groups` are the numbers of the row groups to read, None for all. What pyarrow raises for a damaged file, the
    caller turns into a DataError.
    """
    # the module pyarrow.parquet
    parquet = _import_pyarrow(path, ".parquet")
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    names = choose_columns(schema)
    # Each different text is read once, with an index per row (a dictionary), so that repeated text costs nothing.
    text_names = [name for name in names if _is_text(schema.field(name).type)]
    # pre_buffer would hold whole row groups in memory, whatever the size of a batch
    with parquet.ParquetFile(path, pre_buffer=False, read_dictionary=text_names) as file:
        yield from file.iter_batches(max_rows, row_groups=row_groups, columns=names)


def _read_csv_batches(
    path: Path, choose_columns: Callable[[Any], list[str]], text_columns: Container[str]
) -> Iterator[Any]:
    """Yield the record batches of a csv file, in its order, with names and texts without blanks around them.

    `choose_columns` takes the file's schema and returns the names of the columns to read. Columns in `text_columns`
    that pyarrow would take for dates, times, true or false are read as texts. Cells are divided by commas. The caller
    turns what pyarrow raises into a DataError, as where cells of a later block do not fit the types of the first.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    csv = _import_pyarrow(path, ".csv")

    def open_reader(type_of_column: dict[str, Any]) -> Any:
        """Open the file, with these types of columns instead of those that pyarrow infers from the first block."""
        is_compressed = path.suffix.lower() in COMPRESSED_ENDINGS
        return csv.open_csv(
            # a stream of decompressed bytes, with a limit
            _open_compressed_table(path) if is_compressed else path,
            read_options=csv.ReadOptions(block_size=_CSV_BLOCK_BYTES),
            convert_options=csv.ConvertOptions(column_types=type_of_column),
        )

    reader = open_reader({})  # with the types that pyarrow infers
    # columns to be read again as texts, by their names in the file, which may have blanks around them
    type_of_column = {
        field.name: pa.string()
        for field in reader.schema
        if field.name.strip() in text_columns
        and (pa.types.is_temporal(field.type) or pa.types.is_boolean(field.type))
    }
    if type_of_column:
        reader = open_reader(type_of_column)
    fields = [field.with_name(field.name.strip()) for field in reader.schema]
    names = choose_columns(pa.schema(fields))
    for batch in reader:
        chosen_columns = batch.rename_columns([field.name for field in fields]).select(names)
        columns = [
            pc.utf8_trim_whitespace(column) if _is_text(column.type) else column for column in chosen_columns
        ]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _open_compressed_table(path: Path) -> Any:
    """Open a compressed text table of any size as a stream of decompressed bytes.

    Reading more than `MAX_EXPANSION` times the size on disk (4 GB are always allowed) raises DataError. The cells of a
    small file are counted first, by the same limit.
    """
    size_on_disk = path.stat().st_size
    limits = Limits(memory=max(Limits().memory, MAX_EXPANSION * size_on_disk))
    if MAX_EXPANSION * size_on_disk < Limits().memory:  # a small file is measured first, which takes seconds
        check_rows(path, limits)
    return open_limited(path, limits)


# From Arrow's types to numpy


def _is_text(arrow_type: Any) -> bool:
    """Return whether a type is text, or a dictionary of texts."""
    from pyarrow import types

    return types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_dictionary(arrow_type)


def _is_number(arrow_type: Any) -> bool:
    """Return whether a type is a number or a truth value."""
    from pyarrow import types

    return types.is_boolean(arrow_type) or types.is_integer(arrow_type) or types.is_floating(arrow_type)


def _is_list(arrow_type: Any) -> bool:
    """Return whether each row holds a list."""
    from pyarrow import types

    return (
        types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type)
    )


def _is_struct(arrow_type: Any) -> bool:
    """Return whether each row holds an object with named fields."""
    from pyarrow import types

    return bool(types.is_struct(arrow_type))


def _check_column_type(path: Path, name: str, arrow_type: Any) -> None:
    """Raise DataError for a column that holds neither numbers, lists of numbers nor text, before it is read.

    Bytes and lists of texts are refused too. They are not read as a dictionary, so that each repeat of a value would
    take memory of its own, more than the file states.
    """
    if _is_list(arrow_type):
        if not _is_number(arrow_type.value_type):  # truth values count as numbers
            raise file_error(path, f"rows of `{display_name(name)}` must hold numbers.")
    elif not (_is_text(arrow_type) or _is_number(arrow_type)):
        raise file_error(
            path, f"column `{display_name(name)}` must hold numbers or text, got {display_name(arrow_type)}."
        )


def convert_arrow(values: Any, *, path: Path, name: str, limits: Limits) -> Values:
    """Return an Arrow chunked array as a numpy array, or as `TextValues` where it holds text.

    Lists of numbers become the rows of a matrix; null is NaN in numbers and "" in text, and truth values with null
    become objects (True, False, None). `path` and `name`, that of the column, are for messages. DataError where values
    are neither numbers, lists of numbers of one length nor text, or where numbers would need more memory than `limits`
    allow; callers have checked that of text. `TextValues` holds each different text once, and its number in each row.
    """
    from pyarrow import types

    arrow_type = values.type
    _check_column_type(path, name, arrow_type)
    if _is_text(arrow_type):
        return _convert_texts(values if types.is_dictionary(arrow_type) else values.dictionary_encode())
    if _is_list(arrow_type):
        return _convert_lists(path, name, values, limits)
    # a number has at most 8 bytes as a numpy array
    limits.check_memory(path, len(values) * 8, f"column `{display_name(name)}`")
    return np.asarray(values.to_numpy())


def _convert_texts(values: Any) -> TextValues:
    """Return a dictionary-encoded chunked array as words; null is the empty text.

    A chunk stores its rows as indices into its dictionary of distinct texts, which are made the same for all chunks.
    """
    joined = values.unify_dictionaries().combine_chunks()  # from here on all chunks have one dictionary
    # combine_chunks returns one array (an empty one if there are no chunks), or several chunks where one would be too
    # large
    chunks = joined.chunks if hasattr(joined, "chunks") else [joined]
    texts = ["" if text is None else str(text) for text in chunks[0].dictionary.to_pylist()]
    null_code = len(texts)  # the index of the empty text that is appended below
    codes = [
        np.asarray(chunk.indices.fill_null(null_code).to_numpy(zero_copy_only=False)) for chunk in chunks
    ]
    return TextValues(np.concatenate(codes).astype(np.int64), (*texts, ""))


def _convert_lists(path: Path, name: str, values: Any, limits: Limits) -> np.ndarray:
    """Return an Arrow chunked array of lists of numbers as a matrix, one list per row.

    `path` and `name`, that of the column, are for messages. DataError where a list is null, lengths differ, there are
    no rows, or the matrix needs more memory than `limits` allow.
    """
    import pyarrow.compute as pc

    # The numbers of all lists in a row. `flatten` leaves null lists out; they are refused below.
    parts = [np.asarray(chunk.flatten().to_numpy(zero_copy_only=False)) for chunk in values.chunks]
    numbers = np.concatenate(parts) if parts else np.zeros(0)
    limits.check_memory(path, numbers.nbytes, f"column `{display_name(name)}`")
    lengths = pc.list_value_length(values)
    if values.null_count or not len(values) or pc.min(lengths).as_py() != pc.max(lengths).as_py():
        raise file_error(path, f"rows of `{display_name(name)}` must have one length.")
    if numbers.dtype.kind not in "biuf":  # truth values, integers, floats; truth values with null are objects
        raise file_error(path, f"rows of `{display_name(name)}` must hold numbers.")
    return numbers.reshape(len(values), -1)
