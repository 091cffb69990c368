"""Closed forms of the points, against what can be had by hand and against resampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from abstain.inference import interval


@pytest.mark.parametrize("errors", [1, 7, 40])
def test_the_risk_of_all_has_the_limits_of_jeffreys(errors):
    """Nothing is cut off, so that the risk at coverage 1 is a proportion of n draws."""
    rng = np.random.default_rng(errors)
    n, level = 120, 0.9
    loss = rng.permutation(np.arange(n) < errors)
    found = interval("risk_at_coverage", loss, rng.random(n), coverage=1.0, level=level)
    assert found.estimate == pytest.approx(errors / n)
    ends = beta.ppf([0.05, 0.95], errors + 0.5, n - errors + 0.5)
    assert (found.low, found.high) == pytest.approx(tuple(ends), rel=1e-6)


def test_a_cut_where_risk_rises_steeply_is_as_uncertain_as_the_bootstrap_says():
    """Where the cut falls is random too: with half of the samples wrong there, that is most of the variance."""
    rng = np.random.default_rng(3)
    g = rng.random(4000)
    loss = rng.random(4000) < np.clip((0.6 - g) * 5, 0, 1)
    closed = interval("risk_at_coverage", loss, g, coverage=0.5)
    drawn = interval("risk_at_coverage", loss, g, coverage=0.5, method="bootstrap", replicates=600, rng=0)
    assert closed.high - closed.low == pytest.approx(drawn.high - drawn.low, rel=0.15)
    plain = beta.ppf([0.025, 0.975], closed.estimate * 2000, (1 - closed.estimate) * 2000)
    assert closed.high - closed.low > 1.4 * (plain[1] - plain[0])
