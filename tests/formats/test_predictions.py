"""Predictions: what they hand to `evaluate`, rows of them, answers by name, and notes on how they were read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import abstain
from abstain.errors import DataError
from abstain.formats import Column, Log, Predictions, Rules, TextValues
from abstain.formats.predictions import reading_notes

LOGITS = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [0.5, 0.0, 0.25]])


def class_scores(**fields) -> Predictions:
    return Predictions("net", "net.npz", "npz", 3, logits=LOGITS, labels=np.array([0, 1, 2]), **fields)


def plain_table(**fields) -> Predictions:
    loss = np.array([0.0, 1.0, 0.0])
    confidence = np.array([0.9, 0.5, 0.7])
    return Predictions("table", "t.csv", "csv", 3, loss=loss, confidence=confidence, **fields)


def answers(name: str, answered: list[bool], stated: list[float], **rules: str) -> Predictions:
    log = Log(
        path=f"{name}.csv",
        tool="csv",
        loss=np.array([0.0, 1.0, 0.0, 1.0]),
        answered=np.array(answered),
        signals={"stated": np.array(stated)},
        rules=Rules(**rules).settled(),
    )
    return Predictions(name, log.path, "csv", log=log, **log.fields())


def test_arguments_evaluate_what_the_file_has():
    assert sorted(class_scores().arguments()) == ["labels", "logits"]
    assert sorted(plain_table(groups=TextValues.of("aab")).arguments()) == ["confidence", "groups", "loss"]
    table = abstain.evaluate(**plain_table(loss_name="zero_one").arguments(), metrics="risk")
    assert table["confidence", "zero_one", "risk"].estimate == pytest.approx(1 / 3)


def test_kind_says_what_is_ranked():
    probs = np.full((3, 2), 0.5)
    assert class_scores().kind == "logits"
    assert Predictions("net", "", "", 3, probs=probs).kind == "probs"
    assert plain_table().kind == "confidence"


def test_rows_takes_every_column_in_the_order_given():
    ids = Column.of(TextValues.of(["x", "y", "z"]))
    read = plain_table(groups=TextValues.of("abc"), ids=ids, signals={"s": np.array([1.0, 2.0, 3.0])})
    part = read.rows(np.array([2, 0]))
    assert (part.n, part.loss.tolist(), part.confidence.tolist()) == (2, [0.0, 0.0], [0.7, 0.9])
    assert part.group_labels().tolist() == ["c", "a"]
    assert part.ids.as_texts().tolist() == ["z", "x"]
    assert part.signals["s"].tolist() == [3.0, 1.0]


def test_answers_are_class_names():
    truth, predicted = class_scores(classes=("cat", "dog", "newt")).true_and_given_classes()
    assert truth.tolist() == ["cat", "dog", "newt"]
    assert predicted.tolist() == ["cat", "dog", "cat"]
    with pytest.raises(DataError, match="needs labels with class scores"):
        plain_table().true_and_given_classes()


def test_abstentions_are_left_out():
    assert plain_table(abstained=np.array([False, True, False])).without_abstentions().loss.tolist() == [
        0.0,
        0.0,
    ]
    read = plain_table()
    assert read.without_abstentions() is read
    with pytest.raises(DataError, match="abstained on every sample"):
        plain_table(abstained=np.ones(3, bool)).without_abstentions()


def test_notes_say_how_refusals_and_missing_confidences_count():
    everything = [0.9, 0.8, 0.7, 0.6]
    refusing = answers("a", [True, True, True, False], everything)
    strict = answers("b", [True, True, True, False], everything, unanswered="wrong")
    silent = answers("c", [True] * 4, [0.9, np.nan, 0.7, 0.6], missing="last")
    plain = plain_table(abstained=np.array([False, True, False]))
    assert reading_notes([refusing, strict, silent, plain]) == [
        "Unanswered questions count as wrong and are ranked last (--unanswered abstained for the other view): b 25.0%.",
        "Unanswered questions count as abstentions, and areas are over the coverage that is left (--unanswered wrong "
        "for the other view): a 25.0%.",
        "Answers without a confidence are ranked last: c 25.0%.",
        "table answered 66.7% of the samples; areas are over the coverage it can attain.",
    ]
    assert reading_notes([plain_table()]) == []
    log = replace(
        silent.log,
        loss=np.zeros(3000),
        answered=np.ones(3000, bool),
        signals={"stated": np.array([np.nan, *[0.9] * 2999])},
    )
    nearly_all = Predictions("d", "d.csv", "csv", log=log, **log.fields())
    assert reading_notes([nearly_all]) == ["Answers without a confidence are ranked last: d 1 of 3,000."]
