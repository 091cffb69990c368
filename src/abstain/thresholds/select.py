"""`select_threshold`: which threshold to ship, and what it promises in words."""

from __future__ import annotations

from typing import NamedTuple, TypedDict, Unpack, get_args, overload

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_choice, check_fraction, check_nonnegative, check_risk
from abstain.errors import InputError
from abstain.metrics._sample import group_codes
from abstain.thresholds import calibration
from abstain.thresholds.calibration import Calibration, Form, Method, advise, bisect, calibrate
from abstain.thresholds.monitoring import Reference
from abstain.thresholds.testing import coverage_band, upper_limit
from abstain.thresholds.threshold import GroupThresholds, Threshold

_DRAWS = "calibration and later data being independent draws from one population"
_CLUSTERS = (
    "calibration and later clusters being independent draws from one population, whatever samples of one cluster have "
    "in common, and none larger than the largest here ({most:g})"
)
_WEIGHTED = (
    "if the sample weights are, up to a factor, the exact density ratio of later to calibration data, and no weight "
    "of that population is larger than the largest seen here ({top:.4g})"
)


class Goal(NamedTuple):
    """What was asked for: "risk", "coverage" or "cost", how much of it, how surely, and by which method."""

    form: Form
    target: float
    delta: float
    method: Method


def guarantee(cal: Calibration, goal: Goal) -> str | None:
    """The promise of a threshold that was found, or None."""
    form, target, delta, method = goal
    noun = "error rate" if cal.ranked.zero_one and (cal.low, cal.high) == (0.0, 1.0) else "mean loss"
    weight = cal.ranked.weight
    if form == "cost" or method == "empirical" or (form == "coverage" and weight is not None):
        return None
    over, draws = f"{cal.n} calibration samples", _DRAWS
    if cal.clusters is not None:
        over = f"{cal.clusters.number} calibration clusters ({cal.n} samples)"
        draws = _CLUSTERS.format(most=cal.clusters.largest)
    chance = f"With probability at least {1 - delta:.4g} over the {over},"
    if form == "coverage":
        what = f"at least a share {target:.4g} of later samples is accepted"
        return f"{chance} {what}, {draws}. Nothing is promised about the risk."
    if method == "crc":
        sets = over.replace(" calibration", "")
        return (
            f"On average over calibration sets of {sets}, the loss of the accepted per sample of all "
            f"(accepted or not) is at most {target:.4g}, {draws}. This is not the {noun} of the accepted, "
            f"which may be larger, and no probability of failure is stated."
        )
    if weight is not None:
        what = _WEIGHTED.format(top=float(weight.max()))
        what += f", {draws}" if cal.clusters is not None else ""
        return f"{chance} the {noun} of the accepted among later data is at most {target:.4g}, {what}."
    promise = f"{chance} the {noun} of the accepted is at most {target:.4g}, {draws}"
    if method == "sgr":
        return f"{promise}, and the risk never falling as coverage grows (the search skips what it does not test)."
    ties = "ties are accepted or rejected together"
    return f"{promise}. Nothing is assumed about the shape of the risk; {ties}."


_NOTES = {  # by what decided, for a threshold that was found and for none
    "cost": (
        "Least cost on the calibration data itself; later data will cost a little more.",
        "Rejecting everything is cheapest on the calibration data.",
    ),
    "empirical": (
        "Chosen on the calibration risk itself, which errs on the low side; about half of such thresholds exceed the "
        "target.",
        "At no threshold is the calibration risk at most the target.",
    ),
    "crc": (None, "Even the smallest block of samples has too much loss for the target."),
}
_ESTIMATED = "With importance weights the coverage is an estimate; nothing is promised."
_CERTIFIED = (None, "No threshold can be certified at this risk and delta with these data.")


def note(cal: Calibration, goal: Goal, found: bool) -> str | None:
    """What to know besides, or None."""
    if goal.form == "coverage":
        return None if cal.ranked.weight is None else _ESTIMATED
    told = _NOTES.get("cost" if goal.form == "cost" else goal.method, _CERTIFIED)
    return told[0] if found else told[1]


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
    clusters: Array | None


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
    clusters: Array | None = None,
) -> Threshold | GroupThresholds:
    r"""The threshold with the largest coverage that keeps a promise; `value` is None when none does.

    .. math:: P\left(E[\ell \mid g \ge t] > r\right) \le \delta

    over calibration sets, for `risk=r`. Equal confidences are accepted or rejected together. The data must not have
    been used to train or tune the model or its confidence. Give exactly one of `risk`, `coverage`, `cost`.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        One loss and one confidence (higher = surer) per calibration sample.
    risk : float
        The mean loss of the accepted is at most this, by `method`.
    coverage : float in (0, 1]
        The least threshold-step that accepts such a share of the population with probability 1 - delta
        (method="ltt"), or of these samples ("empirical").
    cost : float
        Least loss of the accepted plus this for each rejected (Chow) on these samples; no guarantee.
    delta : float in (0, 1)
        The probability with which the promise may fail.
    method : {"ltt", "sgr", "crc", "empirical"}
        "ltt": sequential exact tests, no assumption but independent draws from one population. "sgr": Geifman &
        El-Yaniv's binary search, put right, which needs a risk that never falls with coverage. "crc": conformal risk
        control, which bounds :math:`E[\ell\,1(g \ge t)]`, the loss of the accepted per sample of *all*, on average
        over calibration sets (no delta). "empirical": no guarantee.
    bounded : (float, float)
        Between which values losses lie, known beforehand. A loss that takes only these two values is tested exactly
        (binomial), any other by Hoeffding-Bentkus and betting bounds.
    groups : array, optional
        One label per sample: a threshold for each group, at delta / groups.
    sample_weight : array, optional
        Importance weights (density of later data over calibration data, up to a factor); what is left of the
        guarantee then is said in `guarantee`.
    clusters : array, optional
        One label per sample (patient, document): samples of one cluster may depend on each other. The promise of
        "ltt" and "crc" is then made for whole clusters, a twentieth of which only say where to look. It takes many
        clusters, not many samples: without any error at all, 5% at delta = 0.05 needs about 85 of them.

    Returns
    -------
    Threshold
        With `groups`, a `GroupThresholds`.

    Examples
    --------
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
    if form == "coverage" and method not in ("ltt", "empirical"):
        raise InputError(f'{_NAME}: `coverage` takes method "ltt" or "empirical", got {method!r}.')
    if sample_weight is not None and method in ("sgr", "crc"):
        raise InputError(f'{_NAME}: method {method!r} takes no `sample_weight`. Use "ltt" or "empirical".')
    if clusters is not None and method == "sgr":
        raise InputError(f'{_NAME}: method "sgr" needs independent samples, not `clusters`. Use "ltt".')
    goal = Goal(form, target, level, method)
    if form == "cost" and np.array_equal(bounded, (0, 1)):
        bounded = _seen_bounds(loss)
    units = None if clusters is None else group_codes(_NAME, clusters, np.shape(loss), "clusters")[1]
    if groups is None:
        return _select(calibrate(_NAME, loss, confidence, sample_weight, bounded, units), goal)
    given = (loss, confidence, sample_weight, units)
    columns = [None if x is None else np.asarray(to_host(x)) for x in given]
    labels, codes = group_codes(_NAME, groups, np.shape(loss))
    each, found = goal._replace(delta=level / len(labels)), {}
    for code, label in enumerate(labels):
        l, g, w, c = (None if x is None else x[codes == code] for x in columns)
        found[label] = _select(calibrate(_NAME, l, g, w, bounded, c), each)
    return GroupThresholds(found, level)


def _form(risk: float | None, coverage: float | None, cost: float | None) -> tuple[Form, float]:
    asked: dict[Form, float | None] = {"risk": risk, "coverage": coverage, "cost": cost}
    given = {name: x for name, x in asked.items() if x is not None}
    if len(given) != 1:
        names = ", ".join(given) or "none"
        raise InputError(f"{_NAME}: give exactly one of `risk`, `coverage`, `cost`, got {names}.")
    [(name, value)] = given.items()
    if name == "coverage":
        return name, check_fraction(_NAME, name, value)
    if name == "cost":
        return name, check_nonnegative(_NAME, name, value)
    return name, value  # held against the bounds of the loss where these are known


def _seen_bounds(loss: Array) -> tuple[float, float]:
    """A cost promises nothing, so it needs no bound on the loss: take what the data show."""
    values = np.asarray(to_host(loss), dtype=np.float64)
    finite = np.append(values[np.isfinite(values)], [0.0, 1.0])
    return float(finite.min()), float(finite.max())


def _choose(cal: Calibration, goal: Goal) -> calibration.Selection:
    if goal.form == "coverage":
        certain = goal.method == "ltt" and cal.ranked.weight is None
        return calibration.at_coverage(cal, goal.target, goal.delta if certain else None)
    scaled = cal.scaled(goal.target)
    if goal.form == "cost":
        return calibration.cheapest(cal, scaled)
    if goal.method in ("ltt", "sgr"):
        searched = goal.method == "sgr" and scaled < 1  # a search may miss that everything passes at 1
        choose = calibration.sgr if searched else calibration.learn_then_test
        return choose(cal, scaled, goal.delta)
    return calibration.conformal(cal, scaled) if goal.method == "crc" else calibration.empirical(cal, scaled)


def _select(cal: Calibration, goal: Goal) -> Threshold:
    if goal.form == "risk":
        goal = goal._replace(target=check_risk(_NAME, goal.target, cal.low, cal.high))
    choice = _choose(cal, goal)
    count = np.asarray([choice.accepted or 0])
    share = float(cal.coverage(count)[0])
    found = choice.accepted is not None
    tested = goal.form == "risk" and goal.method in ("ltt", "sgr")
    advice = advise(cal, cal.scaled(goal.target), goal.delta, goal.method) if tested and not found else None
    weight, clusters = cal.ranked.weight, cal.clusters
    if clusters is not None:
        weight = clusters.sums(np.ones(cal.n), np.arange(clusters.number))
    size = float(cal.n) if weight is None else float(weight.sum() ** 2 / (weight**2).sum())
    return Threshold(
        value=choice.value,
        **goal._asdict(),
        n=cal.n,
        coverage=share,
        coverage_interval=coverage_band(share, size, goal.delta) if found else (0.0, 0.0),
        risk=float(cal.risk(count)[0]) if found else None,
        risk_upper=goal.target if tested and found else _risk_upper(cal, choice.accepted, goal.delta),
        guarantee=guarantee(cal, goal) if found else None,
        note=note(cal, goal, found),
        bounded=(cal.low, cal.high),
        table=choice.table,
        reference=_reference(cal),
        advice=advice,
        clusters=None if clusters is None else clusters.number,
        largest=None if clusters is None else float(np.bincount(clusters.codes).max()),
    )


def _risk_upper(cal: Calibration, accepted: int | None, delta: float) -> float | None:
    if accepted is None or cal.ranked.weight is not None or cal.clusters is not None:
        return None
    total, count = float(cal.ranked.cum_loss[accepted]), np.asarray([accepted])
    if cal.ranked.zero_one:
        return cal.unscaled(upper_limit(total, accepted, delta))

    def passes(risk: float) -> bool:  # the p-value falls as the risk it speaks against rises
        return bool(cal.p_values(count, risk)[0] <= delta)

    return cal.unscaled(bisect(passes, total / accepted, 1.0, absolute=1e-6))


def _reference(cal: Calibration) -> Reference:
    """Some hundred confidences with the number of samples at or above each (ties included)."""
    ends, weight = cal.ranked.block_ends(), cal.ranked.weight
    shown = np.unique(np.linspace(0, len(ends) - 1, _REFERENCE_POINTS).astype(np.int64))
    at_least = cal.ranked.cum_weight[ends[shown]] / (1.0 if weight is None else weight.max())
    return Reference(cal.ranked.values_at(ends[shown]), at_least, float(at_least[-1]))
