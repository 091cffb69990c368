"""A classifier and a regressor that say when not to trust them, and a classifier made of several.

The first two train an estimator, read a confidence off it and choose a threshold on data it was not trained on
(`Selective`). In a cascade a cheap classifier answers when it is sure, a dear one when it is not, a person the rest.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d, has_fit_parameter

from abstain import scores
from abstain._arrays import Array
from abstain.cascades import cascade
from abstain.cascades.select import PERSON, Promise
from abstain.errors import AbstainWarning, InfeasibleError, InputError
from abstain.thresholds import Threshold, select_threshold
from abstain.thresholds.calibration import Method

Score = str | Callable[..., Any]
CROSS_NOTE = (
    "Calibrated on out-of-fold predictions: each came from a model other than the one deployed (trained on a part of "
    "the data), so no guarantee carries over. For one, hold out data (cv=0.25) or calibrate a fitted model "
    "(cv='prefit')."
)
_FOLDS = 5  # of the predictions whose errors the regressor's error model is trained on


class ScoreParameter:
    """`score` is two things here: the constructor's choice of confidence, and scikit-learn's method of that name.

    An attribute set in the constructor would hide the method, so this descriptor keeps the choice in the instance's own
    dictionary (where scikit-learn looks for parameters, through `get_params`) and reads as the method.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.method if instance is None else self.method.__get__(instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__["score"] = value


def response_method(estimator: Any, score: Score) -> str:
    """Probabilities where the estimator has them and the score reads them, else decision values."""
    takes = scores.by_name(score).takes
    if "probs" in takes and hasattr(estimator, "predict_proba"):
        return "predict_proba"
    if "logits" in takes and hasattr(estimator, "decision_function"):
        return "decision_function"
    raise InputError(
        f"confidence: `estimator` must have {'predict_proba' if 'probs' in takes else 'decision_function'} for this "
        f"score, got {type(estimator).__name__}. Wrap it in sklearn.calibration.CalibratedClassifierCV, or choose "
        f"another score."
    )


def by_class(response: Array) -> np.ndarray:
    """One column per class; a binary decision value d stands for the two logits 0 and d."""
    values = np.asarray(response, dtype=np.float64)
    return np.column_stack([np.zeros_like(values), values]) if values.ndim == 1 else values


def reduce_scores(method: str, values: np.ndarray, score: Score) -> np.ndarray:
    """The chosen score of rows of probabilities or decision values."""
    if values.shape[-1] == 1:  # one class was seen in training: there is nothing to be unsure about
        return np.zeros(len(values))
    function = scores.by_name(score)
    confidence = function(probs=values) if method == "predict_proba" else function(values)
    return np.asarray(confidence, dtype=np.float64)


def with_label(prediction: np.ndarray, accepted: np.ndarray, instead: Any) -> np.ndarray:
    """Predictions, with a label in place of those not accepted, whatever kind of label that is."""
    kinds = {np.asarray(instead).dtype.kind, prediction.dtype.kind}
    alike = len(kinds) == 1 or kinds <= set("iuf")
    return np.where(accepted, prediction if alike else prediction.astype(object), instead)


def _check_label(classifier: Any, argument: str, label: Any) -> None:
    if label in list(classifier.classes_):
        rule = f"`{argument}` must not be one of the classes, got {label!r}"
        raise InputError(f"{type(classifier).__name__}: {rule}. Choose a label that no answer can have.")


def classifier_confidence(estimator: Any, X: Array, score: Score) -> np.ndarray:
    """One confidence per sample from a fitted classifier, higher = surer."""
    method = response_method(estimator, score)
    return reduce_scores(method, by_class(getattr(estimator, method)(X)), score)


def _indexable(X: Array) -> Any:
    return np.asarray(X) if hasattr(X, "__array__") and not hasattr(X, "shape") else X


def _checked(name: str, X: Array, y: Array) -> tuple[Any, Any]:
    """Samples that can be indexed, and one target for each."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    return _indexable(X), column_or_1d(y, warn=True)


def _take_over(own: Any, fitted: Any) -> None:
    """What scikit-learn wants to know of the features, from an estimator that has seen them."""
    for fact in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, fact):
            setattr(own, fact, getattr(fitted, fact))


class Selective(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator, a confidence, and a threshold chosen on data the estimator was not trained on.

    A subclass has `_confidence(X)`, `_loss(prediction, y)` and `_out_of_fold(X, y, routed)`, which trains and gives
    losses and confidences of predictions for folds left out.
    """

    threshold_: Threshold
    estimator_: Any
    _default: Any  # the estimator when none is given
    _instead: str  # the parameter that says what to predict for a rejected sample

    def fit(self, X: Array, y: Array, **params: Any) -> Any:
        """Train the estimator and choose the threshold.

        cv="prefit": the estimator is fitted already, (X, y) are calibration data. cv=0.25: that share is held out of
        training for calibration. cv=5: out-of-fold predictions calibrate, without a guarantee.
        """
        name = type(self).__name__
        if (self.risk is None) == (self.coverage is None):
            raise InputError(f"{name}: give exactly one of `risk` and `coverage`.")
        X, y = _checked(name, X, y)
        routed = self._routed(params)
        if self._kind() == "prefit":
            self._use_fitted()
            loss, confidence = self._calibrate(X, y)
        elif self._kind() == "folds":
            loss, confidence = self._out_of_fold(X, y, routed)
        else:
            loss, confidence = self._held_out(X, y, routed)
        _take_over(self, self.estimator_)
        self.threshold_ = self._choose(loss, confidence)
        if not self.threshold_.feasible:
            told = f"{name}: no threshold could be certified, so nothing will be accepted. {self.threshold_.note or ''}"
            warnings.warn(f"{told} {self.threshold_.advice or ''}".strip(), AbstainWarning, stacklevel=2)
        return self

    def confidence(self, X: Array) -> np.ndarray:
        """One confidence per sample, higher = surer: what the threshold is compared with."""
        check_is_fitted(self, "threshold_")
        return self._confidence(X)

    def predict_selective(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """The prediction for every sample, and which of them to accept."""
        accepted = self.accepts(X)
        return np.asarray(self.estimator_.predict(X)), accepted

    def accepts(self, X: Array) -> np.ndarray:
        """Which predictions to accept."""
        return self.threshold_.accepts(self.confidence(X))

    def _predict(self, X: Array, instead: Any) -> np.ndarray:
        """The prediction; where it is not accepted, what stands for it, if anything does."""
        check_is_fitted(self, "threshold_")
        instead = getattr(self, self._instead) if instead is None else instead
        if instead is None and not self.threshold_.feasible:
            raise InfeasibleError(
                f"{type(self).__name__}.predict: no threshold could be certified, so nothing is accepted. Set "
                f"`{self._instead}` to say so in the answer, here or in the constructor, or use `predict_selective`."
            )
        if instead is None:
            return np.asarray(self.estimator_.predict(X))
        self._check_instead(instead)
        return with_label(*self.predict_selective(X), instead)

    @property
    def guarantee_(self) -> str | None:
        """What the threshold promises, in words, or None."""
        check_is_fitted(self, "threshold_")
        return self.threshold_.guarantee

    def get_metadata_routing(self) -> Any:
        """`fit` hands its metadata to the estimator's `fit`."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=type(self).__name__).add(estimator=self._base(), method_mapping=to_fit)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self._base())
        tags.input_tags = inner.input_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags.multi_output, tags.target_tags.single_output = False, True
        return tags

    def _base(self) -> Any:
        return self._default() if self.estimator is None else self.estimator

    def _check_instead(self, instead: Any) -> None:
        if np.ndim(instead):
            raise InputError(f"{type(self).__name__}: `{self._instead}` must be one label.")

    def _kind(self) -> str:
        """What `cv` asks for: "prefit", "share" or "folds"."""
        cv: Any = self.cv
        if isinstance(cv, str) and cv == "prefit":
            return "prefit"
        if isinstance(cv, numbers.Integral) and cv is not True and int(cv) >= 2:
            return "folds"
        if isinstance(cv, numbers.Real) and 0 < float(cv) < 1:
            return "share"
        rule = "`cv` must be 'prefit', a share in (0, 1) or at least 2 folds"
        raise InputError(f"{type(self).__name__}: {rule}, got {cv!r}.")

    def _choose(self, loss: np.ndarray, confidence: np.ndarray, **options: Any) -> Threshold:
        asked = {"risk": self.risk, "coverage": self.coverage, "delta": self.delta, "method": self.method}
        chosen: Threshold = select_threshold(loss, confidence, **asked, **options)
        return replace(chosen, guarantee=None, note=CROSS_NOTE) if self._kind() == "folds" else chosen

    def _calibrate(self, X: Array, y: Array) -> tuple[np.ndarray, np.ndarray]:
        return self._loss(self.estimator_.predict(X), y), self._confidence(X)

    def _held_out(self, X: Array, y: Array, routed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """A plain random split: a stratified one would not be a draw from the population."""
        aligned = {k: v for k, v in routed.items() if hasattr(v, "__len__") and len(v) == len(y)}
        parts = train_test_split(X, y, *aligned.values(), test_size=self.cv, random_state=self.random_state)
        X_train, X_held, y_train, y_held = parts[:4]
        self._train(X_train, y_train, {**routed, **dict(zip(aligned, parts[4::2]))})
        return self._calibrate(X_held, y_held)

    def _train(self, X: Array, y: Array, routed: dict[str, Any]) -> None:
        self.estimator_ = clone(self._base()).fit(X, y, **routed)

    def _use_fitted(self) -> None:
        check_is_fitted(self._base())
        self.estimator_ = self.estimator

    def _routed(self, params: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments of `fit` for the estimator: by metadata routing, or handed on as they are."""
        if get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", **params).estimator.fit)
        given = {k: v for k, v in params.items() if v is not None}
        if "sample_weight" in given and not has_fit_parameter(self._base(), "sample_weight"):
            raise TypeError(f"{type(self._base()).__name__}.fit takes no sample_weight.")
        return given


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
        What `predict` says for a rejected sample; no class may have this name. Without it `predict` answers always
        (and refuses to where no threshold could be certified): say `predict(X, abstain_label=-1)`, inside a Pipeline
        too, or ask `accepts(X)` or `predict_selective(X)`.
    random_state : int or generator
        Of the held-out split.

    Attributes
    ----------
    threshold_ : Threshold
        What confidences are compared with; equal ones are accepted together.
    estimator_, classes_ : classifier, array
        The fitted classifier and its classes.
    guarantee_ : str or None
        What the threshold promises, in words.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, class_sep=1.0, random_state=0)
    >>> clf = SelectiveClassifier(risk=0.05, cv=0.5, random_state=0).fit(X, y)
    >>> prediction, accepted = clf.predict_selective(X[:500])
    >>> bool(accepted.any()), clf.threshold_.feasible
    (True, True)
    """

    _default, _instead = LogisticRegression, "abstain_label"

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
        self.estimator, self.score = estimator, score
        self.risk, self.coverage, self.delta, self.method = risk, coverage, delta, method
        self.cv, self.abstain_label, self.random_state = cv, abstain_label, random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name."""
        return {**super().get_params(deep), "score": self.__dict__["score"]}

    def fit(self, X: Array, y: Array, **params: Any) -> SelectiveClassifier:
        """Train the classifier and choose the threshold on data it was not trained on (see `cv`)."""
        if y is not None:
            check_classification_targets(y)
        super().fit(X, y, **params)
        self.classes_ = self.estimator_.classes_
        if self.abstain_label is not None:
            self._check_instead(self.abstain_label)
        return self

    def predict(self, X: Array, abstain_label: Any = None) -> np.ndarray:
        """The predicted class; `abstain_label` (here, or of the constructor) where it is not accepted.

        In a Pipeline: `pipeline.predict(X, abstain_label=-1)`.
        """
        return self._predict(X, abstain_label)

    def _check_instead(self, instead: Any) -> None:
        super()._check_instead(instead)
        _check_label(self, self._instead, instead)

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
        weight = accepted * (1.0 if sample_weight is None else np.asarray(sample_weight, np.float64))
        right = prediction == np.asarray(y)
        return float(np.average(right, weights=weight)) if weight.sum() > 0 else 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags

    def _confidence(self, X: Array) -> np.ndarray:
        return classifier_confidence(self.estimator_, X, self.__dict__["score"])

    def _loss(self, prediction: Array, y: Array) -> np.ndarray:
        return np.asarray(prediction) != np.asarray(y)

    def _out_of_fold(self, X: Array, y: Array, routed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        self._train(X, y, routed)
        score = self.__dict__["score"]
        method = response_method(self.estimator_, score)
        options = {"cv": self.cv, "method": method, "params": routed or None}
        values = by_class(cross_val_predict(self._base(), X, y, **options))
        predicted = np.unique(np.asarray(y))[np.argmax(values, axis=1)]
        return self._loss(predicted, y), reduce_scores(method, values, score)


class SelectiveRegressor(RegressorMixin, Selective):  # type: ignore[misc]
    """Wraps a regressor; accepts a prediction when its estimated error is small enough.

    Parameters
    ----------
    estimator : regressor
        Linear regression when left out.
    uncertainty : None, "std", or regressor
        Where the confidence (minus an expected error) comes from. "std": the estimator's own
        `predict(X, return_std=True)`. A regressor: trained to predict the absolute out-of-fold residual of the
        estimator. None: the same with a copy of the estimator. With cv="prefit" a regressor must be fitted already.
    tolerance : float
        An answer is wrong when it is off by more than this. With it `risk` is the share of wrong answers among the
        accepted, bounded exactly. `coverage` needs no tolerance.
    risk, coverage, delta, method, cv, random_state :
        As for `SelectiveClassifier`.
    abstain_value : float, optional
        What `predict` says for a rejected sample (NaN, say). Without it `predict` answers always, as
        `SelectiveClassifier` does; `predict(X, abstain_value=...)` says otherwise.

    Attributes
    ----------
    threshold_ : Threshold
        What confidences are compared with; equal ones are accepted together.
    estimator_, error_model_ : regressor
        The fitted regressor, and that of its error (None with "std").
    guarantee_ : str or None
        What the threshold promises, in words.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(600, 5, noise=10.0, random_state=0)
    >>> reg = SelectiveRegressor(coverage=0.5, cv=0.5, random_state=0).fit(X, y)
    >>> value, accepted = reg.predict_selective(X)
    >>> bool(0.4 < accepted.mean() < 0.75)
    True
    """

    _default, _instead = LinearRegression, "abstain_value"

    def __init__(
        self,
        estimator: Any = None,
        *,
        uncertainty: Any = None,
        tolerance: float | None = None,
        risk: float | None = None,
        coverage: float | None = None,
        delta: float = 0.05,
        method: Method = "ltt",
        cv: Any = 0.25,
        abstain_value: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator, self.uncertainty, self.tolerance = estimator, uncertainty, tolerance
        self.risk, self.coverage, self.delta, self.method = risk, coverage, delta, method
        self.cv, self.abstain_value, self.random_state = cv, abstain_value, random_state

    def fit(self, X: Array, y: Array, **params: Any) -> SelectiveRegressor:
        """Train the regressor and its error model, choose the threshold on data neither was trained on."""
        if self.risk is not None and self.tolerance is None:
            raise InputError(
                "SelectiveRegressor: `risk` needs `tolerance`, the error from which an answer counts as wrong: an "
                "error without a bound carries no guarantee. Or ask for `coverage`."
            )
        known = self.uncertainty is None or self.uncertainty == "std" or hasattr(self.uncertainty, "predict")
        if not known:
            rule = '`uncertainty` must be None, "std" or a regressor'
            raise InputError(f"SelectiveRegressor: {rule}, got {self.uncertainty!r}.")
        if y is not None:
            y = np.asarray(y)
            y = y.astype(np.float64) if y.dtype.kind == "O" else y
        super().fit(X, y, **params)
        return self

    def predict(self, X: Array, abstain_value: float | None = None) -> np.ndarray:
        """The prediction; `abstain_value` (here, or of the constructor) where it is not accepted."""
        return self._predict(X, abstain_value)

    def _confidence(self, X: Array) -> np.ndarray:
        """Minus the expected absolute error."""
        if self.error_model_ is not None:
            return -np.asarray(self.error_model_.predict(X), dtype=np.float64)
        if isinstance(self.uncertainty, str):
            return -np.asarray(self.estimator_.predict(X, return_std=True)[1], dtype=np.float64)
        return np.zeros(len(np.asarray(self.estimator_.predict(X))))

    def _error_model(self) -> Any:
        return clone(self._base() if self.uncertainty is None else self.uncertainty)

    def _train(self, X: Array, y: Array, routed: dict[str, Any]) -> None:
        super()._train(X, y, routed)
        folds = min(_FOLDS, len(y))
        if isinstance(self.uncertainty, str) or folds < 2:
            self.error_model_ = None
            return
        outside = cross_val_predict(self._base(), X, y, cv=folds, params=routed or None)
        self.residuals_ = np.abs(np.asarray(outside) - np.asarray(y))
        self.error_model_ = self._error_model().fit(X, self.residuals_)

    def _use_fitted(self) -> None:
        super()._use_fitted()
        if self.uncertainty is None:
            what = '`uncertainty`: "std", or a fitted regressor of the error'
            raise InputError(f'SelectiveRegressor: cv="prefit" needs {what}.')
        self.error_model_ = None if isinstance(self.uncertainty, str) else self.uncertainty
        if self.error_model_ is not None:
            check_is_fitted(self.error_model_)

    def _out_of_fold(self, X: Array, y: Array, routed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        self._train(X, y, routed)
        if self.error_model_ is None:
            outside = cross_val_predict(self._base(), X, y, cv=self.cv, params=routed or None)
            return self._loss(outside, y), self._confidence(X)
        guessed = cross_val_predict(self._error_model(), X, self.residuals_, cv=self.cv)
        return self._loss(self.residuals_, np.zeros(())), -np.asarray(guessed, dtype=np.float64)

    def _loss(self, prediction: Array, y: Array) -> np.ndarray:
        error = np.abs(np.asarray(prediction) - np.asarray(y))
        return error if self.tolerance is None else error > self.tolerance

    def _choose(self, loss: np.ndarray, confidence: np.ndarray, **options: Any) -> Threshold:
        if self.tolerance is not None:
            return super()._choose(loss, confidence)
        top = max(float(loss.max()), np.finfo(float).tiny)
        # this bound is read off the data, so the limit on the risk that it gives is none
        return replace(super()._choose(loss, confidence, bounded=(0.0, top)), risk_upper=None)


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
        X_held, y_held = X, y = _checked("CascadeClassifier", X, y)
        check_classification_targets(y)
        stages = self._stages()
        if not stages or len(dict(stages)) < len(stages):
            raise InputError("CascadeClassifier: `estimators` must be (name, classifier), each name once.")
        costs = [10.0**j for j in range(len(stages))] if self.costs is None else list(self.costs)
        if len(costs) != len(stages):
            told = f"needs {len(stages)} costs, one per stage, got {len(costs)}"
            raise InputError(f"CascadeClassifier: {told}.")
        self.estimators_ = [model for _, model in stages]
        if self.cv == "prefit":
            for model in self.estimators_:
                check_is_fitted(model)
        elif not (isinstance(self.cv, numbers.Real) and 0 < float(self.cv) < 1):
            raise InputError(
                f"CascadeClassifier: `cv` must be 'prefit' or a share in (0, 1), got {self.cv!r}."
            )
        else:
            parts = train_test_split(X, y, test_size=self.cv, random_state=self.random_state)
            X_train, X_held, y_train, y_held = parts
            self.estimators_ = [clone(model).fit(X_train, y_train) for model in self.estimators_]
        self.classes_ = np.unique(np.concatenate([model.classes_ for model in self.estimators_]))
        if self.deferred_label is not None:
            _check_label(self, "deferred_label", self.deferred_label)
        _take_over(self, self.estimators_[0])
        measured = {
            name: (model.predict(X_held) != y_held, classifier_confidence(model, X_held, self.scores), cost)
            for (name, _), model, cost in zip(stages, self.estimators_, costs)
        }
        asked: Any = {name: getattr(self, name) for name in ("risk", "delta", "promise", "person")}
        scores = dict.fromkeys(measured, str(getattr(self.scores, "__name__", self.scores)))
        self.cascade_ = cascade(measured, **asked, scores=scores, rng=self.random_state or 0)
        self.guarantee_ = self.cascade_.guarantee
        if not self.cascade_.feasible:
            told = "CascadeClassifier: every sample is left to the person, whatever `predict` says of it."
            warnings.warn(f"{told} {self.cascade_.note} {self.cascade_.advice}", AbstainWarning, stacklevel=2)
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
        who, answer = np.full(len(rows), len(self.estimators_)), np.empty(len(rows), self.classes_.dtype)
        for j, (name, model) in enumerate(zip(self.cascade_.names, self.estimators_)):
            if name in self.cascade_.asked and len(rows):
                some = X if len(rows) == len(who) else _safe_indexing(X, rows)
                answer[rows] = model.predict(some)
                taken = classifier_confidence(model, some, self.scores) >= thresholds[name]
                who[rows[taken]], rows = j, rows[~taken]
        return answer if self.cascade_.asked else np.asarray(self.estimators_[-1].predict(X)), who

    def _stages(self) -> list[tuple[str, Any]]:
        default = [("small", DummyClassifier()), ("large", LogisticRegression())]
        return default if self.estimators is None else list(self.estimators)
