"""Early stopping that knows its error bar, in Lightning and in the Hugging Face Trainer."""

from __future__ import annotations

import csv
from types import SimpleNamespace

import lightning
import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset
from transformers import EvalPrediction

import abstain
from abstain.errors import InputError, ShapeError
from abstain.torch import AURC, LinearWarmup, aurc_loss
from abstain.torch.huggingface import AURCStopping, TrainerMetrics, trainer_loss
from abstain.torch.lightning import AURCMonitor
from abstain.torch.tuning import PairedPatience


def noisy(rng, errors, n=400):
    """Losses with that many errors, and confidences that rank them rather low."""
    wrong = np.zeros(n, dtype=bool)
    wrong[:errors] = True
    return wrong, rng.random(n) + 0.5 * ~wrong


def test_progress_is_a_fall_beyond_the_paired_error():
    rng = np.random.default_rng(0)
    wrong, sure = noisy(rng, 60)
    better = np.where(
        wrong, sure - 0.05, sure
    )  # every error is ranked a little lower: a sure gain, but a small one
    found = abstain.inference.paired_difference(wrong, better, wrong, sure)
    alone = abstain.inference.interval("aurc", wrong, sure)
    assert (
        2 * found.standard_error < -found.difference < alone.standard_error
    )  # the unpaired rule would miss it
    rule = PairedPatience(patience=2)
    assert [rule.improved(wrong, c) for c in (sure, better, better, sure)] == [True, True, False, False]
    assert rule.best == pytest.approx(abstain.aurc(wrong, better))
    assert rule.exhausted
    again = PairedPatience(patience=2)
    again.load_state_dict(rule.state_dict())
    assert again.exhausted
    assert not again.improved(wrong, better)
    strict = PairedPatience(patience=2, sigmas=1e6)
    assert [strict.improved(wrong, c) for c in (sure, better)] == [True, False]


def test_another_number_of_samples_is_an_error():
    rule = PairedPatience()
    rule.improved([0, 1, 0], [3, 1, 2])
    with pytest.raises(ShapeError, match="same samples"):
        rule.improved([0, 1], [2, 1])


def test_rule_refuses_nonsense():
    with pytest.raises(InputError, match="patience"):
        PairedPatience(patience=0)
    with pytest.raises(InputError, match="sigmas"):
        PairedPatience(sigmas=-1)
    for made in (AURCMonitor, TrainerMetrics):  # when it is built, not after an epoch
        with pytest.raises(InputError, match="not in percent"):
            made(level=95)


def digits_history(seed, epochs=40):
    """Validation samples and test AURC of a small network on digits, epoch by epoch."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    x, y = torch.tensor(images[order] / 16, dtype=torch.float32), torch.tensor(labels[order])
    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    optimizer, seen = torch.optim.Adam(network.parameters(), 3e-3), []
    for _ in range(epochs):
        for part in torch.randperm(600).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x[part]), y[part]).backward()
            optimizer.step()
        with torch.no_grad():
            logits = network(x[600:]).numpy()
        wrong, sure = logits.argmax(1) != y[600:].numpy(), abstain.scores.max_softmax(logits)
        seen.append(((wrong[:400], sure[:400]), abstain.aurc(wrong[400:], sure[400:])))
    return seen


def kept_by_the_unpaired_error(seen, patience):
    """The rule it was before: a fall by more than the standard error of one evaluation."""
    best, since, kept = np.inf, 0, np.nan
    for samples, test in seen:
        found = abstain.inference.interval("aurc", *samples)
        if found.estimate < best - found.standard_error or best == np.inf:
            best, since, kept = found.estimate, 0, test
        else:
            since += 1
        if since >= patience:
            break
    return kept


def kept_by_the_paired_error(seen, patience):
    rule, kept = PairedPatience(patience), np.nan
    for samples, test in seen:
        kept = test if rule.improved(*samples) else kept
        if rule.exhausted:
            break
    return kept


def test_the_paired_error_stops_later_and_keeps_better_networks_on_digits():
    histories = [digits_history(seed) for seed in range(8)]
    paired = np.array([kept_by_the_paired_error(h, 3) for h in histories])
    unpaired = np.array([kept_by_the_unpaired_error(h, 3) for h in histories])
    assert paired.mean() < 0.75 * unpaired.mean()  # 0.0055 against 0.0094 where this was written
    assert (paired <= unpaired).all()


class Frozen(lightning.LightningModule):
    """A module whose logits on validation data are given, epoch by epoch."""

    def __init__(self, logits):
        super().__init__()
        self.logits, self.val_aurc, self.line = logits, AURC(), torch.nn.Linear(1, 1)
        self.logged = ""

    def training_step(self, batch, _):
        return self.line(batch[0]).sum() * 0

    def validation_step(self, batch, _):
        self.val_aurc.update(self.logits[min(self.current_epoch, len(self.logits) - 1)], batch[1])
        if self.logged:
            self.log(self.logged, self.val_aurc)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(tmp_path, logits, target, logged="", **options):
    data = DataLoader(TensorDataset(torch.zeros(len(target), 1), target), batch_size=len(target))
    monitor = AURCMonitor(dirpath=tmp_path, **options)
    logger = CSVLogger(tmp_path, name="log", version="0")
    trainer = lightning.Trainer(
        max_epochs=8,
        accelerator="cpu",
        callbacks=[monitor],
        logger=logger,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    module = Frozen(logits)
    module.logged = logged
    trainer.fit(module, data, data)
    with open(tmp_path / "log" / "0" / "metrics.csv") as file:
        logged = [row for row in csv.DictReader(file) if row.get("val_aurc")]
    return trainer, monitor, logged


def epochs_of_logits():
    """First poor, then good, then good with noise: the second epoch is the one to keep."""
    rng = np.random.default_rng(0)
    target = torch.tensor(rng.integers(0, 2, 200))
    signal = torch.nn.functional.one_hot(target, 2).double() * 4
    noise = [torch.tensor(rng.standard_normal((200, 2))) for _ in range(8)]
    return [noise[0] * 3, *(signal + 2.5 * n for n in noise[1:2] * 7)], target


def test_lightning_stops_saves_and_logs(tmp_path, caplog):
    logits, target = epochs_of_logits()
    trainer, monitor, logged = fit(tmp_path, logits, target, patience=2)
    assert "weights_only" not in caplog.text  # Lightning would say that it was not set, at each save
    assert trainer.current_epoch == 4  # epochs 0 and 1 are progress, 2 and 3 are not
    loss = (logits[1].argmax(1) != target).numpy()
    found = abstain.inference.interval("aurc", loss, abstain.scores.max_softmax(logits[1].numpy()))
    assert monitor.rule.best == pytest.approx(found.estimate, rel=1e-9)
    row = logged[1]
    columns = {"val_aurc": found.estimate, "val_aurc_se": found.standard_error, "val_aurc_high": found.high}
    for name, value in columns.items():
        assert float(row[name]) == pytest.approx(value, rel=1e-5)
    saved = torch.load(tmp_path / "best.ckpt", weights_only=False)
    assert saved["epoch"] == 1


@pytest.mark.parametrize("name", ["own_aurc", "val_aurc"])
def test_a_module_may_log_the_metric_beside_the_monitor(tmp_path, name):
    logits, target = epochs_of_logits()
    _, monitor, logged = fit(tmp_path, logits, target, logged=name, patience=2)
    assert len(logged) == 4
    for row in logged:
        assert float(row[name]) == pytest.approx(float(row["val_aurc"]), rel=1e-6)
    assert monitor.rule.best == pytest.approx(float(logged[1]["val_aurc"]), rel=1e-5)


def test_lightning_without_the_metric_says_what_to_add(tmp_path):
    logits, target = epochs_of_logits()
    with pytest.raises(InputError, match=r"self\.other = abstain\.torch\.AURC\(\)"):
        fit(tmp_path, logits, target, metric="other")


def test_trainer_loss_is_the_mean_over_items(batch):
    logits, target = batch(24)
    target[3] = -100
    outputs = SimpleNamespace(logits=logits)
    assert trainer_loss()(outputs, target).item() == pytest.approx(
        aurc_loss(logits, target).item(), rel=1e-12
    )
    parts = [
        trainer_loss(estimator="loo")(
            {"logits": logits[a : a + 12]}, target[a : a + 12], num_items_in_batch=23
        )
        for a in (0, 12)
    ]
    sums = [
        aurc_loss(logits[a : a + 12], target[a : a + 12], estimator="loo", reduction="sum") for a in (0, 12)
    ]
    assert sum(parts).item() == pytest.approx(sum(sums).item() / 23, rel=1e-12)
    with pytest.raises(InputError, match="reduction"):
        trainer_loss(reduction="sum")
    with pytest.raises(
        InputError, match="advance a schedule"
    ):  # it would stay at its start, cross-entropy, for ever
        trainer_loss(mix=LinearWarmup(5))
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    expected = aurc_loss(logits, target, weight=weight).item()
    assert trainer_loss(weight=weight)(outputs, target).item() == pytest.approx(expected)
    half = trainer_loss(weight=weight)(outputs, target, num_items_in_batch=2 * (target != -100).sum())
    assert half.item() == pytest.approx(expected / 2)


def test_trainer_loss_takes_tokens():
    logits, labels = torch.randn(2, 7, 5, dtype=torch.float64), torch.randint(0, 5, (2, 7))
    labels[0, 4:] = -100
    got = trainer_loss()(SimpleNamespace(logits=logits), labels)
    expected = aurc_loss(logits.reshape(-1, 5), labels.reshape(-1))
    assert got.item() == pytest.approx(expected.item(), rel=1e-12)


def test_trainer_metrics_are_those_of_the_library(batch):
    logits, target = (x.numpy() for x in batch(60))
    metrics = TrainerMetrics()
    got = metrics(EvalPrediction(predictions=logits, label_ids=target))
    wrong = logits.argmax(1) != target
    found = abstain.inference.interval("aurc", wrong, abstain.scores.max_softmax(logits))
    assert got["aurc"] == found.estimate
    assert got["aurc_se"] == found.standard_error
    assert got["accuracy"] == pytest.approx(1 - wrong.mean())
    assert metrics.samples[0].tolist() == wrong.tolist()


def test_trainer_callback_decides():
    rng = np.random.default_rng(0)
    wrong, sure = noisy(rng, 60)
    lower = np.where(wrong, sure - 0.1, sure)
    metrics = TrainerMetrics()
    callback = AURCStopping(metrics, patience=2)
    with pytest.raises(InputError, match="compute_metrics=metrics"):
        callback.on_evaluate(None, None, None)
    decisions = []
    for step, confidence in enumerate((sure, lower, lower, sure)):
        metrics.samples = wrong, confidence
        control = SimpleNamespace(should_save=False, should_training_stop=False)
        callback.on_evaluate(None, SimpleNamespace(global_step=step), control)
        decisions.append((control.should_save, control.should_training_stop))
    assert decisions == [(True, False), (True, False), (False, False), (False, True)]
    assert callback.best_step == 1
