"""`select_threshold`: which threshold to ship."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack, get_args, overload

import numpy as np

from abstain import losses, scores
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import check_choice, check_fraction, check_nonnegative, check_risk
from abstain.errors import InputError
from abstain.metrics._sample import group_codes
from abstain.thresholds import choosing
from abstain.thresholds.advice import advise, bisect
from abstain.thresholds.calibration import Calibration, Form, Method, calibrate
from abstain.thresholds.cut import ConfidenceReadings, Units, cut_between, read_confidences
from abstain.thresholds.monitoring import Reference
from abstain.thresholds.promise import Goal, PromiseBasis, guarantee, note
from abstain.thresholds.rules import GroupThresholds, Origin, Threshold
from abstain.thresholds.testing import coverage_band, upper_limit

METHODS: tuple[Method, ...] = get_args(Method)
_REFERENCE_POINTS = 512
_NAME = "select_threshold"


class SelectOptions(TypedDict, total=False):
    """Options of `select_threshold`, for type checkers; explained there."""

    logits: Array | None
    probs: Array | None
    labels: Array | None
    score: str | Callable[..., Any] | None
    units: Units | None
    loss_name: str
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
    loss: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    /,
    *,
    groups: None = None,
    **options: Unpack[SelectOptions],
) -> Threshold: ...
@overload
def select_threshold(
    loss: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    /,
    *,
    groups: ArrayLike,
    **options: Unpack[SelectOptions],
) -> GroupThresholds: ...
def select_threshold(
    loss: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    /,
    *,
    logits: ArrayLike | None = None,
    probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    score: str | Callable[..., Any] | None = None,
    units: Units | None = None,
    loss_name: str = "zero_one",
    risk: float | None = None,
    coverage: float | None = None,
    cost: float | None = None,
    delta: float = 0.05,
    method: Method = "ltt",
    bounded: tuple[float, float] = (0, 1),
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> Threshold | GroupThresholds:
    r"""The threshold with the largest coverage that keeps a promise; `value` is None when none does.

    .. math:: P\left(E[\ell \mid g \ge t] > r\right) \le \delta

    over calibration sets, for `risk=r`. Equal confidences are accepted or rejected together. The data must not have
    been used to train or tune the model or its confidence. Give exactly one of `risk`, `coverage`, `cost`.

    Give class scores and labels (`logits=` or `probs=`, with `labels=`): the rule then knows its score and is applied
    by `accepts(logits=...)`, in any precision. Or give a loss and a confidence of your own.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        One loss and one confidence (higher = surer) per calibration sample.
    logits, probs : array, shape (n, K)
        Class scores instead of a confidence, one of them.
    labels : array, shape (n,)
        True classes, beside class scores; left out where `loss` is given.
    score : str or callable
        The confidence of class scores, "max_softmax" unless stated. Beside `confidence`: the score that these numbers
        are of, which needs `units` if it saturates.
    units : {"plain", "key"}
        Whether confidences of a named score are plain numbers (probabilities, margins, negative entropies) or the rank
        keys that `abstain.scores` returns.
    loss_name : str
        The loss of class scores, a name in `abstain.losses`.
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
    >>> logits = rng.normal(size=(2000, 3)) + 4 * np.eye(3)[rng.integers(0, 3, 2000)]
    >>> rule = select_threshold(logits=logits, labels=logits.argmax(1), risk=0.05)
    >>> rule.accepts(logits=[[9.0, 0.0, 0.0]]).tolist()
    [True]
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
    goal = Goal(form=form, target=target, delta=level, method=method)
    if loss is None and confidence is None and logits is None and probs is None:
        raise InputError(f"{_NAME}: takes a loss and a confidence, or `logits=` or `probs=` with `labels=`.")
    if logits is None and probs is None:
        origin = _origin_of_numbers(score, labels)
    else:
        loss, origin = _loss_of_classes(loss, confidence, logits, probs, labels, score, loss_name)
    rule_score = None if origin is None else origin.score
    if rule_score is None and origin is not None:  # a function of the user's own, whose name cannot be stored
        confidence = scores.by_name(score or "max_softmax")(logits, probs=probs)
        readings = read_confidences(_NAME, score=None, confidence=confidence)
    else:
        columns = {"confidence": confidence, "logits": logits, "probs": probs}
        readings = read_confidences(_NAME, rule_score, **columns, units=units)
    confidence = readings.values if confidence is None else confidence
    if form == "cost" and np.array_equal(bounded, (0, 1)):
        bounded = _seen_bounds(loss)
    cluster_codes = None  # cluster of each sample, numbered from 0
    if clusters is not None:
        cluster_codes = group_codes(_NAME, clusters, np.shape(to_host(loss)), "clusters")[1]
    if groups is None:
        calibration = calibrate(_NAME, loss, confidence, sample_weight, bounded, cluster_codes)
        return _select(calibration, goal, readings, origin)
    per_sample = [
        None if array is None else np.asarray(to_host(array))
        for array in (loss, confidence, sample_weight, cluster_codes)
    ]
    group_names, codes = group_codes(_NAME, groups, np.shape(to_host(loss)))
    group_goal = goal._replace(delta=level / len(group_names))
    thresholds = {}
    for code, group in enumerate(group_names):
        group_loss, group_confidence, group_weight, group_clusters = (
            None if array is None else array[codes == code] for array in per_sample
        )
        calibration = calibrate(_NAME, group_loss, group_confidence, group_weight, bounded, group_clusters)
        thresholds[group] = _select(calibration, group_goal, readings, origin)
    return GroupThresholds(thresholds, delta=level)


def _origin_of_numbers(score: Any, labels: Array | None) -> Origin | None:
    """Return what is known of confidences that the user computed: their score; None without a score.

    Raises InputError if there are labels, which go with class scores.
    """
    if labels is not None:
        raise InputError(
            f"{_NAME}: `labels` go with `logits=` or `probs=`. Give the loss of each sample instead."
        )
    if score is None:
        return None
    return Origin("confidence", score=scores.by_name(score).name)


def _loss_of_classes(
    loss: Array, confidence: Array, logits: Array, probs: Array, labels: Array, score: Any, loss_name: str
) -> tuple[Array, Origin]:
    """Return the loss of each sample of class scores, and what the rule is made from.

    One of `logits` and `probs` is given, shape (n, K); the loss is the user's, or that called `loss_name`, computed
    from `labels`. `score` is a name or a function; a function's name is not stored. Raises InputError if there is a
    confidence too, or unless exactly one of `loss` and `labels` is given.
    """
    if confidence is not None:
        raise InputError(f"{_NAME}: takes a confidence or class scores, one of them, got both.")
    if (loss is None) == (labels is None):
        raise InputError(f"{_NAME}: class scores need `labels=`, or a loss of your own in their place.")
    stored_score = None if callable(score) else scores.by_name(score or "max_softmax").name
    kind: Any = "logits" if probs is None else "probs"
    if loss is not None:
        return loss, Origin(kind, score=stored_score)
    loss = losses.by_name(loss_name)(logits, labels, probs=probs)
    return loss, Origin(kind, score=stored_score, loss=loss_name)


def _form(risk: float | None, coverage: float | None, cost: float | None) -> tuple[Form, float]:
    """Which of the three goals the user stated, and its value; InputError unless it is exactly one."""
    goals: dict[Form, float | None] = {"risk": risk, "coverage": coverage, "cost": cost}
    stated = {name: value for name, value in goals.items() if value is not None}
    if len(stated) != 1:
        names = ", ".join(stated) or "none"
        raise InputError(f"{_NAME}: give exactly one of `risk`, `coverage`, `cost`, got {names}.")
    [(name, value)] = stated.items()
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


def _choose(calibration: Calibration, goal: Goal) -> choosing.Selection:
    """Choose a threshold by the method that the goal names; the goal's target is on the user's scale.

    A coverage is certified only by method "ltt" without weights; otherwise it is that of the calibration data.
    """
    if goal.form == "coverage":
        is_certain = goal.method == "ltt" and calibration.ranked.weight is None
        return choosing.at_coverage(calibration, goal.target, goal.delta if is_certain else None)
    scaled_target = calibration.scaled(goal.target)
    if goal.form == "cost":
        return choosing.cheapest(calibration, scaled_target)
    if goal.method == "sgr" and scaled_target < 1:  # at 1 everything passes, which a search may miss
        return choosing.sgr(calibration, scaled_target, goal.delta)
    if goal.method in ("ltt", "sgr"):
        return choosing.learn_then_test(calibration, scaled_target, goal.delta)
    if goal.method == "crc":
        return choosing.conformal(calibration, scaled_target)
    return choosing.empirical(calibration, scaled_target)


def _select(
    calibration: Calibration, goal: Goal, readings: ConfidenceReadings, origin: Origin | None
) -> Threshold:
    """Choose a threshold and describe it: its promise, its coverage and risk, and the data behind it.

    `goal` is on the user's scale. `readings` are the calibration confidences as the user gave them, of all groups if
    there are groups; they give unit and precision. `origin` says how the confidences were made, None if not known.
    Raises InputError for a risk out of range.
    """
    if goal.form == "risk":
        target = check_risk(_NAME, goal.target, calibration.low, calibration.high)
        goal = goal._replace(target=target)
    choice = _choose(calibration, goal)
    count = np.asarray([choice.accepted or 0])
    coverage = float(calibration.coverage(count)[0])
    is_feasible = choice.accepted is not None
    is_tested = goal.form == "risk" and goal.method in ("ltt", "sgr")
    advice = None
    if is_tested and not is_feasible:
        advice = advise(calibration, calibration.scaled(goal.target), goal.delta, goal.method)
    risk_upper: float | None = goal.target
    if not (is_tested and is_feasible):
        risk_upper = _risk_upper(calibration, choice.accepted, goal.delta)
    evidence = PromiseBasis.of(calibration)
    clusters = calibration.clusters
    cluster_count = None if clusters is None else clusters.cluster_count
    largest_cluster = None
    if clusters is not None:
        largest_cluster = float(np.bincount(clusters.cluster_of_sample).max())
    bounds = (calibration.low, calibration.high)
    coverage_interval = (0.0, 0.0)
    if is_feasible:
        coverage_interval = coverage_band(coverage, _count_equal_draws(calibration), goal.delta)
    return Threshold(
        value=choice.value,
        **goal._asdict(),
        n=calibration.n,
        coverage=coverage,
        coverage_interval=coverage_interval,
        risk=float(calibration.risk(count)[0]) if is_feasible else None,
        risk_upper=risk_upper,
        guarantee=guarantee(goal, evidence, calibration.n, cluster_count, bounds) if is_feasible else None,
        note=note(goal, evidence, is_feasible),
        bounded=bounds,
        evidence=evidence,
        cut=cut_between(
            calibration.ranked, choice.accepted, readings, None if origin is None else origin.score
        ),
        table=choice.table,
        reference=_make_reference(calibration),
        advice=advice,
        clusters=cluster_count,
        largest=largest_cluster,
        origin=None if origin is None else origin.with_plain(choice.value, readings.source),
    )


def _count_equal_draws(calibration: Calibration) -> float:
    """How many equal independent draws would say as much: (sum w)^2 / sum w^2 over samples, or over clusters."""
    clusters = calibration.clusters
    weight = calibration.ranked.weight
    if clusters is not None:
        all_clusters = np.arange(clusters.cluster_count)
        weight = clusters.sum_by_cluster(np.ones(calibration.n), all_clusters)
    if weight is None:
        return float(calibration.n)
    return float(weight.sum() ** 2 / (weight**2).sum())


def _risk_upper(calibration: Calibration, accepted: int | None, delta: float) -> float | None:
    """Upper limit of the risk at a threshold that was fixed beforehand; None with weights or clusters.

    `accepted` is the number of calibration samples above the threshold, None where there is no threshold.
    """
    if accepted is None or calibration.ranked.weight is not None or calibration.clusters is not None:
        return None
    total_loss = float(calibration.ranked.accepted_loss[accepted])
    if calibration.ranked.zero_one:
        return calibration.unscaled(upper_limit(total_loss, accepted, delta))
    count = np.asarray([accepted])

    def is_rejected(scaled_risk: float) -> bool:  # the p-value falls as the risk rises
        return bool(calibration.p_values(count, scaled_risk)[0] <= delta)

    return calibration.unscaled(bisect(is_rejected, total_loss / accepted, 1.0, absolute=1e-6))


def _make_reference(calibration: Calibration) -> Reference:
    """Summarize the calibration confidences: some hundred of them, falling, and how many samples lie at or above each.

    With importance weights a sample counts as its weight over the largest one.
    """
    block_stops = calibration.ranked.row_stops()
    weight = calibration.ranked.weight
    largest_weight = 1.0 if weight is None else weight.max()
    rows = np.unique(np.linspace(0, len(block_stops) - 1, _REFERENCE_POINTS).astype(np.int64))
    count = block_stops[rows]
    samples_at_least = calibration.ranked.accepted_mass[count] / largest_weight
    return Reference(
        calibration.ranked.smallest_confidence(count), samples_at_least, float(samples_at_least[-1])
    )
