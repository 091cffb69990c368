"""`learn_confidence`: what it keeps, what it says, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.confidence import LearnedConfidence, learn_confidence
from abstain.errors import AbstainWarning, DtypeError, InputError, ShapeError


def two_signals(n=800, seed=0, noise=1.0):
    """Rows whose chance of being right rises with both signals, and whether each is right."""
    rng = np.random.default_rng(seed)
    token, stated = rng.normal(size=(2, n))
    right = 2 * token + stated + noise * rng.logistic(size=n) > 0
    return right, {"token": token, "stated": stated}


def test_two_signals_are_better_than_one_and_that_is_proven():
    right, signals = two_signals(2000)
    learned = learn_confidence(right, signals=signals)
    assert learned.kept == "signals"
    assert learned.proven
    fresh_right, fresh = two_signals(5000, seed=1)
    best_single = min(abstain.aurc(~fresh_right, signal) for signal in fresh.values())
    assert abstain.aurc(~fresh_right, learned(signals=fresh)) < 0.9 * best_single


def test_candidates_are_judged_out_of_fold_against_the_best_single_signal():
    right, signals = two_signals()
    learned = learn_confidence(right, signals=signals)
    baseline, fitted = learned.candidates
    area_of_all_rows = min(abstain.aurc(~right, signal) for signal in signals.values())
    assert baseline.aurc == pytest.approx(area_of_all_rows, rel=0.02)  # the mean within folds is not the same
    assert fitted.difference == pytest.approx(fitted.aurc - baseline.aurc)
    assert fitted.difference_low < fitted.difference < fitted.difference_high
    assert baseline.low < baseline.aurc < baseline.high


def test_the_combination_is_tried_with_few_rows_or_if_asked_for():
    right, signals = two_signals(400)
    assert [result.name for result in learn_confidence(right, signals=signals).candidates] == [
        "baseline",
        "signals",
    ]
    asked = learn_confidence(right, signals=signals, candidates=["combined"])
    assert [result.name for result in asked.candidates] == ["baseline", "combined"]
    few = learn_confidence(right[:200], signals={name: values[:200] for name, values in signals.items()})
    assert [result.name for result in few.candidates] == ["baseline", "combined", "signals"]


def test_a_useless_feature_adds_nothing_and_a_useful_one_does():
    right, signals = two_signals(1500)
    noise = np.random.default_rng(5).normal(size=len(right))
    learned = learn_confidence(right, signals=signals, features={"noise": noise})
    by_name = {part.name: part for part in learned.contributions}
    assert by_name["token"].high < 0
    assert by_name["stated"].p_value < 1e-6
    assert by_name["noise"].p_value > 0.05


def test_an_input_that_helps_only_beside_another_adds_the_gain_of_both():
    rng = np.random.default_rng(0)
    token = rng.normal(size=1500)
    one, other = rng.integers(0, 2, (2, 1500))
    joint_effect = 3 * ((one ^ other) - 0.5)  # trees find it, a logistic model does not
    right = token + joint_effect + rng.logistic(size=1500) > 0
    categories = {"one": one.astype(str), "other": other.astype(str)}
    learned = learn_confidence(right, signals={"token": token}, categories=categories)
    gain = learned.result.difference
    assert gain < -0.05
    for part in learned.contributions[1:]:
        assert part.difference == pytest.approx(gain, rel=0.1)


def test_proven_keeps_the_baseline_where_nothing_helps():
    rng = np.random.default_rng(2)
    token = rng.normal(size=600)
    right = token + rng.logistic(size=600) > 0
    learned = learn_confidence(
        right, signals={"token": token}, features={"noise": rng.normal(size=600)}, keep="proven"
    )
    assert learned.kept == "baseline"
    assert learned(signals={"token": [0.5]}, features={"noise": [0.0]}).tolist() == [0.5]


def test_gaps_categories_weights_and_clusters_are_used():
    right, signals = two_signals(1000)
    signals["stated"][::3] = np.nan
    topic = np.where(np.arange(1000) % 2 == 0, "law", "art")
    learned = learn_confidence(
        right,
        signals=signals,
        categories={"topic": topic},
        sample_weight=np.tile([1.0, 2.0], 500),
        clusters=np.arange(1000) // 4,
    )
    assert learned.clusters == 250
    confidence = learned(signals={"token": [1.0], "stated": [None]}, categories={"topic": ["law"]})
    assert np.isfinite(confidence).all()


def test_losses_and_labels_say_the_same_as_correct():
    right, signals = two_signals()
    predicted = np.zeros(len(right), dtype=int)
    labels = np.where(right, 0, 1)
    by_correct = learn_confidence(right, signals=signals)
    by_loss = learn_confidence(loss=~right * 3.0, signals=signals)
    np.testing.assert_allclose(by_loss(signals=signals), by_correct(signals=signals), rtol=1e-6)
    by_labels = learn_confidence(labels=labels, signals=signals, predicted=predicted)
    assert by_labels.candidates[0].aurc == by_correct.candidates[0].aurc


@pytest.mark.parametrize("class_count", [2, 3])
def test_logits_have_a_flexible_candidate_and_a_shrunk_one(class_count):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, class_count, 500)
    logits = rng.normal(size=(500, class_count)) + 1.5 * np.eye(class_count)[labels]
    learned = learn_confidence(labels=labels, logits=logits)
    most_flexible = "class offsets" if class_count == 2 else "runner-up"
    assert [result.name for result in learned.candidates] == ["baseline", "shrunk", most_flexible]
    assert learned(logits=logits).shape == (500,)


def test_temperature_and_norm_are_tried_if_asked_for_with_three_classes_only():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 500)
    logits = rng.normal(size=(500, 3)) + 1.5 * np.eye(3)[labels]
    asked = ["temperature", "p-norm", "logits", "class offsets"]
    learned = learn_confidence(labels=labels, logits=logits, candidates=asked)
    assert [result.name for result in learned.candidates] == ["baseline", *asked]
    with pytest.raises(InputError, match="temperature"):
        learn_confidence(labels == 0, logits=logits[:, :2], candidates=["temperature"])


def test_losses_below_zero_are_learned_from():
    rng = np.random.default_rng(0)
    signals = {"a": rng.random(400), "b": rng.random(400)}
    wrong = rng.random(400) < 0.5 * (1 - signals["a"])
    shifted = learn_confidence(loss=wrong - 1.0, signals=signals, contributions=False)
    plain = learn_confidence(loss=wrong.astype(float), signals=signals, contributions=False)
    assert shifted.kept == plain.kept


def test_no_rows_are_refused():
    with pytest.raises(InputError, match="needs labelled rows, got none"):
        learn_confidence([], signals={"a": []})


def test_it_comes_back_from_json_and_prints_itself(tmp_path):
    right, signals = two_signals()
    learned = learn_confidence(right, signals=signals)
    learned.save(tmp_path / "confidence.json")
    restored = LearnedConfidence.load(tmp_path / "confidence.json")
    assert repr(restored) == repr(learned)
    np.testing.assert_array_equal(restored(signals=signals), learned(signals=signals))
    assert "proven" in repr(learned)
    assert "minus baseline" in learned._repr_html_()
    assert learned.frame("dict")["kept"] == [False, True]


RIGHT, SIGNALS = two_signals(200)
ONE = {"token": SIGNALS["token"]}


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"signals": {"x": np.ones(200)}}, InputError, "'x' was left out: it is 1 in every row"),
        ({"signals": {"x": np.full(200, np.nan)}}, InputError, "missing in every row"),
        ({"features": SIGNALS}, InputError, "needs class scores or a signal that varies"),
        (
            {"signals": {"x": [np.inf, *range(199)]}},
            InputError,
            "must be finite or missing, got inf at index 0",
        ),
        ({"signals": {"x": ["a"] * 200}}, DtypeError, "Text goes into `categories`"),
        ({"signals": {"x": [1.0]}}, ShapeError, "one entry per row"),
        ({"signals": ONE, "features": ONE}, InputError, "a name must stand for one input"),
        ({"signals": ONE, "categories": {"id": np.arange(200) + 0.5}, "folds": 1}, InputError, "at least 2"),
        ({"signals": ONE, "candidates": ["signal"]}, InputError, 'Did you mean "signals"'),
        ({"signals": ONE, "clusters": np.arange(200) // 100}, InputError, "at least 5 clusters"),
        ({"signals": ONE, "sample_weight": -np.ones(200)}, InputError, "not negative"),
        ({}, InputError, "needs something to learn from"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, error, words):
    with pytest.raises(error, match="learn_confidence: ") as caught:
        learn_confidence(RIGHT, **arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("correct", "words"),
    [
        (np.ones(200, dtype=bool), "got 200 right and 0 wrong"),
        (np.arange(200) >= 5, "got 195 right and 5 wrong"),
        (np.full(200, 0.5), "`correct` must be True or False"),
        (np.ones(3), "one entry per row"),
    ],
)
def test_outcomes_that_cannot_be_learned_from_are_refused(correct, words):
    with pytest.raises(InputError) as caught:
        learn_confidence(correct, signals=ONE)
    assert words in str(caught.value)


def test_a_million_categories_are_refused():
    with pytest.raises(InputError, match="at most 1,000 different values, got 1,000,000"):
        learn_confidence(
            np.ones(10**6, dtype=bool),
            signals={"x": np.arange(10**6)},
            categories={"id": np.arange(10**6)},
        )


def test_copies_of_rows_stay_in_one_fold_and_are_noted():
    right, signals = two_signals(400)
    copies = {name: np.repeat(signal, 3) for name, signal in signals.items()}
    learned = learn_confidence(np.repeat(right, 3), signals=copies)
    assert any("800 rows repeat" in note for note in learned.notes)


@pytest.mark.parametrize("candidates", [[], ["baseline"], "baseline"])
def test_the_baseline_may_be_asked_for_alone(candidates):
    learned = learn_confidence(RIGHT, signals=SIGNALS, candidates=candidates)
    assert [result.name for result in learned.candidates] == ["baseline"]
    assert learned.kept == "baseline"
    assert LearnedConfidence.from_json(learned.to_json()).verdict == learned.verdict


@pytest.mark.parametrize("place", ["features", "signals", "categories", "gaps"])
def test_an_input_that_alone_says_what_is_right_is_told(place):
    right, signals = two_signals(300)
    number = np.random.default_rng(1).normal(size=len(right))
    inputs = {
        "signals": dict(signals),
        "features": {"noise": number},
        "categories": {"row": number.astype(str)},
    }
    learn_confidence(right, contributions=False, candidates=[], **inputs)  # no warning
    leak = {
        "features": np.where(right, -3 - number**2, number**2),
        "signals": right + 0.5 * np.tanh(number),
        "categories": np.where(right, np.where(number > 0, "a", "b"), "c"),
        "gaps": np.where(right, number, np.nan),
    }[place]
    inputs["features" if place == "gaps" else place]["leak"] = leak
    with pytest.warns(
        AbstainWarning, match="'leak' alone says which answers are right: is it made from the labels"
    ):
        learned = learn_confidence(right, contributions=False, candidates=[], **inputs)
    assert sum("alone says" in note for note in learned.notes) == 1


@pytest.mark.parametrize("place", ["categories", "features", "logits"])
def test_two_inputs_that_together_say_what_is_right_are_told(place):
    rng = np.random.default_rng(0)
    token = rng.normal(size=600)
    answer = rng.integers(0, 4, 600)
    # right answers are more often 0 than others, so that each input alone says something
    label = np.where(
        rng.random(600) < 0.4, answer, np.minimum(rng.integers(0, 4, 600), rng.integers(0, 4, 600))
    )
    columns = {"answer": answer, "label": label}
    signals = {"token": token + (answer == label)}
    settings = {"contributions": False, "candidates": ["signals"]}
    names = "'answer' and 'label'"
    if place == "logits":
        inputs = {"logits": np.eye(4)[answer] * (1 + rng.random((600, 1))), "categories": {"label": label}}
        names = "'label' and 'the predicted class'"
    elif place == "features":
        inputs = {"features": columns}
    else:
        inputs = {"categories": columns}
    with pytest.warns(AbstainWarning, match=f"{names} together say which answers are right: is one of them"):
        learned = learn_confidence(answer == label, signals=signals, **inputs, **settings)
    assert f"but {names} together say which answers are right." in learned.verdict
    assert LearnedConfidence.from_json(learned.to_json()).verdict == learned.verdict
    shuffled = {"answer": answer, "label": rng.permutation(label)}
    learn_confidence(answer == label, signals=signals, categories=shuffled, **settings)  # no warning


@pytest.mark.parametrize("class_count", [2, 10, 100])
@pytest.mark.parametrize("place", ["categories", "features", "logits"])
def test_a_prediction_and_its_label_are_told_where_many_pairs_of_them_occur_once(class_count, place):
    rng = np.random.default_rng(0)
    label = rng.integers(0, class_count, 300)
    right = rng.random(300) < 0.77
    answer = np.where(right, label, (label + rng.integers(1, class_count, 300)) % class_count)
    inputs = {"signals": {"token": rng.random(300) + 0.3 * right}}
    if place == "logits":
        inputs = {"logits": np.eye(class_count)[answer] * (1 + rng.random((300, 1)))}
        inputs |= {"categories": {"label": label}}
    elif place == "features" and class_count <= 50:
        inputs["features"] = {"label": label.astype(float)}  # 3.0 is equal to the category 3
        inputs["categories"] = {"reply": answer}
    else:
        inputs["categories"] = {"label": label, "reply": answer}
    with pytest.warns(AbstainWarning, match="'label'.* together say which answers are right: is one of them"):
        learn_confidence(right, **inputs, contributions=False, candidates=[])


def test_where_nearly_all_are_right_a_category_does_not_say_which():
    rng = np.random.default_rng(0)
    right = np.arange(20_000) >= 15
    token = rng.normal(size=20_000) + right
    topic = rng.choice(["law", "art"], 20_000)
    learn_confidence(
        right, signals={"token": token}, categories={"topic": topic}, contributions=False, candidates=[]
    )  # no warning
