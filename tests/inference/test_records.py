"""Results of inference: frozen, readable."""

from __future__ import annotations

import dataclasses

import pytest

from abstain.inference import (
    interval,
)
from tests.inference.test_intervals import sample


def test_results_are_frozen_and_readable():
    found = interval("aurc", *sample(100, 10))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.low = 0.0
    assert found.estimate in found
    text = repr(found)
    for part in ("aurc", "95% interval", "standard error", "log", "loo", "n = 100"):
        assert part in text
