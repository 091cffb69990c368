"""A user's own metric and partial areas: memory, files, Dask and Spark give the same number and error bar."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.engines import files
from abstain.metrics import Metric, RowInfluence

from .conftest import write_parts

pytest.importorskip("pyarrow")


def squared_risk(rows, options):
    """Mean over coverages of the squared selective risk."""
    return float(np.sum(rows.mass * rows.risk**2) / rows.total_mass[0])


def squared_risk_influence(rows, options):
    """A sample changes the accepted mass and loss of all rows at and below its own, and the mass of its own row."""
    value = squared_risk(rows, options)
    per_loss = 2 * rows.mass * rows.risk / rows.accepted_mass
    per_mass = -2 * rows.mass * rows.risk**2 / rows.accepted_mass

    def sum_from_row_down(values):
        return np.cumsum(values[::-1])[::-1]

    constant = rows.risk**2 + sum_from_row_down(per_mass) - value
    return RowInfluence(constant=constant, slope=sum_from_row_down(per_loss))


OWN = Metric(
    name="squared_risk",
    label="squared risk",
    summary="the mean squared selective risk",
    lower_is_better=True,
    value=squared_risk,
    influence=squared_risk_influence,
    is_nonnegative=True,
)
METRICS = [OWN, "aurc", "aurc@0.7-1", "aurc@0.2-0.55", "risk_at_coverage@0.8"]


def brute_force(loss, confidence, weight):
    """Both metrics by their definitions, threshold by threshold over the samples."""
    squared = 0.0
    partial = 0.0
    for threshold in np.unique(confidence):
        accepted = confidence >= threshold
        above = confidence > threshold
        risk = (weight * loss)[accepted].sum() / weight[accepted].sum()
        start = weight[above].sum() / weight.sum()
        stop = weight[accepted].sum() / weight.sum()
        squared += (stop - start) * risk**2
        partial += max(0.0, stop - max(start, 0.7)) * risk / 0.3
    return squared, partial


def make_samples(kind):
    rng = np.random.default_rng(11)
    n = 3_000
    confidence = rng.random(n).round(2 if kind == "ties" else 9)
    confidence = np.where(rng.random(n) < 0.2, 1.0, confidence)  # a heavy tie at the top
    loss = (rng.random(n) < 0.5 * (1 - 0.8 * confidence)).astype(float)
    if kind == "graded":
        loss = rng.exponential(1.2 - confidence)
    weight = rng.random(n) + 0.5 if kind == "weights" else np.ones(n)
    return {"confidence": confidence, "loss": loss, "weight": weight, "team": rng.integers(0, 3, n)}


def options_of(kind):
    return {"sample_weight": "weight"} if kind == "weights" else {}


def in_memory(samples, kind):
    weight = samples["weight"] if kind == "weights" else None
    return abstain.evaluate(
        loss=samples["loss"],
        confidence=samples["confidence"],
        sample_weight=weight,
        groups=samples["team"],
        metrics=METRICS,
    )


def assert_same(table, expected):
    assert [(e.metric, e.group) for e in table.entries] == [(e.metric, e.group) for e in expected.entries]
    for entry, other in zip(table.entries, expected.entries):
        assert entry.reason == other.reason
        numbers = (entry.estimate, entry.standard_error, entry.low, entry.high)
        assert numbers == pytest.approx(
            (other.estimate, other.standard_error, other.low, other.high), rel=1e-9
        )


KINDS = ["distinct", "ties", "graded", "weights"]
CLUSTER_KINDS = ["ties", "weights"]  # clusters finish ranges by the code that files use
FILE_CASES = [
    *((kind, "at once") for kind in KINDS),
    *((kind, "by ranges") for kind in KINDS),
    ("distinct", "counted"),  # only 0/1 losses without weights are counted
    ("ties", "counted"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_memory_gives_the_definition(kind):
    samples = make_samples(kind)
    table = in_memory(samples, kind)
    weight = samples["weight"] if kind == "weights" else np.ones(len(samples["loss"]))
    squared, partial = brute_force(samples["loss"], samples["confidence"], weight)
    assert table["squared_risk"].estimate == pytest.approx(squared, rel=1e-10)
    assert table["aurc@0.7-1"].estimate == pytest.approx(partial, rel=1e-10)


@pytest.mark.parametrize(("kind", "way"), FILE_CASES)
def test_files_give_what_memory_gives(kind, way, tmp_path, monkeypatch):
    if way != "at once":
        monkeypatch.setattr(files, "_fits_in_memory", lambda *arguments: False)
        monkeypatch.setattr(files, "samples_that_fit", lambda *arguments: 400)
    samples = make_samples(kind)
    if way == "counted":
        monkeypatch.setattr(files, "_MIN_COUNTED", 100)
        monkeypatch.setattr(files, "_MIN_FOR_PARTIAL_SURVEY", 100)
        samples["confidence"] = samples["confidence"].astype(np.float32)
        samples["loss"] = samples["loss"].astype(bool)
    folder = write_parts(tmp_path / "parts", samples)
    table = files.evaluate(folder, metrics=METRICS, groups="team", **options_of(kind))
    assert_same(table, in_memory(samples, kind))


def test_files_through_evaluate_take_a_metric_that_is_not_registered(tmp_path):
    samples = make_samples("distinct")
    folder = write_parts(tmp_path / "parts", samples)
    table = abstain.evaluate(folder, engine="files", metrics=[OWN])
    memory = abstain.evaluate(loss=samples["loss"], confidence=samples["confidence"], metrics=[OWN])
    assert table["squared_risk"].low == pytest.approx(memory["squared_risk"].low, rel=1e-9)


@pytest.mark.parametrize("kind", CLUSTER_KINDS)
def test_dask_gives_what_memory_gives(kind, tmp_path, dask_client):
    from abstain.engines import dask

    samples = make_samples(kind)
    folder = write_parts(tmp_path / "parts", samples)
    table = dask.evaluate(folder, metrics=METRICS, groups="team", client=dask_client, **options_of(kind))
    assert_same(table, in_memory(samples, kind))


@pytest.mark.parametrize("kind", CLUSTER_KINDS)
def test_spark_gives_what_memory_gives(kind, tmp_path, spark_session):
    from abstain.engines import spark

    samples = make_samples(kind)
    folder = write_parts(tmp_path / "parts", samples)
    table = spark.evaluate(folder, metrics=METRICS, groups="team", session=spark_session, **options_of(kind))
    assert_same(table, in_memory(samples, kind))
