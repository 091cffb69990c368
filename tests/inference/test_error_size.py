"""Losses that are 0 or c behave as c times 0/1 losses, in every number, interval, difference, band and engine."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core.rows import Blocks
from abstain.engines import files
from abstain.errors import InputError
from abstain.inference import (
    curve_band,
    influence,
    interval,
    interval_from_blocks,
    paired_difference,
    standard_error,
    unpaired_difference,
)

SCALED = ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "risk_at_coverage")
METRICS = (*SCALED, "naurc", "prediction_rejection_ratio", "coverage_at_risk")
FIELDS = ("estimate", "standard_error", "low", "high")
SIZES = (10.0, 0.3, 1e-6)


def sample(n, errors, seed=0):
    rng = np.random.default_rng([seed, n, errors])
    g = np.round(rng.random(n), 2)
    l = np.zeros(n)
    l[rng.choice(n, errors, replace=False)] = 1
    return l, g, rng


def same(one, other, size=1.0, fields=FIELDS):
    """`other` is `one` in units of `size`."""
    for field in fields:
        assert getattr(other, field) == pytest.approx(size * getattr(one, field), rel=1e-9, abs=1e-300), field


@pytest.mark.parametrize("errors", [0, 3, 60, 197])
@pytest.mark.parametrize("weights", [None, "whole", "fractional"])
@pytest.mark.parametrize("kind", ["plain", "clusters", "abstained"])
def test_every_interval(kind, weights, errors):
    """Risk at coverage of {0, 10} with no error accepted was [0, 0], and covered 71.6%."""
    l, g, rng = sample(200, errors)
    columns = {}
    if weights:
        columns["sample_weight"] = (
            rng.integers(1, 4, 200) * 1.0 if weights == "whole" else rng.random(200) + 0.1
        )
    if kind == "clusters":
        columns["clusters"] = np.arange(200) // 3
    if kind == "abstained":
        columns["abstained"] = rng.random(200) < 0.1
    for metric in METRICS:
        for size in SIZES:
            plain, scaled = ({"coverage": 0.5} if metric == "risk_at_coverage" else {} for _ in range(2))
            if metric == "coverage_at_risk":
                plain, scaled = {"risk": 0.1}, {"risk": 0.1 * size}
            if errors == 0:
                scaled["loss_bound"] = size  # no error says how large one is
            one = interval(metric, l, g, **columns, **plain)
            other = interval(metric, size * l, g, **columns, **scaled)
            same(one, other, size if metric in SCALED else 1.0)
            assert (one.note, one.centre, one.method) == (other.note, other.centre, other.method)


def test_influences_and_resampling():
    l, g, _ = sample(200, 12)
    for metric in ("aurc", "naurc", "e_aurc"):
        size = 5.0 if metric in SCALED else 1.0
        assert influence(metric, 5 * l, g).values == pytest.approx(size * influence(metric, l, g).values)
        assert standard_error(metric, 5 * l, g) == pytest.approx(size * standard_error(metric, l, g))
        for method in ("bootstrap", "bca", "jackknife"):
            options = {"method": method, "replicates": 200}
            same(interval(metric, l, g, **options), interval(metric, 5 * l, g, **options), size)
    one, other = (curve_band(k * l, g, replicates=200) for k in (1, 5))
    same(one, other, 5.0, ("risk", "low", "high"))


def test_groups_without_an_error_know_its_size_from_the_others():
    l, g, rng = sample(200, 12)
    groups = np.where(l > 0, "a", rng.choice(["a", "b"], 200))
    one, other = (interval("aurc", k * l, g, groups=groups) for k in (1, 5))
    for label in ("a", "b"):
        same(one[label], other[label], 5.0)
    same(one.macro, other.macro, 5.0)
    tables = [abstain.evaluate(loss=k * l, confidence=g, groups=groups, metrics=["aurc"]) for k in (1, 5)]
    for entry in tables[0].entries:
        same(entry, tables[1].select(group=entry.group)[0], 5.0)


@pytest.mark.parametrize("metric", ["aurc", "risk", "naurc"])
@pytest.mark.parametrize("errors", [3, 60])
def test_differences(errors, metric):
    l, g, rng = sample(200, errors)
    other = np.roll(l, 40)
    h = rng.random(200)
    size = 10.0 if metric in SCALED else 1.0
    for test in (paired_difference, unpaired_difference):
        one, scaled = (test(k * l, g, k * other, h, metric=metric) for k in (1, 10))
        same(one, scaled, size, ("difference", "standard_error", "low", "high"))
        assert scaled.p_value == pytest.approx(one.p_value, rel=1e-9)
        assert scaled.note == one.note
    none = [paired_difference(k * l, g, 0 * l, h, metric="aurc") for k in (1, 10)]
    same(*none, 10.0, ("difference", "low", "high"))
    tables = [abstain.compare({"a": (k * l, g), "b": (k * other, h)}, metric=metric) for k in (1, 10)]
    same(tables[0].pairs[0], tables[1].pairs[0], size, ("difference", "low", "high"))
    members = [
        abstain.evaluation.expected_aurc(loss=[k * l, k * other], confidence=[g, h], metric=metric)
        for k in (1, 10)
    ]
    same(members[0].mean, members[1].mean, size)


def test_errors_of_unlike_sizes_are_compared_as_losses():
    l, g, _ = sample(400, 100)
    found = paired_difference(l, g, 2 * np.roll(l, 5), g)
    raw = paired_difference(l + 1e-300, g, 2 * np.roll(l, 5) + 1e-300, g)
    same(found, raw, 1.0, ("difference", "low", "high"))


def test_metrics_of_right_and_wrong_still_ask_for_them():
    l, g, _ = sample(100, 20)
    with pytest.raises(abstain.errors.InputError, match="needs `loss` to be 0"):
        interval("auroc", 10 * l, g)
    table = abstain.evaluate(loss=10 * l, confidence=g)
    assert "auroc" not in table.metrics
    assert table["confidence", "loss", "risk"].estimate == pytest.approx(2.0)


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("weights", [None, "whole", "fractional"])
def test_files_and_block_tables(weights, spilled, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    if spilled:
        monkeypatch.setattr(files, "samples_that_fit", lambda *a: 300)
        monkeypatch.setattr(files, "_fits_in_memory", lambda *a: False)
    l, g, rng = sample(1500, 5)
    w = {None: None, "whole": rng.integers(1, 4, 1500) * 1.0, "fractional": rng.random(1500) + 0.1}[weights]
    columns = {"confidence": g, "loss": 10 * l, "other": 10 * np.roll(l, 9), "sure": rng.random(1500)}
    columns |= {} if w is None else {"w": w}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    metrics = ["aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc", "prediction_rejection_ratio"]
    metrics += ["risk_at_coverage@0.3"]
    truth = abstain.evaluate(loss=l, confidence=g, sample_weight=w, metrics=metrics)
    found = files.evaluate(tmp_path, metrics=metrics, sample_weight=None if w is None else "w")
    for entry in truth.entries:
        size = 10.0 if entry.metric.partition("@")[0] in SCALED else 1.0
        scaled = found.select(metric=entry.metric)[0]
        same(entry, scaled, size)
        assert scaled.note == entry.note
    blocks = Blocks.from_samples(10 * l, g, w)
    for metric in ("aurc", "risk", *(() if weights == "fractional" else ("naurc",))):
        stated = {"repetitions": weights == "whole"}
        one = interval(metric, l, g, sample_weight=w, **stated)
        same(one, interval_from_blocks(metric, blocks, **stated), 10.0 if metric in SCALED else 1.0)
    if weights == "fractional":
        return
    models = {"first": (l, g), "second": (np.roll(l, 9), columns["sure"])}
    pair = abstain.compare(models, sample_weight=w).pairs[0]
    sides = {"first": ("confidence", "loss"), "second": ("sure", "other")}
    test = files.compare(tmp_path, **sides, sample_weight=None if w is None else "w").pairs[0]
    assert (test.a, test.note) == (pair.a, pair.note)
    same(pair, test, 10.0, ("difference", "standard_error", "low", "high"))


@pytest.mark.parametrize("size", [1e300, 1e-200])
@pytest.mark.parametrize("metric", ["aurc", "augrc", "e_aurc", "naurc", "risk"])
def test_huge_and_tiny_losses_have_the_interval_of_ordinary_ones(metric, size):
    rng = np.random.default_rng(7)
    confidence = rng.random(80)
    loss = rng.random(80)
    unit = 1.0 if metric == "naurc" else size
    ordinary = abstain.inference.interval(metric, loss, confidence)
    scaled = abstain.inference.interval(metric, size * loss, confidence)
    numbers = (scaled.low / unit, scaled.estimate / unit, scaled.high / unit)
    assert numbers == pytest.approx((ordinary.low, ordinary.estimate, ordinary.high), rel=1e-9)
    models = {"one": (size * loss, confidence), "two": (size * loss[::-1], confidence)}
    message = r"losses must lie between 1e-60 and 1e\+60.*Divide them"
    with pytest.raises(InputError, match=f"^paired_difference: {message}"):
        paired_difference(*models["one"], *models["two"])
    with pytest.raises(InputError, match=f"^unpaired_difference: {message}"):
        unpaired_difference(*models["one"], *models["two"])
    with pytest.raises(InputError, match=f"^compare: {message}"):
        abstain.compare(models)


@pytest.mark.parametrize("metric", ["aurc", "risk", "e_aurc", "naurc"])
@pytest.mark.parametrize("sizes", [(2.0, 3.0), (1.0, 10.0), (1e-200, 1e200)], ids=str)
def test_the_mean_over_groups_with_errors_of_different_sizes(metric, sizes):
    l, g, _ = sample(400, 60)
    groups = np.arange(400) % 2
    loss = l * np.asarray(sizes)[groups]
    found = interval(metric, loss, g, groups=groups)
    mean = (found[0].estimate + found[1].estimate) / 2
    assert found.macro.estimate == pytest.approx(mean, rel=1e-12)
    assert found.macro.low < mean < found.macro.high
    if metric == "risk":  # independent groups: variances add up
        both = np.hypot(found[0].standard_error, found[1].standard_error) / 2
        assert found.macro.standard_error == pytest.approx(both, rel=1e-6)
        one_each = interval(metric, loss, g, groups=groups, clusters=np.arange(400)).macro
        if sizes[0] > 1e-100:
            assert one_each.standard_error == pytest.approx(both, rel=0.01)


def test_the_mean_over_groups_does_not_depend_on_their_names():
    l, g, _ = sample(120, 14)
    clusters = np.r_[
        np.zeros(30), np.arange(1, 31), np.arange(100, 160)
    ]  # one large cluster, in the first half
    names = np.repeat(["a", "b"], 60)
    macros = [
        interval("aurc", l, g, groups=labels, clusters=clusters).macro
        for labels in (names, np.where(names == "a", "b", "a"))
    ]
    same(macros[0], macros[1], 1.0)
