"""Fine-tune a finished classifier for selective prediction: averaged weights, kept only if they rank errors better.

`fine_tune` is the whole recipe as one function. `Averaging` is the part that it shares with the callbacks for trainers.
`PairedPatience` decides when those callbacks stop training.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import array_api_compat.torch as xp
import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler, Subset

from abstain._arrays import Array, to_host
from abstain._check import (
    check_count,
    check_fraction,
    check_nonnegative,
    check_positive,
    rows_sum_to_one,
    sum_tolerance,
)
from abstain._tables import count_noun
from abstain.errors import InputError
from abstain.inference import Difference, Interval, interval, paired_difference
from abstain.inference.standard_errors import effective_count
from abstain.metrics.areas import rank_weights
from abstain.metrics.few_draws import ENOUGH as ENOUGH_ERRORS
from abstain.torch.loss import AURCLoss
from abstain.torch.metrics import AURC

Samples = tuple[Array, Array]  # losses and confidences
_MODULES_OF_PLAIN_ITERATORS = ("builtins", "itertools", "torch.utils.data.dataloader")


def _count_effective_errors(loss: np.ndarray, confidence: np.ndarray) -> float:
    """As many errors of equal rank weight as would say as much about AURC; equal confidences are ranked by chance."""
    order = np.argsort(confidence)  # the least confident first, as the ranks of `rank_weights`
    return effective_count(rank_weights(len(loss)) * loss[order])


def _round_up(number: float) -> int:
    """The number rounded up to two digits: more would claim more than is known."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit


@dataclass(frozen=True, repr=False)
class Tuned:
    """How fine-tuning changed the held-out 0/1 AURC of a network, and which weights the network has now.

    Parameters
    ----------
    improved : bool
        True if the averaged weights are better than the original ones by the paired test, and the network has them.
        Otherwise the network has its original weights.
    epoch : int
        The epoch after which the averaged weights had their lowest held-out AURC.
    difference : Difference
        The AURC of those averaged weights minus that of the original ones, on the same samples. They are the best of
        several evaluations, so the level of the interval is raised to 1 - (1 - level) / looks.
    looks : tuple of (int, float)
        Epoch and held-out AURC of the averaged weights, one pair per evaluation.

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
        """One line: AURC before and after, the verdict, and the interval of the difference (or why there is none)."""
        difference = self.difference  # of a, the averaged weights, minus b, the original ones
        original_aurc = difference.estimate_b
        averaged_aurc = difference.estimate_a
        change = f", {100 * (averaged_aurc / original_aurc - 1):+.1f}%" if original_aurc else ""
        if self.improved:
            verdict = "lower than the start, the averaged weights are kept"
        elif difference.significant and difference.difference > 0:
            verdict = "higher than the start, which is kept"
        else:
            verdict = "not shown to be better than the start, which is kept"
        limits = f"difference [{difference.low:.3g}, {difference.high:.3g}] at {100 * difference.level:.4g}%"
        # the note says that there are too few errors for a verdict; it is "" where there are enough
        reason = difference.note or limits
        return (
            f"held-out AURC {original_aurc:.4g} -> {averaged_aurc:.4g} (epoch {self.epoch}{change}): "
            f"{verdict} ({reason}, n = {difference.n})"
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
    r"""Train a finished classifier further so that it ranks its errors better, and keep the result only if it does.

    Every epoch trains at a constant rate; the loss is cross-entropy with the share `mix`, otherwise AURC loss. The
    result is not the last weights but the mean of the weights after each epoch,

    .. math:: \bar w = \frac{1}{E}\sum_{e=1}^{E} w_e ,

    with batch norm statistics recomputed on the training data. The averaged weights are evaluated on the held-out
    samples `looks` times. Those with the lowest 0/1 AURC are compared with the original weights by a paired test on the
    same samples. If they are not shown to be better, the network gets its original weights back; so it does, with its
    original mode, if anything is raised (also by Ctrl-C).

    Parameters
    ----------
    network : torch.nn.Module
        The finished classifier. It is changed in place, and in evaluation mode afterwards.
    train : iterable of batches
        An iterable that can be read many times, such as a DataLoader. A batch is (inputs, labels), or a mapping with
        "labels" whose other entries are the network's arguments. Batches are moved to the device of the network. Use
        the augmentation of the original training.
    held_out : iterable of batches
        Samples that the network was not trained on, in the same order each time they are read (no shuffling). Use
        thousands: the start must make at least eleven effective errors on them (as many errors of equal weight as would
        say as much, so fewer than the errors), and with few errors only a large difference can be shown. Choose a
        threshold on other samples afterwards: these have already chosen the weights.
    epochs : int
        Passes over `train`. AURC was still falling after 20 on CIFAR; after 5 it may not be below the start yet.
    rate : float
        Learning rate of the default optimiser, SGD with Nesterov momentum 0.9 and weight decay 5e-4. It must be far
        above the end of a usual schedule: otherwise the weights of different epochs are too similar for their mean to
        help.
    mix : float
        Share of cross-entropy; 1 is cross-entropy alone, which was not shown to be worse.
    optimizer : torch.optim.Optimizer, optional
        Replaces the default optimiser, over `network.parameters()`; `rate` is then ignored.
    looks : int
        How often to evaluate on the held-out samples. More evaluations find better weights but need a stricter test.
    level : float
        Confidence level of the verdict, over all evaluations together.

    Returns
    -------
    Tuned
        The verdict; print it.

    Raises
    ------
    InputError
        Before training: if `epochs`, `looks`, `level` or `mix` is out of range, `train` or `held_out` can be read only
        once, `optimizer` has none of the network's parameters, or `held_out` has samples of `train`, other labels when
        it is read again, or too few errors for any verdict. Later: if `train` has no more batches, or `held_out`
        changes. Also for a batch that is not (inputs, labels), or whose inputs are not finite.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(600, 4)
    >>> y = (x.sum(1) > 0).long()
    >>> train, held_out = [(x[:300], y[:300])], [(x[300:], y[300:])]
    >>> fine_tune(torch.nn.Linear(4, 2), train, held_out, epochs=2, looks=1).looks[0][0]
    2
    """
    if not isinstance(network, nn.Module):
        raise InputError(
            f"fine_tune: `network` must be a torch.nn.Module, got {type(network).__name__}. The order is "
            f"`fine_tune(network, train, held_out)`."
        )
    check_read_many_times("fine_tune", "train", train)
    check_read_many_times("fine_tune", "held_out", held_out)
    check_held_out_apart("fine_tune", train, held_out)
    rate = check_positive("fine_tune", "rate", rate)
    _check_trained(network, optimizer)
    if optimizer is None:
        optimizer = torch.optim.SGD(
            network.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4
        )
    criterion = AURCLoss(mix=mix)
    averaging = Averaging("fine_tune", network, held_out, epochs=epochs, looks=looks, level=level)
    try:
        for _ in range(epochs):
            network.train()
            for batch in _read_batches("fine_tune", "train", train, network, needs_labels=True):
                optimizer.zero_grad()
                logits, labels = _predict(network, batch)
                try:
                    loss = criterion(logits, labels)
                except InputError:
                    _check_inputs_finite(
                        "fine_tune", "train", batch
                    )  # NaN inputs look as if training diverged
                    raise
                loss.backward()
                optimizer.step()
            averaging.after_epoch(train)
        return averaging.finish(train)
    except BaseException:  # Ctrl-C, too: half-trained weights are worse than either result
        averaging.restore_start()
        raise


def check_read_many_times(name: str, argument: str, batches: Iterable[Any]) -> None:
    """Raise InputError for what is no iterable, and for a plain iterator, which is empty when it is read again.

    Plain iterators are those of Python, itertools and torch's DataLoader. Iterators of other modules are let through,
    since some of them start anew each time. `name` is the function or callback and `argument` its parameter, for the
    message.
    """
    if not (hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")):
        raise InputError(
            f"{name}: `{argument}` must be a DataLoader or a list of batches, got {type(batches).__name__}."
        )
    if isinstance(batches, Iterator) and type(batches).__module__ in _MODULES_OF_PLAIN_ITERATORS:
        raise InputError(
            f"{name}: `{argument}` can be read only once (it is a {type(batches).__name__}), but is needed many times. "
            f"Pass a DataLoader or a list of batches."
        )


def check_held_out_apart(name: str, train: Any, held_out: Any) -> None:
    """Raise InputError if the held-out samples are seen to be training samples, as far as can be told without reading.

    That is the same object for both, or DataLoaders of one dataset, or of parts of one (`Subset`), that share samples.
    `name` is the function or callback in the message.
    """
    shares_samples = train is held_out
    # (dataset, indices of the samples that are read), where None for the indices means all; None if not known
    train_source = _dataset_and_indices(train)
    held_out_source = _dataset_and_indices(held_out)
    if train_source is not None and held_out_source is not None:
        train_data, train_indices = train_source
        held_out_data, held_out_indices = held_out_source
        if train_data is held_out_data:
            if train_indices is None or held_out_indices is None:  # one of them has all samples
                shares_samples = True
            else:
                shares_samples = not train_indices.isdisjoint(held_out_indices)
    if shares_samples:
        raise InputError(
            f"{name}: `held_out` has samples of the training data, on which no network shows how it ranks new samples. "
            f"Pass samples that it was not trained on, e.g. the other part of "
            f"`torch.utils.data.random_split(dataset, [0.8, 0.2])`."
        )


def _dataset_and_indices(batches: Any) -> tuple[Dataset[Any], set[int] | None] | None:
    """Return the dataset that a DataLoader reads, and the indices of the samples that it reads (None: all of them).

    A `Subset` is traced back to the dataset that it is a part of. Returns None if it is not known which samples are
    read: for other iterables than DataLoaders, and for samplers other than those of torch that read everything.
    """
    if not isinstance(batches, DataLoader):
        return None
    # the sampler of single samples; with a `batch_sampler` of the user's own it is not used
    sampler = getattr(batches.batch_sampler, "sampler", None)
    is_plain = batches.batch_sampler is None or type(batches.batch_sampler) is BatchSampler
    if batches.batch_sampler is None:
        sampler = batches.sampler
    if not is_plain or not isinstance(sampler, (RandomSampler, SequentialSampler)):
        return None
    dataset = batches.dataset
    indices: list[int] | None = None
    while isinstance(dataset, Subset):
        positions = range(len(dataset)) if indices is None else indices
        indices = [int(dataset.indices[position]) for position in positions]
        dataset = dataset.dataset
    return dataset, None if indices is None else set(indices)


def _check_trained(network: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
    """Raise InputError if training would not change the network: all frozen, or all unknown to the optimiser."""
    trainable = {id(parameter) for parameter in network.parameters() if parameter.requires_grad}
    if not trainable:
        raise InputError(
            "fine_tune: `network` has no parameter that requires a gradient, so nothing would change."
        )
    if optimizer is None:  # then an optimiser is made that has them all
        return
    optimized = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if not trainable & optimized:
        raise InputError(
            "fine_tune: `optimizer` has none of the network's parameters. Make it from `network.parameters()` of the "
            "same network."
        )


class _HeldOutResult(NamedTuple):
    """What a network does on the held-out samples."""

    aurc: float
    samples: Samples
    label_digest: str  # equal for equal labels in equal order


class _Evaluation(NamedTuple):
    """Averaged weights that were evaluated: after which epoch, their held-out samples, and the weights."""

    epoch: int
    samples: Samples
    weights: dict[str, Array]


class Averaging:
    """Averages a network's weights after each epoch, evaluates the mean, and compares it with the original weights.

    Parameters
    ----------
    name : str
        The function or callback to name in error messages.
    network : torch.nn.Module
        The finished classifier, which the caller trains; put into training mode here.
    held_out : iterable of batches
        Samples for the evaluations, always in the same order.
    epochs : int
        How many epochs the caller is going to train, counted from the original weights.
    looks : int
        The number of evaluations, spread evenly over the epochs.
    level : float
        Confidence level of the comparison, over all evaluations together.
    state : dict, optional
        What `state_dict` returned in a run that is now resumed; the network has the weights of that time.
    """

    def __init__(
        self,
        name: str,
        network: nn.Module,
        held_out: Iterable[Any],
        *,
        epochs: int,
        looks: int,
        level: float,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Check the options, copy and evaluate the original weights, and put the network into training mode.

        `name` is the function or callback in messages. `epochs` is how many will be trained, and `looks` after how many
        of them the averaged weights are evaluated on `held_out`. `level` is the confidence level of the test at the
        end, by which the averaged weights are kept or not. With a `state`, that of a run which is resumed, the original
        weights and their evaluation are those of the state. Raises InputError for `epochs`, `looks` or `level` out of
        range, and for held-out samples that change or that have too few errors.
        """
        epochs = check_count(name, "epochs", epochs)
        looks = check_count(name, "looks", looks)
        check_read_many_times(name, "held_out", held_out)  # raises for an iterator that can be read only once
        self.name = name
        self.level = check_fraction(name, "level", level, open_high=True)
        self.network = network
        self.held_out = held_out
        # `looks` epochs, evenly spread, the last one among them; fewer if there are fewer epochs
        self.epochs_to_evaluate = {math.ceil(epochs * k / looks) for k in range(1, looks + 1)}
        self.epoch = 0  # how many epochs are in the mean of the weights
        self.evaluations: list[tuple[int, float]] = []  # epoch and held-out AURC of each evaluation
        self.best: _Evaluation | None = None  # the one with the lowest AURC
        # the mean of the weights after each epoch so far; `after_epoch` adds to it
        self.averaged = AveragedModel(network)
        # training or evaluation, for `restore_start`
        self.original_modes = [(module, module.training) for module in network.modules()]
        if state is None:
            self.original_weights = deepcopy(network.state_dict())
            original = _evaluate(name, network, held_out)
            self.original_samples = original.samples  # losses and confidences
            self.label_digest = original.label_digest  # equal for equal labels in equal order
            self._check_enough_errors()  # raises if no verdict is possible
        else:
            # Sets the attributes of the other branch, and those above that change while epochs are trained. It reads no
            # batches. That there are enough errors was checked when the run began.
            self._load_state(state)
        # Read once more now, so that shuffled samples are found before training and not after some epochs of it. A
        # DataLoader draws from the global generator each time it is read. The generator is restored after this check,
        # so that training sees the same random numbers with it and without. Evaluations belong to the run, and
        # `_evaluate` restores nothing.
        with torch.random.fork_rng(devices=[]):
            self._check_labels(_digest_of_labels(held_out))
        network.train()  # a finished network is usually in evaluation mode, and trainers may leave it there

    def _check_enough_errors(self) -> None:
        """Raise InputError if the original weights make so few held-out errors that no verdict is possible."""
        loss, confidence = self.original_samples
        error_count = int(loss.sum())
        # the note of an interval says if it rests on too few errors for a verdict, and is empty otherwise; one error or
        # none is too few without asking
        few_errors = f"rests on {count_noun(error_count, 'error')}"
        if error_count > 1:
            few_errors = interval("aurc", loss, confidence).note
        if few_errors:
            remedy = f"Hold out many more than {len(loss)} samples"
            if error_count:
                # how many errors of equal rank weight would say as much about AURC; their number grows with that of
                # the samples, and ENOUGH_ERRORS is eleven
                present = _count_effective_errors(to_host(loss), to_host(confidence))
                needed_count = _round_up(len(loss) * ENOUGH_ERRORS / present)  # to two digits
                remedy = f"Hold out about {needed_count:,} instead of {len(loss)} samples"
            raise InputError(
                f"{self.name}: `held_out` is too small for any verdict: the AURC of the start {few_errors}, and a "
                f"comparison needs eleven errors that weigh the same (a confident error outweighs others). {remedy}."
            )

    def _check_labels(self, label_digest: str) -> None:
        """Raise InputError unless the held-out labels are those of the first evaluation, in the same order."""
        if label_digest != self.label_digest:
            raise InputError(
                f"{self.name}: `held_out` has other labels than when it was read first. The comparison is paired: pass "
                f"the same samples in the same order each time (a DataLoader with shuffle=False)."
            )

    def after_epoch(self, train: Iterable[Any]) -> None:
        """Add the network's weights to the mean, and evaluate it after the epochs that call for it."""
        self.epoch += 1
        self.averaged.update_parameters(self.network)
        if self.epoch in self.epochs_to_evaluate:
            self._evaluate_average(train)

    def catch_up(self, epochs_trained: int, train: Iterable[Any]) -> None:
        """Add the weights of an epoch that the resumed state lacks.

        It lacks one if the checkpoint was saved after the last step of an epoch but before its end. The network still
        has the weights of that step.

        `epochs_trained` is how many epochs the trainer counts since the original weights. Raises InputError if the
        state lacks more, since the weights after those epochs are not known, or if it holds more epochs than that.
        """
        missing_epochs = epochs_trained - self.epoch  # `epoch`: how many epochs the mean of the weights has
        if missing_epochs == 1:
            # adds the weights to the mean, and evaluates it if that is planned after this epoch
            self.after_epoch(train)
        elif missing_epochs != 0:
            raise InputError(
                f"{self.name}: the checkpoint was saved after {epochs_trained} epochs, but its mean holds "
                f"{self.epoch}. Resume from another checkpoint, or tune anew."
            )

    def _evaluate_average(self, train: Iterable[Any]) -> None:
        """Recompute batch norm on `train`, measure the held-out AURC of the mean, and remember the best mean.

        `train` is the training data, an iterable of batches; the network is not trained on it here. Appends the epoch
        and the AURC to `evaluations`, and replaces `best` if the AURC is lower than at all evaluations before.
        `self.averaged` holds the mean, in its `module`.
        """
        # each batch is wrapped in a mapping, because `update_bn` would pass on only the first part of a pair
        # labels are not used: a trainer's own batches may have other parts behind the inputs
        train_batches = _read_batches(self.name, "train", train, self.network, needs_labels=False)
        wrapped_batches = ({"batch": batch} for batch in train_batches)
        # torch's `update_bn` calls the network with each of these mappings, which the wrapper takes apart again
        update_bn(wrapped_batches, _TakesWrappedBatch(self.averaged))
        result = _evaluate(self.name, self.averaged, self.held_out)
        self._check_labels(result.label_digest)  # raises if they are not those of the first evaluation
        lowest_aurc = min((earlier_aurc for _, earlier_aurc in self.evaluations), default=math.inf)
        if result.aurc < lowest_aurc:
            weights = deepcopy(self.averaged.module.state_dict())
            self.best = _Evaluation(epoch=self.epoch, samples=result.samples, weights=weights)
        self.evaluations.append((self.epoch, result.aurc))

    def finish(self, train: Iterable[Any]) -> Tuned:
        """Compare the best mean with the original weights, and load whichever is kept into the network.

        The mean is kept if its held-out AURC is significantly lower. The network is in evaluation mode afterwards.
        `train` is the training data, an iterable of batches; it is read if training stopped before the last planned
        evaluation, to evaluate the mean now. Raises InputError if no epoch was trained.
        """
        if not self.epoch:
            raise InputError(f"{self.name}: no epoch was trained, so there is nothing to compare.")
        # an evaluation is a pair: its epoch, and the held-out AURC of the mean
        stopped_early = not self.evaluations or self.evaluations[-1][0] != self.epoch
        if stopped_early:
            self._evaluate_average(train)
        assert self.best is not None  # there was an evaluation, and the first one is the best so far
        # Bonferroni: the best of several evaluations is compared, so each gets its part of the error probability
        level = 1 - (1 - self.level) / len(self.evaluations)
        # AURC of the mean minus that of the original weights; `samples` are held-out losses and confidences
        difference = paired_difference(*self.best.samples, *self.original_samples, metric="aurc", level=level)
        improved = difference.significant and difference.difference < 0
        self.network.load_state_dict(self.best.weights if improved else self.original_weights)
        self.network.eval()
        return Tuned(
            improved=improved, epoch=self.best.epoch, difference=difference, looks=tuple(self.evaluations)
        )

    def restore_start(self) -> None:
        """Give the network its original weights and modes (training or evaluation, each module its own) again."""
        self.network.load_state_dict(self.original_weights)
        for module, was_training in self.original_modes:
            module.training = was_training

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a resumed run needs: plain containers of numbers, strings and tensors."""
        return {
            "epoch": self.epoch,
            "averaged": self.averaged.state_dict(),
            "original_weights": self.original_weights,
            "original_samples": self.original_samples,
            "label_digest": self.label_digest,
            "looks": self.evaluations,
            "best": None if self.best is None else self.best._asdict(),
        }

    def _load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned, whichever device its tensors are on.

        `__init__` alone calls this, before any evaluation, so that `self.best` is None. Samples are losses and
        confidences, which go to the device of the network. Weights stay where they are, because `load_state_dict`
        copies them to the device of the network when they are used.
        """
        device = _device_of(self.network)
        self.epoch = state["epoch"]
        # the mean of the weights after each epoch so far
        self.averaged.load_state_dict(state["averaged"])
        # the network before it was tuned: its weights, and the held-out samples as it answered them
        self.original_weights = state["original_weights"]
        self.original_samples = _move_samples(state["original_samples"], device)
        # hash of the held-out labels in their order
        self.label_digest = state["label_digest"]
        # `state_dict` stores the evaluations as "looks", which is also their public name in `Tuned`
        self.evaluations = [(epoch, aurc) for epoch, aurc in state["looks"]]
        # the evaluation with the lowest AURC, None before the first
        if state["best"] is not None:
            best = _Evaluation(**state["best"])
            self.best = best._replace(samples=_move_samples(best.samples, device))


class _TakesWrappedBatch(nn.Module):  # type: ignore[misc]
    """A network that `update_bn` can call: it takes a whole batch, wrapped as {"batch": batch}."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, wrapped_batch: Mapping[str, Any]) -> Array:
        batch = wrapped_batch["batch"]
        if not isinstance(batch, Mapping):
            return self.network(batch[0])
        logits, _ = _predict(self.network, batch)
        return logits


def _predict(network: nn.Module, batch: Any) -> tuple[Array, Array]:
    """Run the network on a batch, (inputs, labels) or a mapping with "labels"; return logits (N, C, ...) and labels.

    The network of a mapping is called with its other entries as keyword arguments, and has its classes last.
    """
    if not isinstance(batch, Mapping):
        return network(batch[0]), batch[1]
    output = network(**{key: value for key, value in batch.items() if key != "labels"})
    logits = output["logits"] if isinstance(output, Mapping) else getattr(output, "logits", output)
    return logits.movedim(-1, 1), batch["labels"]


def _device_of(network: nn.Module) -> torch.device:
    return next(network.parameters()).device


def _move_samples(samples: Samples, device: torch.device) -> Samples:
    loss, confidence = samples
    return torch.as_tensor(loss, device=device), torch.as_tensor(confidence, device=device)


def _read_batches(
    name: str, argument: str, batches: Iterable[Any], network: nn.Module, *, needs_labels: bool
) -> Iterator[Any]:
    """Yield each batch, a tuple or a mapping of tensors, on the network's device.

    Raises InputError if there is none, and with `needs_labels` for a batch that is not (inputs, labels) or a mapping
    with "labels". `name` is the function or callback and `argument` its parameter.
    """
    device = _device_of(network)
    is_empty = True
    for batch in batches:
        is_empty = False
        if needs_labels:
            _check_batch(name, argument, batch)
        if isinstance(batch, Mapping):
            yield {key: value.to(device) for key, value in batch.items()}
        else:
            yield tuple(part.to(device) for part in batch)
    if is_empty:
        raise InputError(
            f"{name}: `{argument}` has no batches, or none when it is read again. Pass an iterable that can be read "
            f"many times, such as a DataLoader or a list."
        )


def _check_batch(name: str, argument: str, batch: Any) -> None:
    """Raise InputError unless a batch is a pair (inputs, labels) or a mapping with "labels".

    Of a pair, the inputs must have a method `to` (a device), and the labels must be a tensor with an axis. Of a mapping
    only the keys are looked at. `name` is the function or callback and `argument` its parameter.
    """
    needed = 'A batch is (inputs, labels), or a mapping with "labels" and the arguments of the network'
    if isinstance(batch, Mapping):
        if "labels" not in batch:
            raise InputError(
                f'{name}: a batch of `{argument}` has no "labels", but {", ".join(map(str, batch))}. {needed}.'
            )
        return
    if isinstance(batch, torch.Tensor):
        raise InputError(
            f"{name}: a batch of `{argument}` is one tensor, of shape {tuple(batch.shape)}. {needed}. Make batches of "
            f"tensors X and y by `DataLoader(TensorDataset(X, y), batch_size=100)`."
        )
    if not isinstance(batch, (tuple, list)):
        raise InputError(f"{name}: a batch of `{argument}` is a {type(batch).__name__}. {needed}.")
    if len(batch) != 2:
        raise InputError(
            f"{name}: a batch of `{argument}` has {count_noun(len(batch), 'part')} instead of 2, so it is not known "
            f"which one holds the labels. {needed}."
        )
    inputs, labels = batch
    if not hasattr(inputs, "to") or not isinstance(labels, torch.Tensor) or labels.ndim == 0:
        shapes = " and ".join(
            f"a tensor of shape {tuple(part.shape)}"
            if isinstance(part, torch.Tensor)
            else type(part).__name__
            for part in batch
        )
        raise InputError(
            f"{name}: a batch of `{argument}` is {shapes}. {needed}, as tensors of many samples. A DataLoader makes "
            f"them of a dataset."
        )


def _check_inputs_finite(name: str, argument: str, batch: Any) -> None:
    """Raise InputError if the inputs of a batch hold NaN or an infinity; inputs that are no tensors are let through.

    `name` is the function or callback and `argument` its parameter.
    """
    if isinstance(batch, Mapping):
        parts = [part for key, part in batch.items() if key != "labels"]
    else:
        parts = [batch[0]]
    for part in parts:
        if isinstance(part, torch.Tensor) and part.is_floating_point() and not bool(part.isfinite().all()):
            is_invalid = ~part.isfinite().reshape(len(part), -1)
            first_sample = int(is_invalid.any(dim=1).int().argmax())  # argmax finds the first 1
            raise InputError(
                f"{name}: the inputs of a batch of `{argument}` hold NaN or an infinity "
                f"({count_noun(int(is_invalid.sum()), 'value')}, first in sample {first_sample} of that batch). Remove "
                f"or fill them in."
            )


@torch.no_grad()  # type: ignore[untyped-decorator]
def _evaluate(name: str, network: nn.Module, held_out: Iterable[Any]) -> _HeldOutResult:
    """Measure the network, in evaluation mode, on the held-out samples; label -100 is ignored.

    The mode of each module is restored afterwards. Raises InputError if there are no samples; `name` is the function or
    callback in the message.
    """
    modes = [(module, module.training) for module in network.modules()]  # restored at the end
    # keeps the 0/1 loss and the confidence of every sample
    metric = AURC(ignore_index=-100).to(_device_of(network))
    digest = hashlib.sha256()
    try:
        network.eval()
        for batch in _read_batches(name, "held_out", held_out, network, needs_labels=True):
            logits, labels = _predict(network, batch)  # (N, C, ...) and (N, ...)
            try:
                metric.update(logits, labels)
            except InputError:  # such as NaN among the logits: were the inputs NaN already?
                _check_inputs_finite(name, "held_out", batch)
                rows = logits.movedim(1, -1)
                if float(rows.min()) >= 0 and rows_sum_to_one(xp, rows, sum_tolerance(logits)):
                    raise InputError(
                        f"{name}: `network` must return logits, got outputs of a softmax. Remove its last softmax: the "
                        f"loss has one."
                    ) from None
                raise
            digest.update(labels.cpu().contiguous().numpy())
    finally:
        for module, was_training in modes:
            module.training = was_training
    try:
        samples = metric.samples()
    except InputError:  # no batch had a label that counts
        raise InputError(f"{name}: `held_out` has no labels, or all are -100, which is ignored.") from None
    return _HeldOutResult(aurc=float(metric.compute()), samples=samples, label_digest=digest.hexdigest())


def _digest_of_labels(held_out: Iterable[Any]) -> str:
    """Return the digest that `_evaluate` would return for these batches, without running a network."""
    digest = hashlib.sha256()
    for batch in held_out:
        labels = batch["labels"] if isinstance(batch, Mapping) else batch[1]
        digest.update(labels.cpu().contiguous().numpy())
    return digest.hexdigest()


def error_bar_entries(name: str, interval: Interval) -> dict[str, float]:
    """Return estimate, standard error and limits of an interval under the names by which callbacks log them."""
    return {
        name: float(interval.estimate),
        f"{name}_se": float(interval.standard_error),
        f"{name}_low": float(interval.low),
        f"{name}_high": float(interval.high),
    }


class PairedPatience:
    """Counts evaluations since AURC last fell below the best by more than `sigmas` standard errors of the difference.

    A validation AURC has an error bar, and counting every small dip as progress keeps the luckiest checkpoint. But all
    evaluations use the same samples: what makes a sample hard for both networks cancels, so the error of their
    *difference* is much smaller than that of either. The best is the last evaluation that made progress, so many small
    changes in one direction still add up.

    Parameters
    ----------
    patience : int, optional
        How many evaluations without progress to allow; None allows any number.
    sigmas : float
        How many standard errors count as progress; with 0, every fall does.

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
        self.best: float | None = None  # AURC of the last evaluation that made progress
        self.samples: Samples | None = None  # losses and confidences of that evaluation
        self.since = 0  # evaluations without progress

    def improved(self, loss: Array, confidence: Array) -> bool:
        """Record one evaluation; return True if it made progress, as the first one always does.

        `loss` and `confidence` have one entry per sample, always of the same samples in the same order. Progress is an
        AURC lower than that of the last progress by more than `sigmas` standard errors of the difference. It makes this
        evaluation the best one (`best` is its AURC, `samples` its losses and confidences, None before the first);
        otherwise `since`, the count of evaluations without progress, rises.
        """
        is_first = self.samples is None
        # the first evaluation is compared with itself, which also checks its samples
        best_samples = (loss, confidence) if self.samples is None else self.samples
        if isinstance(loss, torch.Tensor):  # those of a checkpoint may be on another device
            best_samples = _move_samples(best_samples, loss.device)
        # of a, this evaluation, minus b, the best
        difference = paired_difference(loss, confidence, *best_samples)
        if is_first or difference.difference < -self.sigmas * difference.standard_error:
            self.best = difference.estimate_a
            self.samples = (loss, confidence)
            self.since = 0
            return True
        self.since += 1
        return False

    @property
    def exhausted(self) -> bool:
        """True after `patience` evaluations without progress."""
        return self.patience is not None and self.since >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"best": self.best, "samples": self.samples, "since": self.since}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.best = state["best"]
        self.samples = state["samples"]
        self.since = state["since"]
