"""The GPU road, run on the CPU: the same code on CPU tensors, held against the numpy road."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core import device
from abstain.core.area_estimators import ESTIMATORS, TIES

torch = pytest.importorskip("torch")


@pytest.fixture
def xp():
    import array_api_compat.torch

    return array_api_compat.torch


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("chunk", [7, 64, 1 << 20])
def test_equals_the_numpy_road(xp, estimator, ties, chunk, monkeypatch):
    monkeypatch.setattr(device, "CHUNK", chunk)
    monkeypatch.setattr(device, "CHUNK", chunk)
    rng = np.random.default_rng(0)
    for confidence in (
        rng.random(300, dtype=np.float32),
        rng.integers(0, 9, 300).astype(np.float32) / 8,
        rng.normal(size=300).astype(np.float32) * 1e20,  # both signs: all 32 bits and the error bit need 64
        np.float32([-0.0, 0.0] * 150),
        np.float32(-rng.random(300)),
        np.float32(rng.random(300) * 1e30),  # bits from 2^30 on: the doubled key wraps around
        np.float32(rng.random(300) * 1e3 - 1e-3),
        np.float32(rng.normal(size=300) * 1e-3),
    ):
        loss = rng.random(300) < 0.3
        found = device.area(xp, torch.from_numpy(loss), torch.from_numpy(confidence), estimator, ties)
        assert float(found) == pytest.approx(
            abstain.aurc(loss, confidence, estimator=estimator, ties=ties), rel=1e-12
        )


def test_block_ends_of_sorted_keys(xp, monkeypatch):
    monkeypatch.setattr(device, "CHUNK", 16)
    keys = np.sort(np.random.default_rng(0).integers(-40, 40, 100).astype(np.int32))
    place, errors = device.find_row_ends(xp, torch.from_numpy(keys))
    expected = [i for i in range(100) if i == 99 or keys[i] // 2 != keys[i + 1] // 2]
    assert place.tolist() == expected
    assert errors.tolist() == [int(sum(k % 2 for k in keys[: i + 1])) for i in expected]


def test_block_ends_by_kernels_that_count_and_write_tile_by_tile(xp, monkeypatch):
    """The host's side of the Triton and CUDA kernels, with stand-ins in Python."""
    monkeypatch.setattr(device, "_TILE", 16)
    keys = torch.from_numpy(np.sort(np.random.default_rng(1).integers(-40, 40, 100).astype(np.int32)))
    expected = device.find_row_ends(xp, keys)

    def start(kernel, tiles, ranked, n, *arrays):
        assert (tiles, n) == (7, 100)
        heads = ranked >> 1
        for tile in range(tiles):
            members = range(16 * tile, min(16 * tile + 16, n))
            ends = [i for i in members if i == n - 1 or heads[i] != heads[i + 1]]
            if kernel == "count_ends":
                arrays[0][tile], arrays[1][tile] = len(ends), sum(int(ranked[i] & 1) for i in members)
                continue
            ends_before, errors_before, places, counted = arrays
            for slot, i in enumerate(ends, int(ends_before[tile])):
                places[slot] = i
                own = sum(int(ranked[j] & 1) for j in members if j <= i)
                counted[slot] = int(errors_before[tile]) + own

    place, errors = device._find_with_kernels(xp, keys, start)
    assert place.tolist() == expected[0].tolist()
    assert errors.tolist() == expected[1].tolist()


def test_half_precision_and_all_wrong(xp):
    confidence = torch.rand(50).half()
    loss = torch.ones(50, dtype=torch.bool)
    assert float(device.area(xp, loss, confidence, "harmonic", "threshold")) == pytest.approx(1)


def test_takes_only_what_it_can_do():
    yes = (torch.ones(3, dtype=torch.bool), torch.rand(3))
    assert device.supports(*yes, None, lambda: True)
    assert not device.supports(*yes, None, lambda: False)
    assert not device.supports(*yes, torch.ones(3), lambda: True)
    assert not device.supports(yes[0], yes[1].double(), None, lambda: True)
    assert not device.supports(yes[0].float().requires_grad_(), yes[1], None, lambda: True)
    assert not device.supports(torch.ones(2, 3, dtype=torch.bool), torch.rand(2, 3), None, lambda: True)
    assert not device.supports(np.ones(3, bool), np.ones(3, np.float32), None, lambda: True)
