"""Limits from an estimate and its standard error, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtrit

import abstain
from abstain.inference import (
    influence,
    interval,
)
from tests.inference.test_intervals import sample


@pytest.mark.parametrize("levels", [None, 10])
@pytest.mark.parametrize("estimator", ["harmonic", "log", "loo"])
def test_log_interval_is_centred_at_loo_whatever_is_printed(estimator, levels):
    l, g = sample(300, 1, levels)
    found = interval("aurc", l, g, estimator=estimator)
    values = influence("aurc", l, g, estimator=estimator).values
    error = math.sqrt(np.sum(values**2)) / 300
    kurtosis = 300 * np.sum(values**4) / np.sum(values**2) ** 2
    reach = stdtrit(2 * 300 / (kurtosis - 1), 0.975) * error
    # the log weights of equal confidences are averaged, so that their area is the one with ties in random order
    loo = abstain.aurc(l, g, estimator="loo", ties="expected" if estimator == "log" else "threshold")
    assert (found.estimate, found.centre, found.method) == (
        abstain.aurc(l, g, estimator=estimator),
        "loo",
        "log",
    )
    assert found.standard_error == pytest.approx(error, rel=1e-9)
    assert [found.low, found.high] == pytest.approx(
        [loo * math.exp(-reach / loo), loo * math.exp(reach / loo)], rel=1e-7
    )


def test_normal_interval_by_hand():
    values = [0.5, 2.0, 1.0, 4.0]  # mean 1.875, squares of the deviations 7.1875
    found = interval("risk", values, range(4), method="normal")
    error = math.sqrt(7.1875) / 4
    assert found.standard_error == pytest.approx(error)
    assert found.estimate == 1.875
    fourth = sum((v - 1.875) ** 4 for v in values)
    freedom = min(3, 8 / (4 * fourth / 7.1875**2 - 1))
    assert found.high - 1.875 == pytest.approx(stdtrit(freedom, 0.975) * error, rel=1e-9)
    assert found.high + found.low == pytest.approx(3.75)


def test_one_error_at_the_bottom_leaves_loo_at_zero():
    l = np.zeros(50)
    l[0] = 1
    found = interval("aurc", l, np.arange(50.0))
    assert abstain.aurc(l, np.arange(50.0), estimator="loo") == 0
    assert found.centre == "estimate"
    assert 0 < found.low < found.estimate < found.high <= 1


def test_limits_stay_in_order_where_an_estimator_exceeds_one():
    found = interval("aurc", [1, 1, 0, 1, 1, 1], [3, 3, 3, 3, 2, 1], estimator="2sele")
    assert found.estimate > 1
    assert found.low <= found.estimate <= found.high


def test_an_area_that_cannot_be_negative_has_no_negative_limit():
    """The leave-one-out area of one error at the bottom is 0, which has no logarithm."""
    for scale in (1.0, 0.5):
        found = interval("aurc", np.array([0, scale, 0, 0]), [0.6, 0.2, 0.5, 0.7], estimator="loo")
        assert (found.estimate, found.low) == (0, 0)
        assert found.high > 0
