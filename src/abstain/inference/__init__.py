"""How sure one can be of a metric: standard errors, intervals, paired tests, bands.

Samples are taken as independent draws unless `clusters` says which belong together.
"""

from abstain.inference.differences import paired_difference, unpaired_difference
from abstain.inference.intervals import interval, interval_from_blocks
from abstain.inference.records import CurveBand, Difference, GroupedIntervals, Influences, Interval
from abstain.inference.resampling import curve_band
from abstain.inference.standard_errors import influence, standard_error

__all__ = ["CurveBand", "Difference", "GroupedIntervals", "Influences", "Interval", "curve_band", "influence"]
__all__ += ["interval", "interval_from_blocks", "paired_difference", "standard_error", "unpaired_difference"]
