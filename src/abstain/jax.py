"""Train with JAX: AURC as a pure loss function, for jit, grad and vmap.

>>> import jax.numpy as jnp
>>> from abstain.jax import aurc_loss
>>> round(float(aurc_loss(jnp.zeros((4, 2)), jnp.asarray([0, 1, 1, 0]))), 4)  # all tied: the plain mean, ln 2
0.6931
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from abstain._arrays import Array, float_dtype, is_concrete
from abstain._check import check_choice
from abstain.core import batch
from abstain.core.area_estimators import Estimator, accepts, pair_weights, sample_weights, softly_accepts
from abstain.errors import DtypeError, InputError, MissingDependencyError, ShapeError

try:
    import jax
    import jax.numpy as jnp
except ImportError as problem:  # pragma: no cover - jax is present wherever the tests run
    raise MissingDependencyError("abstain.jax", "jax", "jax") from problem

__all__ = ["aurc_loss", "linear_warmup", "smooth_zero_one"]

Score = str | Callable[[Array], Array]
_PAIRS_AT_MOST = 512  # a small batch is compared pair by pair, a large one sorted


def aurc_loss(
    logits: Array,
    labels: Array,
    *,
    estimator: Estimator = "harmonic",
    score: Score = "max_softmax",
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
    labels : integer array, shape (...)
        Class numbers, from 0.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights; equal confidences weigh the same. See `abstain.aurc`.
    score : {"max_softmax", "softmax_margin", "negative_entropy", "negative_gini", "max_logit"} or callable
        Confidence of (n, C) logits; a callable returns shape (n,), higher = surer.
    criterion : callable, optional
        Per-sample loss of (n, C) logits and (n,) labels; cross-entropy by default.
    reduction : {"mean", "sum", "none"}
        "none" gives each sample's weighted loss; "mean" divides their sum by the samples that count.
    ignore_index : int
        Labels to leave out of ranks and mean.
    label_smoothing : float
        Of the cross-entropy.
    rank : {"hard", "soft"}
        "hard": no gradient through ranks. "soft": a sigmoid of confidence differences over `temperature`.
    temperature : float
        Of rank="soft", in units of the score.
    mix : float or scalar array
        Share of the plain criterion, e.g. `linear_warmup(1000)(step)`.

    Returns
    -------
    array
        A scalar, or the shape of `labels` for reduction="none"; float32, or float64 for float64 logits.

    Examples
    --------
    >>> logits = jnp.asarray([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> round(float(aurc_loss(logits, jnp.asarray([0, 0, 1]), estimator="sele")), 4)
    0.0792
    """
    batch.check_options(estimator, reduction, rank, temperature, label_smoothing, criterion, mix)
    logits, labels = jnp.asarray(logits), jnp.asarray(labels)
    _check_arrays(logits, labels, ignore_index)
    # half precision is computed in float32; float64 stays, where JAX has it
    wide = jnp.float64 if logits.dtype == jnp.float64 else jnp.float32
    rows, flat = logits.reshape(-1, logits.shape[-1]).astype(wide), labels.reshape(-1)
    valid = flat != ignore_index
    shown = jnp.where(valid, flat, 0)
    losses = _cross_entropy(rows, shown, label_smoothing) if criterion is None else criterion(rows, shown)
    batch.check_returned("criterion", "one number per sample", losses, flat.shape)
    losses = jnp.where(valid, losses, 0.0)
    weights = _weights(rows, valid, estimator, score, rank, temperature)
    weights = weights + mix * (valid - weights)
    each = weights * losses
    if reduction == "none":
        return each.reshape(labels.shape)
    return jnp.sum(each) / (jnp.maximum(jnp.sum(valid), 1) if reduction == "mean" else 1)


def smooth_zero_one(logits: Array, labels: Array) -> Array:
    r"""The smooth 0/1 loss of each sample; lower is better.

    .. math:: \ell_i = 1 - p_{y_i}

    Parameters
    ----------
    logits : array, shape (..., C)
        Classes last.
    labels : integer array, shape (...)
        Class numbers, from 0.

    Returns
    -------
    array of the shape of `labels`
        From 0 to 1, with the digits kept where p is close to 1.

    Examples
    --------
    >>> smooth_zero_one(jnp.zeros((1, 2)), jnp.asarray([1])).tolist()
    [0.5]
    """
    log_p = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.expm1(jnp.take_along_axis(log_p, labels[..., None], axis=-1)[..., 0])


def linear_warmup(steps: int, start: float = 1.0, stop: float = 0.0) -> Callable[[Array], Array]:
    r"""Schedule for `mix`, as a function of the step (optax style).

    .. math:: start + (stop - start) \min(step / steps, 1)

    Parameters
    ----------
    steps : int
        After so many steps `stop` is reached.
    start, stop : float
        Shares of the plain criterion.

    Returns
    -------
    callable
        From a step to the share.

    Examples
    --------
    >>> [float(linear_warmup(4)(step)) for step in (0, 2, 9)]
    [1.0, 0.5, 0.0]
    """

    def schedule(step: Array) -> Array:
        return start + (stop - start) * jnp.clip(jnp.asarray(step) / steps, 0.0, 1.0)

    return schedule


def _check_arrays(logits: Array, labels: Array, ignore_index: int) -> None:
    """Shapes and dtypes always; values where they can be read (outside jit)."""
    if not jnp.issubdtype(logits.dtype, jnp.floating):
        raise DtypeError(f"{batch.NAME}: `logits` must be floating point, got {logits.dtype}.")
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise DtypeError(
            f"{batch.NAME}: `labels` must hold class numbers, got {labels.dtype}. Use `.astype(int)`."
        )
    if logits.ndim < 2 or logits.shape[-1] < 2 or logits.shape[:-1] != labels.shape:
        raise ShapeError(
            f"{batch.NAME}: `logits` must have shape (..., C) with C >= 2 and `labels` (...), got {logits.shape} "
            f"and {labels.shape}. Classes are the last axis; a single sample needs `logits[None]`."
        )
    if labels.size == 0:
        raise InputError(
            f"{batch.NAME}: needs at least one sample, got shape {logits.shape}. Skip empty batches."
        )
    if is_concrete(labels) and is_concrete(logits):
        batch.check_labels(labels, logits.shape[-1], ignore_index)
        batch.check_finite(jnp, logits, "or clip gradients")


def _cross_entropy(rows: Array, labels: Array, label_smoothing: float) -> Array:
    log_p = jax.nn.log_softmax(rows, axis=-1)
    own = -jnp.take_along_axis(log_p, labels[:, None], axis=-1)[:, 0]
    if not label_smoothing:
        return own
    return (1 - label_smoothing) * own - label_smoothing * jnp.mean(log_p, axis=-1)


def _confidence(rows: Array, score: Score) -> Array:
    if callable(score):
        key = score(rows)
        batch.check_returned("score", "one number per sample", key, rows.shape[:1])
        return key
    check_choice(batch.NAME, "score", score, (*batch.SOFTMAX_SCORES, "max_logit"))
    rows = rows.astype(float_dtype(jnp))
    return jnp.max(rows, axis=-1) if score == "max_logit" else batch.softmax_key(jnp, rows, score)


def _weights(rows: Array, valid: Array, estimator: str, score: Score, rank: str, temperature: float) -> Array:
    mass = valid.astype(float_dtype(jnp))
    total = jnp.maximum(jnp.sum(mass, keepdims=True), 1)
    key = _confidence(rows, score) if rank == "soft" else jax.lax.stop_gradient(_confidence(rows, score))
    if rank == "soft":
        smooth = softly_accepts(jnp, jnp.where(valid, key, 0.0), temperature)
        weights = pair_weights(jnp, smooth, mass, total, estimator)
    elif len(key) <= _PAIRS_AT_MOST:
        alone = jnp.where(valid, key, jnp.nan)
        weights = pair_weights(jnp, accepts(alone), None, total, estimator)
    else:
        weights = sample_weights(jnp, jnp.where(valid, key, -jnp.inf), mass, estimator, "threshold")
    return jnp.where(valid, weights, 0.0).astype(rows.dtype)
