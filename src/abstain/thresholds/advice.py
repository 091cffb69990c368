"""What to tell a user whose target cannot be certified: which risk could be, and how many samples would be enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from abstain._stored import Finite, Share, Within
from abstain.thresholds import testing
from abstain.thresholds.calibration import Calibration, ClusteredSamples
from abstain.thresholds.choosing import PILOT_SHARE, learn_then_test, sgr

MAX_SAMPLES = 10**12  # beyond this the answer is "no number of samples"
LARGEST_RISK = 0.999  # the largest risk tried, on the scale [0, 1]; a risk of 1 is certified by any data
START_COUNT = 6  # sequences of tests, which share delta evenly: a threshold must pass at a sixth of it
FEWEST_ACCEPTED = (
    20  # thresholds that accept fewer samples are not considered: their observed risk says too little
)
CURVE_POINTS = 200  # thresholds at which the observed risk is read, evenly spaced on the logarithmic scale
CLUSTER_THRESHOLDS = 20  # thresholds tried with clusters, each of which costs a pass over the samples
SEARCH_PRECISION = 0.01  # relative: numbers of advice are rounded to two digits
TINY = 1e-300  # in place of a mass of 0, so that nothing is divided by it


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
        if self.risk is None:
            feasible = "No risk below the bound of the loss can be certified with these data."
        else:
            risk_and_coverage = f"{self.risk:.4g}, at coverage {self.coverage:.4g}"
            feasible = f"The smallest risk these data certify is {risk_and_coverage}."
        if self.samples is None:
            needed = f"no number of {self.unit} would reach the target: the model has to improve"
        else:
            needed = f"about {self.samples:,} {self.unit} would do"
        return f"{feasible} By the risks seen, {needed}."


def advise(calibration: Calibration, risk: float, delta: float, method: str) -> Advice:
    """Find a larger risk that can be certified, and how many samples would certify this one.

    For a target that could not be certified. `risk` is that target, scaled to [0, 1]; `method` is "sgr" or "ltt".
    Larger risks are doubled until one can be certified, then bisected to 1%. Passing is not strictly monotone in the
    risk, but the risk that is returned has passed. Risk and coverage are None if no risk up to 0.999 can be certified.
    `calibration` holds the samples, most confident first, with losses scaled to [0, 1]. `delta` is the probability with
    which the promise may fail.
    """
    unit: Literal["samples", "clusters"]
    if calibration.clusters is None:
        needed = _count_samples_needed(calibration, risk, delta)
        unit = "samples"
    else:
        needed = _count_clusters_needed(calibration.clusters, risk, delta)
        unit = "clusters"
    choose = sgr if method == "sgr" else learn_then_test

    def passes(larger_risk: float) -> bool:
        return choose(calibration, larger_risk, delta).accepted_count is not None

    low = risk
    high = min(LARGEST_RISK, max(2 * risk, 0.01))
    while not passes(high):
        if high >= LARGEST_RISK:
            return Advice(risk=None, coverage=None, samples=needed, unit=unit)
        low = high
        high = min(LARGEST_RISK, 2 * high)
    least_risk = bisect(passes, low, high, relative=SEARCH_PRECISION)
    accepted = np.asarray([choose(calibration, least_risk, delta).accepted_count])
    coverage = float(calibration.coverage(accepted)[0])
    return Advice(risk=calibration.to_user_scale(least_risk), coverage=coverage, samples=needed, unit=unit)


def bisect(
    passes: Callable[[float], bool], low: float, high: float, relative: float = 0.0, absolute: float = 0.0
) -> float:
    """Bisect between `low` and `high`, and return a number that passes, close to one that does not.

    `high` must pass, and `low` is taken not to pass; neither is tried. The search stops when the two are within
    `absolute + relative * high`, which must be positive.
    """
    while high - low > absolute + relative * high:
        middle = (low + high) / 2
        if passes(middle):
            high = middle
        else:
            low = middle
    return high


def _count_samples_needed(calibration: Calibration, risk: float, delta: float) -> int | None:
    """Estimate how many samples would certify `risk` (scaled to [0, 1]) if the observed risk curve were the true one.

    Some threshold must pass at a sixth of delta, since the level is divided among up to six starts. Returns a number
    above that of the calibration samples, rounded to two digits; None if no number of samples would be enough.
    `calibration` holds the samples, most confident first, with losses scaled to [0, 1].
    """
    ranked = calibration.ranked  # most confident first; accepted sums start with 0, for no sample
    n = calibration.n
    accepted_count = np.unique(np.geomspace(min(FEWEST_ACCEPTED, n), n, CURVE_POINTS).astype(np.int64))
    accepted_mass = np.maximum(ranked.accepted_mass[accepted_count], TINY)
    mean_weight = ranked.accepted_mass[-1] / n
    # one loss more than was seen, since the best of many counts looks too good
    mean_loss = (ranked.accepted_loss[accepted_count] + mean_weight) / accepted_mass
    if not (mean_loss < risk).any():
        mean_loss = ranked.accepted_loss[accepted_count] / accepted_mass
    is_below = mean_loss < risk
    coverage = accepted_count[is_below] / n
    mean_loss = mean_loss[is_below]
    if not len(coverage) or risk <= 0:
        return None
    p_value = testing.binomial if ranked.zero_one else testing.hoeffding_bentkus

    def passes(sample_count: float) -> bool:
        accepted = np.floor(coverage * sample_count)
        total_loss = mean_loss * accepted
        if ranked.zero_one:
            total_loss = np.ceil(total_loss)
        return bool((p_value(total_loss, accepted, risk) <= delta / START_COUNT).any())

    low = 1.0
    high = max(2.0, testing.least_samples(risk, delta))
    while not passes(high):
        low = high
        high = 2 * high
        if high > MAX_SAMPLES:
            return None
    return max(n + 1, _round_up_to_two_digits(bisect(passes, low, high, relative=SEARCH_PRECISION)))


def _count_clusters_needed(clusters: ClusteredSamples, risk: float, delta: float) -> int | None:
    """Estimate how many clusters like these would certify `risk` (scaled to [0, 1]); None if no number would.

    The test bets on each cluster, and some threshold must pass at a sixth of delta, since the level is divided among
    up to six starts. Log wealth grows by the same amount with each cluster on average, so the largest mean growth over
    thresholds and stakes decides. The number is rounded to two digits, and above that of the calibration clusters.
    """
    ascending = np.sort(clusters.confidence)
    # thresholds that accept from all samples down to a tenth of them
    positions = np.unique(np.linspace(0, 0.9 * len(ascending), CLUSTER_THRESHOLDS).astype(np.int64))
    all_clusters = np.arange(clusters.cluster_count)
    best_growth = 0.0
    for threshold in ascending[positions]:
        is_accepted = clusters.confidence >= threshold
        excess = np.where(is_accepted, clusters.loss - risk, 0.0)
        # at most 1 - risk
        terms = clusters.sum_by_cluster(excess, all_clusters) / clusters.heaviest_cluster_mass
        for stake in testing.bold_stakes(risk):
            best_growth = max(best_growth, float(np.log1p(-stake * terms).mean()))
    if best_growth <= 0:
        return None
    # twice the level, because the boldest stake holds half of the wealth
    needed = math.log(2 * START_COUNT / delta) / best_growth / (1 - PILOT_SHARE)
    if needed >= MAX_SAMPLES:
        return None
    return max(clusters.cluster_count + 1, _round_up_to_two_digits(needed))


def _round_up_to_two_digits(count: float) -> int:
    """Round up to two significant digits: more digits would claim more than is known."""
    unit = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return math.ceil(count / unit) * unit
