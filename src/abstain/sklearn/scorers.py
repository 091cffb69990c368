"""Scorers for the `scoring=` argument of scikit-learn, and the risk-coverage display of fitted classifiers.

`metric_scorer` makes a scorer from any metric; `aurc_scorer` and the others make one from a fixed metric. Higher is
better for every scorer, as scikit-learn requires: if lower is better, the metric is negated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics._scorer import _BaseScorer
from sklearn.pipeline import Pipeline

from abstain import display
from abstain._arrays import Array, ArrayLike
from abstain.metrics.definitions import by_name
from abstain.metrics.metric import Metric
from abstain.sklearn.estimators import Score, classifier_confidence


def predict_with_confidence(estimator: Any, X: ArrayLike, score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Return a prediction for every sample, without abstaining, and its confidence.

    A selective estimator, alone or at the end of a pipeline, has its own confidence, and `score` is not used. For other
    classifiers it is computed by `score`: a name in `abstain.scores`, or a function of the class scores. `X` holds the
    inputs, one row per sample.
    """
    if isinstance(estimator, Pipeline) and hasattr(estimator[-1], "confidence"):
        # a Pipeline does not pass on `confidence`, so its steps are called here
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X  # by all steps before the last
        estimator = estimator[-1]
    if hasattr(estimator, "confidence"):
        return estimator.predict_all(X), estimator.confidence(X)
    return np.asarray(estimator.predict(X)), classifier_confidence(estimator, X, score)


class SelectiveScorer(_BaseScorer):  # type: ignore[misc]
    """A `Metric` of (loss, confidence) as a scorer of (estimator, X, y).

    It takes any classifier with probabilities or decision values, selective or not, and `sample_weight` (by metadata
    routing inside searches).
    """

    def _score(self, method_caller: Any, estimator: Any, X: Array, y_true: Array, **kwargs: Any) -> float:
        """Compute the metric of the 0/1 loss, negated if lower is better.

        scikit-learn calls it with a `method_caller`, which is not used. `kwargs` (such as `sample_weight`) are passed
        to the metric, but for "score", which names the confidence. `X` holds the inputs, one row per sample.
        """
        options = {**self._kwargs, **kwargs}  # those of `metric_scorer`, then those of this call
        prediction, confidence = predict_with_confidence(estimator, X, options.pop("score"))
        is_wrong = prediction != np.asarray(y_true)
        # names of scikit-learn: `_score_func` is the metric, and `_sign` is -1 if lower is better, otherwise 1
        return float(self._sign * self._score_func(is_wrong, confidence, **options))

    def __repr__(self) -> str:
        sign = "-" if self._sign < 0 else ""
        return f"{sign}{self._score_func.key} scorer (score={self._kwargs['score']!r})"


def metric_scorer(
    metric: str | Metric | Callable[..., Any], *, score: Score = "max_softmax", **options: Any
) -> SelectiveScorer:
    """Make a scorer from any metric: the metric of the 0/1 loss, negated if lower is better.

    Parameters
    ----------
    metric : str, Metric or function
        A name such as "aupr_error" or "risk_at_coverage@0.9", a function such as `abstain.aurc`, or your own `Metric`.
    score : str or callable
        The confidence: a name in `abstain.scores`, or a function of the probabilities (decision values if there are
        no probabilities).
    **options
        Options of the metric, e.g. `coverage=0.9` for "risk_at_coverage".

    Returns
    -------
    scorer
        For `scoring=`; higher is better.

    Raises
    ------
    InputError
        If the metric or an option is unknown.

    Examples
    --------
    >>> metric_scorer("auroc")
    auroc scorer (score='max_softmax')
    >>> metric_scorer("risk_at_coverage", coverage=0.9)
    -risk_at_coverage@0.9 scorer (score='max_softmax')
    """
    # the `Metric` with these options; "metric_scorer" is the function that errors name
    definition = by_name(metric, "metric_scorer").with_checked_options("metric_scorer", options)
    sign = -1 if definition.lower_is_better else 1
    # `SelectiveScorer._score` calls predictions and confidences itself. scikit-learn requires a response method all the
    # same, and looks for it in the estimator where there are several scorers; every classifier has `predict`.
    return SelectiveScorer(definition, sign, {"score": score}, response_method="predict")


def aurc_scorer(*, score: Score = "max_softmax") -> SelectiveScorer:
    """Minus the area under the risk-coverage curve of the 0/1 loss.

    Minus `abstain.aurc`, equal confidences accepted together.

    Parameters
    ----------
    score : str or callable
        The confidence: a name in `abstain.scores`, or a function of the probabilities (decision values if there are
        no probabilities).

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
    # `metric_scorer` negates metrics of which lower is better, as this one
    return metric_scorer("aurc", score=score)


def augrc_scorer(*, score: Score = "max_softmax") -> SelectiveScorer:
    """Minus the area under the generalised risk-coverage curve of the 0/1 loss.

    Minus `abstain.augrc`, equal confidences accepted together.

    Parameters
    ----------
    score : str or callable
        The confidence: a name in `abstain.scores`, or a function of the probabilities (decision values if there are
        no probabilities).

    Returns
    -------
    scorer
        For `scoring=`; higher is better.

    Examples
    --------
    >>> augrc_scorer()
    -augrc scorer (score='max_softmax')
    """
    # `metric_scorer` negates metrics of which lower is better, as this one
    return metric_scorer("augrc", score=score)


def risk_at_coverage_scorer(coverage: float, *, score: Score = "max_softmax") -> SelectiveScorer:
    """Minus the error rate of the most confident share `coverage`.

    Minus `abstain.risk_at_coverage`, equal confidences accepted together.

    Parameters
    ----------
    coverage : float
        The smallest share of samples to accept.
    score : str or callable
        The confidence: a name in `abstain.scores`, or a function of the probabilities (decision values if there are
        no probabilities).

    Returns
    -------
    scorer
        For `scoring=`; higher is better.

    Examples
    --------
    >>> risk_at_coverage_scorer(0.8)
    -risk_at_coverage@0.8 scorer (score='max_softmax')
    """
    # `metric_scorer` negates metrics of which lower is better, as this one
    return metric_scorer("risk_at_coverage", score=score, coverage=coverage)


def coverage_at_risk_scorer(risk: float, *, score: Score = "max_softmax") -> SelectiveScorer:
    """The largest coverage whose error rate on these data is at most `risk`.

    `abstain.coverage_at_risk`, equal confidences accepted together.

    Parameters
    ----------
    risk : float
        The largest error rate of accepted samples; no promise about new data.
    score : str or callable
        The confidence: a name in `abstain.scores`, or a function of the probabilities (decision values if there are
        no probabilities).

    Returns
    -------
    scorer
        For `scoring=`; higher is better.

    Examples
    --------
    >>> coverage_at_risk_scorer(0.05)
    coverage_at_risk@0.05 scorer (score='max_softmax')
    """
    # `metric_scorer` does not negate this metric, of which higher is better
    return metric_scorer("coverage_at_risk", score=score, risk=risk)


class EstimatorDisplay(display.RiskCoverageDisplay):
    """Risk-coverage curves of fitted classifiers; `abstain.sklearn` exports it as `RiskCoverageDisplay`.

    The selective risk of the 0/1 loss against coverage, equal confidences accepted together. `from_predictions` takes
    labels and probabilities, `from_losses` losses and confidences.

    Parameters
    ----------
    lines : tuple of CurveLine
        One for each curve; made by `from_estimator`, `from_predictions`, `from_losses` or `from_curves`.
    label : str
        Of the axis of risks.
    bands : tuple of (name, CurveBand)
        Confidence bands around some of the curves, by the names of the curves.
    style_numbers : tuple of int
        For each curve, the number of its colour and dashes; empty: 0, 1, 2 ... in the order of the curves.

    Examples
    --------
    >>> EstimatorDisplay.from_losses([False, True], [0.9, 0.2], name="mine").lines[0].risk
    (0.0, 0.5)
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        score: Score = "max_softmax",
        name: str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> display.RiskCoverageDisplay:
        """Compute the curve of the 0/1 loss of a fitted classifier; call `plot()` to draw it.

        `score` is the confidence: a name in `abstain.scores`, or a function of the probabilities (decision values if
        there are no probabilities). `name` labels the curve, by default with the class of the estimator.
        `sample_weight` is the mass of each sample (None: 1 for all).

        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> curves = EstimatorDisplay.from_estimator(LogisticRegression(max_iter=500).fit(X, y), X, y)
        >>> curves.lines[0].name, curves.lines[0].coverage[-1]
        ('LogisticRegression', 1.0)
        """
        # of every sample; a selective classifier does not abstain here
        prediction, confidence = predict_with_confidence(estimator, X, score)
        is_wrong = prediction != np.asarray(y)
        curve_name = name or type(estimator).__name__
        return cls.from_losses(is_wrong, confidence, name=curve_name, sample_weight=sample_weight)
