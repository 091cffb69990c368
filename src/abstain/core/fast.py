"""Rows and areas of numpy samples by the fastest road that is exact.

Whatever the road, the rows are those of `rows.rows_of_samples`; the tests hold every road against every other.
"""

from __future__ import annotations

import math

import numpy as np

from abstain.core import batch
from abstain.core.estimators import area_terms, reads_block_loss
from abstain.core.payload import is_zero_one
from abstain.core.rows import Rows
from abstain.core.stream import pieces, sort_once

__all__ = ["area", "is_zero_one", "rows_of"]


def area(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, estimator: str, ties: str
) -> np.ndarray | float:
    """AURC of samples along the last axis."""
    if loss.ndim > 1:
        return batch.area(loss, confidence, weight, estimator, ties)
    samples = sort_once(loss, confidence, weight)
    parts = pieces(samples, reads_block_loss(estimator, ties))
    return math.fsum(float(np.sum(area_terms(rows, estimator, ties))) for rows in parts) / samples.total


def rows_of(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    """Rows of samples: compact (one row a block) for a vector, of the samples' shape for a batch."""
    if loss.ndim > 1:
        return batch.rows_of(loss, confidence, weight)
    parts = pieces(sort_once(loss, confidence, weight))
    m, L, N, S = (np.concatenate(column) for column in zip(*((r.m, r.L, r.N, r.S) for r in parts)))
    return Rows(m, L, N, S, N[-1:], np, False)
