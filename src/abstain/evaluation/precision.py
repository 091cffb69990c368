"""Precision, recall and F1 of the accepted predictions: what people who detect and retrieve report."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from abstain._arrays import ArrayLike, to_host
from abstain._check import check_fraction, refuse_other_row_order
from abstain.core.curve_points import mass_for_share
from abstain.errors import InputError, ShapeError
from abstain.evaluation.graded import answer_entries
from abstain.evaluation.results import MISSING, Entry, Evaluation
from abstain.inference.clusters import cluster_codes, cluster_columns
from abstain.metrics._sample import group_codes, prepare
from abstain.metrics.answer_metrics import AnswerMetric, GradedAnswers
from abstain.metrics.metric import write_number

# These are ratios of counts, as the metrics of graded answers are, and have their intervals from the same place. In
# those counts a rejected prediction stands as "attempted" and a right one as "unanswerable", so that
# "unanswerable_not_attempted" counts the accepted that are right.
_ACCEPTED = "not_attempted"
_RIGHT = "unanswerable"
_ACCEPTED_AND_RIGHT = "unanswerable_not_attempted"
_METRICS = (
    AnswerMetric(
        name="precision",
        label="precision",
        summary="Share of the accepted predictions that are right.",
        numerator={_ACCEPTED_AND_RIGHT: 1.0},
        denominator={_ACCEPTED: 1.0},
    ),
    AnswerMetric(
        name="recall",
        label="recall",
        summary="Share of the right predictions that are accepted.",
        numerator={_ACCEPTED_AND_RIGHT: 1.0},
        denominator={_RIGHT: 1.0},
    ),
    AnswerMetric(
        name="f1",
        label="F1",
        summary="Harmonic mean of precision and recall.",
        numerator={_ACCEPTED_AND_RIGHT: 2.0},
        denominator={_ACCEPTED: 1.0, _RIGHT: 1.0},
    ),
    AnswerMetric(
        name="coverage",
        label="coverage",
        summary="Share of all predictions that are accepted.",
        numerator={_ACCEPTED: 1.0},
    ),
)


@refuse_other_row_order
def precision_recall(
    right: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    thresholds: Sequence[float] | None = None,
    coverages: Sequence[float] | None = None,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Evaluation:
    """Precision, recall and F1 of the predictions above a threshold, each with its interval; higher is better.

    Recall is relative to the right predictions in these data. To count objects that were never detected, add a row for
    each: right, with a confidence below every threshold.

    Parameters
    ----------
    right : array of bool, shape (n,)
        Whether each prediction is right (a detection is matched, a document is relevant).
    confidence : array, shape (n,)
        Higher is surer. A prediction is accepted if its confidence is at least the threshold.
    thresholds : sequence of float
        One column of the table for each.
    coverages : sequence of float in (0, 1]
        In place of thresholds: accept such a share of the predictions, and all with an equal confidence. The intervals
        take the threshold there as fixed.
    level : float
        Confidence level of the intervals.
    clusters : array, shape (n,), or two of them, optional
        One label per prediction, such as its image: predictions with the same label are not independent.
    groups : array, shape (n,), optional
        One label per prediction, such as its class: every number is also given within each group.

    Returns
    -------
    Evaluation
        The metrics "precision", "recall", "f1" and "coverage"; `by_group("f1", score=...)` lists groups worst first. A
        number that is undefined (no prediction is accepted, or none is right) has a `reason`.

    Raises
    ------
    InputError
        Unless exactly one of `thresholds` and `coverages` is given, with at least one number, and `right` holds truth
        values, and for the path of a file; ShapeError for columns of different lengths.

    Examples
    --------
    >>> table = precision_recall([1, 1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.5], thresholds=[0.65])
    >>> [round(table[metric].estimate, 3) for metric in ("precision", "recall", "f1", "coverage")]
    [0.667, 0.667, 0.667, 0.6]
    """
    function = "precision_recall"
    level = check_fraction(function, "level", level, open_high=True)
    for column in (right, confidence):
        if isinstance(column, (str, os.PathLike)):
            raise InputError(
                f"{function}: takes arrays, got the path {os.fspath(column)!r}. Read the file with "
                f"`abstain.formats.read_predictions`."
            )
    shapes = [np.shape(to_host(column)) for column in (right, confidence)]
    if shapes[0] != shapes[1]:
        raise ShapeError(
            f"{function}: `right` and `confidence` must be vectors of one length, got shapes {shapes[0]} and "
            f"{shapes[1]}."
        )
    truth_values = np.ravel(to_host(right))
    is_other = ~np.isin(truth_values, (False, True))
    if is_other.any():
        other = truth_values[is_other].tolist()[0]
        raise InputError(f"{function}: `right` must hold truth values, True or False, got {other!r}.")
    sample = prepare(function, to_host(right), to_host(confidence), vector=True)
    n = len(sample.loss)
    is_right = np.asarray(sample.loss).astype(bool)
    value_by_column = _threshold_columns(function, np.asarray(sample.confidence), thresholds, coverages)
    cluster_labels = cluster_columns(function, clusters, n)
    cluster_codes(function, cluster_labels, n)  # raises if there is not one label per prediction
    parts: list[tuple[Any, np.ndarray]] = [(None, np.ones(n, dtype=bool))]  # label of a group, and its mask
    if groups is not None:
        labels, codes = group_codes(function, groups, (n,))
        parts += [(MISSING if label is None else label, codes == code) for code, label in enumerate(labels)]
    entries: list[Entry] = []
    for group, rows in parts:
        by_column = []
        for column, value in value_by_column.items():
            is_rejected = np.asarray(sample.confidence)[rows] < value
            # in the roles that `_METRICS` gives them; how right an answer is, is read by none of these metrics
            counted = GradedAnswers(
                right=np.zeros(len(is_rejected)), attempted=is_rejected, unanswerable=is_right[rows]
            )
            part_clusters = None if cluster_labels is None else cluster_labels[rows]
            by_column.append(
                answer_entries(
                    counted, _METRICS, level=level, clusters=part_clusters, group=group, score=column
                )
            )
        for entries_of_metric in zip(*by_column):
            entries += entries_of_metric
    return Evaluation(entries=tuple(entries), n=n, level=level)


def _threshold_columns(
    function: str,
    confidence: np.ndarray,
    thresholds: Sequence[float] | None,
    coverages: Sequence[float] | None,
) -> dict[str, float]:
    """Map the name of each column of the table to its threshold.

    `confidence` holds the confidences of all samples, at least one, in any order. Give either `thresholds` or
    `coverages`: a coverage stands for the threshold that accepts that share of the samples. Raises InputError, in the
    name of the public `function`, for both, none, an empty list, a threshold that is no number, or a coverage outside
    (0, 1]. Numbers that are written alike share a column.
    """
    if (thresholds is None) == (coverages is None):
        raise InputError(f"{function}: give `thresholds` or `coverages`, one of them.")
    values_by_name: dict[str, float] = {}
    for threshold in thresholds if thresholds is not None else ():
        if math.isnan(threshold):
            raise InputError(f"{function}: `thresholds` must be numbers, got nan.")
        values_by_name[f"at least {write_number(threshold)}"] = float(threshold)
    falling = np.sort(confidence)[::-1]
    for coverage in coverages if coverages is not None else ():
        share = check_fraction(function, "coverages", coverage)
        # the fewest predictions that reach the share; rounding adds none, as it does in ceil(0.07 * 100) = 8
        fewest = mass_for_share(np, total=len(falling), share=share, whole=True)
        accepted_count = max(1, int(fewest))
        least_accepted = falling[accepted_count - 1]
        values_by_name[f"coverage {write_number(coverage)}"] = float(least_accepted)
    if not values_by_name:
        raise InputError(f"{function}: needs at least one threshold or coverage, got none.")
    return values_by_name
