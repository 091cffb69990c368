"""Files as people have them: from Excel in any language, rounded, packed, by pipe."""

from __future__ import annotations

import gzip
import json
import os
import re

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.errors import AbstainWarning, DataError
from abstain.formats import Rules, read_predictions

ROWS = [(1, 0.95), (0, 0.25), (1, 0.5)]


def lines(delimiter: str = ",", comma: str = ".", end: str = "\n") -> str:
    rows = [f"{right}{delimiter}{sure}".replace(".", comma) for right, sure in ROWS]
    return end.join([f"correct{delimiter}confidence", *rows]) + end


FILES = {
    "semicolons.csv": lines(";").encode(),
    "decimal-commas.csv": lines(";", ",").encode(),
    "tabs.csv": lines("\t").encode(),
    "tabs-and-commas.txt": lines("\t", ",").encode(),
    "bom.csv": b"\xef\xbb\xbf" + lines().encode(),
    "utf-16.csv": lines(";", ",", "\r\n").encode("utf-16"),
    "utf-16-tabs.txt": b"\xfe\xff" + lines("\t").encode("utf-16-be"),
    "blank-line.csv": (lines() + "\n\r\n  \n").encode(),
    "blank-cells.csv": (lines(";", ",") + ";\n;\n").encode(),
    "empty-columns.csv": "".join(f"{line};;\n" for line in lines(";", ",").splitlines()).encode(),
    "excel-hint.csv": ("sep=;\r\n" + lines(";", ",")).encode(),
    "packed.csv.gz": gzip.compress(lines(";", ",").encode()),
    "windows.csv": lines(end="\r\n").encode(),
    "quoted.csv": b'"correct";"confidence"\n"1";"0,95"\n"0";"0,25"\n"1";"0,5"\n',
}


@pytest.mark.parametrize("name", FILES)
def test_every_way_to_write_a_table(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    read = read_predictions(tmp_path / name)
    assert read.confidence.tolist() == [0.95, 0.25, 0.5]
    assert read.loss.tolist() == [0, 1, 0]


def test_a_comma_that_may_mean_thousands_is_not_guessed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("correct;confidence\n1;1,250\n0;2,125\n")
    with pytest.raises(DataError, match="must be numbers, got text such as '1,250'"):
        read_predictions(path)


def test_a_blank_line_inside_a_table_shifts_no_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("correct,confidence\n1,0.9\n\n0,0.2\n")
    with pytest.raises(DataError, match="row 2 is blank"):
        read_predictions(path)


def workbook(path, rows):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)


def test_excel(tmp_path):
    path = tmp_path / "t.xlsx"
    workbook(path, [("correct", "confidence", "group"), *((right > 0, sure, "ä") for right, sure in ROWS)])
    read = read_predictions(path)
    assert read.format == "xlsx"
    assert read.confidence.tolist() == [0.95, 0.25, 0.5]
    assert read.loss.tolist() == [0, 1, 0]
    assert read.group_labels().tolist() == ["ä"] * 3


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("old.xls", b"\xd0\xcf\x11\xe0", "Save the sheet as .xlsx or .csv"),
        ("fake.xlsx", b"correct,confidence\n1,0.9\n", "cannot be read as an Excel workbook"),
        ("latin.csv", "label,confidence\nä,0.9\n".encode("cp1252"), "Save it as UTF-8"),
        ("unmarked.csv", lines().encode("utf-16-le"), "UTF-16 without its first mark"),
        ("quotes.json", b'{"correct": [1, 0], "confidence": ["0.9", "0.2"]}', "numbers in quotes"),
        ("objects.json", b'{"correct": [1, 0], "confidence": [{"p": 0.9}, {"p": 0.1}]}', "got an object"),
        (
            "nested.json",
            b'{"results": [{"correct": 1}], "more": [{"correct": 0}]}',
            "`results` \\(1 objects\\)",
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


def test_json_lines_with_a_line_separator_inside_a_text(tmp_path):
    records = [{"correct": right, "confidence": sure, "group": "a\u2028b"} for right, sure in ROWS]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in records), encoding="utf-8")
    assert read_predictions(path).n == 3


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


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_rounded_probabilities_are_divided_by_their_sums_and_that_is_told(tmp_path, decimals):
    rng = np.random.default_rng(1)
    exact = rng.dirichlet(np.ones(5), 300)
    labels, path = rng.integers(0, 5, 300), tmp_path / "t.npz"
    np.savez(path, probs=np.round(exact, decimals), labels=labels)
    with pytest.warns(AbstainWarning, match="divided by their sums"):
        read = read_predictions(path)
    assert read.probs.sum(axis=1) == pytest.approx(np.ones(300), abs=1e-12)
    assert read.probs == pytest.approx(exact, abs=5 * 10.0**-decimals)
    done = CliRunner().invoke(cli, ["evaluate", str(path), "--json"])
    assert done.exit_code == 0
    assert "note: " in done.stderr
    assert json.loads(done.stdout)["n"] == 300


def test_what_rounding_does_not_explain_needs_a_tolerance(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, probs=np.array([[0.61234, 0.41234], [0.3, 0.7]]), labels=np.array([0, 1]))
    run = CliRunner().invoke
    refused = run(cli, ["evaluate", str(path)])
    assert refused.exit_code == 3
    assert "must sum to one" in refused.output
    suggested = re.search(r"--tolerance ([\d.]+\d)", refused.output)
    assert run(cli, ["evaluate", str(path), "--tolerance", suggested[1]]).exit_code == 0
    assert run(cli, ["evaluate", str(path), "--tolerance", "0.05"]).exit_code == 0
    assert run(cli, ["evaluate", str(path), "--tolerance", "0.01"]).exit_code == 3


@pytest.mark.parametrize("name", ["semicolons.csv", "packed.csv.gz", "utf-16.csv"])
def test_evaluate_reads_what_the_command_line_reads(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    table = abstain.evaluate(tmp_path / name, metrics=["risk", "aurc"])
    assert table["confidence", "zero_one", "risk"].estimate == pytest.approx(1 / 3)
    assert table["confidence", "zero_one", "aurc"].estimate == pytest.approx((0 + 0 + 1 / 3) / 3)


def test_evaluate_takes_the_names_of_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("truth,class_a,class_b,kind\na,0.9,0.1,x\na,0.2,0.8,y\nb,0.4,0.6,y\n")
    table = abstain.evaluate(
        path, labels="truth", probs="class_*", groups="kind", metrics="risk", losses="zero_one"
    )
    assert table["max_softmax", "zero_one", "risk"].estimate == pytest.approx(1 / 3)
    assert table.groups == ("x", "y")


def test_evaluate_of_a_folder_finds_the_columns_by_their_names(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(lines())
    assert abstain.evaluate(tmp_path, metrics="risk").best("risk").estimate == pytest.approx(1 / 3)


@pytest.mark.parametrize("missing", ["left_out", "last"])
def test_the_cell_that_is_no_number_is_named(tmp_path, missing):
    path = tmp_path / "t.csv"
    path.write_text("correct,confidence\n1,0.9\n0,n/a\n1,0.7\n")
    with pytest.raises(DataError, match=r"must be numbers, got .*'n/a'\. Write plain numbers, .* empty"):
        read_predictions(path, rules=Rules(missing=missing))
