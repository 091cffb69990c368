"""The loss against slow definitions and against the numpy core, at any batch size."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import torch
import torch.nn.functional as F

import abstain
from abstain.torch import AURCLoss, aurc_loss, smooth_zero_one

ESTIMATORS = ("harmonic", "log", "loo", "sele", "2sele")


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
def test_equals_the_definition(batch, estimator, n):
    logits, target = batch(n)
    expected = oracles.aurc_of_logits(logits.numpy(), target.numpy(), estimator)
    assert aurc_loss(logits, target, estimator=estimator).item() == pytest.approx(
        expected, rel=1e-12, abs=1e-15
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n", [1, 2, 128, 129, 700, 5000])  # both sides of every road's limit
@pytest.mark.parametrize("tied", [True, False])
def test_equals_the_numpy_core_at_any_batch_size(batch, estimator, n, tied):
    logits, target = batch(n, tied=tied)
    losses = F.cross_entropy(logits, target, reduction="none").numpy()
    expected = abstain.aurc(losses, abstain.scores.max_softmax(logits.numpy()), estimator=estimator)
    assert aurc_loss(logits, target, estimator=estimator).item() == pytest.approx(
        expected, rel=1e-11, abs=1e-15
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_all_roads_agree(batch, estimator, monkeypatch):
    logits, target = batch(300)
    target[::7] = -100
    values = []
    for most in (0, 1000):
        monkeypatch.setattr("abstain.torch.loss.MAX_PAIRWISE_ON_CPU", most)
        values.append(aurc_loss(logits, target, estimator=estimator, reduction="none"))
    torch.testing.assert_close(values[0], values[1], rtol=1e-12, atol=1e-14)


def test_short_last_batch_has_its_own_weights(batch):
    """The published loss keeps the weights of one batch size; ours must not."""
    criterion = AURCLoss()
    long, short = batch(64), batch(5)
    criterion(*long)
    expected = oracles.aurc_of_logits(short[0].numpy(), short[1].numpy(), "harmonic")
    assert criterion(*short).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [50, 600])
def test_order_of_the_batch_does_not_matter(batch, n):
    logits, target = batch(n)
    order = torch.randperm(n)
    each = aurc_loss(logits, target, reduction="none")
    torch.testing.assert_close(aurc_loss(logits[order], target[order], reduction="none"), each[order])


def test_constant_confidence_is_the_plain_mean():
    logits = torch.zeros(9, 3)
    target = torch.arange(9) % 3
    assert aurc_loss(logits, target).item() == pytest.approx(np.log(3), rel=1e-6)


@pytest.mark.parametrize(
    "score", ["max_logit", "softmax_margin", "negative_entropy", "negative_gini", "energy"]
)
def test_scores_rank_as_the_library_ranks(batch, score):
    logits, target = batch(90, tied=False)
    confidence = getattr(abstain.scores, score)(logits.numpy())
    losses = F.cross_entropy(logits, target, reduction="none").numpy()
    assert aurc_loss(logits, target, score=score).item() == pytest.approx(
        abstain.aurc(losses, confidence), rel=1e-12
    )


def test_own_score_and_own_criterion(batch):
    logits, target = batch(30, tied=False)
    got = aurc_loss(logits, target, score=lambda z: z[:, 0], criterion=smooth_zero_one)
    p = logits.softmax(1)
    losses = (1 - p[torch.arange(30), target]).numpy()
    assert got.item() == pytest.approx(abstain.aurc(losses, logits[:, 0].numpy()), rel=1e-12)


def test_smooth_zero_one_keeps_its_digits():
    logits = torch.tensor([[40.0, 0.0]], dtype=torch.float64)
    assert smooth_zero_one(logits, torch.tensor([0])).item() == pytest.approx(np.exp(-40), rel=1e-10)


def test_smooth_zero_one_of_class_probabilities_is_the_mean_over_classes():
    logits = torch.randn(6, 4, 5, dtype=torch.float64)
    probs = torch.rand(6, 4, 5, dtype=torch.float64).softmax(1)
    classes = [smooth_zero_one(logits, torch.full((6, 5), k)) * probs[:, k] for k in range(4)]
    torch.testing.assert_close(smooth_zero_one(logits, probs), sum(classes))
    assert AURCLoss(criterion=smooth_zero_one)(logits, probs) > 0


def test_reductions(batch):
    logits, target = batch(21)
    each = aurc_loss(logits, target, reduction="none")
    assert each.shape == target.shape
    alpha = oracles.alphas_of_keys(oracles.doubt(logits.numpy()), "harmonic")
    losses = oracles.cross_entropy(logits.numpy(), target.numpy())
    np.testing.assert_allclose(each.numpy(), np.asarray(alpha) * losses, rtol=1e-12)
    assert aurc_loss(logits, target, reduction="sum").item() == pytest.approx(each.sum().item())
    assert aurc_loss(logits, target).item() == pytest.approx(each.mean().item())


@pytest.mark.parametrize("n", [24, 900])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_ignored_targets_are_as_if_absent(batch, n, estimator):
    logits, target = batch(n)
    gone = torch.arange(n) % 4 == 1
    marked = torch.where(gone, 77, target)
    for reduction in ("mean", "sum"):
        a = aurc_loss(logits, marked, ignore_index=77, estimator=estimator, reduction=reduction)
        b = aurc_loss(logits[~gone], target[~gone], estimator=estimator, reduction=reduction)
        assert a.item() == pytest.approx(b.item(), rel=1e-11)
    each = aurc_loss(logits, marked, ignore_index=77, estimator=estimator, reduction="none")
    assert torch.all(each[gone] == 0)


@pytest.mark.parametrize("rank", ["hard", "soft"])
@pytest.mark.parametrize("criterion", [None, smooth_zero_one])
def test_nothing_but_ignored_targets_is_no_loss_and_no_gradient(rank, criterion):
    logits = torch.randn(6, 3, requires_grad=True)
    loss = aurc_loss(logits, torch.full((6,), -100), rank=rank, criterion=criterion)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(logits.grad, torch.zeros_like(logits))


def test_pixels_are_samples():
    logits, target = torch.randn(2, 5, 6, 7, dtype=torch.float64), torch.randint(0, 5, (2, 6, 7))
    target[0, :2] = -100
    rows = logits.movedim(1, -1).reshape(-1, 5)
    assert aurc_loss(logits, target).item() == pytest.approx(
        aurc_loss(rows, target.reshape(-1)).item(), rel=1e-12
    )
    each = aurc_loss(logits, target, reduction="none", score="negative_entropy")
    flat = aurc_loss(rows, target.reshape(-1), reduction="none", score="negative_entropy")
    assert each.shape == target.shape
    torch.testing.assert_close(each.reshape(-1), flat)


@pytest.mark.parametrize("estimator", ["harmonic", "sele"])
@pytest.mark.parametrize("n", [40, 600])
def test_class_weights_are_sample_weights(batch, estimator, n):
    logits, target = batch(n)
    weight = torch.tensor([0.5, 2.0, 1.0, 3.5], dtype=torch.float64)
    losses = F.cross_entropy(logits, target, reduction="none").numpy()
    key = abstain.scores.max_softmax(logits.numpy())
    expected = abstain.aurc(losses, key, estimator=estimator, sample_weight=weight[target].numpy())
    assert aurc_loss(logits, target, estimator=estimator, weight=weight).item() == pytest.approx(
        expected, rel=1e-11
    )


def test_label_smoothing_is_that_of_cross_entropy(batch):
    logits, target = batch(33)
    losses = F.cross_entropy(logits, target, reduction="none", label_smoothing=0.1).numpy()
    expected = abstain.aurc(losses, abstain.scores.max_softmax(logits.numpy()))
    assert aurc_loss(logits, target, label_smoothing=0.1).item() == pytest.approx(expected, rel=1e-12)


def test_class_probabilities_as_targets(batch):
    """Mixup and distillation: a target may be a distribution."""
    logits, target = batch(20)
    one_hot = F.one_hot(target, 4).double()
    assert aurc_loss(logits, one_hot).item() == pytest.approx(aurc_loss(logits, target).item(), rel=1e-12)
    soft = 0.5 * one_hot + 0.5 * one_hot.flip(0)
    losses = F.cross_entropy(logits, soft, reduction="none").numpy()
    expected = abstain.aurc(losses, abstain.scores.max_softmax(logits.numpy()))
    assert aurc_loss(logits, soft).item() == pytest.approx(expected, rel=1e-12)
    assert aurc_loss(logits, soft, ignore_index=255).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("mix", [0.0, 0.3, 1.0])
def test_mix_is_between_aurc_and_the_plain_mean(batch, mix):
    logits, target = batch(50)
    target[:9] = -100
    expected = (1 - mix) * aurc_loss(logits, target) + mix * F.cross_entropy(logits, target)
    assert aurc_loss(logits, target, mix=mix).item() == pytest.approx(expected.item(), rel=1e-12)
    assert aurc_loss(logits, target, mix=torch.tensor(mix)).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_labels_of_any_integer_dtype(batch, dtype):
    """Bytes must not be read as a mask where class weights are looked up."""
    logits, target = batch(4)
    target[0] = 7
    for weight in (None, torch.tensor([1.0, 2.0, 3.0, 4.0])):
        options = {"weight": weight, "ignore_index": 7}
        assert aurc_loss(logits, target.to(dtype), **options) == aurc_loss(logits, target, **options)
