"""The paper's mathematics, one test each. The oracles are the paper's own formulas, summed or integrated
naively.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb

import mpmath
import numpy as np
import pytest

import abstain
from abstain import theory

ESTIMATORS = ("harmonic", "log", "loo", "sele", "2sele")


def rank_chances(beta: Fraction, n: int) -> list[Fraction]:
    """P(rank = i | beta) = C(n-1, i-1) beta^(i-1) (1-beta)^(n-i), i = 1 ... n."""
    return [comb(n - 1, i - 1) * beta ** (i - 1) * (1 - beta) ** (n - i) for i in range(1, n + 1)]


def harmonic_number(n: int) -> Fraction:
    return sum((Fraction(1, k) for k in range(1, n + 1)), Fraction(0))


BETAS = [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(5, 6), Fraction(99, 100)]
SIZES = [1, 2, 3, 8, 17, 33, 64]


# Proposition 1 ------------------------------------------------------------------------------------


def pairwise_weight(confidence: np.ndarray, i: int) -> float:
    """alpha of sample i by the definition: mean over thresholds of 1[g_i >= t] / P(g >= t)."""
    total = 0.0
    for t in confidence:
        total += (confidence[i] >= t) / np.mean(confidence >= t)
    return total / len(confidence)


def test_proposition_1_pairwise_definition_tends_to_minus_log_of_one_minus_G():
    gaps = []
    for size in (100, 1000, 10_000):
        # an evenly spaced population of this size: the sample at beta = 1/2, 3/4 and 9/10 by the definition
        above = {b: round((1 - b) * size) for b in (0.5, 0.75, 0.9)}
        # the pairwise sum over this finite population, collected by threshold
        exact = {b: sum(1 / k for k in range(above[b] + 1, size + 1)) for b in above}
        if size == 100:  # the same by the definition, over all pairs
            grid = np.arange(1, size + 1) / size
            for b in above:
                assert pairwise_weight(grid, size - above[b] - 1) == pytest.approx(exact[b], rel=1e-12)
        gaps.append(max(abs(exact[b] - theory.population_weight(b)) for b in above))
    assert gaps[0] < 0.1
    for coarse, fine in pairwise(gaps):
        assert fine == pytest.approx(coarse / 10, rel=0.1)  # the error falls as 1/n


def test_proposition_1_is_exact_in_a_finite_population_with_many_samples():
    """A population of 9 values: many samples estimate the definition's own alpha."""
    rng = np.random.default_rng(5)
    values = rng.permutation(9) / 9.0
    risks = rng.random(9)
    alpha = np.array([pairwise_weight(values, i) for i in range(9)])
    assert np.mean(alpha) == pytest.approx(1, abs=1e-12)
    n, runs = 20_000, 100
    pick = rng.integers(0, 9, size=(runs, n))
    estimates = abstain.aurc((rng.random((runs, n)) < risks[pick]).astype(float), values[pick])
    error = np.std(estimates) / np.sqrt(runs)
    assert np.mean(estimates) == pytest.approx(np.mean(alpha * risks), abs=5 * error)
    assert error < 5e-4


# mean weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 64, 1000])
def test_mean_weights(n):
    mean = {name: float(np.mean(abstain.metrics.rank_weights(n, estimator=name))) for name in ESTIMATORS}
    assert mean["harmonic"] == pytest.approx(1, abs=1e-12)
    assert mean["loo"] == pytest.approx((n - 1) / n, abs=1e-12)
    assert mean["sele"] == pytest.approx((n + 1) / (2 * n), abs=1e-12)
    assert mean["2sele"] == pytest.approx((n + 1) / n, abs=1e-12)
    assert mean["log"] < 1
    # the same means as integrals over beta of the expected weight
    x, w = np.polynomial.legendre.leggauss(200)
    for name in ESTIMATORS:
        integral = np.sum(w / 2 * theory.expected_weight((1 + x) / 2, n, estimator=name))
        assert integral == pytest.approx(mean[name], abs=2e-5 if name == "log" else 1e-10)


def test_mean_log_weight_tends_to_one():
    means = [np.mean(abstain.metrics.rank_weights(n, estimator="log")) for n in (10, 100, 1000, 10_000)]
    assert all(a < b < 1 for a, b in pairwise(means))
    assert 1 - means[-1] < 1e-3


# the three bias propositions ----------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("beta", BETAS)
def test_harmonic_bias_the_binomial_sum_equals_the_series_in_fractions(beta, n):
    """H_n - sum H_{n-i} P(i) == 1/n + sum_{k<n} beta^k/k exactly; then the function against it."""
    binomial = harmonic_number(n) - sum(
        harmonic_number(n - i) * p for i, p in enumerate(rank_chances(beta, n), start=1)
    )
    series = Fraction(1, n) + sum((beta**k / k for k in range(1, n)), Fraction(0))
    assert binomial == series
    with mpmath.workdps(40):
        truth = mpmath.mpf(binomial.numerator) / binomial.denominator + mpmath.log1p(
            -mpmath.mpf(beta.numerator) / beta.denominator
        )
        assert theory.weight_bias(float(beta), n) == pytest.approx(float(truth), rel=1e-11, abs=1e-15)
        loo = truth - mpmath.mpf(1) / n
        assert theory.weight_bias(float(beta), n, estimator="loo") == pytest.approx(
            float(loo), rel=1e-11, abs=1e-15
        )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("beta", BETAS)
def test_log_bias_equals_the_binomial_sum(beta, n):
    with mpmath.workdps(40):
        b = mpmath.mpf(beta.numerator) / beta.denominator
        total = mpmath.log(1 - b)
        for i, p in enumerate(rank_chances(beta, n), start=1):
            total -= mpmath.log(1 - mpmath.mpf(i) / (n + 1)) * mpmath.mpf(p.numerator) / p.denominator
        assert theory.weight_bias(float(beta), n, estimator="log") == pytest.approx(
            float(total), rel=1e-10, abs=1e-14
        )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("beta", BETAS)
def test_sele_bias_equals_the_binomial_sum_in_fractions(beta, n):
    binomial = sum((Fraction(i, n) * p for i, p in enumerate(rank_chances(beta, n), start=1)), Fraction(0))
    assert binomial == beta + (1 - beta) / n
    alpha = -np.log1p(-float(beta))
    assert theory.weight_bias(float(beta), n, estimator="sele") == pytest.approx(
        float(binomial) - alpha, abs=1e-14
    )
    assert theory.weight_bias(float(beta), n, estimator="2sele") == pytest.approx(
        2 * float(binomial) - alpha, abs=1e-14
    )


def test_the_bias_is_stable_at_ten_million():
    """Independent forms: the tail summed term by term in 30 digits, the log gap by Poisson weights."""
    n = 10_000_000
    for above in (1e-5, 1e-7, 3e-9):
        with mpmath.workdps(30):
            # sum_{k>=n} b^k/k = int_0^b t^(n-1)/(1-t) dt, in s = n (1-t)
            def integrand(s):
                return (1 - s / n) ** (n - 1) / s

            low = mpmath.mpf(above) * n
            edges = [low * mpmath.mpf(2) ** k for k in range(0, 40) if low * 2**k < 200] + [200]
            tail = mpmath.quad(integrand, edges)
        assert theory.weight_bias(1 - above, n, estimator="loo") == pytest.approx(-float(tail), rel=2e-8)
        # 1 - above itself is rounded to 1e-16, which costs above * n * 1e-16 / above; hence the tolerance
        k = np.arange(0, 2000)
        lam = (n - 1) * above
        log_chance = -lam + k * np.log(lam) - np.array([float(mpmath.loggamma(int(j) + 1)) for j in k])
        mean_log = np.sum(np.exp(log_chance) * np.log(k + 1))
        truth = np.log(n + 1) - mean_log + np.log(above)
        assert theory.weight_bias(1 - above, n, estimator="log") == pytest.approx(truth, abs=3e-7)


# MSE ----------------------------------------------------------------------------------------------


def beta_integral(rank: int, n: int, function) -> float:
    """Mean of function(beta) under Beta(rank, n+1-rank), by quadrature."""
    with mpmath.workdps(30):
        scale = mpmath.beta(rank, n + 1 - rank)
        inside = lambda b: function(b) * b ** (rank - 1) * (1 - b) ** (n - rank) / scale  # noqa: E731
        middle = mpmath.mpf(rank) / (n + 1)
        return float(mpmath.quad(inside, [0, middle / 2, middle, (1 + middle) / 2, 1]))


@pytest.mark.parametrize(("rank", "n"), [(1, 1), (1, 5), (3, 5), (5, 5), (1, 64), (40, 64), (64, 64)])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_mse_propositions_by_integral(rank, n, estimator):
    weight = float(abstain.metrics.rank_weights(n, estimator=estimator)[rank - 1])
    truth = beta_integral(rank, n, lambda b: (weight + mpmath.log(1 - b)) ** 2)
    assert theory.weight_mse(rank, n, estimator=estimator) == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_mse_propositions_by_beta_simulation(estimator):
    n, draws = 32, 40_000
    rng = np.random.default_rng(11)
    alpha = -np.log1p(-np.sort(rng.random((draws, n)), axis=-1))
    squares = (abstain.metrics.rank_weights(n, estimator=estimator) - alpha) ** 2
    error = squares.std(axis=0) / np.sqrt(draws)
    theory_mse = theory.weight_mse(np.arange(1, n + 1), n, estimator=estimator)
    assert np.max(np.abs(squares.mean(axis=0) - theory_mse) / error) < 5
    average = squares.mean(axis=1)
    assert theory.mean_weight_mse(n, estimator=estimator) == pytest.approx(
        average.mean(), abs=5 * average.std() / np.sqrt(draws)
    )


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_average_mse_of_harmonic_is_exactly_H_n_over_n(n):
    squares = [
        sum((Fraction(1, k * k) for k in range(n + 1 - r, n + 1)), Fraction(0)) for r in range(1, n + 1)
    ]
    assert sum(squares, Fraction(0)) / n == harmonic_number(n) / n
    assert theory.mean_weight_mse(n) == pytest.approx(float(harmonic_number(n) / n), rel=1e-14)
    assert np.mean(theory.weight_mse(np.arange(1, n + 1), n)) == pytest.approx(
        theory.mean_weight_mse(n), rel=1e-13
    )


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_the_papers_integral_of_the_order(n):
    integral = mpmath.quad(lambda b: b / (n * (1 - b) + 1), [0, 0.5, 0.9, 0.99, 0.999, 1])
    assert theory.mean_mse_order(n) == pytest.approx(float(integral), rel=1e-8)


# at the top the order tends to 1/2 and the MSE to pi^2/6 (plus gamma^2 for log)
@pytest.mark.parametrize(
    ("estimator", "most"), [("harmonic", np.pi**2 / 3), ("log", np.pi**2 / 3 + 2 * np.euler_gamma**2)]
)
def test_both_mses_stay_within_constants_of_their_order(estimator, most):
    for n in (4, 64, 1024, 10_000_000):
        rank = np.unique(
            np.concatenate(
                [np.arange(1, 4), np.geomspace(1, n, 200).round(), n + 1 - np.geomspace(1, n, 200).round()]
            )
        )
        ratio = theory.weight_mse(rank, n, estimator=estimator) / theory.mse_order(rank / (n + 1), n)
        assert 0.9 < ratio.min() <= ratio.max() < most
    average = theory.mean_weight_mse(10_000, estimator=estimator) / theory.mean_mse_order(10_000)
    assert 0.9 < average < 1.3


def test_mse_is_stable_at_ten_million():
    n = 10_000_000
    assert theory.weight_mse(1, n) == pytest.approx(1 / n**2, rel=1e-13)
    assert theory.weight_mse(2, n) == pytest.approx(1 / n**2 + 1 / (n - 1) ** 2, rel=1e-13)
    assert theory.weight_mse(n, n) == pytest.approx(np.pi**2 / 6 - 1 / n, abs=1e-12)


# consistency, inequalities, rate ------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["harmonic", "log", "loo"])
def test_weights_are_consistent(estimator):
    for beta in (0.1, 0.5, 0.9, 0.99):
        gap = [
            abs(abstain.metrics.rank_weights(n, estimator=estimator)[round(beta * n) - 1] + np.log1p(-beta))
            for n in (100, 1000, 10_000, 100_000)
        ]
        assert all(b < 0.2 * a for a, b in pairwise(gap))  # as 1/n
        assert abs(theory.weight_bias(beta, 100_000, estimator=estimator)) < 1e-5 / (1 - beta)


def test_sele_weights_are_not_consistent():
    assert theory.weight_bias(0.9, 10_000_000, estimator="sele") == pytest.approx(0.9 + np.log(0.1), abs=1e-7)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1000, 100_000])
def test_log_and_sele_lie_below_harmonic_at_every_rank(n):
    harmonic = abstain.metrics.rank_weights(n)
    assert np.all(abstain.metrics.rank_weights(n, estimator="log") <= harmonic)
    assert np.all(abstain.metrics.rank_weights(n, estimator="sele") <= harmonic * (1 + 1e-15))
    beta = np.linspace(0, 0.999, 50)
    assert np.all(theory.weight_bias(beta, n, estimator="log") <= theory.weight_bias(beta, n) + 1e-15)


def test_monte_carlo_route_tends_to_harmonic():
    n = 20
    drawn = theory.monte_carlo_weights(n, draws=100_000, rng=3)
    z = (drawn.mean - abstain.metrics.rank_weights(n)) / drawn.standard_error
    assert np.max(np.abs(z)) < 4.5
    assert drawn.standard_error[-1] == pytest.approx(np.sqrt(theory.weight_mse(n, n) / 100_000), rel=0.05)


def test_the_plug_in_converges_at_the_stated_rate():
    """RMSE is under the paper's sqrt(ln n / n) bound, and falls as n^(-1/2) to the known deviation."""
    population = theory.populations.NAMED["floor"]
    rng = np.random.default_rng(17)
    sizes = (64, 256, 1024, 4096)
    for estimator in ("harmonic", "log"):
        rmse = []
        for n in sizes:
            loss, confidence = population.sample((6_000_000 // (n * 4), n), rng=rng)
            error = abstain.aurc(loss, confidence, estimator=estimator) - population.aurc
            rmse.append(np.sqrt(np.mean(error**2)))
        # the proof's two terms: A by Cauchy-Schwarz with the mean MSE, B the Monte-Carlo error of E[alpha l]
        second = sum(c * 2 / (p + 1) ** 3 for c, p in population.terms)  # E[alpha^2 l], l^2 = l
        for n, value in zip(sizes, rmse):
            a = np.sqrt(theory.mean_weight_mse(n, estimator=estimator) * population.risk)
            b = np.sqrt((second - population.aurc**2) / n)
            assert value < a + b
        scaled = np.array(rmse) * np.sqrt(sizes)
        sigma = theory.expected_bias(4096, population).standard_deviation * 64
        assert scaled[-1] == pytest.approx(sigma, rel=0.08)
        slope = np.polyfit(np.log(sizes), np.log(rmse), 1)[0]
        assert -0.56 < slope < -0.44


def test_fubini_mean_of_aurcs_is_the_mean_over_ranks_of_the_mean_selective_risk():
    rng = np.random.default_rng(8)
    loss, confidence = rng.random((7, 50)), rng.random((7, 50))
    first_members = np.mean([abstain.aurc(l, g) for l, g in zip(loss, confidence)])
    total = 0.0
    for k in range(1, 51):  # threshold at each member's k-th most confident sample
        risks = [np.mean(l[np.argsort(-g)[:k]]) for l, g in zip(loss, confidence)]
        total += np.mean(risks)
    assert total / 50 == pytest.approx(first_members, abs=1e-12)


def test_sele_counterexample():
    example = theory.sele_counterexample()
    assert 5 * example.aurc == pytest.approx(137 / 60)
    assert abstain.aurc(example.loss, example.confidence) > 2 * abstain.aurc(
        example.loss, example.confidence, estimator="sele"
    )
    assert example.twice_sele == pytest.approx(
        2 * abstain.aurc(example.loss, example.confidence, estimator="sele")
    )
    with pytest.raises(abstain.errors.InputError, match="at least 4"):
        theory.sele_counterexample(3)
