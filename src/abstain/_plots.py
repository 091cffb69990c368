"""Drawing for every result that has a `plot`. matplotlib is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from abstain.errors import import_optional

SHOWN_POINTS = 201  # points of a curve that are drawn; more would not be visible
_DASHES = ("-", "--", ":", "-.")
_COLOURS = 10  # in matplotlib's colour cycle


def make_axes(ax: Any = None, *, height: float = 4.0, width: float = 6.4) -> Any:
    """Return `ax`, or the axes of a new figure of this size in inches if it is None."""
    if ax is not None:
        return ax
    plt = import_optional("matplotlib.pyplot", "Plotting", "plot")
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def select_drawn_points(coverage: np.ndarray, points: int = SHOWN_POINTS) -> np.ndarray:
    """Return indices of about `points` points, evenly spaced in coverage, the first and the last included.

    `coverage` is in ascending order.
    """
    grid = np.linspace(coverage[0], coverage[-1], points)
    return np.unique(np.minimum(np.searchsorted(coverage, grid), len(coverage) - 1))


def draw_curves(
    ax: Any,
    curves: Sequence[tuple[str, Any, Any]],
    label: str,
    bands: Mapping[str, Any] | None = None,
) -> None:
    """Draw risk-coverage curves on `ax`.

    Curves differ by dashes as well as by colour. The vertical axis starts a little below zero, so that a curve that
    lies on zero is visible in its full width.

    Parameters
    ----------
    ax : Axes
        Curves drawn on it before keep their styles.
    curves : sequence of (name, coverage, risk)
        A curve with an empty name is not in the legend.
    label : str
        Of the vertical axis.
    bands : mapping from a curve's name to an object with `coverage`, `low` and `high`, optional
        Shaded around their curves, in the same colour; a band without a curve is ignored.
    """
    for line_number, (name, coverage, risk) in enumerate(curves, start=len(ax.lines)):
        # shifted after each round of colours, so that a colour comes back with other dashes
        style = _DASHES[(line_number + line_number // _COLOURS) % len(_DASHES)]
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
