"""Clusters: lost workers, bytes that travel, paired comparison, partitions of any kind."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import abstain
from abstain.engines import cluster
from abstain.engines import dask as engine
from abstain.engines.read import parse_one_pair

from .conftest import write_parts
from .definitions import influence


@pytest.fixture(scope="module")
def two_models(tmp_path_factory):
    """Two models on the same samples: the second sharper, saturated, with heavier ties."""
    rng = np.random.default_rng(0)
    n = 12_000
    z = rng.normal(0, 1, n)
    g1, g2 = z + rng.normal(0, 1, n), np.round(z + rng.normal(0, 0.7, n), 1)
    l1, l2 = (rng.random(n) < 0.5 / (1 + np.exp(1.5 * z)) for _ in range(2))
    w = rng.integers(1, 4, n).astype(float)
    folder = tmp_path_factory.mktemp("two") / "data"
    path = write_parts(folder, {"g1": g1, "l1": l1, "g2": g2, "l2": l2, "w": w})
    return path, g1, l1.astype(float), g2, l2.astype(float), w


@pytest.mark.parametrize("engine_name", ["dask", "spark"])
def test_paired_comparison_adds_up_joint_influences(engine_name, two_models, request):
    path, g1, l1, g2, l2, w = two_models
    (T1, i1), (T2, i2) = influence(l1, g1, w), influence(l2, g2, w)
    error = np.sqrt(np.sum((w * (i1 - i2)) ** 2)) / w.sum()
    if engine_name == "dask":
        compare, where = engine.compare, {"client": request.getfixturevalue("dask_client")}
    else:
        from abstain.engines.spark import compare

        where = {"session": request.getfixturevalue("spark_session")}
    found = compare(path, first=("g1", "l1"), second=("g2", "l2"), sample_weight="w", **where)
    assert found["first"].estimate == pytest.approx(T1, rel=1e-12)
    assert found["second"].estimate == pytest.approx(T2, rel=1e-12)
    pair = found.pair("first", "second")
    assert pair.standard_error == pytest.approx(error, rel=1e-9)
    assert pair.difference == pytest.approx(T1 - T2, rel=1e-9)
    assert pair.low < pair.difference < pair.high
    assert found.n == len(g1)


def test_a_model_does_not_differ_from_itself(two_models, dask_client):
    path = two_models[0]
    found = engine.compare(path, first=("g2", "l2"), second=("g2", "l2"), client=dask_client).pairs[0]
    assert found.difference == 0
    assert found.standard_error == pytest.approx(0, abs=1e-12)


def test_frames_and_futures_are_partitions_too(two_models, dask_client, spark_session):
    path, g1, l1, *_ = two_models
    truth = abstain.aurc(l1, g1)
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.read_parquet(path)
    names = {"confidence": "g1", "loss": "l1"}
    assert engine.aurc(frame, client=dask_client, **names) == pytest.approx(truth, rel=1e-12)
    import pandas as pd

    whole = pd.DataFrame({"g1": g1, "l1": l1})
    futures = dask_client.scatter([whole[:5000], whole[5000:5000], whole[5000:]])
    assert engine.aurc(futures, client=dask_client, **names) == pytest.approx(truth, rel=1e-12)
    from abstain.engines import spark

    for parts in (1, 7):
        spread = spark_session.createDataFrame(whole).repartition(parts)
        assert spark.aurc(spread, **names) == pytest.approx(truth, rel=1e-12)


def test_a_worker_killed_in_the_second_pass_changes_nothing(two_models, tmp_path, monkeypatch):
    """The first task to finish a range kills its own process; Dask starts another and does the work again."""
    import distributed

    path, g1, l1, *_ = two_models
    flag = str(tmp_path / "killed")
    original = cluster.finish_bundle

    def deadly(pieces, places, request):
        if not os.path.exists(flag):
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return original(pieces, places, request)

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
    ):
        calm = engine.aurc(path, client=client, confidence="g1", loss="l1")
        before = set(client.run(os.getpid).values())
        monkeypatch.setattr(cluster, "finish_bundle", deadly)
        found = engine.aurc(path, client=client, confidence="g1", loss="l1")
        client.wait_for_workers(2, timeout=60)
        after = set(client.run(os.getpid).values())
    assert os.path.exists(flag)
    assert len(before - after) == 1  # one process is gone
    assert len(after - before) == 1  # and another has taken its place
    assert found == calm == pytest.approx(abstain.aurc(l1, g1), rel=1e-12)


def received(monkeypatch):
    """Counts the bytes of all messages read in this process: those to the client and to the scheduler beside it."""
    from distributed.comm import tcp

    counted = [0]
    original = tcp.from_frames

    async def counting(frames, *more, **named):
        counted[0] += sum(memoryview(f).nbytes for f in frames)
        return await original(frames, *more, **named)

    monkeypatch.setattr(tcp, "from_frames", counting)
    return counted


def traffic(rows, folder, client, monkeypatch, groups=0):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    for k in range(10):
        g = rng.random(rows // 10, dtype=np.float32)
        columns = {"confidence": g, "loss": rng.random(rows // 10) < 0.1}
        if groups:
            columns["kind"] = rng.integers(0, groups, rows // 10)
        table = pa.table(columns)
        pq.write_table(table, folder / f"{k}.parquet", row_group_size=rows // 20)
    monkeypatch.setattr(cluster, "SAMPLES_PER_PARTITION", rows // 20)
    counted = received(monkeypatch)
    if groups:
        found = engine.evaluate(str(folder), client=client, groups="kind")
        assert len(found.groups) == groups
        assert sum(found.select(metric="aurc", group=group)[0].n for group in found.groups) == rows
    else:
        assert engine.evaluate(str(folder), client=client).n == rows
    return counted[0]


def test_only_histograms_and_sums_come_back(tmp_path, dask_client, monkeypatch):
    """A million samples are five megabytes and more; what is read here stays far below."""
    assert 0 < traffic(1_000_000, tmp_path, dask_client, monkeypatch) < 4_000_000


def test_groups_bring_their_answers_only(tmp_path, dask_client, monkeypatch):
    assert 0 < traffic(1_000_000, tmp_path, dask_client, monkeypatch, groups=100) < 4_000_000


@pytest.mark.slow
def test_ten_megabytes_are_enough_for_the_most_groups(tmp_path, dask_client, monkeypatch):
    most = cluster.MAX_GROUPS
    assert 0 < traffic(20_000_000, tmp_path, dask_client, monkeypatch, groups=most) < 10_000_000


@pytest.mark.slow
def test_ten_megabytes_are_enough_for_twenty_million_samples(tmp_path, dask_client, monkeypatch):
    assert 0 < traffic(20_000_000, tmp_path, dask_client, monkeypatch) < 10_000_000


def test_a_part_of_a_file_knows_its_rows(two_models):
    from abstain.engines.read import Fields, file_parts, read_columns, read_tables
    from abstain.formats.table_files import find_files

    path, g1, *_ = two_models
    files, fields = find_files("test", path), Fields("g1", "l1")
    seen = []

    def confidences(part):
        for spot, table in read_tables("test", part, fields, 1 << 20):
            yield spot.start, read_columns(spot, table, fields)[0].confidence

    for part in file_parts(files, 1000):
        for start, confidence in confidences(part):
            whole = np.concatenate([values for _, values in confidences(part.file)])
            np.testing.assert_array_equal(confidence, whole[start : start + len(confidence)])
            seen.append(len(confidence))
    assert sum(seen) == len(g1)
    assert max(seen) <= 1000


@pytest.mark.parametrize("as_list", [False, True])
def test_logits_of_frames_are_scored_on_the_way(as_list, tmp_path, dask_client, spark_session):
    import pandas as pd

    rng = np.random.default_rng(2)
    z = (20 * rng.normal(0, 1, (3000, 4))).astype(np.float32)
    y = np.where(rng.random(3000) < 0.7, z.argmax(1), rng.integers(0, 4, 3000))
    columns = {"z": list(z)} if as_list else {f"z{k}": z[:, k] for k in range(4)}
    whole = pd.DataFrame({**columns, "label": y})
    named = {"logits": "z" if as_list else [f"z{k}" for k in range(4)], "labels": "label"}
    truth = abstain.aurc(z.argmax(1) != y, abstain.scores.max_softmax(z))
    futures = dask_client.scatter([whole[:1000], whole[1000:1000], whole[1000:]])
    assert engine.aurc(futures, client=dask_client, **named) == pytest.approx(truth, rel=1e-12)
    from abstain.engines import spark

    whole.to_parquet(tmp_path / "p.parquet")
    found = spark.aurc(str(tmp_path / "p.parquet"), session=spark_session, **named)
    assert found == pytest.approx(truth, rel=1e-12)


def test_a_partition_with_a_column_of_right_answers():
    import pandas as pd

    load = cluster.Loader("f", parse_one_pair("f", {"correct": "right"}))
    frame = {"right": np.asarray([1, 0, 1]), "confidence": np.asarray([0.5, 0.25, 0.75])}
    assert load(pd.DataFrame(frame))[None].loss.tolist() == [False, True, False]


@pytest.fixture
def untidy(tmp_path):
    """Data in the folder and in one below; beside it unfinished and hidden files, and a folder named like a file."""
    rng = np.random.default_rng(0)
    g = rng.random(2000)
    l = rng.random(2000) < 0.3 * (1 - g)
    columns = {"confidence": g, "loss": l}
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    places = {"part-0.parquet": slice(0, 900), "more/part-1.parquet": slice(900, 1500)}
    places["out.parquet/part-2.parquet"] = slice(1500, 2000)
    places |= {
        name: slice(None)
        for name in ("_temporary/0/a.parquet", ".hidden/b.parquet", "_c.parquet", ".d.parquet")
    }
    for name, rows in places.items():
        target = tmp_path / "untidy" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({k: v[rows] for k, v in columns.items()}), target)
    return str(tmp_path / "untidy"), abstain.aurc(l, g)


def test_every_engine_reads_the_same_files_of_a_folder(untidy, dask_client, spark_session):
    from abstain.engines import files, spark

    folder, truth = untidy
    answers = [
        files.evaluate(folder),
        files.evaluate(folder + "/**/*.parquet"),
        engine.evaluate(folder, client=dask_client),
        spark.evaluate(folder, session=spark_session),
        spark.evaluate("file://" + folder, session=spark_session),
    ]
    assert [found.n for found in answers] == [2000] * 5
    assert [found["confidence", "loss", "aurc"].estimate for found in answers] == pytest.approx(
        [truth] * 5, rel=1e-12
    )


def test_folders_that_tell_a_column_tell_every_engine(tmp_path, dask_client, spark_session):
    from abstain.engines import files, spark

    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(1)
    truth = {}
    for told, label in (("01", "01"), ("2", "2"), ("a%2Fb", "a/b"), ("__HIVE_DEFAULT_PARTITION__", None)):
        g = rng.random(300)
        l = rng.random(300) < 0.5 * (1 - g)
        (tmp_path / "hive" / f"kind={told}").mkdir(parents=True)
        pq.write_table(
            pa.table({"confidence": g, "loss": l}), tmp_path / "hive" / f"kind={told}" / "p.parquet"
        )
        truth[label] = abstain.aurc(l, g)
    folder = str(tmp_path / "hive")
    for found in (
        files.aurc(folder, groups="kind"),
        engine.aurc(folder, groups="kind", client=dask_client),
        spark.aurc(folder, groups="kind", session=spark_session),
    ):
        assert found.values == pytest.approx(truth, rel=1e-12)
