"""Pictures of results: small frozen numbers with `frame()` beside `plot(ax)`; matplotlib only inside plot."""

from abstain.display.curves import CurveLine, RiskCoverageDisplay, thinned
from abstain.display.intervals import IntervalDisplay

__all__ = ["CurveLine", "IntervalDisplay", "RiskCoverageDisplay", "thinned"]
