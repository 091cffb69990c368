"""The scale on which an interval is symmetric."""

from __future__ import annotations

import pytest

import abstain
from abstain.errors import InputError
from abstain.inference import (
    interval,
)
from tests.inference.test_intervals import sample


@pytest.mark.parametrize(
    ("metric", "method"),
    [
        ("aurc", "log"),
        ("augrc", "log"),
        ("e_aurc", "log"),
        ("naurc", "log"),
        ("oracle_aurc", "log"),
        ("risk", "logit"),
        ("auroc", "logit"),
        ("prediction_rejection_ratio", "logit"),
    ],
)
def test_default_scales(metric, method):
    found = interval(metric, *sample())
    assert found.method == method
    assert found.low < found.estimate < found.high
    assert found.estimate == pytest.approx(abstain.metrics.by_name(metric)(*sample()), rel=1e-12)
    wider = interval(metric, *sample(), level=0.99)
    assert wider.low < found.low
    assert wider.high > found.high


def test_logit_interval_keeps_to_the_range_and_mirrors():
    l, g = sample(60, 3)
    up, down = interval("auroc", l, g), interval("auroc", l, -g)
    assert 0 < up.low < up.high < 1
    assert [1 - down.high, 1 - down.low] == pytest.approx([up.low, up.high], rel=1e-9)
    twice = interval("prediction_rejection_ratio", l, g)
    assert [twice.low, twice.high] == pytest.approx([2 * up.low - 1, 2 * up.high - 1], abs=1e-9)


def test_losses_of_any_sign_take_the_normal_interval():
    l, g = sample(100, 4)
    shifted = l - 0.5
    assert interval("aurc", shifted, g).method == "normal"
    with pytest.raises(InputError, match="negative"):
        interval("aurc", shifted, g, method="log")
