"""A data scientist with scikit-learn: a pipeline, a grid search by AURC, a promise, and answers that may be "ask"."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import abstain
from abstain.errors import AbstainWarning, InfeasibleError, InputError
from abstain.sklearn import SelectiveClassifier, aurc_scorer


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(9000, 12, n_informative=6, class_sep=1.1, flip_y=0.02, random_state=0)
    names = np.asarray(["benign", "malignant"])[y]
    return train_test_split(X, names, test_size=3000, random_state=0)


def test_search_fit_promise_and_answer(data, tmp_path):
    X, X_later, y, y_later = data
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    search = GridSearchCV(
        pipeline, {"logisticregression__C": [1e-4, 0.1, 10.0]}, scoring=aurc_scorer(), cv=3
    ).fit(X[:3000], y[:3000])
    assert search.best_params_["logisticregression__C"] > 1e-4

    clf = SelectiveClassifier(search.best_estimator_, risk=0.05, cv="prefit", abstain_label="ask").fit(
        X[3000:], y[3000:]
    )
    assert "at most 0.05" in clf.guarantee_
    said = clf.predict(X_later)
    answered = said != "ask"
    assert set(said) == {"benign", "malignant", "ask"}
    assert (said[answered] != y_later[answered]).mean() < 0.05
    assert answered.mean() > 0.2
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict(X_later), said)

    clf.threshold_.save(tmp_path / "rule.json")
    served = abstain.Threshold.load(tmp_path / "rule.json")
    np.testing.assert_array_equal(served.accepts(probs=clf.predict_proba(X_later)), answered)
    plain = clf.predict_proba(X_later).max(axis=1)
    np.testing.assert_array_equal(served.accepts(plain, units="plain"), answered)


def test_the_selective_step_inside_a_pipeline_and_a_search(data):
    X, X_later, y, _ = data
    pipeline = make_pipeline(
        StandardScaler(), SelectiveClassifier(LogisticRegression(), risk=0.1, random_state=0)
    )
    grid = {
        "selectiveclassifier__score": ["max_softmax", "softmax_margin"],
        "selectiveclassifier__risk": [0.08, 0.1],
    }
    search = GridSearchCV(pipeline, grid, scoring=aurc_scorer(), cv=3).fit(X, y)
    said = search.best_estimator_.predict(X_later, abstain_label="ask")
    last = search.best_estimator_[-1]
    accepted = last.accepts(search.best_estimator_[:-1].transform(X_later))
    assert (said[~accepted] == "ask").all()
    assert 0.2 < accepted.mean() < 1


def test_mistakes_are_told(data):
    X, _, y, _ = data
    with pytest.raises(InputError, match=r"Write 0\.05 for 5%"):
        SelectiveClassifier(risk=5).fit(X, y)
    with pytest.raises(InputError, match="must not be one of the classes"):
        SelectiveClassifier(risk=0.1, abstain_label="benign", random_state=0).fit(X, y)
    with pytest.warns(AbstainWarning, match="nothing will be accepted"):
        hopeless = make_pipeline(StandardScaler(), SelectiveClassifier(risk=1e-5, random_state=0)).fit(X, y)
    assert set(hopeless.predict(X)) == {"abstain"}
    hopeless[-1].set_params(abstain_label=None)
    with pytest.raises(InfeasibleError, match="abstain_label"):
        hopeless.predict(X)
    assert set(hopeless.predict(X, abstain_label="ask")) == {"ask"}
