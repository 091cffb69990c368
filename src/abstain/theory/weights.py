"""Bias and mean squared error of the rank weights, as Zhou et al. (ICML 2025) state them in their propositions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain import _tables
from abstain._arrays import Array, to_number_or_array
from abstain._check import check_choice, check_count
from abstain.core.area_estimators import (
    ESTIMATORS,
    Estimator,
    base_estimator,
    harmonic_difference,
    weight_of_rank,
)
from abstain.errors import InputError

# The paper states its biases as binomial sums of n terms. Each equals one of the three functions below (`power_tail`,
# `mean_log_gap`, `inverse_square_difference`), whose cost does not depend on n and whose terms do not cancel.
_SERIES_FROM = 32  # from this n on, eight terms of the asymptotic series are exact to double precision
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B_2, B_4, ... B_16

_INTEGRALS_PER_CHUNK = 2048  # bounds the memory of `mean_log_gap`
_RANKS_PER_CHUNK = 1 << 20  # bounds the memory of `mean_weight_mse`
_UNIFORMS_PER_CHUNK = 1 << 22  # bounds the memory of `monte_carlo_weights`


def power_tail(beta: np.ndarray, q: np.ndarray, n: np.ndarray) -> np.ndarray:
    r"""Compute :math:`\sum_{k \ge n} \beta^k / k` for 0 <= beta < 1 and n >= 1; the relative error is near 1e-14.

    `q` is 1 - beta, passed separately because it has more digits where beta is close to 1. Arguments broadcast.
    """
    beta, q, n = np.broadcast_arrays(
        np.asarray(beta, np.float64), np.asarray(q, np.float64), np.asarray(n, np.float64)
    )
    # the terms from here on (from 32, or from a larger n) are summed by one of two formulas
    start = np.maximum(n, float(_SERIES_FROM))
    is_small = beta <= 0.5
    # each formula gets a harmless argument where the other one is used
    tail_if_small = _tail_by_terms(np.where(is_small, beta, 0.0), start)
    tail_if_large = _tail_by_expansion(np.where(is_small, 0.25, q), start)
    total = np.where(is_small, tail_if_small, tail_if_large)
    for k in range(_SERIES_FROM - 1, 0, -1):  # the terms before `start`, smallest first
        total = total + np.where(k >= n, beta**k / k, 0.0)
    return np.asarray(total)


def _tail_by_terms(beta: np.ndarray, start: np.ndarray) -> np.ndarray:
    r"""Compute :math:`\sum_{k \ge start} \beta^k / k` for beta <= 1/2, where 57 terms are enough (Horner's scheme)."""
    total = np.zeros_like(beta)
    for j in range(56, -1, -1):
        total = beta * total + 1 / (start + j)
    return np.asarray(beta**start * total)


def _tail_by_expansion(q: np.ndarray, start: np.ndarray) -> np.ndarray:
    r"""Compute :math:`\sum_{k \ge start} \beta^k / k` for beta = 1 - q > 1/2 and start >= 32.

    With n = start it is :math:`\int_x^\infty e^{-nu}/(1-e^{-u})\,du`, x = -ln beta. Expanding
    :math:`1/(1-e^{-u}) = 1/u + 1/2 + \sum_k B_{2k} u^{2k-1}/(2k)!` in Bernoulli numbers and integrating term by term
    gives, with y = n x, :math:`E_1(y) + e^{-y}/(2n) + \sum_k B_{2k}\, Q(2k, y) / (2k\, n^{2k})`.
    """
    from scipy.special import exp1, gammaincc  # E_1, and Q, the upper incomplete Gamma function over Gamma

    y = -start * np.log1p(-q)
    total = np.zeros_like(y)
    for k in range(len(_BERNOULLI), 0, -1):  # `_BERNOULLI[k - 1]` is B_2k; smallest terms first
        total = total + _BERNOULLI[k - 1] / (2 * k) * gammaincc(2 * k, y) / start ** (2 * k)
    return np.asarray(exp1(y) + np.exp(-y) / (2 * start) + total)


def mean_log_gap(probability: np.ndarray, trials: np.ndarray) -> np.ndarray:
    r"""Compute :math:`E[\ln(K+1) - \psi(K+1)]` for K binomial: the difference of the log and the harmonic weights.

    With q the probability and m the trials of K, Binet's integral for ln z - psi(z) is averaged under the integral sign
    by the generating function: :math:`\int_0^\infty h(t)\, e^{-t} (1 - q(1-e^{-t}))^m dt` with
    :math:`h(t) = 1/(1-e^{-t}) - 1/t`. The integrand is positive and smooth, and the double-exponential rule is accurate
    to about 1e-14. Arguments broadcast; psi is the digamma function.
    """
    probability, trials = np.broadcast_arrays(
        np.asarray(probability, np.float64), np.asarray(trials, np.float64)
    )
    # np.split takes the starts of all chunks but the first
    chunk_starts = np.arange(_INTEGRALS_PER_CHUNK, probability.size, _INTEGRALS_PER_CHUNK)
    probability_chunks = np.split(probability.reshape(-1, 1), chunk_starts)
    trials_chunks = np.split(trials.reshape(-1, 1), chunk_starts)
    integrals = [_integrate_mean_log_gap(q, m) for q, m in zip(probability_chunks, trials_chunks)]
    return np.concatenate(integrals).reshape(probability.shape)


def _integrate_mean_log_gap(q: np.ndarray, m: np.ndarray) -> np.ndarray:
    r"""Integrate :math:`h(t)\, e^{-t} (1 - q(1-e^{-t}))^m` over t > 0 by the double-exponential rule.

    With h(t) = 1/(1 - e^-t) - 1/t this is the mean of :math:`\ln(K+1) - \psi(K+1)` for K binomial with m trials of
    probability q. `q` is in [0, 1], and `m` holds whole numbers from 0 on; both have shape (k, 1), the result (k,).

    The substitution is :math:`t = e^{u - e^{-u}} / (1 + qm)`, so that dt/du = t (1 + e^{-u}), with nodes u at distance
    1/16; s stands for 1 - e^{-t}.
    """
    u = np.arange(-4.25, 7.5, 1 / 16)  # beyond these nodes the integrand is 0 to double precision
    t = np.exp(u - np.exp(-u)) / (1 + q * m)
    s = np.minimum(-np.expm1(-t), 1 - 2.0**-53)  # below 1, so that the logarithm is finite for q = 1
    # `_binet_kernel` is h
    integrand = _binet_kernel(t) * np.exp(-t + m * np.log1p(-q * s))
    values = integrand * t * (1 + np.exp(-u))
    return np.asarray(values.sum(axis=-1) / 16)


def _binet_kernel(t: np.ndarray) -> np.ndarray:
    """Compute h(t) = 1/(1 - e^-t) - 1/t for t > 0, by its series near 0, where the difference would cancel."""
    is_near_zero = t < 0.05
    t_or_one = np.where(is_near_zero, 1.0, t)
    series = 0.5 + t / 12 * (1 - t * t / 60 * (1 - t * t / 42))
    return np.where(is_near_zero, series, -1 / np.expm1(-t_or_one) - 1 / t_or_one)


def inverse_square_difference(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    r"""Compute :math:`\sum_{k=low+1}^{high} 1/k^2 = \psi'(low+1) - \psi'(high+1)` without cancellation.

    `low` and `high` are whole numbers, 0 <= low <= high; they broadcast. psi' is the trigamma function, B_2k a
    Bernoulli number.

    Terms up to k = 32 are added one by one. For larger ones, with a and b the ends of the sum, u = 1/a and v = 1/b,
    the series :math:`\psi'(z+1) = 1/z - 1/(2z^2) + \sum_k B_{2k} / z^{2k+1}` is subtracted term by term: each
    difference of powers is u - v times a sum of positive terms.
    """
    low, high = np.broadcast_arrays(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
    a = np.maximum(low, float(_SERIES_FROM))
    b = np.maximum(high, float(_SERIES_FROM))
    u = 1 / a
    v = 1 / b
    u_minus_v = (b - a) * u * v
    bernoulli_sum = np.zeros_like(u_minus_v)
    for k in range(5, 0, -1):  # above 32, five terms are exact to double precision
        quotient = sum(u ** (2 * k - j) * v**j for j in range(2 * k + 1))  # (u^p - v^p) / (u - v), p = 2k + 1
        bernoulli_sum = bernoulli_sum + _BERNOULLI[k - 1] * quotient
    total = u_minus_v * (1 - (u + v) / 2 + bernoulli_sum)
    for k in range(_SERIES_FROM, 0, -1):  # terms up to 32, smallest first
        total = total + np.where((k > low) & (k <= high), 1.0 / (k * k), 0.0)
    return np.asarray(total)


def check_size(name: str, n: Any) -> np.ndarray:
    """Return sample sizes as an array of floats; raise InputError unless they are whole numbers, at least 1."""
    size = np.asarray(n, dtype=np.float64)
    if not np.all((size >= 1) & (np.floor(size) == size)):
        raise InputError(f"{name}: `n` must be a whole number, at least 1, got {n!r}.")
    return size


def _check_beta(name: str, beta: Array, below_one: bool = False) -> np.ndarray:
    """Return population rank percentiles as an array of floats.

    Raises InputError unless they lie in [0, 1], or in [0, 1) if `below_one`. `name` is the function in error messages.
    """
    percentile = np.asarray(beta, dtype=np.float64)
    if below_one and not np.all((percentile >= 0) & (percentile < 1)):
        raise InputError(
            f"{name}: `beta` must lie in [0, 1), got {beta!r}. At 1 the population weight -ln(1-beta) is infinite."
        )
    if not np.all((percentile >= 0) & (percentile <= 1)):
        raise InputError(f"{name}: `beta` must lie in [0, 1], got {beta!r}.")
    return percentile


def population_weight(beta: Array, /) -> Array:
    r"""Weight of the loss at a rank percentile of the population (Zhou et al., ICML 2025, Proposition 1).

    .. math:: \alpha(\beta) = -\ln(1-\beta)

    Parameters
    ----------
    beta : array in [0, 1)
        The share of the population that is less confident.

    Returns
    -------
    float or array
        Of the shape of `beta`, at least 0. AURC is the mean of weight times loss.

    Examples
    --------
    >>> round(population_weight(0.5), 6)
    0.693147
    """
    percentile = _check_beta("population_weight", beta, below_one=True)  # an array of floats
    return to_number_or_array(-np.log1p(-percentile))


def weight_bias(beta: Array, n: Array, /, *, estimator: Estimator = "harmonic") -> Array:
    r"""Bias of a sample's weight given its population rank percentile beta; near 0 is better.

    .. math:: E[\hat\alpha \mid \beta] + \ln(1-\beta)

    The sample has beta, and n - 1 others are drawn from the population; :math:`\hat\alpha` is the weight of its loss by
    its rank among the n. AURC of the population is the mean of :math:`-\ln(1-\beta)` times the loss, which is
    therefore the weight to compare with.

    harmonic :math:`1/n - \sum_{k\ge n}\beta^k/k`; loo :math:`-\sum_{k\ge n}\beta^k/k`; sele
    :math:`\beta + (1-\beta)/n + \ln(1-\beta)`; 2sele :math:`2\beta + 2(1-\beta)/n + \ln(1-\beta)`; log is harmonic
    minus :math:`E[c(K+1)] - c(n+1)`, K ~ Bin(n-1, 1-beta), :math:`c(z) = \ln z - \psi(z)`. These equal the binomial
    sums of Zhou et al. (ICML 2025), at a cost that does not grow with n. Assumes a confidence without ties.

    Parameters
    ----------
    beta : array in [0, 1)
        The share of the population that is less confident.
    n : array of whole numbers, at least 1
        Sample sizes; broadcast against `beta`.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights.

    Returns
    -------
    float or array
        Of the common shape of `beta` and `n`; positive where the weight is too large on average.

    Examples
    --------
    >>> weight_bias(0.0, 8), weight_bias(0.0, 8, estimator="loo")  # the weight is 1/8, or 0
    (0.125, -0.0)
    >>> bool(abs(weight_bias(0.999999, 10_000_000) - 1e-7) < 1e-5)
    True
    """
    check_choice("weight_bias", "estimator", estimator, ESTIMATORS)
    percentile = _check_beta("weight_bias", beta, below_one=True)
    size = check_size("weight_bias", n)  # an array of floats, like `percentile`
    return to_number_or_array(compute_weight_bias(percentile, 1 - percentile, size, estimator))


def compute_weight_bias(beta: np.ndarray, q: np.ndarray, n: np.ndarray, estimator: str) -> np.ndarray:
    r"""Compute the bias of a sample's weight given beta, the share of the population that is less confident.

    That is its mean over samples of size n, minus the weight :math:`-\ln(1-\beta)` in the population AURC:
    harmonic :math:`1/n - \sum_{k\ge n}\beta^k/k`; loo the same without 1/n; sele
    :math:`\beta + q/n + \ln q`, and 2sele with the first two terms doubled; log is harmonic minus
    :math:`E[c(K+1)] - c(n+1)`, K ~ Bin(n-1, q), :math:`c(z) = \ln z - \psi(z)`.

    `q` is 1 - beta > 0, passed separately because it may be too small to compute from beta. `n` holds sample sizes.
    Arguments broadcast and are not checked. `estimator` is "harmonic", "loo", "log", "sele" or "2sele".
    """
    # "2sele" is 2 times "sele"; every other estimator is its own base, with the factor 1, which is not read below
    base, factor = base_estimator(estimator)
    if base == "sele":
        return np.asarray(factor * (beta + q / n) + np.log(q))
    bias = -power_tail(beta, q, n)
    if estimator == "loo":
        return bias
    if estimator == "log":
        # with probability 1, K is n: the second mean is c(n + 1)
        bias = bias - (mean_log_gap(q, n - 1) - mean_log_gap(np.ones(()), n))
    return np.asarray(bias + 1 / n)


def expected_weight(beta: Array, n: Array, /, *, estimator: Estimator = "harmonic") -> Array:
    r"""Mean weight of a sample given its population rank percentile.

    .. math:: E[\hat\alpha \mid \beta]

    :math:`\hat\alpha` is the weight that the estimator of AURC gives to the sample's loss by its rank among the n.

    Parameters
    ----------
    beta : array in [0, 1]
        The share of the population that is less confident.
    n : array of whole numbers, at least 1
        Sample sizes; broadcast against `beta`.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights.

    Returns
    -------
    float or array

    Examples
    --------
    >>> round(expected_weight(1.0, 3), 6)  # always the most confident: 1 + 1/2 + 1/3
    1.833333
    """
    check_choice("expected_weight", "estimator", estimator, ESTIMATORS)
    percentile = _check_beta("expected_weight", beta)
    size = check_size("expected_weight", n)  # an array of floats, like `percentile`
    # mean = bias + population weight -ln(1 - beta), which is infinite at beta = 1: 0 stands in there
    below_one = np.where(percentile < 1, percentile, 0.0)  # what it leads to is not used
    mean_below_one = compute_weight_bias(below_one, 1 - below_one, size, estimator) - np.log1p(-below_one)
    # at beta = 1 the sample is always the most confident, which has the rank n
    top_weight = weight_of_rank(size, size, estimator)
    return to_number_or_array(np.where(percentile < 1, mean_below_one, top_weight))


def _squared_bias(rank: np.ndarray, n: np.ndarray, estimator: str) -> np.ndarray:
    """Return the squared difference between the weights of a rank and the harmonic ones, which are unbiased."""
    return (weight_of_rank(rank, n, estimator) - weight_of_rank(rank, n, "harmonic")) ** 2


def weight_mse(rank: Array, n: Array, /, *, estimator: Estimator = "harmonic") -> Array:
    r"""Mean squared error of the weight of rank r as an estimate of the population's weight; lower is better.

    .. math:: E\bigl[(\hat\alpha_r + \ln(1-\beta))^2\bigr]
              = \psi'(n+1-r) - \psi'(n+1) + (\hat\alpha_r - (H_n - H_{n-r}))^2

    beta is the share of the population that is less confident than the sample of rank r; over samples of size n its law
    is Beta(r, n+1-r). The first part is the variance of -ln(1-beta), the second the squared bias. The weight
    :math:`\hat\alpha_r` is :math:`H_n - H_{n-r}` for "harmonic", which has no bias, :math:`H_{n-1} - H_{n-r}` for
    "loo", :math:`-\ln(1 - r/(n+1))` for "log", r/n for "sele" and 2r/n for "2sele".

    Parameters
    ----------
    rank : array of whole numbers, 1 to n
        1 is the least confident; no ties.
    n : array of whole numbers, at least 1
        Sample sizes; broadcast against `rank`.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights.

    Returns
    -------
    float or array
        Of the common shape of `rank` and `n`.

    Examples
    --------
    >>> round(weight_mse(1, 2), 6)  # 1/2^2
    0.25
    """
    check_choice("weight_mse", "estimator", estimator, ESTIMATORS)
    n = check_size("weight_mse", n)
    rank = np.asarray(rank, dtype=np.float64)
    if not np.all((rank >= 1) & (rank <= n) & (np.floor(rank) == rank)):
        raise InputError("weight_mse: `rank` must be a whole number from 1 (least confident) to n.")
    variance = inverse_square_difference(n - rank, n)  # psi'(n+1-r) - psi'(n+1), psi' the trigamma function
    if estimator == "harmonic":  # unbiased
        return to_number_or_array(variance)
    return to_number_or_array(variance + _squared_bias(rank, n, estimator))


def mse_order(beta: Array, n: Array, /) -> Array:
    r"""The order of the mean squared error of a sample's weight given beta, for harmonic and for log weights.

    .. math:: \beta / (n(1-\beta) + 1)

    Both errors are within constant factors of it, whatever n and beta are.

    Parameters
    ----------
    beta : array in [0, 1]
        The share of the population that is less confident.
    n : array of whole numbers, at least 1
        Sample sizes; broadcast against `beta`.

    Returns
    -------
    float or array

    Examples
    --------
    >>> mse_order(0.5, 2)
    0.25
    """
    percentile = _check_beta("mse_order", beta)
    size = check_size("mse_order", n)  # an array of floats, like `percentile`
    return to_number_or_array(percentile / (size * (1 - percentile) + 1))


def mean_mse_order(n: Array, /) -> Array:
    r"""Average over beta of the order of the mean squared error of a sample's weight; it is O(ln n / n).

    .. math:: \int_0^1 \frac{\beta}{n(1-\beta) + 1}\,d\beta = (n+1)\ln(n+1)/n^2 - 1/n

    beta is the share of the population that is less confident than the sample. The integrand is `mse_order(beta, n)`:
    the mean squared error of the harmonic and of the log weight, as estimates of -ln(1-beta), is within constant
    factors of it.

    Parameters
    ----------
    n : array of whole numbers, at least 1
        Sample sizes.

    Returns
    -------
    float or array

    Examples
    --------
    >>> round(mean_mse_order(1), 6)  # 2 ln 2 - 1
    0.386294
    """
    n = check_size("mean_mse_order", n)
    # the difference loses nothing to cancellation: its first part is at least 1.38 times its second
    return to_number_or_array((n + 1) * np.log1p(n) / n**2 - 1 / n)


def mean_weight_mse(n: int, /, *, estimator: Estimator = "harmonic") -> float:
    r"""Average over ranks of the weights' mean squared error; exactly :math:`H_n/n` for "harmonic".

    .. math:: \frac1n \sum_{r=1}^n E\bigl[(\hat\alpha_r + \ln(1-\beta_r))^2\bigr]
              = \frac1n \Bigl(H_n + \sum_{r=1}^n (\hat\alpha_r - (H_n - H_{n-r}))^2\Bigr)

    :math:`\hat\alpha_r` is the weight that the estimator gives to rank r, and :math:`\beta_r` the share of the
    population that is less confident than the sample of that rank, which varies from sample to sample. The variance of
    :math:`-\ln(1-\beta_r)` does not depend on the estimator; over the ranks it adds up to :math:`H_n`.

    Parameters
    ----------
    n : int
        Sample size.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights.

    Returns
    -------
    float

    Examples
    --------
    >>> mean_weight_mse(2)  # (1 + 1/2) / 2
    0.75
    """
    check_choice("mean_weight_mse", "estimator", estimator, ESTIMATORS)
    size = check_size("mean_weight_mse", n)
    # the sum of the variances over all ranks, H_n - H_0
    total = float(harmonic_difference(np, np.asarray(0.0), size))  # computed by numpy
    if estimator == "harmonic":  # unbiased: the squared bias adds nothing
        return total / float(size)
    for first_rank in range(1, int(size) + 1, _RANKS_PER_CHUNK):  # chunks bound the memory
        stop_rank = min(first_rank + _RANKS_PER_CHUNK, int(size) + 1)
        rank = np.arange(first_rank, stop_rank, dtype=np.float64)
        total += float(np.sum(_squared_bias(rank, size, estimator)))
    return total / float(size)


@dataclass(frozen=True)
class MonteCarloWeights(_tables.Notebook):
    """Weights of ranks 1 ... n averaged over many draws; returned by `monte_carlo_weights`.

    Attributes
    ----------
    mean, standard_error : array, one value per rank
        The average of each rank's weight, and its standard error.
    draws : int
        How many were averaged.

    Examples
    --------
    >>> len(monte_carlo_weights(3, draws=10, rng=0).standard_error)
    3
    """

    mean: np.ndarray
    standard_error: np.ndarray
    draws: int

    def __repr__(self) -> str:
        top_weight = f"top weight {self.mean[-1]:.4g} +- {self.standard_error[-1]:.2g}"
        return f"MonteCarloWeights(n = {len(self.mean)}, {self.draws} draws, {top_weight})"


def monte_carlo_weights(n: int, /, *, draws: int, rng: int | np.random.Generator) -> MonteCarloWeights:
    r"""Estimate the rank weights as the paper does: draw n uniforms, sort, transform, average.

    .. math:: \frac1D \sum_d -\ln(1-\beta_{(r)}^d) \to H_n - H_{n-r}

    The average tends to the harmonic weights, since the r-th uniform is Beta(r, n+1-r).

    Parameters
    ----------
    n : int
        Sample size.
    draws : int
        D above.
    rng : int or numpy.random.Generator
        Seed or generator.

    Returns
    -------
    MonteCarloWeights
        The mean of each rank's weight with its standard error.

    Examples
    --------
    >>> monte_carlo_weights(3, draws=20_000, rng=0).mean.round(1).tolist()
    [0.3, 0.8, 1.8]
    """
    n = check_count("monte_carlo_weights", "n", n)
    draws = check_count("monte_carlo_weights", "draws", draws)
    generator = np.random.default_rng(rng)
    sum_of_weights = np.zeros(n)
    sum_of_squares = np.zeros(n)
    draws_per_chunk = max(1, _UNIFORMS_PER_CHUNK // n)  # bounds the memory
    for first_draw in range(0, draws, draws_per_chunk):
        chunk_size = min(draws_per_chunk, draws - first_draw)
        # each line is one draw of n percentiles, the least confident first
        sorted_beta = np.sort(generator.random((chunk_size, n)), axis=-1)
        weight = -np.log1p(-sorted_beta)
        sum_of_weights += weight.sum(axis=0)
        sum_of_squares += (weight * weight).sum(axis=0)
    mean = sum_of_weights / draws
    # over draws, not draws - 1: the correction is made below (of a single draw the standard error is 0, for want of a
    # better one); rounding must not make it negative
    variance = np.maximum(sum_of_squares / draws - mean * mean, 0.0)
    return MonteCarloWeights(mean=mean, standard_error=np.sqrt(variance / max(draws - 1, 1)), draws=draws)
