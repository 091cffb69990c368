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
