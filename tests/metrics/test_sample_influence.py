"""Influence functions against numerical derivatives of definitions written out here, weight by weight."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from abstain.core.part_sums import tables_from_samples, totals_from_tables
from abstain.inference import influence
from abstain.inference.evidence import gather_evidence, request_for, spread_from_evidence
from abstain.metrics import METRICS, by_name
from abstain.metrics.sample_influence import sample_influences

SMOOTH = [name for name, metric in METRICS.items() if metric.is_smooth]


def estimate_and_influences(metric, loss, confidence, weight=None, **options):
    result = sample_influences(by_name(metric).with_options(**options), loss, confidence, weight)
    return result.estimate, result.influence


# definitions, with real weights --------------------------------------------------------------------------


def blocks_of(w, l, key):
    """(mass, loss, accepted mass, accepted loss) of each distinct key, highest first."""
    N = S = 0.0
    for k in sorted(set(key.tolist()), reverse=True):
        m, L = w[key == k].sum(), (w * l)[key == k].sum()
        N, S = N + m, S + L
        yield m, L, N, S


def area_by_definition(w, l, key, estimator="harmonic", ties="threshold"):
    total, W = 0.0, w.sum()
    for m, L, N, S in blocks_of(w, l, key):
        above = N - m
        if estimator in ("sele", "2sele"):
            term = (m * S if ties == "threshold" else m * (S - L) + L * (m + 1) / 2) / W
            total += term * (2 if estimator == "2sele" else 1)
        elif estimator == "log":
            total += L * (np.log(W + 1) - (gammaln(N + 1) - gammaln(above + 1)) / m)
        elif ties == "expected":
            gain = digamma(N + 1) - digamma(above + 1)
            total += (S - L) * gain + L * (1 - above * gain / m) - (L / W if estimator == "loo" else 0)
        elif estimator == "loo":
            total += (m * S - L) / (N - 1)
        else:
            total += m * S / N
    return total / W


def auroc_by_pairs(w, l, g):
    right, wrong = l == 0, l == 1
    wins = (g[right][:, None] > g[wrong]) + 0.5 * (g[right][:, None] == g[wrong])
    pairs = w[right][:, None] * w[wrong]
    return (wins * pairs).sum() / pairs.sum()


def half_area(w, l, key):
    below = ((key[None, :] < key[:, None]) + 0.5 * (key[None, :] == key[:, None])) @ w
    return (w * l * below).sum() / w.sum() ** 2


def value(metric, w, l, g, estimator="harmonic", ties="threshold", oracle="empirical"):
    risk = (w * l).sum() / w.sum()
    if oracle == "asymptotic":
        best = risk + (1 - risk) * np.log(1 - risk)
    else:
        best = area_by_definition(w, l, -l, estimator, "expected")
    if metric == "prediction_rejection_ratio":
        return (risk / 2 - half_area(w, l, g)) / (risk / 2 - half_area(w, l, -l))
    if metric == "auroc":
        return auroc_by_pairs(w, l, g)
    if metric.startswith("aupr"):
        return precision_by_hand(
            w, l if metric == "aupr_error" else 1 - l, -g if metric == "aupr_error" else g
        )
    area = area_by_definition(w, l, g, "sele" if metric == "augrc" else estimator, ties)
    return {
        "aurc": area,
        "augrc": area,
        "risk": risk,
        "oracle_aurc": best,
        "e_aurc": area - best,
        "naurc": (area - best) / (risk - best),
    }[metric]


def precision_by_hand(w, hit, key):
    """For each hit, the share of hits among all samples found no later than it; their mean."""
    found = [(w * hit)[key >= k].sum() / w[key >= k].sum() for k in key]
    return (w * hit) @ np.asarray(found) / (w * hit).sum()


def derivative(function, w, step=1e-6):
    """Central difference along "a little mass from all to sample i", for each i."""
    found = []
    for i in range(len(w)):
        move = -w.copy()
        move[i] += w.sum()
        found.append((function(w + step * move) - function(w - step * move)) / (2 * step))
    return np.asarray(found)


def draw(seed, n=24, zero_one=True, levels=6, weights=True):
    rng = np.random.default_rng(seed)
    g = rng.integers(0, levels, n) / levels
    g[:2] = g.max() + 1  # two on top, so that leaving one out leaves one
    l = (rng.random(n) < 0.4).astype(float) if zero_one else rng.integers(0, 9, n) / 4.0
    l[:3] = 1, 0, 1
    w = rng.integers(1, 4, n).astype(float) if weights else np.ones(n)
    return w, l, g


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("zero_one", [True, False])
@pytest.mark.parametrize("metric", SMOOTH)
def test_every_metric_influence_is_the_derivative(metric, zero_one, weights, seed):
    zero_one = zero_one or metric in ("auroc", "aupr_error", "aupr_success")  # of right and wrong only
    w, l, g = draw(seed + 10, zero_one=zero_one, weights=weights)
    estimate, values = estimate_and_influences(metric, l, g, w if weights else None)
    assert estimate == pytest.approx(value(metric, w, l, g), rel=1e-12)
    np.testing.assert_allclose(values, derivative(lambda v: value(metric, v, l, g), w), rtol=1e-6, atol=1e-7)
    assert w @ values == pytest.approx(0, abs=1e-11 * w.sum())


@pytest.mark.parametrize("metric", ["oracle_aurc", "e_aurc", "naurc"])
@pytest.mark.parametrize("estimator", ["harmonic", "loo", "log"])
@pytest.mark.parametrize("oracle", ["empirical", "asymptotic"])
def test_oracle_metrics_by_estimator_and_oracle(metric, estimator, oracle):
    w, l, g = draw(5)
    estimate, values = estimate_and_influences(metric, l, g, w, estimator=estimator, oracle=oracle)
    expected = derivative(lambda v: value(metric, v, l, g, estimator, "threshold", oracle), w)
    assert estimate == pytest.approx(value(metric, w, l, g, estimator, "threshold", oracle), rel=1e-12)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7)


def test_estimates_are_those_of_the_metrics():
    w, l, g = draw(3)
    for metric in SMOOTH:
        stated = {"repetitions": True} if metric in ("oracle_aurc", "e_aurc", "naurc") else {}
        assert sample_influences(by_name(metric), l, g, w).estimate == pytest.approx(
            by_name(metric)(l, g, sample_weight=w, **stated), rel=1e-12
        )


def test_fractional_weights():
    rng = np.random.default_rng(8)
    _, l, g = draw(8, zero_one=False)
    w = rng.random(len(l)) + 0.1
    for metric in ("aurc", "augrc", "risk", "prediction_rejection_ratio"):
        _, values = estimate_and_influences(metric, l, g, w)
        np.testing.assert_allclose(
            values, derivative(lambda v, m=metric: value(m, v, l, g), w), rtol=1e-6, atol=1e-7
        )


# roads agree -------------------------------------------------------------------------------------------


def estimate_of(metric, tables, n, zero_one, whole=True):
    """Sums of influences by rows, without a sample in sight."""
    total = totals_from_tables(tables, n, zero_one, False, whole)
    return spread_from_evidence(
        by_name(metric), gather_evidence(tables, total, request_for([by_name(metric)]))
    )


@pytest.mark.parametrize("metric", SMOOTH)
def test_rows_and_samples_agree_for_every_metric(metric):
    rng = np.random.default_rng(0)
    n = 20_000  # more than one piece
    g, l = rng.integers(0, 9000, n) / 9000, rng.random(n) < 0.3
    estimate, values = estimate_and_influences(metric, l, g)
    found = estimate_of(metric, tables_from_samples(l, g), n, True)
    assert found.estimate == pytest.approx(estimate, rel=1e-12)
    assert found.variance == pytest.approx(values @ values / n**2, rel=1e-9)


# public functions --------------------------------------------------------------------------------------


def test_order_of_entry_only_permutes():
    w, l, g = draw(2)
    shuffle = np.random.default_rng(0).permutation(len(l))
    for metric in SMOOTH:
        whole = influence(metric, l, g, sample_weight=w).values
        np.testing.assert_allclose(
            influence(metric, l[shuffle], g[shuffle], sample_weight=w[shuffle]).values,
            whole[shuffle],
            atol=1e-12,
        )
