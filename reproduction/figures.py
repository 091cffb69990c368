"""Figures from the numbers of a study; nothing is computed here."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abstain import theory
from reproduction import Array, MissingPackageError, table
from reproduction.manifest import ENTRIES, Entry
from reproduction.recipe import OBJECTIVES
from reproduction.runs import load_runs
from reproduction.study import SCORES

# -------------------------------- colours, names, axes

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
        raise MissingPackageError("drawing the paper's figures", "matplotlib") from None
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


# -------------------------------- panels against the batch size

Study = dict[str, Any]


def curves(models: list[Study], loss: str, estimator: str, quantity: str) -> tuple[list[int], np.ndarray]:
    """Batch sizes, and one curve per model."""
    tables = [m["finite"][loss]["sizes"] for m in models]
    sizes = [int(n) for n in tables[0]]
    return sizes, np.array([[t[str(n)][estimator][quantity] for n in sizes] for t in tables])


def estimates(axis: Array, models: list[Study], loss: str) -> None:
    """Mean and spread of every estimator around the population value."""
    for k, name in enumerate(NAMES):
        sizes, mean = curves(models[:1], loss, name, "mean")
        spread = curves(models[:1], loss, name, "std")[1][0]
        shift = 2 ** (0.08 * (k - 2))  # side by side, so that bars do not cover each other
        axis.errorbar(
            np.array(sizes) * shift, mean[0], spread, color=COLOURS[name], marker=MARKS[name], markersize=3,
            linewidth=1, elinewidth=0.6, capsize=1.5, label=NAMES[name],
        )  # fmt: skip
    axis.axhline(models[0]["finite"][loss]["population"], color="black", linewidth=0.8, linestyle="--")
    size_axis(axis, sizes)


def bias(axis: Array, models: list[Study], loss: str) -> None:
    """Mean estimate minus population value."""
    for name in NAMES:
        sizes, value = curves(models[:1], loss, name, "bias")
        _line(axis, sizes, value[0], name)
    axis.axhline(0, color="black", linewidth=0.8, linestyle="--")
    size_axis(axis, sizes)


def mae(axis: Array, models: list[Study], loss: str) -> None:
    """Mean absolute error, with its spread over models."""
    for name in NAMES:
        sizes, value = curves(models, loss, name, "mae")
        _line(axis, sizes, value.mean(0), name)
        if len(models) > 1:
            low, high = value.mean(0) - value.std(0, ddof=1), value.mean(0) + value.std(0, ddof=1)
            axis.fill_between(
                sizes, np.maximum(low, value.min() / 2), high, color=COLOURS[name], alpha=0.15, linewidth=0
            )
    axis.set_yscale("log")
    size_axis(axis, sizes)


def mse(axis: Array, models: list[Study], loss: str) -> None:
    """Mean squared error (solid) and squared bias (dotted), which is what the paper's code draws."""
    for name in NAMES:
        sizes, value = curves(models[:1], loss, name, "mse")
        _line(axis, sizes, value[0], name)
        squared = curves(models[:1], loss, name, "bias")[1][0] ** 2
        axis.plot(sizes, squared, color=COLOURS[name], linestyle=":", linewidth=1)
    axis.set_yscale("log")
    floor = min(curves(models[:1], loss, n, "mse")[1].min() for n in NAMES)
    axis.set_ylim(bottom=floor * 1e-4)  # a squared bias may be 0
    size_axis(axis, sizes)


def _line(axis: Array, sizes: list[int], values: np.ndarray, name: str) -> None:
    axis.plot(
        sizes, values, color=COLOURS[name], marker=MARKS[name], markersize=3, linewidth=1, label=NAMES[name]
    )


# -------------------------------- box plots under each confidence score


def boxes(axis: Array, models: list[dict[str, Any]], loss: str) -> None:
    """For every score one box per estimator (5, 25, 50, 75, 95 percent) and a bar at the population value."""
    study = models[0]["scores"]
    scores = [s for s in SCORES if s in study]
    for i, score in enumerate(scores):
        here = study[score][loss]
        for k, name in enumerate(NAMES):
            low, first, middle, third, high = here["estimators"][name]["quantiles"]
            drawn = axis.bxp(
                [{"whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high}],
                positions=[i + 0.16 * (k - 2)], widths=0.13, showfliers=False, patch_artist=True,
                medianprops={"color": "black", "linewidth": 0.8}, manage_ticks=False,
                whiskerprops={"linewidth": 0.5}, capprops={"linewidth": 0.5},
            )  # fmt: skip
            drawn["boxes"][0].set(
                facecolor=COLOURS[name], linewidth=0.4, label=NAMES[name] if i == 0 else None
            )
        axis.hlines(here["population"], i - 0.45, i + 0.45, color="black", linestyle="--", linewidth=0.9)
    axis.set_xticks(range(len(scores)), [SCORES[s] for s in scores], rotation=40, ha="right", fontsize=6)
    axis.tick_params(axis="y", labelsize=7)
    axis.grid(axis="y", alpha=0.25, linewidth=0.5)


# -------------------------------- theory: bias of the weights, the bound of their MSE, its average, rates

WEIGHTS: tuple[Any, ...] = ("harmonic", "log", "loo", "sele")


def weight_bias(sizes: tuple[int, ...], title: str, to: Any) -> None:
    """Bias of each weight given the population rank percentile."""
    figure, axes = grid(len(sizes))
    beta = np.linspace(0, 0.999, 800)
    for axis, n in zip(axes, sizes, strict=True):
        for name in WEIGHTS:
            value = theory.weight_bias(beta, n, estimator=name)
            axis.plot(beta, value, color=COLOURS[name], linewidth=1.2, label=NAMES[name])
        axis.axhline(0, color="black", linewidth=0.6, linestyle="--")
        axis.set(title=f"n = {n}", xlabel=r"$\beta$", ylim=(-2, 0.2))
        axis.grid(alpha=0.25, linewidth=0.5)
    finish(figure, title, axes[0].get_legend_handles_labels(), to)


def surface(title: str, to: Any) -> None:
    """The bound beta / (n (1 - beta) + 1) over n and beta, on a logarithmic colour scale."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
    n, beta = np.arange(2, 1025), np.linspace(0.001, 0.999, 400)
    value = np.asarray(theory.mse_order(beta[:, None], n[None, :]))
    mesh = axis.pcolormesh(n, beta, np.log10(value), shading="auto", cmap="viridis", rasterized=True)
    levels = (-3, -2, -1)
    lines = axis.contour(n, beta, np.log10(value), levels=levels, colors="white", linewidths=0.7)
    # each label where its contour crosses n = 60
    places = [(60, 10.0**v * 61 / (1 + 60 * 10.0**v)) for v in levels]
    axis.clabel(lines, fmt=lambda v: f"$10^{{{v:.0f}}}$", fontsize=9, manual=places)
    axis.set(xscale="log", xlabel="n", ylabel=r"$\beta$")
    figure.colorbar(mesh, label=r"$\log_{10}\ \beta/(n(1-\beta)+1)$")
    finish(figure, title, None, to)


def mean_mse(study: dict[str, Any], title: str, to: Any) -> None:
    """Average MSE of the weights, and the three closed forms of its order."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
    rows = study["weights"]["rows"]
    n = [row["n"] for row in rows]
    for name in ("harmonic", "log"):
        axis.plot(n, [r["mean_mse"][name] for r in rows], MARKS[name], color=COLOURS[name], label=NAMES[name])
    for key, style, label in (
        ("harmonic_over_n", "-", r"$H_n/n$"),
        ("ln_over_n", "--", r"$\ln(n)/n$"),
        ("integral", ":", r"$(n+1)\ln(n+1)/n^2 - 1/n$"),
    ):
        axis.plot(n, [r[key] for r in rows], style, color="black", linewidth=1, label=label)
    axis.set(xscale="log", yscale="log", xlabel="n", ylabel="average MSE of the weights")
    axis.legend(frameon=False, fontsize=9)
    axis.grid(alpha=0.25, linewidth=0.5)
    finish(figure, title, None, to)


def convergence(study: dict[str, Any], title: str, to: Any) -> None:
    """Root mean squared error against n on populations of known AURC, beside the 1/sqrt(n) line."""
    populations = study["convergence"]
    figure, axes = grid(len(populations), width=3.8, height=3.2)
    for axis, (name, found) in zip(axes, populations.items(), strict=True):
        n = np.array(found["sizes"])
        for estimator, errors in found["rmse"].items():
            label = f"{NAMES[estimator]}"
            axis.plot(n, errors, color=COLOURS[estimator], marker=MARKS[estimator], markersize=3, label=label)
        start = found["rmse"]["harmonic"][0]
        axis.plot(n, start * np.sqrt(n[0] / n), "k--", linewidth=0.8, label=r"$\propto n^{-1/2}$")
        slope = found["slope"]
        axis.set(xscale="log", yscale="log", xlabel="n", ylabel="root mean squared error")
        axis.set_title(
            f"{name}: slope harmonic {slope['harmonic']:.3f}, SELE {slope['sele']:.3f}", fontsize=9
        )
        axis.grid(alpha=0.25, linewidth=0.5)
    finish(figure, title, axes[0].get_legend_handles_labels(), to)


def scatter(study: dict[str, Any], title: str, to: Any) -> None:
    """AURC_a against AURC_p for every model, and their difference below."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(8.5, 6.2), layout="constrained")
    for column, (loss, name) in enumerate((("01", "0/1 loss"), ("ce", "CE loss"))):
        forms = [m["forms"][loss] for m in study["models"].values()]
        p, a = (np.array([f[k] for f in forms]) for k in ("p", "a"))
        tests = study["equivalence"][loss]
        _both(axes[:, column], p, a, tests, name)
    finish(figure, title, None, to)


def _both(axes: Array, p: np.ndarray, a: np.ndarray, tests: dict[str, float], name: str) -> None:
    ends = [min(p.min(), a.min()) * 0.8, max(p.max(), a.max()) * 1.2]
    axes[0].plot(ends, ends, color="black", linewidth=0.7)
    axes[0].plot(p, a, "o", markersize=4, color=COLOURS["harmonic"], alpha=0.7)
    axes[0].set(xscale="log", yscale="log", ylabel=r"AURC$_a$")
    axes[0].set_title(
        f"{name}: unpaired p = {tests['unpaired_p']:.4f}, paired p = {tests['paired_p']:.2g}", fontsize=9
    )
    axes[1].plot(p, p - a, "o", markersize=4, color=COLOURS["sele"], alpha=0.7)
    axes[1].set(xscale="log", yscale="log", xlabel=r"AURC$_p$", ylabel=r"AURC$_p$ $-$ AURC$_a$")
    axes[1].set_title(f"largest difference {tests['largest_difference']:.2g}, always positive", fontsize=9)
    for axis in axes:
        axis.grid(alpha=0.25, linewidth=0.5)


# -------------------------------- fine-tuning epoch by epoch

_COLOURS = {**COLOURS, "ce": "#000000", "soft": "#CC79A7", "smooth01": "#7A5195"}
_SHOWN = (("aurc_01", 1000, "0/1 AURC (1e-3)"), ("aurc_ce", 100, "CE AURC (1e-2)"))


def by_epoch(runs: Sequence[dict[str, Any]], title: str, to: Any) -> None:
    """Two panels for each network; means over the seeds that all its objectives have, shaded from the lowest to the
    highest seed.
    """
    tuned = [run for run in runs if run["kind"] == "finetune"]
    networks = sorted({(run["dataset"], run["model"]) for run in tuned})
    starts = {run["name"]: run for run in runs if run["kind"] == "pretrain"}
    figure, axes = grid(2 * max(1, len(networks)))
    if not networks:
        for axis in axes:
            empty(axis, "no finished runs")
    for i, network in enumerate(networks):
        own = with_shared_seeds([run for run in tuned if (run["dataset"], run["model"]) == network])
        seeds = table.counted(len({run["seed"] for run in own}), "seed")
        for axis, (quantity, scale, unit) in zip(axes[2 * i : 2 * i + 2], _SHOWN, strict=True):
            _panel(axis, own, starts, quantity, scale)
            axis.set_title(f"{table.network_name(network)}, {seeds}", fontsize=8)
            axis.set_ylabel(unit, fontsize=8)
    finish(figure, title, axes[0].get_legend_handles_labels(), to)


def with_shared_seeds(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those runs of one network whose seed every objective was run with, so that all lines rest on the same seeds."""
    seeds_by_objective: dict[str, set[int]] = {}
    for run in runs:
        seeds_by_objective.setdefault(run["objective"], set()).add(run["seed"])
    shared_seeds = set.intersection(*seeds_by_objective.values())
    return [run for run in runs if run["seed"] in shared_seeds]


def _panel(
    axis: Array, runs: Sequence[dict[str, Any]], starts: dict[str, Any], quantity: str, scale: float
) -> None:
    for objective in OBJECTIVES:
        paths = [path(run, starts, quantity) for run in runs if run["objective"] == objective]
        if paths:
            values = scale * np.asarray(paths)
            epochs, colour = np.arange(values.shape[1]), _COLOURS[objective]
            axis.plot(epochs, values.mean(axis=0), color=colour, linewidth=1.2, label=table.NAMES[objective])
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


# -------------------------------- each figure of the manifest

_PANELS: dict[str, Callable[[Array, list[dict[str, Any]], str], None]] = {
    "mean": estimates,
    "bias": bias,
    "mae": mae,
    "mse": mse,
    "scores": boxes,
}
_UNIT = {"mean": "AURC", "bias": "bias", "mae": "MAE", "mse": "MSE", "scores": "AURC"}


def draw(entry: Entry, study: dict[str, Any], folder: Path) -> Path:
    """One figure; returns the file."""
    to = folder / entry.file
    if entry.shows == "weights":
        weight_bias(entry.sizes, entry.title, to)
    elif entry.shows == "surface":
        surface(entry.title, to)
    elif entry.shows == "mean mse":
        mean_mse(study, entry.title, to)
    elif entry.shows == "convergence":
        convergence(study, entry.title, to)
    elif entry.shows == "tuning":
        by_epoch(load_runs(), entry.title, to)
    elif entry.shows == "equivalence":
        scatter(study, entry.title, to)
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
