"""A band around the whole risk-coverage curve."""

from __future__ import annotations

from typing import Literal

import numpy as np

from abstain._arrays import Array
from abstain._check import check_choice, check_fraction
from abstain.core import points
from abstain.core.bootstrap import Draw
from abstain.core.rows import Rows
from abstain.errors import InputError
from abstain.inference._units import gather
from abstain.inference.resampling import replicate, resampler
from abstain.inference.results import CurveBand


def curve_band(
    loss: Array,
    confidence: Array,
    /,
    *,
    level: float = 0.95,
    method: Literal["bootstrap"] = "bootstrap",
    coverage: Array | None = None,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    clusters: Array | None = None,
    strata: Array | None = None,
    replicates: int = 2000,
    rng: int | np.random.Generator = 0,
    progress: bool | None = None,
) -> CurveBand:
    r"""Simultaneous band for the risk-coverage curve: the whole curve lies inside with probability about
    `level`.

    .. math:: \left|\phi(\hat R(c)) - \phi(R(c))\right| \le \frac{q}{2\sqrt{N_c}} \ \text{for all } c,
              \qquad \phi(R) = \arcsin\sqrt R

    On the arcsine scale the spread of a proportion hardly depends on it, so one number q, the `level`
    quantile of the largest deviation over bootstrap replicates, serves every coverage. Losses need a lower
    end of 0; they are divided by the largest one. `coverage` defaults to 100 steps from 0.05 (or 20 samples)
    to 1: below that a curve is the story of a handful of samples.

    >>> band = curve_band([0, 0, 0, 1] * 50, range(200), rng=1)
    >>> bool((band.low <= band.risk).all() and (band.risk <= band.high).all())
    True
    """
    check_choice("curve_band", "method", method, ("bootstrap",))
    level = check_fraction("curve_band", "level", level, open_high=True)
    units = gather("curve_band", "risk", loss, confidence, sample_weight, abstained, clusters, strata)
    if bool((units.loss < 0).any()):
        raise InputError("curve_band: needs losses of at least 0, got negative ones.")
    share = units.mass / units.total
    grid = _grid(coverage, len(units.loss), share)
    most = max(1.0 if units.zero_one else 0.0, float(units.loss.max()), np.finfo(float).tiny)
    source = resampler(units)
    counts = source.repeats if source.repeats is not None else np.ones(source.n, dtype=np.int64)
    observed = source.tabulate(counts[None, :])
    risk, size = (x[0] for x in _read(observed, grid))
    per_mass = len(units.loss) / units.mass  # weights need not be counts; the spread goes by samples
    phi, width = _stable(risk, size, most, per_mass), 1 / (2 * np.sqrt(size * per_mass))

    def deviation(drawn: Draw) -> np.ndarray:
        r, s = _read(drawn, grid)
        return np.asarray(np.max(np.abs(_stable(r, s, most, per_mass) - phi) / width, axis=1))

    q = float(
        np.quantile(replicate(units, deviation, replicates, np.random.default_rng(rng), progress), level)
    )
    low = np.sin(np.clip(phi - q * width, 0, np.pi / 2)) ** 2 * most
    high = np.sin(np.clip(phi + q * width, 0, np.pi / 2)) ** 2 * most
    return CurveBand(grid, risk, np.minimum(low, risk), np.maximum(high, risk), level, method, units.n)


def _grid(coverage: Array | None, n: int, share: float) -> np.ndarray:
    if coverage is None:
        return np.linspace(min(1.0, max(0.05, 20 / n)), 1.0, 100) * share
    grid = np.sort(np.asarray(coverage, dtype=np.float64).reshape(-1))
    if not len(grid) or grid[0] <= 0 or grid[-1] > share + 1e-12:
        raise InputError(f"curve_band: `coverage` must lie in (0, {share:g}], got {grid[:1]} to {grid[-1:]}.")
    return grid


def _read(drawn: Draw, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Selective risk, and the mass accepted, at the least attainable coverage of each grid point."""
    rows: Rows = drawn.rows
    reached = points.coverage(rows, drawn.total)
    asked = np.minimum(grid, reached[:, -1:])  # a replicate may answer a little less than the sample did
    place = np.stack([_first_at_least(r, m, a) for r, m, a in zip(reached, rows.m, asked)])
    take = np.take_along_axis
    return take(rows.S / rows.N, place, 1), take(rows.N, place, 1)


def _first_at_least(reached: np.ndarray, mass: np.ndarray, asked: np.ndarray) -> np.ndarray:
    some = np.flatnonzero(mass > 0)
    return some[np.minimum(np.searchsorted(reached[some], asked - 1e-12), len(some) - 1)]


def _stable(risk: np.ndarray, size: np.ndarray, most: float, per_mass: float) -> np.ndarray:
    """Arcsine of the root of a proportion, its count of 0 lifted off the edge (Anscombe's 3/8)."""
    n = size * per_mass
    return np.asarray(np.arcsin(np.sqrt((risk / most * n + 0.375) / (n + 0.75))))
