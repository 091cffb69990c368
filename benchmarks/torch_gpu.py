"""PyTorch on a GPU: correctness first, then the times that `abstain.torch` promises. About three minutes.

    python benchmarks/torch_gpu.py [--samples 1000000000] [--part loss step metrics compiled]

Every time is a median, measured side by side with what it is compared to, in one process. The last column says
whether the promise is kept; the exit code is 1 if any line is not.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import itertools
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import abstain
from abstain.torch import AURC, AURCLoss, aurc_loss, bin_state, fused
from abstain.torch.metrics import bin_map

DEVICE = "cuda"
FAILED: list[str] = []
PARTS = ("loss", "step", "metrics", "compiled")


def line(name: str, value: str, promise: str = "", kept: bool | None = None) -> None:
    mark = "" if kept is None else ("kept" if kept else "MISSED")
    print(f"{name:<58} {value:<44} {promise:<22} {mark}", flush=True)
    if kept is False:
        FAILED.append(name)


def seconds(work, repeats: int = 7, inner: int = 20) -> float:
    """Median seconds of one call, wall clock, the device waited for."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(inner):
            work()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


def side_by_side(one, other, repeats: int = 7, inner: int = 30) -> tuple[float, float]:
    """Medians of two calls whose runs alternate."""
    pairs = [(seconds(one, 1, inner), seconds(other, 1, inner)) for _ in range(repeats)]
    return tuple(statistics.median(column) for column in zip(*pairs))


# correctness --------------------------------------------------------------------------------------------------------


def check_loss() -> None:
    torch.manual_seed(0)
    worst = 0.0
    for n in (1, 2, 37, 128, 4096, 5000):
        for estimator in ("harmonic", "log", "loo", "sele"):
            z = (torch.randn(n, 10) * 5).round(decimals=1)
            y = torch.randint(0, 10, (n,))
            y[n // 2 : n // 2 + n // 5] = -100
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                host = z.to(dtype).float().double().requires_grad_()
                card = z.to(dtype).to(DEVICE).requires_grad_()
                a, b = (
                    aurc_loss(host, y, estimator=estimator),
                    aurc_loss(card, y.to(DEVICE), estimator=estimator),
                )
                a.backward(), b.backward()
                a, b = a.item(), b.item()
                worst = max(worst, abs(a - b) / (abs(a) + 1e-6))
                # gradients come back in the dtype of the logits: compare those of float32 only
                if dtype is torch.float32:
                    worst = max(worst, float((host.grad - card.grad.double().cpu()).abs().max()) * n)
    line(
        "loss on the card against float64 on the CPU",
        f"largest difference {worst:.1e}",
        "<= 1e-3",
        worst <= 1e-3,
    )


@contextlib.contextmanager
def by_plain_torch():
    """The loss without its kernels."""
    takes = fused.can_compute
    fused.can_compute = lambda *_: False
    try:
        yield
    finally:
        fused.can_compute = takes


def batch(n: int, classes: int, dtype, how: str):
    z = torch.randn(n, classes, device=DEVICE) * 4
    y = torch.randint(0, classes, (n,), device=DEVICE)
    if how == "ties":
        z[1::2] = z[: n - 1 : 2].clone() if n > 1 else z[1::2]
        z[n // 2 :] = z[n // 2].clone()
    if how == "ignored":
        y[::3] = -100
    return z.to(dtype), y


def with_gradient(z, y, options: dict):
    z = z.detach().clone().requires_grad_()
    value = aurc_loss(z, y, **options)
    value.backward(
        torch.linspace(0.5, 2, value.numel(), device=DEVICE, dtype=value.dtype).reshape(value.shape)
    )
    return value.detach(), z.grad


def check_fused() -> None:
    """Values and gradients of the kernels beside those of plain torch from the same logits in float64."""
    torch.manual_seed(2)
    several = [{"estimator": e} for e in ("harmonic", "loo", "sele", "2sele")]
    several += [{"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.1}]
    for dtype, most in (
        (torch.float32, 1e-5),
        (torch.bfloat16, 1e-2),
        (torch.float16, 2e-3),
        (torch.float64, 1e-9),
    ):
        worst, used = 0.0, True
        chosen = several if dtype is torch.float32 else several[:1]
        sizes = itertools.product(
            (1, 2, 5, 128, 300, 1000, 4096), (2, 10, 1000), ("plain", "ties", "ignored")
        )
        for (n, classes, how), options in itertools.product(sizes, chosen):
            if (classes == 1000 and options is not several[0]) or (classes == 2 and chosen is not several):
                continue
            z, y = batch(n, classes, dtype, how)
            given = {"estimator": "harmonic", "reduction": "mean", "label_smoothing": 0.0} | options
            used = used and fused.can_compute(z, y, *given.values())
            value, slope = with_gradient(z, y, options)
            with by_plain_torch():
                expected, expected_slope = with_gradient(z.double(), y, options)
            parts = (value, expected, 1e-6, min(most, 1e-5)), (slope, expected_slope, 1 / n, most)
            for a, b, floor, close in parts:
                worst = max(worst, float((a.double() - b).abs().max() / (b.abs().max() + floor)) / close)
        text = f"largest difference {worst:.2g} of the {most:g} allowed"
        line(f"kernels of the loss = plain torch, {dtype}", text, "equal", used and worst <= 1)


def check_repeats() -> None:
    """The sum over programs has one order: the same bits each time."""
    z, y = batch(4096, 10, torch.float32, "plain")
    values = torch.stack([aurc_loss(z, y) for _ in range(200)])
    line("200 times the same batch", f"{len(values.unique())} value", "1 value", len(values.unique()) == 1)


def check_graph() -> None:
    torch.manual_seed(1)
    z, y = (
        torch.randn(256, 100, device=DEVICE, requires_grad=True),
        torch.randint(0, 100, (256,), device=DEVICE),
    )
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            aurc_loss(z, y).backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    z.grad = None
    with torch.cuda.graph(graph):
        value = aurc_loss(z, y)
        value.backward()
    with torch.no_grad():
        z.copy_(torch.randn(256, 100, device=DEVICE))
    z.grad.zero_()
    graph.replay()
    fresh = z.detach().clone().requires_grad_()
    expected = aurc_loss(fresh, y)
    expected.backward()
    same = torch.allclose(value, expected) and torch.allclose(z.grad, fresh.grad, atol=1e-7)
    line(
        "captured in a CUDA graph and replayed on new data",
        "equal" if same else "different",
        "equal",
        bool(same),
    )


def check_bins() -> None:
    rng = np.random.default_rng(0)
    for domain in ("unit", "real"):
        binmap = bin_map(2048, domain)
        g = rng.random(2_000_003) if domain == "unit" else rng.standard_normal(2_000_003) * 30
        for dtype in (torch.float32, torch.float64):
            confidence = torch.tensor(g, dtype=dtype, device=DEVICE)
            confidence[::5] = 0.75
            loss = torch.tensor(rng.random(len(g)) < 0.1, device=DEVICE)
            expected = bin_state.empty_state(binmap.size, DEVICE)
            bin_state.add_with_torch(expected, binmap, loss, confidence, confidence)
            general = bin_state.empty_state(binmap.size, DEVICE)
            bin_state.add_with_general_kernel(general, binmap, loss.view(torch.uint8), confidence, confidence)
            same = all(torch.equal(a, b) for a, b in zip(general, expected))
            line(f"general kernel = plain torch ({domain}, {dtype})", str(same), "equal", same)
            if dtype is torch.float32:
                works = bin_state._lean_kernel_works(str(confidence.device), binmap)
                lean = bin_state.empty_state(binmap.size, DEVICE)
                bin_state.add_with_lean_kernel(lean, binmap, loss, confidence)
                same = works and all(torch.equal(a, b) for a, b in zip(lean, expected))
                line(f"lean kernel = plain torch ({domain}, {dtype})", str(same), "equal", same)


def check_metric() -> None:
    rng = np.random.default_rng(1)
    g = rng.random(1_000_000, dtype=np.float32)
    l = rng.random(len(g)) < 0.3 * (1 - g)
    g[::3] = np.round(g[::3], 2)
    expected = abstain.aurc(l, g)
    got = float(abstain.aurc(torch.tensor(l, device=DEVICE), torch.tensor(g, device=DEVICE)))
    line(
        "exact metric on the card against numpy",
        f"{got:.12f} {expected:.12f}",
        "1e-12",
        abs(got - expected) < 1e-12,
    )


# times --------------------------------------------------------------------------------------------------------------


def backward_of(loss, logits, target):
    def work() -> None:
        logits.grad = None
        loss(logits, target).backward()

    return work


def time_loss(compiled: bool) -> None:
    grid = [(n, c) for n in (128, 512, 1024, 4096) for c in (10, 100, 1000)]
    if compiled:
        grid = [(128, 10), (128, 1000), (4096, 10), (4096, 1000)]
    most = 2.0 if compiled else 3.0
    for n, classes in grid:
        plain, ours = F.cross_entropy, AURCLoss()
        if compiled:
            torch._dynamo.reset()
            plain = torch.compile(lambda z, y: F.cross_entropy(z, y), fullgraph=True, dynamic=False)
            ours = torch.compile(ours, fullgraph=True, dynamic=False)
        z = torch.randn(n, classes, device=DEVICE, requires_grad=True)
        y = torch.randint(0, classes, (n,), device=DEVICE)
        a, b = side_by_side(backward_of(plain, z, y), backward_of(ours, z, y), repeats=9 if compiled else 41)
        kind = "compiled" if compiled else "eager"
        text = f"{b * 1e3:.3f} ms against {a * 1e3:.3f} ms: {b / a:.2f}x"
        line(f"loss {kind}, {n} samples, {classes} classes", text, f"<= {most:g}x", b / a <= most)


def replayed(loss, z, y) -> float:
    """Seconds of forward and backward in a CUDA graph: what the card needs, the host left out."""
    work = backward_of(loss, z, y)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return seconds(graph.replay, 7, 200)


def time_replayed() -> None:
    for n, classes in ((128, 10), (512, 100), (1024, 100), (4096, 1000)):
        z = torch.randn(n, classes, device=DEVICE, requires_grad=True)
        y = torch.randint(0, classes, (n,), device=DEVICE)
        a, b = replayed(F.cross_entropy, z, y), replayed(AURCLoss(), z, y)
        text = f"{b * 1e6:.1f} us against {a * 1e6:.1f} us: {b / a:.2f}x"
        line(f"  in a CUDA graph, {n} samples, {classes} classes", text)


def time_step(size: int, amp: bool) -> None:
    from torchvision.models import resnet18

    torch.manual_seed(0)
    model = resnet18(num_classes=10).to(DEVICE, memory_format=torch.channels_last)
    if size == 32:
        model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False).to(DEVICE)
        model.maxpool = torch.nn.Identity()
    optimiser = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    x = torch.randn(128, 3, size, size, device=DEVICE).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (128,), device=DEVICE)

    def step(criterion) -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=amp):
            loss = criterion(model(x), y)
        loss.backward()
        optimiser.step()

    plain, ours = torch.nn.CrossEntropyLoss(), AURCLoss()
    # the small images keep the host busy, not the card: one slow spell of the host must not decide, so many short turns
    a, b = side_by_side(functools.partial(step, plain), functools.partial(step, ours), repeats=41, inner=5)
    kind = "bfloat16 autocast" if amp else "float32"
    text = f"{b * 1e3:.2f} ms against {a * 1e3:.2f} ms: {b / a:.3f}x"
    line(f"ResNet-18 step, batch 128, {size} x {size}, {kind}", text, "<= 1.05x", b / a <= 1.05)


def time_exact(n: int) -> None:
    confidence = torch.rand(n, device=DEVICE)
    target = (torch.rand(n, device=DEVICE) < 0.3 * (1 - confidence)).to(torch.uint8)
    metric = AURC()
    metric.update(torch.zeros_like(target), target, confidence=confidence)
    sort = functools.partial(torch.sort, confidence)

    def exact():
        metric._computed = None
        return metric.compute()

    a, b = side_by_side(sort, exact, repeats=5, inner=1)
    text = f"{b * 1e3:.1f} ms against torch.sort {a * 1e3:.1f} ms: {b / a:.2f}x"
    line(f"exact metric, {n:.0e} samples, 0/1 loss", text, "<= 0.95x", b / a <= 0.95)


def time_bins(n: int) -> None:
    source = torch.rand(n, device=DEVICE)
    moved = 8 * n / seconds(functools.partial(torch.empty_like(source).copy_, source), 5, 3)
    loss = torch.rand(n, device=DEVICE) < 0.1
    binmap = bin_map(2048, "unit")
    state = bin_state.empty_state(binmap.size, DEVICE)
    cases = {
        "uniform": source,
        "confident (1 - u^4)": 1 - source**4,
        "all equal": torch.full_like(source, 0.9),
    }
    for name, confidence in cases.items():
        took = seconds(functools.partial(bin_state.add, state, binmap, loss, confidence), 5, 2)
        share = 5 * n / took / moved
        text = f"{took * 1e3:.2f} ms, {5 * n / took / 1e12:.2f} of {moved / 1e12:.2f} TB/s: {share:.0%}"
        line(
            f"constant-memory update, {n:.0e} samples, {name}",
            text,
            ">= 30% (first line)",
            share >= 0.3 or name != "uniform",
        )
    took = seconds(lambda: bin_state.add_with_general_kernel(state, binmap, loss, source, source), 3, 1)
    line("  the same by the general kernel", f"{took * 1e3:.2f} ms, {5 * n / took / 1e12:.2f} TB/s")


def time_pixels(n: int) -> None:
    metric = AURC(thresholds=2048).to(DEVICE)
    logits = (torch.randn(4, 19, 512, 1024, device=DEVICE) * 4).bfloat16()
    target = torch.where(torch.rand(4, 512, 1024, device=DEVICE) < 0.9, logits.argmax(1), 0)
    metric.update(logits, target)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    start, seen, peaks = time.perf_counter(), 0, []
    while seen < n:
        metric.update(logits, target)
        seen += target.numel()
        peaks.append(torch.cuda.max_memory_allocated() - before)
    low, high = (float(x) for x in metric.compute_bounds()[1:])
    took = time.perf_counter() - start
    constant = peaks[0] == peaks[-1]
    text = f"{took:.1f} s, scratch {peaks[-1] / 2**20:.0f} MiB from the first batch to the last"
    line(f"segmentation, {seen:.1e} pixels of 19 classes", text, "constant memory", constant)
    line("  certified AURC of those pixels", f"[{low:.6f}, {high:.6f}]")


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--samples", type=int, default=10**9)
    options.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    chosen = options.parse_args()
    if not torch.cuda.is_available():
        print("This benchmark needs a CUDA device.")
        return 2
    triton = __import__("triton").__version__ if bin_state.kernels.AVAILABLE else "none"
    print(f"{torch.cuda.get_device_name()}, {datetime.date.today()}, torch {torch.__version__}, triton {triton}, "
          f"Python {sys.version.split()[0]}, abstain {abstain.__version__}")  # fmt: skip
    steps = [functools.partial(time_step, 224, False), functools.partial(time_step, 32, True)]
    sizes = [functools.partial(part, chosen.samples) for part in (time_bins, time_exact, time_pixels)]
    checks = [check_loss, check_fused, check_repeats, check_graph]
    parts = {
        "loss": [*checks, functools.partial(time_loss, False), time_replayed],
        "step": steps,
        "metrics": [check_bins, check_metric, *sizes],
        "compiled": [functools.partial(time_loss, True)],
    }
    for part in [work for name in chosen.part for work in parts[name]]:
        try:
            part()
        except Exception as problem:
            name = getattr(part, "__name__", getattr(getattr(part, "func", None), "__name__", "part"))
            line(name, f"{type(problem).__name__}: {problem}"[:500], "", False)
        torch.cuda.empty_cache()
    print(f"{len(FAILED)} promises missed" if FAILED else "all promises kept")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
