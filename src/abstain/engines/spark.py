"""Exact metrics by Spark: the plan as `mapInArrow` and `applyInArrow`, from local threads to an existing cluster.

Three scans: a histogram of the confidences, sums by range, and the ranges themselves, each finished by the task that
holds it. Only histograms and sums come to the driver; Spark repeats lost tasks.
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
from abstain.engines.cluster import Bundle, RangeNumbers, Task
from abstain.engines.engine import FUNCTIONS
from abstain.engines.finish import EngineRequest
from abstain.engines.paired import RangeInfluence
from abstain.engines.ranges import Groups, RangeSums, empty_sums, merge_groups
from abstain.engines.read import Fields, Loader
from abstain.errors import DataError, InputError, import_optional
from abstain.evaluation import Evaluation, register_engine
from abstain.formats.table_files import find_files, is_data_file, partition_values, table_format

__all__ = [*FUNCTIONS, "on"]
_POLL_SECONDS = 0.2  # between two looks at the progress
_JOB_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@contextmanager
def show_progress(context: Any, bars: Bars, stage: str) -> Iterator[None]:
    """Show the Spark jobs that are started inside the `with` block on the progress bar `stage`.

    `context` is the Spark context. A thread polls how many of their tasks are finished. To find them, the jobs run in a
    job group of their own; the user's job group is restored afterwards. Does nothing if bars are not shown.
    """
    if not bars.is_shown:
        yield
        return
    # job group, description and whether to interrupt, which `setJobGroup` overwrites; None where the user set none
    user_properties = {name: context.getLocalProperty(name) for name in _JOB_PROPERTIES}
    job_group = f"abstain-{uuid.uuid4().hex}"
    context.setJobGroup(job_group, f"abstain: {stage}")
    tracker = context.statusTracker()
    is_done = threading.Event()

    def poll() -> None:
        while not is_done.wait(_POLL_SECONDS):
            finished, total = _count_tasks(tracker, job_group)
            bars.set(stage, finished, total)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
        for name, value in user_properties.items():
            context.setLocalProperty(name, value)
    # not reached after an error; a full bar also where Spark has forgotten all tasks
    total = max(_count_tasks(tracker, job_group)[1], 1)
    bars.set(stage, total, total)


def _count_tasks(tracker: Any, job_group: str) -> tuple[int, int]:
    """Number of finished tasks and of all tasks of the group of jobs `job_group`, as far as Spark has planned them.

    Spark may have forgotten old jobs and stages, which then count as none. `tracker` is Spark's status tracker.
    """
    finished = 0
    total = 0
    for job_id in tracker.getJobIdsForGroup(job_group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            if stage:
                finished += stage.numCompletedTasks
                total += stage.numTasks
    return finished, total


def translate_error(function: str, frame: Any, fields: Fields, error: Exception) -> Exception:
    """The exception to raise in place of `error`, which a Spark task raised: abstain's own error, or `error` itself.

    Spark passes on the text of an error in a task only, so it is searched for the name and the message of an abstain
    error. For a missing or infinite value the frame is searched once more, so that the message names file and row.
    `function` is the public function that messages name. `fields` names the columns to read.
    """
    text = str(error)
    if "No module named 'abstain'" in text:
        return InputError(
            f"{function}: the Python of the executors has no `abstain`. Install it there, and set PYSPARK_PYTHON to "
            f"that Python before the session starts (on one machine: {sys.executable})."
        )
    # parts of the messages of DataError for such a value
    if "must be finite" in text or "missing value" in text:
        error_with_row = _find_bad_value(function, frame, fields)
        if error_with_row is not None:
            return error_with_row
    # the last line of the task's traceback, such as "abstain.errors.DataError: ..."
    match = re.search(r"^abstain\.errors\.(\w+): (.+)$", text, re.MULTILINE)
    error_class = getattr(errors, match[1], None) if match else None
    if match and error_class:
        translated: Exception = error_class(match[2])
        return translated
    return error


def _find_bad_value(function: str, frame: Any, fields: Fields) -> Exception | None:
    """A DataError (returned, not raised) about the first missing or infinite value; None if there is none.

    The columns of `frame`, a Spark DataFrame, are searched one after another, each by a Spark job; the column of groups
    and the inputs of a learned confidence may have missing values. The error names file and row where Spark knows them.
    `function` is the public function that messages name. `fields` names the columns to read.
    """
    from pyspark.sql import functions as F

    type_of_column = dict(frame.dtypes)
    for field in fields.names:
        if field == fields.group or field in fields.learned_inputs:
            continue
        is_bad = F.col(field).isNull()
        if type_of_column[field] in ("float", "double"):
            is_bad = is_bad | F.isnan(field) | (F.abs(F.col(field)) == float("inf"))
        bad_rows = frame.where(is_bad)
        try:
            first = bad_rows.select("_metadata.file_path", "_metadata.row_index", field).first()
        except Exception:  # not read from files, or from files without row numbers: no row (None) is known
            first = bad_rows.select(F.input_file_name(), F.lit(None), field).first()
        if first is not None:
            file, row, value = first
            place = "" if row is None else f", row {row}"
            return DataError(
                f"{function}: `{field}` must be finite, got {value} in {file or 'the DataFrame'}{place}. "
                f"A sample without it cannot be ranked: drop the row."
            )
    return None


# moving samples -------------------------------------------------------------------------------------------


_RESULT_SCHEMA = "result binary"
_BUNDLE_SCHEMA = f"bundle int, {_RESULT_SCHEMA}"  # samples travel as pickled columns, not one by one
_MERGED_SAMPLES = 1 << 20  # Spark's batches are small; so many samples are worth a task's fixed costs


def load_large_batches(batches: Iterable[Any], load: Loader) -> Iterator[Groups]:
    """Load Spark's small Arrow batches, and yield their samples by group, about a million at a time.

    `load(batch)` returns the checked columns of each group. What is yielded merges several batches: at least a million
    samples, except for the last. Nothing is yielded if there are no batches.
    """
    waiting: list[Groups] = []
    waiting_samples = 0
    for batch in batches:
        groups = load(batch)
        waiting.append(groups)
        waiting_samples += sum(columns.sample_count for columns in groups.values())
        if waiting_samples >= _MERGED_SAMPLES:
            yield merge_groups(waiting)
            waiting = []
            waiting_samples = 0
    if waiting:
        yield merge_groups(waiting)


def pack_results(results: Sequence[Any], **int_columns: Sequence[int]) -> Any:
    """Pickled results as an Arrow table that Spark can carry, with further columns of integers."""
    import pyarrow as pa

    columns = {name: pa.array(values, pa.int32()) for name, values in int_columns.items()}
    columns["result"] = pa.array([pickle.dumps(result) for result in results], pa.binary())
    return pa.table(columns)


def pack_bundles(bundles: Sequence[Bundle]) -> Any:
    """An Arrow table of the bundles that hold samples."""
    numbers = [number for number, bundle in enumerate(bundles) if bundle]
    return pack_results([bundles[number] for number in numbers], bundle=numbers)


def unpack_results(table: Any) -> list[Any]:
    """Results or bundles from a table of `pack_results`; only our own tasks write these."""
    return [pickle.loads(value) for value in table.column("result").to_pylist()]


# the run --------------------------------------------------------------------------------------------------


_TYPE_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_MERGED_AT_ONCE = 16  # results merged at a time


def open_frame(function: str, data: Any, session: Any) -> Any:
    """A Spark DataFrame of the data: a DataFrame as it is, or files read by `session` (None: the active one).

    Columns may come from folder names such as `split=test`; they are text. DataError for files other than Parquet or
    CSV, or for both at once; InputError, naming `function`, if no session is active.
    """
    # MissingDependencyError where pyspark is not installed
    sql = import_optional("pyspark.sql", 'engine="spark"', "spark")
    if hasattr(data, "mapInArrow"):
        return data
    active_session = session or sql.SparkSession.getActiveSession()
    if active_session is None:
        raise InputError(f"{function}: no Spark session is active. Pass `session=` (or a DataFrame).")
    files = _list_files(function, active_session, data)
    kinds = {table_format(file) for file in files}  # such as {"parquet"}
    if kinds != {"parquet"} and kinds != {"csv"}:
        raise DataError(
            f"{function}: Spark takes Parquet files or CSV files, got {' and '.join(sorted(kinds))}."
        )
    # The folders that hold those named like `split=test`: Spark reads columns from folder names below such a base path,
    # and takes only one. With several, it finds no such columns, and `_start_run` raises for those that are needed.
    base_paths = {file[: file.rfind("/", 0, file.index("="))] for file in files if partition_values(file)}
    reader = active_session.read
    if len(base_paths) == 1:
        reader = reader.option("basePath", *base_paths)
    with _folder_values_as_text(active_session):
        if kinds == {"csv"}:
            return reader.csv(files, header=True, inferSchema=True)
        return reader.parquet(*files)


def _list_files(function: str, session: Any, data: Any) -> list[str]:
    """The files of `data`, in sorted order: those that every engine would read.

    Where only Hadoop knows the path (hdfs://, s3a://), its file system lists them. DataError if there are none.
    `function` is the public function that messages name.
    """
    try:
        return find_files(function, data)
    except DataError:
        if not isinstance(data, (str, os.PathLike)):
            raise
        root = session._jvm.org.apache.hadoop.fs.Path(os.fspath(data))
        file_system = root.getFileSystem(session._jsc.hadoopConfiguration())
        if not file_system.exists(root):
            raise  # the error of `find_files`: there are no such files
        top = PurePosixPath(file_system.resolvePath(root).toString())
        data_files = []
        listing = file_system.listFiles(root, True)  # True: also the files in its folders
        while listing.hasNext():
            file = listing.next().getPath().toString()
            path = PurePosixPath(file)
            # `data` may be one file: then nothing of its path lies below `top`
            path_below_top = PurePosixPath(path.name) if path == top else path.relative_to(top)
            # by its ending, unless a part of the path below `top` starts with _ or a dot: unfinished or hidden work
            if is_data_file(path_below_top):
                data_files.append(file)
        if not data_files:
            raise
        return sorted(data_files)


@contextmanager
def _folder_values_as_text(session: Any) -> Iterator[None]:
    """Let Spark read values in folder names as text, as all engines do, not as guessed types."""
    user_setting = session.conf.get(_TYPE_INFERENCE)
    session.conf.set(_TYPE_INFERENCE, "false")
    try:
        yield
    finally:
        session.conf.set(_TYPE_INFERENCE, user_setting)


class SparkRun(cluster.ClusterRun):
    """The plan executed over one DataFrame."""

    def __init__(self, frame: Any, bars: Bars) -> None:
        self.frame = frame
        self.bars = bars
        self.cores = frame.sparkSession.sparkContext.defaultParallelism

    def reduce_partitions(self, task: Task, load: Loader, merge: Task, stage: str) -> Any:
        """`task(groups)` of the samples, merged by `merge(results)`: first in each Spark task, then in a single one.

        `load` turns Arrow batches into samples by group. Results travel pickled, as rows of Arrow tables. None if the
        frame has no rows. `stage` is the title of the progress bar.
        """

        def run_partition(batches: Iterator[Any]) -> Iterator[Any]:
            yield from _merge_into_one_batch(
                (task(groups) for groups in load_large_batches(batches, load)), merge
            )

        def merge_partitions(batches: Iterator[Any]) -> Iterator[Any]:
            results = (result for batch in batches for result in unpack_results(batch))
            yield from _merge_into_one_batch(results, merge)

        # at most one result per Spark task, all brought to one task, which yields one or none
        merged = self.frame.mapInArrow(run_partition, _RESULT_SCHEMA).repartition(1)
        # runs the Spark job, and unpickles its results on the driver
        results = self._collect(merged.mapInArrow(merge_partitions, _RESULT_SCHEMA), stage)
        return results[0] if results else None

    def sort_into_bundles(self, load: Loader, numbering: RangeNumbers, stage: str) -> tuple[Any, RangeSums]:
        """Samples by bundle as a lazy frame (bundle, pickled samples), and the sums of every range.

        A range is the samples of a group with confidences between two thresholds, and its sums are those of their
        weights, losses and powers; a bundle is the ranges that one task finishes. Nothing is stored here yet: Spark
        computes the frame when it is used, and the sums take a scan of the data of their own. Samples of ranges with
        one confidence are kept only for a comparison of two models, which reads the influences of every sample. `load`
        reads files or frames as checked columns by group. `numbering` has the cuts of all groups, and the number and
        the bundle of each range. `stage` is the prefix of the title of the progress bar.
        """
        compares_models = load.second_fields is not None

        def add_up(groups: Groups) -> RangeSums:
            _, sums = cluster.split_into_bundles(groups, numbering)  # without the samples by bundle
            return sums

        def split_batches(batches: Iterator[Any]) -> Iterator[Any]:
            for groups in load_large_batches(batches, load):
                bundles, _ = cluster.split_into_bundles(groups, numbering, keep_tied_samples=compares_models)
                yield from pack_bundles(bundles).to_batches()

        # ranges are those of the first model's confidence, and the sums are of its losses: the second is not read
        first_model = load._replace(second_fields=None)
        sums = self.reduce_partitions(add_up, first_model, cluster.merge_sums, f"{stage}sums")
        if sums is None:  # the frame has no rows
            sums = empty_sums(numbering.range_count)
        return self.frame.mapInArrow(split_batches, _BUNDLE_SCHEMA), sums

    def pass_to_second_model(
        self,
        bundled_samples: Any,
        influences: Mapping[int, Mapping[int, RangeInfluence]],
        request: EngineRequest,
        numbering: RangeNumbers,
    ) -> Any:
        """Move all samples to the bundles of the second model, each with its influence on the first area.

        `bundled_samples` is the frame of samples by bundle of the first model; `influences` holds for each of its
        bundles (the ranges that one task finishes) what the influences of its samples need from outside, by number of
        the range, and `numbering` the second model's ranges. Returns a lazy frame of samples by bundle of the second
        model. `request` says what to compute.
        """

        def move(key: Any, table: Any) -> Any:
            """One Spark task: `key` is (number of the bundle,), `table` its pickled samples."""
            (bundle,) = key
            # every bundle with samples is there, and the frame has no others, so the default is never taken
            bundle_influences = influences.get(bundle.as_py(), {})
            # the sums of the second model's ranges are known from its own execution
            bundles, _ = cluster.pass_bundle_to_second_model(
                unpack_results(table), bundle_influences, request, numbering
            )
            return pack_bundles(bundles)

        return bundled_samples.groupBy("bundle").applyInArrow(move, _BUNDLE_SCHEMA)

    def map_bundles(
        self, bundled_samples: Any, task: Task, arguments: Mapping[int, Any], stage: str
    ) -> list[Any]:
        """`task(pieces, argument)` for each bundle that holds samples, as a Spark group; results come to the driver.

        `bundled_samples` is a frame of samples by bundle (the ranges that one task finishes); `pieces` are lists of
        (number of the range, its samples). A bundle that is not in `arguments`, since all of its ranges were finished
        from their sums, gets an empty dict. `stage` is the title of the progress bar.
        """

        def run_bundle(key: Any, table: Any) -> Any:
            """One Spark task: `key` is (number of the bundle,), `table` its pickled samples."""
            (bundle,) = key
            argument = arguments.get(bundle.as_py(), {})
            return pack_results([task(unpack_results(table), argument)])

        # runs the Spark job, and unpickles its results on the driver
        return self._collect(
            bundled_samples.groupBy("bundle").applyInArrow(run_bundle, _RESULT_SCHEMA), stage
        )

    def _collect(self, frame: Any, stage: str) -> list[Any]:
        """Execute a frame of pickled results, and unpickle them on the driver."""
        with show_progress(self.frame.sparkSession.sparkContext, self.bars, stage):
            return [pickle.loads(bytes(row["result"])) for row in frame.collect()]


def _merge_into_one_batch(results: Iterator[Any], merge: Task) -> Iterator[Any]:
    """Merge results with `merge(list of results)`, a few at a time so that few are in memory.

    Yields one Arrow batch with the pickled result, or nothing if there are no results. A single result is merged too.
    """
    waiting: list[Any] = []
    for result in results:
        waiting.append(result)
        if len(waiting) == _MERGED_AT_ONCE:
            waiting = [merge(waiting)]
    if waiting:
        yield from pack_results([merge(waiting)]).to_batches()


@contextmanager
def _start_run(
    function: str, data: Any, fields: Fields, session: Any = None, progress: bool | None = None
) -> Iterator[SparkRun]:
    """Yield the run over the columns of the data; errors in its tasks are raised as abstain's own.

    DataError if a column is missing. `function` is the public function that messages name. `fields` names the columns
    to read. `session` reads files (None: the active session; a DataFrame needs none), `progress` says whether to show
    bars (None: for long work on a terminal).
    """
    frame = open_frame(function, data, session)
    for field in fields.names:
        if field not in frame.columns:
            columns = ", ".join(frame.columns)
            raise DataError(f"{function}: the data has no column {field!r}; it has {columns}.")
    try:
        with progress_bars(progress) as bars:
            yield SparkRun(frame.select(*fields.names), bars)
    except Exception as error:  # also of this process; one that is not recognised is raised unchanged
        raise translate_error(function, frame, fields, error) from error


_ENGINE = cluster.make_engine("spark", _start_run, "session")
evaluate = _ENGINE.evaluate
compare = _ENGINE.compare
risk_coverage_curve = _ENGINE.risk_coverage_curve
aurc = _ENGINE.aurc
augrc = _ENGINE.augrc
e_aurc = _ENGINE.e_aurc
naurc = _ENGINE.naurc
risk = _ENGINE.risk
risk_at_coverage = _ENGINE.risk_at_coverage
coverage_at_risk = _ENGINE.coverage_at_risk


def on(session: Any) -> Callable[..., Evaluation]:
    """The engine for `abstain.evaluate(data, engine=...)` in a session; a DataFrame needs none.

    Parameters
    ----------
    session
        A `SparkSession`, or None for the active one.

    Returns
    -------
    callable
        `abstain.evaluate` calls it with the data and its own arguments.

    Examples
    --------
    >>> callable(on(None))  # for `abstain.evaluate("folder/", engine=on(...))`
    True
    """
    return _ENGINE.evaluator(session=session)


register_engine("spark", on(None))
