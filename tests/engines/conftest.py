"""One Dask cluster and one Spark session for all engine tests; data of every awkward kind as files."""

from __future__ import annotations

import itertools
import os
import sys

import numpy as np
import pytest

SIZE = 20_000
FILES = 10


def smooth(rng):
    g = rng.random(SIZE)
    return rng.random(SIZE) < 0.6 * (1 - g) ** 2, g


def heavily_tied(rng):
    g = np.round(rng.random(SIZE), 2)
    return rng.random(SIZE) < 0.6 * (1 - g) ** 2, g


def saturated(rng):
    z = rng.normal(12, 8, SIZE)
    return rng.random(SIZE) < 0.4 * np.exp(-np.abs(z) / 6), (1 / (1 + np.exp(-z))).astype(np.float32)


def adversarially_sorted(rng):
    l, g = smooth(rng)
    order = np.lexsort((g, l))
    return l[order], g[order]


def skewed(rng):
    g = np.exp(rng.normal(0, 15, SIZE))
    return rng.random(SIZE) < np.clip(0.3 - 0.02 * np.log(g), 0, 1), g


def real_losses(rng):
    g = rng.normal(0, 1, SIZE).astype(np.float32)
    return np.round(rng.exponential(1, SIZE) * (g < 0.5) + 0.1 * rng.random(SIZE), 3), g


SHAPES = {f.__name__: f for f in (smooth, heavily_tied, saturated, adversarially_sorted, skewed, real_losses)}


@pytest.fixture(scope="session", params=list(SHAPES))
def shape(request):
    """(name, loss, confidence, weight) of one kind of data."""
    rng = np.random.default_rng(list(SHAPES).index(request.param))
    l, g = SHAPES[request.param](rng)
    return request.param, l, g, rng.integers(1, 4, SIZE).astype(float)


def write_parts(folder, columns, files=FILES):
    """Parquet files of uneven length, the fourth of them empty."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    n = len(next(iter(columns.values())))
    cuts = np.linspace(0, n, files).astype(int)
    edges = [*cuts[:4], cuts[3], *cuts[4:]]
    for k, (a, b) in enumerate(itertools.pairwise(edges)):
        table = pa.table({name: values[a:b] for name, values in columns.items()})
        pq.write_table(table, folder / f"part-{k}.parquet", row_group_size=900)
    return str(folder)


@pytest.fixture(scope="session")
def stored(shape, tmp_path_factory):
    """The same data as ten files, one of them empty."""
    name, l, g, w = shape
    folder = tmp_path_factory.mktemp(name)
    return write_parts(folder / "data", {"confidence": g, "loss": l, "w": w})


@pytest.fixture(scope="session")
def dask_client():
    import dask
    import distributed

    dask.config.set({"distributed.admin.tick.limit": "60s", "distributed.comm.timeouts.connect": "60s"})
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def spark_session():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.codegen.wholeStage", "false")  # little data: compiling costs more than it saves
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


METRICS = ("risk", "aurc", "augrc", "oracle_aurc", "e_aurc", "naurc", "auroc", "prediction_rejection_ratio")


class Told:
    """What an engine found about one set of samples: numbers by metric, points by where they were asked for."""

    def __init__(self, answer, coverages=(), risks=()):
        from abstain.metrics import by_name

        self._answer, self._by_name = answer, by_name
        self.n, self.mass, self.ranges = (
            answer.totals.sample_count,
            answer.totals.total_mass,
            len(answer.results),
        )
        self.risk_at_coverage = {c: self[f"risk_at_coverage@{c}"].estimate for c in coverages}
        self.coverage_at_risk = {r: self[f"coverage_at_risk@{r}"].estimate for r in risks}
        self.curve = None if answer.results[0].curve is None else answer.curve()

    def __getitem__(self, metric):
        from types import SimpleNamespace

        metric = self._by_name(metric)
        if self.n < 2 or (metric.name in METRICS[3:] and not self._answer.totals.zero_one):
            return SimpleNamespace(estimate=self._answer.value(metric), standard_error=0.0)
        return self._answer.interval(metric)


def told(engine, data, *, coverages=(), risks=(), points=0, client=None, session=None, **options):
    """`Told` of the data, or of each group, by a module of `abstain.engines`."""
    from dataclasses import replace

    from abstain.engines.finish import make_request
    from abstain.engines.read import parse_one_pair
    from abstain.metrics import by_name

    own = {"client": client, "session": session}
    columns, engine_options = engine._ENGINE._separate_options(options | own)
    name = f"{engine._ENGINE.name}.test"
    points_of = [f"risk_at_coverage@{c}" for c in coverages] + [f"coverage_at_risk@{r}" for r in risks]
    request = make_request([by_name(m) for m in (*METRICS, *points_of)])
    request = replace(request, curve_points=points, with_thresholds=points > 0)
    found = engine._ENGINE.answer(name, data, parse_one_pair(name, columns), request, **engine_options)
    answers = {group: Told(answer, coverages, risks) for group, answer in found.items()}
    return answers if options.get("groups") else answers[None]


_WITH_CLUSTERS = (
    "test_every_engine",
    "test_cluster",
    "test_engine",
    "test_files",
    "test_finish",
    "test_groups",
    "test_one_error_bar",
    "test_progress",
)


def pytest_collection_modifyitems(items):
    """One Dask cluster and one Spark session for the run: what uses them stays with one worker."""
    for item in items:
        if item.path.parent.name == "engines" and item.path.stem in _WITH_CLUSTERS:
            item.add_marker(pytest.mark.xdist_group("clusters"))
