r"""Search all policies of a grid, decide in which order to test them, and test them.

A policy is one threshold per stage. Stage j answers the samples that every earlier stage passed on and whose
confidence reaches its threshold. Whatever adds up over samples (losses, costs, log wealth) is therefore known for every
policy of a grid from K histograms of 1, 2, ..., K dimensions and their running sums.

**Why the promise holds.** The samples are split at random. Cuts, estimates and the order of testing come from the first
part alone. Given that part, the hypotheses "the risk of this policy is above r" are a fixed sequence. Each is tested on
the second part at the same level, until one is not rejected. The first true hypothesis is rejected with at most that
probability, and the policy that is returned stands before it or has a false hypothesis. Single stages are tested on
all samples by their own sequences (`thresholds.testing`), each with a share of delta. The shares add up to delta.

**Several promises.** The hypothesis of a policy is then "it breaks at least one promise", and its p-value is the
largest of its promises' p-values. If the hypothesis is true, some promise is broken, the p-value of that promise is at
most a with probability at most a, and the largest is no smaller. So the largest is a valid p-value, whatever the
promises have in common, and the argument above holds as it stands: all promises of the returned policy are kept at once
with probability 1 - delta, and their number costs nothing (an intersection-union test). A promise that must hold in
every group is one promise per group in the same way. Only the order of testing needs a rule of its own: a policy is as
safe as its least safe promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from abstain.metrics._sample import rows_of_groups
from abstain.thresholds import choosing, testing
from abstain.thresholds.calibration import Calibration

MAX_POLICIES = 10**6  # in one grid
DEFAULT_CUTS = 80  # thresholds tried at each stage, if the grid allows as many
SAMPLES_PER_CUT = 10  # at least so many samples lie between two thresholds
ORDERING_SHARE = 0.2  # of the samples decide the order of testing; the others are tested on

# Testing starts at policies that seem safe by so many standard errors, or by this share of the risk if that is more.
START_MARGINS = (8.0, 0.1)
# How delta is divided: among all stages but the last, for the last stage, and for cascades of several stages.
DELTA_SHARES = (0.1, 0.55, 0.35)

RIDGE_PENALTY = 0.1  # on squared coefficients of the smoothed losses; a few samples outweigh it
NEWTON_STEPS = 25  # at most; a logistic regression converges in about six
NEWTON_TOLERANCE = 1e-6  # a step this small ends the iteration: policies are only ranked by it
ENOUGH_FITTED_SAMPLES = (
    20_000  # the smoothed losses are fitted to every k-th sample that leaves at least so many
)


@dataclass(frozen=True, eq=False, kw_only=True)
class CascadeData:
    """The samples that a cascade is calibrated on, with the losses that one promise speaks of.

    Attributes
    ----------
    names : tuple of str
        The stages, in the order in which they are asked.
    losses : list of ndarray
        One array per stage and then the person's, each with one loss per sample, scaled to [0, 1].
    confidences : list of ndarray
        One array per stage; minus infinity where the stage gave no answer.
    costs : list of ndarray
        One array per stage and then the person's.
    calibrations : list of Calibration
        Each stage by itself, sorted by confidence: the samples that it has an answer for.
    counted_calibrations : list of Calibration or None
        The same of the answers that the promise is about; None for a stage without such an answer.
    promise_includes_person : bool
        Does the promise count the person's answers too?
    is_zero_one : bool
        Are all losses that the promise counts 0 or 1?
    clusters : ndarray or None
        Cluster of each sample, numbered from 0.
    largest_cluster : int
        Samples in the largest cluster.
    groups : ndarray or None
        Group of each sample, numbered from 0.
    group_count : int
        How many groups there are.
    is_counted : list of ndarray of bool, or None
        One array per stage and then the person's: is the promise about this answer to the sample? None: it is about
        all answers.
    """

    names: tuple[str, ...]
    losses: list[np.ndarray]
    confidences: list[np.ndarray]
    costs: list[np.ndarray]
    calibrations: list[Calibration]
    counted_calibrations: Sequence[Calibration | None]
    promise_includes_person: bool
    is_zero_one: bool
    clusters: np.ndarray | None = None
    largest_cluster: int = 1
    groups: np.ndarray | None = None
    group_count: int = 1
    is_counted: list[np.ndarray] | None = None

    def to_user_scale(self, scaled_loss: Any) -> Any:
        """Convert losses from [0, 1] back to the user's scale."""
        return self.calibrations[0].to_user_scale(scaled_loss)

    @property
    def stage_count(self) -> int:
        """Number of stages, the person not counted."""
        return len(self.names)

    @property
    def sample_count(self) -> int:
        """Number of samples."""
        return len(self.losses[0])

    @property
    def person_losses(self) -> np.ndarray:
        """The loss of the person's answer to each sample, scaled to [0, 1]."""
        return self.losses[-1]

    @property
    def person_costs(self) -> np.ndarray:
        """What the person's answer to each sample costs."""
        return self.costs[-1]

    def select(self, samples: np.ndarray) -> CascadeData:
        """The same data, restricted to the samples with these indices."""
        return replace(
            self,
            losses=[loss[samples] for loss in self.losses],
            confidences=[confidence[samples] for confidence in self.confidences],
            costs=[cost[samples] for cost in self.costs],
            clusters=None if self.clusters is None else self.clusters[samples],
            groups=None if self.groups is None else self.groups[samples],
            is_counted=None if self.is_counted is None else [mask[samples] for mask in self.is_counted],
        )

    def split(self, first_share: float, seed: int) -> tuple[CascadeData, CascadeData]:
        """Split the samples into two random parts. No cluster is divided.

        Each cluster (or sample, without clusters) goes to the first part with probability `first_share`, so a part may
        be empty. There must be a sample.
        """
        cluster_of_sample = np.arange(self.sample_count) if self.clusters is None else self.clusters
        cluster_count = int(cluster_of_sample.max()) + 1
        cluster_is_first = np.random.default_rng(seed).random(cluster_count) < first_share
        is_first = cluster_is_first[cluster_of_sample]
        return self.select(np.flatnonzero(is_first)), self.select(np.flatnonzero(~is_first))

    def split_by_group(self) -> list[CascadeData]:
        """The samples of each group; one element with all samples if there are no groups."""
        if self.groups is None:
            return [self]
        return [self.select(rows) for rows in rows_of_groups(self.groups, self.group_count)]

    def loss_of_answers(self, answering: np.ndarray) -> np.ndarray:
        """The loss of each sample's answer; `answering` is the index of the stage that gives it."""
        return np.choose(answering, self.losses)

    def is_answer_counted(self, answering: np.ndarray) -> np.ndarray:
        """Does the promise count the answer to each sample? `answering` is the index of the stage that answers it.

        That is the number of stages for the person, whose answers count only if the promise includes the person. A
        promise may be about some answers only.
        """
        is_by_stage = answering < self.stage_count
        is_in_promise = is_by_stage | self.promise_includes_person
        if self.is_counted is None:  # the promise is about all answers
            return is_in_promise
        return is_in_promise & np.choose(answering, self.is_counted)

    def cost_of_answers(self, answering: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
        """Return the cost of each sample: every stage that it reaches, and the person if no stage answers.

        `answering` is the index of the stage that answers each sample, the number of stages for the person. A stage
        with a threshold of infinity is never asked and costs nothing.
        """
        cost = np.where(answering == self.stage_count, self.person_costs, 0.0)
        for stage, threshold in enumerate(thresholds):
            if threshold < math.inf:
                cost += np.where(answering >= stage, self.costs[stage], 0.0)
        return cost


class CascadePromise(NamedTuple):
    """One of the promises that a cascade must keep: the mean loss of the answers that it counts is at most `risk`."""

    data: CascadeData  # all samples, with the losses of this promise; all promises share confidences, costs and groups
    risk: float  # scaled to [0, 1]


def find_answering_stage(confidences: Sequence[np.ndarray], thresholds: Sequence[float]) -> np.ndarray:
    """Index of the stage that answers each sample; the number of stages where none does.

    A confidence of minus infinity means that the stage has no answer, whatever its threshold is.
    """
    would_answer = []
    for confidence, threshold in zip(confidences, thresholds):
        would_answer.append((confidence >= threshold) & (confidence > -math.inf))
    return first_stage_that_answers(would_answer)


def first_stage_that_answers(would_answer: Sequence[np.ndarray]) -> np.ndarray:
    """Index of the first stage whose mask is true for each sample; the number of stages where none is."""
    answering = np.full(len(would_answer[0]), len(would_answer))
    for stage in reversed(range(len(would_answer))):
        answering[would_answer[stage]] = stage
    return answering


def draw_split_seed(rng: int | np.random.Generator) -> int:
    """A seed for the split that is independent of the numbers that the user may have drawn with the same seed."""
    return int(np.random.default_rng(rng).integers(2**32))


# Every policy of a grid ---------------------------------------------------------------------------


class PolicyGrid:
    """Sums over samples for every combination of one threshold per stage.

    A policy is one index per stage. Index i of a stage with c cuts means: answer at or above cut i. The first cut is
    minus infinity (answer whenever there is an answer); i = c means that the stage is never asked. The bins of a stage
    follow from its cuts: bin 0 holds the samples without an answer, bin b those that the indices 0 ... b-1 answer.

    Attributes
    ----------
    data : CascadeData
    cuts : list of ndarray
        Thresholds to try at each stage, rising, minus infinity first.
    shape : tuple of int
        Number of indices at each stage. All results of this class have this shape, or broadcast to it.
    bins : list of ndarray
        For each stage, the bin of each sample.
    """

    def __init__(self, data: CascadeData, cuts: Sequence[np.ndarray]) -> None:
        """Assign each sample of `data` to a bin of each stage.

        `cuts` holds the thresholds to try, rising, by stage. The first of each stage is minus infinity, which every
        answer reaches, so that a stage with c cuts has c + 1 bins: bin 0 for samples without an answer, bin b for
        answers that reach b of the cuts. `shape` holds c + 1 for each stage, which is also its number of choices
        in a policy: one of its c cuts, or never to be asked. A confidence equal to a cut reaches it.
        """
        self.data = data
        self.cuts = cuts
        self.shape = tuple(len(stage_cuts) + 1 for stage_cuts in cuts)
        self.bins = []  # by stage: the bin of each sample
        for stage_cuts, confidence in zip(cuts, data.confidences):
            has_answer = confidence > -math.inf  # minus infinity: the stage gave no answer
            finite_cuts_reached = np.searchsorted(stage_cuts[1:], confidence, side="right")  # how many
            # an answer also reaches the cut at minus infinity
            self.bins.append(finite_cuts_reached + has_answer)
        # _cells[j]: flat index of each sample's cell in the histogram over the bins of the stages 0 ... j
        self._cells = [self.bins[0]]
        for bin_count, stage_bins in zip(self.shape[1:], self.bins[1:]):
            self._cells.append(self._cells[-1] * bin_count + stage_bins)
        # _counts[j]: how many samples fall into each cell of the same histogram, which needs `_cells` and `shape`
        self._counts = [self.histogram(stage) for stage in range(len(cuts))]

    def histogram(self, stage: int, values: np.ndarray | None = None) -> np.ndarray:
        """Sum `values`, one per sample (or count samples), by the bins of the stages 0 ... `stage`.

        The result has one axis for each of these stages: entry [a, b, ...] is over the samples in bin a of the first
        stage, bin b of the second, and so on.
        """
        shape = self.shape[: stage + 1]
        return np.bincount(self._cells[stage], values, minlength=math.prod(shape)).reshape(shape)

    def sum_over_passed_on(self, histogram: np.ndarray) -> np.ndarray:
        """For every policy, the sum over samples that none of the histogram's stages answers.

        A stage with threshold index i passes on the samples in its bins 0 ... i, hence running sums along every axis.
        The result broadcasts to the grid of policies.
        """
        for axis in range(histogram.ndim):
            histogram = np.cumsum(histogram, axis=axis)
        return self._with_all_axes(histogram)

    def sum_over_answered(self, histogram: np.ndarray) -> np.ndarray:
        """For every policy, the sum over samples that the last of the histogram's stages answers.

        These are the samples that all stages before it pass on, less those that it passes on too. At its last index, a
        stage is never asked and passes on everything that reaches it.
        """
        passed_on = self.sum_over_passed_on(histogram)
        reached_last_stage = passed_on.take([-1], axis=histogram.ndim - 1)
        return reached_last_stage - passed_on

    def sum_over_counted_answers(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """For every policy, sum the values of the answers that the promise counts.

        `values` holds one array per stage and then the person's, each with one value per sample: the value of that
        stage's answer, whether it is given or not. The person's answers count only if the promise includes the person,
        and an answer that the promise is not about does not count. A policy is one threshold per stage, and entry
        [i, j, ...] of the result is that of threshold number i of the first stage, number j of the second, and so on.

        `histogram(stage, values)` sums the values of all samples by their bins at the stages 0 ... `stage`, one axis
        for each. From that, `sum_over_answered` makes a table of the sums over the samples that this stage answers, and
        `sum_over_passed_on` over those that no stage up to it answers: one entry per policy, one axis per stage.
        """
        total = np.zeros(self.shape)  # one entry per policy
        last_stage = len(self.shape) - 1
        if self.data.is_counted is not None:  # masks in the order of `values`; None: about all answers
            values = [value * mask for value, mask in zip(values, self.data.is_counted)]
        for stage in range(len(self.shape)):  # samples that this stage answers
            total += self.sum_over_answered(self.histogram(stage, values[stage]))
        if self.data.promise_includes_person:
            # what no stage answers goes to the person
            total += self.sum_over_passed_on(self.histogram(last_stage, values[-1]))
        return total

    def count_counted_answers(self) -> np.ndarray:
        """For every policy, how many answers the promise counts: those that `sum_over_counted_answers` sums over."""
        if self.data.is_counted is not None:  # the promise is about some answers only
            answerer_count = len(self.shape) + 1  # the stages and the person
            return self.sum_over_counted_answers([np.ones(self.data.sample_count)] * answerer_count)
        all_samples = np.full(self.shape, float(self.data.sample_count))
        if self.data.promise_includes_person:
            return all_samples
        return all_samples - self.sum_over_passed_on(self._counts[-1])  # those go to the person

    def total_costs(self) -> np.ndarray:
        """For every policy, sum the cost of all samples: of each stage that a sample reaches, and of the person.

        The result has one axis per stage: entry [i, j, ...] is the cost if the first stage has its threshold number i,
        the second its number j, and so on. With the last number a stage is never asked. What a sample pays at a stage
        depends only on the thresholds of that stage and of those before it. So the table of a stage has length 1 along
        the axes of later stages (`_with_all_axes` adds these), and broadcasts.

        `histogram(stage, cost)` sums the cost of all samples by their bins at the stages 0 ... `stage`, one axis for
        each; `sum_over_passed_on` makes of it the sums over the samples that none of these stages answers, one entry
        for each choice of their thresholds.
        """
        *stage_costs, person_cost = self.data.costs  # each holds one cost per sample
        total = np.zeros(self.shape)
        last_stage = len(self.shape) - 1
        for stage, (size, cost) in enumerate(zip(self.shape, stage_costs, strict=True)):
            # by the number of this stage's threshold: with the last one it is never asked, and costs nothing
            is_asked = np.arange(size) < size - 1
            if stage == 0:  # every sample reaches it
                cost_of_reached: Any = float(cost.sum())
            else:  # over the samples that all stages before it pass on
                cost_of_reached = self.sum_over_passed_on(self.histogram(stage - 1, cost))
            is_asked_along_axis = is_asked.reshape((1,) * stage + (size,))
            total += self._with_all_axes(is_asked_along_axis) * cost_of_reached
        # the person is paid for the samples that no stage answers
        cost_of_person = self.sum_over_passed_on(self.histogram(last_stage, person_cost))
        return total + cost_of_person

    def sum_of_expected_losses(self) -> np.ndarray:
        """For every policy, sum the expected losses of the answers, over all samples that the promise counts.

        A policy is one threshold per stage; entry [i, j, ...] of the result is that of threshold number i of the first
        stage, number j of the second, and so on. The expected loss of a stage's answer is smoothed over the
        confidences; the person's losses are as stated. Losses are scaled to [0, 1].

        A bin of a stage is a range of its confidences between neighbouring thresholds. A histogram, like
        `_expected_loss_by_bin(stage)`, has one axis for each of the stages 0 ... `stage`: entry [a, b, ...] is of the
        samples in bin a of the first, bin b of the second, ... `sum_over_answered` turns one into the sums over the
        samples that `stage` answers, `sum_over_passed_on` into those that no stage up to it answers: one entry per
        policy.
        """
        total = np.zeros(self.shape)  # one entry per policy
        last_stage = len(self.shape) - 1
        # masks by stage, then the person's; None: the promise is about all answers
        is_counted = self.data.is_counted
        for stage in range(len(self.shape)):
            sample_counts = self._counts[stage]  # a histogram of all samples
            if is_counted is not None:  # only the answers of this stage that the promise is about
                sample_counts = self.histogram(stage, is_counted[stage].astype(np.float64))
            total += self.sum_over_answered(sample_counts * self._expected_loss_by_bin(stage))
        if self.data.promise_includes_person:
            person_loss = self.data.person_losses
            if is_counted is not None:
                person_loss = person_loss * is_counted[-1]
            total += self.sum_over_passed_on(self.histogram(last_stage, person_loss))
        return total

    def _expected_loss_by_bin(self, stage: int) -> np.ndarray:
        """Estimate the mean loss of a stage's answers in every combination of bins of this stage and those before it.

        By a logistic regression of the loss, scaled to [0, 1], on the confidence ranks of these stages. Its features
        are 1, each rank, and all products of two ranks (`_quadratic_features`), at the samples or at the bins. A rank
        is from -1/2 (the least confident) to 1/2; that of a bin is the mean rank of its samples, and a sample has the
        rank of its bin. The regression is fitted to samples that have an answer of this stage which the promise is
        about. The result has one axis for each of the stages 0 ... `stage`, over its bins; 1/2 everywhere if there is
        no such sample.
        """
        # `bins` holds the bin of each sample at each stage; bin 0 is for samples without an answer
        has_counted_answer = self.bins[stage] > 0
        if self.data.is_counted is not None:
            has_counted_answer &= self.data.is_counted[stage]
        samples = np.flatnonzero(has_counted_answer)
        # every k-th of many samples: at least ENOUGH_FITTED_SAMPLES, and fewer than twice as many
        fitted_samples = samples[:: max(1, len(samples) // ENOUGH_FITTED_SAMPLES)]
        sample_ranks = []  # for each stage so far, the rank of each fitted sample
        bin_ranks = []  # for each stage so far, the rank of each bin, along the axis of that stage
        for axis in range(stage + 1):
            # one entry per bin; bin 0, without an answer, has the lowest rank there is, -1/2
            rank_of_bin = _mean_rank_by_bin(self.bins[axis], self.shape[axis])
            sample_ranks.append(rank_of_bin[self.bins[axis][fitted_samples]])
            # length 1 along the axes of the other stages
            axis_shape = (1,) * axis + (-1,) + (1,) * (stage - axis)
            bin_ranks.append(rank_of_bin.reshape(axis_shape))
        loss = self.data.losses[stage][fitted_samples]
        coefficients = fit_logistic(_quadratic_features(sample_ranks), loss)
        # features of bins have length 1 along some axes: the sum broadcasts to all combinations of bins
        log_odds = sum(
            coefficient * feature
            for coefficient, feature in zip(coefficients, _quadratic_features(bin_ranks), strict=True)
        )
        return _expit(np.asarray(log_odds))  # the expected loss with these log odds

    def thresholds_of(self, policy: int) -> tuple[float, ...]:
        """The threshold of each stage in the policy with this flat index; infinity for a stage never asked."""
        indices = np.unravel_index(policy, self.shape)
        return tuple(float(np.append(cuts, math.inf)[i]) for cuts, i in zip(self.cuts, indices))

    def single_stage_policies(self, stage: int) -> np.ndarray:
        """Flat indices of the policies that ask this stage only, by its rising cuts."""
        indices = [np.arange(size) if i == stage else size - 1 for i, size in enumerate(self.shape)]
        return np.asarray(np.ravel_multi_index(indices, self.shape))

    def _with_all_axes(self, table: np.ndarray) -> np.ndarray:
        """Add an axis of length 1 for each later stage, so that the table broadcasts to the grid."""
        return table.reshape(table.shape + (1,) * (len(self.shape) - table.ndim))


def choose_cuts(data: CascadeData, max_cuts: int) -> list[np.ndarray]:
    """Choose the thresholds to try at each stage: minus infinity, then evenly spaced quantiles of its confidences.

    `data` holds one confidence per sample and stage. One array per stage, which rises strictly. There are at most
    `max_cuts`, and no more than one for every ten samples. At minus infinity a stage answers whenever it has an answer;
    a stage without any has this one only. Each threshold but the first is the confidence of some sample, and a
    confidence equal to it is accepted.
    """
    cut_count = max(1, min(max_cuts, data.sample_count // SAMPLES_PER_CUT))  # minus infinity is one of them
    cuts = []
    for confidence in data.confidences:  # of one stage, by sample; minus infinity where it gave no answer
        ascending = np.sort(confidence[confidence > -math.inf])
        positions = (
            np.arange(1, cut_count) * len(ascending)
        ) // cut_count  # of the quantiles, in `ascending`
        quantiles = np.unique(ascending[positions]) if len(ascending) else np.zeros(0)
        cuts.append(np.append(-math.inf, quantiles))
    return cuts


def limit_cuts(stage_count: int, max_cuts: int) -> int:
    """`max_cuts`, or fewer if the grid would have more than MAX_POLICIES policies."""
    return min(max_cuts, int(MAX_POLICIES ** (1 / stage_count) * (1 + 1e-12)) - 1)


def _mean_rank_by_bin(bins: np.ndarray, size: int) -> np.ndarray:
    """The mean rank in each of `size` bins, from -1/2 (no answer, or the least confident) to 1/2.

    `bins` holds the bin of each sample at one stage; bin 0 is for samples without an answer.
    """
    count = np.bincount(bins, minlength=size).astype(np.float64)
    count[0] = 0.0  # samples without an answer take up no ranks; their bin is at the lower end
    return (np.cumsum(count) - count / 2) / max(1.0, count.sum()) - 0.5


def _quadratic_features(ranks: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Regressors: 1, each rank, and all products of two ranks, squares included."""
    products = [ranks[i] * ranks[j] for i in range(len(ranks)) for j in range(i + 1)]
    return [np.ones_like(ranks[0]), *ranks, *products]


def _expit(log_odds: np.ndarray) -> np.ndarray:
    """The probability with these log odds."""
    return 0.5 + 0.5 * np.tanh(log_odds / 2)


def fit_logistic(features: Sequence[np.ndarray], loss: np.ndarray) -> np.ndarray:
    """Fit a logistic regression of losses in [0, 1] on the features, with a small ridge penalty, by Newton's method.

    `features` holds one array per feature, each with one value per sample; no intercept is added. Returns one
    coefficient per feature; all are 0 without samples. The first step that changes no coefficient by much is the last;
    a search that did not converge is no error, as the losses that it smooths only rank policies. At most `NEWTON_STEPS`
    steps are taken, and the penalty makes the equations solvable.
    """
    design = np.stack(features, axis=1)
    penalty = np.full(design.shape[1], RIDGE_PENALTY)  # 0.1: a few samples outweigh it
    coefficients = np.zeros(design.shape[1])
    for _ in range(NEWTON_STEPS):
        expected = _expit(design @ coefficients)  # the loss, from 0 to 1, with these log odds
        hessian = (design * (expected * (1 - expected))[:, None]).T @ design + np.diag(penalty)
        gradient = design.T @ (loss - expected) - penalty * coefficients
        newton_step = np.linalg.solve(hessian, gradient)
        coefficients += newton_step
        if np.abs(newton_step).max() < NEWTON_TOLERANCE:
            break
    return coefficients


# Which policies to test, in which order -------------------------------------------------------------


def expected_z_scores(
    data: CascadeData, cuts: Sequence[np.ndarray], risk: float, test_size: float
) -> np.ndarray:
    """Return, for every policy, by how many standard errors its risk is expected to lie below `risk`.

    `cuts` holds the thresholds to try at each stage; a policy is one of them for each stage. The result has one axis
    per stage; with groups it is the least over groups. `risk` is scaled to [0, 1]. Risks are estimated from `data` by
    losses that are smoothed over the confidences. Standard errors are those of a test on `test_size` independent
    samples of all groups together. Policies that answer nothing that the promise counts have a score of minus infinity.
    `risk` lies strictly between 0 and 1. Scores order policies for later tests; they prove nothing.
    """
    least_score = np.asarray(math.inf)
    for group in data.split_by_group():  # the samples of each group; all samples without groups
        if not group.sample_count:  # `data` may be a part of the samples that has none of this group
            continue
        grid = PolicyGrid(group, cuts)
        count = grid.count_counted_answers()  # of every policy, in this group
        # by how much the sum of the losses is expected to lie below that of answers with a mean loss of `risk`
        loss_below_limit = risk * count - grid.sum_of_expected_losses()
        # A loss in [0, 1] with mean `risk` has a variance of at most risk (1 - risk). A test sees f times as many
        # answers, f = test_size / sample_count: its sum is f times as large, with f times the variance. So the score
        # of a sum in the test is that of the sum here with a variance that is divided by f.
        variance = risk * (1 - risk) * np.where(count > 0, count, 1.0) * data.sample_count / test_size
        score = np.where(count > 0, loss_below_limit / np.sqrt(variance), -math.inf)
        least_score = np.minimum(least_score, score)
    return least_score


def least_z_scores(
    promises: Sequence[CascadePromise], cuts: Sequence[np.ndarray], test_size: float
) -> np.ndarray:
    """Return, for every policy, by how many standard errors it is expected to keep its least safe promise.

    The result has the shape of the policy grid of `cuts`; `test_size` is the number of independent samples of a test.
    """
    scores = [expected_z_scores(data, cuts, risk, test_size) for data, risk in promises]
    return np.min(scores, axis=0)


def find_frontier(cost: np.ndarray, z_score: np.ndarray, candidates: np.ndarray | None = None) -> np.ndarray:
    """Find the policies for which no cheaper one is as safe: flat indices, from the safest to the cheapest.

    A flat index counts the policies of the grid from 0. Of policies with equal costs only the safest is taken. The
    result is empty if no candidate answers anything. A policy that is neither cheaper nor safer than another is left
    out.

    Parameters
    ----------
    cost, z_score : ndarray
        Cost of every policy of the grid, and by how many standard errors it is expected to keep the risk (its safety).
        Both have one axis per stage, or are flat.
    candidates : ndarray, optional
        Flat indices of the policies to choose from; by default all. Those with a score of minus infinity are left out.
    """
    candidates = np.arange(cost.size) if candidates is None else candidates
    candidates = candidates[z_score.reshape(-1)[candidates] > -math.inf]  # the others answer nothing
    candidate_cost = cost.reshape(-1)[candidates]
    safety = z_score.reshape(-1)[candidates]
    cheapest_first = np.lexsort((-safety, candidate_cost))  # of equal costs the safest first
    rising_cost_safety = safety[cheapest_first]
    safest_so_far = np.maximum.accumulate(rising_cost_safety)
    safest_of_cheaper = np.append(-math.inf, safest_so_far[:-1])  # nothing is cheaper than the first
    is_on_frontier = rising_cost_safety > safest_of_cheaper
    return candidates[cheapest_first[is_on_frontier]][::-1]


def policy_p_values(grid: PolicyGrid, path: np.ndarray, risk: float, level: float) -> np.ndarray:
    """Compute p-values of "the risk of this policy is above `risk`", for the policies with the flat indices `path`.

    `risk` is scaled to [0, 1]; the samples are those of `grid.data`. Losses of 0 and 1 are tested exactly, others by
    twice the smaller of two bounds. With clusters, p-values are computed up to the first above `level`, at which
    testing stops; those after it are 1.

    The answers that the promise counts are those of the stages, and the person's if the promise includes the person;
    of a promise about some answers only, no others. `grid` counts them for every policy and sums over the same ones.
    `data.losses` has one array per stage and then the person's, with the loss of that answer to each sample.

    One of the two bounds is by betting. A stake multiplies its wealth by 1 + stake * (risk - loss) at each counted
    answer. `testing.doubling_stakes` returns stakes of at most 0.95 / (1 - risk), so that the factor stays positive for
    losses up to 1. `testing.wealth_p` takes the mean wealth of the four stakes that suit the number of counted answers;
    which these are depends on that number and on `risk` alone, not on the losses.
    """
    data = grid.data
    if data.clusters is not None:
        return _cluster_p_values(grid, path, risk, level)
    count = grid.count_counted_answers().reshape(-1)[path]
    total_loss = grid.sum_over_counted_answers(data.losses).reshape(-1)[path]
    if data.is_zero_one:  # a sum of 0/1 losses is a whole number, but for rounding
        return testing.binomial(np.rint(total_loss), count, risk)
    stakes = testing.doubling_stakes(data.sample_count, risk)  # rising
    log_wealth = []  # of each stake, one entry per policy in `path`
    for stake in stakes:
        # of each stage's answers, and of the person's: what they add to the log wealth
        log_gains = [np.log1p(stake * (risk - loss)) for loss in data.losses]
        log_wealth.append(grid.sum_over_counted_answers(log_gains).reshape(-1)[path])
    by_concentration = testing.hoeffding_bentkus(total_loss, count, risk)
    by_betting = testing.wealth_p(np.stack(log_wealth, axis=-1), count, risk, stakes)
    # the factor 2 pays for taking the smaller of two p-values (Bonferroni)
    return np.minimum(1.0, 2 * np.minimum(by_concentration, by_betting))


def _cluster_p_values(grid: PolicyGrid, path: np.ndarray, risk: float, level: float) -> np.ndarray:
    """Compute p-values of "the risk of this policy is above `risk`" by a bet on each cluster as a whole.

    One for each policy in `path` (positions in the flattened grid, in the order of testing) up to the first p-value
    above `level`, at which testing stops; those after it are 1. `risk` and the losses are scaled to [0, 1]. The bet on
    a cluster grows with the number of its samples whose answer the promise counts; a cluster without any is left out.

    A stake multiplies its wealth by 1 + stake * (sum of risk - loss over the counted samples of a cluster).
    `testing.doubling_stakes` returns stakes for bets on at most so many clusters. They are at most 0.95 / ((1 - risk) *
    `largest_weight`), with the size of the largest cluster as that weight, so that the factor stays positive: no sum
    is below -(1 - risk) * `largest_weight`.
    `testing.wealth_p` takes the mean wealth of the four stakes that suit the number of clusters; which these are does
    not depend on the losses.
    """
    data = grid.data
    # numbered without gaps: `data` may hold some of the clusters only
    cluster_of_sample = np.unique(np.asarray(data.clusters), return_inverse=True)[1]
    p_values = np.ones(len(path))  # 1: not tested
    # The largest of all clusters, also of those that `data` does not hold: the promise is made for clusters up to this
    # size. A larger number than needed would be valid too, with smaller stakes.
    largest_size = float(data.largest_cluster)
    stakes = testing.doubling_stakes(int(cluster_of_sample.max()) + 1, risk, largest_weight=largest_size)
    for position, policy in enumerate(path):
        # index of the stage that answers each sample, the number of stages for the person
        answering = find_answering_stage(data.confidences, grid.thresholds_of(policy))
        is_counted = data.is_answer_counted(answering).astype(np.float64)
        answers_by_cluster = np.bincount(cluster_of_sample, is_counted)
        loss_by_cluster = np.bincount(cluster_of_sample, is_counted * data.loss_of_answers(answering))
        # of each cluster with a counted answer: the sum of risk - loss
        gain = (risk * answers_by_cluster - loss_by_cluster)[answers_by_cluster > 0]
        log_wealth = np.log1p(stakes * gain[:, None]).sum(axis=0)  # of each stake, after all clusters
        cluster_count = np.asarray([len(gain)])
        # for one count of clusters: arrays with one row, and one p-value
        [p_value] = testing.wealth_p(
            log_wealth[None], cluster_count, risk, stakes, largest_weight=largest_size
        )
        p_values[position] = p_value
        if p_value > level:
            break
    return p_values


# The search -------------------------------------------------------------------------------------------


def divide_delta(stage_count: int) -> list[float]:
    """Return shares of delta that add up to 1: one for each stage by itself, then one for cascades of several stages.

    The last stage by itself gets the most; a single stage gets everything.
    """
    if stage_count == 1:
        return [1.0, 0.0]
    early_share, last_share, cascade_share = DELTA_SHARES
    early_count = stage_count - 1
    return [*[early_share / early_count] * early_count, last_share, cascade_share]


def certify(
    promises: Sequence[CascadePromise], delta: float, max_cuts: int, seed: int
) -> list[tuple[float, ...]]:
    """Find policies for which every promise can be certified; the choice among them is up to the caller.

    Parameters
    ----------
    promises : sequence of CascadePromise
        About the same samples, which are split in the same way for each.
    delta : float
        Probability with which some promise may be broken by any of the returned policies.
    max_cuts : int
        Thresholds to try at each stage.
    seed : int
        Of the split into samples that order the tests and samples that are tested on.

    Returns
    -------
    list of tuple of float
        One threshold per stage, infinity for a stage that is never asked. At most one policy for each stage by itself
        and one cascade; empty if nothing can be certified.
    """
    data = promises[0].data  # for what all promises share
    *single_shares, cascade_share = divide_delta(data.stage_count)
    policies: list[tuple[float, ...]] = []
    can_test_on_all_samples = (
        not data.promise_includes_person and data.clusters is None and data.groups is None
    )
    if can_test_on_all_samples:
        for stage, share in enumerate(single_shares):
            threshold = _certify_single_stage(promises, stage, delta * share)
            if threshold is not None:
                policies.append(_single_stage_thresholds(data.stage_count, stage, threshold))
    ordering = []  # each promise on the samples that order the tests
    tested = []  # each promise on the samples that are tested on
    for promise in promises:
        ordering_part, testing_part = promise.data.split(ORDERING_SHARE, seed)
        ordering.append(promise._replace(data=ordering_part))
        tested.append(promise._replace(data=testing_part))
    if not (ordering[0].data.sample_count and tested[0].data.sample_count):
        return policies
    cuts = choose_cuts(ordering[0].data, max_cuts)
    test_size = _count_independent_units(tested[0].data)
    z_score = least_z_scores(ordering, cuts, test_size)
    ordering_grid = PolicyGrid(ordering[0].data, cuts)
    cost = ordering_grid.total_costs() / ordering[0].data.sample_count
    # each path holds policies in the order of testing, and has a share of delta
    paths = [(find_frontier(cost, z_score), cascade_share)]
    if not can_test_on_all_samples:
        for stage, share in enumerate(single_shares):
            candidates = ordering_grid.single_stage_policies(stage)
            paths.append((find_frontier(cost, z_score, candidates), share))
    start = max(_start_margin(promise.risk, test_size) for promise in promises)
    tests = []  # policies and promised risk: every promise must be kept in every group
    for promise_data, risk in tested:
        tests += [(PolicyGrid(group, cuts), risk) for group in promise_data.split_by_group()]
    for path, share in paths:
        expected = z_score.reshape(-1)[path]
        # leave out policies that are safer than the start, but keep at least one
        path = path[expected <= max(start, expected.min(initial=math.inf))]
        if not (share and len(path)):
            continue
        level = delta * share
        p_values = np.max([policy_p_values(grid, path, risk, level) for grid, risk in tests], axis=0)
        # all of it on the first policy: testing stops at the first failure
        level_at_start = np.zeros(len(path))
        level_at_start[0] = level
        passed = np.flatnonzero(testing.walk(p_values, level_at_start).passed)
        if len(passed):
            policies.append(ordering_grid.thresholds_of(path[passed[-1]]))
    return policies


def _certify_single_stage(promises: Sequence[CascadePromise], stage: int, level: float) -> float | None:
    """Find the threshold with the largest coverage at which this stage by itself keeps every promise.

    `promises` are about the same samples; each has its losses in `data` and its target `risk`, scaled to [0, 1]. All
    samples that the stage has an answer for are used, and all tests together err with probability at most `level`.
    None if there is no such threshold, or a promise is about none of the stage's answers. `stage` is an index from 0.
    The samples of a promise are ranked by the confidence of this stage.
    """
    requirements = []
    for data, risk in promises:
        # the samples whose answer by this stage the promise is about; None: there is none
        counted = data.counted_calibrations[stage]
        if counted is None:
            return None
        # all that this stage has an answer for: their confidences propose the thresholds, their losses are not used
        all_samples = data.calibrations[stage]
        requirements.append(choosing.Requirement(all_samples, counted_samples=counted, risk=risk))
    # one selection per promise, all with the same threshold (None: no threshold passed)
    any_selection, *_ = choosing.certify(requirements, level)
    return any_selection.threshold


def _start_margin(risk: float, test_size: int) -> float:
    """By how many standard errors a policy must seem safe to be tested first, for a promised risk on the scale [0, 1].

    With many samples, estimates are off by more than their standard errors: a share of the risk is kept as well.
    """
    standard_errors, share_of_risk = START_MARGINS
    return max(standard_errors, share_of_risk * math.sqrt(test_size * risk / (1 - risk)))


def _single_stage_thresholds(stage_count: int, stage: int, threshold: float) -> tuple[float, ...]:
    """The policy that asks one stage only."""
    thresholds = [math.inf] * stage_count
    thresholds[stage] = threshold
    return tuple(thresholds)


def _count_independent_units(data: CascadeData) -> int:
    """Number of clusters, or of samples where there are no clusters."""
    if data.clusters is None:
        return data.sample_count
    return len(np.unique(data.clusters))


class LeastCosts(NamedTuple):
    """Estimated costs per sample of the cheapest policies that keep all promises; infinite where none does."""

    of_any_policy: float
    of_a_single_stage: float  # the cheapest policy that asks one stage only


def estimate_least_costs(promises: Sequence[CascadePromise], max_cuts: int) -> LeastCosts:
    """Estimate the least cost of any policy that keeps all promises, and of those that ask a single stage.

    A policy is one threshold per stage. Risks are estimated by losses that are smoothed over the confidences; nothing
    is certified here. Costs are per sample, in the user's unit, infinite if no policy keeps the promises. `max_cuts` is
    the number of thresholds to try at each stage. Tables of the grid have one axis per stage; `single_stage_policies`
    are positions in the flattened tables. The two costs are shown in a note, if a single stage was chosen. There must
    be at least one promise; each has its data and its risk.
    """
    data = promises[0].data  # all promises share confidences and costs
    cuts = choose_cuts(data, max_cuts)
    grid = PolicyGrid(data, cuts)
    # The score is 0 where the estimated risk is the promised one, and above 0 where it is lower; that of the least safe
    # promise counts. The number of samples only scales it. Cost tables are sums over all samples.
    keeps_promises = least_z_scores(promises, cuts, data.sample_count) >= 0
    cost = np.where(keeps_promises, grid.total_costs() / data.sample_count, math.inf).reshape(-1)
    single_stage_policies = [grid.single_stage_policies(stage) for stage in range(data.stage_count)]
    return LeastCosts(
        of_any_policy=float(cost.min()),
        of_a_single_stage=min(float(cost[policies].min()) for policies in single_stage_policies),
    )
