"""Real runs of Inspect with a scripted model: what its log says beside a brute-force definition of the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from inspect_ai import Epochs, Task, eval  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import SampleScore, Score, match
from inspect_ai.solver import generate

from abstain.errors import InputError
from abstain.formats import read_log, read_predictions
from abstain.inspect_ai import (
    answer_score,
    aurc,
    calibration_error,
    pass_k,
    risk_at_coverage,
    with_confidence,
)

RNG = np.random.default_rng(4)
STATED = RNG.integers(30, 100, 60)
RIGHT = RNG.random(60) < STATED / 100


def by_definition(wrong: np.ndarray, sure: np.ndarray) -> float:
    """The mean, over samples, of the risk of everything that is at least as sure."""
    return float(np.mean([wrong[sure >= g].mean() for g in sure]))


def replies(count: int = 60):
    for k in range(count):
        answer = k % 20 + (1 if RIGHT[k] else 2)
        found = ModelOutput.from_content("mockllm/model", f"confidence: {STATED[k]}\n{answer}")
        found.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        yield found


def run(folder, epochs: int = 1, **scorer):
    samples = [
        Sample(input=f"{k} + 1?", target=str(k + 1), id=k, metadata={"impossible": k % 4 == 0})
        for k in range(20)
    ]
    task = Task(dataset=samples, solver=generate(), epochs=Epochs(epochs), **scorer)
    model = get_model("mockllm/model", custom_outputs=list(replies(20 * epochs)))
    [log] = eval(task, model=model, display="none", log_dir=str(folder), max_samples=1)
    assert log.status == "success", log.error
    return log


def values(log) -> dict[str, float]:
    return {name: found.value for part in log.results.scores for name, found in part.metrics.items()}


def test_a_task_in_ten_lines(tmp_path):
    log = run(tmp_path, scorer=with_confidence(match(), r"confidence: *(\d+)"))
    found, wrong = values(log), 1.0 - RIGHT[:20]
    assert found["accuracy"] == pytest.approx(RIGHT[:20].mean())
    assert found["aurc"] == pytest.approx(by_definition(wrong, STATED[:20]), abs=1e-12)
    assert found["aurc_low"] < found["aurc"] < found["aurc_high"]
    assert found["risk_at_0.8_low"] <= found["risk_at_0.8"] <= found["risk_at_0.8_high"]


def test_epochs_are_clusters(tmp_path):
    log = run(tmp_path, epochs=3, scorer=with_confidence(match(), r"confidence: *(\d+)"))
    found = values(log)
    rows = [s.scores["with_confidence"] for s in log.samples]
    wrong = np.array([s.value != "C" for s in rows], float)
    sure = np.array([s.metadata["confidence"] for s in rows])
    assert len(rows) == 60
    assert found["aurc"] == pytest.approx(by_definition(wrong, sure), abs=1e-12)


def test_the_log_it_wrote_is_read_alike(tmp_path):
    log = run(tmp_path, scorer=with_confidence(match(), r"confidence: *(\d+)"))
    name = "with_confidence.metadata.confidence"
    read = read_predictions(log.location, columns={"confidence": name})
    assert read_log(log.location).accuracy == pytest.approx(RIGHT[:20].mean())
    assert by_definition(read.loss, read.confidence) == pytest.approx(values(log)["aurc"], abs=1e-12)


def scores(*pairs):
    return [
        SampleScore(score=Score(value=v, metadata={} if c is None else {"confidence": c})) for v, c in pairs
    ]


def test_refusals_and_answers_without_confidence():
    told = scores(("C", 0.9), ("N", None), ("I", 0.2), ("C", 0.5), ("P", None))
    # thresholds accept one to four answers, never the refusal; the last has no confidence and is ranked last
    assert aurc()(told)["aurc"] == pytest.approx(np.mean([0, 0, 1 / 3, 1.5 / 4]))
    assert aurc(unanswered="wrong")(scores(("C", 0.9), ("N", None)))["aurc"] == pytest.approx(
        np.mean([0, 0.5])
    )
    assert risk_at_coverage(0.5)(scores(("C", 0.9), ("I", 0.2)))["risk_at_0.5"] == 0


def test_scores_of_graded_answers():
    told = scores(("C", None), ("C", None), ("I", None), ("N", None))
    assert answer_score("simpleqa_f")(told)["simpleqa_f"] == pytest.approx(4 / 7)
    found = answer_score("score_at_target@0.75")(told)
    assert found["score_at_target@0.75"] == pytest.approx(2 / 4 - 3 / 4)
    assert found["score_at_target@0.75_low"] < found["score_at_target@0.75"]
    repeated = [
        SampleScore(score=Score(value=grade), sample_id=sample) for grade, sample in zip("CICCII", "aabbcc")
    ]
    found = pass_k(2)(repeated)
    assert (found["pass_at@2"], found["pass_all@2"]) == pytest.approx((2 / 3, 1 / 3))


def test_new_scores_inside_a_run(tmp_path):
    scorer = with_confidence(match(), r"confidence: *(\d+)")
    metrics = [
        answer_score("score_at_target@0.75"),
        answer_score("abstention_recall", unanswerable="impossible"),
        pass_k(3),
        calibration_error(scale="percent"),
    ]
    log = run(tmp_path, epochs=3, scorer=scorer, metrics=metrics)
    found = values(log)
    rows = [sample.scores["with_confidence"] for sample in log.samples]
    right = np.array([row.value == "C" for row in rows], float)
    questions = np.array([sample.id for sample in log.samples])
    right_of_question = np.stack([right[questions == question] for question in np.unique(questions)])
    assert found["score_at_target@0.75"] == pytest.approx(right.mean() - 3 * (1 - right.mean()))
    assert found["pass_at@3"] == pytest.approx(right_of_question.any(axis=1).mean())
    assert found["pass_all@3"] == pytest.approx(right_of_question.all(axis=1).mean())
    assert found["abstention_recall"] == 0  # every question was attempted
    assert 0 <= found["calibration_error_low"] <= found["calibration_error"]


def test_abstentions_are_compared_with_what_the_samples_say():
    graded = [
        SampleScore(score=Score(value=grade), sample_metadata={"unanswerable": without_answer})
        for grade, without_answer in [("N", True), ("N", True), ("I", True), ("N", False), ("C", False)]
    ]
    assert answer_score("abstention_recall")(graded)["abstention_recall"] == pytest.approx(2 / 3)
    assert answer_score("abstention_precision")(graded)["abstention_precision"] == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="say true or false under 'impossible', got None"):
        answer_score("abstention_recall", unanswerable="impossible")(graded)


def test_calibration_of_stated_numbers():
    told = scores(*[("C" if k % 5 else "I", 80) for k in range(100)])
    found = calibration_error(scale="percent")(told)
    assert found["calibration_error"] == 0
    assert found["calibration_error_high"] < 0.15
    with pytest.raises(InputError, match="probability from 0 to 1"):
        calibration_error()(told)
    fractions = [("C" if k % 5 else "I", 0.8) for k in range(8)]
    with pytest.raises(InputError, match=r"largest value is 0\.8: these are fractions\. Leave scale"):
        calibration_error(scale="percent")(scores(*fractions))
    # a run that has just begun may have small percentages only
    assert calibration_error(scale="percent")(scores(*fractions[:7]))["calibration_error"] > 0.5


def test_a_run_that_has_just_begun_has_no_values_and_goes_on():
    assert aurc()(scores(("C", 0.9))) == {}
    assert risk_at_coverage()(scores(("N", 0.9), ("N", 0.8))) == {}
    assert answer_score()(scores(("C", None))) == {}
    assert pass_k(2)(scores(("C", None), ("I", None))) == {}
    # "X" is no grade: nothing of these is scored, and nothing but the first of the next
    for begun in (scores(*[("X", 0.5)] * 4), scores(("C", 0.9), *[("X", 0.5)] * 3)):
        for metric in (aurc(), risk_at_coverage(), answer_score(), calibration_error(), pass_k(1)):
            assert metric(begun) == {}


def test_what_cannot_be_measured_is_said():
    with pytest.raises(InputError, match="Wrap the scorer"):
        aurc()(scores(("C", None)))
    with pytest.raises(InputError, match="one number or letter"):
        aurc()([SampleScore(score=Score(value={"a": 1}, metadata={"confidence": 1}))])
