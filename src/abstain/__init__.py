"""Know when not to predict.

Every metric is a weighted mean of losses, and a sample's weight depends only on how the confidences rank it.

Names are loaded on first use, so that `import abstain` costs little more than `import numpy`.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# public name -> module that defines it
_HOME = {
    "Check": "thresholds",
    "ClinicalTable": "thresholds",
    "Comparison": "evaluation",
    "CostCurve": "thresholds",
    "Evaluation": "evaluation",
    "ExpectedAURC": "evaluation",
    "GroupThresholds": "thresholds",
    "Grouped": "metrics",
    "RejectionPoint": "metrics",
    "RiskCoverageCurve": "metrics",
    "RiskCoverageDisplay": "display",
    "Threshold": "thresholds",
    "augrc": "metrics",
    "aupr_error": "metrics",
    "aupr_success": "metrics",
    "aurc": "metrics",
    "aurc_given_cdf": "metrics",
    "auroc": "metrics",
    "balanced_weights": "metrics",
    "best_rejection": "metrics",
    "class_costs": "thresholds",
    "clinical_table": "thresholds",
    "compare": "evaluation",
    "cost_curve": "thresholds",
    "coverage_at_risk": "metrics",
    "e_aurc": "metrics",
    "evaluate": "evaluation",
    "expected_aurc": "evaluation",
    "fpr_at_tpr": "metrics",
    "naurc": "metrics",
    "oracle_aurc": "metrics",
    "prediction_rejection_ratio": "metrics",
    "rank_weights": "metrics",
    "rejection_cost": "metrics",
    "risk": "metrics",
    "risk_at_coverage": "metrics",
    "risk_coverage_curve": "metrics",
    "select_threshold": "thresholds",
    "weights": "metrics",
}
_MODULES = (
    "compat",
    "core",
    "display",
    "engines",
    "errors",
    "evaluation",
    "formats",
    "inference",
    "jax",
    "losses",
    "metrics",
    "report",
    "scores",
    "sklearn",
    "theory",
    "thresholds",
    "torch",
)

__all__ = [*sorted(_HOME), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"abstain.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"abstain.{name}")
    raise AttributeError(f"module 'abstain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
