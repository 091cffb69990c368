"""Writing files whole or not at all, and predictions in another format."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from abstain._tables import as_csv
from abstain.errors import DataError, needed
from abstain.formats.limits import file_error, shown
from abstain.formats.predictions import Predictions, plain_values
from abstain.formats.readers import SAFETENSORS

WRITABLE = (".npz", ".csv", ".tsv", ".parquet", ".arrow", ".feather", ".json", ".jsonl", ".safetensors")
"""Endings that `write_predictions` knows."""
_SAFE = {code: name for name, code in SAFETENSORS.items() if name != "BF16"}


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Write a file whole or not at all: a temporary neighbour takes its place at the end.

    Parameters
    ----------
    path : str or Path
        The file to write. On any error (Ctrl-C included) it is as it was, and nothing is left beside it. Its mode is
        kept; a link stays one; a device or a pipe is written to.

    Yields
    ------
    binary stream

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/out.txt") as stream:
    ...         _ = stream.write(b"all of it")
    ...     Path(f"{folder}/out.txt").read_text()
    'all of it'
    """
    part = None
    try:
        there = os.stat(path) if os.path.exists(path) else None
        if there is not None and not stat.S_ISREG(there.st_mode):
            with open(path, "wb") as stream:  # a device or a pipe is written to, never replaced
                yield stream
            return
        target = Path(os.path.realpath(path))  # a link stays, what it points at is written
        if not target.parent.is_dir():
            raise file_error(target, f"there is no folder {shown(target.parent)} to write it to.")
        part = target.with_name(f".{target.name[:60]}.{secrets.token_hex(8)}.part")
        with part.open("xb") as stream:
            if there is not None:
                os.chmod(part, stat.S_IMODE(there.st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    except OSError as error:
        raise file_error(path, f"cannot be written ({error.strerror or error}).") from error
    finally:  # Ctrl-C included
        if part is not None:
            with suppress(OSError):
                part.unlink()


def check_target(path: str | Path, sources: Iterable[str | Path]) -> None:
    """Refuse to write over a file that is read, by whatever name, alone or in a folder."""
    if os.path.isfile(path):
        for source in filter(os.path.exists, sources):
            inside = Path(os.path.realpath(source)) in Path(os.path.realpath(path)).parents
            if inside or os.path.samefile(path, source):
                raise file_error(path, "is read here, so it must not be written over. Name another file.")


def write_predictions(predictions: Predictions, path: str | Path) -> None:
    """Write predictions under the standard names, in the format the ending says, whole or not at all.

    Parameters
    ----------
    predictions : Predictions
        What `read_predictions` gave.
    path : str or Path
        The file; it ends in one of `WRITABLE`.

    Examples
    --------
    >>> import tempfile
    >>> from abstain.formats import read_predictions
    >>> read = Predictions("mine", "", "", 2, loss=np.array([0.0, 2.0]), confidence=np.array([0.9, 0.5]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_predictions(read, f"{folder}/out.csv")
    ...     print(Path(f"{folder}/out.csv").read_text())
    confidence,loss
    0.9,0.0
    0.5,2.0
    """
    check_target(path, [predictions.path])
    ending = Path(path).suffix.lower()
    if ending not in WRITABLE:
        raise file_error(path, f"must end in one of {', '.join(WRITABLE)} to be written.")
    arrays = _named(predictions)
    with replacing(path) as stream:
        if ending == ".npz":
            fixed = {k: v.astype(str) if v.dtype.kind == "O" else v for k, v in arrays.items()}
            np.savez_compressed(stream, **fixed)  # type: ignore[arg-type]
        elif ending == ".safetensors":
            _safetensors(stream, arrays, predictions.classes)
        elif ending == ".json":
            stream.write(json.dumps({k: v.tolist() for k, v in arrays.items()}).encode())
        elif ending in (".parquet", ".arrow", ".feather"):
            _arrow(stream, ending, _columns(arrays))
        else:
            _text(stream, ending, _columns(arrays))


def _named(p: Predictions) -> dict[str, np.ndarray]:
    labels = p.label_words.texts() if p.labels is None and p.label_words is not None else p.labels
    values: dict[str, Any] = {"logits": p.logits, "probs": p.probs, "labels": labels}
    values |= {"id": _ids(p), "prediction": _prediction(p), "confidence": p.confidence}
    if p.loss is not None and p.loss_name == "zero_one":
        values["correct"] = (1 - p.loss).astype(np.int8)
    else:
        values["loss"] = p.loss
    values |= {"abstained": p.abstained, "group": p.group_labels(), "weight": p.sample_weight}
    values |= {"cluster": p.clusters, "classes": np.array(p.classes) if p.classes else None}
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def _ids(p: Predictions) -> np.ndarray | None:
    """What tells the samples apart, by which `compare` puts files in one order."""
    with suppress(DataError):  # text and numbers mixed: of no use as ids
        found = None if p.ids is None else plain_values(p.ids.texts or p.ids.load())
        return found if found is not None and found.shape == (p.n,) else None
    return None


def _prediction(p: Predictions) -> np.ndarray | None:
    """The answers, unless somebody judged them otherwise than word for word: `correct` says more then."""
    if p.prediction is None or (p.labels is None and p.label_words is None) or p.loss is None:
        return None
    labels, said = p.answers()
    judged = (labels != said) == (p.loss > 0)
    return said if (judged if p.abstained is None else judged | p.abstained).all() else None


def _columns(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One column per class, named after it; labels as the class names where there are any."""
    classes = arrays.pop("classes", np.array([], dtype=str)).astype(str)
    found: dict[str, np.ndarray] = {}
    for name, values in arrays.items():
        if values.ndim == 2:
            ends = classes if len(classes) == values.shape[1] else range(values.shape[1])
            found.update({f"{name.removesuffix('s')}_{e}": values[:, k] for k, e in enumerate(ends)})
        elif name == "labels" and len(classes) and values.dtype.kind in "iu" and "correct" not in arrays:
            found["label"] = classes[values]
        else:
            found["label" if name == "labels" else name] = values
    return found


def _text(stream: IO[bytes], ending: str, columns: dict[str, np.ndarray]) -> None:
    lists = {name: values.tolist() for name, values in columns.items()}
    if ending == ".jsonl":
        rows = (dict(zip(lists, row)) for row in zip(*lists.values()))
        stream.writelines(f"{json.dumps(row)}\n".encode() for row in rows)
    else:
        stream.write(as_csv(lists, delimiter="\t" if ending == ".tsv" else ",").encode())


def _arrow(stream: IO[bytes], ending: str, columns: dict[str, np.ndarray]) -> None:
    pa = needed("pyarrow", f"Writing a {ending} file", "files")
    plain = {name: v.tolist() if v.dtype.kind in "USO" else v for name, v in columns.items()}
    table = pa.table({name: pa.array(values) for name, values in plain.items()})
    if ending == ".parquet":
        needed("pyarrow.parquet", "Writing a parquet file", "files").write_table(table, stream)
        return
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)


def _safetensors(stream: IO[bytes], arrays: dict[str, np.ndarray], classes: tuple[str, ...]) -> None:
    header: dict[str, Any] = {"__metadata__": {"classes": json.dumps(classes)}} if classes else {}
    place, parts = 0, []
    for name, values in arrays.items():
        if name == "classes" or (name in ("id", "prediction") and values.dtype.kind in "OUS"):
            continue
        little = values.dtype.newbyteorder("<")
        if little.str not in _SAFE:
            raise DataError(
                f"safetensors holds numbers only, and `{name}` is text. Choose npz, parquet or csv."
            )
        raw = np.ascontiguousarray(values).astype(little, copy=False).tobytes()
        span = [place, place + len(raw)]
        header[name] = {"dtype": _SAFE[little.str], "shape": list(values.shape), "data_offsets": span}
        place += len(raw)
        parts.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of eight
    stream.write(len(text).to_bytes(8, "little") + text)
    stream.writelines(parts)
