"""Files of numpy: npy and npz."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from abstain.formats.columns import Column, Source, Words
from abstain.formats.safety import PACKED, Limits, display_name, file_error, opened, reading

# numpy: headers are read here, so that sizes are known and pickles refused before anything is loaded


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    length: int  # bytes of the header itself

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def column(self, load: Callable[[], np.ndarray]) -> Column:
        if self.dtype.kind in "US":
            return Column(self.shape, "text", lambda: Words.of_array(load()))
        return Column(self.shape, str(self.dtype), load)


def _header(path: Path, name: str, stream: IO[bytes]) -> _Header:
    magic = stream.read(8)
    if magic[:6] != b"\x93NUMPY" or len(magic) < 8:
        raise file_error(path, f"{name} must be a numpy array, got something else.")
    wide = magic[6] >= 2
    count = stream.read(4 if wide else 2)
    length = int.from_bytes(count, "little")
    if length > 2**16:
        raise file_error(path, f"{name} has a header of {length} bytes, which no array needs.")
    text = stream.read(length)
    read = np.lib.format.read_array_header_2_0 if wide else np.lib.format.read_array_header_1_0
    shape, fortran, dtype = read(io.BytesIO(count + text))
    if dtype.hasobject:
        raise file_error(
            path,
            f"{name} holds Python objects (pickle), which can run code when opened and are not "
            f"read. Save numbers or fixed-width text instead.",
        )
    if any(s < 0 for s in shape):
        raise file_error(path, f"{name} has a negative length.")
    return _Header(shape, fortran, dtype, 8 + len(count) + length)


def _body(path: Path, name: str, stream: IO[bytes], header: _Header) -> np.ndarray:
    """The values after a header."""
    stream.read(header.length)
    data, filled = bytearray(header.nbytes), 0
    while piece := stream.read(min(1 << 24, len(data) - filled)):
        data[filled : filled + len(piece)] = piece
        filled += len(piece)
    if filled < len(data):
        raise file_error(path, f"is truncated, {name} should hold {len(data)} bytes and has {filled}.")
    array = np.frombuffer(data, dtype=header.dtype)
    return array.reshape(header.shape, order="F" if header.fortran else "C")


def open_npy(path: Path, limits: Limits) -> Source:
    """One array without a name (it is called "array"), or the fields of a structured one."""
    with reading(path, "npy"), opened(path, limits) as stream:
        header = _header(path, "it", stream)
        limits.check(path, header.nbytes)
        there = path.stat().st_size - header.length
        if path.suffix.lower() not in PACKED and there < header.nbytes:
            raise file_error(
                path, f"is truncated, {header.nbytes} bytes of values are announced and {there} are there."
            )

    def whole() -> np.ndarray:
        with reading(path, "npy"), opened(path, limits) as stream:
            return _body(path, "it", stream, header)

    def one_field(name: str) -> np.ndarray:
        return np.ascontiguousarray(whole()[name])

    if not header.dtype.names:
        return Source(path, "npy", {"array": header.column(whole)})
    fields = {name: header._replace(dtype=header.dtype[name].base) for name in header.dtype.names}
    return Source(path, "npy", {k: part.column(partial(one_field, k)) for k, part in fields.items()})


def open_npz(path: Path, limits: Limits) -> Source:
    """The arrays of a zip archive, each unpacked when asked for, within the limit all together."""

    def load(member: zipfile.ZipInfo, header: _Header) -> np.ndarray:
        with reading(path, "npz"), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            return _body(path, f"`{display_name(member.filename)}`", stream, header)

    columns = {}
    with reading(path, "npz"), zipfile.ZipFile(path) as archive:
        total = 0
        members = archive.infolist()
        limits.check_columns(path, len(members))
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in columns:
                raise file_error(path, f"holds two arrays named {display_name(name)!r}.")
            with archive.open(member) as stream:
                header = _header(path, f"`{display_name(name)}`", stream)
            if header.length + header.nbytes > member.file_size:
                raise file_error(
                    path,
                    f"`{display_name(name)}` announces {header.nbytes} bytes, more than the archive has.",
                )
            total += header.nbytes
            limits.check(path, total)
            columns[name] = header.column(partial(load, member, header))
    return Source(path, "npz", columns)
