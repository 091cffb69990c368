r"""Influence functions: how much one sample moves a metric, by cumulative sums after the one sort.

For a metric T of the weights w, with W their sum, the influence of sample i is the derivative of T when a
little mass is taken evenly from all samples and given to i (Gateaux's derivative, at the sample):

.. math:: \mathrm{IF}_i = W\,\partial T/\partial w_i - \sum_j w_j\,\partial T/\partial w_j,
          \qquad \sum_i w_i\,\mathrm{IF}_i = 0

and the standard error is :math:`\sqrt{\sum_i (w_i \mathrm{IF}_i)^2} / W`. Every metric here is linear in the
losses once the ranking is given, so within a row of equal confidence the influence is `const + slope * loss`,
where the slope of an area is its rank weight. `raw_line` has the areas, `metric_line` makes every metric of one of
them, `values` spreads the line out over samples (`stretch` adds up its powers). numpy only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core.area_estimators import (
    area_terms,
    asymptotic_oracle,
    harmonic_difference,
    harmonic_gain,
    has_only_single_samples,
    log_factorial_difference,
    oracle_area,
    row_weights,
    zero_one_oracle_rows,
)
from abstain.core.curve_points import found_by, has_room, no_scale
from abstain.core.rows import CHUNK, Ranking, Rows, diff_from, make_row_sum, rank_confidences, safe_divide
from abstain.core.sorting import is_zero_one

PIECE = 1 << 13  # samples at a time: in cache, and BLAS takes dot products of so many in one thread


class Line(NamedTuple):
    """`W * area` of some rows and, for each, the derivative `const + slope * loss` in a member of that row.

    `up` is what the rows add to const and slope of all members above them, `down` to those below.
    """

    terms: float
    const: np.ndarray
    slope: np.ndarray
    up: tuple[float, float] = (0.0, 0.0)
    down: tuple[float, float] = (0.0, 0.0)


# areas ------------------------------------------------------------------------------------------------------

# the area behind each metric
AREA_OF = {"aurc": "area", "augrc": "sele"}
AREA_OF |= dict.fromkeys(("risk", "oracle_aurc", "e_aurc", "naurc"), "area")
AREA_OF |= dict.fromkeys(("auroc", "prediction_rejection_ratio"), "half")
AREA_OF |= {"aupr_error": "aupr_error", "aupr_success": "aupr_success"}
METRICS = tuple(AREA_OF)
BY_RANK = ("area", "sele")  # areas that weigh a loss by its rank


def raw_line(
    name: str, rows: Rows, estimator: str = "harmonic", ties: str = "threshold", errors: float = math.nan
) -> Line:
    """An area of rows that may be a stretch of a longer table, N, S and W those of the whole, `errors` in all."""
    if name == "half":
        return _half_mass_area(rows)
    if name not in BY_RANK:
        return _precision(rows, errors, name == "aupr_error")
    if name == "sele":
        estimator = "sele"
    elif estimator == "harmonic" and ties == "threshold" and not rows.padded:
        share, risk = rows.mass / rows.accepted_mass, rows.risk
        slope, passed = running(share, share * risk, from_below=True)
        up = -float(passed[0]), float(slope[0])
        return Line(float(np.sum(rows.mass * risk)), risk - passed, slope, up)
    slope = row_weights(rows, estimator, ties)
    below, const = _mass_terms(rows, estimator, ties)
    up_const = up_slope = 0.0
    if below is not None:
        passed = np.cumsum(below[::-1])[::-1]
        const, up_const = const + passed, float(passed[0])
    if ties == "threshold" and estimator in ("harmonic", "loo"):
        others = float(rows.accepted_mass[0]) - 1
        own = 1 / others if estimator == "loo" and others > 0 else 0.0  # left out for the top row alone
        up_slope = float(slope[0]) + own
    return Line(float(np.sum(area_terms(rows, estimator, ties))), const, slope, up=(up_const, up_slope))


def running(a: np.ndarray, b: np.ndarray, from_below: bool) -> tuple[np.ndarray, np.ndarray]:
    """Running sums of two columns. Each addition waits for the last, so both are made at once, as complex numbers."""
    both = np.empty(a.shape, dtype=np.complex128)
    both.real, both.imag = a, b
    both = np.cumsum(both[::-1])[::-1] if from_below else np.cumsum(both)
    return both.real.copy(), both.imag.copy()


def _mass_terms(rows: Rows, estimator: str, ties: str) -> tuple[Array | None, Array]:
    """Derivative of `W * area` in a mass without loss: its effect on each row at or below, and on its own."""
    if estimator == "2sele":
        return None, 2 * _mass_terms(rows, "sele", ties)[1]
    if estimator == "sele":
        return None, (
            rows.accepted_loss if ties == "threshold" else rows.accepted_loss - rows.loss / 2
        ) / rows.total_mass
    if estimator == "log":
        return _log_terms(rows)
    return _threshold_terms(rows, estimator) if ties == "threshold" else _expected_terms(rows)


def _threshold_terms(rows: Rows, estimator: str) -> tuple[Array, Array]:
    """Of m S / N (harmonic) and (m S - L) / (N - 1) (loo)."""
    loo = estimator == "loo"
    per = safe_divide(np, 1.0, rows.accepted_mass - (1.0 if loo else 0.0))
    return -(
        rows.mass * rows.accepted_loss - (rows.loss if loo else 0.0)
    ) * per * per, rows.accepted_loss * per


def _log_terms(rows: Rows) -> tuple[Array, Array]:
    """Of L (ln(W + 1) - D/m), D = ln N! - ln(N-m)!, factorials extended by the Gamma function."""
    above, mass = rows.accepted_mass - rows.mass, _some(rows.mass)
    gain = harmonic_difference(np, above, rows.accepted_mass)
    digamma = harmonic_difference(np, np.zeros_like(above), above) - np.euler_gamma
    mean_log = log_factorial_difference(np, above, rows.accepted_mass) / mass
    return -rows.loss * gain / mass, rows.loss * (mean_log - digamma) / mass


def _expected_terms(rows: Rows) -> tuple[Array, Array]:
    """Of (S - L) g + L (1 - a g / m), a = N - m, g = H_N - H_a extended by the digamma function."""
    from scipy.special import polygamma

    if has_only_single_samples(rows):
        square = 1 / np.square(rows.accepted_mass)
        trigamma = (
            polygamma(1, rows.accepted_mass[..., -1:] + 1) + np.cumsum(square[..., ::-1], axis=-1)[..., ::-1]
        )
        return -rows.accepted_loss * square, trigamma * (
            rows.accepted_loss - rows.loss * rows.accepted_mass
        ) + rows.loss
    above, mass, loss_above = rows.accepted_mass - rows.mass, _some(rows.mass), rows.accepted_loss - rows.loss
    gain = harmonic_gain(rows)
    change = -rows.mass / _some(rows.accepted_mass) ** 2  # of the trigamma function from one row to the next
    tied = rows.mass > 1
    if tied.any():
        change[tied] = polygamma(1, rows.accepted_mass[tied] + 1) - polygamma(1, above[tied] + 1)
    trigamma = (
        polygamma(1, rows.accepted_mass[..., -1:] + 1) - np.cumsum(change[..., ::-1], axis=-1)[..., ::-1]
    )
    mean_loss = rows.loss / mass
    low = loss_above * change - mean_loss * (gain + above * change)
    return low, loss_above * trigamma + mean_loss * (gain * (above / mass + 1) - above * trigamma)


def _some(mass: Array) -> Array:
    return np.where(mass > 0, mass, 1.0)


def dot(x: np.ndarray, y: np.ndarray) -> float:
    """In pieces too short for the threads of BLAS: ranges are finished in threads of their own, which those fight."""
    if len(x) < 1 << 15:
        return float(x @ y)
    whole = len(x) & -(1 << 13)
    rows = (z[:whole].reshape(-1, 1 << 13) for z in (x, y))
    return float(np.vecdot(*rows).sum() + x[whole:] @ y[whole:])


def _half_mass_area(rows: Rows) -> Line:
    """The area behind AUROC and the rejection ratio, where a block comes in evenly; nothing is read from outside."""
    slope = (rows.total_mass - rows.accepted_mass + rows.mass / 2) / rows.total_mass
    return Line(dot(rows.loss, slope), (rows.accepted_loss - rows.loss / 2) / rows.total_mass, slope)


def _precision(rows: Rows, errors: float, of_errors: bool) -> Line:
    r"""Derivatives of :math:`\sum_t p_t P_t / N_t`, the hits times the average precision of finding them.

    p are the hits of a row, P and N what is found and seen there. A member reads the rows that come after it in
    the search. Errors are looked for from the least confident up.
    """
    hits, found, seen = found_by(rows, errors, of_errors)
    precision, gain = found / _some(seen), hits / _some(seen)
    later, cost = running(gain, gain * precision, from_below=not of_errors)
    value = dot(hits, precision)
    if of_errors:
        return Line(value, -cost, precision + later, down=(-float(cost[-1]), float(later[-1])))
    up = float(later[0] - cost[0]), -float(later[0])
    return Line(value, precision + later - cost, -precision - later, up=up)


# metrics ----------------------------------------------------------------------------------------------------


class AreaOptions(NamedTuple):
    """What an area is: which rank weights, what equals mean, which oracle."""

    estimator: str = "harmonic"
    ties: str = "threshold"
    oracle: str = "empirical"


DEFAULT = AreaOptions()


class Best(NamedTuple):
    """The least an area can be, and its influence: a straight line in the loss where the loss is 0/1."""

    area: float = math.nan
    const: float = 0.0
    slope: float = 0.0


class MetricLine(NamedTuple):
    """A metric whose influences are `times * (those of an area) + const + slope * loss + best * (those of the best)`.

    The influences of an area have mean 0. The line of a `Best` is in const and slope already.
    """

    estimate: float
    area: str
    times: float = 1.0
    const: float = 0.0
    slope: float = 0.0
    best: float = 0.0


def metric_line(metric: str, area: float, risk: float, best: Best | None = None) -> MetricLine:
    """Any smooth metric from its area (`AREA_OF`), the risk, and the best area where it reads one.

    The best "half" area of a 0/1 loss, R^2/2, need not be given.
    """
    name = AREA_OF[metric]
    if metric == "risk":
        return MetricLine(risk, name, 0.0, -risk, 1.0)
    if metric in ("aurc", "augrc"):
        return MetricLine(area, name)
    if metric in ("aupr_error", "aupr_success"):
        sign = 1 if metric == "aupr_success" else -1
        hits = 1 - risk if metric == "aupr_success" else risk
        value = area / hits
        away = value * (hits - 1) / hits if metric == "aupr_success" else value
        return MetricLine(value, name, 1 / hits, away, sign * value / hits)
    best = best or Best(risk**2 / 2, -(risk**2), risk)
    if metric == "oracle_aurc":
        found = MetricLine(best.area, name, 0.0, best=1.0)
    elif metric == "e_aurc":
        found = MetricLine(area - best.area, name, best=-1.0)
    else:  # share of the room below the risk, or below half of it, that is left or gained; by the delta method
        per, sign = (1.0, 1) if metric == "naurc" else (0.5, -1)
        top = per * risk
        room = top - best.area
        if not has_room(top, best.area):
            if metric == "naurc" and has_room(area, best.area):
                raise no_scale("this estimator")
            return MetricLine(0.0, name, 0.0)  # all losses are equal: no order is better than another
        left = (area - best.area) / room
        k = 0.5 if metric == "auroc" else 1.0
        value = left if metric == "naurc" else 1 - k * left
        rate = -sign * k * left * per / room  # in the risk, itself of influence l - R
        found = MetricLine(value, name, sign * k / room, -rate * risk, rate, sign * k * (left - 1) / room)
    const, slope = found.const + found.best * best.const, found.slope + found.best * best.slope
    return found._replace(const=const, slope=slope)


@lru_cache(maxsize=256)
def zero_one_oracle(
    W: float, S: float, estimator: str, kind: str = "empirical", known: float | None = None
) -> Best:
    """The oracle AURC of a 0/1 loss with S errors among W, a function of the risk.

    Fractional weights are no counts. Their area must be `known`; its influence is that of the population's value,
    R + (1-R) ln(1-R), of derivative -ln(1-R), which no scale of the weights changes.
    """
    risk = S / W
    if kind == "asymptotic" or known is not None:
        rate = -math.log(1 - risk) if risk < 1 else 0.0
        if kind == "asymptotic" or known is None:
            known = float(asymptotic_oracle(np, np.asarray(risk)))
        return Best(known, -rate * risk, rate)
    rows = zero_one_oracle_rows(S, W)
    line = raw_line("area", rows, estimator, "expected")
    mean = float(rows.mass @ line.const + rows.loss @ line.slope) / W
    # no sample of a kind: no influence
    right = float(line.const[0] - mean) if S < W else 0.0
    wrong = float(line.const[1] - mean + line.slope[1]) if S else 0.0
    return Best(line.terms / W, right, wrong - right)


# samples ----------------------------------------------------------------------------------------------------

# of losses other than 0/1 these read a second ranking, by loss: no straight line in the loss within a row
BY_LOSS = ("oracle_aurc", "e_aurc", "naurc", "prediction_rejection_ratio")


@dataclass(frozen=True)
class Values:
    """An estimate and, for each of n samples in the order given, its influence and its rank weight.

    Most are read once, a cacheful at a time: `at(slice)` gives some influences, and no array of all is made.
    `reach`: of mass times rank weight times loss, the sum and the sum of squares.
    """

    estimate: float
    at: Callable[[slice], np.ndarray]
    n: int
    weigh: Callable[[], np.ndarray]
    reach: tuple[float, float]

    @property
    def influence(self) -> np.ndarray:
        """Of all samples."""
        return np.concatenate([self.at(slice(a, a + PIECE)) for a in range(0, self.n, PIECE)])

    @property
    def weight(self) -> np.ndarray:
        """Rank weights; 1 where no ranks weigh."""
        return self.weigh()


def values(
    metric: str,
    loss: np.ndarray,
    confidence: np.ndarray,
    weight: np.ndarray | None = None,
    options: AreaOptions = DEFAULT,
    ranked: Ranked | None = None,
    by_loss: Ranked | None = None,
) -> Values:
    """Estimate and the influence of each sample, in the order given; rankings that are known need no sort."""
    ranked = Ranked(rank_confidences(confidence), loss, weight) if ranked is None else ranked
    whole = weight is None or bool(np.all(weight == np.floor(weight)))
    W, S = float(ranked.rows.total_mass[0]), float(ranked.rows.accepted_loss[-1])
    name, best, other = AREA_OF[metric], None, None
    area = None
    if metric not in ("risk", "oracle_aurc"):
        area = ranked.area(name, options.estimator, options.ties)
    if metric in BY_LOSS and not is_zero_one(loss):
        by_loss = best_ranked(loss, weight, whole) if by_loss is None else by_loss
        other = by_loss.area(name, options.estimator, "expected" if whole else "threshold")
        best = Best(other.estimate)
        if area is not None and name == "area":
            # with relative weights the order by loss is not always the very best one
            best = Best(min(other.estimate, area.estimate))
    elif metric in BY_LOSS and name == "area":
        known = None if whole else float(oracle_area(np, loss.astype(np.float64), weight, options.estimator))
        best = zero_one_oracle(W, S, options.estimator, options.oracle, known)
    line = metric_line(metric, math.nan if area is None else area.estimate, S / W, best)
    if area is not None and line[2:] == (1.0, 0.0, 0.0, 0.0):
        return area

    def at(here: slice) -> np.ndarray:
        found: np.ndarray = line.const + line.slope * loss[here].astype(np.float64, copy=False)
        if area is not None:
            found += line.times * area.at(here)
        if other is not None:
            found += line.best * other.at(here)
        return found

    if area is None or name not in BY_RANK:
        return Values(line.estimate, at, len(loss), lambda: np.ones(1), ranked.reach)
    return replace(area, estimate=line.estimate, at=at)


class Ranked:
    """One loss along one ranking: the rows its samples fall into, the way back, and what was worked out of it.

    in_order: are the samples given most confident first already?
    """

    def __init__(
        self, ranking: Ranking, loss: np.ndarray, weight: np.ndarray | None = None, in_order: bool = False
    ) -> None:
        self.ranking, self.in_order = ranking, in_order
        order, stops = ranking
        along: Any = slice(None) if in_order else order
        self.loss = loss[along].astype(np.float64, copy=False)
        self.weight = None if weight is None else weight[along].astype(np.float64, copy=False)
        counts, total = diff_from(stops, 0), make_row_sum(stops)
        self.place = None
        if len(stops) < len(order):
            self.place = np.repeat(np.arange(len(stops), dtype=np.int32), counts)
        if self.weight is None:
            m, L, N = counts.astype(np.float64), total(self.loss), stops.astype(np.float64)
        else:
            m, L = total(self.weight), total(self.weight * self.loss)
            N = np.cumsum(m)
        self.rows = Rows(
            mass=m, loss=L, accepted_mass=N, accepted_loss=np.cumsum(L), total_mass=N[-1:], padded=False
        )
        self._known: dict[tuple[str, ...], tuple[float, np.ndarray, tuple[float, float]]] = {}

    @cached_property
    def reach(self) -> tuple[float, float]:
        """Of mass times loss, the sum and the sum of squares."""
        own = self.loss if self.weight is None else self.weight * self.loss
        return float(self.rows.accepted_loss[-1]), float(np.sum(np.square(own)))

    def area(self, name: str, estimator: str, ties: str) -> Values:
        """An area with influence and rank weight of each sample, in the order given."""
        key = name, estimator, ties
        estimate, influence, reach = self.known(*key)
        return Values(estimate, influence.__getitem__, len(influence), partial(self._weights, *key), reach)

    def known(self, *key: str) -> tuple[float, np.ndarray, tuple[float, float]]:
        """Estimate, influences and reach, worked out once. (Not what weighs: it holds on to the ranking itself.)"""
        if key not in self._known:
            self._known[key] = self._area(*key)
        return self._known[key]

    def _area(self, name: str, estimator: str, ties: str) -> tuple[float, np.ndarray, tuple[float, float]]:
        """A cacheful of rows at a time, from the least confident up, so that each is told what lies below it."""
        rows, stops, influence = self.rows, self.ranking.row_stops, np.empty(len(self.loss))
        size = len(rows.mass) if name == "aupr_error" else PIECE  # that one reads what lies above
        sums, const, slope = [], 0.0, 0.0
        for b in range(len(rows.mass), 0, -size):
            a = max(0, b - size)
            some = rows.slice(a, b)
            line = raw_line(name, some, estimator, ties, float(rows.accepted_loss[-1]))
            own, steep = line.const + const, line.slope + slope
            mean = float(some.mass @ own + some.loss @ steep)
            here = slice(int(stops[a - 1]) if a else 0, int(stops[b - 1]))
            if self.place is not None:
                own, steep = (x[self.place[here] - a] for x in (own, steep))
            lost = steep * self.loss[here]
            influence[here] = own + lost
            lost = lost if self.weight is None else lost * self.weight[here]
            sums.append((line.terms, mean, float(lost.sum()), float(lost @ lost)))
            const, slope = const + line.up[0], slope + line.up[1]
        W = float(rows.total_mass[0])
        terms, mean, *reach = map(math.fsum, zip(*sums))
        influence -= mean / W  # mass given to one sample is taken from all
        return terms / W, self.given(influence), (reach[0], reach[1])

    def _weights(self, name: str, estimator: str, ties: str) -> np.ndarray:
        by_row = row_weights(self.rows, "sele" if name == "sele" else estimator, ties)
        return self.given(by_row if self.place is None else by_row[self.place])

    def given(self, values: np.ndarray) -> np.ndarray:
        """Values of ranked samples in the order given."""
        if self.in_order:
            return values
        back = np.empty_like(values)
        back[self.ranking.order] = values
        return back

    def plain_area(self, estimator: str, ties: str) -> float:
        """An area alone, a cacheful of rows at a time."""
        parts = (self.rows.slice(a, a + CHUNK) for a in range(0, len(self.rows.mass), CHUNK))
        return math.fsum(float(np.sum(area_terms(r, estimator, ties))) for r in parts) / float(
            self.rows.total_mass[0]
        )


class Reordered(Ranked):
    """A ranking of samples that are given in another order; its areas are worked out once for all orders."""

    def __init__(self, ranked: Ranked, order: np.ndarray) -> None:
        self._ranked, self._order, self._known = ranked, order, {}

    def _area(self, name: str, estimator: str, ties: str) -> tuple[float, np.ndarray, tuple[float, float]]:
        estimate, influence, reach = self._ranked.known(name, estimator, ties)
        return estimate, influence[self._order], reach


def best_ranked(loss: np.ndarray, weight: np.ndarray | None, whole: bool) -> Ranked:
    """The order of least area. Fractional weights are no repetitions: every sample is a row, equal losses by weight."""
    if whole or weight is None:
        return Ranked(rank_confidences(-loss.astype(np.float64)), loss, weight)
    order = np.lexsort((weight, loss))
    return _OneByOne(Ranking(order, np.arange(1, len(order) + 1)), loss, weight)


class _OneByOne(Ranked):
    """Every sample a row of its own. Which of several alike comes first is chance: each has their mean influence."""

    def _area(self, name: str, estimator: str, ties: str) -> tuple[float, np.ndarray, tuple[float, float]]:
        estimate, influence, reach = super()._area(name, estimator, ties)
        assert self.weight is not None
        new = (np.diff(self.loss) != 0) | (np.diff(self.weight) != 0)
        alike = np.cumsum(np.concatenate([[False], new]))
        mean = np.bincount(alike, influence[self.ranking.order]) / np.bincount(alike)
        return estimate, self.given(mean[alike]), reach
