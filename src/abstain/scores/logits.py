"""Scores that read the logits themselves. All but `logit_margin` refuse probabilities."""

from __future__ import annotations

from typing import Any

from abstain._arrays import Array, Namespace
from abstain._check import check_classes, check_positive
from abstain.core import simplex
from abstain.scores.softmax import score_by_odds

_LOGITS = ("logits",)


def max_logit(logits: Array = None, /, *, probs: Array = None) -> Any:
    r"""Largest logit; higher is surer.

    .. math:: \max_k z_k

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : None
        Refused: the softmax has removed what this score reads.

    Returns
    -------
    array of shape (...)
        Float64 where the library has it. Equal values tie.

    Examples
    --------
    >>> max_logit([[1.0, 3.0], [0.0, -1.0]]).tolist()
    [3.0, 0.0]
    """
    classes = check_classes("max_logit", logits, probs, takes=_LOGITS)
    return classes.deliver(classes.map_rows(lambda xp, rows: xp.max(rows, axis=-1)))


def logit_margin(logits: Array = None, /, *, probs: Array = None, temperature: float = 1.0) -> Any:
    r"""Gap between the two largest logits, which is also :math:`\ln(p_{(1)}/p_{(2)})`; higher is surer.

    .. math:: (z_{(1)} - z_{(2)}) / T

    A row in which no other class can occur gets the largest finite number.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : array, shape (..., K)
        Probabilities instead of logits; rows count relative to their own sum.
    temperature : float
        Divides the logits (for probabilities: their logarithms).

    Returns
    -------
    array of shape (...)
        Float64 where the library has it. Equal values tie.

    Examples
    --------
    >>> logit_margin([[1.0, 3.0, 0.5]]).tolist()
    [2.0]
    """
    return score_by_odds("logit_margin", logits, probs, temperature)


def energy(logits: Array = None, /, *, probs: Array = None, temperature: float = 1.0) -> Any:
    r"""Negative free energy (Liu et al. 2020); higher is surer.

    .. math:: T \ln \sum_k e^{z_k / T}

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : None
        Refused: the softmax has removed what this score reads.
    temperature : float
        T above, larger than 0.

    Returns
    -------
    array of shape (...)
        Float64 where the library has it. Equal values tie.

    Examples
    --------
    >>> float(energy([[0.0, 0.0]])[0].round(4))  # ln 2
    0.6931
    """
    return score_by_odds("energy", logits, probs, temperature, takes=_LOGITS)


def logit_norm(logits: Array = None, /, *, probs: Array = None, p: float = 2.0) -> Any:
    r"""The p-norm of the logits, as the population-AURC paper's table writes it; higher is surer.

    .. math:: \lVert z \rVert_p

    `probability_norm` is the reading of its published code, `normalised_max_logit` the score of the work it
    cites. Logits are taken as they are: adding a constant to a row changes this score though it changes no
    probability.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis, finite; NaN is an error.
    probs : None
        Refused: the softmax has removed what this score reads.
    p : float
        Order of the norm, above 0; infinity gives the largest absolute logit.

    Returns
    -------
    array of shape (...)
        Float64 where the library has it. Equal values tie.

    Examples
    --------
    >>> logit_norm([[3.0, 4.0]]).tolist()
    [5.0]
    """
    classes = check_classes("logit_norm", logits, probs, takes=_LOGITS, masked=False)
    order = check_positive("logit_norm", "p", p, infinite=True)
    return classes.deliver(classes.map_rows(lambda xp, rows: _norm(xp, rows, order)))


def normalised_max_logit(logits: Array = None, /, *, probs: Array = None, p: float = 2.0) -> Any:
    r"""Largest logit over the p-norm, both after centring (Cattelan & Silva 2024); higher is surer.

    .. math:: \frac{\max_k \tilde z_k}{\lVert \tilde z \rVert_p}, \qquad \tilde z = z - \frac1K \sum_k z_k

    A row of equal logits, where this is 0/0, gets 0, the least value any row can have.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis, finite; NaN is an error.
    probs : None
        Refused: the softmax has removed what this score reads.
    p : float
        Order of the norm, above 0; infinity gives the largest absolute logit.

    Returns
    -------
    array of shape (...)
        Float64 where the library has it. Equal values tie.

    Examples
    --------
    >>> normalised_max_logit([[1.0, -1.0], [5.0, 5.0]]).round(4).tolist()
    [0.7071, 0.0]
    """
    classes = check_classes("normalised_max_logit", logits, probs, takes=_LOGITS, masked=False)
    order = check_positive("normalised_max_logit", "p", p, infinite=True)

    def value(xp: Namespace, rows: Array) -> Array:
        below = xp.max(rows, axis=-1)[..., None] - rows  # the offset drops out before anything is rounded
        most = xp.max(below, axis=-1)
        scale = xp.where(most > 0, most, xp.ones_like(most))
        top = simplex.total(xp, below / scale[..., None]) * (scale / rows.shape[-1])
        norm = _norm(xp, top[..., None] - below, order)
        some = norm > 0
        return xp.where(some, top / xp.where(some, norm, xp.ones_like(norm)), xp.zeros_like(norm))

    return classes.deliver(classes.map_rows(value))


def _norm(xp: Namespace, rows: Array, p: float) -> Array:
    """p-norm along the last axis, scaled by the largest entry so that no power overflows."""
    size = xp.abs(rows)
    most = xp.max(size, axis=-1)
    if p == float("inf"):
        return most
    scale = xp.where(most > 0, most, xp.ones_like(most))
    total = simplex.total(xp, (size / scale[..., None]) ** p)
    total = xp.where(most > 0, total, xp.ones_like(total))  # keeps the gradient of a zero row finite
    return most * (xp.sqrt(total) if p == 2 else total ** (1 / p))


def clamped_logit_entropy(logits: Array = None, /, *, probs: Array = None, floor: float = 1e-12) -> Any:
    r"""Negative "entropy" of the logits themselves, raised to a small positive floor; higher is surer.

    .. math:: \sum_k \max(z_k, \varepsilon) \ln \max(z_k, \varepsilon)

    The second reading of "negative entropy": the population-AURC paper's table writes it on logits, and
    published code computes it on clamped ones. It is no entropy; `negative_entropy` is meant. Kept to repeat
    their numbers.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : None
        Refused: the softmax has removed what this score reads.
    floor : float
        The least value a logit is taken to have, larger than 0.

    Returns
    -------
    array of shape (...)
        Float64 where the library has it. Equal values tie.

    Examples
    --------
    >>> float(clamped_logit_entropy([[2.0, -1.0]])[0].round(4))  # 2 ln 2
    1.3863
    """
    classes = check_classes("clamped_logit_entropy", logits, probs, takes=_LOGITS)
    least = check_positive("clamped_logit_entropy", "floor", floor)

    def value(xp: Namespace, rows: Array) -> Array:
        raised = xp.where(rows > least, rows, xp.full_like(rows, least))
        return xp.sum(raised * xp.log(raised), axis=-1)

    return classes.deliver(classes.map_rows(value))
