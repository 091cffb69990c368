"""Exact metrics by a Dask cluster, from a laptop's two processes to an existing cluster without a change.

The plan is executed as futures: Dask places the work, moves samples between workers and does again what a lost
worker took with it. Only histograms and sums come to the client.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

from abstain.engines.answers import value_of
from abstain.engines.asking import AreaOptions, Model, Options, PairOptions, Question, pair, question
from abstain.engines.clusterrun import comparison, summaries
from abstain.engines.daskrun import DaskRun, connected, partitions
from abstain.engines.paired import Paired
from abstain.engines.progress import bars
from abstain.engines.summary import Summary
from abstain.metrics.groups import Grouped

__all__ = ["aurc", "compare", "evaluate", "on"]


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
    from abstain.engines.evaluating import engine

    return engine(partial(evaluate, client=client))


def _register() -> None:
    from abstain.evaluation import register_engine

    register_engine("dask", on(None))


_register()
