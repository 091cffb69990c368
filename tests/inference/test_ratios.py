"""Error bars of graded answers: equal to proportions where they are ones, and coverage in simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

import abstain
from abstain.inference.ratios import estimate_from_answers
from abstain.metrics.answer_metrics import GradedAnswers, answer_metric, grade_answers

KEYS = [
    "accuracy", "wrong", "not_attempted", "accuracy_given_attempted", "simpleqa_f", "hallucination_rate",
    "omniscience_index", "score_at_target@0.75", "score_at_target@0.9", "abstention_recall", "abstention_precision",
    "abstention_f1",
]  # fmt: skip
UNANSWERABLE = 0.3
# shares right, wrong and not attempted; clusters; answers in each; how alike those are (None: independent)
SETTINGS = [
    ((0.6, 0.3, 0.1), 300, 1, None),
    ((0.04, 0.04, 0.92), 500, 1, None),
    ((0.95, 0.03, 0.02), 500, 1, None),
    ((0.02, 0.92, 0.06), 500, 1, None),
    ((0.6, 0.3, 0.1), 60, 5, 2.0),
    ((0.05, 0.05, 0.9), 150, 4, 2.0),
    ((0.92, 0.03, 0.05), 200, 4, 2.0),
    ((0.03, 0.88, 0.09), 200, 5, 1.0),
]


def jeffreys(share: float, draws: float) -> tuple[float, float]:
    counts = (share * draws + 0.5, (1 - share) * draws + 0.5)
    return beta.ppf(0.025, *counts), beta.ppf(0.975, *counts)


def test_shares_have_the_limits_of_proportions():
    answers = grade_answers("test", [1] * 30 + [0] * 70, [True] * 80 + [False] * 20)
    for key, share, draws in [("accuracy", 0.3, 100), ("accuracy_given_attempted", 30 / 80, 80),
                              ("hallucination_rate", 50 / 70, 70), ("not_attempted", 0.2, 100)]:  # fmt: skip
        found = estimate_from_answers("test", answer_metric(key), answers).interval(0.95)
        assert (found.low, found.high) == pytest.approx(jeffreys(share, draws), abs=1e-9)
        assert found.standard_error == pytest.approx(np.sqrt(share * (1 - share) / draws))


@pytest.mark.parametrize("key", [key for key in KEYS if "abstention" not in key])
def test_standard_errors_are_those_of_the_jackknife(key):
    rng = np.random.default_rng(0)
    right = (rng.random(400) < 0.5).astype(float)
    answers = GradedAnswers(right * (rng.random(400) < 0.7), rng.random(400) < 0.7)
    answers = GradedAnswers(np.where(answers.attempted, right, 0.0), answers.attempted)
    metric = answer_metric(key)
    others = [metric.value(answers.select(np.arange(400) != left_out)) for left_out in range(400)]
    jackknife = np.sqrt(399 / 400 * np.sum((np.array(others) - np.mean(others)) ** 2))
    assert estimate_from_answers("test", metric, answers).standard_error == pytest.approx(jackknife, rel=0.01)


def test_without_spread_limits_come_from_counts():
    none_wrong = grade_answers("test", [1] * 40, [True] * 40)
    found = estimate_from_answers("test", answer_metric("accuracy"), none_wrong).interval(0.95)
    assert (found.low, found.high, found.centre) == (pytest.approx(0.025 ** (1 / 40)), 1.0, "bound")
    declined = grade_answers("test", [0] * 40, [False] * 40)
    found = estimate_from_answers("test", answer_metric("simpleqa_f"), declined).interval(0.95)
    unseen = 1 - 0.025 ** (1 / 40)
    assert found.high == pytest.approx(2 * unseen / (1 + unseen))  # the F if that share were right
    assert (
        estimate_from_answers("test", answer_metric("score_at_target@0.9"), none_wrong).limits(0.95)[0] < 0.2
    )


def test_copies_of_a_question_are_one_draw():
    rng = np.random.default_rng(1)
    right = (rng.random(80) < 0.4).astype(float)
    once = estimate_from_answers("test", answer_metric("accuracy"), grade_answers("test", right)).interval(
        0.95
    )
    copies = grade_answers("test", np.repeat(right, 6))
    clustered = estimate_from_answers("test", answer_metric("accuracy"), copies, np.repeat(np.arange(80), 6))
    width = clustered.interval(0.95).high - clustered.interval(0.95).low
    assert width == pytest.approx(once.high - once.low, rel=0.03)
    with pytest.raises(abstain.errors.InputError, match="at least two"):
        estimate_from_answers("test", answer_metric("accuracy"), copies, np.zeros(480))


def draw(rng, shares, clusters, size, likeness):
    """Answers of a model, with shares that vary between clusters where `likeness` is a number (Dirichlet)."""
    chances = np.tile(shares, (clusters, 1))
    if likeness is not None:
        chances = rng.dirichlet(likeness * np.array(shares), size=clusters)
    chances = np.repeat(chances.cumsum(axis=1), size, axis=0)
    place = rng.random(clusters * size)
    unanswerable = np.repeat(rng.random(clusters) < UNANSWERABLE, size)
    return GradedAnswers((place < chances[:, 0]).astype(float), place < chances[:, 1], unanswerable)


def true_values(c: float, i: float, a: float) -> dict[str, float]:
    """Of a model for which being unanswerable and being declined are independent."""
    return {
        "accuracy": c, "wrong": i, "not_attempted": a, "accuracy_given_attempted": c / (c + i),
        "simpleqa_f": 2 * c / (1 + c + i), "hallucination_rate": i / (1 - c), "omniscience_index": 100 * (c - i),
        "score_at_target@0.75": c - 3 * i, "score_at_target@0.9": c - 9 * i, "abstention_recall": a,
        "abstention_precision": UNANSWERABLE, "abstention_f1": 2 * UNANSWERABLE * a / (UNANSWERABLE + a),
    }  # fmt: skip


def coverage(setting, runs: int, keys=KEYS) -> dict[str, float]:
    """By metric: how often the interval holds the truth, of the samples where the metric is defined."""
    shares, clusters, size, likeness = setting
    rng = np.random.default_rng(7)
    truth = true_values(*shares)
    labels = None if likeness is None else np.repeat(np.arange(clusters), size)
    held = dict.fromkeys(keys, 0)
    defined = dict.fromkeys(keys, 0)
    for _ in range(runs):
        answers = draw(rng, shares, clusters, size, likeness)
        for key in keys:
            try:
                low, high = estimate_from_answers("test", answer_metric(key), answers, labels).limits(0.95)
            except abstain.errors.InfeasibleError:
                continue
            defined[key] += 1
            held[key] += low <= truth[key] <= high
    return {key: held[key] / defined[key] for key in keys}


@pytest.mark.parametrize("setting", [SETTINGS[1], SETTINGS[5]], ids=["independent", "clusters"])
def test_intervals_hold_the_truth(setting):
    found = coverage(setting, runs=200, keys=["accuracy", "simpleqa_f", "score_at_target@0.75"])
    assert all(0.9 <= share <= 0.995 for share in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_intervals_hold_the_truth_in_two_thousand_samples(setting):
    found = coverage(setting, runs=2000)
    print(setting, {key: f"{share:.2%}" for key, share in found.items()})
    assert all(0.925 <= share <= 0.975 for share in found.values()), found
