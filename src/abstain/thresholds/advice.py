"""What to tell a user whose target cannot be certified."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from abstain.thresholds import pvalues
from abstain.thresholds._calibration import Calibration
from abstain.thresholds.methods import Choice, learn_then_test, sgr
from abstain.thresholds.sequence import least_samples

_MOST = 10**12  # samples: beyond this the answer is "no number"


@dataclass(frozen=True)
class Advice:
    """What would be feasible: the smallest risk these data certify, at which coverage; how many samples would do.

    `samples` takes the risks seen for the true ones, so it is a guide and no promise; None means that by these data
    no number of samples would do (the observed risk is above the target at every coverage worth testing).
    """

    risk: float | None
    coverage: float | None
    samples: int | None

    def __str__(self) -> str:
        if self.risk is None:
            first = "No risk below the bound of the loss can be certified with these data."
        else:
            first = (
                f"The smallest risk these data certify is {self.risk:.4g}, at coverage {self.coverage:.4g}."
            )
        if self.samples is None:
            return f"{first} By the risks seen, no number of samples would reach the target: the model has to improve."
        return f"{first} By the risks seen, about {self.samples:,} samples would do."


def advise(cal: Calibration, risk: float, delta: float, method: str) -> Advice:
    """Look for a larger risk that passes, and for more samples that would."""
    best = _smallest_risk(cal, risk, delta, method)
    needed = _samples(cal, risk, delta)
    if best is None:
        return Advice(None, None, needed)
    reached, choice = best
    coverage = float(cal.coverage(np.asarray([choice.accepted]))[0])
    return Advice(cal.unscaled(reached), coverage, needed)


def _smallest_risk(cal: Calibration, risk: float, delta: float, method: str) -> tuple[float, Choice] | None:
    """Bisection: passing is not strictly monotone in the target, but what is returned has passed."""
    choose = sgr if method == "sgr" else learn_then_test
    low, high = risk, min(0.999, max(2 * risk, 0.01))
    choice = choose(cal, high, delta)
    while choice.accepted is None:
        if high >= 0.999:
            return None
        low, high = high, min(0.999, 2 * high)
        choice = choose(cal, high, delta)
    found = (high, choice)
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        choice = choose(cal, middle, delta)
        if choice.accepted is None:
            low = middle
        else:
            high, found = middle, (middle, choice)
    return found


def _samples(cal: Calibration, risk: float, delta: float) -> int | None:
    """Least multiple of n at which the risk curve seen would pass somewhere at a sixth of delta."""
    count = np.unique(np.geomspace(min(20, cal.n), cal.n, 200).astype(np.int64))
    mass = np.maximum(cal.ranked.cum_weight[count], 1e-300)
    # one loss more than was seen, since the best of many places looks too good
    mean = (cal.ranked.cum_loss[count] + cal.ranked.cum_weight[-1] / cal.n) / mass
    if not (mean < risk).any():
        mean = cal.ranked.cum_loss[count] / mass
    share, mean = count[mean < risk] / cal.n, mean[mean < risk]
    if not len(share) or risk <= 0:
        return None
    test = pvalues.binomial if cal.ranked.zero_one else pvalues.hoeffding_bentkus

    def passes(n: float) -> bool:
        k = np.floor(share * n)
        errors = np.ceil(mean * k) if cal.ranked.zero_one else mean * k
        return bool((test(errors, k, risk) <= delta / 6).any())

    low, high = 1.0, max(2.0, least_samples(risk, delta))
    while not passes(high):
        low, high = high, 2 * high
        if high > _MOST:
            return None
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return max(cal.n + 1, _round_up(high))


def _round_up(x: float) -> int:
    """Two significant digits, upwards: more would pretend to know."""
    unit = 10 ** max(0, math.floor(math.log10(x)) - 1)
    return int(math.ceil(x / unit) * unit)
