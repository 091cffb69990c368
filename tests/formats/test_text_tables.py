"""Tables as people have them: from Excel in any language, quoted, compressed, with blank lines."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from abstain.errors import DataError
from abstain.formats import open_source, read_predictions


def test_big_tables_keep_types_over_chunks(tmp_path):
    """A column that turns from numbers to words after 50,000 rows is words throughout."""
    rows = 60_000
    lines = ["correct,confidence,group"] + [f"1,{k},{k if k < 55_000 else 'late'}" for k in range(rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    read = read_predictions(tmp_path / "t.csv")
    assert read.n == rows
    assert read.confidence[-1] == rows - 1
    assert read.groups.row(3) == "3"
    assert read.groups.row(rows - 1) == "late"


def test_quoted_cells_byte_order_mark_and_blanks(tmp_path):
    (tmp_path / "t.csv").write_bytes('\ufeffcorrect, confidence,group\n1,0.5,"a,b\nc"\n0,0.25,x\n'.encode())
    read = read_predictions(tmp_path / "t.csv")
    assert read.confidence.tolist() == [0.5, 0.25]
    assert read.groups.row(0) == "a,b\nc"


def test_the_format_stated_decides_how_cells_are_separated(tmp_path):
    (tmp_path / "odd.dat").write_text("correct\tconfidence\n1\t0.5\n0\t0.25\n")
    assert read_predictions(tmp_path / "odd.dat", format="tsv").confidence.tolist() == [0.5, 0.25]
    (tmp_path / "commas.tsv").write_text("correct,confidence\n1,0.5\n0,0.25\n")
    assert read_predictions(tmp_path / "commas.tsv", format="csv").loss.tolist() == [0, 1]


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


def risk_of(path, **options) -> float:
    read = read_predictions(path, **options)
    return float(np.mean(read.own_or_zero_one_losses()))


def test_a_space_after_commas_changes_nothing(tmp_path):
    rows = [("cat", "cat", 0.9), ("dog", "cat", 0.6), ("cat", "cat", 0.8), ("dog", "dog", 0.7)]
    for between in (",", ", ", " , "):
        path = tmp_path / "t.csv"
        path.write_text(
            "\n".join(between.join(map(str, row)) for row in [("label", "prediction", "confidence"), *rows])
        )
        assert risk_of(path) == 0.25


def test_names_with_underscores_are_no_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("correct,confidence,group\n1,0.9,1_0\n0,0.6,10\n1,0.8,1_0\n")
    assert read_predictions(path).group_labels().tolist() == ["1_0", "10", "1_0"]


def test_whole_numbers_are_read_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr("abstain.formats.text_tables._CHUNK_SIZE", 100)  # a few rows at a time
    path = tmp_path / "t.csv"
    path.write_text(
        "id,group,code,confidence,correct\n" + "".join(f"{2**53 + k},{k},{k:02d},{k},1\n" for k in range(30))
    )
    columns = open_source(path).columns
    assert columns["id"].load().tolist() == [2**53 + k for k in range(30)]
    assert columns["code"].load().tolist() == list(range(30))
    assert columns["code"].texts.texts().tolist() == [f"{k:02d}" for k in range(30)]
    assert columns["group"].texts is None
    assert read_predictions(path).group_labels().tolist() == list(range(30))
