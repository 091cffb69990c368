"""What to tell a user whose target cannot be certified: which risk could be, and how many samples would be enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np

from abstain._stored import Finite, Share, Within
from abstain.thresholds import testing
from abstain.thresholds.calibration import Calibration, ClusteredSamples
from abstain.thresholds.choosing import (
    CLUSTER_STARTS,
    learn_then_test,
    sgr,
    tested_cluster_count,
)

Unit = Literal["samples", "clusters"]
WhyNone = Literal["few", "risk"]

MAX_GROWTH = 100  # times the calibration samples (or clusters): no larger number is advised
LARGEST_RISK = 0.999  # the largest risk tried, on the scale [0, 1]; a risk of 1 is certified by any data
SEARCH_PRECISION = 0.01  # relative, of the smallest risk that can be certified
# Thresholds that accept fewer samples, or samples of fewer clusters, are not considered: their observed risk says
# too little of the true one.
FEWEST_ACCEPTED = 50
FEWEST_CLUSTERS = 40
CURVE_POINTS = 200  # thresholds at which the observed risk is read, evenly spaced on the logarithmic scale
CLUSTER_THRESHOLDS = 12  # the same with clusters, where each costs a pass over the samples
# A test is expected to pass if it passes with losses this many standard deviations above the expected ones: then
# about three quarters of all data sets of that size pass.
POWER_QUANTILE = 0.67
# The numbers that are advised: 24 in each power of ten, of two digits, since more would claim more than is known.
TWO_DIGITS = (10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91)
# Ratio of neighbouring targets on the way from the smallest risk that can be certified to the target
TARGET_RATIO = 1.02
CLUSTER_TARGET_RATIO = 1.1


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What would be feasible: the smallest risk these data certify, at which coverage; how many samples would do.

    Attributes
    ----------
    risk, coverage : float or None
        The smallest risk that these data certify, and the share that is then accepted; None if there is none.
    samples : int or None
        About how many calibration samples (or clusters) would certify the target. It takes the observed risk, made a
        little worse, for the true one, so it is a guide and no promise. A smaller target never needs fewer.
    samples_coverage : float or None
        The share that would be accepted then.
    why_none : {"few", "risk"} or None
        Why `samples` is None, for a threshold: the data are too few to tell, or the observed risk is not clearly below
        the target at any threshold that accepts at least 50 samples (with clusters: samples of 40 clusters).
    fewest : int or None
        Accepted samples that the target needs if none of them has a loss; None with clusters.
    unit : {"samples", "clusters"}
        What `samples` counts.
    """

    risk: Finite | None
    coverage: Share | None
    samples: Annotated[int, Within(1)] | None
    samples_coverage: Share | None = None
    why_none: WhyNone | None = None
    fewest: Annotated[int, Within(1)] | None = None
    unit: Unit = "samples"

    def __str__(self) -> str:
        if self.risk is None:
            feasible = "No risk below the bound of the loss can be certified with these data."
        else:
            risk_and_coverage = f"{self.risk:.4g}, at coverage {self.coverage:.4g}"
            feasible = f"The smallest risk these data certify is {risk_and_coverage}."
        return f"{feasible} {self._needed()}"

    def _needed(self) -> str:
        """A sentence on how many samples the target needs."""
        if self.samples is not None:
            coverage = ""
            if self.samples_coverage is not None:
                coverage = f", at a coverage of about {self.samples_coverage:.2g}"
            return (
                f"By the risks seen, about {self.samples:,} {self.unit} would certify the target{coverage}."
            )
        if self.why_none == "few":
            at_least = ""
            if self.fewest is not None:
                at_least = f"; without any loss among them, {self.fewest:,} accepted ones are needed"
            return f"These data are too few to tell how many {self.unit} the target needs{at_least}."
        if self.why_none is None:
            return f"By the risks seen, no number of {self.unit} would reach the target: the model has to improve."
        return (
            f"No number of {self.unit} can be given for the target: {self._observed_too_high()}. The model has to "
            f"improve, or its confidence."
        )

    def _observed_too_high(self) -> str:
        """Words for "the observed risk is not clearly below the target", with the thresholds that this is said of."""
        fewest = f"{FEWEST_ACCEPTED} samples" if self.unit == "samples" else f"{FEWEST_CLUSTERS} clusters"
        return f"at every threshold that accepts at least {fewest}, the observed risk is above it or too close to it"


def advise(
    calibration: Calibration, risk: float, delta: float, method: str, counted_share: float = 1.0
) -> Advice:
    """Find a larger risk that can be certified, and how many samples would certify this one.

    For a target that could not be certified. `risk` is that target, scaled to [0, 1]; `method` is "sgr" or "ltt".
    `calibration` holds the samples, most confident first, with losses scaled to [0, 1]. `delta` is the probability with
    which the promise may fail. For a promise about some samples only, `calibration` holds these alone, and
    `counted_share` is their share of all samples; the number that is advised is one of all samples.

    The smallest risk that can be certified is the same for all smaller targets, and the number of samples for a smaller
    target is at least that for a larger one.
    """
    choose = sgr if method == "sgr" else learn_then_test

    def passes(larger_risk: float) -> bool:
        return larger_risk > risk and choose(calibration, larger_risk, delta).accepted_count is not None

    least_risk = None
    coverage = None
    if passes(LARGEST_RISK):
        high = LARGEST_RISK
        while passes(high / 2):
            high /= 2
        least_risk = bisect(passes, high / 2, high, relative=SEARCH_PRECISION)
        accepted = np.asarray([choose(calibration, least_risk, delta).accepted_count])
        coverage = float(calibration.coverage(accepted)[0])
    pilot: _SampleCurve | _ClusterCurve
    if calibration.clusters is None:
        pilot = _SampleCurve.of(calibration, is_sgr=method == "sgr")
        fewest = testing.least_samples(risk, delta)
        target_ratio = TARGET_RATIO
    else:
        pilot = _ClusterCurve.of(calibration.clusters)
        fewest = math.inf
        target_ratio = CLUSTER_TARGET_RATIO
    needed = None
    if risk > 0:
        largest_target = LARGEST_RISK if least_risk is None else least_risk
        needed = _search_count(pilot, risk, largest_target, delta, target_ratio)
    unit: Unit = "samples" if calibration.clusters is None else "clusters"
    sample_count = None if needed is None else needed.sample_count
    if sample_count is not None and unit == "samples":
        sample_count = next(_advised_counts(sample_count / counted_share, math.inf))
    why_none: WhyNone | None = None
    if needed is None:
        why_none = "few" if risk > 0 and pilot.least_risk_seen() < risk else "risk"
    return Advice(
        risk=None if least_risk is None else calibration.to_user_scale(least_risk),
        coverage=coverage,
        samples=sample_count,
        samples_coverage=None if needed is None else needed.coverage,
        why_none=why_none,
        fewest=math.ceil(fewest) if math.isfinite(fewest) else None,
        unit=unit,
    )


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


class _Needed(NamedTuple):
    """A number of samples (or clusters) that would do, and the share that would be accepted then."""

    sample_count: int
    coverage: float


def _search_count(
    pilot: _SampleCurve | _ClusterCurve, risk: float, largest_target: float, delta: float, target_ratio: float
) -> _Needed | None:
    """Find how many samples (or clusters) would certify `risk`; None if a hundred times as many would not.

    Targets are visited downwards, on a fixed grid, from `largest_target` to the first at or below `risk`; the search
    for each begins at the number that the one before needs. So a smaller target never needs fewer, although tests at
    other ranks may by chance pass with fewer.
    """
    count = pilot.total_count + 1
    needed = None
    for target in _targets_down_to(risk, largest_target, target_ratio):
        needed = None
        for larger_count in _advised_counts(count, MAX_GROWTH * pilot.total_count):
            coverage = pilot.coverage_certified(larger_count, target, delta)
            if coverage is not None:
                needed = _Needed(larger_count, coverage)
                break
        if needed is None:
            return None
        count = needed.sample_count
    return needed


def _targets_down_to(risk: float, largest: float, ratio: float) -> Iterator[float]:
    """Powers of 1 / ratio from the first below `largest` down to the first that is at most `risk`."""
    exponent = math.ceil(-math.log(largest) / math.log(ratio))
    while True:
        target = ratio**-exponent
        yield target
        if target <= risk:
            return
        exponent += 1


def _advised_counts(least: float, most: float) -> Iterator[int]:
    """The numbers that may be advised, from `least` to `most`, rising."""
    power = 10 ** max(0, math.floor(math.log10(least)) - 1)
    while True:
        for two_digits in TWO_DIGITS:
            if two_digits * power > most:
                return
            if two_digits * power >= least:
                yield two_digits * power
        power *= 10


class _SampleCurve(NamedTuple):
    """What calibration samples say of the risk at thresholds that accept 50 of them or more.

    The arrays have one entry per threshold, from few accepted to many. Losses are scaled to [0, 1], and weights are
    divided by the largest; sums are over the accepted samples.
    """

    total_count: int  # of all samples
    is_sgr: bool
    zero_one: bool  # no weights, and every loss is 0 or 1
    accepted: np.ndarray  # how many samples
    coverage: np.ndarray  # the same as a share of the total weight
    weight: np.ndarray  # sum of the weights w
    loss: np.ndarray  # sum of w l, with one loss more than was seen: the best of many counts looks too good
    observed_loss: np.ndarray  # sum of w l as it was seen
    weight_squared: np.ndarray  # sum of w^2
    loss_of_squares: np.ndarray  # sum of w^2 l
    loss_squared: np.ndarray  # sum of w^2 l^2
    level_share: float  # a p-value of Hoeffding and Bentkus must be at most this share of a test's level

    @classmethod
    def of(cls, calibration: Calibration, *, is_sgr: bool) -> _SampleCurve:
        """Read the curve of calibration samples without clusters; empty for fewer than 50."""
        ranked = calibration.ranked
        n = calibration.n
        accepted = np.zeros(0, dtype=np.int64)
        if n >= FEWEST_ACCEPTED:
            accepted = np.unique(np.geomspace(FEWEST_ACCEPTED, n, CURVE_POINTS).astype(np.int64))
        weight = np.ones(n) if ranked.weight is None else np.asarray(ranked.weight, np.float64)
        weight = weight / weight.max()
        loss = np.asarray(ranked.loss, np.float64)

        def accepted_sum(values: np.ndarray) -> np.ndarray:
            return np.asarray(np.cumsum(values)[accepted - 1])

        observed_loss = accepted_sum(weight * loss)
        level_share = 0.5  # for bounded losses the smaller of two p-values is doubled
        if ranked.weight is not None:
            level_share = 0.25  # one of the four bets with weights has to win for all
        return cls(
            total_count=n,
            is_sgr=is_sgr,
            zero_one=ranked.zero_one and ranked.weight is None,
            accepted=accepted,
            coverage=calibration.coverage(accepted),
            weight=accepted_sum(weight),
            loss=observed_loss + weight.mean(),  # one loss of 1 more, of a sample of mean weight
            observed_loss=observed_loss,
            weight_squared=accepted_sum(weight**2),
            loss_of_squares=accepted_sum(weight**2 * loss),
            loss_squared=accepted_sum((weight * loss) ** 2),
            level_share=level_share,
        )

    def least_risk_seen(self) -> float:
        """The smallest risk at a threshold that accepts 50 samples or more; minus infinity if there is none."""
        return float((self.observed_loss / self.weight).min()) if len(self.accepted) else -math.inf

    def coverage_certified(self, sample_count: int, risk: float, delta: float) -> float | None:
        """The share that is probably accepted with so many samples like these; None if probably nothing is certified.

        Some sequence of tests must pass at its start; the threshold is then the last one that passes after it.
        """
        if (
            self.is_sgr
        ):  # a binary search over ranks, of as many tests: 1/2 of all samples, then 1/4, ... until one passes
            halvings = math.ceil(math.log2(sample_count))
            starts = [max(1, sample_count // 2**step) for step in range(halvings, 0, -1)]
            level = delta / halvings
        else:
            starts = testing.choose_starts(sample_count, risk, delta)
            level = delta / max(1, len(starts))
        passed_starts = np.asarray(starts)[self._pass(np.asarray(starts), sample_count, risk, level)]
        if not len(passed_starts):
            return None
        later = np.unique(np.geomspace(passed_starts[0], sample_count, CURVE_POINTS).astype(np.int64))
        passed = self._pass(later, sample_count, risk, level)
        # tests go on until one fails; the first is the start, which has passed
        passed_in_row = int(np.argmin(np.append(passed, False)))
        last = later[max(0, passed_in_row - 1)]
        return float(self.coverage[self._positions(np.asarray([last]), sample_count)[0]])

    def _positions(self, ranks: np.ndarray, sample_count: int) -> np.ndarray:
        """The threshold in this curve that accepts the share rank / sample_count or the next larger one."""
        wanted = ranks * (self.total_count / sample_count)
        return np.minimum(np.searchsorted(self.accepted, wanted * (1 - 1e-9)), len(self.accepted) - 1)

    def _pass(self, ranks: np.ndarray, sample_count: int, risk: float, level: float) -> np.ndarray:
        """Whether a test probably passes that accepts `ranks` of `sample_count` samples, at this level."""
        if not len(ranks) or not len(self.accepted):
            return np.zeros(len(ranks), dtype=bool)
        at = self._positions(ranks, sample_count)
        n = self.accepted[at]
        # each sample's term w (l - r) + r lies in [0, 1], and has mean r where the risk is r
        excess_mean = (self.loss[at] - risk * self.weight[at]) / n
        mean = risk + excess_mean
        squares = (
            self.loss_squared[at] - 2 * risk * self.loss_of_squares[at] + risk**2 * self.weight_squared[at]
        )
        variance = squares / n - excess_mean**2
        if self.zero_one:
            variance = mean * (1 - mean)  # with the one loss more
        total = ranks * mean + POWER_QUANTILE * np.sqrt(ranks * np.maximum(variance, 0.0))
        if self.zero_one:
            p_value = testing.binomial(np.ceil(total), ranks, risk)
            is_small = p_value <= level
        else:
            p_value = testing.hoeffding_bentkus(np.minimum(total, ranks), ranks, risk)
            is_small = p_value <= self.level_share * level
        # thresholds below the first of the curve say too little
        return (
            is_small
            & (ranks * (self.total_count / sample_count) >= self.accepted[0] * (1 - 1e-9))
            & (mean < risk)
        )


class _ClusterCurve(NamedTuple):
    """What calibration clusters say of the risk at some thresholds, from few accepted samples to many.

    Sums are over the accepted samples of each cluster, divided by the weight of the heaviest cluster.
    """

    total_count: int  # of all clusters
    mean_mass: float  # of a cluster, over the heaviest
    coverage: np.ndarray  # share of the total weight that each threshold accepts
    weight: np.ndarray  # sum of the weights w, shape (thresholds, clusters)
    loss: np.ndarray  # sum of w l, the same shape

    @classmethod
    def of(cls, clusters: ClusteredSamples) -> _ClusterCurve:
        """Read the curve at thresholds that accept samples of 40 clusters or more; empty if there are fewer."""
        total_mass = clusters.weight.sum()
        all_clusters = np.arange(clusters.cluster_count)
        coverage = []
        weights = []
        losses = []
        for share in np.geomspace(0.02, 1.0, CLUSTER_THRESHOLDS):
            threshold = np.quantile(clusters.confidence, 1 - share, method="lower")
            is_accepted = (clusters.confidence >= threshold).astype(np.float64)
            accepted_weight = clusters.sum_by_cluster(is_accepted, all_clusters)  # one entry per cluster
            if np.count_nonzero(accepted_weight) >= FEWEST_CLUSTERS:
                coverage.append(accepted_weight.sum() / total_mass)
                weights.append(accepted_weight)
                losses.append(clusters.sum_by_cluster(is_accepted * clusters.loss, all_clusters))
        shape = (len(coverage), clusters.cluster_count)
        heaviest = clusters.heaviest_cluster_mass
        return cls(
            total_count=clusters.cluster_count,
            mean_mass=total_mass / clusters.cluster_count / heaviest,
            coverage=np.asarray(coverage),
            weight=np.asarray(weights).reshape(shape) / heaviest,
            loss=np.asarray(losses).reshape(shape) / heaviest,
        )

    def least_risk_seen(self) -> float:
        """The smallest risk at one of the thresholds; minus infinity if there is none."""
        if not len(self.coverage):
            return -math.inf
        return float((self.loss.sum(axis=1) / self.weight.sum(axis=1)).min())

    def coverage_certified(self, cluster_count: int, risk: float, delta: float) -> float | None:
        """The share that is probably accepted with so many clusters like these; None if probably nothing is certified.

        A test bets on the clusters. Its log wealth after N of them is about N m - z s sqrt(N), where m and s are mean
        and standard deviation of what one cluster adds, and m is taken one standard error lower than it was seen.
        """
        tested_count = tested_cluster_count(cluster_count)
        equal_clusters = int(tested_count * self.mean_mass)
        starts = testing.choose_starts(equal_clusters, risk, delta, max_starts=CLUSTER_STARTS)
        if not starts or not len(self.coverage):
            return None
        passed = self._pass(tested_count, risk, delta / len(starts))
        for start in starts:
            first = int(np.searchsorted(self.coverage, start / equal_clusters))
            if first < len(passed) and start / equal_clusters >= self.coverage[0] and passed[first]:
                passed_in_row = int(np.argmin(np.append(passed[first:], False)))
                return float(self.coverage[first + passed_in_row - 1])
        return None

    def _pass(self, tested_count: int, risk: float, level: float) -> np.ndarray:
        """Whether the test of each threshold probably passes on so many clusters, at this level."""
        terms = self.loss - risk * self.weight  # at most 1 - risk
        passed = np.zeros(len(terms), dtype=bool)
        for bet, stake in enumerate(testing.bold_stakes(risk), start=1):
            gain = np.log1p(-stake * terms)  # of log wealth by each cluster
            deviation = gain.std(axis=1)
            mean = gain.mean(axis=1) - deviation / math.sqrt(self.total_count)
            log_wealth = tested_count * mean - POWER_QUANTILE * deviation * math.sqrt(tested_count)
            passed |= log_wealth >= math.log(2**bet / level)  # this bet holds a share 2^-bet of the wealth
        return passed
