"""Writing files whole or not at all, and predictions in another format."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from abstain.errors import DataError, MissingDependencyError
from abstain.formats.limits import shown
from abstain.formats.predictions import Predictions, group_labels

WRITABLE = (".npz", ".csv", ".tsv", ".parquet", ".arrow", ".feather", ".json", ".jsonl", ".safetensors")
"""Endings that `write_predictions` knows."""
_SAFE = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16",
    "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A stream to a temporary neighbour that takes the file's place at the end; on any error nothing is left."""
    target = Path(path)
    if not target.parent.is_dir():
        raise DataError(f"{shown(target)}: there is no folder {shown(target.parent)} to write it to.")
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:60]}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:  # Ctrl-C included
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_predictions(predictions: Predictions, path: str | Path) -> None:
    """Write predictions under the standard names, in the format the ending says."""
    ending = Path(path).suffix.lower()
    if ending not in WRITABLE:
        raise DataError(f"{shown(path)}: must end in one of {', '.join(WRITABLE)} to be written.")
    arrays = _named(predictions)
    if ending == ".npz":
        with replacing(path) as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    elif ending == ".safetensors":
        with replacing(path) as stream:
            _safetensors(stream, arrays, predictions.classes)
    elif ending == ".json":
        with replacing(path) as stream:
            stream.write(json.dumps({k: v.tolist() for k, v in arrays.items()}).encode())
    else:
        _table(path, ending, _columns(arrays))


def _named(p: Predictions) -> dict[str, np.ndarray]:
    labels = p.labels
    if labels is None and p.label_words is not None:
        labels = np.array(p.label_words.values, dtype=str)[p.label_words.codes]
    zero_one = p.loss is not None and p.loss_name == "zero_one"
    values: dict[str, Any] = {
        "logits": p.logits, "probs": p.probs, "labels": labels, "confidence": p.confidence,
        "correct": (1 - p.loss).astype(np.int8) if zero_one and p.loss is not None else None,
        "loss": None if zero_one else p.loss, "abstained": p.abstained, "group": group_labels(p.groups),
        "weight": p.weight, "cluster": p.clusters, "classes": np.array(p.classes) if p.classes else None,
    }  # fmt: skip
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def _columns(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One column per class, named after it; labels as the class names where there are any."""
    classes = [str(c) for c in arrays.pop("classes", np.array([], dtype=str)).tolist()]
    found: dict[str, np.ndarray] = {}
    for name, values in arrays.items():
        if values.ndim == 2:
            ends = classes if len(classes) == values.shape[1] else list(map(str, range(values.shape[1])))
            found.update({f"{name.removesuffix('s')}_{e}": values[:, k] for k, e in enumerate(ends)})
        elif name == "labels" and classes and values.dtype.kind in "iu" and "correct" not in arrays:
            found["label"] = np.array(classes)[values]
        else:
            found["label" if name == "labels" else name] = values
    return found


def _table(path: str | Path, ending: str, columns: dict[str, np.ndarray]) -> None:
    if ending in (".parquet", ".arrow", ".feather"):
        _arrow(path, ending, columns)
        return
    rows = zip(*(values.tolist() for values in columns.values()))
    with replacing(path) as stream:
        if ending == ".jsonl":
            for row in rows:
                stream.write(json.dumps(dict(zip(columns, row))).encode() + b"\n")
            return
        import io

        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, delimiter="\t" if ending == ".tsv" else ",", lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
        text.detach()


def _arrow(path: str | Path, ending: str, columns: dict[str, np.ndarray]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingDependencyError(f"Writing {shown(path)}", "pyarrow", "files") from error
    table = pa.table(
        {
            name: pa.array(values.tolist() if values.dtype.kind in "US" else values)
            for name, values in columns.items()
        }
    )
    with replacing(path) as stream:
        if ending == ".parquet":
            pq.write_table(table, stream)
        else:
            with pa.ipc.new_file(stream, table.schema) as writer:
                writer.write_table(table)


def _safetensors(stream: IO[bytes], arrays: dict[str, np.ndarray], classes: tuple[str, ...]) -> None:
    header: dict[str, Any] = {"__metadata__": {"classes": json.dumps(classes)}} if classes else {}
    place, parts = 0, []
    for name, values in arrays.items():
        if name == "classes":
            continue
        if values.dtype.name not in _SAFE:
            raise DataError(
                f"safetensors holds numbers only, and `{name}` is text. Choose npz, parquet or csv."
            )
        raw = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        span = [place, place + len(raw)]
        header[name] = {"dtype": _SAFE[values.dtype.name], "shape": list(values.shape), "data_offsets": span}
        place += len(raw)
        parts.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of eight
    stream.write(len(text).to_bytes(8, "little") + text)
    for raw in parts:
        stream.write(raw)
