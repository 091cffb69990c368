"""Networks by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from abstain._arrays import Array
from abstain._check import check_choice
from abstain.paper.models.preresnet import preresnet, wide_resnet
from abstain.paper.models.resnet import cifar_resnet, resnet
from abstain.paper.models.vgg import VGG

MODELS: dict[str, Callable[[int], Array]] = {
    **{f"vgg{d}_bn": partial(VGG, d) for d in (13, 16, 19)},
    **{f"resnet{d}": partial(resnet, d) for d in (18, 34, 50)},
    **{f"resnet{d}": partial(cifar_resnet, d) for d in (20, 32, 44, 56, 110, 164)},
    **{f"preresnet{d}": partial(preresnet, d) for d in (20, 56, 110, 164)},
    "wideresnet28_10": partial(wide_resnet, 28, 10),
}


def build(name: str, classes: int = 10) -> Array:
    """A freshly initialised network by name, e.g. "resnet18"; see `MODELS`."""
    check_choice("build", "name", name, tuple(MODELS))
    return MODELS[name](classes)


def parameter_count(model: Array) -> int:
    """Number of trained values."""
    return sum(p.numel() for p in model.parameters())
