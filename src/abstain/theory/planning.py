"""How large a test set do I need?"""

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
    """Samples needed for an interval of this width; made by `plan_sample_size`.

    Attributes
    ----------
    n : int
        The answer.
    metric, method, source : str
        What was planned, for which interval, and from what.
    width, level : float
        Of the interval.
    value, deviation : float
        The metric, and the sigma in sigma / sqrt(n).
    expected_loss : float
        Of the n samples together: for 0/1 losses how many errors to expect.

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
        note = ""
        if self.expected_loss < _ENOUGH_ERRORS:
            few = f"\n  Only {self.expected_loss:.3g} errors are expected at this n"
            enough = f"take n = {int(np.ceil(self.n * _ENOUGH_ERRORS / self.expected_loss))}"
            note = f"{few}: intervals are unreliable below {_ENOUGH_ERRORS}; {enough}."
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
    r"""The test-set size at which the interval of a metric is `width` wide (high less low).

    .. math:: n = \left(\frac{z\,\sigma}{T\,\mathrm{asinh}(w / 2T)}\right)^2 \text{ (log)},\qquad
              n = (2 z \sigma / w)^2 \text{ (normal)}

    where sigma^2 is the variance of the metric's influence function.

    Parameters
    ----------
    width : float
        Full width; with `relative=True` as a share of the metric's value.
    curve : callable, number, Population or its name, RiskCoverageCurve, or (loss, confidence)
        What is assumed. A function, number, population or curve means 0/1 losses and a confidence without
        ties; a pilot sample brings its own losses and ties, and its sampling error goes into the plan.
    metric : {"aurc", "augrc", "risk"}
        What the interval is of.
    level : float
        Of the interval.
    method : {"log", "normal"}
        The interval that will be computed: on the log scale (the default of `abstain.inference.interval`) or not.
    relative : bool
        Is `width` a share of the metric's value?

    Returns
    -------
    SamplePlan
        The size, and what it was worked out from.

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
    full = width * value if relative else width
    half = full / 2 if method == "normal" else value * float(np.arcsinh(full / (2 * value)))
    n = max(2, int(np.ceil((_quantile(0.5 + level / 2) * deviation / half) ** 2 * (1 - 1e-12))))
    return SamplePlan(n, metric, full, level, method, value, deviation, n * risk, profile.source)


def _quantile(chance: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(chance))


def samples_to_tell_apart(
    difference: float, standard_error: float, n: int, /, *, level: float = 0.95, power: float = 0.8
) -> int:
    r"""How many samples a difference of this size needs to be found significant with chance `power`.

    .. math:: n \left(\frac{(z_{1-a/2} + z_{power})\, se}{|difference|}\right)^2

    The observed difference is taken for the true one, which makes this a rough guide.

    Parameters
    ----------
    difference, standard_error : float
        Observed on n samples.
    n : int
        How many there were.
    level : float
        Of the test: a = 1 - level.
    power : float
        The chance to find it.

    Returns
    -------
    int
        Samples in all.

    Examples
    --------
    >>> samples_to_tell_apart(0.001, 0.001, 10_000)  # one standard error apart: (1.96 + 0.84)^2 times as many
    78489
    """
    check_fraction("samples_to_tell_apart", "level", level, open_high=True)
    check_fraction("samples_to_tell_apart", "power", power, open_high=True)
    if difference == 0:
        raise InfeasibleError("samples_to_tell_apart: no number of samples tells equal values apart.")
    z = _quantile(0.5 + level / 2) + _quantile(power)
    return int(np.ceil(n * (z * standard_error / abs(difference)) ** 2))
