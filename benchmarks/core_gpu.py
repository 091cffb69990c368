"""The core on a GPU: exact AURC of 1e9 samples, 0/1 loss, from torch and from cupy, beside torch.sort.

    PYTHONPATH=src python benchmarks/core_gpu.py [--n 1000000000]

Checks the numbers against the numpy road first, then times. Prints a table with card, date and versions.
"""

from __future__ import annotations

import argparse
import datetime

import array_api_compat.torch
import numpy as np
import torch

import abstain
from abstain._arrays import extremes
from abstain.core import device
from abstain.core.device import find_row_ends


def median_ms(call, repeats=7):
    """Median of device time, by events, after a warm-up."""
    call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return float(np.median(times))


def argsort_cumsum(loss, confidence):
    """The usual way in torch."""
    order = torch.argsort(confidence, descending=True)
    return (
        torch.cumsum(loss[order], 0, dtype=torch.int32) / torch.arange(1, len(order) + 1, device="cuda")
    ).mean()


def sample(n, kind):
    """Confidences on the card, errors that fall as confidence rises."""
    generator = torch.Generator("cuda").manual_seed(0)
    confidence = torch.rand(n, device="cuda", generator=generator)
    if kind == "saturated":  # a third of the set at exactly 1.0, as in public CIFAR-10 networks
        confidence = torch.clamp(confidence * 1.5, max=1.0)
    if kind == "signed":
        confidence = (confidence - 0.5) * 20
    loss = torch.rand(n, device="cuda", generator=generator) < 0.3 * (1 - torch.clamp(confidence, 0, 1))
    return loss, confidence


def check():
    """Equal to numpy on every kind of data before anything is timed."""
    for kind in ("uniform", "saturated", "signed"):
        loss, confidence = sample(3_000_000, kind)
        for estimator in ("harmonic", "log", "loo", "sele"):
            found = abstain.aurc(loss, confidence, estimator=estimator)
            assert found.is_cuda
            expected = abstain.aurc(loss.cpu().numpy(), confidence.cpu().numpy(), estimator=estimator)
            assert abs(float(found) - expected) <= 1e-12 * expected, (kind, estimator, float(found), expected)
        floats = loss.float() * 0.7  # not 0/1: the generic road, on the device
        generic = float(abstain.aurc(floats, confidence))
        expected = abstain.aurc(floats.cpu().numpy(), confidence.cpu().numpy())
        assert abs(generic - expected) <= 1e-11 * expected, (kind, generic, expected)
    print("equal to the numpy road (3e6 samples, three kinds of data, four estimators): ok")


def torch_lines(n):
    """Our time over torch.sort's, on each kind of data."""
    for kind in ("uniform", "saturated", "signed"):
        loss, confidence = sample(n, kind)
        sort = median_ms(lambda g=confidence: torch.sort(g))
        ours = median_ms(lambda l=loss, g=confidence: abstain.aurc(l, g))
        print(
            f"| torch, {kind} | {n:.0e} | {ours:.1f} | {sort:.1f} | {ours / sort:.2f} | <= 1.5 |", flush=True
        )
        if kind == "uniform":
            parts("torch", array_api_compat.torch, loss, confidence)
            usual = median_ms(lambda l=loss, g=confidence: argsort_cumsum(l, g), 3)
            print(
                f"| torch argsort-cumsum, {kind} | {n:.0e} | {usual:.1f} | {sort:.1f} | {usual / sort:.2f} | |"
            )
        del loss, confidence
        torch.cuda.empty_cache()


def cupy_lines(n):
    """The same from cupy arrays."""
    try:
        import cupy
    except ImportError:
        print("| cupy is not installed | | | | | |")
        return
    loss, confidence = sample(n, "uniform")
    sort = median_ms(lambda: torch.sort(confidence))
    torch.cuda.empty_cache()
    arrays = cupy.from_dlpack(loss.to(torch.uint8)).astype(bool), cupy.from_dlpack(confidence)
    small = arrays[0][:1_000_000], arrays[1][:1_000_000]
    expected = abstain.aurc(cupy.asnumpy(small[0]), cupy.asnumpy(small[1]))
    assert abs(float(abstain.aurc(*small)) - expected) <= 1e-12 * expected
    parts("cupy", array_api_compat.array_namespace(arrays[0]), *arrays)
    ours = median_ms(lambda: abstain.aurc(*arrays))
    print(f"| cupy, uniform | {n:.0e} | {ours:.1f} | {sort:.1f} | {ours / sort:.2f} | <= 1.5 |", flush=True)


def parts(name, xp, loss, confidence):
    """Where the time goes."""
    keys = device._keys(xp, loss, confidence)
    ranked = xp.sort(keys)
    times = {
        "finite": median_ms(lambda: extremes(xp, confidence), 3),
        "keys": median_ms(lambda: device._keys(xp, loss, confidence), 3),
        "sort": median_ms(lambda: xp.sort(keys), 3),
        "block ends": median_ms(lambda: find_row_ends(xp, ranked), 3),
    }
    print(
        f"| parts, {name} | | " + ", ".join(f"{k} {v:.1f}" for k, v in times.items()) + " | | | |", flush=True
    )


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--n", type=int, default=10**9)
    n = options.parse_args().n
    card, today = torch.cuda.get_device_name(), datetime.date.today()
    print(f"{card}, {today}, torch {torch.__version__}, abstain {abstain.__version__}")
    check()
    print("\n| what | n | ms | torch.sort ms | ratio | bound |\n| --- | --- | --- | --- | --- | --- |")
    torch_lines(n)
    cupy_lines(n)


if __name__ == "__main__":
    main()
