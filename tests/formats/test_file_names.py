"""What the name of a file says."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from abstain.errors import DataError
from abstain.formats import read_predictions
from abstain.formats.file_names import FILE_ENDINGS, FORMATS, format_by_name
from abstain.formats.readers import READERS

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


def test_every_format_has_a_reader_and_endings_of_its_own():
    assert {reader.name for reader in READERS} == set(FORMATS)
    assert len(READERS) == len(FORMATS)
    endings = [ending for format_endings in FILE_ENDINGS.values() for ending in format_endings]
    assert len(set(endings)) == len(endings)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.npz", "npz"),
        ("A.CSV", "csv"),
        ("a.csv.gz", "csv"),
        ("a.jsonl.xz", "jsonl"),
        ("a", None),
        ("a.b", None),
    ],
)
def test_formats_by_ending(name, expected):
    assert format_by_name(Path(name)) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.pkl", "can run code"), ("a.ods", "Save the sheet as"), ("a.csv.gz.gz", "is compressed twice")],
)
def test_formats_refused_by_name(name, message):
    with pytest.raises(DataError, match=message):
        format_by_name(Path(name))


def test_names_of_formats_and_roles_need_no_numpy():
    code = "import sys, abstain.formats as formats; formats.FORMATS, formats.ROLES; print('numpy' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )
