"""AURC as a training loss: every sample's loss, weighted by where its confidence ranks it in the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import nn

from abstain import scores
from abstain._arrays import Array
from abstain._check import check_choice
from abstain.core import simplex
from abstain.core.estimators import ESTIMATORS, WHOLE_WEIGHTS_ONLY, Estimator, finite_key
from abstain.errors import DtypeError, InputError, ShapeError
from abstain.torch import fused, ranking
from abstain.torch.ranking import wide_dtype


@dataclass(frozen=True)
class LinearWarmup:
    """From plain loss to AURC: the share of the plain loss falls linearly from `start` to `stop` in `steps` steps.

    Ranks carry little meaning before a network has learned anything; a warm-up starts with cross-entropy and hands
    over. Give it as `AURCLoss(mix=LinearWarmup(5))` and call `criterion.step()` once per epoch (or per batch:
    a step is whatever you count).

    >>> schedule = LinearWarmup(4)
    >>> [schedule(step) for step in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    steps: int
    start: float = 1.0
    stop: float = 0.0

    def __post_init__(self) -> None:
        if int(self.steps) != self.steps or self.steps < 1:
            raise InputError(f"LinearWarmup: `steps` must be a whole number, at least 1, got {self.steps!r}.")
        for name in ("start", "stop"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"LinearWarmup: `{name}` must lie in [0, 1], got {getattr(self, name)!r}.")

    def __call__(self, step: int) -> float:
        """Share of the plain loss at this step."""
        done = min(max(step, 0), self.steps) / self.steps
        return self.start + (self.stop - self.start) * done


# inputs -------------------------------------------------------------------------------------------
#
# Boundary checks of the loss. Shapes and dtypes always; values where looking at them does not make a GPU wait.


_NAME = "aurc_loss"
REDUCTIONS = ("mean", "sum", "none")
RANKS = ("hard", "soft")


def check_options(
    estimator: str, reduction: str, rank: str, temperature: float, label_smoothing: float
) -> None:
    """Words and numbers, before any tensor is looked at."""
    check_choice(_NAME, "estimator", estimator, ESTIMATORS)
    check_choice(_NAME, "reduction", reduction, REDUCTIONS)
    check_choice(_NAME, "rank", rank, RANKS)
    if not temperature > 0:
        raise InputError(f"{_NAME}: `temperature` must be positive, got {temperature!r}.")
    if not 0 <= label_smoothing <= 1:
        raise InputError(f"{_NAME}: `label_smoothing` must lie in [0, 1], got {label_smoothing!r}.")


def check_together(
    estimator: str, criterion: Any, label_smoothing: float, weight: Array | None, **flags: bool
) -> None:
    """Options that exclude each other."""
    if criterion is not None and label_smoothing:
        raise InputError(
            f"{_NAME}: `label_smoothing` belongs to the cross-entropy; put it into your `criterion`."
        )
    if weight is not None and estimator in WHOLE_WEIGHTS_ONLY:
        raise InputError(
            f'{_NAME}: estimator="{estimator}" counts samples and takes no class weights. '
            f'Use estimator="harmonic" or "sele" with `weight`.'
        )
    if flags["soft"] and flags["gather"]:
        raise InputError(
            f'{_NAME}: rank="soft" with gather=True would need gradients of other replicas. '
            f'Use rank="hard" with gather=True, or rank="soft" per replica.'
        )


def check_shapes(logits: Array, target: Array, empty_allowed: bool) -> bool:
    """Shapes and dtypes of logits (N, C, ...) and target (N, ...); is the target one of class probabilities?"""
    for argument, value in (("logits", logits), ("target", target)):
        if not isinstance(value, torch.Tensor):
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
    soft = target.is_floating_point() and target.shape == logits.shape
    expected = logits.shape[:1] + logits.shape[2:]
    if not soft and target.shape != expected:
        raise ShapeError(
            f"{_NAME}: `target` must have shape {tuple(expected)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(target.shape)}. Classes are axis 1: use `logits.movedim(-1, 1)` if yours are last."
        )
    if not soft and (target.is_floating_point() or target.is_complex() or target.dtype is torch.bool):
        raise DtypeError(
            f"{_NAME}: `target` must hold class numbers (an integer dtype), got {target.dtype}. Use `target.long()`."
        )
    if target.numel() == 0 and not empty_allowed:
        raise InputError(
            f"{_NAME}: needs at least one sample, got logits of shape {tuple(logits.shape)}. "
            f"Skip empty batches, e.g. `if len(target): ...`, or let the loader drop them."
        )
    return soft


def check_weight(weight: Array | None, logits: Array) -> None:
    """One weight per class."""
    if weight is not None and tuple(weight.shape) != (logits.shape[1],):
        raise ShapeError(
            f"{_NAME}: `weight` must hold one number per class, shape ({logits.shape[1]},), got {tuple(weight.shape)}."
        )


def check_values(logits: Array, target: Array | None, ignore_index: int, check_finite: bool | None) -> None:
    """Values: by default on the CPU, where looking is free; on a GPU only `check_finite=True` looks at the logits."""
    if torch.compiler.is_compiling():  # a look at values would break the graph
        return
    on_host = logits.device.type == "cpu"
    if on_host and target is not None:
        _check_range(target, logits.shape[1], ignore_index)
    if on_host if check_finite is None else check_finite:
        _check_finite(logits)


def _check_range(target: Array, classes: int, ignore_index: int) -> None:
    wrong = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if bool(wrong.any()):
        value = int(target[wrong][0])
        raise InputError(
            f"{_NAME}: `target` must lie in 0 ... {classes - 1} (or be ignore_index={ignore_index}), got {value}. "
            f"Classes count from 0; mark positions to leave out with `ignore_index`."
        )


def _check_finite(logits: Array) -> None:
    wrong = torch.isnan(logits) | (logits == torch.inf)
    if bool(wrong.any()):
        row = int(wrong.flatten(1).any(dim=1).nonzero()[0])
        raise InputError(
            f"{_NAME}: `logits` must be finite (-inf may mask a class), got NaN or +inf, first in sample {row} "
            f"({int(wrong.sum())} such values). Training has diverged: lower the learning rate, clip gradients, or "
            f"let a GradScaler skip the step (check_finite=False)."
        )


def class_masses(weight: Array | None, target: Array, valid: Array, dtype: torch.dtype) -> Array | None:
    """The mass of each sample: its class's weight, 0 where ignored."""
    if weight is None:
        return None
    masses = weight.to(dtype)[torch.where(valid, target, 0)]
    return torch.where(valid, masses, 0)


def check_soft_target(soft_target: bool, weight: Array | None) -> None:
    """Targets that are class probabilities go with plain cross-entropy only."""
    if soft_target and weight is not None:
        raise InputError(
            f"{_NAME}: `weight` needs class numbers as `target`, got class probabilities. "
            f"Weigh the probabilities themselves, or pass class numbers."
        )


# confidence ---------------------------------------------------------------------------------------
#
# How sure a row of logits is: a number that orders samples without saturating, whatever the precision.


Score = str | Callable[[Array], Array]
# the softmax scores without the checks of `abstain.scores`, which look at values and would make a GPU wait
_LOG_DISTANCE = {
    "max_softmax": simplex.log_complement,
    "softmax_margin": simplex.log_margin_complement,
    "negative_entropy": simplex.log_entropy,
    "negative_gini": simplex.log_gini,
}


def rank_key(logits: Array, score: Score, differentiable: bool = False) -> Array:
    """One number per sample, higher = surer; logits (N, C, ...) give a vector over samples and positions."""
    if score == "max_softmax" and not differentiable:
        return _minus_odds_against(logits).reshape(-1)
    rows = logits.movedim(1, -1).reshape(-1, logits.shape[1])
    return _of_rows(rows, score)


def _minus_odds_against(logits: Array) -> Array:
    """-(1 - p_max)/p_max in wide floats: the order of max softmax in seven kernels.

    A sum over the *other* classes, so it does not round to 0 where p_max rounds to 1. Exponentials vanish only
    beyond a logit gap of 745, where samples tie on top.
    """
    z = logits.to(wide_dtype(logits))
    top, winner = z.max(dim=1, keepdim=True)
    return -(z - top).exp_().scatter_(1, winner, 0.0).sum(dim=1)


def _of_rows(rows: Array, score: Score) -> Array:
    if callable(score):
        key = score(rows)
        if key.shape != rows.shape[:1]:
            raise ShapeError(
                f"aurc_loss: `score` must return one confidence per row of logits, shape {tuple(rows.shape[:1])}, "
                f"got {tuple(key.shape)}. It is given (samples, classes)."
            )
        return key
    check_choice("aurc_loss", "score", score, scores.NAMES)
    if score not in _LOG_DISTANCE:
        return scores.by_name(score)(rows)
    distance = _LOG_DISTANCE[score]
    return finite_key(xp, rows.to(wide_dtype(rows)), lambda z: -distance(simplex.odds_of_logits(xp, z)))


# criteria -----------------------------------------------------------------------------------------
#
# Losses of single samples: what the ranks put weights on.


Criterion = Callable[[Array, Array], Array]


def in_full_precision(logits: Array) -> Array:
    """float16 and bfloat16 logits as float32: a loss in half precision has three digits."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def cross_entropy(logits: Array, target: Array, ignore_index: int, label_smoothing: float) -> Array:
    """Cross-entropy of each sample; 0 where the target is `ignore_index`."""
    return F.cross_entropy(
        in_full_precision(logits),
        target,
        reduction="none",
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )


def smooth_zero_one(logits: Array, target: Array) -> Array:
    r"""The smooth 0/1 loss of each sample; lower is better.

    .. math:: \ell_i = 1 - p_{y_i}

    It counts errors as the 0/1 loss does, but has a gradient. Taken as -expm1(log p), so that it keeps its digits
    where p is close to 1. Shapes: logits (N, C, ...), target (N, ...).

    >>> smooth_zero_one(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([0.5000])
    """
    log_p = F.log_softmax(in_full_precision(logits), dim=1)
    return -torch.expm1(log_p.gather(1, target.unsqueeze(1)).squeeze(1))


def by_criterion(criterion: Criterion, logits: Array, target: Array, valid: Array) -> Array:
    """The user's per-sample losses; ignored positions are shown class 0 and count for nothing."""
    losses = criterion(logits, torch.where(valid, target, 0))
    if losses.shape != target.shape:
        raise ShapeError(
            f"aurc_loss: `criterion` must return one loss per sample, shape {tuple(target.shape)}, got shape "
            f'{tuple(losses.shape)}. Build it with reduction="none" (the criterion itself is never changed).'
        )
    return torch.where(valid, losses, 0)


# losses -------------------------------------------------------------------------------------------
#
# AURC as a training loss: every sample's loss, weighted by where its confidence ranks it in the batch.


def aurc_loss(
    logits: Array,
    target: Array,
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
    target : integer tensor, shape (N,) or (N, d1, ...); or class probabilities of the shape of `logits`
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights; see `abstain.aurc`.
    score : str or callable
        Confidence: a name of `abstain.scores` ("max_softmax", "softmax_margin", "negative_entropy", "negative_gini"
        without waiting for a GPU or breaking a compiled graph), or a function from (samples, classes) logits to
        one number per sample, higher = surer.
    criterion : callable, optional
        Per-sample loss of (logits, target), e.g. `smooth_zero_one`; cross-entropy by default. Never modified.
    reduction : {"mean", "sum", "none"}
        "none" gives each sample's weighted loss; "mean" divides their sum by the samples (or the mass) that count.
    ignore_index : int
        Targets with this value are ranked nowhere and weigh nothing; a batch with nothing else has loss 0.
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
    check_finite : bool, optional
        Look for NaN and +inf in the logits. Default: on the CPU only, since looking makes a GPU wait.

    Returns
    -------
    Scalar tensor (or the shape of `target` for reduction="none"), float32 or wider.

    References
    ----------
    Zhou, Van Landeghem, Popordanoska, Blaschko (ICML 2025), plug-in estimators; ties and `loo` as in `abstain.aurc`.

    Examples
    --------
    >>> logits = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> aurc_loss(logits, torch.tensor([0, 0, 1]), estimator="sele")  # least sure first: (1*0.313+2*0.127+3*0.049)/9
    tensor(0.0792)
    """
    if _is_usual(score, criterion, weight, rank, temperature, mix, gather, check_finite) and fused.takes(
        logits, target, estimator, reduction, label_smoothing
    ):
        return fused.loss(logits, target, estimator, reduction, ignore_index, label_smoothing)

    check_options(estimator, reduction, rank, temperature, label_smoothing)
    check_together(estimator, criterion, label_smoothing, weight, soft=rank == "soft", gather=gather)
    soft_target = check_shapes(logits, target, empty_allowed=gather)
    check_weight(weight, logits)
    check_soft_target(soft_target, weight)
    check_values(logits, None if soft_target else target, ignore_index, check_finite)

    valid = torch.ones_like(target[:, 0], dtype=torch.bool) if soft_target else target != ignore_index
    losses = _per_sample(logits, target, valid, criterion, ignore_index, label_smoothing).reshape(-1)
    mass = class_masses(weight, target, valid, ranking.wide_dtype(logits))
    mass = None if mass is None else mass.reshape(-1)
    shape, valid = valid.shape, valid.reshape(-1)
    with torch.set_grad_enabled(rank == "soft" and torch.is_grad_enabled()):
        key = torch.where(valid, rank_key(logits, score, rank == "soft"), torch.nan)
        weights, total, replicas = _rank(key, valid, mass, estimator, rank, temperature, gather, group)
        weights = weights if isinstance(mix, float) and mix == 0 else _mixed(weights, valid, mix)
        weights = weights if mass is None else weights * mass
    return _reduce(losses, weights, total, replicas, reduction, shape)


def _is_usual(
    score: Score,
    criterion: Criterion | None,
    weight: Array | None,
    rank: str,
    temperature: float,
    mix: float | Array,
    gather: bool,
    check_finite: bool | None,
) -> bool:
    """Nothing asked for that the kernels of `fused` leave out?"""
    plain = criterion is None and weight is None and not gather and not check_finite
    unmixed = isinstance(mix, float) and mix == 0
    return plain and unmixed and rank == "hard" and score == "max_softmax" and temperature > 0


def _per_sample(
    logits: Array,
    target: Array,
    valid: Array,
    criterion: Criterion | None,
    ignore_index: int,
    label_smoothing: float,
) -> Array:
    if criterion is None:
        return cross_entropy(logits, target, ignore_index, label_smoothing)
    return by_criterion(criterion, logits, target, valid)


def _rank(
    key: Array,
    valid: Array,
    mass: Array | None,
    estimator: str,
    rank: str,
    temperature: float,
    gather: bool,
    group: Array,
) -> tuple[Array, Array, int]:
    """Weights, total mass, and how many replicas share it."""
    if gather:
        return ranking.gathered_weights(key, mass, estimator, group)
    total = ranking.total_mass(valid, mass)
    if rank == "soft":
        own = valid.to(key.dtype) if mass is None else mass
        weights = ranking.soft_weights(torch.where(valid, key, 0), own, total, estimator, temperature)
        return torch.where(valid, weights, 0), total, 1
    return ranking.hard_weights(key, mass, total, estimator), total, 1


def _mixed(weights: Array, valid: Array, mix: float | Array) -> Array:
    return weights + mix * (valid.to(weights.dtype) - weights)


def _reduce(
    losses: Array, weights: Array, total: Array, replicas: int, reduction: str, shape: tuple[int, ...]
) -> Array:
    if reduction == "none":
        return (weights.to(losses.dtype) * losses).reshape(shape)
    if reduction == "mean":
        weights = weights / total
    if replicas > 1:
        weights = weights * replicas  # DDP averages gradients over replicas; the joined batch is their sum
    return torch.dot(weights.to(losses.dtype), losses)


# modules ------------------------------------------------------------------------------------------
#
# The loss as a module: a drop-in for `torch.nn.CrossEntropyLoss`.


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
        check_options(estimator, reduction, rank, temperature, label_smoothing)
        check_together(estimator, criterion, label_smoothing, weight, soft=rank == "soft", gather=gather)
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
