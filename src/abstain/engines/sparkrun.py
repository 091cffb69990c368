"""How Spark executes the plan: `mapInArrow` for passes over partitions, `applyInArrow` for bundles of ranges."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from abstain.engines import cluster
from abstain.engines.cluster import Loader
from abstain.engines.clusterrun import Found, told_by_sums
from abstain.engines.finish import Ask, Part
from abstain.engines.locating import find_files, holds_data, kind_of, told_by_path
from abstain.engines.paired import square_bundle, turned
from abstain.engines.progress import Bars
from abstain.engines.ranges import RangeSums, no_sums, together
from abstain.engines.slots import Slots, bundled, places_of
from abstain.engines.sparkmoving import (
    BLOB,
    BUNDLE,
    answers_in,
    as_table,
    blobs,
    gathered,
    in_batches,
    of_table,
    schema,
)
from abstain.engines.sparkwatch import watched
from abstain.engines.survey import Survey
from abstain.errors import DataError, InputError, MissingDependencyError

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
        slots = cluster.plan(load.name, survey, ask, 2 * max(1, cores))
        sums = self._sums(plain, slots, f"{stage}sums")
        parts = self._finished(plain, survey, slots, sums, ask, f"{stage}finish")
        return Found(survey, slots, sums, parts)

    def _survey(self, load: Loader, stage: str) -> Survey:
        def work(batches: Iterator[Any]) -> Iterator[Survey]:
            for groups in gathered(batches, load):
                yield cluster.survey_groups(groups, load.name)

        def merge(surveys: list[Survey]) -> Survey:
            return cluster.merge_surveys(surveys, load.name)

        return self._merged(work, merge, stage) or Survey()

    def _sums(self, load: Loader, slots: Slots, stage: str) -> RangeSums:
        def work(batches: Iterator[Any]) -> Iterator[RangeSums]:
            for groups in gathered(batches, load):
                yield bundled(groups, slots)[1]

        return self._merged(work, cluster.sums_of, stage) or no_sums(slots.total)

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
        self, load: Loader, survey: Survey, slots: Slots, sums: RangeSums, ask: Ask, stage: str
    ) -> dict[int, Part]:
        places = places_of(slots, sums)
        parts = told_by_sums(sums, places, ask)
        left = {number: place for number, place in places.items() if number not in parts}

        def finish(table: Any) -> Any:
            return blobs([cluster.finish_bundle([of_table(table)], left, ask)])

        if left:
            moved = self._moved(load, slots, survey, list(parts))
            for found in self._read(moved.groupBy(BUNDLE).applyInArrow(finish, BLOB), stage):
                parts |= found
        return parts

    def _moved(self, load: Loader, slots: Slots, survey: Survey, done: list[int]) -> Any:
        """Samples on their way to their ranges."""

        def place(batches: Iterator[Any]) -> Iterator[Any]:
            for groups in gathered(batches, load):
                if groups:
                    yield from in_batches(as_table(groups, slots, survey, done))

        extra = 0 if load.other is None else 2
        return self.frame.mapInArrow(place, schema(survey, bool(load.fields.weight), extra))

    def joint(self, one: Found, two: Found, load: Loader, ask: Ask) -> float:
        """Samples go from the bundles of one to the bundles of two, their first influence in hand."""
        at_one, at_two, slots = one.standings(), two.standings(), two.slots
        wide = Survey(zero_one=False, wide=True)

        def turn(table: Any) -> Any:
            columns = together([turned(part, at_one[number], ask) for number, part in of_table(table)])
            return as_table({None: columns}, slots, wide)

        def add(table: Any) -> Any:
            return blobs([square_bundle([of_table(table)], at_two, ask)])

        moved = self._moved(load, one.slots, one.survey, [])
        turning = moved.groupBy(BUNDLE).applyInArrow(turn, schema(wide, bool(load.fields.weight), 1))
        return math.fsum(self._read(turning.groupBy(BUNDLE).applyInArrow(add, BLOB), "joint"))

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
