"""The weights themselves: what makes AURC a weighted mean of losses."""

from __future__ import annotations

from typing import overload

import numpy as np

from abstain._arrays import Array, full_namespace, road_for
from abstain._check import check_choice, check_pair, check_weight
from abstain.core import weights as core
from abstain.core.estimators import ESTIMATORS, TIES, Estimator, Ties, needs_whole_weights
from abstain.errors import InputError
from abstain.metrics.groups import Vector


def rank_weights(n: int, /, *, estimator: Estimator = "harmonic") -> np.ndarray:
    r"""Weights of ranks 1 (least confident) to n, without ties.

    harmonic :math:`H_n - H_{n-r}`, log :math:`-\ln(1-r/(n+1))`, loo :math:`H_{n-1}-H_{n-r}`, sele :math:`r/n`.

    >>> rank_weights(3).round(4).tolist()
    [0.3333, 0.8333, 1.8333]
    """
    check_choice("rank_weights", "estimator", estimator, ESTIMATORS)
    if int(n) != n or n < 1:
        raise InputError(f"rank_weights: `n` must be a whole number, at least 1, got {n!r}.")
    return core.rank_weights(int(n), estimator).copy()


@overload
def weights(
    confidence: Vector,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    sample_weight: Array | None = None,
) -> np.ndarray: ...
@overload
def weights(
    confidence: Array,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    sample_weight: Array | None = None,
) -> Array: ...
def weights(
    confidence: Array,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    sample_weight: Array | None = None,
) -> Array:
    r"""Weight :math:`\hat\alpha_i` of each sample, in the order given: AURC is the mean of weight times loss.

    >>> weights([0.9, 0.1, 0.9]).round(4).tolist()  # 1/3 for all three, 2/2 more for the two on top
    [1.3333, 0.3333, 1.3333]
    """
    check_choice("weights", "estimator", estimator, ESTIMATORS)
    check_choice("weights", "ties", ties, TIES)
    road = road_for(confidence, sample_weight)
    _, g = check_pair("weights", road, confidence, confidence)
    w = None
    if sample_weight is not None:
        w = check_weight("weights", road, sample_weight, g, needs_whole_weights(estimator, ties))
    xp = full_namespace(road)
    return road.deliver(core.sample_weights(xp, g, w, estimator, ties))
