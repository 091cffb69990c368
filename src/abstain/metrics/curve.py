"""The risk-coverage curve: one point per distinct confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abstain._arrays import Array, host_view
from abstain.core.blocks import Blocks
from abstain.errors import ShapeError
from abstain.metrics._sample import prepare


@dataclass(frozen=True)
class RiskCoverageCurve:
    """Points from the most confident down; accept when `confidence >= threshold`.

    coverage: share accepted. risk: mean loss of the accepted. generalised_risk: their loss per sample of the whole
    set. count: samples accepted. `abstained` is the share that can never be accepted.
    """

    coverage: np.ndarray
    risk: np.ndarray
    generalised_risk: np.ndarray
    threshold: np.ndarray
    count: np.ndarray
    n: int
    abstained: float

    @property
    def accuracy(self) -> np.ndarray:
        """1 - risk: the accuracy-coverage curve when the loss is 0/1."""
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

    The points are numbers for people and plots, so they are numpy arrays whatever came in.

    >>> curve = risk_coverage_curve([0, 1, 0], [0.9, 0.8, 0.8])
    >>> curve.coverage.round(3).tolist(), curve.risk.round(3).tolist(), curve.threshold.tolist()
    ([0.333, 1.0], [0.0, 0.333], [0.9, 0.8])
    """
    sample = prepare(
        "risk_coverage_curve", _host(loss), _host(confidence), _host(sample_weight), _host(abstained)
    )
    if sample.loss.ndim != 1:
        raise ShapeError(
            f"risk_coverage_curve: takes one vector, got shape {sample.loss.shape}. Loop over the batch."
        )
    blocks = Blocks.from_samples(sample.loss, sample.confidence, sample.weight)
    rows = blocks.rows()
    total = float(sample.total)
    return RiskCoverageCurve(
        coverage=rows.N / total,
        risk=rows.risk,
        generalised_risk=rows.S / total,
        threshold=blocks.confidence[::-1],
        count=np.cumsum(blocks.count[::-1]),
        n=int(np.asarray(loss).shape[-1]) if not hasattr(loss, "shape") else int(loss.shape[-1]),
        abstained=1 - float(rows.W[0]) / total,
    )


def _host(x: Array) -> Array:
    if x is None:
        return None
    view = host_view(x)
    return (
        x.get() if view is None and hasattr(x, "get") else x.detach().cpu().numpy() if view is None else view
    )
