"""Colours and names shared by all figures."""

from __future__ import annotations

import textwrap
from typing import Any

from abstain._arrays import Array
from abstain.errors import MissingDependencyError

# colours that stay apart in grey and for colour-blind readers (Okabe & Ito)
COLOURS = {"harmonic": "#0072B2", "log": "#56B4E9", "loo": "#009E73", "sele": "#D55E00", "2sele": "#E69F00"}
NAMES = {
    "harmonic": r"harmonic $\hat\alpha$",
    "log": r"log $\hat\alpha^\prime$",
    "loo": "leave-one-out",
    "sele": "SELE",
    "2sele": r"2$\times$SELE",
}
MARKS = {"harmonic": "o", "log": "s", "loo": "^", "sele": "v", "2sele": "D"}
LOSS = {"01": "0/1 loss", "ce": "CE loss"}


def pyplot() -> Any:
    """matplotlib without a display."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependencyError("drawing the paper's figures", "matplotlib", "paper") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def grid(count: int, width: float = 3.3, height: float = 2.7, columns: int = 4) -> tuple[Array, list[Array]]:
    """A figure with `count` panels in rows of at most `columns`; unused places are left blank."""
    plt = pyplot()
    across = min(count, columns)
    if count > columns and count % columns and count % 3 == 0:
        across = 3
    down = -(-count // across)
    figure, axes = plt.subplots(
        down, across, figsize=(width * across, height * down + 0.6), squeeze=False, layout="constrained"
    )
    flat = list(axes.ravel())
    for spare in flat[count:]:
        spare.axis("off")
    return figure, flat[:count]


def finish(figure: Array, title: str, handles: Any, to: Any) -> None:
    """One legend below all panels, a title above, saved and closed."""
    if handles:
        figure.legend(
            *handles, loc="outside lower center", ncols=min(len(handles[1]), 6), frameon=False, fontsize=9
        )
    figure.suptitle(title, fontsize=11)
    figure.savefig(to, dpi=110)
    pyplot().close(figure)


def size_axis(axis: Array, sizes: list[int]) -> None:
    """Sample sizes on a log axis, written out."""
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [str(n) for n in sizes], fontsize=7, rotation=45)
    axis.minorticks_off()
    axis.tick_params(axis="y", labelsize=7)
    axis.grid(alpha=0.25, linewidth=0.5)


def empty(axis: Array, why: str) -> None:
    """A panel that cannot be filled says why."""
    axis.text(
        0.5, 0.5, textwrap.fill(why, 30), ha="center", va="center", fontsize=8, transform=axis.transAxes
    )
    axis.set_xticks([])
    axis.set_yticks([])
