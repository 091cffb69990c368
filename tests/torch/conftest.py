from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # `oracles` and `workers`, also for spawned processes


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    torch.manual_seed(0)
    torch.set_num_threads(1)


def make_batch(n: int, classes: int = 4, *, tied: bool = True, dtype=torch.float64):
    """Logits (some rows repeated, so that ties occur) and targets."""
    generator = torch.Generator().manual_seed(100 * n + classes)
    logits = torch.randn(n, classes, generator=generator, dtype=torch.float64) * 2
    if tied:
        logits = logits[torch.randint(0, n // 2 + 1, (n,), generator=generator)]
    target = torch.randint(0, classes, (n,), generator=generator)
    return logits.to(dtype), target


@pytest.fixture
def batch():
    return make_batch
