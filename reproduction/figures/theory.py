"""Figures of the theory: bias of the weights, the bound of their MSE, its average, and measured convergence."""

from __future__ import annotations

from typing import Any

import numpy as np

from abstain import theory
from abstain._arrays import Array
from abstain.paper.figures.style import COLOURS, MARKS, NAMES, finish, grid, pyplot

WEIGHTS = ("harmonic", "log", "loo", "sele")


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
