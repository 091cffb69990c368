"""Speed of what `evaluate` is made of, as ratios in one run on one thread.

    python benchmarks/evaluate.py

Each line: what, its time, the time of what it is measured against, their ratio, and the bound it is held to.
Both sides are timed in turns, in processor time of this thread, so that a busy machine slows both alike.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from scipy.special import log_softmax

from abstain import scores
from abstain.scores.registry import outputs

SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")
LOSSES = ("zero_one", "cross_entropy")
FAILED: list[str] = []


def made_up(n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a model that is often right, and labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    logits = rng.standard_normal((n, classes), dtype=np.float32)
    logits *= 3
    logits[np.arange(n), labels] += 8
    return logits, labels


def in_turns(*calls: Callable[[], object], least: int = 5, seconds: float = 2.0) -> list[float]:
    """Smallest time of each call."""
    times: list[list[float]] = [[] for _ in calls]
    start = time.perf_counter()
    while len(times[0]) < least or (time.perf_counter() - start < seconds and len(times[0]) < 200):
        for call, kept in zip(calls, times):
            begin = time.thread_time()
            call()
            kept.append(time.thread_time() - begin)
    return [min(kept) for kept in times]


def line(what: str, ours: Callable[[], object], other: Callable[[], object], bound: float | None) -> None:
    """Time two calls and print their ratio."""
    a, b = in_turns(ours, other)
    missed = bound is not None and a / b > bound
    if missed:
        FAILED.append(what)
    held = "" if bound is None else f"at most {bound:g}" + ("  MISSED" if missed else "")
    print(f"{what:<58} {a * 1e3:10.2f} ms {b * 1e3:10.2f} ms {a / b:8.2f}  {held}")


def passes_over_logits() -> None:
    """All default scores and losses, and one score, beside scipy's log_softmax of the same array."""
    for n, classes, bound in ((50_000, 1_000, 1.6), (10_000, 10, None), (1_000_000, 10, None)):
        logits, labels = made_up(n, classes)
        size = f"{n:,} x {classes:,}"

        def softmax(z: np.ndarray = logits) -> np.ndarray:
            return log_softmax(z, axis=-1)

        def everything(z: np.ndarray = logits, y: np.ndarray = labels) -> object:
            return outputs(z, y, scores=SCORES, losses=LOSSES)

        def one(z: np.ndarray = logits) -> object:
            return scores.max_softmax(z)

        line(f"scores and losses of {size} / log_softmax", everything, softmax, bound)
        line(f"max_softmax of {size} / log_softmax", one, softmax, bound and 1.3)


SECTIONS = (passes_over_logits,)


def main() -> int:
    """Print all sections; 1 if a bound is missed."""
    print(f"numpy {np.__version__}, Python {platform.python_version()}, one thread, float32 logits")
    for section in SECTIONS:
        section()
    print("all bounds held" if not FAILED else "missed: " + "; ".join(FAILED))
    return bool(FAILED)


if __name__ == "__main__":
    sys.exit(main())
