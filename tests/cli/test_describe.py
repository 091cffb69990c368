"""`abstain describe`: the commands that it suggests, and what it says of columns."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from abstain.cli import cli
from tests.language.written import inspect_json, lines, option_record


def run(*arguments: object):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def describe(path: Path) -> dict:
    shown = run("describe", path, "--json")
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


def records(with_gaps: bool) -> list[dict]:
    rng = np.random.default_rng(0)
    right = rng.random(40) < 0.6
    return [
        {
            "id": f"q{k:02d}",
            "verdict": {"is_right": None if with_gaps and k % 13 == 3 else bool(right[k])},
            "self": {"sure_pct": int(rng.integers(1, 99)), "entropy_confidence": float(rng.random())},
        }
        for k in range(40)
    ]


@pytest.mark.parametrize("with_gaps", [False, True])
def test_what_it_suggests_for_nested_records_works(tmp_path, with_gaps):
    path = tmp_path / "judged.json"
    path.write_text(json.dumps(records(with_gaps)))
    commands = describe(path)["commands"]
    assert any("confidence=self.sure_pct" in command for command in commands)
    assert any("confidence=self.sure_pct,self.entropy_confidence" in command for command in commands)
    assert not any("uncertainty=" in command for command in commands)  # the name says confidence
    # a verdict that is missing is no refusal: such rows are left out
    assert any("--missing left_out" in command for command in commands) == with_gaps
    assert not any("--grades" in command for command in commands)
    for command in commands:
        done = run(*shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
        assert "AURC" in done.output


def test_an_empty_verdict_is_explained_in_words_of_the_command_line(tmp_path):
    path = tmp_path / "judged.json"
    path.write_text(json.dumps(records(with_gaps=True)))
    named = ["-c", "correct=verdict.is_right", "-c", "confidence=self.sure_pct"]
    refused = run("evaluate", path, *named)
    assert refused.exit_code == 3
    assert "3 rows have nothing in `verdict.is_right`, first row 4" in refused.output
    assert "--grades 0=wrong,1=right,=unanswered" in refused.output
    assert "loss" not in refused.output
    done = run("evaluate", path, *named, "--grades", "0=wrong,1=right,=unanswered")
    assert done.exit_code == 0, done.output
    assert "3 of 40 questions (7.5%) have no answer" in " ".join(done.output.split())


def test_names_of_correctness_come_first(tmp_path):
    path = tmp_path / "run.json"
    rows = [
        {"mismatch.index": k % 2, "tests": {"errors": k % 2, "fails": 1, "passes": 1}, "se_uncertainty_score": k / 40,
         "judge_score": (k % 5) / 4, "attempted_match": True, "db_match": k % 3 > 0, "success": k % 4 > 0,
         "empty_match": None, "rare_success": k > 1 if k < 3 else None, "expected": 1, "output": 2, "steps": ["go", "go", "stop"][: 1 + k % 3]}
        for k in range(40)
    ]  # fmt: skip
    path.write_text(json.dumps(rows))
    commands = describe(path)["commands"]
    stated = [
        next(part for part in shlex.split(command) if part.startswith("correct=")) for command in commands
    ]
    assert stated[0] == "correct=success"
    assert "correct=db_match" in stated
    assert set(stated) <= {f"correct={name}" for name in ("success", "db_match", "attempted_match")}
    assert not any("confidence=se_uncertainty_score" in command for command in commands)
    assert not any("steps" in command for command in commands)


def test_grades_of_a_judge_come_before_an_exact_match_of_free_text(tmp_path):
    path = tmp_path / "qa.csv"
    rows = [f"Who is {k}?,name {k},it is name {k} of course,{'ABC'[k % 3]}" for k in range(30)]
    path.write_text("\n".join(["problem,target,predicted_answer,grade", *rows]))
    description = describe(path)
    assert description["commands"] == []
    assert any(
        "-c correct=grade --grades A=MEANING,B=MEANING,C=MEANING" in note for note in description["notes"]
    )
    # without the grades, no command compares texts that are never equal
    rows = [row.rpartition(",")[0] for row in ["problem,target,predicted_answer,grade", *rows]]
    path.write_text("\n".join(rows))
    description = describe(path)
    assert description["commands"] == []
    told = "`predicted_answer` and `target` are equal in no row, so no command compares them."
    assert any(note.startswith(told) for note in description["notes"])
    # where one is by luck, its share would be no accuracy either
    path.write_text("\n".join([*rows, *["Who is 30?,name 30,name 30"]]))
    description = describe(path)
    assert description["commands"] == []
    told = "`predicted_answer` and `target` are equal in 1 of 31 rows, so no command compares them."
    assert any(note.startswith(told) for note in description["notes"])


def test_sentences_are_compared_only_if_the_user_names_both_columns(tmp_path):
    path = tmp_path / "cot.json"
    rows = [
        {"target": f"({'ABC'[k % 3]})", "prediction": f"It is {k}, so the answer is ({'ABC'[k % 3]})."}
        for k in range(30)
    ]
    path.write_text(json.dumps(rows))
    refused = run("evaluate", path)
    assert refused.exit_code == 3
    told = (
        "`prediction` and `target` are equal in 0.0% of the answers. Free text is seldom equal word by word"
    )
    assert told in refused.output
    description = describe(path)
    assert description["commands"] == []
    assert sum("equal" in note for note in description["notes"]) == 1
    stated = ["-c", "prediction=prediction", "-c", "labels=target"]
    assert " ".join(stated) in refused.output
    compared = run("evaluate", path, *stated)
    assert compared.exit_code == 0, compared.output
    assert told in " ".join(compared.output.split())
    # names and numbers are compared, though few are equal
    for row in rows:
        row["prediction"] = row["prediction"].split()[2]
    path.write_text(json.dumps(rows))
    assert run("evaluate", path).exit_code == 0


def test_words_of_a_verdict_are_suggested_with_their_meaning(tmp_path):
    path = tmp_path / "judged.jsonl"
    words = ["Correct Answer", "Refusal", "Incorrect Answer", "Correct Answer"]
    path.write_bytes(
        lines([{"gold_answer": k, "model_answer": f"it is {k}", "label": words[k % 4]} for k in range(20)])
    )
    (command,) = describe(path)["commands"]
    assert "-c correct=label --grades 'Correct Answer=right'" in command
    done = run(*shlex.split(command)[1:], "--json")
    assert json.loads(done.stdout)["entries"][0]["estimate"] == 0.5


def test_messages_of_failed_calls_are_no_errors_of_answers(tmp_path):
    path = tmp_path / "runs.json"
    rows = [{"solved": k % 2 > 0, "error": "no such file" if k == 3 else None} for k in range(20)]
    path.write_text(json.dumps(rows))
    description = describe(path)
    assert description["commands"] == [f"abstain evaluate {path} -c correct=solved"]
    assert not any("`error` must be" in note for note in description["notes"])


def test_what_the_file_is_read_with_is_suggested_once(tmp_path):
    path = tmp_path / "options.json"
    path.write_text(json.dumps([{"target": "AB"[k % 2], "prediction": "AABB"[k % 4]} for k in range(20)]))
    assert describe(path)["commands"] == [f"abstain evaluate {path}"]


def test_a_summary_is_called_one_and_no_nonsense_is_suggested(tmp_path):
    path = tmp_path / "bins.json"
    bins = [{"mean_confidence": k / 10, "accuracy": k / 11, "count": k} for k in range(1, 10)]
    path.write_text(json.dumps({"base": {"bins": bins}, "tuned": {"bins": bins[:7]}}))
    description = describe(path)
    assert description["commands"] == []
    told = "looks like a summary of 9 rows (`base.bins.mean_confidence`, `base.bins.accuracy`"
    assert any(note.startswith(told) and "one row per answer" in note for note in description["notes"])


def test_columns_of_two_tables_are_not_combined(tmp_path):
    path = tmp_path / "examples.json"
    rng = np.random.default_rng(0)
    tables = {
        name: [{"ok_match": bool(rng.random() < 0.5), "confidence": float(rng.random())} for _ in range(12)]
        for name in ("surest", "least_sure")
    }
    path.write_text(json.dumps(tables))
    commands = describe(path)["commands"]
    assert len(commands) == 2
    for command, name in zip(commands, tables):
        assert f"correct={name}.ok_match -c confidence={name}.confidence" in command


def test_verdicts_with_gaps_are_suggested_as_they_are_read(tmp_path):
    path = tmp_path / "runs.json"
    rows = [{"name": f"t{k}", "success": None if k > 20 else k < 4, "resolved": None} for k in range(27)]
    path.write_text(json.dumps(rows))
    commands = describe(path)["commands"]
    assert commands == [f"abstain evaluate {path} -c correct=success"]  # `resolved` is entirely empty
    table = json.loads(run(*shlex.split(commands[0])[1:], "--json").stdout)
    assert (table["n"], table["entries"][0]["estimate"]) == (21, pytest.approx(4 / 21))


@pytest.mark.parametrize(
    ("column", "remedy"),
    [
        ("correct", "--grades yes=right,no=wrong,=unanswered"),
        ("error", "abstained=NAME"),
        ("loss", "abstained=NAME"),
    ],
)
def test_empty_cells_of_every_kind_of_verdict_are_refused_by_name(tmp_path, column, remedy):
    words = {"correct": ("yes", "no"), "error": ("0", "1"), "loss": ("0.5", "2")}[column]
    path = tmp_path / "t.csv"
    path.write_text(f"{column},confidence\n{words[0]},0.9\n,0.8\n{words[1]},0.7\n")
    refused = run("evaluate", path)
    assert refused.exit_code == 3
    assert f"1 row has nothing in `{column}`, first row 2" in refused.output
    assert remedy in refused.output


@pytest.mark.parametrize(
    ("cells", "described"),
    [
        (["inf"] * 4, ["100.0%", "1", "only infinite numbers"]),
        (["-inf", "inf"] * 2, ["100.0%", "2", "only infinite numbers"]),
        (["inf", "0.5", "0.25", "nan"], ["75.0%", "3", "0.25 to 0.5, 1 infinite"]),
        (["nan"] * 4, ["0.0%", "0", "nothing"]),
        (["0.5"] * 4, ["100.0%", "1", "0.5 to 0.5 (constant)"]),
    ],
)
def test_infinite_numbers_are_not_called_missing(tmp_path, cells, described):
    path = tmp_path / "a.csv"
    path.write_text(
        "\n".join(["correct,confidence", *(f"{row % 2},{cell}" for row, cell in enumerate(cells))])
    )
    columns = describe(path)["columns"]
    assert [columns[title][1] for title in ("present", "distinct", "holds")] == described


def test_only_logs_say_of_what_kind_columns_are(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("correct,confidence\n1,0.9\n0,0.5\n")
    assert "kind" not in run("describe", table).output
    log = tmp_path / "log.json"
    log.write_text(json.dumps(inspect_json()))
    assert "kind" in run("describe", log).output


def test_lists_in_a_log_are_not_called_nothing(tmp_path):
    path = tmp_path / "samples_t_2025-01-01T00-00-00.jsonl"
    path.write_bytes(lines([option_record(k) | {"f1": [0, 1], "metrics": ["acc", "f1"]} for k in range(6)]))
    columns = describe(path)["columns"]
    content = dict(zip(columns["column"], columns["holds"]))
    assert content["f1"] == "lists, no score of an answer"


def test_answers_inside_several_records_are_not_read_and_said_so(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([{"name": name, "instances": [{"resolved": True}]} for name in "ab"]))
    columns = describe(path)["columns"]
    assert (
        dict(zip(columns["column"], columns["holds"]))["instances"] == "lists of records, which are not read"
    )


@pytest.mark.parametrize(
    ("row_count", "share_ranked", "risk"),
    [(400, 1.0, "0.2"), (400, 0.1, "0.3"), (50, 0.0, None)],  # half of the error rate, three quarters, none
)
def test_the_suggested_risk_fits_the_file_whichever_metric_is_shown(tmp_path, row_count, share_ranked, risk):
    path = tmp_path / "t.csv"
    right = [int(k % 5 > 1) for k in range(row_count)]  # two of five are wrong
    noise = np.random.default_rng(0).random(row_count)
    # this share of the rows is ranked rightly, above all others
    confidences = [verdict * (k < share_ranked * row_count) + noise[k] for k, verdict in enumerate(right)]
    rows = [f"{verdict},{confidence}" for verdict, confidence in zip(right, confidences)]
    path.write_text("correct,confidence\n" + "\n".join(rows) + "\n")
    command = f"abstain threshold {path} --risk {risk}"
    commands = ["describe"], ["evaluate", "--metric", "aurc"], ["evaluate", "--metric", "risk"]
    for name, *options in commands:
        shown = run(name, path, *options).output
        assert (command in shown) == (risk is not None)
        assert ("abstain threshold" in shown) == (risk is not None)
    if risk is not None:
        assert run(*shlex.split(command)[1:]).exit_code == 0


@pytest.mark.parametrize("confidence", ["rating (of the user)", "user_rating,judge"])
def test_a_column_that_is_read_is_not_taken_for_clusters(tmp_path, confidence):
    rng = np.random.default_rng(0)
    names = confidence.split(",")
    rows = [
        f"{int(rng.random() < 0.7)},{rng.integers(1, 41)}" + f",{rng.random():.3f}" * (len(names) - 1)
        for _ in range(200)
    ]
    path = tmp_path / "rated.csv"
    path.write_text("\n".join([",".join(["correct", *names]), *rows]))
    result = run("describe", path, "-c", f"confidence={confidence}", "--json")
    assert result.exit_code == 0, result.output
    assert not any("clusters=" in note for note in json.loads(result.stdout)["notes"])


def test_notes_of_a_log_stay_where_it_is_read_as_class_scores(tmp_path):
    log = inspect_json(total=9, status="cancelled")
    for k, sample in enumerate(log["samples"]):
        sample["metadata"] = {"p_a": 0.1 * k + 0.05, "p_b": 0.95 - 0.1 * k, "truth": k % 2}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    scores = ["-c", "probs=metadata.p_*", "-c", "labels=metadata.truth", "--classes", "a,b"]
    result = run("describe", path, *scores, "--json")
    assert result.exit_code == 0, result.output
    description = json.loads(result.stdout)
    assert description["taken"]["read as"] == "probs, 6 samples"
    assert "the run has status cancelled." in description["notes"]


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("copies", "100 of 600 rows equal an earlier row in every column"),
        ("patients", "`patient` has 50 values in 500 rows"),
        ("two decimals", None),
        ("saturated", None),
    ],
)
def test_describe_and_threshold_tell_of_rows_that_are_not_independent(tmp_path, kind, hint):
    rng = np.random.default_rng(0)
    confidence = rng.random(500)
    if kind == "two decimals":
        confidence = confidence.round(2)
    if kind == "saturated":
        confidence[:300] = 0.99999994
    table = {"correct": (rng.random(500) > 0.02).astype(int), "confidence": confidence}
    if kind == "patients":
        table = {"patient": np.arange(500) // 10, **table}
    rows = [",".join(map(str, row)) for row in zip(*(values.tolist() for values in table.values()))]
    rows += rows[:100] if kind == "copies" else []
    path = tmp_path / "table.csv"
    path.write_text("\n".join([",".join(table), *rows]))
    for command in (["describe", str(path)], ["threshold", str(path), "--risk", "0.1"]):
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == 0
        text = " ".join(result.stdout.split())
        assert hint is None or hint in text
        assert ("equal an earlier row" in text or "depend on each other" in text) == (hint is not None)
        if hint is not None:
            assert ("the guarantee does not hold" in text) == (command[0] == "threshold")


@pytest.mark.parametrize(
    "command", ["describe", "describe with columns", "evaluate", "evaluate unranked", "threshold"]
)
def test_rows_of_one_patient_are_told_of(tmp_path, command):
    rng = np.random.default_rng(0)
    rows = [
        f"P{patient:03d},{diagnosis},{diagnosis if rng.random() < 0.98 else 1 - diagnosis},{rng.random():.2f}"
        for patient, diagnosis in zip(rng.permutation(np.repeat(np.arange(100), 5)), rng.integers(0, 2, 500))
    ]
    path = tmp_path / "pilot.csv"
    path.write_text("\n".join(["patient_id,diagnosis,model_says,certainty", *rows]))
    answers = ["-c", "labels=diagnosis", "-c", "prediction=model_says"]
    ranked = [*answers, "-c", "confidence=certainty"]
    arguments = {
        "describe": [],
        "describe with columns": ranked,
        "evaluate": ranked,
        "evaluate unranked": answers,
        "threshold": [*ranked, "--risk", "0.1"],
    }[command]
    hint = "`patient_id` has 100 values in 500 rows."
    shown = " ".join(run(command.split()[0], path, *arguments).output.split())
    assert shown.count(hint) == 1
    assert "every row is another" not in shown
    clustered = " ".join(
        run(command.split()[0], path, *arguments, "-c", "clusters=patient_id").output.split()
    )
    assert hint not in clustered
