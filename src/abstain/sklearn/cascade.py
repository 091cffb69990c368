"""A classifier made of several: a cheap one answers when it is sure, a dear one when it is not, a person the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d

from abstain._arrays import Array
from abstain.cascades import cascade
from abstain.cascades.select import PERSON, Promise
from abstain.errors import InputError
from abstain.sklearn.estimators import Score, classifier_confidence, with_label


class CascadeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifiers in order; each answers when it is sure enough, with a promise on the risk of the answers.

    Parameters
    ----------
    estimators : list of (str, classifier)
        In the order in which they are asked, the cheapest first; with `predict_proba` or `decision_function`. When left
        out, the most frequent class and a logistic regression.
    costs : list of float
        What asking each of them costs; 1, 10, 100, ... when left out.
    risk, delta, promise, person
        As for `abstain.cascade`.
    scores : str or callable
        A confidence of `abstain.scores` by name, or a function of the probabilities (else decision values).
    cv : float or "prefit"
        The share held out of training for calibration; "prefit": the classifiers are fitted, (X, y) calibrate.
    deferred_label : label, optional
        What `predict` says for a sample that is left to the person; without it, what the last classifier says.
    random_state : int or None
        Of the held-out split, and of the split inside `cascade`.

    Attributes
    ----------
    cascade_ : Cascade
        Thresholds, cost, shares, and the promise.
    estimators_ : list of classifier
        Fitted.
    classes_ : array
        All classes.
    guarantee_ : str or None
        What is promised, in words.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(4000, class_sep=0.8, random_state=0)
    >>> stages = [("small", GaussianNB()), ("large", LogisticRegression())]
    >>> clf = CascadeClassifier(stages, costs=[1, 10], risk=0.15, cv=0.5, random_state=0).fit(X, y)
    >>> prediction, answered = clf.predict_selective(X[:500])
    >>> clf.cascade_.feasible, bool(answered.any()), sorted(set(clf.decide(X[:500])) - {"small", "large", "person"})
    (True, True, [])
    """

    def __init__(
        self,
        estimators: Sequence[tuple[str, Any]] | None = None,
        costs: Sequence[float] | None = None,
        *,
        risk: float = 0.1,
        delta: float = 0.05,
        promise: Promise = "answered",
        person: tuple[float, float] = (1000.0, 0.0),
        scores: Score = "max_softmax",
        cv: Any = 0.25,
        deferred_label: Any = None,
        random_state: int | None = None,
    ) -> None:
        self.estimators, self.costs, self.risk, self.delta = estimators, costs, risk, delta
        self.promise, self.person, self.scores, self.cv = promise, person, scores, cv
        self.deferred_label, self.random_state = deferred_label, random_state

    def fit(self, X: Array, y: Array) -> CascadeClassifier:
        """Train the classifiers and choose the thresholds on data they were not trained on."""
        if y is None:
            raise ValueError("CascadeClassifier requires y to be passed, but the target y is None.")
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        stages = self._stages()
        costs = [10.0**j for j in range(len(stages))] if self.costs is None else list(self.costs)
        if len(costs) != len(stages):
            raise InputError(
                f"CascadeClassifier: needs {len(stages)} costs, one per stage, got {len(costs)}."
            )
        self.estimators_ = [model for _, model in stages]
        X_held, y_held = _indexable(X), y
        if self.cv != "prefit":
            parts = train_test_split(X_held, y, test_size=self.cv, random_state=self.random_state)
            X_train, X_held, y_train, y_held = parts
            self.estimators_ = [clone(model).fit(X_train, y_train) for model in self.estimators_]
        self.classes_ = np.unique(np.concatenate([model.classes_ for model in self.estimators_]))
        if hasattr(self.estimators_[0], "n_features_in_"):
            self.n_features_in_ = self.estimators_[0].n_features_in_
        measured = {
            name: (model.predict(X_held) != y_held, classifier_confidence(model, X_held, self.scores), cost)
            for (name, _), model, cost in zip(stages, self.estimators_, costs)
        }
        asked: Any = {name: getattr(self, name) for name in ("risk", "delta", "promise", "person")}
        scores = dict.fromkeys(measured, str(getattr(self.scores, "__name__", self.scores)))
        self.cascade_ = cascade(measured, **asked, scores=scores, rng=self.random_state or 0)
        self.guarantee_ = self.cascade_.guarantee
        return self

    def decide(self, X: Array) -> np.ndarray:
        """Who answers each sample: the name of a classifier, or "person"."""
        who = self._ask(X)[1]
        return np.asarray([*self.cascade_.names, PERSON])[who]

    def predict_selective(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """The answer for every sample, and which of them some classifier gives; the others are the person's.

        A classifier sees only the samples that reach it. For the person's, the answer is that of the last one asked.
        """
        answer, who = self._ask(X)
        return answer, who < len(self.estimators_)

    def predict(self, X: Array) -> np.ndarray:
        """The answer; for the person's samples `deferred_label`, if there is one."""
        answer, answered = self.predict_selective(X)
        return answer if self.deferred_label is None else with_label(answer, answered, self.deferred_label)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._stages()[-1][1]).input_tags
        tags.classifier_tags.multi_label = False
        return tags

    def _ask(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """What the last classifier asked says of each sample, and the place of the one that answers."""
        check_is_fitted(self, "cascade_")
        X = _indexable(X)
        rows, thresholds = np.arange(_num_samples(X)), self.cascade_.thresholds or {}
        who, answer = np.full(len(rows), len(self.estimators_)), None
        for j, (name, model) in enumerate(zip(self.cascade_.names, self.estimators_)):
            if name in self.cascade_.asked and len(rows):
                some = X if len(rows) == len(who) else _safe_indexing(X, rows)
                said = np.asarray(model.predict(some))
                answer = np.empty(len(who), dtype=said.dtype) if answer is None else answer
                answer[rows] = said
                taken = classifier_confidence(model, some, self.scores) >= thresholds[name]
                who[rows[taken]], rows = j, rows[~taken]
        return np.asarray(self.estimators_[-1].predict(X)) if answer is None else answer, who

    def _stages(self) -> list[tuple[str, Any]]:
        default = [("small", DummyClassifier()), ("large", LogisticRegression())]
        return default if self.estimators is None else list(self.estimators)


def _indexable(X: Array) -> Any:
    return np.asarray(X) if hasattr(X, "__array__") and not hasattr(X, "shape") else X
