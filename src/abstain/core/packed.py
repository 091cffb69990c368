"""Sorting numbers instead of indices: the fast road for numpy.

`np.argsort` is several times slower than `np.sort`, so what must travel with a confidence is packed below it in one
unsigned integer: the error bit of a 0/1 loss, the 32 bits of a float32 loss, or the sample's index. The integer
*falls* as confidence rises, so an ascending sort puts the most confident first and sums run from the top.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np

from abstain.core import digits

CHUNK = 1 << 15  # elements handled at a time: temporaries stay in cache
PARALLEL_FROM = 1 << 20  # below this many elements threads cost more than they save
_MAX_THREADS = 8
_DIGITS_FROM = 1 << 22  # keys from which on threads share the many small steps of sorting by digits well

Result = TypeVar("Result")


def threads() -> int:
    """Cores this process may use, at most eight (memory bandwidth is spent by then).

    OMP_NUM_THREADS is obeyed, as cluster engines set it for each of their workers.
    """
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("OMP_NUM_THREADS", "")
    return min(_MAX_THREADS, own, int(told) if told.isdecimal() and int(told) else own)


def in_threads(work: Callable[[int, int], Result], n: int, step: int, width: int = 1) -> list[Result]:
    """`work(start, stop)` over pieces of `step`, in order; in threads when there is enough of it (n * width)."""
    pieces = [(start, min(start + step, n)) for start in range(0, n, step)]
    if n * width < PARALLEL_FROM or threads() == 1 or len(pieces) == 1:
        return [work(*piece) for piece in pieces]
    with ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(lambda piece: work(*piece), pieces))


def sort_in_place(keys: np.ndarray) -> np.ndarray:
    """Sort unsigned keys along the last axis; much work is split among threads, a vector by value."""
    parts = threads()
    if keys.ndim > 1:
        rows = keys.reshape(-1, keys.shape[-1])
        step = -(-len(rows) // (4 * parts))
        in_threads(lambda a, b: rows[a:b].sort(axis=-1), len(rows), max(1, step), rows.shape[-1])
        return keys
    if len(keys) >= _DIGITS_FROM and digits.numpy_sorts_slowly():
        return digits.sort_by_digits(keys, _each)
    if len(keys) < PARALLEL_FROM or parts == 1:
        keys.sort()
        return keys
    return _sort_by_ranges(keys, parts)


def _each(work: Callable[[int], None], count: int) -> None:
    """`work(0)` to `work(count - 1)`, in threads, a few stretches for each."""

    def some(a: int, b: int) -> None:
        for number in range(a, b):
            work(number)

    in_threads(some, count, -(-count // (4 * threads())), PARALLEL_FROM)


def _sort_by_ranges(keys: np.ndarray, parts: int) -> np.ndarray:
    """Each thread copies out and sorts the keys of its own range, into its own stretch of the result."""
    sample = np.sort(keys[:: max(1, len(keys) // 4096)])
    cuts = np.unique(sample[[len(sample) * p // parts for p in range(1, parts)]])
    bounds = [None, *cuts.tolist(), None]

    def members(low: int | None, high: int | None) -> np.ndarray:
        if low is None and high is None:
            return np.ones(len(keys), dtype=bool)
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


def falling_bits(confidence: np.ndarray, top: int, negative: bool) -> np.ndarray:
    """Unsigned integers, 0 at the largest confidence, that fall as confidence rises. `top` is the largest's bits."""
    bits = ordered_bits(confidence, negative)
    return np.subtract(bits.dtype.type(top), bits, out=bits)


def ordered_bits(confidence: np.ndarray, negative: bool) -> np.ndarray:
    """Unsigned integers in the order of the floats; -0 and +0 alike. `negative`: some value is below zero."""
    unsigned: type[np.unsignedinteger] = np.uint32 if confidence.dtype == np.float32 else np.uint64
    bits: np.ndarray = (confidence + confidence.dtype.type(0)).view(
        unsigned
    )  # a fresh array; turns -0 into +0
    if negative:
        sign = unsigned(8 * confidence.dtype.itemsize - 1)
        bits ^= np.where(bits >> sign, ~unsigned(0), unsigned(1) << sign)
    return bits


def floats_of(falling: np.ndarray, top: int, negative: bool, dtype: np.dtype) -> np.ndarray:
    """The confidences whose falling bits these are: `falling_bits` undone."""
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
        ends = ordered_bits(np.asarray([low, high], dtype=confidence.dtype), self.negative)
        self.top = int(ends[1])
        self.span_bits = (self.top - int(ends[0])).bit_length()

    def pack(self, below: int, payload: Callable[[int, int], np.ndarray]) -> np.ndarray:
        """Keys with `below` low bits taken by `payload(start, stop)`; they must fit, see `fits`."""
        dtype = np.uint32 if self.span_bits + below <= 32 else np.uint64
        flat = self.confidence.reshape(-1)
        keys = np.empty(flat.shape, dtype=dtype)
        in_threads(partial(self._pack_piece, flat, keys, below, payload), len(flat), 16 * CHUNK)
        return keys.reshape(self.confidence.shape)

    def _pack_piece(
        self,
        flat: np.ndarray,
        keys: np.ndarray,
        below: int,
        payload: Callable[[int, int], np.ndarray],
        a: int,
        b: int,
    ) -> None:
        for start in range(a, b, CHUNK):
            stop = min(start + CHUNK, b)
            piece = keys[start:stop]
            piece[...] = falling_bits(flat[start:stop], self.top, self.negative)
            piece <<= piece.dtype.type(below)
            piece |= payload(start, stop)

    def unpack(self, falling: np.ndarray) -> np.ndarray:
        """The confidences of keys without their payload."""
        return floats_of(falling, self.top, self.negative, self.confidence.dtype)

    def fits(self, below: int) -> bool:
        """Is there room for `below` more bits in 64?"""
        return self.span_bits + below <= 64


def order_of(confidence: np.ndarray) -> np.ndarray:
    """Indices along a vector, most confident first, equals in order of appearance: a fast stable argsort."""
    packing = Packing(confidence)
    n = len(confidence)
    index_bits = max(1, (n - 1).bit_length())
    spare = max(0, packing.span_bits + index_bits - 64)
    if spare == 0:
        keys = packing.pack(index_bits, lambda a, b: np.arange(a, b, dtype=np.uint32))
        return unpack_low(sort_in_place(keys), index_bits)
    return _order_coarse_then_fine(packing, index_bits, spare)


def unpack_low(keys: np.ndarray, below: int) -> np.ndarray:
    """The payload as indices."""
    return np.asarray(keys & keys.dtype.type((1 << below) - 1)).astype(np.int64)


def _order_coarse_then_fine(packing: Packing, index_bits: int, spare: int) -> np.ndarray:
    """64-bit confidences leave no room: sort by their leading bits, then put right the few that agree in those."""
    falling = falling_bits(packing.confidence, packing.top, packing.negative)
    coarse = (falling >> np.uint64(spare)) << np.uint64(index_bits)
    coarse |= np.arange(len(falling), dtype=np.uint64)
    order = unpack_low(sort_in_place(coarse), index_bits)
    full = falling[order]
    wrong = full[1:] < full[:-1]
    if not wrong.any():
        return order
    leading = full >> np.uint64(spare)
    same = leading[1:] == leading[:-1]
    run = np.concatenate([[False], same]) | np.concatenate([same, [False]])
    places = np.flatnonzero(run)
    order[places] = order[places][np.lexsort((order[places], full[places]))]
    return order


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
