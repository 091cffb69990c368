"""Exact metrics by a Dask cluster, from a laptop's two processes to an existing cluster without a change.

The plan is executed as futures: Dask places the work, moves samples between workers and does again what a lost
worker took with it. Only histograms and sums come to the client.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Unpack

from abstain._progress import Bars, bars
from abstain.engines import cluster
from abstain.engines.cluster import Found, Loader, comparison, summaries, told_by_sums
from abstain.engines.finish import Ask, Part, Place, Summary, value_of
from abstain.engines.paired import Paired, square_bundle, turn_bundle
from abstain.engines.plan import (
    AreaOptions,
    Bundle,
    Model,
    Options,
    PairOptions,
    Question,
    Slots,
    pair,
    places_of,
    question,
)
from abstain.engines.ranges import RangeSums
from abstain.engines.read import Fields, find_files, stretches
from abstain.errors import MissingDependencyError
from abstain.metrics.groups import Grouped

__all__ = ["aurc", "compare", "evaluate", "on"]


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


# dask ---------------------------------------------------------------------------------------------
#
# Exact metrics by a Dask cluster, from a laptop's two processes to an existing cluster without a change.
#
# The plan is executed as futures: Dask places the work, moves samples between workers and does again what a lost
# worker took with it. Only histograms and sums come to the client.


def evaluate(data: Any, /, *, client: Any = None, **options: Unpack[Options]) -> Summary | dict[Any, Summary]:
    """Every area with its standard error, and points of the curve, exactly.

    Parameters
    ----------
    data : str, list, dask DataFrame, or list of futures
        Files (a folder or glob of Parquet, Arrow or CSV files that every worker can read), a Dask DataFrame, or
        futures of pandas frames or Arrow tables.
    client : distributed.Client or address, optional
        The cluster. Without it the current client is used, or a local cluster for the time of the call.
    estimator, ties, coverages, risks, points
        What to work out, as in `abstain.engines.files.evaluate`.
    confidence, loss, correct, sample_weight, groups, logits, label, score, loss_name : str
        Names of columns, as there. Of groups there may be 2,000: their answers come to the client.
    progress : bool, optional
        Show finished tasks, stage by stage; by default on a terminal, once the work has lasted two seconds.

    Returns
    -------
    Summary, or a dict of them by group.
    """
    return _answer(question("dask.evaluate", options), data, client)


def aurc(data: Any, /, *, client: Any = None, **options: Unpack[AreaOptions]) -> float | Grouped:
    """Area under the risk-coverage curve; lower is better. Options as in `evaluate`."""
    asked = question("dask.aurc", options, spread=False)
    return value_of("aurc", _answer(asked, data, client))


def compare(
    data: Any, /, *, first: Model, second: Model, client: Any = None, **options: Unpack[PairOptions]
) -> Paired:
    """Is the first model's AURC lower than the second's on the same samples?

    `first` and `second` name the columns (confidence, loss) of each model; `estimator`, `ties`,
    `sample_weight` and `progress` are those of `evaluate`.
    """
    asked = pair("dask.compare", first, second, options)
    with connected(client) as connection, bars(asked.progress) as shown:
        parts = partitions(asked.name, data, connection, asked.first)
        return comparison(DaskRun(connection, parts, shown), asked)


def _answer(asked: Question, data: Any, client: Any) -> Any:
    with connected(client) as connection, bars(asked.progress) as shown:
        parts = partitions(asked.name, data, connection, asked.fields)
        return summaries(DaskRun(connection, parts, shown), asked)


def on(client: Any) -> Callable[..., Any]:
    """For `abstain.evaluate(data, engine=abstain.engines.dask.on(client))`: a client or an address."""
    from abstain.engines.finish import engine

    return engine(partial(evaluate, client=client))


def _register() -> None:
    from abstain.evaluation import register_engine

    register_engine("dask", on(None))


_register()
