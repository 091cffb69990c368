"""Files are written whole or not at all, and read back as they were."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.errors import DataError
from abstain.formats import WRITABLE, read_predictions, replacing, write_predictions
from abstain.formats.alignment import align_models


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


@pytest.mark.parametrize("label", [-1, 2])
def test_a_label_that_is_no_class_has_no_name(tmp_path, label):
    """-1 was once written as the last class."""
    np.savez(tmp_path / "in.npz", logits=5 * np.eye(2), labels=[0, label], classes=np.array(["cat", "dog"]))
    read = read_predictions(tmp_path / "in.npz")
    with pytest.raises(DataError, match=f"from 0 to 1, got {label} in row 2"):
        write_predictions(read, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


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


@pytest.mark.parametrize("ending", WRITABLE)
def test_answers_and_ids_come_along(tmp_path, ending):
    """Without them `clinical` could not be asked any more, and `compare` could not pair by id."""
    rows = [("x1", "1", "1", 0.9), ("x2", "0", "1", 0.6), ("x3", "0", "0", 0.7), ("x4", "1", "", 0.2)]
    text = "".join(f"{i},{a},{b},{c}\n" for i, a, b, c in rows)
    (tmp_path / "in.csv").write_text("question_id,label,prediction,confidence\n" + text)
    first = read_predictions(tmp_path / "in.csv")
    write_predictions(first, tmp_path / f"out{ending}")
    read = read_predictions(tmp_path / f"out{ending}")
    assert read.loss[:3].tolist() == first.loss[:3].tolist() == [0, 1, 0]
    assert read.abstained.tolist() == first.abstained.tolist() == [False, False, False, True]
    labels, said = read.without_abstentions().true_and_given_classes()
    assert (labels.tolist(), said.tolist()) == ([1, 0, 0], [1, 1, 0])
    if ending != ".safetensors":  # which holds numbers only
        assert align_models([first, read])[1].confidence.tolist() == read.confidence.tolist()
        assert read.ids.load().texts().tolist() == ["x1", "x2", "x3", "x4"]


def test_a_judge_who_contradicts_the_labels_is_kept(tmp_path):
    (tmp_path / "in.csv").write_text("label,prediction,correct,confidence\nUSA,U.S.,1,0.9\nUK,France,0,0.4\n")
    write_predictions(
        read_predictions(tmp_path / "in.csv", columns={"correct": "correct"}), tmp_path / "out.csv"
    )
    assert read_predictions(tmp_path / "out.csv").loss.tolist() == [0, 1]


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
