"""The influence of each sample on a metric, from the influences on its area and on the best possible area."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from abstain.core.area_estimators import oracle_area
from abstain.core.influence import AreaUnderCurve, BestArea, RankedLoss, SampleInfluences, ranked_by_loss
from abstain.core.rows import rank_confidences
from abstain.core.sorting import is_zero_one
from abstain.metrics.metric import Metric


def sample_influences(
    metric: Metric,
    loss: np.ndarray,
    confidence: np.ndarray,
    weight: np.ndarray | None = None,
    *,
    ranked: RankedLoss | None = None,
    by_loss: RankedLoss | None = None,
    loss_unit: float = 1.0,
) -> SampleInfluences:
    """Compute a metric and the influence of each sample on it, in the order of the input.

    The influence on the metric is a line in the loss of the sample, plus multiples of its influences on the area that
    the metric is made of and on the best area (that of the order by loss). For 0/1 losses the influence on the best
    area is a line in the loss too. For other losses it comes from a ranking by loss.

    Parameters
    ----------
    metric : Metric
        A smooth one.
    loss, confidence, weight : ndarray, shape (n,)
        Of each sample; no weight means 1 for all.
    ranked, by_loss : RankedLoss, optional
        The loss ranked by confidence, and by itself, where these are known: they save a sort.
    loss_unit : float
        One unit of `loss` in the user's units.
    """
    if ranked is None:
        ranked = RankedLoss(rank_confidences(confidence), loss, weight)
    total_mass = float(ranked.rows.total_mass[0])
    loss_sum = float(ranked.rows.accepted_loss[-1])
    has_whole_weights = weight is None or bool(np.all(weight == np.floor(weight)))
    area = metric.area.with_loss_unit(loss_unit)
    on_area = ranked.area(area) if metric.reads_area else None
    on_best: SampleInfluences | None = None
    best: BestArea | None = None
    if metric.needs.order_by_loss and not is_zero_one(loss):
        if by_loss is None:
            by_loss = ranked_by_loss(loss, weight, has_whole_weights)
        on_best = by_loss.area(area.of_best_order(has_whole_weights))
        best = BestArea(on_best.estimate)
        if on_area is not None and isinstance(area, AreaUnderCurve):
            # with relative weights the order by loss is not always the very best one
            best = BestArea(min(on_best.estimate, on_area.estimate))
    elif metric.needs.order_by_loss:
        known_area = None
        if not has_whole_weights and isinstance(area, AreaUnderCurve):
            known_area = float(oracle_area(np, loss.astype(np.float64), weight, area.estimator))
        best = metric.best_area_for_zero_one(total_mass, loss_sum, known_area)
    area_value = math.nan if on_area is None else on_area.estimate
    derivative = metric.derivative(area_value, loss_sum / total_mass, best)
    # the metric is its area: AURC and AUGRC, for example
    if on_area is not None and derivative.is_area_itself:
        return on_area

    def read(samples: slice) -> np.ndarray:
        """Influences on the metric of these samples of the input."""
        influence: np.ndarray = derivative.constant + derivative.slope * loss[samples].astype(
            np.float64, copy=False
        )
        if on_area is not None:
            influence += derivative.per_area * on_area.read(samples)
        if on_best is not None:
            influence += derivative.per_best * on_best.read(samples)
        return influence

    if on_area is None:
        return SampleInfluences(
            estimate=derivative.estimate,
            read=read,
            sample_count=len(loss),
            make_rank_weights=_one_for_all,
            weighted_loss_sums=ranked.weighted_loss_sums,
        )
    return replace(on_area, estimate=derivative.estimate, read=read)


def _one_for_all() -> np.ndarray:
    """Rank weights of metrics in which ranks play no part."""
    return np.ones(1)
