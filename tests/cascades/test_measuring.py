"""Cost, risk and coverage of a policy, against counting sample by sample."""

import math

import numpy as np
import pytest

from abstain.cascades import cascade
from tests.cascades.test_build import RULE, sample


def walked(stages, thresholds, person_cost, abstained=None):
    """Cost, risk, coverage and shares, one sample at a time."""
    names, n = list(stages), len(next(iter(stages.values()))[0])
    shares, lost, spent = dict.fromkeys([*names, "person"], 0), 0.0, 0.0
    for i in range(n):
        for name in names:
            loss, confidence, cost = stages[name]
            if thresholds[name] == math.inf:
                continue
            spent += np.broadcast_to(cost, n)[i]
            if not (abstained and abstained[name][i]) and confidence[i] >= thresholds[name]:
                shares[name] += 1
                lost += loss[i]
                break
        else:
            shares["person"] += 1
            spent += np.broadcast_to(person_cost, n)[i]
    answered = n - shares["person"]
    return spent / n, lost / max(1, answered), answered / n, {k: v / n for k, v in shares.items()}


def test_the_numbers_are_those_of_the_rule():
    stages = sample()
    rule = cascade(stages, **RULE)
    assert rule.stages_in_use == ("small", "large")
    cost, risk, coverage, shares = walked(stages, rule.thresholds, 100.0)
    assert (rule.cost, rule.risk, rule.coverage) == pytest.approx((cost, risk, coverage))
    assert rule.shares == pytest.approx(shares)
    assert rule.cost_interval[0] < rule.cost < rule.cost_interval[1]
    assert rule.risk < rule.risk_upper == 0.15
    spread = np.sqrt(np.var(costs_of(rule, stages)) / 4000)
    assert np.diff(rule.cost_interval) == pytest.approx(2 * 1.96 * spread, rel=0.02)


def costs_of(rule, stages):
    who = rule.decide({name: g for name, (_, g, _) in stages.items()})
    return np.select([who == "small", who == "large"], [1.0, 11.0], 111.0)
