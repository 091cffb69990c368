"""Confidence intervals for every metric, from samples or from a block table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_choice, check_fraction
from abstain.core import areas
from abstain.core.estimators import Estimator, Ties, area
from abstain.core.influence import Moments, Options, has_row_form, moments_of_blocks, of_moments
from abstain.core.rows import Blocks
from abstain.errors import InputError, ShapeError
from abstain.inference import resampling
from abstain.inference.influence import (
    BOOTSTRAP_ONLY,
    NAMES,
    Measured,
    Units,
    freedom_of,
    gather,
    measure,
)
from abstain.inference.resampling import jackknife
from abstain.inference.results import GroupedIntervals, Interval
from abstain.metrics.areas import Oracle

LOG = ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc")  # never negative when the losses are not
_BOUNDED = {"auroc": (0.0, 1.0), "prediction_rejection_ratio": (-1.0, 1.0), "risk": (0.0, 1.0)}


class Scale(NamedTuple):
    """Name of the scale and, for the logit, the range it belongs to."""

    name: str
    low: float = 0.0
    high: float = 1.0

    def around(self, centre: float, standard_error: float, quantile: float) -> tuple[float, float]:
        """Interval of half-width `quantile` standard errors on this scale."""
        if self.name == "normal":
            return centre - quantile * standard_error, centre + quantile * standard_error
        if self.name == "log":
            factor = math.exp(min(700.0, quantile * standard_error / centre))
            return centre / factor, centre * factor
        below, above = centre - self.low, self.high - centre
        width = quantile * standard_error * (self.high - self.low) / (below * above)
        odds = math.log(below / above)
        return tuple(
            self.low + (self.high - self.low) / (1 + math.exp(-x)) for x in (odds - width, odds + width)
        )  # type: ignore[return-value]


def default_scale(units: Units) -> Scale:
    """The scale on which the measured coverage is best."""
    metric = units.metric
    if metric in _BOUNDED and units.zero_one:
        return Scale("logit", *_BOUNDED[metric])
    if metric in LOG and not bool((units.loss < 0).any()):
        return Scale("log")
    return Scale("normal")


def fits(scale: Scale, centre: float) -> bool:
    """Is the centre inside the range of the scale?"""
    if scale.name == "log":
        return centre > 0
    return scale.name == "normal" or scale.low < centre < scale.high


def within(units: Units, low: float, high: float) -> tuple[float, float]:
    """The part of an interval that a metric of 0/1 losses can reach."""
    a_mean = units.metric in ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc")
    if units.zero_one and a_mean and units.options.get("estimator") != "2sele":
        return max(0.0, low), min(1.0, high)
    return low, high


def quantile(freedom: float, level: float) -> float:
    """Two-sided Student quantile."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


# bounds -------------------------------------------------------------------------------------------
#
# Limits for samples without spread: all right, all wrong, or perfectly ranked. One-sided, and valid.
#
# With n units and none of them wrong, the risk is at most :math:`p_u = 1 - (1-level)^{1/n}` with probability
# `level`. It does not bound AURC by itself, since those errors could sit on top: then the selective risk is 1
# up to coverage p and p/c beyond, an area of p (1 - ln p), the largest there is. (Tied confidences only average
# it.)


Limits = tuple[float, float] | None


def bound_limits(units: Units, estimate: float, level: float, most: float | None) -> Limits:
    """(low, high) when the influences are all zero; None when no limit is known. Losses lie in [0, most]."""
    if not units.zero_one and most is None:
        return None
    top = 1.0 if most is None else most
    p = min(1.0, error_limit(units, level))
    if not units.loss.any():
        return _none_wrong(units.metric, p, top)
    if not units.zero_one:
        return None
    if units.loss.all():
        return _all_wrong(units.metric, p)
    return _perfect_ranking(units, estimate, level)


def error_limit(units: Units, level: float) -> float:
    """Largest risk that shows no error in this many draws with probability 1 - level."""
    p = -math.expm1(math.log1p(-level) / _draws(units))
    if units.clusters is None:
        return p
    import numpy as np

    sizes = np.bincount(units.clusters, units.whole_weight)
    return p * float(sizes.max() / sizes.mean())  # a cluster with an error may be a large one


def _draws(units: Units) -> float:
    if units.clusters is not None:
        return units.sampled
    if units.weight is None:
        return len(units.loss)
    return float(units.weight.sum() ** 2 / (units.weight**2).sum())


def area_limit(p: float) -> float:
    """Largest AURC of risk p: all errors on top."""
    return p * (1 - math.log(p)) if p > 0 else 0.0


def oracle_value(p: float) -> float:
    """Least AURC of risk p: all errors at the bottom."""
    return p + (1 - p) * math.log1p(-p) if p < 1 else 1.0


_UNKNOWN = {
    "naurc": (0.0, math.inf),
    "prediction_rejection_ratio": (-1.0, 1.0),
}  # one kind says nothing of these


def _none_wrong(metric: str, p: float, most: float) -> Limits:
    high = {
        "risk": p,
        "aurc": area_limit(p),
        "e_aurc": area_limit(p),
        "augrc": p,  # reached by one block of ties
        "oracle_aurc": oracle_value(p),
    }
    return (0.0, most * high[metric]) if metric in high else _UNKNOWN.get(metric)


def _all_wrong(metric: str, p: float) -> Limits:
    risk = 1 - p
    found = {
        "risk": (risk, 1.0),
        "aurc": (oracle_value(risk), 1.0),
        "oracle_aurc": (oracle_value(risk), 1.0),
        "augrc": (risk**2 / 2, 1.0),
        "e_aurc": (0.0, area_limit(risk) - oracle_value(risk)),
    }
    return found.get(metric, _UNKNOWN.get(metric))


def _perfect_ranking(units: Units, estimate: float, level: float) -> Limits:
    """Every right sample above every error (or the reverse): k disjoint pairs, all of one kind.

    Pairs drawn apart are independent, so AUROC^k >= 1 - level bounds AUROC from below. Given AUROC = 1 - q,
    AURC is largest with a share q of the errors on top, which adds area_limit(q R) to the oracle's.
    """
    if units.weight is not None or units.clusters is not None:
        return None
    errors = int(units.loss.sum())
    pairs = min(errors, len(units.loss) - errors)
    worst = (1 - level) ** (1 / pairs)
    if units.metric == "auroc":
        return (worst, 1.0) if estimate > 0.5 else (0.0, 1 - worst)
    if units.metric == "prediction_rejection_ratio":
        return (2 * worst - 1, 1.0) if estimate > 0 else (-1.0, 1 - 2 * worst)
    risk = errors / len(units.loss)
    if units.metric == "e_aurc" and estimate <= 1e-12 * risk:
        return 0.0, area_limit((1 - worst) * risk)
    if units.metric == "naurc" and estimate <= 1e-12:
        return 0.0, area_limit((1 - worst) * risk) / (risk - oracle_value(risk))
    return None


# analytic -----------------------------------------------------------------------------------------
#
# From an estimate and its standard error to an interval: which scale, which centre, and what without spread.


METHODS = ("log", "logit", "normal", "bootstrap", "bca", "jackknife")


def choose_method(units: Units, method: str | None) -> str:
    """The method asked for, or the metric's own; refused where it has no meaning."""
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


def finish(
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
        limits = bound_limits(units, estimate, level, loss_bound)
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


def centre_of(units: Units, found: Measured, method: str) -> tuple[float, str]:
    """What the log interval is built around: for AURC the leave-one-out estimate, where its weights allow."""
    whole = units.weight is None or bool(np.all(units.weight == np.floor(units.weight)))
    options = units.area
    if method != "log" or units.metric != "aurc" or options.estimator in ("sele", "2sele") or not whole:
        return found.estimate, "estimate"
    if options.estimator == "loo":
        return found.estimate, "loo"
    if found.loo is not None:
        return found.loo, "loo"
    return float(areas.area(units.loss, units.confidence, units.weight, "loo", options.ties)), "loo"


# intervals ----------------------------------------------------------------------------------------
#
# Confidence intervals for every metric.


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
    labels = np.asarray(to_host(groups))
    loss, confidence = np.asarray(to_host(loss)), np.asarray(to_host(confidence))
    if labels.ndim != 1 or labels.shape != loss.shape:
        raise ShapeError(
            f"interval: `groups` must have one label per sample, got {labels.shape} for {loss.shape}."
        )
    found = {}
    for label in np.unique(labels):
        mask = labels == label
        part: dict[str, Any] = {
            k: None if v is None else np.asarray(to_host(v))[mask] for k, v in columns.items()
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


# from blocks --------------------------------------------------------------------------------------
#
# Intervals from a block table, when the samples themselves are gone.


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
    moments = moments_of_blocks(blocks)
    if metric in BOOTSTRAP_ONLY or not has_row_form(metric, moments.zero_one):
        raise InputError(
            f"interval_from_blocks: {metric} of this loss needs the samples themselves, which a block table "
            f"has added up. Use `interval` on the samples."
        )
    found = of_moments(metric, moments, Options(**options))
    units = _units_of(metric, moments, int(blocks.count.sum()), options)
    method = choose_method(units, method)
    if method in ("bootstrap", "bca", "jackknife"):
        raise InputError(
            f'interval_from_blocks: `method="{method}"` needs the samples themselves. Use `interval`.'
        )
    n, loo = units.n, float(area(moments.rows, "loo", options.get("ties", "threshold")))
    error, freedom = math.sqrt(found.second) / units.total, freedom_of(n, found.second, found.fourth)
    measured = Measured(found.estimate, error, freedom, loo)
    return finish(units, measured, centre_of(units, measured, method), level, method)


def _units_of(metric: str, moments: Moments, n: int, options: dict[str, Any]) -> Units:
    """Just enough of the samples behind a table to choose a scale: its losses, block by block."""
    rows = moments.rows
    loss = np.repeat([0.0, 1.0], [n - int(rows.S[-1]), int(rows.S[-1])]) if moments.zero_one else rows.L
    weight = None if bool(np.array_equal(moments.w2, rows.m)) else rows.m
    return Units(
        metric, loss, loss, weight, None, n, float(rows.W[0]), None, None, None, options, moments.zero_one
    )
