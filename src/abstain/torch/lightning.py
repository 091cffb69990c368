"""Lightning: early stopping and checkpoints by validation AURC, and fine-tuning of a finished network."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from abstain._check import check_fraction
from abstain.errors import InputError, MissingDependencyError
from abstain.torch.metrics import SelectiveMetric
from abstain.torch.tuning import (
    Averaging,
    PairedPatience,
    Tuned,
    check_held_out_apart,
    check_read_many_times,
    error_bar_entries,
)

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError as problem:  # pragma: no cover - Lightning is present wherever the tests run
        raise MissingDependencyError("abstain.torch.lightning", "lightning", "lightning") from problem

__all__ = ["AURCMonitor", "SelectiveTuning"]


class AURCMonitor(Callback):  # type: ignore[misc]
    """Monitors an `AURC` metric that the module updates in `validation_step`.

    At the end of each validation it logs `<metric>`, `<metric>_se`, `<metric>_low` and `<metric>_high`. It saves a
    checkpoint when AURC has fallen below the best so far by more than `sigmas` standard errors of their difference
    (paired: validation data must come in the same order), and stops training after `patience` validations without such
    progress. In the module, write `self.val_aurc = AURC()` and `self.val_aurc.update(logits, y)`; the callback computes
    the metric (over all processes) and resets it. The module may log the metric, too.

    Parameters
    ----------
    metric : str
        Attribute of the module that holds the metric.
    patience : int, optional
        How many validations without progress to allow; None never stops.
    dirpath : path, optional
        Folder for the best checkpoint, `best.ckpt`; None saves nothing.
    sigmas : float
        How many standard errors count as progress; with 0, every fall does.
    level : float
        Confidence level of the interval; see `abstain.inference.interval`.

    Examples
    --------
    >>> AURCMonitor("val_aurc", patience=3).path is None  # Trainer(..., callbacks=[AURCMonitor(...)])
    True
    """

    def __init__(
        self,
        metric: str = "val_aurc",
        *,
        patience: int | None = None,
        dirpath: str | Path | None = None,
        sigmas: float = 1.0,
        level: float = 0.95,
    ) -> None:
        """Store the options, and make the stopping rule.

        `metric` is the attribute of the module that holds the metric, and `level` that of its interval. Progress is a
        fall of AURC by more than `sigmas` standard errors. `patience` is the number of validations without progress to
        allow (None: any). The best checkpoint is saved as `best.ckpt` in the folder `dirpath` (None: not saved). Raises
        InputError for a `level`, `patience` or `sigmas` out of range.
        """
        self.metric = metric
        self.level = check_fraction("AURCMonitor", "level", level, open_high=True)
        self.rule = PairedPatience(patience, sigmas)
        self.path = None if dirpath is None else Path(dirpath) / "best.ckpt"

    def _metric_of(self, pl_module: Any) -> SelectiveMetric:
        """Return the metric of the module; raise InputError if it has none under that name."""
        metric = getattr(pl_module, self.metric, None)
        if not isinstance(metric, SelectiveMetric):
            raise InputError(
                f"AURCMonitor: the module must hold a metric in `{self.metric}`, got {type(metric).__name__}. "
                f"Set `self.{self.metric} = abstain.torch.AURC()` in its __init__."
            )
        return metric

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Reset the metric.

        Not at the end of a validation: there Lightning may still have to compute the value that the module logged.
        """
        self._metric_of(pl_module).reset()

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the metric with its interval, save a checkpoint after progress, and stop when patience is exhausted.

        Nothing happens in the short validation by which Lightning tests the code before training. Raises
        InfeasibleError for a metric that keeps bins instead of samples.
        """
        if trainer.sanity_checking:
            return
        metric = self._metric_of(pl_module)  # the module has updated it in this validation
        interval = metric.compute_with_interval(self.level)
        # the estimate under the name of the metric, and "_se", "_low" and "_high" with that name before them
        pl_module.log_dict(error_bar_entries(self.metric, interval), rank_zero_only=True)
        loss, confidence = metric.samples()
        # is AURC below the best so far by enough standard errors? This also records the evaluation.
        has_improved = self.rule.improved(loss, confidence)
        if has_improved and self.path is not None:
            trainer.save_checkpoint(self.path, weights_only=False)  # with all that resuming needs
        # `patience` evaluations in a row without progress
        if self.rule.exhausted:
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        """Return the progress so far, for a checkpoint."""
        return self.rule.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the progress from a checkpoint."""
        self.rule.load_state_dict(state_dict)


class SelectiveTuning(Callback):  # type: ignore[misc]
    """The recipe of `abstain.torch.fine_tune` for Lightning: averaged weights, accepted or not by a paired test.

    The module defines the training: `AURCLoss(mix=0.5)` and SGD at a constant rate such as 0.02. The callback averages
    the network's weights after each epoch and evaluates the mean on held-out samples. At the end of training the
    network has the averaged weights if they rank errors better than the original ones by a paired test, otherwise its
    original ones; `result` says which. Checkpoints hold the original weights and the mean so far, so a run resumed with
    `ckpt_path` ends as if it had not stopped. If training raises, the network keeps its last weights.

    Parameters
    ----------
    held_out : iterable of batches
        (inputs, labels) that the network was not trained on, in the same order each time they are read (no shuffling).
    network : str
        Attribute of the module that holds the network, which returns logits.
    looks : int
        How often to evaluate on the held-out samples, spread evenly over the epochs.
    level : float
        Confidence level of the verdict, over all evaluations together.

    Examples
    --------
    >>> SelectiveTuning([]).result is None  # Trainer(max_epochs=20, callbacks=[SelectiveTuning(held_out)])
    True
    """

    def __init__(
        self, held_out: Iterable[Any], *, network: str = "model", looks: int = 4, level: float = 0.95
    ) -> None:
        """Store the options; raise InputError if `held_out` can be read only once.

        `network` is the name of the attribute of the trained module that holds the network. `looks` is the number of
        evaluations on the held-out samples during training. `level` is the confidence level of the verdict that the
        averaged weights are better than the original ones. `looks` and `level` are checked when training starts.
        """
        check_read_many_times("SelectiveTuning", "held_out", held_out)
        self.held_out = held_out
        self.network = network
        self.looks = looks
        self.level = level
        self.result: Tuned | None = None
        # of the last fit: the mean of the weights so far, the original weights, and how both rank the held-out samples
        self._averaging: Averaging | None = None
        self._first_epoch = 0  # the trainer's number of the first epoch after the original weights
        self._state_to_resume: dict[str, Any] | None = None  # of a checkpoint, between loading and training

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start averaging: `Averaging` copies the original weights and evaluates them on the held-out samples.

        A run that resumes from a checkpoint continues the averaging of that checkpoint instead; a second fit starts
        anew. Raises InputError if the module has no network under the stated name, if the held-out samples are training
        samples, if the checkpoint has no state of this callback, or if `trainer.max_epochs`, `looks` or `level` is out
        of range.
        """
        check_held_out_apart("SelectiveTuning", trainer.train_dataloader, self.held_out)
        network_attribute = self.network
        network = getattr(pl_module, network_attribute, None)
        if network is None:
            raise InputError(
                f"SelectiveTuning: the module has no `{network_attribute}`. Name the attribute that holds the network, "
                f"`SelectiveTuning(..., network=...)`."
            )
        state = self._state_to_resume  # None unless this run resumes
        self._state_to_resume = None  # used once: a later fit starts anew
        if state is None and trainer.ckpt_path is not None:
            raise InputError(
                f"SelectiveTuning: {trainer.ckpt_path} has no state of this callback, so the weights before tuning are "
                f"not known. To tune the weights of a checkpoint, load them into the module and fit without ckpt_path."
            )
        self._first_epoch = trainer.current_epoch if state is None else state["first_epoch"]
        self._averaging = Averaging(
            "SelectiveTuning",
            network,
            self.held_out,
            epochs=trainer.max_epochs - self._first_epoch,
            looks=self.looks,
            level=self.level,
            state=None if state is None else state["averaging"],
        )
        # The checkpoint may have been saved after the last step of an epoch, but before that epoch was averaged:
        # `catch_up` compares the number of finished epochs with that in the average.
        self._averaging.catch_up(trainer.current_epoch - self._first_epoch, trainer.train_dataloader)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Add the weights to the mean, and evaluate it after some epochs."""
        assert self._averaging is not None  # set when training started
        self._averaging.after_epoch(trainer.train_dataloader)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Compare the best mean with the original weights, and load whichever is kept."""
        assert self._averaging is not None
        self.result = self._averaging.finish(trainer.train_dataloader)

    def state_dict(self) -> dict[str, Any]:
        """Return the original weights and the averaging so far, for a checkpoint; empty before training."""
        if self._averaging is None:
            return {}
        return {"averaging": self._averaging.state_dict(), "first_epoch": self._first_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state of a checkpoint until training starts."""
        self._state_to_resume = state_dict
