"""Rows and the block table: sums by distinct confidence."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core.area_estimators import ESTIMATORS, area
from abstain.core.part_sums import table_from_blocks, tables_from_samples
from abstain.core.rows import Blocks
from abstain.errors import InputError
from tests.metrics.test_sample_influence import estimate_and_influences, estimate_of


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_blocks_merge_by_addition_in_any_order(estimator):
    rng = np.random.default_rng(5)
    confidence, loss = rng.integers(0, 30, 500) / 30, rng.random(500)
    parts = np.array_split(rng.permutation(500), 7)
    tables = [Blocks.from_samples(loss[p], confidence[p]) for p in parts]
    whole = Blocks.from_samples(loss, confidence)
    merged = tables[3].merge(tables[6].merge(tables[0], tables[1]), tables[2], tables[5].merge(tables[4]))
    assert np.array_equal(merged.confidence, whole.confidence)
    for column in ("mass", "loss_sum", "w2", "w2l", "w2ll", "count"):
        assert getattr(merged, column) == pytest.approx(getattr(whole, column), rel=1e-12)
    value = abstain.aurc(loss, confidence, estimator=estimator)
    assert area(merged.rows(), estimator) == pytest.approx(value, rel=1e-12)


def test_blocks_know_a_zero_one_loss_by_its_values_not_by_its_moments():
    same, confidence = np.array([0.5, 0.5, 0.5, 1.5]), np.zeros(4)
    real, errors = (
        Blocks.from_samples(same, confidence),
        Blocks.from_samples(np.array([1.0, 1, 1, 0]), confidence),
    )
    assert np.array_equal(real.w2l, real.w2ll)
    assert (real.zero_one, errors.zero_one, errors.merge(errors).zero_one) == (False, True, True)
    assert not errors.merge(real).zero_one
    with pytest.raises(InputError, match="needs the samples themselves"):
        abstain.inference.interval_from_blocks("e_aurc", real)


@pytest.mark.parametrize("n", [3, 50, 20_000])
@pytest.mark.parametrize("levels", [None, 7])
@pytest.mark.parametrize("dtype", [bool, np.float32, np.float64])
def test_sweep_rows_and_samples_agree(n, levels, dtype):
    rng = np.random.default_rng(n)
    g = rng.random(n) if levels is None else rng.integers(0, levels, n) / levels
    l = rng.random(n) < 0.3 if dtype is bool else rng.exponential(1.0, n).astype(dtype)
    l[0] = 1
    estimate, values = estimate_and_influences("aurc", l, g)
    found = estimate_of("aurc", tables_from_samples(l, g), n, dtype is bool)
    assert found.estimate == pytest.approx(estimate, rel=1e-12)
    assert found.variance == pytest.approx(values @ values / n**2, rel=1e-9)
    assert found.variance_of_variance == pytest.approx(
        np.sum((values / n) ** 4) - found.variance**2 / n, rel=1e-7, abs=1e-12
    )
    assert found.less_biased_estimate == pytest.approx(abstain.aurc(l, g, estimator="loo"), rel=1e-12)
    up = np.sort(g)
    per = np.cumsum(1 / (n - np.searchsorted(up, up)))  # each sample at or below counts 1 / (accepted there)
    alpha = per[np.searchsorted(up, g, "right") - 1]
    assert found.contribution_sum == pytest.approx(np.sum(alpha * l) / n, rel=1e-10)
    assert found.squared_contribution_sum == pytest.approx(np.sum((alpha * l) ** 2) / n**2, rel=1e-10)


def test_weighted_rows_agree_with_samples_and_merge():
    rng = np.random.default_rng(4)
    n = 400
    g, l, w = rng.integers(0, 30, n) / 30, rng.exponential(1, n), rng.random(n) + 0.2
    for metric in ("aurc", "augrc", "risk"):
        _, values = estimate_and_influences(metric, l, g, w)
        whole = Blocks.from_samples(l[:150], g[:150], w[:150]).merge(
            Blocks.from_samples(l[150:], g[150:], w[150:])
        )
        found = estimate_of(metric, [table_from_blocks(whole)], n, False, False)
        v = w * values / w.sum()
        assert found.variance == pytest.approx(np.sum(v**2), rel=1e-10)
        assert found.variance_of_variance == pytest.approx(np.sum(v**4) - found.variance**2 / n, rel=1e-8)


def test_batched_rows_count_beyond_a_byte():
    """Bytes hold the sorted errors; counts must not."""
    rng = np.random.default_rng(0)
    g, l = rng.random((2, 700)), rng.random((2, 700)) < 0.5
    both = abstain.risk_at_coverage(l, g, coverage=0.9)
    assert both.tolist() == [abstain.risk_at_coverage(l[i], g[i], coverage=0.9) for i in range(2)]
