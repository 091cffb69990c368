"""What the pages and their tests share: the pages themselves, and the names a reader is told to have."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for blocks.py; test files are imported by path

ROOT = Path(__file__).parents[2]


def _demo(name: str) -> dict[str, np.ndarray]:
    with np.load(str(files("abstain") / "data" / "demo" / f"{name}.npz")) as data:
        return dict(data)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A reader's session: two real models' outputs, a data set, and files named as the pages name them."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import abstain

    monkeypatch.chdir(tmp_path)
    first, second = _demo("neural-network"), _demo("naive-bayes")
    names: dict[str, Any] = {"abstain": abstain, "np": np, "labels": first["labels"], "probs": first["probs"]}
    for suffix, data in (("", first), ("_a", first), ("_b", second)):
        probs = data["probs"].astype(np.float64)
        names["logits" + suffix] = np.log(np.maximum(probs, 1e-30))
        names["loss" + suffix] = abstain.losses.zero_one(probs=probs, labels=data["labels"])
        names["confidence" + suffix] = abstain.scores.max_softmax(probs=probs)
    np.random.seed(0)  # noqa: NPY002 (what scikit-learn draws splits from: two in three hundred certify nothing)
    names["X"], names["y"] = load_breast_cancer(return_X_y=True)
    names["model"] = make_pipeline(StandardScaler(), LogisticRegression())
    for name, data in (("preds", first), ("a", first), ("b", second)):
        np.savez(tmp_path / f"{name}.npz", **data)
    for path in (files("abstain") / "data").iterdir():
        if path.name.endswith(".npz"):  # what `abstain demo --copy .` writes
            (tmp_path / path.name).write_bytes(path.read_bytes())
    table = pa.table({"loss": names["loss"].astype(np.float32), "confidence": names["confidence"]})
    for folder in ("predictions", "preds"):
        (tmp_path / folder).mkdir()
        pq.write_table(table, tmp_path / folder / "part-0.parquet")
    pq.write_table(table, tmp_path / "preds.parquet")
    return names
