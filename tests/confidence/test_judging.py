from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain import paired_difference
from abstain.confidence.candidates import LearningData
from abstain.confidence.input_table import read_inputs
from abstain.confidence.judging import (
    CandidateResult,
    choose_candidate,
    is_clearly_lower,
    judge,
    results_of,
)
from abstain.inference import interval


def result(name, aurc, p_value=1.0, standard_error=0.0):
    return CandidateResult(
        name=name,
        aurc=aurc,
        low=0.0,
        high=1.0,
        difference=aurc - 0.2,
        difference_low=-1.0,
        difference_high=1.0,
        standard_error=standard_error,
        p_value=p_value,
    )


@pytest.mark.parametrize("use_clusters", [False, True])
def test_judgements_are_those_of_the_paired_difference(use_clusters):
    rng = np.random.default_rng(0)
    loss = (rng.random(300) < 0.3).astype(float)
    scores = [rng.random(300) - 0.4 * loss, rng.random(300) - 0.8 * loss]
    clusters = np.arange(300) // 3 if use_clusters else None
    table = read_inputs("test", signals={"a": scores[0]})
    data = LearningData(table, loss, 1 - loss, np.ones(300), clusters)
    one_fold = np.zeros(300, dtype=int)
    judged = judge("test", data, scores, 0.95, one_fold)
    baseline, other = results_of(["baseline", "other"], judged)
    expected = paired_difference(loss, scores[1], loss, scores[0], clusters=clusters)
    assert other.difference == pytest.approx(expected.difference)
    assert (other.difference_low, other.difference_high) == pytest.approx((expected.low, expected.high))
    assert other.p_value == pytest.approx(expected.p_value)
    assert other.standard_error == pytest.approx(expected.standard_error)
    alone = interval("aurc", loss, scores[0], clusters=clusters)
    assert (baseline.low, baseline.high) == pytest.approx((alone.low, alone.high))


@pytest.mark.parametrize("use_weights", [False, True])
@pytest.mark.parametrize("use_clusters", [False, True])
def test_with_several_folds_it_is_the_mean_within_folds(use_clusters, use_weights):
    rng = np.random.default_rng(5)
    loss = 2.0 * (rng.random(900) < 0.3)
    scores = [rng.random(900) - 0.2 * loss, rng.random(900) - 0.4 * loss]
    weight = rng.random(900) + 0.5 if use_weights else np.ones(900)
    clusters = np.arange(900) // 3 if use_clusters else None
    fold = rng.permutation(3)[np.arange(900) // 3 % 3]  # whole clusters
    table = read_inputs("test", signals={"a": scores[0]})
    data = LearningData(table, loss, 1 - loss / 2, weight, clusters)
    baseline, other = results_of(["baseline", "other"], judge("test", data, scores, 0.95, fold))
    areas, shares, differences = [], [], []
    for number in range(3):
        rows = fold == number
        options = {"sample_weight": weight[rows] if use_weights else None}
        areas.append(abstain.aurc(loss[rows], scores[0][rows], **options))
        shares.append(weight[rows].sum() / weight.sum())
        part = None if clusters is None else clusters[rows]
        differences.append(
            paired_difference(
                loss[rows], scores[1][rows], loss[rows], scores[0][rows], clusters=part, **options
            )
        )
    assert baseline.aurc == pytest.approx(np.dot(shares, areas))
    assert other.difference == pytest.approx(np.dot(shares, [part.difference for part in differences]))
    squared_errors = [(share * part.standard_error) ** 2 for share, part in zip(shares, differences)]
    assert other.standard_error == pytest.approx(np.sqrt(np.sum(squared_errors)), rel=0.03)
    assert other.difference_low < other.difference < other.difference_high


def test_a_confidence_shifted_by_fold_is_judged_like_the_one_without_a_shift():
    rng = np.random.default_rng(6)
    loss = (rng.random(400) < 0.3).astype(float)
    fold = np.arange(400) % 5
    score = rng.random(400) - 0.4 * loss
    table = read_inputs("test", signals={"a": score})
    data = LearningData(table, loss, 1 - loss, np.ones(400), None)
    judged = judge("test", data, [score, score + 10.0 * fold], 0.95, fold)
    assert judged.aurc[1] == judged.aurc[0]
    assert judged.tests.p_value[0] == 1.0


def test_folds_of_one_cluster_each_are_judged_as_one():
    rng = np.random.default_rng(7)
    loss = (rng.random(250) < 0.3).astype(float)
    score = rng.random(250) - 0.4 * loss
    cluster = np.arange(250) // 50
    table = read_inputs("test", signals={"a": score})
    data = LearningData(table, loss, 1 - loss, np.ones(250), cluster)
    judged = judge("test", data, [score], 0.95, fold=cluster)
    assert judged.aurc == [pytest.approx(abstain.aurc(loss, score))]


def test_the_lowest_is_kept_or_the_lowest_that_is_proven():
    results = [result("baseline", 0.2), result("a", 0.18, 0.3), result("b", 0.19, 0.001), result("c", 0.18)]
    assert choose_candidate(results, "lowest", 0.95) == 1  # "c" is equal and less simple
    assert choose_candidate(results, "proven", 0.95) == 2
    assert choose_candidate(results[:2], "proven", 0.95) == 0
    worse = [result("baseline", 0.2), result("a", 0.3, 1e-9)]
    assert choose_candidate(worse, "proven", 0.95) == 0
    assert choose_candidate(worse, "lowest", 0.95) == 0


def test_a_trusted_candidate_goes_before_the_baseline_unless_it_is_proven_worse():
    doubtful = [result("baseline", 0.2), result("combined", 0.21, 0.5), result("signals", 0.22)]
    assert choose_candidate(doubtful, "lowest", 0.95, trusted="combined") == 1
    assert choose_candidate(doubtful, "proven", 0.95, trusted="combined") == 0
    worse = [result("baseline", 0.2), result("combined", 0.3, 0.001)]
    assert choose_candidate(worse, "lowest", 0.95, trusted="combined") == 0


def test_a_gain_of_less_than_half_of_its_standard_error_is_not_kept_unless_rows_are_few():
    results = [result("baseline", 0.2), result("a", 0.181, standard_error=0.04)]
    assert choose_candidate(results, "lowest", 0.95) == 0
    assert choose_candidate(results, "lowest", 0.95, is_few=True) == 1
    clearer = [result("baseline", 0.2), result("a", 0.179, standard_error=0.04)]
    assert choose_candidate(clearer, "lowest", 0.95) == 1


def test_clearly_lower_is_lower_by_half_a_standard_error():
    rng = np.random.default_rng(4)
    loss = (rng.random(200) < 0.3).astype(float)
    data = LearningData(
        read_inputs("test", signals={"a": rng.random(200)}), loss, 1 - loss, np.ones(200), None
    )
    reference = rng.random(200) - 0.5 * loss
    answers = set()
    for strength in np.linspace(0, 0.4, 9):
        confidence = reference + 0.3 * rng.normal(size=200) - strength * loss
        expected = paired_difference(loss, confidence, loss, reference)
        is_lower = expected.difference <= -0.5 * expected.standard_error
        assert is_clearly_lower("test", data, confidence, reference, np.zeros(200, dtype=int)) == is_lower
        answers.add(bool(is_lower))
    assert answers == {True, False}
