"""`abstain.evaluate` of a path reads what the command line reads."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.errors import AbstainError
from abstain.evaluation import Evaluation
from abstain.formats import Rules, TextValues, read_predictions

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


GAPS = ["question_index,correct,confidence", *(f"{row},{row % 2},{0.01 * row or ''}" for row in range(40))]


def as_argument(tmp_path, content: str, kind: str):
    """A table of this content as a path, as a data frame, or read."""
    path = tmp_path / "t.csv"
    path.write_text(content)
    if kind == "frame":
        return pytest.importorskip("pandas").read_csv(path)
    return path if kind == "path" else read_predictions(path)


@pytest.mark.parametrize("kind", ["path", "frame", "read"])
def test_evaluate_says_which_rows_it_left_out(tmp_path, kind):
    table = abstain.evaluate(as_argument(tmp_path, "\n".join(GAPS), kind), metrics="aurc")
    assert table.n == 39
    told = " ".join(table.notes)
    assert "1 answer has no `confidence` and is left out" in told
    assert '`rules=Rules(missing="last")`' in told
    assert "--" not in told


@pytest.mark.parametrize("kind", ["path", "frame"])
@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("ok,sure\n1,0.5\n0,0.2\n", 'State which is which with `ROLE="NAME"`.'),
        ("correct,confidence\n1,0.5\n0,\n", 'Leave such rows out with `rules=Rules(missing="left_out")`'),
        ("label,prob_a,prob_b\n0,0.5,0.5\n1,0.2,0.8\n", '`classes=["first", "second", ...]`'),
    ],
)
def test_errors_of_evaluate_give_the_advice_of_python(tmp_path, kind, content, advice):
    with pytest.raises(AbstainError) as caught:
        abstain.evaluate(as_argument(tmp_path, content, kind))
    assert advice in str(caught.value)
    assert "--" not in str(caught.value)


@pytest.mark.parametrize("kind", ["path", "frame"])
def test_evaluate_takes_the_name_of_any_column(tmp_path, kind):
    content = "truth,given,sure\na,a,0.9\nb,a,0.3\nb,b,0.7\na,b,0.5\n"
    columns = {"labels": "truth", "prediction": "given", "confidence": "sure"}
    table = abstain.evaluate(as_argument(tmp_path, content, kind), **columns, metrics="risk")
    assert table.best("risk").estimate == 0.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"loss": [1, 0], "confidence": [1, 2], "correct": "ok"}, ValueError, "name of a column of a file"),
        ({"correct": [1, 0], "confidence": [1, 2]}, ValueError, r"Arrays go in as `loss` \(1 - correct\)"),
        ({"loss": [1, 0], "confidenc": [1, 2]}, TypeError, 'Did you mean "confidence"?'),
    ],
)
def test_names_of_columns_are_for_files_and_tables(arguments, error, message):
    with pytest.raises(error, match=message):
        abstain.evaluate(**arguments)


def test_texts_of_a_file_are_labels_of_groups():
    groups = TextValues.of(["law", "art"] * 30)
    table = abstain.evaluate(
        loss=np.arange(60) % 3 == 0, confidence=np.arange(60), groups=groups, metrics="aurc"
    )
    assert table.groups == ("art", "law")


NAMED_ROWS = [
    (1, "cat", 0.2, 0.7, 0.1),
    (2, "dog", 0.6, 0.3, 0.1),
    (0, "ant", 0.1, 0.2, 0.7),
    (1, "cat", 0.3, 0.5, 0.2),
]


@pytest.mark.parametrize("groups", [{}, {"groups": "topic"}])
@pytest.mark.parametrize("unanswered", ["abstained", "wrong"])
def test_scores_that_need_no_confidence_count_answers_that_lack_it(tmp_path, groups, unanswered):
    # of ten answers eight are right, of which four lack the confidence; two questions have no answer
    replies = [*"xxxxxxxx", *"yy", "", ""]
    confidence = ["", "", "", "", "0.9", "0.8", "0.7", "0.6", "0.5", "0.4", "", ""]
    path = tmp_path / "answers.csv"
    rows = [
        f"{reply},x,{number},{'law' if row % 2 else 'art'}"
        for row, (reply, number) in enumerate(zip(replies, confidence))
    ]
    path.write_text("\n".join(["reply,gold,p,topic", *rows]))
    columns = {"prediction": "reply", "labels": "gold", "confidence": "p", **groups}
    metrics = ["aurc", "accuracy", "calibration_error"]
    if unanswered == "abstained":
        metrics += ["not_attempted", "simpleqa_f"]
    options = [part for role, name in columns.items() for part in ("-c", f"{role}={name}")]
    shown = CliRunner().invoke(
        cli,
        [
            "evaluate",
            str(path),
            *options,
            "--metric",
            ",".join(metrics),
            "--unanswered",
            unanswered,
            "--json",
        ],
    )
    assert shown.exit_code == 0, shown.output
    tables = [Evaluation.from_json(shown.stdout)]
    read = read_predictions(path, columns=columns, rules=Rules(unanswered=unanswered))
    tables.append(abstain.evaluate(read, metrics=metrics))
    if unanswered == "abstained":
        tables.append(abstain.evaluate(path, **columns, metrics=metrics))
    for table in tables:
        (score,) = table.scores
        assert table["accuracy"].estimate == pytest.approx(8 / 12)
        assert (table["accuracy"].n, table["accuracy"].score) == (12, score)
        if unanswered == "abstained":
            assert table["not_attempted"].estimate == pytest.approx(2 / 12)
        assert table["aurc"].n < 12
        told = "On all 12 questions, not on the 8 of the ranking: accuracy"
        assert any(note.startswith(told) for note in table.notes), table.notes
        if groups:
            assert table.select(metric="accuracy", group="art")[0].estimate == pytest.approx(
                4 / 6
            )  # rows 0, 2, 4 and 6 of 6


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
