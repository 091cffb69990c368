"""Predictions and tables written in the format that the name says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from abstain._outputs import ENDINGS, check_ending, check_target, ending_of, replacing
from abstain._tables import csv_text
from abstain.errors import DataError, import_optional
from abstain.formats.predictions import Predictions, plain_values
from abstain.formats.tensor_files import SAFETENSORS

WRITABLE = ENDINGS["predictions"]
"""Endings that `write_predictions` knows."""
_SAFE = {code: name for name, code in SAFETENSORS.items() if name != "BF16"}


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
    check_ending(path, "predictions")
    ending = ending_of(path)
    arrays = _named(predictions)
    with replacing(path) as stream:
        if ending == ".npz":
            fixed = {k: v.astype(str) if v.dtype.kind == "O" else v for k, v in arrays.items()}
            np.savez_compressed(stream, **fixed)  # type: ignore[arg-type]
        elif ending == ".safetensors":
            _safetensors(stream, arrays, predictions.classes)
        elif ending == ".json":
            stream.write(json.dumps({k: v.tolist() for k, v in arrays.items()}).encode())
        else:
            _write_columns(stream, ending, _columns(arrays))


def write_table(columns: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Write columns of one length as the table that the ending of the name says; without an ending as CSV.

    Parameters
    ----------
    columns : dict of arrays
        Vectors of numbers or texts by their names.
    path : str or Path
        The file, written whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"accepted": np.array([1, 0])}, f"{folder}/decided.jsonl")
    ...     print(Path(f"{folder}/decided.jsonl").read_text(), end="")
    {"accepted": 1}
    {"accepted": 0}
    """
    check_ending(path, "table")
    with replacing(path) as stream:
        _write_columns(stream, ending_of(path), columns)


def _write_columns(stream: IO[bytes], ending: str, columns: Mapping[str, np.ndarray]) -> None:
    if ending in (".parquet", ".arrow", ".feather"):
        _arrow(stream, ending, columns)
    elif ending == ".json":
        stream.write(json.dumps(_cells(columns)).encode())
    else:
        stream.write(_text(ending, columns).encode())


def table_text(columns: Mapping[str, np.ndarray]) -> str:
    """The CSV that `write_table` writes, for standard output."""
    return _text(".csv", columns)


def _cells(columns: Mapping[str, np.ndarray]) -> dict[str, list[Any]]:
    """Columns as lists; a missing number is None, since JSON has no NaN and a table shows an empty cell."""
    return {name: [None if x != x else x for x in values.tolist()] for name, values in columns.items()}


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


def _text(ending: str, columns: Mapping[str, np.ndarray]) -> str:
    lists = _cells(columns)
    if ending == ".jsonl":
        return "".join(f"{json.dumps(dict(zip(lists, row)))}\n" for row in zip(*lists.values()))
    return csv_text(lists, delimiter="\t" if ending == ".tsv" else ",")


def _arrow(stream: IO[bytes], ending: str, columns: Mapping[str, np.ndarray]) -> None:
    pa = import_optional("pyarrow", f"Writing a {ending} file", "files")
    plain = {name: v.tolist() if v.dtype.kind in "USO" else v for name, v in columns.items()}
    table = pa.table({name: pa.array(values) for name, values in plain.items()})
    if ending == ".parquet":
        import_optional("pyarrow.parquet", "Writing a parquet file", "files").write_table(table, stream)
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
