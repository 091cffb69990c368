"""The sentences of a rule are those of its numbers."""

import json

import numpy as np
import pytest

import abstain
from abstain.errors import DataError
from abstain.thresholds import (
    Threshold,
)
from tests.thresholds.test_rules import OTHER_THAN_CHECKSUM, data


@pytest.fixture(scope="module")
def rule():
    wrong, p = data()
    key = -np.log1p(-p)
    return abstain.select_threshold(wrong, key, risk=0.1).made_from(
        "probs", score="max_softmax", loss="zero_one"
    )


WEIGHTS = np.linspace(0.5, 2, 2000)

PATIENTS = np.arange(2000) // 4


@pytest.mark.parametrize(
    "options",
    [
        {"risk": 0.2},
        {"risk": 0.2, "method": "sgr"},
        {"risk": 0.2, "method": "crc"},
        {"risk": 0.2, "method": "empirical"},
        {"risk": 0.001},
        {"coverage": 0.5},
        {"coverage": 1.0},
        {"cost": 0.2},
        {"risk": 0.3, "clusters": PATIENTS},
        {"risk": 0.3, "sample_weight": WEIGHTS},
        {"coverage": 0.5, "sample_weight": WEIGHTS},
        {"risk": 0.3, "sample_weight": WEIGHTS, "clusters": PATIENTS},
        {"risk": 0.3, "bounded": (0, 2)},
    ],
)
def test_no_sentence_and_no_count_can_be_edited(options):
    """Not even by a sentence that has all the right numbers in it."""
    wrong, p = data()
    rule = abstain.select_threshold(wrong, probs=np.stack([p, 1 - p], axis=1), **options)
    text = rule.to_json()
    assert Threshold.from_json(text).to_json() == text
    stored = json.loads(text)
    numbers = f"{1 - rule.delta:.4g} {rule.target:.4g} {rule.n}"
    edits = [
        {"guarantee": f"Never wrong, whatever comes: {numbers}."},
        {"note": "Approved."},
        {"n": rule.n + 1},
        {
            "n": rule.n + 1,
            "guarantee": rule.guarantee and rule.guarantee.replace(str(rule.n), str(rule.n + 1)),
        },
        {"evidence": {**stored["evidence"], "out_of_fold": True}},
    ]
    if rule.guarantee:
        edits += [
            {"guarantee": rule.guarantee.replace("at most", "far below").replace("at least", "exactly")}
        ]
        edits += [{"guarantee": None}]
    for edit in edits:
        weighted = "sample_weight" in options and set(edit) == {"n", "guarantee"}
        if not weighted:  # the weights themselves are not stored, so that n is known from the sentence alone
            with pytest.raises(DataError, match=OTHER_THAN_CHECKSUM):
                Threshold.from_json(json.dumps({**stored, **edit}))
