"""Files that are written: checked before any work, then replaced whole or not at all.

The one home of which names an output may have, of when two outputs are one file, and of the atomic writer.
"""

from __future__ import annotations

import os
import secrets
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from abstain._tables import shown
from abstain.errors import DataError

ENDINGS: dict[str, tuple[str, ...]] = {
    "text": (".txt",),
    "quiet": (".txt",),
    "json": (".json",),
    "csv": (".csv",),
    "latex": (".tex",),
    "markdown": (".md", ".markdown", ".txt"),
    "page": (".html", ".htm"),
    "table": (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".arrow", ".feather"),
    "predictions": (
        ".npz",
        ".csv",
        ".tsv",
        ".parquet",
        ".arrow",
        ".feather",
        ".json",
        ".jsonl",
        ".safetensors",
    ),
}
"""Endings that a file of each kind may have. A name without an ending fits every kind but predictions."""


def file_error(path: object, text: str) -> DataError:
    """An objection that names the file."""
    return DataError(f"{shown(path)}: {text}")


def ending_of(path: str | Path) -> str:
    """The ending of a name in lower case; empty where there is none."""
    return Path(path).suffix.lower()


def check_ending(path: str | Path, *kinds: str) -> None:
    """Refuse a name that promises another format than those that can be written there.

    >>> check_ending("rule.JSON", "json")
    >>> check_ending("rule.parquet", "json")
    Traceback (most recent call last):
    ...
    abstain.errors.DataError: rule.parquet: its name must end in .json (or have no ending), got .parquet.
    """
    allowed = list(dict.fromkeys(ending for kind in kinds for ending in ENDINGS[kind]))
    ending = ending_of(path)
    if ending in allowed or not (ending or "predictions" in kinds):
        return
    listed = " or ".join(filter(None, [", ".join(allowed[:-1]), allowed[-1]]))
    without = "" if "predictions" in kinds else " (or have no ending)"
    got = shown(ending, 40) if ending else "no ending"
    raise file_error(path, f"its name must end in {listed}{without}, got {got}.")


def check_place(path: str | Path) -> None:
    """Refuse a place where no file can be written: a missing folder, a folder, a file that is read-only."""
    try:
        status = os.stat(path)
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            raise _not_written(path, error) from error
        folder = Path(os.path.realpath(path)).parent
        if not folder.is_dir():
            raise file_error(path, f"there is no folder {shown(folder)} to write it to.") from None
        return
    if stat.S_ISDIR(status.st_mode):
        raise file_error(path, "is a folder, so no file can be written there. Name a file in it.")
    if not os.access(path, os.W_OK):
        raise file_error(path, "is read-only, so it is not written over. Name another file.")


def _not_written(path: str | Path, error: OSError) -> DataError:
    return file_error(path, f"cannot be written ({error.strerror or error}).")


def same_target(first: str | Path, second: str | Path) -> bool:
    """Would two outputs end up in one file?

    Links and spellings are followed. Names that differ only in case or in how accents are encoded count as the same,
    because they are one file on Windows and macOS. A character device keeps nothing, so it may be named twice.
    """
    if os.path.exists(first) and os.path.exists(second):
        if stat.S_ISCHR(os.stat(first).st_mode):
            return False
        if os.path.samefile(first, second):
            return True
    return _canonical(first) == _canonical(second)


def _canonical(path: str | Path) -> str:
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()


def check_target(path: str | Path, sources: Iterable[str | Path]) -> None:
    """Refuse to write over a file that is read, by whatever name, alone or in a folder."""
    if not os.path.isfile(path):
        return
    for source in filter(os.path.exists, sources):
        inside = Path(os.path.realpath(source)) in Path(os.path.realpath(path)).parents
        if inside or os.path.samefile(path, source):
            raise file_error(path, "is read here, so it must not be written over. Name another file.")


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Write a file whole or not at all: a temporary file in the same folder takes its place at the end.

    Parameters
    ----------
    path : str or Path
        The file to write. On any error, Ctrl-C included, it stays as it was and the temporary file is removed. Its
        mode is kept, a link stays a link, and a device or a pipe is written to.

    Yields
    ------
    binary stream

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/out.txt") as stream:
    ...         _ = stream.write(b"all of it")
    ...     Path(f"{folder}/out.txt").read_text()
    'all of it'
    """
    check_place(path)
    temporary = None
    try:
        status = os.stat(path) if os.path.exists(path) else None
        if status is not None and not stat.S_ISREG(status.st_mode):
            with open(path, "wb") as stream:  # a device or a pipe is written to, never replaced
                yield stream
            return
        target = Path(os.path.realpath(path))  # a link stays; the file it points at is replaced
        temporary = target.with_name(f".{target.name[:60]}.{secrets.token_hex(8)}.part")
        with temporary.open("xb") as stream:
            if status is not None:
                os.chmod(temporary, stat.S_IMODE(status.st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        raise _not_written(path, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
