"""The jackknife: every metric with one sample (or one cluster) left out."""

from __future__ import annotations

import math

import numpy as np

from abstain.core import fast
from abstain.core.jackknife import leave_one_out_areas
from abstain.inference._units import Units
from abstain.inference.influence import error_of, freedom_of, values_of


def left_out(units: Units) -> tuple[float, np.ndarray] | None:
    """Estimate, and its value without each sample, exactly and in O(n); None where no formula is at hand."""
    if units.weight is not None or units.kept is not None or units.n < 3:
        return None
    options = units.area
    n = units.n
    if units.metric == "risk":
        total = float(np.sum(units.loss, dtype=np.float64))
        return total / n, (total - units.loss) / (n - 1)
    if units.metric not in ("aurc", "augrc"):
        return None
    estimator = "sele" if units.metric == "augrc" else options.estimator
    whole = float(fast.area(units.loss, units.confidence, None, estimator, options.ties))
    return whole, leave_one_out_areas(units.loss, units.confidence, estimator, options.ties)


def jackknife(units: Units) -> tuple[float, float, float, float]:
    """Estimate, standard error, its degrees of freedom, and the bias-corrected estimate.

    Exact deletion for AURC, AUGRC and risk of unweighted independent samples; otherwise the infinitesimal
    jackknife (the influence function), which corrects no bias.
    """
    exact = left_out(units) if units.clusters is None and units.strata is None else None
    if exact is None:
        estimate, values = values_of("interval", units)
        return estimate, *error_of(values, units), estimate
    estimate, without = exact
    mean = float(np.mean(without))
    n = units.n
    squares = np.square(without - mean)
    second = float(np.sum(squares))
    freedom = freedom_of(n, second, float(squares @ squares))
    return estimate, math.sqrt(second * (n - 1) / n), freedom, estimate - (n - 1) * (mean - estimate)


def acceleration(units: Units) -> float:
    """BCa's third moment of what single samples (or clusters) do."""
    exact = left_out(units) if units.clusters is None else None
    if exact is not None:
        pulls = np.mean(exact[1]) - exact[1]
    else:
        values = values_of("interval", units)[1]
        pulls = values if units.whole_weight is None else values * units.whole_weight
        pulls = pulls if units.clusters is None else np.bincount(units.clusters, pulls)
    square = float(pulls @ pulls)
    return float(np.sum(pulls**3)) / (6 * square**1.5) if square > 0 else 0.0
