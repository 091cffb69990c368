"""A cascade as a rule: stored and restored, damaged records, and checked on later data."""

import json

import numpy as np
import pytest

import abstain
from abstain.cascades import Cascade, cascade
from abstain.errors import DataError, InfeasibleError, InputError, ShapeError


def sample(n=4000, seed=0, small=0.5, large=0.2):
    rng = np.random.default_rng(seed)
    hard = rng.random(n)
    mine, theirs = (hard + 0.2 * rng.normal(size=n) for _ in range(2))
    return {
        "small": (rng.random(n) < small * hard, -mine, 1.0),
        "large": (rng.random(n) < large * hard, -theirs, 10.0),
    }


OTHER_THAN_CHECKSUM = r"^(?!.*checksum)"  # found by what the numbers say, which no forged checksum hides
RULE = {"risk": 0.15, "person": (100.0, 0.0)}


@pytest.mark.parametrize(
    "asked", [{}, {"promise": "system"}, {"risk": 1e-4}, {"clusters": np.arange(4000) // 4}]
)
def test_stored_and_restored(tmp_path, asked):
    rule = cascade(sample(), **RULE | asked, unit="USD", scores={"small": "max_logit"})
    rule.save(tmp_path / "rule.json")
    again = Cascade.load(tmp_path / "rule.json")
    assert again.to_json() == rule.to_json()
    assert repr(again) == repr(rule)
    assert (again.unit, again.scores, again.names) == ("USD", {"small": "max_logit"}, ("small", "large"))
    g = {name: x for name, (_, x, _) in sample(seed=1).items()}
    assert (again.decide(g) == rule.decide(g)).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", "abstain.Threshold/1"),
        ("names", ["small"]),
        ("thresholds", [["small", 0.5]]),
        ("thresholds", [["small", "high"], ["large", 0.1]]),
        ("thresholds", None),
        ("target", 2.0),
        ("target", 0.5),
        ("delta", 1.5),
        ("delta", 0.001),
        ("risk_upper", 0.01),
        ("promise", "all"),
        ("n", 0),
        ("n", True),
        ("shares", [["small", 0.9], ["large", 0.9], ["person", 0.1]]),
        ("coverage", -0.1),
        ("cost", "cheap"),
        ("cost_interval", [1.0]),
        ("cuts", []),
        ("zero_one", False),
        ("note", "Never wrong."),
        ("n", 4001),
        ("group_count", 3),
        ("guarantee", "With probability 1 nothing goes wrong, at most 0.15, 0.95."),
        ("bounded", [1.0, 0.0]),
        ("rule", "answer everything"),
        ("surprise", 1),
    ],
)
def test_damaged_records_are_refused(field, value):
    stored = json.loads(cascade(sample(), **RULE).to_json())
    stored[field] = value
    with pytest.raises(DataError, match=OTHER_THAN_CHECKSUM):
        Cascade.from_json(json.dumps(stored))
    del stored[field]
    if field != "surprise" and field != "rule":
        with pytest.raises(DataError, match=OTHER_THAN_CHECKSUM):
            Cascade.from_json(json.dumps(stored))


@pytest.mark.parametrize("number", [4, 5])
def test_a_cascade_of_an_older_format_is_called_so(number):
    stored = json.loads(cascade(sample(), **RULE).to_json())
    del stored["references"]
    stored["format"] = f"abstain.Cascade/{number}"
    with pytest.raises(DataError, match="not a stored cascade written by `to_json` of this version"):
        Cascade.from_json(json.dumps(stored))


@pytest.mark.parametrize(("field", "value"), [("risk", 0.01), ("cost", 0.5), ("unit", "cents")])
def test_a_number_that_no_other_depends_on_cannot_be_edited(field, value):
    stored = json.loads(cascade(sample(), **RULE).to_json())
    stored[field] = value
    with pytest.raises(DataError, match="`checksum` must be that of the other fields"):
        Cascade.from_json(json.dumps(stored))


def test_check_alarms_on_worse_data_and_on_other_shares():
    rule = cascade(sample(8000), **RULE)
    later = sample(4000, seed=9)
    fine = rule.check({name: entry[:2] for name, entry in later.items()})
    assert fine.holds
    assert fine.n == 4000
    who = rule.decide({name: g for name, (_, g, _) in later.items()})
    lost = np.select([who == "small", who == "large"], [later["small"][0], later["large"][0]], np.nan)
    assert fine.risk == pytest.approx(np.nanmean(lost))
    worse = sample(4000, seed=10, small=0.9, large=0.6)
    bad = rule.check({name: entry[:2] for name, entry in worse.items()}, previous=fine)
    assert bad.risk_alarm
    assert bad.n == 8000
    shifted = {name: (loss, g + 1.0) for name, (loss, g, _) in later.items()}
    assert rule.check(shifted).drift_alarm


@pytest.mark.parametrize("stretched", ["small", "large"])
@pytest.mark.parametrize("is_joint", [False, True])
def test_check_compares_the_confidences_of_each_stage(stretched, is_joint):
    """Confidences on another scale give an alarm although every stage answers the same samples as before."""
    stages = sample(8000)
    later = {name: entry[:2] for name, entry in sample(4000, seed=9).items()}
    if is_joint:
        stages = {name: ({"a": loss, "b": loss}, *rest) for name, (loss, *rest) in stages.items()}
        rule = cascade(stages, risk={"a": 0.15, "b": 0.2}, person=RULE["person"])
    else:
        rule = cascade(stages, **RULE)
    assert rule.stages_in_use == ("small", "large")
    read_back = type(rule).from_json(rule.to_json())
    loss, confidence = later[stretched]
    threshold = rule.thresholds[stretched]
    pivot = threshold if np.isfinite(threshold) else -0.5  # of a stage that answers everything: any
    moved = later | {stretched: (loss, pivot + 1.6 * (confidence - pivot))}
    who = rule.decide({name: g for name, (_, g) in later.items()})
    assert (rule.decide({name: g for name, (_, g) in moved.items()}) == who).all()
    for each in (rule, read_back):
        assert each.check(later).holds
        alarmed = each.check(moved)
        checks = list(alarmed.checks.values()) if is_joint else [alarmed]
        assert all(check.drift_alarm and not check.risk_alarm for check in checks)
    # the large model is asked only where the small one did not answer
    asked = np.where(who == "small", np.nan, later["large"][1])
    assert rule.check(later | {"large": (later["large"][0], asked)}).holds


@pytest.mark.parametrize("damage", ["reversed", "empty", "shorter"])
def test_stored_references_are_checked(damage):
    stored = json.loads(cascade(sample(8000), **RULE).to_json())
    reference = dict(stored["references"])["small"]
    if damage == "reversed":
        reference["value"].reverse()
    elif damage == "empty":
        reference |= {"value": [], "at_least": []}
    else:
        del reference["value"][-1]
    with pytest.raises(DataError, match="`references` must fall"):
        Cascade.from_json(json.dumps(stored))


def test_check_refuses_another_number_of_losses_of_the_person():
    rule = cascade({"only": ([0] * 300, range(300), 1.0)}, risk=0.2, person=(9.0, 0.0))
    with pytest.raises(ShapeError, match=r"`person` needs one loss per sample, got shapes \(2,\) and \(5,\)"):
        rule.check({"only": ([0] * 5, range(5))}, person=[0.0, 1.0])


def test_check_with_the_person_and_with_clusters():
    rule = cascade(sample(), risk=0.1, person=(20.0, 0.01), promise="system")
    later = {name: entry[:2] for name, entry in sample(2000, seed=4).items()}
    assert rule.check(later).holds
    assert rule.check(later, person=1.0).risk > rule.check(later).risk
    by_cluster = cascade(sample(), **RULE, clusters=np.arange(4000) // 2)
    assert by_cluster.check(later, clusters=np.arange(2000) // 2).holds
    with pytest.raises(InputError, match="clusters"):
        by_cluster.check(later)
    with pytest.raises(InfeasibleError):
        cascade(sample(), risk=1e-4, person=(20.0, 0.0)).check(later)


def test_a_false_alarm_is_rare():
    """Looked at after every stretch, over 300 series of data as promised: at most delta, whenever one stops."""
    rule = cascade(sample(8000), **RULE, delta=0.1)
    alarms = 0
    for seed in range(300):
        look = None
        for part in range(4):
            later = {name: entry[:2] for name, entry in sample(250, seed=1000 + 4 * seed + part).items()}
            look = rule.check(later, previous=look)
        alarms += look.risk_alarm
    assert alarms / 300 <= 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rule: rule.decide(5), "takes a dict of confidence by stage .*got int"),
        (lambda rule: rule.decide(np.zeros((2, 2))), "takes a dict of confidence by stage .*got ndarray"),
        (lambda rule: rule.check(None), "needs every stage .*got NoneType"),
        (
            lambda rule: rule.decide({"small": [0.5]}, abstained=[True]),
            "`abstained` must be a dict by stage .*got list",
        ),
    ],
)
def test_arguments_that_are_no_dict_by_stage_are_refused(call, message):
    rng = np.random.default_rng(0)
    confidence = rng.random(500)
    wrong = rng.random(500) < 0.3 * (1 - confidence)
    rule = abstain.cascade({"small": (wrong, confidence, 1.0)}, risk=0.2, person=(10, 0.0))
    with pytest.raises(InputError, match=message):
        call(rule)
    with pytest.raises(InputError, match=r"`scores` must be a dict by stage .*got list"):
        abstain.cascade(
            {"small": (wrong, confidence, 1.0)}, risk=0.2, person=(10, 0.0), scores=["max_softmax"]
        )
