"""Early stopping that knows its error bar, in Lightning and in the Hugging Face Trainer."""

from __future__ import annotations

import csv
from types import SimpleNamespace

import lightning
import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from transformers import EvalPrediction

import abstain
from abstain.errors import InputError
from abstain.torch import AURC, aurc_loss
from abstain.torch.huggingface import AURCStopping, trainer_loss, trainer_metrics
from abstain.torch.lightning import AURCMonitor
from abstain.torch.metrics import ErrorAwarePatience


def test_small_steps_add_up_and_noise_does_not_count():
    rule = ErrorAwarePatience(patience=3, sigmas=2.0)
    assert [rule.improved(v, 0.01) for v in (0.5, 0.49, 0.485, 0.479)] == [True, False, False, True]
    assert not rule.exhausted
    assert [rule.improved(v, 0.01) for v in (0.47, 0.6, 0.46)] == [False, False, False]
    assert rule.exhausted
    again = ErrorAwarePatience(patience=3, sigmas=2.0)
    again.load_state_dict(rule.state_dict())
    assert again.exhausted
    assert again.best == rule.best == 0.479


def test_rule_refuses_nonsense():
    with pytest.raises(InputError, match="patience"):
        ErrorAwarePatience(patience=0)
    with pytest.raises(InputError, match="sigmas"):
        ErrorAwarePatience(sigmas=-1)


class Frozen(lightning.LightningModule):
    """A module whose logits on validation data are given, epoch by epoch."""

    def __init__(self, logits):
        super().__init__()
        self.logits, self.val_aurc, self.line = logits, AURC(), torch.nn.Linear(1, 1)

    def training_step(self, batch, _):
        return self.line(batch[0]).sum() * 0

    def validation_step(self, batch, _):
        self.val_aurc.update(self.logits[min(self.current_epoch, len(self.logits) - 1)], batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(tmp_path, logits, target, **options):
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
    trainer.fit(Frozen(logits), data, data)
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


def test_lightning_stops_saves_and_logs(tmp_path):
    logits, target = epochs_of_logits()
    trainer, monitor, logged = fit(tmp_path, logits, target, patience=2)
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


def test_trainer_loss_takes_tokens():
    logits, labels = torch.randn(2, 7, 5, dtype=torch.float64), torch.randint(0, 5, (2, 7))
    labels[0, 4:] = -100
    got = trainer_loss()(SimpleNamespace(logits=logits), labels)
    expected = aurc_loss(logits.reshape(-1, 5), labels.reshape(-1))
    assert got.item() == pytest.approx(expected.item(), rel=1e-12)


def test_trainer_metrics_are_those_of_the_library(batch):
    logits, target = (x.numpy() for x in batch(60))
    got = trainer_metrics()(EvalPrediction(predictions=logits, label_ids=target))
    wrong = logits.argmax(1) != target
    found = abstain.inference.interval("aurc", wrong, abstain.scores.max_softmax(logits))
    assert got["aurc"] == found.estimate
    assert got["aurc_se"] == found.standard_error
    assert got["accuracy"] == pytest.approx(1 - wrong.mean())


def test_trainer_callback_decides():
    callback = AURCStopping(patience=2)
    decisions = []
    for step, value in enumerate((0.3, 0.2, 0.199, 0.201)):
        control = SimpleNamespace(should_save=False, should_training_stop=False)
        metrics = {"eval_aurc": value, "eval_aurc_se": 0.01}
        callback.on_evaluate(None, SimpleNamespace(global_step=step), control, metrics)
        decisions.append((control.should_save, control.should_training_stop))
    assert decisions == [(True, False), (True, False), (False, False), (False, True)]
    assert callback.best_step == 1
    with pytest.raises(InputError, match="trainer_metrics"):
        callback.on_evaluate(None, None, None, {"eval_loss": 1.0})
