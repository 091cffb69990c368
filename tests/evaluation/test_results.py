"""An evaluation is indexed by a metric alone, or by score, loss and metric; wrong names are answered with the right ones."""

from __future__ import annotations

import numpy as np
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


def test_a_flat_dict_has_plain_names_and_only_numbers_with_a_value():
    table = evaluate(
        loss=LOSS,
        confidence=CONFIDENCE,
        metrics=["aurc", "aurc:loo", "risk_at_coverage@0.5", "aurc@0.5-1"],
        groups=["a", "b"] * 3,
    )
    numbers = table.to_flat_dict("test/")
    assert numbers["test/aurc"] == table["aurc"].value
    assert numbers["test/aurc_loo_low"] == table["aurc:loo"].low
    assert numbers["test/risk_at_coverage_0.5_high"] == table["risk_at_coverage@0.5"].high
    assert "test/aurc_0.5-1" in numbers
    assert all(type(value) is float for value in numbers.values())
    assert not any(character in name for name in numbers for character in "@:")
    one_kind = evaluate(loss=[0, 0, 0], confidence=[3, 2, 1], metrics=["auroc", "risk"]).to_flat_dict()
    assert "auroc" not in one_kind  # undefined without an error
    assert one_kind["risk"] == 0.0


def test_a_flat_dict_names_scores_and_losses_where_there_are_several():
    probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    labels = [0, 1, 1, 0]
    table = evaluate(
        probs=probs,
        labels=labels,
        scores=["max_softmax", "negative_entropy"],
        losses=["zero_one", "brier"],
        metrics="risk",
    )
    values = {name: value for name, value in table.to_flat_dict().items() if name.endswith("risk")}
    assert list(values) == [f"{entry.score}/{entry.loss}/risk" for entry in table.entries]
    assert values["max_softmax/zero_one/risk"] == 0.5


def test_names_that_exist_but_not_together_are_refused():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
    table = evaluate(logits, labels, losses=["zero_one", "brier"], groups=["a", "b"] * 25)
    together = "no entry of .*loss 'brier'.* and metric 'auroc'"
    with pytest.raises(InputError, match=together):
        table["max_softmax", "brier", "auroc"]
    with pytest.raises(InputError, match=together):
        table.by_group("auroc", loss="brier")
    with pytest.raises(InputError, match=together):
        table.best("auroc", loss="brier")
