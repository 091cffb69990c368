"""Single points read off the rows: a risk at a coverage, a coverage at a risk, the cheapest rejection.

Coverages are compared as quotients `N / total`: 7 of 100 and the literal 0.07 are then the same double, where
`ceil(0.07 * 100)` would ask for 8.
"""

from __future__ import annotations

from abstain._arrays import Array
from abstain.core.rows import Rows


def _first(rows: Rows, good: Array) -> Array:
    """Index, kept as an axis, of the first row (from the top) where `good` holds."""
    return rows.xp.argmax(rows.xp.astype(good, rows.xp.int32), axis=-1, keepdims=True)


def _at(rows: Rows, values: Array, index: Array) -> Array:
    return rows.xp.take_along_axis(values, index, axis=-1)[..., 0]


def coverage(rows: Rows, total: Array) -> Array:
    """Share of `total` accepted at each row."""
    return rows.N / (total[..., None] if getattr(total, "ndim", 0) else total)


def risk_at_coverage(rows: Rows, total: Array, least: float) -> tuple[Array, Array]:
    """Selective risk at the least attainable coverage of at least `least`; and whether there is one."""
    good = (coverage(rows, total) >= least) & (rows.m > 0)
    return _at(rows, rows.risk, _first(rows, good)), rows.xp.any(good, axis=-1)


def coverage_at_risk(rows: Rows, total: Array, most: float) -> Array:
    """Largest coverage whose selective risk is at most `most`; 0 when no threshold does it."""
    share = coverage(rows, total)
    good = (rows.risk <= most) & (rows.m > 0)
    return rows.xp.max(rows.xp.where(good, share, rows.xp.zeros_like(share)), axis=-1)


def rejection_costs(rows: Rows, total: Array, cost: float) -> Array:
    """Chow's cost at each row's threshold: loss of the accepted plus `cost` for each rejected, per sample."""
    whole = total[..., None] if getattr(total, "ndim", 0) else total
    costs = (rows.S + cost * (whole - rows.N)) / whole
    return rows.xp.where(
        rows.m > 0, costs, rows.xp.full_like(costs, float("inf"))
    )  # no threshold inside a tie
