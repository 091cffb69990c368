"""From ranges to answers: weights, rounding and the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.engines import files
from tests.engines.test_files import pa

from .conftest import told, write_parts


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


def test_fractional_weights_reach_the_same_area(sample, tmp_path, tiny_ranges):
    l, g = sample
    w = np.random.default_rng(3).exponential(1, len(l))
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "w": w})
    found = told(files, path, sample_weight="w")
    assert found["aurc"].estimate == pytest.approx(abstain.aurc(l, g, sample_weight=w), rel=1e-12)
    truth = abstain.e_aurc(l, g, sample_weight=w)
    assert found["e_aurc"].estimate == pytest.approx(truth, rel=1e-3)  # equal losses: masses as if small


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
        assert found[metric].estimate == pytest.approx(abstain.metrics.by_name(metric)(l, g), rel=1e-12)


def test_weights_with_the_moments_of_unit_weights_are_not_taken_for_them(tmp_path):
    l, g, w = np.arange(200) % 4 == 3, np.arange(200.0), np.tile([0.5, 0.5, 0.5, 1.5], 50)
    pa.parquet.write_table(pa.table({"loss": l, "confidence": g, "w": w}), tmp_path / "w.parquet")
    found = told(files, tmp_path / "w.parquet", sample_weight="w")
    for metric in ("oracle_aurc", "e_aurc", "naurc"):
        assert found[metric].estimate == pytest.approx(
            abstain.metrics.by_name(metric)(l, g, sample_weight=w), rel=1e-12
        )


def test_equal_losses_of_fractional_weights_have_the_oracle_of_memory_by_sele(
    tmp_path, tiny_ranges, monkeypatch
):
    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 300)  # fewer than have any one loss
    rng = np.random.default_rng(2)
    loss, confidence, weight = rng.choice([0.0, 0.5, 2.0], 2000), rng.random(2000), rng.lognormal(0, 1, 2000)
    path = write_parts(tmp_path / "data", {"loss": loss, "confidence": confidence, "w": weight})
    found = files.evaluate(path, sample_weight="w", metrics=["oracle_aurc:sele", "oracle_aurc"])
    exact = abstain.metrics.oracle_aurc(loss, sample_weight=weight, estimator="sele")
    assert found.select(metric="oracle_aurc:sele")[0].estimate == pytest.approx(exact, rel=1e-12)
    near = abstain.metrics.oracle_aurc(loss, sample_weight=weight)
    assert found.select(metric="oracle_aurc")[0].estimate == pytest.approx(near, rel=1e-3)
