"""One confidence per sample from a fitted scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from abstain import scores
from abstain._arrays import Array
from abstain.errors import InputError

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
