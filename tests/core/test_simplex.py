"""Rank keys against 50-digit definitions at the ends of the scale, where floats give out first."""

from __future__ import annotations

import functools

import mpmath
import numpy as np
import pytest

from abstain import scores
from tests.scores import exact

TOP = np.finfo(np.float64).max
KEYED = ("max_softmax", "softmax_margin", "negative_entropy", "negative_gini", "probability_norm")


@functools.cache
def exact_row(row):
    return exact.exact_scores(row, dps=800)  # the gaps here go to 803: e^-803 is 2e-349


def exact_key(name, row):
    with mpmath.workdps(800):
        value = exact_row(tuple(row))[name]
        return -mpmath.log(-value) if name in KEYED else value


ROWS = {
    "gap 800, below any float": [800.0, 0.0, -3.0],
    "gap 40, three near": [40.0, 0.0, 0.0, -1e-3],
    "nearly uniform": [1e-9, 0.0, 0.0, 0.0],
    "uniform": [0.75, 0.75, 0.75, 0.75],
    "two winners": [5.0, 5.0, -2.0],
    "two winners to 1e-12": [5.0, 5.0 - 1e-12, -2.0],
    "large offset": [1e4 + 3.0, 1e4, 1e4 - 2.5],
    "negative": [-700.0, -703.0, -760.0],
    "a thousand classes": [6.0, *np.linspace(-2, 2, 999).tolist()],
    "binary": [0.3, -0.2],
}


@pytest.mark.parametrize("name", [*scores.NAMES, "probability_norm"])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_keys_equal_their_fifty_digit_definition(name, row):
    key = scores.by_name(name)(np.array([row]))[0]
    expected = float(exact_key(name, row))
    # the logarithm of a number near 1 is known to about one rounding of that number
    assert key == pytest.approx(expected, rel=4e-15, abs=4e-16)


def test_margin_key_is_relatively_exact_for_tiny_margins():
    gap = 2.0**-40
    key = scores.softmax_margin(np.array([[1.0 + gap, 1.0]]))[0]
    assert key == pytest.approx(gap / 2, rel=1e-11)  # margin tanh(gap / 2)
    assert key > scores.softmax_margin(np.array([[1.0 + gap / 2, 1.0]]))[0] > 0


@pytest.mark.parametrize("name", KEYED)
def test_one_hot_rows_tie_on_top_and_nothing_is_infinite(name):
    score = scores.by_name(name)
    key = score(probs=np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1 - 1e-300, 1e-300, 0.0]]))
    assert key[0] == key[1] == TOP
    assert 600 < key[2] < TOP
    masked = score(np.array([[0.0, -np.inf, -np.inf], [0.0, -800.0, -np.inf]]))
    assert masked[0] == TOP
    assert 790 < masked[1] < 810
    assert score(np.array([[1e308, -1e308]]))[0] == TOP


@pytest.mark.parametrize("name", KEYED)
def test_masked_class_counts_as_absent(name):
    score = scores.by_name(name)
    with_mask = score(np.array([[2.0, -np.inf, 1.0, 0.5]]))
    np.testing.assert_allclose(with_mask, score(np.array([[2.0, 1.0, 0.5]])), rtol=1e-15)


@pytest.mark.parametrize("name", [*KEYED, "logit_margin"])
def test_probabilities_and_their_logits_agree(name):
    logits = np.random.default_rng(5).normal(0, 8, (500, 7))
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
    score = scores.by_name(name)
    # where a key is read off the largest probabilities, it knows 1 - p as well as these were rounded
    atol = 2.0**-36 if name in ("max_softmax", "softmax_margin") else 1e-13
    np.testing.assert_allclose(score(probs=probs), score(logits), rtol=1e-12, atol=atol)


@pytest.mark.parametrize(
    "name", [n for n in (*scores.NAMES, "probability_norm") if "temp" in str(scores.by_name(n).parameter)]
)
def test_temperature_divides_the_logits(name):
    logits = np.random.default_rng(6).normal(0, 3, (50, 4))
    score = scores.by_name(name)
    expected = score(logits / 2.5) * (2.5 if name == "energy" else 1)
    np.testing.assert_allclose(score(logits, temperature=2.5), expected, rtol=1e-12, atol=1e-14)
    if "probs" in score.takes:
        probs = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
        np.testing.assert_allclose(score(probs=probs, temperature=2.5), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("p", [0.5, 1, 2, 3.5, np.inf])
def test_norms_equal_numpy(p):
    logits = np.random.default_rng(7).normal(0, 3, (50, 6))
    np.testing.assert_allclose(scores.logit_norm(logits, p=p), np.linalg.norm(logits, p, axis=-1), rtol=1e-13)
    centred = logits - logits.mean(-1, keepdims=True)
    expected = centred.max(-1) / np.linalg.norm(centred, p, axis=-1)
    np.testing.assert_allclose(scores.normalised_max_logit(logits, p=p), expected, rtol=1e-12)
    assert scores.logit_norm([[1e300, 1e300]], p=2)[0] == pytest.approx(2**0.5 * 1e300)


@pytest.mark.parametrize("p", [1.5, 2, 4, np.inf])
def test_probability_norm_equals_numpy(p):
    logits = np.random.default_rng(8).normal(0, 2, (50, 6))
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
    shown = scores.display("probability_norm", scores.probability_norm(logits, p=p))
    np.testing.assert_allclose(shown, np.linalg.norm(probs, p, axis=-1), rtol=1e-13)


def test_clamped_logit_entropy_is_the_literal_formula():
    logits = np.array([[2.0, 0.5, -1.0], [3.0, 0.0, 1.0]])
    raised = np.maximum(logits, 1e-3)
    np.testing.assert_allclose(
        scores.clamped_logit_entropy(logits, floor=1e-3), (raised * np.log(raised)).sum(-1), rtol=1e-14
    )


def test_equal_probabilities_tie_however_the_others_are_rounded():
    neighbours = np.random.default_rng(0).multinomial(7, np.full(6, 1 / 6), size=2000) / 7
    # means of a hundred trees that are sure, added up one by one as random forests do
    votes = np.random.default_rng(1).multinomial(100, (0.9, 0.05, 0.03, 0.01, 0.01, 0.0), size=2000)
    trees = np.zeros((2000, 6))
    for number in range(100):
        trees += (np.cumsum(votes, axis=1) > number) & (np.cumsum(votes, axis=1) - votes <= number)
    rows = np.concatenate([neighbours, trees / 100, np.eye(6)])
    two_largest = np.sort(rows, axis=1)[:, :-3:-1]
    known = {"max_softmax": two_largest[:, 0], "softmax_margin": two_largest[:, 0] - two_largest[:, 1]}
    for name, value in known.items():
        for probs in (rows, rows[:, ::-1]):
            key = scores.by_name(name)(probs=probs)
            # the same order, with the same ties
            ranks = [np.unique(x, return_inverse=True)[1] for x in (value, key)]
            np.testing.assert_array_equal(*ranks, err_msg=name)
    # close to 1 the others tell apart what the largest probability no longer does
    sure = scores.max_softmax(probs=np.array([[1.0, 1e-20, 0.0], [1.0, 1e-30, 0.0]]))
    assert sure[1] > sure[0]


def test_display_gives_the_number_people_know():
    logits = np.random.default_rng(9).normal(0, 2, (200, 5))
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
    ranked = np.sort(p, axis=-1)
    known = {
        "max_softmax": ranked[:, -1],
        "softmax_margin": ranked[:, -1] - ranked[:, -2],
        "negative_entropy": (p * np.log(p)).sum(-1),
        "negative_gini": (p * p).sum(-1) - 1,
        "max_logit": logits.max(-1),
    }
    for name, expected in known.items():
        shown = scores.display(name, scores.by_name(name)(logits))
        np.testing.assert_allclose(shown, expected, rtol=1e-12, atol=1e-15, err_msg=name)
    assert scores.display("max_softmax", TOP) == 1.0
    assert scores.display("negative_entropy", TOP) == 0.0
