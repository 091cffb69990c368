"""The usual loss on a GPU: what can be said of it without one. The kernels themselves: benchmarks/torch_gpu.py."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from abstain.torch import fused


def test_the_host_is_never_taken(monkeypatch):
    monkeypatch.setattr(fused.kernels, "AVAILABLE", True)
    assert not fused.can_compute(
        torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64), "harmonic", "mean", 0.0
    )


@pytest.mark.parametrize(
    ("logits", "target", "fit"),
    [
        ((1, 2), (1,), True),
        ((4096, 8192), (4096,), True),
        ((4097, 10), (4097,), False),
        ((10, 8193), (10,), False),
        ((0, 10), (0,), False),
        ((10, 1), (10,), False),
        ((10, 3), (9,), False),
        ((10, 3), (10, 3), False),
        ((10, 3, 4), (10, 4), False),
    ],
)
def test_only_small_batches_of_rows_fit(logits, target, fit):
    assert fused._shapes_fit(torch.Size(logits), torch.Size(target)) is fit


@pytest.mark.parametrize("n", [1, 31, 32, 33, 4096])
@pytest.mark.parametrize("classes", [2, 3, 10, 1000, 1024, 8192])
def test_tiles_cover_the_batch(n, classes):
    rows, columns, readers, weighers = fused._tiling(n, classes)
    assert columns >= classes
    assert columns.bit_count() == rows.bit_count() == 1
    assert readers[0] * rows >= n > (readers[0] - 1) * rows
    assert weighers[0] * 32 >= n
    assert weighers[0] <= 128  # `work` has room for 128 sums


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_the_differentiable_slope_is_that_of_weighted_cross_entropy(smoothing, reduction):
    generator = torch.Generator().manual_seed(0)
    n, classes = 7, 5
    logits = torch.randn(n, classes, generator=generator, dtype=torch.float64, requires_grad=True)
    target = torch.randint(0, classes, (n,), generator=generator)
    target[2] = -100
    work = torch.rand(5 * n + 129, generator=generator, dtype=torch.float64)
    weights = work[3 * n : 4 * n]
    upstream = torch.rand(n if reduction == "none" else (), generator=generator, dtype=torch.float64)
    losses = F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)
    (expected,) = torch.autograd.grad((losses * weights * upstream).sum(), logits, create_graph=True)
    slope = fused._differentiable_gradient(logits, target, work, upstream, -100, smoothing)
    torch.testing.assert_close(slope, expected, rtol=1e-12, atol=1e-14)

    direction = torch.randn(n, classes, generator=generator, dtype=torch.float64)
    second = [torch.autograd.grad((first * direction).sum(), logits)[0] for first in (slope, expected)]
    torch.testing.assert_close(*second, rtol=1e-12, atol=1e-14)
