"""One test for every array library: the same numbers, where the input lives."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import abstain
from abstain.errors import DtypeError
from tests.core.test_laws import METRICS


class Library:
    """How a test makes arrays of one library and reads them back."""

    def __init__(self, make, kind, rel=1e-12, masks=True):
        self.make, self.kind, self.rel, self.masks = make, kind, rel, masks


def _numpy():
    return Library(np.asarray, (float, np.ndarray))


def _read_only():
    def make(x):
        x = np.array(x)
        x.flags.writeable = False
        return x

    return Library(make, (float, np.ndarray))


def _strict():
    strict = pytest.importorskip("array_api_strict")
    return Library(lambda x: strict.asarray(np.asarray(x)), type(strict.asarray(1.0)))


def _torch():
    torch = pytest.importorskip("torch")
    return Library(lambda x: torch.from_numpy(np.array(x)), torch.Tensor)


def _torch_generic():
    """Tensors that take part in a gradient stay on the generic road."""
    torch = pytest.importorskip("torch")

    def make(x):
        x = torch.from_numpy(np.array(x))
        return x.double().requires_grad_() if x.dtype in (torch.bool, torch.float64) else x

    return Library(make, torch.Tensor, masks=False)


def _jax():
    jax = pytest.importorskip("jax")
    return Library(jax.numpy.asarray, jax.Array, 2e-6)


LIBRARIES = {
    "numpy": _numpy,
    "read-only numpy": _read_only,
    "array-api-strict": _strict,
    "torch": _torch,
    "torch with gradient": _torch_generic,
    "jax": _jax,
}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return LIBRARIES[request.param]()


@pytest.mark.parametrize("shape", [(80,), (3, 50)])
def test_same_number_in_every_library(library, shape):
    rng = np.random.default_rng(0)
    confidence = rng.integers(0, 20, shape).astype(np.float32) / 32
    loss = rng.random(shape) < 0.4
    for name, (metric, options) in METRICS.items():
        expected = metric(loss, confidence, **options)
        found = metric(library.make(loss), library.make(confidence), **options)
        assert isinstance(found, library.kind), name
        found = found.detach() if hasattr(found, "detach") else found
        assert np.asarray(found, dtype=float) == pytest.approx(np.asarray(expected), rel=library.rel), name


@pytest.mark.parametrize("estimator", ["harmonic", "log", "loo", "sele"])
def test_weights_of_samples_in_every_library(library, estimator):
    confidence = np.random.default_rng(1).integers(0, 9, (2, 30)).astype(np.float32)
    found = abstain.metrics.weights(library.make(confidence), estimator=estimator)
    found = found.detach() if hasattr(found, "detach") else found
    expected = abstain.metrics.weights(confidence, estimator=estimator)
    assert np.asarray(found, dtype=float) == pytest.approx(expected, rel=library.rel)


def test_weighted_and_masked_in_every_library(library):
    rng = np.random.default_rng(2)
    confidence, loss = rng.integers(0, 9, 40).astype(np.float32), rng.random(40).astype(np.float32)
    w, out = rng.integers(1, 4, 40).astype(np.float32), rng.random(40) < 0.2
    make = library.make
    found = abstain.aurc(
        make(loss), make(confidence), sample_weight=make(w), abstained=make(out) if library.masks else out
    )
    found = found.detach() if hasattr(found, "detach") else found
    expected = abstain.aurc(loss, confidence, sample_weight=w, abstained=out)
    assert float(found) == pytest.approx(expected, rel=library.rel)


def test_gradient_of_a_torch_loss_is_its_rank_weight():
    torch = pytest.importorskip("torch")
    loss = torch.rand(20, dtype=torch.float64, requires_grad=True)
    confidence = torch.randint(0, 5, (20,)).double()
    abstain.aurc(loss, confidence).backward()
    assert loss.grad.numpy() == pytest.approx(abstain.metrics.weights(confidence.numpy()) / 20, rel=1e-12)


def test_jax_traces_under_jit_and_grad():
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    confidence, loss = rng.random(30).astype(np.float32), rng.random(30).astype(np.float32)
    compiled = jax.jit(lambda l, g: abstain.aurc(l, g))
    assert float(compiled(loss, confidence)) == pytest.approx(abstain.aurc(loss, confidence), rel=1e-5)
    gradient = jax.grad(lambda l: abstain.aurc(l, jax.numpy.asarray(confidence)))(jax.numpy.asarray(loss))
    assert np.asarray(gradient) == pytest.approx(abstain.metrics.weights(confidence) / 30, rel=1e-4)


def test_half_precision_confidences_are_ranked_exactly():
    torch = pytest.importorskip("torch")
    values = torch.tensor([0.99609375, 0.98828125, 1.0, 0.5], dtype=torch.bfloat16)
    assert float(abstain.aurc(torch.tensor([1, 0, 0, 0]), values)) == pytest.approx(
        (0 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    )
    assert abstain.aurc([1, 0, 0, 0], np.float16([0.9, 0.8, 1.0, 0.5])) == pytest.approx(
        (0 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    )


def test_curve_lives_where_the_input_lives(library):
    rng = np.random.default_rng(4)
    loss, confidence = rng.random(30) < 0.4, rng.integers(0, 7, 30).astype(np.float32)
    found = abstain.risk_coverage_curve(library.make(loss), library.make(confidence))
    expected = abstain.risk_coverage_curve(loss, confidence)
    for name in ("coverage", "risk", "generalised_risk", "threshold", "count"):
        column = getattr(found, name)
        assert isinstance(column, library.kind)
        column = column.detach() if hasattr(column, "detach") else column
        assert np.asarray(column, dtype=float) == pytest.approx(getattr(expected, name), rel=library.rel)


MIXED = ["list", "numpy", "torch", "gradient", "jax", "array_api_strict", "pandas", "polars"]


def one_of(library, values):
    """Numbers as a vector of that library; "gradient" is a torch tensor that takes part in one."""
    if library == "list":
        return values
    if library in ("torch", "gradient"):
        import torch

        return torch.tensor(values, dtype=torch.float64, requires_grad=library == "gradient")
    names = {"jax": "jax.numpy", "pandas": "pandas", "polars": "polars"}
    module = importlib.import_module(names.get(library, library))
    return module.Series(values) if library in ("pandas", "polars") else module.asarray(values)


@pytest.mark.parametrize("first", MIXED)
@pytest.mark.parametrize("second", MIXED)
def test_mixed_libraries_work_or_are_refused_in_one_line(first, second):
    loss, confidence, weight = [0.0, 1.0, 0.0, 0.0, 1.0], [0.9, 0.8, 0.7, 0.6, 0.5], [1.0, 2.0, 1.0, 1.0, 1.0]
    expected = abstain.aurc(loss, confidence), abstain.aurc(loss, confidence, sample_weight=weight)
    apart = {"torch": "torch", "gradient": "torch", "jax": "jax", "array_api_strict": "array_api_strict"}
    libraries = {apart[name] for name in (first, second) if name in apart}
    refused = len(libraries) > 1 and {"gradient", "array_api_strict"} & {first, second}
    calls = [
        lambda: abstain.aurc(one_of(first, loss), one_of(second, confidence)),
        lambda: abstain.aurc(one_of(first, loss), confidence, sample_weight=one_of(second, weight)),
    ]
    for call, value in zip(calls, expected):
        if refused:
            with pytest.raises(DtypeError, match=r"^abstain: arrays must come from one library.*Convert"):
                call()
        else:
            result = call()
            number = result.detach() if hasattr(result, "detach") else result
            assert float(number) == pytest.approx(value, rel=1e-6)


def test_a_tensor_is_moved_to_the_device_of_the_other():
    import torch

    from abstain._arrays import backend_of

    there = torch.empty(3, device="meta")
    here = torch.zeros(3)
    assert backend_of(there, here).asarray(here, there).device.type == "meta"
