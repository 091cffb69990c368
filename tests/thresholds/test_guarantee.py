"""The promise itself, by simulation through the public function; margins are three simulation errors."""

import importlib
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.special import bdtr
from scipy.stats import binom

import abstain

DELTA = 0.1


@pytest.fixture(autouse=True)
def no_advice(monkeypatch):
    """What to tell the user when nothing is feasible is no part of the promise, and costs most of the time."""
    monkeypatch.setattr(importlib.import_module("abstain.thresholds.select"), "advise", lambda *args: None)


def broken_share(draw, true_risk, sims, **options):
    """How often the true risk of the chosen threshold is above the target."""
    rng = np.random.default_rng(0)
    count = found = 0
    for _ in range(sims):
        loss, g = draw(rng)
        t = abstain.select_threshold(loss, g, delta=DELTA, **options)
        if t.value is not None:
            found += 1
            count += true_risk(t.value) > options["risk"] + 1e-12
    return count / sims, found / sims


def margin(sims):
    return DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / sims)


@pytest.mark.parametrize("method", ["ltt", "sgr"])
@pytest.mark.parametrize("bounded", [False, True])
def test_continuous_scores(method, bounded):
    """Expected loss .15 (1 - g): the true risk above t is .075 (1 - t)."""

    def draw(rng):
        g = rng.random(1200)
        mean = 0.15 * (1 - g)
        return (rng.beta(2 * mean, 2 * (1 - mean)) if bounded else rng.random(1200) < mean), g

    broken, found = broken_share(draw, lambda t: 0.075 * (1 - max(t, 0.0)), 400, risk=0.06, method=method)
    assert broken <= margin(400)
    assert found > 0.5


def atoms(mass, risk):
    """Population on atoms, most confident first, with the risk of accepting the first j + 1 of them."""
    mass, risk = np.asarray(mass, dtype=float), np.asarray(risk, dtype=float)
    mass = mass / mass.sum()
    return mass, risk, np.cumsum(mass * risk) / np.cumsum(mass)


HARD = {
    "all barely too risky": ([1] * 20, [0.1001] * 20),
    "a rare bad top over an almost good block": ([3, 97], [1.0, 0.0730]),
    "bad, then improving": ([5, 20, 75], [0.3, 0.12, 0.0807]),
    "in and out of the promise": ([10, 10, 10, 10, 60], [0.05, 0.16, 0.06, 0.19, 0.0995]),
    "light atoms, then a heavy one": ([1, 1, 1, 1, 1, 95], [0.5, 0.0, 0.9, 0.3, 0.4, 0.08431]),
}


@pytest.mark.parametrize("n", [100, 600])
@pytest.mark.parametrize("name", HARD)
def test_ties_and_risks_that_fall_and_rise(name, n):
    """Atoms built so that the promise is just broken at most of them; no monotone risk, no luck with ties."""
    mass, eta, accepted_risk = atoms(*HARD[name])

    def draw(rng):
        which = rng.choice(len(mass), n, p=mass)
        return rng.random(n) < eta[which], -which.astype(float)

    def true_risk(t):
        if t == -np.inf:
            return accepted_risk[-1]
        taken = -np.arange(len(mass)) >= t
        return (mass * eta)[taken].sum() / mass[taken].sum()

    assert (accepted_risk > 0.1).any()
    sims = 500
    broken, _ = broken_share(draw, true_risk, sims, risk=0.1)
    assert broken <= margin(sims)


def test_flat_risk_at_the_boundary_is_nearly_tight():
    """Every threshold breaks the promise by a hair: failures should be near delta, or the method is timid."""

    def draw(rng):
        return rng.random(1000) < 0.1001, rng.random(1000)

    broken, _ = broken_share(draw, lambda t: 0.1001, 500, risk=0.1)
    assert 0.02 < broken <= margin(500)


@pytest.mark.parametrize("r", [0.05, 0.3])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 6])
def test_a_start_moved_to_a_block_stays_within_its_level(r, alpha):
    """The claim of `sequence` about starts inside a block, evaluated exactly on a grid.

    j of N samples lie above the block. With j below kappa the set above cannot pass and the block is tested, else the
    set above is. Both hypotheses are true; the risk of all is exactly r.
    """
    kappa = int(np.ceil(np.log(alpha) / np.log1p(-r)))
    start = int(np.ceil(1.5 * np.log(alpha) / np.log1p(-r)))
    worst = 0.0
    for N in (start + 1, 2 * start, 6 * start):
        critical = [int(binom.ppf(alpha, k, r)) if k else 0 for k in range(N + 1)]
        critical = [c if bdtr(c, max(k, 1), r) <= alpha else c - 1 for k, c in enumerate(critical)]
        for above in (0.1, 1.0, 3.0, 0.7 * kappa, kappa, 1.3 * kappa):
            for top in (1.0001 * r, 1.5 * r, min(1.0, 3 * r), 1.0):
                q = above / N
                rest = (r - q * top) / (1 - q)
                if rest >= 0:
                    worst = max(worst, _error(N, q, top, rest, kappa, critical))
    assert worst <= alpha
    assert worst > 0.5 * alpha


def _error(N, q, top, rest, kappa, critical):
    j = np.arange(N + 1)
    weight = binom.pmf(j, N, q)
    total = 0.0
    for k in j[weight > 1e-13]:
        if k >= kappa:
            total += weight[k] * binom.cdf(critical[k], k, top)
        else:
            s = np.arange(min(k, critical[N]) + 1)
            total += weight[k] * (binom.pmf(s, k, top) * binom.cdf(critical[N] - s, N - k, rest)).sum()
    return total


def test_crc_controls_what_it_says():
    """Mean over calibration sets of the accepted loss per sample; not the risk of the accepted."""
    rng = np.random.default_rng(1)
    paid, above = [], 0
    for _ in range(1500):
        g = rng.random(200)
        t = abstain.select_threshold(rng.random(200) < 0.3 * (1 - g), g, risk=0.05, method="crc")
        c = 0.0 if t.value is None else 1 - t.value
        paid.append(0.15 * c**2)
        above += 0.15 * c > 0.05
    assert np.mean(paid) <= 0.05 + 3 * np.std(paid) / np.sqrt(1500)
    assert np.mean(paid) > 0.04
    assert above > 1000  # the risk of the accepted is another matter


def test_groups_keep_all_promises_at_once():
    rng = np.random.default_rng(2)
    broken = 0
    for _ in range(250):
        g, label = rng.random(900), np.repeat([0, 1, 2], 300)
        both = abstain.select_threshold(rng.random(900) < 0.1501, g, risk=0.15, delta=DELTA, groups=label)
        broken += any(t.value is not None for t in both.thresholds.values())
    assert broken / 250 <= margin(250)


def test_importance_weights_carry_the_promise_to_the_other_population():
    """Calibrated under uniform g, deployed under density 2 g: risk .2 (1 - g) weighted by 2 g."""
    rng = np.random.default_rng(3)

    def later_risk(t):
        t = max(t, 0.0)
        return 0.2 * ((1 - t**2) / 2 - (1 - t**3) / 3) / ((1 - t**2) / 2)

    broken = found = 0
    for _ in range(500):
        g = rng.random(1500)
        t = abstain.select_threshold(
            rng.random(1500) < 0.2 * (1 - g), g, risk=0.06, delta=DELTA, sample_weight=2 * g
        )
        if t.value is not None:
            found += 1
            broken += later_risk(t.value) > 0.06
    assert broken / 500 <= margin(500)
    assert found > 400


def test_planted_faults_break_the_promise(monkeypatch):
    """The simulations can fail: test the most optimistic start at full level each, and the flat profile shows it."""
    from abstain.thresholds import testing

    def test_every_rank_at_full_level(p_values, weights, least_p=None):
        return testing.Walk(level=np.full(p_values.shape, DELTA), passed=p_values <= DELTA)

    monkeypatch.setattr(testing, "walk", test_every_rank_at_full_level)

    def draw(rng):
        return rng.random(1000) < 0.1001, rng.random(1000)

    broken, _ = broken_share(draw, lambda t: 0.1001, 300, risk=0.1)
    assert broken > margin(300)


@pytest.mark.slow
def test_the_published_table():
    """5,000 calibrations per setting: violations, share of the best possible, and never behind SGR."""
    bench = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "thresholds.py"))
    rows = bench["study"](5000)
    worst, allowed, behind, shares = bench["report"](rows, 5000)
    assert worst["ltt"] <= 0.05 + allowed
    assert worst["sgr"] <= 0.05 + allowed
    assert not behind
    assert min(shares) >= 0.65
    nothing = [r for r in rows if r.method == "ltt" and r.best == 0]
    assert nothing
    assert min(r.none for r in nothing) >= 1 - 0.05 - allowed
