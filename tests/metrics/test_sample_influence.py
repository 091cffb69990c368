"""Influence functions against numerical derivatives of definitions written out here, weight by weight."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma, gammaln

import abstain
from abstain.core.rows import Blocks
from abstain.core.stretch import table_of_blocks, tables_of, totals_of
from abstain.inference import influence, standard_error
from abstain.inference.evidence import gather_evidence, request_for, spread_from_evidence
from abstain.metrics import METRICS, by_name
from abstain.metrics.sample_influence import sample_influences

ESTIMATORS = ("harmonic", "log", "loo", "sele", "2sele")
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
@pytest.mark.parametrize("ties", ["threshold", "expected"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("zero_one", [True, False])
def test_area_influence_is_the_derivative(estimator, ties, zero_one, weights, seed):
    w, l, g = draw(seed, zero_one=zero_one, weights=weights)
    estimate, values = estimate_and_influences(
        "aurc", l, g, w if weights else None, estimator=estimator, ties=ties
    )
    assert estimate == pytest.approx(value("aurc", w, l, g, estimator, ties), rel=1e-12)
    expected = derivative(lambda v: value("aurc", v, l, g, estimator, ties), w)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7)
    assert w @ values == pytest.approx(0, abs=1e-12 * w.sum())


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
            getattr(abstain, metric)(l, g, sample_weight=w, **stated), rel=1e-12
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


@pytest.mark.parametrize("n", [3, 50, 20_000])
@pytest.mark.parametrize("levels", [None, 7])
@pytest.mark.parametrize("dtype", [bool, np.float32, np.float64])
def test_sweep_rows_and_samples_agree(n, levels, dtype):
    rng = np.random.default_rng(n)
    g = rng.random(n) if levels is None else rng.integers(0, levels, n) / levels
    l = rng.random(n) < 0.3 if dtype is bool else rng.exponential(1.0, n).astype(dtype)
    l[0] = 1
    estimate, values = estimate_and_influences("aurc", l, g)
    found = estimate_of("aurc", tables_of(l, g), n, dtype is bool)
    assert found.estimate == pytest.approx(estimate, rel=1e-12)
    assert found.variance == pytest.approx(values @ values / n**2, rel=1e-9)
    assert found.variance_excess == pytest.approx(
        np.sum((values / n) ** 4) - found.variance**2 / n, rel=1e-7, abs=1e-12
    )
    assert found.centre == pytest.approx(abstain.aurc(l, g, estimator="loo"), rel=1e-12)
    up = np.sort(g)
    per = np.cumsum(1 / (n - np.searchsorted(up, up)))  # each sample at or below counts 1 / (accepted there)
    alpha = per[np.searchsorted(up, g, "right") - 1]
    assert found.weighted_loss == pytest.approx(np.sum(alpha * l) / n, rel=1e-10)
    assert found.weighted_loss_squares == pytest.approx(np.sum((alpha * l) ** 2) / n**2, rel=1e-10)


def estimate_of(metric, tables, n, zero_one, whole=True):
    """Sums of influences by rows, without a sample in sight."""
    total = totals_of(tables, n, zero_one, False, whole)
    return spread_from_evidence(
        by_name(metric), gather_evidence(tables, total, request_for([by_name(metric)]))
    )


def test_weighted_rows_agree_with_samples_and_merge():
    rng = np.random.default_rng(4)
    n = 400
    g, l, w = rng.integers(0, 30, n) / 30, rng.exponential(1, n), rng.random(n) + 0.2
    for metric in ("aurc", "augrc", "risk"):
        _, values = estimate_and_influences(metric, l, g, w)
        whole = Blocks.from_samples(l[:150], g[:150], w[:150]).merge(
            Blocks.from_samples(l[150:], g[150:], w[150:])
        )
        found = estimate_of(metric, [table_of_blocks(whole)], n, False, False)
        v = w * values / w.sum()
        assert found.variance == pytest.approx(np.sum(v**2), rel=1e-10)
        assert found.variance_excess == pytest.approx(np.sum(v**4) - found.variance**2 / n, rel=1e-8)


@pytest.mark.parametrize("metric", SMOOTH)
def test_rows_and_samples_agree_for_every_metric(metric):
    rng = np.random.default_rng(0)
    n = 20_000  # more than one piece
    g, l = rng.integers(0, 9000, n) / 9000, rng.random(n) < 0.3
    estimate, values = estimate_and_influences(metric, l, g)
    found = estimate_of(metric, tables_of(l, g), n, True)
    assert found.estimate == pytest.approx(estimate, rel=1e-12)
    assert found.variance == pytest.approx(values @ values / n**2, rel=1e-9)


def test_batched_rows_count_beyond_a_byte():
    """Bytes hold the sorted errors; counts must not."""
    rng = np.random.default_rng(0)
    g, l = rng.random((2, 700)), rng.random((2, 700)) < 0.5
    both = abstain.risk_at_coverage(l, g, coverage=0.9)
    assert both.tolist() == [abstain.risk_at_coverage(l[i], g[i], coverage=0.9) for i in range(2)]


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


def test_abstained_samples_keep_the_error_of_the_rest_except_for_augrc():
    rng = np.random.default_rng(1)
    n = 300
    g, l, out = rng.random(n), rng.random(n) < 0.3, rng.random(n) < 0.2
    for metric in ("aurc", "naurc", "auroc", "risk"):
        alone = standard_error(metric, l[~out], g[~out])
        assert standard_error(metric, l, g, abstained=out) == pytest.approx(alone, rel=1e-9)
        assert influence(metric, l, g, abstained=out).values[out].tolist() == [0.0] * int(out.sum())
    # AUGRC is a mean over all of what a threshold accepts: the derivative of its definition, abstentions at the bottom
    found = influence("augrc", l, g, abstained=out)

    def augrc(w):
        kept = w * ~out
        return sum(m * S for m, _, _, S in blocks_of(kept[~out], l[~out] * 1.0, g[~out])) / (
            kept.sum() * w.sum()
        )

    assert found.estimate == pytest.approx(abstain.augrc(l, g, abstained=out), rel=1e-12)
    np.testing.assert_allclose(found.values, derivative(augrc, np.ones(n)), rtol=1e-5, atol=1e-7)


def test_standard_error_adds_up_clusters_first():
    w, l, g = draw(6)
    clusters = np.arange(len(l)) // 4
    values = influence("aurc", l, g, sample_weight=w).values
    sums = [sum((w * values)[clusters == c]) for c in range(6)]
    by_hand = np.sqrt(np.sum(np.square(sums)) * 6 / 5) / w.sum()
    assert standard_error("aurc", l, g, sample_weight=w, clusters=clusters) == pytest.approx(
        by_hand, rel=1e-12
    )


def test_singleton_clusters_change_nothing_but_the_small_sample_factor():
    _, l, g = draw(6)
    n = len(l)
    alone = standard_error("aurc", l, g, clusters=np.arange(n))
    assert alone == pytest.approx(standard_error("aurc", l, g) * np.sqrt(n / (n - 1)), rel=1e-10)


@pytest.mark.parametrize("metric", ["risk_at_coverage", "coverage_at_risk", "fpr_at_tpr"])
def test_no_influence_for_quantile_like_metrics(metric):
    option = {"risk_at_coverage": {"coverage": 0.5}, "coverage_at_risk": {"risk": 0.1}}.get(metric, {})
    with pytest.raises(abstain.errors.InputError, match="Use `interval`"):
        standard_error(metric, [0, 1, 0], [3, 2, 1], **option)
