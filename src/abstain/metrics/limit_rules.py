"""Limits where few errors, few right samples, or no spread at all is seen: one rule per kind of metric.

An interval from the standard error alone is wrong when a sample holds few errors: those that were not drawn leave no
trace in it. Each rule says what limits of its metric must allow for then. `LimitRule` allows for nothing, which is
right for a metric of which no more is known. All values are in units of an error's size (see `SampleSummary`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from abstain.metrics import few_draws
from abstain.metrics.summaries import (
    EstimateSpread,
    Limits,
    SampleSummary,
    best_area,
    best_partial_area,
    largest_unseen_share,
    smallest_rejection_ratio,
    worst_area,
    worst_partial_area,
)


@dataclass(frozen=True)
class LimitRule:
    """What is known of a metric besides its standard error; the base class knows nothing.

    Class attributes: `notes_few_draws`, whether an interval that rests on few errors says so; `reads_both_kinds`,
    whether few right samples are as bad as few errors; `zero_is_ideal`, whether the value is 0 exactly where the
    order is the best possible one.
    """

    notes_few_draws: ClassVar[bool] = False
    reads_both_kinds: ClassVar[bool] = False
    zero_is_ideal: ClassVar[bool] = False

    def hidden_variance(self, spread: EstimateSpread, sample: SampleSummary) -> float:
        """Variance that few errors, or few right samples, do not show; on top of `spread.variance`."""
        return 0.0

    def missed_above(
        self, spread: EstimateSpread, sample: SampleSummary, level: float, loss_bound: float | None
    ) -> float:
        """By how much errors that a small sample can have missed may raise the value.

        Losses other than 0/1 are at most `loss_bound`, or about as large as the largest ones seen.
        """
        return 0.0

    def missed_below(self, sample: SampleSummary, level: float) -> float:
        """By how much samples that a small sample can have missed may lower the value."""
        return 0.0

    def adjust_for_few(
        self, limits: Limits, spread: EstimateSpread, sample: SampleSummary, level: float, variance: float
    ) -> Limits:
        """Move limits towards those that hold for few draws, the more the fewer draws there are.

        `variance` is that of the estimate, hidden variance included.
        """
        return limits

    def without_errors(self, largest_risk: float) -> Limits | None:
        """Limits where no sample is wrong, so that the risk is at most `largest_risk`; None when none are known."""
        return None

    def all_wrong(self, smallest_risk: float) -> Limits | None:
        """Limits where all are wrong, so that the risk is at least `smallest_risk`; None when none are known."""
        return None

    def perfect_or_constant(self, estimate: float, sample: SampleSummary, level: float) -> Limits | None:
        """Limits where all right samples are above all errors, or all below, or all tied; None when none are known.

        The sample then holds `sample.pair_count` disjoint pairs of a right sample and an error that are all ordered in
        one way. Such pairs are independent, so with probability `level`
        at least a share `1 - largest_unseen_share(pair_count, level)` of all pairs is ordered in that way.
        """
        return None


@dataclass(frozen=True)
class RiskRule(LimitRule):
    """The mean loss: a proportion of errors for 0/1 losses."""

    def adjust_for_few(
        self, limits: Limits, spread: EstimateSpread, sample: SampleSummary, level: float, variance: float
    ) -> Limits:
        """With few errors or few right samples, move the limits of the risk towards Jeffreys limits of a proportion.

        `spread` is the estimated risk with its variance; `limits` are its limits at the two-sided `level`. The
        proportion is of as many draws as give it this `variance`. Other rules add a hidden variance, which few draws do
        not show, to that of the estimate; for the risk it is 0. With many draws of both kinds, and for losses other
        than 0/1, `limits` are returned unchanged. `sample` counts the errors, the right samples and the independent
        draws. A risk of 0 or 1 does not come here: its limits are `without_errors` and `all_wrong`.
        """
        # how much the limits for few draws count: 1 up to 8 draws of a kind, 0 from 16 on and for other losses than 0/1
        few_share = _allowance_for_few(sample)
        if few_share == 0:
            return limits
        risk = spread.estimate
        # clusters that all have the same share of errors show no variance: then each counts as one draw
        draws = risk * (1 - risk) / variance if variance > 0 else sample.effective_draws
        low, high = few_draws.beta_limits(risk, draws, level, pseudo=0.5)  # of Jeffreys
        # each limit on a straight line between the two: few_share * few + (1 - few_share) * usual
        return _mix_limits((float(low), float(high)), limits, few_share)

    def without_errors(self, largest_risk: float) -> Limits | None:
        """Limits where no sample is wrong, so that the risk is at most `largest_risk`; None when none are known."""
        return 0.0, largest_risk

    def all_wrong(self, smallest_risk: float) -> Limits | None:
        """Limits where all are wrong, so that the risk is at least `smallest_risk`; None when none are known."""
        return smallest_risk, 1.0


@dataclass(frozen=True)
class OracleRule(LimitRule):
    """AURC of the best possible order, a function of the risk alone."""

    def without_errors(self, largest_risk: float) -> Limits | None:
        """Limits where no sample is wrong, so that the risk is at most `largest_risk`; None when none are known."""
        return 0.0, best_area(largest_risk)

    def all_wrong(self, smallest_risk: float) -> Limits | None:
        """Limits where all are wrong, so that the risk is at least `smallest_risk`; None when none are known."""
        return best_area(smallest_risk), 1.0


@dataclass(frozen=True)
class AreaRule(LimitRule):
    """An area in which errors on top weigh most, so that few errors say little of those that were not drawn.

    With up to eight effective errors the upper limit also allows for errors on top: as many as a sample of this size
    can have missed. This fades out until there are sixteen.
    """

    notes_few_draws: ClassVar[bool] = True

    def with_errors_on_top(self, risk: float) -> float:
        """The area with all errors on top, of 0/1 losses with this risk."""
        return worst_area(risk)

    def with_errors_at_bottom(self, risk: float) -> float:
        """The area with all errors at the bottom, of 0/1 losses with this risk."""
        return best_area(risk)

    def missed_above(
        self, spread: EstimateSpread, sample: SampleSummary, level: float, loss_bound: float | None
    ) -> float:
        """By how much errors that a small sample can have missed may raise the area.

        `spread` is the estimated area with its variance, `sample` the counts of samples and errors behind it. The worst
        case is that all missed errors are on top; `self.with_errors_on_top(share)` is the area of such a share of
        errors of size 1. Their size is `loss_bound`, in the unit in which `spread` and `sample` have the losses, or
        where none is known (None) about that of the largest losses seen. The allowance is full up to eight effective
        errors (so many that all count alike by their rank would say as much) and fades out until there are sixteen; 0
        where losses may be negative, and without any error, where `without_errors` has the limits. `level` is the
        probability with which it is enough.
        """
        # 1 up to 8 effective errors, 0 from 16 on and without any
        few_share = few_draws.share_for_few(spread.effective_errors)
        if few_share == 0 or sample.has_negative_loss:
            return 0.0
        size_of_missed = _size_of_missed_errors(sample, loss_bound)
        # errors that no draw shows make up at most this share of the population, with probability `level`
        largest_share_missed = sample.largest_unseen_share(level)
        rise = size_of_missed * self.with_errors_on_top(largest_share_missed)
        largest_rise = max(size_of_missed - spread.estimate, 0.0)  # no area exceeds the largest loss
        return few_share * min(rise, largest_rise)

    def without_errors(self, largest_risk: float) -> Limits | None:
        """Errors that were not seen could all be on top: p (1 - ln p) is the largest AURC of risk p."""
        return 0.0, self.with_errors_on_top(largest_risk)

    def all_wrong(self, smallest_risk: float) -> Limits | None:
        """Limits where all are wrong, so that the risk is at least `smallest_risk`; None when none are known."""
        return self.with_errors_at_bottom(smallest_risk), 1.0


@dataclass(frozen=True)
class GeneralisedAreaRule(AreaRule):
    """AUGRC: an error on top counts 1, one at the bottom nothing."""

    def with_errors_on_top(self, risk: float) -> float:
        """A share p of errors on top adds at most p."""
        return risk

    def with_errors_at_bottom(self, risk: float) -> float:
        """All errors at the bottom: half of the squared risk."""
        return risk**2 / 2


@dataclass(frozen=True)
class PartialAreaRule(AreaRule):
    """AURC between two coverages."""

    low: float
    high: float

    def with_errors_on_top(self, risk: float) -> float:
        """The area with all errors on top, of 0/1 losses with this risk."""
        return worst_partial_area(risk, self.low, self.high)

    def with_errors_at_bottom(self, risk: float) -> float:
        """The area with all errors at the bottom, of 0/1 losses with this risk."""
        return best_partial_area(risk, self.low, self.high)

    def perfect_or_constant(self, estimate: float, sample: SampleSummary, level: float) -> Limits | None:
        """Where no error is accepted up to the upper coverage, those that were not drawn could be on top."""
        if estimate > 0:
            return None
        return 0.0, self.with_errors_on_top(sample.largest_unseen_share(level))


@dataclass(frozen=True)
class ExcessRule(AreaRule):
    """AURC above that of the best order: 0 where the order is the best one."""

    zero_is_ideal: ClassVar[bool] = True

    def all_wrong(self, smallest_risk: float) -> Limits | None:
        """Limits where all are wrong, so that the risk is at least `smallest_risk`; None when none are known."""
        return 0.0, worst_area(smallest_risk) - best_area(smallest_risk)

    def perfect_or_constant(self, estimate: float, sample: SampleSummary, level: float) -> Limits:
        """Given AUROC = 1 - q, AURC is largest with a share q of the errors on top."""
        return 0.0, worst_area(_share_of_other_pairs(sample, level) * sample.risk)


@dataclass(frozen=True)
class PlacementRule(LimitRule):
    """AUROC and the rejection ratio: a mean of placements of either kind among the other, in [low, high]."""

    low: float
    high: float
    notes_few_draws: ClassVar[bool] = True
    reads_both_kinds: ClassVar[bool] = True

    def with_errors_on_top(self, risk: float) -> float:
        """The value of 0/1 losses with this risk where all errors are on top; `low` whatever the risk."""
        return self.low

    def hidden_variance(self, spread: EstimateSpread, sample: SampleSummary) -> float:
        """Variance that few errors, or few right samples, do not show; on top of `spread.variance`.

        `spread` is the estimate with its variance, `sample` the counts behind it. The metric is a mean over the errors
        of their placements (how many right samples are above each one, on the scale of the metric), and likewise a mean
        over the right samples. Placements lie between the value with all errors on top,
        `self.with_errors_on_top(risk)`, and `self.high`; their variance is largest if each is at one of these ends. 0
        for losses other than 0/1, and where the part of the variance that errors make up is not known (NaN).

        Errors and right samples each make up a part of the variance, seen in `sample.error_draws` and
        `sample.right_draws` draws. These are effective numbers of independent draws: fewer than the samples of the kind
        where weights are unequal or several lie in one cluster. Below 16 draws `few_draws.variance_beyond_seen` returns
        by how much to raise that part: as if two more draws had each shown the largest variance of one placement.
        """
        if not sample.is_zero_one or math.isnan(spread.variance_from_errors):
            return 0.0
        above_smallest = max(spread.estimate - self.with_errors_on_top(sample.risk), 0.0)
        # of a placement that is always at one of the two ends, with this mean: (mean - low end) * (high end - mean)
        largest_variance = above_smallest * (self.high - spread.estimate)
        right_variance = max(spread.variance - spread.variance_from_errors, 0.0)
        hidden_by_errors = few_draws.variance_beyond_seen(
            largest_of_one_draw=largest_variance, seen=spread.variance_from_errors, draws=sample.error_draws
        )
        hidden_by_right = few_draws.variance_beyond_seen(
            largest_of_one_draw=largest_variance, seen=right_variance, draws=sample.right_draws
        )
        return hidden_by_errors + hidden_by_right

    def adjust_for_few(
        self, limits: Limits, spread: EstimateSpread, sample: SampleSummary, level: float, variance: float
    ) -> Limits:
        """With few errors or right samples, move the limits towards quantiles of a Beta law on the range of the metric.

        `spread` is the estimate with its variance, `sample` the counts of errors, right samples and draws behind it.
        The law has the mean `spread.estimate` and this `variance`: that of the estimate, together with the hidden
        variance, which so few errors or right samples cannot show. `limits` are those of the metric at the two-sided
        `level`; they are returned where the estimate rests on many draws of both kinds, and for losses other than 0/1.
        The range is from the value with all errors on top, `self.with_errors_on_top(risk)`, to `self.high`; these
        differ. `variance` is above 0: without any, limits come from `perfect_or_constant`, and this is not called.
        """
        # how much the limits for few draws count: 1 up to 8 draws of a kind, 0 from 16 on and for other losses than 0/1
        few_share = _allowance_for_few(sample)
        if few_share == 0:
            return limits
        smallest = self.with_errors_on_top(sample.risk)
        width = self.high - smallest
        # the estimate as a share of the range
        placement = min(max((spread.estimate - smallest) / width, 0.0), 1.0)
        # so many draws of either end of the range have this variance; 0 draws, whose limits are the whole range, where
        # the estimate is at an end
        draws = width**2 * placement * (1 - placement) / variance
        low, high = few_draws.beta_limits(placement, draws, level)
        limits_for_few = (smallest + width * float(low), smallest + width * float(high))
        # each limit on a straight line between the two: few_share * few + (1 - few_share) * usual
        return _mix_limits(limits_for_few, limits, few_share)

    def without_errors(self, largest_risk: float) -> Limits | None:
        """Without errors there is no placement to see."""
        return self.low, self.high

    def all_wrong(self, smallest_risk: float) -> Limits | None:
        """Without right samples there is no placement to see."""
        return self.low, self.high

    def perfect_or_constant(self, estimate: float, sample: SampleSummary, level: float) -> Limits:
        """Limits of AUROC or the rejection ratio where all right samples are above all errors, or all below, or tied.

        This is only called where no sample changes the estimate, of 0/1 losses with errors and right samples. There are
        then `sample.pair_count` disjoint pairs of a right sample and an error that are all ordered in one way. Such
        pairs are independent, so with probability `level` at least a share `1 - largest_unseen_share(pair_count,
        level)` of all pairs is ordered in that way. The limits hold wherever the other pairs lie between the smallest
        value of the metric, `self.with_errors_on_top(risk)`, and 1. `estimate` is the largest value, the smallest or,
        with all tied, one between them. `level` is the probability with which the limits hold.
        """
        share_like_these = 1 - float(largest_unseen_share(sample.pair_count, level))
        smallest = self.with_errors_on_top(sample.risk)
        # the mean over all pairs, with the other pairs at `smallest`, and below with them at 1
        low = share_like_these * (estimate - smallest) + smallest
        return low, 1 - share_like_these * (1 - estimate)


@dataclass(frozen=True)
class TruncatedPlacementRule(PlacementRule):
    """The rejection ratio where at most a share is rejected, `max_rejection`: errors above the rest are all as bad.

    How small it can get depends on the risk; `low` is the smallest value at any risk.
    """

    max_rejection: float

    def with_errors_on_top(self, risk: float) -> float:
        """The value of 0/1 losses with this risk where all errors are on top."""
        return smallest_rejection_ratio(risk, self.max_rejection)


@dataclass(frozen=True)
class PrecisionRule(LimitRule):
    """Average precision of finding one kind of sample (the hits), which few samples of the other kind spoil."""

    hits_are_errors: bool
    notes_few_draws: ClassVar[bool] = True
    reads_both_kinds: ClassVar[bool] = True

    def missed_below(self, sample: SampleSummary, level: float) -> float:
        """By how much samples that a small sample can have missed may lower the value.

        Samples of the other kind could come first in the search.
        """
        if sample.has_negative_loss:
            return 0.0
        other_draws = sample.right_draws if self.hits_are_errors else sample.error_draws
        # what a share p of errors on top adds to AURC, p (1 - ln p), stands for what such samples take from precision
        largest_fall = worst_area(sample.largest_unseen_share(level))
        return largest_fall * few_draws.share_for_few(other_draws)  # in full up to 8 draws, not from 16 on

    def adjust_for_few(
        self, limits: Limits, spread: EstimateSpread, sample: SampleSummary, level: float, variance: float
    ) -> Limits:
        """With few hits, lower the lower limit of average precision, which is too high on average then.

        Hits are what is searched for: the errors if `self.hits_are_errors`, else the right samples. Average precision
        is the mean over the hits of the precision at each, a number in [0, 1]. The lower limit moves towards that of a
        share which is seen in so many draws that it varies as much as average precision does: a quantile of a Beta law,
        at the two-sided `level`. It never moves up, and the upper limit does not move.

        `spread` is the estimate with its variance, `limits` are its limits, `sample` the counts behind it. The limits
        are returned with enough hits, and for losses other than 0/1. `variance` is not read: it is `spread.variance`,
        since this rule has no hidden variance. Here `few_draws.variance_beyond_seen` returns what to add to it: the
        hits have a part of it, seen in few independent draws, which is raised as if two more draws had each shown the
        largest variance of one draw.
        """
        if not sample.is_zero_one:
            return limits
        # independent draws of a hit, an effective number
        hit_draws = sample.error_draws if self.hits_are_errors else sample.right_draws
        few_share = few_draws.share_for_few(hit_draws)  # 1 up to 8 draws, 0 from 16 on
        if few_share == 0:
            return limits
        if self.hits_are_errors:
            hit_variance = spread.variance_from_errors
        else:
            hit_variance = spread.variance - spread.variance_from_errors
        # of a number in [0, 1] with this mean: all of it at 0 and 1
        largest_variance = spread.estimate * (1 - spread.estimate)
        hidden_variance = few_draws.variance_beyond_seen(
            largest_of_one_draw=largest_variance, seen=hit_variance, draws=hit_draws
        )
        # A share seen in so many draws has the same variance as the estimate. The variance is above 0: without any,
        # limits come from `perfect_or_constant`, and this is not called.
        equivalent_draws = largest_variance / (spread.variance + hidden_variance)
        beta_low, _ = few_draws.beta_limits(spread.estimate, equivalent_draws, level)
        low, high = limits
        # `mix_limit` returns few_share * beta_low + (1 - few_share) * low
        return min(low, few_draws.mix_limit(float(beta_low), low, few_share)), high

    def perfect_or_constant(self, estimate: float, sample: SampleSummary, level: float) -> Limits:
        """Limits of average precision where all hits come before all other samples, so that it is 1.

        Hits are what is searched for: the errors if `self.hits_are_errors`, else the right samples. This is only called
        where no sample changes the estimate. With hits after other samples, or tied with them, average precision
        depends on the share of hits, so that samples do change it.

        In the population some pairs of a hit and another sample may be ordered the other way. With probability `level`
        their share is at most `share_ahead`, since the sample shows none. The worst case is that this share of the
        other samples comes before all hits. The sample has both kinds, so that its risk lies between 0 and 1. The
        upper limit is 1, the largest value.
        """
        share_ahead = _share_of_other_pairs(sample, level)
        if self.hits_are_errors:
            others_ahead_per_hit = share_ahead * (1 - sample.risk) / sample.risk
        else:
            others_ahead_per_hit = share_ahead * sample.risk / (1 - sample.risk)
        if others_ahead_per_hit <= 0:
            return 1.0, 1.0
        # the mean over the hits h in (0, 1] of the precision h / (h + others ahead)
        return 1 - others_ahead_per_hit * math.log1p(1 / others_ahead_per_hit), 1.0


@dataclass(frozen=True)
class NormalisedAreaRule(LimitRule):
    """NAURC: AURC between the best order (0) and a random one (1); it has no upper bound."""

    notes_few_draws: ClassVar[bool] = True
    reads_both_kinds: ClassVar[bool] = True
    zero_is_ideal: ClassVar[bool] = True

    def hidden_variance(self, spread: EstimateSpread, sample: SampleSummary) -> float:
        """Variance of NAURC that few errors, or few right samples, do not show; on top of `spread.variance`.

        A rank weight is about -ln(1 - beta), with beta the share of samples that are less confident. In random order
        that has an exponential law, whose standard deviation is its mean. So the variance of one draw of either kind is
        taken to be its squared mean. A draw of an error is its rank weight beyond that of the best order, scaled so
        that NAURC is the mean of these draws. A draw of a right sample is its rank weight in units of NAURC, times
        `naurc_per_right_weight`. Below 16 draws of a kind `few_draws.variance_beyond_seen` returns by how much to raise
        the part of the variance that this kind makes up: as if two more draws had each shown that variance.

        `spread` is NAURC with its variance, `sample` the risk and the effective numbers of independent draws of errors
        and of right samples. 0 for losses other than 0/1, where the part of the variance that errors make up is not
        known (NaN), and where no order is better than a random one.
        """
        # by how much AURC falls from a random order to the best one: R - A* in the notation below
        best_gain = _gain_of_best_order(sample.risk)
        if not sample.is_zero_one or math.isnan(spread.variance_from_errors) or best_gain <= 0:
            return 0.0
        # With R the risk and A* the AURC of the best order, NAURC is (R w - A*) / (R - A*): the mean rank weight w of
        # the errors, scaled to be 0 in the best order and 1 in a random one. The rank weights of all samples have the
        # mean 1, so that NAURC is also 1 - (v - 1) (1 - R) / (R - A*), with v that of the right samples.
        naurc = spread.estimate
        naurc_per_right_weight = (1 - sample.risk) / best_gain
        variance_of_right_draw = (_mean_weight_of_right(naurc, sample.risk) * naurc_per_right_weight) ** 2
        variance_of_error_draw = naurc**2
        right_variance = max(spread.variance - spread.variance_from_errors, 0.0)
        hidden_by_errors = few_draws.variance_beyond_seen(
            largest_of_one_draw=variance_of_error_draw,
            seen=spread.variance_from_errors,
            draws=sample.error_draws,
        )
        hidden_by_right = few_draws.variance_beyond_seen(
            largest_of_one_draw=variance_of_right_draw, seen=right_variance, draws=sample.right_draws
        )
        return hidden_by_errors + hidden_by_right

    def missed_above(
        self, spread: EstimateSpread, sample: SampleSummary, level: float, loss_bound: float | None
    ) -> float:
        """By how much errors that a small sample can have missed may raise NAURC.

        `spread` is NAURC with its variance, `sample` the counts behind it. The result is the area that errors on top
        add, over the gain of the best order, which NAURC divides by. Missed errors have the size `loss_bound`, in the
        unit of `sample.risk`, or where none is known (None) about that of the largest losses seen. The allowance is
        full up to eight effective errors (so many that all count alike by their rank would say as much) and fades out
        until there are sixteen; 0 where losses may be negative, and where no order is better than a random one. `level`
        is the probability with which it is enough.
        """
        # 1 up to 8 effective errors, 0 from 16 on and without any
        few_share = few_draws.share_for_few(spread.effective_errors)
        if few_share == 0 or sample.has_negative_loss:
            return 0.0
        size_of_missed = _size_of_missed_errors(sample, loss_bound)
        # as if all losses were 0 or of that size
        share_of_errors = min(sample.risk / size_of_missed, 1.0) if size_of_missed > 0 else 0.0
        # by how much AURC falls from a random order to the best one
        best_gain = _gain_of_best_order(share_of_errors)
        if best_gain <= 0:
            return 0.0
        # errors that no draw shows make up at most this share of the population, with probability `level`
        largest_share_missed = sample.largest_unseen_share(level)
        return few_share * (worst_area(largest_share_missed) / best_gain)

    def adjust_for_few(
        self, limits: Limits, spread: EstimateSpread, sample: SampleSummary, level: float, variance: float
    ) -> Limits:
        """With few errors or right samples, move the limits of NAURC towards quantiles of Gamma laws.

        NAURC is a mean of scaled rank weights of the errors, and depends linearly on the mean rank weight of the right
        samples. A mean of k positive draws that each vary as much as their mean has a Gamma law, which depends on the
        mean and on k alone; k is the number of effective errors, or an effective number of right samples. With few
        errors the lower limit moves, and only down. With few right samples both move to those of their law, which may
        be closer together. `share_for_few` says how far: all the way with up to 8 draws, not at all from 16 on.

        The gain of the best order is by how much AURC falls from a random order to the best one. NAURC and the limits
        for few right samples divide by it. Where it is not positive, as it is where nearly all samples are wrong and
        the difference rounds to 0, these limits are left out.

        `spread` is NAURC with its variance, `sample` the risk and the counts of draws behind it; `limits` are those of
        NAURC at the two-sided `level`. `variance` is that of the estimate, together with the hidden variance, which so
        few errors or right samples cannot show.
        """
        naurc = spread.estimate
        low, high = limits
        # no effective errors without errors, or where squares of huge losses overflow
        if spread.effective_errors > 0 and not sample.has_negative_loss:
            gamma_low, _ = few_draws.gamma_limits(naurc, spread.effective_errors, level)
            low = min(
                low, few_draws.mix_limit(gamma_low, low, few_draws.share_for_few(spread.effective_errors))
            )
        if _allowance_for_few(sample) == 0:  # many draws of both kinds, or losses other than 0/1
            return low, high
        high = min(high, _largest_naurc(sample, level))  # that of all errors on top
        # independent draws, an effective number
        few_share_of_right = few_draws.share_for_few(sample.right_draws)
        best_gain = _gain_of_best_order(sample.risk)
        if few_share_of_right == 0 or best_gain <= 0:
            return low, high
        # both limits, from a Gamma law of the mean rank weight of the right samples
        few_right_limits = _naurc_of_few_right(naurc, variance, sample, level)
        # each limit on a straight line between the two
        return _mix_limits(few_right_limits, (low, high), few_share_of_right)

    def without_errors(self, largest_risk: float) -> Limits | None:
        """Undefined without errors: any value is possible."""
        return 0.0, math.inf

    def all_wrong(self, smallest_risk: float) -> Limits | None:
        """Undefined without right samples: any value is possible."""
        return 0.0, math.inf

    def perfect_or_constant(self, estimate: float, sample: SampleSummary, level: float) -> Limits:
        """Limits of NAURC where no sample changes it: the order is perfect (NAURC 0) or all are tied (NAURC 1).

        With all errors above all right samples NAURC depends on the risk, so that samples change it, and this is not
        called. The sample has errors and right samples.

        Perfect order: in the population some pairs of a right sample and an error may be ordered the other way. With
        probability `level` their share is at most q, since none of the pairs in the sample is. The worst case is that a
        share q of the errors, which is q times the risk of all samples, is on top.

        Constant confidence: samples with another confidence may have been missed, with probability `level` at most a
        share s of all. The lower limit takes them for errors that come last, the upper one for errors that come first.
        `worst_area(p)` is the area that a share p of errors on top adds: the AURC of 0/1 losses with risk p and all
        errors first. To turn an area into NAURC, it is divided by the gain of the best order (by how much AURC falls
        from a random order to the best one), which is above 0 with errors and right samples.
        """
        best_gain = _gain_of_best_order(sample.risk)
        is_perfect = estimate <= 0.5  # 0 or 1, but for rounding
        if not is_perfect:
            share_apart = float(largest_unseen_share(sample.effective_draws, level))
            # Errors at the bottom lower AURC by at most their share of all samples: by -(1 - risk) ln(1 - share) up to
            # a share of `risk`. The lower limit allows twice that share; the factor 2 is a margin and has no proof.
            largest_fall = 2 * share_apart
            return max(0.0, 1 - largest_fall / best_gain), 1 + worst_area(share_apart) / best_gain
        # q, the largest share of pairs that may be ordered the other way, times the risk
        errors_on_top = _share_of_other_pairs(sample, level) * sample.risk
        return 0.0, worst_area(errors_on_top) / best_gain


@dataclass(frozen=True)
class PointRule(LimitRule):
    """A point of the curve that reads both kinds; its limits have their own formulas in `inference.point_limits`."""

    notes_few_draws: ClassVar[bool] = True
    reads_both_kinds: ClassVar[bool] = True


class DrawsBehind(NamedTuple):
    """How many effective draws an estimate rests on, and a note where they are too few for a verdict (or "")."""

    effective: float
    note: str


def draws_behind(rule: LimitRule, effective_errors: float, sample: SampleSummary) -> DrawsBehind:
    """How many draws an estimate rests on, and a note where they are too few for a verdict (or "").

    The draws are the `effective_errors` of the estimate, or the right samples where the metric of this `rule` reads
    both kinds and there are fewer of those. `sample` counts errors and right samples.
    """
    if rule.reads_both_kinds and sample.is_zero_one and sample.right_draws < effective_errors:
        note = few_draws.note_on_draws(sample.right_draws, count=sample.right_count, kind="right samples")
        return DrawsBehind(effective=sample.right_draws, note=note)
    note = few_draws.note_on_draws(effective_errors, count=sample.error_count, kind="errors")
    return DrawsBehind(effective=effective_errors, note=note)


def _allowance_for_few(sample: SampleSummary) -> float:
    """How much of the allowance for few draws applies, from 0 (none) to 1 (in full).

    By the errors or the right samples, whichever are fewer. 0 for losses other than 0/1.
    """
    if not sample.is_zero_one:
        return 0.0
    return few_draws.share_for_few(min(sample.error_draws, sample.right_draws))


def _mix_limits(few_limits: Limits, limits: Limits, few_share: float) -> Limits:
    """Limits between those for few draws and those for many; `few_share`, 0 to 1, is how much the former count."""
    few_low, few_high = few_limits
    low, high = limits
    return few_draws.mix_limit(few_low, low, few_share), few_draws.mix_limit(few_high, high, few_share)


def _size_of_missed_errors(sample: SampleSummary, loss_bound: float | None) -> float:
    """The loss of errors that were not drawn: the stated bound, or that of the largest losses seen."""
    return sample.largest_loss if loss_bound is None else max(loss_bound, sample.risk)


def _share_of_other_pairs(sample: SampleSummary, level: float) -> float:
    """Largest share of (right, wrong) pairs that may be ordered otherwise than those of the sample, all alike."""
    return float(largest_unseen_share(sample.pair_count, level))


def _gain_of_best_order(risk: float) -> float:
    """By how much the best order of 0/1 losses lowers AURC below that of a random order."""
    return risk - best_area(risk)


def _mean_weight_of_right(naurc: float, risk: float) -> float:
    """Mean rank weight of the right samples: 1 in random order, more where they are on top."""
    return max(1 + (1 - naurc) * _gain_of_best_order(risk) / (1 - risk), 1e-9)


def _largest_naurc(sample: SampleSummary, level: float) -> float:
    """NAURC with all errors on top, at the lower limit of the risk (it grows as the risk falls)."""
    draws = sample.error_draws / sample.risk
    smallest_risk = float(few_draws.beta_limits(sample.risk, draws, level)[0])
    return (worst_area(smallest_risk) - best_area(smallest_risk)) / max(
        _gain_of_best_order(smallest_risk), 1e-300
    )


def _naurc_of_few_right(naurc: float, variance: float, sample: SampleSummary, level: float) -> Limits:
    """Limits from those of the mean rank weight of the right samples, on which NAURC depends linearly."""
    naurc_per_weight = (1 - sample.risk) / _gain_of_best_order(sample.risk)
    weight = _mean_weight_of_right(naurc, sample.risk)
    draws = (weight * naurc_per_weight) ** 2 / variance
    # one right sample of mean weight is added: a single one at the bottom does not say that all are there
    smallest, largest = few_draws.gamma_limits(weight, draws, level, added=1 / sample.right_draws)
    return max(0.0, 1 - (largest - 1) * naurc_per_weight), 1 - (smallest - 1) * naurc_per_weight
