"""AURC as a training loss: every sample's loss, weighted by where its confidence ranks it in the batch.

The function `aurc_loss`, the module `AURCLoss` that stands in for `torch.nn.CrossEntropyLoss`, and a warm-up.
"""

from __future__ import annotations

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
from abstain._check import check_choice, check_count, check_fraction
from abstain.core import area_estimators, batch
from abstain.core.area_estimators import Estimator
from abstain.errors import DtypeError, InputError, ShapeError
from abstain.torch import fused

Score = str | Callable[[Array], Array]
Criterion = Callable[[Array, Array], Array]
Schedule = Callable[[int], float]
_NAME = batch.NAME
PAIRS_AT_MOST = 4096  # a batch of this size compared pair by pair costs an H200 less than its sort
PAIRS_AT_MOST_ON_HOST = 256
SOFT_AT_MOST = 8192  # n^2 numbers are kept for the backward pass

_groups: dict[str, Array] = {}  # process groups by name: custom operators take strings


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
    and :math:`\lambda` = `mix`. Equal confidences weigh the same, so the order of a batch never matters.

    Parameters
    ----------
    logits : tensor, shape (N, C) or (N, C, d1, ...)
        float16 and bfloat16 are ranked in float64 and averaged in float32: autocast does not change the order.
    labels : integer tensor, shape (N,) or (N, d1, ...)
        Class numbers, from 0; or class probabilities (floating point, of the shape of `logits`).
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights; see `abstain.aurc`.
    score : str or callable
        Confidence: a name of `abstain.scores` ("max_softmax", "softmax_margin", "negative_entropy", "negative_gini"
        without waiting for a GPU or breaking a compiled graph), or a function from (samples, classes) logits to
        one number per sample, higher = surer.
    criterion : callable, optional
        Per-sample loss of (logits, labels), e.g. `smooth_zero_one`; cross-entropy by default. Never modified.
    reduction : {"mean", "sum", "none"}
        "none" gives each sample's weighted loss; "mean" divides their sum by the samples (or the mass) that count.
    ignore_index : int
        Labels with this value are ranked nowhere and weigh nothing; a batch with nothing else has loss 0.
    label_smoothing : float
        Of the cross-entropy.
    weight : tensor, shape (C,), optional
        Class weights, as the mass of each sample both in the ranks and in the mean ("harmonic" and "sele").
    rank : {"hard", "soft"}
        "hard": no gradient through the ranks. "soft": a sigmoid comparison of confidences, differentiable.
    temperature : float
        Of rank="soft", in units of the score; for the softmax scores that is nats, -log(1 - p_max) and the like.
    mix : float or scalar tensor
        Share of the plain criterion: 0 is AURC, 1 is the plain mean. See `LinearWarmup`.
    gather : bool
        Rank over all replicas of `group`; one number per sample travels, batches may differ in size. The loss is
        scaled so that the mean over replicas, which DDP takes of gradients, is the loss of the joined batch.
    group : process group, optional
        Of gather=True; all processes by default.
    check_finite : bool, optional
        Look for NaN and +inf in the logits. Default: on the CPU only, since looking makes a GPU wait.

    Returns
    -------
    tensor
        A scalar, or the shape of `labels` for reduction="none"; float32 or wider.

    References
    ----------
    Zhou, Van Landeghem, Popordanoska, Blaschko (ICML 2025), plug-in estimators; ties and `loo` as in `abstain.aurc`.

    Examples
    --------
    >>> logits = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> aurc_loss(logits, torch.tensor([0, 0, 1]), estimator="sele")  # least sure first: (1*0.313+2*0.127+3*0.049)/9
    tensor(0.0792)
    """
    unmixed = isinstance(mix, float) and mix == 0
    plain = unmixed and criterion is None and weight is None and not gather and not check_finite
    usual = plain and rank == "hard" and score == "max_softmax" and temperature > 0
    if usual and fused.can_compute(logits, labels, estimator, reduction, label_smoothing):
        return fused.compute_loss(logits, labels, estimator, reduction, ignore_index, label_smoothing)

    batch.check_options(estimator, reduction, rank, temperature, label_smoothing, criterion, mix)
    _check_together(estimator, weight, rank, gather)
    probabilities = _check_tensors(logits, labels, weight, empty_allowed=gather)
    labels = labels if probabilities else labels.long()  # bytes would index as a mask
    looking = _check_values(logits, None if probabilities else labels, weight, ignore_index, check_finite)

    valid = torch.ones_like(labels[:, 0], dtype=torch.bool) if probabilities else labels != ignore_index
    losses = _losses(logits, labels, valid, criterion, ignore_index, label_smoothing).reshape(-1)
    mass = None
    if weight is not None:  # of a sample: its class's weight, 0 where ignored
        mass = weight.to(wide_dtype(logits))[torch.where(valid, labels, 0)]
        mass = torch.where(valid, mass, 0).reshape(-1)
    shape, valid = valid.shape, valid.reshape(-1)
    with torch.set_grad_enabled(rank == "soft" and torch.is_grad_enabled()):
        key = _confidence(logits, score, rank == "soft")
        if looking and bool((torch.isnan(key) & valid).any()):
            raise InputError(f"{_NAME}: `score` must give every sample a number, got NaN.")
        key = torch.where(valid, key, torch.nan)
        if gather:
            weights, total, replicas = gathered_weights(key, mass, estimator, group)
        else:
            total, replicas = total_mass(valid, mass), 1
            if rank == "soft":
                weights = soft_weights(key, valid, mass, total, estimator, temperature)
            else:
                weights = hard_weights(key, mass, total, estimator)
        if not unmixed:
            weights = weights + mix * (valid.to(weights.dtype) - weights)
        weights = weights if mass is None else weights * mass
    if reduction == "none":
        return (weights.to(losses.dtype) * losses).reshape(shape)
    if reduction == "mean":
        weights = weights / total
    if replicas > 1:
        weights = weights * replicas  # DDP averages gradients over replicas; the joined batch is their sum
    return torch.dot(weights.to(losses.dtype), losses)


def smooth_zero_one(logits: Array, labels: Array) -> Array:
    r"""The smooth 0/1 loss of each sample; lower is better.

    .. math:: \ell_i = 1 - p_{y_i}

    It counts errors as the 0/1 loss does, but has a gradient. Taken as -expm1(log p), so that it keeps its digits
    where p is close to 1.

    Parameters
    ----------
    logits : tensor, shape (N, C) or (N, C, d1, ...)
        Classes along axis 1.
    labels : integer tensor, shape (N,) or (N, d1, ...)
        Class numbers, from 0.

    Returns
    -------
    tensor of the shape of `labels`
        From 0 to 1, float32 or wider.

    Examples
    --------
    >>> smooth_zero_one(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([0.5000])
    """
    log_p = F.log_softmax(_in_full_precision(logits), dim=1)
    return -torch.expm1(log_p.gather(1, labels.unsqueeze(1)).squeeze(1))


class AURCLoss(nn.Module):  # type: ignore[misc]
    r"""AURC of each batch as a training loss; lower is better. Options as in `aurc_loss`.

    The weights are those of the batch at hand: a short last batch is as right as any other, equal confidences weigh
    the same, and under autocast the ranks keep their order. Nothing waits for the GPU, so the loss can be compiled
    without graph breaks and captured in a CUDA graph (gather=True exchanges batch sizes and cannot be captured).

    With gradient accumulation each micro-batch is ranked by itself, and the mean of their losses estimates the same
    population AURC; `estimator="loo"` keeps that estimate free of the +risk/n that small batches add to "harmonic".

    Parameters
    ----------
    estimator, score, criterion, reduction, ignore_index, label_smoothing, weight, rank, temperature
        As in `aurc_loss`.
    mix : float or schedule
        Share of the plain criterion. A schedule (`LinearWarmup(5)`) is moved on by `step()`, once per epoch or per
        batch, and its progress is part of `state_dict()`.
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
        super().__init__()
        batch.check_options(estimator, reduction, rank, temperature, label_smoothing, criterion)
        _check_together(estimator, weight, rank, gather)
        ranked = {"estimator": estimator, "score": score, "rank": rank, "temperature": temperature}
        averaged = {"reduction": reduction, "ignore_index": ignore_index, "label_smoothing": label_smoothing}
        shared = {"gather": gather, "group": group, "check_finite": check_finite}
        self.options: dict[str, Any] = {**ranked, **averaged, **shared}
        self.criterion = criterion
        self.register_buffer("weight", weight)
        self.schedule = mix if callable(mix) else None
        self.fixed_mix = 0.0 if callable(mix) else check_fraction("AURCLoss", "mix", mix, open_low=False)
        if self.schedule is not None:  # tensors, so that compiled code does not start anew at each step
            self.register_buffer("steps_done", torch.zeros((), dtype=torch.int64))
            self.register_buffer("mix", torch.tensor(self.schedule(0), dtype=torch.float64), persistent=False)

    def forward(self, logits: Array, labels: Array) -> Array:
        """AURC of this batch."""
        own = {"criterion": self.criterion, "weight": self.weight}
        mix = self.fixed_mix if self.schedule is None else self.mix
        return aurc_loss(logits, labels, mix=mix, **own, **self.options)

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


@dataclass(frozen=True)
class LinearWarmup:
    r"""From plain loss to AURC: the share of the plain loss falls linearly from `start` to `stop` in `steps` steps.

    .. math:: start + (stop - start) \min(step / steps, 1)

    Ranks carry little meaning before a network has learned anything; a warm-up starts with cross-entropy and hands
    over. Give it as `AURCLoss(mix=LinearWarmup(5))` and call `criterion.step()` once per epoch (or per batch:
    a step is whatever you count).

    Parameters
    ----------
    steps : int
        After so many steps `stop` is reached.
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
        """Share of the plain loss at this step."""
        done = min(max(step, 0), self.steps) / self.steps
        return self.start + (self.stop - self.start) * done


def _check_together(estimator: str, weight: Array | None, rank: str, gather: bool) -> None:
    """Options of torch that exclude each other."""
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


def _check_tensors(logits: Array, labels: Array, weight: Array | None, empty_allowed: bool) -> bool:
    """Shapes and dtypes of logits (N, C, ...) and labels (N, ...); are the labels class probabilities?"""
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
    probabilities = labels.is_floating_point() and labels.shape == logits.shape
    expected = logits.shape[:1] + logits.shape[2:]
    if not probabilities and labels.shape != expected:
        raise ShapeError(
            f"{_NAME}: `labels` must have shape {tuple(expected)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(labels.shape)}. Classes are axis 1: use `logits.movedim(-1, 1)` if yours are last."
        )
    if not probabilities and (
        labels.is_floating_point() or labels.is_complex() or labels.dtype is torch.bool
    ):
        raise DtypeError(
            f"{_NAME}: `labels` must hold class numbers (an integer dtype), got {labels.dtype}. Use `labels.long()`."
        )
    if labels.numel() == 0 and not empty_allowed:
        raise InputError(
            f"{_NAME}: needs at least one sample, got logits of shape {tuple(logits.shape)}. "
            f"Skip empty batches, e.g. `if len(labels): ...`, or let the loader drop them."
        )
    if weight is not None and tuple(weight.shape) != (logits.shape[1],):
        raise ShapeError(
            f"{_NAME}: `weight` must hold one number per class, shape ({logits.shape[1]},), got {tuple(weight.shape)}."
        )
    if weight is not None and probabilities:
        raise InputError(
            f"{_NAME}: `weight` needs class numbers as `labels`, got class probabilities. "
            f"Weigh the probabilities themselves, or pass class numbers."
        )
    return probabilities


def _check_values(
    logits: Array, labels: Array | None, weight: Array | None, ignore_index: int, check_finite: bool | None
) -> bool:
    """Values: by default on the CPU, where looking is free; on a GPU only `check_finite=True` looks at the logits.

    Were they looked at?
    """
    if torch.compiler.is_compiling():  # a look at values would break the graph
        return False
    on_host = logits.device.type == "cpu"
    if on_host and labels is not None:
        batch.check_labels(labels, logits.shape[1], ignore_index)
    if on_host and weight is not None and not bool((weight >= 0).all()):
        raise InputError(f"{_NAME}: `weight` must hold no negative number and no NaN, got {weight.tolist()}.")
    looking = on_host if check_finite is None else check_finite
    if looking:
        remedy = "clip gradients, or let a GradScaler skip the step (check_finite=False)"
        batch.check_finite(xp, logits, remedy)
    return looking


def _in_full_precision(logits: Array) -> Array:
    """float16 and bfloat16 logits as float32: a loss in half precision has three digits."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _losses(
    logits: Array,
    labels: Array,
    valid: Array,
    criterion: Criterion | None,
    ignore_index: int,
    label_smoothing: float,
) -> Array:
    """Of each sample; ignored positions are shown to the user's criterion as class 0 and count for nothing."""
    by_class = labels.shape == valid.shape  # not class probabilities, none of which is ignored
    if criterion is None:
        options: dict[str, Any] = {"ignore_index": ignore_index} if by_class else {}
        options |= {"reduction": "none", "label_smoothing": label_smoothing}
        return F.cross_entropy(_in_full_precision(logits), labels, **options)
    losses = criterion(logits, torch.where(valid, labels, 0) if by_class else labels)
    remedy = ' Build it with reduction="none" (the criterion itself is never changed).'
    batch.check_returned("criterion", "one loss per sample", losses, valid.shape, remedy)
    return torch.where(valid, losses, 0)


def _confidence(logits: Array, score: Score, differentiable: bool) -> Array:
    """One number per sample, higher = surer; logits (N, C, ...) give a vector over samples and positions."""
    if score == "max_softmax" and not differentiable:
        return _minus_odds_against(logits).reshape(-1)
    rows = logits.movedim(1, -1).reshape(-1, logits.shape[1])
    if callable(score):
        key = score(rows)
        remedy = " It is given (samples, classes)."
        batch.check_returned("score", "one confidence per row of logits", key, rows.shape[:1], remedy)
        return key
    check_choice(_NAME, "score", score, scores.NAMES)
    if score not in batch.SOFTMAX_SCORES:
        return scores.by_name(score)(rows)
    return batch.softmax_key(xp, rows.to(wide_dtype(rows)), score)


def _minus_odds_against(logits: Array) -> Array:
    """-(1 - p_max)/p_max in wide floats: the order of max softmax in seven kernels.

    A sum over the *other* classes, so it does not round to 0 where p_max rounds to 1. Exponentials vanish only
    beyond a logit gap of 745, where samples tie on top.
    """
    z = logits.to(wide_dtype(logits))
    top, winner = z.max(dim=1, keepdim=True)
    return -(z - top).exp_().scatter_(1, winner, 0.0).sum(dim=1)


# From confidences to the weight of each sample of a batch: the roads, all with the numbers of `core`. A small batch
# compares all pairs (few kernels, and a compiler fuses them); a large one is sorted. With replicas, the confidences of
# all are ranked together: one number per sample travels. Nothing here waits for the device, except the exchange of
# batch sizes between replicas.


def wide_dtype(x: Array) -> torch.dtype:
    """float64 where the device has it."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def total_mass(valid: Array, mass: Array | None) -> Array:
    """Mass of all that count, shape (1,); 1 when nothing does, so that an all-ignored batch has loss 0, not NaN."""
    if mass is None:
        return valid.sum().clamp(min=1).to(wide_dtype(valid)).reshape(1)
    total = torch.where(valid, mass, 0).sum().reshape(1)
    return torch.where(total > 0, total, 1)


def hard_weights(key: Array, mass: Array | None, total: Array, estimator: str) -> Array:
    """Weight of each sample by its rank; no gradient. NaN keys are left out and weigh 0."""
    compiling = torch.compiler.is_compiling()
    most = PAIRS_AT_MOST if compiling or key.is_cuda else PAIRS_AT_MOST_ON_HOST
    if key.shape[0] <= most:
        return area_estimators.pair_weights(xp, area_estimators.accepts(key), mass, total, estimator)
    return _sorted_weights_op(key, mass, estimator) if compiling else _sorted_weights(key, mass, estimator)


def soft_weights(
    key: Array, valid: Array, mass: Array | None, total: Array, estimator: str, temperature: float
) -> Array:
    """Weights by a smooth comparison of confidences; the gradient flows through them."""
    if key.shape[0] > SOFT_AT_MOST:
        raise InputError(
            f'{_NAME}: rank="soft" compares all pairs and takes at most {SOFT_AT_MOST} samples, got {key.shape[0]}. '
            f'Use rank="hard", or a sample of the pixels.'
        )
    accepted = area_estimators.softly_accepts(xp, torch.where(valid, key, 0), temperature)
    own = valid.to(key.dtype) if mass is None else mass
    weights = area_estimators.pair_weights(xp, accepted, own, total, estimator)
    return torch.where(valid, weights, 0)


def _sorted_weights(key: Array, mass: Array | None, estimator: str) -> Array:
    valid = ~torch.isnan(key)
    own = valid.to(key.dtype) if mass is None else torch.where(valid, mass, 0)
    weights = area_estimators.sample_weights(
        xp, torch.where(valid, key, -torch.inf), own, estimator, "threshold"
    )
    return torch.where(valid, weights, 0)


@torch.library.custom_op("abstain::sorted_weights", mutates_args=())  # type: ignore[untyped-decorator]
def _sorted_weights_op(key: torch.Tensor, mass: torch.Tensor | None, estimator: str) -> torch.Tensor:
    """The same, opaque to the compiler: a sort gains nothing from fusion."""
    return _sorted_weights(key, mass, estimator)


@_sorted_weights_op.register_fake  # type: ignore[untyped-decorator]
def _(key: torch.Tensor, mass: torch.Tensor | None, estimator: str) -> torch.Tensor:
    return torch.empty_like(key)


def gathered_weights(
    key: Array, mass: Array | None, estimator: str, group: Array
) -> tuple[Array, Array, int]:
    """Weights by the ranks over all replicas, the mass of all, and the number of replicas."""
    if not (dist.is_available() and dist.is_initialized()):
        raise InputError(
            f"{_NAME}: gather=True needs an initialised process group. "
            "Call torch.distributed.init_process_group() first, or leave gather=False on one process."
        )
    group = dist.group.WORLD if group is None else group
    name = group.group_name
    _groups[name] = group
    weights, total = _gathered_weights_op(key, mass, estimator, name)
    return weights, total, dist.get_world_size(group)


@torch.library.custom_op("abstain::gathered_weights", mutates_args=())  # type: ignore[untyped-decorator]
def _gathered_weights_op(
    key: torch.Tensor, mass: torch.Tensor | None, estimator: str, group_name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    group = _groups[group_name]
    keys, start = _gather_vectors(key, group)
    masses = None if mass is None else _gather_vectors(mass, group)[0]
    total = total_mass(~torch.isnan(keys), masses)
    weights = hard_weights(keys, masses, total, estimator)
    return weights[start : start + key.shape[0]].clone(), total


@_gathered_weights_op.register_fake  # type: ignore[untyped-decorator]
def _(
    key: torch.Tensor, mass: torch.Tensor | None, estimator: str, group_name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(key), key.new_empty((1,))


def _gather_vectors(x: Array, group: Array) -> tuple[Array, int]:
    """The vectors of all replicas one after another, and where one's own begins; lengths may differ."""
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    length = torch.tensor([x.shape[0]], device=x.device)
    lengths = [torch.empty_like(length) for _ in range(world)]
    dist.all_gather(lengths, length, group=group)
    sizes = [int(size) for size in torch.cat(lengths).tolist()]
    padded = x.new_zeros(max(*sizes, 1))
    padded[: x.shape[0]] = x
    parts = [torch.empty_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded, group=group)
    return torch.cat([part[:size] for part, size in zip(parts, sizes)]), sum(sizes[:rank])
