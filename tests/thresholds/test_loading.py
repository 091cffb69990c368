"""Loading a rule without knowing its kind."""

import numpy as np
import pytest

import abstain
from abstain.errors import DataError
from abstain.thresholds import GroupThresholds, JointThreshold


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"risk": 0.1}, abstain.Threshold),
        ({"risk": 0.1, "groups": ["a", "b"] * 100}, GroupThresholds),
        ({"risk": {"first": 0.1, "second": 0.2}}, JointThreshold),
    ],
)
def test_the_kind_of_the_rule_comes_back(options, kind, tmp_path):
    rule = abstain.select_threshold(np.zeros(200), np.arange(200.0), **options)
    rule.save(tmp_path / "rule.json")
    loaded = abstain.load_rule(tmp_path / "rule.json")
    assert type(loaded) is type(rule) is kind
    assert loaded.to_json() == rule.to_json()


def test_a_class_that_is_not_that_of_the_rule_names_what_loads_any():
    loss, sure, site = np.zeros(200), np.arange(200.0), ["a", "b"] * 100
    several = {"first": 0.1, "second": 0.2}
    rules = [
        abstain.select_threshold(loss, sure, risk=risk, groups=groups)
        for risk in (0.1, several)
        for groups in (None, site)
    ]
    for rule in rules:
        for other in rules:
            if type(other) is not type(rule):
                with pytest.raises(
                    DataError, match=rf"{type(rule).__name__}\). Load it with `abstain.*load_rule`"
                ):
                    type(other).from_json(rule.to_json())


def test_another_record_is_refused(tmp_path):
    path = tmp_path / "series.json"
    abstain.select_threshold(np.zeros(200), np.arange(200.0), risk=0.1).check([0], [1.0]).save(path)
    with pytest.raises(
        DataError, match=r"'series.json' holds a series of checks, not a rule. It goes with --state"
    ):
        abstain.load_rule(path)
    (tmp_path / "new.csv").write_text("p,q\n0.5,0.5\n")
    with pytest.raises(
        DataError, match=r"'new.csv' is no stored rule .not JSON.* takes the rule first, then the data"
    ):
        abstain.load_rule(tmp_path / "new.csv")
