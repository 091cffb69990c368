"""All pairs at once: errors of differences by one Gram matrix, p-values after Holm, groups of equals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_RELATIVE = 1e-6  # below this share of the variances, a difference's variance is computed from the difference


def difference_errors(pulls: np.ndarray) -> np.ndarray:
    r"""Norms of all differences of rows: :math:`\|v_a - v_b\|^2 = G_{aa} + G_{bb} - 2 G_{ab}`, one product for all."""
    gram = pulls @ pulls.T
    own = np.diag(gram)
    square = own[:, None] + own[None, :] - 2 * gram
    close = np.argwhere(np.triu(square < _RELATIVE * (own[:, None] + own[None, :]), 1))
    for a, b in close:  # near twins: the subtraction above has few digits left
        gap = pulls[a] - pulls[b]
        square[a, b] = square[b, a] = gap @ gap
    np.fill_diagonal(square, 0.0)
    return np.sqrt(np.maximum(square, 0.0))


def paired_errors(pulls: list[np.ndarray], a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors of differences on the same units, and their degrees of freedom."""
    return difference_errors(np.stack(pulls))[a, b], np.full(len(a), len(pulls[0]) - 1.0)


def welch_errors(pulls: list[np.ndarray], a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors of differences of independent estimates, and Welch's degrees of freedom."""
    second = np.array([float(p @ p) for p in pulls])
    own = np.array([max(1.0, len(p) - 1.0) for p in pulls])
    spread = second[a] ** 2 / own[a] + second[b] ** 2 / own[b]
    square = second[a] + second[b]
    return np.sqrt(square), np.where(spread > 0, square**2 / np.where(spread > 0, spread, 1.0), 1.0)


def holm(p_values: np.ndarray) -> np.ndarray:
    """P-values corrected for their number, step down (Holm): the k-th smallest times (m - k + 1), never falling.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def groups_of_equals(different: np.ndarray) -> list[list[int]]:
    """Largest sets in which no two members differ, every member in at least one (insert and absorb).

    >>> groups_of_equals(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool))
    [[0, 1], [1, 2]]
    """
    sets = [frozenset(range(len(different)))]
    for a, b in np.argwhere(np.triu(different, 1)):
        split: list[frozenset[int]] = []
        for members in sets:
            if a in members and b in members:
                split += [members - {int(a)}, members - {int(b)}]
            else:
                split.append(members)
        distinct = list(dict.fromkeys(split))
        sets = [s for s in distinct if not any(s < other for other in distinct)]
    return sorted(sorted(s) for s in sets)


@dataclass(frozen=True)
class PairTests:
    """Differences of all pairs a < b, and what the tests say."""

    difference: np.ndarray
    error: np.ndarray
    reach: np.ndarray
    p_value: np.ndarray
    p_adjusted: np.ndarray


def student_tests(
    gap: np.ndarray, error: np.ndarray, scale: np.ndarray, freedom: np.ndarray, level: float
) -> PairTests:
    """Two-sided Student tests of the given differences; without any spread see `paired_difference`."""
    from scipy.special import stdtr, stdtrit

    freedom = np.maximum(freedom, 1.0)
    flat = error <= 1e-13 * scale
    gap = np.where(flat & (np.abs(gap) <= 1e-13 * scale), 0.0, gap)
    tail = 2 * stdtr(freedom, -np.abs(gap) / np.where(flat, 1.0, error))
    certain = np.where(gap == 0, 1.0, np.minimum(1.0, 2.0 ** (1 - np.minimum(1000, freedom + 1))))
    p = np.where(flat, certain, tail)
    return PairTests(gap, error, stdtrit(freedom, (1 + level) / 2) * error, p, holm(p))


def letter(k: int) -> str:
    """Name of the k-th group: a ... z, then (27), (28) ..."""
    return chr(ord("a") + k) if k < 26 else f"({k + 1})"
