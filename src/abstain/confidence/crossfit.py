"""Out-of-fold confidences: every row is scored by a model that was fitted without it."""

from __future__ import annotations

import numpy as np

from abstain.confidence.candidates import Candidate, LearningData
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import InputTable
from abstain.errors import InputError
from abstain.metrics._sample import group_codes


def assign_folds(
    function: str, fold_count: int, cluster: np.ndarray, is_wrong: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the fold of each row, from 0 to `fold_count` - 1; rows of one cluster share it.

    `cluster` is the number of each row's cluster, from 0 on (numbers without a row take no part), and `is_wrong` marks
    the wrong rows, one entry per row. Each fold gets its share of the wrong rows, as far as clusters allow. Without
    that, a fold with many of them would be judged by a model that was fitted on few and expects few: all fitted
    candidates would look worse than they are.

    Raises InputError, which names `function`, if there are fewer clusters than folds. `rng` is the source of all
    randomness.
    """
    sizes = np.bincount(cluster)
    if np.count_nonzero(sizes) < fold_count:
        raise InputError(
            f"{function}: needs at least {fold_count} clusters for {fold_count} folds, got {np.count_nonzero(sizes)}. "
            f"Pass fewer `folds`, or finer `clusters`."
        )
    wrong_counts = np.bincount(cluster, weights=is_wrong, minlength=len(sizes))
    fold_of_cluster = np.zeros(len(sizes), dtype=np.intp)
    fold_size = np.zeros(fold_count)
    fold_wrong = np.zeros(fold_count)
    shuffled = rng.permutation(len(sizes))
    # clusters of several rows first, the largest first, of equal ones that with the most wrong rows: each to the
    # smallest fold, of equal ones to that with the fewest wrong rows (the last key of lexsort counts first)
    several = shuffled[sizes[shuffled] > 1]
    for number in several[np.lexsort([-wrong_counts[several], -sizes[several]])]:
        fold = int(np.lexsort([fold_wrong, fold_size])[0])
        fold_of_cluster[number] = fold
        fold_size[fold] += sizes[number]
        fold_wrong[fold] += wrong_counts[number]
    # Clusters of one row then fill up the folds to one size, as far as the large clusters allow. They are dealt out in
    # one sequence, the right ones and after them the wrong ones, so that each fold gets its share of both; with random
    # order among equals.
    alone = shuffled[sizes[shuffled] == 1]
    alone = alone[np.argsort(wrong_counts[alone], kind="stable")]
    target_size = (fold_size.sum() + len(alone)) / fold_count
    room = np.maximum(target_size - fold_size, 0.0)  # how many rows each fold still takes
    # a fold for each of them: every fold occurs in proportion to its room, evenly spread over the sequence
    fold_of_cluster[alone] = _take_turns(room, len(alone), rng)
    return np.asarray(fold_of_cluster[cluster])


def _take_turns(shares: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return `count` numbers of folds in which each fold occurs in proportion to its share, evenly spread.

    `shares` has one entry per fold, not negative; they need not add up to 1. The fold at an index is that of the row at
    this index of the caller's sequence. With equal shares, the folds take turns in random order, drawn from `rng`.
    """
    total = max(shares.sum(), 1e-300)  # shares are all 0 only where `count` is 0
    # rounded cumulative numbers, so that the numbers of all folds add up to `count`
    stops = np.rint(np.cumsum(shares) / total * count).astype(np.intp)
    times = np.diff(stops, prepend=0)  # how often each fold occurs
    fold = np.repeat(np.arange(len(shares)), times)
    occurrence = np.arange(len(fold)) - np.repeat(stops - times, times)  # 0, 1, ... within each fold
    share_of_turns = (occurrence + 0.5) / np.repeat(times, times)  # from 0 to 1
    random_order = rng.permutation(len(shares))[fold]  # which of the folds with equal shares comes first
    # sorted by the share of turns, the last key; equal ones in random order
    return np.asarray(fold[np.lexsort([random_order, share_of_turns])])


def find_repeated_rows(table: InputTable) -> np.ndarray:
    """Number the distinct rows of a table from 0: equal inputs have equal numbers, one entry per row.

    `table` holds the inputs of all rows: by name `numbers` (signals and others) and categories, and class scores, which
    are compared by what models read of them: their features and the predicted class. The table has at least one input.
    """
    # NaN differs from itself; inputs are finite, so that infinity can stand for a missing value
    columns = [np.nan_to_num(column, nan=np.inf) for column in table.numbers.values()]
    columns += [
        group_codes("learn_confidence", labels).codes.astype(np.float64)  # equal labels have equal codes
        for labels in table.categories.values()
    ]
    if table.logit_features is not None:
        columns += list(table.logit_features.T)
    if table.predicted is not None:
        columns.append(table.predicted.astype(np.float64))
    matrix = np.ascontiguousarray(np.column_stack(columns) + 0.0)  # adding 0 turns -0.0 into 0.0
    # the bytes of a row as one value, so that whole rows are compared
    row_bytes = matrix.view(np.dtype((np.void, matrix.dtype.itemsize * matrix.shape[1]))).reshape(-1)
    return np.asarray(np.unique(row_bytes, return_inverse=True)[1]).reshape(-1)


def score_out_of_fold(
    candidate: Candidate, data: LearningData, fold: np.ndarray, profiles: list[InputProfile]
) -> np.ndarray:
    """Return the confidence of each row by the candidate fitted on the other folds; higher = surer.

    `fold` is the fold of each row, from 0 on, and `profiles` holds for each fold the distribution of every input in the
    rows outside it. Values of a candidate without a common scale (`has_common_scale`: are values of fits on different
    rows comparable?) are replaced by their ranks among the rows they were fitted on. `candidate` is one kind of
    confidence, which can be fitted to labelled rows. `data` holds the labelled rows: inputs, losses, targets from 1
    (best) to 0 (worst), weights and clusters.
    """
    confidence = np.empty(len(fold))
    for number, profile in enumerate(profiles):
        is_outside = fold != number
        fitted = data.take(np.flatnonzero(is_outside))
        held_out = data.table.take(np.flatnonzero(~is_outside))
        model = candidate.fit(fitted, profile)
        values = model.apply(held_out)  # one confidence per held-out row
        if not candidate.has_common_scale:
            values = _interpolated_ranks(values, reference=model.apply(fitted.table))
        confidence[~is_outside] = values
    return confidence


def _interpolated_ranks(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Ranks of values among reference values, as shares from 0 to 1: a rising function that keeps order and ties.

    Between reference values it is linear. Beyond them it goes on in steps so small that they reorder nothing else, and
    the result stays between 0 and 1. There must be at least one reference value, and all are finite.
    """
    distinct, counts = np.unique(reference, return_counts=True)
    # rank of each distinct reference value: the share below it and half of its own
    middle = (np.cumsum(counts) - 0.5 * counts) / len(reference)
    ranks = np.interp(values, distinct, middle)
    # above the largest reference value positive, below the smallest negative, between them 0
    beyond = np.where(values > distinct[-1], values - distinct[-1], np.minimum(values - distinct[0], 0.0))
    # ranks of values beyond the reference; neighbouring ranks differ by at least four times as much
    largest_step = 0.25 / len(reference)
    unit = np.abs(distinct[-1]) + np.abs(distinct[0]) + 1.0  # so that tanh rarely saturates
    return np.asarray(ranks + largest_step * np.tanh(beyond / unit))
