"""Exact metrics by Spark: the plan as `mapInArrow` and `applyInArrow`, from local threads to an existing cluster.

Three scans: a histogram of the confidences, sums by range, and the ranges themselves, each finished by the task that
holds it. Only histograms and sums come to the driver; lost tasks are done again by Spark.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from abstain import errors
from abstain._progress import Bars, bars
from abstain.engines import cluster
from abstain.engines.cluster import Bundle, Found, Groups, Loader, Numbering
from abstain.engines.engine import Engine
from abstain.engines.finish import Answer, Ask, Finished, PairQuestion
from abstain.engines.paired import turned
from abstain.engines.ranges import Columns, RangeSums, Survey, joined_columns, no_sums
from abstain.engines.read import Fields, find_files, holds_data, kind_of, told_by_path
from abstain.errors import DataError, InputError, MissingDependencyError
from abstain.evaluation import Comparison, Evaluation, register_engine

__all__ = [
    *("augrc", "aurc", "compare", "coverage_at_risk", "e_aurc", "evaluate", "naurc", "on", "risk"),
    *("risk_at_coverage", "risk_coverage_curve"),
]


_SECONDS = 0.2  # between two looks
_JOB = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@contextmanager
def watched(context: Any, bars: Bars, stage: str) -> Iterator[None]:
    """Follow the jobs started inside, task by task, where there is something to be seen."""
    if not bars.shown:
        yield
        return
    before = {key: context.getLocalProperty(key) for key in _JOB}
    group = f"abstain-{uuid.uuid4().hex}"
    context.setJobGroup(group, f"abstain: {stage}")
    tracker, over = context.statusTracker(), threading.Event()

    def look() -> None:
        while not over.wait(_SECONDS):
            bars.set(stage, *_tasks(tracker, group))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for key, value in before.items():  # the user's own job group comes back
            context.setLocalProperty(key, value)
    total = max(_tasks(tracker, group)[1], 1)
    bars.set(stage, total, total)


def _tasks(tracker: Any, group: str) -> tuple[int, int]:
    """Finished and all tasks of a job group, as far as Spark has planned them."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
    known = [stage for stage in stages if stage]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


def named(name: str, frame: Any, fields: Fields, error: Exception) -> Exception:
    """An error of our own in a task, as itself; a value that cannot be ranked with its file and row."""
    text = str(error)
    if "No module named 'abstain'" in text:
        return InputError(
            f"{name}: the Python of the executors has no `abstain`. Install it there, and set PYSPARK_PYTHON to that "
            f"Python before the session starts (on one machine: {sys.executable})."
        )
    located = _located(name, frame, fields) if "must be finite" in text or "missing value" in text else None
    if located is not None:
        return located
    own = re.search(r"^abstain\.errors\.(\w+): (.+)$", text, re.MULTILINE)
    kind = getattr(errors, own[1], None) if own else None
    return kind(own[2]) if own and kind else error


def _located(name: str, frame: Any, fields: Fields) -> Exception | None:
    from pyspark.sql import functions as F

    for field in [f for f in fields.names if f != fields.group]:
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
    return None


# samples on their way -------------------------------------------------------------------------------------


BLOB = "answer binary"
BUNDLE = "bundle"
_RANGE = "range"
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
            yield cluster.merged(waiting)
            waiting, rows = [], 0
    if waiting:
        yield cluster.merged(waiting)


def schema(survey: Survey, weighted: bool, extra: int) -> str:
    """Columns of samples on their way, no wider than they must be."""
    loss, confidence = "boolean" if survey.zero_one else "double", "double" if survey.wide else "float"
    more = [*(["w double"] if weighted else []), *(f"x{i} double" for i in range(extra))]
    return ", ".join([f"l {loss}, g {confidence}", *more, f"{_RANGE} int, {BUNDLE} int"])


def as_table(groups: Groups, numbering: Numbering, survey: Survey, done: Iterable[int] = ()) -> Any:
    """Samples with range and bundle; those of ranges that are done stay behind."""
    import pyarrow as pa

    columns, number = cluster.numbered(groups, numbering)
    left = np.flatnonzero(~np.isin(number, list(done)))
    columns, number = columns.take(left), number[left]
    loss = columns.loss if survey.zero_one else columns.loss.astype(np.float64)
    confidence = columns.confidence.astype(np.float64 if survey.wide else np.float32, copy=False)
    found: dict[str, Any] = {"l": loss, "g": confidence}
    if columns.weight is not None:
        found["w"] = columns.weight
    if columns.extra is not None:
        found |= {f"x{i}": row for i, row in enumerate(columns.extra)}
    places = {_RANGE: number.astype(np.int32), BUNDLE: numbering.bundle[number].astype(np.int32)}
    return pa.table(found | places)


def in_batches(table: Any) -> list[Any]:
    """Small enough for Spark's buffers."""
    return list(table.to_batches(max_chunksize=_CHUNK))


def of_table(table: Any) -> Bundle:
    """The inverse of `as_table`: samples by range."""

    def column(name: str) -> np.ndarray:
        return np.asarray(table.column(name).to_numpy())

    names = table.column_names
    extra = [column(name) for name in names if name.startswith("x")]
    weight = column("w") if "w" in names else None
    columns = Columns(column("l"), column("g"), weight, np.stack(extra) if extra else None)
    return cluster.by_number(columns, column(_RANGE))


def blobs(answers: list[Any]) -> Any:
    """Answers as a table that Spark can carry."""
    import pyarrow as pa

    return pa.table({"answer": pa.array([pickle.dumps(a) for a in answers], pa.binary())})


def answers_in(batch: Any) -> list[Any]:
    """Answers of our own tasks."""
    return [pickle.loads(value) for value in batch.column("answer").to_pylist()]


# the run --------------------------------------------------------------------------------------------------


_GUESS = "spark.sql.sources.partitionColumnTypeInference.enabled"
_FAN_IN = 16  # answers merged at a time


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
    files = _listed(name, active, data)
    kinds = {kind_of(file) for file in files}
    if kinds != {"parquet"} and kinds != {"csv"}:
        raise DataError(f"{name}: Spark takes Parquet files or CSV files, got {' and '.join(sorted(kinds))}.")
    bases = {file[: file.rfind("/", 0, file.index("="))] for file in files if told_by_path(file)}
    reader = active.read.option("basePath", *bases) if len(bases) == 1 else active.read
    with _as_text(active):  # what folders tell is text in every engine
        return (
            reader.csv(files, header=True, inferSchema=True) if kinds == {"csv"} else reader.parquet(*files)
        )


def _listed(name: str, active: Any, data: Any) -> list[str]:
    """The files that every engine would read; of a place that only Hadoop knows (hdfs://, s3a://), by its listing."""
    try:
        return find_files(name, data)
    except DataError:
        if not isinstance(data, (str, os.PathLike)):
            raise
        root = active._jvm.org.apache.hadoop.fs.Path(os.fspath(data))
        system = root.getFileSystem(active._jsc.hadoopConfiguration())
        if not system.exists(root):
            raise
        files, found = system.listFiles(root, True), []
        top = PurePosixPath(system.resolvePath(root).toString())
        while files.hasNext():
            found.append(files.next().getPath().toString())
        below = [f for f in found if holds_data(PurePosixPath(f).relative_to(top))]
        if not below:
            raise
        return sorted(below)


@contextmanager
def _as_text(active: Any) -> Iterator[None]:
    before = active.conf.get(_GUESS)
    active.conf.set(_GUESS, "false")
    try:
        yield
    finally:
        active.conf.set(_GUESS, before)


class SparkRun:
    """The plan over one DataFrame."""

    def __init__(self, frame: Any, bars: Bars) -> None:
        self.frame, self.bars = frame, bars

    def execute(self, load: Loader, ask: Ask, stage: str = "") -> Found:
        """Survey, sums by range, and every range finished where it lies."""
        plain = load._replace(other=None)
        survey = self._survey(plain, f"{stage}survey")
        cores = self.frame.sparkSession.sparkContext.defaultParallelism
        numbering = cluster.plan(load.name, survey, ask, 2 * max(1, cores))
        sums = self._sums(plain, numbering, f"{stage}sums")
        parts = self._finished(plain, survey, numbering, sums, ask, f"{stage}finish")
        return Found(survey, numbering, sums, parts, ask)

    def _survey(self, load: Loader, stage: str) -> Survey:
        def work(batches: Iterator[Any]) -> Iterator[Survey]:
            for groups in gathered(batches, load):
                yield cluster.survey_groups(groups, load.name)

        def merge(surveys: list[Survey]) -> Survey:
            return cluster.merge_surveys(surveys, load.name)

        return self._merged(work, merge, stage) or Survey()

    def _sums(self, load: Loader, numbering: Numbering, stage: str) -> RangeSums:
        def work(batches: Iterator[Any]) -> Iterator[RangeSums]:
            for groups in gathered(batches, load):
                yield cluster.bundled(groups, numbering)[1]

        return self._merged(work, cluster.sums_of, stage) or no_sums(numbering.total)

    def _merged(
        self, work: Callable[[Iterator[Any]], Iterator[Any]], merge: Callable[[list[Any]], Any], stage: str
    ) -> Any:
        """What `work` makes of the partitions, merged in each task and then in one: one answer comes here."""

        def first(batches: Iterator[Any]) -> Iterator[Any]:
            yield from _one(work(batches), merge)

        def then(batches: Iterator[Any]) -> Iterator[Any]:
            yield from _one((answer for batch in batches for answer in answers_in(batch)), merge)

        found = self._read(self.frame.mapInArrow(first, BLOB).repartition(1).mapInArrow(then, BLOB), stage)
        return found[0] if found else None

    def _finished(
        self, load: Loader, survey: Survey, numbering: Numbering, sums: RangeSums, ask: Ask, stage: str
    ) -> dict[int, Finished]:
        places = numbering.places(sums)
        parts = cluster.told_by_sums(sums, places, ask)
        left = {number: place for number, place in places.items() if number not in parts}

        def finish(table: Any) -> Any:
            return blobs([cluster.finish_bundle([of_table(table)], left, ask)])

        if left:
            moved = self._moved(load, numbering, survey, list(parts))
            for found in self._read(moved.groupBy(BUNDLE).applyInArrow(finish, BLOB), stage):
                parts |= found
        return parts

    def _moved(self, load: Loader, numbering: Numbering, survey: Survey, done: list[int]) -> Any:
        """Samples on their way to their ranges."""

        def place(batches: Iterator[Any]) -> Iterator[Any]:
            for groups in gathered(batches, load):
                if groups:
                    yield from in_batches(as_table(groups, numbering, survey, done))

        extra = 0 if load.other is None else 2
        return self.frame.mapInArrow(place, schema(survey, bool(load.fields.weight), extra))

    def joint(self, one: Found, two: Found, load: Loader, rates: tuple[float, float]) -> np.ndarray:
        """Samples go from the bundles of one to the bundles of two, their first influence in hand."""
        at_one, at_two, numbering, ask = one.standings(), two.standings(), two.numbering, two.ask
        wide = Survey(zero_one=False, wide=True)

        def turn(table: Any) -> Any:
            columns = joined_columns([turned(part, at_one[number], ask) for number, part in of_table(table)])
            return as_table({None: columns}, numbering, wide)

        def add(table: Any) -> Any:
            return blobs([cluster.joint_bundle([of_table(table)], at_two, ask, rates)])

        moved = self._moved(load, one.numbering, one.survey, [])
        turning = moved.groupBy(BUNDLE).applyInArrow(turn, schema(wide, bool(load.fields.weight), 1))
        return np.sum(self._read(turning.groupBy(BUNDLE).applyInArrow(add, BLOB), "joint"), axis=0)

    def _read(self, frame: Any, stage: str) -> list[Any]:
        with watched(self.frame.sparkSession.sparkContext, self.bars, stage):
            return [pickle.loads(bytes(row["answer"])) for row in frame.collect()]


def _one(answers: Iterator[Any], merge: Callable[[list[Any]], Any]) -> Iterator[Any]:
    """All answers in one, merged a few at a time; nothing of nothing."""
    waiting: list[Any] = []
    for answer in answers:
        waiting.append(answer)
        if len(waiting) == _FAN_IN:
            waiting = [merge(waiting)]
    if waiting:
        yield from blobs([merge(waiting)]).to_batches()


@contextmanager
def _run(name: str, data: Any, fields: Fields, session: Any, progress: bool | None) -> Iterator[SparkRun]:
    """Errors in tasks come back as what they were about."""
    frame = frame_of(name, data, session)
    for field in fields.names:
        if field not in frame.columns:
            raise DataError(f"{name}: the data has no column {field!r}; it has {', '.join(frame.columns)}.")
    try:
        with bars(progress) as shown:
            yield SparkRun(frame.select(*fields.names), shown)
    except Exception as error:
        raise named(name, frame, fields, error) from error


def _answers(
    name: str, data: Any, fields: Fields, ask: Ask, session: Any = None, progress: bool | None = None
) -> dict[Any, Answer]:
    with _run(name, data, fields, session, progress) as run:
        return cluster.answers(run, name, fields, ask)


def _compared(
    asked: PairQuestion, data: Any, session: Any = None, progress: bool | None = None
) -> Comparison:
    with _run(asked.name, data, asked.first, session, progress) as run:
        return cluster.comparison(run, asked)


_ENGINE = Engine("spark", _answers, _compared, ("session", "progress"), ("session", "progress"))
evaluate, compare, risk_coverage_curve = _ENGINE.evaluate, _ENGINE.compare, _ENGINE.risk_coverage_curve
aurc, augrc, e_aurc, naurc, risk = _ENGINE.aurc, _ENGINE.augrc, _ENGINE.e_aurc, _ENGINE.naurc, _ENGINE.risk
risk_at_coverage, coverage_at_risk = _ENGINE.risk_at_coverage, _ENGINE.coverage_at_risk


def on(session: Any) -> Callable[..., Evaluation]:
    """The engine for `abstain.evaluate(data, engine=...)` in a session; a DataFrame needs none.

    Parameters
    ----------
    session
        A `SparkSession`.

    Returns
    -------
    callable

    Examples
    --------
    >>> callable(on(None))  # for `abstain.evaluate("folder/", engine=on(...))`
    True
    """
    return _ENGINE.on(session=session)


register_engine("spark", on(None))
