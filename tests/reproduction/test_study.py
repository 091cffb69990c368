"""The studies against plain loops, brute force and scipy; and how much faster than a loop they are."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy import stats

import abstain
from reproduction.outputs import LOSSES, Outputs
from reproduction.study import (
    ESTIMATORS,
    SCORES,
    SIZES,
    batches,
    convergence_study,
    expected_gap,
    finite_study,
    score_study,
    shortened,
    slope,
    study_one,
    t_tests,
    two_forms,
    weight_study,
)


def made_up(n=1000, classes=4, seed=0) -> Outputs:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)) * 2
    logits[np.arange(n), labels] += 2
    return Outputs("made", "up", "", labels, logits=logits)


def brute_force(loss, confidence, estimator):
    """The definitions, over all pairs of a batch without ties."""
    n = len(loss)
    rank = np.array([(confidence <= g).sum() for g in confidence])
    if estimator == "harmonic":
        return np.mean([loss[confidence >= g].mean() for g in confidence])
    if estimator == "loo":
        others = [loss[(confidence >= g) & (np.arange(n) != j)] for j, g in enumerate(confidence)]
        return np.mean([o.mean() if len(o) else 0.0 for o in others])
    if estimator == "log":
        return np.mean(-np.log(1 - rank / (n + 1)) * loss)
    return np.mean(rank / n * loss) * (2 if estimator == "2sele" else 1)


def test_the_finite_study_is_what_a_loop_over_batches_gives():
    outputs = made_up(240)
    study = finite_study(outputs, rng=9, sizes=(8, 30), divisions=2)
    rng = np.random.default_rng(9)
    confidence = outputs.score()
    for size in (8, 30):
        index = batches(240, size, rng, 2)
        assert index.shape == (2 * (240 // size), size)
        assert all(
            len(set(half.ravel())) == half.size for half in np.split(index, 2)
        )  # each sample once per division
        for kind in LOSSES:
            loss = outputs.loss(kind)
            truth = brute_force(loss, confidence, "harmonic")
            for name in ESTIMATORS:
                values = np.array([brute_force(loss[i], confidence[i], name) for i in index])
                found = study[kind]["sizes"][size][name]
                assert found["mean"] == pytest.approx(values.mean(), rel=1e-10)
                assert found["std"] == pytest.approx(values.std(), rel=1e-9)
                assert found["bias"] == pytest.approx(values.mean() - truth, abs=1e-12)
                assert found["mse"] == pytest.approx(((values - truth) ** 2).mean(), rel=1e-9)
                assert found["mae"] == pytest.approx(np.abs(values - truth).mean(), rel=1e-9)


def test_mse_is_variance_plus_squared_bias_not_the_squared_bias_alone():
    study = finite_study(made_up(), rng=0, sizes=(16,))
    assert (
        study["01"]["sizes"][16]["harmonic"]["mse"] > 1.5 * study["01"]["sizes"][16]["harmonic"]["bias"] ** 2
    )
    for by_estimator in (study[k]["sizes"][16] for k in LOSSES):
        for s in by_estimator.values():
            assert s["mse"] == pytest.approx(s["std"] ** 2 + s["bias"] ** 2, rel=1e-9)


def test_the_whole_study_is_fifteen_times_faster_than_a_loop_over_the_same_calls():
    outputs = made_up(10_000, 10)

    def loop():
        rng, confidence = np.random.default_rng(0), outputs.score()
        losses = {kind: outputs.loss(kind) for kind in LOSSES}
        for size in SIZES:
            for index in batches(len(outputs), size, rng):
                for loss in losses.values():
                    for name in ESTIMATORS:
                        abstain.aurc(loss[index], confidence[index], estimator=name)

    finite_study(outputs, rng=0)
    vectorised = min(_seconds(lambda: finite_study(outputs, rng=0)) for _ in range(7))
    assert _seconds(loop) > 15 * vectorised


def _seconds(function):
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def test_the_score_study_holds_the_paper_s_six_scores_and_both_readings():
    study = score_study(made_up(), rng=0, size=50)
    assert set(study) == set(SCORES)
    assert {"logit_norm", "probability_norm", "negative_entropy", "clamped_logit_entropy"} <= set(SCORES)
    msp = study["max_softmax"]["01"]
    q = msp["estimators"]["harmonic"]["quantiles"]
    assert q == sorted(q)
    assert msp["population"] == pytest.approx(abstain.aurc(made_up().loss("01"), made_up().score()))
    assert study["max_logit"]["01"]["population"] != msp["population"]


def test_scores_that_need_logits_are_left_out_for_probabilities():
    o = made_up()
    probs = np.exp(o.logits) / np.exp(o.logits).sum(1, keepdims=True)
    study = score_study(Outputs("made", "up", "", o.labels, probs=probs), rng=0, size=50)
    assert "max_logit" not in study
    assert "negative_gini" in study


def test_both_t_tests_are_scipy_s():
    rng = np.random.default_rng(1)
    p = rng.lognormal(size=20)
    a = p - rng.random(20) * 1e-3
    found = t_tests(p, a)
    assert found["unpaired_p"] == pytest.approx(stats.ttest_ind(p, a).pvalue, rel=1e-9)
    assert found["paired_p"] == pytest.approx(stats.ttest_rel(p, a).pvalue, rel=1e-6)
    assert found["largest_difference"] == pytest.approx(np.abs(p - a).max())
    assert found["unpaired_p"] > 0.99
    assert found["paired_p"] < 1e-3


def test_the_two_forms_differ_by_the_missing_weight_when_every_loss_is_one():
    """With all losses 1, AURC_p is 1 and AURC_a lacks exactly the mean weight that `expected_gap` names."""
    n = 500
    logits = np.c_[np.linspace(1, 4, n), np.zeros(n)]
    forms = two_forms(Outputs("all", "wrong", "", np.ones(n, dtype=int), logits=logits))["01"]
    assert forms["p"] == pytest.approx(1)
    assert forms["p"] - forms["a"] == pytest.approx(expected_gap(n), rel=1e-9)
    assert expected_gap(n) == pytest.approx(1 - math.log(n + 1) + math.lgamma(n + 1) / n, rel=1e-9)


def test_measured_rates():
    found = convergence_study(rng=0, sizes=(32, 64, 128, 256, 512, 1024), draws=2**18)
    for population in found.values():
        for name in ("harmonic", "log", "loo"):
            assert -0.6 < population["slope"][name] < -0.42
        assert abs(population["slope"]["sele"]) < 0.2
    assert slope((1, 10, 100), (5.0, 0.5, 0.05)) == pytest.approx(-1)


def test_weight_study_has_the_exact_average():
    for row in weight_study((8, 100))["rows"]:
        n = row["n"]
        assert row["mean_mse"]["harmonic"] == pytest.approx(sum(1 / k for k in range(1, n + 1)) / n, rel=1e-9)
        assert row["bias_at_0"]["harmonic"] == pytest.approx(1 / n)
        assert row["bias_at_0"]["loo"] == pytest.approx(0)


def test_results_are_plain_short_numbers():
    assert shortened({1: (np.float64(1 / 3), np.int64(2), "x", True)}) == {"1": [0.3333333, 2, "x", True]}
    one = study_one(made_up(), 0, 1)
    assert "scores" not in one
    assert one["n"] == 1000
