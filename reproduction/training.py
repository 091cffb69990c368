"""Train runs in lockstep until they are finished or the time is up: batches, one run, one step of many, the loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.optim.swa_utils import AveragedModel, update_bn

from abstain.errors import InputError
from reproduction import Array
from reproduction.networks import build, compile_parts
from reproduction.recipe import RunSpec, epoch_rng, objective
from reproduction.runs import Store, origin, score_logits

# -------------------------------- batches: on the device, shuffled, cropped and flipped there in one gather

_PAD = 4


def channel_moments(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each channel of uint8 images, from counts: a float copy would be large."""
    counts = np.stack([np.bincount(images[..., c].ravel(), minlength=256) for c in range(3)])
    share, level = counts / counts.sum(1, keepdims=True), np.arange(256)
    mean = share @ level
    return mean, np.sqrt((share * (level - mean[:, None]) ** 2).sum(1))


class Pixels:
    """The training set, padded by reflection, and images to judge by, once on the device for all runs."""

    def __init__(
        self, images: np.ndarray, labels: np.ndarray, judged: dict[str, np.ndarray], device: str
    ) -> None:
        pad = ((0, 0), (_PAD, _PAD), (_PAD, _PAD), (0, 0))
        self.images = torch.from_numpy(np.pad(images, pad, mode="reflect")).to(device)
        self.labels = torch.from_numpy(labels).to(device)
        self.judged = {
            part: torch.from_numpy(np.ascontiguousarray(shown)).to(device) for part, shown in judged.items()
        }
        self.size, self.side, self.device = len(labels), images.shape[1], device
        mean, std = (torch.tensor(m, dtype=torch.float32, device=device) for m in channel_moments(images))
        self.scale, self.shift = 1 / std, mean / std

    def normalise(self, images: Array) -> Array:
        """uint8 (n, h, w, 3) to centred float (n, 3, h, w), channels last in memory."""
        return (images * self.scale - self.shift).permute(0, 3, 1, 2)


class Feed:
    """Batches of one seed. Every array has a fixed address, so that a captured step can be replayed.

    `cutout`, `mixup` and `mixup_beside` are those of `recipe.Recipe`.
    """

    def __init__(
        self, pixels: Pixels, seed: int, cutout: int = 0, mixup: float = 0.0, mixup_beside: bool = False
    ) -> None:
        self.pixels, self.seed, self.cutout = pixels, seed, cutout
        self.mixup = mixup
        self.mixup_beside = mixup_beside
        # per image: its share in the mixture with another image
        self.mix_share = torch.ones(pixels.size, device=pixels.device)
        classes = int(pixels.labels.max()) + 1 if mixup else 0
        self.one_hot = torch.eye(classes, device=pixels.device)
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
        if self.mixup:  # drawn last, so that runs without mixup see what they always saw
            self.mix_share.copy_(torch.from_numpy(rng.beta(self.mixup, self.mixup, n)))
        self.cursor.zero_()

    def batch(self, size: int) -> tuple[Array, Array]:
        """The next `size` images and their labels; moves on.

        With mixup every image is mixed with the one at the mirrored place of the batch, and the labels are class
        probabilities, float32 (size, classes). With `mixup_beside` as many images and labels that are not mixed come
        first, so that the batch has twice the size.
        """
        where = self.cursor + torch.arange(size, device=self.cursor.device)
        images, labels = self._unmixed_batch(size)
        if not self.mixup:
            return images, labels
        share = self.mix_share[where]
        image_share = share[:, None, None, None]
        mixed_images = image_share * images + (1 - image_share) * images.flip(0)
        label_probs = self.one_hot[labels]
        mixed_probs = share[:, None] * label_probs + (1 - share[:, None]) * label_probs.flip(0)
        if not self.mixup_beside:
            return mixed_images, mixed_probs
        return torch.cat([images, mixed_images]), torch.cat([label_probs, mixed_probs])

    def _unmixed_batch(self, size: int) -> tuple[Array, Array]:
        """The next `size` images, cropped, flipped and cut out, and their class numbers; moves on."""
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

    def again(self, size: int = 500) -> Iterator[Array]:
        """The images of the epoch just drawn once more, for the statistics of batch norm."""
        self.cursor.zero_()
        for _ in range(max(1, self.pixels.size // size)):
            yield self._unmixed_batch(min(size, self.pixels.size))[0]


# -------------------------------- one run: network, optimiser and log, with a step that a CUDA graph can hold


class Run:
    """A run in progress. `epoch` counts the finished ones; `log` has one entry for each."""

    def __init__(self, spec: RunSpec, classes: int, device: str, *, compiled: bool = False) -> None:
        torch.manual_seed(spec.seed)
        self.spec, self.device, self.epoch = spec, device, 0
        self.log: list[dict[str, Any]] = []
        self.model = build(spec.model, classes).to(device, memory_format=torch.channels_last)
        self.averaged = AveragedModel(self.model) if spec.recipe.averaged else None
        if compiled:
            compile_parts(self.model)
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

    @property
    def network(self) -> Array:
        """What the run delivers."""
        return self.model if self.averaged is None else self.averaged

    def step(self, images: Array, labels: Array) -> None:
        """One step of gradient descent; nothing in it waits for the device."""
        loss = self._slopes(images, labels)
        if self.spec.recipe.sharpness:
            uphill = self._climb()
            self._slopes(images, labels)
            with torch.no_grad():
                torch._foreach_sub_(list(self.model.parameters()), uphill)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.loss_sum += loss

    def _slopes(self, images: Array, labels: Array) -> Array:
        with self.precision():
            loss = self.objective(self.model(images), labels)
        loss.backward()
        return loss.detach()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _climb(self) -> list[Array]:
        """Move the weights up the gradient by `sharpness`, and forget the gradient; returns the moves."""
        weights = list(self.model.parameters())
        slopes = [p.grad for p in weights]
        length = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slopes)))
        uphill = torch._foreach_mul(slopes, self.spec.recipe.sharpness / (length + 1e-12))
        torch._foreach_add_(weights, uphill)
        self.optimiser.zero_grad(set_to_none=True)
        return list(uphill)

    def end_epoch(self) -> None:
        """Count the epoch and take its weights into the mean."""
        self.epoch += 1
        if self.averaged is not None:
            self.averaged.update_parameters(self.model)

    def refresh(self, feed: Feed) -> None:
        """Batch norm of averaged weights: no network that was trained had these, so its statistics are found anew."""
        if self.averaged is not None:
            with self.precision():
                update_bn(feed.again(), self.averaged)

    def precision(self) -> Any:
        """bfloat16 on a GPU, float32 on the host."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda", cache_enabled=False)

    def tensors(self) -> list[Array]:
        """Everything a step changes."""
        return [*self.model.parameters(), *self.model.buffers(), *self._moments(), self.loss_sum]

    def _moments(self) -> list[Array]:
        return [self.optimiser.state[p]["momentum_buffer"] for p in self.model.parameters()]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def logits(self, network: Array, pixels: Pixels, part: str, batch: int = 2000) -> np.ndarray:
        """Logits of a network of this run for a part of the images to judge by, float32."""
        network.eval()
        # compiled for training alone: a test set is seen once an epoch
        with self.precision(), torch.compiler.set_stance("force_eager"):
            lots = [network(pixels.normalise(images)) for images in pixels.judged[part].split(batch)]
        network.train()
        return np.asarray(torch.cat(lots).cpu().numpy())

    def state(self) -> dict[str, Any]:
        """What a restart needs, copied to the host: training goes on while it is being written."""
        found = {
            "epoch": self.epoch, "log": list(self.log), "moments": [_to_host(m) for m in self._moments()],
            "weights": {k: _to_host(v) for k, v in self.model.state_dict().items()},
        }  # fmt: skip
        if self.averaged is not None:
            found["averaged"] = {k: _to_host(v) for k, v in self.averaged.state_dict().items()}
        if self.device == "cuda":
            torch.cuda.synchronize()
        return found

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.epoch, self.log = state["epoch"], list(state["log"])
        self.model.load_state_dict(state["weights"])
        if self.averaged is not None:
            self.averaged.load_state_dict(state["averaged"])
        for moment, saved in zip(self._moments(), state["moments"], strict=True):
            moment.copy_(saved)


def _to_host(tensor: Array) -> Array:
    """A copy on the host; pinned, so that it costs a GPU hundredths of a second rather than half of one."""
    if not tensor.is_cuda:
        return tensor.detach().clone()
    return torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor.detach(), non_blocking=True)


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
_SCRIBES = 4  # threads that write checkpoints and results


@dataclass(frozen=True)
class Setting:
    """What all runs of a session share, and how they are judged: on the test set, after every epoch."""

    pixels: Pixels
    labels: dict[str, np.ndarray]  # of the images to judge by
    classes: int
    data: dict[str, Any]  # what a result file says of the images
    store: Store
    mode: str = "plain"
    compiled: bool = False
    checkpoint_every: int = 1
    deadline: float = float("inf")  # time.monotonic() after which no epoch is begun
    report: Report = print

    def look(self, run: Run, feed: Feed | None) -> dict[str, np.ndarray]:
        """Logits by which the epoch just trained is judged; no feed when the run was finished before."""
        return {"test": run.logits(run.network, self.pixels, "test")}

    def scores(self, logits: dict[str, np.ndarray]) -> dict[str, Any]:
        """What the log says of an epoch beside its loss and its time."""
        return score_logits(logits["test"], self.labels["test"])

    def publish(
        self, spec: RunSpec, log: list[dict[str, Any]], logits: dict[str, np.ndarray], finished: bool
    ) -> None:
        """Write the result file; for a finished run also its outputs, and the numbers those give in float16."""
        result = {**self.describe(spec, log), "finished": finished}
        if finished:
            self.store.save_output(spec.name, {"logits": logits["test"]})
            result["from_float16"] = score_logits(halved(logits["test"]), self.labels["test"])
        self.store.save_result(spec.name, result)

    def describe(self, spec: RunSpec, log: list[dict[str, Any]]) -> dict[str, Any]:
        """What every result file says: which run, on which data, by which code and machine, epoch by epoch."""
        return {**spec.describe(), **self.data, **origin(self.pixels.device), "log": list(log)}


def halved(logits: np.ndarray) -> np.ndarray:
    """Logits as they come back from a file of float16."""
    return logits.astype(np.float16).astype(np.float32)


def train(specs: Sequence[RunSpec], setting: Setting) -> bool:
    """Train these runs together; True when all are finished.

    They share batch size and number of epochs. Runs of one seed see the same images in the same order, cropped and
    flipped alike, so differences between objectives are paired. Finished runs are left alone, interrupted ones go
    on from their last checkpoint.

    Raises InputError if the runs do not fit together, or if there are too few images for a batch.
    """
    if len({(s.recipe.batch, s.recipe.epochs, s.epochs_before) for s in specs}) > 1:
        raise InputError(
            "train: runs trained together must share batch size and number of epochs. Split them."
        )
    _check_image_count(setting, specs[0].recipe.batch)
    runs = [run for spec in specs if (run := _resume(spec, setting)) is not None]
    lockstep = _Lockstep(setting)
    noted: list[Future[None]] = []
    over = time.monotonic() > setting.deadline
    with ThreadPoolExecutor(_SCRIBES) as scribes:
        while runs and not over:
            began = time.monotonic()
            active = lockstep.advance(runs)
            logits = [setting.look(run, feed) for feed, members in lockstep.groups for run in members]
            losses = torch.stack([run.loss_sum for run in active]).cpu().tolist()  # waits for the device
            seconds = (time.monotonic() - began) / len(active)
            for n in noted:  # before the next epoch is noted, so that the entries of a run keep their order
                n.result()
            steps = setting.pixels.size // active[0].spec.recipe.batch
            over = time.monotonic() > setting.deadline
            noted = [
                _note(
                    run,
                    {"epoch": run.epoch, "train_loss": loss / steps, "seconds": seconds},
                    z,
                    over,
                    setting,
                    scribes,
                )
                for run, loss, z in zip(active, losses, logits, strict=True)
            ]
            if (
                setting.checkpoint_every == 1
            ):  # an interrupt must not cost two epochs: wait until it is on disk
                for n in noted:
                    n.result()
            runs = [run for run in runs if not run.finished]
        for n in noted:
            n.result()
    return not runs


def _check_image_count(setting: Setting, batch: int) -> None:
    """Raise InputError unless the training images fill a batch, or as many as the capture of a step takes."""
    batches = 1 if setting.mode == "plain" else _WARM_UP
    if setting.pixels.size < batches * batch:
        raise InputError(
            f'train: mode "{setting.mode}" needs at least {batches * batch} training images, {batches} x {batch}, got '
            f"{setting.pixels.size}. Use more images, or a smaller batch."
        )


class _Lockstep:
    """Trains those runs that are furthest behind; a captured step is kept while they stay the same."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.active: list[Run] = []
        self.groups: list[Group] = []
        self.step: Callable[[], None] = lambda: None

    def advance(self, runs: Sequence[Run]) -> list[Run]:
        """One epoch of the runs with the fewest finished epochs; returns them, in the order of their groups."""
        epoch = min(run.epoch for run in runs)
        active = [run for run in runs if run.epoch == epoch]
        if active != self.active:
            self.active, self.groups = active, grouped(active, self.setting.pixels)
            begin_epoch(self.groups, epoch)  # a captured step warms up on real batches
            self.step = make_step(self.groups, active[0].spec.recipe.batch, self.setting.mode)
        _one_epoch(self.groups, epoch, self.step, self.setting)
        for run in active:
            run.end_epoch()
        return [run for _, members in self.groups for run in members]


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
            setting.publish(spec, run.log, setting.look(run, None), True)
            return None
    elif spec.start is not None:
        run.model.load_state_dict(setting.store.weights(spec.start))
    return run


def grouped(runs: Sequence[Run], pixels: Pixels) -> list[Group]:
    """Runs that see the same images, each lot with its feed."""
    by_feed: dict[tuple[int, int, float, bool], list[Run]] = {}
    for run in runs:
        recipe = run.spec.recipe
        key = (run.spec.seed, recipe.cutout, recipe.mixup, recipe.mixup_beside)
        by_feed.setdefault(key, []).append(run)
    return [(Feed(pixels, *key), members) for key, members in by_feed.items()]


def begin_epoch(groups: Sequence[Group], epoch: int) -> None:
    """New order and augmentation for every feed, losses from zero."""
    for feed, runs in groups:
        feed.start_epoch(epoch + runs[0].spec.epochs_before)
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


def _note(
    run: Run,
    entry: dict[str, Any],
    logits: dict[str, np.ndarray],
    over: bool,
    setting: Setting,
    scribes: ThreadPoolExecutor,
) -> Future[None]:
    """Hand the writing to another thread, so that the device does not wait for it; a planned stop loses nothing."""
    keep = run.finished or over or run.epoch % setting.checkpoint_every == 0
    # scored inside the thread, so the log entry must exist before a checkpoint copies it
    state = run.state() if keep else None
    return scribes.submit(_write, run.spec, entry, logits, run.log, state, run.finished, setting)


def _write(
    spec: RunSpec, entry: dict[str, Any], logits: dict[str, np.ndarray], log: list[dict[str, Any]],
    state: dict[str, Any] | None, finished: bool, setting: Setting,
) -> None:  # fmt: skip
    entry.update(setting.scores(logits))
    log.append(entry)
    if state is not None:
        setting.store.save_state(spec.name, {**state, "log": list(log)})
    setting.publish(spec, log, logits, finished)
    scores, shown = entry.get("held_out", entry), ""
    if "accuracy" in scores:
        shown = f"acc {scores['accuracy']:.4f} aurc01 {scores['aurc_01']:.5f} aurcCE {scores['aurc_ce']:.4f} "
    setting.report(
        f"{spec.name} epoch {entry['epoch']}/{spec.recipe.epochs} loss {entry['train_loss']:.4f} "
        f"{shown}{entry['seconds']:.2f}s"
    )
