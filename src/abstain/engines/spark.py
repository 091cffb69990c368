"""Exact metrics by Spark: the plan as `mapInArrow` and `applyInArrow`, from local threads to an existing cluster.

Three scans: a histogram of the confidences, sums by range, and the ranges themselves, each finished by the task that
holds it. Only histograms and sums come to the driver; lost tasks are done again by Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

from abstain.engines.answers import value_of
from abstain.engines.asking import AreaOptions, Model, Options, Pair, PairOptions, Question, pair, question
from abstain.engines.clusterrun import comparison, summaries
from abstain.engines.paired import Paired
from abstain.engines.progress import bars
from abstain.engines.sources import Fields
from abstain.engines.sparkrun import SparkRun, frame_of
from abstain.engines.sparkwatch import named
from abstain.engines.summary import Summary
from abstain.errors import DataError
from abstain.metrics.groups import Grouped

__all__ = ["aurc", "compare", "evaluate", "on"]


def evaluate(
    data: Any, /, *, session: Any = None, **options: Unpack[Options]
) -> Summary | dict[Any, Summary]:
    """Every area with its standard error, and points of the curve, exactly.

    Parameters
    ----------
    data : DataFrame or path
        A Spark DataFrame, or the path of Parquet or CSV files (with a header) that the executors can read.
    session : SparkSession, optional
        Needed to read a path when no session is active.
    coverages, risks, points, estimator, ties
        As in `abstain.engines.files.evaluate`.
    confidence, loss, correct, sample_weight, groups, logits, label, score, loss_name : str
        Columns, as there. At most 2,000 groups: their answers come to the driver.
    progress : bool, optional
        Show Spark's finished tasks, stage by stage; by default on a terminal, for work of two seconds and more.

    Returns
    -------
    Summary, or a dict of them by group.
    """
    return _answer(question("spark.evaluate", options), data, session)


def aurc(data: Any, /, *, session: Any = None, **options: Unpack[AreaOptions]) -> float | Grouped:
    """Area under the risk-coverage curve; lower is better. Options as in `evaluate`."""
    return value_of("aurc", _answer(question("spark.aurc", options, spread=False), data, session))


def compare(
    data: Any, /, *, first: Model, second: Model, session: Any = None, **options: Unpack[PairOptions]
) -> Paired:
    """Is the first model's AURC lower than the second's on the same samples? Options as in `evaluate`.

    `first` and `second` name the columns (confidence, loss) of each model.
    """
    asked = pair("spark.compare", first, second, options)
    return _run(asked, asked.first, data, session, lambda run: comparison(run, asked))


def _answer(asked: Question, data: Any, session: Any) -> Any:
    return _run(asked, asked.fields, data, session, lambda run: summaries(run, asked))


def _run(
    asked: Question | Pair, fields: Fields, data: Any, session: Any, work: Callable[[SparkRun], Any]
) -> Any:
    """Errors in tasks come back as what they were about."""
    frame = frame_of(asked.name, data, session)
    for field in fields.names:
        if field not in frame.columns:
            raise DataError(
                f"{asked.name}: the data has no column {field!r}; it has {', '.join(frame.columns)}."
            )
    try:
        with bars(asked.progress) as shown:
            return work(SparkRun(frame.select(*fields.names), shown))
    except Exception as error:
        raise named(asked.name, frame, fields, error) from error


def on(session: Any) -> Callable[..., Any]:
    """For `abstain.evaluate(path, engine=abstain.engines.spark.on(session))`; a DataFrame needs no session."""
    from abstain.engines.evaluating import engine

    return engine(partial(evaluate, session=session))


def _register() -> None:
    from abstain.evaluation import register_engine

    register_engine("spark", on(None))


_register()
