r"""Clusters of one kind, or of two crossed kinds such as place and week: their codes, and the variance of two kinds.

With two kinds A and B, two samples are dependent if they share a cluster of either kind. From sums of influences over
the clusters of A, of B, and of their intersections (samples that share both) follows the variance

.. math:: V = \max(V_A + V_B - V_{AB},\; V_A,\; V_B)

(Cameron, Gelbach and Miller). It is known no better than the variance of the kind with fewer degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from abstain._arrays import ArrayLike, to_host
from abstain.errors import InputError, ShapeError
from abstain.inference.limits import degrees_of_freedom
from abstain.metrics._sample import group_codes, label_array


def cluster_columns(function: str, clusters: ArrayLike | None, n: int) -> np.ndarray | None:
    """The user's `clusters` of n samples as an array: labels of one kind as they are, or codes of shape (n, 2).

    Two kinds are a list or tuple of two vectors of n labels, or an array (or data frame) of n rows and two columns;
    their labels become whole numbers 0, 1, ... in each column. Everything else is one kind, returned in its own shape,
    which this function does not check. `function` is named in messages.
    """
    if clusters is None:
        return None
    if isinstance(clusters, (list, tuple)):
        shapes = [np.shape(to_host(kind)) for kind in clusters] if len(clusters) == 2 else []
        if shapes != [(n,), (n,)]:
            return label_array(clusters)
        kinds = list(clusters)
    else:
        labels = label_array(clusters)
        if labels.shape != (n, 2):
            return labels
        kinds = [labels[:, 0], labels[:, 1]]
    return np.stack([group_codes(function, kind, argument="clusters")[1] for kind in kinds], axis=1)


def cluster_codes(function: str, clusters: ArrayLike | None, n: int) -> np.ndarray | None:
    """Labels of clusters as whole numbers 0, 1, ...: shape (n,) for one kind, (n, 2) for two crossed kinds.

    Missing labels (None, NaN) are one cluster. Where every cluster of one kind lies inside a cluster of the other, the
    larger clusters alone say what is dependent: then they are returned as one kind. `clusters` may be anything that
    `cluster_columns` takes, or None, which is returned.

    Raises ShapeError, in the name of `function`, unless there is one label (or one of each kind) per sample.
    """
    columns = cluster_columns(function, clusters, n)
    if columns is None:
        return None
    if columns.shape == (n, 2):
        codes = np.stack([np.unique(column, return_inverse=True)[1] for column in columns.T], axis=1)
        first, second, intersections = split_kinds(codes)
        intersection_count = _count(intersections)
        if intersection_count == _count(first):  # the first kind lies inside the second
            return second
        if intersection_count == _count(second):
            return first
        return codes
    if columns.shape != (n,):
        raise ShapeError(
            f"{function}: `clusters` must have one label per sample, or be two vectors of labels for two kinds of "
            f"clusters, got shape {columns.shape} for {n}."
        )
    return group_codes(function, columns, argument="clusters")[1]


def split_kinds(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of the first kind, of the second kind, and of their intersections, from codes of shape (n, 2).

    Each result has shape (n,) and numbers its clusters 0, 1, ... Intersections without samples have no number.
    """
    first = codes[:, 0]
    second = codes[:, 1]
    pair_numbers = first * _count(second) + second
    intersections = np.unique(pair_numbers, return_inverse=True)[1]
    return first, second, intersections


def _count(codes: np.ndarray) -> int:
    """Number of clusters with codes 0, 1, ...; 0 without samples."""
    return int(codes.max(initial=-1)) + 1


def check_one_kind(function: str, clusters: np.ndarray | None, purpose: str) -> None:
    """Raise InputError, in the name of `function`, if there are two kinds of clusters, which `purpose` cannot use."""
    if clusters is not None and clusters.ndim == 2:
        raise InputError(
            f"{function}: {purpose} takes one kind of clusters, got two. Leave one kind out, or use an interval for "
            f"one look without resampling."
        )


def two_way_variance(first: Any, second: Any, intersections: Any) -> Any:
    """Variance with two kinds of clusters, from those by the first kind, by the second and by their intersections.

    Numbers or arrays, entry by entry. The sum V_A + V_B - V_AB may come out too small, even negative, by chance; the
    variance is at least the larger of V_A and V_B.
    """
    return np.maximum(first + second - intersections, np.maximum(first, second))


def two_way_moments(
    variances: Sequence[Any], excesses: Sequence[Any], unit_counts: Sequence[Any]
) -> tuple[Any, Any, Any]:
    """Variance, its excess and the number of units with two kinds of clusters.

    Each argument holds three entries, numbers or arrays: by the first kind, by the second, and by their intersections.
    An excess is the sum of fourth powers less variance^2 / n, which says how well a variance is known
    (`abstain.inference.limits.degrees_of_freedom`). The kind with fewer degrees of freedom decides that here, and the
    number of units is that of the kind with fewer clusters.
    """
    variance = two_way_variance(*variances)
    first_freedom = degrees_of_freedom(variances[0], excesses[0], unit_counts[0])
    second_freedom = degrees_of_freedom(variances[1], excesses[1], unit_counts[1])
    excess = 2 * np.square(variance) / np.minimum(first_freedom, second_freedom)
    return variance, excess, np.minimum(unit_counts[0], unit_counts[1])
