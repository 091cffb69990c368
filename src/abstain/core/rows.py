"""Rows: what every formula of this package reads.

A row is one distinct confidence (a *block*): its mass `m` and loss sum `L`, and beside them the mass `N` and loss
`S` accepted when the threshold is put at this block. `S / N` is the selective risk, `N / W` the coverage.
Rows lie along the last axis; leading axes are batches. Rows of no mass may be present and count for nothing, which
is how arrays of fixed shape (batches, compiled code) carry tables of different lengths.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace, float_dtype, running_max


class Rows(NamedTuple):
    """Blocks with what is accepted at each: mass `m`, loss `L`, cumulated from the top `N` and `S`, total mass `W`."""

    m: Array
    L: Array
    N: Array
    S: Array
    W: Array
    xp: Namespace = np
    padded: bool = True  # may some rows accept no mass at all?

    @property
    def risk(self) -> Array:
        """Selective risk at each row; 0 where nothing is accepted."""
        if not self.padded:
            return self.S / self.N
        some = self.N > 0
        return self.xp.where(some, self.S, 0.0) / self.xp.where(some, self.N, 1.0)


def rows_of_blocks(mass: np.ndarray, loss_sum: np.ndarray) -> Rows:
    """Rows, most confident first, of a block table (which ascends)."""
    m, L = mass[..., ::-1], loss_sum[..., ::-1]
    N, S = np.cumsum(m, axis=-1), np.cumsum(L, axis=-1)
    return Rows(m, L, N, S, N[..., -1:])


def rows_of_samples(xp: Namespace, loss: Array, confidence: Array, weight: Array | None = None) -> Rows:
    """Rows of samples along the last axis, in arrays of the samples' own shape.

    Values never leave the device, and nothing depends on the order of the samples: equal confidences are ordered
    by loss before they are added up.
    """
    loss, confidence, weight = sort_samples(xp, loss, confidence, weight)
    last = xp.ones_like(loss[..., :1], dtype=xp.bool)
    ends = xp.concat([confidence[..., 1:] != confidence[..., :-1], last], axis=-1)
    return rows_of_sorted(xp, loss, ends, weight)


def rows_of_sorted(xp: Namespace, loss: Array, ends: Array, weight: Array | None = None) -> Rows:
    """Rows of samples that stand most confident first; `ends` marks the last of each run of equals.

    A block's row stands where its run ends, the other places are rows of no mass.
    """
    n = loss.shape[-1]
    index = xp.broadcast_to(xp.arange(1, n + 1, **beside(loss)), loss.shape)
    own = loss if weight is None else weight * loss
    N = xp.astype(index, loss.dtype) if weight is None else xp.cumulative_sum(weight, axis=-1)
    S = xp.cumulative_sum(own, axis=-1)
    closed = running_max(xp, xp.where(ends, index, xp.zeros_like(index)))
    before = xp.concat(
        [xp.zeros_like(closed[..., :1]), closed[..., :-1]], axis=-1
    )  # where the block above ended
    zero = xp.zeros_like(loss[..., :1])
    m = N - xp.take_along_axis(xp.concat([zero, N], axis=-1), before, axis=-1)
    L = S - xp.take_along_axis(xp.concat([zero, S], axis=-1), before, axis=-1)
    single = before == index - 1  # the subtraction is only needed, and only rounds, in a real tie
    L = xp.where(single, own, L)
    if weight is not None:
        m = xp.where(single, weight, m)
    nothing = xp.zeros_like(loss)
    return Rows(xp.where(ends, m, nothing), xp.where(ends, L, nothing), N, S, N[..., -1:], xp)


def beside(x: Array) -> dict[str, Any]:
    """Keyword that makes a new array where `x` lives."""
    return {"device": x.device} if hasattr(x, "device") else {}


def sort_samples(
    xp: Namespace, loss: Array, confidence: Array, weight: Array | None
) -> tuple[Array, Array, Array | None]:
    """Samples, most confident first, as wide floats; equal confidences ordered by loss (then by weight)."""
    wide = float_dtype(xp)
    for column in ("weight", "loss"):
        values = weight if column == "weight" else loss
        if values is None or xp.isdtype(
            values.dtype, ("bool", "integral")
        ):  # whole numbers add up exactly anyhow
            continue
        order = xp.argsort(values, axis=-1, stable=True)
        loss, confidence = _take(xp, loss, order), _take(xp, confidence, order)
        weight = None if weight is None else _take(xp, weight, order)
    order = xp.argsort(confidence, axis=-1, descending=True, stable=True)
    weight = None if weight is None else xp.astype(_take(xp, weight, order), wide)
    return xp.astype(_take(xp, loss, order), wide), _take(xp, confidence, order), weight


def _take(xp: Namespace, x: Array, order: Array) -> Array:
    return xp.take_along_axis(x, order, axis=-1)
