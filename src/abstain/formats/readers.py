"""One reader for each kind of file, and which reader a file goes to: by its name, or by its first bytes."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from abstain.errors import DataError
from abstain.formats.arrow import open_arrow, open_parquet, read_contents
from abstain.formats.columns import Column, Source, Values
from abstain.formats.helm_log import HELM
from abstain.formats.inspect_log import is_archive, open_eval
from abstain.formats.json_files import open_json
from abstain.formats.numpy_files import open_npy, open_npz
from abstain.formats.safety import PACKED, Limits, encoding_of, file_error, opened, reading
from abstain.formats.tensor_files import open_safetensors, open_torch
from abstain.formats.text_tables import _split, open_delimited, open_excel

# which reader a file goes to

_READERS: dict[str, tuple[Callable[[Path, Limits], Source], str]] = {
    "npz": (open_npz, ".npz"),
    "npy": (open_npy, ".npy"),
    "csv": (open_delimited, ".csv .txt"),
    "tsv": (open_delimited, ".tsv .tab"),
    "xlsx": (open_excel, ".xlsx .xlsm"),
    "json": (open_json, ".json"),
    "jsonl": (partial(open_json, lines=True), ".jsonl .ndjson"),
    "parquet": (open_parquet, ".parquet .pq"),
    "arrow": (open_arrow, ".arrow .feather .ipc"),
    "safetensors": (open_safetensors, ".safetensors .st"),
    "pt": (open_torch, ".pt .pth"),
    "inspect": (open_eval, ".eval"),
}
FORMATS = tuple(_READERS)
"""Formats that can be read."""
_ENDINGS = {ending: name for name, (_, endings) in _READERS.items() for ending in endings.split()}
ENDINGS = (*_ENDINGS, *PACKED)
_UNSAFE = (".pkl", ".pickle", ".joblib", ".dill")
_OFFICE = (".xls", ".xlsb", ".ods", ".numbers")
_STREAMS = ("npy", "csv", "tsv", "json", "jsonl")  # formats that may come packed
_STARTS = {b"\x93NUMPY": "npy", b"PAR1": "parquet", b"ARROW1": "arrow", b"PK\x03\x04": "npz"}
_STARTS |= {b"{": "json", b"[": "json"}


def open_source(path: str | Path, *, format: str | None = None, limits: Limits | None = None) -> Source:  # noqa: A002
    """Open a file and say what columns it has; nothing large is read yet (text files excepted).

    Parameters
    ----------
    path : str or Path
        The file; "-" is standard input.
    format : str, optional
        One of `FORMATS`, where neither the file's name nor its first bytes say it.
    limits : Limits, optional
        What the file may cost; 4 GB of memory unless said.

    Returns
    -------
    Source
        Its columns by name, to be loaded one by one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answers.csv"
    ...     _ = path.write_text("correct,confidence,group\\n1,0.9,law\\n0,0.2,art\\n")
    ...     open_source(path).listed()
    '`correct` (2 numbers), `confidence` (2 numbers), `group` (2 text)'
    """
    limits = limits or Limits()
    path = save_standard_input(limits) if str(path) == "-" else Path(path)
    if is_helm_run(path):
        path /= HELM
    if not path.is_file():
        pipe = "is no plain file. Send what it gives to standard input, `-`"
        kind = "is a folder" if path.is_dir() else pipe if path.exists() else "there is no such file"
        raise file_error(path, f"{kind}.")
    if path.stat().st_size == 0:
        raise file_error(path, "is empty.")
    chosen = format or _by_name(path) or _by_content(path)
    if path.suffix.lower() in PACKED and chosen not in _STREAMS:
        raise file_error(path, f"a packed {chosen} file is not read. Unpack it first.")
    source = _READERS[chosen][0](path, limits)
    if not source.columns:
        raise file_error(path, "holds no columns of values.")
    return source


def save_standard_input(limits: Limits) -> Path:
    """What comes on standard input, in a file that lies there until the program ends."""
    folder = tempfile.mkdtemp(prefix="abstain-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "stdin"
    with path.open("wb") as file:
        while piece := sys.stdin.buffer.read(1 << 20):
            file.write(piece)
            limits.check("standard input", file.tell(), "it")
    return path


def is_helm_run(path: str | Path) -> bool:
    """Is this the folder of a HELM run?"""
    return (Path(path) / HELM).is_file()


def _by_name(path: Path) -> str | None:
    endings = [s.lower() for s in path.suffixes]
    if endings and endings[-1] in PACKED:
        endings.pop()
    last = endings[-1] if endings else ""
    if last in PACKED:
        raise file_error(path, "is packed twice. Unpack it once first.")
    if last in _UNSAFE:
        raise file_error(
            path,
            "pickle files can run code when opened and are not read. "
            "Save the arrays with numpy.savez, as csv or as parquet.",
        )
    if last in _OFFICE:
        raise file_error(path, f"{last} files are not read. Save the sheet as .xlsx or .csv.")
    return _ENDINGS.get(last)


def _by_content(path: Path) -> str:
    with reading(path, "a file"), path.open("rb") as stream:
        start = stream.read(1 << 16)
        for magic, name in _STARTS.items():
            if start.lstrip().startswith(magic):
                first, *more = start.strip().split(b"\n", 1)
                lines = magic == b"{" and more and first.rstrip().endswith(b"}")
                return "jsonl" if lines else "inspect" if name == "npz" and is_archive(path) else name
    head = start.decode(encoding_of(start), "replace").partition("\n")[0]
    if any(mark in head for mark in ",;\t") and re.fullmatch(r"[^\x00-\x08\x0e-\x1f\x7f\ufffd]*", head):
        return "csv"
    raise file_error(
        path,
        f"neither its name nor its first bytes say what it is. "
        f"Say it with --format, one of {', '.join(FORMATS)}.",
    )


def column_names(path: str | Path, *, format: str | None = None) -> Source:  # noqa: A002
    """Only the names of a large table's columns: nothing of its size is read, so there is no limit on it."""
    path = Path(path)
    chosen = format or _by_name(path) or _by_content(path)
    with reading(path, chosen):
        if chosen in ("parquet", "arrow"):
            names = list(read_contents(path, chosen).column_types)
        else:
            with opened(path, Limits()) as stream:
                names = [name.strip() for name in next(_split(path, stream)[1], [])]

    def not_read() -> Values:
        raise DataError("column_names: only the names were read.")

    return Source(path, chosen, {name: Column((), "?", not_read) for name in names})
