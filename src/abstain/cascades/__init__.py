"""Who should answer, at what cost, with a promise: cheap models first, dear ones next, a person last."""

from abstain.cascades.build import Cascade, cascade
from abstain.cascades.curve import CostRiskCurve, cost_risk_curve

__all__ = ["Cascade", "CostRiskCurve", "cascade", "cost_risk_curve"]
