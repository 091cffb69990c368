"""Runs of HELM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))

from written import (
    RIGHT,
    helm_run,
)

from abstain.errors import DataError
from abstain.formats import read_log, read_predictions


def test_helm(tmp_path):
    folder = helm_run(tmp_path / "run")
    for path in (folder, folder / "per_instance_stats.json"):
        log = read_log(path)
        assert (1 - log.loss).tolist() == RIGHT
        assert log.answered.tolist() == [True, False, True, True, True, True]
        assert list(log.signals) == ["max_prob"]
    with pytest.raises(DataError, match="Name its folder"):
        read_log(folder / "run_spec.json")
    constant = read_log(helm_run(tmp_path / "other", prob=1.0))
    assert not constant.signals
    assert any("`max_prob` is the same in every row" in note for note in constant.notes)
    with pytest.raises(DataError, match=r"no confidence to rank by: accuracy 0\.\d+ of 6"):
        read_predictions(tmp_path / "other")


def test_of_a_helm_run_that_scores_given_texts_the_likelihood_is_no_signal(tmp_path):
    folder = helm_run(tmp_path / "run")
    path = folder / "per_instance_stats.json"
    content = json.loads(path.read_text())
    for k, entry in enumerate(content):
        entry["stats"].append({"name": {"name": "logprob", "split": "test"}, "count": 1, "mean": -1.0 - k})
    path.write_text(json.dumps(content))
    for method, signals in (("generation", ["max_prob", "logprob"]), ("language_modeling", ["max_prob"])):
        (folder / "run_spec.json").write_text(json.dumps({"adapter_spec": {"method": method}}))
        assert list(read_log(folder).signals) == signals


def test_all_confidences_are_those_that_rank_and_a_named_one_stays(tmp_path):
    folder = helm_run(tmp_path / "run", prob=1.0)
    path = folder / "per_instance_stats.json"
    content = json.loads(path.read_text())
    for k, entry in enumerate(content):
        entry["stats"].append({"name": {"name": "logprob", "split": "test"}, "count": 1, "mean": -1.0 - k})
    path.write_text(json.dumps(content))
    (folder / "run_spec.json").write_text(json.dumps({"adapter_spec": {"method": "generation"}}))
    for columns in ({}, {"confidence": "*"}):
        assert list(read_log(folder, columns=columns).signals) == ["logprob"]
    assert list(read_log(folder, columns={"confidence": "max_prob"}).signals) == ["max_prob"]
