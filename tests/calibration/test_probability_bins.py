"""Bins of confidences: sizes, ties, and the covariance of their gaps against resampling."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.calibration.probability_bins import make_bins
from abstain.errors import InputError


def test_bins_have_about_equal_sizes_and_keep_equal_confidences_together():
    rng = np.random.default_rng(0)
    confidence = rng.random(1000)
    bins = make_bins("test", rng.random(1000) < 0.5, confidence, 10, None)
    assert bins.size.tolist() == [100] * 10
    assert (np.diff(bins.mean_confidence) > 0).all()
    stated = rng.choice([0.6, 0.8, 0.95], 1000)
    few = make_bins("test", rng.random(1000) < 0.5, stated, 10, None)
    assert few.mean_confidence == pytest.approx([0.6, 0.8, 0.95])
    shuffled = rng.permutation(1000)
    again = make_bins("test", few.right[shuffled], stated[shuffled], 10, None)
    assert again.accuracy == pytest.approx(few.accuracy)


def test_a_bin_of_one_answer_is_merged():
    bins = make_bins("test", [1, 0, 1, 0, 1], [0.1, 0.5, 0.5, 0.5, 0.9], 5, None)
    assert bins.size.tolist() == [5] or bins.size.min() >= 2
    with pytest.raises(InputError, match="at least two answers"):
        make_bins("test", [1], [0.5], 5, None)


def test_the_covariance_of_clusters_is_that_of_drawing_clusters():
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(300), 4)
    shared = rng.normal(size=300)[cluster]
    confidence = 1 / (1 + np.exp(-rng.normal(size=1200)))
    right = rng.random(1200) < 1 / (1 + np.exp(-shared))
    found = make_bins("test", right, confidence, 4, cluster)
    edges = [confidence[found.bin_of_answer == k].max() for k in range(3)]
    draws = []
    rows_of = np.arange(1200).reshape(300, 4)
    for _ in range(1500):
        rows = rows_of[rng.integers(0, 300, 300)].ravel()
        place = np.searchsorted(edges, confidence[rows])
        count = np.bincount(place, minlength=4)
        draws.append(np.bincount(place, confidence[rows] - right[rows], minlength=4) / count)
    expected = np.cov(np.array(draws).T)
    assert found.gap_covariance == pytest.approx(expected, abs=0.15 * expected.max())
    assert found.unit_count.max() <= 300


def test_bins_that_one_cluster_fills_are_merged_until_there_is_another():
    confidence = np.concatenate([np.linspace(0.1, 0.5, 20), np.linspace(0.6, 0.9, 20)])
    cluster = np.concatenate(
        [np.zeros(20, dtype=int), np.arange(1, 21)]
    )  # alone in the first half of the bins
    right = np.random.default_rng(0).random(40) < confidence
    bins = make_bins("test", right, confidence, 8, cluster)
    assert bins.size.tolist() == [25, 5, 5, 5]
    assert bins.unit_count.tolist() == [6, 5, 5, 5]
