"""Each figure of the manifest, drawn from a study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from abstain._arrays import Array
from abstain.paper.figures import lines, theory, tuning
from abstain.paper.figures.boxes import boxes
from abstain.paper.figures.style import LOSS, empty, finish, grid
from abstain.paper.finetuned import load_runs
from abstain.paper.manifest import ENTRIES, Entry

_PANELS: dict[str, Callable[[Array, list[dict[str, Any]], str], None]] = {
    "mean": lines.estimates,
    "bias": lines.bias,
    "mae": lines.mae,
    "mse": lines.mse,
    "scores": boxes,
}
_UNIT = {"mean": "AURC", "bias": "bias", "mae": "MAE", "mse": "MSE", "scores": "AURC"}


def draw(entry: Entry, study: dict[str, Any], folder: Path) -> Path:
    """One figure; returns the file."""
    to = folder / entry.file
    if entry.shows == "weights":
        theory.weight_bias(entry.sizes, entry.title, to)
    elif entry.shows == "surface":
        theory.surface(entry.title, to)
    elif entry.shows == "mean mse":
        theory.mean_mse(study, entry.title, to)
    elif entry.shows == "convergence":
        theory.convergence(study, entry.title, to)
    elif entry.shows == "tuning":
        tuning.by_epoch(load_runs(), entry.title, to)
    elif entry.shows == "equivalence":
        theory.scatter(study, entry.title, to)
    else:
        _panels(entry, study, to)
    return to


def _panels(entry: Entry, study: dict[str, Any], to: Path) -> None:
    wide = entry.shows == "scores"
    figure, axes = grid(len(entry.panels), 5.2 if wide else 3.3, 3.4 if wide else 2.7, 2 if wide else 4)
    legend = None
    for axis, panel in zip(axes, entry.panels, strict=True):
        group = panel.group(entry.several)
        names = group.among(study["models"])
        title = f"{panel.model} ({LOSS[panel.loss]})"
        if not names:
            empty(axis, f"not available: {group.remark}")
        else:
            _PANELS[entry.shows](axis, [study["models"][n] for n in names], panel.loss)
            legend = axis.get_legend_handles_labels()
            title += f"\n{names[0] if len(names) == 1 else f'{len(names)} models: {names[0]} ...'}"
            axis.set_ylabel(_UNIT[entry.shows], fontsize=8)
        axis.set_title(title, fontsize=7)
    remark = " (solid: MSE, dotted: squared bias)" if entry.shows == "mse" else ""
    finish(figure, entry.title + remark, legend, to)


def draw_all(study: dict[str, Any], folder: Path, report: Callable[[str], None] = print) -> list[Path]:
    """All figures of the manifest; panels with a label of their own are in the file of their figure."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for entry in ENTRIES:
        if entry.file.endswith(".png") and entry.part_of is None:
            report(entry.label)
            drawn.append(draw(entry, study, folder))
    return drawn
