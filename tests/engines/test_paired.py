"""Paired comparison of files: the influences of the definition, whatever is cut, spilled, tied or weighted."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.engines import files, spill
from abstain.engines.ranges import Columns, collect_columns
from abstain.engines.spill import Spill
from abstain.errors import DataError, InputError
from abstain.evaluation import Comparison

from .conftest import write_parts
from .definitions import influence

N = 6_000


def two_models(kind):
    """(confidence, loss) twice, and weights."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1, N)
    g1, g2 = z + rng.normal(0, 1, N), z + rng.normal(0, 0.7, N)
    l1, l2 = (rng.random(N) < 0.5 / (1 + np.exp(1.5 * z)) for _ in range(2))
    if kind == "tied":  # a range of one confidence with more samples than fit, on either side
        g1, g2 = np.minimum(np.round(g1, 1), 0.3), np.where(g2 > 0, 1.0, g2)
    if kind == "real":
        l1, l2 = np.round(l1 + rng.exponential(0.3, N), 2), l2 * 1.0
    if kind == "constant":
        g2 = np.full(N, 0.5)
    return g1, l1, g2, l2, rng.integers(0 if kind == "smooth" else 1, 4, N).astype(float)


@pytest.fixture(params=["smooth", "tied", "real", "constant"])
def models(request):
    return two_models(request.param)


@pytest.fixture
def stored(models, tmp_path):
    return write_parts(tmp_path / "data", dict(zip(("g1", "l1", "g2", "l2", "w"), models)))


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 400)
    monkeypatch.setattr(files, "_PAIRED_BATCH", 700)


BOTH = {"first": ("g1", "l1"), "second": ("g2", "l2")}


def check(found, models, w):
    g1, l1, g2, l2, _ = models
    some = w > 0
    g1, l1, g2, l2, w = g1[some], l1[some] * 1.0, g2[some], l2[some] * 1.0, w[some]
    (T1, i1), (T2, i2) = influence(l1, g1, w), influence(l2, g2, w)
    error = np.sqrt(np.sum((w * (i1 - i2)) ** 2)) / w.sum()
    assert found["first"].estimate == pytest.approx(T1, rel=1e-12)
    assert found["second"].estimate == pytest.approx(T2, rel=1e-12)
    assert found.pairs[0].standard_error == pytest.approx(error, rel=1e-9)
    assert found.n == some.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cut", ["one range", "many", "refined"])
def test_joint_influences_by_the_definition(cut, weighted, models, stored, request, monkeypatch):
    if cut != "one range":
        request.getfixturevalue("tiny")
    if cut == "refined":
        monkeypatch.setattr(spill, "MAX_RANGES", 1)  # every range is too full at first
    found = files.compare(stored, **BOTH, sample_weight="w" if weighted else None)
    check(found, models, models[-1] if weighted else np.ones(N))


@pytest.mark.parametrize("estimator", ["harmonic", "loo", "log", "sele"])
@pytest.mark.parametrize("ties", ["threshold", "expected"])
def test_every_estimator_agrees_with_memory(estimator, ties, tmp_path, tiny):
    """The standard errors in memory come from other code: all samples in one ranking, no ranges."""
    from abstain.metrics import by_name
    from abstain.metrics.sample_influence import sample_influences

    g1, l1, g2, l2, _ = models = two_models("tied")
    path = write_parts(tmp_path / "data", dict(zip(("g1", "l1", "g2", "l2", "w"), models)))
    found = files.compare(path, **BOTH, estimator=estimator, ties=ties)
    metric = by_name("aurc").with_options(estimator=estimator, ties=ties)
    found_in_memory = [sample_influences(metric, l, g) for l, g in ((l1, g1), (l2, g2))]
    (T1, i1), (T2, i2) = ((v.estimate, v.influence) for v in found_in_memory)
    assert found["first"].estimate == pytest.approx(T1, rel=1e-11)
    assert found["second"].estimate == pytest.approx(T2, rel=1e-11)
    assert found.pairs[0].standard_error == pytest.approx(np.sqrt(np.sum((i1 - i2) ** 2)) / N, rel=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_comparison_of_memory(weighted, models, stored, tiny):
    g1, l1, g2, l2, w = models
    some = w > 0 if weighted else np.ones(N, dtype=bool)
    sides = {name: (l[some], g[some]) for name, l, g in (("first", l1, g1), ("second", l2, g2))}
    memory = abstain.compare(sides, sample_weight=w[some] if weighted else None)
    found = files.compare(stored, **BOTH, sample_weight="w" if weighted else None)
    assert found.names == memory.names
    truth, pair = memory.pairs[0], found.pairs[0]
    assert pair.difference == pytest.approx(truth.difference, rel=1e-9, abs=1e-14)
    for name in ("standard_error", "low", "high", "p_value"):
        assert getattr(pair, name) == pytest.approx(getattr(truth, name), rel=1e-7, abs=1e-13), name
    assert (pair.note, pair.different, pair.samples_needed) == (
        truth.note,
        truth.different,
        truth.samples_needed,
    )
    for own, side in zip(found.contestants, memory.contestants):
        told, expected = ((c.estimate, c.standard_error, c.low, c.high) for c in (own, side))
        assert told == pytest.approx(expected, rel=1e-9)
        assert (own.rank_low, own.rank_high, own.group) == (side.rank_low, side.rank_high, side.group)


def test_a_model_does_not_differ_from_itself(stored, tiny):
    found = files.compare(stored, first=("g2", "l2"), second=("g2", "l2")).pairs[0]
    assert found.difference == 0
    assert found.standard_error == pytest.approx(0, abs=1e-12)
    assert found.p_value == 1


def test_csv_and_lists_of_files(tmp_path, tiny):
    from pyarrow import csv

    g1, l1, g2, l2, w = models = two_models("real")
    table = pa.table({"g1": g1, "l1": l1, "g2": g2, "l2": l2, "w": w})
    csv.write_csv(table.slice(0, 2500), tmp_path / "a.csv")
    pq.write_table(table.slice(2500), tmp_path / "b.parquet")
    found = files.compare([tmp_path / "a.csv", tmp_path / "b.parquet"], **BOTH, sample_weight="w")
    check(found, models, w)


@pytest.mark.parametrize("weighted", [False, True])
def test_models_in_files_of_their_own(weighted, models, tmp_path, tiny):
    """The files end at other rows, the row groups too; samples of no weight leave no gap."""
    g1, l1, g2, l2, w = models
    path = write_parts(tmp_path / "a", {"score": g1, "loss": l1, "w": w})
    (tmp_path / "b").mkdir()
    for k, (a, b) in enumerate([(0, 3501), (3501, 3501), (3501, N)]):
        pq.write_table(pa.table({"loss": l2[a:b], "score": g2[a:b]}), tmp_path / "b" / f"{k}.parquet", 777)
    names = {"first": ("score", "loss"), "second": ("score", "loss"), "other": tmp_path / "b"}
    found = files.compare(path, **names, sample_weight="w" if weighted else None)
    check(found, models, w if weighted else np.ones(N))
    own = [influence(l[w > 0] * 1.0, g[w > 0], w[w > 0])[1] for l, g in ((l1, g1), (l2, g2))]
    if weighted:
        errors = [np.sqrt(np.sum((w[w > 0] * i) ** 2)) / w.sum() for i in own]
        told = [found[name].standard_error for name in ("first", "second")]
        assert told == pytest.approx(errors, rel=1e-9, abs=1e-12)


def test_files_that_do_not_hold_the_same_samples(tmp_path):
    g1, l1, g2, l2, _ = two_models("smooth")
    path = write_parts(tmp_path / "a", {"confidence": g1, "loss": l1})
    names = {"first": ("confidence", "loss"), "second": ("confidence", "loss")}
    short = write_parts(tmp_path / "b", {"confidence": g2[:-1], "loss": l2[:-1]})
    for one, two in ((path, short), (short, path)):
        with pytest.raises(DataError, match=r"must hold the same samples.*goes on in .*a/part-9\.parquet"):
            files.compare(one, other=two, **names)
    g2 = g2.copy()
    g2[2500] = np.inf
    pq.write_table(pa.table({"confidence": g2, "loss": l2}), tmp_path / "c.parquet")
    with pytest.raises(DataError, match=r"got inf in .*c\.parquet, row 2500\."):
        files.compare(path, other=tmp_path / "c.parquet", **names)


def test_ids_of_both_files_agree_row_by_row_or_the_row_is_named(tmp_path):
    g1, l1, g2, l2, _ = two_models("smooth")
    number = np.arange(len(g1))
    tables = {
        "a": {"id": number, "confidence": g1, "loss": l1},
        "b": {"id": number, "confidence": g2, "loss": l2},
        "turned": {"id": number[::-1], "confidence": g2, "loss": l2},
        "without": {"confidence": g2, "loss": l2},
        "alone": {"confidence": g1, "loss": l1},
        "case": {"case": number[::-1], "confidence": g2, "loss": l2},
    }
    path = {name: tmp_path / f"{name}.parquet" for name in tables}
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), path[name])
    names = {"first": ("confidence", "loss"), "second": ("confidence", "loss")}
    assert not files.compare(path["a"], other=path["b"], **names).notes
    last = len(g1) - 1
    with pytest.raises(
        DataError, match=rf"row 1 has id '0' in .*a\.parquet and '{last}' in .*turned\.parquet"
    ):
        files.compare(path["a"], other=path["turned"], **names)
    with pytest.raises(DataError, match=r"without\.parquet: has no ids, but the other table has"):
        files.compare(path["a"], other=path["without"], **names)
    by_position = files.compare(path["alone"], other=path["without"], **names)
    assert by_position.notes == ("No file has ids: rows are paired by position.",)
    with pytest.raises(DataError, match=r"case"):
        files.compare(path["case"], other=path["without"], ids="case", **names)


def test_the_command_line_ranks_two_tables(tmp_path, monkeypatch):
    g1, l1, g2, l2, _ = two_models("smooth")
    pq.write_table(pa.table({"confidence": g1, "loss": l1}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"confidence": g2, "loss": l2}), tmp_path / "two.parquet")
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--metric", "aurc:loo"], ["--level", "0.9"]):
        request = ["compare", "one.parquet", "two.parquet", "--json", *more]
        memory, own = (
            Comparison.from_json(
                CliRunner().invoke(cli, [*request, "--engine", engine], catch_exceptions=False).stdout
            )
            for engine in ("memory", "files")
        )
        assert own.names == memory.names
        assert (own.metric, own.level, own.n, own.winners) == (memory.metric, memory.level, N, memory.winners)
        for a, b in zip(own.contestants, memory.contestants):
            assert (a.rank_low, a.rank_high, a.group) == (b.rank_low, b.rank_high, b.group)
            assert a.estimate == pytest.approx(b.estimate, rel=1e-10)
            assert a.standard_error == pytest.approx(b.standard_error, rel=1e-6)
            assert (a.low, a.high) == pytest.approx((b.low, b.high), rel=0.01)
        a, b = own.pairs[0], memory.pairs[0]
        assert a.difference == pytest.approx(b.difference, rel=1e-9)
        assert a.standard_error == pytest.approx(b.standard_error, rel=1e-6)
        assert (a.p_adjusted, a.low) == pytest.approx((b.p_adjusted, b.low), rel=1e-6)
        assert (a.different, a.samples_needed) == (b.different, b.samples_needed)
    same = CliRunner().invoke(cli, ["compare", "one.parquet", "one.parquet", "--engine", "files"])
    assert "are equal throughout these data" in same.output
    assert "rows are paired by position" in same.output
    refused = CliRunner().invoke(
        cli, ["compare", "one.parquet", "two.parquet", "--engine", "files", "--metric", "augrc"]
    )
    assert refused.exit_code == 2
    assert "by AURC" in refused.output


def test_progress_counts_the_samples_of_every_pass(stored, tiny, capsys):
    files.compare(stored, **BOTH, progress=True)
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    shown = {words[0]: next(w for w in words if "/" in w) for words in lines if words}
    assert shown == dict.fromkeys(("survey", "partition", "first", "move", "second", "joint"), f"{N}/{N}")


def test_bad_questions_are_told_and_nothing_is_left(tmp_path, tiny):
    g1, l1, g2, l2, w = two_models("smooth")
    g2 = g2.copy()
    g2[3500] = np.nan
    path = write_parts(tmp_path / "data", {"g1": g1, "l1": l1, "g2": g2, "l2": l2, "w": w / 2})
    (tmp_path / "spill").mkdir()
    spill = str(tmp_path / "spill")
    with pytest.raises(DataError, match=r"`g2` must be finite, got nan in .*part-\d\.parquet, row \d+"):
        files.compare(path, **BOTH, spill=spill)
    with pytest.raises(InputError, match="needs weights that are repetitions"):
        files.compare(
            path, first=("g1", "l1"), second=("g1", "l2"), estimator="loo", sample_weight="w", spill=spill
        )
    with pytest.raises(InputError, match=r"must each name two columns, \(confidence, loss\), got 'g1'"):
        files.compare(path, first="g1", second=("g2", "l2"))
    with pytest.raises(TypeError, match="unexpected keyword argument 'resume'"):
        files.compare(path, **BOTH, resume="here")
    with pytest.raises(DataError, match="has no column 'other'"):
        files.compare(path, first=("g1", "l1"), second=("other", "l2"), spill=spill)
    files.compare(path, first=("g1", "l1"), second=("g1", "l2"), sample_weight="w", spill=spill)
    assert os.listdir(spill) == []


def test_what_travels_along_comes_back_from_disk(tmp_path):
    rng = np.random.default_rng(0)
    first = Columns(rng.random(5) < 0.5, rng.random(5, dtype=np.float32), None, rng.random((2, 5)))
    second = first._replace(weight=rng.random(5))
    with Spill(str(tmp_path)) as store:
        for columns in (first, second):
            store.append(3, columns)
        store.flush()
        for columns, back in zip((first, second), store.pieces(3)):
            for a, b in zip(columns, back):
                assert (a is None) == (b is None)
                if a is not None:
                    np.testing.assert_array_equal(a, b)
                    assert a.dtype == b.dtype
        whole = collect_columns(store.pieces(3), 12)._replace(weight=None)
        np.testing.assert_array_equal(whole.extra, np.concatenate([first.extra, second.extra], axis=1))
        assert whole.sample_count == 10


def test_the_budget_is_obeyed(tmp_path):
    """Three million samples of two models; peak of the process by the kernel's account."""
    rng = np.random.default_rng(4)
    for k in range(3):
        n = 1_000_000
        z = rng.random(n)
        columns = {
            "g1": z,
            "l1": rng.random(n) < 0.1,
            "g2": np.where(z > 0.6, 1.0, z),
            "l2": rng.random(n) < 0.1,
        }
        pq.write_table(pa.table(columns), tmp_path / f"{k}.parquet")
    code = f"""
from abstain.engines import files
found = files.compare({str(tmp_path)!r}, first=("g1", "l1"), second=("g2", "l2"), memory="400MB")
peak = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(found.n, peak)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    n, peak = done.stdout.split()
    assert int(n) == 3_000_000
    assert int(peak) * 1024 < 400e6, f"peak {int(peak) / 1024:.0f} MiB"
