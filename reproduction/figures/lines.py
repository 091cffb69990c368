"""Panels against the batch size: estimates, bias, MAE, MSE."""

from __future__ import annotations

from typing import Any

import numpy as np

from abstain._arrays import Array
from abstain.paper.figures.style import COLOURS, MARKS, NAMES, size_axis

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
