"""Random damage: whatever happens to a file, reading it gives predictions or one `DataError`, nothing else."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import abstain
from abstain.errors import AbstainError, DataError
from abstain.formats import WRITABLE, Limits, read_predictions, write_predictions

TRIES = 60


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(0)
    np.savez(folder / "in.npz", logits=rng.normal(size=(50, 3)), labels=rng.integers(0, 3, 50))
    read = read_predictions(folder / "in.npz")
    found = {}
    for ending in WRITABLE:
        write_predictions(read, folder / f"out{ending}")
        found[ending] = (folder / f"out{ending}").read_bytes()
    import torch

    torch.save({"logits": torch.tensor(read.logits), "labels": torch.tensor(read.labels)}, folder / "out.pt")
    return found | {".pt": (folder / "out.pt").read_bytes()}


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut short, a few bytes changed, a stretch removed, doubled or blanked."""
    data = bytearray(content)
    a, b = sorted(rng.integers(0, len(data), 2).tolist())
    kind = rng.integers(5)
    if kind == 0:
        return bytes(data[:b])
    if kind == 1:
        for place in rng.integers(0, len(data), 1 + int(rng.integers(6))):
            data[place] = int(rng.integers(256))
        return bytes(data)
    if kind == 2:
        return bytes(data[:a] + data[min(b, a + 40) :])
    if kind == 3:
        return bytes(data[:b] + data[a:])
    data[a : min(b, a + 16)] = bytes(min(b, a + 16) - a)
    return bytes(data)


@pytest.mark.parametrize("ending", [*WRITABLE, ".pt"])
def test_damaged_files(whole, ending, tmp_path):
    rng = np.random.default_rng(sum(map(ord, ending)))
    refused = 0
    for k in range(TRIES):
        path = tmp_path / f"bad{k}{ending}"
        path.write_bytes(damaged(whole[ending], rng))
        said = outcome(path)
        if said is not None:
            assert path.name in said
            assert "\n" not in said
            refused += 1
    assert refused > TRIES // 10


def outcome(path) -> str | None:
    """The objection, if there is one. Numbers may have changed: then the metrics have their say."""
    try:
        read = read_predictions(path, limits=Limits(memory=50 * 2**20))
    except DataError as error:
        return str(error)
    with contextlib.suppress(AbstainError):
        abstain.evaluate(**read.arguments(), metrics=["aurc"], losses=["zero_one"])
    return None
