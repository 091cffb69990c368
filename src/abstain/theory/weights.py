"""Bias and mean squared error of the rank weights, as the paper's propositions state them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain import _tables
from abstain._arrays import Array, to_python
from abstain._check import check_choice, check_count
from abstain.core.area_estimators import ESTIMATORS, Estimator, harmonic_difference, weight_of_rank
from abstain.errors import InputError

# The paper states its biases as binomial sums of n terms. Each equals one of the three functions below (`power_tail`,
# `mean_log_gap`, `inverse_square_difference`), whose cost does not depend on n and whose terms do not cancel.
_FROM = 32  # from here on eight terms of the asymptotic series are exact to double precision
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B_2, B_4, ... B_16


def power_tail(beta: np.ndarray, above: np.ndarray, n: np.ndarray) -> np.ndarray:
    r""":math:`\sum_{k \ge n} \beta^k / k` for 0 <= beta < 1 and n >= 1; relative error near 1e-14.

    `above` is 1 - beta, given apart because next to 1 it is the number that counts.
    """
    beta, above, n = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in (beta, above, n)))
    start = np.maximum(n, float(_FROM))
    small = beta <= 0.5
    total = np.where(small, _tail_by_terms(np.where(small, beta, 0.0), start), 0.0)
    total = total + np.where(small, 0.0, _tail_by_expansion(np.where(small, 0.25, above), start))
    for k in range(_FROM - 1, 0, -1):  # smallest terms first
        total = total + np.where(k >= n, beta**k / k, 0.0)
    return np.asarray(total)


def _tail_by_terms(beta: np.ndarray, start: np.ndarray) -> np.ndarray:
    total = np.zeros_like(beta)
    for j in range(56, -1, -1):
        total = beta * total + 1 / (start + j)
    return np.asarray(beta**start * total)


def _tail_by_expansion(above: np.ndarray, start: np.ndarray) -> np.ndarray:
    r"""The tail is :math:`\int_x^\infty e^{-nu}/(1-e^{-u})\,du`, x = -ln beta: expand the denominator."""
    from scipy.special import exp1, gammaincc

    y = -start * np.log1p(-above)
    total = np.zeros_like(y)
    for k in range(len(_BERNOULLI), 0, -1):
        total = total + _BERNOULLI[k - 1] / (2 * k) * gammaincc(2 * k, y) / start ** (2 * k)
    return np.asarray(exp1(y) + np.exp(-y) / (2 * start) + total)


def mean_log_gap(chance: np.ndarray, trials: np.ndarray) -> np.ndarray:
    r""":math:`E[\ln(K+1) - \psi(K+1)]` for K binomial: what separates the log weights from the harmonic ones.

    Binet's integral for ln z - psi(z), averaged under the integral sign by the generating function:
    :math:`\int_0^\infty h(t)\, e^{-t} (1 - q(1-e^{-t}))^m dt` with :math:`h(t) = 1/(1-e^{-t}) - 1/t`. The
    integrand is positive and smooth, and the double-exponential rule below takes it to near 1e-14.
    """
    chance, trials = np.broadcast_arrays(np.asarray(chance, np.float64), np.asarray(trials, np.float64))
    pieces = np.arange(2048, chance.size, 2048)  # bounded memory
    parts = zip(np.split(chance.reshape(-1, 1), pieces), np.split(trials.reshape(-1, 1), pieces))
    return np.concatenate([_double_exponential(q, m) for q, m in parts]).reshape(chance.shape)


def _double_exponential(q: np.ndarray, m: np.ndarray) -> np.ndarray:
    u = np.arange(-4.25, 7.5, 1 / 16)
    t = np.exp(u - np.exp(-u)) / (1 + q * m)
    s = np.minimum(-np.expm1(-t), 1 - 2.0**-53)
    values = _binet_kernel(t) * np.exp(-t + m * np.log1p(-q * s)) * t * (1 + np.exp(-u))
    return np.asarray(values.sum(axis=-1) / 16)


def _binet_kernel(t: np.ndarray) -> np.ndarray:
    near = t < 0.05
    far = np.where(near, 1.0, t)
    series = 0.5 + t / 12 * (1 - t * t / 60 * (1 - t * t / 42))
    return np.where(near, series, -1 / np.expm1(-far) - 1 / far)


def inverse_square_difference(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    r""":math:`\sum_{k=low+1}^{high} 1/k^2 = \psi'(low+1) - \psi'(high+1)`, the difference formed before it
    can cancel."""
    low, high = np.broadcast_arrays(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
    a, b = np.maximum(low, float(_FROM)), np.maximum(high, float(_FROM))
    u, v = 1 / a, 1 / b
    gap = (b - a) * u * v  # 1/a - 1/b
    # psi'(z+1) = 1/z - 1/(2z^2) + sum_k B_2k / z^(2k+1)
    total = np.zeros_like(gap)
    for k in range(5, 0, -1):  # (u^p - v^p) / (u - v), p = 2k + 1, as a sum of positive terms
        total = total + _BERNOULLI[k - 1] * sum(u ** (2 * k - j) * v**j for j in range(2 * k + 1))
    total = gap * (1 - (u + v) / 2 + total)
    for k in range(_FROM, 0, -1):
        total = total + np.where((k > low) & (k <= high), 1.0 / (k * k), 0.0)
    return np.asarray(total)


def check_size(name: str, n: Any) -> np.ndarray:
    """Sample sizes: whole numbers, at least 1."""
    size = np.asarray(n, dtype=np.float64)
    if not np.all((size >= 1) & (np.floor(size) == size)):
        raise InputError(f"{name}: `n` must be a whole number, at least 1, got {n!r}.")
    return size


def _checked(name: str, beta: Array, n: Array, estimator: str, below_one: bool = False) -> Any:
    """Population rank percentiles and sample sizes, as arrays."""
    check_choice(name, "estimator", estimator, ESTIMATORS)
    value = np.asarray(beta, dtype=np.float64)
    if not np.all((value >= 0) & ((value < 1) if below_one else (value <= 1))):
        why = " At 1 the population weight -ln(1-beta) is infinite." if below_one else ""
        raise InputError(f"{name}: `beta` must lie in [0, 1{')' if below_one else ']'}, got {beta!r}.{why}")
    return value, check_size(name, n)


def population_weight(beta: Array, /) -> Any:
    r"""Weight of the population's rank percentile (Proposition 1).

    .. math:: \alpha(\beta) = -\ln(1-\beta)

    Parameters
    ----------
    beta : array in [0, 1)
        The share of the population that is less confident.

    Returns
    -------
    float or array

    Examples
    --------
    >>> round(population_weight(0.5), 6)
    0.693147
    """
    beta, _ = _checked("population_weight", beta, 1, "harmonic", below_one=True)
    return to_python(-np.log1p(-beta))


def weight_bias(beta: Array, n: Array, /, *, estimator: Estimator = "harmonic") -> Any:
    r"""Bias of a sample's weight given its population rank percentile beta; near 0 is better.

    .. math:: E[\hat\alpha \mid \beta] + \ln(1-\beta)

    harmonic :math:`1/n - \sum_{k\ge n}\beta^k/k`; loo :math:`-\sum_{k\ge n}\beta^k/k`; sele
    :math:`\beta + (1-\beta)/n + \ln(1-\beta)`; log is harmonic less :math:`E[c(K+1)] - c(n+1)`, K ~ Bin(n-1, 1-beta),
    :math:`c(z) = \ln z - \psi(z)`. These equal the paper's binomial sums, at a cost that does not grow with n.
    Confidence is taken to have no ties.

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

    Examples
    --------
    >>> weight_bias(0.0, 8), weight_bias(0.0, 8, estimator="loo")  # it gets 1/8, or nothing
    (0.125, -0.0)
    >>> bool(abs(weight_bias(0.999999, 10_000_000) - 1e-7) < 1e-5)
    True
    """
    beta, n = _checked("weight_bias", beta, n, estimator, below_one=True)
    return to_python(bias_given(beta, 1 - beta, n, estimator))


def bias_given(beta: np.ndarray, above: np.ndarray, n: np.ndarray, estimator: str) -> np.ndarray:
    """The bias, from beta and `above` = 1 - beta (given apart, so that it may be smaller than rounding allows)."""
    if estimator in ("sele", "2sele"):
        mean = (beta + above / n) * (2 if estimator == "2sele" else 1)
        return np.asarray(mean + np.log(above))
    bias = -power_tail(beta, above, n)
    if estimator == "loo":
        return bias
    if estimator == "log":
        bias = bias - (mean_log_gap(above, n - 1) - mean_log_gap(np.ones(()), n))
    return np.asarray(bias + 1 / n)


def expected_weight(beta: Array, n: Array, /, *, estimator: Estimator = "harmonic") -> Any:
    r"""Mean weight of a sample given its population rank percentile.

    .. math:: E[\hat\alpha \mid \beta]

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
    >>> round(expected_weight(1.0, 3), 6)  # always on top: 1 + 1/2 + 1/3
    1.833333
    """
    beta, n = _checked("expected_weight", beta, n, estimator)
    inside = np.where(beta < 1, beta, 0.0)
    value = bias_given(inside, 1 - inside, n, estimator) - np.log1p(-inside)
    return to_python(np.where(beta < 1, value, weight_of_rank(n, n, estimator)))


def _squared_bias(rank: np.ndarray, n: np.ndarray, estimator: str) -> np.ndarray:
    return (weight_of_rank(rank, n, estimator) - weight_of_rank(rank, n, "harmonic")) ** 2


def weight_mse(rank: Array, n: Array, /, *, estimator: Estimator = "harmonic") -> Any:
    r"""Mean squared error of the weight of rank r, over beta ~ Beta(r, n+1-r); lower is better.

    .. math:: \psi'(n+1-r) - \psi'(n+1) + (\hat\alpha_r - (H_n - H_{n-r}))^2

    The first part is the variance of -ln(1-beta), the second the squared bias, which is 0 for "harmonic".

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

    Examples
    --------
    >>> round(weight_mse(1, 2), 6)  # 1/2^2
    0.25
    """
    check_choice("weight_mse", "estimator", estimator, ESTIMATORS)
    n, rank = check_size("weight_mse", n), np.asarray(rank, dtype=np.float64)
    if not np.all((rank >= 1) & (rank <= n) & (np.floor(rank) == rank)):
        raise InputError("weight_mse: `rank` must be a whole number from 1 (least confident) to n.")
    variance = inverse_square_difference(n - rank, n)
    return to_python(variance if estimator == "harmonic" else variance + _squared_bias(rank, n, estimator))


def mse_order(beta: Array, n: Array, /) -> Any:
    r"""The order of both mean squared errors: harmonic and log stay within constants of it.

    .. math:: \beta / (n(1-\beta) + 1)

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
    beta, n = _checked("mse_order", beta, n, "harmonic")
    return to_python(beta / (n * (1 - beta) + 1))


def mean_mse_order(n: Array, /) -> Any:
    r"""Average of `mse_order` over beta, which is O(ln n / n).

    .. math:: (n+1)\ln(n+1)/n^2 - 1/n

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
    return to_python((n + 1) * np.log1p(n) / n**2 - 1 / n)


def mean_weight_mse(n: int, /, *, estimator: Estimator = "harmonic") -> float:
    r"""Average over ranks of the weights' mean squared error; exactly :math:`H_n/n` for "harmonic".

    .. math:: \frac1n \sum_r \mathrm{MSE}(\hat\alpha_r)

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
    total = float(harmonic_difference(np, np.asarray(0.0), size))
    for at in range(1, 1 if estimator == "harmonic" else int(size) + 1, 1 << 20):
        rank = np.arange(at, min(at + (1 << 20), int(size) + 1), dtype=np.float64)
        total += float(np.sum(_squared_bias(rank, size, estimator)))
    return total / float(size)


@dataclass(frozen=True)
class MonteCarloWeights(_tables.Notebook):
    """Weights of ranks 1 ... n averaged over many draws; made by `monte_carlo_weights`.

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
        top = f"top weight {self.mean[-1]:.4g} +- {self.standard_error[-1]:.2g}"
        return f"MonteCarloWeights(n = {len(self.mean)}, {self.draws} draws, {top})"


def monte_carlo_weights(n: int, /, *, draws: int, rng: int | np.random.Generator) -> MonteCarloWeights:
    r"""The paper's Monte-Carlo route: draw n uniforms, sort, transform, average.

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
    total, squares = np.zeros(n), np.zeros(n)
    at_once = max(1, (1 << 22) // n)
    for at in range(0, draws, at_once):
        alpha = -np.log1p(-np.sort(generator.random((min(at_once, draws - at), n)), axis=-1))
        total += alpha.sum(axis=0)
        squares += (alpha * alpha).sum(axis=0)
    mean = total / draws
    variance = np.maximum(squares / draws - mean * mean, 0.0)
    return MonteCarloWeights(mean, np.sqrt(variance / max(draws - 1, 1)), draws)
