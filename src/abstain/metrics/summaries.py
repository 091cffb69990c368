"""What an error bar is made of: the scale of a metric, the spread of an estimate, and a summary of the sample."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

Limits = tuple[float, float]


class Scale(NamedTuple):
    """The scale on which an interval is symmetric: "normal" (plain), "log", or "logit" of the range [low, high].

    All methods take numbers or arrays.
    """

    name: str
    low: float = 0.0
    high: float = 1.0

    def scaled(self, factor: float) -> Scale:
        """The same scale for values in other units."""
        return Scale(self.name, self.low * factor, self.high * factor)

    def contains(self, value: Any) -> Any:
        """Does a value lie inside the range of the scale?"""
        if self.name == "log":
            return value > 0
        return (self.low < value) & (value < self.high) | (self.name == "normal")

    def derivative(self, value: Any) -> Any:
        """Derivative of the scale at a value."""
        if self.name == "log":
            return 1 / value
        if self.name == "normal":
            return 1.0 + 0 * value
        return (self.high - self.low) / ((value - self.low) * (self.high - value))

    def shift(self, value: Any, distance: Any) -> Any:
        """The value that lies `distance` away from `value`, measured on the scale."""
        if self.name == "normal":
            return value + distance
        factor = np.exp(np.minimum(distance, 700.0))
        if self.name == "log":
            return value * factor
        odds = (value - self.low) / (self.high - value) * factor
        return self.low + (self.high - self.low) * odds / (1 + odds)


class SampleSummary(NamedTuple):
    """What limits must know of a sample besides the sums of its influences.

    Counts of weighted samples are effective numbers: as many of equal weight would say as much, (sum w)^2 / sum w^2.

    Attributes
    ----------
    sample_count : int
        Samples, as printed.
    unit_count : int
        Independent draws: samples, or clusters.
    effective_draws : float
        The same as an effective number.
    is_zero_one : bool
        Are all losses 0 or 1 (in units of `error_size`)?
    has_negative_loss : bool
        Is any loss below 0?
    risk : float
        Mean loss.
    error_count, right_count : float
        Errors and right samples of a 0/1 loss; of other losses `error_count` is (sum w l)^2 / sum (w l)^2.
    pair_count : float
        Disjoint pairs of a right sample and an error.
    largest_cluster_ratio : float
        Mass of the largest cluster over that of the mean one.
    error_size : float
        One unit of the losses, in the user's units: losses 0 and c are 0/1 losses in units of c.
    largest_loss : float
        About the largest loss, in units of `error_size`: sum w^4 l^4 / sum w^4 l^3.
    error_draws, right_draws : float
        Independent draws of an error, and of a right sample: as the counts, or so many equal clusters.
    """

    sample_count: int
    unit_count: int
    effective_draws: float
    is_zero_one: bool
    has_negative_loss: bool
    risk: float
    error_count: float = 0.0
    pair_count: float = 1.0
    largest_cluster_ratio: float = 1.0
    right_count: float = 0.0
    error_size: float = 1.0
    largest_loss: float = 1.0
    error_draws: float = 0.0
    right_draws: float = 0.0

    def largest_unseen_share(self, level: float) -> float:
        """Largest share of the population that no unit of the sample shows, with probability `level`."""
        return min(1.0, self.largest_cluster_ratio * float(largest_unseen_share(self.effective_draws, level)))


class EstimateSpread(NamedTuple):
    """An estimate and how much it varies, from sums over independent units (samples or clusters).

    v = w IF / W is what a unit does to the estimate, and its contribution z = w alpha l / W is what its losses add,
    with alpha the rank weight of a sample.

    Attributes
    ----------
    estimate : float
        The metric.
    variance : float
        Sum of v^2, the squared standard error.
    variance_of_variance : float
        How uncertain `variance` itself is: the sum of v^4 less (sum of v^2)^2 / n.
    contribution_sum, squared_contribution_sum : float
        Sums of z and of z^2 over units; they say how many errors the estimate rests on (`effective_errors`).
    less_biased_estimate : float or None
        What the interval is built around; None: `estimate`.
    variance_from_errors : float
        The part of `variance` that errors of a 0/1 loss make up; nan for other losses.
    hidden_variance : float or None
        Variance that few errors, or few right samples, do not show, on top of `variance`. It is known for a mean over
        groups; None: a `LimitRule` computes it when limits are made.
    """

    estimate: float
    variance: float
    variance_of_variance: float
    contribution_sum: float = 0.0
    squared_contribution_sum: float = 0.0
    less_biased_estimate: float | None = None
    variance_from_errors: float = math.nan
    hidden_variance: float | None = None

    def scaled(self, factor: float) -> EstimateSpread:
        """The same spread for losses multiplied by `factor`, of a metric that is then multiplied by it too.

        `factor` is positive; the object itself is not changed. Contributions are what the losses of a sample or cluster
        add to the metric. The less biased estimate is None where there is none.

        Variances are multiplied by its square, also the hidden variance, which few draws do not show (None where it is
        not known yet), and the variance of the variance by its fourth power.
        """
        if factor == 1:
            return self
        less_biased = self.less_biased_estimate
        hidden = self.hidden_variance
        return self._replace(
            estimate=factor * self.estimate,
            variance=factor**2 * self.variance,
            variance_of_variance=factor**4 * self.variance_of_variance,
            contribution_sum=factor * self.contribution_sum,
            squared_contribution_sum=factor**2 * self.squared_contribution_sum,
            less_biased_estimate=None if less_biased is None else factor * less_biased,
            variance_from_errors=factor**2 * self.variance_from_errors,
            hidden_variance=None if hidden is None else factor**2 * hidden,
        )

    @property
    def standard_error(self) -> float:
        """Square root of the variance."""
        return math.sqrt(self.variance)

    @property
    def effective_errors(self) -> float:
        """As many errors of equal rank weight would say as much: (sum z)^2 / sum z^2; 0 without errors."""
        if self.squared_contribution_sum <= 0:
            return 0.0
        return (self.contribution_sum / math.sqrt(self.squared_contribution_sum)) ** 2


def largest_unseen_share(draws: Any, level: float) -> Any:
    """Largest probability of an event that none of so many draws showed, with probability `level`."""
    return -np.expm1(math.log1p(-level) / draws)


def worst_area(risk: float) -> float:
    """Largest AURC of 0/1 losses with this risk: all errors on top."""
    return risk * (1 - math.log(risk)) if risk > 0 else 0.0


def best_area(risk: float) -> float:
    """Smallest AURC of 0/1 losses with this risk: all errors at the bottom."""
    return risk + (1 - risk) * math.log1p(-risk) if risk < 1 else 1.0


def best_accepted_area(risk: float, first: float) -> float:
    """Area under the accepted loss per sample, from coverage `first` to 1, of 0/1 losses with all errors at the bottom.

    The accepted loss at coverage c is max(0, c - (1 - risk)).
    """
    start = max(1 - risk, first)
    return (1 - start) * ((1 + start) / 2 - (1 - risk))


def worst_accepted_area(risk: float, first: float) -> float:
    """Area under the accepted loss per sample, from coverage `first` to 1, of 0/1 losses with all errors on top.

    The accepted loss at coverage c is min(c, risk).
    """
    all_accepted_from = max(risk, first)
    return (all_accepted_from**2 - first**2) / 2 + risk * (1 - all_accepted_from)


def smallest_rejection_ratio(risk: float, max_rejection: float) -> float:
    """The prediction rejection ratio of 0/1 losses with all errors on top; -1 where everything may be rejected.

    It falls as the risk grows, from 1 - 2 / (2 - max_rejection) where errors are rare to 1 - 2 / max_rejection, the
    limit where nearly all are wrong. `max_rejection` is the largest share that may be rejected, in (0, 1].

    The ratio is (random - actual) / (random - best), of the areas under the loss accepted per sample of all, for errors
    in random order, all on top (the actual and largest area here) and all at the bottom (the best and smallest).
    """
    first_coverage = 1 - max_rejection  # areas under the accepted loss are taken from this coverage to 1
    random_area = risk * (1 - first_coverage**2) / 2  # in random order the accepted loss is risk * coverage
    smallest_area = best_accepted_area(risk, first_coverage)
    # no order is better than another, or the difference rounds to 0: the limit for nearly all wrong
    if not 0 < risk < 1 or random_area <= smallest_area:
        return 1 - 2 / max_rejection
    largest_area = worst_accepted_area(risk, first_coverage)
    return 1 - (largest_area - smallest_area) / (random_area - smallest_area)


def worst_partial_area(risk: float, low: float, high: float) -> float:
    """Largest mean selective risk between two coverages: with all errors on top it is min(1, risk / coverage)."""
    if risk <= 0:
        return 0.0
    all_wrong = max(min(risk, high) - low, 0.0)
    start = max(risk, low)
    diluted = risk * math.log(high / start) if start < high else 0.0
    return (all_wrong + diluted) / (high - low)


def best_partial_area(risk: float, low: float, high: float) -> float:
    """Smallest mean selective risk between two coverages, with all errors at the bottom.

    Up to coverage 1 - risk the selective risk is 0, beyond it 1 - (1 - risk) / coverage.
    """
    if risk >= 1:
        return 1.0
    start = max(1 - risk, low)
    if start >= high:
        return 0.0
    return (high - start - (1 - risk) * math.log(high / start)) / (high - low)
