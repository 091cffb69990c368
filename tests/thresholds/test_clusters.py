"""Clusters: whole patients are the unit of the promise. False promises by simulation, p-values by enumeration."""

from math import comb

import numpy as np
import pytest
from scipy.special import ndtr

import abstain
from abstain.errors import InputError
from abstain.thresholds import select, testing

DELTA = 0.05


def patients(rng, count, each, wrong, rho, spread=0.3):
    """Samples of patients: confidences and losses depend within a patient, a loss on its confidence by `wrong`."""
    size = rng.integers(each[0], each[1] + 1, count)
    who = np.repeat(np.arange(count), size)
    n = len(who)
    own, alone = rng.normal(size=(2, count)), rng.normal(size=(2, n))
    confidence = ndtr(np.sqrt(spread) * own[0][who] + np.sqrt(1 - spread) * alone[0])
    luck = ndtr(np.sqrt(rho) * own[1][who] + np.sqrt(1 - rho) * alone[1])
    return luck < wrong(confidence), confidence, who


def always(risk):
    return lambda g: np.full_like(g, risk)


@pytest.fixture
def without_advice(monkeypatch):
    """What would be feasible takes ten times as long as the choice, and is not what is simulated."""
    monkeypatch.setattr(select, "advise", lambda *given: None)


def certified(runs, seed, count, each, wrong, rho, *, clusters=True, risk=0.05, **options):
    """Share of runs that ship a threshold, and the thresholds."""
    rng, values = np.random.default_rng(seed), []
    for _ in range(runs):
        l, g, who = patients(rng, count, each, wrong, rho)
        given = {"clusters": who} if clusters else {}
        t = abstain.select_threshold(l, g, risk=risk, delta=DELTA, **given, **options)
        if t.feasible:
            values.append(t.value)
    return len(values) / runs, values


@pytest.mark.parametrize("risk", [0.05, 0.2])
@pytest.mark.parametrize("count", [20, 60, 150])
def test_a_cluster_that_is_wrong_as_a_whole_is_the_worst_case(count, risk):
    """Terms are 1 - r with chance r and else -r: the exact chance of a small p-value, over all numbers of errors."""
    terms = np.stack([np.where(np.arange(count) < k, 1 - risk, -risk) for k in range(count + 1)])
    p = testing.p_value_mean_above_zero(terms, risk)
    chance = np.asarray([comb(count, k) * risk**k * (1 - risk) ** (count - k) for k in range(count + 1)])
    for level in (0.2, 0.05, 0.01, 0.001):
        assert chance[p <= level].sum() <= level
    assert (np.diff(p) >= 0).all()
    assert p[0] < 3 * (1 - risk) ** (0.9 * count)


def test_the_p_value_is_the_wealth_written_out():
    rng = np.random.default_rng(0)
    terms, risk = rng.uniform(-0.1, 0.05, size=(3, 60)), 0.1
    for row, p in zip(terms, testing.p_value_mean_above_zero(terms, risk)):
        wealth = 0.0
        for j in range(1, 9):
            stake, product = 0.98 / 0.9 / 2 ** (j - 1), 1.0
            for x in row:
                product *= 1 - stake * x
            wealth += product / 2**j
        assert wealth > 1.2
        assert p == pytest.approx(1 / wealth)


def test_sixty_patients_of_twenty_images_promise_nothing_false(without_advice):
    """True risk 6%, promised 5%: taken as independent images this is certified far too often."""
    naive = certified(300, 1, 60, (20, 20), always(0.06), 0.9, clusters=False)[0]
    assert naive > 2 * DELTA
    assert certified(300, 1, 60, (20, 20), always(0.06), 0.9)[0] <= DELTA


def test_many_patients_at_the_edge(without_advice):
    """Whole patients wrong or right, at the promised risk: the sharpest case there is."""
    assert certified(300, 2, 400, (1, 3), always(0.0501), 0.99)[0] <= DELTA + 3 * np.sqrt(DELTA * 0.95 / 300)


def test_there_is_power():
    share, values = certified(30, 3, 300, (20, 20), lambda g: 0.3 * (1 - g) ** 4, 0.3)
    assert share >= 0.9
    g = np.linspace(np.median(values), 1, 10_001)
    assert 0.3 * ((1 - g) ** 4).mean() < 0.05
    assert np.mean([1 - v if np.isfinite(v) else 1.0 for v in values]) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "each", "wrong", "rho"),
    [
        (60, (20, 20), always(0.06), 0.9),
        (150, (1, 1), always(0.0501), 0.0),
        (400, (1, 3), always(0.0501), 0.99),
        (400, (20, 20), always(0.0501), 0.99),
        (400, (1, 40), always(0.0501), 0.9),
        (800, (5, 5), lambda g: np.where(g > 0.5, 0.0501, 0.2), 0.9),
        (800, (5, 5), lambda g: np.where(g > 0.7, 0.0501, 0.049), 0.9),
    ],
)
def test_violations_stay_below_delta(without_advice, count, each, wrong, rho):
    """Every threshold that these ship above the crossing is a broken promise; 1,000 runs."""
    assert certified(1000, 4, count, each, wrong, rho)[0] <= DELTA + 3 * np.sqrt(DELTA * 0.95 / 1000)


def test_weights_and_scaled_losses_come_along():
    rng = np.random.default_rng(5)
    l, g, who = patients(rng, 400, (5, 5), lambda g: 0.3 * (1 - g) ** 4, 0.3)
    plain = abstain.select_threshold(l, g, risk=0.05, clusters=who)
    assert plain.clusters == 400
    assert plain.largest == 5
    assert (
        abstain.select_threshold(l, g, risk=0.05, clusters=who, sample_weight=np.ones(len(l))).value
        == plain.value
    )
    scaled = abstain.select_threshold(
        10.0 * l, g, risk=0.5, clusters=[f"p{k:03}" for k in who], bounded=(0, 10)
    )
    assert scaled.value == plain.value
    assert "400 calibration clusters (2000 samples)" in plain.guarantee
    assert "none larger than the largest here (5)" in plain.guarantee
    assert abstain.Threshold.from_json(plain.to_json()).to_json() == plain.to_json()


def test_methods_that_cannot_refuse():
    l, g, who = patients(np.random.default_rng(6), 50, (3, 3), always(0.1), 0.3)
    with pytest.raises(InputError, match="independent samples"):
        abstain.select_threshold(l, g, clusters=who, risk=0.2, method="sgr")
    free = abstain.select_threshold(l, g, coverage=0.5, method="empirical", clusters=who)
    assert free.guarantee is None
    with pytest.raises(InputError, match="one label per sample"):
        abstain.select_threshold(l, g, risk=0.2, clusters=who[:-1])


def test_a_certain_coverage_is_that_of_clusters():
    """Confidences depend within a patient; the true coverage of g >= t is 1 - t."""
    rng, short, naive, shares = np.random.default_rng(9), 0, 0, []
    for _ in range(200):
        l, g, who = patients(rng, 200, (5, 5), always(0.1), 0.3, spread=0.95)
        t = abstain.select_threshold(l, g, coverage=0.7, delta=DELTA, clusters=who)
        short += 1 - max(t.value, 0) < 0.7
        shares.append(1 - max(t.value, 0))
        naive += 1 - abstain.select_threshold(l, g, coverage=0.7, delta=DELTA).value < 0.7
    assert naive / 200 > 2 * DELTA
    assert short / 200 <= DELTA + 3 * np.sqrt(DELTA * 0.95 / 200)
    assert np.mean(shares) < 0.9
    assert "200 calibration clusters" in t.guarantee


def test_extremes():
    l, g, who = np.zeros(40), np.linspace(0, 1, 40), np.arange(40) // 2
    for groups in (np.zeros(40), who):
        t = abstain.select_threshold(l, g, risk=0.01, clusters=groups)
        assert not t.feasible
        assert abstain.select_threshold(l, g, coverage=1.0, clusters=groups).value == -np.inf


@pytest.mark.parametrize("seed", range(4))
def test_conformal_by_clusters_is_the_definition(seed):
    """Clusters are exchangeable: the mean over C + 1 of them, the worst one added, of a loss that only grows."""
    rng = np.random.default_rng(seed)
    l, g, who = patients(rng, 40, (1, 4), always(0.3), 0.5)
    r, most, best = 0.15, np.bincount(who).max(), None
    for t in np.sort(g)[::-1]:
        per = [((l * (g >= t))[who == c].sum() - r * (who == c).sum()) / most + r for c in range(40)]
        if (sum(per) + 1) / 41 <= r + 1e-12:
            best = t
    assert abstain.select_threshold(l, g, risk=r, method="crc", clusters=who).value == best


def test_monitoring_bets_on_whole_clusters():
    """At the edge of the promise clusters that are wrong as a whole would alarm a test of single samples."""
    rng = np.random.default_rng(8)
    l, g, who = patients(rng, 600, (5, 5), lambda g: 0.3 * (1 - g) ** 4, 0.3)
    t = abstain.select_threshold(l, g, risk=0.05, clusters=who)
    alarms = naive = 0
    plain = abstain.select_threshold(l, g, risk=0.05)
    for _ in range(200):
        l, g, who = patients(rng, 100, (5, 5), always(0.05), 0.95)
        alarms += t.check(l, g, clusters=who).risk_alarm
        naive += plain.check(l, g).risk_alarm
    assert naive / 200 > 2 * DELTA
    assert alarms / 200 <= DELTA + 3 * np.sqrt(DELTA * 0.95 / 200)
    l, g, who = patients(rng, 600, (5, 5), always(0.2), 0.5)
    late = t.check(l, g, clusters=who)
    assert late.risk_alarm
    assert late.alarm_after % 5 == 0
    half = len(l) // 10 * 5
    first = t.check(l[:half], g[:half], clusters=who[:half])
    second = t.check(l[half:], g[half:], clusters=who[half:], previous=first)
    assert second.log_wealth == pytest.approx(late.log_wealth)
    with pytest.raises(InputError, match="whole clusters"):
        t.check(l, g)
    with pytest.raises(InputError, match="at most 5"):
        t.check(l, g, clusters=who // 2)


# two crossed kinds of clusters -----------------------------------------------------------------------

PLACES, WEEKS, TARGET = 200, 8, 0.1
RATE = 0.22  # of wrong forecasts in a bad week; every second week is bad, so the risk in new weeks is 0.11


def forecasts(rng, bad_weeks):
    """Losses of one forecast for every place and week: in a good week none is wrong."""
    week = np.tile(np.arange(WEEKS), PLACES)
    place = np.repeat(np.arange(PLACES), WEEKS)
    wrong = bad_weeks[week] & (rng.random(len(week)) < RATE)
    return wrong, place, week


@pytest.mark.usefixtures("without_advice")
def test_clusters_of_one_kind_promise_for_the_same_clusters_of_the_other():
    """By place: kept for new places in the same weeks, not for new weeks."""
    rng = np.random.default_rng(5)
    runs = 150
    broken_in_the_same_weeks = broken_in_new_weeks = 0
    for _ in range(runs):
        bad_weeks = rng.random(WEEKS) < 0.5
        wrong, place, _ = forecasts(rng, bad_weeks)
        rule = abstain.select_threshold(wrong, np.ones(len(wrong)), risk=TARGET, clusters=place)
        broken_in_the_same_weeks += rule.feasible and RATE * bad_weeks.mean() > TARGET
        broken_in_new_weeks += rule.feasible
    assert broken_in_the_same_weeks <= 0.05 * runs
    assert broken_in_new_weeks > 0.1 * runs


@pytest.mark.usefixtures("without_advice")
def test_one_cell_for_each_place_and_week_promises_for_both():
    """150 weeks, each at another place: bad weeks are seen as often as they come."""
    rng = np.random.default_rng(6)
    broken = 0
    for _ in range(150):
        wrong = (rng.random(150) < 0.5) & (rng.random(150) < RATE)  # one cell: its own week, its own place
        rule = abstain.select_threshold(wrong, np.ones(150), risk=TARGET, clusters=np.arange(150))
        broken += rule.feasible
    assert broken <= 0.05 * 150


def test_two_kinds_of_clusters_are_refused_with_the_choice():
    rng = np.random.default_rng(7)
    wrong, place, week = forecasts(rng, np.zeros(WEEKS, dtype=bool))
    sure = rng.random(len(wrong))
    message = "must be one kind of clusters, got two. Give the kind that will be new"
    with pytest.raises(InputError, match=message):
        abstain.select_threshold(wrong, sure, risk=TARGET, clusters=[place, week])
    with pytest.raises(InputError, match=message):
        abstain.cascade({"a": (wrong, sure, 1.0)}, risk=TARGET, person=(9.0, 0.0), clusters=[place, week])
    rule = abstain.select_threshold(wrong, sure, risk=TARGET, clusters=place)
    assert rule.feasible
    with pytest.raises(InputError, match=message):
        rule.check(wrong, sure, clusters=[place, week])
