"""Bootstrap intervals: percentiles of replicates, plain or BCa."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import numpy as np

from abstain.core import detection, points
from abstain.core.bootstrap import Draw, Resampler
from abstain.core.estimators import area
from abstain.core.oracle import asymptotic_oracle
from abstain.errors import InputError
from abstain.inference._units import BOOTSTRAP_ONLY, Units
from abstain.inference.leave_one_out import acceleration
from abstain.inference.results import Interval

Statistic = Callable[[Draw], np.ndarray]


def interval(
    units: Units, level: float, method: str, replicates: int, rng: np.random.Generator, progress: bool | None
) -> Interval:
    """Percentiles of the replicates; BCa corrects them for bias and skewness."""
    if replicates < 100:
        raise InputError(f"interval: `replicates` must be at least 100 for a percentile, got {replicates}.")
    if method == "bca" and units.metric in BOOTSTRAP_ONLY:
        raise InputError(
            f'interval: `method="bca"` needs a smooth metric, got {units.metric}. Use "bootstrap".'
        )
    estimate = observed(units)
    values = replicate(units, statistic(units), replicates, rng, progress)
    values = values[np.isfinite(values)]
    if len(values) < replicates / 2:
        raise InputError(
            f"interval: most resamples leave {units.metric} undefined; too few errors to say anything."
        )
    tails = np.asarray([(1 - level) / 2, (1 + level) / 2])
    if method == "bca":
        tails = _bca(values, estimate, acceleration(units), tails)
    low, high = np.quantile(values, tails)
    error = float(np.std(values, ddof=1))
    return Interval(
        units.metric, estimate, error, float(low), float(high), level, method, units.n, "replicates"
    )


def _bca(values: np.ndarray, estimate: float, a: float, tails: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr, ndtri

    below = np.mean(values < estimate) + np.mean(values == estimate) / 2
    z0 = ndtri(np.clip(below, 0.5 / len(values), 1 - 0.5 / len(values)))
    z = z0 + ndtri(tails)
    return np.asarray(ndtr(z0 + z / (1 - a * z)))


def resampler(units: Units) -> Resampler:
    """The samples in sorted order; those that abstained last, drawn but in no row."""
    idle, clusters, strata = None, units.clusters, units.strata
    if units.kept is not None:
        out = ~units.kept
        idle = np.ones(int(out.sum())) if units.whole_weight is None else units.whole_weight[out]
        clusters, strata = (
            None if c is None else np.concatenate([c[units.kept], c[out]]) for c in (clusters, strata)
        )
    if clusters is not None and strata is not None:
        _check_nested(clusters, strata)
    return Resampler(units.loss, units.confidence, units.weight, idle, clusters, strata)


def _check_nested(clusters: np.ndarray, strata: np.ndarray) -> None:
    pairs = np.unique(np.stack([clusters, strata]), axis=1).shape[1]
    if pairs > int(clusters.max()) + 1:
        raise InputError("interval: every cluster must lie in one stratum, got clusters spread over several.")


def observed(units: Units) -> float:
    """The metric on the sample itself, through the same code as its replicates."""
    whole = resampler(units)
    counts = whole.repeats if whole.repeats is not None else np.ones(whole.n, dtype=np.int64)
    return float(statistic(units)(whole.tabulate(counts[None, :]))[0])


def replicate(
    units: Units, value: Statistic, replicates: int, rng: np.random.Generator, progress: bool | None
) -> np.ndarray:
    """`value` of each replicate, stacked along the first axis."""
    source = resampler(units)
    with _bar(progress, replicates) as advance:
        found = []
        for size in source.batches(replicates):
            with np.errstate(
                invalid="ignore", divide="ignore"
            ):  # 0/0 in a replicate without errors is dropped later
                found.append(value(source.draw(rng, size)))
            advance(size)
    return np.concatenate(found)


def statistic(units: Units) -> Statistic:
    """The metric as a function of replicates."""
    metric, options, area_of = units.metric, units.options, units.area
    whole = units.weight is None or bool(np.all(units.weight == np.floor(units.weight)))

    def risk(d: Draw) -> np.ndarray:
        return np.asarray(d.rows.S[:, -1] / d.rows.W[:, 0])

    def best(d: Draw) -> np.ndarray:
        if area_of.oracle == "asymptotic":
            return np.asarray(asymptotic_oracle(np, risk(d)))
        return np.asarray(area(d.by_loss(), area_of.estimator, "expected" if whole else "threshold"))

    def actual(d: Draw) -> np.ndarray:
        return np.asarray(area(d.rows, area_of.estimator, area_of.ties))

    table: dict[str, Statistic] = {
        "aurc": actual,
        "augrc": lambda d: area(d.rows, "sele", area_of.ties) * d.rows.W[:, 0] / d.total,
        "risk": risk,
        "oracle_aurc": best,
        "e_aurc": lambda d: actual(d) - best(d),
        "naurc": lambda d: _quotient(actual(d) - best(d), risk(d) - best(d), risk(d)),
        "auroc": lambda d: detection.auroc(d.rows),
        "prediction_rejection_ratio": lambda d: detection.rejection_ratio(d.rows, d.by_loss()),
        "risk_at_coverage": lambda d: points.risk_at_coverage(d.rows, d.total, options["coverage"])[0],
        "coverage_at_risk": lambda d: points.coverage_at_risk(d.rows, d.total, options["risk"]),
        "aupr_error": lambda d: detection.average_precision(d.rows, of_errors=True),
        "aupr_success": lambda d: detection.average_precision(d.rows, of_errors=False),
        "fpr_at_tpr": lambda d: detection.fpr_at_tpr(d.rows, options.get("tpr", 0.95)),
    }
    return table[metric]


def _quotient(top: np.ndarray, room: np.ndarray, risk: np.ndarray) -> np.ndarray:
    some = room > 1e-14 * np.abs(risk)
    return np.where(some, top, 0.0) / np.where(some, room, 1.0)


@contextmanager
def _bar(progress: bool | None, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error: always, never, or (None) when a terminal would wait over a second."""
    import sys

    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import Progress

    started, done = perf_counter(), 0
    with Progress(console=Console(stderr=True), transient=progress is None, auto_refresh=False) as shown:
        task = shown.add_task("resampling", total=total, visible=bool(progress))

        def advance(size: int) -> None:
            nonlocal done
            done += size
            late = (perf_counter() - started) / done * total > 1
            shown.update(task, completed=done, visible=bool(progress) or late)
            shown.refresh()

        yield advance
