"""`abstain clinical`: the counts of a table made by hand, in every form."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli

RNG = np.random.default_rng(2)
ILL = RNG.random(400) < 0.3
P_ILL = np.clip(0.25 + 0.5 * ILL + 0.2 * RNG.normal(size=400), 0.01, 0.99)
SAID, SURE = P_ILL > 0.5, np.maximum(P_ILL, 1 - P_ILL)


@pytest.fixture(params=["scores.npz", "words.csv", "numbers.csv"])
def file(request, tmp_path):
    path = tmp_path / request.param
    if path.suffix == ".npz":
        np.savez(
            path, probs=np.column_stack([1 - P_ILL, P_ILL]), labels=ILL.astype(int), classes=["well", "ill"]
        )
        return path, "ill"
    word = np.array(["well", "ill"] if request.param.startswith("words") else ["0", "1"])
    rows = zip(word[ILL.astype(int)], word[SAID.astype(int)], SURE)
    path.write_text("\n".join(["label,prediction,confidence", *(",".join(map(str, row)) for row in rows)]))
    return path, word[1]


def run(*arguments: object):
    return CliRunner().invoke(cli, list(map(str, arguments)))


def test_every_form_has_the_counts_by_hand(file):
    path, positive = file
    done = run("clinical", path, "--positive", positive, "--csv")
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 10
    for row in rows:
        taken = float(row["threshold"]) - 1e-9 <= SURE
        assert float(row["coverage"]) == pytest.approx(taken.mean())
        assert float(row["sensitivity"]) == pytest.approx((SAID & ILL & taken).sum() / (ILL & taken).sum())
        assert float(row["npv"]) == pytest.approx((~SAID & ~ILL & taken).sum() / (~SAID & taken).sum())
        assert float(row["ppv_low"]) <= float(row["ppv"]) <= float(row["ppv_high"])
    data = json.loads(run("clinical", path, "--positive", positive, "--json").stdout)
    assert data["format"] == "abstain.ClinicalTable/1"
    assert data["sensitivity"]["value"] == [float(row["sensitivity"]) for row in rows]
    again = abstain.thresholds.ClinicalTable.from_json(json.dumps(data))
    assert again.frame("dict")["npv_low"] == [float(row["npv_low"]) for row in rows]
    shown = run("clinical", path, "--positive", positive).stdout
    assert f"{float(rows[0]['specificity']):.3f}" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "specificity" in shown
    latex = run("clinical", path, "--positive", positive, "--latex").stdout
    assert latex.count(r" \\") == 11
    assert "specificity" in latex


def test_a_class_that_is_not_there_and_a_file_without_answers(file, tmp_path):
    refused = run("clinical", file[0], "--positive", "nobody")
    assert refused.exit_code == 3
    assert "must be one of the classes" in refused.stderr
    bare = tmp_path / "bare.csv"
    bare.write_text("correct,confidence\n1,0.9\n0,0.2\n")
    assert "columns of labels and predictions" in run("clinical", bare, "--positive", "1").stderr


def test_a_refused_case_is_not_accepted_and_stays_in_the_shares(tmp_path):
    """Half of the ill are refused: whoever reads 100% answered would take them for seen."""
    away, path = ILL & (np.arange(400) % 2 == 0), tmp_path / "t.csv"
    rows = zip(ILL.astype(int), SAID.astype(int), SURE, away.astype(int), np.arange(400) // 2)
    head = "label,prediction,confidence,abstained,cluster"
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]))
    done = run("clinical", path, "--positive", 1, "--csv")
    assert "samples in 200 clusters" in run("clinical", path, "--positive", 1).stdout
    for row in csv.DictReader(io.StringIO(done.stdout)):
        taken = (float(row["threshold"]) <= SURE) & ~away
        assert int(row["accepted"]) == taken.sum()
        assert float(row["coverage"]) == taken.mean()
        assert float(row["sensitivity"]) == (SAID & ILL & taken).sum() / (ILL & taken).sum()
        assert float(row["positives_accepted"]) == (ILL & taken).sum() / ILL.sum()


def test_labels_that_are_no_classes_and_labels_in_one_hot_rows(tmp_path):
    probs = np.column_stack([1 - P_ILL, P_ILL])
    np.savez(tmp_path / "hot.npz", probs=probs, labels=np.eye(2)[ILL.astype(int)])
    np.savez(tmp_path / "plain.npz", probs=probs, labels=ILL.astype(int))
    hot, plain = (
        run("clinical", tmp_path / f"{name}.npz", "--positive", 1, "--json") for name in ("hot", "plain")
    )
    assert hot.stdout == plain.stdout
    for bad in (2, -1, np.nan, 0.5):
        labels = ILL.astype(float)
        labels[7] = bad
        np.savez(tmp_path / "bad.npz", probs=probs, labels=labels)
        refused = run("clinical", tmp_path / "bad.npz", "--positive", 1)
        assert refused.exit_code == 3
        assert "`labels` must be whole numbers from 0 to 1" in refused.stderr


def test_in_a_notebook():
    table = abstain.clinical_table(ILL, SAID, SURE, positive=True)
    assert table._repr_html_().count("<tr>") == 11
    assert table.to_latex().count(r"\phantom") > 0 or len(set(map(len, table.grid()["ppv"]))) == 1
