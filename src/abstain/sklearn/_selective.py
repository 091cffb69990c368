"""What the selective classifier and regressor share: splitting, calibrating, accepting."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter

from abstain._arrays import Array
from abstain.errors import InputError
from abstain.thresholds import Threshold, select_threshold

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
