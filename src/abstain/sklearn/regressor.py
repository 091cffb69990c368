"""A regressor that says when not to trust it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from abstain._arrays import Array
from abstain.errors import InputError
from abstain.sklearn._selective import CROSS_NOTE, Selective
from abstain.thresholds import Threshold, select_threshold
from abstain.thresholds.select import Method

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
