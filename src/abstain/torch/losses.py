"""AURC as a training loss: every sample's loss, weighted by where its confidence ranks it in the batch."""

from __future__ import annotations

from typing import Literal

import torch

from abstain._arrays import Array
from abstain.core.estimators import Estimator
from abstain.torch import criteria, fused, inputs, ranking
from abstain.torch.confidence import Score, rank_key


def aurc_loss(
    logits: Array,
    target: Array,
    *,
    estimator: Estimator = "harmonic",
    score: Score = "max_softmax",
    criterion: criteria.Criterion | None = None,
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

    inputs.check_options(estimator, reduction, rank, temperature, label_smoothing)
    inputs.check_together(estimator, criterion, label_smoothing, weight, soft=rank == "soft", gather=gather)
    soft_target = inputs.check_shapes(logits, target, empty_allowed=gather)
    inputs.check_weight(weight, logits)
    inputs.check_soft_target(soft_target, weight)
    inputs.check_values(logits, None if soft_target else target, ignore_index, check_finite)

    valid = torch.ones_like(target[:, 0], dtype=torch.bool) if soft_target else target != ignore_index
    losses = _per_sample(logits, target, valid, criterion, ignore_index, label_smoothing).reshape(-1)
    mass = inputs.class_masses(weight, target, valid, ranking.wide_dtype(logits))
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
    criterion: criteria.Criterion | None,
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
    criterion: criteria.Criterion | None,
    ignore_index: int,
    label_smoothing: float,
) -> Array:
    if criterion is None:
        return criteria.cross_entropy(logits, target, ignore_index, label_smoothing)
    return criteria.by_criterion(criterion, logits, target, valid)


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
