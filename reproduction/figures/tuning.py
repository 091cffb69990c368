"""Fine-tuning epoch by epoch: what each objective does to the test AURC of the network it started from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from abstain._arrays import Array
from abstain.paper.figures.style import COLOURS, empty, finish, grid
from abstain.paper.finetuned import NAMES, OBJECTIVES

_COLOURS = {**COLOURS, "ce": "#000000", "soft": "#CC79A7", "smooth01": "#7A5195"}
_SHOWN = (("aurc_01", 1000, "0/1 AURC (1e-3)"), ("aurc_ce", 100, "CE AURC (1e-2)"))


def by_epoch(runs: Sequence[dict[str, Any]], title: str, to: Any) -> None:
    """One column for each network; means over seeds, shaded from the lowest to the highest seed."""
    tuned = [run for run in runs if run["kind"] == "finetune"]
    models = sorted({run["model"] for run in tuned})
    starts = {run["name"]: run for run in runs if run["kind"] == "pretrain"}
    columns = max(1, len(models))
    figure, axes = grid(2 * columns, columns=columns)
    if not models:
        for axis in axes:
            empty(axis, "no finished runs")
    for i, (quantity, scale, unit) in enumerate(_SHOWN):
        for axis, model in zip(axes[i * columns : (i + 1) * columns], models):
            own = [run for run in tuned if run["model"] == model]
            _panel(axis, own, starts, quantity, scale)
            axis.set_title(f"{model}, {len({run['seed'] for run in own})} seeds", fontsize=8)
            axis.set_ylabel(unit, fontsize=8)
    finish(figure, title, axes[0].get_legend_handles_labels(), to)


def _panel(
    axis: Array, runs: Sequence[dict[str, Any]], starts: dict[str, Any], quantity: str, scale: float
) -> None:
    for objective in OBJECTIVES:
        paths = [path(run, starts, quantity) for run in runs if run["objective"] == objective]
        if paths:
            values = scale * np.asarray(paths)
            epochs, colour = np.arange(values.shape[1]), _COLOURS[objective]
            axis.plot(epochs, values.mean(axis=0), color=colour, linewidth=1.2, label=NAMES[objective])
            axis.fill_between(
                epochs, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.12, linewidth=0
            )
    axis.set_xlabel("epochs of fine-tuning", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(alpha=0.25, linewidth=0.5)


def path(run: dict[str, Any], starts: dict[str, Any], quantity: str) -> list[float]:
    """A run's values from the pre-trained network (epoch 0) to its last epoch."""
    before = starts[run["start"]]["log"][-1][quantity]
    return [before, *(entry[quantity] for entry in run["log"])]
