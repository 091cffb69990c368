"""Stages as users give them: shapes, bounds, missing answers."""

import numpy as np
import pytest

import abstain
from abstain.cascades import cascade
from abstain.errors import InputError, ShapeError
from tests.cascades.test_build import RULE, sample
from tests.cascades.test_measuring import walked


def test_abstained_answers_pass_on():
    stages = sample()
    away = np.arange(4000) % 4 == 0
    broken = {**stages, "small": (stages["small"][0], np.where(away, np.nan, stages["small"][1]), 1.0)}
    rule = cascade(broken, **RULE, abstained={"small": away})
    none = {"small": away, "large": np.zeros(4000, bool)}
    cost, risk, coverage, _ = walked(broken, rule.thresholds, 100.0, none)
    assert (rule.cost, rule.risk, rule.coverage) == pytest.approx((cost, risk, coverage))
    assert rule.shares["small"] <= 0.75
    who = rule.decide({"small": broken["small"][1], "large": stages["large"][1]})
    assert not (who[away] == "small").any()


def test_costs_by_sample():
    stages = sample()
    tokens = np.random.default_rng(5).gamma(2.0, 5.0, 4000)
    by_sample = {**stages, "large": (*stages["large"][:2], tokens)}
    people = np.linspace(50, 150, 4000)
    rule = cascade(by_sample, risk=0.15, person=(people, 0.0))
    assert rule.cost == pytest.approx(walked(by_sample, rule.thresholds, people)[0])
    assert rule.person == pytest.approx((100.0, 0.0))


def test_the_scale_of_the_losses_does_not_matter():
    """Class costs of 0 and 5: the same answers at five times the risk."""
    stages = sample()
    costly = {name: (5.0 * loss, g, c) for name, (loss, g, c) in stages.items()}
    plain, scaled = cascade(stages, **RULE), cascade(costly, risk=0.75, person=(100.0, 0.0), bounded=(0, 5))
    assert scaled.thresholds == plain.thresholds
    assert scaled.risk == pytest.approx(5 * plain.risk)
    assert "mean loss" in scaled.guarantee
    assert "error rate" in plain.guarantee


def test_class_costs_of_many_sizes():
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 3, (2, 4000))
    p = np.where(rng.random(4000) < 0.8, y, p)
    loss, _ = abstain.thresholds.class_costs(y, p, errors=[[0, 1, 2], [3, 0, 1], [1, 4, 0]])
    g = np.where(loss == 0, rng.random(4000), 0.6 * rng.random(4000))
    rule = cascade({"one": (loss, g, 1.0)}, risk=0.3, person=(10.0, 0.0), bounded=(0, 4))
    assert rule.feasible
    assert rule.risk < 0.3


def test_inputs_are_left_alone():
    stages = sample(500)
    before = [x.copy() for entry in stages.values() for x in entry[:2]]
    cascade(stages, **RULE)
    assert all((a == b).all() for a, b in zip(before, (x for entry in stages.values() for x in entry[:2])))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"stages": {}}, InputError, "1 to 19 stages"),
        ({"stages": [1, 2]}, InputError, "`stages` must be a dict"),
        ({"stages": {"person": ([0], [1.0], 1.0)}}, InputError, "other than 'person'"),
        ({"stages": {"a": ([0], [1.0])}}, InputError, r"'a' must be \(loss, confidence, cost\)"),
        ({"stages": {"a": ([0, 1], [1.0], 1.0)}}, ShapeError, "one loss and one confidence per sample"),
        ({"stages": {"a": ([0], [np.nan], 1.0)}}, InputError, "stage 'a'"),
        ({"stages": {"a": ([2.0], [1.0], 1.0)}}, InputError, "within bounded"),
        ({"stages": {"a": ([0], [1.0], -1.0)}}, InputError, "the cost of 'a' must be finite and between 0"),
        ({"stages": {"a": ([0], [1.0], [1.0, 2.0])}}, ShapeError, "a number or one per sample"),
        ({"person": 3.0}, InputError, r"`person` must be \(cost, error\)"),
        ({"person": (1.0, 2.0)}, InputError, "the person's error must be finite and between 0 and 1"),
        ({"risk": 0.0}, InputError, "`risk` must lie inside"),
        ({"risk": 20}, InputError, "`risk` must lie inside"),
        ({"delta": 5}, InputError, "`delta`"),
        ({"promise": "none"}, InputError, "`promise` must be one of"),
        ({"abstained": {"b": [True]}}, InputError, "`abstained` must be a dict by stage"),
        ({"abstained": {"a": [0.5]}}, TypeError, "boolean"),
        ({"groups": ["x"] * 7}, ShapeError, "groups"),
    ],
)
def test_what_is_refused(change, error, message):
    asked = {"stages": {"a": ([0], [1.0], 1.0)}, "risk": 0.1, "person": (10.0, 0.0)} | change
    with pytest.raises(error, match=message):
        cascade(asked.pop("stages"), **asked)


def test_torch_tensors_are_taken():
    torch = pytest.importorskip("torch")
    stages = sample(500)
    tensors = {name: (torch.tensor(l), torch.tensor(g), c) for name, (l, g, c) in stages.items()}
    assert (
        cascade(tensors, risk=0.3, person=(9.0, 0.0)).to_json()
        == cascade(stages, risk=0.3, person=(9.0, 0.0)).to_json()
    )
