"""JSON and JSON lines: line separators, repeated names, records under one name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from abstain.errors import DataError
from abstain.formats import open_source, read_predictions

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import (
    RIGHT,
)

ROWS = [(1, 0.95), (0, 0.25), (1, 0.5)]


def test_json_lines_with_a_line_separator_inside_a_text(tmp_path):
    records = [{"correct": right, "confidence": sure, "group": "a\u2028b"} for right, sure in ROWS]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in records), encoding="utf-8")
    assert read_predictions(path).n == 3


def test_names_that_stand_twice(tmp_path):
    for name, text in {
        "t.json": '{"correct": [1, 0], "confidence": [0.9, 0.1], "correct": [0, 1]}',
        "t.jsonl": '{"correct": 1, "confidence": 0.9, "correct": 0}\n{"correct": 1, "confidence": 0.3}',
        "records.json": '[{"correct": 1, "confidence": 0.9, "confidence": 0.2}]',
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match="twice"):
            read_predictions(tmp_path / name)


@pytest.fixture
def put(tmp_path):
    def write(name: str, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


def test_records_under_one_name(put):
    rows = [{"q": k, "is_right": bool(r), "conf_pct": 10 * k} for k, r in enumerate(RIGHT)]
    path = put("results.json", {"accuracy": 0.66, "predictions": rows})
    read = read_predictions(path, columns={"correct": "is_right", "confidence": "conf_pct"})
    assert (1 - read.loss).tolist() == RIGHT


def test_a_line_separator_inside_a_text_ends_no_line(put):
    rows = [
        {"correct": 1, "confidence": 0.5, "text": "a\u2028b"},
        {"correct": 0, "confidence": 0.25, "text": ""},
    ]
    content = "\n".join(json.dumps(r, ensure_ascii=False) for r in rows).encode()
    assert read_predictions(put("t.jsonl", content)).n == 2


def test_what_is_mixed_with_text_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"label": "a"}, {"label": ["b", "c"]}, {"label": 1}, {"label": 0.5}]')
    with pytest.raises(DataError, match=r"column `label` mixes text and numbers and lists\."):
        open_source(path).columns["label"].load()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([["a"], ["a", "b"], []], "3 lists of text"),
        ([None, ["a", "b"], ["a", "b"]], "3 lists of text"),
        ([[], [1], [2, 3]], "3 lists of numbers"),
        ([[1.0, 2.0]] * 3, "3 x 2 numbers"),
        ([0.5, "few", 2], "3 text and numbers"),
        ([None, "few", "many"], "3 text"),
        ([None, True, 2], "3 numbers"),
        ([{"a": [{}, {}]}] * 3, "3 x 2 objects"),
    ],
    ids=str,
)
def test_a_column_is_told_by_all_its_rows(tmp_path, values, told):
    path = tmp_path / "table.json"
    path.write_text(json.dumps([{"value": value, "id": number} for number, value in enumerate(values)]))
    columns = open_source(path).columns
    assert str(next(iter(columns.values()))) == told
