"""The loss as a module: a drop-in for `torch.nn.CrossEntropyLoss`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

from abstain._arrays import Array
from abstain.core.estimators import Estimator
from abstain.errors import InputError
from abstain.torch import inputs
from abstain.torch.confidence import Score
from abstain.torch.criteria import Criterion
from abstain.torch.losses import aurc_loss

Schedule = Callable[[int], float]


class AURCLoss(nn.Module):  # type: ignore[misc]
    r"""AURC of each batch as a training loss; lower is better. Options as in `aurc_loss`.

    The weights are those of the batch at hand: a short last batch is as right as any other, equal confidences weigh
    the same, and under autocast the ranks keep their order. Nothing waits for the GPU, so the loss can be compiled
    without graph breaks and captured in a CUDA graph (gather=True exchanges batch sizes and cannot be captured).

    With gradient accumulation each micro-batch is ranked by itself, and the mean of their losses estimates the same
    population AURC; `estimator="loo"` keeps that estimate free of the +risk/n that small batches add to "harmonic".

    Parameters
    ----------
    mix : float or schedule
        Share of the plain criterion. A schedule (`LinearWarmup(5)`) is moved on by `step()`, once per epoch or per
        batch, and its progress is part of `state_dict()`.

    Examples
    --------
    >>> from abstain.torch import LinearWarmup
    >>> criterion = AURCLoss(mix=LinearWarmup(5))
    >>> _ = criterion(torch.randn(7, 3), torch.tensor([0, 1, 2, 0, 1, 2, 0]))
    >>> criterion.step()
    >>> criterion.current_mix
    0.8
    """

    def __init__(
        self,
        *,
        estimator: Estimator = "harmonic",
        score: Score = "max_softmax",
        criterion: Criterion | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        weight: Array | None = None,
        rank: Literal["hard", "soft"] = "hard",
        temperature: float = 0.1,
        mix: float | Schedule = 0.0,
        gather: bool = False,
        group: Any = None,
        check_finite: bool | None = None,
    ) -> None:
        super().__init__()
        inputs.check_options(estimator, reduction, rank, temperature, label_smoothing)
        inputs.check_together(
            estimator, criterion, label_smoothing, weight, soft=rank == "soft", gather=gather
        )
        self.options: dict[str, Any] = {
            "estimator": estimator,
            "score": score,
            "reduction": reduction,
            "ignore_index": ignore_index,
            "label_smoothing": label_smoothing,
            "rank": rank,
            "temperature": temperature,
            "gather": gather,
            "group": group,
            "check_finite": check_finite,
        }
        self.criterion = criterion
        self.register_buffer("weight", weight)
        self.schedule = mix if callable(mix) else None
        if self.schedule is None and not 0 <= mix <= 1:  # type: ignore[operator]
            raise InputError(f"AURCLoss: `mix` must lie in [0, 1], got {mix!r}.")
        self.fixed_mix = 0.0 if self.schedule is not None else float(mix)  # type: ignore[arg-type]
        if self.schedule is not None:  # tensors, so that compiled code does not start anew at each step
            self.register_buffer("steps_done", torch.zeros((), dtype=torch.int64))
            self.register_buffer("mix", torch.tensor(self.schedule(0), dtype=torch.float64), persistent=False)

    def forward(self, logits: Array, target: Array) -> Array:
        """AURC of this batch."""
        mix = self.fixed_mix if self.schedule is None else self.mix
        return aurc_loss(
            logits, target, criterion=self.criterion, weight=self.weight, mix=mix, **self.options
        )

    def step(self) -> None:
        """Move the schedule of `mix` on by one."""
        if self.schedule is not None:
            self.steps_done += 1
            self._set_mix()

    @property
    def current_mix(self) -> float:
        """Share of the plain criterion now."""
        return self.fixed_mix if self.schedule is None else float(self.mix)

    def _set_mix(self) -> None:
        self.mix.fill_(self.schedule(int(self.steps_done)))  # type: ignore[misc]

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        if self.schedule is not None:
            self._set_mix()

    def extra_repr(self) -> str:
        """The options that differ from plain defaults."""
        shown = [f"{name}={self.options[name]!r}" for name in ("estimator", "score", "rank", "reduction")]
        shown.append(f"mix={self.schedule if self.schedule is not None else self.fixed_mix}")
        return ", ".join([*shown, *(["gather=True"] if self.options["gather"] else [])])
