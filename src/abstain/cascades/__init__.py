"""Decide which model answers: cheap models first, expensive ones next, a person last, with a promise on the risk."""

from abstain.cascades.build import cascade
from abstain.cascades.cascade_rule import Cascade
from abstain.cascades.curve import CostRiskCurve, cost_risk_curve
from abstain.cascades.joint_cascade import JointCascade, load_cascade

__all__ = ["Cascade", "CostRiskCurve", "JointCascade", "cascade", "cost_risk_curve", "load_cascade"]
