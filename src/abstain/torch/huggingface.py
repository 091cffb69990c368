"""Hugging Face Trainer: the loss, the evaluation metrics, early stopping by AURC, and the recipe that tunes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from abstain import losses, scores
from abstain._arrays import Array
from abstain._check import check_fraction
from abstain.errors import InputError, import_optional
from abstain.inference import interval
from abstain.torch.loss import AURCLoss
from abstain.torch.tuning import Averaging, PairedPatience, Samples, Tuned, error_bar

TrainerCallback = import_optional("transformers", "abstain.torch.huggingface", "huggingface").TrainerCallback

__all__ = ["AURCStopping", "TrainerMetrics", "TrainerTuning", "trainer_loss"]


def trainer_loss(**options: Any) -> Callable[..., Array]:
    """The loss for `Trainer(compute_loss_func=trainer_loss())`: AURC of each batch; lower is better.

    Logits have their classes last, as models there return them; label -100 is ignored. With gradient accumulation the
    Trainer passes the number of items of the whole accumulated batch, and each micro-batch, ranked by itself, adds
    its share of that mean.

    Parameters
    ----------
    **options
        As in `AURCLoss`, except `reduction` and schedules of `mix`, which nothing here would move on.

    Returns
    -------
    callable
        A function of (outputs, labels, num_items_in_batch), as the Trainer calls it.

    Examples
    --------
    >>> import torch
    >>> loss = trainer_loss(estimator="loo")
    >>> loss({"logits": torch.zeros(2, 3)}, torch.tensor([0, -100]))  # alone, a sample has no other to be ranked by
    tensor(0.)
    """
    if options.get("reduction", "mean") != "mean":
        raise InputError(f'trainer_loss: `reduction` must be "mean", got {options["reduction"]!r}.')
    criterion = AURCLoss(**{**options, "reduction": "none"})
    if criterion.schedule is not None:
        raise InputError("trainer_loss: `mix` must be a number, since the Trainer moves no schedule on.")

    def compute(outputs: Any, labels: Array, num_items_in_batch: Any = None) -> Array:
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
        each = criterion(logits.movedim(-1, 1), labels)
        counted = labels != criterion.options["ignore_index"]
        items = counted.sum().clamp(min=1)
        mass = items if criterion.weight is None else criterion.weight[labels[counted]].sum().clamp(min=1e-30)
        mean = each.sum() / mass
        return mean if num_items_in_batch is None else mean * items / num_items_in_batch

    return compute


class TrainerMetrics:
    """For `Trainer(compute_metrics=TrainerMetrics())`: accuracy, and AURC of the 0/1 loss with its error bar.

    Gives "accuracy", "aurc", "aurc_se", "aurc_low" and "aurc_high"; the Trainer puts `eval_` before each name.
    `samples` holds the losses and confidences of the last evaluation.

    Parameters
    ----------
    level : float
        Of the interval; see `abstain.inference.interval`.
    **options
        As in `abstain.aurc` (`estimator`, `ties`).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> seen = SimpleNamespace(predictions=[[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], label_ids=[0, 1, 1])
    >>> found = TrainerMetrics()(seen)
    >>> round(found["accuracy"], 4), round(found["aurc"], 4)
    (0.6667, 0.1111)
    """

    def __init__(self, *, level: float = 0.95, **options: Any) -> None:
        self.level, self.options = check_fraction("TrainerMetrics", "level", level, open_high=True), options
        self.samples: Samples | None = None

    def __call__(self, prediction: Any) -> dict[str, float]:
        """From the Trainer's predictions to the metrics."""
        outputs, labels = prediction.predictions, np.asarray(prediction.label_ids)
        logits = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)
        counted = labels != -100
        logits, labels = logits[counted], labels[counted]
        self.samples = losses.zero_one(logits, labels), scores.max_softmax(logits)
        found = interval("aurc", *self.samples, level=self.level, **self.options)
        return {"accuracy": 1 - float(np.mean(self.samples[0])), **error_bar("aurc", found)}


class AURCStopping(TrainerCallback):  # type: ignore[misc, valid-type]
    """Stops when validation AURC has not fallen by more than the noise for `patience` evaluations.

    Progress is a fall below the best so far by more than `sigmas` standard errors of their difference (paired: the
    same samples each time). It asks the Trainer to save; with `save_strategy="no"` those are the only checkpoints, the
    last of them the best (`best_step`).

    Parameters
    ----------
    metrics : TrainerMetrics
        The one given to the Trainer as `compute_metrics`.
    patience : int, optional
        None never stops.
    sigmas : float
        How many standard errors count as progress; 0 is the usual rule.

    Examples
    --------
    >>> metrics = TrainerMetrics()  # Trainer(..., compute_metrics=metrics, callbacks=[AURCStopping(metrics)])
    >>> AURCStopping(metrics, patience=5).best_step is None
    True
    """

    def __init__(self, metrics: TrainerMetrics, patience: int | None = 3, sigmas: float = 1.0) -> None:
        self.metrics, self.rule = metrics, PairedPatience(patience, sigmas)
        self.best_step: int | None = None

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Decide after each evaluation."""
        if self.metrics.samples is None:
            raise InputError(
                "AURCStopping: its `metrics` have seen no evaluation. Pass the same object to the Trainer: "
                "`compute_metrics=metrics, callbacks=[AURCStopping(metrics)]`."
            )
        if self.rule.improved(*self.metrics.samples):
            self.best_step = state.global_step
            control.should_save = True
        if self.rule.exhausted:
            control.should_training_stop = True


class TrainerTuning(TrainerCallback):  # type: ignore[misc, valid-type]
    """The recipe of `abstain.torch.fine_tune` in the Trainer: averaged weights, a paired verdict.

    The Trainer brings what trains: `compute_loss_func=trainer_loss(mix=0.5)` and a constant rate. The callback takes
    the mean of the model's weights after each epoch and looks at it on held-out samples. When training is over, the
    model holds the averaged weights if those rank better than the start by a paired test, else its old ones; `result`
    says which.

    Parameters
    ----------
    held_out : iterable of batches
        Mappings with "labels" that the model was not trained on, always in the same order, e.g.
        `trainer.get_eval_dataloader(held_out)`.
    looks, level
        As in `abstain.torch.fine_tune`.

    Examples
    --------
    >>> TrainerTuning([]).result is None  # Trainer(..., callbacks=[TrainerTuning(held_out)])
    True
    """

    def __init__(self, held_out: Iterable[Any], *, looks: int = 4, level: float = 0.95) -> None:
        self.held_out, self.looks, self.level = held_out, looks, level
        self.result: Tuned | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Judge the start."""
        asked = math.ceil(args.num_train_epochs), self.looks, self.level
        self._averaging = Averaging("TrainerTuning", model, self.held_out, *asked)

    def on_epoch_end(
        self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any
    ) -> None:
        """Average, and look where that is due."""
        self._averaging.after_epoch(train_dataloader)

    def on_train_end(
        self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any
    ) -> None:
        """The verdict."""
        self.result = self._averaging.finish(train_dataloader)
