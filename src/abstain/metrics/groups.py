"""Splitting by group, the one home of it; a metric within each group, their plain mean, and the worst."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain import _tables
from abstain._arrays import Array, backend_of, to_host
from abstain.errors import InputError, ShapeError

_SAMPLE_ALIGNED = ("sample_weight", "abstained")


@dataclass(frozen=True)
class Grouped(_tables.Notebook):
    """A metric within each group: what a metric answers when it is given `groups=`.

    Attributes
    ----------
    metric : str
        Name of the metric.
    values : dict
        The metric of each group, by label; samples without a label are the group None.
    counts : dict
        Samples in each group.
    lower_is_better : bool
        Which way `worst` looks.

    Examples
    --------
    >>> from abstain import aurc
    >>> by_site = aurc([0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6], groups=["a", "a", "b", "b"])
    >>> by_site.values, by_site.macro, by_site.worst_group
    ({'a': 0.25, 'b': 0.0}, 0.125, 'a')
    """

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


def per_group(
    metric: Callable[..., Any], loss: Array, confidence: Array, groups: Array, options: dict[str, Any]
) -> tuple[dict[Any, float], dict[Any, int]]:
    """The metric within each group, and the number of its samples."""
    name = metric.__name__
    labels, codes = group_codes(name, groups, np.shape(loss))
    values, counts = {}, {}
    for code, label in enumerate(labels):
        mask = codes == code
        part = {k: _subset(v, mask) if k in _SAMPLE_ALIGNED else v for k, v in options.items()}
        values[label] = float(metric(_subset(loss, mask), _subset(confidence, mask), **part))
        counts[label] = int(mask.sum())
    return values, counts


def group_codes(
    name: str, groups: Array, shape: tuple[int, ...] | None = None
) -> tuple[list[Any], np.ndarray]:
    """The distinct labels in order, and the place of each sample's label among them; `shape`: that of the samples.

    Labels may be of any kind: numbers, strings, a pandas column or categorical. Missing ones, however written
    (None, NaN, NaT, pandas.NA), are one group, named None and listed last.
    """
    if isinstance(groups, (list, tuple)):
        given = np.asarray(groups, dtype=object)  # numpy would turn the NaN in ["a", nan] into the word "nan"
    else:
        given = np.asarray(to_host(groups))
    wanted = None if shape is None else tuple(shape)
    if given.ndim != 1 or wanted not in (None, given.shape):
        got = f"{given.shape} for {wanted}" if given.ndim == 1 else f"shape {given.shape}"
        raise ShapeError(f"{name}: `groups` must be a vector with one label per sample, got {got}.")
    if shape is not None and not len(given):
        raise InputError(f"{name}: needs at least one sample, got none.")
    if given.dtype != object:
        found, codes = np.unique(given, return_inverse=True)  # NaN and NaT stand last, once
        return [None if _is_missing(label) else label.item() for label in found], codes
    place: dict[Any, int] = {}
    try:
        codes = np.fromiter(
            (place.setdefault(None if _is_missing(v) else v, len(place)) for v in given), np.intp, len(given)
        )
    except (TypeError, ValueError):  # a label that is itself a list or an array
        raise InputError(f"{name}: `groups` must hold plain labels such as numbers or strings.") from None
    named = [label for label in place if label is not None]
    try:
        named.sort()
    except TypeError:  # numbers beside strings
        named.sort(key=lambda label: (type(label).__name__, str(label)))
    labels = [*named, *([None] if None in place else [])]
    rank = np.empty(len(labels), np.intp)
    rank[[place[label] for label in labels]] = np.arange(len(labels))
    return labels, rank[codes]


def _is_missing(label: Any) -> bool:
    if label is None:
        return True
    same = label == label
    # NaN and NaT differ from themselves, pandas.NA says NA
    return type(same).__name__ == "NAType" or not same


def _subset(x: Array | None, mask: np.ndarray) -> Array | None:
    if x is None:
        return None
    backend = backend_of(x)
    return backend.asarray(x)[backend.asarray(mask, x)]


def balanced_weights(groups: Array) -> np.ndarray:
    r"""Sample weights that give every group (or class) the same mass, n samples in all.

    .. math:: w_i = \frac{n}{G\, n_{g(i)}}

    with G groups, of which the sample's own has :math:`n_{g(i)}` members.

    Parameters
    ----------
    groups : array, shape (n,)
        One label per sample; missing ones (None, NaN) are a group of their own.

    Returns
    -------
    ndarray, shape (n,)
        For `sample_weight=`.

    Examples
    --------
    >>> balanced_weights(["a", "a", "a", "b"]).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    _, codes = group_codes("balanced_weights", groups)
    counts = np.bincount(codes)
    return np.asarray(len(codes) / (len(counts) * counts[codes]))
