"""Progress of the cluster engines: every stage reaches its total, nothing else changes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from abstain import _progress
from abstain.engines import dask, spark

from .conftest import write_parts

STAGES = {"dask": ["survey", "partition", "finish"], "spark": ["survey", "sums", "finish"]}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    rng = np.random.default_rng(0)
    g1, g2 = rng.random(30_000), rng.random(30_000)
    columns = {
        "g1": g1,
        "l1": np.round(rng.exponential(1, 30_000), 2),
        "g2": g2,
        "l2": rng.random(30_000) < g1,
    }
    return write_parts(tmp_path_factory.mktemp("progress") / "data", columns)


def engine_of(name, request):
    if name == "dask":
        return dask, {"client": request.getfixturevalue("dask_client")}
    return spark, {"session": request.getfixturevalue("spark_session")}


def counts(text):
    """{stage: (done, total)} of bars printed where there is no terminal."""
    lines = [re.match(r"(\S.*?)\s+[━╸╺ ]+\s+(\d+)/(\d+)", line) for line in text.splitlines()]
    return {m[1]: (int(m[2]), int(m[3])) for m in lines if m}


@pytest.mark.parametrize("name", ["dask", "spark"])
def test_every_stage_reaches_its_total(name, stored, request, capsys):
    engine, where = engine_of(name, request)
    columns = {"confidence": "g1", "loss": "l1"}
    capsys.readouterr()
    calm = engine.evaluate(stored, **columns, **where, progress=False)
    assert counts(capsys.readouterr().err) == {}
    watched = engine.evaluate(stored, **columns, **where, progress=True)
    shown = counts(capsys.readouterr().err)
    assert watched.entries == calm.entries
    assert list(shown) == [*STAGES[name], *(f"oracle: {stage}" for stage in STAGES[name])]
    assert all(0 < done == total for done, total in shown.values())
    if name == "dask":
        assert shown["survey"] == shown["partition"] == (10, 10)  # one partition per file


@pytest.mark.parametrize("name", ["dask", "spark"])
def test_a_comparison_shows_both_models_and_the_joint_pass(name, stored, request, capsys):
    engine, where = engine_of(name, request)
    engine.compare(stored, first=("g1", "l1"), second=("g2", "l2"), **where, progress=True)
    shown = counts(capsys.readouterr().err)
    stages = [f"{model}: {stage}" for model in ("first", "second") for stage in STAGES[name]]
    assert list(shown) == [*stages, "joint"]
    assert all(0 < done == total for done, total in shown.values())


def test_spark_keeps_the_job_group_of_its_user(stored, spark_session, capsys):
    context = spark_session.sparkContext
    context.setJobGroup("mine", "my own work")
    try:
        spark.aurc(stored, session=spark_session, confidence="g1", loss="l1", progress=True)
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "my own work"
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(key, None)


class Display:
    """Notes what rich would be told."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *a, **k: self.calls.append(name)


def test_by_default_a_bar_waits_for_long_work_on_a_terminal(monkeypatch):
    display = Display()
    shown = _progress.Bars(display, delay=3600)
    shown.advance("survey", 1, 2)
    shown.close()
    assert "start" not in display.calls
    assert "stop" not in display.calls
    shown = _progress.Bars(display, delay=0)
    shown.set("survey", 1, 2)
    shown.close()
    assert display.calls.count("start") == display.calls.count("stop") == 1
    with _progress.progress_bars(None) as silent:
        assert not silent.is_shown  # pytest has no terminal
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich, a terminal
    with _progress.progress_bars(None) as drawn:
        assert drawn.is_shown
    with _progress.progress_bars(False) as silent:
        assert not silent.is_shown
