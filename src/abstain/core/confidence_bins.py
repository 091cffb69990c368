"""Bins of the confidence axis: which bin a confidence falls into, and what counts per bin prove about a metric."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace, float64_bits
from abstain.core import curve_points
from abstain.core.area_estimators import area_terms, harmonic_difference
from abstain.core.rounding import SUM_ROUNDING
from abstain.core.rows import Rows, device_keyword, rows_from_blocks, safe_divide

# A fixed, monotone map from confidences to bin numbers, the same everywhere, so that bins merge by addition
#
# The map reads the bits of the floating-point form, which the rounding of a logarithm cannot disturb. An octave is a
# power of two of the distance from the nearest of 0 and 1; each gets a share of the bins, which divide it evenly.
# Between 1/2 and 1 the octaves are those of `1 - x`, so that resolution is concentrated at the confident end of
# probabilities; 1.0 itself is a bin of its own. Log-domain rank keys (0 to some hundreds) and negated entropies have
# octaves too.

_BIAS = 1023  # exponent of 1.0 in the bits of a float64
_MANTISSA_BITS = 52
_OCTAVES = 2048  # one octave per exponent of a float64

# relative share of bins for each kind of octave: (region, from exponent, to exponent, share)
_UNIT_SHARES = [
    ("top", -26, -2, 8.0),  # 1 - x from 2^-26 to 1/2
    ("top", -60, -27, 0.25),
    ("low", -4, -2, 8.0),  # x from 1/16 to 1/2
    ("low", -12, -5, 1.0),
    ("low", -60, -13, 0.1),
]
_REAL_SHARES = [
    *_UNIT_SHARES,
    ("big", 0, 6, 24.0),  # rank keys and logits: 1 to 128
    ("big", 7, 12, 2.0),
    ("big", 13, 60, 0.1),
    ("negative", -24, 6, 4.0),  # negated entropies and impurities, down to -128
    ("negative", -60, -25, 0.1),
    ("negative", 7, 12, 1.0),
    ("negative", 13, 60, 0.1),
]
_REGIONS = ("negative", "low", "top", "big")  # ascending


class BinMap:
    """`index(confidence)` in [0, size), which never decreases as the confidence increases.

    Parameters
    ----------
    bins : int
        Roughly how many bins; `size` is the exact number, fixed by `bins` and `domain` alone.
    domain : str
        "unit" spends all bins on [0, 1] (numbers outside share the end bins); "real" is for any numbers.

    Attributes
    ----------
    first_bin, bin_count : ndarray, shape (4 * 2048,)
        For each code `2048 * region + exponent bits`: the first bin of that octave, and how many bins divide it.
    """

    def __init__(self, bins: int = 1 << 15, domain: str = "real") -> None:
        self.bins = bins
        self.domain = domain
        self.first_bin, self.bin_count, self.size = _octave_tables(bins, domain)
        self._device_tables: dict[str, tuple[Array, Array]] = {}

    def index(self, xp: Namespace, confidence: Array) -> Array:
        """Bin numbers (int64) of the confidences, in [0, size), on their device; confidences are not NaN.

        A number x lies in one of four regions: negative or 0, (0, 1/2], (1/2, 1], or above 1. Within a region, the
        octave is the power of two of its distance from 1 (third region) or from 0, and equal steps of that distance
        within the octave are the bins. `self.first_bin` and `self.bin_count` hold the first bin of each octave and how
        many it has (at least 1), at the index 2048 * region + octave. Numbers beyond the octaves that have bins of
        their own, infinities included, share a bin with a neighbouring octave.
        """
        x = xp.astype(confidence, xp.float64) + 0.0  # -0 and +0 are one number
        is_low = (x > 0) & (x <= 0.5)
        is_top = (x > 0.5) & (x <= 1)
        # numbered by ascending confidence
        region = xp.where(x > 1, 3, xp.where(is_top, 2, xp.where(is_low, 1, 0)))
        distance = xp.where(is_top, 1 - x, xp.abs(x))  # exact: x is within a factor of two of 1
        bits = float64_bits(distance)  # as int64; the sign bit is 0
        octave = bits >> _MANTISSA_BITS  # the exponent bits, 0 to 2047
        mantissa = bits & ((1 << _MANTISSA_BITS) - 1)
        first_bin, bin_count = self._tables_on_device(xp, x)
        octave_of_all = region * _OCTAVES + octave  # among the octaves of all regions: 2048 in each
        count = bin_count[octave_of_all]  # bins in this octave, a float
        # astype, not `* 1.0`: torch would make it float32 and put borderline numbers elsewhere than numpy
        share_of_octave = xp.astype(mantissa, xp.float64) / (1 << _MANTISSA_BITS)
        bin_in_octave = xp.minimum(xp.floor(share_of_octave * count), count - 1)  # the product may round up
        is_reversed = (region == 0) | (region == 2)  # confidence increases as the distance decreases
        bin_in_octave = xp.where(is_reversed, count - 1 - bin_in_octave, bin_in_octave)
        return first_bin[octave_of_all] + xp.astype(bin_in_octave, xp.int64)

    def _tables_on_device(self, xp: Namespace, x: Array) -> tuple[Array, Array]:
        """`first_bin` and `bin_count` as arrays on the device of `x`, copied there once."""
        if isinstance(x, np.ndarray):
            return self.first_bin, self.bin_count
        device = str(getattr(x, "device", ""))
        if device not in self._device_tables:
            first_bin = xp.asarray(self.first_bin, **device_keyword(x))
            bin_count = xp.asarray(self.bin_count, **device_keyword(x))
            self._device_tables[device] = first_bin, bin_count
        return self._device_tables[device]


class _OctaveTables(NamedTuple):
    """How bins are distributed over octaves: the octave of a region has the index `2048 * region + exponent bits`.

    Attributes
    ----------
    first_bin : ndarray of int
        Number of the first bin of each octave.
    bin_count : ndarray of float
        Number of bins that divide each octave, at least 1.
    size : int
        Number of all bins.
    """

    first_bin: np.ndarray
    bin_count: np.ndarray
    size: int


@lru_cache(maxsize=16)
def _octave_tables(bins: int, domain: str) -> _OctaveTables:
    """Distribute about `bins` bins over the octaves of the regions that `domain` ("unit" or "real") uses.

    There are four regions, in the order of `_REGIONS`: "negative" (and 0), "low" (up to 1/2), "top" (above 1/2, up to
    1) and "big" (above 1). The distance is that from 1 in the region "top", and from 0 in the other three. An octave is
    all distances with the same 11 exponent bits as float64. The tables have its entry at 2048 * region + exponent bits;
    a reader divides the octave evenly into its bins. Bins are numbered by ascending confidence, within octaves too: in
    "negative" and "top" from the largest distance to the smallest. Every octave with a share gets at least one bin; the
    others share the bin that follows. Distance 0 (the number 0 in "negative", the number 1 in "top") has octave 0,
    which never has a share: it gets one bin of its own, in addition to the others.
    """
    shares = np.zeros((len(_REGIONS), _OCTAVES))
    # entries: region, first and last exponent (both included), share of each of these octaves
    shares_by_region = _UNIT_SHARES if domain == "unit" else _REAL_SHARES
    for region, first_exponent, last_exponent, share in shares_by_region:
        # the exponent bits of a float are its exponent plus the bias; each of these octaves has this share, relative to
        # those of the others
        shares[_REGIONS.index(region), first_exponent + _BIAS : last_exponent + _BIAS + 1] = share
    bin_count = np.floor(bins * shares / shares.sum())
    bin_count = np.where((shares > 0) & (bin_count < 1), 1, bin_count)
    first_bin = np.zeros_like(bin_count, dtype=np.int64)
    next_bin = 0
    for region_number, region in enumerate(_REGIONS):
        # there the confidence increases as the distance decreases
        is_reversed = region in ("top", "negative")
        for octave in range(_OCTAVES - 1, -1, -1) if is_reversed else range(_OCTAVES):
            first_bin[region_number, octave] = next_bin
            next_bin += int(bin_count[region_number, octave])
        if is_reversed:  # the number 1 (or 0) itself, at distance 0; the loop gave this octave no bin
            first_bin[region_number, 0] = next_bin
            bin_count[region_number, 0] = 1
            next_bin += 1
    # octaves without bins share the first bin that follows (the last one at the very end)
    is_empty = bin_count == 0
    first_bin = np.where(is_empty, np.minimum(first_bin, next_bin - 1), first_bin)
    return _OctaveTables(
        first_bin=first_bin.reshape(-1),
        bin_count=np.where(is_empty, 1.0, bin_count).reshape(-1),
        size=next_bin,
    )


# What binned counts prove: certified bounds and a point estimate for areas and selective risks
#
# A bin has a mass c, a loss sum L, a smallest and a largest confidence. With mass N and loss S strictly above it, the
# selective risk at position k (accepted mass) inside a bin of losses in [0, M] lies between
#
#     low(k)  = (S + max(0, L - M (N + c - k))) / k        high(k) = (S + min(L, M (k - N))) / k
#
# and a sample at position p has the least (greatest) of these over k >= p, since it may be tied with all samples below
# it in the bin. Summed over the samples these bounds are sharp for 0/1 loss. A bin whose smallest and largest
# confidence are equal is one tie and is exact. Bins merge by addition.
#
# Bins may overlap (histories of different resolution): samples that overlap a bin are then counted above or below it,
# whichever makes the bound wider. Everything is plain arithmetic on arrays of any library, on the device of the bins.


class Bracket(NamedTuple):
    """A point estimate with a lower and an upper bound; the bounds are None when nothing is certain."""

    estimate: Array
    low: Array | None
    high: Array | None


class Bins(NamedTuple):
    """Bins along the last axis, least confident first. Bins without mass are allowed.

    Attributes
    ----------
    mass, loss : array
        c and L: number (or weight) of samples, and sum of their losses.
    is_tie : array of bool
        Does the bin hold a single confidence?
    mass_above_best, loss_above_best : array
        N and S above each bin, chosen so that the selective risk is smallest.
    mass_above_worst, loss_above_worst : array
        The same, so that the selective risk is greatest. Equal to the former where no bins overlap.
    has_whole_mass : bool
        Are all masses whole numbers (no fractional weights)? Positions within a bin are then 1, 2, ...; otherwise
        they are a continuum, and sums over them become integrals.
    xp : module
        Array namespace of the arrays.
    """

    mass: Array
    loss: Array
    is_tie: Array
    mass_above_best: Array
    loss_above_best: Array
    mass_above_worst: Array
    loss_above_worst: Array
    has_whole_mass: bool
    xp: Namespace


def disjoint_bins(
    xp: Namespace, count: Array, loss_sum: Array, low: Array, high: Array, whole: bool = True
) -> Bins:
    """Make `Bins` from bins that do not overlap, least confident first, such as those of a `BinMap`.

    `count` and `loss_sum` are the mass and loss of each bin; `low` and `high` the smallest and the largest confidence
    in it (any numbers where it is empty). `whole` says that all masses are whole numbers. Bins lie along the last axis.
    """
    # Sums over all surer bins, without the bin itself. What lies above a bin is certain, since bins do not overlap: the
    # best and the worst case are the same.
    mass_above = _sum_above(xp, count)
    loss_above = _sum_above(xp, loss_sum)
    return Bins(
        mass=count,
        loss=loss_sum,
        is_tie=low >= high,  # a single confidence; any value will do for an empty bin
        mass_above_best=mass_above,
        loss_above_best=loss_above,
        mass_above_worst=mass_above,
        loss_above_worst=loss_above,
        has_whole_mass=whole,
        xp=xp,
    )


def _sum_above(xp: Namespace, values: Array) -> Array:
    """Sum over the bins strictly more confident than each, for bins least confident first."""
    return xp.flip(xp.cumulative_sum(xp.flip(values, axis=-1), axis=-1), axis=-1) - values


class BinTotals(NamedTuple):
    """Mass and loss of all bins, each with a last axis of length 1."""

    mass: Array
    loss: Array


def total(bins: Bins) -> BinTotals:
    """Mass and loss of all bins, each with a last axis of length 1."""
    xp = bins.xp
    return BinTotals(
        mass=xp.sum(bins.mass, axis=-1, keepdims=True), loss=xp.sum(bins.loss, axis=-1, keepdims=True)
    )


def aurc(bins: Bins, largest_loss: float | None = 1.0) -> Bracket:
    """AURC (harmonic, threshold ties) of binned samples with losses in [0, largest_loss]: estimate and sharp bounds.

    The estimate spreads the loss of a bin evenly over its samples; where bins overlap it is moved inside the bounds.
    `largest_loss` is above 0; without one (None) nothing can be proven, and the bounds are None. At least one bin has
    mass. The bins lie along the last axis; results have the shape of the leading axes.

    AURC is the mean over samples of the selective risk with the threshold at this sample. The bounds add up, bin by
    bin, the least and the greatest sums of these risks that the mass and loss of the bins allow.
    """
    xp = bins.xp
    total_mass = xp.sum(bins.mass, axis=-1)
    estimate = xp.sum(_estimate_terms(bins, "harmonic"), axis=-1) / total_mass
    if largest_loss is None:
        return Bracket(estimate, low=None, high=None)
    low = xp.sum(_least_risk_sum(bins, largest_loss), axis=-1) / total_mass
    high = xp.sum(_greatest_risk_sum(bins, largest_loss), axis=-1) / total_mass
    return _clip_estimate(bins, estimate, low, high)  # with the estimate moved inside the bounds


def augrc(bins: Bins, largest_loss: float | None = 1.0) -> Bracket:
    """AUGRC of binned samples with losses in [0, largest_loss]: estimate and bounds.

    AUGRC is the mean over samples of the loss that is accepted with the threshold at this sample (equal confidences are
    accepted together), per total mass: each sample adds that loss over the squared total mass.

    The estimate spreads the loss of a bin evenly over its samples; where bins overlap it is moved inside the bounds.
    The bounds add the loss of all surer bins, `loss_above_best` or `loss_above_worst`, to a bound of what is accepted
    of the bin's own loss. The two differ only where bins overlap: samples that may be surer than a bin are then counted
    above it or not, whichever makes the bound wider. `largest_loss` is above 0; without one (None) nothing can be
    proven, and the bounds are None. At least one bin has mass. The bins lie along the last axis; results have the shape
    of the leading axes.
    """
    xp = bins.xp
    total_mass = xp.sum(bins.mass, axis=-1)
    # "sele" is the estimator that AUGRC uses; its terms are over the total mass already
    estimate = xp.sum(_estimate_terms(bins, "sele"), axis=-1) / total_mass
    if largest_loss is None:
        return Bracket(estimate, low=None, high=None)
    # At best the loss L of a bin lies at its bottom, in as few samples as possible, k of them: from the lowest one up,
    # they add what is accepted of it there, L + (L - M) + ... with M the largest loss. At worst it lies at the top, in
    # samples of one confidence, and all samples of the bin add L. A bin that is one tie is accepted as a whole: all its
    # samples add L.
    full_losses = bins.loss / largest_loss  # the bin's loss as a number of samples with the largest loss
    if bins.has_whole_mass:
        samples_with_loss = xp.ceil(full_losses)
        loss_within_bin = (
            bins.loss * samples_with_loss - largest_loss * samples_with_loss * (samples_with_loss - 1) / 2
        )
    else:  # the sum becomes an integral
        loss_within_bin = bins.loss * full_losses / 2
    loss_within_bin = xp.where(bins.is_tie, bins.mass * bins.loss, loss_within_bin)
    # sums over the samples of each bin of the loss accepted at their threshold
    least_sum = bins.mass * bins.loss_above_best + loss_within_bin
    greatest_sum = bins.mass * (bins.loss_above_worst + bins.loss)
    low = xp.sum(least_sum, axis=-1) / (total_mass * total_mass)
    high = xp.sum(greatest_sum, axis=-1) / (total_mass * total_mass)
    # with the estimate moved inside the bounds
    return _clip_estimate(bins, estimate, low, high)


def _clip_estimate(bins: Bins, estimate: Array, low: Array, high: Array) -> Bracket:
    """Bracket with the estimate moved inside the bounds: where bins overlap it may lie outside."""
    return Bracket(bins.xp.minimum(bins.xp.maximum(estimate, low), high), low, high)


def _estimate_terms(bins: Bins, estimator: str) -> Array:
    """Area terms of each bin, most confident first (unlike `bins`), with its loss spread evenly over its samples.

    `estimator` is "harmonic" (for AURC) or "sele" (for AUGRC). A bin that holds a single confidence is accepted as a
    whole. Bins without mass have the term 0. The sum of the terms is the total mass times the area.
    """
    xp = bins.xp
    rows = rows_of_bins(bins)  # the same bins, most confident first
    # what each row adds to the total mass times the area
    terms_if_tied = area_terms(rows, estimator, ties="threshold")
    if bins.has_whole_mass:
        terms_if_spread = area_terms(rows, estimator, ties="expected")
    elif estimator == "sele":  # with fractional masses, sums over samples become integrals
        terms_if_spread = rows.mass * (rows.accepted_loss - rows.loss / 2) / rows.total_mass
    else:
        terms_if_spread = harmonic_spread(rows)
    is_tie = xp.flip(bins.is_tie, axis=-1)  # in the order of the rows
    return xp.where(rows.mass > 0, xp.where(is_tie, terms_if_tied, terms_if_spread), 0.0)


def harmonic_spread(rows: Rows) -> Array:
    """Harmonic area terms with the loss of each row spread evenly over its mass, for masses that need not be whole.

    A row (the samples of one confidence) has mass m and loss L, and a threshold there accepts mass N and loss S. The
    sum of 1/k over the positions k of its samples becomes the integral g = ln(N / (N - m)), and the term is
    (S - L) g + L (m - (N - m) g) / m. In the top row, where N = m and S = L, g counts as 0, and the term is L. Rows
    without mass have the term 0, since `safe_divide` returns 0 where the denominator is 0.
    """
    xp = rows.xp
    mass_above = rows.accepted_mass - rows.mass
    g = xp.log1p(safe_divide(xp, rows.mass, mass_above))  # 0 in the top row, which has no mass above it
    own_loss_term = safe_divide(xp, rows.loss * (rows.mass - mass_above * g), rows.mass)
    return (rows.accepted_loss - rows.loss) * g + own_loss_term


def _sum_of_inverses(bins: Bins, low: Array, high: Array) -> Array:
    """Sum of 1 / k over the positions k in (low, high]; for fractional masses the integral of 1 / k."""
    xp = bins.xp
    high = xp.maximum(low, high)
    if bins.has_whole_mass:
        return harmonic_difference(xp, low, high)
    return xp.log1p(safe_divide(xp, high - low, low))


def _least_risk_sum(bins: Bins, largest_loss: float) -> Array:
    """Least sum, over the samples of each bin, of the selective risk at their threshold.

    A bin has mass c and loss L, losses lie in [0, M] (M = `largest_loss` > 0), and mass N and loss S lie above it, in
    surer bins (where bins overlap, those with which the risk is smallest). At position k (accepted mass) in the bin,
    the selective risk is at least

        low(k) = (S + max(0, L - M (N + c - k))) / k,

    and a sample at position p has the least of low(k) over k >= p in the bin, since it may be tied with samples below
    it. These are summed in closed form: over the positions k = N + 1, N + 2, ... where all masses are whole numbers
    (`bins.has_whole_mass`), and as integrals over k otherwise. A bin that is one tie has the risk (S + L) / (N + c) at
    all its samples; a bin without mass has the sum 0.
    """
    xp = bins.xp
    M = largest_loss
    c = bins.mass
    L = bins.loss
    N = bins.mass_above_best
    S = bins.loss_above_best
    end = N + c
    loss_free = end - L / M  # up to this position no loss of the bin need be accepted
    loss_start = xp.floor(loss_free) if bins.has_whole_mass else loss_free
    # S / k falls up to the loss-free position, so all samples before it have the risk there (0 where this position is
    # 0); after it low(k) is M + (S + L - M (N + c)) / k, which rises, summed over the positions k in (loss_start, end].
    # `_sum_of_inverses` is the sum (or integral) of 1 / k over these positions.
    least_sum = (
        (loss_start - N) * safe_divide(xp, S, loss_free)
        + M * (end - loss_start)
        + (S + L - M * end) * _sum_of_inverses(bins, loss_start, end)
    )
    least_sum = xp.where(bins.is_tie, c * safe_divide(xp, S + L, end), least_sum)
    return xp.where(c > 0, least_sum, 0.0)


def _greatest_risk_sum(bins: Bins, largest_loss: float) -> Array:
    """Greatest sum, over the samples of each bin, of the selective risk at their threshold.

    A bin has mass c and loss L, losses lie in [0, M] (M = `largest_loss` > 0), and mass N and loss S lie above it, in
    surer bins (where bins overlap, those with which the risk is greatest). At position k (accepted mass) in the bin,
    the selective risk is at most

        high(k) = (S + min(L, M (k - N))) / k,

    and a sample at position p has the greatest of high(k) over k >= p in the bin, since it may be tied with samples
    below it. These are summed in closed form: over the positions k = N + 1, N + 2, ... where all masses are whole
    numbers (`bins.has_whole_mass`), and as integrals over k otherwise. A bin that is one tie has the risk
    (S + L) / (N + c) at all its samples; a bin without mass has the sum 0.
    """
    xp = bins.xp
    c = bins.mass
    L = bins.loss
    N = bins.mass_above_worst
    S = bins.loss_above_worst
    end = N + c
    loss_end = N + L / largest_loss  # from this position on all loss of the bin may be accepted
    rising_stop = xp.floor(loss_end) if bins.has_whole_mass else loss_end
    # high(k) rises up to that position (or is constant, with no mass above), so all samples before it have the risk
    # there (0 where this position is 0: no mass above and no loss); after it high(k) is (S + L) / k, which falls,
    # summed over the positions k in (rising_stop, end]. `_sum_of_inverses` is the sum (or integral) of 1 / k over them.
    peak = safe_divide(xp, S + L, loss_end)
    greatest_sum = (rising_stop - N) * peak + (S + L) * _sum_of_inverses(bins, rising_stop, end)
    greatest_sum = xp.where(bins.is_tie, c * safe_divide(xp, S + L, end), greatest_sum)
    return xp.where(c > 0, greatest_sum, 0.0)


def risk_between(
    xp: Namespace, position: Array, N: Array, S: Array, c: Array, L: Array, largest_loss: float
) -> tuple[Array, Array]:
    """Least and greatest selective risk when a threshold inside a bin accepts a mass of at least `position`.

    N and S are mass and loss above the bin (in surer bins), c and L its own mass and loss, and M the largest loss.
    `position` lies in (N, N + c]. The bounds are the least of (S + max(0, L - M (N + c - k))) / k and the greatest of
    (S + min(L, M (k - N))) / k over k >= `position`: the one falls until the loss-free part of the bin is accepted, the
    other rises until all its loss is.
    """
    M = largest_loss
    end = N + c
    full_losses = L / M  # the bin's loss as a number of samples with the largest loss
    best_position = xp.maximum(position, end - full_losses)
    worst_position = xp.maximum(position, N + full_losses)
    least_loss = S + xp.maximum(0 * L, L - M * (end - best_position))
    greatest_loss = S + xp.minimum(L, M * (worst_position - N))
    # 0 where the position is 0, which happens in empty bins alone
    return safe_divide(xp, least_loss, best_position), safe_divide(xp, greatest_loss, worst_position)


# Single numbers that binned counts prove: risk at a coverage, coverage at a risk, failure AUROC


def rows_of_bins(bins: Bins) -> Rows:
    """Each bin as one row, most confident first."""
    return rows_from_blocks(bins.mass, bins.loss, bins.xp)


def auroc(bins: Bins) -> Bracket:
    """Estimate and bounds of the AUROC of a 0/1 loss: the share of (right, wrong) pairs with the right one surer.

    A pair within a bin counts half; it may count 0 or 1 unless the bin is one tie. Both right and wrong samples must
    occur. The bounds assume that bins do not overlap. The bins lie along the last axis; results have the shape of the
    leading axes.
    """
    xp = bins.xp
    error_mass = xp.sum(bins.loss, axis=-1)
    right_mass = xp.sum(bins.mass, axis=-1) - error_mass
    estimate = curve_points.auroc(rows_of_bins(bins))  # each bin as one row, most confident first
    pairs_in_bin = (bins.mass - bins.loss) * bins.loss
    uncertain_pairs = xp.sum(xp.where(bins.is_tie, 0.0, pairs_in_bin), axis=-1)
    # they count half, and may count half more or less
    margin = uncertain_pairs / 2 / (error_mass * right_mass)
    return Bracket(estimate, low=estimate - margin, high=estimate + margin)


def risk_at_coverage(bins: Bins, coverage: float, largest_loss: float | None = 1.0) -> Bracket:
    """Selective risk at the smallest attainable coverage of at least `coverage`: estimate and bounds.

    The threshold lies inside a bin (the first, from the top, that reaches the coverage), at an unknown place. The
    estimate spreads the loss of the bin evenly over its positions. Losses lie in [0, largest_loss], a number above 0;
    without it (None) the bounds are None. A bin that is one tie is accepted as a whole, and is exact. All are NaN where
    all bins are empty.
    """
    rows = rows_of_bins(bins)  # the same bins, most confident first
    xp = rows.xp
    # is the accepted share of all samples at least the coverage, but for rounding?
    is_reached = curve_points.reaches(rows.accepted_mass / rows.total_mass, coverage) & (rows.mass > 0)
    # an index; where no bin reaches the coverage all are empty, and the result is NaN
    threshold_bin = curve_points.first_row(rows, is_reached)

    def at_threshold(values: Array) -> Array:
        """The values, one per bin, at the bin that holds the threshold."""
        return curve_points.at_row(rows, values, index=threshold_bin)

    mass = at_threshold(rows.mass)
    loss = at_threshold(rows.loss)
    mass_above = at_threshold(rows.accepted_mass - rows.mass)
    loss_above = at_threshold(rows.accepted_loss - rows.loss)
    is_tie = at_threshold(xp.flip(bins.is_tie, axis=-1))
    # the smallest mass that is this share of all; rounded up to a whole number where masses are whole
    needed_mass = curve_points.mass_for_share(xp, rows.total_mass[..., 0], coverage, bins.has_whole_mass)
    # the threshold is at the first sample of the bin, or further down
    smallest_position = mass_above + (1.0 if bins.has_whole_mass else 0.0)
    position = xp.where(is_tie, mass_above + mass, xp.maximum(needed_mass, smallest_position))
    estimate = (loss_above + loss * (position - mass_above) / mass) / position
    if largest_loss is None:
        return Bracket(estimate, low=None, high=None)
    low, high = risk_between(xp, position, mass_above, loss_above, mass, loss, largest_loss)
    risk_of_whole_bin = (loss_above + loss) / (mass_above + mass)
    return Bracket(
        estimate=estimate,
        low=xp.where(is_tie, risk_of_whole_bin, low),
        high=xp.where(is_tie, risk_of_whole_bin, high),
    )


def coverage_at_risk(bins: Bins, risk: float, largest_loss: float | None = 1.0) -> Bracket:
    """Largest coverage with a selective risk of at most `risk`: estimate and bounds.

    A threshold at the edge of a bin is certain: it gives the estimate and the lower bound, which are equal. The upper
    bound is the largest coverage that a threshold inside a bin could have if its losses, in [0, largest_loss], lay at
    its bottom; None without a largest loss, which is above 0 otherwise. The bins do not overlap and lie along the last
    axis, least confident first.
    """
    rows = rows_of_bins(bins)  # the same bins, most confident first
    xp = rows.xp
    # 0 if no bin's edge has such a risk
    low = curve_points.coverage_at_risk(rows, rows.total_mass[..., 0], risk)
    if largest_loss is None:
        return Bracket(estimate=low, low=low, high=None)
    if risk >= largest_loss:  # no sample loses more, so that all can be accepted
        return Bracket(estimate=low, low=low, high=xp.maximum(low, xp.ones_like(low)))
    loss_above = rows.accepted_loss - rows.loss
    # up to this position no loss of the bin need be accepted
    loss_free = rows.accepted_mass - rows.loss / largest_loss
    # solved for k: the risk at k, (loss above + largest loss * (k - loss_free)) / k, is `risk`
    furthest = xp.minimum(rows.accepted_mass, (largest_loss * loss_free - loss_above) / (largest_loss - risk))
    if bins.has_whole_mass:  # a quotient may round to just below a whole number
        furthest = xp.floor(furthest * (1 + SUM_ROUNDING))
    is_possible = (
        (rows.mass > 0)
        & ~xp.flip(bins.is_tie, axis=-1)  # a tie has no threshold inside
        & (risk * loss_free >= loss_above)  # the risk is small enough where the bin is still free of loss
        & (furthest > rows.accepted_mass - rows.mass)  # at least some of the bin is accepted
    )
    high = xp.max(xp.where(is_possible, furthest / rows.total_mass, 0.0), axis=-1)
    return Bracket(estimate=low, low=low, high=xp.maximum(low, high))
