"""A run of tuning that stops and resumes from a checkpoint ends as one run does, in Lightning and in the Trainer."""

from __future__ import annotations

from types import SimpleNamespace

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, SequentialSampler, TensorDataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from abstain.errors import InputError
from abstain.torch import AURCLoss
from abstain.torch.huggingface import AURCStopping, TrainerMetrics, TrainerTuning, trainer_loss
from abstain.torch.lightning import SelectiveTuning

EPOCHS = 8


def cloud(seed, n):
    """Overlapping clouds of three classes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (n,), generator=generator)
    return torch.eye(3, 6)[labels] + torch.randn(n, 6, generator=generator), labels


def batches(seed, n):
    return DataLoader(TensorDataset(*cloud(seed, n)), batch_size=60)


def start():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = start()
        self.criterion = AURCLoss(mix=0.5)

    def training_step(self, batch, _):
        return self.criterion(self.model(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


class StopAfter(Callback):
    def __init__(self, epochs):
        self.epochs = epochs

    def on_train_epoch_end(self, trainer, pl_module):
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


def fit(folder, *, stop_after=EPOCHS, resume=None, tuning=True, **saving):
    """Tune in Lightning; return the callback and the network."""
    module = Classifier()
    held_out = SelectiveTuning(batches(2, 600))
    saved = ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1, **saving)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        callbacks=[held_out, StopAfter(stop_after), saved] if tuning else [saved],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, batches(1, 300), ckpt_path=resume)
    return held_out, module.model


def assert_same(first, second):
    (result, network), (other_result, other_network) = first, second
    assert result.improved
    assert result.looks == other_result.looks
    assert str(result) == str(other_result)
    for name, value in network.state_dict().items():
        assert torch.equal(value, other_network.state_dict()[name]), name


@pytest.mark.parametrize("saving", [{}, {"every_n_train_steps": 5}], ids=["by epoch", "by step"])
@pytest.mark.parametrize("stop_after", [3, 4])
def test_lightning_resumes(tmp_path, stop_after, saving):
    once, network = fit(tmp_path / "once")
    fit(tmp_path, stop_after=stop_after, **saving)
    resumed, resumed_network = fit(tmp_path / "then", resume=tmp_path / f"epoch={stop_after - 1}.ckpt")
    assert_same((once.result, network), (resumed.result, resumed_network))


def test_lightning_refuses_a_checkpoint_without_the_start(tmp_path):
    fit(tmp_path, stop_after=2, tuning=False)
    with pytest.raises(InputError, match="the weights before tuning are not known"):
        fit(tmp_path, resume=tmp_path / "epoch=1.ckpt")


def test_a_second_fit_of_one_trainer_starts_anew(tmp_path):
    module = Classifier()
    tuning = SelectiveTuning(batches(2, 600))
    trainer = lightning.Trainer(
        max_epochs=4, callbacks=[tuning], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, batches(1, 300))
    first = tuning.result
    trainer.fit_loop.max_epochs = 6
    trainer.fit(module, batches(1, 300))
    assert [epoch for epoch, _ in tuning.result.looks] == [1, 2]
    assert (
        tuning.result.difference.estimate_b == first.difference.estimate_a
    )  # the start is the tuned network


class Answers(nn.Module):
    """A model in the manner of Hugging Face: keywords in, an object with logits out."""

    def __init__(self):
        super().__init__()
        self.network = start()

    def forward(self, features, labels=None):
        return {"logits": self.network(features)}


def mappings(seed, n):
    return [{"features": x, "labels": y} for x, y in zip(*cloud(seed, n))]


class Unshuffled(Trainer):
    """With shuffled data, the Trainer itself does not resume within an epoch at the same sample."""

    def _get_train_sampler(self, *_):
        return SequentialSampler(self.train_dataset)


class StopAtStep(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step >= self.step:
            control.should_save = True
            control.should_training_stop = True


def train(folder, *, stop_at=1000, resume=None, tuning=True, **options):
    """Tune with the Trainer, 5 steps an epoch; return the callback and the network."""
    model = Answers()
    callback = TrainerTuning(DataLoader(mappings(2, 600), batch_size=200))
    arguments = TrainingArguments(
        str(folder), num_train_epochs=EPOCHS, learning_rate=0.02, lr_scheduler_type="constant", report_to=[],
        use_cpu=True, per_device_train_batch_size=60, disable_tqdm=True, logging_strategy="no",
        **{"save_strategy": "epoch", **options},
    )  # fmt: skip
    trainer = Unshuffled(
        model,
        arguments,
        train_dataset=mappings(1, 300),
        compute_loss_func=trainer_loss(mix=0.5),
        callbacks=[callback, StopAtStep(stop_at)] if tuning else [StopAtStep(stop_at)],
    )
    trainer.train(resume_from_checkpoint=resume)
    return callback, model


@pytest.mark.parametrize(
    ("stop_at", "save_strategy"),
    [(20, "epoch"), (20, "no"), (17, "epoch"), (17, "no")],
    ids=["after an epoch", "before its end", "within, saved at its end", "within"],
)
def test_trainer_resumes(tmp_path, stop_at, save_strategy):
    once, network = train(tmp_path / "once", save_strategy="no")
    train(tmp_path, stop_at=stop_at, save_strategy=save_strategy)
    resumed, resumed_network = train(tmp_path, resume=True, save_strategy="no")
    assert_same((once.result, network), (resumed.result, resumed_network))


def test_trainer_refuses_a_checkpoint_without_the_start(tmp_path):
    train(tmp_path, stop_at=10, tuning=False)
    with pytest.raises(InputError, match=r"TrainerTuning\.pt, so the weights before tuning are not known"):
        train(tmp_path, resume=True)


def test_trainer_counts_the_epochs_of_max_steps(tmp_path):
    callback, _ = train(tmp_path, save_strategy="no", max_steps=20)
    assert [epoch for epoch, _ in callback.result.looks] == [1, 2, 3, 4]


def test_trainer_that_stops_within_the_first_epoch_is_judged_there(tmp_path):
    callback, _ = train(tmp_path, save_strategy="no", max_steps=3)
    assert [epoch for epoch, _ in callback.result.looks] == [1]


def test_stopping_resumes_with_its_progress(tmp_path):
    (tmp_path / "checkpoint-7").mkdir()
    arguments = SimpleNamespace(output_dir=str(tmp_path))
    state = SimpleNamespace(global_step=7, is_world_process_zero=True)
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    _, labels = cloud(3, 100)
    samples = (labels == 0).numpy(), torch.rand(100).numpy()

    def evaluate(callback):
        callback.metrics.samples = samples
        callback.on_evaluate(arguments, state, control)

    first = AURCStopping(TrainerMetrics(), patience=2)
    evaluate(first)
    evaluate(first)
    first.on_save(arguments, state, control)
    resumed = AURCStopping(TrainerMetrics(), patience=2)
    resumed.on_train_begin(arguments, state, control)
    assert resumed.best_step == 7
    assert not control.should_training_stop
    evaluate(resumed)
    assert control.should_training_stop
    fresh = AURCStopping(TrainerMetrics(), patience=2)
    fresh.on_train_begin(arguments, SimpleNamespace(global_step=0), control)
    assert fresh.best_step is None
