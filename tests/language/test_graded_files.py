"""Files of right and wrong answers without a confidence, on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.evaluation import compare_answers, evaluate_answers

GRADES = ["-c", "correct=grade", "--grades", "A=right,B=wrong,C=unanswered"]


@pytest.fixture
def files(tmp_path):
    """Three models on 200 questions, each with its grades, and one with two attempts at each."""
    rng = np.random.default_rng(0)
    paths = {}
    for name, chances in {"good": (0.7, 0.2, 0.1), "middle": (0.6, 0.2, 0.2), "bad": (0.3, 0.6, 0.1)}.items():
        grades = rng.choice(list("ABC"), 200, p=chances)
        paths[name] = tmp_path / f"{name}.csv"
        lines = [f"{number},{grade},{'xy'[number % 2]}" for number, grade in enumerate(grades)]
        paths[name].write_text("\n".join(["id,grade,part", *lines]) + "\n")
    return paths


def run(*arguments) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def graded(path):
    grades = np.array([line.split(",")[1] for line in path.read_text().splitlines()[1:]])
    return (grades == "A").astype(float), grades != "C"


def test_evaluate_prints_the_scores_of_the_answers(files):
    told = run("evaluate", files["good"], *GRADES, "-c", "groups=part", "--price", "3", "--json")
    table = abstain.Evaluation.from_json(told)
    correct, answered = graded(files["good"])
    expected = evaluate_answers(correct, answered=answered)
    for entry in expected.entries:
        assert table[entry.metric].estimate == pytest.approx(entry.estimate)
    assert table["score_at_price@3"].estimate == pytest.approx(
        correct.mean() - 3 * (answered.mean() - correct.mean())
    )
    assert table.groups == ("x", "y")
    assert table.abstained == pytest.approx(1 - answered.mean())
    shown = run("evaluate", files["good"], *GRADES)
    assert "F (SimpleQA)" in shown
    assert "No confidence is read" in shown
    assert float(run("evaluate", files["good"], *GRADES, "-q")) == pytest.approx(correct.mean())


def test_compare_ranks_by_accuracy_if_nothing_else_can_be_ranked(files):
    told = json.loads(run("compare", *files.values(), *GRADES, "-c", "ids=id", "--json"))
    expected = compare_answers({name: graded(path) for name, path in files.items()})
    assert [contestant["name"] for contestant in told["contestants"]] == list(expected.names)
    assert told["metric"] == "accuracy"
    by_f = run("compare", *files.values(), *GRADES, "-c", "ids=id", "--metric", "simpleqa_f")
    assert "F (SimpleQA) on the same 200 samples, higher is better" in by_f
    assert "Not attempted" in by_f


@pytest.mark.parametrize(
    "command", [["compare", "good", "timid"], ["evaluate", "good"]], ids=["compare", "evaluate"]
)
def test_a_score_of_no_answer_refuses_to_count_it_as_wrong(files, command):
    """SimpleQA's F of answers none of which may be unanswered is another number: an accuracy."""
    name, *models = command
    paths = [str(path) for path in list(files.values())[: len(models)]]
    as_wrong = [name, *paths, *map(str, GRADES), "-c", "ids=id", "--unanswered", "wrong"]
    for metric in ("simpleqa_f", "hallucination_rate", "score_at_target@0.75"):
        refused = CliRunner().invoke(cli, [*as_wrong, "--metric", metric])
        assert refused.exit_code == 2
        assert "counts both as wrong" in " ".join(refused.output.replace("│", " ").split())
    shown = CliRunner().invoke(cli, [*as_wrong, "--metric", "accuracy", "--json"])
    assert shown.exit_code == 0, shown.output


def test_a_table_with_no_answer_as_wrong_has_the_accuracy_alone(files):
    told = json.loads(run("evaluate", files["good"], *GRADES, "--unanswered", "wrong", "--json"))
    assert [entry["metric"] for entry in told["entries"] if entry["group"] is None] == ["accuracy"]


def test_the_page_of_a_ranking_by_accuracy(files, tmp_path):
    page = tmp_path / "board.html"
    run("compare", *files.values(), *GRADES, "-c", "ids=id", "-c", "groups=part", "--html", page)
    text = page.read_text()
    data = json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert "3 models by accuracy (higher is better)" in text
    good = next(model for model in data["models"] if model["name"] == "good")
    shown = dict(zip(data["columns"], good["more"]))
    correct, answered = graded(files["good"])
    table = evaluate_answers(correct, answered=answered)
    assert shown["F (SimpleQA) %"] == pytest.approx(table["simpleqa_f"].estimate)
    assert shown["score at target 0.75"] == pytest.approx(table["score_at_target@0.75"].estimate)
    assert data["groups"] == ["x", "y"]
    assert good["curve"] is None


def test_one_long_table_is_divided_by_model(files, tmp_path):
    long = tmp_path / "long.csv"
    rows = ["model,id,grade"]
    for name, path in files.items():
        rows += [f"{name},{line}" for line in path.read_text().splitlines()[1:]]
    long.write_text("\n".join(row.rsplit(",", 1)[0] if row.count(",") == 3 else row for row in rows) + "\n")
    told = run("compare", long, *GRADES, "-c", "ids=id", "--by", "model", "--metric", "accuracy", "--json")
    expected = compare_answers({name: graded(path) for name, path in files.items()})
    assert [one["estimate"] for one in json.loads(told)["contestants"]] == pytest.approx(
        [contestant.estimate for contestant in expected.contestants]
    )


def test_repeated_answers_add_pass_k(tmp_path):
    path = tmp_path / "agent.csv"
    rows = [f"{number // 2},{int(number % 3 == 0)}" for number in range(80)]
    path.write_text("\n".join(["task_id,correct", *rows]) + "\n")
    table = abstain.Evaluation.from_json(run("evaluate", path, "-c", "question=task_id", "--json"))
    right = np.array([number % 3 == 0 for number in range(80)]).reshape(40, 2)
    assert table["pass_at@2"].estimate == pytest.approx(right.any(axis=1).mean())
    assert table["pass_all@2"].estimate == pytest.approx(right.all(axis=1).mean())
    assert table["accuracy"].estimate == pytest.approx(right.mean())


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("grade", "`grade` grades by words (A, B, C). Say what each means, right, wrong or unanswered"),
        ("stars", "correctness must lie between 0 (wrong) and 1 (right), got 5 in row 2. Divide a score"),
        ("judged", "got -1 in row 3. `judged` grades by numbers (-1, 0, 1). Say what each means"),
        ("judged-1", "got -2 in row 3. `judged` grades by numbers (-1, 0, 1). Say what each means"),
        ("late", "no answer was scored. Name another column with -c correct=NAME."),
        ("timeout", "`error` must be true or false, got 'late'. Name another column with -c correct=NAME."),
    ],
)
def test_a_column_that_cannot_say_right_or_wrong_is_explained_without_a_confidence(tmp_path, column, message):
    path = tmp_path / "graded.csv"
    path.write_text("grade,stars,judged,late,timeout\nA,4,1,,\nB,5,0,,late\nC,3,-1,,\n")
    for command in ("evaluate",) if column == "late" else ("evaluate", "describe"):
        role = "error" if column == "timeout" else "correct"
        result = CliRunner().invoke(cli, [command, str(path), "-c", f"{role}={column}"])
        assert result.exit_code == (3 if command == "evaluate" else 0)
        assert message in " ".join(result.output.split())


def test_a_confidence_that_is_asked_for_must_be_there(files):
    for extra in (["--metric", "aurc"], ["-c", "confidence=part"]):
        result = CliRunner().invoke(cli, ["evaluate", str(files["good"]), *GRADES, *extra])
        assert result.exit_code == 3, result.output
    result = CliRunner().invoke(
        cli, ["compare", *map(str, files.values()), *GRADES, "--metric", "calibration_error"]
    )
    assert result.exit_code == 2
    assert "cannot rank by calibration_error" in result.stderr


def test_calibration_beside_the_ranking(tmp_path):
    path = tmp_path / "stated.csv"
    rng = np.random.default_rng(1)
    stated = rng.choice([0.5, 0.7, 0.9], 300)
    right = (rng.random(300) < stated).astype(int)
    rows = [f"{c},{y}" for c, y in zip(stated, right)]
    path.write_text("\n".join(["confidence,correct", *rows]) + "\n")
    told = run("evaluate", path, "--metric", "aurc,calibration_error,brier_score,accuracy", "--json")
    table = abstain.Evaluation.from_json(told)
    assert table["brier_score"].estimate == pytest.approx(np.mean((stated - right) ** 2))
    assert table["accuracy"].estimate == pytest.approx(right.mean())
    assert "hallucination_rate" in run("evaluate", "--help")


@pytest.mark.parametrize("of_numbers", [False, True])
def test_an_empty_grade_is_no_verdict_unless_the_user_says_what_it_means(tmp_path, of_numbers):
    right, wrong = (2.0, 1) if of_numbers else ("C", "I")
    path = tmp_path / "judged.json"
    path.write_text(
        json.dumps([{"judge": grade} for grade in [right, wrong, None, right, None, wrong, right]])
    )
    # the numbers of JSON may be written with decimals or without
    grades = "2.0=right,1.0=wrong" if of_numbers else "C=right,I=wrong"
    told = json.loads(run("evaluate", path, "-c", "correct=judge", "--grades", grades, "--json"))
    assert (told["n"], told["entries"][0]["estimate"]) == (5, pytest.approx(3 / 5))
    left_out = "2 of 7 answers have no score and are left out (--grades =unanswered if an empty grade says"
    assert any(note.startswith(left_out) for note in told["notes"])
    told = json.loads(
        run("evaluate", path, "-c", "correct=judge", "--grades", f"{grades},=unanswered", "--json")
    )
    assert (told["n"], told["entries"][0]["estimate"]) == (7, pytest.approx(3 / 7))
    assert any("2 of 7 questions (28.6%) have no answer" in note for note in told["notes"])


def test_numbers_of_other_rows_than_those_of_the_ranking_say_so(tmp_path):
    """Two attempts at each question, of which one has no confidence."""
    path = tmp_path / "attempts.csv"
    rows = [f"q{k % 60},{k // 60},{k % 4 > 0:d},{'' if k % 3 == 0 else k / 120}" for k in range(120)]
    path.write_text("\n".join(["question_id,trial,correct,confidence", *rows]) + "\n")
    told = json.loads(run("evaluate", path, "--json"))
    listed = "accuracy, right at least once in 2 attempts, right every time of 2 attempts"
    assert f"On all 120 answers, not on the 80 of the ranking: {listed}." in told["notes"]
    assert any(note.startswith("all 120 answers: right 75.0%") for note in told["notes"])
    assert not any(
        "all 120 answers" in note
        for note in json.loads(run("evaluate", path, "--missing", "last", "--json"))["notes"]
    )


def test_answers_of_several_models_are_no_attempts_of_one(tmp_path):
    path = tmp_path / "models.csv"
    rows = [f"m{k // 60},q{k % 60},{k % 4 > 0:d},{k / 120}" for k in range(120)]
    path.write_text("\n".join(["model,question_id,correct,confidence", *rows]) + "\n")
    assert "attempts" not in run("evaluate", path)
    path.write_text(path.read_text().replace("model,", "seed,"))
    assert "attempts" in run("evaluate", path)
