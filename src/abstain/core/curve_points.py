"""Single numbers read off the rows: a risk at a coverage, a coverage at a risk, the cheapest rejection, partial areas,
and how well confidence separates right from wrong.

Coverages are compared as quotients `accepted_mass / total`: 7 of 100 and the literal 0.07 are then the same double,
where `ceil(0.07 * 100)` would ask for 8. Sums of fractional weights round, and differently in different orders, so a
share is compared with a requested one by `reaches`: ten weights of 0.1 are half of twenty, whatever rounding says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace
from abstain.core.rounding import AREA_ROUNDING, FLOAT32_ROUNDING, SHARE_ROUNDING
from abstain.core.rows import Rows, safe_divide
from abstain.errors import InfeasibleError


def reaches(share: Array, requested: Array | float) -> Array:
    """Is `share`, a quotient of sums, at least `requested`, but for rounding?"""
    rounding = SHARE_ROUNDING if "64" in str(getattr(share, "dtype", "64")) else FLOAT32_ROUNDING
    return share >= requested - rounding * abs(requested)


def exceeds(value: Array, best: Array) -> Array:
    """Is `value` larger than `best`, but for rounding?"""
    rounding = AREA_ROUNDING if "64" in str(getattr(value, "dtype", "64")) else FLOAT32_ROUNDING
    return value - best > rounding * abs(value)


def normalised_gain(xp: Namespace, gain: Array, reference: Array, best: Array) -> Array:
    """`gain / (reference - best)`, and 0 where the reference does not exceed the best: nothing can be gained there."""
    has_gain = exceeds(reference, best)
    return xp.where(has_gain, gain, 0.0) / xp.where(has_gain, reference - best, 1.0)


def naurc_undefined(estimator: str) -> InfeasibleError:
    """The error for losses whose best order is no better than their mean, by an estimator as the user wrote it."""
    return InfeasibleError(
        f"naurc: by {estimator} the best order of these losses is no better than their mean, so there is nothing to "
        f'divide the excess by. Use estimator="harmonic", or `abstain.e_aurc`.'
    )


def mass_for_share(xp: Namespace, total: Array, share: float, whole: bool) -> Array:
    """The smallest mass that `reaches` a share of the total; a whole number where all masses are whole."""
    mass = share * total * (1 - SHARE_ROUNDING)
    return xp.ceil(mass) if whole else mass


def cheapest(costs: np.ndarray) -> int:
    """Index of the smallest cost; the last one of those that are equal but for rounding."""
    return int(np.flatnonzero(costs <= costs.min() + SHARE_ROUNDING * np.abs(costs).max())[-1])


def first_row(rows: Rows, condition: Array) -> Array:
    """Index of the first row, from the most confident down, where `condition` holds; shape (..., 1)."""
    return rows.xp.argmax(rows.xp.astype(condition, rows.xp.int32), axis=-1, keepdims=True)


def at_row(rows: Rows, values: Array, index: Array) -> Array:
    """The entry of `values` (shape (..., k)) at an index of shape (..., 1), for each table of the batch."""
    return rows.xp.take_along_axis(values, index, axis=-1)[..., 0]


def coverage(rows: Rows, total: Array) -> Array:
    """Share of the mass `total` (a number, or one per table of the batch) that is accepted at each row."""
    return rows.accepted_mass / (total[..., None] if getattr(total, "ndim", 0) else total)


def risk_at_coverage(rows: Rows, total: Array, requested: float) -> tuple[Array, Array]:
    """Selective risk at the smallest attainable coverage of at least `requested`; and whether there is one."""
    is_reached = reaches(coverage(rows, total), requested) & (rows.mass > 0)
    return at_row(rows, rows.risk, first_row(rows, is_reached)), rows.xp.any(is_reached, axis=-1)


def coverage_at_risk(rows: Rows, total: Array, largest_risk: float) -> Array:
    """Largest coverage whose selective risk is at most `largest_risk`; 0 when no threshold has such a risk."""
    share = coverage(rows, total)
    is_within = reaches(-rows.risk, -largest_risk) & (rows.mass > 0)
    return rows.xp.max(rows.xp.where(is_within, share, rows.xp.zeros_like(share)), axis=-1)


def rejection_costs(rows: Rows, total: Array, cost: float) -> Array:
    """Chow's cost at each row's threshold: loss of the accepted plus `cost` for each rejected, per sample.

    Infinite for rows without mass, which are no thresholds.
    """
    all_mass = total[..., None] if getattr(total, "ndim", 0) else total
    costs = (rows.accepted_loss + cost * (all_mass - rows.accepted_mass)) / all_mass
    return rows.xp.where(rows.mass > 0, costs, float("inf"))


def partial_area(rows: Rows, low: float, high: float) -> Array:
    """Mean selective risk between two coverages; at a coverage inside a row the risk is that of the row."""
    xp = rows.xp
    start = xp.maximum(rows.accepted_mass - rows.mass, low * rows.total_mass)
    stop = xp.minimum(rows.accepted_mass, high * rows.total_mass)
    gap = stop - start
    mass_inside = xp.where(gap > 0, gap, xp.zeros_like(gap))
    return xp.sum(mass_inside * rows.risk, axis=-1) / ((high - low) * rows.total_mass[..., 0])


# How well confidence separates right from wrong: rows of a 0/1 loss, whose `loss` is the mass of errors


def _error_mass(rows: Rows) -> Array:
    """Mass of all errors, shape (..., 1)."""
    return rows.accepted_loss[..., -1:]


def auroc(rows: Rows) -> Array:
    """Chance that a random success is more confident than a random error, ties counting half."""
    error_mass = _error_mass(rows)
    errors_below = error_mass - rows.accepted_loss
    pairs = rows.xp.sum((rows.mass - rows.loss) * (errors_below + rows.loss / 2), axis=-1)
    return pairs / (error_mass * (rows.total_mass - error_mass))[..., 0]


def average_precision(rows: Rows, of_errors: bool) -> Array:
    """Sum over thresholds of precision times the recall gained there; samples of a row are found together.

    Errors are searched from the least confident up, successes from the most confident down.
    """
    found = count_found(rows, _error_mass(rows), of_errors)
    xp = rows.xp
    precision = safe_divide(xp, found.hits_so_far, found.mass_so_far)
    return xp.sum(found.hits * precision, axis=-1) / xp.sum(found.hits, axis=-1)


class FoundSamples(NamedTuple):
    """What a search through the rows of a 0/1 loss has found at each row; arrays with one entry per row.

    Attributes
    ----------
    hits : array
        Mass of the samples in the row that are searched for.
    hits_so_far : array
        The same, of this row and all that were searched before it.
    mass_so_far : array
        Mass of all samples in these rows.
    """

    hits: Array
    hits_so_far: Array
    mass_so_far: Array


def count_found(rows: Rows, error_mass: Array | float, of_errors: bool) -> FoundSamples:
    """Count what is found, row by row, in a search of errors from the bottom up, or of right samples from the top down.

    `rows` are those of a 0/1 loss, most confident first; `error_mass` is the mass of all errors of the data set. Hits
    are what is searched for. The result has one entry per row, in the order of `rows`: the hits in the row, and the
    hits and the mass of all samples searched so far, the row itself included.
    """
    if of_errors:
        return FoundSamples(
            hits=rows.loss,
            hits_so_far=error_mass - rows.accepted_loss + rows.loss,
            mass_so_far=rows.total_mass - rows.accepted_mass + rows.mass,
        )
    return FoundSamples(
        hits=rows.mass - rows.loss,
        hits_so_far=rows.accepted_mass - rows.accepted_loss,
        mass_so_far=rows.accepted_mass,
    )


def fpr_at_tpr(rows: Rows, tpr: float) -> Array:
    """Share of errors accepted at the highest threshold that accepts at least a share `tpr` of the successes."""
    xp = rows.xp
    error_mass = _error_mass(rows)
    accepted_successes = (rows.accepted_mass - rows.accepted_loss) / (rows.total_mass - error_mass)
    is_enough = reaches(accepted_successes, tpr) & (rows.mass > 0)
    accepted_errors = rows.accepted_loss / error_mass
    return xp.min(xp.where(is_enough, accepted_errors, xp.ones_like(accepted_errors)), axis=-1)


def accepted_loss_area(rows: Rows, from_coverage: float = 0.0) -> Array:
    """Integral, over coverages from `from_coverage` to 1, of the loss accepted per sample of the whole set.

    `rows` are most confident first. The samples of a row are accepted evenly, one after the other, so the accepted loss
    rises along a straight line within a row. Batches of tables along the leading axes give an array of that shape.
    """
    xp = rows.xp
    squared_total = (rows.total_mass * rows.total_mass)[..., 0]  # `total_mass` has a last axis of length 1
    if from_coverage == 0:
        # the loss of a row counts from its middle to full coverage
        mass_after = rows.total_mass - rows.accepted_mass + rows.mass / 2
        return xp.sum(rows.loss * mass_after, axis=-1) / squared_total
    # of each row, the part before the first coverage does not count
    mass_above = rows.accepted_mass - rows.mass
    distance_to_start = from_coverage * rows.total_mass - mass_above
    mass_before = xp.where(distance_to_start > 0, distance_to_start, xp.zeros_like(distance_to_start))
    mass_before = xp.minimum(mass_before, rows.mass)
    share_before = safe_divide(xp, mass_before, rows.mass)  # 0 for a row without mass
    # halfway between the accepted loss where the part that counts starts, and that at the end of the row
    mean_accepted_loss = rows.accepted_loss - rows.loss + rows.loss * (1 + share_before) / 2
    return xp.sum((rows.mass - mass_before) * mean_accepted_loss, axis=-1) / squared_total


def rejection_ratio(rows: Rows, rows_by_loss: Rows, max_rejection: float = 1.0) -> Array:
    """(random - actual) / (random - best), of the area under the accepted loss for three orders of the samples.

    The actual order is that of `rows`, most confident first; the best one that of `rows_by_loss`, smallest loss first.
    Areas are over coverages from a = 1 - `max_rejection` to 1; in random order the area is R (1 - a^2) / 2, with R the
    risk. Where no order is better than another the ratio is 0.
    """
    xp = rows.xp
    first_coverage = 1 - max_rejection
    risk = (rows.accepted_loss[..., -1:] / rows.total_mass)[..., 0]  # of all samples: that of the last row
    random_area = risk / 2
    if first_coverage > 0:
        random_area = random_area * (1 - first_coverage**2)
    gain = random_area - accepted_loss_area(rows, first_coverage)
    best_area = accepted_loss_area(rows_by_loss, first_coverage)
    # gain / (random_area - best_area), and 0 where the random area is no larger
    return normalised_gain(xp, gain, reference=random_area, best=best_area)
