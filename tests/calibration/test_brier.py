"""The Brier score and its parts."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.calibration import BrierScore, brier_score, calibration_error


def test_parts_add_up_to_the_score():
    rng = np.random.default_rng(0)
    confidence = rng.random(500)
    right = rng.random(500) < confidence**1.5
    brier = brier_score(right, confidence)
    assert brier.score.estimate == pytest.approx(np.mean((confidence - right) ** 2), abs=1e-12)
    total = brier.miscalibration - brier.resolution + brier.uncertainty + brier.within_bins
    assert total == pytest.approx(brier.score.estimate, abs=1e-12)
    assert brier.miscalibration == pytest.approx(calibration_error(right, confidence).squared.estimate)
    assert BrierScore.from_json(brier.to_json()) == brier
    assert brier.frame("dict")["part"][0] == "score"


def test_the_interval_is_that_of_a_mean():
    rng = np.random.default_rng(1)
    confidence = rng.random(2000)
    right = rng.random(2000) < confidence
    values = (confidence - right) ** 2
    brier = brier_score(right, confidence)
    error = values.std() / np.sqrt(2000)
    assert brier.score.standard_error == pytest.approx(error)
    assert (brier.score.high - brier.score.low) / 2 == pytest.approx(1.96 * error, rel=0.02)


def test_one_bin_resolves_nothing_with_clusters_either():
    right = [1, 1, 1, 0, 0, 0] * 4
    clusters = np.repeat(np.arange(8), 3)
    brier = brier_score(right, [0.5] * 24, clusters=clusters)
    assert brier.bins == 1
    assert brier.resolution == pytest.approx(0, abs=1e-15)
    # answers of a cluster are equal, so that the accuracy has the variance of a mean of eight
    assert brier.uncertainty == pytest.approx(0.25 + 0.25 / 7)
    assert brier.miscalibration == pytest.approx(-0.25 / 7)


@pytest.mark.parametrize("n", [60, 600])
def test_parts_do_not_depend_on_the_number_of_answers_on_average(n):
    """Stated 0.6 and 0.9, right in 50% and 80%: miscalibration 0.01, resolution 0.0225, uncertainty 0.2275."""
    rng = np.random.default_rng(n)
    parts = []
    for _ in range(300):
        confidence = np.where(np.arange(n) % 2 == 0, 0.6, 0.9)
        brier = brier_score(rng.random(n) < confidence - 0.1, confidence)
        parts.append((brier.miscalibration, brier.resolution, brier.uncertainty))
    error = np.std(parts, axis=0, ddof=1) / np.sqrt(300)
    assert (np.abs(np.mean(parts, axis=0) - [0.01, 0.0225, 0.2275]) < 3.5 * error).all()
