r"""Error bars of graded answers: intervals and differences of ratios of two weighted counts (`AnswerMetric`).

With N_q and D_q what question q adds to the two counts, the ratio T = sum N / sum D varies as the mean of the
influences :math:`(N_q - T D_q) / \bar D`, over questions or over clusters of them.

A ratio whose numerator counts nothing negative is a share of its largest possible value. Its limits are those of a
proportion (Jeffreys) from as many draws as have the same variance; with no spread, exact ones from counts. A score with
penalties is a difference of two such shares, gains less losses, and its limits combine theirs: with x and y the
distances of gains and losses to the limits in question and rho the correlation of the two,

.. math:: \sqrt{x^2 + y^2 - 2\rho\,x y}.

So before the first wrong answer is seen, a high penalty widens the interval already.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abstain._arrays import ArrayLike
from abstain.core.rounding import SUM_ROUNDING
from abstain.errors import InputError
from abstain.inference.clusters import (
    cluster_codes,
    split_two_way,
    two_way_unit_variance,
    unbiased_effects,
)
from abstain.inference.differences import ComparedModel
from abstain.inference.limits import UnitVariance, student_quantile, variance_of_effects
from abstain.inference.point_limits import proportion_limits
from abstain.inference.records import Interval
from abstain.inference.standard_errors import effective_count
from abstain.metrics.answer_metrics import ANSWER_METRICS, AnswerMetric, GradedAnswers, kinds_of_question
from abstain.metrics.few_draws import note_on_draws
from abstain.metrics.limit_rules import DrawsBehind
from abstain.metrics.summaries import Limits, Scale, largest_unseen_share

# Cluster number of each question: (None,) where every question is a unit of its own, (codes,) with clusters, and with
# two crossed kinds of clusters the codes by the first kind, by the second and by their intersections.
Clusterings = tuple[np.ndarray | None, ...]
# What each independent unit does to an estimate, one array per clustering. The sum of squares is the variance.
Effects = tuple[np.ndarray, ...]


class _Share(NamedTuple):
    """A ratio without negative counts, as a share of its largest possible value.

    Attributes
    ----------
    largest_ratio : float
        The largest possible value of the ratio: share 1.
    share : float
        The ratio divided by `largest_ratio`.
    unit_effects : Effects
        What each independent unit does to the share.
    draws : float
        Number of units with equal denominators that would say as much.
    counted_units, other_units : float
        Effective number of units that the numerator counts, and of units that it does not count in full.
    relative_size_if_counted, relative_size_if_not : float
        Largest denominator of a question that counts in full, and of one that does not, over the mean denominator of
        the questions in the sample (those that the denominator counts).
    has_clusters : bool
        Whether units are clusters of questions.
    """

    largest_ratio: float
    share: float
    unit_effects: Effects
    draws: float
    counted_units: float
    other_units: float
    relative_size_if_counted: float
    relative_size_if_not: float
    has_clusters: bool

    def limits(self, level: float) -> Limits:
        """Lower and upper limit of the share: those of a proportion of as many draws as have its variance.

        `level` is the two-sided confidence level, such as 0.95. `self.unit_effects` holds what each unit (question or,
        with `self.has_clusters`, cluster) does to the share, so that their sum of squares is its variance; `self.draws`
        is the effective number of units.

        Where the share is 0 (or 1), questions that count in full (or that do not) were not seen, but may be part of the
        population. The largest probability of one that no draw shows is turned into a share of the denominator: such a
        question has at most `self.relative_size_if_counted` (or `self.relative_size_if_not`) times the mean denominator
        of the questions seen.
        """
        variance = _variance_of(self.unit_effects)
        equivalent_draws = self.draws  # where there is no spread
        if math.sqrt(variance.variance) > SUM_ROUNDING:
            equivalent_draws = self.share * (1 - self.share) / variance.variance
        # The variance between clusters is itself uncertain, which counts as fewer draws. Without clusters that of a
        # share follows from the share, as limits of a proportion take it.
        if self.has_clusters:
            freedom = variance.degrees_of_freedom()
            # the normal quantile over Student's, at most 1
            quantile_ratio = student_quantile(math.inf, level) / student_quantile(freedom, level)
            equivalent_draws = equivalent_draws * float(quantile_ratio) ** 2
        low, high = proportion_limits(
            np.asarray(self.share),
            draws=np.asarray(self.draws),  # read where the share is 0 or 1
            level=level,
            draws_by_variance=np.asarray(equivalent_draws),  # read at other shares
        )
        one_sided_level = (1 + level) / 2  # leaves out as much as one of the two tails
        largest_unseen = float(largest_unseen_share(self.draws, one_sided_level))
        if self.share <= SUM_ROUNDING:
            # the probability of questions that count, turned into their share of the sum of denominators
            return float(low), _share_of_unseen(largest_unseen, self.relative_size_if_counted)
        if self.share >= 1 - SUM_ROUNDING:
            return 1 - _share_of_unseen(largest_unseen, self.relative_size_if_not), float(high)
        return float(low), float(high)


def _share_of_unseen(probability: float, relative_size: float) -> float:
    """What share of the sum of denominators is that of questions which occur with this probability.

    `relative_size` is the denominator of each of them over the mean one of the other questions.
    """
    unseen = probability * relative_size
    return unseen / (unseen + 1 - probability)


def _make_share(
    metric: AnswerMetric, weights: dict[str, float], answers: GradedAnswers, clusterings: Clusterings
) -> _Share:
    """The ratio of what `weights` count to the denominator of the metric, as a share of its largest possible value.

    `weights` holds how much an answer counts, by names of `COUNTED` such as "right" and "wrong": the part of the
    metric's numerator with one sign, all made positive; it is not empty. `answers` holds the grades of all questions.
    `clusterings` holds the cluster number of each question: (None,) without clusters, one array, or three with two
    kinds of clusters.

    A question counts in full if its numerator over its denominator is the largest ratio that any kind of question has;
    the share is 1 if all do. How large the denominators of both kinds of questions can be is kept for `_Share.limits`,
    where one of the kinds is not in the sample.
    """
    largest = _largest_ratio(metric, weights)
    # what each question adds: the sum of each weight times its count, such as how right the answer is; above 0 over all
    # questions together, as `metric.value` has checked
    denominators = answers.weighted_count(metric.denominator)  # one entry per question
    # as large as the denominator for a question that counts in full, smaller for others
    numerators = answers.weighted_count(weights) / largest.ratio
    total = math.fsum(denominators)
    share = min(max(math.fsum(numerators) / total, 0.0), 1.0)
    influences = (numerators - share * denominators) / total  # of a ratio of two sums
    mean_denominator = float(denominators[denominators > 0].mean())

    def effective_units(values: np.ndarray) -> float:
        """The effective number of units with these values; of two kinds of clusters, the smaller number."""
        return min(effective_count(_sum_within(values, codes)) for codes in clusterings[:2])

    return _Share(
        largest_ratio=largest.ratio,
        share=share,
        # what each unit does to the share, by each clustering; the sum of squares is the variance
        unit_effects=tuple(_effects_of_units(influences, codes) for codes in clusterings),
        draws=effective_units(denominators),
        counted_units=effective_units(numerators),
        other_units=effective_units(denominators - numerators),
        relative_size_if_counted=largest.denominator_if_largest / mean_denominator,
        relative_size_if_not=largest.denominator_if_smaller / mean_denominator,
        has_clusters=clusterings[0] is not None,
    )


class _LargestRatio(NamedTuple):
    """The largest ratio that a single question can have, and the denominators that go with it.

    Attributes
    ----------
    ratio : float
        What a question adds to the numerator, over what it adds to the denominator, at its largest.
    denominator_if_largest, denominator_if_smaller : float
        The largest denominator of a question with that ratio, and of one with a smaller ratio (0 if there is none).
    """

    ratio: float
    denominator_if_largest: float
    denominator_if_smaller: float


def _largest_ratio(metric: AnswerMetric, weights: dict[str, float]) -> _LargestRatio:
    """The largest ratio of `weights` to the denominator of the metric that a question can have.

    A question is right, wrong or not attempted, answerable or not; those that the denominator does not count are left
    out. `weights` holds what an answer adds to the numerator, by names of `COUNTED` such as "right" and "wrong".

    The result also has the largest denominators of a question with that ratio and of one with a smaller ratio: a bound
    on how much of the sum of denominators questions can make up that no answer in a sample shows (`_Share.limits`).
    """
    possible = kinds_of_question()  # graded answers, with one question of each kind
    denominators = possible.weighted_count(metric.denominator)  # one entry per kind of question
    is_counted = denominators > 0  # some kind is: a metric has a denominator
    denominators = denominators[is_counted]
    ratios = possible.weighted_count(weights)[is_counted] / denominators
    has_largest = ratios == ratios.max()
    return _LargestRatio(
        ratio=float(ratios.max()),
        denominator_if_largest=float(denominators[has_largest].max()),
        denominator_if_smaller=float(denominators[~has_largest].max(initial=0.0)),
    )


def _sum_within(values: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
    """Sums of one value per question over clusters (codes from 0); the values themselves without clusters."""
    return values if codes is None else np.bincount(codes, values)


def _effects_of_units(influences: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
    """What each unit does to an estimate, so that the sum of squares is its variance.

    That is the sum of the influences of its questions, each over their number; a unit is a cluster, or a question where
    there are no clusters (None).
    """
    effects = _sum_within(influences, codes)
    return effects if codes is None else unbiased_effects(effects)


def _variance_of(effects: Effects) -> UnitVariance:
    """The variance of an estimate from what each unit does to it, by each clustering."""
    variances = [variance_of_effects(effects_of_clustering) for effects_of_clustering in effects]
    if len(variances) == 1:
        return variances[0]
    combined = two_way_unit_variance(*variances)
    return UnitVariance(
        float(combined.variance), float(combined.variance_of_variance), int(combined.unit_count)
    )


def _covariance(first: Effects, second: Effects) -> float:
    """Covariance of two estimates; with two kinds of clusters, by each kind less by their intersections."""
    products = [float(x @ y) for x, y in zip(first, second)]
    return products[0] if len(products) == 1 else products[0] + products[1] - products[2]


class AnswerEstimate(NamedTuple):
    """An estimate of an `AnswerMetric` with what its limits and its tests are made of; made by `estimate_from_answers`.

    Attributes
    ----------
    metric : AnswerMetric
        What is estimated.
    estimate : float
        Its value.
    unit_effects : Effects
        What each independent unit (question or cluster) does to the estimate.
    gains : _Share or None
        The part of the numerator with positive weights, over the denominator; None where no weight is positive.
    losses : _Share or None
        The part with negative weights, which are made positive; None where no weight is negative: a metric without
        penalties.
    question_count : int
        Number of questions.
    """

    metric: AnswerMetric
    estimate: float
    unit_effects: Effects
    gains: _Share | None
    losses: _Share | None
    question_count: int

    @property
    def standard_error(self) -> float:
        """Root of the variance."""
        return math.sqrt(_variance_of(self.unit_effects).variance)

    def limits(self, level: float) -> Limits:
        """Lower and upper limit of the metric, within its range.

        `level` is the two-sided confidence level, such as 0.95. The metric is `self.gains`, a share times its largest
        value, less `self.losses`; either may be None, which counts as 0 without any spread. The distances from both to
        their limits are combined like correlated standard errors.
        """
        # how far the limits lie below and above the part itself; 0 and 0 for None
        below_gain, above_gain = _distances_to_limits(self.gains, level)
        below_loss, above_loss = _distances_to_limits(self.losses, level)
        correlation = self._correlation()

        def combine(gain_distance: float, loss_distance: float) -> float:
            """The distance to a limit of gains less losses: root of x^2 + y^2 - 2 rho x y."""
            shared = 2 * correlation * gain_distance * loss_distance
            return math.sqrt(max(gain_distance**2 + loss_distance**2 - shared, 0.0))

        smallest, largest = self.metric.range
        # larger losses lower the metric
        low = self.estimate - combine(below_gain, above_loss)
        high = self.estimate + combine(above_gain, below_loss)
        return max(low, smallest), min(high, largest)

    def _correlation(self) -> float:
        """Correlation of gains and losses over units (questions or clusters), from -1 to 1; 0 where there is one alone.

        Where one of them has no spread it is -1 if both shares add up to 1, so that what is no gain is a loss; else 0.
        """
        if self.gains is None or self.losses is None:
            return 0.0
        # `unit_effects`: what each unit does to the share; the sum of squares is its variance
        gain_variance = _variance_of(self.gains.unit_effects).variance
        loss_variance = _variance_of(self.losses.unit_effects).variance
        product_of_deviations = math.sqrt(gain_variance * loss_variance)
        if product_of_deviations > 0:
            correlation = (
                _covariance(self.gains.unit_effects, self.losses.unit_effects) / product_of_deviations
            )
            return min(1.0, max(-1.0, correlation))  # two kinds of clusters may lead beyond by chance
        return -1.0 if abs(self.gains.share + self.losses.share - 1) <= SUM_ROUNDING else 0.0

    def interval(self, level: float) -> Interval:
        """The estimate with its interval, at the two-sided confidence level `level`, such as 0.95.

        Where all units agree, within rounding, the standard error is 0 and the interval a one-sided bound. `method`
        says where the limits come from: those of a metric without penalties (`self.losses` is None) are those of one
        proportion, and those of another metric combine the limits of its two shares, `self.gains` and `self.losses`.
        """
        low, high = self.limits(level)
        has_spread = self.standard_error > SUM_ROUNDING * max(1.0, abs(self.estimate))
        return Interval(
            metric=self.metric.key,  # its name with its option, such as "score_at_target@0.75"
            estimate=self.estimate,
            standard_error=self.standard_error if has_spread else 0.0,
            low=low,
            high=high,
            level=level,
            method="proportion" if self.losses is None else "limits of both shares",
            n=self.question_count,
            # limits lie around the estimate, or are a bound on one side of it
            centre="estimate" if has_spread else "bound",
        )

    def as_compared_model(self) -> ComparedModel:
        """This estimate as one model of a comparison.

        `self.unit_effects` holds one array: for each unit (question or cluster) the influences of its questions on the
        estimate over the number of questions, so that their sum of squares is the variance. With two kinds of clusters
        it holds three arrays, by the first kind, by the second and by their intersections; the number of units is then
        that of the kind with fewer clusters.
        """
        # `effective`: how many questions (or clusters) decide the estimate; `note`: that these are too few for a
        # verdict, or ""
        decided_by = self._questions_that_decide()
        kinds = self.unit_effects[:2]  # without the intersections
        return ComparedModel(
            estimate=self.estimate,
            less_biased_estimate=self.estimate,
            standard_error=self.standard_error,
            effective_draws=decided_by.effective,
            few_draws_note=decided_by.note,
            risk=self.estimate,  # a difference that is tiny beside it counts as a rounding error
            unit_count=min(len(unit_effects) for unit_effects in kinds),
            limits_at_level=self.limits,
            unit_effects=self.unit_effects,
        )

    def _questions_that_decide(self) -> DrawsBehind:
        """How many effective questions (or clusters) decide the value, and a note where they are too few for a verdict.

        A share is decided by the questions that count or by those that do not, whichever are fewer; a score with
        penalties (with both `self.gains` and `self.losses`) by all questions that change it, each as much as it does.
        """
        if self.gains is not None and self.losses is not None:
            draws = self.gains.counted_units + self.losses.counted_units
        else:
            share = self.gains or self.losses
            assert share is not None  # a metric counts something
            draws = min(share.counted_units, share.other_units)
        # these numbers are effective already, so the count "in all" that a note adds is the same one, rounded
        return DrawsBehind(draws, note_on_draws(draws, count=draws, kind="questions that decide it"))


def _distances_to_limits(share: _Share | None, level: float) -> tuple[float, float]:
    """How far the limits lie below and above a ratio; 0 for a part of the numerator that is not there."""
    if share is None:
        return 0.0, 0.0
    low, high = share.limits(level)
    return share.largest_ratio * (share.share - low), share.largest_ratio * (high - share.share)


def estimate_from_answers(
    function: str, metric: AnswerMetric, answers: GradedAnswers, clusters: ArrayLike | None = None
) -> AnswerEstimate:
    """Estimate a metric of graded answers, with what each question (or cluster) does to it.

    The metric is gains less losses: the part of its numerator with positive weights and the part with negative ones,
    each over the denominator. Each part over the largest ratio that a question can have is a share, from 0 to 1, so
    that limits of a proportion exist for it (`AnswerEstimate.limits`); times that ratio it is the part again.

    `clusters` has one label per question: those with the same label are not independent; two vectors of labels are two
    kinds of clusters that cross; None: questions are independent. `function` begins the message of an error. Raises
    InputError with fewer than two independent units, and InfeasibleError where the metric is undefined, because no
    question counts in its denominator.
    """
    question_count = len(answers.right)
    codes = cluster_codes(function, clusters, question_count)
    clusterings: Clusterings = (codes,)  # (None,) without clusters
    if codes is not None and codes.ndim == 2:  # two kinds of clusters
        clusterings = split_two_way(codes)  # by the first kind, by the second and by their intersections
    # codes are 0, 1, ...: the largest plus 1 is the number of clusters; of two kinds, the smaller number counts
    unit_count = question_count if codes is None else int(np.min(codes.max(axis=0))) + 1
    if unit_count < 2:
        raise InputError(
            f"{function}: needs at least two questions (or clusters) to see any spread, got one."
        )
    estimate = metric.value(answers)
    positive_weights = {name: weight for name, weight in metric.numerator.items() if weight > 0}
    negative_weights = {name: -weight for name, weight in metric.numerator.items() if weight < 0}
    gains = _make_share(metric, positive_weights, answers, clusterings) if positive_weights else None
    losses = _make_share(metric, negative_weights, answers, clusterings) if negative_weights else None
    unit_effects = []
    for clustering in range(len(clusterings)):  # one, or three with two kinds of clusters
        effects = np.zeros(1)  # takes the shape of what is added; gains or losses are there
        # what each unit does to a share, times the largest ratio: what it does to that part of the metric
        if gains is not None:
            effects = effects + gains.largest_ratio * gains.unit_effects[clustering]
        if losses is not None:
            effects = effects - losses.largest_ratio * losses.unit_effects[clustering]
        unit_effects.append(effects)
    return AnswerEstimate(
        metric=metric,
        estimate=estimate,
        unit_effects=tuple(unit_effects),
        gains=gains,
        losses=losses,
        question_count=question_count,
    )


def interval_of_mean(
    function: str, name: str, values: np.ndarray, level: float, clusters: ArrayLike | None = None
) -> Interval:
    """The interval of the mean of values from 0 to 1, one per question; `name` is what the interval is called.

    `clusters` has one label per question (two vectors of labels for two kinds of clusters that cross; None: questions
    are independent). `function` begins the message of an error. `level` is the two-sided confidence level, such as
    0.95. InputError with fewer than two independent units.
    """
    # the accuracy is the mean of `right`, which may hold fractions, over all questions
    as_answers = GradedAnswers(right=values, attempted=np.ones(len(values), dtype=bool))
    estimated = estimate_from_answers(function, ANSWER_METRICS["accuracy"], as_answers, clusters)
    return replace(estimated.interval(level), metric=name)


def scale_of_answers(metric: AnswerMetric) -> Scale:
    """The scale on which differences are tested: log-odds of a share, plain for a score with penalties."""
    smallest, largest = metric.range
    if smallest < 0 < largest:
        return Scale("normal")
    return Scale("logit", smallest, largest)
