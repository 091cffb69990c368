from __future__ import annotations

import numpy as np

from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import read_inputs
from abstain.confidence.model_columns import (
    ColumnPlan,
    describe_columns,
    list_tree_inputs,
    make_columns,
    make_tree_columns,
)

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(300, 4))
TABLE = read_inputs(
    "test",
    logits=LOGITS,
    signals={"a": RNG.normal(size=300), "b": np.where(RNG.random(300) < 0.2, np.nan, RNG.random(300))},
    categories={"topic": RNG.choice(["law", "art", "math"], 300)},
)
PROFILE = InputProfile.of(TABLE, np.ones(300))
PLAN = ColumnPlan(numbers=True, categories=True, logits=True, classes=True, runner_up=True)


def test_columns_are_described_in_their_order():
    columns = make_columns(TABLE, PROFILE, PLAN)
    described = describe_columns(PROFILE, PLAN)
    assert columns.shape == (300, len(described))
    flags = [place for place, column in enumerate(described) if column.is_flag]
    assert set(np.unique(columns[:, flags])) == {0.0, 1.0}
    missing_of_b = columns[:, [column.inputs for column in described].index(("b",)) + 5]
    np.testing.assert_array_equal(missing_of_b, np.isnan(TABLE.signals["b"]))
    product = [column.inputs for column in described].index(("a", "b"))
    ranks = [PROFILE.numbers[name].rank(TABLE.signals[name]) - 0.5 for name in ("a", "b")]
    np.testing.assert_allclose(columns[:, product], ranks[0] * ranks[1])


def test_the_last_flags_are_those_of_the_predicted_class_and_of_the_second():
    columns = make_columns(TABLE, PROFILE, PLAN)
    by_size = np.argsort(-LOGITS, axis=1)
    np.testing.assert_array_equal(columns[:, -8:-4].argmax(axis=1), by_size[:, 0])
    np.testing.assert_array_equal(columns[:, -4:].argmax(axis=1), by_size[:, 1])


def test_more_than_six_numbers_have_no_products():
    table = read_inputs("test", signals={f"x{i}": RNG.normal(size=50) for i in range(7)})
    profile = InputProfile.of(table, np.ones(50))
    assert all(len(column.inputs) == 1 for column in describe_columns(profile, ColumnPlan(numbers=True)))


def test_trees_read_ranks_with_gaps_features_and_codes():
    columns = make_tree_columns(TABLE, PROFILE, PLAN)
    inputs = list_tree_inputs(PROFILE, PLAN)
    assert (columns.numbers.shape[1], columns.codes.shape[1]) == (
        len(inputs.of_numbers),
        len(inputs.of_codes),
    )
    assert inputs.of_codes == ("topic", "logits", "logits")
    fewer = make_tree_columns(TABLE.without("b"), PROFILE.restricted_to(TABLE.without("b")), PLAN)
    for without, expected in zip(columns.without("b", inputs), fewer, strict=True):
        np.testing.assert_array_equal(without, expected)
    assert [part.shape[1] for part in columns.without("logits", inputs)] == [2, 1]
    np.testing.assert_array_equal(columns.numbers[:, 1] == -1, np.isnan(TABLE.signals["b"]))
    levels = np.array(["art", "law", "math"])  # of a profile, in alphabetical order
    np.testing.assert_array_equal(levels[columns.codes[:, 0]], TABLE.categories["topic"])
    one = TABLE.take(np.array([0]))
    one.categories["topic"] = np.array(["unknown"])
    assert make_tree_columns(one, PROFILE, PLAN).codes[0, 0] == -1
    assert make_columns(one, PROFILE, ColumnPlan(categories=True)).tolist() == [[0.0, 0.0, 0.0]]


def test_a_plan_fits_a_profile_that_has_its_inputs():
    without_scores = InputProfile.of(read_inputs("test", signals={"a": RNG.normal(size=50)}), np.ones(50))
    assert PLAN.fits(PROFILE)
    assert ColumnPlan(numbers=True).fits(without_scores)
    assert not ColumnPlan(runner_up=True).fits(without_scores)
