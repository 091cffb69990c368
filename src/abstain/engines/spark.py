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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from abstain import errors
from abstain._progress import Bars, progress_bars
from abstain.engines import cluster
from abstain.engines.cluster import Bundle, Numbering, Work
from abstain.engines.engine import FUNCTIONS
from abstain.engines.finish import Ask
from abstain.engines.ranges import Groups, RangeSums, merged, no_sums
from abstain.engines.read import Fields, Loader
from abstain.errors import DataError, InputError, import_optional
from abstain.evaluation import Evaluation, register_engine
from abstain.formats.table_files import find_files, is_data_file, partition_values, table_format

__all__ = [*FUNCTIONS, "on"]
_SECONDS = 0.2  # between two looks
_JOB = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@contextmanager
def watched(context: Any, bars: Bars, stage: str) -> Iterator[None]:
    """Follow the jobs started inside, task by task, where there is something to be seen."""
    if not bars.is_shown:
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


_ANSWERS = "answer binary"
_BUNDLES = f"bundle int, {_ANSWERS}"  # samples travel as Python holds them, not one by one
_TOGETHER = 1 << 20  # samples worth the work done once for each partition


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


def packed(answers: list[Any], **columns: Any) -> Any:
    """Answers as a table that Spark can carry."""
    import pyarrow as pa

    blobs = pa.array([pickle.dumps(a) for a in answers], pa.binary())
    return pa.table({**{k: pa.array(v, pa.int32()) for k, v in columns.items()}, "answer": blobs})


def bundles(found: Sequence[Bundle]) -> Any:
    """The samples of each bundle, where there are any."""
    some = [number for number, bundle in enumerate(found) if bundle]
    return packed([found[number] for number in some], bundle=some)


def unpacked(table: Any) -> list[Any]:
    """Answers and bundles of our own tasks."""
    return [pickle.loads(value) for value in table.column("answer").to_pylist()]


# the run --------------------------------------------------------------------------------------------------


_GUESS = "spark.sql.sources.partitionColumnTypeInference.enabled"
_FAN_IN = 16  # answers merged at a time


def frame_of(name: str, data: Any, session: Any) -> Any:
    """A DataFrame, read by Spark if it is not one yet."""
    sql = import_optional("pyspark.sql", 'engine="spark"', "spark")
    if hasattr(data, "mapInArrow"):
        return data
    active = session or sql.SparkSession.getActiveSession()
    if active is None:
        raise InputError(f"{name}: no Spark session is active. Pass `session=` (or a DataFrame).")
    files = _listed(name, active, data)
    kinds = {table_format(file) for file in files}
    if kinds != {"parquet"} and kinds != {"csv"}:
        raise DataError(f"{name}: Spark takes Parquet files or CSV files, got {' and '.join(sorted(kinds))}.")
    bases = {file[: file.rfind("/", 0, file.index("="))] for file in files if partition_values(file)}
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
        below = [f for f in found if is_data_file(PurePosixPath(f).relative_to(top))]
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


class SparkRun(cluster.ClusterRun):
    """Over one DataFrame."""

    def __init__(self, frame: Any, bars: Bars) -> None:
        self.frame, self.bars = frame, bars
        self.cores = frame.sparkSession.sparkContext.defaultParallelism

    def merged(self, work: Work, load: Loader, merge: Work, stage: str) -> Any:
        """Merged in each task and then in one: one answer comes here."""

        def first(batches: Iterator[Any]) -> Iterator[Any]:
            yield from _one((work(groups) for groups in gathered(batches, load)), merge)

        def then(batches: Iterator[Any]) -> Iterator[Any]:
            yield from _one((answer for batch in batches for answer in unpacked(batch)), merge)

        whole = self.frame.mapInArrow(first, _ANSWERS).repartition(1).mapInArrow(then, _ANSWERS)
        return next(iter(self._read(whole, stage)), None)

    def split(self, load: Loader, numbering: Numbering, stage: str) -> tuple[Any, RangeSums]:
        """Sums by a scan of their own; samples move when they are asked for."""

        def add(groups: Groups) -> RangeSums:
            return cluster.bundled(groups, numbering)[1]

        def move(batches: Iterator[Any]) -> Iterator[Any]:
            for groups in gathered(batches, load):
                yield from bundles(cluster.bundled(groups, numbering, load.other is not None)[0]).to_batches()

        sums = self.merged(add, load._replace(other=None), cluster.sums_of, f"{stage}sums")
        return self.frame.mapInArrow(move, _BUNDLES), sums or no_sums(numbering.total)

    def turned(self, held: Any, own: Mapping[int, Any], ask: Ask, numbering: Numbering) -> Any:
        """Bundles of the one become bundles of the other."""

        def turn(key: Any, table: Any) -> Any:
            mine = own.get(key[0].as_py(), {})
            return bundles(cluster.turn_bundle(unpacked(table), mine, ask, numbering)[0])

        return held.groupBy("bundle").applyInArrow(turn, _BUNDLES)

    def collected(self, held: Any, work: Work, own: Mapping[int, Any], stage: str) -> list[Any]:
        """A group of rows for each bundle."""

        def answer(key: Any, table: Any) -> Any:
            return packed([work(unpacked(table), own.get(key[0].as_py(), {}))])

        return self._read(held.groupBy("bundle").applyInArrow(answer, _ANSWERS), stage)

    def _read(self, frame: Any, stage: str) -> list[Any]:
        with watched(self.frame.sparkSession.sparkContext, self.bars, stage):
            return [pickle.loads(bytes(row["answer"])) for row in frame.collect()]


def _one(answers: Iterator[Any], merge: Work) -> Iterator[Any]:
    """All answers in one, merged a few at a time; nothing of nothing."""
    waiting: list[Any] = []
    for answer in answers:
        waiting.append(answer)
        if len(waiting) == _FAN_IN:
            waiting = [merge(waiting)]
    if waiting:
        yield from packed([merge(waiting)]).to_batches()


@contextmanager
def _run(
    name: str, data: Any, fields: Fields, session: Any = None, progress: bool | None = None
) -> Iterator[SparkRun]:
    """Errors in tasks come back as what they were about."""
    frame = frame_of(name, data, session)
    for field in fields.names:
        if field not in frame.columns:
            raise DataError(f"{name}: the data has no column {field!r}; it has {', '.join(frame.columns)}.")
    try:
        with progress_bars(progress) as shown:
            yield SparkRun(frame.select(*fields.names), shown)
    except Exception as error:
        raise named(name, frame, fields, error) from error


_ENGINE = cluster.engine("spark", _run, "session")
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
