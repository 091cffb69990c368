from __future__ import annotations

import numpy as np
import pytest

from abstain.confidence import models
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import read_inputs
from abstain.confidence.models import ConfidenceModel, SingleScore, describe_columns, fit_linear, make_columns

RNG = np.random.default_rng(0)
TABLE = read_inputs(
    "test",
    logits=RNG.normal(size=(300, 4)),
    signals={"a": RNG.normal(size=300), "b": np.where(RNG.random(300) < 0.2, np.nan, RNG.random(300))},
    categories={"topic": RNG.choice(["law", "art", "math"], 300)},
)
PROFILE = InputProfile.of(TABLE, np.ones(300))
ALL_PARTS = {
    "with_numbers": True,
    "with_categories": True,
    "with_logits": True,
    "with_classes": True,
    "transfer": None,
}
TARGET = (TABLE.signals["a"] + RNG.logistic(size=300) > 0).astype(float)
LINEAR = fit_linear(TABLE, PROFILE, TARGET, np.ones(300), **ALL_PARTS)


def test_columns_are_described_in_their_order():
    columns = make_columns(TABLE, PROFILE, **ALL_PARTS)
    described = describe_columns(PROFILE, **ALL_PARTS)
    assert columns.shape == (300, len(described))
    flags = [place for place, column in enumerate(described) if column.is_flag]
    assert set(np.unique(columns[:, flags])) == {0.0, 1.0}
    missing_of_b = columns[:, [column.inputs for column in described].index(("b",)) + 5]
    np.testing.assert_array_equal(missing_of_b, np.isnan(TABLE.signals["b"]))
    product = [column.inputs for column in described].index(("a", "b"))
    ranks = [PROFILE.numbers[name].rank(TABLE.signals[name]) - 0.5 for name in ("a", "b")]
    np.testing.assert_allclose(columns[:, product], ranks[0] * ranks[1])


def test_more_than_six_numbers_have_no_products():
    table = read_inputs("test", signals={f"x{i}": RNG.normal(size=50) for i in range(7)})
    profile = InputProfile.of(table, np.ones(50))
    parts = {**ALL_PARTS, "with_categories": False, "with_logits": False, "with_classes": False}
    assert all(len(column.inputs) == 1 for column in describe_columns(profile, **parts))


def test_rows_are_scored_alike_in_any_portion(monkeypatch):
    whole = LINEAR.apply(TABLE, PROFILE)
    monkeypatch.setattr(models, "_ROWS_AT_ONCE", 64)
    np.testing.assert_allclose(LINEAR.apply(TABLE, PROFILE), whole, rtol=1e-12)
    np.testing.assert_allclose(LINEAR.apply(TABLE.take(np.array([5, 2])), PROFILE), whole[[5, 2]], rtol=1e-12)


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
    for model in (linear, single):
        restored = ConfidenceModel.from_json(model.to_json())
        assert restored.fingerprint == model.fingerprint
        np.testing.assert_array_equal(restored.apply(TABLE), model.apply(TABLE))
    assert linear.fingerprint != single.fingerprint
    broken = (
        ConfidenceModel(profile=PROFILE),
        ConfidenceModel(profile=PROFILE, linear=LINEAR, single=single.single),
        ConfidenceModel(profile=PROFILE, single=SingleScore(score="signal", signal="c")),
        ConfidenceModel(profile=PROFILE.restricted_to(TABLE.without("a")), linear=LINEAR),
    )
    for model in broken:
        assert not all(model._rules().values())


def test_a_row_without_the_signal_ranks_last():
    values = SingleScore(score="signal", signal="b").apply(TABLE)
    assert np.isfinite(values).all()
    assert values[np.isnan(TABLE.signals["b"])].max() < np.nanmin(TABLE.signals["b"])
