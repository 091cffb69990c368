from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from abstain._check import check_class_scores
from abstain.confidence.logit_features import compute_logit_features, logit_feature_names


@pytest.mark.parametrize("class_count", [3, 12])
def test_features_are_those_of_the_definition(class_count):
    logits = 4 * np.random.default_rng(0).normal(size=(50, class_count))
    features, predicted, runner_up = compute_logit_features(check_class_scores("test", logits, None))
    names = logit_feature_names("logits", class_count)
    assert features.shape == (50, len(names))
    by_size = np.argsort(-logits, axis=1)
    assert predicted.tolist() == by_size[:, 0].tolist()
    assert runner_up.tolist() == by_size[:, 1].tolist()
    log_probs = np.sort(logits - logsumexp(logits, axis=1, keepdims=True), axis=1)[:, ::-1]
    probs = np.exp(log_probs)
    centred = logits - logits.mean(axis=1, keepdims=True)
    expected = {
        "log-odds of the prediction": log_probs[:, 0] - np.log(probs[:, 1:].sum(axis=1)),
        "margin": log_probs[:, 0] - log_probs[:, 1],
        "negative entropy": (probs * log_probs).sum(axis=1),
        "log-probability of class 3 by rank": log_probs[:, 2],
        "centred maximum": centred.max(axis=1),
        "centred energy": logsumexp(centred, axis=1),
        "spread": centred.std(axis=1),
        "centred maximum over 5-norm": centred.max(axis=1) / (np.abs(centred) ** 5).sum(axis=1) ** 0.2,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(features[:, names.index(name)], values, rtol=1e-9, err_msg=name)


def test_a_constant_added_to_a_row_changes_nothing_and_extremes_stay_finite():
    logits = np.array([[0.0, 0.0, 0.0], [900.0, -900.0, 0.0], [-np.inf, 1.0, 2.0]])
    features, _, _ = compute_logit_features(check_class_scores("test", logits, None))
    assert np.isfinite(features).all()
    shifted, _, _ = compute_logit_features(check_class_scores("test", logits + 7.0, None))
    np.testing.assert_allclose(shifted, features, atol=1e-12)


def test_probabilities_of_zero_and_two_classes():
    features, _, _ = compute_logit_features(
        check_class_scores("test", None, np.array([[1.0, 0.0, 0.0], [0.5, 0.3, 0.2]]))
    )
    assert features.shape == (2, len(logit_feature_names("probs", 3)))
    assert np.isfinite(features).all()
    two, predicted, runner_up = compute_logit_features(
        check_class_scores("test", np.array([[1.0, 3.5]]), None)
    )
    assert two.tolist() == [[2.5]]
    assert (predicted.tolist(), runner_up.tolist()) == ([1], [0])


@pytest.mark.parametrize("margin", [5.0, 30.0, 40.0, 55.0])
def test_log_odds_of_a_large_margin_count_every_other_class(margin):
    logits = np.zeros((1, 1000))
    logits[0, 7] = margin
    features, _, _ = compute_logit_features(check_class_scores("test", logits, None))
    column = logit_feature_names("logits", 1000).index("log-odds of the prediction")
    np.testing.assert_allclose(features[0, column], margin - np.log(999), rtol=1e-12)
