from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from abstain.confidence.shipped_weights import ShippedWeights, load_shipped_weights, rank_correlations
from abstain.confidence.signal_ranks import RankReference
from abstain.errors import DataError

SHIPPED = load_shipped_weights()


def references_of(columns):
    return {role: RankReference.of(column) for role, column in columns.items()}


def test_the_file_is_whole_and_says_what_it_was_learned_on():
    assert SHIPPED.version == 1
    assert "MMLU-Pro" in SHIPPED.learned_on
    assert ShippedWeights.from_json(SHIPPED.to_json()).to_json() == SHIPPED.to_json()
    tampered = json.loads(SHIPPED.to_json())
    tampered["linear"][0] += 1
    with pytest.raises(DataError, match="checksum"):
        ShippedWeights.from_json(json.dumps(tampered))


def test_correlations_are_spearmans(rows_like_those_of_learning):
    from scipy.stats import spearmanr

    columns = rows_like_those_of_learning(500)
    expected = spearmanr(np.column_stack(list(columns.values()))).statistic[np.triu_indices(4, 1)]
    np.testing.assert_allclose(rank_correlations(columns, references_of(columns)), expected, atol=0.01)


def test_the_guard_lets_like_rows_pass_and_says_what_is_unlike(rows_like_those_of_learning):
    columns = rows_like_those_of_learning()
    assert SHIPPED.refusal(columns, references_of(columns)) == ""
    columns["stated_words"] = columns["stated_words"].copy()
    columns["stated_words"][:1000] = np.nan
    assert "stated_words is missing in 33% of the rows" in SHIPPED.refusal(columns, references_of(columns))
    columns = rows_like_those_of_learning()
    columns["length"] = columns["stated_number"]
    assert "the rank correlation of" in SHIPPED.refusal(columns, references_of(columns))


def test_the_guard_allows_for_the_noise_of_correlations_of_few_rows(rows_like_those_of_learning):
    columns = rows_like_those_of_learning(5000)
    passed = []
    for start in range(0, 5000, 50):
        few = {role: column[start : start + 50] for role, column in columns.items()}
        passed.append(SHIPPED.refusal(few, references_of(few)) == "")
    assert np.mean(passed) >= 0.95


def test_inputs_are_found_by_any_of_their_names():
    names = ("verbal_numerical_confidence", "token_length", "mean_token_logprob", "stated_words", "other")
    assert SHIPPED.find_columns(names) == {
        "token_probability": "mean_token_logprob",
        "stated_number": "verbal_numerical_confidence",
        "stated_words": "stated_words",
        "length": "token_length",
    }
    assert "there is no input called 'length'" in SHIPPED.find_columns(names[:1] + names[2:])
    assert (
        replace(SHIPPED, linear=SHIPPED.linear[:2])._rules()["there must be one weight per signal."] is False
    )
