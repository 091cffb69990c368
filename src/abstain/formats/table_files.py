"""The files of a large table: a file, a folder, a glob or a list of them, and what their paths say.

Engines read tables of many files; which files of a folder belong to it is decided here for all engines.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

from abstain.errors import DataError
from abstain.formats.safety import HOW_TO_READ_FOLDER

# Ending of a file's name -> its format.
_TABLE_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".gz": "csv",
}
_NULL_PARTITION = (
    "__HIVE_DEFAULT_PARTITION__"  # how Hive and Spark write a missing value in the name of a folder
)


def find_files(function: str, path: Any) -> list[str]:
    """Return the files of a table: of a file, a folder, a glob, or a list of these.

    Files of a folder (and of its subfolders) or a glob are sorted by name; those of a list come in its order. A folder
    gives only files with the endings of tables, and nothing that is hidden (its name starts with _ or a dot). A single
    file is returned whatever its ending.

    DataError where there are no files, or where one is no regular file; `function` is the caller's name in the message.
    An empty list of paths gives an empty list. A path that exists is no glob, even with * in its name.
    """
    if not isinstance(path, (str, os.PathLike)):
        return [file for part in path for file in find_files(function, part)]
    text = os.fspath(path)  # the path or glob as a string
    if os.path.isdir(text):
        files = _list_folder(text)  # sorted
    elif os.path.exists(text):
        files = [text]
    else:
        files = _expand_glob(text)
    for file in files:
        if not os.path.isfile(file):
            raise DataError(
                f"{function}: {file!r} is not a regular file (a pipe, a device?), and an engine reads files more than "
                f"once. Copy what it gives into a file first."
            )
    if not files:
        # for the message; .gz stands for .csv.gz, and would read as any compressed file
        endings = ", ".join(ending for ending in _TABLE_FORMATS if ending != ".gz")
        if os.path.isdir(text):
            raise DataError(
                f"{function}: {text!r} is a folder without tables ({endings}). {HOW_TO_READ_FOLDER}"
            )
        raise DataError(
            f"{function}: found no files at {text!r}. Give a file, a folder or a glob of {endings} files."
        )
    return files


def _expand_glob(pattern: str) -> list[str]:
    """Return the files that match a glob pattern (** included), and the tables in matching folders, sorted by name.

    What starts with _ or a dot is hidden and left out, unless it stands in the pattern before the first wildcard.
    """
    # the folders of the pattern up to its first wildcard; matches begin with as many parts
    parts_before_wildcard = list(takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts))
    files: set[str] = set()
    for match in glob.glob(pattern, recursive=True):
        # the rest of the path, which a wildcard found or which stands after one
        parts_by_wildcard = Path(match).parts[len(parts_before_wildcard) :]
        if _is_hidden(parts_by_wildcard):  # one of them starts with _ or a dot
            continue
        if os.path.isdir(match):
            files.update(_list_folder(match))  # those with the ending of a table
        else:
            files.add(match)
    return sorted(files)


def is_data_file(relative_path: PurePath) -> bool:
    """Return whether a path below a folder is a file of predictions: the one rule of every engine.

    Folders are searched, but nothing whose name, or that of a folder on the way, starts with _ or a dot (unfinished and
    hidden work).
    """
    return relative_path.suffix in _TABLE_FORMATS and not _is_hidden(relative_path.parts)


def _list_folder(folder: str) -> list[str]:
    """Return all data files below a folder, sorted by name."""
    paths = Path(folder).rglob("*")
    return sorted(str(path) for path in paths if is_data_file(path.relative_to(folder)) and path.is_file())


def _is_hidden(parts: Sequence[str]) -> bool:
    """Return whether a part of a path starts with _ or a dot; `_key=value` is a partition and not hidden."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in parts)


def partition_values(file: str) -> dict[str, str | None]:
    """Return the columns that the folders of a file state, as Hive and Spark write them: kind=a/part-0.parquet.

    Values are always text; None for a missing value.
    """
    values: dict[str, str | None] = {}
    for part in Path(file).parent.parts:
        if "=" in part:
            name, value = part.split("=", 1)
            values[name] = None if value == _NULL_PARTITION else unquote(value)
    return values


def table_format(file: str) -> str:
    """Return "parquet", "arrow" or "csv" by the ending of a file's name; DataError for other endings."""
    format_name = _TABLE_FORMATS.get(Path(file).suffix.lower())
    if format_name is None:
        raise DataError(
            f"files: cannot tell what {file!r} is. Give Parquet, Arrow (feather, ipc) or CSV files."
        )
    return format_name
