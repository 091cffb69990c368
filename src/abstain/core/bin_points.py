"""Single numbers that binned counts prove: risk at a coverage, coverage at a risk, failure AUROC."""

from __future__ import annotations

from abstain._arrays import Array
from abstain.core import detection, points
from abstain.core.binning import Bins, Certified, risk_between, total
from abstain.core.rows import Rows


def rows_of_bins(bins: Bins) -> Rows:
    """Each bin as one block, most confident first."""
    xp = bins.xp
    m, L = xp.flip(bins.c, axis=-1), xp.flip(bins.L, axis=-1)
    N, S = xp.cumulative_sum(m, axis=-1), xp.cumulative_sum(L, axis=-1)
    return Rows(m, L, N, S, N[..., -1:], xp)


def auroc(bins: Bins) -> Certified:
    """AUROC of a 0/1 loss: pairs within a bin count half, and may count 0 or 1 unless the bin is one tie."""
    xp = bins.xp
    W, errors = total(bins)
    estimate = detection.auroc(rows_of_bins(bins))
    unsure = xp.sum(xp.where(bins.tie, 0.0, (bins.c - bins.L) * bins.L), axis=-1) / 2
    slack = unsure / (errors * (W - errors))[..., 0]
    return Certified(estimate, estimate - slack, estimate + slack)


def risk_at_coverage(bins: Bins, least: float, most: float | None = 1.0) -> Certified:
    """Selective risk at the least attainable coverage of at least `least`; its place in a bin is not known.

    The estimate spreads the bin's loss evenly over its positions.
    """
    rows = rows_of_bins(bins)
    xp = rows.xp
    reached = points.reaches(rows.N / rows.W, least) & (rows.m > 0)
    place = xp.argmax(xp.astype(reached, xp.int32), axis=-1, keepdims=True)

    def at(values: Array) -> Array:
        return xp.take_along_axis(values, place, axis=-1)[..., 0]

    c, L, N, S = at(rows.m), at(rows.L), at(rows.N - rows.m), at(rows.S - rows.L)
    tie = at(xp.flip(bins.tie, axis=-1))
    position = points.least_mass(xp, rows.W[..., 0], least, bins.whole)
    position = xp.where(tie, N + c, xp.maximum(position, N + (1.0 if bins.whole else 0.0)))
    estimate = (S + L * (position - N) / c) / position
    if most is None:
        return Certified(estimate, None, None)
    low, high = risk_between(xp, position, N, S, c, L, most)
    known = (S + L) / (N + c)
    return Certified(estimate, xp.where(tie, known, low), xp.where(tie, known, high))


def coverage_at_risk(bins: Bins, risk: float, most: float | None = 1.0) -> Certified:
    """Largest coverage within the risk: the edge of a bin is certain, a point inside one is possible."""
    rows = rows_of_bins(bins)
    xp = rows.xp
    low = points.coverage_at_risk(rows, rows.W[..., 0], risk)
    if most is None or risk >= most:
        return Certified(low, low, None if most is None else xp.maximum(low, xp.ones_like(low)))
    S = rows.S - rows.L
    free = rows.N - rows.L / most  # positions that need not have met any of the bin's loss
    reach = xp.minimum(rows.N, (most * free - S) / (most - risk))
    reach = (
        xp.floor(reach * (1 + 1e-12)) if bins.whole else reach
    )  # a quotient may round to just below a whole number
    inside = (rows.m > 0) & ~xp.flip(bins.tie, axis=-1) & (risk * free >= S) & (reach > rows.N - rows.m)
    high = xp.max(xp.where(inside, reach / rows.W, 0.0), axis=-1)
    return Certified(low, low, xp.maximum(low, high))
