"""Sums over parts of a ranking add up to those of the whole."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core.part_sums import tables_from_samples, totals_from_tables
from abstain.inference.evidence import estimate_interval, gather_evidence, request_for
from abstain.metrics import by_name
from tests.inference.test_evidence import pieces


@pytest.mark.parametrize("ties", ["threshold", "expected"])
@pytest.mark.parametrize("estimator", ["harmonic", "loo", "log", "sele"])
def test_parts_of_every_estimator(estimator, ties):
    """Parts without a tie beside parts that are all ties."""
    rng = np.random.default_rng(5)
    g = np.where(rng.random(600) < 0.5, rng.integers(0, 8, 600) / 8, rng.random(600))
    l = rng.random(600) < 0.5 * (1 - g)
    tables = tables_from_samples(l, g)
    total = totals_from_tables(tables, 600, True, False, True)
    metric = by_name("aurc").with_options(estimator=estimator, ties=ties)
    request = request_for([metric])
    whole, apart = (gather_evidence(t, total, request) for t in (tables, pieces(tables[0], 40)))
    one, many = (estimate_interval(metric, evidence) for evidence in (whole, apart))
    assert one.estimate == pytest.approx(abstain.aurc(l, g, estimator=estimator, ties=ties), rel=1e-12)
    assert [many.estimate, many.standard_error, many.low, many.high] == pytest.approx(
        [one.estimate, one.standard_error, one.low, one.high], rel=1e-9
    )
