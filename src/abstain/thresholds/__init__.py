"""Which threshold to ship, what it promises, and whether the promise still holds."""

from abstain.thresholds.calibration import Candidates
from abstain.thresholds.cut import Cut
from abstain.thresholds.joint import JointGroupThresholds, JointThreshold
from abstain.thresholds.loading import load_rule
from abstain.thresholds.monitoring import Check, ConfidenceCheck, GroupChecks
from abstain.thresholds.outcomes import ClinicalTable, CostCurve, class_costs, clinical_table, cost_curve
from abstain.thresholds.record import decision_record
from abstain.thresholds.rules import GroupThresholds, Origin, Threshold
from abstain.thresholds.select import select_threshold
from abstain.thresholds.testing import clopper_pearson

__all__ = [
    "Candidates",
    "Check",
    "ClinicalTable",
    "CostCurve",
    "Cut",
    "GroupThresholds",
    "Threshold",
    "class_costs",
]
__all__ += [
    "ConfidenceCheck",
    "GroupChecks",
    "JointGroupThresholds",
    "JointThreshold",
    "Origin",
    "decision_record",
    "load_rule",
]
__all__ += ["clinical_table", "clopper_pearson", "cost_curve", "select_threshold"]
