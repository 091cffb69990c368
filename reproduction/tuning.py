"""Does tuning lower the AURC of the network you have? Recipes on finished networks, and how their runs are judged.

A start is trained to the end of its schedule on nine tenths of the training images; recipes go on from there. The tenth
held out is looked at a few times in a run, the test set once, when the run is finished. Nothing is selected by either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import abstain
from abstain.errors import InputError
from reproduction.data import ImageSet, split
from reproduction.recipe import Recipe, RunSpec, pretraining
from reproduction.runs import Store, score_logits
from reproduction.sessions import make_ready
from reproduction.training import Feed, Pixels, Run, Setting, halved

# -------------------------------- recipes and runs

START_EPOCHS, TUNING_EPOCHS = 70, 20
_PLAIN_START = pretraining(START_EPOCHS)
# tuned images keep the augmentation that the start was trained with
_SMALL_RATE = Recipe(epochs=TUNING_EPOCHS, peak=1e-3, cutout=8)
_AVERAGED = replace(_SMALL_RATE, peak=0.02, averaged=True)
# RegMixup (unmixed and mixed images in equal parts, shares near 1/2) and sharpness-aware steps: what the best published
# networks of this size are trained with
_STRONG: dict[str, Any] = {"mixup": 10.0, "mixup_beside": True, "sharpness": 0.05}

# networks that recipes tune: method -> objective and recipe
STARTS: dict[str, tuple[str, Recipe]] = {
    "start": ("ce", _PLAIN_START),
    "smoothing": ("smoothed", _PLAIN_START),
    "mixup": ("ce", replace(_PLAIN_START, mixup=1.0)),
    "strong": ("ce", replace(pretraining(120), **_STRONG)),
}
# method -> objective and recipe; a recipe for another start than "start" has the name of that start before its own
METHODS: dict[str, tuple[str, Recipe]] = {
    **STARTS,
    "average_ce": ("ce", _AVERAGED),
    "average_half": ("half", _AVERAGED),
    "ce": ("ce", _SMALL_RATE),
    "harmonic": ("harmonic", _SMALL_RATE),
    "average_sharp": ("ce", replace(_AVERAGED, sharpness=0.05)),
    # the control: a start that trains as long as start and tuning together
    "scratch": ("ce", pretraining(START_EPOCHS + TUNING_EPOCHS)),
    "smoothing_average_ce": ("ce", _AVERAGED),
    "smoothing_average_half": ("half", _AVERAGED),
    "mixup_average_ce": ("ce", _AVERAGED),
    "mixup_average_half": ("half", _AVERAGED),
    "strong_average_half": ("half", replace(_AVERAGED, epochs=40)),
    "strong_average_strong": ("ce", replace(_AVERAGED, epochs=40, **_STRONG)),
}
# methods trained side by side
LOTS = {
    "start": ("start",),
    "average": ("average_ce", "average_half"),
    "plain": ("ce", "harmonic"),
    "scratch": ("scratch",),
    "sharp": ("average_sharp",),
    "smoothing": ("smoothing",),
    "smoothing_average": ("smoothing_average_ce", "smoothing_average_half"),
    "mixup": ("mixup",),
    "mixup_average": ("mixup_average_ce", "mixup_average_half"),
    "strong": ("strong",),
    "strong_average": ("strong_average_half", "strong_average_strong"),
}


def start_of(method: str) -> str:
    """The name in `STARTS` of the network that a method is compared with: for a recipe, the network that it tunes.

    >>> start_of("mixup_average_ce"), start_of("average_ce"), start_of("scratch")
    ('mixup', 'start', 'start')
    """
    first_word = method.partition("_")[0]
    return first_word if first_word in STARTS else "start"


@dataclass(frozen=True)
class TuningSpec(RunSpec):
    """One run of the experiment; `method` is a name of `METHODS`."""

    method: str = "start"

    @property
    def kind(self) -> str:
        """ "start", "tune" or "scratch"."""
        if self.start is not None:
            return "tune"
        return "start" if self.method in STARTS else self.method

    @property
    def name(self) -> str:
        """File name stem: recipe and start are in it.

        >>> tuning_spec("resnet18", "cifar10", "average_ce", 0).name
        'tune-cifar10-resnet18-average_ce-start0-seed0'
        >>> tuning_spec("resnet18", "cifar10", "mixup", 1).name
        'start-cifar10-resnet18-mixup-seed1'
        """
        if self.start is not None:
            return f"tune-{self.dataset}-{self.model}-{self.method}-start{self.seed}-seed{self.seed}"
        variant = "" if self.method == self.kind else f"-{self.method}"
        return f"{self.kind}-{self.dataset}-{self.model}{variant}-seed{self.seed}"

    @property
    def epochs_before(self) -> int:
        """Tuning goes on with the images that the start would have seen next."""
        return 0 if self.start is None else METHODS[start_of(self.method)][1].epochs


def tuning_spec(model: str, dataset: str, method: str, seed: int) -> TuningSpec:
    """A run of a method; recipes begin with their start of the same seed."""
    objective, recipe = METHODS[method]
    start = None
    if method not in STARTS and method != "scratch":
        start = tuning_spec(model, dataset, start_of(method), seed).name
    return TuningSpec(model, dataset, objective, seed, recipe, start, method)


def lot_specs(name: str, dataset: str, seeds: int) -> list[RunSpec]:
    """The runs of e.g. "resnet18:average", all seeds of them."""
    model, _, lot = name.partition(":")
    if lot not in LOTS:
        raise InputError(
            f"lot_specs: `name` must be network:lot with a lot out of {', '.join(LOTS)}, got {name!r}."
        )
    return [tuning_spec(model, dataset, method, seed) for seed in range(seeds) for method in LOTS[lot]]


# -------------------------------- how runs are judged

_LOOKS = 4  # how often a run is judged on the held-out images


class HeldOut(Setting):
    """Runs are judged on held-out images a few times, on the test set at their end, and beside their start."""

    def look(self, run: Run, feed: Feed | None) -> dict[str, np.ndarray]:
        """Logits of the weights that the run delivers, and of those not averaged."""
        if not run.finished and run.epoch % max(1, run.spec.recipe.epochs // _LOOKS):
            return {}
        if feed is not None:
            run.refresh(feed)
        parts = ("held_out", "test") if run.finished else ("held_out",)
        found = {part: run.logits(run.network, self.pixels, part) for part in parts}
        if run.averaged is not None:
            found["held_out_not_averaged"] = run.logits(run.model, self.pixels, "held_out")
        return found

    def scores(self, logits: dict[str, np.ndarray]) -> dict[str, Any]:
        """Scores on the held-out images; the log does not say how the test set does."""
        return {
            part: score_logits(z, self.labels["held_out"]) for part, z in logits.items() if part != "test"
        }

    def publish(
        self, spec: RunSpec, log: list[dict[str, Any]], logits: dict[str, np.ndarray], finished: bool
    ) -> None:
        """Write the result of a finished run and its logits; the numbers `from_float16` follow from those alone."""
        if not finished:
            return
        final = {part: logits[part] for part in self.labels}
        kept = {part: halved(z) for part, z in final.items()}
        result = {
            **self.describe(spec, log), "finished": True, "mode": self.mode, "compiled": self.compiled,
            "seconds": sum(entry["seconds"] for entry in log),
            **{part: score_logits(z, self.labels[part]) for part, z in final.items()},
            "from_float16": {part: score_logits(z, self.labels[part]) for part, z in kept.items()},
        }  # fmt: skip
        if spec.start is not None:
            start = self.store.load_output(spec.start)
            result["minus_start"] = {
                part: difference(z, start[part], self.labels[part]) for part, z in kept.items()
            }
        self.store.save_output(spec.name, final)
        self.store.save_result(spec.name, result)


def open_tuning(images: ImageSet, folder: str, *, device: str = "cpu", **options: Any) -> HeldOut:
    """Put the images on the device and get the folder ready; `options` as in `Setting`."""
    make_ready(device)
    parts = split(images)
    judged = {"held_out": images.train_images[parts.held_out], "test": images.test_images}
    pixels = Pixels(images.train_images[parts.trained], images.train_labels[parts.trained], judged, device)
    data = {
        "data": images.digest(), "split": parts.digest(), "trained_on": len(parts.trained),
        "held_out_images": len(parts.held_out),
    }  # fmt: skip
    return HeldOut(pixels, parts.labels, images.classes, data, Store(folder), **options)


def difference(logits: np.ndarray, start: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """0/1 AURC of a network minus that of its start on the same images, with the 95% interval over images.

    >>> logits = np.array([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]])
    >>> difference(logits, logits, np.array([0, 1, 1]))["p_value"]
    1.0
    """
    sides = [
        side
        for z in (logits, start)
        for side in (abstain.losses.zero_one(z, labels), abstain.scores.max_softmax(z))
    ]
    found = abstain.inference.paired_difference(*sides, metric="aurc")
    keys = ("difference", "standard_error", "low", "high", "p_value")
    return {key: float(getattr(found, key)) for key in keys}
