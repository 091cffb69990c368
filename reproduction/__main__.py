"""`python -m reproduction COMMAND`: reproduce the paper, whole or in parts.

Each command is a function that takes parsed arguments and returns an exit code; it imports what it needs, so that
`--help` costs nothing.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from reproduction.recipe import OBJECTIVES

# -------------------------------- without training


def _add_evaluation(commands: Any) -> None:
    for name, function, help_ in (
        ("all", everything, "study, figures, tables and claims, in a few minutes"),
        ("study", study, "every experiment on every model, as numbers"),
        ("figures", figures, "figures and tables from a study"),
        ("table", table, "the fine-tuning table from the runs that exist"),
        ("tuned", print_tuned, "what recipes do to the AURC of a finished network, from the runs that exist"),
        ("claims", ledger, "each claim of the paper and our verdict"),
        ("page", write_page, "the page with claims, table and manifest"),
        ("manifest", print_manifest, "which file shows which figure or table"),
        ("verify", verify, "recompute AURC from the test samples that come with the repository"),
        ("text", text, "outputs of a head on the packaged sentence encoder, for review texts"),
        ("imagenet", imagenet, "outputs of a timm network on an ImageNet validation folder"),
    ):
        parser: ArgumentParser = commands.add_parser(name, help=help_)
        parser.set_defaults(run=function)
        if name in ("all", "study"):
            parser.add_argument(
                "--data", default=None, help="data folder; default: ABSTAIN_DATA, else digits"
            )
        if name in ("all", "figures"):
            parser.add_argument("--out", type=Path, default=Path("out/paper"))
        if name in ("study", "page"):
            parser.add_argument("--to", type=Path, required=True, help="file to write")
        if name in ("figures", "claims", "page"):
            parser.add_argument("--study", type=Path, default=None, help="default: the one that comes along")
        if name == "text":
            _text_options(parser)
        if name == "imagenet":
            _imagenet_options(parser)
        if name == "table":
            parser.add_argument(
                "--runs", type=Path, default=None, help="folder of runs; default: those that come along"
            )
        if name == "tuned":
            parser.add_argument("--folder", type=Path, default=None, help="as written by `adopt --tuned`")
            parser.add_argument("--docs", action="store_true", help="the part of docs/train.md instead")


def _text_options(parser: ArgumentParser) -> None:
    parser.add_argument("--train", type=Path, required=True, help="csv (or csv.xz) with stars and text")
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--head", choices=("linear", "mlp"), default="linear")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None, help="only the first N texts of each")
    parser.add_argument(
        "--to", type=Path, required=True, help="npz to write, named dataset__model__source.npz"
    )


def _imagenet_options(parser: ArgumentParser) -> None:
    parser.add_argument("--model", default="ViT-Small", help="the paper's name or timm's own")
    parser.add_argument("--images", type=Path, required=True, help="folder with one sub-folder per class")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--to", type=Path, required=True, help="npz to write, named dataset__model__source.npz"
    )


def _study(given: Namespace) -> Any:
    from reproduction.runs import STUDY, load_study

    return load_study(given.study or STUDY)


def everything(given: Namespace) -> int:
    """Regenerate all that needs no training."""
    from reproduction.reproduce import make_all

    judged = make_all(given.data, given.out)
    _print_verdicts(judged)
    print(f"\nfigures, tables and paper.md are in {given.out}")
    return 0


def study(given: Namespace) -> int:
    """Numbers only."""
    from reproduction.reproduce import make_study

    make_study(given.data, given.to)
    return 0


def figures(given: Namespace) -> int:
    """Pictures only."""
    from reproduction.reproduce import make_figures

    for path in make_figures(_study(given), given.out):
        print(path)
    return 0


def table(given: Namespace) -> int:
    """The fine-tuning table."""
    from reproduction.page import finetune_section
    from reproduction.runs import load_runs

    print(finetune_section(load_runs(given.runs) if given.runs else load_runs()))
    return 0


def print_tuned(given: Namespace) -> int:
    """The tables of tuned networks."""
    from reproduction.runs import TUNING
    from reproduction.tuned import summary, tables

    print((summary if given.docs else tables)(given.folder or TUNING), end="")
    return 0


def ledger(given: Namespace) -> int:
    """Verdicts."""
    from reproduction.claims import LEDGER, judge
    from reproduction.claims.ledger import Evidence
    from reproduction.runs import load_paired, load_runs

    _print_verdicts(judge(LEDGER, Evidence(_study(given), load_runs(), load_paired())))
    return 0


def _print_verdicts(judged: Any) -> None:
    for j in judged:
        verdict = (
            {"agrees": "slip confirmed", "differs": "slip not seen"}.get(j.verdict) if j.claim.slip else None
        )
        print(f"{verdict or j.verdict:>21}  {j.claim.statement}  [{j.number}]")


def write_page(given: Namespace) -> int:
    """The page."""
    from reproduction.page import page
    from reproduction.runs import load_runs

    given.to.write_text(page(_study(given), load_runs()))
    return 0


def print_manifest(given: Namespace) -> int:
    """The manifest."""
    from reproduction.manifest import as_markdown

    print(as_markdown())
    return 0


def verify(given: Namespace) -> int:
    """Recompute; exit code 1 if any number differs."""
    from reproduction.runs import verify as check

    checked = check()
    for c in checked:
        print(
            f"{'ok ' if c.good else 'BAD'} {c.run}: accuracy {c.numbers['accuracy']:.4f}, 0/1 AURC "
            f"{c.numbers['aurc_01']:.6f} (largest gap {c.gap:.1e})"
        )
    return 0 if checked and all(c.good for c in checked) else 1


def text(given: Namespace) -> int:
    """Embed reviews, fit a head, keep its outputs."""
    from reproduction.outputs import embed, read_reviews, text_outputs
    from reproduction.reproduce import progress

    parts = []
    with progress("texts") as report:
        for path in (given.train, given.test):
            texts, labels = read_reviews(path)
            parts.append((embed(texts[: given.limit], report=report), labels[: given.limit]))
    return _keep(text_outputs(*parts, head=given.head, seed=given.seed), given.to)


def imagenet(given: Namespace) -> int:
    """Run a network over a folder, keep its outputs."""
    from reproduction.outputs import imagenet_outputs
    from reproduction.reproduce import progress

    with progress("images") as report:
        outputs = imagenet_outputs(given.model, given.images, device=given.device, report=report)
    return _keep(outputs, given.to)


def _keep(outputs: Any, to: Path) -> int:
    import numpy as np

    to.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(to, logits=outputs.logits, labels=outputs.labels)
    print(f"{outputs}: accuracy {1 - outputs.loss('01').mean():.4f}, written to {to}")
    return 0


# -------------------------------- training


def _add_training(commands: Any) -> None:
    fitting: ArgumentParser = commands.add_parser(
        "finetune", help="pre-train and fine-tune; resumes where it stopped"
    )
    fitting.add_argument("--model", default="resnet18", help="comma-separated network names")
    fitting.add_argument(
        "--dataset", default="cifar10", help="cifar10, cifar100, or a folder of images by name"
    )
    fitting.add_argument("--loss", default=",".join(OBJECTIVES), help="comma-separated objectives")
    fitting.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0")
    fitting.add_argument("--epochs", type=int, default=30)
    fitting.add_argument("--pretrain-epochs", type=int, default=50)
    fitting.add_argument("--together", type=int, default=1, help="runs trained side by side")
    fitting.add_argument(
        "--limit", type=int, default=None, help="only the first N training and N test images"
    )
    _shared(fitting)
    fitting.set_defaults(run=finetune)
    recipes: ArgumentParser = commands.add_parser(
        "tune", help="recipes that tune finished networks, and their starts; resumes where it stopped"
    )
    recipes.add_argument("lots", nargs="+", help="network:lot, most wanted first; lots: start, average, ...")
    recipes.add_argument(
        "--dataset", default="cifar10", help="cifar10, cifar100, or a folder of images by name"
    )
    recipes.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0")
    recipes.add_argument("--limit", type=int, default=None, help="a trial: N images, two epochs")
    _shared(recipes)
    recipes.set_defaults(run=tune)
    texts: ArgumentParser = commands.add_parser(
        "tune-text", help="a small transformer on reviews, trained and then tuned by `fine_tune`"
    )
    texts.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="which seeds")
    texts.add_argument("--data", default=None, help="folder with text/; default: the variable ABSTAIN_DATA")
    texts.add_argument("--folder", default="out/paper-runs", help="where results and outputs go")
    texts.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    texts.add_argument("--limit", type=int, default=None, help="a trial: N texts, two epochs")
    texts.set_defaults(run=tune_text)
    plan: ArgumentParser = commands.add_parser("plan", help="the whole training plan for one H200")
    plan.add_argument(
        "parts", nargs="*", help="network:A+B, seeds:A, start:A+B, table:A; default: all of the first plan"
    )
    plan.add_argument("--dataset", default="cifar10", help="cifar10 or cifar100")
    plan.add_argument("--limit", type=int, default=None, help="a trial: N images, two epochs")
    plan.add_argument("--epochs", type=int, default=None, help="another number of epochs for what was named")
    plan.add_argument("--choice", default=None, help="file written by `bench`")
    plan.add_argument(
        "--have", default=None, help="folder of result files of runs that need not be run again"
    )
    _shared(plan)
    plan.set_defaults(run=whole_plan)
    timing: ArgumentParser = commands.add_parser(
        "bench", help="time a training step in each mode, note the fastest"
    )
    timing.add_argument("--data", required=True, help="folder with images/ and train/")
    timing.add_argument("--choice", type=Path, required=True, help="file to write the fastest way to")
    timing.add_argument("--device", default="cuda")
    timing.add_argument("--models", default="resnet18,vgg16_bn")
    timing.add_argument("--ways", default="all", choices=("all", "plain"))
    timing.set_defaults(run=bench)
    packing: ArgumentParser = commands.add_parser("pack", help="results and outputs into few small archives")
    packing.add_argument("--folder", required=True)
    packing.add_argument("--to", required=True)
    packing.set_defaults(run=pack_up)
    carrying: ArgumentParser = commands.add_parser("pack-images", help="an image set into six small files")
    carrying.add_argument("--dataset", required=True)
    carrying.add_argument("--data", default=None, help="where it is; default: the variable ABSTAIN_DATA")
    carrying.add_argument("--to", type=Path, required=True)
    carrying.set_defaults(run=pack_images)
    taking: ArgumentParser = commands.add_parser("adopt", help="take packed runs into reproduction/results")
    taking.add_argument("--archives", required=True, help="folder with what `pack` wrote")
    taking.add_argument(
        "--data", default=None, help="data folder with the test labels; default: ABSTAIN_DATA"
    )
    taking.add_argument("--tuned", action="store_true", help="runs of `tune`")
    taking.add_argument("--to", type=Path, default=None, help="with --tuned: another folder of results")
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


def _open(given: Namespace, mode: str, compiled: bool, opened: Any = None) -> Any:
    from reproduction.data import load_images
    from reproduction.sessions import open_session

    opened = opened or open_session
    images = load_images(getattr(given, "dataset", "cifar10"), given.data)
    if getattr(given, "limit", None):
        images = images.head(given.limit, given.limit)
    return opened(
        images, given.folder, device=given.device, mode=mode, compiled=compiled,
        checkpoint_every=given.checkpoint_every, deadline=time.monotonic() + 60 * given.minutes,
        report=partial(print, flush=True),
    )  # fmt: skip


def finetune(given: Namespace) -> int:
    """Pre-train each network if need be, then fine-tune it with every objective and seed."""
    from reproduction.sessions import finetune_specs, pretrain_spec, run_plan, waves

    plan = []
    for model in given.model.split(","):
        plan.append([pretrain_spec(model, given.dataset, 0, given.pretrain_epochs)])
        specs = finetune_specs(model, given.dataset, given.loss.split(","), range(given.seeds), given.epochs)
        plan += waves(specs, given.together)
    return 0 if run_plan(plan, _open(given, given.mode, given.compile)) else 1


def tune(given: Namespace) -> int:
    """Train lots of runs one after the other, as far as the time goes."""
    from reproduction.sessions import run_plan
    from reproduction.tuning import lot_specs, open_tuning

    plan = [lot_specs(name, given.dataset, given.seeds) for name in given.lots]
    if given.limit:
        plan = [[replace(s, recipe=replace(s.recipe, epochs=2)) for s in lot] for lot in plan]
    setting = _open(given, given.mode, given.compile, open_tuning)
    return 0 if run_plan(plan, setting, _WEAKER[setting.mode]) else 1


def tune_text(given: Namespace) -> int:
    """Train and tune the small transformer, one seed after the other."""
    from reproduction.texts import load_texts, open_texts, train_and_tune

    runs = open_texts(load_texts(given.data, given.limit), given.folder, device=given.device)
    for seed in given.seeds:
        train_and_tune(runs, seed, epochs=2 if given.limit else None)
        print(f"seed {seed} finished", flush=True)
    return 0


# what to try when a way of stepping fails: each asks less of driver and compiler
_WEAKER = {"branches": ("graph", "plain"), "graph": ("plain",), "plain": ()}


def whole_plan(given: Namespace) -> int:
    """What was asked for, or everything in the order of `h200_plan`, as far as the time goes."""
    from reproduction.sessions import asked_plan, h200_plan, run_plan, without

    chosen = json.loads(Path(given.choice).read_text()) if given.choice else {}
    setting = _open(given, chosen.get("mode", given.mode), chosen.get("compiled", given.compile))
    have = {path.stem for path in Path(given.have).glob("*.json")} if given.have else set()
    epochs = 2 if given.limit else given.epochs
    wanted = asked_plan(given.parts, given.dataset, epochs) if given.parts else h200_plan()
    return 0 if run_plan(without(wanted, have), setting, _WEAKER[setting.mode]) else 1


def bench(given: Namespace) -> int:
    """Which mode is the fastest here."""
    from reproduction.data import packed
    from reproduction.sessions import WAYS, choose, open_session

    images = packed("cifar10", Path(given.data))
    setting = open_session(images, str(given.choice.parent / "bench-runs"), device=given.device)
    ways = WAYS if given.ways == "all" else (("plain", False),)
    print(choose(setting, given.models.split(","), ways, given.choice))
    return 0


def pack_up(given: Namespace) -> int:
    """Archives for carrying away."""
    from reproduction.runs import pack

    for path in pack(given.folder, given.to):
        print(path, path.stat().st_size)
    return 0


def pack_images(given: Namespace) -> int:
    """An image set for carrying to another machine."""
    from reproduction.data import load_images, pack

    for path in pack(load_images(given.dataset, given.data), given.to):
        print(path, path.stat().st_size, flush=True)
    return 0


def adopt_runs(given: Namespace) -> int:
    """Results and kept outputs into the repository, the demo's data beside them."""
    import tempfile
    from importlib.resources import files

    from reproduction import tuned
    from reproduction.data import load_images
    from reproduction.runs import TUNING, adopt, load_runs, unpack

    with tempfile.TemporaryDirectory() as scratch:
        if given.tuned:
            to = given.to or TUNING
            print(tuned.adopt(Path(given.archives), given.data, Path(scratch), to), "runs")
            return 0
        unpack(Path(given.archives), scratch)
        sets = {run["dataset"] for run in load_runs(Path(scratch) / "results")}
        labels = {name: load_images(name, given.data).test_labels for name in sets}
        demo = Path(str(files("abstain"))) / "data"
        print(adopt(Path(given.archives), labels, Path(scratch), demo=demo), "runs")
    return 0


# -------------------------------- the command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, exit code."""
    parser = ArgumentParser(
        prog="python -m reproduction", description="Reproduce the paper on population AURC."
    )
    commands = parser.add_subparsers(title="commands", required=True)
    _add_evaluation(commands)
    _add_training(commands)
    given = parser.parse_args(arguments)
    return int(given.run(given))


if __name__ == "__main__":
    sys.exit(main())
