"""Gradients: through losses only (hard ranks), or through ranks too (soft)."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import torch
import torch.nn.functional as F

from abstain.torch import AURCLoss, aurc_loss, smooth_zero_one

ESTIMATORS = ("harmonic", "log", "loo", "sele")


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "options", [{}, {"criterion": smooth_zero_one}, {"mix": 0.3}, {"label_smoothing": 0.2}]
)
def test_gradcheck_hard(batch, estimator, options):
    logits, target = batch(6, tied=False)  # untied, so that no rank changes within the step of the check
    assert torch.autograd.gradcheck(
        lambda z: aurc_loss(z, target, estimator=estimator, **options), logits.requires_grad_()
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("score", ["max_softmax", "softmax_margin", "negative_entropy", "max_logit"])
def test_gradcheck_soft(batch, estimator, score):
    logits, target = batch(6, tied=False)
    target[2] = -100
    assert torch.autograd.gradcheck(
        lambda z: aurc_loss(z, target, estimator=estimator, rank="soft", temperature=0.7, score=score),
        logits.requires_grad_(),
    )


def test_gradcheck_of_the_batch_by_sorting_and_of_pixels(monkeypatch):
    monkeypatch.setattr("abstain.torch.loss.MAX_PAIRWISE_ON_CPU", 0)
    logits, target = (
        torch.randn(2, 3, 2, 2, dtype=torch.float64, requires_grad=True),
        torch.randint(0, 3, (2, 2, 2)),
    )
    assert torch.autograd.gradcheck(lambda z: aurc_loss(z, target), logits)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_gradient_flows_through_hard_ranks(batch, estimator):
    logits, target = batch(12)
    alpha = torch.tensor(oracles.alphas_of_keys(oracles.doubt(logits.numpy()), estimator))
    logits.requires_grad_()
    aurc_loss(logits, target, estimator=estimator).backward()
    by_hand = alpha[:, None] * (logits.detach().softmax(1) - F.one_hot(target, 4)) / 12
    torch.testing.assert_close(logits.grad, by_hand)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_soft_becomes_hard_as_it_cools(batch, estimator):
    logits, target = batch(25, tied=False)
    hard = aurc_loss(logits, target, estimator=estimator).item()
    gaps = [
        abs(aurc_loss(logits, target, estimator=estimator, rank="soft", temperature=t).item() - hard)
        for t in (1.0, 1e-1, 1e-6)
    ]
    assert gaps[0] > 1e-3  # it is another loss when warm
    assert gaps[2] < 1e-9


def test_soft_ranks_push_on_confidence():
    """One right and one wrong sample of equal loss gradients: the soft loss moves the confidence of both."""
    logits = torch.tensor([[2.0, 0.0], [1.9, 0.0]], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([1, 0])
    soft = torch.autograd.grad(aurc_loss(logits, target, rank="soft", temperature=0.5), logits)[0]
    hard = torch.autograd.grad(aurc_loss(logits, target), logits)[0]
    assert not torch.allclose(soft, hard, atol=1e-3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e3, 1e30])
@pytest.mark.parametrize("rank", ["hard", "soft"])
def test_gradients_are_finite_at_extremes(estimator, scale, rank):
    logits = (torch.randn(16, 5) * scale).requires_grad_()
    aurc_loss(logits, torch.arange(16) % 5, estimator=estimator, rank=rank).backward()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n", [200, 3000])
def test_half_precision_keeps_the_order(dtype, n):
    """The weights of half-precision logits are those of the same numbers in exact arithmetic."""
    logits = (torch.randn(n, 8) * 6).to(dtype)
    target = torch.randint(0, 8, (n,))
    ones = lambda z, y: torch.ones(len(y), dtype=torch.float64)  # noqa: E731 - each sample's weight itself
    got = aurc_loss(logits, target, criterion=ones, reduction="none")
    keys = [float(k) for k in oracles.doubt(logits.double().numpy())]
    order = np.argsort(keys)
    assert np.all(np.diff(got.numpy()[order]) >= 0)
    assert len(np.unique(got)) >= 0.9 * len(np.unique(keys))


def test_saturated_softmax_is_still_ordered():
    """In float32 all these maxima are 1.0; the weights must still differ."""
    gaps = torch.linspace(20, 90, 15)
    logits = torch.stack([gaps, torch.zeros(15)], dim=1)
    assert torch.all(logits.softmax(1).max(1).values == 1)
    ones = lambda z, y: torch.ones(len(y))  # noqa: E731
    for z in (logits, logits.bfloat16()):
        each = aurc_loss(z, torch.zeros(15, dtype=torch.int64), criterion=ones, reduction="none")
        assert torch.all(each.diff() > 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_differences_beyond_float32_are_still_ordered(dtype):
    """The odds against the winner are e^-1 + e^-k here: in float32 all the same, in truth falling with k."""
    k = torch.arange(18.0, 30.0)
    logits = torch.stack([torch.zeros(12), -torch.ones(12), -k], dim=1).to(dtype)
    ones = lambda z, y: torch.ones(len(y))  # noqa: E731
    each = aurc_loss(logits, torch.zeros(12, dtype=torch.int64), criterion=ones, reduction="none")
    assert torch.all(each.diff() > 0)


def test_autocast_gives_float32_and_the_same_ranks():
    layer, x, y = torch.nn.Linear(16, 4), torch.randn(32, 16), torch.randint(0, 4, (32,))
    with torch.autocast("cpu", torch.bfloat16):
        logits = layer(x)
        loss = AURCLoss()(logits, y)
    assert logits.dtype is torch.bfloat16
    assert loss.dtype is torch.float32
    assert loss.item() == pytest.approx(aurc_loss(logits.detach().double(), y).item(), rel=1e-6)
    loss.backward()
    assert torch.isfinite(layer.weight.grad).all()


def test_accumulated_gradients_are_the_mean_of_micro_batches(batch):
    """What accumulation means: each micro-batch is ranked by itself."""
    logits, target = batch(32, tied=False)
    logits.requires_grad_()
    for a in range(0, 32, 8):
        (aurc_loss(logits[a : a + 8], target[a : a + 8]) / 4).backward()
    got, logits.grad = logits.grad, None
    parts = [aurc_loss(logits[a : a + 8], target[a : a + 8]) for a in range(0, 32, 8)]
    torch.stack(parts).mean().backward()
    torch.testing.assert_close(got, logits.grad)
    whole = torch.autograd.grad(aurc_loss(logits, target), logits)[0]
    assert not torch.allclose(got, whole, atol=1e-4)


def test_exact_accumulation_by_a_first_pass_for_the_ranks(batch):
    """As documented: rank all confidences first, then weigh the plain losses of each micro-batch."""
    import abstain

    logits, target = batch(32)
    weights = abstain.metrics.weights(abstain.scores.max_softmax(logits))
    logits.requires_grad_()
    for a in range(0, 32, 8):
        part = slice(a, a + 8)
        losses = F.cross_entropy(logits[part], target[part], reduction="none")
        (torch.dot(weights[part], losses) / 32).backward()
    got, logits.grad = logits.grad, None
    aurc_loss(logits, target).backward()
    torch.testing.assert_close(got, logits.grad)


@pytest.mark.parametrize("score", ["max_softmax", "softmax_margin", "negative_entropy", "negative_gini"])
def test_rows_with_one_possible_class_leave_the_soft_gradient_finite(score):
    """Two such rows are surer than any other and equal: the limit of logits that are merely far below."""
    base = torch.tensor([[1.0, 0, 0], [0, 2, 0], [3, 0, 0], [0, 1, 0]], dtype=torch.float64)
    target = torch.tensor([1, 1, 0, 0])
    found = []
    for low in (-torch.inf, -5000.0):
        logits = base.clone()
        logits[0] = torch.tensor([low, 1, low])
        logits[2] = torch.tensor([3, low, low])
        logits.requires_grad_()
        loss = aurc_loss(logits, target, rank="soft", temperature=0.5, score=score)
        loss.backward()
        found.append((loss.item(), torch.nan_to_num(logits.grad[[1, 3]], nan=99.0)))
        assert torch.isfinite(logits.grad).all()
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    assert torch.allclose(found[0][1], found[1][1])
