"""A note where a model is right no more often than guessing: most often labels and class scores are out of step."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from abstain._arrays import Array, ArrayLike, Backend, backend_of, to_host

_MOST_STANDARD_ERRORS = 3  # above the accuracy of guessing: a model that is better than that knows something
# Few samples cannot tell a poor model from guessing. So the note also asks that this many standard errors above the
# accuracy are still near guessing: less than this share of the way to all right.
_NEAR_GUESSING = 0.1


def note_on_guessing(
    name: str, outputs: ArrayLike, labels: ArrayLike, kind: Literal["logits", "probs"]
) -> str | None:
    """A sentence if the likeliest class is the label no more often than by chance, otherwise None.

    Chance is a random order of the labels: it keeps how often each class is a label and how often it is predicted.
    None also if only one class is predicted or is a label (every order of the labels is the same then), and if there
    are too few samples to tell.

    Parameters
    ----------
    name : str
        The model, for the sentence; "" for one without a name.
    outputs : array, shape (..., K), or (...) of a binary model
        Logits or probabilities that were checked.
    labels : array, shape (...), or one-hot (..., K)
        Class indices.
    kind : "logits" or "probs"
        What the outputs are.

    Examples
    --------
    >>> labels = np.arange(2000) % 4
    >>> note_on_guessing("", np.eye(4)[labels], labels, "probs") is None
    True
    >>> print(note_on_guessing("mine", np.eye(4)[np.arange(2000) // 4 % 4], labels, "probs"))
    mine: accuracy is that of guessing (25.0% right, 25.0% by chance): are labels and class scores in the same order?
    """
    backend = backend_of(outputs)
    values = backend.asarray(outputs)
    true_classes = np.asarray(to_host(labels))
    is_binary = values.ndim == 1 or values.shape[-1] == 1
    sample_axes = values.ndim - 1 if values.ndim > 1 else 1
    if true_classes.ndim > sample_axes and true_classes.shape[-1] > 1:
        true_classes = true_classes.argmax(axis=-1)  # one-hot rows
    true_classes = true_classes.reshape(-1).astype(np.int64)
    sample_count = len(true_classes)
    if sample_count < 2:
        return None
    if sample_axes == 1:  # the first rows of a good model are enough, whatever the others are
        most_by_guessing = _most_right_by_guessing(true_classes)
        predicted_first = _likeliest_classes(values[: 2 * most_by_guessing], backend, kind, is_binary)
        if np.count_nonzero(predicted_first == true_classes[: len(predicted_first)]) > most_by_guessing:
            return None
    predicted = _likeliest_classes(values, backend, kind, is_binary).astype(np.int64)
    class_count = 1 + int(max(true_classes.max(), predicted.max()))
    # float64, whose products do not overflow
    label_counts = np.bincount(true_classes, minlength=class_count).astype(np.float64)
    predicted_counts = np.bincount(predicted, minlength=class_count).astype(np.float64)
    # number of right samples over all orders of the labels: its mean, and its variance from the number of pairs of
    # samples that are both right
    right_by_chance = float(label_counts @ predicted_counts) / sample_count
    right_pairs = sample_count * right_by_chance * sample_count * right_by_chance + float(
        (label_counts * predicted_counts) @ (1 - label_counts - predicted_counts)
    )
    right_pairs_by_chance = right_pairs / (sample_count * (sample_count - 1))
    variance = right_pairs_by_chance + right_by_chance - right_by_chance**2
    if variance <= 0 or max(label_counts.max(), predicted_counts.max()) == sample_count:
        return None
    margin = _MOST_STANDARD_ERRORS * math.sqrt(variance)
    right_count = int(np.count_nonzero(predicted == true_classes))
    near_guessing = right_by_chance + _NEAR_GUESSING * (sample_count - right_by_chance)
    if right_count > right_by_chance + margin or right_count + margin > near_guessing:
        return None
    prefix = f"{name}: " if name else ""
    comparison = "that of guessing" if right_count >= right_by_chance - margin else "below that of guessing"
    return (
        f"{prefix}accuracy is {comparison} ({right_count / sample_count:.1%} right, "
        f"{right_by_chance / sample_count:.1%} by chance): are labels and class scores in the same order?"
    )


def _most_right_by_guessing(true_classes: np.ndarray) -> int:
    """A number of right samples that no guessing exceeds: the mean over random orders and the margin are below it.

    With the share s of the most frequent label, at most n s samples are right in the mean, and the variance is at most
    twice the mean: the expected number of ordered pairs of right samples is at most mean^2 n / (n - 1).
    """
    largest_mean = float(np.bincount(true_classes).max())
    return math.ceil(largest_mean + _MOST_STANDARD_ERRORS * math.sqrt(2 * largest_mean))


def _likeliest_classes(
    values: Array, backend: Backend, kind: Literal["logits", "probs"], is_binary: bool
) -> np.ndarray:
    """The class of the largest logit or probability of each sample, as one vector.

    Of a binary model, which gives one number per sample, class 1 where it is likelier than class 0.
    """
    if is_binary:
        border = 0.0 if kind == "logits" else 0.5
        return np.asarray(to_host(values)).reshape(-1) > border
    return np.asarray(to_host(backend.xp.argmax(values, axis=-1))).reshape(-1)
