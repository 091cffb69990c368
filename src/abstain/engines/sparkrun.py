"""How Spark executes the plan: `mapInArrow` for passes over partitions, `applyInArrow` for ranges."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from abstain.engines import cluster
from abstain.engines.cluster import Loader
from abstain.engines.finish import Ask, Part, Place
from abstain.engines.ranges import Columns, RangeSums, no_sums, split, together
from abstain.engines.sources import Fields
from abstain.engines.survey import Survey
from abstain.errors import DataError, InputError, MissingDependencyError

RANGE = "__abstain_range"
BLOB = "answer binary"
_TOGETHER = 1 << 20


def frame_of(name: str, data: Any, session: Any) -> Any:
    """A DataFrame, read by Spark if it is not one yet."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependencyError('engine="spark"', "pyspark", "spark") from None
    if hasattr(data, "mapInArrow"):
        return data
    active = session or SparkSession.getActiveSession()
    if active is None:
        raise InputError(f"{name}: no Spark session is active. Pass `session=` (or a DataFrame).")
    path = os.fspath(data)
    if path.endswith((".csv", ".csv.gz")):
        return active.read.csv(path, header=True, inferSchema=True)
    return active.read.parquet(path)


class Ranged(NamedTuple):
    """A frame's ranges: where they start, their sums, and their finished parts, most confident first."""

    survey: Survey
    cuts: np.ndarray
    sums: RangeSums
    parts: list[Part]

    def places(self) -> dict[int, Place]:
        """Of the ranges that hold samples."""
        return {number: cluster.place_of(self.sums, number) for number in cluster.downwards(self.sums)}


def execute(frame: Any, load: Loader, ask: Ask) -> Ranged:
    """Survey, sums by range, and every range finished where it lies."""
    survey = cluster.merge_surveys(_collected(frame, lambda batches: _surveyed(batches, load)))
    cores = frame.sparkSession.sparkContext.defaultParallelism
    cuts = cluster.plan_cuts(load.name, survey, ask, 2 * max(1, cores))
    summed = _collected(frame, lambda batches: _summed(batches, load, cuts))
    sums = cluster.sums_of([no_sums(len(cuts) + 1), *summed])
    numbers = cluster.downwards(sums)
    ties = {n: cluster.tied_part(sums, n, ask) for n in numbers if sums.tied[n]}
    places = {n: cluster.place_of(sums, n) for n in numbers if n not in ties}

    def finish(table: Any) -> Any:
        number = table.column(RANGE)[0].as_py()
        return blobs([(number, cluster.finish_range([load(table)], places[number], ask))])

    ranged = placed(frame, load, cuts, list(ties))
    answers = dict(read(ranged.groupBy(RANGE).applyInArrow(finish, BLOB)) if places else ())
    return Ranged(survey, cuts, sums, [ties[n] if n in ties else answers[n] for n in numbers])


def _surveyed(batches: Iterator[Any], load: Loader) -> Iterator[Survey]:
    """One histogram per task, however many batches it sees."""
    yield cluster.merge_surveys([cluster.survey_columns(columns) for columns in _gathered(batches, load)])


def _summed(batches: Iterator[Any], load: Loader, cuts: np.ndarray) -> Iterator[RangeSums]:
    total = no_sums(len(cuts) + 1)
    for columns in _gathered(batches, load):
        total = total.plus(split(columns, cuts)[1])
    yield total


def _gathered(batches: Iterator[Any], load: Loader) -> Iterator[Columns]:
    """Spark's batches are small: many together are worth the work done once for each."""
    waiting: list[Columns] = []
    for batch in batches:
        waiting.append(load(batch))
        if sum(columns.rows for columns in waiting) >= _TOGETHER:
            yield together(waiting)
            waiting = []
    if waiting:
        yield together(waiting)


def placed(frame: Any, load: Loader, cuts: np.ndarray, done: list[int]) -> Any:
    """Samples with the number of their range; those of ranges already told by their sums stay behind."""

    def place(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            number = np.searchsorted(cuts, load(batch).confidence, "right")
            fresh = batch.append_column(RANGE, pa.array(number.astype(np.int32)))
            yield fresh.filter(pa.array(~np.isin(number, done))) if done else fresh

    return frame.mapInArrow(place, _schema(frame, f"{RANGE} int"))


def _schema(frame: Any, more: str) -> str:
    columns = [f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields]
    return ", ".join([*columns, more])


def _collected(frame: Any, work: Callable[[Iterator[Any]], Iterator[Any]]) -> list[Any]:
    """What `work` makes of the batches of each task."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for answer in work(batches):
            yield from blobs([answer]).to_batches()

    return read(frame.mapInArrow(run, BLOB))


def blobs(answers: list[Any]) -> Any:
    """Answers as a table that Spark can carry."""
    import pyarrow as pa

    return pa.table({"answer": pa.array([pickle.dumps(a) for a in answers], pa.binary())})


def read(frame: Any) -> list[Any]:
    """Answers of our own tasks."""
    return [pickle.loads(bytes(row["answer"])) for row in frame.collect()]


def named(name: str, frame: Any, fields: Fields, error: Exception) -> Exception:
    """A value that cannot be ranked, with the file and row it stands in; any other error as it is."""
    if "No module named 'abstain'" in str(error):
        return InputError(
            f"{name}: the Python of the executors has no `abstain`. Install it there, and set PYSPARK_PYTHON to that "
            f"Python before the session starts (on one machine: {sys.executable})."
        )
    if "must be finite" not in str(error) and "missing value" not in str(error):
        return error
    from pyspark.sql import functions as F

    for field in fields.names:
        kind = dict(frame.dtypes)[field]
        bad = F.col(field).isNull()
        if kind in ("float", "double"):
            bad = bad | F.isnan(field) | (F.abs(F.col(field)) == float("inf"))
        where = frame.where(bad)
        try:
            first = where.select("_metadata.file_path", "_metadata.row_index", field).first()
        except Exception:  # not read from files, or files that do not count their rows
            first = where.select(F.input_file_name(), F.lit(None), field).first()
        if first is not None:
            row = "" if first[1] is None else f", row {first[1]}"
            return DataError(
                f"{name}: `{field}` must be finite, got {first[2]} in {first[0] or 'the DataFrame'}{row}. "
                f"A sample without it cannot be ranked: drop the row."
            )
    return error
