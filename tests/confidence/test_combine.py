from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.confidence import LearnedConfidence
from abstain.errors import DtypeError, InputError, ShapeError


def test_the_mean_of_two_noisy_signals_is_better_than_either():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=4000)
    wrong = truth + rng.logistic(size=4000) < 0
    signals = {name: truth + rng.normal(size=4000) for name in ("a", "b")}
    combined = abstain.combine_signals(signals=signals)
    assert combined.kept == "mean of ranks"
    best = min(abstain.aurc(wrong, signal) for signal in signals.values())
    assert abstain.aurc(wrong, combined(signals=signals)) < 0.97 * best


def test_it_is_stored_and_applied_to_single_rows(rows_like_those_of_learning):
    columns = rows_like_those_of_learning()
    length = columns.pop("length")
    combined = abstain.combine_signals(signals=columns, features={"length": length})
    assert combined.kept == "shipped weights"
    assert combined.inputs == ("token_probability", "stated_number", "stated_words", "length")
    restored = LearnedConfidence.from_json(combined.to_json())
    one = {name: column[:1] for name, column in columns.items()}
    whole = combined(signals=columns, features={"length": length})
    assert restored(signals=one, features={"length": length[:1]}).tolist() == whole[:1].tolist()
    ranks = abstain.combine_signals(signals=columns, features={"length": length}, weights="ranks")
    assert ranks.kept == "mean of ranks"
    assert any("'length' was not used" in note for note in ranks.notes)
    assert ranks.fingerprint != combined.fingerprint
    assert not combined.proven
    assert "Made without labels" in repr(combined)


def test_rules_may_be_made_on_the_rows_of_a_combination_since_it_saw_no_labels():
    rng = np.random.default_rng(1)
    signals = {"a": rng.random(500), "b": rng.random(500)}
    combined = abstain.combine_signals(signals=signals)
    rule = abstain.select_threshold(
        rng.random(500) < 0.05, combined(signals=signals), score=combined, risk=0.3
    )
    assert rule.feasible


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"signals": {"a": [1, 1, 1]}}, InputError, "needs a signal that varies"),
        ({"signals": {"a": ["x"]}}, DtypeError, "must hold numbers"),
        ({"signals": {"a": [1, 2], "b": [1]}}, ShapeError, "one entry per row"),
        ({"signals": {"a": [1, 2]}, "weights": "learned"}, InputError, "must be one of"),
        ({"signals": {"a": [1, 2]}, "sample_weight": [1]}, ShapeError, "one entry per row"),
        ({"signals": {"a": [1, 2]}, "sample_weight": [0, 0]}, InputError, "not all 0"),
        ({"signals": {}}, InputError, "needs something to learn from"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, error, words):
    with pytest.raises(error, match="combine_signals: ") as caught:
        abstain.combine_signals(**arguments)
    assert words in str(caught.value)
