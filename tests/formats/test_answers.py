"""From columns to a log: scales, agreement, grades, and answers without a label."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from abstain.cli import cli
from abstain.errors import AbstainWarning, DataError, InputError
from abstain.formats import read_predictions

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))

from written import (
    lines,
)

from abstain.formats import Rules, read_log
from abstain.formats.columns import UncertainError


def risk_of(path, **options) -> float:
    read = read_predictions(path, **options)
    return float(np.mean(read.own_or_zero_one_losses()))


@pytest.mark.parametrize("answers", [("ill", "well"), ("1", "0")])
def test_a_sample_without_a_label_is_no_error(tmp_path, answers):
    """Nobody knows whether its prediction is right: it is left out, and that is told."""
    yes, no = answers
    path = tmp_path / "t.csv"
    rows = [(yes, yes, 0.9), ("", yes, 0.8), (no, yes, 0.7), ("", no, 0.6), (no, no, 0.5), ("", "", 0.4)]
    path.write_text("label,prediction,confidence\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    read = read_predictions(path)
    assert "2 of 6 answers have no label (`label`) and are left out." in read.log.notes
    assert read.loss[~read.abstained].tolist() == [0, 1, 0]
    assert read.confidence[~read.abstained].tolist() == [0.9, 0.7, 0.5]
    told = CliRunner().invoke(cli, ["clinical", str(path), "--positive", yes, "--json"]).stdout
    assert json.loads(told)["specificity"]["of"][0] == 2
    path.write_text(
        f"label,prediction,correct,confidence\n{yes},{yes},1,0.9\n,{yes},0,0.8\n{no},{yes},0,0.7\n"
    )
    assert risk_of(path) == pytest.approx(
        2 / 3
    )  # where somebody judged the answer, a label need not be there


@pytest.fixture
def put(tmp_path):
    def write(name: str, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


def test_scores_that_are_no_correctness_are_refused(put):
    records = [
        {"doc_id": k, "resps": [["x"]], "filtered_resps": ["x"], "metrics": ["mae"], "mae": float("inf")}
        for k in range(3)
    ]
    with pytest.raises(
        UncertainError, match=r"nothing from 0 to 1 that says right or wrong.*-c correct=NAME"
    ):
        read_log(put("mae.jsonl", lines(records)))
    for record in records:
        record |= {"metrics": ["bleu_acc", "rouge_acc"], "bleu_acc": 1, "rouge_acc": 0}
    path = put("two.jsonl", lines(records))
    with pytest.raises(UncertainError, match=r"bleu_acc, rouge_acc. State one: -c correct=bleu_acc"):
        read_log(path)
    assert read_log(path, columns={"correct": "rouge_acc"}).accuracy == 0


ROWS = [  # question, truth, answer, stated, tokens
    (1, "A", "A", "90", "0.8"), (1, "A", "B", "60", "0.4"), (1, "A", "A", "90", "0.7"),
    (2, "B", "B", "0.95", "0.9"), (2, "B", "", "50", "0.2"), (3, "C", "C", "", "0.6"), (3, "C", "A", "75", ""),
]  # fmt: skip
COLUMNS = {"labels": "truth", "prediction": "answer", "question": "q"}


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "gpt-4.1-mini.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("q", "truth", "answer", "stated", "tokens"), *ROWS])
    return path


def test_scales_are_stated_and_never_guessed(table):
    columns = COLUMNS | {"confidence": "stated"}

    def stated(scale: str, **more: str) -> list[float]:
        return (
            read_log(table, columns=columns, rules=Rules(scale={"": scale}, **more))
            .signals["stated"]
            .tolist()
        )

    assert stated("percent")[:4] == pytest.approx([0.9, 0.6, 0.9, 0.0095])
    assert stated("mixed")[:4] == pytest.approx([0.9, 0.6, 0.9, 0.95])
    with pytest.raises(
        DataError, match=r"5 of 6 values of `stated` lie outside 0 to 1 \(such as 90\).*--outside missing"
    ):
        stated("fraction")
    assert np.isnan(stated("fraction", outside="missing")).sum() == 6
    raw = read_log(table, columns=columns).signals["stated"]
    assert raw[0] == 90  # only ranked
    with pytest.raises(InputError, match="`scale` must be one of"):
        Rules(scale={"": "per mille"})


@pytest.mark.parametrize("outside", [None, "missing"])
def test_fractions_are_no_percentages(tmp_path, outside):
    path = tmp_path / "t.csv"
    path.write_text("confidence,correct\n0.9,1\n0.25,0\n,1\n0.97,1\n")
    with pytest.raises(DataError, match=r"percentages, and its largest value is 0.97: .*--scale fraction"):
        read_log(path, rules=Rules(scale={"": "percent"}, outside=outside))
    path.write_text("confidence,correct\n0.9,1\n0.25,0\n,1\n97,1\n")
    assert read_log(path, rules=Rules(scale={"": "percent"})).signals["confidence"][3] == 0.97


@pytest.mark.parametrize("tasks", ["law", "law maths"])
def test_how_tasks_are_weighted_is_told(tmp_path, tasks):
    names = tasks.split()
    path = tmp_path / "t.csv"
    rows = [f"{row},{names[row % len(names)]},{row % 2},0.{row}" for row in range(1, 9)]
    path.write_text("\n".join(["question_id,task,correct,confidence", *rows]))
    told = " ".join(read_log(path).notes)
    assert ("2 tasks are one sample: every row counts once, so that long tasks weigh more." in told) == (
        len(names) > 1
    )


def test_agreement_over_repeats(table):
    log = read_log(table, columns=COLUMNS | {"confidence": "agreement"})
    assert log.signals["agreement"][[0, 1, 2, 3, 5, 6]].tolist() == pytest.approx(
        [2 / 3, 1 / 3, 2 / 3, 1 / 2, 1 / 2, 1 / 2]
    )
    assert np.isnan(log.signals["agreement"][4])


def test_agreement_says_what_it_needs_and_knows_long_numbers(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("q,correct,answer\n1234567,1,a\n1234568,0,b\n1234567,1,a\n1234568,1,c\n")
    with pytest.raises(DataError, match="-c question=NAME and -c prediction=NAME"):
        read_predictions(path, columns={"confidence": "agreement"})
    log = read_log(path, columns={"confidence": "agreement", "question": "q", "prediction": "answer"})
    assert log.signals["agreement"].tolist() == [1, 0.5, 1, 0.5]


@pytest.mark.parametrize(
    "roles", [{"prediction": "answer", "labels": "label"}, {"correct": "right", "answered": "a"}]
)
@pytest.mark.parametrize("names", ["p", "q,p"])
def test_an_infinite_confidence_is_refused_and_not_ranked_last(tmp_path, roles, names):
    path = tmp_path / "infinite.csv"
    rows = [
        "answer,label,right,a,p,q",
        "x,x,1,1,inf,0.1",
        "y,x,0,1,0.4,0.2",
        "x,x,1,1,inf,0.3",
        ",x,0,0,-inf,",
    ]
    path.write_text("\n".join(rows))
    with pytest.raises(DataError, match="the confidence `p` must be finite, got infinity in 2 rows"):
        read_predictions(path, columns={**roles, "confidence": names})
    path.write_text("\n".join(rows).replace(",inf,", ",0.9,"))
    assert read_log(path, columns={**roles, "confidence": names}).answered.tolist() == [True] * 3 + [False]


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        (["2 kg", "3 kg", "4 kg"], "the sample_weight must be numbers, got text such as '2 kg'"),
        (["2", "3", "4"], "the sample_weight must be numbers, got numbers in quotes"),
    ],
)
def test_weights_of_answers_must_be_numbers(put, weights, problem):
    """Words are no weights: their codes 0, 1, 2 would be counted as if they were."""
    rows = [{"answer": "a", "truth": "a", "sure": 0.9, "weight": weight} for weight in weights]
    columns = {"prediction": "answer", "labels": "truth", "confidence": "sure", "sample_weight": "weight"}
    path = put("weighted.json", rows)
    with pytest.raises(DataError, match=problem):
        read_predictions(path, columns=columns, rules=Rules(refusals=("IDK",)))
    numbers = [{**row, "weight": float(k + 2)} for k, row in enumerate(rows)]
    read = read_predictions(put("n.json", numbers), columns=columns, rules=Rules(refusals=("IDK",)))
    assert read.sample_weight.tolist() == [2, 3, 4]


def test_grades(tmp_path):
    path = tmp_path / "graded.csv"
    path.write_text("grade,conf\nA,0.9\nC,0.5\nB,0.2\nA,0.7\n")
    rules = Rules(grades={"A": "right", "B": "wrong", "C": "unanswered"})
    log = read_log(path, columns={"correct": "grade", "confidence": "conf"}, rules=rules)
    assert (log.loss[[0, 2, 3]].tolist(), log.answered.tolist()) == ([0, 1, 0], [True, False, True, True])
    with pytest.raises(DataError, match="--grades does not say what 'C' means"):
        read_log(path, columns={"correct": "grade"}, rules=Rules(grades={"A": "right", "B": "wrong"}))


def test_a_second_file_has_one_right_answer_to_each_question(tmp_path):
    """Neither a file of questions alone nor two answers to one question says what is right."""
    (tmp_path / "a.csv").write_text("question,prediction,confidence\nq1,A,0.9\nq2,B,0.4\n")
    columns = {"question": "question", "prediction": "prediction", "confidence": "confidence"}
    labels = tmp_path / "truth.csv"
    for text, reason in (
        ("question\nq1\nq2\n", "must have one column of right answers"),
        ("question,label\nq1,A\nq2,B\nq1,C\n", "has two answers to 'q1': 'A' and 'C'"),
    ):
        labels.write_text(text)
        with pytest.raises(DataError, match=reason):
            read_predictions(tmp_path / "a.csv", columns=columns, labels=labels)
    labels.write_text("question,label\nq1,A\nq2,A\nq1,A\n")
    assert read_predictions(tmp_path / "a.csv", columns=columns, labels=labels).loss.tolist() == [0, 1]


TRIALS = "task_id,trial,passed\n" + "".join(
    f"{k},{t},{int((k + t) % 3 > 0)}\n" for k in range(6) for t in range(4)
)


def test_trials_of_a_task_are_repeats_of_one_question(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(TRIALS)
    log = read_log(path, columns={"correct": "passed"})
    assert (log.questions, len(log.find_clusters())) == (6, 24)
    assert log.column_of_role["epoch"] == "trial"
    # without the numbers of the trials, repeats are a cluster, as those of `question` are
    path.write_text(TRIALS.replace("trial", "seconds").replace("passed", "correct"))
    with pytest.warns(
        AbstainWarning, match="`task_id` has 6 values in 24 rows: rows with one value are taken"
    ):
        assert read_log(path).questions == 6


@pytest.mark.parametrize("trial", ["trial", "trial_index", "Repeat"])
def test_trials_of_a_question_are_its_epochs(tmp_path, trial):
    path = tmp_path / "runs.csv"
    path.write_text(
        TRIALS.replace("trial", trial).replace("task_id", "question_id").replace("passed", "correct")
    )
    log = read_log(path)
    assert (log.column_of_role["question"], log.column_of_role["epoch"]) == ("question_id", trial)
    assert len(set(log.row_ids().as_texts().tolist())) == 24
    path.write_text(path.read_text() + "0,0,1\n")  # not every trial has its number
    assert read_log(path).column_of_role["epoch"] == "none"


def test_models_of_one_table_are_paired_by_question_and_trial(tmp_path):
    """As `evaluate` proposes it of a file with several models, whatever the metric; repeats are clusters."""
    rows = [
        f"{m},{k % 20},{k // 20},{int((k + m) % 3 > 0)},{k / 60:.2f}" for m in range(2) for k in range(60)
    ]
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(["model,question_id,trial,correct,confidence", *rows]))
    for metric in ("aurc", "accuracy"):
        result = CliRunner().invoke(cli, ["compare", str(path), "--by", "model", "--metric", metric])
        assert result.exit_code == 0, result.output
        assert "on the same 60 samples in 20 clusters" in " ".join(result.output.split())


def test_ids_that_stand_for_several_texts_are_no_ids_of_questions(tmp_path):
    """Two parts that number their questions anew; the text says which rows are of one question."""
    rows = [f"{k % 6},text {k % 12},{k % 3 > 0:d}" for k in range(24)]
    path = tmp_path / "parts.csv"
    path.write_text("\n".join(["question_id,question,correct", *rows]))
    with pytest.warns(AbstainWarning, match="one `question_id` stands for several texts of `question`"):
        log = read_log(path)
    assert (log.questions, log.column_of_role["question"]) == (12, "question")
    assert read_log(path, columns={"question": "question_id"}).questions == 6
    path.write_text(path.read_text().replace("question_id,", "doc_id,").replace("text 6", "text 0"))
    with pytest.warns(AbstainWarning, match="one `doc_id` stands"):
        assert read_log(path).questions == 11
    one_text_each = [f"{k % 6},text {k % 6},{k % 3 > 0:d}" for k in range(24)]
    path.write_text("\n".join(["question_id,question,correct", *one_text_each]))
    assert read_log(path).column_of_role["question"] == "question_id"


def test_a_task_of_many_questions_is_no_question(tmp_path):
    path = tmp_path / "subjects.csv"
    rows = [f"{k % 2},q{k},{k % 3 > 0:d}" for k in range(24)]
    path.write_text("\n".join(["task_id,question,correct", *rows]))
    assert read_log(path).find_clusters() is None  # every row is another question
    rows = [f"{k % 2},{k % 3 > 0:d}" for k in range(120)]
    path.write_text("\n".join(["task_id,correct", *rows]))
    assert read_log(path).find_clusters() is None


def test_an_id_in_several_tasks_is_several_questions(tmp_path):
    path = tmp_path / "runs.csv"
    rows = [f"{k % 6},{'ab'[k // 6 % 2]},1,{int(k % 3 > 0)}," for k in range(12)]
    path.write_text("\n".join(["id,task_name,epoch,correct,error", *rows]))
    assert read_log(path).find_clusters() is None
    # the same with two rows of each question
    path.write_text("\n".join(["id,task_name,epoch,correct,error", *rows, *rows]))
    log = read_log(path)
    assert (log.questions, log.n) == (12, 24)


def test_a_column_of_errors_without_any_is_not_the_role(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("id,error,answer\n1,,x\n2,,y\n")
    with pytest.raises(UncertainError, match="needs `logits` or `probs` with `labels`"):
        read_log(path)
    path.write_text("id,error,score\n1,,1\n2,,0\n")
    assert read_log(path, columns={"correct": "score"}).loss.tolist() == [0, 1]


@pytest.mark.parametrize(("yes", "no"), [("1", "0"), ("yes", "no")])
def test_an_empty_cell_of_a_column_of_yes_and_no_is_no(tmp_path, yes, no):
    path = tmp_path / "answers.csv"
    rows = [f"q1,1,0.9,{yes}", f"q2,1,0.8,{yes}", f"q3,0,0.2,{no}", "q4,0,0.3,"]
    path.write_text("\n".join(["question,correct,confidence,answered", *rows]))
    assert read_log(path).answered.tolist() == [True, True, False, False]


def test_results_in_objects_inside_records_are_told_of(tmp_path):
    rows = [{"metrics": {"success": bool(k % 2)}} for k in range(6)]
    suite = {"tests": {name: {"metrics": {"success": True}, "tests": ["x", 1]} for name in "abc"}}
    path = tmp_path / "report.json"
    path.write_text(json.dumps([*rows, suite]))
    notes = read_log(path, columns={"correct": "metrics.success"}).notes
    told = "3 further results are in objects inside the records (`tests.a.metrics.success` and others) and not read"
    assert any(note.startswith(told) for note in notes)
    path.write_text(json.dumps([*rows, {"name": "nothing inside"}]))
    assert not any("further" in note for note in read_log(path, columns={"correct": "metrics.success"}).notes)


def test_repeated_questions_are_counted_as_rows(tmp_path):
    path = tmp_path / "runs.csv"
    rows = [f"q{k % 5},{k % 3},{'' if k == 7 else 1}" for k in range(10)]
    path.write_text("\n".join(["question_id,label,prediction", *rows]))
    assert any(note.startswith("1 of 10 rows (10.0%) has no answer") for note in read_log(path).notes)
    path.write_text("\n".join(["label,prediction", *(row.partition(",")[2] for row in rows)]))
    assert any(note.startswith("1 of 10 questions (10.0%) has no answer") for note in read_log(path).notes)


def test_texts_of_rows_that_are_not_read_refuse_nothing(tmp_path):
    """`only` leaves out the rows of task b: neither their grade P nor their confidence in words counts."""
    path = tmp_path / "t.csv"
    path.write_text(
        "task,question_id,prediction,correct,confidence\n"
        "a,1,x,C,0.9\na,2,y,I,0.4\na,3,z,C,0.7\nb,4,x,P,high\nb,5,y,I,0.4\n"
    )
    log = read_log(path, rules=Rules(only={"task": "a"}, grades={"C": "right", "I": "wrong"}))
    assert log.loss.tolist() == [0, 1, 0]
    assert log.signals["confidence"].tolist() == [0.9, 0.4, 0.7]


def test_a_list_that_is_cut_says_how_many_are_left(tmp_path):
    path = tmp_path / "t.csv"
    topics = [f"topic {letter}" for letter in "abcdefghijklmn"]
    path.write_text("correct,confidence,topic\n" + "\n".join(f"1,0.5,{topic}" for topic in topics))
    with pytest.raises(DataError, match=r"topic g, topic h and 6 more\. Did you mean \"topic b\"\?"):
        read_predictions(path, rules=Rules(only={"topic": "Topic B"}))


@pytest.mark.parametrize(("verdicts", "right"), [(["1", "0", "1"], 2 / 3), (["1", "0", ""], 1 / 2)])
def test_a_second_file_of_verdicts_may_have_empty_cells(tmp_path, verdicts, right):
    answers = tmp_path / "answers.csv"
    answers.write_text("question,prediction,confidence\na,Paris,0.9\nb,Rome,0.8\nc,Oslo,0.3\n")
    second = tmp_path / "verdicts.csv"
    rows = zip("abc", verdicts)
    second.write_text("question,correct\n" + "".join(f"{question},{verdict}\n" for question, verdict in rows))
    predictions = read_predictions(answers, labels=second)
    assert 1 - np.mean(predictions.loss) == pytest.approx(right)
