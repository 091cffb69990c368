"""Measure a policy on samples: its cost, its risk and its coverage."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.cascades.search import CascadeData, find_answering_stage
from abstain.inference import interval


class PolicyMeasures(NamedTuple):
    """Cost, risk and coverage of a policy; limits are NaN where no level was given."""

    cost: float  # per sample
    cost_low: float
    cost_high: float
    risk: float  # of the samples in the promise; NaN where there are none
    risk_low: float
    risk_high: float
    coverage: float  # share of the samples that some stage answers


def measure_policy(data: CascadeData, thresholds: tuple[float, ...], level: float | None) -> PolicyMeasures:
    """Measure the cost, risk and coverage of the policy with these thresholds on `data`.

    `thresholds` holds one per stage, infinity for a stage that is never asked. With `level`, cost and risk get
    confidence intervals; without (None), their limits are NaN. The risk is that of the samples whose answer the promise
    counts, on the user's scale; NaN if there are none. The cost is that of all samples, per sample. `data.clusters`
    numbers the cluster of each sample, None without clusters. `data` holds losses scaled to [0, 1].
    """
    # index of the stage that answers each sample, the number of stages for the person
    answering = find_answering_stage(data.confidences, thresholds)
    in_promise = data.is_answer_counted(answering)  # a mask of the samples
    clusters_in_promise = None if data.clusters is None else data.clusters[in_promise]
    loss = data.to_user_scale(data.loss_of_answers(answering)[in_promise])
    cost = data.cost_of_answers(answering, thresholds)
    mean_cost, cost_low, cost_high = mean_with_limits(cost, data.clusters, level)
    risk, risk_low, risk_high = mean_with_limits(loss, clusters_in_promise, level)
    return PolicyMeasures(
        cost=mean_cost,
        cost_low=cost_low,
        cost_high=cost_high,
        risk=risk,
        risk_low=risk_low,
        risk_high=risk_high,
        coverage=float((answering < data.stage_count).mean()),
    )


def mean_with_limits(values: np.ndarray, clusters: Array, level: float | None) -> tuple[float, float, float]:
    """Return the mean of the values, and the lower and upper limit of its interval.

    The limits are NaN without a level or with fewer than two values, and equal to the mean of constant values. The mean
    of no values is NaN. `clusters` holds one label per value, or is None for independent values. `level` is the
    two-sided confidence level, such as 0.95.
    """
    if level is None or len(values) < 2:
        mean = float(values.mean()) if len(values) else math.nan
        return mean, math.nan, math.nan
    if (values == values[0]).all():
        return (float(values[0]),) * 3
    # "risk" is the mean loss of all samples, so the values serve as losses, and their order as confidences is ignored
    mean_interval = interval("risk", values, values, clusters=clusters, level=level)
    return mean_interval.estimate, mean_interval.low, mean_interval.high
