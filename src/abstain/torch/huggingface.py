"""Hugging Face Trainer: the loss, the evaluation metrics, and early stopping on AURC with its standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from abstain import losses, scores
from abstain._arrays import Array
from abstain.errors import InputError, MissingDependencyError
from abstain.inference import interval
from abstain.torch.loss import AURCLoss
from abstain.torch.metrics import ErrorAwarePatience

try:
    from transformers import TrainerCallback
except ImportError as problem:  # pragma: no cover - transformers is present wherever the tests run
    raise MissingDependencyError("abstain.torch.huggingface", "transformers", "huggingface") from problem

__all__ = ["AURCStopping", "trainer_loss", "trainer_metrics"]


def trainer_loss(**options: Any) -> Callable[..., Array]:
    """The loss for `Trainer(compute_loss_func=trainer_loss())`: AURC of each batch; lower is better.

    Logits have their classes last, as models there return them; label -100 is ignored. With gradient accumulation the
    Trainer passes the number of items of the whole accumulated batch, and each micro-batch, ranked by itself, adds
    its share of that mean.

    Parameters
    ----------
    **options
        As in `AURCLoss`, except `reduction`.

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

    The Trainer puts `eval_` before each name.

    Parameters
    ----------
    level : float
        Of the interval; see `abstain.inference.interval`.
    **options
        As in `abstain.aurc` (`estimator`, `ties`).

    Returns
    -------
    callable
        From the Trainer's predictions to "accuracy", "aurc", "aurc_se", "aurc_low" and "aurc_high".

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> seen = SimpleNamespace(predictions=[[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], label_ids=[0, 1, 1])
    >>> found = trainer_metrics()(seen)
    >>> round(found["accuracy"], 4), round(found["aurc"], 4)
    (0.6667, 0.1111)
    """

    def compute(prediction: Any) -> dict[str, float]:
        outputs, labels = prediction.predictions, np.asarray(prediction.label_ids)
        logits = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)
        counted = labels != -100
        logits, labels = logits[counted], labels[counted]
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

    Parameters
    ----------
    patience : int, optional
        None never stops.
    sigmas : float
        How many standard errors count as progress; 0 is the usual rule.

    Examples
    --------
    >>> AURCStopping(patience=5).best_step is None  # Trainer(..., callbacks=[AURCStopping(patience=5)])
    True
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
