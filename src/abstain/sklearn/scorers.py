"""Scorers for `scoring=`, and the risk-coverage display, scikit-learn fashion.

Higher is always better, as scikit-learn wants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics._scorer import _BaseScorer
from sklearn.pipeline import Pipeline

from abstain import display, metrics
from abstain._arrays import Array
from abstain.sklearn.estimators import Score, classifier_confidence


def predictions(estimator: Any, X: Array, score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Predictions without abstaining, and confidences; a selective estimator is asked for its own, piped or not."""
    if isinstance(estimator, Pipeline) and hasattr(estimator[-1], "confidence"):
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        estimator = estimator[-1]
    if hasattr(estimator, "confidence"):
        return estimator.predict_all(X), estimator.confidence(X)
    return np.asarray(estimator.predict(X)), classifier_confidence(estimator, X, score)


class SelectiveScorer(_BaseScorer):  # type: ignore[misc]
    """A metric of (loss, confidence) as a scorer of (estimator, X, y).

    It reads any classifier with probabilities or decision values, wrapped or not, and takes `sample_weight` (by
    metadata routing inside searches).
    """

    def _score(self, method_caller: Any, estimator: Any, X: Array, y_true: Array, **kwargs: Any) -> float:
        options = {**self._kwargs, **kwargs}
        prediction, confidence = predictions(estimator, X, options.pop("score"))
        wrong = prediction != np.asarray(y_true)
        return float(self._sign * self._score_func(wrong, confidence, **options))

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self._kwargs.items())
        return f"{'-' if self._sign < 0 else ''}{self._score_func.__name__} scorer ({shown})"


def _make(metric: Callable[..., Any], sign: int, **options: Any) -> SelectiveScorer:
    return SelectiveScorer(metric, sign, options, response_method="predict")


def aurc_scorer(*, score: Score = "max_softmax") -> SelectiveScorer:
    """Minus the area under the risk-coverage curve of the 0/1 loss.

    Minus `abstain.aurc`, equal confidences accepted together.

    Parameters
    ----------
    score : str or callable
        A confidence of `abstain.scores` by name, or a function of the probabilities (else decision values).

    Returns
    -------
    scorer
        For `scoring=`; higher is better.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> -0.05 < aurc_scorer()(LogisticRegression(max_iter=500).fit(X, y), X, y) <= 0
    True
    """
    return _make(metrics.aurc, -1, score=score)


def augrc_scorer(*, score: Score = "max_softmax") -> SelectiveScorer:
    """Minus the area under the generalised risk-coverage curve of the 0/1 loss.

    Minus `abstain.augrc`, equal confidences accepted together.

    Parameters
    ----------
    score : str or callable
        A confidence of `abstain.scores` by name, or a function of the probabilities (else decision values).

    Returns
    -------
    scorer
        For `scoring=`; higher is better.

    Examples
    --------
    >>> augrc_scorer()
    -augrc scorer (score='max_softmax')
    """
    return _make(metrics.augrc, -1, score=score)


def risk_at_coverage_scorer(coverage: float, *, score: Score = "max_softmax") -> SelectiveScorer:
    """Minus the error rate of the most confident share `coverage`.

    Minus `abstain.risk_at_coverage`, equal confidences accepted together.

    Parameters
    ----------
    coverage : float
        The share to accept at least.
    score : str or callable
        A confidence of `abstain.scores` by name, or a function of the probabilities (else decision values).

    Returns
    -------
    scorer
        For `scoring=`; higher is better.

    Examples
    --------
    >>> risk_at_coverage_scorer(0.8)
    -risk_at_coverage scorer (coverage=0.8, score='max_softmax')
    """
    return _make(metrics.risk_at_coverage, -1, coverage=coverage, score=score)


def coverage_at_risk_scorer(risk: float, *, score: Score = "max_softmax") -> SelectiveScorer:
    """The largest coverage whose error rate on these data is at most `risk`.

    `abstain.coverage_at_risk`, equal confidences accepted together.

    Parameters
    ----------
    risk : float
        The error rate of the accepted to stay within; no promise about new data.
    score : str or callable
        A confidence of `abstain.scores` by name, or a function of the probabilities (else decision values).

    Returns
    -------
    scorer
        For `scoring=`; higher is better.

    Examples
    --------
    >>> coverage_at_risk_scorer(0.05)
    coverage_at_risk scorer (risk=0.05, score='max_softmax')
    """
    return _make(metrics.coverage_at_risk, 1, risk=risk, score=score)


class EstimatorDisplay(display.RiskCoverageDisplay):
    """Curves of fitted classifiers, under the name `RiskCoverageDisplay` of `abstain.sklearn`.

    The selective risk of the 0/1 loss against coverage, equal confidences accepted together. `from_predictions` takes
    labels and probabilities, `from_losses` losses and confidences.

    Parameters
    ----------
    lines : tuple of CurveLine
        One for each curve; made by `from_estimator`, `from_predictions`, `from_losses` or `from_curves`.
    label : str
        Of the axis of risks.
    bands : tuple of (name, CurveBand)
        Around some of the curves, by their names.

    Examples
    --------
    >>> EstimatorDisplay.from_losses([False, True], [0.9, 0.2], name="mine").lines[0].risk
    (0.0, 0.5)
    """

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
    ) -> display.RiskCoverageDisplay:
        """The curve of the 0/1 loss of a fitted classifier; call `plot()` to draw it.

        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> shown = EstimatorDisplay.from_estimator(LogisticRegression(max_iter=500).fit(X, y), X, y)
        >>> shown.lines[0].name, shown.lines[0].coverage[-1]
        ('LogisticRegression', 1.0)
        """
        prediction, confidence = predictions(estimator, X, score)
        wrong, shown = prediction != np.asarray(y), name or type(estimator).__name__
        return cls.from_losses(wrong, confidence, name=shown, sample_weight=sample_weight)
