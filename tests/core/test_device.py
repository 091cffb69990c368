"""AURC as it is computed on a GPU, here on CPU tensors: the code is the same. Cards: benchmarks/core_gpu.py."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain._arrays import backend_of
from abstain.core import device
from abstain.core.area_estimators import ESTIMATORS, TIES
from abstain.errors import InputError
from abstain.metrics._sample import Sample
from abstain.metrics.areas import _area_of

torch = pytest.importorskip("torch")

N = 300
RNG = np.random.default_rng(0)
CONFIDENCES = {
    "uniform": RNG.random(N),
    "twenty levels": RNG.integers(0, 20, N) / 20,
    "saturated": np.minimum(1.5 * RNG.random(N), 1.0),
    "normal": RNG.normal(size=N),
    "huge, of both signs": RNG.normal(size=N) * 1e4,
    "negative": -RNG.random(N),
    "two zeros": np.array([-0.0, 0.0, 1e-3] * (N // 3)),
    "all equal": np.full(N, 0.5),
}


@pytest.fixture
def xp():
    import array_api_compat.torch

    return array_api_compat.torch


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("rows_at_once", [7, 64, 1 << 20])
def test_area_equals_that_of_numpy(xp, estimator, ties, rows_at_once, monkeypatch):
    monkeypatch.setattr(device, "ROWS_AT_ONCE", rows_at_once)
    loss = RNG.random(N) < 0.3
    for kind, values in CONFIDENCES.items():
        confidence = values.astype(np.float32)
        area = device.area(xp, torch.from_numpy(loss), torch.from_numpy(confidence), estimator, ties)
        expected = abstain.aurc(loss, confidence, estimator=estimator, ties=ties)
        assert float(area) == pytest.approx(expected, rel=1e-12), kind


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("kind", CONFIDENCES)
def test_counts_by_confidence(xp, dtype, kind):
    confidence = torch.from_numpy(CONFIDENCES[kind]).to(getattr(torch, dtype))
    is_error = torch.from_numpy(RNG.random(N) < 0.3)
    samples: dict[float, int] = {}
    errors: dict[float, int] = {}
    for value, wrong in zip(confidence.tolist(), is_error.tolist(), strict=True):  # -0.0 == 0.0 as a key
        samples[value] = samples.get(value, 0) + 1
        errors[value] = errors.get(value, 0) + wrong
    mass, loss_sum, is_finite = device.count_by_confidence(xp, is_error, confidence)
    assert bool(is_finite)
    assert mass.tolist() == [samples[value] for value in sorted(samples, reverse=True)]
    assert loss_sum.tolist() == [errors[value] for value in sorted(errors, reverse=True)]
    assert mass.dtype == loss_sum.dtype == torch.float64


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_keys_ascend_as_confidences_descend(xp, dtype):
    numbers = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, 1e-7, -1e-7, 0.5, 6e4, -6e4, 0.5], dtype=getattr(torch, dtype)
    )
    is_error = torch.tensor([True, False] * 5)
    keys, error_keys = device._make_sort_keys(xp, is_error, numbers)
    assert keys.dtype.itemsize == numbers.dtype.itemsize
    for i, one in enumerate(numbers.tolist()):
        for j, other in enumerate(numbers.tolist()):
            assert (keys[i] < keys[j]) == (one > other)
    assert error_keys.tolist() == keys[::2].tolist()


def test_the_host_side_of_the_kernels(xp, monkeypatch):
    """What surrounds the kernels for torch and cupy, with stand-ins for them in Python."""
    monkeypatch.setattr(device, "_TILE", 16)
    confidence = torch.from_numpy(RNG.integers(-9, 9, 100) / 8)
    is_error = torch.from_numpy(RNG.random(100) < 0.3)

    def launch(kernel_name, program_count, first, *arguments):
        assert program_count == 7
        if kernel_name == "write_keys":
            error_bytes, keys, error_keys, error_count, n = arguments
            assert n == 100
            all_keys, keys_of_errors = device._make_sort_keys(
                xp, error_bytes.bool(), first.view(torch.float64)
            )
            keys.copy_(all_keys)
            error_keys[: len(keys_of_errors)] = keys_of_errors.flip(0)
            error_count += len(keys_of_errors)
            return
        n, tile_array, *row_ends = arguments
        for tile in range(program_count):
            places = range(16 * tile, min(16 * tile + 16, n))
            ends = [i for i in places if i == n - 1 or first[i] != first[i + 1]]
            if kernel_name == "count_ends":
                tile_array[tile] = len(ends)
            else:
                row_ends[0][tile_array[tile] : tile_array[tile] + len(ends)] = torch.tensor(ends)

    keys, error_keys = device._write_keys(xp, is_error, confidence, launch)
    expected_keys, expected_error_keys = device._make_sort_keys(xp, is_error, confidence)
    assert torch.equal(keys, expected_keys)
    assert sorted(error_keys.tolist()) == sorted(expected_error_keys.tolist())
    sorted_keys = keys.sort().values
    last_places = {key: place for place, key in enumerate(sorted_keys.tolist())}
    assert device._find_run_ends(xp, sorted_keys, launch).tolist() == sorted(last_places.values())


@pytest.mark.parametrize("value", [float("nan"), -float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_confidence_that_is_not_finite_is_found(xp, dtype, value):
    confidence = torch.rand(9, dtype=torch.float64).to(getattr(torch, dtype))
    confidence[0] = torch.finfo(confidence.dtype).max
    confidence[1] = torch.finfo(confidence.dtype).min
    is_error = torch.arange(9) > 4
    assert 0 < float(device.area(xp, is_error, confidence, "harmonic", "threshold")) < 1
    confidence[2] = value
    assert np.isnan(float(device.area(xp, is_error, confidence, "harmonic", "threshold")))
    sample = Sample(
        name="aurc",
        backend=backend_of(is_error, confidence)._replace(xp=xp, is_host=False),
        loss=is_error,
        confidence=confidence,
        weight=None,
        total_mass=9.0,
        has_unchecked_confidence=True,
    )
    with pytest.raises(InputError, match="aurc: `confidence` must be finite, got NaN or infinity"):
        _area_of(sample, "harmonic", "threshold")


@pytest.mark.parametrize(("loss", "expected"), [(True, 1.0), (False, 0.0)], ids=["all wrong", "all right"])
@pytest.mark.parametrize("n", [1, 50])
def test_one_kind_of_sample(xp, loss, expected, n):
    area = device.area(xp, torch.full((n,), loss), torch.rand(n).half(), "harmonic", "threshold")
    assert float(area) == expected


def test_supports():
    loss = torch.ones(3, dtype=torch.bool)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert device.supports(loss, torch.rand(3).to(dtype), None, lambda: True)
    confidence = torch.rand(3)
    assert not device.supports(loss, confidence, None, lambda: False)
    assert not device.supports(loss, confidence, torch.ones(3), lambda: True)
    assert not device.supports(loss, torch.arange(3), None, lambda: True)
    assert not device.supports(loss.float().requires_grad_(), confidence, None, lambda: True)
    assert not device.supports(loss, torch.rand(3).requires_grad_(), None, lambda: True)
    assert not device.supports(torch.ones(2, 3, dtype=torch.bool), torch.rand(2, 3), None, lambda: True)
    assert not device.supports(np.ones(3, bool), np.ones(3, np.float32), None, lambda: True)
