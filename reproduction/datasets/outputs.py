"""What a model said about a test set: logits or probabilities beside the labels, from files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import abstain
from abstain.errors import DataError, InputError

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
