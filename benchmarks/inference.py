"""Speed of error bars: each line a ratio measured in one run. `python benchmarks/inference.py`"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time

import numpy as np

import abstain
from abstain.core.area_estimators import area
from abstain.core.bootstrap import Resampler


def interleaved(
    first: Callable[[], object], second: Callable[[], object], rounds: int
) -> tuple[float, float]:
    """Least CPU seconds of each, measured in turns: other work on the machine then hardly shows."""
    times: tuple[list[float], list[float]] = ([], [])
    first(), second()
    for _ in range(rounds):
        for work, kept in zip((first, second), times):
            start = process_time()
            work()
            kept.append(process_time() - start)
    return min(times[0]), min(times[1])


def interval_against_point(n: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds of the point estimate and of its interval."""
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
        name: interleaved(
            lambda l=loss, c=confidence: abstain.aurc(l, c),
            lambda l=loss, c=confidence: abstain.inference.interval("aurc", l, c),
            rounds,
        )
        for name, (loss, confidence) in cases.items()
    }


def resorted(rng: np.random.Generator, loss: np.ndarray, confidence: np.ndarray) -> float:
    """One replicate the usual way: resample, argsort, cumulate."""
    n = len(loss)
    drawn = rng.integers(0, n, n)
    order = np.argsort(-confidence[drawn])
    return float(np.mean(np.cumsum(loss[drawn][order]) / np.arange(1, n + 1)))


def replicate_against_sorting(n: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds of a replicate by re-sorting and by counts in sorted order."""
    rng = np.random.default_rng(0)
    b = rng.random(n)
    wrong = (rng.random(n) < 0.6 * (1 - b) ** 2).astype(np.float64)
    found = {}
    for name, confidence in {"continuous": b, "20 levels": np.floor(20 * b) / 20}.items():
        source = Resampler(wrong, confidence)
        size = min(20, source.batches(1000)[0])
        usual, ours = interleaved(
            lambda c=confidence, k=size: [resorted(rng, wrong, c) for _ in range(k)],
            lambda s=source, k=size: area(s.draw(rng, k).rows),
            rounds,
        )
        found[name] = usual / size, ours / size
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    print(f"| AURC at n = {given.n:,} | point (ms) | interval (ms) | ratio |\n| --- | --- | --- | --- |")
    for name, (point, bar) in interval_against_point(given.n, given.rounds).items():
        print(f"| {name} | {1e3 * point:.1f} | {1e3 * bar:.1f} | {bar / point:.2f} |")
    print("\n| bootstrap replicate at n = 50,000 | re-sorting (ms) | ours (ms) | times faster |")
    print("| --- | --- | --- | --- |")
    for name, (usual, ours) in replicate_against_sorting(50_000, given.rounds).items():
        print(f"| {name} | {1e3 * usual:.2f} | {1e3 * ours:.3f} | {usual / ours:.1f} |")
