"""Per-sample losses: what it costs that the model was followed on this sample. All: lower is better.

Logits are the first argument, probabilities come as `probs=`; classes lie along the last axis, leading axes
are free. One number per sample (a vector, or a last axis of length 1) is that of class 1 of a binary model: its
log-odds, or its probability. Labels are class indices 0 ... K-1 or one-hot rows. The prediction is the largest
entry, the first of equals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain._arrays import Array, Namespace, backend_of, float_dtype, is_concrete
from abstain._check import (
    Classes,
    as_real,
    check_choice,
    check_classes,
    check_finite,
    check_labels,
    check_positive,
)
from abstain.core import simplex
from abstain.errors import InputError, ShapeError

__all__ = ["NAMES", "REGRESSION_NAMES", "Loss", "absolute_error", "brier", "by_name", "cross_entropy"]
__all__ += ["squared_error", "top_k", "zero_one"]


def _classes_and_labels(name: str, logits: Array, labels: Array, probs: Array) -> tuple[Classes, Array]:
    classes = check_classes(name, logits, probs, like=labels)
    return classes, check_labels(name, classes, labels)


def zero_one(logits: Array = None, labels: Array = None, *, probs: Array = None) -> Any:
    r"""Is the prediction wrong? One boolean for each sample.

    .. math:: 1[\arg\max_k z_k \ne y]

    Booleans are what `abstain.aurc` ranks fastest; they count as 0 and 1. Among equal entries the first is
    the prediction, so the answer does not depend on the order of the samples.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    labels : array, shape (...) or one-hot (..., K)
        Class indices 0 ... K-1.
    probs : array, shape (..., K)
        Probabilities instead of logits; rows count relative to their own sum.

    Returns
    -------
    array of bool, shape (...)
        True where the prediction is wrong.

    Examples
    --------
    >>> zero_one([[2.0, 1.0], [0.5, 0.5], [0.0, 3.0]], [0, 1, 1]).tolist()
    [False, True, False]
    """
    classes, labels = _classes_and_labels("zero_one", logits, labels, probs)
    return classes.backend.deliver(classes.backend.xp.argmax(classes.values, axis=-1) != labels)


def top_k(logits: Array = None, labels: Array = None, *, probs: Array = None, k: int = 5) -> Any:
    """Is the label missing from the k largest entries? One boolean for each sample; equal entries in class
    order.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    labels : array, shape (...) or one-hot (..., K)
        Class indices 0 ... K-1.
    probs : array, shape (..., K)
        Probabilities instead of logits; rows count relative to their own sum.
    k : int
        From 1 to K - 1.

    Returns
    -------
    array of bool, shape (...)
        True where the label is missing.

    Examples
    --------
    >>> top_k([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], [1, 2], k=2).tolist()
    [False, True]
    """
    classes, labels = _classes_and_labels("top_k", logits, labels, probs)
    count = classes.values.shape[-1]
    if not (isinstance(k, (int, np.integer)) and 1 <= k < count):
        rule = f"`k` must be a whole number from 1 to {count - 1} (one less than the classes)"
        raise InputError(f"top_k: {rule}, got {k!r}.")
    xp, values = classes.backend.xp, classes.values
    own = xp.take_along_axis(values, labels[..., None], axis=-1)
    index = simplex.places(xp, values)
    ahead = (values > own) | ((values == own) & (index < labels[..., None]))
    return classes.backend.deliver(xp.count_nonzero(ahead, axis=-1) >= k)


def cross_entropy(
    logits: Array = None,
    labels: Array = None,
    *,
    probs: Array = None,
    temperature: float = 1.0,
    clip: float | None = None,
) -> Any:
    r"""Negative log-likelihood of the label, in nats.

    .. math:: -\ln p_y = \ln \sum_k e^{z_k} - z_y

    From logits nothing is lost, however small or large the result. A label of probability 0 has an infinite
    loss, which no mean survives: that is an error, unless `clip` gives the least probability to reckon with.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    labels : array, shape (...) or one-hot (..., K)
        Class indices 0 ... K-1.
    probs : array, shape (..., K)
        Probabilities instead of logits; rows count relative to their own sum.
    temperature : float
        Divides the logits (for probabilities: their logarithms).
    clip : float, optional
        The least probability to reckon with.

    Returns
    -------
    array of shape (...)
        Nats, from 0 up; free of the order of the classes to the last bit (numpy).

    Examples
    --------
    >>> [f"{v:.4g}" for v in cross_entropy([[0.0, 0.0], [50.0, 0.0]], [0, 0])]  # ln 2 and e^-50
    ['0.6931', '1.929e-22']
    """
    classes, labels = _classes_and_labels("cross_entropy", logits, labels, probs)
    temperature = check_positive("cross_entropy", "temperature", temperature)
    (values,) = simplex.numbers_of_rows(classes, ["cross_entropy"], temperature, labels)
    if clip is not None:
        most = float(-np.log(check_positive("cross_entropy", "clip", clip)))
        values = classes.backend.xp.where(values > most, most, values)
    check_possible(classes, values)
    return classes.deliver(values)


def check_possible(classes: Classes, cross_entropy: Array) -> None:
    """No label of probability 0."""
    xp = classes.backend.xp
    if is_concrete(cross_entropy) and not bool(xp.all(xp.isfinite(cross_entropy))):
        rule = "the label's probability must not be 0, got 0, an infinite loss"
        remedy = "Pass the logits, in which a tiny probability is not yet 0, or state `clip=1e-12`."
        raise InputError(f"cross_entropy: {rule}. {remedy}")


def brier(
    logits: Array = None, labels: Array = None, *, probs: Array = None, temperature: float = 1.0
) -> Any:
    r"""Brier score, summed over classes: from 0 to 2 (Brier's own form; half of it is the binary one).

    .. math:: \sum_k (p_k - 1[k = y])^2

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    labels : array, shape (...) or one-hot (..., K)
        Class indices 0 ... K-1.
    probs : array, shape (..., K)
        Probabilities instead of logits; rows count relative to their own sum.
    temperature : float
        Divides the logits (for probabilities: their logarithms).

    Returns
    -------
    array of shape (...)
        From 0 to 2.

    Examples
    --------
    >>> brier(probs=[[0.5, 0.5], [1.0, 0.0]], labels=[0, 1]).tolist()
    [0.5, 2.0]
    """
    classes, labels = _classes_and_labels("brier", logits, labels, probs)
    temperature = check_positive("brier", "temperature", temperature)
    (values,) = simplex.numbers_of_rows(classes, ["brier"], temperature, labels)
    return classes.deliver(values)


def squared_error(prediction: Array, target: Array) -> Any:
    """(prediction - target) squared, element by element, for regression.

    Parameters
    ----------
    prediction, target : array
        Finite numbers, of one shape.

    Returns
    -------
    array of that shape
        From 0 up.

    Examples
    --------
    >>> squared_error([1.0, 2.0], [0.0, 4.0]).tolist()
    [1.0, 4.0]
    """
    return _difference("squared_error", prediction, target, lambda xp, d: d * d)


def absolute_error(prediction: Array, target: Array) -> Any:
    """Distance between prediction and target, element by element, for regression.

    Parameters
    ----------
    prediction, target : array
        Finite numbers, of one shape.

    Returns
    -------
    array of that shape
        From 0 up.

    Examples
    --------
    >>> absolute_error([1.0, 2.0], [0.0, 4.0]).tolist()
    [1.0, 2.0]
    """
    return _difference("absolute_error", prediction, target, lambda xp, d: xp.abs(d))


def _difference(
    name: str, prediction: Array, target: Array, finish: Callable[[Namespace, Array], Array]
) -> Any:
    backend = backend_of(prediction, target)
    xp, like = backend.xp, prediction if hasattr(prediction, "shape") else target
    given = {"prediction": prediction, "target": target}
    pair = {argument: as_real(name, argument, backend, x, like) for argument, x in given.items()}
    shape, other = (tuple(x.shape) for x in pair.values())
    if shape != other:
        raise ShapeError(f"{name}: `prediction` and `target` must have one shape, got {shape} and {other}.")
    for argument, x in pair.items():
        if 0 not in shape:
            check_finite(name, argument, backend, x, "Drop the sample.")
    prediction, target = (xp.astype(x, float_dtype(xp)) for x in pair.values())
    return backend.deliver(finish(xp, prediction - target))


@dataclass(frozen=True)
class Loss:
    """A loss: call it with logits (or `probs=`) and labels.

    Parameters
    ----------
    name, label : str
        In code and in pictures.
    function : callable
        From logits (or `probs=`) and labels to one loss per sample.
    upper : float or None
        Its largest possible value, None if there is none.

    Examples
    --------
    >>> by_name("zero_one")([[2.0, 1.0], [0.0, 3.0]], [0, 0]).tolist()
    [False, True]
    """

    name: str
    label: str
    function: Callable[..., Any]
    upper: float | None

    def __call__(
        self, logits: Array = None, labels: Array = None, *, probs: Array = None, **options: Any
    ) -> Any:
        """One loss for each sample."""
        if probs is None:
            return self.function(logits, labels, **options)
        return self.function(logits, labels, probs=probs, **options)

    def __repr__(self) -> str:
        bound = "no upper bound" if self.upper is None else f"at most {self.upper:g}"
        return f"Loss({self.name!r}, {self.label}, {bound})"


_CLASSIFICATION = (
    Loss("zero_one", "0/1 loss", zero_one, 1.0),
    Loss("top_k", "Top-k error", top_k, 1.0),
    Loss("cross_entropy", "Cross-entropy", cross_entropy, None),
    Loss("brier", "Brier score", brier, 2.0),
)
_REGRESSION = (
    Loss("squared_error", "Squared error", squared_error, None),
    Loss("absolute_error", "Absolute error", absolute_error, None),
)
_BY_NAME = {loss.name: loss for loss in (*_CLASSIFICATION, *_REGRESSION)}

NAMES = tuple(loss.name for loss in _CLASSIFICATION)
REGRESSION_NAMES = tuple(loss.name for loss in _REGRESSION)


def by_name(loss: str | Loss | Callable[..., Any]) -> Loss:
    """The loss of that name; a function of your own, `f(logits or probs, labels)`, is taken as one.

    Parameters
    ----------
    loss : str, Loss or callable
        A name in `NAMES` or `REGRESSION_NAMES`; a loss comes back as it is.

    Returns
    -------
    Loss
        Call it with logits (or `probs=`) and labels.

    Examples
    --------
    >>> by_name("brier")
    Loss('brier', Brier score, at most 2)
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        return Loss(*of_users("loss", loss), None)
    check_choice("losses.by_name", "loss", loss, tuple(_BY_NAME))
    return _BY_NAME[loss]


def loss_words(name: str) -> str:
    """A loss as people say it, for captions and axes; a loss of the user's own keeps its name.

    >>> loss_words("zero_one"), loss_words("cross_entropy"), loss_words("euros")
    ('errors (0/1 loss)', 'Cross-entropy', 'euros')
    """
    if name == "zero_one":
        return "errors (0/1 loss)"
    return _BY_NAME[name].label if name in _BY_NAME else name


def of_users(word: str, function: Callable[..., Any]) -> tuple[str, str, Callable[..., Any]]:
    """Name, label and call of a user's own loss or score: a function of the logits, or else of the probabilities."""

    def call(logits: Array = None, *labels: Array, probs: Array = None, **options: Any) -> Any:
        return function(probs if logits is None else logits, *labels, **options)

    name = getattr(function, "__name__", f"custom {word}")
    return f"custom {word}" if name == "<lambda>" else name, name, call
