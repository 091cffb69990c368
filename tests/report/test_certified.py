"""Thresholds with a promise on a page: which risks are shown, what is said of them, and the JSON that is saved."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

import abstain
from abstain.cli import cli
from abstain.formats import Predictions, read_predictions
from abstain.report import gather, page
from abstain.report.certified import describe_promise, describe_rule, pack_texts, rule_texts, share_text
from abstain.report.page_data import embedded, spans_decades


def make_predictions(n: int = 3000, error: float = 0.2, seed: int = 0, **fields) -> Predictions:
    """Right and wrong answers whose error rate falls in a straight line from `error` to 0 with the confidence."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    loss = (rng.random(n) < error * (1 - confidence)).astype(float)
    options = {"loss": loss, "confidence": confidence, "loss_name": "zero_one"} | fields
    return Predictions("mine", "t.csv", "csv", n, **options)


def certified(predictions: Predictions, **options):
    return gather([predictions], **options).models[0].certified


def test_risks_go_from_the_first_impossible_one_to_the_first_that_answers_everything():
    rules = certified(make_predictions()).rules
    risks = [rule.target for rule in rules]
    assert risks == sorted(risks)
    assert [rule.feasible for rule in rules] == [False] + [True] * (len(rules) - 1)
    assert [rule.coverage == 1 for rule in rules] == [False] * (len(rules) - 1) + [True]
    assert rules[-1].target == 0.15  # a tenth of the answers is wrong: 10% cannot be promised for all


def test_each_rule_is_that_of_select_threshold():
    predictions = make_predictions()
    for rule in certified(predictions, delta=0.1).rules:
        alone = abstain.select_threshold(
            predictions.loss, predictions.confidence, risk=rule.target, delta=0.1
        )
        assert (rule.value, rule.coverage, rule.guarantee) == (alone.value, alone.coverage, alone.guarantee)


def test_the_page_starts_at_five_percent_or_where_the_user_asks():
    predictions = make_predictions()
    usual = certified(predictions)
    assert usual.rules[usual.start].target == 0.05
    asked = certified(predictions, risk=0.037)
    assert asked.rules[asked.start].target == 0.037
    weak = certified(make_predictions(error=0.9))
    assert weak.rules[weak.start] == next(rule for rule in weak.rules if rule.feasible)
    good = certified(make_predictions(error=0.01))
    assert (good.rules[good.start].target, good.rules[good.start].coverage) == (0.01, 1.0)


def test_a_risk_that_is_too_small_says_how_many_labels_would_help():
    content = gather([make_predictions(n=600)], risk=0.03)
    model = content.models[0]
    rule = model.certified.rules[model.certified.start]
    assert not rule.feasible
    told = describe_rule(rule, model.predictions, "confidence", model.curve, is_zero_one=True)
    assert f"About {rule.advice.samples:,} labelled cases would be enough; there are 600 now." in told
    assert "At most 3% errors cannot be promised with these data." in page(content)


def test_nothing_can_be_promised_of_two_answers():
    content = gather([make_predictions(n=2, error=0.0)])
    [rule] = content.models[0].certified.rules
    assert (rule.target, rule.feasible) == (0.05, False)
    assert embedded(content)["models"][0]["packed"] is None
    assert "cannot be promised" in page(content)


def test_losses_without_bounds_have_no_promise_and_the_page_says_why():
    loss = np.random.default_rng(0).gamma(2.0, size=200)
    content = gather([make_predictions(n=200, loss=loss, loss_name="loss")])
    assert content.models[0].certified.rules == ()
    html = page(content)
    assert "No threshold with a promise for mine." in html
    assert "bounded=(low, high)" in html


def test_the_promise_in_one_sentence():
    predictions = make_predictions()
    rule = abstain.select_threshold(predictions.loss, predictions.confidence, risk=0.05)
    share = round(100 * rule.coverage)
    expected = f"Answer {share}% of the cases: then at most 5% of the answers are wrong (promised with 95% confidence)."
    assert describe_promise(rule, 1.0, is_zero_one=True) == expected
    half = describe_promise(rule, 0.5, is_zero_one=True)  # the model answered half of the cases at all
    assert half.startswith(f"Answer {share_text(0.5 * rule.coverage)} of the cases: ")
    everything = abstain.select_threshold(predictions.loss, predictions.confidence, risk=0.5)
    assert "Answer everything: then" in describe_promise(everything, 1.0, is_zero_one=True)
    assert "everything" not in describe_promise(everything, 0.9, is_zero_one=True)
    of_losses = describe_promise(rule, 1.0, is_zero_one=False)
    assert ": then the mean loss of the answers is at most 0.05 (promised" in of_losses


@pytest.mark.parametrize(
    ("share", "shown"), [(0.0005, "0.05%"), (0.99999, "99.999%"), (0.046, "4.6%"), (0.0, "0%")]
)
def test_shares_as_people_say_them(share, shown):
    assert share_text(share) == shown


def test_abstained_samples_stay_out_of_the_promise():
    abstained = np.arange(3000) % 10 == 0
    content = gather([make_predictions(abstained=abstained)])
    steps = content.models[0].certified
    assert steps.answered_share == pytest.approx(0.9)
    assert steps.rules[-1].n == 2700
    data = embedded(content)["models"][0]
    for rule, step in zip(steps.rules, data["rules"]):
        if rule.feasible:
            accepted = data["steps"]["accepted"][step["step"]]
            assert accepted == round(rule.coverage * 2700)  # the slider has a step at exactly this threshold


def test_saved_rule_is_what_the_command_saves(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 800)
    logits = rng.normal(size=(800, 3)) + 3 * np.eye(3)[labels]
    np.savez(tmp_path / "m.npz", logits=logits, labels=labels)
    rule_path = tmp_path / "rule.json"
    cli(
        ["threshold", str(tmp_path / "m.npz"), "--risk", "0.03", "--save", str(rule_path), "-q"],
        standalone_mode=False,
    )
    command = json.loads(rule_path.read_text())["origin"]["command"]
    model = gather([read_predictions(tmp_path / "m.npz")], risk=0.03).models[0]
    texts = rule_texts(model.certified, model.predictions, model.score, model.loss, command)
    assert texts[model.certified.start] == rule_path.read_text()


def test_packed_texts_share_what_they_have_in_common():
    model = gather([make_predictions()]).models[0]
    texts = rule_texts(model.certified, model.predictions, model.score, model.loss, "")
    packed = pack_texts(texts)
    shared, *shortened = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert [text.replace("\u0001", shared) for text in shortened] == texts
    assert len(packed) < 0.4 * sum(map(len, texts))
    assert texts[0] == ""  # the risk that cannot be promised


def test_log_scale_where_risks_span_decades():
    flat = gather([make_predictions(error=0.9)]).models
    assert not spans_decades(flat)
    rng = np.random.default_rng(0)
    confidence = rng.random(20_000)
    steep = make_predictions(
        n=20_000, confidence=confidence, loss=(rng.random(20_000) < (1 - confidence) ** 6).astype(float)
    )
    assert spans_decades(gather([steep]).models)


def test_reliability_only_where_a_confidence_is_a_probability(tmp_path):
    predictions = make_predictions()
    curve = gather([predictions]).models[0].reliability
    alone = abstain.calibration.reliability_curve(1 - predictions.loss, predictions.confidence)
    assert curve == alone
    beyond = make_predictions(confidence=10 * predictions.confidence, loss=predictions.loss)
    content = gather([beyond])
    assert content.models[0].reliability is None
    assert 'id="reliability"' not in page(content)
    logits = np.random.default_rng(0).normal(size=(90, 3))
    np.savez(tmp_path / "m.npz", logits=logits, labels=np.append(logits.argmin(1)[:1], logits.argmax(1)[1:]))
    data = read_predictions(tmp_path / "m.npz")
    largest = np.exp(logits).max(axis=1) / np.exp(logits).sum(axis=1)
    drawn = gather([data]).models[0].reliability
    assert np.average(drawn.confidence, weights=drawn.count) == pytest.approx(largest.mean(), rel=1e-6)
    assert gather([data], score="max_logit").models[0].reliability is None


def test_the_commands_of_a_page_read_files_as_the_page_did():
    content = gather([make_predictions()])
    command = "abstain report t.csv -c confidence=p -c correct=ok --scale percent --labels y.csv --only part=1 -o page.html"
    (model,) = embedded(content, command)["models"]
    assert model["apply"] == "abstain decide rule.json NEW_FILE -c confidence=p --scale percent"
    assert model["make"] == (
        "abstain threshold t.csv -c confidence=p -c correct=ok --scale percent --labels y.csv --only part=1"
    )
    (plain,) = embedded(content)["models"]
    assert (plain["apply"], plain["make"]) == ("abstain decide rule.json NEW_FILE", "abstain threshold t.csv")


def typed_threshold(shown: str):
    """What a number on the page accepts, as a function of the confidences that people know."""
    if shown.startswith("above "):
        return lambda values: values > float(shown.removeprefix("above "))
    return lambda values: values >= float(shown)


@pytest.mark.parametrize("decimals", [1, 3, 12])
def test_the_numbers_of_the_page_accept_what_it_says(decimals):
    predictions = make_predictions(n=4000)
    rounded = np.round(predictions.confidence, decimals)
    content = gather([replace(predictions, confidence=rounded)])
    model = content.models[0]
    steps = embedded(content)["models"][0]["steps"]
    for shown, accepted in zip(steps["threshold_text"], steps["accepted"]):
        assert np.count_nonzero(typed_threshold(shown)(rounded)) == accepted
    data = embedded(content)["models"][0]
    for rule, step in zip(model.certified.rules, data["rules"]):
        if rule.feasible and rule.coverage < 1:
            shown = steps["threshold_text"][step["step"]]
            assert (
                f"Answer where the confidence is {shown if 'above' in shown else f'at least {shown}'}."
                in step["facts"]
            )


def test_probabilities_of_the_page_accept_what_it_says():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 3000)
    logits = 4 * rng.normal(size=(3000, 3)) + 6 * np.eye(3)[labels]
    content = gather([Predictions("mine", "m.npz", "npz", 3000, logits=logits, labels=labels)])
    steps = embedded(content)["models"][0]["steps"]
    distances = np.exp(-abstain.scores.max_softmax(logits))  # from probability 1
    for shown, accepted in zip(steps["threshold_text"], steps["accepted"]):
        number = shown.removeprefix("1 − ")
        is_accepted = distances <= float(number) if number != shown else 1 - distances >= float(number)
        assert np.count_nonzero(is_accepted) == accepted
