"""Values that are equal except for rounding."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.inference import interval


def test_naurc_does_not_call_an_order_perfect_where_its_scale_is_empty():
    """Twice SELE of the best order is the mean loss here: a worse order has an excess, and nothing to divide it by."""
    loss = [1, 1, 1, 0]
    assert abstain.metrics.oracle_aurc(loss, estimator="2sele") == abstain.risk(loss)
    with pytest.raises(abstain.errors.InfeasibleError, match='naurc: by estimator="2sele"'):
        abstain.naurc(loss, [4, 3, 2, 1], estimator="2sele")
    with pytest.raises(abstain.errors.InfeasibleError, match='naurc: by estimator="sele"'):
        abstain.naurc([-1, -2], [2, 1], estimator="sele")
    assert abstain.naurc([1, 1], [1, 2], estimator="2sele") == 0


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n", [60, 1000, 30_000])
@pytest.mark.parametrize("metric", ["naurc", "prediction_rejection_ratio"])
def test_equal_losses_leave_nothing_to_gain_however_their_sums_round(metric, n, tied):
    confidence = np.arange(n) % 5.0 if tied else np.arange(n)
    for value in (0.3, 0.7, 1e-5, 1.7):
        loss = np.full(n, value)
        assert abstain.metrics.by_name(metric)(loss, confidence) == 0
        assert interval(metric, loss, confidence).estimate == 0
