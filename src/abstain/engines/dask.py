"""Exact metrics by a Dask cluster, from a laptop's two processes to an existing cluster without a change.

The plan is executed as futures: Dask places the work, moves samples between workers and does again what a lost
worker took with it. Only histograms and sums come to the client.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from abstain.engines import cluster
from abstain.engines.asking import ask_for, fields_for
from abstain.engines.cluster import Loader
from abstain.engines.finish import Ask, Part, Place
from abstain.engines.local import needs_oracle_pass, oracle_ask
from abstain.engines.locating import find_files, stretches
from abstain.engines.paired import Paired, joint_square, paired, standings, turned_and_split
from abstain.engines.ranges import Columns, RangeSums
from abstain.engines.summary import Summary, summarise
from abstain.engines.survey import Survey
from abstain.errors import MissingDependencyError

_FAN_IN = 16  # results merged at a time, on the workers


def evaluate(
    data: Any,
    /,
    *,
    client: Any = None,
    estimator: str = "harmonic",
    ties: str = "threshold",
    coverages: Sequence[float] = (),
    risks: Sequence[float] = (),
    points: int = 0,
    **columns: Any,
) -> Summary:
    """Every area with its standard error, and points of the curve, exactly.

    Parameters
    ----------
    data : str, list, dask DataFrame, or list of futures
        Files (a folder or glob of Parquet, Arrow or CSV files that every worker can read), a Dask DataFrame, or
        futures of pandas frames or Arrow tables.
    client : distributed.Client or address, optional
        The cluster. Without it the current client is used, or a local cluster for the time of the call.
    coverages, risks, points, estimator, ties
        As in `abstain.engines.files.evaluate`.
    confidence, loss, sample_weight, logits, label, score, loss_name : str
        Names of columns, as there.

    Returns
    -------
    Summary
    """
    name = "dask.evaluate"
    ask = ask_for(name, estimator, ties, True, coverages, risks, points)
    return _summary(name, data, client, fields_for(name, columns), ask)


def aurc(
    data: Any, /, *, client: Any = None, estimator: str = "harmonic", ties: str = "threshold", **columns: Any
) -> float:
    """Area under the risk-coverage curve; lower is better. Options as in `evaluate`."""
    ask = ask_for("dask.aurc", estimator, ties, False)
    return _summary("dask.aurc", data, client, fields_for("dask.aurc", columns), ask)["aurc"].estimate


def compare(
    data: Any,
    /,
    *,
    first: tuple[str, str],
    second: tuple[str, str],
    client: Any = None,
    estimator: str = "harmonic",
    ties: str = "threshold",
    sample_weight: str | None = None,
) -> Paired:
    """Is the first model's AURC lower than the second's on the same samples?

    `first` and `second` name the columns (confidence, loss) of each model; the rest is as in `evaluate`.
    """
    name = "dask.compare"
    ask = ask_for(name, estimator, ties, True)
    a, b = (
        fields_for(name, {"confidence": g, "loss": l, "sample_weight": sample_weight})
        for g, l in (first, second)
    )
    both = replace(a, also=(*second,))
    with _connected(client) as connection:
        parts = _partitions(name, data, connection, both)
        one = _scattered(connection, parts, Loader(name, a, other=b), ask)
        two = _scattered(connection, parts, Loader(name, b), ask)
        square = _joint(connection, one, two, ask)
        return paired(one.finish(ask), two.finish(ask), square, two.sums)


def _joint(client: Any, one: Any, two: Any, ask: Ask) -> float:
    """Sum of squared differences of influences: samples go from the ranges of one to the ranges of two."""
    submit = one.submit
    first, second = (standings(s.finish(ask), s.places()) for s in (one, two))
    moved = [
        submit(turned_and_split, one.pieces_of(number), standing, ask, two.cuts)
        for number, standing in zip(cluster.downwards(one.sums), first)
    ]
    squares = [
        submit(joint_square, [submit(_piece, piece, number) for piece in moved], standing, ask)
        for number, standing in zip(cluster.downwards(two.sums), second)
    ]
    return math.fsum(client.gather(squares))


def _summary(name: str, data: Any, client: Any, fields: Any, ask: Ask) -> Summary:
    with _connected(client) as connection:
        parts = _partitions(name, data, connection, fields)
        load = Loader(name, fields)
        found = _scattered(connection, parts, load, ask)
        answers, survey = found.finish(ask), found.survey
        oracle = None
        if needs_oracle_pass(ask, survey.zero_one, survey.weighted):
            found.pieces.clear()  # the cluster may forget the samples ordered by confidence
            by_loss = oracle_ask(ask, survey.whole)
            oracle = _scattered(connection, parts, load._replace(by_loss=True), by_loss).finish(by_loss)
        return summarise(found.sums, answers, ask, oracle)


@contextmanager
def _connected(client: Any) -> Iterator[Any]:
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


def _partitions(name: str, data: Any, client: Any, fields: Any) -> list[Any]:
    """Stretches of files, or futures of frames."""
    import distributed

    if hasattr(data, "to_delayed"):
        return list(client.compute(data[fields.names].to_delayed()))
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], distributed.Future):
        return list(data)
    return list(stretches(find_files(name, data), cluster.SAMPLES_PER_PARTITION))


@dataclass
class _Scattered:
    """Samples by range, somewhere on the cluster, and their sums here."""

    client: Any
    survey: Survey
    cuts: np.ndarray
    pieces: list[Any]
    sums: RangeSums
    answers: list[Part] | None = None

    def submit(self, function: Any, *arguments: Any) -> Any:
        """Tasks may be repeated anywhere: each is a function of its arguments."""
        return self.client.submit(function, *arguments, pure=False)

    def pieces_of(self, number: int) -> list[Any]:
        """What each partition holds of a range."""
        return [self.submit(_piece, piece, number) for piece in self.pieces]

    def places(self) -> list[Place]:
        """Of the ranges that hold samples, most confident first."""
        return [cluster.place_of(self.sums, number) for number in cluster.downwards(self.sums)]

    def finish(self, ask: Ask) -> list[Part]:
        """The parts of all ranges, most confident first; worked out once."""
        if self.answers is None:
            futures = []
            for number, place in zip(cluster.downwards(self.sums), self.places()):
                if self.sums.tied[number]:
                    futures.append(self.submit(cluster.tied_part, self.sums, number, ask))
                else:
                    futures.append(self.submit(cluster.finish_range, self.pieces_of(number), place, ask))
            self.answers = self.client.gather(futures)
        return self.answers


def _scattered(client: Any, parts: list[Any], load: Loader, ask: Ask) -> _Scattered:
    """Survey, then every sample to its range."""

    def submit(function: Any, *arguments: Any) -> Any:
        return client.submit(function, *arguments, pure=False)

    surveys = [submit(cluster.survey_part, part, load._replace(other=None)) for part in parts]
    survey: Survey = _reduced(submit, cluster.merge_surveys, surveys).result()
    cuts = cluster.plan_cuts(load.name, survey, ask, 2 * max(1, len(client.ncores())))
    pieces = [submit(cluster.split_part, part, load, cuts) for part in parts]
    sums: RangeSums = _reduced(submit, cluster.sums_of, [submit(_sums, piece) for piece in pieces]).result()
    return _Scattered(client, survey, cuts, pieces, sums)


def _reduced(submit: Any, merge: Any, futures: list[Any]) -> Any:
    """Merge on the workers, a few at a time, down to one future."""
    while True:
        futures = [submit(merge, futures[i : i + _FAN_IN]) for i in range(0, len(futures), _FAN_IN)]
        if len(futures) == 1:
            return futures[0]


def _piece(pieces: tuple[list[Columns], RangeSums], number: int) -> Columns:
    return pieces[0][number]


def _sums(pieces: tuple[list[Columns], RangeSums]) -> RangeSums:
    return pieces[1]


def on(client: Any) -> Any:
    """For `abstain.evaluate(data, engine=abstain.engines.dask.on(client))`: a client or an address."""
    from abstain.engines.evaluating import engine

    return engine(partial(evaluate, client=client))


def _register() -> None:
    from abstain.evaluation import register_engine

    register_engine("dask", on(None))


_register()
