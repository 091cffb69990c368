"""Sorting confidences fast: packed keys, the losses packed with them, and the cuts that a threshold can make.

A confidence becomes an unsigned integer that decreases as the confidence increases. A 0/1 loss, a float32 loss or an
index is packed into the low bits of that integer, so that one sort of plain integers also moves what belongs to it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from abstain._arrays import Array, Namespace
from abstain.core.rounding import SUM_ROUNDING

# Runs of equal values in a sorted array -----------------------------------------------------------


def mark_run_ends(values: Array, xp: Namespace = np) -> Array:
    """Mask along the last axis of sorted values: is this the last value of a run of equal values?"""
    if isinstance(values, np.ndarray):
        is_end = np.ones(values.shape, dtype=bool)
        np.not_equal(values[..., 1:], values[..., :-1], out=is_end[..., :-1])
        return is_end
    last = xp.ones_like(values[..., :1], dtype=xp.bool)
    return xp.concat([values[..., 1:] != values[..., :-1], last], axis=-1)


def mark_run_starts(values: np.ndarray) -> np.ndarray:
    """Mask over a sorted vector: is this the first value of a run of equal values?"""
    is_start = np.ones(values.shape, dtype=bool)
    np.not_equal(values[1:], values[:-1], out=is_start[1:])
    return is_start


def mark_run_ends_between(sorted_keys: np.ndarray, payload_bits: int, start: int, stop: int) -> np.ndarray:
    """Mask for the places start, ..., stop - 1 of sorted keys: is this the last key of a run of equal keys?

    A key is an integer that stands for a confidence, with a payload in its lowest `payload_bits` bits, which are
    ignored. A run that goes on beyond `stop` does not end here; one that ends with the whole array does. Requires
    0 <= start < stop <= len(sorted_keys).
    """
    # one key more than the range has, if there is one, to compare the last with
    keys = sorted_keys[start : min(stop + 1, len(sorted_keys))]
    if payload_bits:
        keys = keys >> payload_bits
    is_run_end = np.empty(stop - start, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=is_run_end[: len(keys) - 1])
    if stop == len(sorted_keys):
        is_run_end[-1] = True
    return is_run_end


def find_tied_places(sorted_values: np.ndarray) -> np.ndarray:
    """Indices, ascending, of the values that equal a neighbour: all members of all runs of at least two."""
    equals_next = sorted_values[1:] == sorted_values[:-1]
    return np.flatnonzero(np.append(False, equals_next) | np.append(equals_next, False))


# Sorting unsigned keys digit by digit, for processors on which numpy's own sort is slow -----------
#
# numpy sorts 8- and 16-bit integers by counting, which is fast everywhere as long as the data stays in cache. So the
# keys are first divided into some two hundred groups of about equal size, by value, a cacheful of keys at a time; then
# each group is sorted by its 16-bit digits, the lowest digit first.

_KEYS_PER_CHUNK = 1 << 17  # keys assigned to groups at a time: they and their order stay in cache
_GROUPS = 250  # group numbers fit into a byte
_DIGIT_BITS = 16
_LARGEST_DIGIT_GROUP = 1 << 21  # groups with more keys than this are left to numpy's sort
_SLOW_NANOSECONDS = 11.0  # per key; from here on sorting by digits is faster than numpy's sort


@cache
def numpy_sorts_slowly() -> bool:
    """Time numpy's sort once per process, in a millisecond or two. Either way of sorting gives the same order."""
    keys = np.arange(1 << 16, dtype=np.uint32) * np.uint32(2654435761)
    best_nanoseconds = np.inf
    for _ in range(3):
        scratch = keys.copy()
        began = time.perf_counter_ns()
        scratch.sort()
        best_nanoseconds = min(best_nanoseconds, time.perf_counter_ns() - began)
    return bool(best_nanoseconds / len(keys) > _SLOW_NANOSECONDS)


def sort_by_digits(keys: np.ndarray) -> np.ndarray:
    """Sort a vector of unsigned keys, not empty, ascending into a new array; `keys` is overwritten.

    The keys of each chunk are brought into the order of their groups (ranges of values); then each group is collected
    from all chunks into its part of the result, and sorted there. Groups are numbered from 0 by ascending value, so
    that sorted groups one after the other are the sorted keys. Runs in threads.
    """
    shift, group_of_prefix = _plan_groups(keys)  # the leading bits of a key, key >> shift, decide its group
    chunks = [keys[start : start + _KEYS_PER_CHUNK] for start in range(0, len(keys), _KEYS_PER_CHUNK)]
    # group g of chunk c lies in chunks[c][group_bounds[c, g] : group_bounds[c, g + 1]]
    group_bounds = np.zeros((len(chunks), _GROUPS + 1), dtype=np.int64)
    group_numbers = np.arange(_GROUPS, dtype=np.uint8)

    def reorder_chunk_by_group(chunk_number: int) -> None:
        """Bring the keys of one chunk into the order of their groups, and note where each group starts."""
        chunk = chunks[chunk_number]  # a view of `keys`
        group = group_of_prefix.take(chunk >> shift)
        order = np.argsort(group, kind="stable")
        group_bounds[chunk_number, 1:] = np.searchsorted(group, group_numbers, "right", sorter=order)
        chunk[...] = chunk.take(order)

    _run_for_each(reorder_chunk_by_group, len(chunks))  # calls it with 0, 1, ..., in threads
    result = np.empty_like(keys)
    group_sizes = np.diff(group_bounds, axis=1).sum(axis=0)
    group_starts = np.concatenate([[0], np.cumsum(group_sizes)])

    def sort_group(group: int) -> None:
        """Sort the keys of one group, from all chunks, into their part of the result."""
        starts = group_bounds[:, group].tolist()
        stops = group_bounds[:, group + 1].tolist()
        parts = [chunk[start:stop] for chunk, start, stop in zip(chunks, starts, stops)]
        _sort_parts_by_digits(parts, result[group_starts[group] : group_starts[group + 1]])

    _run_for_each(sort_group, _GROUPS)  # calls it with 0, 1, ..., in threads
    return result


class _GroupPlan(NamedTuple):
    """How keys are divided into groups of about equal size, by their leading bits.

    Attributes
    ----------
    shift : unsigned integer
        The right shift that leaves the 16 leading bits of a key (leading in the largest key).
    group_of_prefix : ndarray of uint8
        The group number of each value of those bits, non-decreasing.
    """

    shift: np.unsignedinteger
    group_of_prefix: np.ndarray


def _plan_groups(keys: np.ndarray) -> _GroupPlan:
    """Divide the range of unsigned keys, not empty, into _GROUPS groups of about equal size.

    The prefix of a key, its up to 16 leading bits `key >> shift`, decides its group: all keys of one prefix are in one
    group, and group numbers ascend with the prefix. Sizes are estimated from the distribution of every k-th key, about
    2^18 of them. The result has `shift` and, for each prefix, the number of its group.
    """
    bits = max(1, int(keys.max()).bit_length())
    shift = keys.dtype.type(max(0, bits - _DIGIT_BITS))
    thinned_keys = keys[:: max(1, len(keys) >> 18)]
    prefix = (thinned_keys >> shift).astype(np.intp)
    count = np.bincount(prefix, minlength=1 << min(bits, _DIGIT_BITS))  # of thinned keys, by prefix
    count_below = np.cumsum(count) - count  # of each prefix: how many thinned keys have a smaller one
    group = np.minimum(count_below * _GROUPS // len(thinned_keys), _GROUPS - 1)
    return _GroupPlan(shift=shift, group_of_prefix=group.astype(np.uint8))  # numbers below 256


def _sort_parts_by_digits(parts: list[np.ndarray], out: np.ndarray) -> None:
    """Sort the keys of one group, uint32 or uint64 in several arrays, ascending into `out`, as long as all of them.

    A group is all keys in one range of values, as a rule one of 250 of about equal size. `out` may be the only part.
    Sorts by 16-bit digits of the distance to the smallest key, the lowest digit first, since numpy sorts integers of 8
    and 16 bits fast; each sort is stable, so it keeps the order of the digits before. A group of more than 2^21 keys is
    left to numpy's sort.
    """
    if not len(out):
        return
    np.concatenate(parts, out=out)
    if len(out) > _LARGEST_DIGIT_GROUP:  # happens when a single value occurs very often
        out.sort()
        return
    smallest = out.min()
    span = int(out.max()) - int(smallest)
    keys = out - smallest
    bits = span.bit_length()
    # the 32 leading bits distinguish nearly all keys of a group
    skipped_bits = max(0, bits - 2 * _DIGIT_BITS)
    for shift in range(skipped_bits, bits, _DIGIT_BITS):  # `astype` keeps the lowest 16 (or 8) bits
        digit = (keys >> keys.dtype.type(shift)).astype(np.uint16 if bits - shift > 8 else np.uint8)
        keys = keys.take(np.argsort(digit, kind="stable"))
    if skipped_bits and np.any(keys[1:] < keys[:-1]):
        # The leading bits ascend already. The few keys that share theirs with a neighbour are sorted by all bits;
        # `places` holds the indices of all of these, whole runs, so that no key moves from one run into another.
        places = find_tied_places(keys >> keys.dtype.type(skipped_bits))
        keys[places] = np.sort(keys[places])
    np.add(keys, smallest, out=out)


# Sorting numbers instead of indices ---------------------------------------------------------------
#
# `np.argsort` is several times slower than `np.sort`, so what must move with a confidence is packed below it in one
# unsigned integer: the error bit of a 0/1 loss, the 32 bits of a float32 loss, or the sample's index. The integer
# decreases as the confidence increases, so an ascending sort puts the most confident first, and running sums are over
# the accepted samples.

CHUNK = 1 << 16  # elements handled at a time: their temporary arrays stay in cache
# Until a process has freed its first large array, glibc asks the system for fresh pages for every temporary array above
# 128 kB, and gives them back: calls on 20,000 to 300,000 samples then take two or three times as long. So one array is
# freed here. It is never written to and so takes no memory.
np.empty(8 * CHUNK, dtype=np.float64)
PARALLEL_FROM = 1 << 20  # with fewer elements, threads cost more than they save
_MAX_THREADS = 8
_MIN_KEYS_FOR_DIGITS = 1 << 22  # a vector this long keeps all threads busy while it is sorted by digits
_MIN_LINE_FOR_DIGITS = 1 << 13  # from here on one thread sorts faster by digits, where numpy is slow

Result = TypeVar("Result")


def thread_count() -> int:
    """Cores this process may use, at most eight (more do not help: memory bandwidth is the limit).

    OMP_NUM_THREADS is respected, because cluster engines set it for each of their workers.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    setting = os.environ.get("OMP_NUM_THREADS", "")
    requested = int(setting) if setting.isdecimal() else 0
    return min(_MAX_THREADS, cores, requested or cores)


def map_in_threads(
    work: Callable[[int, int], Result], item_count: int, items_at_once: int, elements_per_item: int = 1
) -> list[Result]:
    """Call `work(start, stop)` for consecutive pieces of range(item_count); return the results in order.

    A piece has `items_at_once` items, the last one what is left; without items the list is empty. Threads are used from
    about a million elements in all on, so calls of `work` must not disturb each other. If a call raises, so does this
    function.
    """
    if 0 < item_count <= items_at_once:
        return [work(0, item_count)]
    starts = range(0, item_count, items_at_once)
    pieces = [(start, min(start + items_at_once, item_count)) for start in starts]
    if item_count * elements_per_item < PARALLEL_FROM or thread_count() == 1:
        return [work(start, stop) for start, stop in pieces]
    with ThreadPoolExecutor(thread_count()) as pool:
        return list(pool.map(lambda piece: work(*piece), pieces))


def _run_for_each(work: Callable[[int], None], count: int) -> None:
    """Call `work(0)` ... `work(count - 1)` in threads, each of which takes several numbers at a time."""

    def run_range(first: int, stop: int) -> None:
        for number in range(first, stop):
            work(number)

    numbers_at_a_time = -(-count // (4 * thread_count()))
    # so many elements that threads are used however few numbers there are
    map_in_threads(run_range, count, numbers_at_a_time, elements_per_item=PARALLEL_FROM)


def sort_in_place(keys: np.ndarray) -> np.ndarray:
    """Sort unsigned keys, ascending along the last axis, with threads if they are many.

    Returns the sorted keys: `keys` itself, or for long vectors a new array (`keys` may then be overwritten). So always
    use the result, and not `keys`.
    """
    if keys.ndim > 1:
        lines = keys.reshape(-1, keys.shape[-1])  # a view, since keys are contiguous
        map_in_threads(
            lambda start, stop: sort_lines(lines[start:stop]),
            item_count=len(lines),
            items_at_once=max(1, -(-len(lines) // (4 * thread_count()))),  # four pieces per thread
            elements_per_item=lines.shape[-1],
        )
        return keys
    if len(keys) >= _MIN_KEYS_FOR_DIGITS and numpy_sorts_slowly():  # timed once, on this machine
        return sort_by_digits(keys)
    if len(keys) < PARALLEL_FROM or thread_count() == 1:
        keys.sort()
        return keys
    return _sort_by_ranges(keys, thread_count())


def sort_lines(keys: np.ndarray) -> None:
    """Sort each line of a matrix in place."""
    if keys.shape[-1] < _MIN_LINE_FOR_DIGITS or not numpy_sorts_slowly():
        keys.sort(axis=-1)
        return
    for line in keys:
        _sort_parts_by_digits([line], line)


def _sort_by_ranges(keys: np.ndarray, threads: int) -> np.ndarray:
    """Sort a vector ascending into a new array: each thread copies out and sorts the keys of one range of values.

    The ranges hold about equally many of every k-th key. `keys` is not changed. There are at least two threads; there
    may be fewer ranges, if many keys are equal.
    """
    thinned_keys = np.sort(keys[:: max(1, len(keys) // 4096)])
    # cuts at every 1/threads of the thinned keys; equal ones count once
    cuts = np.unique(thinned_keys[[len(thinned_keys) * part // threads for part in range(1, threads)]])
    bounds = [None, *cuts.tolist(), None]  # None: no bound

    def mark_members(low: int | None, high: int | None) -> np.ndarray:
        """Mask of the keys in [low, high)."""
        if low is None:
            return np.asarray(keys < high)
        if high is None:
            return np.asarray(keys >= low)
        return (keys >= low) & (keys < high)

    with ThreadPoolExecutor(threads) as pool:
        masks = list(pool.map(mark_members, bounds[:-1], bounds[1:]))
        starts = np.cumsum([0, *(int(np.count_nonzero(mask)) for mask in masks)])
        result = np.empty_like(keys)

        def copy_and_sort(part: int) -> None:
            """Copy the keys of one range into its part of the result, and sort them there."""
            part_keys = result[starts[part] : starts[part + 1]]
            copied = 0
            for start in range(0, len(keys), 16 * CHUNK):  # in pieces: compress needs an index for every key
                stop = start + 16 * CHUNK
                piece = np.compress(masks[part][start:stop], keys[start:stop])  # faster than a boolean index
                part_keys[copied : copied + len(piece)] = piece
                copied += len(piece)
            part_keys.sort()

        list(pool.map(copy_and_sort, range(len(masks))))
    return result


def descending_bits(
    confidence: np.ndarray, largest_bits: int, has_negative: bool, out: np.ndarray | None = None
) -> np.ndarray:
    """Unsigned integers that decrease as the confidence increases, 0 at the largest confidence.

    `largest_bits` are the `ascending_bits` of the largest confidence; `has_negative` says that some confidences are
    below 0. The integers are written to `out`, of an unsigned type that holds them, or to a new array (None).
    """
    return np.subtract(largest_bits, ascending_bits(confidence, has_negative), out=out)


def ascending_bits(confidence: np.ndarray, has_negative: bool) -> np.ndarray:
    """Unsigned integers that have the same order as the floats; -0 and +0 are equal.

    `has_negative` must be True if any value is below zero or -0, and must be the same for all arrays that are compared.
    A new array with `has_negative`; otherwise the bits of the floats themselves, without a copy. Floats are of 32 or 64
    bits, and so are the integers.
    """
    unsigned: type[np.unsignedinteger] = np.uint32 if confidence.dtype.itemsize == 4 else np.uint64
    if not has_negative:
        return confidence.view(unsigned)
    copied = confidence + 0.0  # turns -0 into +0
    bits: np.ndarray = copied.view(unsigned)
    sign = unsigned(8 * confidence.dtype.itemsize - 1)  # place of the sign bit
    # of a negative float (sign bit 1) flip all bits, which reverses their order; of another one only the sign bit
    bits ^= np.where(bits >> sign, ~unsigned(0), unsigned(1) << sign)
    return bits


def floats_from_descending_bits(
    descending: np.ndarray, largest_bits: int, has_negative: bool, dtype: np.dtype
) -> np.ndarray:
    """Invert `descending_bits`: the confidences, of type `dtype`, that have these bits."""
    unsigned: type[np.unsignedinteger] = np.uint32 if dtype == np.float32 else np.uint64
    bits: np.ndarray = unsigned(largest_bits) - descending.astype(unsigned)
    if has_negative:
        sign = unsigned(8 * np.dtype(dtype).itemsize - 1)  # place of the sign bit
        # the opposite of what `ascending_bits` does: a leading 1 now belongs to a float that is not negative
        bits ^= np.where(bits >> sign, unsigned(1) << sign, ~unsigned(0))
    return bits.view(dtype)


class Packing:
    """How to pack one array of confidences, which has no NaN and no negative infinity, into unsigned keys.

    A key has the descending bits of the confidence in front and a payload in its lowest bits.

    Attributes
    ----------
    confidence : ndarray
        The confidences to pack, of any shape.
    has_negative : bool
        Is any confidence below zero, or -0?
    largest_bits : int
        `ascending_bits` of the largest confidence.
    """

    def __init__(self, confidence: np.ndarray) -> None:
        self.confidence = confidence
        bits = ascending_bits(confidence, has_negative=False)
        self.largest_bits = int(bits.max())
        self.has_negative = self.largest_bits >= 1 << (8 * bits.dtype.itemsize - 1)  # there is a sign bit
        if self.has_negative:
            self.largest_bits = ascending_bits(confidence.max(keepdims=True), has_negative=True).item()

    @cached_property
    def span_bits(self) -> int:
        """Bits needed to distinguish all confidences between the smallest and the largest; needs a pass over them."""
        smallest = self.confidence.min(keepdims=True)
        smallest_bits: int = ascending_bits(smallest, self.has_negative).item()
        return (self.largest_bits - smallest_bits).bit_length()

    def pack(
        self, payload_bits: int, payload: Callable[[int, int], np.ndarray], dropped_bits: int = 0
    ) -> np.ndarray:
        """Return keys, of the shape of the confidences, that sort most confident first and hold a payload.

        The leading bits of a key ascend as the confidence descends; its lowest `payload_bits` bits hold the payload.
        `payload(start, stop)` returns the payloads of these places of the flattened confidences, as unsigned integers
        below 2**payload_bits; it is called in threads. The `dropped_bits` lowest bits of the confidences are left out
        to make room; `self.span_bits - dropped_bits + payload_bits` must be at most 64, with `span_bits` as many as are
        needed to tell all confidences apart. Bits are only dropped where 64 are too few. Keys are uint32 where float32
        confidences and the payload fit into 32 bits, else uint64.
        """
        # float64 confidences seldom fit into 32 bits, and finding out would take a pass over them
        is_float32 = self.confidence.dtype.itemsize == 4
        dtype = np.uint32 if is_float32 and self.fits(payload_bits, key_bits=32) else np.uint64
        flat_confidence = self.confidence.reshape(-1)
        keys = np.empty(flat_confidence.shape, dtype=dtype)

        def pack_piece(piece_start: int, piece_stop: int) -> None:
            """Write the keys of the places piece_start, ..., piece_stop - 1, in chunks that stay in cache."""
            for start in range(piece_start, piece_stop, CHUNK):
                stop = min(start + CHUNK, piece_stop)
                chunk = keys[start:stop]
                # 0 for the largest confidence
                descending_bits(flat_confidence[start:stop], self.largest_bits, self.has_negative, out=chunk)
                if dropped_bits:
                    chunk >>= dropped_bits
                chunk <<= payload_bits
                chunk |= payload(start, stop)

        map_in_threads(pack_piece, item_count=len(flat_confidence), items_at_once=16 * CHUNK)
        return keys.reshape(self.confidence.shape)

    def unpack(self, descending: np.ndarray) -> np.ndarray:
        """The confidences of keys from which the payload has been shifted out."""
        return floats_from_descending_bits(
            descending, self.largest_bits, self.has_negative, self.confidence.dtype
        )

    def fits(self, payload_bits: int, key_bits: int = 64) -> bool:
        """Do the confidences and this many payload bits fit into keys of `key_bits` bits?"""
        # the bits of the largest confidence are as many as the span's or more, and known without another pass
        return (
            self.largest_bits.bit_length() + payload_bits <= key_bits
            or self.span_bits + payload_bits <= key_bits
        )


def argsort_descending(confidence: np.ndarray) -> np.ndarray:
    """Indices of a vector, most confident first, equal values in order of appearance: a fast stable argsort."""
    order, _ = argsort_descending_with_keys(confidence)
    return order


class OrderAndKeys(NamedTuple):
    """Indices of samples, most confident first, and one number per sample in that order.

    The numbers are equal exactly for equal confidences, and serve only to compare neighbours: which numbers they are
    depends on the data (packed keys, ascending, or the confidences, descending).
    """

    order: np.ndarray
    keys: np.ndarray


def argsort_descending_with_keys(confidence: np.ndarray) -> OrderAndKeys:
    """Sort a vector of confidences, most confident first, equal ones in order of appearance.

    The confidence and the index of a sample are packed into one integer, the key, which is faster to sort than indices.
    Keys ascend as confidences descend. Confidences must not be NaN or -infinity, and there are at most 2^32 (numpy
    raises OverflowError for more).

    The second item of the result has one number per sample, in the sorted order. Compare neighbours with `==` to find
    runs of equal confidences, and read nothing else from it: the numbers are integers that ascend where confidence and
    index fit into 64 bits, and the confidences themselves, descending, where they do not.
    """
    packing = Packing(confidence)
    n = len(confidence)
    index_bits = max(1, (n - 1).bit_length())
    # `span_bits` are needed to tell all confidences apart; how many of their low bits do not fit
    dropped_bits = max(0, packing.span_bits + index_bits - 64)

    def index(start: int, stop: int) -> np.ndarray:
        """Indices of these samples, which go into the low bits of the keys."""
        return np.arange(start, stop, dtype=np.uint32)

    sorted_keys = sort_in_place(packing.pack(index_bits, index, dropped_bits))
    order = np.bitwise_and(sorted_keys, sorted_keys.dtype.type((1 << index_bits) - 1))  # the indices
    order = order.view(np.int64) if order.dtype == np.uint64 else order.astype(np.int64)
    if not dropped_bits:
        return OrderAndKeys(order, sorted_keys >> sorted_keys.dtype.type(index_bits))
    # Not all bits of 64-bit confidences fit, but the bits that do are in order. Sort the few samples that agree in
    # these again, by all bits; `places` holds the indices of all of them, whole runs.
    sorted_confidence = confidence[order]
    if np.any(sorted_confidence[1:] > sorted_confidence[:-1]):
        bits = descending_bits(sorted_confidence, packing.largest_bits, packing.has_negative)
        places = find_tied_places(bits >> np.uint64(dropped_bits))
        order[places] = order[places][np.lexsort((order[places], bits[places]))]
        sorted_confidence[places] = confidence[order[places]]
    return OrderAndKeys(order, sorted_confidence)


# Losses packed below a confidence's key: the error bit of a 0/1 loss, or the 32 bits of a float32 loss


def is_zero_one(loss: np.ndarray) -> bool:
    """Are all losses 0 or 1?"""
    if loss.dtype.kind == "b":
        return True
    flat = loss.reshape(-1)
    pieces = (flat[start : start + CHUNK] for start in range(0, len(flat), CHUNK))
    return all(bool(np.all(piece * piece == piece)) for piece in pieces)


def error_size(loss: np.ndarray) -> float | None:
    """The size c of an error if every loss is 0 or c > 0 and both occur; 1.0 for 0/1 losses; None for other losses.

    Such losses are c times 0/1 losses. Losses that are all equal are not enough: they need not be errors. Rounding by a
    relative 1e-12 is allowed for, as in a cost of 0.3 computed as 0.1 * 3.
    """
    if is_zero_one(loss):
        return 1.0
    largest = float(loss.max())
    if not largest > 0 or loss.all():  # no error, or no loss of 0
        return None
    rounding = SUM_ROUNDING * largest
    for start in range(0, len(loss), CHUNK):
        piece = loss[start : start + CHUNK]
        if not np.all((piece == 0) | (np.abs(piece - largest) <= rounding)):
            return None
    return largest


class PackedLoss(NamedTuple):
    """Confidences and losses in one array of unsigned keys, not sorted yet; an ascending sort ranks them.

    Attributes
    ----------
    keys : ndarray of uint32 or uint64
        Of the shape of the losses.
    payload_bits : int
        How many of the lowest bits hold the loss: 1 for a 0/1 loss, 32 for a float32 loss.
    unpack_loss : callable
        Reads the losses out of keys.
    """

    keys: np.ndarray
    payload_bits: int
    unpack_loss: Callable[[np.ndarray], np.ndarray]


def pack_loss(loss: np.ndarray, confidence: np.ndarray) -> PackedLoss | None:
    """Pack each loss below its confidence in one unsigned key; None if that is not possible.

    Keys ascend as confidences descend; the lowest bits hold the loss. Possible for 0/1 losses and for float32 losses,
    if the distinct confidences leave 1 or 32 of 64 bits free. `loss` and `confidence` have the same shape. Sorting the
    keys ascending ranks samples most confident first, equal confidences by the bits of the loss.
    """
    packing = Packing(confidence)  # `fits(k)`: do the confidences leave k of 64 bits free?
    if packing.fits(1) and is_zero_one(loss):  # one bit beside those of the confidences
        flat = loss.reshape(-1)
        bits = flat.view(np.uint8) if flat.dtype.kind == "b" else flat
        keys = packing.pack(1, lambda start, stop: bits[start:stop].astype(np.uint8, copy=False))
        return PackedLoss(keys=keys, payload_bits=1, unpack_loss=_unpack_bit)
    if packing.fits(32) and loss.dtype == np.float32:
        float_bits = loss.reshape(-1).view(np.uint32)
        keys = packing.pack(32, lambda start, stop: float_bits[start:stop])
        return PackedLoss(keys=keys, payload_bits=32, unpack_loss=unpack_float32)
    return None


def _unpack_bit(keys: np.ndarray) -> np.ndarray:
    """The lowest bit of each key, as bytes: whole numbers add up exactly, and small ones stay in cache."""
    bits: np.ndarray = keys.astype(np.uint8)
    bits &= 1
    return bits


def unpack_float32(keys: np.ndarray) -> np.ndarray:
    """The float32 in the lower half of each key, as float64."""
    low: np.ndarray = np.asarray(keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return low.view(np.float32).astype(np.float64)


# Samples in order of confidence, with the cuts that a threshold can make --------------------------
#
# A cut at rank k takes the samples *strictly above* the (k+1)-th largest confidence, `tau`: whole runs of equal
# confidences, at most k samples. Given `tau`, those samples are independent draws from the population above `tau`;
# every guarantee of `abstain.thresholds` depends on this.


class Cuts(NamedTuple):
    """For each cut of a ranking: how many samples it accepts, and the smallest threshold that accepts exactly these."""

    accepted_count: np.ndarray
    threshold: np.ndarray


class RankedSamples(NamedTuple):
    """Samples in order, most confident first.

    Attributes
    ----------
    sorted_keys : ndarray, shape (n,)
        One number per sample, ascending, equal exactly for equal confidences.
    decode_keys : callable
        Turns keys into confidences.
    loss : ndarray, shape (n,)
        Loss of each sample, in this order.
    weight : ndarray, shape (n,), or None
        Weight of each sample, in this order; None if all are 1.
    accepted_loss, accepted_mass : ndarray, shape (n + 1,)
        Sum of weight times loss, and of weights, of the first k samples, for k = 0 ... n.
    zero_one : bool
        Are all losses 0 or 1?
    """

    sorted_keys: np.ndarray
    decode_keys: Callable[[np.ndarray], np.ndarray]
    loss: np.ndarray
    weight: np.ndarray | None
    accepted_loss: np.ndarray
    accepted_mass: np.ndarray
    zero_one: bool

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.sorted_keys)

    def cut(self, ranks: np.ndarray) -> Cuts:
        """Cut the ranking at each rank k: accept the samples strictly above `tau`, the (k+1)-th largest confidence.

        These are at most k samples: whole runs of equal confidences. The threshold is the float after `tau`, the
        smallest one that accepts exactly these; a sample is accepted if its confidence is at least that. At rank n, the
        number of samples, or above, every sample is accepted, whatever its confidence: the threshold is -infinity.
        """
        first_rejected = np.minimum(ranks, self.n - 1)
        tau_keys = self.sorted_keys[first_rejected]  # one number per sample, ascending as confidences descend
        accepts_all = ranks >= self.n
        # the smaller keys belong to the samples strictly above tau
        count = np.where(accepts_all, self.n, np.searchsorted(self.sorted_keys, tau_keys, side="left"))
        # back to confidences, in their own type, whose next float is the threshold
        tau = self.decode_keys(tau_keys)
        with np.errstate(over="ignore"):  # above the largest float comes infinity, which accepts nothing
            just_above_tau = np.nextafter(tau, tau.dtype.type(np.inf)).astype(np.float64)
        return Cuts(accepted_count=count, threshold=np.where(accepts_all, -np.inf, just_above_tau))

    def smallest_confidence(self, count: np.ndarray) -> np.ndarray:
        """The smallest confidence among the first `count` samples, for each of several counts."""
        return self.decode_keys(self.sorted_keys[count - 1]).astype(np.float64)

    def row_stops(self) -> np.ndarray:
        """For each distinct confidence, descending: how many samples are at least as confident."""
        return np.flatnonzero(mark_run_ends(self.sorted_keys)) + 1


def rank_samples(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> RankedSamples:
    """Sort samples, given in any order, most confident first, and add up their losses and weights from the top.

    Unweighted 0/1 or float32 losses are packed with the confidence into one integer key, which ascends as confidences
    descend, and sorted with it, which is faster than sorting indices. Sums of 0/1 losses are then exact integers.
    `weight` None means 1 for all.

    The sums of the result have one entry more than there are samples: entry k is over the k most confident ones.
    """
    # None if confidence and loss do not fit into 64 bits
    packed = pack_loss(loss, confidence) if weight is None else None
    decode_keys: Callable[[np.ndarray], np.ndarray]
    sorted_weight = None
    if packed is not None:
        keys_with_loss = sort_in_place(packed.keys)
        sorted_keys = keys_with_loss >> keys_with_loss.dtype.type(packed.payload_bits)
        sorted_loss = packed.unpack_loss(keys_with_loss)
        zero_one = packed.payload_bits == 1  # one bit is enough for a 0/1 loss
        decode_keys = Packing(confidence).unpack  # the packing with which `pack_loss` made the keys
    else:
        order = argsort_descending(confidence)
        sorted_keys = -confidence[order]  # ascending, as packed keys are
        sorted_loss = loss[order].astype(np.float64)
        zero_one = is_zero_one(loss)
        decode_keys = np.negative  # from keys back to confidences
        if weight is not None:
            sorted_weight = weight[order].astype(np.float64)
    n = len(sorted_keys)
    sum_dtype = np.int64 if sorted_loss.dtype == np.uint8 else np.float64
    accepted_loss = np.zeros(n + 1, dtype=sum_dtype)
    if sorted_weight is None:
        np.cumsum(sorted_loss, out=accepted_loss[1:], dtype=sum_dtype)
        accepted_mass = np.arange(n + 1)
    else:
        np.cumsum(sorted_loss * sorted_weight, out=accepted_loss[1:], dtype=sum_dtype)
        accepted_mass = np.append(0.0, np.cumsum(sorted_weight))
    return RankedSamples(
        sorted_keys=sorted_keys,
        decode_keys=decode_keys,
        loss=sorted_loss,
        weight=sorted_weight,
        accepted_loss=accepted_loss,
        accepted_mass=accepted_mass,
        zero_one=zero_one,
    )
