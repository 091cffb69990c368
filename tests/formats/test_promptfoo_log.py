"""Exports of promptfoo in five shapes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))

from written import (
    RIGHT,
    lines,
    promptfoo,
    promptfoo_csv,
)

from abstain.errors import DataError
from abstain.formats import open_source, read_log, read_predictions


@pytest.fixture
def put(tmp_path):
    def write(name: str, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


@pytest.mark.parametrize("shape", [1, 2, 3, 4, 5])
def test_promptfoo(put, shape):
    log = read_log(put("out.json", promptfoo(shape)))
    assert log.tool == "promptfoo"
    assert (1 - log.loss).tolist() == RIGHT
    assert len(np.unique(log.find_clusters())) == 3
    assert log.signals["sequence_logprob"].tolist() == pytest.approx([-0.2 - 0.1 * k for k in range(6)])
    assert "1 result failed and is left out." in log.notes


def written_to(path: Path, content: Any) -> Path:
    many = isinstance(content, list) and "doc_id" in content[0]
    path.write_bytes(lines(content) if many else json.dumps(content).encode())
    return path


def test_results_that_succeed_are_not_always_promptfoo(tmp_path):
    rows = [{"success": bool(k % 3), "confidence": k / 9, "name": f"t{k}"} for k in range(9)]
    path = written_to(tmp_path / "t.json", {"results": rows})
    read = read_predictions(path, columns={"correct": "success"})
    assert (read.log, read.n) == (None, 9)


def test_a_csv_export_has_a_row_for_each_model(put):
    log = read_log(put("out.csv", promptfoo_csv()))
    assert (log.tool, (1 - log.loss).tolist(), log.questions) == ("promptfoo", [1, 0, 1, 0, 1], 3)
    assert log.groups.texts().tolist() == ["mock:a"] * 3 + ["mock:b"] * 2
    assert "1 result failed and is left out." in log.notes
    score = read_log(put("out.csv", promptfoo_csv()), columns={"correct": "score"})
    assert (1 - score.loss).tolist() == [1, 0, 1, 0.25, 1]


def test_an_export_without_results_is_refused(put):
    for content in (
        {"results": [], "prompts": [], "config": {}},
        {"evalId": "e", "results": {"results": []}},
    ):
        with pytest.raises(DataError, match="an export of promptfoo without results"):
            read_log(put("out.json", content))


def test_prompts_of_version_1_have_no_label(put):
    content = promptfoo(1)
    for number, result in enumerate(content["results"]):
        result["prompt"] = {"raw": f"say {number}", "display": f"say {{{{q}}}} {number % 2}"}
    columns = open_source(put("output.json", content)).columns
    assert set(columns["prompt"].load().distinct_texts) == {"say {{q}} 0", "say {{q}} 1"}
