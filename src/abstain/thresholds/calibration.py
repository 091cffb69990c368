"""The calibration data, the thresholds it offers, the methods that choose among them, and what to tell a user whose
target cannot be certified.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from abstain._arrays import Array, to_host
from abstain._stored import Finite, Share, Within
from abstain._tables import make_frame
from abstain.core.curve_points import cheapest as least_cost
from abstain.core.curve_points import reaches
from abstain.core.sorting import RankedSamples, is_zero_one, rank_samples
from abstain.errors import InputError
from abstain.metrics._sample import prepare
from abstain.thresholds import testing
from abstain.thresholds.testing import least_p_value, least_samples, plan, walk

Form = Literal["risk", "coverage", "cost"]
Method = Literal["ltt", "sgr", "crc", "empirical"]


class Clusters(NamedTuple):
    """The samples in the order given, losses scaled, and to which of `number` clusters each belongs."""

    loss: np.ndarray
    confidence: np.ndarray
    weight: np.ndarray
    codes: np.ndarray
    number: int
    largest: float  # mass of the heaviest

    def sums(self, values: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Over each of some clusters, of its samples' values times their weights."""
        return np.bincount(self.codes, self.weight * values, self.number)[some]


class Calibration(NamedTuple):
    """Losses scaled to [0, 1] by `bounded = (low, high)`, most confident first."""

    ranked: RankedSamples
    low: float
    high: float
    clusters: Clusters | None = None

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.ranked.n

    def scaled(self, risk: float) -> float:
        """A mean loss on the scale [0, 1]."""
        return (risk - self.low) / (self.high - self.low)

    def unscaled(self, risk: float) -> float:
        """Back on the user's scale."""
        return self.low + risk * (self.high - self.low)

    def p_values(self, count: np.ndarray, risk: float) -> np.ndarray:
        """For "the mean loss of the first `count` is above `risk`" (scaled); counts rise."""
        if not 0 < risk < 1:  # no loss can be above its bound, and nothing proves that there is none at all
            return np.where((count > 0) & (risk >= 1), 0.0, 1.0)
        if self.ranked.weight is not None:
            return testing.betting(self.ranked, count, risk, float(self.ranked.weight.max()))
        if self.ranked.zero_one:
            return testing.binomial(self.ranked.accepted_loss[count], count, risk)
        return testing.bounded(self.ranked, count, risk)

    def coverage(self, count: np.ndarray) -> np.ndarray:
        """Share of the (weighted) samples accepted."""
        return np.asarray(self.ranked.accepted_mass[count] / self.ranked.accepted_mass[-1], dtype=np.float64)

    def risk(self, count: np.ndarray) -> np.ndarray:
        """Mean loss of the accepted on the user's scale; 0 where none is accepted."""
        mass = self.ranked.accepted_mass[count]
        mean = np.where(mass > 0, self.ranked.accepted_loss[count] / np.where(mass > 0, mass, 1), 0.0)
        return self.low + mean * (self.high - self.low)


def calibrate(
    name: str,
    loss: Array,
    confidence: Array,
    sample_weight: Array | None,
    bounded: tuple[float, float],
    clusters: np.ndarray | None = None,
) -> Calibration:
    """Check, scale to [0, 1] and sort; a loss that takes the two ends only becomes 0/1 and is tested exactly."""
    sample = prepare(name, to_host(loss), to_host(confidence), to_host(sample_weight), vector=True)
    try:
        low, high = (float(b) for b in bounded)
    except (TypeError, ValueError):
        raise InputError(f"{name}: `bounded` must be a pair (low, high), got {bounded!r}.") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"{name}: `bounded` must be finite and rising, got ({low:g}, {high:g}).")
    smallest, largest = float(sample.loss.min()), float(sample.loss.max())
    if smallest < low or largest > high:
        raise InputError(
            f"{name}: `loss` must lie within bounded=({low:g}, {high:g}), got values from {smallest:g} to "
            f"{largest:g}. No guarantee is possible without a bound that is known beforehand: pass "
            f"bounded=(low, high), or clip the loss and speak of the clipped one."
        )
    scaled = sample.loss
    if (low, high) != (0.0, 1.0):
        scaled = (scaled.astype(np.float64) - low) / (high - low)
    scaled = scaled.astype(bool, copy=False) if is_zero_one(scaled) else scaled
    found = None
    if clusters is not None:
        codes = clusters if sample_weight is None else clusters[np.asarray(to_host(sample_weight)) > 0]
        codes = np.unique(codes, return_inverse=True)[1]
        weight = np.ones(len(codes)) if sample.weight is None else np.asarray(sample.weight, np.float64)
        heaviest = float(np.bincount(codes, weight).max())
        g = np.asarray(sample.confidence, np.float64)
        found = Clusters(scaled.astype(np.float64), g, weight, codes, int(codes.max()) + 1, heaviest)
    return Calibration(rank_samples(scaled, sample.confidence, sample.weight), low, high, found)


# The table a threshold was chosen from ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Candidates:
    """One row per threshold that was looked at, from few accepted to many.

    Attributes
    ----------
    value : ndarray
        Accept when `confidence >= value`.
    accepted : ndarray
        Samples at or above it.
    coverage, risk : ndarray
        Share of the samples accepted, and their mean loss.
    p_value, level : ndarray
        Of "the risk here is above the target", and what it was compared with; both NaN where nothing was tested.
    passed : ndarray
        Could be chosen.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> table = select_threshold([0, 0, 1], [0.9, 0.8, 0.1], risk=0.2, method="empirical").table
    >>> table
    Candidates(3 thresholds, 2 passed)
    >>> table.value.tolist(), table.passed.tolist()
    ([0.9, 0.8, 0.1], [True, True, False])
    """

    value: Annotated[np.ndarray, Within(infinite=True)]
    accepted: Annotated[np.ndarray, Within(1, dtype=int)]
    coverage: Annotated[np.ndarray, Within(0, 1)]
    risk: Annotated[np.ndarray, Within()]
    p_value: Annotated[np.ndarray, Within(0, 1, nan=True)]
    level: Annotated[np.ndarray, Within(0, 1, nan=True)]
    passed: Annotated[np.ndarray, Within(dtype=bool)]

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        return f"Candidates({len(self)} thresholds, {int(self.passed.sum())} passed)"

    def columns(self) -> dict[str, list[Any]]:
        """Plain lists by name."""
        return {name: values.tolist() for name, values in vars(self).items()}

    def frame(self, library: str | None = None) -> Any:
        """A pandas or polars frame (whichever is there), or a dict of lists."""
        return make_frame(self.columns(), library)


# How a threshold is chosen: from the calibration data to the number of samples it accepts ----------

_SHOWN = 400  # rows of the table where nothing is tested rank by rank


class Selection(NamedTuple):
    """How many calibration samples are accepted (None: no threshold), from which value on, out of which table."""

    accepted: int | None
    value: float | None
    table: Candidates


def _largest(
    cal: Calibration, count: np.ndarray, value: np.ndarray, passed: np.ndarray, *tested: np.ndarray
) -> Selection:
    """The largest that passed; `tested`: p-values and levels, where there are any.

    Counts rise; rows of one count are one threshold: it passed if any of its tests did.
    """
    p_value, level = tested or np.full((2, len(count)), np.nan)
    starts = np.flatnonzero(count != np.append(-1, count[:-1]))
    some = count[starts] > 0
    rows = starts[some]
    accepted = count[rows].astype(np.int64)
    chance = (p_value[rows], np.maximum.reduceat(level, starts)[some])
    passes = np.logical_or.reduceat(passed, starts)[some]
    table = Candidates(value[rows], accepted, cal.coverage(accepted), cal.risk(accepted), *chance, passes)
    if not table.passed.any():
        return Selection(None, None, table)
    best = np.flatnonzero(table.passed)[-1]
    return Selection(int(table.accepted[best]), float(table.value[best]), table)


def learn_then_test(cal: Calibration, risk: float, delta: float) -> Selection:
    """Sequential tests from several starts (see `testing`); `risk` is scaled to [0, 1]."""
    if cal.clusters is not None and risk < 1:  # at 1 nothing has to be proved
        return _by_clusters(cal, cal.clusters, risk, delta)
    ranks, weights = plan(cal.n, risk, delta)
    count, value = cal.ranked.cut(ranks)
    p = cal.p_values(count, risk)
    level, passed = walk(p, weights, least_p_value(count, risk))
    return _largest(cal, count, value, passed, p, level)


_PILOT = 0.05  # share of the clusters that say where to look
_LOOKS = 100  # thresholds at most, where each costs a pass over the samples


def _by_lot(of: Clusters) -> tuple[np.ndarray, np.ndarray, float]:
    """Confidences of a few clusters drawn by lot, falling; the other clusters; and how heavy those few are."""
    lots = np.random.default_rng(0).permutation(of.number)
    pilot, rest = np.split(lots, [max(1, math.ceil(_PILOT * of.number))])
    looked = np.sort(of.confidence[np.isin(of.codes, pilot)])[::-1]
    return looked, rest, float(of.sums(np.ones(len(of.codes)), pilot).mean())


def _by_clusters(cal: Calibration, of: Clusters, risk: float, delta: float) -> Selection:
    r"""The same walk with whole clusters as the unit.

    At a threshold the terms :math:`\sum_{i \in c} w_i 1(g_i \ge t)(\ell_i - r)` of independent clusters have a mean
    above 0 exactly where the risk of the accepted is above r. A few clusters, drawn by lot, give the thresholds by
    their confidences and are used for nothing else; so thresholds, order and levels are fixed before a term of the
    others is seen, every p-value is valid, and the fallback procedure keeps delta whatever they have in common.
    """
    looked, rest, size = _by_lot(of)
    ranks, weights = plan(int(len(rest) * size / of.largest), risk, delta, most=2)
    if not len(ranks):
        return _largest(cal, *np.zeros((2, 0), dtype=np.int64), np.zeros(0, dtype=bool))
    some = np.linspace(0, len(ranks) - 1, _LOOKS).astype(np.int64)
    some = np.union1d(some, np.flatnonzero(weights))
    place = np.ceil(ranks[some] / ranks[-1] * len(looked)).astype(np.int64) - 1
    value = np.where(looked[place] > looked[-1], looked[place], -np.inf)
    value, first = np.unique(-value, return_index=True)
    weights = np.add.reduceat(weights[some], first)
    terms = (of.sums((of.confidence >= t) * (of.loss - risk), rest) / of.largest for t in -value)
    p = np.asarray([testing.mean_above(x, risk) for x in terms])
    level, passed = walk(p, weights)
    count = len(of.codes) - np.searchsorted(np.sort(of.confidence), -value)
    return _largest(cal, count, -value, passed, p, level)


def sgr(cal: Calibration, risk: float, delta: float) -> Selection:
    """Geifman & El-Yaniv's binary search over ranks, each of its steps at delta / steps.

    Put right on three counts: errors are counted, not rounded from a mean; only a threshold whose own bound holds is
    returned; and what is bounded is what is deployed (whole blocks of equal confidences).
    """
    steps = max(1, math.ceil(math.log2(cal.n)))
    low, high = 0, cal.n
    seen: list[tuple[int, float, float, bool]] = []
    for _ in range(steps):
        middle = (low + high + 1) // 2
        count, value = (x[0] for x in cal.ranked.cut(np.asarray([middle])))
        p = float(cal.p_values(np.asarray([count]), risk)[0])
        passed = p <= delta / steps
        seen.append((int(count), float(value), p, passed))
        low, high = (middle, high) if passed else (low, max(low, middle - 1))
    seen.sort()
    counts, values, p_values, oks = (np.asarray(column) for column in zip(*seen))
    return _largest(cal, counts, values, oks, p_values, np.full(len(seen), delta / steps))


def _curve(cal: Calibration, good: np.ndarray, ends: np.ndarray) -> Selection:
    """The largest of all blocks where `good` holds, and a table of some hundred of them.

    Here the threshold is the smallest confidence accepted: no test has spoken of the gap below it.
    """
    shown = np.linspace(0, len(ends) - 1, _SHOWN).astype(np.int64)
    shown = np.union1d(shown, np.flatnonzero(good)[-1:])
    return _largest(cal, ends[shown], cal.ranked.smallest_confidence(ends[shown]), good[shown])


def empirical(cal: Calibration, risk: float) -> Selection:
    """The largest coverage whose risk on the calibration data is at most `risk`: a description, not a promise."""
    ends = cal.ranked.row_stops()
    allowed = risk * cal.ranked.accepted_mass[ends]
    return _curve(cal, cal.ranked.accepted_loss[ends] <= allowed * (1 + 1e-12), ends)


def conformal(cal: Calibration, risk: float) -> Selection:
    r"""Conformal risk control of the loss of the accepted per sample: :math:`(S_t + 1)/(n + 1) \le r`.

    S only grows as more are accepted, so no multiple testing is needed; what is bounded is a mean over calibration
    sets as well as over later samples.
    """
    ends = cal.ranked.row_stops()
    if cal.clusters is not None:  # (S_t - r n) / largest, which lies between -r and 1 - r for each cluster
        above = cal.ranked.accepted_loss[ends] + (1 - risk) * cal.clusters.largest
        return _curve(cal, above <= risk * cal.ranked.accepted_mass[-1], ends)
    return _curve(cal, (cal.ranked.accepted_loss[ends] + 1) / (cal.n + 1) <= risk, ends)


def at_coverage(cal: Calibration, coverage: float, delta: float | None) -> Selection:
    """The least coverage that is at least `coverage`: on the calibration data, or (with delta) of the population.

    The coverage of `g >= g_(k)`, k-th largest of n, is at least Beta(k, n - k + 1) distributed, ties or not.
    """
    ends = cal.ranked.row_stops()
    if delta is None:
        enough = reaches(cal.coverage(ends), coverage)
    elif cal.clusters is not None:
        enough = ends >= _enough_by_clusters(cal.clusters, coverage, delta)
    else:
        enough = testing.coverage_p_value(ends, cal.n, coverage) <= delta
    if not enough.any():
        return _curve(cal, ends == cal.n, ends)._replace(value=-math.inf)
    return _curve(cal, np.arange(len(ends)) == np.argmax(enough), ends)


def _enough_by_clusters(of: Clusters, coverage: float, delta: float) -> float:
    """How many samples the largest threshold accepts whose coverage is certain; more than there are if none is.

    As in `_by_clusters`, rejections taking the place of losses: thresholds rise until one fails.
    """
    looked, rest, _ = _by_lot(of)
    cuts = looked[np.unique(np.linspace(0, len(looked) - 1, _LOOKS).astype(np.int64))][::-1]
    least = math.inf
    for t in cuts:
        terms = of.sums((of.confidence < t) - (1 - coverage), rest) / of.largest
        if not len(rest) or testing.mean_above(terms, 1 - coverage) > delta:
            break
        least = float(np.count_nonzero(of.confidence >= t))
    return least


def cheapest(cal: Calibration, cost: float) -> Selection:
    """Least loss of the accepted plus `cost` (scaled) for each rejected; the largest coverage among equals."""
    ends = cal.ranked.row_stops()
    rows = np.append(0, ends)  # 0: all rejected
    loss, mass = cal.ranked.accepted_loss[rows], cal.ranked.accepted_mass[rows]
    best = least_cost(loss + cost * (mass[-1] - mass)) - 1
    return _curve(cal, np.arange(len(ends)) == best, ends)


# What to tell a user whose target cannot be certified ---------------------------------------------

_MOST = 10**12  # samples: beyond this the answer is "no number"


@dataclass(frozen=True)
class Advice:
    """What would be feasible: the smallest risk these data certify, at which coverage; how many samples would do.

    `samples` takes the risks seen for the true ones, so it is a guide and no promise; None means that by these data
    no number of samples would do (the observed risk is above the target at every coverage worth testing).
    """

    risk: Finite | None
    coverage: Share | None
    samples: Annotated[int, Within(1)] | None
    unit: Literal["samples", "clusters"] = "samples"

    def __str__(self) -> str:
        first = "No risk below the bound of the loss can be certified with these data."
        if self.risk is not None:
            where = f"{self.risk:.4g}, at coverage {self.coverage:.4g}"
            first = f"The smallest risk these data certify is {where}."
        more = f"no number of {self.unit} would reach the target: the model has to improve"
        if self.samples is not None:
            more = f"about {self.samples:,} {self.unit} would do"
        return f"{first} By the risks seen, {more}."


def advise(cal: Calibration, risk: float, delta: float, method: str) -> Advice:
    """Look for a larger risk that passes, and for more samples that would.

    Passing is not strictly monotone in the target, but the risk that is returned has passed.
    """
    needed = _samples(cal, risk, delta) if cal.clusters is None else _clusters(cal.clusters, risk, delta)
    unit: Any = "samples" if cal.clusters is None else "clusters"
    choose = sgr if method == "sgr" else learn_then_test

    def passes(larger: float) -> bool:
        return choose(cal, larger, delta).accepted is not None

    low, high = risk, min(0.999, max(2 * risk, 0.01))
    while not passes(high):
        if high >= 0.999:
            return Advice(None, None, needed, unit)
        low, high = high, min(0.999, 2 * high)
    reached = bisect(passes, low, high, relative=0.01)
    accepted = np.asarray([choose(cal, reached, delta).accepted])
    return Advice(cal.unscaled(reached), float(cal.coverage(accepted)[0]), needed, unit)


def _clusters(of: Clusters, risk: float, delta: float) -> int | None:
    """How many clusters like these would pass somewhere at a sixth of delta: wealth grows by as much with each."""
    ranked, every = np.sort(of.confidence), np.arange(of.number)
    cuts = ranked[np.unique(np.linspace(0, 0.9 * len(ranked), 20).astype(np.int64))]
    terms = [of.sums((of.confidence >= t) * (of.loss - risk), every) / of.largest for t in cuts]
    growth = max(float(np.log1p(-stake * x).mean()) for x in terms for stake in testing.bold_stakes(risk))
    needed = math.log(12 / delta) / growth / (1 - _PILOT) if growth > 0 else math.inf
    return max(of.number + 1, _two_digits(needed)) if needed < _MOST else None


def _two_digits(x: float) -> int:
    """Rounded up to two significant digits: more would pretend to know."""
    unit = 10 ** max(0, math.floor(math.log10(x)) - 1)
    return math.ceil(x / unit) * unit


def bisect(
    passes: Callable[[float], bool], low: float, high: float, relative: float = 0.0, absolute: float = 0.0
) -> float:
    """A number that passes, next to one that does not: `high` passes, and `low` need not be asked."""
    while high - low > absolute + relative * high:
        middle = (low + high) / 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _samples(cal: Calibration, risk: float, delta: float) -> int | None:
    """Least multiple of n at which the risk curve seen would pass somewhere at a sixth of delta."""
    count = np.unique(np.geomspace(min(20, cal.n), cal.n, 200).astype(np.int64))
    mass = np.maximum(cal.ranked.accepted_mass[count], 1e-300)
    # one loss more than was seen, since the best of many places looks too good
    mean = (cal.ranked.accepted_loss[count] + cal.ranked.accepted_mass[-1] / cal.n) / mass
    if not (mean < risk).any():
        mean = cal.ranked.accepted_loss[count] / mass
    share, mean = count[mean < risk] / cal.n, mean[mean < risk]
    if not len(share) or risk <= 0:
        return None
    test = testing.binomial if cal.ranked.zero_one else testing.hoeffding_bentkus

    def passes(n: float) -> bool:
        k = np.floor(share * n)
        errors = np.ceil(mean * k) if cal.ranked.zero_one else mean * k
        return bool((test(errors, k, risk) <= delta / 6).any())

    low, high = 1.0, max(2.0, least_samples(risk, delta))
    while not passes(high):
        low, high = high, 2 * high
        if high > _MOST:
            return None
    return max(cal.n + 1, _two_digits(bisect(passes, low, high, relative=0.01)))
