"""The reliability diagram and its band."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from abstain.calibration import ReliabilityCurve, reliability_curve


def test_the_band_is_clopper_and_pearson_at_a_corrected_level():
    confidence = np.repeat([0.3, 0.9], 50)
    right = np.r_[np.ones(20), np.zeros(30), np.ones(50)]
    curve = reliability_curve(right, confidence)
    tail = 0.05 / 2 / 2  # two bins
    assert (curve.low[0], curve.high[0]) == pytest.approx(
        (beta.ppf(tail, 20, 31), beta.ppf(1 - tail, 21, 30)), abs=1e-9
    )
    assert (curve.low[1], curve.high[1]) == (pytest.approx(tail ** (1 / 50)), 1.0)
    assert curve.outside == (1,)  # 0.9 stated, and all of 50 right: at least 0.916 with this probability
    assert ReliabilityCurve.from_json(curve.to_json()) == curve


def test_the_band_holds_all_bins_at_once():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(150):
        confidence = rng.random(600)
        held += not reliability_curve(rng.random(600) < confidence, confidence).outside
    assert held / 150 > 0.93


def test_overconfidence_is_off_the_diagonal_and_drawn():
    pytest.importorskip("matplotlib").use("Agg")
    rng = np.random.default_rng(1)
    confidence = rng.random(2000)
    curve = reliability_curve(rng.random(2000) < confidence**2, confidence)
    assert len(curve.outside) > 5
    axes = curve.plot(name="model")
    assert axes.get_ylabel() == "accuracy"
    assert len(curve.frame("dict")["count"]) == 15
