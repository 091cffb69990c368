"""Rows: the table that every formula of this package reads.

A row is one distinct confidence (a *block*): its mass m and loss sum L, and the mass N and loss S accepted when the
threshold is put at this confidence. S / N is the selective risk, N / W the coverage, where W is the total mass.
Rows lie along the last axis; leading axes are batches. Rows without mass are allowed and change no result, so that
arrays of fixed shape (batches, compiled code) can hold tables of different lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace, float_dtype, running_max
from abstain.core import sorting
from abstain.core.rounding import SUM_ROUNDING
from abstain.core.sorting import CHUNK, pack_loss


class Rows(NamedTuple):
    """One row per distinct confidence along the last axis, most confident first; leading axes are batches.

    Formulas write m, L, N, S and W for the five arrays. Always construct with keywords.

    Attributes
    ----------
    mass, loss : array, shape (..., k)
        m and L: total weight, and total of weight times loss, of the samples in each row.
    accepted_mass, accepted_loss : array, shape (..., k)
        N and S: the same for all samples accepted when the threshold is put at this row, which are those of this row
        and of all rows above it.
    total_mass : array, shape (..., 1)
        W: the mass of the whole data set, also where these rows are only a part of it.
    xp : module
        Array namespace of the five arrays.
    has_empty_rows : bool
        True when some rows at the top may accept no mass, so that a division by `accepted_mass` needs a guard. False
        says that no entry of `accepted_mass` is 0; `mass` itself may still be 0 in some rows.
    is_untied : bool
        True says that every row is one sample of weight 1, so that all masses are 1. False says nothing.
    """

    mass: Array
    loss: Array
    accepted_mass: Array
    accepted_loss: Array
    total_mass: Array
    xp: Namespace = np
    has_empty_rows: bool = True
    is_untied: bool = False

    @classmethod
    def accumulate(cls, mass: np.ndarray, loss: np.ndarray) -> Rows:
        """Rows of a whole data set, most confident first, from the total weight and total loss of each row, as vectors.

        The total loss is the sum of weight times loss over the samples of a row. All masses are positive, so that no
        row is empty. The given arrays are kept, not copied.
        """
        accepted_mass = np.cumsum(mass)
        return cls(
            mass=mass,
            loss=loss,
            accepted_mass=accepted_mass,
            accepted_loss=np.cumsum(loss),
            # shape (1,), not a number: leading axes may be batches, against which it broadcasts
            total_mass=accepted_mass[-1:],
            has_empty_rows=False,
        )

    @property
    def risk(self) -> Array:
        """Selective risk at each row; 0 where nothing is accepted."""
        if self.has_empty_rows:
            return safe_divide(self.xp, self.accepted_loss, self.accepted_mass)
        return self.accepted_loss / self.accepted_mass

    def slice(self, start: int, stop: int) -> Rows:
        """Rows `start` to `stop` (exclusive) of a single data set; accepted sums are still counted from the top."""
        return self._replace(
            mass=self.mass[start:stop],
            loss=self.loss[start:stop],
            accepted_mass=self.accepted_mass[start:stop],
            accepted_loss=self.accepted_loss[start:stop],
        )


def rows_from_blocks(mass: Array, loss_sum: Array, xp: Namespace = np) -> Rows:
    """Make rows, most confident first, from the mass and loss sum of each distinct confidence, least confident first.

    Confidences lie along the last axis; those without mass are allowed. The rows are those of a whole data set. As the
    first of them may be empty, `has_empty_rows` keeps its default, True: a division by the accepted mass needs a guard.
    """
    row_mass = xp.flip(mass, axis=-1)
    row_loss = xp.flip(loss_sum, axis=-1)
    accepted_mass = xp.cumulative_sum(row_mass, axis=-1)
    return Rows(
        mass=row_mass,
        loss=row_loss,
        accepted_mass=accepted_mass,
        accepted_loss=xp.cumulative_sum(row_loss, axis=-1),
        total_mass=accepted_mass[..., -1:],
        xp=xp,
    )


def rows_from_samples(xp: Namespace, loss: Array, confidence: Array, weight: Array | None = None) -> Rows:
    """Make rows of samples, in any order along the last axis; the rows have the shape of the samples.

    A row has the mass and loss of a confidence, and those accepted at its threshold. A run of equal confidences becomes
    one row, at the place of its last sample; the other places are rows without mass. Values never leave the device. The
    result does not depend on the order of the samples: equal confidences are ordered by loss before they are added up.
    """
    loss, confidence, weight = sort_samples(xp, loss, confidence, weight)
    return rows_from_sorted(xp, loss, sorting.mark_run_ends(confidence, xp), weight)


def rows_from_sorted(xp: Namespace, loss: Array, is_row_end: Array, weight: Array | None = None) -> Rows:
    """Make rows of samples sorted most confident first along the last axis; the rows have the shape of the samples.

    `loss` and `weight` hold the widest floats of the library, in which sums keep their digits. `is_row_end` marks the
    last sample of each run of equal confidences, and so always the last sample: the row of the run is put there, and
    the other places become rows without mass. Their accepted sums still count up to that place. Without `weight` every
    sample has weight 1.
    """
    n = loss.shape[-1]
    # 1 ... n, on the device of the losses
    position = xp.broadcast_to(xp.arange(1, n + 1, **device_keyword(loss)), loss.shape)
    if weight is None:
        weighted_loss = loss
        accepted_mass = xp.astype(position, loss.dtype)
    else:
        weighted_loss = weight * loss
        accepted_mass = xp.cumulative_sum(weight, axis=-1)
    accepted_loss = xp.cumulative_sum(weighted_loss, axis=-1)
    # For each sample, the position of the last one in the row above (0: there is no row above). `running_max` is the
    # cumulative maximum.
    last_end = running_max(xp, xp.where(is_row_end, position, xp.zeros_like(position)))
    end_above = xp.concat([xp.zeros_like(last_end[..., :1]), last_end[..., :-1]], axis=-1)
    zero = xp.zeros_like(loss[..., :1])
    mass_above = xp.take_along_axis(xp.concat([zero, accepted_mass], axis=-1), end_above, axis=-1)
    loss_above = xp.take_along_axis(xp.concat([zero, accepted_loss], axis=-1), end_above, axis=-1)
    row_mass = accepted_mass - mass_above
    row_loss = accepted_loss - loss_above
    # a row of one sample needs no difference of sums, which would round
    is_single = end_above == position - 1
    row_loss = xp.where(is_single, weighted_loss, row_loss)
    if weight is not None:
        row_mass = xp.where(is_single, weight, row_mass)
    zeros = xp.zeros_like(loss)
    return Rows(
        mass=xp.where(is_row_end, row_mass, zeros),
        loss=xp.where(is_row_end, row_loss, zeros),
        accepted_mass=accepted_mass,
        accepted_loss=accepted_loss,
        total_mass=accepted_mass[..., -1:],
        xp=xp,
    )


def safe_divide(xp: Namespace, numerator: Array, denominator: Array) -> Array:
    """`numerator / denominator`, and 0 where the denominator is not positive.

    No division by 0 takes place anywhere, so gradients are finite too.
    """
    is_positive = denominator > 0
    return xp.where(is_positive, numerator, 0.0) / xp.where(is_positive, denominator, 1.0)


def device_keyword(array: Array) -> dict[str, Any]:
    """The keyword argument that creates a new array on the device of `array`."""
    return {"device": array.device} if hasattr(array, "device") else {}


def sort_samples(
    xp: Namespace, loss: Array, confidence: Array, weight: Array | None
) -> tuple[Array, Array, Array | None]:
    """Sort samples along the last axis, most confident first, equal confidences by loss and then by weight.

    So the sums of a run of equal confidences do not depend on the order of the input, though floats round. Losses (or
    weights) that are booleans or integers are not sorted by, since they add up exactly in any order. Returns losses,
    confidences and weights in the sorted order; losses and weights as the widest floats of the library.
    """

    def reorder(array: Array, order: Array) -> Array:
        return xp.take_along_axis(array, order, axis=-1)

    wide = float_dtype(xp)
    for column in ("weight", "loss"):  # stable sorts: the last key sorted by is the leading one
        values = weight if column == "weight" else loss
        if values is None or xp.isdtype(values.dtype, ("bool", "integral")):
            continue
        order = xp.argsort(values, axis=-1, stable=True)
        loss = reorder(loss, order)
        confidence = reorder(confidence, order)
        weight = None if weight is None else reorder(weight, order)
    order = xp.argsort(confidence, axis=-1, descending=True, stable=True)
    weight = None if weight is None else xp.astype(reorder(weight, order), wide)
    return xp.astype(reorder(loss, order), wide), reorder(confidence, order), weight


# The block table: one row per distinct confidence, ascending --------------------------------------
#
# This is the public, mergeable form of rows, which engines that users register return: any system that can group and
# add can make one, and tables merge by adding rows of equal confidence. It holds all that an estimate and its error
# bar need. The engines of this package cut the confidence axis into ranges instead, and pass on the sums of each range
# (`part_sums`), so that no table of all distinct confidences is ever in memory.


@dataclass(frozen=True)
class Blocks:
    """Distinct confidences, ascending, each with sums over its samples (weights w, losses l).

    Attributes
    ----------
    confidence : ndarray, shape (k,)
        Ascending, each once.
    mass, loss_sum : ndarray, shape (k,)
        Sums of w and of w l. Tables of one data set share one scale of weights, between 1e-70 and 1e70: fourth
        powers must stay within the range of a double.
    w2, w2l, w2ll : ndarray, shape (k,)
        Sums of w^2, w^2 l and w^2 l^2.
    fourths : ndarray, shape (5, k)
        Sums of w^4 l^j, j = 0 ... 4.
    count : ndarray of int, shape (k,)
        Number of samples.
    graded : ndarray of int, shape (k,)
        Number of samples whose loss is neither 0 nor 1. The sums cannot tell: losses .5, .5, .5, 1.5 have the same low
        moments as a 0/1 loss.

    Examples
    --------
    >>> left = Blocks.from_samples(np.asarray([0, 1]), np.asarray([0.9, 0.5]))
    >>> both = left.merge(Blocks.from_samples(np.asarray([1]), np.asarray([0.9])))
    >>> both.confidence.tolist(), both.mass.tolist(), both.loss_sum.tolist()
    ([0.5, 0.9], [1.0, 2.0], [1.0, 1.0])
    """

    confidence: np.ndarray
    mass: np.ndarray
    loss_sum: np.ndarray
    w2: np.ndarray
    w2l: np.ndarray
    w2ll: np.ndarray
    fourths: np.ndarray
    count: np.ndarray
    graded: np.ndarray

    def __len__(self) -> int:
        return len(self.confidence)

    @classmethod
    def from_samples(
        cls, loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None
    ) -> Blocks:
        """Sort samples, given in any order, and add up those of equal confidence: a block for each distinct confidence.

        Blocks are sorted least confident first. `weight` None means 1 for all.
        """
        # most confident first; row k holds the samples order[row_stops[k - 1] : row_stops[k]]
        order, row_stops = rank_confidences(confidence)
        ranked_loss = loss[order].astype(np.float64)
        ranked_weight = None if weight is None else weight[order].astype(np.float64)
        sums = sum_powers_by_row(ranked_loss, ranked_weight, row_stops)
        count = diff_from(row_stops, 0)  # samples of each distinct confidence
        is_graded = (ranked_loss != 0) & (ranked_loss != 1)  # neither right nor wrong
        graded = np.add.reduceat(is_graded, row_stops - count, dtype=np.int64)
        w2, w2l, w2ll = sums.squared_weight_moments  # sums of w^2, w^2 l and w^2 l^2
        return cls(
            confidence=confidence[order[row_stops - 1]][::-1],
            mass=sums.mass[::-1],
            loss_sum=sums.loss[::-1],
            w2=w2[::-1],
            w2l=w2l[::-1],
            w2ll=w2ll[::-1],
            # shape (5, blocks): sums of w^4 l^j for j = 0 ... 4
            fourths=np.stack([column[::-1] for column in sums.fourth_power_moments]),
            count=count[::-1],
            graded=graded[::-1],
        )

    def merge(self, *more_blocks: Blocks) -> Blocks:
        """The table of all samples of several tables: sums of equal confidences are added up.

        A table has one row per distinct confidence, least confident first, whose fields are sums over its samples. The
        tables must use the same scale of weights. The order of merging changes sums only by rounding.
        """
        tables = (self, *more_blocks)
        confidence = np.concatenate([table.confidence for table in tables])
        order = np.argsort(confidence, kind="stable")
        # each confidence once, and where its rows start among the sorted ones
        distinct, starts = np.unique(confidence[order], return_index=True)

        def add_up(field_name: str) -> np.ndarray:
            """One field of the merged table: its values in all tables, added up by confidence."""
            values = np.concatenate([getattr(table, field_name) for table in tables], axis=-1)
            return np.add.reduceat(values[..., order], starts, axis=-1)

        # all fields but the confidence are sums over samples
        sums = {field.name: add_up(field.name) for field in fields(self) if field.name != "confidence"}
        return Blocks(confidence=distinct, **sums)

    def in_units(self) -> Blocks:
        """The table with all weights divided by one number, the unit.

        The unit is the common weight if all weights are equal (but for a relative 1e-12), so that they become exactly
        1; otherwise the largest power of two that is not above the root of the largest `w2`, which brings the weights
        close to 1: their fourth powers must neither overflow nor vanish. The table is not empty, and all weights are
        above 0.

        Of each confidence, `count` is the number of samples, `w2`, `w2l` and `w2ll` are sums of w^2 l^j (j = 0, 1, 2),
        and `fourths` sums of w^4 l^j (j = 0 ... 4).
        """
        mean_weight = self.mass / self.count  # of the samples of each block
        blocks_agree = np.allclose(mean_weight, mean_weight[0], rtol=SUM_ROUNDING, atol=0)
        # n (sum of w^2) = (sum of w)^2 in each block: its weights have no variance
        samples_agree = np.allclose(self.w2 * self.count, self.mass**2, rtol=SUM_ROUNDING, atol=0)
        all_equal = blocks_agree and samples_agree
        # at least the largest weight, up to the root of the number of samples in a block times it
        largest = float(np.sqrt(self.w2.max()))
        # a power of two divides without rounding
        unit = float(mean_weight[0]) if all_equal else 2.0 ** math.floor(math.log2(largest))
        if unit == 1:
            return self
        return replace(
            self,
            mass=self.count.astype(np.float64) if all_equal else self.mass / unit,
            loss_sum=self.loss_sum / unit,
            w2=self.count.astype(np.float64) if all_equal else self.w2 / unit**2,
            w2l=self.w2l / unit**2,
            w2ll=self.w2ll / unit**2,
            fourths=self.fourths / unit**4,
        )

    @property
    def zero_one(self) -> bool:
        """Are all losses 0 or 1?"""
        return not self.graded.any()

    def rows(self) -> Rows:
        """The same table, most confident first, with the accepted mass and loss at each row."""
        return rows_from_blocks(self.mass, self.loss_sum)


# One vector of samples, sorted once and read from the most confident down, a cacheful at a time ----

ReadSlice = Callable[[int, int], np.ndarray]  # (start, stop): ranks from 0, most confident first


class SampleReader(NamedTuple):
    """Ranked samples that are read piece by piece, most confident first.

    Attributes
    ----------
    sample_count : int
        Number of samples.
    read_row_ends : callable
        `read_row_ends(start, stop)`: places, counted from `start`, where a run of equal confidences ends.
    read_loss, read_weight : callable
        Losses and weights of the samples start, ..., stop - 1; `read_weight` is None if all weights are 1.
    total_mass : float
        Sum of all weights.
    """

    sample_count: int
    read_row_ends: ReadSlice
    read_loss: ReadSlice
    read_weight: ReadSlice | None
    total_mass: float


class Ranking(NamedTuple):
    """One sort of the confidences, shared by all losses that are read along it.

    Attributes
    ----------
    order : ndarray of int, shape (n,)
        Indices of the samples, most confident first.
    row_stops : ndarray of int, shape (k,)
        For each distinct confidence, descending: how many samples are at least as confident.
    """

    order: np.ndarray
    row_stops: np.ndarray


def rank_confidences(confidence: np.ndarray, order: np.ndarray | None = None) -> Ranking:
    """Sort confidences once. Pass `order`, indices most confident first, if it is known already."""
    if order is None:
        order, sorted_keys = sorting.argsort_descending_with_keys(confidence)
    else:
        sorted_keys = confidence[order]
    return Ranking(order=order, row_stops=np.flatnonzero(sorting.mark_run_ends(sorted_keys)) + 1)


def read_by_confidence(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> SampleReader:
    """Sort samples, given in any order, and return a reader of slices of them, most confident first.

    Unweighted 0/1 or float32 losses are packed into the sorted keys if they fit; otherwise indices are sorted. Sums of
    what is read do not depend on the order of the input, except for rounding of weighted or float64 losses. `weight`
    None means 1 for all. Losses of 0 and 1 are read as bytes where they were packed, others as floats.
    """
    # unsigned keys: the confidence in the leading bits, descending, and the loss in the lowest; None if they do not fit
    packed = pack_loss(loss, confidence) if weight is None else None
    if packed is None:
        return _read_by_index(loss, confidence, weight)
    keys = sorting.sort_in_place(packed.keys)
    payload_bits = packed.payload_bits
    unpack_loss = packed.unpack_loss

    def read_row_ends(start: int, stop: int) -> np.ndarray:
        """Places in [start, stop), counted from `start`, of the last sample of each run of equal confidences."""
        # one mark for each of the samples start, ..., stop - 1
        is_run_end = sorting.mark_run_ends_between(keys, payload_bits, start, stop)
        has_ties = np.count_nonzero(is_run_end) < stop - start
        if not has_ties and stop - start <= CHUNK:
            return _PLACES[: stop - start]  # 0, 1, ...: every place, without searching for them
        return is_run_end.nonzero()[0]

    return SampleReader(
        sample_count=len(loss),
        read_row_ends=read_row_ends,
        read_loss=lambda start, stop: unpack_loss(keys[start:stop]),
        read_weight=None,
        total_mass=float(len(loss)),
    )


def _read_by_index(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> SampleReader:
    """Sort the indices of samples, and return a reader of slices of the samples, most confident first.

    Without weights, float32 losses of equal confidence are read in the order of their bits, so that their sum does not
    depend on the order of the input. (Sums of float64 losses and of weights may round differently in another order.)
    `weight` None means 1 for all.
    """
    # `order`: indices, most confident first; `row_stops`: of each row, how many samples it and the rows above have
    ranking = rank_confidences(confidence)
    reader = read_along_ranking(ranking, loss, weight)
    has_ties = len(ranking.row_stops) < len(loss)
    if weight is not None or loss.dtype != np.float32 or not has_ties:
        return reader
    # a row is a run of equal confidences: sorting keys with the row number in front orders the losses within each row
    row_numbers = np.arange(len(ranking.row_stops), dtype=np.uint64)
    row_of_sample = np.repeat(row_numbers, diff_from(ranking.row_stops, 0))
    loss_bits = loss[ranking.order].view(np.uint32)
    keys = sorting.sort_in_place((row_of_sample << np.uint64(32)) | loss_bits)
    # the low 32 bits of the keys are the losses; without weights nothing else is read by place within a row
    return reader._replace(read_loss=lambda start, stop: sorting.unpack_float32(keys[start:stop]))


def read_along_ranking(
    ranking: Ranking, loss: np.ndarray, weight: np.ndarray | None, zero_one: bool = False
) -> SampleReader:
    """Return a reader of slices of samples along a known ranking of their confidences.

    `loss` and `weight` are in the order of the input; no weight means 1 for all. `zero_one` says that all losses are 0
    or 1: without weights they are then read as bytes, which add up exactly and fast. Other losses are read as float64.
    """
    # indices of the samples, most confident first; for each distinct confidence, how many are at least as confident
    order, row_stops = ranking
    loss_dtype = np.uint8 if zero_one and weight is None else np.float64
    read_weight: ReadSlice | None = None
    total_mass = float(len(order))
    if weight is not None:
        read_weight = lambda start, stop: weight[order[start:stop]].astype(np.float64, copy=False)  # noqa: E731
        total_mass = float(weight.sum())

    def read_row_ends(start: int, stop: int) -> np.ndarray:
        # the rows that end in the slice: those of which `row_stops` lies in (start, stop]
        first_row, stop_row = np.searchsorted(row_stops, (start, stop), "right")
        # a row ends one sample before its stop
        return np.asarray(row_stops[first_row:stop_row] - (start + 1))

    return SampleReader(
        sample_count=len(order),
        read_row_ends=read_row_ends,
        read_loss=lambda start, stop: loss[order[start:stop]].astype(loss_dtype, copy=False),
        read_weight=read_weight,
        total_mass=total_mass,
    )


class Piece(NamedTuple):
    """A piece of ranked samples that holds whole rows (runs of equal confidence).

    Attributes
    ----------
    start, stop : int
        The piece holds the samples start, ..., stop - 1, counted from the most confident one.
    row_ends : ndarray of int
        Places of the last sample of each row, counted from `start`; the last one is stop - start - 1.
    """

    start: int
    stop: int
    row_ends: np.ndarray


def split_at_row_ends(samples: SampleReader, size: int) -> Iterator[Piece]:
    """Divide ranked samples into pieces of whole rows, each of at most `size` samples unless one row has more.

    A row is a run of equal confidences; `samples.read_row_ends(start, stop)` returns where rows end in a slice, counted
    from `start`. Pieces follow each other from the most confident sample down.
    """
    start = 0
    while start < samples.sample_count:
        # look for row ends in [search_start, stop), which moves down as long as a long row has no end in it
        search_start = start
        stop = min(start + size, samples.sample_count)
        row_ends = samples.read_row_ends(search_start, stop)  # counted from `search_start`
        while not len(row_ends):  # this loop ends, because the last sample always ends a row
            search_start = stop
            # eight times as far: a long row is then searched in few calls
            stop = min(start + 8 * (stop - start), samples.sample_count)
            row_ends = samples.read_row_ends(search_start, stop)
        if search_start > start:
            row_ends = row_ends + (search_start - start)  # counted from `start`
        piece = Piece(start=start, stop=start + int(row_ends[-1]) + 1, row_ends=row_ends)
        yield piece
        start = piece.stop


# Of a piece whose rows are one sample of weight 1 each: their masses, and the accepted ones counted from its start.
_ONES = np.ones(CHUNK)
_ONES.flags.writeable = False
_POSITIONS = np.arange(1.0, CHUNK + 1.0)
_POSITIONS.flags.writeable = False
# Their places, counted from its start.
_PLACES = np.arange(CHUNK)
_PLACES.flags.writeable = False


def iterate_rows(samples: SampleReader, with_loss: bool = True, size: int = CHUNK) -> Iterator[Rows]:
    """Yield the rows of ranked samples, most confident first, in pieces of about `size` samples, which stay in cache.

    A row is a run of equal confidences; one that is longer than `size` makes its piece longer. `samples` reads losses
    and weights (`read_weight` is None if all are 1) of a slice of the ranked samples. Accepted sums are counted from
    the top of the whole data set, and `total_mass` is that of the whole data set. With `with_loss=False` the field
    `loss` may be None, which saves time where a formula does not read it.

    Sums over a row of several samples are differences of running sums. No row is empty, which `has_empty_rows=False`
    tells formulas: they may divide by the accepted mass.
    """
    total_mass = np.asarray([samples.total_mass])
    # sums over all pieces so far
    mass_above = 0.0
    loss_above = 0.0
    for start, stop, row_ends in split_at_row_ends(samples, size):  # row ends are counted from `start`
        loss = samples.read_loss(start, stop)
        is_untied = samples.read_weight is None and len(row_ends) == stop - start
        if samples.read_weight is None:
            row_mass, accepted_mass = _count_by_row(start, stop, row_ends)
            row_loss, accepted_loss = _sum_loss_by_row(loss, row_ends, loss_above, with_loss)
        else:
            # Mass and loss are added in the same order, so that they round alike: where all losses are 1, the accepted
            # loss is exactly the accepted mass, and the risk exactly 1.
            weight = samples.read_weight(start, stop)
            # Is the row one sample? Its value is then taken as the sum: a difference of running sums would round.
            is_single = diff_from(row_ends, -1) == 1
            row_mass, accepted_mass = _sum_floats_by_row(weight, row_ends, mass_above, is_single)
            row_loss, accepted_loss = _sum_floats_by_row(loss * weight, row_ends, loss_above, is_single)
        mass_above = float(accepted_mass[-1])
        loss_above = float(accepted_loss[-1])
        yield Rows(
            mass=row_mass,
            loss=row_loss,
            accepted_mass=accepted_mass,
            accepted_loss=accepted_loss,
            total_mass=total_mass,
            has_empty_rows=False,
            is_untied=is_untied,
        )


def _count_by_row(start: int, stop: int, row_ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the samples of each row of a piece, and those of the row and of all rows above it in the data set.

    A row is all samples of one confidence, and pieces hold whole rows. The piece holds the ranked samples start, ...,
    stop - 1, so that `start` samples are above it; `row_ends` are the places of the last sample of each row, counted
    from `start`. All samples have weight 1. The arrays are not to be changed.
    """
    row_count = len(row_ends)
    has_ties = row_count < stop - start
    if not has_ties and row_count <= CHUNK:  # the constants 1, 1, ... and 1, 2, ... have CHUNK entries
        positions = _POSITIONS[:row_count]
        return _ONES[:row_count], positions + start if start else positions
    accepted_mass = row_ends + (start + 1.0)
    # the differences of neighbours, the first one from `start`
    return diff_from(accepted_mass, start), accepted_mass


def _sum_loss_by_row(
    loss: np.ndarray, row_ends: np.ndarray, loss_above: float, with_row_loss: bool
) -> tuple[np.ndarray | None, np.ndarray]:
    """Sum the unweighted losses of a piece over each row, and over the row and all rows above it in the data set.

    `row_ends` are the places of the last sample of each row, counted from the start of the piece; `loss_above` is the
    sum over all pieces above. 0/1 losses are bytes, whose sums are exact. The sums over each row are None without
    `with_row_loss`.
    """
    if loss.dtype != np.uint8:
        if not with_row_loss:
            return None, _accumulate_by_row(loss, row_ends, loss_above)
        is_single = diff_from(row_ends, -1) == 1
        return _sum_floats_by_row(loss, row_ends, loss_above, is_single)
    if len(row_ends) == 1:  # one sum is faster than running sums
        accepted_loss = loss.sum(keepdims=True) + loss_above
    else:
        # integers of 32 bits are added up, and later turned into floats, much faster than those of 64
        sum_dtype = np.int32 if len(loss) < 1 << 31 else np.int64
        running_loss = np.add.accumulate(loss, dtype=sum_dtype)
        has_ties = len(row_ends) < len(loss)
        accepted_loss = (running_loss.take(row_ends) if has_ties else running_loss).astype(np.float64)
        if loss_above:
            accepted_loss += loss_above
    return diff_from(accepted_loss, loss_above) if with_row_loss else None, accepted_loss


def _sum_floats_by_row(
    values: np.ndarray, row_ends: np.ndarray, sum_above: float, is_single: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the values of a piece over each row, and over the row and all rows above it in the data set.

    A row is all samples of one confidence; pieces are cut so that none spans two of them.
    `row_ends` are the places of the last sample of each row, counted from the start of the piece; `sum_above` is the
    sum over all pieces above. `is_single` marks the rows of one sample, whose value is taken as it is: a difference of
    running sums would round.
    """
    # running sums at the row ends, counted from `sum_above`
    accepted_sum = _accumulate_by_row(values, row_ends, sum_above)
    # `diff_from`: the differences of neighbours, the first one from `sum_above`
    row_sum = np.where(is_single, values.take(row_ends), diff_from(accepted_sum, sum_above))
    return row_sum, accepted_sum


def _accumulate_by_row(values: np.ndarray, row_ends: np.ndarray, sum_above: float) -> np.ndarray:
    """Sum the values of each row of a piece and of all rows above it, `sum_above` (of all pieces above) included."""
    running_sum = values.cumsum()
    has_ties = len(row_ends) < len(values)
    return (running_sum.take(row_ends) if has_ties else running_sum) + sum_above


def diff_from(values: np.ndarray, first: float) -> np.ndarray:
    """Differences between neighbours of a vector, the first of them `values[0] - first`."""
    differences = np.empty_like(values)
    np.subtract(values[1:], values[:-1], out=differences[1:])
    differences[0] = values[0] - first
    return differences


def make_row_sum(row_stops: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that adds up the values of ranked samples row by row.

    Row k holds the samples from row_stops[k - 1] (0 for the first row) up to row_stops[k], exclusive. Without ties the
    function returns its argument, not a copy. Every row has at least one sample.
    """
    counts = diff_from(row_stops, 0)  # samples in each row
    starts = row_stops - counts
    tied_rows = np.flatnonzero(counts > 1)
    # indices of the samples of the tied rows, row by row, and where each of these rows starts among them
    tied_starts = np.cumsum(counts[tied_rows]) - counts[tied_rows]
    tied_samples = np.repeat(starts[tied_rows] - tied_starts, counts[tied_rows])
    tied_samples += np.arange(len(tied_samples))

    def row_sum(values: np.ndarray) -> np.ndarray:
        """Sum of the values, one per ranked sample, over each row."""
        if not len(tied_rows):
            return values
        sums = values[starts]  # rows of one sample need no sum
        sums[tied_rows] = np.add.reduceat(values[tied_samples], tied_starts)
        return sums

    return row_sum


class PowersByRow(NamedTuple):
    """Sums over the samples of each row, of weight w and loss l: arrays with one entry per row.

    Sums that are equal for every sample (powers of a 0/1 loss, or of weights of 1) are the same array object, which
    callers use to add each of them up only once.

    Attributes
    ----------
    mass, loss : ndarray
        Sums of w and of w l.
    squared_weight_moments : list of 3 ndarrays
        Sums of w^2 l^j for j = 0, 1, 2.
    fourth_power_moments : list of 5 ndarrays
        Sums of w^4 l^j for j = 0 ... 4; empty where they were not asked for.
    """

    mass: np.ndarray
    loss: np.ndarray
    squared_weight_moments: list[np.ndarray]
    fourth_power_moments: list[np.ndarray]

    @property
    def columns(self) -> list[np.ndarray]:
        """All sums in one list: mass, loss, the three with w^2, the five with w^4."""
        return [self.mass, self.loss, *self.squared_weight_moments, *self.fourth_power_moments]


def sum_powers_by_row(
    l: np.ndarray,
    w: np.ndarray | None,
    row_stops: np.ndarray,
    zero_one: bool = False,
    with_fourth_powers: bool = True,
) -> PowersByRow:
    """Sums over the samples of each row of w, w l, w^2 l^j (j = 0, 1, 2) and w^4 l^j (j = 0 ... 4).

    `l` and `w` are losses and weights, most confident first; `w` None means weights of 1. Row k ends before the sample
    row_stops[k]. `zero_one` says that all losses are 0 or 1. Without `with_fourth_powers` the sums with w^4 are left
    out.
    """
    row_sum = make_row_sum(row_stops)

    def sum_loss_powers(weight: np.ndarray, highest: int) -> list[np.ndarray]:
        """Row sums of weight * l^j for j = 0 ... highest."""
        if zero_one:  # l^j = l: one array object for all j > 0
            return [row_sum(weight), *highest * [row_sum(weight * l)]]
        products = [weight]
        for _ in range(highest):
            products.append(products[-1] * l)
        return [row_sum(product) for product in products]

    if w is None:
        # without weights all powers of w are 1: the same sums of l^0, l^1, ... serve all three groups
        samples_per_row = diff_from(row_stops, 0).astype(np.float64)
        highest = 4 if with_fourth_powers else 2
        sums_of_powers = [samples_per_row]  # of l^0
        sums_of_powers += sum_loss_powers(l, highest - 1)  # of l * l^j, that is l, l^2, ...
        return PowersByRow(
            mass=sums_of_powers[0],
            loss=sums_of_powers[1],
            squared_weight_moments=sums_of_powers[:3],
            fourth_power_moments=sums_of_powers if with_fourth_powers else [],
        )
    w2 = w * w
    mass, loss = sum_loss_powers(w, highest=1)
    return PowersByRow(
        mass=mass,
        loss=loss,
        squared_weight_moments=sum_loss_powers(w2, highest=2),
        fourth_power_moments=sum_loss_powers(w2 * w2, highest=4) if with_fourth_powers else [],
    )


def rows_from_numpy(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    """Make rows (one per distinct confidence, most confident first) of numpy samples in any order along the last axis.

    A row has its mass and loss, and those accepted at its threshold. A vector gives as many rows as there are distinct
    confidences; a batch gives rows of the shape of the samples, some without mass. `weight` None means 1 for all.
    """
    if loss.ndim > 1:
        return _batch_rows(loss, confidence, weight)
    pieces = list(iterate_rows(read_by_confidence(loss, confidence, weight)))
    accepted_mass = np.concatenate([piece.accepted_mass for piece in pieces])
    return Rows(
        mass=np.concatenate([piece.mass for piece in pieces]),
        loss=np.concatenate([piece.loss for piece in pieces]),
        accepted_mass=accepted_mass,
        accepted_loss=np.concatenate([piece.accepted_loss for piece in pieces]),
        total_mass=accepted_mass[-1:],
        has_empty_rows=False,
    )


def _batch_rows(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None) -> Rows:
    """Make rows of a batch of samples, in any order along the last axis, in arrays of the samples' shape.

    A run of equal confidences becomes one row at the place of its last sample; the other places have no mass. `weight`
    None means 1 for all.
    """
    import array_api_compat.numpy as xp  # numpy with all functions of the array API

    # confidence and loss in one unsigned key per sample; None if they do not fit
    packed = pack_loss(loss, confidence) if weight is None else None
    if packed is None:
        return rows_from_samples(xp, loss, confidence, weight)
    keys = sorting.sort_in_place(packed.keys)  # along the last axis
    # without the loss in its lowest bits, a key is the confidence
    is_row_end = sorting.mark_run_ends(keys >> keys.dtype.type(packed.payload_bits))
    return rows_from_sorted(xp, packed.unpack_loss(keys).astype(np.float64), is_row_end)
