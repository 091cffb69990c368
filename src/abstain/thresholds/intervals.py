"""Exact intervals of proportions, and a band that holds for all thresholds at once."""

from __future__ import annotations

import math

import numpy as np

from abstain._arrays import Array


def clopper_pearson(hits: Array, trials: Array, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Exact two-sided interval of a proportion; [0, 1] where there are no trials.

    >>> low, high = clopper_pearson(0, 10)
    >>> round(low.item(), 4), round(high.item(), 4)
    (0.0, 0.3085)
    """
    from scipy.special import betaincinv

    x, n = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    tail = (1 - level) / 2
    inside_low, inside_high = x > 0, x < n
    low = betaincinv(np.where(inside_low, x, 1.0), np.where(inside_low, n - x + 1, 1.0), tail)
    high = betaincinv(np.where(inside_high, x + 1, 1.0), np.where(inside_high, n - x, 1.0), 1 - tail)
    return np.where(inside_low, low, 0.0), np.where(inside_high, high, 1.0)


def upper_limit(errors: float, trials: int, delta: float) -> float:
    """Exact one-sided upper limit of an error rate."""
    from scipy.special import betaincinv

    return 1.0 if errors >= trials else float(betaincinv(errors + 1, trials - errors, 1 - delta))


def coverage_band(coverage: float, n: float, delta: float) -> tuple[float, float]:
    """Dvoretzky-Kiefer-Wolfowitz: all thresholds at once, so a threshold chosen on the same data is covered."""
    half = math.sqrt(math.log(2 / delta) / (2 * n))
    return max(0.0, coverage - half), min(1.0, coverage + half)
