"""Forty files that are wrong, each in its own way. `write_all(folder)` makes them and tells how to call `evaluate`."""

from __future__ import annotations

import gzip
import io
import json
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
        "one-class.json": json.dumps({"probs": [[1.0], [1.0]], "labels": [0, 0]}).encode(),
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


def write_all(folder: Path, mark: Path) -> dict[str, list[str]]:
    """All of them."""
    calls = {}
    for name, content in small_files(mark).items():
        (folder / name).write_bytes(content)
        calls[name] = ["--as", "logits"] if name.endswith(".npy") else []
    return calls | write_bombs(folder, mark)
