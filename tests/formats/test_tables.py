"""Tables in memory are read as a file of the same content."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import abstain
from abstain.errors import DataError
from abstain.formats.tables import open_table

COLUMNS = {"correct": [1, 0, 1, 0], "confidence": [0.9, 0.4, 0.7, 0.8], "group": ["a", "b", "a", "b"]}


def make(library: str):
    if library == "pyarrow":
        return pa.table(COLUMNS)
    if library == "pandas":
        return pytest.importorskip("pandas").DataFrame(COLUMNS)
    return pytest.importorskip("polars").DataFrame(COLUMNS)


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_values_are_those_of_the_table(library):
    source = open_table(make(library))
    assert source.format == "table"
    assert source.columns["correct"].load().tolist() == COLUMNS["correct"]
    assert source.columns["confidence"].load().tolist() == COLUMNS["confidence"]
    assert source.columns["group"].load().texts().tolist() == COLUMNS["group"]


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_evaluate_gives_what_the_file_gives(library, tmp_path):
    lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in zip(*COLUMNS.values()))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    by_file = abstain.evaluate(tmp_path / "t.csv", metrics="aurc")
    by_table = abstain.evaluate(make(library), metrics="aurc")
    key = ("confidence", "zero_one", "aurc")
    assert by_table[key].estimate == by_file[key].estimate
    assert by_table.groups == by_file.groups == ("a", "b")


def test_lists_become_rows():
    source = open_table(pa.table({"logits": pa.array([[1.0, 2.0], [3.0, 4.0]])}))
    np.testing.assert_array_equal(source.columns["logits"].load(), [[1.0, 2.0], [3.0, 4.0]])


def test_two_columns_of_one_name_and_no_rows_are_refused():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DataError, match="two columns of one name"):
        open_table(twice)
    with pytest.raises(DataError, match="has no rows"):
        open_table(pa.table({"a": pa.array([], pa.float64())}))


def test_a_column_of_mixed_values_is_refused_when_it_is_loaded():
    pandas = pytest.importorskip("pandas")
    source = open_table(pandas.DataFrame({"a": [1, "x"]}))
    with pytest.raises(DataError, match="'a' must hold numbers or text throughout"):
        source.columns["a"].load()
