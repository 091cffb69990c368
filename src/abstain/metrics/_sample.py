"""From the user's arguments to rows: checked once, the same way for every metric, and split by `groups=`."""

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
from abstain._check import (
    check_mask,
    check_pair,
    check_row_order_of_call,
    check_shape_of_loss,
    check_weight,
)
from abstain.core.area_estimators import oracle_rows
from abstain.core.rows import Rows, rows_from_numpy, rows_from_samples
from abstain.core.sorting import is_zero_one
from abstain.errors import InputError, ShapeError

Vector = Sequence[float] | np.ndarray
Options = ParamSpec("Options")
_ONE_VALUE_PER_SAMPLE = ("sample_weight", "abstained")  # options that are split by group


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

    Examples
    --------
    >>> rows = rows_from_numpy(np.array([0.0, 1.0]), np.array([0.9, 0.1]))
    >>> CurveTable(rows=rows, total_mass=2.0, rows_by_loss=lambda: rows).rows.risk.tolist()
    [0.0, 0.5]
    """

    rows: Rows
    total_mass: Any
    rows_by_loss: Callable[[], Rows]
    has_weights: bool = False
    has_whole_weights: bool = True


class Sample(NamedTuple):
    """Checked inputs of a metric.

    Attributes
    ----------
    name : str
        The function that was called, for messages.
    backend : Backend
        The array library of the input.
    loss, confidence, weight : array
        Of the samples that did not abstain; no weight means 1 for all.
    total_mass : array or float
        Mass of all samples, abstained ones included: what coverage is a share of.
    all_weights : array or None
        Weights of all samples, those that abstained or have weight 0 included.
    has_unchecked_confidence : bool
        Is it not known yet whether the confidences are finite?
    """

    name: str
    backend: Backend
    loss: Array
    confidence: Array
    weight: Array | None
    total_mass: Array
    all_weights: Array | None = None
    has_unchecked_confidence: bool = False

    @property
    def answered_mass(self) -> Array:
        """Mass of the samples that did not abstain."""
        return _total_mass(self.backend, self.loss, self.weight)

    def rows(self) -> Rows:
        """One row per distinct confidence of the samples that did not abstain, most confident first."""
        if self.backend.is_host:
            return rows_from_numpy(self.loss, self.confidence, self.weight)
        return rows_from_samples(self.backend.xp, self.loss, self.confidence, self.weight)

    def rows_by_loss(self) -> Rows:
        """Rows of the best possible order: by loss, the smallest first."""
        return oracle_rows(self.backend.full_xp, self.loss, self.weight)

    def table(self) -> CurveTable:
        """What the value of a metric is computed from; on the host."""
        return CurveTable(
            rows=self.rows(),
            total_mass=self.total_mass,
            rows_by_loss=self.rows_by_loss,
            has_weights=self.weight is not None,
            has_whole_weights=self.weight is None or bool(np.all(self.weight == np.floor(self.weight))),
        )

    def is_zero_one(self) -> bool:
        """Are all losses 0 or 1? (Reads the values.)"""
        if self.backend.is_host:
            return is_zero_one(self.loss)
        xp = self.backend.xp
        return xp.isdtype(self.loss.dtype, "bool") or bool(xp.all((self.loss == 0) | (self.loss == 1)))

    def to_input_library(self, value: Array) -> Any:
        """A result, where the input lives."""
        return self.backend.to_input_library(value)


def prepare(
    name: str,
    loss: Array,
    confidence: Array,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    counting_option: str = "",
    vector: bool = False,
    repetitions: bool = False,
    defers_confidence: bool = False,
) -> Sample:
    """Check the inputs of a metric and bring them to one array library.

    Abstained samples keep their mass in `total_mass` and are dropped otherwise (in a batch, they get weight 0).

    Parameters
    ----------
    name : str
        The function that was called, for messages.
    loss, confidence, sample_weight, abstained : array
        As the user gave them.
    counting_option : str
        An option that counts neighbours and so needs weights to be repetitions, as the user wrote it, such as
        `estimator="loo"`; empty when any weight will do.
    vector : bool
        Are batches refused?
    repetitions : bool
        Are the weights numbers of repetitions? Otherwise they are relative, and divided by their unit.
    defers_confidence : bool
        May NaN and infinite confidences on a device be found later? The check reads all of them; a caller that sorts
        them can do it for nothing. `has_unchecked_confidence` of the result says whether it is left to the caller.

    Raises
    ------
    ShapeError, DtypeError, InputError
        Where the inputs are not what the metrics take; InputError also where every sample has abstained.
    """
    backend = backend_of(loss, confidence, sample_weight, abstained)
    xp = backend.xp
    is_deferred = defers_confidence and not backend.is_host and abstained is None
    loss, confidence = check_pair(name, backend, loss, confidence, defers_confidence=is_deferred)
    if vector and loss.ndim != 1:
        raise ShapeError(f"{name}: takes one vector, got shape {tuple(loss.shape)}. Loop over the batch.")
    if backend.is_host and loss.dtype.kind in "iu":
        loss = loss.astype(np.float64)  # exact for whole numbers
    if backend.is_host and confidence.dtype.kind != "f":
        confidence = confidence.astype(np.float64)
    weight = None
    if sample_weight is not None:
        weight = check_weight(name, backend, sample_weight, loss, counting_option, repetitions)
    if backend.is_host and weight is not None:
        weight = weight.astype(np.float64, copy=False)  # sums of float32 weights would be float32
    total = _total_mass(backend, loss, weight)
    every_weight = weight
    answered = None
    if abstained is not None:
        answered = ~check_mask(name, "abstained", backend, abstained, loss)
        answered = answered if weight is None else answered & (weight > 0)
        if not bool(xp.all(xp.any(answered, axis=-1))):
            raise InputError(f"{name}: every sample has abstained; nothing is left to measure.")
    elif backend.is_host and weight is not None and loss.ndim == 1 and not weight.all():
        answered = weight > 0  # samples of weight 0 are dropped
    if answered is not None and loss.ndim == 1:
        loss = loss[answered]
        confidence = confidence[answered]
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
        total_mass=total,
        all_weights=every_weight,
        has_unchecked_confidence=is_deferred,
    )


def _total_mass(backend: Backend, loss: Array, weight: Array | None) -> Array:
    """Sum of the weights along the last axis, or the number of samples."""
    if weight is None:
        return float(loss.shape[-1])
    return backend.xp.sum(backend.xp.astype(weight, float_dtype(backend.xp)), axis=-1)


# Splitting by group, the one home of it: a metric within each group, their plain mean, and the worst --------------


@dataclass(frozen=True)
class Grouped(_tables.Notebook):
    """A metric within each group: the result of a metric with `groups=`.

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
        """Plain mean over groups."""
        return float(np.mean(list(self.values.values())))

    @property
    def worst_group(self) -> Any:
        """Name of the group with the worst value."""
        choose = max if self.lower_is_better else min
        return choose(self.values, key=lambda group: self.values[group])

    @property
    def worst(self) -> float:
        """Value of the worst group."""
        return self.values[self.worst_group]

    def __repr__(self) -> str:
        lines = [f"{self.metric} by group:"]
        for group, value in self.values.items():
            lines.append(f"  {group!s:<16} {value:.6g}  (n = {self.counts[group]})")
        lines.append(f"  macro {self.macro:.6g}, worst {self.worst:.6g} ({self.worst_group})")
        return "\n".join(lines)


def measure_groups(
    metric: Callable[..., Any],
    arrays: Sequence[Array],
    groups: Array,
    options: dict[str, Any],
    lower_is_better: bool,
) -> Grouped:
    """The values of a metric within each group, with the number of samples of each.

    `arrays` are the positional arguments of `metric`, the loss first, and `options` its keywords. `sample_weight` and
    `abstained` among them, which have one value per sample, are split as the arrays are. `groups` has one label per
    sample; missing labels (None, NaN) are the group None. Samples of weight 0 belong to no group and are not counted.
    `lower_is_better` says which group is the worst one. Raises ShapeError unless there is one label per sample of one
    vector (a batch has no groups), and what `metric` raises.
    """
    columns = {name: value for name, value in options.items() if name in _ONE_VALUE_PER_SAMPLE}
    if len(arrays) > 1:
        columns["confidence"] = arrays[1]
    for name, column in columns.items():
        if column is not None:
            check_shape_of_loss(metric.__name__, name, column, arrays[0])
    # the distinct labels, and for each sample the index of its label (-1 for a sample of weight 0)
    labels, codes = group_codes(
        metric.__name__, groups, np.shape(arrays[0]), weight=options.get("sample_weight")
    )
    if not labels:  # no sample has any weight: the metric itself raises the error for that
        metric(*arrays, **options)
    values: dict[Any, float] = {}  # by label, as the counts
    counts: dict[Any, int] = {}
    # one array of ascending sample indices per label, none of them empty
    members_by_group = rows_of_groups(codes, len(labels))
    for label, members in zip(labels, members_by_group, strict=True):
        # `_subset`: the entries of the members, in the array library of the input; None stays None
        group_arrays = [_subset(array, members) for array in arrays]
        group_options = {
            name: _subset(value, members) if name in _ONE_VALUE_PER_SAMPLE else value
            for name, value in options.items()
        }
        values[label] = float(metric(*group_arrays, **group_options))  # without `groups`: a single number
        counts[label] = len(members)
    return Grouped(metric=metric.__name__, values=values, counts=counts, lower_is_better=lower_is_better)


class CodedLabels(NamedTuple):
    """Labels of samples as whole numbers.

    Attributes
    ----------
    labels : list
        The distinct labels in order; missing labels are one, None, which comes last.
    codes : ndarray of int
        For each sample the index of its label among `labels`; -1 for a sample that belongs to none.
    """

    labels: list[Any]
    codes: np.ndarray


def group_codes(
    name: str,
    groups: Array,
    shape: tuple[int, ...] | None = None,
    argument: str = "groups",
    weight: Array | None = None,
) -> CodedLabels:
    """The distinct labels in order, and for each sample the index of its label among them.

    Labels may be of any kind: numbers, strings, a pandas column or categorical. Missing ones, however written
    (None, NaN, NaT, pandas.NA), are one group, named None and listed last. Missing clusters are refused: samples of
    unknown clusters are not one cluster.

    Parameters
    ----------
    name, argument : str
        The function that was called and the argument that holds the labels, for messages.
    groups : array
        One label per sample.
    shape : tuple, optional
        The shape of the samples, which the labels must have; without it any length will do.
    weight : array, optional
        Samples of weight 0 belong to no group: their index is -1, and groups of such samples alone are not listed.

    Raises
    ------
    ShapeError, InputError
        Where there is not one label per sample, no sample at all, a label that is itself a list or an array, or
        where `argument` is "clusters" and there are two kinds of them, or one is missing or an empty text.
    """
    label_values = label_array(groups)
    expected_shape = None if shape is None else tuple(shape)
    if label_values.ndim == 2 and argument == "clusters" and 2 in label_values.shape:
        raise InputError(
            f"{name}: `clusters` must be one kind of clusters, got two. Give the kind that will be new when the result "
            f"is used: what is promised is then for new clusters of that kind beside the same clusters of the other."
        )
    if label_values.ndim != 1 or expected_shape not in (None, label_values.shape):
        got = f"shape {label_values.shape}"
        if label_values.ndim == 1:
            got = f"{label_values.shape} for {expected_shape}"
        raise ShapeError(f"{name}: `{argument}` must be a vector with one label per sample, got {got}.")
    if shape is not None and not len(label_values):
        raise InputError(f"{name}: needs at least one sample, got none.")
    has_weight = None if weight is None else np.asarray(to_host(weight)) > 0
    if has_weight is not None and has_weight.shape == label_values.shape and not has_weight.all():
        codes = np.full(len(label_values), -1, dtype=np.intp)
        # the same for the samples that have a weight; no labels where none of them has
        labels, codes[has_weight] = group_codes(name, label_values[has_weight], argument=argument)
        return CodedLabels(labels, codes)
    if label_values.dtype != object:
        distinct, codes = np.unique(label_values, return_inverse=True)  # NaN and NaT come last, once
        coded_labels = CodedLabels(
            [None if _is_missing(label) else label.item() for label in distinct], codes
        )
    else:
        coded_labels = _code_objects(name, label_values, argument)
    if argument == "clusters":
        _refuse_missing_clusters(name, coded_labels)
    return coded_labels


def _code_objects(name: str, label_values: np.ndarray, argument: str) -> CodedLabels:
    """Find the distinct labels, in order, of an array of Python objects, and for each sample the index of its label.

    Missing labels (None, NaN and the like) are one label, None, which comes last. Raises InputError for a label that
    cannot be a key of a dict; `name`, the function that was called, and `argument` are for its message.
    """
    first_seen: dict[Any, int] = {}  # by label: its number, counted from 0 in the order of the samples
    first_codes = np.empty(len(label_values), np.intp)  # this number, for each sample
    try:
        for index, label in enumerate(label_values):
            key = None if _is_missing(label) else label
            first_codes[index] = first_seen.setdefault(key, len(first_seen))
    except (TypeError, ValueError):  # a label that is itself a list or an array
        raise InputError(f"{name}: `{argument}` must hold plain labels such as numbers or strings.") from None
    labels = [label for label in first_seen if label is not None]
    try:
        labels.sort()
    except TypeError:  # labels that cannot be compared, such as numbers and strings: by type, then as text
        labels.sort(key=lambda label: (type(label).__name__, str(label)))
    if None in first_seen:
        labels.append(None)
    # from the number of a label in `first_seen` to its index in the sorted `labels`
    sorted_code = np.empty(len(labels), np.intp)
    sorted_code[[first_seen[label] for label in labels]] = np.arange(len(labels))
    return CodedLabels(labels, sorted_code[first_codes])


def _refuse_missing_clusters(name: str, clusters: CodedLabels) -> None:
    """Raise InputError where samples have no cluster: None, NaN or an empty text. `name` begins the message.

    `clusters.labels` are the distinct labels, in which NaN has become None. `clusters.codes` has one entry per sample:
    the index of its label; samples of weight 0 were left out.
    """
    missing_codes = [
        code
        for code, label in enumerate(clusters.labels)
        if label is None or (isinstance(label, str) and not label.strip())
    ]
    if missing_codes:
        count = int(np.isin(clusters.codes, missing_codes).sum())
        raise InputError(
            f"{name}: `clusters` must name a cluster for every sample, got none (None, NaN or an empty text) for "
            f"{count:,} of {len(clusters.codes):,}. Give each of these a name of its own if it is independent, or "
            f"leave them out."
        )


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
    """Labels as a numpy array; a list becomes objects, since numpy would turn the NaN in ["a", nan] into "nan"."""
    if isinstance(labels, (list, tuple)):
        return np.asarray(labels, dtype=object)
    return np.asarray(to_host(labels))


def _is_missing(label: Any) -> bool:
    """Is a label None, NaN, NaT or pandas.NA?"""
    if label is None:
        return True
    equals_itself = label == label  # not so for NaN and NaT; NA for pandas.NA
    return type(equals_itself).__name__ == "NAType" or not equals_itself


def _subset(values: Array | None, rows: np.ndarray) -> Array | None:
    """The values of the samples with these row numbers, in the array library of the input; None for None."""
    if values is None:
        return None
    backend = backend_of(values)
    return backend.asarray(values)[backend.asarray(rows, values)]


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
    # the number of each sample's group, from 0; raises InputError or ShapeError unless there is one label per sample
    group_of_sample = group_codes("balanced_weights", groups).codes
    group_sizes = np.bincount(group_of_sample)  # no group is empty
    return np.asarray(len(group_of_sample) / (len(group_sizes) * group_sizes[group_of_sample]))


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
    """Make a decorator that gives a metric function one more option, `groups=`: one label per sample.

    With `groups`, the function returns a `Grouped` result instead of a number: the metric within each group (missing
    labels, None or NaN, are the group None). `lower_is_better` says which group is the worst. With or without `groups`,
    InputError is raised for pandas columns whose rows are in different orders.
    """

    def decorate(metric: Callable[Concatenate[Array, Options], Array]) -> GroupableMetric[Options]:
        """Wrap one metric function, which has no parameter `groups` itself."""
        signature = inspect.signature(metric)

        @functools.wraps(metric)
        def metric_with_groups(*arrays: Array, groups: Array | None = None, **options: Any) -> Any:
            # InputError for pandas columns with the same index labels in different orders
            check_row_order_of_call(
                metric_with_groups, arrays, options if groups is None else {**options, "groups": groups}
            )
            if groups is None:
                return cast(Any, metric)(*arrays, **options)
            signature.bind(*arrays, **options)  # raises for wrong arguments before anything is split
            # calls `metric` once for each group
            return measure_groups(metric, arrays, groups, options, lower_is_better)

        groups_parameter = inspect.Parameter(
            "groups", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Array | None"
        )
        # what help and editors show
        parameters = [*signature.parameters.values(), groups_parameter]
        cast(Any, metric_with_groups).__signature__ = signature.replace(parameters=parameters)
        return cast(GroupableMetric[Options], metric_with_groups)

    return decorate
