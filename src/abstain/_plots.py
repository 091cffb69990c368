"""Drawing shared by every result that has a `plot`: axes, which points of a curve to draw, and curves themselves.

matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from abstain.errors import import_optional

SHOWN_POINTS = 201  # of a curve; more would not show
_DASHES = ("-", "--", ":", "-.")
_COLOURS = 10  # of matplotlib's cycle


def make_axes(ax: Any = None, *, height: float = 4.0, width: float = 6.4) -> Any:
    """`ax` itself, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    plt = import_optional("matplotlib.pyplot", "Plotting", "plot")
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def select_drawn_points(coverage: np.ndarray, points: int = SHOWN_POINTS) -> np.ndarray:
    """Places of about so many points, evenly in coverage, the first and the last among them."""
    grid = np.linspace(coverage[0], coverage[-1], points)
    return np.unique(np.minimum(np.searchsorted(coverage, grid), len(coverage) - 1))


def draw_curves(
    ax: Any,
    curves: Sequence[tuple[str, Any, Any]],
    label: str,
    bands: Mapping[str, Any] | None = None,
) -> None:
    """Draw curves (name, coverage, risk) on `ax`, with bands (coverage, low, high) around those that have one.

    Curves differ by dashes as well as by colour. The vertical axis starts a little below zero, so that a curve that
    lies on zero is seen in its full width.
    """
    for k, (name, coverage, risk) in enumerate(curves, start=len(ax.lines)):
        style = _DASHES[(k + k // _COLOURS) % len(_DASHES)]
        (line,) = ax.plot(coverage, risk, style, label=name or None, linewidth=1.5)
        band = (bands or {}).get(name)
        if band is not None:
            colour = line.get_color()
            ax.fill_between(band.coverage, band.low, band.high, color=colour, alpha=0.15, linewidth=0)
    low, high = ax.dataLim.intervaly if curves else (0.0, 1.0)
    bottom = min(0.0, float(low))
    height = float(high) - bottom or 1.0
    margin = 0.03 * height
    ax.set(xlabel="coverage", ylabel=label, xlim=(0, 1), ylim=(bottom - margin, float(high) + 2 * margin))
    ax.grid(alpha=0.3)
    if any(name for name, _, _ in curves):
        ax.legend(fontsize="small", handlelength=3)
