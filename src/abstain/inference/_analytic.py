"""From an estimate and its standard error to an interval: which scale, which centre, and what without spread."""

from __future__ import annotations

import numpy as np

from abstain._check import check_choice
from abstain.core import fast
from abstain.errors import InputError
from abstain.inference import bounds
from abstain.inference._scales import Scale, default_scale, fits, quantile, within
from abstain.inference._units import BOOTSTRAP_ONLY, Units
from abstain.inference.influence import Measured
from abstain.inference.results import Interval

METHODS = ("log", "logit", "normal", "bootstrap", "bca", "jackknife")


def choose_method(units: Units, method: str | None) -> str:
    """The method asked for, or the metric's own; refused where it has no meaning."""
    if method is None:
        return "bootstrap" if units.metric in BOOTSTRAP_ONLY else default_scale(units).name
    check_choice("interval", "method", method, METHODS)
    if method == "log" and bool((units.loss < 0).any()):
        raise InputError(
            'interval: `method="log"` needs losses of at least 0, got negative ones. Use "normal".'
        )
    if method == "logit" and default_scale(units).name != "logit":
        raise InputError(f'interval: `method="logit"` needs a metric of bounded range, got {units.metric}.')
    return method


def finish(
    units: Units,
    found: Measured,
    centre: tuple[float, str],
    level: float,
    method: str,
    loss_bound: float | None = None,
) -> Interval:
    """The interval around `centre` on the method's scale, or the limits that hold when there is no spread."""
    estimate, error = found.estimate, found.standard_error
    scale = Scale(method) if method in ("log", "normal") else default_scale(units)
    tiny = 1e-12 * max(abs(estimate), float(np.mean(np.abs(units.loss))))
    perfect = (
        units.metric in ("e_aurc", "naurc") and abs(estimate) <= tiny
    )  # nothing to gain: the ranking is ideal
    if error <= tiny or perfect:
        limits = bounds.limits(units, estimate, level, loss_bound)
        if limits is not None:
            return Interval(units.metric, estimate, error, *limits, level, method, units.n, "bound")
        centre = (0.0 if perfect else estimate, "estimate")
    if not fits(scale, centre[0]):
        centre = (0.0 if perfect else estimate, "estimate")
    if not fits(scale, centre[0]):
        scale, method = Scale("normal"), "normal"
    low, high = scale.around(centre[0], error, quantile(found.freedom, level))
    if method != "normal":
        low, high = within(units, low, high)
    return Interval(units.metric, estimate, error, low, high, level, method, units.n, centre[1])


def centre_of(units: Units, found: Measured, method: str) -> tuple[float, str]:
    """What the log interval is built around: for AURC the leave-one-out estimate, where its weights allow."""
    whole = units.weight is None or bool(np.all(units.weight == np.floor(units.weight)))
    options = units.area
    if method != "log" or units.metric != "aurc" or options.estimator in ("sele", "2sele") or not whole:
        return found.estimate, "estimate"
    if options.estimator == "loo":
        return found.estimate, "loo"
    if found.loo is not None:
        return found.loo, "loo"
    return float(fast.area(units.loss, units.confidence, units.weight, "loo", options.ties)), "loo"
