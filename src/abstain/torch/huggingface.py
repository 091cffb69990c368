"""Hugging Face Trainer: the loss, the evaluation metrics, and early stopping on AURC with its standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from abstain._arrays import Array
from abstain.errors import InputError, MissingDependencyError
from abstain.torch.loss import AURCLoss
from abstain.torch.stopping import ErrorAwarePatience

try:
    from transformers import TrainerCallback
except ImportError as problem:  # pragma: no cover - transformers is present wherever the tests run
    raise MissingDependencyError("abstain.torch.huggingface", "transformers", "huggingface") from problem

__all__ = ["AURCStopping", "trainer_loss", "trainer_metrics"]


def trainer_loss(**options: Any) -> Callable[..., Array]:
    """The loss for `Trainer(compute_loss_func=trainer_loss())`; options as in `AURCLoss`.

    Logits have their classes last, as models there return them; label -100 is ignored. With gradient accumulation the
    Trainer passes the number of items of the whole accumulated batch, and each micro-batch, ranked by itself, adds
    its share of that mean.
    """
    if options.get("reduction", "mean") != "mean":
        raise InputError(f'trainer_loss: `reduction` must be "mean", got {options["reduction"]!r}.')
    criterion = AURCLoss(**{**options, "reduction": "none"})

    def compute(outputs: Any, labels: Array, num_items_in_batch: Any = None) -> Array:
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
        each = criterion(logits.movedim(-1, 1), labels)
        count = num_items_in_batch
        if count is None:
            count = (labels != criterion.options["ignore_index"]).sum().clamp(min=1)
        return each.sum() / count

    return compute


def trainer_metrics(*, level: float = 0.95, **options: Any) -> Callable[[Any], dict[str, float]]:
    """For `Trainer(compute_metrics=trainer_metrics())`: accuracy, and AURC of the 0/1 loss with its error bar.

    Options as in `abstain.aurc` (`estimator`, `ties`). The Trainer puts `eval_` before each name.
    """

    def compute(prediction: Any) -> dict[str, float]:
        from abstain import losses, scores
        from abstain.inference import interval

        logits = (
            prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        )
        logits, labels = np.asarray(logits), np.asarray(prediction.label_ids)
        kept = labels != -100
        logits, labels = logits[kept], labels[kept]
        wrong = losses.zero_one(logits, labels)
        found = interval("aurc", wrong, scores.max_softmax(logits), level=level, **options)
        return {
            "accuracy": 1 - float(np.mean(wrong)),
            "aurc": found.estimate,
            "aurc_se": found.standard_error,
            "aurc_low": found.low,
            "aurc_high": found.high,
        }

    return compute


class AURCStopping(TrainerCallback):  # type: ignore[misc]
    """Stops when validation AURC has not fallen by more than its noise for `patience` evaluations.

    Reads `eval_aurc` and `eval_aurc_se` of `trainer_metrics`. An evaluation that is better by more than `sigmas`
    standard errors asks the Trainer to save; with `save_strategy="no"` those are the only checkpoints, the last of
    them the best (`best_step`).
    """

    def __init__(self, patience: int | None = 3, sigmas: float = 1.0) -> None:
        self.rule = ErrorAwarePatience(patience, sigmas)
        self.best_step: int | None = None

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any
    ) -> None:
        """Decide after each evaluation."""
        if "eval_aurc" not in metrics or "eval_aurc_se" not in metrics:
            raise InputError(
                "AURCStopping: needs `eval_aurc` and `eval_aurc_se`, got "
                f"{sorted(metrics)}. Pass `compute_metrics=trainer_metrics()` to the Trainer."
            )
        if self.rule.improved(metrics["eval_aurc"], metrics["eval_aurc_se"]):
            self.best_step = state.global_step
            control.should_save = True
        if self.rule.exhausted:
            control.should_training_stop = True
