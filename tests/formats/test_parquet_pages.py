"""What the pages of a Parquet file unpack to is read from their own headers, not from what the footer states."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from abstain.errors import DataError
from abstain.formats import Limits, read_predictions
from abstain.formats import parquet_pages as pages

N = 5_000


def table():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "number": rng.random(N),
            "few": rng.integers(0, 5, N),
            "word": [f"w{k % 100}" for k in range(N)],
            "list": pa.array([[float(k), 1.0] for k in range(N)]),
            "missing": [None if k % 7 else True for k in range(N)],
        }
    )


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_add_up_to_what_an_honest_footer_states(tmp_path, compression, version):
    """The footer counts the headers, too, so it states a little more."""
    path = tmp_path / "a.parquet"
    for dictionary, rows, more in itertools.product([True, False], [500, N], [True, False]):
        pq.write_table(
            table(), path, compression=compression, data_page_version=version, use_dictionary=dictionary,
            row_group_size=rows, data_page_size=1024, write_statistics=more, write_page_checksum=more,
        )  # fmt: skip
        metadata = pq.ParquetFile(path).metadata
        for group, column in itertools.product(range(metadata.num_row_groups), range(metadata.num_columns)):
            chunk = metadata.row_group(group).column(column)
            size = pages.unpacked_size(path, chunk)
            assert 0.3 * chunk.total_uncompressed_size < size < chunk.total_uncompressed_size


def zigzag(value: int, width: int | None = None) -> bytes:
    """A number as Thrift's compact protocol writes it, in `width` bytes if that is more than it needs."""
    value *= 2
    out = []
    while value or not out or len(out) < (width or 0):
        out.append(value & 127 | 128)
        value >>= 7
    out[-1] &= 127
    return bytes(out)


def understated(raw: bytes, path) -> bytes:
    """The same file with a footer that states 50 bytes for each column and group of rows."""
    metadata = pq.ParquetFile(path).metadata.row_group(0)
    sizes = {metadata.column(k).total_uncompressed_size for k in range(metadata.num_columns)} | {
        metadata.total_byte_size
    }
    length = struct.unpack("<I", raw[-8:-4])[0]
    footer = raw[-8 - length : -8]
    for size in sizes:
        footer = footer.replace(zigzag(size), zigzag(50, len(zigzag(size))))
    return raw[: -8 - length] + footer + raw[-8:]


def test_a_footer_that_understates_is_not_believed(tmp_path):
    path = tmp_path / "a.parquet"
    texts = ["a" * 10**7, "b" * 10**7]
    pq.write_table(
        pa.table({"correct": [1, 0], "confidence": [0.5, 0.6], "group": texts}), path, compression="zstd"
    )
    path.write_bytes(understated(path.read_bytes(), path))
    assert pq.ParquetFile(path).metadata.row_group(0).column(2).total_uncompressed_size == 50
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="column `group` would take 100 MB of memory"):
        read_predictions(path, limits=Limits(memory=80 * 10**6))


@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.string())], ids=str)
def test_texts_that_are_not_kept_as_a_dictionary_are_refused_unread(tmp_path, kind, monkeypatch):
    """A file of a few bytes may repeat a long text a million times."""
    path = tmp_path / "a.parquet"
    text = "a" * 10**6
    values = pa.array([[text]] * 50 if pa.types.is_list(kind) else [text.encode()] * 50, kind)
    pq.write_table(pa.table({"correct": [1] * 50, "confidence": [0.5] * 50, "group": values}), path)
    read = pq.ParquetFile.read
    monkeypatch.setattr(
        pq.ParquetFile,
        "read",
        lambda self, columns: read(self, columns) if "group" not in columns else pytest.fail("it was read"),
    )
    with pytest.raises(DataError, match="`group` must hold numbers"):
        read_predictions(path)


def test_damaged_page_headers_are_one_line(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"correct": [1, 0], "confidence": [0.5, 0.6]}), path)
    raw = path.read_bytes()
    for byte in (0x00, 0x1C, 0xFF):
        path.write_bytes(raw[:4] + bytes([byte]) * 30 + raw[34:])
        with pytest.raises(DataError, match=r"a\.parquet: "):
            read_predictions(path)
