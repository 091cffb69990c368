"""Take runs that came back from a training machine into the package: results, and the outputs worth keeping."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from abstain.paper.finetuned import RESULTS
from abstain.paper.study.everything import shortened
from abstain.paper.training.pack import unpack
from abstain.paper.training.sampling_noise import paired_on_test
from abstain.paper.training.store import Store

# networks whose five seeds the MAE figures average over, and the two that the demo shows
FOR_MAE = ("vgg16_bn", "preresnet20")
DEMO = {"ce": "cifar10_resnet18_ce", "harmonic": "cifar10_resnet18_aurc"}


def adopt(
    archives: Path, labels: np.ndarray, scratch: Path, results: Path = RESULTS, demo: Path | None = None
) -> int:
    """Unpack, keep every result as compact JSON, and put labelled outputs in place; the number of runs."""
    unpack(archives, scratch)
    store = Store(scratch)
    for part in ("runs", "outputs"):
        shutil.rmtree(results / part, ignore_errors=True)
        (results / part).mkdir(parents=True)
    runs = [json.loads(path.read_text()) for path in sorted((scratch / "results").glob("*.json"))]
    for run in runs:
        (results / "runs" / f"{run['name']}.json").write_text(
            json.dumps(_rounded(run), separators=(",", ":")) + "\n"
        )
        if run["finished"] and run["kind"] == "pretrain" and run["model"] in FOR_MAE:
            name = f"{run['dataset']}__{run['model']}__trained-seed{run['seed']}"
            _keep(store, run["name"], labels, results / "outputs" / f"{name}.npz")
        if demo and run["finished"] and _is_demo(run):
            _keep(store, run["name"], labels, demo / f"{DEMO[run['objective']]}.npz")
    rows = shortened(paired_on_test(store, runs, labels))
    (results / "paired.json").write_text(json.dumps(rows, indent=1) + "\n")
    return len(runs)


def _is_demo(run: dict[str, object]) -> bool:
    return (
        run["kind"] == "finetune"
        and run["model"] == "resnet18"
        and run["seed"] == 0
        and run["objective"] in DEMO
    )


def _keep(store: Store, run: str, labels: np.ndarray, to: Path) -> None:
    with np.load(store.output(run)) as file:
        logits = file["logits"]
    to.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(to, logits=logits, labels=labels.astype(np.uint8), run=np.array(run))


def _rounded(run: dict[str, object]) -> dict[str, object]:
    """Per-epoch numbers to seven digits; `from_float16` stays exact, `verify` compares with it."""
    log = [{k: float(f"{v:.7g}") if isinstance(v, float) else v for k, v in e.items()} for e in run["log"]]  # type: ignore[attr-defined]
    return {**run, "log": log}
