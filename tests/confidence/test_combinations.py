from __future__ import annotations

import numpy as np

from abstain.confidence.combinations import choose_combination, mean_of_ranks
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import read_inputs


def choose(columns):
    columns = dict(columns)
    length = columns.pop("length", None)
    features = None if length is None else {"length": length}
    table = read_inputs("test", signals=columns, features=features)
    return choose_combination(table, InputProfile.of(table, np.ones(table.row_count)))


def test_the_shipped_weights_are_taken_where_they_apply(rows_like_those_of_learning):
    columns = rows_like_those_of_learning()
    assert choose(columns).name == "shipped weights"
    assert "version 1, learned on" in choose(columns).reason
    few = {role: column[:30] for role, column in columns.items()}
    assert "30 rows do not tell" in choose(few).reason
    without = {role: column for role, column in columns.items() if role != "stated_number"}
    assert choose(without).name == "mean of ranks"
    assert "no weights were learned for these signals" in choose(without).reason


def test_a_missing_signal_counts_as_the_lowest_rank():
    table = read_inputs("test", signals={"a": [1.0, 2.0, None, 4.0], "b": [1.0, 2.0, 3.0, 4.0]})
    combination = mean_of_ranks(InputProfile.of(table, np.ones(4)), "asked for")
    a = np.array([1 / 6, 3 / 6, 0.0, 5 / 6])
    b = np.array([1, 3, 5, 7]) / 8
    np.testing.assert_allclose(combination.model.apply(table.numbers), (a + b) / 2)
