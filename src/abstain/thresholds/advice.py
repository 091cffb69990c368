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
# With little data these thresholds accept most of the samples, and "the model has to improve" would say too much: a
# lower risk may be seen at thresholds that accept fewer, from these numbers on, if they accept a tenth of all or more.
FEWEST_FOR_A_HINT = 20  # samples or clusters
LEAST_SHARE_FOR_A_HINT = 0.1
CURVE_POINTS = 200  # thresholds at which the observed risk is read, evenly spaced on the logarithmic scale
CLUSTER_THRESHOLDS = 12  # the same with clusters, where each costs a pass over the samples
# A test is expected to pass if it passes with losses this many standard deviations above the expected ones: then
# about three quarters of all data sets of that size pass.
POWER_QUANTILE = 0.67
# The numbers that are advised: 24 in each power of ten, of two digits, since more would claim more than is known.
TWO_DIGITS = (10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91)
# The number of samples is searched for a falling sequence of targets, from the smallest risk that can be certified down
# to the target of the user. This is the ratio of one target to the next.
RATIO_OF_TARGETS = 1.02
RATIO_OF_CLUSTER_TARGETS = 1.1


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
        the target at any threshold that accepts at least 50 samples (with clusters: samples of 40 clusters), or with
        little data at least 20 and a tenth of all.
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
        return f"{feasible} {self._describe_needed_count()}"

    def _describe_needed_count(self) -> str:
        """A sentence on how many samples the target needs; `unit` names what is counted, "samples" or "clusters".

        Without a number (`samples` is None), `why_none` says why: "few" (too few data to tell), "risk" (the observed
        risk is not clearly below the target), or None in the advice for a cascade, which finds no policy that keeps the
        risk. `fewest` is the number of accepted samples that the target needs if none of them has a loss; None with
        clusters, where no such number is known.
        """
        if self.samples is not None:
            coverage = ""
            # what so many would probably accept; None in the advice for a cascade
            if self.samples_coverage is not None:
                coverage = f", at a coverage of about {self.samples_coverage:.2g}"
            count = f"{self.samples:,} calibration {self.unit}"
            return f"By the risks seen, about {count} would certify the target{coverage}."
        if self.why_none == "few":
            at_least = ""
            if self.fewest is not None:
                at_least = f" Even without a single error, {self.fewest:,} accepted ones are needed; with errors, more."
            return f"These data are too few to tell how many {self.unit} the target needs.{at_least}"
        if self.why_none is None:
            return f"By the risks seen, no number of {self.unit} would reach the target: the model has to improve."
        # "risk"; the words of `_observed_too_high` say at which thresholds the observed risk was looked at
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

    For a target that could not be certified. `risk` is that target, scaled to [0, 1]; `method` is "sgr" (a binary
    search over ranks, which takes no clusters) or "ltt" (tests from few accepted samples to many). `calibration` holds
    the samples, most confident first (`ranked`), with losses scaled to [0, 1]. `delta` is the probability with which
    the promise may fail. For a promise about some samples only, `calibration` holds these alone, and `counted_share` is
    their share of all samples, or with clusters the share of clusters that hold any of them; the number that is advised
    is one of all samples (or clusters).

    The smallest risk that can be certified is the same for all smaller targets, and the number of samples for a smaller
    target is at least that for a larger one.

    The number is searched for one target after the other, from the smallest risk that can be certified down to `risk`;
    `ratio_of_targets` is the ratio of each target to the next. `pilot` says at which thresholds which risk was
    observed.
    """
    choose = sgr if method == "sgr" else learn_then_test

    def passes(larger_risk: float) -> bool:
        """Can this risk be certified? None up to the target is tried: the target cannot."""
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
        fewest = testing.least_samples(risk, delta)  # infinite for a target of 0
        ratio_of_targets = RATIO_OF_TARGETS
    else:
        pilot = _ClusterCurve.of(calibration.clusters)
        fewest = math.inf  # not told: how many samples it takes depends on the clusters
        ratio_of_targets = RATIO_OF_CLUSTER_TARGETS
    needed = None
    if risk > 0:
        largest_target = LARGEST_RISK if least_risk is None else least_risk
        needed = _search_count(pilot, risk, largest_target, delta, ratio_of_targets)
    unit: Unit = "samples" if calibration.clusters is None else "clusters"
    sample_count = None if needed is None else needed.sample_count
    if sample_count is not None:
        # so far the number counts what the promise is about; more are needed of all samples (or clusters) together
        count_of_all = sample_count / counted_share
        # the first rounded number that is at least that
        sample_count = next(_rounded_counts(least=count_of_all, most=math.inf))
    why_none: WhyNone | None = None
    if needed is None:
        # "few": some threshold shows a lower risk than the target, or none accepts enough (minus infinity)
        shows_lower_risk = min(pilot.least_risk_seen(), pilot.least_risk_hinted) < risk
        why_none = "few" if risk > 0 and shows_lower_risk else "risk"
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
    `absolute + relative * high`. One of these two must be positive, and with `relative` alone, `low` too: otherwise the
    search might never end.
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
    pilot: _SampleCurve | _ClusterCurve,
    risk: float,
    largest_target: float,
    delta: float,
    ratio_of_targets: float,
) -> _Needed | None:
    """Find how many samples (or clusters) would certify `risk`; None if a hundred times as many would not.

    `pilot` is what the calibration data say of the risk at each coverage; its `total_count` is the number of
    calibration samples (or clusters). `risk` is the target of the user, and `largest_target` the smallest risk that
    these data certify, which is larger; both are scaled to [0, 1]. `delta` is the allowed probability that the promised
    risk is exceeded.

    Other targets on the way make sure that a smaller target never needs fewer samples; searched for alone, it might by
    chance. They lie on a grid that is the same for every target of the user: the powers of 1 / `ratio_of_targets`, from
    the first that is at most `largest_target` down to the first that is at most `risk`. The search for each begins at
    the number that the one before needs. The result is the number for the last of them, so it is enough for `risk`.
    """
    fewest_to_try = pilot.total_count + 1  # the calibration samples (or clusters) were not enough
    needed = None
    for target in _targets_down_to(risk, largest_target, ratio_of_targets):  # one target at least
        needed = None
        # numbers of two digits, such as 1,200, in rising order
        for larger_count in _rounded_counts(least=fewest_to_try, most=MAX_GROWTH * pilot.total_count):
            # None if so many would probably not certify this target
            coverage = pilot.coverage_probably_certified(larger_count, target, delta)
            if coverage is not None:
                needed = _Needed(larger_count, coverage)
                break
        if needed is None:
            return None
        fewest_to_try = needed.sample_count
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


def _rounded_counts(least: float, most: float) -> Iterator[int]:
    """Whole numbers from `least` to `most` that may be advised, rising: rounded to two digits."""
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

    The arrays have one entry per threshold, from few accepted to many. Losses l are scaled to [0, 1], and weights w are
    divided by the largest; sums are over the accepted samples.
    """

    total_count: int  # of all samples
    is_sgr: bool  # is the method "sgr", a binary search over ranks, and not "ltt"?
    zero_one: bool  # no weights, and every loss is 0 or 1
    accepted_count: np.ndarray  # how many samples
    coverage: np.ndarray  # the same as a share of the total weight
    sum_w: np.ndarray
    sum_wl: np.ndarray  # as observed
    planning_sum_wl: np.ndarray  # with one loss more than was observed
    sum_w2: np.ndarray
    sum_w2_l: np.ndarray
    sum_w2_l2: np.ndarray
    share_of_level: (
        float  # a p-value of Hoeffding and Bentkus must be at most this times the level of the test
    )
    # the smallest risk at thresholds that accept fewer than 50 samples, but 20 and a tenth of all; infinity without any
    least_risk_hinted: float

    @classmethod
    def of(cls, calibration: Calibration, *, is_sgr: bool) -> _SampleCurve:
        """Read the curve of calibration samples without clusters; empty for fewer than 50.

        The arrays of a curve have one entry per threshold, from few accepted samples to many. Their names say what is
        summed over the accepted samples: `sum_w2_l` is the sum of w^2 l, with weights w divided by the largest (1
        without weights), and losses l scaled to [0, 1]. `calibration.ranked` holds the samples, most confident first.
        `is_sgr` says whether the threshold is chosen by method "sgr" (a binary search over ranks) or by "ltt".

        `least_risk_hinted` is the smallest risk at thresholds that are too small for the curve: they accept fewer than
        50 samples, but 20 and a tenth of all. The caller uses it for its words only: if that risk is below the target,
        it does not say that the model has to improve.
        """
        ranked = calibration.ranked
        n = calibration.n
        accepted_count = np.zeros(0, dtype=np.int64)  # of each threshold
        if n >= FEWEST_ACCEPTED:
            accepted_count = np.unique(np.geomspace(FEWEST_ACCEPTED, n, CURVE_POINTS).astype(np.int64))
        weight = np.ones(n) if ranked.weight is None else np.asarray(ranked.weight, np.float64)
        weight = weight / weight.max()
        loss = np.asarray(ranked.loss, np.float64)

        def accepted_sum(values: np.ndarray) -> np.ndarray:
            """Sums of the values, one per sample, over the samples that each threshold accepts."""
            return np.asarray(np.cumsum(values)[accepted_count - 1])

        sum_wl = accepted_sum(weight * loss)
        least_hint = max(FEWEST_FOR_A_HINT, math.ceil(LEAST_SHARE_FOR_A_HINT * n))
        # of running sums, those of 20 (or a tenth of all) to 49 accepted samples; may be none
        hints = slice(least_hint - 1, FEWEST_ACCEPTED - 1)
        hinted_risks = (np.cumsum(weight * loss) / np.cumsum(weight))[hints]
        # `_probably_pass` predicts a test by the p-value of Hoeffding and Bentkus alone: it passes where that is at
        # most `share_of_level` times its level. With losses between 0 and 1 a test takes twice the smaller of this
        # p-value and another one, which is left out here.
        share_of_level = 0.5
        if ranked.weight is not None:
            # With weights a test takes 1 / the mean wealth of four bets. This p-value stands for 1 / the wealth of the
            # best of them, which must be four times as large if the other three have lost everything.
            share_of_level = 0.25
        return cls(
            total_count=n,
            is_sgr=is_sgr,
            zero_one=ranked.zero_one and ranked.weight is None,
            accepted_count=accepted_count,
            coverage=calibration.coverage(accepted_count),
            sum_w=accepted_sum(weight),
            sum_wl=sum_wl,
            # The search picks the smallest number of samples that passes, and so prefers thresholds whose observed loss
            # is low by chance. Therefore it plans with one loss of 1 more, of a sample of mean weight.
            planning_sum_wl=sum_wl + weight.mean(),
            sum_w2=accepted_sum(weight**2),
            sum_w2_l=accepted_sum(weight**2 * loss),
            sum_w2_l2=accepted_sum((weight * loss) ** 2),
            share_of_level=share_of_level,
            least_risk_hinted=float(np.min(hinted_risks, initial=math.inf)),
        )

    def least_risk_seen(self) -> float:
        """The smallest risk at a threshold that accepts 50 samples or more; minus infinity if there is none."""
        return float((self.sum_wl / self.sum_w).min()) if len(self.accepted_count) else -math.inf

    def coverage_probably_certified(self, sample_count: int, risk: float, delta: float) -> float | None:
        """The share that is probably accepted with so many samples like these; None if probably nothing is certified.

        A rank k stands for the test of the threshold that accepts the k most confident of `sample_count` samples, more
        than the calibration had; it probably passes if it does so for about three quarters of all data sets. Tests
        start at several ranks, and each sequence goes on to larger ranks until a test fails. Only the sequence from the
        smallest start that passes is followed: a later one may accept more, which this cautious estimate leaves out.

        Method "sgr" is a binary search over ranks instead. It goes down to 1/2 of all samples, then 1/4, ... while
        tests fail, and up again from the first that passes: these ranks are taken for its starts.

        `risk` is the target, scaled to [0, 1]. `coverage` holds the share of the total weight that each threshold of
        this curve accepts, rising.
        """
        if self.is_sgr:
            test_count = math.ceil(math.log2(sample_count))  # one for each halving
            start_ranks_rising = [max(1, sample_count // 2**step) for step in range(test_count, 0, -1)]
            level = delta / test_count  # of each test
        else:
            start_ranks_rising = testing.choose_start_ranks(sample_count, risk, delta)
            level = delta / max(1, len(start_ranks_rising))  # of each sequence of tests; there may be none
        start_ranks = np.asarray(start_ranks_rising)
        is_passed_start = self._probably_pass(start_ranks, sample_count, risk, level)  # of bool, one per rank
        passed_start_ranks = start_ranks[is_passed_start]
        if not len(passed_start_ranks):
            return None
        smallest_passed_rank = passed_start_ranks[0]
        # at most CURVE_POINTS ranks, some hundred, stand for those that are tested from there on
        ranks = np.unique(np.geomspace(smallest_passed_rank, sample_count, CURVE_POINTS).astype(np.int64))
        passed = self._probably_pass(ranks, sample_count, risk, level)
        # Tests go on until one fails; the first is the start, which has passed. The appended False is the first
        # failure if all pass.
        passed_before_first_failure = int(np.argmin(np.append(passed, False)))
        last_passed_rank = ranks[max(0, passed_before_first_failure - 1)]
        # where, in the arrays of this curve, the threshold stands that accepts the same share of all samples
        [position] = self._positions_of_ranks(np.asarray([last_passed_rank]), sample_count)
        return float(self.coverage[position])

    def _positions_of_ranks(self, ranks: np.ndarray, sample_count: int) -> np.ndarray:
        """Positions, in the arrays of this curve, of the thresholds that accept the share rank / sample_count.

        It is the next larger share where no threshold accepts exactly this one, and the largest of the curve where none
        is as large.
        """
        equal_count = ranks * (self.total_count / sample_count)  # the same share of the calibration samples
        first_as_large = np.searchsorted(self.accepted_count, equal_count * (1 - 1e-9))
        return np.minimum(first_as_large, len(self.accepted_count) - 1)

    def _probably_pass(self, ranks: np.ndarray, sample_count: int, risk: float, level: float) -> np.ndarray:
        """Whether tests that accept `ranks` of `sample_count` samples pass for about three quarters of all data sets.

        A test passes if its p-value is at most `level`. It is computed for losses that are POWER_QUANTILE (0.67)
        standard deviations above the expected ones. What is expected are the observed losses and one loss of 1 more:
        at each threshold, `planning_sum_wl` is the sum of w l (weight times loss) of the accepted with that loss added,
        while the sums of w, w^2, w^2 l and w^2 l^2 are as observed. Weights are at most 1, so a sum of weights is at
        most the number of samples (`accepted_count`). `zero_one` means that every loss is 0 or 1 and every weight is 1.
        `risk` is the target; it and the losses are scaled to [0, 1].
        """
        if not len(ranks) or not len(self.accepted_count):
            return np.zeros(len(ranks), dtype=bool)
        # of the thresholds, in the arrays of this curve, that accept the same share of the calibration samples
        positions = self._positions_of_ranks(ranks, sample_count)
        n = self.accepted_count[positions]  # calibration samples, from which mean and variance are estimated
        # each sample's term w (l - r) + r lies in [0, 1], and has mean r where the risk is r
        excess_mean = (self.planning_sum_wl[positions] - risk * self.sum_w[positions]) / n
        mean = risk + excess_mean
        if self.zero_one:
            variance = mean * (1 - mean)
        else:
            sum_of_squares = (  # of w (l - r)
                self.sum_w2_l2[positions]
                - 2 * risk * self.sum_w2_l[positions]
                + risk**2 * self.sum_w2[positions]
            )
            variance = sum_of_squares / n - excess_mean**2
        # one number per rank, as if so many samples had terms of this mean and variance
        sum_of_terms = ranks * mean + POWER_QUANTILE * np.sqrt(ranks * np.maximum(variance, 0.0))
        # p-values of "the mean of the terms is above `risk`", from their sum and their number
        if self.zero_one:
            p_value = testing.binomial(np.ceil(sum_of_terms), ranks, risk)
            is_small = p_value <= level
        else:
            p_value = testing.hoeffding_bentkus(np.minimum(sum_of_terms, ranks), ranks, risk)
            # a test of bounded or weighted losses has a larger p-value than this, by a factor of 1 / share_of_level
            is_small = p_value <= self.share_of_level * level
        # The curve begins at 50 accepted samples. Below that the risk is not known well enough: no test passes there.
        equal_count = ranks * (self.total_count / sample_count)  # the same shares of the calibration samples
        is_on_curve = equal_count >= self.accepted_count[0] * (1 - 1e-9)
        return is_small & is_on_curve & (mean < risk)


class _ClusterCurve(NamedTuple):
    """What calibration clusters say of the risk at some thresholds, from few accepted samples to many.

    Sums are over the accepted samples of each cluster, divided by the weight of the heaviest cluster. Losses l are
    scaled to [0, 1], w are the sample weights.
    """

    total_count: int  # of all clusters
    mean_over_heaviest_mass: float  # the mean weight of a cluster over that of the heaviest
    coverage: np.ndarray  # share of the total weight that each threshold accepts, rising
    sum_w: np.ndarray  # shape (thresholds, clusters)
    sum_wl: np.ndarray  # the same shape
    # the smallest risk at thresholds that accept less than 40 clusters, but 20 and a tenth of all; infinity without any
    least_risk_hinted: float

    @classmethod
    def of(cls, clusters: ClusteredSamples) -> _ClusterCurve:
        """Read the curve at thresholds that accept samples of 40 clusters or more; empty if there are fewer.

        `clusters` holds the calibration samples in the order given, with losses scaled to [0, 1], and the cluster that
        each belongs to. A threshold that accepts samples of fewer clusters is left out: they say too little of its
        risk. In the result, `coverage` has one entry per threshold, rising, and the sums of weights w and of w l have
        one row per threshold and one column per cluster, in units of the weight of the heaviest cluster.

        `least_risk_hinted` is the smallest risk at thresholds that are left out but accept samples of 20 clusters and a
        tenth of all. The caller uses it for its words only: if that risk is below the target, it does not say that the
        model has to improve.
        """
        total_mass = clusters.weight.sum()
        all_clusters = np.arange(clusters.cluster_count)
        coverage = []
        accepted_weights = []
        accepted_losses = []
        least_risk_hinted = math.inf
        least_hint = max(FEWEST_FOR_A_HINT, math.ceil(LEAST_SHARE_FOR_A_HINT * clusters.cluster_count))
        for share in np.geomspace(0.02, 1.0, CLUSTER_THRESHOLDS):  # of the samples to accept, rising
            threshold = np.quantile(clusters.confidence, 1 - share, method="lower")
            is_accepted = (clusters.confidence >= threshold).astype(np.float64)
            # the summed weight of the accepted samples of each cluster, and below of their weight times loss
            accepted_weight = clusters.weighted_sum_by_cluster(is_accepted, all_clusters)
            accepted_loss = clusters.weighted_sum_by_cluster(is_accepted * clusters.loss, all_clusters)
            accepted_cluster_count = np.count_nonzero(accepted_weight)
            if accepted_cluster_count >= FEWEST_CLUSTERS:
                coverage.append(accepted_weight.sum() / total_mass)
                accepted_weights.append(accepted_weight)
                accepted_losses.append(accepted_loss)
            elif accepted_cluster_count >= least_hint:
                least_risk_hinted = min(least_risk_hinted, float(accepted_loss.sum() / accepted_weight.sum()))
        shape = (len(coverage), clusters.cluster_count)
        heaviest = clusters.heaviest_cluster_mass
        return cls(
            total_count=clusters.cluster_count,
            # the mean weight of a cluster over that of the heaviest
            mean_over_heaviest_mass=total_mass / clusters.cluster_count / heaviest,
            coverage=np.asarray(coverage),
            sum_w=np.asarray(accepted_weights).reshape(shape) / heaviest,
            sum_wl=np.asarray(accepted_losses).reshape(shape) / heaviest,
            least_risk_hinted=least_risk_hinted,
        )

    def least_risk_seen(self) -> float:
        """The smallest risk at one of the thresholds; minus infinity if there is none."""
        if not len(self.coverage):
            return -math.inf
        return float((self.sum_wl.sum(axis=1) / self.sum_w.sum(axis=1)).min())

    def coverage_probably_certified(self, cluster_count: int, risk: float, delta: float) -> float | None:
        """The share that is probably accepted with so many clusters like these; None if probably nothing is certified.

        Some clusters, the pilot, only propose thresholds, and the others are tested. Sequences of tests start at
        several accepted shares, and each goes on to larger shares until a test fails. Only the sequence from the
        smallest start that passes is followed: a later one may accept more, which this cautious estimate leaves out.

        `risk` is the target, scaled to [0, 1]; all tests together may err with probability `delta`. `coverage` holds
        the share of the total weight that each threshold of this curve accepts, rising. The first one accepts samples
        of 40 clusters or more. Thresholds that accept less are not on the curve, because too few clusters say what risk
        they have. A sequence that starts there is taken to fail.
        """
        tested_count = tested_cluster_count(cluster_count)  # without the pilot
        # How many clusters as heavy as the heaviest would weigh as much as the tested ones. In a test, such a cluster
        # counts as much as one sample does in a test of samples: so starts are planned as for so many samples.
        # `mean_over_heaviest_mass` is the mean weight of a cluster over that of the heaviest.
        equal_clusters = int(tested_count * self.mean_over_heaviest_mass)
        # rising: of these equal clusters, how many are accepted where a sequence of tests starts
        start_ranks = testing.choose_start_ranks(equal_clusters, risk, delta, max_starts=CLUSTER_STARTS)
        if not start_ranks or not len(self.coverage):
            return None
        passed = self._probably_pass(tested_count, risk, delta / len(start_ranks))  # one entry per threshold
        for start_rank in start_ranks:
            start_share = start_rank / equal_clusters
            if not self.coverage[0] <= start_share <= self.coverage[-1]:
                continue  # not on the curve
            # position of the first threshold that accepts this share or more
            start_position = int(np.searchsorted(self.coverage, start_share))
            if passed[start_position]:
                # how many tests pass from there on before one fails (or the curve ends); 1 or more
                passed_in_row = int(np.argmin(np.append(passed[start_position:], False)))
                return float(self.coverage[start_position + passed_in_row - 1])  # of the last that passed
        return None

    def _probably_pass(self, tested_count: int, risk: float, level: float) -> np.ndarray:
        """Whether the test of each threshold passes on so many clusters for about three quarters of all data sets.

        A test divides a wealth of 1 among eight bets on the clusters, and passes if this becomes 1 / `level`. It is
        taken to pass if one bet alone reaches as much. In three quarters of all data sets, the log wealth of a bet
        after N clusters is at least about N m - z s sqrt(N), where m and s are mean and standard deviation of what one
        cluster adds, m is taken one standard error lower than was observed, and z is POWER_QUANTILE (0.67), the
        normal quantile of that share. `risk` is the target r, scaled to [0, 1].
        """
        # One row per threshold, one column per cluster: the sum of w (l - r) over its accepted samples, divided by the
        # weight of the heaviest cluster. So no entry is above 1 - risk.
        terms = self.sum_wl - risk * self.sum_w
        passed = np.zeros(len(terms), dtype=bool)
        # eight stakes, the largest first, each half of the one before; together the bets reach 1 / `level` if one does
        for bet, stake in enumerate(testing.bold_stakes(risk), start=1):
            gain = np.log1p(-stake * terms)  # what each cluster adds to the log wealth of this bet
            deviation = gain.std(axis=1)
            # one standard error lower than in calibration, which had `total_count` clusters
            mean = gain.mean(axis=1) - deviation / math.sqrt(self.total_count)
            log_wealth = tested_count * mean - POWER_QUANTILE * deviation * math.sqrt(tested_count)
            passed |= log_wealth >= math.log(2**bet / level)  # this bet holds a share 2^-bet of the wealth
        return passed
