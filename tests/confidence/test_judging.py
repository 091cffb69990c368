from __future__ import annotations

import numpy as np
import pytest

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
    judged = judge("test", LearningData(table, loss, 1 - loss, np.ones(300), clusters), scores, 0.95)
    baseline, other = results_of(["baseline", "other"], judged)
    expected = paired_difference(loss, scores[1], loss, scores[0], clusters=clusters)
    assert other.difference == pytest.approx(expected.difference)
    assert (other.difference_low, other.difference_high) == pytest.approx((expected.low, expected.high))
    assert other.p_value == pytest.approx(expected.p_value)
    assert other.standard_error == pytest.approx(expected.standard_error)
    alone = interval("aurc", loss, scores[0], clusters=clusters)
    assert (baseline.low, baseline.high) == pytest.approx((alone.low, alone.high))


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


def test_a_gain_of_less_than_a_quarter_of_its_standard_error_is_not_kept_unless_rows_are_few():
    results = [result("baseline", 0.2), result("a", 0.191, standard_error=0.04)]
    assert choose_candidate(results, "lowest", 0.95) == 0
    assert choose_candidate(results, "lowest", 0.95, is_few=True) == 1
    clearer = [result("baseline", 0.2), result("a", 0.189, standard_error=0.04)]
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
        assert is_clearly_lower("test", data, confidence, reference) == is_lower
        answers.add(bool(is_lower))
    assert answers == {True, False}
