"""Monitoring: false alarms over streams, detection, series of looks."""

import base64
import hashlib
import itertools
import json
import warnings
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

import abstain
from abstain.errors import AbstainWarning, DataError, InfeasibleError, InputError
from abstain.thresholds import counted_rows, monitoring


@pytest.fixture(scope="module")
def shipped():
    rng = np.random.default_rng(0)
    g = rng.random(4000)
    return abstain.select_threshold(rng.random(4000) < 0.1 * (1 - g), g, risk=0.03, delta=0.05)


def stream(rng, n, risk):
    """Confidences as in calibration, and accepted samples wrong with exactly this probability."""
    return rng.random(n) < risk, rng.random(n)


def at_most(alarms, series, delta):
    """Whether that many alarms are within three standard errors of delta."""
    return alarms / series <= delta + 3 * np.sqrt(delta * (1 - delta) / series)


def test_false_alarms_over_two_thousand_streams(shipped):
    """At the very edge of the promise, looking after every sample of 2,000: at most delta / 2 ever alarm by the risk."""
    rng = np.random.default_rng(1)
    alarms = sum(shipped.check(*stream(rng, 2000, 0.03)).risk_alarm for _ in range(2000))
    assert at_most(alarms, 2000, 0.05 / 2)
    assert alarms > 0


def wealth_of_all_bets(losses, r):
    """All wealth after these losses, one bet at a time: half of it on the first sample, then a part after each."""
    kept = [0.5 / (1 + np.log(1 + k / 100)) for k in range(len(losses) + 1)]
    total = kept[-1]
    for began in range(len(losses) + 1):
        share = 0.5 if began == 0 else kept[began - 1] - kept[began]
        for q in r * np.asarray([1.25, 1.5, 2, 3, 5]):
            factors = [1 + (q - r) / (r * (1 - r)) * (loss - r) for loss in losses[began:]]
            total += share / 5 * np.prod(factors)
    return total


def series_at_the_promise(rng, series, delta):
    """How many series of ten looks alarm, each after a fresh calibration; later data exactly as promised."""
    alarms = drift_alarms = 0
    for _ in range(series):
        t = abstain.select_threshold(np.zeros(300), rng.random(300), risk=0.05, delta=delta)
        seen = None
        for _ in range(10):
            seen = t.check(rng.random(60) < 0.05, rng.random(60), previous=seen)
        alarms += not seen.holds
        drift_alarms += seen.drift_alarm
    return alarms, drift_alarms


def test_drift_false_alarms_over_series_of_looks():
    """The chance of ever alarming is at most delta, and at most half of it by the confidences."""
    alarms, drift_alarms = series_at_the_promise(np.random.default_rng(2), 400, 0.05)
    assert at_most(alarms, 400, 0.05)
    assert at_most(drift_alarms, 400, 0.05 / 2)


@pytest.mark.slow
def test_risk_and_confidences_together_alarm_in_at_most_delta():
    alarms, drift_alarms = series_at_the_promise(np.random.default_rng(12), 2000, 0.1)
    print(
        f"series with an alarm, at exactly the promise: {alarms} of 2000 (delta 0.1), by drift {drift_alarms}"
    )
    assert at_most(alarms, 2000, 0.1)


def test_risk_and_confidences_each_have_half_of_delta(shipped):
    """Three errors and a part of one bring the wealth beyond 1/delta = 20, four errors beyond 2/delta = 40."""
    losses = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.3], [1.0, 1.0, 1.0, 1.0]]
    checks = [shipped.check(x, np.ones(len(x))) for x in losses]
    wealth = [wealth_of_all_bets(x, 0.03) for x in losses]
    assert [check.risk_p for check in checks] == pytest.approx([1 / x for x in wealth])
    assert wealth[0] < 20 < wealth[1] < 40 < wealth[2]
    assert [check.risk_alarm for check in checks] == [False, False, True]
    evenly = (np.arange(400) + 0.5) / 400
    for look in (1, 2, 3):
        levels = []
        for bend in np.linspace(1, 1.6, 121):
            seen = None
            for _ in range(look - 1):
                seen = shipped.check(np.zeros(400), evenly, previous=seen)
            seen = shipped.check(np.zeros(400), evenly**bend, previous=seen)
            assert seen.drift_alarm == (seen.drift_p <= 0.05 / (2 * look * (look + 1)))
            levels.append(seen.drift_p * 2 * look * (look + 1) / 0.05)
        assert (
            min(levels) < 1 < max(x for x in levels if x < 2)
        )  # some lie between the level and twice as much


IMAGES = 10  # of each patient


def patients_at_the_promise(rng, series, looks_of):
    """Alarms of series over 400 patients of ten images, right or wrong and sure or unsure as a whole.

    `looks_of` splits the images, given their patients, into looks.
    """
    alarms = drift_alarms = 0
    patient = np.repeat(np.arange(400), IMAGES)
    looks = looks_of(patient)
    for k in range(series):
        if k % 20 == 0:  # calibrating takes longest
            sure = np.repeat(rng.random(300), IMAGES)
            t = abstain.select_threshold(
                np.zeros(len(sure)), sure, risk=0.1, delta=0.05, clusters=np.repeat(np.arange(300), IMAGES)
            )
        wrong = (rng.random(400) < 0.1)[patient]
        sure = rng.random(400)[patient]
        seen = None
        for rows in looks:
            with suppress(InputError):  # a look without a new patient is refused
                seen = t.check(wrong[rows], sure[rows], clusters=patient[rows], previous=seen)
        alarms += not seen.holds
        drift_alarms += seen.drift_alarm
    return alarms, drift_alarms


def whole_patients(patient):
    return [np.flatnonzero(patient // 100 == k) for k in range(4)]


def an_image_a_day(patient):
    image = np.arange(len(patient)) % IMAGES
    return [np.flatnonzero((patient // 100 == k) & (image == day)) for k in range(4) for day in range(IMAGES)]


def three_images_and_the_rest_of_the_last_look(patient):
    image = np.arange(len(patient)) % IMAGES
    batch = patient // 100
    return [
        np.flatnonzero(((batch == k) & (image < 3)) | ((batch == k - 1) & (image >= 3))) for k in range(5)
    ]


SPLITS = [whole_patients, an_image_a_day, three_images_and_the_rest_of_the_last_look]


@pytest.mark.filterwarnings("ignore:.*left out:abstain.errors.AbstainWarning")
@pytest.mark.parametrize("looks_of", SPLITS)
def test_clusters_split_over_looks_keep_the_promise(looks_of):
    alarms, drift_alarms = patients_at_the_promise(np.random.default_rng(13), 60, looks_of)
    assert at_most(alarms, 60, 0.05)
    assert at_most(drift_alarms, 60, 0.05 / 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*left out:abstain.errors.AbstainWarning")
@pytest.mark.parametrize("looks_of", SPLITS)
def test_clusters_split_over_looks_keep_the_promise_in_two_thousand_series(looks_of):
    alarms, drift_alarms = patients_at_the_promise(np.random.default_rng(14), 2000, looks_of)
    print(f"{looks_of.__name__}: {alarms} alarms of 2000 series (delta 0.05), {drift_alarms} by drift")
    assert at_most(alarms, 2000, 0.05)
    assert at_most(drift_alarms, 2000, 0.05 / 2)


@pytest.fixture(scope="module")
def by_patient():
    rng = np.random.default_rng(15)
    return abstain.select_threshold(
        np.zeros(800), rng.random(800), risk=0.1, clusters=np.repeat(np.arange(200), 4)
    )


def test_a_cluster_counts_once(by_patient):
    """Samples of a cluster of an earlier look are left out of everything, whatever its label looks like."""
    rng = np.random.default_rng(16)
    first = by_patient.check(np.ones(6), rng.random(6), clusters=[1, 1, 1, 2, 2, 3])
    with (
        pytest.raises(InputError, match="`clusters` must hold a cluster that no earlier look held, got none"),
        pytest.warns(AbstainWarning, match="4 of 4 samples are left out"),
    ):
        by_patient.check(np.ones(4), rng.random(4), clusters=["1", "2", "2", "3"], previous=first)
    loss, g = rng.random(6) < 0.5, rng.random(6)
    with pytest.warns(AbstainWarning, match="3 of 6 samples are left out"):
        mixed = by_patient.check(loss, g, clusters=[2.0, 4.0, 4.0, 3.0, 5.0, 1.0], previous=first)
    alone = by_patient.check(loss[[1, 2, 4]], g[[1, 2, 4]], clusters=["4", "4", "5"], previous=first)
    assert mixed == replace(alone, left_out=3)
    assert (mixed.n, mixed.looks) == (9, 2)
    assert "left out: 3 samples" in repr(mixed)
    assert "left out" not in repr(first)
    restored = abstain.thresholds.Check.from_json(mixed.to_json())
    assert restored == mixed
    with pytest.warns(AbstainWarning, match="1 of 2"):
        assert by_patient.check([1, 1], [0.5, 0.5], clusters=["5", "6"], previous=restored).n == 10


def test_a_series_remembers_its_latest_clusters(by_patient, monkeypatch):
    monkeypatch.setattr(monitoring, "CLUSTERS_REMEMBERED", 3)
    seen = by_patient.check(np.zeros(4), np.ones(4), clusters=list("abcd"))
    assert len(base64.b64decode(seen.clusters_seen)) == 3 * 8
    with pytest.warns(AbstainWarning, match="1 of 2"):
        later = by_patient.check(np.zeros(2), np.ones(2), clusters=list("ba"), previous=seen)
    assert later.n == 5  # `a` is forgotten


def test_clusters_of_groups_are_apart():
    rng = np.random.default_rng(17)
    who = np.repeat(np.arange(400), 2)
    site = np.tile(["a", "b"], 400)
    rules = abstain.select_threshold(np.zeros(800), rng.random(800), risk=0.1, groups=site, clusters=who)
    first = rules.check([0, 0], [0.5, 0.5], ["a", "a"], clusters=[7, 8])
    with pytest.warns(AbstainWarning, match="1 of 1"):
        then = rules.check([0, 0, 0], [0.5] * 3, ["a", "b", "b"], clusters=[7, 7, 8], previous=first)
    assert (then["a"].n, then["a"].left_out, then["b"].n, then["b"].left_out) == (2, 1, 2, 0)
    assert abstain.thresholds.GroupChecks.from_json(then.to_json()) == then
    with pytest.warns(AbstainWarning), pytest.raises(InputError, match="got none"):
        rules.check([0, 0], [0.5] * 2, ["a", "b"], clusters=[8, 7], previous=then)


def test_clusters_that_the_rule_does_not_know_are_told(shipped):
    with pytest.warns(AbstainWarning, match="made without clusters"):
        shipped.check([0, 0], [0.9, 0.9], clusters=[1, 1])


def test_an_alarm_says_at_which_look_it_came(shipped):
    """The p-value beside an alarm is that of its own look, also when later looks are fine."""
    rng = np.random.default_rng(18)
    seen = shipped.check(np.zeros(300), rng.random(300))
    assert (seen.drift_alarm_look, seen.drift_alarm_p, seen.risk_alarm_look) == (None, None, None)
    assert "ALARM" not in repr(seen)
    order = "order: samples were tested in the order of their rows; shuffle them if it is not time"
    assert order not in repr(seen)
    shifted = shipped.check(np.zeros(300), rng.random(300) ** 2, previous=seen)
    worse = shipped.check(np.ones(300), rng.random(300), previous=shifted)
    fine = shipped.check(np.zeros(300), rng.random(300), previous=worse)
    assert order not in repr(shifted)  # confidences are compared in any order
    assert order in repr(fine)
    assert (fine.drift_alarm_look, fine.drift_alarm_p) == (2, shifted.drift_p)
    assert (fine.risk_alarm_look, fine.risk_alarm_p) == (3, worse.risk_p)
    assert fine.drift_p > 0.05 > fine.drift_alarm_p
    limit = 0.05 / 2 / (4 * 5)  # of look 4: the levels of all looks sum to half of delta
    drift = f"p = {fine.drift_p:.3g} in this look (limit {limit:.3g}), ALARM at look 2"
    assert f"{drift} (p = {shifted.drift_p:.3g})" in repr(fine)
    counted = fine.alarm_counted
    when = f"raised when p fell to 0.025, with {counted} of its first {counted} accepted wrong"
    assert f"ALARM at look 3 (p = {worse.risk_p:.3g} at its end), {when}" in repr(fine)
    assert 600 < fine.alarm_after < 700
    assert "at most 0.05 in the whole series, 0.025 by risk and 0.025 by confidences" in repr(fine)


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
        stored = None if part is None else abstain.thresholds.Check.from_json(part.to_json())
        part = shipped.check(loss[a : a + 500], g[a : a + 500], previous=stored)
    assert part.log_wealth == pytest.approx(whole.log_wealth)
    assert part.risk_alarm
    assert part.alarm_after == whole.alarm_after
    assert part.risk_p == pytest.approx(whole.risk_p)
    assert part.looks == 6
    assert (part.n, part.accepted) == (whole.n, whole.accepted)
    assert part.risk == pytest.approx(whole.risk)


def test_wealth_is_the_sum_over_all_bets_written_out(shipped):
    rng = np.random.default_rng(6)
    loss, g = stream(rng, 60, 0.3)
    taken = loss[shipped.accepts(g)].astype(float)
    peak = max(wealth_of_all_bets(taken[:k], 0.03) for k in range(len(taken) + 1))
    seen = shipped.check(loss, g)
    assert seen.settled == len(taken)
    assert np.exp(seen.log_peak) == pytest.approx(peak)


def days_until_the_alarm(shipped, rng, *, good_days, risk):
    """Samples from the change to the alarm: 1,000 accepted a day at half the promise, then at this risk."""
    seen = None
    for day in itertools.count():
        wrong = rng.random(1000) < (0.015 if day < good_days else risk)
        seen = shipped.check(wrong, np.ones(1000), previous=seen)
        if seen.risk_alarm:
            return seen.alarm_after - 1000 * good_days


@pytest.fixture
def accepts_all():
    """A promise of 3% whose drift alarm stays silent: all confidences are one number."""
    return abstain.select_threshold(np.zeros(500), np.ones(500), risk=0.03, delta=0.05)


@pytest.mark.parametrize(
    ("risk", "good_days", "most"),
    [(0.06, 0, 1500), (0.06, 30, 2000), (0.09, 0, 500), (0.09, 30, 750)],
)
def test_a_good_time_does_not_make_the_monitor_slow(accepts_all, risk, good_days, most):
    rng = np.random.default_rng(21)
    delays = [days_until_the_alarm(accepts_all, rng, good_days=good_days, risk=risk) for _ in range(15)]
    assert min(delays) > 0  # no alarm in the good days
    assert np.median(delays) <= most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("risk", "good_days", "most"),
    [
        (0.06, 0, 1500),
        (0.06, 10, 2000),
        (0.06, 30, 2000),
        (0.06, 365, 6000),
        (0.09, 0, 500),
        (0.09, 10, 500),
        (0.09, 30, 750),
        (0.09, 365, 1000),
    ],
)
def test_detection_after_good_days_in_two_hundred_streams(accepts_all, risk, good_days, most):
    """The monitor of the documentation: the median number of samples from the change to the alarm."""
    rng = np.random.default_rng(22)
    delays = [days_until_the_alarm(accepts_all, rng, good_days=good_days, risk=risk) for _ in range(200)]
    median = np.median(delays)
    early = sum(delay <= 0 for delay in delays)
    print(f"risk {risk:g} after {good_days} good days: median {median:g} (at most {most}), {early} early")
    assert median <= most
    assert early == 0


@pytest.mark.slow
def test_false_alarms_at_exactly_the_promise_in_four_hundred_streams(accepts_all):
    """One thousand days of 1,000 samples at the promised risk; the stored state stays below 50 kB."""
    rng = np.random.default_rng(23)
    alarms = 0
    for _ in range(400):
        seen = None
        for _ in range(20):  # looks of 50 days: the verdict does not depend on how days are put into looks
            seen = accepts_all.check(rng.random(50_000) < 0.03, np.ones(50_000), previous=seen)
        alarms += seen.risk_alarm
    print(
        f"alarms at exactly the promise over 1,000 days: {alarms} of 400; state {len(seen.to_json())} bytes"
    )
    assert at_most(alarms, 400, 0.025)
    assert alarms <= 0.05 * 400
    assert len(monitoring.with_files(seen, ["0" * 64] * 3000).to_json()) < 50_000


def test_the_recent_risk_is_that_of_the_latest_looks(accepts_all):
    seen = None
    for day in range(5):
        wrong = np.arange(400) < (8 if day < 3 else 40)
        seen = accepts_all.check(wrong, np.ones(400), previous=seen)
    # two looks hold 800 accepted samples, so a third is needed for 1,000
    assert seen.recent_counted == 1200
    assert seen.recent_risk == pytest.approx(88 / 1200)
    assert seen.risk == pytest.approx(104 / 2000)
    for interval, errors, trials in [(seen.risk_interval, 104, 2000), (seen.recent_risk_interval, 88, 1200)]:
        exact = scipy.stats.binomtest(errors, trials).proportion_ci(0.95, method="exact")
        assert interval == pytest.approx((exact.low, exact.high))
    assert (
        f"recent risk 0.07333 [{exact.low:.4g}, {exact.high:.4g}] of 1200 accepted in looks 3 to 5"
        in repr(seen)
    )


def test_a_bad_small_look_after_good_ones_is_shown(accepts_all):
    """17 of 146 wrong after two good months raise no alarm, and the recent risk hides them."""
    seen = None
    for errors, count in [(10, 1500), (10, 1500), (17, 146)]:
        wrong = np.zeros(count)
        wrong[np.linspace(0, count - 1, errors).astype(int)] = 1
        seen = accepts_all.check(wrong, np.ones(count), previous=seen)
    exact = scipy.stats.binomtest(17, 146).proportion_ci(0.95, method="exact")
    assert seen.holds
    assert (seen.look_counted, seen.look_loss_sum) == (146, 17)
    assert seen.look_risk == pytest.approx(17 / 146)
    assert seen.look_risk_interval == pytest.approx((exact.low, exact.high))
    limits = f"[{exact.low:.4g}, {exact.high:.4g}]"
    assert (
        f"this look: 17 of 146 accepted wrong, risk 0.1164 {limits}: above 0.03. The series has no"
        in repr(seen)
    )
    assert "about one look in 40 is above by chance" in repr(seen)
    assert abstain.thresholds.Check.from_json(seen.to_json()) == seen
    better = accepts_all.check(np.zeros(50), np.ones(50), previous=seen)
    assert "this look: 0 of 50 accepted wrong, risk 0 [0, 0.07112]\n" in repr(better)


def test_the_interval_of_a_single_look_is_that_of_its_clusters(by_patient):
    """As `evaluate` gives it; over several looks, of which no rows are kept, clusters count as copies."""
    rng = np.random.default_rng(19)
    wrong = rng.random(1200) < 0.15
    who = np.repeat(np.arange(300), 4)
    seen = by_patient.check(wrong, np.ones(1200), clusters=who)
    expected = abstain.evaluate(loss=wrong, confidence=np.ones(1200), clusters=who, metrics=["risk"])
    (entry,) = [entry for entry in expected.entries if entry.metric == "risk"]
    assert seen.look_risk_interval == pytest.approx((entry.low, entry.high), abs=0.002)
    assert seen.risk_interval == seen.recent_risk_interval == seen.look_risk_interval
    later = by_patient.check(wrong[:400], np.ones(400), clusters=who[:400] + 1000, previous=seen)
    for_copies = scipy.stats.beta.ppf(0.025, later.loss_sum / 4, (1600 - later.loss_sum) / 4 + 1)
    assert later.risk_interval[0] == pytest.approx(for_copies)
    assert "as if samples of a cluster were copies of one" in repr(later)


def test_beside_an_alarm_nothing_is_called_chance(accepts_all):
    """The interval of the recent risk reaches below the promise, and the alarm stands all the same."""
    seen = accepts_all.check(np.arange(1000) < 33, np.ones(1000))
    assert seen.risk_alarm
    assert seen.recent_risk_interval[0] < 0.03 < seen.recent_risk
    assert "above 0.03, by an interval that includes it; the alarm stands" in repr(seen)
    assert "chance" not in repr(seen)


def test_looks_without_an_accepted_sample_have_no_risk(shipped):
    nothing = shipped.check([1, 1], [0.0, 0.0])
    assert (nothing.recent_risk, nothing.recent_risk_interval, nothing.risk_interval) == (None, None, None)
    assert "recent risk - of 0 accepted in look 1" in repr(nothing)
    assert "this look: nothing accepted, so it says nothing about the risk" in repr(nothing)
    assert (nothing.look_counted, nothing.look_risk, nothing.look_risk_interval) == (0, None, None)


def test_a_long_series_of_small_looks_keeps_a_small_state(shipped):
    seen = None
    for _ in range(150):
        seen = shipped.check([0, 1], [0.99, 0.99], previous=seen)
    assert len(seen.recent_looks) == 100
    assert seen.recent_counted == 200
    assert abstain.thresholds.Check.from_json(seen.to_json()) == seen
    remembering = monitoring.with_files(seen, [f"{k:064x}"[::-1] for k in range(2500)])
    rng = np.random.default_rng(0)
    for _ in range(10):
        rows = counted_rows.fingerprint_rows(rng.random(1000), ids=None)
        remembering = monitoring.with_rows(remembering, remembering, rows)
    assert len(remembering.files) == 2000
    assert len(remembering.rows_seen) == 8
    assert abstain.thresholds.Check.from_json(remembering.to_json()) == remembering
    assert len(remembering.to_json()) < 50_000


def test_a_series_of_an_older_version_is_refused_in_one_line(shipped):
    text = shipped.check([0], [0.9]).to_json().replace("abstain.Check/6", "abstain.Check/2")
    with pytest.raises(
        DataError, match=r"got 'abstain.Check/2'. Begin a new series, in a new file.*"
    ) as caught:
        abstain.thresholds.Check.from_json(text)
    assert "\n" not in str(caught.value)


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
    numbers = itertools.count()

    def patients(count):
        sure = np.repeat(rng.random(count), 20)
        who = np.repeat([next(numbers) for _ in range(count)], 20)
        return rng.random(20 * count) < 0.05 * (1 - sure), sure, who

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


# what an alarm says -------------------------------------------------------------------------------------------------


def test_an_alarm_counts_accepted_samples_and_their_errors(shipped):
    """A bad start, then a good time: the alarm is about the start, and the recent risk is fine again."""
    accepted = np.resize([True, False], 100)
    confidence = np.where(accepted, 1.0, 0.0)
    bad_start = np.where(np.arange(100) < 30, accepted, False)
    seen = shipped.check(bad_start, confidence)
    assert seen.risk_alarm
    assert seen.alarm_counted == (seen.alarm_after + 1) // 2  # half of the samples are not accepted
    assert seen.alarm_loss_sum == seen.alarm_counted
    assert f"with {seen.alarm_counted} of its first {seen.alarm_counted} accepted wrong" in repr(seen)
    assert "accepted in look 1: above 0.03" in repr(seen)
    later = shipped.check(np.zeros(3000), np.full(3000, 1.0), previous=seen)
    assert later.alarm_counted == seen.alarm_counted
    assert "accepted in look 2: not above 0.03 now; the alarm stays in this series" in repr(later)


def test_errors_at_the_alarm_are_those_of_its_own_look(shipped):
    rng = np.random.default_rng(4)
    good = shipped.check(rng.random(2000) < 0.01, np.ones(2000))
    bad = shipped.check(rng.random(2000) < 0.2, np.ones(2000), previous=good)
    assert bad.risk_alarm_look == 2
    assert bad.alarm_counted == bad.alarm_after - 2000
    assert 0.1 < bad.alarm_loss_sum / bad.alarm_counted < 0.4


def test_an_alarm_of_losses_that_are_no_errors_counts_accepted_samples():
    rng = np.random.default_rng(5)
    g = rng.random(4000)
    rule = abstain.select_threshold(0.05 * rng.random(4000), g, risk=0.1)
    seen = rule.check(rng.random(500), rng.random(500))
    assert f"after {seen.alarm_counted} accepted samples of it" in repr(seen)


NEW_FIELDS = {
    4: ("alarm_counted", "alarm_loss_sum", "from_calibration", "counts_errors"),
    5: ("rows_seen",),
    6: ("look_counted", "look_loss_sum", "look_risk", "look_risk_interval"),
}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_series_of_an_older_format_is_continued(shipped, version):
    seen = shipped.check(np.ones(100), np.ones(100))
    record = json.loads(seen.to_json())
    del record["checksum"]
    for number, names in NEW_FIELDS.items():
        for name in names if number > version else ():
            del record[name]
    record["format"] = f"abstain.Check/{version}"
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    record["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    again = abstain.thresholds.Check.from_json(json.dumps(record))
    assert again.rows_seen == ()
    assert version > 3 or f"after {seen.alarm_after} samples" in repr(again)
    assert (again.look_counted, again.look_loss_sum, again.look_risk) == (100, 100, None)
    last_look = "this look: 100 accepted" if version == 3 else "this look: 100 of 100 accepted wrong"
    assert f"{last_look}\n" in repr(again)
    assert shipped.check([0], [1.0], previous=again).n == 101


def test_the_first_line_says_what_raised_an_alarm():
    rng = np.random.default_rng(5)
    g = rng.random(2000)
    rule = abstain.select_threshold(rng.random(2000) < 0.05 * (1 - g), g, risk=0.1)

    def look(low, error_rate, previous):
        return rule.check(rng.random(800) < error_rate, rng.uniform(low, 1, 800), previous=previous)

    good = look(0.0, 0.02, None)
    assert repr(good).startswith("Check: no alarm (n = 800, look 1)")
    assert "; confidences as in calibration: p = " in repr(good)
    changed = look(0.5, 0.02, good)
    assert repr(changed).startswith(
        "Check: ALARM by the confidences at look 2; risk: no alarm (n = 1600, look 2)"
    )
    assert "; confidences differ from calibration: p = " in repr(changed)
    # a script tells a new alarm from an old one, and the risk from the confidences
    later = look(0.0, 0.5, changed)
    assert (later.drift_alarm_look, later.risk_alarm_look, later.looks) == (2, 3, 3)
    both = "Check: ALARM by the risk at look 3 and by the confidences at look 2 (n = 2400, look 3)"
    assert repr(later).startswith(both)
    assert "; confidences as in calibration: p = " in repr(later)
    wrong = look(0.0, 0.5, good)
    assert repr(wrong).startswith(
        "Check: ALARM by the risk at look 2; confidences: no alarm (n = 1600, look 2)"
    )
    alone = rule.check_confidences(rng.uniform(0.5, 1, 800))
    assert "; confidences differ from calibration: p = " in repr(alone)


# rows of the calibration data ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classes():
    """Logits and labels of five classes: 3,000 rows to calibrate on, 3,000 that came later."""
    rng = np.random.default_rng(11)
    labels = rng.integers(0, 5, 6000)
    logits = (rng.normal(size=(6000, 5)) + 2 * np.eye(5)[labels]).astype(np.float32)
    rule = abstain.select_threshold(logits=logits[:3000], labels=labels[:3000], risk=0.2)
    assert rule.feasible
    return rule, logits, logits.argmax(1) != labels


def softmax(logits):
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)


@pytest.mark.parametrize("form", ["same", "shuffled", "float64", "probs", "confidence"])
def test_calibration_rows_are_recognised_however_they_come(classes, form):
    rule, logits, wrong = classes
    rows = np.random.default_rng(0).permutation(3000) if form == "shuffled" else np.arange(3000)
    later = {"logits": logits[rows]}
    if form == "float64":
        later = {"logits": logits[rows].astype(np.float64)}
    if form == "probs":
        later = {"probs": softmax(logits[rows].astype(np.float64))}
    if form == "confidence":
        later = {"confidence": softmax(logits[rows].astype(np.float64)).max(1), "units": "plain"}
    with pytest.warns(AbstainWarning, match="rows of the calibration data"):
        check = rule.check(wrong[rows], **later)
    assert 2700 <= check.from_calibration <= 3000
    assert "samples are rows of the calibration data" in repr(check)


@pytest.mark.parametrize(("old", "new"), [(3000, 3000), (1000, 3000), (600, 0), (300, 300)])
def test_calibration_rows_among_others_are_counted(classes, old, new):
    rule, logits, wrong = classes
    rows = np.append(np.arange(old), np.arange(3000, 3000 + new))
    with pytest.warns(AbstainWarning, match="rows of the calibration data"):
        check = rule.check(wrong[rows], logits=logits[rows])
    assert check.from_calibration == pytest.approx(old, rel=0.35)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [5, 50, 500, 3000])
def test_later_rows_are_no_calibration_rows(classes, count):
    rule, logits, wrong = classes
    for form in ("logits", "probs"):
        later = logits[3000 : 3000 + count]
        if form == "probs":
            later = softmax(later)
        assert rule.check(wrong[3000 : 3000 + count], **{form: later}).from_calibration == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("levels", [2, 10, 100, 1000, 10_000, 100_000])
def test_confidences_that_many_samples_share_are_not_taken_for_calibration_rows(levels):
    """Confidences of a few decimals are equal by chance, in calls of any size."""
    rng = np.random.default_rng(12)

    def draw(n):
        g = np.rint(rng.random(n) * levels) / levels
        return rng.random(n) < 0.1 * (1 - g), g

    rule = abstain.select_threshold(*draw(2000), risk=0.08)
    assert rule.feasible
    for count in (1, 3, 10, 30, 100, 300, 1000, 3000):
        for _ in range(20):
            assert rule.check(*draw(count)).from_calibration == 0


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_rounded_calibration_rows_are_recognised_by_all_of_their_counts(decimals):
    """Shuffled, with other names of clusters; one row less is other data, which cannot be told from later ones."""
    rng = np.random.default_rng(14)
    g = np.round(rng.beta(8, 1, 2000), decimals)
    wrong = rng.random(2000) < 0.2 * (1 - g)
    who = np.repeat(np.arange(500), 4)
    rule = abstain.select_threshold(wrong, g, risk=0.1, clusters=who)
    order = rng.permutation(2000)
    with pytest.warns(AbstainWarning, match="about 2,000 of 2,000 samples are rows of the calibration data"):
        assert rule.check(wrong[order], g[order], clusters=1000 + who[order]).from_calibration == 2000
    fresh = np.round(rng.beta(8, 1, 2000), decimals)
    assert rule.check(wrong, fresh, clusters=who).from_calibration == 0


def test_equal_counts_of_few_values_may_be_chance():
    rule = abstain.select_threshold(np.zeros(300), np.repeat([0.8, 0.9], 150), risk=0.1)
    assert rule.check(np.zeros(300), np.repeat([0.9, 0.8], 150)).from_calibration == 0


@pytest.mark.parametrize(("calibrated", "later"), [("float32", "float64"), ("logits", "float64")])
def test_coarser_calibration_rows_equal_later_ones_by_chance(calibrated, later):
    """Nearly saturated: many float32 probabilities are alike up to their rounding, and float64 ones are not."""

    def form(logits, name):
        if name == "logits":
            return {"logits": logits}
        return {"probs": softmax(logits.astype(np.float64)).astype(name)}

    for seed in range(12):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 10, 10_000)
        peaks = rng.gamma(2, 7, size=(10_000, 1)) * np.eye(10)[labels]
        logits = (rng.normal(size=(10_000, 10)) + peaks).astype(np.float32)
        wrong = logits.argmax(1) != labels
        rule = abstain.select_threshold(**form(logits[:4000], calibrated), labels=labels[:4000], risk=0.05)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert rule.check(wrong[4000:], **form(logits[4000:], later)).from_calibration == 0
        half = slice(2000, 6000)  # rows of the calibration data, and as many others
        with pytest.warns(AbstainWarning, match="rows of the calibration data"):
            found = rule.check(wrong[half], **form(logits[half], later)).from_calibration
        assert found == pytest.approx(2000, rel=0.2)


def test_calibration_rows_of_groups_and_of_several_promises_are_recognised():
    rng = np.random.default_rng(13)
    g = rng.random(2000)
    wrong = rng.random(2000) < 0.1 * (1 - g)
    site = np.resize(["a", "b"], 2000)
    rules = abstain.select_threshold(wrong, g, risk=0.1, groups=site)
    with pytest.warns(AbstainWarning, match="rows of the calibration data"):
        assert rules.check(wrong, g, site)["a"].from_calibration == 1000
    both = abstain.select_threshold(losses={"x": wrong, "y": wrong}, confidence=g, risk={"x": 0.1, "y": 0.12})
    with pytest.warns(AbstainWarning, match="rows of the calibration data"):
        assert both.check(wrong, g)["x"].from_calibration == 2000
