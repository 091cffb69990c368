"""The objectives compared in the fine-tuning table; all take logits and labels and use the MSP as confidence."""

from __future__ import annotations

from collections.abc import Callable

from torch.nn import functional

from abstain._arrays import Array
from abstain._check import check_choice
from abstain.paper.training.recipe import OBJECTIVES

TEMPERATURE = 0.5  # of the soft ranks
CE_SHARE = 0.1  # of cross-entropy beside the smooth 0/1 loss, which alone lets go of what it cannot get right

Objective = Callable[[Array, Array], Array]


def objective(name: str) -> Objective:
    """Loss function by name: "ce", the paper's "sele", "harmonic", "log", our "loo", "soft" and "smooth01"."""
    check_choice("objective", "name", name, OBJECTIVES)
    if name == "ce":
        return functional.cross_entropy
    from abstain.torch import aurc_loss, smooth_zero_one

    if name == "soft":
        return lambda z, y: aurc_loss(z, y, rank="soft", temperature=TEMPERATURE)
    if name == "smooth01":
        return lambda z, y: (
            aurc_loss(z, y, rank="soft", temperature=TEMPERATURE, criterion=smooth_zero_one)
            + CE_SHARE * functional.cross_entropy(z, y)
        )
    return lambda z, y: aurc_loss(z, y, estimator=name)
