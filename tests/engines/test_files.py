"""Files: every format, groups, logits, budgets, and what happens when things go wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.engines import files
from abstain.errors import InputError

from .conftest import told, write_parts

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    g = rng.normal(0, 1, 30_000)
    return rng.random(30_000) < 0.3 / (1 + np.exp(g)), g


@pytest.fixture
def tiny_ranges(monkeypatch):
    import abstain.engines.files as files

    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 2000)
    monkeypatch.setattr(files, "_fits_in_memory", lambda *a: False)


def write(path, kind, l, g):
    table = pa.table({"confidence": g, "loss": l})
    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    elif kind == "csv":
        from pyarrow import csv

        csv.write_csv(pa.table({"confidence": g, "loss": l.astype(int)}), path)
    else:
        writer = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with writer(path, table.schema) as sink:
            sink.write_table(table, max_chunksize=4000)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "suffix"), [("parquet", "parquet"), ("csv", "csv"), ("arrow", "feather"), ("stream", "arrow")]
)
def test_every_format_gives_the_same_number(kind, suffix, sample, tmp_path):
    l, g = sample
    write(tmp_path / f"a.{suffix}", kind, l[:10_000], g[:10_000])
    write(tmp_path / f"b.{suffix}", kind, l[10_000:], g[10_000:])
    truth = abstain.aurc(l, g)
    assert files.aurc(tmp_path) == pytest.approx(truth, rel=1e-13)
    assert files.aurc(str(tmp_path / f"*.{suffix}")) == pytest.approx(truth, rel=1e-13)


def test_the_siblings_agree_with_the_functions_in_memory(sample, tmp_path, tiny_ranges):
    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l})
    for estimator in ("harmonic", "loo", "log", "sele"):
        for ties in ("threshold", "expected"):
            truth = abstain.aurc(l, g, estimator=estimator, ties=ties)
            assert files.aurc(path, estimator=estimator, ties=ties) == pytest.approx(truth, rel=1e-12)
    assert files.augrc(path) == pytest.approx(abstain.augrc(l, g), rel=1e-12)
    assert files.risk(path) == pytest.approx(l.mean(), rel=1e-12)
    assert files.e_aurc(path) == pytest.approx(abstain.e_aurc(l, g), rel=1e-11)
    assert files.naurc(path) == pytest.approx(abstain.naurc(l, g), rel=1e-11)
    for coverage in (0.01, 0.3, 1.0):
        truth = abstain.risk_at_coverage(l, g, coverage=coverage)
        assert files.risk_at_coverage(path, coverage=coverage) == pytest.approx(truth, rel=1e-12)
    assert files.coverage_at_risk(path, risk=0.1) == pytest.approx(abstain.coverage_at_risk(l, g, risk=0.1))
    curve, truth = files.risk_coverage_curve(path, points=50), abstain.risk_coverage_curve(l, g)
    assert 45 <= len(curve.coverage) <= 60
    at = np.searchsorted(truth.count, curve.count)
    np.testing.assert_allclose(curve.risk, truth.risk[at], rtol=1e-12)
    np.testing.assert_array_equal(curve.threshold, truth.threshold[at])
    assert curve.coverage[-1] == 1
    for points in (0, -3, 2.5):
        with pytest.raises(InputError, match="`points` must be a whole number, at least 1"):
            files.risk_coverage_curve(path, points=points)
    found = files.evaluate(path)
    auroc = found["confidence", "loss", "auroc"].estimate
    assert auroc == pytest.approx(abstain.auroc(l, g), rel=1e-11)
    assert "AURC" in repr(found)


def test_groups_are_cut_spilled_and_finished_apart(sample, tmp_path, tiny_ranges):
    l, g = sample
    labels = np.random.default_rng(1).choice(["cat", "dog", "owl"], len(l), p=[0.7, 0.29, 0.01])
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "kind": labels})
    found, truth = files.aurc(path, groups="kind"), abstain.aurc(l, g, groups=labels)
    assert found.values == pytest.approx(truth.values, rel=1e-12)
    assert found.counts == truth.counts
    assert found.worst_group == truth.worst_group


@pytest.mark.parametrize("as_list", [False, True])
def test_logits_and_labels_are_scored_without_saturation(as_list, tmp_path):
    rng = np.random.default_rng(2)
    z = (20 * rng.normal(0, 1, (4000, 5))).astype(np.float32)
    y = np.where(rng.random(4000) < 0.7, z.argmax(1), rng.integers(0, 5, 4000))
    import pyarrow.parquet as pq

    columns = {"z": pa.array(list(z))} if as_list else {f"z{k}": z[:, k] for k in range(5)}
    pq.write_table(pa.table({**columns, "label": y}), tmp_path / "p.parquet")
    truth = abstain.aurc(z.argmax(1) != y, abstain.scores.max_softmax(z))
    named = "z" if as_list else [f"z{k}" for k in range(5)]
    assert files.aurc(tmp_path, logits=named, labels="label") == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("spilled", [False, True])
def test_weight_zero_is_as_good_as_absent(spilled, sample, tmp_path, request):
    if spilled:
        request.getfixturevalue("tiny_ranges")
    l, g = sample
    w = np.random.default_rng(5).integers(0, 3, len(l)).astype(float)
    w[np.argmax(g)] = 0
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "w": w})
    found = told(files, path, sample_weight="w", points=10)
    assert found["aurc"].estimate == pytest.approx(abstain.aurc(l, g, sample_weight=w), rel=1e-12)
    assert found["e_aurc"].estimate == pytest.approx(abstain.e_aurc(l, g, sample_weight=w), rel=1e-9)


def test_no_weight_at_all_is_no_sample(sample, tmp_path, dask_client):
    from abstain.engines import dask

    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "w": 0 * g})
    for attempt in (
        lambda: files.aurc(path, sample_weight="w"),
        lambda: dask.aurc(path, sample_weight="w", client=dask_client),
        lambda: files.compare(
            path, first=("confidence", "loss"), second=("confidence", "loss"), sample_weight="w"
        ),
    ):
        with pytest.raises(InputError, match="needs at least one sample"):
            attempt()


# when things go wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    ["confidence,correct,group", " confidence , correct,group ", '"confidence","correct","group"'],
)
@pytest.mark.parametrize(
    "groups",
    [
        (" b", "b", "a "),
        ("2024-01-02", "2024-01-01", "2024-01-02"),
        ("2024-01-02 10:00:00", "2024-01-01 11:00:00", "2024-01-01 11:00:00"),
        ("true", "False", "true"),
        ("9007199254740993", "9007199254740994", "9007199254740993"),
        ("NA", "b", ""),
        ("1.0", "2", "01"),
    ],
)
def test_a_csv_file_with_odd_cells_gives_what_memory_gives(tmp_path, header, groups):
    rng = np.random.default_rng(5)
    rows = [f" {rng.random():.4f},{row % 4 > 0:d} ,{groups[row % 3]}" for row in range(60)]
    path = tmp_path / "odd.csv"
    path.write_text("\n".join([header, *rows]))
    tables = [
        json.loads(
            CliRunner()
            .invoke(cli, ["evaluate", str(path), "--metric", "aurc", "--json", "--engine", name])
            .stdout
        )
        for name in ("memory", "files")
    ]
    found = [
        [(entry["group"], entry["n"], entry["estimate"]) for entry in table["entries"]] for table in tables
    ]
    assert len(found[0]) > 2
    for of_memory, of_engine in zip(*found, strict=True):
        assert of_memory[:2] == of_engine[:2]
        assert of_memory[2] == pytest.approx(of_engine[2], rel=1e-12)


def test_a_csv_file_divided_by_semicolons_is_refused_by_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("confidence;correct\n0.5;1\n0.4;0\n")
    refused = CliRunner().invoke(cli, ["evaluate", str(path), "--engine", "files"])
    assert refused.exit_code != 0
    assert "divided by ';', and engines read commas only" in " ".join(refused.output.split())


def test_reading_a_table_loads_no_learned_confidence():
    """Its modules take as long to load as ten million rows."""
    code = "import sys; from abstain.engines import files; print('abstain.confidence' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_confidence_is_a_column_or_a_learned_one(tmp_path):
    (tmp_path / "t.csv").write_text("confidence,loss\n0.5,1\n")
    with pytest.raises(InputError, match="must be the name of a column or a learned confidence, got list"):
        files.evaluate(str(tmp_path / "t.csv"), confidence=["confidence"])
