"""Which column has which role: by its name or by what the user states."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from abstain.errors import DataError
from abstain.formats import UncertainError, read_log, read_predictions


def test_column_flags_and_wildcards(tmp_path):
    (tmp_path / "t.csv").write_text("truth,score,z1,z0\n1,0.5,1,2\n0,0.25,3,4\n")
    read = read_predictions(tmp_path / "t.csv", columns={"labels": "truth", "logits": "z*"})
    assert read.logits.tolist() == [[2, 1], [4, 3]]
    read = read_predictions(tmp_path / "t.csv", columns={"error": "truth", "confidence": "score"})
    assert read.loss.tolist() == [1, 0]
    with pytest.raises(UncertainError, match="no column `nothing`"):
        read_predictions(tmp_path / "t.csv", columns={"confidence": "nothing"})


def test_two_columns_for_one_thing_are_uncertain(tmp_path):
    (tmp_path / "t.csv").write_text("correct,confidence,conf\n1,0.5,0.2\n")
    with pytest.raises(UncertainError, match="could both be the confidence") as caught:
        read_predictions(tmp_path / "t.csv")
    assert caught.value.source.preview()["first values"] == ["1", "0.5", "0.2"]
    assert read_predictions(tmp_path / "t.csv", columns={"confidence": "conf"}).confidence.tolist() == [0.2]


SURE = "correct,sure,conf_a,conf_b\n1,0.9,0.5,0.1\n0,0.25,0.75,0.4\n"


@pytest.mark.parametrize(
    ("stated", "names"),
    [
        ("sure, conf_*", ["sure", "conf_a", "conf_b"]),
        ("sure, -conf_*", ["sure", "-conf_a", "-conf_b"]),
        ("conf_?", ["conf_a", "conf_b"]),
        ("sure,*_a,conf_a", ["sure", "conf_a"]),  # a column that is named twice counts once
    ],
)
def test_several_confidences_by_names_and_patterns(tmp_path, stated, names):
    (tmp_path / "t.csv").write_text(SURE)
    read = read_predictions(tmp_path / "t.csv", columns={"confidence": stated})
    assert list(read.log.signals) == names


@pytest.mark.parametrize("stated", ["sure,nix_*", "nix_*,nax_*", "nix_*", "sure,nix"])
def test_a_pattern_without_a_column_is_refused(tmp_path, stated):
    (tmp_path / "t.csv").write_text(SURE)
    with pytest.raises(UncertainError, match="has no column `nix"):
        read_predictions(tmp_path / "t.csv", columns={"confidence": stated})


def test_classes_in_names_of_columns_keep_their_blanks_and_dashes(tmp_path):
    (tmp_path / "t.csv").write_text(
        "label,prob_New  York,prob_cat ,prob_x - y\nx - y,0.2,0.3,0.5\ncat,0.2,0.3,0.5\n"
    )
    assert read_predictions(tmp_path / "t.csv").labels.tolist() == [2, 1]


@pytest.mark.parametrize("ending", ["csv", "json", "npz"])
def test_blanks_around_labels_and_predictions_make_no_difference(tmp_path, ending):
    columns = {
        "question": ["a ", "b", "c"],
        "truth": ["box\n", "box", "cup"],
        "answer": [" box", "box", "box\n\n"],
    }
    path = tmp_path / f"t.{ending}"
    if ending == "npz":
        np.savez(path, **columns)
    elif ending == "json":
        path.write_text(json.dumps([dict(zip(columns, row)) for row in zip(*columns.values())]))
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([list(columns), *zip(*columns.values())])
    roles = {"labels": "truth", "prediction": "answer"}
    assert read_log(path, columns=roles).loss.tolist() == [0, 0, 1]
    right_answers = tmp_path / "right.json"  # matched by question, with blanks elsewhere
    rows = [{"question": name, "truth": word} for name, word in (("a", "box"), ("b\n", "box "), ("c", "box"))]
    right_answers.write_text(json.dumps(rows))
    roles = {"prediction": "answer", "question": "question"}
    assert read_log(path, columns=roles, labels=right_answers).loss.tolist() == [0, 0, 0]


def test_blanks_around_the_names_of_classes_make_no_difference(tmp_path):
    np.savez(tmp_path / "p.npz", probs=np.eye(2), labels=["cat ", "dog"], classes=["cat", "dog\n"])
    assert read_predictions(tmp_path / "p.npz").labels.tolist() == [0, 1]


def test_a_list_in_each_row_is_no_single_value(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"accs": [True, False, True], "sure": 0.5}] * 4))
    with pytest.raises(DataError, match="column `accs` holds 3 values in each row; -c correct takes one"):
        read_log(path, columns={"correct": "accs"})
