"""The Triton sources, run number by number by Triton's own interpreter: no card is needed, but Triton is."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import abstain

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="pip install triton"),
]

HEAD = """
import array_api_compat.torch as xp
import numpy as np
import torch
from abstain.core import _triton_kernels, device
from abstain.core.confidence_bins import BinMap
from abstain.torch import aurc_loss, bin_state, fused
assert _triton_kernels.AVAILABLE
rng = np.random.default_rng(0)
"""

KEYS = """
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    for n in (1, 5, 4096, 10_000):
        confidence = torch.from_numpy(rng.normal(size=n)).to(dtype)
        confidence[::7] = 0.0
        confidence[1::9] = -0.0
        is_error = torch.from_numpy(rng.random(n) < 0.3)
        keys, error_keys = device._write_keys(xp, is_error, confidence, device._launch_triton)
        expected_keys, expected_error_keys = device._make_sort_keys(xp, is_error, confidence)
        assert torch.equal(keys, expected_keys), (dtype, n)
        assert torch.equal(error_keys.sort().values, expected_error_keys.sort().values), (dtype, n)
"""

BINS = """
loss, confidence = torch.from_numpy(rng.random(3000) < 0.3), torch.from_numpy(rng.normal(0, 2, 3000))
confidence[::7] = 0.5
binmap = BinMap(1000)
found, expected = bin_state.empty_state(binmap.size), bin_state.empty_state(binmap.size)
bin_state.add_with_general_kernel(found, binmap, loss, confidence, confidence)
bin_state.add_with_torch(expected, binmap, loss, confidence, confidence)
for own, other in zip(found, expected):
    assert torch.equal(own, other)
"""

LOSS = """
for estimator in ("harmonic", "loo", "sele", "2sele"):
    for n, classes in ((7, 3), (600, 10)):
        logits = torch.from_numpy(rng.normal(0, 2, (n, classes))).requires_grad_()
        labels = torch.from_numpy(rng.integers(0, classes, n))
        labels[::5] = -100
        found = fused._Loss.apply(logits, labels, estimator, "mean", -100, 0.1)
        (slope,) = torch.autograd.grad(found, logits)
        expected = aurc_loss(logits, labels, estimator=estimator, label_smoothing=0.1)
        assert abs(float(found.detach() - expected.detach())) < 1e-12
        assert float((slope - torch.autograd.grad(expected, logits)[0]).abs().max()) < 1e-12
"""


@pytest.mark.parametrize("script", [KEYS, BINS, LOSS], ids=["keys", "bins", "loss"])
def test_kernels_give_what_plain_torch_gives(script):
    path = os.pathsep.join([str(Path(abstain.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    told = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", HEAD + script], env=told, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
