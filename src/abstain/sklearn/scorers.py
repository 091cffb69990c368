"""Scorers for `scoring=`, and the risk-coverage display, scikit-learn fashion.

Higher is always better, as scikit-learn wants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics._scorer import _BaseScorer

from abstain import display, metrics
from abstain._arrays import Array
from abstain.sklearn.estimators import Score, classifier_confidence

# scorers ------------------------------------------------------------------------------------------
#
# Scorers for `scoring=`: threshold-free and at one operating point. Higher is always better, as scikit-learn wants.
#
# They read any classifier with probabilities or decision values, wrapped or not, and take `sample_weight` (by metadata
# routing inside searches).


def answers(estimator: Any, X: Array, score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Predictions without abstaining, and confidences; a selective estimator is asked for its own."""
    if hasattr(estimator, "predict_selective"):
        return estimator.predict_selective(X)[0], estimator.confidence(X)
    return np.asarray(estimator.predict(X)), classifier_confidence(estimator, X, score)


class _SelectiveScorer(_BaseScorer):  # type: ignore[misc]
    """A metric of (loss, confidence) as a scorer of (estimator, X, y)."""

    def _score(self, method_caller: Any, estimator: Any, X: Array, y_true: Array, **kwargs: Any) -> float:
        options = {**self._kwargs, **kwargs}
        score = options.pop("score")
        prediction, confidence = answers(estimator, X, score)
        wrong = prediction != np.asarray(y_true)
        return float(self._sign * self._score_func(wrong, confidence, **options))

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self._kwargs.items())
        return f"{'-' if self._sign < 0 else ''}{self._score_func.__name__} scorer ({shown})"


def _make(metric: Callable[..., Any], sign: int, **options: Any) -> _SelectiveScorer:
    return _SelectiveScorer(metric, sign, options, response_method="predict")


def _aurc(loss: Array, confidence: Array, sample_weight: Array | None = None) -> float:
    return float(metrics.aurc(loss, confidence, sample_weight=sample_weight))


def _augrc(loss: Array, confidence: Array, sample_weight: Array | None = None) -> float:
    return float(metrics.augrc(loss, confidence, sample_weight=sample_weight))


def _risk(loss: Array, confidence: Array, coverage: float, sample_weight: Array | None = None) -> float:
    return float(metrics.risk_at_coverage(loss, confidence, coverage=coverage, sample_weight=sample_weight))


def _coverage(loss: Array, confidence: Array, risk: float, sample_weight: Array | None = None) -> float:
    return float(metrics.coverage_at_risk(loss, confidence, risk=risk, sample_weight=sample_weight))


def aurc_scorer(*, score: Score = "max_softmax") -> _SelectiveScorer:
    """Minus the area under the risk-coverage curve of the 0/1 loss.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> -0.05 < aurc_scorer()(LogisticRegression(max_iter=500).fit(X, y), X, y) <= 0
    True
    """
    return _make(_aurc, -1, score=score)


def augrc_scorer(*, score: Score = "max_softmax") -> _SelectiveScorer:
    """Minus the area under the generalised risk-coverage curve of the 0/1 loss."""
    return _make(_augrc, -1, score=score)


def risk_at_coverage_scorer(coverage: float, *, score: Score = "max_softmax") -> _SelectiveScorer:
    """Minus the error rate of the most confident share `coverage`."""
    return _make(_risk, -1, coverage=coverage, score=score)


def coverage_at_risk_scorer(risk: float, *, score: Score = "max_softmax") -> _SelectiveScorer:
    """The largest coverage whose error rate on these data is at most `risk`."""
    return _make(_coverage, 1, risk=risk, score=score)


# display ------------------------------------------------------------------------------------------
#
# The risk-coverage display, scikit-learn fashion.


class RiskCoverageDisplay(display.RiskCoverageDisplay):
    """Curves of fitted classifiers; `from_predictions` takes losses and confidences as elsewhere in the package."""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Array,
        y: Array,
        *,
        score: Score = "max_softmax",
        name: str | None = None,
        sample_weight: Array | None = None,
    ) -> RiskCoverageDisplay:
        """The curve of the 0/1 loss of a fitted classifier; call `plot()` to draw it.

        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> shown = RiskCoverageDisplay.from_estimator(LogisticRegression(max_iter=500).fit(X, y), X, y)
        >>> shown.lines[0].name, shown.lines[0].coverage[-1]
        ('LogisticRegression', 1.0)
        """
        prediction, confidence = answers(estimator, X, score)
        wrong = prediction != np.asarray(y)
        label = type(estimator).__name__ if name is None else name
        result: RiskCoverageDisplay = cls.from_predictions(  # type: ignore[assignment]
            wrong, confidence, name=label, sample_weight=sample_weight
        )
        return result
