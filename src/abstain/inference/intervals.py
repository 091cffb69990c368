"""Confidence intervals for every metric."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from abstain._arrays import Array
from abstain._check import check_choice, check_fraction
from abstain.core import fast, spread
from abstain.core.blocks import Blocks
from abstain.core.estimators import area
from abstain.errors import InputError, ShapeError
from abstain.inference import bounds, resampling
from abstain.inference._scales import Scale, default_scale, fits, quantile, within
from abstain.inference._units import BOOTSTRAP_ONLY, NAMES, Units, gather, on_host
from abstain.inference.influence import Measured, freedom_of, measure
from abstain.inference.leave_one_out import jackknife
from abstain.inference.results import GroupedIntervals, Interval

METHODS = ("log", "logit", "normal", "bootstrap", "bca", "jackknife")


def interval(
    metric: Any,
    loss: Array,
    confidence: Array,
    /,
    *,
    level: float = 0.95,
    method: str | None = None,
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
) -> Any:
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
    method = _method(units, method)
    if method in ("bootstrap", "bca"):
        return resampling.interval(units, level, method, replicates, np.random.default_rng(rng), progress)
    return _analytic(units, level, method, loss_bound)


def _method(units: Units, method: str | None) -> str:
    if method is None:
        return "bootstrap" if units.metric in BOOTSTRAP_ONLY else default_scale(units).name
    check_choice("interval", "method", method, METHODS)
    if method == "log" and bool((units.loss < 0).any()):
        raise InputError(
            'interval: `method="log"` needs losses of at least 0, got negative ones. Use "normal".'
        )
    if method == "logit" and default_scale(units).name != "logit":
        raise InputError(f'interval: `method="logit"` needs a metric of bounded range, got {units.metric}.')
    return method


def _analytic(units: Units, level: float, method: str, loss_bound: float | None) -> Interval:
    if method == "jackknife":
        estimate, error, freedom, around = jackknife(units)
        return _finish(
            units, Measured(estimate, error, freedom), (around, "jackknife"), level, method, loss_bound
        )
    found = measure("interval", units)
    return _finish(units, found, _centre(units, found, method), level, method, loss_bound)


def _finish(
    units: Units,
    found: Measured,
    centre: tuple[float, str],
    level: float,
    method: str,
    loss_bound: float | None = None,
) -> Interval:
    """The interval around `centre` on the method's scale, or the limits that hold when there is no spread."""
    estimate, error = found.estimate, found.standard_error
    scale = Scale(method) if method in ("log", "normal") else default_scale(units)
    tiny = 1e-12 * max(abs(estimate), float(np.mean(np.abs(units.loss))))
    perfect = (
        units.metric in ("e_aurc", "naurc") and abs(estimate) <= tiny
    )  # nothing to gain: the ranking is ideal
    if error <= tiny or perfect:
        limits = bounds.limits(units, estimate, level, loss_bound)
        if limits is not None:
            return Interval(units.metric, estimate, error, *limits, level, method, units.n, "bound")
        centre = (0.0 if perfect else estimate, "estimate")
    if not fits(scale, centre[0]):
        centre = (0.0 if perfect else estimate, "estimate")
    if not fits(scale, centre[0]):
        scale, method = Scale("normal"), "normal"
    low, high = scale.around(centre[0], error, quantile(found.freedom, level))
    if method != "normal":
        low, high = within(units, low, high)
    return Interval(units.metric, estimate, error, low, high, level, method, units.n, centre[1])


def _centre(units: Units, found: Measured, method: str) -> tuple[float, str]:
    """What the log interval is built around: for AURC the leave-one-out estimate, where its weights allow."""
    whole = units.weight is None or bool(np.all(units.weight == np.floor(units.weight)))
    options = units.area
    if method != "log" or units.metric != "aurc" or options.estimator in ("sele", "2sele") or not whole:
        return found.estimate, "estimate"
    if options.estimator == "loo":
        return found.estimate, "loo"
    if found.loo is not None:
        return found.loo, "loo"
    return float(fast.area(units.loss, units.confidence, units.weight, "loo", options.ties)), "loo"


def interval_from_blocks(
    metric: str, blocks: Blocks, /, *, level: float = 0.95, method: str | None = None, **options: Any
) -> Interval:
    """Interval from a mergeable block table (a stream, files, replicas); independent samples.

    AURC, AUGRC and risk of any loss; the other metrics of `interval` with an influence function for 0/1
    losses.

    >>> table = Blocks.from_samples(np.asarray([0, 0, 1, 1]), np.arange(4.0))
    >>> interval_from_blocks("risk", table, method="normal")
    risk 0.5, 95% interval [-0.2956, 1.296], standard error 0.25 (normal, n = 4)
    """
    check_choice("interval_from_blocks", "metric", metric, NAMES)
    level = check_fraction("interval_from_blocks", "level", level, open_high=True)
    moments = spread.moments_of_blocks(blocks)
    if metric in BOOTSTRAP_ONLY or not spread.has_row_form(metric, moments.zero_one):
        raise InputError(
            f"interval_from_blocks: {metric} of this loss needs the samples themselves, which a block table "
            f"has added up. Use `interval` on the samples."
        )
    found = spread.of_moments(metric, moments, spread.Options(**options))
    units = _units_of(metric, moments, int(blocks.count.sum()), options)
    method = _method(units, method)
    if method in ("bootstrap", "bca", "jackknife"):
        raise InputError(
            f'interval_from_blocks: `method="{method}"` needs the samples themselves. Use `interval`.'
        )
    n, loo = units.n, float(area(moments.rows, "loo", options.get("ties", "threshold")))
    error, freedom = math.sqrt(found.second) / units.total, freedom_of(n, found.second, found.fourth)
    measured = Measured(found.estimate, error, freedom, loo)
    return _finish(units, measured, _centre(units, measured, method), level, method)


def _units_of(metric: str, moments: spread.Moments, n: int, options: dict[str, Any]) -> Units:
    """Just enough of the samples behind a table to choose a scale: its losses, block by block."""
    rows = moments.rows
    loss = np.repeat([0.0, 1.0], [n - int(rows.S[-1]), int(rows.S[-1])]) if moments.zero_one else rows.L
    weight = None if bool(np.array_equal(moments.w2, rows.m)) else rows.m
    return Units(
        metric, loss, loss, weight, None, n, float(rows.W[0]), None, None, None, options, moments.zero_one
    )


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
