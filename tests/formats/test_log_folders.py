"""Folders of logs by model and task, repeated runs as epochs, and one long table of several models."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import (
    RIGHT,
    evaleval,
    helm_run,
    inspect_header,
    inspect_sample,
    lines,
    option_record,
    promptfoo_csv,
    text_records,
)

import abstain
from abstain.cli import cli

N = 200
RNG = np.random.default_rng(1)


def run(*arguments: object):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def rows_of(*arguments: object) -> list[dict]:
    shown = run("compare", *arguments, "--json")
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)["rows"]


def inspect_run(path: Path, model: str, flipped: int = 0) -> None:
    """A log of Inspect with a scorer of 1 and 0, in which some right answers are wrong."""
    content = inspect_header(6) | {"samples": [inspect_sample(k) for k in range(6)]}
    content["eval"] = {"task": "adding", "model": model, "run_id": str(path)}  # each run has its own
    for k, sample in enumerate(content["samples"]):
        sample["scores"] = {"ok": {"value": float(RIGHT[k] and k >= flipped)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def test_one_row_for_each_model_and_task(tmp_path):
    inspect_run(tmp_path / "a" / "first.json", "m1")
    inspect_run(tmp_path / "a" / "second.json", "m1", flipped=1)
    inspect_run(tmp_path / "b.json", "m2", flipped=3)
    (tmp_path / "samples_arc_2026-01-21T03-44-18.4.jsonl").write_bytes(
        lines([option_record(k) for k in range(6)])
    )
    helm_run(tmp_path / "mmlu-subject=law,model=gpt2")
    (tmp_path / "notes.md").write_text("# no log\n\nbut text\n")
    rows = {(row["task"], row["model"]): row for row in rows_of(tmp_path)}
    assert set(rows) == {
        ("adding", "m1"), ("adding", "m2"), ("arc", tmp_path.name), ("mmlu-subject=law", "mmlu-subject=law,model=gpt2"),
    }  # fmt: skip
    m1 = rows["adding", "m1"]
    assert (m1["runs"], m1["questions"], m1["answers"]) == (2, 6, 12)
    assert m1["accuracy"]["estimate"] == pytest.approx((4 + 3) / 12)
    assert rows["adding", "m2"]["accuracy"]["estimate"] == pytest.approx(2 / 6)
    arc = rows["arc", tmp_path.name]
    read = abstain.formats.read_predictions(tmp_path / "samples_arc_2026-01-21T03-44-18.4.jsonl")
    assert (arc["signal"], arc["rank"]) == ("softmax", "")
    assert arc["area"]["estimate"] == pytest.approx(abstain.aurc(read.loss, read.signals["softmax"]))
    assert "1 file not read:" in run("compare", tmp_path).output


def test_repeated_runs_are_clusters(tmp_path):
    for k in range(8):
        inspect_run(tmp_path / f"{k}.json", "m1")
    inspect_run(tmp_path / "one" / "0.json", "m1")
    many, single = rows_of(tmp_path / "one"), rows_of(tmp_path)
    assert single[0]["answers"] == 9 * many[0]["answers"]
    widths = [row["accuracy"]["high"] - row["accuracy"]["low"] for row in (many[0], single[0])]
    assert widths[1] > 0.8 * widths[0]  # the same answers again tell nothing new


def test_models_of_one_task_are_ranked_and_told_apart(tmp_path):
    for model, share in {"good": 0.9, "bad": 0.4}.items():
        records = [evaleval()[0] | {"sample_id": f"q{k}", "model_id": model} for k in range(N)]
        for record, right in zip(records, RNG.random(N) < share):
            record["evaluation"] = {"is_correct": bool(right), "score": float(right)}
        (tmp_path / f"{model}_samples.jsonl").write_bytes(lines(records))
    assert {row["model"]: row["rank"] for row in rows_of(tmp_path)} == {"good": "1", "bad": "2"}


def test_a_file_of_several_models_and_several_tasks(tmp_path):
    records = []
    for model in ("x", "y"):
        for task in ("t1", "t2"):
            records += [record | {"model_id": model, "evaluation_name": task} for record in evaleval()]
    (tmp_path / "all_samples.jsonl").write_bytes(lines(records))
    rows = rows_of(tmp_path)
    assert [(row["task"], row["model"], row["questions"]) for row in rows] == [
        ("t1", "x", 6), ("t1", "y", 6), ("t2", "x", 6), ("t2", "y", 6),
    ]  # fmt: skip


def test_runs_of_two_models_in_one_folder_are_not_joined(tmp_path):
    for model, day in {"org/a": 1, "org/b": 2}.items():
        (tmp_path / f"samples_arc_2026-01-0{day}T03-44-18.4.jsonl").write_bytes(
            lines([option_record(k) for k in range(6)])
        )
        results = {"results": {}, "n-shot": {}, "model_name": model}
        (tmp_path / f"results_2026-01-0{day}T03-44-18.4.json").write_text(json.dumps(results))
    (tmp_path / "out.csv").write_bytes(promptfoo_csv())
    rows = [(row["task"], row["model"], row["runs"]) for row in rows_of(tmp_path)]
    assert rows == [("", "mock:a", 1), ("", "mock:b", 1), ("arc", "org/a", 1), ("arc", "org/b", 1)]


def test_a_table_of_losses_without_an_accuracy_is_listed_and_stops_nothing(tmp_path):
    shown_rows = []
    for name, largest_loss in {"right or wrong": 1, "seconds": 7}.items():
        lines_of_table = [f"q{k},{largest_loss * (k % 3 == 0)},{k / 40}" for k in range(40)]
        folder = tmp_path / name
        folder.mkdir()
        (folder / "p.csv").write_text("\n".join(["question,loss,confidence", *lines_of_table]))
        shown = run("compare", tmp_path, "--json")
        assert shown.exit_code == 0, shown.output
        shown_rows.append(json.loads(shown.stdout)["rows"])
    assert shown_rows[0] == shown_rows[1]  # the second table is no run of the same model
    assert shown_rows[0][0]["runs"] == 1
    (reason,) = json.loads(shown.stdout)["unread"].values()
    assert "needs right and wrong answers, and has losses outside 0 to 1" in reason


def test_a_folder_without_logs_and_options_that_do_not_fit(tmp_path):
    (tmp_path / "notes.md").write_text("# no log\n\nbut text\n")
    shown = run("compare", tmp_path)
    assert shown.exit_code == 2
    assert "was read as a log" in shown.output
    assert "takes no --names" in run("compare", tmp_path, "--unpaired").output


def test_one_long_table_of_several_models(tmp_path):
    sure = RNG.random(N)
    rows = ["model,q,ok,sure"]
    parts = {}
    for model, slope in {"sharp": 1.0, "dull": 0.1}.items():
        right = (RNG.random(N) < 0.5 + slope * (sure - 0.5)).astype(int)
        parts[model] = right
        rows += [f"{model},q{k},{right[k]},{float(sure[k])!r}" for k in range(N)]
    path = tmp_path / "all.csv"
    path.write_text("\n".join(rows))
    flags = ["-c", "correct=ok", "-c", "confidence=sure", "-c", "question=q"]
    shown = run("compare", path, "--by", "model", *flags, "--json")
    assert shown.exit_code == 0, shown.output
    want = abstain.compare({name: (1 - right, sure) for name, right in parts.items()})
    estimates = {entry["name"]: entry["estimate"] for entry in json.loads(shown.stdout)["contestants"]}
    assert estimates == {
        contestant.name: pytest.approx(contestant.estimate) for contestant in want.contestants
    }
    assert "has no column `vendor` to divide it by" in run("compare", path, "--by", "vendor", *flags).output


def answered(path, model: str, count: int) -> None:
    """A log of `count` questions of one model on the task of `evaleval`, every third answer wrong."""
    records = [evaleval()[0] | {"sample_id": f"q{k}", "model_id": model} for k in range(count)]
    for k, record in enumerate(records):
        record["evaluation"] = {"is_correct": k % 3 > 0, "score": float(k % 3 > 0)}
    path.write_bytes(lines(records))


def test_a_model_with_one_question_does_not_keep_the_others_from_being_ranked(tmp_path):
    for model, count in {"one": 1, "many": 40, "more": 60}.items():
        answered(tmp_path / f"{model}_samples.jsonl", model, count)
    shown = run("compare", tmp_path)
    assert {row["model"]: bool(row["rank"]) for row in rows_of(tmp_path)} == {
        "one": False,
        "many": True,
        "more": True,
    }
    said = " ".join(shown.output.split())
    assert "one answered one question and is not ranked." in said
    assert "compare_answers" not in said


def test_every_file_that_was_not_read_is_listed_with_its_reason(tmp_path):
    answered(tmp_path / "a_samples.jsonl", "a", 6)
    for number in range(9):
        (tmp_path / f"{number}.json").write_text("{}")
    (tmp_path / "README.md").write_text("one\n\ntwo,three\n")
    shown = run("compare", tmp_path, "--json")
    unread = json.loads(shown.stdout)["unread"]
    assert len(unread) == 10
    assert unread[str(tmp_path / "README.md")].endswith("is not a log: its name ends in .md.")
    said = " ".join(run("compare", tmp_path).output.split())
    assert "10 files not read:" in said
    assert "and 5 other files; --json lists all of them" in said
    assert str(tmp_path) not in said  # the folder is known


def test_what_a_log_says_of_itself_is_told(tmp_path):
    """A run that promises more samples than it holds has a score of the few."""
    inspect_run(tmp_path / "a.json", "m1")
    content = json.loads((tmp_path / "a.json").read_text())
    content["results"] = {"total_samples": 2340}
    (tmp_path / "a.json").write_text(json.dumps(content))
    notes = json.loads(run("compare", tmp_path, "--json").stdout)["notes"]
    assert any(note.startswith("adding / m1: ") and "2,340" in note for note in notes), notes


def test_a_csv_file_has_one_number_in_a_cell(tmp_path):
    inspect_run(tmp_path / "a.json", "m1")
    answered(tmp_path / "one_samples.jsonl", "one", 1)
    table = list(csv.DictReader(io.StringIO(run("compare", tmp_path, "--csv").stdout)))
    rows = {row["model"]: row for row in rows_of(tmp_path)}
    for record in table:
        row = rows[record["model"]]
        for title, numbers in (("accuracy", row["accuracy"]), ("AURC", row["area"])):
            for name, suffix in (("estimate", ""), ("low", " low"), ("high", " high")):
                expected = "" if numbers[name] is None else repr(numbers[name])
                assert record[f"{title}{suffix}"] == expected


def test_no_number_and_no_word_is_broken_on_a_narrow_screen(tmp_path):
    inspect_run(tmp_path / "a.json", "an-organisation/a-model-with-a-long-name-70B-Instruct_fp8")
    inspect_run(tmp_path / "b.json", "an-organisation/a-model-with-a-long-name-70B-Instruct_fp8")
    shown = run("compare", tmp_path).output
    for title in ("questions", "accuracy"):
        assert title in shown
    assert re.search(r"\d\.\d{3}–\d\.\d{3}", shown)  # both limits on one line
    assert max(map(len, shown.splitlines()[:12])) <= 80
    assert "an-organisation/" in shown


def test_logs_of_several_tasks_are_compared_as_in_a_folder(tmp_path):
    """The leaderboard of the README: all logs of a harness, whichever tasks they are of."""
    for name in ("arc", "law"):
        path = tmp_path / f"samples_{name}_2026-01-21T03-44-18.4.jsonl"
        path.write_bytes(lines([option_record(k) | {"doc_id": f"{name} {k}"} for k in range(6)]))
    page = tmp_path / "board.html"
    paths = sorted(tmp_path.glob("*.jsonl"))
    shown = run("compare", *paths, "--html", page)
    assert shown.exit_code == 0, shown.output
    assert "compared task by task" in shown.output
    assert "arc" in page.read_text()
    assert rows_of(*paths) == rows_of(tmp_path)
    refused = run("compare", *paths, "--names", "a,b")
    assert refused.exit_code != 0


def put_answers(path: Path, seed: int = 0, **columns: list) -> None:
    """A plain table of 40 answers, with further columns."""
    rng = np.random.default_rng(seed)
    records = [
        {"correct": int(rng.random() < 0.7), "confidence": rng.random()}
        | {name: values[row] for name, values in columns.items()}
        for row in range(40)
    ]
    path.write_bytes(lines(records))


@pytest.mark.parametrize("name", ["model", "Model Name"])
def test_a_column_of_models_divides_a_plain_table_in_a_folder(tmp_path, name):
    put_answers(tmp_path / "all.jsonl", **{name: ["x", "y"] * 20})
    put_answers(tmp_path / "other.jsonl", seed=1, **{name: ["x"] * 40})
    put_answers(tmp_path / "plain.jsonl", seed=2)
    found = {row["model"]: (row["runs"], row["answers"]) for row in rows_of(tmp_path)}
    assert found == {"x": (2, 60), "y": (1, 20), "plain": (1, 40)}


def test_a_copy_of_a_log_is_no_other_run(tmp_path):
    inspect_run(tmp_path / "a.json", "m1")
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "b.json").write_bytes((tmp_path / "a.json").read_bytes())
    inspect_run(tmp_path / "c.json", "m1", flipped=1)
    put_answers(tmp_path / "p.jsonl")
    put_answers(tmp_path / "q.jsonl")
    shown = json.loads(run("compare", tmp_path, "--json").stdout)
    assert {row["model"]: row["runs"] for row in shown["rows"]} == {"m1": 2, "p": 1, "q": 1}
    (reason,) = shown["unread"].values()
    assert reason.endswith(
        f"copies/b.json: has the same content as {tmp_path / 'a.json'}, which is counted once."
    )
    assert f"q: q.jsonl has the same content as {tmp_path / 'p.jsonl'}." in shown["notes"]


def test_answers_without_a_score_are_told_since_they_may_be_failures(tmp_path):
    put_answers(tmp_path / "one.jsonl", label=["a"] * 40)
    records = [json.loads(line) for line in (tmp_path / "one.jsonl").read_text().splitlines()]
    for record in records[:5]:
        record["correct"] = None
    (tmp_path / "two.jsonl").write_bytes(lines(records))
    notes = json.loads(run("compare", tmp_path, "--json").stdout)["notes"]
    assert "two: 5 of 40 answers have no score and are left out." in notes
    assert "If samples were left out because a model failed on them, its accuracy is too high." in notes
    (tmp_path / "two.jsonl").unlink()
    assert not any(
        "left out" in note for note in json.loads(run("compare", tmp_path, "--json").stdout)["notes"]
    )


def test_several_models_in_one_file_are_told(tmp_path):
    path = tmp_path / "all.jsonl"
    put_answers(path, model=["x", "y"] * 20)
    for command in (["evaluate", path], ["threshold", path, "--risk", "0.4"], ["describe", path]):
        told = " ".join(run(*command).output.split())
        assert told.count("all.jsonl holds 2 models by `model`, which are measured as one") == 1
        assert "`abstain compare --by model`, or read one with --only model=VALUE" in told
    for command in (["compare", path, "--by", "model"], ["evaluate", path, "--only", "model=x"]):
        assert "measured as one" not in run(*command).output
    assert "measured as one" not in run("evaluate", path, "-c", "groups=model").output
    path.write_bytes(lines([{"model": name, "mean": 0.5} for name in "xyz"]))
    refused = run("evaluate", path)  # nothing says right or wrong, so nothing is measured
    assert (refused.exit_code, "measured as one" in refused.output) == (3, False)


def test_files_of_one_name_that_share_no_question_are_no_runs_of_one_model(tmp_path):
    def put(folder: str, start: int) -> None:
        rows = [f"q{start + k},{int(k % 4 > 0)}" for k in range(12)]
        path = tmp_path / folder / "output.csv"
        path.parent.mkdir(parents=True)
        path.write_text("\n".join(["question_id,correct", *rows]) + "\n")

    put("first/part", 0)
    put("again/part", 6)
    assert [(row["model"], row["runs"], row["questions"]) for row in rows_of(tmp_path)] == [("output", 2, 18)]
    put("other", 100)
    rows = rows_of(tmp_path)
    assert {row["model"] for row in rows} == {"first/part/output", "again/part/output", "other/output"}
    assert {(row["runs"], row["questions"]) for row in rows} == {(1, 12)}


def put_graded(path: Path, grades: str) -> None:
    """A table of graded answers: A right, B wrong, C not attempted."""
    path.write_text("\n".join(["id,grade", *(f"{row},{grade}" for row, grade in enumerate(grades))]) + "\n")


def test_rows_come_by_rank_and_say_the_share_without_an_answer(tmp_path):
    put_graded(tmp_path / "a-worst.csv", "A" * 20 + "B" * 180)
    put_graded(tmp_path / "b-best.csv", "A" * 150 + "B" * 50)
    put_graded(tmp_path / "c-careful.csv", "A" * 80 + "B" * 20 + "C" * 100)
    options = [tmp_path, "-c", "correct=grade", "--grades", "A=right,B=wrong,C=unanswered"]
    rows = rows_of(*options)
    assert [row["model"] for row in rows] == ["b-best", "c-careful", "a-worst"]
    assert [row["unanswered"] for row in rows] == [0, 0.5, 0]
    assert "50.0%" in run("compare", *options).stdout
    # a score of the answers stands beside the accuracy: F is 2 * right / (n + attempted)
    rows = rows_of(*options, "--metric", "simpleqa_f")
    assert rows[1]["area"]["estimate"] == pytest.approx(2 * 80 / (200 + 100))
    assert "In the accuracy, unanswered" in run("compare", *options, "--metric", "simpleqa_f").stdout
    assert (
        "Leave --unanswered out"
        in run("compare", *options, "--metric", "simpleqa_f", "--unanswered", "wrong").output
    )


def test_the_columns_and_the_filter_that_say_what_is_right_are_named(tmp_path):
    (tmp_path / "samples_gen_2026-01-21T03-44-18.4.jsonl").write_bytes(lines(text_records()))
    said = " ".join(run("compare", tmp_path).stdout.split())
    assert "- correct: exact_match; filter: strict (others: loose)." in said
    (tmp_path / "samples_mc_2026-01-21T03-44-18.4.jsonl").write_bytes(
        lines([option_record(k) for k in range(6)])
    )
    said = " ".join(run("compare", tmp_path).stdout.split())
    assert f"- gen / {tmp_path.name}: correct: exact_match; filter: strict (others: loose)." in said
    assert f"- mc / {tmp_path.name}: correct: acc (others: acc_norm); filter: none." in said


def test_tasks_of_a_results_file_are_scored_by_their_own_metrics(tmp_path):
    """Of a stated metric that a task does not have, the accuracy is empty, and nothing fails."""
    by_text = [
        {**option_record(k), "filtered_resps": ["4"], "metrics": ["exact_match"], "exact_match": 1.0}
        for k in range(6)
    ]
    samples = {"mc": [option_record(k) for k in range(6)], "gen": by_text}
    (tmp_path / "results.json").write_text(json.dumps({"model_name": "m", "samples": samples}))
    rows = {row["task"]: row for row in rows_of(tmp_path)}
    estimates = {task: row["accuracy"]["estimate"] for task, row in rows.items()}
    assert estimates == {"gen": 1.0, "mc": pytest.approx(np.mean(RIGHT))}
    assert (rows["gen"]["signal"], rows["mc"]["signal"]) == ("", "softmax")
    rows = {row["task"]: row for row in rows_of(tmp_path, "-c", "correct=exact_match")}
    assert (rows["gen"]["accuracy"]["estimate"], rows["mc"]["accuracy"]["estimate"]) == (1.0, None)
