"""Direction: uncertainties are turned round, scores are not read as losses, and a wrong direction is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
from written import inspect_json

import abstain
from abstain.cli import cli
from abstain.errors import DataError
from abstain.formats import Limits, Rules, read_files, read_log, read_predictions

N = 400
RNG = np.random.default_rng(3)
ENTROPY = RNG.random(N)
CORRECT = (RNG.random(N) > ENTROPY).astype(int)


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "t.csv"
    rows = [f"{c},{e!r},{1 - e / 2!r},{c * 0.5 + 0.25}" for c, e in zip(CORRECT, ENTROPY.tolist())]
    path.write_text("\n".join(["ok,mean_entropy,tail_entropy,judge_score", *rows]))
    return path


def run(*arguments: object):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_an_uncertainty_is_a_confidence_with_the_other_sign(table):
    area = abstain.aurc(1 - CORRECT, -ENTROPY)
    for columns in ({"uncertainty": "mean_entropy"}, {"confidence": "-mean_entropy"}):
        read = read_predictions(table, columns={"correct": "ok"} | columns)
        assert abstain.aurc(read.loss, read.confidence) == area
    for flag in ("uncertainty=mean_entropy", "confidence=-mean_entropy"):
        assert float(run("evaluate", table, "-c", "correct=ok", "-c", flag, "-q").stdout) == area


def test_an_engine_refuses_another_sign(table):
    shown = run("evaluate", table, "-c", "correct=ok", "-c", "uncertainty=mean_entropy", "--engine", "files")
    assert (shown.exit_code, "--engine reads columns as they are" in shown.output) == (2, True)


def test_patterns_and_several_directions_at_once(table):
    read = read_predictions(table, columns={"correct": "ok", "uncertainty": "*_entropy"})
    assert list(read.signals) == ["-mean_entropy", "-tail_entropy"]
    columns = {"correct": "ok", "confidence": "tail_entropy", "uncertainty": "mean_entropy"}
    read = read_predictions(table, columns=columns)
    assert list(read.signals) == ["tail_entropy", "-mean_entropy"]


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate"],
        ["compare", "-c", "confidence=tail_entropy"],
        ["threshold", "--risk", "0.4"],
        ["cascade", "--cost", "1", "--person-cost", "9", "--person-error", "0", "--risk", "0.4"],
    ],
    ids=lambda command: command[0],
)
def test_a_confidence_that_ranks_worse_than_chance_is_told(table, command):
    shown = run(command[0], table, *command[1:], "-c", "correct=ok", "-c", "confidence=mean_entropy")
    assert "worse than chance" in " ".join(shown.output.split())
    if command[0] != "compare":
        turned = run(command[0], table, *command[1:], "-c", "correct=ok", "-c", "uncertainty=mean_entropy")
        assert "worse than chance" not in " ".join(turned.output.split())


def test_a_score_is_not_read_as_a_loss(table):
    columns = {"loss": "judge_score", "uncertainty": "mean_entropy"}
    with pytest.raises(DataError, match="State -c correct=judge_score") as refused:
        read_predictions(table, columns=columns)
    assert "\n" not in str(refused.value)
    read = read_predictions(table, columns={"correct": "judge_score", "uncertainty": "mean_entropy"})
    assert read.loss_name == "partial_credit"
    assert read.loss.tolist() == (0.75 - 0.5 * CORRECT).tolist()


@pytest.mark.parametrize(("name", "is_loss"), [("brier_score", True), ("nll", True), ("exact_match", False)])
def test_names_that_say_a_direction(tmp_path, name, is_loss):
    path = tmp_path / "t.csv"
    path.write_text(f"{name},confidence\n0.5,0.9\n0.1,0.2\n")
    if is_loss:
        assert read_predictions(path, columns={"loss": name}).loss.tolist() == [0.5, 0.1]
    else:
        with pytest.raises(DataError, match="larger is better"):
            read_predictions(path, columns={"loss": name})


def test_correctness_outside_0_to_1_is_refused_or_divided(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("correct,confidence\n0.5,0.9\n7,0.2\n")
    with pytest.raises(DataError, match=r"between 0 \(wrong\) and 1 \(right\), got 7 in row 2"):
        read_predictions(path)
    assert read_predictions(path, columns={"correct": "correct/10"}).loss.tolist() == pytest.approx(
        [0.95, 0.3]
    )
    path.write_text("preference,confidence\n1,0.9\n1.75,0.2\n")  # 2 where the second answer is better
    assert read_predictions(path, columns={"correct": "preference-1"}).loss.tolist() == [1, 0.25]
    with pytest.raises(DataError, match="has no column `score/10` for the correct"):
        read_predictions(path, columns={"correct": "score/10"})


WORDS = ["A", "IDK", "b", "I don't know.", "", " idk ", "I do not know the answer", "B"]
LABELS = ["A", "A", "b", "B", "A", "B", "A", "A"]


@pytest.fixture
def answers(tmp_path) -> Path:
    path = tmp_path / "answers.csv"
    rows = [f"{label},{word},{0.9 - 0.1 * k:.1f}" for k, (label, word) in enumerate(zip(LABELS, WORDS))]
    path.write_text("\n".join(["truth,said,sure", *rows]))
    return path


COLUMNS = {"labels": "truth", "prediction": "said", "confidence": "sure"}


def test_refusals_in_words_are_not_wrong(answers):
    plain = read_log(answers, columns=COLUMNS)
    assert plain.answered.tolist() == [True] * 4 + [False] + [True] * 3
    refused = Rules(refusals=["IDK", "I don't know", "I do not know*"])
    log = read_log(answers, columns=COLUMNS, rules=refused)
    assert log.answered.tolist() == [True, False, True, False, False, False, False, True]
    assert log.accuracy_answered == pytest.approx(2 / 3)
    assert any("IDK 2, I don't know 1, I do not know* 1" in note for note in log.notes)
    asked = read_predictions(answers, columns=COLUMNS, rules=Rules(refusals=["IDK"], unanswered="wrong"))
    assert asked.loss.tolist() == [0, 1, 0, 1, 1, 1, 1, 1]


def test_refusals_on_the_command_line(answers):
    flags = [flag for role, name in COLUMNS.items() for flag in ("-c", f"{role}={name}")]
    shown = run("describe", answers, *flags, "--refusals", "IDK,I don't know", "--json")
    description = json.loads(shown.stdout)
    assert description["unanswered"] == pytest.approx(4 / 8)
    assert "--refusals" in description["commands"][0]


def test_refusals_need_predictions(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("correct,confidence\n1,0.9\n0,0.2\n")
    with pytest.raises(DataError, match="--refusals needs a column of predictions"):
        read_predictions(path, rules=Rules(refusals=["IDK"]))


def test_a_class_that_means_abstention(tmp_path):
    probs = np.array([[0.7, 0.1, 0.2], [0.1, 0.2, 0.7], [0.3, 0.6, 0.1], [0.2, 0.3, 0.5]])
    np.savez(tmp_path / "p.npz", probs=probs, labels=[0, 0, 1, 1], classes=["A", "B", "E"])
    read = read_predictions(tmp_path / "p.npz", rules=Rules(refusals=["E"]))
    assert read.abstained.tolist() == [False, True, False, True]
    with pytest.raises(DataError, match="'F', which is not one of the classes: A, B, E"):
        read_predictions(tmp_path / "p.npz", rules=Rules(refusals=["F"]))


def test_grades_may_be_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("grade,confidence\n1,0.9\n2,0.2\n3,0.4\n,0.3\n")
    grades = {"1": "right", "2": "wrong", "3": "unanswered"}
    log = read_log(path, columns={"correct": "grade"}, rules=Rules(grades=grades))
    assert log.scored.tolist() == [True, True, True, False]  # an empty grade is no verdict
    answered = log.answered[log.scored].tolist()
    assert (answered, log.losses_with_unanswered_wrong(log.scored & log.answered).tolist()) == (
        [True, True, False],
        [0, 1],
    )


def test_a_rule_is_applied_to_new_data_with_the_same_refusals(tmp_path, answers):
    new = read_files.read_unlabelled(
        answers, columns=COLUMNS, kind=None, format=None, limits=Limits(), rules=Rules(refusals=["IDK"])
    )[0]
    assert new.abstained.tolist() == [False, True, False, False, True, True, False, False]
    probs = np.array([[0.7, 0.1, 0.2], [0.1, 0.2, 0.7]])
    np.savez(tmp_path / "p.npz", probs=probs, classes=["A", "B", "E"])
    new = read_files.read_unlabelled(
        tmp_path / "p.npz", columns={}, kind=None, format=None, limits=Limits(), rules=Rules(refusals=["E"])
    )[0]
    assert new.abstained.tolist() == [False, True]


@pytest.mark.parametrize("words", [("GOOD", "BAD", "SKIP"), ("C", "I", "N"), (5, 1, 3)])
def test_scorers_of_inspect_grade_by_words_letters_or_numbers(tmp_path, words):
    log = inspect_json()
    for k, sample in enumerate(log["samples"]):
        sample["scores"] = {"judge": {"value": words[k % 3], "answer": f"a{k}"}}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(log))
    grades = dict(zip(map(str, words), ("wrong", "right", "unanswered")))  # the other way round than C and I
    read = read_log(path, columns={"correct": "judge"}, rules=Rules(grades=grades))
    assert read.answered.tolist() == [True, True, False] * 2
    assert read.losses_with_unanswered_wrong(read.answered).tolist() == [1, 0, 1, 0]
    refused = Rules(refusals=["a1"], grades=grades)
    assert not read_log(path, columns={"correct": "judge"}, rules=refused).answered[1]
