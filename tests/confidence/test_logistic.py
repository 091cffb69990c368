from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from abstain.confidence.logistic import fit_logistic


def problem(seed=0, n=120, columns=4):
    rng = np.random.default_rng(seed)
    features = np.column_stack([np.ones(n), rng.normal(size=(n, columns - 1))])
    target = (features @ rng.normal(size=columns) + rng.logistic(size=n) > 0).astype(float)
    return features, target, rng.uniform(0.5, 2, n), rng.uniform(0.1, 3, columns)


def test_it_finds_the_minimum_that_a_general_optimiser_finds():
    features, target, weight, penalty = problem()

    def objective(b):
        linear = features @ b
        return np.sum(weight * (np.log1p(np.exp(linear)) - target * linear)) + 0.5 * np.sum(penalty * b**2)

    expected = minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(fit_logistic(features, target, weight, penalty), expected, atol=1e-4)


def test_the_start_does_not_matter_and_shares_count_as_repeated_rows():
    features, target, weight, penalty = problem(1)
    fitted = fit_logistic(features, target, weight, penalty)
    np.testing.assert_allclose(
        fit_logistic(features, target, weight, penalty, start=np.full(4, 3.0)), fitted, atol=1e-4
    )
    both = np.concatenate([features, features])
    outcomes = np.concatenate([np.ones(120), np.zeros(120)])
    weights = np.concatenate([0.3 * weight, 0.7 * weight])
    shares = fit_logistic(features, np.full(120, 0.3), weight, penalty)
    np.testing.assert_allclose(fit_logistic(both, outcomes, weights, penalty), shares, atol=1e-5)


def test_separated_outcomes_have_a_finite_solution():
    features = np.column_stack([np.ones(40), np.linspace(-1000, 1000, 40)])
    fitted = fit_logistic(features, (features[:, 1] > 0).astype(float), np.ones(40), np.full(2, 1e-3))
    assert np.isfinite(fitted).all()
    assert fitted[1] == pytest.approx(abs(fitted[1]))
