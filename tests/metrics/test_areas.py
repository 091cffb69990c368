"""Areas and their oracles against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abstain
from tests.core import oracles


@given(st.lists(st.floats(0, 10), min_size=1, max_size=15))
@settings(max_examples=80, deadline=None)
def test_oracle_is_the_mean_of_prefix_means_and_the_least_of_all_orders(loss):
    best = abstain.metrics.oracle_aurc(np.asarray(loss))
    assert best == pytest.approx(oracles.oracle_aurc(loss), rel=1e-12, abs=1e-15)
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert abstain.aurc(np.asarray(loss), rng.permutation(len(loss))) >= best - 1e-12


@pytest.mark.parametrize("n", [5, 50])
def test_oracle_of_zero_one_loss_has_two_forms(n):
    loss = np.arange(n) < n // 3
    exact = oracles.oracle_aurc(loss.astype(float).tolist())
    assert abstain.metrics.oracle_aurc(loss) == pytest.approx(exact, rel=1e-12)
    assert abstain.metrics.oracle_aurc(loss * 1.0, sample_weight=np.ones(n)) == pytest.approx(
        exact, rel=1e-12
    )


def test_asymptotic_oracle_is_the_limit_and_refuses_other_losses():
    n = 200_000
    loss = np.arange(n) < n // 5
    limit = 0.2 + 0.8 * math.log(0.8)
    assert abstain.metrics.oracle_aurc(loss, oracle="asymptotic") == pytest.approx(limit, rel=1e-12)
    assert abstain.metrics.oracle_aurc(loss) == pytest.approx(limit, rel=1e-4)
    with pytest.raises(abstain.errors.InputError, match="0/1 loss only"):
        abstain.e_aurc([0.5, 0.2], [1, 2], oracle="asymptotic")
    with pytest.raises(abstain.errors.InputError, match="holds for 0/1 loss only"):
        abstain.naurc([5, 6, 5, 6], [0.9, 0.8, 0.7, 0.6], oracle="asymptotic")


def test_excess_and_normalised_from_their_parts():
    rng = np.random.default_rng(1)
    for loss in (rng.random(60) < 0.3, rng.exponential(size=60)):
        g = rng.integers(0, 20, 60).astype(float)
        a = oracles.pairwise_aurc(loss.tolist(), g.tolist())
        best, risk = oracles.oracle_aurc(loss.tolist()), float(np.mean(loss))
        assert abstain.e_aurc(loss, g) == pytest.approx(a - best)
        assert abstain.naurc(loss, g) == pytest.approx((a - best) / (risk - best))


def test_augrc_is_sele_and_its_reference_number():
    loss, g = [0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]
    assert abstain.augrc(loss, g) == pytest.approx(0.2)
    assert abstain.augrc(loss, g) == abstain.aurc(loss, g, estimator="sele")
    assert abstain.augrc(loss, g) == pytest.approx(np.mean([p[3] for p in oracles.curve(loss, g)]))
