"""Single points read off the rows (a risk at a coverage, a coverage at a risk, the cheapest rejection), and how well
confidence separates right from wrong.

Coverages are compared as quotients `N / total`: 7 of 100 and the literal 0.07 are then the same double, where
`ceil(0.07 * 100)` would ask for 8. Sums of fractional weights round, and differently in different orders, so a share is
held against the one that was asked for with `reaches`: ten weights of 0.1 are half of twenty, whatever rounding says.
"""

from __future__ import annotations

import numpy as np

from abstain._arrays import Array, Namespace
from abstain.core.rows import Rows, safe_divide
from abstain.errors import InfeasibleError

# relative; more than a running sum of ten million weights is off, less than one sample of as many
_SLACK = 1e-11


def reaches(share: Array, least: Array | float) -> Array:
    """Is `share`, a quotient of sums, at least `least`, but for rounding?"""
    slack = _SLACK if "64" in str(getattr(share, "dtype", "64")) else 1e-6
    return share >= least - slack * abs(least)


def has_room(value: Array, best: Array) -> Array:
    """Does `value` exceed `best`, but for rounding? (A running sum of ten million equal losses is off by 1e-10.)"""
    slack = 1e-10 if "64" in str(getattr(value, "dtype", "64")) else 1e-6
    return value - best > slack * abs(value)


def share_of_room(xp: Namespace, part: Array, value: Array, best: Array) -> Array:
    """`part` over what `value` exceeds `best` by; 0 where it does not."""
    some = has_room(value, best)
    return xp.where(some, part, 0.0) / xp.where(some, value - best, 1.0)


def no_scale(estimator: str) -> InfeasibleError:
    """Why an order that is worse than the best has no NAURC."""
    return InfeasibleError(
        f"naurc: by {estimator} the best order of these losses is no better than their mean, so there is nothing to "
        f'divide the excess by. Use estimator="harmonic", or `abstain.e_aurc`.'
    )


def least_mass(xp: Namespace, total: Array, least: float, whole: bool) -> Array:
    """The least mass whose share of the total `reaches(..., least)`; a whole number where all masses are."""
    mass = least * total * (1 - _SLACK)
    return xp.ceil(mass) if whole else mass


def cheapest(costs: np.ndarray) -> int:
    """Place of the least cost; the last of those that are equal but for rounding."""
    return int(np.flatnonzero(costs <= costs.min() + _SLACK * np.abs(costs).max())[-1])


def first_row(rows: Rows, good: Array) -> Array:
    """Index, kept as an axis, of the first row (from the top) where `good` holds."""
    return rows.xp.argmax(rows.xp.astype(good, rows.xp.int32), axis=-1, keepdims=True)


def at_row(rows: Rows, values: Array, index: Array) -> Array:
    """The values of each line's row at `index`."""
    return rows.xp.take_along_axis(values, index, axis=-1)[..., 0]


def coverage(rows: Rows, total: Array) -> Array:
    """Share of `total` accepted at each row."""
    return rows.accepted_mass / (total[..., None] if getattr(total, "ndim", 0) else total)


def risk_at_coverage(rows: Rows, total: Array, least: float) -> tuple[Array, Array]:
    """Selective risk at the least attainable coverage of at least `least`; and whether there is one."""
    good = reaches(coverage(rows, total), least) & (rows.mass > 0)
    return at_row(rows, rows.risk, first_row(rows, good)), rows.xp.any(good, axis=-1)


def coverage_at_risk(rows: Rows, total: Array, most: float) -> Array:
    """Largest coverage whose selective risk is at most `most`; 0 when no threshold does it."""
    share = coverage(rows, total)
    good = reaches(-rows.risk, -most) & (rows.mass > 0)
    return rows.xp.max(rows.xp.where(good, share, rows.xp.zeros_like(share)), axis=-1)


def rejection_costs(rows: Rows, total: Array, cost: float) -> Array:
    """Chow's cost at each row's threshold: loss of the accepted plus `cost` for each rejected, per sample."""
    whole = total[..., None] if getattr(total, "ndim", 0) else total
    costs = (rows.accepted_loss + cost * (whole - rows.accepted_mass)) / whole
    return rows.xp.where(rows.mass > 0, costs, float("inf"))  # no threshold inside a tie


# How well confidence separates right from wrong: rows of a 0/1 loss, errors `L` and successes `m - L` in each


def _errors(rows: Rows) -> Array:
    return rows.accepted_loss[..., -1:]


def auroc(rows: Rows) -> Array:
    """Chance that a random success is more confident than a random error, ties counting half."""
    errors = _errors(rows)
    below = errors - rows.accepted_loss
    pairs = rows.xp.sum((rows.mass - rows.loss) * (below + rows.loss / 2), axis=-1)
    return pairs / (errors * (rows.total_mass - errors))[..., 0]


def average_precision(rows: Rows, of_errors: bool) -> Array:
    """Sum over thresholds of precision times the recall gained there, whole blocks at a time.

    Errors are looked for from the least confident up, successes from the most confident down.
    """
    hits, found, seen = found_by(rows, _errors(rows), of_errors)
    xp = rows.xp
    return xp.sum(hits * safe_divide(xp, found, seen), axis=-1) / xp.sum(hits, axis=-1)


def found_by(rows: Rows, errors: Array | float, of_errors: bool) -> tuple[Array, Array, Array]:
    """Hits in each row, and what is found and seen there: errors from below (of so many in all), or the right ones."""
    if of_errors:
        return (
            rows.loss,
            errors - rows.accepted_loss + rows.loss,
            rows.total_mass - rows.accepted_mass + rows.mass,
        )
    return rows.mass - rows.loss, rows.accepted_mass - rows.accepted_loss, rows.accepted_mass


def fpr_at_tpr(rows: Rows, tpr: float) -> Array:
    """Share of errors accepted at the least threshold step that accepts a share `tpr` of the successes."""
    xp = rows.xp
    errors = _errors(rows)
    enough = reaches((rows.accepted_mass - rows.accepted_loss) / (rows.total_mass - errors), tpr) & (
        rows.mass > 0
    )
    accepted = rows.accepted_loss / errors
    return xp.min(xp.where(enough, accepted, xp.ones_like(accepted)), axis=-1)


def half_mass_area(rows: Rows) -> Array:
    """Mean, over coverages spread evenly, of the loss accepted per sample; a block comes in evenly."""
    return (
        rows.xp.sum(rows.loss * (rows.total_mass - rows.accepted_mass + rows.mass / 2), axis=-1)
        / (rows.total_mass * rows.total_mass)[..., 0]
    )


def rejection_ratio(rows: Rows, oracle: Rows) -> Array:
    """(random - actual) / (random - oracle) of the area above; random order has risk / 2 in closed form.

    0/0 (nothing to gain by any order) is given as 0.
    """
    xp = rows.xp
    random = (rows.accepted_loss[..., -1:] / rows.total_mass)[..., 0] / 2
    return share_of_room(xp, random - half_mass_area(rows), random, half_mass_area(oracle))
