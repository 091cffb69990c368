"""What the engines answer with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Certified:
    """A point estimate with bounds that hold for certain on the data seen (up to rounding in the last
    digits).

    `low` and `high` are None when nothing is certain: losses below zero have no bound to stand on.
    """

    estimate: float
    low: float | None
    high: float | None

    @property
    def gap(self) -> float | None:
        """Width of the bounds; 0 when the answer is exact."""
        return None if self.low is None or self.high is None else self.high - self.low

    def __float__(self) -> float:
        return self.estimate

    def __repr__(self) -> str:
        if self.low is None:
            return f"{self.estimate:.6g} (no certificate: some losses are below zero)"
        return f"{self.estimate:.6g} (for certain between {self.low:.6g} and {self.high:.6g})"


@dataclass(frozen=True)
class CertifiedCurve:
    """A risk-coverage curve in few points, most confident first; accept when `confidence >= threshold`.

    Coverage and risk at each threshold with their bounds (equal to them wherever the table knows exactly who
    is accepted; None without a certificate).
    """

    threshold: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    risk_low: np.ndarray | None
    risk_high: np.ndarray | None
    coverage_low: np.ndarray
    coverage_high: np.ndarray

    def __repr__(self) -> str:
        return (
            f"CertifiedCurve({len(self.coverage)} points, risk {self.risk[0]:.4g} at coverage "
            f"{self.coverage[0]:.4g} to {self.risk[-1]:.4g} at {self.coverage[-1]:.4g})"
        )
