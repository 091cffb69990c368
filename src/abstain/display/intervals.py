"""Estimates with their error bars, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from abstain._tables import frame
from abstain.display._axes import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class IntervalDisplay:
    """Names with estimates and intervals; an interval may be absent (None)."""

    names: tuple[str, ...]
    estimates: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    label: str = ""
    notes: tuple[str, ...] = ()

    def frame(self, library: str | None = None) -> Any:
        """One row per name."""
        columns: dict[str, Sequence[Any]] = {
            "name": self.names,
            "estimate": self.estimates,
            "low": self.low,
            "high": self.high,
        }
        return frame(columns, library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw on `ax` (or on a new figure) and give the axes back; the first name is on top."""
        ax = axes(ax, height=0.9 + 0.32 * len(self.names))
        places = range(len(self.names), 0, -1)
        for place, value, low, high in zip(places, self.estimates, self.low, self.high):
            if low is not None and high is not None:
                ax.plot([low, high], [place, place], color="C0", linewidth=2, solid_capstyle="butt")
            ax.plot([value], [place], "o", color="C0", markersize=5)
        labels = self.names if not self.notes else [f"{n}  {t}" for n, t in zip(self.names, self.notes)]
        ax.set_yticks(list(places), list(labels))
        ax.set_ylim(0.4, len(self.names) + 0.6)
        ax.set_xlabel(self.label)
        ax.grid(axis="x", alpha=0.3)
        return ax
