"""Results that come with the package: the study, the training runs, and outputs to check them by."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError
from abstain.paper.datasets.outputs import Outputs, read_npz
from abstain.paper.finetuned import RESULTS, load_runs
from abstain.paper.training.scoring import score_logits

STUDY = RESULTS / "study.json.gz"


def save_study(study: dict[str, Any], path: Path) -> None:
    """Write a study, compressed when the name ends in .gz; the same numbers give the same bytes."""
    content = json.dumps(study, separators=(",", ":")).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def load_study(path: Path = STUDY) -> dict[str, Any]:
    """Read a study written by `save_study`."""
    if not path.is_file():
        raise DataError(f"load_study: {path} not found. Make it with `python -m abstain.paper study`.")
    content = path.read_bytes()
    return dict(json.loads(gzip.decompress(content) if path.suffix == ".gz" else content))


def kept_outputs() -> list[Outputs]:
    """Outputs of the networks trained here, for the studies over several models of one architecture."""
    return [read_npz(path) for path in sorted((RESULTS / "outputs").glob("*.npz"))]


@dataclass(frozen=True)
class Checked:
    """One set of kept outputs recomputed: the largest gap to the numbers its run wrote down."""

    name: str
    run: str
    gap: float
    numbers: dict[str, float]

    @property
    def good(self) -> bool:
        """Equal up to rounding."""
        return self.gap < 1e-9


def verify() -> list[Checked]:
    """Recompute accuracy and AURC of all kept outputs and compare them with the runs' own records."""
    runs = {run["name"]: run for run in load_runs()}
    demo = Path(str(files("abstain"))) / "data"
    checked = []
    for path in [*sorted((RESULTS / "outputs").glob("*.npz")), *sorted(demo.glob("*.npz"))]:
        with np.load(path) as file:
            if "run" not in file:
                continue
            run, logits, labels = str(file["run"]), file["logits"].astype(np.float32), file["labels"]
        numbers = score_logits(logits, labels.astype(np.int64))
        written = runs[run]["from_float16"]
        gap = max(abs(numbers[key] - written[key]) for key in numbers)
        checked.append(Checked(path.stem, run, gap, numbers))
    return checked
