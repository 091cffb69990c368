"""How fast the estimators converge, where the population AURC is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import abstain
from abstain import theory

RATE_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RATE_ESTIMATORS = ("harmonic", "log", "loo", "sele")


def convergence_study(
    *, rng: int | np.random.Generator, sizes: Sequence[int] = RATE_SIZES, draws: int = 2**21
) -> dict[str, Any]:
    """Root mean squared error at each sample size, on the known populations, and its slope on log-log axes.

    About `draws` samples are drawn for every size, so that all points are equally well known.
    """
    generator = np.random.default_rng(rng)
    study: dict[str, Any] = {}
    for name in ("quadratic", "root", "unrelated"):
        population = theory.populations.NAMED[name]
        errors: dict[str, list[float]] = {e: [] for e in RATE_ESTIMATORS}
        for n in sizes:
            loss, confidence = population.sample((max(draws // n, 64), n), rng=generator)
            for estimator in RATE_ESTIMATORS:
                values = np.asarray(abstain.aurc(loss, confidence, estimator=estimator))
                errors[estimator].append(float(np.sqrt(np.mean((values - population.aurc) ** 2))))
        slopes = {e: slope(sizes[3:], v[3:]) for e, v in errors.items()}
        study[name] = {"aurc": population.aurc, "sizes": list(sizes), "rmse": errors, "slope": slopes}
    return study


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Least-squares slope of log(value) against log(size): -0.5 is the rate of a mean."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def weight_study(sizes: Sequence[int] = (8, 16, 32, 64, 128, 256, 512, 1024)) -> dict[str, Any]:
    """Average MSE of the weights against H_n/n, the paper's integral and (ln n)/n; crossings of the bias."""
    beta = np.linspace(0, 1, 2001)[:-1]
    rows = []
    for n in sizes:
        bias = {
            e: np.asarray(theory.weight_bias(beta, n, estimator=e))
            for e in ("harmonic", "log", "loo", "sele")
        }
        rows.append({
            "n": n,
            "mean_mse": {e: theory.mean_weight_mse(n, estimator=e) for e in ("harmonic", "log")},
            "harmonic_over_n": float(np.sum(1 / np.arange(1, n + 1)) / n),
            "integral": theory.mean_mse_order(n),
            "ln_over_n": float(np.log(n) / n),
            "mean_absolute_bias": {e: float(np.mean(np.abs(b))) for e, b in bias.items()},
            "bias_at_0": {e: float(b[0]) for e, b in bias.items()},
            "bias_near_1": {e: float(b[-1]) for e, b in bias.items()},
        })  # fmt: skip
    return {"rows": rows}
