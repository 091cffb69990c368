"""Points, curves, detection and oracle metrics against their definitions, point by point."""

from __future__ import annotations

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
    assert abstain.metrics.aupr_error(loss, confidence, **options) == pytest.approx(
        oracles.average_precision(loss, unsure, weight)
    )
    assert abstain.metrics.aupr_success(loss, confidence, **options) == pytest.approx(
        oracles.average_precision(right, confidence, weight)
    )
    ratio = abstain.prediction_rejection_ratio(loss, confidence, **options)
    assert ratio == pytest.approx(2 * oracles.auroc(loss, confidence, weight) - 1, abs=1e-12)


@given(mixed_samples(), st.sampled_from([0.5, 0.8, 0.95, 1.0]))
@settings(max_examples=80, deadline=None)
def test_fpr_at_tpr_takes_the_least_over_all_thresholds(sample, tpr):
    loss, confidence = sample
    assert abstain.metrics.fpr_at_tpr(loss, confidence, tpr=tpr) == pytest.approx(
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


@pytest.mark.parametrize("cost", [0.0, 0.1, 0.35, 1.0])
def test_rejection_cost_is_the_least_over_all_thresholds(cost):
    rng = np.random.default_rng(2)
    for _ in range(30):
        loss, g = rng.random(12) < 0.4, rng.integers(0, 5, 12).astype(float)
        by_threshold = {t: (loss[g >= t].sum() + cost * (g < t).sum()) / 12 for t in [*g, np.inf]}
        assert abstain.metrics.rejection_cost(loss, g, cost=cost) == pytest.approx(min(by_threshold.values()))
        best = abstain.metrics.best_rejection(loss, g, cost=cost)
        assert best.cost == pytest.approx(min(by_threshold.values()))
        if best.threshold is not None:
            assert by_threshold[best.threshold] == pytest.approx(best.cost)
            assert abstain.metrics.rejection_cost(
                loss, g, cost=cost, threshold=best.threshold
            ) == pytest.approx(best.cost)


def test_abstained_samples_are_never_accepted_but_count_in_coverage():
    loss, g = [0, 1, 0, 1, 1], [0.9, 0.8, 0.7, 0.95, 0.1]
    out = [False, False, False, True, True]
    assert abstain.aurc(loss, g, abstained=out) == pytest.approx(abstain.aurc(loss[:3], g[:3]))
    curve = abstain.risk_coverage_curve(loss, g, abstained=out)
    assert curve.coverage == pytest.approx([0.2, 0.4, 0.6])
    assert curve.abstained == pytest.approx(0.4)
    assert abstain.coverage_at_risk(loss, g, risk=0.4, abstained=out) == pytest.approx(0.6)
    assert abstain.augrc(loss, g, abstained=out) == pytest.approx(np.mean([0, 1 / 5, 1 / 5]))
    assert abstain.metrics.rejection_cost(loss, g, cost=0.1, abstained=out) == pytest.approx((0.1 * 4) / 5)
    with pytest.raises(abstain.errors.InfeasibleError, match="cannot be reached"):
        abstain.risk_at_coverage(loss, g, coverage=0.7, abstained=out)
    with pytest.raises(abstain.errors.InputError, match="every sample has abstained"):
        abstain.aurc(loss, g, abstained=[True] * 5)


def test_balanced_weights_give_every_class_equal_mass():
    labels = np.array(["a"] * 6 + ["b"] * 2 + ["c"])
    w = abstain.metrics.balanced_weights(labels)
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


@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_samples_of_weight_zero_do_not_count(library):
    xp = pytest.importorskip(library)
    loss, confidence, weight = ([0.0, 1.0, 0.0, 1.0], [0.9, 0.8, 0.7, 0.6], [1.0, 0.0, 1.0, 1.0])
    curve = abstain.risk_coverage_curve(
        *(xp.asarray(column) for column in (loss, confidence)), sample_weight=xp.asarray(weight)
    )
    assert [int(count) for count in curve.count] == [1, 2, 3]


def test_risk_at_coverage_traces_under_jit_as_the_other_points_do():
    jax = pytest.importorskip("jax")
    loss = np.asarray([0, 1, 0, 0, 1], dtype=np.float32)
    confidence = np.asarray([0.9, 0.8, 0.8, 0.6, 0.5], dtype=np.float32)
    compiled = jax.jit(lambda l, g: abstain.risk_at_coverage(l, g, coverage=0.5))
    assert float(compiled(loss, confidence)) == pytest.approx(1 / 3)
