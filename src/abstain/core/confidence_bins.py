"""Bins of the confidence axis: where they lie, the bounds their counts certify, and the points they tell."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace, float64_bits
from abstain.core import curve_points
from abstain.core.area_estimators import area_terms, harmonic_difference
from abstain.core.rows import Rows, device_keyword, rows_from_blocks, safe_divide

# A fixed, monotone map from confidences to bin numbers, the same everywhere, so that bins merge by addition
#
# Numbers are cut by the bits of their floating-point form, which no rounding of a logarithm can disturb: each
# octave (a power of two of the distance from the nearest of 0 and 1) gets a share of the bins, cut evenly
# inside. Between 1/2 and 1 the octaves are those of `1 - x`, so that resolution is concentrated at the
# confident end of probabilities; 1.0 itself is a bin of its own. Log-domain rank keys (0 to some hundreds)
# and negated entropies get their octaves too.

_BIAS = 1023  # exponent of 1.0 in the bits of a float64
_MANTISSA = 52
_CODES = 2048  # one octave per exponent

# relative share of bins for each kind of octave: (region, from exponent, to exponent, share)
_UNIT = [
    ("top", -26, -2, 8.0),  # 1 - x from 2^-26 to 1/2
    ("top", -60, -27, 0.25),
    ("low", -4, -2, 8.0),  # x from 1/16 to 1/2
    ("low", -12, -5, 1.0),
    ("low", -60, -13, 0.1),
]
_REAL = [
    *_UNIT,
    ("big", 0, 6, 24.0),  # rank keys and logits: 1 to 128
    ("big", 7, 12, 2.0),
    ("big", 13, 60, 0.1),
    ("negative", -24, 6, 4.0),  # negated entropies and impurities, down to -128
    ("negative", -60, -25, 0.1),
    ("negative", 7, 12, 1.0),
    ("negative", 13, 60, 0.1),
]
_REGIONS = ("negative", "low", "top", "big")


class BinMap:
    """`index(confidence)` in [0, size), never falling as confidence rises.

    domain "unit" spends all bins on [0, 1] (what lies outside shares the end bins), "real" serves any number.
    The size is near `bins`, fixed by it and the domain alone.
    """

    def __init__(self, bins: int = 1 << 15, domain: str = "real") -> None:
        self.bins, self.domain = bins, domain
        self._offset, self._cells, self.size = _tables(bins, domain)
        self._beside: dict[str, tuple[Array, Array]] = {}

    def index(self, xp: Namespace, confidence: Array) -> Array:
        """Bin numbers (int64) of the confidences, where they live."""
        x = xp.astype(confidence, xp.float64) + 0.0  # -0 and +0 are one number
        low = (x > 0) & (x <= 0.5)
        top = (x > 0.5) & (x <= 1)
        region = xp.where(x > 1, 3, xp.where(top, 2, xp.where(low, 1, 0)))
        distance = xp.where(top, 1 - x, xp.abs(x))  # exact: x is within a factor of two of 1
        bits = float64_bits(distance)
        octave = bits >> _MANTISSA
        fraction = bits & ((1 << _MANTISSA) - 1)
        offset, cells = self._tables_beside(xp, x)
        code = region * _CODES + octave
        # astype, not `* 1.0`: torch would make float32 of it and put borderline numbers elsewhere than numpy
        cell = (xp.astype(fraction, xp.float64) / (1 << _MANTISSA)) * cells[code]
        cell = xp.minimum(xp.floor(cell), cells[code] - 1)  # the product may round up to the next octave
        falling = (region == 0) | (region == 2)  # confidence rises as the distance falls
        rise = xp.astype(xp.where(falling, cells[code] - 1 - cell, cell), xp.int64)
        return offset[code] + rise

    def _tables_beside(self, xp: Namespace, x: Array) -> tuple[Array, Array]:
        """The tables as arrays on the device of `x`."""
        if isinstance(x, np.ndarray):
            return self._offset, self._cells
        where = str(getattr(x, "device", ""))
        if where not in self._beside:
            offset, cells = (xp.asarray(table, **device_keyword(x)) for table in (self._offset, self._cells))
            self._beside[where] = offset, cells
        return self._beside[where]


@lru_cache(maxsize=16)
def _tables(bins: int, domain: str) -> tuple[np.ndarray, np.ndarray, int]:
    """For each (region, octave): where its bins start and how many there are."""
    shares = np.zeros((len(_REGIONS), _CODES))
    for region, first, last, share in _UNIT if domain == "unit" else _REAL:
        shares[_REGIONS.index(region), first + _BIAS : last + _BIAS + 1] = share
    cells = np.floor(bins * shares / shares.sum())
    cells = np.where((shares > 0) & (cells < 1), 1, cells)
    offset = np.zeros_like(cells, dtype=np.int64)
    position = 0
    for r, region in enumerate(_REGIONS):
        order = range(_CODES) if region in ("low", "big") else range(_CODES - 1, -1, -1)
        for octave in order:
            offset[r, octave] = position
            position += int(cells[r, octave])
        if region == "top" or region == "negative":  # the point 1 (or 0) itself: distance 0
            offset[r, 0] = position
            cells[r, 0] = 1
            position += 1
    # octaves without bins of their own share the first bin that follows (the last one at the very end)
    empty = cells == 0
    offset = np.where(empty, np.minimum(offset, position - 1), offset)
    return offset.reshape(-1), np.where(empty, 1.0, cells).reshape(-1), position


# What binned counts prove: certified bounds and a point estimate for areas and selective risks
#
# A bin keeps its mass `c`, loss sum `L`, smallest and largest confidence. With mass `N` and loss `S` strictly
# above it, the prefix risk at position k (mass accepted) inside a bin of losses in [0, M] lies between
#
#     low(k)  = (S + max(0, L - M (N + c - k))) / k        high(k) = (S + min(L, M (k - N))) / k
#
# and a member at position p sees the least (greatest) of these over k >= p, since it may be tied with all
# below it in the bin. Summed over the members these are sharp for 0/1 loss. A bin whose smallest and largest
# confidence agree is one tie and is exact. Bins merge by addition.
#
# Bins may overlap (histories of different resolution): whatever overlaps a bin is then counted where it hurts
# most. Everything is plain arithmetic on arrays of any library, so it runs where the bins live.


class Bracket(NamedTuple):
    """A point with a lower and an upper bound; the bounds are None when nothing is certain."""

    estimate: Array
    low: Array | None
    high: Array | None


class Bins(NamedTuple):
    """Bins along the last axis, least confident first. Bins of no mass may be present (any `low`, `high`).

    `tie`: does the bin hold one confidence only? `whole`: are all masses whole numbers (no fractional
    weights)? The four offsets say what lies above each bin: (N, S) such that the selective risk is least
    (`N_low`, `S_low`) or greatest (`N_high`, `S_high`); they are the same where no bin overlaps another.
    """

    c: Array
    L: Array
    tie: Array
    N_low: Array
    S_low: Array
    N_high: Array
    S_high: Array
    whole: bool
    xp: Namespace


def disjoint_bins(
    xp: Namespace, count: Array, loss_sum: Array, low: Array, high: Array, whole: bool = True
) -> Bins:
    """Bins that do not overlap, least confident first: the state of a fixed map such as `BinMap`."""
    N, S = _above(xp, count), _above(xp, loss_sum)
    return Bins(count, loss_sum, low >= high, N, S, N, S, whole, xp)


def _above(xp: Namespace, x: Array) -> Array:
    """Sum over the bins strictly more confident."""
    return xp.flip(xp.cumulative_sum(xp.flip(x, axis=-1), axis=-1), axis=-1) - x


def total(bins: Bins) -> tuple[Array, Array]:
    """Mass and loss of all bins, kept as an axis."""
    xp = bins.xp
    return xp.sum(bins.c, axis=-1, keepdims=True), xp.sum(bins.L, axis=-1, keepdims=True)


def aurc(bins: Bins, most: float | None = 1.0) -> Bracket:
    """AURC (harmonic, threshold ties) of binned samples. `most`: largest possible loss; None: no proof."""
    mass = bins.xp.sum(bins.c, axis=-1)
    estimate = bins.xp.sum(_estimate_terms(bins, "harmonic"), axis=-1) / mass
    if most is None:
        return Bracket(estimate, None, None)
    low, high = _risk_sums(bins, most)
    return _ordered(bins, estimate, bins.xp.sum(low, axis=-1) / mass, bins.xp.sum(high, axis=-1) / mass)


def augrc(bins: Bins, most: float | None = 1.0) -> Bracket:
    """AUGRC (mean rule, threshold ties) of binned samples."""
    W, _ = total(bins)
    square = (W * W)[..., 0]
    estimate = bins.xp.sum(_estimate_terms(bins, "sele"), axis=-1) / W[..., 0]
    if most is None:
        return Bracket(estimate, None, None)
    xp = bins.xp
    x = bins.L / most
    late = xp.ceil(x) if bins.whole else x  # members that must see some of the bin's own loss
    ramp = bins.L * late - most * late * (late - 1) / 2 if bins.whole else bins.L * x / 2
    low = bins.c * bins.S_low + xp.where(bins.tie, bins.c * bins.L, ramp)
    high = bins.c * (bins.S_high + bins.L)
    return _ordered(bins, estimate, xp.sum(low, axis=-1) / square, xp.sum(high, axis=-1) / square)


def _ordered(bins: Bins, estimate: Array, low: Array, high: Array) -> Bracket:
    """Overlaps can push the even spread out of the bounds; a point outside what is proven would be silly."""
    return Bracket(bins.xp.minimum(bins.xp.maximum(estimate, low), high), low, high)


def _estimate_terms(bins: Bins, estimator: str) -> Array:
    """Loss spread evenly over the positions of a bin, most confident first; a tie is taken as the tie it is."""
    rows, xp = rows_of_bins(bins), bins.xp
    tied = area_terms(rows, estimator, "threshold")
    if bins.whole:
        spread = area_terms(rows, estimator, "expected")
    elif estimator == "sele":
        spread = rows.mass * (rows.accepted_loss - rows.loss / 2) / rows.total_mass
    else:
        spread = harmonic_spread(rows)
    return xp.where(rows.mass > 0, xp.where(xp.flip(bins.tie, axis=-1), tied, spread), 0.0)


def harmonic_spread(r: Rows) -> Array:
    """The even spread with masses of any size: sums over positions become integrals."""
    above = r.accepted_mass - r.mass
    gain = r.xp.log1p(safe_divide(r.xp, r.mass, above))  # 0 at the very top, where nothing lies above
    return (r.accepted_loss - r.loss) * gain + safe_divide(r.xp, r.loss * (r.mass - above * gain), r.mass)


def _gain(bins: Bins, low: Array, high: Array) -> Array:
    """Sum over positions in (low, high] of one over the position; an integral for masses of any size."""
    xp = bins.xp
    high = xp.maximum(low, high)
    return harmonic_difference(xp, low, high) if bins.whole else xp.log1p(safe_divide(xp, high - low, low))


def _risk_sums(bins: Bins, most: float) -> tuple[Array, Array]:
    """Least and greatest sum, over the members of each bin, of the selective risk at their threshold."""
    xp, c, L = bins.xp, bins.c, bins.L
    x = L / most  # the bin's loss as members of the largest loss
    N, S = bins.N_low, bins.S_low
    first = N + c - x  # nobody before this position need have met any of the bin's loss
    start = xp.floor(first) if bins.whole else first
    end = N + c
    loose = (
        (start - N) * safe_divide(xp, S, first)
        + most * (end - start)
        + (S + L - most * end) * _gain(bins, start, end)
    )
    low = xp.where(bins.tie, c * safe_divide(xp, S + L, end), loose)

    N, S = bins.N_high, bins.S_high
    last = N + x  # from here on all of the bin's loss may be accepted
    stop = xp.floor(last) if bins.whole else last
    # at the very top, with no mass above, the risk starts at its largest and falls
    peak = safe_divide(xp, S + L, last)
    loose = (stop - N) * peak + (S + L) * _gain(bins, stop, N + c)
    high = xp.where(bins.tie, c * safe_divide(xp, S + L, N + c), loose)
    some = c > 0
    return xp.where(some, low, 0.0), xp.where(some, high, 0.0)


def risk_between(
    xp: Namespace, position: Array, N: Array, S: Array, c: Array, L: Array, most: float
) -> tuple[Array, Array]:
    """Bounds of the selective risk when a threshold inside the bin accepts a mass of at least `position`."""
    end, x = N + c, L / most
    first, last = xp.maximum(position, N + c - x), xp.maximum(position, N + x)
    low = safe_divide(xp, S + xp.maximum(0 * L, L - most * (end - first)), first)
    high = safe_divide(xp, S + xp.minimum(L, most * (last - N)), last)
    return low, high


# Single numbers that binned counts prove: risk at a coverage, coverage at a risk, failure AUROC


def rows_of_bins(bins: Bins) -> Rows:
    """Each bin as one block, most confident first."""
    return rows_from_blocks(bins.c, bins.L, bins.xp)


def auroc(bins: Bins) -> Bracket:
    """AUROC of a 0/1 loss: pairs within a bin count half, and may count 0 or 1 unless the bin is one tie."""
    xp = bins.xp
    W, errors = total(bins)
    estimate = curve_points.auroc(rows_of_bins(bins))
    unsure = xp.sum(xp.where(bins.tie, 0.0, (bins.c - bins.L) * bins.L), axis=-1) / 2
    slack = unsure / (errors * (W - errors))[..., 0]
    return Bracket(estimate, estimate - slack, estimate + slack)


def risk_at_coverage(bins: Bins, least: float, most: float | None = 1.0) -> Bracket:
    """Selective risk at the least attainable coverage of at least `least`; its place in a bin is not known.

    The estimate spreads the bin's loss evenly over its positions.
    """
    rows = rows_of_bins(bins)
    xp = rows.xp
    reached = curve_points.reaches(rows.accepted_mass / rows.total_mass, least) & (rows.mass > 0)
    at = partial(curve_points.at_row, rows, index=curve_points.first_row(rows, reached))
    c, L, N, S = (
        at(rows.mass),
        at(rows.loss),
        at(rows.accepted_mass - rows.mass),
        at(rows.accepted_loss - rows.loss),
    )
    tie = at(xp.flip(bins.tie, axis=-1))
    position = curve_points.least_mass(xp, rows.total_mass[..., 0], least, bins.whole)
    position = xp.where(tie, N + c, xp.maximum(position, N + (1.0 if bins.whole else 0.0)))
    estimate = (S + L * (position - N) / c) / position
    if most is None:
        return Bracket(estimate, None, None)
    low, high = risk_between(xp, position, N, S, c, L, most)
    known = (S + L) / (N + c)
    return Bracket(estimate, xp.where(tie, known, low), xp.where(tie, known, high))


def coverage_at_risk(bins: Bins, risk: float, most: float | None = 1.0) -> Bracket:
    """Largest coverage within the risk: the edge of a bin is certain, a point inside one is possible."""
    rows = rows_of_bins(bins)
    xp = rows.xp
    low = curve_points.coverage_at_risk(rows, rows.total_mass[..., 0], risk)
    if most is None or risk >= most:
        return Bracket(low, low, None if most is None else xp.maximum(low, xp.ones_like(low)))
    S = rows.accepted_loss - rows.loss
    free = rows.accepted_mass - rows.loss / most  # positions that need not have met any of the bin's loss
    reach = xp.minimum(rows.accepted_mass, (most * free - S) / (most - risk))
    # a quotient may round to just below a whole number
    reach = xp.floor(reach * (1 + 1e-12)) if bins.whole else reach
    inside = (
        (rows.mass > 0)
        & ~xp.flip(bins.tie, axis=-1)
        & (risk * free >= S)
        & (reach > rows.accepted_mass - rows.mass)
    )
    high = xp.max(xp.where(inside, reach / rows.total_mass, 0.0), axis=-1)
    return Bracket(low, low, xp.maximum(low, high))
