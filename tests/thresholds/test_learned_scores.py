"""Rules for learned confidences: they refuse other confidences, and rows that the confidence was fitted on."""

from __future__ import annotations

import numpy as np
import pytest

from abstain import cascade, select_threshold
from abstain.confidence import learn_confidence
from abstain.errors import AbstainWarning, InputError
from abstain.thresholds import Threshold, decision_record


def rows(n, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    right = 2 * a + b + rng.logistic(size=n) > -1
    return right, {"a": a, "b": b}


RIGHT, SIGNALS = rows(800, seed=0)
FRESH_RIGHT, FRESH = rows(800, seed=1)
LEARNED = learn_confidence(RIGHT, signals=SIGNALS, contributions=False)
OTHER = learn_confidence(FRESH_RIGHT, signals=FRESH, contributions=False)
RULE = select_threshold(~FRESH_RIGHT, LEARNED(signals=FRESH), score=LEARNED, risk=0.2)


def test_a_rule_accepts_the_confidence_it_was_made_for_and_no_other():
    confidence = LEARNED(signals=SIGNALS)
    restored = Threshold.from_json(RULE.to_json())
    accepted = restored.accepts(confidence, score=LEARNED)
    assert accepted.tolist() == (confidence >= RULE.value).tolist()
    for score in (None, OTHER, "max_softmax"):
        with pytest.raises(
            InputError, match=f"this rule is for the learned confidence {LEARNED.fingerprint}"
        ):
            restored.accepts(confidence, score=score)
    plain_rule = select_threshold(~FRESH_RIGHT, FRESH["a"], risk=0.2)
    with pytest.raises(InputError, match="this rule is for confidences of your own"):
        plain_rule.accepts(confidence, score=LEARNED)


def test_rows_of_the_fit_are_refused():
    confidence = LEARNED(signals=SIGNALS)
    mixed = np.concatenate([LEARNED(signals=FRESH), confidence[:40]])
    with pytest.raises(
        InputError, match="must not be those that the confidence was fitted on, got all 800 rows of the fit"
    ):
        select_threshold(~RIGHT, confidence, score=LEARNED, risk=0.2)
    with pytest.raises(InputError, match="got about 39 of 840 rows of the fit"):
        select_threshold(np.concatenate([~FRESH_RIGHT, ~RIGHT[:40]]), mixed, score=LEARNED, risk=0.2)
    with pytest.raises(InputError, match="stage 'one': these rows must not be those"):
        cascade({"one": (~RIGHT, confidence, 1.0)}, risk=0.2, person=(10.0, 0.0), scores={"one": LEARNED})


@pytest.mark.parametrize(
    "rule", ["threshold", "groups", "promises", "groups and promises", "cascade", "joint cascade"]
)
@pytest.mark.parametrize("is_fitted", [True, False])
def test_a_check_on_rows_of_the_fit_is_told(rule, is_fitted):
    right, confidence = (RIGHT, LEARNED(signals=SIGNALS)) if is_fitted else rows(800, seed=2)
    if not is_fitted:
        confidence = LEARNED(signals=confidence)
    fresh = LEARNED(signals=FRESH)
    risk = {"a": 0.2, "b": 0.3} if "promises" in rule or "joint" in rule else 0.2
    groups = {"groups": np.arange(800) % 2} if "groups" in rule else {}
    if "cascade" in rule:
        settings = {"risk": risk, "scores": {"one": LEARNED}}
        made = cascade({"one": (~FRESH_RIGHT, fresh, 1.0)}, person=(10.0, 0.0), **settings)
        arguments = ({"one": (~right, confidence)},)
        settings = {"scores": {"one": LEARNED}}
    else:
        made = select_threshold(~FRESH_RIGHT, fresh, score=LEARNED, risk=risk, **groups)
        arguments = (~right, confidence)
        settings = {"score": LEARNED, **groups}
    if not is_fitted:
        made.check(*arguments, **settings)  # no warning
        return
    with pytest.warns(
        AbstainWarning, match="all 800 rows are rows that the learned confidence was fitted on"
    ) as told:
        made.check(*arguments, **settings)
    assert len(told) == 1
    # `JointCascade.check` has one call less between it and the user
    assert told[0].filename == __file__ or rule == "joint cascade"


def test_class_scores_do_not_stand_for_a_learned_confidence():
    with pytest.raises(InputError, match="a learned confidence is given by its values"):
        select_threshold(FRESH_RIGHT, logits=np.zeros((800, 2)), score=LEARNED, risk=0.2)


def test_a_rule_for_a_learned_confidence_is_not_relabelled():
    """Once read as rank keys of a score, its threshold would be compared with other numbers."""
    assert RULE.made_from("confidence", loss="zero_one").cut.learned == LEARNED.fingerprint
    for kind in ("logits", "confidence"):
        with pytest.raises(
            InputError, match=f"this rule is for the learned confidence {LEARNED.fingerprint}, got max_logit"
        ):
            RULE.made_from(kind, score="max_logit")


def test_the_record_names_the_confidence():
    assert f"score: the learned confidence {LEARNED.fingerprint}" in decision_record(RULE)


def test_groups_and_checks_know_the_confidence():
    groups = np.where(np.arange(800) % 2 == 0, "x", "y")
    by_group = select_threshold(~FRESH_RIGHT, LEARNED(signals=FRESH), score=LEARNED, risk=0.3, groups=groups)
    confidence = LEARNED(signals=SIGNALS)
    assert by_group.accepts(confidence, groups, score=LEARNED).any()
    with pytest.raises(InputError, match="learned confidence"):
        by_group.accepts(confidence, groups)
    later_right, later = rows(800, seed=2)
    assert RULE.check(~later_right, LEARNED(signals=later), score=LEARNED).holds


def test_a_cascade_asks_for_the_confidence_of_each_stage():
    stages = {"one": (~FRESH_RIGHT, LEARNED(signals=FRESH), 1.0)}
    rule = cascade(stages, risk=0.2, person=(10.0, 0.0), scores={"one": LEARNED})
    confidences = {"one": LEARNED(signals=SIGNALS)}
    answering = rule.decide(confidences, scores={"one": LEARNED})
    assert set(answering) == {"one", "person"}
    with pytest.raises(InputError, match="this rule is for the learned confidence"):
        rule.decide(confidences)
    later_right, later = rows(800, seed=2)
    check = rule.check({"one": (~later_right, LEARNED(signals=later))}, scores={"one": LEARNED})
    assert check.holds
