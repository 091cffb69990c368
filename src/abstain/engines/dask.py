"""Exact metrics by a Dask cluster, from a laptop's two processes to an existing cluster without a change.

The plan is executed as futures: Dask places the work, moves samples between workers and does again what a lost
worker took with it. Only histograms and sums come to the client.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Unpack

import numpy as np

from abstain._progress import Bars, bars
from abstain.core.estimators import Estimator, Ties
from abstain.engines import cluster
from abstain.engines.cluster import (
    Bundle,
    Found,
    Loader,
    Numbering,
    answers,
    comparison,
    joint_bundle,
    told_by_sums,
    turn_bundle,
)
from abstain.engines.finish import Ask, Finished, area_ask, curve_of, engine, evaluated, value_of
from abstain.engines.paired import Model, paired_question
from abstain.engines.ranges import RangeSums
from abstain.engines.read import ColumnOptions, Fields, file_parts, find_files
from abstain.errors import MissingDependencyError
from abstain.evaluation import Comparison, Evaluation, register_engine
from abstain.metrics.groups import Grouped
from abstain.metrics.points import RiskCoverageCurve
from abstain.metrics.registry import METRICS

__all__ = ["aurc", "compare", "evaluate", "on", "risk_coverage_curve"]


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
        parts = told_by_sums(sums, places, ask)
        left = {number: place for number, place in places.items() if number not in parts}
        futures = [
            self.submit(cluster.finish_bundle, self._shares(pieces, number), own, ask)
            for number, own in numbering.by_bundle(left).items()
        ]
        self._follow(stage, futures)
        for found in self.client.gather(futures):
            parts |= found
        return parts

    def joint(self, one: Found, two: Found, load: Loader, rates: tuple[float, float]) -> np.ndarray:
        """Samples go from the bundles of one to the bundles of two, their first influence in hand."""
        everywhere = self.submit(_same, two.numbering)
        moved = [
            self.submit(turn_bundle, self._shares(one.held, number), own, one.ask, everywhere)
            for number, own in one.numbering.by_bundle(one.standings()).items()
        ]
        sums = [
            self.submit(
                joint_bundle, [self.submit(_part, piece, number) for piece in moved], own, two.ask, rates
            )
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


def _share(pieces: tuple[list[Bundle], RangeSums], number: int) -> Bundle:
    return pieces[0][number]


def _sums(pieces: tuple[list[Bundle], RangeSums]) -> RangeSums:
    return pieces[1]


def _part(pieces: list[Bundle], number: int) -> Bundle:
    return pieces[number]


# public -----------------------------------------------------------------------------------------------------


def _asked(name: str, data: Any, client: Any, options: ColumnOptions) -> tuple[str, Any, dict[str, Any]]:
    """The first three arguments of a question: its name, who answers, and the columns."""
    columns: dict[str, Any] = dict(options)
    progress = columns.pop("progress", None)

    def run(fields: Fields, ask: Ask) -> Any:
        with _connected_to(name, data, client, fields, progress) as found:
            return answers(found, name, fields, ask)

    return name, run, columns


@contextmanager
def _connected_to(
    name: str, data: Any, client: Any, fields: Fields, progress: bool | None
) -> Iterator[DaskRun]:
    with connected(client) as connection, bars(progress) as shown:
        yield DaskRun(connection, partitions(name, data, connection, fields), shown)


def evaluate(
    data: Any,
    /,
    *,
    client: Any = None,
    metrics: Any = None,
    level: float = 0.95,
    **options: Unpack[ColumnOptions],
) -> Evaluation:
    """Every metric with its interval, and the curve, exactly.

    Parameters
    ----------
    data : str, list, dask DataFrame, or list of futures
        Files (a folder or glob of Parquet, Arrow or CSV files that every worker can read), a Dask DataFrame, or
        futures of pandas frames or Arrow tables.
    client : distributed.Client or address, optional
        The cluster. Without it the current client is used, or a local cluster for the time of the call.
    metrics, level
        What to work out, as in `abstain.evaluate`.
    **options
        `confidence`, `loss`, `correct`, `sample_weight`, `groups`, `labels`, `logits`, `scores`, `losses`: columns, as
        in `abstain.engines.files.evaluate`. Of groups there may be 2,000: their answers come to the client.
        `progress`: show finished tasks, stage by stage; by default on a terminal, once the work has lasted two
        seconds.

    Returns
    -------
    Evaluation
        The table that `abstain.evaluate` gives for samples in memory, groups as entries of their own.

    Examples
    --------
    >>> table = evaluate("predictions/", client=client, groups="country")  # doctest: +SKIP
    """
    return evaluated(*_asked("dask.evaluate", data, client, options), metrics, level)


def aurc(
    data: Any,
    /,
    *,
    client: Any = None,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    **options: Unpack[ColumnOptions],
) -> float | Grouped:
    """Area under the risk-coverage curve; lower is better. Options as in `evaluate`."""
    ask = area_ask("dask.aurc", estimator, ties)
    return value_of(*_asked("dask.aurc", data, client, options), METRICS["aurc"], ask)


def risk_coverage_curve(
    data: Any, /, *, client: Any = None, points: int = 1000, **options: Unpack[ColumnOptions]
) -> RiskCoverageCurve | dict[Any, RiskCoverageCurve]:
    """About `points` exact points of the risk-coverage curve, evenly spaced in coverage (a dict by group)."""
    return curve_of(*_asked("dask.risk_coverage_curve", data, client, options), points)


def compare(
    data: Any,
    /,
    *,
    first: Model,
    second: Model,
    client: Any = None,
    names: tuple[str, str] = ("first", "second"),
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    level: float = 0.95,
    sample_weight: str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Is the first model's AURC lower than the second's on the same samples?

    `first` and `second` name the columns (confidence, loss) of each model, `names` what they are called in the
    answer; the rest is that of `abstain.engines.files.compare`.
    """
    asked = paired_question("dask.compare", first, second, names, estimator, ties, level, sample_weight)
    with _connected_to(asked.name, data, client, asked.first, progress) as run:
        return comparison(run, asked)


def on(client: Any) -> Callable[..., Any]:
    """For `abstain.evaluate(data, engine=abstain.engines.dask.on(client))`: a client or an address."""
    return engine(partial(evaluate, client=client))


register_engine("dask", on(None))
