"""What is promised, in words; each method's sentence has one home."""

from __future__ import annotations

from abstain.thresholds._calibration import Calibration

_DRAWS = "calibration and later data being independent draws from one population"
_WEIGHTED = (
    "if the sample weights are, up to a factor, the exact density ratio of later to calibration data, and no weight "
    "of that population is larger than the largest seen here ({top:.4g})"
)


def _noun(cal: Calibration) -> str:
    return "error rate" if cal.ranked.zero_one and (cal.low, cal.high) == (0.0, 1.0) else "mean loss"


def guarantee(cal: Calibration, form: str, target: float, delta: float, method: str) -> str | None:
    """The promise of a threshold that was found, or None."""
    if form == "cost" or method == "empirical":
        return None
    if form == "coverage":
        if cal.ranked.weight is not None:
            return None
        return (
            f"With probability at least {1 - delta:.4g} over the {cal.n} calibration samples, at least a share "
            f"{target:.4g} of later samples is accepted, {_DRAWS}. Nothing is promised about the risk."
        )
    if method == "crc":
        return (
            f"On average over calibration sets of {cal.n} samples, the loss of the accepted per sample of all "
            f"(accepted or not) is at most {target:.4g}, {_DRAWS}. This is not the {_noun(cal)} of the accepted, "
            f"which may be larger, and no probability of failure is stated."
        )
    start = f"With probability at least {1 - delta:.4g} over the {cal.n} calibration samples, the {_noun(cal)} of the "
    end = f"accepted is at most {target:.4g}, {_DRAWS}"
    if cal.ranked.weight is not None:
        assert cal.ranked.weight is not None
        what = _WEIGHTED.format(top=float(cal.ranked.weight.max()))
        return f"{start}accepted among later data is at most {target:.4g}, {what}."
    if method == "sgr":
        return f"{start}{end}, and the risk never falling as coverage grows (the search skips what it does not test)."
    return f"{start}{end}. Nothing is assumed about the shape of the risk; ties are accepted or rejected together."


def note(cal: Calibration, form: str, method: str, found: bool) -> str | None:
    """What to know besides, or None."""
    if form == "cost":
        return (
            "Least cost on the calibration data itself; later data will cost a little more."
            if found
            else "Rejecting everything is cheapest on the calibration data."
        )
    if method == "empirical" and form == "risk":
        return (
            "Chosen on the calibration risk itself, which errs on the low side; about half of such thresholds exceed "
            "the target."
            if found
            else "At no threshold is the calibration risk at most the target."
        )
    if form == "coverage" and cal.ranked.weight is not None:
        return "With importance weights the coverage is an estimate; nothing is promised."
    if found:
        return None
    if method == "crc":
        return "Even the smallest block of samples has too much loss for the target."
    return "No threshold can be certified at this risk and delta with these data."
