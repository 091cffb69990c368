"""The six confidence scores of the paper at batch size 128, in both readings of norm and entropy."""

from __future__ import annotations

from typing import Any

import numpy as np

import abstain
from abstain.paper.datasets.outputs import LOSSES, Outputs
from abstain.paper.study.finite import ESTIMATORS, batch_estimates, batches, summary

# the paper's names; "as published" marks the reading of its code where that differs from the text
SCORES = {
    "max_softmax": "MSP",
    "negative_entropy": "Negative entropy",
    "max_logit": "MaxLogit",
    "softmax_margin": "Softmax margin",
    "logit_norm": "Logit l2 norm",
    "normalised_max_logit": "MaxLogit / l2 norm",
    "negative_gini": "Negative Gini",
    "clamped_logit_entropy": "Entropy of logits (as published)",
    "probability_norm": "Softmax l2 norm (as published)",
}
NEEDS_LOGITS = ("max_logit", "logit_norm", "normalised_max_logit", "clamped_logit_entropy")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def score_study(outputs: Outputs, *, rng: int | np.random.Generator, size: int = 128) -> dict[str, Any]:
    """Batch estimates under every score and both losses, with quantiles for box plots.

    Returns
    -------
    {score: {loss: {"population": value, "estimators": {name: {summary..., "quantiles": [...]}}}}}
    """
    generator = np.random.default_rng(rng)
    index = batches(len(outputs), size, generator)
    losses = {kind: outputs.loss(kind) for kind in LOSSES}
    study: dict[str, Any] = {}
    for score in SCORES:
        if outputs.logits is None and score in NEEDS_LOGITS:
            continue
        confidence = outputs.score(score)
        study[score] = {kind: _one(loss, confidence, index) for kind, loss in losses.items()}
    return study


def _one(loss: np.ndarray, confidence: np.ndarray, index: np.ndarray) -> dict[str, Any]:
    truth = abstain.aurc(loss, confidence)
    estimators = {
        name: {**summary(values, truth), "quantiles": np.quantile(values, QUANTILES).tolist()}
        for name, values in batch_estimates(loss[index], confidence[index], ESTIMATORS).items()
    }
    return {"population": truth, "estimators": estimators}
