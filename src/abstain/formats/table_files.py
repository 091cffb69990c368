"""The files of a table that is a file, a folder, a glob or a list of them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

from abstain.errors import DataError

# finding files

_KINDS = dict.fromkeys((".parquet", ".pq"), "parquet")
_KINDS |= dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow") | dict.fromkeys((".csv", ".gz"), "csv")


def find_files(name: str, path: Any) -> list[str]:
    """Files of a path, a folder (see `is_data_file`), a glob or a list of them, in the order of their names."""
    if not isinstance(path, (str, os.PathLike)):
        return [file for part in path for file in find_files(name, part)]
    text = os.fspath(path)
    if os.path.isdir(text):
        found = _below(text)
    elif os.path.exists(text):
        found = [text]
    else:
        # what the user wrote without a wildcard may be hidden
        fixed = len(list(takewhile(lambda part: not glob.has_magic(part), Path(text).parts)))
        hits = [hit for hit in glob.glob(text, recursive=True) if not _hidden(Path(hit).parts[fixed:])]
        found = sorted({file for hit in hits for file in (_below(hit) if os.path.isdir(hit) else [hit])})
    for odd in (file for file in found if not os.path.isfile(file)):
        raise DataError(
            f"{name}: {odd!r} is no regular file (a pipe, a device?), and an engine reads files more than once. "
            f"Copy what it gives into a file first."
        )
    if not found:
        kinds = ", ".join(k for k in _KINDS if k != ".gz")
        raise DataError(
            f"{name}: found no files at {text!r}. Give a file, a folder or a glob of {kinds} files."
        )
    return found


def is_data_file(below: PurePath) -> bool:
    """Is this path below a folder a file of predictions? The rule of every engine: folders are looked into, but
    nothing whose name, or that of a folder on the way, starts with _ or a dot (unfinished and hidden work)."""
    return below.suffix in _KINDS and not _hidden(below.parts)


def _below(folder: str) -> list[str]:
    found = (p for p in Path(folder).rglob("*") if is_data_file(p.relative_to(folder)) and p.is_file())
    return sorted(map(str, found))


def _hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in parts)


def partition_values(file: str) -> dict[str, str | None]:
    """Columns that the folders of a file tell, as Hive and Spark write them: kind=a/part-0.parquet. Always text."""
    told = dict(part.split("=", 1) for part in Path(file).parent.parts if "=" in part)
    return {k: None if v == "__HIVE_DEFAULT_PARTITION__" else unquote(v) for k, v in told.items()}


def table_format(file: str) -> str:
    """Parquet, Arrow or CSV, by the end of the name."""
    kind = _KINDS.get(Path(file).suffix.lower())
    if kind is None:
        raise DataError(f"files: cannot tell what {file!r} is. Known: Parquet, Arrow (feather, ipc) and CSV.")
    return kind
