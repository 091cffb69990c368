"""Take runs that came back from a training machine into the package: results, and the outputs worth keeping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    """Unpack, keep every result as compact JSON, and put labelled outputs in place; the number of runs.

    What is there already stays, unless a run of the same name came back. Differences over test samples need the
    outputs of all seeds of a network, so the archives must hold those of its earlier seeds too.
    """
    unpack(archives, scratch)
    store = Store(scratch)
    for part in ("runs", "outputs"):
        (results / part).mkdir(parents=True, exist_ok=True)
    runs = [json.loads(path.read_text()) for path in sorted((scratch / "results").glob("*.json"))]
    for run in runs:
        (results / "runs" / f"{run['name']}.json").write_text(
            json.dumps(_rounded(run), separators=(",", ":")) + "\n"
        )
        if run["finished"] and run["kind"] == "pretrain" and run["model"] in FOR_MAE and run["seed"] < 5:
            name = f"{run['dataset']}__{run['model']}__trained-seed{run['seed']}"
            _keep(store, run["name"], labels, results / "outputs" / f"{name}.npz")
        if demo and run["finished"] and _is_demo(run):
            _keep(store, run["name"], labels, demo / f"{DEMO[run['objective']]}.npz")
    _renew(results / "paired.json", shortened(paired_on_test(store, runs, labels)))
    return len(runs)


def _renew(path: Path, rows: list[dict[str, Any]]) -> None:
    """Put rows in the place of those for the same network and objective."""

    def key(row: dict[str, Any]) -> tuple[str, ...]:
        return row["dataset"], row["model"], row["objective"]

    old = json.loads(path.read_text()) if path.is_file() else []
    both = {key(row): row for row in (*old, *rows)}
    path.write_text(json.dumps([both[k] for k in sorted(both)], indent=1) + "\n")


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
