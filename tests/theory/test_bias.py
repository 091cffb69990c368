"""Finite-sample bias: theory against simulation at n = 8 ... 1024, and what leave-one-out gains and costs."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import abstain
from abstain import theory

ESTIMATORS = ("harmonic", "log", "loo", "sele", "2sele")
NAMED = theory.populations.NAMED


@pytest.mark.parametrize("n", [8, 16, 32, 64, 128, 256, 512, 1024])
@pytest.mark.parametrize("name", ["quadratic", "unrelated", "floor"])
def test_bias_of_every_estimator_against_simulation(name, n):
    population = NAMED[name]
    runs = 800_000 // n
    # losses by their chance instead of 0/1: the same mean, less noise
    beta = np.random.default_rng([n, 1]).random((runs, n))
    expected = population(beta)
    for estimator in ESTIMATORS:
        values = abstain.aurc(expected, beta, estimator=estimator)
        error = np.std(values) / np.sqrt(runs)
        predicted = theory.estimator_bias(n, population, estimator=estimator)
        assert abs(np.mean(values) - population.aurc - predicted) < 4.5 * error + 1e-12
        if estimator == "harmonic" and name == "quadratic" and n <= 64:
            assert abs(predicted) > 6 * error  # the check above could fail


def test_bias_with_zero_one_losses_at_eight():
    population = NAMED["quadratic"]
    loss, confidence = population.sample((400_000, 8), rng=2)
    for estimator in ESTIMATORS:
        values = abstain.aurc(loss, confidence, estimator=estimator)
        error = np.std(values) / np.sqrt(len(values))
        predicted = theory.estimator_bias(8, population, estimator=estimator)
        assert np.mean(values) - population.aurc == pytest.approx(predicted, abs=4.5 * error)


def test_leave_one_out_is_ten_times_less_biased_than_harmonic_at_eight():
    harmonic = theory.estimator_bias(8, NAMED["quadratic"])
    loo = theory.estimator_bias(8, NAMED["quadratic"], estimator="loo")
    assert abs(harmonic) > 10 * abs(loo)
    # and in simulation
    loss, confidence = NAMED["quadratic"].sample((1_000_000, 8), rng=9)
    truth = NAMED["quadratic"].aurc
    gap = {
        name: abs(np.mean(abstain.aurc(loss, confidence, estimator=name)) - truth)
        for name in ("harmonic", "loo")
    }
    assert gap["harmonic"] > 10 * gap["loo"]


@pytest.mark.parametrize("n", [8, 128])
def test_the_cost_of_leave_one_out_when_loss_ignores_confidence(n):
    """There harmonic is exactly unbiased, and leave-one-out is short by risk / n."""
    assert theory.estimator_bias(n, 0.2) == pytest.approx(0, abs=1e-14)
    assert theory.estimator_bias(n, 0.2, estimator="loo") == pytest.approx(-0.2 / n, rel=1e-9)


@pytest.mark.parametrize("n", [1, 8, 100, 100_000, 10_000_000])
@pytest.mark.parametrize(("c", "p"), [(0.6, 2), (0.3, 0.5), (0.5, 9)])
def test_integral_against_the_closed_form_for_powers(c, p, n):
    """int (1-b)^p sum_{k>=n} b^k/k db: all of it is 1/(p+1)^2, less the first terms B(k+1, p+1)/k."""
    with mpmath.workdps(40):
        if n <= 100_000:
            tail, term = mpmath.mpf(1) / (p + 1) ** 2, mpmath.mpf(1) / (p + 1)  # B(1, p+1)
            for k in range(1, n):
                term *= mpmath.mpf(k) / (k + p + 1)  # B(k+1, p+1)
                tail -= term / k
        else:
            edges = [0, 1e-6, 1e-3, 0.1, 1, 3, 10, 30, 60, 300]
            tail = mpmath.quad(lambda s: (s / n) ** p * _tail(s, n), edges) / n
    loo = theory.estimator_bias(n, theory.populations.power(c, p), estimator="loo")
    assert loo == pytest.approx(-c * float(tail), rel=1e-6)
    harmonic = theory.estimator_bias(n, theory.populations.power(c, p))
    assert harmonic == pytest.approx(c / (p + 1) / n - c * float(tail), rel=1e-6, abs=1e-18)


def _tail(s, n):
    """sum_{k>=n} (1 - s/n)^k / k, which is E1(s) up to O(1/n)."""
    return mpmath.e1(s) + mpmath.exp(-s) * (1 - s) / (2 * n)


def test_expected_bias_from_a_pilot_agrees_with_its_population():
    population = NAMED["floor"]
    loss, confidence = population.sample(400_000, rng=4)
    known, pilot = theory.expected_bias(32, population), theory.expected_bias(32, (loss, confidence))
    curve = theory.expected_bias(32, abstain.risk_coverage_curve(loss, confidence))
    function = theory.expected_bias(32, lambda b: 0.05 + 0.5 * (1 - b) ** 3)
    for other, margin in ((pilot, 0.04), (curve, 0.04), (function, 1e-9)):
        assert other.aurc == pytest.approx(known.aurc, rel=margin)
        assert other.risk == pytest.approx(known.risk, rel=margin)
        assert other.standard_deviation == pytest.approx(known.standard_deviation, rel=margin)
        assert other.best == known.best
        for estimator in ("harmonic", "log"):
            assert other.bias[estimator] == pytest.approx(known.bias[estimator], abs=margin * known.risk / 32)
    assert "pilot of 400000" in repr(pilot)


def test_expected_bias_keeps_the_risk_of_a_small_tied_pilot():
    loss, confidence = [0, 1, 0, 0, 1, 1], [0.9, 0.9, 0.9, 0.5, 0.5, 0.1]
    answer = theory.expected_bias(4, (loss, confidence))
    assert answer.risk == pytest.approx(0.5, abs=1e-12)
    # the steps' AURC by hand: int -ln(q) rho(q) dq with rho = 1/3, 1/2, 1 on (0, 1/2), (1/2, 5/6), (5/6, 1)
    primitive = lambda q: q - q * np.log(q)  # noqa: E731
    by_hand = primitive(1 / 2) / 3 + (primitive(5 / 6) - primitive(1 / 2)) / 2 + (1 - primitive(5 / 6))
    assert answer.aurc == pytest.approx(by_hand, abs=1e-12)


def test_frame_and_advice():
    answer = theory.expected_bias(8, "quadratic")
    table = answer.frame()
    assert list(table["estimator"]) == list(ESTIMATORS)
    assert "least biased" in answer.advice
    assert "any choice" in theory.expected_bias(100_000, "quadratic").advice


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        ("nonsense", "unknown population"),
        (lambda b: 2 + b, r"\[0, 1\]"),
        (object(), "must be a function"),
        (([0.0, 1.0], [0.1]), "one length"),
        (([0.0, np.nan], [0.1, 0.2]), "finite"),
        (1.5, "at most 1"),
    ],
)
def test_bad_profiles_are_refused(curve, words):
    with pytest.raises(abstain.errors.InputError, match=words):
        theory.expected_bias(8, curve)


def test_bad_arguments_are_refused():
    with pytest.raises(abstain.errors.InputError, match="infinite"):
        theory.weight_bias(1.0, 8)
    with pytest.raises(abstain.errors.InputError, match="whole number"):
        theory.weight_bias(0.5, 0)
    with pytest.raises(abstain.errors.InputError, match="rank"):
        theory.weight_mse(9, 8)
    with pytest.raises(abstain.errors.InputError, match="estimator"):
        theory.weight_mse(1, 8, estimator="none")
