"""On which scale an interval is symmetric: the plain one, the logarithm, or the logit of a bounded range."""

from __future__ import annotations

import math
from typing import NamedTuple

from abstain.inference._units import Units

LOG = ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc")  # never negative when the losses are not
_BOUNDED = {"auroc": (0.0, 1.0), "prediction_rejection_ratio": (-1.0, 1.0), "risk": (0.0, 1.0)}


class Scale(NamedTuple):
    """Name of the scale and, for the logit, the range it belongs to."""

    name: str
    low: float = 0.0
    high: float = 1.0

    def around(self, centre: float, standard_error: float, quantile: float) -> tuple[float, float]:
        """Interval of half-width `quantile` standard errors on this scale."""
        if self.name == "normal":
            return centre - quantile * standard_error, centre + quantile * standard_error
        if self.name == "log":
            factor = math.exp(min(700.0, quantile * standard_error / centre))
            return centre / factor, centre * factor
        below, above = centre - self.low, self.high - centre
        width = quantile * standard_error * (self.high - self.low) / (below * above)
        odds = math.log(below / above)
        return tuple(
            self.low + (self.high - self.low) / (1 + math.exp(-x)) for x in (odds - width, odds + width)
        )  # type: ignore[return-value]


def default_scale(units: Units) -> Scale:
    """The scale on which the measured coverage is best."""
    metric = units.metric
    if metric in _BOUNDED and units.zero_one:
        return Scale("logit", *_BOUNDED[metric])
    if metric in LOG and not bool((units.loss < 0).any()):
        return Scale("log")
    return Scale("normal")


def fits(scale: Scale, centre: float) -> bool:
    """Is the centre inside the range of the scale?"""
    if scale.name == "log":
        return centre > 0
    return scale.name == "normal" or scale.low < centre < scale.high


def within(units: Units, low: float, high: float) -> tuple[float, float]:
    """The part of an interval that a metric of 0/1 losses can reach."""
    a_mean = units.metric in ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc")
    if units.zero_one and a_mean and units.options.get("estimator") != "2sele":
        return max(0.0, low), min(1.0, high)
    return low, high


def quantile(freedom: float, level: float) -> float:
    """Two-sided Student quantile."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))
