"""What a user asked, which stretches are counted rather than sorted, and the ranges of all groups in one numbering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypedDict

import numpy as np

from abstain._check import check_choice, check_fraction, check_nonnegative
from abstain.core import sorting, tally
from abstain.core.estimators import ESTIMATORS, TIES
from abstain.core.tally import Tally
from abstain.engines.finish import Ask, Part, Place, finish_counted
from abstain.engines.histogram import Items, nothing
from abstain.engines.ranges import Columns, RangeSums, Survey, cuts_for, lone, no_sums, split, together
from abstain.engines.read import Fields, Labels, by_label
from abstain.errors import InputError

Model = tuple[str, str]  # the columns of a model's confidence and loss
_COLUMNS = (
    "confidence",
    "loss",
    "correct",
    "sample_weight",
    "groups",
    "logits",
    "label",
    "score",
    "loss_name",
)
_OWN_NAMES = {"sample_weight": "weight", "groups": "group"}


class Reading(TypedDict, total=False):
    """Which columns to read; see `abstain.engines.files.evaluate`."""

    confidence: str
    loss: str
    correct: str | None
    logits: str | Sequence[str]
    label: str | None
    score: str
    loss_name: str
    sample_weight: str | None
    groups: str | None


class Asking(TypedDict, total=False):
    """Which weights an area has, and what equals mean, as in `abstain.aurc`; whether to show how far it is."""

    estimator: str
    ties: str
    progress: bool | None


class AreaOptions(Reading, Asking, total=False):
    """Options of a cluster's function that answers with one area."""


class Options(AreaOptions, total=False):
    """Options of a cluster's `evaluate`."""

    coverages: Sequence[float]
    risks: Sequence[float]
    points: int


class PairOptions(Asking, total=False):
    """Options of `compare`."""

    sample_weight: str | None


class Question(NamedTuple):
    """What a function was asked."""

    name: str
    fields: Fields
    ask: Ask
    progress: bool | None = None


class Pair(NamedTuple):
    """What `compare` was asked: the columns of either model."""

    name: str
    first: Fields
    second: Fields
    ask: Ask
    progress: bool | None = None


def question(name: str, options: Mapping[str, Any], *, spread: bool = True) -> Question:
    """Of `Options`, or of `AreaOptions` where nothing but the area is wanted."""
    own = dict(options)
    known = Options if spread else AreaOptions
    progress = own.pop("progress", None)
    asked = {key: own.pop(key) for key in known.__annotations__ if key not in _COLUMNS and key in own}
    return Question(name, fields_for(name, own), ask_for(name, spread=spread, **asked), progress)


def pair(name: str, first: Model, second: Model, options: Mapping[str, Any]) -> Pair:
    """Of the columns (confidence, loss) of two models, and `PairOptions`."""
    own = dict(options)
    progress, weight = own.pop("progress", None), own.pop("sample_weight", None)
    asked = {key: own.pop(key) for key in ("estimator", "ties") if key in own}
    if own:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(own))!r}")
    for given in (first, second):
        if isinstance(given, str) or len(given) != 2:
            raise InputError(
                f"{name}: `first` and `second` must each name two columns, (confidence, loss), got {given!r}."
            )
    a, b = (Fields(confidence, loss, weight) for confidence, loss in (first, second))
    return Pair(name, replace(a, also=(b.confidence, b.loss)), b, ask_for(name, **asked), progress)


def ask_for(
    name: str,
    estimator: str = "harmonic",
    ties: str = "threshold",
    spread: bool = True,
    coverages: Sequence[float] = (),
    risks: Sequence[float] = (),
    points: int = 0,
) -> Ask:
    """Checked options."""
    check_choice(name, "estimator", estimator, ESTIMATORS)
    check_choice(name, "ties", ties, TIES)
    shares = tuple(check_fraction(name, "coverages", c) for c in coverages)
    limits = tuple(check_nonnegative(name, "risks", r) for r in risks)
    return Ask(estimator, ties, spread, shares, limits, int(points))


def fields_for(name: str, options: Mapping[str, Any]) -> Fields:
    """Names of columns; those not given keep their defaults."""
    unknown = sorted(set(options) - set(_COLUMNS))
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
    own = {_OWN_NAMES.get(key, key): value for key, value in options.items() if value is not None}
    if "correct" in own:
        if "loss" in own:
            raise InputError(f"{name}: give `loss` or `correct`, not both.")
        own |= {"loss": own["correct"], "correct": True}
    logits = own.pop("logits", ())
    columns = (logits,) if isinstance(logits, str) else tuple(logits)
    if bool(columns) != bool(own.get("label")):
        raise InputError(f"{name}: `logits` and `label` must be given together.")
    return Fields(logits=columns, **own)


# counting -----------------------------------------------------------------------------------------
#
# Which stretch of confidences to count instead of sorting, and what its counts come to.
#
# With 1e8 samples a float32 between 1/2 and 1 is taken six times over: a counter for each value is smaller than the
# samples and needs neither a sort nor a disk.


_PRICE = (
    0.5  # a counter, to set up and to read, costs as much as half a sample to write out, read back and sort
)
_WORTH = 0.25  # share of the samples that must be counted for the table to pay


def window(histogram: Items, rows: int, room: int) -> tuple[float, float] | None:
    """The stretch of float32 values whose samples outweigh the price of its counters by most; None if none does.

    `room` bounds the bytes of counters.
    """
    if not len(histogram) or rows > tally.MOST:
        return None
    low = histogram.low.astype(np.float32)
    after = np.append(low[1:], np.nextafter(histogram.high[-1:].astype(np.float32), np.float32(np.inf)))
    start = np.maximum.accumulate(tally.values_between(np.zeros_like(low), low))  # items may overlap
    stop = np.maximum(tally.values_between(np.zeros_like(after), after), start + 1)
    held = histogram.mass * (rows / histogram.mass.sum())
    first, last = _most(
        held - _PRICE * (stop - start), np.searchsorted(stop, start + room // tally.BYTES, "right")
    )
    if held[first:last].sum() < _WORTH * rows:
        return None
    return float(low[first]), float(np.nextafter(after[last - 1], np.float32(-np.inf)))


def _most(gain: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """The run of items [first, last) with the largest sum, where one that starts at i may reach to ends[i]."""
    upto = np.concatenate([[0.0], np.cumsum(gain)])
    best, found = 0.0, (0, 0)
    for first, end in enumerate(ends.tolist()):
        if end > first:
            last = first + 1 + int(np.argmax(upto[first + 1 : end + 1]))
            if upto[last] - upto[first] > best:
                best, found = float(upto[last] - upto[first]), (first, last)
    return found


def outside(histogram: Items, ends: tuple[float, float]) -> Items:
    """The items beside a window."""
    beside = (histogram.low < ends[0]) | (histogram.low > ends[1])
    return Items(histogram.low[beside], histogram.high[beside], histogram.sums[:, beside])


def put_counts(sums: RangeSums, number: int, counted: Tally) -> None:
    """Fill in the sums of the range that was counted."""
    m, wrong = counted.totals().sum(axis=0)
    if m:
        sums.sums[:, number] = [m, wrong, m, wrong, wrong, m, 0]
        sums.low[number], sums.high[number] = counted.span()


def counted_parts(counted: Tally, place: Place, ask: Ask) -> list[Part]:
    """Parts of a tally, most confident first."""
    mass, wrong = counted.totals().T
    N, S = place.N + np.cumsum(mass) - mass, place.S + np.cumsum(wrong) - wrong

    def part(number: int) -> Part:
        return finish_counted(
            counted.stretch(number), Place(float(N[number]), float(S[number]), place.W), ask
        )

    with ThreadPoolExecutor(sorting.threads()) as pool:
        return list(pool.map(part, np.flatnonzero(mass).tolist()))


# slots --------------------------------------------------------------------------------------------
#
# Ranges of all groups in one numbering: a slot is a range of a group, a bundle the slots that one task finishes.
#
# Small groups share a task, large ones are cut into several: the number of tasks follows the samples, not the groups.


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
