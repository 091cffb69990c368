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
from torch.utils.data import DataLoader, Subset, SubsetRandomSampler, TensorDataset

import abstain
from abstain.errors import InputError, ShapeError
from abstain.torch import Tuned, fine_tune
from abstain.torch.tuning import Averaging, check_held_out_apart

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


@pytest.mark.parametrize("options", [{"epochs": 0}, {"looks": 0}, {"level": 1.0}, {"mix": 2.0}, {"rate": 0}])
def test_nonsense_is_refused_by_name(options):
    with pytest.raises(InputError, match=next(iter(options))):
        fine_tune(small(), data(1), data(2), **options)


class Failing:
    """Batches that raise when they are read for the n-th time."""

    def __init__(self, batches, n, problem):
        self.batches, self.reads_left, self.problem = batches, n, problem

    def __iter__(self):
        self.reads_left -= 1
        if self.reads_left <= 0:
            raise self.problem
        return iter(self.batches)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"held_out": Failing(data(2), 4, KeyboardInterrupt())}, KeyboardInterrupt),  # at the second look
        ({"train": Failing(data(1), 3, OSError("disk"))}, OSError),
        ({"rate": 1e9}, InputError),  # diverges
        ({"held_out": [(torch.zeros(4, 6), torch.zeros(4, 3))]}, ShapeError),  # soft labels: before training
    ],
    ids=["interrupted", "loader", "diverged", "before training"],
)
@pytest.mark.parametrize("training", [True, False])
def test_the_start_and_its_mode_come_back_when_anything_is_raised(changes, error, training):
    network = small().train(training)
    network[1].eval()  # frozen batch norm
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(error):
        fine_tune(network, **{"train": data(1), "held_out": data(2), "epochs": 4, **copy.deepcopy(changes)})
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert [part.training for part in network.modules()] == [training, training, False, training, training]


class Again:
    """Batches that may be read once, then are empty: no plain iterator, so it shows only when it is read again."""

    def __init__(self, batches):
        self.batches = list(batches)

    def __iter__(self):
        while self.batches:
            yield self.batches.pop(0)


class NeverRead:
    def __iter__(self):
        raise AssertionError("training has begun")


@pytest.mark.parametrize("make", [iter, Again, lambda batches: (batch for batch in batches), lambda _: []])
def test_batches_that_can_be_read_only_once_are_refused(make):
    with pytest.raises(InputError, match=r"`train` .*list"):
        fine_tune(small(), make(data(1)), data(2), epochs=2)
    with pytest.raises(InputError, match="`held_out` "):  # before the first epoch
        fine_tune(small(), NeverRead(), make(data(2)), epochs=2)


def as_loader(batches, dataset=None, **options):
    dataset = TensorDataset(*(torch.cat(part) for part in zip(*batches))) if dataset is None else dataset
    return DataLoader(dataset, 100, **options)


def with_index(batches):
    return [(x, torch.arange(len(y)) % 3, y) for x, y in batches]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (with_index, "3 parts instead of 2"),
        (lambda batches: [(x,) for x, _ in batches], "1 part instead of 2"),
        (lambda batches: next(iter(batches)), r"one tensor, of shape \(100, 6\).*TensorDataset"),
        (lambda batches: as_loader(batches).dataset, r"and a tensor of shape \(\)\."),
        (lambda batches: [(x.numpy(), y.numpy()) for x, y in batches], "ndarray and ndarray"),
        (lambda batches: [{"input": x, "label": y} for x, y in batches], '"labels", but input, label'),
        (lambda _: nn.Linear(6, 3), "must be a DataLoader or a list of batches, got Linear"),
    ],
    ids=["index", "one", "tensors", "dataset", "numpy", "mapping", "network"],
)
def test_batches_other_than_pairs_are_refused(make, words):
    with pytest.raises(InputError, match=f"`train`.*{words}"):
        fine_tune(small(), make(data(1)), data(2), epochs=1)
    with pytest.raises(InputError, match=f"`held_out`.*{words}"):
        fine_tune(small(), NeverRead(), make(data(2)), epochs=1)


def test_swapped_arguments_are_refused():
    with pytest.raises(
        InputError, match=r"`network` must be .*got list.*fine_tune\(network, train, held_out\)"
    ):
        fine_tune(data(1), small(), data(2))


def shared_samples():
    batches = data(2)
    everything = as_loader(batches)
    dataset = everything.dataset
    first, last = Subset(dataset, range(300)), Subset(dataset, range(299, 600))
    yield batches, batches
    yield everything, everything
    yield as_loader(None, dataset, shuffle=True), everything
    yield everything, as_loader(None, first)
    yield as_loader(None, first, shuffle=True), everything
    yield as_loader(None, first), as_loader(None, last)
    yield as_loader(None, Subset(last, [0, 1])), as_loader(None, first)


@pytest.mark.parametrize(("train", "held_out"), list(shared_samples()))
def test_held_out_samples_of_the_training_data_are_refused(train, held_out):
    with pytest.raises(InputError, match=r"`held_out` has samples of the training data.*random_split"):
        fine_tune(small(), train, held_out)


def test_other_parts_of_one_dataset_are_apart():
    dataset = as_loader(data(2)).dataset
    first, last = Subset(dataset, range(300)), Subset(dataset, range(300, 600))
    check_held_out_apart("fine_tune", as_loader(None, first, shuffle=True), as_loader(None, last))
    check_held_out_apart(
        "fine_tune", as_loader(None, Subset(first, [1])), as_loader(None, Subset(first, [2]))
    )
    # samplers of the user's own may choose other samples
    check_held_out_apart(
        "fine_tune",
        as_loader(None, dataset, sampler=SubsetRandomSampler(range(300))),
        as_loader(None, dataset, sampler=list(range(300, 600))),
    )
    check_held_out_apart(
        "fine_tune", DataLoader(dataset, batch_sampler=[[0, 1]]), DataLoader(dataset, batch_sampler=[[2, 3]])
    )


@pytest.mark.parametrize("argument", ["train", "held_out"])
def test_nan_in_the_inputs_is_not_called_divergence(argument):
    batches = {"train": data(1), "held_out": data(2)}
    batches[argument][2][0][40, 3] = float("nan")
    network = nn.Sequential(nn.Linear(6, 3))
    with pytest.raises(
        InputError, match=rf"`{argument}` hold NaN.*\(1 value, first in sample 40 of that batch\)"
    ):
        fine_tune(network, **batches, epochs=1)


@pytest.mark.parametrize("last", [nn.Softmax(1), nn.Softmax(-1)])
def test_a_network_that_ends_in_a_softmax_is_refused(last):
    network = nn.Sequential(small(), last)
    with pytest.raises(
        InputError, match=r"fine_tune: `network` must return logits.* Remove its last softmax"
    ):
        fine_tune(network, data(1), data(2), epochs=1)


def test_an_optimizer_of_another_network_is_refused():
    other = torch.optim.SGD(small().parameters(), lr=0.1)
    with pytest.raises(InputError, match="`optimizer` has none of the network's parameters"):
        fine_tune(small(), NeverRead(), data(2), optimizer=other)
    with pytest.raises(InputError, match="no parameter that requires a gradient"):
        fine_tune(small().requires_grad_(False), NeverRead(), data(2))
    network = small()
    last = torch.optim.SGD(network[3].parameters(), lr=0.1)  # the rest is frozen on purpose
    assert fine_tune(network, data(1), data(2), optimizer=last, epochs=1).looks


def test_held_out_samples_in_another_order_are_refused_before_training():
    shuffled = DataLoader(TensorDataset(*(torch.cat(part) for part in zip(*data(2)))), 100, shuffle=True)
    with pytest.raises(InputError, match=r"`held_out` has other labels .* shuffle=False"):
        fine_tune(small(), NeverRead(), shuffled)


def test_checking_the_order_does_not_move_the_generator():
    held_out = DataLoader(TensorDataset(*(torch.cat(part) for part in zip(*data(2)))), 100)
    network = small()
    torch.manual_seed(3)
    list(held_out)  # the first evaluation reads it once, and a DataLoader draws a number then
    expected = torch.rand(1)
    torch.manual_seed(3)
    Averaging("fine_tune", network, held_out, epochs=1, looks=1, level=0.95)
    assert torch.rand(1) == expected


def right_but(errors, n=200):
    """A network and held-out samples of which it gets all right but this many."""
    network = small()
    x = torch.randn(n, 6)
    with torch.no_grad():
        y = network.eval()(x).argmax(1)
    y[:errors] = (y[:errors] + 1) % 3
    return network, [(x, y)]


@pytest.mark.parametrize(("errors", "n"), [(0, 200), (1, 1), (1, 200), (5, 200), (10, 200)])
def test_too_few_errors_for_any_verdict_are_refused_before_training(errors, n):
    network, held_out = right_but(errors, n)
    with pytest.raises(InputError, match=rf"too small for any verdict.* eleven.* {n} samples") as caught:
        fine_tune(network, NeverRead(), held_out)
    advised = re.search(r"Hold out about ([0-9,]+) instead of", str(caught.value))
    assert (advised is None) == (errors == 0)
    if advised is not None:  # no fewer than if all errors weighed the same
        assert n * 11 / errors <= int(advised[1].replace(",", "")) < n * 100


def test_all_labels_ignored_are_refused_by_name():
    held_out = [(x, torch.full_like(y, -100)) for x, y in data(2)]
    with pytest.raises(InputError, match="`held_out` has no labels"):
        fine_tune(small(), NeverRead(), held_out)


def test_a_start_without_errors_has_no_percentage():
    difference = abstain.inference.paired_difference([0, 0, 1], [3, 2, 1], [0, 0, 0], [3, 2, 1])
    assert "-> 0.1111 (epoch 1): not shown" in str(Tuned(False, 1, difference, ((1, 0.1),)))


def test_averaged_weights_that_are_significantly_worse_are_called_so():
    wrong = np.arange(400) >= 360
    right_order, inverse_order = -np.arange(400.0), np.arange(400.0)
    difference = abstain.inference.paired_difference(wrong, inverse_order, wrong, right_order)
    assert difference.significant
    assert ": higher than the start, which is kept (" in str(Tuned(False, 1, difference, ((1, 0.1),)))


def test_the_example_of_the_page_is_short():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "train.md").read_text(), re.DOTALL)
    lines = [line for line in blocks[0].splitlines() if line.strip()]
    assert "fine_tune(" in blocks[0]
    assert "load_digits" in blocks[0]
    assert len(lines) <= 15
