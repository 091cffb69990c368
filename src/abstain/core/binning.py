r"""What binned counts prove: certified bounds and a point estimate for areas and selective risks.

A bin keeps its mass `c`, loss sum `L`, smallest and largest confidence. With mass `N` and loss `S` strictly
above it, the prefix risk at position k (mass accepted) inside a bin of losses in [0, M] lies between

    low(k)  = (S + max(0, L - M (N + c - k))) / k        high(k) = (S + min(L, M (k - N))) / k

and a member at position p sees the least (greatest) of these over k >= p, since it may be tied with all
below it in the bin. Summed over the members these are sharp for 0/1 loss. A bin whose smallest and largest
confidence agree is one tie and is exact. Bins merge by addition.

Bins may overlap (histories of different resolution): whatever overlaps a bin is then counted where it hurts
most. Everything is plain arithmetic on arrays of any library, so it runs where the bins live.
"""

from __future__ import annotations

from typing import NamedTuple

from abstain._arrays import Array, Namespace
from abstain.core.estimators import area_terms
from abstain.core.rows import Rows
from abstain.core.special import harmonic_difference


class Certified(NamedTuple):
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
    """Bins that do not overlap, least confident first: the state of a fixed map such as `binmap.BinMap`."""
    N, S = _above(xp, count), _above(xp, loss_sum)
    return Bins(count, loss_sum, low >= high, N, S, N, S, whole, xp)


def _above(xp: Namespace, x: Array) -> Array:
    """Sum over the bins strictly more confident."""
    return xp.flip(xp.cumulative_sum(xp.flip(x, axis=-1), axis=-1), axis=-1) - x


def total(bins: Bins) -> tuple[Array, Array]:
    """Mass and loss of all bins, kept as an axis."""
    xp = bins.xp
    return xp.sum(bins.c, axis=-1, keepdims=True), xp.sum(bins.L, axis=-1, keepdims=True)


def aurc(bins: Bins, most: float | None = 1.0) -> Certified:
    """AURC (harmonic, threshold ties) of binned samples. `most`: largest possible loss; None: no proof."""
    W, _ = total(bins)
    mass = bins.xp.sum(bins.c, axis=-1)
    estimate = bins.xp.sum(_estimate_terms(bins, W, "harmonic"), axis=-1) / mass
    if most is None:
        return Certified(estimate, None, None)
    low, high = _risk_sums(bins, most)
    return _ordered(bins, estimate, bins.xp.sum(low, axis=-1) / mass, bins.xp.sum(high, axis=-1) / mass)


def augrc(bins: Bins, most: float | None = 1.0) -> Certified:
    """AUGRC (mean rule, threshold ties) of binned samples."""
    W, _ = total(bins)
    square = (W * W)[..., 0]
    estimate = bins.xp.sum(_estimate_terms(bins, W, "sele"), axis=-1) / W[..., 0]
    if most is None:
        return Certified(estimate, None, None)
    xp = bins.xp
    x = bins.L / most
    late = xp.ceil(x) if bins.whole else x  # members that must see some of the bin's own loss
    ramp = bins.L * late - most * late * (late - 1) / 2 if bins.whole else bins.L * x / 2
    low = bins.c * bins.S_low + xp.where(bins.tie, bins.c * bins.L, ramp)
    high = bins.c * (bins.S_high + bins.L)
    return _ordered(bins, estimate, xp.sum(low, axis=-1) / square, xp.sum(high, axis=-1) / square)


def _ordered(bins: Bins, estimate: Array, low: Array, high: Array) -> Certified:
    """Overlaps can push the even spread out of the bounds; a point outside what is proven would be silly."""
    return Certified(bins.xp.minimum(bins.xp.maximum(estimate, low), high), low, high)


def _estimate_terms(bins: Bins, W: Array, estimator: str) -> Array:
    """Loss spread evenly over the positions of a bin; a tie is taken as the tie it is."""
    xp = bins.xp
    N = _above(xp, bins.c) + bins.c
    S = _above(xp, bins.L) + bins.L
    rows = Rows(bins.c, bins.L, N, S, W, xp)
    tied = area_terms(rows, estimator, "threshold")
    if bins.whole:
        spread = area_terms(rows, estimator, "expected")
    elif estimator == "sele":
        spread = bins.c * (S - bins.L / 2) / W
    else:
        spread = harmonic_spread(rows)
    return xp.where(bins.c > 0, xp.where(bins.tie, tied, spread), 0.0)


def harmonic_spread(r: Rows) -> Array:
    """The even spread with masses of any size: sums over positions become integrals."""
    xp = r.xp
    above, S = r.N - r.m, r.S - r.L
    inside = above > 0
    gain = xp.where(inside, xp.log1p(r.m / xp.where(inside, above, 1.0)), 0.0)
    share = r.L * (r.m - above * gain) / xp.where(r.m > 0, r.m, 1.0)
    return xp.where(inside, S * gain, 0.0) + share


def _gain(bins: Bins, low: Array, high: Array) -> Array:
    """Sum over positions in (low, high] of one over the position; an integral for masses of any size."""
    xp = bins.xp
    high = xp.maximum(low, high)
    if bins.whole:
        return harmonic_difference(xp, low, high)
    some = low > 0
    return xp.where(some, xp.log1p((high - low) / xp.where(some, low, 1.0)), 0.0)


def _over(xp: Namespace, value: Array, by: Array) -> Array:
    some = by > 0
    return xp.where(some, value, 0.0) / xp.where(some, by, 1.0)


def _risk_sums(bins: Bins, most: float) -> tuple[Array, Array]:
    """Least and greatest sum, over the members of each bin, of the selective risk at their threshold."""
    xp, c, L = bins.xp, bins.c, bins.L
    x = L / most  # the bin's loss as members of the largest loss
    N, S = bins.N_low, bins.S_low
    first = N + c - x  # nobody before this position need have met any of the bin's loss
    start = xp.floor(first) if bins.whole else first
    end = N + c
    loose = (
        (start - N) * _over(xp, S, first)
        + most * (end - start)
        + (S + L - most * end) * _gain(bins, start, end)
    )
    low = xp.where(bins.tie, c * _over(xp, S + L, end), loose)

    N, S = bins.N_high, bins.S_high
    last = N + x  # from here on all of the bin's loss may be accepted
    stop = xp.floor(last) if bins.whole else last
    # at the very top, with no mass above, the risk starts at its largest and falls
    peak = _over(xp, S + L, last)
    loose = (stop - N) * peak + (S + L) * _gain(bins, stop, N + c)
    high = xp.where(bins.tie, c * _over(xp, S + L, N + c), loose)
    some = c > 0
    return xp.where(some, low, 0.0), xp.where(some, high, 0.0)


def risk_between(
    xp: Namespace, position: Array, N: Array, S: Array, c: Array, L: Array, most: float
) -> tuple[Array, Array]:
    """Bounds of the selective risk when a threshold inside the bin accepts a mass of at least `position`."""
    end, x = N + c, L / most
    first, last = xp.maximum(position, N + c - x), xp.maximum(position, N + x)
    low = _over(xp, S + xp.maximum(0 * L, L - most * (end - first)), first)
    high = _over(xp, S + xp.minimum(L, most * (last - N)), last)
    return low, high
