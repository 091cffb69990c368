"""Scores of an ensemble or of Monte-Carlo dropout: members along the first axis, classes along the last.

Each is a confidence (higher = surer). All but `vote_share` return a rank key that never saturates, as the scores of
one model do. `pooled_log_probs` returns the averaged prediction, which every other score and loss takes as logits.
"""

from __future__ import annotations

from typing import Any

from abstain._arrays import Array, ArrayLike, Namespace
from abstain._check import ClassScores, check_class_scores
from abstain.core import simplex


def pooled_log_probs(logits: ArrayLike | None = None, *, probs: ArrayLike | None = None) -> Any:
    r"""Log-probabilities of the averaged prediction; pass them to any score or loss as logits.

    .. math:: \ln \bar p_k, \qquad \bar p = \frac1M \sum_m p_m

    A class to which every member gives probability 0 gets -inf.

    Parameters
    ----------
    logits, probs : array, shape (M, ..., K)
        Members first, classes last; exactly one of the two.

    Returns
    -------
    array of shape (..., K)
        Log-probabilities, float64 where the library has it.

    Examples
    --------
    >>> pooled_log_probs(probs=[[[1.0, 0.0]], [[0.0, 1.0]]]).round(4).tolist()
    [[-0.6931, -0.6931]]
    """
    class_scores = check_class_scores("pooled_log_probs", logits, probs, is_ensemble=True)
    # `map_rows` applies a function to rows (M, samples, K); `_pool` averages the probabilities of the members and
    # returns the logarithms of the means, (samples, K). The conversion of the backend leaves -inf as it is, where
    # `class_scores.to_input_library` makes every number finite.
    return class_scores.backend.to_input_library(
        class_scores.map_rows(lambda xp, rows: _pool(class_scores, xp, rows))
    )


def _pool(class_scores: ClassScores, xp: Namespace, rows: Array) -> Array:
    """Average the members of rows (M, samples, K) and return log-probabilities (samples, K).

    `rows` are a part of the samples of `class_scores`, whose `kind` says whether they are logits or probabilities.
    """
    return simplex.log_mean(xp, simplex.log_softmax(simplex.odds_of(xp, rows, class_scores.kind)))


def predictive_entropy(logits: ArrayLike | None = None, *, probs: ArrayLike | None = None) -> Any:
    r"""Rank key of the negative entropy of the averaged prediction; higher is surer.

    .. math:: -\ln H(\bar p), \qquad \bar p = \frac1M \sum_m p_m

    The key orders samples as the negative entropy does, but does not round to one value for confident samples.

    Parameters
    ----------
    logits, probs : array, shape (M, ..., K)
        Members first, classes last; exactly one of the two.

    Returns
    -------
    array of shape (...)
        Rank keys, float64 where the library has it, always finite: one-hot rows get the largest finite number and
        tie at the top. `display` converts a key to the number itself.

    Examples
    --------
    >>> float(predictive_entropy(probs=[[[1.0, 0.0]], [[0.0, 1.0]]])[0].round(4))  # entropy ln 2
    0.3665
    """
    # the checked input; `map_rows` applies a function to a part of its rows at a time
    class_scores = check_class_scores("predictive_entropy", logits, probs, is_ensemble=True)

    def compute_key(xp: Namespace, rows: Array) -> Array:
        """Rank keys (samples,) of rows (M, samples, K)."""
        # log-probabilities (samples, K) of the mean of the members' probabilities, read as logits from here on
        pooled = _pool(class_scores, xp, rows)
        odds_against_winner = simplex.odds_of(xp, pooled)  # of each class, relative to the most probable one
        # the logarithm of the entropy is -inf for a one-hot row; `finite` makes infinities the largest numbers
        return simplex.finite(xp, -simplex.log_entropy(odds_against_winner))

    return class_scores.to_input_library(class_scores.map_rows(compute_key))


def mutual_information(logits: ArrayLike | None = None, *, probs: ArrayLike | None = None) -> Any:
    r"""Rank key of minus the mutual information between label and member (BALD); higher is surer.

    .. math:: -\ln\Bigl(H(\bar p) - \frac1M \sum_m H(p_m)\Bigr)

    The key orders samples as that number does, but does not round to one value where members nearly agree. Computed as
    a mean of divergences, none of which is negative. Samples on which all members agree get the largest finite number
    and tie at the top.

    Parameters
    ----------
    logits, probs : array, shape (M, ..., K)
        Members first, classes last; exactly one of the two.

    Returns
    -------
    array of shape (...)
        Rank keys, float64 where the library has it, always finite. `display` converts a key to the number itself.

    Examples
    --------
    >>> float(mutual_information(probs=[[[1.0, 0.0]], [[0.0, 1.0]]])[0].round(4))  # information ln 2
    0.3665
    """
    # the checked input; `map_rows` applies a function to a part of its rows at a time
    class_scores = check_class_scores("mutual_information", logits, probs, is_ensemble=True)

    def compute_key(xp: Namespace, rows: Array) -> Array:
        """Rank keys (samples,) of rows (M, samples, K)."""
        # log-probabilities (M, samples, K) of each member, from its logits or probabilities
        log_probs = simplex.log_softmax(simplex.odds_of(xp, rows, class_scores.kind))
        # the logarithm of the information is -inf where all members agree; `finite` makes it the largest number
        return simplex.finite(xp, -simplex.log_information(xp, log_probs))

    return class_scores.to_input_library(class_scores.map_rows(compute_key))


def mean_max_softmax(logits: ArrayLike | None = None, *, probs: ArrayLike | None = None) -> Any:
    r"""Rank key of the members' mean maximum softmax probability; higher is surer.

    .. math:: -\ln\Bigl(1 - \frac1M \sum_m \max_k p_{mk}\Bigr)

    The key orders samples as the mean does, but does not round to one value for confident samples. The maximum softmax
    probability of the averaged prediction is `max_softmax(pooled_log_probs(logits))`.

    Parameters
    ----------
    logits, probs : array, shape (M, ..., K)
        Members first, classes last; exactly one of the two.

    Returns
    -------
    array of shape (...)
        Rank keys, float64 where the library has it, always finite: one-hot rows get the largest finite number and
        tie at the top. `display` converts a key to the number itself.

    Examples
    --------
    >>> float(mean_max_softmax(probs=[[[0.5, 0.5]], [[0.0, 1.0]]])[0].round(4))  # mean 3/4
    1.3863
    """
    # the checked input; `map_rows` applies a function to a part of its rows at a time
    class_scores = check_class_scores("mean_max_softmax", logits, probs, is_ensemble=True)

    def compute_key(xp: Namespace, rows: Array) -> Array:
        """Rank keys (samples,) of rows (M, samples, K)."""
        # ln(1 - max p) of each member, (M, samples), from the odds of each class against its most probable one; -inf
        # for a one-hot row
        log_one_minus_max = simplex.log_complement(simplex.odds_of(xp, rows, class_scores.kind))
        # `log_mean` is the logarithm of the mean over members, and `finite` makes infinities the largest numbers
        return simplex.finite(xp, -simplex.log_mean(xp, log_one_minus_max))

    return class_scores.to_input_library(class_scores.map_rows(compute_key))


def vote_share(logits: ArrayLike | None = None, *, probs: ArrayLike | None = None) -> Any:
    """Share of the members that vote for the class with the most votes; higher is surer.

    A member votes for its largest entry, the first of equals. There are at most M different values, so many samples
    tie.

    Parameters
    ----------
    logits, probs : array, shape (M, ..., K)
        Members first, classes last; exactly one of the two.

    Returns
    -------
    array of shape (...)
        Shares from 1/M to 1.

    Examples
    --------
    >>> vote_share([[[1.0, 0.0]], [[2.0, 0.0]], [[0.0, 1.0]]]).round(4).tolist()
    [0.6667]
    """
    # the checked input; `map_rows` applies a function to a part of its rows at a time
    class_scores = check_class_scores("vote_share", logits, probs, is_ensemble=True)

    def compute_share(xp: Namespace, rows: Array) -> Array:
        """Shares (samples,) of rows (M, samples, K)."""
        # booleans (M, samples, K), True where a member votes for a class, as numbers in the library's widest float
        votes = simplex.wide(xp, simplex.winners(xp, rows))
        return xp.max(xp.mean(votes, axis=0), axis=-1)

    return class_scores.to_input_library(class_scores.map_rows(compute_share))
