"""Files: every format, groups, logits, budgets, and what happens when things go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import abstain
from abstain.engines import files
from abstain.errors import DataError, InputError

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


def test_a_nan_in_the_middle_of_file_7_is_named(sample, tmp_path, dask_client, spark_session):
    l, g = sample
    g = g.copy()
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l})
    import pyarrow.parquet as pq

    file = tmp_path / "d" / "part-7.parquet"
    table = pq.read_table(file)
    values = table["confidence"].to_numpy().copy()
    values[1234] = np.nan
    pq.write_table(table.set_column(0, "confidence", pa.array(values)), file, row_group_size=900)
    from abstain.engines import dask, spark

    for attempt in (
        lambda: files.aurc(path),
        lambda: dask.aurc(path, client=dask_client),
        lambda: spark.aurc(path, session=spark_session),
    ):
        with pytest.raises(DataError, match=r"must be finite, got nan in .*part-7\.parquet, row 1234\."):
            attempt()
    values = [None if np.isnan(v) else v for v in values]
    pq.write_table(table.set_column(0, "confidence", pa.array(values, pa.float64())), file)
    with pytest.raises(DataError, match=r"missing value in .*part-7\.parquet, row 1234\."):
        files.aurc(path)


def test_bad_questions_are_told(sample, tmp_path):
    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "w": g * g})
    with pytest.raises(DataError, match="has no column 'score'; it has confidence, loss, w"):
        files.aurc(path, confidence="score")
    with pytest.raises(DataError, match="found no files"):
        files.aurc(str(tmp_path / "nothing-*.parquet"))
    with pytest.raises(InputError, match="needs weights that are repetitions"):
        files.aurc(path, estimator="loo", sample_weight="w")
    with pytest.raises(InputError, match=r"files.coverage_at_risk: .* got 5. Write 0.05 for 5%."):
        files.coverage_at_risk(path, risk=5)
    with pytest.raises(InputError, match='size such as "1GB"'):
        files.aurc(path, memory="plenty")
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        files.aurc(path, colour="red")
    empty = write_parts(tmp_path / "e", {"confidence": g[:0], "loss": l[:0]})
    with pytest.raises(InputError, match="needs at least one sample"):
        files.aurc(empty)


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


def test_more_groups_than_files_may_be_open(sample, tmp_path, monkeypatch):
    from abstain.engines import spill

    l, g = sample
    labels = np.random.default_rng(6).integers(0, 40, len(l))
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "kind": labels})
    monkeypatch.setattr(spill, "_MAX_OPEN_FILES", 7)
    original, most = spill.Spill.append, []

    def counted(self, number, columns):
        original(self, number, columns)
        most.append(len(self._files))

    monkeypatch.setattr(spill.Spill, "append", counted)
    found = files.aurc(path, groups="kind")
    assert max(most) == 7
    assert found.values == pytest.approx(abstain.aurc(l, g, groups=labels).values, rel=1e-12)


def test_fractional_weights_reach_the_same_area(sample, tmp_path, tiny_ranges):
    l, g = sample
    w = np.random.default_rng(3).exponential(1, len(l))
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "w": w})
    found = told(files, path, sample_weight="w")
    assert found["aurc"].estimate == pytest.approx(abstain.aurc(l, g, sample_weight=w), rel=1e-12)
    truth = abstain.e_aurc(l, g, sample_weight=w)
    assert found["e_aurc"].estimate == pytest.approx(truth, rel=1e-3)  # equal losses: masses as if small


# when things go wrong ----------------------------------------------------------------------------------------------

SCRIPT = """
import resource, signal, sys, time
from abstain.engines import files
files.samples_that_fit = lambda *a: 2000
files._fits_in_memory = lambda *a: False
{more}
print(repr(files.aurc({path!r}, {options})), flush=True)
"""


def run(path, options, more=""):
    code = textwrap.dedent(SCRIPT).format(path=path, options=options, more=textwrap.dedent(more))
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_full_disk_is_told_and_nothing_is_left(sample, tmp_path):
    """The kernel itself refuses to let any file grow beyond 4 kB."""
    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l})
    (tmp_path / "spill").mkdir()
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    process = run(path, f"spill={str(tmp_path / 'spill')!r}", limit)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "SpillError" in errors
    assert "no room left for intermediate data" in errors
    assert os.listdir(tmp_path / "spill") == []


def interrupted(path, options):
    """Start, and send Ctrl-C once the second pass has done five files."""
    more = """
    original = files.Run.partition
    def slow(self, *a):
        read, seen = self.read, []
        def held(file):
            seen.append(file)
            yield from read(file)
            if len(seen) == 6:  # its samples are written, but not yet noted as done
                print("waiting", flush=True)
                time.sleep(60)
        self.read = held
        return original(self, *a)
    files.Run.partition = slow
    """
    process = run(path, options, more)
    assert process.stdout.readline().strip() == "waiting"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0


def test_ctrl_c_leaves_nothing_behind(sample, tmp_path):
    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l})
    (tmp_path / "spill").mkdir()
    interrupted(path, f"spill={str(tmp_path / 'spill')!r}")
    assert os.listdir(tmp_path / "spill") == []


def test_an_interrupted_run_is_taken_up_again(sample, tmp_path, tiny_ranges, monkeypatch):
    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l})
    keep = str(tmp_path / "keep")
    interrupted(path, f"resume={keep!r}")
    assert (tmp_path / "keep" / "progress.json").exists()
    from abstain.engines import files
    from abstain.formats.table_files import find_files

    seen = []
    original = files.Run.partition

    def counted(self, *a):
        read = self.read
        self.read = lambda file: (seen.append(file), read(file))[1]
        return original(self, *a)

    monkeypatch.setattr(files.Run, "partition", counted)
    assert files.aurc(path, resume=keep) == pytest.approx(abstain.aurc(l, g), rel=1e-13)
    assert len(seen) == len(find_files("test", path)) - 5  # five were done before
    assert not os.path.exists(keep)


def test_the_budget_is_obeyed(tmp_path):
    """Six million samples within 20 MB above what reading takes; peak of the process by the kernel's account."""
    import pyarrow.parquet as pq

    rng = np.random.default_rng(4)
    for k in range(6):
        g = rng.random(1_000_000, dtype=np.float32)
        pq.write_table(
            pa.table({"confidence": g, "loss": rng.random(1_000_000) < 0.1}), tmp_path / f"{k}.parquet"
        )
    code = f"""
from abstain.engines import files
value = files.aurc({str(tmp_path)!r}, memory="350MB", progress=False)
peak = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(value, peak)
"""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    value, peak = done.stdout.split()
    assert int(peak) * 1024 < 350e6, (
        f"peak {int(peak) / 1024:.0f} MiB after {time.perf_counter() - started:.0f} s"
    )
    assert 0.09 < float(value) < 0.11


@pytest.mark.parametrize("dtype", [bool, int, float])
def test_a_column_of_right_answers(dtype, sample, tmp_path):
    l, g = sample
    path = write(tmp_path / "a.parquet", "parquet", (~l).astype(dtype), g)
    assert files.aurc(path, correct="loss") == pytest.approx(abstain.aurc(l, g), rel=1e-12)
    with pytest.raises(InputError, match="got both"):
        files.aurc(path, correct="loss", loss="loss")


def test_a_right_answer_is_zero_or_one(sample, tmp_path):
    l, g = sample
    odd = (~l).astype(float)
    odd[1234] = 0.5
    with pytest.raises(DataError, match=r"0 \(wrong\) and 1 \(right\), got 0.5 in .*, row 1234"):
        files.aurc(write(tmp_path / "a.parquet", "parquet", odd, g), correct="loss")


@pytest.mark.parametrize("groups", [None, "team"])
def test_work_is_taken_up_with_the_ranges_it_was_begun_with(sample, tmp_path, monkeypatch, groups):
    """Between the two runs the memory to spare changes, and with it where ranges would be cut."""
    from abstain.engines import files

    l, g = sample
    team = np.where(g > 0.3, "a", "b")
    (tmp_path / "data").mkdir()
    for k in range(6):
        some = slice(5000 * k, 5000 * (k + 1))
        table = pa.table({"confidence": g[some], "loss": l[some], "team": team[some]})
        pa.parquet.write_table(table, tmp_path / "data" / f"{k}.parquet")
    monkeypatch.setattr(files, "_fits_in_memory", lambda *a: False)
    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 2000)
    stopped = []

    def note(*given):
        real(*given)
        if given[2] == 3 and not stopped:
            stopped.append(1)
            raise KeyboardInterrupt

    real = files._save_progress
    monkeypatch.setattr(files, "_save_progress", note)
    request = {"resume": str(tmp_path / "kept"), "groups": groups}
    with pytest.raises(KeyboardInterrupt):
        files.aurc(str(tmp_path / "data"), **request)
    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 3500)
    found = files.aurc(str(tmp_path / "data"), **request)
    if groups is None:
        assert found == pytest.approx(abstain.aurc(l, g), rel=1e-12)
    else:
        for name, value in found.values.items():
            assert value == pytest.approx(abstain.aurc(l[team == name], g[team == name]), rel=1e-12)


@pytest.mark.parametrize("spilled", [False, True])
def test_shares_of_fractional_weights_are_not_missed_by_rounding(spilled, tmp_path, request):
    if spilled:
        request.getfixturevalue("tiny_ranges")
    n = 20_000
    g, l = np.arange(n)[::-1] / n, np.arange(n) % 10 == 9
    folder = write_parts(tmp_path / "tenths", {"confidence": g, "loss": l, "w": np.full(n, 0.1)})
    found = told(files, folder, sample_weight="w", coverages=(0.3, 0.7, 1.0), risks=(0.1,))
    assert list(found.risk_at_coverage.values()) == pytest.approx([0.1] * 3, rel=1e-9)
    assert found.coverage_at_risk[0.1] == pytest.approx(1.0)


@pytest.mark.parametrize("spilled", [False, True])
def test_losses_with_the_moments_of_a_zero_one_loss_are_not_taken_for_one(spilled, tmp_path, request):
    """Sums of l and of l^2 are those of three errors in four: only the losses themselves tell."""
    if spilled:
        request.getfixturevalue("tiny_ranges")
    l, g = np.tile([0.5, 0.5, 0.5, 1.5], 50), np.arange(200.0)
    pa.parquet.write_table(pa.table({"loss": l, "confidence": g}), tmp_path / "half.parquet")
    found = told(files, tmp_path / "half.parquet")
    assert files.evaluate(tmp_path / "half.parquet", metrics=["auroc"]).entries[0].estimate is None
    for metric in ("oracle_aurc", "e_aurc", "naurc", "prediction_rejection_ratio"):
        assert found[metric].estimate == pytest.approx(getattr(abstain, metric)(l, g), rel=1e-12)


def test_weights_with_the_moments_of_unit_weights_are_not_taken_for_them(tmp_path):
    l, g, w = np.arange(200) % 4 == 3, np.arange(200.0), np.tile([0.5, 0.5, 0.5, 1.5], 50)
    pa.parquet.write_table(pa.table({"loss": l, "confidence": g, "w": w}), tmp_path / "w.parquet")
    found = told(files, tmp_path / "w.parquet", sample_weight="w")
    for metric in ("oracle_aurc", "e_aurc", "naurc"):
        assert found[metric].estimate == pytest.approx(
            getattr(abstain, metric)(l, g, sample_weight=w), rel=1e-12
        )


ODD_LISTS = {
    "ragged": ([[1.0, 2, 3], [1.0], [1.0, 2, 3, 4, 5], [3.0, 2, 1]], 1),
    "a missing list": ([[1.0, 2], [3.0, 4], None, [5.0, 6], [7.0, 8]], 2),
    "a missing value": ([[1.0, 2], [None, 4], [5.0, 6]], 1),
    "an empty list": ([[1.0, 2], [2.0, 1], []], 2),
}


@pytest.mark.parametrize("kind", ODD_LISTS)
def test_lists_of_logits_of_other_lengths_are_refused_by_their_row(kind, tmp_path):
    from abstain.engines import cluster
    from abstain.engines.read import parse_one_pair

    rows, row = ODD_LISTS[kind]
    table = pa.table({"z": pa.array(rows), "label": np.zeros(len(rows), dtype=int)})
    pa.parquet.write_table(table, tmp_path / "z.parquet")
    with pytest.raises(
        DataError, match=rf"files.aurc: rows of `z` must be lists of one length .* row {row}\."
    ):
        files.aurc(tmp_path, logits="z", labels="label")
    load = cluster.Loader("f", parse_one_pair("f", {"logits": "z", "labels": "label"}))
    for part in (table, table.to_batches()[0], table.to_pandas()):
        with pytest.raises(DataError, match=rf"f: rows of `z` must be lists .* a partition, row {row}\."):
            load(part)


def test_whole_confidences_that_floats_cannot_tell_apart_are_refused(tmp_path):
    pa.parquet.write_table(
        pa.table({"loss": [0, 1, 0], "confidence": [1, 2**53, 2**53 + 1]}), tmp_path / "p.parquet"
    )
    with pytest.raises(DataError, match=r"`confidence` must not exceed 2\^53 .*p.parquet, row 2"):
        files.aurc(tmp_path / "p.parquet")


def test_equal_losses_of_fractional_weights_have_the_oracle_of_memory_by_sele(
    tmp_path, tiny_ranges, monkeypatch
):
    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 300)  # fewer than have any one loss
    rng = np.random.default_rng(2)
    loss, confidence, weight = rng.choice([0.0, 0.5, 2.0], 2000), rng.random(2000), rng.lognormal(0, 1, 2000)
    path = write_parts(tmp_path / "data", {"loss": loss, "confidence": confidence, "w": weight})
    found = files.evaluate(path, sample_weight="w", metrics=["oracle_aurc:sele", "oracle_aurc"])
    exact = abstain.oracle_aurc(loss, sample_weight=weight, estimator="sele")
    assert found.select(metric="oracle_aurc:sele")[0].estimate == pytest.approx(exact, rel=1e-12)
    near = abstain.oracle_aurc(loss, sample_weight=weight)
    assert found.select(metric="oracle_aurc")[0].estimate == pytest.approx(near, rel=1e-3)
