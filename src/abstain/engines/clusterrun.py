"""What every cluster is asked to do, whoever executes it: the passes in their order, and the answers from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from abstain.engines.asking import Pair, Question
from abstain.engines.cluster import Loader
from abstain.engines.finish import Ask, Part, Place, finish_tie
from abstain.engines.local import needs_oracle_pass, oracle_ask
from abstain.engines.paired import Paired, Standing, paired, standings
from abstain.engines.ranges import RangeSums
from abstain.engines.slots import Slots, places_of, sums_in
from abstain.engines.summary import summarise
from abstain.engines.survey import Survey


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
