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


@pytest.mark.parametrize("answered", [3, 80, 117])
def test_a_coverage_that_only_refusals_limit_has_the_limits_of_the_answered_share(answered):
    n, level = 120, 0.9
    rng = np.random.default_rng(answered)
    refused = rng.permutation(np.arange(n) >= answered)
    coverage = interval(
        "coverage_at_risk", np.zeros(n), rng.random(n), risk=0.999, abstained=refused, level=level
    )
    assert coverage.estimate == pytest.approx(answered / n)
    ends = beta.ppf([0.05, 0.95], answered + 0.5, n - answered + 0.5)
    assert (coverage.low, coverage.high) == pytest.approx(tuple(ends), rel=1e-6)
    # every patient seen four times: a quarter of the draws
    repeated = interval(
        "coverage_at_risk",
        np.zeros(4 * n),
        np.tile(rng.random(n), 4),
        risk=0.999,
        abstained=np.tile(refused, 4),
        clusters=np.tile(np.arange(n), 4),
        level=level,
    )
    assert (repeated.low, repeated.high) == pytest.approx(tuple(ends), rel=0.02)


# risk of an error at confidence g, the target, and the coverage of the answered there: by hand
FLAT = (lambda g: 0.05 + 0 * g, 0.2, 1.0)
SLOPE = (lambda g: 0.4 * (1 - g), 0.1, 0.5)  # risk of the top share c: 0.2 c
CLIFF = (lambda g: np.where(g >= 0.5, 0.02, 0.5), 0.1, 0.6)
TIED_SLOPE = (
    lambda g: 0.4 * (1 - g),
    0.1,
    0.2,
)  # five levels 0, .2, .. .8: means .08 and .12 of the top one and two
TIED_CLIFF = (lambda g: np.where(g >= 0.5, 0.02, 0.5), 0.1, 0.4)


def share_that_holds_the_coverage(profile, levels, n, refused, runs):
    risk_of, target, truth = profile
    rng = np.random.default_rng(n)
    held = 0
    for _ in range(runs):
        confidence = rng.random(n)
        if levels:
            confidence = np.floor(confidence * levels) / levels
        loss = rng.random(n) < risk_of(confidence)
        abstained = rng.random(n) < refused if refused else None
        coverage = interval("coverage_at_risk", loss, confidence, risk=target, abstained=abstained)
        held += coverage.low <= truth * (1 - refused) <= coverage.high
    return held / runs


CELLS = [(FLAT, 0), (FLAT, 5), (SLOPE, 0), (TIED_SLOPE, 5), (CLIFF, 0), (TIED_CLIFF, 5)]
NAMES = ["flat", "tied flat", "slope", "tied slope", "cliff", "tied cliff"]


@pytest.mark.parametrize(("profile", "levels"), CELLS, ids=NAMES)
def test_coverage_at_risk_with_refusals_holds_the_truth_small(profile, levels):
    assert share_that_holds_the_coverage(profile, levels, 400, 0.2, 150) >= 0.93 - 3 * 0.021


@pytest.mark.slow
@pytest.mark.parametrize("refused", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("n", [100, 400, 2000])
@pytest.mark.parametrize(("profile", "levels"), CELLS, ids=NAMES)
def test_coverage_at_risk_with_refusals_holds_the_truth(profile, levels, n, refused):
    held = share_that_holds_the_coverage(profile, levels, n, refused, 2000)
    print(f"n {n} levels {levels} refused {refused}: {held:.1%}")
    assert held >= 0.93 - 3 * 0.0057
