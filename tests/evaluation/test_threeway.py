"""Right, wrong or not attempted: the score with its price, and its interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multinomial

import abstain


@pytest.mark.parametrize("price", [0.0, 1.0, 4.0])
def test_three_way_score(price):
    rng = np.random.default_rng(3)
    answered = rng.random(400) < 0.8
    correct = (rng.random(400) < 0.7) & answered
    found = abstain.evaluation.three_way(correct, answered=answered, price=price)
    points = [1.0 if c else -price if a else 0.0 for c, a in zip(correct, answered)]
    assert found.score.estimate == pytest.approx(np.mean(points), abs=1e-12)
    assert found.right.estimate + found.wrong.estimate + found.not_attempted.estimate == pytest.approx(1)
    error = np.std(points, ddof=1) / np.sqrt(400)
    half = (found.score.high - found.score.low) / 2
    assert half == pytest.approx(1.966 * error, rel=0.05)
    assert abstain.evaluation.ThreeWay.from_json(found.to_json()) == found


def test_three_way_intervals_hold_the_truth():
    """95% intervals of all four numbers, 20 answers to each of 40 questions that share their difficulty."""
    rng = np.random.default_rng(0)
    truth = {"right": 0.9 * 0.6, "wrong": 0.9 * 0.4, "not_attempted": 0.1, "score": 0.9 * (0.6 - 2 * 0.4)}
    held = dict.fromkeys(truth, 0)
    question = np.repeat(np.arange(60), 5)
    for _ in range(300):
        easy = rng.beta(3, 2, 60)[question]
        answered = rng.random(300) < 0.9
        found = abstain.evaluation.three_way(
            rng.random(300) < easy, answered=answered, price=2, clusters=question
        )
        for name, value in truth.items():
            held[name] += value in getattr(found, name)
    assert all(0.92 <= count / 300 <= 0.985 for count in held.values()), held


def _three_way_of(right, wrong, n, price):
    correct = np.arange(n) < right
    return abstain.evaluation.three_way(correct, answered=np.arange(n) < right + wrong, price=price).score


@pytest.mark.parametrize("price", [10.0, 20.0])
def test_the_score_is_covered_however_few_wrong_answers_are_expected(price):
    """Exact coverage of the 95% interval at n = 24: the sum of the multinomial chances of all outcomes that hold it."""
    n = 24
    outcomes = [(right, wrong) for right in range(n + 1) for wrong in range(n + 1 - right)]
    scores = [_three_way_of(right, wrong, n, price) for right, wrong in outcomes]
    for right, wrong in [(0.7, 0.02), (0.6, 0.1), (0.95, 0.05), (0.3, 0.005), (0.05, 0.9)]:
        counts = [(a, b, n - a - b) for a, b in outcomes]
        chances = multinomial.pmf(counts, n, [right, wrong, 1 - right - wrong])
        covered = sum(chance for chance, score in zip(chances, scores) if right - price * wrong in score)
        assert covered >= 0.92, (right, wrong, covered)


@pytest.mark.slow
@pytest.mark.parametrize("price", [1.0, 5.0, 10.0, 20.0])
@pytest.mark.parametrize("n", [100, 300, 1000])
def test_the_score_is_covered_in_two_thousand_samples(n, price):
    rng = np.random.default_rng(n)
    for right, wrong in [(0.68, 0.02), (0.7, 0.005), (0.98, 0.02), (0.3, 0.01), (0.6, 0.1), (0.9, 0.03)]:
        draws = rng.multinomial(n, [right, wrong, max(0.0, 1 - right - wrong)], size=2000)
        known = {(a, b): _three_way_of(a, b, n, price) for a, b in {(a, b) for a, b, _ in draws.tolist()}}
        held = sum(right - price * wrong in known[a, b] for a, b, _ in draws.tolist())
        print(f"n {n} price {price:g} right {right} wrong {wrong}: {held / 2000:.1%}")
        assert held / 2000 >= 0.92, (right, wrong, held / 2000)


def test_three_way_of_nothing_wrong_is_not_certain():
    found = abstain.evaluation.three_way([1, 1, 1])
    assert found.score.low < 0.5
    assert found.score.high == 1
    # 70 right, none wrong, 30 declined: 3.6% may be wrong, which at price 10 costs more than the right share varies
    assert _three_way_of(70, 0, 100, 10.0).low < 0.7 - 10 * 0.03


@pytest.mark.parametrize(
    ("answered", "low", "high"),
    [([True] * 20, -2, -1.49), ([False] * 20, -0.34, 0.17)],
    ids=["wrong", "none"],
)
def test_a_score_without_spread_is_no_certainty(answered, low, high):
    """Of 20 all wrong, or none attempted, up to a sixth may be otherwise."""
    found = abstain.evaluation.three_way([0] * 20, answered=answered, price=2).score
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.01)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"correct": [1, 0], "answered": ["yes", "no"]}, "`answered` must hold true or false"),
        ({"correct": [1, 0], "answered": [1.0, np.nan]}, "`answered` must hold true or false"),
        ({"correct": ["a", "b"]}, "`correct` must hold numbers"),
    ],
)
def test_three_way_refuses_what_it_would_misread(given, words):
    with pytest.raises(abstain.errors.InputError, match=words):
        abstain.evaluation.three_way(**given)
