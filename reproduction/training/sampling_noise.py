"""How far a difference between objectives could be luck of the test set: paired on the same test samples.

Seeds say how much training varies, with few of them at little certainty; the test samples say how much of a
difference could be due to which 10,000 images were drawn. The two are different questions; the table shows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import abstain
from abstain.paper.training.store import Store

_Z = 1.959963984540054  # 97.5% point of the normal distribution


def paired_on_test(store: Store, runs: Sequence[dict[str, Any]], labels: np.ndarray) -> list[dict[str, Any]]:
    """Mean difference to CE over shared seeds, with the interval over test samples, for every objective.

    The influence of a sample on the mean difference is the mean of its influences, so one interval holds for all
    seeds together.
    """
    tuned = [run for run in runs if run["kind"] == "finetune" and run["finished"]]
    rows = []
    for dataset, model in sorted({(r["dataset"], r["model"]) for r in tuned}):
        own = {
            (r["objective"], r["seed"]): r["name"]
            for r in tuned
            if (r["dataset"], r["model"]) == (dataset, model)
        }
        pulls = {key: _pulls(store, name, labels) for key, name in own.items()}
        for objective in sorted({o for o, _ in own} - {"ce"}):
            seeds = [s for o, s in own if o == objective and ("ce", s) in own]
            if seeds:
                shared = {"dataset": dataset, "model": model, "objective": objective, "seeds": sorted(seeds)}
                rows.append({**shared, **_differences(pulls, objective, seeds)})
    return rows


def _pulls(store: Store, name: str, labels: np.ndarray) -> dict[str, Any]:
    with np.load(store.output(name)) as file:
        logits = file["logits"].astype(np.float32)
    confidence = abstain.scores.max_softmax(logits)
    losses = {
        "aurc_01": np.asarray(abstain.losses.zero_one(logits, labels), dtype=np.float64),
        "aurc_ce": abstain.losses.cross_entropy(logits, labels),
    }
    return {key: abstain.inference.influence("aurc", loss, confidence) for key, loss in losses.items()}


def _differences(
    pulls: dict[Any, dict[str, Any]], objective: str, seeds: Sequence[int]
) -> dict[str, list[float]]:
    found = {}
    for quantity in ("aurc_01", "aurc_ce"):
        a = [pulls[objective, s][quantity] for s in seeds]
        b = [pulls["ce", s][quantity] for s in seeds]
        mean = float(np.mean([x.estimate - y.estimate for x, y in zip(a, b, strict=True)]))
        each = np.mean([x.values - y.values for x, y in zip(a, b, strict=True)], axis=0)
        half = _Z * float(np.sqrt(np.sum(each**2))) / len(each)
        found[quantity] = [mean, mean - half, mean + half]
    return found
