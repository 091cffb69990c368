"""All scores and losses in one pass: order of the classes, single functions, sums of extreme terms."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from abstain import losses, scores
from abstain.core import simplex, sorting
from abstain.errors import InputError
from abstain.scores.catalogue import outputs

NAMES = (*scores.NAMES, "probability_norm")
SUMMED = ("cross_entropy", "brier")


def permuted_bits_are_equal(logits, labels, seed, **kind):
    order = np.random.default_rng(seed).permutation(logits.shape[-1])
    place = np.argsort(order)
    for name in NAMES:
        score = scores.by_name(name)
        if kind and "probs" not in score.takes:
            continue
        given, moved = ({"probs": z} if kind else {} for z in (logits, logits[:, order]))
        a = score(**given) if kind else score(logits)
        b = score(**moved) if kind else score(logits[:, order])
        np.testing.assert_array_equal(a, b, err_msg=name)
    for name in SUMMED:
        loss = losses.by_name(name)
        if kind:
            a = loss(probs=logits, labels=labels)
            b = loss(probs=logits[:, order], labels=place[labels])
        else:
            a, b = loss(logits, labels), loss(logits[:, order], place[labels])
        np.testing.assert_array_equal(a, b, err_msg=name)


@given(
    logits=arrays(
        np.float16,
        array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=12),
        elements=st.floats(-60, 60, width=16),
    ),
    seed=st.integers(0, 2**32 - 1),
)
@example(np.array([[0, 1, 1], [1, 1, 1]], np.float16), 0)  # the label ties with the winner
def test_the_order_of_the_classes_changes_no_bit(logits, seed):
    labels = np.random.default_rng(seed).integers(0, logits.shape[1], len(logits))
    permuted_bits_are_equal(logits, labels, seed)


@pytest.mark.parametrize("shape", [(4000, 10), (400, 64), (400, 65), (100, 1000), (12, 5000)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_of_many_quantised_classes_changes_no_bit(shape, seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 4, shape).astype(np.float16)
    labels = rng.integers(0, shape[1], shape[0])
    permuted_bits_are_equal(logits, labels, seed)
    exps = np.exp(logits.astype(float))
    probs = (exps / exps.sum(-1, keepdims=True)).astype(np.float32)
    permuted_bits_are_equal(probs, labels, seed, kind="probs")


@pytest.mark.parametrize("name", scores.ENSEMBLE_NAMES)
def test_the_order_of_the_classes_changes_no_bit_of_an_ensemble(name):
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 3, (3, 2000, 10)).astype(np.float16)
    score, order = scores.by_name(name), rng.permutation(10)
    np.testing.assert_array_equal(score(logits), score(logits[..., order]))


def test_plain_sums_would_fail_that_test():
    """The trap is real on this data: numpy's own sum moves with the order."""
    rng = np.random.default_rng(0)
    terms = np.exp(-np.abs(rng.normal(0, 4, (4000, 10)).astype(np.float16).astype(float)))
    order = rng.permutation(10)
    assert (terms.sum(-1) != terms[:, order].sum(-1)).any()
    np.testing.assert_array_equal(
        simplex.sum_in_any_order(np, terms), simplex.sum_in_any_order(np, terms[:, order])
    )


@pytest.mark.parametrize("count", [2, 10, 64, 1000, 1024, 1025, 3000, 100_000])
def test_total_is_the_exact_sum(count):
    rng = np.random.default_rng(count)
    for terms in (rng.random(count), np.exp(-40 * rng.random(count)), np.ones(count), np.full(count, 1e-13)):
        terms[0] = 1.0
        exact = sum(map(Fraction, terms.tolist()))
        found = Fraction(float(simplex.sum_in_any_order(np, terms[None])[0]))
        bound = Fraction(1, 2**53) * (
            count if count <= 1024 else 4
        )  # half a unit a term; beyond, rounded once
        assert abs(found - exact) <= bound * (1 if count <= 1024 else exact)
        signed = simplex.sum_in_any_order(np, terms[None] * rng.choice([-0.5, 0.5], count), base=1.5)[0]
        assert abs(signed) <= count


@pytest.mark.parametrize("count", [10, 1000])
def test_keys_of_many_equal_and_far_classes(count):
    row = np.full(count, -30.0)
    row[3], row[5] = 10.0, 2.0
    with mpmath.workdps(60):
        s = mpmath.exp(-8) + (count - 2) * mpmath.exp(-40)
        expected = float(-mpmath.log(s / (1 + s)))
    assert scores.max_softmax(row[None])[0] == pytest.approx(expected, rel=2e-14)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("classes", [7, 100])
def test_outputs_equal_the_single_functions_bit_for_bit(library, classes):
    xp = pytest.importorskip(library)
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 8, (9000, classes)).astype(np.float32)
    labels = rng.integers(0, classes, 9000)
    exps = np.exp(logits.astype(float))
    probs = exps / exps.sum(-1, keepdims=True)
    make = xp.from_numpy if library == "torch" else xp.asarray
    own = lambda z, *rest: z[..., 0]  # noqa: E731
    found = outputs(make(logits), make(labels), scores=[*NAMES, own], losses=losses.NAMES)
    assert list(found.scores) == [*NAMES, "custom score"]
    assert list(found.losses) == list(losses.NAMES)
    for name in NAMES:
        alone = scores.by_name(name)(make(logits))
        assert type(found.scores[name]) is type(alone)
        np.testing.assert_array_equal(np.asarray(found.scores[name]), np.asarray(alone), err_msg=name)
    for name in losses.NAMES:
        alone = losses.by_name(name)(make(logits), make(labels))
        np.testing.assert_array_equal(np.asarray(found.losses[name]), np.asarray(alone), err_msg=name)
    assert found.rounded == np.count_nonzero(scores.max_softmax(logits) > 24 * np.log(2)) > 0
    by_probs = outputs(None, make(labels), probs=make(probs), scores=["negative_gini"], losses=SUMMED)
    alone = scores.negative_gini(probs=make(probs))
    np.testing.assert_array_equal(np.asarray(by_probs.scores["negative_gini"]), np.asarray(alone))
    for name in SUMMED:
        alone = losses.by_name(name)(probs=make(probs), labels=make(labels))
        np.testing.assert_array_equal(np.asarray(by_probs.losses[name]), np.asarray(alone), err_msg=name)
    assert by_probs.ties == scores.saturation(probs=make(probs))


def test_losses_that_the_data_rule_out_are_refused_one_by_one():
    found = outputs(
        None, [1, 0], probs=[[1.0, 0.0], [0.5, 0.5]], losses=["zero_one", "cross_entropy", "top_k"]
    )
    assert found.losses["zero_one"].tolist() == [True, False]
    assert set(found.refused) == {"cross_entropy", "top_k"}
    assert "probability must not be 0" in str(found.refused["cross_entropy"])
    with pytest.raises(InputError, match="got nan"):
        outputs([[1.0, np.nan]], [0], losses=["zero_one"])


def test_threads_change_no_bit(monkeypatch):
    rng = np.random.default_rng(2)
    logits, labels = rng.normal(0, 5, (30_000, 12)), rng.integers(0, 12, 30_000)
    monkeypatch.setattr(sorting, "thread_count", lambda: 1)
    alone = outputs(logits, labels, scores=NAMES, losses=losses.NAMES)
    monkeypatch.setattr(sorting, "thread_count", lambda: 4)
    monkeypatch.setattr(sorting, "PARALLEL_FROM", 1)
    shared = outputs(logits, labels, scores=NAMES, losses=losses.NAMES)
    for a, b in ((alone.scores, shared.scores), (alone.losses, shared.losses)):
        for name, values in a.items():
            np.testing.assert_array_equal(values, b[name], err_msg=name)
