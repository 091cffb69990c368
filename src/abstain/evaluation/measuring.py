"""One number of the table at a time: the estimate with its interval, or the reason there is none."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from abstain.core import points
from abstain.core.blocks import Blocks
from abstain.core.fast import is_zero_one
from abstain.errors import InfeasibleError, InputError
from abstain.evaluation.entries import Entry
from abstain.inference import interval, interval_from_blocks
from abstain.inference.results import Interval
from abstain.metrics.registry import Metric

_NOT_ZERO_ONE = "needs a 0/1 loss"
_ONE_KIND = "needs both right and wrong samples, got only one kind"


class Plan(NamedTuple):
    """How to measure: level, replicates of the bootstrap (0: none), its seed."""

    level: float
    replicates: int
    rng: int
    clusters: np.ndarray | None = None


def entry_of_samples(
    metric: Metric,
    names: tuple[str, str],
    loss: np.ndarray,
    confidence: np.ndarray,
    columns: dict[str, Any],
    plan: Plan,
    group: Any = None,
) -> Entry:
    """Measure a metric on samples; `columns` are sample_weight, abstained and clusters."""
    if metric.needs_zero_one and not is_zero_one(loss):
        return _absent(metric, names, len(loss), group, _NOT_ZERO_ONE)
    own = {k: v for k, v in columns.items() if k != "clusters"}
    try:
        value = float(metric(loss, confidence, **own))
    except InfeasibleError as problem:
        return _absent(metric, names, len(loss), group, _ONE_KIND if metric.needs_both else _told(problem))
    if not metric.smooth and not plan.replicates:
        why = "no interval: the bootstrap is left out for this many samples; ask with `replicates=`"
        return _finished(metric, names, value, None, len(loss), group, why)
    more: dict[str, Any] = {} if metric.smooth else {"replicates": plan.replicates, "rng": plan.rng}
    try:
        found = interval(
            metric.name, loss, confidence, level=plan.level, **columns, **more, **dict(metric.options)
        )
    except InputError as problem:  # a value, but too little data for a spread
        return _finished(metric, names, value, None, len(loss), group, _told(problem))
    return _finished(metric, names, value, found, len(loss), group, None)


def entry_of_blocks(metric: Metric, names: tuple[str, str], blocks: Blocks, level: float) -> Entry:
    """Measure a metric on a block table, as far as sums by confidence can tell."""
    n = int(blocks.count.sum())
    rows = blocks.rows()
    if not metric.smooth:
        options = dict(metric.options)
        if metric.name == "risk_at_coverage":
            value = float(points.risk_at_coverage(rows, rows.W[0], options["coverage"])[0])
        elif metric.name == "coverage_at_risk":
            value = float(points.coverage_at_risk(rows, rows.W[0], options["risk"]))
        else:
            return _absent(metric, names, n, None, "needs the samples themselves")
        return _finished(metric, names, value, None, n, None, "no interval: the bootstrap needs the samples")
    zero_one = blocks.zero_one
    if metric.needs_zero_one and not zero_one:
        return _absent(metric, names, n, None, _NOT_ZERO_ONE)
    if metric.needs_both and rows.S[-1] in (0, rows.W[0]):
        return _absent(metric, names, n, None, _ONE_KIND)
    try:
        found = interval_from_blocks(metric.name, blocks, level=level, **dict(metric.options))
    except InputError as problem:
        return _absent(metric, names, n, None, _told(problem))
    return _finished(metric, names, found.estimate, found, n, None, None)


def _absent(metric: Metric, names: tuple[str, str], n: int, group: Any, reason: str) -> Entry:
    score, loss = names
    return Entry(
        score, loss, metric.key, metric.label, metric.lower_is_better, None, n=n, group=group, reason=reason
    )


def _finished(
    metric: Metric,
    names: tuple[str, str],
    value: float,
    found: Interval | None,
    n: int,
    group: Any,
    reason: str | None,
) -> Entry:
    score, loss = names
    head = (score, loss, metric.key, metric.label, metric.lower_is_better, value)
    if found is None:
        return Entry(*head, n=n, group=group, reason=reason)
    told = np.isfinite([found.low, found.high]).all()  # a limit at infinity says nothing
    if not told or (found.standard_error == 0 and found.centre != "bound"):
        return Entry(*head, n=n, group=group, reason="no interval: the samples show no spread")
    spread = (found.standard_error, found.low, found.high, found.method)
    return Entry(*head, *spread, n=n, group=group)


def _told(problem: Exception) -> str:
    """An error's message without the function it came from."""
    return str(problem).partition(": ")[2] or str(problem)
