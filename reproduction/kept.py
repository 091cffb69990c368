"""The compact form of results in the repository: per experiment one archive of runs and one of test samples.

A folder of an experiment holds

- `runs.json.xz`: the result of every run, as a JSON list sorted by the runs' names,
- `samples.npz`: of the test samples of some runs, what AURC and its error bar read: the rank of the confidence, the 0/1
  loss and, where it was kept, the cross-entropy. Logits are not kept: ten to thirty times as large.

Both archives have the same bytes for the same content, whatever was added first.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import abstain
from abstain.errors import DataError

RUNS_ARCHIVE = "runs.json.xz"
SAMPLES_ARCHIVE = "samples.npz"

# -------------------------------- runs


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """All runs in the archive of `folder`, sorted by name; an empty list without an archive."""
    path = folder / RUNS_ARCHIVE
    if not path.is_file():
        return []
    return list(json.loads(lzma.decompress(path.read_bytes())))


def keep_runs(runs: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Add runs to the archive of `folder`; a run takes the place of the one of the same name.

    Numbers of the epochs (`log`) are rounded to seven digits. All others stay exact, because `verify` compares them
    with what the samples give.
    """
    by_name = {run["name"]: run for run in read_runs(folder)}
    for run in runs:
        by_name[run["name"]] = {**run, "log": _rounded(run["log"])}
    content = json.dumps([by_name[name] for name in sorted(by_name)], separators=(",", ":"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUNS_ARCHIVE).write_bytes(lzma.compress(content.encode(), preset=9 | lzma.PRESET_EXTREME))


def _rounded(value: Any) -> Any:
    """A copy of nested lists and dictionaries, with every float rounded to seven significant digits."""
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return float(f"{value:.7g}") if isinstance(value, float) else value


# -------------------------------- samples


@dataclass(frozen=True, eq=False)
class Samples:
    """What AURC reads of the test samples of one run, in the order of the test set."""

    rank: np.ndarray
    """Rank of each confidence among the distinct ones, 0 for the lowest: equal confidences have equal ranks."""
    wrong: np.ndarray
    """0/1 losses, as float64."""
    cross_entropy: np.ndarray | None = None
    """Cross-entropies to the precision of float32, as float64."""

    def __len__(self) -> int:
        return len(self.rank)

    def numbers(self) -> dict[str, float]:
        """Accuracy and 0/1 AURC, and mean and AURC of the cross-entropy if it was kept, by their names in a run."""
        numbers = {
            "accuracy": 1 - float(np.mean(self.wrong)),
            "aurc_01": float(abstain.aurc(self.wrong, self.rank)),
        }
        if self.cross_entropy is not None:
            numbers["nll"] = float(np.mean(self.cross_entropy))
            numbers["aurc_ce"] = float(abstain.aurc(self.cross_entropy, self.rank))
        return numbers


def samples_of(logits: np.ndarray, labels: np.ndarray, *, cross_entropy: bool) -> Samples:
    """Ranks of the maximum softmax and losses, from logits of shape (samples, classes) and class numbers."""
    _, rank = np.unique(abstain.scores.max_softmax(logits), return_inverse=True)
    wrong = np.asarray(abstain.losses.zero_one(logits, labels), dtype=np.float64)
    losses = np.asarray(abstain.losses.cross_entropy(logits, labels)) if cross_entropy else None
    return Samples(rank, wrong, losses)


def read_samples(folder: Path) -> dict[str, Samples]:
    """The samples in the archive of `folder`, by name of run; an empty dictionary without an archive."""
    path = folder / SAMPLES_ARCHIVE
    if not path.is_file():
        return {}
    with np.load(path) as archive:
        names = archive["runs"].tolist()
        counts = archive["counts"]
        ends = np.cumsum(counts)[:-1]
        rank = np.split(_from_byte_planes(archive["rank"], np.dtype("<u2")), ends)
        wrong = np.split(np.unpackbits(archive["wrong"], count=counts.sum()).astype(np.float64), ends)
        losses: list[np.ndarray | None] = [None] * len(names)
        if "cross_entropy" in archive:
            values = _from_byte_planes(archive["cross_entropy"], np.dtype("<f4"))
            losses = list(np.split(values.astype(np.float64), ends))
    columns = zip(names, rank, wrong, losses, strict=True)
    return {name: Samples(ranks, errors, entropies) for name, ranks, errors, entropies in columns}


def keep_samples(samples: Mapping[str, Samples], folder: Path) -> None:
    """Add samples to the archive of `folder`, by name of run; they take the place of those of the same run.

    Ranks are written as 16 bits, so a test set may have 65,536 distinct confidences. DataError if some runs of the
    archive have cross-entropies and others do not.
    """
    together = {**read_samples(folder), **samples}
    if not together:
        return
    names = sorted(together)
    rank = np.concatenate([together[name].rank for name in names])
    wrong = np.concatenate([together[name].wrong for name in names])
    columns: dict[str, Any] = {
        "runs": np.array(names),
        "counts": np.array([len(together[name]) for name in names]),
        "rank": _byte_planes(rank.astype("<u2")),
        "wrong": np.packbits(wrong.astype(bool)),
    }
    losses = [one.cross_entropy for _, one in sorted(together.items()) if one.cross_entropy is not None]
    if losses:
        if len(losses) < len(names):
            raise DataError(f"keep_samples: {folder} must hold cross-entropies of all runs or of none.")
        columns["cross_entropy"] = _byte_planes(np.concatenate(losses).astype("<f4"))
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / SAMPLES_ARCHIVE, **columns)


def _byte_planes(values: np.ndarray) -> np.ndarray:
    """The first bytes of all values, then all second bytes ...: shape (bytes of a value, values).

    The high bytes of neighbours are alike, so that they compress better than whole values do.
    """
    return np.ascontiguousarray(values.view(np.uint8).reshape(len(values), values.itemsize).T)


def _from_byte_planes(planes: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Undo `_byte_planes`."""
    return np.ascontiguousarray(planes.T).view(dtype)[:, 0]


# -------------------------------- kept samples as the study reads them


@dataclass(frozen=True, eq=False)
class KeptOutputs:
    """Test samples of one network trained here, with what the study reads of `Outputs`."""

    dataset: str
    model: str
    source: str
    samples: Samples
    aurc_by_score: dict[str, dict[str, float]]
    """AURC under each score and loss, computed when the logits were at hand."""

    @property
    def name(self) -> str:
        """One word for tables and files."""
        return f"{self.dataset}__{self.model}__{self.source}"

    def loss(self, kind: str) -> np.ndarray:
        """Losses of all samples: "01" or "ce"."""
        if kind == "01":
            return self.samples.wrong
        assert self.samples.cross_entropy is not None
        return self.samples.cross_entropy

    def score(self) -> np.ndarray:
        """Ranks of the maximum softmax, which give the same AURC."""
        return self.samples.rank

    def __len__(self) -> int:
        return len(self.samples)
