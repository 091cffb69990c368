"""Risk profiles: the expected loss given the population rank percentile beta, and integrals over them.

Everything is done in q = 1 - beta (the share of samples surer than this one), because all the weights are
decided near q = 0. Panels halve towards 0, so that logarithms there integrate to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abstain._arrays import Array
from abstain.core.blocks import Blocks
from abstain.errors import InputError, ShapeError
from abstain.theory.populations import NAMED, Population

_POINTS = 16
_STEPS = 400  # a pilot sample is summarised by at most about this many steps


@dataclass(frozen=True)
class Profile:
    """Expected loss as a function of q = 1 - beta, with the places where it jumps; `pilot` is where it came
    from."""

    at: Callable[[np.ndarray], np.ndarray]
    jumps: tuple[float, ...] = ()
    source: str = "an assumed profile, 0/1 loss"
    pilot: Blocks | None = field(default=None, repr=False)


def as_profile(name: str, curve: Any) -> Profile:
    """A profile from a number, a named population, a function of beta, a risk-coverage curve or a pilot
    sample."""
    if isinstance(curve, Profile):
        return curve
    if isinstance(curve, str):
        if curve not in NAMED:
            raise InputError(f"{name}: unknown population {curve!r}, the named ones are {', '.join(NAMED)}.")
        curve = NAMED[curve]
    if isinstance(curve, Population):
        return Profile(curve.given_above, source=f"{curve!r}")
    if isinstance(curve, (int, float)):
        return as_profile(name, Population(((float(curve), 0.0),)))
    if hasattr(curve, "generalised_risk") and hasattr(curve, "coverage"):
        return _from_steps(np.asarray(curve.coverage), np.asarray(curve.generalised_risk), None)
    if callable(curve):
        return Profile(functools.partial(_checked, name, curve))
    if isinstance(curve, tuple) and len(curve) == 2:
        return _from_pilot(name, *curve)
    raise InputError(
        f"{name}: `curve` must be a function of beta, a number, a Population or its name, a "
        f"RiskCoverageCurve, "
        f"or a pilot sample (loss, confidence), got {type(curve).__name__}."
    )


def _checked(name: str, curve: Callable[[np.ndarray], Any], above: np.ndarray) -> np.ndarray:
    value = np.broadcast_to(np.asarray(curve(1 - above), dtype=np.float64), above.shape)
    if not np.all((value >= 0) & (value <= 1)):
        raise InputError(
            f"{name}: an assumed profile is the chance of an error given beta and must lie in [0, 1], got "
            f"{value.min():g} to {value.max():g}. For other losses give a pilot sample (loss, confidence)."
        )
    return value


def _from_pilot(name: str, loss: Array, confidence: Array) -> Profile:
    l, g = np.asarray(loss, dtype=np.float64), np.asarray(confidence)
    if l.ndim != 1 or l.shape != g.shape or not len(l):
        raise ShapeError(f"{name}: a pilot is two vectors of one length, got shapes {l.shape} and {g.shape}.")
    if not (np.isfinite(l).all() and np.isfinite(g.astype(np.float64)).all()):
        raise InputError(f"{name}: a pilot must be finite, got NaN or infinity.")
    blocks = Blocks.from_samples(l, g)
    rows = blocks.rows()
    return _from_steps(rows.N / rows.W, rows.S / rows.W, blocks)


def _from_steps(coverage: np.ndarray, accepted: np.ndarray, pilot: Blocks | None) -> Profile:
    """Steps between coverages kept evenly in coverage and, near 0, evenly in its logarithm."""
    grid = np.concatenate([np.linspace(0, 1, _STEPS // 2), np.geomspace(coverage[0], 1, _STEPS // 2)])
    keep = np.unique(np.minimum(np.searchsorted(coverage, np.sort(grid)), len(coverage) - 1))
    keep = np.union1d(keep, [len(coverage) - 1])
    edges = np.concatenate([[0.0], coverage[keep] / coverage[-1]])  # of the attainable coverage
    heights = np.diff(np.concatenate([[0.0], accepted[keep] / coverage[-1]])) / np.diff(edges)

    def at(above: np.ndarray) -> np.ndarray:
        place = np.clip(np.searchsorted(edges, above, side="left") - 1, 0, len(heights) - 1)
        return np.asarray(heights[place])

    count = "" if pilot is None else f" of {int(pilot.count.sum())} samples"
    kind = "a risk-coverage curve, 0/1 loss" if pilot is None else f"a pilot{count}"
    return Profile(at, tuple(edges[1:-1]), kind, pilot)


@dataclass(frozen=True)
class Panels:
    """Gauss-Legendre nodes q and weights, one row per panel, panels ascending in q; `low` is left out
    below."""

    q: np.ndarray
    w: np.ndarray
    half: np.ndarray
    low: float

    def integral(self, values: np.ndarray) -> float:
        """Over (low, 1)."""
        return float(np.sum(self.w * values))

    def cumulated(self, values: np.ndarray) -> np.ndarray:
        """From `low` up to each node."""
        inner = values @ _cumulation_matrix().T * self.half
        before = np.concatenate([[0.0], np.cumsum(np.sum(self.w * values, axis=-1))[:-1]])
        return np.asarray(inner + before[:, None])


def panels(n: float, jumps: tuple[float, ...] = ()) -> Panels:
    """Panels for integrands that change on the scale 1/n and have logarithms at q = 0."""
    depth = int(np.ceil(np.log2(max(n, 2)))) + 52
    edges = np.union1d(2.0 ** -np.arange(depth, -1, -1.0), np.asarray(jumps, dtype=np.float64))
    edges = edges[edges >= 2.0**-depth]
    x, w = np.polynomial.legendre.leggauss(_POINTS)
    half = np.diff(edges)[:, None] / 2
    return Panels(edges[:-1, None] + half * (1 + x), half * w, half, float(edges[0]))


@functools.lru_cache(maxsize=1)
def _cumulation_matrix() -> np.ndarray:
    """Row i holds the weights of the integral from -1 to node i, exact for polynomials through the nodes."""
    x, w = np.polynomial.legendre.leggauss(_POINTS)
    P = np.polynomial.legendre.legvander(x, _POINTS)
    primitive = np.empty((_POINTS, _POINTS))
    primitive[:, 0] = x + 1
    for k in range(1, _POINTS):
        primitive[:, k] = (P[:, k + 1] - P[:, k - 1]) / (2 * k + 1)
    scale = (2 * np.arange(_POINTS) + 1) / 2
    return np.asarray(primitive @ (scale[:, None] * P[:, :_POINTS].T) * w)
