"""npy and npz: numpy's own files, without pickle, checked against their header before anything is read."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from abstain.errors import DataError
from abstain.formats.columns import Column, Source, Values, words_of_array
from abstain.formats.limits import PACKED, Limits, opened, reading, shown


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    length: int  # bytes of the header itself

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _header(path: Path, name: str, stream: IO[bytes]) -> _Header:
    magic = stream.read(8)
    if magic[:6] != b"\x93NUMPY" or len(magic) < 8:
        raise DataError(f"{shown(path)}: {name} must be a numpy array, got something else.")
    wide = magic[6] >= 2
    count = stream.read(4 if wide else 2)
    length = int.from_bytes(count, "little")
    if length > 2**16:
        raise DataError(f"{shown(path)}: {name} has a header of {length} bytes, which no array needs.")
    text = stream.read(length)
    read = np.lib.format.read_array_header_2_0 if wide else np.lib.format.read_array_header_1_0
    shape, fortran, dtype = read(io.BytesIO(count + text))
    if dtype.hasobject:
        raise DataError(
            f"{shown(path)}: {name} holds Python objects (pickle), which can run code when opened and are not "
            f"read. Save numbers or fixed-width text instead."
        )
    if any(s < 0 for s in shape):
        raise DataError(f"{shown(path)}: {name} has a negative length.")
    return _Header(shape, fortran, dtype, 8 + len(count) + length)


def _body(path: Path, name: str, stream: IO[bytes], header: _Header) -> np.ndarray:
    data = bytearray(header.nbytes)
    view, filled = memoryview(data), 0
    while filled < len(view):
        piece = stream.read(min(1 << 24, len(view) - filled))
        if not piece:
            raise DataError(
                f"{shown(path)}: is truncated, {name} should hold {header.nbytes} bytes and has {filled}."
            )
        view[filled : filled + len(piece)] = piece
        filled += len(piece)
    array = np.frombuffer(data, dtype=header.dtype)
    return array.reshape(header.shape, order="F" if header.fortran else "C")


def _column(header: _Header, load: Callable[[], Values]) -> Column:
    return Column(header.shape, "text" if header.dtype.kind in "US" else str(header.dtype), load)


def _as_values(array: np.ndarray) -> Values:
    return words_of_array(array) if array.dtype.kind in "US" else array


def open_npy(path: Path, limits: Limits) -> Source:
    """One array without a name (it is called "array"), or the fields of a structured one."""
    with reading(path, "npy"), opened(path, limits) as stream:
        header = _header(path, "it", stream)
        limits.check(path, header.nbytes)
        if path.suffix.lower() not in PACKED and path.stat().st_size < header.length + header.nbytes:
            raise DataError(
                f"{shown(path)}: is truncated, {header.nbytes} bytes of values are announced and "
                f"{path.stat().st_size - header.length} are there."
            )

    def whole() -> np.ndarray:
        with reading(path, "npy"), opened(path, limits) as stream:
            stream.read(header.length)
            return _body(path, "it", stream, header)

    if not header.dtype.names:
        return Source(path, "npy", {"array": _column(header, lambda: _as_values(whole()))})
    columns = {}
    for field in header.dtype.names:
        kind = header.dtype[field]
        part = _Header(header.shape, False, kind.base, 0)
        columns[field] = _column(part, partial(_field, whole, field))
    return Source(path, "npy", columns)


def _field(whole: Callable[[], np.ndarray], name: str) -> Values:
    return _as_values(np.ascontiguousarray(whole()[name]))


def open_npz(path: Path, limits: Limits) -> Source:
    """The arrays of a zip archive, each unpacked when asked for, within the limit all together."""
    columns = {}
    with reading(path, "npz"), zipfile.ZipFile(path) as archive:
        total = 0
        members = archive.infolist()
        if len(members) > limits.columns:
            raise DataError(f"{shown(path)}: holds {len(members)} arrays, which is too many.")
        for member in members:
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                header = _header(path, f"`{shown(name)}`", stream)
            if header.length + header.nbytes > member.file_size:
                raise DataError(
                    f"{shown(path)}: `{shown(name)}` announces {header.nbytes} bytes, more than the archive has."
                )
            total += header.nbytes
            limits.check(path, total)
            columns[name] = _column(header, partial(_member, path, member, header))
    return Source(path, "npz", columns)


def _member(path: Path, member: zipfile.ZipInfo, header: _Header) -> Values:
    with reading(path, "npz"), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        stream.read(header.length)
        return _as_values(_body(path, f"`{shown(member.filename)}`", stream, header))
