"""Labelled image sets: folders of images, CIFAR-10 and CIFAR-100 from their standard archives, packed sets."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from abstain.errors import DataError
from reproduction import check_choice


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
        """A few images from all over each part, for trials; a set may be sorted by class."""
        some = np.linspace(0, len(self.train_labels) - 1, train).astype(int)
        few = np.linspace(0, len(self.test_labels) - 1, test).astype(int)
        return ImageSet(
            self.name, self.classes, self.train_images[some], self.train_labels[some],
            self.test_images[few], self.test_labels[few],
        )  # fmt: skip

    def __repr__(self) -> str:
        sizes = f"train={len(self.train_labels)}, test={len(self.test_labels)}"
        return f"ImageSet({self.name}, classes={self.classes}, {sizes})"


@dataclass(frozen=True)
class Split:
    """Which training samples are trained on and which are held out; `labels` of what a run is judged by."""

    trained: np.ndarray
    held_out: np.ndarray
    labels: dict[str, np.ndarray]

    def digest(self) -> str:
        """First 16 hex digits of the sha256 of the held-out indices."""
        return hashlib.sha256(self.held_out.astype(np.int64).tobytes()).hexdigest()[:16]


_SPLIT_SEED = 18  # one split for all runs, so that their held-out values can be compared


class Labelled(Protocol):
    """A set of samples with labels, for training and for test: all that a split reads."""

    @property
    def train_labels(self) -> np.ndarray: ...  # noqa: D102

    @property
    def test_labels(self) -> np.ndarray: ...  # noqa: D102


def split(samples: Labelled) -> Split:
    """Hold out a tenth of the training samples, as many of every class, always the same ones."""
    labels = samples.train_labels
    rng, classes = np.random.default_rng(_SPLIT_SEED), np.unique(labels)
    each = len(labels) // 10 // len(classes)
    held_out = np.sort(np.concatenate([rng.permutation(np.flatnonzero(labels == c))[:each] for c in classes]))
    trained = np.setdiff1d(np.arange(len(labels)), held_out)
    judged = {"held_out": labels[held_out], "test": np.asarray(samples.test_labels)}
    return Split(trained, held_out, judged)


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


def packed(name: str, folder: Path) -> ImageSet:
    """CIFAR from `images/<name>_test.npz` and `train/<name>_train_*of5.npz` under `folder`, as `pack` writes them.

    Without any training shard the training part is empty, which evaluation does not mind.
    """
    test = _test_shard(name, folder)
    shards = sorted((folder / "train").glob(f"{name}_train_*of{_SHARDS}.npz"))
    if not test.is_file():
        raise DataError(f"packed: {test} not found. Point ABSTAIN_DATA at the folder that has images/ in it.")
    with ThreadPoolExecutor() as pool:
        (test_images, test_labels), *parts = pool.map(unpack, [test, *shards])
    if not parts:
        parts = [(test_images[:0], test_labels[:0])]
    train_images, train_labels = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
    return ImageSet(name, CLASSES[name], train_images, train_labels, test_images, test_labels)


_SHARDS = 5
_COLUMNS = 100  # images side by side in a mosaic


def _test_shard(name: str, folder: Path) -> Path:
    return folder / "images" / f"{name}_test.npz"


def pack(images: ImageSet, to: Path) -> Iterator[Path]:
    """Write a set as the files that `packed` reads, to carry it to another machine; each is named when written.

    A lossless mosaic takes half of what the same images take as single PNG files.
    """
    lots = np.array_split(np.arange(len(images.train_labels)), _SHARDS)
    for i, lot in enumerate(lots, start=1):
        path = to / "train" / f"{images.name}_train_{i}of{_SHARDS}.npz"
        yield _packed_shard(path, images.train_images[lot], images.train_labels[lot])
    yield _packed_shard(_test_shard(images.name, to), images.test_images, images.test_labels)


def _packed_shard(path: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    from PIL import Image

    n, height, width, channels = images.shape
    rows = -(-n // _COLUMNS)
    grid = np.zeros((rows * _COLUMNS, height, width, channels), dtype=np.uint8)
    grid[:n] = images
    mosaic = grid.reshape(rows, _COLUMNS, height, width, channels).transpose(0, 2, 1, 3, 4)
    picture = Image.fromarray(mosaic.reshape(rows * height, _COLUMNS * width, channels))
    encoded = io.BytesIO()
    picture.save(encoded, "webp", lossless=True, quality=100, method=6)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path, webp=np.frombuffer(encoded.getvalue(), dtype=np.uint8), labels=labels.astype(np.uint8),
        grid=np.array([rows, _COLUMNS]), image_shape=np.array(images.shape[1:]),
        raw_sha256=hashlib.sha256(images.tobytes()).hexdigest(),
    )  # fmt: skip
    return path


def data_folder(given: str | Path | None = None) -> Path:
    """The folder of real data: the argument, or the variable ABSTAIN_DATA."""
    named = given or os.environ.get("ABSTAIN_DATA")
    if not named:
        raise DataError("data_folder: no data folder given. Pass --data or set the variable ABSTAIN_DATA.")
    return Path(named)


def load_images(name: str, folder: str | Path | None = None) -> ImageSet:
    """An image set by name: packed CIFAR, an image folder `name`/ (or the folder itself), or a standard archive."""
    where = data_folder(folder)
    if name in CLASSES and _test_shard(name, where).is_file():
        return packed(name, where)
    for place in (where / name, where):
        if all((place / part).is_dir() for part in PARTS):
            return image_folder(name, place)
    return archived_cifar(name, where)


# -------------------------------- image folders: one sub-folder per class under train/ and test/

PARTS = ("train", "test")
_ENDINGS = (".jpeg", ".jpg", ".png")


def image_files(folder: Path) -> list[tuple[Path, int]]:
    """Images and class numbers of a folder with one sub-folder per class (sorted names are classes 0, 1, ...)."""
    classes = sorted(part for part in folder.iterdir() if part.is_dir())
    files = [
        (path, number)
        for number, part in enumerate(classes)
        for path in sorted(part.iterdir())
        if path.suffix.lower() in _ENDINGS
    ]
    if not files:
        raise DataError(
            f"image_files: {folder} must hold one folder per class with images in it, found none."
        )
    return files


def image_folder(name: str, folder: Path) -> ImageSet:
    """Images of one size under `train/CLASS/` and `test/CLASS/`, in the order of their names.

    CIFAR-100's class numbers are those of its sorted class names, so a folder of it has the standard labels, though
    not the standard order of images.
    """
    classes, other = (sorted(p.name for p in (folder / part).iterdir() if p.is_dir()) for part in PARTS)
    if classes != other:
        odd = sorted(set(classes) ^ set(other))
        raise DataError(
            f"image_folder: train/ and test/ of {folder} must have the same classes; differing: {odd}."
        )
    (train_images, train_labels), (test_images, test_labels) = (_decoded(folder / part) for part in PARTS)
    return ImageSet(name, len(classes), train_images, train_labels, test_images, test_labels)


def _decoded(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    files = image_files(folder)
    first = _pixels(files[0][0])
    images = np.empty((len(files), *first.shape), dtype=np.uint8)

    def put(i: int) -> None:
        pixels = _pixels(files[i][0])
        if pixels.shape != first.shape:
            raise DataError(
                f"image_folder: all images must have one size, got {first.shape[:2]} and {pixels.shape[:2]} "
                f"({files[i][0]})."
            )
        images[i] = pixels

    with ThreadPoolExecutor() as pool:
        for _ in pool.map(put, range(len(files))):
            pass
    return images, np.array([number for _, number in files], dtype=np.int64)


def _pixels(path: Path) -> np.ndarray:
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


# -------------------------------- standard archives, python or binary version, packed or unpacked


@dataclass(frozen=True)
class _Layout:
    """File names of one archive: training members, test member, and how many label bytes lead each record."""

    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    labels: str = ""  # key of the labels in a python-version file
    label_bytes: int = 0  # of a record of the binary version; the last one is the class


_TEN = tuple(f"data_batch_{i}" for i in range(1, 6))
LAYOUTS = {
    "cifar10": (
        _Layout("cifar-10-batches-py", "cifar-10-python.tar.gz", _TEN, "test_batch", labels="labels"),
        _Layout(
            "cifar-10-batches-bin", "cifar-10-binary.tar.gz", tuple(f"{b}.bin" for b in _TEN), "test_batch.bin",
            label_bytes=1,
        ),
    ),
    "cifar100": (
        _Layout("cifar-100-python", "cifar-100-python.tar.gz", ("train",), "test", labels="fine_labels"),
        _Layout("cifar-100-binary", "cifar-100-binary.tar.gz", ("train.bin",), "test.bin", label_bytes=2),
    ),
}  # fmt: skip
CLASSES = {"cifar10": 10, "cifar100": 100}


def archived_cifar(name: str, folder: Path) -> ImageSet:
    """CIFAR from `folder`, which holds one of the standard archives or what it unpacks to."""
    check_choice("archived_cifar", "name", name, tuple(LAYOUTS))
    for layout in LAYOUTS[name]:
        if (folder / layout.folder).is_dir():
            return _from_folder(name, layout, folder / layout.folder)
        if (folder / layout.archive).is_file():
            return _from_tar(name, layout, folder / layout.archive)
    wanted = ", ".join(f"{part.folder}/ or {part.archive}" for part in LAYOUTS[name])
    raise DataError(
        f"archived_cifar: {folder} has none of {wanted}. Download one from the dataset's own page, or "
        f"put its images there as {name}/train/CLASS/*.png and {name}/test/CLASS/*.png."
    )


def _from_folder(name: str, layout: _Layout, folder: Path) -> ImageSet:
    return _load(name, layout, lambda member: (folder / member).read_bytes())


def _from_tar(name: str, layout: _Layout, path: Path) -> ImageSet:
    with tarfile.open(path) as archive:

        def read(member: str) -> bytes:
            file = archive.extractfile(f"{layout.folder}/{member}")
            if file is None:
                raise DataError(f"archived_cifar: {path} has no member {layout.folder}/{member}.")
            return file.read()

        return _load(name, layout, read)


def _load(name: str, layout: _Layout, read: Callable[[str], bytes]) -> ImageSet:
    parts = [_decode(read(member), layout) for member in layout.train]
    images, labels = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return ImageSet(name, CLASSES[name], images, labels, *_decode(read(layout.test), layout))


def _decode(content: bytes, layout: _Layout) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 32, 32, 3) and labels of one member; both versions store planes of red, green, blue."""
    if layout.label_bytes:
        records = np.frombuffer(content, dtype=np.uint8).reshape(-1, layout.label_bytes + 3072)
        labels, planes = records[:, layout.label_bytes - 1], records[:, layout.label_bytes :]
    else:
        table = {_text(k): v for k, v in _Unpickler(io.BytesIO(content), encoding="bytes").load().items()}
        labels, planes = np.asarray(table[layout.labels]), np.asarray(table["data"], dtype=np.uint8)
    images = planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), labels.astype(np.int64)


def _text(key: Any) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)


class _Unpickler(pickle.Unpickler):
    """Reads numpy arrays, lists and strings, and refuses everything else: a pickle can run any code."""

    _ALLOWED = frozenset({"_reconstruct", "ndarray", "dtype", "encode", "_frombuffer", "scalar"})

    def find_class(self, module: str, name: str) -> Any:
        """Only what numpy arrays are made of."""
        if name in self._ALLOWED and module.split(".")[0] in ("numpy", "_codecs"):
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise DataError(
            f"archived_cifar: the file asks for {module}.{name}, which no CIFAR batch needs. Not loaded."
        )
