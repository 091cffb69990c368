"""A classifier made of several: a cheap one answers when it is sure, a dear one when it is not, a person the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from abstain._arrays import Array
from abstain.cascades import Cascade, cascade
from abstain.cascades.cascade import PERSON, Promise
from abstain.errors import InputError
from abstain.sklearn.estimators import Score, classifier_confidence


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
        costs = self._costs(len(stages))
        if self.cv == "prefit":
            self.estimators_ = [model for _, model in stages]
            X_held, y_held = X, y
        else:
            X, X_held, y, y_held = train_test_split(X, y, test_size=self.cv, random_state=self.random_state)
            self.estimators_ = [clone(model).fit(X, y) for _, model in stages]
        self.classes_ = np.unique(np.concatenate([model.classes_ for model in self.estimators_]))
        if hasattr(self.estimators_[0], "n_features_in_"):
            self.n_features_in_ = self.estimators_[0].n_features_in_
        measured = {
            name: (model.predict(X_held) != y_held, self._confidence(model, X_held), cost)
            for (name, _), model, cost in zip(stages, self.estimators_, costs)
        }
        asked = {"risk": self.risk, "delta": self.delta, "promise": self.promise, "person": self.person}
        named = (
            self.scores if isinstance(self.scores, str) else getattr(self.scores, "__name__", "a function")
        )
        kept = {"scores": dict.fromkeys(measured, named), "rng": self.random_state or 0}
        self.cascade_: Cascade = cascade(measured, **asked, **kept)
        return self

    def decide(self, X: Array) -> np.ndarray:
        """Who answers each sample: the name of a classifier, or "person"."""
        names = np.asarray([*self._names(), PERSON])
        who = np.full(_count(X), len(names) - 1)
        for j, rows, taken, _ in self._asked(X):
            who[rows[taken]] = j
        return names[who]

    def predict_selective(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """The answer for every sample, and which of them some classifier gives; the others are the person's.

        A classifier sees only the samples that reach it. For the person's, the answer is the last classifier's.
        """
        check_is_fitted(self, "cascade_")
        answered = np.zeros(_count(X), dtype=bool)
        answer: Any = None
        for _, rows, taken, said in self._asked(X):
            answer = np.empty(len(answered), dtype=said.dtype) if answer is None else answer
            answer[rows], answered[rows[taken]] = said, True
        return (np.asarray(self.estimators_[-1].predict(X)) if answer is None else answer), answered

    def predict(self, X: Array) -> np.ndarray:
        """The answer; for the person's samples `deferred_label`, if there is one."""
        answer, answered = self.predict_selective(X)
        if self.deferred_label is None or answered.all():
            return answer
        kinds = {np.asarray(self.deferred_label).dtype.kind, answer.dtype.kind}
        answer = answer if len(kinds) == 1 or kinds <= set("iuf") else answer.astype(object)
        return np.where(answered, answer, self.deferred_label)

    @property
    def guarantee_(self) -> str | None:
        """What the cascade promises, in words, or None."""
        check_is_fitted(self, "cascade_")
        return self.cascade_.guarantee

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._stages()[-1][1]).input_tags
        tags.classifier_tags.multi_label = False
        return tags

    def _asked(self, X: Array) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Each classifier that is asked: its place, the samples that reach it, which it answers, what it says."""
        check_is_fitted(self, "cascade_")
        rows, thresholds = np.arange(_count(X)), self.cascade_.thresholds or {}
        for j, (name, model) in enumerate(zip(self._names(), self.estimators_)):
            if thresholds.get(name, math.inf) < math.inf and len(rows):
                some = X if len(rows) == _count(X) else _safe_indexing(X, rows)
                taken = self._confidence(model, some) >= thresholds[name]
                yield j, rows, taken, np.asarray(model.predict(some))
                rows = rows[~taken]

    def _confidence(self, model: Any, X: Array) -> np.ndarray:
        return classifier_confidence(model, X, self.scores)

    def _stages(self) -> list[tuple[str, Any]]:
        if self.estimators is None:
            return [("small", DummyClassifier()), ("large", LogisticRegression())]
        return list(self.estimators)

    def _names(self) -> tuple[str, ...]:
        return self.cascade_.names

    def _costs(self, stages: int) -> list[float]:
        costs = [10.0**j for j in range(stages)] if self.costs is None else list(self.costs)
        if len(costs) != stages:
            raise InputError(
                f"CascadeClassifier: needs a cost for each of {stages} stages, got {len(costs)}."
            )
        return costs


def _count(X: Array) -> int:
    return int(X.shape[0] if hasattr(X, "shape") else len(X))
