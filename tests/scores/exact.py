"""Scores in 50-digit arithmetic, straight from their definitions: no code shared with the package."""

from __future__ import annotations

import mpmath

DIGITS = 50


def exact_scores(row: list[float], dps: int = DIGITS + 25) -> dict[str, mpmath.mpf]:
    """Every score of one row of logits, as textbooks write it (higher = surer)."""
    with mpmath.workdps(dps):  # e^-50 is 2e-22: by default 1 - p keeps 50 digits
        z = [mpmath.mpf(v) for v in row]
        exps = [mpmath.exp(v) for v in z]
        total = mpmath.fsum(exps)
        p = [e / total for e in exps]
        ranked = sorted(p, reverse=True)
        mean = mpmath.fsum(z) / len(z)
        centred = [v - mean for v in z]
        length = mpmath.sqrt(mpmath.fsum(v * v for v in centred))
        squares = mpmath.fsum(q * q for q in p)
        return {
            "max_softmax": ranked[0] - 1,
            "softmax_margin": ranked[0] - ranked[1] - 1,
            "negative_entropy": mpmath.fsum(q * mpmath.log(q) for q in p),
            "negative_gini": squares - 1,
            "probability_norm": mpmath.sqrt(squares) - 1,
            "max_logit": max(z),
            "logit_margin": sorted(z)[-1] - sorted(z)[-2],
            "energy": mpmath.log(total),
            "logit_norm": mpmath.sqrt(mpmath.fsum(v * v for v in z)),
            "normalised_max_logit": max(centred) / length if length else mpmath.mpf(0),
        }
