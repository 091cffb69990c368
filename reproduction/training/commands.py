"""Training from the command line. Each function takes parsed arguments and returns an exit code."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import Any

from abstain.paper.training.recipe import OBJECTIVES


def add_to(commands: Any) -> None:
    """Put the training commands under `python -m abstain.paper`."""
    tune: ArgumentParser = commands.add_parser(
        "finetune", help="pre-train and fine-tune; resumes where it stopped"
    )
    tune.add_argument("--model", default="resnet18", help="comma-separated network names")
    tune.add_argument("--dataset", default="cifar10", help="cifar10 or cifar100")
    tune.add_argument("--loss", default=",".join(OBJECTIVES), help="comma-separated objectives")
    tune.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0")
    tune.add_argument("--epochs", type=int, default=30)
    tune.add_argument("--pretrain-epochs", type=int, default=50)
    tune.add_argument("--together", type=int, default=1, help="runs trained side by side")
    tune.add_argument("--limit", type=int, default=None, help="only the first N training and N test images")
    _shared(tune)
    tune.set_defaults(run=finetune)
    plan: ArgumentParser = commands.add_parser("plan", help="the whole training plan for one H200")
    plan.add_argument("--choice", default=None, help="file written by abstain.paper.training.bench")
    plan.add_argument(
        "--have", default=None, help="folder of result files of runs that need not be run again"
    )
    _shared(plan)
    plan.set_defaults(run=whole_plan)
    packing: ArgumentParser = commands.add_parser("pack", help="results and outputs into few small archives")
    packing.add_argument("--folder", required=True)
    packing.add_argument("--to", required=True)
    packing.set_defaults(run=pack_up)
    taking: ArgumentParser = commands.add_parser(
        "adopt", help="take packed runs into the package's own results"
    )
    taking.add_argument("--archives", required=True, help="folder with what `pack` wrote")
    taking.add_argument(
        "--data", default=None, help="data folder with the test labels; default: ABSTAIN_DATA"
    )
    taking.set_defaults(run=adopt_runs)


def _shared(parser: ArgumentParser) -> None:
    parser.add_argument("--data", default=None, help="folder of images; default: the variable ABSTAIN_DATA")
    parser.add_argument(
        "--folder", default="out/paper-runs", help="where checkpoints, results and outputs go"
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--mode", default="plain", choices=("plain", "graph", "branches"))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--checkpoint-every", type=int, default=1, help="epochs between checkpoints")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no epoch after this long")


def _open(given: Namespace, mode: str, compiled: bool) -> Any:
    from abstain.paper.datasets import load_images
    from abstain.paper.training.sessions import open_session

    images = load_images(getattr(given, "dataset", "cifar10"), given.data)
    if getattr(given, "limit", None):
        images = images.head(given.limit, given.limit)
    return open_session(
        images, given.folder, device=given.device, mode=mode, compiled=compiled,
        checkpoint_every=given.checkpoint_every, deadline=time.monotonic() + 60 * given.minutes,
        report=partial(print, flush=True),
    )  # fmt: skip


def finetune(given: Namespace) -> int:
    """Pre-train each network if need be, then fine-tune it with every objective and seed."""
    from abstain.paper.training.sessions import finetune_specs, pretrain_spec, run_plan, waves

    plan = []
    for model in given.model.split(","):
        plan.append([pretrain_spec(model, given.dataset, 0, given.pretrain_epochs)])
        specs = finetune_specs(model, given.dataset, given.loss.split(","), range(given.seeds), given.epochs)
        plan += waves(specs, given.together)
    return 0 if run_plan(plan, _open(given, given.mode, given.compile)) else 1


def whole_plan(given: Namespace) -> int:
    """Everything in the order of `h200_plan`, as far as the time goes."""
    from abstain.paper.training.sessions import h200_plan, run_plan, without

    chosen = json.loads(Path(given.choice).read_text()) if given.choice else {}
    setting = _open(given, chosen.get("mode", given.mode), chosen.get("compiled", given.compile))
    fallback = {"branches": ("graph", "plain"), "graph": ("plain",), "plain": ()}[setting.mode]
    have = {path.stem for path in Path(given.have).glob("*.json")} if given.have else set()
    return 0 if run_plan(without(h200_plan(), have), setting, fallback) else 1


def pack_up(given: Namespace) -> int:
    """Archives for carrying away."""
    from abstain.paper.training.pack import pack

    for path in pack(given.folder, given.to):
        print(path, path.stat().st_size)
    return 0


def adopt_runs(given: Namespace) -> int:
    """Results and kept outputs into the package, the demo's data beside them."""
    import tempfile
    from importlib.resources import files

    from abstain.paper.datasets import load_images
    from abstain.paper.training.adopt import adopt

    labels = load_images("cifar10", given.data).test_labels
    with tempfile.TemporaryDirectory() as scratch:
        demo = Path(str(files("abstain"))) / "data"
        print(adopt(Path(given.archives), labels, Path(scratch), demo=demo), "runs")
    return 0
