r"""Influence functions: how much one sample moves an area, by cumulative sums after the one sort.

For a metric T of the weights w, with W their sum, the influence of sample i is the derivative of T when a
little mass is taken evenly from all samples and given to i (Gateaux's derivative, at the sample):

.. math:: \mathrm{IF}_i = W\,\partial T/\partial w_i - \sum_j w_j\,\partial T/\partial w_j,
          \qquad \sum_i w_i\,\mathrm{IF}_i = 0

and the standard error is :math:`\sqrt{\sum_i (w_i \mathrm{IF}_i)^2} / W`. Every area here is linear in the
losses once the ranking is given, so within a row of equal confidence the influence is `constant + slope * loss`,
where the slope of an area is its rank weight. `Area` and its subclasses have the derivatives, a `MetricDerivative`
makes a metric of an area, `RankedLoss` turns rows into the influence of each sample (`part_sums` adds up its powers).
numpy only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core.area_estimators import (
    area_terms,
    asymptotic_oracle,
    base_estimator,
    harmonic_difference,
    has_only_single_samples,
    log_factorial_difference,
    row_weights,
    sum_inverse_positions,
    zero_one_oracle_rows,
)
from abstain.core.curve_points import count_found
from abstain.core.rounding import SHARE_ROUNDING
from abstain.core.rows import Ranking, Rows, diff_from, make_row_sum, rank_confidences, safe_divide
from abstain.core.sorting import CHUNK

PIECE = 1 << 13  # samples at a time: in cache, and BLAS takes dot products of so many in one thread


class RowInfluence(NamedTuple):
    """How a metric changes with the weight of one sample of each row: `constant + slope * loss`.

    This is the derivative of `total_mass * metric` in the weight of a sample whose loss is `loss`. Adding one number
    to all constants changes nothing, because influences are centred afterwards.

    Attributes
    ----------
    constant, slope : ndarray, shape (k,)
        One entry per row, most confident first.

    Examples
    --------
    The mean loss: a sample of loss l adds l, whatever its row.

    >>> RowInfluence(constant=np.zeros(2), slope=np.ones(2)).slope.tolist()
    [1.0, 1.0]
    """

    constant: np.ndarray
    slope: np.ndarray


class LossLine(NamedTuple):
    """A straight line in the loss of a sample, `constant + slope * loss`: numbers, or arrays by part of the ranking."""

    constant: Any
    slope: Any


class AreaDerivative(NamedTuple):
    """What some rows add to (total mass) * (area), and the derivative of that in the weight of one sample.

    For a sample of loss l in one of the rows the derivative is `constant + slope * l`, up to one number that is the
    same for all samples of the data set (influences are centred afterwards, which removes it).

    The rows may be a part of a longer ranking. A sample then changes the terms of rows in other parts as well. Each
    part reports what a sample outside it does to its own terms, in `for_rows_above` and `for_rows_below`.

    Attributes
    ----------
    mass_times_area : float
        What these rows add to (total mass of the data set) * (area).
    constant, slope : ndarray, shape (k,)
        For a sample in each row, most confident first: its effect on the terms of these rows, its own row included.
    for_rows_above, for_rows_below : LossLine
        For a sample in any row above all of these, or below all of these: its effect on the terms of these rows. It is
        added to the constant and the slope of that sample's row.
    """

    mass_times_area: float
    constant: np.ndarray
    slope: np.ndarray
    for_rows_above: LossLine = LossLine(0.0, 0.0)
    for_rows_below: LossLine = LossLine(0.0, 0.0)


# areas ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Area:
    """A sum over the rows of a ranking that a metric is made of; subclasses say which.

    Areas compare equal when their fields do, so that an area is the key of what was computed for it.
    """

    weighs_by_rank: ClassVar[bool] = False  # does a loss count by its rank?
    is_additive: ClassVar[bool] = True  # can parts of a ranking be handled apart and added up?

    def derivative(self, rows: Rows, error_mass: float = math.nan) -> AreaDerivative:
        """Compute what rows add to (total mass) * (area), and the derivative of that in the weight of a sample.

        The derivative is `constant + slope * loss` for a sample of each row, up to a number that all samples share.
        `rows` may be a part of the ranking: one row per distinct confidence, most confident first, whose accepted sums
        and total mass are those of the whole data set. `error_mass` is the mass of all errors of the data set, nan
        where losses are not 0/1; only `PrecisionArea` reads it.
        """
        raise NotImplementedError

    def rank_weights(self, rows: Rows) -> Array:
        """The weight of a loss in each row; only for areas that weigh by rank."""
        raise NotImplementedError

    @property
    def needs_both_kinds(self) -> bool:
        """Is it defined only for 0/1 losses with both right and wrong samples?"""
        return False

    @property
    def reads_rows_above(self) -> bool:
        """Does a row's derivative depend on rows above it?"""
        return False

    def with_loss_unit(self, loss_unit: float) -> Area:
        """The area of losses that are stored in units of `loss_unit`; for areas that scale with the loss the same."""
        return self

    def of_best_order(self, has_whole_weights: bool) -> Area:
        """The area of the order by loss, in which equal losses are no ties; weights may be whole numbers or not."""
        return self

    @property
    def has_leave_one_out(self) -> bool:
        """Is there a less biased version of this area by leave-one-out weights?"""
        return False

    def leave_one_out(self, rows: Rows) -> float:
        """What rows add to (total mass) * (the leave-one-out version of this area); nan where there is none."""
        return math.nan


@dataclass(frozen=True)
class AreaUnderCurve(Area):
    """The area under the risk-coverage curve, by one estimator and one rule for equal confidences.

    With estimator "sele" it is the area under the generalised risk, AUGRC.
    """

    estimator: str = "harmonic"
    ties: str = "threshold"
    weighs_by_rank: ClassVar[bool] = True

    def derivative(self, rows: Rows, error_mass: float = math.nan) -> AreaDerivative:
        """Compute what rows add to (total mass) * (area), and the derivative of that in the weight of a sample.

        The derivative is `constant + slope * loss` for a sample of each row, up to a number that all samples share.
        `rows` may be a part of the ranking: one row per distinct confidence, most confident first, whose accepted sums
        and total mass are those of the whole data set. `error_mass` is not read: all areas take the same arguments, and
        only `PrecisionArea` needs it.

        A sample of loss l adds l times the rank weight of its row (the slope). One more unit of mass in a row also
        raises the mass m of that row, and the accepted mass N of that row and of all rows below it. The constant is
        the sum of what these two do to the terms of the area.
        """
        estimator = self.estimator
        ties = self.ties
        if estimator == "harmonic" and ties == "threshold" and not rows.has_empty_rows:
            # the usual case, computed faster; it divides by every accepted mass
            return _plain_area_derivative(rows)
        slope = row_weights(rows, estimator, ties)  # the rank weight of each row
        # derivatives of the term of each row in its mass m and in its accepted mass N, one entry per row each
        effects = _mass_effects(rows, estimator, ties)
        constant = effects.of_row_mass
        # what a sample in any row above these does to their terms: constant_above + slope_above * loss
        constant_above = 0.0
        slope_above = 0.0
        if effects.of_accepted_mass is not None:  # None: the terms do not depend on N, as with "sele"
            # N rises in the sample's own row and in all rows below it
            sum_at_and_below = np.cumsum(effects.of_accepted_mass[::-1])[::-1]
            constant = constant + sum_at_and_below
            constant_above = float(sum_at_and_below[0])
        # These rank weights are sums over the rows at and below a sample, so a sample further up has those of the top
        # row too. All other rank weights follow from the total mass alone and need nothing from the rows below.
        if ties == "threshold" and estimator in ("harmonic", "loo"):
            slope_above = float(slope[0])
            mass_of_others = float(rows.accepted_mass[0]) - 1
            if estimator == "loo" and mass_of_others > 0:
                # the weight of a sample of the top row leaves itself out, that of a sample further up does not
                slope_above += 1 / mass_of_others
        return AreaDerivative(
            mass_times_area=float(np.sum(area_terms(rows, estimator, ties))),
            constant=constant,
            slope=slope,
            for_rows_above=LossLine(constant=constant_above, slope=slope_above),
        )

    def of_best_order(self, has_whole_weights: bool) -> Area:
        """The area of the order by loss, in which equal losses are no ties; weights may be whole numbers or not.

        Whole weights are repetitions, each of which is a threshold of its own.
        """
        return AreaUnderCurve(self.estimator, "expected" if has_whole_weights else "threshold")

    def rank_weights(self, rows: Rows) -> Array:
        """The weight of a loss in each row; only for areas that weigh by rank."""
        return row_weights(rows, self.estimator, self.ties)

    @property
    def has_leave_one_out(self) -> bool:
        """Is there a less biased version of this area by leave-one-out weights?"""
        return base_estimator(self.estimator).name != "sele"

    def leave_one_out(self, rows: Rows) -> float:
        """What rows add to (total mass) * (the leave-one-out version of this area); nan where there is none."""
        if not self.has_leave_one_out:
            return math.nan
        # the log weights of equal confidences are averaged under either rule, as if they came in random order
        ties = "expected" if self.estimator == "log" else self.ties
        return float(np.sum(area_terms(rows, "loo", ties)))


def _plain_area_derivative(rows: Rows) -> AreaDerivative:
    """Compute the harmonic area with ties accepted together, and its derivative in the weight of a sample.

    `rows` has one row per distinct confidence, most confident first, and none is empty; they may be a part of the
    ranking. With m, N and R the mass, accepted mass and selective risk of a row, (total mass) * (area) is the sum of
    m R. One more unit of mass with loss l, in some row,

    - raises m of that row by 1, which adds its R;
    - raises N of that row and of all rows below by 1, which takes R / N from their risks;
    - adds l / N to the same risks.

    So the slope is the sum of m / N over the row and all rows below it, and the constant is R of the row less the sum
    of R m / N over the same rows. A sample above all of these rows does the last two to all of them, and does not raise
    their masses m: that is `for_rows_above`.
    """
    share = rows.mass / rows.accepted_mass  # m / N
    risk = rows.risk
    # two cumulative sums from the last row up: over each row and all rows below it
    slope, risk_at_and_below = running_sums(share, share * risk, from_below=True)
    return AreaDerivative(
        mass_times_area=float(np.sum(rows.mass * risk)),
        constant=risk - risk_at_and_below,
        slope=slope,
        # the sums that start at the top row are those over all of these rows
        for_rows_above=LossLine(constant=-float(risk_at_and_below[0]), slope=float(slope[0])),
    )


class _RowsAtEnds(NamedTuple):
    """Indices, in a part of the ranking, of the rows in which the lower and the upper coverage fall.

    None where a coverage falls in another part of the ranking, and for a lower coverage of 0, which is in no row.
    """

    low_row: int | None
    high_row: int | None


@dataclass(frozen=True)
class PartialArea(Area):
    r"""Mean selective risk between two coverages: :math:`\frac{1}{b-a} \int_a^b R(c)\,dc`.

    R(c) is the risk of the first row that reaches coverage c. With A = aW and B = bW the masses at the two ends, a
    member of a row changes the mass inside [A, B]: a member above A shifts a little of the row that holds A out and
    of the row that holds B in, one inside adds to its own row. The row that holds an end reports its risk to all
    rows above it, so that parts of the ranking need not know where the ends are.
    """

    low: float
    high: float
    weighs_by_rank: ClassVar[bool] = True

    def derivative(self, rows: Rows, error_mass: float = math.nan) -> AreaDerivative:
        """Compute what rows add to (total mass) * (area), and the derivative of that in the weight of a sample.

        The derivative is `constant + slope * loss` for a sample of each row, up to a number that all samples share.
        `rows` may be a part of the ranking: one row per distinct confidence, most confident first, whose accepted sums
        and total mass are those of the whole data set. `error_mass` is not read: all areas take the same arguments, and
        only `PrecisionArea` needs it.

        Of each row, m is the mass that lies between the two coverages `self.low` and `self.high`, N the accepted mass
        and R the selective risk. (Total mass) * (area) is the sum of m R, divided by the width `self.high - self.low`.
        One more unit of mass with loss l, in some row,

        - changes the risks R of that row and of all rows below by (l - R) / N, each of which counts m times;
        - raises m of that row by 1, unless the row ends outside of the two coverages;
        - moves all rows below it down by 1: m rises by 1 in the row where the lower coverage falls, and drops by 1
          in the row where the upper coverage falls.

        The two coverages also move as the total mass rises, by the same amount for every sample, which is left out.
        What a sample above all of these rows does to their terms is `for_rows_above`: the caller adds it to the
        constants and slopes of the parts above.
        """
        width = self.high - self.low  # above 0
        mass_inside = self._mass_inside(rows)  # m
        risk = rows.risk
        share = mass_inside / rows.accepted_mass  # m / N
        # sums of m / N, and of R m / N, over each row and all of these rows below it
        slope, risk_at_and_below = running_sums(share, share * risk, from_below=True)
        constant = np.where(mass_inside > 0, risk, 0.0) - risk_at_and_below  # R for the unit by which m rises
        constant_above = -float(risk_at_and_below[0])  # a sample above raises no m
        rows_at_ends = self._rows_at_ends(rows)
        # None: the lower coverage is 0, or falls in another part of the ranking
        if rows_at_ends.low_row is not None:
            # For samples above this row, one more unit of it lies after the lower coverage. Not for samples of the
            # row itself: the unit by which they raise its m is counted already.
            constant[: rows_at_ends.low_row] += risk[rows_at_ends.low_row]
            constant_above += float(risk[rows_at_ends.low_row])
        # None: the upper coverage falls in another part of the ranking
        if rows_at_ends.high_row is not None:
            # For samples above this row, one unit of it less lies before the upper coverage. Samples of the row itself
            # (hence + 1) add to its end, which lies after that coverage: they leave m as it is, and R was counted.
            constant[: rows_at_ends.high_row + 1] -= risk[rows_at_ends.high_row]
            constant_above -= float(risk[rows_at_ends.high_row])
        return AreaDerivative(
            mass_times_area=float(np.sum(mass_inside * risk)) / width,
            constant=constant / width,
            slope=slope / width,
            for_rows_above=LossLine(constant=constant_above / width, slope=float(slope[0]) / width),
        )

    def rank_weights(self, rows: Rows) -> Array:
        """The weight of a loss in each row; only for areas that weigh by rank."""
        share = self._mass_inside(rows) / rows.accepted_mass
        return np.cumsum(share[::-1])[::-1] / (self.high - self.low)

    def _mass_inside(self, rows: Rows) -> np.ndarray:
        """The part of each row's mass that lies between the two coverages."""
        total_mass = float(rows.total_mass[0])
        first = np.maximum(rows.accepted_mass - rows.mass, self.low * total_mass)
        last = np.minimum(rows.accepted_mass, self.high * total_mass)
        return np.maximum(last - first, 0.0)

    def _rows_at_ends(self, rows: Rows) -> _RowsAtEnds:
        """Find the indices in `rows` of the rows in which the two coverages, `self.low` and `self.high`, fall.

        Indices count from 0 at the first of `rows`. Where a coverage is exactly the end of a row, the lower coverage
        falls in the next row, and the upper one in the row that ends there. None for a coverage that falls in none of
        `rows`, which are most confident first and may be a part of the ranking, and for a lower coverage of 0.
        """
        total_mass = float(rows.total_mass[0])
        # an accepted mass that is an end but for rounding counts as that end
        low_mass = self.low * total_mass * (1 + SHARE_ROUNDING)
        high_mass = self.high * total_mass * (1 - SHARE_ROUNDING)
        # this part of the ranking holds the masses from `mass_above` to `mass_through`
        mass_above = float(rows.accepted_mass[0] - rows.mass[0])
        mass_through = float(rows.accepted_mass[-1])
        low_row = None
        high_row = None
        if self.low > 0 and mass_above <= low_mass < mass_through:
            low_row = int(np.searchsorted(rows.accepted_mass, low_mass, side="right"))
        if mass_above < high_mass <= mass_through:
            high_row = int(np.searchsorted(rows.accepted_mass, high_mass))
        return _RowsAtEnds(low_row=low_row, high_row=high_row)


@dataclass(frozen=True)
class AcceptedLossArea(Area):
    r"""Area under the accepted loss per sample, from one coverage to full coverage: :math:`\int_a^1 S(c)/W\,dc`.

    Equal confidences are accepted evenly. This is the area that AUROC and the rejection ratio are made of.
    """

    from_coverage: float = 0.0

    @property
    def needs_both_kinds(self) -> bool:
        """Is it defined only for 0/1 losses with both right and wrong samples?"""
        return True

    def derivative(self, rows: Rows, error_mass: float = math.nan) -> AreaDerivative:
        """Compute what rows add to (total mass) * (area), and the derivative of that in the weight of a sample.

        The derivative is `constant + slope * loss` for a sample of each row, up to a number that all samples share:
        that a sample also raises the total mass, by which the terms are divided, is left out. `rows` may be a part of
        the ranking, whatever `self.from_coverage` is: one row per distinct confidence, most confident first, whose
        accepted sums and total mass are those of the whole data set. `error_mass` is not read: all areas take the same
        arguments, and only `PrecisionArea` needs it.

        A sample of loss l adds l times the share of the coverage after it, half of its own row included (the slope),
        and the loss accepted before it, half of its own row included, per total mass (the constant). Samples of a row
        are accepted evenly. These two include what the sample does to rows in other parts, so that `for_rows_above`
        (what a sample further up, in another part, adds to these rows) keeps its default of 0.
        """
        if self.from_coverage > 0:
            return self._truncated_derivative(rows)
        slope = (rows.total_mass - rows.accepted_mass + rows.mass / 2) / rows.total_mass
        constant = (rows.accepted_loss - rows.loss / 2) / rows.total_mass
        # (total mass) * (area) is the sum of the losses times these slopes
        return AreaDerivative(mass_times_area=dot(rows.loss, slope), constant=constant, slope=slope)

    def _truncated_derivative(self, rows: Rows) -> AreaDerivative:
        """Compute the same as `derivative` where the area starts at `self.from_coverage` above 0.

        That is what rows add to (total mass) * (area), and the derivative of that in the weight of a sample,
        `constant + slope * loss` by row. The derivative is taken with the total mass W and the first mass
        `self.from_coverage * W` held fixed: what a sample changes through these two is the same for all samples, and
        influences are centred afterwards.

        Of a row, only the part beyond the first coverage counts; rows wholly before it add their loss to every later
        coverage. A sample above the row that holds the first coverage pushes some of that row across it, which adds the
        loss accepted there to the constant (`for_rows_above`, for samples in other parts of the ranking). `rows` are
        most confident first, and may be a part of the ranking; each has a mass above 0. Their samples are accepted
        evenly: the loss accepted within a row rises along a straight line.
        """
        total_mass = float(rows.total_mass[0])
        first_mass = self.from_coverage * total_mass
        mass_above = rows.accepted_mass - rows.mass
        loss_above = rows.accepted_loss - rows.loss
        # s: the share of a row's mass that lies before the first coverage
        share_before = np.clip((first_mass - mass_above) / rows.mass, 0.0, 1.0)
        # the mass at all coverages that lie after both the end of the row and the first coverage
        mass_after = np.minimum(total_mass - rows.accepted_mass, total_mass - first_mass)
        mass_inside = rows.mass * (1 - share_before)
        # from s to 1, a row has accepted (1 + s) / 2 of its loss on average
        slope = (mass_inside * (1 + share_before) / 2 + mass_after) / total_mass
        terms = mass_inside * (loss_above + rows.loss * (1 + share_before) / 2)
        # The derivative of a row's term m (1 - s) (A + L (1 + s) / 2) in its mass m, with L its loss and A the loss
        # above. m s, the mass before the first coverage, stays as it is, so s falls by s / m: A + L (1 + s^2) / 2.
        constant = (loss_above + rows.loss * (1 + share_before**2) / 2) / total_mass
        # the loss accepted at the first coverage; 0 where that falls in another part of the ranking
        loss_at_start = 0.0
        has_start = mass_above[0] <= first_mass < rows.accepted_mass[-1]
        if has_start:
            first_row = int(np.searchsorted(rows.accepted_mass, first_mass, side="right"))
            loss_at_start = float(loss_above[first_row] + rows.loss[first_row] * share_before[first_row])
        is_wholly_before = rows.accepted_mass <= first_mass
        constant = np.where(is_wholly_before, loss_at_start / total_mass, constant)
        return AreaDerivative(
            mass_times_area=float(np.sum(terms)) / total_mass,  # the area is the sum of the terms over W^2
            constant=constant,
            slope=slope,
            for_rows_above=LossLine(constant=loss_at_start / total_mass, slope=0.0),
        )


@dataclass(frozen=True)
class PrecisionArea(Area):
    r"""Average precision times the share of hits: :math:`\frac1W \sum_t p_t P_t / N_t`.

    p are the hits of a row, P and N what was found and searched up to it. Errors are searched from the least
    confident up, right samples from the most confident down. A member's derivative depends on the rows that come
    after it in the search.
    """

    of_errors: bool

    @property
    def needs_both_kinds(self) -> bool:
        """Is it defined only for 0/1 losses with both right and wrong samples?"""
        return True

    @property
    def reads_rows_above(self) -> bool:
        """Does a row's derivative depend on rows above it?

        A search from the least confident up meets the rows above later.
        """
        return self.of_errors

    def derivative(self, rows: Rows, error_mass: float = math.nan) -> AreaDerivative:
        """Compute what rows add to (total mass) * (area), and the derivative of that in the weight of a sample.

        The derivative is `constant + slope * loss` for a sample of each row. The area is average precision times the
        share of hits among all samples, so (total mass) * (area) is the sum over rows of their hits times the precision
        there. `rows` may be a part of the ranking: one row per distinct confidence, most confident first, whose
        accepted sums and total mass are those of the whole data set. `error_mass` is the mass of all errors of the data
        set.

        Samples are searched from the least confident up for errors (`self.of_errors`), or from the most confident down
        for right samples; what is searched for are the hits. With p the hits in a row, P the hits found and N the mass
        searched up to it: a hit adds P / N of its row and the sum of p / N over the rows at or after it in the search;
        any sample there costs the sum of p P / N^2. Losses are 0/1: hits are losses of 1 for errors, of 0 for right
        samples. A sample in another part of the ranking that is searched before these rows changes all of their terms:
        samples below them in the search for errors (`for_rows_below`), above them otherwise (`for_rows_above`).
        """
        # p, P and N of each row, in the order of `rows`
        found = count_found(rows, error_mass, self.of_errors)
        # N, with 1 in place of 0: rows without mass may come first in the search, with no hits either
        mass_so_far = _positive(found.mass_so_far)
        precision = found.hits_so_far / mass_so_far  # P / N
        gain = found.hits / mass_so_far  # p / N
        # Sums over the rows at or after each row in the search. For errors it goes up, so that these are the rows at or
        # above it, summed from the first row on; for right samples it goes down.
        later_gain, later_cost = running_sums(gain, gain * precision, from_below=not self.of_errors)
        mass_times_area = dot(found.hits, precision)
        if self.of_errors:  # a hit has the loss 1
            return AreaDerivative(
                mass_times_area=mass_times_area,
                constant=-later_cost,
                slope=precision + later_gain,
                for_rows_below=LossLine(constant=-float(later_cost[-1]), slope=float(later_gain[-1])),
            )
        # a hit has the loss 0: what it gains is in the constant, and the slope takes it from errors, of loss 1
        return AreaDerivative(
            mass_times_area=mass_times_area,
            constant=precision + later_gain - later_cost,
            slope=-precision - later_gain,
            for_rows_above=LossLine(
                constant=float(later_gain[0] - later_cost[0]), slope=-float(later_gain[0])
            ),
        )


def running_sums(first: np.ndarray, second: np.ndarray, from_below: bool) -> tuple[np.ndarray, np.ndarray]:
    """Cumulative sums of two columns, from the first entry on or (`from_below`) from the last entry back.

    Each addition of a cumulative sum waits for the one before, so both sums are made at once, as complex numbers,
    which takes hardly longer than one.
    """
    pair = np.empty(first.shape, dtype=np.complex128)
    pair.real = first
    pair.imag = second
    pair = np.cumsum(pair[::-1])[::-1] if from_below else np.cumsum(pair)
    return pair.real.copy(), pair.imag.copy()


class _MassEffects(NamedTuple):
    """Derivatives of the term that each row adds to (total mass) * (area), by the mass of one more sample.

    The loss of the sample is held fixed; its effect is the rank weight. A sample raises the mass m of its own row, and
    the accepted mass N of its own row and of all rows below it.

    Attributes
    ----------
    of_accepted_mass : array or None
        Derivative of each row's term in N at constant m; None where terms do not depend on N.
    of_row_mass : array
        Derivative of each row's term in m at constant N, to be added for a sample of this row alone.
    """

    of_accepted_mass: Array | None
    of_row_mass: Array


def _mass_effects(rows: Rows, estimator: str, ties: str) -> _MassEffects:
    """Differentiate the terms of an area in the mass m and the accepted mass N of their row, at constant losses.

    The terms add up to (total mass) * (area). Effects of the total mass itself are left out: they are the same for a
    sample of any row, and influences are centred afterwards. `rows` are most confident first. `ties` is "threshold"
    (equal confidences are accepted together) or "expected" (one by one, in random order). Of the estimators, "harmonic"
    averages the selective risk over thresholds, "loo" that of the other samples, "log" weighs losses by -ln(1 - rank /
    (n + 1)), "sele" by rank / n.

    Both fields of the result have one entry per row; `of_accepted_mass` is None where it would be 0 for all rows.
    """
    base, factor = base_estimator(estimator)  # "2sele" is 2 times "sele"; all others have the factor 1
    if base == "sele":
        # With m, L and S the mass, loss and accepted loss of a row and W the total mass, its term is m S / W, or
        # (m (S - L / 2) + L / 2) / W where its samples are accepted one by one in random order. Neither depends on N.
        accepted_loss = rows.accepted_loss if ties == "threshold" else rows.accepted_loss - rows.loss / 2
        return _MassEffects(of_accepted_mass=None, of_row_mass=factor * accepted_loss / rows.total_mass)
    if estimator == "log":  # the same for either rule: tied samples get the mean weight of their positions
        return _log_effects(rows)
    if ties == "threshold":
        return _threshold_effects(rows, estimator)
    # "loo" has the terms of "harmonic" less L / W, with L the loss of the row and W the total mass. These add up to
    # (total loss) / W, which depends on the mass of a sample through W alone.
    return _expected_effects(rows)


def _threshold_effects(rows: Rows, estimator: str) -> _MassEffects:
    """Differentiate terms m S / N ("harmonic") or (m S - L) / (N - 1) ("loo") in m and in N, at constant S and L.

    A row has mass m and loss L, and accepts mass N and loss S. What the loss of a sample does through S and L is its
    rank weight, which is computed elsewhere (`row_weights`). For a sample of the row itself both derivatives are added,
    since it raises both m and N. Quotients with a denominator of 0 count as 0.
    """
    if estimator == "loo":
        numerator = rows.mass * rows.accepted_loss - rows.loss
        inverse_denominator = safe_divide(np, 1.0, rows.accepted_mass - 1.0)
    else:
        numerator = rows.mass * rows.accepted_loss
        inverse_denominator = safe_divide(np, 1.0, rows.accepted_mass)
    return _MassEffects(
        of_accepted_mass=-numerator * inverse_denominator * inverse_denominator,
        of_row_mass=rows.accepted_loss * inverse_denominator,
    )


def _log_effects(rows: Rows) -> _MassEffects:
    """Differentiate the terms L (ln(W + 1) - D/m), with D = ln N! - ln(N-m)!, in N and in m, the other held fixed.

    A row has mass m and loss L, and accepts mass N; W is the total mass, whose change is left out because it does not
    depend on the row of the sample. For a sample of the row itself both derivatives are added, since it raises both m
    and N; then N - m stays as it is, and D changes by digamma(N + 1). Factorials are extended by the Gamma function,
    whose logarithm has the derivative digamma, a harmonic number less Euler's constant. A row without mass has no loss
    either, so its derivatives are 0.
    """
    mass_above = rows.accepted_mass - rows.mass
    mass = _positive(rows.mass)  # 1 in place of 0
    # derivative of D in N at constant m: digamma(N + 1) - digamma(N - m + 1)
    digamma_difference = harmonic_difference(np, mass_above, rows.accepted_mass)
    # derivative of D in m at constant N: digamma(N - m + 1), which is H_(N - m) less Euler's constant
    digamma_above = harmonic_difference(np, np.zeros_like(mass_above), mass_above) - np.euler_gamma
    mean_log = log_factorial_difference(np, mass_above, rows.accepted_mass) / mass  # D / m
    # of -L D / m: in N, with D as the only factor that changes; in m, by the rule for quotients
    return _MassEffects(
        of_accepted_mass=-rows.loss * digamma_difference / mass,
        of_row_mass=rows.loss * (mean_log - digamma_above) / mass,
    )


def _expected_effects(rows: Rows) -> _MassEffects:
    """Differentiate the terms (S - L) g + L (1 - a g / m), with a = N - m and g = H_N - H_a, in N and in m.

    A row has mass m and loss L, and accepts mass N and loss S. Its term is the sum of the selective risks of its m
    samples when they are accepted one by one in random order, on average. A sample in a row above raises N and a, which
    is the derivative in N at constant m. For a sample of the row itself the derivative in m at constant N is added:
    together they raise N and m, and a stays. Harmonic numbers are extended by the digamma function, whose derivative is
    trigamma, with trigamma(k) - trigamma(k + 1) = 1 / k^2. `rows` are most confident first. A row without mass has no
    loss either; `_positive` divides by 1 there.
    """
    from scipy.special import polygamma

    # Trigamma(a + 1) of every row comes from running sums: it is trigamma(N + 1) of the last row, plus the differences
    # trigamma(a + 1) - trigamma(N + 1) of the row and of all rows below it, since a of a row is N of the row before.
    # A call of `polygamma` for every row would cost much more.
    trigamma_at_bottom = polygamma(1, rows.accepted_mass[..., -1:] + 1)
    if has_only_single_samples(rows):  # m = 1 and g = 1 / N: the formulas at the end, simplified
        square = 1 / np.square(rows.accepted_mass)  # trigamma(a + 1) - trigamma(N + 1)
        trigamma_above = trigamma_at_bottom + np.cumsum(square[..., ::-1], axis=-1)[..., ::-1]
        of_row_mass = trigamma_above * (rows.accepted_loss - rows.loss * rows.accepted_mass) + rows.loss
        return _MassEffects(of_accepted_mass=-rows.accepted_loss * square, of_row_mass=of_row_mass)
    a = rows.accepted_mass - rows.mass
    loss_above = rows.accepted_loss - rows.loss
    mass = _positive(rows.mass)
    g = sum_inverse_positions(rows)
    # derivative of g in N at constant m, trigamma(N + 1) - trigamma(a + 1); exactly -1 / N^2 for a single sample
    trigamma_step = -rows.mass / _positive(rows.accepted_mass) ** 2
    is_tied = rows.mass > 1
    if is_tied.any():
        trigamma_step[is_tied] = polygamma(1, rows.accepted_mass[is_tied] + 1) - polygamma(1, a[is_tied] + 1)
    # derivative of g in m at constant N: trigamma(a + 1), since a falls as m rises
    trigamma_above = trigamma_at_bottom - np.cumsum(trigamma_step[..., ::-1], axis=-1)[..., ::-1]
    mean_loss = rows.loss / mass
    # the product rule for (S - L) g and for -(L / m) a g: as N rises a rises too, as m rises 1 / m and a fall
    return _MassEffects(
        of_accepted_mass=loss_above * trigamma_step - mean_loss * (g + a * trigamma_step),
        of_row_mass=loss_above * trigamma_above + mean_loss * (g * (a / mass + 1) - a * trigamma_above),
    )


def _positive(mass: Array) -> Array:
    """Masses with 1 in place of 0, to divide by."""
    return np.where(mass > 0, mass, 1.0)


def dot(x: np.ndarray, y: np.ndarray) -> float:
    """Dot product of two vectors in pieces too short for BLAS to use threads.

    Ranges of files are finished in threads of their own, which the threads of BLAS would slow down.
    """
    if len(x) < 1 << 15:
        return float(x @ y)
    in_pieces = len(x) & -(1 << 13)
    x_pieces = x[:in_pieces].reshape(-1, 1 << 13)
    y_pieces = y[:in_pieces].reshape(-1, 1 << 13)
    return float(np.vecdot(x_pieces, y_pieces).sum() + x[in_pieces:] @ y[in_pieces:])


# metrics made of an area ------------------------------------------------------------------------------------


class BestArea(NamedTuple):
    """The smallest value that an area can take for these losses, and its influence `constant + slope * loss`.

    For losses other than 0/1 the influence is no straight line in the loss; constant and slope are then 0 and the
    influences come from a ranking by loss.
    """

    area: float = math.nan
    constant: float = 0.0
    slope: float = 0.0


class MetricDerivative(NamedTuple):
    """A metric that depends smoothly on an area, the risk, and the best value of that area.

    The influence of a sample is `per_area * (influence on the area) + constant + slope * loss + per_best *
    (influence on the best area)`. Where the influence on the best area is itself `constant + slope * loss`, it is
    included in `constant` and `slope` already.
    """

    estimate: float
    per_area: float = 1.0
    constant: float = 0.0
    slope: float = 0.0
    per_best: float = 0.0

    @property
    def is_area_itself(self) -> bool:
        """Is the influence that of the area, unchanged?"""
        return self[1:] == (1.0, 0.0, 0.0, 0.0)

    def including(self, best: BestArea) -> MetricDerivative:
        """The same with the influence of the best area, a straight line in the loss, added to constant and slope."""
        return self._replace(
            constant=self.constant + self.per_best * best.constant,
            slope=self.slope + self.per_best * best.slope,
        )


@lru_cache(maxsize=256)
def zero_one_oracle(
    total_mass: float,
    error_mass: float,
    estimator: str,
    oracle: str = "empirical",
    known_area: float | None = None,
) -> BestArea:
    """AURC of the best order of 0/1 losses, errors last, with its influence.

    `oracle` is "asymptotic" for the population value R + (1-R) ln(1-R) at the risk R, or "empirical" for the area of
    these samples by an `estimator` such as "harmonic". If weights are fractional, this area cannot be computed from the
    two masses and must be passed as `known_area` (None for whole weights). It is returned as it is, and its influence
    is taken to be that of the population value, with derivative -ln(1-R) in R. The influence of a sample is the line
    `constant + slope * loss` of the result. Either mass of right samples and of errors may be 0.
    """
    risk = error_mass / total_mass
    if oracle == "asymptotic":
        return _with_population_influence(float(asymptotic_oracle(np, np.asarray(risk))), risk)
    if known_area is not None:
        return _with_population_influence(known_area, risk)
    # two rows: the right samples (of loss 0), then the errors (of loss 1)
    rows = zero_one_oracle_rows(error_mass, total_mass)
    # By row, `constant + slope * loss`: the derivative of (total mass) * (area) in the weight of a sample of the row.
    # ties="expected", since the samples of a row have confidences of their own.
    derivative = AreaUnderCurve(estimator, ties="expected").derivative(rows)
    mean = float(rows.mass @ derivative.constant + rows.loss @ derivative.slope) / total_mass
    # constant + slope * loss of each row, less the mean; 0 for a row without samples
    constant_of_right, constant_of_errors = derivative.constant.tolist()
    slope_of_errors = float(derivative.slope[1])
    influence_of_right = constant_of_right - mean if error_mass < total_mass else 0.0
    influence_of_errors = constant_of_errors - mean + slope_of_errors if error_mass > 0 else 0.0
    return BestArea(  # the line through both, at losses 0 and 1
        area=derivative.mass_times_area / total_mass,
        constant=influence_of_right,
        slope=influence_of_errors - influence_of_right,
    )


def _with_population_influence(area: float, risk: float) -> BestArea:
    """A best area with the influence of R + (1-R) ln(1-R), whose derivative in the risk R is -ln(1-R)."""
    per_risk = -math.log(1 - risk) if risk < 1 else 0.0
    return BestArea(area=area, constant=-per_risk * risk, slope=per_risk)  # the risk has influence l - R


# samples ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SampleInfluences:
    """An estimate with the influence and the rank weight of each sample, in the order of the input.

    Influences are read once in most cases, so `read(slice)` returns some of them and no array of all is kept.

    Attributes
    ----------
    estimate : float
        The metric.
    read : callable
        `read(slice)` returns the influences of those samples.
    sample_count : int
        Number of samples.
    make_rank_weights : callable
        Returns the weight of each sample's loss by its rank; an array of a single 1 where ranks play no part.
    weighted_loss_sums : (float, float)
        Of (weight) * (rank weight) * (loss): the sum, and the sum of squares. They say on how many errors of equal
        rank weight the estimate rests.
    """

    estimate: float
    read: Callable[[slice], np.ndarray]
    sample_count: int
    make_rank_weights: Callable[[], np.ndarray]
    weighted_loss_sums: tuple[float, float]

    @property
    def influence(self) -> np.ndarray:
        """Influences of all samples."""
        starts = range(0, self.sample_count, PIECE)
        return np.concatenate([self.read(slice(start, start + PIECE)) for start in starts])

    @property
    def rank_weights(self) -> np.ndarray:
        """Rank weights of all samples."""
        return self.make_rank_weights()


class AreaOfSamples(NamedTuple):
    """An area, the influence of each sample on it in the order of the input, and its `weighted_loss_sums`."""

    estimate: float
    influence: np.ndarray
    weighted_loss_sums: tuple[float, float]


class RankedLoss:
    """One loss along one ranking: its rows, the row of each sample, and the areas computed so far.

    Attributes
    ----------
    ranking : Ranking
        The order of the samples, most confident first, and where runs of equal confidence stop.
    in_order : bool
        True when the input is in the order of the ranking already.
    loss, weight : ndarray
        Of each sample, most confident first; weight is None where all are 1.
    row_of_sample : ndarray or None
        Index of each ranked sample's row; None where every sample is a row of its own.
    rows : Rows
        The whole table.
    """

    def __init__(
        self, ranking: Ranking, loss: np.ndarray, weight: np.ndarray | None = None, in_order: bool = False
    ) -> None:
        """Sort the losses along a ranking and add them up by row: one row for each distinct confidence.

        `loss` and `weight` (None: all 1) have one entry per sample, in input order; with `in_order` that is the order
        of the ranking already, and nothing is moved. `ranking` holds the indices of the samples, most confident first,
        and where rows stop among them. There is at least one sample, and all weights are above 0.
        """
        self.ranking = ranking
        self.in_order = in_order
        row_stops = ranking.row_stops  # of each row: how many samples it and the rows above have
        # an index that brings values into the order of the ranking
        ranked: Any = slice(None) if in_order else ranking.order
        self.loss = loss[ranked].astype(np.float64, copy=False)
        self.weight = None if weight is None else weight[ranked].astype(np.float64, copy=False)
        samples_per_row = diff_from(row_stops, 0)
        sum_by_row = make_row_sum(row_stops)  # a function; without ties it returns its argument itself
        self.row_of_sample = None  # every sample is a row
        if len(row_stops) < len(ranking.order):
            self.row_of_sample = np.repeat(np.arange(len(row_stops), dtype=np.int32), samples_per_row)
        if self.weight is None:
            row_mass = samples_per_row.astype(np.float64)
            row_loss = sum_by_row(self.loss)
            accepted_mass = row_stops.astype(np.float64)  # a number of samples
        else:
            row_mass = sum_by_row(self.weight)
            row_loss = sum_by_row(self.weight * self.loss)
            accepted_mass = np.cumsum(row_mass)
        self.rows = Rows(
            mass=row_mass,
            loss=row_loss,
            accepted_mass=accepted_mass,
            accepted_loss=np.cumsum(row_loss),
            total_mass=accepted_mass[-1:],
            has_empty_rows=False,
        )
        self._computed: dict[Area, AreaOfSamples] = {}  # areas are computed when they are first asked for

    @cached_property
    def weighted_loss_sums(self) -> tuple[float, float]:
        """Of weight times loss: the sum, and the sum of squares."""
        weighted = self.loss if self.weight is None else self.weight * self.loss
        return float(self.rows.accepted_loss[-1]), float(np.sum(np.square(weighted)))

    def area(self, area: Area) -> SampleInfluences:
        """An area with the influence and the rank weight of each sample, in the order of the input."""
        computed = self.compute_once(area)
        sums = computed.weighted_loss_sums if area.weighs_by_rank else self.weighted_loss_sums
        return SampleInfluences(
            estimate=computed.estimate,
            read=computed.influence.__getitem__,
            sample_count=len(computed.influence),
            make_rank_weights=partial(self._rank_weights, area),
            weighted_loss_sums=sums,
        )

    def compute_once(self, area: Area) -> AreaOfSamples:
        """An area of all samples, computed on the first call only.

        Rank weights are not kept: the function that makes them would keep this whole object alive.
        """
        if area not in self._computed:
            self._computed[area] = self._compute(area)
        return self._computed[area]

    def _compute(self, area: Area) -> AreaOfSamples:
        """An area of all samples, with the influence of each: constant + slope * loss, less the mean influence.

        Here constant + slope * loss is the derivative of M = (total mass W) * (area) in the weight of a sample, up to a
        number that all samples share. The area is M / W, so that W times the derivative of the area is that of M, less
        M / W for all samples alike. So the influence needs no division by W: subtracting the mean is enough.

        The rows (runs of equal confidence, most confident first) are read from the bottom up, some thousand at a time.
        `area.derivative` has what a sample does to the rows of its own piece, as a constant and a slope for each row.
        Its `for_rows_above` is what a sample of any row above the piece does to the rows of the piece: one constant and
        one slope. `constant_below` and `slope_below` add these up over all pieces below. An area that is not additive
        (its parts cannot be added up), or whose derivative depends on rows above, is computed in one piece. The
        influences are in the order of the input.

        The slope is the rank weight of a loss where the area weighs by rank. With it the products (weight) * (rank
        weight) * (loss) are added up, and their squares, which say on how many errors the estimate rests.
        """
        rows = self.rows
        sample_stops = self.ranking.row_stops  # of each row: how many samples it and the rows above have
        influence = np.empty(len(self.loss))
        error_mass = float(rows.accepted_loss[-1])  # the total loss: for 0/1 losses, the mass of all errors
        rows_at_once = PIECE if area.is_additive and not area.reads_rows_above else len(rows.mass)
        mass_times_areas = []  # of each piece
        influence_sums = []
        weighted_loss_sums = []  # of weight * rank weight * loss
        squared_weighted_loss_sums = []
        constant_below = 0.0
        slope_below = 0.0
        for stop_row in range(len(rows.mass), 0, -rows_at_once):
            start_row = max(0, stop_row - rows_at_once)
            piece = rows.slice(start_row, stop_row)
            derivative = area.derivative(piece, error_mass)
            constant = derivative.constant + constant_below
            slope = derivative.slope + slope_below
            influence_sums.append(float(piece.mass @ constant + piece.loss @ slope))
            start_sample = int(sample_stops[start_row - 1]) if start_row else 0
            members = slice(start_sample, int(sample_stops[stop_row - 1]))
            if self.row_of_sample is not None:  # with ties, each sample gets the numbers of its row
                row_in_piece = self.row_of_sample[members] - start_row
                constant = constant[row_in_piece]
                slope = slope[row_in_piece]
            weighted_loss = slope * self.loss[members]
            influence[members] = constant + weighted_loss
            if self.weight is not None:
                weighted_loss = weighted_loss * self.weight[members]
            mass_times_areas.append(derivative.mass_times_area)
            weighted_loss_sums.append(float(weighted_loss.sum()))
            squared_weighted_loss_sums.append(float(weighted_loss @ weighted_loss))
            constant_below += derivative.for_rows_above.constant
            slope_below += derivative.for_rows_above.slope
        total_mass = float(rows.total_mass[0])
        influence -= math.fsum(influence_sums) / total_mass  # mass given to one sample is taken from all
        return AreaOfSamples(
            estimate=math.fsum(mass_times_areas) / total_mass,
            influence=self.in_input_order(influence),
            weighted_loss_sums=(math.fsum(weighted_loss_sums), math.fsum(squared_weighted_loss_sums)),
        )

    def _rank_weights(self, area: Area) -> np.ndarray:
        """The weight of each sample's loss by its rank, in input order; a single 1 where ranks play no part."""
        if not area.weighs_by_rank:
            return np.ones(1)
        by_row = area.rank_weights(self.rows)
        return self.in_input_order(by_row if self.row_of_sample is None else by_row[self.row_of_sample])

    def in_input_order(self, ranked_values: np.ndarray) -> np.ndarray:
        """Values of samples in ranked order, put into the order of the input."""
        if self.in_order:
            return ranked_values
        values = np.empty_like(ranked_values)
        values[self.ranking.order] = ranked_values
        return values

    def leave_one_out_area(self, area: Area) -> float:
        """The leave-one-out version of an area, computed a cacheful of rows at a time."""
        starts = range(0, len(self.rows.mass), CHUNK)
        sums = (area.leave_one_out(self.rows.slice(start, start + CHUNK)) for start in starts)
        return math.fsum(sums) / float(self.rows.total_mass[0])


class ReorderedLoss(RankedLoss):
    """A ranked loss whose samples are read in another order; its areas are computed once for all orders."""

    def __init__(self, ranked: RankedLoss, order: np.ndarray) -> None:
        self._ranked = ranked
        self._order = order
        self._computed = {}

    @cached_property
    def weighted_loss_sums(self) -> tuple[float, float]:
        """Of weight times loss: the sum, and the sum of squares.

        Sums do not depend on the order.
        """
        return self._ranked.weighted_loss_sums

    def _compute(self, area: Area) -> AreaOfSamples:
        computed = self._ranked.compute_once(area)
        return computed._replace(influence=computed.influence[self._order])


def ranked_by_loss(loss: np.ndarray, weight: np.ndarray | None, whole_weights: bool) -> RankedLoss:
    """The order of smallest area: by loss, the smallest first.

    Fractional weights are no repetitions. With them every sample is a row, and equal losses are ordered by weight.
    """
    if whole_weights or weight is None:
        return RankedLoss(rank_confidences(-loss.astype(np.float64)), loss, weight)
    order = np.lexsort((weight, loss))
    return _SeparateRows(Ranking(order, np.arange(1, len(order) + 1)), loss, weight)


class _SeparateRows(RankedLoss):
    """Every sample is a row of its own; samples of equal loss and weight share their mean influence."""

    def _compute(self, area: Area) -> AreaOfSamples:
        computed = super()._compute(area)
        assert self.weight is not None
        differs_from_last = (np.diff(self.loss) != 0) | (np.diff(self.weight) != 0)
        set_of_equals = np.cumsum(np.concatenate([[False], differs_from_last]))
        totals = np.bincount(set_of_equals, computed.influence[self.ranking.order])
        mean_influence = totals / np.bincount(set_of_equals)
        return computed._replace(influence=self.in_input_order(mean_influence[set_of_equals]))
