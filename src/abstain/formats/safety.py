"""Limits on what an untrusted file may cost, and one clear line for whatever goes wrong inside a reader.

Every reader opens its file with `open_limited`, checks sizes with `Limits.check_memory` before it allocates anything of
that size, and runs its parser inside `reporting_damage`, which turns any exception of the parser into a `DataError`.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import zipfile
from collections.abc import Iterator, Sequence
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

HOW_TO_READ_FOLDER = "Name a file in it, or read all its logs with `abstain compare`."
_HOW_TO_RAISE_LIMIT = "If you trust the file, raise the limit with --memory."
MAX_LISTED_NAMES = 8  # columns, classes or values that a message lists at most
_MAX_MESSAGE_LENGTH = 600  # characters
_MESSAGE_END_LENGTH = 150  # characters kept of the end of a long message, where its remedy is
_BUFFER_BYTES = 1 << 16  # read from a file at a time
# Ending of a compressed file -> module whose `open` decompresses it.
_DECOMPRESSORS = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2"}
COMPRESSED_ENDINGS = tuple(_DECOMPRESSORS)
"""Endings of compressed files that are decompressed while they are read."""
_COMPRESSED_STARTS = (b"\x1f\x8b", b"BZ", b"\xfd7")  # first two bytes of gz, bz2 and xz data
# Memory that Python's JSON parser needs for one such character (a list, a dict, a value, a string), in bytes.
_PARSING_COST = {b"[": 96, b"{": 280, b",": 40, b'"': 40}
BYTES_PER_CELL = 24
"""Approximate memory that one cell of a text table needs while it is read."""
_PIECE_SIZE = 1 << 20  # bytes read at a time where a file is only measured
# A file may always use `memory // _SMALL_USE_DIVISOR` bytes; beyond that, at most MAX_EXPANSION times its size on disk.
# Predictions cannot be compressed much more than a hundredfold: a row of a verbal confidence and a bit of correctness
# carries some three bits.
_SMALL_USE_DIVISOR = 16
MAX_EXPANSION = 200


@dataclass(frozen=True)
class Limits:
    """What one file may cost. A file that needs more is refused before anything of that size is allocated.

    A small file that expands to much is refused long before that: beyond a sixteenth of `memory` its values may need at
    most 200 times its size on disk.

    Parameters
    ----------
    memory : int
        Bytes that its decompressed values may need (4 GB).
    columns : int
        Number of columns that it may have.

    Examples
    --------
    >>> Limits(memory=10**6).check_memory("preds.npz", 2 * 10**6)
    Traceback (most recent call last):
    ...
    abstain.errors.DataError: preds.npz: its values would take 2 MB of memory, more than the limit of 1 MB. ...
    """

    memory: int = 4 * 10**9
    columns: int = 100_000

    def allowed_bytes(self, path: str | Path) -> int:
        """Return the number of bytes that the values of this file may need, by `memory` and by its size on disk."""
        try:
            size_on_disk = os.path.getsize(path)
        except OSError:  # not a file on disk, such as standard input
            return self.memory
        return min(self.memory, max(self.memory // _SMALL_USE_DIVISOR, MAX_EXPANSION * size_on_disk))

    def check_memory(self, path: str | Path, required_bytes: int, what: str = "its values") -> None:
        """Raise DataError where `required_bytes` of memory are too many, in total or for a file of this size.

        MemoryLimitError (a DataError) is raised where the total is exceeded by a file that is large itself: it may be
        harmless, so that an engine which reads it piece by piece may be tried. `what` names the part that needs the
        memory, for the message. `path` need not exist ("standard input"); then only the total counts.

        The total is `self.memory`. A file may always need a sixteenth of it (`_SMALL_USE_DIVISOR`), beyond that at most
        200 times its size on disk (`MAX_EXPANSION`). The message on the second limit tells to raise the total to
        sixteen times what it is: a sixteenth of that is as much as is needed, since `required_bytes` is at most the
        total.
        """
        if required_bytes > self.memory:  # exactly the limit is allowed
            text = (
                f"{what} would take {format_size(required_bytes)} of memory, more than the limit of "
                f"{format_size(self.memory)}. {_HOW_TO_RAISE_LIMIT}"
            )
            refusal = file_error(path, text)  # a DataError
            is_large_file = os.path.isfile(path) and required_bytes <= MAX_EXPANSION * os.path.getsize(path)
            if is_large_file:
                raise MemoryLimitError(str(refusal))
            raise refusal
        if required_bytes > self.allowed_bytes(path):  # by the total, and by the size on disk
            raise file_error(
                path,
                f"{what} would take {format_size(required_bytes)} of memory or more, which is out of proportion to its "
                f"{format_size(os.path.getsize(path))} on disk. If you trust the file, decompress it first, or give "
                f"--memory {format_size(_SMALL_USE_DIVISOR * self.memory).replace(' ', '')}.",
            )

    def check_columns(self, path: Path, count: int) -> None:
        """Raise DataError where a file has more columns than are allowed."""
        if count > self.columns:
            raise file_error(path, f"has {count:,} columns, more than the limit of {self.columns:,}.")


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line of at most about 600 characters; "" where it has no message.

    Control characters are escaped. A long message is shortened in the middle, at blanks between words: its start and
    the last `_MESSAGE_END_LENGTH` characters stay, with " ... " between them.
    """
    message = escape_controls(" ".join(str(error).split()))
    if len(message) <= _MAX_MESSAGE_LENGTH:
        return message
    end = message[-_MESSAGE_END_LENGTH:]  # 150 characters: a message ends with its remedy
    start = message[: _MAX_MESSAGE_LENGTH - _MESSAGE_END_LENGTH - len(" ... ")]
    # without the word that the cut has divided, unless all is one word
    start_of_whole_words = start.rpartition(" ")[0] or start
    end_of_whole_words = end.partition(" ")[2] or end
    return f"{start_of_whole_words} ... {end_of_whole_words}"


def list_names(names: Sequence[object], most: int = MAX_LISTED_NAMES) -> str:
    """Return names or values in one line: at most `most` of them, and how many more there are.

    >>> list_names(["art", "law"]), list_names(["art", "law", "music"], most=2)
    ('art, law', 'art, law and 1 more')
    """
    listed = ", ".join(map(display_name, names[:most]))
    hidden_count = len(names) - most
    return f"{listed} and {hidden_count:,} more" if hidden_count > 0 else listed


@contextmanager
def reporting_damage(path: Path, format_name: str) -> Iterator[None]:
    """Turn any exception inside the `with` block into a `DataError` that names the file and the format.

    A damaged file may break a parser in any way; none of them may reach the user as a traceback. Errors of this library
    (`AbstainError`) pass unchanged. `format_name` stands after "cannot be read as": "json", "an Excel workbook". An
    interrupt by the user is no `Exception` and passes too. `file_error` makes the DataError.
    """
    try:
        yield
    except AbstainError:
        raise
    except RecursionError as error:
        raise file_error(path, f"is nested too deeply to be read as {format_name}.") from error
    except MemoryError as error:
        raise file_error(path, f"needs more memory than is available to be read as {format_name}.") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise file_error(
            path,
            f"must be UTF-8 text, got byte 0x{byte:02x} that is not. Save it as UTF-8 "
            f'(Excel: "CSV UTF-8"), or convert it, for example with `iconv -f cp1252 -t utf-8`.',
        ) from error
    except Exception as error:
        reason = one_line(error) or type(error).__name__
        raise file_error(
            path, f"cannot be read as {format_name}; it seems to be damaged or of another format ({reason})."
        ) from error


@contextmanager
def naming_file(path: str | Path) -> Iterator[None]:
    """Put the file's name in front of the message of an InputError about its values."""
    try:
        yield
    except DataError:
        raise
    except InputError as error:
        raise file_error(path, str(error)) from error


class LimitedStream(io.RawIOBase):
    """A binary stream that raises DataError after `limit` bytes, so that decompression stops in time."""

    def __init__(self, path: Path, stream: IO[bytes], limit: int) -> None:
        self._path = path
        self._stream = stream
        self._limit = limit
        self._bytes_left = limit

    def readable(self) -> bool:
        """Return True; io.BufferedReader checks this before it reads."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill a writable buffer from the stream and return the number of bytes; 0 at the end.

        DataError once more than `limit` bytes were read in total; at most one byte beyond it is read, to detect that.
        `_bytes_left` is the limit less the bytes read so far. `io.BufferedReader` calls this method.
        """
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._stream.read(min(len(view), self._bytes_left + 1))
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise file_error(
                self._path,
                f"decompresses to more than {format_size(self._limit)}, the limit. {_HOW_TO_RAISE_LIMIT}",
            )
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the underlying stream too, since nothing else refers to it."""
        self._stream.close()
        super().close()


def sha256_of(path: str | Path) -> str:
    """Return the hash of a file, as `sha256sum` prints it."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def text_encoding(start: bytes) -> str:
    """Return the encoding of text that begins with these bytes: UTF-16 by its byte order mark, otherwise UTF-8."""
    return "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def open_limited(path: Path, limits: Limits) -> IO[bytes]:
    """Open a file as a buffered stream of bytes, decompressed where its name ends in .gz, .xz or .bz2.

    Reading more bytes from the stream than `limits` allow for this file raises DataError. Opening a file that is
    compressed twice raises it too. The caller closes the stream.
    `limits.allowed_bytes` is how many bytes this file may take, by its size on disk and by the total.
    """
    ending = path.suffix.lower()
    # gzip, lzma, bz2, or io for a file that is not compressed: each has an `open`
    module = importlib.import_module(_DECOMPRESSORS.get(ending, "io"))
    stream: IO[bytes] = module.open(path, "rb")
    buffered = io.BufferedReader(LimitedStream(path, stream, limits.allowed_bytes(path)), _BUFFER_BYTES)
    # of the file's content; the position of the stream stays at 0. gz, xz and bz2 data have fixed first bytes.
    decompressed_start = buffered.peek(2)[:2]
    if ending in COMPRESSED_ENDINGS and decompressed_start in _COMPRESSED_STARTS:
        raise file_error(
            path, f"is compressed twice ({ending} of a compressed file). Decompress it once first."
        )
    return cast(IO[bytes], buffered)


def read_pieces(path: Path, limits: Limits) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, a megabyte at a time, to measure it before it is kept in memory."""
    with open_limited(path, limits) as stream:
        while piece := stream.read(_PIECE_SIZE):
            yield piece


def unpacked_archive_size(path: Path) -> int:
    """Return the number of bytes that the members of a zip archive have by its own directory."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def check_rows(path: Path, limits: Limits) -> None:
    """Raise DataError where the cells of a csv or tsv file would need more memory than `limits` allow.

    Reads the file once (decompressed) and counts its lines, which takes a fraction of the time that parsing them does.
    Line ends inside quotes are part of a cell and do not count. The number of columns is an upper estimate: the most
    frequent of comma, semicolon and tab in the first line. The check comes after each piece, so that a file that
    expands to too much is not read to its end. A quote inside a quoted cell is written twice, which changes the state
    twice.
    """
    column_count = 0
    row_count = 0
    is_quoted = False  # whether the text that is read next lies inside quotes
    for piece in read_pieces(path, limits):
        if not column_count:  # the first piece
            header = piece.partition(b"\n")[0]
            column_count = 1 + max(header.count(delimiter) for delimiter in (b",", b";", b"\t"))
        for index, text_between_quotes in enumerate(piece.split(b'"')):
            if index > 0:  # a quote stands before this text; before the first it does not
                is_quoted = not is_quoted
            if not is_quoted:
                row_count += text_between_quotes.count(b"\n")
        limits.check_memory(path, column_count * row_count * BYTES_PER_CELL, f"its {row_count:,} rows")


def check_parsing(path: Path, limits: Limits) -> None:
    """Raise DataError where parsing a JSON file would need more memory than is allowed; reads it once for that."""
    required = 0
    for piece in read_pieces(path, limits):
        required += _estimate_parsing_bytes(piece)
        limits.check_memory(path, required, "parsing it")


def decode_json(path: Path, data: bytes, limits: Limits) -> str:
    """Return the text of JSON data; DataError where parsing it would need more memory than is allowed."""
    limits.check_memory(path, _estimate_parsing_bytes(data), "parsing it")
    return data.decode(text_encoding(data))


def _estimate_parsing_bytes(data: bytes) -> int:
    """Estimate the bytes that Python's JSON parser needs for these data."""
    return len(data) + sum(cost * data.count(character) for character, cost in _PARSING_COST.items())
