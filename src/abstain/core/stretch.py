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

_TRIPLES = {p: [(i, j, p - i - j) for i in range(p + 1) for j in range(p + 1 - i)] for p in (2, 4)}
_PAIRS = {p: [(i, j) for i, j, _ in triples] for p, triples in _TRIPLES.items()}
# sums of weights of 1: the lower powers are among the fourth
_LOWER = [_PAIRS[4].index(ij) for ij in _PAIRS[2]]
_HALVES = [((a := min(i, 2), b := min(j, 2 - a)), (i - a, j - b)) for i, j in _PAIRS[4]]
_EXPONENTS = {p: np.asarray(triples).T for p, triples in _TRIPLES.items()}
_WAYS = {
    p: np.asarray([math.factorial(p) / math.prod(map(math.factorial, t)) for t in triples])
    for p, triples in _TRIPLES.items()
}


@dataclass(frozen=True)
class Table:
    """Rows with their sums of w^2 l^j (j = 0, 1, 2) and w^4 l^j (j = 0 ... 4); 0/1 losses: one array for all j > 0.

    `members`: losses, weights and where rows end, where rows and members are about as many.
    """

    rows: Rows
    squares: Sequence[np.ndarray]
    known_fourths: Sequence[np.ndarray] = ()  # those of members are added up when they are asked for
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
        """Of mass, loss and w^2 l^j, over all rows."""
        return added_up([self.rows.mass, self.rows.loss, *self.squares])

    @property
    def unit(self) -> bool:
        """Is every weight known to be 1, so that the sums of all powers are one array?"""
        return self.rows.mass is self.squares[0]

    def in_error_units(self, size: float) -> Table:
        """The table of 0/1 losses, where all losses are 0 or `size`."""
        m, L, N, S, W, *_ = self.rows
        rows = Rows(
            mass=m, loss=L / size, accepted_mass=N, accepted_loss=S / size, total_mass=W, padded=False
        )
        wrong = self.squares[1] / size
        mass2 = m if self.unit else self.squares[0]
        return Table(rows, (mass2, wrong, wrong), (self.fourths[0], *4 * [self.fourths[1] / size]))

    @property
    def zero_one(self) -> bool:
        """Are all losses known to be 0 or 1?"""
        return self.squares[1] is self.squares[2]


def added_up(columns: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of each column, of one that stands there several times once."""
    totals = {id(x): x.sum() for x in {id(x): x for x in columns}.values()}
    return np.asarray([totals[id(x)] for x in columns])


def plain_table(rows: Rows) -> Table:
    """Of 0/1 losses without weights: the rows say all."""
    return Table(
        rows, (rows.mass, rows.loss, rows.loss), (rows.mass, rows.loss, rows.loss, rows.loss, rows.loss)
    )


def tables_of(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> list[Table]:
    """Of samples, most confident first, in pieces that stay in cache."""
    return list(tables(read_by_confidence(loss, confidence, weight), is_zero_one(loss)))


def tables_by(
    ranking: Ranking, loss: np.ndarray, weight: np.ndarray | None, zero_one: bool, size: int = PIECE
) -> Iterator[Table]:
    """Of samples whose ranking is known."""
    return tables(read_along_ranking(ranking, loss, weight, zero_one), zero_one, size)


def tables(samples: SampleReader, zero_one: bool, size: int = PIECE) -> Iterator[Table]:
    """Most confident first, in pieces of whole rows that stay in cache."""
    if samples.read_weight is None and zero_one:
        yield from map(plain_table, iterate_rows(samples, size=size))
        return
    W, N, S = np.asarray([samples.total_mass]), 0.0, 0.0
    for a, b, places in split_at_row_ends(samples, size):
        stops = places + 1
        l, w = samples.read_loss(a, b), samples.read_weight and samples.read_weight(a, b)
        apart = not zero_one and 2 * len(stops) > b - a
        m, L, *powers = sum_powers_by_row(l, w, stops, zero_one, fourths=not apart)
        accepted = a + stops.astype(np.float64) if w is None else N + np.cumsum(m)
        rows = Rows(
            mass=m, loss=L, accepted_mass=accepted, accepted_loss=S + np.cumsum(L), total_mass=W, padded=False
        )
        yield Table(rows, powers[:3], powers[3:], (l, w, stops) if apart else None)
        N, S = float(rows.accepted_mass[-1]), float(rows.accepted_loss[-1])


def totals_of_samples(loss: np.ndarray, weight: np.ndarray | None, zero_one: bool) -> Totals:
    """The totals before anything is ranked, a cacheful at a time."""
    n = len(loss)
    if weight is None and zero_one:
        wrong = float(np.count_nonzero(loss))
        return Totals(n, float(n), wrong, (n, *2 * [wrong]), (n, *4 * [wrong]), True)
    sums, least, whole = [], math.inf, True
    for a in range(0, n, PIECE):
        l = loss[a : a + PIECE].astype(np.float64, copy=False)
        least = min(least, float(l.min()))
        square = l * l
        if weight is None:
            powers = [len(l), l.sum(), square.sum(), l @ square, square @ square]  # of the loss, from 0 to 4
            sums.append([*powers[:2], *powers[:3], *powers])
            continue
        w = weight[a : a + PIECE].astype(np.float64, copy=False)
        whole = whole and bool(np.all(w == np.floor(w)))
        x, y, z = w * w, w * w * l, w * w * square
        sums.append([w.sum(), (w * l).sum(), x.sum(), y.sum(), z.sum(), x @ x, x @ y, y @ y, y @ z, z @ z])
    W, S, *rest = (math.fsum(column) for column in zip(*sums))
    return Totals(n, W, S, tuple(rest[:3]), tuple(rest[3:]), zero_one, least < 0, whole)


def table_of_blocks(blocks: Blocks) -> Table:
    """Of a mergeable table (which ascends)."""
    powers = [x[::-1] for x in (blocks.w2, blocks.w2l, blocks.w2ll, *blocks.fourths)]
    return table_of_sums(blocks.rows(), powers, blocks.zero_one)


def table_of_sums(rows: Rows, powers: Sequence[np.ndarray], zero_one: bool) -> Table:
    """Of rows with their sums of w^2 l^j (3) and w^4 l^j (5)."""
    if zero_one:  # l^j = l, bit by bit
        w2, w2l, _, w4, w4l = powers[:5]
        return Table(rows, (w2, w2l, w2l), (w4, w4l, w4l, w4l, w4l))
    return Table(rows, powers[:3], powers[3:])


def totals_of(tables: Sequence[Table], n: int, zero_one: bool, negative: bool, whole: bool) -> Totals:
    """Of the stretches of one data set; what sums cannot tell is given."""
    last, sums = tables[-1].rows, [math.fsum(x) for x in zip(*(added_up(t.columns) for t in tables))]
    W, S = float(last.accepted_mass[-1]), float(last.accepted_loss[-1])
    return Totals(n, W, S, tuple(sums[2:5]), tuple(sums[5:]), zero_one, negative, whole)


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
        slope_moments = _means(table.squares[2], slope, 2)
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
            return fourth[_LOWER], fourth, wrong[:3]
        second, wrong = _powers_of_errors(2, table.squares, const, slope)
        return second, fourth, wrong
    unknown = np.full(3, np.nan)
    if table.members is not None:
        return *_powers_of_members(*table.members, const, slope), unknown
    fourth = _powers_of_rows(4, table.fourths, const, slope)
    second = fourth[_LOWER] if table.unit else _powers_of_rows(2, table.squares, const, slope)
    return second, fourth, unknown


def _powers_of_errors(
    p: int, sums: Sequence[np.ndarray], const: np.ndarray, slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of 0/1 losses, where u is const (right) or const + slope (wrong): over all samples, and over errors."""
    right = _means(sums[0] - sums[1], const, p)
    wrong = _means(sums[1], const + slope, p)
    i, j = _EXPONENTS[p][:2]
    return np.asarray(wrong[i] + right[i] * (j == 0)), wrong


def _powers_of_rows(p: int, sums: Sequence[np.ndarray], const: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """From the rows' sums of w^p l^j."""
    found = dict[tuple[int, int], float]()
    for i in range(p + 1):
        found |= {(i, j): float(np.sum(x)) for j, x in enumerate(sums)}
        sums = [const * x + slope * y for x, y in pairwise(sums)]  # one u more, one l less
    return np.asarray([found[ij] for ij in _PAIRS[p]])


def _powers_of_members(
    l: np.ndarray, w: np.ndarray | None, stops: np.ndarray, const: np.ndarray, slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """From the members themselves: fourth powers are dot products of squares."""
    if len(stops) < len(l):
        place = np.repeat(np.arange(len(stops)), diff_from(stops, 0))
        const, slope = const[place], slope[place]
    u = const + slope * l
    one = np.ones(len(l)) if w is None else w * w
    wu, wl = (u, l) if w is None else (one * u, one * l)
    two = {(0, 0): one, (1, 0): wu, (0, 1): wl, (2, 0): wu * u, (1, 1): wu * l, (0, 2): wl * l}
    fourth = np.asarray([dot(two[first], two[rest]) for first, rest in _HALVES])
    return fourth[_LOWER] if w is None else np.asarray([two[ij].sum() for ij in _PAIRS[2]]), fourth


def _means(mass: np.ndarray, x: np.ndarray, p: int) -> np.ndarray:
    """Sums of mass x^i, i = 0 ... p, for p = 2 and 4."""
    square = x * x
    found = [mass.sum(), dot(mass, x), dot(mass, square)]
    if p > 2:
        mass = mass * square
        found += [dot(mass, x), dot(mass, square)]
    return np.asarray(found)


class Totals(NamedTuple):
    """Of the whole data set. `idle`: count, mass, sums of w^2 and w^4 of abstained samples, never accepted."""

    n: int  # samples that were answered
    W: float
    S: float
    squares: tuple[float, ...]  # sums of w^2 l^j, j = 0, 1, 2
    fourths: tuple[float, ...]  # sums of w^4 l^j, j = 0 ... 4
    zero_one: bool
    negative: bool = False  # is any loss below 0?
    whole: bool = True  # are all weights whole numbers, that is, repetitions?
    idle: tuple[int, float, float, float] = (0, 0.0, 0.0, 0.0)
    error_size: float = 1.0  # one unit of the losses above, in the user's units

    def in_error_units(self) -> Totals:
        """The totals of 0/1 losses where every loss is 0 or one number c, and both occur; others as they are.

        Losses of at least 0 take one value beside 0 exactly where their sums of powers are proportional:
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


def combined(every: Stretch, area: Area, metric: MetricDerivative) -> InfluenceSums:
    """The sums of a metric made of `area`, over stacked stretches of that area.

    In the code, a member of a stretch has influence k u + a + b l, with u the influence known within the stretch,
    k = `metric.per_area`, and a and b (one entry per stretch) what the other stretches, the pivot and the metric add.
    """
    k = metric.per_area
    W = float(every.mass.sum())
    constant_from_outside, slope_from_outside = offsets(every)
    a = k * (constant_from_outside + every.pivot[:, 0]) + metric.constant
    b = k * (slope_from_outside + every.pivot[:, 1]) + metric.slope

    def power(p: int, sums: np.ndarray) -> float:
        i, j, r = _EXPONENTS[p]
        terms = _WAYS[p] * k**i * b[:, None] ** j * a[:, None] ** r * sums
        total = float(np.sum(terms))
        return total / W**p if total > SUM_ROUNDING * float(np.sum(np.abs(terms))) else 0.0

    loss, ranked_loss, square, ranked_square, twice_ranked_square = every.weights.T
    if area.weighs_by_rank and k != 0:
        weighted_loss = float(np.sum(ranked_loss + slope_from_outside * loss))
        squares = (
            twice_ranked_square + 2 * slope_from_outside * ranked_square + slope_from_outside**2 * square
        )
        weighted_loss_squares = float(np.sum(squares))
    else:  # every error counts the same
        weighted_loss = float(np.sum(loss))
        weighted_loss_squares = float(np.sum(square))
    of_error = a + b  # an error has loss 1
    wrong = k**2 * every.wrong[:, 2] + 2 * k * of_error * every.wrong[:, 1] + of_error**2 * every.wrong[:, 0]
    return InfluenceSums(
        squares=power(2, every.second),
        fourth_powers=power(4, every.fourth),
        weighted_loss=weighted_loss / W,
        weighted_loss_squares=weighted_loss_squares / W**2,
        error_squares=max(float(np.sum(wrong)), 0.0) / W**2,
    )


def offsets(every: Stretch) -> tuple[np.ndarray, np.ndarray]:
    """What the others add to const and slope of each stretch's members; the mean influence is taken off."""
    up, down = every.up, every.down  # handed up by those below, handed down by those above
    a, b = (np.cumsum(up[::-1], axis=0)[::-1] - up + np.cumsum(down, axis=0) - down).T
    mean = (every.centre.sum() + np.sum(a * every.mass + b * every.loss)) / every.mass.sum()
    return a - mean, b
