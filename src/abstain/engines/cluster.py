"""The plan as tasks for a cluster: small functions of one partition or one bundle, and the passes in their order.

Whoever executes them (Dask, Spark) moves samples between machines; the driver sees histograms and sums only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from abstain.engines.finish import (
    Ask,
    Part,
    Place,
    check_whole,
    finish,
    finish_tie,
    keyed_by_loss,
    needs_oracle_pass,
    oracle_ask,
    summarise,
)
from abstain.engines.histogram import joined
from abstain.engines.paired import Paired, Standing, paired, standings
from abstain.engines.plan import (
    Bundle,
    Pair,
    Question,
    Slots,
    bundled,
    by_slot,
    places_of,
    slots_for,
    sums_in,
)
from abstain.engines.ranges import Columns, RangeSums, Survey, together
from abstain.engines.read import (
    Fields,
    Stretch,
    batches,
    beside,
    by_label,
    check_confidence,
    check_finite,
    check_weight,
    labels_of,
    logits_of,
    loss_of,
    paired_batches,
    ready,
    scored,
    with_mass,
)
from abstain.errors import DataError, InputError

# cluster ------------------------------------------------------------------------------------------
#
# The plan as tasks for a cluster: small functions of one partition or one bundle, and the sums between them.
#
# Whoever executes them (Dask, Spark) moves samples between machines; the driver sees histograms and sums only.


SAMPLES_PER_RANGE = 4_000_000
SAMPLES_PER_PARTITION = 4_000_000
MOST_GROUPS = 2_000  # about two kilobytes each come to the driver
MOST_POINTS = 200_000  # of all curves together, 32 bytes each
_PER_TASK = 1 << 16  # samples of a partition that enter the histogram
_ITEMS = 1 << 12  # of the histograms of all groups together
_LEAST = (
    4  # items worth keeping: below a thousandth of all samples a group is cut by nobody, up to 4e9 samples
)

Groups = dict[Any, Columns]


class Loader(NamedTuple):
    """How a partition becomes columns, anywhere: by name of columns, keyed by confidence or by loss."""

    name: str
    fields: Fields
    by_loss: bool = False
    other: Fields | None = None  # of a second model: its loss and confidence travel along

    def __call__(self, part: Any) -> Groups:
        """The samples of a stretch of a file, a pandas frame, an Arrow table or a batch of it, by group."""
        groups = self._of_file(part) if isinstance(part, Stretch) else self._of_tables(part)
        return {g: keyed_by_loss(c) for g, c in groups.items()} if self.by_loss else groups

    def _of_file(self, stretch: Stretch) -> Groups:
        if self.other is not None:
            pairs = paired_batches(self.name, stretch.file, self.fields, self.other, stretch=stretch)
            return merged({None: columns} for columns in pairs)
        read = batches(self.name, stretch.file, self.fields, stretch=stretch)
        return merged(dict(by_label(batch.columns, batch.labels)) for batch in read)

    def _of_tables(self, table: Any) -> Groups:
        groups = self._of_table(table)
        if self.other is None:
            return groups
        return {None: beside(groups[None], Loader(self.name, self.other)(table)[None])}

    def _of_table(self, table: Any) -> Groups:
        """Anything with named columns that numpy can read."""
        fields = self.fields

        def column(name: str) -> np.ndarray:
            array = np.asarray(_column(table, name))
            if array.dtype.kind not in "biuf":  # a missing truth value makes objects of them all
                raise DataError(
                    f"{self.name}: `{name}` must hold numbers without a missing value, got {array.dtype}."
                )
            return array

        if fields.logits and fields.label:
            label = column(fields.label)
            none = np.empty(0), np.empty(0, dtype=bool)
            confidence, loss = scored(self._logits(table), label, fields) if len(label) else none
        else:
            confidence, loss = column(fields.confidence), column(fields.loss)
            check_confidence(self.name, "a partition", 0, fields.confidence, confidence)
        check_finite(self.name, "a partition", 0, fields.loss, loss)
        loss = loss_of(self.name, "a partition", 0, fields, loss)
        weight = None
        if fields.weight:
            weight = column(fields.weight).astype(np.float64)
            check_weight(self.name, "a partition", 0, fields.weight, weight)
        labels = labels_of(self.name, fields.group, _column(table, fields.group)) if fields.group else None
        return dict(by_label(ready(loss, confidence, weight), with_mass(labels, weight)))

    def _logits(self, table: Any) -> np.ndarray:
        if not hasattr(table, "column"):
            import pyarrow as pa

            table = pa.table({name: pa.array(table[name], from_pandas=True) for name in self.fields.logits})
        return logits_of(self.name, "a partition", 0, self.fields, table)


def _column(table: Any, name: str) -> Any:
    return table.column(name) if hasattr(table, "column") else table[name]


def merged(parts: Iterable[Groups]) -> Groups:
    """The samples of each group, from all parts."""
    found: dict[Any, list[Columns]] = {}
    for part in parts:
        for group, columns in part.items():
            found.setdefault(group, []).append(columns)
    return {group: together(pieces) for group, pieces in found.items()}


# the survey -------------------------------------------------------------------------------------------------


def survey_part(part: Any, load: Loader) -> Survey:
    """First pass over one partition."""
    return survey_groups(load(part), load.name)


def survey_groups(groups: Groups, name: str) -> Survey:
    """Histograms of some of the samples, scaled to all of them."""
    total = sum(columns.rows for columns in groups.values())
    check_groups(name, len(groups))
    survey, rng = Survey(), np.random.default_rng(total)
    for group, columns in groups.items():
        survey.add(columns, group, max(1, total // _PER_TASK), rng)
        items = survey.histogram.get(group)
        if items is not None:
            # one in so many: a partition counts by its samples, however many of them were looked at
            scale = columns.rows / max(items.mass.sum(), 1.0)
            survey.histogram[group] = replace(items, sums=items.sums * scale)
    return _thinned(survey)


def merge_surveys(surveys: Sequence[Survey], name: str) -> Survey:
    """One survey of several."""
    survey = Survey().plus(surveys)
    check_groups(name, len(survey.rows))
    return _thinned(survey)


def _thinned(survey: Survey) -> Survey:
    """However many groups there are, their histograms together stay about as large as that of one."""
    total = sum(survey.rows.values())
    if len(survey.rows) > 1:
        for group, items in list(survey.histogram.items()):
            most = _ITEMS * survey.rows[group] // total
            if most < _LEAST:
                del survey.histogram[group]
            else:
                survey.histogram[group] = joined([items], most)
    return survey


def check_groups(name: str, number: int) -> None:
    """The answers of all groups come to one process."""
    if number > MOST_GROUPS:
        raise InputError(
            f"{name}: `groups` must name a column of at most {MOST_GROUPS:,} groups, got more. The answers of all "
            f"groups come to the driver. Take coarser groups, or `abstain.engines.files`, which has no such limit."
        )


def plan(name: str, survey: Survey, ask: Ask, at_least: int) -> Slots:
    """As many ranges as needed to keep each small, and enough to keep every worker busy."""
    rows = sum(survey.rows.values())
    if not rows:
        raise InputError(f"{name}: needs at least one sample, the data holds none.")
    if ask.points * len(survey.rows) > MOST_POINTS:
        raise InputError(
            f"{name}: `points` must be at most {MOST_POINTS // len(survey.rows):,} for {len(survey.rows):,} groups, "
            f"got {ask.points:,}. The points of all curves come to the driver."
        )
    check_whole(name, survey.whole, ask)
    tasks = max(-(-rows // SAMPLES_PER_RANGE), min(at_least, -(-rows // 10_000)))
    return slots_for(survey, min(tasks, 4096))


# ranges -----------------------------------------------------------------------------------------------------


def split_part(part: Any, load: Loader, slots: Slots) -> tuple[list[Bundle], RangeSums]:
    """Second pass over one partition: its samples by bundle, and the sums of every slot."""
    return bundled(load(part), slots, keep=load.other is not None)


def sums_of(parts: Sequence[RangeSums]) -> RangeSums:
    """Sums over all partitions."""
    first, *others = parts
    for other in others:
        first = first.plus(other)
    return first


def finish_bundle(pieces: Sequence[Bundle], places: Mapping[int, Place], ask: Ask) -> dict[int, Part]:
    """The parts of a bundle's slots, brought together from all partitions."""
    return {
        number: finish(columns, places[number], ask)
        for number, columns in by_slot(pieces)
        if number in places
    }


# clusterrun ---------------------------------------------------------------------------------------
#
# What every cluster is asked to do, whoever executes it: the passes in their order, and the answers from them.


@dataclass(frozen=True)
class Found:
    """What one execution of the plan has found; `held` are the samples by range, where the engine keeps them."""

    survey: Survey
    slots: Slots
    sums: RangeSums
    parts: dict[int, Part]
    held: Any = None

    def of(self, group: Any) -> tuple[RangeSums, list[Part]]:
        """Sums and parts of a group, most confident range first."""
        here = self.slots.of(group)
        parts = [self.parts[n] for n in range(here.stop - 1, here.start - 1, -1) if n in self.parts]
        return sums_in(self.slots, self.sums, group), parts

    def standings(self) -> dict[int, Standing]:
        """Of all slots of a plan without groups."""
        places = places_of(self.slots, self.sums)
        return dict(zip(places, standings(self.of(None)[1], list(places.values()))))


class Executor(Protocol):
    """Dask or Spark, connected to some data."""

    def execute(self, load: Loader, ask: Ask, stage: str = "") -> Found:
        """Survey, sums by range, every range finished where it lies; `stage` goes before the names of bars."""

    def joint(self, one: Found, two: Found, load: Loader, ask: Ask) -> float:
        """Sum of squared differences of influences: samples go from the ranges of one to the ranges of two."""


def summaries(run: Executor, question: Question) -> Any:
    """A `Summary`, or one for each group."""
    name, fields, ask, _ = question
    load = Loader(name, fields)
    found = run.execute(load, ask)
    oracle = None
    if needs_oracle_pass(ask, found.survey.zero_one, found.survey.weighted):
        by_loss = oracle_ask(ask, found.survey.whole)
        oracle = run.execute(load._replace(by_loss=True), by_loss, "oracle: ")
    results = {
        group: summarise(*found.of(group), ask, None if oracle is None else oracle.of(group)[1])
        for group in in_order(found.slots.first)
    }
    return results if fields.group else results[None]


def comparison(run: Executor, pair: Pair) -> Paired:
    """Both areas, and the pass for their joint influences."""
    load = Loader(pair.name, pair.first, other=pair.second)
    one = run.execute(load, pair.ask, "first: ")
    two = run.execute(Loader(pair.name, pair.second), pair.ask, "second: ")
    square = run.joint(one, two, load, pair.ask)
    return paired(one.of(None)[1], two.of(None)[1], square, two.sums)


def told_by_sums(sums: RangeSums, places: dict[int, Place], ask: Ask) -> dict[int, Part]:
    """The parts of slots that hold one confidence: nobody needs their samples."""
    return {
        number: finish_tie(sums.sums[:, number], float(sums.low[number]), place, ask)
        for number, place in places.items()
        if sums.tied[number]
    }


def in_order(names: Iterable[Any]) -> list[Any]:
    """Groups by name, the missing one last, whatever partition they were first met in."""
    return sorted(names, key=lambda name: (name is None, name))
