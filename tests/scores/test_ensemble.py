"""Ensemble scores against their definitions in many digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from abstain import losses, scores


def exact_ensemble(members):
    """Scores of one sample, members x classes of logits, in 120 digits."""
    with mpmath.workdps(120):
        probs = []
        for row in members:
            exps = [mpmath.exp(mpmath.mpf(v)) for v in row]
            probs.append([e / mpmath.fsum(exps) for e in exps])
        m = len(probs)
        mean = [mpmath.fsum(col) / m for col in zip(*probs)]

        def entropy(p):
            return -mpmath.fsum(q * mpmath.log(q) for q in p if q)

        information = entropy(mean) - mpmath.fsum(entropy(p) for p in probs) / m
        doubt = 1 - mpmath.fsum(max(p) for p in probs) / m
        return {
            "predictive_entropy": float(-mpmath.log(entropy(mean))),
            "mutual_information": float(-mpmath.log(information)),
            "mean_max_softmax": float(-mpmath.log(doubt)),
        }


@pytest.mark.parametrize("scale", [0.3, 3.0, 40.0])
def test_keys_equal_many_digits(scale):
    logits = np.random.default_rng(11).normal(0, scale, (5, 40, 4))
    found = {n: scores.by_name(n)(logits) for n in scores.ENSEMBLE_NAMES}
    for i in range(logits.shape[1]):
        for name, expected in exact_ensemble(logits[:, i].tolist()).items():
            assert found[name][i] == pytest.approx(expected, rel=1e-12, abs=1e-12), name


def test_nearly_agreeing_members_keep_their_information():
    """H(mean) - mean H would lose this one to cancellation entirely."""
    row = np.array([30.0, 0.0, -1.0])
    step = np.array([0.0, 1e-3, 0.0])
    logits = np.stack([row, row + step, row - step])[:, None, :]
    expected = exact_ensemble(logits[:, 0].tolist())["mutual_information"]
    assert scores.mutual_information(logits)[0] == pytest.approx(expected, rel=1e-10)


def test_agreement_ties_on_top():
    same = np.repeat(np.random.default_rng(0).normal(size=(1, 6, 3)), 4, axis=0)
    assert (scores.mutual_information(same) == np.finfo(float).max).all()
    assert (scores.vote_share(same) == 1).all()
    np.testing.assert_allclose(scores.mean_max_softmax(same), scores.max_softmax(same[0]), rtol=1e-14)
    np.testing.assert_allclose(scores.predictive_entropy(same), scores.negative_entropy(same[0]), rtol=1e-13)


def test_probabilities_and_logits_agree():
    logits = np.random.default_rng(1).normal(0, 2, (3, 20, 5))
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
    for name in scores.ENSEMBLE_NAMES:
        score = scores.by_name(name)
        np.testing.assert_allclose(score(probs=probs), score(logits), rtol=1e-11, err_msg=name)
    with_zero = np.array([[[1.0, 0.0, 0.0]], [[0.5, 0.5, 0.0]]])
    information = -0.75 * np.log(0.75) - 0.25 * np.log(0.25) - 0.5 * np.log(2)
    assert np.exp(-scores.mutual_information(probs=with_zero)[0]) == pytest.approx(information, rel=1e-13)


def test_vote_share_counts_votes():
    votes = np.array([[0, 1, 2], [0, 1, 1], [0, 2, 0], [1, 2, 1]])  # members x samples
    assert scores.vote_share(probs=np.eye(3)[votes]).tolist() == [0.75, 0.5, 0.5]


def test_pooled_prediction_feeds_scores_and_losses():
    logits = np.random.default_rng(2).normal(0, 2, (4, 30, 5))
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)).mean(0)
    pooled = scores.pooled_log_probs(logits)
    np.testing.assert_allclose(pooled, np.log(probs), rtol=1e-12)
    labels = np.arange(30) % 5
    np.testing.assert_allclose(
        losses.cross_entropy(pooled, labels), -np.log(probs[np.arange(30), labels]), rtol=1e-12
    )


def test_pixels_and_single_member():
    logits = np.random.default_rng(3).normal(size=(2, 4, 6, 3))
    for name in scores.ENSEMBLE_NAMES:
        score = scores.by_name(name)
        flat = score(logits.reshape(2, 24, 3))
        np.testing.assert_array_equal(score(logits).reshape(-1), flat, err_msg=name)
    assert np.isfinite(scores.mutual_information(logits[:1])).all()
