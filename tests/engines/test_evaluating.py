"""`abstain.evaluate` over files and clusters gives the numbers it gives in memory."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.errors import InputError

from .conftest import write_parts

METRICS = ["aurc", "aurc:loo", "augrc", "e_aurc", "naurc", "auroc", "risk", "prediction_rejection_ratio"]


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    rng = np.random.default_rng(0)
    g = rng.normal(0, 1, 8000)
    l = rng.random(8000) < 0.4 / (1 + np.exp(g))
    labels = rng.choice(["a", "b"], 8000)
    folder = tmp_path_factory.mktemp("evaluating") / "data"
    return l, g, labels, write_parts(folder, {"confidence": g, "loss": l, "kind": labels})


def same(found, truth, group=None):
    for entry in truth.select(group=group, loss=truth.losses[0], score=truth.scores[0]):
        own = found.select(group=group, metric=entry.metric)[0]
        assert own.estimate == pytest.approx(entry.estimate, rel=1e-9)
        assert own.n == entry.n
        if entry.low is not None:
            assert own.standard_error == pytest.approx(entry.standard_error, rel=1e-6)
            assert own.low == pytest.approx(entry.low, rel=2e-3)
            assert own.high == pytest.approx(entry.high, rel=2e-3)


def test_files_give_the_table_of_memory(sample):
    l, g, labels, path = sample
    truth = abstain.evaluate(loss=l, confidence=g, groups=labels, metrics=METRICS)
    found = abstain.evaluate(path, groups="kind", metrics=METRICS, engine="files")
    for group in (None, "a", "b"):
        same(found, truth, group)
    default = abstain.evaluate(path)  # a path alone is for the engine that reads files
    assert default["confidence", "loss", "risk_at_coverage@0.8"].estimate == pytest.approx(
        abstain.risk_at_coverage(l, g, coverage=0.8)
    )
    assert len(default.curves) == 1
    assert "AURC" in repr(default)


def test_a_cluster_gives_the_table_of_memory(sample, dask_client, spark_session):
    l, g, _, path = sample
    from abstain.engines import dask, spark

    truth = abstain.evaluate(loss=l, confidence=g, metrics=METRICS)
    same(abstain.evaluate(path, metrics=METRICS, engine="dask"), truth)  # the current client
    some = ["aurc", "auroc"]
    truth = abstain.evaluate(loss=l, confidence=g, metrics=some)
    same(abstain.evaluate(path, metrics=some, engine=dask.on(dask_client)), truth)
    frame = spark_session.read.parquet(path).repartition(3)
    same(abstain.evaluate(frame, metrics=some, engine="spark"), truth)
    same(abstain.evaluate(path, metrics=some, engine=spark.on(spark_session)), truth)


def test_what_engines_cannot_take_is_refused(sample):
    path = sample[-1]
    with pytest.raises(InputError, match="engines do not take `clusters`"):
        abstain.evaluate(path, clusters="kind", engine="files")
    with pytest.raises(InputError, match="give the data first"):
        abstain.evaluate(loss="loss", engine="files")
