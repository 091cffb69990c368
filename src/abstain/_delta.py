"""The largest delta of a promise, for functions and for options of the command line; needs no numpy."""

from __future__ import annotations

# a promise that fails more often than it holds is no promise; 0.5 itself remains for data of a few dozen samples
LARGEST_DELTA = 0.5


def explain_large_delta(delta: float) -> str:
    """A sentence that says what delta is if it is larger than any promise may take; otherwise the empty text."""
    if not LARGEST_DELTA < delta < 1:
        return ""
    return (
        f"delta is the probability that the promise fails: give {1 - delta:.4g} for a promise that holds with "
        f"probability {100 * delta:.4g}%."
    )
