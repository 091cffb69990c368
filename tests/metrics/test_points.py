"""Points, curves, detection and oracle metrics against their definitions, point by point."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abstain
from tests.core import oracles


@st.composite
def mixed_samples(draw):
    """0/1 losses with at least one of each kind, tied confidences."""
    n = draw(st.integers(2, 12))
    loss = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n).filter(lambda x: 0 < sum(x) < len(x)))
    return loss, draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))


@given(mixed_samples(), st.data())
@settings(max_examples=150, deadline=None)
def test_detection_equals_sums_over_pairs_and_thresholds(sample, data):
    loss, confidence = sample
    weight = data.draw(
        st.one_of(st.none(), st.lists(st.integers(1, 3), min_size=len(loss), max_size=len(loss)))
    )
    options = {"sample_weight": weight}
    right = [1 - x for x in loss]
    unsure = [-g for g in confidence]
    assert abstain.auroc(loss, confidence, **options) == pytest.approx(
        oracles.auroc(loss, confidence, weight)
    )
    assert abstain.aupr_error(loss, confidence, **options) == pytest.approx(
        oracles.average_precision(loss, unsure, weight)
    )
    assert abstain.aupr_success(loss, confidence, **options) == pytest.approx(
        oracles.average_precision(right, confidence, weight)
    )
    ratio = abstain.prediction_rejection_ratio(loss, confidence, **options)
    assert ratio == pytest.approx(2 * oracles.auroc(loss, confidence, weight) - 1, abs=1e-12)


@given(mixed_samples(), st.sampled_from([0.5, 0.8, 0.95, 1.0]))
@settings(max_examples=80, deadline=None)
def test_fpr_at_tpr_takes_the_least_over_all_thresholds(sample, tpr):
    loss, confidence = sample
    assert abstain.fpr_at_tpr(loss, confidence, tpr=tpr) == pytest.approx(
        oracles.fpr_at_tpr(loss, confidence, tpr)
    )


def test_rejection_ratio_of_any_loss_against_all_positions():
    rng = np.random.default_rng(0)
    loss, confidence = rng.exponential(size=30), rng.permutation(30)

    def accepted_loss(order):  # trapezoids of accepted loss per sample against coverage, from (0, 0)
        total = np.concatenate([[0], np.cumsum(loss[order])]) / 30
        return np.mean((total[1:] + total[:-1]) / 2)

    actual, best = accepted_loss(np.argsort(-confidence)), accepted_loss(np.argsort(loss))
    expected = (loss.mean() / 2 - actual) / (loss.mean() / 2 - best)
    assert abstain.prediction_rejection_ratio(loss, confidence) == pytest.approx(expected)


@given(mixed_samples(), st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_risk_at_coverage_is_the_least_attainable_at_or_above(sample, k):
    loss, confidence = sample
    asked = min(k, len(loss)) / len(loss)
    points = [p for p in oracles.curve(loss, confidence) if p[1] >= asked]
    expected = min(points, key=lambda p: p[1])[2]
    assert abstain.risk_at_coverage(loss, confidence, coverage=asked) == pytest.approx(expected)


@given(mixed_samples(), st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 1.0]))
@settings(max_examples=100, deadline=None)
def test_coverage_at_risk_is_the_largest_feasible(sample, most):
    loss, confidence = sample
    feasible = [p[1] for p in oracles.curve(loss, confidence) if p[2] <= most]
    assert abstain.coverage_at_risk(loss, confidence, risk=most) == pytest.approx(max(feasible, default=0.0))


def test_coverage_seven_percent_of_a_hundred_is_seven_samples():
    loss = np.zeros(100)
    loss[7] = 1  # the eighth most confident is wrong
    confidence = -np.arange(100.0)
    assert abstain.risk_at_coverage(loss, confidence, coverage=0.07) == 0
    for k in range(1, 101):
        assert abstain.risk_at_coverage(loss, confidence, coverage=k / 100) == pytest.approx(loss[:k].mean())


@given(mixed_samples())
@settings(max_examples=60, deadline=None)
def test_curve_points_and_thresholds(sample):
    loss, confidence = sample
    curve = abstain.risk_coverage_curve(loss, confidence)
    expected = oracles.curve(loss, confidence)
    found = list(zip(curve.threshold, curve.coverage, curve.risk, curve.generalised_risk))
    assert np.asarray(found) == pytest.approx(np.asarray(expected))
    for t, count, risk in zip(curve.threshold, curve.count, curve.risk):
        taken = np.asarray(confidence) >= t
        assert taken.sum() == count
        assert np.mean(np.asarray(loss)[taken]) == pytest.approx(risk)
    assert curve.accuracy == pytest.approx(1 - curve.risk)


def test_curve_thresholds_keep_float32_exactly():
    confidence = np.float32([0.1, 0.7, 0.7, 0.3])
    curve = abstain.risk_coverage_curve([0, 1, 0, 0], confidence)
    assert curve.threshold.dtype == np.float32
    assert [(confidence >= t).sum() for t in curve.threshold] == curve.count.tolist() == [2, 3, 4]


@given(st.lists(st.floats(0, 10), min_size=1, max_size=15))
@settings(max_examples=80, deadline=None)
def test_oracle_is_the_mean_of_prefix_means_and_the_least_of_all_orders(loss):
    best = abstain.oracle_aurc(np.asarray(loss))
    assert best == pytest.approx(oracles.oracle_aurc(loss), rel=1e-12, abs=1e-15)
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert abstain.aurc(np.asarray(loss), rng.permutation(len(loss))) >= best - 1e-12


@pytest.mark.parametrize("n", [5, 50])
def test_oracle_of_zero_one_loss_has_two_forms(n):
    loss = np.arange(n) < n // 3
    exact = oracles.oracle_aurc(loss.astype(float).tolist())
    assert abstain.oracle_aurc(loss) == pytest.approx(exact, rel=1e-12)
    assert abstain.oracle_aurc(loss * 1.0, sample_weight=np.ones(n)) == pytest.approx(exact, rel=1e-12)


def test_asymptotic_oracle_is_the_limit_and_refuses_other_losses():
    n = 200_000
    loss = np.arange(n) < n // 5
    limit = 0.2 + 0.8 * math.log(0.8)
    assert abstain.oracle_aurc(loss, oracle="asymptotic") == pytest.approx(limit, rel=1e-12)
    assert abstain.oracle_aurc(loss) == pytest.approx(limit, rel=1e-4)
    with pytest.raises(abstain.errors.InputError, match="0/1 loss only"):
        abstain.e_aurc([0.5, 0.2], [1, 2], oracle="asymptotic")


def test_excess_and_normalised_from_their_parts():
    rng = np.random.default_rng(1)
    for loss in (rng.random(60) < 0.3, rng.exponential(size=60)):
        g = rng.integers(0, 20, 60).astype(float)
        a = oracles.pairwise_aurc(loss.tolist(), g.tolist())
        best, risk = oracles.oracle_aurc(loss.tolist()), float(np.mean(loss))
        assert abstain.e_aurc(loss, g) == pytest.approx(a - best)
        assert abstain.naurc(loss, g) == pytest.approx((a - best) / (risk - best))


@pytest.mark.parametrize("cost", [0.0, 0.1, 0.35, 1.0])
def test_rejection_cost_is_the_least_over_all_thresholds(cost):
    rng = np.random.default_rng(2)
    for _ in range(30):
        loss, g = rng.random(12) < 0.4, rng.integers(0, 5, 12).astype(float)
        by_threshold = {t: (loss[g >= t].sum() + cost * (g < t).sum()) / 12 for t in [*g, np.inf]}
        assert abstain.rejection_cost(loss, g, cost=cost) == pytest.approx(min(by_threshold.values()))
        best = abstain.best_rejection(loss, g, cost=cost)
        assert best.cost == pytest.approx(min(by_threshold.values()))
        if best.threshold is not None:
            assert by_threshold[best.threshold] == pytest.approx(best.cost)
            assert abstain.rejection_cost(loss, g, cost=cost, threshold=best.threshold) == pytest.approx(
                best.cost
            )


def test_augrc_is_sele_and_its_reference_number():
    loss, g = [0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]
    assert abstain.augrc(loss, g) == pytest.approx(0.2)
    assert abstain.augrc(loss, g) == abstain.aurc(loss, g, estimator="sele")
    assert abstain.augrc(loss, g) == pytest.approx(np.mean([p[3] for p in oracles.curve(loss, g)]))


def test_abstained_samples_are_never_accepted_but_count_in_coverage():
    loss, g = [0, 1, 0, 1, 1], [0.9, 0.8, 0.7, 0.95, 0.1]
    out = [False, False, False, True, True]
    assert abstain.aurc(loss, g, abstained=out) == pytest.approx(abstain.aurc(loss[:3], g[:3]))
    curve = abstain.risk_coverage_curve(loss, g, abstained=out)
    assert curve.coverage == pytest.approx([0.2, 0.4, 0.6])
    assert curve.abstained == pytest.approx(0.4)
    assert abstain.coverage_at_risk(loss, g, risk=0.4, abstained=out) == pytest.approx(0.6)
    assert abstain.augrc(loss, g, abstained=out) == pytest.approx(np.mean([0, 1 / 5, 1 / 5]))
    assert abstain.rejection_cost(loss, g, cost=0.1, abstained=out) == pytest.approx((0.1 * 4) / 5)
    with pytest.raises(abstain.errors.InfeasibleError, match="cannot be reached"):
        abstain.risk_at_coverage(loss, g, coverage=0.7, abstained=out)
    with pytest.raises(abstain.errors.InputError, match="every sample has abstained"):
        abstain.aurc(loss, g, abstained=[True] * 5)


def test_balanced_weights_give_every_class_equal_mass():
    labels = np.array(["a"] * 6 + ["b"] * 2 + ["c"])
    w = abstain.balanced_weights(labels)
    masses = [w[labels == c].sum() for c in "abc"]
    assert masses == pytest.approx([3, 3, 3])
    loss, g = (np.arange(9) % 3 == 0), np.arange(9.0)
    assert abstain.risk(loss, sample_weight=w) == pytest.approx(
        np.mean([loss[labels == c].mean() for c in "abc"])
    )
    grouped = abstain.aurc(loss, g, groups=labels)
    assert grouped.values == pytest.approx(
        {c: abstain.aurc(loss[labels == c], g[labels == c]) for c in "abc"}
    )
    assert grouped.macro == pytest.approx(np.mean(list(grouped.values.values())))
    assert grouped.worst == max(grouped.values.values())
    assert abstain.auroc([0, 1, 0, 1], [2, 1, 3, 4], groups=[0, 0, 1, 1]).worst == 0.0


def _by_fractions(loss, confidence, tenths, coverage, tpr, risk):
    """Risk at coverage, coverage at risk and FPR at TPR of weights tenths/10, threshold by threshold, exactly."""
    w = [Fraction(int(t), 10) for t in tenths]
    total, errors = sum(w), sum(wi for wi, l in zip(w, loss) if l)
    at_coverage, within, at_tpr = None, Fraction(0), None
    for t in sorted(set(confidence), reverse=True):
        kept = [(wi, l) for wi, l, g in zip(w, loss, confidence) if g >= t]
        N, S = sum(wi for wi, _ in kept), sum(wi for wi, l in kept if l)
        if at_coverage is None and Fraction(coverage) * total <= N:
            at_coverage = S / N
        if at_tpr is None and Fraction(tpr) * (total - errors) <= N - S:
            at_tpr = S / errors
        if Fraction(risk) * N >= S:
            within = N / total
    return [float(x) for x in (at_coverage, within, at_tpr)]


def test_shares_of_fractional_weights_are_those_of_exact_arithmetic():
    rng = np.random.default_rng(0)
    for _ in range(150):
        n = int(rng.integers(2, 30))
        loss = np.append(rng.permutation(n - 1) % 2 == 0, [True, False])
        confidence, tenths = rng.integers(0, 12, n + 1), rng.integers(1, 4, n + 1)
        share = str(rng.choice(["0.1", "0.25", "0.3", "0.5", "0.7", "0.9", "1"]))
        weight = {"sample_weight": tenths * 0.1}
        got = [
            abstain.risk_at_coverage(loss, confidence, coverage=float(share), **weight),
            abstain.coverage_at_risk(loss, confidence, risk=float(share), **weight),
            abstain.fpr_at_tpr(loss, confidence, tpr=float(share), **weight),
        ]
        assert got == pytest.approx(_by_fractions(loss, confidence, tenths, share, share, share))


def test_half_of_twenty_tenths_is_ten_of_them():
    loss, confidence = np.arange(20) == 9, -np.arange(20)
    assert abstain.risk_at_coverage(
        loss, confidence, coverage=0.5, sample_weight=[0.1] * 20
    ) == pytest.approx(0.1)
    assert abstain.fpr_at_tpr([1, 0], [0, 1], tpr=1.0, sample_weight=[0.2, 0.1]) == 0


def test_coverage_one_is_reached_by_all_samples_whatever_their_weights():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        loss, confidence, weight = rng.random(1000) < 0.2, rng.random(1000), rng.random(1000)
        got = abstain.risk_at_coverage(loss, confidence, coverage=1.0, sample_weight=weight)
        assert got == pytest.approx(math.fsum(weight * loss) / math.fsum(weight))
