"""Metrics: the public functions, and the definitions (`Metric`) that everything else reads."""

from abstain.core.influence import RowInfluence
from abstain.metrics._sample import CurveTable, Grouped, balanced_weights
from abstain.metrics.answer_metrics import (
    ANSWER_METRICS,
    AnswerMetric,
    answer_metric,
    score_at_price,
    score_at_target,
)
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

__all__ = [
    "ANSWER_METRICS",
    "METRICS",
    "AnswerMetric",
    "CurveTable",
    "Grouped",
    "Metric",
    "Option",
    "RejectionPoint",
    "RiskCoverageCurve",
    "RowInfluence",
    "answer_metric",
    "augrc",
    "aupr_error",
    "aupr_success",
    "aurc",
    "aurc_given_cdf",
    "auroc",
    "balanced_weights",
    "best_rejection",
    "by_name",
    "coverage_at_risk",
    "e_aurc",
    "fpr_at_tpr",
    "load",
    "naurc",
    "oracle_aurc",
    "prediction_rejection_ratio",
    "rank_weights",
    "register_metric",
    "rejection_cost",
    "risk",
    "risk_at_coverage",
    "risk_coverage_curve",
    "score_at_price",
    "score_at_target",
    "weights",
]
