"""Logs of tau-bench and tau2-bench: a row per trial, the trials of a task as repeats."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import RIGHT, tau2_bench, tau_bench

from abstain.errors import DataError
from abstain.formats import open_source, read_log


def write(path: Path, content) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_trials_are_repeats_of_their_task(tmp_path):
    log = read_log(write(tmp_path / "a.json", tau_bench()))
    assert (log.tool, log.n, log.questions) == ("tau-bench", 12, 6)
    assert log.accuracy == pytest.approx(sum(RIGHT) / 12)


def test_one_trial_alone_is_a_log(tmp_path):
    assert read_log(write(tmp_path / "a.json", tau_bench()[0])).n == 1


def test_simulations_with_costs_and_one_that_broke_off(tmp_path):
    path = write(tmp_path / "a.json", tau2_bench())
    log = read_log(path)
    assert (1 - log.loss).tolist() == RIGHT
    assert "1 trial without a reward is left out." in log.notes
    source = open_source(path)
    assert (source.facts.model, source.facts.task) == ("mock", "airline")
    assert source.columns["dollars"].load().tolist() == [0.5 * k for k in range(6)]


def test_a_trial_without_a_task_is_refused(tmp_path):
    trials = tau_bench()
    del trials[3]["task_id"]
    with pytest.raises(DataError, match="trial 4 of tau-bench has no task_id"):
        read_log(write(tmp_path / "a.json", trials))
