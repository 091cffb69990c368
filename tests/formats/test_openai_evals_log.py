"""Logs of OpenAI evals, and the results of simple-evals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import RIGHT, lines, openai_evals

from abstain.errors import DataError
from abstain.formats import open_source, read_log


def put(path: Path, events) -> Path:
    path.write_bytes(lines(events))
    return path


def test_events_of_a_run(tmp_path):
    path = put(tmp_path / "run.jsonl", openai_evals())
    log = read_log(path)
    assert (log.tool, (1 - log.loss).tolist()) == ("OpenAI evals", RIGHT)
    source = open_source(path)
    assert (source.facts.model, source.facts.task) == ("mock", "sums.dev.v0")
    assert source.columns["answer"].load().texts().tolist() == [f"a{k}" for k in range(6)]
    assert source.columns["tokens"].load().tolist() == [7.0] * 6


def test_metrics_join_their_sample_and_repeats_are_epochs(tmp_path):
    events = openai_evals()
    match = next(event for event in events if event.get("type") == "match")
    events += [match | {"data": {"correct": not match["data"]["correct"]}}]
    events += [match | {"type": "metrics", "data": {"f1": 0.25, "choice": "B"}}]
    log = read_log(put(tmp_path / "run.jsonl", events))
    assert (log.n, log.questions, log.epoch.max()) == (7, 6, 2)
    assert "others: f1" in log.column_of_role["correct"]


def test_a_run_that_was_graded_by_metrics_alone(tmp_path):
    events = [
        event | ({"type": "metrics", "data": {"score": 0.5}} if event.get("type") == "match" else {})
        for event in openai_evals()
    ]
    assert read_log(put(tmp_path / "run.jsonl", events)).accuracy == 0.5


def test_a_run_without_scores_lists_its_events(tmp_path):
    events = [event for event in openai_evals() if event.get("type") != "match"]
    with pytest.raises(DataError, match=r"without an event that scores \(6 sampling\)"):
        read_log(put(tmp_path / "run.jsonl", events))


def test_simple_evals(tmp_path):
    path = tmp_path / "all.json"
    results = {"score": 0.5, "metrics": {}, "htmls": ["<p>"], "convos": [[]], "metadata": None}
    path.write_text(json.dumps(results))
    with pytest.raises(DataError, match="a whole evaluation of simple-evals"):
        read_log(path)
    examples = [
        {"score": right, "prompt_id": f"p{k}", "usage": {"total_tokens": k}} for k, right in enumerate(RIGHT)
    ]
    path.write_text(json.dumps(results | {"metadata": {"example_level_metadata": examples}}))
    log = read_log(path)
    assert (log.tool, (1 - log.loss).tolist()) == ("simple-evals", RIGHT)
