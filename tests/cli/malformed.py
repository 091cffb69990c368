"""Files that are wrong, each in its own way: `write_all(folder)` makes them and says how to call `evaluate`.

`write_growing` makes small files that unpack to far more than is in proportion to their size.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np

GOOD_Z = np.random.default_rng(0).normal(size=(60, 4))
GOOD_Y = np.random.default_rng(1).integers(0, 4, 60)
SMALL = ["--memory", "50MB"]
BOMB = 300 * 2**20  # bytes, six times what is allowed


class Bomb:
    """Runs a command when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def _good_npz() -> bytes:
    data = io.BytesIO()
    np.savez(data, logits=GOOD_Z, labels=GOOD_Y)
    return data.getvalue()


def _npy(array) -> bytes:
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def _npy_header(shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def _parquet(columns) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = io.BytesIO()
    pq.write_table(pa.table(columns), data)
    return data.getvalue()


def _safetensors(header, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def _csv(*lines: str) -> bytes:
    return "\n".join(lines).encode()


def small_files(mark: Path) -> dict[str, bytes]:
    """Name -> content, for those that are quick to make."""
    npz, parquet = _good_npz(), _parquet({"confidence": np.arange(5000.0), "loss": np.arange(5000.0)})
    table = _csv("correct,confidence", *[f"1,{k}" for k in range(5000)])
    objects = io.BytesIO()
    np.savez(objects, logits=np.array([Bomb(mark)], dtype=object), labels=np.zeros(1, int))
    lying = io.BytesIO()
    with zipfile.ZipFile(lying, "w") as archive:
        archive.writestr("logits.npy", _npy_header((10**12, 4)) + b"\0" * 64)
        archive.writestr("labels.npy", _npy(GOOD_Y))
    words = io.BytesIO()
    np.savez(words, weights=GOOD_Z, things=GOOD_Y)
    return {
        "truncated.npz": npz[: len(npz) // 2],
        "truncated.npy": _npy(GOOD_Z)[:300],
        "truncated.parquet": parquet[: len(parquet) // 2],
        "truncated.csv.gz": gzip.compress(table)[:-200],
        "truncated.json": json.dumps({"logits": GOOD_Z.tolist(), "labels": GOOD_Y.tolist()}).encode()[:900],
        "truncated.safetensors": _safetensors({"logits": {"dtype": "F64", "shape": [60, 4], "data_offsets": [0, 1920]}}, b"\0" * 100),
        "empty.csv": b"",
        "wrong-keys.npz": words.getvalue(),
        "mixed.json": json.dumps({"correct": [1, "maybe", 0], "confidence": [0.1, 0.2, 0.3]}).encode(),
        "ragged.json": json.dumps({"logits": [[1, 2], [1, 2, 3]], "labels": [0, 1]}).encode(),
        "nan.csv": _csv("correct,confidence", "1,0.5", "0,nan", "1,0.7"),
        "missing-cell.csv": _csv("correct,confidence", "1,0.5", "0,", "1,0.7"),
        "infinite.json": b'{"correct": [1, 0], "confidence": [Infinity, 0.5]}',
        "objects.npz": objects.getvalue(),
        "pickle.pkl": pickle.dumps(Bomb(mark)),
        "pickle-as.npz": pickle.dumps(Bomb(mark)),
        "pickle-as.pt": pickle.dumps(Bomb(mark)),
        "lying-header.npz": lying.getvalue(),
        "lying-header.npy": _npy_header((10**12,)) + b"\0" * 64,
        "gz-of-gz.csv.gz": gzip.compress(gzip.compress(table)),
        "not-gz.csv.gz": table,
        "latin-1.csv": "correct,confidence,group\n1,0.5,Zürich\n".encode("latin-1"),
        "binary.csv": b"correct,confidence\n1,\0\0\0\n",
        "no-rows.csv": b"correct,confidence\n",
        "no-rows.parquet": _parquet({"confidence": np.zeros(0), "loss": np.zeros(0)}),
        "no-rows.jsonl": b"\n\n",
        "no-class.json": json.dumps({"probs": [[], []], "labels": [0, 0]}).encode(),
        "deep.json": b"[" * 200_000,
        "label-out-of-range.json": json.dumps({"logits": [[1, 2], [3, 4]], "labels": [0, 2]}).encode(),
        "cells.csv": _csv("correct,confidence", "1,0.5", "0,0.5,7"),
        "no-header.csv": _csv("1,0.5", "0,0.25"),
        "two-names.csv": _csv("confidence,confidence", "1,0.5"),
        "not-0-1.csv": _csv("correct,confidence", "1,0.5", "2,0.25"),
        "not-probs.json": json.dumps({"probs": [[0.5, 0.9], [0.5, 0.5]], "labels": [0, 1]}).encode(),
        "lengths.json": json.dumps({"logits": [[1, 2], [3, 4]], "labels": [0, 1, 1]}).encode(),
        "broken-line.jsonl": b'{"correct": 1, "confidence": 0.5}\n{"correct": 1, "conf',
        "parquet-as.npz": parquet,
        "outside.safetensors": _safetensors({"logits": {"dtype": "F64", "shape": [10**9, 4], "data_offsets": [0, 32 * 10**9]}}, b"\0" * 64),
        "huge-header.safetensors": struct.pack("<Q", 2**60) + b"{}",
        "unknown.xyz": b"some bytes",
    }  # fmt: skip


def write_bombs(folder: Path, mark: Path) -> dict[str, list[str]]:
    """Small files that unpack to far more than is allowed; name -> further arguments."""
    with zipfile.ZipFile(folder / "zip-bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("logits.npy", "w", force_zip64=True) as member:
            member.write(_npy_header((BOMB // 32, 4)))
            for _ in range(BOMB >> 20):
                member.write(bytes(1 << 20))
        archive.writestr("labels.npy", _npy(GOOD_Y))
    with gzip.open(folder / "gz-bomb.csv.gz", "wb", compresslevel=1) as stream:
        stream.write(b"correct,confidence\n")
        for _ in range(BOMB >> 20):
            stream.write(b"1,1\n" * (1 << 18))
    with gzip.open(folder / "long-line-bomb.csv.gz", "wb", compresslevel=1) as stream:
        for _ in range(BOMB >> 20):
            stream.write(b"a" * (1 << 20))
    with gzip.open(folder / "blank-bomb.json.gz", "wb", compresslevel=1) as stream:
        for _ in range(BOMB >> 20):
            stream.write(b" " * (1 << 20))
    _arrow_bombs(folder)
    with gzip.open(folder / "wide-bomb.csv.gz", "wb", compresslevel=1) as stream:
        stream.write(b",".join(b"c%d" % k for k in range(50_000)) + b"\n")
        for _ in range(300):  # 15 million cells of two bytes
            stream.write(b"1," * 49_999 + b"1\n")
    with gzip.open(folder / "text-bomb.csv.gz", "wb", compresslevel=1) as stream:
        stream.write(b"correct,confidence,group\n")
        for k in range(BOMB // 100_000):
            stream.write(b"1,0.5,%d" % k + b"a" * 100_000 + b"\n")
    archive = zipfile.ZipFile(folder / "sheet-bomb.xlsx", "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as stream:
        for _ in range(BOMB >> 20):
            stream.write(b" " * (1 << 20))
    (folder / "list-bomb.json").write_bytes(b"[" + b"[]," * (8 << 20) + b"[]]")
    import torch

    torch.save(
        {"logits": torch.zeros(1).expand(10**12, 4), "labels": torch.zeros(1)}, folder / "stride-bomb.pt"
    )
    torch.save({"logits": Bomb(mark)}, folder / "pickle-inside.pt")
    bombs = (
        "zip-bomb.npz", "gz-bomb.csv.gz", "long-line-bomb.csv.gz", "blank-bomb.json.gz", "arrow-bomb.arrow",
        "parquet-bomb.parquet", "wide-bomb.csv.gz", "list-bomb.json", "text-bomb.csv.gz", "sheet-bomb.xlsx",
    )  # fmt: skip
    return dict.fromkeys(bombs, SMALL) | {"stride-bomb.pt": [], "pickle-inside.pt": []}


def _arrow_bombs(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    zeros = pa.table({"confidence": np.zeros(BOMB // 16), "loss": np.zeros(BOMB // 16)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    sink = pa.OSFile(str(folder / "arrow-bomb.arrow"), "wb")
    with sink, pa.ipc.new_file(sink, zeros.schema, options=options) as writer:
        writer.write_table(zeros)
    pq.write_table(zeros, folder / "parquet-bomb.parquet", compression="zstd")


# small files that unpack to less than the limit of memory, and to far more than their size explains

_MANY = 1000  # megabytes and more that a packed stream unpacks to
_PACKERS = {"gz": gzip, "xz": lzma, "bz2": bz2}


def _zip(path: Path, members: dict[str, bytes], blanks: int = 0) -> None:
    """A zip archive; its last member ends in so many megabytes of blanks."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content)
                for _ in range(blanks if name == list(members)[-1] else 0):
                    member.write(b" " * (1 << 20))


def _sheet(path: Path, rows: str) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    head = (
        '<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    )
    members["xl/worksheets/sheet1.xml"] = f"{head}<sheetData>{rows}</sheetData></worksheet>".encode()
    _zip(path, members)


def write_growing(folder: Path, free: int) -> list[str]:
    """Files that take more than `free` bytes, which any file may take, and 200 times their size; their names."""
    for ending, packer in _PACKERS.items():
        rows = packer.compress(b"1,1\n" * (1 << 20)) * (_MANY // 4)
        (folder / f"rows.csv.{ending}").write_bytes(packer.compress(b"correct,confidence\n") + rows)
        quoted = packer.compress(b'1,1,"\n"\n' * (1 << 18)) * (_MANY // 2)
        (folder / f"quoted.csv.{ending}").write_bytes(packer.compress(b"correct,confidence,group\n") + quoted)
        blanks = packer.compress(b" " * (1 << 22)) * (_MANY // 4)
        (folder / f"blank.json.{ending}").write_bytes(packer.compress(b"[") + blanks + packer.compress(b"]"))
        lists = packer.compress(b"[]," * (1 << 20)) * (_MANY // 4)
        (folder / f"lists.json.{ending}").write_bytes(packer.compress(b"[") + lists + packer.compress(b"[]]"))
    _write_growing_tables(folder, free)
    more = -(-free >> 20) + 20
    header = _npy_header((free // 32 + 10**6, 4))
    _zip(folder / "blanks.npz", {"logits.npy": header}, blanks=more + 40)
    start = json.dumps({"eval": {"task": "t"}, "status": "success"}).encode()
    _zip(folder / "blanks.eval", {"header.json": start, "samples/1.json": b""}, blanks=more)
    _zip(folder / "marks.pt", {"a/data.pkl": b"\x80\x02" + b"(" * (10 << 20) + b".", "a/version": b"3\n"})
    (folder / "old-marks.pt").write_bytes(b"\x80\x02" + b"(" * (2 << 20) + b".")
    lists = b'{"a":[' + b"[]," * (5 << 20) + b"[]]}"
    (folder / "header.safetensors").write_bytes(struct.pack("<Q", len(lists)) + lists)
    (folder / "digits.json").write_text(f'[{{"correct": 1, "confidence": {"1" * 10**6}}}]')
    (folder / "digits.csv").write_text(f"correct,confidence\n1,{'1' * 10**7}\n")
    names = "".join(f'<c t="inlineStr"><is><t>{name}</t></is></c>' for name in ("correct", "confidence"))
    row = '<row r="{}"><c><v>1</v></c><c><v>0.5</v></c></row>'
    _sheet(folder / "far.xlsx", f'<row r="1">{names}</row>{row.format(2)}{row.format(10**9)}')
    wide = '<row r="2"><c r="XFD2"><v>1</v></c></row>'
    _sheet(folder / "wide.xlsx", f'<row r="1">{names}</row>{wide}{row.format(10**6)}')
    _sheet(folder / "rows.xlsx", '<row><c t="inlineStr"><is><t>a</t></is></c></row>' * (free // 300))
    entities = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    entities += "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij")) + "]>"
    _sheet(folder / "laughs.xlsx", '<row r="1"><c r="A1" t="inlineStr"><is><t>&j;</t></is></c></row>')
    with zipfile.ZipFile(folder / "laughs.xlsx") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members["xl/worksheets/sheet1.xml"].decode().replace("?><", f"?>{entities}<", 1)
    _zip(folder / "laughs.xlsx", members | {"xl/worksheets/sheet1.xml": text.encode()})
    return sorted(path.name for path in folder.iterdir())


def _write_growing_tables(folder: Path, free: int) -> None:
    """Parquet and Arrow: many equal rows, long texts in a dictionary, long lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = free // 32
    equal = pa.table({"confidence": np.full(rows, 0.5), "correct": np.ones(rows)})
    pq.write_table(equal, folder / "rows.parquet", compression="zstd", row_group_size=rows)
    texts = pa.table(
        {"correct": [1, 0], "confidence": [0.5, 0.6], "group": ["a" * (free // 2), "b" * (free // 2)]}
    )
    pq.write_table(texts, folder / "texts.parquet", compression="zstd")
    with (
        pa.OSFile(str(folder / "rows.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, equal.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer,
    ):
        for _ in range(4):
            writer.write_table(equal)
    (folder / "rows.csv.zst").write_bytes(pa.Codec("zstd").compress(b"1,1\n" * (1 << 20), asbytes=True))


def write_all(folder: Path, mark: Path) -> dict[str, list[str]]:
    """All of them."""
    calls = {}
    for name, content in small_files(mark).items():
        (folder / name).write_bytes(content)
        calls[name] = ["--as", "logits"] if name.endswith(".npy") else []
    return calls | write_bombs(folder, mark)
