"""How `files` runs the plan: in memory when everything fits, through the disk otherwise."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from abstain.engines import locating, sources
from abstain.engines.budget import bytes_of, samples_that_fit
from abstain.engines.finish import Ask, Part
from abstain.engines.local import check_whole, keyed_by_loss, needs_oracle_pass, oracle_ask, summary_of
from abstain.engines.outofcore import Run, Tick
from abstain.engines.ranges import RangeSums, gathered
from abstain.engines.sources import Batch, Fields
from abstain.engines.spill import Spill
from abstain.engines.summary import Summary, summarise
from abstain.engines.survey import Survey
from abstain.errors import InputError

_LONG = 20_000_000  # samples from which on a progress bar is worth showing


def run_files(
    name: str,
    path: Any,
    fields: Fields,
    ask: Ask,
    memory: str | float,
    spill: str | None,
    resume: str | None,
    progress: bool | None,
) -> Any:
    """A `Summary`, or one for each group; the arguments are those of `files.evaluate`, gathered."""
    files = locating.find_files(name, path)
    known = [locating.rows_in(file) for file in files]
    rows = None if None in known else sum(r for r in known if r is not None)
    budget = bytes_of(name, memory)
    with _ticker(rows, progress) as tick:
        run = Run(files, lambda file: sources.batches(name, file, fields), rows, ask, budget, tick)
        types = locating.types_in(files[0], fields.confidence, fields.loss)
        if fields.logits or fields.weight:
            types = (False, True)
        if rows is not None and not fields.group and resume is None and _fits(rows, budget, ask, types):
            return _in_memory(name, run, ask, rows)
        survey = run.survey()
        _check(name, survey, ask)
        key = None if resume is None else _key(files, fields, ask, budget)
        answers = _execute(run, survey, spill, resume, key)
        oracle = {}
        if needs_oracle_pass(ask, survey.zero_one, survey.weighted):
            oracle = _by_loss(run, fields, name, survey, spill)
        results = {g: summarise(sums, parts, ask, oracle.get(g)) for g, (sums, parts) in answers.items()}
    return results if fields.group else results[None]


def _check(name: str, survey: Survey, ask: Ask) -> None:
    if not sum(survey.rows.values()):
        raise InputError(f"{name}: needs at least one sample, the files hold none.")
    check_whole(name, survey.whole, ask)


def _fits(rows: int, memory: int, ask: Ask, types: tuple[bool, bool]) -> bool:
    """Would everything fit at once, as far as the types of the columns tell?"""
    return rows <= samples_that_fit(memory, ask, *types)


def _in_memory(name: str, run: Run, ask: Ask, rows: int) -> Summary:
    """Little data: read it all, finish it as one range."""
    if not rows:
        raise InputError(f"{name}: needs at least one sample, the files hold none.")
    return summary_of(name, gathered((b.columns for file in run.files for b in run.read(file)), rows), ask)


def _execute(
    run: Run, survey: Survey, spill: str | None, resume: str | None, key: str | None
) -> dict[Any, tuple[RangeSums, list[Part]]]:
    layout = run.layout(survey)
    with Spill(spill, resume) as store:
        sums = run.scatter(layout, store, key)
        return {g: (s, run.finish(store, layout.first[g], s, survey)) for g, s in sums.items()}


def _by_loss(run: Run, fields: Fields, name: str, survey: Survey, spill: str | None) -> dict[Any, list[Part]]:
    """The oracle's pass: the same plan, keyed by the loss, smallest on top."""
    ask = oracle_ask(run.ask, survey.whole)

    def read(file: str) -> Iterator[Batch]:
        for batch in sources.batches(name, file, fields):
            yield batch._replace(columns=keyed_by_loss(batch.columns))

    inner = Run(run.files, read, run.rows, ask, run.memory, run.tick)
    answers = _execute(inner, inner.survey(), spill, None, None)
    return {group: parts for group, (_, parts) in answers.items()}


def _key(files: list[str], fields: Fields, ask: Ask, memory: int) -> str:
    """Changes whenever the data or the question does."""
    stamps = [(file, os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
    return hashlib.sha256(repr((stamps, fields, ask, memory)).encode()).hexdigest()


@contextmanager
def _ticker(rows: int | None, progress: bool | None) -> Iterator[Tick]:
    """A progress bar that appears for long work on a terminal, or as told."""
    if progress is False or (progress is None and (rows or _LONG) < _LONG):
        yield lambda stage, count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    silent = progress is None and not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as bar:
        tasks: dict[str, Any] = {}

        def tick(stage: str, count: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=rows)
            bar.advance(tasks[stage], count)

        yield tick
