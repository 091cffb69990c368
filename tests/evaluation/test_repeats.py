"""pass@k and pass^k against all subsets of attempts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from abstain.errors import InputError
from abstain.evaluation import evaluate_repeats


def by_subsets(right: np.ndarray, question: np.ndarray, k: int) -> tuple[float, float]:
    """At least once and every time, over all subsets of k attempts at each question."""
    once = []
    always = []
    for name in np.unique(question):
        subsets = list(combinations(right[question == name], k))
        once.append(np.mean([max(subset) for subset in subsets]))
        always.append(np.mean([min(subset) for subset in subsets]))
    return float(np.mean(once)), float(np.mean(always))


def test_every_k_equals_the_mean_over_subsets():
    rng = np.random.default_rng(0)
    question = np.repeat(np.arange(20), rng.integers(4, 7, 20))
    right = (rng.random(len(question)) < rng.random(20)[question]).astype(float)
    table = evaluate_repeats(right, question, k=[1, 2, 3, 4])
    for k in (1, 2, 3, 4):
        found = (table[f"pass_at@{k}"].estimate, table[f"pass_all@{k}"].estimate)
        assert found == pytest.approx(by_subsets(right, question, k), abs=1e-12)
    assert table["pass_at@1"].estimate == pytest.approx(table["accuracy"].estimate)
    assert table["pass_all@4"].low < table["pass_all@4"].estimate < table["pass_all@4"].high


def test_intervals_are_over_questions_not_over_answers():
    rng = np.random.default_rng(1)
    solved = (rng.random(40) < 0.5).astype(float)  # the same in every attempt
    question = np.repeat(np.arange(40), 8)
    table = evaluate_repeats(np.repeat(solved, 8), question)
    expected = np.sqrt(solved.mean() * (1 - solved.mean()) / 40)
    for name in ("accuracy", "pass_at@8", "pass_all@8"):
        assert table[name].standard_error == pytest.approx(expected)


def test_intervals_hold_the_truth():
    """Questions with a chance of success that is Beta(1, 2): E p = 1/3, E p^4 = 1/15, E 1-(1-p)^4 = 2/3."""
    rng = np.random.default_rng(3)
    truth = {"accuracy": 1 / 3, "pass_all@4": 1 / 15, "pass_at@4": 2 / 3}
    held = dict.fromkeys(truth, 0)
    question = np.repeat(np.arange(100), 4)
    for _ in range(200):
        chance = rng.beta(1, 2, 100)[question]
        table = evaluate_repeats(rng.random(400) < chance, question)
        for name, value in truth.items():
            held[name] += table[name].low <= value <= table[name].high
    assert all(0.9 <= count / 200 <= 0.995 for count in held.values()), held


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match="at most 1"):
        evaluate_repeats([1, 0, 1], ["a", "a", "b"], k=2)
    with pytest.raises(InputError, match="0 or 1"):
        evaluate_repeats([1, 0.5], ["a", "a"])
    with pytest.raises(InputError, match="same for all answers"):
        evaluate_repeats([1, 0], ["a", "a"], clusters=["x", "y"])
