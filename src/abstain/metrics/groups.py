"""Any metric by group: per-group values, their plain mean, and the worst."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain._arrays import Array, host_view
from abstain.errors import InputError, ShapeError

_SAMPLE_ALIGNED = ("sample_weight", "abstained")


@dataclass(frozen=True)
class Grouped:
    """A metric within each group. `macro` is the plain mean over groups, `worst` the group a user should fear."""

    metric: str
    values: dict[Any, float]
    counts: dict[Any, int]
    lower_is_better: bool

    @property
    def macro(self) -> float:
        """Every group counts the same."""
        return float(np.mean(list(self.values.values())))

    @property
    def worst_group(self) -> Any:
        """Name of the group with the worst value."""
        pick = max if self.lower_is_better else min
        return pick(self.values, key=lambda g: self.values[g])

    @property
    def worst(self) -> float:
        """Value of the worst group."""
        return self.values[self.worst_group]

    def __repr__(self) -> str:
        lines = [f"  {g!s:<16} {v:.6g}  (n = {self.counts[g]})" for g, v in self.values.items()]
        tail = f"  macro {self.macro:.6g}, worst {self.worst:.6g} ({self.worst_group})"
        return "\n".join([f"{self.metric} by group:", *lines, tail])


def by_group(lower_is_better: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a metric its `groups=` option: one label per sample, of any kind that can be sorted."""

    def wrap(metric: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(metric)
        def grouped(
            loss: Array, confidence: Array = None, /, *, groups: Array | None = None, **options: Any
        ) -> Any:
            if groups is None:
                return metric(loss, confidence, **options)
            return _per_group(metric, loss, confidence, groups, options, lower_is_better)

        options = inspect.Parameter(
            "groups", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Array | None"
        )
        signature = inspect.signature(metric)
        grouped.__signature__ = signature.replace(parameters=[*signature.parameters.values(), options])  # type: ignore[attr-defined]
        return grouped

    return wrap


def _per_group(
    metric: Callable[..., Any],
    loss: Array,
    confidence: Array,
    groups: Array,
    options: dict[str, Any],
    lower: bool,
) -> Grouped:
    name = metric.__name__
    view = host_view(groups)
    labels = np.asarray(view if view is not None else groups.tolist())
    if isinstance(loss, (list, tuple)):
        loss, confidence = np.asarray(loss), np.asarray(confidence)
    if labels.ndim != 1 or tuple(loss.shape) != labels.shape:
        raise ShapeError(
            f"{name}: `groups` must be a vector with one label per sample, got {labels.shape} for {tuple(loss.shape)}."
        )
    if not len(labels):
        raise InputError(f"{name}: needs at least one sample, got none.")
    values, counts = {}, {}
    for label in np.unique(labels):
        mask = labels == label
        part = {
            k: np.asarray(v)[mask] if k in _SAMPLE_ALIGNED and v is not None else v
            for k, v in options.items()
        }
        key = label.item()
        values[key] = float(metric(_subset(loss, mask), _subset(confidence, mask), **part))
        counts[key] = int(mask.sum())
    return Grouped(name, values, counts, lower)


def _subset(x: Array, mask: np.ndarray) -> Array:
    view = host_view(x)
    if view is not None:
        return view[mask]
    import array_api_compat

    return x[array_api_compat.array_namespace(x).asarray(mask)]


def balanced_weights(groups: Array) -> np.ndarray:
    """Sample weights that give every group (or class) the same mass, n samples in all.

    >>> balanced_weights(["a", "a", "a", "b"]).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    _, index, counts = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    return np.asarray(len(index) / (len(counts) * counts[index]))
