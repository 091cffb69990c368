"""The risk-coverage display, scikit-learn fashion."""

from __future__ import annotations

from typing import Any

import numpy as np

from abstain import display
from abstain._arrays import Array
from abstain.sklearn.confidence import Score
from abstain.sklearn.scorers import answers


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
