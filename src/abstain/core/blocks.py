"""The block table: one row per distinct confidence, ascending. Everything else is finished from it.

Blocks merge by adding rows of equal confidence; that one law makes streams, replicas, files and clusters the same
computation. Beside mass and loss sum a table may carry the second moments that standard errors need.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abstain.core import packed
from abstain.core.rows import Rows, rows_of_blocks

COLUMNS = ("mass", "loss_sum", "w2", "w2l", "w2ll", "count", "graded")


@dataclass(frozen=True)
class Blocks:
    """Distinct confidences, ascending, each with the sums over its members (weights w, losses l).

    mass = sum w, loss_sum = sum w l, w2 = sum w^2, w2l = sum w^2 l, w2ll = sum w^2 l^2, count = members,
    graded = members whose loss is neither 0 nor 1 (moments cannot tell: .5, .5, .5, 1.5 have those of a 0/1 loss).
    """

    confidence: np.ndarray
    mass: np.ndarray
    loss_sum: np.ndarray
    w2: np.ndarray
    w2l: np.ndarray
    w2ll: np.ndarray
    count: np.ndarray
    graded: np.ndarray

    def __len__(self) -> int:
        return len(self.confidence)

    @classmethod
    def from_samples(
        cls, loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None
    ) -> Blocks:
        """Sort once, add up runs of equals."""
        order = packed.order_of(confidence)[::-1]
        ranked = confidence[order]
        l = loss[order].astype(np.float64)
        w = None if weight is None else weight[order].astype(np.float64)
        starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
        count = np.diff(np.append(starts, len(ranked)))
        return cls._from_columns(ranked[starts], starts, count, l, w)

    @classmethod
    def _from_columns(
        cls,
        confidence: np.ndarray,
        starts: np.ndarray,
        count: np.ndarray,
        l: np.ndarray,
        w: np.ndarray | None,
    ) -> Blocks:
        def total(x: np.ndarray) -> np.ndarray:
            return np.add.reduceat(x, starts)

        graded = total(((l != 0) & (l != 1)).astype(np.int64))
        if w is None:
            mass = count.astype(np.float64)
            loss_sum = total(l)
            return cls(confidence, mass, loss_sum, mass, loss_sum, total(l * l), count, graded)
        w2 = w * w
        mass, loss_sum, w2l, w2ll = (total(x) for x in (w, w * l, w2 * l, w2 * l * l))
        return cls(confidence, mass, loss_sum, total(w2), w2l, w2ll, count, graded)

    def merge(self, *others: Blocks) -> Blocks:
        """The table of all samples together; any order of merging gives the same rows (sums up to rounding)."""
        tables = (self, *others)
        confidence = np.concatenate([t.confidence for t in tables])
        distinct, place = np.unique(confidence, return_inverse=True)
        columns = {
            name: np.bincount(place, np.concatenate([getattr(t, name) for t in tables]), len(distinct))
            for name in COLUMNS
        }
        columns |= {name: columns[name].astype(np.int64) for name in ("count", "graded")}
        return Blocks(distinct, **columns)

    @property
    def zero_one(self) -> bool:
        """Are all losses 0 or 1?"""
        return not self.graded.any()

    def rows(self) -> Rows:
        """The same table with what is accepted at each row, most confident first."""
        return rows_of_blocks(self.mass, self.loss_sum)
