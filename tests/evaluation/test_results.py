"""An evaluation is indexed by a metric alone, or by score, loss and metric; wrong names are answered with the right ones."""

from __future__ import annotations

import pytest

from abstain.errors import InfeasibleError, InputError
from abstain.evaluation import compare, evaluate

LOSS = [0, 0, 1, 0, 1, 1]
CONFIDENCE = [9, 8, 7, 6, 5, 4]


def test_a_metric_alone_is_enough_where_one_score_and_one_loss_make_it_unique():
    table = evaluate(loss=LOSS, confidence=CONFIDENCE, groups=["a", "b"] * 3)
    assert table["aurc"] is table["confidence", "loss", "aurc"]
    assert table["risk"].estimate == 0.5


def test_several_scores_are_an_error_that_lists_the_keys():
    table = evaluate(loss=LOSS, confidence={"one": CONFIDENCE, "two": CONFIDENCE[::-1]})
    with pytest.raises(
        InputError, match=r"must be unique.*\('one', 'loss', 'aurc'\), \('two', 'loss', 'aurc'\)"
    ):
        table["aurc"]


@pytest.mark.parametrize("key", [("confidence", "loss"), 3, ("a", "b", "c", "d")])
def test_other_keys_are_an_error(key):
    with pytest.raises(InputError, match=r"a metric or \(score, loss, metric\)"):
        evaluate(loss=LOSS, confidence=CONFIDENCE)[key]


def test_a_similar_name_is_suggested():
    table = evaluate(loss=LOSS, confidence=CONFIDENCE)
    with pytest.raises(InputError, match='Did you mean "aurc"'):
        table["AURC"]
    with pytest.raises(InputError, match='Did you mean "confidence"'):
        table["Confidence", "loss", "aurc"]
    comparison = compare({"large": (LOSS, CONFIDENCE), "small": (LOSS, CONFIDENCE[::-1])})
    with pytest.raises(InputError, match='Did you mean "large"'):
        comparison["Large"]


def test_the_value_of_an_entry_is_a_number_or_an_error_with_the_reason():
    table = evaluate(loss=[0, 0, 0, 0], confidence=[4, 3, 2, 1], metrics=["aurc", "auroc"])
    assert table["aurc"].value == table["aurc"].estimate == 0.0
    with pytest.raises(InfeasibleError, match="AUROC of failures of confidence"):
        _ = table["auroc"].value
