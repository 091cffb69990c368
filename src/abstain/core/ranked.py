"""Samples in order of confidence, with the cuts a threshold can make.

A cut at rank k takes the samples *strictly above* the (k+1)-th largest confidence, `tau`: whole blocks, at most k
samples. Given `tau`, those samples are independent draws from the population above `tau`, which is what every
guarantee of `abstain.thresholds` rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from abstain.core import packed, payload


class Cut(NamedTuple):
    """At each rank: how many samples lie above `tau`, and the smallest float that accepts exactly those."""

    accepted: np.ndarray
    value: np.ndarray


class Ranked(NamedTuple):
    """Most confident first. `loss` and `weight` are in that order; `cum_*` start with 0."""

    heads: np.ndarray  # one sorted number per sample, equal exactly for equal confidences, rising
    decode: Callable[[np.ndarray], np.ndarray]  # from heads to confidences
    loss: np.ndarray
    weight: np.ndarray | None
    cum_loss: np.ndarray
    cum_weight: np.ndarray
    zero_one: bool

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.heads)

    def cut(self, ranks: np.ndarray) -> Cut:
        """What a threshold accepts when it is put just above the (rank + 1)-th confidence.

        At rank n nothing is left out: every sample is accepted, whatever its confidence (-infinity).
        """
        inside = np.minimum(ranks, self.n - 1)
        left_out = self.heads[inside]
        count = np.where(ranks >= self.n, self.n, np.searchsorted(self.heads, left_out, side="left"))
        tau = self.decode(left_out)
        with np.errstate(over="ignore"):  # above the largest float there is infinity, which accepts nothing
            above = np.nextafter(tau, tau.dtype.type(np.inf)).astype(np.float64)
        return Cut(count, np.where(ranks >= self.n, -np.inf, above))

    def values_at(self, count: np.ndarray) -> np.ndarray:
        """The smallest confidence among the first `count` samples."""
        return self.decode(self.heads[count - 1]).astype(np.float64)

    def block_ends(self) -> np.ndarray:
        """How many samples each distinct confidence and those above it hold, rising."""
        return np.flatnonzero(np.append(self.heads[1:] != self.heads[:-1], True)) + 1


def rank(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> Ranked:
    """Sort once. With a 0/1 loss (or a float32 one) the loss travels in the low bits of the key."""
    keys = payload.pack_loss(loss, confidence) if weight is None else None
    if keys is not None:
        unsorted, below, unpack = keys
        ranked = packed.sort_in_place(unsorted)
        packing = packed.Packing(confidence)
        values = unpack(ranked)
        heads = ranked >> ranked.dtype.type(below)
        return _finish(heads, packing.unpack, values, None, below == 1)
    order = packed.order_of(confidence)
    values = loss[order].astype(np.float64)
    mass = None if weight is None else weight[order].astype(np.float64)
    # -x rises where x falls, exactly
    return _finish(-confidence[order], lambda h: -h, values, mass, payload.is_zero_one(loss))


def _finish(
    heads: np.ndarray,
    decode: Callable[[np.ndarray], np.ndarray],
    values: np.ndarray,
    mass: np.ndarray | None,
    zero_one: bool,
) -> Ranked:
    kind = np.int64 if mass is None and values.dtype == np.uint8 else np.float64
    cum_loss = np.zeros(len(heads) + 1, dtype=kind)
    np.cumsum(values if mass is None else values * mass, out=cum_loss[1:], dtype=kind)
    if mass is None:
        cum_weight = np.arange(len(heads) + 1)
    else:
        cum_weight = np.concatenate([[0.0], np.cumsum(mass)])
    return Ranked(heads, decode, values, mass, cum_loss, cum_weight, zero_one)
