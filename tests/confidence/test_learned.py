from __future__ import annotations

import json
import re

import numpy as np
import pytest

from abstain.confidence import LearnedConfidence, learn_confidence
from abstain.errors import AbstainWarning, DataError, InputError


@pytest.fixture(scope="module")
def learned():
    rng = np.random.default_rng(0)
    token = rng.normal(size=500)
    topic = rng.choice(["law", "art"], 500)
    right = 2 * token + (topic == "law") + rng.logistic(size=500) > 0
    return learn_confidence(right, signals={"token": token}, categories={"topic": topic})


def test_unknown_levels_and_other_distributions_are_told(learned):
    with pytest.warns(AbstainWarning, match="1 of 1 rows have a 'topic' that was not seen"):
        learned(signals={"token": [0.0]}, categories={"topic": ["music"]})
    shifted = 3 + np.random.default_rng(1).normal(size=200)
    with pytest.warns(AbstainWarning, match="'token' is distributed otherwise than in learning"):
        learned(signals={"token": shifted}, categories={"topic": ["law"] * 200})


def test_rows_without_an_answer_are_not_compared_with_those_learned_from(learned):
    rng = np.random.default_rng(1)
    abstained = np.arange(400) >= 300
    inputs = {
        "signals": {"token": rng.normal(size=400)},
        "categories": {"topic": np.where(abstained, "music", "law")},
    }
    with pytest.warns(AbstainWarning, match="100 of 400 rows have a 'topic'"):
        expected = learned(**inputs)
    assert learned(**inputs, abstained=abstained).tolist() == expected.tolist()  # no warning
    for wrong in (abstained[:3], abstained * 0.5):
        with pytest.raises(InputError, match="`abstained` must be True or False for each of 400 rows"):
            learned(**inputs, abstained=wrong)


def test_an_input_that_is_not_there_is_refused_and_further_ones_are_ignored(learned):
    with pytest.raises(InputError, match="Pass 'topic' too, with NaN in rows that lack it"):
        learned(signals={"token": [1.0]})
    extra = learned(signals={"token": [1.0], "other": [7.0]}, categories={"topic": ["law"]})
    assert extra.tolist() == learned(signals={"token": [1.0]}, categories={"topic": ["law"]}).tolist()


def test_torch_tensors_come_back_as_tensors(learned):
    torch = pytest.importorskip("torch")
    result = learned(signals={"token": torch.tensor([1.0, 2.0])}, categories={"topic": ["law", "art"]})
    assert isinstance(result, torch.Tensor)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda record: record.update(kept="trees"), "verdict|kept"),
        (lambda record: record.update(fingerprint="0" * 16), "fingerprint"),
        (lambda record: record["model"]["linear"]["weights"].__setitem__(0, 99.0), "fingerprint"),
        (lambda record: record["model"]["linear"]["weights"].pop(), "must be one function of the inputs"),
        (lambda record: record["model"]["linear"]["scale"].__setitem__(0, 0.0), "number from 0"),
        (lambda record: record["candidates"].pop(), "verdict|kept"),
        (lambda record: record.update(format="abstain.LearnedConfidence/0"), "not a stored confidence"),
        (lambda record: record.update(level=0.9), "checksum|verdict"),
        (lambda record: record.update(n=3), "`n` must be that of `model`"),
        (lambda record: record.pop("fitted"), "fitted is missing"),
    ],
)
def test_a_tampered_file_is_refused_in_one_line(learned, change, words):
    record = json.loads(learned.to_json())
    change(record)
    with pytest.raises(DataError, match=words) as caught:
        LearnedConfidence.from_json(json.dumps(record))
    assert "\n" not in str(caught.value)


def test_the_verdict_says_what_was_kept_and_why(learned):
    assert learned.verdict.startswith("'signals' was kept: AURC ")
    assert "proven at level 0.95" in learned.verdict
    assert learned.result.name == "signals"
    assert learned.contributions_frame("dict")["name"] == ["token", "topic"]


def test_the_verdict_names_inputs_that_alone_say_which_answers_are_right():
    rng = np.random.default_rng(6)
    token, noise = rng.normal(size=(2, 300))
    right = token + rng.logistic(size=300) > 0
    leaks = {"judged": right + 0.1 * noise, "graded": right + 0.05 * noise}
    with pytest.warns(AbstainWarning, match="alone says which"):
        leaking = learn_confidence(right, signals={"token": token}, features=leaks, contributions=False)
    assert leaking.proven
    said = r"proven on these rows at level 0\.95 \(p = .*\), but each of 'judged', 'graded' alone says which answers"
    assert re.search(said, leaking.verdict)
    assert LearnedConfidence.from_json(leaking.to_json()).verdict == leaking.verdict


def test_shipped_weights_are_not_named_where_the_mean_of_ranks_is_as_good_as_the_baseline():
    rng = np.random.default_rng(6)
    level = rng.integers(1, 6, size=150).astype(float)
    length = rng.normal(size=150)
    right = level - 3 + 0.9 * length + 2 * rng.normal(size=150) > 0
    # two signals of the same order, so that the mean of their ranks has the AURC of either
    learned = learn_confidence(
        right, signals={"a": level, "b": 2 * level}, features={"length": length}, contributions=False
    )
    assert learned.kept == "combined"
    assert learned.result.difference == 0.0
    assert "shipped" not in learned.verdict
