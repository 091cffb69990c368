"""Per-sample losses: the cost of following the model on each sample. Lower is better for all of them.

Logits are the first argument, probabilities come as `probs=`; classes lie along the last axis, leading axes
are free. One number per sample (a vector, or a last axis of length 1) is that of class 1 of a binary model: its
log-odds, or its probability. Labels are class indices 0 ... K-1 or one-hot rows. The prediction is the largest
entry, the first of equals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, ArrayLike, Namespace, backend_of, float_dtype, is_concrete
from abstain._check import (
    ClassScores,
    as_real,
    check_choice,
    check_class_scores,
    check_finite,
    check_labels,
    check_positive,
    refuse_other_row_order,
)
from abstain.core import simplex
from abstain.errors import InputError, ShapeError

__all__ = [
    "NAMES",
    "REGRESSION_NAMES",
    "Loss",
    "absolute_error",
    "brier",
    "by_name",
    "cross_entropy",
    "squared_error",
    "top_k",
    "zero_one",
]


def _check_class_scores_and_labels(
    name: str, logits: Array, labels: Array, probs: Array
) -> tuple[ClassScores, Array]:
    """Return the checked class scores and the labels as class indices; `name` is the function in error messages."""
    class_scores = check_class_scores(name, logits, probs, like=labels)
    return class_scores, check_labels(name, class_scores, labels)


@refuse_other_row_order
def zero_one(
    logits: ArrayLike | None = None, labels: ArrayLike | None = None, *, probs: ArrayLike | None = None
) -> Any:
    r"""The 0/1 loss: True for each sample whose prediction is wrong.

    .. math:: 1[\arg\max_k z_k \ne y]

    `abstain.aurc` is fastest with booleans, which count as 0 and 1. Among equal entries the first is the prediction,
    so the answer does not depend on the order of the samples.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    labels : array, shape (...) or one-hot (..., K)
        Class indices 0 ... K-1.
    probs : array, shape (..., K)
        Probabilities instead of logits; each row is divided by its sum.

    Returns
    -------
    array of bool, shape (...)
        True where the prediction is wrong.

    Examples
    --------
    >>> zero_one([[2.0, 1.0], [0.5, 0.5], [0.0, 3.0]], [0, 1, 1]).tolist()
    [False, True, False]
    """
    # the decorator has refused pandas columns whose rows are in different orders
    # checked logits or probabilities, with their array library, and class indices
    class_scores, labels = _check_class_scores_and_labels("zero_one", logits, labels, probs)
    # Rows of probabilities need not be divided by their sums here: the largest entry stays the largest.
    prediction = class_scores.backend.xp.argmax(class_scores.values, axis=-1)
    return class_scores.backend.to_input_library(prediction != labels)


@refuse_other_row_order
def top_k(logits: Array = None, labels: Array = None, *, probs: Array = None, k: int = 5) -> Any:
    """The top-k error: True for each sample whose label is not among the k largest entries.

    Among equal entries, those of smaller class index come first.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    labels : array, shape (...) or one-hot (..., K)
        Class indices 0 ... K-1.
    probs : array, shape (..., K)
        Probabilities instead of logits; each row is divided by its sum.
    k : int
        From 1 to K - 1.

    Returns
    -------
    array of bool, shape (...)
        True where the label is missing.

    Raises
    ------
    InputError
        If k is not a whole number from 1 to K - 1.

    Examples
    --------
    >>> top_k([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], [1, 2], k=2).tolist()
    [False, True]
    """
    # the decorator has refused pandas columns whose rows are in different orders
    # checked logits or probabilities, with their array library, and class indices
    class_scores, labels = _check_class_scores_and_labels("top_k", logits, labels, probs)
    class_count = class_scores.values.shape[-1]
    if not (isinstance(k, (int, np.integer)) and 1 <= k < class_count):
        rule = f"`k` must be a whole number from 1 to {class_count - 1} (one less than the classes)"
        raise InputError(f"top_k: {rule}, got {k!r}.")
    xp = class_scores.backend.xp
    # logits or probabilities, whose order alone counts: rows need no common sum
    entries = class_scores.values
    score_of_label = xp.take_along_axis(entries, labels[..., None], axis=-1)
    class_index = simplex.class_numbers(xp, entries)  # 0 ... K-1 along the last axis
    is_tied_before = (entries == score_of_label) & (class_index < labels[..., None])
    ranks_before_label = (entries > score_of_label) | is_tied_before  # a mask of classes in each row
    # the label is missing if at least k classes come before it
    return class_scores.backend.to_input_library(xp.count_nonzero(ranks_before_label, axis=-1) >= k)


@refuse_other_row_order
def cross_entropy(
    logits: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    probs: ArrayLike | None = None,
    temperature: float = 1.0,
    clip: float | None = None,
) -> Any:
    r"""Negative log-likelihood of the label, in nats.

    .. math:: -\ln p_y = \ln \sum_k e^{z_k} - z_y

    From logits the result is exact, however small or large it is. A label of probability 0 has an infinite loss, which
    makes every mean infinite: that is an error, unless `clip` sets the smallest probability to use.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    labels : array, shape (...) or one-hot (..., K)
        Class indices 0 ... K-1.
    probs : array, shape (..., K)
        Probabilities instead of logits; each row is divided by its sum.
    temperature : float
        Divides the logits (for probabilities: their logarithms).
    clip : float, optional
        Smaller probabilities of the label are raised to this one.

    Returns
    -------
    array of shape (...)
        Nats, at least 0. In numpy the result does not depend on the order of the classes, to the last bit.

    Raises
    ------
    InputError
        If a label has probability 0 and there is no `clip`.

    Examples
    --------
    >>> [f"{v:.4g}" for v in cross_entropy([[0.0, 0.0], [50.0, 0.0]], [0, 0])]  # ln 2 and e^-50
    ['0.6931', '1.929e-22']
    """
    # the decorator has refused pandas columns whose rows are in different orders
    # the checked logits or probabilities, with the library that computes, and class indices
    class_scores, labels = _check_class_scores_and_labels("cross_entropy", logits, labels, probs)
    temperature = check_positive("cross_entropy", "temperature", temperature)
    # one array for each name, here one; the formula is `simplex.cross_entropy`
    (values,) = simplex.numbers_of_rows(class_scores, ["cross_entropy"], temperature, labels=labels)
    if clip is not None:  # a probability of at least `clip` is a loss of at most -ln(clip)
        largest_loss = float(-np.log(check_positive("cross_entropy", "clip", clip)))
        values = class_scores.backend.xp.where(values > largest_loss, largest_loss, values)
    # raises if a loss is infinite, where values can be read (not under jit)
    check_possible(class_scores, values)
    return class_scores.to_input_library(values)


def check_possible(class_scores: ClassScores, cross_entropy: ArrayLike) -> None:
    """Raise InputError if a label has probability 0, so that its cross-entropy is infinite.

    `cross_entropy` holds one loss per sample; values that cannot be read (under jit) are not checked.
    """
    xp = class_scores.backend.xp
    if is_concrete(cross_entropy) and not bool(xp.all(xp.isfinite(cross_entropy))):
        rule = "the label's probability must not be 0, got 0, an infinite loss"
        remedy = "Pass the logits, in which a tiny probability is not yet 0, or state `clip=1e-12`."
        raise InputError(f"cross_entropy: {rule}. {remedy}")


@refuse_other_row_order
def brier(
    logits: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    probs: ArrayLike | None = None,
    temperature: float = 1.0,
) -> Any:
    r"""Brier score, summed over classes: from 0 to 2 (Brier's original form; the usual binary one is half of it).

    .. math:: \sum_k (p_k - 1[k = y])^2

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    labels : array, shape (...) or one-hot (..., K)
        Class indices 0 ... K-1.
    probs : array, shape (..., K)
        Probabilities instead of logits; each row is divided by its sum.
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
    # The decorator has refused pandas columns whose rows are in different orders.
    # `class_scores` are the checked logits or probabilities, with the library that computes
    class_scores, labels = _check_class_scores_and_labels("brier", logits, labels, probs)
    temperature = check_positive("brier", "temperature", temperature)
    # one array for each name, here one; the formula is `simplex.brier`
    (values,) = simplex.numbers_of_rows(class_scores, ["brier"], temperature, labels=labels)
    return class_scores.to_input_library(values)


@refuse_other_row_order
def squared_error(prediction: ArrayLike, target: ArrayLike) -> Any:
    """Squared difference of prediction and target, element by element, for regression.

    Parameters
    ----------
    prediction, target : array
        Finite numbers, of equal shapes.

    Returns
    -------
    array of that shape
        At least 0.

    Examples
    --------
    >>> squared_error([1.0, 2.0], [0.0, 4.0]).tolist()
    [1.0, 4.0]
    """
    # the decorator has refused pandas columns whose rows are in different orders
    return _loss_of_difference(
        "squared_error", prediction, target, lambda xp, difference: difference * difference
    )


@refuse_other_row_order
def absolute_error(prediction: ArrayLike, target: ArrayLike) -> Any:
    """Absolute difference of prediction and target, element by element, for regression.

    Parameters
    ----------
    prediction, target : array
        Finite numbers, of equal shapes.

    Returns
    -------
    array of that shape
        At least 0.

    Examples
    --------
    >>> absolute_error([1.0, 2.0], [0.0, 4.0]).tolist()
    [1.0, 2.0]
    """
    # the decorator has refused pandas columns whose rows are in different orders
    return _loss_of_difference(
        "absolute_error", prediction, target, lambda xp, difference: xp.abs(difference)
    )


def _loss_of_difference(
    name: str, prediction: Array, target: Array, loss: Callable[[Namespace, Array], Array]
) -> Any:
    """Check both arrays and return `loss(array library, prediction - target)`, in the library of the input.

    The difference is taken in the library's widest float. Empty arrays are allowed. `name` is the function in error
    messages. Raises ShapeError unless the shapes are equal, InputError if a value is not finite.
    """
    backend = backend_of(prediction, target)
    xp = backend.xp
    # of the two, one that is an array: the other may be a list, which becomes an array of the same library and device
    like = prediction if hasattr(prediction, "shape") else target
    prediction = as_real(name, "prediction", backend, prediction, like)
    target = as_real(name, "target", backend, target, like)
    if tuple(prediction.shape) != tuple(target.shape):
        raise ShapeError(
            f"{name}: `prediction` and `target` must have one shape, got {tuple(prediction.shape)} and "
            f"{tuple(target.shape)}."
        )
    if 0 not in tuple(prediction.shape):
        check_finite(name, "prediction", backend, prediction, remedy="Drop the sample.")
        check_finite(name, "target", backend, target, remedy="Drop the sample.")
    difference = xp.astype(prediction, float_dtype(xp)) - xp.astype(target, float_dtype(xp))
    return backend.to_input_library(loss(xp, difference))


@dataclass(frozen=True)
class Loss:
    """A loss: call it with logits (or `probs=`) and labels.

    Parameters
    ----------
    name, label : str
        Its name in code and in plots.
    function : callable
        Computes one loss per sample from logits (or `probs=`) and labels.
    upper : float or None
        The largest possible value; None if there is none.

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
        self,
        logits: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        *,
        probs: ArrayLike | None = None,
        **options: Any,
    ) -> Any:
        """Compute one loss for each sample.

        Losses of regression take predictions and targets instead of logits and labels. `options` are those of the
        loss's own function (`temperature` of "brier"), which checks all arguments.
        """
        if probs is None:  # functions for regression have no argument `probs`
            return self.function(logits, labels, **options)
        return self.function(logits, labels, probs=probs, **options)

    def __repr__(self) -> str:
        bound = "no upper bound" if self.upper is None else f"at most {self.upper:g}"
        return f"Loss({self.name!r}, {self.label}, {bound})"


# Names that people use for a loss. They are not accepted; the error message suggests the loss's own name.
_FAMILIAR_NAMES = {
    "0/1": "zero_one",
    "01": "zero_one",
    "error": "zero_one",
    "accuracy": "zero_one",
    "misclassification": "zero_one",
    "top5": "top_k",
    "ce": "cross_entropy",
    "nll": "cross_entropy",
    "log_loss": "cross_entropy",
    "brier_score": "brier",
    "mse": "squared_error",
    "mae": "absolute_error",
}

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
    """Look up a loss by its name, or wrap your own function `f(logits or probs, labels)` as one.

    Parameters
    ----------
    loss : str, Loss or callable
        A name in `NAMES` or `REGRESSION_NAMES`, a function, or a `Loss`, which is returned unchanged.

    Returns
    -------
    Loss
        Call it with logits (or `probs=`) and labels.

    Raises
    ------
    InputError
        If there is no loss of that name. The message suggests a similar one ("error" is called "zero_one").

    Examples
    --------
    >>> by_name("brier")
    Loss('brier', Brier score, at most 2)
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        # with the arguments of a built-in loss, and a name
        wrapped = wrap_user_function("loss", loss)
        # the largest value of a user's own loss is not known
        return Loss(name=wrapped.name, label=wrapped.label, function=wrapped.call, upper=None)
    # `_FAMILIAR_NAMES` maps names used elsewhere, such as "error", to ours; the message suggests those
    check_choice("losses.by_name", "loss", loss, tuple(_BY_NAME), _FAMILIAR_NAMES)
    return _BY_NAME[loss]


def loss_words(name: str) -> str:
    """Return the label of a loss for captions and axes; a user's own loss keeps its name.

    >>> loss_words("zero_one"), loss_words("cross_entropy"), loss_words("euros")
    ('errors (0/1 loss)', 'Cross-entropy', 'euros')
    """
    if name == "zero_one":
        return "errors (0/1 loss)"
    return _BY_NAME[name].label if name in _BY_NAME else name


class UserFunction(NamedTuple):
    """A user's own loss or score: its name in code, its label in plots, and the function in the form of built-in ones.

    `call` takes logits, or `probs=` instead, and hands whichever it gets to the user's function as first argument.
    """

    name: str
    label: str
    call: Callable[..., Any]


def wrap_user_function(kind: str, function: Callable[..., Any]) -> UserFunction:
    """Give a user's own function the arguments of a built-in one, and a name; `kind` is "loss" or "score".

    Name and label are the function's `__name__`, or "custom loss" (or score) if it has none. A lambda, whose `__name__`
    is "<lambda>", keeps that as its label and is named "custom loss" (or score).
    """

    def call_with_either(logits: Array = None, *labels: Array, probs: Array = None, **options: Any) -> Any:
        """Call the function with logits or probabilities, whichever are passed; a score gets no labels.

        `labels` is one array for a loss and nothing for a score.
        """
        return function(probs if logits is None else logits, *labels, **options)

    label = getattr(function, "__name__", f"custom {kind}")
    name = f"custom {kind}" if label == "<lambda>" else label
    return UserFunction(name=name, label=label, call=call_with_either)
