"""Train runs in lockstep until they are finished or the time is up: batches, one run, one step of many, the loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from abstain.errors import InputError
from reproduction import Array
from reproduction.networks import build
from reproduction.recipe import RunSpec, epoch_rng, objective
from reproduction.runs import Store, origin, score_logits

# -------------------------------- batches: on the device, shuffled, cropped and flipped there in one gather

# per-channel mean and standard deviation of the CIFAR-10 training images, in units of 255
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
_PAD = 4


class Pixels:
    """The training set, padded by reflection, and the test set, once on the device for all runs."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, test_images: np.ndarray, device: str) -> None:
        pad = ((0, 0), (_PAD, _PAD), (_PAD, _PAD), (0, 0))
        self.images = torch.from_numpy(np.pad(images, pad, mode="reflect")).to(device)
        self.labels = torch.from_numpy(labels).to(device)
        self.test_images = torch.from_numpy(np.ascontiguousarray(test_images)).to(device)
        self.size, self.side, self.device = len(labels), images.shape[1], device
        self.scale = 1 / (255 * torch.tensor(STD, device=device))
        self.shift = torch.tensor(MEAN, device=device) / torch.tensor(STD, device=device)

    def normalise(self, images: Array) -> Array:
        """uint8 (n, h, w, 3) to centred float (n, 3, h, w), channels last in memory."""
        return (images * self.scale - self.shift).permute(0, 3, 1, 2)


class Feed:
    """Batches of one seed. Every array has a fixed address, so that a captured step can be replayed."""

    def __init__(self, pixels: Pixels, seed: int, cutout: int = 0) -> None:
        self.pixels, self.seed, self.cutout = pixels, seed, cutout
        # per image: source index, row offset, column offset, flip, cutout row, cutout column
        self.plan = torch.zeros(6, pixels.size, dtype=torch.int64, device=pixels.device)
        self.cursor = torch.zeros((), dtype=torch.int64, device=pixels.device)
        self.line = torch.arange(pixels.side, device=pixels.device)

    def start_epoch(self, epoch: int) -> None:
        """Draw order and augmentation of a whole epoch on the host and send them over."""
        rng, n = epoch_rng(self.seed, epoch), self.pixels.size
        side = self.pixels.side
        drawn = np.stack([
            rng.permutation(n), rng.integers(0, 2 * _PAD + 1, n), rng.integers(0, 2 * _PAD + 1, n),
            rng.integers(0, 2, n), rng.integers(0, side, n), rng.integers(0, side, n),
        ])  # fmt: skip
        self.plan.copy_(torch.from_numpy(drawn))
        self.cursor.zero_()

    def batch(self, size: int) -> tuple[Array, Array]:
        """The next `size` images and labels; moves on."""
        where = self.cursor + torch.arange(size, device=self.cursor.device)
        index, down, right, flip, cut_row, cut_column = self.plan[:, where]
        side, line = self.pixels.side, self.line
        rows = down[:, None] + line
        columns = right[:, None] + torch.where(flip[:, None] == 1, side - 1 - line, line)
        picked = self.pixels.images[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        images = self.pixels.normalise(picked)
        if self.cutout:
            half = self.cutout // 2
            tall = (line - cut_row[:, None]).abs() <= half
            broad = (line - cut_column[:, None]).abs() <= half
            images = images.masked_fill((tall[:, :, None] & broad[:, None, :])[:, None], 0.0)
        self.cursor += size
        return images, self.pixels.labels[index]


# -------------------------------- one run: network, optimiser and log, with a step that a CUDA graph can hold


class Run:
    """A run in progress. `epoch` counts the finished ones; `log` has one entry for each."""

    def __init__(self, spec: RunSpec, classes: int, device: str, *, compiled: bool = False) -> None:
        torch.manual_seed(spec.seed)
        self.spec, self.device, self.epoch = spec, device, 0
        self.log: list[dict[str, Any]] = []
        self.model = build(spec.model, classes).to(device, memory_format=torch.channels_last)
        self.forward = torch.compile(self.model) if compiled else self.model
        self.objective = objective(spec.objective)
        self.rate = torch.zeros((), device=device)
        self.loss_sum = torch.zeros((), device=device)
        recipe = spec.recipe
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=self.rate, momentum=recipe.momentum, nesterov=recipe.nesterov,
            weight_decay=recipe.weight_decay, fused=True,
        )  # fmt: skip
        for p in self.model.parameters():  # allocated now, so that their addresses never change
            self.optimiser.state[p]["momentum_buffer"] = torch.zeros_like(p)

    @property
    def finished(self) -> bool:
        """All epochs done."""
        return self.epoch >= self.spec.recipe.epochs

    def step(self, images: Array, labels: Array) -> None:
        """One step of gradient descent; nothing in it waits for the device."""
        with self.precision():
            loss = self.objective(self.forward(images), labels)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.loss_sum += loss.detach()

    def precision(self) -> Any:
        """bfloat16 on a GPU, float32 on the host."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda", cache_enabled=False)

    def tensors(self) -> list[Array]:
        """Everything a step changes."""
        moments = [self.optimiser.state[p]["momentum_buffer"] for p in self.model.parameters()]
        return [*self.model.parameters(), *self.model.buffers(), *moments, self.loss_sum]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def test_logits(self, pixels: Pixels, batch: int = 2000) -> Array:
        """Logits of the test images, float32, still on the device."""
        self.model.eval()
        with self.precision():
            parts = [self.model(pixels.normalise(part)) for part in pixels.test_images.split(batch)]
        self.model.train()
        return torch.cat(parts)

    def state(self) -> dict[str, Any]:
        """What a restart needs, copied to the host: training goes on while it is being written."""
        buffers = [self.optimiser.state[p]["momentum_buffer"] for p in self.model.parameters()]
        moments = [buffer.to("cpu", copy=True) for buffer in buffers]
        weights = {k: v.to("cpu", copy=True) for k, v in self.model.state_dict().items()}
        return {"epoch": self.epoch, "log": list(self.log), "weights": weights, "moments": moments}

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.epoch, self.log = state["epoch"], list(state["log"])
        self.model.load_state_dict(state["weights"])
        for p, saved in zip(self.model.parameters(), state["moments"], strict=True):
            self.optimiser.state[p]["momentum_buffer"].copy_(saved)


# -------------------------------- one step of several runs
#
# A small network's step is hundreds of short kernels; launched one by one they leave the device idle. Captured once
# and replayed, they cost one launch, and the branches of different runs fill the device together.

Group = tuple[Feed, Sequence[Run]]
MODES = ("plain", "graph", "branches")
_WARM_UP = 3


def make_step(groups: Sequence[Group], batch: int, mode: str) -> Callable[[], None]:
    """A function that advances every run by one batch; runs of one group see the same images.

    mode : {"plain", "graph", "branches"}
        Eager kernels; one captured graph; one captured graph in which runs are parallel branches.
    """
    if mode == "plain":
        return lambda: _sequential(groups, batch)
    streams = {id(run): torch.cuda.Stream() for _, runs in groups for run in runs}
    body = (
        (lambda: _sequential(groups, batch))
        if mode == "graph"
        else (lambda: _branched(groups, batch, streams))
    )
    return _captured(groups, body)


def _sequential(groups: Sequence[Group], batch: int) -> None:
    for feed, runs in groups:
        images, labels = feed.batch(batch)
        for run in runs:
            run.step(images, labels)


def _branched(groups: Sequence[Group], batch: int, streams: dict[int, torch.cuda.Stream]) -> None:
    main = torch.cuda.current_stream()
    batches = [feed.batch(batch) for feed, _ in groups]
    for (images, labels), (_, runs) in zip(batches, groups, strict=True):
        for run in runs:
            branch = streams[id(run)]
            branch.wait_stream(main)
            with torch.cuda.stream(branch):
                run.step(images, labels)
    for branch in streams.values():
        main.wait_stream(branch)


def _captured(groups: Sequence[Group], body: Callable[[], None]) -> Callable[[], None]:
    """Warm up, undo what the warm-up did, capture."""
    changed = [t for feed, runs in groups for t in (feed.cursor, *(t for run in runs for t in run.tensors()))]
    with torch.no_grad():
        before = [t.clone() for t in changed]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        body()
    with torch.no_grad():
        for t, old in zip(changed, before, strict=True):
            t.copy_(old)
    torch.cuda.synchronize()
    return graph.replay


# -------------------------------- the loop

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
            self.active, self.groups = active, grouped(active, self.setting.pixels)
            begin_epoch(self.groups, epoch)  # a captured step warms up on real batches
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


def grouped(runs: Sequence[Run], pixels: Pixels) -> list[Group]:
    """Runs that see the same images, each lot with its feed."""
    by_feed: dict[tuple[int, int], list[Run]] = {}
    for run in runs:
        by_feed.setdefault((run.spec.seed, run.spec.recipe.cutout), []).append(run)
    return [(Feed(pixels, seed, cutout), members) for (seed, cutout), members in by_feed.items()]


def begin_epoch(groups: Sequence[Group], epoch: int) -> None:
    """New order and augmentation for every feed, losses from zero."""
    for feed, runs in groups:
        feed.start_epoch(epoch)
        for run in runs:
            run.loss_sum.zero_()


def _one_epoch(groups: Sequence[Group], epoch: int, step: Callable[[], None], setting: Setting) -> None:
    """Train for an epoch. An incomplete last batch is left out."""
    begin_epoch(groups, epoch)
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
