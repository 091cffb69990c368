"""Answers in bins of equal size by confidence: mean confidence and accuracy of each, and how uncertain they are."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from abstain._arrays import ArrayLike
from abstain._check import check_count
from abstain.errors import InputError
from abstain.inference.clusters import check_one_kind, cluster_codes
from abstain.metrics.answer_metrics import check_probabilities, grade_answers

DEFAULT_BINS = 15


class ProbabilityBins(NamedTuple):
    """Bins of answers, least confident first.

    Attributes
    ----------
    bin_of_answer : ndarray of int, shape (n,)
        The bin of each answer.
    right, confidence : ndarray, shape (n,)
        How right each answer is, and its confidence.
    size : ndarray, shape (bins,)
        Answers in each bin.
    unit_count : ndarray, shape (bins,)
        Independent units in each bin: answers, or clusters of them.
    unit_total : int
        Independent units in all; less than the sum of `unit_count` where a cluster has answers in several bins.
    mean_confidence, accuracy : ndarray, shape (bins,)
        Mean of the confidences and of how right the answers are.
    gap_covariance : ndarray, shape (bins, bins)
        Covariance of the gaps (mean confidence less accuracy). Bins share clusters, so it need not be diagonal.
    mean_square_variance : float
        Variance of the mean squared gap over all answers, to first order: both the gaps and the shares of the bins vary
        from sample to sample.
    accuracy_variance : ndarray, shape (bins,)
        Variance of each accuracy.
    overall_accuracy_variance : float
        Variance of the accuracy of all answers.
    has_clusters : bool
        Whether units are clusters.
    """

    bin_of_answer: np.ndarray
    right: np.ndarray
    confidence: np.ndarray
    size: np.ndarray
    unit_count: np.ndarray
    unit_total: int
    mean_confidence: np.ndarray
    accuracy: np.ndarray
    gap_covariance: np.ndarray
    mean_square_variance: float
    accuracy_variance: np.ndarray
    overall_accuracy_variance: float
    has_clusters: bool

    @property
    def share(self) -> np.ndarray:
        """Share of all answers in each bin."""
        return self.size / self.size.sum()

    @property
    def gap(self) -> np.ndarray:
        """Mean confidence less accuracy of each bin; positive where answers are overconfident."""
        return self.mean_confidence - self.accuracy


def make_bins(
    function: str,
    correct: ArrayLike,
    confidence: ArrayLike,
    bins: int,
    clusters: ArrayLike | None,
) -> ProbabilityBins:
    """Sort answers into at most `bins` bins of about equal size by confidence.

    Equal confidences are in one bin, so that the order of the rows does not matter; where a model states few different
    numbers there are fewer bins. A bin with a single independent unit is merged with its neighbour, since it says
    nothing about the spread. `clusters` has one label per answer, or is None. `function` begins messages: InputError
    for values that are no probabilities, other lengths, or fewer than two independent units.
    """
    bins = check_count(function, "bins", bins)
    answers = grade_answers(function, correct)
    right = answers.right
    probabilities = check_probabilities(function, confidence, answers.attempted)
    codes = cluster_codes(function, clusters, len(right))
    check_one_kind(function, codes, "calibration")
    bin_of_answer = _merge_single_units(_assign_bins(probabilities, bins), codes)
    size = np.bincount(bin_of_answer).astype(np.float64)
    unit_count = _count_units(bin_of_answer, codes).astype(np.float64)
    if unit_count.min() < 2:
        raise InputError(f"{function}: needs at least two answers (or clusters) to see any spread, got one.")
    mean_confidence = np.bincount(bin_of_answer, probabilities) / size
    accuracy = np.bincount(bin_of_answer, right) / size
    # of each answer, less the mean of its bin
    gap = mean_confidence - accuracy
    gap_residuals = (probabilities - right) - gap[bin_of_answer]
    right_residuals = right - accuracy[bin_of_answer]
    correction = np.sqrt(unit_count / (unit_count - 1))  # makes variances unbiased
    if codes is None:
        gap_variance = np.bincount(bin_of_answer, gap_residuals**2) / size**2
        gap_covariance = np.diag(correction**2 * gap_variance)
        accuracy_variance = correction**2 * np.bincount(bin_of_answer, right_residuals**2) / size**2
        unit_total = len(right)
        overall_accuracy_variance = float(np.var(right, ddof=1)) / unit_total
    else:
        scale = correction / size
        gap_sums = _sums_by_cluster(gap_residuals, codes, bin_of_answer) * scale
        right_sums = _sums_by_cluster(right_residuals, codes, bin_of_answer) * scale
        gap_covariance = gap_sums.T @ gap_sums
        accuracy_variance = np.sum(right_sums**2, axis=0)
        unit_total = len(np.unique(codes))
        sums_of_clusters = np.bincount(codes, right - right.mean())
        overall_accuracy_variance = (
            unit_total / (unit_total - 1) * float(np.sum(sums_of_clusters**2)) / len(right) ** 2
        )
    # how far each answer moves the mean squared gap: by the gap of its bin, and by making that bin larger
    moves_by_gap = 2 * (correction * gap)[bin_of_answer] * gap_residuals
    moves_by_share = math.sqrt(unit_total / (unit_total - 1)) * (gap**2 - size @ gap**2 / len(right))
    moves = (moves_by_gap + moves_by_share[bin_of_answer]) / len(right)
    if codes is not None:
        moves = np.bincount(codes, moves)
    return ProbabilityBins(
        bin_of_answer=bin_of_answer,
        right=right,
        confidence=probabilities,
        size=size,
        unit_count=unit_count,
        unit_total=unit_total,
        mean_confidence=mean_confidence,
        accuracy=accuracy,
        gap_covariance=gap_covariance,
        mean_square_variance=float(moves @ moves),
        accuracy_variance=accuracy_variance,
        overall_accuracy_variance=overall_accuracy_variance,
        has_clusters=codes is not None,
    )


def _assign_bins(confidence: np.ndarray, bins: int) -> np.ndarray:
    """The bin of each answer, 0 for the least confident; the middle rank of equal confidences decides."""
    _, position, count = np.unique(confidence, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(count) - count / 2
    bin_of_value = np.minimum((middle_rank / len(confidence) * bins).astype(np.int64), bins - 1)
    return np.unique(bin_of_value[position], return_inverse=True)[1]


def _count_units(bin_of_answer: np.ndarray, cluster_of_answer: np.ndarray | None) -> np.ndarray:
    """Number of independent units in each bin: of different clusters, or of answers where there are no clusters (None).

    Bins and clusters are numbered from 0, and every bin has an answer.
    """
    if cluster_of_answer is None:
        return np.bincount(bin_of_answer)
    cluster_total = int(cluster_of_answer.max()) + 1
    # one number for each pair of a bin and a cluster that occurs
    pairs = np.unique(bin_of_answer * cluster_total + cluster_of_answer)
    return np.bincount(pairs // cluster_total)


def _merge_single_units(bin_of_answer: np.ndarray, cluster_of_answer: np.ndarray | None) -> np.ndarray:
    """The bin of each answer after bins of a single independent unit were merged, numbered 0, 1, ... again.

    Such a bin is merged with the next one, the last with the one before; a single bin stays. A unit is a cluster, or an
    answer where there are no clusters (None). Bins are numbered 0, 1, ..., least confident first. A bin
    of one unit says nothing about the spread of its gap. The given arrays stay as they are.
    """
    while True:
        # counted anew each time, since both bins may hold the same cluster
        unit_count = _count_units(bin_of_answer, cluster_of_answer)  # one entry per bin
        has_single_unit = unit_count < 2
        if not has_single_unit.any() or len(unit_count) == 1:
            return bin_of_answer
        lower = min(int(np.argmax(has_single_unit)), len(unit_count) - 2)  # of the two bins that become one
        # bin `lower` + 1 becomes part of bin `lower`, and all later bins are numbered one less
        bin_of_answer = bin_of_answer - (bin_of_answer > lower)


def _sums_by_cluster(
    values: np.ndarray, cluster_of_answer: np.ndarray, bin_of_answer: np.ndarray
) -> np.ndarray:
    """Sums of one value per answer over clusters and bins (both numbered from 0), shape (clusters, bins)."""
    bin_count = int(bin_of_answer.max()) + 1
    cluster_count = int(cluster_of_answer.max()) + 1
    sums = np.bincount(
        cluster_of_answer * bin_count + bin_of_answer, values, minlength=cluster_count * bin_count
    )
    return sums.reshape(cluster_count, bin_count)


class SquaredErrorParts(NamedTuple):
    """The mean squared gap between confidence and accuracy over bins, weighted by their size.

    `plain - sampling_error` is an unbiased estimate of the squared calibration error of the bins.
    """

    plain: float  # as it is seen
    sampling_error: float  # what sampling error alone adds to `plain` on average


def squared_error_parts(bins: ProbabilityBins) -> SquaredErrorParts:
    """The mean squared gap over bins as it is seen, and what sampling error adds to it on average."""
    plain = math.fsum(bins.share * bins.gap**2)
    sampling_error = math.fsum(bins.share * np.diag(bins.gap_covariance))
    return SquaredErrorParts(plain=plain, sampling_error=sampling_error)
