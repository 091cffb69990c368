"""Runs inside a package's own environment: its numbers on the given samples, and its speed beside ours, as JSON.

    python side_by_side_worker.py PACKAGE SAMPLES.npz

One function per package; each gives rows (what, name in our package, their callable, our callable).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import abstain

Call = Callable[[np.ndarray, np.ndarray], float]
SPEED_N = 1_000_000


def mapie() -> tuple[str, dict[str, tuple[Call, Call]]]:
    from mapie.metrics.uncertainty import auarc

    theirs = lambda loss, g: 1 - auarc(1 - loss, g)  # noqa: E731
    return "", {"mapie_one_minus_auarc": (theirs, abstain.compat.mapie_one_minus_auarc)}


def torch_uncertainty() -> tuple[str, dict[str, tuple[Call, Call]]]:
    import torch

    try:
        from torch_uncertainty.metrics import AUGRC, AURC

        note = ""
    except ImportError as reason:  # the package wants torchvision; the file of the metric does not
        root = importlib.util.find_spec("torch_uncertainty").submodule_search_locations[0]
        spec = importlib.util.spec_from_file_location(
            "risk_coverage", f"{root}/metrics/classification/risk_coverage.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        AURC, AUGRC, note = module.AURC, module.AUGRC, f"the file of its metric alone ({reason})"

    def run(kind: Any) -> Call:
        def call(loss: np.ndarray, g: np.ndarray) -> float:
            metric = kind()
            p = torch.as_tensor(g)
            metric.update(torch.stack([p, 1 - p], -1), torch.as_tensor(loss).long())
            return float(metric.compute())

        return call

    return note, {
        "torch_uncertainty_aurc": (run(AURC), abstain.compat.torch_uncertainty_aurc),
        "torch_uncertainty_augrc": (run(AUGRC), abstain.compat.torch_uncertainty_augrc),
    }


def scikit_learn() -> tuple[str, dict[str, tuple[Call, Call]]]:
    from sklearn.metrics import roc_auc_score

    return "", {"auroc": (lambda loss, g: roc_auc_score(1 - loss, g), abstain.auroc)}


def torchmetrics() -> tuple[str, dict[str, tuple[Call, Call]]]:
    import torch
    from torchmetrics.functional.classification import binary_auroc

    def theirs(loss: np.ndarray, g: np.ndarray) -> float:
        return float(binary_auroc(torch.as_tensor(g), torch.as_tensor(1 - loss).long()))

    return "", {"auroc": (theirs, abstain.auroc)}


PACKAGES = {
    "mapie": mapie,
    "torch-uncertainty": torch_uncertainty,
    "scikit-learn": scikit_learn,
    "torchmetrics": torchmetrics,
}
OURS = {
    "mapie_one_minus_auarc": abstain.aurc,
    "torch_uncertainty_aurc": abstain.aurc,
    "torch_uncertainty_augrc": abstain.augrc,
    "auroc": abstain.auroc,
}


def race(first: Call, second: Call, repeats: int = 5) -> tuple[float, float]:
    """Median CPU seconds of each, turn by turn, so that a busy machine slows both."""
    rng = np.random.default_rng(0)
    g = (0.5 + rng.random(SPEED_N) / 2).astype(np.float32)
    loss = (rng.random(SPEED_N) < 0.6 * (1 - g)).astype(np.int64)
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        for call, seconds in zip((first, second), times):
            start = time.process_time()
            call(loss, g)
            if turn:  # the first turn warms up
                seconds.append(time.process_time() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    package, path = sys.argv[1:]
    note, pairs = PACKAGES[package]()
    with np.load(path) as data:
        names = sorted({key.split("/")[0] for key in data})
        samples = {name: (data[f"{name}/loss"], data[f"{name}/confidence"]) for name in names}
    values = {
        what: {name: [float(theirs(*s)), float(ours(*s))] for name, s in samples.items()}
        for what, (theirs, ours) in pairs.items()
    }
    speed = {what: race(theirs, OURS[what]) for what, (theirs, _) in pairs.items()}
    version = importlib.metadata.version(package)
    print(json.dumps({"version": version, "note": note, "values": values, "speed": speed}))


if __name__ == "__main__":
    main()
