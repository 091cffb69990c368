"""Evidence: parts handled apart give what the whole gives, for every metric; and the values are the metrics'."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core.area_estimators import oracle_area
from abstain.core.part_sums import MomentTable, tables_from_samples, totals_from_tables
from abstain.core.rows import Rows
from abstain.inference.evidence import estimate_interval, gather_evidence, request_for
from abstain.metrics import METRICS, by_name
from abstain.metrics.metric import PointMetric

SMOOTH = [metric for metric in METRICS.values() if not isinstance(metric, PointMetric)]
PARTIAL = ["aurc@0.7-1", "aurc@0.2-0.9", "aurc@0-0.5", "prediction_rejection_ratio@0.4"]
POINTS = [
    "risk_at_coverage@0.5",
    "risk_at_coverage@0.8",
    "coverage_at_risk@0.1",
    "coverage_at_risk@0.2",
    "fpr_at_tpr@0.9",
]
ALL = [*SMOOTH, *map(by_name, PARTIAL), *map(by_name, POINTS)]


def pieces(table, count):
    """The table in parts, as ranges of an engine would hold it."""
    found = []
    for i in np.array_split(np.arange(len(table.rows.mass)), count):
        if len(i):
            rows = Rows(
                *(x[i] for x in table.rows[:4]), total_mass=table.rows.total_mass, has_empty_rows=False
            )
            squares, fourths = (
                [x[i] for x in columns]
                for columns in (table.squared_weight_moments, table.fourth_power_moments)
            )
            if table.squared_weight_moments[1] is table.squared_weight_moments[2]:
                squares, fourths = [squares[0], *2 * squares[1:2]], [fourths[0], *4 * fourths[1:2]]
            found.append(MomentTable(rows, squares, fourths))
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("levels", [None, 10])
@pytest.mark.parametrize("n", [60, 700])
def test_parts_give_what_the_whole_gives(n, levels, weighted):
    rng = np.random.default_rng(n)
    g = rng.random(n) if levels is None else rng.integers(0, levels, n) / levels
    l = (rng.random(n) < 0.6 * (1 - g)).astype(float)
    w = rng.random(n) if weighted else None
    tables = tables_from_samples(l, g, w)
    total = totals_from_tables(tables, n, True, False, w is None)
    best = float(oracle_area(np, l, w)) if weighted else None
    request = request_for(ALL)
    whole, apart = (gather_evidence(t, total, request, best) for t in (tables, pieces(tables[0], 5)))
    for metric in ALL:
        one, many = (estimate_interval(metric, evidence) for evidence in (whole, apart))
        assert one.estimate == pytest.approx(metric(l, g, sample_weight=w), rel=1e-12)
        for field in ("estimate", "standard_error", "low", "high"):
            assert getattr(many, field) == pytest.approx(getattr(one, field), rel=1e-9, abs=1e-12)
        assert one.low <= one.estimate <= one.high


def test_other_losses():
    rng = np.random.default_rng(3)
    g = rng.random(300)
    l = rng.exponential(1, 300) * (1 - g)
    tables = tables_from_samples(l, g)
    total = totals_from_tables(tables, 300, False, False, True)
    names = ["aurc", "augrc", "risk", "aurc@0.7-1", POINTS[0], "coverage_at_risk@0.3"]
    metrics = [by_name(name) for name in names]
    request = request_for(metrics)
    whole, apart = (gather_evidence(t, total, request) for t in (tables, pieces(tables[0], 4)))
    for metric in metrics:
        one, many = (estimate_interval(metric, evidence) for evidence in (whole, apart))
        assert one.estimate == pytest.approx(metric(l, g), rel=1e-12)
        assert [many.low, many.high] == pytest.approx([one.low, one.high], rel=1e-9)


@pytest.mark.parametrize("levels", [None, 10, 500])
@pytest.mark.parametrize("ties", ["threshold", "expected"])
def test_auroc_is_the_same_whatever_is_asked_beside_it(ties, levels):
    rng = np.random.default_rng(5)
    g = rng.random(600) if levels is None else rng.integers(0, levels, 600) / levels
    l = (rng.random(600) < 0.6 * (1 - g)).astype(float)
    tables = tables_from_samples(l, g)
    total = totals_from_tables(tables, 600, True, False, True)
    auroc, augrc = by_name("auroc"), by_name("augrc").with_options(ties=ties)
    beside, alone = (
        estimate_interval(auroc, gather_evidence(tables, total, request_for(metrics)))
        for metrics in ([augrc, auroc], [auroc])
    )
    assert beside.estimate == pytest.approx(abstain.auroc(l, g), rel=1e-12)
    for field in ("estimate", "standard_error", "low", "high"):
        assert getattr(beside, field) == pytest.approx(getattr(alone, field), rel=1e-9)
