"""Decide which model answers: cheap models first, expensive ones next, a person last, with a promise on the risk."""

from abstain.cascades.build import Cascade, cascade
from abstain.cascades.curve import CostRiskCurve, cost_risk_curve

__all__ = ["Cascade", "CostRiskCurve", "cascade", "cost_risk_curve"]
