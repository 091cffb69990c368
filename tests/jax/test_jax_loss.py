"""The JAX loss: the numbers of the numpy core, under jit, grad and vmap."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import abstain
from abstain.errors import DtypeError, InputError, ShapeError
from abstain.jax import aurc_loss, linear_warmup, smooth_zero_one

try:
    from jax import enable_x64
except ImportError:  # the oldest versions that the package supports
    from jax.experimental import enable_x64

STATIC = (
    "estimator",
    "score",
    "criterion",
    "reduction",
    "ignore_index",
    "label_smoothing",
    "rank",
    "temperature",
)
compiled = jax.jit(aurc_loss, static_argnames=STATIC)
ESTIMATORS = ("harmonic", "log", "loo", "sele", "2sele")


def make(n, classes=4, tied=True, seed=0):
    rng = np.random.default_rng(seed + n)
    logits = rng.standard_normal((n, classes)) * 2
    if tied:
        logits = logits[rng.integers(0, n // 2 + 1, n)]
    return logits, rng.integers(0, classes, n)


def reference(logits, target, **options):
    losses = abstain.losses.cross_entropy(logits, target)
    return abstain.aurc(losses, abstain.scores.max_softmax(logits), **options)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("n", "x64"), [(1, True), (40, True), (700, True), (40, False)])  # both roads
def test_numbers_of_the_numpy_core(estimator, n, x64):
    logits, target = make(n)
    with enable_x64(x64):
        got = jax.jit(lambda z, y: aurc_loss(z, y, estimator=estimator))(
            jnp.asarray(logits), jnp.asarray(target)
        )
        assert got.dtype == (jnp.float64 if x64 else jnp.float32)
    expected = reference(logits if x64 else logits.astype(np.float32), target, estimator=estimator)
    assert float(got) == pytest.approx(expected, rel=1e-11 if x64 else 1e-5, abs=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "options", [{}, {"criterion": smooth_zero_one}, {"rank": "soft", "temperature": 0.5}]
)
def test_gradients(estimator, options):
    logits, target = make(6, tied=False)
    with enable_x64(True):
        check_grads(
            lambda z: aurc_loss(z, target, estimator=estimator, **options), (jnp.asarray(logits),), 1, ["rev"]
        )


def test_no_gradient_through_hard_ranks():
    logits, target = make(12)
    with enable_x64(True):
        got = jax.grad(lambda z: compiled(z, target))(jnp.asarray(logits))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    alpha = abstain.metrics.weights(abstain.scores.max_softmax(logits))
    np.testing.assert_allclose(got, alpha[:, None] * (p - np.eye(4)[target]) / 12, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("n", [9, 600])
def test_vmap_is_a_loop(n):
    batches = [make(n, seed=s) for s in range(3)]
    logits, target = (jnp.asarray(np.stack(column)) for column in zip(*batches))
    one_by_one = jax.jit(jax.value_and_grad(aurc_loss))
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(aurc_loss)))(logits, target)
    for k in range(3):
        value, gradient = one_by_one(logits[k], target[k])
        assert float(values[k]) == pytest.approx(float(value), rel=1e-6)
        np.testing.assert_allclose(gradients[k], gradient, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("n", "estimator"), [(20, "loo"), (20, "log"), (800, "harmonic"), (800, "log")])
def test_ignored_targets_are_as_if_absent(n, estimator):
    logits, target = make(n)
    gone = np.arange(n) % 3 == 0
    with enable_x64(True):
        marked = compiled(jnp.asarray(logits), jnp.asarray(np.where(gone, -100, target)), estimator=estimator)
    assert float(marked) == pytest.approx(
        reference(logits[~gone], target[~gone], estimator=estimator), rel=1e-10
    )


def test_nothing_but_ignored_targets_is_no_loss_and_no_gradient():
    value, gradient = jax.value_and_grad(compiled)(jnp.ones((3, 2)), jnp.full(3, -100))
    assert float(value) == 0
    assert np.all(np.asarray(gradient) == 0)


def test_options_that_scale_and_mix():
    logits, target = (jnp.asarray(x) for x in make(30))
    each = compiled(logits, target, reduction="none")
    assert each.shape == (30,)
    assert float(compiled(logits, target, reduction="sum")) == pytest.approx(float(each.sum()), rel=1e-5)
    plain = float(np.mean(abstain.losses.cross_entropy(np.asarray(logits), np.asarray(target))))
    assert float(compiled(logits, target, mix=1.0)) == pytest.approx(plain, rel=1e-5)
    half = 0.5 * plain + 0.5 * float(compiled(logits, target))
    assert float(compiled(logits, target, mix=linear_warmup(10)(5))) == pytest.approx(half, rel=1e-5)


def test_label_smoothing_and_scores():
    logits, target = make(40, tied=False)
    with enable_x64(True):
        z, y = jnp.asarray(logits), jnp.asarray(target)
        smooth = compiled(z, y, label_smoothing=0.2, score="negative_entropy")
        own = compiled(z, y, score=lambda rows: rows[:, 0])
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    losses = -0.8 * log_p[np.arange(40), target] - 0.2 * log_p.mean(1)
    assert float(smooth) == pytest.approx(
        abstain.aurc(losses, abstain.scores.negative_entropy(logits)), rel=1e-10
    )
    assert float(own) == pytest.approx(abstain.aurc(-log_p[np.arange(40), target], logits[:, 0]), rel=1e-10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_saturated_softmax_is_still_ordered(dtype):
    gaps = jnp.linspace(20, 90, 15).astype(dtype)
    logits = jnp.stack([gaps, jnp.zeros(15, dtype)], axis=1)
    each = compiled(logits, jnp.zeros(15, int), criterion=lambda z, y: jnp.ones(len(y)), reduction="none")
    assert np.all(np.diff(each) > 0)


def test_samples_may_have_any_leading_axes():
    logits, target = make(24)
    boxed = compiled(jnp.asarray(logits).reshape(2, 3, 4, 4), jnp.asarray(target).reshape(2, 3, 4))
    assert float(boxed) == pytest.approx(float(compiled(jnp.asarray(logits), jnp.asarray(target))), rel=1e-6)


Z, Y = jnp.ones((4, 3)), jnp.asarray([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        ((Z, Y[:3]), {}, ShapeError, "last axis"),
        ((Z[0], Y[0]), {}, ShapeError, r"logits\[None\]"),
        ((Z.astype(int), Y), {}, DtypeError, "floating"),
        ((Z, Y.astype(float)), {}, DtypeError, "class numbers"),
        ((Z, Y + 1), {}, InputError, "count from 0"),
        ((Z[:0], Y[:0]), {}, InputError, "Skip empty"),
        ((Z.at[0, 0].set(jnp.nan), Y), {}, InputError, "learning rate"),
        ((Z, Y), {"estimator": "mean"}, InputError, "harmonic"),
        ((Z, Y), {"score": "msp"}, InputError, "max_softmax"),
        ((Z, Y), {"rank": "soft", "temperature": 0.0}, InputError, "positive"),
        ((Z, Y), {"criterion": lambda z, y: jnp.ones(())}, ShapeError, "one number per sample"),
        ((Z, Y), {"criterion": smooth_zero_one, "label_smoothing": 0.1}, InputError, "criterion"),
    ],
)
def test_mistakes_are_named(arguments, options, error, says):
    with pytest.raises(error, match=says):
        aurc_loss(*arguments, **options)


def test_rows_with_one_possible_class_leave_the_soft_gradient_finite():
    logits = jnp.asarray([[1.0, -jnp.inf, -jnp.inf], [0, 2, 0], [-jnp.inf, 3, -jnp.inf], [0, 1, 0]])
    target = jnp.asarray([0, 1, 1, 0])
    value, gradient = jax.value_and_grad(lambda z: aurc_loss(z, target, rank="soft"))(logits)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("steps", [0, -1, 2.5])
def test_a_warmup_needs_a_number_of_steps(steps):
    """Zero steps would divide 0 by 0, and the loss would be NaN."""
    with pytest.raises(InputError, match="steps"):
        linear_warmup(steps)
