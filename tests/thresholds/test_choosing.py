"""Each method that chooses a threshold, against its definition."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

import abstain
from abstain.thresholds.testing import plan
from tests.thresholds.test_select import sample


def exact_tail(errors, n, r):
    r = Fraction(r).limit_denominator(10**6)
    a, b = r.numerator, r.denominator
    return float(Fraction(sum(comb(n, j) * a**j * (b - a) ** (n - j) for j in range(errors + 1)), b**n))


def brute_walk(p, w, least=None):
    """The fallback procedure as a story: carry what was won; what cannot pass is stepped over."""
    carried, out = 0.0, []
    for j, (pj, wj) in enumerate(zip(p, w)):
        level = carried + wj
        ok = level > 0 and pj <= level
        out.append(ok)
        carried = level if ok or (least is not None and least[j] > level) else 0.0
    return out


def slow_ltt(wrong, g, risk, delta):
    """Sets of samples and exact sums only; the ranks and weights are taken as given."""
    ranks, weights = plan(len(g), risk, delta)
    falling = sorted(g, reverse=True)
    accepted_at = [
        [bool(x) for x, c in zip(wrong, g) if k >= len(g) or c > falling[min(k, len(g) - 1)]] for k in ranks
    ]
    p = [exact_tail(sum(a), len(a), risk) if a else 1.0 for a in accepted_at]
    passed = brute_walk(p, weights, [(1 - risk) ** len(a) for a in accepted_at])
    sizes = [len(a) for a, ok in zip(accepted_at, passed) if ok and a]
    return max(sizes, default=0)


@pytest.mark.parametrize("levels", [None, 7, 30])
@pytest.mark.parametrize("seed", range(6))
def test_default_method_equals_the_slow_version(seed, levels):
    wrong, g = sample(500, seed, lambda b: 0.35 * (1 - b), levels)
    t = abstain.select_threshold(wrong, g, risk=0.15, delta=0.1)
    expected = slow_ltt(wrong.tolist(), g.tolist(), 0.15, 0.1)
    assert int(t.accepts(g).sum()) == expected
    assert t.coverage == expected / 500
    assert t.coverage < 1


def test_sgr_counts_errors_and_does_not_floor_them():
    """int(m * mean) loses an error where the quotient is rounded down; the true count must be tested."""
    lost = [(m, e) for m in range(64, 400) for e in range(m // 2) if int(m * (e / m)) != e]
    assert lost  # the published rounding does lose errors
    for m, e in lost[:20]:
        wrong = np.zeros(2 * m, dtype=bool)
        wrong[m - e : m] = (
            True  # e errors among the m most confident: the first step of the search tests these
        )
        t = abstain.select_threshold(wrong, -np.arange(2.0 * m), risk=0.5, method="sgr")
        row = t.table.accepted.tolist().index(m)
        assert t.table.p_value[row] == pytest.approx(exact_tail(e, m, 0.5), rel=1e-9)
        assert t.table.p_value[row] > exact_tail(e - 1, m, 0.5) * 1.0001


def test_sgr_never_returns_a_threshold_whose_bound_misses_the_target():
    """The published search returns its last step; where no step passes there must be no threshold."""
    misses = 0
    for seed in range(40):
        wrong, g = sample(300, seed)
        t = abstain.select_threshold(wrong, g, risk=0.05, method="sgr")
        steps = int(np.ceil(np.log2(300)))
        if t.value is None:
            misses += 1
            continue
        taken = t.accepts(g)
        assert exact_tail(int(wrong[taken].sum()), int(taken.sum()), 0.05) <= 0.05 / steps
    assert misses > 0


def test_sgr_bounds_what_it_deploys_under_ties():
    """A block that straddles the rank tested is left out whole: its errors cannot come in by the back door."""
    g = np.concatenate([np.full(64, 0.9), np.full(1000, 0.5)])
    wrong = np.concatenate([np.zeros(64), np.zeros(500), np.ones(500)]).astype(bool)
    t = abstain.select_threshold(wrong, g, risk=0.1, delta=0.2, method="sgr")
    assert t.value is not None
    np.testing.assert_array_equal(t.accepts([0.9, 0.5]), [True, False])
    assert t.coverage == 64 / 1064
    for value, accepted, p in zip(t.table.value, t.table.accepted, t.table.p_value):
        taken = g >= value
        assert taken.sum() == accepted
        assert p == pytest.approx(
            exact_tail(int(wrong[taken].sum()), int(accepted), 0.1), rel=1e-9, abs=1e-300
        )


def test_empirical_is_the_largest_block_within_the_risk():
    wrong, g = sample(500, 2, levels=25)
    t = abstain.select_threshold(wrong, g, risk=0.1, method="empirical")
    good = [v for v in np.unique(g) if wrong[g >= v].mean() <= 0.1]
    assert t.value == min(good)
    assert t.guarantee is None
    assert t.coverage == abstain.coverage_at_risk(wrong, g, risk=0.1)


def test_crc_is_the_definition():
    wrong, g = sample(500, 2, levels=25)
    t = abstain.select_threshold(wrong, g, risk=0.05, method="crc")
    good = [v for v in np.unique(g) if (wrong[g >= v].sum() + 1) / 501 <= 0.05]
    assert t.value == min(good)
    assert "per sample of all" in t.guarantee
    assert "not the error rate of the accepted" in t.guarantee


def test_coverage_form_with_and_without_certainty():
    wrong, g = sample(1000, 2)
    plain = abstain.select_threshold(wrong, g, coverage=0.5, method="empirical")
    assert plain.coverage == 0.5
    sure = abstain.select_threshold(wrong, g, coverage=0.5)
    assert 0.5 < sure.coverage < 0.55
    assert "accepted" in sure.guarantee
    assert abstain.select_threshold(wrong, g, coverage=1.0).value == -np.inf
    short = 0
    for seed in range(2000):
        conf = np.random.default_rng(seed).random(60)
        short += 1 - abstain.select_threshold(np.zeros(60), conf, coverage=0.5, delta=0.1).value < 0.5
    assert short / 2000 <= 0.1 + 3 * np.sqrt(0.09 / 2000)
    assert short / 2000 > 0.04  # and not by being timid


def test_cost_form_agrees_with_the_metric():
    wrong, g = sample(700, 4, levels=30)
    t = abstain.select_threshold(wrong, g, cost=0.1)
    assert t.value == abstain.metrics.best_rejection(wrong, g, cost=0.1).threshold
    assert t.guarantee is None
    nothing = abstain.select_threshold(np.ones(9), np.arange(9.0), cost=0.1)
    assert nothing.value is None
    dear = abstain.select_threshold(wrong * 20.0, g, cost=2.0)  # costs need no bound
    assert dear.value == t.value


def test_coverage_of_fractional_weights_is_met_by_the_share_asked_for():
    loss, confidence = np.zeros(20), 20.0 - np.arange(20)
    chosen = abstain.select_threshold(
        loss, confidence, coverage=0.5, method="empirical", sample_weight=np.full(20, 0.1)
    )
    assert chosen.value == 11


@pytest.mark.parametrize("seed", range(5))
def test_conformal_leaves_room_for_the_sample_to_come(seed):
    """The largest threshold with (S + 1)/(n + 1) <= r, found by trying all of them."""
    loss, g = sample(60, seed)
    r = 0.06
    good = [t for t in g if (sum(loss[g >= t]) + 1) / 61 <= r]
    chosen = abstain.select_threshold(loss, g, risk=r, method="crc")
    assert chosen.value == (min(good) if good else None)
    edge = (sum(loss[g >= chosen.value]) + 1) / 61
    assert abstain.select_threshold(loss, g, risk=edge * (1 - 1e-9), method="crc").value != chosen.value
