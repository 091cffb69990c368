"""A researcher: two models' files, which is better and by how much, the table for the paper, the page for the group."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

N, K = 1500, 6


@pytest.fixture
def desk(tmp_path):
    """Logits of a good and of a weaker network on the same images, the second file in another order."""
    rng = np.random.default_rng(11)
    labels, ids = rng.integers(0, K, N), np.array([f"img-{k:05d}" for k in range(N)])
    for name, signal in (("resnet", 3.0), ("vgg", 1.6)):
        logits = rng.normal(size=(N, K))
        logits[np.arange(N), labels] += signal
        order = rng.permutation(N) if name == "vgg" else np.arange(N)
        np.savez(tmp_path / f"{name}.npz", logits=logits[order], labels=labels[order], id=ids[order])
    return tmp_path


def abstain(desk: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a shell of its own, as it is typed."""
    return subprocess.run(
        [sys.executable, "-m", "abstain", *arguments],
        cwd=desk,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def aurc_by_hand(file: Path) -> float:
    held = np.load(file)
    z = held["logits"] - held["logits"].max(axis=1, keepdims=True)
    sure = np.max(z - np.log(np.exp(z).sum(axis=1, keepdims=True)), axis=1)
    wrong = held["logits"].argmax(axis=1) != held["labels"]
    return float(np.mean([wrong[sure >= t].mean() for t in sure]))


def test_two_models_from_files_to_the_paper(desk):
    truth = {name: aurc_by_hand(desk / f"{name}.npz") for name in ("resnet", "vgg")}

    seen = abstain(desk, "compare", "vgg.npz", "resnet.npz")
    assert seen.returncode == 0, seen.stderr
    assert "put in the order of" in seen.stderr
    for word in ("resnet", "vgg", "difference", "p"):
        assert re.search(rf"\b{word}\b", seen.stdout), word
    assert seen.stdout.index("resnet") < seen.stdout.index("vgg")  # the better one first
    assert max(map(len, seen.stdout.splitlines())) <= 100

    data = json.loads(abstain(desk, "compare", "vgg.npz", "resnet.npz", "--json").stdout)
    assert {c["name"]: c["estimate"] for c in data["contestants"]} == pytest.approx(truth, rel=1e-9)
    (pair,) = data["pairs"]
    assert abs(pair["difference"]) == pytest.approx(truth["vgg"] - truth["resnet"], rel=1e-9)
    assert pair["low"] < pair["difference"] < pair["high"]
    assert pair["p_adjusted"] < 0.01

    rows = list(
        csv.DictReader(io.StringIO(abstain(desk, "compare", "vgg.npz", "resnet.npz", "--csv").stdout))
    )
    assert [row["name"] for row in rows] == ["resnet", "vgg"]
    assert float(rows[1]["difference"]) == pytest.approx(truth["vgg"] - truth["resnet"], rel=1e-9)
    assert float(rows[1]["p_adjusted"]) < 0.01
    assert rows[0]["difference"] == ""

    assert abstain(desk, "compare", "vgg.npz", "resnet.npz", "--latex", "-o", "table.tex").returncode == 0
    table = (desk / "table.tex").read_text()
    assert table.count("&") % 6 == 0
    for told in (r"\toprule", "resnet", "difference", "share a letter"):
        assert told in table

    assert abstain(desk, "report", "vgg.npz", "resnet.npz", "-o", "page.html").returncode == 0
    assert "resnet" in (desk / "page.html").read_text(encoding="utf-8")


def test_all_scores_of_one_model_against_each_other(desk):
    done = abstain(desk, "compare", "resnet.npz", "--score", "all", "--csv")
    names = [row["name"] for row in csv.DictReader(io.StringIO(done.stdout))]
    assert {"max_softmax", "max_logit", "energy", "negative_entropy"} <= set(names)


def test_a_slip_with_the_files_is_noticed(desk):
    held = dict(np.load(desk / "vgg.npz"))
    np.savez(desk / "shuffled.npz", logits=held["logits"], labels=held["labels"])  # without its ids
    done = abstain(desk, "compare", "resnet.npz", "shuffled.npz")
    assert done.returncode == 3
    assert "shuffled has no ids" in done.stderr
    assert abstain(desk, "compare", "resnet.npz", "vgg.npz", "--csv", "-o", "vgg.npz").returncode == 3
    assert list(np.load(desk / "vgg.npz")) == ["logits", "labels", "id"]
