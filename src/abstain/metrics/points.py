"""The risk-coverage curve, and numbers at one operating point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abstain._arrays import Array, float_dtype
from abstain._check import check_fraction, check_nonnegative
from abstain.core import points
from abstain.core.rows import Blocks, Rows, rows_of_sorted, sort_samples
from abstain.errors import InfeasibleError, ShapeError
from abstain.metrics._sample import Sample, prepare
from abstain.metrics.groups import by_group


@dataclass(frozen=True)
class RiskCoverageCurve:
    """Points from the most confident down; accept when `confidence >= threshold`.

    coverage: share accepted. risk: mean loss of the accepted. generalised_risk: their loss per sample of the whole
    set. count: samples accepted. `abstained` is the share that can never be accepted.
    """

    coverage: Array
    risk: Array
    generalised_risk: Array
    threshold: Array
    count: Array
    n: int
    abstained: float

    @property
    def accuracy(self) -> Array:
        """One minus the risk, which is the accuracy-coverage curve when the loss is 0/1."""
        return 1 - self.risk

    def __repr__(self) -> str:
        return (
            f"RiskCoverageCurve({len(self.coverage)} points, n = {self.n}, "
            f"risk {self.risk[0]:.4g} at coverage {self.coverage[0]:.4g} to "
            f"{self.risk[-1]:.4g} at {self.coverage[-1]:.4g})"
        )


def risk_coverage_curve(
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> RiskCoverageCurve:
    """Coverage, risk, generalised risk, threshold and count at every distinct confidence.

    The arrays of the curve live where the input lives.

    >>> curve = risk_coverage_curve([0, 1, 0], [0.9, 0.8, 0.8])
    >>> curve.coverage.round(3).tolist(), curve.risk.round(3).tolist(), curve.threshold.tolist()
    ([0.333, 1.0], [0.0, 0.333], [0.9, 0.8])
    """
    sample = prepare("risk_coverage_curve", loss, confidence, sample_weight, abstained)
    if sample.loss.ndim != 1:
        shape = tuple(sample.loss.shape)
        raise ShapeError(f"risk_coverage_curve: takes one vector, got shape {shape}. Loop over the batch.")
    rows, threshold, count = _on_host(sample) if sample.backend.host else _on_device(sample)
    total = float(sample.total)
    deliver = sample.deliver
    return RiskCoverageCurve(
        coverage=deliver(rows.N / total),
        risk=deliver(rows.risk),
        generalised_risk=deliver(rows.S / total),
        threshold=deliver(threshold),
        count=deliver(count),
        n=len(loss) if isinstance(loss, (list, tuple)) else int(loss.shape[0]),
        abstained=1 - float(rows.W[0]) / total,
    )


def _on_host(sample: Sample) -> tuple[Rows, Array, Array]:
    blocks = Blocks.from_samples(sample.loss, sample.confidence, sample.weight)
    return blocks.rows(), blocks.confidence[::-1], np.cumsum(blocks.count[::-1])


def _on_device(sample: Sample) -> tuple[Rows, Array, Array]:
    xp = sample.backend.xp
    loss, ranked, weight = sort_samples(xp, sample.loss, sample.confidence, sample.weight)
    ends = xp.concat([ranked[1:] != ranked[:-1], xp.ones_like(ranked[:1], dtype=xp.bool)])
    rows = rows_of_sorted(xp, loss, ends, weight)
    kept = xp.nonzero(rows.m > 0)[0]
    m, L, N, S = (xp.take(column, kept) for column in (rows.m, rows.L, rows.N, rows.S))
    return Rows(m, L, N, S, rows.W, xp, False), xp.take(ranked, kept), kept + 1


# points -------------------------------------------------------------------------------------------
#
# Numbers at one operating point.


@by_group(lower_is_better=True)
def risk(
    loss: Array,
    confidence: Array | None = None,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    """Mean loss over all answered samples (coverage 1 unless some abstained); lower is better.

    >>> risk([0, 1, 0, 0, 1])
    0.4
    """
    sample = prepare("risk", loss, loss if confidence is None else confidence, sample_weight, abstained)
    xp = sample.backend.xp
    wide = float_dtype(xp)
    loss = xp.astype(sample.loss, wide)
    if sample.weight is None:
        return sample.deliver(xp.mean(loss, axis=-1))
    weight = xp.astype(sample.weight, wide)
    return sample.deliver(xp.sum(weight * loss, axis=-1) / xp.sum(weight, axis=-1))


@by_group(lower_is_better=True)
def risk_at_coverage(
    loss: Array,
    confidence: Array,
    /,
    *,
    coverage: float,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    r"""Selective risk at the least attainable coverage that is at least `coverage`; lower is better.

    .. math:: R(t) = \frac{\sum_i \ell_i 1(g_i \ge t)}{\sum_i 1(g_i \ge t)}

    Ties are accepted together, so the coverage reached may be larger than the one asked for.

    >>> risk_at_coverage([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5], coverage=0.6)
    0.3333333333333333
    """
    asked = check_fraction("risk_at_coverage", "coverage", coverage)
    sample = prepare("risk_at_coverage", loss, confidence, sample_weight, abstained)
    value, found = points.risk_at_coverage(sample.rows(), sample.total, asked)
    if not bool(sample.backend.xp.all(found)):
        raise InfeasibleError(
            f"risk_at_coverage: coverage {asked:g} cannot be reached, since abstained samples are never accepted. "
            f"Ask for at most the share that was answered."
        )
    return sample.deliver(value)


@by_group(lower_is_better=False)
def coverage_at_risk(
    loss: Array,
    confidence: Array,
    /,
    *,
    risk: float,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    """Largest coverage whose selective risk is at most `risk`, 0 when no threshold does it; higher is better.

    This is the empirical figure and promises nothing about new data: see `select_threshold` for a guarantee.

    >>> coverage_at_risk([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5], risk=0.25)
    0.8
    """
    most = check_nonnegative("coverage_at_risk", "risk", risk)
    sample = prepare("coverage_at_risk", loss, confidence, sample_weight, abstained)
    return sample.deliver(points.coverage_at_risk(sample.rows(), sample.total, most))


@by_group(lower_is_better=True)
def rejection_cost(
    loss: Array,
    confidence: Array,
    /,
    *,
    cost: float,
    threshold: float | None = None,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    r"""Chow's cost per sample, at `threshold` or (default) at the best one; lower is better.

    .. math:: C(t) = E[\ell\,1(g \ge t)] + d\,P(g < t)

    Rejecting everything is always among the choices, so the best cost is at most `cost`.

    >>> rejection_cost([0, 0, 1], [0.9, 0.8, 0.1], cost=0.3)  # reject the last: 0.3 / 3
    0.09999999999999999
    """
    d = check_nonnegative("rejection_cost", "cost", cost)
    sample = prepare("rejection_cost", loss, confidence, sample_weight, abstained)
    xp = sample.backend.xp
    if threshold is not None:
        wide = float_dtype(xp)  # a float32 just below 0.7 is not 0.7, here as in `Threshold.accepts`
        kept = xp.astype(xp.astype(sample.confidence, wide) >= float(threshold), wide)
        mass = kept if sample.weight is None else kept * sample.weight
        paid = xp.sum(mass * sample.loss, axis=-1) + d * (sample.total - xp.sum(mass, axis=-1))
        return sample.deliver(paid / sample.total)
    costs = points.rejection_costs(sample.rows(), sample.total, d)
    least = xp.min(costs, axis=-1)
    return sample.deliver(xp.minimum(least, xp.full_like(least, d)))


@dataclass(frozen=True)
class RejectionPoint:
    """The cheapest threshold: accept when `confidence >= threshold`; None rejects everything."""

    threshold: float | None
    cost: float
    coverage: float
    risk: float | None


def best_rejection(
    loss: Array,
    confidence: Array,
    /,
    *,
    cost: float,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> RejectionPoint:
    """The threshold of least Chow cost on this sample (the largest coverage among equals).

    >>> best_rejection([0, 0, 1], [0.9, 0.8, 0.1], cost=0.3).threshold
    0.8
    """
    d = check_nonnegative("best_rejection", "cost", cost)
    curve = risk_coverage_curve(loss, confidence, sample_weight=sample_weight, abstained=abstained)
    costs = np.asarray([d, *(curve.generalised_risk + d * (1 - curve.coverage)).tolist()])  # d: all rejected
    place = points.cheapest(costs) - 1
    if place < 0:
        return RejectionPoint(None, d, 0.0, None)
    return RejectionPoint(
        float(curve.threshold[place]),
        float(costs[place + 1]),
        float(curve.coverage[place]),
        float(curve.risk[place]),
    )
