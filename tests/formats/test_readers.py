"""Which reader a file goes to, and what is said of a file that has none."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from abstain.cli import cli
from abstain.errors import DataError, InputError
from abstain.formats import read_predictions
from abstain.formats.readers import open_source

ROWS = [(1, 0.95), (0, 0.25), (1, 0.5)]


def lines(delimiter: str = ",", comma: str = ".", end: str = "\n") -> str:
    rows = [f"{right}{delimiter}{sure}".replace(".", comma) for right, sure in ROWS]
    return end.join([f"correct{delimiter}confidence", *rows]) + end


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("old.xls", b"\xd0\xcf\x11\xe0", "Save the sheet as .xlsx or .csv"),
        (
            "big.parquet",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
            "pointer of Git LFS",
        ),
        ("fake.xlsx", b"correct,confidence\n1,0.9\n", "cannot be read as an Excel workbook"),
        ("latin.csv", "label,confidence\nä,0.9\n".encode("cp1252"), "Save it as UTF-8"),
        ("unmarked.csv", lines().encode("utf-16-le"), "UTF-16 without its byte order mark"),
        ("quotes.json", b'{"correct": [1, 0], "confidence": ["0.9", "0.2"]}', "numbers in quotes"),
        (
            "objects.json",
            b'{"correct": [1, 0], "confidence": [{"p": 0.9}, {"p": 0.1}]}',
            "`confidence.p` \\(2 numbers",
        ),
        (
            "nested.json",
            b'{"results": [{"correct": 1}], "more": [{"correct": 0}]}',
            "`results.correct` \\(1 numbers\\)",
        ),
    ],
)
def test_what_cannot_be_read_says_what_to_do(tmp_path, name, content, told):
    pytest.importorskip("openpyxl")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=told):
        read_predictions(tmp_path / name)


@pytest.mark.skipif(os.name == "nt", reason="no pipes by name there")
def test_a_pipe_by_name_is_no_missing_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match=r"not a regular file\. Send what it gives to standard input"):
        read_predictions(tmp_path / "pipe.csv")


@pytest.mark.parametrize(
    "content",
    [
        lines(";", ","),
        json.dumps({"correct": [r for r, _ in ROWS], "confidence": [c for _, c in ROWS]}),
        "\n".join(json.dumps({"correct": r, "confidence": c}) for r, c in ROWS),
    ],
    ids=["table", "json", "json lines"],
)
def test_standard_input(content):
    asked = ["evaluate", "-", "--metric", "risk", "--quiet"]
    done = CliRunner().invoke(cli, asked, input=content)
    assert done.exit_code == 0, done.output
    assert float(done.stdout) == pytest.approx(1 / 3)


def test_an_unknown_format_is_refused_by_name(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("correct,confidence\n1,0.9\n0,0.2\n")
    with pytest.raises(InputError, match=r"`format` must be one of .* got .cvs."):
        open_source(path, format="cvs")
