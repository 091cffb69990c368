"""P-values, the order of testing and exact limits, against sums written out."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

import abstain
from abstain.thresholds import clopper_pearson, testing
from abstain.thresholds.testing import plan, walk
from tests.thresholds.test_choosing import brute_walk, exact_tail
from tests.thresholds.test_select import sample


@given(st.integers(1, 60), st.integers(0, 60), st.sampled_from([0.01, 0.05, 0.1, 0.5]))
@settings(max_examples=60, deadline=None)
def test_binomial_p_value_is_the_sum_of_its_terms(n, errors, r):
    errors = min(errors, n)
    assert testing.binomial(np.asarray([errors]), np.asarray([n]), r)[0] == pytest.approx(
        exact_tail(errors, n, r), rel=1e-10
    )


def test_p_values_of_nothing_are_one():
    zero = np.asarray([0])
    assert testing.binomial(zero, zero, 0.1)[0] == 1
    assert testing.hoeffding_bentkus(np.asarray([0.0]), zero, 0.1)[0] == 1


def test_bounded_p_values_are_valid_and_useful():
    """At the boundary of the hypothesis each is below alpha at most alpha of the time; for low losses it is small."""
    from abstain.core.sorting import rank_samples

    rng = np.random.default_rng(0)
    counts = np.asarray([40, 150])
    for draw in (
        lambda: rng.beta(0.2, 1.8, 150),
        lambda: (rng.random(150) < 0.1) * 1.0,
        lambda: np.full(150, 0.1) + rng.normal(size=150) * 1e-3,
        lambda: 0.05 + 0.1 * rng.random(150),
    ):
        hb, bet = [], []
        for _ in range(2000):
            ranked = rank_samples(draw(), rng.random(150))
            hb.append(testing.hoeffding_bentkus(ranked.accepted_loss[counts], counts, 0.1))
            bet.append(testing.betting(ranked, counts, 0.1))
        for p in (np.asarray(hb), np.asarray(bet)):
            for alpha in (0.01, 0.05, 0.2):
                assert (p <= alpha).mean(axis=0).max() <= alpha + 3 * np.sqrt(alpha / 2000)
    ranked = rank_samples(np.full(150, 0.03), rng.random(150))
    assert testing.betting(ranked, counts, 0.1)[1] < 1e-3


def test_betting_equals_the_product_written_out():
    from abstain.core.sorting import rank_samples

    rng = np.random.default_rng(1)
    loss, g = rng.random(300) * 0.2, rng.random(300)
    ordered = loss[np.argsort(-g)]
    counts = np.asarray([10, 11, 120, 300])
    found = testing.betting(rank_samples(loss, g), counts, 0.2)
    scale, largest = 0.4, 0.95 / 0.8
    stakes = [largest]
    while stakes[0] > 1.75 / (300**0.5 * scale):
        stakes.insert(0, stakes[0] / 2)
    stakes = np.asarray(stakes)
    for k, p in zip(counts, found):
        first = min(np.searchsorted(stakes, 1.75 / (k**0.5 * scale)), len(stakes) - 1)
        used = stakes[np.minimum(first + np.arange(4), len(stakes) - 1)]
        wealth = np.mean([np.prod(1 + s * (0.2 - ordered[:k])) for s in used])
        assert p == pytest.approx(min(1.0, 1 / wealth), rel=1e-9)


@pytest.mark.parametrize("n", [30, 100, 1000, 10_000, 10**7])
@pytest.mark.parametrize("risk", [0.01, 0.05, 0.1, 0.5])
def test_plan_spends_delta_and_never_starts_where_nothing_can_pass(n, risk):
    ranks, weights = plan(n, risk, 0.05)
    if (1 - risk) ** n > 0.05:
        assert len(ranks) == 0
        return
    assert weights.sum() == pytest.approx(0.05)
    assert (np.diff(ranks) > 0).all()
    assert ranks[-1] == n
    starts = ranks[weights > 0]
    assert ((1 - risk) ** starts <= weights[weights > 0] * 1.0001).all()


@given(st.lists(st.tuples(st.floats(0, 0.2), st.sampled_from([0.0, 0.01, 0.03])), min_size=1, max_size=12))
def test_walk_is_the_story(rows):
    p, w = (np.asarray(x) for x in zip(*rows))
    assert walk(p, w).passed.tolist() == brute_walk(p, w)
    assert walk(np.stack([p, p]), w).passed.tolist() == [brute_walk(p, w)] * 2
    least = p / 2
    assert walk(p, w, least).passed.tolist() == brute_walk(p, w, least)
    assert walk(p[None], w, least[None]).passed.tolist() == [brute_walk(p, w, least)]


@pytest.mark.parametrize(("n", "coverage"), [(50, 0.6), (200, 0.8), (30, 0.2)])
def test_coverage_with_probability_is_a_sum_of_binomial_terms(n, coverage):
    """k samples suffice when k or more of n fall into a set of that coverage with probability at most delta."""
    loss, g = sample(n, 1)

    def falls(k):
        return sum(comb(n, j) * coverage**j * (1 - coverage) ** (n - j) for j in range(k, n + 1))

    least = next(k for k in range(1, n + 1) if falls(k) <= 0.05)
    chosen = abstain.select_threshold(loss, g, coverage=coverage, delta=0.05)
    assert round(chosen.coverage * n) == least
    assert chosen.value == np.sort(g)[::-1][least - 1]


@pytest.mark.parametrize(
    ("total", "n", "r"), [(1.5, 40, 0.1), (0.0, 25, 0.2), (3.2, 90, 0.05), (8.0, 100, 0.15)]
)
def test_hoeffding_bentkus_is_the_smaller_of_two_bounds(total, n, r):
    mean = min(total / n, r)
    kl = (mean * np.log(mean / r) if mean else 0.0) + (1 - mean) * np.log((1 - mean) / (1 - r))
    bentkus = np.e * exact_tail(int(np.ceil(total)), n, r)
    found = testing.hoeffding_bentkus(np.asarray([total]), np.asarray([n]), r)[0]
    assert found == pytest.approx(min(1.0, np.exp(-n * kl), bentkus), rel=1e-9)


def test_the_better_of_two_bounds_has_its_price():
    from abstain.core.sorting import rank_samples

    ranked, count = (
        rank_samples(np.random.default_rng(2).random(80) * 0.2, np.arange(80.0)),
        np.asarray([10, 40, 80]),
    )
    both = [
        testing.hoeffding_bentkus(ranked.accepted_loss[count], count, 0.3),
        testing.betting(ranked, count, 0.3),
    ]
    assert testing.bounded(ranked, count, 0.3) == pytest.approx(np.minimum(1, 2 * np.min(both, axis=0)))


def test_the_band_of_coverage_is_that_of_massart():
    """Half its width h solves 2 exp(-2 n h^2) = delta."""
    low, high = testing.coverage_band(0.5, 500.0, 0.05)
    assert 2 * np.exp(-2 * 500 * ((high - low) / 2) ** 2) == pytest.approx(0.05)
    assert testing.coverage_band(0.01, 500.0, 0.05)[0] == 0


def test_clopper_pearson_is_the_textbook():
    for x, n in [(0, 5), (5, 5), (3, 17), (999, 1000), (1, 1)]:
        low, high = clopper_pearson(x, n, 0.9)
        assert low == pytest.approx(beta.ppf(0.05, x, n - x + 1) if x else 0.0)
        assert high == pytest.approx(beta.ppf(0.95, x + 1, n - x) if x < n else 1.0)
    low, high = clopper_pearson(0, 0)
    assert (low, high) == (0, 1)
