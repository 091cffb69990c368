"""Slow definitions that share no code with the package: exact fractions, all pairs, plain loops."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def alphas(confidence, estimator: str) -> list[float]:
    """Weight of each sample, by counting neighbours one by one."""
    g = [float(x) for x in confidence]
    n = len(g)
    accepted = [sum(x >= t for x in g) for t in g]  # N at the threshold of each sample
    if estimator == "harmonic":
        return [float(sum(Fraction(1, accepted[j]) for j in range(n) if g[j] <= g[i])) for i in range(n)]
    if estimator == "loo":
        terms = [Fraction(1, a - 1) if a > 1 else Fraction(0) for a in accepted]
        return [float(sum(terms[j] for j in range(n) if g[j] <= g[i] and j != i)) for i in range(n)]
    if estimator in ("sele", "2sele"):
        factor = 2 if estimator == "2sele" else 1
        return [factor * sum(x <= t for x in g) / n for t in g]
    ranks = [[sum(x < t for x in g) + k + 1 for k in range(g.count(t))] for t in g]  # the ranks a tie shares
    return [math.fsum(-math.log(1 - r / (n + 1)) for r in shared) / len(shared) for shared in ranks]


def cross_entropy(logits, target) -> np.ndarray:
    z = np.asarray(logits, dtype=np.float64)
    norm = [math.log(math.fsum(math.exp(v - max(row)) for v in row)) + max(row) for row in z]
    return np.asarray([c - row[y] for c, row, y in zip(norm, z, target)])


def doubt(logits) -> list[Fraction]:
    """-(1 - p_max)/p_max as exact sums of rounded exponentials: the order of max softmax."""
    keys = []
    for row in np.asarray(logits, dtype=np.float64):
        winner = int(np.argmax(row))
        keys.append(-sum(Fraction(math.exp(v - row[winner])) for k, v in enumerate(row) if k != winner))
    return keys


def aurc_of_logits(logits, target, estimator: str) -> float:
    alpha = alphas_of_keys(doubt(logits), estimator)
    return math.fsum(a * l for a, l in zip(alpha, cross_entropy(logits, target))) / len(target)


def alphas_of_keys(keys, estimator: str) -> list[float]:
    order = {key: place for place, key in enumerate(sorted(set(keys)))}
    return alphas([order[key] for key in keys], estimator)
