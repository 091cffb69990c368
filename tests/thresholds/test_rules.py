"""Stored rules: every field has a type and a range when it is read; what they know of their score is used."""

import hashlib
import json
import math

import numpy as np
import pytest

import abstain
from abstain.errors import DataError, InputError
from abstain.thresholds import (
    Check,
    GroupChecks,
    GroupThresholds,
    Threshold,
    load_rule,
)

OTHER_THAN_CHECKSUM = r"^(?!.*checksum)"  # found by what the numbers say, which no forged checksum hides


def data(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    p = 0.5 + rng.random(n) / 2
    return (rng.random(n) < 0.6 * (1 - p)), p


@pytest.fixture(scope="module")
def rule():
    wrong, p = data()
    key = -np.log1p(-p)
    return abstain.select_threshold(wrong, key, risk=0.1).made_from(
        "probs", score="max_softmax", loss="zero_one"
    )


TAMPERED = {
    "format": (
        "abstain.Threshold/1",
        "abstain.Threshold/2",
        "abstain.Threshold/6",
        "abstain threshold 1",
        None,
        2,
    ),
    "rule": ("confidence >= 0.1", None),
    "value": ("0.7", "nan", True, [1.0], 0.1, {}),
    "form": ("risks", "", 3, None, True),
    "target": (5, -1, "0.05", None, "inf", True),
    "method": ("magic", None, 1),
    "delta": (0, 1, 5, -0.05, "0.05", None, True),
    "n": (0, -3, 2.5, "2000", None, True, 10**30, 7),
    "coverage": (1.5, -0.1, "1", None, 0.123),
    "coverage_interval": ([0.9, 0.1], [0.1], [0.1, 0.2, 0.3], 0.5, [-1, 2], [None, 1]),
    "risk": (-0.5, 1.5, "low", [], 0.0123),
    "risk_upper": (2.0, -1.0, "x"),
    "guarantee": (5, True, ["never wrong"], "With probability 1 the error rate is at most 0.0001."),
    "note": (5, {}),
    "bounded": ([1, 0], [0, 0], [0], "01", [0, "inf"], [0, 0.01]),
    "table": (None, [], {}, {"value": [1.0]}),
    "reference": (
        None,
        {},
        {"value": [1], "at_least": [1, 2], "n": 2000},
        {"value": [1], "at_least": [1], "n": 3},
        {"value": [], "at_least": [], "n": 2000},
    ),
    "advice": (
        5,
        {"risk": 7},
        {"risk": 0.1, "coverage": 2, "samples": 3},
        {
            "risk": 0.1,
            "coverage": 0.2,
            "samples": None,
            "samples_coverage": None,
            "why_none": "never",
            "fewest": 59,
            "unit": "samples",
        },
    ),
    "clusters": (0, -1, 1.5, "many", 20),
    "largest": (0, -1, "x", 5.0),
    "origin": (
        "probs",
        {},
        {"kind": "logits"},
    ),
}
INSIDE = {
    ("table", "value"): ([1, "x"], "x", None, [True]),
    ("table", "accepted"): ([0.5], [-1], [10**9], ["1"]),
    ("table", "coverage"): ([2.0], [None]),
    ("table", "p_value"): ([-0.1], ["0.1"]),
    ("table", "passed"): ([1], [None], ["yes"]),
    ("reference", "n"): (1.5, -2, 10**9),
    ("reference", "at_least"): ([5, 4, 3], [0.5], []),
    ("reference", "value"): (["inf"], [None]),
    ("origin", "score"): ("magic", 5, "negative_entropy"),
    ("origin", "kind"): ("pixels", None),
    ("origin", "plain"): (0.1, "0.9", None),
    ("origin", "version"): (1, None),
    ("origin", "loss"): (1, True),
}


@pytest.mark.parametrize(("name", "bad"), [(k, v) for k, values in TAMPERED.items() for v in values])
def test_a_tampered_field_is_refused_in_one_line(rule, name, bad):
    stored = json.loads(rule.to_json())
    assert name in stored
    stored[name] = bad
    with pytest.raises(DataError, match=OTHER_THAN_CHECKSUM) as caught:
        Threshold.from_json(json.dumps(stored))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("place", "bad"), [(k, v) for k, values in INSIDE.items() for v in values])
def test_a_tampered_record_inside_is_refused(rule, place, bad):
    stored = json.loads(rule.to_json())
    stored[place[0]][place[1]] = bad
    with pytest.raises(DataError, match=OTHER_THAN_CHECKSUM):
        Threshold.from_json(json.dumps(stored))


def test_missing_and_unknown_fields_are_named(rule):
    for name in json.loads(rule.to_json()):
        stored = json.loads(rule.to_json())
        del stored[name]
        if name == "rule":  # for people to read
            continue
        with pytest.raises(DataError, match="checksum" if name == "checksum" else OTHER_THAN_CHECKSUM):
            Threshold.from_json(json.dumps(stored))
    stored["surprise"] = 1
    stored["rule"] = rule.rule
    with pytest.raises(DataError, match="surprise"):
        Threshold.from_json(json.dumps({**json.loads(rule.to_json()), "surprise": 1}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 200_000, "deep"),
        ('{"a":' * 100_000, "deep"),
        ("", "not JSON"),
        ("null", "not a stored threshold"),
        ("[]", "not a stored threshold"),
        ('{"format": "abstain.Threshold/3", "format": "abstain.Threshold/3"}', "twice"),
        ('{"value": NaN}', "NaN"),
        ('{"value": ' + "9" * 5000 + "}", "not JSON"),
        (5, "takes JSON text"),
        ("x" * 64_000_001, "takes JSON text"),
    ],
)
def test_hostile_text_is_one_line(text, words):
    with pytest.raises(DataError, match=words) as caught:
        Threshold.from_json(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_round_trips(rule, tmp_path):
    rule.save(tmp_path / "rule.json")
    again = load_rule(tmp_path / "rule.json")
    assert again.to_json() == rule.to_json()
    assert again.origin == rule.origin
    assert again.origin.version == abstain.__version__
    wrong, p = data(seed=1)
    looked = rule.check(wrong, p, units="plain")
    assert Check.from_json(looked.to_json()) == looked
    groups = np.where(np.arange(len(p)) % 2, "a", "b")
    both = abstain.select_threshold(wrong, p, risk=0.2, groups=groups)
    both.save(tmp_path / "both.json")
    loaded = load_rule(tmp_path / "both.json")
    assert isinstance(loaded, GroupThresholds)
    assert loaded.to_json() == both.to_json()
    later_wrong, later_p = data(seed=2)
    groups = np.where(np.arange(len(later_p)) % 2, "a", "b")
    checks = loaded.check(later_wrong, later_p, groups)
    assert GroupChecks.from_json(checks.to_json()) == checks
    assert checks["a"] == both["a"].check(later_wrong[groups == "a"], later_p[groups == "a"])
    with pytest.raises(DataError, match="no such file"):
        load_rule(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["n", "accepted", "log_wealth", "risk_alarm", "delta", "value", "log_peak"])
def test_a_tampered_series_is_refused(rule, name):
    bad = {
        "n": -1,
        "accepted": 10**6,
        "log_wealth": [9.0],
        "risk_alarm": True,
        "delta": 2,
        "value": "x",
        "log_peak": -9,
    }
    stored = json.loads(rule.check(*data(seed=2), units="plain").to_json())
    with pytest.raises(DataError, match=OTHER_THAN_CHECKSUM):
        Check.from_json(json.dumps({**stored, name: bad[name]}))


# what a rule is for --------------------------------------------------------------------------------


def logits_of(p):
    return np.stack([np.log(p), np.log1p(-p)], axis=1)


def test_a_loaded_rule_takes_the_plain_number_and_whatever_it_is_made_from(rule, tmp_path):
    rule.save(tmp_path / "rule.json")
    loaded = Threshold.load(tmp_path / "rule.json")
    _, p = data(seed=3)
    key = -np.log1p(-p)
    expected = key >= rule.value
    assert 0.1 < expected.mean() < 0.9
    probs = np.stack([p, 1 - p], axis=1)
    assert loaded.accepts(probs.max(1), units="plain").tolist() == expected.tolist()
    assert loaded.accepts(key, units="key").tolist() == expected.tolist()
    assert loaded.accepts(probs=probs).tolist() == expected.tolist()
    assert (loaded.accepts(logits=logits_of(p)) == expected).mean() > 0.999
    assert loaded.accepts(p, score="max_softmax", units="plain").tolist() == expected.tolist()


def test_another_score_or_unit_is_refused(rule):
    _, p = data(seed=3)
    key = -np.log1p(-p)
    with pytest.raises(InputError, match="this rule is for max_softmax, got negative_entropy"):
        rule.accepts(p, score="negative_entropy")
    with pytest.raises(InputError, match='units="key"'):
        rule.accepts(key, units="plain")
    with pytest.raises(InputError, match="need `units`"):
        rule.accepts(p)
    with pytest.raises(InputError, match="from 0 to 1"):
        rule.accepts(-p, units="plain")
    with pytest.raises(InputError, match="at least 0"):
        rule.accepts(-p, units="key")
    with pytest.raises(InputError, match="units"):
        rule.accepts(p, units="percent")
    with pytest.raises(InputError, match="one of them"):
        rule.accepts()
    with pytest.raises(InputError, match="one of them"):
        rule.accepts(p, probs=np.stack([p, 1 - p], axis=1))
    entropy = abstain.select_threshold(*data(), risk=0.2).made_from("probs", score="negative_entropy")
    with pytest.raises(InputError, match="at most 0"):
        entropy.accepts(p, units="plain")
    own = abstain.select_threshold(*data(), risk=0.2)
    with pytest.raises(InputError, match="confidences of your own"):
        own.accepts(p, score="max_softmax")
    with pytest.raises(InputError, match="confidences of your own"):
        own.accepts(probs=np.stack([p, 1 - p], axis=1))


def test_a_threshold_that_rounds_to_one_is_not_compared_with_rounded_numbers():
    key = np.linspace(15, 40, 1000)
    rule = abstain.select_threshold(np.zeros(1000), key, coverage=0.5, method="empirical")
    rule = rule.made_from("logits", score="max_softmax")
    one = np.ones(3, dtype=np.float32)
    with pytest.raises(InputError, match="rounding hides"):
        rule.accepts(one, units="plain")
    assert rule.accepts(np.asarray([27.4, 27.6]), units="key").tolist() == [False, True]


def test_a_check_in_plain_numbers_is_that_of_the_keys(rule):
    wrong, p = data(seed=4)
    plain = rule.check(wrong, p, units="plain")
    keys = rule.check(wrong, -np.log1p(-p), units="key")
    assert plain == keys
    with pytest.raises(InputError, match="this rule is for max_softmax"):
        rule.check(wrong, p, score="max_logit", units="plain")


def test_a_stored_rule_cannot_promise_more_than_was_tested(rule):
    """Fields that agree with one another on their own, but not with what the rule says that it promises."""
    stored = json.loads(rule.to_json())
    everything = {"value": "-inf", "rule": "accept everything"}
    everything["origin"] = {**stored["origin"], "plain": "-inf"}
    for changed in (everything, {"delta": 0.001}, {"risk_upper": 0.01}):
        with pytest.raises(DataError, match="must"):
            Threshold.from_json(json.dumps({**stored, **changed}))
    wrong, p = data()
    everything = abstain.select_threshold(wrong, p, coverage=1.0)
    assert Threshold.from_json(everything.to_json()).rule == "accept everything"


def test_stored_groups_share_the_delta_they_state_and_stand_there_once():
    wrong, p = data()
    both = abstain.select_threshold(wrong, p, risk=0.2, groups=np.where(np.arange(len(p)) % 2, "a", "b"))
    stored = json.loads(both.to_json())
    with pytest.raises(DataError, match="delta"):
        GroupThresholds.from_json(json.dumps({**stored, "delta": 0.001}))
    for labels in ("aa", (1, True), (1, 1.0)):
        stored["thresholds"] = list(zip(labels, (x for _, x in stored["thresholds"])))
        with pytest.raises(DataError, match="twice"):
            GroupThresholds.from_json(json.dumps(stored))


@pytest.mark.filterwarnings("ignore:.*rows of the calibration data:abstain.errors.AbstainWarning")
@pytest.mark.parametrize("asked", [{"risk": 0.1}, {"coverage": 0.5}, {"risk": 0.2, "method": "empirical"}])
@pytest.mark.parametrize("score", ["max_softmax", "softmax_margin", "negative_entropy", "negative_gini"])
def test_plain_numbers_accept_the_blocks_that_rank_keys_accept(score, asked):
    """A forest's probabilities take few values: rounding must not let in a block that was tested to stay out."""
    rng = np.random.default_rng(0)
    cut = 0
    for _ in range(30):
        levels = rng.choice(np.arange(52, 100), 6, replace=False) / 100
        p = rng.choice(levels, 2000)
        probs = np.stack([p, 1 - p], axis=1)
        wrong = rng.random(2000) < rng.random() * 1.3 * (1 - p)
        key = abstain.scores.by_name(score)(probs=probs)
        t = abstain.select_threshold(wrong, key, **asked).made_from("probs", score=score)
        plain = {
            "max_softmax": probs.max(1),
            "softmax_margin": probs.max(1) - probs.min(1),
            "negative_entropy": (probs * np.log(probs)).sum(1),
            "negative_gini": (probs**2).sum(1) - 1,
        }[score]
        expected = t.accepts(probs=probs)
        cut += 0 < expected.mean() < 1
        for given in (plain, plain.astype(np.float32), abstain.scores.display(score, key)):
            assert (t.accepts(given, units="plain") == expected).all()
            if t.feasible:
                assert t.check(wrong, given, units="plain") == t.check(wrong, key, units="key")
    assert cut > 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss_sum", 1e9),
        ("loss_sum", -1.0),
        ("coverage", 0.01),
        ("alarm_after", 5),
        ("drift_alarm_look", 1),
        ("risk_alarm_p", 0.1),
        ("clusters_seen", "AAAA"),
        ("files", ["x"]),
    ],
)
def test_a_stored_series_must_add_up(rule, name, value):
    seen = json.loads(rule.check(*data(seed=1), units="plain").to_json())
    assert Check.from_json(json.dumps(seen)).n == 2000
    with pytest.raises(DataError, match=name):
        Check.from_json(json.dumps({**seen, name: value}))


def test_an_empty_table_is_refused():
    rule = abstain.select_threshold([0] * 99 + [1], range(100, 0, -1), risk=0.2, method="empirical")
    stored = json.loads(rule.to_json())
    stored["table"] = {name: [] for name in stored["table"]}
    with pytest.raises(DataError, match="`table` must count shares of `n`"):
        Threshold.from_json(json.dumps(stored))


def test_samples_without_a_group_are_found_however_they_are_given():
    both = abstain.select_threshold(
        [0] * 4, [0.9, 0.8, 0.7, 0.6], coverage=0.5, groups=["a", None, "a", None]
    )
    for groups in (["a", np.nan], ("a", None), np.asarray(["a", None], dtype=object)):
        assert both.accepts([0.9, 0.9], groups).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("accepted", 0.1),
        ("rejected", 99.0),
        ("source", "plain"),
        ("source", "own"),
        ("score", "negative_entropy"),
        ("score", None),
        ("dtype", "float8"),
        ("precision", None),
        ("classes", 1),
        ("lowest", -5.0),
        ("highest", 1e9),
        ("magnitude", -1),
    ],
)
def test_what_a_rule_is_compared_with_cannot_be_edited(rule, name, value):
    stored = json.loads(rule.to_json())
    stored["cut"][name] = value
    with pytest.raises(DataError, match=OTHER_THAN_CHECKSUM):
        Threshold.from_json(json.dumps(stored))


def test_p_values_that_do_not_belong_to_the_errors_are_refused(rule):
    stored = json.loads(rule.to_json())
    chosen = stored["table"]["value"].index(stored["value"])
    stored["table"]["risk"][chosen] = stored["risk"] = 0.0
    with pytest.raises(DataError, match="p-value"):
        Threshold.from_json(json.dumps(stored))


def test_a_cascade_is_not_loaded_as_a_threshold(tmp_path):
    g = np.linspace(0, 1, 400)
    rule = abstain.cascade({"only": (g < 0.1, g, 1.0)}, risk=0.2, person=(9.0, 0.0))
    rule.save(tmp_path / "cascade.json")
    with pytest.raises(
        DataError, match=r"holds a cascade, not a threshold. Load it with `abstain.cascades.load_cascade`"
    ):
        load_rule(tmp_path / "cascade.json")
    old = {**json.loads(rule.to_json()), "format": "abstain.Cascade/1"}
    with pytest.raises(DataError, match="Make it again"):
        abstain.Cascade.from_json(json.dumps(old))


def changed(stored, place, value):
    """The record with another value at a place, a tuple of names and positions."""
    record = json.loads(json.dumps(stored))
    inside = record
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = value
    return json.dumps(record)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("cut", "tied"), True),
        (("cut", "magnitude"), 3.0),
        (("cut", "classes"), 7),
        (("cut", "dtype"), "float16"),
        (("coverage_interval",), [0.99, 1.0]),
        (("origin", "data"), "other.npz"),
        (("origin", "loss"), "brier"),
        (("table", "risk", 0), 0.5),
        (("checksum",), "0" * 64),
        (("checksum",), None),
    ],
)
def test_a_number_that_no_other_depends_on_cannot_be_edited(rule, place, value):
    stored = json.loads(rule.to_json())
    with pytest.raises(DataError, match="`checksum` must be that of the other fields") as refused:
        Threshold.from_json(changed(stored, place, value))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("rejected", [None, 0.5])
def test_the_rejected_block_of_a_stored_rule_is_the_one_below_its_threshold(rule, rejected):
    """Without it, or further down, the rule would accept what it rejected."""
    stored = json.loads(rule.to_json())
    stored["cut"]["lowest"] = stored["reference"]["value"][-1]
    rejected = rejected and stored["cut"]["lowest"]
    with pytest.raises(DataError, match=r"`cut\.rejected` must be just below `value`"):
        Threshold.from_json(changed(stored, ("cut", "rejected"), rejected))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "options", [{}, {"groups": np.repeat(["a", "b"], 1000)}, {"clusters": np.arange(2000)}]
)
@pytest.mark.parametrize(
    "goal", [{"risk": 0.2}, {"risk": 0.2, "method": "sgr"}, {"coverage": 0.5}, {"cost": 0.3}]
)
def test_rules_of_every_precision_are_read_back(dtype, options, goal):
    if goal.get("method") == "sgr" and "clusters" in options:
        goal = {"risk": 0.2, "method": "crc"}  # sgr takes no clusters
    wrong, confidence = data()
    rule = abstain.select_threshold(wrong, confidence.astype(dtype), **goal, **options)
    assert rule.feasible
    again = type(rule).from_json(rule.to_json())
    assert again.to_json() == rule.to_json()


def test_a_record_written_by_another_program_is_the_same_record(rule):
    """In another order, with white space, and 1 for 1.0: what editors and other languages do to JSON."""
    both = abstain.select_threshold(*data(), risk=0.2, groups=np.repeat(["a", "b"], 1000))
    for whole in (rule, both, rule.check(*data(seed=1), units="plain")):
        text = json.dumps(json.loads(whole.to_json(), parse_float=shortest), sort_keys=True, indent=2)
        assert type(whole).from_json(text).to_json() == whole.to_json()


def shortest(text):
    number = float(text)
    return int(number) if number.is_integer() else number


@pytest.mark.parametrize("options", [{"coverage": 0.5}, {"coverage": 0.9}, {"cost": 0.9}, {"risk": 0.4}])
def test_rules_of_samples_without_a_confidence_are_read_back(options):
    """Samples without a confidence rank last, as the lowest number there is; a cut may lie beside them."""
    wrong, confidence = data()
    confidence[:600] = -np.finfo(np.float64).max
    made = abstain.select_threshold(wrong, confidence, **options)
    restored = Threshold.from_json(made.to_json())
    assert restored.feasible
    assert (restored.accepts(confidence) == (confidence >= made.value)).all()


# groups, worst first -------------------------------------------------------------------------------


def rules_of_thirty_groups():
    """Group k has errors at a rate that rises with k; the last has two samples and can promise nothing."""
    rng = np.random.default_rng(20)
    groups = np.append(np.repeat(np.arange(29), 400), [29, 29])
    sure = rng.random(len(groups))
    wrong = rng.random(len(groups)) < 0.02 * groups * (1 - sure)
    return abstain.select_threshold(wrong, sure, risk=0.1, groups=groups)


def test_groups_are_listed_worst_first_and_none_is_hidden_silently():
    rules = rules_of_thirty_groups()
    labels = rules.worst_first()
    limits = [rules[label].coverage_interval[1] for label in labels if rules[label].feasible]
    assert not rules[29].feasible
    infeasible_count = len(labels) - len(limits)
    assert not any(rules[label].feasible for label in labels[:infeasible_count])
    assert limits == sorted(limits)
    lines = repr(rules).splitlines()
    listed = [line.split()[0] for line in lines[1:25]]
    assert listed == [str(label) for label in labels[:24]]
    hidden_samples = sum(rules[label].n for label in labels[24:])
    assert lines[25] == (
        f"  6 more groups with {hidden_samples:,} samples are in frame(), all with a larger limit"
    )
    assert rules.frame("dict")["group"] == [str(label) for label in labels]
    assert "10 more rows in frame()" in rules._repr_html_()


def test_every_alarm_of_a_group_is_shown():
    rng = np.random.default_rng(21)
    groups = np.repeat(np.arange(40), 100)
    rules = abstain.select_threshold(np.zeros(4000), rng.random(4000), risk=0.2, groups=groups)
    wrong = (groups >= 10) | (rng.random(4000) < 0.05)
    checks = rules.check(wrong, rng.random(4000), groups)
    assert sum(not check.holds for check in checks.checks.values()) == 30
    text = repr(checks)
    assert text.count("Check: ALARM") == 30
    assert "10 more groups, none with an alarm, are in frame()" in text
    frame = checks.frame("dict")
    assert frame["holds"] == [False] * 30 + [True] * 10
    excess = [check.risk_interval[0] for check in map(checks.__getitem__, checks.worst_first()[30:])]
    assert excess == sorted(excess, reverse=True)


# older files --------------------------------------------------------------------------------------------------------


def few_errors(n):
    rng = np.random.default_rng(0)
    g = rng.random(n)
    return rng.random(n) < 0.3 * (1 - g), g


def as_format_4(rule):
    """The JSON that format 4 had for this rule: the same, without what is new in its advice."""
    record = json.loads(rule.to_json())
    del record["checksum"]
    record["format"] = "abstain.Threshold/4"
    if record["advice"]:
        for name in ("samples_coverage", "why_none", "fewest"):
            del record["advice"][name]
        record["advice"]["samples"] = 41_000
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return record | {"checksum": hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.parametrize("risk", [0.1, 0.001])
def test_a_rule_of_format_4_is_read(risk):
    wrong, g = few_errors(2000)
    rule = abstain.select_threshold(wrong, g, risk=risk)
    again = Threshold.from_json(json.dumps(as_format_4(rule)))
    assert again.value == rule.value
    assert again.guarantee == rule.guarantee
    assert json.loads(again.to_json())["format"] == "abstain.Threshold/5"
    if not rule.feasible:  # the number of samples that format 4 advised was too low
        assert again.advice.samples is None
        assert again.advice.risk == rule.advice.risk


def test_a_changed_rule_of_format_4_is_refused():
    record = as_format_4(abstain.select_threshold(*few_errors(2000), risk=0.1))
    record["note"] = "changed"
    with pytest.raises(DataError):
        Threshold.from_json(json.dumps(record))
    record = as_format_4(abstain.select_threshold(*few_errors(2000), risk=0.1))
    record["largest"] = 5.0
    with pytest.raises(DataError):
        Threshold.from_json(json.dumps(record))


def test_thresholds_of_groups_with_records_of_format_4_are_read():
    wrong, g = few_errors(2000)
    rules = abstain.select_threshold(wrong, g, risk=0.1, groups=["a", "b"] * 1000)
    record = json.loads(rules.to_json())
    del record["checksum"]
    for _, threshold in record["thresholds"]:
        threshold["format"] = "abstain.Threshold/4"
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    record["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    again = abstain.thresholds.GroupThresholds.from_json(json.dumps(record))
    assert again["a"].value == rules["a"].value


def test_the_repr_has_the_threshold_as_the_number_that_people_know(rule):
    text = repr(rule)
    assert "rule:        confidence >= " in text
    assert f"that is:     max_softmax above {rule.origin.plain:.4g} (the rule compares its rank key)" in text
    assert "(the rule compares its rank key)" in rule._repr_html_()
    wrong, p = data()
    assert "that is" not in repr(abstain.select_threshold(wrong, p, risk=0.1))  # no other number is known
    assert "that is" not in repr(
        abstain.select_threshold(wrong, p, risk=0.1, score="max_softmax", units="plain")
    )
    every = abstain.select_threshold(wrong, -np.log1p(-p), cost=0.5, score="max_softmax", units="key")
    assert f"max_softmax at least {-np.expm1(-every.value):.4g} (" in repr(every)


def test_rules_by_group_and_of_several_promises_show_the_number_that_people_know():
    rng = np.random.default_rng(0)
    n = 3000
    logits = rng.normal(size=(n, 4))
    labels = rng.integers(0, 4, n)
    logits[np.arange(n), labels] += 2.5
    groups = rng.choice(["a", "b"], n)
    by_group = abstain.select_threshold(logits=logits, labels=labels, risk=0.06, groups=groups)
    for name, rule in by_group.thresholds.items():
        probability = 1 - math.exp(-rule.value)  # the rank key of a probability p is -ln(1 - p)
        line = next(line for line in repr(by_group).splitlines() if line.startswith(f"  {name} "))
        assert f"max_softmax above {probability:.4g} " in line
    risks = dict.fromkeys(range(4), 0.1)
    of_promises = abstain.select_threshold(logits=logits, labels=labels, risk=risks)
    probability = 1 - math.exp(-of_promises.value)
    assert f"that is:     max_softmax above {probability:.4g} (the rule compares" in repr(of_promises)
