"""Confidence intervals for every metric."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np

from abstain._arrays import Array
from abstain._check import check_fraction
from abstain.core.estimators import Estimator, Ties
from abstain.errors import InputError, ShapeError
from abstain.inference import resampling
from abstain.inference._analytic import centre_of, choose_method, finish
from abstain.inference._scales import quantile
from abstain.inference._units import Units, gather, on_host
from abstain.inference.influence import Measured, measure
from abstain.inference.leave_one_out import jackknife
from abstain.inference.results import GroupedIntervals, Interval
from abstain.metrics.excess import Oracle

Method = Literal["log", "logit", "normal", "bootstrap", "bca", "jackknife"]


class IntervalOptions(TypedDict, total=False):
    """Options of `interval`, for type checkers; explained there."""

    level: float
    method: Method | None
    sample_weight: Array | None
    abstained: Array | None
    clusters: Array | None
    strata: Array | None
    loss_bound: float | None
    replicates: int
    rng: int | np.random.Generator
    progress: bool | None
    estimator: Estimator
    ties: Ties
    oracle: Oracle
    coverage: float
    risk: float
    tpr: float


@overload
def interval(
    metric: str | Callable[..., Any],
    loss: Array,
    confidence: Array,
    /,
    *,
    groups: None = None,
    **options: Unpack[IntervalOptions],
) -> Interval: ...
@overload
def interval(
    metric: str | Callable[..., Any],
    loss: Array,
    confidence: Array,
    /,
    *,
    groups: Array,
    **options: Unpack[IntervalOptions],
) -> GroupedIntervals: ...
def interval(
    metric: str | Callable[..., Any],
    loss: Array,
    confidence: Array,
    /,
    *,
    level: float = 0.95,
    method: Method | None = None,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    clusters: Array | None = None,
    strata: Array | None = None,
    groups: Array | None = None,
    loss_bound: float | None = None,
    replicates: int = 2000,
    rng: int | np.random.Generator = 0,
    progress: bool | None = None,
    **options: Any,
) -> Interval | GroupedIntervals:
    r"""Confidence interval of a metric.

    .. math:: \exp\!\left(\ln T_{loo} \mp t\,\mathrm{se}/T_{loo}\right) \quad\text{(method "log")}

    Parameters
    ----------
    metric : str or the function of that name
        aurc, augrc, risk, oracle_aurc, e_aurc, naurc, auroc, prediction_rejection_ratio by influence
        function; risk_at_coverage (`coverage=`), coverage_at_risk (`risk=`), aupr_error, aupr_success,
        fpr_at_tpr by bootstrap.
    method : {"log", "logit", "normal", "bootstrap", "bca", "jackknife"}, optional
        The scale on which the interval is symmetric, or how to resample. By default "log" for areas of
        non-negative losses, "logit" for AUROC, PRR and 0/1 risk, "normal" otherwise, "bootstrap" where there
        is no influence function. The log interval of AURC is centred at the leave-one-out estimate, whatever
        estimator is asked for.
    clusters : array, optional
        One label per sample (patient, document): samples of one cluster are not independent.
    strata : array, optional
        One label per sample: the number drawn from each stratum was fixed.
    groups : array, optional
        One label per sample: answers with `GroupedIntervals`.
    loss_bound : float, optional
        Losses lie in [0, loss_bound]; used when all of them are 0. 1 for 0/1 losses.
    replicates, rng, progress
        Of the bootstrap: how many, the seed or Generator, and whether to show a bar (by default when long).
    **options
        The metric's own: `estimator`, `ties`, `oracle`, `coverage`, `risk`, `tpr`.

    Notes
    -----
    Without any loss the answer is the valid one-sided bound `p (1 - ln p)`, `p = 1 - (1-level)^(1/n)`: the
    errors that were not seen could be the most confident ones.

    Examples
    --------
    >>> loss = [0, 0, 1, 0, 1, 0, 1, 1]
    >>> interval("aurc", loss, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    aurc 0.2807, 95% interval [0.02833, 1], standard error 0.19 (log, centred at loo, n = 8)
    >>> interval("aurc", [0] * 100, range(100)).high  # nothing wrong among 100: p = 0.0295
    0.133...
    """
    level = check_fraction("interval", "level", level, open_high=True)
    shared = {
        "level": level,
        "method": method,
        "loss_bound": loss_bound,
        "replicates": replicates,
        "progress": progress,
    }
    columns: dict[str, Any] = {
        "sample_weight": sample_weight,
        "abstained": abstained,
        "clusters": clusters,
        "strata": strata,
    }
    if groups is not None:
        return _by_group(metric, loss, confidence, groups, columns, {**shared, "rng": rng, **options})
    units = gather("interval", metric, loss, confidence, **columns, options=options)
    if units.sampled < 2:
        raise InputError("interval: needs at least two samples (or clusters) to see any spread, got one.")
    chosen = choose_method(units, method)
    if chosen in ("bootstrap", "bca"):
        return resampling.interval(units, level, chosen, replicates, np.random.default_rng(rng), progress)
    return _analytic(units, level, chosen, loss_bound)


def _analytic(units: Units, level: float, method: str, loss_bound: float | None) -> Interval:
    if method == "jackknife":
        estimate, error, freedom, around = jackknife(units)
        return finish(
            units, Measured(estimate, error, freedom), (around, "jackknife"), level, method, loss_bound
        )
    found = measure("interval", units)
    return finish(units, found, centre_of(units, found, method), level, method, loss_bound)


def _by_group(
    metric: Any, loss: Array, confidence: Array, groups: Array, columns: dict[str, Any], rest: dict[str, Any]
) -> GroupedIntervals:
    labels = np.asarray(on_host(groups))
    loss, confidence = np.asarray(on_host(loss)), np.asarray(on_host(confidence))
    if labels.ndim != 1 or labels.shape != loss.shape:
        raise ShapeError(
            f"interval: `groups` must have one label per sample, got {labels.shape} for {loss.shape}."
        )
    found = {}
    for label in np.unique(labels):
        mask = labels == label
        part: dict[str, Any] = {
            k: None if v is None else np.asarray(on_host(v))[mask] for k, v in columns.items()
        }
        found[label.item()] = interval(metric, loss[mask], confidence[mask], **part, **rest)
    parts = list(found.values())
    value = float(np.mean([p.estimate for p in parts]))
    error = math.sqrt(sum(p.standard_error**2 for p in parts)) / len(parts)
    reach = quantile(math.inf, parts[0].level) * error
    macro = Interval(
        parts[0].metric,
        value,
        error,
        value - reach,
        value + reach,
        parts[0].level,
        "normal",
        labels.size,
        "estimate",
    )
    return GroupedIntervals(parts[0].metric, found, macro)
