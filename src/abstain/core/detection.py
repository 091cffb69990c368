"""How well confidence separates right from wrong: rows of a 0/1 loss, errors `L` and successes `m - L` in each."""

from __future__ import annotations

from abstain._arrays import Array
from abstain.core.points import reaches
from abstain.core.rows import Rows


def _errors(rows: Rows) -> Array:
    return rows.S[..., -1:]


def auroc(rows: Rows) -> Array:
    """Chance that a random success is more confident than a random error, ties counting half."""
    errors = _errors(rows)
    below = errors - rows.S
    pairs = rows.xp.sum((rows.m - rows.L) * (below + rows.L / 2), axis=-1)
    return pairs / (errors * (rows.W - errors))[..., 0]


def average_precision(rows: Rows, of_errors: bool) -> Array:
    """Sum over thresholds of precision times the recall gained there, whole blocks at a time.

    Errors are looked for from the least confident up, successes from the most confident down.
    """
    xp = rows.xp
    if of_errors:
        hits, found = rows.L, _errors(rows) - rows.S + rows.L
        seen = rows.W - rows.N + rows.m
    else:
        hits, found, seen = rows.m - rows.L, rows.N - rows.S, rows.N
    some = seen > 0
    precision = xp.where(some, found, 0.0) / xp.where(some, seen, 1.0)
    return xp.sum(hits * precision, axis=-1) / xp.sum(hits, axis=-1)


def fpr_at_tpr(rows: Rows, tpr: float) -> Array:
    """Share of errors accepted at the least threshold step that accepts a share `tpr` of the successes."""
    xp = rows.xp
    errors = _errors(rows)
    enough = reaches((rows.N - rows.S) / (rows.W - errors), tpr) & (rows.m > 0)
    accepted = rows.S / errors
    return xp.min(xp.where(enough, accepted, xp.ones_like(accepted)), axis=-1)


def half_mass_area(rows: Rows) -> Array:
    """Mean, over coverages spread evenly, of the loss accepted per sample; a block comes in evenly."""
    return rows.xp.sum(rows.L * (rows.W - rows.N + rows.m / 2), axis=-1) / (rows.W * rows.W)[..., 0]


def rejection_ratio(rows: Rows, oracle: Rows) -> Array:
    """(random - actual) / (random - oracle) of the area above; random order has risk / 2 in closed form.

    0/0 (nothing to gain by any order) is given as 0.
    """
    xp = rows.xp
    random = (rows.S[..., -1:] / rows.W)[..., 0] / 2
    gain, best = random - half_mass_area(rows), random - half_mass_area(oracle)
    some = best > 1e-15 * xp.abs(random)
    return xp.where(some, gain, 0.0) / xp.where(some, best, 1.0)
