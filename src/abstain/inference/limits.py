r"""The one home of the error bar: from an estimate and sums over its influences to limits, and of differences.

Everything that makes an interval (samples in memory, block tables, files, clusters of machines, streams,
groups, comparisons) hands the same few numbers to `interval_of`. In units of the estimate, v = w IF / W is what
one independent draw (a row, or a cluster) does to it:

- the standard error is :math:`s = \sqrt{\sum v^2}`, and it is known with
  :math:`2 (\sum v^2)^2 / (\sum v^4 - (\sum v^2)^2/n)` degrees of freedom (Satterthwaite);
- the interval is symmetric on the scale where the estimate's law nearly is: log, logit, or plain;
- few errors say little of those that were not drawn: with up to eight effective errors
  :math:`k = (\sum w \alpha l)^2 / \sum (w \alpha l)^2` the upper limit also allows for the errors on top that a
  sample can have missed, as it does with none; that fades out until there are sixteen;
- without any spread (all right, all wrong, a perfect or a constant ranking) limits follow from counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain.core.stretch import Sums
from abstain.inference.results import Interval

FEW = 8.0  # effective errors up to which upper limits allow in full for errors that were not drawn
# for a verdict on a difference; with ten, models of 20 confidence levels are told apart too often
ENOUGH = 11.0

_LOG = ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc")  # never negative when the losses are not
_ROUNDING = 1e-9
_WEIGHED = ("aurc", "augrc", "e_aurc", "naurc")  # an error counts by its rank: many may be worth few
_LOGIT = dict.fromkeys(("auroc", "risk", "aupr_error", "aupr_success"), (0.0, 1.0))
_LOGIT["prediction_rejection_ratio"] = (-1.0, 1.0)


class Scale(NamedTuple):
    """On which scale an interval is symmetric: plain, logarithm, or the logit of a range. Takes arrays too."""

    name: str
    low: float = 0.0
    high: float = 1.0

    def holds(self, centre: Any) -> Any:
        """Does the centre lie inside the range of the scale?"""
        if self.name == "log":
            return centre > 0
        return (self.low < centre) & (centre < self.high) | (self.name == "normal")

    def rate(self, centre: Any) -> Any:
        """Derivative of the scale."""
        if self.name == "log":
            return 1 / centre
        if self.name == "normal":
            return 1.0 + 0 * centre
        return (self.high - self.low) / ((centre - self.low) * (self.high - centre))

    def shifted(self, centre: Any, by: Any) -> Any:
        """The value `by` away from the centre, on the scale."""
        if self.name == "normal":
            return centre + by
        grown = np.exp(np.minimum(by, 700.0))
        if self.name == "log":
            return centre * grown
        odds = (centre - self.low) / (self.high - centre) * grown
        return self.low + (self.high - self.low) * odds / (1 + odds)


def scale_of(metric: str, zero_one: bool, negative: bool) -> Scale:
    """The scale on which the measured coverage is best."""
    if metric in _LOGIT and zero_one:
        return Scale("logit", *_LOGIT[metric])
    return Scale("log") if metric in _LOG and not negative else Scale("normal")


class Facts(NamedTuple):
    """What a limit must know of the sample beside the sums of its influences."""

    n: int  # samples, as printed
    units: int  # independent draws: samples, or clusters
    draws: float  # as many equal ones would say as much: (sum w)^2 / sum w^2, or clusters
    zero_one: bool
    negative: bool  # is any loss below 0?
    risk: float
    errors: float = 0.0  # errors seen; with weights as many equal ones
    pairs: float = 1.0  # disjoint pairs of a right sample and an error, likewise
    heaviest: float = 1.0  # the largest cluster beside the mean one

    def unseen(self, level: float) -> float:
        """Largest share of what no unit showed."""
        return min(1.0, self.heaviest * float(unseen(self.draws, level)))


class Spread(NamedTuple):
    """An estimate with the sums of v = w IF / W over independent units, and of z = w alpha l / W."""

    estimate: float
    second: float
    excess: float  # sum of v^4 less (sum of v^2)^2 / n: twice the variance of `second`; adds up over strata
    reach: float = 0.0
    reach2: float = 0.0
    centre: float | None = None  # the less biased estimate that the interval is built around

    @property
    def error(self) -> float:
        """Standard error."""
        return math.sqrt(self.second)

    @property
    def effective_errors(self) -> float:
        """As many errors of equal weight would know the area as well."""
        return (self.reach / math.sqrt(self.reach2)) ** 2 if self.reach2 > 0 else 0.0


def spread_of(estimate: float, sums: Sums, units: int, centre: float | None = None) -> Spread:
    """From sums over units, those of samples or of clusters."""
    return Spread(
        estimate, sums.second, sums.fourth - sums.second**2 / units, sums.reach, sums.reach2, centre
    )


def moments(v: np.ndarray, units: int | None = None) -> tuple[float, float]:
    """Sum of v^2 over units, and its `excess`; `units`: how many, where some of v are none."""
    squares = np.square(v)
    second = float(np.sum(squares))
    return second, float(squares @ squares) - second**2 / (units or len(v))


def mean_spread(parts: Sequence[Spread]) -> Spread:
    """Of the plain mean of independent estimates."""
    power = (1, 2, 4, 1, 2, 1)  # of one over their number, by which each sum shrinks
    columns = np.asarray(parts, dtype=np.float64)  # a centre that is not known is nan
    *known, centre = (math.fsum(x) / len(parts) ** k for x, k in zip(columns.T, power))
    return Spread._make([*known, None if math.isnan(centre) else centre])


def freedom(second: Any, excess: Any, units: Any, least: float = 1.0) -> Any:
    """Degrees of freedom of a sum of squares (Satterthwaite)."""
    most, squares = np.maximum(1.0, np.asarray(units) - 1.0), 2 * np.square(second)
    # `most` where the excess is none
    found = squares / np.maximum(np.maximum(excess, squares / most), 1e-300)
    return np.maximum(found, np.minimum(least, most))


def student(df: Any, level: Any) -> Any:
    """Two-sided Student quantile; `level` may differ by pair."""
    from scipy.special import stdtrit

    return stdtrit(df, (1 + level) / 2)


def interval_of(
    metric: str,
    found: Spread,
    facts: Facts,
    level: float = 0.95,
    method: str | None = None,
    loss_bound: float | None = None,
    around: str = "loo",
) -> Interval:
    """Limits on the metric's scale (or the one asked for); from counts where there is no spread."""
    own = method in (None, "logit", "jackknife")
    scale = scale_of(metric, facts.zero_one, facts.negative) if own else Scale(str(method))
    name = method or scale.name
    tiny = 1e-12 * max(abs(found.estimate), abs(facts.risk))
    if found.error <= tiny:
        found = found._replace(second=0.0)  # rounding alone is no spread
    perfect = metric in ("e_aurc", "naurc") and abs(found.estimate) <= tiny  # the ranking is ideal
    missed = _missed(metric, found, facts, level)
    few = facts.zero_one and found.reach > 0 and metric in _WEIGHED
    note = rests_on(found.effective_errors, facts.errors) if few else ""
    if found.error <= tiny or perfect:
        limits = bounds(metric, found.estimate, facts, level, loss_bound)
        if limits is not None:
            low, high = min(limits[0], found.estimate), max(limits[1], found.estimate + missed)
            if loss_bound is None:
                low, high = within(metric, facts, low, high, found.estimate)
            ends = low, high, level, name, facts.n, "bound", note
            return Interval(metric, found.estimate, found.error, *ends)
    centre, told = found.estimate, "estimate"
    if found.centre is not None and found.error > tiny and (scale.name == "log" or around != "loo"):
        centre, told = found.centre, around
    if not scale.holds(centre):
        centre, told = 0.0 if perfect else found.estimate, "estimate"
    if not scale.holds(centre):
        scale, name = Scale("normal"), "normal"
    step = student(freedom(found.second, found.excess, facts.units), level) * found.error * scale.rate(centre)
    low, high = (float(scale.shifted(centre, t)) for t in (-step, step))
    if scale.name == "log":
        high = found.estimate + math.hypot(max(high - found.estimate, 0.0), missed)
    if method != "normal":
        low, high = min(low, found.estimate), max(high, found.estimate)
        low, high = within(metric, facts, low, high, found.estimate)
    return Interval(metric, found.estimate, found.error, low, high, level, name, facts.n, told, note)


def within(metric: str, facts: Facts, low: float, high: float, estimate: float) -> tuple[float, float]:
    """The part of an interval that a metric can reach; the plain scale, or rounding, may have led beyond."""
    least, most = -math.inf, math.inf
    if facts.zero_one or metric == "prediction_rejection_ratio":
        least, most = _LOGIT.get(metric, (0.0, math.inf if metric == "naurc" else 1.0))
    elif metric in _LOG and not facts.negative:
        least = 0.0
    # an estimator such as "2sele" knows no such end
    if not least - _ROUNDING <= estimate <= most + _ROUNDING:
        return low, high
    return min(max(least, low), most), max(min(most, high), least)


# without spread -------------------------------------------------------------------------------------------


def unseen(draws: Any, level: float) -> Any:
    """Largest chance of what was seen in none of so many draws, with probability `level`."""
    return -np.expm1(math.log1p(-level) / draws)


def _on_top(metric: str, facts: Facts, level: float) -> float:
    """What errors on top add to an area, as large a share of them as a sample of this size may hold none of."""
    p, room = facts.unseen(level), facts.risk - best_area(facts.risk)
    added = {"aurc": worst_area(p), "e_aurc": worst_area(p), "augrc": p}
    return worst_area(p) / room if metric == "naurc" and room > 0 else added.get(metric, 0.0)


def _missed(metric: str, found: Spread, facts: Facts, level: float) -> float:
    """The same where few errors were seen; it fades from FEW effective errors to twice as many."""
    few = facts.zero_one and 0 < found.effective_errors < 2 * FEW
    return _on_top(metric, facts, level) * min(1.0, 2 * FEW / found.effective_errors - 1) if few else 0.0


def bounds(
    metric: str, estimate: float, facts: Facts, level: float, most: float | None
) -> tuple[float, float] | None:
    r"""Limits when no influence varies; None when none are known. Losses lie in [0, most].

    With none of n units wrong, the risk is at most :math:`p = 1 - (1-level)^{1/n}`. It does not bound AURC by
    itself, since those errors could sit on top: then the selective risk is 1 up to coverage p and p/c beyond, an
    area of p (1 - ln p), the largest there is. (Tied confidences only average it.)
    """
    if not facts.zero_one and (most is None or facts.risk != 0):
        return None
    p = facts.unseen(level)
    if facts.risk == 0:
        high = {"risk": p, "oracle_aurc": best_area(p)}.get(metric, _on_top(metric, facts, level))
        return (0.0, (1.0 if most is None else most) * high) if high else _UNKNOWN.get(metric)
    if facts.risk == 1:
        risk = 1 - p
        best = best_area(risk)
        found = {"risk": (risk, 1.0), "aurc": (best, 1.0), "oracle_aurc": (best, 1.0)}
        found |= {"augrc": (risk**2 / 2, 1.0), "e_aurc": (0.0, worst_area(risk) - best)}
        return found.get(metric, _UNKNOWN.get(metric))
    return _one_order(metric, estimate, facts, level)


# one kind says nothing of these
_UNKNOWN = {"naurc": (0.0, math.inf), "prediction_rejection_ratio": (-1.0, 1.0)}


def worst_area(p: float) -> float:
    """Largest AURC of risk p: all errors on top."""
    return p * (1 - math.log(p)) if p > 0 else 0.0


def best_area(p: float) -> float:
    """Least AURC of risk p: all errors at the bottom."""
    return p + (1 - p) * math.log1p(-p) if p < 1 else 1.0


def _one_order(metric: str, estimate: float, facts: Facts, level: float) -> tuple[float, float] | None:
    """All right samples above all errors, or all below, or all tied: k disjoint pairs, all of one kind.

    Pairs drawn apart are independent, so a share `seen` at least of all pairs is of that kind. Given AUROC = 1 -
    q, AURC is largest with a share q of the errors on top, which adds worst_area(q R) to the oracle's.
    """
    risk, p, seen = facts.risk, float(unseen(facts.draws, level)), 1 - float(unseen(facts.pairs, level))
    room = risk - best_area(risk)

    def precision(a: float) -> float:
        """Average precision with `a` false finds per hit above all hits."""
        return 1 - a * math.log1p(1 / a) if a > 0 else 1.0

    limits = {
        "auroc": (seen * estimate, 1 - seen * (1 - estimate)),
        "prediction_rejection_ratio": (seen * (1 + estimate) - 1, 1 - seen * (1 - estimate)),
        "aupr_error": (precision((1 - seen) * (1 - risk) / risk), 1.0),
        "aupr_success": (precision((1 - seen) * risk / (1 - risk)), 1.0),
        "e_aurc": (0.0, worst_area((1 - seen) * risk)),
        "naurc": (0.0, worst_area((1 - seen) * risk) / room),
    }
    if metric == "naurc" and estimate > 0.5:  # a constant confidence; a share p may come first or last
        return max(0.0, 1 - 2 * p / room), 1 + worst_area(p) / room
    return limits.get(metric)


# differences ----------------------------------------------------------------------------------------------


class Joint(NamedTuple):
    """Of two models, over independent units: e = v_A rate(T_A) - v_B rate(T_B), each on the metric's scale.

    `second` is the sum of e^2, `excess` the sum of e^4 less second^2 / n, `error` the root of the sum of (v_A -
    v_B)^2. Of independent test sets the first two add up over both, and so do the squares of `error`.
    """

    second: Any
    excess: Any
    error: Any


def contrast(
    scale: Scale, T: tuple[Any, Any], s: tuple[Any, Any], second: Any, df: Any, level: Any
) -> tuple[Any, Any, Any]:
    r"""Limits of `T_A - T_B` and the p-value of no difference, over pairs; distances are taken on the metric's scale.

    On the scale the sides have errors a and b, and their difference has eta = sqrt(sum e^2), less where they
    share what makes samples hard. What is their own, :math:`a\eta/\sqrt{a^2+b^2}` and so for b, gives distances L
    and U to either side's limits, and :math:`\sqrt{L_A^2 + U_B^2}` that of the difference's lower limit. What they
    share moves both and leaves no difference where there is none: it widens the limits, and the p-value, the level
    at which the first limit is 0, does not see it. `second` is the sum of e^2, `df` the degrees of freedom of it.
    """
    from scipy.special import stdtr

    A, B, sA, sB = np.broadcast_arrays(*T, *s)
    d, a, b = A - B, sA * scale.rate(A), sB * scale.rate(B)
    both = a**2 + b**2
    own = np.sqrt(np.where(both > 0, second / np.where(both > 0, both, 1.0), 0.0))
    shared = np.sqrt(np.maximum(both - second, 0.0) / 2)

    def reach(q: Any, one: Any, its: Any, other: Any, error: Any) -> Any:
        """How far the lower limit of `one - other` lies below it."""
        L = one - scale.shifted(one, -q * own * its)
        return np.hypot(L, scale.shifted(other, q * own * error) - other)

    q = student(df, level)
    moved = [scale.shifted(A, x) - scale.shifted(B, x) for x in (-q * shared, q * shared)]
    sides = ((A, a, B, b), (B, b, A, a))
    limits = []
    for sign, side in zip((1, -1), sides):
        gap, least = sign * d, np.minimum(sign * moved[0], sign * moved[1])
        near = gap - reach(q, *side)
        far = gap - np.hypot(gap - near, gap - least)
        kept = (near > 0) & (gap > 0)  # zero is left out: what both share does not bring it back
        limits.append(sign * np.where(kept, np.maximum(far, near * least / np.where(kept, gap, 1.0)), far))
    larger = [np.where(d >= 0, x, y) for x, y in zip(*sides)]
    edge = _reached(lambda q: reach(q, *larger), np.abs(d))
    return limits[0], limits[1], np.where(d == 0, 1.0, 2 * stdtr(df, -edge))


def _reached(rise: Callable[[Any], Any], top: Any) -> Any:
    """Where a function that rises from 0 reaches `top`: false position, a stale end counting half (Illinois)."""
    a, b = np.zeros_like(top), np.ones_like(top)
    for _ in range(60):
        if not (short := rise(b) < top).any():
            break
        b = np.where(short, 2 * b, b)
    at_a, at_b = -top, rise(b) - top
    for _ in range(60):
        gap = at_b - at_a
        c = np.where(gap == 0, b, b - at_b * (b - a) / np.where(gap == 0, 1.0, gap))
        at_c = rise(c) - top
        across = at_b * at_c < 0
        a, at_a = np.where(across, b, a), np.where(across, at_b, at_a / 2)
        b, at_b = c, at_c
        if not (np.abs(at_b) > 1e-15 * top).any():
            break
    return b


def rests_on(effective: float, errors: float) -> str:
    """How few errors a number rests on, where they are too few for a verdict on a difference."""
    if effective >= ENOUGH:
        return ""
    return f"rests on about {effective:.1f} effective errors ({errors:.0f} in all)"
