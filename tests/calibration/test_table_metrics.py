"""Calibration metrics of a table are the functions of the package."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.calibration import brier_score, calibration_error
from abstain.calibration.table_metrics import CALIBRATION_METRICS


def test_they_are_the_functions_of_the_package():
    rng = np.random.default_rng(0)
    confidence = rng.random(200)
    right = (rng.random(200) < confidence).astype(float)
    cluster = np.repeat(np.arange(100), 2)
    brier = CALIBRATION_METRICS["brier_score"].measure(right, confidence, 0.9, cluster)
    assert brier == brier_score(right, confidence, level=0.9, clusters=cluster).score
    error = CALIBRATION_METRICS["calibration_error"].measure(right, confidence, 0.9, None)
    assert error == calibration_error(right, confidence, level=0.9).root
    assert error.estimate == pytest.approx(np.sqrt(max(0, error.estimate**2)))
    assert {name: metric.key for name, metric in CALIBRATION_METRICS.items()} == {
        name: name for name in CALIBRATION_METRICS
    }
