"""The comparison of two models by an engine, in the shape of `abstain.compare`."""

from __future__ import annotations

import numpy as np

from abstain.engines.paired import Paired
from abstain.evaluation import Comparison, Contestant
from abstain.evaluation.ranking import _pair
from abstain.evaluation.telling_apart import student_tests
from abstain.inference._scales import Scale, fits, quantile
from abstain.metrics.registry import Metric


def ranked(names: tuple[str, str], found: Paired, metric: Metric, level: float) -> Comparison:
    """Best first; models that cannot be told apart share a letter. `found` is of areas: lower is better."""
    values, errors = (found.first, found.second), found.own_errors
    order = [0, 1] if found.first <= found.second else [1, 0]
    gap = values[order[0]] - values[order[1]]
    freedom = np.asarray([found.n - 1.0])
    test = student_tests(
        np.asarray([gap]), np.asarray([found.standard_error]), np.asarray([sum(values)]), freedom, level
    )
    pair = _pair(names[order[0]], names[order[1]], test, 0, level, found.n)
    contestants = tuple(
        _contestant(names[i], values[i], errors[i], found.n, place, pair.different, level)
        for place, i in enumerate(order)
    )
    head = (metric.key, metric.label, metric.lower_is_better, "own losses")
    return Comparison(contestants, (pair,), *head, level, found.n, True)


def _contestant(
    name: str, value: float, error: float, n: int, place: int, different: bool, level: float
) -> Contestant:
    scale = Scale("log") if fits(Scale("log"), value) else Scale("normal")
    low, high = scale.around(value, error, quantile(n - 1, level)) if error else (None, None)
    ranks = (place + 1, place + 1) if different else (1, 2)
    return Contestant(name, value, error, low, high, n, *ranks, "ab"[place] if different else "a")
