r"""Clusters of one kind, or of two crossed kinds such as place and week: their codes, and the variance of two kinds.

With two kinds A and B, two samples are dependent if they share a cluster of either kind. From sums of influences over
the clusters of A, of B, and of their intersections (samples that share both) follows the variance

.. math:: V = \max(V_A + V_B - V_{AB},\; V_A,\; V_B)

(Cameron, Gelbach and Miller). `two_way_unit_variance` says how well it is known.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import ArrayLike, to_host
from abstain.errors import InputError, ShapeError
from abstain.inference.limits import UnitVariance
from abstain.metrics._sample import group_codes, label_array


def cluster_columns(function: str, clusters: ArrayLike | None, n: int) -> np.ndarray | None:
    """The user's `clusters` of n samples as an array: labels of one kind as they are, or codes of shape (n, 2).

    Two kinds of clusters that cross (such as place and week) are a list or tuple of two vectors of n labels, or an
    array (or data frame) of n rows and two columns; their labels become whole numbers 0, 1, ... in each column.
    Everything else is one kind, returned in its own shape, which this function does not check. None (no clusters) is
    returned. `function` is the public function that messages name.
    """
    if clusters is None:
        return None
    if isinstance(clusters, (list, tuple)):
        # two vectors of n labels, or else one vector of labels
        shapes = [np.shape(to_host(labels)) for labels in clusters] if len(clusters) == 2 else []
        if shapes != [(n,), (n,)]:
            return label_array(clusters)
        first_labels, second_labels = clusters
    else:
        labels = label_array(clusters)
        if labels.shape != (n, 2):
            return labels
        first_labels = labels[:, 0]
        second_labels = labels[:, 1]
    # with `codes`, the number of each sample's label; raises for a missing label
    first = group_codes(function, first_labels, argument="clusters")
    second = group_codes(function, second_labels, argument="clusters")
    return np.stack([first.codes, second.codes], axis=1)


def cluster_codes(function: str, clusters: ArrayLike | None, n: int) -> np.ndarray | None:
    """The cluster of each of n samples as a whole number 0, 1, ...; None where `clusters` is None.

    The result has shape (n,), or (n, 2) for two kinds of clusters that cross. Where every cluster of one kind lies
    inside a cluster of the other, the larger clusters alone say which samples are dependent: they are returned as one
    kind. `clusters` is a vector of labels, or two of them (a list, or two columns).

    Raises ShapeError, in the name of `function`, unless there is one label (or one of each kind) per sample, and
    InputError for a missing one (None, NaN, an empty text).
    """
    columns = cluster_columns(function, clusters, n)
    if columns is None:
        return None
    if columns.shape == (n, 2):
        # a list of n pairs of labels is not numbered yet
        codes = np.stack([np.unique(column, return_inverse=True)[1] for column in columns.T], axis=1)
        by_kind = split_two_way(codes)  # numbers by the first kind, by the second and by their intersections
        intersection_count = _cluster_count(by_kind.intersections)
        # one intersection for each cluster of the first kind: each lies inside one of the second
        if intersection_count == _cluster_count(by_kind.first):
            return by_kind.second
        if intersection_count == _cluster_count(by_kind.second):
            return by_kind.first
        return codes
    if columns.shape != (n,):
        raise ShapeError(
            f"{function}: `clusters` must have one label per sample, or be two vectors of labels for two kinds of "
            f"clusters, got shape {columns.shape} for {n}."
        )
    return group_codes(function, columns, argument="clusters").codes


def cluster_counts(clusters: np.ndarray | None) -> tuple[int, ...]:
    """Number of clusters for each kind of them; empty for independent samples, each of which is a cluster of its own.

    `clusters` holds the cluster of each sample, in two columns for two kinds; None for independent samples.

    >>> cluster_counts(np.asarray([1, 1, 2, 2])), cluster_counts(np.asarray([1, 2, 3])), cluster_counts(None)
    ((2,), (), ())
    """
    if clusters is None:
        return ()
    codes = cluster_codes("cluster_counts", clusters, len(clusters))
    assert codes is not None
    # one column of codes, or two; codes are 0, 1, ...
    counts = tuple(int(column.max()) + 1 for column in codes.reshape(len(codes), -1).T)
    return () if counts == (len(codes),) else counts  # as many clusters as samples: independent samples


class TwoWayCodes(NamedTuple):
    """Cluster numbers 0, 1, ... of each sample, shape (n,), for two crossed kinds of clusters.

    `intersections` numbers the sets of samples that share both a cluster of the first and one of the second kind.
    """

    first: np.ndarray
    second: np.ndarray
    intersections: np.ndarray


def split_two_way(codes: np.ndarray) -> TwoWayCodes:
    """Cluster numbers by the first kind, by the second kind and by their intersections, from codes of shape (n, 2).

    Intersections without samples have no number.
    """
    first = codes[:, 0]
    second = codes[:, 1]
    pair_numbers = first * _cluster_count(second) + second
    _, intersections = np.unique(pair_numbers, return_inverse=True)
    return TwoWayCodes(first, second, intersections)


def _cluster_count(codes: np.ndarray) -> int:
    """Number of clusters with codes 0, 1, ...; 0 without samples."""
    return int(codes.max(initial=-1)) + 1


def check_one_kind(function: str, clusters: np.ndarray | None, purpose: str) -> None:
    """Raise InputError, in the name of `function`, if there are two kinds of clusters, which `purpose` cannot use."""
    if clusters is not None and clusters.ndim == 2:
        raise InputError(
            f"{function}: {purpose} takes one kind of clusters, got two. Leave one kind out, or use an interval for "
            f"one look without resampling."
        )


def unbiased_effects(effects: np.ndarray) -> np.ndarray:
    """What each cluster does to an estimate, enlarged so that the sum of squares is an unbiased variance.

    One less than the number of clusters then divides it, instead of the number.
    """
    cluster_count = len(effects)
    return effects * math.sqrt(cluster_count / (cluster_count - 1))


def two_way_variance(first: Any, second: Any, intersections: Any) -> Any:
    """Variance with two kinds of clusters, from those by the first kind, by the second and by their intersections.

    Numbers or arrays, entry by entry. The sum V_A + V_B - V_AB may come out too small, even negative, by chance; the
    variance is at least the larger of V_A and V_B.
    """
    return np.maximum(first + second - intersections, np.maximum(first, second))


def two_way_unit_variance(
    first: UnitVariance, second: UnitVariance, intersections: UnitVariance
) -> UnitVariance:
    """The variance of an estimate with two kinds of clusters, and how well it is known.

    The arguments are its variances by the clusters of the first kind, of the second kind, and by their intersections;
    numbers or arrays, entry by entry. The kind with fewer clusters is the number of units.

    Where both kinds contribute, the sum of their variances is known better than either of them: its variance is about
    the sum of theirs. At worst the kind with fewer degrees of freedom decides how well the result is known.
    """
    variance = two_way_variance(first.variance, second.variance, intersections.variance)
    # at least 1 each, so that they can be divided by
    fewer_degrees_of_freedom = np.minimum(first.degrees_of_freedom(), second.degrees_of_freedom())
    # the variance of a variance that has so many degrees of freedom (Satterthwaite)
    largest_variance_of_variance = 2 * np.square(variance) / fewer_degrees_of_freedom
    variance_of_sum = (
        first.variance_of_variance + second.variance_of_variance + intersections.variance_of_variance
    )
    return UnitVariance(
        variance=variance,
        variance_of_variance=np.minimum(variance_of_sum, largest_variance_of_variance),
        unit_count=np.minimum(first.unit_count, second.unit_count),
    )
