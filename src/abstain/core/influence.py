r"""Influence functions: how much one sample moves a metric, by cumulative sums after the one sort.

For a metric T of the weights w, with W their sum, the influence of sample i is the derivative of T when a
little mass is taken evenly from all samples and given to i (Gateaux's derivative, at the sample):

.. math:: \mathrm{IF}_i = W\,\partial T/\partial w_i - \sum_j w_j\,\partial T/\partial w_j,
          \qquad \sum_i w_i\,\mathrm{IF}_i = 0

and the standard error is :math:`\sqrt{\sum_i (w_i \mathrm{IF}_i)^2} / W`. Every metric here is linear in the
losses once the ranking is given, so within a row of equal confidence the influence is `const + slope * loss`,
where the slope of an area is its rank weight. Rows lie along the last axis; leading axes are batches. numpy
only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core import points
from abstain.core.estimators import (
    all_lone,
    area_terms,
    asymptotic_oracle,
    block_gain,
    harmonic_difference,
    log_factorial_difference,
    oracle_area,
    row_weights,
)
from abstain.core.rows import CHUNK, Ranking, Rows, ranking_of
from abstain.core.sorting import is_zero_one


class Line(NamedTuple):
    """An estimate and, for each row, the influence `const + slope * loss` of a member of that row."""

    estimate: Array
    const: Array
    slope: Array

    def scaled(self, by: Array) -> Line:
        """Estimate and influences times a number."""
        column = np.asarray(by)[..., None]
        return Line(by * self.estimate, column * self.const, column * self.slope)


def minus(a: Line, b: Line) -> Line:
    """Influence of a difference of two metrics of the same rows."""
    return Line(a.estimate - b.estimate, a.const - b.const, a.slope - b.slope)


def ratio(a: Line, b: Line, least: Array) -> Line:
    """Influence of the quotient a / b (delta method); value and influence 0 where `b` is at most `least`."""
    some = b.estimate > least
    unit = np.where(some, 1.0, 0.0) / np.where(some, b.estimate, 1.0)
    value = a.estimate * unit
    return minus(a, b.scaled(value)).scaled(unit)._replace(estimate=value)


def second_moment(influence: Line, w2: Array, w2l: Array, w2ll: Array) -> Array:
    """Sum of (w IF)^2 from the rows' sums of w^2, w^2 l, w^2 l^2: at the row's mean loss, and around it."""
    mean = w2l / _some(w2)
    middle = influence.const + influence.slope * mean
    return np.sum(w2 * middle**2 + influence.slope**2 * np.maximum(w2ll - mean * w2l, 0.0), axis=-1)


# areas ------------------------------------------------------------------------------------------------------


def of_area(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Line:
    """AURC by any estimator; "sele" is AUGRC."""
    raw = raw_area(rows, estimator, ties)[0]
    return centred(rows, raw._replace(estimate=raw.estimate / rows.W[..., 0]))


def raw_area(rows: Rows, estimator: str, ties: str) -> tuple[Line, Array, Array]:
    """`W * area` with its derivatives; and what the rows add to const and slope of all members above them."""
    if estimator == "harmonic" and ties == "threshold" and not rows.padded:
        share, risk = rows.m / rows.N, rows.risk
        slope, passed = running(share, share * risk, from_below=True)
        line = Line(np.sum(rows.m * risk, axis=-1), risk - passed, slope)
        return line, -passed[..., 0], slope[..., 0]
    slope = row_weights(rows, estimator, ties)
    below, const = _mass_terms(rows, estimator, ties)
    up_const = up_slope = np.zeros(rows.m.shape[:-1])
    if below is not None:
        passed = np.cumsum(below[..., ::-1], axis=-1)[..., ::-1]
        const, up_const = const + passed, passed[..., 0]
    if ties == "threshold" and estimator in ("harmonic", "loo"):
        others = rows.N[..., 0] - 1
        own = np.where(others > 0, 1 / _some(others), 0.0) if estimator == "loo" else 0.0
        up_slope = slope[..., 0] + own  # the top row alone leaves itself out
    return Line(np.sum(area_terms(rows, estimator, ties), axis=-1), const, slope), up_const, up_slope


def running(a: Array, b: Array, from_below: bool) -> tuple[Array, Array]:
    """Running sums of two columns. Each addition waits for the last, so both are made at once, as complex numbers."""
    both = np.empty(a.shape, dtype=np.complex128)
    both.real, both.imag = a, b
    if from_below:
        both = both[..., ::-1]
    both = np.cumsum(both, axis=-1)
    if from_below:
        both = both[..., ::-1]
    return both.real.copy(), both.imag.copy()


def centred(rows: Rows, raw: Line) -> Line:
    """Take the mean off the derivatives: mass given to one sample is taken from all."""
    if rows.m.ndim == 1:  # no copies
        mean = (rows.m @ raw.const + rows.L @ raw.slope) / rows.W
    else:
        mean = np.sum(rows.m * raw.const + rows.L * raw.slope, axis=-1, keepdims=True) / rows.W
    return raw._replace(const=raw.const - mean)


def _mass_terms(rows: Rows, estimator: str, ties: str) -> tuple[Array | None, Array]:
    """Derivative of `W * area` in a mass without loss: its effect on each row at or below, and on its own."""
    if estimator == "2sele":
        return None, 2 * _mass_terms(rows, "sele", ties)[1]
    if estimator == "sele":
        return None, (rows.S if ties == "threshold" else rows.S - rows.L / 2) / rows.W
    if estimator == "log":
        return _log_terms(rows)
    return _threshold_terms(rows, estimator) if ties == "threshold" else _expected_terms(rows)


def _threshold_terms(rows: Rows, estimator: str) -> tuple[Array, Array]:
    """Of m S / N (harmonic) and (m S - L) / (N - 1) (loo)."""
    loo = estimator == "loo"
    if not (loo or rows.padded):
        own = rows.risk
        return -rows.m * own / rows.N, own
    accepted = rows.N - (1.0 if loo else 0.0)
    some = accepted > 0
    per = np.where(some, 1.0, 0.0) / np.where(some, accepted, 1.0)
    own = rows.S * per
    return -(rows.m * rows.S - (rows.L if loo else 0.0)) * per * per, own


def _log_terms(rows: Rows) -> tuple[Array, Array]:
    """Of L (ln(W + 1) - D/m), D = ln N! - ln(N-m)!, factorials extended by the Gamma function."""
    above, mass = rows.N - rows.m, _some(rows.m)
    gain = harmonic_difference(np, above, rows.N)
    digamma = harmonic_difference(np, np.zeros_like(above), above) - np.euler_gamma
    mean_log = log_factorial_difference(np, above, rows.N) / mass
    return -rows.L * gain / mass, rows.L * (mean_log - digamma) / mass


def _expected_terms(rows: Rows) -> tuple[Array, Array]:
    """Of (S - L) g + L (1 - a g / m), a = N - m, g = H_N - H_a extended by the digamma function."""
    from scipy.special import polygamma

    if all_lone(rows):
        square = 1 / np.square(rows.N)
        trigamma = polygamma(1, rows.N[..., -1:] + 1) + np.cumsum(square[..., ::-1], axis=-1)[..., ::-1]
        return -rows.S * square, trigamma * (rows.S - rows.L * rows.N) + rows.L
    above, mass, loss_above = rows.N - rows.m, _some(rows.m), rows.S - rows.L
    gain = block_gain(rows)
    change = -rows.m / _some(rows.N) ** 2  # of the trigamma function from one row to the next
    tied = rows.m > 1
    if tied.any():
        change[tied] = polygamma(1, rows.N[tied] + 1) - polygamma(1, above[tied] + 1)
    trigamma = polygamma(1, rows.N[..., -1:] + 1) - np.cumsum(change[..., ::-1], axis=-1)[..., ::-1]
    mean_loss = rows.L / mass
    low = loss_above * change - mean_loss * (gain + above * change)
    return low, loss_above * trigamma + mean_loss * (gain * (above / mass + 1) - above * trigamma)


def _some(mass: Array) -> Array:
    return np.where(mass > 0, mass, 1.0)


# simple means and 0/1 losses --------------------------------------------------------------------------------


def of_risk(rows: Rows) -> Line:
    """The mean loss: l - R."""
    risk = rows.S[..., -1:] / rows.W
    return Line(risk[..., 0], -risk + 0 * rows.m, np.ones_like(rows.m))


def of_zero_one_oracle(
    rows: Rows, estimator: str, oracle: str = "empirical", known: float | None = None
) -> Line:
    """The oracle AURC of a 0/1 loss, a function of the risk alone: a straight line in the loss.

    Fractional weights are no counts. Their area must be `known`; its influence is that of the population's value,
    R + (1-R) ln(1-R), of derivative -ln(1-R), which no scale of the weights changes.
    """
    risk = of_risk(rows)
    if oracle == "asymptotic" or known is not None:
        right = 1 - risk.estimate
        rate = -np.log(np.where(right > 0, right, 1.0))
        best = asymptotic_oracle(np, risk.estimate) if oracle == "asymptotic" else np.asarray(known)
        return risk.scaled(rate)._replace(estimate=best)
    errors = rows.S[..., -1:]
    m = np.concatenate([rows.W - errors, errors], axis=-1)
    L = np.concatenate([0 * errors, errors], axis=-1)
    best = of_area(Rows(m, L, np.cumsum(m, axis=-1), np.cumsum(L, axis=-1), rows.W), estimator, "expected")
    right, wrong = best.const[..., :1], best.const[..., 1:] + best.slope[..., 1:]
    none, every = errors == 0, errors == rows.W  # with one kind only, no sample of the other carries mass
    right, wrong = np.where(every, 0.0, right), np.where(none, 0.0, wrong)
    return Line(best.estimate, right + 0 * rows.m, wrong - right + 0 * rows.m)


def of_auroc(rows: Rows) -> Line:
    """Failure AUROC, 0/1 losses: DeLong's placements of errors among the right ones, and the reverse."""
    errors = rows.S[..., -1:]
    right = rows.W - errors
    value = points.auroc(rows)
    own_right = rows.m - rows.L
    of_right = (errors - rows.S + rows.L / 2) / errors  # share of errors it beats
    of_error = (rows.N - rows.S - own_right / 2) / right  # share of right ones that beat it
    a = np.asarray(value)[..., None]
    const = rows.W / right * (of_right - a)
    return Line(value, const, rows.W / errors * (of_error - a) - const)


def raw_precision(rows: Rows, errors: Array, of_errors: bool) -> tuple[Line, Array, Array]:
    r"""Derivatives of :math:`\sum_t p_t P_t / N_t`, the hits times the average precision of finding them.

    p are the hits of a row, P and N what is found and seen there. A member reads the rows that come after it in
    the search, through the two sums given with it: of p / N (hits only) and of p P / N^2. Errors (`errors` in all)
    are looked for from the least confident up. The rows may be a stretch of a longer table.
    """
    if of_errors:
        hits, found, seen = rows.L, errors - rows.S + rows.L, rows.W - rows.N + rows.m
    else:
        hits, found, seen = rows.m - rows.L, rows.N - rows.S, rows.N
    precision = found / _some(seen)
    gain, cost = hits / _some(seen), hits * precision / _some(seen)
    value, totals = np.sum(hits * precision, axis=-1), (np.sum(gain, axis=-1), np.sum(cost, axis=-1))
    later, cost = running(gain, cost, from_below=not of_errors)
    if of_errors:
        return Line(value, -cost, precision + later), *totals
    return Line(value, precision + later - cost, -precision - later), *totals


def of_precision(rows: Rows, of_errors: bool) -> Line:
    """Average precision of a 0/1 loss."""
    errors = rows.S[..., -1:]
    raw = raw_precision(rows, errors, of_errors)[0]
    mass = errors if of_errors else rows.W - errors
    value, k = raw.estimate[..., None] / mass, rows.W / mass
    if of_errors:
        return Line(value[..., 0], k * raw.const, k * (raw.slope - value))
    return Line(value[..., 0], k * (raw.const - value), k * (raw.slope + value))


def of_half_mass_area(rows: Rows) -> Line:
    """The area behind the prediction rejection ratio: a block comes in evenly."""
    return centred(rows, raw_half_mass_area(rows))


def raw_half_mass_area(rows: Rows) -> Line:
    """Its derivatives before their mean is taken off; the rows may be a stretch of a longer table."""
    slope = (rows.W - rows.N + rows.m / 2) / rows.W
    const = (rows.S - rows.L / 2) / rows.W
    return Line(points.half_mass_area(rows), const, slope)


def member_influences(
    rows: Rows, row: np.ndarray, loss: np.ndarray, const: float, slope: float, estimator: str, ties: str
) -> np.ndarray:
    """The influence of each member of a stretch: `row` says where it stands, the offsets what lies below."""
    line = raw_area(rows, estimator, ties)[0]
    return np.asarray(line.const[row] + const + (line.slope[row] + slope) * loss)


# spread -------------------------------------------------------------------------------------------
#
# From samples or a block table to an estimate with its influences: per sample, or as the sums an error bar
# needs.
#
# Two roads, held against each other by the tests. `spread` needs only sums over rows, so 0/1 losses take the
# packed sort that carries no index. `values` gives each sample's own influence, in the order given, for what
# must be added up in other ways: clusters, paired comparisons.


METRICS = (
    *("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc"),
    *("auroc", "prediction_rejection_ratio", "aupr_error", "aupr_success"),
)
Parts = dict[str, Callable[[], "Line"]]
_BY_LOSS = ("oracle_aurc", "e_aurc", "naurc", "prediction_rejection_ratio")  # read a second ranking, by loss
_TINY = 1e-14


class Options(NamedTuple):
    """What an area is: which rank weights, what equals mean, which oracle."""

    estimator: str = "harmonic"
    ties: str = "threshold"
    oracle: str = "empirical"


DEFAULT = Options()


def has_row_form(metric: str, zero_one: bool) -> bool:
    """Is the influence a straight line in the loss within each row? (Else every sample is needed.)"""
    return zero_one or metric not in _BY_LOSS


def of_rows(metric: str, rows: Rows, options: Options = DEFAULT, known: float | None = None) -> Line:
    """Influence as a line in the loss for each row; batches allowed. Oracles: 0/1 losses only."""
    if metric == "prediction_rejection_ratio":  # 0/1 loss: 2 AUROC - 1
        errors = rows.S[..., -1:]
        both = (errors > 0) & (errors < rows.W)
        with np.errstate(invalid="ignore", divide="ignore"):
            twice = of_auroc(rows).scaled(2.0)
        # one kind only: nothing to gain, by convention 0
        estimate = np.where(both[..., 0], twice.estimate - 1, 0.0)
        return Line(estimate, np.where(both, twice.const, 0.0), np.where(both, twice.slope, 0.0))
    return _combine(metric, _parts_of_rows(rows, options, known))


def _parts_of_rows(rows: Rows, options: Options, known: float | None) -> Parts:
    return {
        "area": cache(lambda: of_area(rows, options.estimator, options.ties)),
        "augrc": lambda: of_area(rows, "sele", options.ties),
        "risk": lambda: of_risk(rows),
        "oracle": cache(lambda: of_zero_one_oracle(rows, options.estimator, options.oracle, known)),
        "auroc": lambda: of_auroc(rows),
        "aupr_error": lambda: of_precision(rows, True),
        "aupr_success": lambda: of_precision(rows, False),
    }


def weighed_by(metric: str, options: Options) -> str | None:
    """The estimator whose rank weights a metric gives its losses; None where every loss counts the same."""
    return {"augrc": "sele"}.get(metric, options.estimator if metric in ("aurc", "e_aurc", "naurc") else None)


class Values(NamedTuple):
    """An estimate and, for each sample in the order given, its influence and its rank weight (0: no ranks weigh)."""

    estimate: float
    influence: np.ndarray
    weight: np.ndarray
    times: float  # how often the rank weight counts in the metric


def values(
    metric: str,
    loss: np.ndarray,
    confidence: np.ndarray,
    weight: np.ndarray | None = None,
    options: Options = DEFAULT,
    ranked: Ranked | None = None,
    by_loss: Ranked | None = None,
) -> Values:
    """Estimate and the influence of each sample, in the order given; rankings that are known need no sort."""
    ranked = Ranked(ranking_of(confidence), loss, weight) if ranked is None else ranked
    whole = weight is None or bool(np.all(weight == np.floor(weight)))
    if is_zero_one(loss):
        known = None
        if not whole and metric in ("oracle_aurc", "e_aurc", "naurc"):
            known = float(oracle_area(np, loss.astype(np.float64), weight, options.estimator))
        by_row = partial(of_rows, metric, ranked.rows, options, known)
        line = ranked.once(("line", metric, options), lambda: ranked.spread_out(by_row()))
        parts = _parts_of_rows(ranked.rows, options, known)
    else:
        best, ties = by_loss or ranked, "expected" if whole else "threshold"
        if by_loss is None and not has_row_form(metric, False):
            best = best_ranked(loss, weight, whole)
        risk = ranked.rows.S[-1] / ranked.rows.W[0]
        parts = {
            "area": lambda: ranked.area(options.estimator, options.ties),
            "risk": lambda: Line(risk, loss, np.zeros(1)),  # its mean is taken off piece by piece
            "augrc": lambda: ranked.area("sele", options.ties),
            "oracle": lambda: best.area(options.estimator, ties),
            "half": lambda: ranked.half(),
            "half_best": lambda: best.half(),
        }
        line = _combine_in_pieces(metric, parts, len(loss))
    by_rank = weighed_by(metric, options)
    rank_weight, times = ranked.weights(by_rank, options.ties), float(by_rank is not None)
    if metric == "naurc":
        room = float(parts["risk"]().estimate - parts["oracle"]().estimate)
        times = 1 / room if room > _TINY else 0.0
    return Values(float(line.estimate), line.const, rank_weight, times)


def _combine_in_pieces(metric: str, parts: Parts, n: int) -> Line:
    """`_combine` of influences held as one constant per sample, a cacheful at a time."""
    if metric in ("aurc", "augrc", "oracle_aurc"):  # one part as it is
        return _combine(metric, parts)
    own, estimate = np.empty(n), np.nan
    for a in range(0, n, CHUNK):

        def piece(name: str, a: int = a) -> Line:
            line = parts[name]()
            const = line.const[a : a + CHUNK]
            return Line(line.estimate, const - line.estimate if name == "risk" else const, line.slope)

        line = _combine(metric, {name: partial(piece, name) for name in parts})
        own[a : a + CHUNK], estimate = line.const, line.estimate
    return Line(estimate, own, np.zeros(1))


def _combine(metric: str, part: Parts) -> Line:
    """Each metric from its parts."""
    if metric in ("risk", "auroc", "augrc", "aupr_error", "aupr_success"):
        return part[metric]()
    if metric == "aurc":
        return part["area"]()
    if metric == "oracle_aurc":
        return part["oracle"]()
    if metric == "prediction_rejection_ratio":
        random = part["risk"]().scaled(0.5)
        least = 1e-15 * np.abs(random.estimate)
        return ratio(minus(random, part["half"]()), minus(random, part["half_best"]()), least)
    best = part["oracle"]()
    excess = minus(part["area"](), best)
    if metric == "e_aurc":
        return excess
    risk = part["risk"]()
    return ratio(excess, minus(risk, best), _TINY * np.abs(risk.estimate))


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
        w = np.ones(len(order)) if weight is None else weight[along].astype(np.float64, copy=False)
        m, L, self.place = w, self.loss if weight is None else w * self.loss, None
        if len(stops) < len(order):
            counts = np.diff(stops, prepend=0)
            self.place = np.repeat(np.arange(len(stops)), counts)
            m, L = (np.add.reduceat(x, stops - counts) for x in (m, L))
        N, S = np.cumsum(m), np.cumsum(L)
        self.rows = Rows(m, L, N, S, N[-1:], np, False)
        self._known: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, worked out once."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def of_members(self, by_row: np.ndarray) -> np.ndarray:
        """What each ranked sample reads at its row."""
        return by_row if self.place is None else by_row[self.place]

    def spread_out(self, line: Line) -> Line:
        """One influence per sample, in the order given, held as constants."""
        own = self.given(self.of_members(line.const) + self.of_members(line.slope) * self.loss)
        return Line(line.estimate, own, np.zeros(1))

    def given(self, values: np.ndarray) -> np.ndarray:
        """Values of ranked samples in the order given."""
        if self.in_order:
            return values
        back = np.empty_like(values)
        back[self.ranking.order] = values
        return back

    def area(self, estimator: str, ties: str) -> Line:
        """An area with the influence of each sample, in the order given."""
        found: Line = self.once(
            ("area", estimator, ties), lambda: self.spread_out(of_area(self.rows, estimator, ties))
        )
        return found

    def plain_area(self, estimator: str, ties: str) -> float:
        """An area alone, a cacheful of rows at a time."""
        rows, terms = self.rows, []
        for a in range(0, len(rows.m), CHUNK):
            m, L, N, S = (x[a : a + CHUNK] for x in rows[:4])
            some = Rows(m, L, N, S, rows.W, np, False)
            terms.append(float(np.sum(area_terms(some, estimator, ties))))
        return math.fsum(terms) / float(rows.W[0])

    def half(self) -> Line:
        """The area behind the rejection ratio, likewise."""
        found: Line = self.once("half", lambda: self.spread_out(of_half_mass_area(self.rows)))
        return found

    def weights(self, estimator: str | None, ties: str) -> np.ndarray:
        """The rank weight of each sample, in the order given; 1 without an estimator."""
        if estimator is None:
            return np.ones(1)
        return np.asarray(
            self.once(
                ("weights", estimator, ties),
                lambda: self.given(self.of_members(row_weights(self.rows, estimator, ties))),
            )
        )


class Reordered(Ranked):
    """A ranking of samples that are given in another order; its areas are worked out once for all orders."""

    def __init__(self, ranked: Ranked, order: np.ndarray) -> None:
        self._ranked, self._order, self._known = ranked, order, {}

    def area(self, estimator: str, ties: str) -> Line:
        """As of the ranking itself."""
        return self._moved(self._ranked.area(estimator, ties))

    def half(self) -> Line:
        """As of the ranking itself."""
        return self._moved(self._ranked.half())

    def _moved(self, line: Line) -> Line:
        found: Line = self.once(id(line), lambda: line._replace(const=line.const[self._order]))
        return found


def best_ranked(loss: np.ndarray, weight: np.ndarray | None, whole: bool) -> Ranked:
    """The order of least area. Fractional weights are no repetitions: every sample is a row, equal losses by weight."""
    if whole or weight is None:
        return Ranked(ranking_of(-loss.astype(np.float64)), loss, weight)
    order = np.lexsort((weight, loss))
    return Ranked(Ranking(order, np.arange(1, len(order) + 1)), loss, weight)
