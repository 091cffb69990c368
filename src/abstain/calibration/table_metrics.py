"""Calibration as rows of a table: the metrics that `evaluate` takes by name beside those of the ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from abstain.calibration.brier import brier_score
from abstain.calibration.calibration_error import calibration_error
from abstain.inference.records import Interval


@dataclass(frozen=True, kw_only=True)
class CalibrationMetric:
    """A number about confidences that are probabilities.

    Attributes
    ----------
    name, label, summary : str
        As commands have it, as people write it, and one sentence for help.
    measure : callable
        `measure(right, confidence, level, clusters)` returns the interval. All arrays have one entry per answer.
    lower_is_better : bool
        The direction.
    """

    name: str
    label: str
    summary: str
    measure: Callable[[np.ndarray, np.ndarray, float, np.ndarray | None], Interval]
    lower_is_better: bool = True

    @property
    def key(self) -> str:
        """The name, since there are no options."""
        return self.name

    @property
    def full_label(self) -> str:
        """What tables call it."""
        return self.label


def _measure_brier(
    right: np.ndarray, confidence: np.ndarray, level: float, clusters: np.ndarray | None
) -> Interval:
    return brier_score(right, confidence, level=level, clusters=clusters).score


def _measure_calibration_error(
    right: np.ndarray, confidence: np.ndarray, level: float, clusters: np.ndarray | None
) -> Interval:
    return calibration_error(right, confidence, level=level, clusters=clusters).root


CALIBRATION_METRICS = {
    "brier_score": CalibrationMetric(
        name="brier_score",
        label="Brier score",
        summary="Mean squared difference between a confidence that is a probability and being right.",
        measure=_measure_brier,
    ),
    "calibration_error": CalibrationMetric(
        name="calibration_error",
        label="calibration error",
        summary="Root mean squared gap between confidence and accuracy over bins, debiased.",
        measure=_measure_calibration_error,
    ),
}
"""By name."""
