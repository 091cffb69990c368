"""`select_threshold`: which threshold to ship, and what it promises in words."""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack, get_args, overload

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_choice, check_fraction, check_nonnegative
from abstain.errors import InputError, ShapeError
from abstain.thresholds import calibration
from abstain.thresholds.calibration import Calibration, advise, calibrate
from abstain.thresholds.testing import coverage_band, upper_limit
from abstain.thresholds.threshold import GroupThresholds, Reference, Threshold

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


# select -------------------------------------------------------------------------------------------
#
# `select_threshold`: which threshold to ship, and what it promises.


Method = Literal["ltt", "sgr", "crc", "empirical"]
METHODS: tuple[Method, ...] = get_args(Method)
_REFERENCE_POINTS = 512
_NAME = "select_threshold"


class SelectOptions(TypedDict, total=False):
    """Options of `select_threshold`, for type checkers; explained there."""

    risk: float | None
    coverage: float | None
    cost: float | None
    delta: float
    method: Method
    bounded: tuple[float, float]
    sample_weight: Array | None


@overload
def select_threshold(
    loss: Array, confidence: Array, /, *, groups: None = None, **options: Unpack[SelectOptions]
) -> Threshold: ...
@overload
def select_threshold(
    loss: Array, confidence: Array, /, *, groups: Array, **options: Unpack[SelectOptions]
) -> GroupThresholds: ...
def select_threshold(
    loss: Array,
    confidence: Array,
    /,
    *,
    risk: float | None = None,
    coverage: float | None = None,
    cost: float | None = None,
    delta: float = 0.05,
    method: Method = "ltt",
    bounded: tuple[float, float] = (0, 1),
    groups: Array | None = None,
    sample_weight: Array | None = None,
) -> Threshold | GroupThresholds:
    r"""The threshold with the largest coverage that keeps a promise; `value` is None when none does.

    Give exactly one of `risk`, `coverage`, `cost`:

    - `risk=r`: :math:`P(E[\ell \mid g \ge t] > r) \le \delta` over calibration sets, by `method`:
      "ltt" (default) sequential exact tests, no assumption but independent draws from one population;
      "sgr" Geifman & El-Yaniv's binary search, put right, which needs a risk that never falls with coverage;
      "crc" conformal risk control: bounds :math:`E[\ell\,1(g \ge t)]`, the loss of the accepted per sample of *all*,
      on average over calibration sets (no delta); "empirical" no guarantee.
    - `coverage=c`: the least threshold-step that accepts a share c of the population with probability 1 - delta
      ("ltt"), or of these samples ("empirical").
    - `cost=d`: least loss of the accepted plus d for each rejected (Chow) on these samples; no guarantee.

    Losses must lie in `bounded` = (low, high), known beforehand. A loss that takes only these two values is tested
    exactly (binomial), any other by Hoeffding-Bentkus and betting bounds. `groups` gives a threshold per group, each
    at delta / groups. `sample_weight` are importance weights (density of later data over calibration data, up to a
    factor); what is left of the guarantee then is said in `guarantee`.

    The data must not have been used to train or tune the model or its confidence.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> g = rng.random(2000)
    >>> t = select_threshold(rng.random(2000) < 0.2 * (1 - g), g, risk=0.05)
    >>> t.feasible, t.risk < 0.05, 0.2 < t.coverage < 0.5
    (True, True, True)
    >>> select_threshold([0, 0, 0], [0.9, 0.8, 0.7], risk=0.05).value is None  # 3 samples prove nothing
    True
    """
    form, target = _form(risk, coverage, cost)
    level = check_fraction(_NAME, "delta", delta, open_high=True)
    check_choice(_NAME, "method", method, METHODS)
    _check_combination(form, method, sample_weight)
    if groups is not None:
        return _by_group(loss, confidence, groups, sample_weight, form, target, level, method, bounded)
    cal = calibrate(_NAME, loss, confidence, sample_weight, _known(form, loss, bounded))
    return _select(cal, form, target, level, method)


def _form(risk: float | None, coverage: float | None, cost: float | None) -> tuple[str, float]:
    given = [
        (name, x) for name, x in (("risk", risk), ("coverage", coverage), ("cost", cost)) if x is not None
    ]
    if len(given) != 1:
        names = ", ".join(name for name, _ in given) or "none"
        raise InputError(f"{_NAME}: give exactly one of `risk`, `coverage`, `cost`, got {names}.")
    name, value = given[0]
    if name == "coverage":
        return name, check_fraction(_NAME, name, value)
    number = float(value)
    if name == "risk" and not np.isfinite(number):
        raise InputError(f"{_NAME}: `risk` must be a finite number, got {number:g}.")
    return (name, number) if name == "risk" else (name, check_nonnegative(_NAME, name, value))


def _check_combination(form: str, method: str, sample_weight: Array | None) -> None:
    if form == "coverage" and method not in ("ltt", "empirical"):
        raise InputError(f'{_NAME}: `coverage` takes method "ltt" or "empirical", got {method!r}.')
    if sample_weight is not None and method in ("sgr", "crc"):
        raise InputError(f'{_NAME}: method {method!r} takes no `sample_weight`. Use "ltt" or "empirical".')


def _known(form: str, loss: Array, bounded: tuple[float, float]) -> tuple[float, float]:
    """A cost promises nothing, so it needs no bound on the loss: take what the data show."""
    if form != "cost" or tuple(bounded) != (0, 1):
        return bounded
    values = np.asarray(to_host(loss), dtype=np.float64)
    finite = values[np.isfinite(values)]
    return (min(0.0, float(finite.min())), max(1.0, float(finite.max()))) if finite.size else bounded


def _choose(cal: Calibration, form: str, target: float, delta: float, method: str) -> calibration.Choice:
    if form == "coverage":
        certain = method == "ltt" and cal.ranked.weight is None
        return calibration.at_coverage(cal, target, delta if certain else None)
    if form == "cost":
        return calibration.cheapest(cal, cal.scaled(target))
    risk = cal.scaled(target)
    if method == "ltt":
        return calibration.learn_then_test(cal, risk, delta)
    if method == "sgr":
        return calibration.sgr(cal, risk, delta)
    return calibration.conformal(cal, risk) if method == "crc" else calibration.empirical(cal, risk)


def _select(cal: Calibration, form: str, target: float, delta: float, method: str) -> Threshold:
    choice = _choose(cal, form, target, delta, method)
    count = np.asarray([choice.accepted or 0])
    share = float(cal.coverage(count)[0])
    found = choice.accepted is not None
    tested = form == "risk" and method in ("ltt", "sgr")
    weight = cal.ranked.weight
    size = float(cal.n) if weight is None else float(weight.sum() ** 2 / (weight**2).sum())
    return Threshold(
        value=choice.value,
        form=form,
        target=target,
        method=method,
        delta=delta,
        n=cal.n,
        coverage=share,
        coverage_interval=coverage_band(share, size, delta) if found else (0.0, 0.0),
        risk=float(cal.risk(count)[0]) if found else None,
        risk_upper=_risk_upper(cal, choice, target, delta, tested),
        guarantee=guarantee(cal, form, target, delta, method) if found else None,
        note=note(cal, form, method, found),
        bounded=(cal.low, cal.high),
        table=choice.table,
        reference=_reference(cal),
        advice=advise(cal, cal.scaled(target), delta, method) if tested and not found else None,
    )


def _risk_upper(
    cal: Calibration, choice: calibration.Choice, target: float, delta: float, tested: bool
) -> float | None:
    if choice.accepted is None:
        return None
    if tested:
        return target
    if cal.ranked.weight is not None:
        return None
    total = float(cal.ranked.cum_loss[choice.accepted])
    if cal.ranked.zero_one:
        return cal.unscaled(upper_limit(total, choice.accepted, delta))
    low, high = total / choice.accepted, 1.0
    count = np.asarray([choice.accepted])
    while high - low > 1e-6:  # the p-value falls as the risk it speaks against rises
        middle = (low + high) / 2
        low, high = (low, middle) if cal.p_values(count, middle)[0] <= delta else (middle, high)
    return cal.unscaled(high)


def _reference(cal: Calibration) -> Reference:
    """Some hundred confidences with the number of samples at or above each (ties included)."""
    ends = cal.ranked.block_ends()
    shown = np.unique(np.linspace(0, len(ends) - 1, _REFERENCE_POINTS).astype(np.int64))
    return Reference(cal.ranked.values_at(ends[shown]), ends[shown].astype(np.int64), cal.n)


def _by_group(
    loss: Array,
    confidence: Array,
    groups: Array,
    sample_weight: Array | None,
    form: str,
    target: float,
    delta: float,
    method: str,
    bounded: tuple[float, float],
) -> GroupThresholds:
    l, g, labels = np.asarray(to_host(loss)), np.asarray(to_host(confidence)), np.asarray(to_host(groups))
    w = None if sample_weight is None else np.asarray(to_host(sample_weight))
    if labels.ndim != 1 or l.shape != labels.shape or g.shape != labels.shape:
        raise ShapeError(
            f"{_NAME}: `groups` must hold one label per sample, got {labels.shape} for {l.shape}."
        )
    names = np.unique(labels)
    result = {}
    for label in names:
        mine = labels == label
        weight = None if w is None else w[mine]
        cal = calibrate(_NAME, l[mine], g[mine], weight, _known(form, l, bounded))
        result[label.item()] = _select(cal, form, target, delta / len(names), method)
    return GroupThresholds(result, delta)
