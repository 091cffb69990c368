r"""What an error bar needs of a stretch of the ranking, so that stretches handled apart add up.

A stretch is a run of rows with the mass and loss accepted above it known; a sample in memory is one stretch.
Every metric here is linear in the losses once the ranking is given, so the influence of a member is a line
`u = const + slope * loss`. It reads the rows outside the stretch through two numbers only, a constant and a
slope, which are known once all stretches are: each reports sums with those two left open, and `combined` puts
them in:

.. math:: \sum w^p (k u + a + b l)^p = \sum_{i+j+r=p} \frac{p!}{i!\,j!\,r!} k^i b^j a^r \sum w^p u^i l^j,
          \qquad p = 2, 4

What an engine carries for each range, group and area: one `Stretch` (about forty numbers). With them and the
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

from abstain.core.influence import PIECE, AcceptedLossArea, Area, AreaUnderCurve, MetricDerivative, dot
from abstain.core.rounding import SUM_ROUNDING
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


# keyed by the power p = 2 or 4; the order of the triples is the order of all sums of powers below
_TRIPLES = {p: _exponent_triples(p) for p in (2, 4)}
_PAIRS = {p: [(i, j) for i, j, _ in triples] for p, triples in _TRIPLES.items()}
_EXPONENTS = {p: np.asarray(triples).T for p, triples in _TRIPLES.items()}
_COEFFICIENTS = {p: np.asarray([_multinomial(p, t) for t in triples]) for p, triples in _TRIPLES.items()}
_SECOND_AMONG_FOURTH = [_PAIRS[4].index(pair) for pair in _PAIRS[2]]  # with weights of 1, w^2 = w^4
_FOURTH_AS_PRODUCTS = [_split_exponents(i, j) for i, j in _PAIRS[4]]


@dataclass(frozen=True)
class Table:
    """Rows with the sums over their samples of w^2 l^j and w^4 l^j, for weights w and losses l.

    Where losses are 0/1, one array object stands for all j > 0; where weights are 1, `rows.mass` is `squares[0]`.

    Attributes
    ----------
    rows : Rows
        Most confident first, with the accepted sums and the total mass of the whole data set.
    squares : sequence of ndarray
        By row, sums of w^2 l^j for j = 0, 1, 2.
    known_fourths : sequence of ndarray
        By row, sums of w^4 l^j for j = 0 ... 4; empty where they are computed from `members` when needed.
    members : (ndarray, ndarray or None, ndarray) or None
        Losses and weights of single samples, most confident first, and where rows stop among them. Kept where rows
        are nearly as many as samples.
    """

    rows: Rows
    squares: Sequence[np.ndarray]
    known_fourths: Sequence[np.ndarray] = ()
    members: tuple[np.ndarray, np.ndarray | None, np.ndarray] | None = None

    @cached_property
    def fourths(self) -> Sequence[np.ndarray]:
        """Sums of w^4 l^j."""
        return self.known_fourths if self.members is None else sum_powers_by_row(*self.members)[5:]

    @cached_property
    def columns(self) -> list[np.ndarray]:
        """Sums of each row: mass, loss, w^2 l^j (3), w^4 l^j (5)."""
        return [self.rows.mass, self.rows.loss, *self.squares, *self.fourths]

    @cached_property
    def sums(self) -> np.ndarray:
        """Sums over all rows of mass, loss and w^2 l^j (3)."""
        return added_up([self.rows.mass, self.rows.loss, *self.squares])

    @property
    def unit(self) -> bool:
        """Is every weight known to be 1, so that the sums of all powers are one array?"""
        return self.rows.mass is self.squares[0]

    def in_error_units(self, size: float) -> Table:
        """The table of 0/1 losses, where all losses are 0 or `size`."""
        rows = self.rows._replace(
            loss=self.rows.loss / size, accepted_loss=self.rows.accepted_loss / size, xp=np, padded=False
        )
        error_squares = self.squares[1] / size
        error_fourths = self.fourths[1] / size
        squared_mass = rows.mass if self.unit else self.squares[0]
        return Table(
            rows=rows,
            squares=(squared_mass, error_squares, error_squares),
            known_fourths=(self.fourths[0], *4 * [error_fourths]),
        )

    @property
    def zero_one(self) -> bool:
        """Are all losses known to be 0 or 1?"""
        return self.squares[1] is self.squares[2]


def added_up(columns: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of each column; an array object that is there several times is added up once."""
    totals: dict[int, float] = {}
    for column in columns:
        if id(column) not in totals:
            totals[id(column)] = column.sum()
    return np.asarray([totals[id(column)] for column in columns])


def plain_table(rows: Rows) -> Table:
    """The table of 0/1 losses without weights, whose sums of powers are mass and loss."""
    return Table(
        rows=rows,
        squares=(rows.mass, rows.loss, rows.loss),
        known_fourths=(rows.mass, rows.loss, rows.loss, rows.loss, rows.loss),
    )


def tables_of(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> list[Table]:
    """Tables of samples, most confident first, in pieces that stay in cache."""
    return list(tables(read_by_confidence(loss, confidence, weight), is_zero_one(loss)))


def tables_by(
    ranking: Ranking, loss: np.ndarray, weight: np.ndarray | None, zero_one: bool, size: int = PIECE
) -> Iterator[Table]:
    """Tables of samples whose ranking is known, most confident first, of about `size` samples each."""
    return tables(read_along_ranking(ranking, loss, weight, zero_one), zero_one, size)


def tables(samples: SampleReader, zero_one: bool, size: int = PIECE) -> Iterator[Table]:
    """Tables of whole rows, most confident first, of about `size` samples each, which stay in cache."""
    if samples.read_weight is None and zero_one:
        yield from map(plain_table, iterate_rows(samples, size=size))
        return
    total_mass = np.asarray([samples.total_mass])
    mass_above = 0.0
    loss_above = 0.0
    for start, stop, last_places in split_at_row_ends(samples, size):
        row_stops = last_places + 1
        loss = samples.read_loss(start, stop)
        weight = None if samples.read_weight is None else samples.read_weight(start, stop)
        keeps_members = not zero_one and 2 * len(row_stops) > stop - start
        row_mass, row_loss, *powers = sum_powers_by_row(
            loss, weight, row_stops, zero_one, fourths=not keeps_members
        )
        if weight is None:
            accepted_mass = start + row_stops.astype(np.float64)
        else:
            accepted_mass = mass_above + np.cumsum(row_mass)
        rows = Rows(
            mass=row_mass,
            loss=row_loss,
            accepted_mass=accepted_mass,
            accepted_loss=loss_above + np.cumsum(row_loss),
            total_mass=total_mass,
            padded=False,
        )
        yield Table(
            rows=rows,
            squares=powers[:3],
            known_fourths=powers[3:],
            members=(loss, weight, row_stops) if keeps_members else None,
        )
        mass_above = float(rows.accepted_mass[-1])
        loss_above = float(rows.accepted_loss[-1])


def totals_of_samples(loss: np.ndarray, weight: np.ndarray | None, zero_one: bool) -> Totals:
    """The totals of samples in any order, a cacheful at a time."""
    n = len(loss)
    if weight is None and zero_one:
        error_count = float(np.count_nonzero(loss))
        return Totals(
            n=n,
            W=float(n),
            S=error_count,
            squares=(n, error_count, error_count),
            fourths=(n, *4 * [error_count]),
            zero_one=True,
        )
    piece_sums = []
    smallest_loss = math.inf
    has_whole_weights = True
    for start in range(0, n, PIECE):
        l = loss[start : start + PIECE].astype(np.float64, copy=False)
        smallest_loss = min(smallest_loss, float(l.min()))
        l2 = l * l
        if weight is None:
            loss_powers = [len(l), l.sum(), l2.sum(), l @ l2, l2 @ l2]  # exponents 0 to 4
            piece_sums.append([*loss_powers[:2], *loss_powers[:3], *loss_powers])
            continue
        w = weight[start : start + PIECE].astype(np.float64, copy=False)
        if not np.all(w == np.floor(w)):
            has_whole_weights = False
        w2 = w * w
        w2l = w * w * l
        w2l2 = w * w * l2
        squares = [w2.sum(), w2l.sum(), w2l2.sum()]
        fourths = [w2 @ w2, w2 @ w2l, w2l @ w2l, w2l @ w2l2, w2l2 @ w2l2]
        piece_sums.append([w.sum(), (w * l).sum(), *squares, *fourths])
    sums = [math.fsum(column) for column in zip(*piece_sums)]
    return Totals(
        n=n,
        W=sums[0],
        S=sums[1],
        squares=tuple(sums[2:5]),
        fourths=tuple(sums[5:]),
        zero_one=zero_one,
        negative=smallest_loss < 0,
        whole=has_whole_weights,
    )


def table_of_blocks(blocks: Blocks) -> Table:
    """The table of a mergeable one, whose confidences ascend."""
    ascending = (blocks.w2, blocks.w2l, blocks.w2ll, *blocks.fourths)
    powers = [column[::-1] for column in ascending]
    return table_of_sums(blocks.rows(), powers, blocks.zero_one)


def table_of_sums(rows: Rows, powers: Sequence[np.ndarray], zero_one: bool) -> Table:
    """The table of rows with their sums of w^2 l^j (3) and w^4 l^j (5), in that order in `powers`."""
    if zero_one:  # l^j = l
        w2, w2l, _, w4, w4l = powers[:5]
        return Table(rows, (w2, w2l, w2l), (w4, w4l, w4l, w4l, w4l))
    return Table(rows, powers[:3], powers[3:])


def totals_of(tables: Sequence[Table], n: int, zero_one: bool, negative: bool, whole: bool) -> Totals:
    """The totals of all tables of one data set, most confident first; what sums do not show are arguments."""
    table_sums = [added_up(table.columns) for table in tables]
    sums = [math.fsum(column) for column in zip(*table_sums)]
    last_rows = tables[-1].rows
    return Totals(
        n=n,
        W=float(last_rows.accepted_mass[-1]),
        S=float(last_rows.accepted_loss[-1]),
        squares=tuple(sums[2:5]),
        fourths=tuple(sums[5:]),
        zero_one=zero_one,
        negative=negative,
        whole=whole,
    )


class Stretch(NamedTuple):
    """Sums over one stretch, or over many that are `stacked`.

    `up` is what a stretch adds to const and slope of the members above it (`down`: below).
    """

    terms: Any  # its part of W * area
    loo: Any  # the same by the leave-one-out weights, of use for unit weights
    mass: Any
    loss: Any
    up: Any  # (const, slope)
    down: Any
    centre: Any  # sum of w u
    pivot: Any  # (const, slope) that u is taken from in the sums below: what varies little keeps its digits
    second: np.ndarray  # sums of w^2 u^i l^j, in the order of _TRIPLES[2]
    fourth: np.ndarray
    weights: np.ndarray  # sums of w l slope^k (k <= 1), w^2 l^2 slope^k (k <= 2)
    wrong: np.ndarray  # over the errors of a 0/1 loss: sums of w^2 u^i (i <= 2); nan for other losses


def stretch_of(table: Table, area: Area, error_mass: float = math.nan) -> Stretch:
    """Sums of one area over a table whose rows hold the accepted sums and the total mass of the whole data set.

    `error_mass` is the mass of all errors of the data set, which areas of 0/1 losses read.
    """
    rows = table.rows
    line = area.derivative(rows, error_mass)
    slope = line.slope
    mass, loss = table.sums[:2].tolist()
    mean_constant = dot(rows.mass, line.constant) / mass
    weighted_loss = dot(rows.loss, slope)
    if table.zero_one:
        loss_size = loss
        weighted_size = weighted_loss
    else:
        row_loss_size = np.abs(rows.loss)
        loss_size = float(row_loss_size.sum())
        weighted_size = dot(row_loss_size, slope)
    mean_slope = weighted_size / (loss_size or 1.0)
    second, fourth, wrong = _powers(table, line.constant - mean_constant, slope - mean_slope)
    squared_loss = table.sums[4]
    if area.weighs_by_rank:
        slope_moments = _weighted_powers(table.squares[2], slope, 2)
        weights = [loss, weighted_loss, squared_loss, slope_moments[1], slope_moments[2]]
    else:
        weights = [loss, loss, squared_loss, squared_loss, squared_loss]
    return Stretch(
        terms=line.mass_times_area,
        loo=area.leave_one_out(rows),
        mass=mass,
        loss=loss,
        up=line.for_rows_above,
        down=line.for_rows_below,
        centre=mean_constant * mass + weighted_loss,
        pivot=(mean_constant, mean_slope),
        second=second,
        fourth=fourth,
        weights=np.asarray(weights),
        wrong=wrong,
    )


def stretches_of(
    table: Table, areas: Sequence[Area], error_mass: float, loss_unit: float = 1.0
) -> dict[Area, Stretch]:
    """`stretch_of` for several areas, of losses in units of `loss_unit`.

    Without ties the area behind AUROC needs no sums of its own: its influences are those of AUGRC less l / W.
    """
    generalised_area = AreaUnderCurve("sele", "threshold")
    has_no_ties = table.unit and len(table.rows.mass) == table.sums[0]
    stretches: dict[Area, Stretch] = {}
    for area in areas:
        if area == AcceptedLossArea() and generalised_area in stretches and has_no_ties:
            stretches[area] = _without_half_loss(stretches[generalised_area], float(table.rows.total_mass[0]))
        else:
            stretches[area] = stretch_of(table, area.with_loss_unit(loss_unit), error_mass)
    return stretches


def _without_half_loss(augrc: Stretch, W: float) -> Stretch:
    """The stretch of `AcceptedLossArea` from that of AUGRC, where no confidences are equal and all weights are 1."""
    return augrc._replace(
        terms=augrc.weights[1] - augrc.loss / (2 * W),
        centre=augrc.centre - augrc.loss / W,
        pivot=(augrc.pivot[0], augrc.pivot[1] - 1 / W),
    )


def _powers(table: Table, const: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of w^p u^i l^j, in the order of _PAIRS, p = 2 and 4; and those of w^2 u^i over errors alone."""
    if table.zero_one and table.members is None:
        fourth, wrong = _powers_of_errors(4, table.fourths, const, slope)
        if table.unit:
            return fourth[_SECOND_AMONG_FOURTH], fourth, wrong[:3]
        second, wrong = _powers_of_errors(2, table.squares, const, slope)
        return second, fourth, wrong
    unknown = np.full(3, np.nan)
    if table.members is not None:
        return *_powers_of_members(*table.members, const, slope), unknown
    fourth = _powers_of_rows(4, table.fourths, const, slope)
    second = fourth[_SECOND_AMONG_FOURTH] if table.unit else _powers_of_rows(2, table.squares, const, slope)
    return second, fourth, unknown


def _powers_of_errors(
    p: int, sums: Sequence[np.ndarray], const: np.ndarray, slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of w^p u^i l^j for 0/1 losses, in the order of _PAIRS[p], over all samples and over errors alone.

    u is `const` for right samples and `const + slope` for errors; `sums` are the rows' sums of w^p and of w^p l.
    """
    right = _weighted_powers(sums[0] - sums[1], const, p)
    wrong = _weighted_powers(sums[1], const + slope, p)
    i, j = _EXPONENTS[p][:2]
    of_right = np.where(j == 0, right[i], 0.0)  # l^j is 0 for right samples unless j is 0
    return np.asarray(wrong[i] + of_right), wrong


def _powers_of_rows(p: int, sums: Sequence[np.ndarray], const: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Sums of w^p u^i l^j in the order of _PAIRS[p], from the rows' sums of w^p l^j, with u = const + slope l."""
    totals: dict[tuple[int, int], float] = {}
    for i in range(p + 1):
        for j, column in enumerate(sums):
            totals[i, j] = float(np.sum(column))
        sums = [const * low + slope * high for low, high in pairwise(sums)]  # one u more, one l less
    return np.asarray([totals[pair] for pair in _PAIRS[p]])


def _powers_of_members(
    l: np.ndarray, w: np.ndarray | None, row_stops: np.ndarray, const: np.ndarray, slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of w^p u^i l^j over single samples, for p = 2 and for p = 4, in the order of _PAIRS.

    u = const + slope l, with `const` and `slope` by row; fourth powers are dot products of second powers.
    """
    if len(row_stops) < len(l):
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
    second_powers = {(0, 0): w2, (1, 0): w2u, (0, 1): w2l, (2, 0): w2u * u, (1, 1): w2u * l, (0, 2): w2l * l}
    fourth = np.asarray(
        [dot(second_powers[pair_a], second_powers[pair_b]) for pair_a, pair_b in _FOURTH_AS_PRODUCTS]
    )
    if w is None:
        return fourth[_SECOND_AMONG_FOURTH], fourth
    return np.asarray([second_powers[pair].sum() for pair in _PAIRS[2]]), fourth


def _weighted_powers(mass: np.ndarray, x: np.ndarray, p: int) -> np.ndarray:
    """Sums of mass x^i for i = 0 ... p, where p is 2 or 4."""
    x2 = x * x
    sums = [mass.sum(), dot(mass, x), dot(mass, x2)]
    if p > 2:
        mass_x2 = mass * x2
        sums += [dot(mass_x2, x), dot(mass_x2, x2)]
    return np.asarray(sums)


class Totals(NamedTuple):
    """Sums over a whole data set, with weights w and losses l.

    Attributes
    ----------
    n : int
        Samples that did not abstain.
    W, S : float
        Sums of w and of w l, over those.
    squares, fourths : tuple of float
        Sums of w^2 l^j (j = 0, 1, 2), and of w^4 l^j (j = 0 ... 4).
    zero_one, negative : bool
        Are all losses 0 or 1? Is any below 0?
    whole : bool
        Are all weights whole numbers, that is, repetitions?
    idle : (int, float, float, float)
        Of the samples that abstained: how many, and their sums of w, w^2 and w^4.
    error_size : float
        One unit of the losses above, in the user's units.
    """

    n: int
    W: float
    S: float
    squares: tuple[float, ...]
    fourths: tuple[float, ...]
    zero_one: bool
    negative: bool = False
    whole: bool = True
    idle: tuple[int, float, float, float] = (0, 0.0, 0.0, 0.0)
    error_size: float = 1.0

    def in_error_units(self) -> Totals:
        """The totals of 0/1 losses where every loss is 0 or one number c, and both occur; others unchanged.

        Losses of at least 0 take one value besides 0 exactly where their sums of powers are proportional:
        sum w^4 l times sum w^4 l^3 is the square of sum w^4 l^2, and larger otherwise (Cauchy and Schwarz).
        """
        if self.zero_one or self.negative or not self.fourths or not self.fourths[1] > 0:
            return self
        l, l2, l3 = self.fourths[1:4]
        if not math.isfinite(l * l3 * l2):
            return self  # sums of huge losses overflow and tell nothing
        size = l2 / l
        all_alike = size * self.W * (1 - SUM_ROUNDING) <= self.S
        if all_alike or l * l3 - l2**2 > 1e-11 * l2**2:
            return self
        wrong = self.squares[1] / size
        return self._replace(
            S=self.S / size,
            squares=(self.squares[0], wrong, wrong),
            fourths=(self.fourths[0], *4 * [l / size]),
            zero_one=True,
            error_size=size,
        )

    @property
    def right_or_wrong(self) -> bool:
        """Are losses 0 and 1 in the user's units too, so that metrics of right and wrong apply?"""
        return self.zero_one and self.error_size == 1

    @property
    def unit(self) -> bool:
        """Is every weight 1? (No others have these sums.)"""
        return self.n == self.W == self.squares[0]

    @property
    def risk(self) -> float:
        """Mean loss."""
        return self.S / self.W


class InfluenceSums(NamedTuple):
    """Sums over independent units of v = w IF / W, and of z = w alpha l / W with alpha the rank weight of a sample.

    Attributes
    ----------
    squares, fourth_powers : float
        Sums of v^2 and v^4.
    weighted_loss, weighted_loss_squares : float
        Sums of z and z^2; alpha is 1 where no rank weighs the loss.
    error_squares : float
        The sum of v^2 over the errors of a 0/1 loss; nan for other losses.
    """

    squares: float
    fourth_powers: float
    weighted_loss: float
    weighted_loss_squares: float
    error_squares: float = math.nan


def stacked(stretches: Sequence[Stretch]) -> Stretch:
    """All stretches of a ranking, most confident first, each field as one array."""
    return Stretch(*(np.asarray(field) for field in zip(*stretches)))


def combined(stretches: Stretch, area: Area, metric: MetricDerivative) -> InfluenceSums:
    """The sums of a metric made of `area`, over stacked stretches of that area.

    In the code, a member of a stretch has influence k u + a + b l, with u the influence known within the stretch,
    k = `metric.per_area`, and a and b (one entry per stretch) what the other stretches, the pivot and the metric add.
    """
    k = metric.per_area
    W = float(stretches.mass.sum())
    constant_from_outside, slope_from_outside = offsets(stretches)
    a = k * (constant_from_outside + stretches.pivot[:, 0]) + metric.constant
    b = k * (slope_from_outside + stretches.pivot[:, 1]) + metric.slope

    def power(p: int, sums: np.ndarray) -> float:
        i, j, r = _EXPONENTS[p]
        terms = _COEFFICIENTS[p] * k**i * b[:, None] ** j * a[:, None] ** r * sums
        total = float(np.sum(terms))
        return total / W**p if total > SUM_ROUNDING * float(np.sum(np.abs(terms))) else 0.0

    loss, ranked_loss, square, ranked_square, twice_ranked_square = stretches.weights.T
    if area.weighs_by_rank and k != 0:
        weighted_loss = float(np.sum(ranked_loss + slope_from_outside * loss))
        squares = (
            twice_ranked_square + 2 * slope_from_outside * ranked_square + slope_from_outside**2 * square
        )
        weighted_loss_squares = float(np.sum(squares))
    else:  # all errors count the same
        weighted_loss = float(np.sum(loss))
        weighted_loss_squares = float(np.sum(square))
    of_error = a + b  # an error has loss 1
    wrong = (
        k**2 * stretches.wrong[:, 2]
        + 2 * k * of_error * stretches.wrong[:, 1]
        + of_error**2 * stretches.wrong[:, 0]
    )
    return InfluenceSums(
        squares=power(2, stretches.second),
        fourth_powers=power(4, stretches.fourth),
        weighted_loss=weighted_loss / W,
        weighted_loss_squares=weighted_loss_squares / W**2,
        error_squares=max(float(np.sum(wrong)), 0.0) / W**2,
    )


def offsets(stretches: Stretch) -> tuple[np.ndarray, np.ndarray]:
    """What the other stretches add to the constant and the slope of each stretch's members, one entry per stretch.

    The mean influence over all samples is subtracted from the constants. `stretches` holds stacked stretches, most
    confident first; each adds `up` to all above it and `down` to all below.
    """
    up = stretches.up
    down = stretches.down
    a, b = (np.cumsum(up[::-1], axis=0)[::-1] - up + np.cumsum(down, axis=0) - down).T
    mean = (stretches.centre.sum() + np.sum(a * stretches.mass + b * stretches.loss)) / stretches.mass.sum()
    return a - mean, b
