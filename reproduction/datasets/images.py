"""A labelled image set in memory, and the packed form of CIFAR-10 (lossless WebP mosaics in npz files)."""

from __future__ import annotations

import hashlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from abstain.errors import DataError


@dataclass(frozen=True)
class ImageSet:
    """Images as uint8 (n, height, width, 3) and labels as int64, for training and for test."""

    name: str
    classes: int
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    def digest(self) -> str:
        """First 16 hex digits of the sha256 of all pixels and labels: which data a result belongs to."""
        hasher = hashlib.sha256()
        for part in (self.train_images, self.train_labels, self.test_images, self.test_labels):
            hasher.update(np.ascontiguousarray(part).tobytes())
        return hasher.hexdigest()[:16]

    def head(self, train: int, test: int) -> ImageSet:
        """The first few images, for trials."""
        return ImageSet(
            self.name, self.classes, self.train_images[:train], self.train_labels[:train],
            self.test_images[:test], self.test_labels[:test],
        )  # fmt: skip

    def __repr__(self) -> str:
        sizes = f"train={len(self.train_labels)}, test={len(self.test_labels)}"
        return f"ImageSet({self.name}, classes={self.classes}, {sizes})"


def unpack(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of one packed shard; the pixels are checked against the stored sha256."""
    from PIL import Image

    with np.load(path) as shard:
        encoded, labels = shard["webp"].tobytes(), shard["labels"].astype(np.int64)
        rows, columns = (int(v) for v in shard["grid"])
        height, width, channels = (int(v) for v in shard["image_shape"])
        expected = str(shard["raw_sha256"])
    mosaic = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    grid = mosaic.reshape(rows, height, columns, width, channels).transpose(0, 2, 1, 3, 4)
    images = np.ascontiguousarray(grid.reshape(-1, height, width, channels)[: len(labels)])
    if hashlib.sha256(images.tobytes()).hexdigest() != expected:
        raise DataError(
            f"unpack: {path.name} does not decode to the pixels it was packed from. Fetch it again."
        )
    return images, labels


def packed_cifar10(folder: Path) -> ImageSet:
    """CIFAR-10 from `images/cifar10_test.npz` and `train/cifar10_train_*of5.npz` under `folder`.

    Without any training shard the training part is empty, which evaluation does not mind.
    """
    test = folder / "images" / "cifar10_test.npz"
    shards = sorted((folder / "train").glob("cifar10_train_*of5.npz"))
    if not test.is_file():
        raise DataError(
            f"packed_cifar10: {test} not found. Point ABSTAIN_DATA at the folder that has images/ in it."
        )
    with ThreadPoolExecutor() as pool:
        (test_images, test_labels), *parts = pool.map(unpack, [test, *shards])
    if not parts:
        parts = [(test_images[:0], test_labels[:0])]
    train_images, train_labels = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
    return ImageSet("cifar10", 10, train_images, train_labels, test_images, test_labels)


def data_folder(given: str | Path | None = None) -> Path:
    """The folder of real data: the argument, or the variable ABSTAIN_DATA."""
    named = given or os.environ.get("ABSTAIN_DATA")
    if not named:
        raise DataError("data_folder: no data folder given. Pass --data or set the variable ABSTAIN_DATA.")
    return Path(named)


def load_images(name: str, folder: str | Path | None = None) -> ImageSet:
    """CIFAR-10 or CIFAR-100, from standard archives under `folder` or, for CIFAR-10, its packed form."""
    where = data_folder(folder)
    if name == "cifar10" and (where / "images" / "cifar10_test.npz").is_file():
        return packed_cifar10(where)
    from abstain.paper.datasets.archives import archived_cifar

    return archived_cifar(name, where)
