"""Which files belong to a table, and what their paths say."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from abstain.errors import DataError
from abstain.formats.table_files import find_files, is_data_file, partition_values, table_format


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "b.csv",
        "a.parquet",
        "part/c.csv",
        "_temporary/d.csv",
        "part/.hidden.csv",
        "notes.md",
        "_k=1/e.csv",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("correct,confidence\n")
    return tmp_path


def names(files: list[str], folder: Path) -> list[str]:
    return [os.path.relpath(file, folder) for file in files]


def test_a_folder_is_searched_without_unfinished_work(folder):
    assert names(find_files("f", folder), folder) == ["_k=1/e.csv", "a.parquet", "b.csv", "part/c.csv"]


def test_a_glob_takes_files_and_folders(folder):
    assert names(find_files("f", f"{folder}/*.csv"), folder) == ["b.csv"]
    assert names(find_files("f", f"{folder}/p*"), folder) == ["part/c.csv"]
    assert names(find_files("f", f"{folder}/*/c.csv"), folder) == ["part/c.csv"]


def test_a_hidden_folder_that_is_written_out_is_meant(folder):
    assert names(find_files("f", f"{folder}/_temporary/*.csv"), folder) == ["_temporary/d.csv"]


def test_a_list_keeps_its_order(folder):
    assert names(find_files("f", [folder / "b.csv", folder / "a.parquet"]), folder) == ["b.csv", "a.parquet"]


def test_nothing_there_is_an_error(folder):
    with pytest.raises(
        DataError, match=r"f: found no files at .*Give a file, a folder or a glob of \.parquet"
    ):
        find_files("f", f"{folder}/*.nothing")


@pytest.mark.skipif(os.name == "nt", reason="no pipes by name there")
def test_a_pipe_is_refused(folder):
    os.mkfifo(folder / "pipe.csv")
    with pytest.raises(DataError, match="is not a regular file"):
        find_files("f", folder / "pipe.csv")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.csv", True),
        ("x/a.parquet", True),
        ("k=_1/a.csv", True),
        ("_x/a.csv", False),
        (".a.csv", False),
        ("a.md", False),
    ],
)
def test_data_files(path, expected):
    assert is_data_file(PurePosixPath(path)) is expected


def test_partitions_are_text():
    path = "data/year=2024/kind=a%20b/none=__HIVE_DEFAULT_PARTITION__/part-0.parquet"
    assert partition_values(path) == {"year": "2024", "kind": "a b", "none": None}


def test_formats_by_ending():
    endings = ["parquet", "pq", "arrow", "feather", "ipc", "csv", "csv.gz", "PARQUET"]
    formats = [table_format(f"a.{ending}") for ending in endings]
    assert formats == ["parquet", "parquet", "arrow", "arrow", "arrow", "csv", "csv", "parquet"]
    with pytest.raises(DataError, match=r"cannot tell what 'a\.xyz' is"):
        table_format("a.xyz")
