"""Write predictions and tables in the format that the ending of the file's name says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from abstain._outputs import ENDINGS, check_ending, check_target, ending_of, replacing
from abstain._tables import csv_text
from abstain.errors import DataError, import_optional
from abstain.formats.columns import as_array
from abstain.formats.predictions import Predictions
from abstain.formats.tensor_files import SAFETENSORS_TYPES

WRITABLE = ENDINGS["predictions"]
"""Endings that `write_predictions` knows."""
# Name of a type in numpy -> that of safetensors.
_SAFETENSORS_NAMES = {code: name for name, code in SAFETENSORS_TYPES.items() if name != "BF16"}
_DATA_ALIGNMENT = 8  # bytes; the numbers of a safetensors file begin at a multiple of it


def write_predictions(predictions: Predictions, path: str | Path) -> None:
    """Write predictions under the standard names, in the format the ending says, whole or not at all.

    Parameters
    ----------
    predictions : Predictions
        What `read_predictions` gave.
    path : str or Path
        The file; it ends in one of `WRITABLE`, and is replaced where it exists.

    Raises
    ------
    AbstainError
        The ending is not known, the path is the file that the predictions were read from, or the format cannot hold
        them (text in safetensors).

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
    check_target(path, [predictions.path])  # raises where the file would replace the one that was read
    check_ending(path, "predictions")
    ending = ending_of(path)
    arrays = _collect_arrays(predictions)  # by the standard names; "logits" and "probs" are matrices
    with replacing(path) as stream:  # a stream of bytes to a file that takes the place of `path` at the end
        if ending == ".npz":
            _write_npz(stream, arrays)
        elif ending == ".safetensors":
            _write_safetensors(stream, arrays, predictions.classes)
        elif ending == ".json":
            lists = {name: values.tolist() for name, values in arrays.items()}
            stream.write(json.dumps(lists).encode())
        else:
            _write_columns(stream, ending, _columns_per_class(arrays))


def write_table(columns: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Write columns of one length as the table that the ending of the name says; without an ending as CSV.

    Parameters
    ----------
    columns : dict of arrays
        Vectors of numbers or texts by their names.
    path : str or Path
        The file, written whole or not at all; it is replaced where it exists. AbstainError where its ending is not
        known.

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
    # a stream of bytes to a file that takes the place of `path` at the end, unless something is raised before
    with replacing(path) as stream:
        _write_columns(stream, ending_of(path), columns)


def _write_columns(stream: IO[bytes], ending: str, columns: Mapping[str, np.ndarray]) -> None:
    """Write vectors of one length by the ending of a name; csv for every ending that is not known."""
    if ending in (".parquet", ".arrow", ".feather"):
        _write_arrow(stream, ending, columns)
    elif ending == ".json":
        stream.write(json.dumps(_columns_as_lists(columns)).encode())
    else:
        stream.write(_format_text(ending, columns).encode())


def table_text(columns: Mapping[str, np.ndarray]) -> str:
    """Return the CSV that `write_table` writes, for standard output."""
    return _format_text(".csv", columns)


def _columns_as_lists(columns: Mapping[str, np.ndarray]) -> dict[str, list[Any]]:
    """Return columns as lists; NaN becomes None, since JSON has no NaN and a table shows an empty cell."""
    return {
        name: [None if value != value else value for value in values.tolist()]  # NaN is not equal to itself
        for name, values in columns.items()
    }


def _collect_arrays(predictions: Predictions) -> dict[str, np.ndarray]:
    """Return what predictions hold as arrays, by the standard column names that `read_predictions` knows.

    Losses of right and wrong answers become the column "correct" (1 right, 0 wrong), all others (partial credit too)
    the column "loss". What the predictions do not have is left out, and so are ids unless there is one per sample.
    "classes", the class names, is the only array without one entry per sample. Labels that are words are in
    `label_words` instead of `labels`. Confidences beside the first are not written.
    """
    labels: np.ndarray | None = predictions.labels
    if labels is None and predictions.label_words is not None:
        labels = predictions.label_words.texts()
    arrays: dict[str, np.ndarray | None] = {  # in the order of the columns of a file
        "logits": predictions.logits,
        "probs": predictions.probs,
        "labels": labels,
        "id": _find_ids(predictions),
        "prediction": _find_predictions(predictions),  # None where answers and losses contradict each other
        "confidence": predictions.confidence,
    }
    if predictions.loss is not None and predictions.loss_name == "zero_one":
        arrays["correct"] = (1 - predictions.loss).astype(np.int8)  # losses are 0 or 1, without NaN
    else:
        arrays["loss"] = predictions.loss
    arrays["abstained"] = predictions.abstained
    arrays["unanswerable"] = predictions.unanswerable
    arrays["group"] = predictions.group_labels()
    arrays["weight"] = predictions.sample_weight
    clusters = predictions.clusters
    # two kinds; they are read back by -c clusters=cluster_1,cluster_2
    if clusters is not None and clusters.ndim == 2:
        arrays["cluster_1"] = clusters[:, 0].astype(str)
        arrays["cluster_2"] = clusters[:, 1].astype(str)
    else:
        arrays["cluster"] = clusters
    arrays["classes"] = np.array(predictions.classes) if predictions.classes else None
    return {name: np.asarray(values) for name, values in arrays.items() if values is not None}


def _find_ids(predictions: Predictions) -> np.ndarray | None:
    """Return the ids by which `compare` puts files in one order; None where there is not one for each sample."""
    if predictions.ids is None:
        return None
    try:
        ids = as_array(predictions.ids.texts or predictions.ids.load())
    except DataError:  # a column that mixes text and numbers, which is of no use as ids
        return None
    return ids if ids.shape == (predictions.n,) else None


def _find_predictions(predictions: Predictions) -> np.ndarray | None:
    """Return the column of the model's answers, if each is wrong exactly where it differs from its label.

    None where there are no answers, labels or losses, or where a judge decided otherwise in some row: the written
    answers and labels would contradict the column `correct`. Rows that abstained do not count. Labels that are words
    are in `label_words` instead of `labels`. `loss` is 0 for right and above 0 for wrong.
    """
    has_labels = predictions.labels is not None or predictions.label_words is not None
    if predictions.prediction is None or not has_labels or predictions.loss is None:
        return None
    # one entry per sample, by name where classes have names
    labels, answers = predictions.true_and_given_classes()
    agrees = (labels != answers) == (predictions.loss > 0)  # in each row
    if predictions.abstained is not None:
        agrees = agrees | predictions.abstained
    return answers if agrees.all() else None


def _columns_per_class(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays as columns of a table, and remove "classes" from `arrays`.

    A matrix of logits or probs becomes a column per class: `logit_cat`, or `prob_0` where classes have no names. Labels
    are written under "label", by class name where classes have names, unless there is a column "correct". Labels are
    class numbers from 0, words, or one-hot rows. DataError where a label is not the number of a class that has a name.
    """
    classes = arrays.pop("classes", np.array([], dtype=str)).astype(str)
    columns: dict[str, np.ndarray] = {}
    for name, values in arrays.items():
        if values.ndim == 2:
            class_count = values.shape[1]
            suffixes = classes if len(classes) == class_count else range(class_count)
            prefix = name.removesuffix("s")  # "logit" or "prob", or "label" of one-hot rows
            columns |= {f"{prefix}_{suffix}": values[:, k] for k, suffix in enumerate(suffixes)}
        elif name == "labels" and len(classes) and values.dtype.kind in "iu" and "correct" not in arrays:
            is_no_class = (values < 0) | (values >= len(classes))
            if is_no_class.any():  # -1 would be written as the last class
                row = int(np.argmax(is_no_class))
                raise DataError(
                    f"labels must be whole numbers from 0 to {len(classes) - 1}, got {values[row]} in row {row + 1}."
                )
            columns["label"] = classes[values]  # the names of the class numbers
        else:
            columns["label" if name == "labels" else name] = values
    return columns


def _format_text(ending: str, columns: Mapping[str, np.ndarray]) -> str:
    """Return columns as JSON lines (.jsonl), as tab-separated (.tsv) or as comma-separated values."""
    lists = _columns_as_lists(columns)
    if ending == ".jsonl":
        return "".join(f"{json.dumps(dict(zip(lists, row)))}\n" for row in zip(*lists.values()))
    return csv_text(lists, delimiter="\t" if ending == ".tsv" else ",")


def _write_arrow(stream: IO[bytes], ending: str, columns: Mapping[str, np.ndarray]) -> None:
    """Write columns of one length as parquet (`ending` ".parquet"), or as an Arrow IPC file for any other ending.

    MissingDependencyError without pyarrow, whose message names the extra "files". `stream` is a stream of bytes, which
    the caller closes.
    """
    pyarrow = import_optional("pyarrow", feature=f"Writing a {ending} file", extra="files")
    arrow_columns = {}
    for name, values in columns.items():
        # numpy's texts of fixed width, or Python's in an array of objects
        is_text = values.dtype.kind in "USO"
        arrow_columns[name] = pyarrow.array(values.tolist() if is_text else values)
    table = pyarrow.table(arrow_columns)
    if ending == ".parquet":
        parquet = import_optional("pyarrow.parquet", feature="Writing a parquet file", extra="files")
        parquet.write_table(table, stream)
        return
    with pyarrow.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)


def _write_npz(stream: IO[bytes], arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as npz; arrays of objects become fixed-width text, since objects would be pickled."""
    fixed_width = {
        name: values.astype(str) if values.dtype.kind == "O" else values for name, values in arrays.items()
    }
    np.savez_compressed(stream, **fixed_width)  # type: ignore[arg-type]


def _write_safetensors(stream: IO[bytes], arrays: dict[str, np.ndarray], classes: tuple[str, ...]) -> None:
    """Write arrays as safetensors: the length of the header (8 bytes), the header as JSON, then the numbers.

    The header gives the type, the shape and the position of each array, and is padded with blanks so that numbers begin
    at a multiple of 8 bytes. Class names go to its metadata; ids and predictions that are text are left out. DataError
    for other text, and for numbers of a type that the format does not have. `_SAFETENSORS_NAMES` maps numpy's type to
    that of the format ("<f4" -> "F32").
    """
    header: dict[str, Any] = {}
    if classes:
        header["__metadata__"] = {"classes": json.dumps(classes)}
    position = 0  # in bytes, after the header
    parts = []
    for name, values in arrays.items():
        is_text = values.dtype.kind in "OUS"
        is_optional_text = is_text and name in ("id", "prediction")
        if name == "classes" or is_optional_text:
            continue
        little_endian = values.dtype.newbyteorder("<")
        if little_endian.str not in _SAFETENSORS_NAMES:
            raise DataError(
                f"safetensors holds numbers only, and `{name}` is text. Choose npz, parquet or csv."
            )
        data = np.ascontiguousarray(values).astype(little_endian, copy=False).tobytes()
        header[name] = {
            "dtype": _SAFETENSORS_NAMES[little_endian.str],
            "shape": list(values.shape),
            "data_offsets": [position, position + len(data)],  # the end is the first byte after it
        }
        position += len(data)
        parts.append(data)
    header_text = json.dumps(header).encode()
    header_text += b" " * (-len(header_text) % _DATA_ALIGNMENT)  # blanks up to a multiple of 8 bytes
    stream.write(len(header_text).to_bytes(8, "little") + header_text)
    stream.writelines(parts)
