"""`abstain.evaluate` over files and clusters gives the numbers it gives in memory."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
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


def same(found, truth, group=None, reach=2e-3):
    for entry in truth.select(group=group, loss=truth.losses[0], score=truth.scores[0]):
        own = found.select(group=group, metric=entry.metric)[0]
        assert own.estimate == (
            None if entry.estimate is None else pytest.approx(entry.estimate, rel=1e-9, abs=1e-15)
        )
        assert own.n == entry.n
        if entry.standard_error:  # engines give no limit to a group without any error
            assert own.standard_error == pytest.approx(entry.standard_error, rel=1e-6)
            assert own.low == pytest.approx(entry.low, rel=reach)
            assert own.high == pytest.approx(entry.high, rel=reach)


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


def test_a_risk_in_percent_is_refused_by_a_table_of_0_1_losses(sample, tmp_path):
    """Taken as it is, a risk of 5 would accept everything."""
    l, g, _, path = sample
    message = r"evaluate: `risk` must lie in \[0, 1\], the bounds of the loss, got 5. Write 0.05 for 5%."
    for data in ({"loss": l, "confidence": g}, {"logits": path}):
        with pytest.raises(InputError, match=message):
            abstain.evaluate(**data, metrics="coverage_at_risk@5")
    costs = write_parts(tmp_path / "costs", {"confidence": g, "loss": 9.0 * l})  # which a risk of 5 may bound
    found = abstain.evaluate(costs, metrics="coverage_at_risk@5").entries[0]
    assert found.estimate == abstain.coverage_at_risk(9.0 * l, g, risk=5)


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


@pytest.mark.parametrize("engine", ["files", "dask", "spark"])
def test_groups_stand_beside_the_whole(engine, tmp_path, dask_client, spark_session):
    """A group without a name, one of a single sample, one without errors: each has its lines in the table."""
    rng = np.random.default_rng(1)
    g = rng.normal(0, 1, 5000)
    l = rng.random(5000) < 0.4 / (1 + np.exp(g))
    labels = rng.choice(np.asarray(["a", "b", "right", None], dtype=object), 5000)
    labels[17], l[labels == "right"] = "lone", False
    columns = {"confidence": g, "loss": l, "kind": pa.array(labels.tolist())}
    path = write_parts(tmp_path / "d", columns)
    some = ["aurc", "auroc", "prediction_rejection_ratio"]
    found = abstain.evaluate(path, groups="kind", metrics=some, engine=engine)
    named = np.asarray(["(missing)" if x is None else x for x in labels])
    truth = abstain.evaluate(loss=l, confidence=g, groups=named, metrics=some)
    assert found.groups == ("a", "b", "lone", "right", "(missing)")
    for group in (None, *found.groups):
        same(found, truth, group, reach=0.01)
    alone = found.select(metric="auroc", group="right")[0]
    assert alone.reason == truth.select(metric="auroc", group="right")[0].reason
    assert found.select(metric="auroc")[0].n == 5000


@pytest.mark.parametrize("engine", ["files", "dask", "spark"])
def test_the_command_line_has_groups_by_every_engine(
    engine, tmp_path, dask_client, spark_session, monkeypatch
):
    rng = np.random.default_rng(2)
    g, group = np.round(rng.random(3000), 2), rng.choice(["law", "maths"], 3000)
    l = rng.random(3000) < 0.5 * (1 - g)
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"confidence": g, "loss": l, "group": group}), tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    request = ["evaluate", "t.parquet", "--metrics", "aurc,risk", "--json"]
    memory, own = (
        {
            (e["score"], e["loss"], e["metric"], e["group"]): e["estimate"]
            for e in json.loads(CliRunner().invoke(cli, [*request, *more], catch_exceptions=False).stdout)[
                "entries"
            ]
        }
        for more in ([], ["--engine", engine])
    )
    assert own == pytest.approx(memory, rel=1e-9)
    assert own["confidence", "loss", "aurc", "law"] == pytest.approx(
        abstain.aurc(l[group == "law"], g[group == "law"])
    )


def test_what_engines_cannot_take_is_refused(sample):
    path = sample[-1]
    with pytest.raises(InputError, match="engines do not take `clusters`"):
        abstain.evaluate(path, clusters="kind", engine="files")
    with pytest.raises(InputError, match="give the data first"):
        abstain.evaluate(loss="loss", engine="files")


def test_a_truncated_ratio_of_graded_losses_says_that_it_needs_memory(tmp_path):
    """Engines know the best order of losses other than 0/1 by its whole areas alone."""
    path = tmp_path / "predictions.csv"
    path.write_text("confidence,loss\n0.9,0.25\n0.8,0.5\n0.7,1\n0.6,0.75\n")
    table = abstain.engines.files.evaluate(path, metrics=["prediction_rejection_ratio@0.5"])
    (entry,) = table.entries
    assert entry.estimate is None
    assert entry.reason == "needs the samples themselves for losses other than 0/1. Evaluate it in memory."
