"""One number out of a summary, or out of the summaries of all groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abstain.engines.summary import Summary
from abstain.metrics.groups import Grouped


def value_of(metric: str, answer: Any, name: str = "") -> float | Grouped:
    """The estimate of a metric of which less is better."""
    return picked(name or metric, answer, lambda summary: summary[metric].estimate)


def picked(
    name: str, answer: Any, pick: Callable[[Summary], float], lower_is_better: bool = True
) -> float | Grouped:
    """Any number of a summary; `Grouped` where there is a summary for each group."""
    if not isinstance(answer, dict):
        return float(pick(answer))
    values = {group: float(pick(summary)) for group, summary in answer.items()}
    return Grouped(name, values, {group: summary.n for group, summary in answer.items()}, lower_is_better)
