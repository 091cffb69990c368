"""From the user's arguments to rows: checked once, the same way for every metric, and taken apart by `groups=`."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, cast, overload

import numpy as np

from abstain import _tables
from abstain._arrays import Array, ArrayLike, Backend, backend_of, float_dtype, to_host
from abstain._check import check_mask, check_pair, check_weight
from abstain.core.area_estimators import oracle_rows
from abstain.core.rows import Rows, rows_from_numpy, rows_from_samples
from abstain.core.sorting import is_zero_one
from abstain.errors import InputError, ShapeError

Vector = Sequence[float] | np.ndarray
Options = ParamSpec("Options")
_SAMPLE_ALIGNED = ("sample_weight", "abstained")


class CurveTable(NamedTuple):
    """All that the value of a metric can depend on.

    Attributes
    ----------
    rows : Rows
        One row per distinct confidence, most confident first.
    total_mass : array or float
        Mass of the whole set; larger than that of the rows where samples abstained.
    rows_by_loss : callable
        Makes the rows of the best possible order: by loss, the smallest first.
    has_weights, has_whole_weights : bool
        Are there sample weights, and are they whole numbers (repetitions, or all 1)?
    """

    rows: Rows
    total_mass: Any
    rows_by_loss: Callable[[], Rows]
    has_weights: bool = False
    has_whole_weights: bool = True


class Sample(NamedTuple):
    """Checked inputs. `total` is the mass that coverage is a share of, abstentions included."""

    name: str
    backend: Backend
    loss: Array
    confidence: Array
    weight: Array | None
    total: Array
    every_weight: Array | None = None  # of all samples, those that abstained or have no weight included

    @property
    def answered(self) -> Array:
        """Mass of the samples that did not abstain."""
        return _mass(self.backend, self.loss, self.weight)

    def rows(self) -> Rows:
        """Blocks of the samples that were answered, most confident first."""
        if self.backend.host:
            return rows_from_numpy(self.loss, self.confidence, self.weight)
        return rows_from_samples(self.backend.xp, self.loss, self.confidence, self.weight)

    def rows_by_loss(self) -> Rows:
        """Rows of the best possible order: by loss, the smallest first."""
        return oracle_rows(self.backend.full_xp, self.loss, self.weight)

    def table(self) -> CurveTable:
        """What the value of a metric is computed from."""
        return CurveTable(
            rows=self.rows(),
            total_mass=self.total,
            rows_by_loss=self.rows_by_loss,
            has_weights=self.weight is not None,
        )

    def is_zero_one(self) -> bool:
        """Are all losses 0 or 1? (Reads the values.)"""
        if self.backend.host:
            return is_zero_one(self.loss)
        xp = self.backend.xp
        return xp.isdtype(self.loss.dtype, "bool") or bool(xp.all((self.loss == 0) | (self.loss == 1)))

    def deliver(self, value: Array) -> Any:
        """A result, where the input lives."""
        return self.backend.deliver(value)


def prepare(
    name: str,
    loss: Array,
    confidence: Array,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    whole: str = "",
    vector: bool = False,
    repetitions: bool = False,
) -> Sample:
    """Check and place the inputs. Abstained samples keep their mass in `total` and lose it everywhere else.

    whole: the option that needs weights to be repetitions, if any. vector: are batches refused? repetitions: are the
    weights numbers of repetitions? Otherwise they are relative, and divided by their unit.
    """
    backend = backend_of(loss, confidence, sample_weight, abstained)
    xp = backend.xp
    loss, confidence = check_pair(name, backend, loss, confidence)
    if vector and loss.ndim != 1:
        raise ShapeError(f"{name}: takes one vector, got shape {tuple(loss.shape)}. Loop over the batch.")
    if backend.host and loss.dtype.kind in "iu":
        loss = loss.astype(np.float64)  # one case fewer; whole numbers stay whole
    if backend.host and confidence.dtype not in (np.float32, np.float64):
        confidence = confidence.astype(np.float64)
    weight = None
    if sample_weight is not None:
        weight = check_weight(name, backend, sample_weight, loss, whole, repetitions)
    if backend.host and weight is not None:
        weight = weight.astype(np.float64, copy=False)  # sums of float32 weights would be float32
    total = _mass(backend, loss, weight)
    every_weight = weight
    answered = None
    if abstained is not None:
        answered = ~check_mask(name, "abstained", backend, abstained, loss)
        answered = answered if weight is None else answered & (weight > 0)
        if not bool(xp.all(xp.any(answered, axis=-1))):
            raise InputError(f"{name}: every sample has abstained; nothing is left to measure.")
    elif backend.host and weight is not None and loss.ndim == 1 and not weight.all():
        answered = weight > 0  # no mass, no block
    if answered is not None and loss.ndim == 1:
        loss, confidence = loss[answered], confidence[answered]
        weight = None if weight is None else weight[answered]
    elif answered is not None:
        ones = xp.astype(answered, float_dtype(xp))
        weight = ones if weight is None else ones * xp.astype(weight, float_dtype(xp))
    return Sample(
        name=name,
        backend=backend,
        loss=loss,
        confidence=confidence,
        weight=weight,
        total=total,
        every_weight=every_weight,
    )


def _mass(backend: Backend, loss: Array, weight: Array | None) -> Array:
    if weight is None:
        return float(loss.shape[-1])
    return backend.xp.sum(backend.xp.astype(weight, float_dtype(backend.xp)), axis=-1)


# Splitting by group, the one home of it: a metric within each group, their plain mean, and the worst --------------


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
    labels, codes = group_codes(name, groups, np.shape(loss), weight=options.get("sample_weight"))
    if not labels:  # no sample has any weight: the metric says so
        metric(loss, confidence, **options)
    values, counts = {}, {}
    for code, label in enumerate(labels):
        mask = codes == code
        part = {k: _subset(v, mask) if k in _SAMPLE_ALIGNED else v for k, v in options.items()}
        values[label] = float(metric(_subset(loss, mask), _subset(confidence, mask), **part))
        counts[label] = int(mask.sum())
    return values, counts


def group_codes(
    name: str,
    groups: Array,
    shape: tuple[int, ...] | None = None,
    argument: str = "groups",
    weight: Array | None = None,
) -> tuple[list[Any], np.ndarray]:
    """The distinct labels in order, and the place of each sample's label among them; `shape`: that of the samples.

    Samples of no `weight` belong to no group: their place is -1, and a group of such samples alone is not listed.

    Labels may be of any kind: numbers, strings, a pandas column or categorical. Missing ones, however written
    (None, NaN, NaT, pandas.NA), are one group, named None and listed last.
    """
    given = label_array(groups)
    wanted = None if shape is None else tuple(shape)
    if given.ndim != 1 or wanted not in (None, given.shape):
        got = f"{given.shape} for {wanted}" if given.ndim == 1 else f"shape {given.shape}"
        raise ShapeError(f"{name}: `{argument}` must be a vector with one label per sample, got {got}.")
    if shape is not None and not len(given):
        raise InputError(f"{name}: needs at least one sample, got none.")
    counted = None if weight is None else np.asarray(to_host(weight)) > 0
    if counted is not None and counted.shape == given.shape and not counted.all():
        codes = np.full(len(given), -1, dtype=np.intp)
        labels, codes[counted] = group_codes(name, given[counted], argument=argument)
        return labels, codes
    if given.dtype != object:
        found, codes = np.unique(given, return_inverse=True)  # NaN and NaT stand last, once
        return [None if _is_missing(label) else label.item() for label in found], codes
    place: dict[Any, int] = {}
    try:
        codes = np.fromiter(
            (place.setdefault(None if _is_missing(v) else v, len(place)) for v in given), np.intp, len(given)
        )
    except (TypeError, ValueError):  # a label that is itself a list or an array
        raise InputError(f"{name}: `{argument}` must hold plain labels such as numbers or strings.") from None
    named = [label for label in place if label is not None]
    try:
        named.sort()
    except TypeError:  # numbers beside strings
        named.sort(key=lambda label: (type(label).__name__, str(label)))
    labels = [*named, *([None] if None in place else [])]
    rank = np.empty(len(labels), np.intp)
    rank[[place[label] for label in labels]] = np.arange(len(labels))
    return labels, rank[codes]


def rows_of_groups(codes: np.ndarray, group_count: int) -> list[np.ndarray]:
    """Row numbers of each group, ascending, by one sort of `codes`; rows of code -1 belong to no group.

    >>> [rows.tolist() for rows in rows_of_groups(np.array([1, 0, -1, 1]), 2)]
    [[1], [0, 3]]
    """
    # short keys are sorted by counting
    keys = codes.astype(np.int16) if group_count < 1 << 15 else codes
    order = np.argsort(keys, kind="stable")
    ends = np.searchsorted(keys[order], np.arange(-1, group_count), side="right")
    return [order[start:end] for start, end in itertools.pairwise(ends)]


def label_array(labels: Array) -> np.ndarray:
    """On the host; a list as objects, since numpy would turn the NaN in ["a", nan] into the word "nan"."""
    listed = isinstance(labels, (list, tuple))
    return np.asarray(labels, dtype=object) if listed else np.asarray(to_host(labels))


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


class GroupableMetric(Protocol[Options]):
    """A metric with its `groups=` option, as type checkers and editors see it.

    The metric's own parameters come from its definition. A keyword cannot be added to them (PEP 612), so the
    call with `groups` is an overload of its own, whose other options are checked when it runs. A numpy array
    counts as a vector, the common case: its number of dimensions is unknown to type checkers, and a batch gives
    an array.
    """

    __name__: str

    @overload  # no metric has a parameter `groups`, which mypy cannot see
    def __call__(  # type: ignore[overload-overlap]
        self, loss: Vector, /, *args: Options.args, **options: Options.kwargs
    ) -> float: ...
    @overload
    def __call__(self, loss: ArrayLike, /, *args: Options.args, **options: Options.kwargs) -> Array: ...
    @overload
    def __call__(
        self, loss: ArrayLike, confidence: ArrayLike | None = None, /, *, groups: None, **options: Any
    ) -> Array: ...
    @overload
    def __call__(
        self, loss: ArrayLike, confidence: ArrayLike | None = None, /, *, groups: ArrayLike, **options: Any
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
            found = per_group(metric, loss, confidence, groups, options)
            return Grouped(metric.__name__, *found, lower_is_better)

        own = inspect.signature(metric)
        kind = inspect.Parameter.KEYWORD_ONLY
        groups = inspect.Parameter("groups", kind, default=None, annotation="Array | None")
        cast(Any, grouped).__signature__ = own.replace(parameters=[*own.parameters.values(), groups])
        return cast(GroupableMetric[Options], grouped)

    return wrap
