"""Several promises by one threshold: what is certified, violations over populations, records, and later checks."""

import base64
import json

import numpy as np
import pytest
import scipy.stats

import abstain
from abstain.errors import DataError, InputError, ShapeError
from abstain.thresholds import (
    GroupChecks,
    JointGroupThresholds,
    JointThreshold,
    decision_record,
    monitoring,
)


def draw(n=3000, seed=0):
    """Confidence, errors and hours lost; hours are at most 1 and only lost by errors."""
    rng = np.random.default_rng(seed)
    sure = rng.random(n)
    wrong = rng.random(n) < 0.2 * (1 - sure)
    return sure, wrong, np.where(wrong, rng.random(n), 0.0)


def two_promises(n=3000, seed=0, **options):
    sure, wrong, hours = draw(n, seed)
    return abstain.select_threshold(
        losses={"errors": wrong, "hours": hours},
        confidence=sure,
        risk={"errors": 0.08, "hours": 0.05},
        **options,
    )


def binary(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    positive = np.clip(0.5 + (label - 0.5) * 0.6 + 0.25 * rng.normal(size=n), 0.01, 0.99)
    return np.stack([1 - positive, positive], axis=1), label


# what is certified ---------------------------------------------------------------------------------


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(1000), 3)])
def test_the_same_promise_twice_is_one_promise(clusters):
    sure, wrong, _ = draw()
    both = abstain.select_threshold(
        wrong, sure, risk={"a": 0.08, "b": 0.08}, **({} if clusters is None else {"clusters": clusters})
    )
    alone = abstain.select_threshold(wrong, sure, risk=0.08, clusters=clusters)
    assert both.value == alone.value
    assert both["a"].table.p_value.tolist() == alone.table.p_value.tolist()


def test_a_threshold_passes_where_the_largest_p_value_does():
    """Each row of the two tables holds the p-value of its own loss; a row passed exactly if both are at most its level."""
    rule = two_promises()
    errors = rule["errors"].table
    exact = scipy.stats.binom.cdf(np.rint(errors.risk * errors.accepted), errors.accepted, 0.08)
    assert errors.p_value == pytest.approx(exact)
    largest = np.maximum(errors.p_value, rule["hours"].table.p_value)
    assert np.array_equal(errors.passed, (largest <= errors.level) & (errors.level > 0))
    assert np.array_equal(errors.passed, rule["hours"].table.passed)
    assert errors.passed.any()
    assert not errors.passed.all()
    assert rule.risks["errors"] == pytest.approx(errors.risk[errors.passed][-1])


@pytest.mark.parametrize("has_errors", [True, False])
def test_a_promise_about_a_class_counts_its_samples_only(has_errors):
    probs, label = binary()
    if not has_errors:
        label[probs.argmax(axis=1) == 1] = 1
    rule = abstain.select_threshold(probs=probs, labels=label, risk={0: 0.05, 1: 0.06})
    predicted = probs.argmax(axis=1)
    accepted = rule.accepts(probs=probs)
    for name, target in ((0, 0.05), (1, 0.06)):
        taken = accepted & (predicted == name)
        error_count = int((label[taken] != name).sum())
        assert rule.counted[name].samples == int((predicted == name).sum())
        assert rule.counted[name].accepted == int(taken.sum())
        assert rule.risks[name] == error_count / taken.sum()  # exactly, so that no error is a risk of 0
        row = np.flatnonzero(rule[name].table.passed)[-1]
        exact = scipy.stats.binom.cdf(error_count, int(taken.sum()), target)
        assert rule[name].table.p_value[row] == pytest.approx(exact)
    assert "predicted as class 1 is at most 0.06" in rule.guarantee
    by_mask = abstain.select_threshold(
        predicted != label,
        abstain.scores.max_softmax(probs=probs),
        risk={"no": 0.05, "yes": 0.06},
        among={"no": predicted == 0, "yes": predicted == 1},
    )
    assert by_mask.value == rule.value


# violations over populations -----------------------------------------------------------------------

TARGETS = {"a": 0.1, "b": 0.2}


def populations():
    """Twenty populations of (confidence levels in [0, 1], chance of each loss there, share that promise b is about).

    Confidences are uniform over 400 steps, or over 8 with many ties. The chance of a loss crosses its target at some
    confidence, in steps, slopes, waves and floors; where one promise is kept the other is often broken.
    """
    for step_count in (400, 8):
        g = (np.arange(step_count) + 0.5) / step_count
        wave = 0.5 + 0.5 * np.sin(12 * g)
        profiles = [
            (0.1 + 1e-6 + 0 * g, 0.2 + 1e-6 + 0 * g),  # both just above their targets everywhere
            (0.1 + 1e-6 + 0 * g, 0.02 + 0 * g),
            (0.02 + 0 * g, 0.2 + 1e-6 + 0 * g),
            (0.25 * (1 - g), 0.5 * (1 - g)),
            (np.where(g > 0.5, 0.09, 0.12), np.where(g > 0.7, 0.19, 0.22)),
            (0.2 * wave, 0.4 * (1 - wave)),
            (0.12 - 0.04 * (g < 0.3), 0.3 * (1 - g) ** 2 + 0.12),
            (0.2 * g, 0.4 * (1 - g)),
            (0.3 * (1 - g) ** 3, 0.21 + 0 * g),
            (0.11 * (g > 0.8) + 0.09 * (g <= 0.8), 0.25 * (g > 0.8) + 0.1 * (g <= 0.8)),
        ]
        for k, (first, second) in enumerate(profiles):
            yield g, first, second, 0.4 if k % 2 else 1.0


def true_risks(g, first, second, value):
    """Mean loss of each kind above the threshold, in the population."""
    accepted = g >= value
    return first[accepted].mean(), second[accepted].mean()


def count_violations(population, runs, rng, n=600, delta=0.1):
    """In how many of the runs the chosen threshold breaks some promise."""
    g, first, second, share = population
    violations = 0
    for _ in range(runs):
        level = rng.integers(0, len(g), n)
        loss_a = rng.random(n) < first[level]
        common = rng.random(n)  # losses of one sample depend on each other
        loss_b = np.where(common < second[level], 1.0, 0.0)
        options = {} if share == 1.0 else {"among": {"b": rng.random(n) < share}}
        rule = abstain.select_threshold(
            losses={"a": loss_a, "b": loss_b}, confidence=g[level], risk=TARGETS, delta=delta, **options
        )
        if rule.value is not None:
            risk_a, risk_b = true_risks(g, first, second, rule.value)
            violations += risk_a > TARGETS["a"] + 1e-12 or risk_b > TARGETS["b"] + 1e-12
    return violations


@pytest.fixture
def without_advice(monkeypatch):
    """Advice on what would be feasible takes ten times as long as the choice of a threshold."""
    monkeypatch.setattr("abstain.thresholds.select.advise", lambda *_args, **_options: None)


@pytest.mark.usefixtures("without_advice")
def test_some_promise_is_broken_in_at_most_delta():
    rng = np.random.default_rng(1)
    for population in list(populations())[:10:3]:
        violations = count_violations(population, 60, rng)
        assert violations / 60 <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 60)


@pytest.mark.slow
@pytest.mark.usefixtures("without_advice")
def test_some_promise_is_broken_in_at_most_delta_in_twenty_populations():
    rng = np.random.default_rng(2)
    shares = []
    for population in populations():
        violations = count_violations(population, 2000, rng)
        shares.append(violations / 2000)
        print(f"population {len(shares)}: some promise broken in {violations} of 2000 (delta 0.1)")
    assert len(shares) == 20
    assert max(shares) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 2000)


@pytest.mark.slow
def test_power_beside_single_promises():
    """Coverage that two promises keep together, beside the smaller coverage of the two promises alone."""
    for n in (500, 2000, 8000):
        coverage = {"together": [], "errors alone": [], "hours alone": []}
        for seed in range(100):
            sure, wrong, hours = draw(n, seed)
            both = abstain.select_threshold(
                losses={"errors": wrong, "hours": hours},
                confidence=sure,
                risk={"errors": 0.08, "hours": 0.04},
            )
            coverage["together"].append(both.coverage)
            coverage["errors alone"].append(abstain.select_threshold(wrong, sure, risk=0.08).coverage)
            coverage["hours alone"].append(abstain.select_threshold(hours, sure, risk=0.04).coverage)
        means = {name: float(np.mean(values)) for name, values in coverage.items()}
        print(n, {name: round(mean, 3) for name, mean in means.items()})
        assert means["together"] >= 0.85 * min(means["errors alone"], means["hours alone"])


# records and later data ----------------------------------------------------------------------------


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(1000), 3)])
def test_a_rule_comes_back_from_json(clusters, tmp_path):
    rule = two_promises(**({} if clusters is None else {"clusters": clusters}))
    assert rule.feasible
    rule.save(tmp_path / "rule.json")
    loaded = abstain.load_rule(tmp_path / "rule.json")
    assert isinstance(loaded, JointThreshold)
    assert loaded.to_json() == rule.to_json()
    assert repr(loaded) == repr(rule)
    assert "all of these hold at once: errors: the mean loss of the accepted is at most 0.08; hours" in repr(
        rule
    )
    assert "errors at most 0.08, hours at most 0.05, method ltt" in decision_record(rule)
    assert rule.frame("dict")["promise"] == ["errors", "hours"]
    assert "<pre>JointThreshold" in rule._repr_html_()


def test_a_tampered_rule_is_refused():
    stored = json.loads(two_promises().to_json())
    stored["promises"][1][1]["target"] = 0.5
    with pytest.raises(DataError):
        JointThreshold.from_json(json.dumps(stored))
    with pytest.raises(DataError, match=r"`counted` must have the names"):
        JointThreshold.from_json(json.dumps({**stored, "promises": stored["promises"][::-1], **_untouched()}))


def _untouched():
    """The promises of an untouched rule, in the other order than `counted`."""
    return {"promises": json.loads(two_promises().to_json())["promises"][::-1]}


def test_later_data_are_held_against_each_promise():
    rule = two_promises()
    sure, wrong, hours = draw(4000, seed=1)
    fine = rule.check({"errors": wrong, "hours": hours}, sure)
    assert isinstance(fine, GroupChecks)
    assert fine.holds
    assert fine["hours"].delta == 0.025
    worse = rule.check({"errors": wrong, "hours": wrong.astype(float)}, sure, previous=fine)
    later = rule.check({"errors": wrong, "hours": wrong.astype(float)}, sure, previous=worse)
    assert later["hours"].risk_alarm
    assert not later["errors"].risk_alarm
    assert GroupChecks.from_json(later.to_json()) == later


def test_later_data_of_classes():
    probs, label = binary()
    rule = abstain.select_threshold(probs=probs, labels=label, risk={0: 0.05, 1: 0.06})
    later_probs, later_label = binary(seed=1)
    predicted = later_probs.argmax(axis=1)
    later_label[predicted == 1] = 0  # every positive answer is now wrong
    seen = rule.check(predicted != later_label, probs=later_probs)
    assert seen[1].risk == 1.0
    assert seen[1].risk_alarm
    assert not seen[0].risk_alarm
    assert seen[0].counted == int((rule.accepts(probs=later_probs) & (predicted == 0)).sum())
    text = repr(seen)
    assert f"of {seen[0].counted} accepted that promise 0 is about (of {seen[0].accepted}), promised" in text
    assert f"this look: {seen[1].counted:,} of {seen[1].counted:,} accepted wrong" in text
    with pytest.raises(InputError, match="need `among=`, or `logits=` or `probs=`"):
        rule.check(predicted != later_label, later_probs.max(axis=1), units="plain")


def test_without_a_threshold_the_promise_that_fails_alone_has_advice():
    sure, wrong, hours = draw()
    rule = abstain.select_threshold(
        losses={"errors": wrong, "hours": hours}, confidence=sure, risk={"errors": 0.0001, "hours": 0.05}
    )
    assert not rule.feasible
    assert rule.guarantee is None
    assert rule["errors"].advice is not None
    assert rule["hours"].advice is None
    assert JointThreshold.from_json(rule.to_json()).to_json() == rule.to_json()
    assert "None: no threshold keeps all promises." in decision_record(rule)


def test_advice_counts_all_clusters_for_a_promise_about_some():
    """Of 1,000 clusters 100 hold a sample of the rare class: ten times as many are needed as hold one."""
    cluster = np.repeat(np.arange(1000), 4)
    rare = (cluster < 100) & (np.arange(4000) % 4 == 0)
    wrong = np.random.default_rng(0).random(4000) < 0.02
    wrong[rare] = False
    sure = np.random.default_rng(1).random(4000)
    options = {"clusters": cluster, "among": {"rare": rare, "others": ~rare}}
    rule = abstain.select_threshold(wrong, sure, risk={"rare": 0.02, "others": 0.1}, **options)
    alone = abstain.select_threshold(wrong[rare], sure[rare], risk=0.02, clusters=cluster[rare])
    assert alone.advice.samples > 100
    assert rule["rare"].advice.samples >= 10 * alone.advice.samples
    assert "calibration clusters would certify" in rule.advice


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"risk": {"a": 0.1}}, InputError, "at least two promises, got 1"),
        ({"risk": {"a": 0.1, "b": 3}}, InputError, "`risk`"),
        ({"risk": {"a": 0.1, "b": 0.1}, "method": "crc"}, InputError, "several promises take"),
        ({"risk": {"a": 0.1, "b": 0.1}, "coverage": 0.5}, InputError, "several promises take"),
        ({"risk": {"a": 0.1, "b": 0.1}, "losses": {"a": [0] * 100}}, InputError, "got both"),
        ({"risk": {"a": 0.1, "b": 0.1}, "among": {"c": [True] * 100}}, InputError, "must name promises"),
        ({"risk": {"a": 0.1, "b": 0.1}, "among": {"a": [1] * 100}}, InputError, "truth values"),
        ({"risk": {"a": 0.1, "b": 0.1}, "among": {"a": [True]}}, ShapeError, "one truth value per sample"),
        ({"risk": {"a": 0.1, "b": 0.1}, "among": {"a": [False] * 100}}, InputError, "about some samples"),
        ({"risk": 0.1, "among": {"a": [True] * 100}}, InputError, "go with a dict of risks"),
    ],
)
def test_what_cannot_be_promised_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        abstain.select_threshold(np.zeros(100), np.arange(100.0), **options)


def test_names_and_samples_must_fit_the_rule():
    rule = two_promises()
    sure, wrong, _ = draw()
    with pytest.raises(InputError, match=r"`losses` must have the names of the promises \(errors, hours\)"):
        rule.check({"errors": wrong}, sure)
    with pytest.raises(InputError, match="`among` must fit the promises"):
        rule.check(wrong, sure, among={"errors": wrong})


@pytest.mark.parametrize("count", [598, 602])
def test_columns_of_another_length_are_refused(count):
    """Rows are picked by their numbers, which would leave further values out without a word."""
    sure, wrong, _ = draw(600)
    risk = {"a": 0.3, "b": 0.3}
    groups = np.where(np.arange(600) < 300, "north", "south")
    other = np.resize(wrong, count)
    for options in ({}, {"groups": groups}, {"among": {"a": sure > 0.1}}):
        with pytest.raises(ShapeError, match="`losses` must hold one value per sample"):
            abstain.select_threshold(losses={"a": wrong, "b": other}, confidence=sure, risk=risk, **options)
        with pytest.raises(ShapeError, match="`loss` must hold one value per sample"):
            abstain.select_threshold(other, sure, risk=risk, **options)
        with pytest.raises(ShapeError, match="`sample_weight` must hold one value per sample"):
            abstain.select_threshold(wrong, sure, risk=risk, sample_weight=np.ones(count), **options)
    rules = abstain.select_threshold(wrong, sure, risk=risk, groups=groups)
    with pytest.raises(ShapeError, match="`losses` must hold one value per sample"):
        rules.check({"a": wrong, "b": other}, sure, groups)


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(1000), 3)])
def test_every_group_has_all_promises(clusters, tmp_path):
    """The rule of a group is that of its samples alone, at delta / groups."""
    sure, wrong, hours = draw()
    site = np.where(np.arange(3000) // 3 % 2, "north", "south")
    weights = {} if clusters is None else {"clusters": clusters}
    rules = two_promises(groups=site, **weights)
    for name in ("north", "south"):
        rows = site == name
        alone = abstain.select_threshold(
            losses={"errors": wrong[rows], "hours": hours[rows]},
            confidence=sure[rows],
            risk={"errors": 0.08, "hours": 0.05},
            delta=0.025,
            **{key: values[rows] for key, values in weights.items()},
        )
        assert rules[name].to_json() == alone.to_json()
        assert (rules.accepts(sure, site)[rows] == alone.accepts(sure[rows])).all()
    rules.save(tmp_path / "rules.json")
    again = abstain.thresholds.load_rule(tmp_path / "rules.json")
    assert again.to_json() == rules.to_json()
    assert isinstance(again, JointGroupThresholds)
    assert repr(again).startswith("JointGroupThresholds, the worst group first")
    assert rules.frame("pandas").shape == (4, 8)
    record = decision_record(rules)
    assert "- Accept for group north: confidence >=" in record
    assert "In the long run, all of these hold in each group: the mean of errors over the model's" in record
    assert f"In full: {rules.guarantee}" in record
    assert (
        "each was chosen at 0.025): errors: the mean loss of the accepted is at most 0.08; "
        in rules.guarantee
    )
    assert "asked for: errors at most 0.08, hours at most 0.05, method ltt, delta 0.05" in record


def test_groups_are_checked_promise_by_promise():
    sure, wrong, hours = draw(6000)
    site = np.where(np.arange(6000) % 2, "north", "south")
    rules = abstain.select_threshold(
        losses={"errors": wrong, "hours": hours},
        confidence=sure,
        risk={"errors": 0.08, "hours": 0.05},
        groups=site,
    )
    later_sure, later_wrong, later_hours = draw(3000, seed=5)
    later_wrong = later_wrong | (
        (site[:3000] == "north") & (np.arange(3000) % 3 == 0)
    )  # errors, but no hours
    look = {"errors": later_wrong, "hours": later_hours}
    seen = rules.check(look, later_sure, site[:3000])
    assert {name: check.risk_alarm for name, check in seen.checks.items()} == {
        "north: errors": True,
        "north: hours": False,
        "south: errors": False,
        "south: hours": False,
    }
    assert {check.delta for check in seen.checks.values()} == {0.05 / 4}
    rows = (site[:3000] == "south") & rules.accepts(later_sure, site[:3000])
    assert seen["south: hours"].risk == pytest.approx(later_hours[rows].mean())
    again = rules.check(look, later_sure, site[:3000], previous=GroupChecks.from_json(seen.to_json()))
    assert again["south: hours"].looks == 2
    with pytest.raises(InputError, match="must be about some samples of every group, got none of 'south'"):
        abstain.select_threshold(
            wrong, sure, risk={"a": 0.1, "b": 0.1}, groups=site, among={"a": site == "north"}
        )


def test_promises_share_the_memory_of_clusters(monkeypatch):
    monkeypatch.setattr(monitoring, "CLUSTERS_REMEMBERED", 6)
    rule = two_promises(clusters=np.repeat(np.arange(1000), 3))
    sure, wrong, hours = draw(24, seed=4)
    seen = rule.check({"errors": wrong, "hours": hours}, sure, clusters=np.repeat(np.arange(2000, 2008), 3))
    for name in ("errors", "hours"):
        assert len(base64.b64decode(seen[name].clusters_seen)) == 3 * 8
