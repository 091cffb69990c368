"""Tolerances for "equal except for rounding": one named constant for each kind of comparison.

All are relative to the size of what is compared. They are not one number, because a running sum of millions of terms
is less exact than a sum that numpy adds up in pairs, and because some comparisons must still tell single samples apart.
"""

from __future__ import annotations

# Sums of up to ten million terms, added in pairs, and products and quotients of such sums.
SUM_ROUNDING = 1e-12

# A coverage, risk or rate that falls short of a requested one by no more than this counts as reached: more than the
# error of a running sum of ten million weights, less than the share of one sample among as many.
SHARE_ROUNDING = 1e-11

# An area counts as larger than another only if the difference exceeds this: a running sum of ten million equal losses
# is off by 1e-10.
AREA_ROUNDING = 1e-10

# A paired difference, and its standard error, that are smaller than this share of the losses are zero.
DIFFERENCE_ROUNDING = 1e-13

# A sum of floats that should be a whole number, or a value that should lie in a range, may be this far off.
WHOLE_NUMBER_ROUNDING = 1e-9

# Shares and areas computed in float32.
FLOAT32_ROUNDING = 1e-6
