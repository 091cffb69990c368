"""Every estimator against its definition: all pairs, exact fractions, all permutations, weights as repetitions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abstain
from abstain.core.area_estimators import ESTIMATORS, TIES, area
from abstain.core.rows import rows_from_numpy, rows_from_samples
from tests.core import oracles

EVERY = list(itertools.product(ESTIMATORS, TIES))
levels = st.integers(-3, 3)


# The quickest and sharpest first: the planted bugs of test_mutants stop here.


def test_numbers_of_the_five_points():
    loss, confidence = [0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]
    expected = {"harmonic": 0.29667, "log": 0.25619, "sele": 0.2, "2sele": 0.4, "loo": 0.21667}
    for estimator, value in expected.items():
        assert abstain.aurc(loss, confidence, estimator=estimator) == pytest.approx(value, abs=5e-6)
    for row_order in ([1, 0, 0, 0, 1], [0, 0, 1, 1, 0]):
        tied = [0.9, 0.9, 0.9, 0.5, 0.5]
        assert abstain.aurc(row_order, tied) == pytest.approx(0.36, abs=1e-15)
        assert abstain.aurc(row_order, tied, ties="expected") == pytest.approx(0.355, abs=1e-15)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n", [1, 2, 17, 64])
def test_rank_weights_equal_their_defining_sums(estimator, n):
    exact = [float(oracles.untied_weight(r, n, estimator)) for r in range(1, n + 1)]
    assert abstain.metrics.rank_weights(n, estimator=estimator) == pytest.approx(exact, rel=1e-14, abs=1e-16)


def test_weights_of_samples_follow_the_pairwise_definition():
    rng = np.random.default_rng(5)
    confidence = rng.integers(0, 5, 40).astype(float)
    exact = [
        sum(1 / sum(g >= t for g in confidence) for t in confidence if t <= g_i) for g_i in confidence
    ]  # alpha_i = sum_j 1(g_i >= g_j) / #{k: g_k >= g_j}
    assert abstain.metrics.weights(confidence) == pytest.approx(exact, rel=1e-13)
    assert np.mean(abstain.metrics.weights(confidence)) == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize(("estimator", "ties"), EVERY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_roads_agree(estimator, ties, dtype):
    """Packed bits, packed floats, gathered indices, generic arrays and batches are one computation."""
    import array_api_compat.numpy as xp

    rng = np.random.default_rng(0)
    for n, distinct in [(1, 1), (50, 7), (3000, 900), (20000, 10**9)]:
        confidence = rng.integers(-distinct, distinct, n).astype(dtype)
        for loss in (rng.random(n) < 0.4, rng.random(n).astype(np.float32), rng.random(n)):
            value = abstain.aurc(loss, confidence, estimator=estimator, ties=ties)
            generic = float(area(rows_from_samples(xp, loss, confidence), estimator, ties))
            table = float(area(rows_from_numpy(loss, confidence), estimator, ties))
            batch = abstain.aurc(
                np.stack([loss, loss[::-1]]),
                np.stack([confidence, confidence[::-1]]),
                estimator=estimator,
                ties=ties,
            )
            ones = abstain.aurc(loss, confidence, estimator=estimator, ties=ties, sample_weight=np.ones(n))
            alpha = abstain.metrics.weights(confidence, estimator=estimator, ties=ties)
            dual = float(np.mean(alpha * loss))
            assert [generic, table, *batch, ones, dual] == pytest.approx([value] * 6, rel=1e-11, abs=1e-15)


@pytest.mark.parametrize(("estimator", "ties"), EVERY)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_equals_fractions_for_every_small_tie_pattern(estimator, ties, n):
    for confidence in itertools.product(range(n), repeat=n):
        if set(confidence) != set(range(max(confidence) + 1)):
            continue  # an increasing map of another one, which changes nothing (test_laws)
        for loss in itertools.product([0, 1], repeat=n):
            exact = float(oracles.definition([Fraction(x) for x in loss], confidence, estimator, ties))
            found = abstain.aurc(
                np.array(loss, bool), np.array(confidence, np.float32), estimator=estimator, ties=ties
            )
            assert found == pytest.approx(exact, abs=1e-12), (loss, confidence)


@st.composite
def small_samples(draw, most=6):
    n = draw(st.integers(1, most))
    confidence = draw(st.lists(levels, min_size=n, max_size=n))
    loss = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    return [Fraction(x, 4) for x in loss], confidence


@pytest.mark.parametrize(("estimator", "ties"), EVERY)
@given(sample=small_samples(5))
@settings(max_examples=40, deadline=None)
def test_equals_its_definition_over_pairs_or_over_all_orders(estimator, ties, sample):
    loss, confidence = sample
    exact = float(oracles.definition(loss, confidence, estimator, ties))
    found = abstain.aurc([float(x) for x in loss], confidence, estimator=estimator, ties=ties)
    assert found == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_equals_fractions_over_all_permutations_of_six(estimator):
    loss = [Fraction(x) for x in (1, 0, 0, 1, 0, 1)]
    for order in itertools.permutations(range(6)):
        exact = sum(oracles.untied_weight(r + 1, 6, estimator) * x for r, x in zip(order, loss)) / 6
        assert abstain.aurc([float(x) for x in loss], order, estimator=estimator) == pytest.approx(
            float(exact), abs=1e-12
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["zero_one", "float32", "float64"])
@pytest.mark.parametrize("distinct", [1, 3, 40, 10**6])
def test_equals_the_sum_over_all_pairs_on_every_fast_road(dtype, kind, distinct):
    rng = np.random.default_rng(distinct)
    confidence = (rng.integers(0, distinct, 300) / distinct - 0.3).astype(dtype)
    loss = rng.random(300) < 0.3 if kind == "zero_one" else rng.exponential(size=300).astype(kind)
    exact = oracles.pairwise_aurc(loss.astype(float).tolist(), confidence.tolist())
    assert abstain.aurc(loss, confidence) == pytest.approx(exact, rel=1e-12)


@given(small_samples(6), st.data())
@settings(max_examples=60, deadline=None)
def test_whole_weights_are_repetitions_for_every_estimator(sample, data):
    loss, confidence = sample
    weight = data.draw(st.lists(st.integers(0, 3), min_size=len(loss), max_size=len(loss)).filter(sum))
    values = [float(x) for x in loss]
    long_loss, long_confidence = oracles.repeat(weight, values, confidence)
    for estimator, ties in EVERY:
        weighted = abstain.aurc(
            values, confidence, estimator=estimator, ties=ties, sample_weight=weight, repetitions=True
        )
        repeated = abstain.aurc(long_loss, long_confidence, estimator=estimator, ties=ties)
        assert weighted == pytest.approx(repeated, abs=1e-12)


@pytest.mark.parametrize("estimator", ["harmonic", "sele"])
def test_any_weights_against_the_sum_over_all_pairs(estimator):
    rng = np.random.default_rng(3)
    oracle = {"harmonic": oracles.pairwise_aurc, "sele": oracles.pairwise_sele}[estimator]
    for _ in range(50):
        n = int(rng.integers(1, 30))
        loss, confidence, weight = rng.random(n), rng.integers(0, 6, n).astype(float), rng.exponential(size=n)
        found = abstain.aurc(loss, confidence, estimator=estimator, sample_weight=weight)
        assert found == pytest.approx(oracle(loss.tolist(), confidence.tolist(), weight.tolist()), rel=1e-12)


@pytest.mark.parametrize("n", [10, 1000, 10**6])
def test_mean_weights(n):
    mean = {e: abstain.metrics.rank_weights(n, estimator=e).mean() for e in ESTIMATORS}
    assert mean["harmonic"] == pytest.approx(1, rel=1e-12)
    assert mean["loo"] == pytest.approx((n - 1) / n, rel=1e-12)
    assert mean["sele"] == pytest.approx((n + 1) / (2 * n), rel=1e-12)
    assert mean["log"] < 1


def test_given_cdf_is_the_logarithmic_form():
    rng = np.random.default_rng(0)
    g, loss = rng.random(100), rng.random(100)
    assert abstain.metrics.aurc_given_cdf(loss, g, cdf=lambda x: x) == pytest.approx(
        np.mean(-np.log(1 - g) * loss), rel=1e-13
    )
    assert abstain.metrics.aurc_given_cdf(loss, g, cdf=g) == abstain.metrics.aurc_given_cdf(
        loss, g, cdf=lambda x: x
    )
    assert abstain.metrics.aurc_given_cdf(loss, g) == abstain.aurc(loss, g, estimator="log")
    with pytest.raises(abstain.errors.InputError, match=r"\[0, 1\)"):
        abstain.metrics.aurc_given_cdf(loss, g, cdf=np.ones(100))


@given(
    st.permutations(range(40)), st.sampled_from(["bool", "float32"]), st.sampled_from(["float32", "float64"])
)
@settings(max_examples=60, deadline=None)
def test_bit_identical_under_permutation(order, loss_dtype, confidence_dtype):
    rng = np.random.default_rng(1)
    confidence = rng.integers(0, 6, 40).astype(confidence_dtype)
    raw = rng.random(40) < 0.4 if loss_dtype == "bool" else rng.lognormal(0, 8, 40).astype(np.float32)
    order = np.asarray(order)
    for estimator, ties in EVERY:
        a = abstain.aurc(raw, confidence, estimator=estimator, ties=ties)
        assert abstain.aurc(raw[order], confidence[order], estimator=estimator, ties=ties) == a


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_float64_losses_move_by_rounding_only_under_permutation(estimator):
    rng = np.random.default_rng(2)
    confidence, loss = rng.integers(0, 50, 5000).astype(float), rng.lognormal(0, 3, 5000)
    value = abstain.aurc(loss, confidence, estimator=estimator)
    for _ in range(5):
        p = rng.permutation(5000)
        assert abstain.aurc(loss[p], confidence[p], estimator=estimator) == pytest.approx(value, rel=1e-13)


def test_bit_identical_under_permutation_at_a_size_that_uses_threads():
    rng = np.random.default_rng(0)
    n = 3_000_000
    confidence = rng.random(n, dtype=np.float32).round(5)
    loss = rng.random(n, dtype=np.float32)
    value, errors = abstain.aurc(loss, confidence), abstain.aurc(loss > 0.9, confidence)
    p = rng.permutation(n)
    assert abstain.aurc(loss[p], confidence[p]) == value
    assert abstain.aurc(loss[p] > 0.9, confidence[p]) == errors
