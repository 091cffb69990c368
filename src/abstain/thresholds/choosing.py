"""The methods that choose a threshold on calibration data: tested, conformal, empirical, by coverage, by cost.

Every method takes a `Calibration` and a risk or cost that is scaled to [0, 1] as its losses are, and returns a
`Selection`: how many calibration samples are accepted, from which value on, and the table of thresholds it looked at.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from abstain.core.curve_points import cheapest as position_of_least_cost
from abstain.core.curve_points import reaches
from abstain.core.rounding import SUM_ROUNDING
from abstain.thresholds import testing
from abstain.thresholds.calibration import Calibration, Candidates, ClusteredSamples

TABLE_ROWS = 400  # thresholds shown where nothing is tested rank by rank
PILOT_SHARE = 0.05  # of the clusters propose thresholds; the others are tested on
CLUSTER_STARTS = 2  # sequences of tests with clusters, which share delta
MAX_CLUSTER_TESTS = 100  # thresholds tested with clusters, where each costs a pass over the samples


class Selection(NamedTuple):
    """The threshold that was chosen; None twice where none could be."""

    accepted_count: int | None  # calibration samples at or above the threshold
    threshold: float | None  # accept where the confidence is at least this
    table: Candidates


class Requirement(NamedTuple):
    """One of the promises that a threshold must keep."""

    all_samples: (
        Calibration  # one that the promise is not about has the loss `risk`, so that it changes no sum
    )
    counted_samples: Calibration  # those that the promise is about
    risk: float  # the largest mean loss of the accepted among the counted samples, scaled to [0, 1]

    def count_accepted(self, value: np.ndarray) -> np.ndarray:
        """Count the samples that the promise is about with a confidence of at least each of these thresholds."""
        n = self.counted_samples.n
        rising_confidence = self.counted_samples.ranked.smallest_confidence(np.arange(n, 0, -1))
        return n - np.searchsorted(rising_confidence, value)


def _choose_largest_passed(
    calibration: Calibration,
    count: np.ndarray,
    value: np.ndarray,
    passed: np.ndarray,
    p_value: np.ndarray | None = None,
    level: np.ndarray | None = None,
) -> Selection:
    """Choose the threshold that passed and accepts the most samples, and make the table of all.

    Parameters
    ----------
    calibration : Calibration
        The samples, most confident first, with losses scaled to [0, 1].
    count, value : ndarray
        How many samples each threshold accepts, rising, and the thresholds. Neighbours with the same count are the same
        threshold, tested more than once, with the same p-value at different levels: it passed if any of its tests did.
        They may be empty.
    passed : ndarray of bool
        Whether each entry passed.
    p_value, level : ndarray, optional
        The p-value of each test and the level that it was compared with; NaN in the table if nothing was tested.

    Returns
    -------
    Selection
        None for count and value if nothing passed. Thresholds that accept no sample are not in the table, whose risks
        are on the user's scale.
    """
    if p_value is None or level is None:
        p_value = np.full(len(count), np.nan)
        level = np.full(len(count), np.nan)
    # One row of the table for each run of equal counts: the value and p-value of its first entry, its largest level.
    # -1 is no count, so that the first entry starts a run
    run_starts = np.flatnonzero(count != np.append(-1, count[:-1]))
    accepts_any = count[run_starts] > 0
    first_of_run = run_starts[accepts_any]
    accepted = count[first_of_run].astype(np.int64)
    table = Candidates(
        value=value[first_of_run],
        accepted=accepted,
        coverage=calibration.coverage(accepted),
        risk=calibration.risk(accepted),
        p_value=p_value[first_of_run],
        level=np.maximum.reduceat(level, run_starts)[accepts_any],
        passed=np.logical_or.reduceat(passed, run_starts)[accepts_any],
    )
    if not table.passed.any():
        return Selection(accepted_count=None, threshold=None, table=table)
    best = np.flatnonzero(table.passed)[-1]
    return Selection(
        accepted_count=int(table.accepted[best]), threshold=float(table.value[best]), table=table
    )


def learn_then_test(calibration: Calibration, risk: float, delta: float) -> Selection:
    """Choose the largest coverage at which the risk is proved to be at most `risk`, at level delta in all.

    `risk` is scaled to [0, 1]. Thresholds are tested from few accepted samples to many, from several starts. Where
    calibration samples come in clusters, whole clusters are tested.
    """
    [selection] = certify(
        [Requirement(all_samples=calibration, counted_samples=calibration, risk=risk)], delta
    )
    return selection


def certify(requirements: list[Requirement], delta: float) -> list[Selection]:
    r"""Choose the largest coverage at which every requirement is proved, at level delta in all.

    A requirement is one promise: among its `counted_samples`, the accepted have a mean loss of at most `risk`. Its
    `all_samples` are all calibration samples, where one that the promise is not about has the loss `risk`.

    A threshold passes if the largest p-value of its requirements is at most its level. While some requirement is
    broken there, its own p-value is rarely that small, and the largest is no smaller: so no correction is needed for
    their number (an intersection-union test). Which thresholds are tested, in which order, is fixed by the number of
    samples that each promise is about, the targets and delta, before a loss is seen.

    Thresholds are tested from few accepted samples to many, by the fallback procedure (`testing.walk`). Each brings its
    own part of delta (`planned.parts_of_delta`, 0 for most). Its level is this part plus the level of the one before,
    if that passed or was skipped. One is skipped if it accepts too few samples to pass even without any loss. That
    depends on counts alone, not on losses; why the procedure still keeps delta, the module `testing` says ("Starts
    inside a block").

    Returns
    -------
    list of Selection
        One for each requirement, all with the same threshold (None if none passed); the table of each has its own
        risks and p-values.
    """
    samples = requirements[0].all_samples  # all requirements have the same samples, with other losses
    # A promise about a share of the samples needs as many more, as if its target were smaller by that share. The
    # smallest such target needs the most samples.
    planning_risk = min(x.risk * (x.counted_samples.n / x.all_samples.n) for x in requirements)
    if samples.clusters is not None and planning_risk < 1:  # at 1 nothing has to be proved
        return _certify_by_clusters(requirements, samples.clusters, planning_risk, delta)
    # the ranks to test, rising, with their parts of delta; none if so few samples cannot prove anything
    planned = testing.plan(samples.n, planning_risk, delta)
    # For each rank k: how many samples its threshold accepts, at most the k most confident, and the threshold. They
    # are fewer than k where a threshold would divide samples of equal confidence.
    count, value = samples.ranked.cut(planned.ranks)
    p_values = []  # for each requirement, of every threshold
    least_p_values = []  # the same if there were no loss at all: a threshold is skipped where these exceed its level
    for requirement in requirements:
        # how many samples that the promise is about each threshold accepts
        counted = requirement.count_accepted(value)
        # of "the mean loss of these samples is above the promised risk", both on the scale [0, 1]
        p_values.append(requirement.counted_samples.p_values(counted, requirement.risk))
        least_p_values.append(testing.least_p_value(counted, requirement.risk))
    # a threshold must pass for every requirement: its largest p-value counts
    decisive_p_values = np.max(p_values, axis=0)
    least_possible = np.max(least_p_values, axis=0)
    # for each threshold: the level that its p-value was compared with, and whether it passed
    level, passed = testing.walk(decisive_p_values, planned.parts_of_delta, least_possible)
    # of the thresholds that passed, the one that accepts the most samples; with a table of all for each requirement
    return [
        _choose_largest_passed(requirement.all_samples, count, value, passed, p_value, level)
        for requirement, p_value in zip(requirements, p_values)
    ]


class Pilot(NamedTuple):
    """A few clusters, drawn at random, that propose thresholds by their confidences and are used for nothing else."""

    falling_confidence: np.ndarray  # of all samples in the drawn clusters, most confident first
    mean_mass: float  # mean total weight of a drawn cluster
    # numbers of the clusters that were not drawn, which are tested on; empty if there is only one cluster
    test_cluster_numbers: np.ndarray


def tested_cluster_count(cluster_count: int) -> int:
    """How many of so many clusters are left for the tests once a twentieth, at least one, is drawn as the pilot."""
    return cluster_count - max(1, math.ceil(PILOT_SHARE * cluster_count))


def _draw_pilot(clusters: ClusteredSamples) -> Pilot:
    """Draw a twentieth of the clusters at random, at least one; the same clusters at every call.

    They are the pilot, which proposes thresholds: the result holds their confidences and their mean weight. In
    `test_cluster_numbers` it has the numbers of all other clusters; there are none if there is only one cluster.
    """
    shuffled = np.random.default_rng(0).permutation(clusters.cluster_count)
    pilot_size = clusters.cluster_count - tested_cluster_count(clusters.cluster_count)
    drawn, test_cluster_numbers = np.split(shuffled, [pilot_size])  # numbers of clusters
    is_drawn = np.isin(clusters.cluster_of_sample, drawn)
    mass_of_drawn = clusters.weighted_sum_by_cluster(np.ones(len(clusters.loss)), drawn)
    return Pilot(
        falling_confidence=np.sort(clusters.confidence[is_drawn])[::-1],
        mean_mass=float(mass_of_drawn.mean()),
        test_cluster_numbers=test_cluster_numbers,
    )


def _certify_by_clusters(
    requirements: list[Requirement], clusters: ClusteredSamples, planning_risk: float, delta: float
) -> list[Selection]:
    r"""Choose the largest coverage at which every requirement is proved, by tests of whole clusters.

    A requirement is one promise: the accepted among its `counted_samples` have a mean loss of at most `risk`. Its
    `all_samples` are all calibration samples, where one that the promise is not about has the loss `risk`.

    `clusters` are those of all samples, with the losses of any requirement; `heaviest_cluster_mass` is the total weight
    of the heaviest. `planning_risk`, less than 1, is the target that decides how many clusters the first test needs.
    All tests together err with probability at most delta. Returns one selection for each requirement, all with the same
    threshold.

    For a target r and a threshold t, the terms :math:`\sum_{i \in c} w_i 1(g_i \ge t)(\ell_i - r)` of independent
    clusters c have a mean above 0 exactly where the risk of the accepted samples is above r. A few clusters, drawn at
    random, propose the thresholds by their confidences and are used for nothing else. So thresholds, order and levels
    are fixed before a term of the other clusters is seen, every p-value is valid, and the fallback procedure keeps
    delta however the tests depend on each other.
    """
    pilot = _draw_pilot(clusters)
    # how many clusters of the largest mass would weigh as much as those that are tested on
    equal_clusters = int(len(pilot.test_cluster_numbers) * pilot.mean_mass / clusters.heaviest_cluster_mass)
    planned = testing.plan(equal_clusters, planning_risk, delta, max_starts=CLUSTER_STARTS)
    if not len(planned.ranks):  # so few clusters prove nothing: no test, no threshold, an empty table
        no_counts = np.zeros(0, dtype=np.int64)
        no_thresholds = np.zeros(0)
        nothing_passed = np.zeros(0, dtype=bool)
        return [
            _choose_largest_passed(requirement.all_samples, no_counts, no_thresholds, nothing_passed)
            for requirement in requirements
        ]
    value, parts_of_delta = _propose_thresholds(pilot.falling_confidence, planned)
    p_values = [
        _p_values_by_clusters(requirement, value, pilot.test_cluster_numbers) for requirement in requirements
    ]
    # a threshold must pass for every requirement: the largest of its p-values counts
    level, passed = testing.walk(np.max(p_values, axis=0), parts_of_delta)
    # how many samples, of all clusters, each threshold accepts
    count = len(clusters.loss) - np.searchsorted(np.sort(clusters.confidence), value)
    # of the thresholds that passed, the one that accepts the most samples; with a table of all for each requirement
    return [
        _choose_largest_passed(requirement.all_samples, count, value, passed, p_value, level)
        for requirement, p_value in zip(requirements, p_values)
    ]


class ProposedThresholds(NamedTuple):
    """Thresholds in the order of testing, and the part of delta that each starts with."""

    value: np.ndarray  # distinct, falling; minus infinity accepts everything
    parts_of_delta: np.ndarray  # they add up to delta


def _propose_thresholds(pilot_confidence: np.ndarray, planned: testing.PlannedTests) -> ProposedThresholds:
    """Turn the planned ranks into at most about a hundred thresholds, by the confidences of the pilot clusters.

    `pilot_confidence` falls. A rank at a share of the largest planned rank becomes the confidence that the same share
    of the pilot samples reaches. The plan must have a rank; its `parts_of_delta`, with which sequences of tests
    start, are 0 at most ranks.
    """
    ranks, parts_of_delta = planned
    evenly_spaced = np.linspace(0, len(ranks) - 1, MAX_CLUSTER_TESTS).astype(np.int64)
    start_positions = np.flatnonzero(parts_of_delta)  # always kept: together they have all of delta
    tested = np.union1d(evenly_spaced, start_positions)  # positions in `ranks`
    share_of_ranks = ranks[tested] / ranks[-1]  # rises to 1
    pilot_position = np.ceil(share_of_ranks * len(pilot_confidence)).astype(np.int64) - 1
    proposed = pilot_confidence[pilot_position]
    # one that accepts the whole pilot is to accept everything: other clusters may have samples below it
    falling_value = np.where(proposed <= pilot_confidence[-1], -np.inf, proposed)
    # `unique` sorts in rising order, so the falling thresholds are negated
    negated_value, first_position = np.unique(-falling_value, return_index=True)
    # equal thresholds pool their parts of delta
    pooled_parts = np.add.reduceat(parts_of_delta[tested], first_position)
    return ProposedThresholds(value=-negated_value, parts_of_delta=pooled_parts)


def _p_values_by_clusters(
    requirement: Requirement, value: np.ndarray, tested_clusters: np.ndarray
) -> np.ndarray:
    """P-value of "the requirement is broken" at each threshold in `value`, from the clusters with these numbers.

    The samples must have clusters. A sample that the promise is not about has exactly the target, `requirement.risk`,
    as its loss in `requirement.all_samples`, so that it adds nothing to the sum of its cluster. `heaviest_cluster_mass`
    is the total weight of the heaviest cluster.
    """
    clusters = requirement.all_samples.clusters
    assert clusters is not None  # for type checkers
    p_values = []
    for threshold in value:
        is_accepted = clusters.confidence >= threshold
        excess = np.where(is_accepted, clusters.loss - requirement.risk, 0.0)  # one entry per sample
        excess_of_cluster = clusters.weighted_sum_by_cluster(excess, tested_clusters)
        # from -risk to 1 - risk, as the test needs
        terms = excess_of_cluster / clusters.heaviest_cluster_mass
        # the promise is broken where their mean is above 0
        p_values.append(testing.p_value_mean_above_zero(terms, requirement.risk))
    return np.asarray(p_values)


def sgr(calibration: Calibration, risk: float, delta: float) -> Selection:
    """Choose a threshold by Geifman & El-Yaniv's binary search over ranks; each of its k tests has level delta / k.

    `risk` is scaled to [0, 1] and less than 1. Assumes that the risk never falls as more samples are accepted.

    Three things differ from the published algorithm: errors are counted, not rounded from a mean; only a threshold
    whose own bound holds is returned; and what is bounded is what is deployed (whole blocks of equal confidences).
    `calibration` holds the samples, most confident first (`ranked`), with losses scaled to [0, 1].
    """
    test_count = max(1, math.ceil(math.log2(calibration.n)))
    test_level = delta / test_count
    low = 0  # the largest rank that has passed (0: none yet)
    high = calibration.n  # the largest rank that may still pass
    tests: list[tuple[int, float, float, bool]] = []  # samples accepted, threshold, p-value, passed
    for _ in range(test_count):
        middle = (low + high + 1) // 2
        # whole blocks of equal confidences within the `middle` most confident samples, and the threshold
        counts, values = calibration.ranked.cut(np.asarray([middle]))
        # of "the mean loss of these samples is above `risk`"
        p_value = float(calibration.p_values(counts, risk)[0])
        passed = p_value <= test_level
        tests.append((int(counts[0]), float(values[0]), p_value, passed))
        if passed:
            low = middle
        else:
            high = max(low, middle - 1)
    tests.sort()  # by the number of accepted samples
    count, value, p_value_of_test, has_passed = (np.asarray(column) for column in zip(*tests))
    level = np.full(len(tests), test_level)
    # of the thresholds that passed, the one that accepts the most samples; with a table of all
    return _choose_largest_passed(calibration, count, value, has_passed, p_value_of_test, level)


def _choose_largest_allowed(
    calibration: Calibration, is_allowed: np.ndarray, block_stops: np.ndarray
) -> Selection:
    """Choose the allowed threshold that accepts the most samples, and make a table of at most 401 thresholds.

    There is one candidate for each distinct confidence, most confident first: `block_stops` holds how many samples have
    at least that confidence, `is_allowed` whether it may be chosen. The threshold is the smallest confidence accepted:
    no test has examined the gap below it. If none is allowed, the result has the table alone, and None for count and
    threshold. `calibration` holds the samples, most confident first (`ranked`), with losses scaled to [0, 1].
    """
    # the candidates that the table shows: at most TABLE_ROWS, evenly spaced (`union1d` drops repeated ones)
    rows = np.linspace(0, len(block_stops) - 1, TABLE_ROWS).astype(np.int64)
    # the one to choose, which must be in the table; may be none
    last_allowed = np.flatnonzero(is_allowed)[-1:]
    rows = np.union1d(rows, last_allowed)
    count = block_stops[rows]
    smallest_accepted = calibration.ranked.smallest_confidence(count)  # of each candidate: its threshold
    return _choose_largest_passed(calibration, count, value=smallest_accepted, passed=is_allowed[rows])


def empirical(calibration: Calibration, risk: float) -> Selection:
    """Choose the largest coverage whose risk on the calibration data is at most `risk`, which is scaled to [0, 1].

    It describes the calibration data and promises nothing. `calibration.ranked` holds the samples, most confident
    first: `accepted_loss[k]` and `accepted_mass[k]` are the summed loss and weight of the k most confident.
    """
    # one candidate for each distinct confidence, most confident first: how many samples are at least as confident
    block_stops = calibration.ranked.row_stops()
    allowed_loss = risk * calibration.ranked.accepted_mass[block_stops]
    # a loss equal to the allowed one must not be refused because the sums were rounded
    is_allowed = calibration.ranked.accepted_loss[block_stops] <= allowed_loss * (1 + SUM_ROUNDING)
    return _choose_largest_allowed(calibration, is_allowed, block_stops)


def conformal(calibration: Calibration, risk: float) -> Selection:
    r"""Choose by conformal risk control: the largest coverage t with :math:`(S_t + 1)/(n + 1) \le r`.

    :math:`S_t` is the total loss of the accepted samples (`accepted_loss[k]` of the k most confident), n the number of
    all samples, and r is `risk`, scaled to [0, 1]. The total loss only grows as more samples are accepted, so no
    multiple testing is needed. What is bounded is a mean over calibration sets as well as over later samples. With
    clusters, each contributes :math:`(S_{t,c} - r n_c) / \text{largest}`, which lies between -r and 1 - r. Samples must
    be unweighted. `calibration` holds the samples, most confident first (`ranked`), with losses scaled to [0, 1].
    """
    # one candidate for each distinct confidence, most confident first: how many samples are at least as confident
    block_stops = calibration.ranked.row_stops()
    accepted_loss = calibration.ranked.accepted_loss[block_stops]
    if calibration.clusters is not None:
        sample_count = calibration.ranked.accepted_mass[-1]  # all samples, each of mass 1
        # The sum of all contributions, and of 1 - r, the largest one that the cluster to come may have, must be at most
        # 0. Here it is multiplied by the size of the largest cluster.
        bound = accepted_loss + (1 - risk) * calibration.clusters.heaviest_cluster_mass
        is_allowed = bound <= risk * sample_count
    else:
        # the sample to come loses at most 1, which is added
        is_allowed = (accepted_loss + 1) / (calibration.n + 1) <= risk
    return _choose_largest_allowed(calibration, is_allowed, block_stops)


def at_coverage(calibration: Calibration, coverage: float, delta: float | None) -> Selection:
    """Choose the smallest coverage that is at least `coverage`.

    Without delta that is the coverage of the calibration data; with delta, the coverage of the population, with
    probability 1 - delta (by clusters where there are clusters).

    The coverage of `g >= g_(k)`, k-th largest of n, is at least Beta(k, n - k + 1) distributed, ties or not. If no
    threshold is certain to cover enough, everything is accepted. `calibration` holds the samples, most confident first
    (`ranked`), with losses scaled to [0, 1].
    """
    # one candidate for each distinct confidence, most confident first: how many samples are at least as confident
    block_stops = calibration.ranked.row_stops()
    if delta is None:
        # `reaches`: at least as large, but for rounding
        is_enough = reaches(calibration.coverage(block_stops), coverage)
    elif calibration.clusters is not None:
        # at least so many samples must be accepted; infinity, which none reaches, if no coverage is proved
        is_enough = block_stops >= _least_count_by_clusters(calibration.clusters, coverage, delta)
    else:
        # p-values of "the coverage of the population is below `coverage`", one per candidate
        is_enough = testing.coverage_p_value(block_stops, calibration.n, coverage) <= delta
    if not is_enough.any():
        accept_all = _choose_largest_allowed(calibration, block_stops == calibration.n, block_stops)
        # minus infinity, so that later samples below all of these are accepted too
        return accept_all._replace(threshold=-math.inf)
    # `argmax` finds the first candidate that accepts enough: only this one is allowed
    is_first_enough = np.arange(len(block_stops)) == np.argmax(is_enough)
    return _choose_largest_allowed(calibration, is_first_enough, block_stops)


def _least_count_by_clusters(clusters: ClusteredSamples, coverage: float, delta: float) -> float:
    """Count the samples that the largest threshold accepts whose coverage is proved; infinity if there is none.

    A few clusters, drawn at random, propose thresholds. Each is tested on the other clusters at level delta, by a bet
    against "the rejected share is above 1 - coverage". Thresholds rise until one fails, so no correction is needed.
    With a single cluster there is no other to test on, and the result is infinity. `heaviest_cluster_mass` is the total
    weight of the heaviest cluster.
    """
    pilot = _draw_pilot(clusters)
    if not len(pilot.test_cluster_numbers):  # numbers of the clusters to test on
        return math.inf
    rejected_share = 1 - coverage  # the largest share that may be rejected
    positions = np.unique(
        np.linspace(0, len(pilot.falling_confidence) - 1, MAX_CLUSTER_TESTS).astype(np.int64)
    )
    rising_thresholds = pilot.falling_confidence[positions][::-1]  # confidences of the pilot's samples
    least_count = math.inf
    for threshold in rising_thresholds:
        excess = (clusters.confidence < threshold) - rejected_share  # one entry per sample
        excess_of_cluster = clusters.weighted_sum_by_cluster(excess, pilot.test_cluster_numbers)
        # from -rejected_share to 1 - rejected_share, as the test needs
        terms = excess_of_cluster / clusters.heaviest_cluster_mass
        # a small p-value: the mean of `excess` is below 0, so that less than `rejected_share` is rejected
        if testing.p_value_mean_above_zero(terms, risk=rejected_share) > delta:
            break
        least_count = float(np.count_nonzero(clusters.confidence >= threshold))
    return least_count


def cheapest(calibration: Calibration, rejection_cost: float) -> Selection:
    """Choose the threshold with the least loss of accepted samples plus `rejection_cost` for each rejected one.

    The cost is scaled as the losses are. Among equals the largest coverage is chosen. If rejecting everything is
    cheapest, there is no threshold. `calibration` holds the samples, most confident first (`ranked`), with losses
    scaled to [0, 1]; `accepted_loss[k]` and `accepted_mass[k]` are the summed loss and weight of the k most confident.
    """
    # one candidate for each distinct confidence, most confident first: how many samples are at least as confident
    block_stops = calibration.ranked.row_stops()
    count = np.append(0, block_stops)  # 0: everything is rejected
    accepted_loss = calibration.ranked.accepted_loss[count]
    accepted_mass = calibration.ranked.accepted_mass[count]
    total_cost = accepted_loss + rejection_cost * (accepted_mass[-1] - accepted_mass)
    # A block is a run of equal confidences. Entry 0 of the costs is "reject everything", entry j + 1 that of accepting
    # up to block j. So the best block is -1, which is no block, where rejecting everything is cheapest. Of equal costs
    # (but for rounding) the last is taken.
    best_block = position_of_least_cost(total_cost) - 1
    return _choose_largest_allowed(calibration, np.arange(len(block_stops)) == best_block, block_stops)
