"""What happens inside Spark: how far a job has come, and what an error in a task was about."""

from __future__ import annotations

import re
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from abstain import errors
from abstain.engines.progress import Bars
from abstain.engines.sources import Fields
from abstain.errors import DataError, InputError

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
