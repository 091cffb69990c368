"""The public metrics: check, delegate to `core`, return."""

from abstain.core.influence import RowInfluence
from abstain.metrics._sample import CurveTable, Grouped, balanced_weights
from abstain.metrics.areas import (
    augrc,
    aurc,
    aurc_given_cdf,
    e_aurc,
    naurc,
    oracle_aurc,
    rank_weights,
    weights,
)
from abstain.metrics.definitions import METRICS, by_name, load, register_metric
from abstain.metrics.metric import Metric, Option
from abstain.metrics.points import (
    RejectionPoint,
    RiskCoverageCurve,
    aupr_error,
    aupr_success,
    auroc,
    best_rejection,
    coverage_at_risk,
    fpr_at_tpr,
    prediction_rejection_ratio,
    rejection_cost,
    risk,
    risk_at_coverage,
    risk_coverage_curve,
)

__all__ = ["augrc", "aurc", "aurc_given_cdf", "e_aurc", "naurc", "oracle_aurc", "rank_weights", "weights"]
__all__ += ["aupr_error", "aupr_success", "auroc", "fpr_at_tpr", "prediction_rejection_ratio"]
__all__ += ["Grouped", "balanced_weights"]
__all__ += ["METRICS", "CurveTable", "Metric", "Option", "RowInfluence", "by_name", "load", "register_metric"]
__all__ += ["RejectionPoint", "RiskCoverageCurve", "best_rejection", "coverage_at_risk", "rejection_cost"]
__all__ += ["risk", "risk_at_coverage", "risk_coverage_curve"]
