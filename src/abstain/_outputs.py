"""Output files: which names they may have, when two names are one file, atomic writing, and locks.

Outputs are checked before any work. A file is replaced completely or not at all.
"""

from __future__ import annotations

import importlib
import os
import secrets
import stat
import time
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from abstain._tables import display_name
from abstain.errors import DataError

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # Windows
    fcntl = None

LOCK_SECONDS = 60.0  # how long to wait for another process that holds a lock
_LOCK_POLL = 0.02  # seconds between two attempts
_TEMPORARY_SUFFIX = ".part"  # of the file that is written before it replaces another one
_ABANDONED_SECONDS = 3600.0  # after which the temporary file of a killed process is removed

ENDINGS: dict[str, tuple[str, ...]] = {
    "text": (".txt",),
    "quiet": (".txt",),
    "json": (".json",),
    "csv": (".csv",),
    "latex": (".tex",),
    "markdown": (".md", ".markdown", ".txt"),
    "page": (".html", ".htm"),
    "figure": (".pdf", ".svg", ".png"),
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
"""Endings that a file of each kind may have. A name without an ending fits every kind but figures and predictions."""


def file_error(path: object, text: str) -> DataError:
    """Make a DataError whose message starts with the name of the file."""
    return DataError(f"{display_name(path)}: {text}")


def ending_of(path: str | Path) -> str:
    """Return the ending of a file name in lower case, e.g. ".csv"; empty if there is none."""
    return Path(path).suffix.lower()


def check_ending(path: str | Path, *kinds: str) -> None:
    """Raise DataError if the ending of a file name does not belong to one of these kinds of output, keys of `ENDINGS`.

    A name without an ending is accepted, except for figures and predictions.

    >>> check_ending("rule.JSON", "json")
    >>> check_ending("rule.parquet", "json")
    Traceback (most recent call last):
    ...
    abstain.errors.DataError: rule.parquet: its name must end in .json (or have no ending), got .parquet.
    """
    # of all kinds, each once, such as [".csv", ".json"]
    allowed = list(dict.fromkeys(ending for kind in kinds for ending in ENDINGS[kind]))
    needs_ending = "predictions" in kinds or "figure" in kinds
    ending = ending_of(path)  # in lower case, with the dot; "" for none
    if ending in allowed or (not ending and not needs_ending):
        return
    # "a, b or c", or just "c"
    alternatives = " or ".join(filter(None, [", ".join(allowed[:-1]), allowed[-1]]))
    exception = "" if needs_ending else " (or have no ending)"
    # `display_name` escapes control characters and shortens long text
    got = display_name(ending, 40) if ending else "no ending"
    raise file_error(path, f"its name must end in {alternatives}{exception}, got {got}.")


def check_place(path: str | Path) -> None:
    """Raise DataError if no file can be written there: a missing folder, a folder, a read-only file.

    A path that does not exist is fine if its folder does.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            raise _write_error(path, error) from error  # a DataError with the system's reason
        folder = Path(os.path.realpath(path)).parent  # of the file that a broken link points to, as well
        if not folder.is_dir():
            raise file_error(path, f"there is no folder {display_name(folder)} to write it to.") from None
        return
    if stat.S_ISDIR(status.st_mode):
        raise file_error(path, "is a folder, so no file can be written there. Name a file in it.")
    if not os.access(path, os.W_OK):
        raise file_error(path, "is read-only, so it is not written over. Name another file.")


def _write_error(path: str | Path, error: OSError) -> DataError:
    return file_error(path, f"cannot be written ({error.strerror or error}).")


def same_target(first: str | Path, second: str | Path) -> bool:
    """True if two outputs would be written to one file.

    Links are followed. Names that differ only in case or in how accents are encoded count as the same,
    because they are one file on Windows and macOS. A character device keeps nothing, so it may be named twice.
    """
    if os.path.exists(first) and os.path.exists(second):
        if stat.S_ISCHR(os.stat(first).st_mode):
            return False
        if os.path.samefile(first, second):
            return True
    # At least one does not exist yet: compare the full names, in one case and one encoding of accents.
    return _canonical(first) == _canonical(second)


def _canonical(path: str | Path) -> str:
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()


def check_target(path: str | Path, sources: Iterable[str | Path]) -> None:
    """Raise DataError if an output would replace an input, or a file in a folder that is read."""
    if not os.path.isfile(path):
        return
    for source in filter(os.path.exists, sources):
        is_in_source = Path(os.path.realpath(source)) in Path(os.path.realpath(path)).parents
        if is_in_source or os.path.samefile(path, source):
            raise file_error(path, "is read here, so it must not be written over. Name another file.")


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Write a file completely or not at all: a temporary file in the same folder replaces it at the end.

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
            with open(path, "wb") as stream:  # a device or a pipe is not a file to be replaced
                yield stream
            return
        target = Path(os.path.realpath(path))  # keep a link and replace the file it points to
        temporary = target.with_name(f"{_temporary_prefix(target)}{secrets.token_hex(8)}{_TEMPORARY_SUFFIX}")
        with temporary.open("xb") as stream:
            if status is not None:
                os.chmod(temporary, stat.S_IMODE(status.st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        raise _write_error(path, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):  # after success there is no such file any more
                temporary.unlink()


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Hold the lock of a file that is read, changed and replaced, so that no process loses what another one wrote.

    The lock is a file in the same folder. Where the system has `fcntl`, the lock is released when its process ends,
    even if it is killed. Elsewhere the lock is held while that file exists, so a killed process leaves it behind.
    Once the lock is held, temporary files are removed that a killed process left when it wrote the file, if they are
    an hour old.

    Parameters
    ----------
    path : str or Path
        The file, which need not exist. All names of one file share one lock.

    Raises
    ------
    DataError
        The lock cannot be made, or another process holds it for longer than `LOCK_SECONDS`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with locked(f"{folder}/series.json"):
    ...         print(os.listdir(folder))
    ...     print(os.listdir(folder))
    ['.series.json.lock']
    []
    """
    target = Path(os.path.realpath(path))
    # of a long name only the beginning: most systems limit names to 255 bytes, and a letter may take four
    lock = target.with_name(f".{target.name[:60]}.lock")
    # Either returns the descriptor of the open lock file, and None while another process has the lock. `fcntl` is None
    # on Windows.
    try_lock = _lock_by_creating if fcntl is None else _lock_by_system
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while (descriptor := try_lock(lock)) is None:
            if time.monotonic() > deadline:
                raise file_error(
                    path,
                    f"another run has held its lock {display_name(lock.name)} for {LOCK_SECONDS:g} seconds. "
                    "Try again; if no other run is active, remove that file.",
                )
            # seconds, as all times here
            time.sleep(_LOCK_POLL)
    except OSError as error:
        raise file_error(path, f"cannot be locked ({error.strerror or error}).") from error
    try:
        _remove_old_temporary_files(target)
        yield
    finally:
        if fcntl is None:
            os.close(descriptor)  # Windows does not remove a file that is open
        with suppress(OSError):
            lock.unlink()
        if fcntl is not None:
            os.close(descriptor)  # only now may another process take the lock


def _lock_by_system(lock: Path) -> int | None:
    """Lock the lock file, which is created if needed, and return its open descriptor; None if another process has it.

    Raises OSError if the file cannot be opened.
    """
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that had the lock before may have removed the file that we have opened; then the lock is on a file
        # that no other process sees, and does not count.
        if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass  # held by another process, or removed by it between our two calls
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _lock_by_creating(lock: Path) -> int | None:
    """Create the lock file and return its descriptor; None if it exists already."""
    try:
        return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    except FileExistsError:
        return None


def _temporary_prefix(target: Path) -> str:
    """What the names of all temporary files begin with that are to replace `target`."""
    # of a long name only the first letters, which have at most four bytes: most systems limit names to 255 bytes
    return f".{target.name[:40]}."


def _remove_old_temporary_files(target: Path) -> None:
    """Remove temporary files that a killed process left behind when it replaced `target`, if they are an hour old.

    A file that cannot be removed stays, and so does one that another process removes at the same time.
    """
    prefix = _temporary_prefix(target)  # of the names of all temporary files for this target
    names = []
    with suppress(OSError):
        names = os.listdir(target.parent)
    for name in names:
        if not (name.startswith(prefix) and name.endswith(_TEMPORARY_SUFFIX)):
            continue
        temporary = target.with_name(name)
        with suppress(OSError):
            age = time.time() - temporary.stat().st_mtime
            if age > _ABANDONED_SECONDS:
                os.unlink(temporary)
