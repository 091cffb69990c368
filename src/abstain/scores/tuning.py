"""Choose a score's p or temperature by how well it ranks held-out data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from abstain import losses
from abstain._arrays import Array, bring, road_for
from abstain._check import check_choice
from abstain.core import estimators, fast
from abstain.core.rows import rows_of_samples
from abstain.errors import InputError
from abstain.scores.registry import Score, by_name

Metric = Callable[[Array, Array], Any]

_GRIDS: dict[str, tuple[float, ...]] = {
    "p": (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, float("inf")),
    "temperature": (*(t / 10 for t in range(1, 11)), 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0),
}


@dataclass(frozen=True)
class Tuning:
    """What was tried and what ranked best (lowest metric; the first of equals).

    `score` is the tuned score, ready to be called on new logits.
    """

    name: str
    parameter: str
    best: float
    value: float
    metric: str
    table: tuple[tuple[float, float], ...]
    score: Callable[..., Any]

    def __repr__(self) -> str:
        tried = ", ".join(f"{v:g}: {m:.6g}" for v, m in self.table)
        return (
            f"Tuning({self.name}, best {self.parameter} = {self.best:g} with {self.metric} {self.value:.6g}; "
            f"tried {tried})"
        )


def tune(
    name: str | Score,
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    grid: Sequence[float] | None = None,
    loss: str | losses.Loss | Callable[..., Any] = "zero_one",
    metric: str | Metric = "aurc",
) -> Tuning:
    """Choose p or temperature, whichever the score has, by the AURC of a loss on held-out data; lower is
    better.

    Tune on data that is not used to report the result: the smallest of many values is too good. The loss is
    that of the model's own prediction and does not change with the parameter.

    Parameters
    ----------
    name : str or Score
        A score with a parameter: p for the norms, temperature for the softmax scores and energy.
    logits, labels, probs : array
        As for the score and the loss.
    grid : sequence of float, optional
        Values to try; p in 1 ... 10 and infinity, temperatures 0.1 ... 10 unless given.
    loss : str or callable
        A name in `abstain.losses.NAMES` or a function `f(logits, labels)`.
    metric : {"aurc", "augrc"} or callable
        A function of (loss, confidence), lower is better.

    Returns
    -------
    Tuning
        The best value (the first of equals), all that was tried, and the tuned score.

    Examples
    --------
    >>> result = tune("energy", [[2.0, 0.0], [1.9, 1.8], [0.0, 1.0]], [0, 1, 1], grid=[0.1, 1.0])
    >>> result.best, round(result.value, 4)  # at 0.1 the error ranks second, at 1 first
    (0.1, 0.2778)
    """
    score = by_name(name)
    if score.parameter is None:
        raise InputError(
            f"tune: `name` must be a score with a parameter, got {score.name!r}, which has none."
        )
    values = tuple(float(v) for v in (_default_grid(score) if grid is None else grid))
    if not values:
        raise InputError("tune: `grid` must hold at least one value, got none.")
    measured = losses.by_name(loss)(logits, labels, probs=probs)
    judge = _metric(metric)
    confidences = (score(logits, probs=probs, **{score.parameter: v}) for v in values)
    table = tuple((v, float(judge(measured, c))) for v, c in zip(values, confidences))
    best, value = min(table, key=lambda row: row[1])
    label = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
    tuned = functools.partial(score, **{score.parameter: best})
    return Tuning(score.name, score.parameter, best, value, label, table, tuned)


def _default_grid(score: Score) -> tuple[float, ...]:
    assert score.parameter is not None
    grid = _GRIDS[score.parameter]
    return tuple(v for v in grid if v > 1) if score.name == "probability_norm" else grid


def _metric(metric: str | Metric) -> Metric:
    if callable(metric):
        return metric
    check_choice("tune", "metric", metric, ("aurc", "augrc"))
    return functools.partial(_area, "harmonic" if metric == "aurc" else "sele")


def _area(estimator: str, loss: Array, confidence: Array) -> Any:
    road = road_for(loss, confidence)
    loss, confidence = (road.xp.reshape(bring(road, x), (-1,)) for x in (loss, confidence))
    if road.host:
        return fast.area(loss, confidence, None, estimator, "threshold")
    return estimators.area(rows_of_samples(road.xp, loss, confidence), estimator, "threshold")
