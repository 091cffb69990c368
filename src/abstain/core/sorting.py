r"""Sorting confidences: packed keys, the losses that ride below them, and the cuts a threshold can make.

A confidence becomes an unsigned integer that falls as it rises; a 0/1 loss, a float32 loss or an index fits below it,
so that one sort of plain integers brings everything along.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np

# Sorting unsigned keys digit by digit, for processors on which numpy's own sort is slow -----------
#
# numpy sorts 8- and 16-bit integers by counting, which is fast everywhere as long as the data stays in cache. So keys
# are first dealt into some two hundred groups of about equal size, a cacheful of them at a time; then each group is
# put in order by its 16-bit digits, the last one first.

_CHUNK = 1 << 17  # keys dealt at a time: they and their order stay in cache
_GROUPS = 250  # numbered in a byte
_DIGIT = 16
_MOST = 1 << 21  # keys in a group that are still put in order by digits
_SLOW = 11.0  # nanoseconds per key from which on digits beat numpy's sort


@cache
def numpy_sorts_slowly() -> bool:
    """Timed once in a process, in a millisecond or two; the order that comes out is the same either way."""
    keys = np.arange(1 << 16, dtype=np.uint32) * np.uint32(2654435761)
    best = np.inf
    for _ in range(3):
        own = keys.copy()
        began = time.perf_counter_ns()
        own.sort()
        best = min(best, time.perf_counter_ns() - began)
    return bool(best / len(keys) > _SLOW)


def sort_by_digits(keys: np.ndarray) -> np.ndarray:
    """Sorted keys in a new array; `keys` is used as scratch space."""
    shift, table = _dealing(keys)
    chunks = [keys[a : a + _CHUNK] for a in range(0, len(keys), _CHUNK)]
    ends, numbers = np.zeros((len(chunks), _GROUPS + 1), dtype=np.int64), np.arange(_GROUPS, dtype=np.uint8)

    def deal(number: int) -> None:
        own = chunks[number]
        group = table.take(own >> shift)
        order = np.argsort(group, kind="stable")
        ends[number, 1:] = np.searchsorted(group, numbers, "right", sorter=order)
        own[...] = own.take(order)

    _each(deal, len(chunks))
    result = np.empty_like(keys)
    starts = np.concatenate([[0], np.cumsum(np.diff(ends, axis=1).sum(axis=0))])

    def finish(group: int) -> None:
        parts = [c[a:b] for c, a, b in zip(chunks, ends[:, group].tolist(), ends[:, group + 1].tolist())]
        _order(parts, result[starts[group] : starts[group + 1]])

    _each(finish, _GROUPS)
    return result


def _dealing(keys: np.ndarray) -> tuple[np.unsignedinteger, np.ndarray]:
    """A shift that leaves the leading 16 bits, and the group of each of their values: about as many keys in each."""
    bits = max(1, int(keys.max()).bit_length())
    shift = keys.dtype.type(max(0, bits - _DIGIT))
    some = keys[:: max(1, len(keys) >> 18)]
    count = np.bincount((some >> shift).astype(np.intp), minlength=1 << min(bits, _DIGIT))
    before = np.cumsum(count) - count
    return shift, np.minimum(before * _GROUPS // len(some), _GROUPS - 1).astype(np.uint8)


def _order(parts: list[np.ndarray], out: np.ndarray) -> None:
    """Put the keys of one group, which come in parts, in order."""
    if not len(out):
        return
    np.concatenate(parts, out=out)
    least = out.min()
    span = int(out.max()) - int(least)
    if len(out) > _MOST:  # one value that outweighs a group, and its neighbours
        out.sort()
        return
    keys = out - least
    bits = span.bit_length()
    # 32 leading bits tell nearly all keys of a group apart
    skipped = max(0, bits - 2 * _DIGIT)
    for shift in range(skipped, bits, _DIGIT):
        digit = (keys >> keys.dtype.type(shift)).astype(np.uint16 if bits - shift > 8 else np.uint8)
        keys = keys.take(np.argsort(digit, kind="stable"))
    if skipped and np.any(keys[1:] < keys[:-1]):
        _put_right(keys, keys.dtype.type(skipped))
    np.add(keys, least, out=out)


def _put_right(keys: np.ndarray, below: np.unsignedinteger) -> None:
    """Order keys that stand in order but for their lowest bits."""
    places = _in_runs(keys >> below)
    keys[places] = np.sort(keys[places])


def _in_runs(ranked: np.ndarray) -> np.ndarray:
    """Places of the values that have an equal beside them."""
    same = ranked[1:] == ranked[:-1]
    return np.flatnonzero(np.append(False, same) | np.append(same, False))


# Sorting numbers instead of indices ---------------------------------------------------------------
#
# `np.argsort` is several times slower than `np.sort`, so what must travel with a confidence is packed below it in one
# unsigned integer: the error bit of a 0/1 loss, the 32 bits of a float32 loss, or the sample's index. The integer
# *falls* as confidence rises, so an ascending sort puts the most confident first and sums run from the top.

CHUNK = 1 << 15  # elements handled at a time: temporaries stay in cache
PARALLEL_FROM = 1 << 20  # below this many elements threads cost more than they save
_MAX_THREADS = 8
_DIGITS_FROM = 1 << 22  # keys from which on threads share the many small steps of sorting by digits well
_LONG_LINE = 1 << 13  # keys from which on one thread sorts faster by digits, where numpy is slow

Result = TypeVar("Result")


def thread_count() -> int:
    """Cores this process may use, at most eight (memory bandwidth is spent by then).

    OMP_NUM_THREADS is obeyed, as cluster engines set it for each of their workers.
    """
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("OMP_NUM_THREADS", "")
    return min(_MAX_THREADS, own, int(told) if told.isdecimal() and int(told) else own)


def map_in_threads(work: Callable[[int, int], Result], n: int, step: int, width: int = 1) -> list[Result]:
    """`work(start, stop)` over pieces of `step`, in order; in threads when there is enough of it (n * width)."""
    pieces = [(start, min(start + step, n)) for start in range(0, n, step)]
    if n * width < PARALLEL_FROM or thread_count() == 1 or len(pieces) == 1:
        return [work(*piece) for piece in pieces]
    with ThreadPoolExecutor(thread_count()) as pool:
        return list(pool.map(lambda piece: work(*piece), pieces))


def sort_in_place(keys: np.ndarray) -> np.ndarray:
    """Sort unsigned keys along the last axis; much work is split among threads, a vector by value."""
    parts = thread_count()
    if keys.ndim > 1:
        rows = keys.reshape(-1, keys.shape[-1])
        step = -(-len(rows) // (4 * parts))
        map_in_threads(lambda a, b: sort_lines(rows[a:b]), len(rows), max(1, step), rows.shape[-1])
        return keys
    if len(keys) >= _DIGITS_FROM and numpy_sorts_slowly():
        return sort_by_digits(keys)
    if len(keys) < PARALLEL_FROM or parts == 1:
        keys.sort()
        return keys
    return _sort_by_ranges(keys, parts)


def sort_lines(keys: np.ndarray) -> None:
    """Sort each line in place."""
    if keys.shape[-1] < _LONG_LINE or not numpy_sorts_slowly():
        keys.sort(axis=-1)
        return
    for line in keys:
        _order([line], line)


def _each(work: Callable[[int], None], count: int) -> None:
    """`work(0)` to `work(count - 1)`, in threads, a few stretches for each."""

    def some(a: int, b: int) -> None:
        for number in range(a, b):
            work(number)

    map_in_threads(some, count, -(-count // (4 * thread_count())), PARALLEL_FROM)


def _sort_by_ranges(keys: np.ndarray, parts: int) -> np.ndarray:
    """Each thread copies out and sorts the keys of its own range, into its own stretch of the result."""
    sample = np.sort(keys[:: max(1, len(keys) // 4096)])
    cuts = np.unique(sample[[len(sample) * p // parts for p in range(1, parts)]])
    bounds = [None, *cuts.tolist(), None]

    def members(low: int | None, high: int | None) -> np.ndarray:
        if low is None:
            return np.asarray(keys < high)
        return np.asarray(keys >= low) if high is None else (keys >= low) & (keys < high)

    with ThreadPoolExecutor(parts) as pool:
        masks = list(pool.map(members, bounds[:-1], bounds[1:]))
        starts = np.cumsum([0, *(int(np.count_nonzero(mask)) for mask in masks)])
        result = np.empty_like(keys)

        def fill(part: int) -> None:
            mine, at = result[starts[part] : starts[part + 1]], 0
            for start in range(0, len(keys), 16 * CHUNK):  # at once would need an index for every key
                stop = start + 16 * CHUNK
                piece = np.compress(masks[part][start:stop], keys[start:stop])  # faster than a boolean index
                mine[at : at + len(piece)] = piece
                at += len(piece)
            mine.sort()

        list(pool.map(fill, range(len(masks))))
    return result


def descending_bits(confidence: np.ndarray, top: int, negative: bool) -> np.ndarray:
    """Unsigned integers, 0 at the largest confidence, that fall as confidence rises. `top` is the largest's bits."""
    bits = ascending_bits(confidence, negative)
    return np.subtract(bits.dtype.type(top), bits, out=bits)


def ascending_bits(confidence: np.ndarray, negative: bool) -> np.ndarray:
    """Unsigned integers in the order of the floats; -0 and +0 alike. `negative`: some value is below zero."""
    unsigned: type[np.unsignedinteger] = np.uint32 if confidence.dtype == np.float32 else np.uint64
    fresh = confidence + confidence.dtype.type(0)  # turns -0 into +0
    bits: np.ndarray = fresh.view(unsigned)
    if negative:
        sign = unsigned(8 * confidence.dtype.itemsize - 1)
        bits ^= np.where(bits >> sign, ~unsigned(0), unsigned(1) << sign)
    return bits


def floats_from_descending_bits(falling: np.ndarray, top: int, negative: bool, dtype: np.dtype) -> np.ndarray:
    """The confidences whose falling bits these are: `descending_bits` undone."""
    unsigned: type[np.unsignedinteger] = np.uint32 if dtype == np.float32 else np.uint64
    bits: np.ndarray = unsigned(top) - falling.astype(unsigned)
    if negative:
        sign = unsigned(8 * np.dtype(dtype).itemsize - 1)
        bits ^= np.where(bits >> sign, unsigned(1) << sign, ~unsigned(0))
    return bits.view(dtype)


class Packing:
    """How many bits below the key carry what, for one array of confidences (no NaN, no negative infinity)."""

    def __init__(self, confidence: np.ndarray) -> None:
        self.confidence = confidence
        low, high = confidence.min(), confidence.max()
        self.negative = bool(low < 0)
        ends = ascending_bits(np.asarray([low, high], dtype=confidence.dtype), self.negative)
        self.top = int(ends[1])
        self.span_bits = (self.top - int(ends[0])).bit_length()

    def pack(self, below: int, payload: Callable[[int, int], np.ndarray], spare: int = 0) -> np.ndarray:
        """Keys with `below` low bits taken by `payload(start, stop)`; they must fit, less the `spare` last bits."""
        dtype = np.uint32 if self.span_bits + below <= 32 else np.uint64
        flat = self.confidence.reshape(-1)
        keys = np.empty(flat.shape, dtype=dtype)

        def some(a: int, b: int) -> None:
            for start in range(a, b, CHUNK):
                stop = min(start + CHUNK, b)
                piece = keys[start:stop]
                piece[...] = descending_bits(flat[start:stop], self.top, self.negative)
                if spare:
                    piece >>= piece.dtype.type(spare)
                piece <<= piece.dtype.type(below)
                piece |= payload(start, stop)

        map_in_threads(some, len(flat), 16 * CHUNK)
        return keys.reshape(self.confidence.shape)

    def unpack(self, falling: np.ndarray) -> np.ndarray:
        """The confidences of keys without their payload."""
        return floats_from_descending_bits(falling, self.top, self.negative, self.confidence.dtype)

    def fits(self, below: int) -> bool:
        """Is there room for `below` more bits in 64?"""
        return self.span_bits + below <= 64


def argsort_descending(confidence: np.ndarray) -> np.ndarray:
    """Indices along a vector, most confident first, equals in order of appearance: a fast stable argsort."""
    return argsort_descending_with_keys(confidence)[0]


def argsort_descending_with_keys(confidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`argsort_descending`, and one number per sample in that order, equal for equal confidences."""
    packing = Packing(confidence)
    n = len(confidence)
    index_bits = max(1, (n - 1).bit_length())
    spare = max(0, packing.span_bits + index_bits - 64)
    ranked = sort_in_place(packing.pack(index_bits, lambda a, b: np.arange(a, b, dtype=np.uint32), spare))
    order = np.bitwise_and(ranked, ranked.dtype.type((1 << index_bits) - 1))
    order = order.view(np.int64) if order.dtype == np.uint64 else order.astype(np.int64)
    if not spare:
        return order, ranked >> ranked.dtype.type(index_bits)
    # 64-bit confidences leave no room for all their bits: put right the few that agree in the leading ones
    full = confidence[order]
    if np.any(full[1:] > full[:-1]):
        bits = descending_bits(full, packing.top, packing.negative)
        places = _in_runs(bits >> np.uint64(spare))
        order[places] = order[places][np.lexsort((order[places], bits[places]))]
        full[places] = confidence[order[places]]
    return order, full


def run_ends(ranked: np.ndarray, below: int, start: int, stop: int) -> np.ndarray:
    """Mask over [start, stop) of sorted values: does a run of equals (but for the `below` low bits) end here?"""
    n = len(ranked)
    heads = ranked[start : min(stop + 1, n)]
    if below:
        heads = heads >> ranked.dtype.type(below)
    ends = np.empty(stop - start, dtype=bool)
    np.not_equal(heads[1:], heads[:-1], out=ends[: len(heads) - 1])
    if stop == n:
        ends[-1] = True
    return ends


# What travels below a confidence's key: the error bit of a 0/1 loss, or the 32 bits of a float32 one

Unpack = Callable[[np.ndarray], np.ndarray]


def is_zero_one(loss: np.ndarray) -> bool:
    """Are all losses 0 or 1?"""
    if loss.dtype == bool:
        return True
    flat = loss.reshape(-1)
    pieces = (flat[a : a + CHUNK] for a in range(0, len(flat), CHUNK))
    return all(bool(np.all(x * x == x)) for x in pieces)


def error_size(loss: np.ndarray) -> float | None:
    """The size c of an error where every loss is 0 or c > 0, and both occur; 1 for 0/1 losses, None for others.

    Such losses are c times 0/1 losses. (Losses that are all alike need not be errors.) Equality allows for rounding,
    as in a cost of 0.3 computed as 0.1 * 3.
    """
    if is_zero_one(loss):
        return 1.0
    largest = float(loss.max())
    if not largest > 0 or loss.all():
        return None
    slack = 1e-12 * largest
    for a in range(0, len(loss), CHUNK):
        part = loss[a : a + CHUNK]
        if not np.all((part == 0) | (np.abs(part - largest) <= slack)):
            return None
    return largest


def pack_loss(loss: np.ndarray, confidence: np.ndarray) -> tuple[np.ndarray, int, Unpack] | None:
    """Keys to sort, how many bits below are payload, and how to read a loss from them; None if nothing fits."""
    packing = Packing(confidence)
    if packing.fits(1) and is_zero_one(loss):
        flat = loss.reshape(-1)
        bits = flat.view(np.uint8) if flat.dtype == bool else flat
        keys = packing.pack(1, lambda a, b: bits[a:b].astype(np.uint8, copy=False))
        return keys, 1, _low_bit
    if packing.fits(32) and loss.dtype == np.float32:
        flat32 = loss.reshape(-1).view(np.uint32)
        keys = packing.pack(32, lambda a, b: flat32[a:b])
        return keys, 32, unpack_float32
    return None


def _low_bit(keys: np.ndarray) -> np.ndarray:
    """Whole numbers, so that sums stay exact, in bytes, so that they stay in cache."""
    bits = np.empty(keys.shape, dtype=np.uint8)
    return np.bitwise_and(keys, keys.dtype.type(1), out=bits, casting="unsafe")


def unpack_float32(keys: np.ndarray) -> np.ndarray:
    """The float32 in the low half of each key."""
    low: np.ndarray = np.asarray(keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return low.view(np.float32).astype(np.float64)


# Samples in order of confidence, with the cuts a threshold can make -------------------------------
#
# A cut at rank k takes the samples *strictly above* the (k+1)-th largest confidence, `tau`: whole blocks, at most k
# samples. Given `tau`, those samples are independent draws from the population above `tau`, which is what every
# guarantee of `abstain.thresholds` rests on.


class RankedSamples(NamedTuple):
    """Most confident first. `loss` and `weight` are in that order; `accepted_*` start with 0."""

    sorted_keys: np.ndarray  # one sorted number per sample, equal exactly for equal confidences, rising
    decode_keys: Callable[[np.ndarray], np.ndarray]  # from keys to confidences
    loss: np.ndarray
    weight: np.ndarray | None
    accepted_loss: np.ndarray
    accepted_mass: np.ndarray
    zero_one: bool

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.sorted_keys)

    def cut(self, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """At each rank: how many samples lie above `tau`, and the smallest float that accepts exactly those.

        At rank n nothing is left out: every sample is accepted, whatever its confidence (-infinity).
        """
        inside = np.minimum(ranks, self.n - 1)
        left_out = self.sorted_keys[inside]
        count = np.where(ranks >= self.n, self.n, np.searchsorted(self.sorted_keys, left_out, side="left"))
        tau = self.decode_keys(left_out)
        with np.errstate(over="ignore"):  # above the largest float there is infinity, which accepts nothing
            above = np.nextafter(tau, tau.dtype.type(np.inf)).astype(np.float64)
        return count, np.where(ranks >= self.n, -np.inf, above)

    def smallest_confidence(self, count: np.ndarray) -> np.ndarray:
        """The smallest confidence among the first `count` samples."""
        return self.decode_keys(self.sorted_keys[count - 1]).astype(np.float64)

    def row_stops(self) -> np.ndarray:
        """How many samples each distinct confidence and those above it hold, rising."""
        return np.flatnonzero(np.append(self.sorted_keys[1:] != self.sorted_keys[:-1], True)) + 1


def rank_samples(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> RankedSamples:
    """Sort once. With a 0/1 loss (or a float32 one) the loss travels in the low bits of the key."""
    keys = pack_loss(loss, confidence) if weight is None else None
    decode: Callable[[np.ndarray], np.ndarray]
    mass = None
    if keys is not None:
        unsorted, below, unpack = keys
        ranked = sort_in_place(unsorted)
        heads, values, zero_one = ranked >> ranked.dtype.type(below), unpack(ranked), below == 1
        decode = Packing(confidence).unpack
    else:
        order = argsort_descending(confidence)
        values, zero_one = loss[order].astype(np.float64), is_zero_one(loss)
        mass = None if weight is None else weight[order].astype(np.float64)
        heads, decode = -confidence[order], np.negative  # -x rises where x falls, exactly
    kind = np.int64 if values.dtype == np.uint8 else np.float64
    accepted_loss = np.zeros(len(heads) + 1, dtype=kind)
    np.cumsum(values if mass is None else values * mass, out=accepted_loss[1:], dtype=kind)
    accepted_mass = np.arange(len(heads) + 1) if mass is None else np.append(0.0, np.cumsum(mass))
    return RankedSamples(heads, decode, values, mass, accepted_loss, accepted_mass, zero_one)
