"""Exact metrics by a Dask cluster, from a laptop's two processes to an existing cluster without a change.

The plan is executed as futures: Dask places the work, moves samples between workers and does again what a lost
worker took with it. Only histograms and sums come to the client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from abstain.engines import cluster
from abstain.engines.asking import ask_for, fields_for
from abstain.engines.cluster import Loader
from abstain.engines.finish import Ask, Part
from abstain.engines.local import needs_oracle_pass, oracle_ask
from abstain.engines.ranges import Columns, RangeSums
from abstain.engines.sources import find_files, stretches
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


def _summary(name: str, data: Any, client: Any, fields: Any, ask: Ask) -> Summary:
    with _connected(client) as connection:
        parts = _partitions(name, data, connection, fields)
        load = Loader(name, fields)
        survey, sums, answers = _execute(connection, parts, load, ask)
        oracle = None
        if needs_oracle_pass(ask, survey.zero_one, survey.weighted):
            by_loss = load._replace(by_loss=True)
            oracle = _execute(connection, parts, by_loss, oracle_ask(ask, survey.whole))[2]
        return summarise(sums, answers, ask, oracle)


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


def _execute(client: Any, parts: list[Any], load: Loader, ask: Ask) -> tuple[Survey, RangeSums, list[Part]]:
    """Survey, scatter, finish. Tasks may be repeated anywhere: each is a function of its arguments."""

    def submit(function: Any, *arguments: Any) -> Any:
        return client.submit(function, *arguments, pure=False)

    surveys = [submit(cluster.survey_part, part, load) for part in parts]
    survey: Survey = _reduced(submit, cluster.merge_surveys, surveys).result()
    cuts = cluster.plan_cuts(load.name, survey, ask, 2 * max(1, len(client.ncores())))
    pieces = [submit(cluster.split_part, part, load, cuts) for part in parts]
    sums: RangeSums = _reduced(submit, cluster.sums_of, [submit(_sums, piece) for piece in pieces]).result()
    finished = []
    for number in cluster.downwards(sums):
        if sums.tied[number]:
            finished.append(submit(cluster.tied_part, sums, number, ask))
        else:
            own = [submit(_piece, piece, number) for piece in pieces]
            finished.append(submit(cluster.finish_range, own, cluster.place_of(sums, number), ask))
    return survey, sums, client.gather(finished)


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
