"""Any metric by group: per-group values, their plain mean, and the worst."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, cast, overload

import numpy as np

from abstain._arrays import Array, backend_of, to_host
from abstain.errors import InputError, ShapeError

_SAMPLE_ALIGNED = ("sample_weight", "abstained")
Vector = Sequence[float] | np.ndarray
Options = ParamSpec("Options")


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


class GroupableMetric(Protocol[Options]):
    """A metric with its `groups=` option, as type checkers and editors see it.

    The metric's own parameters come from its definition. A keyword cannot be added to them (PEP 612), so the
    call with `groups` is an overload of its own, whose other options are checked when it runs. A numpy array
    counts as a vector, the common case: its number of dimensions is unknown to type checkers, and a batch gives
    an array.
    """

    __name__: str

    @overload
    def __call__(self, loss: Vector, /, *args: Options.args, **options: Options.kwargs) -> float: ...
    @overload
    def __call__(self, loss: Array, /, *args: Options.args, **options: Options.kwargs) -> Array: ...
    @overload
    def __call__(
        self, loss: Array, confidence: Array = None, /, *, groups: None, **options: Any
    ) -> Array: ...
    @overload
    def __call__(
        self, loss: Array, confidence: Array = None, /, *, groups: Array, **options: Any
    ) -> Grouped: ...


def by_group(
    lower_is_better: bool,
) -> Callable[[Callable[Concatenate[Array, Options], Array]], GroupableMetric[Options]]:
    """Give a metric its `groups=` option: one label per sample; missing ones (None, NaN) are the group None."""

    def wrap(metric: Callable[Concatenate[Array, Options], Array]) -> GroupableMetric[Options]:
        @functools.wraps(metric)
        def grouped(
            loss: Array, confidence: Array = None, /, *, groups: Array | None = None, **options: Any
        ) -> Any:
            if groups is None:
                return cast(Any, metric)(loss, confidence, **options)
            return _per_group(metric, loss, confidence, groups, options, lower_is_better)

        own = inspect.signature(metric)
        groups = inspect.Parameter(
            "groups", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Array | None"
        )
        cast(Any, grouped).__signature__ = own.replace(parameters=[*own.parameters.values(), groups])
        return cast(GroupableMetric[Options], grouped)

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
    labels, codes = group_codes(name, groups)
    if codes.shape != np.shape(loss):
        raise ShapeError(
            f"{name}: `groups` must be a vector with one label per sample, "
            f"got {codes.shape} for {tuple(np.shape(loss))}."
        )
    if not labels:
        raise InputError(f"{name}: needs at least one sample, got none.")
    values, counts = {}, {}
    for code, label in enumerate(labels):
        mask = codes == code
        part = {k: _subset(v, mask) if k in _SAMPLE_ALIGNED else v for k, v in options.items()}
        values[label] = float(metric(_subset(loss, mask), _subset(confidence, mask), **part))
        counts[label] = int(mask.sum())
    return Grouped(name, values, counts, lower)


def group_codes(name: str, groups: Array) -> tuple[list[Any], np.ndarray]:
    """The distinct labels in order, and the place of each sample's label among them.

    Labels may be of any kind: numbers, strings, a pandas column or categorical. Missing ones, however written
    (None, NaN, NaT, pandas.NA), are one group, named None and listed last.
    """
    if isinstance(groups, (list, tuple)):
        given = np.asarray(groups, dtype=object)  # numpy would turn the NaN in ["a", nan] into the word "nan"
    else:
        given = np.asarray(to_host(groups))
    if given.ndim != 1:
        raise ShapeError(
            f"{name}: `groups` must be a vector with one label per sample, got shape {given.shape}."
        )
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
    return (
        type(same).__name__ == "NAType" or not same
    )  # NaN and NaT differ from themselves, pandas.NA says NA


def _subset(x: Array | None, mask: np.ndarray) -> Array | None:
    if x is None:
        return None
    backend = backend_of(x)
    return backend.asarray(x)[backend.asarray(mask, x)]


def balanced_weights(groups: Array) -> np.ndarray:
    """Sample weights that give every group (or class) the same mass, n samples in all.

    >>> balanced_weights(["a", "a", "a", "b"]).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    _, codes = group_codes("balanced_weights", groups)
    counts = np.bincount(codes)
    return np.asarray(len(codes) / (len(counts) * counts[codes]))
