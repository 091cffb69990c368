"""How much the pages of a Parquet file decompress to, read from their headers before anything is decompressed.

The footer of a file states the decompressed size of each column, and an untrusted footer may understate it: 27 kB can
then take gigabytes. What pyarrow allocates is what the header before each page states, so these sizes are added up. A
header is a struct in Thrift's compact protocol; the fields that are needed are

    PageHeader(2: uncompressed size, 3: compressed size, 5: DataPageHeader(1: values), 8: DataPageHeaderV2(1: values))

Every function that parses takes the position where a thing begins and returns it with the position where it ends.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MAX_PAGES = 100_000  # of one column in one row group; a page holds some 20,000 rows
_MAX_DEPTH = 8  # structs within structs of a page header
# Numbers of the fields of a page header, and of the data page header inside it
_UNCOMPRESSED_SIZE_FIELD = 2
_COMPRESSED_SIZE_FIELD = 3
_VALUE_COUNT_FIELD = 1
_DATA_PAGE_HEADER_FIELDS = (5, 8)  # of the two versions of data pages; dictionary pages have neither
# Types of Thrift's compact protocol
_TRUE = 1
_FALSE = 2
_BYTE = 3
_INTEGERS = (4, 5, 6)
_DOUBLE = 7
_BINARY = 8
_STRUCT = 12


def unpacked_size(path: Path, chunk: Any) -> int:
    """Return the bytes that the pages of a column chunk need once decompressed.

    `chunk` is pyarrow's `ColumnChunkMetaData` of one column in one row group. ValueError, KeyError or IndexError where
    the pages are damaged. The headers of the pages are read, not their values; the file is mapped into memory.
    Positions are bytes from the start of the file.
    """
    start = chunk.data_page_offset
    # A dictionary page lies before the data pages.
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    end = start + chunk.total_compressed_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        end_in_file = min(end, len(data))  # a damaged file may state an end beyond its own
        return sum(_page_sizes(data, start, end_in_file, chunk.num_values))


def _page_sizes(data: mmap.mmap, start: int, end: int, value_count: int) -> Iterator[int]:
    """Yield the decompressed size in bytes of each page between two positions of the file.

    Each page begins with a header that states its sizes. Stops after the page that holds the last of the chunk's
    `value_count` values, as pyarrow does. ValueError where a size is negative or there are too many pages. `data` is
    the file, mapped into memory. `start` is the first byte of the first header, `end` the first byte after the chunk.
    The constants `..._FIELD` are numbers of fields in the header, by Parquet's definition. The caller catches KeyError
    (a field is missing) and IndexError (the file ends) too.
    """
    position = start
    unread_value_count = value_count
    for _ in range(_MAX_PAGES):
        if position >= end or unread_value_count <= 0:
            return
        # {field number: value}, and where the page's data begin
        header, position = _parse_struct(data, position)
        if header[_UNCOMPRESSED_SIZE_FIELD] < 0 or header[_COMPRESSED_SIZE_FIELD] < 0:
            raise ValueError("a page has a negative size")
        yield header[_UNCOMPRESSED_SIZE_FIELD]
        position += header[_COMPRESSED_SIZE_FIELD]
        for field in _DATA_PAGE_HEADER_FIELDS:  # a dictionary page has none of them
            if field in header:  # itself a struct: the number of values in the page is one of its fields
                unread_value_count -= header[field][_VALUE_COUNT_FIELD]
    raise ValueError(f"a column has more than {_MAX_PAGES:,} pages")


def _parse_struct(data: mmap.mmap, position: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the fields of a Thrift struct that begins at `position` as {field number: value}, and where it ends.

    A field begins with a byte: the upper half is its number less that of the field before (0: the number follows), the
    lower half its type. A zero byte ends the struct. `depth` counts the structs around this one; ValueError where there
    are too many, or where a field has an unknown type, IndexError where the file ends before. `data` is the file,
    mapped into memory, and positions are bytes from its start. A struct is a value too, as a dict of this kind.
    """
    if depth > _MAX_DEPTH:  # 8; page headers need fewer
        raise ValueError("a page header is nested too deeply")
    fields: dict[int, Any] = {}
    field_number = 0
    while head := data[position]:
        position += 1
        number_increment = head >> 4
        type_code = head & 15
        if number_increment:
            field_number += number_increment
        else:
            field_number, position = _parse_integer(data, position)
        # the position after the value is where the next field begins
        fields[field_number], position = _parse_value(data, position, type_code, depth)
    return fields, position + 1


def _parse_value(data: mmap.mmap, position: int, type_code: int, depth: int) -> tuple[Any, int]:
    """Return the value at `position` of a type of Thrift's compact protocol, and the position where it ends.

    None stands for values that are not needed (doubles, bytes). `depth` counts the structs around the value. ValueError
    for a type that page headers do not have (lists, sets and maps among them), IndexError where the file ends. `data`
    is the file, mapped into memory; positions are bytes from its start.
    """
    # the constants are the numbers of the types in this protocol
    if type_code in (_TRUE, _FALSE):  # the type itself is the value
        return type_code == _TRUE, position
    if type_code == _BYTE:
        return data[position], position + 1
    if type_code in _INTEGERS:  # of 16, 32 or 64 bits, all written with as many bytes as they need
        return _parse_integer(data, position)  # with its sign
    if type_code == _DOUBLE:  # eight bytes, skipped
        return None, position + 8
    if type_code == _BINARY:  # statistics of a page
        length, position = _parse_unsigned(data, position)
        return None, position + length
    if type_code == _STRUCT:
        return _parse_struct(data, position, depth + 1)
    raise ValueError(f"a page header has a field of type {type_code}")


def _parse_integer(data: mmap.mmap, position: int) -> tuple[int, int]:
    """Return a signed number, whose sign is its lowest bit (zigzag), and where it ends."""
    value, position = _parse_unsigned(data, position)
    return (value >> 1) ^ -(value & 1), position


def _parse_unsigned(data: mmap.mmap, position: int) -> tuple[int, int]:
    """Return a number that is stored in groups of seven bits, and the position after it.

    Each byte holds one group, the lowest first; the last byte is below 128, all others are not. ValueError for a number
    of more than ten bytes, IndexError where the file ends before the last one. `data` is the file, mapped into memory,
    and `position` a byte from its start.
    """
    value = 0
    for shift in range(0, 70, 7):  # ten groups hold 64 bits
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number of a page header is too long")
