"""All experiments over all models, as one plain dictionary that figures, tables and claims are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import abstain
from abstain.paper.datasets.outputs import LOSSES, Outputs
from abstain.paper.study.convergence import convergence_study, weight_study
from abstain.paper.study.equivalence import equivalence_study, expected_gap, two_forms
from abstain.paper.study.finite import finite_study
from abstain.paper.study.scores import NEEDS_LOGITS, SCORES, score_study

FAMILIES = ("cifar10", "cifar100", "imagenet5k", "amazon2023", "digits")
WITH_SCORES = ("amazon2023", "imagenet5k", "digits")  # where the paper draws box plots
SEED = 20250713


def study_all(
    models: Sequence[Outputs], *, seed: int = SEED, divisions: int = 4, report: Callable[[str], None] = print
) -> dict[str, Any]:
    """Every experiment on every model; `report` is told what is being done."""
    results: dict[str, Any] = {}
    for outputs in models:
        report(outputs.name)
        results[outputs.name] = study_one(outputs, seed, divisions)
    report("theory and convergence")
    size = max(len(outputs) for outputs in models)
    return shortened({
        "seed": seed,
        "divisions": divisions,
        "models": results,
        "equivalence": {
            **equivalence_study({name: r["forms"] for name, r in results.items()}),
            "expected_gap": {"n": size, "weight": expected_gap(size)},
        },
        "convergence": convergence_study(rng=seed),
        "weights": weight_study(),
    })  # fmt: skip


def study_one(outputs: Outputs, seed: int, divisions: int) -> dict[str, Any]:
    """Every experiment on one model."""
    result = {
        "n": len(outputs),
        "accuracy": 1 - float(np.mean(outputs.loss("01"))),
        "finite": finite_study(outputs, rng=seed, divisions=divisions),
        "forms": two_forms(outputs),
        "score_aurc": _by_score(outputs),
    }
    if outputs.dataset in WITH_SCORES:
        result["scores"] = score_study(outputs, rng=seed)
    return result


def _by_score(outputs: Outputs) -> dict[str, dict[str, float]]:
    table = {}
    for score in SCORES:
        if outputs.logits is not None or score not in NEEDS_LOGITS:
            confidence = outputs.score(score)
            table[score] = {kind: float(abstain.aurc(outputs.loss(kind), confidence)) for kind in LOSSES}
    return table


def shortened(value: Any, digits: int = 7) -> Any:
    """Plain JSON values with floats cut to a few significant digits and string keys."""
    if isinstance(value, dict):
        return {str(k): shortened(v, digits) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(v, digits) for v in value]
    if isinstance(value, np.integer):
        return int(value)
    return float(f"{float(value):.{digits}g}") if isinstance(value, float | np.floating) else value
