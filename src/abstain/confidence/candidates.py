"""The kinds of confidence that `learn_confidence` tries, from the simplest to the most flexible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from abstain.confidence.combinations import SHIPPED_WEIGHTS, Combination, mean_of_ranks, with_shipped_weights
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import InputTable
from abstain.confidence.models import ConfidenceModel, SingleScore, fit_linear
from abstain.core.area_estimators import area_of_samples

BASELINE = "baseline"
TEMPERATURE = "temperature"
P_NORM = "p-norm"
COMBINED = "combined"
LOGITS = "logits"
CLASS_OFFSETS = "class offsets"
SIGNALS = "signals"
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
    """

    name: str
    fit: Callable[[LearningData, InputProfile], ConfidenceModel]
    has_common_scale: bool


def single_scores(table: InputTable) -> list[SingleScore]:
    """The scores that need no fitting, of which the best is the baseline: the max softmax and each signal.

    Signals that are constant or missing everywhere are left out; there may be none at all. `table` holds the inputs of
    all rows: signals (confidences), other numbers and categories by name, and class scores.
    """
    single: list[SingleScore] = []
    if table.class_scores is not None:
        single.append(SingleScore(score="max_softmax"))
    for name, signal in table.signals.items():
        values = signal[~np.isnan(signal)]
        if len(values) and bool(np.any(values != values[0])):
            single.append(SingleScore(score="signal", signal=name))
    return single


def list_candidates(table: InputTable, combination: Combination | None = None) -> list[Candidate]:
    """List the candidates that these inputs allow, simplest first; the first is the baseline.

    Temperature and p-norm re-rank three or more classes only: with two, every temperature gives the same ranking, and
    the normalised max logit is constant. `combination` is what `choose_combination` found for these rows. If it is the
    shipped weights, the model of all signals shrinks towards them. `table` holds the inputs of all rows: signals
    (confidences), other numbers and categories by name, and class scores.
    """
    candidates = [Candidate(BASELINE, _fit_baseline, has_common_scale=False)]
    class_count = table.class_count or 0
    if class_count > 2:
        candidates.append(Candidate(TEMPERATURE, _fit_temperature, has_common_scale=False))
        if table.kind == "logits":
            candidates.append(Candidate(P_NORM, _fit_p_norm, has_common_scale=False))
    has_numbers = bool(table.numbers)
    has_categories = bool(table.categories)
    uses_shipped = combination is not None and combination.name == SHIPPED_WEIGHTS
    if combination is not None and len(table.signals) > 1:
        candidates.append(_combined_candidate(uses_shipped))
    if class_count:
        candidates.append(_linear_candidate(LOGITS, uses_shipped=False, with_logits=True))
        candidates.append(
            _linear_candidate(CLASS_OFFSETS, uses_shipped=False, with_logits=True, with_classes=True)
        )
    if has_numbers or has_categories:
        candidates.append(
            _linear_candidate(
                SIGNALS,
                uses_shipped=uses_shipped,
                with_numbers=has_numbers,
                with_categories=has_categories,
                with_logits=class_count > 0,
                with_classes=class_count > 0,
            )
        )
    return candidates


def _combined_candidate(uses_shipped: bool) -> Candidate:
    """The combination of signals that needs no labels: the shipped weights, or the mean of ranks."""

    def fit(data: LearningData, profile: InputProfile) -> ConfidenceModel:
        combination = mean_of_ranks(profile, reason="")
        if uses_shipped:
            combination = with_shipped_weights(profile)
        return ConfidenceModel(profile=profile, combination=combination.model)

    return Candidate(COMBINED, fit, has_common_scale=True)


def _linear_candidate(name: str, uses_shipped: bool, **parts: Any) -> Candidate:
    """A logistic model with these parts of `make_columns`, all others left out.

    With `uses_shipped` the combination by shipped weights is one more column, towards which the model shrinks.
    """
    all_parts = {
        "with_numbers": False,
        "with_categories": False,
        "with_logits": False,
        "with_classes": False,
        **parts,
    }

    def fit(data: LearningData, profile: InputProfile) -> ConfidenceModel:
        transfer = with_shipped_weights(profile).model if uses_shipped else None
        model = fit_linear(data.table, profile, data.target, data.weight, transfer=transfer, **all_parts)
        return ConfidenceModel(profile=profile, linear=model)

    return Candidate(name, fit, has_common_scale=True)


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
