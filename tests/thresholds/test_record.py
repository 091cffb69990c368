"""The decision record."""

import numpy as np
import pytest

import abstain
from abstain.thresholds import (
    decision_record,
)
from tests.thresholds.test_rules import data


@pytest.fixture(scope="module")
def rule():
    wrong, p = data()
    key = -np.log1p(-p)
    return abstain.select_threshold(wrong, key, risk=0.1).made_from(
        "probs", score="max_softmax", loss="zero_one"
    )


def test_a_record_of_groups_tells_the_facts_of_each(rule):
    wrong, p = data(6000)
    place = np.arange(6000)
    groups = np.where(place < 2000, "a", "b")
    patients = np.where(place < 2000, place // 5, 10**4 + place // 10)
    told = decision_record(abstain.select_threshold(wrong, p, risk=0.3, groups=groups, clusters=patients))
    assert "- clusters of group a: 400, the largest of 5 samples" in told
    assert "In the long run, at most 30% of the answers that the model gives in each group are wrong." in told
    assert "the rules were made from the 6,000 cases of 2 groups, drawn at random" in told
    assert "at least 95% lead to rules that keep their promise in every group" in told
    assert "In full: With probability at least 0.95 over the calibration data, the promise of each of" in told
    assert "(each was chosen at 0.025): the error rate of the accepted is at most 0.3." in told
    assert "- clusters of group b: 400, the largest of 10 samples" in told
    assert "- No later cluster of group b holds more than 10 samples." in told
    assert "method ltt, delta 0.05" in told
    alarm = (
        "it ever raises an alarm with probability at most 0.05."  # by risk or by confidences, in any group
    )
    assert alarm in " ".join(told.split())
    assert "from one population" in decision_record(rule)
    weighted = decision_record(abstain.select_threshold(wrong, p, risk=0.3, sample_weight=p))
    assert "later ones from the population that the sample weights stand for" in weighted


def test_a_record_has_the_plain_number_first_and_the_promise_in_everyday_words(rule):
    page = decision_record(rule, model="reviews 2.1")
    plain, key = f"max_softmax above {rule.origin.plain:.6g}", repr(rule.value)
    assert page.index(plain) < page.index(key)
    assert "In the long run, at most 10% of the answers that the model gives are wrong." in page
    assert "at least 95% lead to a rule that keeps its promise" in page
    assert f"In full: {rule.guarantee}" in page
    assert "- model: reviews 2.1" in page
    assert "to be filled in" in decision_record(rule)


def test_a_threshold_that_rounds_to_1_is_written_as_its_distance_from_1():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 2000)
    logits = 40.0 * np.eye(3)[labels]
    logits[:500] = 30 * np.eye(3)[rng.integers(0, 3, 500)] + rng.normal(size=(500, 3))
    rule = abstain.select_threshold(logits=logits, labels=labels, risk=0.02)
    assert rule.origin.plain == pytest.approx(1)
    page = decision_record(rule)
    assert (
        f"max_softmax {'above' if rule.lies_above else 'at least'} 1 − {np.exp(-rule.value):.2g} (in the"
        in page
    )
    everything = abstain.select_threshold(logits=logits, labels=labels, risk=0.5)
    assert "- Accept everything that has a confidence. Cases" in decision_record(everything)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"risk": 0.3}, "(at most 0.3)"),
        ({"risk": 0.3, "method": "empirical"}, ", not promised)"),
        ({"cost": 0.3}, ", not promised)"),
        ({"coverage": 0.5}, ", not promised)"),
    ],
)
def test_only_a_promised_risk_is_at_most_its_bound(options, words):
    wrong, p = data(2000)
    text = repr(abstain.select_threshold(wrong, p, **options))
    assert words in text
    assert ("at most" in text.partition("guarantee")[0]) == ("at most" in words)


def test_a_record_says_nothing_that_only_the_user_knows(rule):
    wrong, p = data(6000)
    clusters = np.arange(6000) // 5
    rules = [rule, abstain.select_threshold(wrong, p, risk=0.3, clusters=clusters)]
    rules.append(abstain.select_threshold(wrong, p, coverage=0.5))
    rules.append(
        abstain.select_threshold(losses={"a": wrong, "b": wrong}, confidence=p, risk={"a": 0.2, "b": 0.3})
    )
    for page in map(decision_record, rules):
        assert not {"patient", "scanner", "hospital", "person", "clinic"} & set(page.lower().split())
        assert "Cases that are not accepted are not answered by the model." in page


def test_a_promise_on_the_coverage_says_nothing_of_errors():
    wrong, p = data(6000)
    page = decision_record(abstain.select_threshold(wrong, p, coverage=0.5))
    assert "the model answers at least 0.5 of all cases" in page
    assert "nothing about how many of its answers are wrong" in page


@pytest.mark.parametrize("groups", [None, np.resize(["a", "b"], 3000)])
def test_a_record_of_a_rule_that_accepts_nothing_says_what_would_help(groups):
    wrong, p = data()
    options = {} if groups is None else {"groups": groups[: len(wrong)]}
    rule = abstain.select_threshold(wrong, p, risk=1e-4, **options)
    page = decision_record(rule)
    first = rule if groups is None else rule["a"]
    assert "the model answers no case" in page
    assert str(first.advice) in page
    assert "## What would help" in page
    for text in ("What voids it", "--check", "Exit code", "accept nothing"):
        assert text not in page
