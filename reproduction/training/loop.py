"""Train runs in lockstep until they are finished or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from abstain.errors import InputError
from abstain.paper.training.feed import Feed, Pixels
from abstain.paper.training.provenance import origin
from abstain.paper.training.recipe import RunSpec
from abstain.paper.training.run import Run
from abstain.paper.training.scoring import score_logits
from abstain.paper.training.stepper import Group, make_step
from abstain.paper.training.store import Store

Report = Callable[[str], None]


@dataclass(frozen=True)
class Setting:
    """What all runs of a session share."""

    pixels: Pixels
    test_labels: np.ndarray
    classes: int
    digest: str
    store: Store
    mode: str = "plain"
    compiled: bool = False
    checkpoint_every: int = 1
    deadline: float = float("inf")  # time.monotonic() after which no epoch is begun
    report: Report = print


def train(specs: Sequence[RunSpec], setting: Setting) -> bool:
    """Train these runs together; True when all are finished.

    They share batch size and number of epochs. Runs of one seed see the same images in the same order, cropped and
    flipped alike, so differences between objectives are paired. Finished runs are left alone, interrupted ones go
    on from their last checkpoint.
    """
    if len({(s.recipe.batch, s.recipe.epochs) for s in specs}) > 1:
        raise InputError(
            "train: runs trained together must share batch size and number of epochs. Split them."
        )
    runs = [run for spec in specs if (run := _resume(spec, setting)) is not None]
    lockstep = _Lockstep(setting)
    noted: list[Future[None]] = []
    with ThreadPoolExecutor(1) as scribe:
        while runs:
            if time.monotonic() > setting.deadline:
                return False
            began = time.monotonic()
            active = lockstep.advance(runs)
            logits = _evaluate(active, setting)
            noted += _note(active, logits, time.monotonic() - began, setting, scribe)
            # with a checkpoint for every epoch an interrupt must not cost two: wait until it is on disk
            noted = [n for n in noted if (setting.checkpoint_every > 1 and not n.done()) or n.result()]
            runs = [run for run in runs if not run.finished]
        for n in noted:
            n.result()
    return True


class _Lockstep:
    """Trains those runs that are furthest behind; a captured step is kept while they stay the same."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.active: list[Run] = []
        self.groups: list[Group] = []
        self.step: Callable[[], None] = lambda: None

    def advance(self, runs: Sequence[Run]) -> list[Run]:
        """One epoch of the runs with the fewest finished epochs; returns them."""
        epoch = min(run.epoch for run in runs)
        active = [run for run in runs if run.epoch == epoch]
        if active != self.active:
            self.active, self.groups = active, _groups(active, self.setting.pixels)
            _begin_epoch(self.groups, epoch)  # a captured step warms up on real batches
            self.step = make_step(self.groups, active[0].spec.recipe.batch, self.setting.mode)
        _one_epoch(self.groups, epoch, self.step, self.setting)
        return active


def _resume(spec: RunSpec, setting: Setting) -> Run | None:
    """A run ready to go on, or None if it has its result already."""
    done = setting.store.load_result(spec.name)
    if done is not None and done["finished"]:
        return None
    setting.report(f"{spec.name}: begins")
    run = Run(spec, setting.classes, setting.pixels.device, compiled=setting.compiled)
    state = setting.store.load_state(spec.name)
    if state is not None:
        run.restore(state)
        setting.report(f"{spec.name}: goes on after epoch {run.epoch}")
        if run.finished:  # stopped between the last checkpoint and the result
            _publish(spec, run.log, run.test_logits(setting.pixels).cpu().numpy(), True, setting)
            return None
    elif spec.start is not None:
        run.model.load_state_dict(setting.store.weights(spec.start))
    return run


def _groups(runs: Sequence[Run], pixels: Pixels) -> list[Group]:
    by_feed: dict[tuple[int, int], list[Run]] = {}
    for run in runs:
        by_feed.setdefault((run.spec.seed, run.spec.recipe.cutout), []).append(run)
    return [(Feed(pixels, seed, cutout), members) for (seed, cutout), members in by_feed.items()]


def _begin_epoch(groups: Sequence[Group], epoch: int) -> None:
    for feed, runs in groups:
        feed.start_epoch(epoch)
        for run in runs:
            run.loss_sum.zero_()


def _one_epoch(groups: Sequence[Group], epoch: int, step: Callable[[], None], setting: Setting) -> None:
    """Train for an epoch. An incomplete last batch is left out."""
    _begin_epoch(groups, epoch)
    runs = [run for _, members in groups for run in members]
    recipe = runs[0].spec.recipe
    steps = setting.pixels.size // recipe.batch
    for k in range(steps):
        if k == 0 or recipe.schedule != "constant":
            for run in runs:
                run.rate.fill_(run.spec.recipe.rate((epoch + k / steps) / recipe.epochs))
        step()


def _evaluate(active: Sequence[Run], setting: Setting) -> np.ndarray:
    """Test logits of these runs, in their order."""
    return np.asarray(torch.stack([run.test_logits(setting.pixels) for run in active]).cpu().numpy())


def _note(
    active: Sequence[Run], logits: np.ndarray, seconds: float, setting: Setting, scribe: ThreadPoolExecutor
) -> list[Future[None]]:
    """Count the epoch and hand the writing to another thread, so that the device does not wait for it."""
    steps = setting.pixels.size // active[0].spec.recipe.batch
    losses = torch.stack([run.loss_sum for run in active]).cpu().tolist()
    notes = []
    for run, loss, outputs in zip(active, losses, logits, strict=True):
        run.epoch += 1
        keep = run.finished or run.epoch % setting.checkpoint_every == 0
        entry = {"epoch": run.epoch, "train_loss": loss / steps, "seconds": seconds / len(active)}
        # scored inside the thread, so the log entry must exist before a checkpoint copies it
        job = (run.spec, entry, outputs, run.log, run.state() if keep else None, run.finished, setting)
        notes.append(scribe.submit(_write, *job))
    return notes


def _write(
    spec: RunSpec, entry: dict[str, Any], logits: np.ndarray, log: list[dict[str, Any]],
    state: dict[str, Any] | None, finished: bool, setting: Setting,
) -> None:  # fmt: skip
    entry.update(score_logits(logits, setting.test_labels))
    log.append(entry)
    if state is not None:
        setting.store.save_state(spec.name, {**state, "log": list(log)})
    _publish(spec, log, logits, finished, setting)
    setting.report(
        f"{spec.name} epoch {entry['epoch']}/{spec.recipe.epochs} loss {entry['train_loss']:.4f} "
        f"acc {entry['accuracy']:.4f} aurc01 {entry['aurc_01']:.5f} aurcCE {entry['aurc_ce']:.4f} "
        f"{entry['seconds']:.2f}s"
    )


def _publish(
    spec: RunSpec, log: list[dict[str, Any]], logits: np.ndarray, finished: bool, setting: Setting
) -> None:  # fmt: skip
    """Write the result file; for a finished run also its outputs, and the numbers those give in float16."""
    result = {
        **spec.describe(), "finished": finished, "data": setting.digest,
        **origin(setting.pixels.device), "log": list(log),
    }  # fmt: skip
    if finished:
        setting.store.save_output(spec.name, logits)
        result["from_float16"] = score_logits(
            logits.astype(np.float16).astype(np.float32), setting.test_labels
        )
    setting.store.save_result(spec.name, result)
