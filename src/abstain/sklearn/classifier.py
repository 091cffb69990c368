"""A classifier that says when not to trust it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from abstain import scores
from abstain._arrays import Array
from abstain.errors import InputError
from abstain.sklearn._score_name import ScoreParameter
from abstain.sklearn._selective import Selective
from abstain.sklearn.confidence import Score, classifier_confidence, kind_of, reduce_scores
from abstain.thresholds.select import Method


def _has(name: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "estimator_", None) or self._base(), name))


class SelectiveClassifier(ClassifierMixin, Selective):  # type: ignore[misc]
    """Wraps a classifier; accepts a prediction when its confidence reaches a threshold with a guarantee.

    Parameters
    ----------
    estimator : classifier
        With `predict_proba` or `decision_function`. Logistic regression when left out.
    score : str or callable
        A confidence of `abstain.scores` by name, or a function of the probabilities (else decision values).
    risk, coverage : float
        Exactly one: the error rate of the accepted to stay below, or the share to accept; see `select_threshold`.
    delta, method : float, str
        Passed to `select_threshold`.
    cv : "prefit", float or int
        How to calibrate. A share is held out of training: the guarantee holds. "prefit": all of (X, y) given to `fit`
        is calibration data: the guarantee holds if the estimator never saw it. A number of folds: out-of-fold
        predictions, all data are trained on, and `guarantee_` is None.
    abstain_label : label, optional
        What `predict` says for a rejected sample; without it `predict` never abstains.
    random_state : int or generator
        Of the held-out split.

    Attributes
    ----------
    threshold_ : Threshold
    estimator_, classes_ : the fitted classifier and its classes
    guarantee_ : str or None

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, class_sep=1.0, random_state=0)
    >>> clf = SelectiveClassifier(risk=0.05, cv=0.5, random_state=0).fit(X, y)
    >>> prediction, accepted = clf.predict_selective(X[:500])
    >>> bool(accepted.any()), clf.threshold_.feasible
    (True, True)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        score: Score = "max_softmax",
        risk: float | None = None,
        coverage: float | None = None,
        delta: float = 0.05,
        method: Method = "ltt",
        cv: Any = 0.25,
        abstain_label: Any = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.score = score
        self.risk = risk
        self.coverage = coverage
        self.delta = delta
        self.method = method
        self.cv = cv
        self.abstain_label = abstain_label
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name."""
        params = {name: self.__dict__[name] for name in self._get_param_names()}
        if deep and hasattr(self.estimator, "get_params") and not isinstance(self.estimator, type):
            params |= {f"estimator__{k}": v for k, v in self.estimator.get_params().items()}
        return params

    def _base(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def fit(self, X: Array, y: Array, **params: Any) -> SelectiveClassifier:
        """Train the classifier and choose the threshold on data it was not trained on (see `cv`)."""
        if y is not None:
            check_classification_targets(y)
        super().fit(X, y, **params)
        self.classes_ = self.estimator_.classes_
        return self

    def _calibrate(self, X: Array, y: Array) -> tuple[np.ndarray, np.ndarray]:
        wrong = np.asarray(self.estimator_.predict(X)) != np.asarray(y)
        return wrong, classifier_confidence(self.estimator_, X, self.__dict__["score"])

    def _out_of_fold(self, X: Array, y: Array, routed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        self._train(X, y, routed)
        kind = kind_of(self.estimator_, scores.by_name(self.__dict__["score"]).takes)
        method = "predict_proba" if kind == "probs" else "decision_function"
        values = np.asarray(
            cross_val_predict(self._base(), X, y, cv=self.cv, method=method, params=routed or None)
        )
        if values.ndim == 1:
            values = np.column_stack([np.zeros_like(values), values])
        predicted = np.unique(np.asarray(y))[np.argmax(values, axis=1)]
        return predicted != np.asarray(y), reduce_scores(kind, values, self.__dict__["score"])

    def confidence(self, X: Array) -> np.ndarray:
        """One confidence per sample, higher = surer: what the threshold is compared with."""
        check_is_fitted(self, "threshold_")
        return classifier_confidence(self.estimator_, X, self.__dict__["score"])

    def predict_selective(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """The prediction for every sample, and which of them to accept."""
        accepted = self.threshold_.accepts(self.confidence(X))
        return np.asarray(self.estimator_.predict(X)), accepted

    def predict(self, X: Array) -> np.ndarray:
        """The prediction; `abstain_label` where it is not accepted, if one was set."""
        check_is_fitted(self, "threshold_")
        if self.abstain_label is None:
            return np.asarray(self.estimator_.predict(X))
        prediction, accepted = self.predict_selective(X)
        label = np.asarray(self.abstain_label)
        if label.ndim:
            raise InputError("SelectiveClassifier: `abstain_label` must be one label.")
        same = label.dtype.kind == prediction.dtype.kind or {label.dtype.kind, prediction.dtype.kind} <= set(
            "iuf"
        )
        result = np.where(accepted, prediction, label) if same else prediction.astype(object)
        if not same:
            result[~accepted] = self.abstain_label
        return result

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Array) -> np.ndarray:
        """The classifier's probabilities."""
        check_is_fitted(self, "threshold_")
        return np.asarray(self.estimator_.predict_proba(X))

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Array) -> np.ndarray:
        """The classifier's decision values."""
        check_is_fitted(self, "threshold_")
        return np.asarray(self.estimator_.decision_function(X))

    @ScoreParameter
    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """Accuracy of the accepted, 0 when nothing is accepted; higher is better.

        A threshold that accepts little makes this high: choose models by `aurc_scorer`, not by this.
        """
        prediction, accepted = self.predict_selective(X)
        weight = (
            np.ones(len(accepted)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        )
        mass = float(weight[accepted].sum())
        right = prediction[accepted] == np.asarray(y)[accepted]
        return float((weight[accepted] * right).sum() / mass) if mass > 0 else 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._base())
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        tags.classifier_tags.multi_label = False
        return tags
