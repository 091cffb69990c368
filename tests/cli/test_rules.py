"""A rule on its way through the command line: saved, applied, checked for months; what it is not for is refused."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.errors import InputError


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli, list(arguments), prog_name="abstain")


def write(path, n, seed, *, errors=1.0, labels=True, form="logit", sites=("north", "south")):
    """Class scores of three classes, by site; `errors` weakens the model."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 3, n), rng.normal(size=(n, 3))
    z[np.arange(n), y] += rng.exponential(3 / errors, n)
    values = z if form == "logit" else np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    site = np.resize(np.asarray(sites), n)
    head = ["id", *(["label"] if labels else []), "group", *(f"{form}_{k}" for k in range(3))]
    rows = [[f"p{i}", *([y[i]] if labels else []), site[i], *map(repr, values[i].tolist())] for i in range(n)]
    path.write_text("\n".join(",".join(map(str, row)) for row in [head, *rows]))
    return z, y, site


@pytest.fixture
def files(tmp_path):
    write(tmp_path / "cal.csv", 3000, 1)
    for month in range(3):
        write(tmp_path / f"month{month}.csv", 400, 10 + month)
    write(tmp_path / "worse.csv", 3000, 20, errors=3.0)


def test_a_saved_rule_says_what_it_is(run, files, tmp_path):
    made = ("threshold", "cal.csv", "--risk", "0.1", "--score", "negative_entropy", "--save", "rule.json")
    assert run(*made).exit_code == 0
    origin = json.loads((tmp_path / "rule.json").read_text())["origin"]
    assert origin["score"] == "negative_entropy"
    assert origin["loss"] == "zero_one"
    assert origin["kind"] == "logits"
    assert origin["version"] == abstain.__version__
    assert origin["data"] == "cal.csv"
    assert origin["sha256"] == hashlib.sha256((tmp_path / "cal.csv").read_bytes()).hexdigest()
    assert origin["command"] == "abstain " + " ".join(made)
    rule = abstain.Threshold.load(tmp_path / "rule.json")
    z = np.random.default_rng(3).normal(size=(50, 3))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    entropy = (p * np.log(p)).sum(axis=1)
    assert (rule.accepts(entropy, units="plain") == (entropy >= origin["plain"])).all()


def test_its_own_score_is_used_and_another_refused(run, files, tmp_path):
    run("threshold", "cal.csv", "--risk", "0.1", "--score", "negative_entropy", "--save", "rule.json")
    own = json.loads(run("threshold", "month0.csv", "--check", "rule.json", "--json").stdout)
    z, _, _ = write(tmp_path / "again.csv", 400, 10)
    key = abstain.scores.negative_entropy(z)
    rule = abstain.Threshold.load(tmp_path / "rule.json")
    assert own["accepted"] == int((key >= rule.value).sum())
    for arguments in (
        ("threshold", "month0.csv", "--check", "rule.json", "--score", "max_softmax"),
        ("threshold", "month0.csv", "--check", "rule.json", "--loss", "brier"),
        ("decide", "rule.json", "month0.csv", "--score", "max_softmax"),
    ):
        result = run(*arguments)
        assert result.exit_code == 3
        assert "this rule is for" in result.stderr
        assert result.stderr.count("\n") == 1


def test_decisions_on_the_calibration_rows_are_told(run, files):
    run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json")
    assert (
        "note: the rule was made from cal.csv: how it does on" in run("decide", "rule.json", "cal.csv").stderr
    )
    assert "was made from" not in run("decide", "rule.json", "month0.csv").stderr


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (("threshold", "cal.csv", "--risk", "0.1"), "risk 0.1, method ltt"),
        (("threshold", "cal.csv", "--coverage", "0.5", "--groups"), "coverage 0.5, method ltt"),
        (("threshold", "cal.csv", "--risk", "0=0.3,1=0.2"), "risk 0=0.3, 1=0.2"),
    ],
)
def test_a_rule_that_is_replaced_is_told(run, files, first, told):
    assert "held another rule" not in run(*first, "--save", "rule.json").stderr
    made = run("threshold", "cal.csv", "--risk", "0.25", "--save", "rule.json")
    assert re.search(
        rf"note: rule\.json held another rule \({told}, written 20..-..-.. ..:.. UTC\)", made.stderr
    )
    assert "A decision record of that rule no longer matches" in made.stderr


def test_a_column_of_confidences_needs_a_word(run, files, tmp_path):
    run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json")
    z, y, _ = write(tmp_path / "z.csv", 300, 5)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    lines = [f"{int(p[i].argmax() == y[i])},{float(p[i].max())!r}" for i in range(300)]
    (tmp_path / "plain.csv").write_text("\n".join(["correct,confidence", *lines]))
    refused = run("threshold", "plain.csv", "--check", "rule.json")
    assert refused.exit_code == 3
    assert "--score max_softmax" in refused.stderr
    plain = run("threshold", "plain.csv", "--check", "rule.json", "--score", "max_softmax", "--json")
    keys = run("threshold", "z.csv", "--check", "rule.json", "--json")
    assert json.loads(plain.stdout)["accepted"] == json.loads(keys.stdout)["accepted"]
    run("threshold", "plain.csv", "--risk", "0.3", "--save", "own.json")
    assert "column of confidences" in run("threshold", "z.csv", "--check", "own.json").stderr


def test_an_alarm_has_its_own_exit_code_and_a_series_goes_on(run, files, tmp_path):
    run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json")
    check = ("--check", "rule.json", "--state", "series.json")
    seen = [run("threshold", f"month{k}.csv", *check, "--json") for k in range(3)]
    assert [r.exit_code for r in seen] == [0, 0, 0]
    last = json.loads(seen[-1].stdout)
    assert (last["looks"], last["n"]) == (3, 1200)
    rule, one = abstain.Threshold.load(tmp_path / "rule.json"), None
    for k in range(3):
        z, y, _ = write(tmp_path / "again.csv", 400, 10 + k)
        one = rule.check(z.argmax(axis=1) != y, abstain.scores.max_softmax(z), units="key", previous=one)
    assert last["log_wealth"] == pytest.approx(one.log_wealth)
    worse = run("threshold", "worse.csv", *check, "--quiet")
    assert worse.exit_code == 5
    assert worse.stdout.strip() == "alarm"
    assert run("threshold", "month0.csv", *check).exit_code == 5  # an alarm stays
    other = run("threshold", "cal.csv", "--risk", "0.2", "--save", "other.json")
    assert other.exit_code == 0
    mixed = run("threshold", "month0.csv", "--check", "other.json", "--state", "series.json")
    assert mixed.exit_code == 3
    assert "of this threshold" in mixed.stderr


def test_a_rule_per_group_is_checked_and_applied(run, files, tmp_path):
    assert run("threshold", "cal.csv", "--risk", "0.15", "--groups", "--save", "sites.json").exit_code == 0
    result = run("threshold", "month0.csv", "--check", "sites.json", "--state", "s.json", "--csv")
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert sorted((r["group"], r["n"]) for r in rows) == [("north", "200"), ("south", "200")]
    write(tmp_path / "new.csv", 100, 30, labels=False)
    assert run("decide", "sites.json", "new.csv", "-o", "d.csv").exit_code == 0
    rules = abstain.thresholds.GroupThresholds.load(tmp_path / "sites.json")
    z, _, site = write(tmp_path / "x.csv", 100, 30)
    expected = rules.accepts(logits=z, groups=site)
    decided = list(csv.DictReader((tmp_path / "d.csv").open()))
    assert [r["accepted"] == "1" for r in decided] == expected.tolist()
    write(tmp_path / "west.csv", 10, 31, labels=False, sites=("west",))
    assert "west" in run("decide", "sites.json", "west.csv").stderr


@pytest.mark.parametrize("several", [False, True])
def test_rows_of_an_unknown_group_are_told_and_not_accepted(run, tmp_path, several):
    write(tmp_path / "cal.csv", 3000, 1)
    write(tmp_path / "later.csv", 400, 2, sites=("south", "", "west", "south"))
    write(tmp_path / "other.csv", 400, 2, sites=("west",))
    risks = ("--risk", "0=0.3", "--risk", "1=0.3") if several else ("--risk", "0.3")
    made = run("threshold", "cal.csv", *risks, "--groups", "-c", "groups=group", "--save", "rule.json")
    assert made.exit_code == 0
    assert "abstain decide rule.json NEW_FILE -c groups=group -o decided.csv" in made.stderr
    decided = run("decide", "rule.json", "later.csv", "-c", "groups=group")
    assert decided.exit_code == 0
    assert (
        "200 rows of later.csv are not accepted: rule.json has no threshold for group (empty), west."
        in decided.stderr
    )
    rows = list(csv.DictReader(io.StringIO(decided.stdout)))
    assert len(rows) == 400
    assert {row["accepted"] for row in rows if row["group"] != "south"} == {"0"}
    assert "1" in {row["accepted"] for row in rows if row["group"] == "south"}
    checked = run("threshold", "later.csv", "--check", "rule.json", "-c", "groups=group", "--csv")
    assert "200 rows of later.csv are left out of the check" in checked.stderr
    assert {row["n"] for row in csv.DictReader(io.StringIO(checked.stdout))} == {"200"}
    for command in (("decide", "rule.json", "other.csv"), ("threshold", "other.csv", "--check", "rule.json")):
        refused = run(*command, "-c", "groups=group")
        assert refused.exit_code == 3
        assert (
            "has only groups that rule.json does not know (west). It is for north, south." in refused.stderr
        )


def test_groups_that_accept_nothing_are_told(run, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cal.csv", "later.csv"):
        lines = [f"{int(k % 2 or rng.random() < 0.5)},{rng.random()!r},{'ab'[k % 2]}" for k in range(600)]
        (tmp_path / name).write_text("\n".join(["correct,confidence,group", *lines]))
    made = run(
        "threshold", "cal.csv", "--risk", "0.1", "--groups", "--save", "rule.json", "--record", "page.md"
    )
    assert made.exit_code == 4
    page = (tmp_path / "page.md").read_text()
    assert (
        "the promise of group b holds (it was chosen at 0.025): the error rate of the accepted is at most"
        in page
    )
    assert "Nothing is accepted in: a." in page
    assert "- Note of group a: No threshold can be certified" in page
    checked = run("threshold", "later.csv", "--check", "rule.json")
    assert "300 rows of group a not checked: the rule accepts nothing there" in checked.stderr


def test_a_check_tells_that_it_does_not_weigh(run, tmp_path):
    rows = [f"{k % 9 > 0:d},{k / 400},{1 + k % 3}" for k in range(400)]
    (tmp_path / "t.csv").write_text("correct,confidence,weight\n" + "\n".join(rows))
    made = run("threshold", "t.csv", "--risk", "0.2", "--save", "rule.json")
    assert "not read" not in made.stderr
    told = "note: the column of sample_weight is not read here: every sample counts once."
    assert told in run("threshold", "t.csv", "--check", "rule.json").stderr
    asked = ("--cost", "1,2", "--person-cost", "9", "--person-error", "0", "--risk", "0.2")
    assert told in run("cascade", "t.csv", "t.csv", "--names", "a,b", *asked).stderr


def test_of_several_confidences_it_is_told_which_one_counts(run, tmp_path):
    rows = [f"A,{'AB'[k % 9 == 0]},{k / 400},{k % 7}" for k in range(400)]
    (tmp_path / "t.csv").write_text("truth,answer,one,two\n" + "\n".join(rows))
    own = ("t.csv", "-c", "labels=truth", "-c", "prediction=answer", "-c", "confidence=one,two")
    told = "note: the confidence here is `one`, the first; name another with -c confidence=two."
    for command in (
        ("threshold", *own, "--risk", "0.3"),
        ("clinical", *own, "--positive", "A"),
        ("convert", *own, "t.npz"),
    ):
        done = run(*command)
        assert done.exit_code == 0, done.output
        assert told in done.stderr
    assert told not in run("evaluate", *own).stderr


def test_decide_writes_whole_numbers_and_gaps_as_they_were(run, tmp_path):
    """A patient's number with zeros in front, or too long for a float, must find its row again."""
    rows = [
        f"{k:06d},{9007199254740993 + k},{'' if k == 1 else 60 + k},{k / 400},{k > 40:d}" for k in range(400)
    ]
    (tmp_path / "cal.csv").write_text("patient,scan,age,confidence,correct\n" + "\n".join(rows))
    assert run("threshold", "cal.csv", "--risk", "0.2", "--save", "rule.json").exit_code == 0
    lines = run("decide", "rule.json", "cal.csv").stdout.splitlines()
    assert [line.rsplit(",", 3)[0] for line in lines[1:]] == [row.rsplit(",", 2)[0] for row in rows]
    records = [{"scan": 9007199254740993 + k, "confidence": k / 400} for k in range(400)]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, records)))
    lines = run("decide", "rule.json", "new.jsonl").stdout.splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [str(r["scan"]) for r in records]


def test_decide_takes_answers_as_the_rule_did(run, tmp_path):
    """Stated percentages, refusals and answers without a confidence."""
    rows = [("A", "" if k % 10 == 0 else "AB"[k % 2 and k < 200], k / 4) for k in range(400)]
    lines = [f"{a},{b},{c}" for a, b, c in rows]
    (tmp_path / "cal.csv").write_text("truth,answer,stated\n" + "\n".join(lines))
    own = ("-c", "prediction=answer", "-c", "confidence=stated", "--scale", "percent")
    assert (
        run("threshold", "cal.csv", "-c", "labels=truth", *own, "--risk", "0.1", "--save", "r.json").exit_code
        == 0
    )
    (tmp_path / "new.csv").write_text("answer,stated\nA,99\n,99\nA,\nA,1\n")
    decided = csv.DictReader(io.StringIO(run("decide", "r.json", "new.csv", *own).stdout))
    assert [row["accepted"] for row in decided] == ["1", "0", "0", "0"]
    unscaled = run("decide", "r.json", "new.csv", *own[:4])
    assert unscaled.exit_code == 3
    assert "calibrated on confidences within [0, 1], got 99" in unscaled.stderr
    assert "one confidence" in run("decide", "r.json", "new.csv", "-c", "confidence=stated,answer").stderr
    assert "--only" in run("decide", "r.json", "new.csv", *own, "--only", "answer=A").stderr


def test_decide_calls_classes_by_their_names(run, tmp_path):
    rows = [f"{0.5 + k / 800:.4f},{0.5 - k / 800:.4f}" for k in range(400)]
    (tmp_path / "cal.csv").write_text("prob_ill,prob_well,label\n" + "".join(f"{r},ill\n" for r in rows))
    (tmp_path / "new.csv").write_text("prob_ill,prob_well\n0.9,0.1\n0.2,0.8\n")
    np.savez(tmp_path / "new.npz", probs=[[0.9, 0.1], [0.2, 0.8]], classes=["ill", "well"])
    assert run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json").exit_code == 0
    for name in ("new.csv", "new.npz"):
        decided = csv.DictReader(io.StringIO(run("decide", "rule.json", name).stdout))
        assert [row["prediction"] for row in decided] == ["ill", "well"]


def test_decide_needs_no_labels_and_keeps_the_columns(run, files, tmp_path):
    run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json")
    z, _, _ = write(tmp_path / "new.csv", 60, 40, labels=False)
    result = run("decide", "rule.json", "new.csv", "-o", "decided.csv")
    assert result.exit_code == 0
    rows = list(csv.DictReader((tmp_path / "decided.csv").open()))
    assert list(rows[0]) == ["id", "group", "prediction", "max_softmax", "accepted"]
    assert [r["id"] for r in rows] == [f"p{i}" for i in range(60)]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    plain = json.loads((tmp_path / "rule.json").read_text())["origin"]["plain"]
    assert [r["accepted"] for r in rows] == [str(int(x >= plain)) for x in p.max(axis=1)]
    assert [int(r["prediction"]) for r in rows] == p.argmax(axis=1).tolist()
    assert run("decide", "rule.json", "new.csv").stdout == (tmp_path / "decided.csv").read_text()
    write(tmp_path / "probs.csv", 60, 40, labels=False, form="prob")
    again = list(csv.DictReader(io.StringIO(run("decide", "rule.json", "probs.csv").stdout)))
    assert [r["accepted"] for r in again] == [r["accepted"] for r in rows]
    (tmp_path / "none.csv").write_text("a,b\n1,2\n")
    assert "needs logits, probs or a confidence" in run("decide", "rule.json", "none.csv").stderr
    assert run("decide", "new.csv", "new.csv").exit_code == 3


def test_clusters_of_a_file_are_the_unit(run, tmp_path):
    """60 patients of 20 images each that agree, true risk 6%: no promise of 5%."""
    rng = np.random.default_rng(0)
    lines = ["correct,confidence,cluster"]
    for patient in range(60):
        wrong = rng.random() < 0.06
        lines += [f"{int(not wrong)},{rng.random()},c{patient}" for _ in range(20)]
    (tmp_path / "p.csv").write_text("\n".join(lines))
    result = run("threshold", "p.csv", "--risk", "0.2", "--json")
    assert json.loads(result.stdout)["clusters"] == 60
    assert "calibration clusters" in (json.loads(result.stdout)["guarantee"] or "calibration clusters")
    assert run("threshold", "p.csv", "--risk", "0.05").exit_code == 4
    assert run("threshold", "p.csv", "--risk", "0.2", "--method", "sgr").exit_code == 3


def test_the_decision_record_can_be_filed(run, files, tmp_path):
    assert (
        run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json", "--record", "rule.md").exit_code
        == 0
    )
    page = (tmp_path / "rule.md").read_text()
    rule = abstain.Threshold.load(tmp_path / "rule.json")
    for text in (rule.guarantee, rule.origin.sha256, "cal.csv", "3,000", abstain.__version__, rule.origin.command,
                 "independent draws", "## What voids it", "abstain decide rule.json", "--check rule.json"):  # fmt: skip
        assert text in page
    written = datetime.strptime(page.splitlines()[2], "Date: %Y-%m-%d %H:%M UTC").replace(tzinfo=UTC)
    assert timedelta(0) <= datetime.now(UTC) - written < timedelta(minutes=5)
    rule_hash = hashlib.sha256((tmp_path / "rule.json").read_bytes()).hexdigest()
    assert f"- file of this rule: rule.json, SHA-256 {rule_hash}" in page
    run("threshold", "cal.csv", "--coverage", "0.5", "--method", "empirical", "--record", "free.md")
    assert "this rule promises nothing" in (tmp_path / "free.md").read_text()
    assert "- file of this rule: none was named; `rule.json` below" in (tmp_path / "free.md").read_text()
    assert run("threshold", "cal.csv", "--check", "rule.json", "--record", "x.md").exit_code == 2


def write_patients(path, n, seed, *, size=4, errors=0.1, blank=0):
    """Answers about patients of `size` images, at three sites; the first `blank` patients lack a label of an image."""
    rng = np.random.default_rng(seed)
    lines = ["patient,site,correct,confidence"]
    for k in range(n):
        g = rng.random()
        correct = "" if k % size == 0 and k // size < blank else int(rng.random() > errors * (1 - g))
        lines.append(f"{seed}-{k // size},{'abc'[k % 3]},{correct},{g!r}")
    path.write_text("\n".join(lines))


@pytest.fixture
def patients(run, tmp_path):
    write_patients(tmp_path / "cal.csv", 3000, 1)
    made = run(
        "threshold", "cal.csv", "--risk", "0.1", *PATIENT, "--save", "rule.json", "--record", "rule.md"
    )
    assert made.exit_code == 0
    assert "--check rule.json --state series.json" in made.stderr


PATIENT = ("-c", "clusters=patient")


def test_a_rule_that_accepts_nothing_replaces_no_rule_in_use(run, patients, tmp_path):
    before = {name: (tmp_path / name).read_bytes() for name in ("rule.json", "rule.md")}
    refused = ("threshold", "cal.csv", "--risk", "0.0001", *PATIENT, "--record", "rule.md", "--save")
    kept = run(*refused, "rule.json")
    assert kept.exit_code == 4
    assert "rule.json and rule.md are not written" in kept.stderr
    assert "delete rule.json first" in kept.stderr
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert run(*refused, "new.json").exit_code == 4
    assert not abstain.Threshold.load(tmp_path / "new.json").feasible
    for _ in range(2):  # nor does it keep one that accepts nothing
        assert "wrote new.json" in run(*refused, "new.json").stderr
    decided = run("decide", "new.json", "cal.csv", "-o", "decided.csv")
    assert "accepted 0 of 3,000 (0.0%)" in decided.stderr
    assert "new.json accepts nothing, whatever the data: No threshold can be certified" in decided.stderr


def test_a_cascade_that_answers_nothing_replaces_none_in_use(run, tmp_path):
    for name, errors in (("small", 1.5), ("large", 0.6)):
        write(tmp_path / f"{name}.csv", 1500, 5, errors=errors)
    costs = ("--cost", "1,10", "--person-cost", "100", "--person-error", "0", "--save", "rule.json")
    assert run("cascade", "small.csv", "large.csv", *costs, "--risk", "0.1").exit_code == 0
    before = (tmp_path / "rule.json").read_bytes()
    kept = run("cascade", "small.csv", "large.csv", *costs, "--risk", "0.0001")
    assert kept.exit_code == 4
    assert "rule.json is not written" in kept.stderr
    assert (tmp_path / "rule.json").read_bytes() == before


def test_groups_that_are_named_and_not_used_are_told(run, patients, tmp_path):
    """With their risks, and the suggested command uses them."""
    named = ("-c", "groups=site")
    made = run("threshold", "cal.csv", "--risk", "0.1", *PATIENT, *named)
    told = " ".join(made.stdout.split())
    assert "The groups are not used: one rule for all; --groups makes one for each." in told
    columns = np.genfromtxt(tmp_path / "cal.csv", delimiter=",", skip_header=1, usecols=(2, 3))
    correct, confidence = columns.T
    accepted = abstain.Threshold.load(tmp_path / "rule.json").accepts(confidence)
    in_b = np.arange(3000) % 3 == 1
    expected = f"b {(1 - correct[accepted & in_b]).mean():.4f} of {(accepted & in_b).sum():,}"
    assert expected in told
    assert "groups are not used" not in run("threshold", "cal.csv", "--risk", "0.1", *PATIENT).stdout
    write_patients(tmp_path / "later.csv", 1000, 2)
    checked = run("threshold", "later.csv", *PATIENT, *named, "--groups", "--check", "rule.json")
    assert "The groups are not used: rule.json has one threshold for all." in " ".join(checked.stdout.split())
    # a file for which the suggested threshold is one that can be promised in each group
    rows = [f"{'abc'[k % 3]},{int(k >= 200)},{k / 3000}" for k in range(3000)]
    (tmp_path / "easy.csv").write_text("\n".join(["site,correct,confidence", *rows]))
    for command in ("describe", "evaluate"):
        with_groups = run(command, "easy.csv", *named)
        assert "-c groups=site --groups --risk" in with_groups.stdout + with_groups.stderr
        without = run(command, "easy.csv")
        assert "--groups" not in without.stdout + without.stderr


def test_clusters_with_rows_without_a_label_are_told(run, patients, tmp_path):
    """They count now with the labelled rows, and labels that come later add nothing."""
    write_patients(tmp_path / "later.csv", 1000, 2, blank=30)
    checked = run("threshold", "later.csv", *PATIENT, "--check", "rule.json", "--json")
    assert json.loads(checked.stdout)["n"] == 970
    assert "30 clusters of later.csv also have rows without a label. A cluster counts once" in checked.stderr
    write_patients(tmp_path / "whole.csv", 1000, 3)
    assert "without a label" not in run("threshold", "whole.csv", *PATIENT, "--check", "rule.json").stderr


@pytest.mark.parametrize("named", [PATIENT, ()])
def test_decide_tells_of_clusters_larger_than_those_of_the_calibration(run, patients, tmp_path, named):
    write_patients(tmp_path / "large.csv", 1000, 2, size=8)
    decided = run("decide", "rule.json", "large.csv", *named, "-o", "decided.csv")
    assert decided.exit_code == 0
    assert (
        "125 clusters in large.csv have more samples (up to 8) than the largest one in calibration (4)"
        in (decided.stderr)
    )
    write_patients(tmp_path / "new.csv", 1000, 3)
    assert "more samples" not in run("decide", "rule.json", "new.csv", *named, "-o", "decided.csv").stderr


def test_a_record_says_what_a_cluster_is(patients, tmp_path):
    assert (
        "- clusters: 750, the largest of 4 samples; a cluster is a `patient`"
        in (tmp_path / "rule.md").read_text()
    )


def test_the_verdict_is_printed_where_a_file_takes_the_result(run, patients, tmp_path):
    write_patients(tmp_path / "bad.csv", 1000, 2, errors=1.5)
    alarm = run("threshold", "bad.csv", *PATIENT, "--check", "rule.json", "-o", "out.txt")
    assert alarm.exit_code == 5
    assert "Check: ALARM by the risk at look 1" in alarm.stderr
    assert "Check: ALARM" in (tmp_path / "out.txt").read_text()
    (tmp_path / "unlabelled.csv").write_text("\n".join(["confidence", *(str(k / 500) for k in range(500))]))
    alone = run("threshold", "unlabelled.csv", "--check", "rule.json", "-o", "out.txt")
    assert "Check of the confidences alone: " in alone.stderr


def test_a_record_has_the_date_of_its_decision():
    rule = abstain.select_threshold([0] * 99 + [1], range(100, 0, -1), risk=0.2)
    tokyo = timezone(timedelta(hours=9))
    page = abstain.decision_record(rule, date=datetime(2026, 1, 1, 8, 5, tzinfo=tokyo))
    assert page.splitlines()[2] == "Date: 2025-12-31 23:05 UTC"
    assert page == abstain.decision_record(rule, date=datetime(2025, 12, 31, 23, 5, tzinfo=UTC))
    with pytest.raises(InputError, match="`date` must have a time zone"):
        abstain.decision_record(rule, date=datetime(2026, 1, 1))


def test_a_cascade_has_a_record_and_knows_its_files(run, tmp_path):
    for name, errors in (("small", 1.5), ("large", 0.6)):
        write(tmp_path / f"{name}.csv", 1500, 5, errors=errors)
        write(tmp_path / f"later-{name}.csv", 300, 6, errors=errors)
    asked = (
        "--cost",
        "1,10",
        "--person-cost",
        "100",
        "--person-error",
        "0",
        "--risk",
        "0.1",
        "--unit",
        "cents",
    )
    made = run("cascade", "small.csv", "large.csv", *asked, "--save", "c.json", "--record", "c.md")
    assert made.exit_code == 0, made.stderr
    page = (tmp_path / "c.md").read_text()
    rule = abstain.Cascade.load(tmp_path / "c.json")
    digests = [hashlib.sha256((tmp_path / f"{name}.csv").read_bytes()).hexdigest() for name in rule.names]
    assert [origin.sha256 for origin in rule.origins.values()] == digests
    for text in (rule.guarantee, rule.rule, *digests, "small.csv", "1,500", "Date: 20", abstain.__version__,
                 "cents", "## What is assumed", "## What voids it", "max_softmax", "delta 0.05", "--risk 0.1",
                 "abstain cascade later-small.csv later-large.csv --check c.json --state series.json"):  # fmt: skip
        assert text in page
    assert (
        "- Who answers: small if its max_softmax is " in page
    )  # a probability; the rank key comes behind it
    assert page.index(rule.plain_rule) < page.index(f"In the rule's file, as rank keys: {rule.rule}.")
    assert "In the long run, at most 10% of the models' answers are wrong." in page
    assert "the rule was made from 1,500 cases, drawn at random" in page
    apply = ("--apply", "c.json", "--quiet")
    assert "differ from" not in run("cascade", "later-small.csv", "later-large.csv", *apply).stderr
    swapped = run("cascade", "later-large.csv", "later-small.csv", *apply, "--names", "small,large").stderr
    assert (
        "note: the confidences of small in later-large.csv differ from those of the calibration (p = "
        in swapped
    )
    assert "the rule was made from small.csv" in run("cascade", "small.csv", "large.csv", *apply).stderr
    check = ("--check", "c.json", "--state", "s.json")
    assert run("cascade", "later-small.csv", "later-large.csv", *check).exit_code == 0
    again = run("cascade", "later-small.csv", "later-large.csv", *check)
    assert "was counted in this series before" in again.stderr
    assert abstain.thresholds.Check.load(tmp_path / "s.json").looks == 1
    refused = run("cascade", "small.csv", "large.csv", *check)
    assert refused.exit_code == 3
    assert "small.csv: the rule was made from these data" in refused.stderr
    assert run("cascade", "later-small.csv", "later-large.csv", *check, "--record", "x.md").exit_code == 2


def test_the_rule_is_saved_before_anything_is_printed(files, tmp_path):
    """A reader that has gone, as `head -1`, takes the screen's text with it but not the rule."""
    arguments = ["-m", "abstain", "threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json"]
    here = {**os.environ, "PYTHONPATH": str(Path(abstain.__file__).parents[1])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, *arguments], cwd=tmp_path, env=here, **pipes)
    process.stdout.close()
    process.wait()
    assert abstain.Threshold.load(tmp_path / "rule.json").feasible


def test_a_damaged_rule_is_one_line(run, files, tmp_path):
    run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json")
    stored = json.loads((tmp_path / "rule.json").read_text())
    for text in (
        json.dumps({**stored, "delta": 5}),
        "[" * 100_000,
        "",
        json.dumps({**stored, "value": 0.01}),
    ):
        (tmp_path / "bad.json").write_text(text)
        for arguments in (
            ("threshold", "month0.csv", "--check", "bad.json"),
            ("decide", "bad.json", "month0.csv"),
        ):
            result = run(*arguments)
            assert result.exit_code == 3
            assert result.stderr.count("\n") == 1


def test_a_check_without_labels_is_about_the_confidences_alone(run, files, tmp_path):
    assert run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json").exit_code == 0
    write(tmp_path / "later.csv", 200, 2)
    header, *rows = (tmp_path / "later.csv").read_text().splitlines()
    names = header.split(",")
    kept = [k for k, name in enumerate(names) if name not in ("label", "labels", "truth", "correct")]
    later = [",".join(line.split(",")[k] for k in kept) for line in (header, *rows)]
    (tmp_path / "new.csv").write_text("\n".join(later))
    checked = run("threshold", "new.csv", "--check", "rule.json")
    assert checked.exit_code == 0, checked.stderr
    assert "Check of the confidences alone: no alarm" in checked.stdout
    assert "this says nothing about the risk" in " ".join(checked.stdout.split())
    assert json.loads(run("threshold", "new.csv", "--check", "rule.json", "--json").stdout)["holds"]
    with_state = run("threshold", "new.csv", "--check", "rule.json", "--state", "s.json")
    assert with_state.exit_code == 2
    assert "--state needs labels" in with_state.stderr
    assert run("threshold", "new.csv", "--risk", "0.1").exit_code == 3  # a new rule needs them


def test_other_notations_of_a_risk_are_refused_with_what_to_write(run, files):
    for typed, fraction in (("20%", "0.2"), ("0,2", "0.2"), ("a=5%", "0.05")):
        asked = run("threshold", "cal.csv", "--risk", typed)
        assert asked.exit_code == 2
        assert f"Write {fraction} for" in asked.stderr
    for option in ("--risk", "--delta"):
        asked = run("improve", "cal.csv", option, "10%")
        assert asked.exit_code == 2
        assert f"'{option}': '10%' must be a fraction. Write 0.1 for 10%." in asked.stderr


@pytest.mark.parametrize("kind", ["numbers", "words", "numbered from 1", "correct", "labels and predictions"])
def test_a_check_leaves_out_rows_without_a_label_yet(run, tmp_path, kind):
    rng = np.random.default_rng(0)

    def write_file(name, n, blank):
        truth, z = rng.integers(0, 3, n), rng.normal(size=(n, 3))
        z[np.arange(n), truth] += 2
        sure = rng.random(n)
        head = "label,logit_0,logit_1,logit_2"
        rows = [[truth[i], *z[i].tolist()] for i in range(n)]
        if kind == "words":
            head = "label,logit_a,logit_b,logit_c"
            rows = [["abc"[truth[i]], *z[i].tolist()] for i in range(n)]
        if kind == "numbered from 1":
            head = "label,logit_1,logit_2,logit_3"
            rows = [[truth[i] + 1, *z[i].tolist()] for i in range(n)]
        if kind == "correct":
            head, rows = (
                "correct,confidence",
                [[int(truth[i] > 0 or sure[i] > 0.2), sure[i]] for i in range(n)],
            )
        if kind == "labels and predictions":
            head, rows = "label,confidence,prediction", [[truth[i], sure[i], truth[i]] for i in range(n)]
        for row in rows[3 : 3 + blank]:
            row[0] = ""
        (tmp_path / name).write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]))

    write_file("first.csv", 1500, blank=0)
    write_file("later.csv", 300, blank=36)
    assert run("threshold", "first.csv", "--risk", "0.3", "--save", "rule.json").exit_code == 0
    seen = run("threshold", "later.csv", "--check", "rule.json", "--json")
    assert seen.exit_code == 0, seen.stderr
    assert json.loads(seen.stdout)["n"] == 264
    if kind in ("numbers", "words"):  # a rule with several promises leaves the same rows out
        names = ("0", "1") if kind == "numbers" else ("a", "b")
        risks = [option for name in names for option in ("--risk", f"{name}=0.4")]
        assert run("threshold", "first.csv", *risks, "--save", "several.json").exit_code == 0
        several = run("threshold", "later.csv", "--check", "several.json", "--csv")
        assert {row["n"] for row in csv.DictReader(io.StringIO(several.stdout))} == {"264"}
    assert "36 of 300" in seen.stderr
    assert "left out" in seen.stderr
    assert run("threshold", "later.csv", "--risk", "0.3").exit_code == (3 if "and" not in kind else 0)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_decide_tells_of_confidences_unlike_those_of_the_calibration(run, tmp_path, factor):
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, 2000)
    logits = rng.normal(size=(2000, 3)) + 3 * np.eye(3)[labels]
    np.savez(tmp_path / "cal.npz", logits=logits[:1000], labels=labels[:1000])
    np.savez(tmp_path / "new.npz", logits=factor * logits[1000:])
    assert run("threshold", "cal.npz", "--risk", "0.1", "--save", "rule.json").exit_code == 0
    decided = run("decide", "rule.json", "new.npz")
    assert decided.exit_code == 0
    notes = [line for line in decided.stderr.splitlines() if line.startswith("note")]
    assert len(notes) == (factor != 1.0)
    if factor == 0.5:
        assert notes[0].startswith(
            "note: the confidences of new.npz differ from those of the calibration (p = "
        )


@pytest.mark.parametrize(("factor", "exit_code"), [(1.0, 0), (1.5, 0), (20.0, 3)])
def test_decide_refuses_confidences_that_lie_far_above_the_calibration(run, tmp_path, factor, exit_code):
    rng = np.random.default_rng(0)
    stars = 1 + 4 * rng.random(600)
    lines = [f"{int(rng.random() > 0.02)},{g!r}" for g in stars.tolist()]
    (tmp_path / "stars.csv").write_text("\n".join(["correct,confidence", *lines]))
    (tmp_path / "new.csv").write_text("\n".join(["confidence", *map(repr, (factor * stars[:100]).tolist())]))
    assert run("threshold", "stars.csv", "--risk", "0.1", "--save", "rule.json").exit_code == 0
    decided = run("decide", "rule.json", "new.csv")
    assert decided.exit_code == exit_code
    assert ("new.csv: most of the confidences lie far above those that rule.json" in decided.stderr) == (
        factor > 2
    )
    assert ("Are both on the same scale?" in decided.stderr) == (factor == 1.5)
    assert exit_code == 0 or decided.stderr.count("\n") == 1


@pytest.mark.parametrize("gap", ["nan", ""])
def test_decide_accepts_no_row_without_a_confidence_and_tells_how_many(run, tmp_path, gap):
    lines = [f"1,{0.5 + k / 1000}" for k in range(400)]
    (tmp_path / "cal.csv").write_text("\n".join(["correct,confidence", *lines]))
    new = [f"{k},{gap if k in (2, 5, 7) else 0.6 + k / 1000}" for k in range(20)]
    (tmp_path / "new.csv").write_text("\n".join(["id,confidence", *new]))
    assert run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json").exit_code == 0
    decided = run("decide", "rule.json", "new.csv")
    assert decided.exit_code == 0
    assert "3 rows of new.csv have no confidence and are not accepted." in decided.stderr
    rows = list(csv.DictReader(io.StringIO(decided.stdout)))
    assert [row["id"] for row in rows if row["accepted"] == "0"] == ["2", "5", "7"]


def test_messages_of_the_command_name_no_method(run, tmp_path):
    lines = [f"1,{0.5 + k / 1000},p{k // 2}" for k in range(400)]
    (tmp_path / "cal.csv").write_text("\n".join(["correct,confidence,patient", *lines]))
    (tmp_path / "new.csv").write_text("\n".join(["correct,confidence", "1,61.3", "0,95.8"]))
    assert run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json").exit_code == 0
    for command in (("threshold", "new.csv", "--check", "rule.json"), ("decide", "rule.json", "new.csv")):
        refused = run(*command)
        assert refused.exit_code == 3
        assert refused.stderr.startswith(
            "abstain: new.csv: this rule was calibrated on confidences within [0, 1]"
        )
    own = ("-c", "clusters=patient")
    assert run("threshold", "cal.csv", "--risk", "0.1", *own, "--save", "patients.json").exit_code == 0
    (tmp_path / "later.csv").write_text("\n".join(["correct,confidence", "1,0.613", "0,0.958"]))
    refused = run("threshold", "later.csv", "--check", "patients.json")
    assert "abstain: later.csv: this rule promises for whole clusters: give" in refused.stderr
    assert "-c clusters=NAME" in refused.stderr


def test_messages_speak_of_options_and_rows_and_not_of_arguments(run, files, tmp_path):
    rng = np.random.default_rng(6)
    sure = 0.5 + rng.random(600) / 2
    rows = [f"{int(right)},{g!r}" for right, g in zip(rng.random(600) < 0.97, sure.tolist())]
    (tmp_path / "own.csv").write_text("\n".join(["correct,confidence", *rows]))
    percent = [f"{row.split(',')[0]},{100 * float(row.split(',')[1])!r}" for row in rows]
    (tmp_path / "percent.csv").write_text("\n".join(["correct,confidence", *percent]))
    assert run("threshold", "own.csv", "--risk", "0.1", "--save", "own.json").exit_code == 0
    refused = run("decide", "own.json", "percent.csv")
    assert refused.exit_code == 3
    assert refused.stderr.endswith("If these are percentages, say --scale percent.\n")
    assert run("decide", "own.json", "percent.csv", "--scale", "percent").exit_code == 0

    assert run("threshold", "cal.csv", "--risk", "0.1", "--save", "rule.json").exit_code == 0
    refused = run("decide", "rule.json", "percent.csv", "--score", "max_softmax")
    assert "units=" not in refused.stderr
    assert refused.stderr.endswith("If these are percentages, say --scale percent.\n")
    assert run("threshold", "month0.csv", "--check", "rule.json", "--state", "series.json").exit_code in (
        0,
        5,
    )
    assert run("threshold", "cal.csv", "--risk", "0.2", "--save", "other.json").exit_code == 0
    refused = run("threshold", "month1.csv", "--check", "other.json", "--state", "series.json")
    assert "the series must be one of this threshold" in refused.stderr
    assert "previous" not in refused.stderr

    np.savez(tmp_path / "hole.npz", logits=[[1.0, 0.0], [-np.inf, -np.inf]], labels=[0, 1])
    assert "in row 2." in run("evaluate", "hole.npz").stderr
    swapped = run("decide", "month0.csv", "rule.json")
    assert swapped.stderr.startswith("abstain: 'month0.csv' is no stored rule (not JSON")


def test_a_level_of_confidence_is_not_a_delta(run, files):
    refused = run("threshold", "cal.csv", "--risk", "0.1", "--delta", "0.95")
    assert refused.exit_code == 2
    assert "delta is the probability that the promise fails: give 0.05" in " ".join(refused.stderr.split())


def test_no_command_promises_the_largest_possible_loss(run, files):
    assert (
        run("threshold", "cal.csv", "--risk", "0").exit_code == 4
    )  # nothing proves that there is no loss at all
    for command in ("threshold", "report", "improve"):
        refused = run(command, "cal.csv", "--risk", "1")
        assert refused.exit_code == 2
        message = "must be below 1, the largest possible loss, got 1. Write 0.01 for 1%."
        assert message in " ".join(refused.stderr.split())
    assert run("threshold", "cal.csv", "--risk", "1", "--bounded", "0", "2").exit_code == 0


def test_the_next_commands_of_a_rule_run_as_they_are_printed(run, tmp_path):
    rng = np.random.default_rng(8)
    stated = rng.integers(0, 101, 600)
    verdict = np.where(rng.random(600) * 100 < stated, "good", "bad")
    rows = [
        f"{number},{word},{rng.random():.3f},{row % 2}"
        for row, (number, word) in enumerate(zip(stated, verdict))
    ]
    (tmp_path / "cal.csv").write_text("\n".join(["sure,verdict,mass,part", *rows]))
    (tmp_path / "LATER_FILE").write_text((tmp_path / "cal.csv").read_text())
    (tmp_path / "later.csv").write_text((tmp_path / "cal.csv").read_text())
    for name in ("NEW_FILE", "new.csv"):
        (tmp_path / name).write_text("\n".join(["sure", *map(str, stated[:50])]))
    made = run(
        *(
            "threshold",
            "cal.csv",
            "-c",
            "confidence=sure",
            "-c",
            "correct=verdict",
            "--grades",
            "good=right,bad=wrong",
        ),
        *("--scale", "percent", "--only", "part=1", "-c", "weight=mass", "--format", "csv", "--risk", "0.4"),
        *("--save", "rule.json", "--record", "rule.md"),
    )
    assert made.exit_code == 0, made.output
    record = (tmp_path / "rule.md").read_text()
    lines = [line.strip() for line in made.stderr.splitlines() if line.startswith("  abstain ")]
    lines += re.findall(r"`(abstain (?:decide|threshold later)[^`]*rule.json[^`]*)`", record)
    assert len(lines) == 4, record
    for line in lines:
        later = run(*shlex.split(line)[1:])
        assert later.exit_code == 0, (line, later.output)
