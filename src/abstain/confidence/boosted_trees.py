"""Boosted decision trees in numpy: small, the same on every machine, and stored as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np

from abstain._stored import Within
from abstain.confidence.logistic import sigmoid
from abstain.confidence.model_columns import TreeColumns

# Chosen on every second language model and file of logits with 500 to 10,000 labels; half or twice as many trees at
# twice or half the learning rate, or one question more, change test AURC by less than 0.1%.
QUESTIONS_PER_TREE = 3  # what three inputs do together can be learned
LEAVES_PER_TREE = 2**QUESTIONS_PER_TREE
_TREES = 100
_LEARNING_RATE = 0.06  # share of a tree's own best fit that is added
_LEAF_PENALTY = 10.0  # ridge penalty of a leaf's value, in units of one row's information
_MAX_CUTS = 31  # places where a number may be divided, at even shares of its rows
_ROW_SHARE = 0.5  # of the rows that a tree is fitted on, drawn anew for each
_MAX_ROWS_PER_TREE = 5000  # bounds the time; together the trees see many more
_SEED = 0  # of the draws: the same rows give the same trees


@dataclass(frozen=True, eq=False, kw_only=True)
class BoostedTrees:
    """A sum of small trees, each of which asks three questions of a row and adds one of eight values.

    A question is "is this number above the cut?" or "has this category this level?". A tree asks every row the same
    three questions, so its eight leaves are numbered by the answers: 4 for yes to the first, 2 for yes to the second, 1
    for yes to the third.

    Attributes
    ----------
    columns : ndarray of int, shape (3 * trees,)
        What each question is about, tree by tree: columns of `TreeColumns.numbers`, then those of `TreeColumns.codes`.
    cuts : ndarray, shape (3 * trees,)
        What a number is compared with, or the code of the level.
    leaves : ndarray, shape (8 * trees,)
        What a row adds, tree by tree.
    """

    columns: Annotated[np.ndarray, Within(0, dtype=int)]
    cuts: Annotated[np.ndarray, Within()]
    leaves: Annotated[np.ndarray, Within()]

    def apply(self, columns: TreeColumns) -> np.ndarray:
        """Return the sum of all trees for each row.

        Each tree asks three questions, about `self.columns` and against `self.cuts`, and adds the value of one of its
        eight leaves. Columns beyond the numbers are codes.
        """
        number_count = columns.numbers.shape[1]
        row_count = len(columns.numbers)
        total = np.zeros(row_count)
        for tree in range(len(self.columns) // QUESTIONS_PER_TREE):
            leaf = np.zeros(row_count, dtype=np.intp)
            for question in range(QUESTIONS_PER_TREE * tree, QUESTIONS_PER_TREE * (tree + 1)):
                column = int(self.columns[question])
                if column < number_count:
                    answer = columns.numbers[:, column] > self.cuts[question]
                else:
                    answer = columns.codes[:, column - number_count] == self.cuts[question]
                leaf = np.where(answer, 2 * leaf + 1, 2 * leaf)  # the answers as binary digits
            total += self.leaves[LEAVES_PER_TREE * tree + leaf]
        return total

    def scaled(self, factor: float) -> BoostedTrees:
        """The same trees with all values multiplied by a factor."""
        return replace(self, leaves=factor * self.leaves)

    def fits(self, number_count: int, code_count: int) -> bool:
        """Has each tree three questions and eight leaves, and is each question about one of so many columns?

        The columns are `number_count` numbers, then `code_count` codes of levels.
        """
        question_count = len(self.columns)
        tree_count = question_count // QUESTIONS_PER_TREE
        has_whole_trees = question_count == QUESTIONS_PER_TREE * tree_count == len(self.cuts)
        is_known = bool(np.all(self.columns < number_count + code_count))
        return has_whole_trees and len(self.leaves) == LEAVES_PER_TREE * tree_count and is_known


class _Cells(NamedTuple):
    """The table in which losses are summed: one cell per column and bin, bins of all columns numbered through.

    A number has a bin between each two of its cuts; a category has a bin for unknown levels and one for each level.

    `cell` is the cell of each row and column, shape (n, columns). `column` and `cut` are, for each cell, its column and
    the cut that would divide rows up to this cell from those above, or the code of the cell's level. `first` is the
    first cell of the same column. `is_level` is True for cells of categories, and `is_allowed` False for cells that
    divide nothing: the last of a number, and unknown levels.
    """

    cell: np.ndarray
    column: np.ndarray
    cut: np.ndarray
    first: np.ndarray
    is_level: np.ndarray
    is_allowed: np.ndarray


def fit_trees(columns: TreeColumns, target: np.ndarray, weight: np.ndarray) -> BoostedTrees:
    """Fit trees one after another, each to what the sum of those before it leaves of the logistic loss.

    Parameters
    ----------
    columns : TreeColumns
        Finite numbers, of which only the order matters, and codes of levels.
    target : ndarray, shape (n,)
        From 0 (wrong) to 1 (right), not all of one kind.
    weight : ndarray, shape (n,)
        Not negative, with mean 1.

    Returns
    -------
    BoostedTrees
        Their sum estimates the log-odds of being right, but for a constant.
    """
    cells = _make_cells(columns)
    row_count = len(target)
    right_share = weight @ target / weight.sum()
    log_odds = np.full(row_count, np.log(right_share / (1 - right_share)))
    rows_per_tree = max(1, min(_MAX_ROWS_PER_TREE, int(_ROW_SHARE * row_count)))
    rng = np.random.default_rng(_SEED)
    questions: list[int] = []  # cells, three per tree
    leaf_values: list[np.ndarray] = []
    for _ in range(_TREES):
        rows = rng.permutation(row_count)[:rows_per_tree]
        probability = sigmoid(log_odds[rows])
        slope = weight[rows] * (target[rows] - probability)
        curvature = weight[rows] * probability * (1 - probability)
        chosen = _grow_tree(cells, cells.cell[rows], slope, curvature)
        leaf = _leaf_of_rows(cells, cells.cell, chosen)
        slope_of_leaf = np.bincount(leaf[rows], weights=slope, minlength=LEAVES_PER_TREE)
        curvature_of_leaf = np.bincount(leaf[rows], weights=curvature, minlength=LEAVES_PER_TREE)
        values = _LEARNING_RATE * slope_of_leaf / (curvature_of_leaf + _LEAF_PENALTY)
        log_odds += values[leaf]
        questions += chosen
        leaf_values.append(values)
    return BoostedTrees(
        columns=cells.column[questions], cuts=cells.cut[questions], leaves=np.concatenate(leaf_values)
    )


def _make_cells(columns: TreeColumns) -> _Cells:
    """Divide numbers at even shares of their rows and give each level of a category a cell.

    A cut lies half way between two neighbouring values, so that rounding in another library moves no row across it.
    Raises ValueError if there are no columns.
    """
    shares = np.arange(1, _MAX_CUTS + 1) / (_MAX_CUTS + 1)
    cell_of_rows: list[np.ndarray] = []
    cuts: list[np.ndarray] = []
    is_level: list[np.ndarray] = []
    is_allowed: list[np.ndarray] = []
    for number in columns.numbers.T:
        distinct = np.unique(number)
        # places of the values just below a cut; there is none above the largest value
        below = np.unique(np.searchsorted(distinct, np.quantile(number, shares, method="inverted_cdf")))
        below = below[below < len(distinct) - 1]
        half_way = 0.5 * (distinct[below] + distinct[below + 1])
        # between neighbouring floats there is no number: the lower one is the cut
        places = np.where(half_way < distinct[below + 1], half_way, distinct[below])
        cell_of_rows.append(np.searchsorted(places, number))
        cuts.append(np.append(places, distinct[-1]))
        is_level.append(np.zeros(len(places) + 1, dtype=bool))
        is_allowed.append(np.arange(len(places) + 1) < len(places))
    for codes in columns.codes.T:
        level_count = int(codes.max()) + 1
        cell_of_rows.append(codes + 1)  # the first cell is that of unknown levels, whose code is -1
        cuts.append(np.arange(-1, level_count).astype(np.float64))
        is_level.append(np.ones(level_count + 1, dtype=bool))
        is_allowed.append(np.arange(-1, level_count) >= 0)
    sizes = [len(values) for values in cuts]
    first_of_column = np.cumsum(sizes) - sizes
    return _Cells(
        cell=np.column_stack(cell_of_rows) + first_of_column,
        column=np.repeat(np.arange(len(sizes)), sizes),
        cut=np.concatenate(cuts),
        first=np.repeat(first_of_column, sizes),
        is_level=np.concatenate(is_level),
        is_allowed=np.concatenate(is_allowed),
    )


def _grow_tree(cells: _Cells, cell: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> list[int]:
    """Choose three questions, one after another, that lower the penalised loss most; return their cells.

    `cell` is the cell of each row and column, shape (rows, columns); `slope` and `curvature` are the first and second
    derivative of each row's loss, the first with its sign turned. If nothing divides the rows, an arbitrary question is
    returned, which adds nothing.
    """
    cell_count = len(cells.column)
    column_count = cell.shape[1]
    leaf = np.zeros(len(cell), dtype=np.intp)
    slopes = np.repeat(slope, column_count)
    curvatures = np.repeat(curvature, column_count)
    chosen: list[int] = []
    for depth in range(QUESTIONS_PER_TREE):
        leaf_count = 2**depth
        # sums over the rows of each leaf and cell; a row counts once in every column
        place = (cell + cell_count * leaf[:, None]).ravel()
        size = leaf_count * cell_count
        slope_sums = np.bincount(place, weights=slopes, minlength=size).reshape(leaf_count, cell_count)
        curvature_sums = np.bincount(place, weights=curvatures, minlength=size).reshape(
            leaf_count, cell_count
        )
        # each cell is a question, which divides every leaf into rows inside and outside
        slope_inside = _sums_of_one_side(cells, slope_sums)
        curvature_inside = _sums_of_one_side(cells, curvature_sums)
        slope_outside = np.bincount(leaf, weights=slope, minlength=leaf_count)[:, None] - slope_inside
        curvature_outside = (
            np.bincount(leaf, weights=curvature, minlength=leaf_count)[:, None] - curvature_inside
        )
        # by how much the best value of a leaf lowers the loss, twice
        gain = slope_inside**2 / (curvature_inside + _LEAF_PENALTY)
        gain += slope_outside**2 / (np.maximum(curvature_outside, 0.0) + _LEAF_PENALTY)
        best = int(np.argmax(np.where(cells.is_allowed, gain.sum(axis=0), -np.inf)))
        chosen.append(best)
        leaf = _leaf_of_rows(cells, cell, chosen)
    return chosen


def _sums_of_one_side(cells: _Cells, sums: np.ndarray) -> np.ndarray:
    """Sums over the rows on one side of each cell's question, from sums over cells, shape (leaves, cells).

    For a level that is its own cell, for a number all cells of the column up to this one.
    """
    running = np.cumsum(sums, axis=1)
    before_column = (running - sums)[:, cells.first]
    return np.where(cells.is_level, sums, running - before_column)


def _leaf_of_rows(cells: _Cells, cell: np.ndarray, chosen: list[int]) -> np.ndarray:
    """The leaf of each row after the chosen questions (cells): each answer yes adds 1 at its binary digit.

    `cell` is the cell of each row and column, shape (rows, columns).
    """
    leaf = np.zeros(len(cell), dtype=np.intp)
    for question in chosen:
        own_cell = cell[:, cells.column[question]]
        answer = own_cell == question if cells.is_level[question] else own_cell > question
        leaf = np.where(answer, 2 * leaf + 1, 2 * leaf)
    return leaf
