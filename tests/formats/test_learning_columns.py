"""Columns that a confidence is learned from: numbers, lengths of texts, labels; and which may not be taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abstain.errors import DataError
from abstain.formats import Rules, read_predictions
from abstain.formats.columns import UncertainError

ROWS = """correct,p,stated,tokens,reply,topic
1,0.9,80,10,ab,law
0,0.4,,,,math
1,0.7,90,30,abcd,law
"""


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "answers.csv"
    path.write_text(ROWS)
    return path


def read(table: Path, **columns: str):
    return read_predictions(
        table, columns={"confidence": "p,stated", **columns}, purpose="learning", rules=Rules(missing="last")
    )


def test_inputs_have_their_gaps_and_lengths(table):
    inputs = read(table, features="tokens,reply", categories="topic").learning_inputs()
    assert sorted(inputs) == ["categories", "features", "signals"]
    np.testing.assert_array_equal(inputs["signals"]["p"], [0.9, 0.4, 0.7])
    np.testing.assert_array_equal(inputs["signals"]["stated"], [80, np.nan, 90])
    np.testing.assert_array_equal(inputs["features"]["tokens"], [10, np.nan, 30])
    np.testing.assert_array_equal(inputs["features"]["length of reply"], [2, np.nan, 4])
    assert inputs["categories"]["topic"].tolist() == ["law", "math", "law"]


def test_rows_are_taken_from_every_input(table):
    part = read(table, features="tokens", categories="topic").rows(np.array([2, 0]))
    inputs = part.learning_inputs()
    assert inputs["features"]["tokens"].tolist() == [30, 10]
    assert inputs["categories"]["topic"].tolist() == ["law", "law"]
    assert inputs["signals"]["stated"].tolist() == [90, 80]


def test_selected_rows_are_those_of_the_inputs(table):
    part = read_predictions(
        table,
        columns={"confidence": "p", "features": "tokens"},
        rules=Rules(only={"topic": "law"}),
        purpose="learning",
    )
    assert part.learning_inputs()["features"]["tokens"].tolist() == [10, 30]


def test_a_star_takes_no_columns_of_a_plain_table(table):
    # among all columns is `correct`, from which everything could be learned
    for role in ("confidence", "features", "categories"):
        with pytest.raises(UncertainError, match=r"\* stands for all confidences of a log"):
            read_predictions(table, columns={role: "*"})


def test_class_scores_are_inputs(tmp_path):
    path = tmp_path / "preds.npz"
    logits = np.array([[2.0, 0.0], [0.0, 1.0]])
    np.savez(path, logits=logits, labels=np.array([0, 0]), length=np.array([3.0, 4.0]))
    inputs = read_predictions(path, columns={"features": "length"}).learning_inputs()
    np.testing.assert_array_equal(inputs["logits"], logits)
    assert inputs["features"]["length"].tolist() == [3.0, 4.0]


def test_a_matrix_is_no_feature(tmp_path):
    path = tmp_path / "preds.npz"
    np.savez(path, logits=np.eye(2), labels=np.array([0, 1]), hidden=np.eye(2))
    with pytest.raises(DataError, match="`hidden` must hold one number per row"):
        read_predictions(path, columns={"features": "hidden"})


@pytest.mark.parametrize(
    ("columns", "refused"),
    [
        ({"categories": "prediction,ground_truth"}, "ground_truth"),  # correct is read from another column
        ({"features": "loss"}, "loss"),
        ({"confidence": "p,is_correct"}, "is_correct"),
        ({"correct": "grade", "categories": "grade"}, "grade"),  # by its role
        ({"labels": "gold", "categories": "gold"}, "gold"),
        ({"categories": "error"}, ""),  # text of calls that failed
        ({"labels": "gold", "prediction": "ground_truth", "categories": "ground_truth"}, ""),  # by its role
        ({"categories": "prediction"}, ""),
    ],
)
def test_what_says_which_answers_are_right_is_no_input(tmp_path, columns, refused):
    columns = {"confidence": "p", **columns}
    if "labels" not in columns:
        columns = {"correct": "is_correct", **columns}
    cells = {
        "is_correct": "10",
        "grade": "10",
        "ground_truth": "ab",
        "gold": "ab",
        "prediction": "aa",
        "loss": "01",
        "error": ["timeout", ""],
        "p": ["0.9", "0.4"],
    }
    names = sorted({name for stated in columns.values() for name in stated.split(",")})
    lines = [",".join(names), *(",".join(cells[name][row] for name in names) for row in (0, 1))]
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(lines))
    if refused:
        with pytest.raises(DataError, match=f"`{refused}` says which answers are right"):
            read_predictions(path, columns=columns, purpose="learning")
    else:
        assert read_predictions(path, columns=columns, purpose="learning").n == 2


def test_inputs_of_a_finished_confidence_may_be_called_like_the_truth(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("is_correct,target,p\n1,a,0.9\n0,b,0.4\n")
    columns = {"correct": "is_correct", "confidence": "p", "categories": "target"}
    assert read_predictions(path, columns=columns).learning_inputs()["categories"]["target"].tolist() == [
        "a",
        "b",
    ]
