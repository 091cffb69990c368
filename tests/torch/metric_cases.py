"""All metrics at once, as a collection."""

from __future__ import annotations

from torchmetrics import MetricCollection

from abstain.torch import AUGRC, AURC, AUROC, EAURC, NAURC, CoverageAtRisk, RiskAtCoverage


def metrics(**options):
    return {
        "aurc": AURC(**options),
        "augrc": AUGRC(**options),
        "e_aurc": EAURC(**options),
        "naurc": NAURC(**options),
        "risk_at_coverage": RiskAtCoverage(coverage=0.7, **options),
        "coverage_at_risk": CoverageAtRisk(risk=0.3, **options),
        "auroc": AUROC(**options),
    }


def collection(**options) -> MetricCollection:
    return MetricCollection(metrics(**options))


ARGUMENTS = {"risk_at_coverage": {"coverage": 0.7}, "coverage_at_risk": {"risk": 0.3}}
