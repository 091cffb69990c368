"""Training images on the device, shuffled, cropped and flipped there in one gather per batch."""

from __future__ import annotations

import numpy as np
import torch

from abstain._arrays import Array
from abstain.paper.training.recipe import epoch_rng

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
