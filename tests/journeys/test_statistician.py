"""A statistician of a hospital trust: calibrate, file the decision, decide on new cases, check for three months, by site."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import abstain

SITES = ("north", "south", "west")


def cases(path: Path, patients: int, seed: int, *, labelled: bool = True, weaker: float = 1.0) -> None:
    """Five images of each patient, who belongs to a site; probabilities of three findings."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(patients), 5)
    label, site = rng.integers(0, 3, len(who)), np.asarray(SITES)[who % 3]
    z = rng.normal(size=(len(who), 3)) + 0.3 * rng.normal(size=(patients, 3))[who]
    z[np.arange(len(who)), label] += rng.exponential(5 / weaker, len(who))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(
            ["case", *(["label"] if labelled else []), "cluster", "group", "prob_0", "prob_1", "prob_2"]
        )
        for i, row in enumerate(p.tolist()):
            out.writerow(
                [f"c{seed}-{i}", *([label[i]] if labelled else []), f"p{seed}-{who[i]:04}", site[i], *row]
            )


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    here = {**os.environ, "PYTHONPATH": str(Path(abstain.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-m", "abstain", *arguments], cwd=folder, env=here, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("trust")
    cases(made / "calibration.csv", 900, 1)
    cases(made / "new.csv", 40, 2, labelled=False)
    for month in (1, 2, 3):
        cases(made / f"month-{month}.csv", 60, 10 + month)
    cases(made / "new-scanner.csv", 300, 20, weaker=6.0)
    return made


def test_calibrate_save_decide_and_check_for_three_months(folder):
    chosen = run(
        folder, "threshold", "calibration.csv", "--risk", "0.1", "--save", "rule.json", "--record", "rule.md"
    )
    assert chosen.returncode == 0, chosen.stderr
    assert "900 calibration clusters (4500 samples)" in " ".join(chosen.stdout.split())
    page = (folder / "rule.md").read_text(encoding="utf-8")
    assert "900, the largest of 5 samples" in page
    assert "SHA-256" in page

    decided = run(folder, "decide", "rule.json", "new.csv", "-o", "decided.csv")
    assert decided.returncode == 0, decided.stderr
    rows = list(csv.DictReader((folder / "decided.csv").open(encoding="utf-8")))
    assert len(rows) == 200
    rule = json.loads((folder / "rule.json").read_text(encoding="utf-8"))
    assert all((r["accepted"] == "1") == (float(r["max_softmax"]) >= rule["origin"]["plain"]) for r in rows)
    assert 0.2 < np.mean([r["accepted"] == "1" for r in rows]) < 1

    for month in (1, 2, 3):
        seen = run(
            folder,
            "threshold",
            f"month-{month}.csv",
            "--check",
            "rule.json",
            "--state",
            "series.json",
            "--json",
        )
        assert seen.returncode == 0, seen.stdout
        told = json.loads(seen.stdout)
        assert (told["looks"], told["n"]) == (month, 300 * month)
    again = run(
        folder, "threshold", "month-3.csv", "--check", "rule.json", "--state", "series.json", "--json"
    )
    assert again.returncode == 0
    assert "was counted in this series before" in again.stderr
    assert json.loads(again.stdout)["looks"] == 3
    alarm = run(
        folder, "threshold", "new-scanner.csv", "--check", "rule.json", "--state", "series.json", "--quiet"
    )
    assert (alarm.returncode, alarm.stdout.strip()) == (5, "alarm")


def test_per_hospital(folder):
    chosen = run(
        folder, "threshold", "calibration.csv", "--risk", "0.15", "--groups", "--save", "sites.json", "-q"
    )
    assert chosen.returncode == 0, chosen.stderr
    assert len(chosen.stdout.split()) == 3
    for month in (1, 2, 3):
        seen = run(
            folder,
            "threshold",
            f"month-{month}.csv",
            "--check",
            "sites.json",
            "--state",
            "sites-series.json",
            "--csv",
        )
        assert seen.returncode == 0, seen.stdout
    rows = list(csv.DictReader(seen.stdout.splitlines()))
    # the worst site comes first, whichever that is
    assert sorted((r["group"], r["looks"], r["n"]) for r in rows) == [
        (site, "3", "300") for site in sorted(SITES)
    ]
    decided = run(folder, "decide", "sites.json", "new.csv")
    assert decided.returncode == 0, decided.stderr
    rules = abstain.thresholds.GroupThresholds.load(folder / "sites.json")
    for row in csv.DictReader(decided.stdout.splitlines()):
        plain = rules[row["group"]].origin.plain
        assert (row["accepted"] == "1") == (float(row["max_softmax"]) >= plain)


def test_the_rule_is_not_for_another_score(folder):
    run(
        folder,
        "threshold",
        "calibration.csv",
        "--risk",
        "0.1",
        "--score",
        "negative_entropy",
        "--save",
        "entropy.json",
    )
    refused = run(folder, "threshold", "month-1.csv", "--check", "entropy.json", "--score", "max_softmax")
    assert refused.returncode == 3
    assert "this rule is for negative_entropy" in refused.stderr
    rule = abstain.Threshold.load(folder / "entropy.json")
    with pytest.raises(abstain.errors.InputError, match="at most 0"):
        rule.accepts([0.9, 0.8], units="plain")
