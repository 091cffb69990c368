"""How estimators behave on small batches of one model's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import abstain
from abstain.paper.datasets.outputs import LOSSES, Outputs

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
ESTIMATORS = ("harmonic", "log", "sele", "2sele", "loo")


def batches(n: int, size: int, rng: np.random.Generator, divisions: int = 1) -> np.ndarray:
    """Random divisions of n samples into batches, as indices (batches, size); what is left over stays out."""
    orders = [rng.permutation(n)[: n // size * size].reshape(-1, size) for _ in range(divisions)]
    return np.concatenate(orders)


def batch_estimates(
    loss: np.ndarray, confidence: np.ndarray, estimators: Sequence[str] = ESTIMATORS
) -> dict[str, np.ndarray]:
    """Every estimator on every batch: (batches, n) in, one value per batch out."""
    twice = {"2sele": "sele"}
    values: dict[str, np.ndarray] = {}
    for name in estimators:
        base = twice.get(name, name)
        if base not in values:
            values[base] = np.asarray(abstain.aurc(loss, confidence, estimator=base))
        if name in twice:
            values[name] = 2 * values[base]
    return {name: values[name] for name in estimators}


def summary(values: np.ndarray, truth: float) -> dict[str, float]:
    """Mean and spread of batch estimates, and their errors against the population value.

    `mse` is the mean of squared errors, spread included; the paper's code plots the square of `bias` under
    that name.
    """
    error = values - truth
    bias = float(np.mean(error))
    return {
        "mean": float(np.mean(values)),
        "std": float(np.std(values)),
        "bias": bias,
        "mse": float(np.mean(error**2)),
        "mae": float(np.mean(np.abs(error))),
    }


def finite_study(
    outputs: Outputs,
    *,
    rng: int | np.random.Generator,
    sizes: Sequence[int] = SIZES,
    estimators: Sequence[str] = ESTIMATORS,
    divisions: int = 1,
) -> dict[str, Any]:
    """For both losses and every batch size: mean, spread, bias, MSE and MAE of every estimator.

    The population value is the harmonic estimator on the whole test set, as in the paper, which divides the
    test set once; more `divisions` make the means steadier.

    Returns
    -------
    {loss: {"population": value, "sizes": {n: {estimator: summary}}}}
    """
    generator = np.random.default_rng(rng)
    confidence = outputs.score()
    losses = {kind: outputs.loss(kind) for kind in LOSSES}
    study: dict[str, Any] = {
        kind: {"population": abstain.aurc(loss, confidence), "sizes": {}} for kind, loss in losses.items()
    }
    for size in (s for s in sizes if s <= len(outputs)):
        index = batches(len(outputs), size, generator, divisions)
        picked = confidence[index]
        for kind, loss in losses.items():
            values = batch_estimates(loss[index], picked, estimators)
            truth = study[kind]["population"]
            study[kind]["sizes"][size] = {name: summary(v, truth) for name, v in values.items()}
    return study
