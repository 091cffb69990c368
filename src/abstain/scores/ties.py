"""How many samples a confidence can no longer tell apart at its top."""

from __future__ import annotations

from dataclasses import dataclass

from abstain._arrays import Array, backend_of, is_concrete
from abstain._check import as_real, check_classes, check_finite
from abstain.errors import InputError, ShapeError
from abstain.scores.softmax import max_softmax


@dataclass(frozen=True)
class Saturation:
    """Samples that share the largest confidence; made by `saturation`.

    Attributes
    ----------
    n, tied : int
        Samples, and how many of them share the largest confidence.
    top : float
        That confidence.
    repaired : int or None
        How many still tie by the key from all probabilities.

    Examples
    --------
    >>> saturation([0.2, 1.0, 1.0, 1.0]).share
    0.75
    """

    n: int
    tied: int
    top: float
    repaired: int | None = None

    @property
    def share(self) -> float:
        """Share of all samples at the top."""
        return self.tied / self.n

    @property
    def sentence(self) -> str:
        """What to tell a reader."""
        if self.tied <= 1:
            return f"No tie at the top: one of {self.n:,} samples has the largest confidence, {self.top:.6g}."
        text = f"{self.tied:,} of {self.n:,} samples ({self.share:.1%}) tie at the top, {self.top:.6g}."
        if self.repaired is None:
            return f"{text} If it is a rounded probability, rank by the logits: `abstain.scores.max_softmax(logits)`."
        left = f"{self.repaired:,} still tie" if self.repaired > 1 else "no two tie"
        remedy = "`abstain.scores.max_softmax(probs=probs)`"
        return f"{text} Ranked by the sum of the other probabilities, {remedy}, {left} at the top."

    def __repr__(self) -> str:
        return f"Saturation({self.sentence})"


def saturation(confidence: Array = None, /, *, probs: Array = None) -> Saturation:
    """How many samples tie at the largest confidence: a vector of confidences, or class probabilities by keyword.

    From probabilities both are counted: ties of the plain maximum, as it would be ranked in the input's own
    dtype, and ties that remain when the other entries decide.

    Parameters
    ----------
    confidence : array
        Confidences of at least one sample, finite.
    probs : array, shape (..., K)
        Class probabilities instead.

    Returns
    -------
    Saturation
        The count, its share of all samples, and a sentence for a reader.

    Examples
    --------
    >>> saturation([0.2, 1.0, 1.0, 1.0])
    Saturation(3 of 4 samples (75.0%) tie at the top, 1. If it is a rounded probability, rank by the
    logits: `abstain.scores.max_softmax(logits)`.)
    """
    if (confidence is None) == (probs is None):
        raise InputError("saturation: takes a vector of confidences or `probs=`, one of them.")
    if probs is not None:
        classes = check_classes("saturation", None, probs)
        plain = classes.backend.xp.max(classes.values, axis=-1)
        n, tied, top = at_top(plain)
        return Saturation(n, tied, top, at_top(max_softmax(probs=classes.values))[1])
    backend = backend_of(confidence)
    values = as_real("saturation", "confidence", backend, confidence)
    if values.ndim == 0 or 0 in tuple(values.shape) or not is_concrete(values):
        raise ShapeError(
            f"saturation: `confidence` must hold at least one sample, got shape {tuple(values.shape)}."
        )
    check_finite("saturation", "confidence", backend, values, "")
    return Saturation(*at_top(values))


def at_top(values: Array) -> tuple[int, int, float]:
    """Samples, how many of them share the largest value, and that value."""
    xp = backend_of(values).xp
    values = xp.reshape(xp.asarray(values), (-1,))
    top = xp.max(values)
    return int(values.shape[0]), int(xp.sum(xp.astype(values == top, xp.int32))), float(top)
