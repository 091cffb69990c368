"""The kinds of confidence that `learn_confidence` tries, from the simplest to the most flexible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from abstain.confidence.combinations import SHIPPED_WEIGHTS, Combination, mean_of_ranks, with_shipped_weights
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import InputTable
from abstain.confidence.model_columns import ColumnPlan
from abstain.confidence.models import (
    ConfidenceModel,
    SingleScore,
    fit_with_trees,
    fit_without_trees,
    shrink_to_max_softmax,
)
from abstain.core.area_estimators import area_of_samples

BASELINE = "baseline"
TEMPERATURE = "temperature"
P_NORM = "p-norm"
COMBINED = "combined"
LOGITS = "logits"
CLASS_OFFSETS = "class offsets"
RUNNER_UP = "runner-up"
SHRUNK = "shrunk"
SIGNALS = "signals"
_MAX_CLASSES_WITH_RUNNER_UP = 100  # with more classes, each is too rarely in the second place
# With fewer rows, what is known from other data counts more than what these rows show: on language models with 50 and
# 150 labels the combination without labels is the better choice, with 300 the model of all signals is.
FEW_ROWS = 300
_MIN_ROWS_FOR_TREES = 500  # on language models, trees help from so many labels on
# steps of about the square root of 2 around 1
_TEMPERATURES = (
    0.25,
    0.35,
    0.5,
    0.7,
    1.0,
    1.4,
    2.0,
    2.8,
    4.0,
)
_NORM_ORDERS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


class LearningData(NamedTuple):
    """Labelled rows to learn from.

    `loss` is the loss of each row, `target` the same scaled to 1 (best) ... 0 (worst), `weight` has mean 1, `cluster`
    numbers the clusters from 0 (None without clusters).
    """

    table: InputTable
    loss: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    cluster: np.ndarray | None

    def take(self, rows: np.ndarray) -> LearningData:
        """Some of the rows, by index."""
        weight = self.weight[rows]
        return LearningData(
            table=self.table.take(rows),
            loss=self.loss[rows],
            target=self.target[rows],
            weight=weight / weight.mean(),
            cluster=None if self.cluster is None else self.cluster[rows],
        )


def aurc_of(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray) -> float:
    """AURC of rows with these losses, confidences and weights; equal confidences are accepted together."""
    has_equal_weights = bool(np.all(weight == weight[0]))
    return float(
        area_of_samples(
            loss, confidence, None if has_equal_weights else weight, estimator="harmonic", ties="threshold"
        )
    )


@dataclass(frozen=True)
class Candidate:
    """One kind of confidence.

    Attributes
    ----------
    name : str
        In tables, and in the argument `candidates`.
    fit : callable
        Makes a `ConfidenceModel` from `LearningData` and the profile of its inputs.
    has_common_scale : bool
        Do fits on different rows give values on one scale, as log-odds are? Otherwise values of different fits are
        compared by their ranks.
    by_default : bool
        Is it tried where the user names no candidates?
    """

    name: str
    fit: Callable[[LearningData, InputProfile], ConfidenceModel]
    has_common_scale: bool
    by_default: bool = True


def single_scores(table: InputTable) -> list[SingleScore]:
    """The scores that need no fitting, of which the best is the baseline: the max softmax and each signal.

    A `SingleScore` names one column to use as the confidence; with score "signal" it is the signal of that name.
    Signals that are constant or missing everywhere are left out; there may be none at all, and the list is then empty.
    `table` holds the inputs of all rows: signals (confidences), other numbers and categories by name, and class scores.
    """
    single: list[SingleScore] = []
    if table.class_scores is not None:
        single.append(SingleScore(score="max_softmax"))
    for name, signal in table.signals.items():
        values = signal[~np.isnan(signal)]
        varies = len(values) > 0 and bool(np.any(values != values[0]))
        if varies:
            single.append(SingleScore(score="signal", signal=name))
    return single


def list_candidates(table: InputTable, combination: Combination | None = None) -> list[Candidate]:
    """List the candidates that these inputs allow, simplest first; the first is the baseline.

    A candidate is a name and a function that fits it to labelled rows. `has_common_scale` says whether values of fits
    on different rows can be compared as they are, and `by_default` whether it is tried where the user names none.

    Temperature and p-norm re-rank three or more classes only: with two, every temperature gives the same ranking, and
    the normalised max logit is constant. `combination` is the one of signals without labels that suits these rows: the
    mean of their ranks, or weights that come with the package ("shipped"), learned on other data; None without signals.
    Towards shipped weights the model of all signals shrinks. From 500 rows on, the last and most flexible
    candidate is a logistic model averaged with boosted trees. Of the models of class scores alone, only the most
    flexible is tried by default, whole and shrunk: the lowest of many that are nearly equal is lowest by luck.

    `table` holds the inputs of all rows: signals (confidences), other numbers and categories by name, and class scores.
    There must be class scores or a signal, one of which is the baseline.
    """
    candidates = [Candidate(BASELINE, _fit_baseline, has_common_scale=False)]
    class_count = table.class_count or 0
    if class_count > 2:
        candidates.append(Candidate(TEMPERATURE, _fit_temperature, has_common_scale=False, by_default=False))
        if table.kind == "logits":  # the p-norm of probabilities is not defined
            candidates.append(Candidate(P_NORM, _fit_p_norm, has_common_scale=False, by_default=False))
    uses_shipped = combination is not None and combination.name == SHIPPED_WEIGHTS
    if combination is not None and len(table.signals) > 1:
        # from FEW_ROWS (300) on, the model of all signals is the better choice
        candidates.append(
            _combined_candidate(uses_shipped=uses_shipped, by_default=table.row_count < FEW_ROWS)
        )
    # which inputs each logistic model reads, by name, the simplest first; at least one. LOGITS, CLASS_OFFSETS (with the
    # predicted class) and RUNNER_UP (with the second class too) read class scores alone, SIGNALS all inputs.
    plans = _plan_logistic_models(table)
    # from 500 rows on, trees are of use where two inputs, or the scores of three classes, may do something together
    has_trees = table.row_count >= _MIN_ROWS_FOR_TREES and _has_joint_effects(table)
    most_flexible = list(plans)[-1]  # all inputs, or the last one of class scores
    most_flexible_of_logits = next((name for name in (RUNNER_UP, CLASS_OFFSETS) if name in plans), None)
    for name, plan in plans.items():
        with_trees = has_trees and name == most_flexible
        is_main = name in (most_flexible, most_flexible_of_logits)
        if name == most_flexible_of_logits:
            # averaged with a model of the max softmax alone
            candidates.append(_linear_candidate(SHRUNK, plan, with_trees=with_trees, is_shrunk=True))
        candidates.append(
            _linear_candidate(
                name,
                plan,
                # it shrinks towards them; the other plans have no signals
                uses_shipped=uses_shipped and name == SIGNALS,
                with_trees=with_trees,
                by_default=is_main,
            )
        )
    return candidates


def _plan_logistic_models(table: InputTable) -> dict[str, ColumnPlan]:
    """Return which inputs each logistic model reads, by the name of the model, the simplest first.

    There is at least one: class scores give LOGITS, and a signal, which is one of `table.numbers`, gives SIGNALS.
    `table` must have class scores or a signal. The fields of a plan name columns: `logits` are features of the class
    scores, `classes` a flag for each predicted class, `runner_up` a flag for each class with the second largest score,
    `numbers` signals (confidences) and other numbers, `categories` flags of levels.
    """
    class_count = table.class_count or 0  # 0 without class scores
    plans: dict[str, ColumnPlan] = {}
    if class_count:
        plans[LOGITS] = ColumnPlan(logits=True)
        plans[CLASS_OFFSETS] = ColumnPlan(logits=True, classes=True)
    # 100; with more classes, each is too rarely in the second place. Of two classes, the second is the other one.
    if 2 < class_count <= _MAX_CLASSES_WITH_RUNNER_UP:
        plans[RUNNER_UP] = ColumnPlan(logits=True, classes=True, runner_up=True)
    if table.numbers or table.categories:
        plans[SIGNALS] = ColumnPlan(
            numbers=bool(table.numbers),
            categories=bool(table.categories),
            logits=class_count > 0,
            classes=class_count > 0,
            runner_up=RUNNER_UP in plans,
        )
    return plans


def _has_joint_effects(table: InputTable) -> bool:
    """Are there two inputs whose joint effect trees could learn? The class scores of three or more classes are such.

    `table` holds the inputs of all rows: signals (confidences), other numbers and categories by name, and class scores.
    """
    input_count = len(table.numbers) + len(table.categories)
    if table.class_count is not None:
        input_count += 2 if table.class_count > 2 else 1
    return input_count > 1


def _combined_candidate(uses_shipped: bool, by_default: bool) -> Candidate:
    """The combination of signals that needs no labels: the weights that come with the package, or the mean of ranks.

    The shipped weights were learned on other data. `uses_shipped` says that they suit these rows, which the caller has
    checked. `by_default` says whether it is tried where the user names no candidates.
    """

    def fit(data: LearningData, profile: InputProfile) -> ConfidenceModel:
        # both read the profile alone, not the labels in `data`
        if uses_shipped:
            combination = with_shipped_weights(profile).model  # a weighted sum of ranks, as the other one
        else:
            combination = mean_of_ranks(profile, reason="").model  # only the model is used here
        return ConfidenceModel(profile=profile, combination=combination)

    # weighted sums of ranks, so that values of fits on different rows can be compared as they are
    return Candidate(COMBINED, fit, has_common_scale=True, by_default=by_default)


def _linear_candidate(
    name: str,
    plan: ColumnPlan,
    *,
    uses_shipped: bool = False,
    with_trees: bool = False,
    is_shrunk: bool = False,
    by_default: bool = True,
) -> Candidate:
    """A logistic model of the inputs that the plan names, `with_trees` averaged with boosted trees of the same inputs.

    `plan` says which inputs the model reads. With `uses_shipped` the combination by shipped weights (learned on other
    data) is one more column, towards which the model shrinks: that column has the smallest penalty. With `is_shrunk`
    the model is averaged with one of the max softmax alone. `by_default` says whether it is tried where the user names
    no candidates.
    """
    fit_model = fit_with_trees if with_trees else fit_without_trees  # both return a `ConfidenceModel`

    def fit(data: LearningData, profile: InputProfile) -> ConfidenceModel:
        full_plan = plan
        if uses_shipped:  # made for each fit, since ranks are taken among its rows
            full_plan = replace(plan, transfer=with_shipped_weights(profile).model)
        model = fit_model(data.table, profile, full_plan, data.target, data.weight)
        if is_shrunk:
            model = shrink_to_max_softmax(model, data.table, data.target, data.weight)
        return model

    # with or without trees, whole or shrunk, the model estimates log-odds: values of fits on different rows can be
    # compared as they are
    return Candidate(name, fit, has_common_scale=True, by_default=by_default)


def _choose(data: LearningData, profile: InputProfile, choices: list[SingleScore]) -> ConfidenceModel:
    """The score with the lowest AURC on these rows, the first of equals."""
    areas = [aurc_of(data.loss, score.apply(data.table), data.weight) for score in choices]
    return ConfidenceModel(profile=profile, single=choices[int(np.argmin(areas))])


def _fit_baseline(data: LearningData, profile: InputProfile) -> ConfidenceModel:
    return _choose(data, profile, single_scores(data.table))


def _fit_temperature(data: LearningData, profile: InputProfile) -> ConfidenceModel:
    choices = [SingleScore(score="max_softmax", parameter=value) for value in _TEMPERATURES]
    return _choose(data, profile, choices)


def _fit_p_norm(data: LearningData, profile: InputProfile) -> ConfidenceModel:
    choices = [SingleScore(score="normalised_max_logit", parameter=value) for value in _NORM_ORDERS]
    return _choose(data, profile, choices)
