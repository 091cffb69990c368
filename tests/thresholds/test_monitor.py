"""Monitoring: false alarms over streams, detection, series of looks."""

import numpy as np
import pytest

import abstain
from abstain.errors import InfeasibleError, InputError


@pytest.fixture(scope="module")
def shipped():
    rng = np.random.default_rng(0)
    g = rng.random(4000)
    return abstain.select_threshold(rng.random(4000) < 0.1 * (1 - g), g, risk=0.03, delta=0.05)


def stream(rng, n, risk):
    """Confidences as in calibration, and accepted samples wrong with exactly this probability."""
    return rng.random(n) < risk, rng.random(n)


def test_false_alarms_over_two_thousand_streams(shipped):
    """At the very edge of the promise, looking after every sample of 2,000: at most delta ever alarm."""
    rng = np.random.default_rng(1)
    alarms = sum(shipped.check(*stream(rng, 2000, 0.03)).risk_alarm for _ in range(2000))
    assert alarms / 2000 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
    assert alarms > 0


def test_drift_false_alarms_over_series_of_looks(shipped):
    """Fresh calibrations and ten looks each: the chance of ever alarming is at most delta."""
    rng = np.random.default_rng(2)
    alarms = 0
    for _ in range(400):
        g = rng.random(300)
        t = abstain.select_threshold(np.zeros(300), g, risk=0.05, delta=0.05)
        seen = None
        for _ in range(10):
            seen = t.check(np.zeros(60), rng.random(60), previous=seen)
        alarms += seen.drift_alarm
    assert alarms / 400 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_a_doubled_risk_is_found_soon(shipped):
    rng = np.random.default_rng(3)
    delays = [shipped.check(*stream(rng, 20_000, 0.06)).alarm_after for _ in range(200)]
    assert None not in delays
    accepted = np.median(delays) * shipped.coverage
    assert accepted < 700  # log(20) / KL(.06, .03) = 242 accepted samples would be the ideal


def test_drift_of_the_confidences_is_found(shipped):
    rng = np.random.default_rng(4)
    later = shipped.check(np.zeros(500), rng.random(500) ** 1.5)
    assert later.drift_alarm
    assert later.drift_p < 1e-4
    assert not later.risk_alarm
    assert not later.holds
    assert "ALARM" in repr(later)


def test_one_look_or_many_give_the_same_wealth(shipped):
    rng = np.random.default_rng(5)
    loss, g = stream(rng, 3000, 0.05)
    whole = shipped.check(loss, g)
    part = None
    for a in range(0, 3000, 500):
        part = shipped.check(loss[a : a + 500], g[a : a + 500], previous=part)
    assert part.log_wealth == pytest.approx(whole.log_wealth)
    assert part.alarm_after == whole.alarm_after
    assert part.looks == 6
    assert (part.n, part.accepted) == (whole.n, whole.accepted)
    assert part.risk == pytest.approx(whole.risk)


def test_wealth_is_the_product_written_out(shipped):
    rng = np.random.default_rng(6)
    loss, g = stream(rng, 50, 0.3)
    r = 0.03
    taken = loss[shipped.accepts(g)]
    wealth = [
        np.prod([q / r if l else (1 - q) / (1 - r) for l in taken])
        for q in r * np.asarray([1.25, 1.5, 2, 3, 5])
    ]
    assert np.exp(shipped.check(loss, g).log_wealth) == pytest.approx(wealth)


def test_only_the_accepted_count(shipped):
    rng = np.random.default_rng(7)
    g = rng.random(1000)
    loss = ~shipped.accepts(g)
    seen = shipped.check(loss, g)
    assert seen.risk == 0
    assert seen.risk_p == 1


def test_crc_watches_the_loss_per_sample_of_all():
    rng = np.random.default_rng(8)
    g = rng.random(2000)
    t = abstain.select_threshold(rng.random(2000) < 0.3 * (1 - g), g, risk=0.05, method="crc")
    later = rng.random(6000)
    fine = t.check(rng.random(6000) < 0.3 * (1 - later), later)
    assert fine.risk > 0.05  # the risk of the accepted is above, and that was never promised
    assert not fine.risk_alarm
    assert t.check(rng.random(6000) < 0.9 * (1 - later), later).risk_alarm


def test_nothing_to_check_and_foreign_losses():
    t = abstain.select_threshold([0, 0], [0.1, 0.2], risk=0.01)
    with pytest.raises(InfeasibleError):
        t.check([0], [0.5])
    t = abstain.select_threshold(np.zeros(200), np.arange(200.0), risk=0.05)
    with pytest.raises(InputError, match="bounded"):
        t.check([3.0], [0.5])


def test_a_loaded_threshold_checks_alike(shipped):
    rng = np.random.default_rng(9)
    later = stream(rng, 400, 0.05)
    back = abstain.Threshold.from_json(shipped.to_json())
    assert back.check(*later) == shipped.check(*later)


def test_a_series_is_of_one_threshold(shipped):
    rng = np.random.default_rng(3)
    g = rng.random(4000)
    other = abstain.select_threshold(rng.random(4000) < 0.1 * (1 - g), g, risk=0.05, delta=0.05)
    first = shipped.check(*stream(rng, 500, 0.02))
    assert shipped.check(*stream(rng, 500, 0.02), previous=first).looks == 2
    with pytest.raises(InputError, match="`previous` must be a check of this threshold"):
        other.check(*stream(rng, 500, 0.02), previous=first)


def test_an_alarm_is_not_taken_back(shipped):
    """A bad stretch, then a long good one: wealth falls again, the alarm and its p-value stay."""
    loss = np.arange(2500) < 30
    g = np.ones(2500)
    first = shipped.check(loss, g)
    later = shipped.check(np.zeros(2000), np.ones(2000), previous=first)
    assert first.risk_alarm
    assert later.risk_alarm
    assert later.risk_p == first.risk_p
    assert max(later.log_wealth) < -np.log(0.05)
    assert later.alarm_after == first.alarm_after < 30


def test_confidences_of_whole_clusters_rarely_alarm_wrongly():
    """Twenty images of a patient are nearly as sure as one another: what counts is the number of patients."""
    rng = np.random.default_rng(10)

    def patients(count):
        sure = np.repeat(rng.random(count), 20)
        return rng.random(20 * count) < 0.05 * (1 - sure), sure, np.repeat(np.arange(count), 20)

    alarms = missed = 0
    for _ in range(150):
        loss, g, who = patients(150)
        t = abstain.select_threshold(loss, g, coverage=0.6, clusters=who)
        seen = None
        for _ in range(3):
            loss, g, who = patients(60)
            seen = t.check(loss, g, clusters=who, previous=seen)
        low, high = seen.coverage_interval
        alarms += seen.drift_alarm
        missed += not low <= min(1, 1 - t.value) <= high
    assert alarms / 150 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)
    assert missed / 150 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)
    loss, g, who = patients(400)
    assert t.check(loss, g**3, clusters=who).drift_alarm


def test_confidences_are_held_against_those_of_the_later_population():
    """Importance weights say that later data differ from the calibration data: that alone is no drift."""
    rng = np.random.default_rng(11)
    alarms = found = 0
    for _ in range(200):
        g = rng.random(1500)
        t = abstain.select_threshold(np.zeros(1500), g, risk=0.1, sample_weight=0.2 + 1.6 * g)
        u = rng.random((2, 800))
        later = np.where(u[0] < 0.2, u[1], np.sqrt(u[1]))  # of density 0.2 + 1.6 g
        alarms += t.check(np.zeros(800), later).drift_alarm
        found += t.check(np.zeros(800), u[1]).drift_alarm
        assert abstain.Threshold.from_json(t.to_json()).to_json() == t.to_json()
    assert alarms / 200 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert found == 200
