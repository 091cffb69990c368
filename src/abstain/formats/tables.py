"""Tables in memory (pandas, polars, pyarrow, datasets), read by the column rules of a file with the same content."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from abstain.errors import DataError, import_optional
from abstain.formats.arrow import convert_arrow
from abstain.formats.columns import Column, OpenedTable, Values
from abstain.formats.safety import Limits

_PATH_IN_MESSAGES = Path("the table")  # what messages call it, where files have a path
_UNLIMITED = Limits(memory=1 << 62)  # the values are in memory already


def open_table(table: Any) -> OpenedTable:
    """Return the columns of a data frame, an Arrow table or a `datasets.Dataset`, each converted when it is loaded.

    DataError where two columns have one name, or where there are no rows. Names become texts, and `kind` is the type as
    the table names it. A data frame is one of pandas or polars, told from an Arrow table by its attributes.

    >>> import pyarrow as pa
    >>> open_table(pa.table({"correct": [1, 0], "confidence": [0.9, 0.2]})).list_columns()
    '`correct` (2 int64), `confidence` (2 double)'
    """
    if hasattr(table, "with_format"):  # a datasets.Dataset
        table = table.with_format("arrow")[:]  # all rows, as a pyarrow table
    if hasattr(table, "column_names"):  # a pyarrow table
        names = table.column_names
        types = table.schema.types
    else:
        names = list(table.columns)
        types = list(table.dtypes)
    if len(set(map(str, names))) < len(names):
        raise DataError("evaluate: the table has two columns of one name. Rename one of them.")
    row_count = len(table)
    if not row_count:
        raise DataError("evaluate: the table has no rows.")
    columns = {
        str(name): Column(shape=(row_count,), kind=str(column_type), load=partial(_load_column, table, name))
        for name, column_type in zip(names, types)
    }
    return OpenedTable(path=_PATH_IN_MESSAGES, format="table", columns=columns)


def _load_column(table: Any, name: Any) -> Values:
    """Return one column of a pandas, polars or pyarrow table as a numpy array, or as `TextValues` where it holds text.

    `name` is the column's name as the table has it (not always a str). DataError where the column mixes numbers and
    text, or holds neither. MissingDependencyError without pyarrow. Only `evaluate` takes tables, so that messages begin
    with its name.
    """
    # the module; where it is missing, the message says what needs it and the extra to install, `files`
    pyarrow = import_optional("pyarrow", feature="evaluate", extra="files")
    column = table[name]
    if hasattr(column, "to_arrow"):  # a polars series
        column = column.to_arrow()
    if not isinstance(column, pyarrow.Array | pyarrow.ChunkedArray):
        try:
            column = pyarrow.array(column, from_pandas=True)  # NaN and None become gaps
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise DataError(
                f"evaluate: column {str(name)!r} must hold numbers or text throughout. {error}"
            ) from None
    is_chunked = isinstance(column, pyarrow.ChunkedArray)
    chunked_column = column if is_chunked else pyarrow.chunked_array([column])
    # The values are in memory already, so that no limit is checked. Messages call the file "the table".
    # An array of numbers (NaN for a gap), or `TextValues`; raises for anything else.
    return convert_arrow(chunked_column, path=_PATH_IN_MESSAGES, name=str(name), limits=_UNLIMITED)
