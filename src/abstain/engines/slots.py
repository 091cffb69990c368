"""Ranges of all groups in one numbering: a slot is a range of a group, a bundle the slots that one task finishes.

Small groups share a task, large ones are cut into several: the number of tasks follows the samples, not the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain.engines.finish import Place
from abstain.engines.items import nothing
from abstain.engines.labels import Labels, by_label
from abstain.engines.ranges import Columns, RangeSums, cuts_for, lone, no_sums, split, together
from abstain.engines.survey import Survey

Bundle = list[tuple[int, Columns]]  # samples of some slots


@dataclass(frozen=True)
class Slots:
    """Where the ranges of each group start, the number of each group's first slot, the bundle of each slot."""

    cuts: dict[Any, np.ndarray]
    first: dict[Any, int]
    bundle: np.ndarray

    @property
    def total(self) -> int:
        """Number of slots."""
        return len(self.bundle)

    @property
    def bundles(self) -> int:
        """Number of bundles."""
        return int(self.bundle[-1]) + 1

    def of(self, group: Any) -> slice:
        """The slots of a group."""
        start = self.first[group]
        return slice(start, start + len(self.cuts[group]) + 1)

    def by_bundle(self, values: Mapping[int, Any]) -> dict[int, dict[int, Any]]:
        """What is known of slots, bundle by bundle."""
        found: dict[int, dict[int, Any]] = {}
        for number, value in values.items():
            found.setdefault(int(self.bundle[number]), {})[number] = value
        return found


def slots_for(survey: Survey, tasks: int) -> Slots:
    """Slots of at most about a share of `1 / tasks` of all samples, filled into about as many bundles."""
    rows = sum(survey.rows.values())
    cuts: dict[Any, np.ndarray] = {}
    first: dict[Any, int] = {}
    sizes: list[float] = []
    for group, own in survey.rows.items():
        histogram = survey.histogram.get(group, nothing())
        ranges = -(-own * tasks // rows)
        cuts[group] = cuts_for(histogram, ranges) if ranges > 1 and len(histogram) else np.empty(0)
        first[group] = len(sizes)
        number = len(cuts[group]) + 1
        mass = np.bincount(np.searchsorted(cuts[group], histogram.low, "right"), histogram.mass, number)
        mass = mass * (own / max(mass.sum(), 1.0)) if len(histogram) else np.full(number, own / number)
        sizes += np.where(lone(cuts[group]), 0.0, mass).tolist()  # a tie is told by its sums: nobody sends it
    return Slots(cuts, first, _bundles(sizes, rows / tasks))


def _bundles(sizes: Sequence[float], room: float) -> np.ndarray:
    found, held, at = [], 0.0, 0
    for size in sizes:
        if held and held + size > room:
            at, held = at + 1, 0.0
        found.append(at)
        held += size
    return np.asarray(found)


def bundled(
    groups: Mapping[Any, Columns], slots: Slots, keep: bool = False
) -> tuple[list[Bundle], RangeSums]:
    """The samples of each bundle, by slot, and the sums of every slot; `keep` as in `ranges.split`."""
    found: list[Bundle] = [[] for _ in range(slots.bundles)]
    total = no_sums(slots.total)
    for group, columns in groups.items():
        here = slots.of(group)
        parts, sums = split(columns, slots.cuts[group], keep=keep)
        total.sums[:, here], total.low[here], total.high[here] = sums.sums, sums.low, sums.high
        for number, part in enumerate(parts, here.start):
            if part.rows:
                found[slots.bundle[number]].append((number, part))
    return found, total


def numbered(groups: Mapping[Any, Columns], slots: Slots) -> tuple[Columns, np.ndarray]:
    """All samples, and the slot of each."""
    numbers = [
        slots.first[group] + np.searchsorted(slots.cuts[group], columns.confidence, "right")
        for group, columns in groups.items()
    ]
    return together(list(groups.values())), np.concatenate(numbers)


def by_number(columns: Columns, numbers: np.ndarray) -> Bundle:
    """The inverse: samples by slot."""
    found, codes = np.unique(numbers, return_inverse=True)
    return list(by_label(columns, Labels(found.tolist(), codes)))


def by_slot(pieces: Sequence[Bundle]) -> Iterator[tuple[int, Columns]]:
    """The samples of each slot of a bundle, from all partitions."""
    found: dict[int, list[Columns]] = {}
    for number, columns in (pair for piece in pieces for pair in piece):
        found.setdefault(number, []).append(columns)
    for number in sorted(found):
        yield number, together(found.pop(number))


def sums_in(slots: Slots, sums: RangeSums, group: Any) -> RangeSums:
    """The sums of one group."""
    here = slots.of(group)
    return RangeSums(sums.sums[:, here], sums.low[here], sums.high[here])


def places_of(slots: Slots, sums: RangeSums) -> dict[int, Place]:
    """What lies above each slot that holds samples, within its group; most confident first in each group."""
    places = {}
    for group, first in slots.first.items():
        own = sums_in(slots, sums, group)
        above, W = own.above(), float(own.sums[0].sum())
        for at in np.flatnonzero(own.count)[::-1]:
            places[first + int(at)] = Place(float(above[0, at]), float(above[1, at]), W)
    return places
