"""`select_threshold`: which threshold to ship."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict, Unpack, get_args, overload

import numpy as np

from abstain import losses, scores
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import (
    check_choice,
    check_delta,
    check_fraction,
    check_nonnegative,
    check_promised_risk,
    refuse_other_row_order,
)
from abstain.errors import InputError
from abstain.metrics._sample import group_codes, rows_of_groups
from abstain.thresholds import choosing
from abstain.thresholds.advice import Advice, advise, bisect
from abstain.thresholds.calibration import Calibration, Form, Method, array_per_sample, calibrate
from abstain.thresholds.cut import (
    CheckedConfidences,
    LearnedScore,
    Units,
    cut_between,
    is_learned,
    read_confidences,
)
from abstain.thresholds.joint import (
    Counted,
    JointGroupThresholds,
    JointThreshold,
    losses_by_promise,
    masks_of_classes,
    membership_masks,
    predicted_classes,
)
from abstain.thresholds.monitoring import Reference, spread_rows
from abstain.thresholds.promise import Goal, PromiseBasis, write_guarantee, write_note
from abstain.thresholds.rules import GroupThresholds, Origin, Threshold
from abstain.thresholds.testing import coverage_band, upper_limit

METHODS: tuple[Method, ...] = get_args(Method)
_FUNCTION_NAME = "select_threshold"


class SharedOptions(TypedDict, total=False):
    """Options of `select_threshold` that both one promise and several take, for type checkers; explained there."""

    logits: Array | None
    probs: Array | None
    labels: Array | None
    score: str | LearnedScore | Callable[..., Any] | None
    units: Units | None
    loss_name: str
    delta: float
    sample_weight: Array | None
    clusters: Array | None


class SelectOptions(SharedOptions, total=False):
    """Options of `select_threshold` for one promise."""

    risk: float | None
    coverage: float | None
    cost: float | None
    method: Method
    bounded: tuple[float, float]


class JointOptions(SharedOptions, total=False):
    """Options of `select_threshold` for several promises."""

    losses: Mapping[Any, Array] | None
    among: Mapping[Any, Array] | None
    bounded: tuple[float, float] | Mapping[Any, tuple[float, float]]


@overload
def select_threshold(
    loss: ArrayLike | None = None,
    /,
    confidence: ArrayLike | None = None,
    *,
    groups: None = None,
    **options: Unpack[SelectOptions],
) -> Threshold: ...
@overload
def select_threshold(
    loss: ArrayLike | None = None,
    /,
    confidence: ArrayLike | None = None,
    *,
    groups: ArrayLike,
    **options: Unpack[SelectOptions],
) -> GroupThresholds: ...
@overload
def select_threshold(
    loss: ArrayLike | None = None,
    /,
    confidence: ArrayLike | None = None,
    *,
    risk: Mapping[Any, float],
    groups: None = None,
    **options: Unpack[JointOptions],
) -> JointThreshold: ...
@overload
def select_threshold(
    loss: ArrayLike | None = None,
    /,
    confidence: ArrayLike | None = None,
    *,
    risk: Mapping[Any, float],
    groups: ArrayLike,
    **options: Unpack[JointOptions],
) -> JointGroupThresholds: ...
@refuse_other_row_order
def select_threshold(
    loss: ArrayLike | None = None,
    /,
    confidence: ArrayLike | None = None,
    *,
    losses: Mapping[Any, ArrayLike] | None = None,
    among: Mapping[Any, ArrayLike] | None = None,
    logits: ArrayLike | None = None,
    probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    score: str | LearnedScore | Callable[..., Any] | None = None,
    units: Units | None = None,
    loss_name: str = "zero_one",
    risk: float | Mapping[Any, float] | None = None,
    coverage: float | None = None,
    cost: float | None = None,
    delta: float = 0.05,
    method: Method = "ltt",
    bounded: tuple[float, float] | Mapping[Any, tuple[float, float]] = (0, 1),
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> Threshold | GroupThresholds | JointThreshold | JointGroupThresholds:
    r"""The threshold with the largest coverage that keeps a promise; `value` is None when none does.

    .. math:: P\left(E[\ell \mid g \ge t] > r\right) \le \delta

    over calibration sets, for `risk=r`. Equal confidences are accepted or rejected together. The data must not have
    been used to train or tune the model or its confidence. Give exactly one of `risk`, `coverage`, `cost`.

    Give class scores and labels (`logits=` or `probs=`, with `labels=`): the rule then knows its score and is applied
    by `accepts(logits=...)`, in any precision. Or give a loss and a confidence of your own.

    With a dict of risks, one threshold keeps several promises at once: `risk={"errors": 0.05, "cost": 0.2}` with
    `losses={"errors": ..., "cost": ...}`. A promise may be about some samples only (`among`). With class scores and
    labels alone, `risk={0: 0.05, 1: 0.02}` bounds the error rate of the accepted that are predicted as class 0 and as
    class 1: precisions of at least 0.95 and 0.98.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        One loss and one confidence (higher = surer) per calibration sample.
    losses : dict of arrays
        The loss of each promise, if `risk` is a dict; without it every promise has the same loss.
    among : dict of arrays of bool
        Which samples a promise is about, by its name; a promise that is not named here is about all.
    logits, probs : array, shape (n, K)
        Class scores instead of a confidence, one of them.
    labels : array, shape (n,)
        True classes, beside class scores; left out where `loss` is given.
    score : str, callable or LearnedConfidence
        The confidence of class scores, "max_softmax" unless stated. Beside `confidence`: the score that these numbers
        are of, which needs `units` if it saturates, or the learned confidence that computed them. The rule then
        refuses the values of any other, and rows that the confidence was fitted on are refused here.
    units : {"plain", "key"}
        Whether confidences of a named score are plain numbers (probabilities, margins, negative entropies) or the rank
        keys that `abstain.scores` returns.
    loss_name : str
        The loss of class scores, a name in `abstain.losses`.
    risk : float or dict of float
        The mean loss of the accepted is at most this, by `method`; a dict for several promises, by "ltt" only.
    coverage : float in (0, 1]
        The least threshold-step that accepts such a share of the population with probability 1 - delta
        (method="ltt"), or of these samples ("empirical").
    cost : float
        Least loss of the accepted plus this for each rejected (Chow) on these samples; no guarantee.
    delta : float in (0, 0.5]
        The probability with which the promise may fail: 0.05 for a promise that holds with 95%.
    method : {"ltt", "sgr", "crc", "empirical"}
        "ltt": sequential exact tests, no assumption but independent draws from one population. "sgr": Geifman &
        El-Yaniv's binary search, put right, which needs a risk that never falls with coverage. "crc": conformal risk
        control, which bounds :math:`E[\ell\,1(g \ge t)]`, the loss of the accepted per sample of *all*, on average
        over calibration sets (no delta). "empirical": no guarantee.
    bounded : (float, float) or dict of them
        Between which values losses lie, known beforehand; for several promises the same for all, or by name. A loss
        that takes only these two values is tested exactly (binomial), any other by Hoeffding-Bentkus and betting
        bounds.
    groups : array, optional
        One label per sample: a threshold for each group, at delta / groups, with all promises.
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
        With `groups`, a `GroupThresholds`; with several promises, a `JointThreshold`; with both, a
        `JointGroupThresholds`.

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
    if isinstance(risk, Mapping):
        if coverage is not None or cost is not None or method != "ltt":
            raise InputError(
                f'{_FUNCTION_NAME}: several promises take `risk` and method "ltt", not `coverage` or `cost`.'
            )
        data = _read(
            loss,
            confidence,
            losses=losses,
            logits=logits,
            probs=probs,
            labels=labels,
            score=score,
            loss_name=loss_name,
            units=units,
        )
        request = _request_jointly(data, risk, among, has_labels=labels is not None, bounded=bounded)
        level = check_delta(_FUNCTION_NAME, delta)
        n = len(np.asarray(data.ranked_by))
        clusters_of_all = (
            None if clusters is None else group_codes(_FUNCTION_NAME, clusters, (n,), "clusters").codes
        )
        weights_of_all = None
        if sample_weight is not None:
            shape = np.shape(to_host(data.ranked_by))
            weights_of_all = array_per_sample(_FUNCTION_NAME, "sample_weight", sample_weight, shape)
        if groups is None:
            rows = np.arange(n)
            return _select_jointly(data, request, rows, level, weights_of_all, clusters_of_all)
        group_names, codes = group_codes(_FUNCTION_NAME, groups, (n,))
        joint_thresholds = {}
        for group, rows in zip(group_names, rows_of_groups(codes, len(group_names))):
            group_level = level / len(group_names)
            _refuse_empty_promises(request, rows, group)
            joint_thresholds[group] = _select_jointly(
                data, request, rows, group_level, weights_of_all, clusters_of_all
            )
        return JointGroupThresholds(joint_thresholds, delta=level)
    if losses is not None or among is not None or isinstance(bounded, Mapping):
        raise InputError(
            f"{_FUNCTION_NAME}: `losses`, `among` and a dict of bounds go with a dict of risks, got risk={risk!r}."
        )
    form, target = _read_goal(risk, coverage, cost)
    level = check_delta(_FUNCTION_NAME, delta)
    check_choice(_FUNCTION_NAME, "method", method, METHODS)
    if form == "coverage" and method not in ("ltt", "empirical"):
        raise InputError(f'{_FUNCTION_NAME}: `coverage` takes method "ltt" or "empirical", got {method!r}.')
    if sample_weight is not None and method in ("sgr", "crc"):
        raise InputError(
            f'{_FUNCTION_NAME}: method {method!r} takes no `sample_weight`. Use "ltt" or "empirical".'
        )
    if clusters is not None and method == "sgr":
        raise InputError(
            f'{_FUNCTION_NAME}: method "sgr" needs independent samples, not `clusters`. Use "ltt".'
        )
    goal = Goal(form=form, target=target, delta=level, method=method)
    data = _read(
        loss,
        confidence,
        losses=None,
        logits=logits,
        probs=probs,
        labels=labels,
        score=score,
        loss_name=loss_name,
        units=units,
    )
    loss = data.loss
    confidence = data.ranked_by
    if form == "cost" and np.array_equal(bounded, (0, 1)):
        bounded = _seen_bounds(loss)
    cluster_codes = None  # cluster of each sample, numbered from 0
    if clusters is not None:
        cluster_codes = group_codes(_FUNCTION_NAME, clusters, np.shape(to_host(loss)), "clusters").codes
    if groups is None:
        calibration = calibrate(_FUNCTION_NAME, loss, confidence, sample_weight, bounded, cluster_codes)
        return _select(calibration, goal, data.checked_confidences, data.origin)
    shape = np.shape(to_host(loss))
    group_names, codes = group_codes(_FUNCTION_NAME, groups, shape)
    columns = {
        "loss": loss,
        "confidence": confidence,
        "sample_weight": sample_weight,
        "clusters": cluster_codes,
    }
    per_sample = [
        None if values is None else array_per_sample(_FUNCTION_NAME, argument, values, shape)
        for argument, values in columns.items()
    ]
    group_goal = goal._replace(delta=level / len(group_names))
    thresholds = {}
    for group, rows in zip(group_names, rows_of_groups(codes, len(group_names))):
        group_loss, group_confidence, group_weight, group_clusters = (
            None if array is None else array[rows] for array in per_sample
        )
        calibration = calibrate(
            _FUNCTION_NAME, group_loss, group_confidence, group_weight, bounded, group_clusters
        )
        thresholds[group] = _select(calibration, group_goal, data.checked_confidences, data.origin)
    return GroupThresholds(thresholds, delta=level)


class CalibrationColumns(NamedTuple):
    """What the user gave to choose a threshold from, one entry per sample."""

    loss: Any  # an array; a dict of arrays for several promises with a loss each
    ranked_by: Any  # the confidences that samples are ranked by: an array as the user gave it, or computed
    checked_confidences: CheckedConfidences  # the same in float64, with their unit and precision
    origin: Origin | None  # how the confidences were made, None if not known
    predictions: np.ndarray | None  # predicted classes, where there are class scores


def _read(
    loss: Array,
    confidence: Array,
    *,
    losses: Mapping[Any, Array] | None,
    logits: Array,
    probs: Array,
    labels: Array,
    score: Any,
    loss_name: str,
    units: Units | None,
) -> CalibrationColumns:
    """Read the calibration data from the arguments of `select_threshold` with these names.

    `losses`, the loss of each promise by its name, stands in the place of `loss`. `score` is a name, a function of the
    user's own that computes confidences from class scores, or a learned confidence. `units` says whether confidences of
    a named score are plain numbers or rank keys, so it is read where `score` names one. The values of a learned
    confidence and of a function of the user's own have no other unit. Raises InputError if something is missing or
    given twice, and for rows that a learned confidence was fitted on.

    In the result, `ranked_by` are the confidences as the user gave them, or the computed ones; `checked_confidences`
    are the same in float64, with their unit and precision. `origin` says how they were made, None if not known.
    """
    if loss is not None and losses is not None:
        raise InputError(f"{_FUNCTION_NAME}: takes a loss or `losses`, one of them, got both.")
    if loss is None and confidence is None and logits is None and probs is None:
        raise InputError(
            f"{_FUNCTION_NAME}: takes a loss and a confidence, or `logits=` or `probs=` with `labels=`."
        )
    any_loss: Any = loss if losses is None else losses
    predictions = None
    columns = {"confidence": confidence, "logits": logits, "probs": probs}
    if is_learned(score):  # a learned confidence, not the name of a score or a function
        # raises InputError for class scores: `confidence` must hold the values of the learned confidence
        checked_confidences = read_confidences(_FUNCTION_NAME, score, **columns)
        score.refuse_fitted_rows(_FUNCTION_NAME, checked_confidences.values)
        return CalibrationColumns(
            loss=any_loss,
            ranked_by=confidence,
            checked_confidences=checked_confidences,
            origin=None,
            predictions=None,
        )
    if logits is None and probs is None:
        origin = _origin_of_numbers(score, labels)
    else:
        any_loss, origin = _loss_of_classes(any_loss, confidence, logits, probs, labels, score, loss_name)
        predictions = predicted_classes(logits, probs)
    # `origin` is None for confidences without a named score; its score is None for a function of the user's own
    rule_score = None if origin is None else origin.score
    if rule_score is None and origin is not None:
        # a function, whose name cannot be stored: the rule takes its values for numbers of the user's own
        confidence = scores.by_name(score)(logits, probs=probs)
        checked_confidences = read_confidences(_FUNCTION_NAME, score=None, confidence=confidence)
    else:
        checked_confidences = read_confidences(_FUNCTION_NAME, rule_score, **columns, units=units)
    return CalibrationColumns(
        loss=any_loss,
        ranked_by=checked_confidences.values if confidence is None else confidence,
        checked_confidences=checked_confidences,
        origin=origin,
        predictions=predictions,
    )


class JointRequest(NamedTuple):
    """What was asked for by several promises; each dict is by the name of the promise."""

    losses: dict[Any, np.ndarray]  # one loss per sample, on the user's scale
    masks: dict[Any, np.ndarray | None]  # which samples the promise is about; None: all
    risks: Mapping[Any, float]  # targets on the scale of the losses, not checked yet
    bounds: dict[Any, tuple[float, float]]  # between which values the losses lie
    by_class: bool  # are the names numbers of predicted classes?


def _request_jointly(
    data: CalibrationColumns,
    risk: Mapping[Any, float],
    among: Mapping[Any, ArrayLike] | None,
    *,
    has_labels: bool,
    bounded: Any,
) -> JointRequest:
    """Check what several promises ask for, and find the losses and samples of each.

    Parameters
    ----------
    data : CalibrationColumns
        What the user gave, one entry per sample.
    risk : mapping
        The target of each promise by its name, on the scale of its loss.
    among : mapping or None
        Masks of the samples that promises are about.
    has_labels : bool
        Was the loss computed from labels? Without `among`, the names are then predicted classes.
    bounded : (float, float) or mapping
        The bounds of every loss, or of the loss of each promise; (0, 1) for promises that are not named.

    Raises
    ------
    InputError
        For fewer than two promises, or a name without its loss.
    ShapeError
        Unless each loss, and each mask, has one entry per sample.
    """
    names = list(risk)
    if len(names) < 2:
        raise InputError(
            f"{_FUNCTION_NAME}: `risk` must name at least two promises, got {len(names)}. Give a number."
        )
    # one array for each promise; `data.loss` is a dict of them, or one array that all promises share
    loss_by_name = losses_by_promise(_FUNCTION_NAME, data.loss, names)
    # is each promise about the samples that are predicted as one class?
    by_class = among is None and has_labels
    if by_class:
        among = masks_of_classes(_FUNCTION_NAME, names, data.predictions)
    bounds = {}
    for name in names:
        bounds[name] = bounded.get(name, (0, 1)) if isinstance(bounded, Mapping) else bounded
    # of the confidences, one number per sample
    shape = np.shape(to_host(data.ranked_by))
    loss_argument = "losses" if isinstance(data.loss, Mapping) else "loss"
    return JointRequest(
        losses={
            name: array_per_sample(_FUNCTION_NAME, loss_argument, loss, shape)
            for name, loss in loss_by_name.items()
        },
        masks=membership_masks(_FUNCTION_NAME, among, names, shape[0]),
        risks=risk,
        bounds=bounds,
        by_class=by_class,
    )


def _select_jointly(
    data: CalibrationColumns,
    request: JointRequest,
    rows: np.ndarray,
    delta: float,
    sample_weight: np.ndarray | None,
    clusters: np.ndarray | None,
) -> JointThreshold:
    """Choose one threshold that keeps several promises for some of the samples, and describe it.

    `rows` are the numbers of these samples (those of a group, or all), and `delta` the probability with which some
    promise may fail. `request` holds the losses, samples, targets and loss bounds of the promises by name. `data`,
    `request`, `sample_weight` and `clusters` (numbers of clusters) are those of all samples; the last two may be None.
    Raises InputError for a risk out of bounds, and for a promise about none of the samples.

    Each promise has its target on two scales: on the user's, which is that of its loss and is used to describe the
    threshold, and on [0, 1] (`requirement.risk`), on which thresholds are certified and advice is computed.
    """
    names = list(request.risks)
    confidence = np.asarray(to_host(data.ranked_by))[rows]
    requirements = []
    goals = []
    for name in names:
        mask = request.masks[name]
        requirement, target_on_user_scale = _make_requirement(
            name,
            loss=request.losses[name][rows],
            confidence=confidence,
            mask=None if mask is None else mask[rows],
            risk=request.risks[name],
            sample_weight=None if sample_weight is None else sample_weight[rows],
            loss_bounds=request.bounds[name],
            cluster_codes=None if clusters is None else clusters[rows],
        )
        requirements.append(requirement)
        goals.append(Goal(form="risk", target=target_on_user_scale, delta=delta, method="ltt"))
    # one per promise: all have the same threshold, None if no threshold keeps all promises
    selections = choosing.certify(requirements, delta)
    promises = {}
    counted = {}
    for name, requirement, goal, selection in zip(names, requirements, goals, selections):
        advice = None
        if selection.threshold is None:
            # the selection for this promise by itself: there is advice only if even that cannot be kept
            [alone] = choosing.certify([requirement], delta)
            if alone.threshold is None:
                advice = advise(
                    requirement.counted_samples,
                    risk=requirement.risk,
                    delta=delta,
                    method="ltt",
                    counted_share=_counted_share(requirement),
                )
        promises[name] = _describe(
            requirement.all_samples, goal, selection, advice, data.checked_confidences, data.origin
        )
        counted[name] = Counted()  # a promise about all samples counts nothing
        if request.masks[name] is not None:  # it is about some samples: how many of all, and of the accepted
            accepted = 0
            if selection.threshold is not None:
                accepted = int(requirement.count_accepted(np.asarray([selection.threshold]))[0])
            counted[name] = Counted(samples=requirement.counted_samples.n, accepted=accepted)
    return JointThreshold(promises, counted, delta, by_class=request.by_class)


def _counted_share(requirement: choosing.Requirement) -> float:
    """The share of all calibration samples that a promise is about; with clusters, of clusters that hold any."""
    counted = requirement.counted_samples
    everything = requirement.all_samples
    if counted.clusters is None or everything.clusters is None:
        return counted.n / everything.n
    return counted.clusters.cluster_count / everything.clusters.cluster_count


def _refuse_empty_promises(request: JointRequest, rows: np.ndarray, group: Any) -> None:
    """Raise InputError if a promise is about none of the samples with these row numbers, those of a group."""
    for name, mask in request.masks.items():
        if mask is not None and not mask[rows].any():
            raise InputError(
                f"{_FUNCTION_NAME}: the promise {name!r} must be about some samples of every group, got none of "
                f"{group!r}."
            )


def _make_requirement(
    name: Any,
    *,
    loss: np.ndarray,
    confidence: np.ndarray,
    mask: np.ndarray | None,
    risk: float,
    sample_weight: np.ndarray | None,
    loss_bounds: tuple[float, float],
    cluster_codes: np.ndarray | None,
) -> tuple[choosing.Requirement, float]:
    """Make what has to be proved for one promise, and return it with its checked target on the user's scale.

    `loss` holds one loss per sample on the user's scale, `mask` which samples the promise is about (None: all), `risk`
    its target, on the user's scale too, `loss_bounds` the bounds of its loss, and `cluster_codes` the number of each
    sample's cluster (None without clusters). `sample_weight` is the mass of each sample (None: 1 for all). `calibrate`
    checks these, scales losses to [0, 1] and sorts by confidence. The `risk` of the requirement is the target scaled to
    [0, 1]; its `counted_samples` are those that the promise is about. Raises InputError for a promise `name` that is
    about no sample, and for a target out of bounds.
    """
    if mask is None:
        whole = calibrate(_FUNCTION_NAME, loss, confidence, sample_weight, loss_bounds, cluster_codes)
        # raises for a target out of the bounds
        target = check_promised_risk(_FUNCTION_NAME, risk, whole.lower_loss_bound, whole.upper_loss_bound)
        scaled_target = whole.to_unit_scale(target)
        return choosing.Requirement(all_samples=whole, counted_samples=whole, risk=scaled_target), target
    if not mask.any():
        raise InputError(f"{_FUNCTION_NAME}: the promise {name!r} must be about some samples, got none.")
    counted = calibrate(
        _FUNCTION_NAME,
        loss[mask],
        confidence[mask],
        None if sample_weight is None else sample_weight[mask],
        loss_bounds,
        None if cluster_codes is None else cluster_codes[mask],
    )
    target = check_promised_risk(_FUNCTION_NAME, risk, counted.lower_loss_bound, counted.upper_loss_bound)
    # All samples are needed too: they rank the thresholds, and whole clusters are tested on them. One that the promise
    # is not about gets exactly the target as its loss, so it moves no mean across the target.
    filled_loss = np.where(mask, loss.astype(np.float64), target)
    whole = calibrate(_FUNCTION_NAME, filled_loss, confidence, sample_weight, loss_bounds, cluster_codes)
    scaled_target = counted.to_unit_scale(target)
    return choosing.Requirement(all_samples=whole, counted_samples=counted, risk=scaled_target), target


def _origin_of_numbers(score: Any, labels: Array | None) -> Origin | None:
    """Return what is known of confidences that the user computed: their score; None without a score.

    `score` is the name of one. Raises InputError for an unknown name, and if there are labels, which go with class
    scores.
    """
    if labels is not None:
        raise InputError(
            f"{_FUNCTION_NAME}: `labels` go with `logits=` or `probs=`. Give the loss of each sample instead."
        )
    if score is None:
        return None
    return Origin(kind="confidence", score=scores.by_name(score).name)


def _loss_of_classes(
    loss: Array, confidence: Array, logits: Array, probs: Array, labels: Array, score: Any, loss_name: str
) -> tuple[Array, Origin]:
    """Return the loss of each sample of class scores, and what the rule is made from (score, kind of scores, loss).

    One of `logits` and `probs` is given, shape (n, K); the loss is the user's, or that called `loss_name`, computed
    from `labels`. `score` is a name, None for "max_softmax", or a function; a function's name is not stored. A loss may
    be a dict of arrays, one for each promise. Raises InputError if there is a confidence too, or unless exactly one of
    `loss` and `labels` is given.
    """
    if confidence is not None:
        raise InputError(f"{_FUNCTION_NAME}: takes a confidence or class scores, one of them, got both.")
    if (loss is None) == (labels is None):
        raise InputError(
            f"{_FUNCTION_NAME}: class scores need `labels=`, or a loss of your own in their place."
        )
    stored_score = None if callable(score) else scores.by_name(score or "max_softmax").name
    kind: Any = "logits" if probs is None else "probs"
    if loss is not None:
        return loss, Origin(kind, score=stored_score)
    loss = losses.by_name(loss_name)(logits, labels, probs=probs)
    return loss, Origin(kind, score=stored_score, loss=loss_name)


def _read_goal(risk: float | None, coverage: float | None, cost: float | None) -> tuple[Form, float]:
    """Which of the three goals the user stated, and its value; InputError unless it is exactly one."""
    goals: dict[Form, float | None] = {"risk": risk, "coverage": coverage, "cost": cost}
    stated = {name: value for name, value in goals.items() if value is not None}
    if len(stated) != 1:
        names = ", ".join(stated) or "none"
        raise InputError(f"{_FUNCTION_NAME}: give exactly one of `risk`, `coverage`, `cost`, got {names}.")
    [(name, value)] = stated.items()
    if name == "coverage":
        return name, check_fraction(_FUNCTION_NAME, name, value)
    if name == "cost":
        return name, check_nonnegative(_FUNCTION_NAME, name, value)
    return name, value  # a risk: checked later, where the bounds of the loss are known


def _seen_bounds(loss: Array) -> tuple[float, float]:
    """A cost promises nothing, so it needs no bound on the loss: take what the data show."""
    values = np.asarray(to_host(loss), dtype=np.float64)
    finite = np.append(values[np.isfinite(values)], [0.0, 1.0])
    return float(finite.min()), float(finite.max())


def _choose(calibration: Calibration, goal: Goal) -> choosing.Selection:
    """Choose a threshold by the method that the goal names; the goal's target is on the user's scale.

    `goal.form` is "risk", "coverage" or "cost", `goal.method` "ltt", "sgr", "crc" or "empirical"; a cost has one method
    only, whichever is named. A coverage is certified only by method "ltt" without weights; otherwise it is that of the
    calibration data. `calibration` holds the samples, most confident first (`ranked`), with losses scaled to [0, 1].
    """
    if goal.form == "coverage":
        is_certain = goal.method == "ltt" and calibration.ranked.weight is None
        return choosing.at_coverage(calibration, goal.target, goal.delta if is_certain else None)
    scaled_target = calibration.to_unit_scale(goal.target)
    if goal.form == "cost":  # of a rejection, in units of the loss
        return choosing.cheapest(calibration, scaled_target)
    if goal.method == "sgr":
        return choosing.sgr(calibration, scaled_target, goal.delta)
    if goal.is_certified_risk:  # "ltt", the other method that tests
        return choosing.learn_then_test(calibration, scaled_target, goal.delta)
    if goal.method == "crc":
        return choosing.conformal(calibration, scaled_target)
    return choosing.empirical(calibration, scaled_target)


def _select(
    calibration: Calibration, goal: Goal, confidences: CheckedConfidences, origin: Origin | None
) -> Threshold:
    """Choose a threshold and describe it: its promise, its coverage and risk, and the data behind it.

    `goal` is what was asked for: its `form` is "risk", "coverage" or "cost", its `target` how much of it, a risk on the
    user's scale, and its `delta` the probability with which the promise may fail. `calibration` holds the samples, most
    confident first (`ranked`), with losses scaled to [0, 1]. `confidences` are the calibration confidences as the user
    gave them, of all groups if there are groups; they give unit and precision. `origin` says how the confidences were
    made, None if not known. A rule without a threshold, for a risk that no test could certify, has advice on what could
    be. Raises InputError for a risk that is not between the bounds of the loss.
    """
    if goal.form == "risk":
        # the same risk as a float, still on the user's scale
        target = check_promised_risk(
            _FUNCTION_NAME, goal.target, calibration.lower_loss_bound, calibration.upper_loss_bound
        )
        goal = goal._replace(target=target)
    # how many samples are accepted and the threshold, both None if there is none; and the table of all thresholds
    choice = _choose(calibration, goal)
    advice = None
    # a risk that the method tests ("ltt", "sgr"), and no threshold passed
    if goal.is_certified_risk and choice.accepted_count is None:
        advice = advise(calibration, calibration.to_unit_scale(goal.target), goal.delta, goal.method)
    return _describe(calibration, goal, choice, advice, confidences, origin)


def _describe(
    calibration: Calibration,
    goal: Goal,
    choice: choosing.Selection,
    advice: Advice | None,
    confidences: CheckedConfidences,
    origin: Origin | None,
) -> Threshold:
    """Describe a threshold that was chosen: its promise, its coverage and risk, and the data behind it.

    `goal` is on the user's scale, `choice` what was chosen by it, `advice` what to do if nothing could be.
    `confidences` are the calibration confidences as the user gave them; `origin` says how they were made, None if not
    known. `calibration` holds the samples, most confident first (`ranked`), with losses scaled to [0, 1].

    Besides the threshold itself the result holds what later uses need: `table`, all thresholds that were looked at;
    `reference`, a summary of the calibration confidences, with which those of later data are compared; and in `origin`
    also the threshold as the number people know, such as a probability.
    """
    count = np.asarray([choice.accepted_count or 0])  # without a threshold nothing is accepted
    coverage = float(calibration.coverage(count)[0])
    is_feasible = choice.accepted_count is not None
    risk_upper: float | None
    if goal.is_certified_risk and is_feasible:
        risk_upper = goal.target  # the bound that the tests have certified
    else:
        # a limit for this one threshold; None without a threshold, with weights, or with clusters
        risk_upper = _limit_risk(calibration, choice.accepted_count, goal.delta)
    evidence = PromiseBasis.of(calibration)
    clusters = calibration.clusters
    cluster_count = None if clusters is None else clusters.cluster_count
    largest_cluster = None
    if clusters is not None:
        largest_cluster = float(np.bincount(clusters.cluster_of_sample).max())
    bounds = (calibration.lower_loss_bound, calibration.upper_loss_bound)
    coverage_interval = (0.0, 0.0)
    if is_feasible:
        # fewer than `calibration.n` if samples have unequal weights, or come in clusters
        equal_draws = _count_equal_draws(calibration)
        coverage_interval = coverage_band(coverage, equal_draws, goal.delta)
    return Threshold(
        value=choice.threshold,
        **goal._asdict(),
        n=calibration.n,
        coverage=coverage,
        coverage_interval=coverage_interval,
        risk=float(calibration.risk(count)[0]) if is_feasible else None,
        risk_upper=risk_upper,
        guarantee=write_guarantee(goal, evidence, calibration.n, cluster_count, bounds)
        if is_feasible
        else None,
        note=write_note(goal, evidence, is_feasible),
        bounded=bounds,
        evidence=evidence,
        cut=cut_between(
            calibration.ranked,
            choice.accepted_count,
            confidences,
            score=None if origin is None else origin.score,
        ),
        table=choice.table,
        reference=_make_reference(calibration),
        advice=advice,
        clusters=cluster_count,
        largest=largest_cluster,
        origin=None if origin is None else origin.with_plain(choice.threshold, confidences.source),
    )


def _count_equal_draws(calibration: Calibration) -> float:
    """How many equal independent draws would say as much of the coverage: (sum w)^2 / sum w^2, w the weights.

    The draws are the samples or, where there are clusters, the clusters. The weight of a cluster is the sum of the
    weights of its samples, each 1 without sample weights (`ranked.weight` is None then).
    """
    clusters = calibration.clusters
    weight = calibration.ranked.weight
    if clusters is not None:
        all_clusters = np.arange(clusters.cluster_count)
        weight = clusters.weighted_sum_by_cluster(np.ones(calibration.n), all_clusters)
    if weight is None:
        return float(calibration.n)
    return float(weight.sum() ** 2 / (weight**2).sum())


def _limit_risk(calibration: Calibration, accepted_count: int | None, delta: float) -> float | None:
    """Return an upper limit of the risk, at level 1 - delta, for a threshold that was fixed beforehand.

    The limit is on the user's scale. `calibration` holds the samples, most confident first (`ranked`), with losses
    scaled to [0, 1], of which the threshold accepts the first `accepted_count`. None if that is None (there is no
    threshold), and with weights or clusters, for which none is computed. A threshold accepts at least one sample.
    """
    ranked = calibration.ranked
    if accepted_count is None or ranked.weight is not None or calibration.clusters is not None:
        return None
    # `accepted_loss[k]` is the summed loss of the k most confident samples
    total_loss = float(ranked.accepted_loss[accepted_count])
    if ranked.zero_one:  # every loss is 0 or 1: an exact limit of the share of errors
        return calibration.to_user_scale(upper_limit(total_loss, accepted_count, delta))
    count = np.asarray([accepted_count])

    def is_rejected(scaled_risk: float) -> bool:
        """Do these samples reject "the true risk is above this one"? All larger risks are then rejected too."""
        return bool(calibration.p_values(count, scaled_risk)[0] <= delta)

    # The limit is the smallest risk that is rejected, within 1e-6. A risk of 1 has p-value 0 and is rejected; the
    # observed risk is not.
    scaled_limit = bisect(is_rejected, low=total_loss / accepted_count, high=1.0, absolute=1e-6)
    return calibration.to_user_scale(scaled_limit)


def _make_reference(calibration: Calibration) -> Reference:
    """Summarize the calibration confidences: some hundred of them, falling, and how many samples lie at or above each.

    With importance weights a sample counts as its weight over the largest one, so that no sample counts more than 1;
    `n` is then the sum of these. `calibration.ranked` holds the samples, most confident first; its `accepted_mass[k]`
    is the summed weight of the k most confident (without weights k).
    """
    block_stops = calibration.ranked.row_stops()  # samples at least as confident as each distinct confidence
    weight = calibration.ranked.weight
    largest_weight = 1.0 if weight is None else weight.max()
    # those of all distinct confidences, or of some hundred from the first to the last; the last one is all samples
    count = block_stops[spread_rows(len(block_stops))]
    samples_at_least = calibration.ranked.accepted_mass[count] / largest_weight
    return Reference(
        value=calibration.ranked.smallest_confidence(count),
        at_least=samples_at_least,
        n=float(samples_at_least[-1]),
    )
