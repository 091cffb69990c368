"""The bias of an estimator on a given risk profile, and so: which estimator at this n?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain._check import check_choice
from abstain.core.estimators import ESTIMATORS, Estimator
from abstain.theory.profiles import Panels, Profile, as_profile, panels
from abstain.theory.variance import asymptotic_deviation
from abstain.theory.weights import bias_given, check_size


def population_values(profile: Profile, grid: Panels) -> tuple[float, float]:
    """AURC and risk of a profile."""
    rho = profile.at(grid.q)
    return grid.integral(-np.log(grid.q) * rho), grid.integral(rho)


def _bias(profile: Profile, grid: Panels, n: float, estimator: str) -> float:
    return grid.integral(bias_given(1 - grid.q, grid.q, np.asarray(n), estimator) * profile.at(grid.q))


def estimator_bias(n: int, curve: Any, /, *, estimator: Estimator = "harmonic") -> float:
    r"""Bias of the plug-in estimator of AURC at sample size n: its mean less the population AURC.

    .. math:: \int_0^1 \mathrm{Bias}(\hat\alpha \mid \beta)\, E[\ell \mid \beta]\, d\beta

    Parameters
    ----------
    n : int
    curve : callable, number, Population or its name, RiskCoverageCurve, or (loss, confidence)
        The expected loss given beta. Confidence is taken to have no ties.

    Examples
    --------
    >>> round(estimator_bias(8, "quadratic"), 4), round(estimator_bias(8, "quadratic", estimator="loo"), 4)
    (0.0244, -0.0006)
    >>> abs(estimator_bias(8, "unrelated")) < 1e-12  # unbiased when loss ignores confidence
    True
    """
    check_choice("estimator_bias", "estimator", estimator, ESTIMATORS)
    size = float(check_size("estimator_bias", n))
    profile = as_profile("estimator_bias", curve)
    return _bias(profile, panels(size, profile.jumps), size, estimator)


@dataclass(frozen=True)
class ExpectedBias:
    """Bias of every estimator at one n, beside what it is to be compared with: AURC and its standard
    deviation."""

    n: int
    aurc: float
    risk: float
    standard_deviation: float
    bias: dict[Estimator, float]
    source: str

    @property
    def best(self) -> Estimator:
        """The least biased of the consistent estimators (SELE tends to AUGRC)."""
        consistent: tuple[Estimator, ...] = ("harmonic", "log", "loo")
        return min(consistent, key=lambda name: abs(self.bias[name]))

    @property
    def advice(self) -> str:
        """One sentence on whether the choice matters at this n."""
        share = (
            abs(self.bias["harmonic"]) / self.standard_deviation if self.standard_deviation else float("inf")
        )
        if share < 0.1:
            return f"harmonic is off by {share:.1%} of a standard deviation: any choice will do at this n."
        return f"harmonic is off by {share:.0%} of a standard deviation; {self.best} is the least biased."

    def frame(self) -> Any:
        """One row per estimator: bias, relative to AURC and in standard deviations."""
        from abstain._tables import frame

        names = list(self.bias)
        values = np.array([self.bias[name] for name in names])
        sd = self.standard_deviation
        return frame(
            {
                "estimator": names,
                "bias": values.tolist(),
                "relative": [v / self.aurc if self.aurc else None for v in values.tolist()],
                "in_sd": [v / sd if sd else None for v in values.tolist()],
            }
        )

    def __repr__(self) -> str:
        head = (
            f"Bias of the AURC estimators at n = {self.n} ({self.source})\n"
            f"  AURC {self.aurc:.5g}, risk {self.risk:.4g}, standard deviation of an estimate "
            f"{self.standard_deviation:.3g}"
        )
        scale = self.aurc or 1.0
        lines = [
            f"  {name:<9} {value:+.3e}  ({value / scale:+.1%} of AURC)" for name, value in self.bias.items()
        ]
        return "\n".join([head, *lines, f"  {self.advice}"])


def expected_bias(n: int, curve: Any, /) -> ExpectedBias:
    """Which estimator at this n? The bias of each, on an assumed profile or on a pilot sample.

    Parameters
    ----------
    n : int
        Size of the test set (or of the batch) the estimator will see.
    curve : callable, number, Population or its name, RiskCoverageCurve, or (loss, confidence)
        A function of beta in [0, 1] (0 = least confident) giving the chance of an error, or a pilot to read
        it from. A pilot should be several times larger than n: its own profile is taken as the population's.

    Examples
    --------
    >>> answer = expected_bias(8, "quadratic")
    >>> answer.best
    'loo'
    >>> answer
    Bias of the AURC estimators at n = 8 (Population(0.6(1-b)^2: risk 0.2, AURC 0.06667, AUGRC 0.05))
      AURC 0.066667, risk 0.2, standard deviation of an estimate 0.0783
      harmonic  +2.444e-02  (+36.7% of AURC)
      log       +1.670e-02  (+25.0% of AURC)
      loo       -5.556e-04  (-0.8% of AURC)
      sele      +2.083e-03  (+3.1% of AURC)
      2sele     +7.083e-02  (+106.2% of AURC)
      harmonic is off by 31% of a standard deviation; loo is the least biased.
    """
    size = float(check_size("expected_bias", n))
    profile = as_profile("expected_bias", curve)
    grid = panels(size, profile.jumps)
    aurc, risk = population_values(profile, grid)
    deviation = asymptotic_deviation(profile, "aurc") / np.sqrt(size)
    bias = {name: _bias(profile, grid, size, name) for name in ESTIMATORS}
    return ExpectedBias(int(size), aurc, risk, float(deviation), bias, profile.source)
