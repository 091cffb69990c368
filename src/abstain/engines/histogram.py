"""Histograms of confidences that merge: bins of the axis with the sums over the samples in them.

To merge histograms, put their bins together; if there are too many, join neighbours where that widens the bounds
least. Joins follow the binary tree of floating-point numbers: a bin never crosses a number with more trailing zero
bits than its own ends have. So histograms of different data have much the same bins and hardly overlap, whatever
the order of merging. A bin of one confidence is a tie and stays exact.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core import confidence_bins, sorting
from abstain.core.sorting import is_zero_one

_ERRORS_TO_COME = 0.1  # share of the risk that a bin without errors may still get
_SMALLEST_RISK = 1e-3  # taken for the risk where hardly any errors were seen


@dataclass(frozen=True)
class Histogram:
    """Bins of the confidence axis, least confident first, with the sums over their samples.

    Parameters
    ----------
    low, high : ndarray, shape (bins,)
        Smallest and largest confidence in each bin; sorted by `low`.
    sums : ndarray, shape (2 or 5, bins)
        Sums of w and w l, and for weights or losses other than 0/1 also of w^2, w^2 l and w^2 l^2.
    """

    low: np.ndarray
    high: np.ndarray
    sums: np.ndarray

    def __len__(self) -> int:
        return len(self.low)

    @property
    def mass(self) -> np.ndarray:
        """Sum of weights."""
        return np.asarray(self.sums[0])

    @property
    def loss(self) -> np.ndarray:
        """Sum of weighted losses."""
        return np.asarray(self.sums[1])

    def with_second_moments(self) -> Histogram:
        """With the columns of second moments, which equal the plain sums for unit weights and 0/1 losses."""
        if len(self.sums) == 5:
            return self
        mass, loss = self.sums
        return replace(self, sums=np.stack([mass, loss, mass, loss, loss]))


def empty_histogram() -> Histogram:
    """The histogram of no samples."""
    return Histogram(np.empty(0), np.empty(0), np.empty((2, 0)))


def bits_of(values: np.ndarray) -> np.ndarray:
    """The bits of floats as whole numbers that have the same order."""
    return sorting.ascending_bits(values.astype(np.float64, copy=False), True)


def float_of(bits: np.ndarray) -> np.ndarray:
    """The floats that `bits_of` came from."""
    sign = np.uint64(1) << np.uint64(63)
    return np.where(bits & sign, bits ^ sign, ~bits).view(np.float64)


def tree_height(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far up the binary tree two numbers (as bits) meet: the length of their differing bits, 0 when equal."""
    differing = a ^ b
    # keep the leading bit only: rounding to a float could otherwise carry into the next power of two
    leading = differing & ~(differing >> np.uint64(1))
    return np.asarray(np.frexp(leading.astype(np.float64))[1])


def simplest_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """For bits a < b: the number in (a, b] with the most trailing zeros."""
    zero_bits = np.maximum(tree_height(a, b) - 1, 0).astype(np.uint64)
    return (b >> zero_bits) << zero_bits


def merge_histograms(histograms: list[Histogram], max_bins: int) -> Histogram:
    """The histogram of the samples of all histograms, in at most `max_bins` bins of the confidence axis.

    Bins with the same ends are added up. If there are still too many, neighbours are joined. Histograms with and
    without second moments (sums of w^2 l^j, which make five rows of `sums` instead of two) may be mixed; the result
    then has them. An empty list gives an empty histogram.
    """
    histograms = [histogram for histogram in histograms if len(histogram)]
    if not histograms:
        return empty_histogram()
    if len({len(histogram.sums) for histogram in histograms}) > 1:
        histograms = [histogram.with_second_moments() for histogram in histograms]
    low = np.concatenate([histogram.low for histogram in histograms])
    high = np.concatenate([histogram.high for histogram in histograms])
    sums = np.concatenate([histogram.sums for histogram in histograms], axis=1)
    order = np.lexsort((high, low))  # by `low`, then by `high`
    merged = Histogram(low[order], high[order], sums[:, order])
    is_same = (merged.low[1:] == merged.low[:-1]) & (merged.high[1:] == merged.high[:-1])
    # bins with the same ends are neighbours now; each run of them becomes one bin
    merged = _join_runs(merged, np.flatnonzero(np.concatenate([[True], ~is_same])))
    while len(merged) > max_bins:
        # joins at most as many pairs of neighbours as there are bins too many; it may take several rounds
        merged = _coarsen(merged, len(merged) - max_bins)
    return merged


def _join_runs(table: Histogram, starts: np.ndarray) -> Histogram:
    """Join the bins from each start up to the next one."""
    if len(starts) == len(table):
        return table
    sums = np.add.reduceat(table.sums, starts, axis=1)
    return Histogram(table.low[starts], np.maximum.reduceat(table.high, starts), sums)


def _coarsen(table: Histogram, excess: int) -> Histogram:
    """Join some pairs of neighbouring bins, at most `excess` of them and at least one.

    A pair may be joined if its two ends agree in more leading bits than those of the pair before it and no fewer than
    those of the pair after it (`height`: how many lower bits are left). Of these pairs the cheapest are joined, those
    that widen the bounds of AURC least, and at most half: the others may find cheaper partners in the next round.
    `table` holds bins of the confidence axis, least confident first, with the mass and loss of each.
    """
    high = np.maximum(table.high[1:], table.high[:-1])  # upper end of each pair: bins may overlap
    # of each pair (a bin and the next): how many bits are left from the highest one in which its two ends differ
    height = tree_height(bits_of(table.low[:-1]), bits_of(high)).astype(np.int64)
    no_pair = [1 << 20]  # before the first pair and after the last: higher than any height
    height_of_previous = np.concatenate([no_pair, height[:-1]])
    height_of_next = np.concatenate([height[1:], no_pair])
    # of two neighbouring pairs of one height only the first can be joined, since they share a bin; the first of all
    # pairs of the smallest height always can
    pairs = np.flatnonzero((height < height_of_previous) & (height <= height_of_next))
    cost = _joining_cost(table)[pairs]
    count = min(excess, max(1, len(pairs) // 2))
    joined_pairs = pairs[np.argpartition(cost, count - 1)[:count]]
    # the second bin of a joined pair no longer starts a bin
    is_start = np.ones(len(table), dtype=bool)
    is_start[joined_pairs + 1] = False
    return _join_runs(table, np.flatnonzero(is_start))  # each bin with those after it that start none


def _joining_cost(table: Histogram) -> np.ndarray:
    """About what joining each bin with the next adds to the gap between the bounds of AURC; one per pair.

    The joined bin has mass m and loss l; N and S are the mass and loss accepted at its lower end, its own included. It
    leaves `m/N (l + m S/2N)` open. A tenth of the risk is added for errors that may still come: otherwise joining bins
    without errors would cost nothing. Only the order of the costs matters. `table` holds bins of the confidence
    axis, least confident first, with the mass and loss of each.
    """
    mass = table.mass
    # losses below 0 are allowed; without the absolute value, bins of such losses would seem free to join
    loss = np.abs(table.loss)
    m = mass[:-1] + mass[1:]
    l = loss[:-1] + loss[1:]
    # sums from the most confident bin, the last one, down to the first bin of each pair
    N = np.cumsum(mass[::-1])[::-1][:-1]
    S = np.cumsum(loss[::-1])[::-1][:-1]
    # bins ascend, so all samples are accepted at the first one
    risk = max(float(S[0] / N[0]), _SMALLEST_RISK)
    return np.asarray(m / N * (l + m * (S / (2 * N) + _ERRORS_TO_COME * risk)))


class SumsAtThresholds(NamedTuple):
    """How mass and loss are divided by a threshold: certainly accepted, and undecided (accepted in part)."""

    accepted_mass: np.ndarray
    undecided_mass: np.ndarray
    accepted_loss: np.ndarray
    undecided_loss: np.ndarray


def divide_at_thresholds(
    table: Histogram, first_accepted: np.ndarray, rejected_count: np.ndarray
) -> SumsAtThresholds:
    """Divide the total mass and loss into accepted, rejected and undecided, for each of several thresholds.

    With one entry per threshold: bins with an index of at least `first_accepted`, in the order of `low`, lie above the
    threshold and are accepted; the first `rejected_count`, in the order of `high`, lie below it and are rejected; all
    others contain it and are undecided. `table` holds bins of the confidence axis, least confident first, with the mass
    and loss of each.
    """
    by_high = np.argsort(table.high, kind="stable")

    def divide_sums(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Accepted and undecided part of the sum of one value per bin, for each threshold."""
        accepted = np.concatenate([np.cumsum(values[::-1])[::-1], [0.0]])[first_accepted]
        rejected = np.concatenate([[0.0], np.cumsum(values[by_high])])[rejected_count]
        return accepted, np.maximum(values.sum() - accepted - rejected, 0.0)  # never below 0 by rounding

    accepted_mass, undecided_mass = divide_sums(table.mass)
    accepted_loss, undecided_loss = divide_sums(table.loss)
    return SumsAtThresholds(
        accepted_mass=accepted_mass,
        undecided_mass=undecided_mass,
        accepted_loss=accepted_loss,
        undecided_loss=undecided_loss,
    )


class Overlaps(NamedTuple):
    """For each bin: mass and loss certainly above it, and mass and loss of other bins that overlap it."""

    mass_above: np.ndarray
    loss_above: np.ndarray
    overlapping_mass: np.ndarray
    overlapping_loss: np.ndarray


def find_overlaps(table: Histogram) -> Overlaps:
    """For each bin, mass and loss of the bins entirely above it, and of others that overlap it.

    Bins of merged histograms may overlap, and then it is open which of their samples are more confident; without
    overlaps the overlapping sums are exactly 0, free of rounding. `table` holds bins of the confidence axis, least
    confident first, with the mass and loss of each.
    """
    # by bin: index of the first bin that starts above its end, and the number of bins that end below its start
    first_above = np.searchsorted(table.low, table.high, "right")
    count_below = np.searchsorted(np.sort(table.high), table.low, "left")
    # of each bin: "accepted" is what lies above it, and "undecided" the bin itself and all bins that overlap it
    sums = divide_at_thresholds(table, first_above, count_below)
    has_overlap = first_above - count_below > 1  # more than the bin itself is neither above nor below
    other_mass = np.maximum(sums.undecided_mass - table.mass, 0.0)
    other_loss = np.maximum(sums.undecided_loss - table.loss, 0.0)
    return Overlaps(
        mass_above=sums.accepted_mass,
        loss_above=sums.accepted_loss,
        overlapping_mass=np.where(has_overlap, other_mass, 0.0),
        overlapping_loss=np.where(has_overlap, other_loss, 0.0),
    )


def as_bins(table: Histogram, largest_loss: float | None, has_whole_mass: bool) -> confidence_bins.Bins:
    """The bins of a histogram for computing bounds: each with the mass and loss above it at best and at worst.

    Any of the samples in overlapping bins may lie above a bin. The bin's risk is smallest (best) if exactly those
    without loss do, and largest (worst) if exactly those with loss do, taken as few samples of the largest loss.
    `largest_loss` bounds all losses; None if some are below 0: then 1 is taken, the fields named best and worst bound
    nothing, and the caller must not read them.
    `has_whole_mass` says that masses are counts of samples. `table` is the histogram, least confident bin first, as are
    the bins in the result.
    """
    # one entry per bin: what lies entirely above it, and what else overlaps it
    mass_above, loss_above, overlapping_mass, overlapping_loss = find_overlaps(table)
    largest = largest_loss or 1.0  # also 1 if all losses are 0: then any number will do
    # the overlapping loss as samples of the largest loss, and the samples that then have none
    worst_count = overlapping_loss / largest
    lossless_count = np.maximum(overlapping_mass - worst_count, 0.0)
    if has_whole_mass:
        # masses above a bin are whole numbers: round both to the side that keeps the bounds true
        worst_count = np.ceil(worst_count)
        lossless_count = np.ceil(lossless_count)
        overlapping_loss = worst_count * largest
    return confidence_bins.Bins(
        mass=table.mass,
        loss=table.loss,
        is_tie=table.low == table.high,
        mass_above_best=mass_above + lossless_count,
        loss_above_best=loss_above,
        mass_above_worst=mass_above + worst_count,
        loss_above_worst=loss_above + overlapping_loss,
        has_whole_mass=has_whole_mass,
        xp=np,
    )


def histogram_of(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, max_bins: int
) -> Histogram:
    """The histogram of samples in any order; there must be at least one.

    A bin has its smallest and largest confidence, its mass and its loss; bins are least confident first. There is one
    per distinct confidence if there are at most `max_bins` of them, otherwise about that many with about equally many
    samples. Sums of second moments (w^2, w^2 l, w^2 l^2) are left out for 0/1 losses without weights (`weight` None) if
    confidence and loss fit into one integer, a faster way.
    """
    if weight is None and is_zero_one(loss):
        packing = sorting.Packing(confidence)  # turns confidences into integers, 0 for the largest
        if packing.fits(payload_bits=1):  # there is one bit left beside the confidence, for the loss
            return _histogram_of_zero_one(packing, loss, max_bins)
    order = sorting.argsort_descending(confidence)[::-1]  # least confident first
    ascending = confidence[order].astype(np.float64, copy=False)
    l = loss[order].astype(np.float64)
    w = np.ones_like(l) if weight is None else weight[order].astype(np.float64)
    starts = _bin_starts(ascending, max_bins)  # index of the first sample of each bin
    columns = np.stack([w, w * l, w * w, w * w * l, w * w * l * l])
    ends = np.append(starts[1:], len(ascending)) - 1  # index of the last sample of each bin
    return Histogram(ascending[starts], ascending[ends], np.add.reduceat(columns, starts, axis=1))


def _histogram_of_zero_one(packing: sorting.Packing, loss: np.ndarray, max_bins: int) -> Histogram:
    """The histogram of 0/1 losses without weights: key and loss are sorted as one integer, the loss in its lowest bit.

    `packing` turns confidences into integer keys that ascend as confidences descend, 0 for the largest. One bin
    per distinct confidence if there are at most `max_bins`, otherwise about that many with about equally many
    samples. Only the keys at the quantiles and at the ends of bins are turned back into confidences.
    """
    loss_bits = loss.view(np.uint8) if loss.dtype == bool else loss
    # one integer per sample, in the order of the samples; `payload` is asked for the losses of some of them at a time
    packed = packing.pack(
        payload_bits=1, payload=lambda start, stop: loss_bits[start:stop].astype(np.uint8, copy=False)
    )
    keys = sorting.sort_in_place(packed)  # most confident first
    errors = keys & keys.dtype.type(1)  # 1 for an error
    keys >>= keys.dtype.type(1)  # without the loss
    # index of the first sample of each bin, most confident bin first; None for more than `max_bins` distinct keys
    starts = _run_starts(keys, max_bins)
    if starts is None:
        starts = _starts_near_quantiles(packing, keys, max_bins)
    mass = np.diff(np.append(starts, len(keys))).astype(np.float64)
    # summed in the type of the keys, at least 32 bits: no more samples than that can count are sorted at a time
    error_count = np.add.reduceat(errors, starts).astype(np.float64)
    ends = np.append(starts[1:], len(keys)) - 1
    high = packing.unpack(keys[starts]).astype(np.float64)
    low = packing.unpack(keys[ends]).astype(np.float64)
    # reversed: least confident first
    return Histogram(low[::-1], high[::-1], np.stack([mass, error_count])[:, ::-1])


def _starts_near_quantiles(packing: sorting.Packing, keys: np.ndarray, max_bins: int) -> np.ndarray:
    """Index of the first key of each of about `max_bins` bins with about equally many samples, ascending from 0.

    `keys` are those that `packing` makes of confidences, sorted: 0 for the largest confidence, more for smaller ones.
    Bins are not cut at the quantiles themselves but at the numbers between them with the most trailing zero bits, so
    that histograms of similar data are cut at the same numbers.
    """
    quantiles = packing.unpack(keys[_quantile_places(len(keys), max_bins)])  # confidences, descending
    # ascending thresholds; rounded up from float64 to the type of the confidences they divide these alike
    cuts = rounded_up(_cuts_between(quantiles[::-1]), quantiles.dtype)
    # as this packing writes them; adding 0 turns -0 into +0
    cut_bits = sorting.ascending_bits(cuts + 0.0, packing.has_negative).astype(np.uint64)
    largest_bits = np.uint64(packing.largest_bits)  # beyond 2^63 where confidences have both signs
    # where many samples have the largest confidence, there is a cut at the next number, above all confidences
    cut_bits = cut_bits[cut_bits <= largest_bits]
    cut_keys = (largest_bits - cut_bits).astype(keys.dtype)
    # keys up to that of a cut are confidences of at least the cut; the next bin, of smaller ones, starts after them
    starts = np.unique(np.append(np.searchsorted(keys, cut_keys, "right"), 0))
    return np.asarray(starts[starts < len(keys)])


def _quantile_places(n: int, count: int) -> np.ndarray:
    """Indices of `count + 1` evenly spaced samples among n, first and last included."""
    return np.unique(np.linspace(0, n - 1, count + 1).astype(np.int64))


def _run_starts(sorted_values: np.ndarray, max_runs: int) -> np.ndarray | None:
    """Where runs of equal values start, or None if there are more than `max_runs`."""
    is_start = np.empty(len(sorted_values), dtype=bool)
    is_start[0] = True
    np.not_equal(sorted_values[1:], sorted_values[:-1], out=is_start[1:])
    if np.count_nonzero(is_start) > max_runs:
        return None
    return np.flatnonzero(is_start)


def _bin_starts(ascending: np.ndarray, max_bins: int) -> np.ndarray:
    """Where bins of ascending values start: at each distinct value, or about evenly if there are too many."""
    run_starts = _run_starts(ascending, max_bins)
    if run_starts is not None:
        return run_starts
    cuts = _cuts_between(ascending[_quantile_places(len(ascending), max_bins)])
    starts = np.unique(np.append(np.searchsorted(ascending, cuts, "left"), 0))
    return np.asarray(starts[starts < len(ascending)])


def _cuts_between(quantiles: np.ndarray) -> np.ndarray:
    """Distinct ascending thresholds between ascending quantiles (finite floats); a bin starts at each, and includes it.

    Two or more equal quantiles (a heavy tie) give two thresholds, so that their value gets a bin of its own: one at it,
    and one at the next float64. Between two different quantiles there is one threshold, the number with the most
    trailing zero bits, so that histograms of similar data are cut at the same numbers. With many heavy ties there are
    up to one and a half times as many thresholds as quantiles.
    """
    bits = bits_of(quantiles)
    lower = bits[:-1]
    upper = bits[1:]
    is_different = lower != upper
    # above the lower quantile, up to and including the upper one
    simplest = simplest_between(lower[is_different], upper[is_different])
    repeated = np.unique(lower[~is_different])
    next_float = repeated + np.uint64(1)  # bits of floats have the order of the floats
    return float_of(np.unique(np.concatenate([simplest, repeated, next_float])))


def rounded_up(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The smallest number of `dtype` that is not below each value."""
    if dtype == np.float64:
        return values
    with np.errstate(over="ignore"):
        nearest = values.astype(dtype)
    return np.where(nearest < values, np.nextafter(nearest, dtype.type(np.inf)), nearest)


def histogram_of_tensor(loss: Array, confidence: Array, weight: Array | None, max_bins: int) -> Histogram:
    """The histogram of torch tensors (vectors of one length, at least 1), computed on their device.

    Only the quantiles and the sums are copied to the host. A bin has its smallest and largest confidence, its mass and
    its loss; bins are least confident first. Bins are one per distinct confidence up to `max_bins`, otherwise about
    that many with about equally many samples. Second moments (sums of w^2, w^2 l and w^2 l^2) are left out for 0/1
    losses without weights (`weight` None).
    """
    torch = sys.modules["torch"]  # loaded, since the arguments are its tensors
    ascending, order = torch.sort(confidence.double())
    l = loss.double()[order]
    w = torch.ones_like(l) if weight is None else weight.double()[order]
    n = len(l)
    is_start = torch.cat([torch.ones_like(ascending[:1], dtype=torch.bool), ascending[1:] != ascending[:-1]])
    # bins start at each distinct confidence or, if there are too many, at thresholds between evenly spaced samples
    if int(is_start.sum()) <= max_bins:
        starts = torch.nonzero(is_start).reshape(-1)
    else:
        # indices of at most `max_bins + 1` samples, first and last included, and ascending thresholds between these
        places = torch.from_numpy(_quantile_places(n, max_bins)).to(ascending.device)
        cuts = torch.from_numpy(_cuts_between(ascending[places].cpu().numpy())).to(ascending.device)
        starts = torch.unique(torch.cat([torch.zeros_like(places[:1]), torch.searchsorted(ascending, cuts)]))
        # where many samples have the largest confidence, one threshold lies above all of them
        starts = starts[starts < n]
    ends = torch.cat([starts[1:], torch.full_like(starts[:1], n)])
    bin_of_sample = torch.repeat_interleave(torch.arange(len(starts), device=ascending.device), ends - starts)
    columns = torch.stack([w, w * l, w * w, w * w * l, w * w * l * l])
    # rows: sums of w, w l, w^2, w^2 l and w^2 l^2 by bin
    sums = torch.zeros(5, len(starts), dtype=torch.float64, device=ascending.device)
    sums.index_add_(1, bin_of_sample, columns)
    is_unweighted_zero_one = weight is None and bool(torch.all(l * l == l))
    stored_sums = sums[:2] if is_unweighted_zero_one else sums
    return Histogram(
        ascending[starts].cpu().numpy(), ascending[ends - 1].cpu().numpy(), stored_sums.cpu().numpy()
    )
