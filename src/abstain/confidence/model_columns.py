"""The columns that logistic models and trees read, made of the inputs of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import InputTable
from abstain.confidence.logit_features import logit_feature_names
from abstain.confidence.rank_model import RankModel
from abstain.confidence.signal_ranks import RANK_COLUMNS, rank_basis

_MAX_NUMBERS_IN_PRODUCTS = 6  # with more signals and features, their pairs are too many to be estimated
# Ridge penalties of standardised columns, in units of one row's information. Those of ranks and levels were chosen on
# language models with 50 to 2,000 labels, those of classes on every second file of logits: test AURC changes by less
# than 0.5% between half and twice these values.
_RANK_PENALTY = 10.0
_LEVEL_PENALTY = 5.0
_LOGIT_PENALTY = 1.0
_CLASS_PENALTY = 5.0
_RUNNER_UP_PENALTY = 20.0
_TRANSFER_FACTOR = 3.0  # the penalties of the other columns beside a transferred score: they only correct it
_TRANSFER_PENALTY = 0.1  # the transferred score is trusted: with few labels it decides
_RANK_OF_MISSING = -1.0  # below every rank, so that a tree can tell missing values from all others
_UNKNOWN_LEVEL = -1  # code of a level that was not seen in learning


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnPlan:
    """Which inputs of a profile a model reads.

    Attributes
    ----------
    numbers : bool
        Signals and features.
    categories : bool
        A flag for each level of each category.
    logits : bool
        The features of the class scores.
    classes : bool
        A flag for each predicted class.
    runner_up : bool
        A flag for each class that has the second largest score.
    transfer : RankModel or None
        A combination of signals learned elsewhere, whose value is one more column.
    """

    numbers: bool = False
    categories: bool = False
    logits: bool = False
    classes: bool = False
    runner_up: bool = False
    transfer: RankModel | None = None

    def fits(self, profile: InputProfile) -> bool:
        """Does the profile have the class scores and signals that are read?"""
        needs_class_scores = self.logits or self.classes or self.runner_up
        if needs_class_scores and profile.kind is None:
            return False
        return self.transfer is None or self.transfer.fits(tuple(profile.numbers))


def make_columns(table: InputTable, profile: InputProfile, plan: ColumnPlan) -> np.ndarray:
    """Return the columns of a linear model, shape (n, columns), before they are standardised.

    `plan` says which inputs are read. Their columns are, in this order: for each signal and feature, smooth functions
    of its rank among the rows of the profile and a flag for missing; the product of the centred ranks of each pair of
    them; a flag for each level of each category; the features of the class scores; a flag for each predicted class; a
    flag for each class in the second place; the value of a combination of signals that was learned elsewhere
    (`plan.transfer`; None: no such column).

    `table` holds the inputs of all rows, `profile` their distribution in the rows that are learned from. `numbers` of
    both are the signals and the features, by name; `profile.categories` has the share of each level of a category. A
    row whose level is not among these has 0 in all of them. The order must stay that of `describe_columns`. Class
    scores are there whenever the plan reads them.
    """
    columns: list[np.ndarray] = []
    if plan.numbers:
        centred_ranks: list[np.ndarray] = []
        for name, reference in profile.numbers.items():
            column = table.numbers[name]
            ranks = reference.rank(column)
            columns.append(rank_basis(ranks))  # five smooth functions of the rank
            columns.append(np.isnan(column)[:, None].astype(np.float64))
            centred_ranks.append(ranks - 0.5)  # 0 for a missing value, which has the middle rank
        for first, second in _pairs(len(centred_ranks)):  # all pairs; none if there are more than six numbers
            columns.append((centred_ranks[first] * centred_ranks[second])[:, None])
    if plan.categories:
        for name, shares in profile.categories.items():
            # the place of each row's level among those in learning, which are in increasing order; -1 if not there
            codes = _level_codes(table.categories[name], levels=np.asarray(list(shares)))
            columns.append(_flags(codes, len(shares)))  # 0/1 columns, one per level
    if plan.logits:
        assert table.logit_features is not None
        columns.append(table.logit_features)
    class_count = profile.class_count or 0
    if plan.classes:
        assert table.predicted is not None
        columns.append(_flags(table.predicted, class_count))
    if plan.runner_up:
        assert table.runner_up is not None
        columns.append(_flags(table.runner_up, class_count))
    if plan.transfer is not None:
        columns.append(plan.transfer.apply(table.numbers)[:, None])
    return np.column_stack(columns) if columns else np.empty((table.row_count, 0))


def _pairs(number_count: int) -> list[tuple[int, int]]:
    """Pairs of numbers whose product is a column; none if there are more than six numbers."""
    if number_count > _MAX_NUMBERS_IN_PRODUCTS:
        return []
    first, second = np.triu_indices(number_count, 1)
    return list(zip(first.tolist(), second.tolist()))


def _level_codes(labels: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The index of each label among the levels, which are in increasing order; -1 for an unknown label."""
    index = np.searchsorted(levels, labels).clip(0, len(levels) - 1)
    return np.where(levels[index] == labels, index, _UNKNOWN_LEVEL)


def _flags(codes: np.ndarray, level_count: int) -> np.ndarray:
    """One column per level from 0 on, 1.0 where a row has its code; all 0.0 for the code -1."""
    return np.asarray((codes[:, None] == np.arange(level_count)).astype(np.float64))


class DesignColumn(NamedTuple):
    """One column of a linear model: the inputs it is made of, its ridge penalty, and whether it is a 0/1 flag.

    Flags of levels and classes are not divided by their spread, since that would free the rarest ones most.
    """

    inputs: tuple[str, ...]
    penalty: float
    is_flag: bool = False


def describe_columns(profile: InputProfile, plan: ColumnPlan) -> list[DesignColumn]:
    """Describe the columns that `make_columns` makes of the inputs, in the same order: their inputs and penalties.

    `profile` holds the distribution of every input in the rows that are learned from, `plan` says which inputs are
    read. `plan.transfer` is a combination of signals learned elsewhere, whose value is one more column; None if there
    is none. A column of two inputs is their product. `penalty` is the ridge penalty of the standardised column, and
    `is_flag` marks 0/1 columns, which are not divided by their spread.
    """
    # the other columns only correct a transferred score, so their penalties are larger then
    factor = 1.0 if plan.transfer is None else _TRANSFER_FACTOR  # 3
    columns: list[DesignColumn] = []
    if plan.numbers:
        names = list(profile.numbers)
        for name in names:
            # RANK_COLUMNS smooth functions of the rank, and the flag for missing
            columns += [DesignColumn(inputs=(name,), penalty=factor * _RANK_PENALTY)] * (RANK_COLUMNS + 1)
        columns += [
            DesignColumn(inputs=(names[first], names[second]), penalty=factor * _RANK_PENALTY)
            for first, second in _pairs(len(names))  # none if there are more than six numbers
        ]
    if plan.categories:
        for name, share_of_level in profile.categories.items():  # a flag for each level
            columns += [DesignColumn((name,), factor * _LEVEL_PENALTY, is_flag=True)] * len(share_of_level)
    # "logits" or "probs", and the number of classes; without class scores both are None, and neither is used below
    kind = str(profile.kind)
    class_count = profile.class_count or 2
    if plan.logits:
        columns += [DesignColumn((kind,), factor * _LOGIT_PENALTY)] * len(
            logit_feature_names(kind, class_count)
        )
    if plan.classes:
        columns += [DesignColumn((kind,), factor * _CLASS_PENALTY, is_flag=True)] * class_count
    if plan.runner_up:
        columns += [DesignColumn((kind,), factor * _RUNNER_UP_PENALTY, is_flag=True)] * class_count
    if plan.transfer is not None:  # one column, made of all signals that the combination reads
        columns.append(DesignColumn(inputs=tuple(plan.transfer.references), penalty=_TRANSFER_PENALTY))
    return columns


class TreeColumns(NamedTuple):
    """What trees read of each row.

    `numbers` has shape (n, count): ranks of signals and features, -1 where missing, then features of class scores.
    `codes` has shape (n, count): the level of each category, the predicted class and the class in the second place,
    numbered from 0; -1 for a level that was not seen in learning.
    """

    numbers: np.ndarray
    codes: np.ndarray

    def take(self, rows: np.ndarray) -> TreeColumns:
        """The same columns of some rows, by index."""
        return TreeColumns(self.numbers[rows], self.codes[rows])

    def without(self, name: str, inputs: TreeInputs) -> TreeColumns:
        """The columns that are not made of the input with this name; `inputs` says what each is made of."""
        is_other_number = np.asarray([other != name for other in inputs.of_numbers], dtype=bool)
        is_other_code = np.asarray([other != name for other in inputs.of_codes], dtype=bool)
        return TreeColumns(self.numbers[:, is_other_number], self.codes[:, is_other_code])


def make_tree_columns(table: InputTable, profile: InputProfile, plan: ColumnPlan) -> TreeColumns:
    """Return what trees read of each row, for the inputs that a plan names: numbers, and codes that are not ordered.

    Numbers are the ranks of signals and features among the rows learned from, then the features of the class scores.
    Codes are, for each category, the place of a row's level among the levels in `profile`, -1 for a level that is not
    among them (a missing label is the level "(missing)"), then the predicted class and the class in the second place as
    columns of the class scores. A row always has these two, and a class that was never predicted in learning has its
    own code too. The order must stay that of `list_tree_inputs`. The value of a combination learned elsewhere
    (`plan.transfer`) is a column of linear models alone.
    """
    numbers: list[np.ndarray] = []  # one vector per column
    codes: list[np.ndarray] = []
    if plan.numbers:
        # by name, signals first and then features; so is `table.numbers`
        for name, reference in profile.numbers.items():
            column = table.numbers[name]
            # ranks are from 0 to 1; missing values get -1, below all others, so that a tree can tell them apart
            numbers.append(np.where(np.isnan(column), _RANK_OF_MISSING, reference.rank(column)))
    if plan.logits:
        assert table.logit_features is not None
        numbers += list(table.logit_features.T)
    if plan.categories:
        for name, shares in profile.categories.items():
            codes.append(_level_codes(table.categories[name], levels=np.asarray(list(shares))))
    if plan.classes:
        assert table.predicted is not None
        codes.append(table.predicted)
    if plan.runner_up:
        assert table.runner_up is not None
        codes.append(table.runner_up)
    return TreeColumns(
        numbers=np.column_stack(numbers) if numbers else np.empty((table.row_count, 0)),
        codes=np.column_stack(codes).astype(np.int64)
        if codes
        else np.empty((table.row_count, 0), dtype=np.int64),
    )


class TreeInputs(NamedTuple):
    """The input that each column of `TreeColumns` is made of: of its numbers, and of its codes, in their order."""

    of_numbers: tuple[str, ...]
    of_codes: tuple[str, ...]


def list_tree_inputs(profile: InputProfile, plan: ColumnPlan) -> TreeInputs:
    """Return the inputs of the columns that `make_tree_columns` makes; class scores are "logits" or "probs".

    `profile` holds the inputs by name, and the flags of `plan` (True or False) say which of them are read: `logits`,
    `classes` and `runner_up` stand for columns made of class scores, and are False without these. The result has one
    name per column of numbers and one per column of codes, in the order of `make_tree_columns`; both may be empty.
    """
    # without class scores `kind` and `class_count` are None, and neither is used below
    kind = str(profile.kind)
    of_numbers: list[str] = []
    of_codes: list[str] = []
    if plan.numbers:
        of_numbers += list(profile.numbers)
    if plan.logits:
        of_numbers += [kind] * len(logit_feature_names(kind, profile.class_count or 2))
    if plan.categories:
        of_codes += list(profile.categories)
    # the predicted class and the class in the second place, one column each
    of_codes += [kind] * [plan.classes, plan.runner_up].count(True)
    return TreeInputs(tuple(of_numbers), tuple(of_codes))
