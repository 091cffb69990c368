"""Arrays in, arrays out: blocks, weights, estimators, curves. No checks, no input or output."""
