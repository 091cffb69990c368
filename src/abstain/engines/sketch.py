"""A stream of predictions in at most a megabyte, with bounds that hold for certain."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from abstain._arrays import Array, is_torch
from abstain._check import check_choice, check_fraction, refuse_other_row_order
from abstain.core import confidence_bins
from abstain.core.curve_points import mass_for_share
from abstain.core.influence import MetricDerivative
from abstain.core.part_sums import MomentTable, combine_parts, stack_parts, sum_area
from abstain.core.rounding import SUM_ROUNDING
from abstain.core.rows import rows_from_blocks
from abstain.engines import histogram
from abstain.engines.histogram import Histogram, empty_histogram, merge_histograms
from abstain.engines.ranges import Columns, concatenate_columns
from abstain.errors import DataError, InputError
from abstain.metrics._sample import Sample, prepare
from abstain.metrics.definitions import by_name


@dataclass(frozen=True)
class Certified:
    """An estimate with bounds that hold for certain on the data seen (up to rounding in the last digits).

    `low` and `high` are None if some losses are below zero: then no bound is known.
    """

    estimate: float
    low: float | None
    high: float | None

    @property
    def gap(self) -> float | None:
        """Width of the bounds; 0 when the answer is exact."""
        return None if self.low is None or self.high is None else self.high - self.low

    def __float__(self) -> float:
        return self.estimate

    def __repr__(self) -> str:
        if self.low is None:
            return f"{self.estimate:.6g} (no certificate: some losses are below zero)"
        return f"{self.estimate:.6g} (for certain between {self.low:.6g} and {self.high:.6g})"


@dataclass(frozen=True)
class CertifiedCurve:
    """A risk-coverage curve in few points, most confident first; accept when `confidence >= threshold`.

    Coverage and risk at each threshold with their bounds. These are equal to the estimates wherever the sketch knows
    exactly which samples are accepted. The bounds of the risk are None if some losses are below zero.
    """

    threshold: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    risk_low: np.ndarray | None
    risk_high: np.ndarray | None
    coverage_low: np.ndarray
    coverage_high: np.ndarray

    def __repr__(self) -> str:
        return (
            f"CertifiedCurve({len(self.coverage)} points, risk {self.risk[0]:.4g} at coverage "
            f"{self.coverage[0]:.4g} to {self.risk[-1]:.4g} at {self.coverage[-1]:.4g})"
        )


def certified(bracket: confidence_bins.Bracket) -> Certified:
    """A bracket of arrays as plain numbers."""
    if bracket.low is None or bracket.high is None:
        return Certified(float(bracket.estimate), None, None)
    return _without_rounding(float(bracket.estimate), float(bracket.low), float(bracket.high))


def _without_rounding(estimate: float, low: float, high: float) -> Certified:
    """Bounds of a mean of losses of at least 0; a lower bound that is rounding error alone becomes 0."""
    return Certified(estimate, 0.0 if low < SUM_ROUNDING * high else low, high)


def risk_at(table: Histogram, position: float, largest_loss: float | None) -> Certified:
    """Selective risk when samples are accepted from the top until their mass is `position`, which is above 0.

    `table` holds bins of the confidence axis, least confident first, with the mass and loss of each. The estimate takes
    bins in the order of their middles, and spreads the loss evenly within a bin; a bin of one confidence is accepted
    whole. The bounds hold for any order of the samples in bins that overlap. `largest_loss`, above 0, bounds all
    losses, which are then at least 0; without it (None) there are no bounds.
    """
    order = np.argsort(table.low + table.high, kind="stable")[::-1]  # most confident first, by the middle
    mass = table.mass[order]
    loss = table.loss[order]
    accepted_mass = np.cumsum(mass)
    accepted_loss = np.cumsum(loss)
    # the bin in which `position` lies; the last one if rounding puts it beyond all mass
    i = min(int(np.searchsorted(accepted_mass, position, "left")), len(mass) - 1)
    mass_above = accepted_mass[i] - mass[i]
    loss_above = accepted_loss[i] - loss[i]
    is_tie = bool(table.low[order[i]] == table.high[order[i]])
    accepted_share = 1.0 if is_tie else (position - mass_above) / mass[i]  # of the bin
    estimate = float((loss_above + accepted_share * loss[i]) / (mass_above + accepted_share * mass[i]))
    if largest_loss is None:
        return Certified(estimate, None, None)
    # A bin and whatever overlaps it are one bin: their samples may have any order within it. One entry per bin of
    # `table`: mass and loss entirely above it, and of others that overlap it.
    overlaps = histogram.find_overlaps(table)
    bin_mass = table.mass + overlaps.overlapping_mass
    bin_loss = table.loss + overlaps.overlapping_loss
    # at least one bin may: the caller has lowered the position by the rounding of a share
    may_hold_position = (overlaps.mass_above < position) & (position <= overlaps.mass_above + bin_mass)
    is_exact = (table.low == table.high) & (overlaps.overlapping_mass == 0)
    # an exact bin is accepted as a whole, so its threshold lies at its end
    bin_position = np.where(is_exact, overlaps.mass_above + bin_mass, position)
    # by bin, the smallest and largest risk at its position; only those that may hold `position` count
    low, high = confidence_bins.risk_between(
        np, bin_position, overlaps.mass_above, overlaps.loss_above, bin_mass, bin_loss, largest_loss
    )
    lowest = float(low[may_hold_position].min())
    highest = float(high[may_hold_position].max())
    # a lower bound that is rounding error alone becomes 0
    return _without_rounding(min(max(estimate, lowest), highest), lowest, highest)


def curve(table: Histogram, largest_loss: float | None) -> CertifiedCurve:
    """Coverage and risk at thresholds at the lower end of each bin, most confident first, with bounds.

    Bins may overlap. Of those that contain a threshold, it is undecided how many samples lie above: the estimates count
    half of them, the bounds any number. `largest_loss`, above 0, bounds all losses, which are then at least 0; without
    it (None) the risk has no bounds. `table` holds bins of the confidence axis, least confident first, with the mass
    and loss of each.
    """
    threshold = np.unique(table.low)[::-1]
    # bins are sorted by `low`: those before `first_accepted` start below the threshold
    first_accepted = np.searchsorted(table.low, threshold, "left")
    # how many of these end below it too; `divide_at_thresholds` finds them by sorting the bins by `high`
    rejected_count = np.searchsorted(np.sort(table.high), threshold, "left")
    # by threshold, mass and loss that are accepted for certain, and those of the bins that contain it (undecided)
    sums = histogram.divide_at_thresholds(table, first_accepted, rejected_count)
    # bins that start below the threshold and do not end below it contain it
    has_undecided = first_accepted > rejected_count
    undecided_mass = np.where(has_undecided, sums.undecided_mass, 0.0)
    undecided_loss = np.where(has_undecided, sums.undecided_loss, 0.0)
    total_mass = table.mass.sum()
    likely_mass = sums.accepted_mass + undecided_mass / 2
    risk_low = None
    risk_high = None
    if largest_loss is not None:
        worst_mass = undecided_loss / largest_loss  # the undecided loss as samples of the largest loss
        lossless_mass = np.maximum(undecided_mass - worst_mass, 0.0)
        risk_low = sums.accepted_loss / (sums.accepted_mass + lossless_mass)
        risk_high = (sums.accepted_loss + undecided_loss) / (sums.accepted_mass + worst_mass)
    return CertifiedCurve(
        threshold=threshold,
        coverage=likely_mass / total_mass,
        risk=(sums.accepted_loss + undecided_loss / 2) / likely_mass,
        risk_low=risk_low,
        risk_high=risk_high,
        coverage_low=sums.accepted_mass / total_mass,
        coverage_high=(sums.accepted_mass + undecided_mass) / total_mass,
    )


_CHUNK = 1 << 22  # samples sorted at a time
_BUFFER = 1 << 15  # samples; small updates are collected up to this number before they are sorted
_MAGIC = b"abstain.Sketch."  # how stored bytes begin
_VERSION = 3


class Sketch:
    """Constant-size summary of a stream: update it, merge it, ask it for metrics; lower areas are better.

    Parameters
    ----------
    size : int
        Largest size in bytes when stored. While the confidences seen have few distinct values (some 30,000 in
        the default megabyte) every result is exact; beyond that, bins of the confidence axis are joined
        where it widens the bounds least, and each result comes with bounds.
    repetitions : bool
        Whether weights are numbers of repetitions. Otherwise they are relative, on one scale for all updates and
        merges.

    Sketches of parts merge, in any order, into the sketch of the whole.

    Examples
    --------
    >>> sketch = Sketch()
    >>> sketch.update([0, 0, 1], [0.9, 0.8, 0.1])
    >>> sketch.aurc()
    0.111111 (for certain between 0.111111 and 0.111111)
    """

    def __init__(self, size: int = 1_000_000, *, repetitions: bool = False) -> None:
        """Make an empty sketch of at most `size` bytes; `repetitions` says that weights are numbers of repetitions.

        Raises InputError for a size below 4096, in which hardly any bins fit.
        """
        if int(size) < 4096:
            raise InputError(f"Sketch: `size` must be at least 4096 bytes, got {size}.")
        self.size = int(size)
        # samples so far, also those in the buffer, without those of weight 0
        self.n = 0
        self.repetitions = repetitions
        self._histogram = empty_histogram()  # of all samples but those in the buffer
        self._buffer: list[Columns] = []  # small updates, until `_flush` merges them into the histogram
        self._buffered_samples = 0
        # of relative weights, set by the first ones; stored masses are in this unit
        self._unit: float | None = None
        self._counts_samples = True  # are all masses counts of samples? So far there are none
        # of all losses seen, also of those in the buffer
        self._smallest_loss = np.inf
        self._largest_loss = -np.inf

    # updating ------------------------------------------------------------------------------------------------

    @refuse_other_row_order
    def update(self, loss: Array, confidence: Array, /, *, sample_weight: Array | None = None) -> None:
        """Add samples: one loss and one confidence each (higher = surer), arrays of any one shape.

        Tensors on a device are sorted there; only a table of at most twice `size` bytes comes to the host. Small
        updates are collected before they are sorted. Weights are relative, or numbers of repetitions if
        `self.repetitions`, and are brought to the unit of the first batch. Empty arrays add nothing.
        """
        # arrays as vectors, tensors without gradients; None and lists stay as they are
        loss = _flatten(loss)
        confidence = _flatten(confidence)
        sample_weight = _flatten(sample_weight)
        if getattr(loss, "shape", None) == (0,) and getattr(confidence, "shape", None) == (0,):
            return
        # checked columns, of numpy or of a device, and the array library (`backend`); raises for bad values
        sample = prepare("Sketch.update", loss, confidence, sample_weight, repetitions=self.repetitions)
        weight = self._in_common_unit(sample, sample_weight)  # None: 1 for all
        # counts the samples, and notes the range of the losses and whether all masses are counts of samples
        self._note_batch(sample.loss, weight, sample.backend.xp)
        # without samples of weight 0, which `prepare` drops
        columns = Columns(sample.loss, sample.confidence, weight)
        sample_count = len(sample.loss)
        if not sample.backend.is_host:
            if not is_torch(sample.loss):
                raise InputError(
                    "Sketch.update: takes numpy arrays and torch tensors (and arrays on the host), got another."
                )
            # `_merge` adds a histogram to that of this sketch, and joins bins until they fit into `size` bytes
            self._merge(histogram.histogram_of_tensor(*columns.samples, self._max_bins_of_batch))
        elif sample_count + self._buffered_samples < _BUFFER:
            # until `_flush` merges them into the histogram; a copy, because the caller may reuse its memory
            self._buffer.append(concatenate_columns([columns]))
            self._buffered_samples += sample_count
        else:
            self._flush()
            for start in range(0, sample_count, _CHUNK):
                chunk = columns.take(slice(start, start + _CHUNK))
                self._merge(histogram.histogram_of(*chunk.samples, self._max_bins_of_batch))

    def _in_common_unit(self, sample: Sample, sample_weight: Array | None) -> Array | None:
        """The weights of a batch in the unit of all batches, which the first batch sets; None if all are 1.

        `prepare` has divided the weights of `sample` by a unit that it chose for this batch alone; that unit is found
        again by comparing with `sample_weight`, the weights as the user passed them (None: 1 for all), of which the
        largest is above 0. `sample.weight` is None exactly where `sample_weight` is. Repetitions have the unit 1.
        `self._unit` is the unit of all batches (None before the first one), which is set here.
        """
        xp = sample.backend.xp
        if self.repetitions or (sample_weight is None and self._unit in (None, 1.0)):
            self._unit = 1.0
            return sample.weight
        if sample.weight is None:
            # weights of 1, in the unit that an earlier batch set; here it is not None, and `or` is for type checkers
            return xp.ones_like(sample.loss, dtype=xp.float64) / (self._unit or 1.0)
        largest_passed = float(xp.max(sample.backend.asarray(sample_weight, sample.loss)))
        # `all_weights` includes the samples of weight 0, which `weight` leaves out; both have the same largest weight
        unit_of_batch = largest_passed / float(xp.max(sample.all_weights))
        if self._unit is None:
            self._unit = unit_of_batch
        if unit_of_batch == self._unit:
            return sample.weight
        return sample.weight * (unit_of_batch / self._unit)

    def _histogram_in_unit(self, unit: float) -> Histogram:
        """The histogram with masses divided by `unit` instead of this sketch's own unit.

        Second moments scale with the square, so they are added where they were left out.
        """
        factor = (self._unit or 1.0) / unit  # None: the sketch is empty, and any number will do
        if factor == 1:
            return self._histogram
        # rows: sums of w, w l, w^2, w^2 l and w^2 l^2
        sums = self._histogram.with_second_moments().sums.copy()
        sums[:2] *= factor
        sums[2:] *= factor * factor
        return replace(self._histogram, sums=sums)

    def merge(self, *sketches: Sketch) -> Sketch:
        """The sketch of the samples of all sketches, of the size of this one; the inputs do not change.

        InputError if some sketches have repetitions as weights and others relative weights. Relative weights get the
        unit of the first sketch that has one.

        The unit of a sketch is what its relative weights are divided by: None before the first sample, 1 for
        repetitions and where there are no weights.
        """
        merged = Sketch(self.size, repetitions=self.repetitions)
        all_sketches = [self, *sketches]
        for sketch in all_sketches:
            sketch._flush()  # merges its buffered samples into its histogram; it stays the same sketch
            if sketch.repetitions != self.repetitions:
                raise InputError(
                    "Sketch.merge: sketches must agree in `repetitions`, got both. Make all of them alike."
                )
        units = [sketch._unit for sketch in all_sketches if sketch._unit is not None]
        # no units: all sketches are empty, and any number would do below
        merged._unit = units[0] if units else None
        # Sums of w, w l, and for weights or losses other than 0/1 also of w^2 l^j (j = 0, 1, 2). `_max_bins` says how
        # many bins with these sums fit into `size` bytes.
        has_second_moments = any(len(sketch._histogram.sums) == 5 for sketch in all_sketches)
        merged._histogram = merge_histograms(
            [sketch._histogram_in_unit(merged._unit or 1.0) for sketch in all_sketches],
            merged._max_bins(has_second_moments),
        )
        merged.n = sum(sketch.n for sketch in all_sketches)
        # Are masses counts of samples still? Every weight must be 1 in the unit of its sketch (or a repetition), and
        # masses in another unit were multiplied by a factor.
        merged._counts_samples = all(
            sketch._counts_samples and sketch._unit in (None, merged._unit) for sketch in all_sketches
        )
        # of an empty sketch inf and -inf, which change nothing
        merged._smallest_loss = min(sketch._smallest_loss for sketch in all_sketches)
        merged._largest_loss = max(sketch._largest_loss for sketch in all_sketches)
        return merged

    def _note_batch(self, loss: Array, weight: Array | None, xp: Any) -> None:
        """Count the samples of a batch, and note the range of its losses and whether its masses are counts."""
        self.n += int(loss.shape[0])
        self._smallest_loss = min(self._smallest_loss, float(loss.min()))
        self._largest_loss = max(self._largest_loss, float(loss.max()))
        if weight is not None and self._counts_samples and not self.repetitions:
            self._counts_samples = bool(xp.all(weight == 1))

    def _max_bins(self, has_second_moments: bool) -> int:
        """How many bins of 4 or 7 numbers fit into `size` bytes, besides 512 bytes for the header.

        A bin has its two ends, its mass and its loss, and with second moments also the sums of w^2 l^j (j = 0, 1, 2).
        """
        numbers_per_bin = 7 if has_second_moments else 4
        return (self.size - 512) // (8 * numbers_per_bin)

    @property
    def _max_bins_of_batch(self) -> int:
        """How many bins a batch may have before it is merged; `_merge` joins bins if second moments leave less room."""
        return self._max_bins(has_second_moments=False)

    def _merge(self, batch: Histogram) -> None:
        """Add the histogram of a batch to that of all samples, in as many bins as fit into `size` bytes."""
        has_second_moments = len(batch.sums) == 5 or len(self._histogram.sums) == 5
        self._histogram = merge_histograms([self._histogram, batch], self._max_bins(has_second_moments))

    def _flush(self) -> None:
        """Merge the buffered samples into the histogram; where only some batches have weights, the others weigh 1.

        Weights are in the unit of all batches, and None only where they are all 1 in it.
        """
        if not self._buffer:
            return
        buffered = self._buffer
        self._buffer = []
        self._buffered_samples = 0
        if any(columns.weight is not None for columns in buffered):
            buffered = [
                columns._replace(weight=np.ones(columns.sample_count)) if columns.weight is None else columns
                for columns in buffered
            ]
        samples = concatenate_columns(buffered).samples  # loss, confidence, weight (None: 1 for all)
        # `_merge` adds a histogram to that of this sketch, and joins bins until they fit into `size` bytes
        self._merge(histogram.histogram_of(*samples, self._max_bins_of_batch))

    # results -------------------------------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        """Does every bin hold one confidence only, so that all results are exact?"""
        table = self._table("exact")
        return bool(np.all(table.low == table.high))

    def _table(self, method: str) -> Histogram:
        """The histogram of all samples; InputError, naming the method, if there are none."""
        self._flush()
        if not len(self._histogram):
            raise InputError(f"Sketch.{method}: needs at least one sample, got none. Call `update` first.")
        return self._histogram

    def _loss_bound(self) -> float | None:
        """A bound on all losses: the largest one seen, or 1 for 0/1 losses; None when some are negative."""
        if self._smallest_loss < 0:
            return None
        if self._largest_loss in (0.0, 1.0):
            return 1.0
        return self._largest_loss

    def _bins(self, method: str) -> confidence_bins.Bins:
        return histogram.as_bins(self._table(method), self._loss_bound(), self._counts_samples)

    def aurc(self) -> Certified:
        """Area under the risk-coverage curve (harmonic, threshold ties); lower is better."""
        return certified(confidence_bins.aurc(self._bins("aurc"), self._loss_bound()))

    def augrc(self) -> Certified:
        """Area under the generalised risk-coverage curve (mean rule); lower is better."""
        return certified(confidence_bins.augrc(self._bins("augrc"), self._loss_bound()))

    def risk(self) -> Certified:
        """Mean loss of all samples: always exact; lower is better."""
        table = self._table("risk")
        value = float(table.loss.sum() / table.mass.sum())
        return Certified(value, value, value)

    def risk_at_coverage(self, coverage: float) -> Certified:
        """Selective risk at the least attainable coverage of at least `coverage`; lower is better."""
        coverage = check_fraction("Sketch.risk_at_coverage", "coverage", coverage)
        table = self._table("risk_at_coverage")
        # the mass to accept: that share of the total, rounded up to a whole number if masses are counts of samples
        position = float(mass_for_share(np, table.mass.sum(), coverage, self._counts_samples))
        return risk_at(table, position, self._loss_bound())

    def curve(self) -> CertifiedCurve:
        """The risk-coverage curve at the lower end of every bin."""
        return curve(self._table("curve"), self._loss_bound())

    def standard_error(self, metric: Literal["aurc", "augrc"] = "aurc") -> float:
        """Standard error of "aurc" or "augrc", without bounds: samples of a bin count as tied.

        It is the root of the sum of squared influences, so it needs the second moments (w^2 l^j) of each bin.
        InputError for another metric or without samples.
        """
        check_choice("Sketch.standard_error", "metric", metric, ("aurc", "augrc"))
        # the histogram of all samples, those in the buffer included; InputError, naming the method, if there are none
        table = self._table("standard_error").with_second_moments()
        ascending = np.argsort(table.low + table.high)  # by the middle of each bin
        # by bin, sums of w, w l, w^2, w^2 l and w^2 l^2
        mass, loss, *squared_weight_moments = table.sums[:, ascending]
        # sums of w^4 l^j for j = 0 ... 4: no histogram has them, and the standard error does not read them
        no_fourth_powers = [np.zeros_like(mass)] * 5
        # tables are most confident first; `rows_from_blocks` takes ascending confidences and turns them round
        ranked = MomentTable(
            rows_from_blocks(mass, loss),
            squared_weight_moments=[column[::-1] for column in squared_weight_moments],
            known_fourth_power_moments=no_fourth_powers,
        )
        area = by_name(metric).area
        # both metrics are their area itself, which the defaults of the derivative say (1 in the area, 0 in the risk);
        # the estimate is not read
        derivative = MetricDerivative(estimate=0.0)
        # the whole ranking is one part
        sums = combine_parts(stack_parts([sum_area(ranked, area)]), area, derivative)
        return float(np.sqrt(sums.square_sum))

    # storing ------------------------------------------------------------------------------------------------

    def _metadata(self) -> dict[str, Any]:
        """Everything but the histogram, under the names in which it is stored; buffered samples are merged first."""
        self._flush()
        return {
            "size": self.size,
            "n": self.n,
            "whole": self._counts_samples,
            "repetitions": self.repetitions,
            "unit": self._unit,
            "losses": None if self.n == 0 else [self._smallest_loss, self._largest_loss],
        }

    def _packed(self) -> bytes:
        """The length of the metadata (4 bytes), the metadata as JSON, and the columns as little-endian doubles."""
        metadata = json.dumps(self._metadata() | {"columns": len(self._histogram.sums)}).encode()
        columns = [self._histogram.low, self._histogram.high, *self._histogram.sums]
        body = b"".join(np.ascontiguousarray(column, dtype="<f8").tobytes() for column in columns)
        return len(metadata).to_bytes(4, "little") + metadata + body

    def to_bytes(self) -> bytes:
        """At most `size` bytes; `Sketch.from_bytes` reads them on any machine."""
        packed = self._packed()
        return _MAGIC + b"%d\n" % _VERSION + zlib.crc32(packed).to_bytes(4, "little") + packed

    @classmethod
    def from_bytes(cls, stored: bytes) -> Sketch:
        """The inverse of `to_bytes`.

        The bytes are a fixed beginning with the version, a checksum (4 bytes), the length of the metadata (4 bytes),
        the metadata as JSON, and the columns of the histogram. DataError for other bytes, another version or damage.
        """
        if not stored.startswith(_MAGIC):
            raise DataError("Sketch.from_bytes: these bytes were not written by `Sketch.to_bytes`.")
        version, _, body = bytes(stored[len(_MAGIC) :]).partition(b"\n")
        _check_version("Sketch.from_bytes", version.decode(errors="replace"))
        # inside, an error of Python that damaged bytes lead to, such as KeyError, becomes DataError
        with _report_damage("Sketch.from_bytes"):
            checksum = int.from_bytes(body[:4], "little")
            metadata_end = 8 + int.from_bytes(body[4:8], "little")
            metadata = json.loads(body[8:metadata_end])
            # the two ends of each bin, then its sums, of which "columns" says how many there are
            columns = np.frombuffer(body[metadata_end:], dtype="<f8").reshape(metadata["columns"] + 2, -1)
            columns = columns.astype(np.float64)
            table = Histogram(low=columns[0], high=columns[1], sums=columns[2:])
            return cls._restore(metadata, table, checksum)

    def to_json(self) -> str:
        """The sketch as JSON text, with numbers in full; `Sketch.from_json` reads it."""
        content = {
            "version": _VERSION,
            "checksum": zlib.crc32(self._packed()),
            **self._metadata(),
            "low": self._histogram.low.tolist(),
            "high": self._histogram.high.tolist(),
            "sums": self._histogram.sums.tolist(),
        }
        return json.dumps(content)

    @classmethod
    def from_json(cls, stored: str) -> Sketch:
        """The inverse of `to_json`; DataError for another version, or if the text is damaged."""
        # inside, an error of Python that a damaged text leads to, such as KeyError, becomes DataError
        with _report_damage("Sketch.from_json"):
            content = dict(json.loads(stored))
        # a text without a version is taken for version 1, which this release does not read
        _check_version("Sketch.from_json", str(content.get("version", 1)))
        with _report_damage("Sketch.from_json"):
            low, high, sums = (
                np.asarray(content[name], dtype=np.float64) for name in ("low", "high", "sums")
            )
            return cls._restore(content, Histogram(low, high, sums), content["checksum"])

    @classmethod
    def _restore(cls, metadata: dict[str, Any], table: Histogram, checksum: int) -> Sketch:
        """A sketch from its stored metadata (all but the histogram), histogram and checksum.

        ValueError if the checksum is not that of the restored sketch, or bounds are out of order; KeyError or TypeError
        for incomplete metadata. The callers report all of these as damage. `table` holds bins of the confidence axis,
        least confident first, with the mass and loss of each.

        `metadata` has the `size` in bytes, the number `n` of samples, `repetitions` (are weights these?), the `unit` by
        which relative weights were divided (None without samples), `whole` (are all masses counts of samples?) and
        `losses`, the smallest and the largest.
        """
        sketch = cls(metadata["size"], repetitions=bool(metadata["repetitions"]))  # empty
        sketch.n = metadata["n"]
        sketch._unit = None if metadata["unit"] is None else float(metadata["unit"])
        sketch._histogram = table
        sketch._counts_samples = metadata["whole"]
        if metadata["losses"] is not None:  # None if there are no samples
            smallest, largest = metadata["losses"]
            sketch._smallest_loss = float(smallest)
            sketch._largest_loss = float(largest)
        losses_are_ordered = sketch.n == 0 or sketch._smallest_loss <= sketch._largest_loss
        is_ordered = bool((table.low <= table.high).all()) and losses_are_ordered
        # of the bytes that the restored sketch would be stored as, but for the fixed beginning
        if not is_ordered or zlib.crc32(sketch._packed()) != checksum:
            raise ValueError("the checksum or the order of the numbers is wrong")
        return sketch

    def __repr__(self) -> str:
        waiting = f" and {self._buffered_samples} samples waiting" if self._buffered_samples else ""
        return f"Sketch(n = {self.n}, {len(self._histogram)} items{waiting})"


def _check_version(function: str, version: str) -> None:
    """DataError unless a stored sketch has the version that this release reads."""
    if version != str(_VERSION):
        raise DataError(
            f"{function}: takes sketches of version {_VERSION}, got version {version[:20]!r}. Make the sketch again "
            f"with this release of abstain, or read it with the one that wrote it."
        )


@contextmanager
def _report_damage(function: str) -> Iterator[None]:
    """Report whatever fails while a stored sketch is read as DataError: the sketch is damaged."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(
            f"{function}: the sketch is damaged or cut short. Store it again from where it was made."
        ) from error


def _flatten(values: Array) -> Array:
    """Images, batches and nested lists as one vector of samples, without gradients; anything else as it is."""
    if isinstance(values, (list, tuple)):
        values = np.asarray(values)
    if is_torch(values):
        values = values.detach()
    if getattr(values, "ndim", 1) > 1 and hasattr(values, "reshape"):
        return values.reshape(-1)
    return values
