"""Counting instead of sorting: one counter of samples and errors for every float32 confidence.

Between 1/2 and 1 a float32 has 2^23 values. Where there are more samples than values, one counter for each value gives
the rows at once: a sample costs one access to memory, however many samples there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abstain.core.sorting import CHUNK, ascending_bits, descending_bits, floats_from_descending_bits

BYTES_PER_COUNTER = 8  # a word for each value: the low half counts samples, the high half errors
MAX_SAMPLES = (1 << 32) - 1  # samples that are sure not to overflow half a word
SECTION = 1 << 17  # values read at a time: their columns stay in cache
_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(MAX_SAMPLES)


class CountedConfidences(NamedTuple):
    """Distinct confidences, most confident first, with the number of samples and of errors at each."""

    confidence: np.ndarray
    sample_count: np.ndarray
    error_count: np.ndarray


def values_between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How many float32 values lie in [low, high), element by element; the ends are converted to float32."""
    low_bits = ascending_bits(np.asarray(low, dtype=np.float32), has_negative=True).astype(np.int64)
    high_bits = ascending_bits(np.asarray(high, dtype=np.float32), has_negative=True).astype(np.int64)
    return np.asarray(high_bits - low_bits)


def bytes_between(low: float, high: float) -> int:
    """Size in bytes of the counters for every float32 from `low` to `high`."""
    return BYTES_PER_COUNTER * (int(values_between(np.asarray(low), np.asarray(high))) + 1)


class Tally:
    """Counters for every float32 from `low` to `high`, both included.

    Counter k belongs to the k-th largest float32 of the range: the most confident comes first.
    """

    def __init__(self, low: float, high: float) -> None:
        ends = np.asarray([low, high], dtype=np.float32)
        ends += 0.0  # turns -0 into +0
        self._has_negative = bool(ends[0] < 0)
        smallest_bits, largest_bits = ascending_bits(ends, self._has_negative).tolist()
        self._largest_bits = largest_bits
        self._size = largest_bits - smallest_bits + 1
        # the last word takes samples out of the range
        self._words = np.empty(self._size + 1, dtype=np.uint64)
        # touch the pages in order: creating them by random access would cost more than the counting
        self._words.fill(0)

    def add(self, loss: np.ndarray, confidence: np.ndarray) -> np.ndarray:
        """Count samples (boolean losses, float32 confidences); return the indices of those out of the range.

        The range is from `low` to `high`, for which the counters were made. `self._words` holds `self._size` counters,
        one for each float32 of the range, that of the largest one first, and one more for samples out of the range. A
        counter is a 64-bit word: its low half counts samples, its high half errors. All calls together may add at most
        2**32 - 1 samples. Samples out of the range are for the caller to count; the counter for them is never read.
        """
        outside_indices = []
        # used again for each chunk
        counter_buffer = np.empty(min(CHUNK, len(loss)), dtype=np.intp)
        increment_buffer = np.empty(min(CHUNK, len(loss)), dtype=np.uint64)
        for start in range(0, len(loss), CHUNK):
            stop = start + CHUNK
            # how many float32 values lie above each confidence; adding 0 turns -0 into +0
            bits = descending_bits(confidence[start:stop] + 0.0, self._largest_bits, self._has_negative)
            counter = counter_buffer[: len(bits)]
            increment = increment_buffer[: len(bits)]
            counter[...] = bits  # confidences above the range have wrapped around to large numbers
            increment[...] = loss[start:stop]  # 1 for an error, which counts in the high half
            increment <<= _HALF_WORD
            increment += np.uint64(1)  # every sample counts in the low half
            is_outside = counter >= self._size
            if is_outside.any():
                outside_indices.append(np.flatnonzero(is_outside) + start)
                np.minimum(counter, self._size, out=counter)
            np.add.at(self._words, counter, increment)
        return np.concatenate(outside_indices) if outside_indices else np.empty(0, dtype=np.intp)

    def totals(self) -> np.ndarray:
        """Number of samples and of errors in each section of `SECTION` counters, shape (sections, 2).

        The most confident section comes first.
        """
        words = np.add.reduceat(self._words[: self._size], np.arange(0, self._size, SECTION))
        return np.stack(_split_words(words), axis=1).astype(np.int64)

    def span(self) -> tuple[float, float]:
        """The smallest and the largest confidence counted; at least one sample must have been counted."""
        words = self._words[: self._size]
        first = _find_first_nonzero(words)
        last = self._size - 1 - _find_first_nonzero(words[::-1])
        smallest, largest = self._confidences(np.asarray([last, first]))
        return float(smallest), float(largest)

    def section(self, number: int) -> CountedConfidences:
        """The confidences that occur in section `number` (`SECTION` counters, from 0), most confident first."""
        start = number * SECTION
        words = self._words[start : min(start + SECTION, self._size)]
        occupied = np.flatnonzero(words)
        samples, wrong = _split_words(words[occupied])
        return CountedConfidences(
            confidence=self._confidences(occupied + start),
            sample_count=samples.astype(np.float64),
            error_count=wrong.astype(np.float64),
        )

    def _confidences(self, places: np.ndarray) -> np.ndarray:
        """The float32 values to which the counters at these places belong."""
        return floats_from_descending_bits(
            places, self._largest_bits, self._has_negative, np.dtype(np.float32)
        )


def _split_words(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of samples and of errors in each word."""
    samples = words & _LOW_HALF
    wrong = words >> _HALF_WORD
    return samples, wrong


def _find_first_nonzero(words: np.ndarray) -> int:
    """Index of the first word that is not zero; the number of words if all are zero."""
    for start in range(0, len(words), CHUNK):
        is_nonzero = words[start : start + CHUNK] != 0
        if is_nonzero.any():
            return start + int(np.argmax(is_nonzero))
    return len(words)
