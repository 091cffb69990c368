"""The functions of the inputs that a learned confidence can be: one score alone, or a sum of many columns and trees.

They hold plain numbers, are stored as JSON, and need numpy only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from abstain._stored import Finite, Stored, Within
from abstain.confidence.boosted_trees import BoostedTrees, fit_trees
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import InputTable
from abstain.confidence.logistic import fit_logistic
from abstain.confidence.model_columns import (
    ColumnPlan,
    DesignColumn,
    describe_columns,
    list_tree_inputs,
    make_columns,
    make_tree_columns,
)
from abstain.confidence.rank_model import RankModel
from abstain.thresholds.cut import NO_CONFIDENCE

_TREE_SHARE = 1 / 3  # of the trees in the mean with a linear model: 1/4 to 1/2 rank equally well
# of a model of class scores in the mean with one of the max softmax alone; chosen on every second file of logits
_MODEL_SHARE_WHEN_SHRUNK = 0.7
_MAX_SOFTMAX_PENALTY = 1.0  # as for the features of class scores
_ROWS_AT_ONCE = 1 << 14  # rows whose columns are computed at a time, so that a million rows fit into memory
_INTERCEPT_PENALTY = 1e-6  # only there to make the solution unique; an intercept changes no ranking


@dataclass(frozen=True, eq=False, kw_only=True)
class SingleScore:
    """One signal, or one score of the class scores: what a learned confidence falls back to.

    Attributes
    ----------
    score : {"signal", "max_softmax", "normalised_max_logit"}
        What is computed.
    signal : str or None
        The name of the signal.
    parameter : float or None
        The temperature of the softmax, or the order p of the norm.
    """

    score: Literal["signal", "max_softmax", "normalised_max_logit"]
    signal: str | None = None
    parameter: Annotated[float, Within(0, closed=False, infinite=True)] | None = None

    def apply(self, table: InputTable) -> np.ndarray:
        """Return one confidence per row; rows without the signal rank last."""
        if self.score == "signal":
            values = table.signals[str(self.signal)]
            return np.where(np.isnan(values), NO_CONFIDENCE, values)
        return table.compute_score(self.score, 1.0 if self.parameter is None else self.parameter)

    @property
    def label(self) -> str:
        """Its name in tables."""
        if self.score == "signal":
            return str(self.signal)
        if self.score == "max_softmax":
            return "max softmax" if self.parameter is None else f"max softmax, temperature {self.parameter:g}"
        return f"normalised max logit, p = {self.parameter:g}"

    def fits(self, profile: InputProfile) -> bool:
        """Can it be computed from the inputs of this profile?"""
        if self.score == "signal":
            return self.signal in profile.signal_names and self.parameter is None
        if self.signal is not None or profile.kind is None:
            return False
        return self.score == "max_softmax" or (profile.kind == "logits" and self.parameter is not None)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModel:
    """Estimated log-odds of being right: a weighted sum of standardised columns made of the inputs.

    Attributes
    ----------
    plan : ColumnPlan
        Which inputs have columns.
    centre, scale, weights : ndarray, shape (columns,)
        A column x adds `weight * (x - centre) / scale`.
    intercept : float
        Log-odds of a row whose columns are all at their centre.
    """

    plan: ColumnPlan
    centre: Annotated[np.ndarray, Within()]
    scale: Annotated[np.ndarray, Within(0, closed=False)]
    weights: Annotated[np.ndarray, Within()]
    intercept: Finite

    def apply(self, table: InputTable, profile: InputProfile) -> np.ndarray:
        """Return the estimated log-odds of being right of each row; an unknown level of a category adds nothing.

        `table` holds the inputs of all rows: signals (confidences), other numbers and categories by name, and class
        scores. `profile` holds the distribution of every input in the rows that are learned from.
        """
        slopes = self.weights / self.scale
        constant = self.intercept - float(slopes @ self.centre)
        return constant + make_columns(table, profile, self.plan) @ slopes

    def scaled(self, factor: float) -> LinearModel:
        """The same model with log-odds multiplied by a factor."""
        return replace(self, weights=factor * self.weights, intercept=factor * self.intercept)

    def fits(self, profile: InputProfile) -> bool:
        """Can it be computed from the inputs of this profile?"""
        if not self.plan.fits(profile):
            return False
        lengths = {len(self.centre), len(self.scale), len(self.weights)}
        return lengths == {len(describe_columns(profile, self.plan))}


class Standardised(NamedTuple):
    """Columns of a linear model, ready to be fitted.

    `features` has shape (n, 1 + columns): ones, then columns less `centre` over `scale`. `penalty` is that of each of
    them.
    """

    features: np.ndarray
    penalty: np.ndarray
    centre: np.ndarray
    scale: np.ndarray


def standardise(columns: np.ndarray, descriptions: list[DesignColumn], weight: np.ndarray) -> Standardised:
    """Centre columns and divide all but flags by their spread; a constant column becomes 0.

    `columns` has shape (n, columns), `descriptions` one entry per column, `weight` one per row, not all 0. A
    description says whether its column is a 0/1 flag, and its ridge penalty. In the result, `features` and `penalty`
    have an intercept in front, a column of ones with hardly a penalty; `centre` and `scale` have not.
    """
    is_flag = np.asarray([column.is_flag for column in descriptions], dtype=bool)
    penalty = np.asarray([_INTERCEPT_PENALTY, *(column.penalty for column in descriptions)])
    mass = weight.sum()
    centre = weight @ columns / mass
    deviations = columns - centre
    spread = np.sqrt(weight @ (deviations * deviations) / mass)
    is_constant = spread <= 1e-9 * np.maximum(1.0, np.abs(centre))  # but for rounding
    scale = np.where(is_flag | is_constant, 1.0, spread)
    deviations /= scale
    deviations[:, is_constant] = 0.0
    features = np.column_stack([np.ones(len(columns)), deviations])
    return Standardised(features=features, penalty=penalty, centre=centre, scale=scale)


def fit_linear(
    table: InputTable, profile: InputProfile, plan: ColumnPlan, target: np.ndarray, weight: np.ndarray
) -> LinearModel:
    """Fit a linear model by ridge logistic regression on all rows of a table.

    `table` holds the inputs of all rows: signals (confidences), other numbers and categories by name, and class scores.
    `profile` describes these inputs, and `plan` says which of them are read. `target` is 1 for right, 0 for wrong, or a
    share in between; `weight` has mean 1. The model stores `centre` and `scale`, by which new rows are standardised.
    """
    columns = make_columns(table, profile, plan)
    ready = standardise(columns, describe_columns(profile, plan), weight)
    coefficients = fit_logistic(ready.features, target, weight, ready.penalty)
    return LinearModel(
        plan=plan,
        centre=ready.centre,
        scale=ready.scale,
        weights=coefficients[1:],  # the first column of `ready.features` is the intercept
        intercept=float(coefficients[0]),
    )


def score_without_inputs(
    model: ConfidenceModel,
    fitted: tuple[InputTable, np.ndarray, np.ndarray],
    held_out: InputTable,
    names: Sequence[str],
) -> dict[str, np.ndarray]:
    """Fit a linear model, and its trees if it has some, again without each input; score held-out rows, by name.

    `model` was fitted on `fitted`, a table with its targets (1 for right to 0 for wrong) and weights. All columns that
    read the input are removed, its products with others included. What `names` lists are inputs, of which the model
    reads at least one more. Scores are log-odds but for a constant. The result has for each name one score per held-out
    row; `fitted` and `held_out` have the same inputs. `model.linear` must not be None.
    """
    linear_scores = _score_linear_without_inputs(model, fitted, held_out, names)
    if model.trees is None:
        return linear_scores
    tree_scores = _score_trees_without_inputs(model, fitted, held_out, names)
    # by name; the trees have a share of 1/3 in the mean of the log-odds, as in the model itself
    return {name: (1 - _TREE_SHARE) * linear_scores[name] + _TREE_SHARE * tree_scores[name] for name in names}


def _score_linear_without_inputs(
    model: ConfidenceModel,
    fitted: tuple[InputTable, np.ndarray, np.ndarray],
    held_out: InputTable,
    names: Sequence[str],
) -> dict[str, np.ndarray]:
    """Return the log-odds of held-out rows by the linear part of a model, fitted again without each of the inputs.

    `model` was fitted on `fitted`: a table, its targets (1 for right to 0 for wrong) and its weights. `names` are the
    inputs to leave out, one at a time. Each fit starts from the weights of the model, which saves steps.
    """
    linear = model.linear
    assert linear is not None
    table, target, weight = fitted
    # for each column: the names of the inputs that it is made of, and its penalty
    descriptions = describe_columns(model.profile, linear.plan)
    # `ready.features` and `ready.penalty` begin with the intercept
    ready = standardise(make_columns(table, model.profile, linear.plan), descriptions, weight)
    new_columns = (make_columns(held_out, model.profile, linear.plan) - ready.centre) / ready.scale
    new_features = np.column_stack([np.ones(held_out.row_count), new_columns])
    # of the same standardised columns; with trees, multiplied by a share, which is as good to start from
    start = np.concatenate([[linear.intercept], linear.weights])
    scores = {}
    for name in names:
        # the intercept, which is the first column, is always kept
        is_kept = np.asarray([True, *(name not in column.inputs for column in descriptions)])
        coefficients = fit_logistic(
            ready.features[:, is_kept], target, weight, ready.penalty[is_kept], start=start[is_kept]
        )
        scores[name] = new_features[:, is_kept] @ coefficients
    return scores


def _score_trees_without_inputs(
    model: ConfidenceModel,
    fitted: tuple[InputTable, np.ndarray, np.ndarray],
    held_out: InputTable,
    names: Sequence[str],
) -> dict[str, np.ndarray]:
    """Return the sums of trees, fitted again without each of the inputs, for held-out rows.

    `model` was fitted on `fitted`: a table, its targets (1 for right to 0 for wrong) and its weights. `names` are the
    inputs to leave out, one at a time. Trees are fitted again from the first one on that asks about the input: those
    before it would be the same.
    """
    linear = model.linear
    assert linear is not None
    assert model.trees is not None
    table, target, weight = fitted
    inputs = list_tree_inputs(model.profile, linear.plan)
    columns = make_tree_columns(table, model.profile, linear.plan)
    new_columns = make_tree_columns(held_out, model.profile, linear.plan)
    # the model stores them multiplied by their share of the mean; this is how they were fitted
    trees = model.trees.scaled(1 / _TREE_SHARE)
    scores = {}
    for name in names:
        # one entry per column of the trees: numbers, then codes
        is_removed = np.asarray([other == name for other in (*inputs.of_numbers, *inputs.of_codes)])
        fitted_again = fit_trees(
            columns.without(name, inputs),
            target,
            weight,
            first_trees=trees.before_questions_about(is_removed),
        )
        scores[name] = fitted_again.apply(new_columns.without(name, inputs))
    return scores


def fit_without_trees(
    table: InputTable, profile: InputProfile, plan: ColumnPlan, target: np.ndarray, weight: np.ndarray
) -> ConfidenceModel:
    """Fit a linear model to all rows of a table and make it a confidence.

    `profile` holds the distribution of every input, `plan` says which of them are read. `target` is from 1 (right) to 0
    (wrong), `weight` the mass of each row.
    """
    return ConfidenceModel(profile=profile, linear=fit_linear(table, profile, plan, target, weight))


def fit_with_trees(
    table: InputTable, profile: InputProfile, plan: ColumnPlan, target: np.ndarray, weight: np.ndarray
) -> ConfidenceModel:
    """Fit a linear model and boosted trees to the same rows; the confidence is a weighted mean of their log-odds.

    `table` holds the inputs of all rows, `profile` their distribution, and `plan` says which of them are read. `target`
    is from 1 (right) to 0 (wrong), neither all 1 nor all 0; `weight` is the mass of each row, with mean 1.
    """
    linear = fit_linear(table, profile, plan, target, weight)
    trees = fit_trees(make_tree_columns(table, profile, plan), target, weight)
    # A model adds up the log-odds of its two parts: multiplied by their shares, the sum is their mean. `scaled`
    # multiplies all values of a part; `_TREE_SHARE` is 1/3.
    return ConfidenceModel(
        profile=profile, linear=linear.scaled(1 - _TREE_SHARE), trees=trees.scaled(_TREE_SHARE)
    )


def shrink_to_max_softmax(
    model: ConfidenceModel, table: InputTable, target: np.ndarray, weight: np.ndarray
) -> ConfidenceModel:
    """Average a model of class scores alone with a logistic regression on the log-odds of the max softmax.

    `table`, `target` (1 for right to 0 for wrong) and `weight` are those of the rows that the model was fitted on. The
    given model stays as it is. The share of the model in the mean is `_MODEL_SHARE_WHEN_SHRUNK`, 0.7.
    """
    linear = model.linear
    assert linear is not None
    assert table.logit_features is not None
    # the log-odds of the prediction are the first feature of class scores, and so the first column of the model
    log_odds = (table.logit_features[:, 0] - linear.centre[0]) / linear.scale[0]
    intercept, slope = fit_logistic(
        np.column_stack([np.ones(len(log_odds)), log_odds]),
        target,
        weight,
        penalty=np.asarray([_INTERCEPT_PENALTY, _MAX_SOFTMAX_PENALTY]),
    )
    # The mean of both log-odds. `scaled` multiplies the weights and the intercept, not `centre` and `scale`. The new
    # regression is on the first column of the model, standardised in the same way, so its slope adds to the weight of
    # that column. The model adds what its trees say to its linear part, so they are multiplied by the same share.
    other_share = 1 - _MODEL_SHARE_WHEN_SHRUNK
    shrunk = linear.scaled(_MODEL_SHARE_WHEN_SHRUNK)
    weights = shrunk.weights.copy()
    weights[0] += other_share * float(slope)
    return replace(
        model,
        linear=replace(shrunk, weights=weights, intercept=shrunk.intercept + other_share * float(intercept)),
        trees=None if model.trees is None else model.trees.scaled(_MODEL_SHARE_WHEN_SHRUNK),
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ConfidenceModel(Stored):
    """What a learned confidence computes, and from which inputs: exactly one of four functions of a row.

    Attributes
    ----------
    profile : InputProfile
        The inputs and their distribution in learning.
    single : SingleScore or None
        One signal or score as it is.
    linear : LinearModel or None
        Estimated log-odds of being right.
    trees : BoostedTrees or None
        Added to the linear model; they read the same inputs.
    combination : RankModel or None
        A weighted sum of ranks of signals, made without labels.
    """

    _noun: ClassVar[str] = "the model of a learned confidence"
    _number: ClassVar[int] = 2

    profile: InputProfile
    single: SingleScore | None = None
    linear: LinearModel | None = None
    trees: BoostedTrees | None = None
    combination: RankModel | None = None

    def apply(self, table: InputTable) -> np.ndarray:
        """Return one confidence per row of a table that has the inputs of the profile, higher = surer.

        The model is exactly one of `single` (one score), `combination` (a weighted sum of ranks of signals) and
        `linear`, to which `trees` may add; the others are None. `linear.plan` says which inputs are read. A row without
        the signal of `single` gets the lowest confidence. The table is not checked here.
        """
        if self.single is not None:
            return self.single.apply(table)
        if self.combination is not None:
            return self.combination.apply(table.numbers)
        assert self.linear is not None
        # log-odds, a part of the rows at a time: their columns need much memory
        confidence = np.empty(table.row_count)
        for start in range(0, table.row_count, _ROWS_AT_ONCE):  # 16,384
            rows = np.arange(start, min(start + _ROWS_AT_ONCE, table.row_count))
            part = table if len(rows) == table.row_count else table.take(rows)  # all rows: without a copy
            log_odds = self.linear.apply(part, self.profile)
            if self.trees is not None:
                log_odds = log_odds + self.trees.apply(
                    make_tree_columns(part, self.profile, self.linear.plan)
                )
            confidence[rows] = log_odds
        return confidence

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that name this function of the inputs: another one has others."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def _rules(self) -> dict[str, Any]:
        """Return each rule that a stored model must keep, as the message to show, and whether it keeps it.

        A model is exactly one of a single score, a linear model (alone or with trees) and a combination; the others are
        None. `fits` of a part says whether it can be computed from the inputs of `self.profile`. Its `is_consistent`
        says that these have names of their own, and that the values and ranks of each number rise. The caller raises
        DataError with the message of a rule that is False.
        """
        functions = [part for part in (self.single, self.linear, self.combination) if part is not None]
        if not self.profile.is_consistent:  # then the other rule cannot be checked
            return {"`profile` must describe inputs in increasing order.": False}
        fits = len(functions) == 1
        if fits and self.single is not None:
            fits = self.single.fits(self.profile)
        if fits and self.linear is not None:
            fits = self.linear.fits(self.profile)
        if fits and self.combination is not None:
            signal_and_feature_names = tuple(self.profile.numbers)  # the keys; values are their distributions
            fits = self.combination.fits(signal_and_feature_names)
        if fits and self.trees is not None:
            fits = False  # trees are added to a linear model, and read the inputs that its plan names
            if self.linear is not None:
                inputs = list_tree_inputs(self.profile, self.linear.plan)
                fits = self.trees.fits(len(inputs.of_numbers), len(inputs.of_codes))
        return {"the model must be one function of the inputs in `profile`.": fits}

    def __repr__(self) -> str:
        return f"ConfidenceModel({', '.join(self.profile.names)}; {self.fingerprint})"
