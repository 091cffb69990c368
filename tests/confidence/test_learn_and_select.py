from __future__ import annotations

import numpy as np
import pytest

from abstain.confidence import learn_and_select
from abstain.errors import InputError


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    return 2 * a + b + rng.logistic(size=n) > -2, {"a": a, "b": b}


def test_it_fits_on_one_part_and_certifies_on_the_other():
    right, signals = rows(1500)
    rule = learn_and_select(right, signals=signals, risk=0.1, fit_share=0.4)
    assert (rule.n_fit, rule.n_certify) == (600, 900)
    assert rule.confidence.n == 600
    assert rule.threshold.n == 900
    fresh_right, fresh = rows(20_000, seed=1)
    accepted = rule.accepts(signals=fresh)
    assert accepted.mean() > 0.3
    assert (~fresh_right[accepted]).mean() < 0.1
    assert "600 rows to fit the confidence, 900 others to certify" in repr(rule)


def test_clusters_are_never_divided_and_many_rows_mostly_certify():
    right, signals = rows(6000)
    rule = learn_and_select(right, signals=signals, clusters=np.arange(6000) // 10, risk=0.2)
    assert rule.n_fit == 2000
    assert rule.confidence.clusters == 200
    assert rule.threshold.clusters == 400
    assert "About 2,000 to learn are enough: more improve the ranking little" in rule.advice
    half = learn_and_select(right, signals=signals, clusters=np.arange(6000) // 10, risk=0.2, fit_share=0.5)
    assert half.n_fit == 3000
    assert "enough" not in half.advice


def test_a_single_cluster_and_a_wrong_share_are_refused():
    right, signals = rows(100)
    with pytest.raises(InputError, match="at least two clusters"):
        learn_and_select(right, signals=signals, clusters=np.zeros(100), risk=0.1)
    with pytest.raises(InputError, match="`fit_share` must lie in"):
        learn_and_select(right, signals=signals, risk=0.1, fit_share=1.0)


def test_what_could_not_be_certified_comes_with_advice():
    right, signals = rows(300)
    rule = learn_and_select(right, signals=signals, risk=0.001)
    assert not rule.threshold.feasible
    assert "Nothing was certified" in rule.advice
