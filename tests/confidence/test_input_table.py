from __future__ import annotations

import numpy as np
import pytest

from abstain import scores
from abstain.confidence.input_table import MISSING_LEVEL, read_inputs, read_losses
from abstain.errors import InputError


def test_rows_and_inputs_can_be_taken_apart():
    logits = np.random.default_rng(0).normal(size=(4, 3))
    table = read_inputs(
        "test",
        logits=logits,
        signals={"a": [1, None, 3, np.nan]},
        features={"b": [1, 2, 3, 4]},
        categories={"c": ["x", None, "y", "x"]},
    )
    assert list(table.numbers) == ["a", "b"]
    assert table.categories["c"].tolist() == ["x", MISSING_LEVEL, "y", "x"]
    assert (table.kind, table.class_count, table.row_count) == ("logits", 3, 4)
    part = table.take(np.array([2, 0]))
    assert part.row_count == 2
    assert part.signals["a"].tolist() == [3.0, 1.0]
    assert part.predicted.tolist() == logits.argmax(axis=1)[[2, 0]].tolist()
    assert list(table.without("a").numbers) == ["b"]


def test_scores_are_computed_once_and_kept_for_parts():
    logits = np.random.default_rng(1).normal(size=(5, 4))
    table = read_inputs("test", logits=logits)
    warm = table.compute_score("max_softmax", 2.0)
    np.testing.assert_array_equal(warm, scores.max_softmax(logits, temperature=2.0))
    assert table.compute_score("max_softmax", 2.0) is warm
    assert table.take(np.arange(2)).known_scores["max_softmax", 2.0].tolist() == warm[:2].tolist()
    np.testing.assert_array_equal(
        table.compute_score("normalised_max_logit", 3.0), scores.normalised_max_logit(logits, p=3.0)
    )


def test_losses_come_from_one_description_of_the_outcome():
    table = read_inputs("test", logits=[[2.0, 0.0], [0.0, 1.0]])
    assert read_losses("test", table, labels=[0, 0]).tolist() == [0, 1]
    assert read_losses("test", table, correct=[True, False]).tolist() == [0, 1]
    assert read_losses("test", table, loss=[0.5, 2.0]).tolist() == [0.5, 2.0]
    for arguments in ({}, {"correct": [1, 0], "loss": [0, 1]}):
        with pytest.raises(InputError, match="give exactly one of `correct`, `loss`, `labels`"):
            read_losses("test", table, **arguments)
    without_classes = read_inputs("test", signals={"a": [1, 2]})
    with pytest.raises(InputError, match="`labels` need a prediction"):
        read_losses("test", without_classes, labels=[0, 1])
    with pytest.raises(InputError, match="must be finite, got NaN"):
        read_losses("test", table, loss=[0.0, np.nan])
