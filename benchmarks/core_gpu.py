"""The core on a GPU: exact AURC of 1e9 samples with 0/1 loss, from torch and from cupy, beside torch.sort.

    PYTHONPATH=src python benchmarks/core_gpu.py [--n 1000000000]

Checks the numbers against numpy first, then times. Prints tables with card, date and versions; the exit code is 1 if a
ratio is above its bound.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys

import array_api_compat.torch
import torch

import abstain
from abstain.core import device
from abstain.core.area_estimators import ESTIMATORS, TIES

GIB = 2**30
# kind of confidences -> largest allowed ratio of our time to that of torch.sort
BOUNDS = {"uniform": 0.88, "saturated": 0.80, "20 levels": 0.80, "normal": 0.95}
CUPY_BOUND = 1.5


def elapsed_ms(call):
    """Device time of one call in milliseconds, by events."""
    start = torch.cuda.Event(enable_timing=True)
    stop = torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


def median_ms(*calls, repeats=7):
    """Median device times of several calls, whose runs alternate, after a warm-up of each; one number per call."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    rounds = [[elapsed_ms(call) for call in calls] for _ in range(repeats)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def peak_gib(call):
    """Largest memory that torch holds during a call beyond what it held before, in GiB."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / GIB


def argsort_cumsum(loss, confidence):
    """The usual way in torch; it takes ties in row order."""
    order = torch.argsort(confidence, descending=True)
    accepted = torch.arange(1, len(order) + 1, device="cuda")
    return (torch.cumsum(loss[order], 0, dtype=torch.int32) / accepted).mean()


def make_samples(n, kind):
    """Losses and confidences on the card; errors become fewer as confidence rises."""
    generator = torch.Generator("cuda").manual_seed(0)
    confidence = torch.rand(n, device="cuda", generator=generator)
    if kind == "saturated":  # a third of the set at exactly 1.0, as in public CIFAR-10 networks
        confidence = torch.clamp(confidence * 1.5, max=1.0)
    if kind == "20 levels":
        confidence = torch.floor(confidence * 20) / 20
    if kind == "normal":  # of both signs
        confidence = torch.randn(n, device="cuda", generator=generator)
    error_rate = 0.3 * (1 - torch.clamp(confidence, 0, 1))
    return torch.rand(n, device="cuda", generator=generator) < error_rate, confidence


def is_refused(loss, confidence):
    """Does `aurc` raise InputError?"""
    try:
        abstain.aurc(loss, confidence)
    except abstain.errors.InputError:
        return True
    return False


def check(n=3_000_000):
    """Compare with numpy: every kind of confidences, every estimator and rule for ties, every type of floats."""
    for kind in BOUNDS:
        loss, confidence = make_samples(n, kind)
        host_loss = loss.cpu().numpy()
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            values = confidence.to(dtype)
            host_values = values.float().cpu().numpy()  # exact for the narrower types
            if dtype is torch.float64:
                host_values = values.cpu().numpy()
            every = [(estimator, ties) for estimator in ESTIMATORS for ties in TIES]
            for estimator, ties in every if dtype is torch.float32 else every[:1]:
                value = abstain.aurc(loss, values, estimator=estimator, ties=ties)
                assert value.is_cuda
                expected = abstain.aurc(host_loss, host_values, estimator=estimator, ties=ties)
                gap = abs(float(value) - expected)
                assert gap <= 1e-12 * expected, (kind, dtype, estimator, ties, float(value), expected)
        values = confidence.clone()
        values[n // 2] = float("nan")
        assert is_refused(loss, values)
        losses = loss.float() * 0.7  # not 0/1: the generic way, on the device
        generic = float(abstain.aurc(losses, confidence))
        expected = abstain.aurc(losses.cpu().numpy(), confidence.cpu().numpy())
        assert abs(generic - expected) <= 1e-11 * expected, (kind, generic, expected)
    print(
        f"equal to numpy: {n:.0e} samples, {len(BOUNDS)} kinds of confidences, {len(ESTIMATORS)} estimators with "
        f"{len(TIES)} rules for ties, 4 types of floats"
    )


def print_parts(loss, confidence):
    """Where the time goes, in milliseconds."""
    xp = array_api_compat.torch
    keys, error_keys = device._make_sort_keys(xp, loss, confidence)
    distinct, _ = torch.unique(keys, return_counts=True)
    distinct_errors, _ = torch.unique(error_keys, return_counts=True)
    parts = {
        "keys": lambda: device._make_sort_keys(xp, loss, confidence),
        "count all": lambda: torch.unique(keys, return_counts=True),
        "count errors": lambda: torch.unique(error_keys, return_counts=True),
        "search": lambda: torch.searchsorted(distinct, distinct_errors),
        "counts in all": lambda: device.count_by_confidence(xp, loss, confidence),
    }
    times = median_ms(*parts.values(), repeats=3)
    shown = ", ".join(f"{name} {ms:.1f}" for name, ms in zip(parts, times, strict=True))
    print(f"| its parts: {shown}; {len(distinct):.2g} rows | | | | | | |", flush=True)


def time_torch(n):
    """Print our time over that of torch.sort for each kind of data; returns the kinds above their bounds."""
    missed = []
    for kind, bound in BOUNDS.items():
        loss, confidence = make_samples(n, kind)
        sort, ours = median_ms(
            lambda g=confidence: torch.sort(g), lambda l=loss, g=confidence: abstain.aurc(l, g)
        )
        memory = peak_gib(lambda l=loss, g=confidence: abstain.aurc(l, g))
        ratio = ours / sort
        print(
            f"| torch, {kind} | {n:.0e} | {ours:.1f} | {sort:.1f} | {ratio:.2f} | <= {bound} | {memory:.1f} |",
            flush=True,
        )
        print_parts(loss, confidence)
        if ratio > bound:
            missed.append(f"torch, {kind}")
        if kind == "uniform":
            memory = peak_gib(lambda g=confidence: torch.sort(g))
            print(f"| torch.sort alone | {n:.0e} | {sort:.1f} | {sort:.1f} | 1 | | {memory:.1f} |")
            [usual] = median_ms(lambda l=loss, g=confidence: argsort_cumsum(l, g), repeats=3)
            memory = peak_gib(lambda l=loss, g=confidence: argsort_cumsum(l, g))
            print(
                f"| torch, argsort and cumsum | {n:.0e} | {usual:.1f} | {sort:.1f} | {usual / sort:.2f} | | "
                f"{memory:.1f} |",
                flush=True,
            )
        del loss, confidence
        torch.cuda.empty_cache()
    return missed


def time_types(n):
    """The other types of floats, uniform, beside torch.sort of the same type."""
    loss, confidence = make_samples(n, "uniform")
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        values = confidence.to(dtype)
        sort, ours = median_ms(
            lambda g=values: torch.sort(g), lambda g=values: abstain.aurc(loss, g), repeats=3
        )
        name = str(dtype).rpartition(".")[2]
        print(f"| torch, {name} | {n:.0e} | {ours:.1f} | {sort:.1f} | {ours / sort:.2f} | | |", flush=True)
        del values
        torch.cuda.empty_cache()


def time_cupy(n):
    """The same from cupy arrays, checked against numpy first; returns the kinds above their bounds."""
    try:
        import cupy
    except ImportError:
        print("| cupy is not installed | | | | | | |")
        return []
    missed = []
    for kind in ("uniform", "normal"):
        loss, confidence = make_samples(n, kind)
        [sort] = median_ms(lambda g=confidence: torch.sort(g), repeats=3)
        torch.cuda.empty_cache()
        cupy_loss = cupy.from_dlpack(loss.to(torch.uint8)).astype(bool)
        cupy_confidence = cupy.from_dlpack(confidence)
        for dtype in ("float32", "float16", "float64"):
            few = cupy_confidence[:1_000_000].astype(dtype)
            host_values = cupy.asnumpy(few).astype("float64")
            expected = abstain.aurc(cupy.asnumpy(cupy_loss[:1_000_000]), host_values)
            value = float(abstain.aurc(cupy_loss[:1_000_000], few))
            assert abs(value - expected) <= 1e-12 * expected, (kind, dtype, value, expected)
        [ours] = median_ms(lambda l=cupy_loss, g=cupy_confidence: abstain.aurc(l, g), repeats=5)
        ratio = ours / sort
        print(
            f"| cupy, {kind} | {n:.0e} | {ours:.1f} | {sort:.1f} | {ratio:.2f} | <= {CUPY_BOUND} | |",
            flush=True,
        )
        if ratio > CUPY_BOUND:
            missed.append(f"cupy, {kind}")
        del loss, confidence, cupy_loss, cupy_confidence
        cupy.get_default_memory_pool().free_all_blocks()
        torch.cuda.empty_cache()
    return missed


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--n", type=int, default=10**9)
    n = options.parse_args().n
    card = torch.cuda.get_device_name()
    today = datetime.date.today()
    print(f"{card}, {today}, torch {torch.__version__}, abstain {abstain.__version__}")
    check()
    print("\n| what | n | ms | torch.sort ms | ratio | bound | peak GiB beyond the data |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    missed = time_torch(n)
    time_types(n)
    missed += time_cupy(n)
    print(f"above their bounds: {', '.join(missed)}" if missed else "all bounds kept")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
