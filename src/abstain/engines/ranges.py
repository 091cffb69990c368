"""Samples by ranges of their confidence: where the axis is cut, which sums each range has, which ranges are counted.

A range is finished from its own samples and the sums of the ranges above it. So the process that holds a range (this
one, a Dask worker, a Spark task) needs only sums from the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from abstain._check import weight_unit
from abstain.core import tally
from abstain.core.part_sums import Totals
from abstain.core.rows import sum_powers_by_row
from abstain.engines.histogram import (
    Histogram,
    bits_of,
    empty_histogram,
    float_of,
    histogram_of,
    merge_histograms,
    rounded_up,
)

MAX_COMPARED_CUTS = 12  # up to this number of cuts, comparing with each is faster than a binary search
SURVEY_SAMPLES = 1 << 20  # samples in the histogram of a survey
_SURVEY_BINS = 1 << 12  # at most so many bins in that histogram
_POWERS = ("w", "wl", "w2", "w2l", "w2ll", "w4", "w4l", "w4ll", "w4lll", "w4llll")  # sums of w^p l^j
# Rows of RangeSums.sums: the powers, then counts of samples, of losses other than 0 and 1, of losses below 0 and of
# weights that are not whole numbers.
SUMS = (*_POWERS, "count", "graded", "negative", "fractional")
COUNT = SUMS.index("count")  # rows 0 ... COUNT - 1 are the powers
_GRADED = SUMS.index("graded")  # rows from here on count samples of a kind


class Columns(NamedTuple):
    """Samples as vectors of one length.

    0/1 losses are booleans. `extra`, shape (columns, samples), holds further values that stay with their samples when
    these are moved: loss and confidence of a second model, or an influence.
    """

    loss: np.ndarray
    confidence: np.ndarray
    weight: np.ndarray | None = None
    extra: np.ndarray | None = None

    @property
    def sample_count(self) -> int:
        """Number of samples."""
        return len(self.loss)

    def take(self, index: np.ndarray | slice) -> Columns:
        """The samples at these places."""
        return Columns(
            loss=self.loss[index],
            confidence=self.confidence[index],
            weight=None if self.weight is None else self.weight[index],
            extra=None if self.extra is None else self.extra[:, index],
        )

    @property
    def samples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Loss, confidence and weight, in the order in which core functions take them."""
        return self.loss, self.confidence, self.weight

    def ordered_by_loss(self, zero_one: bool) -> Columns:
        """The same samples with minus the loss as confidence, so that ranking them gives the order of the oracle.

        `zero_one` says that all losses are 0 or one number c. The errors are then ordered by weight, lightest first, as
        metrics in memory order samples of equal loss: their confidence is minus the loss times the weight. `extra`,
        further values of each sample such as those of a second model, is dropped: the oracle needs none.
        """
        loss = self.loss.astype(np.float64)
        if not zero_one:
            # booleans become numbers too: these samples may be 0/1 where others of the data set are not
            return Columns(loss, confidence=-loss, weight=self.weight)
        weighted_loss = loss if self.weight is None else loss * self.weight
        # losses keep their type, boolean if they are 0/1
        return Columns(self.loss, confidence=-weighted_loss, weight=self.weight)

    def in_units(self, unit: float) -> Columns:
        """With weights divided by their unit, so that huge and tiny relative weights have powers within range."""
        if self.weight is None or unit == 1:
            return self
        return self._replace(weight=self.weight / unit)

    def with_second_model(self, second: Columns) -> Columns:
        """With loss and confidence of a second model as `extra`."""
        return self._replace(extra=np.stack([second.loss, second.confidence]).astype(np.float64))

    def second_model(self) -> Columns:
        """The samples of the second model, from `extra`."""
        assert self.extra is not None
        loss, confidence = self.extra
        return Columns(loss, confidence, self.weight)


Groups = dict[Any, Columns]  # samples by group; all samples are the group None


def concatenate_columns(parts: list[Columns]) -> Columns:
    """The samples of all parts, in their order; all parts have the same columns."""
    columns = zip(*parts)
    return Columns(
        *(None if pieces[0] is None else np.concatenate(pieces, axis=-1) for pieces in columns)  # type: ignore[arg-type]
    )


def merge_groups(parts: Iterable[Groups]) -> Groups:
    """The samples of each group, from all parts."""
    pieces_of_group: dict[Any, list[Columns]] = {}
    for part in parts:
        for group, columns in part.items():
            pieces_of_group.setdefault(group, []).append(columns)
    return {group: concatenate_columns(pieces) for group, pieces in pieces_of_group.items()}


def in_units(groups: Groups, units: Mapping[Any, float]) -> Groups:
    """The samples with the weights of each group divided by its unit; 1 where a group has none."""
    return {group: columns.in_units(units.get(group, 1.0)) for group, columns in groups.items()}


def collect_columns(parts: Iterable[Columns], sample_count: int) -> Columns:
    """The samples of all parts in their order, copied into place as they come, so that memory holds them once.

    `sample_count` is that of all parts at most; fewer may come, since samples of weight zero are dropped. The columns
    are vectors (loss, confidence, weight) and `extra`, further values with the samples along its last axis. A column
    widens its type when a part needs it, such as losses that were booleans so far. Columns that are None in the first
    part (no weights, no `extra`) must be None in all. Without parts the result is empty, with boolean losses.
    """
    whole: Columns | None = None
    filled = 0  # samples copied so far; memory beyond them is not initialised
    for part in parts:
        if whole is None:
            whole = _allocate_like(part, sample_count)
        for name, values in part._asdict().items():
            column = getattr(whole, name)
            if column is None or values is None:
                continue
            common_type = np.promote_types(column.dtype, values.dtype)
            if column.dtype != common_type:
                widened = np.empty(column.shape, common_type)
                widened[..., :filled] = column[..., :filled]
                column = widened
                whole = whole._replace(**{name: column})
            # samples are the last axis: `extra` has shape (columns, samples)
            column[..., filled : filled + part.sample_count] = values
        filled += part.sample_count
    if whole is None:
        return Columns(np.empty(0, dtype=bool), np.empty(0))
    return whole.take(slice(0, filled))


def _allocate_like(part: Columns, sample_count: int) -> Columns:
    """Memory for so many samples, not initialised: the columns and types of `part`, None where it has None."""
    return Columns(
        *(
            None if values is None else np.empty((*values.shape[:-1], sample_count), values.dtype)
            for values in part
        )  # type: ignore[arg-type]
    )


# sums -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RangeSums:
    """Sums over each range, least confident first: one row of `sums` per name in SUMS, one column per range.

    A range is the samples whose confidences lie between two thresholds. `low` and `high` are the smallest and largest
    confidence of the samples in each range; inf and -inf for a range without samples.
    """

    sums: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def merge(self, *sums_of_parts: RangeSums) -> RangeSums:
        """The sums over the samples of these and of other parts of the data, for the same ranges."""
        sums = self.sums
        low = self.low
        high = self.high
        for part in sums_of_parts:
            sums = sums + part.sums
            low = np.minimum(low, part.low)
            high = np.maximum(high, part.high)
        return RangeSums(sums, low, high)

    def select(self, ranges: slice) -> RangeSums:
        """The sums of some of the ranges."""
        return RangeSums(self.sums[:, ranges], self.low[ranges], self.high[ranges])

    @property
    def count(self) -> np.ndarray:
        """Number of samples in each range."""
        return self.sums[COUNT].astype(np.int64)

    @property
    def is_tied(self) -> np.ndarray:
        """Which ranges hold one confidence only, so that their sums are all one needs."""
        return np.asarray(self.low >= self.high)

    def totals(self) -> Totals:
        """The totals of all samples in these ranges; `fsum` adds up the ranges without further rounding.

        `sums` has one column per range. Its rows are named by SUMS: first the sums of w^p l^j (weights w, losses l),
        from COUNT on the numbers of samples, of losses other than 0/1, of negative losses and of fractional weights.
        """
        # the other five are the sums of w^4 l^j for j = 0 ... 4
        mass, loss, w2, w2l, w2ll, *fourth_powers = (math.fsum(row) for row in self.sums[:COUNT])
        count, graded, negative, fractional = (int(number) for number in self.sums[COUNT:].sum(axis=1))
        return Totals(
            sample_count=count,
            total_mass=mass,
            loss_sum=loss,
            squared_weight_moments=(w2, w2l, w2ll),
            fourth_power_moments=tuple(fourth_powers),
            zero_one=graded == 0,
            has_negative_loss=negative > 0,
            has_whole_weights=fractional == 0,
        )

    def above(self) -> np.ndarray:
        """Mass and loss strictly above each range, shape (2, ranges)."""
        mass_and_loss = self.sums[:2]
        return np.asarray(np.cumsum(mass_and_loss[:, ::-1], axis=1)[:, ::-1] - mass_and_loss)


def empty_sums(ranges: int) -> RangeSums:
    """The sums of ranges without samples."""
    return RangeSums(np.zeros((len(SUMS), ranges)), np.full(ranges, np.inf), np.full(ranges, -np.inf))


def _sum_ranges(columns: Columns, starts: np.ndarray, sizes: np.ndarray) -> RangeSums:
    """The sums of ranges whose samples lie one after another in `columns`: `sizes[i]` of them from `starts[i]` on.

    A range is the samples whose confidences lie between two thresholds. Ranges ascend by confidence and follow each
    other without gaps, from the first sample to the last; some may be empty. Samples within a range may be in any
    order. Losses of type bool are 0/1. There is at least one sample.

    The rows of `sums` in the result are named by SUMS: before COUNT the sums of w^p l^j (weights w, losses l), at COUNT
    the number of samples, then from `_GRADED` on the numbers of losses other than 0 and 1, of negative losses, of
    fractional weights. All sums of an empty range are 0, its `low` and `high` are inf and -inf.
    """
    result = empty_sums(len(sizes))
    result.sums[COUNT] = sizes
    # `reduceat` takes the first sample of each range and sums up to the next one, so empty ranges are left out
    has_samples = sizes > 0
    filled_starts = starts[has_samples]
    filled_ends = filled_starts + sizes[has_samples]
    result.low[has_samples] = np.minimum.reduceat(columns.confidence, filled_starts)
    result.high[has_samples] = np.maximum.reduceat(columns.confidence, filled_starts)
    zero_one = columns.loss.dtype == bool
    if columns.weight is None and zero_one:
        # counting booleans in place is faster than summing them as floats; no sample is of the last three kinds
        error_counts = [
            np.count_nonzero(columns.loss[start:end]) for start, end in zip(filled_starts, filled_ends)
        ]
        # all w^p are 1 and l^j is l for j above 0, so each sum is the number of samples or that of errors
        result.sums[:COUNT, has_samples] = _powers_of_counts(sizes[has_samples], np.asarray(error_counts))
        return result
    loss = columns.loss.astype(np.float64, copy=False)
    weight = None if columns.weight is None else columns.weight.astype(np.float64, copy=False)
    is_graded = (loss != 0) & (loss != 1)
    is_fractional = np.zeros(len(loss)) if weight is None else weight != np.floor(weight)
    result.sums[_GRADED:, has_samples] = [
        np.add.reduceat(flags, filled_starts, dtype=np.float64)
        for flags in (is_graded, loss < 0, is_fractional)
    ]
    # sums by range of w, w l, w^2 l^j (j = 0, 1, 2) and w^4 l^j (j = 0 ... 4), the order of SUMS
    powers = sum_powers_by_row(loss, weight, filled_ends, zero_one)
    result.sums[:COUNT, has_samples] = powers.columns
    return result


def _powers_of_counts(mass: Any, error_count: Any) -> list[Any]:
    """The sums of w^p l^j, in the order of SUMS, of samples without weights and with 0/1 losses.

    `mass` is the number of samples and `error_count` that of errors: numbers, or arrays with one value per range.
    """
    return [mass, error_count, mass, error_count, error_count, mass, *4 * [error_count]]


# cutting ----------------------------------------------------------------------------------------------------


def choose_cuts(histogram: Histogram, ranges: int) -> np.ndarray:
    """Ascending thresholds between about `ranges` ranges of about equal mass; a range starts at each threshold.

    A range is the samples whose confidences lie between two thresholds. `histogram` holds bins of the confidence axis,
    least confident first, each with its smallest and largest confidence (`low`, `high`) and its mass. A single
    confidence with more than the mass of a range (a heavy tie) gets a range of its own: one range starts at it, the
    next at the next float64. Empty if one range is enough or the histogram is empty.
    """
    if ranges <= 1 or not len(histogram):
        return np.empty(0)
    mass = histogram.mass
    mass_per_range = mass.sum() / ranges
    heavy_ties = histogram.low[(histogram.low == histogram.high) & (mass >= mass_per_range)]
    # `bits_of` turns floats into whole numbers of the same order, so adding 1 gives the next float64
    next_float = float_of(bits_of(heavy_ties) + np.uint64(1))
    mass_below = np.cumsum(mass) - mass
    # a range starts at the first bin that has the mass of one more whole range below it
    full_ranges_below = np.floor(mass_below / mass_per_range)
    starts_range = np.diff(full_ranges_below, prepend=0) > 0
    cuts = np.unique(np.concatenate([histogram.low[starts_range], heavy_ties, next_float]))
    # the float after the largest one is infinite
    return np.asarray(cuts[np.isfinite(cuts)])


def split_into_ranges(
    columns: Columns, cuts: np.ndarray, *, keep_tied_samples: bool = False
) -> tuple[list[Columns], RangeSums]:
    """Sort samples into the ranges between `cuts`: the samples of each range, and the sums of each range.

    `cuts` are ascending thresholds; range i + 1 starts at `cuts[i]`, and range 0, the least confident, has no lower
    end. Samples keep their order within a range. The samples of a range that can hold only one confidence are replaced
    by none, since their sums are enough, unless `keep_tied_samples`; their sums always count. `columns` holds the
    samples as vectors of one length.
    """
    range_count = len(cuts) + 1
    if not columns.sample_count:
        return [columns] * range_count, empty_sums(range_count)
    if range_count == 1:
        start_of_all = np.zeros(1, dtype=np.int64)
        return [columns], _sum_ranges(columns, start_of_all, np.asarray([columns.sample_count]))
    # cuts are float64; rounded up to the type of the confidences they divide the samples alike, and compare faster
    range_of_sample = _find_ranges(columns.confidence, rounded_up(cuts, columns.confidence.dtype))
    # the samples of each range one after another, the least confident range first
    columns = columns.take(np.argsort(range_of_sample, kind="stable"))
    sizes = np.bincount(range_of_sample, minlength=range_count)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    # in `parts`, a range that loses its samples ends where it starts; the sums count them still
    part_ends = ends if keep_tied_samples else np.where(has_one_confidence(cuts), starts, ends)
    parts = [columns.take(slice(start, end)) for start, end in zip(starts, part_ends)]
    return parts, _sum_ranges(columns, starts, sizes)


def _find_ranges(confidence: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """The number of each sample's range: how many of the ascending `cuts` are at most its confidence.

    In a small integer type, which a stable argsort sorts by counting; there must be at most 65,535 cuts. Range 0 lies
    below all cuts.
    """
    if len(cuts) > MAX_COMPARED_CUTS:
        number = np.searchsorted(cuts, confidence, "right")
        return number.astype(np.uint8 if len(cuts) < 256 else np.uint16)
    number = np.zeros(len(confidence), dtype=np.uint8)
    for cut in cuts:  # comparing all samples with few cuts is ten times as fast as searching each
        number += confidence >= cut
    return number


def has_one_confidence(cuts: np.ndarray) -> np.ndarray:
    """For each range between these cuts: can it hold only one floating-point number?"""
    if not len(cuts):
        return np.zeros(1, dtype=bool)
    is_next_float = bits_of(cuts[1:]) - bits_of(cuts[:-1]) == 1
    return np.concatenate([[False], is_next_float, [False]])


# the survey -------------------------------------------------------------------------------------------------


@dataclass
class Survey:
    """What a first pass over the data finds out about each group, before the axis is cut into ranges of confidence.

    Parameters
    ----------
    sample_counts : dict
        Number of samples by group.
    histograms : dict
        Of the confidences of each group, from some of its samples.
    zero_one, is_double, has_weights : bool
        Of all groups together: are losses 0/1, does any confidence need a float64, are there weights?
    weight_ranges : dict
        The smallest and the largest positive weight of each group.
    fractional_weight : float or None
        A weight that is not a whole number, if there is one.
    """

    sample_counts: dict[Any, int] = field(default_factory=dict)
    histograms: dict[Any, Histogram] = field(default_factory=dict)
    zero_one: bool = True
    is_double: bool = False
    has_weights: bool = False
    weight_ranges: dict[Any, tuple[float, float]] = field(default_factory=dict)
    fractional_weight: float | None = None

    def weight_units(self, repetitions: bool) -> dict[Any, float]:
        """What to divide the weights of each group by; 1 for repetitions."""
        return {
            group: 1.0 if repetitions else float(weight_unit(smallest, largest))
            for group, (smallest, largest) in self.weight_ranges.items()
        }

    def weights_are_counts(self, repetitions: bool) -> bool:
        """Can estimators that count samples be used: are weights repetitions, or all equal within each group?"""
        return repetitions or all(smallest == largest for smallest, largest in self.weight_ranges.values())

    @property
    def sample_count(self) -> int:
        """Number of samples of all groups."""
        return sum(self.sample_counts.values())

    def add(self, groups: Groups, stride: int, rng: np.random.Generator) -> None:
        """Add a batch of samples by group (all under None if there are no groups).

        All samples count for the number of samples, the weights and the types. Of the confidences of each group every
        `stride`-th, from a random start, enters the histogram. It is used only to choose where the confidence axis is
        cut into ranges, so it gets no losses and no weights: each sample has mass 1. Losses of type bool are 0/1. `rng`
        is the source of all randomness.
        """
        for group, columns in groups.items():
            batch = Survey(
                sample_counts={group: columns.sample_count},
                zero_one=columns.loss.dtype == bool,
                is_double=columns.confidence.dtype != np.float32,
            )
            if columns.weight is not None:
                # the smallest and the largest weight, and one that is not a whole number
                batch.note_weights(group, columns.weight)
            start = int(rng.integers(stride))  # 0 ... stride - 1
            # empty if the batch has no more samples than `start`
            sampled = np.ascontiguousarray(columns.confidence[start::stride])
            if len(sampled):
                no_errors = np.zeros(len(sampled), dtype=bool)
                batch.histograms[group] = histogram_of(no_errors, sampled, weight=None, max_bins=_SURVEY_BINS)
            self.include(batch)

    def note_weights(self, group: Any, weight: np.ndarray) -> None:
        """Record a group's smallest and largest weight, and one weight that is not a whole number (else None).

        For a new survey: earlier records of the group are replaced. Weights are positive.
        """
        self.has_weights = True
        if len(weight):
            self.weight_ranges[group] = (float(weight.min()), float(weight.max()))
        fractions = weight[weight != np.floor(weight)]
        self.fractional_weight = float(fractions[0]) if len(fractions) else None

    def include(self, *surveys: Survey) -> Survey:
        """Add other surveys, of other samples of the same groups or of other groups, to this one, and return it.

        Numbers of samples add up, histograms merge, ranges of weights widen; of the flags `zero_one` must hold for all
        samples, the others (`is_double`: a confidence needs a float64; `has_weights`) for any. The first weight seen
        that is not a whole number is kept, as an example.

        A survey is what a pass over samples found of each group: `sample_counts`, `histograms` of the confidences and
        `weight_ranges` (smallest and largest weight) are by group.
        """
        for survey in surveys:
            for group, sample_count in survey.sample_counts.items():
                self.sample_counts[group] = self.sample_counts.get(group, 0) + sample_count
            for group, histogram in survey.histograms.items():
                # what this survey has of the group so far
                present = self.histograms.get(group, empty_histogram())
                self.histograms[group] = merge_histograms([present, histogram], max_bins=_SURVEY_BINS)
            for group, (smallest, largest) in survey.weight_ranges.items():
                present_smallest, present_largest = self.weight_ranges.get(group, (smallest, largest))
                self.weight_ranges[group] = (min(smallest, present_smallest), max(largest, present_largest))
            self.zero_one &= survey.zero_one
            self.is_double |= survey.is_double
            self.has_weights |= survey.has_weights
            if self.fractional_weight is None:  # no such weight so far
                self.fractional_weight = survey.fractional_weight
        return self


# counting ---------------------------------------------------------------------------------------------------
#
# With 1e8 samples each float32 between 1/2 and 1 occurs about six times. One counter per value is then smaller than
# the samples, and needs neither a sort nor a disk.

# setting up and reading a counter costs as much as half a sample costs to write, read back and sort
_COUNTER_COST = 0.5
_MIN_COUNTED_SHARE = 0.25  # of the samples; a table of counters for fewer does not pay


def choose_window(histogram: Histogram, sample_count: int, max_bytes: int) -> tuple[float, float] | None:
    """The window of float32 values, first and last, that it pays most to count; None if counting does not pay.

    One counter is kept for each float32 value in the window. The gain is the number of samples that need no sort less
    half the number of counters. `sample_count` is the number of samples that the histogram stands for (its confidences
    are float32 values), and `max_bytes` bounds the memory of the counters. It does not pay for less than a quarter of
    the samples. A window begins and ends with bins of the histogram, which hold the mass of some of the samples, by
    confidence, least confident first.
    """
    # more samples than `tally.MAX_SAMPLES` could overflow a counter
    if not len(histogram) or sample_count > tally.MAX_SAMPLES:
        return None
    low = histogram.low.astype(np.float32)
    # a bin counts as reaching up to the start of the next one; the last one ends at the float32 after its largest value
    end_of_last = np.nextafter(histogram.high[-1:].astype(np.float32), np.float32(np.inf))
    next_low = np.append(low[1:], end_of_last)
    # place of the start and of the end of each bin among all float32 values: how many lie between 0 and it, negative
    # below 0. Starts must not descend, and no bin is empty: bins of merged histograms may overlap
    start = np.maximum.accumulate(tally.values_between(np.zeros_like(low), low))
    stop = np.maximum(tally.values_between(np.zeros_like(next_low), next_low), start + 1)
    samples = histogram.mass * (sample_count / histogram.mass.sum())
    gain = samples - _COUNTER_COST * (stop - start)
    max_counters = max_bytes // tally.BYTES_PER_COUNTER
    # for each bin, the end of the longest run of bins from it on whose counters fit
    furthest_end = np.searchsorted(stop, start + max_counters, "right")
    # the window consists of the bins first_bin, ..., end_bin - 1; of none (0, 0) if no run gains anything, and then it
    # holds 0 samples, too few below
    first_bin, end_bin = _best_run(gain, furthest_end)
    if samples[first_bin:end_bin].sum() < _MIN_COUNTED_SHARE * sample_count:
        return None
    last_value = np.nextafter(next_low[end_bin - 1], np.float32(-np.inf))
    return float(low[first_bin]), float(last_value)


def _best_run(gain: np.ndarray, furthest_end: np.ndarray) -> tuple[int, int]:
    """The run of bins first, ..., end - 1 with the largest sum of `gain`; (0, 0), no bin, if no run has a positive sum.

    A run that starts at bin `first` may end at `furthest_end[first]` at most (that bin excluded).
    """
    gain_before = np.concatenate([[0.0], np.cumsum(gain)])
    best_gain = 0.0
    best_run = (0, 0)
    for first, furthest in enumerate(furthest_end.tolist()):
        if furthest > first:
            # the gain of a run is `gain_before[end] - gain_before[first]`
            end = first + 1 + int(np.argmax(gain_before[first + 1 : furthest + 1]))
            run_gain = float(gain_before[end] - gain_before[first])
            if run_gain > best_gain:
                best_gain = run_gain
                best_run = (first, end)
    return best_run


def outside_window(histogram: Histogram, window: tuple[float, float]) -> Histogram:
    """The histogram without the bins that start inside a window."""
    is_outside = (histogram.low < window[0]) | (histogram.low > window[1])
    return Histogram(histogram.low[is_outside], histogram.high[is_outside], histogram.sums[:, is_outside])


def cut_at_window(cuts: np.ndarray, window: tuple[float, float]) -> tuple[np.ndarray, int]:
    """Cuts that make the window a range of its own, and the place of that range, at least 1 (0: the least confident).

    `window` holds its first and last float32 value, both finite: they are confidences. `cuts` are ascending thresholds
    (float64, finite); range 0 lies below the first, and a range starts at each. Cuts inside the window are removed, and
    cuts are added at its first value and at the float32 after its last one (unless that is infinite).
    """
    first_value, last_value = window
    # infinite if the window ends at the largest float32: no range lies above it then
    after_window = float(np.nextafter(np.float32(last_value), np.float32(np.inf)))
    is_inside = (cuts > first_value) & (cuts < after_window)
    new_cuts = np.unique(np.concatenate([cuts[~is_inside], [first_value, after_window]]))
    # the place of a range is how many cuts are at most its start
    place = int(np.searchsorted(new_cuts, first_value, "right"))
    return np.asarray(new_cuts[np.isfinite(new_cuts)]), place


def add_counts(sums: RangeSums, number: int, counted: tally.Tally) -> None:
    """Fill in the sums of the range with this number from its counters."""
    mass, error_count = counted.totals().sum(axis=0)
    if mass:
        sums.sums[:COUNT, number] = _powers_of_counts(mass, error_count)
        sums.sums[COUNT, number] = mass
        sums.low[number], sums.high[number] = counted.span()
