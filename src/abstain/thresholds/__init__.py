"""Which threshold to ship, what it promises, and whether the promise still holds."""

from abstain.thresholds.candidates import Candidates
from abstain.thresholds.clinic import ClinicalTable, clinical_table
from abstain.thresholds.costs import CostCurve, class_costs, cost_curve
from abstain.thresholds.grouped import GroupThresholds
from abstain.thresholds.intervals import clopper_pearson
from abstain.thresholds.monitor import Check
from abstain.thresholds.select import select_threshold
from abstain.thresholds.threshold import Threshold

__all__ = [
    "Candidates",
    "Check",
    "ClinicalTable",
    "CostCurve",
    "GroupThresholds",
    "Threshold",
    "class_costs",
    "clinical_table",
    "clopper_pearson",
    "cost_curve",
    "select_threshold",
]
