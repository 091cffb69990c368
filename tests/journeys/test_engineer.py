"""An engineer: a classifier that runs in production is to rank its errors better; her trainer, no other tool.

She tunes it by one callback, reads the verdict, and ships the network only if it says so.
"""

from __future__ import annotations

import copy
import csv

import lightning
import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import abstain
from abstain.torch import AURC, AURCLoss
from abstain.torch.huggingface import AURCStopping, TrainerMetrics, TrainerTuning, trainer_loss
from abstain.torch.lightning import AURCMonitor, SelectiveTuning

PLAIN = {
    "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
    "enable_model_summary": False,
}  # fmt: skip


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def clouds(n):
    y = torch.randint(0, 3, (n,))
    return TensorDataset(1.5 * torch.eye(3, 8)[y] + torch.randn(n, 8), y)


def aurc_of(logits, labels):
    wrong = logits.argmax(1) != labels
    return abstain.aurc(wrong, abstain.scores.max_softmax(logits))


class Classifier(lightning.LightningModule):
    def __init__(self, model, rate=0.02):
        super().__init__()
        self.rate = rate
        self.model, self.criterion, self.val_aurc = model, AURCLoss(mix=0.5), AURC()

    def training_step(self, batch, _):
        return self.criterion(self.model(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.val_aurc.update(self.model(batch[0]), batch[1])
        self.log("own", self.val_aurc)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.rate, momentum=0.9)


def test_lightning_one_callback_and_the_network_to_ship():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    held_out = clouds(2000)
    tuning = SelectiveTuning(DataLoader(held_out, 500))
    trainer = lightning.Trainer(max_epochs=8, callbacks=[tuning], **PLAIN)
    trainer.fit(Classifier(model), DataLoader(clouds(600), 50, shuffle=True))
    found = tuning.result
    assert found.improved  # the start was not trained
    x, y = held_out.tensors
    with torch.no_grad():
        now = aurc_of(model(x).numpy(), y.numpy())
    assert now == pytest.approx(found.difference.estimate_a, rel=1e-6)
    assert now < 0.7 * found.difference.estimate_b
    assert "lower than the start" in str(found)


def test_lightning_a_start_that_is_as_good_stays():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    held_out, train = DataLoader(clouds(500), 500), DataLoader(clouds(600), 50, shuffle=True)
    lightning.Trainer(max_epochs=10, callbacks=[SelectiveTuning(held_out)], **PLAIN).fit(
        Classifier(model), train
    )
    before = copy.deepcopy(model.state_dict())
    tuning = SelectiveTuning(held_out, looks=1)
    nothing = Classifier(model, rate=0.0)  # learns nothing more, so no rounding can make it better
    lightning.Trainer(max_epochs=1, callbacks=[tuning], **PLAIN).fit(nothing, train)
    assert not tuning.result.improved
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_lightning_stops_logs_and_says_the_same_as_the_library(tmp_path):
    validation = clouds(800)
    monitor = AURCMonitor("val_aurc", patience=2, dirpath=tmp_path)
    options = {**PLAIN, "logger": CSVLogger(tmp_path, name="log", version="0")}
    module = Classifier(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)))
    trainer = lightning.Trainer(max_epochs=60, callbacks=[monitor], **options)
    trainer.fit(module, DataLoader(clouds(600), 50, shuffle=True), DataLoader(validation, 400))
    assert trainer.current_epoch < 60
    with open(tmp_path / "log" / "0" / "metrics.csv") as file:
        logged = [row for row in csv.DictReader(file) if row.get("val_aurc")]
    assert all(float(row["own"]) == pytest.approx(float(row["val_aurc"]), rel=1e-5) for row in logged)
    best = torch.load(tmp_path / "best.ckpt", weights_only=False)
    module.load_state_dict(best["state_dict"])
    x, y = validation.tensors
    with torch.no_grad():
        kept = aurc_of(module.model(x).numpy(), y.numpy())
    assert kept == pytest.approx(monitor.rule.best, rel=1e-6)


def sentences(n):
    """Five tokens each; the label is the third of the vocabulary that most of them come from."""
    part = torch.randint(0, 3, (n,))
    third = torch.where(torch.rand(n, 5) < 0.7, part[:, None], torch.randint(0, 3, (n, 5)))
    return [{"input_ids": t, "labels": y} for t, y in zip(10 * third + torch.randint(1, 10, (n, 5)), part)]


def small_bert():
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertConfig(vocab_size=40, num_labels=3, **size))


def arguments(folder, **options):
    same = {"report_to": [], "use_cpu": True, "save_strategy": "no", "disable_tqdm": True}
    return TrainingArguments(
        str(folder), per_device_train_batch_size=32, learning_rate=5e-3, **same, **options
    )


def test_hugging_face_one_callback_and_the_model_to_ship(tmp_path):
    model, held_out = small_bert(), sentences(600)
    tuning = TrainerTuning(DataLoader(held_out, 300), looks=2)
    trainer = Trainer(
        model, arguments(tmp_path, num_train_epochs=3, lr_scheduler_type="constant"),
        train_dataset=sentences(300), compute_loss_func=trainer_loss(mix=0.5), callbacks=[tuning],
    )  # fmt: skip
    trainer.train()
    assert tuning.result.improved  # the start was not trained
    assert [epoch for epoch, _ in tuning.result.looks] == [2, 3]
    with torch.no_grad():
        logits = model(torch.stack([s["input_ids"] for s in held_out])).logits.numpy()
    labels = np.array([int(s["labels"]) for s in held_out])
    assert aurc_of(logits, labels) == pytest.approx(tuning.result.difference.estimate_a, rel=1e-5)


def test_hugging_face_stops_and_keeps_the_best(tmp_path):
    metrics = TrainerMetrics()
    stopping = AURCStopping(metrics, patience=2)
    trainer = Trainer(
        small_bert(), arguments(tmp_path, num_train_epochs=30, eval_strategy="epoch"), train_dataset=sentences(300),
        eval_dataset=sentences(400), compute_loss_func=trainer_loss(), compute_metrics=metrics, callbacks=[stopping],
    )  # fmt: skip
    trainer.train()
    seen = [entry["eval_aurc"] for entry in trainer.state.log_history if "eval_aurc" in entry]
    assert len(seen) < 30
    assert stopping.rule.best == pytest.approx(seen[-3])  # two evaluations without progress came after it
    assert stopping.best_step == trainer.state.global_step // len(seen) * (len(seen) - 2)
