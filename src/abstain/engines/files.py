"""Exact metrics of prediction files larger than memory: Parquet, Arrow and CSV.

Data that fits the budget is read and sorted at once. Otherwise two passes over the files (a histogram of the
confidences, then every sample to the range it belongs to) and one over the ranges, none of which needs more memory
than allowed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from abstain._progress import progress_bars
from abstain._size import free_bytes, parse_size
from abstain.core.stretch import Totals, totals_of_samples
from abstain.core.tally import bytes_between
from abstain.engines import finish, ranges, read
from abstain.engines.engine import FUNCTIONS, Engine
from abstain.engines.finish import Answer, Ask, Finished, PairQuestion, Place, Standing
from abstain.engines.histogram import nothing
from abstain.engines.ranges import Columns, Groups, RangeSums, Survey
from abstain.engines.read import Fields, Loader
from abstain.engines.spill import Range, Shelf, Spill, Window, cuts_that_fit
from abstain.errors import InputError
from abstain.evaluation import Comparison, register_engine
from abstain.formats.alignment import PAIRED_BY_POSITION, check_same_ids
from abstain.formats.arrow import Contents
from abstain.formats.table_files import find_files

__all__ = [*FUNCTIONS]

_HANDY = 1 << 24  # samples in a range beyond which fresh memory costs more than another range
_COUNT_FROM = 1 << 22  # samples below which a table of counters does not pay
_LONG = 20_000_000  # samples from which on a progress bar is worth showing
_UNKNOWN = 50_000_000  # samples, where the files do not say
_SAMPLE_FROM = 1 << 24  # samples from which on a survey of some of them is enough
_SAMPLED = 16  # parts of a million in that survey
_PAIRED = 1 << 18  # samples of two models at a time

Cut = tuple[np.ndarray, Window | None]  # where ranges start, and which one is counted


def samples_that_fit(memory: int, ask: Ask, zero_one: bool, wide: bool, weighted: bool) -> int:
    """Samples a range may hold."""
    return int(0.9 * free_bytes(memory)) // ask.bytes_per_sample(zero_one, wide, weighted)


@dataclass
class Run:
    """One execution of the plan over files, which `read` turns into batches of samples."""

    name: str
    files: list[Any]
    read: Callable[[Any], Iterator[Groups]]
    rows: int | None
    ask: Ask
    memory: int
    tick: Callable[[str, int], None]
    fields: Fields
    units: dict[Any, float] = field(default_factory=dict)  # what to divide the weights of each group by

    def batches(self, stage: str, file: Any) -> Iterator[Groups]:
        """The samples of a file by group, counted as they are done."""
        for groups in read.read_ahead(self.read(file)):
            yield ranges.in_units(groups, self.units)
            self.tick(stage, sum(columns.rows for columns in groups.values()))

    def surveys(self) -> list[Survey]:
        """First pass: a histogram of keys, and one of the other model's."""
        self.units = {}
        found, rng = [Survey() for _ in range(1 + self.ask.paired)], np.random.default_rng(0)
        stride = max(1, (_UNKNOWN if self.rows is None else self.rows) // ranges.SURVEYED)
        for file in self.files:
            for groups in self.batches("survey", file):
                found[0].add(groups, stride, rng)
                for other in found[1:]:
                    other.add({None: groups[None].behind()}, stride, rng)
        if not found[0].total:
            raise InputError(f"{self.name}: needs at least one sample, the files hold none.")
        finish.check_weights(self.name, self.fields, found[0], self.ask)
        self.units = found[0].units(self.fields.repetitions)
        return found

    def fit(self, survey: Survey, taken: int = 0) -> int:
        """Samples that a range may hold."""
        types = (survey.zero_one, survey.wide, survey.weighted)
        return samples_that_fit(self.memory - taken, self.ask, *types)

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
            cuts = cuts_that_fit(rest, rows, fit, min(ranges.FEW, rows // _HANDY))
            counted = None
            if ends is not None:
                cuts, number = ranges.cut_out(cuts, ends)
                counted = number, ends
            found[group] = cuts, counted
        return found

    def _windows(self, survey: Survey) -> dict[Any, tuple[float, float]]:
        if not survey.zero_one or survey.wide or survey.weighted or self.ask.by_loss:
            return {}
        room = int(
            0.45 * free_bytes(self.memory)
        )  # the larger part is left to the ranges that must be sorted
        found = {
            group: ranges.window(histogram, survey.rows[group], room * survey.rows[group] // survey.total)
            for group, histogram in survey.histogram.items()
            if survey.rows[group] >= _COUNT_FROM
        }
        return {group: ends for group, ends in found.items() if ends is not None}

    def scatter(self, spill: Spill, cuts: dict[Any, Cut], key: str | None) -> dict[Any, Shelf]:
        """Second pass: every sample to the file of its range, sums on the way."""
        state = _state(spill, key) if key else {}
        kept = [[np.asarray(x, dtype=np.float64) for x in own] for own in state.get("shelves", ())]
        shelves = {}
        for at, (group, cut) in enumerate(cuts.items()):
            where, counted = (kept[at][0], None) if kept else cut
            shelves[group] = Shelf(spill, where, counted, self.ask.paired)
            if kept:
                shelves[group].sums = RangeSums(*kept[at][1:])
        for number, file in enumerate(self.files):
            for groups in self.batches("partition", file) if number >= state.get("done", 0) else ():
                for group, columns in groups.items():
                    shelves[group].add(columns)
            if key:
                _note(spill, key, number + 1, shelves)
        return shelves

    def execute(self, survey: Survey, cuts: dict[Any, Cut], where: tuple[Any, Any], key: str | None) -> Any:
        """Sums and parts of each group."""
        with Spill(*where) as spill:
            shelves = self.scatter(spill, cuts, key)
            found = {}
            for group in list(shelves):
                shelf = shelves.pop(group)  # and with it the counters, once they are read
                parts = shelf.finished(self.fit(survey), self.ask, partial(self.tick, "finish"))[1]
                found[group] = shelf.sums.total(), parts
        return found

    def compared(self, asked: PairQuestion, spill: Spill) -> Comparison:
        """Two passes over the files, one over the ranges of the first model, which sends every sample on with its
        influence in hand, and one over the ranges of the second."""
        surveys = self.surveys()
        fit = self.fit(surveys[0])
        first, second = (cuts_that_fit(s.histogram.get(None, nothing()), s.total, fit) for s in surveys)
        one = self.scatter(spill, {None: (first, None)}, None)[None]
        two = Shelf(spill, second, keep=True)
        held, parts = one.finished(fit, self.ask, partial(self.tick, "first"))
        answer = Answer(held[0].place.total, self.ask, parts)
        for columns, at in self._members(one, held, parts, "move"):
            two.add(finish.turned(columns, at, self.ask))
        held, parts = two.finished(fit, self.ask, partial(self.tick, "second"))
        pairing = finish.Pairing(asked, answer, Answer(held[0].place.total, self.ask, parts))
        joint = np.zeros(3)
        for columns, at in self._members(two, held, parts, "joint"):
            joint += finish.joint_sums(columns, at, self.ask, pairing.rates)
        return pairing.compared(joint)

    def _members(
        self, shelf: Shelf, held: list[Range], parts: list[Finished], stage: str
    ) -> Iterator[tuple[Columns, Standing]]:
        """The samples of all ranges, and where they stand."""
        for part, at in zip(held, finish.standings(parts, [part.place for part in held], self.ask)):
            at = at._replace(tie=part.sums[:2] if part.tied else None)
            for columns in shelf.read(part):
                yield columns, at
                self.tick(stage, columns.rows)
            shelf.spill.drop(part.number)


def _note(spill: Spill, key: str, done: int, shelves: dict[Any, Shelf]) -> None:
    """Remember how far the second pass has come."""
    kept = [(s.cuts, s.sums.sums, s.sums.low, s.sums.high) for s in shelves.values()]
    arrays = [[x.tolist() for x in own] for own in kept]
    state = {"key": key, "done": done, "sizes": spill.flush(), "shelves": arrays}
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
    files, load = find_files(name, path), Loader(name, fields)
    told = [read.described(file) for file in files]
    rows, budget = _rows(told), parse_size(name, memory)
    quiet = progress is False or (progress is None and (rows or _LONG) < _LONG)
    with nullcontext() if quiet else progress_bars(progress) as shown:
        tick = partial(shown.advance, total=rows) if shown else lambda stage, count: None
        run = Run(name, files, load.batches, rows, ask, budget, tick, fields)
        types = _types(told, fields)
        small = rows is not None and not fields.group and resume is None and _fits(rows, budget, ask, types)
        many = rows is not None and rows >= _SAMPLE_FROM and not fields.group and types[0]
        if small and not (many and not types[1]):  # what cannot be counted is sorted at once
            return {None: _in_memory(run)}
        survey = _sampled(load, files, rows or 0, types[1]) if many else run.surveys()[0]
        # counters are not kept when the work is interrupted
        cuts = run.cuts(survey, counting=resume is None)
        if small and not any(counted for _, counted in cuts.values()):
            return {None: _in_memory(run)}
        key = None if resume is None else _key(files, fields, ask, budget)
        found = run.execute(survey, cuts, (spill, resume), key)
        best: dict[Any, Any] = {}
        if oracle := ask.of_oracle(survey.zero_one, survey.countable(fields.repetitions)):
            # the same plan in the order of the losses, smallest on top
            errors_alike = all(total.in_error_units().zero_one for total, _ in found.values())
            run.read, run.ask = load._replace(best=errors_alike).batches, oracle
            by_loss = run.surveys()[0]
            best = run.execute(by_loss, run.cuts(by_loss), (spill, None), None)
    return {
        group: Answer(total, ask, parts, best[group][1] if best else ())
        for group, (total, parts) in found.items()
    }


def _compared(
    asked: PairQuestion,
    path: Any,
    other: Any = None,
    ids: str | None = None,
    memory: str | float = "1GB",
    spill: str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """The comparison of files, or of the same samples in `other` files, whose ids must agree row by row."""
    name, load = asked.name, Loader(asked.name, asked.first, other=asked.second)
    files: list[Any] = find_files(name, path)
    rows = _rows([read.described(file) for file in files])
    has_ids = True
    if other is not None:
        has_ids = check_same_ids(path, other, {} if ids is None else {"ids": ids})
        files = [(files, find_files(name, other))]

    def batches(file: Any) -> Iterator[Groups]:
        return load.batches(file, _PAIRED) if other is None else read.batches_in_step(load, file, _PAIRED)

    with progress_bars(progress) as shown, Spill(spill) as store:
        budget = parse_size(name, memory)
        tick = partial(shown.advance, total=rows)
        run = Run(name, files, batches, rows, asked.ask, budget, tick, asked.first)
        comparison = run.compared(asked, store)
    return comparison if has_ids else replace(comparison, notes=(*comparison.notes, PAIRED_BY_POSITION))


def _rows(told: Sequence[Contents]) -> int | None:
    """Of all files, if they say."""
    known = [sum(one.row_group_sizes) for one in told if one.row_group_sizes is not None]
    return sum(known) if len(known) == len(told) else None


def _types(told: Sequence[Contents], fields: Fields) -> tuple[bool, bool, bool]:
    """(are losses surely 0/1, may confidences be wider than float32, are there weights), before any file is read."""
    if fields.logits or fields.weight:
        return False, True, fields.weight is not None
    wide = any(one.column_types.get(fields.confidence) not in ("float", "halffloat") for one in told)
    return all(one.column_types.get(fields.loss) == "bool" for one in told), wide, False


def _sampled(load: Loader, files: list[str], rows: int, wide: bool) -> Survey:
    """A survey of some parts of the files: the schema has told the rest, and a range found too full is refined."""
    parts = read.file_parts(files, read.BATCH)
    parts = parts[:: max(1, len(parts) // _SAMPLED)]
    survey, rng = Survey(), np.random.default_rng(0)
    for groups in read.read_ahead(groups for part in parts for groups in load.batches(part)):
        survey.add(groups, max(1, len(parts) * read.BATCH // ranges.SURVEYED), rng)
    survey.rows[None], survey.wide = rows, wide
    return survey


def _fits(rows: int, memory: int, ask: Ask, types: tuple[bool, bool, bool]) -> bool:
    """Would everything fit at once, as far as the types of the columns tell?"""
    return rows <= samples_that_fit(memory, ask, *types)


def _in_memory(run: Run) -> Answer:
    """Little data: read it all, finish it as one range."""
    ask, read = run.ask, (groups[None] for file in run.files for groups in run.read(file))
    columns = ranges.gathered(read, run.rows or 0)
    if not columns.rows:
        raise InputError(f"{run.name}: needs at least one sample, the files hold none.")
    if columns.weight is not None:
        survey = Survey()
        survey.note_weights(None, columns.weight)
        finish.check_weights(run.name, run.fields, survey, ask)
        columns = columns.in_units(survey.units(run.fields.repetitions)[None])
    loss, _, weight = columns.samples
    if ask.area_only and not ask.oracle and weight is None:  # as few passes as can be
        total = Totals(columns.rows, float(columns.rows), float(loss.sum(dtype=np.float64)), (), (), True)
    else:
        total = totals_of_samples(loss, weight, loss.dtype == bool)
    place, oracle = Place(0.0, 0.0, total), ask.of_oracle(total.zero_one, total.whole)
    errors_alike = total.zero_one or (oracle is not None and total.in_error_units().zero_one)
    best = [finish.finish(columns.in_best_order(errors_alike), place, oracle)] if oracle else ()
    return Answer(total, ask, [finish.finish(columns, place, ask)], best)


def _key(files: list[str], fields: Fields, ask: Ask, memory: int) -> str:
    """Changes whenever the data or the question does."""
    stamps = [(file, os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
    return hashlib.sha256(repr((stamps, fields, ask, memory, ranges.SUMS)).encode()).hexdigest()


_MEANS = ("memory", "spill", "progress")
_ENGINE = Engine("files", _run, _compared, (*_MEANS, "resume"), (*_MEANS, "other", "ids"))
evaluate, compare, risk_coverage_curve = _ENGINE.evaluate, _ENGINE.compare, _ENGINE.risk_coverage_curve
aurc, augrc, e_aurc, naurc, risk = _ENGINE.aurc, _ENGINE.augrc, _ENGINE.e_aurc, _ENGINE.naurc, _ENGINE.risk
risk_at_coverage, coverage_at_risk = _ENGINE.risk_at_coverage, _ENGINE.coverage_at_risk
register_engine("files", _ENGINE.on())
