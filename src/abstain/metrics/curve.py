"""The risk-coverage curve: one point per distinct confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abstain._arrays import Array
from abstain.core.blocks import Blocks
from abstain.core.rows import Rows, rows_of_sorted, sort_samples
from abstain.errors import ShapeError
from abstain.metrics._sample import Sample, prepare


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
    rows, threshold, count = _on_host(sample) if sample.road.host else _on_device(sample)
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
    xp = sample.road.xp
    loss, ranked, weight = sort_samples(xp, sample.loss, sample.confidence, sample.weight)
    ends = xp.concat([ranked[1:] != ranked[:-1], xp.ones_like(ranked[:1], dtype=xp.bool)])
    rows = rows_of_sorted(xp, loss, ends, weight)
    kept = xp.nonzero(rows.m > 0)[0]
    m, L, N, S = (xp.take(column, kept) for column in (rows.m, rows.L, rows.N, rows.S))
    return Rows(m, L, N, S, rows.W, xp, False), xp.take(ranked, kept), kept + 1
