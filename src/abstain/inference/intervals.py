"""Confidence intervals for every metric, from samples or from a block table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack, get_args, overload

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_choice, check_fraction, check_nonnegative, repetitions_error
from abstain.core.area_estimators import Estimator, Ties, needs_whole_weights
from abstain.core.rows import Blocks
from abstain.core.sorting import argsort_descending
from abstain.core.stretch import table_of_blocks, totals_of
from abstain.errors import InputError
from abstain.inference import resampling
from abstain.inference.evidence import POINTS, Evidence, asked_for, estimate, evidence_of
from abstain.inference.limits import (
    Facts,
    Spread,
    hidden_by_few,
    interval_of,
    mean_spread,
    moments,
    scale_of,
)
from abstain.inference.records import GroupedIntervals, Interval
from abstain.inference.standard_errors import (
    Units,
    check_options,
    codes,
    error_size_of,
    evidence,
    facts,
    gather,
    measure,
    metric_name,
    pulls_of,
    spread_over,
    values_of,
)
from abstain.metrics._sample import group_codes
from abstain.metrics.areas import Oracle

Named = str | Callable[..., Any]  # a metric by its name, or its function
Method = Literal["log", "logit", "normal", "bootstrap", "bca", "jackknife"]


class Options(TypedDict, total=False):
    """Options of `interval`, for type checkers; explained there."""

    level: float
    method: Method | None
    sample_weight: Array | None
    repetitions: bool
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
    metric: Named, loss: Array, confidence: Array, /, *, groups: None = None, **options: Unpack[Options]
) -> Interval: ...
@overload
def interval(
    metric: Named, loss: Array, confidence: Array, /, *, groups: Array, **options: Unpack[Options]
) -> GroupedIntervals: ...
def interval(
    metric: Named,
    loss: Array,
    confidence: Array,
    /,
    *,
    level: float = 0.95,
    method: Method | None = None,
    sample_weight: Array | None = None,
    repetitions: bool = False,
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
        The mass of each sample, relative to the others: no factor of all weights changes anything.
    repetitions : bool
        Is a weight a number of repetitions? The estimators "log" and "loo" and ties="expected" need that. Values then
        count each repetition; for the width a weighted row is still one draw.
    abstained : array of bool, optional
        Samples that are never accepted.
    clusters : array, optional
        One label per sample (patient, document): samples of one cluster are not independent.
    strata : array, optional
        One label per sample: the number drawn from each stratum was fixed.
    groups : array, optional
        One label per sample: answers with `GroupedIntervals`.
    loss_bound : float, optional
        Losses lie in [0, loss_bound]; used when all of them are 0, or when few large ones decide the number. By
        default 1 when all are 0, and about the largest loss seen otherwise. Losses that are 0 or one number c need
        none: they are c times 0/1 losses.
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
    >>> found = interval("aurc", loss, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    >>> round(found.estimate, 4), round(found.low, 4), found.high, found.note
    (0.2807, 0.0283, 1.0, 'rests on about 2.6 effective errors (4 in all)')
    >>> interval("aurc", [0] * 100, range(100)).high  # nothing wrong among 100: p = 0.0295
    0.133...
    """
    level = check_fraction("interval", "level", level, open_high=True)
    if loss_bound is not None:
        loss_bound = check_nonnegative("interval", "loss_bound", loss_bound)
    columns = {"sample_weight": sample_weight, "abstained": abstained, "clusters": clusters, "strata": strata}

    error_size = loss_bound or None  # of a sample without any error

    def one(loss: Array, confidence: Array, columns: dict[str, Any]) -> tuple[Units, Interval]:
        units = gather(
            "interval",
            metric,
            loss,
            confidence,
            **columns,
            options=options,
            error_size=error_size,
            repetitions=repetitions,
        )
        if units.sampled < 2:
            raise InputError("interval: needs at least two samples (or clusters) to see any spread, got one.")
        _check_method(units, method)
        if method in ("bootstrap", "bca"):
            draws = np.random.default_rng(rng)
            return units, resampling.interval(units, level, method, replicates, draws, progress)
        return units, interval_of_units(units, level, method, loss_bound)

    if groups is None:
        return one(loss, confidence, columns)[1]
    loss, confidence = np.asarray(to_host(loss)), np.asarray(to_host(confidence))
    labels, of = group_codes("interval", groups, loss.shape, weight=sample_weight)
    if not labels:  # no sample has any weight: the same call without groups says so
        return one(loss, confidence, columns)[1]
    if loss.ndim == 1 and np.issubdtype(loss.dtype, np.number) and len(loss):
        error_size = error_size_of(loss, error_size)  # a group without an error has it from the others
    columns = {k: None if v is None else np.asarray(to_host(v)) for k, v in columns.items()}
    parts = []
    for code in range(len(labels)):
        mask = of == code
        own = {k: None if v is None else v[mask] for k, v in columns.items()}
        parts.append((mask, *one(loss[mask], confidence[mask], own)))
    macro = _macro(parts, codes("interval", "clusters", clusters, len(loss)), level, method)
    return GroupedIntervals(macro.metric, {k: found for k, (_, _, found) in zip(labels, parts)}, macro)


def _check_method(units: Units, method: str | None) -> None:
    """Refuse a method where it has no meaning."""
    if method is None:
        return
    check_choice("interval", "method", method, get_args(Method))
    negative, problem = bool((units.loss < 0).any()), ""
    if units.metric in POINTS and method != "bootstrap":
        problem = f'a smooth metric, got {units.metric}. Use "bootstrap", or none.'
    elif method == "log" and negative:
        problem = 'losses of at least 0, got negative ones. Use "normal".'
    elif method == "logit" and scale_of(units.metric, units.zero_one, negative).name != "logit":
        problem = f"a metric of bounded range, got {units.metric}."
    if problem:
        raise InputError(f'interval: `method="{method}"` needs {problem}')


def interval_of_units(units: Units, level: float, method: str | None, loss_bound: float | None) -> Interval:
    """Limits of checked units, by the metric's own method, a scale, or the jackknife."""
    if units.metric in POINTS:
        return _point(units, level)
    if method == "jackknife":
        found = resampling.jackknife(units)
        return interval_of(units.metric, found, facts(units), level, method, loss_bound, "jackknife")
    return interval_of(units.metric, *measure("interval", units), level, method, loss_bound)


def _point(units: Units, level: float) -> Interval:
    """A point of the curve; clusters and strata multiply its variance by as much as they do at the cut itself."""
    gathered = evidence(units)
    if units.independent:
        return estimate(units.metric, gathered, level=level, **units.options)
    value = estimate(units.metric, gathered, level=level, **units.options).estimate
    more = _design_effect(units, _at_cut(units, value))
    answered_effect = 1.0
    if units.kept is not None:
        answered = units.kept.astype(np.float64)
        answered_effect = _design_effect(units, answered - units.mass / units.total)
    return estimate(
        units.metric, gathered, level=level, more=more, answered_effect=answered_effect, **units.options
    )


def _design_effect(units: Units, influences: np.ndarray) -> float:
    """Variance of a mean of these influences by clusters and strata, over that of independent samples."""
    pulls = pulls_of(influences, units)
    alone = pulls_of(influences, units._replace(clusters=None, strata=None))
    if units.total * np.abs(alone).max() <= 1e-12 * np.abs(units.loss).max():  # rounding alone
        return 1.0
    grown = len(pulls) / (len(pulls) - 1) if units.clusters is not None else 1.0
    return max(grown * float(pulls @ pulls) / float(alone @ alone), 1e-3)


def _at_cut(units: Units, value: float) -> np.ndarray:
    r"""Influence of each sample on a point A/B of the curve, cut where C reaches a share of its whole.

    .. math:: \left(a_i - \frac AB b_i - \frac{A' - (A/B) B'}{C'} (1(i) - \text{share})\, c_i\right) / B

    A counts the errors accepted, B the samples accepted (of FPR, all errors), C all samples (of FPR, the right
    ones), and the slopes at the cut are read in one window around it; see `points`.
    """
    fpr = units.metric == "fpr_at_tpr"
    l, w = units.loss.astype(np.float64), units.mass_of(np.ones(len(units.loss)))
    order = argsort_descending(units.confidence) if units.ranked is None else units.ranked.ranking.order
    c = 1 - l if fpr else np.ones_like(l)
    along = np.cumsum((w * c)[order])
    whole = along[-1] if fpr else units.total
    asked = units.options.get("tpr", 0.95) if fpr else units.options.get("coverage", value)
    k = min(int(np.searchsorted(along, asked * whole * (1 - 1e-11))), len(l) - 1)
    g = units.confidence
    taken = (g >= g[order[k]]).astype(np.float64)
    h = max(5, int(np.sqrt(len(l) * taken.mean() * (1 - taken.mean()))))
    k = int(taken.sum()) - 1  # equals stand together, here and at the ends of the window
    near = (g <= g[order[max(0, k - h)]]) & (g >= g[order[min(k + h, len(l) - 1)]])
    over = l if fpr else taken
    B, share = float(w @ over), float(w @ (taken * c)) / whole
    point = float(w @ (taken * l)) / B
    slope = w[near] @ (l[near] - (0.0 if fpr else point)) / max(float(w[near] @ c[near]), 1e-300)
    own = (taken * l - point * over - slope * c * (taken - share)) / B
    return spread_over(units, own, 0.0 if fpr else slope * share / B)


Part = tuple[np.ndarray, Units, Interval]  # of a group: the mask of its samples, the samples, their interval


def _macro(parts: list[Part], clusters: np.ndarray | None, level: float, method: str | None) -> Interval:
    """The mean over groups, from sums over units.

    Where there are none (points, resampling, groups without spread) the distances to the limits of each group add
    up: as squares, or plainly where groups may share units.
    """
    G, every = len(parts), [found for *_, found in parts]
    head, value = every[0], float(np.mean([found.estimate for found in every]))
    smooth = head.metric not in POINTS and method not in ("bootstrap", "bca", "jackknife")
    bound = [found for found in every if found.centre == "bound"]
    known = _mean_of_sums(parts, clusters) if smooth and len(bound) < G else None
    if known is not None and np.isfinite(known[0][:3]).all():
        macro, power, rest = interval_of(head.metric, *known, level, method), 2, bound
    else:
        power, rest = 2 if clusters is None else 1, every
        count, told = sum(found.n for found in every), "bound" if smooth else "estimate"
        macro = Interval(head.metric, value, 0.0, value, value, level, head.method, count, told)
    gaps = [(x.estimate - x.low, x.high - x.estimate, x.standard_error) for x in (macro, *rest)]
    shares = np.asarray([1.0] + [1 / G] * len(rest))
    down, up, error = (float(np.linalg.norm(np.maximum(x, 0.0) * shares, power)) for x in zip(*gaps))
    return replace(macro, low=macro.estimate - down, high=macro.estimate + up, standard_error=error)


def _mean_of_sums(parts: list[Part], clusters: np.ndarray | None) -> tuple[Spread, Facts]:
    """What units do to the mean over groups; of a cluster, added up over all groups it is in."""
    G, measured = len(parts), [measure("interval", units) for _, units, _ in parts]
    known = [facts for _, facts in measured]
    hidden = [hidden_by_few(parts[0][1].metric, spread, facts) for spread, facts in measured]
    found = mean_spread([spread for spread, _ in measured], hidden)
    facts = known[0]._replace(
        n=len(parts[0][0]),
        units=sum(f.units for f in known),
        draws=sum(f.draws for f in known),
        zero_one=all(f.zero_one for f in known),
        negative=any(f.negative for f in known),
        risk=float(np.mean([f.risk for f in known])),
        errors=sum(f.errors for f in known),
        largest=max(f.largest for f in known),
        right=sum(f.right for f in known),
        error_draws=sum(f.error_draws for f in known),
        right_draws=sum(f.right_draws for f in known),
    )
    if clusters is None:
        return found, facts
    pulls, reach = np.zeros((2, len(clusters)))
    for mask, units, _ in parts:
        values, alone = values_of("interval", units), units._replace(clusters=None)
        pulls[mask] = pulls_of(values.influence, alone)
        reach[mask] = pulls_of(values.weight * spread_over(units, units.loss), alone, False)
    v, z = (np.bincount(clusters, x) / G for x in (pulls, reach))
    second, excess = moments(v * np.sqrt(len(v) / (len(v) - 1)))
    found = found._replace(second=second, excess=excess, reach=float(z.sum()), reach2=float(z @ z))
    return found, facts._replace(units=len(v), draws=len(v))


# from blocks --------------------------------------------------------------------------------------
#
# Intervals from a block table, when the samples themselves are gone.


def interval_from_blocks(
    metric: str,
    blocks: Blocks,
    /,
    *,
    level: float = 0.95,
    method: str | None = None,
    repetitions: bool = False,
    **options: Any,
) -> Interval:
    """Interval from a mergeable block table (a stream, files, replicas); independent samples.

    Parameters
    ----------
    metric : str
        AURC, AUGRC, risk and points of the curve of any loss; the other metrics of `interval` for 0/1 losses.
    blocks : Blocks
        The table.
    level, method, repetitions
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
        metric,
        evidence_of_blocks(blocks, [(metric, options)], repetitions),
        level=level,
        method=method,
        **options,
    )


def evidence_of_blocks(
    blocks: Blocks, metrics: Iterable[tuple[str, dict[str, Any]]], repetitions: bool = False
) -> Evidence:
    """Of a mergeable table, for metrics with these options; relative weights over their unit."""
    if not repetitions:
        blocks = blocks.in_units()
    tables = [table_of_blocks(blocks)]
    whole = repetitions or bool(np.all(blocks.mass == blocks.count) and np.all(blocks.w2 == blocks.count))
    metrics = list(metrics)
    for _, options in metrics:
        counting = needs_whole_weights(options.get("estimator", "harmonic"), options.get("ties", "threshold"))
        if counting and not whole:
            raise repetitions_error("interval_from_blocks", counting)
    negative = not blocks.zero_one and bool((blocks.loss_sum < 0).any())
    total = totals_of(tables, int(blocks.count.sum()), blocks.zero_one, negative, whole)
    return evidence_of(tables, total, asked_for(metrics))
