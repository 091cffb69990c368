"""Finding prediction files, and what can be known of them without reading the data."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import unquote

from abstain.errors import DataError

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
