"""Tables, comparisons and curves of graded answers."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.errors import InputError, ShapeError
from abstain.evaluation import TargetCurve, compare_answers, evaluate_answers, score_by_target
from abstain.metrics import AnswerMetric


@pytest.fixture
def answers():
    rng = np.random.default_rng(5)
    answered = rng.random(300) < 0.8
    return {
        "correct": (rng.random(300) < 0.6) & answered,
        "answered": answered,
        "groups": np.array(["law", "math"])[rng.integers(0, 2, 300)],
    }


def test_the_table_has_every_group(answers):
    table = evaluate_answers(**answers)
    law = answers["groups"] == "law"
    inside = evaluate_answers(answers["correct"][law], answered=answers["answered"][law])
    assert table.groups == ("law", "math")
    for metric in table.metrics:
        found = table.select(metric=metric, group="law")[0]
        assert (found.estimate, found.low, found.high) == pytest.approx(
            (inside[metric].estimate, inside[metric].low, inside[metric].high)
        )
    assert abstain.Evaluation.from_json(table.to_json()) == table
    assert "F (SimpleQA)" in table.to_markdown()


def test_what_is_undefined_has_a_reason():
    table = evaluate_answers(
        [0, 0, 0], answered=[False] * 3, metrics=["accuracy_given_attempted", "accuracy"]
    )
    assert table["accuracy_given_attempted"].estimate is None
    assert "no question counts as attempted" in table["accuracy_given_attempted"].reason
    alone = evaluate_answers([1])["accuracy"]
    assert (alone.estimate, alone.low) == (1.0, None)
    assert "at least two questions" in alone.reason


def test_a_score_of_ones_own(answers):
    formula = AnswerMetric(
        name="quarter", label="quarter off", summary="", numerator={"right": 1.0, "wrong": -0.25}
    )
    table = evaluate_answers(answers["correct"], answered=answers["answered"], metrics=[formula])
    points = np.where(answers["correct"], 1.0, np.where(answers["answered"], -0.25, 0.0))
    assert table["quarter"].estimate == pytest.approx(points.mean())
    assert table["quarter"].standard_error == pytest.approx(points.std() / np.sqrt(300), rel=1e-9)


def two_models(rng, shares, clusters, size, likeness):
    """Two models of equal quality whose answers to a question are alike."""
    chances = np.repeat(
        rng.dirichlet(likeness * np.array(shares), size=clusters).cumsum(axis=1), size, axis=0
    )
    models = {}
    for name in ("a", "b"):
        place = rng.random(clusters * size)
        models[name] = ((place < chances[:, 0]).astype(float), place < chances[:, 1])
    return models


def false_alarms(setting, runs, keys):
    shares, clusters, size, likeness = setting
    rng = np.random.default_rng(11)
    labels = None if size == 1 else np.repeat(np.arange(clusters), size)
    alarms = dict.fromkeys(keys, 0)
    for _ in range(runs):
        models = two_models(rng, shares, clusters, size, likeness)
        for key in keys:
            alarms[key] += compare_answers(models, metric=key, clusters=labels).pairs[0].different
    return {key: count / runs for key, count in alarms.items()}


PAIRED = ["accuracy", "accuracy_given_attempted", "simpleqa_f", "hallucination_rate", "score_at_target@0.75"]


def test_equal_models_are_rarely_told_apart():
    found = false_alarms(((0.6, 0.3, 0.1), 80, 3, 2.0), 100, ["accuracy", "score_at_target@0.75"])
    assert all(share <= 0.11 for share in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        ((0.6, 0.3, 0.1), 300, 1, 3.0),
        ((0.05, 0.05, 0.9), 500, 1, 1.0),
        ((0.95, 0.03, 0.02), 500, 1, 1.0),
        ((0.6, 0.3, 0.1), 60, 5, 2.0),
        ((0.05, 0.05, 0.9), 150, 4, 2.0),
        ((0.92, 0.05, 0.03), 150, 4, 2.0),
    ],
    ids=str,
)
def test_paired_tests_are_false_in_at_most_six_of_a_hundred(setting):
    found = false_alarms(setting, 1500, PAIRED)
    print(setting, {key: f"{share:.1%}" for key, share in found.items()})
    assert all(share <= 0.06 for share in found.values()), found


def test_pairs_see_what_separate_tests_do_not():
    rng = np.random.default_rng(0)
    easy = rng.random(1500) < 0.6
    better = easy.copy()
    better[np.flatnonzero(~easy)[:30]] = True
    models = {"a": easy.astype(float), "b": better.astype(float)}
    assert compare_answers(models).pair("a", "b").different
    unpaired = compare_answers(models, paired=False)
    assert not unpaired.pair("a", "b").different
    assert unpaired.pair("a", "b").samples_needed > 1500
    assert compare_answers(models).names == ("b", "a")


def test_accuracy_is_compared_as_risk_is():
    rng = np.random.default_rng(2)
    right = {name: (rng.random(400) < share).astype(float) for name, share in [("a", 0.7), ("b", 0.6)]}
    by_accuracy = compare_answers(right).pair("a", "b")
    losses = {name: (1 - values, np.zeros(400)) for name, values in right.items()}
    by_risk = abstain.compare(losses, metric="risk").pair("b", "a")
    assert by_accuracy.difference == pytest.approx(by_risk.difference)
    assert by_accuracy.p_value == pytest.approx(by_risk.p_value, rel=1e-6)


def test_two_kinds_of_clusters():
    """Twenty people judge thirty questions: people and questions both matter, and the wider interval shows it."""
    rng = np.random.default_rng(4)
    question = np.tile(np.arange(30), 20)
    person = np.repeat(np.arange(20), 30)
    tendency = rng.normal(size=30)[question] + rng.normal(size=20)[person]
    right = (rng.random(600) < 1 / (1 + np.exp(-tendency))).astype(float)
    both = evaluate_answers(right, clusters=[question, person])["accuracy"].standard_error
    parts = [
        evaluate_answers(right, clusters=labels)["accuracy"].standard_error
        for labels in (question, person, np.arange(600))
    ]
    # intersections hold one answer each; as clusters, their variance is that of samples times 600/599
    assert both**2 == pytest.approx(parts[0] ** 2 + parts[1] ** 2 - parts[2] ** 2)
    models = {"a": right, "b": 1 - right}
    assert compare_answers(models, clusters=[question, person]).pairs[0].standard_error > 2 * parts[0]


def test_score_by_target(answers):
    curve = score_by_target(answers["correct"], answered=answers["answered"], targets=[0.75, 0.5])
    table = evaluate_answers(answers["correct"], answered=answers["answered"])
    assert curve.target == (0.5, 0.75)
    for place, key in enumerate(["score_at_target@0.5", "score_at_target@0.75"]):
        assert (curve.score[place], curve.low[place]) == pytest.approx((table[key].estimate, table[key].low))
    stated = np.linspace(0, 1, 300)
    by_confidence = score_by_target(answers["correct"], confidence=stated, targets=[0.5])
    kept = stated >= 0.5
    assert by_confidence.attempted == pytest.approx((kept.mean(),))
    assert by_confidence.score[0] == pytest.approx(np.mean(np.where(kept, 2.0 * answers["correct"] - 1, 0)))
    assert TargetCurve.from_json(curve.to_json()) == curve
    pytest.importorskip("matplotlib").use("Agg")
    assert curve.plot(name="m").get_xlabel() == "confidence target t"


def test_evaluate_takes_these_metrics_by_name(answers):
    rng = np.random.default_rng(6)
    confidence = rng.random(300)
    away = ~answers["answered"]
    table = abstain.evaluate(
        loss=1.0 - answers["correct"],
        confidence=confidence,
        abstained=away,
        groups=answers["groups"],
        metrics=["aurc", "simpleqa_f", "calibration_error"],
    )
    expected = evaluate_answers(answers["correct"], answered=answers["answered"], groups=answers["groups"])
    for group in (None, "law"):
        found = table.select(metric="simpleqa_f", group=group)[0]
        same = expected.select(metric="simpleqa_f", group=group)[0]
        assert (found.estimate, found.low) == pytest.approx((same.estimate, same.low))
    kept = answers["answered"]
    error = abstain.calibration.calibration_error(answers["correct"][kept], confidence[kept])
    assert table["calibration_error"].estimate == pytest.approx(error.root.estimate)
    scaled = abstain.evaluate(
        loss=1.0 - answers["correct"], confidence=90 * confidence, metrics=["brier_score"]
    )
    assert "probability from 0 to 1" in scaled["brier_score"].reason


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_the_calibration_of_class_scores_is_that_of_the_largest_probability(answers, kind):
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 3, 300)
    logits = rng.normal(size=(300, 3)) + np.eye(3)[labels]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    right = (probs.argmax(axis=1) == labels).astype(float)
    largest = probs.max(axis=1)
    answered = answers["answered"]
    law = answers["groups"] == "law"
    arguments = {
        kind: {"logits": logits, "probs": probs}[kind],
        "labels": labels,
        "abstained": ~answered,
        "groups": answers["groups"],
        "losses": ["zero_one"],
        "metrics": ["brier_score", "calibration_error", "aurc"],
    }
    table = abstain.evaluate(**arguments)
    for group, rows in ((None, answered), ("law", answered & law)):
        found = table.select(metric="brier_score", score="max_softmax", group=group)[0]
        same = abstain.calibration.brier_score(right[rows], largest[rows]).score
        assert (found.estimate, found.low) == pytest.approx((same.estimate, same.low))
    error = abstain.calibration.calibration_error(right[answered], largest[answered]).root
    assert table["max_softmax", "zero_one", "calibration_error"].estimate == pytest.approx(error.estimate)
    margin = table["softmax_margin", "zero_one", "brier_score"]
    assert margin.reason == "of class scores, only max_softmax is a probability of being right"
    own = abstain.evaluate(**arguments | {"confidence": {"max_softmax": largest / 2, "mine": largest}})
    halved = abstain.calibration.brier_score(right[answered], largest[answered] / 2).score
    assert own["max_softmax", "zero_one", "brier_score"].estimate == pytest.approx(halved.estimate)
    assert own["mine", "zero_one", "brier_score"].estimate == pytest.approx(
        table["max_softmax", "zero_one", "brier_score"].estimate
    )


def test_evaluate_without_a_confidence(answers):
    table = abstain.evaluate(loss=1.0 - answers["correct"], abstained=~answers["answered"])
    assert table.entries == evaluate_answers(answers["correct"], answered=answers["answered"]).entries


def test_bad_arguments_are_refused(answers):
    with pytest.raises(InputError, match="probability from 0 to 1, got 90"):
        score_by_target([1, 0], confidence=[90, 50])
    with pytest.raises(ShapeError, match="the same questions, got a 2, b 3"):
        compare_answers({"a": [1, 0], "b": [1, 0, 1]})
    with pytest.raises(InputError, match="at least two models"):
        compare_answers({"a": [1, 0]})
    with pytest.raises(ShapeError, match="one label per sample"):
        evaluate_answers([1, 0], clusters=[1])
