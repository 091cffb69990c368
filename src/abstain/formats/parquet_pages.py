"""How much the pages of a Parquet file unpack to, read from their headers before anything is unpacked.

The footer of a file states the size of each column once unpacked, and an untrusted footer may understate it: 27 kB can
then take gigabytes. What pyarrow allocates is what the header before each page states, so these are added up. A header
is a struct in Thrift's compact protocol; the fields that are needed are

    PageHeader(2: uncompressed size, 3: compressed size, 5: DataPageHeader(1: values), 8: DataPageHeaderV2(1: values))
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MOST_PAGES = 100_000  # of one column in one group of rows; a page holds some 20,000 rows
_DEEPEST = 8  # structs within structs of a page header
_UNPACKED = 2
_PACKED = 3
_VALUES = 1
_DATA_PAGES = (5, 8)


def unpacked_size(path: Path, chunk: Any) -> int:
    """Bytes that the pages of a column chunk take once unpacked; `chunk` is its metadata as pyarrow gives it."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    end = start + chunk.total_compressed_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return sum(_page_sizes(data, start, min(end, len(data)), chunk.num_values))


def _page_sizes(data: mmap.mmap, start: int, end: int, values: int) -> Iterator[int]:
    """The unpacked size of each page, up to the one that ends the values of the chunk, where pyarrow stops, too."""
    place = start
    for _ in range(_MOST_PAGES):
        if place >= end or values <= 0:
            return
        header, place = _struct(data, place)
        yield header[_UNPACKED]
        place += header[_PACKED]
        if header[_UNPACKED] < 0 or header[_PACKED] < 0:
            raise ValueError("a page has a negative size")
        values -= sum(header[kind][_VALUES] for kind in _DATA_PAGES if kind in header)
    raise ValueError(f"a column has more than {_MOST_PAGES:,} pages")


def _struct(data: mmap.mmap, place: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The numbers and structs of a struct by the numbers of their fields, and where it ends."""
    if depth > _DEEPEST:
        raise ValueError("a page header is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[place]:
        place += 1
        step = head >> 4
        if step:
            number += step
        else:
            number, place = _integer(data, place)
        fields[number], place = _value(data, place, head & 15, depth)
    return fields, place + 1


def _value(data: mmap.mmap, place: int, kind: int, depth: int) -> tuple[Any, int]:
    """A value of a type of the compact protocol, None where it is not needed, and where it ends."""
    if kind in (1, 2):  # true and false stand in the type itself
        return kind == 1, place
    if kind == 3:
        return data[place], place + 1
    if kind in (4, 5, 6):
        return _integer(data, place)
    if kind == 7:
        return None, place + 8
    if kind == 8:  # binary: statistics of a page
        length, place = _unsigned(data, place)
        return None, place + length
    if kind == 12:
        return _struct(data, place, depth + 1)
    raise ValueError(f"a page header has a field of type {kind}")


def _integer(data: mmap.mmap, place: int) -> tuple[int, int]:
    """A signed number, whose sign stands in its lowest bit."""
    value, place = _unsigned(data, place)
    return (value >> 1) ^ -(value & 1), place


def _unsigned(data: mmap.mmap, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("a number of a page header is too long")
