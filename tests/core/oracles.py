"""Definitions written out in full, in exact arithmetic where it pays. Nothing here comes from the package."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction


def accepted(confidence, threshold):
    return [j for j, g in enumerate(confidence) if g >= threshold]


def pairwise_aurc(loss, confidence, weight=None):
    """Every sample's confidence as a threshold: mean selective risk. Summed over all pairs, literally."""
    w = [1] * len(loss) if weight is None else weight
    total = 0
    for i in range(len(loss)):
        if not w[i]:
            continue
        taken = accepted(confidence, confidence[i])
        total += w[i] * sum(w[j] * loss[j] for j in taken) / sum(w[j] for j in taken)
    return total / sum(w)


def pairwise_loo(loss, confidence):
    """Selective risk of the other samples, at every sample's confidence; 0 where no other is accepted."""
    total = 0
    for i in range(len(loss)):
        others = [j for j in accepted(confidence, confidence[i]) if j != i]
        if others:
            total += sum(loss[j] for j in others) / Fraction(len(others))
    return total / len(loss)


def pairwise_sele(loss, confidence, weight=None):
    """Each loss times the share of samples that are at most as confident."""
    w = [1] * len(loss) if weight is None else weight
    mass = sum(w)
    return sum(
        w[i] * loss[i] * sum(w[j] for j in range(len(loss)) if confidence[j] <= confidence[i])
        for i in range(len(loss))
    ) / (mass * mass)


def untied_weight(rank, n, estimator):
    """Weight of one rank, from its defining sum."""
    if estimator == "harmonic":
        return sum(Fraction(1, k) for k in range(n - rank + 1, n + 1))
    if estimator == "loo":
        return sum((Fraction(1, k) for k in range(n - rank + 1, n)), Fraction(0))
    if estimator == "log":
        return -math.log((n + 1 - rank) / (n + 1))
    return Fraction(rank, n) * (2 if estimator == "2sele" else 1)


def by_orders(loss, confidence, estimator):
    """Mean of the untied estimate over every order that breaks the ties: all permutations, for small n."""
    n = len(loss)
    total, orders = 0, 0
    for order in itertools.permutations(range(n)):
        if any(confidence[a] > confidence[b] for a, b in itertools.pairwise(order)):
            continue
        total += sum(untied_weight(r, n, estimator) * loss[i] for r, i in enumerate(order, 1)) / Fraction(n)
        orders += 1
    return total / orders


def definition(loss, confidence, estimator, ties):
    """What each estimator is, under each tie rule, for unweighted samples."""
    if ties == "expected" or estimator == "log":
        return by_orders(loss, confidence, estimator)
    if estimator == "harmonic":
        return pairwise_aurc(loss, confidence)
    if estimator == "loo":
        return pairwise_loo(loss, confidence)
    return pairwise_sele(loss, confidence) * (2 if estimator == "2sele" else 1)


def repeat(weight, *columns):
    """Every sample as often as its whole-number weight says."""
    return [[x for x, w in zip(column, weight) for _ in range(w)] for column in columns]


def curve(loss, confidence, weight=None):
    """(threshold, coverage, risk, generalised risk) from the most confident down, threshold by threshold."""
    w = [1] * len(loss) if weight is None else weight
    mass = sum(w)
    points = []
    for t in sorted(set(confidence), reverse=True):
        taken = accepted(confidence, t)
        m, s = sum(w[j] for j in taken), sum(w[j] * loss[j] for j in taken)
        points.append((t, m / mass, s / m, s / mass))
    return points


def auroc(loss, confidence, weight=None):
    """Over all pairs of a right and a wrong sample."""
    w = [1] * len(loss) if weight is None else weight
    wins = pairs = 0
    for i, a in enumerate(loss):
        for j, b in enumerate(loss):
            if a == 0 and b == 1:
                pairs += w[i] * w[j]
                gap = confidence[i] - confidence[j]
                wins += w[i] * w[j] * (1 if gap > 0 else 0.5 if gap == 0 else 0)
    return wins / pairs


def average_precision(positive, score, weight=None):
    """Walk the distinct scores from the top: precision times recall gained."""
    w = [1] * len(positive) if weight is None else weight
    all_hits = sum(wi for wi, p in zip(w, positive) if p)
    value = last = 0
    for t in sorted(set(score), reverse=True):
        taken = accepted(score, t)
        hits = sum(w[j] for j in taken if positive[j])
        value += hits / sum(w[j] for j in taken) * (hits - last) / all_hits
        last = hits
    return value


def fpr_at_tpr(loss, confidence, tpr):
    """Least share of errors accepted among thresholds that accept enough of the right samples."""
    right, wrong = loss.count(0), loss.count(1)
    shares = []
    for t in set(confidence):
        taken = accepted(confidence, t)
        if sum(loss[j] == 0 for j in taken) / right >= tpr:
            shares.append(sum(loss[j] == 1 for j in taken) / wrong)
    return min(shares)


def oracle_aurc(loss):
    """Mean of the prefix means of the sorted losses."""
    ranked = sorted(loss)
    return sum(sum(ranked[:k]) / k for k in range(1, len(ranked) + 1)) / len(ranked)
