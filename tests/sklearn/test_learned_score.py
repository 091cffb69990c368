"""`SelectiveClassifier(score="learned")`: a confidence from one half of the calibration data, a promise from the other."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.errors import InputError

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from abstain.sklearn import SelectiveClassifier


class SkewedClassifier(GaussianNB):
    """Of three classes it predicts the last too often: predictions of one class are worse than their probabilities."""

    def predict_proba(self, X):
        probs = super().predict_proba(X) * [1.0, 1.0, 6.0]
        return probs / probs.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def make_data(n: int, seed: int):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 2)) + np.array([[0, 0], [2, 0], [0, 2]])[y]
    return X, y


@pytest.fixture(scope="module")
def fitted():
    X, y = make_data(6000, seed=0)
    return SelectiveClassifier(SkewedClassifier(), score="learned", risk=0.12, cv=0.5, random_state=0).fit(
        X, y
    )


def test_half_learns_and_half_certifies(fitted):
    assert fitted.confidence_.n == 1500
    assert fitted.threshold_.n == 1500
    assert fitted.guarantee_
    assert fitted.threshold_.cut.learned == fitted.confidence_.fingerprint


def test_it_ranks_better_and_decides_by_the_threshold(fitted):
    X, y = make_data(6000, seed=1)
    plain = clone(fitted).set_params(score="max_softmax").fit(*make_data(6000, seed=0))
    wrong = fitted.predict_all(X) != y
    learned_area = np.mean([wrong[fitted.confidence(X) >= t].mean() for t in fitted.confidence(X)[:300]])
    plain_area = np.mean([wrong[plain.confidence(X) >= t].mean() for t in plain.confidence(X)[:300]])
    assert fitted.confidence_.proven
    assert learned_area < plain_area
    accepted = fitted.accepts(X)
    np.testing.assert_array_equal(accepted, fitted.confidence(X) >= fitted.threshold_.value)
    assert wrong[accepted].mean() < 0.12 + 3 * np.sqrt(0.12 * 0.88 / accepted.sum())
    np.testing.assert_array_equal(fitted.predict(X) == -1, ~accepted)


def test_groups_clusters_and_refits():
    X, y = make_data(4000, seed=2)
    clusters = np.arange(4000) // 4
    model = SelectiveClassifier(SkewedClassifier(), score="learned", risk=0.3, cv=0.5, random_state=0)
    model.fit(X, y, clusters=clusters, groups=clusters % 2)
    assert set(model.threshold_.thresholds) == {0, 1}
    assert model.confidence_.clusters == 250
    first = model.confidence_.fingerprint
    assert model.fit(X, y).confidence_.fingerprint != first
    assert model.set_params(score="max_softmax").fit(X, y).confidence_ is None


def test_too_few_errors_are_named():
    X, y = make_data(300, seed=3)
    far = X + 100 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    with pytest.raises(InputError, match="at least 10 right and 10 wrong rows"):
        SelectiveClassifier(GaussianNB(), score="learned", risk=0.1, cv=0.5, random_state=0).fit(far, y)
