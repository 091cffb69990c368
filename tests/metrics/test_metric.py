"""A metric's name with its options, read and written."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.metrics import Metric, by_name
from tests.metrics.test_definitions import LOSS


@pytest.mark.parametrize(
    "key",
    [
        "aurc",
        "aurc:loo",
        "aurc:loo:expected",
        "aurc@0.7-1",
        "e_aurc:log",
        "e_aurc:asymptotic",
        "risk_at_coverage@0.9",
        "fpr_at_tpr@0.8",
        "prediction_rejection_ratio@0.5",
    ],
)
def test_keys_read_back(key):
    metric = by_name(key)
    assert isinstance(metric, Metric)
    assert metric.key == key
    assert by_name(metric.key) == metric
    assert by_name(metric) is metric


def test_options_reach_the_function():
    confidence = np.arange(10.0)
    assert by_name("aurc:loo")(LOSS, confidence) == abstain.aurc(LOSS, confidence, estimator="loo")
    at = by_name("risk_at_coverage@0.3")
    assert at(LOSS, confidence) == abstain.risk_at_coverage(LOSS, confidence, coverage=0.3)
    assert at.full_label == "risk at coverage 0.3"
    assert by_name(abstain.auroc).name == "auroc"


@pytest.mark.parametrize("key", ["auroc@0.5", "nothing", "risk_at_coverage@much", "risk:loo"])
def test_bad_names_are_refused(key):
    with pytest.raises(abstain.errors.InputError, match="metrics\\.by_name"):
        by_name(key)
