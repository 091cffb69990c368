"""Speed of error bars: each line a ratio measured in one run. `python benchmarks/inference.py`

How long a point estimate takes depends on `np.sort`, which differs between processors by a factor of ten: from 5 ms for
a million floats with AVX-512 to 64 ms without vector instructions. What an interval adds hardly depends on that.
It is also measured in merge sorts: `np.argsort(kind="stable")` of float64 has no vector instructions anywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time
from typing import NamedTuple

import numpy as np

import abstain
from abstain.core.area_estimators import area
from abstain.core.bootstrap import Resampler


class PriceOfInterval(NamedTuple):
    """Seconds of a point estimate, of its interval, and of a merge sort of as many confidences."""

    point: float
    interval: float
    merge_sort: float

    @property
    def added_merge_sorts(self) -> float:
        """What the interval adds to the point estimate, in merge sorts."""
        return (self.interval - self.point) / self.merge_sort


class PriceOfReplicate(NamedTuple):
    """Seconds of one bootstrap replicate: resampled and sorted again, by either sort of numpy, and ours."""

    sorting: float
    merge_sorting: float
    ours: float


def interleaved(*calls: Callable[[], object], rounds: int) -> list[float]:
    """Least CPU seconds of each, measured in turns: other work on the machine then hardly shows."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(rounds):
        for call, seconds in zip(calls, times):
            start = process_time()
            call()
            seconds.append(process_time() - start)
    return [min(seconds) for seconds in times]


def interval_against_point(n: int, rounds: int) -> dict[str, PriceOfInterval]:
    """The price of the interval of AURC, by kind of loss and confidence."""
    rng = np.random.default_rng(0)
    b = rng.random(n)
    wrong = rng.random(n) < 0.6 * (1 - b) ** 2
    cases = {
        "0/1 loss, float32 confidence": (wrong, b.astype(np.float32)),
        "0/1 loss, float64 confidence": (wrong, b),
        "0/1 loss, 20 levels": (wrong, np.floor(20 * b) / 20),
        "float32 loss, float32 confidence": (rng.exponential(1 - b).astype(np.float32), b.astype(np.float32)),
        "float64 loss, float64 confidence": (rng.exponential(1 - b), b),
    }
    return {
        name: PriceOfInterval(
            *interleaved(
                lambda l=loss, c=confidence: abstain.aurc(l, c),
                lambda l=loss, c=confidence: abstain.inference.interval("aurc", l, c),
                lambda: np.argsort(b, kind="stable"),
                rounds=rounds,
            )
        )
        for name, (loss, confidence) in cases.items()
    }


def resorted(rng: np.random.Generator, loss: np.ndarray, confidence: np.ndarray, kind: str) -> float:
    """One replicate the usual way: resample, argsort by numpy's sort of this kind, cumulate."""
    n = len(loss)
    drawn = rng.integers(0, n, n)
    order = np.argsort(-confidence[drawn], kind=kind)
    return float(np.mean(np.cumsum(loss[drawn][order]) / np.arange(1, n + 1)))


def replicate_against_sorting(n: int, rounds: int) -> dict[str, PriceOfReplicate]:
    """The price of a replicate, by kind of confidence."""
    rng = np.random.default_rng(0)
    b = rng.random(n)
    wrong = (rng.random(n) < 0.6 * (1 - b) ** 2).astype(np.float64)
    prices = {}
    for name, confidence in {"continuous": b, "20 levels": np.floor(20 * b) / 20}.items():
        resampler = Resampler(wrong, confidence)
        count = min(20, resampler.batches(1000)[0])

        def sort_again(kind: str, confidence: np.ndarray = confidence, count: int = count) -> None:
            for _ in range(count):
                resorted(rng, wrong, confidence, kind)

        seconds = interleaved(
            lambda sort_again=sort_again: sort_again("quicksort"),
            lambda sort_again=sort_again: sort_again("stable"),
            lambda resampler=resampler, count=count: area(resampler.draw(rng, count).rows),
            rounds=rounds,
        )
        prices[name] = PriceOfReplicate(*(total / count for total in seconds))
    return prices


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    print(f"| AURC at n = {given.n:,} | point (ms) | interval (ms) | ratio | added, in merge sorts |")
    print("| --- | --- | --- | --- | --- |")
    for name, price in interval_against_point(given.n, given.rounds).items():
        print(
            f"| {name} | {1e3 * price.point:.1f} | {1e3 * price.interval:.1f} "
            f"| {price.interval / price.point:.2f} | {price.added_merge_sorts:.2f} |"
        )
    print(
        "\n| bootstrap replicate at n = 50,000 | sorting (ms) | merge sort (ms) | ours (ms) | times faster |"
    )
    print("| --- | --- | --- | --- | --- |")
    for name, replicate in replicate_against_sorting(50_000, given.rounds).items():
        print(
            f"| {name} | {1e3 * replicate.sorting:.2f} | {1e3 * replicate.merge_sorting:.2f} "
            f"| {1e3 * replicate.ours:.3f} | {replicate.sorting / replicate.ours:.1f} |"
        )
