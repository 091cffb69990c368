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
_TREE_COUNT = 100
_LEARNING_RATE = 0.06  # share of a tree's own best fit that is added
_LEAF_PENALTY = 10.0  # ridge penalty of a leaf's value, in units of one row's information
_MAX_CUTS = 31  # places where a number may be divided, at even shares of its rows
_SHARE_OF_ROWS_PER_TREE = 0.5  # of the rows that a tree is fitted on, drawn anew for each
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

        Each tree asks three questions and adds the value of one of its eight leaves. `self.columns` and `self.cuts`
        hold one entry per question, three for the first tree, then three for the second, and so on; `self.leaves`
        holds eight values per tree in the same way. A question about a number is whether it is above the cut; the
        columns after those of numbers are codes of categories, and the question is whether the code is that in
        `self.cuts`. A level that was not seen in learning has the code -1, for which every answer is no.

        `columns.numbers` and `columns.codes` have one row per sample and must have the columns of the fit, in the same
        order. Nothing checks this here; a stored model checks it when it is read. The log-odds from which the fit
        started are not part of the sum: they are the same for all rows and change no ranking.
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
                # the answers as binary digits, the first question in the highest one, as in fitting
                leaf = np.where(answer, 2 * leaf + 1, 2 * leaf)
            total += self.leaves[LEAVES_PER_TREE * tree + leaf]
        return total

    def scaled(self, factor: float) -> BoostedTrees:
        """The same trees with all values multiplied by a factor."""
        return replace(self, leaves=factor * self.leaves)

    def before_questions_about(self, is_removed: np.ndarray) -> BoostedTrees:
        """Return the trees before the first one that asks about a removed column, with the other columns counted anew.

        `is_removed` has one entry per column of the fit, those of numbers first, then those of codes. A fit without
        these columns gives the same trees up to there, since the rows of each tree are drawn with a fixed seed.
        `self.columns` and `self.cuts` hold three entries per tree, `self.leaves` eight.
        """
        # one entry per tree: does any of its three questions ask about a removed column?
        asks = is_removed[self.columns].reshape(-1, QUESTIONS_PER_TREE).any(axis=1)
        tree_count = int(np.argmax(asks)) if asks.any() else len(asks)  # argmax is the first such tree
        # the number that each column gets when the removed ones are gone; those of removed columns are not used
        new_number = np.cumsum(~is_removed) - 1
        return BoostedTrees(
            columns=new_number[self.columns[: QUESTIONS_PER_TREE * tree_count]],
            cuts=self.cuts[: QUESTIONS_PER_TREE * tree_count],
            leaves=self.leaves[: LEAVES_PER_TREE * tree_count],
        )

    def fits(self, number_count: int, code_count: int) -> bool:
        """Has each tree three questions and eight leaves, and is each question about one of so many columns?

        The columns are `number_count` numbers, then `code_count` codes of levels.
        """
        question_count = len(self.columns)
        tree_count = question_count // QUESTIONS_PER_TREE
        has_whole_trees = question_count == QUESTIONS_PER_TREE * tree_count == len(self.cuts)
        is_known = bool(np.all(self.columns < number_count + code_count))
        return has_whole_trees and len(self.leaves) == LEAVES_PER_TREE * tree_count and is_known


class _Bins(NamedTuple):
    """The bins of all columns, numbered through from the first column to the last.

    A number has a bin between each two of its cuts; a category has a bin for unknown levels and one for each level. A
    bin is also a question of a tree: "is the number above this bin?" or "has the category this level?".

    `bin_of_value` holds the number of the bin of each row and column, shape (n, columns). The other fields have one
    entry per bin. `column` is its column. `cut` is the upper end of a number's bin, which belongs to the bin, or the
    code of a category's level. `first_of_column` is the number of the first bin of its column. `is_level` is True for
    bins of categories. `is_question` is False for bins that no tree may ask about: the last bin of a number, above
    which there are no rows, and that of unknown levels.
    """

    bin_of_value: np.ndarray
    column: np.ndarray
    cut: np.ndarray
    first_of_column: np.ndarray
    is_level: np.ndarray
    is_question: np.ndarray


def fit_trees(
    columns: TreeColumns,
    target: np.ndarray,
    weight: np.ndarray,
    *,
    first_trees: BoostedTrees | None = None,
) -> BoostedTrees:
    """Fit trees one after another, each to what the sum of those before it leaves of the logistic loss.

    Parameters
    ----------
    columns : TreeColumns
        Finite numbers, of which only the order matters, and codes of levels.
    target : ndarray, shape (n,)
        From 0 (wrong) to 1 (right), neither all 0 nor all 1.
    weight : ndarray, shape (n,)
        Not negative, with mean 1.
    first_trees : BoostedTrees, optional
        The first trees of this fit, where they are known: a fit goes on after them, and they are part of the result.

    Returns
    -------
    BoostedTrees
        Their sum estimates the log-odds of being right, less those of the mean target, from which the trees start.
    """
    # The values of each column are divided into bins, and the bins of all columns are numbered through. Each bin is
    # also a question: "is the number above this bin?" or "has the category this level?". `bins.bin_of_value` has shape
    # (n, columns); `bins.column` and `bins.cut` have one entry per bin.
    bins = _make_bins(columns)
    row_count = len(target)
    right_share = weight @ target / weight.sum()
    log_odds = np.full(row_count, np.log(right_share / (1 - right_share)))
    rows_per_tree = max(1, min(_MAX_ROWS_PER_TREE, int(_SHARE_OF_ROWS_PER_TREE * row_count)))
    rng = np.random.default_rng(_SEED)
    questions: list[int] = []  # numbers of bins, three per tree
    leaf_values: list[np.ndarray] = []
    known_count = 0
    if first_trees is not None:
        known_count = len(first_trees.leaves) // LEAVES_PER_TREE
        log_odds += first_trees.apply(columns)
    for number in range(_TREE_COUNT):
        rows = rng.permutation(row_count)[:rows_per_tree]
        if number < known_count:  # its rows are drawn too, so that those of the next trees are the same
            continue
        probability = sigmoid(log_odds[rows])
        slope = weight[rows] * (target[rows] - probability)  # minus the derivative of each row's loss
        curvature = weight[rows] * probability * (1 - probability)
        questions_of_tree = _choose_questions(bins, bins.bin_of_value[rows], slope, curvature)
        leaf = _leaf_of_rows(bins, bins.bin_of_value, questions_of_tree)
        slope_of_leaf = np.bincount(leaf[rows], weights=slope, minlength=LEAVES_PER_TREE)
        curvature_of_leaf = np.bincount(leaf[rows], weights=curvature, minlength=LEAVES_PER_TREE)
        values = _LEARNING_RATE * slope_of_leaf / (curvature_of_leaf + _LEAF_PENALTY)
        log_odds += values[leaf]
        questions += questions_of_tree
        leaf_values.append(values)
    parts_of_columns = [bins.column[questions]]
    parts_of_cuts = [bins.cut[questions]]
    if first_trees is not None:
        parts_of_columns.insert(0, first_trees.columns)
        parts_of_cuts.insert(0, first_trees.cuts)
        leaf_values.insert(0, first_trees.leaves)
    return BoostedTrees(
        columns=np.concatenate(parts_of_columns),
        cuts=np.concatenate(parts_of_cuts),
        leaves=np.concatenate(leaf_values),
    )


def _make_bins(columns: TreeColumns) -> _Bins:
    """Divide numbers at even shares of their rows and give each level of a category a bin.

    A number in a bin is at most the bin's cut and above the cut before it; a category in a bin has the level whose code
    is the bin's cut. A cut lies half way between two neighbouring values, so that rounding in another library moves no
    row across it. Raises ValueError if there are no columns. The bins of all columns are numbered through: `column`,
    `cut`, `first_of_column` (the number of the first bin of the same column) and the two flags have one entry per bin.

    `columns.numbers` holds finite floats and `columns.codes` codes of levels from 0 on, -1 for an unknown level; both
    have one row per sample and one column per input, and either may have no columns. There must be rows.
    """
    shares = np.arange(1, _MAX_CUTS + 1) / (_MAX_CUTS + 1)  # 31 cuts
    # each list gets one vector per column; the first one has an entry per row, the other three an entry per bin
    bin_in_column: list[np.ndarray] = []  # counted from 0 in the column
    cuts: list[np.ndarray] = []
    is_level: list[np.ndarray] = []
    is_question: list[np.ndarray] = []  # may a tree choose this bin as a question?
    for number in columns.numbers.T:
        distinct = np.unique(number)
        # indices of the values just below a cut; no cut lies above the largest value
        below = np.unique(np.searchsorted(distinct, np.quantile(number, shares, method="inverted_cdf")))
        below = below[below < len(distinct) - 1]
        half_way = 0.5 * (distinct[below] + distinct[below + 1])
        # between neighbouring floats there is no number: the lower one is the cut
        cuts_between = np.where(half_way < distinct[below + 1], half_way, distinct[below])
        cut_count = len(cuts_between)
        # a number equal to a cut is in the bin below it
        bin_in_column.append(np.searchsorted(cuts_between, number))
        # the last bin ends at the largest value
        cuts.append(np.append(cuts_between, distinct[-1]))
        is_level.append(np.zeros(cut_count + 1, dtype=bool))
        is_question.append(np.arange(cut_count + 1) < cut_count)  # no row is above the last bin
    for codes in columns.codes.T:
        level_count = int(codes.max()) + 1
        bin_in_column.append(codes + 1)  # the first bin is that of unknown levels, whose code is -1
        cuts.append(np.arange(-1, level_count).astype(np.float64))
        is_level.append(np.ones(level_count + 1, dtype=bool))
        is_question.append(np.arange(-1, level_count) >= 0)  # of known levels only
    bin_counts = [len(values) for values in cuts]
    first_bins = np.cumsum(bin_counts) - bin_counts  # of each column
    return _Bins(
        bin_of_value=np.column_stack(bin_in_column) + first_bins,
        column=np.repeat(np.arange(len(bin_counts)), bin_counts),
        cut=np.concatenate(cuts),
        first_of_column=np.repeat(first_bins, bin_counts),
        is_level=np.concatenate(is_level),
        is_question=np.concatenate(is_question),
    )


def _choose_questions(
    bins: _Bins, bin_of_value: np.ndarray, slope: np.ndarray, curvature: np.ndarray
) -> list[int]:
    """Choose three questions, one after another, that lower the penalised loss most; return the numbers of their bins.

    `bin_of_value` holds the number of the bin of each row and column, shape (rows, columns). `slope` and `curvature`
    are minus the first derivative and the second derivative of each row's loss by its log-odds. Each bin is also a
    question about its column, "above this bin?" or "of this level?", but for those that `bins.is_question` excludes. If
    nothing divides the rows, an arbitrary question is returned, which adds nothing.
    """
    # one entry per bin: the number of its column
    bin_count = len(bins.column)
    column_count = bin_of_value.shape[1]
    leaf = np.zeros(len(bin_of_value), dtype=np.intp)
    slopes = np.repeat(slope, column_count)
    curvatures = np.repeat(curvature, column_count)
    questions: list[int] = []
    for depth in range(QUESTIONS_PER_TREE):
        leaf_count = 2**depth  # every leaf is divided by the same question
        # sums over the rows of each leaf and bin; a row counts once in every column
        cell = (bin_of_value + bin_count * leaf[:, None]).ravel()
        size = leaf_count * bin_count
        slope_sums = np.bincount(cell, weights=slopes, minlength=size).reshape(leaf_count, bin_count)
        curvature_sums = np.bincount(cell, weights=curvatures, minlength=size).reshape(leaf_count, bin_count)
        # Each bin is a question, which divides every leaf: inside are the rows of a level, or of a number the rows up
        # to the end of the bin. Sums inside have the shape of sums by bin, (leaf_count, bin_count).
        slope_inside = _sums_inside(bins, slope_sums)
        curvature_inside = _sums_inside(bins, curvature_sums)
        slope_outside = np.bincount(leaf, weights=slope, minlength=leaf_count)[:, None] - slope_inside
        curvature_of_leaf = np.bincount(leaf, weights=curvature, minlength=leaf_count)[:, None]
        # rounding may make the difference negative
        curvature_outside = np.maximum(curvature_of_leaf - curvature_inside, 0.0)
        # twice the amount by which the best values of the two parts of each leaf lower the loss (the ridge penalty
        # keeps leaves of few rows small); the term of the undivided leaf is the same for all questions, and left out
        gain = slope_inside**2 / (curvature_inside + _LEAF_PENALTY)
        gain += slope_outside**2 / (curvature_outside + _LEAF_PENALTY)
        # not for bins that no tree may ask about: the last of a number, and that of unknown levels
        gain_of_question = np.where(bins.is_question, gain.sum(axis=0), -np.inf)
        questions.append(int(np.argmax(gain_of_question)))
        # from 0: the answers to all questions so far as binary digits, yes = 1
        leaf = _leaf_of_rows(bins, bin_of_value, questions)
    return questions


def _sums_inside(bins: _Bins, sums: np.ndarray) -> np.ndarray:
    """Sums over the rows inside each bin's question, from sums over bins; both have shape (leaves, bins).

    For a level these are the rows in its bin, for a number the rows in this bin and those before it in the column.
    """
    running = np.cumsum(sums, axis=1)
    before_column = (running - sums)[:, bins.first_of_column]
    return np.where(bins.is_level, sums, running - before_column)


def _leaf_of_rows(bins: _Bins, bin_of_value: np.ndarray, questions: list[int]) -> np.ndarray:
    """The leaf of each row after the questions (numbers of bins): each answer yes adds 1 at its binary digit.

    `bin_of_value` holds the number of the bin of each row and column, shape (rows, columns).
    """
    leaf = np.zeros(len(bin_of_value), dtype=np.intp)
    for question in questions:
        bin_of_row = bin_of_value[:, bins.column[question]]
        answer = bin_of_row == question if bins.is_level[question] else bin_of_row > question
        leaf = np.where(answer, 2 * leaf + 1, 2 * leaf)
    return leaf
