"""Exact metrics of prediction files larger than memory: Parquet, Arrow and CSV.

Data that fits the budget is read and sorted at once. Otherwise two passes over the files (a histogram of the
confidences, then every sample to the range it belongs to) and one over the ranges, none of which needs more memory
than allowed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from abstain._progress import bars
from abstain._size import bytes_of, free_of
from abstain.core.tally import Tally, bytes_between
from abstain.engines import finish, ranges, read
from abstain.engines.engine import Engine
from abstain.engines.finish import Answer, Ask, Finished
from abstain.engines.histogram import nothing
from abstain.engines.paired import compare_files
from abstain.engines.ranges import RangeSums, Survey
from abstain.engines.read import BATCH, Batch, Fields, by_label, read_ahead
from abstain.engines.spill import MOST_RANGES, Shelf, Spill
from abstain.errors import InputError
from abstain.evaluation import register_engine

__all__ = [
    *("augrc", "aurc", "compare", "coverage_at_risk", "e_aurc", "evaluate", "naurc", "risk"),
    *("risk_at_coverage", "risk_coverage_curve"),
]

_HANDY = 1 << 24  # samples in a range beyond which fresh memory costs more than another range
_COUNT_FROM = 1 << 22  # samples below which a table of counters does not pay
_LONG = 20_000_000  # samples from which on a progress bar is worth showing
_UNKNOWN = 50_000_000  # samples, where the files do not say
_SAMPLE_FROM = 1 << 24  # samples from which on a survey of some of them is enough
_SAMPLED = 16  # parts of a million in that survey

Reader = Callable[[str], Iterator[Batch]]
Tick = Callable[[str, int], None]
Cut = tuple[np.ndarray, tuple[int, Tally] | None]  # where ranges start, and which one is counted


def samples_that_fit(memory: int, ask: Ask, zero_one: bool, wide: bool) -> int:
    """Samples a range may hold."""
    return max(1 << 14, int(0.9 * free_of(memory)) // ask.bytes_per_sample(zero_one, wide))


class Run:
    """One execution of the plan over a list of files."""

    def __init__(
        self, name: str, files: list[str], read: Reader, rows: int | None, ask: Ask, memory: int, tick: Tick
    ) -> None:
        self.name, self.files, self.read, self.rows = name, files, read, rows
        self.ask, self.memory, self.tick = ask, memory, tick

    def survey(self) -> Survey:
        """First pass: a histogram of keys."""
        survey, rng = Survey(), np.random.default_rng(0)
        stride = max(1, (_UNKNOWN if self.rows is None else self.rows) // ranges.SURVEYED)
        for file in self.files:
            for batch in read_ahead(self.read(file)):
                for group, columns in by_label(batch.columns, batch.labels):
                    survey.add(columns, group, stride, rng)
                self.tick("survey", batch.columns.rows)
        return survey

    def fit(self, survey: Survey, taken: int = 0) -> int:
        """Samples that a range may hold."""
        return samples_that_fit(self.memory - taken, self.ask, survey.zero_one, survey.wide)

    def cuts(self, survey: Survey, counting: bool = True) -> dict[Any, Cut]:
        """Ranges that fit the budget, group by group, and windows to count where samples lie dense."""
        windows = self._windows(survey) if counting else {}
        fit = self.fit(survey, sum(bytes_between(*ends) for ends in windows.values()))
        found: dict[Any, Cut] = {}
        for group, rows in survey.rows.items():
            rest = histogram = survey.histogram.get(group, nothing())
            ends = windows.get(group)
            if ends is not None:
                rest = ranges.outside(histogram, ends)
                rows = int(rows * rest.mass.sum() / histogram.mass.sum())
            number = max(-(-4 * rows // (3 * fit)), min(ranges.FEW, rows // _HANDY))  # few turn out too full
            cuts = ranges.cuts_for(rest, min(MOST_RANGES, number))
            counted = None
            if ends is not None:
                cuts, number = ranges.cut_out(cuts, ends)
                counted = number, Tally(*ends)
            found[group] = cuts, counted
        return found

    def _windows(self, survey: Survey) -> dict[Any, tuple[float, float]]:
        if not survey.zero_one or survey.wide or survey.weighted or self.ask.by_loss:
            return {}
        room = int(0.45 * free_of(self.memory))  # the larger part is left to the ranges that must be sorted
        found = {
            group: ranges.window(histogram, survey.rows[group], room * survey.rows[group] // survey.total)
            for group, histogram in survey.histogram.items()
            if survey.rows[group] >= _COUNT_FROM
        }
        return {group: ends for group, ends in found.items() if ends is not None}

    def scatter(self, spill: Spill, cuts: dict[Any, Cut], key: str | None) -> dict[Any, Shelf]:
        """Second pass: every sample to the file of its range, sums on the way."""
        state = _state(spill, key) if key else {}
        numbers = iter(range(1 << 30))
        kept = [[np.asarray(x, dtype=np.float64) for x in own] for own in state.get("shelves", ())]
        shelves = {}
        for at, (group, cut) in enumerate(cuts.items()):
            shelves[group] = Shelf(spill, numbers, *((kept[at][0], None) if kept else cut))
            if kept:
                shelves[group].sums = RangeSums(*kept[at][1:])
        for number, file in enumerate(self.files):
            for batch in read_ahead(self.read(file)) if number >= state.get("done", 0) else ():
                for group, columns in by_label(batch.columns, batch.labels):
                    shelves[group].add(columns)
                self.tick("partition", batch.columns.rows)
            if key:
                _note(spill, key, number + 1, shelves)
        return shelves

    def finish(self, shelf: Shelf, fit: int) -> list[Finished]:
        """The parts of one group, most confident range first."""
        found: list[Finished] = []
        for part in shelf.ranges(fit):
            found += shelf.finished(part, self.ask)
            self.tick("finish", part.rows)
        return found

    def execute(self, survey: Survey, cuts: dict[Any, Cut], where: tuple[Any, Any], key: str | None) -> Any:
        """Sums and parts of each group."""
        with Spill(*where) as spill:
            shelves = self.scatter(spill, cuts, key)
            found = {}
            for group in list(shelves):
                shelf = shelves.pop(group)  # and with it the counters, once they are read
                parts = self.finish(shelf, self.fit(survey))
                found[group] = shelf.sums.total(), parts
        return found

    def in_best_order(self, survey: Survey) -> Run:
        """The oracle's run: the same plan in the order of the losses, smallest on top."""

        def read(file: str) -> Iterator[Batch]:
            for batch in self.read(file):
                yield batch._replace(columns=finish.in_best_order(batch.columns, survey.zero_one))

        return Run(
            self.name, self.files, read, self.rows, finish.oracle_ask(self.ask), self.memory, self.tick
        )


def _note(spill: Spill, key: str, done: int, shelves: dict[Any, Shelf]) -> None:
    """Remember how far the second pass has come."""
    kept = [(s.cuts, s.sums.sums, s.sums.low, s.sums.high) for s in shelves.values()]
    state = {
        "key": key,
        "done": done,
        "sizes": spill.flush(),
        "shelves": [[x.tolist() for x in own] for own in kept],
    }
    target = spill.folder / "progress.json"
    fresh = target.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    fresh.replace(target)


def _state(spill: Spill, key: str) -> dict[str, Any]:
    """How far an earlier, interrupted run over the same data had come.

    Its cuts hold too: ours would lie elsewhere if this process had more or less memory to spare.
    """
    target = spill.folder / "progress.json"
    state: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {"key": ""}
    same = state["key"] == key
    spill.rewind({int(number): size for number, size in state["sizes"].items()} if same else {})
    return state if same else {}


def _run(
    name: str,
    path: Any,
    fields: Fields,
    ask: Ask,
    memory: str | float = "1GB",
    spill: str | None = None,
    resume: str | None = None,
    progress: bool | None = None,
) -> dict[Any, Answer]:
    """In memory when everything fits, through the disk otherwise."""
    files = read.find_files(name, path)
    known = [read.rows_in(file) for file in files]
    rows = None if None in known else sum(r for r in known if r is not None)
    budget = bytes_of(name, memory)
    with _ticker(rows, progress) as tick:
        run = Run(name, files, lambda file: read.batches(name, file, fields), rows, ask, budget, tick)
        types = _types(files, fields)
        small = rows is not None and not fields.group and resume is None and _fits(rows, budget, ask, types)
        many = rows is not None and rows >= _SAMPLE_FROM and not fields.group and types[0]
        if small and not (many and not types[1]):  # what cannot be counted is sorted at once
            return {None: _in_memory(run)}
        survey = _sampled(name, files, fields, rows or 0, types[1]) if many else run.survey()
        if not survey.total:
            raise InputError(f"{name}: needs at least one sample, the files hold none.")
        finish.check_whole(name, survey.whole, ask)
        # counters are not kept when the work is interrupted
        cuts = run.cuts(survey, counting=resume is None)
        if small and not any(counted for _, counted in cuts.values()):
            return {None: _in_memory(run)}
        key = None if resume is None else _key(files, fields, ask, budget)
        found = run.execute(survey, cuts, (spill, resume), key)
        best: dict[Any, Any] = {}
        if finish.needs_oracle_pass(ask, survey.zero_one, survey.whole):
            inner = run.in_best_order(survey)
            by_loss = inner.survey()
            best = inner.execute(by_loss, inner.cuts(by_loss), (spill, None), None)
    return {
        group: finish.answer_of(total, parts, ask, best[group][1] if best else None)
        for group, (total, parts) in found.items()
    }


def _types(files: list[str], fields: Fields) -> tuple[bool, bool]:
    """(are losses surely 0/1, may confidences be wider than float32), of all files, before any is read."""
    if fields.logits or fields.weight:
        return False, True
    found = [read.types_in(file, fields.confidence, fields.loss) for file in files]
    return all(zero_one for zero_one, _ in found), any(wide for _, wide in found)


def _sampled(name: str, files: list[str], fields: Fields, rows: int, wide: bool) -> Survey:
    """A survey of some parts of the files: the schema has told the rest, and a range found too full is refined."""
    parts = read.file_parts(files, BATCH)
    parts = parts[:: max(1, len(parts) // _SAMPLED)]
    survey, rng = Survey(), np.random.default_rng(0)
    for batch in read_ahead(batch for part in parts for batch in read.batches(name, part, fields)):
        survey.add(batch.columns, None, max(1, len(parts) * BATCH // ranges.SURVEYED), rng)
    survey.rows[None], survey.wide = rows, wide
    return survey


def _fits(rows: int, memory: int, ask: Ask, types: tuple[bool, bool]) -> bool:
    """Would everything fit at once, as far as the types of the columns tell?"""
    return rows <= samples_that_fit(memory, ask, *types)


def _in_memory(run: Run) -> Answer:
    """Little data: read it all, finish it as one range."""
    if not run.rows:
        raise InputError(f"{run.name}: needs at least one sample, the files hold none.")
    columns = ranges.gathered((b.columns for file in run.files for b in run.read(file)), run.rows)
    return finish.answer_in_memory(run.name, columns, run.ask)


def _key(files: list[str], fields: Fields, ask: Ask, memory: int) -> str:
    """Changes whenever the data or the question does."""
    stamps = [(file, os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
    return hashlib.sha256(repr((stamps, fields, ask, memory, ranges.SUMS)).encode()).hexdigest()


@contextmanager
def _ticker(rows: int | None, progress: bool | None) -> Iterator[Tick]:
    """A progress bar that appears for long work on a terminal, or as told."""
    short = progress is None and (rows or _LONG) < _LONG
    with bars(False if short else progress) as shown:
        yield lambda stage, count: shown.advance(stage, count, rows)


_ENGINE = Engine(
    "files",
    _run,
    compare_files,
    ("memory", "spill", "resume", "progress"),
    ("other", "memory", "spill", "progress"),
)
evaluate, compare, risk_coverage_curve = _ENGINE.evaluate, _ENGINE.compare, _ENGINE.risk_coverage_curve
aurc, augrc, e_aurc, naurc, risk = _ENGINE.aurc, _ENGINE.augrc, _ENGINE.e_aurc, _ENGINE.naurc, _ENGINE.risk
risk_at_coverage, coverage_at_risk = _ENGINE.risk_at_coverage, _ENGINE.coverage_at_risk
register_engine("files", _ENGINE.on())
