"""Exact metrics by Spark: the plan as `mapInArrow` and `applyInArrow`, from local threads to an existing cluster.

Three scans: a histogram of the confidences, sums by range, and the ranges themselves, each finished by the task that
holds it. Only histograms and sums come to the driver; lost tasks are done again by Spark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from abstain.engines.asking import ask_for, fields_for
from abstain.engines.cluster import Loader
from abstain.engines.finish import Ask
from abstain.engines.local import needs_oracle_pass, oracle_ask
from abstain.engines.paired import Paired, joint_square, paired, standings, turned
from abstain.engines.ranges import Columns
from abstain.engines.sources import Fields
from abstain.engines.sparkrun import BLOB, RANGE, Ranged, blobs, execute, frame_of, named, placed, read
from abstain.engines.summary import Summary, summarise

_MOVED = "l double, g double, w double, influence double"


def evaluate(
    data: Any,
    /,
    *,
    session: Any = None,
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
    data : DataFrame or path
        A Spark DataFrame, or the path of Parquet or CSV files (with a header) that the executors can read.
    session : SparkSession, optional
        Needed to read a path when no session is active.
    coverages, risks, points, estimator, ties
        As in `abstain.engines.files.evaluate`.
    confidence, loss, sample_weight, logits, label, score, loss_name : str
        Names of columns, as there.

    Returns
    -------
    Summary
    """
    name = "spark.evaluate"
    ask = ask_for(name, estimator, ties, True, coverages, risks, points)
    return _summary(name, data, session, fields_for(name, columns), ask)


def aurc(
    data: Any, /, *, session: Any = None, estimator: str = "harmonic", ties: str = "threshold", **columns: Any
) -> float:
    """Area under the risk-coverage curve; lower is better. Options as in `evaluate`."""
    ask = ask_for("spark.aurc", estimator, ties, False)
    return _summary("spark.aurc", data, session, fields_for("spark.aurc", columns), ask)["aurc"].estimate


def compare(
    data: Any,
    /,
    *,
    first: tuple[str, str],
    second: tuple[str, str],
    session: Any = None,
    estimator: str = "harmonic",
    ties: str = "threshold",
    sample_weight: str | None = None,
) -> Paired:
    """Is the first model's AURC lower than the second's on the same samples?

    `first` and `second` name the columns (confidence, loss) of each model; the rest is as in `evaluate`.
    """
    name = "spark.compare"
    ask = ask_for(name, estimator, ties, True)
    a, b = (
        fields_for(name, {"confidence": g, "loss": l, "sample_weight": sample_weight})
        for g, l in (first, second)
    )
    whole = frame_of(name, data, session)
    frame = whole.select(*dict.fromkeys([*a.names, *b.names]))
    try:
        one, two = (execute(frame, Loader(name, fields), ask) for fields in (a, b))
        square = _joint(frame, Loader(name, a, other=b), one, two, ask)
    except Exception as error:
        raise named(name, whole, replace(a, also=second), error) from error
    return paired(one.parts, two.parts, square, two.sums)


def _joint(frame: Any, load: Loader, one: Ranged, two: Ranged, ask: Ask) -> float:
    """Sum of squared differences of influences: samples go from the ranges of one to the ranges of two."""
    at_one = dict(zip(one.places(), standings(one.parts, list(one.places().values()))))
    at_two = dict(zip(two.places(), standings(two.parts, list(two.places().values()))))
    moved_fields = Fields("g", "l", weight="w" if load.fields.weight else None)

    def turn(table: Any) -> Any:
        moved = turned([load(table)], at_one[table.column(RANGE)[0].as_py()], ask)
        return as_table(moved)

    def add(table: Any) -> Any:
        columns = Loader(load.name, moved_fields)(table)
        columns = columns._replace(extra=np.asarray(table.column("influence"))[None, :])
        return blobs([joint_square([columns], at_two[table.column(RANGE)[0].as_py()], ask)])

    moved = placed(frame, load._replace(other=None), one.cuts, []).groupBy(RANGE).applyInArrow(turn, _MOVED)
    ranged = placed(moved, Loader(load.name, moved_fields), two.cuts, [])
    return math.fsum(read(ranged.groupBy(RANGE).applyInArrow(add, BLOB)))


def as_table(columns: Columns) -> Any:
    """Samples of the second model with their first influence."""
    import pyarrow as pa

    weight = np.ones(columns.rows) if columns.weight is None else columns.weight
    influence = np.empty(0) if columns.extra is None else columns.extra[0]
    return pa.table({"l": columns.loss, "g": columns.confidence, "w": weight, "influence": influence})


def _summary(name: str, data: Any, session: Any, fields: Fields, ask: Ask) -> Summary:
    whole = frame_of(name, data, session)
    frame = whole.select(*fields.names)
    load = Loader(name, fields)
    try:
        found = execute(frame, load, ask)
        oracle = None
        if needs_oracle_pass(ask, found.survey.zero_one, found.survey.weighted):
            by_loss = oracle_ask(ask, found.survey.whole)
            oracle = execute(frame, load._replace(by_loss=True), by_loss).parts
    except Exception as error:
        raise named(name, whole, fields, error) from error
    return summarise(found.sums, found.parts, ask, oracle)


def on(session: Any) -> Any:
    """For `abstain.evaluate(path, engine=abstain.engines.spark.on(session))`; a DataFrame needs no session."""
    from abstain.engines.evaluating import engine

    return engine(partial(evaluate, session=session))


def _register() -> None:
    from abstain.evaluation import register_engine

    register_engine("spark", on(None))


_register()
