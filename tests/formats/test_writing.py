"""Files are written whole or not at all, and read back as they were."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.formats import WRITABLE, read_predictions, replacing, write_predictions


@pytest.mark.parametrize("ending", WRITABLE)
def test_round_trip_of_class_scores(tmp_path, ending):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(9, 3)), rng.integers(0, 3, 9)
    np.savez(tmp_path / "in.npz", logits=logits, labels=labels, classes=np.array(["a", "b", "c d"]))
    write_predictions(read_predictions(tmp_path / "in.npz"), tmp_path / f"out{ending}")
    read = read_predictions(tmp_path / f"out{ending}")
    np.testing.assert_array_equal(read.logits, logits)
    np.testing.assert_array_equal(read.labels, labels)
    assert read.classes == ("a", "b", "c d")


@pytest.mark.parametrize("ending", [e for e in WRITABLE if e != ".safetensors"])
def test_round_trip_of_a_plain_table(tmp_path, ending):
    (tmp_path / "in.csv").write_text(
        "correct,confidence,abstained,group\n1,0.5,0,x\n0,0.25,0,y z\n1,0.125,1,x\n"
    )
    first = read_predictions(tmp_path / "in.csv")
    write_predictions(first, tmp_path / f"out{ending}")
    read = read_predictions(tmp_path / f"out{ending}")
    assert read.loss[:2].tolist() == [0, 1]
    assert read.confidence[:2].tolist() == [0.5, 0.25]
    assert read.abstained.tolist() == [False, False, True]
    assert [read.groups.row(i) for i in range(3)] == ["x", "y z", "x"]


def test_our_safetensors_are_read_by_the_library(tmp_path):
    from safetensors.numpy import load_file

    np.savez(tmp_path / "in.npz", logits=np.arange(6.0).reshape(3, 2), labels=np.array([0, 1, 1]))
    write_predictions(read_predictions(tmp_path / "in.npz"), tmp_path / "out.safetensors")
    found = load_file(str(tmp_path / "out.safetensors"))
    np.testing.assert_array_equal(found["logits"], np.arange(6.0).reshape(3, 2))
    assert found["labels"].tolist() == [0, 1, 1]


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_interrupted_writing_leaves_nothing(tmp_path, trouble):
    target = tmp_path / "out.txt"
    target.write_text("old")

    def work():
        with replacing(target) as stream:
            stream.write(b"half of the new")
            raise trouble

    with pytest.raises(trouble):
        work()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_finished_writing_replaces(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    with replacing(target) as stream:
        stream.write(b"new")
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]
