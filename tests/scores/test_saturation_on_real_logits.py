"""On real float32 logits every score ranks as 50-digit arithmetic does, and AURC is the one that ranking has.

The criterion, for all pairs of the 10,000 samples: the key of one is below, equal to or above that of another
exactly when its 50-digit score is. Two 50-digit scores count as equal when they differ by less than 1e-45
relative. No pair is excused.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
from pathlib import Path

import mpmath
import numpy as np
import pytest

import abstain
from abstain import losses, scores

_spec = importlib.util.spec_from_file_location("exact", Path(__file__).with_name("exact.py"))
exact = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(exact)

NAMES = (*scores.NAMES, "probability_norm")
QUICK = ("resnet20__akamaster", "resnet56__akamaster")
REST = (
    "resnet14__karanchahal",
    "resnet20__benjames_a",
    "resnet20__benjames_b",
    "resnet20__chenyaofo_luferrer",
    "resnet20__fattorib",
    "resnet20__jpearce",
    "resnet20__karanchahal",
    "resnet20__laodao",
    "resnet26__karanchahal",
    "resnet32__akamaster",
    "resnet32__fattorib",
    "resnet44__akamaster",
    "resnet44__fattorib",
    "resnet50__luferrer",
)
# all tests of a model in one process, which computes its exact ranks once
MODELS = [
    *(pytest.param(model, marks=pytest.mark.xdist_group(model)) for model in QUICK),
    *(pytest.param(model, marks=[pytest.mark.slow, pytest.mark.xdist_group(model)]) for model in REST),
]


def load(data_dir, model):
    with np.load(data_dir / "logits" / f"cifar10__{model}.npz") as file:
        return file["logits"], file["labels"]


@functools.cache
def exact_ranks(data_dir, model):
    """For each score: the rank of every sample by its 50-digit value, equal values sharing one."""
    logits, _ = load(data_dir, model)
    assert logits.dtype == np.float32
    assert logits.shape == (10000, 10)
    rows = [exact.exact_scores(row) for row in logits.astype(float).tolist()]
    return {name: dense_ranks([row[name] for row in rows]) for name in NAMES}


def dense_ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = np.zeros(len(values), dtype=np.int64)
    least = mpmath.mpf(10) ** -45
    for before, here in itertools.pairwise(order):
        step = values[here] - values[before] > least * abs(values[here])
        ranks[here] = ranks[before] + step
    return ranks


def prefix_risk_mean(wrong, ranks):
    """AURC by its definition, whole ties at a time; nothing of the package in it."""
    total = 0.0
    kept = errors = 0
    for rank in np.unique(ranks)[::-1]:
        block = ranks == rank
        kept, errors = kept + block.sum(), errors + wrong[block].sum()
        total += block.sum() * errors / kept
    return total / len(ranks)


@pytest.mark.data
@pytest.mark.parametrize("model", MODELS)
def test_ranks_are_those_of_fifty_digits(data_dir, model):
    logits, _ = load(data_dir, model)
    for name, ranks in exact_ranks(data_dir, model).items():
        key = scores.by_name(name)(logits)
        assert key.dtype == np.float64
        assert np.isfinite(key).all()
        ours = np.unique(key, return_inverse=True)[1]
        np.testing.assert_array_equal(ours, ranks, err_msg=name)


@pytest.mark.data
@pytest.mark.parametrize("model", MODELS)
def test_aurc_is_that_of_fifty_digits_whatever_the_row_order(data_dir, model):
    logits, labels = load(data_dir, model)
    wrong = logits.argmax(-1) != labels
    shuffles = [np.random.default_rng(seed).permutation(len(labels)) for seed in range(3)]
    for name, ranks in exact_ranks(data_dir, model).items():
        expected = prefix_risk_mean(wrong, ranks)
        score = scores.by_name(name)
        value = abstain.aurc(losses.zero_one(logits, labels), score(logits))
        assert value == pytest.approx(expected, abs=1e-12, rel=0), name
        for order in shuffles:
            again = abstain.aurc(losses.zero_one(logits[order], labels[order]), score(logits[order]))
            assert again == value, name


@pytest.mark.data
@pytest.mark.parametrize("model", QUICK)
def test_the_trap_float32_softmax_ties_a_quarter_and_depends_on_the_row_order(data_dir, model):
    logits, labels = load(data_dir, model)
    wrong = logits.argmax(-1) != labels
    exps = np.exp(logits - logits.max(-1, keepdims=True))
    naive = (exps / exps.sum(-1, keepdims=True)).max(-1)
    assert naive.dtype == np.float32
    assert scores.saturation(naive).share > 0.25

    def sort_and_cumulate(order):
        ranked = wrong[order][np.argsort(-naive[order], kind="stable")]
        return np.mean(np.cumsum(ranked) / np.arange(1, len(ranked) + 1))

    errors_first = np.argsort(~wrong, kind="stable")
    errors_last = np.argsort(wrong, kind="stable")
    spread = sort_and_cumulate(errors_first) - sort_and_cumulate(errors_last)
    exact_value = abstain.aurc(wrong, scores.max_softmax(logits))
    assert spread > 0.01 * exact_value
    for order in (errors_first, errors_last):
        assert abstain.aurc(wrong[order], scores.max_softmax(logits[order])) == exact_value
    assert scores.saturation(scores.max_softmax(logits)).tied == 1


@pytest.mark.data
def test_float32_probabilities_are_ranked_by_their_other_entries(data_dir):
    """Saturated maxima, unsaturated rows: the ties that the maximum has are gone."""
    logits, _ = load(data_dir, QUICK[0])
    exps = np.exp(logits - logits.max(-1, keepdims=True))
    probs = exps / exps.sum(-1, keepdims=True)
    result = scores.saturation(probs=probs)
    assert result.tied > 2500
    assert result.repaired < 5
    from_probs, from_logits = scores.max_softmax(probs=probs), scores.max_softmax(logits)
    np.testing.assert_allclose(
        from_probs, from_logits, rtol=2e-6, atol=2e-6
    )  # float32 rounding of the entries


@pytest.mark.data
def test_keys_do_not_depend_on_memory_layout_or_batching(data_dir):
    logits, _ = load(data_dir, QUICK[0])
    for name in NAMES:
        score = scores.by_name(name)
        key = score(logits)
        np.testing.assert_array_equal(score(np.asfortranarray(logits)), key, err_msg=name)
        np.testing.assert_array_equal(score(logits.reshape(100, 100, 10)).reshape(-1), key, err_msg=name)
        np.testing.assert_array_equal(score(logits[::-7]), key[::-7], err_msg=name)
