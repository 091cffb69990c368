"""Sorting unsigned keys digit by digit, for processors on which numpy's own sort is slow.

numpy sorts 8- and 16-bit integers by counting, which is fast everywhere as long as the data stays in cache. So keys
are first dealt into some two hundred groups of about equal size, a cacheful of them at a time; then each group is
put in order by its 16-bit digits, the last one first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np

_CHUNK = 1 << 17  # keys dealt at a time: they and their order stay in cache
_GROUPS = 250  # numbered in a byte
_DIGIT = 16
_MOST = 1 << 21  # keys in a group that are still put in order by digits
_SLOW = 11.0  # nanoseconds per key from which on digits beat numpy's sort

Run = Callable[
    [Callable[[int], None], int], None
]  # run(work, count): work(0) ... work(count - 1), in any order


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


def sort_by_digits(keys: np.ndarray, run: Run) -> np.ndarray:
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

    run(deal, len(chunks))
    result = np.empty_like(keys)
    starts = np.concatenate([[0], np.cumsum(np.diff(ends, axis=1).sum(axis=0))])

    def finish(group: int) -> None:
        parts = [c[a:b] for c, a, b in zip(chunks, ends[:, group].tolist(), ends[:, group + 1].tolist())]
        _order(parts, result[starts[group] : starts[group + 1]])

    run(finish, _GROUPS)
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
    leading = keys >> below
    same = leading[1:] == leading[:-1]
    places = np.flatnonzero(np.concatenate([[False], same]) | np.concatenate([same, [False]]))
    keys[places] = np.sort(keys[places])
