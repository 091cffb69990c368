"""The functions of the inputs that a learned confidence can be: one score alone, or a weighted sum of many columns.

They hold plain numbers, are stored as JSON, and need numpy only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from abstain._stored import Finite, Stored, Within
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import InputTable
from abstain.confidence.logistic import fit_logistic
from abstain.confidence.logit_features import logit_feature_names
from abstain.confidence.rank_model import RankModel
from abstain.confidence.signal_ranks import RANK_COLUMNS, rank_basis
from abstain.thresholds.cut import MISSING

_MAX_NUMBERS_IN_PRODUCTS = 6  # with more signals and features, their pairs are too many to be estimated
_ROWS_AT_ONCE = 1 << 14  # rows whose columns are computed at a time, so that a million rows fit into memory
# Ridge penalties of standardised columns, in units of one row's information, chosen on language models with 50 to 2,000
# labels: test AURC changes by less than 0.5% between half and twice these values.
_RANK_PENALTY = 10.0
_LEVEL_PENALTY = 5.0
_LOGIT_PENALTY = 1.0
_CLASS_PENALTY = 5.0
_TRANSFER_FACTOR = 3.0  # the penalties of the other columns beside a transferred score: they only correct it
_TRANSFER_PENALTY = 0.1  # the transferred score is trusted: with few labels it decides
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
            return np.where(np.isnan(values), MISSING, values)
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
    with_numbers, with_categories, with_logits, with_classes : bool
        Which inputs have columns: signals and features, categories, features of the class scores, and an offset for
        each predicted class.
    transfer : RankModel or None
        A combination of signals learned elsewhere, whose value is one more column.
    centre, scale, weights : ndarray, shape (columns,)
        A column x adds `weight * (x - centre) / scale`.
    intercept : float
        Log-odds of a row whose columns are all at their centre.
    """

    with_numbers: bool
    with_categories: bool
    with_logits: bool
    with_classes: bool
    transfer: RankModel | None = None
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
        confidence = np.empty(table.row_count)
        for start in range(0, table.row_count, _ROWS_AT_ONCE):
            rows = np.arange(start, min(start + _ROWS_AT_ONCE, table.row_count))
            part = table if len(rows) == table.row_count else table.take(rows)
            columns = make_columns(
                part,
                profile,
                with_numbers=self.with_numbers,
                with_categories=self.with_categories,
                with_logits=self.with_logits,
                with_classes=self.with_classes,
                transfer=self.transfer,
            )
            confidence[rows] = constant + columns @ slopes
        return confidence

    def count_columns(self, profile: InputProfile) -> int:
        """How many columns this model has with the inputs of a profile.

        `profile` holds the distribution of every input in the rows that are learned from.
        """
        return len(
            describe_columns(
                profile,
                with_numbers=self.with_numbers,
                with_categories=self.with_categories,
                with_logits=self.with_logits,
                with_classes=self.with_classes,
                transfer=self.transfer,
            )
        )

    def fits(self, profile: InputProfile) -> bool:
        """Can it be computed from the inputs of this profile?"""
        needs_classes = self.with_logits or self.with_classes
        if needs_classes and profile.kind is None:
            return False
        transfer_fits = self.transfer is None or self.transfer.fits(tuple(profile.numbers))
        lengths = {len(self.centre), len(self.scale), len(self.weights)}
        return transfer_fits and lengths == {self.count_columns(profile)}


def make_columns(
    table: InputTable,
    profile: InputProfile,
    *,
    with_numbers: bool,
    with_categories: bool,
    with_logits: bool,
    with_classes: bool,
    transfer: RankModel | None,
) -> np.ndarray:
    """Return the columns of a linear model, shape (n, columns), before they are standardised.

    In this order: for each signal and feature, smooth functions of its rank among the rows of the profile and a flag
    for missing; the product of the centred ranks of each pair of them; a flag for each level of each category; the
    features of the class scores; a flag for each predicted class; the transferred score. `table` holds the inputs of
    all rows: signals (confidences), other numbers and categories by name, and class scores. `profile` holds the
    distribution of every input in the rows that are learned from.
    """
    columns: list[np.ndarray] = []
    if with_numbers:
        centred_ranks: list[np.ndarray] = []
        for name, reference in profile.numbers.items():
            column = table.numbers[name]
            ranks = reference.rank(column)
            columns.append(rank_basis(ranks))
            columns.append(np.isnan(column)[:, None].astype(np.float64))
            centred_ranks.append(ranks - 0.5)
        for first, second in _pairs(len(centred_ranks)):
            columns.append((centred_ranks[first] * centred_ranks[second])[:, None])
    if with_categories:
        for name, shares in profile.categories.items():
            columns.append(_level_flags(table.categories[name], levels=np.asarray(list(shares))))
    if with_logits:
        assert table.logit_features is not None
        columns.append(table.logit_features)
    if with_classes:
        assert table.predicted is not None
        columns.append((table.predicted[:, None] == np.arange(profile.class_count or 0)).astype(np.float64))
    if transfer is not None:
        columns.append(transfer.apply(table.numbers)[:, None])
    return np.column_stack(columns) if columns else np.empty((table.row_count, 0))


def _pairs(number_count: int) -> list[tuple[int, int]]:
    """Pairs of numbers whose product is a column; none if there are more than six numbers."""
    if number_count > _MAX_NUMBERS_IN_PRODUCTS:
        return []
    first, second = np.triu_indices(number_count, 1)
    return list(zip(first.tolist(), second.tolist()))


def _level_flags(labels: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """One column per level, 1 where a row has it; all 0 for an unknown level. `levels` are in increasing order."""
    place = np.searchsorted(levels, labels).clip(0, len(levels) - 1)
    code = np.where(levels[place] == labels, place, -1)
    return np.asarray((code[:, None] == np.arange(len(levels))).astype(np.float64))


class DesignColumn(NamedTuple):
    """One column of a linear model: the inputs it is made of, its ridge penalty, and whether it is a 0/1 flag.

    Flags of levels and classes are not divided by their spread, since that would free the rarest ones most.
    """

    inputs: tuple[str, ...]
    penalty: float
    is_flag: bool = False


def describe_columns(
    profile: InputProfile,
    *,
    with_numbers: bool,
    with_categories: bool,
    with_logits: bool,
    with_classes: bool,
    transfer: RankModel | None,
) -> list[DesignColumn]:
    """Describe the columns that `make_columns` makes, in the same order.

    `profile` holds the distribution of every input in the rows that are learned from.
    """
    factor = 1.0 if transfer is None else _TRANSFER_FACTOR
    columns: list[DesignColumn] = []
    if with_numbers:
        names = list(profile.numbers)
        for name in names:
            columns += [DesignColumn((name,), factor * _RANK_PENALTY)] * (RANK_COLUMNS + 1)
        columns += [
            DesignColumn((names[first], names[second]), factor * _RANK_PENALTY)
            for first, second in _pairs(len(names))
        ]
    if with_categories:
        for name, levels in profile.categories.items():
            columns += [DesignColumn((name,), factor * _LEVEL_PENALTY, is_flag=True)] * len(levels)
    kind = str(profile.kind)
    class_count = profile.class_count or 2
    if with_logits:
        columns += [DesignColumn((kind,), factor * _LOGIT_PENALTY)] * len(
            logit_feature_names(kind, class_count)
        )
    if with_classes:
        columns += [DesignColumn((kind,), factor * _CLASS_PENALTY, is_flag=True)] * class_count
    if transfer is not None:
        columns.append(DesignColumn(tuple(transfer.references), _TRANSFER_PENALTY))
    return columns


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

    `columns` has shape (n, columns), `descriptions` one entry per column, `weight` one per row.
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
    table: InputTable,
    profile: InputProfile,
    target: np.ndarray,
    weight: np.ndarray,
    **parts: Any,
) -> LinearModel:
    """Fit a linear model by ridge logistic regression on all rows of a table.

    `profile` describes the inputs; `target` is 1 for right, 0 for wrong, or a share in between; `weight` has mean 1.
    `parts` are the switches of `make_columns`: with_numbers, with_categories, with_logits, with_classes, transfer.
    `table` holds the inputs of all rows: signals (confidences), other numbers and categories by name, and class scores.
    """
    columns = make_columns(table, profile, **parts)
    ready = standardise(columns, describe_columns(profile, **parts), weight)
    coefficients = fit_logistic(ready.features, target, weight, ready.penalty)
    return LinearModel(
        **parts,
        centre=ready.centre,
        scale=ready.scale,
        weights=coefficients[1:],
        intercept=float(coefficients[0]),
    )


def score_without_inputs(
    model: LinearModel,
    profile: InputProfile,
    fitted: tuple[InputTable, np.ndarray, np.ndarray],
    held_out: InputTable,
    names: Sequence[str],
) -> dict[str, np.ndarray]:
    """Fit a linear model again without each of the named inputs, and score held-out rows: one vector by name.

    `model` was fitted on `fitted`, a table with its targets and weights. All columns that read an input are removed,
    its products with others included. Each fit starts from the weights of `model`. `profile` holds the distribution of
    every input in the rows that are learned from.
    """
    table, target, weight = fitted
    parts: dict[str, Any] = {
        "with_numbers": model.with_numbers,
        "with_categories": model.with_categories,
        "with_logits": model.with_logits,
        "with_classes": model.with_classes,
        "transfer": model.transfer,
    }
    descriptions = describe_columns(profile, **parts)
    ready = standardise(make_columns(table, profile, **parts), descriptions, weight)
    new_columns = (make_columns(held_out, profile, **parts) - ready.centre) / ready.scale
    new_features = np.column_stack([np.ones(held_out.row_count), new_columns])
    start = np.concatenate([[model.intercept], model.weights])
    scores = {}
    for name in names:
        is_kept = np.asarray([True, *(name not in column.inputs for column in descriptions)])
        coefficients = fit_logistic(
            ready.features[:, is_kept], target, weight, ready.penalty[is_kept], start=start[is_kept]
        )
        scores[name] = new_features[:, is_kept] @ coefficients
    return scores


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ConfidenceModel(Stored):
    """What a learned confidence computes, and from which inputs: exactly one of three functions of a row.

    Attributes
    ----------
    profile : InputProfile
        The inputs and their distribution in learning.
    single : SingleScore or None
        One signal or score as it is.
    linear : LinearModel or None
        Estimated log-odds of being right.
    combination : RankModel or None
        A weighted sum of ranks of signals, made without labels.
    """

    _noun: ClassVar[str] = "the model of a learned confidence"

    profile: InputProfile
    single: SingleScore | None = None
    linear: LinearModel | None = None
    combination: RankModel | None = None

    def apply(self, table: InputTable) -> np.ndarray:
        """Return one confidence per row of a table that has the inputs of the profile, higher = surer."""
        if self.single is not None:
            return self.single.apply(table)
        if self.linear is not None:
            return self.linear.apply(table, self.profile)
        assert self.combination is not None
        return self.combination.apply(table.numbers)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that name this function of the inputs: another one has others."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def _rules(self) -> dict[str, Any]:
        """Return each rule that a stored model must keep, as the message to show, and whether it keeps it.

        A model is exactly one of a single input, a linear model and a combination.
        """
        functions = [part for part in (self.single, self.linear, self.combination) if part is not None]
        if not self.profile.is_consistent:
            return {"`profile` must describe inputs in increasing order.": False}
        fits = len(functions) == 1
        if fits and self.single is not None:
            fits = self.single.fits(self.profile)
        if fits and self.linear is not None:
            fits = self.linear.fits(self.profile)
        if fits and self.combination is not None:
            fits = self.combination.fits(tuple(self.profile.numbers))
        return {"the model must be one function of the inputs in `profile`.": fits}

    def __repr__(self) -> str:
        return f"ConfidenceModel({', '.join(self.profile.names)}; {self.fingerprint})"
