"""Limits on memory hold exactly."""

from __future__ import annotations

import gzip
import lzma

import numpy as np
import pytest

from abstain.errors import DataError
from abstain.formats import Limits, read_predictions

N, K = 40, 3


@pytest.fixture
def scores() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(N, K)).astype(np.float32), rng.integers(0, K, N)


def test_limits_are_the_users(tmp_path, scores):
    np.savez(tmp_path / "a.npz", logits=scores[0], labels=scores[1])
    with pytest.raises(DataError, match="--memory"):
        read_predictions(tmp_path / "a.npz", limits=Limits(memory=100))


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2", ".txt"])
def test_unpacking_stops_at_the_limit_and_not_before(tmp_path, ending):
    import bz2

    from abstain.formats.safety import open_limited

    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".txt": bytes}[ending]
    path = tmp_path / f"a{ending}"
    data = np.random.default_rng(0).bytes(10_000)
    path.write_bytes(pack(data))

    def content(limit: int) -> bytes:
        with open_limited(path, Limits(memory=limit)) as stream:
            return stream.read()

    assert content(10_000) == data
    with pytest.raises(DataError, match="decompresses to more than"):
        content(9_999)
