"""A classifier and a regressor that may abstain, and a cascade of classifiers.

The first two train an estimator, compute a confidence from it, and choose a threshold on data it was not trained on
(`Selective`). In a cascade a cheap classifier answers when it is confident, an expensive one when the cheap one is not,
and a person otherwise.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
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
from abstain._arrays import Array, ArrayLike
from abstain.cascades import cascade
from abstain.cascades.inputs import PERSON, Promise
from abstain.confidence import LearnedConfidence, learn_confidence
from abstain.errors import AbstainWarning, InfeasibleError, InputError
from abstain.thresholds import (
    GroupThresholds,
    JointGroupThresholds,
    JointThreshold,
    Threshold,
    select_threshold,
)
from abstain.thresholds.advice import Advice
from abstain.thresholds.calibration import Method
from abstain.thresholds.promise import OUT_OF_FOLD

Score = str | Callable[..., Any]
LEARNED = "learned"  # the score that `learn_confidence` makes of the classifier's own class scores
# on this share of the calibration data a confidence is learned; the others certify the threshold
_SHARE_TO_LEARN = 0.5
_RESIDUAL_FOLDS = 5  # out-of-fold residuals, on which the regressor's error model is trained


class ScoreParameter:
    """Lets `score` be both a constructor parameter (the confidence) and scikit-learn's method of that name.

    An attribute set in the constructor would hide the method. This descriptor stores the parameter in the instance's
    dictionary, from which `get_params` reads it, while `instance.score` is the method.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.method if instance is None else self.method.__get__(instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__["score"] = value


def response_method(estimator: Any, score: Score) -> str:
    """Choose the method of the estimator from which to compute the confidence score.

    `score` is a name in `abstain.scores` or a function. Returns "predict_proba" if the estimator has it and the score
    takes probabilities, otherwise "decision_function". Raises InputError if the estimator has no method that the score
    can use.
    """
    # "probs", "logits" or both; a user's own function takes both
    inputs_of_score = scores.by_name(score).takes
    if "probs" in inputs_of_score and hasattr(estimator, "predict_proba"):
        return "predict_proba"
    if "logits" in inputs_of_score and hasattr(estimator, "decision_function"):
        return "decision_function"
    needed_method = "predict_proba" if "probs" in inputs_of_score else "decision_function"
    raise InputError(
        f"confidence: `estimator` must have {needed_method} for this score, got {type(estimator).__name__}. "
        f"Wrap it in sklearn.calibration.CalibratedClassifierCV, or choose another score."
    )


def as_class_columns(response: ArrayLike) -> np.ndarray:
    """Convert what an estimator returned to one column per class.

    A binary decision value d becomes the two logits -d/2 and d/2. Floats keep their dtype: a threshold stores the
    precision that it was calibrated in.
    """
    values = np.asarray(response)
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    return np.column_stack([-values / 2, values / 2]) if values.ndim == 1 else values


def compute_confidence(method: str, class_columns: np.ndarray, score: Score) -> np.ndarray:
    """Compute one confidence per row of probabilities ("predict_proba") or decision values ("decision_function")."""
    if class_columns.shape[-1] == 1:  # training data had one class only: all samples are equally confident
        return np.zeros(len(class_columns))
    score_function = scores.by_name(score)
    if method == "predict_proba":
        confidence = score_function(probs=class_columns)
    else:
        confidence = score_function(class_columns)
    return np.asarray(confidence, dtype=np.float64)


AUTO = "auto"  # choose an abstain label that fits the type of the classes
DEFAULT_WORD = "abstain"


def resolve_abstain_label(classifier: Any) -> Any:
    """Return the label that the fitted classifier gives to rejected samples; if it is "auto", one that no class has.

    "auto" is "abstain" for classes that are words, NaN for floats, -1 for booleans, and -1 for integers (one below the
    smallest class if -1 is a class). Raises InputError if it is "auto" and a class is called "abstain".
    """
    label = classifier.abstain_label
    if not (isinstance(label, str) and label == AUTO):
        return label
    classes = np.asarray(classifier.classes_)
    # of numpy: "f" floats, "b" booleans, "i" and "u" integers; all others are words here
    kind = classes.dtype.kind
    if kind == "f":
        return np.nan
    if kind == "b":
        return -1
    if kind in "iu":
        return int(classes.min()) - 1 if -1 in classes else -1
    if DEFAULT_WORD in classes.tolist():
        raise InputError(
            f"{type(classifier).__name__}: `abstain_label` must be set, got a class named {DEFAULT_WORD!r}, which is "
            f"the default label. Choose a label that no answer can have."
        )
    return DEFAULT_WORD


def replace_rejected(prediction: np.ndarray, accepted: np.ndarray, label: Any) -> np.ndarray:
    """Return the predictions with `label` in place of those that are not accepted.

    The result is an array of objects if the label's type does not fit that of the predictions.
    """
    label_array = np.asarray(label)
    kinds = {label_array.dtype.kind, prediction.dtype.kind}
    has_common_type = len(kinds) == 1 or kinds <= set("biuf")  # booleans, integers and floats mix
    if has_common_type:
        return np.where(accepted, prediction, label_array)
    return np.where(accepted, prediction.astype(object), label)


def _check_label_is_no_class(classifier: Any, label: Any) -> None:
    """Raise InputError if the abstain label is one of the classes."""
    if label in list(classifier.classes_):
        rule = f"`abstain_label` must not be one of the classes, got {label!r}"
        raise InputError(f"{type(classifier).__name__}: {rule}. Choose a label that no answer can have.")


def classifier_confidence(estimator: Any, X: ArrayLike, score: Score) -> np.ndarray:
    """Compute one confidence per sample from a fitted classifier, higher = surer."""
    method = response_method(estimator, score)
    return compute_confidence(method, as_class_columns(getattr(estimator, method)(X)), score)


def confidence_arguments(method: str, class_columns: np.ndarray, score: Score) -> dict[str, Any]:
    """Return probabilities or decision values as keyword arguments of `Threshold.accepts`.

    `method` is the estimator's method that returned `class_columns` (one row per sample, one column per class). They
    are returned as "probs" or "logits" with the name of the score, so that the rule can store which score it uses. A
    user's own function has no name to store, so confidences are returned instead; likewise if there is only one class.
    """
    if callable(score) or class_columns.shape[-1] == 1:
        return {"confidence": compute_confidence(method, class_columns, score)}
    kind = "probs" if method == "predict_proba" else "logits"
    return {kind: class_columns, "score": score}


def predict_confidence_arguments(estimator: Any, X: ArrayLike, score: Score) -> dict[str, Any]:
    """Run a fitted classifier and return its output as keyword arguments of `Threshold.accepts`."""
    method = response_method(estimator, score)
    return confidence_arguments(method, as_class_columns(getattr(estimator, method)(X)), score)


def _apply_learned(learned: LearnedConfidence, class_scores: dict[str, Any]) -> dict[str, Any]:
    """Return a learned confidence of class scores as keyword arguments of `Threshold.accepts`.

    `class_scores` holds "probs" or "logits", one row per sample; other entries are not read.
    """
    inputs = {kind: class_scores[kind] for kind in ("probs", "logits") if kind in class_scores}
    return {"confidence": np.asarray(learned(**inputs)), "score": learned}


def _make_indexable(X: Array) -> Any:
    """Convert an object that is an array only by its `__array__` method, and return all others unchanged."""
    return np.asarray(X) if hasattr(X, "__array__") and not hasattr(X, "shape") else X


def _check_X_y(name: str, X: Array, y: Array) -> tuple[Any, Any]:
    """Return samples that can be indexed and a vector of one target for each; raise ValueError if y is None."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    X, y = indexable(_make_indexable(X), column_or_1d(y, warn=True))
    return X, y


def _copy_feature_attributes(target: Any, fitted: Any) -> None:
    """Copy what scikit-learn records about the features from a fitted estimator to `target`."""
    for attribute in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, attribute):
            setattr(target, attribute, getattr(fitted, attribute))


Rule = Threshold | GroupThresholds | JointThreshold | JointGroupThresholds


def _map_thresholds(rule: Rule, change: Callable[[Threshold], Threshold]) -> Any:
    """Apply `change` to the rule's threshold, or to that of every group and every promise; returns the same kind.

    A rule is one threshold, with one promise or several (`promises` holds the same threshold for each, with its own
    target), or such a rule for each group.
    """
    if isinstance(rule, GroupThresholds):
        # a `JointGroupThresholds` comes here too: then the rule of each group has several promises
        rule_of_group = {
            group: _map_thresholds(group_rule, change) for group, group_rule in rule.thresholds.items()
        }
        return replace(rule, thresholds=rule_of_group)
    if isinstance(rule, JointThreshold):
        promises = {name: change(threshold) for name, threshold in rule.promises.items()}
        return replace(rule, promises=promises)
    return change(rule)


def remove_promise(rule: Rule) -> Rule:
    """Remove the promise of a rule from out-of-fold predictions, made by other models than the one deployed."""

    def without_promise(threshold: Threshold) -> Threshold:
        evidence = replace(threshold.evidence, out_of_fold=True)
        return replace(threshold, guarantee=None, note=OUT_OF_FOLD, evidence=evidence)

    without: Rule = _map_thresholds(rule, without_promise)
    return without


def split_for_calibration(
    n: int, clusters: np.ndarray | None, calibration_share: Any, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Split n samples at random and return the indices (from 0) of the training and of the calibration samples.

    `clusters` holds one label per sample, or is None; no cluster is split. `calibration_share` of the samples (or of
    the clusters) is for calibration; `random_state` is a seed or generator as scikit-learn takes it. The split is not
    stratified: a stratified part would not be a random sample of the population.
    """
    if clusters is None:
        train, calibration = train_test_split(
            np.arange(n), test_size=calibration_share, random_state=random_state
        )
    else:
        splitter = GroupShuffleSplit(1, test_size=calibration_share, random_state=random_state)
        train, calibration = next(splitter.split(np.arange(n), groups=clusters))
    return train, calibration


def masks_by_label(
    name: str, risk: Mapping[Any, float], classifier: Any, predictions: np.ndarray
) -> dict[Any, np.ndarray]:
    """For each class that has a risk of its own: which samples are predicted as that class, as a mask.

    `risk` holds the largest error rate by class, and `predictions` one predicted class per sample. `classifier` is
    fitted, and `name` is for the message of the InputError if `risk` names something that is no class.
    """
    classes = list(classifier.classes_)
    unknown = [label for label in risk if label not in classes]
    if unknown:
        listed = ", ".join(map(str, classes[:10]))
        raise InputError(
            f"{name}: `risk` must be a number, or a dict by class ({listed}), got {unknown[0]!r}."
        )
    return {label: predictions == label for label in risk}


class _FitArguments(NamedTuple):
    """The arguments of `fit` other than X and y: those for the estimator's `fit`, and one label per sample."""

    to_estimator: dict[str, Any]
    groups: np.ndarray | None
    clusters: np.ndarray | None

    def select(self, indices: np.ndarray, n: int) -> _FitArguments:
        """Return the arguments for the samples with these indices, of n samples in all.

        An argument for the estimator (`to_estimator`, by name) is taken for one value per sample, and indexed, if it
        has length n; otherwise it is kept whole. `groups` and `clusters` are one label per sample, or None.
        """
        to_estimator = {}
        for name, value in self.to_estimator.items():
            is_per_sample = hasattr(value, "__len__") and len(value) == n
            to_estimator[name] = _safe_indexing(value, indices) if is_per_sample else value
        groups = None if self.groups is None else self.groups[indices]
        clusters = None if self.clusters is None else self.clusters[indices]
        return _FitArguments(to_estimator, groups, clusters)

    def make_folds(self, fold_count: int, X: Array, y: Array) -> Any:
        """Return the `cv` argument for `cross_val_predict`, such that no cluster is split between folds."""
        if self.clusters is None:
            return fold_count
        return list(GroupKFold(fold_count).split(X, y, self.clusters))


class CalibrationSamples(NamedTuple):
    """The samples that a threshold is chosen on, which the estimator was not trained on."""

    loss: np.ndarray  # one per sample
    # keyword arguments of `Threshold.accepts`: a confidence, or class scores and a score
    confidence_arguments: dict[str, Any]
    predictions: np.ndarray  # one per sample


class Selective(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator, a confidence, and a threshold chosen on data the estimator was not trained on.

    A subclass defines `_confidence(X)`, `_loss(prediction, y)`, `_promise_options(samples)` and
    `_fit_out_of_fold(X, y, arguments)`. The last one trains the estimator and returns losses and confidences of
    out-of-fold predictions.
    """

    threshold_: Rule
    estimator_: Any
    _default_estimator: Any  # its class, used if the user passes none

    def _fit(self, X: Array, y: Array, groups: Array | None, clusters: Array | None, params: Any) -> None:
        """Train the estimator and choose the threshold, calibrated as `cv` says: sets `estimator_` and `threshold_`.

        `groups` and `clusters` hold one label per sample, or are None; `params` are the other keyword arguments of
        `fit`. Raises InputError unless exactly one of `risk` and `coverage` is set. Warns if no threshold could be
        certified. `X` holds the inputs, one row per sample. `y` holds the true classes or values, one per sample.

        `cv` asks for one of three kinds of calibration: "prefit" (a fitted estimator, all samples calibrate), "folds"
        (each sample is predicted by an estimator trained on the others), or "share" (a part of the samples calibrates).
        """
        name = type(self).__name__
        if (self.risk is None) == (self.coverage is None):
            raise InputError(f"{name}: give exactly one of `risk` and `coverage`.")
        X, y = _check_X_y(name, X, y)
        arguments = _FitArguments(
            to_estimator=self._arguments_for_estimator(params, groups, clusters),
            groups=_check_sample_labels(name, "groups", groups, len(y)),
            clusters=_check_sample_labels(name, "clusters", clusters, len(y)),
        )
        calibration_arguments = arguments  # of the samples that the threshold is chosen on
        # each kind sets `estimator_` and measures losses, confidences and predictions of the samples that calibrate
        if self._calibration_kind() == "prefit":
            self._use_prefit_estimator()
            samples = self._measure(X, y)
        elif self._calibration_kind() == "folds":
            samples = self._fit_out_of_fold(X, y, arguments)
        else:
            train, calibration = split_for_calibration(len(y), arguments.clusters, self.cv, self.random_state)
            self._train(_safe_indexing(X, train), y[train], arguments.select(train, len(y)))
            samples = self._measure(_safe_indexing(X, calibration), y[calibration])
            calibration_arguments = arguments.select(calibration, len(y))
        _copy_feature_attributes(self, self.estimator_)  # `n_features_in_` and `feature_names_in_`
        # a classifier that learns its confidence uses up some of the samples here
        samples, calibration_arguments = self._learn_confidence(samples, calibration_arguments)
        self.threshold_ = self._select_threshold(
            samples, groups=calibration_arguments.groups, clusters=calibration_arguments.clusters
        )
        self._warn_if_infeasible()

    def _learn_confidence(
        self, samples: CalibrationSamples, arguments: _FitArguments
    ) -> tuple[CalibrationSamples, _FitArguments]:
        """Return the samples that are left to choose the threshold on, and their arguments of `fit`: all here."""
        return samples, arguments

    def _warn_if_infeasible(self) -> None:
        """Warn if no threshold could be certified, for all samples or in some groups.

        `threshold_` is one rule, or a rule for each group (`GroupThresholds`). A rule's `note` says why there is no
        threshold, its `advice` what would be feasible; either may be None or empty.
        """
        rule = self.threshold_
        if rule.feasible:
            return
        name = type(self).__name__
        if isinstance(rule, GroupThresholds):
            infeasible_groups = [
                str(group) for group, threshold in rule.thresholds.items() if not threshold.feasible
            ]
            message = (
                f"{name}: no threshold could be certified in {', '.join(infeasible_groups)}, so nothing will be "
                f"accepted there."
            )
        else:
            message = (
                f"{name}: no threshold could be certified, so nothing will be accepted. {rule.note or ''}"
            )
            message = f"{message} {rule.advice or ''}".strip()
            # does the advice say how many calibration samples would be enough?
            advises_count = isinstance(rule.advice, Advice) and rule.advice.samples is not None
            if advises_count and self._calibration_kind() == "share":
                message = f"{message} Of the samples that `fit` gets, the share cv={self.cv:g} calibrates."
        # the warning names the line that called `fit`, which called `_fit`, which called this method
        warnings.warn(message, AbstainWarning, stacklevel=4)

    def confidence(self, X: ArrayLike) -> np.ndarray:
        """Compute one confidence per sample, higher = surer; it is compared with the threshold."""
        check_is_fitted(self, "threshold_")
        return self._confidence(X)

    def predict_all(self, X: ArrayLike) -> np.ndarray:
        """Predict every sample, accepted or not."""
        check_is_fitted(self, "threshold_")
        return np.asarray(self.estimator_.predict(X))

    def predict_selective(
        self, X: ArrayLike, groups: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the prediction for every sample, and a boolean array: True where it is accepted."""
        accepted = self.accepts(X, groups)
        return self.predict_all(X), accepted

    def accepts(self, X: ArrayLike, groups: ArrayLike | None = None) -> np.ndarray:
        """Return a boolean array, True where the prediction is accepted.

        `groups`, one per sample, are required if `fit` was called with groups, and refused otherwise. `X` holds the
        inputs, one row per sample.
        """
        check_is_fitted(self, "threshold_")
        # keyword arguments of the rule's `accepts`: confidences, or class scores and the score to compute from them
        confidence_arguments = self._confidence_arguments(X)
        if isinstance(self.threshold_, GroupThresholds):  # a threshold for each group
            if groups is None:
                raise InputError(
                    f"{type(self).__name__}: needs `groups`, one per sample, since `fit` got them, got None."
                )
            return self.threshold_.accepts(**confidence_arguments, groups=groups)
        if groups is not None:
            raise InputError(
                f"{type(self).__name__}: takes `groups` only if `fit` got them. Fit it with `groups=`."
            )
        return self.threshold_.accepts(**confidence_arguments)

    def _predict(self, X: Array, label: Any, groups: Array | None) -> np.ndarray:
        """Predict, with `label` in place of rejected predictions.

        `groups` holds one label per sample if `fit` was called with groups. If `label` is None, the label of the
        constructor is used; if that is None too, every prediction is returned, and `groups` are not read. Raises
        InfeasibleError in that case if no threshold could be certified. `X` holds the inputs, one row per sample.
        """
        check_is_fitted(self, "threshold_")
        if label is None:
            label = self._abstain_label()  # that of the constructor, "auto" replaced by a label
        if label is not None:
            # raises unless it is one label, and for a classifier none of its classes
            self._check_label(label)
            prediction, accepted = self.predict_selective(X, groups)
            return replace_rejected(prediction, accepted, label)
        if not self.threshold_.feasible:
            raise InfeasibleError(
                f"{type(self).__name__}.predict: no threshold could be certified, so nothing is accepted, and "
                f"`abstain_label` is None. Set it to mark rejected samples, or use `predict_all`."
            )
        return self.predict_all(X)

    @property
    def guarantee_(self) -> str | None:
        """What the threshold promises, in words, or None."""
        check_is_fitted(self, "threshold_")
        return self.threshold_.guarantee

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn that `fit` uses `groups` and `clusters` and passes other metadata to the estimator."""
        fit_to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self._unfitted_estimator(), method_mapping=fit_to_fit)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator_tags = get_tags(self._unfitted_estimator())
        tags.input_tags = estimator_tags.input_tags
        tags.classifier_tags = estimator_tags.classifier_tags
        tags.regressor_tags = estimator_tags.regressor_tags
        tags.target_tags.multi_output = False
        tags.target_tags.single_output = True
        return tags

    def _unfitted_estimator(self) -> Any:
        """Return the estimator of the constructor, or a default one if there is none."""
        return self._default_estimator() if self.estimator is None else self.estimator

    def _abstain_label(self) -> Any:
        """Return the label for rejected samples; None if every sample gets its prediction."""
        return self.abstain_label

    def _check_label(self, label: Any) -> None:
        """Raise InputError unless the abstain label is a single value."""
        if np.ndim(label):
            raise InputError(f"{type(self).__name__}: `abstain_label` must be one label, got {label!r}.")

    def _calibration_kind(self) -> str:
        """Return the way to calibrate that `cv` asks for: "prefit", "share" or "folds"."""
        cv: Any = self.cv
        if isinstance(cv, str) and cv == "prefit":
            return "prefit"
        if isinstance(cv, numbers.Integral) and int(cv) >= 2:
            return "folds"
        if isinstance(cv, numbers.Real) and 0 < float(cv) < 1:
            return "share"
        rule = "`cv` must be 'prefit', a share in (0, 1) or at least 2 folds"
        raise InputError(f"{type(self).__name__}: {rule}, got {cv!r}.")

    def _confidence_arguments(self, X: Array) -> dict[str, Any]:
        """Return the confidences of samples as keyword arguments of `Threshold.accepts`."""
        return {"confidence": self._confidence(X)}

    def _select_threshold(self, samples: CalibrationSamples, **options: Any) -> Rule:
        """Choose the threshold on these samples; `options` are passed to `select_threshold`.

        `self.risk` or `self.coverage` is the aim, the other is None; `self.delta` is the probability with which the
        promise may be broken, `self.method` the method of `select_threshold`. If `risk` is a dict, one threshold keeps
        several promises. Out-of-fold calibration ("folds") removes every promise: the predictions came from other
        models than the one deployed.
        """
        promise_options: dict[str, Any] = {}
        if isinstance(self.risk, Mapping):
            # "among": which samples each promise is about; or "losses": for each promise a loss of its own
            promise_options = self._promise_options(samples)
        has_loss_per_promise = "losses" in promise_options
        rule: Rule = select_threshold(
            None if has_loss_per_promise else samples.loss,
            risk=self.risk,
            coverage=self.coverage,
            delta=self.delta,
            method=self.method,
            **samples.confidence_arguments,
            **promise_options,
            **options,
        )
        return remove_promise(rule) if self._calibration_kind() == "folds" else rule

    def _measure(self, X: Array, y: Array) -> CalibrationSamples:
        """Return losses, confidences and predictions of the fitted estimator, one of each per sample."""
        predictions = np.asarray(self.estimator_.predict(X))
        return CalibrationSamples(
            loss=self._loss(predictions, y),
            confidence_arguments=self._confidence_arguments(X),
            predictions=predictions,
        )

    def _train(self, X: Array, y: Array, arguments: _FitArguments) -> None:
        """Fit a copy of the estimator."""
        self.estimator_ = clone(self._unfitted_estimator()).fit(X, y, **arguments.to_estimator)

    def _use_prefit_estimator(self) -> None:
        """Use the estimator of the constructor, which must be fitted."""
        check_is_fitted(self._unfitted_estimator())
        self.estimator_ = self.estimator

    def _arguments_for_estimator(
        self, params: dict[str, Any], groups: Array | None, clusters: Array | None
    ) -> dict[str, Any]:
        """Return the keyword arguments for the estimator's own `fit`, by metadata routing if that is switched on.

        `params` are the keyword arguments of this `fit`, None for those that were left out. `groups` and `clusters`
        hold one label per sample, or are None; they are passed on only to an estimator that takes them. Raises
        TypeError if there is a `sample_weight` and the estimator takes none.
        """
        estimator = self._unfitted_estimator()
        sample_labels = {}
        if groups is not None:
            sample_labels["groups"] = groups
        if clusters is not None:
            sample_labels["clusters"] = clusters
        if get_config()["enable_metadata_routing"]:  # a setting of scikit-learn
            # the names among `groups` and `clusters` that the estimator has requested for its `fit`
            consumed = get_routing_for_object(estimator).consumes("fit", sample_labels.keys())
            # scikit-learn itself leaves out the `params` that are None, and refuses those that nobody requested
            routed = params | {name: sample_labels[name] for name in consumed}
            return dict(process_routing(self, "fit", **routed).estimator.fit)
        arguments = {name: value for name, value in params.items() if value is not None}
        if "sample_weight" in arguments and not has_fit_parameter(estimator, "sample_weight"):
            raise TypeError(f"{type(estimator).__name__}.fit takes no sample_weight.")
        # unlike a `sample_weight`, labels that the estimator does not take are left out without an error
        accepted_labels = {
            name: value for name, value in sample_labels.items() if has_fit_parameter(estimator, name)
        }
        return arguments | accepted_labels


def _check_sample_labels(name: str, argument: str, values: Array | None, n: int) -> np.ndarray | None:
    """Return `values` as an array of n labels, or None; raise InputError for another shape."""
    if values is None:
        return None
    labels = np.asarray(values)
    if labels.shape != (n,):
        raise InputError(
            f"{name}: `{argument}` must hold one label for each of {n} samples, got shape {labels.shape}."
        )
    return labels


def _available_if_estimator_has(name: str) -> Any:
    """Make a decorator that hides a method unless the estimator, fitted or not, has a method called `name`."""
    return available_if(
        lambda self: hasattr(getattr(self, "estimator_", None) or self._unfitted_estimator(), name)
    )


class SelectiveClassifier(ClassifierMixin, Selective):  # type: ignore[misc]
    """Wraps a classifier; accepts a prediction when its confidence reaches a threshold with a guarantee.

    Parameters
    ----------
    estimator : classifier
        With `predict_proba` or `decision_function`. Logistic regression by default.
    score : str or callable
        The confidence: a name in `abstain.scores`, or a function of the probabilities (decision values if there are
        no probabilities). "learned": half of the calibration data learn a better confidence from the class scores
        (`abstain.learn_confidence`), and the other half certify the threshold.
    risk, coverage : float
        Exactly one: the largest error rate of accepted predictions, or the share of predictions to accept; see
        `select_threshold`. A dict of risks by class, `risk={"ill": 0.02, "well": 0.05}`, bounds the error rate of the
        accepted that are predicted as each of these classes, all by one threshold.
    delta, method : float, str
        Passed to `select_threshold`.
    cv : "prefit", float or int
        How to calibrate. A share: that share of the data is held out of training, and the guarantee holds. "prefit":
        all data passed to `fit` are calibration data, and the guarantee holds if the estimator was not trained on them.
        A number of folds: the threshold is chosen on out-of-fold predictions, the estimator is trained on all data, and
        `guarantee_` is None.
    abstain_label : label, "auto" or None
        What `predict` returns for a rejected sample; it must not be a class. "auto": -1 for integer classes (one below
        the smallest class if -1 is a class), "abstain" for words, NaN for floats. None: `predict` returns the
        prediction for every sample, and raises InfeasibleError if no threshold could be certified.
        `predict(X, abstain_label=...)` uses another label, also inside a Pipeline. `predict_all(X)` never abstains.
    random_state : int or generator
        Of the held-out split.

    Attributes
    ----------
    threshold_ : Threshold
        The threshold on the confidence; equal confidences are accepted together. With groups a `GroupThresholds`, with
        several risks a `JointThreshold`, with both a `JointGroupThresholds`.
    confidence_ : LearnedConfidence or None
        What `score="learned"` learned; it prints the candidates and whether the gain is proven.
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

    _default_estimator = LogisticRegression
    confidence_: LearnedConfidence | None

    def __init__(
        self,
        estimator: Any = None,
        *,
        score: Score = "max_softmax",
        risk: float | Mapping[Any, float] | None = None,
        coverage: float | None = None,
        delta: float = 0.05,
        method: Method = "ltt",
        cv: Any = 0.25,
        abstain_label: Any = AUTO,
        random_state: Any = None,
    ) -> None:
        """Store the options, which the class describes, as they are (for scikit-learn's `clone`); `fit` checks them.

        `estimator` is the classifier (None: logistic regression). `score` is the confidence: a name in
        `abstain.scores`, a function of the class scores, or "learned" (learned from half of the calibration samples).
        `risk` or `coverage`: one of them is the aim of the threshold, the other stays None; a dict of risks by class
        has a promise for each. `delta` is the probability with which its promise may be broken, `method` the method of
        `select_threshold`. `cv` says how to calibrate: by a held-out share, a number of folds, or "prefit". `predict`
        returns `abstain_label` for rejected samples; `AUTO` is "auto", a label that fits the classes. `random_state` is
        that of the held-out split.
        """
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
        """Return the constructor parameters by name."""
        return {**super().get_params(deep), "score": self._score_parameter}

    @property
    def _score_parameter(self) -> Score:
        """The constructor's `score`, the confidence; `self.score` is scikit-learn's method."""
        parameter: Score = self.__dict__["score"]
        return parameter

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        **params: Any,
    ) -> SelectiveClassifier:
        """Train the classifier and choose the threshold on data it was not trained on (see `cv`).

        `groups`: one label per sample, for a threshold and a guarantee in each group; `predict` then needs them too.
        `clusters`: one label per sample, for a guarantee over whole clusters; no cluster is split between training and
        calibration. Other keyword arguments are passed to the classifier's own `fit`. `X` holds the inputs, one row per
        sample. `y` holds the true classes, one per sample.
        """
        if y is not None:  # `_fit` refuses None
            check_classification_targets(y)  # raises for numbers that are no classes
        self.confidence_ = None  # until it is learned again
        self._fit(X, y, groups, clusters, params)  # sets `estimator_` and `threshold_`
        self.classes_ = self.estimator_.classes_
        # checked only now, since "auto" depends on the classes, and the label must not be one of them
        if self.abstain_label_ is not None:
            self._check_label(self.abstain_label_)
        return self

    @property
    def abstain_label_(self) -> Any:
        """What `predict` returns for a rejected sample; None if it never abstains."""
        check_is_fitted(self, "threshold_")
        return resolve_abstain_label(self)

    def predict(self, X: ArrayLike, abstain_label: Any = None, groups: ArrayLike | None = None) -> np.ndarray:
        """Predict the class, or abstain: rejected samples get `abstain_label`, by default that of the constructor.

        In a Pipeline: `pipeline.predict(X, abstain_label="ask")`.
        """
        return self._predict(X, abstain_label, groups)

    def _abstain_label(self) -> Any:
        return self.abstain_label_

    def _check_label(self, label: Any) -> None:
        """Raise InputError unless the abstain label is a single value and not a class."""
        super()._check_label(label)
        _check_label_is_no_class(self, label)

    @_available_if_estimator_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the classifier's probabilities."""
        check_is_fitted(self, "threshold_")
        return np.asarray(self.estimator_.predict_proba(X))

    @_available_if_estimator_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the classifier's decision values."""
        check_is_fitted(self, "threshold_")
        return np.asarray(self.estimator_.decision_function(X))

    # A call `classifier.score(X, y)` is that of the method as written here. The decorator only keeps the constructor's
    # parameter of the same name from hiding it, whatever its signature.
    @ScoreParameter
    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Compute the accuracy of accepted predictions, 0 if nothing is accepted; higher is better.

        `groups`, one label per sample, are required if `fit` was called with groups. A threshold that accepts few
        samples makes it high: compare models by `aurc_scorer` instead. `X` holds the inputs, one row per sample. `y`
        holds the true classes, one per sample. `sample_weight` is the mass of each sample (None: 1 for all).
        """
        # `ScoreParameter` keeps the constructor's parameter `score` from hiding this method, and changes nothing else
        prediction, accepted = self.predict_selective(X, groups)  # of every sample
        is_right = prediction == np.asarray(y)
        weight = np.ones(len(is_right)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        accepted_weight = np.where(accepted, weight, 0.0)  # rejected samples do not count
        if not accepted_weight.sum() > 0:
            return 0.0
        return float(np.average(is_right, weights=accepted_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags

    @property
    def _score_of_class_scores(self) -> Score:
        """The score that decides whether probabilities or decision values are read: max softmax for a learned one."""
        score = self._score_parameter
        return "max_softmax" if isinstance(score, str) and score == LEARNED else score

    @property
    def _learns_confidence(self) -> bool:
        """Is the confidence to be learned from the class scores?"""
        score = self._score_parameter
        return isinstance(score, str) and score == LEARNED

    def _confidence(self, X: Array) -> np.ndarray:
        if self._learns_confidence:
            return np.asarray(self._confidence_arguments(X)["confidence"])
        return classifier_confidence(self.estimator_, X, self._score_parameter)

    def _confidence_arguments(self, X: Array) -> dict[str, Any]:
        """Return the confidences of samples as keyword arguments of `Threshold.accepts`.

        Of a confidence that is still to be learned, the class scores that it will be learned from.
        """
        arguments = predict_confidence_arguments(self.estimator_, X, self._score_of_class_scores)
        if self.confidence_ is None:
            return arguments
        return _apply_learned(self.confidence_, arguments)

    def _learn_confidence(
        self, samples: CalibrationSamples, arguments: _FitArguments
    ) -> tuple[CalibrationSamples, _FitArguments]:
        """Learn the confidence on half of the calibration samples, and return the other half for the threshold.

        Sets `confidence_`. Returns the samples that it was not learned on, with their arguments of `fit` (clusters and
        groups, one label per sample, or None); all samples as they are if the score is not "learned". Raises InputError
        if the estimator knows one class only, or errors are too few to learn.
        """
        if not self._learns_confidence:
            return samples, arguments
        loss = samples.loss
        # "probs" or "logits", one row per sample; with one class a constant "confidence" instead
        arguments_by_name = samples.confidence_arguments
        kind = next((name for name in ("probs", "logits") if name in arguments_by_name), None)
        if kind is None:
            raise InputError(f"{type(self).__name__}: a learned confidence needs at least two classes.")
        n = len(loss)
        # indices of the samples to learn on, and of those to choose the threshold on
        learn, certify = split_for_calibration(
            n, arguments.clusters, calibration_share=1 - _SHARE_TO_LEARN, random_state=self.random_state
        )
        learn_clusters = None if arguments.clusters is None else arguments.clusters[learn]
        inputs: dict[str, Any] = {kind: arguments_by_name[kind][learn]}
        self.confidence_ = learn_confidence(loss=loss[learn], clusters=learn_clusters, **inputs)
        class_scores: dict[str, Any] = {kind: arguments_by_name[kind][certify]}
        threshold_samples = CalibrationSamples(
            loss=loss[certify],
            # {"confidence": the learned confidences, "score": the model that computes them}
            confidence_arguments=_apply_learned(self.confidence_, class_scores),
            predictions=samples.predictions[certify],
        )
        return threshold_samples, arguments.select(certify, n)

    def _promise_options(self, samples: CalibrationSamples) -> dict[str, Any]:
        """Return the options of `select_threshold` for a dict of risks: which samples are predicted as each class.

        Raises InputError if `risk` names something that is not a class.
        """
        assert isinstance(self.risk, Mapping)  # the caller made sure
        masks = masks_by_label("SelectiveClassifier", self.risk, self.estimator_, samples.predictions)
        return {"among": masks}

    def _select_threshold(self, samples: CalibrationSamples, **options: Any) -> Rule:
        """Choose the threshold on these samples; `options` are passed to `select_threshold`.

        With a dict of risks by class the rule has a promise for each of these classes, named by the class.
        """
        rule = super()._select_threshold(samples, **options)
        classes = list(self.estimator_.classes_)
        # `by_class` means that the promises are named by class numbers, which are columns of the class scores: from
        # these the rule can then tell by itself which samples each promise is about. The classes False and True equal
        # 0 and 1, and so do 0.0 and 1.0.
        are_column_numbers = classes == list(range(len(classes)))
        if isinstance(rule, (JointThreshold, JointGroupThresholds)) and are_column_numbers:
            return rule.with_promises_by_class(True)
        return rule

    def _loss(self, prediction: Array, y: Array) -> np.ndarray:
        """Return True for each wrong prediction."""
        return np.asarray(prediction) != np.asarray(y)

    def _fit_out_of_fold(self, X: Array, y: Array, arguments: _FitArguments) -> CalibrationSamples:
        """Train the classifier on all data; return losses and confidences of out-of-fold predictions.

        Each sample is predicted by a classifier that was trained on the other folds. The confidences come as keyword
        arguments of `Threshold.accepts`: probabilities or decision values, one column per class, and the score to
        compute from them. `X` holds the inputs, one row per sample, `y` the true classes. `arguments` are those of
        `fit` besides: `to_estimator` those for the classifier's own `fit`, and clusters, none of which is split between
        folds. `self.cv` is the number of folds.
        """
        self._train(X, y, arguments)
        score = self._score_of_class_scores  # max softmax if the score is still to be learned
        method = response_method(self.estimator_, score)  # "predict_proba" or "decision_function"
        response = cross_val_predict(
            self._unfitted_estimator(),
            X,
            y,
            cv=arguments.make_folds(self.cv, X, y),
            method=method,
            params=arguments.to_estimator or None,
        )
        # shape (samples, classes); a binary decision value becomes two columns
        class_columns = as_class_columns(response)
        classes = np.unique(np.asarray(y))  # the order of the columns that `cross_val_predict` returns
        predicted = classes[np.argmax(class_columns, axis=1)]
        return CalibrationSamples(
            loss=self._loss(predicted, y),
            confidence_arguments=confidence_arguments(method, class_columns, score),
            predictions=predicted,
        )


class SelectiveRegressor(RegressorMixin, Selective):  # type: ignore[misc]
    """Wraps a regressor; accepts a prediction when its estimated error is small enough.

    Parameters
    ----------
    estimator : regressor
        Linear regression by default.
    uncertainty : None, "std", or regressor
        How to estimate the error; the confidence is minus the estimate. "std": the estimator's own
        `predict(X, return_std=True)`. A regressor: it is trained to predict the absolute out-of-fold residuals of the
        estimator. None: a copy of the estimator is trained so. With cv="prefit" a regressor must be fitted already.
    tolerance : float or dict of float
        A prediction counts as wrong if its error is larger than this. `risk` is then the share of wrong predictions
        among the accepted ones, and is bounded exactly. `coverage` needs no tolerance. With a dict, `risk` is a dict of
        the same names: `tolerance={"far": 50, "off": 10}, risk={"far": 0.01, "off": 0.2}`, all by one threshold.
    risk, coverage, delta, method, cv, random_state :
        As for `SelectiveClassifier`.
    abstain_label : float or None
        What `predict` returns for a rejected sample: NaN by default. None: `predict` returns the prediction for every
        sample, and raises InfeasibleError if no threshold could be certified. `predict(X, abstain_label=...)` uses
        another value. `predict_all(X)` never abstains.

    Attributes
    ----------
    threshold_ : Threshold
        The threshold on the confidence; equal confidences are accepted together.
    estimator_, error_model_ : regressor
        The fitted regressor, and the fitted model of its error (None with "std").
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

    _default_estimator = LinearRegression

    def __init__(
        self,
        estimator: Any = None,
        *,
        uncertainty: Any = None,
        tolerance: float | Mapping[Any, float] | None = None,
        risk: float | Mapping[Any, float] | None = None,
        coverage: float | None = None,
        delta: float = 0.05,
        method: Method = "ltt",
        cv: Any = 0.25,
        abstain_label: float | None = np.nan,
        random_state: Any = None,
    ) -> None:
        """Store the options, which the class describes, as they are (for scikit-learn's `clone`); `fit` checks them.

        `estimator` is the regressor (None: linear regression). `uncertainty` says how the error of a prediction is
        estimated: None by a copy of the estimator, "std" by its own standard deviation, or a regressor. `tolerance` is
        the error above which a prediction counts as wrong. `risk` or `coverage`: one of them is the aim of the
        threshold, the other stays None. If `risk` and `tolerance` are dicts of the same names, each name is a promise
        of its own. `delta` is the probability with which its promise may be broken, `method` the method of
        `select_threshold`. `cv` says how to calibrate: by a held-out share, a number of folds, or "prefit". `predict`
        returns `abstain_label` for rejected samples. `random_state` is that of the held-out split.
        """
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
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        **params: Any,
    ) -> SelectiveRegressor:
        """Train the regressor and its error model, and choose the threshold on data neither was trained on.

        `groups`: one label per sample, for a threshold and a guarantee in each group; `predict` then needs them too.
        `clusters`: one label per sample, for a guarantee over whole clusters; no cluster is split between training and
        calibration. Other keyword arguments are passed to the regressor's own `fit`. Raises InputError if `risk` has no
        `tolerance`, or `uncertainty` is neither None, "std" nor a regressor. `X` holds the inputs, one row per sample.
        `y` holds the true values, one per sample.
        """
        if self.risk is not None and self.tolerance is None:
            raise InputError(
                "SelectiveRegressor: `risk` needs `tolerance`, the error above which a prediction counts as wrong: an "
                "error without a bound carries no guarantee. Or pass `coverage`."
            )
        if isinstance(self.risk, Mapping) or isinstance(self.tolerance, Mapping):
            # None for an argument that is no dict, so that a dict and a number differ
            risk_names = set(self.risk) if isinstance(self.risk, Mapping) else None
            tolerance_names = set(self.tolerance) if isinstance(self.tolerance, Mapping) else None
            if risk_names != tolerance_names:
                rule = "`risk` and `tolerance` must be dicts of the same names"
                raise InputError(f"SelectiveRegressor: {rule}, got {self.risk!r} and {self.tolerance!r}.")
        is_regressor = hasattr(self.uncertainty, "predict")
        if not (self.uncertainty is None or self.uncertainty == "std" or is_regressor):
            rule = '`uncertainty` must be None, "std" or a regressor'
            raise InputError(f"SelectiveRegressor: {rule}, got {self.uncertainty!r}.")
        if y is not None:  # `_fit` refuses None
            y = np.asarray(y)
            y = y.astype(np.float64) if y.dtype.kind == "O" else y  # numbers that came as Python objects
        self._fit(X, y, groups, clusters, params)  # sets `estimator_`, `error_model_` and `threshold_`
        return self

    def predict(
        self, X: ArrayLike, abstain_label: float | None = None, groups: ArrayLike | None = None
    ) -> np.ndarray:
        """Predict, or abstain: rejected samples get `abstain_label`, by default that of the constructor."""
        return self._predict(X, abstain_label, groups)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Compute R squared of all predictions, accepted or not; higher is better."""
        return float(r2_score(y, self.predict_all(X), sample_weight=sample_weight))

    def _confidence(self, X: Array) -> np.ndarray:
        """Return minus the expected absolute error of each sample."""
        if self.error_model_ is not None:
            return -np.asarray(self.error_model_.predict(X), dtype=np.float64)
        if isinstance(self.uncertainty, str):  # "std"
            _, standard_deviation = self.estimator_.predict(X, return_std=True)
            return -np.asarray(standard_deviation, dtype=np.float64)
        sample_count = len(np.asarray(self.estimator_.predict(X)))
        return np.zeros(sample_count)  # too few samples to train an error model: all are equally confident

    def _unfitted_error_model(self) -> Any:
        return clone(self._unfitted_estimator() if self.uncertainty is None else self.uncertainty)

    def _train(self, X: Array, y: Array, arguments: _FitArguments) -> None:
        """Fit the estimator, and the error model on the absolute values of its out-of-fold residuals.

        Sets `estimator_`, `error_model_` and, if there is an error model, `residuals_`. There is no error model (None)
        with uncertainty="std", the only text it may be, nor if there are fewer than two samples (or clusters).
        `arguments` are those of `fit` besides: clusters, and what goes to the estimator's own `fit`. `X` holds the
        inputs, one row per sample. `y` holds the true values, one per sample.
        """
        super()._train(X, y, arguments)  # sets `estimator_`
        independent_count = len(y if arguments.clusters is None else np.unique(arguments.clusters))
        fold_count = min(_RESIDUAL_FOLDS, independent_count)  # at most 5
        if isinstance(self.uncertainty, str) or fold_count < 2:
            self.error_model_ = None
            return
        prediction = self._predict_out_of_fold(X, y, arguments, fold_count)
        self.residuals_ = np.abs(np.asarray(prediction) - np.asarray(y))
        # a copy of the estimator, or of the regressor that is the `uncertainty`
        self.error_model_ = self._unfitted_error_model().fit(X, self.residuals_)

    def _predict_out_of_fold(self, X: Array, y: Array, arguments: _FitArguments, fold_count: int) -> Any:
        """Predict each sample by an estimator that was trained on the other folds."""
        folds = arguments.make_folds(fold_count, X, y)
        params = arguments.to_estimator or None
        return cross_val_predict(self._unfitted_estimator(), X, y, cv=folds, params=params)

    def _use_prefit_estimator(self) -> None:
        """Use the fitted estimator and error model of the constructor; raise InputError if there is no error model."""
        super()._use_prefit_estimator()
        if self.uncertainty is None:
            raise InputError(
                'SelectiveRegressor: cv="prefit" needs `uncertainty`: "std", or a fitted regressor of the error.'
            )
        self.error_model_ = None if isinstance(self.uncertainty, str) else self.uncertainty
        if self.error_model_ is not None:
            check_is_fitted(self.error_model_)

    def _fit_out_of_fold(self, X: Array, y: Array, arguments: _FitArguments) -> CalibrationSamples:
        """Train on all data; return losses and confidences of out-of-fold predictions.

        The confidences come as keyword arguments of `Threshold.accepts`. With an error model the losses come from the
        residuals it was trained on, and the confidences from error models trained without the sample. `X` holds the
        inputs, one row per sample. `y` holds the true values, one per sample. ValueError if there are fewer samples (or
        clusters) than folds.

        Without an error model (uncertainty="std") the confidences are those of the estimator trained on all data, this
        sample included: the threshold is for its standard deviations, and those of estimators trained on fewer samples
        lie on another level. An estimator that is surer of its training samples, such as a Gaussian process, then gets
        a threshold that accepts fewer new samples. No guarantee rests on these confidences, since `guarantee_` is None
        for out-of-fold calibration.

        `_train` sets `error_model_` (None without one) and `residuals_`, the absolute errors of out-of-fold
        predictions. `arguments` are those of `fit` besides X and y.
        """
        self._train(X, y, arguments)
        if self.error_model_ is None:
            prediction = self._predict_out_of_fold(X, y, arguments, self.cv)
            return CalibrationSamples(
                loss=self._loss(prediction, y),
                confidence_arguments=self._confidence_arguments(X),
                predictions=prediction,
            )
        folds = arguments.make_folds(self.cv, X, y)
        expected_error = cross_val_predict(self._unfitted_error_model(), X, self.residuals_, cv=folds)
        confidence = -np.asarray(expected_error, dtype=np.float64)
        # Residuals are absolute errors, so as predictions of a true value of 0 they have the same losses. No promise of
        # a regressor reads the predictions.
        return CalibrationSamples(
            loss=self._loss(self.residuals_, y=np.zeros(())),
            confidence_arguments={"confidence": confidence},
            predictions=self.residuals_,
        )

    def _loss(self, prediction: Array, y: Array) -> np.ndarray:
        """Return the absolute error of each sample, or, with one tolerance, True where it is larger than that."""
        error = np.abs(np.asarray(prediction) - np.asarray(y))
        has_one_tolerance = self.tolerance is not None and not isinstance(self.tolerance, Mapping)
        return error > self.tolerance if has_one_tolerance else error

    def _promise_options(self, samples: CalibrationSamples) -> dict[str, Any]:
        """Return the options of `select_threshold` for a dict of risks: one loss per promise.

        A promise's loss is True where the error is larger than the tolerance of that name.
        """
        assert isinstance(self.tolerance, Mapping)  # `fit` checked it
        losses = {name: samples.loss > tolerance for name, tolerance in self.tolerance.items()}
        return {"losses": losses}

    def _select_threshold(self, samples: CalibrationSamples, **options: Any) -> Rule:
        """Choose the threshold on these samples; without a tolerance, losses are bounded by the largest one.

        `options` are passed to `select_threshold`. A bound taken from the data proves nothing, so `risk_upper` is then
        None.
        """
        if self.tolerance is not None:  # then a prediction is wrong or right, which needs no bound
            return super()._select_threshold(samples, **options)
        largest_loss = max(float(samples.loss.max()), np.finfo(float).tiny)  # a bound must be positive
        rule = super()._select_threshold(samples, bounded=(0.0, largest_loss), **options)
        # that bound comes from the data, so the limit on the risk that follows from it does not hold
        # `_map_thresholds` changes the one threshold, or those of all groups and promises
        unbounded: Rule = _map_thresholds(rule, lambda threshold: replace(threshold, risk_upper=None))
        return unbounded


class StageAnswers(NamedTuple):
    """What the classifiers of a cascade answer, one entry per sample."""

    # of the last classifier that was asked, whether it answers or the person does
    prediction: np.ndarray
    # position of the classifier that answers, 0 for the first; the number of classifiers means the person
    answering_stage: np.ndarray


class CascadeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Asks classifiers in order; each answers when it is confident enough, with a guarantee on the risk.

    Parameters
    ----------
    estimators : list of (str, classifier)
        Names and classifiers in the order in which they are asked, the cheapest first; with `predict_proba` or
        `decision_function`. By default a classifier that predicts the most frequent class, and logistic regression.
    costs : list of float
        The cost of asking each classifier; 1, 10, 100, ... by default.
    risk, delta, promise, person
        As for `abstain.cascade`. A dict of risks by class bounds the error rate of the answers that name each class.
    scores : str or callable
        The confidence: a name in `abstain.scores`, or a function of the probabilities (decision values if there are
        no probabilities).
    cv : float or "prefit"
        The share of the data held out of training for calibration. "prefit": the classifiers are fitted, and all data
        passed to `fit` are calibration data.
    abstain_label : label, "auto" or None
        What `predict` returns for a sample that is left to the person; it must not be a class. "auto" as in
        `SelectiveClassifier`. None: the prediction of the last classifier asked, as in `predict_all(X)`.
    random_state : int or None
        Of the held-out split, and of the split inside `cascade`.

    Attributes
    ----------
    cascade_ : Cascade
        Thresholds, cost, shares, and the guarantee; a `JointCascade` with several risks.
    estimators_ : list of classifier
        The fitted classifiers.
    classes_ : array
        All classes.
    guarantee_ : str or None
        The guarantee in words.

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
        risk: float | Mapping[Any, float] = 0.1,
        delta: float = 0.05,
        promise: Promise = "answered",
        person: tuple[float, float] = (1000.0, 0.0),
        scores: Score = "max_softmax",
        cv: Any = 0.25,
        abstain_label: Any = AUTO,
        random_state: int | None = None,
    ) -> None:
        """Store the options, which the class describes, as they are (for scikit-learn's `clone`); `fit` checks them.

        `estimators` are (name, classifier) in the order in which they are asked, `costs` one cost of asking for each.
        None takes a dummy classifier and a logistic regression, and costs of 1, 10, 100, ... `risk` is the largest
        error rate, or by class that of the answers of this class; `delta` is the probability with which that promise
        may be broken. `promise` "answered" counts the answers of the classifiers alone, "system" those of the person
        too. `person` is (cost, error rate) of who answers what no classifier does. `scores` is the confidence of all
        classifiers. `cv` is the held-out share for calibration, or "prefit". `predict` returns `abstain_label` for
        samples that are left to the person. `random_state` is the seed of the splits.
        """
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

        `groups`: one label per sample; the guarantee then holds in every group. `clusters`: one label per sample, for a
        guarantee over whole clusters; no cluster is split between training and calibration. Warns if every sample is
        left to the person. Raises InputError for estimators, costs, `cv` or an abstain label that cannot be used. `X`
        holds the inputs, one row per sample. `y` holds the true classes, one per sample.
        """
        # X can be indexed by row, y is a numpy vector; ValueError if y is None
        X, y = _check_X_y("CascadeClassifier", X, y)
        check_classification_targets(y)
        # arrays of one label per sample, or None
        groups = _check_sample_labels("CascadeClassifier", "groups", groups, len(y))
        clusters = _check_sample_labels("CascadeClassifier", "clusters", clusters, len(y))
        stages = self._stages()  # (name, classifier) in the order in which they are asked
        costs = self._check_costs(stages)  # one for each
        # sets `estimators_`, and returns the indices of the samples that none of them is trained on
        calibration = self._train(stages, X, y, clusters)
        self.classes_ = np.unique(np.concatenate([model.classes_ for model in self.estimators_]))
        abstain_label = resolve_abstain_label(self)  # a label that no class has, if it is "auto"
        if abstain_label is not None:  # None: every sample gets a prediction
            _check_label_is_no_class(self, abstain_label)
        _copy_feature_attributes(self, self.estimators_[0])  # `n_features_in_` and `feature_names_in_`

        # by name of a stage: losses, confidences and cost, as `cascade` takes them
        stage_data, answers_of_class = self._measure_stages(
            stages, costs, _safe_indexing(X, calibration), y[calibration]
        )
        # with a risk for each class: which samples each promise is about
        options: dict[str, Any] = {"among": answers_of_class} if answers_of_class else {}
        self.cascade_ = cascade(
            stage_data,
            risk=self.risk,
            delta=self.delta,
            promise=self.promise,
            person=self.person,
            groups=None if groups is None else groups[calibration],
            clusters=None if clusters is None else clusters[calibration],
            rng=self.random_state or 0,  # the seed; None is the same as 0
            **options,
        )
        self.guarantee_ = self.cascade_.guarantee
        if not self.cascade_.feasible:  # `note` says why, `advice` what would be feasible
            message = "CascadeClassifier: every sample is left to the person."
            warnings.warn(
                f"{message} {self.cascade_.note} {self.cascade_.advice}", AbstainWarning, stacklevel=2
            )
        return self

    def _measure_stages(
        self, stages: list[tuple[str, Any]], costs: list[float], X: Any, y: np.ndarray
    ) -> tuple[dict[str, Any], dict[Any, dict[str, np.ndarray]]]:
        """Return by stage what `cascade` takes of it, and by class and stage which samples it predicts as that class.

        `stages` holds names and classifiers, in the order of `costs` and of the fitted `estimators_`; X and y are the
        calibration samples. `cascade` takes (loss, confidence, cost), or a dict with class scores, the name of the
        score to compute from them, "loss" and "cost". The second result holds masks of the samples, for the classes in
        `risk`; it is empty with one risk for all.
        """
        stage_data: dict[str, Any] = {}
        answers_of_class: dict[Any, dict[str, np.ndarray]] = {}
        for (name, _), model, cost in zip(stages, self.estimators_, costs):
            predictions = model.predict(X)
            loss = predictions != y
            if isinstance(self.risk, Mapping):
                masks = masks_by_label("CascadeClassifier", self.risk, self, predictions)
                for label, mask in masks.items():
                    answers_of_class.setdefault(label, {})[name] = mask
            # {"confidence": ...}, or class scores and the score to compute: {"probs" or "logits": ..., "score": name}
            confidence_arguments = predict_confidence_arguments(model, X, self.scores)
            if "confidence" in confidence_arguments:
                stage_data[name] = (loss, confidence_arguments["confidence"], cost)
            else:
                stage_data[name] = {**confidence_arguments, "loss": loss, "cost": cost}
        return stage_data, answers_of_class

    def _check_costs(self, stages: list[tuple[str, Any]]) -> list[float]:
        """Return one cost per stage, by default 1, 10, 100, ...

        `stages` holds names and classifiers. Raises InputError if there are none, a name is repeated, or the number of
        costs is another.
        """
        if not stages or len(dict(stages)) < len(stages):
            raise InputError("CascadeClassifier: `estimators` must be (name, classifier), each name once.")
        if self.costs is None:
            return [10.0**position for position in range(len(stages))]
        costs = list(self.costs)
        if len(costs) != len(stages):
            raise InputError(
                f"CascadeClassifier: needs {len(stages)} costs, one per stage, got {len(costs)}."
            )
        return costs

    def _train(
        self, stages: list[tuple[str, Any]], X: Any, y: np.ndarray, clusters: np.ndarray | None
    ) -> np.ndarray:
        """Set `estimators_` to fitted classifiers, and return the indices of the calibration samples.

        `stages` holds names and classifiers; `clusters` one label per sample, or None. With cv="prefit" nothing is
        trained and all samples are for calibration. Raises InputError for any other `cv` than a share in (0, 1). `y`
        holds the true classes, one per sample.
        """
        if self.cv == "prefit":
            self.estimators_ = [model for _, model in stages]
            for model in self.estimators_:
                check_is_fitted(model)
            return np.arange(len(y))
        if not (isinstance(self.cv, numbers.Real) and 0 < float(self.cv) < 1):
            raise InputError(
                f"CascadeClassifier: `cv` must be 'prefit' or a share in (0, 1), got {self.cv!r}."
            )
        # indices; `cv` is the share of the samples (or clusters) for calibration
        train, calibration = split_for_calibration(len(y), clusters, self.cv, self.random_state)
        X_train = _safe_indexing(X, train)
        self.estimators_ = [clone(model).fit(X_train, y[train]) for _, model in stages]
        return calibration

    def decide(self, X: ArrayLike) -> np.ndarray:
        """Return who answers each sample: the name of a classifier, or "person"."""
        deciders = np.asarray([*self.cascade_.names, PERSON])
        return deciders[self._run_stages(X).answering_stage]

    def predict_selective(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the prediction for every sample, and a boolean array: True where a classifier answers.

        A classifier is called only with the samples that no earlier one answered. For samples that are left to the
        person, the prediction is that of the last classifier asked.
        """
        answers = self._run_stages(X)
        return answers.prediction, answers.answering_stage < len(self.estimators_)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class; samples that are left to the person get `abstain_label_`."""
        prediction, answered = self.predict_selective(X)
        label = self.abstain_label_
        return prediction if label is None else replace_rejected(prediction, answered, label)

    @property
    def abstain_label_(self) -> Any:
        """What `predict` returns for a sample that is left to the person; None if it never abstains."""
        check_is_fitted(self, "cascade_")
        return resolve_abstain_label(self)

    def predict_all(self, X: ArrayLike) -> np.ndarray:
        """Predict every sample, those that are left to the person by the last classifier asked."""
        prediction, _ = self.predict_selective(X)
        return prediction

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        _, last_classifier = self._stages()[-1]
        tags.input_tags = get_tags(last_classifier).input_tags
        tags.classifier_tags.multi_label = False
        return tags

    def _run_stages(self, X: Array) -> StageAnswers:
        """Call the classifiers in order, each with the samples that no earlier one answered.

        If no stage is in use, the predictions are those of the last classifier, and otherwise those of the last one
        that was asked, also for samples that it leaves to the person. `X` holds the inputs, one row per sample.

        `estimators_` and `cascade_.names` are the fitted classifiers and their names, in the order in which they are
        asked; `cascade_.stages_in_use` are the names of those with a threshold. `scores` is the one confidence score of
        all: a name in `abstain.scores`, or a function. A sample that no classifier answers has their number in
        `answering_stage`.
        """
        check_is_fitted(self, "cascade_")
        X = _make_indexable(X)
        n = _num_samples(X)
        open_rows = np.arange(n)  # samples that no classifier has answered yet
        answering_stage = np.full(n, len(self.estimators_))
        # filled by the first stage in use, which is asked about every sample
        prediction = np.empty(n, self.classes_.dtype)
        for position, (name, model) in enumerate(zip(self.cascade_.names, self.estimators_)):
            if name not in self.cascade_.stages_in_use or len(open_rows) == 0:
                continue
            X_open = X if len(open_rows) == n else _safe_indexing(X, open_rows)
            prediction[open_rows] = model.predict(X_open)
            # confidences, or class scores and the score to compute from them
            confidence_arguments = predict_confidence_arguments(model, X_open, self.scores)
            # True where the stage's confidence suffices
            answered = self.cascade_.answers(name, **confidence_arguments)
            answering_stage[open_rows[answered]] = position
            open_rows = open_rows[~answered]
        if not self.cascade_.stages_in_use:
            prediction = np.asarray(self.estimators_[-1].predict(X))
        return StageAnswers(prediction, answering_stage)

    def _stages(self) -> list[tuple[str, Any]]:
        """Return names and classifiers, the cheapest first."""
        if self.estimators is None:
            return [("small", DummyClassifier()), ("large", LogisticRegression())]
        return list(self.estimators)
