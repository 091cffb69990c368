"""How `files` runs the plan: in memory when everything fits, through the disk otherwise."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from abstain.engines import locating, sources
from abstain.engines.ahead import ahead
from abstain.engines.budget import bytes_of, samples_that_fit
from abstain.engines.finish import Ask, Part
from abstain.engines.local import check_whole, keyed_by_loss, needs_oracle_pass, oracle_ask, summary_of
from abstain.engines.outofcore import Layout, Run, Tick
from abstain.engines.progress import bars
from abstain.engines.ranges import SUMS, RangeSums, gathered
from abstain.engines.sources import BATCH, Batch, Fields
from abstain.engines.spill import Spill
from abstain.engines.summary import Summary, summarise
from abstain.engines.survey import SURVEYED, Survey
from abstain.errors import InputError

_LONG = 20_000_000  # samples from which on a progress bar is worth showing
_SAMPLE_FROM = 1 << 24  # samples from which on a survey of some of them is enough
_STRETCHES = 16  # stretches of a million in that survey


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
        types = _types(files, fields)
        small = rows is not None and not fields.group and resume is None and _fits(rows, budget, ask, types)
        many = rows is not None and rows >= _SAMPLE_FROM and not fields.group and types[0]
        if small and not (many and not types[1]):  # what cannot be counted is sorted at once
            return _in_memory(name, run, ask, rows or 0)
        survey = _sampled(name, files, fields, rows or 0, types[1]) if many else run.survey()
        _check(name, survey, ask)
        # counters are not kept when the work is interrupted
        layout = run.layout(survey, counting=resume is None)
        if small and not layout.tallies:
            return _in_memory(name, run, ask, rows or 0)
        key = None if resume is None else _key(files, fields, ask, budget)
        answers = _execute(run, survey, layout, spill, resume, key)
        oracle = {}
        if needs_oracle_pass(ask, survey.zero_one, survey.weighted):
            oracle = _by_loss(run, fields, name, survey, spill)
        results = {g: summarise(sums, parts, ask, oracle.get(g)) for g, (sums, parts) in answers.items()}
    return results if fields.group else results[None]


def _types(files: list[str], fields: Fields) -> tuple[bool, bool]:
    """(are losses surely 0/1, may confidences be wider than float32), of all files, before any is read."""
    if fields.logits or fields.weight:
        return False, True
    found = [locating.types_in(file, fields.confidence, fields.loss) for file in files]
    return all(zero_one for zero_one, _ in found), any(wide for _, wide in found)


def _sampled(name: str, files: list[str], fields: Fields, rows: int, wide: bool) -> Survey:
    """A survey of some stretches of the files: the schema has told the rest, and a range found too full is refined."""
    parts = locating.stretches(files, BATCH)
    parts = parts[:: max(1, len(parts) // _STRETCHES)]
    survey, rng = Survey(), np.random.default_rng(0)
    read = (b for part in parts for b in sources.batches(name, part.file, fields, stretch=part))
    for batch in ahead(read):
        survey.add(batch.columns, None, max(1, len(parts) * BATCH // SURVEYED), rng)
    survey.rows[None], survey.wide = rows, wide
    return survey


def _check(name: str, survey: Survey, ask: Ask) -> None:
    if not sum(survey.rows.values()):
        raise InputError(f"{name}: needs at least one sample, the files hold none.")
    check_whole(name, survey.whole, ask)


def _fits(rows: int, memory: int, ask: Ask, types: tuple[bool, bool]) -> bool:
    """Would everything fit at once, as far as the types of the columns tell?"""
    return rows <= samples_that_fit(memory, ask, *types)


def _in_memory(name: str, run: Run, ask: Ask, rows: int) -> Summary:
    """Little data: read it all, finish it as one range."""
    columns = gathered((b.columns for file in run.files for b in run.read(file)), rows) if rows else None
    if columns is None or not columns.rows:
        raise InputError(f"{name}: needs at least one sample, the files hold none.")
    return summary_of(name, columns, ask)


def _execute(
    run: Run, survey: Survey, layout: Layout, spill: str | None, resume: str | None, key: str | None
) -> dict[Any, tuple[RangeSums, list[Part]]]:
    with Spill(spill, resume) as store:
        sums = run.scatter(layout, store, key)
        return {g: (s, run.finish(store, layout, g, s, survey)) for g, s in sums.items()}


def _by_loss(run: Run, fields: Fields, name: str, survey: Survey, spill: str | None) -> dict[Any, list[Part]]:
    """The oracle's pass: the same plan, keyed by the loss, smallest on top."""
    ask = oracle_ask(run.ask, survey.whole)

    def read(file: str) -> Iterator[Batch]:
        for batch in sources.batches(name, file, fields):
            yield batch._replace(columns=keyed_by_loss(batch.columns))

    inner = Run(run.files, read, run.rows, ask, run.memory, run.tick)
    by_loss = inner.survey()
    answers = _execute(inner, by_loss, inner.layout(by_loss), spill, None, None)
    return {group: parts for group, (_, parts) in answers.items()}


def _key(files: list[str], fields: Fields, ask: Ask, memory: int) -> str:
    """Changes whenever the data or the question does."""
    stamps = [(file, os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
    return hashlib.sha256(repr((stamps, fields, ask, memory, SUMS)).encode()).hexdigest()


@contextmanager
def _ticker(rows: int | None, progress: bool | None) -> Iterator[Tick]:
    """A progress bar that appears for long work on a terminal, or as told."""
    short = progress is None and (rows or _LONG) < _LONG
    with bars(False if short else progress) as shown:
        yield lambda stage, count: shown.advance(stage, count, rows)
