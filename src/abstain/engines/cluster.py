"""The plan as tasks for a cluster: small functions of one partition or one bundle, and the passes in their order.

Whoever executes them (Dask, Spark) moves samples between machines; the driver sees histograms and sums only. The
ranges of all groups stand in one numbering, and a bundle is the ranges that one task finishes: small groups share a
task, large ones are cut into several, so the number of tasks follows the samples, not the groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from abstain.engines import finish
from abstain.engines.engine import Engine
from abstain.engines.finish import Answer, Ask, Finished, PairQuestion, Place, Standing
from abstain.engines.histogram import joined, nothing
from abstain.engines.ranges import (
    Columns,
    Groups,
    RangeSums,
    Survey,
    cuts_for,
    joined_columns,
    lone,
    no_sums,
    split,
)
from abstain.engines.read import Fields, Loader
from abstain.errors import InputError
from abstain.evaluation.results import Comparison

SAMPLES_PER_RANGE = 4_000_000
SAMPLES_PER_PARTITION = 4_000_000
MOST_GROUPS = 2_000  # about two kilobytes each come to the driver
MOST_POINTS = 200_000  # of all curves together, 32 bytes each
_PER_TASK = 1 << 16  # samples of a partition that enter the histogram
_STRETCHES = 1 << 12  # of the histograms of all groups together
_LEAST = 4  # worth keeping: below a thousandth of all samples a group is cut by nobody, up to 4e9 samples

Bundle = list[tuple[int, Columns]]  # samples of some ranges, by number
Work = Callable[..., Any]


# the survey -------------------------------------------------------------------------------------------------


def survey_groups(groups: Groups, name: str) -> Survey:
    """Histograms of some of the samples, scaled to all of them."""
    _check_groups(name, len(groups))
    total = sum(columns.rows for columns in groups.values())
    survey, rng = Survey(), np.random.default_rng(total)
    survey.add(groups, max(1, total // _PER_TASK), rng)
    for group, histogram in survey.histogram.items():
        # one in so many: a partition counts by its samples, however many of them were looked at
        scale = groups[group].rows / max(histogram.mass.sum(), 1.0)
        survey.histogram[group] = replace(histogram, sums=histogram.sums * scale)
    return _thinned(survey)


def merge_surveys(surveys: Sequence[Survey], name: str) -> Survey:
    """One survey of several."""
    survey = Survey().include(*surveys)
    _check_groups(name, len(survey.rows))
    return _thinned(survey)


def _check_groups(name: str, number: int) -> None:
    """A column of ids is refused before a histogram is made for each of them."""
    if number > MOST_GROUPS:
        raise InputError(
            f"{name}: `groups` must name a column of at most {MOST_GROUPS:,} groups, got more. The answers of all "
            f"groups come to the driver. Take coarser groups, or `abstain.engines.files`, which has no such limit."
        )


def _thinned(survey: Survey) -> Survey:
    """However many groups there are, their histograms together stay about as large as that of one."""
    if len(survey.rows) > 1:
        for group, histogram in list(survey.histogram.items()):
            most = _STRETCHES * survey.rows[group] // survey.total
            if most < _LEAST:
                del survey.histogram[group]
            else:
                survey.histogram[group] = joined([histogram], most)
    return survey


# the numbering of ranges ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbering:
    """Where the ranges of each group start, the number of each group's first, and the bundle of each range."""

    cuts: dict[Any, np.ndarray]
    first: dict[Any, int]
    bundle: np.ndarray

    @property
    def total(self) -> int:
        """Number of ranges."""
        return len(self.bundle)

    @property
    def bundles(self) -> int:
        """Number of bundles."""
        return int(self.bundle[-1]) + 1

    def of(self, group: Any) -> slice:
        """The ranges of a group."""
        start = self.first[group]
        return slice(start, start + len(self.cuts[group]) + 1)

    def by_bundle(self, values: Mapping[int, Any]) -> dict[int, dict[int, Any]]:
        """What is known of ranges, bundle by bundle."""
        found: dict[int, dict[int, Any]] = {}
        for number, value in values.items():
            found.setdefault(int(self.bundle[number]), {})[number] = value
        return found

    def places(self, sums: RangeSums) -> dict[int, Place]:
        """What lies above each range that holds samples, within its group; most confident first in each group."""
        places = {}
        for group, first in self.first.items():
            own = sums.of(self.of(group))
            above, total = own.above(), own.total()
            for at in np.flatnonzero(own.count)[::-1].tolist():
                places[first + at] = Place(float(above[0, at]), float(above[1, at]), total)
        return places


def numbering_for(survey: Survey, tasks: int) -> Numbering:
    """Ranges of at most about a share of `1 / tasks` of all samples, filled into about as many bundles."""
    rows = survey.total
    cuts: dict[Any, np.ndarray] = {}
    first: dict[Any, int] = {}
    sizes: list[float] = []
    for group, own in survey.rows.items():
        histogram = survey.histogram.get(group, nothing())
        cuts[group] = cuts_for(histogram, -(-own * tasks // rows))
        first[group] = len(sizes)
        number = len(cuts[group]) + 1
        mass = np.bincount(np.searchsorted(cuts[group], histogram.low, "right"), histogram.mass, number)
        mass = mass * (own / max(mass.sum(), 1.0)) if len(histogram) else np.full(number, own / number)
        sizes += np.where(lone(cuts[group]), 0.0, mass).tolist()  # a tie is told by its sums: nobody sends it
    return Numbering(cuts, first, _bundles(sizes, rows / tasks))


def _bundles(sizes: Sequence[float], room: float) -> np.ndarray:
    found, held, at = [], 0.0, 0
    for size in sizes:
        if held and held + size > room:
            at, held = at + 1, 0.0
        found.append(at)
        held += size
    return np.asarray(found)


def bundled(
    groups: Mapping[Any, Columns], numbering: Numbering, keep: bool = False
) -> tuple[list[Bundle], RangeSums]:
    """The samples of each bundle, by range, and the sums of every range; `keep` as in `ranges.split`."""
    found: list[Bundle] = [[] for _ in range(numbering.bundles)]
    total = no_sums(numbering.total)
    for group, columns in groups.items():
        here = numbering.of(group)
        parts, sums = split(columns, numbering.cuts[group], keep=keep)
        total.sums[:, here], total.low[here], total.high[here] = sums.sums, sums.low, sums.high
        for number, part in enumerate(parts, here.start):
            if part.rows:
                found[numbering.bundle[number]].append((number, part))
    return found, total


def by_range(pieces: Sequence[Bundle]) -> Iterator[tuple[int, Columns]]:
    """The samples of each range of a bundle, from all partitions."""
    found: dict[int, list[Columns]] = {}
    for number, columns in (pair for piece in pieces for pair in piece):
        found.setdefault(number, []).append(columns)
    for number in sorted(found):
        yield number, joined_columns(found.pop(number))


# tasks ------------------------------------------------------------------------------------------------------


def plan(name: str, fields: Fields, survey: Survey, ask: Ask, at_least: int) -> Numbering:
    """As many ranges as needed to keep each small, and enough to keep every worker busy."""
    rows = survey.total
    if not rows:
        raise InputError(f"{name}: needs at least one sample, the data holds none.")
    if ask.curve * len(survey.rows) > MOST_POINTS:
        raise InputError(
            f"{name}: `points` must be at most {MOST_POINTS // len(survey.rows):,} for {len(survey.rows):,} groups, "
            f"got {ask.curve:,}. The points of all curves come to the driver."
        )
    finish.check_weights(name, fields, survey, ask)
    tasks = max(-(-rows // SAMPLES_PER_RANGE), min(at_least, -(-rows // 10_000)))
    return numbering_for(survey, min(tasks, 4096))


def split_part(part: Any, load: Loader, numbering: Numbering) -> tuple[list[Bundle], RangeSums]:
    """Second pass over one partition: its samples by bundle, and the sums of every range."""
    return bundled(load(part), numbering, keep=load.other is not None)


def sums_of(parts: Sequence[RangeSums]) -> RangeSums:
    """Sums over all partitions."""
    return parts[0].plus(*parts[1:])


def finish_bundle(pieces: Sequence[Bundle], places: Mapping[int, Place], ask: Ask) -> dict[int, Finished]:
    """The parts of a bundle's ranges, brought together from all partitions."""
    return {
        number: finish.finish(columns, places[number], ask)
        for number, columns in by_range(pieces)
        if number in places
    }


def turn_bundle(
    pieces: Sequence[Bundle], standing: Mapping[int, Standing], ask: Ask, numbering: Numbering
) -> tuple[list[Bundle], RangeSums]:
    """The samples of a bundle with their first influence in hand, by bundles of the second model."""
    moved = [finish.turned(columns, standing[number], ask) for number, columns in by_range(pieces)]
    return bundled({None: joined_columns(moved)} if moved else {}, numbering, keep=True)


def joint_bundle(
    pieces: Sequence[Bundle], standing: Mapping[int, Standing], ask: Ask, rates: tuple[float, float]
) -> np.ndarray:
    """The joint sums of a bundle of the second model."""
    found = [finish.joint_sums(columns, standing[number], ask, rates) for number, columns in by_range(pieces)]
    return np.sum([np.zeros(3), *found], axis=0)


# passes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What one execution of the plan has found; `held` are the samples by bundle, as the engine keeps them."""

    survey: Survey
    numbering: Numbering
    sums: RangeSums
    parts: dict[int, Finished]
    ask: Ask
    held: Any

    def answer(self, group: Any, best: Found | None = None) -> Answer:
        """Of a group."""
        total = self.sums.of(self.numbering.of(group)).total()
        return Answer(total, self.ask, self.of(group), best.of(group) if best else ())

    def of(self, group: Any) -> list[Finished]:
        """The parts of a group, most confident range first."""
        here = self.numbering.of(group)
        return [self.parts[n] for n in range(here.stop - 1, here.start - 1, -1) if n in self.parts]

    def standings(self) -> dict[int, dict[int, Standing]]:
        """Of all ranges of a plan without groups, by bundle."""
        places = self.numbering.places(self.sums)
        found = finish.standings(self.of(None), list(places.values()), self.ask)
        return self.numbering.by_bundle(dict(zip(places, found)))


class ClusterRun(ABC):
    """The plan over some data; how samples and answers travel is left to Dask and Spark."""

    cores: int

    @abstractmethod
    def merged(self, work: Work, load: Loader, merge: Work, stage: str) -> Any:
        """What `work` makes of each partition, merged a few at a time; None if there is no partition."""

    @abstractmethod
    def split(self, load: Loader, numbering: Numbering, stage: str) -> tuple[Any, RangeSums]:
        """The samples by bundle, to be held wherever they are, and the sums of every range."""

    @abstractmethod
    def turned(self, held: Any, own: Mapping[int, Any], ask: Ask, numbering: Numbering) -> Any:
        """What is held, by the bundles of a second model, see `turn_bundle`."""

    @abstractmethod
    def collected(self, held: Any, work: Work, own: Mapping[int, Any], stage: str) -> Iterable[Any]:
        """`work(pieces, own)` of each bundle, with what is its `own`."""

    def execute(self, load: Loader, ask: Ask, stage: str = "") -> Found:
        """Survey, sums by range, every range finished where it lies; `stage` goes before the names of bars."""
        look, merge = partial(survey_groups, name=load.name), partial(merge_surveys, name=load.name)
        survey = self.merged(look, load._replace(other=None), merge, f"{stage}survey") or Survey()
        numbering = plan(load.name, load.fields, survey, ask, 2 * max(1, self.cores))
        load = load._replace(units=survey.units(load.fields.repetitions))
        held, sums = self.split(load, numbering, stage)
        places = numbering.places(sums)
        parts = {  # of ranges that hold one confidence: nobody needs their samples
            number: finish.finish_tie(sums.sums[:, number], float(sums.low[number]), place, ask)
            for number, place in places.items()
            if sums.tied[number]
        }
        left = numbering.by_bundle({n: place for n, place in places.items() if n not in parts})
        if left:
            for found in self.collected(held, partial(finish_bundle, ask=ask), left, f"{stage}finish"):
                parts |= found
        return Found(survey, numbering, sums, parts, ask, held)

    def joint(self, one: Found, two: Found, rates: tuple[float, float]) -> np.ndarray:
        """Sums over both influences: samples go from the bundles of one to those of two, the first in hand."""
        moved = self.turned(one.held, one.standings(), one.ask, two.numbering)
        work = partial(joint_bundle, ask=two.ask, rates=rates)
        return np.sum(list(self.collected(moved, work, two.standings(), "joint")), axis=0)


def engine(name: str, connected: Callable[..., AbstractContextManager[ClusterRun]], mean: str) -> Engine:
    """The functions of a cluster, from the one that connects to it."""

    def answers(name: str, data: Any, fields: Fields, ask: Ask, **means: Any) -> dict[Any, Answer]:
        """Of all samples (None), or of each group."""
        with connected(name, data, fields, **means) as run:
            load = Loader(name, fields)
            found, best = run.execute(load, ask), None
            survey = found.survey
            if oracle := ask.of_oracle(survey.zero_one, survey.countable(fields.repetitions)):
                totals = [found.answer(group, None).total for group in found.numbering.first]
                errors_alike = all(total.in_error_units().zero_one for total in totals)
                best = run.execute(load._replace(best=errors_alike), oracle, "oracle: ")
            return {group: found.answer(group, best) for group in found.numbering.first}

    def compared(asked: PairQuestion, data: Any, **means: Any) -> Comparison:
        """Both areas, and the pass for their joint influences."""
        with connected(asked.name, data, asked.first, **means) as run:
            one = run.execute(Loader(asked.name, asked.first, other=asked.second), asked.ask, "first: ")
            two = run.execute(Loader(asked.name, asked.second), asked.ask, "second: ")
            pairing = finish.Pairing(asked, one.answer(None), two.answer(None))
            return pairing.compared(run.joint(one, two, pairing.rates))

    return Engine(name, answers, compared, (mean, "progress"), (mean, "progress"))
