"""Populations with known values, the deviation they imply, and the sample sizes planned from it."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain import theory
from abstain.theory.populations import as_profile, asymptotic_deviation

NAMED = theory.populations.NAMED


@pytest.mark.parametrize("name", list(NAMED))
def test_populations_have_the_values_they_state(name):
    population = NAMED[name]
    loss, confidence = population.sample(1_000_000, rng=21)
    curve = as_profile("test", population)
    for metric, truth in (("aurc", population.aurc), ("augrc", population.augrc), ("risk", population.risk)):
        value = abstain.metrics.by_name(metric)(loss, confidence)
        assert value == pytest.approx(truth, abs=5 * asymptotic_deviation(curve, metric) / 1000)
    assert abstain.metrics.oracle_aurc(loss) == pytest.approx(population.oracle_aurc, rel=0.02)


def test_rounded_confidence_has_its_own_aurc():
    population = NAMED["quadratic"]
    loss, confidence = population.sample(1_000_000, rng=3, levels=20)
    assert len(np.unique(confidence)) == 20
    assert abstain.aurc(loss, confidence) == pytest.approx(population.aurc_at_levels(20), abs=0.0012)
    assert population.aurc_at_levels(20) > population.aurc + 0.003
    assert population.aurc_at_levels(10**6) == pytest.approx(population.aurc, rel=1e-5)


def test_sampling_is_seeded_and_batched():
    a, b = NAMED["floor"].sample((3, 5), rng=1), NAMED["floor"].sample((3, 5), rng=1)
    assert a[0].shape == (3, 5)
    assert np.array_equal(a[0], b[0])
    assert np.array_equal(a[1], b[1])
    assert not np.array_equal(a[1], NAMED["floor"].sample((3, 5), rng=2)[1])


@pytest.mark.parametrize("name", list(NAMED))
@pytest.mark.parametrize("metric", ["aurc", "augrc", "risk"])
def test_deviation_against_the_spread_of_simulated_estimates(name, metric):
    population, n, runs = NAMED[name], 2000, 1500
    loss, confidence = population.sample((runs, n), rng=31)
    spread = np.std(abstain.metrics.by_name(metric)(loss, confidence)) * np.sqrt(n)
    sigma = asymptotic_deviation(as_profile("test", population), metric)
    assert spread == pytest.approx(sigma, rel=5 / np.sqrt(2 * runs))
    # a pilot's own influence gives the same number by another road
    pilot = asymptotic_deviation(as_profile("test", population.sample(300_000, rng=7)), metric)
    assert pilot == pytest.approx(sigma, rel=0.03)


def test_deviation_of_a_power_by_hand():
    """p = 1: const = c q/2 - c (1 - q)/2 up to its mean, slope -ln q; the mean square done term by term."""
    c = 0.5
    q, w = np.polynomial.legendre.leggauss(120)
    q, w = ((1 + q) / 2) ** 4, w / 2 * 4 * ((1 + q) / 2) ** 3
    const, slope, rho = c * q / 2 - c * (1 - q) / 2, -np.log(q), c * q
    mean = np.sum(w * (const + slope * rho))
    variance = np.sum(w * (rho * (const - mean + slope) ** 2 + (1 - rho) * (const - mean) ** 2))
    sigma = asymptotic_deviation(as_profile("test", theory.populations.power(c, 1)), "aurc")
    assert sigma == pytest.approx(np.sqrt(variance), rel=1e-8)


@pytest.mark.parametrize("method", ["log", "normal"])
@pytest.mark.parametrize("metric", ["aurc", "augrc"])
def test_the_planned_size_gives_the_asked_width(method, metric):
    """The interval that users get, on 60 fresh samples of the planned size."""
    population = NAMED["quadratic"]
    plan = theory.plan_sample_size(width=0.02, curve=population, method=method, metric=metric)
    rng = np.random.default_rng(5)
    widths = []
    for _ in range(60):
        found = abstain.inference.interval(metric, *population.sample(plan.n, rng=rng), method=method)
        widths.append(found.high - found.low)
    assert np.mean(widths) == pytest.approx(0.02, rel=0.05)
    # twice as narrow needs about four times as many
    finer = theory.plan_sample_size(width=0.01, curve=population, method=method, metric=metric)
    assert finer.n == pytest.approx(4 * plan.n, rel=0.02)


def test_relative_width_levels_and_pilots():
    population = NAMED["quadratic"]
    absolute = theory.plan_sample_size(width=0.1 * population.aurc, curve=population)
    assert theory.plan_sample_size(width=0.1, curve=population, relative=True).n == absolute.n
    assert (
        theory.plan_sample_size(width=0.1, curve=population, relative=True, level=0.99).n > 1.6 * absolute.n
    )
    pilot = theory.plan_sample_size(width=0.1, curve=population.sample(100_000, rng=1), relative=True)
    assert pilot.n == pytest.approx(absolute.n, rel=0.05)
    assert "Only" in repr(theory.plan_sample_size(width=0.05, curve=0.001))
    assert "Assumes independent samples" in repr(absolute)


def test_no_plan_from_no_loss_or_no_width():
    with pytest.raises(abstain.errors.InfeasibleError, match="no loss"):
        theory.plan_sample_size(width=0.01, curve=([0.0, 0.0], [0.1, 0.2]))
    for width in (0, -1, np.inf):
        with pytest.raises(abstain.errors.InputError, match="width"):
            theory.plan_sample_size(width=width, curve=0.1)


def test_samples_to_tell_apart_has_the_stated_power():
    """Two means apart by d with unit spread: at the planned n a z-test finds it about 80% of the time."""
    n = theory.samples_to_tell_apart(0.1, 1 / np.sqrt(100), 100)
    rng = np.random.default_rng(0)
    z = 0.1 * np.sqrt(n) + rng.standard_normal(20_000)
    assert np.mean(np.abs(z) > 1.959964) == pytest.approx(0.8, abs=0.012)
    with pytest.raises(abstain.errors.InfeasibleError):
        theory.samples_to_tell_apart(0.0, 1.0, 10)


@pytest.mark.parametrize("metric", ["aurc", "augrc", "risk"])
def test_a_tied_pilot_is_planned_with_its_own_value_and_spread(metric):
    """All tied: every metric is the risk, its deviation that of a coin."""
    loss = np.arange(200) % 5 == 0
    plan = theory.plan_sample_size(width=0.1, curve=(loss, np.zeros(200)), metric=metric, method="normal")
    assert plan.value == pytest.approx(0.2)
    assert plan.deviation == pytest.approx(0.4)
    coarse = np.round(np.random.default_rng(0).random(200), 1)
    plan = theory.plan_sample_size(width=0.1, curve=(loss, coarse), metric=metric)
    assert plan.value == pytest.approx(abstain.metrics.by_name(metric)(loss, coarse))
