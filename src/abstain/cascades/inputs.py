"""Read and check the stages of a cascade: losses, confidences and costs of every model and of the person."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from abstain import losses
from abstain._arrays import Array, ArrayLike, backend_of, to_host
from abstain._check import check_choice, check_mask
from abstain.cascades.search import CascadeData
from abstain.core.sorting import is_zero_one
from abstain.errors import InputError, ShapeError
from abstain.metrics._sample import group_codes
from abstain.thresholds.calibration import Calibration, calibrate
from abstain.thresholds.cut import (
    STORABLE_SCORES,
    CheckedConfidences,
    ScoreName,
    Units,
    is_learned,
    read_confidences,
)
from abstain.thresholds.joint import losses_by_promise, membership_masks, predicted_classes

PERSON = "person"
MAX_STAGES = 19  # so many still leave two thresholds per stage in a grid of a million policies
PROMISES = {"answered": "what the stages answer", "system": "all answers, the person's included"}

Promise = Literal["answered", "system"]
ByStage = Mapping[str, Any]
Stages = Mapping[str, Any]  # (loss, confidence, cost), or logits, probs, labels, score and cost by name
# cost, error (or a dict of errors by promise)
Person = tuple[float | Array, float | Array | Mapping[Any, Any]]


class Stage(NamedTuple):
    """One stage as the user described it."""

    confidences: CheckedConfidences  # its confidences, in the unit and precision they came in
    score: str | None  # name of the confidence score, if it is known; None also for a learned confidence
    loss_confidence_cost: tuple[Any, Array, Any]  # the loss may be a dict by promise
    predictions: np.ndarray | None = None  # predicted class of each sample, where class scores were given


def check_by_stage(function: str, argument: str, by_stage: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return an argument that has something for some stages as a dict; None is an empty one.

    Raises InputError, in the name of `function`, for anything but a dict, and for a key that is not in `names`, the
    names of the stages. `argument` is the name of the argument, for the message.
    """
    if by_stage is None:
        return {}
    if not isinstance(by_stage, Mapping) or not set(by_stage) <= set(names):
        given = ", ".join(map(str, by_stage)) if isinstance(by_stage, Mapping) else type(by_stage).__name__
        raise InputError(
            f"{function}: `{argument}` must be a dict by stage ({', '.join(names)}), got {given}."
        )
    return dict(by_stage)


def read_stages(
    function: str, stages: Stages, labels: Array, scores: ByStage | None, units: Units
) -> dict[str, Stage]:
    """Read every stage, computing confidences and losses where class scores are given.

    Parameters
    ----------
    function : str
        Name of the calling function, for messages.
    stages : dict
        By name, in the order in which they are asked: (loss, confidence, cost), or a dict with "logits" or "probs",
        "cost", and perhaps "score" and "loss". Whether arrays have one length is not checked here.
    labels : array or None
        True classes, for stages of class scores that do not bring their own loss.
    scores : dict or None
        Name of the score of each stage's confidences, where it is known, or the learned confidence that computed them.
    units : {"key", "plain"}
        Unit of confidences with a known score.

    Returns
    -------
    dict
        A `Stage` by name, in the same order.

    Raises
    ------
    InputError
        If there are no or too many stages, one of them is incomplete or named "person", or `scores` names another one.
    """
    # more stages (MAX_STAGES is 19) would make a grid of too many policies
    if not isinstance(stages, Mapping) or not 0 < len(stages) <= MAX_STAGES:
        rule = f"`stages` must be a dict of 1 to {MAX_STAGES} stages, (loss, confidence, cost) by name"
        raise InputError(f"{function}: {rule}.")
    # the person, who answers what no stage does, is called "person" in results
    if PERSON in stages or not all(isinstance(name, str) for name in stages):
        raise InputError(f"{function}: stages must be named by words other than {PERSON!r}.")
    score_names = check_by_stage(function, "scores", scores, tuple(stages))
    result = {}
    for name, entry in stages.items():
        title = f"{function}: stage {name!r}"
        score = score_names.get(name)
        if isinstance(entry, Mapping):  # class scores; anything else must be (loss, confidence, cost)
            result[name] = _read_class_scores(title, entry, labels, score)
        else:
            result[name] = _read_confidences(title, entry, score, units)
    return result


def _read_confidences(title: str, entry: Any, score: ScoreName | None, units: Units) -> Stage:
    """Read a stage given as (loss, confidence, cost); InputError if it is none, or the score has no known name.

    `title` begins the messages. `units` says what confidences with a known `score` are: rank keys ("key") or plain
    numbers ("plain"). A score of None means confidences of the user's own, which have one unit only. A rank key orders
    samples as its score does, but does not round to the score's largest value.

    Instead of the name of a score, `score` may be the learned confidence that computed the confidences; rows that it
    was fitted on are refused. The result then has no name of a score, and `confidences.learned_fingerprint` names the
    learned confidence. `loss_confidence_cost` of the result is as the user gave it, not checked yet: losses and costs
    are checked when the data of a promise are collected.
    """
    # raises unless the entry is a tuple or list of three
    loss, confidence, cost = _unpack(title, "(loss, confidence, cost)", entry, 3)
    if is_learned(score):  # not a name
        confidences = read_confidences(title, score, confidence=confidence)
        score.refuse_fitted_rows(title, confidences.values)  # raises if they are among these
        return Stage(confidences=confidences, score=None, loss_confidence_cost=(loss, confidence, cost))
    assert score is None or isinstance(score, str)
    if score is not None:
        # raises for a name that is none of a score that a stored rule can name
        check_choice(title, "scores", score, STORABLE_SCORES)
    confidences = read_confidences(title, score, confidence=confidence, units=units if score else None)
    return Stage(confidences=confidences, score=score, loss_confidence_cost=(loss, confidence, cost))


def _read_class_scores(title: str, entry: Mapping[str, Any], labels: Array, score: str | None) -> Stage:
    """Read a stage given as {"logits" or "probs": ..., "cost": ...}, perhaps with "score" and "loss".

    The stage's own "score" goes before `score`, the name that the user gave beside the stages; "max_softmax" if there
    is neither. Without its own loss, the 0/1 loss is computed from `labels`. `title` begins the messages. Raises
    InputError for a missing or unknown entry.

    The result is as if the user had given the confidences that the score computes: rank keys, which order samples as
    the score does, with the loss and the "cost" as they were given. `predictions` are the classes of largest score, one
    class number from 0 per sample. `labels` is None if the user gave none. A learned confidence as `score` is refused,
    since its values must be given instead of class scores.
    """
    unknown_keys = set(entry) - {"logits", "probs", "cost", "score", "loss"}
    if unknown_keys or "cost" not in entry:
        keys = ", ".join(map(str, entry)) or "nothing"
        raise InputError(f'{title} must hold "cost", "logits" or "probs" (and "score", "loss"), got {keys}.')
    if labels is None and "loss" not in entry:
        raise InputError(f"{title} has class scores: give `labels=`, or its own loss.")
    score = entry.get("score") or score or "max_softmax"
    class_scores: Any = {kind: entry.get(kind) for kind in ("logits", "probs")}
    # raises unless exactly one of the two is given
    confidences = read_confidences(title, score, **class_scores)
    loss = entry.get("loss")
    if loss is None:
        loss = losses.zero_one(class_scores["logits"], labels, probs=class_scores["probs"])
    return Stage(
        confidences=confidences,
        score=score,
        loss_confidence_cost=(loss, confidences.values, entry["cost"]),
        predictions=predicted_classes(class_scores["logits"], class_scores["probs"]),
    )


def collect_data(
    function: str,
    stages: Mapping[str, Any],
    person: Person,
    promise: str,
    bounded: tuple[float, float],
    *,
    abstained: ByStage | None = None,
    clusters: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    counted: Mapping[str, np.ndarray] | None = None,
) -> CascadeData:
    """Check all stages and the person against each other, and scale losses to [0, 1].

    Parameters
    ----------
    function : str
        Name of the calling function, for messages.
    stages : dict
        (loss, confidence, cost) by name, in the order in which the stages are asked; a cost is a number or one per
        sample.
    person : (cost, error)
        Of the person who answers what no stage does; numbers or one per sample.
    promise : {"answered", "system"}
        Whether the promise counts the answers of the stages only, or the person's too.
    bounded : (float, float)
        Between which values losses lie.
    abstained : dict, optional
        By stage, a mask of the samples without an answer.
    clusters, groups : array, optional
        One label per sample.
    counted : dict of arrays of bool, optional
        By stage, and for the person under "person": which answers the promise is about. By default all.

    Raises
    ------
    ShapeError
        If lengths differ.
    InputError
        For values out of range, or an unknown stage in `abstained`.
    """
    check_choice(function, "promise", promise, tuple(PROMISES))
    no_answer = check_by_stage(function, "abstained", abstained, tuple(stages))
    stage_losses = []
    confidences = []
    costs = []
    calibrations = []
    counted_calibrations: list[Calibration | None] = []
    first_loss: Any = None
    for name, entry in stages.items():
        title = f"{function}: stage {name!r}"
        loss, confidence, cost = _unpack(title, "(loss, confidence, cost)", entry, 3)
        loss = np.asarray(to_host(loss))
        confidence = np.asarray(to_host(confidence))
        first_loss = loss if first_loss is None else first_loss
        if loss.ndim != 1 or loss.shape != first_loss.shape or confidence.shape != first_loss.shape:
            shapes = f"{loss.shape} and {confidence.shape} for {name!r}, {first_loss.shape} for the first"
            raise ShapeError(
                f"{function}: all stages need one loss and one confidence per sample, got {shapes}."
            )
        has_answer = np.ones(len(loss), dtype=bool)
        if name in no_answer:
            mask = to_host(no_answer[name])
            has_answer = ~check_mask(function, f"abstained[{name!r}]", backend_of(loss), mask, loss)
        calibration: Any = calibrate(
            title, loss[has_answer], confidence[has_answer], sample_weight=None, bounded=bounded
        )
        calibrations.append(calibration)
        counted_calibration: Calibration | None = calibration
        if counted is not None:
            rows = np.flatnonzero(has_answer & counted[name])
            counted_calibration = None
            if len(rows):
                counted_calibration = calibrate(
                    title, loss[rows], confidence[rows], sample_weight=None, bounded=bounded
                )
        counted_calibrations.append(counted_calibration)
        stage_losses.append(np.where(has_answer, calibration.to_unit_scale(loss.astype(np.float64)), 0.0))
        confidences.append(np.where(has_answer, confidence, -math.inf).astype(np.float64))
        costs.append(_per_sample(f"{function}: the cost of {name!r}", cost, first_loss))
    person_cost, person_error = _unpack(f"{function}: `person`", "(cost, error)", person, 2)
    costs.append(_per_sample(f"{function}: the person's cost", person_cost, first_loss))
    person_loss = _per_sample(
        f"{function}: the person's error",
        person_error,
        first_loss,
        calibration.lower_loss_bound,
        calibration.upper_loss_bound,
    )
    stage_losses.append(calibration.to_unit_scale(person_loss))
    promise_includes_person = promise == "system"
    losses_in_promise = stage_losses if promise_includes_person else stage_losses[:-1]
    cluster_codes = None
    largest_cluster = 1
    if clusters is not None:
        cluster_codes = group_codes(function, clusters, first_loss.shape, "clusters").codes
        largest_cluster = int(np.bincount(cluster_codes).max())
    group_of_sample = None
    group_count = 1
    if groups is not None:
        group_labels, group_of_sample = group_codes(function, groups, first_loss.shape)
        group_count = len(group_labels)
    return CascadeData(
        names=tuple(stages),
        losses=stage_losses,
        confidences=confidences,
        costs=costs,
        calibrations=calibrations,
        counted_calibrations=counted_calibrations,
        promise_includes_person=promise_includes_person,
        is_zero_one=all(map(is_zero_one, losses_in_promise)),
        clusters=cluster_codes,
        largest_cluster=largest_cluster,
        groups=group_of_sample,
        group_count=group_count,
        is_counted=None if counted is None else [counted[name] for name in (*stages, PERSON)],
    )


def collect_promises(
    function: str,
    stages: Mapping[str, Stage],
    names: Sequence[Any],
    person: Person,
    promise: str,
    bounded: tuple[float, float] | Mapping[Any, tuple[float, float]],
    *,
    masks: Mapping[Any, Mapping[str, np.ndarray] | None],
    **columns: Any,
) -> dict[Any, CascadeData]:
    """Check the stages for each of several promises, and return its data by name.

    Parameters
    ----------
    function : str
        Name of the calling function, for messages.
    stages : dict
        A `Stage` by name, whose loss is that of all promises, or a dict by promise.
    names : sequence
        Names of the promises.
    person : (cost, error)
        Of the person; the error may be a dict by promise.
    promise : {"answered", "system"}
        Whether the promises count the answers of the stages only, or the person's too.
    bounded : (float, float) or dict of them
        Between which values losses lie; (0, 1) for a promise that a dict does not name.
    masks : dict
        By promise, a mask for each stage and for the person: which of their answers it is about; None: all.
    columns
        `abstained` (by stage, a mask of samples without an answer), `clusters` and `groups` (one label per sample).

    Raises
    ------
    InputError, ShapeError
        If a promise lacks its loss, lengths differ, or values are out of range.
    """
    losses_of_stage = {}  # by stage: a dict with the loss of each promise by its name
    for stage_name, stage in stages.items():
        title = f"{function}: stage {stage_name!r}"
        stage_loss, _, _ = stage.loss_confidence_cost  # (loss, confidence, cost)
        # by promise: the loss of each sample; one array serves all promises
        losses_of_stage[stage_name] = losses_by_promise(title, stage_loss, list(names))
    person_cost, person_error = _unpack(f"{function}: `person`", "(cost, error)", person, 2)
    person_errors = losses_by_promise(f"{function}: `person`", person_error, list(names))
    data = {}
    for name in names:
        entries = {}  # (loss, confidence, cost) by stage, with the loss of this promise
        for stage_name, stage in stages.items():
            _, confidence, cost = stage.loss_confidence_cost
            entries[stage_name] = (losses_of_stage[stage_name][name], confidence, cost)
        bounds = bounded.get(name, (0, 1)) if isinstance(bounded, Mapping) else bounded
        stated_person: Any = (person_cost, person_errors[name])
        # raises for lengths, for costs and for losses outside of the bounds; scales losses to [0, 1]
        data[name] = collect_data(
            function, entries, stated_person, promise, bounds, counted=masks[name], **columns
        )
    return data


def masks_by_promise(
    function: str,
    among: Mapping[Any, Any] | None,
    names: Sequence[Any],
    stage_names: Sequence[str],
    n: int,
    promise: str,
) -> dict[Any, dict[str, np.ndarray] | None]:
    """For each promise: which answers to n samples it is about, a mask by stage and under "person"; None: all answers.

    A promise bounds the mean loss of the answers that it is about; `names` are those of all promises. The person
    (PERSON, "person") answers what no stage does. `among` (None: no masks) holds, by promise, a mask of the samples
    that it is about, whoever answers them, or a mask by stage of the answers that it is about; further names in such a
    dict are ignored. The dict needs the person's mask too if promises include the person (`promise` "system"). By
    "answered" they are about the stages' answers only, and callers never read the person's mask. Raises InputError for
    a mask that is missing or is none, ShapeError for another length. `n` is the number of samples.
    """
    about_some = among or {}
    masks_of_answerer = {}  # by stage and "person": a mask by promise
    for answerer in (*stage_names, PERSON):
        masks = {}
        for name, values in about_some.items():
            if not isinstance(values, Mapping):
                masks[name] = values
            elif answerer in values:
                masks[name] = values[answerer]
            elif answerer == PERSON and promise == "answered":
                masks[name] = np.zeros(n, dtype=bool)  # never read
            else:
                raise InputError(
                    f"{function}: `among` must hold a mask for {answerer!r}, got none in {name!r}."
                )
        # checked, by promise; None for a promise that `masks` does not name
        masks_of_answerer[answerer] = membership_masks(function, masks, list(names), n)
    result: dict[Any, dict[str, np.ndarray] | None] = dict.fromkeys(names)
    for name in about_some:
        masks_of_promise = {}
        for answerer, masks_by_name in masks_of_answerer.items():
            mask = masks_by_name[name]
            assert mask is not None  # `about_some` names this promise
            masks_of_promise[answerer] = mask
        result[name] = masks_of_promise
    return result


def _unpack(title: str, form: str, entry: Any, length: int) -> Any:
    """`entry`, checked to be a tuple or list of this length; `form` shows it in the message."""
    if not isinstance(entry, (tuple, list)) or len(entry) != length:
        raise InputError(f"{title} must be {form}.")
    return entry


def _per_sample(
    title: str, values: Any, like: np.ndarray, low: float = 0.0, high: float = math.inf
) -> np.ndarray:
    """A number, or one per sample, as an array of the shape of `like`; finite and within [low, high]."""
    try:
        expanded = np.broadcast_to(np.asarray(to_host(values), dtype=np.float64), like.shape)
    except (TypeError, ValueError):
        raise ShapeError(f"{title} must be a number or one per sample, got {np.shape(values)}.") from None
    if not (np.isfinite(expanded).all() and expanded.min() >= low and expanded.max() <= high):
        raise InputError(f"{title} must be finite and between {low:g} and {high:g}.")
    return expanded
