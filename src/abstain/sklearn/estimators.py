"""A classifier and a regressor that say when not to trust them."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter

from abstain import scores
from abstain._arrays import Array
from abstain.errors import InputError
from abstain.thresholds import Threshold, select_threshold
from abstain.thresholds.select import Method

# score name ---------------------------------------------------------------------------------------
#
# `score` is two things here: the constructor's choice of confidence, and scikit-learn's method of that name.
#
# An attribute set in the constructor would hide the method, so this descriptor keeps the choice in the instance's own
# dictionary (where scikit-learn looks for parameters, through `get_params`) and answers `est.score` with the method.


class ScoreParameter:
    """Reads as the method, writes as the parameter."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.method if instance is None else self.method.__get__(instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__["score"] = value


# confidence ---------------------------------------------------------------------------------------
#
# One confidence per sample from a fitted scikit-learn classifier.


Score = str | Callable[..., Any]


def kind_of(estimator: Any, wanted: tuple[str, ...]) -> str:
    """ "probs" where the estimator has probabilities and the score reads them, else "logits" (decision values)."""
    if "probs" in wanted and hasattr(estimator, "predict_proba"):
        return "probs"
    if "logits" in wanted and hasattr(estimator, "decision_function"):
        return "logits"
    has = "predict_proba" if "probs" in wanted else "decision_function"
    raise InputError(
        f"confidence: `estimator` must have {has} for this score, got {type(estimator).__name__}. "
        f"Wrap it in sklearn.calibration.CalibratedClassifierCV, or choose another score."
    )


def class_scores(estimator: Any, X: Array, kind: str) -> np.ndarray:
    """Probabilities or decision values; a binary decision value d stands for the two logits 0 and d."""
    if kind == "probs":
        return np.asarray(estimator.predict_proba(X), dtype=np.float64)
    values = np.asarray(estimator.decision_function(X), dtype=np.float64)
    return np.column_stack([np.zeros_like(values), values]) if values.ndim == 1 else values


def reduce_scores(kind: str, values: np.ndarray, score: Score) -> np.ndarray:
    """The chosen score of rows of probabilities or logits."""
    function = scores.by_name(score)
    if values.shape[-1] == 1:  # one class was seen in training: there is nothing to be unsure about
        return np.zeros(len(values))
    result = function(probs=values) if kind == "probs" else function(values)
    return np.asarray(result, dtype=np.float64)


def classifier_confidence(estimator: Any, X: Array, score: Score) -> np.ndarray:
    """Higher = surer."""
    kind = kind_of(estimator, scores.by_name(score).takes)
    return reduce_scores(kind, class_scores(estimator, X, kind), score)


# selective ----------------------------------------------------------------------------------------
#
# What the selective classifier and regressor share: splitting, calibrating, accepting.


CROSS_NOTE = (
    "Calibrated on out-of-fold predictions: each came from a model other than the one deployed (trained on a part of "
    "the data), so no guarantee carries over. For one, hold out data (cv=0.25) or calibrate a fitted model "
    "(cv='prefit')."
)


class Selective(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator, a confidence, and a threshold chosen on data the estimator was not trained on."""

    threshold_: Threshold
    estimator_: Any

    def fit(self, X: Array, y: Array, **params: Any) -> Any:
        """Train the estimator and choose the threshold.

        cv="prefit": the estimator is fitted already, (X, y) are calibration data. cv=0.25: that share is held out of
        training for calibration. cv=5: out-of-fold predictions calibrate, without a guarantee.
        """
        name = type(self).__name__
        if (self.risk is None) == (self.coverage is None):
            raise InputError(f"{name}: give exactly one of `risk` and `coverage`.")
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        y = column_or_1d(y, warn=True)
        if hasattr(X, "__array__") and not hasattr(X, "shape"):
            X = np.asarray(X)  # something array-like that cannot be indexed
        routed = self._routed(params)
        if self._kind() == "prefit":
            self._use_fitted()
            loss, confidence = self._calibrate(X, y)
        elif self._kind() == "folds":
            loss, confidence = self._out_of_fold(X, y, routed)
        else:
            loss, confidence = self._held_out(X, y, routed)
        self._copy_facts()
        self.threshold_ = self._choose(loss, confidence)
        return self

    def _kind(self) -> str:
        """What `cv` asks for: "prefit", "share" or "folds"."""
        cv: Any = self.cv
        if isinstance(cv, str) and cv == "prefit":
            return "prefit"
        if isinstance(cv, numbers.Integral) and cv is not True and int(cv) >= 2:
            return "folds"
        if isinstance(cv, numbers.Real) and 0 < float(cv) < 1:
            return "share"
        raise InputError(
            f"{type(self).__name__}: `cv` must be 'prefit', a share in (0, 1) or at least 2 folds, got {cv!r}."
        )

    def _choose(self, loss: np.ndarray, confidence: np.ndarray) -> Threshold:
        chosen: Threshold = select_threshold(
            loss, confidence, risk=self.risk, coverage=self.coverage, delta=self.delta, method=self.method
        )
        if self._kind() == "folds":
            return replace(chosen, guarantee=None, note=CROSS_NOTE)
        return chosen

    def _held_out(self, X: Array, y: Array, routed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """A plain random split: a stratified one would not be a draw from the population."""
        n = len(y)
        aligned = {k: v for k, v in routed.items() if hasattr(v, "__len__") and len(v) == n}
        parts = train_test_split(X, y, *aligned.values(), test_size=self.cv, random_state=self.random_state)
        X_train, X_held, y_train, y_held = parts[:4]
        train_params = {**routed, **dict(zip(aligned, parts[4::2]))}
        self._train(X_train, y_train, train_params)
        return self._calibrate(X_held, y_held)

    def _train(self, X: Array, y: Array, routed: dict[str, Any]) -> None:
        self.estimator_ = clone(self._base()).fit(X, y, **routed)

    def _use_fitted(self) -> None:
        check_is_fitted(self._base())
        self.estimator_ = self.estimator

    def _base(self) -> Any:
        raise NotImplementedError

    def _calibrate(self, X: Array, y: Array) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _out_of_fold(self, X: Array, y: Array, routed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _copy_facts(self) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _routed(self, params: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments of `fit` for the estimator: by metadata routing, or handed on as they are."""
        from sklearn import get_config

        if get_config()["enable_metadata_routing"]:
            fit: dict[str, Any] = process_routing(self, "fit", **params).estimator.fit
            return fit
        given = {k: v for k, v in params.items() if v is not None}
        if "sample_weight" in given and not has_fit_parameter(self._base(), "sample_weight"):
            raise TypeError(f"{type(self._base()).__name__}.fit takes no sample_weight.")
        return given

    def get_metadata_routing(self) -> Any:
        """`fit` hands its metadata to the estimator's `fit`."""
        return MetadataRouter(owner=type(self).__name__).add(
            estimator=self._base(), method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )

    @property
    def guarantee_(self) -> str | None:
        """What the threshold promises, in words, or None."""
        check_is_fitted(self, "threshold_")
        return self.threshold_.guarantee


# classifier ---------------------------------------------------------------------------------------
#
# A classifier that says when not to trust it.


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


# regressor ----------------------------------------------------------------------------------------
#
# A regressor that says when not to trust it.


_FOLDS = 5


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
        What `predict` says for a rejected sample (NaN, say); without it `predict` never abstains.

    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(600, 5, noise=10.0, random_state=0)
    >>> reg = SelectiveRegressor(coverage=0.5, cv=0.5, random_state=0).fit(X, y)
    >>> value, accepted = reg.predict_selective(X)
    >>> bool(0.4 < accepted.mean() < 0.75)
    True
    """

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
        self.estimator = estimator
        self.uncertainty = uncertainty
        self.tolerance = tolerance
        self.risk = risk
        self.coverage = coverage
        self.delta = delta
        self.method = method
        self.cv = cv
        self.abstain_value = abstain_value
        self.random_state = random_state

    def _base(self) -> Any:
        return LinearRegression() if self.estimator is None else self.estimator

    def fit(self, X: Array, y: Array, **params: Any) -> SelectiveRegressor:
        """Train the regressor and its error model, choose the threshold on data neither was trained on."""
        if self.risk is not None and self.tolerance is None:
            raise InputError(
                "SelectiveRegressor: `risk` needs `tolerance`, the error from which an answer counts as wrong: an "
                "error without a bound carries no guarantee. Or ask for `coverage`."
            )
        known = self.uncertainty is None or self.uncertainty == "std" or hasattr(self.uncertainty, "predict")
        if not known:
            raise InputError(
                f'SelectiveRegressor: `uncertainty` must be None, "std" or a regressor, got {self.uncertainty!r}.'
            )
        if y is not None:
            y = np.asarray(y)
            y = y.astype(np.float64) if y.dtype.kind == "O" else y
        super().fit(X, y, **params)
        return self

    def _error_model(self) -> Any:
        return clone(self._base() if self.uncertainty is None else self.uncertainty)

    def _train(self, X: Array, y: Array, routed: dict[str, Any]) -> None:
        super()._train(X, y, routed)
        if isinstance(self.uncertainty, str):
            self.error_model_ = None
            return
        folds = min(_FOLDS, len(y))
        if folds < 2:
            self.error_model_ = None
            return
        outside = cross_val_predict(self._base(), X, y, cv=folds, params=routed or None)
        self.residuals_ = np.abs(np.asarray(outside) - np.asarray(y))
        self.error_model_ = self._error_model().fit(X, self.residuals_)

    def _use_fitted(self) -> None:
        super()._use_fitted()
        if self.uncertainty is None:
            raise InputError(
                'SelectiveRegressor: cv="prefit" needs `uncertainty`: "std", or a fitted regressor of the error.'
            )
        if not isinstance(self.uncertainty, str):
            check_is_fitted(self.uncertainty)
        self.error_model_ = None if isinstance(self.uncertainty, str) else self.uncertainty

    def _calibrate(self, X: Array, y: Array) -> tuple[np.ndarray, np.ndarray]:
        error = np.abs(np.asarray(self.estimator_.predict(X)) - np.asarray(y))
        return self._loss(error), self._confidence(X)

    def _out_of_fold(self, X: Array, y: Array, routed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        self._train(X, y, routed)
        if self.error_model_ is None:
            outside = cross_val_predict(self._base(), X, y, cv=self.cv, params=routed or None)
            return self._loss(np.abs(np.asarray(outside) - np.asarray(y))), self._confidence(X)
        guessed = cross_val_predict(self._error_model(), X, self.residuals_, cv=self.cv)
        return self._loss(self.residuals_), -np.asarray(guessed, dtype=np.float64)

    def _loss(self, error: np.ndarray) -> np.ndarray:
        return error if self.tolerance is None else error > self.tolerance

    def _choose(self, loss: np.ndarray, confidence: np.ndarray) -> Threshold:
        if self.tolerance is not None:
            return super()._choose(loss, confidence)
        top = max(float(loss.max()), np.finfo(float).tiny)
        found: Threshold = select_threshold(
            loss, confidence, coverage=self.coverage, delta=self.delta, method=self.method, bounded=(0.0, top)
        )
        # the bound was read off the data, so the limit it gives is none
        if self._kind() == "folds":
            return replace(found, risk_upper=None, guarantee=None, note=CROSS_NOTE)
        return replace(found, risk_upper=None)

    def _confidence(self, X: Array) -> np.ndarray:
        if self.error_model_ is None:
            if not isinstance(self.uncertainty, str):
                return np.zeros(len(np.asarray(self.estimator_.predict(X))))
            return -np.asarray(self.estimator_.predict(X, return_std=True)[1], dtype=np.float64)
        return -np.asarray(self.error_model_.predict(X), dtype=np.float64)

    def confidence(self, X: Array) -> np.ndarray:
        """Minus the expected absolute error: higher = surer."""
        check_is_fitted(self, "threshold_")
        return self._confidence(X)

    def predict_selective(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """The prediction for every sample, and which of them to accept."""
        accepted = self.threshold_.accepts(self.confidence(X))
        return np.asarray(self.estimator_.predict(X)), accepted

    def predict(self, X: Array) -> np.ndarray:
        """The prediction; `abstain_value` where it is not accepted, if one was set."""
        check_is_fitted(self, "threshold_")
        if self.abstain_value is None:
            return np.asarray(self.estimator_.predict(X))
        value, accepted = self.predict_selective(X)
        return np.where(accepted, value, self.abstain_value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._base())
        tags.input_tags = inner.input_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags.multi_output = False
        tags.target_tags.single_output = True
        return tags
