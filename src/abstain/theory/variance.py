r"""The variance AURC and AUGRC tend to: n times the squared standard error, from a profile or a pilot
sample."""

from __future__ import annotations

import numpy as np

from abstain.core.blocks import Blocks
from abstain.core.influence import of_area, of_risk, second_moment
from abstain.theory.profiles import Profile, panels

METRICS = ("aurc", "augrc", "risk")


def asymptotic_deviation(profile: Profile, metric: str) -> float:
    r""":math:`\sigma` such that the estimate's standard deviation is about :math:`\sigma/\sqrt n`."""
    variance = _of_profile(profile, metric) if profile.pilot is None else _of_pilot(profile.pilot, metric)
    return float(np.sqrt(max(variance, 0.0)))


def _of_pilot(blocks: Blocks, metric: str) -> float:
    rows = blocks.rows()
    influence = (
        of_risk(rows) if metric == "risk" else of_area(rows, "sele" if metric == "augrc" else "harmonic")
    )
    moments = (column[::-1] for column in (blocks.w2, blocks.w2l, blocks.w2ll))
    return float(second_moment(influence, *moments) / rows.W[0])


def _of_profile(profile: Profile, metric: str) -> float:
    """Mean square of `const + slope * loss` for a 0/1 loss, whose second moment is its mean."""
    grid = panels(2, profile.jumps)
    rho = profile.at(grid.q)
    accepted = rho[0, 0] * grid.low + grid.cumulated(
        rho
    )  # loss accepted per sample, at a threshold with q above it
    if metric == "risk":
        const, slope = np.zeros_like(rho), np.ones_like(rho)
    elif metric == "augrc":
        const, slope = accepted, 1 - grid.q
    else:
        drift = grid.cumulated(accepted / grid.q**2)
        total = grid.integral(accepted / grid.q**2)
        const, slope = accepted / grid.q - (total - drift), -np.log(grid.q)
    mean = grid.integral(const + slope * rho)
    centred = const - mean
    return grid.integral(centred**2 + 2 * centred * slope * rho + slope**2 * rho)
