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
from abstain._check import check_count
from abstain.core import batch
from abstain.core.area_estimators import Estimator, accepts, pair_weights, sample_weights, softly_accepts
from abstain.errors import DtypeError, InputError, MissingDependencyError, ShapeError
from abstain.scores.catalogue import check_name

try:
    import jax
    import jax.numpy as jnp
except ImportError as problem:  # pragma: no cover - jax is present wherever the tests run
    raise MissingDependencyError("abstain.jax", "jax", "jax") from problem

__all__ = ["aurc_loss", "linear_warmup", "smooth_zero_one"]

Score = str | Callable[[Array], Array]
_MAX_PAIRWISE = 512  # up to this batch size all pairs of samples are compared; a larger batch is sorted
_SCORES = (*batch.SOFTMAX_SCORES, "max_logit")


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
    `mix`. The function is pure and its shapes are fixed, so it works under jit, grad and vmap. It returns the numbers
    of `abstain.aurc` (to float32, or to float64 with `jax_enable_x64`).

    Parameters
    ----------
    logits : array, shape (..., C)
        Classes last; all leading axes are samples. For many batches at once, `jax.vmap`.
    labels : integer array, shape (...)
        Class numbers, from 0.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights; equal confidences get equal weights. See `abstain.aurc`.
    score : {"max_softmax", "softmax_margin", "negative_entropy", "negative_gini", "max_logit"} or callable
        Confidence of (n, C) logits; a callable returns shape (n,), higher = surer.
    criterion : callable, optional
        Per-sample loss of (n, C) logits and (n,) labels; cross-entropy by default.
    reduction : {"mean", "sum", "none"}
        "none" returns each sample's weighted loss; "mean" divides their sum by the number of samples that are not
        ignored.
    ignore_index : int
        Samples with this label are left out of the ranks and the mean.
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

    Raises
    ------
    InputError, DtypeError, ShapeError
        If an option is unknown or out of range, or a shape or dtype is wrong. Outside jit also if a label is out of
        range or a logit is not finite.

    Examples
    --------
    >>> logits = jnp.asarray([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> round(float(aurc_loss(logits, jnp.asarray([0, 0, 1]), estimator="sele")), 4)
    0.0792
    """
    batch.check_options(
        estimator=estimator,
        reduction=reduction,
        rank=rank,
        temperature=temperature,
        label_smoothing=label_smoothing,
        criterion=criterion,
        mix=mix,
    )
    logits = jnp.asarray(logits)
    labels = jnp.asarray(labels)
    _check_arrays(logits, labels, ignore_index)
    # half precision is computed in float32; float64 stays float64 where JAX has it
    dtype = jnp.float64 if logits.dtype == jnp.float64 else jnp.float32
    rows = logits.reshape(-1, logits.shape[-1]).astype(dtype)
    flat_labels = labels.reshape(-1)
    valid = flat_labels != ignore_index
    # ignored samples are computed as class 0 and then dropped
    valid_labels = jnp.where(valid, flat_labels, 0)
    if criterion is None:
        losses = _cross_entropy(rows, valid_labels, label_smoothing)
    else:
        losses = criterion(rows, valid_labels)
    batch.check_returned("criterion", "one number per sample", losses, flat_labels.shape)
    losses = jnp.where(valid, losses, 0.0)
    weights = _rank_weights(rows, valid, estimator, score, rank, temperature)
    # the plain criterion has weight 1 for every valid sample
    weights = weights + mix * (valid - weights)
    weighted_losses = weights * losses
    if reduction == "none":
        return weighted_losses.reshape(labels.shape)
    divisor = jnp.maximum(jnp.sum(valid), 1) if reduction == "mean" else 1
    return jnp.sum(weighted_losses) / divisor


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
        From 0 to 1, accurate also where p is close to 1.

    Examples
    --------
    >>> smooth_zero_one(jnp.zeros((1, 2)), jnp.asarray([1])).tolist()
    [0.5]
    """
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    # 1 - p as -expm1(ln p), which keeps its digits where p is close to 1
    return -jnp.expm1(jnp.take_along_axis(log_probs, labels[..., None], axis=-1)[..., 0])


def linear_warmup(steps: int, start: float = 1.0, stop: float = 0.0) -> Callable[[Array], Array]:
    r"""Make a schedule for `mix`, a function of the step as in optax.

    .. math:: start + (stop - start) \min(step / steps, 1)

    Parameters
    ----------
    steps : int
        The number of steps after which `stop` is reached.
    start, stop : float
        Shares of the plain criterion: 1 is the mean loss without rank weights, 0 has the rank weights alone.

    Returns
    -------
    callable
        Returns the share for a step.

    Raises
    ------
    InputError
        If `steps` is not a whole number, at least 1.

    Examples
    --------
    >>> [float(linear_warmup(4)(step)) for step in (0, 2, 9)]
    [1.0, 0.5, 0.0]
    """

    step_count = check_count("linear_warmup", "steps", steps)

    def schedule(step: Array) -> Array:
        return start + (stop - start) * jnp.clip(jnp.asarray(step) / step_count, 0.0, 1.0)

    return schedule


def _check_arrays(logits: Array, labels: Array, ignore_index: int) -> None:
    """Check shapes and dtypes of logits (..., C) and labels (...), and their values where they can be read.

    Values cannot be read under jit. Raises DtypeError, ShapeError, or InputError for an empty batch, a label out of
    range or a logit that is not finite. A label that is `ignore_index` is never out of range: the loss leaves its
    sample out later. `batch.NAME` is the public function that messages name.
    """
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
    if is_concrete(labels) and is_concrete(logits):  # not the tracers of jit, grad and vmap
        batch.check_labels(labels, logits.shape[-1], ignore_index)
        batch.check_finite(jnp, logits, remedy="or clip gradients")


def _cross_entropy(rows: Array, labels: Array, label_smoothing: float) -> Array:
    """Compute the cross-entropy of each row of logits (n, C) with labels (n,)."""
    log_probs = jax.nn.log_softmax(rows, axis=-1)
    negative_log_likelihood = -jnp.take_along_axis(log_probs, labels[:, None], axis=-1)[:, 0]
    if not label_smoothing:
        return negative_log_likelihood
    mean_log_prob = jnp.mean(log_probs, axis=-1)
    return (1 - label_smoothing) * negative_log_likelihood - label_smoothing * mean_log_prob


def _confidence(rows: Array, score: Score) -> Array:
    """Compute one confidence per row of logits (n, C), higher = surer, by a name in `_SCORES` or a user's function.

    `rows` are float32 or float64, and a user's score returns its confidences in any dtype.

    Only the order of the confidences matters: for softmax scores they are not the scores themselves but rank keys,
    which have the same order and do not saturate. Raises InputError for an unknown score, ShapeError if a user's score
    does not return one number per sample.
    """
    if callable(score):
        confidence = score(rows)  # not widened as below: only the package's own scores are
        batch.check_returned("score", "one number per sample", confidence, rows.shape[:1])
        return confidence
    check_name(batch.NAME, score, _SCORES)  # raises InputError for another name
    wide_rows = rows.astype(float_dtype(jnp))  # float64 where JAX has it, otherwise float32
    if score == "max_logit":
        return jnp.max(wide_rows, axis=-1)
    return batch.softmax_key(jnp, wide_rows, score)  # the rank key of each row


def _rank_weights(
    rows: Array, valid: Array, estimator: str, score: Score, rank: str, temperature: float
) -> Array:
    """Compute the weight of each sample's rank from logits (n, C); 0 where `valid` is False.

    Samples are ranked by the confidence that `score`, a name or a function of the logits, gives them. With rank="hard"
    no gradient flows through the weights, and equal confidences get equal weights; with rank="soft" samples are
    compared by a sigmoid of the difference over `temperature`. Raises InputError for an unknown score, and ShapeError
    if a user's score does not return one number per sample. `estimator` ("harmonic", "loo", "log", "sele" or "2sele")
    says how the weight of a rank is computed. The mean of weight times loss over the valid samples is AURC, so that
    weights are about 1 on average (harmonic ones, exactly). `valid` and the result have shape (n,).
    """
    mass = valid.astype(float_dtype(jnp))  # 1 for a valid sample, 0 for another
    # The number of valid samples, shape (1,). At least 1, so that without any all weights are 0 and not NaN.
    total = jnp.maximum(jnp.sum(mass, keepdims=True), 1)
    confidence = _confidence(rows, score)
    if rank == "soft":
        # [i, j]: how far, from 0 to 1, sample i is accepted at the threshold of sample j
        accepted = softly_accepts(jnp, jnp.where(valid, confidence, 0.0), temperature)
        # sums over the thresholds j
        weights = pair_weights(jnp, accepted, mass=mass, total=total, estimator=estimator)
        return jnp.where(valid, weights, 0.0).astype(rows.dtype)
    confidence = jax.lax.stop_gradient(confidence)
    if len(confidence) <= _MAX_PAIRWISE:  # 512
        # [i, j]: whether sample i is at least as confident as sample j. A comparison with NaN is False, so samples that
        # are not valid are never accepted, and need no mass of 0: None is a mass of 1 for all.
        accepted = accepts(jnp.where(valid, confidence, jnp.nan))
        weights = pair_weights(jnp, accepted, mass=None, total=total, estimator=estimator)
    else:  # too many pairs to compare: sort instead
        ranked_confidence = jnp.where(valid, confidence, -jnp.inf)  # last, with a mass of 0
        # "threshold": equal confidences are accepted together, as in the comparison of pairs
        weights = sample_weights(jnp, ranked_confidence, mass, estimator, ties="threshold")
    return jnp.where(valid, weights, 0.0).astype(rows.dtype)
