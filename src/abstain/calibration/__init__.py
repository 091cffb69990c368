"""Calibration: whether answers with confidence 0.8 are right 80% of the time.

This is another question than the rest of the package asks. A ranking can be perfect while the confidences are wrong as
probabilities, and the other way round; thresholds with a guarantee need no calibrated confidence. It matters where the
number itself is shown or used: a stated confidence, a price that depends on it, a threshold at a fixed probability.

Confidences are probabilities from 0 to 1 here.
"""

from abstain.calibration.brier import BrierScore, brier_score
from abstain.calibration.calibration_error import CalibrationError, calibration_error
from abstain.calibration.reliability import ReliabilityCurve, reliability_curve

__all__ = [
    "BrierScore",
    "CalibrationError",
    "ReliabilityCurve",
    "brier_score",
    "calibration_error",
    "reliability_curve",
]
