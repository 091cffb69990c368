"""Exact metrics of prediction files larger than memory: Parquet, Arrow and CSV.

Two passes over the data (a histogram of the confidences, then every sample to the range it belongs to) and
one over the ranges, none of which needs more memory than allowed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

from abstain._progress import bars
from abstain._size import bytes_of
from abstain.core.estimators import Estimator, Ties
from abstain.core.tally import Tally, bytes_between
from abstain.engines.finish import (
    Ask,
    Part,
    Place,
    Summary,
    check_whole,
    finish,
    finish_tie,
    keyed_by_loss,
    needs_oracle_pass,
    oracle_ask,
    picked,
    summarise,
    summary_of,
    value_of,
)
from abstain.engines.histogram import nothing
from abstain.engines.paired import Paired, compare_files
from abstain.engines.plan import (
    Model,
    PairOptions,
    Reading,
    ask_for,
    counted_parts,
    fields_for,
    outside,
    pair,
    put_counts,
    window,
)
from abstain.engines.ranges import (
    FEW,
    SUMS,
    SURVEYED,
    Columns,
    RangeSums,
    Survey,
    cuts_for,
    gathered,
    no_sums,
    split,
)
from abstain.engines.read import (
    BATCH,
    Batch,
    Fields,
    ahead,
    batches,
    by_label,
    find_files,
    rows_in,
    stretches,
    types_in,
)
from abstain.engines.spill import Spill, room_for_counters, samples_that_fit
from abstain.errors import InputError
from abstain.metrics.groups import Grouped
from abstain.metrics.points import RiskCoverageCurve

__all__ = [
    "augrc",
    "aurc",
    "compare",
    "coverage_at_risk",
    "e_aurc",
    "evaluate",
    "naurc",
    "risk",
    "risk_at_coverage",
    "risk_coverage_curve",
]


_MOST_RANGES = 512
_HANDY = 1 << 24  # samples in a range beyond which fresh memory costs more than another range
_COUNT_FROM = 1 << 22  # samples below which a table of counters does not pay

Reader = Callable[[str], Iterator[Batch]]
Tick = Callable[[str, int], None]


@dataclass
class Layout:
    """Where the ranges of each group start, the number of each group's first range, and which range is counted."""

    cuts: dict[Any, np.ndarray]
    first: dict[Any, int]
    total: int
    tallies: dict[Any, Tally]
    counted: dict[Any, int]  # number of the range that a group's tally stands for

    @classmethod
    def of(cls, survey: Survey, fit: int, windows: dict[Any, tuple[float, float]]) -> Layout:
        """Ranges of at most about three quarters of what fits, so that few turn out too full."""
        layout = cls({}, {}, 0, {}, {})
        for group, rows in survey.rows.items():
            histogram = survey.histogram.get(group, nothing())
            ends = windows.get(group)
            rest = histogram if ends is None else outside(histogram, ends)
            if ends is not None:
                rows = int(rows * rest.mass.sum() / histogram.mass.sum())
            ranges = max(-(-4 * rows // (3 * fit)), min(FEW, rows // _HANDY))
            ranges = min(_MOST_RANGES, ranges)
            cuts = cuts_for(rest, ranges) if ranges > 1 and len(rest) else np.empty(0)
            if ends is not None:
                cuts = layout._count(group, ends, cuts)
            layout.cuts[group], layout.first[group] = cuts, layout.total
            layout.total += len(cuts) + 1
        return layout

    def _count(self, group: Any, ends: tuple[float, float], cuts: np.ndarray) -> np.ndarray:
        """Make the window a range of its own."""
        self.tallies[group] = Tally(*ends)
        after = float(np.nextafter(np.float32(ends[1]), np.float32(np.inf)))
        inside = (cuts > ends[0]) & (cuts < after)
        cuts = np.unique(np.concatenate([cuts[~inside], [ends[0], after]]))
        self.counted[group] = int(np.searchsorted(cuts, ends[0], "right"))
        return np.asarray(cuts[np.isfinite(cuts)])

    def recut(self, cuts: list[list[float]]) -> None:
        """Ranges as they were cut before, group by group."""
        self.total = 0
        for group, own in zip(list(self.cuts), cuts):
            self.cuts[group], self.first[group] = np.asarray(own), self.total
            self.total += len(own) + 1

    def parts(self, group: Any, columns: Columns) -> tuple[list[Columns], RangeSums]:
        """Count what can be counted; the other samples, range by range, and their sums."""
        if group in self.tallies:
            columns = columns.take(self.tallies[group].add(columns.loss, columns.confidence))
        return split(columns, self.cuts[group])


class Run:
    """One execution of the plan over a list of files."""

    def __init__(
        self, files: list[str], read: Reader, rows: int | None, ask: Ask, memory: int, tick: Tick
    ) -> None:
        self.files, self.read, self.rows, self.ask, self.memory, self.tick = (
            files,
            read,
            rows,
            ask,
            memory,
            tick,
        )

    def survey(self) -> Survey:
        """First pass: a histogram of keys."""
        survey, rng = Survey(), np.random.default_rng(0)
        known = self.rows if self.rows is not None else 50_000_000
        stride = max(1, known // SURVEYED)
        for file in self.files:
            for batch in ahead(self.read(file)):
                for group, columns in by_label(batch.columns, batch.labels):
                    survey.add(columns, group, stride, rng)
                self.tick("survey", batch.columns.rows)
        return survey

    def layout(self, survey: Survey, counting: bool = True) -> Layout:
        """Ranges that fit the budget, and windows to count where samples lie dense."""
        windows = self._windows(survey) if counting else {}
        taken = sum(bytes_between(*ends) for ends in windows.values())
        return Layout.of(survey, self._fit(survey, taken), windows)

    def _windows(self, survey: Survey) -> dict[Any, tuple[float, float]]:
        if not survey.zero_one or survey.wide or survey.weighted or self.ask.by_loss:
            return {}
        room, rows = room_for_counters(self.memory), sum(survey.rows.values())
        found = {
            group: window(items, survey.rows[group], room * survey.rows[group] // rows)
            for group, items in survey.histogram.items()
            if survey.rows[group] >= _COUNT_FROM
        }
        return {group: ends for group, ends in found.items() if ends is not None}

    def _fit(self, survey: Survey, taken: int = 0) -> int:
        return samples_that_fit(self.memory - taken, self.ask, survey.zero_one, survey.wide)

    def scatter(self, layout: Layout, spill: Spill, key: str | None) -> dict[Any, RangeSums]:
        """Second pass: every sample to the file of its range, sums on the way."""
        sums = {group: no_sums(len(cuts) + 1) for group, cuts in layout.cuts.items()}
        done = _take_up(spill, key, sums, layout) if key else 0
        for number, file in enumerate(self.files):
            for batch in ahead(self.read(file)) if number >= done else ():
                for group, columns in by_label(batch.columns, batch.labels):
                    parts, more = layout.parts(group, columns)
                    sums[group] = sums[group].plus(more)
                    for place, part in enumerate(parts):
                        spill.append(layout.first[group] + place, part)
                self.tick("partition", batch.columns.rows)
            if key:
                _note(spill, key, number + 1, sums, layout)
        for group, tally in layout.tallies.items():
            put_counts(sums[group], layout.counted[group], tally)
        spill.flush()
        spill.close()
        return sums

    def finish(self, spill: Spill, layout: Layout, group: Any, sums: RangeSums, survey: Survey) -> list[Part]:
        """The parts of one group, most confident range first."""
        above, W = sums.above(), float(sums.sums[0].sum())
        parts: list[Part] = []
        for number in range(len(sums.count) - 1, -1, -1):
            if not sums.count[number]:
                continue
            place = Place(float(above[0, number]), float(above[1, number]), W)
            if sums.tied[number]:
                parts.append(finish_tie(sums.sums[:, number], float(sums.low[number]), place, self.ask))
            elif layout.counted.get(group) == number:
                parts += counted_parts(layout.tallies.pop(group), place, self.ask)
            else:
                at = layout.first[group] + number
                parts += self._finish_range(spill, at, int(sums.count[number]), place, survey)
            self.tick("finish", int(sums.count[number]))
        return parts

    def _finish_range(
        self, spill: Spill, number: int, count: int, place: Place, survey: Survey
    ) -> list[Part]:
        fit = self._fit(survey)
        if count <= fit:
            return [finish(spill.read(number, count), place, self.ask)]
        return self._refine(spill, number, count, place, survey, fit)

    def _refine(
        self, spill: Spill, number: int, count: int, place: Place, survey: Survey, fit: int
    ) -> list[Part]:
        """A range that turned out too full: the same plan over its own file, one level down."""
        inner, rng = Survey(zero_one=survey.zero_one, wide=survey.wide), np.random.default_rng(1)
        for piece in spill.pieces(number):
            inner.add(piece, None, max(1, count // SURVEYED), rng)
        ranges = max(2, -(-4 * count // (3 * fit)))
        cuts = cuts_for(inner.histogram[None], ranges)
        with Spill(parent=str(spill.folder)) as lower:
            sums = no_sums(len(cuts) + 1)
            for piece in spill.pieces(number):
                parts, more = split(piece, cuts)
                sums = sums.plus(more)
                for at, part in enumerate(parts):
                    lower.append(at, part)
            lower.flush()
            lower.close()
            return self._finish_inner(lower, sums, place, survey)

    def _finish_inner(self, spill: Spill, sums: RangeSums, outer: Place, survey: Survey) -> list[Part]:
        above = sums.above()
        parts: list[Part] = []
        for number in range(len(sums.count) - 1, -1, -1):
            place = Place(outer.N + float(above[0, number]), outer.S + float(above[1, number]), outer.W)
            if not sums.count[number]:
                continue
            if sums.tied[number]:
                parts.append(finish_tie(sums.sums[:, number], float(sums.low[number]), place, self.ask))
            else:
                parts += self._finish_range(spill, number, int(sums.count[number]), place, survey)
        return parts


def _note(spill: Spill, key: str, done: int, sums: dict[Any, RangeSums], layout: Layout) -> None:
    """Remember how far the second pass has come."""
    state = {
        "key": key,
        "done": done,
        "sizes": spill.flush(),
        "cuts": [cuts.tolist() for cuts in layout.cuts.values()],
        "sums": [[s.sums.tolist(), s.low.tolist(), s.high.tolist()] for s in sums.values()],
    }
    target = spill.folder / "progress.json"
    fresh = target.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    fresh.replace(target)


def _take_up(spill: Spill, key: str, sums: dict[Any, RangeSums], layout: Layout) -> int:
    """Files already done by an earlier, interrupted run over the same data; its sums are put into `sums`.

    Its cuts hold too: ours would lie elsewhere if this process had more or less memory to spare.
    """
    target = spill.folder / "progress.json"
    state: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {"key": ""}
    if state["key"] != key:
        spill.rewind({})
        return 0
    spill.rewind({int(number): size for number, size in state["sizes"].items()})
    layout.recut(state["cuts"])
    for group, stored in zip(list(sums), state["sums"]):
        sums[group] = RangeSums(*(np.asarray(x, dtype=np.float64) for x in stored))
    return int(state["done"])


# filerun ------------------------------------------------------------------------------------------
#
# How `files` runs the plan: in memory when everything fits, through the disk otherwise.


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
    files = find_files(name, path)
    known = [rows_in(file) for file in files]
    rows = None if None in known else sum(r for r in known if r is not None)
    budget = bytes_of(name, memory)
    with _ticker(rows, progress) as tick:
        run = Run(files, lambda file: batches(name, file, fields), rows, ask, budget, tick)
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
    found = [types_in(file, fields.confidence, fields.loss) for file in files]
    return all(zero_one for zero_one, _ in found), any(wide for _, wide in found)


def _sampled(name: str, files: list[str], fields: Fields, rows: int, wide: bool) -> Survey:
    """A survey of some stretches of the files: the schema has told the rest, and a range found too full is refined."""
    parts = stretches(files, BATCH)
    parts = parts[:: max(1, len(parts) // _STRETCHES)]
    survey, rng = Survey(), np.random.default_rng(0)
    read = (b for part in parts for b in batches(name, part.file, fields, stretch=part))
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
        for batch in batches(name, file, fields):
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


# files --------------------------------------------------------------------------------------------
#
# Exact metrics of prediction files larger than memory: Parquet, Arrow and CSV.
#
# Two passes over the data (a histogram of the confidences, then every sample to the range it belongs to) and
# one over the ranges, none of which needs more memory than allowed.


class Means(TypedDict, total=False):
    """What a run may take, and whether it shows how far it is; see `evaluate`."""

    memory: str | float
    spill: str | None
    resume: str | None
    progress: bool | None


class FilePairOptions(PairOptions, total=False):
    """Options of `compare`; see there."""

    other: Any
    memory: str | float
    spill: str | None


class FileOptions(Reading, Means, total=False):
    """Options every function here takes; see `evaluate`."""


def evaluate(
    path: Any,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    coverages: Sequence[float] = (),
    risks: Sequence[float] = (),
    points: int = 0,
    **reading: Unpack[FileOptions],
) -> Summary | dict[Any, Summary]:
    """Every area with its standard error, and points of the curve, exactly, of files larger than memory.

    Parameters
    ----------
    path : str, path or list of them
        A file, a folder or a glob of Parquet, Arrow (feather, ipc) and CSV files.
    estimator, ties : str
        As in `abstain.aurc`.
    coverages, risks : sequences of float
        Where to read off risks at coverages and coverages at risks.
    points : int
        About how many points of the risk-coverage curve to keep (exact ones, evenly spaced in coverage).
    confidence, loss, sample_weight, groups : str
        Names of columns ("confidence" and "loss" unless said). `correct` names a column of 1 (right) and 0
        in place of the losses. Instead of both: `logits` (columns, or
        one column of lists) and `label`, with `score` (a name of `abstain.scores`, "max_softmax") and
        `loss_name` (of `abstain.losses`, "zero_one").
    memory : str or number
        Budget of this process, "1GB" unless said.
    spill : str, optional
        Folder for intermediate data (as large as the columns read); removed afterwards, also after an error.
    resume : str, optional
        Folder that keeps intermediate data when the work is interrupted; the same call takes it up again.
    progress : bool, optional
        Show a progress bar; by default when the terminal can and the work is long.

    Returns
    -------
    Summary, or a dict of them by group.
    """
    ask = ask_for("files.evaluate", estimator, ties, True, coverages, risks, points)
    result: Summary | dict[Any, Summary] = _answer("files.evaluate", path, ask, reading)
    return result


def aurc(
    path: Any,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    **reading: Unpack[FileOptions],
) -> float | Grouped:
    """Area under the risk-coverage curve; lower is better. Options as in `evaluate`."""
    ask = ask_for("files.aurc", estimator, ties, spread=False)
    return value_of("aurc", _answer("files.aurc", path, ask, reading))


def augrc(path: Any, /, *, ties: Ties = "threshold", **reading: Unpack[FileOptions]) -> float | Grouped:
    """Area under the generalised risk-coverage curve, by the mean rule; lower is better."""
    ask = ask_for("files.augrc", "sele", ties, spread=False)
    return value_of("aurc", _answer("files.augrc", path, ask, reading), "augrc")


def risk(path: Any, /, **reading: Unpack[FileOptions]) -> float | Grouped:
    """Mean loss; lower is better."""
    return value_of("risk", _answer("files.risk", path, Ask(), reading))


def e_aurc(
    path: Any, /, *, estimator: Estimator = "harmonic", **reading: Unpack[FileOptions]
) -> float | Grouped:
    """Excess AURC over the best ordering of the same losses; lower is better."""
    return value_of("e_aurc", _answer("files.e_aurc", path, Ask(estimator), reading))


def naurc(
    path: Any, /, *, estimator: Estimator = "harmonic", **reading: Unpack[FileOptions]
) -> float | Grouped:
    """Normalised AURC: 0 for the best ordering, 1 for a useless confidence; lower is better."""
    return value_of("naurc", _answer("files.naurc", path, Ask(estimator), reading))


def risk_at_coverage(path: Any, /, *, coverage: float, **reading: Unpack[FileOptions]) -> float | Grouped:
    """Selective risk at the least attainable coverage that is at least `coverage`; lower is better."""
    ask = ask_for("files.risk_at_coverage", "harmonic", "threshold", False, coverages=(coverage,))
    answer = _answer("files.risk_at_coverage", path, ask, reading)
    return picked("risk_at_coverage", answer, lambda s: s.risk_at_coverage[ask.coverages[0]])


def coverage_at_risk(path: Any, /, *, risk: float, **reading: Unpack[FileOptions]) -> float | Grouped:
    """Largest coverage whose selective risk is at most `risk`, 0 when no threshold does it; higher is
    better."""
    ask = ask_for("files.coverage_at_risk", "harmonic", "threshold", False, risks=(risk,))
    answer = _answer("files.coverage_at_risk", path, ask, reading)
    return picked(
        "coverage_at_risk", answer, lambda s: s.coverage_at_risk[ask.risks[0]], lower_is_better=False
    )


def risk_coverage_curve(
    path: Any, /, *, points: int = 1000, **reading: Unpack[FileOptions]
) -> RiskCoverageCurve | dict[Any, RiskCoverageCurve]:
    """About `points` exact points of the risk-coverage curve, evenly spaced in coverage (a dict by group)."""
    answer = _answer("files.risk_coverage_curve", path, Ask(spread=False, points=int(points)), reading)
    if isinstance(answer, dict):
        return {group: summary.curve for group, summary in answer.items()}
    curve: RiskCoverageCurve = answer.curve
    return curve


def compare(path: Any, /, *, first: Model, second: Model, **options: Unpack[FilePairOptions]) -> Paired:
    """Is the first model's AURC lower than the second's on the same samples?

    Parameters
    ----------
    path : str, path or list of them
        Files that hold the columns of both models, as in `evaluate`.
    first, second : (str, str)
        The columns (confidence, loss) of each model.
    other : str, path or list of them, optional
        Files that hold the second model's columns instead, sample by sample in the same order.
    estimator, ties, sample_weight, memory, spill, progress
        As in `evaluate`; intermediate data takes about 40 bytes for each sample.

    Returns
    -------
    Paired
        Both areas, their difference with its standard error, an interval and a p-value.
    """
    own: dict[str, Any] = dict(options)
    means = {key: own.pop(key) for key in ("other", "memory", "spill") if key in own}
    return compare_files(pair("files.compare", first, second, own), path, **means)


def _answer(name: str, path: Any, ask: Ask, reading: FileOptions) -> Any:
    options: dict[str, Any] = dict(reading)
    means = {key: options.pop(key, None) for key in ("spill", "resume", "progress")}
    memory = options.pop("memory", "1GB")
    return run_files(name, path, fields_for(name, options), ask, memory, **means)


def _register() -> None:
    from abstain.engines.finish import engine
    from abstain.evaluation import register_engine

    register_engine("files", engine(evaluate))


_register()
