"""Groups: every engine answers for each group as if it had seen that group alone."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.engines import cluster, dask, spark
from abstain.engines.ranges import Columns
from abstain.engines.read import read_group_labels, split_by_group
from abstain.errors import DataError, InputError

from .conftest import told, write_parts
from .definitions import by_definition, oracle

N = 9_000


def sample(kind):
    """A large group, a heavily tied one, one in a single partition, one of a single sample, and missing names."""
    rng = np.random.default_rng(3)
    names = {"str": ["large", "tied", "corner", "lone"], "int": [7, -2, 10**12, 0]}[kind]
    codes = rng.choice(5, N, p=[0.6, 0.25, 0.0, 0.0, 0.15])
    codes[8200:8300], codes[1234] = 2, 3
    g = rng.normal(0, 1, N)
    g = np.where(codes == 1, np.round(2 * g) / 2, g)
    l = rng.random(N) < 0.5 / (1 + np.exp(1.3 * g + 0.3 * codes))
    if kind == "int":
        l = np.round(l + rng.exponential(0.2, N), 2)
    labels = np.empty(N, dtype=object)
    labels[:] = [[*names, None][c] for c in codes]
    return l, g, rng.integers(1, 4, N).astype(float), labels


@pytest.fixture(scope="module", params=["str", "int"])
def grouped(request, tmp_path_factory):
    import pyarrow as pa

    l, g, w, labels = sample(request.param)
    columns = {"confidence": g, "loss": l, "w": w, "kind": pa.array(labels.tolist())}
    path = write_parts(tmp_path_factory.mktemp(request.param) / "data", columns)
    weight = "w" if request.param == "int" else None
    return path, l, g, w if weight else np.ones(N), labels, weight


def engine_of(name, request):
    """`evaluate`, `aurc`, and where they run."""
    if name == "files":
        from abstain.engines import files

        patch = request.getfixturevalue("monkeypatch")
        patch.setattr(files, "samples_that_fit", lambda *a: 1000)
        patch.setattr(files, "_fits_in_memory", lambda *a: False)
        return files, {}
    if name == "dask":
        return dask, {"client": request.getfixturevalue("dask_client")}
    return spark, {"session": request.getfixturevalue("spark_session")}


ENGINES = ["files", "dask", "spark"]


@pytest.mark.parametrize("name", ENGINES)
def test_each_group_is_answered_by_its_definition(name, grouped, request):
    path, l, g, w, labels, weight = grouped
    engine, where = engine_of(name, request)
    options = {"coverages": (0.5,), "risks": (0.2,), "points": 20}
    stated = {"repetitions": bool(np.all(w == np.floor(w)))}
    found = told(engine, path, groups="kind", sample_weight=weight, **stated, **options, **where)
    assert set(found) == set(labels)
    for label, summary in found.items():
        own = labels == label
        truth, best = by_definition(l[own], g[own], w[own]), oracle(l[own], w[own])
        assert summary.n == own.sum()
        assert summary.mass == w[own].sum()
        assert summary["aurc"].estimate == pytest.approx(truth["aurc"], rel=1e-12)
        assert summary["aurc"].standard_error == pytest.approx(truth["error"], rel=1e-9, abs=1e-12)
        assert summary["augrc"].estimate == pytest.approx(truth["augrc"], rel=1e-12)
        assert summary["e_aurc"].estimate == pytest.approx(truth["aurc"] - best, rel=1e-8, abs=1e-12)
        at = np.flatnonzero(truth["coverage"] >= 0.5)[-1]
        assert summary.risk_at_coverage[0.5] == pytest.approx(truth["curve"][at], rel=1e-12)
        assert summary.curve.coverage[-1] == 1
        exact = dict(zip(truth["coverage"].round(12), truth["curve"]))
        for coverage, risk in zip(summary.curve.coverage, summary.curve.risk):
            assert exact[round(coverage, 12)] == pytest.approx(risk, rel=1e-12)


@pytest.mark.parametrize("name", ["dask", "spark"])
def test_one_area_by_group(name, grouped, request):
    path, l, g, w, labels, weight = grouped
    engine, where = engine_of(name, request)
    found = engine.aurc(path, groups="kind", sample_weight=weight, **where)
    values = {k: by_definition(l[labels == k], g[labels == k], w[labels == k])["aurc"] for k in set(labels)}
    assert found.values == pytest.approx(values, rel=1e-12)
    assert list(found.values) == [*sorted(set(labels) - {None}), None]  # by name, whatever came first
    assert found.counts == {k: int((labels == k).sum()) for k in values}
    assert found.worst_group == max(values, key=values.get)


def test_frames_have_groups_too(grouped, dask_client, spark_session):
    import pandas as pd

    _, l, g, w, labels, _ = grouped
    truth = {k: by_definition(l[labels == k], g[labels == k], w[labels == k])["aurc"] for k in set(labels)}
    whole = pd.DataFrame({"confidence": g, "loss": l, "w": w, "kind": labels})  # numbers and None: objects
    futures = dask_client.scatter([whole[:4000], whole[4000:4000], whole[4000:]])
    found = dask.aurc(futures, client=dask_client, groups="kind", sample_weight="w")
    assert found.values == pytest.approx(truth, rel=1e-12)
    if isinstance(labels[0], str):
        spread = spark_session.createDataFrame(whole).repartition(3)
        assert spark.aurc(spread, groups="kind", sample_weight="w").values == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("name", ENGINES)
def test_weight_zero_takes_its_sample_and_its_group_away(name, tmp_path, request):
    rng = np.random.default_rng(5)
    g, l, w = rng.random(4000), rng.random(4000) < 0.3, rng.integers(0, 3, 4000).astype(float)
    labels = rng.choice(["a", "b", "gone"], 4000)
    w[labels == "gone"] = 0
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "w": w, "kind": labels})
    engine, where = engine_of(name, request)
    found = engine.aurc(path, groups="kind", sample_weight="w", **where)
    assert set(found.values) == {"a", "b"}
    for label in ("a", "b"):
        own = (labels == label) & (w > 0)
        assert found.values[label] == pytest.approx(by_definition(l[own], g[own], w[own])["aurc"], rel=1e-12)
        assert found.counts[label] == own.sum()


@pytest.mark.parametrize("name", ["dask", "spark"])
def test_too_many_groups_are_refused(name, tmp_path, request):
    n = cluster.MAX_GROUPS + 1
    columns = {"confidence": np.arange(n) / n, "loss": np.arange(n) % 3 == 0, "id": np.arange(n)}
    path = write_parts(tmp_path / "d", columns)
    engine, where = engine_of(name, request)
    with pytest.raises(InputError, match=f"{name}.aurc: `groups` must name a column of at most 2,000 groups"):
        engine.aurc(path, groups="id", **where)
    path = write_parts(tmp_path / "e", {k: v[:600] for k, v in columns.items()})
    with pytest.raises(InputError, match="`points` must be at most 333 for 600 groups, got 400"):
        engine.risk_coverage_curve(path, groups="id", points=400, **where)


def test_a_column_of_lists_names_no_groups(tmp_path, dask_client):
    columns = {"confidence": np.arange(50.0), "loss": np.arange(50) % 3 == 0, "kind": [[1]] * 50}
    path = write_parts(tmp_path / "d", columns)
    with pytest.raises(DataError, match="`kind` must hold names or numbers of groups, got list"):
        dask.aurc(path, groups="kind", client=dask_client)


# tasks ------------------------------------------------------------------------------------------------------


def test_groups_share_tasks(dask_client):
    """A hundred groups in twenty partitions: the tasks are those of one group, not of a hundred."""
    rng = np.random.default_rng(6)
    groups = {
        k: Columns(rng.random(size) < 0.2, rng.random(size))
        for k, size in enumerate([60_000, *rng.integers(1, 500, 99)])
    }
    survey = cluster.survey_groups(groups, "test")
    rows = sum(c.sample_count for c in groups.values())
    found = cluster.number_ranges(survey, 4)
    assert found.range_count >= 100 + 2  # the large one is cut
    assert found.bundle_count <= 6
    parts, sums = cluster.split_into_bundles(groups, found, keep_tied_samples=True)
    sizes = [sum(columns.sample_count for _, columns in part) for part in parts]
    assert sum(sizes) == rows
    assert max(sizes) < 1.3 * rows / 4
    for number, columns in (pair for part in parts for pair in part):
        group = next(g for g in groups if found.ranges_of(g).start <= number < found.ranges_of(g).stop)
        assert np.isin(columns.confidence, groups[group].confidence).all()
        assert sums.sums[0, number] == columns.sample_count
        assert sums.sums[1, number] == columns.loss.sum()


def test_a_heavy_tie_in_a_group_is_a_range_of_its_own():
    rng = np.random.default_rng(7)
    g = np.where(rng.random(50_000) < 0.7, 1.0, rng.random(50_000))
    survey = cluster.survey_groups({"a": Columns(g < 0.5, g), "b": Columns(g[:9] < 0.5, g[:9])}, "test")
    found = cluster.number_ranges(survey, 5)
    _, sums = cluster.split_into_bundles({"a": Columns(g < 0.5, g)}, found)
    heavy = int(np.argmax(sums.count))
    assert sums.low[heavy] == sums.high[heavy] == 1.0
    assert sums.count[heavy] == (g == 1).sum()


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["x", None, "y", "x"], ["x", None, "y", "x"]),
        ([2.0, float("nan"), 3.0, None], [2.0, None, 3.0, None]),
        ([True, False, None, True], [True, False, None, True]),
    ],
)
def test_labels_name_every_sample(values, names):
    import pandas as pd
    import pyarrow as pa

    frame = pd.Series(values)
    columns = [pa.array(values), pa.chunked_array([values[:1], values[1:]]), frame, frame.astype("category")]
    for column in columns:
        labels = read_group_labels("test", "kind", column)
        assert [labels.names[code] for code in labels.codes] == names
        assert len(set(labels.names)) == len(labels.names)
        rows = Columns(np.zeros(4), np.arange(4.0))
        parts = {label: part.confidence.tolist() for label, part in split_by_group(rows, labels)}
        assert parts == {k: [i for i, n in enumerate(names) if n == k] for k in names}


def test_ids_are_refused_before_anything_is_made_for_each_of_them(monkeypatch):
    monkeypatch.setattr(cluster.Survey, "add", lambda *arguments: pytest.fail("surveyed them all the same"))
    one = Columns(np.zeros(2), np.asarray([0.1, 0.2]), None)
    with pytest.raises(InputError, match="at most 2,000 groups, got more"):
        cluster.survey_groups(dict.fromkeys(range(cluster.MAX_GROUPS + 1), one), "dask.aurc")
