"""Intervals and tests for every look: the formula by hand, its inverse, and how often equal models are ever decided."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

import abstain
from abstain.errors import InputError
from abstain.inference import interval, paired_difference
from abstain.inference.anytime import AnytimeRule
from tests.inference.test_coverage import SQUARE, holds, sim

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "anytime.py"
_spec = importlib.util.spec_from_file_location("anytime_by_simulation", SCRIPT)
looks = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = looks
_spec.loader.exec_module(looks)


@pytest.fixture(scope="module")
def samples():
    """Two models on 3,000 samples, the second of them worse."""
    return sim.pair(SQUARE, sim.WORSE, 3000, np.random.default_rng(8))


def width_by_hand(n, planned, alpha, plan_alpha):
    """How many standard errors the confidence sequence is wide on either side, written out from the paper."""
    rho_squared = (-2 * math.log(plan_alpha) + math.log(-2 * math.log(plan_alpha)) + 1) / planned
    t = n * rho_squared
    return math.sqrt(2 * (t + 1) / (n * t) * math.log(math.sqrt(t + 1) / alpha)) * math.sqrt(n)


def p_value_by_hand(p_value, n, planned=3000):
    """The smallest alpha at which the confidence sequence planned at 5% excludes 0, found by trying."""
    quantile = NormalDist().inv_cdf(1 - p_value / 2)
    low, high = 1e-12, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if width_by_hand(n, planned, middle, 0.05) < quantile:
            high = middle
        else:
            low = middle
    return high


@pytest.mark.parametrize("n", [400, 3000, 50_000])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_level_by_hand_and_its_inverse(n, alpha):
    rule = AnytimeRule(planned=3000, level=0.95)
    level = float(rule.level_of_one_look(1 - alpha, n))
    expected = width_by_hand(n, 3000, alpha, 0.05)
    assert NormalDist().inv_cdf((1 + level) / 2) == pytest.approx(expected, rel=1e-6)
    assert float(rule.p_value(1 - level, n)) == pytest.approx(alpha, rel=1e-6)
    assert float(rule.p_value(1.0, n)) == 1.0


def test_no_other_plan_is_narrower_at_the_planned_size():
    widths = {p: AnytimeRule(p, 0.95).level_of_one_look(0.95, 3000) for p in (300, 1500, 3000, 6000, 30_000)}
    assert min(widths, key=widths.get) == 3000


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("aurc", {}),
        ("auroc", {}),
        ("risk_at_coverage", {"coverage": 0.8}),
        ("coverage_at_risk", {"risk": 0.1}),
    ],
)
def test_interval_is_that_of_one_look_at_the_level_by_hand(samples, metric, options):
    loss, confidence, *_ = samples
    at_any_time = interval(metric, loss, confidence, anytime=True, planned=2000, **options)
    quantile = width_by_hand(3000, 2000, 0.05, 0.05)
    once = interval(metric, loss, confidence, level=2 * NormalDist().cdf(quantile) - 1, **options)
    assert (at_any_time.low, at_any_time.high) == pytest.approx((once.low, once.high), rel=1e-8)
    assert at_any_time.level == 0.95
    assert "at any time, planned for 2,000" in repr(at_any_time)


def test_no_errors_have_a_bound_at_every_look():
    high = [interval("risk", np.zeros(n), np.arange(n), anytime=True).high for n in (50, 500)]
    assert high[0] > high[1] > interval("risk", np.zeros(500), np.arange(500)).high


def test_difference_and_p_value_agree_and_compare_is_the_same(samples):
    for n in (300, 1000, 3000):
        first = [column[:n] for column in samples]
        difference = paired_difference(*first, anytime=True, planned=3000)
        once = paired_difference(*first)
        assert difference.significant == (not difference.low <= 0 <= difference.high)
        assert difference.p_value == pytest.approx(p_value_by_hand(once.p_value, n), rel=1e-6)
        assert difference.high - difference.low > 1.5 * (once.high - once.low)
        comparison = abstain.compare({"a": first[:2], "b": first[2:]}, anytime=True, planned=3000)
        pair = comparison.pair("a", "b")
        assert (pair.low, pair.high, pair.p_value) == (difference.low, difference.high, difference.p_value)
        alone = interval("aurc", *first[:2], anytime=True, planned=3000)
        assert (comparison["a"].low, comparison["a"].high) == pytest.approx((alone.low, alone.high))
    assert "at any time, planned for 3,000" in repr(comparison)
    assert type(comparison).from_json(comparison.to_json()) == comparison


def test_families_keep_interval_and_corrected_p_value_together(samples):
    rng = np.random.default_rng(1)
    models = {"a": samples[:2], "b": samples[2:], "c": (samples[0], rng.random(3000))}
    comparison = abstain.compare(models, anytime=True, planned=3000)
    assert {pair.different for pair in comparison.pairs} == {True}
    for pair in comparison.pairs:
        assert pair.different == (not pair.low <= 0 <= pair.high)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"planned": 100}, "goes with `anytime=True`"),
        ({"anytime": True, "planned": 0}, "`planned` must be a whole number"),
        ({"anytime": True, "level": 0.4}, "at least 0.5"),
        ({"anytime": True, "method": "bootstrap"}, "without resampling"),
        ({"anytime": True, "groups": np.arange(3000) % 2}, "once for each group"),
        (
            {"anytime": True, "clusters": [np.arange(3000) % 50, np.arange(3000) // 50]},
            "one kind of clusters",
        ),
    ],
)
def test_what_is_refused_is_named(samples, options, words):
    with pytest.raises(InputError, match=words):
        interval("aurc", *samples[:2], **options)


def test_the_first_looks_have_limits_within_the_range(samples):
    loss, confidence, other_loss, other_confidence = samples
    for n in (5, 20, 60):
        early = paired_difference(
            loss[:n], confidence[:n], other_loss[:n], other_confidence[:n], anytime=True, planned=3000
        )
        assert -1 <= early.low <= early.difference <= early.high <= 1
        assert early.p_value == 1


def test_different_test_sets_are_refused(samples):
    with pytest.raises(InputError, match="for the same samples only"):
        abstain.compare({"a": samples[:2], "b": samples[2:]}, paired=False, anytime=True)


def test_equal_models_small():
    decided, decided_by_one_look = looks.share_decided("plain", 30, 2)
    assert decided <= 0.05
    assert decided_by_one_look >= 0.3  # one of three runs: the simulation can tell a bad rule
    assert looks.width_ratio("clusters", 3, 1) < 1.7


@pytest.mark.slow
@pytest.mark.parametrize("population", looks.POPULATIONS)
def test_equal_models_are_decided_in_one_of_twenty_runs_at_most(population):
    decided, decided_by_one_look = looks.share_decided(population, 2000, 2026)
    assert decided <= 0.05
    assert decided_by_one_look > 3 * 0.05  # looking often with intervals for one look decides far too often
    assert looks.width_ratio(population, 20, 2026) <= 1.7


@pytest.mark.slow
def test_the_interval_of_one_model_ever_misses_in_one_of_twenty_runs_at_most():
    assert holds(looks.interval_ever_wrong(SQUARE, 500, 2026), 500, most=0.05)


@pytest.mark.slow
def test_true_differences_are_found_with_about_the_samples_of_a_fixed_design():
    other = looks.BETTER[1]
    sizes = looks.stopping_sizes(other, 60, 2026)
    assert np.median(sizes) < looks.fixed_size(other, 2026, 0.95)
    assert np.isfinite(sizes).all()
