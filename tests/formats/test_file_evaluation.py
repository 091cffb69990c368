"""`abstain.evaluate` of a path reads what the command line reads."""

from __future__ import annotations

import gzip

import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli

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


NAMED_ROWS = [
    (1, "cat", 0.2, 0.7, 0.1),
    (2, "dog", 0.6, 0.3, 0.1),
    (0, "ant", 0.1, 0.2, 0.7),
    (1, "cat", 0.3, 0.5, 0.2),
]


def test_an_engine_asks_for_the_order_of_named_columns_too(tmp_path):
    path = tmp_path / "animals.csv"
    rows = "".join(f"{row[0]},{','.join(map(str, row[2:]))}\n" for row in NAMED_ROWS * 20)
    path.write_text("label,logit_dog,logit_cat,logit_ant\n" + rows)
    arguments = ["evaluate", str(path), "--engine", "files"]
    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 2
    assert "do not say which number is which class" in " ".join(refused.output.split())
    right = abstain.formats.file_evaluation.engine_columns(path, {}, classes=("ant", "cat", "dog"))
    assert right["logits"] == ["logit_ant", "logit_cat", "logit_dog"]


@pytest.mark.parametrize("name", ["weight", "group", "abstained", "cluster", "question_id"])
@pytest.mark.parametrize("place", [0, 1])
def test_files_of_a_table_have_the_same_columns(tmp_path, name, place):
    for number, file in enumerate(("first.csv", "second.csv")):
        header = "confidence,correct" + (f",{name}" if number == place else "")
        rows = [f"0.{row},{row % 2}" + (",1" if number == place else "") for row in range(1, 9)]
        (tmp_path / file).write_text("\n".join([header, *rows]))
    refused = CliRunner().invoke(cli, ["evaluate", str(tmp_path), "--metric", "aurc"])
    assert refused.exit_code != 0
    told = " ".join(refused.output.split())
    if place == 1:
        assert f"second.csv has a column {name!r} and " in told
        assert "first.csv has not: all files of a table must have the same columns" in told
    elif name in ("weight", "group"):
        assert f"second.csv has no column {name!r}" in told
        assert "all files of a table must have them" in told
    else:
        assert "engines do not read a column of" in told
