"""A classifier and a regressor that say when not to trust them, and a classifier made of several.

The first two train an estimator, read a confidence off it and choose a threshold on data it was not trained on
(`Selective`). In a cascade a cheap classifier answers when it is sure, a dear one when it is not, a person the rest.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, cross_val_predict, train_test_split
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d, has_fit_parameter

from abstain import scores
from abstain._arrays import Array
from abstain.cascades import cascade
from abstain.cascades.inputs import PERSON, Promise
from abstain.errors import AbstainWarning, InfeasibleError, InputError
from abstain.thresholds import GroupThresholds, Threshold, select_threshold
from abstain.thresholds.calibration import Method
from abstain.thresholds.promise import OUT_OF_FOLD

Score = str | Callable[..., Any]
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
    """One column per class; a binary decision value d stands for the two logits -d/2 and d/2.

    Floats keep their type: a threshold knows the precision that it was calibrated in.
    """
    values = np.asarray(response)
    values = values if values.dtype.kind == "f" else values.astype(np.float64)
    return np.column_stack([-values / 2, values / 2]) if values.ndim == 1 else values


def reduce_scores(method: str, values: np.ndarray, score: Score) -> np.ndarray:
    """The chosen score of rows of probabilities or decision values."""
    if values.shape[-1] == 1:  # one class was seen in training: there is nothing to be unsure about
        return np.zeros(len(values))
    function = scores.by_name(score)
    confidence = function(probs=values) if method == "predict_proba" else function(values)
    return np.asarray(confidence, dtype=np.float64)


AUTO = "auto"  # the abstain label follows from the type of the classes
DEFAULT_WORD = "abstain"


def label_for(classifier: Any, parameter: str) -> Any:
    """The label of that constructor parameter; where it is "auto", one that no class has.

    "abstain" among words, NaN among floats, and among integers -1, or one below the least where -1 is a class.
    """
    label = getattr(classifier, parameter)
    if not (isinstance(label, str) and label == AUTO):
        return label
    classes = np.asarray(classifier.classes_)
    if classes.dtype.kind == "f":
        return np.nan
    if classes.dtype.kind == "b":
        return -1
    if classes.dtype.kind in "iu":
        return int(classes.min()) - 1 if -1 in classes else -1
    if DEFAULT_WORD in classes.tolist():
        raise InputError(
            f"{type(classifier).__name__}: `{parameter}` must be set, got a class named {DEFAULT_WORD!r}, which is "
            f"the default label. Choose a label that no answer can have."
        )
    return DEFAULT_WORD


def with_label(prediction: np.ndarray, accepted: np.ndarray, label: Any) -> np.ndarray:
    """Predictions, with a label in place of those not accepted, whatever kind of label that is."""
    instead = np.asarray(label)
    kinds = {instead.dtype.kind, prediction.dtype.kind}
    alike = len(kinds) == 1 or kinds <= set("biuf")
    return np.where(accepted, prediction if alike else prediction.astype(object), instead if alike else label)


def _check_label(classifier: Any, argument: str, label: Any) -> None:
    if label in list(classifier.classes_):
        rule = f"`{argument}` must not be one of the classes, got {label!r}"
        raise InputError(f"{type(classifier).__name__}: {rule}. Choose a label that no answer can have.")


def classifier_confidence(estimator: Any, X: Array, score: Score) -> np.ndarray:
    """One confidence per sample from a fitted classifier, higher = surer."""
    method = response_method(estimator, score)
    return reduce_scores(method, by_class(getattr(estimator, method)(X)), score)


def columns_of(method: str, values: np.ndarray, score: Score) -> dict[str, Any]:
    """Probabilities or decision values as `Threshold.accepts` takes them, so that the rule knows its score.

    A function of the user's own has no name that a rule could store, so it gives plain confidences.
    """
    if callable(score) or values.shape[-1] == 1:
        return {"confidence": reduce_scores(method, values, score)}
    return {"probs" if method == "predict_proba" else "logits": values, "score": score}


def classifier_columns(estimator: Any, X: Array, score: Score) -> dict[str, Any]:
    """What a fitted classifier says of samples, as `Threshold.accepts` takes it."""
    method = response_method(estimator, score)
    return columns_of(method, by_class(getattr(estimator, method)(X)), score)


def _indexable(X: Array) -> Any:
    return np.asarray(X) if hasattr(X, "__array__") and not hasattr(X, "shape") else X


def _checked(name: str, X: Array, y: Array) -> tuple[Any, Any]:
    """Samples that can be indexed, and one target for each."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    X, y = indexable(_indexable(X), column_or_1d(y, warn=True))
    return X, y


def _take_over(own: Any, fitted: Any) -> None:
    """What scikit-learn wants to know of the features, from an estimator that has seen them."""
    for fact in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, fact):
            setattr(own, fact, getattr(fitted, fact))


Rule = Threshold | GroupThresholds


def _for_each_threshold(rule: Rule, change: Callable[[Threshold], Threshold]) -> Rule:
    """The rule with its threshold changed, in every group where there are groups."""
    if isinstance(rule, GroupThresholds):
        return replace(rule, thresholds={group: change(t) for group, t in rule.thresholds.items()})
    return change(rule)


def out_of_fold(rule: Rule) -> Rule:
    """The rule without its promise: the predictions came from other models than the one deployed."""

    def without_promise(threshold: Threshold) -> Threshold:
        evidence = replace(threshold.evidence, out_of_fold=True)
        return replace(threshold, guarantee=None, note=OUT_OF_FOLD, evidence=evidence)

    return _for_each_threshold(rule, without_promise)


def split_off(
    n: int, clusters: np.ndarray | None, share: Any, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Places of the samples to train on, and of the share kept for calibration; clusters are not split.

    Not stratified: a stratified part would not be a draw from the population.
    """
    if clusters is None:
        train, kept = train_test_split(np.arange(n), test_size=share, random_state=random_state)
    else:
        splitter = GroupShuffleSplit(1, test_size=share, random_state=random_state)
        train, kept = next(splitter.split(np.arange(n), groups=clusters))
    return train, kept


class _Fitting(NamedTuple):
    """What `fit` got besides X and y: keyword arguments for the estimator, and labels for the promise."""

    to_estimator: dict[str, Any]
    groups: np.ndarray | None
    clusters: np.ndarray | None

    def rows(self, places: np.ndarray, n: int) -> _Fitting:
        """The part that belongs to some of the n samples."""
        routed = {
            name: _safe_indexing(value, places) if hasattr(value, "__len__") and len(value) == n else value
            for name, value in self.to_estimator.items()
        }
        groups = None if self.groups is None else self.groups[places]
        clusters = None if self.clusters is None else self.clusters[places]
        return _Fitting(routed, groups, clusters)

    def folds(self, number: int, X: Array, y: Array) -> Any:
        """What `cross_val_predict` takes as `cv`: samples of one cluster are never on both sides of a split."""
        if self.clusters is None:
            return number
        return list(GroupKFold(number).split(X, y, self.clusters))


class Selective(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator, a confidence, and a threshold chosen on data the estimator was not trained on.

    A subclass has `_confidence(X)`, `_loss(prediction, y)` and `_out_of_fold(X, y, fitting)`, which trains and gives
    losses and confidences of predictions for folds left out.
    """

    threshold_: Rule
    estimator_: Any
    _default: Any  # the estimator when none is given
    _label_parameter: str  # its name in the constructor

    def _fit(self, X: Array, y: Array, groups: Array | None, clusters: Array | None, params: Any) -> None:
        """Train the estimator and choose the threshold, as `cv` says."""
        name = type(self).__name__
        if (self.risk is None) == (self.coverage is None):
            raise InputError(f"{name}: give exactly one of `risk` and `coverage`.")
        X, y = _checked(name, X, y)
        fitting = _Fitting(
            to_estimator=self._for_estimator(params, groups, clusters),
            groups=_per_sample(name, "groups", groups, len(y)),
            clusters=_per_sample(name, "clusters", clusters, len(y)),
        )
        calibration = fitting
        if self._kind() == "prefit":
            self._use_fitted()
            loss, columns = self._calibrate(X, y)
        elif self._kind() == "folds":
            loss, columns = self._out_of_fold(X, y, fitting)
        else:
            train, kept = split_off(len(y), fitting.clusters, self.cv, self.random_state)
            self._train(_safe_indexing(X, train), y[train], fitting.rows(train, len(y)))
            loss, columns = self._calibrate(_safe_indexing(X, kept), y[kept])
            calibration = fitting.rows(kept, len(y))
        _take_over(self, self.estimator_)
        labels = {"groups": calibration.groups, "clusters": calibration.clusters}
        self.threshold_ = self._choose(loss, columns, **labels)
        self._warn_where_infeasible()

    def _warn_where_infeasible(self) -> None:
        rule = self.threshold_
        if rule.feasible:
            return
        name = type(self).__name__
        if isinstance(rule, GroupThresholds):
            missing = [str(group) for group, threshold in rule.thresholds.items() if not threshold.feasible]
            where = ", ".join(missing)
            message = (
                f"{name}: no threshold could be certified in {where}, so nothing will be accepted there."
            )
        else:
            message = (
                f"{name}: no threshold could be certified, so nothing will be accepted. {rule.note or ''}"
            )
            message = f"{message} {rule.advice or ''}".strip()
        warnings.warn(message, AbstainWarning, stacklevel=4)

    def confidence(self, X: Array) -> np.ndarray:
        """One confidence per sample, higher = surer: what the threshold is compared with."""
        check_is_fitted(self, "threshold_")
        return self._confidence(X)

    def predict_all(self, X: Array) -> np.ndarray:
        """The prediction for every sample, accepted or not."""
        check_is_fitted(self, "threshold_")
        return np.asarray(self.estimator_.predict(X))

    def predict_selective(self, X: Array, groups: Array | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The prediction for every sample, and which of them to accept."""
        accepted = self.accepts(X, groups)
        return self.predict_all(X), accepted

    def accepts(self, X: Array, groups: Array | None = None) -> np.ndarray:
        """Which predictions to accept; `groups`, one per sample, where `fit` got them too."""
        check_is_fitted(self, "threshold_")
        columns = self._columns(X)
        if isinstance(self.threshold_, GroupThresholds):
            if groups is None:
                rule = "needs `groups`, one per sample, as `fit` got them, got None"
                raise InputError(f"{type(self).__name__}: {rule}.")
            return self.threshold_.accepts(**columns, groups=groups)
        if groups is not None:
            raise InputError(f"{type(self).__name__}: takes `groups` only where `fit` got them, got some.")
        return self.threshold_.accepts(**columns)

    def _predict(self, X: Array, label: Any, groups: Array | None) -> np.ndarray:
        """The prediction, and the abstain label where it is not accepted; without a label, every prediction."""
        check_is_fitted(self, "threshold_")
        label = self._abstain_label() if label is None else label
        if label is not None:
            self._check_label(label)
            return with_label(*self.predict_selective(X, groups), label)
        if not self.threshold_.feasible:
            raise InfeasibleError(
                f"{type(self).__name__}.predict: no threshold could be certified, so nothing is accepted, and "
                f"`{self._label_parameter}` is None. Set it to say so in the answer, or use `predict_all`."
            )
        return self.predict_all(X)

    @property
    def guarantee_(self) -> str | None:
        """What the threshold promises, in words, or None."""
        check_is_fitted(self, "threshold_")
        return self.threshold_.guarantee

    def get_metadata_routing(self) -> Any:
        """`fit` reads `groups` and `clusters` itself and hands other metadata to the estimator's `fit`."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self._base(), method_mapping=to_fit)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._base())
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags.multi_output = False
        tags.target_tags.single_output = True
        return tags

    def _base(self) -> Any:
        return self._default() if self.estimator is None else self.estimator

    def _abstain_label(self) -> Any:
        """What stands for a rejected sample; None: nothing does, and every sample is answered."""
        return getattr(self, self._label_parameter)

    def _check_label(self, label: Any) -> None:
        if np.ndim(label):
            raise InputError(
                f"{type(self).__name__}: `{self._label_parameter}` must be one label, got {label!r}."
            )

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

    def _columns(self, X: Array) -> dict[str, Any]:
        """Confidences of samples, as `Threshold.accepts` takes them."""
        return {"confidence": self._confidence(X)}

    def _choose(self, loss: np.ndarray, columns: dict[str, Any], **options: Any) -> Rule:
        goal = {"risk": self.risk, "coverage": self.coverage, "delta": self.delta, "method": self.method}
        class_scores = {name: values for name, values in columns.items() if name != "confidence"}
        confidence = columns.get("confidence")
        rule: Rule = select_threshold(loss, confidence, **class_scores, **goal, **options)
        return out_of_fold(rule) if self._kind() == "folds" else rule

    def _calibrate(self, X: Array, y: Array) -> tuple[np.ndarray, dict[str, Any]]:
        return self._loss(self.estimator_.predict(X), y), self._columns(X)

    def _train(self, X: Array, y: Array, fitting: _Fitting) -> None:
        self.estimator_ = clone(self._base()).fit(X, y, **fitting.to_estimator)

    def _use_fitted(self) -> None:
        check_is_fitted(self._base())
        self.estimator_ = self.estimator

    def _for_estimator(
        self, params: dict[str, Any], groups: Array | None, clusters: Array | None
    ) -> dict[str, Any]:
        """Keyword arguments for the estimator's own `fit`, by metadata routing where that is switched on.

        `groups` and `clusters` are among them only if the estimator asks for them.
        """
        base = self._base()
        labels = {"groups": groups, "clusters": clusters}
        labels = {name: value for name, value in labels.items() if value is not None}
        if get_config()["enable_metadata_routing"]:
            consumed = get_routing_for_object(base).consumes("fit", labels.keys())
            params = params | {name: labels[name] for name in consumed}
            return dict(process_routing(self, "fit", **params).estimator.fit)
        params = {name: value for name, value in params.items() if value is not None}
        if "sample_weight" in params and not has_fit_parameter(base, "sample_weight"):
            raise TypeError(f"{type(base).__name__}.fit takes no sample_weight.")
        return params | {name: value for name, value in labels.items() if has_fit_parameter(base, name)}


def _per_sample(name: str, argument: str, values: Array | None, n: int) -> np.ndarray | None:
    if values is None:
        return None
    labels = np.asarray(values)
    if labels.shape != (n,):
        raise InputError(
            f"{name}: `{argument}` must hold one label for each of {n} samples, got shape {labels.shape}."
        )
    return labels


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
    abstain_label : label, "auto" or None
        What `predict` says for a rejected sample; no class may have this name. "auto": -1 where classes are integers
        (one below the smallest class where -1 is one of them), "abstain" where they are words, NaN where they are
        floats. None: `predict` answers always, and refuses to where no threshold could be certified. Another label
        may be given to `predict(X, abstain_label=...)`, inside a Pipeline too. `predict_all(X)` answers always.
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
    >>> bool((clf.predict(X[:500])[~accepted] == -1).all())
    True
    """

    _default = LogisticRegression
    _label_parameter = "abstain_label"

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
        abstain_label: Any = AUTO,
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
        return {**super().get_params(deep), "score": self.__dict__["score"]}

    def fit(
        self, X: Array, y: Array, *, groups: Array | None = None, clusters: Array | None = None, **params: Any
    ) -> SelectiveClassifier:
        """Train the classifier and choose the threshold on data it was not trained on (see `cv`).

        groups: one label per sample, for a threshold and a promise in each group; `predict` then needs them too.
        clusters: one label per sample, for a promise over whole clusters; no cluster is split between training and
        calibration. Other keyword arguments go to the classifier's own `fit`.
        """
        if y is not None:
            check_classification_targets(y)
        self._fit(X, y, groups, clusters, params)
        self.classes_ = self.estimator_.classes_
        if self.abstain_label_ is not None:
            self._check_label(self.abstain_label_)
        return self

    @property
    def abstain_label_(self) -> Any:
        """What `predict` says for a rejected sample; None: it answers always."""
        check_is_fitted(self, "threshold_")
        return label_for(self, "abstain_label")

    def predict(self, X: Array, abstain_label: Any = None, groups: Array | None = None) -> np.ndarray:
        """The predicted class; `abstain_label` (here, or of the constructor) where it is not accepted.

        In a Pipeline: `pipeline.predict(X, abstain_label="ask")`.
        """
        return self._predict(X, abstain_label, groups)

    def _abstain_label(self) -> Any:
        return self.abstain_label_

    def _check_label(self, label: Any) -> None:
        super()._check_label(label)
        _check_label(self, self._label_parameter, label)

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
    def score(
        self, X: Array, y: Array, sample_weight: Array | None = None, groups: Array | None = None
    ) -> float:
        """Accuracy of the accepted, 0 when nothing is accepted; higher is better.

        A threshold that accepts little makes this high: choose models by `aurc_scorer`, not by this.
        """
        prediction, accepted = self.predict_selective(X, groups)
        weight = accepted * (1.0 if sample_weight is None else np.asarray(sample_weight, np.float64))
        right = prediction == np.asarray(y)
        return float(np.average(right, weights=weight)) if weight.sum() > 0 else 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags

    def _confidence(self, X: Array) -> np.ndarray:
        return classifier_confidence(self.estimator_, X, self.__dict__["score"])

    def _columns(self, X: Array) -> dict[str, Any]:
        return classifier_columns(self.estimator_, X, self.__dict__["score"])

    def _loss(self, prediction: Array, y: Array) -> np.ndarray:
        return np.asarray(prediction) != np.asarray(y)

    def _out_of_fold(self, X: Array, y: Array, fitting: _Fitting) -> tuple[np.ndarray, dict[str, Any]]:
        self._train(X, y, fitting)
        score = self.__dict__["score"]
        method = response_method(self.estimator_, score)
        folds = fitting.folds(self.cv, X, y)
        response = cross_val_predict(
            self._base(), X, y, cv=folds, method=method, params=fitting.to_estimator or None
        )
        values = by_class(response)
        predicted = np.unique(np.asarray(y))[np.argmax(values, axis=1)]
        return self._loss(predicted, y), columns_of(method, values, score)


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
    abstain_label : float or None
        What `predict` says for a rejected sample: NaN unless stated, here or in `predict(X, abstain_label=...)`.
        None: `predict` answers always, and refuses to where no threshold could be certified. `predict_all(X)` answers
        always.

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

    _default = LinearRegression
    _label_parameter = "abstain_label"

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
        abstain_label: float | None = np.nan,
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
        self.abstain_label = abstain_label
        self.random_state = random_state

    def fit(
        self, X: Array, y: Array, *, groups: Array | None = None, clusters: Array | None = None, **params: Any
    ) -> SelectiveRegressor:
        """Train the regressor and its error model, choose the threshold on data neither was trained on.

        `groups` and `clusters` as in `SelectiveClassifier.fit`.
        """
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
        self._fit(X, y, groups, clusters, params)
        return self

    def predict(
        self, X: Array, abstain_label: float | None = None, groups: Array | None = None
    ) -> np.ndarray:
        """The prediction; `abstain_label` (here, or of the constructor) where it is not accepted."""
        return self._predict(X, abstain_label, groups)

    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """R squared of all predictions, accepted or not; higher is better."""
        return float(r2_score(y, self.predict_all(X), sample_weight=sample_weight))

    def _confidence(self, X: Array) -> np.ndarray:
        """Minus the expected absolute error."""
        if self.error_model_ is not None:
            return -np.asarray(self.error_model_.predict(X), dtype=np.float64)
        if isinstance(self.uncertainty, str):
            return -np.asarray(self.estimator_.predict(X, return_std=True)[1], dtype=np.float64)
        return np.zeros(len(np.asarray(self.estimator_.predict(X))))

    def _error_model(self) -> Any:
        return clone(self._base() if self.uncertainty is None else self.uncertainty)

    def _train(self, X: Array, y: Array, fitting: _Fitting) -> None:
        super()._train(X, y, fitting)
        number = min(_FOLDS, len(y if fitting.clusters is None else np.unique(fitting.clusters)))
        if isinstance(self.uncertainty, str) or number < 2:
            self.error_model_ = None
            return
        folds = fitting.folds(number, X, y)
        outside = cross_val_predict(self._base(), X, y, cv=folds, params=fitting.to_estimator or None)
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

    def _out_of_fold(self, X: Array, y: Array, fitting: _Fitting) -> tuple[np.ndarray, dict[str, Any]]:
        self._train(X, y, fitting)
        folds = fitting.folds(self.cv, X, y)
        if self.error_model_ is None:
            outside = cross_val_predict(self._base(), X, y, cv=folds, params=fitting.to_estimator or None)
            return self._loss(outside, y), self._columns(X)
        expected_error = cross_val_predict(self._error_model(), X, self.residuals_, cv=folds)
        confidence = -np.asarray(expected_error, dtype=np.float64)
        return self._loss(self.residuals_, np.zeros(())), {"confidence": confidence}

    def _loss(self, prediction: Array, y: Array) -> np.ndarray:
        error = np.abs(np.asarray(prediction) - np.asarray(y))
        return error if self.tolerance is None else error > self.tolerance

    def _choose(self, loss: np.ndarray, columns: dict[str, Any], **options: Any) -> Rule:
        if self.tolerance is not None:
            return super()._choose(loss, columns, **options)
        largest = max(float(loss.max()), np.finfo(float).tiny)
        rule = super()._choose(loss, columns, bounded=(0.0, largest), **options)
        # the bound on the loss was read off the data, so the limit on the risk that follows from it does not hold
        return _for_each_threshold(rule, lambda threshold: replace(threshold, risk_upper=None))


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
    abstain_label : label, "auto" or None
        What `predict` says for a sample that is left to the person; no class may have this name. "auto" as
        `abstain_label` of `SelectiveClassifier`. None: what the last classifier says, as `predict_all(X)` does.
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
        abstain_label: Any = AUTO,
        random_state: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.costs = costs
        self.risk = risk
        self.delta = delta
        self.promise = promise
        self.person = person
        self.scores = scores
        self.cv = cv
        self.abstain_label = abstain_label
        self.random_state = random_state

    def fit(
        self, X: Array, y: Array, *, groups: Array | None = None, clusters: Array | None = None
    ) -> CascadeClassifier:
        """Train the classifiers and choose the thresholds on data they were not trained on.

        groups: one label per sample; the promise then holds in every group. clusters: one label per sample, for a
        promise over whole clusters; no cluster is split between training and calibration.
        """
        X, y = _checked("CascadeClassifier", X, y)
        check_classification_targets(y)
        groups = _per_sample("CascadeClassifier", "groups", groups, len(y))
        clusters = _per_sample("CascadeClassifier", "clusters", clusters, len(y))
        stages = self._stages()
        if not stages or len(dict(stages)) < len(stages):
            raise InputError("CascadeClassifier: `estimators` must be (name, classifier), each name once.")
        costs = [10.0**j for j in range(len(stages))] if self.costs is None else list(self.costs)
        if len(costs) != len(stages):
            told = f"needs {len(stages)} costs, one per stage, got {len(costs)}"
            raise InputError(f"CascadeClassifier: {told}.")
        self.estimators_ = [model for _, model in stages]
        kept = np.arange(len(y))
        if self.cv == "prefit":
            for model in self.estimators_:
                check_is_fitted(model)
        elif not (isinstance(self.cv, numbers.Real) and 0 < float(self.cv) < 1):
            raise InputError(
                f"CascadeClassifier: `cv` must be 'prefit' or a share in (0, 1), got {self.cv!r}."
            )
        else:
            train, kept = split_off(len(y), clusters, self.cv, self.random_state)
            X_train = _safe_indexing(X, train)
            self.estimators_ = [clone(model).fit(X_train, y[train]) for model in self.estimators_]
        self.classes_ = np.unique(np.concatenate([model.classes_ for model in self.estimators_]))
        if label_for(self, "abstain_label") is not None:
            _check_label(self, "abstain_label", label_for(self, "abstain_label"))
        _take_over(self, self.estimators_[0])
        X_kept = _safe_indexing(X, kept)
        outcomes: dict[str, Any] = {}
        for (name, _), model, cost in zip(stages, self.estimators_, costs):
            loss = model.predict(X_kept) != y[kept]
            columns = classifier_columns(model, X_kept, self.scores)
            if "confidence" in columns:
                outcomes[name] = (loss, columns["confidence"], cost)
            else:
                outcomes[name] = {**columns, "loss": loss, "cost": cost}
        goal: Any = {name: getattr(self, name) for name in ("risk", "delta", "promise", "person")}
        self.cascade_ = cascade(
            outcomes,
            **goal,
            groups=None if groups is None else groups[kept],
            clusters=None if clusters is None else clusters[kept],
            rng=self.random_state or 0,
        )
        self.guarantee_ = self.cascade_.guarantee
        if not self.cascade_.feasible:
            message = "CascadeClassifier: every sample is left to the person."
            warnings.warn(
                f"{message} {self.cascade_.note} {self.cascade_.advice}", AbstainWarning, stacklevel=2
            )
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
        """The answer; for samples that are left to the person, `abstain_label_`."""
        answer, answered = self.predict_selective(X)
        label = self.abstain_label_
        return answer if label is None else with_label(answer, answered, label)

    @property
    def abstain_label_(self) -> Any:
        """What `predict` says for a sample that is left to the person; None: what the last classifier says."""
        check_is_fitted(self, "cascade_")
        return label_for(self, "abstain_label")

    def predict_all(self, X: Array) -> np.ndarray:
        """An answer for every sample: that of the last classifier asked, where the person is to answer."""
        return self.predict_selective(X)[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._stages()[-1][1]).input_tags
        tags.classifier_tags.multi_label = False
        return tags

    def _ask(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """What the last classifier asked says of each sample, and the place of the one that answers."""
        check_is_fitted(self, "cascade_")
        X = _indexable(X)
        rows = np.arange(_num_samples(X))
        who, answer = np.full(len(rows), len(self.estimators_)), np.empty(len(rows), self.classes_.dtype)
        for j, (name, model) in enumerate(zip(self.cascade_.names, self.estimators_)):
            if name in self.cascade_.stages_in_use and len(rows):
                some = X if len(rows) == len(who) else _safe_indexing(X, rows)
                answer[rows] = model.predict(some)
                taken = self.cascade_.answers(name, **classifier_columns(model, some, self.scores))
                who[rows[taken]], rows = j, rows[~taken]
        return answer if self.cascade_.stages_in_use else np.asarray(self.estimators_[-1].predict(X)), who

    def _stages(self) -> list[tuple[str, Any]]:
        default = [("small", DummyClassifier()), ("large", LogisticRegression())]
        return default if self.estimators is None else list(self.estimators)
