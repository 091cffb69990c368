r"""The one home of the error bar: from an estimate and sums over its influences to limits, and of differences.

Everything that makes an interval (samples in memory, block tables, files, clusters of machines, streams,
groups, comparisons) hands the same few numbers to `interval_of`. In units of the estimate, v = w IF / W is what
one independent draw (a row, or a cluster) does to it:

- the standard error is :math:`s = \sqrt{\sum v^2}`, and it is known with
  :math:`2 (\sum v^2)^2 / (\sum v^4 - (\sum v^2)^2/n)` degrees of freedom (Satterthwaite);
- the interval is symmetric on the scale where the estimate's law nearly is: log, logit, or plain;
- few errors say little of those that were not drawn: with up to eight effective errors
  :math:`k = (\sum w \alpha l)^2 / \sum (w \alpha l)^2` the upper limit also allows for the errors on top that a
  sample can have missed, as it does with none; that fades out until there are sixteen. AUROC, NAURC and risk have
  limits of their own for few errors or few right samples, see `few`;
- without any spread (all right, all wrong, a perfect or a constant ranking) limits follow from counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abstain.core.stretch import Sums
from abstain.inference.records import Interval
from abstain.metrics import few_draws as few

_LOG = ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc")  # never negative when the losses are not
_ROUNDING = 1e-9
_WEIGHED = ("aurc", "augrc", "e_aurc", "naurc")  # an error counts by its rank: many may be worth few
_LOGIT = dict.fromkeys(("auroc", "risk", "aupr_error", "aupr_success"), (0.0, 1.0))
_LOGIT["prediction_rejection_ratio"] = (-1.0, 1.0)
Limits = tuple[float, float]
SCALED_BY_LOSS = ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "risk_at_coverage")
_PLACEMENTS = ("auroc", "prediction_rejection_ratio")  # means of placements of either kind among the other
_TWO_KINDS = (*_PLACEMENTS, "aupr_error", "aupr_success", "fpr_at_tpr", "naurc")
_COMMON_KIND = {"aupr_success": "errors", "aupr_error": "right"}  # finds one kind; few of the other spoil it


class Scale(NamedTuple):
    """On which scale an interval is symmetric: plain, logarithm, or the logit of a range. Takes arrays too."""

    name: str
    low: float = 0.0
    high: float = 1.0

    def times(self, size: float) -> Scale:
        """The same scale for values in other units."""
        return Scale(self.name, self.low * size, self.high * size)

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
    right: float = 0.0  # right samples seen, as `errors`
    error_size: float = (
        1.0  # one unit of the losses, in the user's units: losses 0 and c are 0/1 in units of c
    )
    largest: float = 1.0  # about the largest loss, in those units: sum w^4 l^4 / sum w^4 l^3
    error_draws: float = 0.0  # independent draws of an error: errors, or as many equal clusters of them
    right_draws: float = 0.0

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
    wrong: float = math.nan  # the part of `second` that errors make up; nan for losses other than 0/1
    hidden: float | None = None  # variance that few draws hide, where it is known (a mean over groups)

    def times(self, size: float) -> Spread:
        """The same in other units of the loss."""
        if size == 1:
            return self
        return self._replace(
            estimate=size * self.estimate,
            second=size**2 * self.second,
            excess=size**4 * self.excess,
            reach=size * self.reach,
            reach2=size**2 * self.reach2,
            centre=None if self.centre is None else size * self.centre,
            wrong=size**2 * self.wrong,
        )

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
        estimate=estimate,
        second=sums.second,
        excess=sums.fourth - sums.second**2 / units,
        reach=sums.reach,
        reach2=sums.reach2,
        centre=centre,
        wrong=sums.wrong,
    )


def moments(v: np.ndarray, units: int | None = None) -> tuple[float, float]:
    """Sum of v^2 over units, and its `excess`; `units`: how many, where some of v are none."""
    squares = np.square(v)
    second = float(np.sum(squares))
    return second, float(squares @ squares) - second**2 / (units or len(v))


def mean_spread(parts: Sequence[Spread], hidden: Sequence[float]) -> Spread:
    """Of the plain mean of independent estimates; `hidden`: the variance that few draws hide in each."""
    powers = (1, 2, 4, 1, 2, 1, 2, 2)  # of one over their number, by which each sum shrinks
    columns = np.asarray([part._replace(hidden=h) for part, h in zip(parts, hidden)], dtype=np.float64)
    means = Spread._make(math.fsum(x) / len(parts) ** power for x, power in zip(columns.T, powers))
    unknown_centre = means.centre is None or math.isnan(means.centre)
    return means._replace(centre=None) if unknown_centre else means


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
    spread: Spread,
    facts: Facts,
    level: float = 0.95,
    method: str | None = None,
    loss_bound: float | None = None,
    around: str = "loo",
) -> Interval:
    """Limits on the metric's scale (or the requested one); from counts where there is no spread or few errors.

    `spread` is in units of `facts.error_size`; the interval and `loss_bound` are in those of the losses.
    """
    bound = None if loss_bound is None else loss_bound / facts.error_size
    interval = _interval_in_error_units(metric, spread, facts, level, method, bound, around)
    return in_loss_units(interval, facts.error_size)


def in_loss_units(interval: Interval, error_size: float) -> Interval:
    """An interval of a metric that scales with the loss, from units of an error's size to those of the losses."""
    if error_size == 1 or interval.metric not in SCALED_BY_LOSS:
        return interval
    names = ("estimate", "standard_error", "low", "high")
    return replace(interval, **{name: error_size * getattr(interval, name) for name in names})


def _interval_in_error_units(
    metric: str,
    spread: Spread,
    facts: Facts,
    level: float,
    method: str | None,
    loss_bound: float | None,
    around: str,
) -> Interval:
    default_scale = method in (None, "logit", "jackknife")
    scale = scale_of(metric, facts.zero_one, facts.negative) if default_scale else Scale(str(method))
    estimate = spread.estimate
    rounding = 1e-12 * max(abs(estimate), abs(facts.risk))
    if spread.error <= rounding:
        spread = spread._replace(second=0.0)
    ideal_order = metric in ("e_aurc", "naurc") and abs(estimate) <= rounding
    missed = _missed(metric, spread, facts, level, loss_bound)
    result = Interval(
        metric=metric,
        estimate=estimate,
        standard_error=spread.error,
        low=estimate,
        high=estimate,
        level=level,
        method=method or scale.name,
        n=facts.n,
        note=_note(metric, spread, facts),
    )
    if spread.error == 0 or ideal_order:
        limits = bounds(metric, estimate, facts, level, loss_bound)
        if limits is not None:
            low = min(limits[0], estimate)
            high = max(limits[1], estimate + missed)
            if loss_bound is None:
                low, high = within(metric, facts, low, high, estimate)
            return replace(result, low=low, high=high, centre="bound")
    centre = estimate
    centre_name = "estimate"
    if spread.centre is not None and spread.error > 0 and (scale.name == "log" or around != "loo"):
        centre = spread.centre
        centre_name = around
    if not scale.holds(centre):
        centre = 0.0 if ideal_order else estimate
        centre_name = "estimate"
    if not scale.holds(centre):
        scale = Scale("normal")
        result = replace(result, method="normal")
    hidden = spread.hidden if spread.hidden is not None else hidden_by_few(metric, spread, facts)
    variance = spread.second + hidden
    step = student(freedom(variance, spread.excess, facts.units), level) * math.sqrt(variance)
    low, high = (float(scale.shifted(centre, sign * step * scale.rate(centre))) for sign in (-1, 1))
    if scale.name == "log":
        high = estimate + math.hypot(max(high - estimate, 0.0), missed)
    elif metric in _COMMON_KIND:
        low = estimate - math.hypot(max(estimate - low, 0.0), missed)
    if method != "normal":
        low, high = _with_few_draws(metric, spread, facts, level, variance, (low, high))
        low, high = within(metric, facts, min(low, estimate), max(high, estimate), estimate)
    return replace(result, low=low, high=high, centre=centre_name)


def hidden_by_few(metric: str, spread: Spread, facts: Facts) -> float:
    """Variance that few errors, or few right samples, do not show; see `few.hidden_variance`."""
    if not facts.zero_one or math.isnan(spread.wrong):
        return 0.0
    of_right = max(spread.second - spread.wrong, 0.0)
    if metric in _PLACEMENTS:
        low, high = _LOGIT[metric]
        largest = (spread.estimate - low) * (high - spread.estimate)
        of_errors = few.hidden_variance(largest, spread.wrong, facts.error_draws)
        return of_errors + few.hidden_variance(largest, of_right, facts.right_draws)
    if metric == "naurc" and (room := _room(facts.risk)) > 0:
        right = 1 - facts.risk
        largest = (_mean_weight_of_right(spread.estimate, facts.risk) * right / room) ** 2
        of_errors = few.hidden_variance(spread.estimate**2, spread.wrong, facts.error_draws)
        return of_errors + few.hidden_variance(largest, of_right, facts.right_draws)
    return 0.0


def _with_few_draws(
    metric: str, spread: Spread, facts: Facts, level: float, variance: float, limits: Limits
) -> Limits:
    """Limits moved towards those of few draws, the more the fewer there are."""
    # squares of huge losses overflow, which leaves no effective errors
    if metric == "naurc" and spread.effective_errors > 0 and not facts.negative:
        # few errors say little of their mean rank weight, which is what NAURC is
        least = few.gamma_limits(spread.estimate, spread.effective_errors, level)[0]
        least = few.mixed(least, limits[0], few.fade(spread.effective_errors))
        limits = min(limits[0], least), limits[1]
    if not facts.zero_one:
        return limits
    share = few.fade(min(facts.error_draws, facts.right_draws))
    if metric in _COMMON_KIND:
        return _least_precision(metric, spread, facts, level, limits), limits[1]
    if share == 0:
        return limits
    if metric in _PLACEMENTS:
        return _mixed(_placement_limits(metric, spread.estimate, variance, level), limits, share)
    if metric == "risk":
        risk = spread.estimate
        low, high = few.beta_limits(risk, risk * (1 - risk) / variance, level, pseudo=0.5)
        return _mixed((float(low), float(high)), limits, share)
    if metric == "naurc":
        limits = limits[0], min(limits[1], _largest_naurc(facts, level))
        share = few.fade(facts.right_draws)
        if share > 0 and _room(facts.risk) > 0:
            return _mixed(_naurc_of_few_right(spread.estimate, variance, facts, level), limits, share)
    return limits


def _mixed(few_limits: Limits, limits: Limits, share: float) -> Limits:
    low, high = (few.mixed(x, y, share) for x, y in zip(few_limits, limits))
    return low, high


def _placement_limits(metric: str, estimate: float, variance: float, level: float) -> Limits:
    """AUROC and the rejection ratio as a mean of placements between 0 and 1."""
    start, end = _LOGIT[metric]
    place = (estimate - start) / (end - start)
    draws = (estimate - start) * (end - estimate) / variance
    low, high = few.beta_limits(place, draws, level)
    return start + (end - start) * float(low), start + (end - start) * float(high)


def _least_precision(metric: str, spread: Spread, facts: Facts, level: float, limits: Limits) -> float:
    """Average precision of a few hits is too high on average: its lower limit is that of a mean of placements."""
    errors_are_hits = metric == "aupr_error"
    hits = facts.error_draws if errors_are_hits else facts.right_draws
    share = few.fade(hits)
    if share == 0:
        return limits[0]
    of_hits = spread.wrong if errors_are_hits else spread.second - spread.wrong
    largest = spread.estimate * (1 - spread.estimate)
    variance = spread.second + few.hidden_variance(largest, of_hits, hits)
    least = float(few.beta_limits(spread.estimate, largest / variance, level)[0])
    return min(limits[0], few.mixed(least, limits[0], share))


def _naurc_of_few_right(naurc: float, variance: float, facts: Facts, level: float) -> Limits:
    """From limits of the mean rank weight of the right samples, on which NAURC depends linearly."""
    naurc_per_weight = (1 - facts.risk) / _room(facts.risk)
    weight = _mean_weight_of_right(naurc, facts.risk)
    draws = (weight * naurc_per_weight) ** 2 / variance
    # one more right sample at the mean weight of all: a single one at the bottom does not say that all are there
    least, most = few.gamma_limits(weight, draws, level, added=1 / facts.right_draws)
    return max(0.0, 1 - (most - 1) * naurc_per_weight), 1 - (least - 1) * naurc_per_weight


def _room(risk: float) -> float:
    """By how much the best order of a 0/1 loss lowers the area below that of a random order."""
    return risk - best_area(risk)


def _largest_naurc(facts: Facts, level: float) -> float:
    """NAURC with all errors on top, which grows as the risk falls: at the lower limit of the risk."""
    least_risk = float(few.beta_limits(facts.risk, facts.error_draws / facts.risk, level)[0])
    return (worst_area(least_risk) - best_area(least_risk)) / max(_room(least_risk), 1e-300)


def _mean_weight_of_right(naurc: float, risk: float) -> float:
    """Mean rank weight of the right samples: 1 in random order, more where they stand on top."""
    return max(1 + (1 - naurc) * _room(risk) / (1 - risk), 1e-9)


def _note(metric: str, spread: Spread, facts: Facts) -> str:
    """How few errors or right samples a number rests on."""
    if facts.negative or spread.reach <= 0:
        return ""
    if metric not in (*_WEIGHED, *_TWO_KINDS):
        return ""
    return fewest_draws(metric, spread.effective_errors, facts)[1]


def fewest_draws(metric: str, effective_errors: float, facts: Facts) -> tuple[float, str]:
    """Effective errors, or right samples where a metric reads both kinds and has fewer of those; and a note on it."""
    if metric in _TWO_KINDS and facts.zero_one and facts.right_draws < effective_errors:
        return facts.right_draws, few.rests_on(facts.right_draws, facts.right, "right samples")
    return effective_errors, few.rests_on(effective_errors, facts.errors)


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
    """What errors on top add to an area, as large a share of them as a sample of this size may hold none of.

    Errors are of size 1.
    """
    p = facts.unseen(level)
    if metric == "naurc":
        room = _room(facts.risk)
        return worst_area(p) / room if room > 0 else 0.0
    return {"aurc": worst_area(p), "e_aurc": worst_area(p), "augrc": p}.get(metric, 0.0)


def _missed(metric: str, spread: Spread, facts: Facts, level: float, loss_bound: float | None) -> float:
    """The same where few errors (or, for the precision of finding errors, few right samples) were seen.

    Of other losses the few are the large ones: as many equal errors would decide the area. Errors that were missed are
    taken to be as large as `loss_bound`, or as the largest losses seen.
    """
    if facts.negative:
        return 0.0
    if metric in _COMMON_KIND:
        draws = facts.error_draws if _COMMON_KIND[metric] == "errors" else facts.right_draws
        return worst_area(facts.unseen(level)) * few.fade(draws)
    share = few.fade(spread.effective_errors)
    if share == 0:
        return 0.0
    size = facts.largest if loss_bound is None else max(loss_bound, facts.risk)
    in_errors = facts._replace(risk=min(facts.risk / size, 1.0) if size > 0 else 0.0)
    if metric == "naurc":
        return share * _on_top(metric, in_errors, level)
    return share * min(size * _on_top(metric, in_errors, level), max(size - spread.estimate, 0.0))


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
