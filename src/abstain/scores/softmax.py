"""Scores computed from the softmax, as rank keys that never saturate.

The familiar number (a probability, a margin, an entropy) rounds to the end of its scale for a confident
row: in float32 a third of a good network's samples get 1.0 and tie. The functions here return minus the
logarithm of the distance to that end, computed in the log domain in float64. It orders samples exactly as
the number itself would with unlimited digits. `display` converts a key to that number, and `saturation` counts
the samples that tie at the largest confidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from abstain._arrays import Array, ArrayLike, backend_of, is_concrete
from abstain._check import as_real, check_class_scores, check_finite, check_positive
from abstain.core import simplex
from abstain.errors import InputError, ShapeError


def compute_score(
    name: str, logits: Array, probs: Array, temperature: float, order: float = 2.0, **checks: Any
) -> Any:
    """Check the input and compute a score whose formula is in `simplex.NUMBERS`, under the same `name`.

    Exactly one of `logits` and `probs` must not be None, of shape (..., K). `name` is also the function in error
    messages. `order` is the p of "probability_norm" and not read by other scores. `checks` are options of
    `check_class_scores`, such as takes=("logits",) to refuse probabilities. Returns one value per row, in the library
    and on the device of the input. Raises InputError for class scores or a temperature that are not valid.
    """
    class_scores = check_class_scores(name, logits, probs, **checks)
    temperature = check_positive(name, "temperature", temperature)
    (values,) = simplex.numbers_of_rows(class_scores, [name], temperature, order=order)
    return class_scores.to_input_library(values)


def max_softmax(
    logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, temperature: float = 1.0
) -> Any:
    r"""Rank key of the maximum softmax probability (MSP); higher is surer.

    .. math:: -\ln(1 - \max_k p_k), \qquad p = \mathrm{softmax}(z / T)

    The key orders samples as the probability does, but does not round to one value for confident samples.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : array, shape (..., K)
        Probabilities instead of logits. `1 - p_max` is the sum of the *other* entries, which keep their digits
        where the largest has rounded to 1; each row is divided by its sum.
    temperature : float
        Divides the logits (for probabilities: their logarithms).

    Returns
    -------
    array of shape (...)
        Rank keys, float64 where the library has it, always finite: one-hot rows get the largest finite number and
        tie at the top. `display("max_softmax", key)` is the probability.

    Examples
    --------
    >>> import numpy as np
    >>> key = max_softmax(np.array([[0.0, 0.0], [40.0, 0.0], [41.0, 0.0]]))
    >>> key.round(3).tolist()  # 1 - p is 1/2, e^-40, e^-41: float64 probabilities would tie at 1.0
    [0.693, 40.0, 41.0]
    """
    # checks the input; the formula has this name in `simplex.NUMBERS`
    return compute_score("max_softmax", logits, probs, temperature)


def softmax_margin(
    logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, temperature: float = 1.0
) -> Any:
    r"""Rank key of the margin between the two largest probabilities; higher is surer.

    .. math:: -\ln\bigl(1 - (p_{(1)} - p_{(2)})\bigr)

    The key orders samples as the margin does, but does not round to one value for confident samples. Two equal winners
    give 0.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : array, shape (..., K)
        Probabilities instead of logits; each row is divided by its sum.
    temperature : float
        Divides the logits (for probabilities: their logarithms).

    Returns
    -------
    array of shape (...)
        Rank keys, float64 where the library has it, always finite: one-hot rows get the largest finite number and
        tie at the top. `display` converts a key to the number itself.

    Examples
    --------
    >>> softmax_margin(probs=[[0.5, 0.5, 0.0]]).tolist()
    [0.0]
    """
    # checks the input; the formula has this name in `simplex.NUMBERS`
    return compute_score("softmax_margin", logits, probs, temperature)


def negative_entropy(
    logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, temperature: float = 1.0
) -> Any:
    r"""Rank key of the negative entropy :math:`\sum_k p_k \ln p_k`; higher is surer.

    .. math:: -\ln\Bigl(-\sum_k p_k \ln p_k\Bigr)

    The key orders samples as that number does, but does not round to one value for confident samples.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : array, shape (..., K)
        Probabilities instead of logits; each row is divided by its sum.
    temperature : float
        Divides the logits (for probabilities: their logarithms).

    Returns
    -------
    array of shape (...)
        Rank keys, float64 where the library has it, always finite: one-hot rows get the largest finite number and
        tie at the top. `display` converts a key to the number itself.

    Examples
    --------
    >>> float(negative_entropy(probs=[[0.5, 0.5]])[0].round(4))  # entropy ln 2 = 0.6931
    0.3665
    """
    # checks the input; the formula has this name in `simplex.NUMBERS`
    return compute_score("negative_entropy", logits, probs, temperature)


def negative_gini(
    logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, temperature: float = 1.0
) -> Any:
    r"""Rank key of the negative Gini impurity :math:`-1 + \sum_k p_k^2`; higher is surer.

    .. math:: -\ln\Bigl(1 - \sum_k p_k^2\Bigr)

    The key orders samples as that number does, but does not round to one value for confident samples.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : array, shape (..., K)
        Probabilities instead of logits; each row is divided by its sum.
    temperature : float
        Divides the logits (for probabilities: their logarithms).

    Returns
    -------
    array of shape (...)
        Rank keys, float64 where the library has it, always finite: one-hot rows get the largest finite number and
        tie at the top. `display` converts a key to the number itself.

    Examples
    --------
    >>> float(negative_gini(probs=[[0.5, 0.5]])[0].round(4))  # impurity 1/2
    0.6931
    """
    # checks the input; the formula has this name in `simplex.NUMBERS`
    return compute_score("negative_gini", logits, probs, temperature)


def probability_norm(
    logits: ArrayLike | None = None,
    *,
    probs: ArrayLike | None = None,
    p: float = 2.0,
    temperature: float = 1.0,
) -> Any:
    r"""Rank key of the p-norm of the softmax *probabilities*; higher is surer.

    .. math:: -\ln\bigl(1 - \lVert \mathrm{softmax}(z) \rVert_p\bigr), \qquad p > 1

    The key orders samples as the norm does, but does not round to one value for confident samples.

    A second reading of the "logit norm" score: the published code of the population-AURC paper takes the
    norm after the softmax, its table before (`logit_norm`). For p = 2 the ranking is that of `negative_gini`.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : array, shape (..., K)
        Probabilities instead of logits; each row is divided by its sum.
    p : float
        Order of the norm, above 1; infinity gives the largest probability.
    temperature : float
        Divides the logits (for probabilities: their logarithms).

    Returns
    -------
    array of shape (...)
        Rank keys, float64 where the library has it, always finite: one-hot rows get the largest finite number and
        tie at the top. `display` converts a key to the number itself.

    Examples
    --------
    >>> float(probability_norm(probs=[[0.6, 0.4]], p=2)[0].round(4))  # -ln(1 - sqrt(0.52))
    1.2769
    """
    order = check_positive("probability_norm", "p", p, above=1.0, infinite=True)
    # checks the input; the formula has this name in `simplex.NUMBERS`
    return compute_score("probability_norm", logits, probs, temperature, order=order)


@dataclass(frozen=True)
class Saturation:
    """How many samples share the largest confidence; returned by `saturation`.

    Attributes
    ----------
    n, tied : int
        The number of samples, and how many of them share the largest confidence.
    top : float
        The largest confidence.
    repaired : int or None
        How many still tie when ranked by the key of `max_softmax`; None if only confidences were passed.

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
        """Summarise the ties, and the remedy, in one or two sentences.

        `tied` of the `n` samples, a `share` of them, have the largest confidence `top`. `repaired` is how many still
        tie when they are ranked by the key of `max_softmax`; it is None if only confidences were passed, which cannot
        be ranked so.
        """
        # rounded probabilities of a row may sum to a little more than 1
        top = f"{self.top if self.repaired is None else min(self.top, 1.0):.6g}"
        if self.tied <= 1:
            return f"No tie at the top: one of {self.n:,} samples has the largest confidence, {top}."
        ties = f"{self.tied:,} of {self.n:,} samples ({self.share:.1%}) tie at the top"
        if self.repaired is None:
            remedy = (
                "If it is a rounded probability, rank by the logits: `abstain.scores.max_softmax(logits)`."
            )
            return f"{ties}, {top}. {remedy}"
        remaining_ties = f"{self.repaired:,} still tie" if self.repaired > 1 else "no two tie"
        remedy = "`abstain.scores.max_softmax(probs=probs)`"
        return (
            f"{ties} by their largest probability, {top}. Ranked by the sum of the other probabilities, {remedy}, "
            f"{remaining_ties} at the top."
        )

    def __repr__(self) -> str:
        return f"Saturation({self.sentence})"


def saturation(confidence: ArrayLike | None = None, /, *, probs: ArrayLike | None = None) -> Saturation:
    """Count the samples that tie at the largest confidence, from confidences or from class probabilities.

    From probabilities, two counts are made: ties of the largest probability in the input's own dtype, and ties that
    remain when samples are ranked by the sum of the other probabilities (`max_softmax`).

    Parameters
    ----------
    confidence : array
        Finite confidences of at least one sample.
    probs : array, shape (..., K)
        Class probabilities instead.

    Returns
    -------
    Saturation
        The count, its share of all samples, and a sentence that says so.

    Raises
    ------
    InputError, ShapeError
        Unless exactly one of the two is passed; if there is no sample, if a confidence is not finite, and under
        `jax.jit`, where there are no values to count.

    Examples
    --------
    >>> saturation([0.2, 1.0, 1.0, 1.0])
    Saturation(3 of 4 samples (75.0%) tie at the top, 1. If it is a rounded probability, rank by the
    logits: `abstain.scores.max_softmax(logits)`.)
    """
    if (confidence is None) == (probs is None):  # both or neither
        raise InputError("saturation: takes either a vector of confidences or `probs=`.")
    if probs is not None:
        class_scores = check_class_scores("saturation", logits=None, probs=probs)
        # both are a `Saturation` of the samples, whose `tied` counts those at the largest value
        by_probability = count_ties_at_top(class_scores.backend.xp.max(class_scores.values, axis=-1))
        by_key = count_ties_at_top(max_softmax(probs=class_scores.values))
        return replace(by_probability, repaired=by_key.tied)
    backend = backend_of(confidence)
    values = as_real("saturation", "confidence", backend, confidence)
    if values.ndim == 0 or 0 in tuple(values.shape):
        raise ShapeError(
            f"saturation: `confidence` must hold at least one sample, got shape {tuple(values.shape)}."
        )
    if not is_concrete(values):
        raise InputError(
            "saturation: `confidence` must hold values, got a tracer of jax. Call it outside of jit."
        )
    check_finite("saturation", "confidence", backend, values, remedy="")
    return count_ties_at_top(values)


def count_ties_at_top(values: ArrayLike) -> Saturation:
    """Count the values (at least one), and those that equal the largest one; `repaired` is left open."""
    xp = backend_of(values).xp
    flat_values = xp.reshape(xp.asarray(values), (-1,))
    largest = xp.max(flat_values)
    count_of_largest = int(xp.sum(xp.astype(flat_values == largest, xp.int32)))
    return Saturation(n=int(flat_values.shape[0]), tied=count_of_largest, top=float(largest))
