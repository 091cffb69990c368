"""Losses against their definitions in exact or many-digit arithmetic, every library, every wrong label."""

from __future__ import annotations

import importlib
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import abstain
from abstain import losses
from abstain.errors import DtypeError, InputError, ShapeError

LIBRARIES = ["list", "numpy", "read-only numpy", "array_api_strict", "torch", "jax"]


def make(library, values):
    if library == "list":
        return values.tolist()
    if library == "read-only numpy":
        values = values.copy()
        values.flags.writeable = False
    if library.endswith("numpy"):
        return values
    module = importlib.import_module({"torch": "torch", "jax": "jax.numpy"}.get(library, library))
    return module.from_numpy(values.copy()) if library == "torch" else module.asarray(values)


def exact(row, label):
    """Cross-entropy and Brier score in 400 digits."""
    with mpmath.workdps(400):
        exps = [mpmath.exp(mpmath.mpf(v)) for v in row]
        p = [e / mpmath.fsum(exps) for e in exps]
        brier = mpmath.fsum((q - (k == label)) ** 2 for k, q in enumerate(p))
        return float(-mpmath.log(p[label])), float(brier)


ROWS = [[50.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-300.0, 2.0, 1.0], [1e3, 1e3 - 2, 5.0], [4.0, 4.0, -9.0]]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("label", [0, 1, 2])
def test_cross_entropy_and_brier_keep_every_digit(row, label):
    entropy, brier = exact(row, label)
    assert losses.cross_entropy([row], [label])[0] == pytest.approx(entropy, rel=4e-15, abs=0)
    assert losses.brier([row], [label])[0] == pytest.approx(brier, rel=4e-15, abs=1e-300)


def test_probabilities_give_the_same_losses_as_their_logits():
    logits = np.random.default_rng(0).normal(0, 3, (200, 6))
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
    labels = np.arange(200) % 6
    for name in losses.NAMES:
        loss = losses.by_name(name)
        np.testing.assert_allclose(
            loss(probs=probs, labels=labels), loss(logits, labels), rtol=1e-11, err_msg=name
        )
    for name in ("cross_entropy", "brier"):
        loss = losses.by_name(name)
        warm = loss(probs=probs, labels=labels, temperature=2.0)
        np.testing.assert_allclose(warm, loss(logits / 2.0, labels), rtol=1e-11, err_msg=name)


def test_brier_in_fractions():
    probs = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    for label in range(3):
        expected = sum((p - (k == label)) ** 2 for k, p in enumerate(probs))
        assert losses.brier(probs=[[float(p) for p in probs]], labels=[label])[0] == pytest.approx(
            float(expected)
        )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k_equals_a_stable_sort(k):
    logits = np.random.default_rng(1).integers(0, 4, (300, 5)).astype(float)  # full of ties
    labels = np.arange(300) % 5
    leading = np.argsort(-logits, axis=-1, kind="stable")[:, :k]
    expected = ~(leading == labels[:, None]).any(-1)
    np.testing.assert_array_equal(losses.top_k(logits, labels, k=k), expected)
    if k == 1:
        np.testing.assert_array_equal(losses.zero_one(logits, labels), expected)
    assert losses.top_k(logits, labels, k=k).dtype == bool


def test_zero_one_is_boolean_and_feeds_aurc():
    logits, labels = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]]), [0, 0, 1]
    wrong = losses.zero_one(logits, labels)
    assert wrong.dtype == bool
    assert wrong.tolist() == [False, True, True]
    assert abstain.aurc(wrong, [0.9, 0.8, 0.7]) == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", losses.NAMES)
def test_every_library_leading_axes_and_one_hot(library, name):
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 4, (4, 7, 6)).astype(np.float32)
    labels = rng.integers(0, 6, (4, 7))
    loss = losses.by_name(name)
    expected = np.array(
        [[np.asarray(loss(r[None], [y]))[0] for r, y in zip(*pair)] for pair in zip(logits, labels)]
    )
    tolerance = 1e-6 if library == "jax" else 1e-14
    given = make(library, logits)
    for form in (labels, np.eye(6, dtype=np.int64)[labels], np.eye(6, dtype=bool)[labels]):
        found = loss(given, make(library, form))
        np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)
    assert isinstance(found, np.ndarray if library in LIBRARIES[:3] else type(given))


def test_under_jit():
    import jax

    logits, labels = jax.numpy.asarray([[3.0, 1.0], [0.0, 2.0]]), jax.numpy.asarray([1, 1])
    for name in losses.NAMES:
        loss = losses.by_name(name)
        options = {"k": 1} if name == "top_k" else {}
        fast = jax.jit(lambda z, y, f=loss, o=options: f(z, y, **o))(logits, labels)
        np.testing.assert_allclose(fast, loss(logits, labels, **options), rtol=1e-6)


def test_torch_agrees_with_its_own_cross_entropy_gradient():
    import torch

    z = torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    y = torch.arange(9) % 4
    (ours,) = torch.autograd.grad(losses.cross_entropy(z, y).sum(), z)
    (theirs,) = torch.autograd.grad(torch.nn.functional.cross_entropy(z, y, reduction="sum"), z)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("library", LIBRARIES)
def test_regression_losses(library):
    a, b = np.array([[1.0, -2.0], [0.5, 4.0]]), np.array([[0.0, 2.0], [0.5, 1.0]])
    squared = losses.squared_error(make(library, a), make(library, b))
    absolute = losses.absolute_error(make(library, a), make(library, b))
    assert np.asarray(squared).tolist() == [[1.0, 16.0], [0.0, 9.0]]
    assert np.asarray(absolute).tolist() == [[1.0, 4.0], [0.0, 3.0]]


def test_regression_errors_and_whole_numbers():
    assert losses.squared_error(np.array([2], dtype=np.uint8), np.array([3], dtype=np.uint8)).tolist() == [
        1.0
    ]
    with pytest.raises(ShapeError, match=r"squared_error.*one shape.*\(2,\) and \(3,\)"):
        losses.squared_error([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="absolute_error: `target` must be finite, got nan at index 1"):
        losses.absolute_error([1.0, 2.0], [1.0, np.nan])
    with pytest.raises(DtypeError, match="real numbers"):
        losses.absolute_error(["a"], ["b"])


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 3], InputError, "from 0 to 2, got 3 at index 1"),
        ([0, -1], InputError, "from 0 to 2, got -1 at index 1"),
        ([1, 3], InputError, "count from 1"),
        ([0.5, 1], InputError, r"got 0\.5 at index 0"),
        ([0, np.nan], InputError, "got nan at index 1"),
        ([0, 1, 2], ShapeError, r"shape \(2,\), or one-hot rows of shape \(2, 3\), got shape \(3,\)"),
        ([[1, 0, 0], [0.5, 0.5, 0]], InputError, "one-hot.*Soft labels"),
        ([[1, 0, 0], [1, 1, 0]], InputError, "one-hot"),
        ([[1, 0, 0], [2, 0, 0]], InputError, "one-hot"),
        (["cat", "dog"], DtypeError, "class indices from 0 to 2, got words"),
        (None, InputError, "needs `labels`"),
    ],
)
@pytest.mark.parametrize("name", losses.NAMES)
def test_bad_labels(name, labels, error, message):
    with pytest.raises(error, match=f"{name}: .*{message}"):
        losses.by_name(name)([[1.0, 2.0, 3.0], [1.0, 0.0, 0.0]], labels)


def test_whole_floats_are_labels():
    assert losses.zero_one([[1.0, 2.0], [1.0, 0.0]], [1.0, 1.0]).tolist() == [False, True]


def test_infinite_cross_entropy_is_an_error_unless_clipped():
    probs = [[1.0, 0.0], [0.5, 0.5]]
    with pytest.raises(InputError, match=r"cross_entropy.*probability must not be 0.*clip"):
        losses.cross_entropy(probs=probs, labels=[1, 0])
    with pytest.raises(InputError, match=r"cross_entropy.*probability must not be 0"):
        losses.cross_entropy([[1.0, -np.inf]], [1])
    clipped = losses.cross_entropy(probs=probs, labels=[1, 0], clip=1e-12)
    assert clipped.tolist() == pytest.approx([12 * np.log(10), np.log(2)])
    assert losses.cross_entropy([[0.0, -1000.0]], [1])[0] == 1000.0


def test_k_and_names():
    for k in (0, 3, 1.5):
        with pytest.raises(InputError, match="`k` must be a whole number from 1 to 2"):
            losses.top_k([[1.0, 2.0, 3.0]], [0], k=k)
    with pytest.raises(InputError, match='"zero_one"'):
        losses.by_name("accuracy")
    own = losses.by_name(lambda z, y: np.asarray(z)[:, 0] * np.asarray(y))
    assert own([[2.0, 0.0]], [3]).tolist() == [6.0]
    assert own(probs=[[0.5, 0.5]], labels=[3]).tolist() == [1.5]
    for name in (*losses.NAMES, *losses.REGRESSION_NAMES):
        assert getattr(losses, name) is losses.by_name(name).function
    with pytest.raises(InputError, match="got both"):
        losses.zero_one([[1.0, 2.0]], [0], probs=[[0.5, 0.5]])


@pytest.mark.parametrize("name", losses.NAMES)
def test_upper_bounds_hold(name):
    loss = losses.by_name(name)
    worst = np.max(np.asarray(loss([[1e4] + [0.0] * 6, [0.0] * 6 + [1e4]], [6, 0])))
    assert loss.upper is None or worst == loss.upper


def test_mixed_libraries_meet_where_the_tensor_is():
    import torch

    logits, labels = np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([0, 0])
    for z, y in ((logits, torch.from_numpy(labels)), (torch.from_numpy(logits), labels)):
        for name in losses.NAMES:
            options = {"k": 1} if name == "top_k" else {}
            found = losses.by_name(name)(z, y, **options)
            assert isinstance(found, torch.Tensor), name
            np.testing.assert_array_equal(found, losses.by_name(name)(logits, labels, **options))


def test_a_sample_is_its_own_business():
    """Chunks, batches and memory layout change nothing, to the last bit."""
    rng = np.random.default_rng(3)
    logits, labels = rng.normal(0, 5, (4000, 7)), rng.integers(0, 7, 4000)
    order = rng.permutation(4000)
    for name in losses.NAMES:
        loss = losses.by_name(name)
        whole = loss(logits, labels)
        np.testing.assert_array_equal(loss(logits[order], labels[order]), whole[order], err_msg=name)
        np.testing.assert_array_equal(loss(np.asfortranarray(logits), labels), whole, err_msg=name)
