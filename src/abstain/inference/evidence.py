"""Evidence: all that an error bar reads of one ranking of one loss, wherever the samples are.

    samples | block table | ranges of files, of Dask, of Spark
        -> Table     a stretch of rows, most confident first, with N, S and W of the whole set
        -> Part      `part_of(table, totals, asked)`: its sums, and the points of the curve that fall into it
        -> Evidence  `together(parts, totals, asked)`
        -> Interval  `estimate(metric, evidence)`

An engine needs the totals of the data set first (a pass it makes anyhow), then delivers one `Part` per range, by
`part_of`; a range that is one tie is a table of one row, made from its sums of w^p l^j. Parts are small (some
hundred numbers; five times 512 readings where a coverage at a risk is asked for) and are put together in the
order of the ranges, most confident first. Nothing after that knows where they came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from abstain.core.influence import AREA_OF, BY_RANK, metric_line, zero_one_oracle
from abstain.core.stretch import Stretch, Table, Totals, added_up, combined, stacked, stretches_of
from abstain.errors import InfeasibleError, InputError
from abstain.inference import limits, point_limits
from abstain.inference.point_limits import Readings
from abstain.inference.records import Interval

POINTS = ("risk_at_coverage", "coverage_at_risk", "fpr_at_tpr")
_SLACK = 1e-11  # as point_limits.reaches: a share that is short by rounding alone is reached


@dataclass(frozen=True)
class Asked:
    """What to gather: areas by name, one estimator and one rule for ties, and points of the curve."""

    areas: tuple[str, ...] = ()
    estimator: str = "harmonic"
    ties: str = "threshold"
    coverages: tuple[float, ...] = ()
    risks: tuple[float, ...] = ()
    tprs: tuple[float, ...] = ()


def asked_for(metrics: Iterable[tuple[str, dict[str, Any]]]) -> Asked:
    """What metrics with these options need; all with the same estimator and ties."""
    areas: dict[str, None] = {}
    given: dict[str, Any] = {}
    points_of: dict[str, list[float]] = {"coverage": [], "risk": [], "tpr": []}
    for metric, options in metrics:
        areas |= dict.fromkeys([AREA_OF[metric]] if metric in AREA_OF else [])
        given |= {k: v for k, v in options.items() if k in ("estimator", "ties")}
        for name, values in points_of.items():
            if name in options and options[name] not in values:
                values.append(float(options[name]))
        if metric == "fpr_at_tpr" and "tpr" not in options:
            points_of["tpr"].append(0.95)
    coverages, risks, tprs = (tuple(x) for x in points_of.values())
    return Asked(tuple(areas), coverages=coverages, risks=risks, tprs=tprs, **given)


class Part(NamedTuple):
    """What one stretch of the ranking says; see `part_of`."""

    stretches: dict[str, Stretch]
    sums: (
        np.ndarray | None
    )  # over the stretch: mass, loss, w^2 l^j (3), w^4 l^j (5); None: no point is asked for
    # places among the positions, and the columns read there
    readings: tuple[tuple[np.ndarray, np.ndarray], ...]
    reached: dict[float, float]  # risk: the largest mass accepted within it


@lru_cache(maxsize=64)
def positions(total: Totals, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """Masses from the top at which to read, along all samples and along the right ones; (5, points) each."""
    n, W, w2, _ = whole_of(total)
    along = point_limits.positions(np.asarray(asked.coverages), W, w2, n)
    if asked.risks:
        cuts = point_limits.positions(point_limits.coverages(), total.W, total.squares[0], total.n)
        along = np.concatenate([along, cuts], axis=1)
    right = np.asarray(asked.tprs if total.zero_one else ())
    wrong, wrong2 = total.S, total.squares[1]
    return along, point_limits.positions_along_right(
        right, total.W - wrong, total.squares[0] - wrong2, total.n
    )


def whole_of(total: Totals) -> tuple[int, float, float, float]:
    """Count, mass and sums of w^2 and w^4 of all samples, abstained included."""
    n, mass, w2, w4 = total.idle
    return total.n + n, total.W + mass, total.squares[0] + w2, total.fourths[0] + w4


def part_of(table: Table, total: Totals, asked: Asked) -> Part:
    """The part of a stretch whose rows hold N, S and W of the whole set."""
    in_error_units = total.in_error_units()
    if in_error_units is not total:
        total = in_error_units
        table = table.in_error_units(total.error_size)
    rows = table.rows
    both = total.zero_one and 0 < total.S < total.W
    areas = [name for name in asked.areas if both or name in BY_RANK]
    made = stretches_of(table, areas, asked.estimator, asked.ties, total.S)
    found, sums = [], None
    if asked.coverages or asked.risks or asked.tprs:
        sums, start = (
            added_up(table.columns),
            (float(rows.accepted_mass[0] - rows.mass[0]), float(rows.accepted_loss[0] - rows.loss[0])),
        )
        running = {id(rows.mass): rows.accepted_mass - start[0], id(rows.loss): rows.accepted_loss - start[1]}
        for x in table.columns:  # powers of a 0/1 loss are one array
            running[id(x)] = running[id(x)] if id(x) in running else np.cumsum(x)
        for wrong, asked_at in enumerate(positions(total, asked)):
            along = rows.accepted_mass - rows.accepted_loss if wrong and asked_at.size else rows.accepted_mass
            above = start[0] - start[1] if wrong else start[0]
            wanted = np.maximum(asked_at.reshape(-1), 0.0) * (1 - _SLACK)
            here = np.flatnonzero((wanted <= along[-1]) & (wanted >= above * (1 - 4 * _SLACK)))
            row = np.searchsorted(along, wanted[here])
            found.append((here, np.stack([rows.mass[row], *(running[id(x)][row] for x in table.columns)])))
    within = {}
    for r in asked.risks:
        good = np.flatnonzero(r / total.error_size * (1 + _SLACK) * rows.accepted_mass >= rows.accepted_loss)
        within[r] = float(rows.accepted_mass[good[-1]]) if len(good) else 0.0
    return Part(made, sums, tuple(found), within)


@dataclass(frozen=True)
class Evidence:
    """One ranking of one loss: sums over its stretches, its totals, and readings at the points asked for."""

    total: Totals
    asked: Asked
    stretches: dict[str, Stretch]  # stacked
    readings: tuple[Readings, ...]
    reached: dict[float, float]
    oracle: float | None = None  # the best area, where it is no function of the risk: weights, other losses


def together(parts: Sequence[Part], total: Totals, asked: Asked, oracle: float | None = None) -> Evidence:
    """From the parts of all stretches, most confident first; losses 0 and c in units of c."""
    in_error_units = total.in_error_units()
    if in_error_units is not total:
        total = in_error_units
        oracle = None if oracle is None else oracle / total.error_size
    stretches = {name: stacked([p.stretches[name] for p in parts]) for name in parts[0].stretches}
    readings = []
    if parts[0].readings:
        sums = np.asarray([p.sums for p in parts])
        above = np.cumsum(sums, axis=0) - sums
        for k, asked_at in enumerate(positions(total, asked)):
            columns = np.empty((11, asked_at.size))
            columns[0], columns[1:] = sums[-1, 0], (above[-1] + sums[-1])[:, None]
            for part, offset in zip(reversed(parts), above[::-1]):  # the first that reaches a position wins
                here, values = part.readings[k]
                columns[0, here], columns[1:, here] = values[0], values[1:] + offset[:, None]
            m, N, S, *rest = columns.reshape(11, *asked_at.shape)
            readings.append(Readings(m, N, S, np.stack(rest[:3]), np.stack(rest[3:])))
    reached = {r: max(p.reached[r] for p in parts) for r in asked.risks}
    return Evidence(total, asked, stretches, tuple(readings), reached, oracle)


def evidence_of(
    tables: Iterable[Table], total: Totals, asked: Asked, oracle: float | None = None
) -> Evidence:
    """Of samples in memory."""
    return together([part_of(t, total, asked) for t in tables], total, asked, oracle)


# estimates --------------------------------------------------------------------------------------------------


def facts_of(total: Totals) -> limits.Facts:
    """What limits must know of independent samples."""
    n = whole_of(total)[0]
    wrong = (total.S / math.sqrt(total.squares[2])) ** 2 if total.squares[2] > 0 else 0.0
    right2 = total.squares[0] - total.squares[1]
    right = (total.W - total.S) ** 2 / right2 if total.zero_one and right2 > 0 else 0.0
    return limits.Facts(
        n=n,
        units=n,
        draws=total.W**2 / total.squares[0],
        zero_one=total.zero_one,
        negative=total.negative,
        risk=total.risk,
        errors=wrong,
        pairs=max(1.0, min(wrong, right)),
        right=right,
        error_draws=wrong,
        right_draws=right,
        error_size=total.error_size,
        largest=_largest(total),
    )


def _largest(total: Totals) -> float:
    """About the largest loss, from sums that add up over parts: the mean of losses weighted by their cubes."""
    if total.zero_one:
        return 1.0
    return total.fourths[4] / total.fourths[3] if total.fourths[3] > 0 else 0.0


def evidence_spread(metric: str, found: Evidence, kind: str = "empirical") -> limits.Spread:
    """Estimate and sums of influences of a smooth metric."""
    total, asked = found.total, found.asked
    name = AREA_OF[metric]
    if name not in found.stretches:
        if metric == "prediction_rejection_ratio":  # one kind only: nothing to gain
            return limits.Spread(0.0, 0.0, 0.0)
        raise InfeasibleError(f"{metric}: needs both right and wrong samples, got only one kind.")
    best = None
    if metric in ("oracle_aurc", "e_aurc", "naurc"):
        if not total.whole and found.oracle is None and kind == "empirical":
            raise InputError(f"interval: {metric} with relative weights needs the samples themselves.")
        known = None if total.whole else found.oracle
        best = zero_one_oracle(total.W, total.S, asked.estimator, kind, known)
    every = found.stretches[name]
    line = metric_line(metric, math.fsum(every.terms) / total.W, total.risk, best)
    centre = None
    if metric == "aurc" and total.unit and asked.estimator not in ("sele", "2sele"):
        centre = math.fsum(every.loo) / total.W
    return limits.spread_of(line.estimate, combined(every, line), total.n, centre)


def estimate(
    metric: str,
    found: Evidence,
    /,
    *,
    level: float = 0.95,
    method: str | None = None,
    loss_bound: float | None = None,
    more: float = 1.0,
    answered_effect: float = 1.0,
    **options: Any,
) -> Interval:
    """The interval of any metric; `estimator`, `ties` and points must be those that were asked for.

    Clusters multiply the variance of a point by `more`, and that of the share of answered samples by
    `answered_effect`.
    """
    if metric in POINTS:
        return _point(metric, found, level, more, answered_effect, options)
    if metric not in ("aurc", "augrc", "risk") and not found.total.zero_one:
        raise InputError(f"interval: {metric} of losses other than 0/1 needs the samples themselves.")
    spread = evidence_spread(metric, found, options.get("oracle", "empirical"))
    return limits.interval_of(metric, spread, facts_of(found.total), level, method, loss_bound)


def _point(
    metric: str, found: Evidence, level: float, more: float, answered_effect: float, options: dict[str, Any]
) -> Interval:
    asked, total = found.asked, found.total
    n, W, w2, w4 = whole_of(total)
    whole = point_limits.Whole(W, w2, w4, n, total.zero_one, total.negative)
    along, right = found.readings
    note = ""
    if metric == "fpr_at_tpr":
        facts = facts_of(total)
        note = limits.fewest_draws(metric, facts.error_draws, facts)[1]
        tpr = float(options.get("tpr", 0.95))
        at = right.at([asked.tprs.index(tpr)])
        value = float(at.S[0, 0] / total.S)
        whole = point_limits.Whole(total.W, total.squares[0], total.fourths[0], total.n, True)
        low, high = point_limits.fpr_limits(
            at, tpr, whole, (total.S, total.squares[1], total.fourths[1]), level, more
        )
    elif metric == "risk_at_coverage":
        coverage = float(options["coverage"])
        k = asked.coverages.index(coverage)
        at = along.at([k])
        value = float(at.S[0, 0] / at.N[0, 0])
        if coverage * (1 - _SLACK) > total.W / W:
            raise InfeasibleError(
                f"risk_at_coverage: coverage {coverage:g} cannot be reached, since abstained samples are never "
                f"accepted. Ask for at most the share that was answered."
            )
        low, high = (
            float(x[0]) for x in point_limits.risk_limits(at, np.asarray([coverage]), whole, level, more)[:2]
        )
    else:
        risk = float(options["risk"])
        at = along.at(slice(len(asked.coverages), None))
        among_answered = found.reached[risk] / total.W
        value = found.reached[risk] / W
        answered = point_limits.Whole(
            mass=total.W,
            w2=total.squares[0],
            w4=total.fourths[0],
            units=total.n,
            zero_one=total.zero_one,
            negative=total.negative,
        )
        low, high = point_limits.coverage_limits(at, answered, risk / total.error_size, level, more)
        if total.idle[0]:
            limits_among_answered = (min(low, among_answered), max(high, among_answered))
            low, high = point_limits.scaled_by_answered_share(
                among_answered, limits_among_answered, total.W / W, W**2 / w2 / answered_effect, level
            )
    low, high = min(low, value), max(high, value)
    if total.zero_one or metric == "coverage_at_risk":
        low, high = max(low, 0.0), min(high, 1.0)
    error = (high - low) / (2 * limits.student(math.inf, level))
    interval = Interval(
        metric=metric,
        estimate=value,
        standard_error=error,
        low=low,
        high=high,
        level=level,
        method="pointwise",
        n=n,
        note=note,
    )
    return limits.in_loss_units(interval, total.error_size)
