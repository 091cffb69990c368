"""Exact metrics by a Dask cluster, from a laptop's two processes to an existing cluster without a change.

The plan is executed as futures: Dask places the work, moves samples between workers and does again what a lost
worker took with it. Only histograms and sums come to the client.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from abstain._progress import Bars, bars
from abstain.engines import cluster
from abstain.engines.cluster import Bundle, Found, Loader, Numbering
from abstain.engines.engine import Engine
from abstain.engines.finish import Answer, Ask, Finished, PairQuestion
from abstain.engines.ranges import RangeSums
from abstain.engines.read import Fields, file_parts, find_files
from abstain.errors import MissingDependencyError
from abstain.evaluation import Comparison, Evaluation, register_engine

__all__ = [
    *("augrc", "aurc", "compare", "coverage_at_risk", "e_aurc", "evaluate", "naurc", "on", "risk"),
    *("risk_at_coverage", "risk_coverage_curve"),
]


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
    """Parts of files, or futures of frames."""
    import distributed

    if hasattr(data, "to_delayed"):
        return list(client.compute(data[fields.names].to_delayed()))
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], distributed.Future):
        return list(data)
    files = [os.path.abspath(file) for file in find_files(name, data)]  # workers may stand in another folder
    return list(file_parts(files, cluster.SAMPLES_PER_PARTITION))


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
        numbering = cluster.plan(load.name, survey, ask, 2 * max(1, len(self.client.ncores())))
        everywhere = self.submit(_same, numbering)  # sent once, and made again if lost
        pieces = [self.submit(cluster.split_part, part, load, everywhere) for part in self.parts]
        self._follow(f"{stage}partition", pieces)
        sums = self._reduced(cluster.sums_of, [self.submit(_sums, piece) for piece in pieces]).result()
        parts = self._finished(pieces, numbering, sums, ask, f"{stage}finish")
        return Found(survey, numbering, sums, parts, ask, None if load.other is None else pieces)

    def _finished(
        self, pieces: Sequence[Any], numbering: Numbering, sums: RangeSums, ask: Ask, stage: str
    ) -> dict[int, Finished]:
        places = numbering.places(sums)
        parts = cluster.told_by_sums(sums, places, ask)
        left = {number: place for number, place in places.items() if number not in parts}
        futures = [
            self.submit(_packed, cluster.finish_bundle, self._shares(pieces, number), own, ask)
            for number, own in numbering.by_bundle(left).items()
        ]
        self._follow(stage, futures)
        for found in self.client.gather(futures):
            parts |= pickle.loads(found)
        return parts

    def joint(self, one: Found, two: Found, load: Loader, rates: tuple[float, float]) -> np.ndarray:
        """Samples go from the bundles of one to the bundles of two, their first influence in hand."""
        everywhere = self.submit(_same, two.numbering)
        moved = [
            self.submit(cluster.turn_bundle, self._shares(one.held, number), own, one.ask, everywhere)
            for number, own in one.numbering.by_bundle(one.standings()).items()
        ]
        sums = [
            self.submit(cluster.joint_bundle, self._shares(moved, number), own, two.ask, rates)
            for number, own in two.numbering.by_bundle(two.standings()).items()
        ]
        self._follow("joint", [*moved, *sums])
        return np.sum(self.client.gather(sums), axis=0)

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


def _packed(function: Callable[..., Any], *arguments: Any) -> bytes:
    """In one piece: Dask would send every small array of the answer as a message of its own."""
    return pickle.dumps(function(*arguments))


def _share(pieces: tuple[list[Bundle], RangeSums], number: int) -> Bundle:
    return pieces[0][number]


def _sums(pieces: tuple[list[Bundle], RangeSums]) -> RangeSums:
    return pieces[1]


@contextmanager
def _run(name: str, data: Any, fields: Fields, client: Any, progress: bool | None) -> Iterator[DaskRun]:
    with connected(client) as connection, bars(progress) as shown:
        yield DaskRun(connection, partitions(name, data, connection, fields), shown)


def _answers(
    name: str, data: Any, fields: Fields, ask: Ask, client: Any = None, progress: bool | None = None
) -> dict[Any, Answer]:
    with _run(name, data, fields, client, progress) as run:
        return cluster.answers(run, name, fields, ask)


def _compared(asked: PairQuestion, data: Any, client: Any = None, progress: bool | None = None) -> Comparison:
    with _run(asked.name, data, asked.first, client, progress) as run:
        return cluster.comparison(run, asked)


_ENGINE = Engine("dask", _answers, _compared, ("client", "progress"), ("client", "progress"))
evaluate, compare, risk_coverage_curve = _ENGINE.evaluate, _ENGINE.compare, _ENGINE.risk_coverage_curve
aurc, augrc, e_aurc, naurc, risk = _ENGINE.aurc, _ENGINE.augrc, _ENGINE.e_aurc, _ENGINE.naurc, _ENGINE.risk
risk_at_coverage, coverage_at_risk = _ENGINE.risk_at_coverage, _ENGINE.coverage_at_risk


def on(client: Any) -> Callable[..., Evaluation]:
    """The engine for `abstain.evaluate(data, engine=...)` on a cluster.

    Parameters
    ----------
    client
        A `distributed.Client`, or the address of a scheduler.

    Returns
    -------
    callable

    Examples
    --------
    >>> callable(on("tcp://127.0.0.1:8786"))  # for `abstain.evaluate("folder/", engine=on(...))`
    True
    """
    return _ENGINE.on(client=client)


register_engine("dask", on(None))
