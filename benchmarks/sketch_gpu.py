"""The sketch fed from CUDA tensors: is the truth inside its bounds, and what travels to the host?

    python benchmarks/sketch_gpu.py [--rows 1e8] [--chunks 8]

Prints a table for the documentation and exits with 1 when a promise is broken: the exact area (a float64 sort on
the device, written out here) lies within the bounds, the gap is at most 1e-3 relative, and no update sends more to
the host than the sketch's own size.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from abstain.engines import Sketch


def shapes(n: int, seed: int, device: str) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Loss and confidence of each distribution, on the device."""
    make = torch.Generator(device).manual_seed(seed)

    def uniform() -> torch.Tensor:
        return torch.rand(n, generator=make, device=device, dtype=torch.float64)

    smooth = uniform()
    tied = torch.floor(uniform() * 1000) / 1000
    saturated = torch.where(uniform() < 0.7, torch.ones_like(smooth), 1 - uniform() ** 6 * 0.9)
    skewed = 1 - uniform() ** 12
    found = {
        "smooth": smooth,
        "tied": tied,
        "saturated": saturated,
        "skewed": skewed,
        "sorted": smooth.sort()[0],
    }
    return {name: ((uniform() < 0.4 * (1 - c) + 0.01).double(), c) for name, c in found.items()}


def exact_area(loss: torch.Tensor, confidence: torch.Tensor) -> float:
    """AURC written out: mean over the samples of the selective risk at each one's own threshold."""
    ranked, order = torch.sort(confidence, descending=True)
    lost = torch.cumsum(loss[order], 0)
    last = torch.cat([ranked[1:] != ranked[:-1], torch.ones(1, dtype=torch.bool, device=loss.device)])
    ends = torch.nonzero(last).flatten()
    mass = torch.diff(ends + 1, prepend=torch.zeros(1, dtype=ends.dtype, device=loss.device))
    risks = lost[ends] / (ends + 1)
    return float((risks * mass).sum() / len(loss))


def bytes_to_host(work) -> int:
    """Bytes of the tensors that `work` brings to the host, counted where tensors leave their device."""
    taken = {"cpu": torch.Tensor.cpu, "item": torch.Tensor.item, "__bool__": torch.Tensor.__bool__,
             "__int__": torch.Tensor.__int__, "__float__": torch.Tensor.__float__,
             "tolist": torch.Tensor.tolist}  # fmt: skip
    total = 0

    def counted(real):
        def call(tensor, *given, **named):
            nonlocal total
            total += tensor.nbytes
            return real(tensor, *given, **named)

        return call

    try:
        for name, real in taken.items():
            setattr(torch.Tensor, name, counted(real))
        work()
    finally:
        for name, real in taken.items():
            setattr(torch.Tensor, name, real)
    return total


def _wait(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def row(name: str, loss: torch.Tensor, confidence: torch.Tensor, chunks: int) -> tuple[str, bool]:
    """A line of the table, and whether the promises hold."""
    parts = list(zip(loss.chunk(chunks), confidence.chunk(chunks), strict=True))
    sketch = Sketch()
    travelled = bytes_to_host(lambda: sketch.update(*parts[0]))
    _wait(loss)
    began = time.perf_counter()
    for part in parts[1:]:
        sketch.update(*part)
    _wait(loss)
    each = (time.perf_counter() - began) / max(len(parts) - 1, 1)
    began = time.perf_counter()
    torch.sort(parts[0][1])
    _wait(loss)
    sort = time.perf_counter() - began
    truth, found = exact_area(loss, confidence), sketch.aurc()
    gap, error = (found.high - found.low) / truth, abs(found.estimate - truth) / truth
    kept = found.low <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= found.high
    kept = (
        kept
        and gap <= 1e-3
        and error <= 1e-4
        and (travelled > 0 or not loss.is_cuda)
        and travelled <= 2 * sketch.size
    )
    cells = [
        name,
        f"{gap:.1e}",
        f"{error:.1e}",
        f"{travelled / 1e3:.0f} kB",
        f"{1e3 * each:.1f} ms",
        f"{1e3 * sort:.1f} ms",
    ]
    return f"| {' | '.join(cells)} |", kept


def main() -> int:
    """Run all distributions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--device", default="cuda", help='"cpu" runs the same checks without the point of it')
    given = parser.parse_args()
    name = torch.cuda.get_device_name() if given.device == "cuda" else given.device
    print(f"{name}, {given.rows:.0e} samples in {given.chunks} updates")
    print("| data | certified gap | point error | to the host per update | update | torch.sort of the same |")
    print("| --- | --- | --- | --- | --- | --- |")
    good = True
    for name, (loss, confidence) in shapes(int(given.rows), 1, given.device).items():
        line, kept = row(name, loss, confidence, given.chunks)
        print(line + ("" if kept else "  <- PROMISE BROKEN"), flush=True)
        good = good and kept
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
