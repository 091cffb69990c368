from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from abstain.confidence import models
from abstain.confidence.boosted_trees import fit_trees
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import read_inputs
from abstain.confidence.model_columns import ColumnPlan, make_tree_columns
from abstain.confidence.models import (
    ConfidenceModel,
    SingleScore,
    fit_linear,
    fit_with_trees,
    fit_without_trees,
    score_without_inputs,
    shrink_to_max_softmax,
)

RNG = np.random.default_rng(0)
TABLE = read_inputs(
    "test",
    logits=RNG.normal(size=(300, 4)),
    signals={"a": RNG.normal(size=300), "b": np.where(RNG.random(300) < 0.2, np.nan, RNG.random(300))},
    categories={"topic": RNG.choice(["law", "art", "math"], 300)},
)
PROFILE = InputProfile.of(TABLE, np.ones(300))
PLAN = ColumnPlan(numbers=True, categories=True, logits=True, classes=True, runner_up=True)
TARGET = (TABLE.signals["a"] + RNG.logistic(size=300) > 0).astype(float)
LINEAR = fit_linear(TABLE, PROFILE, PLAN, TARGET, np.ones(300))
WITH_TREES = fit_with_trees(TABLE, PROFILE, PLAN, TARGET, np.ones(300))


def test_rows_are_scored_alike_in_any_portion(monkeypatch):
    whole = WITH_TREES.apply(TABLE)
    monkeypatch.setattr(models, "_ROWS_AT_ONCE", 64)
    np.testing.assert_allclose(WITH_TREES.apply(TABLE), whole, rtol=1e-12)
    np.testing.assert_allclose(WITH_TREES.apply(TABLE.take(np.array([5, 2]))), whole[[5, 2]], rtol=1e-12)


def test_a_shrunk_model_is_a_mean_with_a_model_of_the_max_softmax():
    table = replace(TABLE, signals={}, categories={})
    profile = InputProfile.of(table, np.ones(300))
    plan = ColumnPlan(logits=True, classes=True)
    model = fit_with_trees(table, profile, plan, TARGET, np.ones(300))
    shrunk = shrink_to_max_softmax(model, table, TARGET, np.ones(300))
    # what is left after 0.7 of the model is a rising or falling straight line of the log-odds of the prediction
    rest = shrunk.apply(table) - 0.7 * model.apply(table)
    log_odds = table.logit_features[:, 0]
    slope, intercept = np.polyfit(log_odds, rest, 1)
    np.testing.assert_allclose(rest, intercept + slope * log_odds, atol=1e-9)
    right_shares = 1 / (1 + np.exp(-rest / 0.3))
    assert right_shares.mean() == pytest.approx(TARGET.mean(), abs=1e-6)  # it is a logistic regression


def test_trees_are_a_third_of_the_mean():
    trees = fit_trees(make_tree_columns(TABLE, PROFILE, PLAN), TARGET, np.ones(300))
    log_odds_of_trees = trees.apply(make_tree_columns(TABLE, PROFILE, PLAN))
    expected = (2 * LINEAR.apply(TABLE, PROFILE) + log_odds_of_trees) / 3
    np.testing.assert_allclose(WITH_TREES.apply(TABLE), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("fit", [fit_with_trees, fit_without_trees])
def test_a_model_fitted_again_without_an_input_is_one_that_never_had_it(fit):
    model = fit(TABLE, PROFILE, PLAN, TARGET, np.ones(300))
    fitted = (TABLE, TARGET, np.ones(300))
    scores = score_without_inputs(model, fitted, held_out=TABLE, names=["a", "b", "topic"])
    for name in ("a", "b", "topic"):
        table = TABLE.without(name)
        profile = PROFILE.restricted_to(table)
        plan = replace(PLAN, categories=name != "topic")
        constant = scores[name] - fit(table, profile, plan, TARGET, np.ones(300)).apply(table)
        np.testing.assert_allclose(constant, constant.mean(), atol=1e-3)


def test_the_fit_ranks_right_rows_above_wrong_ones_and_an_unknown_level_is_average():
    confidence = LINEAR.apply(TABLE, PROFILE)
    assert confidence[TARGET == 1].mean() > confidence[TARGET == 0].mean() + 0.5
    one = TABLE.take(np.array([0]))
    by_level = []
    for level in ("law", "art", "math", "unknown"):
        one.categories["topic"] = np.array([level])
        by_level.append(LINEAR.apply(one, PROFILE)[0])
    assert by_level[3] == pytest.approx(np.mean(by_level[:3]), abs=1e-6)


def test_a_model_is_one_function_of_its_inputs_and_has_a_fingerprint():
    linear = ConfidenceModel(profile=PROFILE, linear=LINEAR)
    single = ConfidenceModel(profile=PROFILE, single=SingleScore(score="signal", signal="a"))
    for model in (linear, single, WITH_TREES):
        restored = ConfidenceModel.from_json(model.to_json())
        assert restored.fingerprint == model.fingerprint
        np.testing.assert_array_equal(restored.apply(TABLE), model.apply(TABLE))
    assert linear.fingerprint != single.fingerprint
    broken = (
        ConfidenceModel(profile=PROFILE),
        ConfidenceModel(profile=PROFILE, linear=LINEAR, single=single.single),
        ConfidenceModel(profile=PROFILE, single=SingleScore(score="signal", signal="c")),
        ConfidenceModel(profile=PROFILE.restricted_to(TABLE.without("a")), linear=LINEAR),
        ConfidenceModel(profile=PROFILE, trees=WITH_TREES.trees),
        ConfidenceModel(profile=PROFILE, single=single.single, trees=WITH_TREES.trees),
        replace(WITH_TREES, trees=replace(WITH_TREES.trees, columns=WITH_TREES.trees.columns + 100)),
        replace(WITH_TREES, trees=replace(WITH_TREES.trees, leaves=WITH_TREES.trees.leaves[:-1])),
    )
    for model in broken:
        assert not all(model._rules().values())


def test_a_row_without_the_signal_ranks_last():
    values = SingleScore(score="signal", signal="b").apply(TABLE)
    assert np.isfinite(values).all()
    assert values[np.isnan(TABLE.signals["b"])].max() < np.nanmin(TABLE.signals["b"])
