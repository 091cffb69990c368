"""Differences of harmonic numbers and log-factorials that keep their last digits.

`H_b - H_a` by two calls of digamma loses everything when `b - a` is small beside `b`; here the difference is
formed first. Only `+ - * /`, `log`, `log1p`, `where` and a short table are used, so every array library runs it.
"""

from __future__ import annotations

import functools

import numpy as np

from abstain._arrays import Array, Namespace

_SMALL = 32  # from here on, the first terms of the asymptotic series are exact to double precision


@functools.lru_cache(maxsize=1)
def _small_tables() -> tuple[np.ndarray, np.ndarray]:
    k = np.arange(1.0, _SMALL + 1)
    return np.concatenate([[0.0], np.cumsum(1 / k)]), np.concatenate([[0.0], np.cumsum(np.log(k))])


def _look_up(xp: Namespace, table: np.ndarray, index: Array) -> Array:
    if xp is np:
        return table[index.astype(np.int64)]
    values = xp.zeros_like(index)
    for k, value in enumerate(table):  # 33 selects: no gather, so it also traces and compiles
        values = xp.where(index == k, float(value), values)
    return values


def harmonic_difference(xp: Namespace, low: Array, high: Array) -> Array:
    """`H_high - H_low` for whole numbers `0 <= low <= high` held as floats, to a few units in the last digit."""
    a, b = (
        xp.maximum(low, xp.asarray(_SMALL, dtype=low.dtype)),
        xp.maximum(high, xp.asarray(_SMALL, dtype=low.dtype)),
    )
    gap = b - a
    # H_k = ln k + gamma + 1/(2k) - 1/(12k^2) + 1/(120k^4) - 1/(252k^6) + 1/(240k^8) - ...; differences taken exactly
    u, v = 1 / a, 1 / b
    inverse = -gap * u * v  # 1/b - 1/a
    squares = inverse * (v + u)
    fourth = squares * (v * v + u * u)
    sixth = squares * (v**4 + u * u * v * v + u**4)
    eighth = fourth * (v**4 + u**4)
    large = xp.log1p(gap * u) + inverse / 2 - squares / 12 + fourth / 120 - sixth / 252 + eighth / 240
    table, _ = _small_tables()
    small = xp.asarray(_SMALL, dtype=low.dtype)
    return large + (
        _look_up(xp, table, xp.minimum(high, small)) - _look_up(xp, table, xp.minimum(low, small))
    )


def log_factorial_difference(xp: Namespace, low: Array, high: Array) -> Array:
    """`ln(high!) - ln(low!)` for whole numbers `0 <= low <= high` held as floats."""
    small = xp.asarray(_SMALL, dtype=low.dtype)
    a, b = xp.maximum(low, small), xp.maximum(high, small)
    gap = b - a
    u, v = 1 / a, 1 / b
    inverse = -gap * u * v
    cubes = inverse * (v * v + u * v + u * u)
    fifth = inverse * (v**4 + v**3 * u + v * v * u * u + v * u**3 + u**4)
    seventh = inverse * (v**6 + v**5 * u + v**4 * u**2 + v**3 * u**3 + v**2 * u**4 + v * u**5 + u**6)
    # Stirling: ln k! = (k + 1/2) ln k - k + ln(2 pi)/2 + 1/(12k) - 1/(360k^3) + 1/(1260k^5) - 1/(1680k^7)
    large = (a + 0.5) * xp.log1p(gap * u) + gap * (xp.log(b) - 1)
    large = large + inverse / 12 - cubes / 360 + fifth / 1260 - seventh / 1680
    _, table = _small_tables()
    return large + (
        _look_up(xp, table, xp.minimum(high, small)) - _look_up(xp, table, xp.minimum(low, small))
    )
