"""What a user is told whose target cannot be certified."""

import math

import numpy as np
import pytest

import abstain
from abstain.thresholds.calibration import calibrate
from abstain.thresholds.choosing import learn_then_test
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


def feasible_share(loss, confidence, count, risk, runs=10):
    """In which share of data sets of `count` rows, drawn from these with replacement, a threshold is certified."""
    rng = np.random.default_rng(1)
    feasible = []
    for _ in range(runs):
        rows = rng.integers(0, len(loss), count)
        calibration = calibrate("test", loss[rows], confidence[rows], None, (0, 1))
        feasible.append(learn_then_test(calibration, risk, 0.05).accepted_count is not None)
    return np.mean(feasible)


def many_errors(n, seed=0):
    """A model like those of text: 37% errors, fewer where it is sure, but never fewer than about 5%."""
    return sample(n, seed, lambda b: np.maximum(0.05, 0.72 * (1 - b) ** 1.2))


def test_the_number_of_samples_advised_suffices_when_the_data_are_resampled():
    wrong, g = many_errors(8000)
    advised = []
    for risk in (0.07, 0.065):
        t = abstain.select_threshold(wrong, g, risk=risk)
        assert t.value is None
        advised.append(t.advice.samples)
        assert feasible_share(wrong, g, t.advice.samples, risk=risk) >= 0.7
    assert advised[0] < advised[1]


def test_the_number_of_samples_advised_mostly_suffices_on_new_data():
    hits = []
    for seed in range(20):
        wrong, g = sample(1000, seed)
        t = abstain.select_threshold(wrong, g, risk=0.04)
        if t.value is None and t.advice.samples is not None:
            more = sample(t.advice.samples, 100 + seed)
            hits.append(abstain.select_threshold(*more, risk=0.04).feasible)
    assert len(hits) >= 10
    assert np.mean(hits) >= 0.7


def test_the_coverage_that_is_told_is_about_reached():
    wrong, g = many_errors(8000)
    t = abstain.select_threshold(wrong, g, risk=0.07)
    rng = np.random.default_rng(2)
    coverages = []
    for _ in range(9):
        rows = rng.integers(0, 8000, t.advice.samples)
        coverages.append(abstain.select_threshold(wrong[rows], g[rows], risk=0.07).coverage)
    assert 0.4 * t.advice.samples_coverage < np.median(coverages) < 4 * t.advice.samples_coverage
    assert f"at a coverage of about {t.advice.samples_coverage:.2g}" in str(t.advice)


@pytest.mark.parametrize("method", ["ltt", "sgr"])
@pytest.mark.parametrize("seed", range(4))
def test_a_smaller_target_never_needs_fewer_samples(method, seed):
    """And the smallest risk that can be certified is the same, whatever was asked for."""
    wrong, g = many_errors(3000, seed)
    advised = []
    smallest = set()
    for risk in (0.075, 0.07, 0.065, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01):
        t = abstain.select_threshold(wrong, g, risk=risk, method=method)
        if not t.feasible:
            advised.append(math.inf if t.advice.samples is None else t.advice.samples)
            smallest.add(t.advice.risk)
    assert advised == sorted(advised)
    assert len(advised) >= 5
    assert len(smallest) == 1


def test_no_number_rests_on_a_few_samples_without_errors():
    """The thirty surest answers are right, the others are wrong in a tenth of the cases: 30 samples say too little."""
    g = np.linspace(1, 0, 3000)
    wrong = np.arange(3000) % 10 == 9
    wrong[:30] = False
    t = abstain.select_threshold(wrong, g, risk=0.02)
    assert t.value is None
    assert t.advice.samples is None


def test_too_few_samples_are_told_so():
    t = abstain.select_threshold(np.zeros(30), np.arange(30.0), risk=0.05)
    assert t.advice.why_none == "few"
    message = (
        "These data are too few to tell how many samples the target needs. Even without a single error, 59 accepted "
        "ones are needed; with errors, more."
    )
    assert message in repr(t)


def surest_are_right(n, right, wrong_from_there):
    """Losses, most confident first: `right` samples without an error, then errors at this rate."""
    wrong = np.arange(n) % round(1 / wrong_from_there) == 0
    wrong[:right] = False
    return wrong, -np.arange(float(n))


@pytest.mark.parametrize("n", [50, 55, 60, 80])
@pytest.mark.parametrize("clusters", [False, True])
def test_few_samples_do_not_call_for_a_better_model_if_the_surest_are_right(n, clusters):
    """Thresholds that accept 50 of them accept nearly all, and say nothing of a smaller coverage."""
    wrong, g = surest_are_right(n, n // 2, 1 / 3)
    t = abstain.select_threshold(wrong, g, risk=0.05, clusters=np.arange(n) if clusters else None)
    assert not t.feasible
    assert t.advice.why_none != "risk"
    assert "model has to improve" not in repr(t)
    hopeless = abstain.select_threshold(*surest_are_right(n, 0, 1 / 3), risk=0.05)
    assert hopeless.advice.why_none == "risk"


def test_hopeless_models_are_told_so():
    rng = np.random.default_rng(0)
    t = abstain.select_threshold(rng.random(5000) < 0.3, rng.random(5000), risk=0.01)
    assert t.value is None
    assert t.advice.samples is None
    assert t.advice.why_none == "risk"
    assert "model has to improve" in repr(t)


def test_a_risk_of_zero_is_certified_by_no_number_of_samples():
    t = abstain.select_threshold(np.zeros(500), np.arange(500.0), risk=1e-12)
    assert t.advice.samples is None


def test_advice_for_losses_that_are_not_errors():
    rng = np.random.default_rng(3)
    g = rng.random(2000)
    loss = np.clip(rng.beta(1, 6, 2000) * (1.5 - g), 0, 1)
    t = abstain.select_threshold(loss, g, risk=0.09)
    assert t.value is None
    assert t.advice.samples is not None
    assert feasible_share(loss, g, t.advice.samples, risk=0.09) >= 0.7


def test_advice_with_weights():
    rng = np.random.default_rng(3)
    wrong, g = sample(2000, 5)
    weight = rng.uniform(0.2, 1, 2000)
    t = abstain.select_threshold(wrong, g, risk=0.05, sample_weight=weight)
    assert t.value is None
    assert t.advice.samples is not None
    feasible = []
    for _ in range(10):
        rows = rng.integers(0, 2000, t.advice.samples)
        again = calibrate("test", wrong[rows], g[rows], weight[rows], (0, 1))
        feasible.append(learn_then_test(again, 0.05, 0.05).accepted_count is not None)
    assert np.mean(feasible) >= 0.7


def test_a_promise_about_some_samples_counts_all_samples():
    """A tenth of the samples are of the class: ten times as many are needed as of that class alone."""
    wrong, g = sample(6000, 1)
    among = np.arange(6000) % 10 == 0
    both = abstain.select_threshold(
        losses={"all": wrong, "class": wrong},
        confidence=g,
        risk={"all": 0.2, "class": 0.05},
        among={"class": among},
    )
    alone = abstain.select_threshold(wrong[among], g[among], risk=0.05)
    assert both["class"].advice.samples >= 9 * alone.advice.samples
    assert both["class"].advice.samples <= 12 * alone.advice.samples


def test_what_would_do_is_told_in_clusters():
    rng = np.random.default_rng(7)
    few = abstain.select_threshold(
        *(x := patients(rng, 60, (20, 20), lambda g: 0.3 * (1 - g) ** 4, 0.3))[:2], risk=0.05, clusters=x[2]
    )
    assert not few.feasible
    assert few.advice.unit == "clusters"
    assert 100 < few.advice.samples < 400
    assert "clusters would certify the target" in str(few.advice)


def test_the_number_of_clusters_advised_mostly_suffices():
    rng = np.random.default_rng(7)
    feasible = []
    for _ in range(8):
        loss, g, person = patients(rng, 80, (20, 20), lambda g: 0.3 * (1 - g) ** 3, 0.3)[:3]
        few = abstain.select_threshold(loss, g, risk=0.05, clusters=person)
        if few.feasible or few.advice.samples is None:
            continue
        more = patients(rng, few.advice.samples, (20, 20), lambda g: 0.3 * (1 - g) ** 3, 0.3)
        feasible.append(abstain.select_threshold(more[0], more[1], risk=0.05, clusters=more[2]).feasible)
    assert len(feasible) >= 4
    assert np.mean(feasible) >= 0.7


def test_a_smaller_target_never_needs_fewer_clusters():
    rng = np.random.default_rng(7)
    loss, g, person = patients(rng, 100, (20, 20), lambda g: 0.3 * (1 - g) ** 3, 0.3)[:3]
    advised = []
    for risk in (0.06, 0.05, 0.04, 0.03, 0.02, 0.01):
        t = abstain.select_threshold(loss, g, risk=risk, clusters=person)
        if not t.feasible:
            advised.append(math.inf if t.advice.samples is None else t.advice.samples)
    assert advised == sorted(advised)
    assert len(advised) >= 3
