"""What a run is: network, objective, seed, schedule. A run's name and file follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reproduction import Array, check_choice

PAPERS = ("ce", "sele", "harmonic", "log")  # objectives of the paper's table
OBJECTIVES = (*PAPERS, "loo", "soft", "smooth01")


@dataclass(frozen=True)
class Recipe:
    """How to train: the defaults are the paper's fine-tuning (30 epochs, learning rate 1e-3, batch 128).

    With `averaged`, a run delivers the mean of its weights after each epoch, batch norm refreshed. `sharpness` is the
    length of the ascent step of sharpness-aware minimisation; 0 leaves it out. `mixup` is the parameter of the Beta
    distribution from which mixup draws the share of an image in a mixture; 0 leaves it out. With `mixup_beside` a
    batch holds its images unmixed too, half of it each, as RegMixup does.
    """

    epochs: int = 30
    batch: int = 128
    peak: float = 1e-3
    schedule: str = "constant"
    momentum: float = 0.9
    weight_decay: float = 5e-4
    nesterov: bool = True
    cutout: int = 0
    averaged: bool = False
    sharpness: float = 0.0
    mixup: float = 0.0
    mixup_beside: bool = False

    def rate(self, progress: float) -> float:
        """Learning rate when the share `progress` of all steps is done."""
        if self.schedule == "constant":
            return self.peak
        # one cycle: up in a straight line over the first quarter, down in a straight line to zero
        rise = 0.25
        return self.peak * (progress / rise if progress < rise else (1 - progress) / (1 - rise))


def pretraining(epochs: int, cutout: int = 8) -> Recipe:
    """One cycle at batch 512: reaches in 50 epochs what step schedules need 200 for."""
    return Recipe(epochs=epochs, batch=512, peak=0.4, schedule="one-cycle", cutout=cutout)


@dataclass(frozen=True)
class RunSpec:
    """One training run. `start` names the run whose weights it begins with."""

    model: str
    dataset: str
    objective: str
    seed: int
    recipe: Recipe
    start: str | None = None

    @property
    def kind(self) -> str:
        """Whether weights start from scratch."""
        return "pretrain" if self.start is None else "finetune"

    @property
    def name(self) -> str:
        """File name stem, e.g. "finetune-cifar10-resnet18-harmonic-seed0"."""
        return f"{self.kind}-{self.dataset}-{self.model}-{self.objective}-seed{self.seed}"

    @property
    def epochs_before(self) -> int:
        """Number of the epoch whose images it begins with."""
        return 0

    def describe(self) -> dict[str, Any]:
        """Plain values for the result file."""
        return {**asdict(self), "kind": self.kind, "name": self.name}


def epoch_rng(seed: int, epoch: int) -> np.random.Generator:
    """Randomness of one epoch of one seed: the same for every objective, and after a restart."""
    return np.random.default_rng(np.random.SeedSequence([seed, epoch]))


# -------------------------------- objectives: all take logits and labels and use the MSP as confidence

TEMPERATURE = 0.5  # of the soft ranks
LABEL_SMOOTHING = 0.1  # the usual share of a label that is spread over all classes
CE_SHARE = 0.1  # of cross-entropy beside the smooth 0/1 loss, which alone lets go of what it cannot get right

Objective = Callable[[Array, Array], Array]


def objective(name: str) -> Objective:
    """Loss function by name: "ce", the paper's "sele", "harmonic", "log", our "loo", "soft" and "smooth01"; and
    "half", cross-entropy and harmonic AURC in equal parts, and "smoothed", cross-entropy with smoothed labels.
    """
    from torch.nn import functional

    check_choice("objective", "name", name, (*OBJECTIVES, "half", "smoothed"))
    if name == "ce":
        return functional.cross_entropy
    if name == "smoothed":
        return lambda z, y: functional.cross_entropy(z, y, label_smoothing=LABEL_SMOOTHING)
    from abstain.torch import aurc_loss, smooth_zero_one

    if name == "half":
        return lambda z, y: aurc_loss(z, y, mix=0.5)
    if name == "soft":
        return lambda z, y: aurc_loss(z, y, rank="soft", temperature=TEMPERATURE)
    if name == "smooth01":
        return lambda z, y: (
            aurc_loss(z, y, rank="soft", temperature=TEMPERATURE, criterion=smooth_zero_one)
            + CE_SHARE * functional.cross_entropy(z, y)
        )
    estimator: Any = name
    return lambda z, y: aurc_loss(z, y, estimator=estimator)


# -------------------------------- how expensive the networks are beside each other, before any of them was timed

# multiply-adds of one 32x32 image in units of 1e9, raised where memory traffic rather than arithmetic decides
COST = {
    "resnet18": 0.56,
    "resnet34": 1.16,
    "resnet50": 2.3,  # an epoch of pre-training took twice ResNet-34's
    "vgg13_bn": 0.23,
    "vgg16_bn": 0.31,
    "vgg19_bn": 0.40,
    "preresnet20": 0.3,
    "preresnet56": 0.9,
    "preresnet110": 1.8,
    "preresnet164": 2.6,
    "wideresnet28_10": 4.9,  # an epoch of pre-training took 8.8 times ResNet-18's
}
