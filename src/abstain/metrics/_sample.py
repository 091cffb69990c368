"""From the user's arguments to rows: checked once, the same way for every metric."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, Backend, backend_of, float_dtype
from abstain._check import check_mask, check_pair, check_weight
from abstain.core.rows import Rows, rows_of, rows_of_samples
from abstain.core.sorting import is_zero_one
from abstain.errors import InputError


class Sample(NamedTuple):
    """Checked inputs. `total` is the mass that coverage is a share of, abstentions included."""

    name: str
    backend: Backend
    loss: Array
    confidence: Array
    weight: Array | None
    total: Array

    def rows(self) -> Rows:
        """Blocks of the samples that were answered, most confident first."""
        if self.backend.host:
            return rows_of(self.loss, self.confidence, self.weight)
        return rows_of_samples(self.backend.xp, self.loss, self.confidence, self.weight)

    def is_zero_one(self) -> bool:
        """Are all losses 0 or 1? (Reads the values.)"""
        if self.backend.host:
            return is_zero_one(self.loss)
        xp = self.backend.xp
        if xp.isdtype(self.loss.dtype, "bool"):
            return True
        return bool(xp.all((self.loss == 0) | (self.loss == 1)))

    def deliver(self, value: Array) -> Any:
        """A result, where the input lives."""
        return self.backend.deliver(value)


def prepare(
    name: str,
    loss: Array,
    confidence: Array,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    whole: str = "",
) -> Sample:
    """Check and place the inputs. Abstained samples keep their mass in `total` and lose it everywhere else."""
    backend = backend_of(loss, confidence, sample_weight, abstained)
    loss, confidence = check_pair(name, backend, loss, confidence)
    if backend.host and loss.dtype.kind in "iu":
        loss = loss.astype(np.float64)  # one case fewer; whole numbers stay whole
    if backend.host and confidence.dtype not in (np.float32, np.float64):
        confidence = confidence.astype(np.float64)
    weight = None if sample_weight is None else check_weight(name, backend, sample_weight, loss, whole)
    mask = None if abstained is None else check_mask(name, "abstained", backend, abstained, loss)
    total = _mass(backend, loss, weight)
    if mask is not None:
        loss, confidence, weight = _leave_out(name, backend, loss, confidence, weight, mask)
    elif backend.host and weight is not None and loss.ndim == 1 and not weight.all():
        loss, confidence, weight = (a[weight > 0] for a in (loss, confidence, weight))  # no mass, no block
    return Sample(name, backend, loss, confidence, weight, total)


def _mass(backend: Backend, loss: Array, weight: Array | None) -> Array:
    if weight is None:
        return backend.xp.asarray(float(loss.shape[-1])) if backend.host else float(loss.shape[-1])
    return backend.xp.sum(backend.xp.astype(weight, float_dtype(backend.xp)), axis=-1)


def _leave_out(
    name: str, backend: Backend, loss: Array, confidence: Array, weight: Array | None, mask: Array
) -> tuple[Array, Array, Array | None]:
    xp = backend.xp
    kept = ~mask if weight is None else ~mask & (weight > 0)
    if not bool(xp.all(xp.any(kept, axis=-1))):
        raise InputError(f"{name}: every sample has abstained; nothing is left to measure.")
    if loss.ndim == 1:
        return loss[kept], confidence[kept], None if weight is None else weight[kept]
    wide = float_dtype(xp)
    ones = xp.astype(kept, wide)
    return loss, confidence, ones if weight is None else ones * xp.astype(weight, wide)
