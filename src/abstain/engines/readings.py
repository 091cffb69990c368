"""Points and curves read off a table of items, with what is certain about them."""

from __future__ import annotations

import numpy as np

from abstain.core import binning
from abstain.engines.items import Items, overlaps
from abstain.engines.results import Certified, CertifiedCurve


def certified(result: binning.Certified) -> Certified:
    """As plain numbers."""
    low, high = (None if x is None else float(x) for x in (result.low, result.high))
    return Certified(float(result.estimate), low, high)


def risk_at(items: Items, position: float, most: float | None) -> Certified:
    """Selective risk when the samples at and above the one at `position` (mass from the top) are accepted."""
    order = np.argsort(items.low + items.high, kind="stable")[::-1]
    c, L = items.mass[order], items.loss[order]
    N, S = np.cumsum(c), np.cumsum(L)
    at = min(int(np.searchsorted(N, position, "left")), len(N) - 1)
    tie = bool(items.low[order[at]] == items.high[order[at]])
    part = 1.0 if tie else (position - (N[at] - c[at])) / c[at]
    estimate = float((S[at] - L[at] + part * L[at]) / (N[at] - c[at] + part * c[at]))
    if most is None:
        return Certified(estimate, None, None)
    # whatever overlaps an item is taken with it as one bin: its members may stand anywhere among the item's
    above, loss_above, over_mass, over_loss = overlaps(items)
    mass = items.mass + over_mass
    maybe = (above < position) & (position <= above + mass)
    known = (items.low == items.high) & (over_mass == 0)
    place = np.where(known, above + mass, position)
    low, high = binning.risk_between(np, place, above, loss_above, mass, items.loss + over_loss, most)
    least, greatest = float(low[maybe].min()), float(high[maybe].max())
    return Certified(min(max(estimate, least), greatest), least, greatest)


def curve(items: Items, most: float | None) -> CertifiedCurve:
    """Coverage and risk at the lower end of each item, most confident first."""
    threshold = np.unique(items.low)[::-1]
    by_high = np.argsort(items.high, kind="stable")
    first = np.searchsorted(items.low, threshold, "left")  # items from here on are accepted whole
    gone = np.searchsorted(items.high[by_high], threshold, "left")  # rejected whole
    parts = []
    for x in (items.mass, items.loss):
        full = np.concatenate([np.cumsum(x[::-1])[::-1], [0.0]])[first]
        out = np.concatenate([[0.0], np.cumsum(x[by_high])])[gone]
        parts.append((full, np.where(first > gone, np.maximum(x.sum() - full - out, 0.0), 0.0)))
    (N, open_mass), (S, open_loss) = parts
    W = items.mass.sum()
    risk = (S + open_loss / 2) / (N + open_mass / 2)
    bounds: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    if most is not None:
        heavy = open_loss / most
        bounds = (S / (N + np.maximum(open_mass - heavy, 0.0)), (S + open_loss) / (N + heavy))
    return CertifiedCurve(threshold, (N + open_mass / 2) / W, risk, *bounds, N / W, (N + open_mass) / W)
