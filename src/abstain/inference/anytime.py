r"""Intervals and p-values that hold at every look, while samples are still coming in.

A 95% interval for one look at n samples is wrong more and more often if it is looked at again and again. An asymptotic
confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas) holds at all looks together: with standard error
s at n samples it is the estimate plus or minus

.. math:: s\,\sqrt{\frac{2(\tau+1)}{\tau}\,\ln\frac{\sqrt{\tau+1}}{\alpha}}, \qquad
          \tau = n\,\frac{-2\ln\alpha_0 + \ln(-2\ln\alpha_0) + 1}{n_0}.

It is narrowest near the planned size :math:`n_0`, which must be chosen before the first look and kept;
:math:`\alpha_0` is 1 - level. The width above is that of an interval for one look at a higher level. So `AnytimeRule`
converts levels and p-values, and everything else (scales, Student's t, few errors, bounds) is as for one look.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from abstain._check import check_count
from abstain.errors import InputError

DEFAULT_PLANNED = 1000  # samples; a plan that is wrong by a factor of ten widens intervals by about a quarter
_HIGHEST_LEVEL = 1 - 1e-14  # quantiles at higher levels are beyond the precision of a float


class AnytimeRule(NamedTuple):
    """Converts between levels that hold at one look and levels that hold at every look.

    Attributes
    ----------
    planned : int
        Number of samples at which the intervals are narrowest.
    level : float
        Level that the plan is for; other levels (of several pairs, corrected) keep the same plan.
    """

    planned: int
    level: float

    def time(self, n: Any) -> Any:
        r"""The number of samples on the scale of the plan, :math:`\tau` in the module's formula."""
        log_term = -2 * math.log(1 - self.level)
        return np.asarray(n) * (log_term + math.log(log_term) + 1) / self.planned

    def level_of_one_look(self, level: Any, n: Any) -> Any:
        """Level of an interval for one look that is as wide as the one at `level` for every look, at n samples.

        Numbers or arrays. At most 1 - 1e-14, which early looks at very few samples may reach.
        """
        from scipy.special import ndtr

        tau = self.time(n)
        quantile = np.sqrt(2 * (tau + 1) / tau * np.log(np.sqrt(tau + 1) / (1 - np.asarray(level))))
        return np.minimum(1 - 2 * ndtr(-quantile), _HIGHEST_LEVEL)

    def p_value(self, p_value: Any, n: Any) -> Any:
        """P-value that holds at every look, from the two-sided one for a single look at n samples.

        It is below 1 - level exactly where the interval for every look excludes the tested value.
        """
        from scipy.special import ndtri

        tau = self.time(n)
        quantile = -ndtri(np.asarray(p_value) / 2)
        return np.minimum(np.sqrt(tau + 1) * np.exp(-np.square(quantile) * tau / (2 * (tau + 1))), 1.0)


def check_anytime(function: str, anytime: bool, planned: Any, level: float) -> AnytimeRule | None:
    """Check the user's arguments for results that are looked at again and again while samples come in.

    Returns the rule by which intervals and tests hold at every look, or None for a single look.

    Parameters
    ----------
    function : str
        Named in messages.
    anytime : bool
        Shall intervals and tests hold at every look (evaluation of the samples that came in so far)?
    planned : int or None
        Number of samples at which one hopes to stop, where intervals are narrowest; None for `DEFAULT_PLANNED`.
    level : float
        Of the intervals, two-sided, checked before to lie in (0, 1).

    Raises
    ------
    InputError
        If there is a planned size without `anytime`, if it is not a whole number above 0, or for a level below 0.5,
        for which the rule has no solution.
    """
    if not anytime:
        if planned is not None:
            raise InputError(
                f"{function}: `planned` goes with `anytime=True`, got {planned!r} alone. Add it."
            )
        return None
    if level < 0.5:
        raise InputError(f"{function}: `level` must be at least 0.5 with `anytime=True`, got {level:g}.")
    # `DEFAULT_PLANNED` is 1,000 samples; `check_count` raises unless `planned` is a whole number above 0
    size = DEFAULT_PLANNED if planned is None else check_count(function, "planned", planned)
    return AnytimeRule(planned=size, level=level)
