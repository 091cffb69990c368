"""From the user's arguments to rows: checked once, the same way for every metric, and taken apart by `groups=`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, cast, overload

import numpy as np

from abstain._arrays import Array, Backend, backend_of, float_dtype
from abstain._check import check_mask, check_pair, check_weight
from abstain.core.rows import Rows, rows_of, rows_of_samples
from abstain.core.sorting import is_zero_one
from abstain.errors import InputError, ShapeError
from abstain.metrics.groups import Grouped, per_group

Vector = Sequence[float] | np.ndarray
Options = ParamSpec("Options")


class Sample(NamedTuple):
    """Checked inputs. `total` is the mass that coverage is a share of, abstentions included."""

    name: str
    backend: Backend
    loss: Array
    confidence: Array
    weight: Array | None
    total: Array

    @property
    def answered(self) -> Array:
        """Mass of the samples that did not abstain."""
        return _mass(self.backend, self.loss, self.weight)

    def rows(self) -> Rows:
        """Blocks of the samples that were answered, most confident first."""
        if self.backend.host:
            return rows_of(self.loss, self.confidence, self.weight)
        return rows_of_samples(self.backend.xp, self.loss, self.confidence, self.weight)

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
) -> Sample:
    """Check and place the inputs. Abstained samples keep their mass in `total` and lose it everywhere else.

    whole: who needs weights that are whole numbers, if anybody. vector: are batches refused?
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
    weight = None if sample_weight is None else check_weight(name, backend, sample_weight, loss, whole)
    total = _mass(backend, loss, weight)
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
    return Sample(name, backend, loss, confidence, weight, total)


def _mass(backend: Backend, loss: Array, weight: Array | None) -> Array:
    if weight is None:
        return float(loss.shape[-1])
    return backend.xp.sum(backend.xp.astype(weight, float_dtype(backend.xp)), axis=-1)


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
    def __call__(self, loss: Array, confidence: Array = None, /, *, groups: None, **more: Any) -> Array: ...
    @overload
    def __call__(
        self, loss: Array, confidence: Array = None, /, *, groups: Array, **more: Any
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
