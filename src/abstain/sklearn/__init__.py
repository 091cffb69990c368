"""scikit-learn: a classifier and a regressor that may abstain, scorers, and the risk-coverage display."""

from abstain.errors import MissingDependencyError

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as _error:  # pragma: no cover
    raise MissingDependencyError("abstain.sklearn", "scikit-learn", "sklearn") from _error

from abstain.sklearn.estimators import CascadeClassifier, SelectiveClassifier, SelectiveRegressor
from abstain.sklearn.scorers import EstimatorDisplay as RiskCoverageDisplay
from abstain.sklearn.scorers import (
    augrc_scorer,
    aurc_scorer,
    coverage_at_risk_scorer,
    metric_scorer,
    risk_at_coverage_scorer,
)

__all__ = [
    "CascadeClassifier",
    "RiskCoverageDisplay",
    "SelectiveClassifier",
    "SelectiveRegressor",
    "augrc_scorer",
    "aurc_scorer",
    "coverage_at_risk_scorer",
    "metric_scorer",
    "risk_at_coverage_scorer",
]
