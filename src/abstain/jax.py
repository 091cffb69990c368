"""Train with JAX: AURC as a pure loss function, for jit, grad and vmap.

>>> import jax.numpy as jnp
>>> from abstain.jax import aurc_loss
>>> round(float(aurc_loss(jnp.zeros((4, 2)), jnp.asarray([0, 1, 1, 0]))), 4)  # all tied: the plain mean, ln 2
0.6931
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp

from abstain._arrays import Array, float_dtype, is_concrete
from abstain._check import check_choice
from abstain.core import simplex
from abstain.core.estimators import (
    ESTIMATORS,
    Estimator,
    accepts,
    finite_key,
    pair_weights,
    sample_weights,
    softly_accepts,
)
from abstain.errors import DtypeError, InputError, MissingDependencyError, ShapeError

__all__ = ["aurc_loss", "linear_warmup", "smooth_zero_one"]


try:
    import jax as _jax  # noqa: F401
except ImportError as problem:  # pragma: no cover - jax is present wherever the tests run
    raise MissingDependencyError("abstain.jax", "jax", "jax") from problem


# inputs -------------------------------------------------------------------------------------------
#
# Boundary checks: shapes and dtypes always, values where they can be read (outside jit).


_NAME = "aurc_loss"


def check_options(
    estimator: str, reduction: str, rank: str, temperature: float, label_smoothing: float, criterion: Any
) -> None:
    """Words and numbers."""
    check_choice(_NAME, "estimator", estimator, ESTIMATORS)
    check_choice(_NAME, "reduction", reduction, ("mean", "sum", "none"))
    check_choice(_NAME, "rank", rank, ("hard", "soft"))
    if not temperature > 0:
        raise InputError(f"{_NAME}: `temperature` must be positive, got {temperature!r}.")
    if not 0 <= label_smoothing <= 1:
        raise InputError(f"{_NAME}: `label_smoothing` must lie in [0, 1], got {label_smoothing!r}.")
    if criterion is not None and label_smoothing:
        raise InputError(
            f"{_NAME}: `label_smoothing` belongs to the cross-entropy; put it into your `criterion`."
        )


def check_arrays(logits: Array, target: Array, ignore_index: int) -> None:
    """Logits (..., C) and integer targets (...)."""
    if not jnp.issubdtype(logits.dtype, jnp.floating):
        raise DtypeError(f"{_NAME}: `logits` must be floating point, got {logits.dtype}.")
    if not jnp.issubdtype(target.dtype, jnp.integer):
        raise DtypeError(
            f"{_NAME}: `target` must hold class numbers, got {target.dtype}. Use `.astype(int)`."
        )
    if logits.ndim < 2 or logits.shape[-1] < 2 or logits.shape[:-1] != target.shape:
        raise ShapeError(
            f"{_NAME}: `logits` must have shape (..., C) with C >= 2 and `target` (...), got {logits.shape} and "
            f"{target.shape}. Classes are the last axis; a single sample needs `logits[None]`."
        )
    if target.size == 0:
        raise InputError(f"{_NAME}: needs at least one sample, got shape {logits.shape}. Skip empty batches.")
    if is_concrete(target) and is_concrete(logits):
        _check_values(logits, target, ignore_index)


def _check_values(logits: Array, target: Array, ignore_index: int) -> None:
    classes = logits.shape[-1]
    wrong = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if bool(jnp.any(wrong)):
        raise InputError(
            f"{_NAME}: `target` must lie in 0 ... {classes - 1} (or be ignore_index={ignore_index}), got "
            f"{int(target[wrong][0])}. Classes count from 0; mark positions to leave out with `ignore_index`."
        )
    if bool(jnp.any(jnp.isnan(logits) | (logits == jnp.inf))):
        raise InputError(
            f"{_NAME}: `logits` must be finite (-inf may mask a class), got NaN or +inf. "
            f"Training has diverged: lower the learning rate or clip gradients."
        )


def check_per_sample(argument: str, values: Array, like: Array) -> None:
    """One number per sample from a function of the user's."""
    if values.shape != like.shape:
        raise ShapeError(
            f"{_NAME}: `{argument}` must return one number per sample, shape {like.shape}, got {values.shape}."
        )


# losses -------------------------------------------------------------------------------------------
#
# AURC of a batch as a pure function of JAX arrays.


_PAIRS_AT_MOST = 512  # a small batch is compared pair by pair, a large one sorted
_LOG_DISTANCE = {
    "max_softmax": simplex.log_complement,
    "softmax_margin": simplex.log_margin_complement,
    "negative_entropy": simplex.log_entropy,
    "negative_gini": simplex.log_gini,
}


def aurc_loss(
    logits: Array,
    target: Array,
    *,
    estimator: Estimator = "harmonic",
    score: str | Callable[[Array], Array] = "max_softmax",
    criterion: Callable[[Array, Array], Array] | None = None,
    reduction: Literal["mean", "sum", "none"] = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    rank: Literal["hard", "soft"] = "hard",
    temperature: float = 0.1,
    mix: float | Array = 0.0,
) -> Array:
    r"""AURC of a batch as a loss; lower is better.

    .. math:: \frac{1}{n}\sum_i \bigl[(1 - \lambda)\,\hat\alpha_i + \lambda\bigr]\,\ell_i

    with :math:`\hat\alpha_i` the weight of sample i's rank among the confidences of this batch and :math:`\lambda` =
    `mix`. Pure, of fixed shape: works under jit, grad and vmap, and gives the numbers of `abstain.aurc` (to float32,
    or float64 with `jax_enable_x64`).

    Parameters
    ----------
    logits : array, shape (..., C)
        Classes last; all leading axes are samples. For many batches at once, `jax.vmap`.
    target : integer array, shape (...)
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
    score : {"max_softmax", "softmax_margin", "negative_entropy", "negative_gini", "max_logit"} or callable
        Confidence of (n, C) logits; a callable returns shape (n,), higher = surer.
    criterion : callable, optional
        Per-sample loss of (n, C) logits and (n,) targets; cross-entropy by default.
    reduction : {"mean", "sum", "none"}
    ignore_index : int
        Targets to leave out of ranks and mean.
    label_smoothing : float
    rank : {"hard", "soft"}
        "hard": no gradient through ranks. "soft": a sigmoid of confidence differences over `temperature`.
    mix : float or scalar array
        Share of the plain criterion, e.g. `linear_warmup(1000)(step)`.

    Examples
    --------
    >>> logits = jnp.asarray([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> round(float(aurc_loss(logits, jnp.asarray([0, 0, 1]), estimator="sele")), 4)
    0.0792
    """
    check_options(estimator, reduction, rank, temperature, label_smoothing, criterion)
    logits, target = jnp.asarray(logits), jnp.asarray(target)
    check_arrays(logits, target, ignore_index)
    shape, classes = target.shape, logits.shape[-1]
    rows, flat = logits.reshape(-1, classes).astype(_wide(logits)), target.reshape(-1)
    valid = flat != ignore_index
    shown = jnp.where(valid, flat, 0)
    losses = _cross_entropy(rows, shown, label_smoothing) if criterion is None else criterion(rows, shown)
    check_per_sample("criterion", losses, flat)
    losses = jnp.where(valid, losses, 0.0)
    weights = _weights(rows, valid, estimator, score, rank, temperature)
    weights = weights + mix * (valid - weights)
    each = weights * losses
    if reduction == "none":
        return each.reshape(shape)
    return jnp.sum(each) / (jnp.maximum(jnp.sum(valid), 1) if reduction == "mean" else 1)


def smooth_zero_one(logits: Array, target: Array) -> Array:
    r"""The smooth 0/1 loss :math:`1 - p_y` of each sample; lower is better.

    >>> smooth_zero_one(jnp.zeros((1, 2)), jnp.asarray([1])).tolist()
    [0.5]
    """
    log_p = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.expm1(jnp.take_along_axis(log_p, target[..., None], axis=-1)[..., 0])


def linear_warmup(steps: int, start: float = 1.0, stop: float = 0.0) -> Callable[[Array], Array]:
    """Schedule for `mix`: from `start` to `stop` in `steps` steps, as a function of the step (optax style).

    >>> [float(linear_warmup(4)(step)) for step in (0, 2, 9)]
    [1.0, 0.5, 0.0]
    """

    def schedule(step: Array) -> Array:
        return start + (stop - start) * jnp.clip(jnp.asarray(step) / steps, 0.0, 1.0)

    return schedule


def _wide(logits: Array) -> Array:
    """Half precision is computed in float32; float64 stays (where JAX has it)."""
    return jnp.float64 if logits.dtype == jnp.float64 else jnp.float32


def _cross_entropy(rows: Array, target: Array, label_smoothing: float) -> Array:
    log_p = jax.nn.log_softmax(rows, axis=-1)
    own = -jnp.take_along_axis(log_p, target[:, None], axis=-1)[:, 0]
    return (
        (1 - label_smoothing) * own - label_smoothing * jnp.mean(log_p, axis=-1) if label_smoothing else own
    )


def _confidence(rows: Array, score: str | Callable[[Array], Array]) -> Array:
    if callable(score):
        key = score(rows)
        check_per_sample("score", key, rows[:, 0])
        return key
    check_choice("aurc_loss", "score", score, (*_LOG_DISTANCE, "max_logit"))
    rows = rows.astype(float_dtype(jnp))
    if score == "max_logit":
        return jnp.max(rows, axis=-1)
    return finite_key(jnp, rows, lambda z: -_LOG_DISTANCE[score](simplex.odds_of_logits(jnp, z)))


def _weights(
    rows: Array,
    valid: Array,
    estimator: str,
    score: str | Callable[[Array], Array],
    rank: str,
    temperature: float,
) -> Array:
    mass = valid.astype(float_dtype(jnp))
    total = jnp.maximum(jnp.sum(mass, keepdims=True), 1)
    if rank == "soft":
        key = jnp.where(valid, _confidence(rows, score), 0.0)
        weights = pair_weights(jnp, softly_accepts(jnp, key, temperature), mass, total, estimator)
    else:
        key = jax.lax.stop_gradient(_confidence(rows, score))
        if key.shape[0] <= _PAIRS_AT_MOST:
            alone = jnp.where(valid, key, jnp.nan)
            weights = pair_weights(jnp, accepts(alone), None, total, estimator)
        else:
            weights = sample_weights(jnp, jnp.where(valid, key, -jnp.inf), mass, estimator, "threshold")
    return jnp.where(valid, weights, 0.0).astype(rows.dtype)
