"""Tune a finished classifier for selective prediction: averaged weights, kept only where held-out samples prefer them.

`fine_tune` is the whole recipe for a plain loop; `Averaging` is what the callbacks for trainers share with it.
`PairedPatience` is the rule by which those callbacks stop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

from abstain._arrays import Array
from abstain._check import check_count, check_fraction, check_nonnegative
from abstain.errors import InputError
from abstain.inference import Difference, Interval, paired_difference
from abstain.torch.loss import AURCLoss
from abstain.torch.metrics import AURC

Samples = tuple[Array, Array]  # losses and confidences


@dataclass(frozen=True, repr=False)
class Tuned:
    """What tuning did to the held-out 0/1 AURC of a network, and which weights were kept.

    Parameters
    ----------
    improved : bool
        Are the averaged weights better than the start by the paired test? If not, the network has its old weights.
    epoch : int
        After which epoch the best averaged weights were found.
    difference : Difference
        Their AURC minus that of the start on the same samples. The best of several looks was chosen, so the level of
        its interval is raised: 1 - (1 - level) / looks.
    looks : tuple of (int, float)
        Epoch and held-out AURC of the averaged weights, look by look.

    Examples
    --------
    >>> from abstain.inference import paired_difference
    >>> same = [0, 0, 1, 0, 1, 1], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    >>> Tuned(False, 5, paired_difference(*same, *same), ((5, 0.25),)).improved
    False
    """

    improved: bool
    epoch: int
    difference: Difference
    looks: tuple[tuple[int, float], ...]

    def __repr__(self) -> str:
        d = self.difference
        change = 100 * (d.estimate_a / d.estimate_b - 1) if d.estimate_b else 0.0
        better = "lower than the start, the averaged weights are kept"
        verdict = better if self.improved else "not shown to be better than the start, which is kept"
        why = d.note or f"difference [{d.low:.3g}, {d.high:.3g}] at {100 * d.level:.4g}%"
        return (
            f"held-out AURC {d.estimate_b:.4g} -> {d.estimate_a:.4g} (epoch {self.epoch}, {change:+.1f}%): "
            f"{verdict} ({why}, n = {d.n})"
        )


def fine_tune(
    network: nn.Module,
    train: Iterable[Any],
    held_out: Iterable[Any],
    *,
    epochs: int = 20,
    rate: float = 0.02,
    mix: float = 0.5,
    optimizer: torch.optim.Optimizer | None = None,
    looks: int = 4,
    level: float = 0.95,
) -> Tuned:
    r"""Go on training a finished classifier so that it ranks its errors better, and keep the result only if it does.

    Every epoch trains at a constant rate with the share `mix` of cross-entropy and the rest AURC loss. What counts are
    not the last weights but the mean of those after each epoch,

    .. math:: \bar w = \frac{1}{E}\sum_{e=1}^{E} w_e ,

    batch norm refreshed on the training data. Averaged weights are looked at on held-out samples `looks` times; the
    look with the lowest 0/1 AURC is compared with the start by a paired test on those samples. If it is not shown to
    be lower, the network gets its old weights back.

    Parameters
    ----------
    network : torch.nn.Module
        The finished classifier, changed in place; in evaluation mode afterwards.
    train : iterable of batches
        As often as wanted: a DataLoader. A batch is (inputs, labels), or a mapping with "labels" whose other entries
        are the network's arguments. Augmented as before.
    held_out : iterable of batches
        Samples that the network was not trained on, always in the same order. Some thousands: with few errors among
        them no difference can be shown.
    epochs : int
        Passes over `train`. AURC was still falling after 20 on CIFAR; after 5 it need not be below the start.
    rate : float
        Of the default optimiser: SGD with Nesterov momentum 0.9 and weight decay 5e-4. Far above the end of a usual
        schedule, else the weights of different epochs are too much alike for their mean to help.
    mix : float
        Share of cross-entropy; 1 is cross-entropy alone, which was not shown to be worse.
    optimizer : torch.optim.Optimizer, optional
        In place of the default one, over `network.parameters()`; `rate` is not looked at then.
    looks : int
        How often held-out samples are asked. More looks find a better one, and cost a stricter test.
    level : float
        Confidence of the verdict, over all looks together.

    Returns
    -------
    Tuned
        The verdict; print it.

    Examples
    --------
    >>> x = torch.randn(64, 4)
    >>> batches = [(x, (x.sum(1) > 0).long())]
    >>> fine_tune(torch.nn.Linear(4, 2), batches, batches, epochs=2, looks=1).looks[0][0]
    2
    """
    if optimizer is None:
        optimizer = torch.optim.SGD(
            network.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4
        )
    criterion = AURCLoss(mix=mix)
    averaging = Averaging("fine_tune", network, held_out, epochs, looks, level)
    for _ in range(epochs):
        network.train()
        for batch in _on(train, network):
            optimizer.zero_grad()
            criterion(*_logits_and_labels(network, batch)).backward()
            optimizer.step()
        averaging.after_epoch(train)
    return averaging.finish(train)


class Averaging:
    """The mean of a network's weights after each epoch, looked at on held-out samples and judged beside the start."""

    def __init__(
        self, name: str, network: nn.Module, held_out: Iterable[Any], epochs: int, looks: int, level: float
    ) -> None:
        epochs, looks = check_count(name, "epochs", epochs), check_count(name, "looks", looks)
        self.level = check_fraction(name, "level", level, open_high=True)
        self.network, self.held_out = network, held_out
        self.due = {math.ceil(epochs * k / looks) for k in range(1, looks + 1)}
        self.epoch = 0
        self.weights = deepcopy(network.state_dict())
        self.start = _read(network, held_out).samples()
        self.averaged = AveragedModel(network)
        network.train()  # a finished network usually comes in evaluation mode, and trainers may leave it there
        self.looks: list[tuple[int, float]] = []
        self.best: tuple[int, Samples, dict[str, Array]] | None = None

    def after_epoch(self, train: Iterable[Any]) -> None:
        """Take the weights into the mean, and look at it where that is due."""
        self.epoch += 1
        self.averaged.update_parameters(self.network)
        if self.epoch in self.due:
            self._look(train)

    def _look(self, train: Iterable[Any]) -> None:
        # a batch goes in a mapping, since `update_bn` takes the first of a pair by itself
        update_bn(({"batch": batch} for batch in _on(train, self.network)), _OfBatch(self.averaged))
        metric = _read(self.averaged, self.held_out)
        value = float(metric.compute())
        if value < min((v for _, v in self.looks), default=math.inf):
            self.best = self.epoch, metric.samples(), deepcopy(self.averaged.module.state_dict())
        self.looks.append((self.epoch, value))

    def finish(self, train: Iterable[Any]) -> Tuned:
        """The verdict; the network gets the weights that it names."""
        if not self.epoch:
            raise InputError("tuning: not one epoch was trained, so there is nothing to judge.")
        if not self.looks or self.looks[-1][0] != self.epoch:  # stopped before its last epoch
            self._look(train)
        assert self.best is not None
        epoch, samples, weights = self.best
        level = 1 - (1 - self.level) / len(self.looks)
        found = paired_difference(*samples, *self.start, metric="aurc", level=level)
        improved = found.significant and found.difference < 0
        self.network.load_state_dict(weights if improved else self.weights)
        self.network.eval()
        return Tuned(improved, epoch, found, tuple(self.looks))


class _OfBatch(nn.Module):  # type: ignore[misc]
    """A network that takes a whole batch, as `update_bn` hands it over."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, given: Mapping[str, Any]) -> Array:
        return _logits_and_labels(self.network, given["batch"])[0]


def _logits_and_labels(network: nn.Module, batch: Any) -> tuple[Array, Array]:
    """Logits with their classes on axis 1, and labels."""
    if not isinstance(batch, Mapping):
        return network(batch[0]), batch[1]
    out = network(**{key: value for key, value in batch.items() if key != "labels"})
    logits = out["logits"] if isinstance(out, Mapping) else getattr(out, "logits", out)
    return logits.movedim(-1, 1), batch["labels"]


def _on(batches: Iterable[Any], network: nn.Module) -> Iterator[Any]:
    """Batches on the network's device."""
    device = next(network.parameters()).device
    for batch in batches:
        if isinstance(batch, Mapping):
            yield {key: value.to(device) for key, value in batch.items()}
        else:
            yield tuple(part.to(device) for part in batch)


@torch.no_grad()  # type: ignore[untyped-decorator]
def _read(network: nn.Module, batches: Iterable[Any]) -> AURC:
    """A metric that has seen all batches; label -100 is left out."""
    training = network.training
    network.eval()
    metric = AURC(ignore_index=-100).to(next(network.parameters()).device)
    for batch in _on(batches, network):
        metric.update(*_logits_and_labels(network, batch))
    network.train(training)
    return metric


def error_bar(name: str, found: Interval) -> dict[str, float]:
    """An interval by the names under which callbacks log it."""
    values = {"": found.estimate, "_se": found.standard_error, "_low": found.low, "_high": found.high}
    return {f"{name}{end}": float(value) for end, value in values.items()}


class PairedPatience:
    """Counts evaluations since AURC last fell by more than `sigmas` standard errors of the difference to the best.

    A validation AURC has an error bar, and taking every small dip for progress keeps the luckiest checkpoint. But two
    evaluations are of the same samples: what makes a sample hard for both cancels, so the error of their *difference*
    is much smaller than that of either. The best is the last evaluation that was progress, so many small steps in one
    direction still add up.

    Parameters
    ----------
    patience : int, optional
        None is never exhausted.
    sigmas : float
        How many standard errors count as progress; 0 is the usual rule.

    Examples
    --------
    >>> rule = PairedPatience(patience=1)
    >>> wrong, rising, falling = [0, 0, 0, 0, 1, 1], [1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]
    >>> [rule.improved(wrong, sure) for sure in (rising, falling, falling)]
    [True, True, False]
    >>> rule.exhausted
    True
    """

    def __init__(self, patience: int | None = None, sigmas: float = 1.0) -> None:
        self.patience = None if patience is None else check_count("PairedPatience", "patience", patience)
        self.sigmas = check_nonnegative("PairedPatience", "sigmas", sigmas)
        self.best: float | None = None
        self.samples: Samples | None = None
        self.since = 0

    def improved(self, loss: Array, confidence: Array) -> bool:
        """Take in one evaluation, always of the same samples in the same order; is it progress?"""
        found = paired_difference(loss, confidence, *(self.samples or (loss, confidence)))
        if self.samples is None or found.difference < -self.sigmas * found.standard_error:
            self.best, self.samples, self.since = found.estimate_a, (loss, confidence), 0
            return True
        self.since += 1
        return False

    @property
    def exhausted(self) -> bool:
        """Has there been no progress for `patience` evaluations?"""
        return self.patience is not None and self.since >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"best": self.best, "samples": self.samples, "since": self.since}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.best, self.samples, self.since = state["best"], state["samples"], state["since"]
