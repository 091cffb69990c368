"""Files of numpy: npy and npz.

Headers are read here and not by numpy, so that sizes are known and pickles are refused before anything is loaded.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from abstain.formats.columns import Column, OpenedTable, TextValues
from abstain.formats.safety import (
    COMPRESSED_ENDINGS,
    Limits,
    display_name,
    file_error,
    open_limited,
    reporting_damage,
)

_MAX_HEADER_LENGTH = 2**16  # bytes
_READ_SIZE = 1 << 24  # bytes read at a time


class ArrayHeader(NamedTuple):
    """What an npy file says of its array before the values."""

    shape: tuple[int, ...]
    is_fortran_order: bool
    dtype: np.dtype
    length: int  # bytes of the header itself

    @property
    def value_bytes(self) -> int:
        """Bytes that the values need."""
        return math.prod(self.shape) * self.dtype.itemsize

    def make_column(self, load: Callable[[], np.ndarray]) -> Column:
        """Make a column of the array that `load` reads."""
        if self.dtype.kind in "US":
            return Column(shape=self.shape, kind="text", load=lambda: TextValues.of_array(load()))
        return Column(shape=self.shape, kind=str(self.dtype), load=load)


def _read_header(path: Path, array_name: str, stream: IO[bytes]) -> ArrayHeader:
    """Read the header of an npy array at the start of a stream, which then stands at the first value.

    `array_name` begins messages: a name in backquotes, or "it" in a file with a single array. DataError where it is no
    npy header, where it is too long, or where the array holds Python objects or has a negative length. In the result,
    `length` is the number of bytes up to the first value. What numpy raises for other damage, callers make a DataError.
    """
    magic = stream.read(8)  # six fixed bytes, and two with the version of the format
    if magic[:6] != b"\x93NUMPY" or len(magic) < 8:
        raise file_error(path, f"{array_name} must be a numpy array, got something else.")
    is_version_2 = magic[6] >= 2  # version 3 differs from 2 in the encoding of names alone
    length_bytes = stream.read(4 if is_version_2 else 2)  # the length of the text that follows
    length = int.from_bytes(length_bytes, "little")
    if length > _MAX_HEADER_LENGTH:  # 64 kB
        raise file_error(path, f"{array_name} has a header of {length} bytes, which no array needs.")
    # a dict literal with shape, order and type, which numpy parses without running code
    text = stream.read(length)
    parse = np.lib.format.read_array_header_2_0 if is_version_2 else np.lib.format.read_array_header_1_0
    shape, is_fortran_order, dtype = parse(io.BytesIO(length_bytes + text))
    if dtype.hasobject:
        raise file_error(
            path,
            f"{array_name} holds Python objects (pickle), which can run code when opened and are not "
            f"read. Save numbers or fixed-width text instead.",
        )
    if any(size < 0 for size in shape):
        raise file_error(path, f"{array_name} has a negative length.")
    header_length = len(magic) + len(length_bytes) + length
    return ArrayHeader(shape=shape, is_fortran_order=is_fortran_order, dtype=dtype, length=header_length)


def _read_values(path: Path, array_name: str, stream: IO[bytes], header: ArrayHeader) -> np.ndarray:
    """Read the values of an npy array; the stream stands at the start of its header, which is skipped.

    `array_name` is for messages: a name in backquotes, or "it". DataError where the stream ends before the last value.
    `header` was read from the same array before, and the caller has checked that so many bytes may be allocated.
    """
    stream.read(header.length)
    data = bytearray(header.value_bytes)
    byte_count = 0  # read so far
    # In pieces, since a decompressed stream may return fewer bytes than it is told to.
    while piece := stream.read(min(_READ_SIZE, len(data) - byte_count)):
        data[byte_count : byte_count + len(piece)] = piece
        byte_count += len(piece)
    if byte_count < len(data):
        raise file_error(
            path, f"is truncated, {array_name} should hold {len(data)} bytes and has {byte_count}."
        )
    array = np.frombuffer(data, dtype=header.dtype)
    return array.reshape(header.shape, order="F" if header.is_fortran_order else "C")


def open_npy(path: Path, limits: Limits) -> OpenedTable:
    """Open one array without a name (it is called "array"), or the fields of a structured array by their names.

    Only the header is read here. DataError where the values would need more memory than is allowed, or where the file
    is shorter than its header says. `limits` bounds the memory that the file may take. `reporting_damage` turns errors
    of numpy and of decompression into a DataError.
    """
    with reporting_damage(path, "npy"), open_limited(path, limits) as stream:
        # messages call an array without a name "it": "a.npy: it holds Python objects ..."
        header = _read_header(path, array_name="it", stream=stream)
        limits.check_memory(path, header.value_bytes)
        bytes_present = path.stat().st_size - header.length  # of a file that is not compressed
        if path.suffix.lower() not in COMPRESSED_ENDINGS and bytes_present < header.value_bytes:
            raise file_error(
                path,
                f"is truncated, it announces {header.value_bytes} bytes of values and holds {bytes_present}.",
            )

    def load_array() -> np.ndarray:
        with reporting_damage(path, "npy"), open_limited(path, limits) as stream:
            return _read_values(path, array_name="it", stream=stream, header=header)

    def load_field(name: str) -> np.ndarray:
        return np.ascontiguousarray(load_array()[name])  # reads the whole array for each field

    if not header.dtype.names:
        return OpenedTable(path=path, format="npy", columns={"array": header.make_column(load_array)})
    columns = {}
    for name in header.dtype.names:
        field = header.dtype[name]
        # For the column's shape and kind; `load_field` reads the values. A field may have a shape of its own, such as
        # three numbers per row; the type of its numbers is then its base.
        field_header = header._replace(shape=header.shape + field.shape, dtype=field.base)
        columns[name] = field_header.make_column(partial(load_field, name))
    return OpenedTable(path=path, format="npy", columns=columns)


def open_npz(path: Path, limits: Limits) -> OpenedTable:
    """Open the arrays of a zip archive, each decompressed when it is loaded.

    Only the headers are read here. DataError where all arrays together would need more memory than is allowed, where
    two have one name, or where one is longer than the archive states. Arrays keep their names, without ".npy". `limits`
    bounds the memory and the number of columns that a file may take. `reporting_damage` turns errors of the zip library
    and of numpy into a DataError; `display_name` makes a name of the file safe to print.
    """

    def load(member: zipfile.ZipInfo, header: ArrayHeader) -> np.ndarray:
        """Read the values of one member (NAME.npy) of the archive, whose header was read before."""
        with reporting_damage(path, "npz"), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            return _read_values(path, f"`{display_name(member.filename)}`", stream, header)

    columns: dict[str, Column] = {}
    with reporting_damage(path, "npz"), zipfile.ZipFile(path) as archive:
        total_bytes = 0
        members = archive.infolist()
        limits.check_columns(path, len(members))
        other_names = [member.filename for member in members if not member.filename.endswith(".npy")]
        if members and len(other_names) == len(members):
            raise file_error(
                path,
                f"is a zip archive without numpy arrays: unpack it, and name the file in it, such as "
                f"`{display_name(other_names[0])}`.",
            )
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in columns:
                raise file_error(path, f"holds two arrays named {display_name(name)!r}.")
            with archive.open(member) as stream:
                header = _read_header(path, f"`{display_name(name)}`", stream)
            if header.length + header.value_bytes > member.file_size:
                raise file_error(
                    path,
                    f"`{display_name(name)}` announces {header.value_bytes} bytes, more than the archive has.",
                )
            total_bytes += header.value_bytes  # decompressed, as the header states it
            limits.check_memory(path, total_bytes)
            columns[name] = header.make_column(partial(load, member, header))
    return OpenedTable(path=path, format="npz", columns=columns)
