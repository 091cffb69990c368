"""Influence of areas against numerical derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.metrics.test_sample_influence import (
    derivative,
    draw,
    estimate_and_influences,
    value,
)

ESTIMATORS = ("harmonic", "log", "loo", "sele", "2sele")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("ties", ["threshold", "expected"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("zero_one", [True, False])
def test_area_influence_is_the_derivative(estimator, ties, zero_one, weights, seed):
    w, l, g = draw(seed, zero_one=zero_one, weights=weights)
    estimate, values = estimate_and_influences(
        "aurc", l, g, w if weights else None, estimator=estimator, ties=ties
    )
    assert estimate == pytest.approx(value("aurc", w, l, g, estimator, ties), rel=1e-12)
    expected = derivative(lambda v: value("aurc", v, l, g, estimator, ties), w)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7)
    assert w @ values == pytest.approx(0, abs=1e-12 * w.sum())
