"""The definitions of metrics against the public functions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import abstain
from abstain.core.rows import rows_from_numpy
from abstain.metrics import METRICS, CurveTable, by_name

LOSS = np.array([0, 1, 0, 0, 1, 1, 0, 0, 0, 1.0])


def test_every_definition_has_the_value_of_the_public_function():
    confidence = np.random.default_rng(1).permutation(10.0 * np.arange(10))
    for name, metric in METRICS.items():
        assert metric.name == name
        rows = rows_from_numpy(LOSS, confidence)
        by_loss = rows_from_numpy(LOSS, -LOSS)
        table = CurveTable(rows=rows, total_mass=10.0, rows_by_loss=lambda rows=by_loss: rows)
        assert metric.compute(table) == pytest.approx(metric(LOSS, confidence), rel=1e-12)


def test_every_metric_of_loss_and_confidence_is_there():
    left_out = {
        "aurc_given_cdf",
        "rejection_cost",
        "best_rejection",
        "risk_coverage_curve",
    }  # take more than that
    others = {"weights", "rank_weights", "balanced_weights", "by_name", "load", "register_metric"}
    others |= {"answer_metric", "score_at_price", "score_at_target"}  # metrics of graded answers
    functions = {name for name in abstain.metrics.__all__ if name.islower()}
    assert functions - left_out - others == set(METRICS)


@pytest.mark.parametrize("name", list(METRICS))
def test_directions(name):
    """Errors at the bottom are better than errors on top, or as good where the ranking plays no part."""
    metric = by_name(name)
    good, bad = metric(LOSS, -LOSS + np.arange(10) / 100), metric(LOSS, LOSS + np.arange(10) / 100)
    if name in ("risk", "oracle_aurc"):
        assert good == bad
    else:
        assert (good < bad) == metric.lower_is_better
        assert good != bad


@pytest.mark.parametrize("name", list(METRICS))
def test_stated_needs(name):
    metric = by_name(name)
    confidence = np.arange(10.0)
    if metric.needs.zero_one:
        with pytest.raises(abstain.errors.InputError):
            metric(LOSS * 2.5, confidence)
    else:
        assert np.isfinite(metric(LOSS * 2.5, confidence))
    if metric.needs.both_kinds:
        with pytest.raises(abstain.errors.InfeasibleError):
            metric(LOSS * 0, confidence)
    else:
        assert np.isfinite(metric(LOSS * 0, confidence))


@pytest.mark.parametrize("name", list(METRICS))
def test_smooth_metrics_have_a_standard_error(name):
    metric = by_name(name)
    confidence = np.random.default_rng(0).random(10)
    if metric.is_smooth:
        assert abstain.inference.standard_error(metric, LOSS, confidence) > 0
    else:
        with pytest.raises(abstain.errors.InputError, match="influence"):
            abstain.inference.standard_error(metric, LOSS, confidence)


@pytest.mark.parametrize("name", list(METRICS))
def test_a_definition_is_equal_to_itself_in_another_process(name):
    metric = by_name(name)
    assert pickle.loads(pickle.dumps(metric)) == metric
    if metric.is_smooth:
        assert pickle.loads(pickle.dumps(metric.area)) == metric.area
