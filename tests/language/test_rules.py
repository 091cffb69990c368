"""Refusals, missing confidences, stated numbers, repeats, and the three-way score, against numbers made by hand."""

from __future__ import annotations

import csv
import json
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli

sys.path.insert(0, str(Path(__file__).parent))
from written import lines, option_record

ROWS = [  # question, truth, answer, stated, tokens
    (1, "A", "A", "90", "0.8"), (1, "A", "B", "60", "0.4"), (1, "A", "A", "90", "0.7"),
    (2, "B", "B", "0.95", "0.9"), (2, "B", "", "50", "0.2"), (3, "C", "C", "", "0.6"), (3, "C", "A", "75", ""),
]  # fmt: skip


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "gpt-4.1-mini.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("q", "truth", "answer", "stated", "tokens"), *ROWS])
    return path


def test_the_command_line(table):
    stated = [
        "-c",
        "labels=truth",
        "-c",
        "prediction=answer",
        "-c",
        "question=q",
        "-c",
        "confidence=stated,tokens",
    ]
    shown = CliRunner().invoke(cli, ["evaluate", str(table), *stated, "--price", "3", "--json"])
    assert shown.exit_code == 0, shown.output
    notes = json.loads(shown.output)["notes"]
    assert any(n.startswith("labels: truth; prediction: answer") for n in notes)
    assert any("1 of 7 rows (14.3%) has no answer" in n for n in notes)
    assert any("AURC with unanswered questions as wrong and ranked last: stated" in n for n in notes)
    assert any("not attempted 14.3%" in n and "a wrong answer costing 3" in n for n in notes)
    assert any("3 questions in 7 rows: repeats of one question are a cluster" in n for n in notes)


@pytest.mark.parametrize("form", ["--json", "--latex"])
@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_json_and_latex_say_how_unanswered_questions_count(table, tmp_path, command, form):
    columns = ["-c", "labels=truth", "-c", "prediction=answer", "-c", "question=q", "-c", "epoch=epoch"]
    rows = [(k % 3, k // 3, "A", "AB"[k % 4 == 0] if k % 7 else "", f"0.{k + 1:03}") for k in range(60)]
    files = [tmp_path / "a.csv", tmp_path / "b.csv"][: 1 + (command == "compare")]
    for file in files:
        with file.open("w", newline="") as stream:
            csv.writer(stream).writerows([("q", "epoch", "truth", "answer", "stated"), *rows])
    shown = CliRunner().invoke(
        cli, [command, *map(str, files), *columns, "-c", "confidence=stated", form], catch_exceptions=False
    )
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.stdout)["notes"] if form == "--json" else shown.stdout.splitlines()
    if form == "--latex":
        told = [line.removeprefix("% ") for line in told if line.startswith("% ")]
    words = (
        "Unanswered questions count as wrong and are ranked last"
        if command == "compare"
        else "no answer and are"
    )
    assert any(words in note and ("15.0%" in note) for note in told)


def test_from_a_log_to_a_table_in_two_commands(tmp_path):
    """What `describe` prints last is a command that gives the table."""
    path = tmp_path / "samples_t_2025-01-01T00-00-00.jsonl"
    path.write_bytes(lines([option_record(k) for k in range(6)]))
    told = CliRunner().invoke(cli, ["describe", str(path), "--json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.output)
    assert (found["written by"], found["rows"], found["questions"]) == ("lm-evaluation-harness", 6, 6)
    assert found["taken"]["task"] == "t"
    for command in found["commands"]:
        done = CliRunner().invoke(cli, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
        assert "AURC" in done.output
    drawn = CliRunner().invoke(cli, ["describe", str(path)]).output
    assert "read as confidence, 6 samples" in drawn
    assert "softmax" in drawn


def test_shares_of_partly_right_answers_are_at_most_one():
    found = abstain.evaluation.three_way([0.3, 0.1, 0.9], price=1)
    for share in (found.right, found.wrong, found.not_attempted):
        assert 0 <= share.low <= share.estimate <= share.high <= 1
