"""Which runs, in which order, resumable, and which way of stepping is the fastest on a machine."""

from __future__ import annotations

import dataclasses
import json
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import check_choice
from reproduction.data import ImageSet
from reproduction.recipe import COST, OBJECTIVES, PAPERS, Recipe, RunSpec, pretraining
from reproduction.runs import Store
from reproduction.training import Pixels, Report, Run, Setting, begin_epoch, grouped, make_step, train

Wave = list[RunSpec]


def pretrain_spec(model: str, dataset: str, seed: int = 0, epochs: int = 50) -> RunSpec:
    """The run that fine-tuning starts from (seed 0), or one of several networks of one architecture."""
    return RunSpec(model, dataset, "ce", seed, pretraining(epochs))


def finetune_specs(
    model: str,
    dataset: str,
    objectives: Sequence[str],
    seeds: Sequence[int],
    epochs: int = 30,
    start_seed: int = 0,
) -> list[RunSpec]:
    """Fine-tuning runs, all objectives of a seed before the next seed; all start from the same network."""
    start = pretrain_spec(model, dataset, start_seed).name
    recipe = Recipe(epochs=epochs)
    return [RunSpec(model, dataset, name, seed, recipe, start) for seed in seeds for name in objectives]


def waves(specs: Sequence[RunSpec], together: int) -> list[Wave]:
    """Cut a list of runs into lots that are trained side by side."""
    return [list(specs[i : i + together]) for i in range(0, len(specs), together)]


SECOND = 5  # seed of the second network that fine-tuning starts from; 1 to 4 belong to the MAE figures
# the table's two main networks have five seeds: so many tuned from the first network, the rest from the second
_FROM_FIRST = {"resnet18": 3, "vgg16_bn": 2}


def asked_plan(parts: Sequence[str], dataset: str, epochs: int | None = None) -> list[Wave]:
    """Waves by name; `epochs` replaces the numbers of epochs given here.

    "network:preresnet20+preresnet56": seed 0, 30 epochs, side by side; "seeds:preresnet20": seeds 1 to 4 likewise.
    "start:resnet18": the networks that tuning starts from, 50 epochs; "table:resnet18": tuned with the paper's
    objectives. ResNet-18 and VGG16-BN have two starts and five seeds, any other network has one start and two seeds,
    one seed to a wave.

    >>> [[s.name for s in wave] for wave in asked_plan(["start:resnet18"], "cifar100")]
    [['pretrain-cifar100-resnet18-ce-seed0', 'pretrain-cifar100-resnet18-ce-seed5']]
    """
    plan: list[Wave] = []
    for part in parts:
        kind, _, names = part.partition(":")
        check_choice("asked_plan", "parts", kind, ("network", "seeds", "start", "table"))
        models = names.split("+")
        if kind in ("network", "seeds"):
            seeds = (0,) if kind == "network" else range(1, 5)
            plan.append([pretrain_spec(m, dataset, s, epochs or 30) for m in models for s in seeds])
        elif kind == "start":
            plan.append([pretrain_spec(m, dataset, s, epochs or 50) for m in models for s in _start_seeds(m)])
        else:
            for model in models:
                plan += _table_waves(model, dataset, epochs or 30)
    return plan


def _start_seeds(model: str) -> tuple[int, ...]:
    return (0, SECOND) if model in _FROM_FIRST else (0,)


def _table_waves(model: str, dataset: str, epochs: int) -> list[Wave]:
    if model not in _FROM_FIRST:
        return waves(finetune_specs(model, dataset, PAPERS, range(2), epochs), len(PAPERS))
    first = _FROM_FIRST[model]
    specs = [
        *finetune_specs(model, dataset, PAPERS, range(first), epochs),
        *finetune_specs(model, dataset, PAPERS, range(first, 5), epochs, SECOND),
    ]
    return waves(specs, 12)


def h200_plan(pretrain_epochs: int = 50, epochs: int = 30) -> list[Wave]:
    """What an H200 is asked to do, most wanted first; stops wherever the time is up.

    The two networks of the table are tuned from two pre-trained networks each, so that what is found is not a
    property of one of them; within a seed all objectives share the start.
    """

    def tune(
        model: str,
        seeds: Sequence[int],
        start: int = 0,
        objectives: Sequence[str] = OBJECTIVES,
        together: int = 7,
    ) -> list[Wave]:
        return waves(finetune_specs(model, "cifar10", objectives, seeds, epochs, start), together)

    def pretrain(model: str, seeds: Sequence[int], count: int = pretrain_epochs) -> list[RunSpec]:
        return [pretrain_spec(model, "cifar10", seed, count) for seed in seeds]

    rest = ("ce", "harmonic", "log")
    plan = [
        [*pretrain("resnet18", [0]), *pretrain("vgg16_bn", [0])],
        *tune("resnet18", range(3)),
        *tune("vgg16_bn", range(2)),
        [*pretrain("vgg16_bn", range(1, 5), 30), *pretrain("preresnet20", range(5), 30)],
        [spec for m in ("resnet18", "vgg16_bn") for spec in pretrain(m, [SECOND])],
        *tune("resnet18", range(3, 5), SECOND),
        *tune("vgg16_bn", range(2, 5), SECOND),
    ]
    for model in ("vgg19_bn", "resnet34", "resnet50", "wideresnet28_10"):
        plan += [pretrain(model, [0]), *tune(model, range(2), 0, rest, 6)]
    return plan


def without(plan: Sequence[Wave], finished: set[str]) -> list[Wave]:
    """A plan less the runs finished elsewhere; a start stays in it while a run waits for its weights."""
    needed = {s.start for wave in plan for s in wave if s.name not in finished}
    left = [[s for s in wave if s.name not in finished or s.name in needed] for wave in plan]
    return [wave for wave in left if wave]


def open_session(
    images: ImageSet, folder: str, *, device: str = "cpu", mode: str = "plain", compiled: bool = False,
    checkpoint_every: int = 1, deadline: float = float("inf"), report: Report = print,
) -> Setting:  # fmt: skip
    """Put the images on the device and get the folder ready."""
    make_ready(device)
    pixels = Pixels(images.train_images, images.train_labels, {"test": images.test_images}, device)
    labels, data = {"test": np.asarray(images.test_labels)}, {"data": images.digest()}
    return Setting(
        pixels,
        labels,
        images.classes,
        data,
        Store(folder),
        mode,
        compiled,
        checkpoint_every,
        deadline,
        report,
    )


def make_ready(device: str) -> None:
    """Settings of torch for training on a GPU."""
    if device == "cuda":
        import torch

        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
        torch._dynamo.config.recompile_limit = 64  # ten networks trained side by side are ten to the compiler


def run_plan(plan: Sequence[Wave], setting: Setting, fallback: Sequence[str] = ()) -> bool:
    """Train wave after wave; True when everything is finished.

    A wave that would not end before the deadline is passed over, so that what is begun gets finished. A wave that
    fails is reported and tried again in each `fallback` mode, uncompiled; the next waves go on in what worked.
    """
    everything = True
    waiting: set[str | None] = set()  # runs passed over; what starts from them is passed over too
    for wave in plan:
        seconds = projected_seconds(wave, setting.store)
        if time.monotonic() + seconds > setting.deadline or any(s.start in waiting for s in wave):
            setting.report(f"not run, projected {seconds / 60:.1f} min: {', '.join(s.name for s in wave)}")
            waiting.update(s.name for s in wave)
            everything = False
            continue
        setting, done = _train_somehow(wave, setting, fallback)
        everything = everything and done
    return everything


def _train_somehow(wave: Wave, setting: Setting, fallback: Sequence[str]) -> tuple[Setting, bool]:
    for mode in fallback:
        try:
            return setting, train(wave, setting)
        except Exception:  # whatever a driver or compiler may raise: the next mode asks less of both
            setting.report(f"mode {setting.mode} failed; trying {mode}\n{traceback.format_exc()}")
            setting = dataclasses.replace(setting, mode=mode, compiled=False)
    return setting, train(wave, setting)


def projected_seconds(wave: Wave, store: Store) -> float:
    """How long a wave will take, from the epochs timed so far (of its own network, or scaled by cost)."""
    return sum(
        _epoch_seconds(spec.model, store) * spec.recipe.epochs for spec in wave if not _done(spec, store)
    )


def _done(spec: RunSpec, store: Store) -> bool:
    result = store.load_result(spec.name)
    return result is not None and bool(result["finished"])


def _epoch_seconds(model: str, store: Store) -> float:
    timed: dict[str, list[float]] = {}
    for path in (store.root / "results").glob("*.json"):
        result = json.loads(path.read_text())
        timed.setdefault(result["model"], []).extend(entry["seconds"] for entry in result["log"][1:])
    known = {name: float(np.median(values)) for name, values in timed.items() if values}
    if model in known:
        return known[model]
    return max(
        (seconds * COST.get(model, 1.0) / COST.get(name, 1.0) for name, seconds in known.items()), default=0.0
    )


# -------------------------------- the fastest way to step

# the safest first: a capture that fails may spoil what comes after it
WAYS = (("graph", False), ("branches", False), ("branches", True))


def seconds_per_step(
    setting: Setting, model: str, mode: str, compiled: bool, steps: int = 30
) -> dict[str, Any]:
    """Seconds of one step of all objectives together, and of getting ready for it."""
    import torch

    began = time.monotonic()
    specs = [RunSpec(model, "cifar10", name, 0, Recipe()) for name in OBJECTIVES]
    runs = [Run(spec, setting.classes, setting.pixels.device, compiled=compiled) for spec in specs]
    groups = grouped(runs, setting.pixels)
    begin_epoch(groups, 0)
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
