"""What a user is told whose target cannot be certified."""

import numpy as np
import pytest

import abstain
from tests.thresholds.test_clusters import patients
from tests.thresholds.test_select import sample


def test_no_feasible_threshold_says_what_would_be():
    wrong, g = sample(200, 1)
    t = abstain.select_threshold(wrong, g, risk=0.02)
    assert t.value is None
    assert not t.feasible
    assert t.guarantee is None
    assert t.risk is None
    assert not t.accepts(g).any()
    assert t.rule == "accept nothing"
    assert "no feasible threshold" in repr(t)
    assert t.advice.risk > 0.02
    again = abstain.select_threshold(wrong, g, risk=t.advice.risk)
    assert again.feasible
    assert again.coverage == pytest.approx(t.advice.coverage)
    assert not abstain.select_threshold(wrong, g, risk=t.advice.risk * 0.9).feasible


def test_the_number_of_samples_advised_mostly_suffices():
    hits = []
    for seed in range(20):
        wrong, g = sample(400, seed)
        t = abstain.select_threshold(wrong, g, risk=0.04)
        if t.value is None and t.advice.samples is not None:
            more = sample(2 * t.advice.samples, 100 + seed)
            hits.append(abstain.select_threshold(*more, risk=0.04).feasible)
    assert len(hits) >= 10
    assert np.mean(hits) >= 0.7


def test_hopeless_models_are_told_so():
    rng = np.random.default_rng(0)
    t = abstain.select_threshold(rng.random(5000) < 0.3, rng.random(5000), risk=0.01)
    assert t.value is None
    assert t.advice.samples is None
    assert "model has to improve" in repr(t)


def test_what_would_do_is_told_in_clusters():
    rng = np.random.default_rng(7)
    few = abstain.select_threshold(
        *(x := patients(rng, 60, (20, 20), lambda g: 0.3 * (1 - g) ** 4, 0.3))[:2], risk=0.05, clusters=x[2]
    )
    assert not few.feasible
    assert few.advice.unit == "clusters"
    assert 100 < few.advice.samples < 400
    assert "clusters would do" in str(few.advice)
