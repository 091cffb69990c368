"""What the name of a file says."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from abstain.formats import read_predictions

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


def test_a_name_keeps_its_dots(table):
    assert read_predictions(table, columns=COLUMNS | {"confidence": "stated"}).name == "gpt-4.1-mini"
