"""`cascade`: which model answers, when a person does, and at what cost, with a promise on the risk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from abstain._arrays import ArrayLike
from abstain._check import check_delta, refuse_other_row_order
from abstain._risk import percent_hint
from abstain.cascades import search
from abstain.cascades.cascade_rule import Cascade, state_guarantee
from abstain.cascades.inputs import (
    PERSON,
    ByStage,
    Person,
    Promise,
    Stage,
    Stages,
    collect_promises,
    masks_by_promise,
    read_stages,
)
from abstain.cascades.joint_cascade import JointCascade, class_masks_by_stage
from abstain.cascades.measuring import measure_policy
from abstain.cascades.search import (
    DEFAULT_CUTS,
    CascadeData,
    CascadePromise,
    find_answering_stage,
)
from abstain.errors import InputError
from abstain.thresholds.advice import LARGEST_RISK, Advice, bisect
from abstain.thresholds.cut import Cut, Units, cut_between
from abstain.thresholds.monitoring import Reference

FUNCTION_NAME = "cascade"  # in messages
COST_LEVEL = 0.95  # of the interval of the cost
ADVICE_CUTS = 10  # thresholds tried at each stage where only the number of samples is estimated


class SharedCascadeOptions(TypedDict, total=False):
    """Options of `cascade` that both one promise and several take, for type checkers; explained there."""

    delta: float
    promise: Promise
    abstained: ByStage | None
    clusters: ArrayLike | None
    groups: ArrayLike | None
    cuts: int
    unit: str
    labels: ArrayLike | None
    scores: ByStage | None
    units: Units
    rng: int | np.random.Generator


class SingleCascadeOptions(SharedCascadeOptions, total=False):
    """Options of `cascade` for one promise."""

    bounded: tuple[float, float]


class JointCascadeOptions(SharedCascadeOptions, total=False):
    """Options of `cascade` for several promises."""

    bounded: tuple[float, float] | Mapping[Any, tuple[float, float]]
    among: Mapping[Any, Any] | None


@overload
def cascade(
    stages: Stages, /, *, risk: float, person: Person, **options: Unpack[SingleCascadeOptions]
) -> Cascade: ...
@overload
def cascade(
    stages: Stages, /, *, risk: Mapping[Any, float], person: Person, **options: Unpack[JointCascadeOptions]
) -> JointCascade: ...
@refuse_other_row_order
def cascade(
    stages: Stages,
    /,
    *,
    risk: float | Mapping[Any, float],
    person: Person,
    delta: float = 0.05,
    promise: Promise = "answered",
    bounded: tuple[float, float] | Mapping[Any, tuple[float, float]] = (0, 1),
    among: Mapping[Any, Any] | None = None,
    abstained: ByStage | None = None,
    clusters: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    cuts: int = DEFAULT_CUTS,
    unit: str = "",
    labels: ArrayLike | None = None,
    scores: ByStage | None = None,
    units: Units = "key",
    rng: int | np.random.Generator = 0,
) -> Cascade | JointCascade:
    r"""The cheapest cascade that keeps a promise on the risk; `thresholds` is None when none does.

    Stage j answers when it is asked and its confidence reaches its threshold, else the next is asked; what no stage
    answers goes to a person. Every stage that a sample reaches is paid.

    .. math:: P\left(E[\ell_{J} \mid J \le K] > r\right) \le \delta, \qquad J = \min\{j : g_j \ge t_j\}

    over calibration sets; for `promise="system"` the risk is :math:`E[\ell_J]` with the person as stage K + 1. The data
    must not have been used to train or tune the models or their confidences. Equal confidences are treated alike.

    With a dict of risks, one cascade keeps several promises at once: `risk={"errors": 0.05, "hours": 0.2}`, where the
    loss of every stage is a dict with the same names. A promise may be about some samples or answers only (`among`).
    With class scores and labels alone, `risk={0: 0.05, 1: 0.02}` bounds the error rate of the answers "class 0" and of
    the answers "class 1".

    Parameters
    ----------
    stages : dict
        By name, in the order in which they are asked (the cheapest first), on the same samples. Either class scores,
        {"logits": ..., "cost": ...} or {"probs": ..., "cost": ...}, with "score" where it is not "max_softmax" and
        "loss" where it is not that of `labels`; or (loss, confidence, cost) of your own. A cost is a number or one
        per sample. A loss may be a dict by promise.
    risk : float or dict of float
        Largest risk; a dict for several promises.
    person : (cost, error)
        Of who answers what no stage does; numbers or one per sample. Both are stated, not tested. The error may be a
        dict by promise.
    delta : float in (0, 1)
        The probability with which the promise may fail.
    promise : {"answered", "system"}
        Whose risk: that of what the stages answer, or of all answers with the person's.
    bounded : (float, float) or dict of them
        Between which values losses lie, known beforehand; for several promises the same for all, or by name. Losses
        that take these two values only are tested exactly.
    among : dict, optional
        By promise: a mask of the samples that it is about, or a dict of masks by stage of the answers that it is about.
        A promise that is not named here is about all.
    abstained : dict, optional
        By stage, where it gave no answer: such a sample passes on.
    clusters : array, optional
        One label per sample (patient, document): samples of one cluster are not independent.
    groups : array, optional
        One label per sample: the promise then holds in every group.
    cuts : int
        Thresholds to try at each stage; fewer where the grid would have more than a million policies.
    unit : str
        Of the costs; kept with the result.
    labels : array, optional
        True classes, for stages of class scores; their loss is zero_one.
    scores : dict, optional
        The score that the confidences of a stage are of, by stage: a name, or the learned confidence that computed
        them. Rows that it was fitted on are refused.
    units : {"key", "plain"}
        Whether confidences with a name in `scores` are the rank keys that `abstain.scores` returns, or plain numbers.
    rng : int or Generator
        How the samples are split: a fifth of them chooses the order in which policies are tested on the others.

    Returns
    -------
    Cascade
        With several promises, a `JointCascade`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> hard = rng.random(8000)
    >>> small, large = (rng.random(8000) < p * hard for p in (0.5, 0.2))
    >>> rule = cascade({"small": (small, -hard, 1.0), "large": (large, -hard, 10.0)}, risk=0.15, person=(100.0, 0.0))
    >>> rule.stages_in_use, rule.risk < 0.15, rule.cost < 10
    (('small', 'large'), True, True)
    >>> logits = rng.normal(size=(1000, 2)) + [9.0, 0.0]
    >>> one = cascade({"one": {"logits": logits, "cost": 1.0}}, labels=[0] * 1000, risk=0.1, person=(50.0, 0.0))
    >>> one.decide(logits={"one": [[9.0, 0.0]]}).tolist()
    ['one']
    """
    delta = check_delta(FUNCTION_NAME, delta)
    described = read_stages(FUNCTION_NAME, stages, labels, scores=scores, units=units)
    has_several = isinstance(risk, Mapping)
    risk_by_name: Mapping[Any, float] = risk if isinstance(risk, Mapping) else {None: risk}
    names = list(risk_by_name)
    if has_several and len(names) < 2:
        count = f"got {len(names)}"
        raise InputError(f"{FUNCTION_NAME}: `risk` must name at least two promises, {count}. Give a number.")
    if not has_several and (among is not None or isinstance(bounded, Mapping)):
        raise InputError(
            f"{FUNCTION_NAME}: `among` and a dict of bounds go with a dict of risks, got {risk!r}."
        )
    by_class = has_several and among is None and labels is not None
    if by_class:
        among = class_masks_by_stage(FUNCTION_NAME, names, described, promise)
    sample_count = len(next(iter(described.values())).confidences.values)
    masks = masks_by_promise(FUNCTION_NAME, among, names, list(described), sample_count, promise)
    data_by_name = collect_promises(
        FUNCTION_NAME,
        described,
        names,
        person,
        promise,
        bounded,
        masks=masks,
        abstained=abstained,
        clusters=clusters,
        groups=groups,
    )
    promises = {}
    for name, data in data_by_name.items():
        promises[name] = CascadePromise(data, _scale_risk(data, risk_by_name[name]))
    data = data_by_name[names[0]]  # for what all promises share
    seed = search.draw_split_seed(rng)
    max_cuts = search.limit_cuts(data.stage_count, cuts)
    policies = search.certify(list(promises.values()), delta, max_cuts, seed)
    chosen = None
    if policies:
        chosen = min(policies, key=lambda policy: measure_policy(data, policy, level=None).cost)
    alternatives = None
    if chosen is not None and sum(threshold < math.inf for threshold in chosen) == 1 < data.stage_count:
        least_costs = search.estimate_least_costs(list(promises.values()), max_cuts)
        alternatives = (least_costs.of_any_policy, least_costs.of_a_single_stage)
    rules = {}
    for name, scaled_promise in promises.items():
        advice = None
        if chosen is None:
            fails_alone = not (has_several and search.certify([scaled_promise], delta, max_cuts, seed))
            advice = _advise(scaled_promise, delta, max_cuts, seed) if fails_alone else None
        rule = _describe(scaled_promise.data, chosen, float(risk_by_name[name]), delta, described)
        rule = replace(
            rule,
            alternatives=alternatives,
            grid=max_cuts if max_cuts < cuts else None,
            unit=unit,
            advice=advice,
        )
        rules[name] = replace(rule, note=rule.write_note())
    if has_several:
        return JointCascade(rules, delta=delta, by_class=by_class)
    return rules[None]


def _scale_risk(data: CascadeData, risk: float) -> float:
    """Return a promised risk on the scale [0, 1] of the losses; raise InputError unless it lies inside their bounds."""
    scaled_risk = data.calibrations[0].to_unit_scale(float(risk))
    if not 0 < scaled_risk < 1:
        hint = percent_hint(risk) if scaled_risk == risk else ""  # losses lie in [0, 1]
        bounds = f"({data.to_user_scale(0.0):g}, {data.to_user_scale(1.0):g})"
        raise InputError(f"{FUNCTION_NAME}: `risk` must lie inside bounded={bounds}, got {risk!r}.{hint}")
    return scaled_risk


def _describe(
    data: CascadeData,
    policy: tuple[float, ...] | None,
    risk: float,
    delta: float,
    stages: dict[str, Stage],
) -> Cascade:
    """Describe the chosen policy by what one promise says of it; the note and what depends on the search are left out.

    `data` holds the samples with the losses of this promise, `risk` is its target on the user's scale, and `stages` are
    the stages as the user described them. `policy` is one threshold per stage, infinity for a stage that is never
    asked; None if nothing could be certified, so that everything is left to the person.
    """
    is_certified = policy is not None
    # without a policy no stage is ever asked
    thresholds = (math.inf,) * data.stage_count if policy is None else policy
    measures = measure_policy(data, thresholds, level=COST_LEVEL)
    # index of the stage that answers each sample, the number of stages for the person
    answering = find_answering_stage(data.confidences, thresholds)
    shares = np.bincount(answering, minlength=data.stage_count + 1) / data.sample_count
    bounds = (data.to_user_scale(0.0), data.to_user_scale(1.0))
    largest = None if data.clusters is None else float(data.largest_cluster)
    group_count = None if data.groups is None else data.group_count
    promise: Promise = "system" if data.promise_includes_person else "answered"  # whose answers it is about
    guarantee = state_guarantee(
        n=data.sample_count,
        risk=risk,
        delta=delta,
        promise=promise,
        error_rate=data.is_zero_one and bounds == (0.0, 1.0),
        is_about_some=data.is_counted is not None,
        group_count=group_count,
        largest=largest,
    )
    return Cascade(
        names=data.names,
        thresholds=dict(zip(data.names, thresholds)) if is_certified else None,
        target=risk,
        delta=delta,
        promise=promise,
        n=data.sample_count,
        risk=measures.risk if is_certified else None,
        risk_upper=risk if is_certified else None,
        coverage=measures.coverage,
        cost=measures.cost,
        cost_interval=(measures.cost_low, measures.cost_high),
        shares=dict(zip((*data.names, PERSON), shares.tolist())),
        guarantee=guarantee if is_certified else None,
        note=None,
        person=(
            float(data.person_costs.mean()),
            float(data.to_user_scale(data.person_losses.mean())),
        ),
        bounded=bounds,
        cuts=_locate_cuts(data, thresholds, stages),
        references=_summarize_confidences(data, thresholds, answering) if is_certified else {},
        zero_one=data.is_zero_one,
        group_count=group_count,
        clusters=None if data.clusters is None else int(data.clusters.max()) + 1,
        largest=largest,
        counted_answers=None if data.is_counted is None else int(data.is_answer_counted(answering).sum()),
    )


def _summarize_confidences(
    data: CascadeData, thresholds: tuple[float, ...], answering: np.ndarray
) -> dict[str, Reference]:
    """Summarize, for each stage in use, the confidences of the samples that reach it, to compare later ones with.

    `thresholds` holds one per stage, infinity for a stage that is never asked; `answering` is the index of the stage
    that answers each sample, the number of stages for the person. A stage that has no answer to any of them is left
    out. A summary holds some of the confidences, how many samples lie at or above each, and how many there are in all,
    with those that the stage has no answer for. `data.names` and `data.confidences` have one entry per stage, in the
    order in which stages are asked; the result is by name.
    """
    references = {}
    for stage, (name, threshold) in enumerate(zip(data.names, thresholds)):
        # a sample reaches a stage if no stage before it answers; minus infinity: the stage has no answer
        confidence_of_reached = data.confidences[stage][answering >= stage]
        has_answers = bool((confidence_of_reached > -math.inf).any())
        is_in_use = threshold < math.inf
        if is_in_use and has_answers:
            references[name] = Reference.of(confidence_of_reached)
    return references


def _locate_cuts(
    data: CascadeData, thresholds: tuple[float, ...], stages: dict[str, Stage]
) -> dict[str, Cut]:
    """Find, for each stage, the two neighbouring calibration confidences that its threshold lies between.

    `thresholds` holds one per stage, infinity for a stage that is never asked; `stages` are the stages by name, in the
    order of `data.names`, with the confidences in the unit and precision that the user gave. Samples without an answer
    have a confidence of minus infinity in `data` and are never accepted. `data.calibrations` holds for each stage the
    samples that it has an answer for, most confident first; those up to the threshold are accepted. `cut_between` takes
    how many of these are accepted, and returns the cut between the last of them and the next one.
    """
    cuts = {}
    for name, threshold, calibration, confidence in zip(
        data.names, thresholds, data.calibrations, data.confidences
    ):
        accepted_count = int(np.count_nonzero((confidence >= threshold) & (confidence > -math.inf)))
        stage = stages[name]
        # None: the stage accepts nothing, and its cut has no threshold
        cuts[name] = cut_between(calibration.ranked, accepted_count or None, stage.confidences, stage.score)
    return cuts


def _advise(promise: CascadePromise, delta: float, max_cuts: int, seed: int) -> Advice:
    """Find the least risk that can be certified, and about how many samples would certify the promised one.

    Nothing can be certified at the promised risk. The advice has no risk and no coverage if not even the largest risk
    can be certified, and no number of samples if no policy keeps the promise by these data. That number takes the
    estimated risks for the true ones, so it is a guide. `delta` is the probability with which the promise may fail,
    `max_cuts` the number of thresholds to try at each stage, and `seed` that of the split of the samples, which is the
    same at every risk.
    """
    data = promise.data

    def certify(risk: float) -> list[tuple[float, ...]]:
        """The policies (thresholds by stage) that can be certified at this risk, on the scale [0, 1] of the losses."""
        return search.certify([promise._replace(risk=risk)], delta, max_cuts, seed)

    feasible_risk = None
    coverage = None
    # LARGEST_RISK is 0.999; otherwise no risk below the bound of the losses can be certified
    if certify(LARGEST_RISK):
        # a risk that can be certified, at most a tenth above one that cannot
        least_risk = bisect(
            lambda risk: bool(certify(risk)), low=promise.risk, high=LARGEST_RISK, relative=0.1
        )
        # several policies may be certified: that of a single stage, or a cascade
        coverage = max(measure_policy(data, policy, level=None).coverage for policy in certify(least_risk))
        feasible_risk = data.to_user_scale(least_risk)
    # thresholds to try at each stage; fewer than in the search (ADVICE_CUTS, 10), as only a number of samples depends
    # on them (`limit_cuts` lowers a number of thresholds so that the grid has not too many policies)
    cuts = search.choose_cuts(data, search.limit_cuts(data.stage_count, ADVICE_CUTS))
    # by how many standard errors the risk of the safest policy lies below the promised one in a test on as many samples
    best_z_score = search.expected_z_scores(data, cuts, promise.risk, data.sample_count).max()
    sample_count = None
    if best_z_score > 0:
        needed_z_squared = 2 * math.log(2 / delta)  # more than the squared normal quantile at half of delta
        # z grows as the root of the sample count
        estimated = data.sample_count * needed_z_squared / best_z_score**2
        two_digits = int(float(f"{estimated:.1e}"))
        sample_count = max(data.sample_count + 1, two_digits)  # these data were not enough
    return Advice(risk=feasible_risk, coverage=coverage, samples=sample_count)
