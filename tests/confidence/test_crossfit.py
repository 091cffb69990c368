from __future__ import annotations

import numpy as np
import pytest

from abstain.confidence.candidates import Candidate, LearningData
from abstain.confidence.crossfit import assign_folds, find_repeated_rows, score_out_of_fold
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import read_inputs
from abstain.errors import InputError


def test_folds_keep_clusters_whole_and_have_about_one_size():
    rng = np.random.default_rng(0)
    cluster = np.concatenate([np.repeat(np.arange(10), 7), 10 + np.arange(130)])
    fold = assign_folds("test", 5, cluster, np.zeros(200, dtype=bool), rng)
    for number in range(10):
        assert len(set(fold[cluster == number])) == 1
    sizes = np.bincount(fold, minlength=5)
    assert sizes.min() >= 38
    assert sizes.max() <= 42
    with pytest.raises(InputError, match="at least 5 clusters for 5 folds, got 3"):
        assign_folds("test", 5, np.array([0, 1, 2, 2]), np.zeros(4, dtype=bool), rng)


def test_folds_are_drawn_anew():
    rng = np.random.default_rng(0)
    is_wrong = np.arange(400) % 3 == 0
    first, second = (assign_folds("test", 4, np.arange(400), is_wrong, rng) for _ in range(2))
    assert (first != second).any()


@pytest.mark.parametrize("cluster_size", [1, 2, 5])
def test_each_fold_gets_its_share_of_the_wrong_rows(cluster_size):
    rng = np.random.default_rng(1)
    cluster = np.arange(600) // cluster_size
    is_wrong = rng.random(600) < 0.2
    fold = assign_folds("test", 5, cluster, is_wrong, rng)
    wrong_counts = np.bincount(fold, weights=is_wrong)
    assert np.bincount(fold).tolist() == [120] * 5
    assert wrong_counts.max() - wrong_counts.min() <= cluster_size


def test_folds_filled_up_by_single_rows_share_the_wrong_ones_too():
    rng = np.random.default_rng(2)
    cluster = np.concatenate([np.zeros(40, dtype=int), 1 + np.arange(160)])  # one cluster fills a fold
    is_wrong = np.arange(200) % 4 == 0
    fold = assign_folds("test", 5, cluster, is_wrong, rng)
    assert np.bincount(fold).tolist() == [40] * 5
    assert np.bincount(fold, weights=is_wrong).tolist() == [10.0] * 5


def test_repeated_rows_are_found_in_all_inputs():
    table = read_inputs(
        "test", signals={"a": [1, 1, None, None, 1]}, categories={"c": ["x", "y", "x", "x", "x"]}
    )
    codes = find_repeated_rows(table)
    assert codes[0] == codes[4]
    assert codes[2] == codes[3]
    assert len(set(codes.tolist())) == 3


class Remembering:
    """A model whose confidence is 1 for rows that it was fitted on, else 0."""

    def __init__(self, data):
        self.rows = set(data.table.signals["row"].tolist())

    def apply(self, table):
        return np.array([float(row in self.rows) for row in table.signals["row"]])


@pytest.mark.parametrize("has_common_scale", [True, False])
def test_no_row_is_scored_by_a_model_that_was_fitted_on_it(has_common_scale):
    table = read_inputs("test", signals={"row": np.arange(50)})
    data = LearningData(table, np.zeros(50), np.ones(50), np.ones(50), None)
    fold = np.arange(50) % 5
    profiles = [InputProfile.of(table, np.ones(50))] * 5
    candidate = Candidate("test", lambda data, profile: Remembering(data), has_common_scale)
    scores = score_out_of_fold(candidate, data, fold, profiles)
    assert scores.max() < 0.6  # fitted rows have the confidence 1, whose rank is 0.5


def test_scores_without_a_common_scale_are_compared_by_rank():
    table = read_inputs("test", signals={"row": np.arange(100)})
    data = LearningData(table, np.zeros(100), np.ones(100), np.ones(100), None)

    class Scaled:
        def __init__(self, data):
            self.factor = data.table.signals["row"][0] + 1  # another unit for every fit

        def apply(self, table):
            return self.factor * table.signals["row"]

    candidate = Candidate("test", lambda data, profile: Scaled(data), has_common_scale=False)
    scores = score_out_of_fold(candidate, data, np.arange(100) % 2, [None, None])
    assert np.all(np.diff(scores) >= -0.011)
    assert np.corrcoef(scores, np.arange(100))[0, 1] > 0.999
