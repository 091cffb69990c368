"""What an untrusted file may cost, and one clear line for whatever goes wrong inside a reader."""

from __future__ import annotations

import importlib
import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from abstain._outputs import file_error as file_error
from abstain._size import format_size
from abstain._tables import count_noun as count_noun
from abstain._tables import display_name as display_name
from abstain._tables import escape_controls
from abstain._tables import has_or_have as has_or_have
from abstain._tables import is_or_are as is_or_are
from abstain.errors import AbstainError, DataError, InputError, MemoryLimitError

_TRUST = "If you trust the file, raise the limit with --memory."
_LONGEST_LINE = 600  # characters of a message
_PACKERS = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2"}
PACKED = tuple(_PACKERS)
# memory that Python's parser takes for one character of each kind, in bytes (a list, a dict, a value and its place)
_PARSING_COST = {b"[": 96, b"{": 280, b",": 40, b'"': 40}
_MAGIC = (b"\x1f\x8b", b"BZ", b"\xfd7")  # how packed data begin
CELL = 24  # bytes that a cell of a table costs, about, while it is being read
_PIECE = 1 << 20  # bytes read at a time where a file is only measured
# A file may always take this share of the memory, and more only in proportion to its size. Predictions cannot be
# packed much more than a hundredfold: a row of a verbal confidence and a bit of correctness carries some three bits.
_FREE_SHARE = 16
GROWTH = 200


@dataclass(frozen=True)
class Limits:
    """What one file may cost; more is refused before anything of that size is allocated.

    A file that is small and unpacks to much is refused long before that: beyond a sixteenth of `memory` its values may
    take at most 200 times its size on disk.

    Parameters
    ----------
    memory : int
        Bytes that its values may take once unpacked (4 GB).
    columns : int
        Columns that it may have.

    Examples
    --------
    >>> Limits(memory=10**6).check("preds.npz", 2 * 10**6)
    Traceback (most recent call last):
    ...
    abstain.errors.DataError: preds.npz: its values would take 2 MB of memory, more than the limit of 1 MB. ...
    """

    memory: int = 4 * 10**9
    columns: int = 100_000

    def allowed(self, path: str | Path) -> int:
        """Bytes that the values of this file may take."""
        try:
            size = os.path.getsize(path)
        except OSError:  # no file of its own, such as standard input
            return self.memory
        return min(self.memory, max(self.memory // _FREE_SHARE, GROWTH * size))

    def check(self, path: str | Path, required: int, what: str = "its values") -> None:
        """Refuse what would take more memory than is allowed, in all or for a file of this size."""
        if required > self.memory:
            size = format_size(required)
            limit = format_size(self.memory)
            refusal = file_error(
                path, f"{what} would take {size} of memory, more than the limit of {limit}. {_TRUST}"
            )
            if os.path.isfile(path) and required <= GROWTH * os.path.getsize(path):
                raise MemoryLimitError(str(refusal))  # no bomb: an engine may read it
            raise refusal
        if required > self.allowed(path):
            raise file_error(
                path,
                f"{what} would take {format_size(required)} of memory or more, which is out of proportion to its "
                f"{format_size(os.path.getsize(path))} on disk. If you trust the file, unpack it first, or give "
                f"--memory {format_size(_FREE_SHARE * self.memory).replace(' ', '')}.",
            )

    def check_columns(self, path: Path, count: int) -> None:
        """Refuse more columns than are allowed."""
        if count > self.columns:
            raise file_error(path, f"has {count} columns, which is too many.")


def one_line(error: BaseException) -> str:
    """The message of an error on one line of bounded length, cut between words."""
    words = escape_controls(" ".join(str(error).split()))
    if len(words) <= _LONGEST_LINE:
        return words
    start, end = words[: _LONGEST_LINE - 160], words[-150:]
    return f"{start.rpartition(' ')[0] or start} ... {end.partition(' ')[2] or end}"


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a reader stumbles over into a `DataError` that names the file and the format."""
    try:
        yield
    except AbstainError:
        raise
    except (MemoryError, RecursionError) as error:
        nested = isinstance(error, RecursionError)
        why = "is nested too deeply" if nested else "needs more memory than there is"
        raise file_error(path, f"{why} to be read as {what}.") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise file_error(
            path,
            f"must be UTF-8 text, got byte 0x{byte:02x} that is not. Save it as UTF-8 "
            f'(Excel: "CSV UTF-8"), or convert it, for example with `iconv -f cp1252 -t utf-8`.',
        ) from error
    except Exception as error:  # a damaged file may break a parser in any way; none of them is a traceback
        why = one_line(error) or type(error).__name__
        raise file_error(
            path, f"cannot be read as {what}, it seems damaged or of another kind ({why})."
        ) from error


@contextmanager
def naming_file(path: str | Path) -> Iterator[None]:
    """An objection to the values of a file names the file."""
    try:
        yield
    except DataError:
        raise
    except InputError as error:
        raise file_error(path, str(error)) from error


class Bounded(io.RawIOBase):
    """A stream that refuses to give more than `limit` bytes: unpacking stops before memory is gone."""

    def __init__(self, path: Path, stream: IO[bytes], limit: int) -> None:
        self._path, self._stream, self._left, self._limit = path, stream, limit, limit

    def readable(self) -> bool:
        """The buffer around this stream asks before it reads."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill a buffer; at most one byte is read past the limit, to notice it."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._stream.read(min(len(view), self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            most = format_size(self._limit)
            raise file_error(self._path, f"unpacks to more than {most}, the limit. {_TRUST}")
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the stream below, too: nobody else holds it."""
        self._stream.close()
        super().close()


def encoding_of(start: bytes) -> str:
    """Of text that begins so: UTF-8, or UTF-16 where its mark says that."""
    return "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def opened(path: Path, limits: Limits) -> IO[bytes]:
    """A file's bytes, unpacked when the name says gz, xz or bz2, and never more than the limit of them."""
    ending = path.suffix.lower()
    stream: IO[bytes] = importlib.import_module(_PACKERS.get(ending, "io")).open(path, "rb")
    buffered = io.BufferedReader(Bounded(path, stream, limits.allowed(path)), 1 << 16)
    if ending in PACKED and buffered.peek(6)[:2] in _MAGIC:
        raise file_error(path, f"is packed twice ({ending} of a packed file). Unpack it once first.")
    return cast(IO[bytes], buffered)


def pieces(path: Path, limits: Limits) -> Iterator[bytes]:
    """The unpacked bytes of a file, a megabyte at a time, to measure it before anything of its size is kept."""
    with opened(path, limits) as stream:
        while piece := stream.read(_PIECE):
            yield piece


def unpacked_archive_size(path: Path) -> int:
    """Bytes that a zip archive says its members have."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def check_rows(path: Path, limits: Limits) -> None:
    """Refuse a table of text whose cells would take more memory than is allowed.

    Its lines are counted first, which takes a fraction of the time that parsing them does. Line ends between quotes are
    part of a cell.
    """
    columns = rows = 0
    quoted = False
    for piece in pieces(path, limits):
        if not columns:
            header = piece.partition(b"\n")[0]
            columns = 1 + max(header.count(delimiter) for delimiter in (b",", b";", b"\t"))
        for place, part in enumerate(piece.split(b'"')):
            quoted ^= place > 0
            rows += 0 if quoted else part.count(b"\n")
        limits.check(path, columns * rows * CELL, f"its {rows:,} rows")


def check_parsing(path: Path, limits: Limits) -> None:
    """Refuse a JSON file whose parsing would take more memory than is allowed; it is read once for that."""
    required = 0
    for piece in pieces(path, limits):
        required += _parsing_cost(piece)
        limits.check(path, required, "parsing it")


def decoded(path: Path, data: bytes, limits: Limits) -> str:
    """The text of JSON data, refused where parsing it would take more memory than is allowed."""
    limits.check(path, _parsing_cost(data), "parsing it")
    return data.decode(encoding_of(data))


def _parsing_cost(data: bytes) -> int:
    return len(data) + sum(cost * data.count(character) for character, cost in _PARSING_COST.items())
