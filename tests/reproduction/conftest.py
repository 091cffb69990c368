"""A network and images small enough to train in a test."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from reproduction.data import ImageSet
from reproduction.networks import MODELS, Head


class Tiny(nn.Module):
    """One convolution, one norm, a head."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())
        self.head = Head(6, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def tiny_images(train: int = 96, test: int = 40, side: int = 8) -> ImageSet:
    """Three classes that differ in colour, with noise."""
    rng = np.random.default_rng(0)

    def draw(n):
        labels = rng.integers(0, 3, n)
        pixels = rng.normal(110, 50, (n, side, side, 3))
        pixels[np.arange(n), :, :, labels] += 25
        return pixels.clip(0, 255).astype(np.uint8), labels

    return ImageSet("tiny", 3, *draw(train), *draw(test))


@pytest.fixture
def tiny(monkeypatch):
    """Images, with the tiny network known under the name "tiny"."""
    monkeypatch.setitem(MODELS, "tiny", Tiny)
    torch.set_num_threads(1)
    return tiny_images()
