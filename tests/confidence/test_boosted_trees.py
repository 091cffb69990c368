from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from abstain.confidence.boosted_trees import BoostedTrees, fit_trees
from abstain.confidence.model_columns import TreeColumns


def walk(trees, numbers, codes):
    """The sum for one row, question by question: an oracle in plain Python."""
    total = 0.0
    for tree in range(len(trees.columns) // 3):
        leaf = 0
        for place in range(3):
            column = int(trees.columns[3 * tree + place])
            cut = float(trees.cuts[3 * tree + place])
            says_yes = numbers[column] > cut if column < len(numbers) else codes[column - len(numbers)] == cut
            leaf = 2 * leaf + (1 if says_yes else 0)
        total += float(trees.leaves[8 * tree + leaf])
    return total


def draw(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    columns = TreeColumns(rng.normal(size=(n, 3)), rng.integers(0, 4, (n, 1)))
    # two numbers that matter only together, and one level
    log_odds = 2 * np.sign(columns.numbers[:, 0] * columns.numbers[:, 1]) + 2 * (columns.codes[:, 0] == 2)
    return columns, (log_odds + rng.logistic(size=n) > 0).astype(float), log_odds


def test_rows_are_scored_question_by_question():
    columns, target, _ = draw(300)
    trees = fit_trees(columns, target, np.ones(300))
    scores = trees.apply(columns)
    for row in range(0, 300, 17):
        assert scores[row] == pytest.approx(walk(trees, columns.numbers[row], columns.codes[row]), abs=1e-12)


def test_joint_effects_and_levels_are_learned_and_noise_is_not():
    columns, target, _ = draw()
    fresh, _, log_odds = draw(seed=1)
    scores = fit_trees(columns, target, np.ones(2000)).apply(fresh)
    assert np.corrcoef(scores, log_odds)[0, 1] > 0.9
    noise = np.random.default_rng(2).permutation(target)
    assert fit_trees(columns, noise, np.ones(2000)).apply(fresh).std() < 0.2 * scores.std()


def test_only_the_order_of_numbers_matters_and_weights_count_as_copies():
    columns, target, _ = draw(400)
    scores = fit_trees(columns, target, np.ones(400)).apply(columns)
    stretched = columns._replace(numbers=np.exp(3 * columns.numbers))
    np.testing.assert_allclose(fit_trees(stretched, target, np.ones(400)).apply(stretched), scores)
    scaled = fit_trees(columns, target, np.full(400, 1.0))
    assert np.all(scaled.leaves == fit_trees(columns, target, np.ones(400)).leaves)


def test_a_fit_without_a_column_goes_on_after_the_trees_that_do_not_ask_about_it():
    columns, target, _ = draw()
    trees = fit_trees(columns, target, np.ones(2000))
    for removed in range(3):
        is_removed = np.arange(4) == removed
        fewer = columns._replace(numbers=columns.numbers[:, ~is_removed[:3]])
        first_trees = trees.before_questions_about(is_removed)
        expected = fit_trees(fewer, target, np.ones(2000))
        again = fit_trees(fewer, target, np.ones(2000), first_trees=first_trees)
        np.testing.assert_array_equal(again.columns, expected.columns)
        np.testing.assert_allclose(again.leaves, expected.leaves, rtol=1e-9, atol=1e-12)
    assert len(first_trees.leaves) > 8  # of the column of noise


def test_a_number_that_never_varies_divides_nothing():
    rng = np.random.default_rng(0)
    columns = TreeColumns(np.zeros((50, 1)), np.zeros((50, 1), dtype=np.int64))
    target = (rng.random(50) < 0.5).astype(float)
    assert np.ptp(fit_trees(columns, target, np.ones(50)).apply(columns)) == 0


def test_stored_trees_are_whole_and_about_known_columns():
    trees = BoostedTrees(columns=np.array([0, 1, 2]), cuts=np.zeros(3), leaves=np.arange(8.0))
    assert trees.fits(2, 1)
    assert not trees.fits(1, 1)
    assert not replace(trees, cuts=np.zeros(2)).fits(2, 1)
    assert not replace(trees, leaves=np.zeros(7)).fits(2, 1)
    np.testing.assert_allclose(trees.scaled(0.5).leaves, np.arange(8) / 2)
