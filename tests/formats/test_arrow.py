"""Parquet and Arrow files: texts with gaps."""

from __future__ import annotations

import pytest

from abstain.formats import read_predictions


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_words_with_gaps_in_columnar_files(tmp_path, name):
    import pyarrow as pa
    import pyarrow.parquet as pq

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
