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

_DENSE = 0.25  # samples per value from which on reading a counter costs less than sorting its samples
_WORTH = 0.25  # share of the samples that must be counted for the table to pay


def window(histogram: Items, rows: int, room: int) -> tuple[float, float] | None:
    """The stretch of float32 values, of at most `room` bytes of counters, with the most samples; None if sparse."""
    if not len(histogram) or rows > tally.MOST:
        return None
    low = histogram.low.astype(np.float32)
    after = np.append(low[1:], np.nextafter(histogram.high[-1:].astype(np.float32), np.float32(np.inf)))
    start = np.maximum.accumulate(tally.values_between(np.zeros_like(low), low))  # items may overlap
    stop = np.maximum(tally.values_between(np.zeros_like(after), after), start + 1)
    held = histogram.mass * (rows / histogram.mass.sum())
    upto = np.concatenate([[0.0], np.cumsum(held)])
    ends = np.searchsorted(stop, start + min(room // tally.BYTES, int(rows / _DENSE)), "right")
    first = int(np.argmax(upto[ends] - upto[:-1]))
    dense = first + np.flatnonzero((held / (stop - start))[first : ends[first]] >= _DENSE)
    if not len(dense) or upto[dense[-1] + 1] - upto[dense[0]] < _WORTH * rows:
        return None
    return float(low[dense[0]]), float(np.nextafter(after[dense[-1]], np.float32(-np.inf)))


def outside(histogram: Items, ends: tuple[float, float]) -> Items:
    """The items beside a window."""
    beside = (histogram.low < ends[0]) | (histogram.low > ends[1])
    return Items(histogram.low[beside], histogram.high[beside], histogram.sums[:, beside])


def put_counts(sums: RangeSums, number: int, counted: Tally) -> None:
    """Fill in the sums of the range that was counted."""
    m, wrong = counted.totals().sum(axis=0)
    if m:
        sums.sums[:, number] = [m, wrong, m, wrong, wrong, m]
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
