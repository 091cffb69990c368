"""The calibration data: checked, scaled to [0, 1], sorted once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abstain._arrays import Array, to_host
from abstain.core.fast import is_zero_one
from abstain.core.ranked import Ranked, rank
from abstain.errors import InputError, ShapeError
from abstain.metrics._sample import prepare
from abstain.thresholds import pvalues


class Calibration(NamedTuple):
    """Losses scaled to [0, 1] by `bounded = (low, high)`, most confident first."""

    ranked: Ranked
    low: float
    high: float

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.ranked.n

    def scaled(self, risk: float) -> float:
        """A mean loss on the scale [0, 1]."""
        return (risk - self.low) / (self.high - self.low)

    def unscaled(self, risk: float) -> float:
        """Back on the user's scale."""
        return self.low + risk * (self.high - self.low)

    def p_values(self, count: np.ndarray, risk: float) -> np.ndarray:
        """For "the mean loss of the first `count` is above `risk`" (scaled); counts rise."""
        if risk >= 1:
            return np.where(count > 0, 0.0, 1.0)  # no loss can be above its bound
        if self.ranked.weight is not None:
            return pvalues.betting(self.ranked, count, risk, float(self.ranked.weight.max()))
        if self.ranked.zero_one:
            return pvalues.binomial(self.ranked.cum_loss[count], count, risk)
        return pvalues.bounded(self.ranked, count, risk)

    def coverage(self, count: np.ndarray) -> np.ndarray:
        """Share of the (weighted) samples accepted."""
        return np.asarray(self.ranked.cum_weight[count] / self.ranked.cum_weight[-1], dtype=np.float64)

    def risk(self, count: np.ndarray) -> np.ndarray:
        """Mean loss of the accepted on the user's scale; 0 where none is accepted."""
        mass = self.ranked.cum_weight[count]
        mean = np.where(mass > 0, self.ranked.cum_loss[count] / np.where(mass > 0, mass, 1), 0.0)
        return self.low + mean * (self.high - self.low)


def calibrate(
    name: str, loss: Array, confidence: Array, sample_weight: Array | None, bounded: tuple[float, float]
) -> Calibration:
    """Check and sort."""
    sample = prepare(name, to_host(loss), to_host(confidence), to_host(sample_weight))
    if sample.loss.ndim != 1:
        raise ShapeError(f"{name}: takes one vector, got shape {sample.loss.shape}. Loop over the batch.")
    low, high = _bounds(name, bounded)
    return Calibration(
        rank(_scale(name, sample.loss, low, high), sample.confidence, sample.weight), low, high
    )


def _bounds(name: str, bounded: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(b) for b in bounded)
    except (TypeError, ValueError):
        raise InputError(f"{name}: `bounded` must be a pair (low, high), got {bounded!r}.") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"{name}: `bounded` must be finite and rising, got ({low:g}, {high:g}).")
    return low, high


def _scale(name: str, loss: np.ndarray, low: float, high: float) -> np.ndarray:
    """To [0, 1]; a loss that takes the two ends only becomes 0/1 and is tested exactly."""
    if loss.dtype == bool and (low, high) == (0.0, 1.0):
        return loss
    smallest, largest = float(loss.min()), float(loss.max())
    if smallest < low or largest > high:
        raise InputError(
            f"{name}: `loss` must lie within bounded=({low:g}, {high:g}), got values from {smallest:g} to "
            f"{largest:g}. No guarantee is possible without a bound that is known beforehand: pass "
            f"bounded=(low, high), or clip the loss and speak of the clipped one."
        )
    if (low, high) == (0.0, 1.0):
        return loss.astype(bool) if is_zero_one(loss) else loss
    scaled = (loss.astype(np.float64) - low) / (high - low)
    return scaled.astype(bool) if is_zero_one(scaled) else scaled
