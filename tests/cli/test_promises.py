"""Several promises on the command line: by predicted class, by column of losses, saved, applied and checked."""

import csv
import io
import json

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, n, seed in (("cal", 3000, 0), ("later", 1500, 1)):
        rng = np.random.default_rng(seed)
        label = rng.integers(0, 2, n)
        positive = np.clip(0.5 + (label - 0.5) * 0.6 + 0.25 * rng.normal(size=n), 0.01, 0.99)
        np.savez(f"{name}.npz", probs=np.stack([1 - positive, positive], axis=1), labels=label)
        sure = rng.random(n)
        wrong = rng.random(n) < 0.2 * (1 - sure)
        hours = np.where(wrong, rng.random(n), 0.0)
        answer = rng.choice(["ill", "well"], n)
        truth = np.where(wrong, np.where(answer == "ill", "well", "ill"), answer)
        write(f"{name}.csv", confidence=sure, errors=wrong.astype(int), hours=hours)
        write(f"{name}-words.csv", confidence=sure, label=truth, prediction=answer)
    return tmp_path


def write(path, **columns):
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*(values.tolist() for values in columns.values())))


def call(*arguments):
    return CliRunner().invoke(cli, list(arguments), prog_name="abstain")


@pytest.mark.parametrize(
    ("data", "later", "risks", "names"),
    [
        ("cal.npz", "later.npz", ("--risk", "0=0.06", "--risk", "1=0.07"), ["0", "1"]),
        ("cal.csv", "later.csv", ("--risk", "errors=0.09,hours=0.05"), ["errors", "hours"]),
        ("cal-words.csv", "later-words.csv", ("--risk", "ill=0.1,well=0.12"), ["ill", "well"]),
    ],
)
def test_a_rule_is_made_applied_and_checked(folder, data, later, risks, names):
    made = call("threshold", data, *risks, "--save", "rule.json", "--record", "rule.md", "--csv")
    assert made.exit_code == 0, made.stderr
    rows = list(csv.DictReader(io.StringIO(made.stdout)))
    assert [row["group"] for row in rows] == names
    rule = abstain.load_rule("rule.json")
    assert [float(row["risk"]) for row in rows] == pytest.approx(list(rule.risks.values()))
    assert "all of these hold at once" in (folder / "rule.md").read_text()
    assert call("decide", "rule.json", later, "-o", "decided.csv").exit_code == 0
    check = ("--check", "rule.json", "--state", "series.json")
    seen = call("threshold", later, *check, "--json")
    assert seen.exit_code == 0, seen.stderr
    assert [name for name, _ in json.loads(seen.stdout)["checks"]] == names
    again = call("threshold", later, *check, "--quiet")
    assert "was counted in this series before" in again.stderr
    assert again.stdout.strip() == "holds"


def test_the_promises_are_those_of_select_threshold():
    call("threshold", "cal.npz", "--risk", "0=0.06", "--risk", "1=0.07", "--save", "rule.json")
    data = np.load("cal.npz")
    rule = abstain.select_threshold(probs=data["probs"], labels=data["labels"], risk={0: 0.06, 1: 0.07})
    loaded = abstain.load_rule("rule.json")
    assert loaded.value == rule.value
    assert loaded.guarantee == rule.guarantee


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("cal.npz", "--risk", "0=0.1"), 2, "NAME=NUMBER for at least two promises"),
        (("cal.npz", "--risk", "0.1", "--risk", "0.2"), 2, "once for each promise"),
        (("cal.npz", "--risk", "0=0.1", "--risk", "1=5"), 2, "--risk must be below 1, the largest possible"),
        (("cal.npz", "--risk", "0=0.1,7=0.1"), 3, "must be classes that it predicts (0, 1)"),
        (("cal.npz", "--risk", "0=0.1,1=0.1", "--method", "crc"), 2, "--method ltt"),
        (("cal.npz", "--risk", "0=-0.1,1=0.1"), 2, "not in the range"),
        (("cal.csv", "--risk", "errors=0.1,days=0.1"), 3, "no column `days`"),
        (("cal.npz", "--risk", "0=0.00001,1=0.00001"), 4, "No feasible joint threshold"),
    ],
)
def test_what_cannot_be_promised_has_its_exit_code(arguments, exit_code, message):
    refused = call("threshold", *arguments)
    assert refused.exit_code == exit_code
    assert message in refused.stdout + refused.stderr


def test_a_check_names_the_rule_whose_classes_the_file_lacks(folder):
    call("threshold", "cal.npz", "--risk", "0=0.06", "--risk", "1=0.07", "--save", "rule.json")
    probs = np.load("later.npz")["probs"]
    np.savez(
        "three.npz", probs=np.c_[probs[:, 0], np.zeros(len(probs)), probs[:, 1]], labels=probs.argmax(axis=1)
    )
    refused = call("threshold", "three.npz", "--check", "rule.json")
    assert refused.exit_code == 3
    assert "the names in rule.json must be classes that it predicts (0, 2), got ['0', '1']" in refused.stderr


def test_a_rule_about_classes_refuses_columns_of_losses():
    call("threshold", "cal-words.csv", "--risk", "ill=0.1,well=0.12", "--save", "rule.json")
    refused = call("threshold", "later.csv", "--check", "rule.json")
    assert refused.exit_code == 3
    assert "no column `ill`" in refused.stderr
