"""Samples as Spark carries them: loss, confidence, weight, what travels along, and the range they go to."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from abstain.engines.cluster import Groups, Loader, merged
from abstain.engines.ranges import Columns
from abstain.engines.slots import Bundle, Slots, by_number, numbered
from abstain.engines.survey import Survey

BLOB = "answer binary"
BUNDLE = "bundle"
_SLOT = "slot"
_TOGETHER = 1 << 20  # samples worth the work done once for each partition
_CHUNK = 1 << 16  # samples handed to Spark at a time


def gathered(parts: Iterable[Any], load: Loader) -> Iterator[Groups]:
    """Spark's batches are small: many together are worth the work done once for each."""
    waiting: list[Groups] = []
    rows = 0
    for batch in parts:
        waiting.append(load(batch))
        rows += sum(columns.rows for columns in waiting[-1].values())
        if rows >= _TOGETHER:
            yield merged(waiting)
            waiting, rows = [], 0
    if waiting:
        yield merged(waiting)


def schema(survey: Survey, weighted: bool, extra: int) -> str:
    """Columns of samples on their way, no wider than they must be."""
    loss, confidence = "boolean" if survey.zero_one else "double", "double" if survey.wide else "float"
    more = [*(["w double"] if weighted else []), *(f"x{i} double" for i in range(extra))]
    return ", ".join([f"l {loss}, g {confidence}", *more, f"{_SLOT} int, {BUNDLE} int"])


def as_table(groups: Groups, slots: Slots, survey: Survey, done: Iterable[int] = ()) -> Any:
    """Samples with slot and bundle; those of slots that are done stay behind."""
    import pyarrow as pa

    columns, number = numbered(groups, slots)
    left = np.flatnonzero(~np.isin(number, list(done)))
    columns, number = columns.take(left), number[left]
    loss = columns.loss if survey.zero_one else columns.loss.astype(np.float64)
    confidence = columns.confidence.astype(np.float64 if survey.wide else np.float32, copy=False)
    found: dict[str, Any] = {"l": loss, "g": confidence}
    if columns.weight is not None:
        found["w"] = columns.weight
    if columns.extra is not None:
        found |= {f"x{i}": row for i, row in enumerate(columns.extra)}
    places = {_SLOT: number.astype(np.int32), BUNDLE: slots.bundle[number].astype(np.int32)}
    return pa.table(found | places)


def in_batches(table: Any) -> list[Any]:
    """Small enough for Spark's buffers."""
    return list(table.to_batches(max_chunksize=_CHUNK))


def of_table(table: Any) -> Bundle:
    """The inverse of `as_table`: samples by slot."""

    def column(name: str) -> np.ndarray:
        return np.asarray(table.column(name).to_numpy())

    names = table.column_names
    extra = [column(name) for name in names if name.startswith("x")]
    weight = column("w") if "w" in names else None
    columns = Columns(column("l"), column("g"), weight, np.stack(extra) if extra else None)
    return by_number(columns, column(_SLOT))


def blobs(answers: list[Any]) -> Any:
    """Answers as a table that Spark can carry."""
    import pyarrow as pa

    return pa.table({"answer": pa.array([pickle.dumps(a) for a in answers], pa.binary())})


def answers_in(batch: Any) -> list[Any]:
    """Answers of our own tasks."""
    return [pickle.loads(value) for value in batch.column("answer").to_pylist()]
