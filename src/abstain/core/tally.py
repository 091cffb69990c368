"""Counting instead of sorting: 0/1 losses tallied by the bits of their float32 confidence.

Between 1/2 and 1 a float32 has 2^23 values. Where samples outnumber the values they can take, one counter for each
value gives the blocks at once: a sample costs one access to memory, however many there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abstain.core.sorting import CHUNK, ascending_bits, descending_bits, floats_from_descending_bits

BYTES = 8  # a word for each value: the low half counts its samples, the high half those that are wrong
MOST = (1 << 32) - 1  # samples that are sure not to overflow half a word
STRETCH = 1 << 17  # values read at a time: their columns stay in cache
_HALF = np.uint64(32)
_LOW = np.uint64(MOST)


class Counted(NamedTuple):
    """Blocks of equal confidence, most confident first: how many samples, and how many of them wrong."""

    confidence: np.ndarray
    mass: np.ndarray
    wrong: np.ndarray


def values_between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How many float32 values lie in [low, high), for float32 ends."""
    a, b = (ascending_bits(np.asarray(x, dtype=np.float32), True).astype(np.int64) for x in (low, high))
    return np.asarray(b - a)


def bytes_between(low: float, high: float) -> int:
    """Size of the counters for every float32 from `low` to `high`."""
    return BYTES * (int(values_between(np.asarray(low), np.asarray(high))) + 1)


class Tally:
    """Counters for every float32 from `low` to `high`, both included."""

    def __init__(self, low: float, high: float) -> None:
        ends = np.asarray([low, high], dtype=np.float32)
        self._negative = bool(ends[0] < 0)
        bottom, self._top = (int(b) for b in ascending_bits(ends, self._negative))
        self._size = self._top - bottom + 1
        self._words = np.empty(self._size + 1, dtype=np.uint64)  # the last takes what lies elsewhere
        # in order: pages that come into being by random access cost more than the counting
        self._words.fill(0)

    def add(self, loss: np.ndarray, confidence: np.ndarray) -> np.ndarray:
        """Count samples (boolean losses, float32 confidences); returns the places of those that lie elsewhere."""
        elsewhere = []
        places, ones = (np.empty(min(CHUNK, len(loss)), dtype=d) for d in (np.intp, np.uint64))
        for start in range(0, len(loss), CHUNK):
            falling = descending_bits(confidence[start : start + CHUNK], self._top, self._negative)
            place, one = places[: len(falling)], ones[: len(falling)]
            place[...] = falling  # above the window the difference wrapped around to a large number
            one[...] = loss[start : start + CHUNK]
            one <<= _HALF
            one += np.uint64(1)
            outside = place >= self._size
            if outside.any():
                elsewhere.append(np.flatnonzero(outside) + start)
                np.minimum(place, self._size, out=place)
            np.add.at(self._words, place, one)
        return np.concatenate(elsewhere) if elsewhere else np.empty(0, dtype=np.intp)

    def totals(self) -> np.ndarray:
        """Samples and wrong ones counted in each stretch, shape (stretches, 2), most confident first."""
        words = np.add.reduceat(self._words[: self._size], np.arange(0, self._size, STRETCH))
        return np.stack(_halves(words), axis=1).astype(np.int64)

    def span(self) -> tuple[float, float]:
        """The least and the largest confidence counted."""
        words = self._words[: self._size]
        low, high = self._values(np.asarray([self._size - 1 - _first(words[::-1]), _first(words)]))
        return float(low), float(high)

    def stretch(self, number: int) -> Counted:
        """The blocks that occur in one stretch, most confident first."""
        start = number * STRETCH
        words = self._words[start : min(start + STRETCH, self._size)]
        there = np.flatnonzero(words)
        mass, wrong = (half.astype(np.float64) for half in _halves(words[there]))
        return Counted(self._values(there + start), mass, wrong)

    def _values(self, falling: np.ndarray) -> np.ndarray:
        return floats_from_descending_bits(falling, self._top, self._negative, np.dtype(np.float32))


def _halves(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return words & _LOW, words >> _HALF


def _first(words: np.ndarray) -> int:
    """Place of the first word that is not zero."""
    for start in range(0, len(words), CHUNK):
        some = words[start : start + CHUNK] != 0
        if some.any():
            return start + int(np.argmax(some))
    return len(words)
