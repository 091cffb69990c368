"""Plan the size of a test set: for an interval of a given width, or to show a difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain import _tables
from abstain._check import check_choice, check_fraction, check_positive
from abstain.errors import InfeasibleError
from abstain.theory.populations import METRICS, as_profile, asymptotic_deviation, value_and_risk

_ENOUGH_ERRORS = 20  # below this many expected errors, intervals cover less than they promise


@dataclass(frozen=True)
class SamplePlan(_tables.Notebook):
    """The sample size for an interval of a given width; returned by `plan_sample_size`.

    Attributes
    ----------
    n : int
        The sample size.
    metric, method, source : str
        The metric, the kind of interval, and what the plan assumes about the population.
    width, level : float
        Width and confidence level of the interval.
    value, deviation : float
        The metric's value, and sigma, such that the standard error is sigma / sqrt(n).
    expected_loss : float
        The total loss to expect in n samples; for 0/1 losses the number of errors.

    Examples
    --------
    >>> plan_sample_size(width=0.01, curve="quadratic").level
    0.95
    """

    n: int
    metric: str
    width: float
    level: float
    method: str
    value: float
    deviation: float
    expected_loss: float
    source: str

    def __repr__(self) -> str:
        """Say how many samples are needed for which interval, from what, and where too few errors are expected.

        `self.expected_loss` is the total loss to expect in n samples, for 0/1 losses the number of errors; it is above
        0, since no plan is made without losses. `self.value` is the metric that is expected, `self.width` the length of
        its interval from end to end, and `self.level` the confidence level. `self.deviation` / sqrt(n) is the standard
        error of the metric.
        """
        note = ""
        # with fewer than 20 errors, intervals cover less than they promise
        if self.expected_loss < _ENOUGH_ERRORS:
            n_for_enough_errors = int(np.ceil(self.n * _ENOUGH_ERRORS / self.expected_loss))
            note = (
                f"\n  Only {self.expected_loss:.3g} errors are expected at this n: intervals are unreliable below "
                f"{_ENOUGH_ERRORS}; take n = {n_for_enough_errors}."
            )
        return (
            f"SamplePlan: n = {self.n} for a {self.level:.0%} interval ({self.method}) of width {self.width:g}\n"
            f"  {self.metric} {self.value:.5g}, standard deviation {self.deviation:.4g} / sqrt(n), from {self.source}\n"
            f"  Assumes independent samples from the same population, and n large enough for the normal limit.{note}"
        )


def plan_sample_size(
    *,
    width: float,
    curve: Any,
    metric: str = "aurc",
    level: float = 0.95,
    method: str = "log",
    relative: bool = False,
) -> SamplePlan:
    r"""Compute the test-set size at which the interval of a metric has the given width (upper minus lower limit).

    .. math:: n = \left(\frac{z\,\sigma}{T\,\mathrm{asinh}(w / 2T)}\right)^2 \text{ (log)},\qquad
              n = (2 z \sigma / w)^2 \text{ (normal)}

    with T the metric's value, w the width, and sigma^2 the variance of the metric's influence function.

    Parameters
    ----------
    width : float
        Full width; with `relative=True` as a share of the metric's value.
    curve : callable, number, Population or its name, RiskCoverageCurve, or (loss, confidence)
        What to assume about the population. A function, number, population or curve means 0/1 losses and a confidence
        without ties. A pilot sample has its own losses and ties, and its sampling error affects the plan.
    metric : {"aurc", "augrc", "risk"}
        The metric whose interval is planned.
    level : float
        Confidence level of the interval.
    method : {"log", "normal"}
        The interval that will be computed: on the log scale (the default of `abstain.inference.interval`) or not.
    relative : bool
        True if `width` is a share of the metric's value.

    Returns
    -------
    SamplePlan
        The size, and the numbers it was computed from.

    Raises
    ------
    InfeasibleError
        If the pilot or profile has no loss.

    Examples
    --------
    >>> plan_sample_size(width=0.01, curve="quadratic").n
    7554
    >>> plan_sample_size(width=0.01, curve=0.2, metric="risk", method="normal").n  # (2 * 1.96 * 0.4 / 0.01)^2
    24586
    """
    name = "plan_sample_size"
    check_choice(name, "metric", metric, METRICS)
    check_choice(name, "method", method, ("log", "normal"))
    level = check_fraction(name, "level", level, open_high=True)
    width = check_positive(name, "width", width)
    profile = as_profile(name, curve)
    value, risk = value_and_risk(profile, metric)
    deviation = asymptotic_deviation(profile, metric)
    if deviation == 0 or value <= 0:
        raise InfeasibleError(
            f"{name}: the pilot or profile has no loss, so it says nothing about the spread. Assume a profile with "
            f"the largest risk you fear, e.g. curve=0.01."
        )
    absolute_width = width * value if relative else width
    if method == "normal":
        half_width = absolute_width / 2
    else:
        # the limits are value * exp(+-h / value), whose distance 2 * value * sinh(h / value) is the width
        half_width = value * float(np.arcsinh(absolute_width / (2 * value)))
    # half_width = quantile * deviation / sqrt(n), solved for n
    exact_n = (_normal_quantile(0.5 + level / 2) * deviation / half_width) ** 2
    n = max(2, int(np.ceil(exact_n * (1 - 1e-12))))  # a rounding error must not add a sample
    return SamplePlan(
        n=n,
        metric=metric,
        width=absolute_width,
        level=level,
        method=method,
        value=value,
        deviation=deviation,
        expected_loss=n * risk,
        source=profile.source,
    )


def _normal_quantile(probability: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(probability))


def samples_to_tell_apart(
    difference: float, standard_error: float, n: int, /, *, level: float = 0.95, power: float = 0.8
) -> int:
    r"""Compute how many samples make a difference of this size significant with probability `power`.

    .. math:: n \left(\frac{(z_{1-a/2} + z_{power})\, se}{|difference|}\right)^2

    This is a rough guide, because it uses the observed difference as the true one.

    Parameters
    ----------
    difference, standard_error : float
        The observed difference and its standard error, on n samples.
    n : int
        The number of samples so far.
    level : float
        Confidence level of the test: a = 1 - level.
    power : float
        The probability that the test is significant.

    Returns
    -------
    int
        The total number of samples.

    Raises
    ------
    InfeasibleError
        If the difference is 0.

    Examples
    --------
    >>> samples_to_tell_apart(0.001, 0.001, 10_000)  # one standard error apart: (1.96 + 0.84)^2 times as many
    78489
    """
    check_fraction("samples_to_tell_apart", "level", level, open_high=True)
    check_fraction("samples_to_tell_apart", "power", power, open_high=True)
    if difference == 0:
        raise InfeasibleError("samples_to_tell_apart: no number of samples tells equal values apart.")
    # two-sided test: the difference must be this many standard errors, which shrink with the root of n
    sum_of_quantiles = _normal_quantile(0.5 + level / 2) + _normal_quantile(power)
    return int(np.ceil(n * (sum_of_quantiles * standard_error / abs(difference)) ** 2))
