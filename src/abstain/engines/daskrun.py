"""How Dask executes the plan: as futures. Dask does again what a lost worker took with it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from abstain.engines import cluster
from abstain.engines.cluster import Loader
from abstain.engines.clusterrun import Found, told_by_sums
from abstain.engines.finish import Ask, Part, Place
from abstain.engines.locating import find_files, stretches
from abstain.engines.paired import square_bundle, turn_bundle
from abstain.engines.progress import Bars
from abstain.engines.ranges import RangeSums
from abstain.engines.slots import Bundle, Slots, places_of
from abstain.engines.sources import Fields
from abstain.errors import MissingDependencyError

_FAN_IN = 16  # results merged at a time, on the workers


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """The client to use; one made here is closed here."""
    try:
        import distributed
    except ImportError:
        raise MissingDependencyError('engine="dask"', "distributed", "dask") from None
    if client is None:
        try:
            yield distributed.get_client()
            return
        except ValueError:  # no current client
            pass
    if client is None or isinstance(client, str):
        with distributed.Client(client) if client else distributed.Client(processes=True) as made:
            yield made
    else:
        yield client


def partitions(name: str, data: Any, client: Any, fields: Fields) -> list[Any]:
    """Stretches of files, or futures of frames."""
    import distributed

    if hasattr(data, "to_delayed"):
        return list(client.compute(data[fields.names].to_delayed()))
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], distributed.Future):
        return list(data)
    files = [os.path.abspath(file) for file in find_files(name, data)]  # workers may stand in another folder
    return list(stretches(files, cluster.SAMPLES_PER_PARTITION))


class DaskRun:
    """The plan over some partitions, by one client."""

    def __init__(self, client: Any, parts: Sequence[Any], bars: Bars) -> None:
        self.client, self.parts, self.bars = client, parts, bars

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Tasks may be repeated anywhere: each is a function of its arguments."""
        return self.client.submit(function, *arguments, pure=False)

    def execute(self, load: Loader, ask: Ask, stage: str = "") -> Found:
        """Survey, then every sample to its range, then range by range."""
        plain = load._replace(other=None)
        surveys = [self.submit(cluster.survey_part, part, plain) for part in self.parts]
        self._follow(f"{stage}survey", surveys)
        survey = self._reduced(partial(cluster.merge_surveys, name=load.name), surveys).result()
        slots = cluster.plan(load.name, survey, ask, 2 * max(1, len(self.client.ncores())))
        everywhere = self.submit(_same, slots)  # sent once, and made again if lost
        pieces = [self.submit(cluster.split_part, part, load, everywhere) for part in self.parts]
        self._follow(f"{stage}partition", pieces)
        sums = self._reduced(cluster.sums_of, [self.submit(_sums, piece) for piece in pieces]).result()
        parts = self._finished(pieces, slots, sums, ask, f"{stage}finish")
        return Found(survey, slots, sums, parts, None if load.other is None else pieces)

    def _finished(
        self, pieces: Sequence[Any], slots: Slots, sums: RangeSums, ask: Ask, stage: str
    ) -> dict[int, Part]:
        places = places_of(slots, sums)
        parts = told_by_sums(sums, places, ask)
        left: dict[int, Place] = {number: place for number, place in places.items() if number not in parts}
        futures = [
            self.submit(cluster.finish_bundle, self._shares(pieces, number), own, ask)
            for number, own in slots.by_bundle(left).items()
        ]
        self._follow(stage, futures)
        for found in self.client.gather(futures):
            parts |= found
        return parts

    def joint(self, one: Found, two: Found, load: Loader, ask: Ask) -> float:
        """Samples go from the bundles of one to the bundles of two, their first influence in hand."""
        everywhere = self.submit(_same, two.slots)
        moved = [
            self.submit(turn_bundle, self._shares(one.held, number), own, ask, everywhere)
            for number, own in one.slots.by_bundle(one.standings()).items()
        ]
        squares = [
            self.submit(square_bundle, [self.submit(_item, piece, number) for piece in moved], own, ask)
            for number, own in two.slots.by_bundle(two.standings()).items()
        ]
        self._follow("joint", [*moved, *squares])
        return math.fsum(self.client.gather(squares))

    def _shares(self, pieces: Sequence[Any], number: int) -> list[Any]:
        """What each partition holds of a bundle."""
        return [self.submit(_share, piece, number) for piece in pieces]

    def _follow(self, stage: str, futures: Sequence[Any]) -> None:
        """Count what is done, where it is to be seen; results stay where they are."""
        if not self.bars.shown or not futures:
            return
        from distributed import as_completed

        self.bars.set(stage, 0, len(futures))
        for _ in as_completed(futures):
            self.bars.advance(stage, 1, len(futures))

    def _reduced(self, merge: Callable[..., Any], futures: Sequence[Any]) -> Any:
        """Merge on the workers, a few at a time, down to one future."""
        while True:
            groups = [futures[i : i + _FAN_IN] for i in range(0, len(futures), _FAN_IN)]
            futures = [self.submit(merge, group) for group in groups]
            if len(futures) == 1:
                return futures[0]


def _same(value: Any) -> Any:
    return value


def _share(pieces: tuple[list[Bundle], RangeSums], number: int) -> Bundle:
    return pieces[0][number]


def _sums(pieces: tuple[list[Bundle], RangeSums]) -> RangeSums:
    return pieces[1]


def _item(pieces: list[Bundle], number: int) -> Bundle:
    return pieces[number]
