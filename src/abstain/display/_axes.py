"""The one place that asks matplotlib for axes."""

from __future__ import annotations

from typing import Any

from abstain.errors import MissingDependencyError


def axes(ax: Any = None, *, height: float = 4.0, width: float = 6.4) -> Any:
    """`ax` itself, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingDependencyError("Plotting", "matplotlib", "plot") from None
    return plt.subplots(figsize=(width, height), layout="constrained")[1]
