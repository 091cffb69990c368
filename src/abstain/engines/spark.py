"""Exact metrics by Spark: the plan as `mapInArrow` and `applyInArrow`, from local threads to an existing cluster.

Three scans: a histogram of the confidences, sums by range, and the ranges themselves, each finished by the task that
holds it. Only histograms and sums come to the driver; lost tasks are done again by Spark.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from abstain.engines import cluster
from abstain.engines.asking import ask_for, fields_for
from abstain.engines.cluster import Loader
from abstain.engines.finish import Ask, Part
from abstain.engines.local import needs_oracle_pass, oracle_ask
from abstain.engines.ranges import Columns, RangeSums, no_sums, split, together
from abstain.engines.sources import Fields
from abstain.engines.summary import Summary, summarise
from abstain.engines.survey import Survey
from abstain.errors import DataError, InputError, MissingDependencyError

_RANGE = "__abstain_range"
_BLOB = "answer binary"
_TOGETHER = 1 << 20


def evaluate(
    data: Any,
    /,
    *,
    session: Any = None,
    estimator: str = "harmonic",
    ties: str = "threshold",
    coverages: Sequence[float] = (),
    risks: Sequence[float] = (),
    points: int = 0,
    **columns: Any,
) -> Summary:
    """Every area with its standard error, and points of the curve, exactly.

    Parameters
    ----------
    data : DataFrame or path
        A Spark DataFrame, or the path of Parquet or CSV files (with a header) that the executors can read.
    session : SparkSession, optional
        Needed to read a path when no session is active.
    coverages, risks, points, estimator, ties
        As in `abstain.engines.files.evaluate`.
    confidence, loss, sample_weight, logits, label, score, loss_name : str
        Names of columns, as there.

    Returns
    -------
    Summary
    """
    name = "spark.evaluate"
    ask = ask_for(name, estimator, ties, True, coverages, risks, points)
    return _summary(name, data, session, fields_for(name, columns), ask)


def aurc(
    data: Any, /, *, session: Any = None, estimator: str = "harmonic", ties: str = "threshold", **columns: Any
) -> float:
    """Area under the risk-coverage curve; lower is better. Options as in `evaluate`."""
    ask = ask_for("spark.aurc", estimator, ties, False)
    return _summary("spark.aurc", data, session, fields_for("spark.aurc", columns), ask)["aurc"].estimate


def _summary(name: str, data: Any, session: Any, fields: Fields, ask: Ask) -> Summary:
    whole = _frame(name, data, session)
    frame = whole.select(*fields.names)
    load = Loader(name, fields)
    try:
        survey, sums, parts = _execute(frame, load, ask)
        oracle = None
        if needs_oracle_pass(ask, survey.zero_one, survey.weighted):
            oracle = _execute(frame, load._replace(by_loss=True), oracle_ask(ask, survey.whole))[2]
    except Exception as error:
        raise _named(name, whole, fields, error) from error
    return summarise(sums, parts, ask, oracle)


def _frame(name: str, data: Any, session: Any) -> Any:
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


def _execute(frame: Any, load: Loader, ask: Ask) -> tuple[Survey, RangeSums, list[Part]]:
    survey = cluster.merge_surveys(_collected(frame, lambda batches: _surveyed(batches, load)))
    cores = frame.sparkSession.sparkContext.defaultParallelism
    cuts = cluster.plan_cuts(load.name, survey, ask, 2 * max(1, cores))
    sums = cluster.sums_of(
        [no_sums(len(cuts) + 1), *_collected(frame, lambda batches: _summed(batches, load, cuts))]
    )
    ties = {n: cluster.tied_part(sums, n, ask) for n in cluster.downwards(sums) if sums.tied[n]}
    placed = frame.mapInArrow(_placing(load, cuts, ties), _schema(frame, f"{_RANGE} int"))
    places = {n: cluster.place_of(sums, n) for n in cluster.downwards(sums) if n not in ties}

    def finish(table: Any) -> Any:
        number = table.column(_RANGE)[0].as_py()
        part = cluster.finish_range([load(table)], places[number], ask)
        return _blobs([(number, part)])

    answers = dict(_read(placed.groupBy(_RANGE).applyInArrow(finish, _BLOB)) if places else ())
    return survey, sums, [ties[n] if n in ties else answers[n] for n in cluster.downwards(sums)]


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


def _placing(load: Loader, cuts: np.ndarray, ties: Any) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Samples with the number of their range; those of ranges already told by their sums stay behind."""
    done = np.asarray(sorted(ties), dtype=np.int64)

    def place(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            number = np.searchsorted(cuts, load(batch).confidence, "right")
            fresh = batch.append_column(_RANGE, pa.array(number.astype(np.int32)))
            yield fresh.filter(pa.array(~np.isin(number, done))) if len(done) else fresh

    return place


def _schema(frame: Any, more: str) -> str:
    columns = [f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields]
    return ", ".join([*columns, more])


def _collected(frame: Any, work: Callable[[Iterator[Any]], Iterator[Any]]) -> list[Any]:
    """What `work` makes of the batches of each task."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for answer in work(batches):
            yield from _blobs([answer]).to_batches()

    return _read(frame.mapInArrow(run, _BLOB))


def _blobs(answers: list[Any]) -> Any:
    import pyarrow as pa

    return pa.table({"answer": pa.array([pickle.dumps(a) for a in answers], pa.binary())})


def _read(frame: Any) -> list[Any]:
    """Answers of our own tasks."""
    return [pickle.loads(bytes(row["answer"])) for row in frame.collect()]


def _named(name: str, frame: Any, fields: Fields, error: Exception) -> Exception:
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


def on(session: Any) -> Any:
    """For `abstain.evaluate(path, engine=abstain.engines.spark.on(session))`; a DataFrame needs no session."""
    from abstain.engines.evaluating import engine

    return engine(partial(evaluate, session=session))


def _register() -> None:
    from abstain.evaluation import register_engine

    register_engine("spark", on(None))


_register()
