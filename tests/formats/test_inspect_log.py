"""Logs of Inspect: archives, JSON, and values of every kind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))

from written import (
    archive,
    inspect_json,
    inspect_members,
    lines,
    zstd_archive,
)

from abstain.errors import AbstainError, MissingDependencyError
from abstain.formats import Rules, read_log


@pytest.fixture
def put(tmp_path):
    def write(name: str, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


@pytest.mark.parametrize("pack", [archive, zstd_archive])
def test_inspect_archives(put, pack):
    log = read_log(put("run.eval", pack(inspect_members(epochs=2))))
    assert log.tool == "Inspect"
    assert log.column_of_role["correct"] == "match (others: other)"
    assert log.n == 12
    assert log.accuracy == pytest.approx((3 + 0.5) / 6)  # C, I, C, P, N, C
    assert log.loss_name == "partial_credit"
    assert log.unanswered == pytest.approx(1 / 6)
    assert len(np.unique(log.find_clusters())) == 6
    row = 6 + 5 - 2  # epoch 2 of q2; samples lie in the archive from the last to the first
    assert log.signals["sequence_logprob"][row] == pytest.approx(-0.3 - 0.6)
    assert log.signals["mean_token_logprob"][row] == pytest.approx(-0.45)
    assert log.signals["match.metadata.confidence"][row] == pytest.approx(0.3)
    same = [1.0 if k == 0 else 0.5 for k in reversed(range(6))]  # a0 in both epochs of q0, else a0 beside a_k
    assert log.signals["agreement"].tolist() == same * 2


def test_inspect_json_and_what_a_header_promises(put):
    log = read_log(put("log.json", inspect_json(total=40, status="cancelled")))
    assert log.n == 6
    assert "the header promises 40 samples, the file holds 6." in log.notes
    assert any("cancelled" in note for note in log.notes)
    assert read_log(put("log.json", inspect_json()), columns={"correct": "other"}).accuracy == 0.5


def test_inspect_values_of_every_kind(put):
    content = inspect_json()
    values = [True, 0.25, float("nan"), {"exact": 1, "confidence": 0.7}, [1], "odd"]
    for sample, value in zip(content["samples"], values):
        sample["scores"] = {"mine": {"value": value}}
    content["samples"].append({"id": 7, "epoch": 1, "error": {"message": "it broke"}})
    content["samples"].append({"id": 8, "epoch": 1})
    log = read_log(put("log.json", content), columns={"correct": "mine"})
    assert log.loss[:2].tolist() == [0, 0.75]
    assert np.isnan(log.loss[2:]).all()
    assert "1 sample failed and is left out." in log.notes
    assert "1 sample has no score and is left out." in log.notes
    assert "4 of 6 answers have no score and are left out." in log.notes


def test_zstd_without_the_extra_gives_the_install_line(put, monkeypatch):
    path = put("run.eval", zstd_archive(inspect_members()))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[files\]'"):
        read_log(path)


def written_to(path: Path, content: Any) -> Path:
    many = isinstance(content, list) and "doc_id" in content[0]
    path.write_bytes(lines(content) if many else json.dumps(content).encode())
    return path


@pytest.mark.parametrize("grades", ["yes no", "A B C"])
def test_a_scorer_that_grades_by_words(tmp_path, grades):
    """SimpleQA's C means not attempted: beside other words it is no grade of Inspect."""
    words = grades.split()
    content = inspect_json()
    for k, sample in enumerate(content["samples"]):
        sample["scores"] = {"judge": {"value": words[k % len(words)], "answer": f"a{k}"}}
    path = written_to(tmp_path / "log.json", content)
    with pytest.raises(AbstainError, match=r"`judge` grades by words \(.*\)\. Say what each means.*--grades"):
        read_log(path)
    meaning = dict(zip(words, ("right", "wrong", "unanswered")))
    log = read_log(path, columns={"correct": "judge"}, rules=Rules(grades=meaning))
    expected = [meaning[words[k % len(words)]] for k in range(6)]
    assert log.answered.tolist() == [grade != "unanswered" for grade in expected]
    assert log.accuracy == pytest.approx(np.mean([grade == "right" for grade in expected]))
