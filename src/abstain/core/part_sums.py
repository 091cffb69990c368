r"""Sums over a part of the ranking from which error bars are made, so that parts handled apart add up.

A part is a run of rows with the mass and loss accepted above it known; a sample in memory may be one part.
Every metric here is linear in the losses once the ranking is given, so the influence of a sample is a line
`u = constant + slope * loss`. It depends on the rows outside the part through two numbers only, a constant and a
slope, which are known once all parts are: each part reports sums with those two left open, and `combine_parts` puts
them in:

.. math:: \sum w^p (k u + a + b l)^p = \sum_{i+j+r=p} \frac{p!}{i!\,j!\,r!} k^i b^j a^r \sum w^p u^i l^j,
          \qquad p = 2, 4

An engine keeps one `AreaSums` (about forty numbers) for each range, group and area. With them and the
totals of the data set every smooth metric of a 0/1 loss, and AURC, AUGRC and risk of any loss, has its
estimate, standard error, degrees of freedom and effective number of errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from abstain.core.influence import (
    PIECE,
    AcceptedLossArea,
    Area,
    AreaUnderCurve,
    LossLine,
    MetricDerivative,
    dot,
)
from abstain.core.rounding import SHARE_ROUNDING, SUM_ROUNDING
from abstain.core.rows import (
    Blocks,
    Ranking,
    Rows,
    SampleReader,
    diff_from,
    iterate_rows,
    read_along_ranking,
    read_by_confidence,
    split_at_row_ends,
    sum_powers_by_row,
)
from abstain.core.sorting import is_zero_one


def _exponent_triples(p: int) -> list[tuple[int, int, int]]:
    """All (i, j, r) with i + j + r = p: the exponents of u, l and 1 in the expansion above."""
    triples = []
    for i in range(p + 1):
        triples += [(i, j, p - i - j) for j in range(p + 1 - i)]
    return triples


def _split_exponents(i: int, j: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Exponents (i, j) of u and l, with i + j <= 4, as a sum of two pairs whose entries add up to 2 at most."""
    first_i = min(i, 2)
    first_j = min(j, 2 - first_i)
    return (first_i, first_j), (i - first_i, j - first_j)


def _multinomial(p: int, exponents: tuple[int, int, int]) -> float:
    return math.factorial(p) / math.prod(math.factorial(exponent) for exponent in exponents)


# Keyed by the power p, 2 or 4. _TRIPLES lists exponents (i, j, r) of u, l and 1; its order is that of all sums of
# powers below, and _PAIRS is the same without r. _EXPONENTS has the triples as columns,
# _COEFFICIENTS their multinomial coefficients.
_TRIPLES = {p: _exponent_triples(p) for p in (2, 4)}
_PAIRS = {p: [(i, j) for i, j, _ in triples] for p, triples in _TRIPLES.items()}
_EXPONENTS = {p: np.asarray(triples).T for p, triples in _TRIPLES.items()}
_COEFFICIENTS = {p: np.asarray([_multinomial(p, t) for t in triples]) for p, triples in _TRIPLES.items()}
_SECOND_AMONG_FOURTH = [_PAIRS[4].index(pair) for pair in _PAIRS[2]]  # with weights of 1, w^2 = w^4
_FOURTH_AS_PRODUCTS = [_split_exponents(i, j) for i, j in _PAIRS[4]]


class _TableTotals(NamedTuple):
    """Sums over a table of samples of weight w and loss l: of w, of w l, and of (w l)^2."""

    mass: float
    loss: float
    squared_loss: float


class SingleSamples(NamedTuple):
    """Losses and weights (None: all 1) of single samples, most confident first, and where rows stop among them."""

    loss: np.ndarray
    weight: np.ndarray | None
    row_stops: np.ndarray


@dataclass(frozen=True)
class MomentTable:
    """Rows with the sums over their samples of w^2 l^j and w^4 l^j, for weights w and losses l.

    Where losses are 0/1, one array object stands for all j > 0; where all weights are 1, `rows.mass` and
    `squared_weight_moments[0]` are one array object.

    Attributes
    ----------
    rows : Rows
        Most confident first, with the accepted sums and the total mass of the whole data set.
    squared_weight_moments : sequence of ndarray
        By row, sums of w^2 l^j for j = 0, 1, 2.
    known_fourth_power_moments : sequence of ndarray
        By row, sums of w^4 l^j for j = 0 ... 4; empty where they are computed from `single_samples` when needed.
    single_samples : SingleSamples or None
        The samples one by one, kept where rows are nearly as many as samples; None otherwise.
    """

    rows: Rows
    squared_weight_moments: Sequence[np.ndarray]
    known_fourth_power_moments: Sequence[np.ndarray] = ()
    single_samples: SingleSamples | None = None

    @cached_property
    def fourth_power_moments(self) -> Sequence[np.ndarray]:
        """By row, sums of w^4 l^j for j = 0 ... 4."""
        if self.single_samples is None:
            return self.known_fourth_power_moments
        return sum_powers_by_row(*self.single_samples).fourth_power_moments

    @cached_property
    def moment_columns(self) -> list[np.ndarray]:
        """Ten arrays with one entry per row: sums of w, of w l, of w^2 l^j (j = 0, 1, 2), of w^4 l^j (j = 0 ... 4)."""
        return [self.rows.mass, self.rows.loss, *self.squared_weight_moments, *self.fourth_power_moments]

    @cached_property
    def column_totals(self) -> _TableTotals:
        """Sums over all rows of w, of w l and of (w l)^2."""
        return _TableTotals(
            *sum_columns([self.rows.mass, self.rows.loss, self.squared_weight_moments[2]]).tolist()
        )

    @property
    def has_unit_weights(self) -> bool:
        """Is every weight known to be 1, so that the sums of all powers are one array?"""
        return self.rows.mass is self.squared_weight_moments[0]

    def in_error_units(self, size: float) -> MomentTable:
        """The table of the same samples with losses of 0 and 1, where all losses are 0 or `size`.

        Over 0/1 losses the sum of w^p l^j is, for every j above 0, the sum of w^p over the errors: that of w^p l, as it
        was, over `size`.

        All tables are numpy arrays, and each of their rows holds a sample of positive weight. So the result may say
        that no row is empty, also where the rows of this table do not say so (`has_empty_rows` is True by default).
        This table is not changed.
        """
        rows = self.rows._replace(
            loss=self.rows.loss / size,
            accepted_loss=self.rows.accepted_loss / size,
            xp=np,
            has_empty_rows=False,
        )
        w2, w2l, _ = self.squared_weight_moments  # sums of w^2 l^j for j = 0, 1, 2
        w4, w4l, *_ = self.fourth_power_moments  # sums of w^4 l^j for j = 0 ... 4
        w2_of_errors = w2l / size
        w4_of_errors = w4l / size
        if self.has_unit_weights:
            w2 = rows.mass  # the same array object as the mass says that all weights are 1
        return MomentTable(
            rows=rows,
            squared_weight_moments=(w2, w2_of_errors, w2_of_errors),  # one object says that losses are 0/1
            known_fourth_power_moments=(w4, *4 * [w4_of_errors]),
        )

    @property
    def zero_one(self) -> bool:
        """Are all losses known to be 0 or 1?"""
        return self.squared_weight_moments[1] is self.squared_weight_moments[2]


def sum_columns(columns: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of each column, shape (columns,).

    An array that is there several times (equal powers of a 0/1 loss are one object) is added up once.
    """
    sum_by_id: dict[int, float] = {}
    for column in columns:
        if id(column) not in sum_by_id:
            sum_by_id[id(column)] = column.sum()
    return np.asarray([sum_by_id[id(column)] for column in columns])


def table_of_zero_one_rows(rows: Rows) -> MomentTable:
    """The table of rows of 0/1 losses with weights of 1, whose sums of powers are the mass and the loss of each row."""
    return MomentTable(
        rows=rows,
        squared_weight_moments=(rows.mass, rows.loss, rows.loss),
        known_fourth_power_moments=(rows.mass, rows.loss, rows.loss, rows.loss, rows.loss),
    )


def tables_from_samples(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None
) -> list[MomentTable]:
    """Tables of samples given in any order, most confident first, each small enough to stay in cache.

    A table has one row per distinct confidence, with sums over its samples, and no confidence is in two tables. No
    weight means 1 for all.
    """
    return list(iterate_tables(read_by_confidence(loss, confidence, weight), is_zero_one(loss)))


def tables_along_ranking(
    ranking: Ranking, loss: np.ndarray, weight: np.ndarray | None, zero_one: bool, size: int = PIECE
) -> Iterator[MomentTable]:
    """Tables of samples whose ranking is known: whole rows, most confident first, of about `size` samples each.

    A row is all samples of one confidence, with sums over them. `ranking` holds the indices of the samples, most
    confident first, and where rows stop among them. `loss` and `weight` are in the order of the input; no weight means
    1 for all. `zero_one` says that all losses are 0 or 1.
    """
    return iterate_tables(read_along_ranking(ranking, loss, weight, zero_one), zero_one, size)


def iterate_tables(samples: SampleReader, zero_one: bool, size: int = PIECE) -> Iterator[MomentTable]:
    """Tables of ranked samples, most confident first: one row per distinct confidence, about `size` samples each.

    Tables stay in cache. Their accepted sums count from the top of the whole data set, and their total mass is that of
    the whole data set. `zero_one` says that all losses are 0 or 1. `samples` reads the ranked losses and weights of a
    slice, and where rows end in it; `samples.read_weight` is None if all weights are 1. All weights are above 0.

    Beside the rows a table has moments: for each row, sums of w^2 l^j and w^4 l^j over its samples, with w the weight
    and l the loss. `table_of_zero_one_rows` makes them from the rows alone, where they are counts of samples and
    errors.
    """
    if samples.read_weight is None and zero_one:
        yield from map(table_of_zero_one_rows, iterate_rows(samples, size=size))
        return
    total_mass = np.asarray([samples.total_mass])
    mass_above = 0.0
    loss_above = 0.0
    # a slice of samples, and the indices of the last sample of each row in it, counted from `start`
    for start, stop, row_ends in split_at_row_ends(samples, size):
        row_stops = row_ends + 1  # of each row: how many samples of the slice it and the rows before have
        loss = samples.read_loss(start, stop)
        weight = None if samples.read_weight is None else samples.read_weight(start, stop)
        # With hardly any ties, sums of powers by row would cost more than those of single samples. For 0/1 losses
        # they are cheap, since all powers of the loss are equal.
        keeps_samples = not zero_one and 2 * len(row_stops) > stop - start
        sums = sum_powers_by_row(loss, weight, row_stops, zero_one, with_fourth_powers=not keeps_samples)
        if weight is None:
            accepted_mass = start + row_stops.astype(np.float64)  # a number of samples
        else:
            accepted_mass = mass_above + np.cumsum(sums.mass)
        rows = Rows(
            mass=sums.mass,
            loss=sums.loss,
            accepted_mass=accepted_mass,
            accepted_loss=loss_above + np.cumsum(sums.loss),
            total_mass=total_mass,
            has_empty_rows=False,
        )
        yield MomentTable(
            rows=rows,
            squared_weight_moments=sums.squared_weight_moments,
            # empty where samples are kept: then they are computed from these when they are needed
            known_fourth_power_moments=sums.fourth_power_moments,
            single_samples=SingleSamples(loss, weight, row_stops) if keeps_samples else None,
        )
        mass_above = float(rows.accepted_mass[-1])
        loss_above = float(rows.accepted_loss[-1])


def totals_from_samples(loss: np.ndarray, weight: np.ndarray | None, zero_one: bool) -> Totals:
    """Sums of weights and losses over at least one sample, given in any order.

    `weight` None means 1 for all, `zero_one` that all losses are 0 or 1. Samples are read PIECE at a time, so that the
    products stay in cache; the sums of the pieces are added exactly. Moments are sums of w^2 l^j and of w^4 l^j, by
    rising j; for 0/1 losses those for all j > 0 are equal.
    """
    n = len(loss)
    if weight is None and zero_one:
        # by default `has_negative_loss` is False and `has_whole_weights` True
        error_count = float(np.count_nonzero(loss))
        return Totals(
            sample_count=n,
            total_mass=float(n),
            loss_sum=error_count,
            squared_weight_moments=(n, error_count, error_count),
            fourth_power_moments=(n, *4 * [error_count]),
            zero_one=True,
        )
    # one entry per piece: sums of w, of w l, of w^2 l^j (j = 0, 1, 2) and of w^4 l^j (j = 0 ... 4)
    weight_sums = []
    loss_sums = []
    squared_weight_moments: list[tuple[Any, ...]] = []
    fourth_power_moments: list[tuple[Any, ...]] = []
    smallest_loss = math.inf
    has_whole_weights = True
    for start in range(0, n, PIECE):
        l = loss[start : start + PIECE].astype(np.float64, copy=False)
        smallest_loss = min(smallest_loss, float(l.min()))
        l2 = l * l
        if weight is None:  # every power of w is 1
            sums_of_powers = (len(l), l.sum(), l2.sum(), l @ l2, l2 @ l2)  # of l^0 ... l^4
            weight_sums.append(sums_of_powers[0])
            loss_sums.append(sums_of_powers[1])
            squared_weight_moments.append(sums_of_powers[:3])
            fourth_power_moments.append(sums_of_powers)
            continue
        w = weight[start : start + PIECE].astype(np.float64, copy=False)
        if not np.all(w == np.floor(w)):
            has_whole_weights = False
        w2 = w * w
        w2l = w2 * l
        w2l2 = w2 * l2
        weight_sums.append(w.sum())
        loss_sums.append((w * l).sum())
        squared_weight_moments.append((w2.sum(), w2l.sum(), w2l2.sum()))
        # of w^4 l^j, as dot products: w^2 w^2, w^2 w^2 l, w^2 l w^2 l, ...
        fourth_power_moments.append((w2 @ w2, w2 @ w2l, w2l @ w2l, w2l @ w2l2, w2l2 @ w2l2))
    return Totals(
        sample_count=n,
        total_mass=math.fsum(weight_sums),
        loss_sum=math.fsum(loss_sums),
        squared_weight_moments=tuple(math.fsum(column) for column in zip(*squared_weight_moments)),
        fourth_power_moments=tuple(math.fsum(column) for column in zip(*fourth_power_moments)),
        zero_one=zero_one,
        has_negative_loss=smallest_loss < 0,
        has_whole_weights=has_whole_weights,
    )


def table_from_blocks(blocks: Blocks) -> MomentTable:
    """The table, most confident first, of a block table, which is least confident first."""
    ascending = (blocks.w2, blocks.w2l, blocks.w2ll, *blocks.fourths)
    powers = [column[::-1] for column in ascending]
    return table_from_sums(blocks.rows(), powers, blocks.zero_one)


def table_from_sums(rows: Rows, powers: Sequence[np.ndarray], zero_one: bool) -> MomentTable:
    """The table of rows with their sums of powers of weights w and losses l.

    `rows` are most confident first; they hold the sums of w and of w l, the mass and the loss of each. `powers` holds
    eight arrays with one entry per row: sums of w^2 l^j (j = 0, 1, 2), then of w^4 l^j (j = 0 ... 4). `zero_one` says
    that all losses are 0 or 1.
    """
    squared_weight_moments = powers[:3]
    fourth_power_moments = powers[3:]
    if zero_one:  # l^j = l: one array object for all j > 0 tells `MomentTable` so
        w2, w2l, _ = squared_weight_moments
        w4, w4l, *_ = fourth_power_moments
        squared_weight_moments = (w2, w2l, w2l)
        fourth_power_moments = (w4, w4l, w4l, w4l, w4l)
    # known: passed here, while other tables compute them from single samples when they are needed
    return MomentTable(rows, squared_weight_moments, known_fourth_power_moments=fourth_power_moments)


def totals_from_tables(
    tables: Sequence[MomentTable],
    sample_count: int,
    zero_one: bool,
    has_negative_loss: bool,
    has_whole_weights: bool,
) -> Totals:
    """The sums over a data set from all its tables, most confident first; at least one table.

    A table has one row per distinct confidence, with sums over its samples. The other arguments are what these sums do
    not show: the number of samples, whether all losses are 0 or 1, whether any is negative, and whether all weights are
    whole numbers.
    """
    # ten columns per table, with one entry per row; each is added up over the rows
    table_sums = [sum_columns(table.moment_columns) for table in tables]
    # ten sums: of w, of w l, of w^2 l^j (j = 0, 1, 2), of w^4 l^j (j = 0 ... 4)
    sums = [math.fsum(column) for column in zip(*table_sums)]
    last_rows = tables[-1].rows
    return Totals(
        sample_count=sample_count,
        # the sums accepted at the last row of all, which are those that the curve reaches
        total_mass=float(last_rows.accepted_mass[-1]),
        loss_sum=float(last_rows.accepted_loss[-1]),
        squared_weight_moments=tuple(sums[2:5]),
        fourth_power_moments=tuple(sums[5:]),
        zero_one=zero_one,
        has_negative_loss=has_negative_loss,
        has_whole_weights=has_whole_weights,
    )


class RankedLossSums(NamedTuple):
    """Sums over a part, with w the weight of a sample, l its loss and s the rank weight of its row.

    s is the slope of the influence in the loss as far as the rows of the same part decide it; 1 for areas that do not
    weigh by rank. Numbers, or arrays with one entry per part.

    Attributes
    ----------
    loss, loss_slope : float
        Sums of w l and of w l s.
    squared_loss, squared_loss_slope, squared_loss_squared_slope : float
        Sums of (w l)^2, of (w l)^2 s and of (w l)^2 s^2.
    """

    loss: Any
    loss_slope: Any
    squared_loss: Any
    squared_loss_slope: Any
    squared_loss_squared_slope: Any


class AreaSums(NamedTuple):
    """Sums of one area over one part of the ranking; or, after `stack_parts`, over several parts.

    w, l and u are the weight of a sample, its loss, and its influence as far as the rows of the same part decide it:
    u = constant + slope * l, with the constant and the slope of the sample's row. (What a sample in this part does to
    rows of other parts is missing in u; `combine_parts` adds it.) Of stacked parts every field is an array with one
    entry per part, most confident first, along its first axis.

    Attributes
    ----------
    mass_times_area : float
        What the part adds to (total mass of the data set) * (area); a product, because it adds up over parts.
    mass_times_leave_one_out_area : float
        The same for the leave-one-out version of the area; nan where there is none, of use for weights of 1 only.
    mass, loss : float
        Sums of w and of w l over the part.
    for_rows_above, for_rows_below : LossLine
        What the part adds to the influences of all more confident samples outside it, and of all less confident ones.
    influence_sum : float
        Sum of w u.
    reference_line : LossLine
        The mean constant and the mean slope of u over the part. This line is subtracted from u in the sums of powers
        below, so that small deviations from it keep their digits, and is added again by `combine_parts`.
    second_power_sums, fourth_power_sums : ndarray, shapes (6,) and (15,)
        Sums of w^p d^i l^j for p = 2 and p = 4, with d = u - reference_line, in the order of _PAIRS[p].
    ranked_loss_sums : RankedLossSums
        Sums of the losses, and of their products with the rank weight.
    error_influence_sums : ndarray, shape (3,)
        Sums over the errors of a 0/1 loss of w^2 d^i for i = 0, 1, 2; nan for other losses.
    """

    mass_times_area: Any
    mass_times_leave_one_out_area: Any
    mass: Any
    loss: Any
    for_rows_above: LossLine
    for_rows_below: LossLine
    influence_sum: Any
    reference_line: LossLine
    second_power_sums: np.ndarray
    fourth_power_sums: np.ndarray
    ranked_loss_sums: RankedLossSums
    error_influence_sums: np.ndarray


def sum_area(table: MomentTable, area: Area, error_mass: float = math.nan) -> AreaSums:
    """Sums over one part of a ranking that the value and the influences of one area are made of.

    `table` holds the rows of the part, one per distinct confidence, with the accepted sums and the total mass of the
    whole data set. `error_mass` is the mass of all errors of the data set, which areas of 0/1 losses read.

    The influence of a sample is constant + slope * loss, with a constant and a slope for each row, as far as the rows
    of this part decide it. What this part adds to the influences of samples in more and in less confident parts is in
    `for_rows_above` and `for_rows_below` of the result. Powers are taken of what the influence differs from the
    reference line, mean constant + mean slope * loss, so that they keep their digits. The area and its leave-one-out
    version are multiplied by the total mass of the data set, because these products add up over parts.

    Two fields of the result say on what an estimate rests: `ranked_loss_sums` on how many effective errors, and
    `error_influence_sums` how much of its variance the errors make up. For the first, a loss counts by its rank weight,
    which is the slope of its influence. In areas that do not weigh by rank, such as `PrecisionArea`, influences have a
    slope too, but each loss counts 1.
    """
    rows = table.rows
    derivative = area.derivative(rows, error_mass)
    slope = derivative.slope
    totals = table.column_totals
    mean_constant = dot(rows.mass, derivative.constant) / totals.mass
    loss_slope = dot(rows.loss, slope)
    # without any loss the slope does not matter, and `or 1.0` only avoids a division by 0
    if table.zero_one:
        mean_slope = loss_slope / (totals.loss or 1.0)
    else:  # losses of both signs could cancel
        absolute_loss = np.abs(rows.loss)
        mean_slope = dot(absolute_loss, slope) / (float(absolute_loss.sum()) or 1.0)
    powers = _influence_powers(table, derivative.constant - mean_constant, slope - mean_slope)
    # with 1 in place of the slope, for an area that does not weigh by rank
    squared_loss = totals.squared_loss
    loss_sums = RankedLossSums(
        loss=totals.loss,
        loss_slope=totals.loss,
        squared_loss=squared_loss,
        squared_loss_slope=squared_loss,
        squared_loss_squared_slope=squared_loss,
    )
    if area.weighs_by_rank:
        sums_of_powers = _weighted_powers(table.squared_weight_moments[2], slope, p=2)  # of (w l)^2 slope^i
        loss_sums = loss_sums._replace(
            loss_slope=loss_slope,
            squared_loss_slope=sums_of_powers[1],
            squared_loss_squared_slope=sums_of_powers[2],
        )
    return AreaSums(
        mass_times_area=derivative.mass_times_area,
        mass_times_leave_one_out_area=area.leave_one_out(rows),  # nan where the area has no such version
        mass=totals.mass,
        loss=totals.loss,
        for_rows_above=derivative.for_rows_above,
        for_rows_below=derivative.for_rows_below,
        influence_sum=mean_constant * totals.mass + loss_slope,
        reference_line=LossLine(mean_constant, mean_slope),
        second_power_sums=powers.second,
        fourth_power_sums=powers.fourth,
        ranked_loss_sums=loss_sums,
        # sums over the errors of w^2 d^i for i = 0, 1, 2, with d what the influence differs from the reference line
        error_influence_sums=powers.second_of_errors,
    )


def sum_areas(
    table: MomentTable, areas: Sequence[Area], error_mass: float, loss_unit: float = 1.0
) -> dict[Area, AreaSums]:
    """Sums over one part of a ranking for each of several areas, by area.

    A part is a run of rows; `table` holds them, one per distinct confidence, with sums over their samples. `error_mass`
    is the mass of all errors of the data set. The losses in the table were divided by `loss_unit`; a user's own metric
    that does not scale with them is computed in the user's units. Without ties the area behind AUROC
    (`AcceptedLossArea`) needs no pass of its own where AUGRC came before it in `areas`: its influences are those of
    AUGRC less l / W, with W the total mass and l the loss of the sample. `AreaSums` are the sums that the value of an
    area and the variance of its influences are made of; sums of several parts can be combined.
    """
    generalised_area = AreaUnderCurve(estimator="sele", ties="threshold")  # AUGRC
    # as many rows as samples: the mass is a number of samples, since all weights are 1
    has_no_ties = table.has_unit_weights and len(table.rows.mass) == table.column_totals.mass
    sums_by_area: dict[Area, AreaSums] = {}
    for area in areas:
        if area == AcceptedLossArea() and generalised_area in sums_by_area and has_no_ties:
            total_mass = float(table.rows.total_mass[0])
            sums_by_area[area] = _accepted_loss_from_augrc(sums_by_area[generalised_area], total_mass)
        else:
            # the same area, unless it has to know the unit because it does not scale with the losses
            area_in_units = area.with_loss_unit(loss_unit)
            sums_by_area[area] = sum_area(table, area_in_units, error_mass)
    return sums_by_area


def _accepted_loss_from_augrc(augrc: AreaSums, total_mass: float) -> AreaSums:
    """Make the sums of the area behind AUROC, `AcceptedLossArea`, from those of AUGRC.

    Only where no confidences are equal and all weights are 1. Both areas weigh the loss of a sample by the share of
    samples that are accepted after it. AUGRC counts the sample itself among them, `AcceptedLossArea` counts half of it.
    So (total mass) * (area) is the sum of weight times loss, with weights that are smaller by 1 / (2 * total mass), and
    the influence of a sample of loss l on `AcceptedLossArea` is l / (total mass) less than on AUGRC.

    The sums of powers hold what influences differ from the reference line, `line.constant + line.slope * l`. The slope
    of that line falls by 1 / (total mass) as the influences do, so that these sums stay as they are.

    The fields that are not replaced are right for both areas. Neither has a leave-one-out version (nan). In both, the
    line of a row has all that a sample does, also to rows in other parts, so `for_rows_above` and `for_rows_below` are
    0. Of `ranked_loss_sums` only the sums without a slope are read for `AcceptedLossArea`, which does not weigh by
    rank. `augrc.loss` is the sum of weight times loss over the part, and `augrc` itself is not changed.
    """
    line = augrc.reference_line
    sum_of_rank_weight_times_loss = augrc.ranked_loss_sums.loss_slope  # by the rank weights of AUGRC
    return augrc._replace(
        mass_times_area=sum_of_rank_weight_times_loss - augrc.loss / (2 * total_mass),
        influence_sum=augrc.influence_sum - augrc.loss / total_mass,
        reference_line=LossLine(line.constant, line.slope - 1 / total_mass),
    )


class _InfluencePowers(NamedTuple):
    """Sums over samples of weight w, loss l and influence u.

    Attributes
    ----------
    second, fourth : ndarray, shapes (6,) and (15,)
        Sums of w^p u^i l^j for p = 2 and p = 4, over the exponents (i, j) in _PAIRS[p].
    second_of_errors : ndarray, shape (3,)
        Sums of w^2 u^i, i = 0, 1, 2, over the errors of a 0/1 loss; NaN for other losses.
    """

    second: np.ndarray
    fourth: np.ndarray
    second_of_errors: np.ndarray


def _influence_powers(table: MomentTable, const: np.ndarray, slope: np.ndarray) -> _InfluencePowers:
    """Sums of w^p u^i l^j over the samples of a table, with the influence u = const + slope * l.

    A row is all samples of one confidence. `const` and `slope` have one entry per row of the table, for all samples of
    the row; w is the weight of a sample and l its loss. The sums for p = 2 and for p = 4 are in the order of _PAIRS[p],
    which lists the exponents (i, j) with i + j <= p. With weights of 1 the sums with w^2 are among those with w^4, at
    the places _SECOND_AMONG_FOURTH. For 0/1 losses the result also has the sums of w^2 u^i, i = 0, 1, 2, over the
    errors alone; for others these three are NaN.
    """
    # Losses other than 0/1 with hardly any ties: the losses and weights of all samples, one by one. Otherwise None, and
    # the sums follow from those of w^p l^j in each row.
    if table.single_samples is not None:
        return _powers_of_single_samples(table.single_samples, const, slope)
    if table.zero_one:
        fourth, fourth_of_errors = _powers_of_zero_one(4, table.fourth_power_moments, const, slope)
        if table.has_unit_weights:
            second = fourth[_SECOND_AMONG_FOURTH]
            second_of_errors = fourth_of_errors[:3]  # of u^i for i = 0, 1, 2; w^2 = w^4 = 1
        else:
            second, second_of_errors = _powers_of_zero_one(2, table.squared_weight_moments, const, slope)
        return _InfluencePowers(second, fourth, second_of_errors)
    fourth = _powers_of_rows(4, table.fourth_power_moments, const, slope)
    if table.has_unit_weights:
        second = fourth[_SECOND_AMONG_FOURTH]
    else:
        second = _powers_of_rows(2, table.squared_weight_moments, const, slope)
    return _InfluencePowers(second, fourth, second_of_errors=np.full(3, np.nan))


def _powers_of_zero_one(
    p: int, sums: Sequence[np.ndarray], const: np.ndarray, slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sums for 0/1 losses of w^p u^i l^j over all samples, and of w^p u^i (i = 0 ... p) over the errors alone.

    The first are over the exponents (i, j) in _PAIRS[p]. The influence u is `const` for right samples and
    `const + slope` for errors, by row; `sums` begins with the rows' sums of w^p and of w^p l.
    """
    all_weights = sums[0]
    error_weights = sums[1]
    # sums over the rows of weight * u^i, for i = 0 ... p
    of_right = _weighted_powers(all_weights - error_weights, const, p)
    of_errors = _weighted_powers(error_weights, const + slope, p)
    # exponents of u, of l and of 1, in the order of _PAIRS[p]: one entry of each for every sum of the result
    u_exponent, loss_exponent, _ = _EXPONENTS[p]
    # l^j is 1 for errors, whatever j is, and 0 for right samples unless j is 0
    right_terms = np.where(loss_exponent == 0, of_right[u_exponent], 0.0)
    return np.asarray(of_errors[u_exponent] + right_terms), of_errors


def _powers_of_rows(p: int, sums: Sequence[np.ndarray], const: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Sums of w^p u^i l^j in the order of _PAIRS[p], with the influence u = const + slope l.

    `sums` holds, by row, the sums of w^p l^j for j = 0 ... p; `const` and `slope` have one entry per row. _PAIRS[p]
    lists the exponents (i, j) with i + j <= p. The result has one number for each of them, over all rows.
    """
    totals: dict[tuple[int, int], float] = {}
    columns = sums  # by row, sums of w^p u^i l^j for j = 0 ... p - i
    for i in range(p + 1):
        for j, column in enumerate(columns):
            totals[i, j] = float(np.sum(column))
        # u^(i+1) l^j = const u^i l^j + slope u^i l^(j+1)
        columns = [const * low + slope * high for low, high in pairwise(columns)]
    return np.asarray([totals[pair] for pair in _PAIRS[p]])


def _powers_of_single_samples(
    samples: SingleSamples, const: np.ndarray, slope: np.ndarray
) -> _InfluencePowers:
    """Sums of w^p u^i l^j over single samples, for p = 2 and p = 4, over the exponents (i, j) in _PAIRS[p].

    w is the weight of a sample, l its loss, and u = const + slope l its influence, with `const` and `slope` by row.
    Fourth powers are dot products of second powers. Losses are not treated as 0/1, so that sums over errors are NaN.
    """
    # most confident first; `w` is None where all weights are 1; `row_stops` says where rows stop among the samples
    l, w, row_stops = samples
    if len(row_stops) < len(l):  # ties: each sample gets the numbers of its row
        row_of_sample = np.repeat(np.arange(len(row_stops)), diff_from(row_stops, 0))
        const = const[row_of_sample]
        slope = slope[row_of_sample]
    u = const + slope * l
    if w is None:
        w2 = np.ones(len(l))
        w2u = u
        w2l = l
    else:
        w2 = w * w
        w2u = w2 * u
        w2l = w2 * l
    # w^2 u^i l^j of each sample, by (i, j)
    second_powers = {(0, 0): w2, (1, 0): w2u, (0, 1): w2l, (2, 0): w2u * u, (1, 1): w2u * l, (0, 2): w2l * l}
    # w^4 u^i l^j is a product of two of these
    fourth = np.asarray(
        [dot(second_powers[pair_a], second_powers[pair_b]) for pair_a, pair_b in _FOURTH_AS_PRODUCTS]
    )
    if w is None:  # w^2 = w^4: the sums for p = 2 are among those for p = 4
        second = fourth[_SECOND_AMONG_FOURTH]
    else:
        second = np.asarray([second_powers[pair].sum() for pair in _PAIRS[2]])
    return _InfluencePowers(second, fourth, second_of_errors=np.full(3, np.nan))


def _weighted_powers(mass: np.ndarray, x: np.ndarray, p: int) -> np.ndarray:
    """Sums of mass x^i for i = 0 ... p, where p is 2 or 4."""
    x2 = x * x
    sums = [mass.sum(), dot(mass, x), dot(mass, x2)]
    if p > 2:
        mass_x2 = mass * x2
        sums += [dot(mass_x2, x), dot(mass_x2, x2)]
    return np.asarray(sums)


class AbstainedSums(NamedTuple):
    """How many samples abstained, and the sums of their weights w, of w^2 and of w^4."""

    sample_count: int = 0
    mass: float = 0.0
    squared_weight_sum: float = 0.0
    fourth_power_weight_sum: float = 0.0


class Totals(NamedTuple):
    """Sums over a whole data set, with weights w and losses l.

    Attributes
    ----------
    sample_count : int
        Samples that did not abstain.
    total_mass, loss_sum : float
        Sums of w and of w l, over those.
    squared_weight_moments : tuple of 3 floats
        Sums of w^2 l^j for j = 0, 1, 2; empty where no error bar is needed.
    fourth_power_moments : tuple of 5 floats
        Sums of w^4 l^j for j = 0 ... 4; empty where no error bar is needed.
    zero_one, has_negative_loss : bool
        Are all losses 0 or 1? Is any below 0?
    has_whole_weights : bool
        Are all weights whole numbers, that is, repetitions?
    abstained : AbstainedSums
        Of the samples that abstained, which count in no other field.
    error_size : float
        One unit of the losses above, in the user's units.
    """

    sample_count: int
    total_mass: float
    loss_sum: float
    squared_weight_moments: tuple[float, ...]
    fourth_power_moments: tuple[float, ...]
    zero_one: bool
    has_negative_loss: bool = False
    has_whole_weights: bool = True
    abstained: AbstainedSums = AbstainedSums()
    error_size: float = 1.0

    def in_error_units(self) -> Totals:
        """The same sums with all losses divided by c, where every loss is 0 or c and both occur; otherwise unchanged.

        Losses are 0 or 1 then, and `error_size` of the result is c, one unit of them in the user's units; unchanged
        sums keep theirs. Losses of at least 0 take one value besides 0 exactly where their sums of powers are
        proportional: (sum w^4 l) (sum w^4 l^3) is the square of sum w^4 l^2, and larger otherwise (Cauchy and
        Schwarz). `self.squared_weight_moments` and `self.fourth_power_moments` are the sums of w^2 l^j and of w^4 l^j,
        by rising j; where they are empty, nothing is known, and the sums are returned unchanged.
        """
        # With `zero_one`, the losses are 0/1 as the user has them, or were divided by c before. Sums of losses of both
        # signs prove nothing.
        if self.zero_one or self.has_negative_loss or not self.fourth_power_moments:
            return self
        w4, w4l, w4l2, w4l3, _ = self.fourth_power_moments
        if not w4l > 0 or not math.isfinite(w4l * w4l3 * w4l2):
            return self  # no losses above 0, or sums of huge losses that overflow
        size = w4l2 / w4l  # c, if it is the only value besides 0
        # without a loss of 0 the loss sum is c times the total mass
        all_are_equal = size * self.total_mass * (1 - SUM_ROUNDING) <= self.loss_sum
        is_proportional = w4l * w4l3 - w4l2**2 <= SHARE_ROUNDING * w4l2**2
        if all_are_equal or not is_proportional:
            return self
        # sums of w^2 and of w^4 over the errors, which are those of w^2 l^j and w^4 l^j for 0/1 losses and every j > 0
        w2, w2l, _ = self.squared_weight_moments
        w2_of_errors = w2l / size
        w4_of_errors = w4l / size
        return self._replace(
            loss_sum=self.loss_sum / size,
            squared_weight_moments=(w2, w2_of_errors, w2_of_errors),
            fourth_power_moments=(w4, *4 * [w4_of_errors]),
            zero_one=True,
            error_size=size,
        )

    @property
    def squared_weight_sum(self) -> float:
        """Sum of w^2 over the samples that did not abstain."""
        return self.squared_weight_moments[0]

    @property
    def squared_weight_sum_of_errors(self) -> float:
        """Sum of w^2 l, which for 0/1 losses is the sum of w^2 over the errors."""
        return self.squared_weight_moments[1]

    @property
    def squared_weighted_loss_sum(self) -> float:
        """Sum of (w l)^2."""
        return self.squared_weight_moments[2]

    @property
    def fourth_power_weight_sum(self) -> float:
        """Sum of w^4 over the samples that did not abstain."""
        return self.fourth_power_moments[0]

    @property
    def is_right_or_wrong(self) -> bool:
        """Are losses 0 and 1 in the user's units too, so that metrics of right and wrong apply?"""
        return self.zero_one and self.error_size == 1

    @property
    def has_unit_weights(self) -> bool:
        """Is every weight 1? (No others have these sums.)"""
        return self.sample_count == self.total_mass == self.squared_weight_sum

    @property
    def risk(self) -> float:
        """Mean loss."""
        return self.loss_sum / self.total_mass


class InfluenceSums(NamedTuple):
    """Sums over independent units of v = w IF / W, and of z = w alpha l / W with alpha the rank weight of a sample.

    Attributes
    ----------
    square_sum, fourth_power_sum : float
        Sums of v^2 and v^4.
    contribution_sum, squared_contribution_sum : float
        Sums of z and z^2; alpha is 1 where no rank weighs the loss.
    error_square_sum : float
        The sum of v^2 over the errors of a 0/1 loss; nan for other losses.
    """

    square_sum: float
    fourth_power_sum: float
    contribution_sum: float
    squared_contribution_sum: float
    error_square_sum: float = math.nan


def stack_parts(sums_of_parts: Sequence[AreaSums]) -> AreaSums:
    """The sums of one area over all parts of a ranking, most confident first: each number becomes one array.

    The first axis of every array is that of the parts.
    """

    def stack(values: tuple[Any, ...]) -> Any:
        """One array of the values of all parts, or for a record one array for each of its fields."""
        if isinstance(values[0], tuple):
            return type(values[0])(*np.asarray(values).T)
        return np.asarray(values)

    # zip puts together the values of one field, for each field in turn
    return AreaSums(*(stack(values) for values in zip(*sums_of_parts, strict=True)))


def combine_parts(parts: AreaSums, area: Area, metric_derivative: MetricDerivative) -> InfluenceSums:
    """Add up over all samples what the variance of a metric made of `area` needs.

    `parts` are the stacked sums of that area over all parts (runs of rows) of the ranking, most confident first: every
    field has one entry per part. `metric_derivative` says how the influence on the metric follows from that on the
    area.

    The influence of a sample on the area, as far as its own part decides it, is u plus the reference line of the part:
    a line in the loss, constant + slope * l, that was subtracted before powers were summed so that they keep their
    digits. On the metric it is k u + a + b l, with l the loss of the sample, k = `metric_derivative.per_area`, and a
    and b (one entry per part) what the reference line, the other parts and the metric add. A sum of powers that is
    smaller than the rounding error of its terms (1e-12 of the sum of their sizes) counts as 0.

    The result also has the sums of contributions: (weight) * (rank weight) * (loss) / (total mass), what the loss of a
    sample adds to the estimate.
    """
    k = metric_derivative.per_area
    total_mass = float(parts.mass.sum())
    from_others = effects_of_other_parts(parts)
    a = k * (from_others.constant + parts.reference_line.constant) + metric_derivative.constant
    b = k * (from_others.slope + parts.reference_line.slope) + metric_derivative.slope

    def sum_powers(p: int, sums: np.ndarray) -> float:
        """Sum over all samples of (w (k u + a + b l) / total mass)^p.

        `sums` holds sums of w^p u^i l^j, one line per part and one column per term of the expanded power.
        """
        i, j, r = _EXPONENTS[p]  # of k u, b l and a: three arrays with one entry per column of `sums`
        # multinomial coefficients p! / (i! j! r!)
        terms = _COEFFICIENTS[p] * k**i * b[:, None] ** j * a[:, None] ** r * sums
        total = float(np.sum(terms))
        is_rounding = total <= SUM_ROUNDING * float(np.sum(np.abs(terms)))
        return 0.0 if is_rounding else total / total_mass**p

    # by part; the rank weight is 1 where the area does not weigh by rank, and for the risk, which does not depend on
    # the area (k = 0) and counts all losses alike
    if area.weighs_by_rank and k != 0:
        ranked_loss, squared_ranked_loss = _sum_ranked_losses(parts.ranked_loss_sums, from_others.slope)
    else:
        ranked_loss = parts.ranked_loss_sums.loss
        squared_ranked_loss = parts.ranked_loss_sums.squared_loss
    # sums over errors of w^2, w^2 u and w^2 u^2, by part; an error has loss 1
    w2, w2u, w2u2 = parts.error_influence_sums.T
    squared_error_influence = k**2 * w2u2 + 2 * k * (a + b) * w2u + (a + b) ** 2 * w2  # (w (k u + a + b))^2
    return InfluenceSums(
        square_sum=sum_powers(2, parts.second_power_sums),
        fourth_power_sum=sum_powers(4, parts.fourth_power_sums),
        contribution_sum=float(np.sum(ranked_loss)) / total_mass,
        squared_contribution_sum=float(np.sum(squared_ranked_loss)) / total_mass**2,
        # rounding can make this sum of squares slightly negative
        error_square_sum=max(float(np.sum(squared_error_influence)), 0.0) / total_mass**2,
    )


def _sum_ranked_losses(sums: RankedLossSums, added_slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums over each part of w l r and of (w l r)^2, with w the weight of a sample, l its loss and r its rank weight.

    r is s, the slope in the loss as far as the sample's own part decides it, plus `added_slope`, what all other parts
    add to it: one number per part. The fields of `sums` have one entry per part too: sums of w l (`loss`), w l s
    (`loss_slope`) and (w l)^2 s^i for i = 0, 1, 2.
    """
    ranked_loss = sums.loss_slope + added_slope * sums.loss
    squared_ranked_loss = (
        sums.squared_loss_squared_slope
        + 2 * added_slope * sums.squared_loss_slope
        + added_slope**2 * sums.squared_loss
    )
    return ranked_loss, squared_ranked_loss


def effects_of_other_parts(parts: AreaSums) -> LossLine:
    """What the other parts of a ranking add to the influence, constant + slope * loss, of the samples of each part.

    A part is a run of rows; the influence of a sample is what it does to the area. `parts` holds the stacked sums of
    all parts, most confident first; each adds its `for_rows_above` to all parts above it and its `for_rows_below` to
    all below. The mean influence over all samples is subtracted from the constants. Returns arrays with one entry per
    part.
    """
    # constant and slope in two columns, one line per part
    for_parts_above = np.stack(parts.for_rows_above, axis=-1)
    for_parts_below = np.stack(parts.for_rows_below, axis=-1)
    # cumulative sums, less what each part adds itself
    from_parts_below = np.cumsum(for_parts_above[::-1], axis=0)[::-1] - for_parts_above
    from_parts_above = np.cumsum(for_parts_below, axis=0) - for_parts_below
    constant, slope = (from_parts_below + from_parts_above).T
    # sum over all samples of w (constant + slope * l)
    added_influence = np.sum(constant * parts.mass + slope * parts.loss)
    mean_influence = (parts.influence_sum.sum() + added_influence) / parts.mass.sum()
    return LossLine(constant - mean_influence, slope)
