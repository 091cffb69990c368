"""Scores computed from the logits. All but `logit_margin` refuse probabilities."""

from __future__ import annotations

from typing import Any

from abstain._arrays import Array, ArrayLike, Namespace
from abstain._check import check_class_scores, check_positive
from abstain.core import simplex
from abstain.scores.softmax import compute_score

_LOGITS = ("logits",)


def max_logit(logits: ArrayLike | None = None, *, probs: ArrayLike | None = None) -> Any:
    r"""Largest logit; higher is surer.

    .. math:: \max_k z_k

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : None
        Refused: the softmax has removed the scale that this score measures.

    Returns
    -------
    array of shape (...)
        Float64 where the library has it. Equal values tie.

    Examples
    --------
    >>> max_logit([[1.0, 3.0], [0.0, -1.0]]).tolist()
    [3.0, 0.0]
    """
    # the checked logits; probabilities are refused. `map_rows` applies a function to rows of shape (samples, classes),
    # which returns one number per sample
    class_scores = check_class_scores("max_logit", logits, probs, takes=_LOGITS)
    return class_scores.to_input_library(class_scores.map_rows(lambda xp, rows: xp.max(rows, axis=-1)))


def logit_margin(
    logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, temperature: float = 1.0
) -> Any:
    r"""Gap between the two largest logits, which is also :math:`\ln(p_{(1)}/p_{(2)})`; higher is surer.

    .. math:: (z_{(1)} - z_{(2)}) / T

    A row in which only one class can occur gets the largest finite number.

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
        Float64 where the library has it. Equal values tie.

    Examples
    --------
    >>> logit_margin([[1.0, 3.0, 0.5]]).tolist()
    [2.0]
    """
    # checks the input; the formula has this name in `simplex.NUMBERS`
    return compute_score("logit_margin", logits, probs, temperature)


def energy(
    logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, temperature: float = 1.0
) -> Any:
    r"""Negative free energy (Liu et al. 2020); higher is surer.

    .. math:: T \ln \sum_k e^{z_k / T}

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : None
        Refused: the softmax has removed the scale that this score measures.
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
    # checks the input and refuses probabilities; the formula has this name in `simplex.NUMBERS`
    return compute_score("energy", logits, probs, temperature, takes=_LOGITS)


def logit_norm(logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, p: float = 2.0) -> Any:
    r"""The p-norm of the logits, as the population-AURC paper's table writes it; higher is surer.

    .. math:: \lVert z \rVert_p

    Three scores are called a norm in this connection. This one takes the formula of that table as it is printed.
    `probability_norm` takes the norm of the softmax, as the code published with that paper does.
    `normalised_max_logit` is the score of Cattelan and Silva, the work that the paper cites for it. Logits are not
    centred here: adding a constant to a row changes this score, though it changes no probability. -inf, which marks an
    impossible class elsewhere, is refused: it would make the norm infinite.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis, finite; NaN is an error.
    probs : None
        Refused: the softmax has removed the scale that this score measures.
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
    # the checked logits; probabilities are refused
    class_scores = check_class_scores("logit_norm", logits, probs, takes=_LOGITS, allows_minus_infinity=False)
    order = check_positive("logit_norm", "p", p, infinite=True)
    return class_scores.to_input_library(class_scores.map_rows(lambda xp, rows: _norm(xp, rows, order)))


def normalised_max_logit(
    logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, p: float = 2.0
) -> Any:
    r"""Largest logit over the p-norm, both after centring (Cattelan & Silva 2024); higher is surer.

    .. math:: \frac{\max_k \tilde z_k}{\lVert \tilde z \rVert_p}, \qquad \tilde z = z - \frac1K \sum_k z_k

    A row of equal logits, where this is 0/0, gets 0, the smallest value any row can have. With two classes every other
    row has the same value, :math:`2^{-1/p}`: the score then ranks nothing, and exactly that number is returned, so that
    rounding is not ranked either.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis, finite; NaN is an error.
    probs : None
        Refused: the softmax has removed the scale that this score measures.
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
    # the checked logits; probabilities are refused. `map_rows` applies a function to rows of shape (samples, classes)
    class_scores = check_class_scores(
        "normalised_max_logit", logits, probs, takes=_LOGITS, allows_minus_infinity=False
    )
    order = check_positive("normalised_max_logit", "p", p, infinite=True)

    def compute_ratio(xp: Namespace, rows: Array) -> Array:
        """Divide the largest centred logit of each row by the p-norm of its centred logits, p being `order`.

        Rows are finite, of shape (samples, classes); the result has one ratio per sample, 0 for a row of equal logits.
        The centred maximum is the mean distance of the logits from the largest one, and a centred logit is the centred
        maximum less its own distance. Distances come first, so that an offset common to a row cancels before anything
        is rounded.
        """
        distance_below_max = xp.max(rows, axis=-1)[..., None] - rows
        largest_distance = xp.max(distance_below_max, axis=-1)
        if rows.shape[-1] == 2:  # all rows have one value, but for rows of equal logits
            constant = xp.full_like(largest_distance, 2.0 ** (-1 / order))
            return xp.where(largest_distance > 0, constant, xp.zeros_like(constant))
        # 1 for a row of equal logits, whose norm is 0
        scale = xp.where(largest_distance > 0, largest_distance, xp.ones_like(largest_distance))
        scaled_distances = distance_below_max / scale[..., None]  # within [0, 1]: their sum does not overflow
        # `sum_in_any_order` adds up terms in [0, 1]; in numpy the order of the classes does not change a bit of the sum
        centred_max = simplex.sum_in_any_order(xp, scaled_distances) * (scale / rows.shape[-1])
        centred_logits = centred_max[..., None] - distance_below_max
        norm = _norm(xp, centred_logits, order)
        is_positive = norm > 0
        divisor = xp.where(is_positive, norm, xp.ones_like(norm))
        return xp.where(is_positive, centred_max / divisor, xp.zeros_like(norm))

    return class_scores.to_input_library(class_scores.map_rows(compute_ratio))


def _norm(xp: Namespace, rows: Array, p: float) -> Array:
    """Compute the p-norm of finite rows along the last axis; p is positive and may be infinite.

    Entries are divided by the largest one first, so that no power overflows. A row of zeros has the norm 0.
    """
    magnitude = xp.abs(rows)
    largest = xp.max(magnitude, axis=-1)
    if p == float("inf"):
        return largest
    scale = xp.where(largest > 0, largest, xp.ones_like(largest))  # 1 for a row of zeros
    # of terms in [0, 1]; in numpy the order of the classes does not change a bit of the sum
    power_sum = simplex.sum_in_any_order(xp, (magnitude / scale[..., None]) ** p)
    power_sum = xp.where(largest > 0, power_sum, xp.ones_like(power_sum))  # a zero row has a finite gradient
    return largest * (xp.sqrt(power_sum) if p == 2 else power_sum ** (1 / p))


def clamped_logit_entropy(
    logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, floor: float = 1e-12
) -> Any:
    r"""Negative "entropy" of the logits themselves, raised to a small positive floor; higher is surer.

    .. math:: \sum_k \max(z_k, \varepsilon) \ln \max(z_k, \varepsilon)

    A second reading of "negative entropy": the population-AURC paper's table writes it on logits, and published code
    computes it on clamped ones. It is not an entropy; use `negative_entropy` instead. It is here to reproduce their
    numbers.

    Parameters
    ----------
    logits : array, shape (..., K)
        Classes along the last axis; -inf marks a class that cannot occur, NaN is an error.
    probs : None
        Refused: the softmax has removed the scale that this score measures.
    floor : float
        Smaller logits are raised to this value, which must be larger than 0.

    Returns
    -------
    array of shape (...)
        Float64 where the library has it. Equal values tie.

    Examples
    --------
    >>> float(clamped_logit_entropy([[2.0, -1.0]])[0].round(4))  # 2 ln 2
    1.3863
    """
    # the checked logits; probabilities are refused. `map_rows` applies a function to rows of shape (samples, classes)
    class_scores = check_class_scores("clamped_logit_entropy", logits, probs, takes=_LOGITS)
    floor = check_positive("clamped_logit_entropy", "floor", floor)

    def sum_clamped(xp: Namespace, rows: Array) -> Array:
        """One sum per row of logits (samples, K)."""
        clamped = xp.where(rows > floor, rows, xp.full_like(rows, floor))
        return xp.sum(clamped * xp.log(clamped), axis=-1)

    return class_scores.to_input_library(class_scores.map_rows(sum_clamped))
