"""Edges: one sample, all tied, all right, all wrong, extreme floats, a hundred million rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

import abstain
from abstain.core.area_estimators import ESTIMATORS, harmonic_difference, log_factorial_difference
from abstain.inference import interval


@pytest.mark.parametrize(
    ("estimator", "value"),
    [("harmonic", 0.7), ("log", 0.7 * math.log(2)), ("loo", 0.0), ("sele", 0.7), ("2sele", 1.4)],
)
def test_one_sample(estimator, value):
    assert abstain.aurc([0.7], [0.3], estimator=estimator) == pytest.approx(value)


@pytest.mark.parametrize("estimator", ["harmonic", "loo"])
def test_all_tied_is_the_risk(estimator):
    loss = np.array([0.0, 1, 1, 0, 0, 1, 0])
    assert abstain.aurc(loss, np.full(7, 0.5), estimator=estimator) == pytest.approx(loss.mean())


@pytest.mark.parametrize("wrong", [0, 1])
def test_all_right_and_all_wrong(wrong):
    loss, confidence = np.full(9, wrong), np.arange(9.0)
    assert abstain.aurc(loss, confidence) == pytest.approx(wrong)
    assert abstain.naurc(loss, confidence) == 0
    assert abstain.e_aurc(loss, confidence) == pytest.approx(0, abs=1e-15)
    assert abstain.prediction_rejection_ratio(loss, confidence) == 0
    for metric in (
        abstain.auroc,
        abstain.metrics.aupr_error,
        abstain.metrics.aupr_success,
        abstain.metrics.fpr_at_tpr,
    ):
        with pytest.raises(abstain.errors.InfeasibleError, match="both right and wrong"):
            metric(loss, confidence)


def test_all_wrong_log_value_of_three():
    assert abstain.aurc([1, 1, 1], [3, 2, 1], estimator="log") == pytest.approx(0.789, abs=5e-4)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 0),
        (0, 1),
        (0, 10),
        (3, 15),
        (5, 40),
        (16, 17),
        (1000, 1001),
        (10**7, 10**7 + 3),
        (10**9, 10**9 + 1),
    ],
)
def test_differences_of_harmonic_numbers_and_log_factorials(low, high):
    a, b = np.array([float(low)]), np.array([float(high)])
    terms = range(low + 1, high + 1)
    assert harmonic_difference(np, a, b)[0] == pytest.approx(
        math.fsum(1 / k for k in terms), rel=1e-14, abs=1e-300
    )
    assert log_factorial_difference(np, a, b)[0] == pytest.approx(
        math.fsum(math.log(k) for k in terms), rel=1e-14, abs=1e-300
    )


def test_harmonic_difference_over_a_wide_gap():
    exact = math.fsum(1 / np.arange(1, 10**6 + 1))
    assert harmonic_difference(np, np.zeros(1), np.full(1, 1e6))[0] == pytest.approx(exact, rel=1e-15)


def test_counts_above_the_integers_of_float32():
    """2^24 + some: float32 counters would stop counting."""
    n = (1 << 24) + 1000
    confidence = np.arange(n, dtype=np.float64)
    loss = np.zeros(n, dtype=bool)
    loss[0] = True  # only the least confident is wrong: one threshold, risk 1/n
    assert abstain.aurc(loss, confidence) == pytest.approx(1 / n**2, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_hundred_million_samples_against_an_independent_accumulation(estimator):
    n = 10**8
    rng = np.random.default_rng(0)
    rank_of_error = np.sort(rng.choice(n, 4_000_000, replace=False)) + 1  # rank 1: least confident
    loss = np.zeros(n, dtype=bool)
    loss[rank_of_error - 1] = True
    # distinct float64 confidences in a scrambled order: a bijection of 0 ... n-1
    place = np.arange(n, dtype=np.int64) * 61_803_399 % n
    confidence = place.astype(np.float64)
    value = abstain.aurc(loss[place], confidence, estimator=estimator)
    assert value == pytest.approx(_weights_by_longdouble(n, rank_of_error, estimator), rel=1e-12)


def _weights_by_longdouble(n, ranks, estimator):
    """Sum of the weights of the errors' ranks, accumulated in extended precision from the defining sums."""
    if estimator in ("sele", "2sele"):
        return float(
            ranks.astype(np.longdouble).sum() / np.longdouble(n) ** 2 * (2 if estimator == "2sele" else 1)
        )
    if estimator == "log":
        return float(-np.log((n + 1 - ranks.astype(np.longdouble)) / (n + 1)).sum() / n)
    total, harmonic, done = np.longdouble(0), np.longdouble(0), 0
    step = 10**7
    above = (n - ranks)[::-1]  # ascending numbers of more confident samples
    for start in range(0, n + 1, step):
        k = np.arange(max(start, 1), min(start + step, n + 1), dtype=np.longdouble)
        table = harmonic + np.cumsum(1 / k)
        first = int(k[0])
        stop = np.searchsorted(above, first + len(k))
        here = above[done:stop]
        total += table[here[here >= first] - first].sum() + harmonic * np.count_nonzero(here < first)
        harmonic, done = table[-1], stop
    top = harmonic - (np.longdouble(1) / n if estimator == "loo" else 0)
    return float((top * len(ranks) - total) / n)


@pytest.mark.filterwarnings("error")
def test_weighted_risk_of_single_precision_does_not_overflow():
    big = np.float32(3e38)
    assert abstain.risk(np.array([big, big]), sample_weight=np.float32([3, 3])) == pytest.approx(float(big))
    assert abstain.risk(np.float32([1, 0]), sample_weight=np.array([big, big])) == 0.5


@pytest.mark.parametrize("threshold", [0.7, np.float64(0.7), np.float32(0.7)])
def test_a_single_precision_confidence_meets_a_threshold_only_if_it_is_at_least_that(threshold):
    confidence = np.float32([0.7, 0.1])  # the float32 nearest to 0.7 lies below it
    expected = 0.15 if float(confidence[0]) >= float(threshold) else 0.3
    assert abstain.metrics.rejection_cost([0, 1], confidence, cost=0.3, threshold=threshold) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("metric", ["aurc", "augrc", "e_aurc", "naurc"])
def test_single_precision_weights_are_added_up_in_double(metric):
    rng = np.random.default_rng(0)
    loss, confidence, weight = rng.random(1000) < 0.2, rng.random(1000), rng.random(1000).astype(np.float32)
    found, wide = (
        abstain.metrics.by_name(metric)(loss, confidence, sample_weight=w)
        for w in (weight, weight.astype(float))
    )
    assert found == wide


def test_no_order_is_better_than_the_best_whatever_the_weights():
    """Thresholds lie at samples, so with weights the order by loss can lose by a hair; the excess is still not below 0."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 7))
        loss, weight = rng.random(n), rng.exponential(size=n) ** 3
        confidence = rng.normal(size=n) * 0.1 - loss
        assert abstain.e_aurc(loss, confidence, sample_weight=weight) >= 0
        assert abstain.naurc(loss, confidence, sample_weight=weight) >= 0
        assert interval("e_aurc", loss, confidence, sample_weight=weight).estimate >= 0


@pytest.mark.parametrize("metric", ["e_aurc", "naurc"])
@pytest.mark.parametrize("offset", [2.0**40, -(2.0**40)])
def test_an_offset_of_the_losses_takes_no_digits_from_the_excess(metric, offset):
    rng = np.random.default_rng(1)
    loss, confidence = (
        rng.integers(0, 1024, 200) / 1024,
        rng.random(200),
    )  # multiples of 2^-10: exact at the offset
    value = abstain.metrics.by_name(metric)(loss, confidence)
    assert abstain.metrics.by_name(metric)(loss + offset, confidence) == pytest.approx(value, rel=1e-12)
    assert interval(metric, loss + offset, confidence).estimate == pytest.approx(value, rel=1e-12)
