"""npy and npz: shapes, orders, fields, and names that occur twice."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from abstain.errors import DataError
from abstain.formats import open_source, read_predictions

N, K = 40, 3


@pytest.fixture
def scores() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(N, K)).astype(np.float32), rng.integers(0, K, N)


def test_npy_is_what_the_flag_says(tmp_path, scores):
    logits, labels = scores
    np.save(tmp_path / "z.npy", logits)
    np.save(tmp_path / "y.npy", labels)
    with pytest.raises(DataError, match="--as logits"):
        read_predictions(tmp_path / "z.npy", labels=tmp_path / "y.npy")
    assert read_predictions(tmp_path / "z.npy", kind="logits", labels=tmp_path / "y.npy").kind == "logits"
    with pytest.raises(DataError, match=r"must sum to one.*--as logits"):
        read_predictions(tmp_path / "z.npy", kind="probs", labels=tmp_path / "y.npy")
    np.save(tmp_path / "p.npy", np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    assert read_predictions(tmp_path / "p.npy", kind="probs", labels=tmp_path / "y.npy").kind == "probs"


def test_structured_npy(tmp_path):
    table = np.array([(1, 0.5), (0, 0.25)], dtype=[("correct", "i1"), ("confidence", "f4")])
    np.save(tmp_path / "t.npy", table)
    read = read_predictions(tmp_path / "t.npy")
    assert (read.loss.tolist(), read.confidence.tolist()) == ([0, 1], [0.5, 0.25])


def test_a_field_with_a_shape_of_its_own_is_a_matrix(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros(3, dtype=[("probs", "f8", (2,)), ("labels", "i4")]))
    columns = open_source(tmp_path / "t.npy").columns
    assert columns["probs"].shape == columns["probs"].load().shape == (3, 2)
    assert columns["labels"].shape == (3,)


def test_fortran_order_and_big_endian(tmp_path):
    z = np.asfortranarray(np.arange(12.0).reshape(4, 3).astype(">f8"))
    np.savez(tmp_path / "a.npz", logits=z, labels=np.zeros(4, int))
    np.testing.assert_array_equal(read_predictions(tmp_path / "a.npz").logits, np.arange(12.0).reshape(4, 3))


def test_an_archive_with_two_arrays_of_one_name(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, correct=np.array([1, 0]), confidence=np.array([0.9, 0.1]))
    body = io.BytesIO()
    np.save(body, np.array([0.1, 0.9]))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("confidence.npy", body.getvalue())
    with pytest.raises(DataError, match="two arrays named 'confidence'"):
        read_predictions(path)


def test_a_zip_archive_of_other_files_is_called_one(tmp_path):
    path = tmp_path / "outputs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model_outputs.json", "[]")
    with pytest.raises(
        DataError, match=r"is a zip archive without numpy arrays: unpack it.*`model_outputs\.json`"
    ):
        open_source(path)
