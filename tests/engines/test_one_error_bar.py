"""One error bar: memory, block tables, files, Dask and Spark give the same estimate and the same interval."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core.rows import Blocks
from abstain.engines import files

from .conftest import write_parts

N = 4_000
ERRORS = (0, 1, 3, 15, 500)
METRICS = ["aurc", "aurc:sele", "augrc", "e_aurc", "naurc", "oracle_aurc", "auroc", "risk"]
METRICS += ["prediction_rejection_ratio", "aupr_error", "aupr_success", "fpr_at_tpr"]
METRICS += ["risk_at_coverage@0.3", "risk_at_coverage@0.8", "coverage_at_risk@0.02", "coverage_at_risk@0.1"]
WEIGHTS = {"none": None, "whole": "w", "fractional": "f"}


def sample(errors, dense=False):
    """Ties and lone confidences, with so many errors among the less confident."""
    rng = np.random.default_rng(errors)
    g = np.where(rng.random(N) < 0.3, np.round(rng.random(N), 1), rng.random(N))
    if dense:  # as many values as a counter can hold, several samples each
        g = (1 - rng.integers(0, 900, N) * 2.0**-24).astype(np.float32)
    l = np.zeros(N, dtype=bool)
    l[rng.choice(N, errors, replace=False, p=(1.1 - g) / np.sum(1.1 - g))] = True
    return {
        "confidence": g,
        "loss": l,
        "w": rng.integers(1, 4, N).astype(float),
        "f": rng.lognormal(0, 0.7, N),
        "kind": rng.choice(["a", "b"], N, p=[0.7, 0.3]),
    }


@pytest.fixture(scope="module", params=ERRORS)
def stored(request, tmp_path_factory):
    columns = sample(request.param)
    return columns, write_parts(tmp_path_factory.mktemp(f"errors-{request.param}") / "data", columns)


def in_memory(columns, weight=None, groups=None, metrics=METRICS, repetitions=False):
    given = {"sample_weight": weight and columns[weight], "groups": groups and columns[groups]}
    given["repetitions"] = repetitions
    return abstain.evaluate(loss=columns["loss"], confidence=columns["confidence"], metrics=metrics, **given)


def same(found, truth):
    assert len(found.entries) == len(truth.entries)
    seen = 0
    for entry in truth.entries:
        own = found.select(metric=entry.metric, group=entry.group)[0]
        for name in ("estimate", "standard_error", "low", "high"):
            value, expected = getattr(own, name), getattr(entry, name)
            near = None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-13)
            assert value == near, (entry.metric, entry.group, name)
        assert (own.n, own.method, own.reason) == (entry.n, entry.method, entry.reason), entry.metric
        assert own.note == entry.note, entry.metric
        seen += entry.low is not None
    return seen


@pytest.fixture
def tiny_ranges(monkeypatch):
    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 300)
    monkeypatch.setattr(files, "_fits_in_memory", lambda *a: False)


@pytest.mark.parametrize("groups", [None, "kind"])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("spilled", [False, True])
def test_files_have_the_intervals_of_memory(spilled, weight, groups, stored, request):
    if spilled:
        request.getfixturevalue("tiny_ranges")
    columns, path = stored
    for repetitions in {False, weight == "whole"}:
        stated = {"repetitions": repetitions}
        found = files.evaluate(path, sample_weight=WEIGHTS[weight], groups=groups, metrics=METRICS, **stated)
        assert same(found, in_memory(columns, WEIGHTS[weight], groups, **stated)) >= 9


def test_few_right_samples_too(tmp_path, tiny_ranges):
    """Three right samples. (Fourth powers of the influences on AUPR and E-AURC cancel to fewer digits than asked for.)"""
    columns = sample(N - 3)
    metrics = ["naurc", "auroc", "risk", "prediction_rejection_ratio", "aupr_success", "fpr_at_tpr"]
    found = files.evaluate(write_parts(tmp_path / "data", columns), metrics=metrics)
    assert same(found, in_memory(columns, metrics=metrics)) == len(metrics)
    assert "effective right samples (3 in all)" in found.entries[0].note


@pytest.mark.parametrize("errors", ERRORS)
def test_counted_files_have_them_too(errors, tmp_path, tiny_ranges, monkeypatch):
    monkeypatch.setattr(files, "_MIN_COUNTED", 1000)
    columns = sample(errors, dense=True)
    found = files.evaluate(write_parts(tmp_path / "data", columns), metrics=METRICS)
    assert same(found, in_memory(columns)) >= 9


@pytest.fixture(scope="module")
def by_errors(tmp_path_factory):
    """All samples in one table, the number of errors as their group: one run of a cluster tells of each."""
    samples = {errors: sample(errors) for errors in ERRORS}
    columns = {
        name: np.concatenate([s[name] for s in samples.values()]) for name in samples[0] if name != "kind"
    }
    columns["kind"] = np.repeat(ERRORS, N)
    return columns, write_parts(tmp_path_factory.mktemp("by-errors") / "data", columns)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_clusters_have_the_intervals_of_memory(engine, weight, by_errors, request):
    columns, path = by_errors
    if engine == "dask":
        from abstain.engines.dask import evaluate

        where = {"client": request.getfixturevalue("dask_client")}
    else:
        from abstain.engines.spark import evaluate

        where = {"session": request.getfixturevalue("spark_session")}
    found = evaluate(path, sample_weight=WEIGHTS[weight], groups="kind", metrics=METRICS, **where)
    assert same(found, in_memory(columns, WEIGHTS[weight], "kind")) >= 9 * (1 + len(ERRORS))


@pytest.mark.parametrize("weight", ["none", "whole"])
def test_block_tables_have_them_too(weight, stored):
    """Merged from three parts; fractional weights hide the oracle's order in the sums."""
    columns, _ = stored
    names = ("loss", "confidence", *([WEIGHTS[weight]] if WEIGHTS[weight] else []))
    parts = [[columns[name][some] for name in names] for some in np.array_split(np.arange(N), 3)]
    first, *others = (Blocks.from_samples(*part) for part in parts)
    tables = {("confidence", "loss"): first.merge(*others)}
    found = abstain.evaluate("anything", engine=lambda **given: tables, metrics=METRICS, repetitions=True)
    assert same(found, in_memory(columns, WEIGHTS[weight], repetitions=True)) >= 9


def test_negative_losses_are_not_put_on_a_log_scale(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"confidence": rng.random(N), "loss": rng.normal(0.3, 1, N)}
    metrics = ["aurc", "augrc", "risk", "risk_at_coverage@0.5"]
    found = files.evaluate(write_parts(tmp_path / "data", columns), metrics=metrics)
    assert same(found, in_memory(columns, metrics=metrics)) == 4
    assert {e.method for e in found.entries} == {"normal", "pointwise"}


def test_an_interval_belongs_to_its_estimator(stored, tiny_ranges):
    _, path = stored
    for entry in files.evaluate(path, metrics=["aurc", "aurc:sele", "aurc:log"]).entries:
        assert entry.low <= entry.estimate <= entry.high
