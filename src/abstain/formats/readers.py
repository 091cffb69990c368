"""Which reader a file goes to: by its name, or by its first bytes.

To add a file format:

1. Write a function `open_NAME(path, limits)` that returns a `OpenedTable`, in the file of its family (`numpy_files`,
   `text_tables`, `json_files`, `arrow`, `tensor_files`) or in a new one. It runs its parser inside
   `safety.reporting_damage` and checks sizes by `limits` before it allocates.
2. Add the format's name and file endings to `FILE_ENDINGS` in `file_names`.
3. Add a `Reader` to `READERS` below: its name, the function, and how its content is recognised where the name of a file
   says nothing.

The log of an evaluation harness is no new file format but JSON with a known content: see `log_readers`.
"""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from abstain._check import check_choice
from abstain.errors import DataError
from abstain.formats.arrow import open_arrow, open_parquet, read_contents
from abstain.formats.columns import Column, OpenedTable, Values
from abstain.formats.file_names import FORMATS, format_by_name
from abstain.formats.helm_log import INSTANCES_FILE
from abstain.formats.inspect_log import is_inspect_archive, open_inspect_archive
from abstain.formats.json_files import open_json
from abstain.formats.log_readers import read_table_log
from abstain.formats.numpy_files import open_npy, open_npz
from abstain.formats.safety import (
    COMPRESSED_ENDINGS,
    HOW_TO_READ_FOLDER,
    Limits,
    display_name,
    file_error,
    open_limited,
    reporting_damage,
    text_encoding,
)
from abstain.formats.tensor_files import open_safetensors, open_torch
from abstain.formats.text_tables import open_delimited, open_excel, split_cells

_START_SIZE = 1 << 16  # bytes of a file that are looked at to recognise its format
_ZIP_START = b"PK\x03\x04"
_POINTER_START = b"version https://git-lfs"  # what Git LFS leaves in place of a large file
_MAX_POINTER_SIZE = 1024  # bytes


def _never(path: Path, start: bytes) -> bool:
    """For formats that are known by the name of the file alone."""
    return False


def _starts_with(signature: bytes) -> Callable[[Path, bytes], bool]:
    """Make a test for content that begins with this signature, blanks before it ignored."""

    def recognise(path: Path, start: bytes) -> bool:
        return start.lstrip().startswith(signature)

    return recognise


def _is_inspect_archive(path: Path, start: bytes) -> bool:
    """A zip archive with the members of an Inspect log."""
    return start.lstrip().startswith(_ZIP_START) and is_inspect_archive(path)


def _is_json_lines(path: Path, start: bytes) -> bool:
    """A first line that is a whole JSON object, and more lines after it."""
    first_line, *following = start.strip().split(b"\n", 1)
    return first_line.startswith(b"{") and first_line.rstrip().endswith(b"}") and bool(following)


def _is_json(path: Path, start: bytes) -> bool:
    """An object or a list."""
    return start.lstrip().startswith((b"{", b"["))


def _is_delimited_text(path: Path, start: bytes) -> bool:
    """A first line of printable text with commas, semicolons or tabs between cells."""
    first_line = start.decode(text_encoding(start), "replace").partition("\n")[0]
    has_delimiter = any(mark in first_line for mark in ",;\t")
    is_printable = re.fullmatch(r"[^\x00-\x08\x0e-\x1f\x7f\ufffd]*", first_line) is not None
    return has_delimiter and is_printable


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How files of one format are recognised and opened.

    Parameters
    ----------
    name : str
        One of `FORMATS`.
    open : callable of path and limits
        Returns the `OpenedTable`: the columns of the file, each loaded on use.
    recognise : callable of path and bytes
        True where the first bytes of a file (at most 64 kB) say that it has this format. Asked in the order of
        `READERS`, so a more special test stands before a more general one.
    may_be_compressed : bool
        Whether .gz, .xz and .bz2 of it are read.
    """

    name: str
    open: Callable[[Path, Limits], OpenedTable]
    recognise: Callable[[Path, bytes], bool]
    may_be_compressed: bool = False


READERS = (
    Reader(name="npy", open=open_npy, recognise=_starts_with(b"\x93NUMPY"), may_be_compressed=True),
    Reader(name="parquet", open=open_parquet, recognise=_starts_with(b"PAR1")),
    Reader(name="arrow", open=open_arrow, recognise=_starts_with(b"ARROW1")),
    Reader(name="inspect", open=open_inspect_archive, recognise=_is_inspect_archive),
    Reader(name="npz", open=open_npz, recognise=_starts_with(_ZIP_START)),
    Reader(
        name="jsonl", open=partial(open_json, lines=True), recognise=_is_json_lines, may_be_compressed=True
    ),
    Reader(name="json", open=open_json, recognise=_is_json, may_be_compressed=True),
    Reader(name="csv", open=open_delimited, recognise=_is_delimited_text, may_be_compressed=True),
    Reader(name="tsv", open=open_delimited, recognise=_never, may_be_compressed=True),
    Reader(name="xlsx", open=open_excel, recognise=_never),
    Reader(name="safetensors", open=open_safetensors, recognise=_never),
    Reader(name="pt", open=open_torch, recognise=_never),
)
_READER_OF_FORMAT = {reader.name: reader for reader in READERS}


def open_source(path: str | Path, *, format: str | None = None, limits: Limits | None = None) -> OpenedTable:  # noqa: A002
    """Open a file and say what columns it has; values are read when a column is loaded (text files are read at once).

    Parameters
    ----------
    path : str or Path
        The file, or the folder of a HELM run; "-" is standard input.
    format : str, optional
        One of `FORMATS`, where neither the file's name nor its first bytes say it.
    limits : Limits, optional
        What the file may cost; 4 GB of memory by default.

    Returns
    -------
    OpenedTable
        Its columns by name, to be loaded one by one. Where an evaluation harness wrote the file, they are those of its
        log: one row per answer.

    Raises
    ------
    DataError
        The path is no regular file, the file is empty or damaged, its format is not known or not read, it has no
        columns, or it needs more than `limits` allow.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answers.csv"
    ...     _ = path.write_text("correct,confidence,group\\n1,0.9,law\\n0,0.2,art\\n")
    ...     open_source(path).list_columns()
    '`correct` (2 numbers), `confidence` (2 numbers), `group` (2 text)'
    """
    limits = limits or Limits()
    if format is not None:
        check_choice("read_predictions", "format", format, tuple(_READER_OF_FORMAT))
    path = save_standard_input(limits) if str(path) == "-" else Path(path)
    if is_helm_run(path):
        path /= INSTANCES_FILE  # the file of the folder that holds the scores
    _check_is_file(path)  # raises for a folder, an empty file, a pointer of Git LFS
    # A reader has a function that opens files of its format, and says whether .gz, .xz and .bz2 of them are read.
    # `find_format` goes by the ending of the name, then by the first bytes, and raises where neither says it.
    reader = _READER_OF_FORMAT[format or find_format(path)]
    if path.suffix.lower() in COMPRESSED_ENDINGS and not reader.may_be_compressed:
        raise file_error(path, f"a compressed {reader.name} file is not read. Decompress it first.")
    source = reader.open(path, limits)
    if not source.columns:
        raise file_error(path, "holds no columns of values.")
    # A JSON reader has recognised logs already; some harnesses write tables (promptfoo's CSV, lighteval's parquet).
    # Such a table is returned as a log, any other unchanged.
    return read_table_log(source, limits)


def _check_is_file(path: Path) -> None:
    """Raise DataError unless the path is a regular file that is neither empty nor a pointer of Git LFS.

    Git LFS leaves a short text file, a pointer, in the place of a large file that was not fetched. A pipe or a device
    is refused, since files are read more than once.
    """
    if path.is_dir():
        raise file_error(path, f"is a folder. {HOW_TO_READ_FOLDER}")
    if not path.exists():
        raise file_error(path, "there is no such file.")
    if not path.is_file():
        raise file_error(path, "is not a regular file. Send what it gives to standard input, `-`.")
    size = path.stat().st_size  # a pointer is at most 1 kB
    if size == 0:
        raise file_error(path, "is empty.")
    if size <= _MAX_POINTER_SIZE and path.read_bytes().startswith(_POINTER_START):
        raise file_error(
            path, "is a pointer of Git LFS and not the file itself. Get the file with `git lfs pull`."
        )


def save_standard_input(limits: Limits) -> Path:
    """Copy standard input to a temporary file, and return its path; it is removed when the program ends.

    DataError where it is larger than `limits.memory`; what was written so far is removed when the program ends too.
    Files are read more than once, and standard input can be read only once.
    """
    folder = tempfile.mkdtemp(prefix="abstain-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "stdin"
    with path.open("wb") as file:
        while piece := sys.stdin.buffer.read(1 << 20):
            file.write(piece)
            byte_count = file.tell()
            limits.check_memory("standard input", byte_count, "it")  # raises above the limit
    return path


def is_helm_run(path: str | Path) -> bool:
    """Return whether this is the folder of a HELM run."""
    return (Path(path) / INSTANCES_FILE).is_file()


def find_format(path: Path) -> str:
    """Return the format of a file: by its name, or else by its first bytes.

    DataError where neither says it, or where the name says a format that is refused.
    """
    return format_by_name(path) or _format_by_content(path)


def _format_by_content(path: Path) -> str:
    """Return the format of the first of `READERS` that recognises the first bytes of a file; DataError where none does.

    Readers are asked in their order, the more special ones first. `path` is passed to them since the content of a zip
    archive decides what it is. `reader.recognise` says whether a file, by its path and its first `_START_SIZE` (65,536)
    bytes, is of the reader's format, whose name is the result. Any error of a recogniser becomes a DataError.
    """
    with reporting_damage(path, "a file"), path.open("rb") as stream:
        start = stream.read(_START_SIZE)
        for reader in READERS:
            if reader.recognise(path, start):
                return reader.name
    raise file_error(
        path,
        f"neither its name nor its first bytes say what it is. "
        f"Say it with --format, one of {', '.join(FORMATS)}.",
    )


def read_column_names(path: str | Path, *, format: str | None = None) -> OpenedTable:  # noqa: A002
    """Return the columns of a large parquet, arrow or csv file by name only, whatever its size.

    `format` is "parquet", "arrow" or "csv"; None to find it by the file's name or first bytes. Loading one of the
    columns raises DataError. So does a damaged file here. Engines read the values of such files; this is for finding
    which column is which. `format` must be one of the three: any other is read as csv.
    """
    path = Path(path)
    format_name = format or find_format(path)
    with reporting_damage(path, format_name):
        if format_name in ("parquet", "arrow"):
            # name -> type, read without the values
            names = list(read_contents(path, format_name).column_types)
        else:
            with open_limited(path, Limits()) as stream:  # of which the first line is read alone
                table = split_cells(path, stream)
                header = next(table.rows, [])
            if table.delimiter != ",":
                raise file_error(
                    path,
                    f"its columns are divided by {display_name(table.delimiter)!r}, and engines read commas only: "
                    f"evaluate it in memory (--engine memory), or write it as parquet.",
                )
            names = [name.strip() for name in header]

    def refuse_loading() -> Values:
        raise DataError("read_column_names: only the names were read.")

    # shape and kind are not known: they are for messages about loaded columns
    columns = {name: Column(shape=(), kind="?", load=refuse_loading) for name in names}
    return OpenedTable(path=path, format=format_name, columns=columns)
