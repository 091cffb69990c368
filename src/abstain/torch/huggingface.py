"""Hugging Face Trainer: the loss, the evaluation metrics, early stopping by AURC, and fine-tuning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from abstain import losses, scores
from abstain._arrays import Array
from abstain._check import check_fraction
from abstain.errors import InputError, import_optional
from abstain.inference import interval
from abstain.torch.loss import AURCLoss
from abstain.torch.tuning import (
    Averaging,
    PairedPatience,
    Samples,
    Tuned,
    check_held_out_apart,
    check_read_many_times,
    error_bar_entries,
)

TrainerCallback = import_optional("transformers", "abstain.torch.huggingface", "huggingface").TrainerCallback

__all__ = ["AURCStopping", "TrainerMetrics", "TrainerTuning", "trainer_loss"]

# More than the sum of an epoch's parts can lose to rounding, and less than one step of an epoch of 100,000 steps.
_EPOCH_ROUNDING = 1e-6


def trainer_loss(**options: Any) -> Callable[..., Array]:
    """Make the loss for `Trainer(compute_loss_func=trainer_loss())`: AURC of each batch; lower is better.

    Logits have their classes last, as Hugging Face models return them; label -100 is ignored. With gradient
    accumulation the Trainer passes the number of items in the whole accumulated batch. Each micro-batch is then ranked
    by itself and contributes its share of the mean.

    Parameters
    ----------
    **options
        As in `AURCLoss`, except `reduction`. `mix` must be a number: the Trainer does not advance a schedule.

    Returns
    -------
    callable
        A function of (outputs, labels, num_items_in_batch), as the Trainer calls it.

    Raises
    ------
    InputError
        If `reduction` is not "mean", or `mix` is a schedule.

    Examples
    --------
    >>> import torch
    >>> loss = trainer_loss(estimator="loo")
    >>> loss({"logits": torch.zeros(2, 3)}, torch.tensor([0, -100]))  # a single sample: nothing to rank it against
    tensor(0.)
    """
    if options.get("reduction", "mean") != "mean":
        raise InputError(f'trainer_loss: `reduction` must be "mean", got {options["reduction"]!r}.')
    criterion = AURCLoss(**{**options, "reduction": "none"})
    if criterion.schedule is not None:
        raise InputError("trainer_loss: `mix` must be a number: the Trainer does not advance a schedule.")

    def compute_loss(outputs: Any, labels: Array, num_items_in_batch: Any = None) -> Array:
        """Return the AURC of one micro-batch, or its share of that mean over the whole accumulated batch.

        `criterion` is an `AURCLoss` with reduction "none", whose `weight` holds one number per class, or is None.
        """
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs.logits  # classes last
        weighted_losses = criterion(logits.movedim(-1, 1), labels)
        is_counted = labels != criterion.options["ignore_index"]
        counted_items = is_counted.sum().clamp(min=1)
        if criterion.weight is None:
            total_mass = counted_items
        else:
            # the mass of a sample is the weight of its class; without samples it is not 0, since it divides
            total_mass = criterion.weight[labels[is_counted]].sum().clamp(min=1e-30)
        # with reduction "none" each loss comes multiplied by its weight and mass, so this is what "mean" would return
        mean = weighted_losses.sum() / total_mass
        if num_items_in_batch is None:  # no gradient accumulation
            return mean
        # this micro-batch's share of the items whose losses the Trainer adds up
        return mean * counted_items / num_items_in_batch

    return compute_loss


class TrainerMetrics:
    """For `Trainer(compute_metrics=TrainerMetrics())`: accuracy, and AURC of the 0/1 loss with its error bar.

    Returns "accuracy", "aurc", "aurc_se", "aurc_low" and "aurc_high"; the Trainer puts `eval_` before each name. The
    attribute `samples` holds the losses and confidences of the last evaluation.

    Parameters
    ----------
    level : float
        Confidence level of the interval; see `abstain.inference.interval`.
    **options
        As in `abstain.aurc` (`estimator`, `ties`).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> prediction = SimpleNamespace(predictions=[[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], label_ids=[0, 1, 1])
    >>> metrics = TrainerMetrics()(prediction)
    >>> round(metrics["accuracy"], 4), round(metrics["aurc"], 4)
    (0.6667, 0.1111)
    """

    def __init__(self, *, level: float = 0.95, **options: Any) -> None:
        self.level = check_fraction("TrainerMetrics", "level", level, open_high=True)
        self.options = options
        self.samples: Samples | None = None

    def __call__(self, prediction: Any) -> dict[str, float]:
        """Compute the metrics from the Trainer's predictions (logits, classes last) and label ids; store `samples`.

        Labels of -100 are left out. `prediction.predictions` may be a tuple of the logits and other outputs.
        """
        outputs = prediction.predictions
        all_labels = np.asarray(prediction.label_ids)
        all_logits = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)
        is_counted = all_labels != -100
        logits = all_logits[is_counted]
        loss = losses.zero_one(logits, all_labels[is_counted])
        confidence = scores.max_softmax(logits)
        self.samples = (loss, confidence)
        # options of the metric: `estimator` and `ties`
        aurc_interval = interval("aurc", loss, confidence, level=self.level, **self.options)
        # "aurc", "aurc_se", "aurc_low" and "aurc_high"
        return {"accuracy": 1 - float(np.mean(loss)), **error_bar_entries("aurc", aurc_interval)}


def _state_file(name: str, args: Any, state: Any) -> Path:
    """Return where the callback `name` keeps its state: in the folder of the checkpoint of the current step.

    Not in the Trainer's own state, which is JSON and no place for tensors.
    """
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / f"{name}.pt"


class AURCStopping(TrainerCallback):  # type: ignore[misc, valid-type]
    """Stops training when validation AURC has made no progress for `patience` evaluations.

    Progress is a fall below the best so far by more than `sigmas` standard errors of their difference (paired: the
    same samples each time). After progress the Trainer saves a checkpoint. With `save_strategy="no"` there are no other
    checkpoints, and the last one is the best (`best_step`). Checkpoints hold the progress so far (`AURCStopping.pt`),
    with which a run resumed from one continues; without that file it starts anew.

    Parameters
    ----------
    metrics : TrainerMetrics
        The one given to the Trainer as `compute_metrics`.
    patience : int, optional
        How many evaluations without progress to allow; None never stops.
    sigmas : float
        How many standard errors count as progress; with 0, every fall does.

    Examples
    --------
    >>> metrics = TrainerMetrics()  # Trainer(..., compute_metrics=metrics, callbacks=[AURCStopping(metrics)])
    >>> AURCStopping(metrics, patience=5).best_step is None
    True
    """

    def __init__(self, metrics: TrainerMetrics, patience: int | None = 3, sigmas: float = 1.0) -> None:
        self.metrics = metrics
        self.rule = PairedPatience(patience, sigmas)
        self.best_step: int | None = None

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add the progress so far to the checkpoint that was just saved."""
        if state.is_world_process_zero:
            progress = {**self.rule.state_dict(), "best_step": self.best_step}
            torch.save(progress, _state_file("AURCStopping", args, state))

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Continue with the progress of the checkpoint from which the run resumes."""
        file = _state_file("AURCStopping", args, state)
        if state.global_step > 0 and file.exists():
            progress = torch.load(file, weights_only=False)  # samples are numpy arrays
            self.rule.load_state_dict(progress)
            self.best_step = progress["best_step"]

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Compare the last evaluation with the best one; request a checkpoint after progress, or the end of training.

        Called by the Trainer, which reads the flags set on `control`. Raises InputError if `metrics` has no evaluation.
        """
        if self.metrics.samples is None:
            raise InputError(
                "AURCStopping: its `metrics` have seen no evaluation. Pass the same object to the Trainer: "
                "`compute_metrics=metrics, callbacks=[AURCStopping(metrics)]`."
            )
        loss, confidence = self.metrics.samples
        # is AURC below the best so far by enough standard errors? This also records the evaluation.
        if self.rule.improved(loss, confidence):
            self.best_step = state.global_step
            control.should_save = True
        # `patience` evaluations in a row without progress
        if self.rule.exhausted:
            control.should_training_stop = True


class TrainerTuning(TrainerCallback):  # type: ignore[misc, valid-type]
    """The recipe of `abstain.torch.fine_tune` for the Trainer: averaged weights, accepted or not by a paired test.

    You configure the training: `compute_loss_func=trainer_loss(mix=0.5)` and a constant rate. The callback averages the
    model's weights after each epoch and evaluates the mean on held-out samples. At the end of training the model has
    the averaged weights if they rank errors better than the original ones by a paired test, otherwise its original
    ones; `result` says which. Checkpoints hold the original weights and the mean so far (`TrainerTuning.pt`), so a run
    resumed from one ends as if it had not stopped. If training raises, the model keeps its last weights.

    Parameters
    ----------
    held_out : iterable of batches
        Mappings with "labels" that the model was not trained on, in the same order each time they are read (no
        shuffling), e.g. `trainer.get_eval_dataloader(held_out)`.
    looks : int
        How often to evaluate on the held-out samples, spread evenly over the epochs.
    level : float
        Confidence level of the verdict, over all evaluations together.

    Examples
    --------
    >>> TrainerTuning([]).result is None  # Trainer(..., callbacks=[TrainerTuning(held_out)])
    True
    """

    def __init__(self, held_out: Iterable[Any], *, looks: int = 4, level: float = 0.95) -> None:
        """Store the options; raise InputError if `held_out` can be read only once.

        `looks` is the number of evaluations on the held-out samples during training. `level` is the confidence level of
        the verdict that the averaged weights are better than the original ones. Both are checked when training starts.
        """
        check_read_many_times("TrainerTuning", "held_out", held_out)
        self.held_out = held_out
        self.looks = looks
        self.level = level
        self.result: Tuned | None = None

    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        model: Any = None,
        train_dataloader: Any = None,
        **kwargs: Any,
    ) -> None:
        """Evaluate the original weights, or continue the averaging of the checkpoint from which the run resumes.

        The Trainer passes the `model` that it trains. Raises InputError if the held-out samples are training samples,
        that checkpoint has no state of this callback, or `looks` or `level` is out of range.
        """
        check_held_out_apart("TrainerTuning", train_dataloader, self.held_out)
        averaging_state = None
        resumes = state.global_step > 0
        if resumes:
            file = _state_file("TrainerTuning", args, state)  # in the folder of the checkpoint of this step
            if not file.exists():
                raise InputError(
                    f"TrainerTuning: the checkpoint has no {file}, so the weights before tuning are not known. To tune "
                    f"the weights of a checkpoint, load them into the model and train without resume_from_checkpoint."
                )
            averaging_state = torch.load(file, map_location="cpu", weights_only=True)
        self._averaging = Averaging(
            "TrainerTuning",
            model,
            self.held_out,
            epochs=state.num_train_epochs,
            looks=self.looks,
            level=self.level,
            state=averaging_state,
        )
        # The checkpoint may have been saved after the last step of an epoch, but before that epoch was averaged:
        # `catch_up` compares the number of finished epochs with that in the average.
        self._averaging.catch_up(_whole_epochs(state), train_dataloader)

    def on_epoch_end(
        self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any
    ) -> None:
        """Add the weights to the mean, and evaluate it after some epochs.

        Nothing happens if training stops within an epoch: a run that resumes there ends the epoch later.
        """
        if _whole_epochs(state) > self._averaging.epoch:
            self._averaging.after_epoch(train_dataloader)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add the original weights and the averaging so far to the checkpoint that was just saved."""
        if state.is_world_process_zero:
            torch.save(self._averaging.state_dict(), _state_file("TrainerTuning", args, state))

    def on_train_end(
        self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any
    ) -> None:
        """Compare the best mean with the original weights, and load whichever is kept."""
        if not self._averaging.epoch:  # training stopped within the first epoch
            self._averaging.after_epoch(train_dataloader)
        self.result = self._averaging.finish(train_dataloader)


def _whole_epochs(state: Any) -> int:
    """Return how many epochs the Trainer has finished; `state.epoch` counts parts of epochs, too.

    It is None before training. The Trainer adds up the parts, so that a finished epoch may be a rounding error short of
    a whole number.
    """
    epochs = 0.0 if state.epoch is None else state.epoch
    return int(epochs + _EPOCH_ROUNDING)
