"""Time a training step in each mode, and remember the fastest. `python -m abstain.paper.training.bench --help`"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abstain.paper.training.loop import Setting
from abstain.paper.training.recipe import OBJECTIVES, Recipe, RunSpec
from abstain.paper.training.run import Run
from abstain.paper.training.stepper import make_step

# the safest first: a capture that fails may spoil what comes after it
WAYS = (("graph", False), ("branches", False), ("branches", True))


def seconds_per_step(
    setting: Setting, model: str, mode: str, compiled: bool, steps: int = 30
) -> dict[str, Any]:
    """Seconds of one step of all objectives together, and of getting ready for it."""
    import torch

    from abstain.paper.training.loop import _begin_epoch, _groups

    began = time.monotonic()
    specs = [RunSpec(model, "cifar10", name, 0, Recipe()) for name in OBJECTIVES]
    runs = [Run(spec, setting.classes, setting.pixels.device, compiled=compiled) for spec in specs]
    groups = _groups(runs, setting.pixels)
    _begin_epoch(groups, 0)
    step = make_step(groups, 128, mode)
    step()
    _wait(torch)
    ready = time.monotonic() - began
    began = time.monotonic()
    for _ in range(steps):
        step()
    _wait(torch)
    each = (time.monotonic() - began) / steps
    losses = [float(run.loss_sum) / (steps + 1) for run in runs]
    return {
        "model": model, "mode": mode, "compiled": compiled, "ready": ready, "step": each,
        "epoch_per_run": each * 390 / len(runs), "losses": losses,
    }  # fmt: skip


def _wait(torch: Any) -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def choose(
    setting: Setting, models: Sequence[str], ways: Sequence[tuple[str, bool]], to: Path
) -> dict[str, Any]:
    """Time every way on the first model and write the fastest to `to`; compiling must gain a tenth to be chosen."""
    rows = []
    for model in models:
        for mode, compiled in ways:
            try:
                rows.append(seconds_per_step(setting, model, mode, compiled))
                print(json.dumps(rows[-1]), flush=True)
            except Exception:  # a way that does not work here is simply not chosen
                print(f"{model} {mode} compiled={compiled} failed\n{traceback.format_exc()}", flush=True)
    own = [row for row in rows if row["model"] == models[0]]
    best = min(own, key=lambda row: row["step"] * (1.1 if row["compiled"] else 1.0), default=None)
    chosen = (
        {"mode": best["mode"], "compiled": best["compiled"]} if best else {"mode": "plain", "compiled": False}
    )
    to.write_text(json.dumps({**chosen, "timed": rows}, indent=1) + "\n")
    return chosen


def main() -> None:
    """Command line."""
    import argparse

    from abstain.paper.datasets.images import packed_cifar10
    from abstain.paper.training.sessions import open_session

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with images/ and train/")
    parser.add_argument("--choice", required=True, help="file to write the fastest way to")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", default="resnet18,vgg16_bn")
    parser.add_argument("--ways", default="all", choices=("all", "plain"))
    given = parser.parse_args()
    images = packed_cifar10(Path(given.data))
    setting = open_session(images, str(Path(given.choice).parent / "bench-runs"), device=given.device)
    ways = WAYS if given.ways == "all" else (("plain", False),)
    print(choose(setting, given.models.split(","), ways, Path(given.choice)))


if __name__ == "__main__":
    main()
