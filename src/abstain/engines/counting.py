"""Which stretch of confidences to count instead of sorting, and what its counts come to.

With 1e8 samples a float32 between 1/2 and 1 is taken six times over: a counter for each value is smaller than the
samples and needs neither a sort nor a disk.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from abstain.core import packed, tally
from abstain.core.tally import Tally
from abstain.engines.finish import Ask, Part, Place, finish_counted
from abstain.engines.items import Items
from abstain.engines.ranges import RangeSums

_PRICE = (
    0.5  # a counter, to set up and to read, costs as much as half a sample to write out, read back and sort
)
_WORTH = 0.25  # share of the samples that must be counted for the table to pay


def window(histogram: Items, rows: int, room: int) -> tuple[float, float] | None:
    """The stretch of float32 values whose samples outweigh the price of its counters by most; None if none does.

    `room` bounds the bytes of counters.
    """
    if not len(histogram) or rows > tally.MOST:
        return None
    low = histogram.low.astype(np.float32)
    after = np.append(low[1:], np.nextafter(histogram.high[-1:].astype(np.float32), np.float32(np.inf)))
    start = np.maximum.accumulate(tally.values_between(np.zeros_like(low), low))  # items may overlap
    stop = np.maximum(tally.values_between(np.zeros_like(after), after), start + 1)
    held = histogram.mass * (rows / histogram.mass.sum())
    first, last = _most(
        held - _PRICE * (stop - start), np.searchsorted(stop, start + room // tally.BYTES, "right")
    )
    if held[first:last].sum() < _WORTH * rows:
        return None
    return float(low[first]), float(np.nextafter(after[last - 1], np.float32(-np.inf)))


def _most(gain: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """The run of items [first, last) with the largest sum, where one that starts at i may reach to ends[i]."""
    upto = np.concatenate([[0.0], np.cumsum(gain)])
    best, found = 0.0, (0, 0)
    for first, end in enumerate(ends.tolist()):
        if end > first:
            last = first + 1 + int(np.argmax(upto[first + 1 : end + 1]))
            if upto[last] - upto[first] > best:
                best, found = float(upto[last] - upto[first]), (first, last)
    return found


def outside(histogram: Items, ends: tuple[float, float]) -> Items:
    """The items beside a window."""
    beside = (histogram.low < ends[0]) | (histogram.low > ends[1])
    return Items(histogram.low[beside], histogram.high[beside], histogram.sums[:, beside])


def put_counts(sums: RangeSums, number: int, counted: Tally) -> None:
    """Fill in the sums of the range that was counted."""
    m, wrong = counted.totals().sum(axis=0)
    if m:
        sums.sums[:, number] = [m, wrong, m, wrong, wrong, m, 0]
        sums.low[number], sums.high[number] = counted.span()


def counted_parts(counted: Tally, place: Place, ask: Ask) -> list[Part]:
    """Parts of a tally, most confident first."""
    mass, wrong = counted.totals().T
    N, S = place.N + np.cumsum(mass) - mass, place.S + np.cumsum(wrong) - wrong

    def part(number: int) -> Part:
        return finish_counted(
            counted.stretch(number), Place(float(N[number]), float(S[number]), place.W), ask
        )

    with ThreadPoolExecutor(packed.threads()) as pool:
        return list(pool.map(part, np.flatnonzero(mass).tolist()))
