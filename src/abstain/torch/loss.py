"""AURC as a training loss: every sample's loss, weighted by the rank of its confidence in the batch.

The function `aurc_loss`, the module `AURCLoss` that replaces `torch.nn.CrossEntropyLoss`, and a warm-up.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import array_api_compat.torch as xp
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from abstain import scores
from abstain._arrays import Array
from abstain._check import check_count, check_fraction, rows_sum_to_one, sum_tolerance
from abstain.core import area_estimators, batch
from abstain.core.area_estimators import Estimator
from abstain.errors import AbstainWarning, DtypeError, InputError, ShapeError
from abstain.scores.catalogue import check_name
from abstain.torch import fused

Score = str | Callable[[Array], Array]
Criterion = Callable[[Array, Array], Array]
Schedule = Callable[[int], float]
_NAME = batch.NAME
# up to these batch sizes all pairs of samples are compared, which is then faster than sorting (measured on an H200)
MAX_PAIRWISE = 4096
MAX_PAIRWISE_ON_CPU = 256
MAX_SOFT = 8192  # rank="soft" stores n^2 numbers for the backward pass
_FEWEST_SUSPECT_ROWS = 24  # so many rows that all sum to one are taken for outputs of a softmax
_SUSPECT_DEVIATION = 0.1  # of the sum of a row from one; a batch whose first row has more is not read further

_process_groups: dict[str, Array] = {}  # by name, because custom operators take strings


class _SoftmaxCheck:
    """Looks for outputs of a softmax in every batch, where the loss takes logits, and warns once.

    Most batches of logits are told by the first row; only a batch whose first row may be probabilities is read whole.
    """

    def __init__(self) -> None:
        self.has_warned = False
        self.suspect_row_count = (
            0  # in the batches up to now, without a row in between that is no output of a softmax
        )

    def renew(self) -> None:
        """Warn once more, of the batches from now on: there is a new loss object."""
        self.has_warned = False
        self.suspect_row_count = 0

    def look_at(self, logits: Array) -> None:
        """Warn if all rows are nonnegative and sum to one; `logits` are (N, C, ...), on the CPU.

        The rows of small batches are counted until they are 24, since fewer may sum to one by chance.
        """
        if self.has_warned or not logits.numel():
            return
        rows = logits.detach().movedim(1, -1)
        first_row = rows[(0,) * (rows.ndim - 1)].tolist()
        # one row first: all of them cost much more to look at
        is_suspect = min(first_row) >= 0 and abs(sum(first_row) - 1) < _SUSPECT_DEVIATION
        if is_suspect:
            is_suspect = float(rows.min()) >= 0 and rows_sum_to_one(xp, rows, sum_tolerance(logits))
        row_count = logits.numel() // logits.shape[1]
        self.suspect_row_count = self.suspect_row_count + row_count if is_suspect else 0
        if self.suspect_row_count < _FEWEST_SUSPECT_ROWS:
            return
        self.has_warned = True
        warnings.warn(
            f"{_NAME}: `logits` look like outputs of a softmax: all rows are nonnegative and sum to one. The loss "
            f"takes logits and applies the softmax itself; with one more, training is much worse. Pass what the last "
            f"linear layer returns, or the logarithm of the probabilities.",
            AbstainWarning,
            stacklevel=3,
        )


_softmax_check = _SoftmaxCheck()


def aurc_loss(
    logits: Array,
    labels: Array,
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
    mix: float | Array = 0.0,
    gather: bool = False,
    group: Array = None,
    check_finite: bool | None = None,
) -> Array:
    r"""AURC of a batch as a loss; lower is better.

    .. math:: \frac{1}{n}\sum_i \bigl[(1 - \lambda)\,\hat\alpha_i + \lambda\bigr]\,\ell_i

    with :math:`\hat\alpha_i` the weight of sample i's rank among the confidences *of this batch*, whatever its size,
    and :math:`\lambda` = `mix`. Equal confidences get equal weights, so the order of a batch never matters.

    Parameters
    ----------
    logits : tensor, shape (N, C) or (N, C, d1, ...)
        Scores before the softmax, not its outputs: on the CPU these are warned of, once. float16 and
        bfloat16 are ranked in float64 and averaged in float32: autocast does not change the order.
    labels : integer tensor, shape (N,) or (N, d1, ...)
        Class numbers, from 0; or class probabilities (floating point, of the shape of `logits`).
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights; see `abstain.aurc`.
    score : str or callable
        Confidence: a name in `abstain.scores`, or a function from (samples, classes) logits to one number per sample,
        higher = surer. "max_softmax", "softmax_margin", "negative_entropy" and "negative_gini" neither wait for a GPU
        nor break a compiled graph.
    criterion : callable, optional
        Per-sample loss of (logits, labels), e.g. `smooth_zero_one`; cross-entropy by default. Never modified.
    reduction : {"mean", "sum", "none"}
        "none" returns each sample's weighted loss; "mean" divides their sum by the number (or mass) of samples that
        are not ignored.
    ignore_index : int
        Samples with this label are not ranked and have weight 0; a batch of nothing else has loss 0.
    label_smoothing : float
        Of the cross-entropy.
    weight : tensor, shape (C,), optional
        Class weights, used as the mass of each sample both in the ranks and in the mean ("harmonic" and "sele" only).
    rank : {"hard", "soft"}
        "hard": no gradient through the ranks. "soft": a sigmoid comparison of confidences, differentiable.
    temperature : float
        Of rank="soft", in units of the score; for the softmax scores that is nats, -log(1 - p_max) and the like.
    mix : float or scalar tensor
        Share of the plain criterion: 0 is AURC, 1 is the plain mean. See `LinearWarmup`.
    gather : bool
        Rank over all replicas of `group`. Replicas exchange one number per sample, and their batches may differ in
        size. The loss is scaled so that the mean over replicas, which DDP takes of gradients, is the loss of the joined
        batch.
    group : process group, optional
        Of gather=True; all processes by default.
    check_finite : bool, optional
        Check the logits for NaN and +inf. By default only on the CPU, since the check makes a GPU wait.

    Returns
    -------
    tensor
        A scalar, or the shape of `labels` for reduction="none"; float32 or wider.

    Raises
    ------
    InputError, DtypeError, ShapeError
        If an option is unknown or out of range, two options exclude each other, or a shape or dtype is wrong. On the
        CPU also if a label is out of range or a logit is not finite.

    References
    ----------
    Zhou, Van Landeghem, Popordanoska, Blaschko (ICML 2025), plug-in estimators; ties and `loo` as in `abstain.aurc`.

    Examples
    --------
    >>> logits = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> aurc_loss(logits, torch.tensor([0, 0, 1]), estimator="sele")  # least sure first: (1*0.313+2*0.127+3*0.049)/9
    tensor(0.0792)
    """
    # With default options, a small batch on a GPU takes a few kernels that need no other checks.
    is_unmixed = isinstance(mix, float) and mix == 0
    has_default_loss = is_unmixed and criterion is None and weight is None and not gather and not check_finite
    has_default_rank = rank == "hard" and score == "max_softmax" and temperature > 0
    if (
        has_default_loss
        and has_default_rank
        and fused.can_compute(logits, labels, estimator, reduction, label_smoothing)
    ):
        return fused.compute_loss(logits, labels, estimator, reduction, ignore_index, label_smoothing)

    batch.check_options(
        estimator=estimator,
        reduction=reduction,
        rank=rank,
        temperature=temperature,
        label_smoothing=label_smoothing,
        criterion=criterion,
        mix=mix,
    )
    _check_combination(estimator, weight, rank, gather)
    labels_are_probs = _check_tensors(logits, labels, weight, allow_empty=gather)
    if labels_are_probs:
        values_checked = _check_values(
            logits, labels=None, weight=weight, ignore_index=ignore_index, check_finite=check_finite
        )
        valid = torch.ones_like(labels[:, 0], dtype=torch.bool)
    else:
        labels = labels.long()  # labels of bytes would index as a mask
        values_checked = _check_values(
            logits, labels=labels, weight=weight, ignore_index=ignore_index, check_finite=check_finite
        )
        valid = labels != ignore_index

    if values_checked and logits.device.type == "cpu":
        _softmax_check.look_at(logits)
    losses = _sample_losses(logits, labels, valid, criterion, ignore_index, label_smoothing).reshape(-1)
    mass = None if weight is None else _sample_mass(logits, labels, valid, weight)
    shape = valid.shape
    valid = valid.reshape(-1)
    with torch.set_grad_enabled(rank == "soft" and torch.is_grad_enabled()):
        confidence = _confidence(logits, score, differentiable=rank == "soft")
        if values_checked and bool((torch.isnan(confidence) & valid).any()):
            raise InputError(f"{_NAME}: `score` must give every sample a number, got NaN.")
        confidence = torch.where(valid, confidence, torch.nan)  # samples with NaN are not ranked
        replica_count = 1
        if gather:
            rank_weights, total, replica_count = gathered_weights(confidence, mass, estimator, group)
        elif rank == "soft":
            total = total_mass(valid, mass)
            rank_weights = soft_weights(confidence, valid, mass, total, estimator, temperature)
        else:
            total = total_mass(valid, mass)
            rank_weights = hard_weights(confidence, mass, total, estimator)
        if not is_unmixed:  # the plain criterion has weight 1 for every valid sample
            rank_weights = rank_weights + mix * (valid.to(rank_weights.dtype) - rank_weights)
        sample_weights = rank_weights if mass is None else rank_weights * mass
    if reduction == "none":
        return (sample_weights.to(losses.dtype) * losses).reshape(shape)
    if reduction == "mean":
        sample_weights = sample_weights / total
    if replica_count > 1:
        # DDP takes the mean of the gradients over replicas, but the loss of the joined batch is a sum over them
        sample_weights = sample_weights * replica_count
    return torch.dot(sample_weights.to(losses.dtype), losses)


def smooth_zero_one(logits: Array, labels: Array) -> Array:
    r"""The smooth 0/1 loss of each sample; lower is better.

    .. math:: \ell_i = 1 - p_{y_i}

    It counts errors as the 0/1 loss does, but has a gradient. Computed as -expm1(log p), which keeps its digits where
    p is close to 1.

    Parameters
    ----------
    logits : tensor, shape (N, C) or (N, C, d1, ...)
        Classes along axis 1.
    labels : integer tensor, shape (N,) or (N, d1, ...)
        Class numbers, from 0 (no ignored ones such as -100); or class probabilities p', of the shape of `logits`, for
        which it is the mean over classes, :math:`\sum_k p'_{ik} (1 - p_{ik})`.

    Returns
    -------
    tensor, shape (N,) or (N, d1, ...)
        From 0 to 1, float32 or wider.

    Examples
    --------
    >>> smooth_zero_one(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([0.5000])
    """
    log_probs = F.log_softmax(_in_full_precision(logits), dim=1)
    if labels.is_floating_point():
        return (labels * -torch.expm1(log_probs)).sum(dim=1)
    return -torch.expm1(log_probs.gather(1, labels.unsqueeze(1)).squeeze(1))


class AURCLoss(nn.Module):  # type: ignore[misc]
    r"""AURC of each batch as a training loss; lower is better. Options as in `aurc_loss`.

    The weights are computed for each batch: a short last batch is as correct as any other, equal confidences get equal
    weights, and autocast does not change the ranks. Nothing waits for the GPU, so the loss can be compiled without
    graph breaks and captured in a CUDA graph (gather=True exchanges batch sizes and cannot be captured).

    With gradient accumulation each micro-batch is ranked by itself, and the mean of their losses estimates the same
    population AURC. `estimator="loo"` avoids the bias of +risk/n that small batches have with "harmonic".

    Parameters
    ----------
    estimator, score, criterion, reduction, ignore_index, label_smoothing, weight, rank, temperature
        As in `aurc_loss`.
    mix : float or schedule
        Share of the plain criterion. A schedule (`LinearWarmup(5)`) advances with each `step()`, called once per epoch
        or per batch; its progress is part of `state_dict()`.
    gather, group, check_finite
        As in `aurc_loss`.

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
        """Check the options; store class weights, and the progress of a schedule, as buffers of the module.

        `mix` is the share of the plain mean of the criterion: 0 is AURC alone, 1 the plain mean alone. `criterion`
        gives the loss of each sample; None is cross-entropy, to which `label_smoothing` applies: the share of the
        target spread evenly over all classes. Samples whose target is `ignore_index` are left out. `temperature` is
        that of soft ranks, through which gradients flow. With `gather`, samples are ranked over all replicas of the
        process group `group`. `weight` has one number per class. `check_finite`: None checks logits on the CPU alone.
        """
        super().__init__()
        _softmax_check.renew()
        batch.check_options(
            estimator=estimator,
            reduction=reduction,
            rank=rank,
            temperature=temperature,
            label_smoothing=label_smoothing,
            criterion=criterion,
        )
        if not callable(score):
            check_name(_NAME, score, scores.NAMES)
        if weight is not None and not isinstance(weight, torch.Tensor):
            raise DtypeError(
                f"AURCLoss: `weight` must be a torch tensor, got {type(weight).__name__}. Use `torch.tensor(weight)`."
            )
        _check_combination(estimator, weight, rank, gather)
        self.options: dict[str, Any] = {
            "estimator": estimator,
            "score": score,
            "rank": rank,
            "temperature": temperature,
            "reduction": reduction,
            "ignore_index": ignore_index,
            "label_smoothing": label_smoothing,
            "gather": gather,
            "group": group,
            "check_finite": check_finite,
        }
        self.criterion = criterion
        self.register_buffer("weight", weight)
        self.schedule = mix if callable(mix) else None
        self.fixed_mix = 0.0 if callable(mix) else check_fraction("AURCLoss", "mix", mix, open_low=False)
        if self.schedule is not None:  # tensors, so that compiled code is not compiled again at each step
            self.register_buffer("steps_done", torch.zeros((), dtype=torch.int64))
            # not stored: it follows from the schedule and `steps_done`
            self.register_buffer("mix", torch.tensor(self.schedule(0), dtype=torch.float64), persistent=False)

    def forward(self, logits: Array, labels: Array) -> Array:
        """Compute the AURC of this batch."""
        mix = self.fixed_mix if self.schedule is None else self.mix
        return aurc_loss(
            logits, labels, mix=mix, criterion=self.criterion, weight=self.weight, **self.options
        )

    def step(self) -> None:
        """Advance the schedule of `mix` by one step."""
        if self.schedule is not None:
            self.steps_done += 1
            self._update_mix()

    @property
    def current_mix(self) -> float:
        """The current share of the plain criterion."""
        return self.fixed_mix if self.schedule is None else float(self.mix)

    def _update_mix(self) -> None:
        """Set `mix` to the schedule's value after the steps done so far."""
        self.mix.fill_(self.schedule(int(self.steps_done)))  # type: ignore[misc]

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        if self.schedule is not None:
            self._update_mix()

    def extra_repr(self) -> str:
        """List the main options in the module's repr."""
        options = [f"{name}={self.options[name]!r}" for name in ("estimator", "score", "rank", "reduction")]
        options.append(f"mix={self.schedule if self.schedule is not None else self.fixed_mix}")
        if self.options["gather"]:
            options.append("gather=True")
        return ", ".join(options)


@dataclass(frozen=True)
class LinearWarmup:
    r"""A schedule from plain loss to AURC: the share of the plain loss falls linearly from `start` to `stop`.

    .. math:: start + (stop - start) \min(step / steps, 1)

    Ranks mean little before a network has learned anything, so a warm-up starts with cross-entropy and changes over to
    AURC. Pass it as `AURCLoss(mix=LinearWarmup(5))` and call `criterion.step()` once per epoch, or once per batch.

    Parameters
    ----------
    steps : int
        The number of steps after which `stop` is reached.
    start, stop : float
        Shares of the plain loss, in [0, 1].

    Examples
    --------
    >>> schedule = LinearWarmup(4)
    >>> [schedule(step) for step in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    steps: int
    start: float = 1.0
    stop: float = 0.0

    def __post_init__(self) -> None:
        check_count("LinearWarmup", "steps", self.steps)
        for name in ("start", "stop"):
            check_fraction("LinearWarmup", name, getattr(self, name), open_low=False)

    def __call__(self, step: int) -> float:
        """Return the share of the plain loss at this step."""
        progress = min(max(step, 0), self.steps) / self.steps
        return self.start + (self.stop - self.start) * progress


def _check_combination(estimator: str, weight: Array | None, rank: str, gather: bool) -> None:
    """Raise InputError for class weights with an estimator that counts samples, and for soft ranks over replicas.

    `estimator` ("harmonic", "log", "loo", "sele" or "2sele") says how the weight of a rank is computed; "log" and "loo"
    (`WHOLE_WEIGHTS_ONLY`) count samples. `weight` holds one number per class, None for equal weights. `rank` is "hard"
    or "soft"; `gather` ranks over the samples of all replicas.
    """
    if weight is not None and estimator in area_estimators.WHOLE_WEIGHTS_ONLY:
        raise InputError(
            f'{_NAME}: estimator="{estimator}" counts samples and takes no class weights. '
            f'Use estimator="harmonic" or "sele" with `weight`.'
        )
    if rank == "soft" and gather:
        raise InputError(
            f'{_NAME}: rank="soft" with gather=True would need gradients of other replicas. '
            f'Use rank="hard" with gather=True, or rank="soft" per replica.'
        )


def _check_tensors(logits: Array, labels: Array, weight: Array | None, *, allow_empty: bool) -> bool:
    """Check shapes and dtypes of logits (N, C, ...), labels (N, ...) and class weights (C,); values are not read.

    Returns True if the labels are class probabilities, of the shape of the logits. Raises DtypeError, ShapeError, or
    InputError for a batch without samples unless `allow_empty`.
    """
    for argument, value in (("logits", logits), ("labels", labels), ("weight", weight)):
        if not isinstance(value, torch.Tensor) and not (value is None and argument == "weight"):
            raise DtypeError(f"{_NAME}: `{argument}` must be a torch tensor, got {type(value).__name__}.")
    if not logits.is_floating_point():
        raise DtypeError(
            f"{_NAME}: `logits` must be floating point, got {logits.dtype}. Pass the model's raw output."
        )
    if logits.ndim < 2 or logits.shape[1] < 2:
        raise ShapeError(
            f"{_NAME}: `logits` must have shape (N, C, ...) with C >= 2 classes, got {tuple(logits.shape)}. "
            f"A single sample needs `logits[None]`; a binary model's one logit z becomes two, 0 and z."
        )
    labels_are_probs = labels.is_floating_point() and labels.shape == logits.shape
    expected_shape = logits.shape[:1] + logits.shape[2:]
    if labels.shape == logits.shape and not labels_are_probs:  # whole numbers with an axis of classes
        raise ShapeError(
            f"{_NAME}: `labels` must have shape {tuple(expected_shape)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(labels.shape)}. Of one-hot labels pass the class numbers, `labels.argmax(1)`."
        )
    if not labels_are_probs and labels.ndim == logits.ndim and labels.shape[1] == 1:
        raise ShapeError(
            f"{_NAME}: `labels` must have shape {tuple(expected_shape)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(labels.shape)}. Use `labels.squeeze(1)`."
        )
    if not labels_are_probs and labels.shape != expected_shape:
        raise ShapeError(
            f"{_NAME}: `labels` must have shape {tuple(expected_shape)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(labels.shape)}. Classes are axis 1: use `logits.movedim(-1, 1)` if yours are last."
        )
    has_integer_dtype = not (labels.is_floating_point() or labels.is_complex() or labels.dtype is torch.bool)
    if not labels_are_probs and not has_integer_dtype:
        raise DtypeError(
            f"{_NAME}: `labels` must hold class numbers (an integer dtype), got {labels.dtype}. Use `labels.long()`."
        )
    if labels.numel() == 0 and not allow_empty:
        raise InputError(
            f"{_NAME}: needs at least one sample, got logits of shape {tuple(logits.shape)}. "
            f"Skip empty batches, e.g. `if len(labels): ...`, or let the loader drop them."
        )
    if weight is not None and tuple(weight.shape) != (logits.shape[1],):
        raise ShapeError(
            f"{_NAME}: `weight` must hold one number per class, shape ({logits.shape[1]},), got {tuple(weight.shape)}."
        )
    if weight is not None and labels_are_probs:
        raise InputError(
            f"{_NAME}: `weight` needs class numbers as `labels`, got class probabilities. "
            f"Weight the probabilities themselves, or pass class numbers."
        )
    return labels_are_probs


def _check_values(
    logits: Array, labels: Array | None, weight: Array | None, ignore_index: int, check_finite: bool | None
) -> bool:
    """Check values: by default only on the CPU, where reading them is cheap.

    On the CPU, labels and class weights are always checked, and logits unless `check_finite=False`. On a GPU only the
    logits are checked, and only with `check_finite=True`. Nothing is checked while code is being compiled. `labels` are
    class numbers, or None if they are probabilities.

    Returns True if the logits were checked. Raises InputError for a negative class weight, for a label that is neither
    a class number nor `ignore_index`, and for logits that are NaN or +inf. The logits of ignored samples are checked
    too: their losses do not count, but NaN among them would make gradients NaN.
    """
    if torch.compiler.is_compiling():  # reading values would break the graph
        return False
    is_on_cpu = logits.device.type == "cpu"
    # `batch` is the module with the checks that all backends share; they raise the InputError
    if is_on_cpu and labels is not None:
        batch.check_labels(labels, logits.shape[1], ignore_index)
    if is_on_cpu and weight is not None and not bool((weight >= 0).all()):
        raise InputError(f"{_NAME}: `weight` must hold no negative number and no NaN, got {weight.tolist()}.")
    checks_logits = is_on_cpu if check_finite is None else check_finite
    if checks_logits:
        remedy = "clip gradients, or let a GradScaler skip the step (check_finite=False)"
        batch.check_finite(xp, logits, remedy)  # `xp` is torch with the functions of the array API
    return checks_logits


def _in_full_precision(logits: Array) -> Array:
    """Convert float16 and bfloat16 logits to float32: a loss in half precision has only three digits."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _sample_losses(
    logits: Array,
    labels: Array,
    valid: Array,
    criterion: Criterion | None,
    ignore_index: int,
    label_smoothing: float,
) -> Array:
    """Compute the loss of each sample, of the shape of `valid`; 0 where `valid` is False.

    `logits` are (N, C, ...), `labels` class numbers (N, ...) or probabilities (N, C, ...). A user's criterion gets
    class 0 in place of ignored labels, and its loss there is dropped; None stands for cross-entropy. Raises ShapeError
    if it does not return one loss per sample. Samples whose target is `ignore_index` are left out. `label_smoothing` is
    the share of the target spread evenly over all classes, by cross-entropy only.
    """
    labels_are_classes = labels.shape == valid.shape
    if criterion is None:
        options: dict[str, Any] = {"reduction": "none", "label_smoothing": label_smoothing}
        if labels_are_classes:
            options["ignore_index"] = ignore_index
        return F.cross_entropy(_in_full_precision(logits), labels, **options)
    losses = criterion(logits, torch.where(valid, labels, 0) if labels_are_classes else labels)
    remedy = ' Build it with reduction="none" (the criterion itself is never changed).'
    batch.check_returned("criterion", "one loss per sample", losses, valid.shape, remedy)
    return torch.where(valid, losses, 0)


def _sample_mass(logits: Array, labels: Array, valid: Array, weight: Array) -> Array:
    """Return the mass of each sample as a vector: the weight of its class, 0 where `valid` is False.

    `labels` are class numbers and `valid` booleans, both (N, ...); `weight` has one number per class. The logits only
    say which float type the device has.
    """
    class_weight = weight.to(wide_dtype(logits))
    mass = class_weight[torch.where(valid, labels, 0)]
    return torch.where(valid, mass, 0).reshape(-1)


def _confidence(logits: Array, score: Score, *, differentiable: bool) -> Array:
    """Compute one confidence per sample, higher = surer, from logits (N, C, ...), as a vector.

    Only the order of the confidences matters: softmax scores are returned as keys that rank alike but do not saturate.
    With `differentiable`, "max_softmax" is computed so that gradients flow through it; otherwise in fewer kernels.

    Raises InputError for an unknown score, ShapeError if a user's score does not return one number per sample.
    """
    # a name in `abstain.scores`, or a function of logits of shape (samples, classes)
    if score == "max_softmax" and not differentiable:
        # minus (1 - p) / p of the largest probability p, which ranks as p does
        return _minus_odds_against(logits).reshape(-1)
    rows = logits.movedim(1, -1).reshape(-1, logits.shape[1])
    if callable(score):
        confidence = score(rows)
        remedy = " It is called with (samples, classes)."
        batch.check_returned("score", "one confidence per row of logits", confidence, rows.shape[:1], remedy)
        return confidence
    check_name(_NAME, score, scores.NAMES)
    if score not in batch.SOFTMAX_SCORES:  # such as the largest logit, which does not saturate
        return scores.by_name(score)(rows)
    return batch.softmax_key(xp, rows.to(wide_dtype(rows)), score)


def _minus_odds_against(logits: Array) -> Array:
    """Compute -(1 - p_max) / p_max in wide floats, which ranks samples as the maximum softmax does, in seven kernels.

    It is a sum over the *other* classes, so it does not round to 0 where p_max rounds to 1. In float64 exponentials
    vanish only beyond a logit gap of 745, where samples tie at the top. `logits` are (N, C, ...), the result (N, ...).
    """
    wide_logits = logits.to(wide_dtype(logits))
    # p_k / p_max = exp(z_k - z_max); the predicted class itself counts 0
    max_logit, predicted_class = wide_logits.max(dim=1, keepdim=True)
    return -(wide_logits - max_logit).exp_().scatter_(1, predicted_class, 0.0).sum(dim=1)


# From confidences to rank weights, by the formulas of `core`. A small batch compares all pairs (few kernels, and a
# compiler fuses them); a large one is sorted. With replicas, the confidences of all are ranked together, so replicas
# exchange one number per sample. Nothing here waits for the device, except the exchange of batch sizes.


def wide_dtype(x: Array) -> torch.dtype:
    """Return float64, or float32 on a device that has no float64."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def total_mass(valid: Array, mass: Array | None) -> Array:
    """Return the mass of all valid samples, shape (1,).

    It is 1 if there is none, so that a batch of ignored samples has loss 0 instead of NaN.
    """
    if mass is None:
        return valid.sum().clamp(min=1).to(wide_dtype(valid)).reshape(1)
    total = torch.where(valid, mass, 0).sum().reshape(1)
    return torch.where(total > 0, total, 1)


def hard_weights(confidence: Array, mass: Array | None, total: Array, estimator: str) -> Array:
    """Compute the weight of each sample's rank; no gradient flows through it.

    `confidence` is a vector, higher = surer; samples with NaN are not ranked and get weight 0. `mass` is the mass of
    each sample (1 if None), `total` the sum over the ranked samples, shape (1,). Small batches compare all pairs of
    samples, larger ones are sorted; equal confidences get equal weights either way. `estimator` ("harmonic", "log",
    "loo", "sele" or "2sele") says how the weight of a rank is computed.
    """
    is_compiling = torch.compiler.is_compiling()
    # comparing all pairs is faster than sorting up to 4096 samples, on the CPU up to 256
    max_pairwise = MAX_PAIRWISE if is_compiling or confidence.is_cuda else MAX_PAIRWISE_ON_CPU
    if confidence.shape[0] <= max_pairwise:
        # [i, j]: is sample i accepted at the threshold of sample j? A comparison with NaN is False.
        accepted = area_estimators.accepts(confidence)
        return area_estimators.pair_weights(xp, accepted, mass, total, estimator)
    # these add up `total` themselves; while compiling, as one operator, into which the compiler does not look
    if is_compiling:
        return _sorted_weights_op(confidence, mass, estimator)
    return _sorted_weights(confidence, mass, estimator)


def soft_weights(
    confidence: Array, valid: Array, mass: Array | None, total: Array, estimator: str, temperature: float
) -> Array:
    """Compute rank weights from a smooth comparison of confidences, through which gradients flow.

    `confidence`, `valid` and `mass` are vectors with one entry per sample: the confidence (higher = surer; any value,
    even NaN, where `valid` is False), whether the sample is ranked, and its mass (None: 1 for valid samples, 0 for
    others). `total` is the sum of the masses, shape (1,); `temperature` is in the units of the confidence. Samples that
    are not valid get weight 0. Raises InputError if there are more than MAX_SOFT (8192) samples. `estimator`
    ("harmonic", "log", "loo", "sele" or "2sele") says how the weight of a rank is computed.
    """
    if confidence.shape[0] > MAX_SOFT:
        raise InputError(
            f'{_NAME}: rank="soft" compares all pairs and takes at most {MAX_SOFT} samples, got '
            f'{confidence.shape[0]}. Use rank="hard", or a sample of the pixels.'
        )
    # [i, j]: how far, from 0 to 1, sample i is accepted at the threshold of sample j
    accepted = area_estimators.softly_accepts(xp, torch.where(valid, confidence, 0), temperature)
    sample_mass = valid.to(confidence.dtype) if mass is None else mass
    weights = area_estimators.pair_weights(xp, accepted, sample_mass, total, estimator)
    return torch.where(valid, weights, 0)


def _sorted_weights(confidence: Array, mass: Array | None, estimator: str) -> Array:
    """Compute the weight of each sample's rank by sorting; equal confidences are accepted together.

    `confidence` is a vector, higher = surer; samples with NaN are not ranked and get weight 0. `mass` is the mass of
    each sample (1 if None). `estimator` ("harmonic", "log", "loo", "sele" or "2sele") says how the weight of a rank is
    computed.
    """
    valid = ~torch.isnan(confidence)
    sample_mass = valid.to(confidence.dtype) if mass is None else torch.where(valid, mass, 0)
    # samples that are not ranked have no mass, so it changes nothing that they come last
    ranked_confidence = torch.where(valid, confidence, -torch.inf)
    weights = area_estimators.sample_weights(xp, ranked_confidence, sample_mass, estimator, ties="threshold")
    return torch.where(valid, weights, 0)


@torch.library.custom_op("abstain::sorted_weights", mutates_args=())  # type: ignore[untyped-decorator]
def _sorted_weights_op(confidence: torch.Tensor, mass: torch.Tensor | None, estimator: str) -> torch.Tensor:
    """Compute `_sorted_weights` as an operator that the compiler does not look into: it cannot fuse a sort."""
    return _sorted_weights(confidence, mass, estimator)


@_sorted_weights_op.register_fake  # type: ignore[untyped-decorator]
def _(confidence: torch.Tensor, mass: torch.Tensor | None, estimator: str) -> torch.Tensor:
    return torch.empty_like(confidence)


def gathered_weights(
    confidence: Array, mass: Array | None, estimator: str, group: dist.ProcessGroup | None
) -> tuple[Array, Array, int]:
    """Rank this replica's samples among those of all replicas of the process group (None: of all processes).

    `confidence` and `mass` (1 if None) are vectors over this replica's samples; samples with NaN are not ranked and get
    weight 0. All replicas must call this together, because they exchange their vectors.

    Returns the weights of this replica's samples, the mass of the ranked samples of all replicas, shape (1,), and the
    number of replicas. Raises InputError without an initialised process group. `estimator` ("harmonic", "log", "loo",
    "sele" or "2sele") says how the weight of a rank is computed.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise InputError(
            f"{_NAME}: gather=True needs an initialised process group. "
            "Call torch.distributed.init_process_group() first, or leave gather=False on one process."
        )
    group = dist.group.WORLD if group is None else group
    group_name = group.group_name
    # The operator cannot take a process group, so it takes the name and looks the group up here. Groups that exist have
    # different names, so an entry is replaced only by that of the same group or after its group was destroyed.
    _process_groups[group_name] = group
    weights, total = _gathered_weights_op(confidence, mass, estimator, group_name)
    return weights, total, dist.get_world_size(group)


@torch.library.custom_op("abstain::gathered_weights", mutates_args=())  # type: ignore[untyped-decorator]
def _gathered_weights_op(
    confidence: torch.Tensor, mass: torch.Tensor | None, estimator: str, group_name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute this replica's rank weights and the mass of all replicas, as an operator that can be compiled.

    `confidence` (NaN: not ranked) and `mass` (None: 1) are vectors over this replica's samples; `group_name` is a key
    of `_process_groups`. Returns vectors of the length of `confidence` and of length 1. `estimator` ("harmonic", "log",
    "loo", "sele" or "2sele") says how the weight of a rank is computed.
    """
    group = _process_groups[group_name]
    all_confidences, start = _gather_vectors(confidence, group)
    all_masses = None
    if mass is not None:
        all_masses, _ = _gather_vectors(mass, group)
    total = total_mass(~torch.isnan(all_confidences), all_masses)
    all_weights = hard_weights(all_confidences, all_masses, total, estimator)
    return all_weights[start : start + confidence.shape[0]].clone(), total


@_gathered_weights_op.register_fake  # type: ignore[untyped-decorator]
def _(
    confidence: torch.Tensor, mass: torch.Tensor | None, estimator: str, group_name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(confidence), confidence.new_empty((1,))


def _gather_vectors(x: Array, group: Array) -> tuple[Array, int]:
    """Join the vectors of all replicas, whose lengths may differ, in the order of their ranks.

    `group` is their process group. Returns the joined vector and the index at which this replica's part starts.
    """
    replica_count = dist.get_world_size(group)
    # first the lengths, then the vectors
    length = torch.tensor([x.shape[0]], device=x.device)
    gathered_lengths = [torch.empty_like(length) for _ in range(replica_count)]
    dist.all_gather(gathered_lengths, length, group=group)
    lengths = [int(size) for size in torch.cat(gathered_lengths).tolist()]
    zero_padded = x.new_zeros(max(*lengths, 1))  # all_gather needs equal lengths, and here never 0
    zero_padded[: x.shape[0]] = x
    gathered = [torch.empty_like(zero_padded) for _ in range(replica_count)]
    dist.all_gather(gathered, zero_padded, group=group)
    joined = torch.cat([part[:size] for part, size in zip(gathered, lengths)])
    start = sum(lengths[: dist.get_rank(group)])  # behind the parts of the replicas with lower ranks
    return joined, start
