"""How much an Arrow IPC file unpacks to, read from its message headers before anything is unpacked.

Compressed buffers begin with their unpacked length (int64); where each buffer lies is said in the message's
flatbuffer, of which the few fields needed are read here:
Message(version, header_type, header, bodyLength), RecordBatch(length, nodes, buffers, compression),
DictionaryBatch(id, data).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

_DICTIONARY, _BATCH = 2, 3


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer table lies, or None when it is absent."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    length = int(struct.unpack_from("<H", data, vtable)[0])
    entry = 4 + 2 * number
    offset = int(struct.unpack_from("<H", data, vtable + entry)[0]) if entry < length else 0
    return table + offset if offset else None


def _follow(data: memoryview, place: int) -> int:
    return place + int(struct.unpack_from("<I", data, place)[0])


def _batch(data: memoryview) -> int | None:
    """The record batch table of a message, inside a dictionary batch or not; None for the schema."""
    message = _follow(data, 0)
    kind_at, header_at = _field(data, message, 1), _field(data, message, 2)
    kind = 0 if kind_at is None else data[kind_at]
    if header_at is None or kind not in (_DICTIONARY, _BATCH):
        return None
    table = _follow(data, header_at)
    if kind == _BATCH:
        return table
    inner = _field(data, table, 1)
    return None if inner is None else _follow(data, inner)


def _unpacked(metadata: memoryview, body: memoryview) -> int:
    batch = _batch(metadata)
    if batch is None:
        return 0
    buffers_at = _field(metadata, batch, 2)
    if _field(metadata, batch, 3) is None or buffers_at is None:
        return len(body)
    vector = _follow(metadata, buffers_at)
    count = int(struct.unpack_from("<I", metadata, vector)[0])
    total = 0
    for k in range(count):
        offset, length = struct.unpack_from("<qq", metadata, vector + 4 + 16 * k)
        if length >= 8:
            stated = int(struct.unpack_from("<q", body, offset)[0])
            total += length if stated < 0 else stated
    return total


def unpacked_sizes(source: Any) -> Iterator[int]:
    """Bytes after unpacking, message by message; `source` is a pyarrow file standing at the first message."""
    import pyarrow as pa

    messages = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        yield _unpacked(memoryview(message.metadata), memoryview(message.body))
