"""How large a test set do I need?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain._check import check_choice, check_fraction
from abstain.core.estimators import area
from abstain.errors import InfeasibleError, InputError
from abstain.theory.populations import METRICS, Panels, Profile, as_profile, asymptotic_deviation, panels

_ENOUGH_ERRORS = 20  # below this many expected errors, intervals cover less than they promise


@dataclass(frozen=True)
class SamplePlan:
    """Samples needed for an interval of this width; `deviation` is the sigma in sigma / sqrt(n)."""

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
            note = (
                f"\n  Only {self.expected_loss:.3g} errors are expected at this n: intervals are unreliable "
                f"below "
                f"{_ENOUGH_ERRORS}; take n = {int(np.ceil(self.n * _ENOUGH_ERRORS / self.expected_loss))}."
            )
        return (
            f"SamplePlan: n = {self.n} for a {self.level:.0%} interval ({self.method}) of width "
            f"{self.width:g}\n"
            f"  {self.metric} {self.value:.5g}, standard deviation {self.deviation:.4g} / sqrt(n), from "
            f"{self.source}\n"
            f"  Assumes independent samples from the same population, and n large enough for the normal "
            f"limit.{note}"
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
    method : {"log", "normal"}
        The interval that will be computed: on the log scale (the default of `abstain.inference.interval`) or
        not.

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
    if not (np.isfinite(width) and width > 0):
        raise InputError(f"{name}: `width` must be a positive number, got {width!r}.")
    profile = as_profile(name, curve)
    value, risk = _value(profile, metric)
    deviation = asymptotic_deviation(profile, metric)
    if deviation == 0 or value <= 0:
        raise InfeasibleError(
            f"{name}: the pilot or profile has no loss, so it says nothing about the spread. Assume a "
            f"profile with "
            f"the largest risk you fear, e.g. curve=0.01."
        )
    full = width * value if relative else width
    n = _size(value, deviation, full, level, method)
    return SamplePlan(n, metric, full, level, method, value, deviation, n * risk, profile.source)


def _size(value: float, deviation: float, width: float, level: float, method: str) -> int:
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2))
    half = width / 2 if method == "normal" else value * float(np.arcsinh(width / (2 * value)))
    return max(2, int(np.ceil((z * deviation / half) ** 2 * (1 - 1e-12))))


def _value(profile: Profile, metric: str) -> tuple[float, float]:
    """The metric and the risk of a profile; of a pilot, ties and all."""
    if profile.pilot is not None:
        rows = profile.pilot.rows()
        risk = float(rows.S[-1] / rows.W[0])
        return risk if metric == "risk" else float(
            area(rows, "sele" if metric == "augrc" else "harmonic")
        ), risk
    grid: Panels = panels(2, profile.jumps)
    rho = profile.at(grid.q)
    weight = {"aurc": -np.log(grid.q), "augrc": 1 - grid.q, "risk": np.ones_like(grid.q)}[metric]
    return grid.integral(weight * rho), grid.integral(rho)


def samples_to_tell_apart(
    difference: float, standard_error: float, n: int, /, *, level: float = 0.95, power: float = 0.8
) -> int:
    r"""How many samples a difference of this size needs to be found significant with chance `power`.

    .. math:: n \left(\frac{(z_{1-a/2} + z_{power})\, se}{|difference|}\right)^2

    The observed difference is taken for the true one, which makes this a rough guide.

    >>> samples_to_tell_apart(0.001, 0.001, 10_000)  # one standard error apart: (1.96 + 0.84)^2 times as many
    78489
    """
    from scipy.special import ndtri

    check_fraction("samples_to_tell_apart", "level", level, open_high=True)
    check_fraction("samples_to_tell_apart", "power", power, open_high=True)
    if difference == 0:
        raise InfeasibleError("samples_to_tell_apart: no number of samples tells equal values apart.")
    z = float(ndtri(0.5 + level / 2) + ndtri(power))
    return int(np.ceil(n * (z * standard_error / abs(difference)) ** 2))
