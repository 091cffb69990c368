"""Influence of each sample, and the standard error it makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core import spread
from abstain.core.one_sweep import area_spread
from abstain.errors import InputError
from abstain.inference._units import BOOTSTRAP_ONLY, Units, gather
from abstain.inference.results import Influences

_MANY = 1 << 17  # samples from which sums over rows replace single influences for losses other than 0/1


def influence(
    metric: str | Callable[..., Any],
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
    metric: str | Callable[..., Any],
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
    """Estimate, standard error and its degrees of freedom; the leave-one-out estimate where it came for free."""

    estimate: float
    standard_error: float
    freedom: float
    loo: float | None = None


def measure(function: str, units: Units) -> Measured:
    """Estimate and standard error by the fastest road."""
    needs_influence(function, units.metric)
    single = units.clusters is None and units.strata is None and units.kept is None and units.weight is None
    by_rows = units.zero_one or (units.n > _MANY and spread.has_row_form(units.metric, False))
    if not (single and by_rows):
        estimate, values = values_of(function, units)
        return Measured(estimate, *error_of(values, units))
    loo = None
    found: Any = None
    if units.metric == "aurc" and units.area == spread.DEFAULT:
        found = area_spread(units.loss, units.confidence, units.zero_one)
        loo = None if found is None else found.loo
    if found is None:
        moments = spread.moments_of_samples(units.loss, units.confidence)
        found = spread.of_moments(units.metric, moments, units.area)
    error = math.sqrt(found.second) / units.n
    return Measured(found.estimate, error, freedom_of(units.n, found.second, found.fourth), loo)


def freedom_of(count: int, second: float, fourth: float | None) -> float:
    r"""Degrees of freedom of a spread estimated from `count` draws, by Satterthwaite's rule.

    A sum of squares of draws of kurtosis :math:`\kappa` varies like one of :math:`2n/(\kappa - 1)` normal ones: when
    a few samples (confident errors, say) make most of the spread, it is known no better than from those few.
    """
    if fourth is None or second <= 0:
        return max(1.0, count - 1.0)
    kurtosis = count * fourth / second**2
    return max(1.0, min(count - 1.0, 2 * count / (kurtosis - 1) if kurtosis > 1 else math.inf))


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


def error_of(values: np.ndarray, units: Units) -> tuple[float, float]:
    """Standard error and its degrees of freedom from influences.

    They are added up within clusters first, and their mean is taken off within strata.
    """
    pulls = values if units.whole_weight is None else values * units.whole_weight
    strata = units.strata
    if units.clusters is not None:
        if units.sampled < 2:
            raise InputError("standard_error: `clusters` must name at least two clusters, got one.")
        pulls = np.bincount(units.clusters, pulls)
        if strata is not None:
            strata = np.zeros(units.sampled, dtype=np.int64)
            strata[units.clusters] = units.strata
    if strata is not None:
        pulls = pulls - (np.bincount(strata, pulls) / np.bincount(strata))[strata]
    count, squares = len(pulls), np.square(pulls)
    second = float(np.sum(squares))
    grown = 1.0 if units.clusters is None else count / (count - 1)
    return math.sqrt(second * grown) / units.total, freedom_of(count, second, float(squares @ squares))
