r"""Limits for samples without spread: all right, all wrong, or perfectly ranked. One-sided, and valid.

With n units and none of them wrong, the risk is at most :math:`p_u = 1 - (1-level)^{1/n}` with probability
`level`. It does not bound AURC by itself, since those errors could sit on top: then the selective risk is 1
up to coverage p and p/c beyond, an area of p (1 - ln p), the largest there is. (Tied confidences only average
it.)
"""

from __future__ import annotations

import math

from abstain.inference._units import Units

Limits = tuple[float, float] | None


def limits(units: Units, estimate: float, level: float, most: float | None) -> Limits:
    """(low, high) when the influences are all zero; None when no limit is known. Losses lie in [0, most]."""
    if not units.zero_one and most is None:
        return None
    top = 1.0 if most is None else most
    p = min(1.0, error_limit(units, level))
    if not units.loss.any():
        return _none_wrong(units.metric, p, top)
    if not units.zero_one:
        return None
    if units.loss.all():
        return _all_wrong(units.metric, p)
    return _perfect_ranking(units, estimate, level)


def error_limit(units: Units, level: float) -> float:
    """Largest risk that shows no error in this many draws with probability 1 - level."""
    p = -math.expm1(math.log1p(-level) / _draws(units))
    if units.clusters is None:
        return p
    import numpy as np

    sizes = np.bincount(units.clusters, units.whole_weight)
    return p * float(sizes.max() / sizes.mean())  # a cluster with an error may be a large one


def _draws(units: Units) -> float:
    if units.clusters is not None:
        return units.sampled
    if units.weight is None:
        return len(units.loss)
    return float(units.weight.sum() ** 2 / (units.weight**2).sum())


def area_limit(p: float) -> float:
    """Largest AURC of risk p: all errors on top."""
    return p * (1 - math.log(p)) if p > 0 else 0.0


def oracle_value(p: float) -> float:
    """Least AURC of risk p: all errors at the bottom."""
    return p + (1 - p) * math.log1p(-p) if p < 1 else 1.0


_UNKNOWN = {
    "naurc": (0.0, math.inf),
    "prediction_rejection_ratio": (-1.0, 1.0),
}  # one kind says nothing of these


def _none_wrong(metric: str, p: float, most: float) -> Limits:
    high = {
        "risk": p,
        "aurc": area_limit(p),
        "e_aurc": area_limit(p),
        "augrc": p,  # reached by one block of ties
        "oracle_aurc": oracle_value(p),
    }
    return (0.0, most * high[metric]) if metric in high else _UNKNOWN.get(metric)


def _all_wrong(metric: str, p: float) -> Limits:
    risk = 1 - p
    found = {
        "risk": (risk, 1.0),
        "aurc": (oracle_value(risk), 1.0),
        "oracle_aurc": (oracle_value(risk), 1.0),
        "augrc": (risk**2 / 2, 1.0),
        "e_aurc": (0.0, area_limit(risk) - oracle_value(risk)),
    }
    return found.get(metric, _UNKNOWN.get(metric))


def _perfect_ranking(units: Units, estimate: float, level: float) -> Limits:
    """Every right sample above every error (or the reverse): k disjoint pairs, all of one kind.

    Pairs drawn apart are independent, so AUROC^k >= 1 - level bounds AUROC from below. Given AUROC = 1 - q,
    AURC is largest with a share q of the errors on top, which adds area_limit(q R) to the oracle's.
    """
    if units.weight is not None or units.clusters is not None:
        return None
    errors = int(units.loss.sum())
    pairs = min(errors, len(units.loss) - errors)
    worst = (1 - level) ** (1 / pairs)
    if units.metric == "auroc":
        return (worst, 1.0) if estimate > 0.5 else (0.0, 1 - worst)
    if units.metric == "prediction_rejection_ratio":
        return (2 * worst - 1, 1.0) if estimate > 0 else (-1.0, 1 - 2 * worst)
    risk = errors / len(units.loss)
    if units.metric == "e_aurc" and estimate <= 1e-12 * risk:
        return 0.0, area_limit((1 - worst) * risk)
    if units.metric == "naurc" and estimate <= 1e-12:
        return 0.0, area_limit((1 - worst) * risk) / (risk - oracle_value(risk))
    return None
