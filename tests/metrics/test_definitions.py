"""The definitions of metrics against the public functions."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

import abstain
from abstain.core.rows import rows_from_numpy
from abstain.metrics import METRICS, CurveTable, by_name
from abstain.metrics.answer_metrics import ANSWER_METRICS, answer_metric, score_at_price, score_at_target

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


NUMBERS = [0.9, 1 / 3, 0.1 + 0.2, 0.123456789, 1e-7]
RANGES = [(0.7, 1.0), (0, 1 / 3), (1e-7, 0.5), (0.1 + 0.2, 0.123456789 + 0.5), (0.0, 1.0)]


@pytest.mark.parametrize("name", list(METRICS))
def test_the_key_of_a_metric_is_read_back_with_every_option(name):
    metric = METRICS[name]
    plain = by_name(metric.key)
    assert (plain.name, plain.key, plain.option_values) == (name, metric.key, metric.option_values)
    values = [
        [None, *(option.choices or (RANGES if isinstance(option.default, tuple) else NUMBERS))]
        for option in metric.options
    ]
    for chosen in product(*values):
        options = {option.name: value for option, value in zip(metric.options, chosen) if value is not None}
        try:
            expected = metric.with_options(**options)
        except abstain.errors.InputError:  # such as a range of coverages with another estimator
            continue
        if options:
            assert by_name(expected.key) == expected
            assert by_name(expected.key).key == expected.key


def test_the_key_of_a_metric_of_answers_is_read_back():
    with_numbers = [score_at_target(x) for x in NUMBERS] + [score_at_price(x) for x in (*NUMBERS, 0, 2, 1e20)]
    for metric in (*ANSWER_METRICS.values(), *with_numbers):
        assert answer_metric(metric.key) == metric


def test_labels_are_short_although_keys_have_every_digit():
    metric = by_name("risk_at_coverage").with_options(coverage=1 / 3)
    assert metric.key == "risk_at_coverage@0.3333333333333333"
    assert metric.full_label.endswith(" 0.333333")
    table = abstain.evaluate(loss=LOSS, confidence=range(len(LOSS)), metrics=[metric])
    assert table[metric.key].estimate == metric(LOSS, range(len(LOSS)))
