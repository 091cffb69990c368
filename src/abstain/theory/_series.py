r"""The three sums behind the paper's propositions, in forms that stay accurate up to n = 1e7 and beyond.

The paper states its biases as binomial sums of n terms; each equals one of the functions below, whose cost
does not depend on n and whose terms do not cancel.
"""

from __future__ import annotations

import numpy as np

_FROM = 32  # from here on eight terms of the asymptotic series are exact to double precision
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B_2, B_4, ... B_16


def power_tail(beta: np.ndarray, above: np.ndarray, n: np.ndarray) -> np.ndarray:
    r""":math:`\sum_{k \ge n} \beta^k / k` for 0 <= beta < 1 and n >= 1; relative error near 1e-14.

    `above` is 1 - beta, given apart because next to 1 it is the number that counts.
    """
    beta, above, n = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (beta, above, n)))
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
    chance, trials = np.broadcast_arrays(
        np.asarray(chance, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    )
    flat_q, flat_m = chance.reshape(-1), trials.reshape(-1)
    values = np.empty_like(flat_q)
    for at in range(0, len(flat_q), 2048):  # bounded memory
        part = slice(at, at + 2048)
        values[part] = _double_exponential(flat_q[part, None], flat_m[part, None])
    return values.reshape(chance.shape)


def _double_exponential(q: np.ndarray, m: np.ndarray) -> np.ndarray:
    step = 1 / 16
    u = np.arange(-4.25, 7.5, step)
    t = np.exp(u - np.exp(-u)) / (1 + q * m)
    s = np.minimum(-np.expm1(-t), 1 - 2.0**-53)
    values = _binet_kernel(t) * np.exp(-t + m * np.log1p(-q * s)) * t * (1 + np.exp(-u))
    return np.asarray(values.sum(axis=-1) * step)


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
    for k in range(5, 0, -1):
        total = total + _BERNOULLI[k - 1] * _power_quotient(u, v, 2 * k + 1)
    total = gap * (1 - (u + v) / 2 + total)
    for k in range(_FROM, 0, -1):
        total = total + np.where((k > low) & (k <= high), 1.0 / (k * k), 0.0)
    return np.asarray(total)


def _power_quotient(u: np.ndarray, v: np.ndarray, power: int) -> np.ndarray:
    """(u^p - v^p) / (u - v), as a sum of positive terms."""
    total = np.zeros_like(u)
    for j in range(power):
        total = total + u ** (power - 1 - j) * v**j
    return total
