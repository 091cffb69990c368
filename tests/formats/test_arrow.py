"""Parquet and Arrow files: texts with gaps, fields of structs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from abstain.formats import read_predictions
from abstain.formats.readers import open_source


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_words_with_gaps_in_columnar_files(tmp_path, name):
    groups = pa.chunked_array([["x", None], ["y", "x"], pa.array([], pa.string())])
    table = pa.table(
        {"correct": pa.array([True, False, True, True]), "confidence": [0.5, 0.25, 1, 0], "group": groups}
    )
    if name == "t.parquet":
        pq.write_table(table, tmp_path / name, row_group_size=2)
    else:
        with pa.OSFile(str(tmp_path / name), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    read = read_predictions(tmp_path / name)
    assert [read.groups.row(i) for i in range(4)] == ["x", "", "y", "x"]
    assert read.loss.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_dotted_names_find_the_field_they_mean_where_names_share_a_beginning(tmp_path, ending):
    """Columns `a` and `a.b` both are structs: each field is read from its own column."""
    table = pa.table(
        {
            "a": pa.array([{"x": 1.0, "b": {"deep": 5.0}}, {"x": 2.0, "b": {"deep": 6.0}}]),
            "a.b": pa.array([{"c": 3.0}, {"c": 4.0}]),
            "plain.name": pa.array([7.0, 8.0]),
        }
    )
    path = tmp_path / f"t.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    source = open_source(path)
    expected = {"a.x": [1, 2], "a.b.deep": [5, 6], "a.b.c": [3, 4], "plain.name": [7, 8]}
    assert {name: column.load().tolist() for name, column in source.columns.items()} == expected
