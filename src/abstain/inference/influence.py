"""Influence of each sample, and the standard error it makes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core import spread
from abstain.core.streamed import area_spread
from abstain.errors import InputError
from abstain.inference._units import BOOTSTRAP_ONLY, Units, gather
from abstain.inference.results import Influences


def influence(
    metric: Any,
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    **options: Any,
) -> Influences:
    r"""What each sample does to a metric, to first order, in the order given.

    .. math:: T(\hat F) - T(F) \approx \frac1n \sum_i \mathrm{IF}_i, \qquad \sum_i w_i\,\mathrm{IF}_i = 0

    Metrics: aurc, augrc, risk, oracle_aurc, e_aurc, naurc, auroc, prediction_rejection_ratio, with their own
    options (`estimator`, `ties`, `oracle`). Abstained samples have influence 0, except on AUGRC, whose loss
    is per sample of the whole set.

    >>> influence("risk", [0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6]).values.tolist()
    [-0.5, -0.5, 0.5, 0.5]
    """
    units = gather("influence", metric, loss, confidence, sample_weight, abstained, options=options)
    return Influences(units.metric, *values_of("influence", units))


def standard_error(
    metric: Any,
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    clusters: Array | None = None,
    **options: Any,
) -> float:
    r"""Standard error of a metric, for the price of its sort.

    .. math:: \mathrm{se} = \frac1W \sqrt{\textstyle\sum_c (\sum_{i \in c} w_i \mathrm{IF}_i)^2}

    Without `clusters` every sample (a weighted row counts as one) is its own. With C clusters the square is
    multiplied by C / (C - 1).

    >>> round(standard_error("risk", [0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6]), 3)  # sqrt(0.25 / 4)
    0.25
    """
    units = gather(
        "standard_error", metric, loss, confidence, sample_weight, abstained, clusters, options=options
    )
    return measure("standard_error", units).standard_error


class Measured(NamedTuple):
    """Estimate and standard error; the leave-one-out estimate where it came for free."""

    estimate: float
    standard_error: float
    loo: float | None = None


def measure(function: str, units: Units) -> Measured:
    """Estimate and standard error by the fastest road."""
    needs_influence(function, units.metric)
    direct = units.clusters is None and units.strata is None and units.kept is None
    if direct and units.weight is None and units.metric == "aurc" and units.area == spread.DEFAULT:
        return Measured(*area_spread(units.loss, units.confidence))
    if direct and spread.has_row_form(units.metric, units.zero_one):
        moments = spread.moments_of_samples(units.loss, units.confidence, units.weight)
        found = spread.of_moments(units.metric, moments, units.area)
        return Measured(found.estimate, found.standard_error)
    estimate, values = values_of(function, units)
    return Measured(estimate, error_of(values, units.whole_weight, units.clusters, units.total, units.strata))


def needs_influence(function: str, metric: str) -> None:
    """Some metrics depend on the density at a quantile: no influence function there."""
    if metric in BOOTSTRAP_ONLY:
        raise InputError(
            f"{function}: {metric} has no influence function to rely on. "
            f'Use `interval(..., method="bootstrap")`.'
        )


def values_of(function: str, units: Units) -> tuple[float, np.ndarray]:
    """Estimate and influences of all n samples, those that abstained included."""
    needs_influence(function, units.metric)
    estimate, own = spread.values(units.metric, units.loss, units.confidence, units.weight, units.area)
    if units.kept is None:
        return estimate, own
    share = units.mass / units.total
    if units.metric == "augrc":  # share * (AUGRC of the answered): both factors move
        idle, own, estimate = -share * estimate, (1 - share) * estimate + own, share * estimate
    else:
        idle, own = 0.0, own / share
    values = np.full(units.n, idle)
    values[units.kept] = own
    return estimate, values


def error_of(
    values: np.ndarray,
    weight: np.ndarray | None,
    clusters: np.ndarray | None,
    total: float,
    strata: np.ndarray | None = None,
) -> float:
    """Standard error from influences: added up within clusters first, their mean taken off within strata."""
    pulls = values if weight is None else values * weight
    if clusters is not None:
        count = int(clusters.max()) + 1
        if count < 2:
            raise InputError("standard_error: `clusters` must name at least two clusters, got one.")
        pulls = np.bincount(clusters, pulls)
        if strata is not None:
            stratum = np.zeros(count, dtype=np.int64)
            stratum[clusters] = strata
            strata = stratum
    if strata is not None:
        pulls = pulls - (np.bincount(strata, pulls) / np.bincount(strata))[strata]
    grown = 1.0 if clusters is None else len(pulls) / (len(pulls) - 1)
    return math.sqrt(float(pulls @ pulls) * grown) / total
