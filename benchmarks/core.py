"""Speed of the core beside what it replaces, as ratios in one run.

    make bench                 # n = 1e3 ... 1e7
    make bench BENCH=--full    # and 1e8

Each line: what, the median time of ours, the median time of the other, their ratio, and the bound it is held to.
The other side is always timed in the same loop, turn by turn, so that a busy machine slows both.

The bounds are to hold on any machine, so they leave about half of what was measured on two quiet cores. The ratios
depend on how many cores are free (ours sorts in threads, argsort does not) and in batches on memory: fresh pages are
slow on virtual machines. The time of `np.sort` differs between processors by a factor of six, with its AVX-512 or AVX2
code, so the ratio to it is printed and not held to a bound.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
import tracemalloc

import numpy as np

import abstain
from abstain.core.sorting import thread_count

FAILED: list[str] = []


def argsort_cumsum(loss, confidence):
    """The usual way: sort indices, cumulate errors, mean of the prefix risks (ties in row order)."""
    order = np.argsort(-confidence)
    return (np.cumsum(loss[order]) / np.arange(1, len(order) + 1)).mean()


def torch_argsort_cumsum(loss, confidence):
    """The same in torch, the rule torch-uncertainty uses."""
    import torch

    order = torch.argsort(confidence, descending=True)
    return (torch.cumsum(loss[order].double(), 0) / torch.arange(1, len(order) + 1)).mean()


def turns(*calls, seconds=1.5, least=5, clock=time.perf_counter):
    """Median time of each call, taken in turns, by `clock`: a clock of processor time for calls without threads."""
    times = [[] for _ in calls]
    start = time.perf_counter()
    while len(times[0]) < least or (time.perf_counter() - start < seconds and len(times[0]) < 200):
        for call, kept in zip(calls, times):
            begin = clock()
            call()
            kept.append(clock() - begin)
    return [float(np.median(t)) for t in times]


def peak_mb(call):
    """Peak of what one call allocates."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def line(what, ours, other, against, *, at_most=None, at_least=None):
    """One ratio with its bound."""
    ratio = ours / other if at_most else other / ours
    bound = f"<= {at_most}" if at_most else f">= {at_least}"
    ok = ratio <= at_most if at_most else ratio >= at_least
    if not ok:
        FAILED.append(what)
    sense = "x the time of" if at_most else "x faster than"
    print(
        f"{what:<44} {ours * 1e3:10.3f} ms {ratio:7.2f} {sense} {against:<26} {bound:<8} {'ok' if ok else 'MISSED'}"
    )


def data(n, rng, tied=False, dtype=np.float32):
    """Confidences with errors that fall as confidence rises."""
    confidence = rng.random(n).astype(dtype)
    if tied:
        confidence = np.round(confidence * 1000) / dtype(1000)
    return rng.random(n) < 0.3 * (1 - confidence), confidence


def sizes(largest, rng):
    """Time and memory against n."""
    print(
        f"\n{'n':>12} {'ours ms':>10} {'argsort-cumsum ms':>18} {'ratio':>6} {'ours MB':>9} {'theirs MB':>10}"
    )
    n = 1000
    while n <= largest:
        loss, confidence = data(n, rng)
        ours, other = turns(lambda: abstain.aurc(loss, confidence), lambda: argsort_cumsum(loss, confidence))
        memory = (
            peak_mb(lambda: abstain.aurc(loss, confidence)),
            peak_mb(lambda: argsort_cumsum(loss, confidence)),
        )
        print(
            f"{n:>12,} {ours * 1e3:10.3f} {other * 1e3:18.3f} {other / ours:6.1f} {memory[0]:9.1f} {memory[1]:10.1f}"
        )
        n *= 10


def vectors(rng):
    """The ten-million lines."""
    n = 10**7
    loss, confidence = data(n, rng)
    tied_loss, tied = data(n, rng, tied=True)
    float_loss, float_confidence = rng.random(n).astype(np.float32), confidence
    double_loss, double_confidence = rng.random(n), rng.random(n)
    for what, values, ranking, at_least in (
        ("0/1 loss, float32, distinct, 1e7", loss, confidence, 3),
        ("0/1 loss, float32, 1,001 values, 1e7", tied_loss, tied, 2),
        ("float loss, float32, 1e7", float_loss, float_confidence, 1.5),
        ("float loss, float64, 1e7", double_loss, double_confidence, 0.5),
    ):
        ours, sort, usual = turns(
            lambda values=values, ranking=ranking: abstain.aurc(values, ranking),
            lambda ranking=ranking: np.sort(ranking),
            lambda values=values, ranking=ranking: argsort_cumsum(values, ranking),
        )
        line(what, ours, usual, "argsort-cumsum in numpy", at_least=at_least)
        print(f"{'':<44} {'':>13} {ours / sort:7.2f} x the time of np.sort (not promised)")
    try:
        import torch
    except ImportError:
        print("torch is not installed: its line is left out")
        return
    tensors = torch.from_numpy(loss), torch.from_numpy(confidence)
    ours, usual = turns(lambda: abstain.aurc(loss, confidence), lambda: torch_argsort_cumsum(*tensors))
    line("0/1 loss, float32, distinct, 1e7", ours, usual, "argsort-cumsum in torch", at_least=2)
    ours, usual = turns(lambda: abstain.aurc(*tensors), lambda: torch_argsort_cumsum(*tensors))
    line("the same from torch tensors", ours, usual, "argsort-cumsum in torch", at_least=2)


def batches(rng):
    """Many small samples at once against a loop."""
    for shape, bound in (((1000, 10_000), 1.5), ((100_000, 100), 10)):
        loss, confidence = data(shape[0] * shape[1], rng)
        loss, confidence = loss.reshape(shape), confidence.reshape(shape)
        ours, loop = turns(
            lambda l=loss, g=confidence: abstain.aurc(l, g),
            lambda l=loss, g=confidence: [argsort_cumsum(a, b) for a, b in zip(l, g)],
        )
        line(f"batch {shape}", ours, loop, "a numpy loop", at_least=bound)


def small(rng):
    """What a call costs when there is little to do (in processor time), and what the import costs."""
    for n, bound in ((100, 6), (1000, 3)):
        loss, confidence = data(n, rng)
        ours, usual = turns(
            lambda l=loss, g=confidence: [abstain.aurc(l, g) for _ in range(100)],
            lambda l=loss, g=confidence: [argsort_cumsum(l, g) for _ in range(100)],
            clock=time.process_time,
        )
        line(f"one call, n = {n:,}", ours / 100, usual / 100, "argsort-cumsum in numpy", at_most=bound)

    def fresh(module):
        return subprocess.run([sys.executable, "-c", f"import {module}"], check=True, env={**os.environ})

    ours, other = turns(lambda: fresh("abstain"), lambda: fresh("numpy"), seconds=4, least=7)
    line("import abstain", ours, other, "import numpy", at_most=1.5)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--full", action="store_true", help="go on to n = 1e8 (needs about 4 GB)")
    full = options.parse_args().full
    print(f"abstain {abstain.__version__}, numpy {np.__version__}, Python {platform.python_version()}")
    print(f"{platform.machine()}, {thread_count()} threads")
    rng = np.random.default_rng(0)
    small(rng)
    vectors(rng)
    batches(rng)
    sizes(10**8 if full else 10**7, rng)
    print(f"\n{len(FAILED)} bound(s) missed" + (f": {', '.join(FAILED)}" if FAILED else ""))
    return len(FAILED)


if __name__ == "__main__":
    sys.exit(main())
