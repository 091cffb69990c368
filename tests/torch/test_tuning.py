"""Tuning a finished network: the mean of its weights, batch norm anew, and a verdict that can be "no"."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import abstain
from abstain.errors import InputError
from abstain.torch import fine_tune
from abstain.torch.tuning import Averaging

ROOT = Path(__file__).parents[2]


def data(seed, n=600, classes=3):
    """Overlapping clouds, in batches of 100."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=generator)
    x = torch.eye(classes, 6)[y] * 1.5 + torch.randn(n, 6, generator=generator)
    return list(zip(x.split(100), y.split(100)))


def small(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def aurc_of(network, batches):
    """By numpy alone."""
    network.eval()
    with torch.no_grad():
        logits = torch.cat([network(x) for x, _ in batches]).numpy()
    y = torch.cat([y for _, y in batches]).numpy()
    p = np.exp(logits - logits.max(1, keepdims=True))
    sure = (p / p.sum(1, keepdims=True)).max(1)
    wrong = (logits.argmax(1) != y)[np.argsort(-sure, kind="stable")]
    return np.mean(np.cumsum(wrong) / np.arange(1, len(wrong) + 1))


def test_the_weights_are_the_mean_over_epochs_and_batch_norm_is_that_of_the_training_data():
    network, train = small(), data(1)
    averaging = Averaging("fine_tune", network, data(2), epochs=3, looks=1, level=0.95)
    states = []
    for step in range(3):
        with torch.no_grad():
            for p in network.parameters():
                p += 0.1 * (step + 1) * torch.randn_like(p)
        states.append({k: v.clone() for k, v in network.named_parameters()})
        averaging.after_epoch(train)
    mean = averaging.averaged.module
    for name, p in mean.named_parameters():
        torch.testing.assert_close(p, sum(s[name] for s in states) / 3)
    hidden = mean[0](torch.cat([x for x, _ in train]))
    torch.testing.assert_close(mean[1].running_mean, hidden.mean(0), rtol=1e-4, atol=1e-5)
    variances = torch.stack([mean[0](x).var(0) for x, _ in train])  # of each batch, as torch averages them
    torch.testing.assert_close(mean[1].running_var, variances.mean(0), rtol=1e-4, atol=1e-5)


def test_a_start_that_is_worse_loses_and_the_network_holds_the_averaged_weights():
    train, held_out = data(1), data(2, 2000)
    network = small().eval()  # not trained at all
    before = aurc_of(network, held_out)
    found = fine_tune(network, train, held_out, epochs=8, rate=0.05)
    assert found.improved
    assert found.difference.high < 0
    assert found.difference.estimate_b == pytest.approx(before, rel=1e-6)
    assert found.difference.estimate_a == pytest.approx(aurc_of(network, held_out), rel=1e-6)
    assert dict(found.looks)[found.epoch] == min(value for _, value in found.looks)
    assert [epoch for epoch, _ in found.looks] == [2, 4, 6, 8]
    assert found.difference.level == pytest.approx(1 - 0.05 / 4)
    assert "lower than the start" in str(found)
    assert not network.training


def test_a_start_that_is_no_worse_is_kept_bit_by_bit():
    train, held_out = data(1), data(2)
    network = small()
    fine_tune(network, train, held_out, epochs=10)
    before = copy.deepcopy(network.state_dict())
    labels = [(x, torch.randint(0, 3, y.shape)) for x, y in train]  # nothing to learn there
    found = fine_tune(network, labels, held_out, epochs=2, looks=2)
    assert not found.improved
    assert "start, which is kept" in str(found)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_looks_are_spread_over_the_epochs_and_the_last_epoch_is_one_of_them():
    for epochs, looks, due in ((20, 4, [5, 10, 15, 20]), (3, 4, [1, 2, 3]), (7, 2, [4, 7]), (1, 1, [1])):
        averaging = Averaging("fine_tune", small(), data(2), epochs=epochs, looks=looks, level=0.95)
        assert averaging.epochs_to_evaluate == set(due)


def test_a_network_in_evaluation_mode_is_trained():
    network = small().eval()
    Averaging("fine_tune", network, data(2), epochs=2, looks=4, level=0.95)
    assert all(part.training for part in network.modules())


def test_a_run_that_ends_early_is_judged_where_it_ended():
    averaging = Averaging("fine_tune", small(), data(2), epochs=20, looks=4, level=0.95)
    averaging.after_epoch(data(1))
    found = averaging.finish(data(1))
    assert [epoch for epoch, _ in found.looks] == [1]
    assert found.difference.level == pytest.approx(0.95)


class Answers(nn.Module):
    """A model that takes keywords and gives an object with logits, classes last."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(6, 3)

    def forward(self, features, mask=None):
        return SimpleNamespace(logits=self.line(features))


def test_batches_may_be_mappings_and_padding_does_not_count():
    pairs = data(3)
    train = [{"features": x, "labels": y} for x, y in pairs]
    padded = [{"features": x, "labels": torch.where(torch.arange(len(y)) < 50, y, -100)} for x, y in pairs]
    torch.manual_seed(0)
    model = Answers()
    found = fine_tune(model, train, padded, epochs=4)
    assert found.difference.n == 300
    with torch.no_grad():
        logits = torch.cat([model.line(x[:50]) for x, _ in pairs]).numpy()
    y = torch.cat([y[:50] for _, y in pairs]).numpy()
    now = abstain.aurc(logits.argmax(1) != y, abstain.scores.max_softmax(logits))
    assert now == pytest.approx(
        found.difference.estimate_a if found.improved else found.difference.estimate_b
    )


@pytest.mark.parametrize("options", [{"epochs": 0}, {"looks": 0}, {"level": 1.0}, {"mix": 2.0}])
def test_nonsense_is_refused_by_name(options):
    with pytest.raises(InputError, match=next(iter(options))):
        fine_tune(small(), data(1), data(2), **options)


def test_the_example_of_the_page_is_short():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "train.md").read_text(), re.DOTALL)
    lines = [line for line in blocks[0].splitlines() if line.strip()]
    assert "fine_tune(" in blocks[0]
    assert "load_digits" in blocks[0]
    assert len(lines) <= 15
