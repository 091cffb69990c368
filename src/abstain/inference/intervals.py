"""Confidence intervals for every metric, from samples or from a block table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_choice, check_fraction, check_nonnegative
from abstain.core.estimators import Estimator, Ties
from abstain.core.rows import Blocks
from abstain.core.sorting import order_of
from abstain.core.stretch import table_of_blocks, totals_of
from abstain.errors import InputError
from abstain.inference import resampling
from abstain.inference.evidence import POINTS, Evidence, asked_for, estimate, evidence_of
from abstain.inference.influence import (
    Units,
    check_options,
    codes,
    evidence,
    facts,
    gather,
    measure,
    metric_name,
    pulls_of,
    spread_over,
    values_of,
)
from abstain.inference.limits import Facts, Spread, interval_of, mean_spread, scale_of
from abstain.inference.resampling import jackknife
from abstain.inference.results import GroupedIntervals, Interval
from abstain.metrics.areas import Oracle
from abstain.metrics.groups import group_codes

METHODS = ("log", "logit", "normal", "bootstrap", "bca", "jackknife")
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
        aurc, augrc, risk, oracle_aurc, e_aurc, naurc, auroc, prediction_rejection_ratio, aupr_error, aupr_success,
        fpr_at_tpr (`tpr=`), risk_at_coverage (`coverage=`), coverage_at_risk (`risk=`).
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.
    level : float
        With what probability such an interval holds the truth.
    method : {"log", "logit", "normal", "bootstrap", "bca", "jackknife"}, optional
        The scale on which the interval is symmetric, or how to resample. By default "log" for areas of
        non-negative losses, "logit" for AUROC, PRR and 0/1 risk, "normal" otherwise, "bootstrap" where there
        is no influence function. The log interval of AURC is centred at the leave-one-out estimate, whatever
        estimator is asked for.
    sample_weight : array, optional
        The mass of each sample.
    abstained : array of bool, optional
        Samples that are never accepted.
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

    Returns
    -------
    Interval
        Or `GroupedIntervals` where there are groups.

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
    if loss_bound is not None:
        loss_bound = check_nonnegative("interval", "loss_bound", loss_bound)
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
    return interval_of_units(units, level, chosen, loss_bound)


def choose_method(units: Units, method: str | None) -> str | None:
    """The method asked for, None for the metric's own; refused where it has no meaning."""
    if method is None:
        return None
    check_choice("interval", "method", method, METHODS)
    negative = bool((units.loss < 0).any())
    if units.metric in POINTS and method != "bootstrap":
        raise InputError(
            f'interval: `method="{method}"` needs a smooth metric, got {units.metric}. Use "bootstrap", or none.'
        )
    if method == "log" and negative:
        raise InputError(
            'interval: `method="log"` needs losses of at least 0, got negative ones. Use "normal".'
        )
    if method == "logit" and scale_of(units.metric, units.zero_one, negative).name != "logit":
        raise InputError(f'interval: `method="logit"` needs a metric of bounded range, got {units.metric}.')
    return method


def interval_of_units(units: Units, level: float, method: str | None, loss_bound: float | None) -> Interval:
    """Limits of checked units, by the metric's own method, a scale, or the jackknife."""
    if units.metric in POINTS:
        return _point(units, level)
    if method == "jackknife":
        found = jackknife(units)
        return interval_of(units.metric, found, facts(units), level, method, loss_bound, "jackknife")
    return interval_of(units.metric, *measure("interval", units), level, method, loss_bound)


def _point(units: Units, level: float) -> Interval:
    """A point of the curve; clusters multiply its variance by as much as they do at the cut itself."""
    found = evidence(units)
    plain = replace(estimate(units.metric, found, level=level, **units.options), n=units.n)
    if units.independent:
        return plain
    values = _at_cut(units, plain.estimate)
    pulls = pulls_of(values, units)
    alone = pulls_of(values, units._replace(clusters=None, strata=None))
    grown = len(pulls) / (len(pulls) - 1) if units.clusters is not None else 1.0
    more = grown * float(pulls @ pulls) / float(alone @ alone) if alone.any() else 1.0
    return replace(
        estimate(units.metric, found, level=level, more=max(more, 1e-3), **units.options), n=units.n
    )


def _at_cut(units: Units, value: float) -> np.ndarray:
    """Influence of each sample on a point, its local risk read in one window around the cut; see `points`."""
    order = order_of(units.confidence) if units.ranked is None else units.ranked.ranking.order
    l, w = units.loss[order].astype(np.float64), units.mass_of(np.ones(len(units.loss)))[order]
    fpr = units.metric == "fpr_at_tpr"
    along = np.cumsum(w * (1 - l) if fpr else w)
    least = (
        units.options.get("tpr", 0.95) * along[-1]
        if fpr
        else units.options.get("coverage", value) * units.total
    )
    k = min(int(np.searchsorted(along, least * (1 - 1e-11))), len(l) - 1)
    taken = units.confidence[order] >= units.confidence[order][k]
    h = max(5, int(np.sqrt(len(l) * taken.mean() * (1 - taken.mean()))))
    near = slice(max(0, k - h), k + h + 1)
    if fpr:
        E, H = float(w @ l), float(w @ (1 - l))
        F, A = float(w[taken] @ l[taken]) / E, float(w[taken] @ (1 - l[taken])) / H
        rho = float(w[near] @ l[near]) / E * H / max(float(w[near] @ (1 - l[near])), 1e-300)
        own, idle = np.where(l > 0, (taken - F) / E, -rho * (taken - A) / H), 0.0
    else:
        m, N = float(w[near] @ l[near] / w[near].sum()), float(w[taken].sum())
        idle = (m - float(w[taken] @ l[taken]) / N) / units.total
        own = taken * (l - m) / N + idle
    back = np.empty_like(own)
    back[order] = own
    return spread_over(units, back, idle)


def _by_group(
    metric: Any, loss: Array, confidence: Array, groups: Array, columns: dict[str, Any], rest: dict[str, Any]
) -> GroupedIntervals:
    loss, confidence = np.asarray(to_host(loss)), np.asarray(to_host(confidence))
    labels, of = group_codes("interval", groups, loss.shape)
    columns = {k: None if v is None else np.asarray(to_host(v)) for k, v in columns.items()}
    found, masks = {}, []
    for code, label in enumerate(labels):
        mask = of == code
        part: dict[str, Any] = {k: None if v is None else v[mask] for k, v in columns.items()}
        found[label] = interval(metric, loss[mask], confidence[mask], **part, **rest)
        masks.append(mask)
    parts = list(found.values())
    name, method = parts[0].metric, rest["method"]
    if name in POINTS or method in ("bootstrap", "bca", "jackknife"):
        macro = _mean_of(parts, columns["clusters"] is not None)
    else:
        options = {k: v for k, v in rest.items() if k in _OWN}
        macro = _macro(name, loss, confidence, masks, columns, options, parts, method)
    return GroupedIntervals(name, found, macro)


_OWN = ("estimator", "ties", "oracle")


def _mean_of(parts: list[Interval], shared: bool) -> Interval:
    """The mean of intervals: distances to the limits add up as squares, or plainly where units may be shared."""
    add = np.sum if shared else np.linalg.norm
    value = float(np.mean([p.estimate for p in parts]))
    down, up, error = (
        float(add([max(x, 0.0) for x in gaps])) / len(parts)
        for gaps in zip(*((p.estimate - p.low, p.high - p.estimate, p.standard_error) for p in parts))
    )
    head, n = parts[0], sum(p.n for p in parts)
    return Interval(head.metric, value, error, value - down, value + up, head.level, head.method, n)


def _macro(
    metric: str,
    loss: np.ndarray,
    confidence: np.ndarray,
    masks: list[np.ndarray],
    columns: dict[str, Any],
    options: dict[str, Any],
    parts: list[Interval],
    method: str | None,
) -> Interval:
    """The mean over groups: sums over units of what they do to it, a cluster's added up over all groups it is in."""
    G, clusters = len(masks), codes("interval", "clusters", columns["clusters"], len(loss))
    every: list[tuple[Spread, Facts]] = []
    pulls, reach = np.zeros((2, len(loss)))
    for mask in masks:
        part = {k: None if v is None else v[mask] for k, v in columns.items()}
        units = gather("interval", metric, loss[mask], confidence[mask], **part, options=options)
        every.append(measure("interval", units))
        if clusters is not None:
            values = values_of("interval", units)
            alone = units._replace(clusters=None)
            pulls[mask] = pulls_of(values.influence, alone)
            reach[mask] = pulls_of(values.weight * spread_over(units, units.loss), alone, False)
    known = [facts for _, facts in every]
    found = mean_spread([spread for spread, _ in every])
    count = sum(f.units for f in known)
    if clusters is not None:
        v, z = np.bincount(clusters, pulls) / G, np.bincount(clusters, reach) / G
        count = len(v)
        squares = np.square(v) * count / (count - 1)
        second = float(squares.sum())
        excess = float(squares @ squares) - second**2 / count
        found = found._replace(second=second, excess=excess, reach=float(z.sum()), reach2=float(z @ z))
    facts = known[0]._replace(
        n=len(loss),
        units=count,
        zero_one=all(f.zero_one for f in known),
        negative=any(f.negative for f in known),
        risk=float(np.mean([f.risk for f in known])),
    )
    bound = [p for p in parts if p.centre == "bound"]
    if len(bound) == G or not np.isfinite([found.second, found.excess]).all():
        return replace(_mean_of(parts, clusters is not None), centre="bound")
    macro = interval_of(metric, found, facts, parts[0].level, method)
    down, up = (
        math.hypot(*gaps) / G
        for gaps in zip((0.0, 0.0), *((p.estimate - p.low, p.high - p.estimate) for p in bound))
    )
    return replace(
        macro,
        low=macro.estimate - math.hypot(macro.estimate - macro.low, down),
        high=macro.estimate + math.hypot(macro.high - macro.estimate, up),
    )


# from blocks --------------------------------------------------------------------------------------
#
# Intervals from a block table, when the samples themselves are gone.


def interval_from_blocks(
    metric: str, blocks: Blocks, /, *, level: float = 0.95, method: str | None = None, **options: Any
) -> Interval:
    """Interval from a mergeable block table (a stream, files, replicas); independent samples.

    Parameters
    ----------
    metric : str
        AURC, AUGRC, risk and points of the curve of any loss; the other metrics of `interval` for 0/1 losses.
    blocks : Blocks
        The table.
    level, method
        As in `interval`.
    **options
        The metric's own: `estimator`, `ties`, `oracle`, `coverage`, `risk`, `tpr`.

    Returns
    -------
    Interval
        That of `interval` of the samples themselves.

    Examples
    --------
    >>> table = Blocks.from_samples(np.asarray([0, 0, 1, 1]), np.arange(4.0))
    >>> interval_from_blocks("risk", table, method="normal")
    risk 0.5, 95% interval [-0.2956, 1.296], standard error 0.25 (normal, n = 4)
    """
    name = "interval_from_blocks"
    options = check_options(name, metric_name(name, metric), options)
    level = check_fraction(name, "level", level, open_high=True)
    if method in ("bootstrap", "bca", "jackknife"):
        raise InputError(f'{name}: `method="{method}"` needs the samples themselves. Use `interval`.')
    if blocks.count.sum() < 2:
        raise InputError(f"{name}: needs at least two samples to see any spread, got one.")
    return estimate(
        metric, evidence_of_blocks(blocks, [(metric, options)]), level=level, method=method, **options
    )


def evidence_of_blocks(blocks: Blocks, metrics: Iterable[tuple[str, dict[str, Any]]]) -> Evidence:
    """Of a mergeable table, for metrics with these options. That weights are whole is told by the blocks' masses."""
    tables = [table_of_blocks(blocks)]
    whole = bool(np.all(blocks.mass == np.floor(blocks.mass)))
    negative = not blocks.zero_one and bool((blocks.loss_sum < 0).any())
    total = totals_of(tables, int(blocks.count.sum()), blocks.zero_one, negative, whole)
    return evidence_of(tables, total, asked_for(metrics))
