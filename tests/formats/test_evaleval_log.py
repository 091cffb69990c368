"""Samples in EvalEval's schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import RIGHT, evaleval, lines

from abstain.errors import DataError
from abstain.formats import open_source, read_log


def test_samples(tmp_path):
    path = tmp_path / "a_samples.jsonl"
    path.write_bytes(lines(evaleval()))
    log = read_log(path)
    assert (log.tool, (1 - log.loss).tolist()) == ("EvalEval", RIGHT)
    half = read_log(path, columns={"correct": "score"})
    assert (half.loss_name, (1 - half.loss).tolist()) == ("partial_credit", [0.5 * right for right in RIGHT])
    source = open_source(path)
    assert (source.facts.model, source.facts.task) == ("org/m", "sums")
    assert source.columns["answer"].load().texts().tolist() == [f"a{k}" for k in range(6)]
    assert source.columns["tokens"].load().tolist() == [10.0 * k for k in range(6)]
    assert source.columns["seconds"].load().tolist() == [0.5] * 6


def test_failed_samples_and_several_models_are_told(tmp_path):
    records = evaleval()
    records[0] |= {"error": "timeout", "evaluation": {"score": None}}
    records[1]["model_id"] = "org/other"
    path = tmp_path / "a_samples.jsonl"
    path.write_bytes(lines(records))
    log = read_log(path)
    assert log.n == 5
    assert "1 sample failed and is left out." in log.notes
    assert any("the file holds 2 models" in note for note in log.notes)


def test_a_summary_names_the_file_with_samples(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"evaluation_id": "e", "evaluation_results": [{"score": 1}]}))
    with pytest.raises(DataError, match=r"Name the \*_samples.jsonl"):
        read_log(path)


def test_a_record_without_an_id_is_refused(tmp_path):
    records = evaleval()
    del records[2]["sample_id"]
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(records))
    with pytest.raises(DataError, match="record 3 is not a sample"):
        read_log(path)
