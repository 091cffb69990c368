"""Tables in memory (pandas, polars, pyarrow, datasets), read by the column rules of a file with the same content."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from abstain.errors import DataError, import_optional
from abstain.formats.arrow import arrow_values
from abstain.formats.columns import Column, Source, Values
from abstain.formats.safety import Limits

_NAME = Path("the table")  # what messages call it, where files have a path
_NO_LIMIT = Limits(memory=1 << 62)  # the values are in memory already


def open_table(table: Any) -> Source:
    """The columns of a data frame, an Arrow table or a `datasets.Dataset`, each converted when it is loaded.

    >>> import pyarrow as pa
    >>> open_table(pa.table({"correct": [1, 0], "confidence": [0.9, 0.2]})).listed()
    '`correct` (2 int64), `confidence` (2 double)'
    """
    if hasattr(table, "with_format"):  # of datasets
        table = table.with_format("arrow")[:]
    if hasattr(table, "column_names"):  # of pyarrow
        names = table.column_names
        kinds = table.schema.types
    else:
        names = list(table.columns)
        kinds = list(table.dtypes)
    if len(set(map(str, names))) < len(names):
        raise DataError("evaluate: the table has two columns of one name. Rename one of them.")
    if not len(table):
        raise DataError("evaluate: the table has no rows.")
    columns = {
        str(name): Column((len(table),), str(kind), partial(_load, table, name))
        for name, kind in zip(names, kinds)
    }
    return Source(path=_NAME, format="table", columns=columns)


def _load(table: Any, name: Any) -> Values:
    pyarrow = import_optional("pyarrow", "evaluate", "files")
    column = table[name]
    if hasattr(column, "to_arrow"):  # of polars
        column = column.to_arrow()
    if not isinstance(column, pyarrow.Array | pyarrow.ChunkedArray):
        try:
            column = pyarrow.array(column, from_pandas=True)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise DataError(
                f"evaluate: column {str(name)!r} must hold numbers or text throughout. {error}"
            ) from None
    chunked = column if isinstance(column, pyarrow.ChunkedArray) else pyarrow.chunked_array([column])
    return arrow_values(_NAME, str(name), chunked, _NO_LIMIT)
