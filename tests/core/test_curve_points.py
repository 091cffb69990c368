"""Points of a curve where shares round: the position that a coverage means."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import abstain


def test_coverage_seven_percent_of_a_hundred_is_seven_samples():
    loss = np.zeros(100)
    loss[7] = 1  # the eighth most confident is wrong
    confidence = -np.arange(100.0)
    assert abstain.risk_at_coverage(loss, confidence, coverage=0.07) == 0
    for k in range(1, 101):
        assert abstain.risk_at_coverage(loss, confidence, coverage=k / 100) == pytest.approx(loss[:k].mean())


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
            abstain.metrics.fpr_at_tpr(loss, confidence, tpr=float(share), **weight),
        ]
        assert got == pytest.approx(_by_fractions(loss, confidence, tenths, share, share, share))


def test_half_of_twenty_tenths_is_ten_of_them():
    loss, confidence = np.arange(20) == 9, -np.arange(20)
    assert abstain.risk_at_coverage(
        loss, confidence, coverage=0.5, sample_weight=[0.1] * 20
    ) == pytest.approx(0.1)
    assert abstain.metrics.fpr_at_tpr([1, 0], [0, 1], tpr=1.0, sample_weight=[0.2, 0.1]) == 0


def test_coverage_one_is_reached_by_all_samples_whatever_their_weights():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        loss, confidence, weight = rng.random(1000) < 0.2, rng.random(1000), rng.random(1000)
        got = abstain.risk_at_coverage(loss, confidence, coverage=1.0, sample_weight=weight)
        assert got == pytest.approx(math.fsum(weight * loss) / math.fsum(weight))
