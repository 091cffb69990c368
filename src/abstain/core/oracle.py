"""The best any confidence could do: losses in ascending order, each sample its own block.

Among equal losses the order does not matter, so they must not be grouped: grouping would give R^2 for 0/1 loss.
"""

from __future__ import annotations

import numpy as np

from abstain._arrays import Array, Namespace, float_dtype
from abstain.core.estimators import area
from abstain.core.rows import Rows, rows_of_sorted


def oracle_rows(xp: Namespace, loss: Array, weight: Array | None) -> Rows:
    """Rows of samples ordered by loss, smallest on top; equal losses by weight, so that no order of entry shows."""
    wide = float_dtype(xp)
    loss = xp.astype(loss, wide)
    if weight is None:
        ranked = xp.sort(loss, axis=-1)
        return rows_of_sorted(xp, ranked, xp.ones_like(ranked, dtype=xp.bool))
    weight = xp.astype(weight, wide)
    for column in ("weight", "loss"):
        order = xp.argsort(weight if column == "weight" else loss, axis=-1, stable=True)
        loss, weight = xp.take_along_axis(loss, order, axis=-1), xp.take_along_axis(weight, order, axis=-1)
    return rows_of_sorted(xp, loss, xp.ones_like(loss, dtype=xp.bool), weight)


def oracle_area(xp: Namespace, loss: Array, weight: Array | None, estimator: str = "harmonic") -> Array:
    """AURC of the best ordering. Whole-number weights are repetitions, each copy a threshold of its own."""
    rows = oracle_rows(xp, loss, weight)
    whole = weight is None or bool(xp.all(xp.floor(rows.m) == rows.m))
    return area(rows, estimator, "expected" if whole else "threshold")


def zero_one_oracle_rows(errors: float, n: float) -> Rows:
    """The two rows of a 0/1 loss: all that is right on top, all errors below (read with ties="expected")."""
    m = np.asarray([n - errors, errors])
    return Rows(m, np.asarray([0.0, errors]), np.cumsum(m), np.asarray([0.0, errors]), np.asarray([n]))


def asymptotic_oracle(xp: Namespace, risk: Array) -> Array:
    """Population value for 0/1 loss: R + (1 - R) ln(1 - R)."""
    right = 1 - risk
    return risk + right * xp.log(xp.where(right > 0, right, xp.ones_like(right)))
