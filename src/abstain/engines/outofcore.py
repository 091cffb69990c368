"""The plan on one machine: survey the confidences, spill samples by range, finish range by range."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain.core.tally import Tally, bytes_between
from abstain.engines.ahead import ahead
from abstain.engines.budget import room_for_counters, samples_that_fit
from abstain.engines.counting import counted_parts, outside, put_counts, window
from abstain.engines.finish import Ask, Part, Place, finish, finish_tie
from abstain.engines.items import nothing
from abstain.engines.labels import by_label
from abstain.engines.ranges import FEW, Columns, RangeSums, cuts_for, no_sums, split
from abstain.engines.sources import Batch
from abstain.engines.spill import Spill
from abstain.engines.survey import SURVEYED, Survey

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
