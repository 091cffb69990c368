"""Know when not to predict.

Every metric is a weighted mean of losses, and a sample's weight depends only on how the confidences rank it.

Names are loaded on first use, so that `import abstain` costs little more than `import numpy`.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from abstain._engines import declare_engine

if TYPE_CHECKING:  # what type checkers and editors see of the names that `__getattr__` loads
    from abstain import (
        cascades,
        compat,
        core,
        display,
        engines,
        errors,
        evaluation,
        formats,
        inference,
        losses,
        metrics,
        report,
        scores,
        theory,
        thresholds,
    )
    from abstain import jax as jax
    from abstain import sklearn as sklearn
    from abstain import torch as torch
    from abstain.cascades import Cascade, CostRiskCurve, cascade, cost_risk_curve
    from abstain.display import RiskCoverageDisplay
    from abstain.evaluation import (
        Comparison,
        Evaluation,
        ExpectedAURC,
        ThreeWay,
        compare,
        evaluate,
        expected_aurc,
        three_way,
    )
    from abstain.metrics import (
        Grouped,
        Metric,
        RejectionPoint,
        RiskCoverageCurve,
        augrc,
        aupr_error,
        aupr_success,
        aurc,
        aurc_given_cdf,
        auroc,
        balanced_weights,
        best_rejection,
        coverage_at_risk,
        e_aurc,
        fpr_at_tpr,
        naurc,
        oracle_aurc,
        prediction_rejection_ratio,
        rank_weights,
        register_metric,
        rejection_cost,
        risk,
        risk_at_coverage,
        risk_coverage_curve,
        weights,
    )
    from abstain.thresholds import (
        Check,
        ClinicalTable,
        CostCurve,
        GroupChecks,
        GroupThresholds,
        Threshold,
        class_costs,
        clinical_table,
        cost_curve,
        decision_record,
        load_rule,
        select_threshold,
    )

__version__ = "0.1.0"

__all__ = [
    "Cascade",
    "Check",
    "ClinicalTable",
    "Comparison",
    "CostCurve",
    "CostRiskCurve",
    "Evaluation",
    "ExpectedAURC",
    "GroupChecks",
    "GroupThresholds",
    "Grouped",
    "Metric",
    "RejectionPoint",
    "RiskCoverageCurve",
    "RiskCoverageDisplay",
    "ThreeWay",
    "Threshold",
    "augrc",
    "aupr_error",
    "aupr_success",
    "aurc",
    "aurc_given_cdf",
    "auroc",
    "balanced_weights",
    "best_rejection",
    "cascade",
    "cascades",
    "class_costs",
    "clinical_table",
    "compare",
    "compat",
    "core",
    "cost_curve",
    "cost_risk_curve",
    "coverage_at_risk",
    "decision_record",
    "display",
    "e_aurc",
    "engines",
    "errors",
    "evaluate",
    "evaluation",
    "expected_aurc",
    "formats",
    "fpr_at_tpr",
    "inference",
    "load_rule",
    "losses",
    "metrics",
    "naurc",
    "oracle_aurc",
    "prediction_rejection_ratio",
    "rank_weights",
    "register_metric",
    "rejection_cost",
    "report",
    "risk",
    "risk_at_coverage",
    "risk_coverage_curve",
    "scores",
    "select_threshold",
    "theory",
    "three_way",
    "thresholds",
    "weights",
]
_OPTIONAL = ("jax", "sklearn", "torch")  # modules that need an extra, so not for `from abstain import *`
# of functions and classes, cheapest first
_HOMES = ("metrics", "thresholds", "display", "evaluation", "cascades")

declare_engine("path", "abstain.formats.file_evaluation")  # `evaluate("predictions.parquet")`
declare_engine("table", "abstain.formats.file_evaluation")  # `evaluate(frame)`
declare_engine("files", "abstain.engines.files")
declare_engine("dask", "abstain.engines.dask")
declare_engine("spark", "abstain.engines.spark")

if not TYPE_CHECKING:  # for type checkers a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        if name not in __all__ and name not in _OPTIONAL:
            raise AttributeError(f"module 'abstain' has no attribute {name!r}")
        try:
            if importlib.util.find_spec(f"abstain.{name}"):
                return importlib.import_module(f"abstain.{name}")
        except ImportError as problem:  # so that hasattr(abstain, "jax") is False where jax is missing
            raise AttributeError(str(problem)) from problem
        homes = (importlib.import_module(f"abstain.{home}") for home in _HOMES)
        value = next(getattr(home, name) for home in homes if name in home.__all__)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_OPTIONAL, "__version__"])
