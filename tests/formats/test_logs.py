"""Refusals, missing confidences and repeats, against numbers made by hand."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest

import abstain
from abstain.formats import Rules, read_log, read_predictions

ROWS = [  # question, truth, answer, stated, tokens
    (1, "A", "A", "90", "0.8"), (1, "A", "B", "60", "0.4"), (1, "A", "A", "90", "0.7"),
    (2, "B", "B", "0.95", "0.9"), (2, "B", "", "50", "0.2"), (3, "C", "C", "", "0.6"), (3, "C", "A", "75", ""),
]  # fmt: skip
COLUMNS = {"labels": "truth", "prediction": "answer", "question": "q"}


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "gpt-4.1-mini.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("q", "truth", "answer", "stated", "tokens"), *ROWS])
    return path


def mean_of_means(loss: list[float], confidence: list[float]) -> float:
    """The definition of AURC, tied rows accepted together."""
    accepted = [[l for l, c in zip(loss, confidence) if c >= at] for at in confidence]
    return float(np.mean([np.mean(a) for a in accepted]))


def test_an_unanswered_question_is_an_abstention_or_wrong(table):
    columns = COLUMNS | {"confidence": "stated"}
    read = read_predictions(table, columns=columns)
    assert read.abstained.tolist() == [
        False,
        False,
        False,
        False,
        True,
        False,
    ]  # one answer has no confidence
    area = abstain.aurc(read.loss, read.confidence, abstained=read.abstained)
    assert area == pytest.approx(mean_of_means([0, 1, 0, 0, 1], [90, 60, 90, 0.95, 75]))
    wrong = read_predictions(table, columns=columns, rules=Rules(unanswered="wrong"))
    assert wrong.abstained is None
    area = abstain.aurc(wrong.loss, wrong.confidence)
    assert area == pytest.approx(mean_of_means([0, 1, 0, 0, 1, 1], [90, 60, 90, 0.95, -1, 75]))


def test_missing_confidences_are_left_out_or_last(table):
    columns = COLUMNS | {"confidence": "stated"}
    last = read_predictions(table, columns=columns, rules=Rules(unanswered="wrong", missing="last"))
    assert last.n == 7
    area = abstain.aurc(last.loss, last.confidence)
    assert area == pytest.approx(mean_of_means([0, 1, 0, 0, 1, 0, 1], [90, 60, 90, 0.95, -1, -1, 75]))
    assert any(
        "1 answer has no `stated` and is left out" in n for n in read_log(table, columns=columns).notes
    )


def test_signals_are_compared_on_common_rows(table):
    read = read_predictions(table, columns=COLUMNS | {"confidence": "stated,tokens"})
    assert list(read.signals) == ["stated", "tokens"]
    assert read.n == 7  # an answer without one of them is ranked last by it
    found = abstain.evaluate(**read.arguments(), metrics="aurc")
    wrong = [0, 1, 0, 0, 0, 1]  # without the refusal
    assert found["tokens", "zero_one", "aurc"].estimate == pytest.approx(
        mean_of_means(wrong, [0.8, 0.4, 0.7, 0.9, 0.6, -1])
    )
    assert found["stated", "zero_one", "aurc"].estimate == pytest.approx(
        mean_of_means(wrong, [90, 60, 90, 0.95, -1, 75])
    )
    columns = COLUMNS | {"confidence": "stated,tokens"}
    complete = read_predictions(table, columns=columns, rules=Rules(missing="left_out"))
    assert complete.n == 5  # four answers with both, and the refusal
    found = abstain.evaluate(**complete.arguments(), metrics="aurc")
    assert found["tokens", "zero_one", "aurc"].estimate == pytest.approx(
        mean_of_means([0, 1, 0, 0], [0.8, 0.4, 0.7, 0.9])
    )


def test_repeats_are_clusters_and_so_are_tasks_and_questions(table, tmp_path):
    read = read_predictions(table, columns=COLUMNS | {"confidence": "tokens"})
    assert len(np.unique(read.clusters)) == 3
    path = tmp_path / "tasks.csv"
    rows = [
        f"{t},{q},1,0.{q}{k}" for (t, q), k in itertools.product(itertools.product("ab", range(3)), range(2))
    ]
    path.write_text("\n".join(["task,question_id,correct,confidence", *rows]))
    both = read_predictions(path)
    assert len(np.unique(both.clusters)) == 6
    assert set(both.group_labels()) == {"a", "b"}
    path.write_text("\n".join(["question_id,correct,confidence", *(f"{k},1,0.{k}" for k in range(5))]))
    assert read_predictions(path).clusters is None  # nothing is asked twice
